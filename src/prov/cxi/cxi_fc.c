// SPDX-License-Identifier: BSD-2-Clause
// Flow control: refused sends, notices and resumption; hardware to software transitions.
#include "prov/cxi/cxi.h"
