// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/wait.c: what happens between the steps of another thread.
#include "unit.h"

#include <poll.h>
#include <unistd.h>

static uint32_t g_late; /* writes that have not been made yet */

/* Stands before write(2): its thread was interrupted. */
static ssize_t write_late(int fd, const void *buf, size_t len)
{
	(void)fd, (void)buf;
	g_late++;
	return (ssize_t)len;
}

#define write write_late
#include "../../src/kit/wait.c"
#undef write

static bool is_readable(const struct kit_bell *b)
{
	struct pollfd p = {.fd = b->epfd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void write_now(const struct kit_bell *b)
{
	const uint64_t one = 1;

	assert_int_equal(g_late, 1);
	g_late = 0;
	assert_int_equal(write(b->evfd, &one, sizeof(one)), sizeof(one));
}

/* Somebody arms while a ringer is between the flag and the write. The descriptor is readable for that once, and not for ever. */
static void bell__late_write_is_drained(void **state)
{
	struct kit_bell *bell[2];
	struct kit_wait *w;

	(void)state;
	assert_int_equal(kit_wait_new(&w, FI_WAIT_FD), 0);
	bell[0] = &w->app;
	bell[1] = &w->call;
	for (int i = 0; i < 2; i++) {
		bell_arm(bell[i]);
		for (int round = 0; round < 3; round++) {
			assert_false(bell_arm(bell[i]));
			bell_ring(bell[i]);
			assert_true(bell_arm(bell[i]));
			assert_false(is_readable(bell[i]));
			write_now(bell[i]);
			assert_true(is_readable(bell[i]));
			bell_arm(bell[i]);
			assert_false(is_readable(bell[i]));
			bell_ring(bell[i]); /* in time */
			write_now(bell[i]);
			assert_true(is_readable(bell[i]));
			assert_true(bell_arm(bell[i]));
			assert_false(is_readable(bell[i]));
		}
	}
	kit_wait_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bell__late_write_is_drained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
