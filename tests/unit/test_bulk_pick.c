// SPDX-License-Identifier: BSD-2-Clause
// The choice between methods, against a model of what they cost by an injected clock; help with many
// operations at once, and help that ends early.
#include "unit.h"

#include "fake_path.h"

#define LEN	 65536u
#define WINDOW	 8
#define MIB	 (1u << 20)
#define PASSES	 20000
#define PERIOD_MIB 16 /* of which a period is, at most */
#define MANY	 12
#define MANY_LEN MIB

/* What a method costs: ps per byte alone, and where operations overlap. */
struct model {
	uint64_t one[BULK_WAY_NUM], many[BULK_WAY_NUM];
	uint64_t cold_ns; /* more, for the first operation after another method */
	uint32_t outlier_every; /* one in so many takes fifty times as long; 0 = none */
};

static struct bulk_target g_target;
static struct bulk_op g_op[WINDOW];
static uint32_t g_used[BULK_WAY_NUM], g_cnt;
static enum bulk_way g_last;

static void model_open(void)
{
	static uint64_t tab;

	fp_open(LINK_ORDERED, true);
	g_target = (struct bulk_target){.tab = (struct bulk_tab *)(void *)&tab};
	g_cnt = 0;
	memset(g_used, 0, sizeof(g_used));
}

static void op_begin_at(struct bulk_op *op, size_t len)
{
	*op = (struct bulk_op){.op = LINK_GET,
			       .len = len,
			       .copy_end = len,
			       .target = &g_target,
			       .peer = &fp.peer[0][1]};
	op->way = bulk_pick(fp.port[0].bulk, op, fp.now_ns);
	bulk_busy_enter(op, fp.now_ns);
}

static void op_end_at(const struct model *m, struct bulk_op *op, bool is_many)
{
	uint64_t ns = (is_many ? m->many : m->one)[op->way] * op->len / 1000;

	if (op->way != g_last && !is_many)
		ns += m->cold_ns;
	if (m->outlier_every && ++g_cnt % m->outlier_every == 0)
		ns *= 50;
	g_last = op->way;
	g_used[op->way]++;
	fp.now_ns += ns;
	bulk_busy_leave(op, true, fp.now_ns);
}

/* @cnt operations, one at a time. Return: how many in 1000 were by @method. */
static uint32_t share_one(const struct model *m, enum bulk_way method, uint32_t cnt)
{
	memset(g_used, 0, sizeof(g_used));
	for (uint32_t i = 0; i < cnt; i++) {
		op_begin_at(&g_op[0], LEN);
		op_end_at(m, &g_op[0], false);
	}
	return g_used[method] * 1000 / cnt;
}

/* The same with WINDOW of them at any time, without a gap. */
static uint32_t share_many(const struct model *m, enum bulk_way method, uint32_t cnt)
{
	memset(g_used, 0, sizeof(g_used));
	for (uint32_t i = 0; i < WINDOW; i++)
		op_begin_at(&g_op[i], LEN);
	for (uint32_t i = 0; i < cnt; i++) {
		op_end_at(m, &g_op[i % WINDOW], true);
		if (i + WINDOW < cnt)
			op_begin_at(&g_op[i % WINDOW], LEN);
	}
	return g_used[method] * 1000 / cnt;
}

static void bulk_pick__finds_the_cheapest(void **state)
{
	for (int best = 0; best < BULK_WAY_NUM; best++) {
		struct model m = {{60, 60, 60}, {60, 60, 60}, .cold_ns = 5000};

		m.one[best] = m.many[best] = 45;
		model_open();
		share_one(&m, (enum bulk_way)best, 500);
		assert_true(share_one(&m, (enum bulk_way)best, 20000) >= 970);
		fp_close();
		/* a stream that never pauses is cut into periods; a look lasts one of them */
		model_open();
		share_many(&m, (enum bulk_way)best, 10000);
		assert_true(share_many(&m, (enum bulk_way)best, 100000) >= 900);
		fp_close();
	}
}

#define BIG (8 * MIB)

