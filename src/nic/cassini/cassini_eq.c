// SPDX-License-Identifier: BSD-2-Clause
// Event queues.
#include "nic/cassini/cassini_int.h"
