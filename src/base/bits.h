// SPDX-License-Identifier: BSD-2-Clause
// Bit fields in integers by mask, so that the wire needs no C bit-fields.
#ifndef SF_BASE_BITS_H
#define SF_BASE_BITS_H

#include <stdint.h>

#define BIT(n_)           (1ULL << (n_))
#define GENMASK(hi_, lo_) ((~0ULL >> (63 - (hi_))) & (~0ULL << (lo_)))
#define FIELD_GET(mask_, v_)  (((uint64_t)(v_) & (mask_)) >> __builtin_ctzll(mask_))
#define FIELD_PREP(mask_, v_) (((uint64_t)(v_) << __builtin_ctzll(mask_)) & (mask_))

#endif
