// SPDX-License-Identifier: BSD-2-Clause
// Counters over the adapter's counting events.
#include "prov/cxi/cxi.h"
