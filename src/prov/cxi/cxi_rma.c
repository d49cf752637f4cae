// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes.
#include "prov/cxi/cxi.h"
