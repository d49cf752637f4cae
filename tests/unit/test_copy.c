// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/copy.[ch]: every kernel, small length and offset, guarded; and a table of speeds.
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"

#include "../../src/base/copy.c" /* its loops, one by one */

typedef void (*copy_fn)(void *dst, const void *src, size_t len);

static void inline_small(void *dst, const void *src, size_t len)
{
	copy_small(dst, src, len);
}

static void inline_bytes(void *dst, const void *src, size_t len)
{
	copy_bytes(dst, src, len);
}

static void inline_private(void *dst, const void *src, size_t len)
{
	copy_private(dst, src, len);
}

/* As on a CPU that has it, from the first whole line on. */
static void any_string(void *dst, const void *src, size_t len)
{
	size_t was = copy_string_min();

	atomic_store(&g_string_min, LINE);
	copy_string(dst, src, len);
	atomic_store(&g_string_min, was);
}

static const struct {
	const char *name;
	copy_fn fn;
	lines_fn lines; /* to choose before; NULL: any */
	const char *cpu;
} g_kernel[] = {
	{"copy_small", inline_small, NULL, NULL},
	{"copy_bytes", inline_bytes, NULL, NULL},
	{"copy_private", inline_private, NULL, NULL},
	{"string", any_string, NULL, NULL},
	{"cached, not initialised", copy_cached, lines_first, NULL},
	{"cached v16", copy_cached, lines_v16, NULL},
#if defined(__x86_64__)
	{"cached avx2", copy_cached, lines_avx2, "avx2"},
	{"cached avx512", copy_cached, lines_avx512, "avx512f"},
#endif
};

static bool cpu_can(const char *what)
{
#if defined(__x86_64__)
	if (what && !strcmp(what, "avx2"))
		return __builtin_cpu_supports("avx2");
	if (what && !strcmp(what, "avx512f"))
		return __builtin_cpu_supports("avx512f");
#endif
	return true;
}

/* Run @check with each kernel that this CPU has. */
static void for_each_kernel(void (*check)(copy_fn fn))
{
	for (size_t i = 0; i < ARRAY_SIZE(g_kernel); i++) {
		if (!cpu_can(g_kernel[i].cpu)) {
			print_message("skipped: no %s here\n", g_kernel[i].cpu);
			continue;
		}
		atomic_store(&g_lines, g_kernel[i].lines ? g_kernel[i].lines : lines_first);
		check(g_kernel[i].fn);
	}
	copy_init();
}

#define GUARD	  64
#define EXACT_MAX 400

static uint8_t g_src[65536 + 256], g_dst[65536 + 256];

/* Copy between two offsets and look at every byte around the target. */
static void check_one(copy_fn fn, size_t dst_off, size_t src_off, size_t len)
{
	uint8_t *dst = g_dst + GUARD + dst_off;

	memset(g_dst, 0xcc, dst_off + len + 2 * GUARD);
	fn(dst, g_src + src_off, len);
	assert_memory_equal(dst, g_src + src_off, len);
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(dst[-1 - (ptrdiff_t)i], 0xcc);
		assert_int_equal(dst[len + i], 0xcc);
	}
}

static void check_small_lengths(copy_fn fn)
{
	for (size_t len = 0; len <= EXACT_MAX; len++) {
		for (size_t dst_off = 0; dst_off < 16; dst_off++) {
			for (size_t src_off = 0; src_off < 16; src_off++)
				check_one(fn, dst_off, src_off, len);
		}
	}
}

static void fill_src(struct rng *r)
{
	for (size_t i = 0; i < sizeof(g_src); i++)
		g_src[i] = (uint8_t)rng_u64(r);
}

static void copy__small_lengths_times_offsets(void **state)
{
	struct rng r = unit_rng();

	fill_src(&r);
	for_each_kernel(check_small_lengths);
}

static struct rng g_len_rng;

static void check_random_lengths(copy_fn fn)
{
	struct rng r = g_len_rng;

	for (int i = 0; i < 3000; i++)
		check_one(fn, rng_below(&r, 64), rng_below(&r, 64),
			  rng_below(&r, 256u << rng_below(&r, 9)));
}

static void copy__random_lengths_times_offsets(void **state)
{
	g_len_rng = unit_rng();
	fill_src(&g_len_rng);
	for_each_kernel(check_random_lengths);
}

/* Three pages, the outer ones without access. Return: the middle one. */
static uint8_t *fenced_page(size_t page)
{
	uint8_t *p = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + page, page, PROT_READ | PROT_WRITE), 0);
	return p + page;
}

/* A read or write beyond either end is a fault. */
static void check_fences(copy_fn fn)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *src = fenced_page(page), *dst = fenced_page(page);

	memset(src, 0x77, page);
	for (size_t len = 0; len <= MIN(page, 1200u); len++) {
		fn(dst + page - len, src + page - len, len);
		fn(dst, src, len);
		fn(dst, src + page - len, len);
		fn(dst + page - len, src, len);
	}
	munmap(src - page, 3 * page);
	munmap(dst - page, 3 * page);
}

