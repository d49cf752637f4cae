// SPDX-License-Identifier: BSD-2-Clause
// Arithmetic of atomic operations.
#include "nic/cassini/cassini_int.h"