/* A window of BIG ones, of which by frames a part of each comes in turns, so that all end at the end. */
static enum bulk_way window_of_big(const struct model *m)
{
	enum bulk_way way;

	for (int i = 0; i < WINDOW; i++)
		op_begin_at(&g_op[i], BIG);
	way = g_op[0].way;
	for (uint64_t n = 0; n < WINDOW * BIG / MIB; n++) {
		struct bulk_op *op = &g_op[way == BULK_FRAMES ? n % WINDOW : n / (BIG / MIB)];

		fp.now_ns += m->many[way] * MIB / 1000 * (way == BULK_FRAMES && n < PERIOD_MIB ? 3 : 1);
		*(way == BULK_FRAMES ? &op->got : &op->pos) += MIB;
		bulk_busy_moved(op, fp.now_ns);
		if (op->pos + op->got == BIG)
			bulk_busy_leave(op, true, fp.now_ns);
	}
	assert_int_equal(g_target.period.op_cnt, 0);
	return way;
}

/* Not what has ended first, nor how the first of it came. */
static void bulk_pick__what_has_come_is_judged(void **state)
{
	static const struct model model[] = {{{0}, {45, 90, 65}}, {{0}, {100, 90, 65}}};

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(model); n++) {
		int cnt[BULK_WAY_NUM] = {0};

		model_open();
		for (int i = 0; i < 200; i++)
			cnt[window_of_big(&model[n])] += i >= 100;
		assert_true(cnt[n ? BULK_HELPED : BULK_FRAMES] >= 90);
		fp_close();
	}
}

/* A window is one choice, however long it is: a short run must not be looks at the losers for the most part. */
static void bulk_pick__few_windows_are_looks(void **state)
{
	static const struct model near = {{0}, {60, 130, 76}}, far = {{0}, {150, 110, 65}};
	int frames = 0, helped = 0;

	(void)state;
	model_open();
	for (int i = 0; i < 22; i++)
		frames += window_of_big(&near) == BULK_FRAMES;
	assert_true(frames >= 18);
	/* nor may it last long until it is noticed that the cores have moved */
	for (int i = 0; i < 22; i++)
		helped += window_of_big(&far) == BULK_HELPED;
	assert_true(helped >= 18);
	fp_close();
}

/* The first window after a change to it takes three times as long: what follows it counts as well. */
static void bulk_pick__a_stream_gets_warm(void **state)
{
	struct model m = {{0}, {45, 90, 60}}, cold = {{0}, {135, 90, 60}};
	enum bulk_way last = BULK_WAY_NUM;
	int frames = 0;

	(void)state;
	model_open();
	for (int i = 0; i < 4000; i++) {
		for (int k = 0; k < WINDOW; k++)
			op_begin_at(&g_op[k], MIB);
		for (int k = 0; k < WINDOW; k++)
			op_end_at(g_op[0].way == last ? &m : &cold, &g_op[k], true);
		last = g_op[0].way;
		frames += i >= 1000 && last == BULK_FRAMES;
		fp.now_ns += 1000;
	}
	assert_true(frames >= 2700);
	fp_close();
}

static void bulk_pick__alone_and_overlapping_are_judged_apart(void **state)
{
	struct model m = {{99, 40, 50}, {99, 45, 20}};

	model_open();
	for (int i = 0; i < 4; i++) {
		share_one(&m, BULK_CMA, 500);
		share_many(&m, BULK_HELPED, 10000);
	}
	assert_true(share_one(&m, BULK_CMA, 2000) >= 900);
	assert_true(share_many(&m, BULK_HELPED, 50000) >= 900);
	fp_close();
}

/* The first operation after a change of method costs three times as much; that is not its fault. */
static void bulk_pick__a_cold_start_does_not_count(void **state)
{
	struct model m = {{200, 60, 45}, {0}, .cold_ns = 120 * LEN / 1000};

	model_open();
	share_one(&m, BULK_HELPED, 500);
	assert_true(share_one(&m, BULK_HELPED, 5000) >= 970);
	fp_close();
}

