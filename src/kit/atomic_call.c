// SPDX-License-Identifier: BSD-2-Clause
// The calls of struct fi_ops_atomic, each as one struct kit_atomic_req for the provider.
#include "kit/atomic_call.h"

static const struct kit_atomic_ops *ops_of(const struct fid_ep *fid)
{
	return container_of(fid->atomic, struct kit_atomic_ops, ops);
}

static ssize_t forward(struct fid_ep *fid, const struct kit_atomic_req *req)
{
	const struct fi_msg_atomic *m = req->msg;

	if (unlikely(!m || (!m->msg_iov && m->iov_count && m->op != FI_ATOMIC_READ) ||
		     (!m->rma_iov && m->rma_iov_count) || (!req->cmp.msg_iov && req->cmp.iov_count) ||
		     (!req->res.msg_iov && req->res.iov_count)))
		return -FI_EINVAL;
	return ops_of(fid)->op(fid, req);
}

static size_t elements(const struct fi_ioc *ioc, size_t cnt)
{
	size_t sum = 0;

	for (size_t i = 0; ioc && i < cnt; i++)
		sum = kit_count_bytes(sum, ioc[i].count, 1);
	return sum;
}

/* --- no result ----------------------------------------------------------------------------------------------- */

ssize_t kit_atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dest,
			  uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_rma_ioc r = {addr, elements(iov, count), key};
	struct fi_msg_atomic m = {.msg_iov = iov, .desc = desc, .iov_count = count, .addr = dest, .rma_iov = &r,
				  .rma_iov_count = 1, .datatype = dt, .op = op, .context = context};

	return forward(fid, &(struct kit_atomic_req){.kind = KIT_ATOMIC_BASE, .msg = &m});
}

ssize_t kit_atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t dest, uint64_t addr,
			 uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count};

	return kit_atomic_writev(fid, &iov, &desc, 1, dest, addr, key, dt, op, context);
}

ssize_t kit_atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return forward(fid, &(struct kit_atomic_req){.kind = KIT_ATOMIC_BASE, .form = KIT_ATOMIC_BY_MSG, .flags = flags,
						     .msg = msg});
}

ssize_t kit_atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest, uint64_t addr,
			  uint64_t key, enum fi_datatype dt, enum fi_op op)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count};
	struct fi_rma_ioc r = {addr, count, key};
	struct fi_msg_atomic m = {.msg_iov = &iov, .iov_count = 1, .addr = dest, .rma_iov = &r, .rma_iov_count = 1,
				  .datatype = dt, .op = op};

	return forward(fid, &(struct kit_atomic_req){.kind = KIT_ATOMIC_BASE, .form = KIT_ATOMIC_BY_INJECT, .msg = &m});
}

/* --- fetch --------------------------------------------------------------------------------------------------- */

ssize_t kit_atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
			      struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
			      uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_rma_ioc r = {addr, elements(resultv, result_count), key}; /* a read has no operand to count */
	struct fi_msg_atomic m = {.msg_iov = iov, .desc = desc, .iov_count = op == FI_ATOMIC_READ ? 0 : count,
				  .addr = dest, .rma_iov = &r, .rma_iov_count = 1, .datatype = dt, .op = op,
				  .context = context};

	return forward(fid, &(struct kit_atomic_req){.kind = KIT_ATOMIC_FETCH, .msg = &m,
						     .res = {resultv, result_desc, result_count}});
}

ssize_t kit_atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
			     void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype dt,
			     enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count}, res = {result, count};

	return kit_atomic_readwritev(fid, &iov, &desc, 1, &res, &result_desc, 1, dest, addr, key, dt, op, context);
}

ssize_t kit_atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
				void **result_desc, size_t result_count, uint64_t flags)
{
	return forward(fid, &(struct kit_atomic_req){.kind = KIT_ATOMIC_FETCH, .form = KIT_ATOMIC_BY_MSG,
						     .flags = flags, .msg = msg,
						     .res = {resultv, result_desc, result_count}});
}

/* --- compare ------------------------------------------------------------------------------------------------- */

ssize_t kit_atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
			      const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
			      struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
			      uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_rma_ioc r = {addr, elements(iov, count), key};
	struct fi_msg_atomic m = {.msg_iov = iov, .desc = desc, .iov_count = count, .addr = dest, .rma_iov = &r,
				  .rma_iov_count = 1, .datatype = dt, .op = op, .context = context};

	return forward(fid, &(struct kit_atomic_req){.kind = KIT_ATOMIC_COMPARE, .msg = &m,
						     .res = {resultv, result_desc, result_count},
						     .cmp = {comparev, compare_desc, compare_count}});
}

ssize_t kit_atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, const void *compare,
			     void *compare_desc, void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
			     uint64_t key, enum fi_datatype dt, enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count}, cmp = {(void *)(uintptr_t)compare, count},
		      res = {result, count};

	return kit_atomic_compwritev(fid, &iov, &desc, 1, &cmp, &compare_desc, 1, &res, &result_desc, 1, dest, addr,
				     key, dt, op, context);
}

ssize_t kit_atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
				void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				size_t result_count, uint64_t flags)
{
	return forward(fid, &(struct kit_atomic_req){.kind = KIT_ATOMIC_COMPARE, .form = KIT_ATOMIC_BY_MSG,
						     .flags = flags, .msg = msg,
						     .res = {resultv, result_desc, result_count},
						     .cmp = {comparev, compare_desc, compare_count}});
}

/* --- what there is ------------------------------------------------------------------------------------------- */

int kit_atomic_writevalid(struct fid_ep *fid, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	return ops_of(fid)->valid(fid, KIT_ATOMIC_BASE, dt, op, count);
}

int kit_atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	return ops_of(fid)->valid(fid, KIT_ATOMIC_FETCH, dt, op, count);
}

int kit_atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	return ops_of(fid)->valid(fid, KIT_ATOMIC_COMPARE, dt, op, count);
}

int kit_atomic_query_kind(const struct fi_atomic_attr *attr, uint64_t flags)
{
	if (!attr || (flags & ~(FI_COMPARE_ATOMIC | FI_FETCH_ATOMIC | FI_TAGGED)))
		return -FI_EINVAL;
	if (flags & FI_TAGGED)
		return -FI_EOPNOTSUPP;
	return flags & FI_COMPARE_ATOMIC ? KIT_ATOMIC_COMPARE
	       : flags & FI_FETCH_ATOMIC ? KIT_ATOMIC_FETCH
					 : KIT_ATOMIC_BASE;
}
