// SPDX-License-Identifier: BSD-2-Clause
// FI_ATOMIC: one packet there, one back; both sides. Source: doc/facts/opx.md#atomics.
#include "prov/opx/opx.h"

#include "base/guard.h"
#include "base/log.h"
#include "kit/atomic_call.h"

static size_t count_max(const struct opx_ep *ep, enum kit_atomic_kind kind, size_t dt_size)
{
	return (kind == KIT_ATOMIC_COMPARE ? ep->mtu / 2 : ep->mtu) / dt_size;
}

/* The 14 datatypes of the classic API; the 128-bit ones came later. */
#define DT_CNT 14u
static int check(enum kit_atomic_kind kind, unsigned dt, unsigned op)
{
	return dt >= DT_CNT || kit_atomic_valid(kind, dt, op) ? -FI_EOPNOTSUPP : 0;
}

/* --- target ---------------------------------------------------------------------------------------------- */

struct request {
	enum kit_atomic_kind kind;
	unsigned dt, op;
	size_t count, len; /* elements; bytes */
	bool read_only;
};

/* What a packet asks for; the answer is one of at most @mtu bytes. False: it makes no sense. */
static bool decode(const struct hfi_hdr *h, uint32_t payload, uint32_t mtu, struct request *r)
{
	uint64_t tag = le64_get(h->tag);
	size_t dt_size, operands;

	r->kind = (enum kit_atomic_kind)h->aux;
	r->dt = (unsigned)(tag & 0xff);
	r->op = (unsigned)(tag >> 8 & 0xff);
	r->count = (size_t)(tag >> 16 & 0xffff);
	r->read_only = r->op == FI_ATOMIC_READ;
	if (h->aux > KIT_ATOMIC_COMPARE || check(r->kind, r->dt, r->op))
		return false;
	dt_size = kit_dt_size(r->dt);
	r->len = r->count * dt_size;
	operands = r->read_only ? 0 : r->kind == KIT_ATOMIC_COMPARE ? 2 * r->len : r->len;
	return r->count && r->len <= mtu && operands == payload;
}

static void reply(struct opx_peer *peer, uint32_t handle, void *result, size_t len)
{
	struct iovec iov = {result, len};
	struct hfi_hdr h;

	opx_flow_hdr(&peer->flow, &h, OPX_RZV_DATA, OPX_SUB_FETCH, 0);
	h.w[0] = h.tag = le64_put(0);
	h.w[1] = le64_put(handle);
	opx_flow_post(&peer->flow, &h, &iov, 1, OPX_POST_CONTROL, NULL, NULL);
	peer->ep->need_doorbell = true;
}

struct apply {
	const struct request *r;
	void *at;
	const uint8_t *src, *cmp;
	uint8_t *result;
};

static void apply_run(void *arg)
{
	const struct apply *a = arg;

	kit_atomic_apply(a->r->kind, a->r->dt, a->r->op, a->at, a->src, a->cmp, a->result, a->r->count);
}

void opx_on_atomic(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint8_t operand[HFI_MTU], result[HFI_MTU];
	uint32_t handle = le32_get(h->imm);
	enum opx_status why = OPX_OK;
	struct request r;
	uint64_t access;
	struct apply a;
	void *at;

	if (data->len > sizeof(operand) || !decode(h, data->len, peer->ep->mtu, &r)) {
		LOG_INFO("atomic refused: datatype and operation 0x%llx", (unsigned long long)le64_get(h->tag));
		opx_done_send(peer, handle, OPX_ST_ATOMIC);
		return;
	}
	access = r.read_only		     ? FI_REMOTE_READ
		 : r.kind == KIT_ATOMIC_BASE ? FI_REMOTE_WRITE
					     : FI_REMOTE_READ | FI_REMOTE_WRITE;
	at = opx_mr_find(peer->ep->domain, le64_get(h->w[1]), le64_get(h->w[0]), r.len, access, &why);
	if (!at) {
		LOG_INFO("atomic refused: %s", opx_strerror((int)why));
		opx_done_send(peer, handle, why);
		return;
	}
	view_copy(data, 0, operand, data->len);
	a = (struct apply){&r, at, r.read_only ? NULL : operand, operand + r.len, result};
	if (unlikely(!guard_call(at, r.len, apply_run, &a))) {
		opx_done_send(peer, handle, OPX_ST_GONE);
		return;
	}
	if (peer->ep->kit.cntr[r.kind == KIT_ATOMIC_BASE ? KIT_CNTR_REMOTE_WRITE : KIT_CNTR_REMOTE_READ])
		kit_cntr_add(
			peer->ep->kit.cntr[r.kind == KIT_ATOMIC_BASE ? KIT_CNTR_REMOTE_WRITE : KIT_CNTR_REMOTE_READ], 1,
			0);
	if (r.kind != KIT_ATOMIC_BASE)
		reply(peer, handle, result, r.len);
	else if (handle != OPX_NO_HANDLE)
		opx_done_send(peer, handle, OPX_OK);
}

