// SPDX-License-Identifier: BSD-2-Clause
// TX contexts: a command queue, its events, and its outstanding operations.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi.h"

static const enum kit_cntr_kind cntr_of[CXI_TX_KIND_NUM] = {
	[CXI_TX_SEND] = KIT_CNTR_SEND,	  [CXI_TX_READ] = KIT_CNTR_READ,  [CXI_TX_WRITE] = KIT_CNTR_WRITE,
	[CXI_TX_ATOMIC] = KIT_CNTR_WRITE, [CXI_TX_FETCH] = KIT_CNTR_READ,
};

void cxi_ep_gate(struct cxi_ep *ep)
{
	static const uint8_t no;
	/* where it is "no" the long question knows why */
	const uint8_t *mark = ep->kit.enabled ? ep->domain->kit.fork_mark : &no;

	ep->tx_mark = ep->txc ? mark : &no;
	ep->rx_mark = ep->rxc ? mark : &no;
}

int cxi_ep_state(struct cxi_ep *ep)
{
	if (kit_is_forked(&ep->domain->kit))
		return -FI_EIO;
	if (likely(ep->kit.enabled))
		return 0;
	return ep->kind == CXI_ALIAS ? cxi_alias_sync(ep) : -FI_EOPBADSTATE;
}

int cxi_tx_state_any(struct cxi_ep *ep)
{
	int ret = cxi_ep_state(ep);

	return ret ? ret : ep->txc ? 0 : -FI_ENOSYS;
}

int cxi_rx_state_any(struct cxi_ep *ep)
{
	int ret = cxi_ep_state(ep);

	return ret ? ret : ep->rxc ? 0 : -FI_ENOSYS;
}

/* --- operations --- */

struct cxi_tx *cxi_tx_get(struct cxi_ep *ep, enum cxi_tx_kind kind, uint64_t flags, void *context)
{
	return likely(ep->txc->used < ep->txc->max) ? cxi_tx_more(ep, kind, flags, context) : NULL;
}

struct cxi_tx *cxi_tx_more(struct cxi_ep *ep, enum cxi_tx_kind kind, uint64_t flags, void *context)
{
	struct cxi_txc *t = ep->txc;
	struct cxi_tx *tx = slab_get(&t->txs);

	if (unlikely(!tx))
		return NULL;
	t->used++;
	tx->ep = ep;
	tx->txc = t;
	tx->portal = ep->portal;
	tx->context = context;
	tx->flags = flags;
	tx->kind = (uint8_t)kind;
	tx->wants_cqe = kit_tx_wants_cqe(&ep->kit, flags);
	tx->has_cntr = ep->kit.cntr[cntr_of[kind]] != NULL;
	tx->internal = tx->canceled = tx->is_held = tx->is_silent = false;
	tx->done = NULL;
	tx->own = NULL;
	tx->wait = 0;
	tx->rc = CASSINI_RC_OK;
	tx->tx_id = -1;
	tx->rdzv_id = -1;
	tx->tries = 0;
	return tx;
}

void cxi_tx_put(struct cxi_tx *tx)
{
	struct cxi_txc *t = tx->txc;

	if (unlikely(tx->tx_id >= 0))
		cxi_tx_id_put(tx->portal, (unsigned)tx->tx_id);
	if (unlikely(tx->rdzv_id >= 0))
		cxi_rdzv_id_put(tx->portal, (unsigned)tx->rdzv_id);
	if (unlikely(tx->own))
		mem_free(tx->own);
	t->used--;
	slab_put(&t->txs, tx);
}

static void count(const struct cxi_tx *tx, uint64_t ok, uint64_t err)
{
	if (unlikely(tx->done != NULL))
		cassini_ct_add(tx->done, ok, err);
	if (unlikely(err && tx->cmd.ct && (tx->cmd.flags & CASSINI_CMD_CT_SUCCESS)))
		cassini_ct_add(tx->cmd.ct, 0, err);
	if (unlikely(tx->has_cntr))
		cxi_cntr_count(tx->ep->kit.cntr[cntr_of[tx->kind]], ok ? tx->len : 0, ok, err);
}

void cxi_tx_fail(struct cxi_tx *tx, int err, int prov_errno)
{
	struct cxi_ep *ep = tx->ep;
	struct fi_cq_err_entry e = {
		.op_context = tx->context,
		.flags = tx->cqe_flags,
		.len = tx->len,
		.tag = tx->tag,
		.err = err,
		.prov_errno = prov_errno,
	};

	if (!tx->internal) {
		if (err != FI_ECANCELED)
			LOG_INFO("request to NIC %#x PID %u: error %d (%s)", tx->dest.nic, tx->dest.pid, prov_errno,
				 cxi_strerror((unsigned)prov_errno));
		count(tx, 0, 1);
		if (tx->is_silent && !ep->kit.closing)
			kit_ep_late_error(&ep->kit, err, prov_errno, cxi_strerror((unsigned)prov_errno),
					  cassini_is_far(ep->domain->nic, tx->dest.nic));
		else if (ep->kit.tx_cq && !ep->kit.closing)
			kit_cq_push_err(ep->kit.tx_cq, &e, NULL, 0);
	}
	cxi_tx_put(tx);
}

