// SPDX-License-Identifier: BSD-2-Clause
// FI_RMA, initiator's side: the calls, and how a write or read travels. Source: doc/facts/opx.md#reads-and-writes.
#include "prov/opx/opx.h"

/*
 * Theory of operation
 *
 *  write   PUT packets, in order; the last one asks for DONE. Same host and more than a packet: PUT_LOCAL, the target
 *          fetches from our memory.
 *  read    GET; the answer is data packets. Same host and more than a packet: GET with the pieces of our exposed
 *          memory, which the target fills.
 *  data    PUT_DATA behind the write's packets; then it is the one that asks for DONE, for all of them.
 *
 * Every operation whose end somebody wants to know ends with DONE or its data, so completion means placed at the
 * target. The target works when its program makes progress, as on hardware.
 */

struct rma {
	const struct iovec *iov;
	size_t iov_cnt;
	fi_addr_t to;
	uint64_t off, key, data;
	void *context;
	uint64_t flags;
};

static bool is_copied(const struct opx_op *op)
{
	return op->peer->flow.is_local && op->len > op->ep->mtu;
}

/* A request of one packet without room is the caller's -FI_EAGAIN. */
static int put_local(struct opx_op *op)
{
	struct opx_piece pieces[OPX_PIECES];
	struct iovec iov = {pieces, op->iov_cnt * sizeof(pieces[0])};
	struct hfi_hdr h;
	int rc = opx_op_expose(op, HFI_COPY_GET, pieces);

	opx_flow_hdr(&op->peer->flow, &h, OPX_RMA, OPX_SUB_PUT_LOCAL,
		     op->has_data ? OPX_DATA_HANDLE : opx_op_handle(op));
	h.w[0] = le64_put(op->mr_off);
	h.w[1] = le64_put(op->mr_key);
	h.tag = le64_put(op->len);
	rc = rc ? rc : opx_flow_post(&op->peer->flow, &h, &iov, 1, 0, NULL, NULL);
	if (!rc)
		op->sent = op->len;
	return rc;
}

static int get_request(struct opx_op *op)
{
	struct opx_piece pieces[OPX_PIECES];
	struct iovec iov = {pieces, is_copied(op) ? op->iov_cnt * sizeof(pieces[0]) : 0};
	struct hfi_hdr h;
	int rc = iov.iov_len ? opx_op_expose(op, HFI_COPY_PUT, pieces) : 0;

	opx_flow_hdr(&op->peer->flow, &h, OPX_RZV_CTS, OPX_SUB_GET, opx_op_handle(op));
	h.w[0] = le64_put(op->mr_off);
	h.w[1] = le64_put(op->mr_key);
	h.tag = le64_put(op->len);
	rc = rc ? rc : opx_flow_post(&op->peer->flow, &h, &iov, iov.iov_len != 0, 0, NULL, NULL);
	op->is_posted = !rc;
	return rc;
}

static int put_data(struct opx_op *op)
{
	le32_t handle = le32_put(op->needs_done ? opx_op_handle(op) : OPX_NO_HANDLE);
	struct iovec iov = {&handle, sizeof(handle)};
	struct hfi_hdr h;
	int rc;

	opx_flow_hdr(&op->peer->flow, &h, OPX_RMA, OPX_SUB_PUT_DATA, (uint32_t)op->data);
	h.w[0] = le64_put(op->mr_off);
	h.w[1] = le64_put(op->mr_key);
	h.tag = le64_put(op->len);
	rc = opx_flow_post(&op->peer->flow, &h, &iov, 1, 0, NULL, NULL);
	op->is_posted = !rc;
	return rc;
}

/* A write of nothing still asks whether the region is there. */
static int put_empty(struct opx_op *op)
{
	struct hfi_hdr h;
	int rc;

	opx_flow_hdr(&op->peer->flow, &h, OPX_RZV_DATA, OPX_SUB_PUT, opx_put_handle(op));
	h.w[0] = h.tag = le64_put(op->mr_off);
	h.w[1] = le64_put(op->mr_key);
	rc = opx_flow_post(&op->peer->flow, &h, NULL, 0, 0, NULL, NULL);
	op->was_empty = !rc;
	return rc;
}

static int write_pump(struct opx_op *op)
{
	int rc = 0;

	if (!op->len && !op->was_empty)
		rc = put_empty(op);
	else if (op->sent < op->len)
		rc = is_copied(op) ? put_local(op) : opx_data_send(op);
	if (rc)
		return rc;
	op->is_posted = !op->has_data;
	return op->has_data ? put_data(op) : 0;
}

int opx_rma_pump(struct opx_op *op)
{
	op->ep->need_doorbell = true;
	return op->kind == OPX_OP_WRITE ? write_pump(op) : get_request(op);
}

/* Begin. 0; -FI_EAGAIN and other codes: nothing happened, @op is gone. */
static int rma_start(struct opx_op *op)
{
	struct opx_flow *f = &op->peer->flow;
	int rc = f->state == OPX_FLOW_OPEN ? 0 : opx_peer_open(op->peer);

	if (!rc && op->flags & FI_INJECT && op->len)
		rc = opx_op_take_copy(op);
	if (!rc && op->kind == OPX_OP_WRITE)
		opx_op_choose_path(op);
	rc = rc ? rc : opx_rma_pump(op);
	if (rc && (rc != -FI_EAGAIN || !(op->sent || op->was_empty))) {
		opx_op_abandon(op);
		return rc;
	}
	op->peer->silent += !op->needs_done;
	opx_op_wait(op);
	if (rc)
		opx_op_pump(op); /* it has begun: the rest as there is room */
	else
		opx_op_check(op);
	return 0;
}

