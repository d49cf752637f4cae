// SPDX-License-Identifier: BSD-2-Clause
// FI_ATOMIC: one packet there, one back; both sides. Source: facts/opx.md 5.2.
#include "prov/opx/opx.h"

#include "base/log.h"
#include "kit/atomic.h"

static size_t count_max(const struct opx_ep *ep, enum kit_atomic_kind kind, size_t dt_size)
{
	return (kind == KIT_ATOMIC_COMPARE ? ep->mtu / 2 : ep->mtu) / dt_size;
}

/* The 14 datatypes of the classic API; their 128-bit sisters came later. */
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

void opx_on_atomic(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint8_t operand[HFI_MTU], result[HFI_MTU];
	uint32_t handle = le32_get(h->imm);
	enum opx_status why = OPX_OK;
	struct request r;
	uint64_t access;
	void *at;

	if (data->len > sizeof(operand) || !decode(h, data->len, peer->ep->mtu, &r)) {
		LOG_INFO("atomic refused: datatype and operation 0x%llx", (unsigned long long)le64_get(h->tag));
		opx_done_send(peer, handle, OPX_ST_ATOMIC);
		return;
	}
	access = r.read_only ? FI_REMOTE_READ : r.kind == KIT_ATOMIC_BASE ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
	at = opx_mr_find(peer->ep->domain, le64_get(h->w[1]), le64_get(h->w[0]), r.len, access, &why);
	if (!at) {
		LOG_INFO("atomic refused: %s", opx_strerror((int)why));
		opx_done_send(peer, handle, why);
		return;
	}
	view_copy(data, 0, operand, data->len);
	kit_atomic_apply(r.kind, r.dt, r.op, at, r.read_only ? NULL : operand, operand + r.len, result, r.count);
	if (peer->ep->kit.cntr[r.kind == KIT_ATOMIC_BASE ? KIT_CNTR_REMOTE_WRITE : KIT_CNTR_REMOTE_READ])
		kit_cntr_add(peer->ep->kit.cntr[r.kind == KIT_ATOMIC_BASE ? KIT_CNTR_REMOTE_WRITE : KIT_CNTR_REMOTE_READ], 1, 0);
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
	op->is_done = true;
	opx_op_check(op);
}

struct atomic_args {
	const struct fi_ioc *cmp, *res;
	size_t cmp_cnt, res_cnt;
};

static size_t to_iov(struct iovec *iov, const struct fi_ioc *ioc, size_t cnt, size_t dt_size)
{
	size_t len = 0;

	for (size_t i = 0; i < cnt; i++) {
		iov[i] = (struct iovec){ioc[i].addr, ioc[i].count * dt_size};
		len += iov[i].iov_len;
	}
	return len;
}

static enum kit_atomic_kind kind_of(enum opx_op_kind kind)
{
	return kind == OPX_OP_ATOMIC ? KIT_ATOMIC_BASE : kind == OPX_OP_FETCH ? KIT_ATOMIC_FETCH : KIT_ATOMIC_COMPARE;
}

/* What an atomic carries, gathered, and its limits. Return: bytes of @operand; -FI_EINVAL. */
static ssize_t gather(struct opx_op *op, const struct fi_msg_atomic *m, const struct atomic_args *a, uint8_t operand[HFI_MTU])
{
	size_t dt_size = kit_dt_size(m->datatype), max = count_max(op->ep, kind_of((enum opx_op_kind)op->kind), dt_size) * dt_size;
	struct iovec cmp[OPX_IOV_MAX];

	op->len = m->rma_iov[0].count * dt_size;
	op->iov_cnt = m->op == FI_ATOMIC_READ ? 0 : (uint8_t)m->iov_count;
	op->res_cnt = (uint8_t)a->res_cnt;
	if (!op->len || m->rma_iov[0].count > max / dt_size || (op->flags & FI_INJECT && op->len > op->ep->kit.inject_size) ||
	    (m->op != FI_ATOMIC_READ && to_iov(op->iov, m->msg_iov, m->iov_count, dt_size) != op->len) ||
	    (a->cmp_cnt && to_iov(cmp, a->cmp, a->cmp_cnt, dt_size) != op->len) ||
	    (a->res_cnt && to_iov(op->res, a->res, a->res_cnt, dt_size) != op->len))
		return -FI_EINVAL;
	if (op->kind != OPX_OP_ATOMIC && !a->res_cnt)
		return -FI_EINVAL;
	if (op->kind == OPX_OP_COMPARE && !a->cmp_cnt)
		return -FI_EINVAL;
	if (m->op == FI_ATOMIC_READ)
		return 0;
	kit_iov_copy_from(operand, op->len, op->iov, op->iov_cnt, 0);
	if (op->kind == OPX_OP_COMPARE)
		kit_iov_copy_from(operand + op->len, op->len, cmp, a->cmp_cnt, 0);
	return (ssize_t)(op->kind == OPX_OP_COMPARE ? 2 * op->len : op->len);
}

