// SPDX-License-Identifier: BSD-2-Clause
// Every datatype x operation that libfabric defines, as functions on memory.
#ifndef SF_KIT_ATOMIC_H
#define SF_KIT_ATOMIC_H

#include "kit/kit.h"

#define KIT_DT_NUM 20 /* FI_INT8 .. FI_FLOAT8_E5M2 of 2.x; what a 1.17 header lacks is here by number */
#define KIT_OP_NUM 20 /* FI_MIN .. FI_MSWAP, FI_DIFF */

enum kit_atomic_kind { KIT_ATOMIC_BASE, KIT_ATOMIC_FETCH, KIT_ATOMIC_COMPARE };

/** kit_dt_size() - Bytes of one element; 0 for an unknown datatype. */
size_t kit_dt_size(unsigned dt);
/**
 * kit_atomic_valid() - Is (@kind, @dt, @op) defined? 0; -FI_EINVAL numbers out of range; -FI_EOPNOTSUPP no such
 * combination.
 */
int kit_atomic_valid(enum kit_atomic_kind kind, unsigned dt, unsigned op);
/**
 * kit_atomic_apply() - dst[i] = op(dst[i], src[i]) for @count elements; FETCH and COMPARE first copy dst[i] to
 * @result[i].
 * @dst need not be aligned. @src, @cmp, @result are plain arrays, may be unaligned; @src is NULL for FI_ATOMIC_READ.
 * Elements are updated one by one; the caller serialises all updates of one region (the adapter's lock).
 * Return: as kit_atomic_valid().
 */
int kit_atomic_apply(enum kit_atomic_kind kind, unsigned dt, unsigned op, void *dst, const void *src, const void *cmp,
		     void *result, size_t count);

#endif
