// SPDX-License-Identifier: BSD-2-Clause
// Counters of an adapter, by their telemetry names.
#include "nic/cassini/cassini_int.h"
