// SPDX-License-Identifier: BSD-2-Clause
// Duplicate window: was this sequence number seen before? Constant memory, constant time.
//
// Theory of operation: a ring of 64-bit words, one bit per sequence number. The window's top only
// moves up; moving it clears the whole words it enters, so nothing is ever shifted. One word more
// than the window needs keeps the oldest, half-passed word intact (RFC 6479 section 3.3).
// Sequence numbers do not wrap: 2^64 frames never happen. A peer that jumps ahead only loses its
// own older frames.
#ifndef SF_BASE_SEQWIN_H
#define SF_BASE_SEQWIN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SEQWIN_BITS  1024 /* a number this far or further below the highest one is too old */
#define SEQWIN_WORDS (SEQWIN_BITS / 64 + 1)

struct seqwin {
	uint64_t first; /* numbers below it are too old */
	uint64_t top;	/* highest number accepted; @first before there is one */
	uint64_t bits[SEQWIN_WORDS];
};

/** seqwin_init() - Nothing seen yet; @first_seq is the lowest number that will be accepted. */
static inline void seqwin_init(struct seqwin *w, uint64_t first_seq)
{
	memset(w, 0, sizeof(*w));
	w->first = w->top = first_seq;
}

/** seqwin_seen() - Whether seqwin_accept() would refuse @seq: accepted before, or too old. */
static inline bool seqwin_seen(const struct seqwin *w, uint64_t seq)
{
	if (seq > w->top)
		return false;
	if (seq < w->first || w->top - seq >= SEQWIN_BITS)
		return true;
	return (w->bits[seq / 64 % SEQWIN_WORDS] >> (seq % 64)) & 1;
}

/**
 * seqwin_accept() - Note the arrival of @seq.
 * Return: true the first time; false for a duplicate or a number too old to tell (nothing changes).
 * Source: RFC 6479; WireGuard receive.c counter_validate().
 */
static inline bool seqwin_accept(struct seqwin *w, uint64_t seq)
{
	if (seqwin_seen(w, seq))
		return false;
	if (seq > w->top) {
		uint64_t word = w->top / 64, enter = seq / 64 - word;

		if (enter >= SEQWIN_WORDS)
			memset(w->bits, 0, sizeof(w->bits));
		else
			while (enter--)
				w->bits[++word % SEQWIN_WORDS] = 0;
		w->top = seq;
	}
	w->bits[seq / 64 % SEQWIN_WORDS] |= 1ULL << (seq % 64);
	return true;
}

#endif
