// SPDX-License-Identifier: BSD-2-Clause
// Unexpected messages: overflow and request buffers, software's lists, peek and claim.
#include "prov/cxi/cxi.h"
