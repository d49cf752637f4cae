// SPDX-License-Identifier: BSD-2-Clause
// Tagged messages of opx as direct calls; included by <rdma/fi_tagged.h> with -DFABRIC_DIRECT.
#ifndef FABRIC_DIRECT_TAGGED
#define FABRIC_DIRECT_TAGGED 1

#include <rdma/fi_tagged.h>
#include "fi_direct_opx.h"

#ifdef __cplusplus
extern "C" {
#endif

FI_OPX_DIRECT_TAGGED(FI_OPX_DIRECT_DECLARE)

#ifdef __cplusplus
}
#endif

#endif
