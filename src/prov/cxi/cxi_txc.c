// SPDX-License-Identifier: BSD-2-Clause
// TX contexts: a command queue, its events, and its outstanding operations.
#include "prov/cxi/cxi.h"
