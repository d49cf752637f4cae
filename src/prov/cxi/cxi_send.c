// SPDX-License-Identifier: BSD-2-Clause
// Sends: the calls, the choice of a command, and the events that end them.
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi.h"

#define SENDMSG_FLAGS (FI_INJECT | FI_COMPLETION | FI_MORE | FI_FENCE | FI_REMOTE_CQ_DATA | CXI_LEVELS)

enum cxi_proto cxi_select_proto(const struct cxi_params *p, size_t len, bool inject, bool triggered, bool rnr)
{
	if (!len)
		return CXI_P_ZERO;
	if (!triggered && (inject || (len <= CASSINI_IDC_MAX && !p->disable_non_inject_msg_idc)))
		return CXI_P_IDC;
	if (rnr || len <= p->rdzv_threshold + p->rdzv_get_min)
		return CXI_P_EAGER;
	return CXI_P_RDZV;
}

/* --- commands ------------------------------------------------------------------------------------ */

/* @tx: NULL: nothing of it is remembered, so it has no ids, and is none of RNR's. */
static inline uint64_t match_bits(const struct cxi_send_args *a, const struct cxi_tx *tx)
{
	uint64_t bits = a->tagged ? a->tag : 0;

	if (unlikely(tx && tx->ep->is_rnr))
		return bits | (a->flags & FI_REMOTE_CQ_DATA ? CXI_RNR_CQ_DATA : 0) | (a->tagged ? CXI_RNR_TAGGED : 0) |
		       FIELD_PREP(CXI_RNR_VNI, cassini_dom_vni(tx->cmd.dom));
	if (a->tagged)
		bits |= CXI_MB_TAGGED;
	if (a->flags & FI_REMOTE_CQ_DATA)
		bits |= CXI_MB_CQ_DATA;
	if (unlikely(tx && tx->tx_id >= 0))
		bits |= CXI_MB_MATCH_COMP | FIELD_PREP(CXI_MB_TX_ID, (uint64_t)tx->tx_id);
	if (unlikely(tx && tx->rdzv_id >= 0))
		bits |= FIELD_PREP(CXI_MB_RDZV_HI, (uint64_t)tx->rdzv_id >> 8);
	return bits;
}

/* Ids that this message needs: of a rendezvous, or to be told when it is matched. */
static int take_ids(struct cxi_tx *tx, enum cxi_proto proto)
{
	int id;

	if (proto == CXI_P_RDZV) { /* its Get says that it was matched */
		id = cxi_rdzv_id_get(tx->portal, tx, tx->tagged);
		if (id < 0)
			return id;
		tx->rdzv_id = id;
		tx->wait |= CXI_WAIT_GET;
	} else if (unlikely((tx->flags & FI_MATCH_COMPLETE) && !tx->ep->is_rnr)) {
		id = cxi_tx_id_get(tx->portal, tx);
		if (id < 0)
			return id;
		tx->tx_id = (int16_t)id;
		tx->wait |= CXI_WAIT_MATCH;
	}
	return 0;
}

/* What only a rendezvous says. */
static void build_rdzv(struct cassini_cmd *cmd, const struct cxi_tx *tx)
{
	cmd->opcode = CASSINI_OP_RENDEZVOUS_PUT;
	cmd->eager_length = (uint32_t)tx->ep->domain->params.rdzv_eager_size;
	cmd->rendezvous_id = (uint8_t)tx->rdzv_id;
	cmd->get_bits = cxi_sh_rdzv((uint32_t)tx->rdzv_id);
	cmd->remote_offset = (uintptr_t)tx->buf;
	if (tx->ep->domain->alt_read && cxi_portal_alt(tx->portal))
		cmd->match_bits |= CXI_MB_ALT_READ;
}

/* The command, but for its Domain, in tx->cmd if there is a @tx. */
static inline void build(struct cassini_cmd *cmd, const struct cxi_send_args *a, const struct cxi_dest *dest,
			 enum cxi_proto proto, const struct cxi_tx *tx)
{
	cmd->opcode = CASSINI_OP_PUT;
	cmd->pid_idx = dest->rx_idx;
	cmd->pid = dest->pid;
	cmd->nic = dest->nic;
	cmd->flags = proto == CXI_P_IDC ? CASSINI_CMD_INLINE : 0;
	cmd->request_len = (uint32_t)a->len;
	cmd->ct = NULL;
	cmd->local_addr = tx ? tx->buf : a->buf;
	cmd->remote_offset = 0;
	cmd->match_bits = match_bits(a, tx);
	cmd->header_data = a->data;
	if (unlikely(proto == CXI_P_RDZV))
		build_rdzv(cmd, tx);
}