static void bulk_pick__outliers_are_not_believed(void **state)
{
	struct model m = {{200, 60, 40}, {0}, .outlier_every = 37};

	model_open();
	share_one(&m, BULK_HELPED, 500);
	assert_true(share_one(&m, BULK_HELPED, 20000) >= 900);
	fp_close();
}

static void bulk_pick__notices_change(void **state)
{
	struct model near = {{30, 60, 45}, {0}}, far = {{150, 60, 75}, {0}};

	model_open();
	share_one(&near, BULK_FRAMES, 5000);
	assert_true(share_one(&near, BULK_FRAMES, 1000) >= 990);
	/* what was best has become slow: at once */
	share_one(&far, BULK_CMA, 100);
	assert_true(share_one(&far, BULK_CMA, 1000) >= 900);
	/* what was slow has become better than the best: when it is looked at, at the latest then */
	share_one(&near, BULK_FRAMES, 2 * 4096);
	assert_true(share_one(&near, BULK_FRAMES, 1000) >= 900);
	fp_close();
}

static void bulk_pick__who_did_not_help_is_left_alone(void **state)
{
	struct model m = {{200, 60, 40}, {0}};

	model_open();
	share_one(&m, BULK_HELPED, 500);
	op_begin_at(&g_op[0], LEN);
	bulk_learn_silence(&g_op[0], fp.now_ns);
	op_end_at(&m, &g_op[0], false);
	assert_int_equal(share_one(&m, BULK_CMA, 20), 1000);
	fp.now_ns += NS_PER_MS;
	assert_true(share_one(&m, BULK_HELPED, 1000) >= 900);
	fp.shm[0][1].is_polling = false;
	assert_int_equal(share_one(&m, BULK_CMA, 2000), 1000);
	fp_close();
}

/* --- help with many at once ------------------------------------------------------------------- */

static uint8_t g_local[MANY][MANY_LEN], g_mem[MANY][MANY_LEN];
static struct fp_done g_done[MANY];

/* Two ports whose owner polls, and of whose memory @key is a region of these rights. Return: the owner as a target. */
static struct bulk_target *both_open(unsigned rights, uint32_t *key)
{
	struct bulk_target *t;
	int a = 1, b = 0;

	if (bulk_cma_copy(getpid(), LINK_GET, NULL, &b, (uintptr_t)&a, sizeof(a)) != sizeof(a))
		skip();
	fp_open(LINK_ORDERED, true);
	fp.shm[0][1].is_polling = true;
	assert_int_equal(link_region_add(&fp.node[1], g_mem, sizeof(g_mem), rights, key), 0);
	t = bulk_target_get(fp.node[0].bulk, &fp.peer[0][1], fp.now_ns);
	assert_non_null(t);
	return t;
}

static void many_begin(uint32_t key)
{
	memset(g_local, 0, sizeof(g_local));
	memset(g_done, 0, sizeof(g_done));
	for (int i = 0; i < MANY; i++)
		assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_GET, g_local[i],
					   MANY_LEN, (uintptr_t)g_mem[i], key, &g_done[i]),
				 0);
}

static void many_check(void)
{
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(g_done[i].cnt, 1);
		assert_int_equal(g_done[i].status, 0);
	}
	assert_memory_equal(g_local, g_mem, sizeof(g_mem));
}

