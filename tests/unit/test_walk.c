// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/walk.[ch]: processors as a table of what a granule takes at each reach, and time that only moves by it.
#include "unit.h"

#include <string.h>

#include "base/walk.h"

#define GRANS 4096u

struct pair {
	uint64_t now_ns;
	struct clk clk;
	struct walk walk;
	uint32_t cursor;
	uint64_t ps[WALK_REACH_NUM]; /* a granule takes */
	uint64_t frames[WALK_REACH_NUM];
	uint64_t ps_left;
};

static void pair_open(struct pair *p)
{
	*p = (struct pair){0};
	p->clk.virt_ns = &p->now_ns;
	walk_init(&p->walk, GRANS, &p->clk);
}

static void pair_set(struct pair *p, uint64_t short_ps, uint64_t middle_ps, uint64_t whole_ps)
{
	p->ps[0] = short_ps;
	p->ps[1] = middle_ps;
	p->ps[2] = whole_ps;
}

static unsigned which(const struct pair *p, uint32_t reach)
{
	unsigned r = 0;

	while (p->walk.reach[r] != reach)
		r++;
	return r;
}

static void send_frames(struct pair *p, uint32_t need, uint64_t cnt)
{
	memset(p->frames, 0, sizeof(p->frames));
	for (uint64_t i = 0; i < cnt; i++) {
		uint32_t reach = walk_reach(&p->walk, need, true);
		unsigned r = which(p, reach);

		p->frames[r]++;
		p->ps_left += p->ps[r] * need;
		p->now_ns += p->ps_left / 1000;
		p->ps_left %= 1000;
	}
}

static void walk_reach__learns_the_quickest(void **state)
{
	static const uint64_t table[][3] = {
		{100000, 200000, 400000}, /* processors that share their second-level cache */
		{300000, 200000, 220000},
		{300000, 250000, 150000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct pair p;

		pair_open(&p);
		pair_set(&p, table[i][0], table[i][1], table[i][2]);
		send_frames(&p, 1, 30000);
		send_frames(&p, 1, 1000);
		assert_int_equal(p.frames[i], 1000);
	}
}

/* A job of hours looks at the others for little of its time. */
static void walk_reach__looks_rarely(void **state)
{
	struct pair p;

	pair_open(&p);
	pair_set(&p, 100000, 200000, 400000);
	send_frames(&p, 5, 20000000);
	assert_true(p.frames[1] + p.frames[2] < 20000000 / 200);
	assert_true(p.frames[1] + p.frames[2] > 20000);
}

/* The processors of a virtual machine have moved: that shows in the winner's time, which becomes longer, or shorter. */
static void walk_reach__looks_soon_after_a_change(void **state)
{
	struct pair p;

	pair_open(&p);
	pair_set(&p, 100000, 200000, 400000);
	send_frames(&p, 1, 20000000);
	pair_set(&p, 1000000, 900000, 600000);
	send_frames(&p, 1, (2 * WALK_REST_MIN + 16) * WALK_SPANS * WALK_SPAN);
	send_frames(&p, 1, 1000);
	assert_int_equal(p.frames[2], 1000);
	send_frames(&p, 1, 20000000);
	pair_set(&p, 100000, 200000, 400000);
	send_frames(&p, 1, (2 * WALK_REST_MIN + 16) * WALK_SPANS * WALK_SPAN);
	send_frames(&p, 1, 1000);
	assert_int_equal(p.frames[0], 1000);
}

/* Other work delays spans now and then, whichever is under way. */
static void walk_reach__is_not_misled_by_delays(void **state)
{
	uint64_t in_best = 0;
	struct pair p;

	pair_open(&p);
	pair_set(&p, 300000, 200000, 230000);
	for (unsigned i = 0; i < 4000; i++) {
		send_frames(&p, 1, 1500);
		in_best += i >= 400 ? p.frames[1] : 0;
		p.now_ns += 10 * NS_PER_MS;
	}
	assert_true(in_best > 3600u * 1500 / 10 * 9);
}

/* Short frames and long ones have different winners. */
static void walk_reach__learns_for_each_magnitude(void **state)
{
	struct pair p;

	pair_open(&p);
	for (unsigned i = 0; i < 60; i++) {
		pair_set(&p, 100000, 200000, 400000);
		send_frames(&p, 1, 1024);
		pair_set(&p, 400000, 300000, 200000);
		send_frames(&p, 17, 1024);
	}
	pair_set(&p, 100000, 200000, 400000);
	send_frames(&p, 1, 100);
	assert_int_equal(p.frames[0], 100);
	pair_set(&p, 400000, 300000, 200000);
	send_frames(&p, 17, 100);
	assert_int_equal(p.frames[2], 100);
}

/* One whose clock stands still, and an arena that is shorter than the reaches. */
static void walk_reach__has_bounds(void **state)
{
	struct pair p;

	pair_open(&p);
	send_frames(&p, 64, 200000);
	send_frames(&p, 64, 10);
	assert_int_equal(p.frames[0], 10);
	walk_init(&p.walk, 64, &p.clk);
	for (uint32_t i = 0; i < 100000; i++)
		assert_int_equal(walk_reach(&p.walk, 1 + i % 64, true), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walk_reach__learns_the_quickest),
		cmocka_unit_test(walk_reach__looks_rarely),
		cmocka_unit_test(walk_reach__looks_soon_after_a_change),
		cmocka_unit_test(walk_reach__is_not_misled_by_delays),
		cmocka_unit_test(walk_reach__learns_for_each_magnitude),
		cmocka_unit_test(walk_reach__has_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
