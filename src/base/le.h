// SPDX-License-Identifier: BSD-2-Clause
// Little- and big-endian integers as byte arrays: alignment 1, no padding, and no accidental arithmetic.
#ifndef SF_BASE_LE_H
#define SF_BASE_LE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint8_t b[2]; } le16_t;
typedef struct { uint8_t b[4]; } le32_t;
typedef struct { uint8_t b[8]; } le64_t;
typedef struct { uint8_t b[2]; } be16_t;
typedef struct { uint8_t b[4]; } be32_t;

static inline uint16_t le16_get(le16_t v) { uint16_t x; memcpy(&x, v.b, 2); return le16toh(x); }
static inline uint32_t le32_get(le32_t v) { uint32_t x; memcpy(&x, v.b, 4); return le32toh(x); }
static inline uint64_t le64_get(le64_t v) { uint64_t x; memcpy(&x, v.b, 8); return le64toh(x); }
static inline uint16_t be16_get(be16_t v) { uint16_t x; memcpy(&x, v.b, 2); return be16toh(x); }
static inline uint32_t be32_get(be32_t v) { uint32_t x; memcpy(&x, v.b, 4); return be32toh(x); }
static inline le16_t le16_put(uint16_t x) { le16_t v; x = htole16(x); memcpy(v.b, &x, 2); return v; }
static inline le32_t le32_put(uint32_t x) { le32_t v; x = htole32(x); memcpy(v.b, &x, 4); return v; }
static inline le64_t le64_put(uint64_t x) { le64_t v; x = htole64(x); memcpy(v.b, &x, 8); return v; }
static inline be16_t be16_put(uint16_t x) { be16_t v; x = htobe16(x); memcpy(v.b, &x, 2); return v; }
static inline be32_t be32_put(uint32_t x) { be32_t v; x = htobe32(x); memcpy(v.b, &x, 4); return v; }

#endif