static int post(struct opx_op *op, const struct fi_msg_atomic *m, void *operand, size_t len)
{
	struct opx_flow *f = &op->peer->flow;
	struct iovec iov = {operand, len};
	struct hfi_hdr h;
	int rc;

	opx_flow_hdr(f, &h, OPX_ATOMIC, (uint8_t)kind_of((enum opx_op_kind)op->kind), op->needs_done ? opx_op_handle(op) : OPX_NO_HANDLE);
	h.w[0] = le64_put(m->rma_iov[0].addr);
	h.w[1] = le64_put(m->rma_iov[0].key);
	h.tag = le64_put((uint64_t)m->datatype | (uint64_t)m->op << 8 | m->rma_iov[0].count << 16);
	rc = opx_flow_post(f, &h, &iov, len != 0, 0, NULL, NULL);
	op->is_posted = !rc;
	op->ep->need_doorbell = true;
	return rc;
}

/* One try. Lock held. */
static int atomic_once(struct opx_ep *ep, enum opx_op_kind kind, const struct fi_msg_atomic *m, const struct atomic_args *a, uint64_t flags)
{
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
	rc = gather(op, m, a, operand);
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

static ssize_t atomic(struct fid_ep *fid, enum opx_op_kind kind, const struct fi_msg_atomic *m, const struct atomic_args *a, uint64_t flags)
{
	struct opx_ep *ep = opx_ep_of(fid);
	int rc;

	if (unlikely(opx_ep_state(ep)))
		return opx_ep_state(ep);
	if (!(ep->kit.caps & FI_ATOMIC) || check(kind_of(kind), m->datatype, m->op))
		return -FI_EOPNOTSUPP;
	if (m->iov_count > OPX_IOV_MAX || a->cmp_cnt > OPX_IOV_MAX || a->res_cnt > OPX_IOV_MAX || m->rma_iov_count != 1 || !m->rma_iov)
		return -FI_EINVAL;
	lock_acquire(&ep->domain->kit.lock);
	rc = atomic_once(ep, kind, m, a, flags);
	if (rc == -FI_EAGAIN) {
		opx_ep_progress(&ep->kit);
		rc = atomic_once(ep, kind, m, a, flags);
	}
	if (ep->need_doorbell && !(flags & FI_MORE)) {
		ep->need_doorbell = false;
		hfi_doorbell(ep->hw);
	}
	lock_release(&ep->domain->kit.lock);
	return rc;
}

/* --- calls --------------------------------------------------------------------------------------------------- */

static uint64_t op_flags(struct fid_ep *fid)
{
	return opx_ep_of(fid)->kit.tx_op_flags;
}

static uint64_t msg_flags(struct fid_ep *fid, uint64_t flags)
{
	return flags | (opx_ep_of(fid)->kit.tx_selective ? 0 : FI_COMPLETION);
}

static size_t elements(const struct fi_ioc *ioc, size_t cnt)
{
	size_t sum = 0;

	for (size_t i = 0; i < cnt; i++)
		sum += ioc[i].count;
	return sum;
}

static ssize_t opx_atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dst, uint64_t addr,
				 uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_rma_ioc r = {addr, elements(iov, count), key};
	struct fi_msg_atomic m = {.msg_iov = iov, .desc = desc, .iov_count = count, .addr = dst, .rma_iov = &r, .rma_iov_count = 1,
				  .datatype = dt, .op = op, .context = context};

	return atomic(fid, OPX_OP_ATOMIC, &m, &(struct atomic_args){0}, op_flags(fid));
}

static ssize_t opx_atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t dst, uint64_t addr, uint64_t key,
				enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count};

	return opx_atomic_writev(fid, &iov, &desc, 1, dst, addr, key, dt, op, context);
}

static ssize_t opx_atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *m, uint64_t flags)
{
	return atomic(fid, OPX_OP_ATOMIC, m, &(struct atomic_args){0}, msg_flags(fid, flags));
}

static ssize_t opx_atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dst, uint64_t addr, uint64_t key,
				 enum fi_datatype dt, enum fi_op op)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count};
	struct fi_rma_ioc r = {addr, count, key};
	struct fi_msg_atomic m = {.msg_iov = &iov, .iov_count = 1, .addr = dst, .rma_iov = &r, .rma_iov_count = 1, .datatype = dt, .op = op};

	return atomic(fid, OPX_OP_ATOMIC, &m, &(struct atomic_args){0}, op_flags(fid) | FI_INJECT | OPX_NO_CQE);
}

static ssize_t opx_atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, struct fi_ioc *resultv,
				     void **result_desc, size_t result_count, fi_addr_t dst, uint64_t addr, uint64_t key, enum fi_datatype dt,
				     enum fi_op op, void *context)
{
	struct fi_rma_ioc r = {addr, elements(resultv, result_count), key};
	struct fi_msg_atomic m = {.msg_iov = iov, .desc = desc, .iov_count = op == FI_ATOMIC_READ ? 0 : count, .addr = dst, .rma_iov = &r,
				  .rma_iov_count = 1, .datatype = dt, .op = op, .context = context};

