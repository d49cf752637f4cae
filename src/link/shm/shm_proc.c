// SPDX-License-Identifier: BSD-2-Clause
// Processes as other processes of this host can tell them apart.
#include "link/shm/shm_int.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc.h"

static uint64_t ns_id(const char *what)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", what);
	return stat(path, &st) ? 0 : st.st_ino;
}

/* In which namespaces a pid and its start time mean the same. */
static uint32_t ns_self(void)
{
	return (uint32_t)(ns_id("pid") * 31 + ns_id("time"));
}

static uint32_t image_of(const struct proc_stat *st)
{
	return (uint32_t)(st->stack >> 4); /* its alignment */
}

struct shm_proc shm_proc_self(void)
{
	struct shm_proc p = {.pid = getpid()};
	struct proc_stat st;

	p.ns = ns_self();
	if (!proc_look(p.pid, &st) || !st.start)
		p.pid = 0;
	p.start = (uint32_t)st.start;
	p.image = image_of(&st);
	return p;
}

bool shm_proc_is_gone(const struct shm_proc *proc)
{
	struct shm_proc self = shm_proc_self();
	struct proc_stat st;
	uint32_t image;

	if (proc->pid <= 0 || !self.pid || proc->ns != self.ns)
		return false; /* not to be known from here */
	if (!proc_look(proc->pid, &st) || st.is_over || (st.start && (uint32_t)st.start != proc->start))
		return true;
	image = image_of(&st);
	return image && proc->image && image != proc->image;
}

bool shm_proc_may_open(const struct shm_proc *proc, int32_t limit)
{
	struct rlimit lim;

	if (proc->pid <= 0 || proc->ns != ns_self())
		return true; /* not to be known from here */
	return prlimit(proc->pid, RLIMIT_NOFILE, NULL, &lim) || lim.rlim_cur >= (rlim_t)limit;
}
