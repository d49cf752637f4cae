// SPDX-License-Identifier: BSD-2-Clause
// Access to the program's memory on behalf of somebody else: is it there, and what if it has gone
// meanwhile?
//
// Theory of operation: memory that a peer may name belongs to the program, which may unmap it,
// protect it or truncate its file at any moment. A real adapter has pinned the pages; here the CPU
// stores the bytes, and gets SIGSEGV or SIGBUS. A copy made by the kernel would fail with EFAULT
// instead, but takes a system call for each 8-byte write (doc/measurements.md#guarded-accesses). So a
// guarded access notes where it would go on after a fault, and a signal handler goes on there: no
// cost but a few instructions. The handler looks only at faults inside the memory of an access that
// is running in the same thread; all others are the business of whoever had the signal before, whom
// it calls as the kernel would have done.
#ifndef SF_BASE_GUARD_H
#define SF_BASE_GUARD_H

#include <signal.h>

#include "base/base.h"
#include "base/view.h"

/**
 * guard_init() - Take the signals. To be called before the program's memory is first offered to
 * peers; any number of times, any thread. Without it, or if the program has installed handlers of
 * its own since then that do not call those before them, a fault is the program's, as if the access
 * were not guarded.
 */
void guard_init(void);

/** guard_allow() - @may: false if guard_init() shall leave the signals alone, as the user wishes.
 */
void guard_allow(bool may);

/** guard_thread_signals() - What a thread of ours blocks: all but the signals of faults, which kill
 * the process where they are blocked. */
void guard_thread_signals(sigset_t *set);

/**
 * guard_copy() - copy_bytes() where @user, which is @dst or @src, is the program's memory.
 * Return: false: some of it is not there; bytes before that may have been copied.
 */
bool guard_copy(void *dst, const void *src, size_t len, const void *user);

/*
 * For a function whose guarded access is an atomic one: ThreadSanitizer makes a call of each atomic access, which holds
 * a lock of its own while it touches the memory, and a fault there would leave that lock taken for ever.
 */
#ifdef __SANITIZE_THREAD__
#define GUARD_ATOMIC __attribute__((no_sanitize_thread, noinline))
#else
#define GUARD_ATOMIC
#endif

/** guard_write() - Into the program's memory. */
static inline bool guard_write(void *dst, const void *src, size_t len)
{
	return guard_copy(dst, src, len, dst);
}

/** guard_read() - Out of the program's memory, into ours at which nobody looks meanwhile: copy_private(). */
bool guard_read(void *dst, const void *src, size_t len);

/** guard_touch() - For memory that somebody else will read soon. Return: all of it is there now. */
bool guard_touch(const void *user, size_t len);

/** guard_view() - view_copy() into the program's memory, of bytes that are all there. Return: as
 * guard_copy(). */
bool guard_view(const struct view *v, size_t off, void *dst, size_t len);

/** guard_call() - @fn(@arg), which touches [@user, +@len) of the program's memory, takes no lock
 * and calls nothing that does. Return: as guard_copy(). */
bool guard_call(const void *user, size_t len, void (*fn)(void *arg), void *arg);

/**
 * guard_mapped() - Could an adapter pin [@addr, +@len), for writing too if @is_write?
 * Ranges of up to 64 KiB are looked at as a whole, and are backed with pages from then on as pinned
 * ones would be. Of longer ones only the mappings and the first and the last page are: what is
 * protected in the middle shows when it is accessed. Return: 0; -EFAULT: not mapped, not so
 * accessible, or beyond the end of a file; -ENOMEM. Kernels before 5.14 tell only what is not
 * mapped.
 */
int guard_mapped(const void *addr, size_t len, bool is_write);

#endif
