// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/core/idle.c with a clock of their own and a sched_yield() that takes as long as
// they say.
#include "unit.h"

#include <sched.h>
#include <string.h>

#include "link/core/link_int.h"

static uint64_t now_ns, yield_ns;
static uint32_t yields;

static int test_yield(void)
{
	yields++;
	now_ns += yield_ns;
	return 0;
}

#define sched_yield test_yield
#include "../../src/link/core/idle.c"
#undef sched_yield

static struct link_node node;

static int setup(void **state)
{
	(void)state;
	memset(&node, 0, sizeof(node));
	now_ns = 1;
	node.clk.virt_ns = &now_ns;
	yields = 0;
	yield_ns = 300;
	return 0;
}

/* What link_poll() does when it found something. */
static void found(void)
{
	atomic_store(&node.idle_polls, 0);
}

/* Empty polls until the first yield, counted from a poll that found something. */
static uint32_t spins(void)
{
	uint32_t n = 0;

	found();
	for (yields = 0; !yields; n++)
		link_idle(&node);
	return n - 1;
}

static void idle__spins_first(void **state)
{
	(void)state;
	assert_int_equal(spins(), IDLE_LIMIT_MAX);
	link_idle(&node);
	assert_int_equal(yields, 2); /* from now on each time */
}

static void idle__found_work_resets(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		found();
		for (uint32_t k = 0; k < IDLE_LIMIT_MAX; k++)
			link_idle(&node);
	}
	assert_int_equal(yields, 0);
}

static void idle__long_yield_means_company(void **state)
{
	(void)state;
	yield_ns = 5000;
	assert_int_equal(spins(), IDLE_LIMIT_MAX);
	assert_int_equal(spins(), IDLE_LIMIT_MIN);
}

/* One late yield may have been for anybody: each prompt one behind it doubles the limit. */
static void idle__short_yields_recover(void **state)
{
	uint32_t limit = IDLE_LIMIT_MIN;

	(void)state;
	yield_ns = 5000;
	spins();
	yield_ns = 300;
	for (int i = 0; limit < IDLE_LIMIT_MAX; i++) {
		assert_int_equal(spins(), limit);
		limit *= 2;
		assert_in_range(i, 0, 5);
	}
	assert_int_equal(spins(), IDLE_LIMIT_MAX);
}

/* A kernel whose prompt yields take longer than another's late ones. */
static void idle__slow_yields_are_no_company(void **state)
{
	(void)state;
	yield_ns = 1200;
	for (int i = 0; i < 5; i++)
		assert_int_equal(spins(), IDLE_LIMIT_MAX);
	yield_ns = 5000;
	spins();
	assert_int_equal(spins(), IDLE_LIMIT_MIN);
	yield_ns = 1200;
	spins();
	assert_int_equal(spins(), 2 * IDLE_LIMIT_MIN);
}

/* The first yield of all has let somebody run: it does not pass for a prompt one for ever. */
static void idle__first_yield_was_long(void **state)
{
	(void)state;
	yield_ns = 4000000;
	spins();
	assert_int_equal(spins(), IDLE_LIMIT_MIN);
	yield_ns = 300;
	spins();
	yield_ns = 1500;
	spins();
	assert_int_equal(spins(), IDLE_LIMIT_MIN);
}

static void idle__one_long_yield_ends_recovery(void **state)
{
	(void)state;
	yield_ns = 5000;
	spins();
	yield_ns = 300;
	spins();
	spins();
	yield_ns = 5000;
	spins();
	assert_int_equal(spins(), IDLE_LIMIT_MIN);
}

static void idle_crowd__yields_early_at_once(void **state)
{
	(void)state;
	idle_crowd(&node);
	assert_int_equal(spins(), IDLE_LIMIT_MIN);
	/* a wrong guess heals */
	assert_int_equal(spins(), 2 * IDLE_LIMIT_MIN);
}

/* With prompt yields, or none yet, there is a CPU for this thread. */
static void idle_is_alone__by_the_last_yields(void **state)
{
	(void)state;
	assert_true(idle_is_alone(&node));
	spins();
	assert_true(idle_is_alone(&node));
	yield_ns = 5000;
	spins();
	assert_false(idle_is_alone(&node));
	yield_ns = 300;
	for (int i = 0; i < 3; i++)
		spins();
	assert_false(idle_is_alone(&node));
	for (int i = 0; i < 3; i++)
		spins();
	assert_true(idle_is_alone(&node));
	idle_crowd(&node);
	assert_false(idle_is_alone(&node));
}

#define T_(fn_) cmocka_unit_test_setup(fn_, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T_(idle__spins_first),
		T_(idle__found_work_resets),
		T_(idle__long_yield_means_company),
		T_(idle__short_yields_recover),
		T_(idle__slow_yields_are_no_company),
		T_(idle__first_yield_was_long),
		T_(idle__one_long_yield_ends_recovery),
		T_(idle_crowd__yields_early_at_once),
		T_(idle_is_alone__by_the_last_yields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
