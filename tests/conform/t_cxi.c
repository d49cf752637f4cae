// SPDX-License-Identifier: BSD-2-Clause
#include "conform.h"
const struct ct_test cxi_tests[] = {{0}};
