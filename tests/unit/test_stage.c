// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/stage.[ch]: a model that knows every granule, and a receiver in another thread.
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/base.h"
#include "base/lane.h"
#include "base/mem.h"
#include "base/stage.h"

struct arena {
	void *mem;
	struct stage s;
	struct stage_rx rx;
};

static void arena_open(struct arena *a, uint32_t gran_cnt)
{
	a->mem = aligned_alloc(STAGE_ALIGN, ALIGN_UP(stage_shm_size(gran_cnt), STAGE_ALIGN));
	assert_non_null(a->mem);
	assert_int_equal(stage_init(&a->s, a->mem, gran_cnt), 0);
	stage_rx_init(&a->rx, a->mem, gran_cnt);
}

static void arena_close(struct arena *a)
{
	stage_fini(&a->s);
	free(a->mem);
}

static void stage_init__no_memory(void **state)
{
	struct stage s;
	void *mem = aligned_alloc(STAGE_ALIGN, 64 * 1024);

	assert_int_equal(stage_shm_size(4), 4 * 1024);
	mem_fail_nth(1);
	assert_int_equal(stage_init(&s, mem, 16), -ENOMEM);
	free(mem);
}

static void stage_alloc__walks_through_the_whole_arena(void **state)
{
	struct arena a;
	uint32_t gran;

	arena_open(&a, 64);
	for (uint32_t i = 0; i < 100; i++) {
		uint8_t *p = stage_alloc(&a.s, 2048, &gran);

		assert_non_null(p);
		assert_int_equal(gran, i * 2 % 64);
		assert_int_equal((uintptr_t)p % 64, 0);
		assert_ptr_equal(stage_rx_ptr(&a.rx, gran, 2048), p);
		stage_free(&a.s, gran);
	}
	arena_close(&a);
}

/* To and fro one at a time: the same lines again. With something in use it goes on. */
static void stage_alloc__begins_again_when_nothing_is_in_use(void **state)
{
	uint32_t gran, held = 0;
	struct arena a;

	arena_open(&a, 4 * 256);
	a.s.walk.goal = UINT64_MAX; /* it stays with the first reach */
	assert_int_equal(a.s.walk.reach_now, 256);
	for (uint32_t i = 0; i < 6 * 256; i++) {
		if (i == 3 * 256)
			assert_non_null(stage_alloc(&a.s, 1024, &held));
		assert_non_null(stage_alloc(&a.s, 1024, &gran));
		assert_int_equal(gran, i < 3 * 256 ? i % 256 : i - 3 * 256 + 1);
		stage_free(&a.s, gran);
	}
	stage_free(&a.s, held);
	assert_int_equal(a.s.used, 0);
	arena_close(&a);
}

static void stage_alloc__limits(void **state)
{
	struct arena a;
	uint32_t gran = 99;

	arena_open(&a, 8);
	assert_null(stage_alloc(&a.s, 8 * 1024 + 1, &gran));
	assert_null(stage_alloc(&a.s, STAGE_LEN_MAX + 1, &gran));
	assert_null(stage_alloc(&a.s, SIZE_MAX, &gran));
	assert_int_equal(gran, 99);
	assert_non_null(stage_alloc(&a.s, 8 * 1024, &gran));
	assert_int_equal(gran, 0);
	assert_null(stage_alloc(&a.s, 1, &gran));
	stage_free(&a.s, 0);
	assert_non_null(stage_alloc(&a.s, 1, &gran));
	assert_int_equal(gran, 0);
	assert_non_null(stage_alloc(&a.s, 7 * 1024, &gran));
	assert_int_equal(gran, 1);
	arena_close(&a);
}

static void stage_alloc__jumps_over_what_is_held(void **state)
{
	struct arena a;
	uint32_t gran;

	arena_open(&a, 16);
	for (uint32_t i = 0; i < 8; i++) {
		assert_non_null(stage_alloc(&a.s, 2048, &gran));
		if (i != 1)
			stage_free(&a.s, gran);
	}
	assert_non_null(stage_alloc(&a.s, 3 * 1024, &gran)); /* 0..1 too small, 2..3 held */
	assert_int_equal(gran, 4);
	assert_non_null(stage_alloc(&a.s, 9 * 1024, &gran));
	assert_int_equal(gran, 7);
	assert_null(stage_alloc(&a.s, 3 * 1024, &gran));
	assert_non_null(stage_alloc(&a.s, 2 * 1024, &gran));
	assert_int_equal(gran, 0);
	arena_close(&a);
}

