// SPDX-License-Identifier: BSD-2-Clause
// The slow path of struct lock: it waits until the holder lets go, first by spinning, then by yielding, then by
// sleeping.
#include "base/lock.h"

#include <time.h>

#define SPIN_POLLS 64	 /* a data-path section is shorter than this many polls */
#define YIELD_CNT  256	 /* then the holder has probably lost its CPU, and gets ours ... */
#define SLEEP_NS   50000 /* ... and where yielding does not help we sleep, so as not to use up a core */

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Only reads until the lock looks free, so that waiters do not steal the line from the holder. */
static bool spin_try(struct lock *l)
{
	for (int i = 0; i < SPIN_POLLS; i++) {
		if (atomic_load_explicit(&l->state, memory_order_relaxed) != LOCK_HELD && lock_try(l))
			return true;
		cpu_relax();
	}
	return false;
}

void lock_contended(struct lock *l)
{
	const struct timespec nap = {.tv_nsec = SLEEP_NS};

	if (spin_try(l))
		return;
	/* relaxed: only a hint */
	atomic_fetch_add_explicit(&l->wanted, 1, memory_order_relaxed);
	for (int yields = 0; !spin_try(l);) {
		if (yields < YIELD_CNT) {
			sched_yield();
			yields++;
		} else {
			nanosleep(&nap, NULL);
		}
	}
	atomic_fetch_sub_explicit(&l->wanted, 1, memory_order_relaxed);
}

uintptr_t lock_self(void)
{
	static _Thread_local char self;

	return (uintptr_t)&self;
}