void cxi_tx_done(struct cxi_tx *tx, uint8_t rc)
{
	if (unlikely(rc != CASSINI_RC_OK)) {
		cxi_tx_fail(tx, rc == CASSINI_RC_CANCELED ? FI_ECANCELED : cxi_errno(rc), rc);
		return;
	}
	if (likely(!tx->internal)) {
		count(tx, 1, 0);
		if (tx->wants_cqe)
			kit_cq_push(tx->ep->kit.tx_cq, tx->context, tx->cqe_flags, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
	}
	cxi_tx_put(tx);
}

int cxi_post(struct cxi_tx *tx)
{
	struct cxi_txc *t = tx->txc;
	int ret;

	if (unlikely(cassini_eq_free(t->eq) < t->eq_low))
		return -FI_EAGAIN;
	if (unlikely(tx->flags & FI_FENCE)) {
		ret = cassini_fence(t->cmdq);
		if (ret)
			return ret;
		tx->flags &= ~FI_FENCE; /* a retry of this command fences no more */
	}
	if (unlikely(tx->flags & FI_MORE))
		tx->cmd.flags |= CASSINI_CMD_MORE;
	tx->cmd.user_ptr = (uintptr_t)&tx->req;
	tx->cmd.eq = t->eq;
	cxi_cps_use(&t->cps, t->cmdq, tx->cmd.dom);
	return cassini_post(t->cmdq, &tx->cmd);
}

int cxi_tx_start(struct cxi_tx *tx, const struct cxi_work *work)
{
	struct cassini_cmdq *q;
	int ret;

	if (likely(!work || !work->trig))
		return cxi_post(tx);
	ret = cxi_dwq_get(tx->txc->domain, cassini_dom_vni(tx->cmd.dom), tx->txc->tclass, &q);
	if (ret)
		return ret;
	/* Its end is told by the counter alone, unless a completion was asked for. */
	tx->wants_cqe = tx->wants_cqe && (tx->flags & FI_COMPLETION);
	tx->has_cntr = false;
	if (tx->wait & (uint8_t)~CXI_WAIT_ACK)
		tx->done = work->done; /* more than the target's answer must come */
	else if (work->done) /* a message that is refused may be sent again */
		tx->cmd.flags |= CASSINI_CMD_CT_ACK | (tx->kind == CXI_TX_SEND ? CASSINI_CMD_CT_SUCCESS : 0);
	tx->cmd.ct = tx->done ? NULL : work->done;
	tx->cmd.user_ptr = (uintptr_t)&tx->req;
	tx->cmd.eq = tx->txc->eq;
	return cassini_post_trig(q, work->trig, work->threshold, &tx->cmd);
}

/* --- the context --- */

/*
 * A shared context does not know whose a failed send was. Flow control does not count sends that nobody remembers: its
 * notice follows them to the peer, in order, and says too little until all that were refused have come back.
 */
void cxi_txc_gate(struct cxi_txc *t)
{
	t->forgets_of = t->ep && !t->fc && !t->ep->is_rnr ? t->ep : NULL;
}

int cxi_txc_open(struct cxi_domain *d, const struct cxi_key *key, uint32_t tclass, size_t size, struct cxi_txc **out)
{
	struct cxi_txc *t = mem_alloc(sizeof(*t));
	struct cassini_cmdq_attr attr = {.depth = (uint32_t)size + 64, .on_lost = cxi_send_lost, .ctx = t};
	uint32_t slots = (uint32_t)size * 2 + 64;
	int ret;

	if (!t)
		return -FI_ENOMEM;
	LIST_INSERT_HEAD(&d->txcs, t, all);
	t->domain = d;
	t->max = (uint32_t)size;
	t->tclass = tclass;
	ret = slab_init(&t->txs, sizeof(struct cxi_tx), CACHE_LINE, 64, 0);
	ret = ret ? ret : cassini_eq_open(d->lni, slots, 0, &t->eq);
	ret = ret ? ret : cxi_cp_open(d, key->vni, tclass, &t->cp);
	attr.cp = t->cp;
	ret = ret ? ret : cassini_cmdq_open(d->lni, &attr, &t->cmdq);
	if (ret) {
		cxi_txc_close(t);
		return ret;
	}
	/* above this fill senders are told to come again: FI_CXI_CQ_FILL_PERCENT */
	t->eq_low = (uint32_t)((uint64_t)slots * (100 - (uint64_t)d->params.cq_fill_percent) / 100);
	*out = t;
	return 0;
}

static void own_free(void *tx, void *arg)
{
	(void)arg;
	mem_free(((struct cxi_tx *)tx)->own);
}

void cxi_txc_close(struct cxi_txc *t)
{
	if (!t)
		return;
	cassini_cmdq_close(t->cmdq);
	if (t->eq) {
		cassini_eq_forget(t->domain->lni, t->eq); /* deferred work has another queue */
		cxi_drain(t->eq);
	}
	cxi_fc_fini(t);
	cxi_rnr_fini(t);
	cassini_eq_close(t->eq);
	cxi_cps_close(&t->cps);
	if (t->cp)
		cassini_cp_close(t->cp);
	slab_foreach(&t->txs, own_free, NULL); /* of those that will not hear of their end any more */
	slab_fini(&t->txs);
	LIST_REMOVE(t, all);
	mem_free(t);
}

bool cxi_txc_has_timers(const struct cxi_txc *t)
{
	return unlikely(t->fc || !cxi_rnr_is_idle(t));
}

int cxi_txc_timers(struct cxi_txc *t)
{
	uint64_t now_ns;

	if (!cxi_txc_has_timers(t))
		return 0;
	now_ns = cassini_now_ns(t->domain->nic);
	return (t->fc ? cxi_fc_timers(t, now_ns) : 0) + (cxi_rnr_is_idle(t) ? 0 : cxi_rnr_timers(t, now_ns));
}
