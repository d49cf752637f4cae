// SPDX-License-Identifier: BSD-2-Clause
// Keyed hash and secrets: numbers that nobody who lacks the key can predict or make collide.
#ifndef SF_BASE_KEYED_H
#define SF_BASE_KEYED_H

#include <stddef.h>
#include <stdint.h>

#define KEYED_LEN 16 /* bytes of a key */

struct keyed {
	uint8_t key[KEYED_LEN];
};

/**
 * keyed_secret() - Writes @len bytes from the kernel's generator to @out; a forked child gets others than its parent.
 */
void keyed_secret(void *out, size_t len);

/** keyed_fresh() - Makes @k a key that nobody else knows. */
void keyed_fresh(struct keyed *k);

/**
 * keyed_hash() - SipHash-2-4 of @len bytes at @p under @k: 64 bits.
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; libsodium computes it.
 */
uint64_t keyed_hash(const struct keyed *k, const void *p, size_t len);

#endif