static void bulk_help__many(void **state)
{
	struct rng r = unit_rng();
	struct bulk_target *t;
	uint32_t key, asked = 0;
	uint64_t moved = 0, x;

	t = both_open(LINK_GET, &key);
	fp_force(BULK_HELPED);
	for (size_t i = 0; i < sizeof(g_mem); i += sizeof(x)) {
		x = rng_u64(&r);
		memcpy(&g_mem[i / MANY_LEN][i % MANY_LEN], &x, sizeof(x));
	}

	/* the owner helps: with a few at a time, and what came first ends first */
	many_begin(key);
	for (int i = 0; i < PASSES && bulk_outstanding(fp.port[0].bulk); i++) {
		asked = MAX(asked, t->asked_cnt);
		fp_pass();
		if (g_done[0].cnt && !moved)
			moved = fp.port[0].stats.bulk_cma_bytes;
	}
	assert_in_range(moved, 1, sizeof(g_mem) / 4);
	assert_in_range(asked, 2, 4);
	many_check();
	/* the owner is silent: the same, alone */
	many_begin(key);
	for (int i = 0; i < PASSES && bulk_outstanding(fp.port[0].bulk); i++)
		fp_pass_without(1);
	many_check();
	/* nothing is left of what was asked for */
	for (int i = 0; i < 100; i++)
		fp_pass();
	assert_int_equal(t->asked_cnt, 0);
	assert_int_equal(t->asked_bytes, 0);
	assert_int_equal(t->period.op_cnt, 0);
	/* the peer dies with all of it under way */
	many_begin(key);
	fp_pass();
	fp_peer_dead(0, 1, -ECONNREFUSED);
	for (int i = 0; i < PASSES && bulk_outstanding(fp.port[0].bulk); i++)
		fp_pass();
	assert_int_equal(t->asked_cnt, 0);
	assert_int_equal(t->asked_bytes, 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(g_done[i].cnt, 1);
	fp_close();
}

/*
 * A program that posts a row of sends does not poll meanwhile: in each burst some wait too long for it, and the kernel
 * does them. That is what these methods cost there; they must not stay unknown.
 */
static void bulk_pick__silence_is_part_of_the_cost(void **state)
{
	struct bulk_speed *s;
	struct bulk_target *t;
	uint32_t key;

	(void)state;
	t = both_open(LINK_GET, &key);
	s = &t->class[0][(16 - 7 + 1) / 2].speed[true]; /* of 64 KiB */
	for (int burst = 0; burst < 80; burst++) {
		memset(g_done, 0, sizeof(g_done));
		for (int i = 0; i < MANY; i++)
			assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_GET, g_local[i], LEN,
						   (uintptr_t)g_mem[i], key, &g_done[i]),
					 0);
		for (uint64_t ns = 0; ns < 2 * BULK_SWITCH_NS; ns += 1000)
			fp_pass_without(1);
		for (int i = 0; i < PASSES && bulk_outstanding(fp.port[0].bulk); i++)
			fp_pass();
		for (int i = 0; i < MANY; i++)
			assert_int_equal(g_done[i].cnt, 1);
		fp.now_ns += NS_PER_MS;
	}
	for (int m = 0; m < BULK_WAY_NUM; m++)
		assert_true(s->ps_per_byte[m]);
	assert_int_equal(t->period.op_cnt, 0);
	fp_close();
}

/*
 * A poll that takes in many frames is longer than a silent owner is waited for. What waits behind others has heard of
 * it all the same: from these frames, not only from the last poll.
 */
static void bulk_pick__a_long_poll_is_not_silence(void **state)
{
	uint32_t key;

	(void)state;
	both_open(LINK_GET, &key);
	memset(g_done, 0, sizeof(g_done));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_GET, g_local[i], LEN, (uintptr_t)g_mem[i],
					   key, &g_done[i]),
				 0);
		assert_true(fp_move_one());
	}
	bulk_poll(fp.port[0].bulk, fp.now_ns);
	bulk_poll(fp.port[1].bulk, fp.now_ns);
	fp.now_ns += 2 * BULK_SWITCH_NS;
	assert_true(fp_move_one()); /* of the first */
	bulk_poll(fp.port[0].bulk, fp.now_ns);
	for (int i = 0; i < 2; i++)
		assert_true(fp_run(&g_done[i], PASSES));
	assert_int_equal(fp.port[0].stats.bulk_cma_bytes, 0);
	assert_int_equal(fp.port[0].stats.bulk_ring_bytes, 2 * LEN);
	fp_close();
}

