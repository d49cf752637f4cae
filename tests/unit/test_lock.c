// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/lock.c and lock.h.
#include "unit.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/lock.h"

#define THREAD_CNT 4
#define ROUND_CNT  20000

struct shared {
	struct lock lock;
	uint64_t sum;	     /* protected by lock */
	_Atomic int started; /* threads running */
};

static void lock_try__refuses_a_held_lock(void **state)
{
	struct lock l = {0};

	assert_true(lock_try(&l));
	lock_assert_held(&l);
	assert_false(lock_try(&l));
	lock_release(&l);
	lock_acquire(&l);
	lock_assert_held(&l);
	lock_release(&l);
}

static void lock_take__tells_what_its_last_holder_said(void **state)
{
	struct lock l = {0};

	assert_int_equal(lock_take(&l), LOCK_FREE);
	assert_int_equal(lock_take(&l), LOCK_HELD);
	lock_release_calm(&l);
	assert_int_equal(lock_take(&l), LOCK_CALM);
	assert_false(lock_try(&l));
	lock_release_calm(&l);
	lock_acquire(&l); /* somebody who may change something */
	lock_release(&l);
	assert_int_equal(lock_take(&l), LOCK_FREE);
	lock_release(&l);
}

static void *store_self(void *arg)
{
	*(uintptr_t *)arg = lock_self();
	return NULL;
}

static void lock_self__names_the_thread(void **state)
{
	uintptr_t other = 0;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, store_self, &other), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_not_equal(lock_self(), 0);
	assert_int_equal(lock_self(), lock_self());
	assert_int_not_equal(other, 0);
	assert_int_not_equal(other, lock_self());
}

static void *count_up(void *arg)
{
	struct shared *s = arg;

	for (int i = 0; i < ROUND_CNT; i++) {
		lock_acquire(&s->lock);
		s->sum++;
		lock_release(&s->lock);
	}
	return NULL;
}

static void lock_acquire__excludes_other_threads(void **state)
{
	struct shared s = {0};
	pthread_t t[THREAD_CNT];

	for (int i = 0; i < THREAD_CNT; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count_up, &s), 0);
	for (int i = 0; i < THREAD_CNT; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	assert_int_equal(s.sum, THREAD_CNT * ROUND_CNT);
}

static void *add_one(void *arg)
{
	struct shared *s = arg;

	s->started++;
	lock_acquire(&s->lock);
	lock_assert_held(&s->lock);
	s->sum++;
	lock_release(&s->lock);
	return NULL;
}

/* The holder keeps the lock longer than the spinning and yielding phases last. */
static void lock_contended__outwaits_a_slow_holder(void **state)
{
	struct shared s = {0};
	uint64_t until_ns;
	pthread_t t;

	lock_acquire(&s.lock);
	assert_int_equal(pthread_create(&t, NULL, add_one, &s), 0);
	while (!s.started)
		sched_yield();
	until_ns = clk_now_ns(NULL) + 20 * NS_PER_MS;
	while (clk_now_ns(NULL) < until_ns)
		sched_yield();
	assert_int_equal(s.sum, 0);
	lock_release(&s.lock);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(s.sum, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock_take__tells_what_its_last_holder_said),
		cmocka_unit_test(lock_try__refuses_a_held_lock),
		cmocka_unit_test(lock_self__names_the_thread),
		cmocka_unit_test(lock_acquire__excludes_other_threads),
		cmocka_unit_test(lock_contended__outwaits_a_slow_holder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
