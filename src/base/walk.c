// SPDX-License-Identifier: BSD-2-Clause
// Which reach of the walk is the quickest: looks at each, and stays at the winner.
#include "base/walk.h"

#include <string.h>

/* Granules: little beside a second-level cache, about as much as one has, and all that there are. */
static const uint32_t g_reach[WALK_REACH_NUM] = {256, 1024, UINT32_MAX};

/* Measure the leader at @which, from behind a lap on, unless the lines are there already. */
static void stay(struct walk *w, unsigned which)
{
	struct walk_class *c = &w->class[w->lead];
	bool is_there = w->reach[which] == w->reach_now;

	c->now = (uint8_t)which;
	w->reach_now = w->reach[which];
	w->goal = is_there ? WALK_SPAN : w->reach_now;
	w->spans_left = is_there ? WALK_SPANS : 0;
	w->least_ps = UINT64_MAX;
	memset(w->led, 0, sizeof(w->led));
}

void walk_init(struct walk *w, uint32_t gran_cnt, const struct clk *clk)
{
	*w = (struct walk){.clk = clk};
	do
		w->reach[w->reach_num] = MIN(g_reach[w->reach_num], gran_cnt);
	while (w->reach[w->reach_num++] < gran_cnt);
	for (unsigned i = 0; i < WALK_CLASS_NUM; i++)
		w->class[i] = (struct walk_class){.rest_len = WALK_REST_MIN, .is_looking = true};
	stay(w, 0);
	if (w->reach_num == 1)
		w->goal = UINT64_MAX;
}

/* All have been looked at. The last winner stays one unless another is clearly quicker. */
static void look_end(const struct walk *w, struct walk_class *c)
{
	uint64_t last_ps = c->ps[c->best];
	unsigned best = c->best;

	for (unsigned r = 0; r < w->reach_num; r++) {
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

/* Another magnitude becomes the leader if it has had more than twice the granules of this one in this stay. */
static bool is_lead_taken(struct walk *w)
{
	uint32_t top = w->lead;

	for (uint32_t i = 0; i < WALK_CLASS_NUM; i++) {
		if (w->led[i] > w->led[top])
			top = i;
	}
	if (w->led[top] / 2 <= w->led[w->lead])
		return false;
	w->lead = top;
	return true;
}

static void stay_end(struct walk *w)
{
	struct walk_class *c = &w->class[w->lead];

	/* this stay was mostly of other frames, so it says nothing of the last leader; the new one is measured next */
	if (is_lead_taken(w)) {
		stay(w, w->class[w->lead].now);
		return;
	}
	c->ps[c->now] = w->least_ps;
	if (c->is_looking && c->now + 1u < w->reach_num) {
		stay(w, c->now + 1u);
		return;
	}
	if (c->is_looking)
		look_end(w, c);
	else
		c->is_looking = is_look_due(c);
	stay(w, c->is_looking ? 0 : c->best);
}

void walk_turn(struct walk *w)
{
	uint64_t now_ns = clk_now_ns(w->clk);

	w->goal = WALK_SPAN;
	if (!w->spans_left) { /* the lap has ended */
		w->spans_left = WALK_SPANS;
	} else {
		w->least_ps = MIN(w->least_ps, (now_ns - w->begin_ns) * 1000 / w->done);
		if (!--w->spans_left)
			stay_end(w);
	}
	w->begin_ns = now_ns;
	w->done = 0;
}
