// SPDX-License-Identifier: BSD-2-Clause
// Addresses and connections are called as without FABRIC_DIRECT: libfabric asks for this header, opx has nothing to say
// in it.
#ifndef FI_DIRECT_CM_H
#define FI_DIRECT_CM_H
#endif
