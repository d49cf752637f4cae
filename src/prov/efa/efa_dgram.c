// SPDX-License-Identifier: BSD-2-Clause
// The DGRAM endpoint: FI_MSG over an unreliable datagram queue pair, with the 40-byte message prefix. Source:
// doc/facts/efa.md#attributes, #objects.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/call.h"
#include "kit/stubs.h"
#include "prov/efa/efa_obj.h"

/* A work request of the endpoint; its address is the wr_id. */
struct dgram_wr {
	void *context;
	bool wants_cqe, is_recv;
	bool is_silent; /* an inject call's: no completion may name it */
};

struct efa_dgram {
	struct kit_ep kit;
	struct efa_domain *domain;
	struct efanic_qp *qp;
	struct efa_addr self;
	struct slab wrs;
	struct efanic_dst **dsts; /* by fi_addr */
	uint32_t dsts_cap;
};

static struct efa_dgram *to_ep(struct fid *fid)
{
	return container_of(fid, struct efa_dgram, kit.fid.fid);
}

/* --- completions ------------------------------------------------------------------------------------------- */

static fi_addr_t source_of(const struct efa_dgram *ep, const struct efanic_wc *wc)
{
	struct efa_addr a = {.qpn = wc->src_qpn};

	efanic_wc_gid(wc, a.gid);
	return kit_av_find(ep->kit.av, &a);
}

static void push_error(struct efa_dgram *ep, struct kit_cq *cq, const struct dgram_wr *wr, unsigned status)
{
	struct fi_cq_err_entry e = {
		.op_context = wr->context,
		.flags = FI_MSG | (wr->is_recv ? FI_RECV : FI_SEND),
		.err = efa_errno(status),
		.prov_errno = (int)status,
	};
	const char *text = efa_strerror(status);

	if (wr->is_silent)
		kit_ep_late_error(&ep->kit, e.err, e.prov_errno, text, false);
	else if (cq)
		kit_cq_push_err(cq, &e, text, strlen(text) + 1);
}

