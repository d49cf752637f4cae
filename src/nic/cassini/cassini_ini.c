// SPDX-License-Identifier: BSD-2-Clause
// The initiator: an operation's life from frame to event.
#include "nic/cassini/cassini_int.h"
