// SPDX-License-Identifier: BSD-2-Clause
// Bounds-checked cursors over received and outgoing bytes.
#ifndef SF_BASE_WIRE_H
#define SF_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A reader never moves past @end; a failed get leaves it unchanged. */
struct wire_rd {
	const uint8_t *p, *end;
};

static inline struct wire_rd wire_rd(const void *buf, size_t len)
{
	return (struct wire_rd){buf, (const uint8_t *)buf + len};
}

static inline size_t wire_left(const struct wire_rd *r)
{
	return (size_t)(r->end - r->p);
}

/** wire_get() - Copy the next @len bytes to @out and advance. Return: false, nothing moved, if fewer are left. */
static inline bool wire_get(struct wire_rd *r, void *out, size_t len)
{
	if (wire_left(r) < len)
		return false;
	memcpy(out, r->p, len);
	r->p += len;
	return true;
}

static inline bool wire_skip(struct wire_rd *r, size_t len)
{
	if (wire_left(r) < len)
		return false;
	r->p += len;
	return true;
}

#define WIRE_GET(r_, hdr_) wire_get(r_, hdr_, sizeof(*(hdr_)))

/*
 * A writer into a buffer of known capacity; overflow is the caller's bug, so @ok latches instead of failing each call.
 */
struct wire_wr {
	uint8_t *p, *end;
	bool ok;
};

static inline struct wire_wr wire_wr(void *buf, size_t cap)
{
	return (struct wire_wr){buf, (uint8_t *)buf + cap, true};
}

static inline void wire_put(struct wire_wr *w, const void *in, size_t len)
{
	if ((size_t)(w->end - w->p) < len) {
		w->ok = false;
		return;
	}
	memcpy(w->p, in, len);
	w->p += len;
}

#define WIRE_PUT(w_, hdr_) wire_put(w_, hdr_, sizeof(*(hdr_)))

#endif
