// SPDX-License-Identifier: BSD-2-Clause
// Other users of the host in /dev/shm, and a process without descriptors. Needs root, who can be somebody else.
#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "shm_fake.h"

#define NOBODY 65534
#define STRAYS 80 /* more than a reaper looks at */

static char g_log[512];

static void on_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	(void)func;
	(void)line;
	if (lvl == LOG_LVL_WARN)
		snprintf(g_log, sizeof(g_log), "%s", msg);
}

static struct link_addr addr_of(uint16_t port)
{
	return fake_addr((uint32_t)getpid(), port, 1000u + port);
}

static void need_root(void)
{
	if (!geteuid())
		return;
	print_message("SKIP: only root can be another user\n");
	skip();
}

/* Another user makes a file of @len bytes at @path. */
static void stray(const char *path, off_t len)
{
	int fd;

	assert_int_equal(seteuid(NOBODY), 0);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	assert_true(fd >= 0);
	if (len)
		assert_int_equal(posix_fallocate(fd, 0, len), 0);
	close(fd);
	assert_int_equal(seteuid(0), 0);
}

static void path_of(uint16_t port, char path[SHM_NAME_MAX])
{
	struct link_addr at = addr_of(port);
	struct shm_seg_attr attr = {.addr = at};
	struct shm_seg *seg;

	assert_int_equal(shm_seg_create(&attr, &seg), 0);
	memcpy(path, seg->path, SHM_NAME_MAX);
	shm_seg_remove(seg);
	shm_seg_put(seg);
}

static void others__take_the_name(void **state)
{
	struct link_addr at = addr_of(1), next = addr_of(2);
	struct fake *f = calloc(1, sizeof(*f));
	char path[SHM_NAME_MAX];

	(void)state;
	need_root();
	path_of(1, path);
	stray(path, 0);
	assert_int_equal(fake_open(f, &at), -EACCES);
	assert_non_null(strstr(g_log, "belongs to user 65534"));
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	memset(f, 0, sizeof(*f));
	assert_int_equal(fake_open(f, &next), 0);
	fake_close(f);
	free(f);
}

static void others__fill_what_is_counted(void **state)
{
	char path[SHM_NAME_MAX];
	struct shm_space space;

	(void)state;
	need_root();
	snprintf(path, sizeof(path), SHM_DIR "/softfabric-0-1-%d", (int)getpid());
	space = shm_space_get(8 << 20); /* little enough to be counted */
	stray(path, 4 << 20);
	assert_true(shm_space_get(8 << 20).used < space.used + (4 << 20));
	unlink(path);
}

/* What a killed process has left is removed, however many files others make beside it. */
static void others__crowd(void **state)
{
	char dead[SHM_NAME_MAX], path[SHM_NAME_MAX];
	pid_t pid;

	(void)state;
	need_root();
	path_of(3, dead);
	pid = unit_fork();
	if (!pid) {
		struct link_addr at = addr_of(3);
		struct shm_seg_attr attr = {.addr = at};
		struct shm_seg *seg;

		memcpy(attr.addr.ip, fake_addr((uint32_t)getppid(), 3, 1003).ip, 16);
		shm_seg_create(&attr, &seg);
		_exit(0); /* no destructor */
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(access(dead, F_OK), 0);
	for (int i = 0; i < STRAYS; i++) {
		snprintf(path, sizeof(path), SHM_DIR "/softfabric-0-2-%d-%d", (int)getpid(), i);
		stray(path, 0);
	}
	path_of(4, path);
	assert_int_equal(access(dead, F_OK), -1);
	for (int i = 0; i < STRAYS; i++) {
		snprintf(path, sizeof(path), SHM_DIR "/softfabric-0-2-%d-%d", (int)getpid(), i);
		unlink(path);
	}
}

/* Root has made something of the name that a doorbell of user nobody had once. */
static void others__have_the_bell(void **state)
{
	struct link_addr at = addr_of(5);
	struct shm_seg_attr attr = {.addr = at};
	char path[SHM_WAKE_MAX];
	struct shm_seg *seg;
	int fd;

	(void)state;
	need_root();
	assert_int_equal(seteuid(NOBODY), 0);
	assert_int_equal(shm_seg_create(&attr, &seg), 0);
	assert_int_equal(seteuid(0), 0);
	snprintf(path, sizeof(path), "%s.wake", seg->path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(seteuid(NOBODY), 0);
	fd = shm_wake_open_rx(seg);
	assert_true(fd >= 0);
	close(fd);
	shm_seg_remove(seg);
	shm_seg_put(seg);
	assert_int_equal(seteuid(0), 0);
	unlink(path);
}

/* A process that has no descriptor left still finds its peers, and learns whether they live. */
static void none_left__finds_peers(void **state)
{
	struct rlimit lim, less;
	struct link_addr mine = addr_of(6), other;
	struct fake *f = calloc(1, sizeof(*f));
	struct shm_seg *seg;
	int to[2], from[2], fd, top;
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(to) | pipe(from), 0);
	pid = unit_fork();
	if (!pid) {
		struct fake *g = calloc(1, sizeof(*g));

		close(to[1]);
		mine = addr_of(7);
		if (fake_open(g, &mine) || write(from[1], &mine, sizeof(mine)) < 0 || read(to[0], &c, 1) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(from[0], &other, sizeof(other)), sizeof(other));
	assert_int_equal(fake_open(f, &mine), 0);
	top = fd = dup(0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	less = (struct rlimit){(rlim_t)fd + 1, lim.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	while ((fd = dup(0)) >= 0)
		top = fd;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(shm_seg_attach(&other, SHM_F_LOSSLESS, &seg), 0);
		assert_true(shm_seg_is_alive(seg));
		if (i < 2)
			shm_seg_put(seg);
	}
	assert_int_equal(dup(0), -1); /* the one in reserve is back where it was */
	close(to[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(shm_seg_is_alive(seg));
	unlink(seg->path);
	shm_seg_put(seg);
	setrlimit(RLIMIT_NOFILE, &lim);
	close(top);
	fake_close(f);
	free(f);
}

/* A doorbell whose segment has gone is nobody's; others stay. */
static void left__bells_go(void **state)
{
	char path[SHM_NAME_MAX], bell[2][SHM_WAKE_MAX];
	struct fake f = {0};
	struct link_addr at = addr_of(9);

	for (uint16_t i = 0; i < 2; i++) {
		path_of((uint16_t)(7 + i), path);
		shm_wake_path(path, 1, bell[i]);
		assert_int_equal(mkfifo(bell[i], 0600), 0);
	}
	assert_int_equal(close(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)),
			 0); /* newborn: not to be judged yet */
	assert_int_equal(fake_open(&f, &at), 0);
	assert_int_not_equal(access(bell[0], F_OK), 0);
	assert_int_equal(access(bell[1], F_OK), 0);
	unlink(bell[1]);
	unlink(path);
	fake_close(&f);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others__take_the_name),  cmocka_unit_test(others__fill_what_is_counted),
		cmocka_unit_test(others__crowd),	  cmocka_unit_test(others__have_the_bell),
		cmocka_unit_test(none_left__finds_peers), cmocka_unit_test(left__bells_go),
	};

	/* where that is allowed, without the files of tests that run at the same time */
	if (!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		(void)!mount("tmpfs", SHM_DIR, "tmpfs", 0, "mode=1777");
	log_set_hook(on_log);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
