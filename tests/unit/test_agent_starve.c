// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/core/agent.c: what the thread does beside an application that waits for a CPU.
#include "agent_rig.h"

/* Not armed any more, the thread naps. It may be awake still and see the poll at once, so that comes last. */
static void poll_once_more(uint32_t idle_polls, uint32_t left)
{
	lock_acquire(&lock);
	atomic_store(&starved_looks, 0);
	atomic_store(&node->idle_polls, idle_polls);
	atomic_store(&starved_left, left);
	link_poll(port);
	lock_release(&lock);
}

/* Return: false: the thread itself got no CPU for so long that it takes the application for one that has none. */
static bool naps_while_starved(void)
{
	uint64_t begin = clk_now_ns(NULL);

	poll_once_more(1, 5);
	for (; atomic_load(&starved_left) > 1; usleep(200)) {
		bool is_armed = atomic_load(&node->armed) & AGENT_SLEEPS;

		if (clk_now_ns(NULL) - begin > plan.starved_max_ns / 2)
			return false;
		assert_false(is_armed);
	}
	return true;
}

/* Who only waits for a CPU is not helped, so that its peers need not ring; who does not wait is. */
static void agent__naps_while_the_poller_waits_for_a_cpu(void **state)
{
	int tries = 20;

	(void)state;
	assert_int_equal(atomic_load(&node->idle_tid), gettid()); /* who has opened the port */
	do
		assert_true(tries-- && await_armed());
	while (!naps_while_starved());
	assert_in_range(atomic_load(&starved_looks), 4, 5);
	assert_true(await_armed());
}

/* Who polls, but seldom for want of a CPU, is looked at less and less often. */
static void agent__naps_longer_beside_who_waits_for_a_cpu(void **state)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	uint32_t before, after;

	(void)state;
	assert_true(await_armed());
	before = read_locked(&services);
	poll_once_more(1, 1000000);
	while (atomic_load(&starved_looks) < ARRAY_SIZE(starved_ns) && clk_now_ns(NULL) < end) {
		usleep(1000);
		lock_acquire(&lock);
		atomic_store(&node->idle_polls, 1);
		link_poll(port);
		lock_release(&lock);
	}
	after = read_locked(&services);
	atomic_store(&starved_left, 0);
	assert_true(atomic_load(&starved_looks) >= ARRAY_SIZE(starved_ns));
	/* 4, 8, 16, 32 and 64 ms; without that it would be 20 */
	assert_true(starved_ns[5] - starved_ns[0] >= 124 * NS_PER_MS);
	/* behind each of the long ones its peers are served; the lock is rarely held */
	assert_in_range(after - before, 2, 20);
}

/* Who has found something is at that now, whether it has a CPU or not. */
static void agent__helps_whose_last_poll_found_something(void **state)
{
	(void)state;
	assert_true(await_armed());
	poll_once_more(0, 1000000);
	assert_true(await_armed());
	atomic_store(&starved_left, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T_(agent__naps_while_the_poller_waits_for_a_cpu),
		T_(agent__naps_longer_beside_who_waits_for_a_cpu),
		T_(agent__helps_whose_last_poll_found_something),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
