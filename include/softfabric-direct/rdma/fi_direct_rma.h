// SPDX-License-Identifier: BSD-2-Clause
// RMA of opx as direct calls; included by <rdma/fi_rma.h> with -DFABRIC_DIRECT.
#ifndef FABRIC_DIRECT_RMA
#define FABRIC_DIRECT_RMA 1

#include <rdma/fi_rma.h>
#include "fi_direct_opx.h"

#ifdef __cplusplus
extern "C" {
#endif

FI_OPX_DIRECT_RMA(FI_OPX_DIRECT_DECLARE)

#ifdef __cplusplus
}
#endif

#endif
