// SPDX-License-Identifier: BSD-2-Clause
// Atomics of opx as direct calls; included by <rdma/fi_atomic.h> with -DFABRIC_DIRECT.
#ifndef FABRIC_DIRECT_ATOMIC
#define FABRIC_DIRECT_ATOMIC 1

#include <rdma/fi_atomic.h>
#include "fi_direct_opx.h"

#ifdef __cplusplus
extern "C" {
#endif

FI_OPX_DIRECT_ATOMIC(FI_OPX_DIRECT_DECLARE)

FI_OPX_DIRECT_BY_TABLE(int, fi_atomicvalid, (struct fid_ep *ep, enum fi_datatype dt, enum fi_op op, size_t *cnt),
		       ep->atomic->writevalid(ep, dt, op, cnt))
FI_OPX_DIRECT_BY_TABLE(int, fi_fetch_atomicvalid, (struct fid_ep *ep, enum fi_datatype dt, enum fi_op op, size_t *cnt),
		       ep->atomic->readwritevalid(ep, dt, op, cnt))
FI_OPX_DIRECT_BY_TABLE(int, fi_compare_atomicvalid,
		       (struct fid_ep * ep, enum fi_datatype dt, enum fi_op op, size_t *cnt),
		       ep->atomic->compwritevalid(ep, dt, op, cnt))
FI_OPX_DIRECT_BY_TABLE(int, fi_query_atomic,
		       (struct fid_domain * d, enum fi_datatype dt, enum fi_op op, struct fi_atomic_attr *attr,
			uint64_t flags),
		       FI_CHECK_OP(d->ops, struct fi_ops_domain, query_atomic)
			       ? d->ops->query_atomic(d, dt, op, attr, flags)
			       : -FI_ENOSYS)

#ifdef __cplusplus
}
#endif

#endif
