// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of base/duty.c: an application and a thread beside it, in a time that is only counted.
#include "unit.h"

#include "base/clock.h"
#include "base/duty.h"

static const struct duty_plan plan = {
	.nap_min_ns = 2 * NS_PER_MS,
	.nap_max_ns = 5 * NS_PER_MS,
	.starved_nap_ns = 16 * NS_PER_MS,
	.starved_max_ns = 100 * NS_PER_MS,
	.doze_min_ns = 16 * NS_PER_MS,
	.doze_max_ns = NS_PER_SEC,
	.rest_min_ns = 40 * NS_PER_US,
	.rest_max_ns = 600 * NS_PER_US,
	.free_passes = 3,
};

static void nap__longer_each_time_and_short_again(void **state)
{
	struct duty d;

	duty_init(&d, &plan, 7, 0);
	assert_int_equal(duty_look(&d, 7, 0), 0); /* what was polled before it began does not count */
	assert_int_equal(duty_look(&d, 8, 0), 2 * NS_PER_MS);
	assert_int_equal(duty_look(&d, 9, 0), 4 * NS_PER_MS);
	assert_int_equal(duty_look(&d, 11, 0), 5 * NS_PER_MS);
	assert_int_equal(duty_look(&d, 3, 0), 5 * NS_PER_MS); /* another count is enough: they wrap */
	assert_int_equal(duty_look(&d, 3, 0), 0);
	assert_int_equal(duty_look(&d, 4, 0), 2 * NS_PER_MS);
}

/* Who sees the lock held before it can look naps as long as the last time, never less than the least. */
static void nap__while_the_lock_is_held(void **state)
{
	struct duty d;

	duty_init(&d, &plan, 0, 0);
	assert_int_equal(duty_locked(&d, 0), 2 * NS_PER_MS);
	assert_int_equal(duty_locked(&d, 0), 2 * NS_PER_MS);
	duty_look(&d, 1, 0);
	assert_int_equal(duty_locked(&d, 0), 4 * NS_PER_MS);
	assert_int_equal(duty_look(&d, 1, 0), 0);
	assert_int_equal(duty_locked(&d, 0), 2 * NS_PER_MS);
	assert_int_equal(duty_doze(&d, NS_PER_SEC), NS_PER_SEC / 16);
	duty_locked(&d, NS_PER_SEC);
	assert_int_equal(duty_doze(&d, NS_PER_SEC), 16 * NS_PER_MS); /* it was not quiet */
}

/* Longer and longer ones, but not for ever; a poll ends that. */
static void nap__while_it_waits_for_a_cpu(void **state)
{
	struct duty d;

	(void)state;
	duty_init(&d, &plan, 0, 0);
	for (uint32_t polls = 1; polls <= 2; polls++) {
		uint64_t now = polls * NS_PER_SEC;

		assert_true(duty_look(&d, polls, now));
		assert_int_equal(duty_look(&d, polls, now), 0);
		assert_int_equal(duty_starved(&d, 0, true, now), 5 * NS_PER_MS);
		assert_int_equal(duty_starved(&d, 0, true, now + 5 * NS_PER_MS), 10 * NS_PER_MS);
		assert_int_equal(duty_starved(&d, 0, true, now + 15 * NS_PER_MS), 16 * NS_PER_MS);
		assert_int_equal(duty_starved(&d, 0, true, now + 99 * NS_PER_MS), 16 * NS_PER_MS);
		assert_int_equal(duty_starved(&d, 0, true, now + 100 * NS_PER_MS), 0);
		assert_int_equal(duty_starved(&d, 0, false, now + 100 * NS_PER_MS), 0);
	}
}

/* Who does poll, but seldom, has no end to that; the first nap in which it has a CPU ends it. */
static void nap__while_its_polls_wait_for_a_cpu(void **state)
{
	static const uint64_t want_ms[] = {5, 10, 16, 16};
	struct duty d;

	(void)state;
	duty_init(&d, &plan, 0, 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(want_ms); i++) {
		uint64_t now = (i + 1) * NS_PER_SEC, nap_ns = duty_look(&d, i + 1, now);

		assert_int_equal(duty_starved(&d, nap_ns, true, now), want_ms[i] * NS_PER_MS);
	}
	assert_int_equal(duty_starved(&d, duty_look(&d, 9, 0), false, 0), 5 * NS_PER_MS);
	assert_int_equal(duty_starved(&d, duty_look(&d, 10, 0), true, 0), 5 * NS_PER_MS);
	assert_int_equal(duty_starved(&d, duty_look(&d, 11, 0), true, 0), 10 * NS_PER_MS);
	assert_int_equal(duty_starved(&d, duty_look(&d, 11, 0), true, 0), 16 * NS_PER_MS); /* polled or not */
}

