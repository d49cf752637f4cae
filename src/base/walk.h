// SPDX-License-Identifier: BSD-2-Clause
// How far a sender walks through its staging arena before it begins again at the front: learnt from the time it takes.
//
// Theory of operation: messages that go to and fro one at a time find nothing in use, and so does the first one of each
// window. There the sender may write the same lines again, or go on to others. Which is quicker depends on where the
// two processors are. A line that has been read lies in the reader's second-level cache, from where it is slow to
// write; by the time that a long walk comes back to it, it has moved to the third level, from where it is quick. But
// processors that share a second-level cache are quicker with a short walk, which stays in it. None of that can be
// known beforehand, least of all in a virtual machine, whose processors move
// (doc/measurements.md#the-staging-arena).
//
// So each length of the walk (a reach) is looked at for a while: one lap, by which the lines get where they then are,
// and SPANS spans of SPAN granules, of which the quickest counts, since what disturbs makes them slower. The quickest
// reach stays. All are looked at again after a while, ever more rarely while the same one wins, and soon when the time
// of the winner changes much. The clock is read once a span, and a span ends where nothing is in use, so that it has
// the time of both sides in it; in a stream that never pauses the walk never begins again, and nothing is learnt.
//
// A granule of short frames takes longer than one of long frames, so what is learnt is kept by magnitude. Those that
// find nothing in use and have most of the granules lead: their reach holds for all, since there is one arena, and the
// shortest walk in it would send the others back as well.
#ifndef SF_BASE_WALK_H
#define SF_BASE_WALK_H

#include "base/base.h"
#include "base/clock.h"

#define WALK_CLASS_NUM 6u /* magnitudes: log2 of a frame's granules, the last one and above */
#define WALK_REACH_NUM 3u
#define WALK_SPAN      1024u /* granules */
#define WALK_SPANS     4u
#define WALK_REST_MIN  64u /* stays at the winner between two looks; doubled up to ... */
#define WALK_REST_MAX  1024u

/* What frames of one magnitude have learnt. A time is that of the quickest span of a stay, ps per granule. */
struct walk_class {
	uint64_t ps[WALK_REACH_NUM]; /* at each reach, when it was last measured */
	uint64_t best_ps;	     /* of the winner, when it won */
	uint32_t rested, rest_len;   /* stays since the last look; until the next one */
	uint8_t now, best;	     /* which reach */
	bool is_looking;
};

struct walk {
	uint64_t done, goal; /* granules since the lap or the span began; with how many it ends */
	uint32_t reach_now;
	uint32_t lead;			  /* the magnitude that is measured */
	uint32_t led[WALK_CLASS_NUM]; /* granules of frames that found nothing in use, in this stay */
	uint32_t spans_left;		  /* of this stay; 0: its lap */
	uint32_t reach_num;
	uint32_t reach[WALK_REACH_NUM];
	uint64_t begin_ns, least_ps; /* of the span; of the stay so far */
	const struct clk *clk;	     /* NULL: real time */
	struct walk_class class[WALK_CLASS_NUM];
};

/** walk_init() - A walk through an arena of @gran_cnt granules. @clk may be NULL; stays the caller's. */
void walk_init(struct walk *w, uint32_t gran_cnt, const struct clk *clk);

/** walk_turn() - For walk_reach() alone: a lap or a span has ended. */
void walk_turn(struct walk *w);

/** walk_reach() - Nothing is in use. Return: the granule from which on the walk begins again at the front. */
static inline uint32_t walk_reach(struct walk *w)
{
	if (unlikely(w->done >= w->goal))
		walk_turn(w);
	return w->reach_now;
}

/** walk_count() - A frame of @need granules, at least 1, has been staged; @is_idle: when nothing was in use. */
static inline void walk_count(struct walk *w, uint32_t need, bool is_idle)
{
	w->done += need;
	if (is_idle)
		w->led[MIN(31 - (uint32_t)__builtin_clz(need), WALK_CLASS_NUM - 1)] += need;
}

#endif