/* --- calls -------------------------------------------------------------------------------------------------- */

static struct opx_op *rma_op(struct opx_peer *peer, enum opx_op_kind kind, const struct rma *r, uint64_t len)
{
	struct opx_op *op = opx_op_get(peer, kind);

	if (!op)
		return NULL;
	op->iov_cnt = (uint8_t)r->iov_cnt;
	for (size_t i = 0; i < r->iov_cnt; i++)
		op->iov[i] = r->iov[i];
	op->len = len;
	op->mr_off = r->off;
	op->mr_key = r->key;
	op->has_data = r->flags & FI_REMOTE_CQ_DATA;
	op->data = r->data;
	op->flags = r->flags;
	op->context = r->context;
	op->cq_flags = FI_RMA | (kind == OPX_OP_WRITE ? FI_WRITE : FI_READ);
	op->wants_cqe = !(r->flags & OPX_NO_CQE) && kit_tx_wants_cqe(&peer->ep->kit, r->flags);
	/* each packet is refused by itself: of several ones the first refusal must be known to be this write's */
	op->needs_done =
		kind == OPX_OP_READ || op->wants_cqe || peer->ep->kit.cntr[KIT_CNTR_WRITE] || len > peer->ep->mtu;
	return op;
}

/*
 * A target on this host knows by their order which announcement of CQ data belongs to which copy, so one that has found
 * no room yet goes before the next write with data.
 */
static bool is_behind_data(const struct opx_peer *peer, const struct rma *r)
{
	const struct opx_op *op;

	if (likely(!(r->flags & FI_REMOTE_CQ_DATA) || !peer->flow.is_local || !peer->ep->pump_cnt))
		return false;
	LIST_FOREACH(op, &peer->ops, link)
		if (op->in_pump && op->has_data)
			return true;
	return false;
}

/* One try. Lock held. */
static int rma_once(struct opx_ep *ep, enum opx_op_kind kind, const struct rma *r, uint64_t len)
{
	struct opx_peer *peer = opx_peer_find(ep, r->to);
	struct opx_op *op;

	if (!peer)
		return -FI_EINVAL;
	if (opx_fence(peer, r->flags) || is_behind_data(peer, r))
		return -FI_EAGAIN;
	op = rma_op(peer, kind, r, len);
	return op ? rma_start(op) : -FI_EAGAIN;
}

static ssize_t rma(struct opx_ep *ep, enum opx_op_kind kind, const struct rma *r)
{
	uint64_t len;
	int rc;

	if (unlikely(opx_ep_state(ep)))
		return opx_ep_state(ep);
	if (!(ep->kit.caps & FI_RMA))
		return -FI_EOPNOTSUPP;
	if (r->iov_cnt > OPX_IOV_MAX || (r->iov_cnt && !r->iov))
		return -FI_EINVAL;
	len = kit_iov_len(r->iov, r->iov_cnt);
	if (len == SIZE_MAX || r->off > UINT64_MAX - len || (r->flags & FI_INJECT && len > ep->kit.inject_size))
		return -FI_EINVAL;
	lock_acquire(&ep->domain->kit.lock);
	rc = rma_once(ep, kind, r, len);
	if (rc == -FI_EAGAIN) {
		opx_ep_progress(&ep->kit);
		rc = rma_once(ep, kind, r, len);
	}
	if (ep->need_doorbell && !(r->flags & FI_MORE)) {
		ep->need_doorbell = false;
		hfi_doorbell(ep->hw);
	}
	lock_release(&ep->domain->kit.lock);
	return rc;
}

/* Flags of an endpoint, or of a call, that speak of data which go out. */
#define NOT_OF_READS (FI_REMOTE_CQ_DATA | FI_INJECT)

static ssize_t do_rma(struct fid_ep *fid, const struct kit_rma *c)
{
	struct opx_ep *ep = opx_ep_of(fid);
	const struct fi_msg_rma *m = c->m;
	struct rma r = {.iov = m->msg_iov, .iov_cnt = m->iov_count, .to = m->addr, .data = m->data,
			.context = m->context};

	if (c->form == KIT_BY_MSG && (m->rma_iov_count != 1 || !m->rma_iov || (m->iov_count && !m->msg_iov) ||
				      m->rma_iov[0].len != kit_iov_len(m->msg_iov, m->iov_count)))
		return -FI_EINVAL;
	r.off = m->rma_iov[0].addr;
	r.key = m->rma_iov[0].key;
	r.flags = kit_tx_flags(&ep->kit, c->form, c->flags) & ~(c->is_write ? 0 : (uint64_t)NOT_OF_READS);
	r.flags |= c->form == KIT_BY_INJECT ? OPX_NO_CQE : 0;
	return rma(ep, c->is_write ? OPX_OP_WRITE : OPX_OP_READ, &r);
}

#include "kit/call_rma.inc"

const struct fi_ops_rma opx_rma_ops = {.size = sizeof(struct fi_ops_rma), KIT_RMA};
