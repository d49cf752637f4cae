// SPDX-License-Identifier: BSD-2-Clause
// Commands in: checks, queues, fences, holds of ordered operations.
#include "nic/cassini/cassini_int.h"
