// SPDX-License-Identifier: BSD-2-Clause
// What would exceed a limit of the process (setrlimit(2)) and be answered with a signal: asked beforehand, so that it
// is an error.
#ifndef SF_BASE_LIMITS_H
#define SF_BASE_LIMITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * RLIMIT_FSIZE. The kernel sends SIGXFSZ to a process that makes a file longer than its soft limit, root or not,
 * and its default kills. So the limit is read first. The other way would be to block SIGXFSZ in the thread around the
 * call and to take it back with sigtimedwait(2): four system calls, and one that the program has sent itself meanwhile
 * would be taken as well. What the first way misses is a limit that is lowered between the two calls, which only
 * another thread of the program, or root from outside, could do.
 *
 * RLIMIT_STACK. It is also the size of the stack of each thread that does not ask for another one, and a small one ends
 * in SIGSEGV.
 */

/** limits_file() - Whether a file may be @len bytes long. */
bool limits_file(uint64_t len);
/** limits_append() - Whether @len bytes may be written to the end of @fd; true of what is no regular file. */
bool limits_append(int fd, size_t len);
/** limits_truncate() - ftruncate(2). 0; -EFBIG; -errno. */
int limits_truncate(int fd, uint64_t len);
/** limits_allocate() - posix_fallocate(3), repeated after a signal. 0; -EFBIG; -errno. */
int limits_allocate(int fd, uint64_t off, uint64_t len);
/**
 * limits_thread() - pthread_create(3) of a thread that has room for what we do, and blocks all signals but those of
 * base/guard.h. 0; -errno.
 */
int limits_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg);

#endif
