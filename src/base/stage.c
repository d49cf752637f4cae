// SPDX-License-Identifier: BSD-2-Clause
// The sender's walk through its staging arena.
#include "base/stage.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define IN_USE 0x8000u /* in stage.run */
static_assert(STAGE_RUN_MAX < IN_USE, "a length leaves the mark alone");

size_t stage_shm_size(uint32_t gran_cnt)
{
	return (size_t)gran_cnt * STAGE_GRAN;
}

int stage_init(struct stage *s, void *mem, uint32_t gran_cnt)
{
	assert(gran_cnt > 0);
	assert(((uintptr_t)mem & (STAGE_ALIGN - 1)) == 0);
	*s = (struct stage){
		.data = mem,
		.run = mem_alloc(gran_cnt * sizeof(*s->run)),
		.gran_cnt = gran_cnt,
	};
	walk_init(&s->walk, gran_cnt, NULL);
	return s->run ? 0 : -ENOMEM;
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
	uint32_t run = s->run[gran];

	*is_free = !(run & IN_USE);
	if (*is_free)
		s->run[gran] = 0;
	return run ? run & ~IN_USE : 1;
}

void *stage_alloc(struct stage *s, size_t len, uint32_t *gran)
{
	uint32_t need = (uint32_t)DIV_ROUND_UP(len, STAGE_GRAN);
	bool is_idle = !s->used;
	uint32_t start = s->cursor, at;
	/* A place that begins before the cursor may reach beyond it: look that much farther. */
	uint64_t left = (uint64_t)s->gran_cnt + need;

	assert(len > 0);
	if (len > STAGE_LEN_MAX || need > s->gran_cnt)
		return NULL;
	if (is_idle && s->cursor >= walk_reach(&s->walk))
		start = 0;
	at = start;
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
	walk_count(&s->walk, need, is_idle);
	s->run[start] = (uint16_t)(need | IN_USE);
	s->used += need;
	s->cursor = start + need == s->gran_cnt ? 0 : start + need;
	*gran = start;
	return s->data + (size_t)start * STAGE_GRAN;
}

void stage_free(struct stage *s, uint32_t gran)
{
	assert(gran < s->gran_cnt);
	assert(s->run[gran] & IN_USE);
	s->run[gran] &= (uint16_t)~IN_USE;
	s->used -= s->run[gran];
}

void stage_cancel(struct stage *s, uint32_t gran)
{
	uint32_t end;

	stage_free(s, gran);
	/* Nobody has read it: if it is the latest, its lines are still in our cache, use them next. */
	end = gran + s->run[gran];
	if (s->cursor == (end == s->gran_cnt ? 0 : end))
		s->cursor = gran;
}

void stage_rx_init(struct stage_rx *rx, void *mem, uint32_t gran_cnt)
{
	*rx = (struct stage_rx){.data = mem, .gran_cnt = gran_cnt};
}
