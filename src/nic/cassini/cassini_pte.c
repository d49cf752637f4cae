// SPDX-License-Identifier: BSD-2-Clause
// Portal table entries: objects, states, append, search, unlink.
#include "nic/cassini/cassini_int.h"
