// SPDX-License-Identifier: BSD-2-Clause
// Deferred work: operations that counters trigger. Source: doc/facts/cxi.md#deferred-work.
//
// A deferred operation is built like any other and handed to the adapter as a triggered command; it starts when the
// counter gets there, whoever counts: a call of the application, an operation that ends, or another deferred one, also
// while the application computes.
#include <rdma/fi_trigger.h>

#include "base/log.h"
#include "base/mem.h"
#include "fi_cxi_ext.h"
#include "prov/cxi/cxi_rxc.h"

#define LEVELS (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define FLAGS  (FI_MORE | FI_COMPLETION | LEVELS | FI_CXI_CNTR_WB | FI_REMOTE_CQ_DATA)
#define DEPTH  1024u

/*
 * A queue of deferred work has one communication profile, since what it fires comes in an order that nobody knows when
 * it is posted. So there is one for each VNI and class that deferred work went out with, until the domain closes.
 */
struct cxi_dwq {
	LIST_ENTRY(cxi_dwq) link;        /* domain->dwqs */
	struct cassini_cp *cp;
	struct cassini_cmdq *cmdq;
	enum cassini_tc tc;
	uint16_t vni;
};

static struct cassini_ct *ct_of(struct fid_cntr *fid)
{
	return fid ? container_of(fid, struct cxi_cntr, kit.fid)->ct : NULL;
}

static void dwq_close(struct cxi_dwq *q)
{
	cassini_cmdq_close(q->cmdq);
	if (q->cp)
		cassini_cp_close(q->cp);
	mem_free(q);
}

static int dwq_open(struct cxi_domain *d, uint16_t vni, uint32_t tclass, struct cxi_dwq **out)
{
	struct cassini_cmdq_attr attr = {.depth = DEPTH, .has_trig = true};
	struct cxi_dwq *q = mem_alloc(sizeof(*q));
	int ret;

	if (!q)
		return -FI_ENOMEM;
	q->vni = vni;
	q->tc = cxi_tc(tclass);
	ret = cxi_cp_open(d, vni, tclass, &q->cp);
	attr.cp = q->cp;
	ret = ret ? ret : cassini_cmdq_open(d->lni, &attr, &q->cmdq);
	if (ret) {
		dwq_close(q);
		return ret;
	}
	LIST_INSERT_HEAD(&d->dwqs, q, link);
	*out = q;
	return 0;
}

int cxi_dwq_get(struct cxi_domain *d, uint16_t vni, uint32_t tclass, struct cassini_cmdq **out)
{
	struct cxi_dwq *q;
	int ret = 0;

	LIST_FOREACH(q, &d->dwqs, link)
		if (q->vni == vni && q->tc == cxi_tc(tclass))
			break;
	ret = q ? 0 : dwq_open(d, vni, tclass, &q);
	if (!ret)
		*out = q->cmdq;
	return ret;
}

void cxi_dwq_close(struct cxi_domain *d)
{
	struct cxi_dwq *q;

	while ((q = LIST_FIRST(&d->dwqs))) {
		LIST_REMOVE(q, link);
		dwq_close(q);
	}
}

/* --- one operation each -------------------------------------------------------------------------- */

static int ep_check(const struct cxi_domain *d, struct fid_ep *fid, uint64_t flags)
{
	struct cxi_ep *ep = fid ? cxi_ep_of(fid) : NULL;

	if (!ep || ep->domain != d || (flags & ~FLAGS)) {
		LOG_INFO("deferred work refused: endpoint of another domain, or flags %#llx",
			 (unsigned long long)flags);
		return -FI_EINVAL;
	}
	return cxi_tx_state(ep);
}

static ssize_t queue_send(struct cxi_domain *d, struct fid_ep *fid, const struct iovec *iov, size_t iov_cnt,
			  struct cxi_send_args *a)
{
	int ret = iov_cnt > 1 || (iov_cnt && !iov) ? -FI_EINVAL : ep_check(d, fid, a->flags);

	if (ret)
		return ret;
	a->flags &= ~(FI_MORE | FI_CXI_CNTR_WB);
	a->buf = iov_cnt ? iov->iov_base : NULL;
	a->len = iov_cnt ? iov->iov_len : 0;
	return cxi_send_common(cxi_ep_of(fid), a);
}

static ssize_t queue_msg(struct cxi_domain *d, const struct fi_op_msg *op, const struct cxi_work *w)
{
	struct cxi_send_args a = {.dest = op->msg.addr, .data = op->msg.data, .context = op->msg.context,
				  .flags = op->flags, .work = w};

	return queue_send(d, op->ep, op->msg.msg_iov, op->msg.iov_count, &a);
}

