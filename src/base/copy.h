// SPDX-License-Identifier: BSD-2-Clause
// Copy kernels for payload: vector loops, and `rep movsb` only where it was measured to be the better one.
//
// Why not memcpy(), which is rep movsb from about 2 KiB on: where (dst - src) mod 4096 is 1..15, that runs at 3 GB/s in
// place of 50 on Zen 3 and 4, and the offsets of user buffers are not ours to choose (doc/facts/machine.md#rep-movsb;
// glibc bug 30994). Vector loops are immune. On Zen 5 it has no such offsets, and writes lines that another core has
// without fetching them first, which halves the time of a message of 8 KiB. No function here accepts overlapping
// ranges.
//
// Nor may payload be stored as memcpy() stores it, the ends twice: whoever waits for a remote write by
// looking at its memory sees the value, answers, overwrites it, and the second store puts it back.
#ifndef SF_BASE_COPY_H
#define SF_BASE_COPY_H

#include <stdatomic.h>

#include "base/base.h"

#define COPY_SMALL_MAX 256 /* bytes */

/** copy_init() - Choose the kernels by what the CPU can do; else the first copy does it. */
void copy_init(void);

/** copy_string_min() - From how many bytes on copy_private() takes rep movsb; SIZE_MAX: never, on this CPU. */
size_t copy_string_min(void);

/** copy_string() - As copy_private(), out of line. */
void copy_string(void *dst, const void *src, size_t len);

/** copy_cached() - As copy_bytes(), out of line. */
void copy_cached(void *dst, const void *src, size_t len);

/*
 * copy_2(dst, src), copy_4(), copy_8() and copy_16() are one load and one store each, at any alignment. They are not
 * __builtin_memcpy(): where AddressSanitizer watches, that is a call of libc's memcpy(), which stores 16 bytes twice.
 */
