// SPDX-License-Identifier: BSD-2-Clause
// What this process has mapped, as text.
#include "link/bulk/bulk_int.h"

#include <stdio.h>
#include <string.h>

char *bulk_maps_read(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	size_t len = 0, cap = 65536;
	char *buf = f ? mem_alloc(cap) : NULL;

	while (buf) {
		size_t n = fread(buf + len, 1, cap - len - 1, f);
		char *more;

		len += n;
		if (len < cap - 1)
			break;
		more = mem_alloc(2 * cap);
		if (more)
			memcpy(more, buf, len);
		mem_free(buf);
		buf = more;
		cap *= 2;
	}
	if (f)
		fclose(f);
	return buf;
}
