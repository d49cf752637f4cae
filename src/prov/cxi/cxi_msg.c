// SPDX-License-Identifier: BSD-2-Clause
// Sends: the calls, the choice of a command, and the events that end them.
#include "prov/cxi/cxi.h"
