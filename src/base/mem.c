// SPDX-License-Identifier: BSD-2-Clause
// The heap with a counter and a countdown: tests show by them that nothing leaks, that a path does not allocate, and
// that every failed allocation is survived.
#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "base/reserve.h"

/* All relaxed: these are statistics, no other memory is published through them. */
static _Atomic uint64_t g_fail_in; /* allocations until one fails; 0 = never */
static _Atomic uint64_t g_alloc_cnt;
static _Atomic int64_t g_live_cnt;

static bool take_failure(void)
{
	uint64_t left = atomic_load_explicit(&g_fail_in, memory_order_relaxed);

	while (left) { /* CAS, not a subtraction: two threads at 1 must not run below 0 */
		if (atomic_compare_exchange_weak_explicit(&g_fail_in, &left, left - 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return left == 1;
	}
	return false;
}

static void *counted(void *p)
{
	if (p) {
		atomic_fetch_add_explicit(&g_alloc_cnt, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&g_live_cnt, 1, memory_order_relaxed);
	}
	return p;
}

void *mem_alloc(size_t size)
{
	void *p;

	if (unlikely(take_failure()))
		return NULL;
	if (!size)
		size = 1;
	p = calloc(1, size);
	if (unlikely(!p) && reserve_give_heap(size))
		p = calloc(1, size);
	return counted(p);
}

void *mem_alloc_aligned(size_t align, size_t size)
{
	void *p;

	assert(IS_POW2(align));
	if (unlikely(take_failure()))
		return NULL;
	if (!size)
		size = 1;
	align = MAX(align, sizeof(void *));
	if (posix_memalign(&p, align, size) && (!reserve_give_heap(size) || posix_memalign(&p, align, size)))
		return NULL;
	return counted(memset(p, 0, size));
}

void mem_free(void *p)
{
	if (!p)
		return;
	atomic_fetch_sub_explicit(&g_live_cnt, 1, memory_order_relaxed);
	free(p);
}

void *mem_disown(void *p)
{
	if (p)
		atomic_fetch_sub_explicit(&g_live_cnt, 1, memory_order_relaxed);
	return p;
}

void mem_fail_nth(uint64_t n)
{
	atomic_store_explicit(&g_fail_in, n, memory_order_relaxed);
}

uint64_t mem_alloc_count(void)
{
	return atomic_load_explicit(&g_alloc_cnt, memory_order_relaxed);
}

int64_t mem_live_count(void)
{
	return atomic_load_explicit(&g_live_cnt, memory_order_relaxed);
}
