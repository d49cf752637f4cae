// SPDX-License-Identifier: BSD-2-Clause
// What every unit test needs: cmocka with the headers it wants first, and a seed that can be
// replayed.
#ifndef SF_TESTS_UNIT_UNIT_H
#define SF_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"

/** unit_rng() - Random stream of this run: seeded by the environment's SEED, else anew; printed. */
static inline struct rng unit_rng(void)
{
	const char *env = getenv("SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : rng_entropy();
	struct rng r;

	print_message("SEED=%#llx\n", (unsigned long long)seed);
	rng_seed(&r, seed);
	return r;
}

/** unit_slow() - How much longer deadlines are, by the environment's SLOW: under valgrind and the sanitizers. */
static inline unsigned unit_slow(void)
{
	const char *env = getenv("SLOW");
	unsigned long n = env ? strtoul(env, NULL, 0) : 1;

	return n < 1 ? 1 : n > 100 ? 100 : (unsigned)n;
}

#endif
