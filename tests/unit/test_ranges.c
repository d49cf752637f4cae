// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/ranges.c.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/ranges.h"

static const struct range *items(const struct ranges *r)
{
	return r->heap ? r->heap : r->in;
}

static void ranges_init__is_empty_and_allocates_nothing(void **state)
{
	uint64_t allocs = mem_alloc_count();
	struct ranges r;

	ranges_init(&r);
	assert_int_equal(ranges_total(&r), 0);
	assert_false(ranges_has(&r, 0, 1));
	assert_true(ranges_has(&r, 5, 5));
	assert_int_equal(ranges_first_gap(&r, 7), 7);
	for (uint64_t i = 0; i < RANGES_INLINE; i++)
		assert_int_equal(ranges_add(&r, i * 10, i * 10 + 5), 0);
	assert_int_equal(mem_alloc_count(), allocs);
	ranges_fini(&r);
}

static void ranges_add__rejects_backward_accepts_empty(void **state)
{
	struct ranges r;

	ranges_init(&r);
	assert_int_equal(ranges_add(&r, 5, 4), -EINVAL);
	assert_int_equal(ranges_add(&r, UINT64_MAX, 0), -EINVAL);
	assert_int_equal(ranges_add(&r, 5, 5), 0);
	assert_int_equal(r.cnt, 0);
	assert_int_equal(ranges_total(&r), 0);
}

static void ranges_add__merges_neighbours(void **state)
{
	struct ranges r;

	ranges_init(&r);
	assert_int_equal(ranges_add(&r, 10, 20), 0);
	assert_int_equal(ranges_add(&r, 30, 40), 0);
	assert_int_equal(r.cnt, 2);
	assert_false(ranges_has(&r, 10, 40));
	assert_int_equal(ranges_first_gap(&r, 10), 20);
	assert_int_equal(ranges_first_gap(&r, 20), 20);
	assert_int_equal(ranges_add(&r, 20, 30), 0);
	assert_int_equal(r.cnt, 1);
	assert_true(ranges_has(&r, 10, 40));
	assert_false(ranges_has(&r, 9, 40));
	assert_false(ranges_has(&r, 10, 41));
	assert_int_equal(ranges_first_gap(&r, 10), 40);
	assert_int_equal(ranges_total(&r), 30);
	ranges_fini(&r);
}

static void ranges_add__whole_number_space(void **state)
{
	struct ranges r;

	ranges_init(&r);
	assert_int_equal(ranges_add(&r, UINT64_MAX - 1, UINT64_MAX), 0);
	assert_int_equal(ranges_add(&r, 0, 1), 0);
	assert_int_equal(ranges_first_gap(&r, UINT64_MAX - 1), UINT64_MAX);
	assert_int_equal(ranges_add(&r, 0, UINT64_MAX), 0);
	assert_int_equal(r.cnt, 1);
	assert_true(ranges_total(&r) == UINT64_MAX);
	assert_true(ranges_has(&r, 0, UINT64_MAX));
	assert_true(ranges_first_gap(&r, 0) == UINT64_MAX);
	ranges_fini(&r);
}

static void ranges_add__survives_alloc_failure(void **state)
{
	int64_t live = mem_live_count();
	struct ranges r, before;

	ranges_init(&r);
	for (uint64_t i = 0; i < 100; i++) {
		before = r;
		mem_fail_nth(1);
		if (ranges_add(&r, i * 4, i * 4 + 2)) {
			assert_int_equal(ranges_total(&r), i * 2);
			assert_memory_equal(&r, &before, sizeof(r));
			assert_int_equal(ranges_add(&r, i * 4, i * 4 + 2), 0);
		}
		mem_fail_nth(0);
		assert_int_equal(r.cnt, i + 1);
	}
	assert_int_equal(ranges_total(&r), 200);
	mem_fail_nth(1); /* merging needs no memory */
	assert_int_equal(ranges_add(&r, 0, 400), 0);
	mem_fail_nth(0);
	assert_int_equal(r.cnt, 1);
	ranges_fini(&r);
	assert_int_equal(mem_live_count(), live);
	assert_int_equal(ranges_total(&r), 0);
}

#define MODEL_LEN 400

static void check_shape(const struct ranges *r)
{
	const struct range *v = items(r);
	uint64_t total = 0;

	for (uint32_t i = 0; i < r->cnt; i++) {
		assert_true(v[i].start < v[i].end);
		assert_true(!i || v[i - 1].end < v[i].start);
		total += v[i].end - v[i].start;
	}
	assert_int_equal(ranges_total(r), total);
}

static void check_against_model(const struct ranges *r, const uint8_t *model, struct rng *rng)
{
	uint64_t total = 0, gap = MODEL_LEN;

	check_shape(r);
	for (uint64_t i = MODEL_LEN; i--;) {
		total += model[i];
		gap = model[i] ? gap : i;
		assert_int_equal(ranges_has(r, i, i + 1), model[i]);
		assert_int_equal(ranges_first_gap(r, i), gap);
	}
	assert_int_equal(ranges_total(r), total);
	for (int i = 0; i < 20; i++) {
		uint64_t a = rng_below(rng, MODEL_LEN), b = a + rng_below(rng, MODEL_LEN - a) + 1;

		assert_int_equal(ranges_has(r, a, b), !memchr(model + a, 0, b - a));
	}
}

static void ranges_add__agrees_with_byte_array(void **state)
{
	struct rng rng = unit_rng();

	for (int round = 0; round < 100; round++) {
		uint8_t model[MODEL_LEN] = {0};
		uint64_t len_max = 1 + rng_below(&rng, 20);
		struct ranges r;

		ranges_init(&r);
		for (int i = 0; i < 60; i++) {
			uint64_t start = rng_below(&rng, MODEL_LEN);
			uint64_t len = rng_below(&rng, MIN(len_max, MODEL_LEN - start) + 1);

			assert_int_equal(ranges_add(&r, start, start + len), 0);
			memset(model + start, 1, len);
			check_against_model(&r, model, &rng);
		}
		ranges_fini(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_init__is_empty_and_allocates_nothing),
		cmocka_unit_test(ranges_add__rejects_backward_accepts_empty),
		cmocka_unit_test(ranges_add__merges_neighbours),
		cmocka_unit_test(ranges_add__whole_number_space),
		cmocka_unit_test(ranges_add__survives_alloc_failure),
		cmocka_unit_test(ranges_add__agrees_with_byte_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
