// SPDX-License-Identifier: BSD-2-Clause
// How far a sender walks through its staging arena before it begins again at the front: learnt from the time it takes.
//
// Theory of operation: messages that go to and fro one at a time find nothing in use, so the sender may write the same
// lines again, or go on to others. Which is quicker depends on where the two processors are. A line that has been read
// lies in the reader's second-level cache, from where it is slow to write; by the time that a long walk comes back to
// it, it has moved to the third level, from where it is quick. But processors that share a second-level cache are
// quicker with a short walk, which stays in it. None of that can be known beforehand, least of all in a virtual
// machine, whose processors move (doc/measurements.md#the-staging-arena).
//
// So each length of the walk (a reach) is looked at for a while: one lap, by which the lines get where they then are,
// and SPANS spans of SPAN granules, of which the quickest counts, since what disturbs makes them slower. The quickest
// reach stays. All are looked at again after a while, ever more rarely while the same one wins, and soon when the time
// of the winner changes much. The clock is read once a span, and a span ends where nothing is in use, so that it has
// the time of both sides in it, whether messages go one at a time or in windows; in a stream that never pauses the walk
// never begins again, and nothing is learnt. Frames of each magnitude learn for themselves.
#ifndef SF_BASE_WALK_H
#define SF_BASE_WALK_H

#include "base/base.h"
#include "base/clock.h"

#define WALK_CLASS_NUM 6u /* by log2 of a frame's granules, the last one and above */
#define WALK_REACH_NUM 3u
#define WALK_SPAN      1024u /* granules */
#define WALK_SPANS     4u
#define WALK_REST_MIN  64u /* stays at the winner between two looks; doubled up to ... */
#define WALK_REST_MAX  1024u

/* Of frames of one magnitude. A time is that of the quickest span of a stay, ps per granule. */
struct walk_class {
	uint64_t done, goal; /* granules since begin_ns, of those that make a lap or a span */
	uint64_t begin_ns;
	uint64_t least_ps;
	uint64_t ps[WALK_REACH_NUM]; /* at each reach, when it was last measured */
	uint64_t best_ps;	     /* of the winner, when it won */
	uint32_t reach;		     /* granules; where the walk begins again */
	uint32_t rested, rest_len;   /* stays since the last look; until the next one */
	uint8_t now, best;	     /* which reach */
	uint8_t spans_left;	     /* of this stay; 0: its first lap */
	bool is_looking;
};

struct walk {
	const struct clk *clk; /* NULL: real time */
	uint32_t reach[WALK_REACH_NUM];
	struct walk_class class[WALK_CLASS_NUM];
};

/** walk_init() - A walk through an arena of @gran_cnt granules. @clk may be NULL; stays the caller's. */
void walk_init(struct walk *w, uint32_t gran_cnt, const struct clk *clk);

/** walk_turn() - For walk_reach() alone: a lap or a span of @c has ended, in front of a frame of @need granules. */
void walk_turn(struct walk *w, struct walk_class *c, uint32_t need);

/**
 * walk_reach() - A frame is to be staged.
 * @need:    its granules, at least 1.
 * @is_idle: nothing is in use.
 * Return: the granule from which on the walk begins again at the front; UINT32_MAX: it does not.
 */
static inline uint32_t walk_reach(struct walk *w, uint32_t need, bool is_idle)
{
	struct walk_class *c = &w->class[MIN(31 - (uint32_t)__builtin_clz(need), WALK_CLASS_NUM - 1)];

	c->done += need;
	if (!is_idle)
		return UINT32_MAX;
	if (unlikely(c->done > c->goal))
		walk_turn(w, c, need);
	return c->reach;
}

#endif
