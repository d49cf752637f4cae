// SPDX-License-Identifier: BSD-2-Clause
// Set of 64-bit numbers as sorted ranges that never touch, for numbers that arrive out of order.
#ifndef SF_BASE_RANGES_H
#define SF_BASE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define RANGES_INLINE 4 /* this many ranges need no allocation */

/* [start, end), start < end */
struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *heap; /* [cap]; NULL while @in is enough */
	uint32_t cnt, cap;
	uint64_t total; /* sum of all lengths */
	struct range in[RANGES_INLINE];
};

/** ranges_init() - The empty set. */
void ranges_init(struct ranges *r);

/** ranges_fini() - Free what the set has allocated; leaves the empty set. */
void ranges_fini(struct ranges *r);

/**
 * ranges_add() - Add all numbers of [@start, @end); those present already are no error.
 * Return: 0, also if @start == @end; -EINVAL if @start > @end; -ENOMEM; unchanged on error.
 */
int ranges_add(struct ranges *r, uint64_t start, uint64_t end);

/** ranges_has() - Whether all of [@start, @end) is in the set; true for an empty range. */
bool ranges_has(const struct ranges *r, uint64_t start, uint64_t end);

/** ranges_first_gap() - The smallest number >= @from that is not in the set. */
uint64_t ranges_first_gap(const struct ranges *r, uint64_t from);

/** ranges_total() - How many numbers the set has. */
static inline uint64_t ranges_total(const struct ranges *r)
{
	return r->total;
}

#endif
