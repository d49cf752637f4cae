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

enum lock_state {
	LOCK_FREE,
	LOCK_HELD,
	LOCK_CALM, /* free, and its last holder has changed nothing that it guards: base/calm.h */
};

struct lock {
	_Atomic uint32_t state; /* enum lock_state */
	_Atomic uint32_t wanted; /* threads that have waited for a while */
#ifndef NDEBUG
	_Atomic uintptr_t owner; /* address of a thread-local of the holder; 0 = nobody */
#endif
};

void lock_contended(struct lock *l);
uintptr_t lock_self(void);

/** lock_take() - A try that tells more. Return: LOCK_HELD: by somebody else; else it is ours, and was in this state. */
static inline uint32_t lock_take(struct lock *l)
{
	/* acquire; pairs with the release in lock_release() */
	uint32_t was = atomic_exchange_explicit(&l->state, LOCK_HELD, memory_order_acquire);

#ifndef NDEBUG
	if (was != LOCK_HELD)
		atomic_store_explicit(&l->owner, lock_self(), memory_order_relaxed);
#endif
	return was;
}

static inline bool lock_try(struct lock *l)
{
	return lock_take(l) != LOCK_HELD;
}

static inline void lock_acquire(struct lock *l)
{
	if (__builtin_expect(!lock_try(l), 0))
		lock_contended(l);
}

static inline void lock_release_as(struct lock *l, enum lock_state state)
{
#ifndef NDEBUG
	atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
#endif
	atomic_store_explicit(&l->state, state, memory_order_release);
}

static inline void lock_release(struct lock *l)
{
	lock_release_as(l, LOCK_FREE);
}

/** lock_release_calm() - The same, and the next holder may know that this one has changed nothing. */
static inline void lock_release_calm(struct lock *l)
{
	lock_release_as(l, LOCK_CALM);
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
