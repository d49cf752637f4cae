// SPDX-License-Identifier: BSD-2-Clause
#include "conform.h"
const struct ct_test info_tests[] = {{0}};
