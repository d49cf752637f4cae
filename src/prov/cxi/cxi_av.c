// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: table and map, named and shared, several VNIs, asynchronous insertion.
#include "prov/cxi/cxi.h"
