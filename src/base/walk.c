// SPDX-License-Identifier: BSD-2-Clause
// Which reach of the walk is the quickest: looks at each, and stays at the winner.
#include "base/walk.h"

/* Granules: little beside a second-level cache, about as much as one has, and all that there are. */
static const uint32_t g_reach[WALK_REACH_NUM] = {256, 1024, UINT32_MAX};

/* Measure @which from now on; if that is another one than before, from behind its first lap on. */
static void stay(struct walk *w, struct walk_class *c, unsigned which)
{
	bool is_new = which != c->now;

	c->now = (uint8_t)which;
	c->reach = w->reach[which];
	c->goal = is_new ? c->reach : WALK_SPAN;
	c->spans_left = is_new ? 0 : WALK_SPANS;
	c->least_ps = UINT64_MAX;
}

void walk_init(struct walk *w, uint32_t gran_cnt, const struct clk *clk)
{
	*w = (struct walk){.clk = clk};
	for (unsigned r = 0; r < WALK_REACH_NUM; r++)
		w->reach[r] = MIN(g_reach[r], gran_cnt);
	for (unsigned i = 0; i < WALK_CLASS_NUM; i++) {
		w->class[i] = (struct walk_class){.rest_len = WALK_REST_MIN, .now = 1, .is_looking = true};
		stay(w, &w->class[i], 0);
	}
}

/* All have been looked at. The last winner stays one unless another is clearly quicker. */
static void look_end(struct walk_class *c)
{
	uint64_t last_ps = c->ps[c->best];
	unsigned best = c->best;

	for (unsigned r = 0; r < WALK_REACH_NUM; r++) {
		if (c->ps[r] < c->ps[best] && c->ps[r] < last_ps - last_ps / 16)
			best = r;
	}
	c->rest_len = best == c->best ? MIN(2 * c->rest_len, WALK_REST_MAX) : WALK_REST_MIN;
	c->rested = 0;
	c->best = (uint8_t)best;
	c->best_ps = c->ps[best];
	c->is_looking = false;
}

/* The winner has been measured once more. */
static bool is_look_due(struct walk_class *c)
{
	uint64_t ps = c->ps[c->best];
	bool has_changed = ps * 4 > c->best_ps * 5 || ps * 5 < c->best_ps * 4;

	return ++c->rested >= (has_changed ? WALK_REST_MIN : c->rest_len);
}

static void stay_end(struct walk *w, struct walk_class *c)
{
	c->ps[c->now] = c->least_ps;
	if (c->is_looking && c->now + 1u < WALK_REACH_NUM) {
		stay(w, c, c->now + 1u);
		return;
	}
	if (c->is_looking)
		look_end(c);
	else
		c->is_looking = is_look_due(c);
	stay(w, c, c->is_looking ? 0 : c->best);
}

void walk_turn(struct walk *w, struct walk_class *c, uint32_t need)
{
	uint64_t now_ns = clk_now_ns(w->clk), done = MAX(c->done - need, 1ULL);

	c->goal = WALK_SPAN;
	if (c->spans_left) {
		c->least_ps = MIN(c->least_ps, (now_ns - c->begin_ns) * 1000 / done);
		if (!--c->spans_left)
			stay_end(w, c);
	} else {
		c->spans_left = WALK_SPANS;
	}
	c->begin_ns = now_ns;
	c->done = need;
}
