// SPDX-License-Identifier: BSD-2-Clause
// Receives: the calls, list entries, and the events that end them.
#include "prov/cxi/cxi.h"
