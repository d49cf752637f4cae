// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/rng.c and rng.h.
#include "unit.h"

#include <math.h>
#include <stdbool.h>

#include "base/base.h"

/* State after seeding = splitmix64 outputs; values published with the reference code's test
 * vectors. */
static void rng_seed__is_splitmix64(void **state)
{
	static const uint64_t expect[4] = {6457827717110365317ULL, 3203168211198807973ULL,
					   9817491932198370423ULL, 4593380528125082431ULL};
	struct rng r;

	rng_seed(&r, 1234567);
	for (int i = 0; i < 4; i++)
		assert_true(r.s[i] == expect[i]);
}

/* Vectors: rand_xoshiro's test of xoshiro256** from the state {1, 2, 3, 4}. */
static void rng_u64__is_xoshiro256starstar(void **state)
{
	static const uint64_t expect[] = {11520,
					  0,
					  1509978240,
					  1215971899390074240ULL,
					  1216172134540287360ULL,
					  607988272756665600ULL,
					  16172922978634559625ULL,
					  8476171486693032832ULL,
					  10595114339597558777ULL,
					  2904607092377533576ULL};
	struct rng r = {{1, 2, 3, 4}};

	for (size_t i = 0; i < ARRAY_SIZE(expect); i++)
		assert_true(rng_u64(&r) == expect[i]);
}

static void rng_seed__same_seed_same_stream(void **state)
{
	struct rng a, b, c;

	rng_seed(&a, 0);
	rng_seed(&b, 0);
	rng_seed(&c, 1);
	assert_true(rng_u64(&a) == rng_u64(&b));
	assert_true(rng_u64(&a) == rng_u64(&b));
	assert_false(rng_u64(&a) == rng_u64(&c));
}

static void rng_below__stays_below_and_hits_all(void **state)
{
	struct rng r = unit_rng();

	for (uint64_t n = 1; n <= 40; n++) {
		uint64_t hit = 0;

		for (int i = 0; i < 4000; i++) {
			uint64_t x = rng_below(&r, n);

			assert_true(x < n);
			hit |= 1ULL << x;
		}
		assert_true(hit == (1ULL << n) - 1);
	}
	assert_true(rng_below(&r, 0) == 0);
	for (int i = 0; i < 100; i++)
		assert_true(rng_below(&r, UINT64_MAX) < UINT64_MAX);
}

static void rng_chance__edges(void **state)
{
	struct rng r = unit_rng();

	for (int i = 0; i < 1000; i++) {
		assert_false(rng_chance(&r, 0));
		assert_false(rng_chance(&r, -1));
		assert_false(rng_chance(&r, NAN));
		assert_true(rng_chance(&r, 1));
		assert_true(rng_chance(&r, 2));
	}
}

/* 10 sigma: one false alarm in 10^22 runs. */
static void rng_chance__frequency(void **state)
{
	const double p[] = {0.01, 0.25, 0.5, 0.9}, cnt = 100000;
	struct rng r = unit_rng();

	for (size_t k = 0; k < ARRAY_SIZE(p); k++) {
		double hit = 0, off;

		for (int i = 0; i < (int)cnt; i++)
			hit += rng_chance(&r, p[k]);
		off = hit - cnt * p[k];
		assert_true(off * off < 100 * cnt * p[k] * (1 - p[k]));
	}
}

static void rng_chance__draws_once(void **state)
{
	struct rng a, b;

	rng_seed(&a, 5);
	rng_seed(&b, 5);
	rng_chance(&a, 0);
	rng_u64(&b);
	assert_true(rng_u64(&a) == rng_u64(&b));
}

static void rng_entropy__differs(void **state)
{
	assert_false(rng_entropy() == rng_entropy());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rng_seed__is_splitmix64),
		cmocka_unit_test(rng_seed__same_seed_same_stream),
		cmocka_unit_test(rng_u64__is_xoshiro256starstar),
		cmocka_unit_test(rng_below__stays_below_and_hits_all),
		cmocka_unit_test(rng_chance__edges),
		cmocka_unit_test(rng_chance__frequency),
		cmocka_unit_test(rng_chance__draws_once),
		cmocka_unit_test(rng_entropy__differs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