/* --- ends ---------------------------------------------------------------------------------------- */

/*
 * It ends with the last of what is awaited, however that went: an event that names it is still to come, or it is held
 * to be sent again.
 */
static void send_went(struct cxi_tx *tx, uint8_t bit)
{
	tx->wait &= (uint8_t)~bit;
	if (!tx->wait)
		cxi_tx_done(tx, tx->rc);
}

static void send_failed(struct cxi_tx *tx, uint8_t rc)
{
	/* What has completed is delivered, though its endpoint is about to close: not where contexts are shared. */
	bool may_wait = !tx->ep->kit.closing || (tx->is_silent && tx->txc->ep);

	if (tx->ep->is_rnr && rc == CASSINI_RC_ENTRY_NOT_FOUND)
		cxi_rnr_retry(tx);
	else if (!tx->ep->is_rnr && rc == CASSINI_RC_PT_DISABLED && may_wait)
		cxi_fc_refused(tx);
	else {
		if (rc == CASSINI_RC_PT_DISABLED && tx->ep->portal) /* NULL: closed, and so is tx->portal */
			cxi_fc_miscounted(tx->portal);
		cxi_tx_done(tx, rc);
	}
}

/* The target's verdict on the Put. */
static void send_on_ack(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_tx *tx = container_of(req, struct cxi_tx, req);

	if (unlikely(ev->rc != CASSINI_RC_OK)) {
		send_failed(tx, ev->rc);
		return;
	}
	if (unlikely((tx->wait & CXI_WAIT_MATCH) && ev->ptl_list == CASSINI_PRIORITY))
		tx->wait &= (uint8_t)~CXI_WAIT_MATCH;
	if (unlikely(tx->wait == (CXI_WAIT_ACK | CXI_WAIT_MATCH)))
		cxi_alive_watch(tx);
	send_went(tx, CXI_WAIT_ACK);
}

/* The send that @ev names by the id of @at, of which that is awaited as @bit. NULL: it is over, or never was. */
static struct cxi_tx *named_by(struct cxi_portal *p, struct cxi_tx *const *at, const struct cassini_event *ev,
			       enum cassini_event_type type, uint8_t bit)
{
	struct cxi_tx *tx = *at;

	if (likely(tx && ev->type == type && (tx->wait & bit) && ev->dom == tx->cmd.dom &&
		   ev->initiator == CASSINI_MATCH_ID(tx->dest.pid, tx->dest.nic)))
		return tx;
	cxi_id_named(p, at, ev->dom, ev->initiator);
	return NULL;
}

/* The rendezvous that has been fetched, of which @ev tells as @type. NULL: the same. */
static struct cxi_tx *rdzv_named_by(struct cxi_portal *p, const struct cassini_event *ev, enum cassini_event_type type)
{
	uint32_t id = cxi_sh_rdzv_id(ev->match_bits);

	return p->rdzv_id && id < CXI_RDZV_ID_CNT ? named_by(p, &p->rdzv_id[id], ev, type, CXI_WAIT_GET) : NULL;
}

void cxi_rdzv_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_tx *tx = rdzv_named_by(container_of(req, struct cxi_portal, rdzv_req), ev, CASSINI_EV_GET);

	if (!tx)
		return; /* the adapter has counted it */
	tx->rc = ev->rc;
	send_went(tx, CXI_WAIT_GET);
}

/* alt_read: the receiver has all of a rendezvous. */
static void rdzv_on_done(struct cxi_portal *p, const struct cassini_event *ev)
{
	struct cxi_tx *tx = rdzv_named_by(p, ev, CASSINI_EV_PUT);

	if (!tx)
		return;
	cassini_rdzv_done(ev->dom, ev->initiator, cxi_sh_rdzv((uint32_t)tx->rdzv_id));
	send_went(tx, CXI_WAIT_GET);
}

void cxi_zbp_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_portal *p = container_of(req, struct cxi_portal, zbp_req);
	struct cxi_tx *tx;

	if (unlikely(ev->match_bits & CXI_SH_DONE)) {
		rdzv_on_done(p, ev);
		return;
	}
	tx = named_by(p, &p->tx_id[FIELD_GET(CXI_SH_TX_ID, ev->match_bits)], ev, CASSINI_EV_PUT, CXI_WAIT_MATCH);
	if (tx)
		send_went(tx, CXI_WAIT_MATCH);
}

