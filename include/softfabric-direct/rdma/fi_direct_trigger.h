// SPDX-License-Identifier: BSD-2-Clause
// Triggered operations, which opx does not have, are called as without FABRIC_DIRECT: libfabric asks for this header,
// opx has nothing to say in it.
#ifndef FI_DIRECT_TRIGGER_H
#define FI_DIRECT_TRIGGER_H
#endif
