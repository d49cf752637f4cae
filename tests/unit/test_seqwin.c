// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/seqwin.h.
#include "unit.h"

#include <string.h>

#include "base/base.h"
#include "base/seqwin.h"

static void seqwin_accept__once_per_number(void **state)
{
	struct seqwin w;

	seqwin_init(&w, 0);
	for (uint64_t seq = 0; seq < 5000; seq++) {
		assert_false(seqwin_seen(&w, seq));
		assert_true(seqwin_accept(&w, seq));
		assert_true(seqwin_seen(&w, seq));
		assert_false(seqwin_accept(&w, seq));
	}
}

static void seqwin_init__sets_the_lowest_number(void **state)
{
	struct seqwin w;

	seqwin_init(&w, 100);
	assert_false(seqwin_accept(&w, 99));
	assert_false(seqwin_accept(&w, 0));
	assert_false(seqwin_seen(&w, 100));
	assert_true(seqwin_accept(&w, 101));
	assert_true(seqwin_accept(&w, 100));
	assert_false(seqwin_accept(&w, 99));
}

/* In the manner of WireGuard's selftest/counter.c: the numbers around the window's lower edge. */
static void seqwin_accept__window_edges(void **state)
{
	const uint64_t top = 10000;
	static const struct {
		uint64_t below_top;
		bool is_ok;
	} row[] = {
		{SEQWIN_BITS, false},
		{SEQWIN_BITS - 1, true},
		{SEQWIN_BITS - 1, false},
		{SEQWIN_BITS - 2, true},
		{SEQWIN_BITS + 1, false},
		{0, false},
		{1, true},
		{1, false},
		{top, false},
	};
	struct seqwin w;

	seqwin_init(&w, 0);
	assert_true(seqwin_accept(&w, top));
	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(seqwin_accept(&w, top - row[i].below_top), row[i].is_ok);
}

static void seqwin_accept__lower_edge_at_every_alignment(void **state)
{
	for (uint64_t top = 2 * SEQWIN_BITS; top < 3 * SEQWIN_BITS + 200; top++) {
		struct seqwin w;

		seqwin_init(&w, 0);
		assert_true(seqwin_accept(&w, top - SEQWIN_BITS + 1));
		assert_true(seqwin_accept(&w, top));
		assert_true(seqwin_seen(&w, top - SEQWIN_BITS + 1));
		assert_true(seqwin_seen(&w, top - SEQWIN_BITS));
		assert_true(seqwin_accept(&w, top - SEQWIN_BITS + 2));
	}
}

static void seqwin_accept__jump_forgets_everything(void **state)
{
	struct seqwin w;

	seqwin_init(&w, 0);
	for (uint64_t seq = 0; seq < 2000; seq++)
		assert_true(seqwin_accept(&w, seq));
	assert_true(seqwin_accept(&w, UINT64_MAX));
	assert_false(seqwin_accept(&w, UINT64_MAX));
	for (uint64_t i = 1; i < SEQWIN_BITS; i++)
		assert_true(seqwin_accept(&w, UINT64_MAX - i));
	assert_false(seqwin_accept(&w, UINT64_MAX - SEQWIN_BITS));
	assert_false(seqwin_accept(&w, 2001));
}

#define MODEL_LEN 100000

/* Naive twin: one byte per number from @first, and the window's definition. */
struct model {
	uint64_t first, top;
	bool seen[MODEL_LEN];
};

static bool model_accept(struct model *m, uint64_t seq)
{
	if (seq < m->first || m->seen[seq - m->first] ||
	    (seq <= m->top && m->top - seq >= SEQWIN_BITS))
		return false;
	m->seen[seq - m->first] = true;
	m->top = MAX(m->top, seq);
	return true;
}

static void check_against_model(struct rng *r, uint64_t first)
{
	static struct model m;
	struct seqwin w;

	memset(&m, 0, sizeof(m));
	m.first = m.top = first;
	seqwin_init(&w, first);
	for (int i = 0; i < 20000; i++) {
		uint64_t jump_max = rng_chance(r, 0.002) ? 3000 : 20;
		uint64_t lo = MIN(m.top - first, (uint64_t)SEQWIN_BITS + 100);
		uint64_t seq = m.top - rng_below(r, lo + 1) + rng_below(r, jump_max);
		bool is_new;

		if (seq - first >= MODEL_LEN)
			break;
		is_new = model_accept(&m, seq);
		assert_int_equal(seqwin_seen(&w, seq), !is_new);
		assert_int_equal(seqwin_accept(&w, seq), is_new);
		assert_true(seqwin_seen(&w, seq));
	}
}

static void seqwin_accept__agrees_with_naive_model(void **state)
{
	struct rng r = unit_rng();

	for (int i = 0; i < 50; i++) {
		check_against_model(&r, 0);
		check_against_model(&r, rng_u64(&r) >> 1);
		check_against_model(&r, UINT64_MAX - MODEL_LEN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seqwin_init__sets_the_lowest_number),
		cmocka_unit_test(seqwin_accept__once_per_number),
		cmocka_unit_test(seqwin_accept__window_edges),
		cmocka_unit_test(seqwin_accept__lower_edge_at_every_alignment),
		cmocka_unit_test(seqwin_accept__jump_forgets_everything),
		cmocka_unit_test(seqwin_accept__agrees_with_naive_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