/* --- starts -------------------------------------------------------------------------------------- */

static __attribute__((cold, noinline)) int tag_refuse(const struct cxi_ep *ep, uint64_t tag)
{
	LOG_INFO("tag %#llx refused: %d bits may be set", (unsigned long long)tag,
		 ep->is_rnr ? CXI_RNR_TAG_BITS : CXI_TAG_BITS);
	return -FI_EINVAL;
}

static inline int args_check(const struct cxi_ep *ep, const struct cxi_send_args *a)
{
	if (unlikely(a->len > (a->inject ? ep->kit.inject_size : (size_t)CXI_MSG_MAX)))
		return -FI_EMSGSIZE;
	if (unlikely(!a->buf) && a->len)
		return -FI_EINVAL;
	return unlikely(a->tag & ep->tag_not) ? tag_refuse(ep, a->tag) : 0; /* 0 of those without */
}

/* Bytes that may have to be sent again, when the caller's memory is another's. NULL: no memory for so many. */
static inline const void *bytes_keep(struct cxi_tx *tx, const void *buf, size_t len)
{
	uint8_t *to = tx->inject;

	if (unlikely(len > sizeof(tx->inject)))
		to = tx->own = mem_alloc(len);
	if (likely(to))
		copy_bytes(to, buf, len);
	return to;
}

static inline void send_init(struct cxi_tx *tx, const struct cxi_send_args *a, const struct cxi_dest *dest,
			     uint64_t seq)
{
	tx->req.on_event = send_on_ack;
	tx->cqe_flags = FI_SEND | (a->tagged ? FI_TAGGED : FI_MSG);
	tx->tagged = a->tagged;
	tx->len = (uint32_t)a->len;
	tx->buf = a->buf;
	tx->tag = a->tagged ? a->tag : 0;
	tx->data = a->data;
	tx->dest = *dest;
	tx->wait = CXI_WAIT_ACK;
	tx->seq = seq;
	if (unlikely(a->inject)) {
		tx->wants_cqe = tx->wants_cqe && !a->no_cqe;
		tx->is_silent = a->no_cqe;
		tx->buf = bytes_keep(tx, a->buf, a->len);
	}
}

/* Are there so many that what we do by ourselves must not add to them? Never where none are wanted. */
static inline bool has_unread(const struct kit_cq *cq)
{
	return cq && kit_cq_is_behind(cq);
}

/*
 * On this host a message that lies where the peer takes it from has been sent, so it completes at once, if its context
 * has taken one before. Not if the caller asked for more than that, counts it, or has not read the last ones: the queue
 * must not grow by posting; nor while earlier operations have not ended: most programs like completions in order.
 */
#define ENDS_LATER (CXI_LEVELS & ~FI_INJECT_COMPLETE)

static inline bool ends_at_once(const struct kit_cq *cq, const struct cxi_txc *t, const struct cxi_send_args *a)
{
	return likely(!t->used && !(a->flags & ENDS_LATER) && !has_unread(cq));
}

/*
 * Is nothing of a message left to remember once it is posted? If it makes no completion, or an early one, only its
 * failure is heard of again, by cxi_send_lost(). What the context has to say is in t->forgets_of. @cq: where its
 * completion goes, if it makes one; @is_plain: and that is all that is asked of it.
 */
static inline bool is_forgotten(const struct cxi_ep *ep, const struct cxi_txc *t, const struct cxi_send_args *a,
				enum cxi_proto proto, const struct kit_cq *cq, bool is_plain)
{
	return likely(proto != CXI_P_RDZV && t->forgets_of == ep && !a->work &&
		      !(a->flags & (FI_FENCE | FI_MATCH_COMPLETE)) && (is_plain || !ep->kit.cntr[KIT_CNTR_SEND]) &&
		      (!cq || ends_at_once(cq, t, a)));
}