/* Who has asked and was busy itself has not looked yet: one look more, and only then the owner is silent. */
static void bulk_pick__own_absence_is_not_silence(void **state)
{
	uint32_t key;

	(void)state;
	both_open(LINK_GET, &key);
	for (int i = 0; i < 2; i++) {
		g_done[i] = (struct fp_done){0};
		assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_GET, g_local[i], LEN, (uintptr_t)g_mem[i],
					   key, &g_done[i]),
				 0);
		fp.now_ns += 2 * BULK_SWITCH_NS;
		bulk_poll(fp.port[0].bulk, fp.now_ns);
		assert_int_equal(fp.port[0].stats.bulk_cma_bytes, 0);
		if (!i) {
			fp_move_one();
			bulk_poll(fp.port[1].bulk, fp.now_ns);
			assert_true(fp_run(&g_done[i], PASSES));
			assert_int_equal(fp.port[0].stats.bulk_ring_bytes, LEN);
		}
	}
	for (int i = 0; i < 3; i++) {
		fp.now_ns += 2 * BULK_SWITCH_NS;
		bulk_poll(fp.port[0].bulk, fp.now_ns);
	}
	assert_int_equal(g_done[1].cnt, 1);
	assert_int_equal(g_done[1].status, 0);
	assert_int_equal(fp.port[0].stats.bulk_cma_bytes, LEN);
	fp_close();
}

/* Of many long reads the kernel takes one from a silent owner that comes back meanwhile, else all. */
static void bulk_pick__silence_costs_one_at_a_time(void **state)
{
	const struct link_stats *st = &fp.port[0].stats;
	uint32_t key;

	(void)state;
	for (int comes_back = 0; comes_back < 2; comes_back++) {
		both_open(LINK_GET, &key);
		many_begin(key);
		for (int i = 0; i < PASSES && !st->bulk_cma_bytes; i++)
			fp_pass_without(1);
		for (int i = 0; i < PASSES && bulk_outstanding(fp.port[0].bulk); i++)
			comes_back ? fp_pass() : fp_pass_without(1);
		many_check();
		assert_true(st->bulk_cma_bytes);
		assert_true(st->bulk_ring_bytes >= (comes_back ? (MANY - 1) * MANY_LEN : 0));
		assert_true(comes_back || st->bulk_cma_bytes == sizeof(g_mem));
		fp_close();
	}
}

/*
 * Writes fill the path to a silent owner: the kernel copies what is left of all of them, and of the reads that were
 * begun behind them, though the writes wait for the answers to what they have sent.
 */
static void bulk_pick__silence_of_who_is_written_to(void **state)
{
	const struct link_stats *st = &fp.port[0].stats;
	struct fp_done d[2] = {{0}};
	uint32_t key;

	(void)state;
	both_open(LINK_GET | LINK_PUT, &key);
	fp.q_cap = 16;
	memset(g_done, 0, sizeof(g_done));
	for (int i = 0; i < MANY - 2; i++)
		assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_PUT, g_local[i], MANY_LEN,
					   (uintptr_t)g_mem[i], key, &g_done[i]),
				 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_GET, g_local[MANY - 2 + i], MANY_LEN,
					   (uintptr_t)g_mem[MANY - 2 + i], key, &d[i]),
				 0);
	for (int i = 0; i < PASSES && !(d[0].cnt && d[1].cnt && st->bulk_cma_bytes >= MANY * MANY_LEN / 2); i++)
		fp_pass_without(1);
	assert_int_equal(d[0].cnt + d[1].cnt, 2);
	assert_true(st->bulk_cma_bytes >= MANY * MANY_LEN / 2);
	for (int i = 0; i < PASSES && bulk_outstanding(fp.port[0].bulk); i++)
		fp_pass();
	for (int i = 0; i < MANY - 2; i++)
		assert_int_equal(g_done[i].cnt, 1);
	fp_close();
}

/* A write of which some went by frames has ended when these are answered, not when the kernel had copied the rest. */
static void bulk_pick__a_late_answer_counts(void **state)
{
	struct fp_done d = {0};
	struct bulk_speed *s;
	struct bulk_target *t;
	uint32_t key;

	(void)state;
	t = both_open(LINK_PUT, &key);
	assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_PUT, g_local[0], MIB, (uintptr_t)g_mem[0], key,
				   &d),
			 0);
	for (uint64_t ns = 0; ns < 4 * BULK_SWITCH_NS; ns += 1000)
		fp_pass_without(1);
	assert_int_equal(d.cnt, 0);
	assert_true(fp.port[0].stats.bulk_cma_bytes);
	fp.now_ns += NS_PER_MS;
	assert_true(fp_run(&d, PASSES));
	assert_int_equal(d.status, 0);
	s = &t->class[0][(20 - 7 + 1) / 2].speed[false]; /* of 1 MiB */
	assert_true(s->ps_per_byte[BULK_FRAMES] >= NS_PER_MS * 1000 / MIB);
	fp_close();
}

