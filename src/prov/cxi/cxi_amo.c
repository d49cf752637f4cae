// SPDX-License-Identifier: BSD-2-Clause
// Atomics: libfabric's operations as the adapter's.
#include "prov/cxi/cxi.h"
