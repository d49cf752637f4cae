// SPDX-License-Identifier: BSD-2-Clause
// What every unit test needs: cmocka with the headers it wants first, and a seed that can be
// replayed.
#ifndef SF_TESTS_UNIT_UNIT_H
#define SF_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"

/** unit_rng() - Random stream of this run: seeded by the environment's SEED, else anew; printed. */
static inline struct rng unit_rng(void)
{
	const char *env = getenv("SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : rng_entropy();
	struct rng r;

	print_message("SEED=%#llx\n", (unsigned long long)seed);
	rng_seed(&r, seed);
	return r;
}

/** unit_slow() - How much longer deadlines are, by the environment's SLOW: under valgrind and the sanitizers. */
static inline unsigned unit_slow(void)
{
	const char *env = getenv("SLOW");
	unsigned long n = env ? strtoul(env, NULL, 0) : 1;

	return n < 1 ? 1 : n > 100 ? 100 : (unsigned)n;
}

#ifdef __SANITIZE_ADDRESS__
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Whether all threads of this process sleep but the one that asks. */
static inline bool unit_others_sleep(void)
{
	DIR *d = opendir("/proc/self/task");
	bool do_sleep = true;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[64], line[512] = "", *state;
		int tid = atoi(e->d_name);
		FILE *f;

		if (!tid || tid == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
		f = fopen(path, "re");
		if (!f)
			continue; /* it has ended */
		state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		do_sleep &= !state || state[2] == 'S';
		fclose(f);
	}
	if (d)
		closedir(d);
	return do_sleep;
}

/**
 * unit_fork() - fork(2). GCC 12's AddressSanitizer does not hold the locks of its runtime over a fork: a child that is
 * made while another thread starts or allocates finds one locked for ever, and hangs when it starts a thread or
 * allocates itself (7 of 5,000 children of a program of 40 lines that does nothing else). So all others sleep when it
 * forks, or a second has passed. The C library holds its own locks: without the sanitizer this is fork().
 */
static inline pid_t unit_fork(void)
{
	for (int ms = 0; ms < 1000 && !unit_others_sleep(); ms++)
		usleep(1000);
	return fork();
}
#else
static inline pid_t unit_fork(void)
{
	return fork();
}
#endif

#endif
