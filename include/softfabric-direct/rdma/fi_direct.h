// SPDX-License-Identifier: BSD-2-Clause
// What programs built with -DFABRIC_DIRECT may know of opx when they are compiled, fi_direct(7).
#ifndef FI_DIRECT_H
#define FI_DIRECT_H

/*
 * The provider asks for FI_CONTEXT2. It never writes to a context, so that struct fi_context is as good.
 * FI_DIRECT_LOCAL_MR stays undefined: regions of our own are not needed.
 */
#define FI_DIRECT_CONTEXT 1

#endif
