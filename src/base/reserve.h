// SPDX-License-Identifier: BSD-2-Clause
// What is kept for when there is none: some heap and some address space of a process that has ports.
#ifndef SF_BASE_RESERVE_H
#define SF_BASE_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A process may run out of memory while peers talk to it: RLIMIT_AS, RLIMIT_DATA, or no overcommit. Then it could not
 * take what is on its way, nor answer, and both ends would wait. So it reserves memory that it does not touch, which
 * costs no page, and unmaps it for the allocation that failed. Its program may be faster and take what was freed: no
 * reserve can help who takes everything.
 */

#define RESERVE_HEAP ((size_t)4 << 20) /* what peers of a small job cost, and one large message each way */

/** reserve_want() - One user more: from the first one on there is a reserve of heap. Return: false: there is no room
 * for it, and this is no user. */
bool reserve_want(void);
/** reserve_want_map() - While there are users, there shall also be @len bytes of address space in reserve. */
void reserve_want_map(size_t len);
/** reserve_drop() - One user less; with the last one the reserve goes. */
void reserve_drop(void);
/** reserve_fill() - Make again what was used. Cheap if nothing was. Return: the address space is there. */
bool reserve_fill(void);
/**
 * reserve_give_heap() - An allocation of @len bytes has failed: gives up the heap's, then the rest.
 * Return: there was a reserve, so that it may succeed now.
 */
bool reserve_give_heap(size_t len);
/** reserve_map() - mmap(2) of the shared file @fd from its beginning, for reading and writing, with the help of the
 * reserve. NULL: errno says why not. */
void *reserve_map(int fd, size_t len);

#endif
