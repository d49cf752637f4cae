// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/mem.c.
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static bool is_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++) {
		if (b[i])
			return false;
	}
	return true;
}

static void mem_alloc__zeroes_reused_memory(void **state)
{
	for (size_t len = 1; len < 5000; len = len * 3 + 1) {
		void *p = mem_alloc(len);

		assert_non_null(p);
		assert_true(is_zero(p, len));
		memset(p, 0xa5, len);
		mem_free(p);
	}
}

static void mem_alloc__size_0_is_unique(void **state)
{
	void *a = mem_alloc(0), *b = mem_alloc_aligned(64, 0);

	assert_non_null(a);
	assert_non_null(b);
	assert_ptr_not_equal(a, b);
	mem_free(a);
	mem_free(b);
}

static void mem_alloc_aligned__aligns_and_zeroes(void **state)
{
	for (size_t align = 1; align <= 65536; align *= 2) {
		void *p = mem_alloc_aligned(align, align + 3);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % align, 0);
		assert_true(is_zero(p, align + 3));
		memset(p, 0xa5, align + 3);
		mem_free(p);
	}
}

static void mem_free__accepts_null(void **state)
{
	int64_t live = mem_live_count();

	mem_free(NULL);
	assert_int_equal(mem_live_count(), live);
}

static void mem_counts__follow_success_only(void **state)
{
	uint64_t cnt = mem_alloc_count();
	int64_t live = mem_live_count();
	void *a = mem_alloc(8), *b = mem_alloc_aligned(64, 8);

	assert_int_equal(mem_alloc_count(), cnt + 2);
	assert_int_equal(mem_live_count(), live + 2);
	mem_fail_nth(1);
	assert_null(mem_alloc(8));
	assert_int_equal(mem_alloc_count(), cnt + 2);
	assert_int_equal(mem_live_count(), live + 2);
	mem_free(a);
	mem_free(b);
	assert_int_equal(mem_alloc_count(), cnt + 2);
	assert_int_equal(mem_live_count(), live);
}

static void mem_fail_nth__fails_exactly_the_nth(void **state)
{
	for (uint64_t n = 1; n <= 5; n++) {
		mem_fail_nth(n);
		for (uint64_t i = 1; i <= 8; i++) {
			void *p = i % 2 ? mem_alloc(1) : mem_alloc_aligned(8, 1);

			assert_int_equal(!p, i == n);
			mem_free(p);
		}
	}
}

static void mem_fail_nth__zero_disarms(void **state)
{
	void *p;

	mem_fail_nth(1);
	mem_fail_nth(0);
	p = mem_alloc(1);
	assert_non_null(p);
	mem_free(p);
}

static void *alloc_1000(void *arg)
{
	uint64_t *failed = arg;

	for (int i = 0; i < 1000; i++) {
		void *p = mem_alloc(1);

		*failed += !p;
		mem_free(p);
	}
	return NULL;
}

static void mem_fail_nth__fires_once_among_threads(void **state)
{
	uint64_t failed[4] = {0};
	pthread_t t[4];

	mem_fail_nth(2000);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, alloc_1000, &failed[i]), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	assert_int_equal(failed[0] + failed[1] + failed[2] + failed[3], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mem_alloc__zeroes_reused_memory),
		cmocka_unit_test(mem_alloc__size_0_is_unique),
		cmocka_unit_test(mem_alloc_aligned__aligns_and_zeroes),
		cmocka_unit_test(mem_free__accepts_null),
		cmocka_unit_test(mem_counts__follow_success_only),
		cmocka_unit_test(mem_fail_nth__fails_exactly_the_nth),
		cmocka_unit_test(mem_fail_nth__zero_disarms),
		cmocka_unit_test(mem_fail_nth__fires_once_among_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
