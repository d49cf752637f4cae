// SPDX-License-Identifier: BSD-2-Clause
// FI_PROTO_CXI_RNR: sends tried again until a receive is posted.
#include "prov/cxi/cxi.h"
