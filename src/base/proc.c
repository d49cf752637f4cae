// SPDX-License-Identifier: BSD-2-Clause
// The one reader of /proc/PID/stat.
#include "base/proc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool look(const char *path, struct proc_stat *out)
{
	unsigned long long user, sys, start, stack;
	char line[1024] = "", state;
	const char *rest = NULL;
	long threads;
	FILE *f;

	*out = (struct proc_stat){0};
	f = fopen(path, "re");
	if (!f)
		return errno != ENOENT && errno != ESRCH;
	if (fgets(line, sizeof(line), f))
		rest = strrchr(line, ')'); /* the name before it may contain anything */
	fclose(f);
	if (!rest ||
	    sscanf(rest,
		   ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s %*s %ld %*s %llu %*s %*s %*s "
		   "%*s %*s %llu",
		   &state, &user, &sys, &threads, &start, &stack) != 6)
		return true;
	out->state = state;
	/* a leader that has left its threads behind is a zombie, too */
	out->is_over = state == 'X' || (state == 'Z' && threads <= 1);
	out->start = start;
	out->cpu_ticks = user + sys;
	out->stack = stack;
	return true;
}

bool proc_look(int32_t pid, struct proc_stat *out)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return look(path, out);
}

bool proc_look_thread(int32_t tid, struct proc_stat *out)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	return look(path, out);
}
