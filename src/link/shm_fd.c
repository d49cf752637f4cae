// SPDX-License-Identifier: BSD-2-Clause
// The descriptor in reserve.
#include "link/shm_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * A process may run out of descriptors while it has ports. Then nothing would tell it any more whether a peer lives, it could not wake one, and who sends
 * to it would not be answered, since it cannot look at that segment. So it keeps one descriptor, and gives it up for as long as a file is looked at.
 */

static pthread_mutex_t g_spare_mutex = PTHREAD_MUTEX_INITIALIZER; /* protects both; taken last */
static int g_spare = -1;
static bool g_has_spare; /* somebody wants it: there are ports */

static void spare_in_child(void)
{
	pthread_mutex_init(&g_spare_mutex, NULL);
}

static void spare_watch_fork(void)
{
	pthread_atfork(NULL, NULL, spare_in_child);
}

bool shm_spare_fill(bool is_wanted)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool is_there;

	pthread_once(&once, spare_watch_fork);
	pthread_mutex_lock(&g_spare_mutex);
	g_has_spare |= is_wanted;
	if (g_spare < 0 && g_has_spare)
		g_spare = eventfd(0, EFD_CLOEXEC);
	is_there = g_spare >= 0;
	pthread_mutex_unlock(&g_spare_mutex);
	return is_there;
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
