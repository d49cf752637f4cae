// SPDX-License-Identifier: BSD-2-Clause
// A sorted array with binary search: sets are short (one range per hole), so nothing smarter pays.
#include "base/ranges.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

void ranges_init(struct ranges *r)
{
	*r = (struct ranges){.cap = RANGES_INLINE};
}

void ranges_fini(struct ranges *r)
{
	mem_free(r->heap);
	ranges_init(r);
}

static struct range *items(struct ranges *r)
{
	return r->heap ? r->heap : r->in;
}

static const struct range *const_items(const struct ranges *r)
{
	return r->heap ? r->heap : r->in;
}

/* Index of the first range that ends at or after @x; r->cnt if none does. */
static uint32_t find_end(const struct ranges *r, uint64_t x)
{
	const struct range *v = const_items(r);
	uint32_t lo = 0, hi = r->cnt;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (v[mid].end < x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int insert(struct ranges *r, uint32_t at, struct range new)
{
	struct range *v = items(r);

	if (r->cnt == r->cap) {
		v = mem_alloc(2 * (size_t)r->cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		memcpy(v, items(r), r->cnt * sizeof(*v));
		mem_free(r->heap);
		r->heap = v;
		r->cap *= 2;
	}
	memmove(v + at + 1, v + at, (r->cnt - at) * sizeof(*v));
	v[at] = new;
	r->cnt++;
	r->total += new.end - new.start;
	return 0;
}

int ranges_add(struct ranges *r, uint64_t start, uint64_t end)
{
	struct range *v = items(r), new = {start, end};
	uint32_t i, last;

	if (start >= end)
		return start == end ? 0 : -EINVAL;
	i = find_end(r, start);
	if (i == r->cnt || v[i].start > end)
		return insert(r, i, new);

	/* @new overlaps or touches v[i], perhaps more: make v[i] their union and close the hole */
	for (last = i; last < r->cnt && v[last].start <= end; last++) {
		new.start = MIN(new.start, v[last].start);
		new.end = MAX(new.end, v[last].end);
		r->total -= v[last].end - v[last].start;
	}
	v[i] = new;
	r->total += new.end - new.start;
	memmove(v + i + 1, v + last, (r->cnt - last) * sizeof(*v));
	r->cnt -= last - i - 1;
	return 0;
}

bool ranges_has(const struct ranges *r, uint64_t start, uint64_t end)
{
	uint32_t i = find_end(r, end);

	return start >= end || (i < r->cnt && const_items(r)[i].start <= start);
}

uint64_t ranges_first_gap(const struct ranges *r, uint64_t from)
{
	const struct range *v = const_items(r);
	uint32_t i = find_end(r, from);

	/* a range that ends at @from does not hold it, and its successor begins later still */
	return i < r->cnt && v[i].start <= from ? v[i].end : from;
}
