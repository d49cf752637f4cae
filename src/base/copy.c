// SPDX-License-Identifier: BSD-2-Clause
// The copy loops, one per vector width, over whole destination lines; the ends are handled once.
#include "base/copy.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LINE 64

/* Copy @cnt lines to a line-aligned @dst. */
typedef void (*lines_fn)(uint8_t *dst, const uint8_t *src, size_t cnt);

/* Any vector machine, e.g. NEON; and SSE2, the least that x86-64 has. */
static void lines_v16(uint8_t *dst, const uint8_t *src, size_t cnt)
{
	for (; cnt; cnt--, dst += LINE, src += LINE) {
		copy_line(__builtin_assume_aligned(dst, LINE), src);
		/* Keeps the compiler from recognising memcpy(), i.e. the thing to avoid. */
		__asm__ volatile("" : : : "memory");
	}
}

#if defined(__x86_64__)
/*
 * Measured (GB/s, Sapphire Rapids, 16 KiB in L1 / 64 KiB / 1 MiB): SSE2 126/53/31, AVX2 216/55/32,
 * AVX-512 241/53/35. Going backwards where (dst - src) mod 4096 is small, against store-to-load
 * aliasing, gains 20 % for AVX-512 in L1, nothing beyond, and loses with AVX2: not done.
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

/* Four 16-byte stores fill a write-combining buffer; wider ones measured the same (22 GB/s). */
static void lines_nt(uint8_t *dst, const uint8_t *src, size_t cnt)
{
	for (; cnt; cnt--, dst += LINE, src += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)src);
		__m128i b = _mm_loadu_si128((const __m128i *)(src + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(src + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(src + 48));

		_mm_stream_si128((__m128i *)dst, a);
		_mm_stream_si128((__m128i *)(dst + 16), b);
		_mm_stream_si128((__m128i *)(dst + 32), c);
		_mm_stream_si128((__m128i *)(dst + 48), d);
	}
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

static void lines_first(uint8_t *dst, const uint8_t *src, size_t cnt);

/* All accesses relaxed: every value is a right function at any time. */
static _Atomic(lines_fn) g_lines = lines_first;

void copy_init(void)
{
	atomic_store_explicit(&g_lines, best_lines(), memory_order_relaxed);
}

static void lines_first(uint8_t *dst, const uint8_t *src, size_t cnt)
{
	lines_fn lines = best_lines();

	atomic_store_explicit(&g_lines, lines, memory_order_relaxed);
	lines(dst, src, cnt);
}

void copy_cached(void *dst_, const void *src_, size_t len)
{
	uint8_t *dst = dst_;
	const uint8_t *src = src_;
	size_t skew = -(uintptr_t)dst & (LINE - 1); /* bytes up to the first whole line */

	if (len <= COPY_SMALL_MAX) {
		copy_small(dst, src, len);
		return;
	}
	/* The ends overlap the first and the last whole line, which costs less than branches. */
	copy_line(dst, src);
	copy_line(dst + len - LINE, src + len - LINE);
	atomic_load_explicit(&g_lines, memory_order_relaxed)(dst + skew, src + skew,
							     (len - skew) / LINE);
}

#if defined(__x86_64__)
void copy_nt(void *dst_, const void *src_, size_t len)
{
	uint8_t *dst = dst_;
	const uint8_t *src = src_;
	size_t skew = -(uintptr_t)dst & (LINE - 1), body;

	/* Here the ends are exact: a line written both ways would be fetched and evicted again. */
	if (skew > len)
		skew = len;
	body = ALIGN_DOWN(len - skew, LINE);
	copy_small(dst, src, skew);
	lines_nt(dst + skew, src + skew, body / LINE);
	copy_small(dst + skew + body, src + skew + body, len - skew - body);
	/* Streaming stores are not ordered by a release store on x86. */
	_mm_sfence();
}
#else
void copy_nt(void *dst, const void *src, size_t len)
{
	copy_cached(dst, src, len);
}
#endif
