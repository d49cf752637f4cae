// SPDX-License-Identifier: BSD-2-Clause
// exit() with ports open: nothing of the process stays in /dev/shm, peers learn of it soon, and a forked child's exit
// takes nothing away.
#include <glob.h>
#include <signal.h>
#include <sys/wait.h>

#include "shm_fake.h"
#include "unit.h"

#define DEADLINE_NS (20 * NS_PER_SEC * unit_slow())

static struct link_addr addr_of(uint16_t port)
{
	return fake_addr((uint32_t)getpid(), port, 1000u + port);
}

static struct fake *open_at(const struct link_addr *at)
{
	struct fake *f = calloc(1, sizeof(*f));

	if (!f || fake_open(f, at)) {
		free(f);
		return NULL;
	}
	shm_arm(f->s); /* makes the FIFO, too */
	shm_disarm(f->s);
	return f;
}

static void close_port(struct fake *f)
{
	fake_close(f);
	free(f);
}

/* How many of the two files of the port at @path exist. */
static int files(const char *path)
{
	char wake[2 * SHM_NAME_MAX];
	glob_t found;
	int n;

	snprintf(wake, sizeof(wake), "%.*s.*.wake", SHM_NAME_MAX, path);
	n = glob(wake, 0, NULL, &found) ? 0 : (int)found.gl_pathc;
	globfree(&found);
	return !access(path, F_OK) + n;
}

/* The name that port @b has, where @path is that of port 1. */
static void path_of(const struct fake *port1, char b, char path[SHM_NAME_MAX])
{
	memcpy(path, port1->s->seg->path, SHM_NAME_MAX);
	path[strlen(path) - 1] = b;
}

static int status_of(pid_t pid)
{
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	int status = -1;
	pid_t got;

	while (!(got = waitpid(pid, &status, WNOHANG)) && clk_now_ns(NULL) < end)
		usleep(1000);
	if (!got) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	return status;
}