#define COPY_MOVE_(len_) \
	typedef uint8_t copy_word##len_ __attribute__((vector_size(len_), aligned(1), may_alias)); \
	static inline void copy_##len_(uint8_t *dst, const uint8_t *src) \
	{ \
		*(copy_word##len_ *)dst = *(const copy_word##len_ *)src; \
	}
COPY_MOVE_(2)
COPY_MOVE_(4)
COPY_MOVE_(8)
COPY_MOVE_(16)
#undef COPY_MOVE_

static inline void copy_1(uint8_t *dst, const uint8_t *src)
{
	*dst = *src;
}

/* 64 bytes, all loads before all stores: the lines may be on their way from another core. */
static inline void copy_line(uint8_t *dst, const uint8_t *src)
{
	copy_word16 v0 = *(const copy_word16 *)src;
	copy_word16 v1 = *(const copy_word16 *)(src + 16);
	copy_word16 v2 = *(const copy_word16 *)(src + 32);
	copy_word16 v3 = *(const copy_word16 *)(src + 48);

	*(copy_word16 *)dst = v0;
	*(copy_word16 *)(dst + 16) = v1;
	*(copy_word16 *)(dst + 32) = v2;
	*(copy_word16 *)(dst + 48) = v3;
}

/* As copy_line(), 32 bytes. */
static inline void copy_32(uint8_t *dst, const uint8_t *src)
{
	copy_word16 v0 = *(const copy_word16 *)src;
	copy_word16 v1 = *(const copy_word16 *)(src + 16);

	*(copy_word16 *)dst = v0;
	*(copy_word16 *)(dst + 16) = v1;
}

/* 0..16 bytes: the first and the last 8, 4 or 2, which overlap in the middle. 8 are what most of the smallest have. */
static inline __attribute__((always_inline)) void copy_tiny(uint8_t *dst, const uint8_t *src, size_t len)
{
	if (likely(len == 8)) {
		copy_8(dst, src);
	} else if (len > 8) {
		copy_8(dst + len - 8, src + len - 8);
		copy_8(dst, src);
	} else if (len >= 4) {
		copy_4(dst + len - 4, src + len - 4);
		copy_4(dst, src);
	} else if (len >= 2) {
		copy_2(dst + len - 2, src + len - 2);
		copy_2(dst, src);
	} else if (len) {
		*dst = *src;
	}
}

/* copy_small() and copy_private(): few bytes are the first question, so that the second one costs them nothing. */
static inline void copy_twice(void *dst_, const void *src_, size_t len, bool is_small)
{
	uint8_t *dst = dst_;
	const uint8_t *src = src_;

	if (len < 16) {
		copy_tiny(dst, src, len);
	} else if (len <= 32) {
		copy_16(dst + len - 16, src + len - 16);
		copy_16(dst, src);
	} else if (len <= 64) {
		copy_32(dst + len - 32, src + len - 32);
		copy_32(dst, src);
	} else if (!is_small && unlikely(len > COPY_SMALL_MAX)) {
		copy_string(dst, src, len);
	} else {
		copy_line(dst + len - 64, src + len - 64);
		for (size_t i = 0; i < len - 64; i += 64)
			copy_line(dst + i, src + i);
	}
}

/**
 * copy_small() - Copy @len bytes without a call; meant for up to COPY_SMALL_MAX, right for any.
 * Touches no byte outside the two ranges. For memory at which nobody looks meanwhile: stores bytes twice.
 */
static inline void copy_small(void *dst, const void *src, size_t len)
{
	copy_twice(dst, src, len, true);
}

/**
 * copy_private() - Copy @len bytes to memory at which nobody looks meanwhile, e.g. a slot that is not published yet.
 */
static inline void copy_private(void *dst, const void *src, size_t len)
{
	copy_twice(dst, src, len, false);
}

/* One store of @n_ bytes, not moved past others. */
#define COPY_STEP_(when_, n_) \
	if (when_) { \
		copy_##n_(dst, src); \
		atomic_signal_fence(memory_order_seq_cst); \
		dst += (n_); \
		src += (n_); \
		len -= (n_); \
	}

/* copy_bytes() for few. */
static inline void copy_once(uint8_t *dst, const uint8_t *src, size_t len)
{
	atomic_thread_fence(memory_order_release);
	if ((uintptr_t)dst & 7) {
		COPY_STEP_((uintptr_t)dst & 1 && len, 1)
		COPY_STEP_((uintptr_t)dst & 2 && len >= 2, 2)
		COPY_STEP_((uintptr_t)dst & 4 && len >= 4, 4)
	}
	if (len >= 64) {
		for (; len >= 64; dst += 64, src += 64, len -= 64)
			copy_line(dst, src);
		atomic_thread_fence(memory_order_release);
	}
	COPY_STEP_(len & 32, 32)
	COPY_STEP_(len & 16, 16)
	COPY_STEP_(len & 8, 8)
	if (!(len & 7))
		return;
	COPY_STEP_(len & 4, 4)
	COPY_STEP_(len & 2, 2)
	COPY_STEP_(len & 1, 1)
}

/* copy_once() of less than 16 bytes to where a word begins, in line: that is what most of the smallest messages are. */
static inline void copy_word(uint8_t *dst, const uint8_t *src, size_t len)
{
	atomic_thread_fence(memory_order_release);
	if (len & 8)
		copy_8(dst, src);
	if (likely(!(len & 7)))
		return;
	atomic_signal_fence(memory_order_seq_cst);
	dst += len & 8;
	src += len & 8;
	COPY_STEP_(len & 4, 4)
	COPY_STEP_(len & 2, 2)
	COPY_STEP_(len & 1, 1)
}

/**
 * copy_bytes() - Copy @len bytes, any length, in line if few. Its target may be watched, as that of a remote write is:
 * each byte is stored once, aligned words of 2, 4 and 8 bytes are stored whole, the last bytes are seen last, and after
 * what was stored before.
 */
static inline void copy_bytes(void *dst, const void *src, size_t len)
{
	if (likely(len == 8) && !((uintptr_t)dst & 7)) /* what most of the smallest have */
		copy_word(dst, src, 8);
	else if (len < 16 && !((uintptr_t)dst & 7))
		copy_word(dst, src, len);
	else if (len <= COPY_SMALL_MAX)
		copy_once(dst, src, len);
	else
		copy_cached(dst, src, len);
}

#endif
