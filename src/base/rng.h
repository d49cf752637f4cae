// SPDX-License-Identifier: BSD-2-Clause
// Seeded pseudo-random numbers; the only randomness, so that a seed replays a run. Not for secrets.
#ifndef SF_BASE_RNG_H
#define SF_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t s[4]; /* never all zero */
};

/**
 * rng_seed() - Start the stream of @seed; any value is as good as another.
 * Source: Vigna, splitmix64 (public domain), as recommended to seed xoshiro.
 */
void rng_seed(struct rng *r, uint64_t seed);

/** rng_entropy() - A fresh seed: getrandom(2), or clock and pid where that is refused. */
uint64_t rng_entropy(void);

/** rng_u64() - Next 64 bits. Source: Blackman and Vigna, xoshiro256** 1.0 (public domain). */
static inline uint64_t rng_u64(struct rng *r)
{
	uint64_t *s = r->s, x = s[1] * 5, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = (s[3] << 45) | (s[3] >> 19);
	return ((x << 7) | (x >> 57)) * 9;
}

/** rng_below() - A number in [0, @n), 0 for @n 0; off from uniform by less than @n / 2^64. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rng_u64(r) * n) >> 64);
}

/** rng_chance() - True with probability @p; never for @p <= 0, always for @p >= 1. Draws once. */
static inline bool rng_chance(struct rng *r, double p)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53 < p;
}

#endif