/* --- initiator ----------------------------------------------------------------------------------------------- */

void opx_on_fetched(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	struct opx_op *op = opx_op_find(peer, (uint32_t)le64_get(h->w[1]));
	size_t at = 0;

	if (!op)
		return;
	if ((op->kind != OPX_OP_FETCH && op->kind != OPX_OP_COMPARE) || data->len != op->len) {
		peer->ep->stats.rx_malformed++;
		return;
	}
	for (uint32_t i = 0; i < data->seg_cnt; i++)
		at += kit_iov_copy_to(op->res, op->res_cnt, at, data->seg[i].p, data->seg[i].len);
	if (unlikely(at < data->len)) {
		opx_op_fail(op, opx_err_of(OPX_ST_GONE), OPX_ST_GONE);
		return;
	}
	op->is_done = true;
	opx_op_check(op);
}

static enum kit_atomic_kind kind_of(enum opx_op_kind kind)
{
	return kind == OPX_OP_ATOMIC ? KIT_ATOMIC_BASE : kind == OPX_OP_FETCH ? KIT_ATOMIC_FETCH : KIT_ATOMIC_COMPARE;
}

/* What an atomic carries, gathered, and its limits. Return: bytes of @operand; -FI_EINVAL. */
static ssize_t gather(struct opx_op *op, const struct kit_atomic_req *req, uint8_t operand[HFI_MTU])
{
	const struct fi_msg_atomic *m = req->msg;
	size_t dt_size = kit_dt_size(m->datatype), max = count_max(op->ep, req->kind, dt_size) * dt_size;
	struct iovec cmp[OPX_IOV_MAX];

	op->len = kit_count_bytes(0, m->rma_iov[0].count, dt_size);
	op->iov_cnt = m->op == FI_ATOMIC_READ ? 0 : (uint8_t)m->iov_count;
	op->res_cnt = (uint8_t)req->res.iov_count;
	if (!op->len || m->rma_iov[0].count > max / dt_size ||
	    (op->flags & FI_INJECT && op->len > op->ep->kit.inject_size) ||
	    (m->op != FI_ATOMIC_READ && kit_ioc_to_iov(op->iov, m->msg_iov, m->iov_count, dt_size) != op->len) ||
	    (req->cmp.iov_count && kit_ioc_to_iov(cmp, req->cmp.msg_iov, req->cmp.iov_count, dt_size) != op->len) ||
	    (op->res_cnt && kit_ioc_to_iov(op->res, req->res.msg_iov, op->res_cnt, dt_size) != op->len))
		return -FI_EINVAL;
	if (op->kind != OPX_OP_ATOMIC && !op->res_cnt)
		return -FI_EINVAL;
	if (op->kind == OPX_OP_COMPARE && !req->cmp.iov_count)
		return -FI_EINVAL;
	if (m->op == FI_ATOMIC_READ)
		return 0;
	kit_iov_copy_from(operand, op->len, op->iov, op->iov_cnt, 0);
	if (op->kind == OPX_OP_COMPARE)
		kit_iov_copy_from(operand + op->len, op->len, cmp, req->cmp.iov_count, 0);
	return (ssize_t)(op->kind == OPX_OP_COMPARE ? 2 * op->len : op->len);
}

static int post(struct opx_op *op, const struct fi_msg_atomic *m, void *operand, size_t len)
{
	struct opx_flow *f = &op->peer->flow;
	struct iovec iov = {operand, len};
	struct hfi_hdr h;
	int rc;

	opx_flow_hdr(f, &h, OPX_ATOMIC, (uint8_t)kind_of((enum opx_op_kind)op->kind),
		     op->needs_done ? opx_op_handle(op) : OPX_NO_HANDLE);
	h.w[0] = le64_put(m->rma_iov[0].addr);
	h.w[1] = le64_put(m->rma_iov[0].key);
	h.tag = le64_put((uint64_t)m->datatype | (uint64_t)m->op << 8 | m->rma_iov[0].count << 16);
	rc = opx_flow_post(f, &h, &iov, len != 0, 0, NULL, NULL);
	op->is_posted = !rc;
	op->ep->need_doorbell = true;
	return rc;
}