/* The only room begins before the cursor and ends behind it. */
static void stage_alloc__finds_room_around_the_cursor(void **state)
{
	struct arena a;
	uint32_t gran[8], at;

	arena_open(&a, 8);
	for (int i = 0; i < 8; i++)
		assert_non_null(stage_alloc(&a.s, 1024, &gran[i]));
	for (uint32_t i = 0; i < 4; i++)
		stage_free(&a.s, gran[i]);
	assert_non_null(stage_alloc(&a.s, 1024, &at));
	assert_non_null(stage_alloc(&a.s, 1024, &at));
	assert_int_equal(at, 1);
	stage_free(&a.s, 0);
	stage_free(&a.s, 1);
	assert_non_null(stage_alloc(&a.s, 4 * 1024, &at));
	assert_int_equal(at, 0);
	arena_close(&a);
}

static void stage_cancel__takes_the_latest_again(void **state)
{
	struct arena a;
	uint32_t first, second, gran;

	arena_open(&a, 8);
	assert_non_null(stage_alloc(&a.s, 5 * 1024, &first));
	assert_non_null(stage_alloc(&a.s, 3 * 1024, &second));
	stage_cancel(&a.s, second); /* the cursor had wrapped */
	assert_non_null(stage_alloc(&a.s, 1024, &gran));
	assert_int_equal(gran, second);
	stage_cancel(&a.s, first); /* not the latest: found when the cursor comes by */
	assert_non_null(stage_alloc(&a.s, 2048, &gran));
	assert_int_equal(gran, 6);
	assert_non_null(stage_alloc(&a.s, 5 * 1024, &gran));
	assert_int_equal(gran, 0);
	arena_close(&a);
}

static void stage_rx_ptr__checks_what_the_peer_says(void **state)
{
	struct arena a;
	uint32_t gran;

	arena_open(&a, 16);
	assert_non_null(stage_rx_ptr(&a.rx, 0, 16 * 1024));
	assert_non_null(stage_rx_ptr(&a.rx, 15, 1024));
	assert_non_null(stage_rx_ptr(&a.rx, 15, 0));
	assert_null(stage_rx_ptr(&a.rx, 15, 1025));
	assert_null(stage_rx_ptr(&a.rx, 16, 0));
	assert_null(stage_rx_ptr(&a.rx, UINT32_MAX, 1));
	assert_null(stage_rx_ptr(&a.rx, 0, SIZE_MAX));
	assert_non_null(stage_alloc(&a.s, 16 * 1024, &gran));
	arena_close(&a);
}

#define MODEL_CNT 97

/* Which run each granule belongs to, and where the walk stands. */
struct model {
	uint32_t owner[MODEL_CNT]; /* 1 + first granule; 0 = free */
	uint32_t cursor;
};

/* First fit by trying every place in order. Return: first granule, MODEL_CNT if there is none. */
static uint32_t model_find(const struct model *m, uint32_t need)
{
	for (uint32_t off = 0; off < MODEL_CNT; off++) {
		uint32_t start = (m->cursor + off) % MODEL_CNT, i = 0;

		while (i < need && start + i < MODEL_CNT && !m->owner[start + i])
			i++;
		if (i == need)
			return start;
	}
	return MODEL_CNT;
}

static void model_free(struct model *m, uint32_t gran)
{
	for (uint32_t i = 0; i < MODEL_CNT; i++) {
		if (m->owner[i] == gran + 1)
			m->owner[i] = 0;
	}
}

static void model_cancel(struct model *m, uint32_t gran)
{
	uint32_t end = gran;

	while (end < MODEL_CNT && m->owner[end] == gran + 1)
		end++;
	if (m->cursor == end % MODEL_CNT)
		m->cursor = gran;
	model_free(m, gran);
}

static void stage_alloc__random_against_model(void **state)
{
	struct rng r = unit_rng();
	struct model m = {0};
	struct arena a;
	uint32_t fails = 0;

	arena_open(&a, MODEL_CNT);
	for (int op = 0; op < 400000; op++) {
		uint32_t gran = (uint32_t)rng_below(&r, MODEL_CNT);
		size_t len = 1 + rng_below(&r, 1024 << rng_below(&r, 6));
		uint32_t need = (uint32_t)DIV_ROUND_UP(len, 1024), want;
		uint64_t dice = rng_below(&r, 8);

		if (dice < 5 && m.owner[gran] == gran + 1) {
			stage_free(&a.s, gran);
			model_free(&m, gran);
		} else if (dice == 5 && m.owner[gran] == gran + 1) {
			stage_cancel(&a.s, gran);
			model_cancel(&m, gran);
		} else if (dice > 5) {
			void *p = stage_alloc(&a.s, len, &gran);

			want = model_find(&m, need);
			assert_int_equal(!p, want == MODEL_CNT);
			fails += !p;
			if (!p)
				continue;
			assert_int_equal(gran, want);
			assert_ptr_equal(p, stage_rx_ptr(&a.rx, gran, len));
			for (uint32_t i = 0; i < need; i++)
				m.owner[gran + i] = gran + 1;
			m.cursor = (gran + need) % MODEL_CNT;
		}
	}
	assert_true(fails > 1000);
	arena_close(&a);
}

