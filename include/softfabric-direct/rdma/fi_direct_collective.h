// SPDX-License-Identifier: BSD-2-Clause
// Collectives, which opx does not have, are called as without FABRIC_DIRECT: libfabric asks for this header, opx has
// nothing to say in it.
#ifndef FI_DIRECT_COLLECTIVE_H
#define FI_DIRECT_COLLECTIVE_H
#endif
