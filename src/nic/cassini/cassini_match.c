// SPDX-License-Identifier: BSD-2-Clause
// The four lists of a portal table entry and their rules, nothing else.
#include "nic/cassini/cassini_int.h"