/* --- help that the initiator gives up --------------------------------------------------------- */

/* The owner's frames stay where they are; the initiator runs until its operation ends. */
static void run_deaf(const struct fp_done *d)
{
	for (int i = 0; i < PASSES && !d->cnt; i++)
		fp_pass_without(1);
	assert_int_equal(d->cnt, 1);
	assert_int_equal(d->status, 0);
}

/* Return: the operation, which has asked for help with all from its copy_end on. */
static struct bulk_op *ask(uint32_t key, struct fp_done *d)
{
	memset(g_local[0], 0, MIB);
	*d = (struct fp_done){0};
	assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_GET, g_local[0], MIB, (uintptr_t)g_mem[0], key, d),
			 0);
	return TAILQ_FIRST(&fp.port[0].bulk->active);
}

/* All but byte @at, which somebody has set to @was, are there; what was held back finds nobody. */
static void check_but(uint64_t at, uint8_t was)
{
	assert_int_equal(g_local[0][at], was);
	g_local[0][at] = g_mem[0][at];
	assert_memory_equal(g_local[0], g_mem[0], MIB);
	for (int i = 0; i < 100; i++)
		fp_pass();
}

/* What the owner has copied by then is not copied again: whoever watches it may have changed it. */
static void bulk_help__is_not_repeated(void **state)
{
	uint8_t *local = g_local[0], *mem = g_mem[0];
	struct rng r = unit_rng();
	struct bulk_target *t;
	struct bulk_op *op;
	struct fp_done d;
	uint64_t at;
	uint32_t key, lent;
	int a = 1, b = 0;

	(void)state;
	if (bulk_cma_copy(getpid(), LINK_GET, NULL, &b, (uintptr_t)&a, sizeof(a)) != sizeof(a))
		skip();
	for (size_t i = 0; i < MIB; i++)
		mem[i] = (uint8_t)(1 + rng_below(&r, 255));
	fp_open(LINK_ORDERED, true);
	fp_force(BULK_HELPED);
	assert_int_equal(link_region_add(&fp.node[1], mem, MIB, LINK_GET, &key), 0);
	/* its first slice, or all of it, but the answer does not come in time */
	for (int polls = 1; polls <= 8; polls += 7) {
		op = ask(key, &d);
		at = polls == 1 ? op->copy_end : MIB - 1;
		fp_move_one();
		for (int i = 0; i < polls; i++)
			bulk_poll(fp.port[1].bulk, fp.now_ns);
		assert_int_equal(local[at], mem[at]);
		local[at] = 0;
		run_deaf(&d);
		check_but(at, 0);
	}
	/* it is at it when the initiator gives it up: it is waited for */
	op = ask(key, &d);
	t = bulk_target_get(fp.node[1].bulk, &fp.peer[1][0], fp.now_ns);
	at = op->copy_end;
	lent = op->help_key;
	assert_int_equal(bulk_lease_take(t->tab, t->slot, 0, lent, LINK_PUT, (uintptr_t)local + at, 1), 0);
	for (int i = 0; i < 1000; i++)
		fp_pass_without(1);
	assert_int_equal(d.cnt, 0);
	assert_int_equal(local[at], 0);
	bulk_lease_fill(t->tab, t->slot, lent, 1);
	assert_int_equal(bulk_lease_drop(t->tab, t->slot), 0);
	run_deaf(&d);
	check_but(at, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bulk_outstanding(fp.port[i].bulk), 0);
	fp_close();
}