static void on_wc(void *ctx, const struct efanic_wc *wc)
{
	struct efa_dgram *ep = ctx;
	struct dgram_wr *wr = (struct dgram_wr *)(uintptr_t)wc->wr_id;
	struct kit_cq *cq = wr->is_recv ? ep->kit.rx_cq : ep->kit.tx_cq;

	if (wc->status != EFANIC_OK) {
		if (!ep->kit.closing)
			push_error(ep, cq, wr, wc->status);
	} else if (wr->wants_cqe && wr->is_recv) {
		kit_cq_push(cq, wr->context, FI_RECV | FI_MSG | (wc->has_imm ? FI_REMOTE_CQ_DATA : 0), wc->byte_len,
			    NULL, wc->has_imm ? wc->imm : 0, 0, source_of(ep, wc));
	} else if (wr->wants_cqe) {
		kit_cq_push(cq, wr->context, FI_SEND | FI_MSG, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
	}
	slab_put(&ep->wrs, wr);
}

static int dgram_progress(struct kit_ep *kep)
{
	struct efa_dgram *ep = container_of(kep, struct efa_dgram, kit);

	return kep->enabled ? efanic_poll(ep->qp) : 0;
}

/* --- send and receive ---------------------------------------------------------------------------------------- */

static struct efanic_dst *dst_of(struct efa_dgram *ep, fi_addr_t to)
{
	struct efa_av *av = container_of(ep->kit.av, struct efa_av, kit);
	const struct efa_addr *a = kit_av_addr(&av->kit, to);

	if (!a)
		return NULL;
	if (to >= ep->dsts_cap) {
		uint32_t cap = (uint32_t)roundup_pow2(to + 64);
		struct efanic_dst **tab = mem_alloc(cap * sizeof(*tab));

		if (!tab)
			return NULL;
		if (ep->dsts_cap)
			memcpy(tab, ep->dsts, ep->dsts_cap * sizeof(*tab));
		mem_free(ep->dsts);
		ep->dsts = tab;
		ep->dsts_cap = cap;
	}
	if (!ep->dsts[to] && efanic_dst_get(ep->qp, av->ahn[to], a->qpn, a->qkey, &ep->dsts[to]))
		ep->dsts[to] = NULL;
	return ep->dsts[to];
}

void efa_dgram_removed(struct kit_ep *kep, fi_addr_t fi_addr)
{
	struct efa_dgram *ep = container_of(kep, struct efa_dgram, kit);

	if (fi_addr >= ep->dsts_cap || !ep->dsts[fi_addr])
		return;
	efanic_dst_put(ep->dsts[fi_addr]); /* what is on its way has references of its own */
	ep->dsts[fi_addr] = NULL;
}

static struct dgram_wr *wr_new(struct efa_dgram *ep, void *context, bool is_recv, bool wants_cqe)
{
	struct dgram_wr *wr = slab_get(&ep->wrs);

	if (wr)
		*wr = (struct dgram_wr){.context = context, .wants_cqe = wants_cqe, .is_recv = is_recv};
	return wr;
}

static struct efanic_sge to_sge(const struct iovec *iov, void *desc, size_t skip)
{
	return (struct efanic_sge){(char *)iov->iov_base + skip, (uint32_t)(iov->iov_len - skip),
				   efa_desc_lkey(desc)};
}

static ssize_t dgram_send(struct efa_dgram *ep, const struct fi_msg *m, uint64_t flags)
{
	struct efanic_wr wr = {.opcode = EFANIC_OP_SEND};
	struct dgram_wr *mine;
	size_t len = 0;
	ssize_t ret = -FI_EAGAIN;

	if (unlikely(efa_ep_state(&ep->kit)))
		return efa_ep_state(&ep->kit);
	if (!m->msg_iov || !m->iov_count || m->iov_count > 2 || m->msg_iov[0].iov_len < EFA_MSG_PREFIX)
		return -FI_EINVAL;
	for (size_t i = 0; i < m->iov_count; i++) {
		if (m->msg_iov[i].iov_len > EFA_MTU + EFA_MSG_PREFIX)
			return -FI_EMSGSIZE;
		wr.sge[i] = to_sge(&m->msg_iov[i], m->desc ? m->desc[i] : NULL, i ? 0 : EFA_MSG_PREFIX);
		len += wr.sge[i].len;
	}
	if (len > EFA_MTU)
		return -FI_EMSGSIZE;
	wr.sge_cnt = (uint8_t)m->iov_count;
	wr.has_imm = flags & FI_REMOTE_CQ_DATA;
	wr.imm = (uint32_t)m->data;
	lock_acquire(&ep->domain->kit.lock);
	wr.dst = dst_of(ep, m->addr);
	if (!wr.dst) {
		ret = -FI_EINVAL;
		goto out;
	}
	mine = wr_new(ep, m->context, false, kit_tx_wants_cqe(&ep->kit, flags) && !(flags & EFA_NO_CQE));
	if (!mine)
		goto out;
	mine->is_silent = flags & EFA_NO_CQE;
	wr.wr_id = (uintptr_t)mine;
	ret = efanic_post_send(ep->qp, &wr);
	if (ret) {
		slab_put(&ep->wrs, mine);
		ret = ret == -ENOMEM ? -FI_EAGAIN : ret;
	} else if (!(flags & FI_MORE)) {
		efanic_doorbell(ep->qp);
	}
out:
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static ssize_t dgram_recv(struct efa_dgram *ep, const struct fi_msg *m, uint64_t flags)
{
	struct efanic_sge sge[3];
	struct dgram_wr *wr;
	ssize_t ret = -FI_EAGAIN;

	if (unlikely(efa_ep_state(&ep->kit)))
		return efa_ep_state(&ep->kit);
	if (!m->msg_iov || !m->iov_count || m->iov_count > ARRAY_SIZE(sge) || m->msg_iov[0].iov_len < EFA_MSG_PREFIX)
		return -FI_EINVAL;
	for (size_t i = 0; i < m->iov_count; i++)
		sge[i] = to_sge(&m->msg_iov[i], m->desc ? m->desc[i] : NULL, 0);
	lock_acquire(&ep->domain->kit.lock);
	wr = wr_new(ep, m->context, true, kit_rx_wants_cqe(&ep->kit, flags));
	if (wr) {
		ret = efanic_post_recv(ep->qp, (uintptr_t)wr, sge, (int)m->iov_count);
		if (ret) {
			slab_put(&ep->wrs, wr);
			ret = ret == -ENOMEM ? -FI_EAGAIN : ret;
		}
	}
	lock_release(&ep->domain->kit.lock);
	return ret;
}

/* What a call has, as the message that it is short for: this endpoint has no quick way that would need less. */
static ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	struct efa_dgram *ep = to_ep(&fid->fid);
	struct iovec iov = {(void *)(uintptr_t)s->buf, s->len};
	struct fi_msg m = {.msg_iov = s->is_vec ? s->iov : &iov,
			   .desc = s->is_vec ? (void **)(uintptr_t)s->descs : (void **)(uintptr_t)&s->desc,
			   .iov_count = s->is_vec ? s->iov_cnt : 1,
			   .addr = s->to,
			   .context = s->context,
			   .data = s->data};

	return dgram_send(ep, &m, kit_tx_flags(&ep->kit, s->form, s->flags));
}

static ssize_t do_recv(struct fid_ep *fid, const struct kit_recv *r)
{
	struct efa_dgram *ep = to_ep(&fid->fid);
	struct iovec iov = {r->buf, r->len};
	struct fi_msg m = {.msg_iov = r->is_vec ? r->iov : &iov,
			   .desc = r->is_vec ? (void **)(uintptr_t)r->descs : (void **)(uintptr_t)&r->desc,
			   .iov_count = r->is_vec ? r->iov_cnt : 1,
			   .context = r->context};

	return dgram_recv(ep, &m, kit_rx_flags(&ep->kit, r));
}

#include "kit/call_send.inc"
#define RECV_CALL(name_) static __attribute__((unused)) ssize_t dg_##name_
#include "kit/call_recv.inc"

/* --- object ------------------------------------------------------------------------------------------------------ */

static int dg_enable(struct efa_dgram *ep)
{
	struct efanic_qp_attr attr = {
		.type = EFANIC_QP_UD,
		.sq_depth = (uint32_t)MIN((size_t)ep->domain->attr.max_sq_wr, ep->kit.info->tx_attr->size),
		.rq_depth = (uint32_t)MIN((size_t)ep->domain->attr.max_rq_wr, ep->kit.info->rx_attr->size),
		.posted_buffers = true,
		.no_shm = !ep->domain->params.enable_shm_transfer,
		.on_wc = on_wc,
		.ctx = ep,
	};
	int ret = kit_ep_enable_check(&ep->kit);

	if (ret)
		return ret;
	lock_acquire(&ep->domain->kit.lock);
	if (ep->kit.enabled) /* perhaps by another thread, just now */
		goto out;
	ret = efanic_qp_open(ep->domain->nic, &attr, &ep->qp);
	if (!ret) {
		ret = efanic_qp_to_rts(ep->qp, 0);
		if (ret)
			efanic_qp_close(ep->qp);
	}
	if (!ret) {
		ep->self.qpn = efanic_qp_qpn(ep->qp);
		ep->kit.enabled = true;
	}
out:
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static int dg_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? dg_enable(to_ep(fid)) : kit_ep_control(&to_ep(fid)->kit, command, arg);
}

static int dg_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return kit_ep_bind(&to_ep(fid)->kit, bfid, flags);
}

