// SPDX-License-Identifier: BSD-2-Clause
// Atomics: libfabric's operations as the adapter's.
#include "prov/cxi/cxi.h"

struct fi_ops_atomic cxi_atomic_ops;
int cxi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
{
	(void)domain, (void)type, (void)op, (void)attr, (void)flags;
	return -FI_EOPNOTSUPP;
}
