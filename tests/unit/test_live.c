// SPDX-License-Identifier: BSD-2-Clause
// What a process publishes of its adapters, and its children. Readers: tests/cmd.
#include "unit.h"

#include <stdio.h>
#include <sys/wait.h>

#include "../../src/link/core/live.c"

static unsigned files_in(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* fork() while another thread publishes: the child can publish as well, and leaves what its parent has made. */
static void live_open__in_a_child(void **state)
{
	char dir[] = "/tmp/softfabric-live-XXXXXX";
	struct link_node n = {0}, c = {0};
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(dir));
	setenv(LIVE_ENV, dir, 1);
	live_open(&n);
	assert_non_null(n.live);
	assert_int_equal(files_in(dir), 1);
	pthread_mutex_lock(&g_live_mutex); /* as another thread would have it */
	fflush(stdout);
	pid = unit_fork();
	if (!pid) {
		alarm(30 * unit_slow());
		live_open(&c);
		if (!c.live || files_in(dir) != 2)
			_exit(1);
		live_close(&c);
		if (files_in(dir) != 1)
			_exit(2);
		live_open(&c);
		live_at_exit(); /* with its own open */
		_exit(files_in(dir) == 1 ? 0 : 3);
	}
	pthread_mutex_unlock(&g_live_mutex);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	live_close(&n);
	assert_int_equal(files_in(dir), 0);
	unsetenv(LIVE_ENV);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_open__in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
