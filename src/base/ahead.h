// SPDX-License-Identifier: BSD-2-Clause
// How often to send a peer what it has not asked for: less often the more of it came before it was wanted.
#ifndef SF_BASE_AHEAD_H
#define SF_BASE_AHEAD_H

#include "base/base.h"

#define AHEAD_MAX     65536u /* bytes of a message: of longer ones the crossing of a request is no large part */
#define AHEAD_GAP_MAX 63u

/* Of one peer; begins as zeroes. */
struct ahead {
	uint8_t skip; /* messages for which it is not tried */
	uint8_t gap;  /* what the next one in vain costs at least half of */
};

/** ahead_try() - May this one be sent unasked? Called once for each message that could be, of any peer. */
static inline bool ahead_try(struct ahead *a, uint64_t len)
{
	if (!len || len > AHEAD_MAX)
		return false;
	if (a->skip) {
		a->skip--;
		return false;
	}
	return true;
}

/** ahead_made() - It was. */
static inline void ahead_made(struct ahead *a)
{
	a->gap -= a->gap > 0;
}

/** ahead_missed() - The peer has asked for one that was: what came had gone by. */
static inline void ahead_missed(struct ahead *a)
{
	a->gap = (uint8_t)MIN(2u * a->gap + 1, AHEAD_GAP_MAX);
	a->skip = a->gap;
}

#endif
