// SPDX-License-Identifier: BSD-2-Clause
// The data calls as functions that programs built with -DFABRIC_DIRECT call themselves, fi_direct(7).
#include "prov/opx/opx.h"

#include "softfabric-direct/rdma/fi_direct_opx.h"

/*
 * Objects of this library go straight to its functions. Any other goes through its own table: an object of another
 * provider, of a second copy of this file, a hook's, a context of a scalable endpoint, an endpoint whose capabilities
 * lack the call. So each call does what the one without FABRIC_DIRECT would have done.
 */
#define DIRECT(ours, name, table, op, params, args)                                                                    \
	__attribute__((visibility("default"))) ssize_t opx_##name params;                                              \
	ssize_t opx_##name params                                                                                      \
	{                                                                                                              \
		return likely((table) == &(ours)) ? (ours).op args : (table)->op args;                                 \
	}

#define DIRECT_MSG(...)    DIRECT(opx_msg_ops, __VA_ARGS__)
#define DIRECT_TAGGED(...) DIRECT(opx_tagged_ops, __VA_ARGS__)
#define DIRECT_RMA(...)    DIRECT(opx_rma_ops, __VA_ARGS__)
#define DIRECT_ATOMIC(...) DIRECT(opx_atomic_ops.ops, __VA_ARGS__)
#define DIRECT_CQ(...)     DIRECT(kit_cq_ops, __VA_ARGS__)

FI_OPX_DIRECT_MSG(DIRECT_MSG)
FI_OPX_DIRECT_TAGGED(DIRECT_TAGGED)
FI_OPX_DIRECT_RMA(DIRECT_RMA)
FI_OPX_DIRECT_ATOMIC(DIRECT_ATOMIC)
FI_OPX_DIRECT_CQ(DIRECT_CQ)