/* One that is remembered, until its target has answered. By its parts: what send_common() has stays in registers. */
static __attribute__((noinline)) int send_kept(struct cxi_ep *ep, struct cxi_send_args args, struct cxi_dest dest)
{
	struct cassini_dom *dom = likely(!dest.vni) ? ep->portal->dom[0] : cxi_portal_dom(ep->portal, dest.vni);
	const struct cxi_send_args *a = &args;
	struct cxi_txc *t = ep->txc;
	enum cxi_proto proto;
	struct cxi_tx *tx;
	int ret;

	if (unlikely((a->flags & FI_FENCE) && !(ep->kit.caps & FI_FENCE)))
		return -FI_EINVAL;
	if (unlikely(t->fc && cxi_fc_holds(t, &dest)))
		return -FI_EAGAIN;
	if (unlikely(!dom))
		return -FI_EINVAL;
	tx = cxi_tx_get(ep, CXI_TX_SEND, a->flags, a->context);
	if (unlikely(!tx))
		return -FI_EAGAIN;
	proto = cxi_select_proto(&ep->domain->params, a->len, a->inject, a->work && a->work->trig, ep->is_rnr);
	send_init(tx, a, &dest, ++t->send_seq);
	tx->cmd.dom = dom;
	ret = take_ids(tx, proto);
	if (likely(!ret)) {
		build(&tx->cmd, a, &dest, proto, tx);
		ret = likely(!a->work) ? cxi_post(tx) : cxi_tx_start(tx, a->work);
	}
	if (unlikely(ret))
		cxi_tx_put(tx);
	/*
	 * The target of a rendezvous asks us: a row of them must not leave the first unanswered, or the kernel does
	 * what we would do faster. Between hosts there is no other way, and the frames of a row share datagrams.
	 */
	else if (proto == CXI_P_RDZV && !a->work && cassini_is_near(t->cmdq) && !has_unread(ep->kit.tx_cq))
		cxi_portal_progress(ep->portal);
	return ret;
}

/*
 * Folded into each call of one buffer, with what that call says as constants. @is_plain: it says nothing more, and
 * comes from an endpoint whose address vector is a table, so that half is not asked; @cq is kit_ep.tx_plain then, and
 * NULL of an inject, of which kit_ep.tx_quiet has told that. Else it is NULL.
 */
static inline __attribute__((always_inline)) ssize_t send_common(struct cxi_ep *ep, const struct cxi_send_args *a,
								 bool is_plain, struct kit_cq *cq)
{
	const struct cxi_av *av = container_of(ep->kit.av, struct cxi_av, kit);
	struct cassini_cmd cmd;
	struct cxi_txc *t = ep->txc;
	enum cxi_proto proto;
	struct cxi_dest dest;
	int ret = args_check(ep, a);

	if (!is_plain && !a->no_cqe && kit_tx_wants_cqe(&ep->kit, a->flags))
		cq = ep->kit.tx_cq;
	ret = ret ? ret : is_plain ? cxi_av_dest_table(av, a->dest, &dest) : cxi_av_dest(av, a->dest, &dest);
	if (unlikely(ret))
		return ret;
	/* as of a command that waits for no counter and is none of RNR's: those are remembered anyway */
	proto = cxi_select_proto(&ep->domain->params, a->len, a->inject, false, false);
	if (likely(is_forgotten(ep, t, a, proto, cq, is_plain) && !dest.vni)) {
		build(&cmd, a, &dest, proto, NULL);
		cmd.dom = ep->portal->dom[0];
		cmd.user_ptr = ++t->send_seq;
		cmd.flags |= unlikely(a->flags & FI_MORE) ? CASSINI_CMD_MORE : 0;
		/*
		 * to another host a completion has to wait for the answer, and nothing is written before that is known
		 */
		if (likely(cassini_put(t->cmdq, &cmd, cq != NULL))) {
			if (cq)
				kit_cq_push(cq, a->context, FI_SEND | (a->tagged ? FI_TAGGED : FI_MSG), 0,
					    NULL, 0, 0, FI_ADDR_NOTAVAIL);
			return 0;
		}
	}
	return send_kept(ep,
			 (struct cxi_send_args){.buf = a->buf,
						.len = a->len,
						.dest = a->dest,
						.tag = a->tag,
						.data = a->data,
						.context = a->context,
						.flags = a->flags,
						.work = a->work,
						.tagged = a->tagged,
						.inject = a->inject,
						.no_cqe = a->no_cqe},
			 dest);
}

ssize_t cxi_send_common(struct cxi_ep *ep, const struct cxi_send_args *a)
{
	return send_common(ep, a, false, NULL);
}

