// SPDX-License-Identifier: BSD-2-Clause
// LD_PRELOAD: counts allocations and says how many at exit(). What ends a program costs the same in every run.
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

/* The project hides symbols by default. */
#pragma GCC visibility push(default)

static atomic_ulong g_cnt;

void *malloc(size_t len);
void *calloc(size_t cnt, size_t len);
void *realloc(void *p, size_t len);
void *__libc_malloc(size_t len);
void *__libc_calloc(size_t cnt, size_t len);
void *__libc_realloc(void *p, size_t len);
void *__libc_memalign(size_t align, size_t len);
void *memalign(size_t align, size_t len);
void *aligned_alloc(size_t align, size_t len);
int posix_memalign(void **out, size_t align, size_t len);

void *malloc(size_t len)
{
	atomic_fetch_add_explicit(&g_cnt, 1, memory_order_relaxed);
	return __libc_malloc(len);
}

void *calloc(size_t cnt, size_t len)
{
	atomic_fetch_add_explicit(&g_cnt, 1, memory_order_relaxed);
	return __libc_calloc(cnt, len);
}

void *realloc(void *p, size_t len)
{
	atomic_fetch_add_explicit(&g_cnt, 1, memory_order_relaxed);
	return __libc_realloc(p, len);
}

void *memalign(size_t align, size_t len)
{
	atomic_fetch_add_explicit(&g_cnt, 1, memory_order_relaxed);
	return __libc_memalign(align, len);
}

void *aligned_alloc(size_t align, size_t len)
{
	return memalign(align, len);
}

int posix_memalign(void **out, size_t align, size_t len)
{
	*out = memalign(align, len);
	return *out ? 0 : 12; /* ENOMEM */
}

static __attribute__((destructor)) void say(void)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "allocations: %lu\n", atomic_load(&g_cnt));

	if (write(2, line, (size_t)n) < 0)
		_exit(3);
}
