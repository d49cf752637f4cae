// SPDX-License-Identifier: BSD-2-Clause
// How far two processors are apart at the moment: those of a virtual machine change place under the program. And what
// programs that measure between two such processors have in common.
#ifndef SF_TESTS_PERF_PLACE_H
#define SF_TESTS_PERF_PLACE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum place { PLACE_SMT, PLACE_NEAR, PLACE_FAR, PLACE_BAD, PLACE_SAME, PLACE_NUM };
static const char *const place_name[PLACE_NUM] = {"smt", "near", "far", "bad", "same"};

#define PLACE_PROBES 800

static inline uint64_t place_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* place_meet() - Both processes, @me of them, are here. @at: meetings of this one so far. */
static inline void place_meet(_Atomic uint64_t arrived[2], int me, uint64_t *at)
{
	++*at;
	atomic_store(&arrived[me], *at);
	while (atomic_load(&arrived[!me]) < *at)
		sched_yield();
}

/* place_double_cmp() - For qsort(). */
static inline int place_double_cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * place_probe() - Both processes call it at about the same time; @me 0 begins. @cnt: exchanges so far, the same at
 * both; @ping, @pong: cache lines of their own, written by 0 and by 1.
 */
static inline enum place place_probe(_Atomic uint64_t *ping, _Atomic uint64_t *pong, int me, uint64_t *cnt)
{
	_Atomic uint64_t *mine = me ? pong : ping, *other = me ? ping : pong;
	double best = 1e18, ns;

	for (int block = 0; block < 4; block++) {
		uint64_t t = place_now_ns();

		for (int i = 0; i < PLACE_PROBES / 4; i++) {
			++*cnt;
			if (!me)
				atomic_store_explicit(mine, *cnt, memory_order_release);
			while (atomic_load_explicit(other, memory_order_acquire) != *cnt)
				;
			if (me)
				atomic_store_explicit(mine, *cnt, memory_order_release);
		}
		ns = (double)(place_now_ns() - t) / (PLACE_PROBES / 4) / 2;
		best = ns < best ? ns : best;
	}
	return best < 38 ? PLACE_SMT : best < 110 ? PLACE_NEAR : best < 400 ? PLACE_FAR : PLACE_BAD;
}

#endif