static void rest__doubles_after_the_free_ones(void **state)
{
	static const uint64_t want_us[] = {0, 0, 0, 40, 80, 160, 320, 600, 600};
	struct duty d;

	duty_init(&d, &plan, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(want_us); i++) {
		assert_int_equal(duty_is_hot(&d), i <= 3);
		duty_pass(&d, false);
		assert_int_equal(duty_rest(&d), want_us[i] * NS_PER_US);
	}
	d.empty = UINT32_MAX; /* the longest-lived program */
	duty_pass(&d, false);
	assert_int_equal(duty_rest(&d), 600 * NS_PER_US);
	assert_false(duty_is_hot(&d));
	duty_pass(&d, true);
	assert_true(duty_is_hot(&d));
	assert_int_equal(duty_rest(&d), 0);
	for (int i = 0; i < 9; i++)
		duty_pass(&d, false);
	duty_look(&d, 1, 0); /* the application has polled: what it left is looked at again */
	assert_true(duty_is_hot(&d));
}

static void doze__a_share_of_the_quiet_time(void **state)
{
	struct duty d;

	duty_init(&d, &plan, 0, 5);
	assert_int_equal(duty_doze(&d, 5), 16 * NS_PER_MS);
	assert_int_equal(duty_doze(&d, 4), 16 * NS_PER_MS); /* a clock read earlier elsewhere */
	assert_int_equal(duty_doze(&d, 5 + 256 * NS_PER_MS), 16 * NS_PER_MS);
	assert_int_equal(duty_doze(&d, 5 + 320 * NS_PER_MS), 20 * NS_PER_MS);
	assert_int_equal(duty_doze(&d, 5 + 100 * NS_PER_SEC), NS_PER_SEC);
	duty_look(&d, 0, 5 + 100 * NS_PER_SEC);
	assert_int_equal(duty_doze(&d, 5 + 100 * NS_PER_SEC), NS_PER_SEC);
	duty_look(&d, 1, 5 + 100 * NS_PER_SEC);
	assert_int_equal(duty_doze(&d, 5 + 100 * NS_PER_SEC), 16 * NS_PER_MS);
}

/* A thread's life: what it would do from @now on, until @end. Nothing ever comes. */
struct life {
	struct duty d;
	uint64_t now_ns;
	uint32_t looks, passes;
};

static void live(struct life *l, uint64_t end_ns, uint64_t poll_every_ns)
{
	while (l->now_ns < end_ns) {
		uint32_t polls = poll_every_ns ? (uint32_t)(l->now_ns / poll_every_ns) : l->d.seen;
		uint64_t ns = duty_look(&l->d, polls, l->now_ns);

		l->looks++;
		if (!ns) {
			l->passes++;
			duty_pass(&l->d, false);
			ns = duty_doze(&l->d, l->now_ns);
		}
		l->now_ns += ns;
	}
}

/* Beside an application that polls it does nothing but look; the quieter it is, the less; then it is soon back. */
static void life__polled_quiet_polled(void **state)
{
	struct life l = {0};
	uint64_t from_ns;

	duty_init(&l.d, &plan, 0, 0);
	l.now_ns = NS_PER_MS;
	live(&l, NS_PER_SEC, 10 * NS_PER_US);
	assert_in_range(l.looks, 190, 210); /* one each 5 ms */
	assert_int_equal(l.passes, 0);
	from_ns = l.now_ns;
	l.looks = 0;
	live(&l, from_ns + 10 * NS_PER_SEC, 0);
	/* 16 of 16 ms, then each makes the quiet time a sixteenth longer: 60 more */
	assert_in_range(l.passes, 60, 80);
	assert_int_equal(l.looks, l.passes);
	from_ns = l.now_ns;
	l.passes = 0;
	live(&l, from_ns + NS_PER_SEC, 10 * NS_PER_US);
	assert_int_equal(l.passes, 0); /* the first look tells */
	assert_true(l.now_ns - from_ns < NS_PER_SEC + plan.nap_max_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nap__longer_each_time_and_short_again),
		cmocka_unit_test(nap__while_the_lock_is_held),
		cmocka_unit_test(nap__while_it_waits_for_a_cpu),
		cmocka_unit_test(nap__while_its_polls_wait_for_a_cpu),
		cmocka_unit_test(rest__doubles_after_the_free_ones),
		cmocka_unit_test(doze__a_share_of_the_quiet_time),
		cmocka_unit_test(life__polled_quiet_polled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