/* A command that nobody remembered has failed: from here on it is an operation like any other. */
void cxi_send_lost(void *txc, const struct cassini_cmd *lost, uint8_t rc)
{
	struct cxi_txc *t = txc;
	struct cxi_tx *tx = t->ep ? cxi_tx_more(t->ep, CXI_TX_SEND, 0, NULL) : NULL;
	const struct cxi_dest dest = {.nic = lost->nic, .pid = lost->pid, .rx_idx = lost->pid_idx};
	const struct cxi_send_args a = {
		.buf = lost->local_addr,
		.len = lost->request_len,
		.tag = lost->match_bits & CXI_TAG_MASK,
		.data = lost->header_data,
		.tagged = lost->match_bits & CXI_MB_TAGGED,
		.inject = true,
		.no_cqe = true,
	};

	if (!tx) {
		LOG_WARN("out of memory: a refused message of %u bytes is lost", lost->request_len);
		if (t->ep && rc == CASSINI_RC_PT_DISABLED)
			cxi_fc_miscounted(t->ep->portal);
		if (t->ep && !t->ep->kit.closing)
			kit_ep_late_error(&t->ep->kit, cxi_errno(rc), rc, cxi_strerror(rc),
					  cassini_is_far(t->ep->domain->nic, lost->nic));
		return;
	}
	send_init(tx, &a, &dest, lost->user_ptr);
	tx->cmd = *lost;
	tx->cmd.local_addr = tx->buf;
	send_failed(tx, rc);
}

/* --- the calls ----------------------------------------------------------------------------------- */

static int call_check(const struct kit_send *s)
{
	if (s->form == KIT_BY_MSG && s->flags & ~SENDMSG_FLAGS)
		return -FI_EBADFLAGS;
	return s->iov_cnt > 1 || (s->iov_cnt && !s->iov) ? -FI_EINVAL : 0;
}

/* Does it go as injected? The endpoint's flag speaks for those calls that may be: not for long messages. */
static inline bool is_injected(const struct cxi_ep *ep, const struct kit_send *s, size_t len)
{
	if (s->form == KIT_BY_ARGS)
		return (ep->kit.tx_op_flags & FI_INJECT) && len <= CXI_INJECT_MAX;
	return s->flags & FI_INJECT;
}

/* Of an enabled one, which has one. */
static inline bool has_table_av(const struct cxi_ep *ep)
{
	return container_of(ep->kit.av, struct cxi_av, kit)->is_table;
}

static inline __attribute__((always_inline)) ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	struct cxi_ep *ep = cxi_ep_of(fid);
	bool is_inject = s->form == KIT_BY_INJECT;
	ssize_t ret = s->is_vec ? call_check(s) : 0;
	struct cxi_send_args a;

	ret = ret ? ret : cxi_tx_state(ep);
	if (unlikely(ret))
		return ret;
	if (s->form != KIT_BY_MSG && !s->is_vec && s->flags == (is_inject ? FI_INJECT : 0)) {
		const struct cxi_send_args plain = {
			.buf = s->buf, .len = s->len, .dest = s->to, .tag = s->tag, .context = s->context,
			.flags = is_inject ? FI_INJECT : FI_COMPLETION, .tagged = s->tagged, .inject = is_inject,
			.no_cqe = is_inject}; /* what the endpoint's flags have been found to say are constants */
		struct kit_cq *cq = is_inject ? NULL : ep->kit.tx_plain;

		if (likely((is_inject ? ep->kit.tx_quiet : cq != NULL) && has_table_av(ep))) {
			lock_acquire(&ep->domain->kit.lock);
			ret = send_common(ep, &plain, true, cq);
			lock_release(&ep->domain->kit.lock);
			return ret;
		}
	}
	a = (struct cxi_send_args){.buf = s->buf, .len = s->len, .dest = s->to, .tag = s->tag, .data = s->data,
				   .context = s->context,
				   .flags = s->form == KIT_BY_MSG ? s->flags : ep->kit.tx_op_flags | s->flags,
				   .tagged = s->tagged, .no_cqe = is_inject};
	if (s->iov_cnt) {
		a.buf = s->iov->iov_base;
		a.len = s->iov->iov_len;
	}
	a.inject = is_injected(ep, s, a.len);
	lock_acquire(&ep->domain->kit.lock);
	ret = cxi_send_common(ep, &a);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

#include "kit/call_send.inc"

struct fi_ops_msg cxi_msg_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_MSG_RX(cxi)};
struct fi_ops_tagged cxi_tagged_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_TAG_RX(cxi)};
