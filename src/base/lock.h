// SPDX-License-Identifier: BSD-2-Clause
// A small lock for data-path state: one exchange when free, spin then yield when not; it knows its owner in debug
// builds.
#ifndef SF_BASE_LOCK_H
#define SF_BASE_LOCK_H

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
	_Atomic uint32_t held;
	_Atomic uint32_t wanted; /* threads that have waited for a while */
#ifndef NDEBUG
	_Atomic uintptr_t owner; /* address of a thread-local of the holder; 0 = nobody */
#endif
};

void lock_contended(struct lock *l);
uintptr_t lock_self(void);

static inline bool lock_try(struct lock *l)
{
	/* acquire; pairs with the release in lock_release() */
	if (atomic_exchange_explicit(&l->held, 1, memory_order_acquire))
		return false;
#ifndef NDEBUG
	atomic_store_explicit(&l->owner, lock_self(), memory_order_relaxed);
#endif
	return true;
}

static inline void lock_acquire(struct lock *l)
{
	if (__builtin_expect(!lock_try(l), 0))
		lock_contended(l);
}

static inline void lock_release(struct lock *l)
{
#ifndef NDEBUG
	atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
#endif
	atomic_store_explicit(&l->held, 0, memory_order_release);
}

#define LOCK_TRIES 4

/** lock_tries() - A few tries, and a yield after each: for who has something else to do while it is held. */
static inline bool lock_tries(struct lock *l)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (lock_try(l))
			return true;
		sched_yield();
	}
	return false;
}

/**
 * lock_is_wanted() - Somebody waits for it. The lock is not fair: whoever takes it again as soon as it is free may keep
 * others out for ever, and asks this in between.
 */
static inline bool lock_is_wanted(struct lock *l)
{
	return atomic_load_explicit(&l->wanted, memory_order_relaxed);
}

/** lock_assert_held() - The lock contract of internal functions, executable in debug builds. */
static inline void lock_assert_held(struct lock *l)
{
#ifndef NDEBUG
	assert(atomic_load_explicit(&l->owner, memory_order_relaxed) == lock_self());
#endif
	(void)l;
}

#endif
