// SPDX-License-Identifier: BSD-2-Clause
// Where seeds come from and how one spreads over the generator's state.
#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t splitmix64(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

void rng_seed(struct rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix64(&seed);
}

uint64_t rng_entropy(void)
{
	uint64_t seed;
	ssize_t got;

	do {
		got = getrandom(&seed, sizeof(seed), 0);
	} while (got < 0 && errno == EINTR);
	if (got != sizeof(seed)) {
		seed = clk_now_ns(NULL) ^ ((uint64_t)getpid() << 40);
		seed = splitmix64(&seed);
	}
	return seed;
}
