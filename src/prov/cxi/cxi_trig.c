// SPDX-License-Identifier: BSD-2-Clause
// Deferred work: operations that counters trigger.
#include "prov/cxi/cxi.h"
