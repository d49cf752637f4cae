// SPDX-License-Identifier: BSD-2-Clause
// Calls that ask for the limits of the process first, because exceeding them raises a signal.
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"

#define STACK_MIN (1u << 20) /* our deepest paths take 100 KiB, the sanitizers' a few times that */

bool limits_file(uint64_t len)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_FSIZE, &lim) || lim.rlim_cur == RLIM_INFINITY || len <= lim.rlim_cur;
}

bool limits_append(int fd, size_t len)
{
	struct stat st;

	return fstat(fd, &st) || !S_ISREG(st.st_mode) || limits_file((uint64_t)st.st_size + len);
}

int limits_truncate(int fd, uint64_t len)
{
	if (!limits_file(len))
		return -EFBIG;
	return ftruncate(fd, (off_t)len) ? -errno : 0;
}

/* The kernel does not look at the limit within the length that a file has already. */
int limits_allocate(int fd, uint64_t off, uint64_t len)
{
	struct stat st;
	int rc;

	if (!limits_file(off + len) && (fstat(fd, &st) || off + len > (uint64_t)st.st_size))
		return -EFBIG;
	do
		rc = posix_fallocate(fd, (off_t)off, (off_t)len);
	while (rc == EINTR);
	return -rc;
}

int limits_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	size_t stack;
	int rc = pthread_attr_init(&attr);

	if (rc)
		return -rc;
	if (!pthread_attr_getstacksize(&attr, &stack) && stack < STACK_MIN)
		pthread_attr_setstacksize(&attr, STACK_MIN);
	/* Signals are the application's: its handlers must not run here, where a lock may be held. */
	guard_thread_signals(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}
