// SPDX-License-Identifier: BSD-2-Clause
// Does another thread of this process compute, sleep, or wait for a CPU that others have?
//
// Theory of operation: nothing tells that directly, but a thread that is not asleep, and has used next to no CPU time
// for a while, has waited for a CPU. So the time that it has used is read at the beginning and at the end of the while,
// and its state at the end.
#ifndef SF_BASE_STARVE_H
#define SF_BASE_STARVE_H

#include <sys/types.h>

#include "base/base.h"

struct starve {
	pid_t tid;	 /* 0: nobody is looked at */
	uint64_t at_ns;	 /* when it began */
	uint64_t least_ns; /* less time than that says nothing */
	uint64_t cpu_ns; /* what @tid had used then */
};

/** starve_begin() - Looks at thread @tid from now on, for @least_ns at least; 0: at nobody. */
void starve_begin(struct starve *s, pid_t tid, uint64_t least_ns);
/** starve_look() - Has it waited for a CPU since? Return: false, too, before that time is over, or if nothing tells. */
bool starve_look(const struct starve *s);

#endif
