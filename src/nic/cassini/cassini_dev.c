// SPDX-License-Identifier: BSD-2-Clause
// The soft room's Cassini adapters: SOFTFABRIC_CXI, services, LNIs, profiles, resources.
#include "nic/cassini/cassini_int.h"