#define STRESS_GRANS 128
#define STRESS_MSGS  60000
#define STRESS_HELD  12

/* What travels in the lane. */
struct desc {
	uint32_t gran, len;
	uint64_t seq;
};

struct stress {
	void *lane, *arena;
	_Atomic bool is_read[STRESS_GRANS]; /* the run that begins there */
	struct rng rng;
	uint64_t errors;
};

/* Holds up to STRESS_HELD runs and gives them back in any order, checked once more. */
static void *stress_receive(void *arg)
{
	struct stress *s = arg;
	struct desc held[STRESS_HELD];
	uint32_t held_cnt = 0, cap;
	struct lane_rx lane;
	struct stage_rx rx;
	uint64_t user, seq = 0;

	lane_rx_init(&lane, s->lane, 64, 0);
	stage_rx_init(&rx, s->arena, STRESS_GRANS);
	while (seq < STRESS_MSGS || held_cnt) {
		void *msg = held_cnt < STRESS_HELD ? lane_peek(&lane, &cap, &user) : NULL;

		if (msg) {
			memcpy(&held[held_cnt], msg, sizeof(held[0]));
			s->errors += held[held_cnt++].seq != seq++;
			lane_next(&lane);
			lane_publish(&lane);
		}
		if (held_cnt && (!msg || held_cnt == STRESS_HELD || !rng_below(&s->rng, 4))) {
			uint32_t i = (uint32_t)rng_below(&s->rng, held_cnt);
			const uint8_t *p = stage_rx_ptr(&rx, held[i].gran, held[i].len);

			for (uint32_t k = 0; k < held[i].len; k++)
				s->errors += p[k] != (uint8_t)held[i].seq;
			/* release: our reads before the run's reuse; pairs with stress_free() */
			atomic_store_explicit(&s->is_read[held[i].gran], true, memory_order_release);
			held[i] = held[--held_cnt];
		} else if (!msg) {
			sched_yield();
		}
	}
	return NULL;
}

/* What has been read is free. */
static void stress_free(struct stress *s, struct stage *stage)
{
	for (uint32_t i = 0; i < STRESS_GRANS; i++) {
		if (!atomic_load_explicit(&s->is_read[i], memory_order_acquire))
			continue;
		atomic_store_explicit(&s->is_read[i], false, memory_order_relaxed);
		stage_free(stage, i);
	}
}

static void stage__receiver_in_another_thread(void **state)
{
	struct rng r = unit_rng();
	struct stress s;
	struct lane_tx lane;
	struct arena a;
	pthread_t receiver;

	arena_open(&a, STRESS_GRANS);
	s = (struct stress){.arena = a.mem, .lane = aligned_alloc(64, lane_shm_size(64))};
	rng_seed(&s.rng, rng_u64(&r));
	lane_shm_init(s.lane, 64);
	lane_tx_init(&lane, s.lane, 64);
	assert_int_equal(pthread_create(&receiver, NULL, stress_receive, &s), 0);
	for (uint64_t seq = 0; seq < STRESS_MSGS; seq++) {
		struct desc d = {.seq = seq, .len = 1 + (uint32_t)rng_below(&r, 6000)}, *to;
		void *p;

		while (!(p = stage_alloc(&a.s, d.len, &d.gran))) {
			sched_yield();
			stress_free(&s, &a.s);
		}
		memset(p, (int)(seq & 0xff), d.len);
		while (!(to = lane_reserve(&lane, sizeof(d))))
			sched_yield();
		*to = d;
		lane_commit(&lane, 0);
	}
	pthread_join(receiver, NULL);
	assert_int_equal(s.errors, 0);
	free(s.lane);
	arena_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stage_init__no_memory),
		cmocka_unit_test(stage_alloc__walks_through_the_whole_arena),
		cmocka_unit_test(stage_alloc__begins_again_when_nothing_is_in_use),
		cmocka_unit_test(stage_alloc__limits),
		cmocka_unit_test(stage_alloc__jumps_over_what_is_held),
		cmocka_unit_test(stage_alloc__finds_room_around_the_cursor),
		cmocka_unit_test(stage_alloc__random_against_model),
		cmocka_unit_test(stage_cancel__takes_the_latest_again),
		cmocka_unit_test(stage_rx_ptr__checks_what_the_peer_says),
		cmocka_unit_test(stage__receiver_in_another_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