static void copy__touches_nothing_outside(void **state)
{
	for_each_kernel(check_fences);
}

/* --- a target that somebody watches ---------------------------------------------------------- */

#define WATCH_MAX  1024
#define WATCH_CNT  400000
#define WATCH_NS   (2 * NS_PER_SEC) /* with fewer processors than threads each round takes a slice */

static struct {
	uint8_t at[WATCH_MAX];
	_Atomic uint64_t word; /* the last of what is copied to at[] */
	_Atomic uint64_t seen;
} g_watched __attribute__((aligned(64)));

/* Waits for the word to become 1, 2, 3..., each time puts it back to 0, and says so. */
static void *watcher(void *arg)
{
	(void)arg;
	for (uint64_t i = 1; atomic_load(&g_watched.seen) != UINT64_MAX; i++) {
		uint64_t seen;

		while (!atomic_load_explicit(&g_watched.word, memory_order_relaxed))
			if (atomic_load_explicit(&g_watched.seen, memory_order_relaxed) == UINT64_MAX)
				return NULL;
		atomic_store_explicit(&g_watched.word, 0, memory_order_relaxed);
		seen = i - 1;
		atomic_compare_exchange_strong(&g_watched.seen, &seen, i);
	}
	return NULL;
}

/* The word stays 0 once it has been put back: it was stored once. */
static void copy__stores_each_byte_once(void **state)
{
	static const size_t len[] = {8, 8, 8, 9, 12, 16, 20, 24, 31, 40, 64, 72, 100, 256, 300, 1000};
	uint64_t end = clk_now_ns(NULL) + WATCH_NS, src[WATCH_MAX / 8 + 1];
	bool is_once = true;
	pthread_t t;

#ifdef __SANITIZE_THREAD__
	skip(); /* a watcher races with what it watches */
#endif
	assert_int_equal(pthread_create(&t, NULL, watcher, NULL), 0);
	for (uint64_t i = 1; i <= WATCH_CNT && is_once && clk_now_ns(NULL) < end; i++) {
		size_t n = len[i % ARRAY_SIZE(len)];

		memset(src, 0xee, sizeof(src));
		memcpy((uint8_t *)src + n - 8, &i, 8);
		copy_bytes((uint8_t *)&g_watched + WATCH_MAX + 8 - n, src, n);
		while (atomic_load_explicit(&g_watched.seen, memory_order_relaxed) < i)
			sched_yield();
		is_once = !atomic_load(&g_watched.word) && atomic_load(&g_watched.seen) == i;
	}
	atomic_store(&g_watched.seen, UINT64_MAX);
	pthread_join(t, NULL);
	assert_true(is_once);
	(void)state;
}

static void libc_copy(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
	__asm__ volatile("" : : : "memory");
}

/* GB/s, best of five short runs. */
static double speed(copy_fn fn, uint8_t *dst, const uint8_t *src, size_t len)
{
	uint64_t cnt = 400000 / len + 2;
	double best = 0;

	for (int run = 0; run < 5; run++) {
		uint64_t begin = clk_now_ns(NULL);

		for (uint64_t i = 0; i < cnt; i++)
			fn(dst, src, len);
		best = MAX(best, (double)(len * cnt) / (double)(clk_now_ns(NULL) - begin + 1));
	}
	return best;
}

static void copy__print_speeds(void **state)
{
	static const size_t len[] = {16, 64, 256, 1024, 2048, 4096, 16384, 65536, 1 << 20};
	static const size_t off[] = {0, 1, 8, 15, 64};
	size_t room = (1 << 20) + 8192;
	uint8_t *a = aligned_alloc(4096, room), *b = aligned_alloc(4096, room);

	memset(a, 1, room);
	memset(b, 2, room);
	copy_init();
	print_message(
		"GB/s: memcpy / copy_bytes / copy_private, by length and (dst - src) mod 4096\n%8s", "");
	for (size_t o = 0; o < ARRAY_SIZE(off); o++)
		print_message(" %12s+%-5zu", "", off[o]);
	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		print_message("\n%8zu", len[i]);
		for (size_t o = 0; o < ARRAY_SIZE(off); o++)
			print_message(" %6.1f%6.1f%6.1f", speed(libc_copy, b + off[o], a, len[i]),
				      speed(inline_bytes, b + off[o], a, len[i]),
				      speed(inline_private, b + off[o], a, len[i]));
	}
	print_message("\n");
	free(a);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy__small_lengths_times_offsets),
		cmocka_unit_test(copy__random_lengths_times_offsets),
		cmocka_unit_test(copy__touches_nothing_outside),
		cmocka_unit_test(copy__stores_each_byte_once),
		cmocka_unit_test(copy__print_speeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
