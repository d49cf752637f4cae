// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes.
#include "prov/cxi/cxi.h"

struct fi_ops_rma cxi_rma_ops;
