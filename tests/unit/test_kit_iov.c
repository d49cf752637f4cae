// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/iov.c: every function against the list laid out as one flat array of addresses.
#include "unit.h"

#include <string.h>

#include "kit/srx.h"

#define PIECE_MAX 6
#define LEN_MAX	  700 /* of a piece: more than copy_bytes() does in line */

static struct {
	uint8_t mem[PIECE_MAX][LEN_MAX];
	struct iovec iov[PIECE_MAX];
	size_t cnt;
	uint8_t *at[PIECE_MAX * LEN_MAX]; /* where byte i of the list is */
	size_t len;
} g_list;

static void list_fill(struct rng *r)
{
	g_list.cnt = rng_below(r, PIECE_MAX + 1);
	g_list.len = 0;
	for (size_t i = 0; i < g_list.cnt; i++) {
		size_t max = rng_chance(r, 0.2) ? 1 : rng_chance(r, 0.5) ? 20 : LEN_MAX;
		size_t len = rng_below(r, max);

		g_list.iov[i] = (struct iovec){g_list.mem[i], len};
		for (size_t k = 0; k < len; k++)
			g_list.at[g_list.len++] = &g_list.mem[i][k];
	}
	for (size_t i = 0; i < sizeof(g_list.mem); i++)
		(&g_list.mem[0][0])[i] = (uint8_t)rng_u64(r);
}

static void iov_copy__as_the_flat_array(void **state)
{
	static uint8_t flat[PIECE_MAX * LEN_MAX + 64], before[sizeof(g_list.mem)];
	struct rng r = unit_rng();

	for (int round = 0; round < 3000; round++) {
		size_t off, len, want;

		list_fill(&r);
		off = rng_below(&r, g_list.len + 10);
		len = rng_below(&r, g_list.len + 20);
		want = off < g_list.len ? MIN(len, g_list.len - off) : 0;
		assert_int_equal(kit_iov_len(g_list.iov, g_list.cnt), g_list.len);

		memset(flat, 0xee, sizeof(flat));
		assert_int_equal(kit_iov_copy_from(flat, len, g_list.iov, g_list.cnt, off), want);
		for (size_t i = 0; i < want; i++)
			assert_int_equal(flat[i], *g_list.at[off + i]);
		for (size_t i = want; i < sizeof(flat); i++)
			assert_int_equal(flat[i], 0xee);

		for (size_t i = 0; i < sizeof(flat); i++)
			flat[i] = (uint8_t)rng_u64(&r);
		memcpy(before, g_list.mem, sizeof(before));
		assert_int_equal(kit_iov_copy_to(g_list.iov, g_list.cnt, off, flat, len), want);
		for (size_t i = 0; i < want; i++)
			before[g_list.at[off + i] - &g_list.mem[0][0]] = flat[i];
		assert_memory_equal(before, g_list.mem, sizeof(before));
	}
}

static void iov_slice__names_the_same_bytes(void **state)
{
	struct iovec out[PIECE_MAX + 1], *guard;
	struct rng r = unit_rng();

	for (int round = 0; round < 10000; round++) {
		size_t off, len, max, n, need = 0, at = 0;

		list_fill(&r);
		off = rng_below(&r, g_list.len + 3);
		len = rng_below(&r, g_list.len + 3);
		max = rng_below(&r, PIECE_MAX + 1);
		for (size_t i = 0; off + len <= g_list.len && i < len; i++)
			need += !i || g_list.at[off + i] != g_list.at[off + i - 1] + 1;
		guard = &out[max];
		*guard = (struct iovec){&r, 77};
		n = kit_iov_slice(g_list.iov, g_list.cnt, off, len, out, max);
		assert_ptr_equal(guard->iov_base, &r);
		if (off + len > g_list.len || need > max) {
			assert_int_equal(n, 0);
			continue;
		}
		assert_in_range(n, need, PIECE_MAX);
		for (size_t i = 0; i < n; i++)
			for (size_t k = 0; k < out[i].iov_len; k++, at++)
				assert_ptr_equal((uint8_t *)out[i].iov_base + k,
						 g_list.at[off + at]);
		assert_int_equal(at, len);
	}
}

static void iov_slice__nothing_is_no_piece(void **state)
{
	uint8_t byte;
	struct iovec iov = {&byte, 1}, out = {NULL, 5};
	struct iovec huge[] = {{&byte, SIZE_MAX}, {&byte, 2}, {&byte, 1}};

	assert_int_equal(kit_iov_len(NULL, 0), 0);
	assert_true(kit_iov_len(huge, 3) == SIZE_MAX);
	assert_int_equal(kit_iov_slice(NULL, 0, 0, 0, &out, 1), 0);
	assert_int_equal(kit_iov_slice(&iov, 1, 0, 0, &out, 1), 0);
	assert_int_equal(kit_iov_slice(&iov, 1, SIZE_MAX, 1, &out, 1), 0);
	assert_int_equal(kit_iov_slice(&iov, 1, 0, SIZE_MAX, &out, 1), 0);
	assert_int_equal(kit_iov_copy_from(&byte, 0, NULL, 0, 0), 0);
	assert_int_equal(kit_iov_copy_to(NULL, 0, 0, &byte, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(iov_copy__as_the_flat_array),
		cmocka_unit_test(iov_slice__names_the_same_bytes),
		cmocka_unit_test(iov_slice__nothing_is_no_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
