// SPDX-License-Identifier: BSD-2-Clause
// Is this a child of the process that opened the adapter? It may use nothing of it.
#include <sys/mman.h>
#include <unistd.h>

#include "link/core/link_int.h"

/* A page that the kernel clears in every child, however it was made; one load tells parent from
 * child. */
uint8_t *fork_mark_open(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, len, MADV_WIPEONFORK)) {
		munmap(p, len);
		return NULL;
	}
	*(uint8_t *)p = 1;
	return p;
}

void fork_mark_close(uint8_t *mark)
{
	if (mark)
		munmap((void *)(uintptr_t)mark, (size_t)sysconf(_SC_PAGESIZE));
}

bool link_forked(const struct link_node *n)
{
	return n->fork_mark ? !*n->fork_mark : n->owner_pid != getpid();
}

const uint8_t *link_fork_mark(const struct link_node *n)
{
	return n->fork_mark;
}
