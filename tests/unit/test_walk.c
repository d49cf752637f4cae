// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/walk.[ch]: a sender whose granules take as long as follows from when they were last written, and time
// that moves by that alone.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/walk.h"

#define GRANS	4096u
#define COLD_PS 1000000u

struct pair {
	uint64_t now_ns, left_ps;
	struct clk clk;
	struct walk walk;
	uint64_t wrote, stamp[GRANS]; /* granules so far; what that was when each was last written */
	uint32_t cursor;
	/*
	 * What a granule takes by how many have been written since: few, more than a short walk, more than a middle.
	 * Beyond the longest it has gone to memory, and takes COLD_PS.
	 */
	uint64_t ps[WALK_REACH_NUM], frame_ps;
	uint64_t spent_ps, granules; /* since pair_forget() */
};

static void pair_open(struct pair *p, uint64_t few_ps, uint64_t more_ps, uint64_t most_ps)
{
	*p = (struct pair){.wrote = 2 * GRANS + 1, .ps = {few_ps, more_ps, most_ps}};
	p->clk.virt_ns = &p->now_ns;
	walk_init(&p->walk, GRANS, &p->clk);
}

static void pair_forget(struct pair *p)
{
	p->spent_ps = p->granules = 0;
}

static void take(struct pair *p, uint64_t ps)
{
	p->spent_ps += ps;
	p->left_ps += ps;
	p->now_ns += p->left_ps / 1000;
	p->left_ps %= 1000;
}

static void send_frame(struct pair *p, uint32_t need, bool is_idle)
{
	uint64_t ps = p->frame_ps;

	if (is_idle && p->cursor >= walk_reach(&p->walk))
		p->cursor = 0;
	walk_count(&p->walk, need, is_idle);
	if (p->cursor + need > GRANS)
		p->cursor = 0;
	for (uint32_t i = p->cursor; i < p->cursor + need; i++) {
		uint64_t age = p->wrote - p->stamp[i];

		ps += age > 2 * GRANS ? COLD_PS : p->ps[age < 600 ? 0 : age < 2000 ? 1 : 2];
		p->stamp[i] = p->wrote++;
	}
	p->cursor = (p->cursor + need) % GRANS;
	p->granules += need;
	take(p, ps);
}

static void send_frames(struct pair *p, uint32_t need, uint64_t cnt)
{
	for (uint64_t i = 0; i < cnt; i++)
		send_frame(p, need, true);
}

/* The quickest that there is, and @percent of it for what looking at the others costs. */
static void assert_quickest(const struct pair *p, uint64_t percent)
{
	uint64_t least = MIN(p->ps[0], MIN(p->ps[1], p->ps[2]));

	assert_in_range(p->spent_ps / p->granules, least, least * (100 + percent) / 100);
}

static const uint64_t g_pairs[][3] = {
	{100000, 200000, 400000}, /* processors that share their second-level cache */
	{300000, 200000, 230000},
	{400000, 300000, 150000},
};

static void walk_reach__learns_the_quickest(void **state)
{
	static const uint32_t need[] = {1, 2, 5, 17, 64};

	for (size_t i = 0; i < ARRAY_SIZE(g_pairs); i++) {
		for (size_t n = 0; n < ARRAY_SIZE(need); n++) {
			struct pair p;

			pair_open(&p, g_pairs[i][0], g_pairs[i][1], g_pairs[i][2]);
			send_frames(&p, need[n], 30000 / need[n]);
			assert_false(p.walk.class[p.walk.lead].is_looking);
			pair_forget(&p);
			send_frames(&p, need[n], 100000 / need[n]);
			assert_quickest(&p, 4);
		}
	}
}

/* A job of hours looks at the others for little of its time: two looks, then ever more rarely. */
static void walk_reach__looks_rarely(void **state)
{
	struct pair p;

	pair_open(&p, 100000, 200000, 400000);
	send_frames(&p, 5, 1000000);
	pair_forget(&p);
	send_frames(&p, 5, 4000000);
	assert_in_range(p.spent_ps / p.granules, 100001, 101500);
}

