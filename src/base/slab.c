// SPDX-License-Identifier: BSD-2-Clause
// How a pool grows, and how handles from outside are resolved.
#include "base/slab.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define CHUNK_CAP_MIN 8 /* chunk pointers allocated at first */

int slab_init(struct slab *s, size_t obj_size, size_t obj_align, uint32_t chunk_cnt,
	      uint32_t max_cnt)
{
	size_t align = MAX(obj_align, _Alignof(struct slab_hdr)), obj_off, stride, chunk_len;

	if (!obj_size || !IS_POW2(obj_align) || obj_align > SLAB_ALIGN_MAX || !chunk_cnt ||
	    chunk_cnt > SLAB_MAX_CNT || max_cnt > SLAB_MAX_CNT)
		return -EINVAL;
	obj_off = ALIGN_UP(sizeof(struct slab_hdr), align);
	if (__builtin_add_overflow(obj_off + align, obj_size, &stride))
		return -EINVAL;
	stride = ALIGN_DOWN(stride - 1, align);
	if (__builtin_mul_overflow(stride, roundup_pow2(chunk_cnt), &chunk_len))
		return -EINVAL;
	*s = (struct slab){
		.stride = stride,
		.obj_off = obj_off,
		.align = align,
		.chunk_shift = (uint32_t)__builtin_ctzll(roundup_pow2(chunk_cnt)),
		.max = max_cnt ? max_cnt : SLAB_MAX_CNT,
	};
	return 0;
}

static uint32_t chunk_cnt(const struct slab *s)
{
	return DIV_ROUND_UP(s->cap, 1u << s->chunk_shift);
}

void slab_fini(struct slab *s)
{
	for (uint32_t i = 0; i < chunk_cnt(s); i++)
		mem_free(s->chunk[i]);
	mem_free(s->chunk);
	*s = (struct slab){0};
}

/* @idx < s->cap */
static struct slab_hdr *slot_hdr(const struct slab *s, uint32_t idx)
{
	uint32_t in_chunk = idx & ((1u << s->chunk_shift) - 1);

	return slab_hdr(s->chunk[idx >> s->chunk_shift] + in_chunk * s->stride + s->obj_off);
}

static int grow_chunk_array(struct slab *s)
{
	uint32_t cap = MAX(s->chunk_cap * 2, (uint32_t)CHUNK_CAP_MIN);
	uint8_t **chunk = mem_alloc(cap * sizeof(*chunk));

	if (!chunk)
		return -ENOMEM;
	if (s->chunk)
		memcpy(chunk, s->chunk, s->chunk_cap * sizeof(*chunk));
	mem_free(s->chunk);
	s->chunk = chunk;
	s->chunk_cap = cap;
	return 0;
}

static int grow(struct slab *s)
{
	uint32_t first = s->cap, cnt = MIN(1u << s->chunk_shift, s->max - s->cap);
	uint32_t chunk_idx = chunk_cnt(s);

	if (!cnt)
		return -ENOMEM;
	if (chunk_idx == s->chunk_cap && grow_chunk_array(s))
		return -ENOMEM;
	s->chunk[chunk_idx] = mem_alloc_aligned(s->align, cnt * s->stride);
	if (!s->chunk[chunk_idx])
		return -ENOMEM;
	s->cap += cnt;
	for (uint32_t i = cnt; i--;) { /* backwards: the lowest index is handed out first */
		struct slab_hdr *h = slot_hdr(s, first + i);

		h->id = first + i;
		h->next = s->free;
		s->free = h;
	}
	return 0;
}

int slab_reserve(struct slab *s, uint32_t n)
{
	if (n > s->max)
		return -ENOMEM;
	while (s->cap < n) {
		if (grow(s))
			return -ENOMEM;
	}
	return 0;
}

void *slab_find(struct slab *s, uint32_t id)
{
	uint32_t idx = (uint32_t)FIELD_GET(SLAB_ID_IDX, id);
	struct slab_hdr *h;

	if (idx >= s->cap)
		return NULL;
	h = slot_hdr(s, idx);
	return h->is_live && h->id == id ? h + 1 : NULL;
}

void slab_foreach(struct slab *s, void (*fn)(void *obj, void *arg), void *arg)
{
	for (uint32_t i = 0; i < s->cap; i++) {
		struct slab_hdr *h = slot_hdr(s, i);

		if (h->is_live)
			fn(h + 1, arg);
	}
}
