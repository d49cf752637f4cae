// SPDX-License-Identifier: BSD-2-Clause
#include "conform.h"
const struct ct_test av_tests[] = {{0}};