static int dg_getname(fid_t fid, void *addr, size_t *addrlen)
{
	return efa_addr_give(&to_ep(fid)->self, addr, addrlen);
}

static int dg_close(struct fid *fid)
{
	struct efa_dgram *ep = to_ep(fid);

	if (!ep->domain->kit.forked(&ep->domain->kit)) {
		lock_acquire(&ep->domain->kit.lock);
		ep->kit.closing = true;
		for (uint32_t i = 0; i < ep->dsts_cap; i++)
			if (ep->dsts[i])
				efanic_dst_put(ep->dsts[i]);
		if (ep->kit.enabled)
			efanic_qp_close(ep->qp);
		ep->kit.enabled = false;
		lock_release(&ep->domain->kit.lock);
	}
	mem_free(ep->dsts);
	slab_fini(&ep->wrs);
	kit_ep_fini(&ep->kit);
	mem_free(ep);
	return 0;
}

static struct fi_ops dg_fi_ops = KIT_FI_OPS(dg_close, dg_bind, dg_control);
static struct fi_ops_cm dg_cm_ops = KIT_CM_OPS(dg_getname);
static struct fi_ops_msg dg_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	KIT_MSG_RX(dg),
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = kit_no_msg_inject, /* the man page says so */
	.senddata = msg_senddata,
	.injectdata = kit_no_msg_injectdata,
};

int efa_dgram_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_out, void *context)
{
	struct efa_domain *d = container_of(domain, struct efa_domain, kit.fid);
	struct efa_dgram *ep;
	int ret;

	if (!info->tx_attr || !info->rx_attr)
		return -FI_EINVAL;
	ep = mem_alloc(sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = d;
	memcpy(ep->self.gid, d->attr.gid, sizeof(ep->self.gid));
	ep->self.host = d->attr.host;
	ret = slab_init(&ep->wrs, sizeof(struct dgram_wr), 16, 64, 0);
	if (!ret)
		ret = kit_ep_init(&ep->kit, &d->kit, info, dgram_progress, context);
	if (ret) {
		slab_fini(&ep->wrs);
		mem_free(ep);
		return ret;
	}
	ep->kit.fid.fid.ops = &dg_fi_ops;
	ep->kit.fid.cm = &dg_cm_ops;
	ep->kit.fid.msg = &dg_msg_ops;
	*ep_out = &ep->kit.fid;
	return 0;
}
