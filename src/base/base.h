// SPDX-License-Identifier: BSD-2-Clause
// The few macros that every layer uses.
#ifndef SF_BASE_BASE_H
#define SF_BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRAY_SIZE(a_) (sizeof(a_) / sizeof((a_)[0]))
#undef container_of /* <rdma/fabric.h> has one of the same meaning */
#define container_of(ptr_, type_, member_) ((type_ *)((char *)(ptr_)-offsetof(type_, member_)))
#define SF_PASTE2(a_, b_) a_##b_
#define SF_PASTE(a_, b_)  SF_PASTE2(a_, b_)
#ifdef __cppcheck__ /* it cannot parse statement expressions where they are initialisers */
#define SF_PICK(a_, op_, b_, n_) ((a_)op_(b_) ? (a_) : (b_))
#else
#define SF_PICK(a_, op_, b_, n_)                                                                   \
	({                                                                                         \
		typeof(a_) SF_PASTE(pick_a, n_) = (a_);                                            \
		typeof(b_) SF_PASTE(pick_b, n_) = (b_);                                            \
		SF_PASTE(pick_a, n_) op_ SF_PASTE(pick_b, n_) ? SF_PASTE(pick_a, n_)               \
							      : SF_PASTE(pick_b, n_);              \
	})
#endif
/* Each argument is evaluated once; a counter keeps nested uses from shadowing each other. */
#define MIN(a_, b_) SF_PICK(a_, <, b_, __COUNTER__)
#define MAX(a_, b_) SF_PICK(a_, >, b_, __COUNTER__)
#define ALIGN_UP(x_, a_)   (((x_) + (a_)-1) & ~((typeof(x_))(a_)-1)) /* a_: power of two */
#define ALIGN_DOWN(x_, a_) ((x_) & ~((typeof(x_))(a_)-1))
#define DIV_ROUND_UP(x_, y_) (((x_) + (y_)-1) / (y_))
#define IS_POW2(x_)        ((x_) && !((x_) & ((x_)-1)))
#define likely(x_)         __builtin_expect(!!(x_), 1)
#define unlikely(x_)       __builtin_expect(!!(x_), 0)
#define CACHE_LINE         64
#define __printf_like(fmt_, first_) __attribute__((format(printf, fmt_, first_)))

/* Have the line at @p_ brought here for writing; it need not be memory of ours. */
#if defined(__x86_64__) || defined(__i386__)
#define fetch_to_write(p_) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(p_)))
#else
#define fetch_to_write(p_) __builtin_prefetch(p_, 1)
#endif

/* A cheap invariant whose violation would corrupt user memory: kept in every build. Never for input. */
#define must(x_)                                                                                   \
	do {                                                                                       \
		if (unlikely(!(x_)))                                                               \
			must_fail(#x_, __FILE__, __LINE__);                                        \
	} while (0)

static inline __attribute__((noreturn, cold)) void must_fail(const char *what, const char *file,
							     int line)
{
	fprintf(stderr, "softfabric: internal invariant broken: %s (%s:%d)\n", what, file, line);
	__builtin_trap();
}

/** roundup_pow2() - Smallest power of two >= @x; 1 for 0. @x must be <= 2^63. */
static inline uint64_t roundup_pow2(uint64_t x)
{
	return x <= 1 ? 1 : 1ULL << (64 - __builtin_clzll(x - 1));
}

#endif
