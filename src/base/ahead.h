// SPDX-License-Identifier: BSD-2-Clause
// How often to send a peer what it has not asked for: less often the more of it came before it was wanted.
#ifndef SF_BASE_AHEAD_H
#define SF_BASE_AHEAD_H

#include "base/base.h"

#define AHEAD_MAX     65536u /* bytes of a message: of longer ones the crossing of a request is no large part */
#define AHEAD_GAP_MAX 63u

/* Of one peer; begins as zeroes. */
struct ahead {
	uint8_t skip; /* messages that wait to be asked for, before another one is tried */
	uint8_t gap;  /* how many that were after the last one in vain; fewer with each one tried */
};

/** ahead_may() - Is a message of @len bytes one to send unasked? */
static inline bool ahead_may(const struct ahead *a, uint64_t len)
{
	return len && len <= AHEAD_MAX && !a->skip;
}

/** ahead_sent() - A message has been sent, @unasked or not. */
static inline void ahead_sent(struct ahead *a, bool unasked)
{
	if (unasked)
		a->gap -= a->gap > 0;
	else
		a->skip -= a->skip > 0;
}

/** ahead_missed() - One that was sent unasked had gone by: the next is tried after twice as many as the last time. */
static inline void ahead_missed(struct ahead *a)
{
	a->gap = (uint8_t)MIN(2u * a->gap + 2, AHEAD_GAP_MAX); /* ahead_sent() has taken one off */
	a->skip = a->gap;
}

#endif