	(void)result_desc;
	return atomic(fid, OPX_OP_FETCH, &m, &(struct atomic_args){.res = resultv, .res_cnt = result_count}, op_flags(fid));
}

static ssize_t opx_atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result, void *result_desc,
				    fi_addr_t dst, uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count}, res = {result, count};

	return opx_atomic_readwritev(fid, &iov, &desc, 1, &res, &result_desc, 1, dst, addr, key, dt, op, context);
}

static ssize_t opx_atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *m, struct fi_ioc *resultv, void **result_desc,
				       size_t result_count, uint64_t flags)
{
	(void)result_desc;
	return atomic(fid, OPX_OP_FETCH, m, &(struct atomic_args){.res = resultv, .res_cnt = result_count}, msg_flags(fid, flags));
}

static ssize_t opx_atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, const struct fi_ioc *comparev,
				     void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc, size_t result_count,
				     fi_addr_t dst, uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_rma_ioc r = {addr, elements(iov, count), key};
	struct fi_msg_atomic m = {.msg_iov = iov, .desc = desc, .iov_count = count, .addr = dst, .rma_iov = &r, .rma_iov_count = 1,
				  .datatype = dt, .op = op, .context = context};

	(void)compare_desc;
	(void)result_desc;
	return atomic(fid, OPX_OP_COMPARE, &m,
		      &(struct atomic_args){.cmp = comparev, .cmp_cnt = compare_count, .res = resultv, .res_cnt = result_count}, op_flags(fid));
}

static ssize_t opx_atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, const void *compare, void *compare_desc,
				    void *result, void *result_desc, fi_addr_t dst, uint64_t addr, uint64_t key, enum fi_datatype dt,
				    enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count}, cmp = {(void *)(uintptr_t)compare, count}, res = {result, count};

	return opx_atomic_compwritev(fid, &iov, &desc, 1, &cmp, &compare_desc, 1, &res, &result_desc, 1, dst, addr, key, dt, op, context);
}

static ssize_t opx_atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *m, const struct fi_ioc *comparev, void **compare_desc,
				       size_t compare_count, struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)
{
	(void)compare_desc;
	(void)result_desc;
	return atomic(fid, OPX_OP_COMPARE, m,
		      &(struct atomic_args){.cmp = comparev, .cmp_cnt = compare_count, .res = resultv, .res_cnt = result_count},
		      msg_flags(fid, flags));
}

static int valid(const struct opx_ep *ep, enum kit_atomic_kind kind, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	int ret = check(kind, dt, op);

	if (!ret && count)
		*count = count_max(ep, kind, kit_dt_size(dt));
	return ret;
}

static int opx_writevalid(struct fid_ep *fid, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	return valid(opx_ep_of(fid), KIT_ATOMIC_BASE, dt, op, count);
}

static int opx_readwritevalid(struct fid_ep *fid, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	return valid(opx_ep_of(fid), KIT_ATOMIC_FETCH, dt, op, count);
}

static int opx_compwritevalid(struct fid_ep *fid, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	return valid(opx_ep_of(fid), KIT_ATOMIC_COMPARE, dt, op, count);
}

int opx_query_atomic(struct fid_domain *domain, enum fi_datatype dt, enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
{
	enum kit_atomic_kind kind = flags & FI_COMPARE_ATOMIC ? KIT_ATOMIC_COMPARE : flags & FI_FETCH_ATOMIC ? KIT_ATOMIC_FETCH : KIT_ATOMIC_BASE;
	const struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	struct hfi_unit_attr unit;
	struct opx_ep any = {0};
	int ret = check(kind, dt, op);

	if (!attr || (flags & ~(FI_COMPARE_ATOMIC | FI_FETCH_ATOMIC | FI_TAGGED)))
		return -FI_EINVAL;
	if (flags & FI_TAGGED)
		return -FI_EOPNOTSUPP;
	if (ret)
		return ret;
	if (hfi_unit_query(d->unit, &unit))
		return -FI_ENODEV;
	any.mtu = opx_mtu(unit.mtu);
	attr->size = kit_dt_size(dt);
	attr->count = count_max(&any, kind, attr->size);
	return 0;
}

const struct fi_ops_atomic opx_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = opx_atomic_write,
	.writev = opx_atomic_writev,
	.writemsg = opx_atomic_writemsg,
	.inject = opx_atomic_inject,
	.readwrite = opx_atomic_readwrite,
	.readwritev = opx_atomic_readwritev,
	.readwritemsg = opx_atomic_readwritemsg,
	.compwrite = opx_atomic_compwrite,
	.compwritev = opx_atomic_compwritev,
	.compwritemsg = opx_atomic_compwritemsg,
	.writevalid = opx_writevalid,
	.readwritevalid = opx_readwritevalid,
	.compwritevalid = opx_compwritevalid,
};
