// SPDX-License-Identifier: BSD-2-Clause
// Counting events and the commands they trigger.
#include "nic/cassini/cassini_int.h"
