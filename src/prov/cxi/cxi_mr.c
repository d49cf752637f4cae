// SPDX-License-Identifier: BSD-2-Clause
// Memory regions: keys, entries, bind and enable.
#include "prov/cxi/cxi.h"
