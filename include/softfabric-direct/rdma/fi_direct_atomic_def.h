// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations and their types are libfabric's own: libfabric asks for this header, opx has nothing to say in it.
#ifndef FI_DIRECT_ATOMIC_DEF_H
#define FI_DIRECT_ATOMIC_DEF_H
#endif
