// SPDX-License-Identifier: BSD-2-Clause
// A cursor over the fuzzer's bytes, and how a target says that something is wrong.
#ifndef SF_TESTS_FUZZ_H
#define SF_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz {
	const uint8_t *p;
	size_t left;
};

/* Zeroes once the input has ended. */
static inline void fuzz_get(struct fuzz *f, void *out, size_t len)
{
	size_t n = len < f->left ? len : f->left;

	memset(out, 0, len);
	if (n)
		memcpy(out, f->p, n);
	f->p += n;
	f->left -= n;
}

static inline uint8_t fuzz_u8(struct fuzz *f)
{
	uint8_t v;

	fuzz_get(f, &v, sizeof(v));
	return v;
}

static inline uint16_t fuzz_u16(struct fuzz *f)
{
	uint16_t v;

	fuzz_get(f, &v, sizeof(v));
	return v;
}

static inline uint64_t fuzz_u64(struct fuzz *f)
{
	uint64_t v;

	fuzz_get(f, &v, sizeof(v));
	return v;
}

/* A text of its own on the heap, so that a sanitizer sees its end. */
static inline char *fuzz_text(struct fuzz *f, size_t max)
{
	size_t len = fuzz_u8(f) % (max + 1);
	char *s = calloc(1, len + 1);

	if (s)
		fuzz_get(f, s, len);
	return s;
}

#define FUZZ_CHECK(cond_)                                                                          \
	do {                                                                                       \
		if (!(cond_)) {                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond_);                \
			__builtin_trap();                                                          \
		}                                                                                  \
	} while (0)

#endif