static ssize_t queue_tagged(struct cxi_domain *d, const struct fi_op_tagged *op, const struct cxi_work *w)
{
	struct cxi_send_args a = {.dest = op->msg.addr, .data = op->msg.data, .tag = op->msg.tag,
				  .context = op->msg.context, .flags = op->flags, .tagged = true, .work = w};

	return queue_send(d, op->ep, op->msg.msg_iov, op->msg.iov_count, &a);
}

static ssize_t queue_rma(struct cxi_domain *d, const struct fi_op_rma *op, bool is_write, const struct cxi_work *w)
{
	uint64_t flags = op->flags & ~(FI_MORE | FI_CXI_CNTR_WB);
	int ret = ep_check(d, op->ep, op->flags);
	struct cxi_rma_args a;

	ret = ret ? ret : cxi_rma_msg_check(&op->msg, flags, is_write);
	if (ret)
		return ret;
	a = cxi_rma_from_msg(&op->msg, flags, is_write);
	a.far.work = *w;
	return cxi_rma_common(cxi_ep_of(op->ep), &a);
}

static ssize_t queue_atomic(struct cxi_domain *d, struct fid_ep *fid, const struct fi_msg_atomic *msg,
			    const struct fi_msg_fetch *fetch, const struct fi_msg_compare *compare, uint64_t flags,
			    const struct cxi_work *w)
{
	int ret = ep_check(d, fid, flags);
	struct cxi_amo_args a;

	ret = ret ? ret : cxi_amo_from_msg(msg, fetch, compare, flags & ~(FI_MORE | FI_CXI_CNTR_WB), &a);
	if (ret)
		return ret;
	a.far.work = *w;
	return cxi_amo_common(cxi_ep_of(fid), &a);
}

static int queue_cntr(struct cxi_domain *d, const struct fi_op_cntr *op, bool add, const struct fi_deferred_work *work)
{
	struct cassini_ct_cmd cmd = {.op = add ? CASSINI_CT_INC : CASSINI_CT_SET, .value = op->value};
	struct cassini_cmdq *q;
	int ret;

	/* the real provider wants no counter that tells of a counter */
	if (work->completion_cntr || !op->cntr || container_of(op->cntr, struct kit_cntr, fid)->domain != &d->kit ||
	    op->value > CASSINI_CT_SUCCESS_MAX)
		return -FI_EINVAL;
	ret = cxi_dwq_get(d, d->key.vni, d->tclass, &q); /* it goes nowhere: any queue will do */
	if (ret)
		return ret;
	cmd.ct = ct_of(op->cntr);
	return cassini_trig_ct(q, ct_of(work->triggering_cntr), work->threshold, &cmd);
}

/* A receive cannot wait for a counter: it is posted now. */
static ssize_t post_recv(struct cxi_domain *d, struct fid_ep *fid, const struct iovec *iov, size_t iov_cnt,
			 struct cxi_recv_args *a, const struct fi_deferred_work *work)
{
	struct cxi_ep *ep = fid ? cxi_ep_of(fid) : NULL;
	int ret;

	if (work->threshold || !ep || ep->domain != d || iov_cnt > 1 || (iov_cnt && !iov)) {
		LOG_INFO("deferred receive refused: only threshold 0 is offered");
		return -FI_EINVAL;
	}
	ret = cxi_rx_state(ep);
	if (ret)
		return ret;
	a->buf = iov_cnt ? iov->iov_base : NULL;
	a->len = iov_cnt ? iov->iov_len : 0;
	a->done = ct_of(work->completion_cntr);
	return cxi_recv_common(ep, a);
}

static ssize_t post_recv_any(struct cxi_domain *d, const struct fi_deferred_work *work)
{
	const struct fi_op_msg *m = work->op.msg;
	const struct fi_op_tagged *t = work->op.tagged;
	struct cxi_recv_args a = {0};

	if (work->op_type == FI_OP_RECV) {
		a = (struct cxi_recv_args){.src = m->msg.addr, .context = m->msg.context, .flags = m->flags};
		return post_recv(d, m->ep, m->msg.msg_iov, m->msg.iov_count, &a, work);
	}
	a = (struct cxi_recv_args){.src = t->msg.addr, .tag = t->msg.tag, .ignore = t->msg.ignore,
				   .context = t->msg.context, .flags = t->flags, .tagged = true};
	return post_recv(d, t->ep, t->msg.msg_iov, t->msg.iov_count, &a, work);
}

