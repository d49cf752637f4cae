// SPDX-License-Identifier: BSD-2-Clause
// Domains, address vectors and memory regions are called as without FABRIC_DIRECT: libfabric asks for this header, opx
// has nothing to say in it.
#ifndef FI_DIRECT_DOMAIN_H
#define FI_DIRECT_DOMAIN_H
#endif
