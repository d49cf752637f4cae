// SPDX-License-Identifier: BSD-2-Clause
// What /proc tells of a process.
#ifndef SF_BASE_PROC_H
#define SF_BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>

struct proc_stat {
	char state;	  /* letter; 0: not told */
	bool is_over;	  /* it has ended and is only waited for */
	uint64_t start;	  /* ticks since boot; 0: not told */
	uint64_t cpu_ticks; /* of user and system */
	uint64_t stack;	  /* where its main stack begins: another one after exec(); 0: not told */
};

/**
 * proc_look() - Reads /proc/@pid/stat. Return: false: no such process, as far as this pid namespace shows. If in doubt:
 * true, and nothing told.
 */
bool proc_look(int32_t pid, struct proc_stat *out);
/** proc_look_thread() - The same for thread @tid of this process. */
bool proc_look_thread(int32_t tid, struct proc_stat *out);

#endif