static ssize_t work_queue(struct cxi_domain *d, const struct fi_deferred_work *work, const struct cxi_work *w)
{
	const struct fi_op_fetch_atomic *f = work->op.fetch_atomic;
	const struct fi_op_compare_atomic *c = work->op.compare_atomic;
	const struct fi_op_atomic *a = work->op.atomic;

	switch (work->op_type) {
	case FI_OP_SEND:
		return queue_msg(d, work->op.msg, w);
	case FI_OP_TSEND:
		return queue_tagged(d, work->op.tagged, w);
	case FI_OP_READ:
	case FI_OP_WRITE:
		return queue_rma(d, work->op.rma, work->op_type == FI_OP_WRITE, w);
	case FI_OP_ATOMIC:
		return queue_atomic(d, a->ep, &a->msg, NULL, NULL, a->flags, w);
	case FI_OP_FETCH_ATOMIC:
		return queue_atomic(d, f->ep, &f->msg, &f->fetch, NULL, f->flags, w);
	case FI_OP_COMPARE_ATOMIC:
		return queue_atomic(d, c->ep, &c->msg, &c->fetch, &c->compare, c->flags, w);
	case FI_OP_CNTR_SET:
	case FI_OP_CNTR_ADD:
		return queue_cntr(d, work->op.cntr, work->op_type == FI_OP_CNTR_ADD, work);
	case FI_OP_RECV:
	case FI_OP_TRECV:
		return post_recv_any(d, work);
	}
	return -FI_EINVAL;
}

int cxi_queue_work(struct cxi_domain *d, struct fi_deferred_work *work)
{
	struct cxi_work w;

	if (!work || !work->triggering_cntr || !work->op.msg ||
	    container_of(work->triggering_cntr, struct kit_cntr, fid)->domain != &d->kit ||
	    (work->completion_cntr && container_of(work->completion_cntr, struct kit_cntr, fid)->domain != &d->kit))
		return -FI_EINVAL;
	w = (struct cxi_work){
		.trig = ct_of(work->triggering_cntr),
		.threshold = work->threshold,
		.done = ct_of(work->completion_cntr),
	};
	return (int)work_queue(d, work, &w);
}

/* --- cancelling ---------------------------------------------------------------------------------- */

/* A command that never started: whoever waits for it is released, without a completion. */
static void forget(void *ctx, uint64_t user_ptr)
{
	struct cxi_req *req = (struct cxi_req *)(uintptr_t)user_ptr;

	(void)ctx;
	if (req)
		cxi_tx_put(container_of(req, struct cxi_tx, req));
}

void cxi_cntr_cancel(struct cxi_cntr *c)
{
	cassini_ct_cancel(c->ct, forget, NULL);
}

static void tx_forget(void *obj, void *ct)
{
	struct cxi_tx *tx = obj;

	if (tx->done == ct)
		tx->done = NULL;
	if (tx->cmd.ct == ct)
		tx->cmd.ct = NULL;
}

static void rx_forget(void *obj, void *ct)
{
	struct cxi_rx *rx = obj;

	if (rx->done == ct)
		rx->done = NULL;
}

void cxi_cntr_forget(struct cxi_domain *d, struct cxi_cntr *c)
{
	struct cxi_txc *t;
	struct cxi_rxc *r;

	cxi_cntr_cancel(c);
	LIST_FOREACH(t, &d->txcs, all)
		slab_foreach(&t->txs, tx_forget, c->ct);
	LIST_FOREACH(r, &d->rxcs, all)
		slab_foreach(&r->rxs, rx_forget, c->ct);
}

static bool is_of(void *ctx, const struct cassini_cmd *cmd)
{
	const struct cxi_tx *tx = container_of((struct cxi_req *)(uintptr_t)cmd->user_ptr, struct cxi_tx, req);
	const struct cxi_ep *ep = ctx;

	return cmd->dom && tx->txc == ep->txc && tx->portal == ep->portal;
}

void cxi_dwq_forget(const struct cxi_ep *ep)
{
	struct cxi_dwq *q;

	if (!ep->txc)
		return;
	LIST_FOREACH(q, &ep->domain->dwqs, link)
		cassini_trig_cancel(q->cmdq, is_of, forget, (void *)(uintptr_t)ep);
}

int cxi_flush_work(struct cxi_domain *d)
{
	struct cxi_cntr *c;

	LIST_FOREACH(c, &d->cntrs, link)
		cxi_cntr_cancel(c);
	return 0;
}
