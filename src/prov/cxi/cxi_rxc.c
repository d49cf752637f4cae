// SPDX-License-Identifier: BSD-2-Clause
// RX contexts: a portal table entry and what it needs.
#include "prov/cxi/cxi.h"
