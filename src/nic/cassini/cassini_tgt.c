// SPDX-License-Identifier: BSD-2-Clause
// The target: what a packet does when it arrives at a portal table entry.
#include "nic/cassini/cassini_int.h"