/* The processors of a virtual machine have moved: the time of the winner says so, whether longer or shorter. */
static void walk_reach__looks_soon_after_a_change(void **state)
{
	uint64_t soon = (2 * WALK_REST_MIN + 16) * WALK_SPANS * WALK_SPAN;
	struct pair p;

	pair_open(&p, 100000, 200000, 400000);
	send_frames(&p, 1, 20000000);
	for (unsigned i = 0; i < ARRAY_SIZE(g_pairs); i++) {
		memcpy(p.ps, g_pairs[(i + 2) % 3], sizeof(p.ps));
		send_frames(&p, 1, soon);
		pair_forget(&p);
		send_frames(&p, 1, 100000);
		assert_quickest(&p, 4);
		send_frames(&p, 1, 10000000);
	}
}

/* Other work delays spans now and then, whichever is under way. */
static void walk_reach__is_not_misled_by_delays(void **state)
{
	struct pair p;

	pair_open(&p, 300000, 200000, 230000);
	for (unsigned i = 0; i < 4400; i++) {
		if (i == 400)
			pair_forget(&p);
		send_frames(&p, 1, 1500);
		p.now_ns += 10 * NS_PER_MS;
	}
	assert_quickest(&p, 4);
}

/* Short frames and long ones from one sender, by whatever pattern: no walk of the one cuts that of the other. */
static void walk_reach__is_one_for_all_magnitudes(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_pairs); i++) {
		for (unsigned pattern = 0; pattern < 4; pattern++) {
			struct pair p;

			srand(1);
			pair_open(&p, g_pairs[i][0], g_pairs[i][1], g_pairs[i][2]);
			p.frame_ps = 20000;
			for (unsigned n = 0; n < 400000; n++) {
				static const uint32_t phase[] = {2, 5, 9, 17};
				const uint32_t need[] = {n % 2 ? 1 : 17, n % 17 ? 17 : 1, 1 + (uint32_t)rand() % 17,
							 phase[n / 3000 % 4]};

				if (n == 200000)
					pair_forget(&p);
				p.spent_ps -= p.frame_ps;
				send_frame(&p, need[pattern], true);
			}
			assert_quickest(&p, 10);
		}
	}
}

/* Windows of any length: what is measured is the time of a granule, whichever of them a span has had. */
static void walk_reach__measures_windows(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_pairs); i++) {
		struct pair p;

		srand(1);
		pair_open(&p, g_pairs[i][0], g_pairs[i][1], g_pairs[i][2]);
		for (unsigned n = 0; n < 12000; n++) {
			unsigned window = 1 + (unsigned)rand() % 15;

			if (n == 3000)
				pair_forget(&p);
			for (unsigned k = 0; k < window; k++)
				send_frame(&p, 9, k == 0);
		}
		/* some windows go on behind the short reach */
		assert_quickest(&p, 20);
		for (unsigned n = 0; n < WALK_REACH_NUM; n++)
			assert_in_range(p.walk.class[3].ps[n], 100000, 410000);
	}
}

/* One whose clock stands still, and arenas that are no longer than the reaches. */
static void walk_reach__has_bounds(void **state)
{
	static const uint32_t grans[] = {64, 256, 257, 1024};
	const uint64_t stopped_ns = 1;
	struct pair p;

	pair_open(&p, 0, 0, 0);
	p.clk.virt_ns = &stopped_ns;
	send_frames(&p, 64, 200000);
	assert_int_equal(walk_reach(&p.walk), 256);
	for (size_t i = 0; i < ARRAY_SIZE(grans); i++) {
		walk_init(&p.walk, grans[i], &p.clk);
		assert_int_equal(p.walk.reach_num, grans[i] <= 256 ? 1 : 2);
		for (uint32_t n = 0; n < 100000; n++) {
			uint32_t reach = walk_reach(&p.walk);

			assert_true(reach == MIN(256U, grans[i]) || reach == grans[i]);
			walk_count(&p.walk, 1 + n % 64, true);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walk_reach__learns_the_quickest),
		cmocka_unit_test(walk_reach__looks_rarely),
		cmocka_unit_test(walk_reach__looks_soon_after_a_change),
		cmocka_unit_test(walk_reach__is_not_misled_by_delays),
		cmocka_unit_test(walk_reach__is_one_for_all_magnitudes),
		cmocka_unit_test(walk_reach__measures_windows),
		cmocka_unit_test(walk_reach__has_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
