// SPDX-License-Identifier: BSD-2-Clause
// A port that closes gives up its segment's name first and the memory last: who takes the address in between.
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "shm_fake.h"

static bool file_exists(const struct shm_seg *seg)
{
	return access(seg->path, F_OK) == 0;
}

/* In a child: the port at @at, until the pipe closes. */
static void successor(const struct link_addr *at, int in, int out)
{
	struct fake *f = calloc(1, sizeof(*f));
	char c = 'r';

	alarm(60);
	if (!f || fake_open(f, at) || write(out, &c, 1) != 1)
		_exit(1);
	if (read(in, &c, 1) != 0)
		_exit(2);
	fake_close(f);
	free(f);
	_exit(0);
}

static pid_t successor_start(const struct link_addr *at, int *end)
{
	int to[2], from[2];
	char ready;
	pid_t pid;

	assert_int_equal(pipe(to) | pipe(from), 0);
	pid = unit_fork();
	if (!pid) {
		close(to[1]);
		successor(at, to[0], from[1]);
	}
	assert_true(pid > 0);
	close(to[0]);
	close(from[1]);
	assert_int_equal(read(from[0], &ready, 1), 1);
	close(from[0]);
	*end = to[1];
	return pid;
}

static void shm_seg_hide__a_successor_has_the_name(void **state)
{
	struct link_addr at = fake_addr((uint32_t)getpid(), 1, 1001), second = at;
	struct fake *f = calloc(1, sizeof(*f));
	struct shm_seg *old, *seg;
	int end, status;
	pid_t pid;

	(void)state;
	assert_non_null(f);
	assert_int_equal(fake_open(f, &at), 0);
	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &old), 0);
	shm_seg_hide(f->s->seg);
	assert_false(file_exists(f->s->seg));
	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), -ENOENT);
	assert_int_equal(old->hdr->addr.nonce, at.nonce); /* its memory stays for those who have it */
	assert_true(atomic_load(&old->hdr->state) & SHM_ST_CLOSED);
	second.nonce++;
	pid = successor_start(&second, &end);
	assert_true(file_exists(f->s->seg)); /* the name is the other's */
	fake_close(f);
	free(f);
	/* what went at last was ours alone */
	assert_int_equal(shm_seg_attach(&second, SHM_F_LOSSLESS, &seg), 0);
	assert_true(shm_seg_is_alive(seg));
	shm_seg_put(seg);
	shm_seg_put(old);
	close(end);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A child has the segment of its parent, but it is not its own. */
static void shm_seg_hide__not_in_a_child(void **state)
{
	struct link_addr at = fake_addr((uint32_t)getpid(), 2, 1002);
	struct fake *f = calloc(1, sizeof(*f));
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(f);
	assert_int_equal(fake_open(f, &at), 0);
	pid = unit_fork();
	if (!pid) {
		shm_seg_hide(f->s->seg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(file_exists(f->s->seg));
	assert_false(atomic_load(&f->s->seg->hdr->state) & SHM_ST_CLOSED);
	fake_close(f);
	free(f);
}

static unsigned open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Programs that are tested meanwhile may just hold the lock of a file that nobody has locked, to remove it. */
static bool is_nobodys(const struct link_addr *at)
{
	for (int ms = 0; ms < 5000; ms++, usleep(1000))
		if (!shm_addr_pid(at))
			return true;
	return false;
}

/*
 * A segment of another copy of this code in our process: to open and close it would give up its lock. It is looked at
 * once. A program that is tested meanwhile may remove the file, since nobody holds its lock: then it is made again.
 */
static void copy__is_opened_once(void **state)
{
	struct link_addr at = fake_addr((uint32_t)getpid(), 3, 7), other = fake_addr((uint32_t)getpid(), 4, 7);
	struct fake *f = calloc(1, sizeof(*f));
	unsigned once = 0, now, tries = 0;
	char path[SHM_NAME_MAX];
	struct shm_hdr *hdr;
	bool is_there;
	int fd;

	assert_int_equal(fake_open(f, &at), 0);
	memcpy(path, f->s->seg->path, sizeof(path));
	fake_close(f);
	for (int round = 0; round < 3; round += is_there) {
		assert_true(tries++ < 100);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, SHM_FILE_LEN), 0);
		hdr = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		hdr->magic = SHM_MAGIC;
		hdr->pid = getpid();
		close(fd);
		assert_true(is_nobodys(&at));
		now = open_files();
		for (int i = 0; i < 50; i++)
			assert_true(is_nobodys(&at));
		is_there = unlink(path) == 0; /* so all of these have looked at it */
		if (is_there) {
			assert_int_equal(open_files(), now);
			once = round ? once : now; /* that of the round before has been removed */
			assert_int_equal(now, once);
		}
		munmap(hdr, 4096);
	}
	assert_int_equal(fake_open(f, &at), 0); /* the name is anybody's now */
	fake_close(f);
	assert_int_equal(shm_addr_pid(&other), 0);
	free(f);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shm_seg_hide__a_successor_has_the_name),
		cmocka_unit_test(shm_seg_hide__not_in_a_child),
		cmocka_unit_test(copy__is_opened_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
