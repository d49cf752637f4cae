// SPDX-License-Identifier: BSD-2-Clause
// What the dead leave in /dev/shm, who removes it, and who looks at it meanwhile.
#include "shm_child.h"

/* @path: where the segment of addr_of(@nr) lies, of which @of has a neighbour. */
static void path_of(const struct fake *of, char nr, char path[SHM_NAME_MAX])
{
	memcpy(path, of->s->seg->path, SHM_NAME_MAX);
	path[strlen(path) - 1] = nr;
}

static void shm_seg__dead_owner_reaped(void **state)
{
	struct link_addr first = addr_of(1), second = addr_of(2);
	struct child a = child_start(CHILD_EXIT, &first), b = child_start(CHILD_SERVE, &second);
	struct fake *f;
	char path[SHM_NAME_MAX];

	child_end(&b, SIGKILL);
	assert_int_equal(child_end(&a, 0), 0);
	f = open_port(1); /* the same name */
	path_of(f, '2', path);
	assert_int_equal(access(path, F_OK), -1); /* and the other one went with it */
	assert_true(file_exists(f->s->seg));
	close_port(f);
	(void)state;
}

/*
 * A process that removes what another one has left at @path, and waits for a CPU just while it has the lock. Return:
 * false if a process of another test, which reaps as all do, was quicker.
 */
static bool reaper_start(const char *path, long naps_ms, pid_t *pid)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	char ready = 0;
	bool is_locked;
	int fd, to[2];

	assert_int_equal(pipe(to), 0);
	*pid = unit_fork();
	if (!*pid) {
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || fcntl(fd, F_SETLK, &fl) || access(path, F_OK) || write(to[1], &ready, 1) != 1)
			_exit(1);
		nanosleep(&(struct timespec){.tv_sec = naps_ms / 1000, .tv_nsec = naps_ms % 1000 * NS_PER_MS}, NULL);
		_exit(unlink(path) ? 2 : 0);
	}
	close(to[1]);
	is_locked = read(to[0], &ready, 1) == 1;
	close(to[0]);
	return is_locked;
}

/* @try returns as reaper_start() does: until our reaper was the quicker one. */
static void reaper_wins(bool (*try)(void))
{
	int tries = 1;

	while (!try())
		assert_true(tries++ < 50);
}

static bool reaper_try(void)
{
	struct link_addr first = addr_of(1);
	struct child a = child_start(CHILD_SERVE, &first);
	struct fake *f = open_port(2);
	char path[SHM_NAME_MAX];
	bool is_locked;
	pid_t pid;
	int status;

	path_of(f, '1', path);
	child_end(&a, SIGKILL);
	is_locked = reaper_start(path, 30, &pid);
	close_port(f);
	f = open_port(1);
	assert_true(file_exists(f->s->seg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), is_locked ? 0 : 1);
	close_port(f);
	return is_locked;
}

/* Somebody else is about to remove what a dead process left: its name is free a moment later, and not taken. */
static void shm_seg__reaper_is_at_it(void **state)
{
	reaper_wins(reaper_try);
	(void)state;
}

/* Its lock is not the owner's, who is dead: whoever looks meanwhile sees that, and does not attach anew. */
static bool reaper_seen_try(void)
{
	struct link_addr at = addr_of(1);
	struct child a = child_start(CHILD_SERVE, &at);
	struct fake *f = open_port(2);
	struct shm_seg *seg, *again;
	char path[SHM_NAME_MAX];
	bool is_locked;
	int status;
	pid_t pid;

	path_of(f, '1', path);
	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), 0);
	child_end(&a, SIGKILL);
	is_locked = reaper_start(path, 60000, &pid);
	assert_false(shm_seg_is_alive(seg));
	assert_true(shm_seg_is_gone(seg));
	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &again), -ENOENT);
	shm_seg_put(seg);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close_port(f);
	return is_locked;
}

static void shm_seg__reaper_is_no_owner(void **state)
{
	reaper_wins(reaper_seen_try);
	(void)state;
}

/* A reaper in another process must not touch what lives, nor a port of its own. */
static void shm_seg__reaper_spares_the_living(void **state)
{
	struct link_addr at = addr_of(1);
	struct fake *f = open_port(2), *g;
	struct child c = child_start(CHILD_SERVE, &at);
	struct shm_seg *seg;

	g = open_port(3);
	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), 0);
	assert_true(shm_seg_is_alive(seg));
	shm_seg_put(seg);
	assert_true(file_exists(f->s->seg));
	close_port(f);
	close_port(g);
	assert_int_equal(child_end(&c, 0), 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shm_seg__dead_owner_reaped),
		cmocka_unit_test(shm_seg__reaper_is_at_it),
		cmocka_unit_test(shm_seg__reaper_is_no_owner),
		cmocka_unit_test(shm_seg__reaper_spares_the_living),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
