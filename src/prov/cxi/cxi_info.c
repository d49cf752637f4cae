// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of the cxi provider. Source: facts/cxi.md 1.
#include "prov/cxi/cxi.h"
