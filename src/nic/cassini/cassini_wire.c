// SPDX-License-Identifier: BSD-2-Clause
// Frame formats of the soft Cassini adapter: descriptor table, door, encoder.
#include "nic/cassini/cassini_int.h"
