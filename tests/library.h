// SPDX-License-Identifier: BSD-2-Clause
// How a test program begins libfabric once for the processes that it will start.
#ifndef SF_TESTS_LIBRARY_H
#define SF_TESTS_LIBRARY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>

/**
 * library_begin() - The library of @prov's tests begins, and children inherit that: it looks for the hardware of every
 * provider, and Debian's verbs provider reads all symbols of the kernel to do so, a tenth of a second. Ours reads its
 * parameters and the room later, in each process.
 */
static inline void library_begin(const char *prov)
{
	struct fi_info *h, *info;

	setenv("FI_PROVIDER", prov, 1); /* the others need not be asked what they have */
	h = fi_allocinfo();
	if (!h || !(h->fabric_attr->prov_name = strdup("none")) ||
	    !fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info)) {
		fprintf(stderr, "libfabric could not be begun: no memory, or it has a provider of the name none\n");
		exit(1);
	}
	fi_freeinfo(h);
}

#endif
