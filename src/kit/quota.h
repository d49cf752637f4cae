// SPDX-License-Identifier: BSD-2-Clause
// Shares of peers in what they can make an endpoint keep: so much each, and a pool for all, of which one gets at most as much as it leaves.
#ifndef SF_KIT_QUOTA_H
#define SF_KIT_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct kit_quota {
	uint64_t own, all;
};

static inline uint64_t kit_quota_beyond(const struct kit_quota *q, uint64_t used)
{
	return used > q->own ? used - q->own : 0;
}

/** kit_quota_has() - Is there room for @n more of a peer that has @used, where all together have @pool beyond their own? */
static inline bool kit_quota_has(const struct kit_quota *q, uint64_t used, uint64_t pool, uint64_t n)
{
	uint64_t mine = kit_quota_beyond(q, used + n), then = pool + mine - kit_quota_beyond(q, used);

	return !mine || (then <= q->all && mine <= q->all - then);
}

/** kit_quota_set() - A peer that had *@used has @now. */
static inline void kit_quota_set(const struct kit_quota *q, uint64_t *used, uint64_t *pool, uint64_t now)
{
	*pool += kit_quota_beyond(q, now) - kit_quota_beyond(q, *used);
	*used = now;
}

#endif
