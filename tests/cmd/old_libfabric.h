// SPDX-License-Identifier: BSD-2-Clause
// Names of libfabric, of which the command calls none but the last three here.
#ifndef SF_TESTS_CMD_OLD_LIBFABRIC_H
#define SF_TESTS_CMD_OLD_LIBFABRIC_H

#include <stddef.h>
#include <stdint.h>

#define SEEN __attribute__((visibility("default")))

SEEN int fi_getinfo(void);
SEEN void fi_freeinfo(void);
SEEN void *fi_dupinfo(void);
SEEN uint32_t fi_version(void);
SEEN const char *fi_strerror(void);
SEEN char *fi_tostr_r(char *buf, size_t len);

#endif
