// SPDX-License-Identifier: BSD-2-Clause
// The descriptor in reserve, and those that must not be closed.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * A process may run out of descriptors while it has ports. Then nothing would tell it any more whether a peer lives, it
 * could not wake one, and who sends to it would not be answered, since it cannot look at that segment. So it keeps one
 * descriptor, and gives it up for as long as a file is looked at. If it is not to be had again, because the limit was
 * lowered below its number, others are asked to come by the network (shm_seg_tell_room()). The adapter thread looks for
 * that: a program that only waits for messages opens no file, and a poll that finds nothing makes no system call.
 */

static pthread_mutex_t g_spare_mutex = PTHREAD_MUTEX_INITIALIZER; /* protects both; taken last */
static int g_spare = -1;
static bool g_is_low; /* given up, it would not be had again: the limit is not above its number any more */
static bool g_has_spare; /* somebody wants it: there are ports */

static void spare_in_child(void)
{
	pthread_mutex_init(&g_spare_mutex, NULL);
}

static void spare_watch_fork(void)
{
	pthread_atfork(NULL, NULL, spare_in_child);
}

int shm_spare_fill(bool is_wanted)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int limit;

	pthread_once(&once, spare_watch_fork);
	pthread_mutex_lock(&g_spare_mutex);
	g_has_spare |= is_wanted;
	if (g_spare < 0 && g_has_spare)
		g_spare = eventfd(0, EFD_CLOEXEC);
	limit = g_spare >= 0 && !g_is_low ? g_spare + 1 : -EMFILE;
	pthread_mutex_unlock(&g_spare_mutex);
	return limit;
}

void shm_spare_look(void)
{
	struct rlimit lim;

	pthread_mutex_lock(&g_spare_mutex);
	g_is_low = g_spare >= 0 && !getrlimit(RLIMIT_NOFILE, &lim) && lim.rlim_cur <= (rlim_t)g_spare;
	pthread_mutex_unlock(&g_spare_mutex);
}

void shm_spare_drop(void)
{
	pthread_mutex_lock(&g_spare_mutex);
	if (g_spare >= 0)
		close(g_spare);
	g_spare = -1;
	g_has_spare = false;
	pthread_mutex_unlock(&g_spare_mutex);
}

int shm_fd_open(const char *path, int flags, bool *is_spare)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	*is_spare = false;
	if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
		return fd;
	pthread_mutex_lock(&g_spare_mutex);
	if (g_spare >= 0) {
		close(g_spare);
		g_spare = -1;
		*is_spare = true;
		fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0 && errno != EMFILE && errno != ENFILE) {
			int err = errno;

			g_spare = eventfd(0, EFD_CLOEXEC);
			errno = err;
		}
	}
	pthread_mutex_unlock(&g_spare_mutex);
	return fd;
}

void shm_fd_close(int fd)
{
	close(fd);
	shm_spare_fill(false); /* fails if another thread was faster: then it is the next time's */
}

/*
 * --- files of another copy of this code in our process: to close one would give up the locks of its owner, which is
 * this process ---
 */

#define KEPT_MAX 256 /* beyond that each look keeps one more */

static struct {
	dev_t dev; /* the descriptor keeps the number from being another file's */
	ino_t ino;
	int fd;
} g_kept[KEPT_MAX]; /* under g_spare_mutex, as the rest */
static uint32_t g_kept_cnt;

/* What its owner has removed needs no lock any more. */
static void kept_sweep(void)
{
	struct stat st;

	for (uint32_t i = 0; i < g_kept_cnt;) {
		if (fstat(g_kept[i].fd, &st) || st.st_nlink) {
			i++;
			continue;
		}
		close(g_kept[i].fd);
		g_kept[i] = g_kept[--g_kept_cnt];
	}
}

bool shm_fd_is_mapped(ino_t ino)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned long long n;

		found = strstr(line, "/softfabric-") &&
			sscanf(line, "%*s %*s %*s %*s %llu", &n) == 1 && n == ino;
	}
	if (f)
		fclose(f);
	return found;
}

bool shm_fd_is_kept(const char *path)
{
	bool is_kept = false;
	struct stat st;

	pthread_mutex_lock(&g_spare_mutex);
	if (unlikely(g_kept_cnt != 0) && !lstat(path, &st))
		for (uint32_t i = 0; i < g_kept_cnt; i++)
			is_kept |= g_kept[i].dev == st.st_dev && g_kept[i].ino == st.st_ino;
	pthread_mutex_unlock(&g_spare_mutex);
	return is_kept;
}

void shm_fd_keep(int fd, const struct stat *st)
{
	pthread_mutex_lock(&g_spare_mutex);
	kept_sweep();
	if (g_kept_cnt < KEPT_MAX) {
		g_kept[g_kept_cnt].dev = st->st_dev;
		g_kept[g_kept_cnt].ino = st->st_ino;
		g_kept[g_kept_cnt++].fd = fd;
	}
	pthread_mutex_unlock(&g_spare_mutex);
}