/* A child opens ports 2 and 3, and leaves by exit() when something is written to *@to. */
static pid_t child_start(int *to)
{
	struct link_addr at[2] = {addr_of(2), addr_of(3)};
	int go[2], ready[2];
	char c = 'r';
	pid_t pid;

	assert_int_equal(pipe(go) | pipe(ready), 0);
	fflush(stdout);
	pid = unit_fork();
	if (!pid) {
		static struct fake *volatile f[2]; /* for leak checkers */

		alarm(60);
		f[0] = open_at(&at[0]);
		f[1] = open_at(&at[1]);
		if (!f[0] || !f[1] || write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(1);
		exit(0);
	}
	close(go[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	*to = go[1];
	return pid;
}

/* Frames are under way to a process that leaves so: they end at once, and its files are gone when it is. */
static void exit__with_a_peer_in_traffic(void **state)
{
	static uint8_t buf[9000];
	struct link_addr mine = addr_of(1), to = addr_of(2);
	struct fake *f = open_at(&mine);
	char path[2][SHM_NAME_MAX];
	uint64_t n = 0, t0;
	struct shm_seg *seg;
	int go;
	pid_t pid = child_start(&go);

	assert_non_null(f);
	for (int i = 0; i < 2; i++) {
		path_of(f, (char)('2' + i), path[i]);
		assert_int_equal(files(path[i]), 2);
	}
	for (int i = 0; i < 200; i++)
		n += fake_send(f, &to, buf, i % 3 ? 8 : sizeof(buf), buf) == 0;
	assert_true(n > 50);
	assert_int_equal(write(go, "x", 1), 1);
	assert_int_equal(status_of(pid), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(files(path[i]), 0);
	assert_int_equal(shm_seg_attach(&to, SHM_F_LOSSLESS, &seg), -ENOENT);
	t0 = clk_now_ns(NULL);
	while (f->sent_cnt < n && clk_now_ns(NULL) - t0 < DEADLINE_NS)
		fake_poll(f);
	assert_int_equal(f->sent_cnt, n);
	assert_int_equal(f->sent_bad, n);
	assert_int_equal(f->last_status, -ECONNREFUSED);
	assert_int_equal(f->dead_cnt, 1);
	assert_true(clk_now_ns(NULL) - t0 < NS_PER_SEC * unit_slow());
	close_port(f);
	close(go);
	(void)state;
}

/*
 * The port of a killed process, whose address another one takes: nothing is put into the lane that nobody will read,
 * and the next frame after its end was told reaches the next one.
 */
static void exit__successor_of_a_killed(void **state)
{
	struct link_addr mine = addr_of(1), to = addr_of(2), next = to;
	struct fake *f = open_at(&mine), *g;
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS, refused = 0;
	uint8_t buf[8] = {0};
	int go;
	pid_t pid = child_start(&go);

	assert_non_null(f);
	assert_int_equal(fake_send(f, &to, buf, sizeof(buf), buf), 0);
	kill(pid, SIGKILL);
	assert_int_equal(status_of(pid), SIGKILL);
	next.nonce++;
	g = open_at(&next);
	assert_non_null(g);
	for (int i = 0; i < 4; i++)
		refused += fake_send(f, &to, buf, sizeof(buf), buf) == -EAGAIN;
	assert_int_equal(refused, 4);
	while (!f->dead_cnt && clk_now_ns(NULL) < end)
		fake_poll(f);
	assert_int_equal(f->dead_cnt, 1);
	assert_int_equal(f->sent_cnt, 1);
	assert_int_equal(f->last_status, -ECONNREFUSED);
	close_port(g);
	close_port(f);
	close(go);
	(void)state;
}

/* Also one that has a port of its own. */
static void exit__of_a_forked_child(void **state)
{
	struct link_addr at = addr_of(1), other = addr_of(2);
	struct fake *f = open_at(&at);
	char path[2][SHM_NAME_MAX];

	assert_non_null(f);
	for (int has_own = 0; has_own < 2; has_own++) {
		pid_t pid;

		fflush(stdout);
		pid = unit_fork();
		if (!pid) {
			static struct fake *volatile own; /* for leak checkers */

			own = has_own ? open_at(&other) : NULL;
			exit(has_own && !own);
		}
		assert_int_equal(status_of(pid), 0);
		for (int i = 0; i < 2; i++)
			path_of(f, (char)('1' + i), path[i]);
		assert_int_equal(files(path[0]), 2);
		assert_int_equal(files(path[1]), 0);
		assert_false(atomic_load(&f->s->seg->hdr->state) & SHM_ST_CLOSED);
	}
	close_port(f);
	(void)state;
}

static void *open_and_close(void *arg)
{
	struct link_addr at = addr_of(2);

	for (;;) {
		struct fake *f = open_at(&at);

		if (f)
			close_port(f);
	}
	return arg;
}

/* Threads that are inside calls at that moment neither stop it nor fall over it. */
static void exit__beside_a_busy_thread(void **state)
{
	struct link_addr at = addr_of(3), mine = addr_of(1);
	struct fake *f = open_at(&mine);
	char path[SHM_NAME_MAX];

	assert_non_null(f);
	for (int i = 0; i < 30; i++) {
		pid_t pid;

		fflush(stdout);
		pid = unit_fork();
		if (!pid) {
			static struct fake *volatile own; /* for leak checkers */
			pthread_t thread;

			own = open_at(&at);
			if (!own || pthread_create(&thread, NULL, open_and_close, NULL))
				_exit(1);
			usleep(300 + 100 * (useconds_t)i);
			exit(0);
		}
		assert_int_equal(status_of(pid), 0);
		for (char c = '2'; c <= '3'; c++) {
			path_of(f, c, path);
			assert_int_equal(files(path), 0);
		}
	}
	close_port(f);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit__with_a_peer_in_traffic),
		cmocka_unit_test(exit__successor_of_a_killed),
		cmocka_unit_test(exit__of_a_forked_child),
		cmocka_unit_test(exit__beside_a_busy_thread),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
