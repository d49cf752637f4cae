// SPDX-License-Identifier: BSD-2-Clause
// Copy kernels for payload: never rep movsb, which libc uses from about 2 KiB on.
//
// Why not memcpy(): where (dst - src) mod 4096 is 1..15, rep movsb runs at 3 GB/s in place of 50 on
// Zen 3 and 4, and the offsets of user buffers are not ours to choose (doc/facts/machine.md#rep-movsb; glibc
// bug 30994). Vector loops are immune. No function here accepts overlapping ranges.
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

/** copy_cached() - As copy_bytes(), out of line. */
void copy_cached(void *dst, const void *src, size_t len);

/* Of constant size: single instructions, any alignment and type. */
#define COPY_MOVE_(dst_, src_, len_) __builtin_memcpy(dst_, src_, len_)

/* 64 bytes, all loads before all stores: the lines may be on their way from another core. */
static inline void copy_line(uint8_t *dst, const uint8_t *src)
{
	struct {
		uint8_t b[16];
	} v[4];

	COPY_MOVE_(&v[0], src, 16);
	COPY_MOVE_(&v[1], src + 16, 16);
	COPY_MOVE_(&v[2], src + 32, 16);
	COPY_MOVE_(&v[3], src + 48, 16);
	COPY_MOVE_(dst, &v[0], 16);
	COPY_MOVE_(dst + 16, &v[1], 16);
	COPY_MOVE_(dst + 32, &v[2], 16);
	COPY_MOVE_(dst + 48, &v[3], 16);
}

/* 0..16 bytes: the first and the last 8, 4 or 2, which overlap in the middle. */
static inline void copy_tiny(uint8_t *dst, const uint8_t *src, size_t len)
{
	if (len >= 8) {
		COPY_MOVE_(dst + len - 8, src + len - 8, 8);
		COPY_MOVE_(dst, src, 8);
	} else if (len >= 4) {
		COPY_MOVE_(dst + len - 4, src + len - 4, 4);
		COPY_MOVE_(dst, src, 4);
	} else if (len >= 2) {
		COPY_MOVE_(dst + len - 2, src + len - 2, 2);
		COPY_MOVE_(dst, src, 2);
	} else if (len) {
		*dst = *src;
	}
}

/**
 * copy_small() - Copy @len bytes without a call; meant for up to COPY_SMALL_MAX, right for any.
 * Touches no byte outside the two ranges. For memory at which nobody looks meanwhile: stores bytes twice.
 */
static inline void copy_small(void *dst_, const void *src_, size_t len)
{
	uint8_t *dst = dst_;
	const uint8_t *src = src_;

	if (len < 16) {
		copy_tiny(dst, src, len);
	} else if (len <= 32) {
		COPY_MOVE_(dst + len - 16, src + len - 16, 16);
		COPY_MOVE_(dst, src, 16);
	} else if (len <= 64) {
		COPY_MOVE_(dst + len - 32, src + len - 32, 32);
		COPY_MOVE_(dst, src, 32);
	} else {
		copy_line(dst + len - 64, src + len - 64);
		for (size_t i = 0; i < len - 64; i += 64)
			copy_line(dst + i, src + i);
	}
}

/* One store of @n_ bytes, not moved past others. */
#define COPY_STEP_(when_, n_) \
	if (when_) { \
		COPY_MOVE_(dst, src, n_); \
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

/**
 * copy_private() - Copy @len bytes to memory at which nobody looks meanwhile, e.g. a slot that is not published yet.
 */
static inline void copy_private(void *dst, const void *src, size_t len)
{
	if (len <= COPY_SMALL_MAX)
		copy_small(dst, src, len);
	else
		copy_cached(dst, src, len);
}

/**
 * copy_bytes() - Copy @len bytes, any length, in line if few. Its target may be watched, as that of a remote write is:
 * each byte is stored once, aligned words of 2, 4 and 8 bytes are stored whole, the last bytes are seen last, and after
 * what was stored before.
 */
static inline void copy_bytes(void *dst, const void *src, size_t len)
{
	if (len <= COPY_SMALL_MAX)
		copy_once(dst, src, len);
	else
		copy_cached(dst, src, len);
}

#endif
