// SPDX-License-Identifier: BSD-2-Clause
// The clock as an argument: real monotonic time, or virtual time owned by a simulator or a test.
#ifndef SF_BASE_CLOCK_H
#define SF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US  1000ULL
#define NS_PER_MS  1000000ULL
#define NS_PER_SEC 1000000000ULL
#define CLK_NEVER  UINT64_MAX /* a deadline that never comes */

/* @virt_ns: NULL for the monotonic clock, else where the owner of virtual time keeps it (ns). */
struct clk {
	const uint64_t *virt_ns;
};

/** clk_now_ns() - Nanoseconds since an arbitrary start; never goes back. @c may be NULL (real time). */
static inline uint64_t clk_now_ns(const struct clk *c)
{
	struct timespec ts;

	if (c && c->virt_ns)
		return *c->virt_ns;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

#endif
