// SPDX-License-Identifier: BSD-2-Clause
// An endpoint of opx closes while another thread has let go of the lock in the middle of a pass of it.
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "opx_world.h"
#include "prov/opx/flow/opx_flow_int.h"

static struct world w;

struct closer {
	pthread_t thread;
	_Atomic bool is_done;
};

static void *closer_main(void *arg)
{
	struct closer *c = arg;

	assert_int_equal(fi_close(&w.ep[2]->fid), 0);
	atomic_store(&c->is_done, true);
	return NULL;
}

static struct lock *lock_of(void)
{
	return &world_ep(&w, 0)->domain->kit.lock;
}

/* Somebody closes an endpoint that is in use, as @in_use says in it: it waits until it is not. */
static void close_waits(void (*in_use)(struct opx_ep *ep, bool on))
{
	struct opx_ep *ep = world_ep(&w, 2);
	struct closer c = {0};
	uint64_t until;

	lock_acquire(lock_of());
	in_use(ep, true);
	lock_release(lock_of());
	assert_int_equal(pthread_create(&c.thread, NULL, closer_main, &c), 0);
	for (until = clk_now_ns(NULL) + 50 * NS_PER_MS; clk_now_ns(NULL) < until; usleep(1000))
		assert_false(atomic_load(&c.is_done));
	lock_acquire(lock_of());
	in_use(ep, false); /* in memory that is still its own */
	lock_release(lock_of());
	assert_int_equal(pthread_join(c.thread, NULL), 0);
	w.ep[2] = NULL;
}

static void hold(struct opx_ep *ep, bool on)
{
	ep->holds = on;
}

static void run_timers(struct opx_ep *ep, bool on)
{
	ep->rel->is_running = on;
}

static void close__while_somebody_holds_it(void **state)
{
	world_open(&w, 0);
	close_waits(hold);
	world_close(&w);
}

static void close__while_timers_run(void **state)
{
	world_open(&w, 0);
	close_waits(run_timers);
	world_close(&w);
}

/* The list of flows has one reader: another one would take out what the first is at. */
static void timers__one_thread_at_a_time(void **state)
{
	struct opx_rel *rel;

	world_open(&w, WORLD_UDP);
	lock_acquire(lock_of());
	rel = world_ep(&w, 0)->rel;
	rel->is_running = true;
	rel->next_ns = 0;
	for (int i = 0; i < 1000; i++)
		opx_rel_progress(rel);
	assert_int_equal(rel->next_ns, 0);
	rel->is_running = false;
	for (int i = 0; i < 1000 && !rel->next_ns; i++)
		opx_rel_progress(rel);
	assert_int_not_equal(rel->next_ns, 0);
	assert_false(rel->is_running);
	lock_release(lock_of());
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close__while_somebody_holds_it),
		cmocka_unit_test(close__while_timers_run),
		cmocka_unit_test(timers__one_thread_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
