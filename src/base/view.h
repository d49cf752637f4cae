// SPDX-License-Identifier: BSD-2-Clause
// A borrowed view of received bytes, in up to eight pieces, valid only while the call that shows it runs.
#ifndef SF_BASE_VIEW_H
#define SF_BASE_VIEW_H

#include "base/base.h"
#include "base/copy.h"

#define VIEW_SEG_MAX 8

struct view_seg {
	const uint8_t *p;
	uint32_t len;
};

struct view {
	uint32_t len; /* sum over the segments, bytes */
	uint32_t seg_cnt;
	struct view_seg seg[VIEW_SEG_MAX];
};

/** view_set() - @v shows @len bytes at @p; its other pieces, which nobody looks at, are not worth the zeroing. */
static inline void view_set(struct view *v, const void *p, uint32_t len)
{
	v->len = len;
	v->seg_cnt = 1;
	v->seg[0].p = p;
	v->seg[0].len = len;
}

static inline struct view view_of(const void *p, uint32_t len)
{
	return (struct view){.len = len, .seg_cnt = 1, .seg = {{p, len}}};
}

/**
 * view_copy() - Copy up to @len bytes, starting @off bytes into the view, to @dst.
 * Return: bytes copied; less than @len where the view ends.
 */
static inline size_t view_copy(const struct view *v, size_t off, void *dst, size_t len)
{
	size_t done = 0;

	for (uint32_t i = 0; i < v->seg_cnt && done < len; i++) {
		size_t n = v->seg[i].len;

		if (off >= n) {
			off -= n;
			continue;
		}
		n = MIN(n - off, len - done);
		copy_bytes((char *)dst + done, v->seg[i].p + off, n);
		done += n;
		off = 0;
	}
	return done;
}

/** view_skip() - Drop the first @n bytes; @n must be <= v->len. */
static inline void view_skip(struct view *v, size_t n)
{
	uint32_t i = 0;

	v->len -= (uint32_t)n;
	while (i < v->seg_cnt && n >= v->seg[i].len)
		n -= v->seg[i++].len;
	for (uint32_t k = i; k < v->seg_cnt; k++)
		v->seg[k - i] = v->seg[k];
	v->seg_cnt -= i;
	if (n && v->seg_cnt) {
		v->seg[0].p += n;
		v->seg[0].len -= (uint32_t)n;
	}
}

#endif
