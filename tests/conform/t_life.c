// SPDX-License-Identifier: BSD-2-Clause
#include "conform.h"
const struct ct_test life_tests[] = {{0}};
