// SPDX-License-Identifier: BSD-2-Clause
// What a caller does whose poll found nothing: spin while that is cheap, give the CPU away when
// somebody else needs it.
#include <sched.h>
#include <unistd.h>

#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * With a core for everybody, spinning finds the next message soonest. With more pollers than cores,
 * the one we wait for may wait for our core: stock shared-memory transports then lose a time slice
 * (4 ms) per message. Nobody tells us which it is, but sched_yield() does: it returns at once when
 * nobody else wants the core, and later when another thread has run meanwhile. So after idle_limit empty polls
 * each pass yields and measures; a late return makes the limit small, and each prompt one doubles it: a late one may
 * have been for somebody who comes once, as the adapter's own thread does every few milliseconds. What prompt is
 * depends on the kernel: 0.3 us on some machines, 1.2 us on others. So late is what takes clearly longer than the
 * quickest one so far.
 */

#define IDLE_FREE	64u   /* polls without even a pause: the answer is often that close */
#define IDLE_LIMIT_MAX	1000u /* polls, 10-20 us */
#define IDLE_LIMIT_MIN	20u
#define IDLE_YIELD_NS	NS_PER_US /* a yield that takes so much longer than the quickest one has let somebody run */
#define IDLE_QUICK_MAX	(13 * NS_PER_US / 10) /* a quickest one above that has let somebody run, too */

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* All atomics here are relaxed: hints of pollers to themselves, wrong values cost a few polls. */

/* Has another thread run in a yield that took @ns? */
static bool is_late(struct link_node *n, uint64_t ns)
{
	uint64_t quick = atomic_load_explicit(&n->idle_quick_ns, memory_order_relaxed);

	if (!quick || ns < quick) {
		quick = MIN(ns, IDLE_QUICK_MAX);
		atomic_store_explicit(&n->idle_quick_ns, quick, memory_order_relaxed);
	}
	return ns > quick + IDLE_YIELD_NS;
}

void idle_note(struct link_node *n)
{
	int32_t tid = (int32_t)gettid();

	if (atomic_load_explicit(&n->idle_tid, memory_order_relaxed) != tid)
		atomic_store_explicit(&n->idle_tid, tid, memory_order_relaxed);
}

/* @limit: the present one. */
static void idle_yield(struct link_node *n, uint32_t limit)
{
	uint64_t begin = clk_now_ns(&n->clk);

	idle_note(n);
	sched_yield();
	limit = is_late(n, clk_now_ns(&n->clk) - begin) ? IDLE_LIMIT_MIN : MIN(2 * limit, IDLE_LIMIT_MAX);
	atomic_store_explicit(&n->idle_limit, limit, memory_order_relaxed);
}

void link_idle(struct link_node *n)
{
	uint32_t polls = atomic_load_explicit(&n->idle_polls, memory_order_relaxed) + 1;
	uint32_t limit = atomic_load_explicit(&n->idle_limit, memory_order_relaxed);

	if (unlikely(!limit))
		limit = IDLE_LIMIT_MAX;
	if (polls > limit) {
		idle_yield(n, limit);
		return;
	}
	atomic_store_explicit(&n->idle_polls, polls, memory_order_relaxed);
	if (polls > IDLE_FREE)
		cpu_relax();
}

void idle_crowd(struct link_node *n)
{
	atomic_store_explicit(&n->idle_limit, IDLE_LIMIT_MIN, memory_order_relaxed);
}

bool idle_is_alone(const struct link_node *n)
{
	uint32_t limit = atomic_load_explicit(&n->idle_limit, memory_order_relaxed);

	return !limit || limit >= IDLE_LIMIT_MAX / 2;
}
