// SPDX-License-Identifier: BSD-2-Clause
// The CPU time and the state of a thread, as the kernel tells them.
#include "base/starve.h"

#include <time.h>

#include "base/clock.h"
#include "base/proc.h"

#define USED_SHARE 8u	     /* who has used less than such a share of the time has not computed */

/* Of any thread by its id, as the kernel counts clocks: glibc knows only the name of a thread that still exists. */
static bool cpu_time(pid_t tid, uint64_t *ns)
{
	clockid_t clock = (clockid_t)(~(uint32_t)tid << 3 | 6); /* 4: a thread's; 2: what the scheduler counts */
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		return false;
	*ns = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
	return true;
}

void starve_begin(struct starve *s, pid_t tid, uint64_t least_ns)
{
	s->least_ns = least_ns;
	s->at_ns = clk_now_ns(NULL);
	s->tid = tid > 0 && cpu_time(tid, &s->cpu_ns) ? tid : 0;
}

bool starve_look(const struct starve *s)
{
	struct proc_stat st;
	uint64_t used, ns = clk_now_ns(NULL) - s->at_ns;

	if (!s->tid || ns < s->least_ns || !cpu_time(s->tid, &used) || used - s->cpu_ns >= ns / USED_SHARE)
		return false;
	return proc_look_thread(s->tid, &st) && st.state == 'R';
}