/* To an owner who polls short operations go as frames, whatever has been measured; to another one nothing does. */
static void bulk_pick__short_ones_are_not_measured(void **state)
{
	static const struct model kernel_is_free = {.one = {1000, 1, 1000}};
	static const size_t len[] = {0, 1, 1024, 1025};

	model_open();
	share_one(&kernel_is_free, BULK_CMA, 1000);
	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		for (int n = 0; n < 200; n++) {
			op_begin_at(&g_op[0], len[i]);
			if (n >= 100 || len[i] <= 1024)
				assert_int_equal(g_op[0].way, len[i] <= 1024 ? BULK_FRAMES : BULK_CMA);
			op_end_at(&kernel_is_free, &g_op[0], false);
		}
	}
	fp.shm[0][1].is_polling = false;
	op_begin_at(&g_op[0], 8);
	assert_int_equal(g_op[0].way, BULK_CMA);
	op_end_at(&kernel_is_free, &g_op[0], false);
	fp_close();
}

/* A write that is one frame is answered while it is handled. */
static void bulk_put__one_frame_is_answered_at_once(void **state)
{
	static uint8_t src[8] = "written", dst[8];
	struct fp_done d = {0};
	uint32_t key;

	fp_open(LINK_ORDERED, true);
	assert_int_equal(link_region_add(&fp.node[1], dst, sizeof(dst), LINK_PUT, &key), 0);
	assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_PUT, src, 8, (uintptr_t)dst, key, &d), 0);
	assert_int_equal(fp.q_cnt, 1);
	assert_true(fp_move_one());
	assert_memory_equal(dst, src, 8);
	assert_int_equal(fp.q_cnt, 1);
	assert_int_equal(fp.q[0].from, 1);
	assert_true(fp_run(&d, 10));
	assert_int_equal(d.status, 0);
	fp_close();
}

/* A write of up to 64 KiB to another host leaves with the call: what waited for a poll would wait for an answer. */
static void bulk_put__leaves_with_the_call(void **state)
{
	static uint8_t src[LEN], dst[LEN];
	struct fp_done d = {0};
	uint32_t key, frames;

	fp_open(LINK_ORDERED, false);
	for (size_t i = 0; i < LEN; i++)
		src[i] = (uint8_t)(i * 7);
	assert_int_equal(link_region_add(&fp.node[1], dst, sizeof(dst), LINK_PUT, &key), 0);
	assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_PUT, src, LEN, (uintptr_t)dst, key, &d), 0);
	frames = fp.q_cnt;
	assert_in_range(frames, 2, LEN);
	for (uint32_t i = 0; i < 2 * frames; i++) /* delivered, acknowledged */
		assert_true(fp_move_one());
	assert_memory_equal(dst, src, LEN);
	assert_true(fp_run(&d, 10));
	assert_int_equal(d.status, 0);
	fp_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk_pick__finds_the_cheapest),
		cmocka_unit_test(bulk_pick__what_has_come_is_judged),
		cmocka_unit_test(bulk_pick__few_windows_are_looks),
		cmocka_unit_test(bulk_pick__a_stream_gets_warm),
		cmocka_unit_test(bulk_pick__alone_and_overlapping_are_judged_apart),
		cmocka_unit_test(bulk_pick__a_cold_start_does_not_count),
		cmocka_unit_test(bulk_pick__outliers_are_not_believed),
		cmocka_unit_test(bulk_pick__notices_change),
		cmocka_unit_test(bulk_pick__who_did_not_help_is_left_alone),
		cmocka_unit_test(bulk_pick__silence_is_part_of_the_cost),
		cmocka_unit_test(bulk_pick__a_long_poll_is_not_silence),
		cmocka_unit_test(bulk_pick__own_absence_is_not_silence),
		cmocka_unit_test(bulk_pick__silence_costs_one_at_a_time),
		cmocka_unit_test(bulk_pick__silence_of_who_is_written_to),
		cmocka_unit_test(bulk_pick__a_late_answer_counts),
		cmocka_unit_test(bulk_pick__short_ones_are_not_measured),
		cmocka_unit_test(bulk_put__one_frame_is_answered_at_once),
		cmocka_unit_test(bulk_put__leaves_with_the_call),
		cmocka_unit_test(bulk_help__many),
		cmocka_unit_test(bulk_help__is_not_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
