// SPDX-License-Identifier: BSD-2-Clause
// The copy loops, one per vector width, over whole destination lines.
#include "base/copy.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define LINE 64

/* rep movsb is tried on AMD's families from here on: Zen 5. Zen 3 and 4 have offsets at which it is slow. */
#define STRING_FAMILY 0x1a
#define STRING_MIN    2560 /* bytes, from which on it is the quicker one there */
#define CPUID_FSRM    (1u << 4) /* leaf 7, edx: "fast short rep mov" */

/* Copy @cnt lines to a line-aligned @dst. */
typedef void (*lines_fn)(uint8_t *dst, const uint8_t *src, size_t cnt);

/* Any vector machine, e.g. NEON; and SSE2, the least that x86-64 has. */
static void lines_v16(uint8_t *dst, const uint8_t *src, size_t cnt)
{
	for (; cnt; cnt--, dst += LINE, src += LINE) {
		copy_line(__builtin_assume_aligned(dst, LINE), src);
		/* Keeps the compiler from recognising memcpy(), which is what is to be avoided. */
		__asm__ volatile("" : : : "memory");
	}
}

#if defined(__x86_64__)
/*
 * By what each of them does (doc/measurements.md#copies-by-vector-loops). Going backwards where (dst - src) mod 4096 is
 * small, against store-to-load aliasing, gains something for AVX-512 in L1 alone, and loses with AVX2: not done.
 */
__attribute__((target("avx2"))) static void lines_avx2(uint8_t *dst, const uint8_t *src, size_t cnt)
{
	for (; cnt >= 2; cnt -= 2, dst += 2 * LINE, src += 2 * LINE) {
		__m256i a = _mm256_loadu_si256((const __m256i *)src);
		__m256i b = _mm256_loadu_si256((const __m256i *)(src + 32));
		__m256i c = _mm256_loadu_si256((const __m256i *)(src + 64));
		__m256i d = _mm256_loadu_si256((const __m256i *)(src + 96));

		_mm256_store_si256((__m256i *)dst, a);
		_mm256_store_si256((__m256i *)(dst + 32), b);
		_mm256_store_si256((__m256i *)(dst + 64), c);
		_mm256_store_si256((__m256i *)(dst + 96), d);
	}
	if (cnt)
		copy_line(dst, src);
}

__attribute__((target("avx512f"))) static void lines_avx512(uint8_t *dst, const uint8_t *src,
							    size_t cnt)
{
	for (; cnt >= 4; cnt -= 4, dst += 4 * LINE, src += 4 * LINE) {
		__m512i a = _mm512_loadu_si512(src);
		__m512i b = _mm512_loadu_si512(src + LINE);
		__m512i c = _mm512_loadu_si512(src + 2 * LINE);
		__m512i d = _mm512_loadu_si512(src + 3 * LINE);

		_mm512_store_si512(dst, a);
		_mm512_store_si512(dst + LINE, b);
		_mm512_store_si512(dst + 2 * LINE, c);
		_mm512_store_si512(dst + 3 * LINE, d);
	}
	for (; cnt; cnt--, dst += LINE, src += LINE)
		_mm512_store_si512(dst, _mm512_loadu_si512(src));
}

/* VBMI2 came after the generations that lower the clock much for 512-bit registers. */
static lines_fn best_lines(void)
{
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vbmi2"))
		return lines_avx512;
	if (__builtin_cpu_supports("avx2"))
		return lines_avx2;
	return lines_v16;
}
#else
static lines_fn best_lines(void)
{
	return lines_v16;
}
#endif

/* A sanitizer does not see what an instruction stores. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t best_string_min(void)
{
	unsigned eax, ebx, ecx, edx, family;

	if (!__builtin_cpu_is("amd") || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(edx & CPUID_FSRM))
		return SIZE_MAX;
	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
		return SIZE_MAX;
	family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
	return family >= STRING_FAMILY ? STRING_MIN : SIZE_MAX;
}

/* Its stores are in no order among each other: only for memory that a later store publishes. */
static void lines_string(uint8_t *dst, const uint8_t *src, size_t cnt)
{
	size_t len = cnt * LINE;

	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
}
#else
static size_t best_string_min(void)
{
	return SIZE_MAX;
}

static const lines_fn lines_string = lines_v16; /* nobody gets here but a test */
#endif

static void lines_first(uint8_t *dst, const uint8_t *src, size_t cnt);

/* All accesses relaxed: every value is a right function at any time, and so is every bound. */
static _Atomic(lines_fn) g_lines = lines_first;
static _Atomic size_t g_string_min = SIZE_MAX;

void copy_init(void)
{
	atomic_store_explicit(&g_lines, best_lines(), memory_order_relaxed);
	atomic_store_explicit(&g_string_min, best_string_min(), memory_order_relaxed);
}

static void lines_first(uint8_t *dst, const uint8_t *src, size_t cnt)
{
	copy_init();
	atomic_load_explicit(&g_lines, memory_order_relaxed)(dst, src, cnt);
}

size_t copy_string_min(void)
{
	return atomic_load_explicit(&g_string_min, memory_order_relaxed);
}

/* The lines of the target by @lines, and what is in front of them and behind. */
static inline void copy_by(lines_fn lines, uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t skew = MIN(-(uintptr_t)dst & (LINE - 1), len); /* bytes up to the first whole line */
	size_t body = ALIGN_DOWN(len - skew, LINE);

	copy_once(dst, src, skew);
	lines(dst + skew, src + skew, body / LINE);
	copy_once(dst + skew + body, src + skew + body, len - skew - body);
}

void copy_cached(void *dst, const void *src, size_t len)
{
	copy_by(atomic_load_explicit(&g_lines, memory_order_relaxed), dst, src, len);
}

void copy_string(void *dst, const void *src, size_t len)
{
	if (len < copy_string_min())
		copy_cached(dst, src, len);
	else
		copy_by(lines_string, dst, src, len);
}
