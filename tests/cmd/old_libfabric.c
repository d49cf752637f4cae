// SPDX-License-Identifier: BSD-2-Clause
// A libfabric that is too old for us, as far as the softfabric command looks: it only tells its version.
#include <stdint.h>
#include <stdio.h>

#include "old_libfabric.h"

int fi_getinfo(void)
{
	return -61;
}

void fi_freeinfo(void)
{
}

void *fi_dupinfo(void)
{
	return NULL;
}

uint32_t fi_version(void)
{
	return 1 << 16 | 11;
}

const char *fi_strerror(void)
{
	return "No data available";
}

char *fi_tostr_r(char *buf, size_t len)
{
	snprintf(buf, len, "?");
	return buf;
}
