// SPDX-License-Identifier: BSD-2-Clause
// The sender's walk through its staging arena.
#include "base/stage.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

static size_t flags_size(uint32_t gran_cnt)
{
	return ALIGN_UP((size_t)gran_cnt, STAGE_ALIGN);
}

size_t stage_shm_size(uint32_t gran_cnt)
{
	return flags_size(gran_cnt) + (size_t)gran_cnt * STAGE_GRAN;
}

int stage_init(struct stage *s, void *mem, uint32_t gran_cnt)
{
	assert(gran_cnt > 0);
	assert(((uintptr_t)mem & (STAGE_ALIGN - 1)) == 0);
	*s = (struct stage){
		.data = (uint8_t *)mem + flags_size(gran_cnt),
		.busy = mem,
		.run = mem_alloc(gran_cnt * sizeof(*s->run)),
		.gran_cnt = gran_cnt,
	};
	if (!s->run)
		return -ENOMEM;
	memset(mem, 0, flags_size(gran_cnt));
	return 0;
}

void stage_fini(struct stage *s)
{
	mem_free(s->run);
	s->run = NULL;
}

/*
 * How many granules from @gran on, a place that is not inside a run, are one step of the walk:
 * a free granule, or a whole run. @is_free says whether they can be had.
 */
static uint32_t step(struct stage *s, uint32_t gran, bool *is_free)
{
	uint32_t len = s->run[gran];

	if (!len) {
		*is_free = true;
		return 1;
	}
	/* acquire: the receiver's reads before our writes; pairs with stage_rx_release() */
	*is_free = !atomic_load_explicit(&s->busy[gran], memory_order_acquire);
	if (*is_free)
		s->run[gran] = 0;
	return len;
}

void *stage_alloc(struct stage *s, size_t len, uint32_t *gran)
{
	uint32_t need = (uint32_t)DIV_ROUND_UP(len, STAGE_GRAN);
	uint32_t start = s->cursor, at = start;
	/* A place that begins before the cursor may reach beyond it: look that much farther. */
	uint64_t left = (uint64_t)s->gran_cnt + need;

	assert(len > 0);
	if (len > STAGE_LEN_MAX || need > s->gran_cnt)
		return NULL;
	while (at - start < need) {
		bool is_free;
		uint32_t n = step(s, at, &is_free);

		if (n > left)
			return NULL;
		left -= n;
		at += n;
		if (!is_free)
			start = at;
		if (at == s->gran_cnt && at - start < need)
			start = at = 0;
	}
	s->run[start] = (uint16_t)need;
	/* relaxed: the receiver learns of the run through a lane's release and acquire */
	atomic_store_explicit(&s->busy[start], 1, memory_order_relaxed);
	s->cursor = start + need == s->gran_cnt ? 0 : start + need;
	*gran = start;
	return s->data + (size_t)start * STAGE_GRAN;
}

void stage_cancel(struct stage *s, uint32_t gran)
{
	uint32_t end;

	assert(gran < s->gran_cnt);
	assert(s->run[gran]);
	end = gran + s->run[gran];
	s->run[gran] = 0;
	/* Nobody has read the latest run: its lines are still in our cache, use them next. */
	if (s->cursor == (end == s->gran_cnt ? 0 : end))
		s->cursor = gran;
}

void stage_rx_init(struct stage_rx *rx, void *mem, uint32_t gran_cnt)
{
	*rx = (struct stage_rx){
		.data = (uint8_t *)mem + flags_size(gran_cnt),
		.busy = mem,
		.gran_cnt = gran_cnt,
	};
}