/* One try. Lock held. */
static int atomic_once(struct opx_ep *ep, const struct kit_atomic_req *req, uint64_t flags)
{
	static const enum opx_op_kind kinds[] = {[KIT_ATOMIC_BASE] = OPX_OP_ATOMIC,
						 [KIT_ATOMIC_FETCH] = OPX_OP_FETCH,
						 [KIT_ATOMIC_COMPARE] = OPX_OP_COMPARE};
	const struct fi_msg_atomic *m = req->msg;
	enum opx_op_kind kind = kinds[req->kind];
	struct opx_peer *peer = opx_peer_find(ep, m->addr);
	struct opx_op *op = peer && !opx_fence(peer, flags) ? opx_op_get(peer, kind) : NULL;
	uint8_t operand[HFI_MTU];
	ssize_t rc;

	if (!op)
		return peer ? -FI_EAGAIN : -FI_EINVAL;
	op->flags = flags;
	op->context = m->context;
	op->cq_flags = FI_ATOMIC | (kind == OPX_OP_ATOMIC ? FI_WRITE : FI_READ);
	op->wants_cqe = !(flags & OPX_NO_CQE) && kit_tx_wants_cqe(&ep->kit, flags);
	op->needs_done = kind != OPX_OP_ATOMIC || op->wants_cqe || ep->kit.cntr[KIT_CNTR_WRITE];
	rc = gather(op, req, operand);
	if (rc >= 0 && peer->flow.state != OPX_FLOW_OPEN) {
		int open = opx_peer_open(peer);

		rc = open ? open : rc;
	}
	rc = rc < 0 ? rc : post(op, m, operand, (size_t)rc);
	if (rc) {
		opx_op_abandon(op);
		return (int)rc;
	}
	peer->silent += !op->needs_done;
	opx_op_wait(op);
	opx_op_check(op);
	return 0;
}

static ssize_t atomic(struct fid_ep *fid, const struct kit_atomic_req *req)
{
	struct opx_ep *ep = opx_ep_of(fid);
	uint64_t flags = kit_atomic_flags(&ep->kit, req) | (req->form == KIT_ATOMIC_BY_INJECT ? OPX_NO_CQE : 0);
	const struct fi_msg_atomic *m = req->msg;
	int rc;

	if (unlikely(opx_ep_state(ep)))
		return opx_ep_state(ep);
	if (!(ep->kit.caps & FI_ATOMIC) || check(req->kind, m->datatype, m->op))
		return -FI_EOPNOTSUPP;
	if (m->iov_count > OPX_IOV_MAX || req->cmp.iov_count > OPX_IOV_MAX || req->res.iov_count > OPX_IOV_MAX ||
	    m->rma_iov_count != 1)
		return -FI_EINVAL;
	lock_acquire(&ep->domain->kit.lock);
	rc = atomic_once(ep, req, flags);
	if (rc == -FI_EAGAIN) {
		opx_ep_progress(&ep->kit);
		rc = atomic_once(ep, req, flags);
	}
	if (ep->need_doorbell && !(flags & FI_MORE)) {
		ep->need_doorbell = false;
		hfi_doorbell(ep->hw);
	}
	lock_release(&ep->domain->kit.lock);
	return rc;
}

/* --- what there is ------------------------------------------------------------------------------------------- */

static int valid(struct fid_ep *fid, enum kit_atomic_kind kind, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	int ret = check(kind, dt, op);

	if (!ret && count)
		*count = count_max(opx_ep_of(fid), kind, kit_dt_size(dt));
	return ret;
}

int opx_query_atomic(struct fid_domain *domain, enum fi_datatype dt, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags)
{
	const struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	int kind = kit_atomic_query_kind(attr, flags);
	int ret = kind < 0 ? kind : check((enum kit_atomic_kind)kind, dt, op);
	struct hfi_unit_attr unit;
	struct opx_ep any = {0};

	if (ret)
		return ret;
	if (hfi_unit_query(d->unit, &unit))
		return -FI_ENODEV;
	any.mtu = opx_mtu(unit.mtu);
	attr->size = kit_dt_size(dt);
	attr->count = count_max(&any, (enum kit_atomic_kind)kind, attr->size);
	return 0;
}

const struct kit_atomic_ops opx_atomic_ops = KIT_ATOMIC_OPS(atomic, valid);
