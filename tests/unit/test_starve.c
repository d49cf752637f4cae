// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of base/starve.c: a thread that has used so much CPU time and is in such a state, and this one.
#include "unit.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"

/* What the system says of the other thread, and the time. */
static struct {
	bool is_on, has_clock, has_proc;
	uint64_t now_ns, cpu_ns;
	char state;
} said;

static uint64_t spy_now(const struct clk *c)
{
	return said.is_on ? said.now_ns : clk_now_ns(c);
}

static int spy_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!said.is_on)
		return clock_gettime(clock, ts);
	ts->tv_sec = (time_t)(said.cpu_ns / NS_PER_SEC);
	ts->tv_nsec = (long)(said.cpu_ns % NS_PER_SEC);
	return said.has_clock ? 0 : -1;
}

static bool spy_proc_look(int32_t tid, struct proc_stat *st)
{
	if (!said.is_on)
		return proc_look_thread(tid, st);
	*st = (struct proc_stat){.state = said.state};
	return said.has_proc;
}

#define clk_now_ns       spy_now
#define clock_gettime    spy_clock_gettime
#define proc_look_thread spy_proc_look
#include "../../src/base/starve.c"
#undef clk_now_ns
#undef clock_gettime
#undef proc_look_thread

static int said_begin(void **state)
{
	(void)state;
	said.is_on = said.has_clock = said.has_proc = true;
	said.now_ns = 7 * NS_PER_SEC;
	said.cpu_ns = 3 * NS_PER_SEC - 1;
	said.state = 'R';
	return 0;
}

static int said_end(void **state)
{
	(void)state;
	said.is_on = false;
	return 0;
}

static void starve__ready_and_without_cpu_time(void **state)
{
	struct starve s;

	(void)state;
	starve_begin(&s, 5, NS_PER_MS);
	said.now_ns += 8 * NS_PER_MS;
	assert_true(starve_look(&s));
	said.cpu_ns += NS_PER_MS - 1;
	assert_true(starve_look(&s)); /* the end of a poll */
	said.cpu_ns += 1;
	assert_false(starve_look(&s)); /* it computes */
}

static void starve__asleep(void **state)
{
	static const char states[] = "SDTtZX";
	struct starve s;

	(void)state;
	starve_begin(&s, 5, NS_PER_MS);
	said.now_ns += 8 * NS_PER_MS;
	for (const char *c = states; *c; c++) {
		said.state = *c;
		assert_false(starve_look(&s));
	}
	said.state = 0; /* nothing told */
	assert_false(starve_look(&s));
	said.state = 'R';
	assert_true(starve_look(&s));
}

static void starve__too_soon_to_say(void **state)
{
	struct starve s;

	(void)state;
	starve_begin(&s, 5, NS_PER_MS);
	assert_false(starve_look(&s));
	said.now_ns += NS_PER_MS - 1;
	assert_false(starve_look(&s));
	said.now_ns += 1;
	assert_true(starve_look(&s));
}

static void starve__nobody(void **state)
{
	struct starve s;

	(void)state;
	starve_begin(&s, 0, NS_PER_MS);
	said.now_ns += NS_PER_SEC;
	assert_false(starve_look(&s));
	said.has_clock = false; /* it has ended before ... */
	starve_begin(&s, 5, NS_PER_MS);
	assert_int_equal(s.tid, 0);
	said.has_clock = true;
	said.now_ns += NS_PER_SEC;
	assert_false(starve_look(&s));
	starve_begin(&s, 5, NS_PER_MS);
	said.now_ns += NS_PER_SEC;
	said.has_proc = false; /* ... or since */
	assert_false(starve_look(&s));
	said.has_proc = true;
	said.has_clock = false;
	assert_false(starve_look(&s));
}

/* --- the system's own answers ------------------------------------------------------------------------ */

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* The clock is this thread's, not the process's: another one has run as well. */
static void *computes(void *arg)
{
	for (uint64_t end = own_cpu_ns() + 20 * NS_PER_MS; own_cpu_ns() < end;)
		;
	return arg;
}

static void starve__counts_one_thread(void **state)
{
	pthread_t other;
	uint64_t before, cpu, after;

	(void)state;
	assert_int_equal(pthread_create(&other, NULL, computes, NULL), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	before = own_cpu_ns();
	assert_true(cpu_time(gettid(), &cpu));
	after = own_cpu_ns();
	assert_in_range(cpu, before, after);
}

/* Who computes does not wait. A machine so busy that it has less than an eighth of any millisecond says nothing. */
static void starve__who_computes(void **state)
{
	uint64_t end = clk_now_ns(NULL) + 10 * NS_PER_SEC, begin, cpu;
	bool is_told = false, waits;

	(void)state;
	while (!is_told && clk_now_ns(NULL) < end) {
		struct starve s;

		starve_begin(&s, gettid(), NS_PER_MS);
		assert_int_equal(s.tid, gettid());
		begin = clk_now_ns(NULL);
		cpu = own_cpu_ns();
		while (clk_now_ns(NULL) - begin < NS_PER_MS)
			;
		cpu = own_cpu_ns() - cpu;
		waits = starve_look(&s);
		is_told = cpu >= (clk_now_ns(NULL) - s.at_ns) / USED_SHARE;
		if (is_told)
			assert_false(waits);
	}
	if (!is_told)
		skip();
}

int main(void)
{
#define S_(fn_) cmocka_unit_test_setup_teardown(fn_, said_begin, said_end)
	const struct CMUnitTest tests[] = {
		S_(starve__ready_and_without_cpu_time),
		S_(starve__asleep),
		S_(starve__too_soon_to_say),
		S_(starve__nobody),
		cmocka_unit_test(starve__counts_one_thread),
		cmocka_unit_test(starve__who_computes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
