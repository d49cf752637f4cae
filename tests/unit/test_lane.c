// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/lane.[ch]: one thread, hostile peers, two threads, two processes.
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/lane.h"

#define USER_MAX LANE_W_USER

/* Both halves of a lane in one address space. */
struct pair {
	uint8_t *mem;
	struct lane_tx tx;
	struct lane_rx rx;
};

static void pair_open(struct pair *p, uint32_t slot_cnt)
{
	p->mem = aligned_alloc(CACHE_LINE, lane_shm_size(slot_cnt));
	assert_non_null(p->mem);
	memset(p->mem, 0xff, lane_shm_size(slot_cnt));
	lane_shm_init(p->mem, slot_cnt);
	lane_tx_init(&p->tx, p->mem, slot_cnt);
	lane_rx_init(&p->rx, p->mem, slot_cnt, 0);
}

static void pair_close(struct pair *p)
{
	free(p->mem);
}

/* As if @pos slots had gone through already; @pos: a multiple of the ring's size. */
static void pair_set_pos(struct pair *p, uint32_t pos)
{
	p->tx.pos = p->tx.head_seen = pos;
	p->rx.turn += pos - lane_rx_pos(&p->rx);
	atomic_store(p->tx.head, pos);
	p->tx.avail = 0;
	lane_rx_lap(&p->rx, pos);
	p->rx.next = p->rx.slots;
}

static uint32_t slots_of(uint32_t bytes)
{
	return DIV_ROUND_UP(bytes + 8, 64u);
}

/* Contents of message @seq: @bytes bytes that depend on both. */
static void fill(uint8_t *to, uint64_t seq, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(seq * 31 + i * 7 + (i >> 8));
}

static bool is_filled(const uint8_t *from, uint64_t seq, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (from[i] != (uint8_t)(seq * 31 + i * 7 + (i >> 8)))
			return false;
	}
	return true;
}

static void lane_reserve__sizes_and_alignment(void **state)
{
	static const uint32_t row[][2] = {{0, 1},     {1, 1},	  {56, 1},
					  {57, 2},    {120, 2},	  {121, 3},
					  {1976, 31}, {1977, 32}, {LANE_MSG_MAX, 32}};
	struct pair p;

	assert_int_equal(LANE_MSG_MAX, 56 + 64 * 31);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		uint32_t cap = 0;
		uint64_t user = 0;
		uint8_t *to, *from;

		pair_open(&p, 64);
		to = lane_reserve(&p.tx, row[i][0]);
		assert_non_null(to);
		assert_int_equal((uintptr_t)to % 8, 0);
		fill(to, i, row[i][0]);
		lane_commit(&p.tx, USER_MAX - i);
		assert_int_equal(lane_tx_pos(&p.tx) - lane_first(64), row[i][1]);
		from = lane_peek(&p.rx, &cap, &user);
		assert_ptr_equal(from, to);
		assert_int_equal(cap, row[i][1] * 64 - 8);
		assert_int_equal(user, USER_MAX - i);
		assert_true(is_filled(from, i, row[i][0]));
		pair_close(&p);
	}
}

static void lane_commit__takes_40_bits_of_user(void **state)
{
	struct pair p;
	uint32_t cap;
	uint64_t user;

	pair_open(&p, 32);
	assert_non_null(lane_reserve(&p.tx, 8));
	lane_commit(&p.tx, UINT64_MAX);
	assert_non_null(lane_peek(&p.rx, &cap, &user));
	assert_int_equal(user, USER_MAX);
	assert_int_equal(cap, 56);
	pair_close(&p);
}

static void lane_peek__same_message_until_next(void **state)
{
	struct pair p;
	uint32_t cap = 7;
	uint64_t user = 8;
	void *first;

	pair_open(&p, 32);
	assert_null(lane_peek(&p.rx, &cap, &user));
	assert_int_equal(cap, 7);
	assert_int_equal(user, 8);
	assert_non_null(lane_reserve(&p.tx, 100));
	assert_null(lane_peek(&p.rx, &cap, &user));
	lane_commit(&p.tx, 0);
	assert_non_null(lane_reserve(&p.tx, 100));
	lane_commit(&p.tx, 1);
	first = lane_peek(&p.rx, &cap, &user);
	assert_ptr_equal(lane_peek(&p.rx, &cap, &user), first);
	assert_int_equal(user, 0);
	lane_next(&p.rx);
	assert_ptr_not_equal(lane_peek(&p.rx, &cap, &user), first);
	assert_int_equal(user, 1);
	pair_close(&p);
}

static void lane_reserve__null_when_full_until_published(void **state)
{
	struct pair p;
	uint32_t cap;
	uint64_t user;

	pair_open(&p, 64);
	for (int i = 0; i < 64; i++) {
		assert_non_null(lane_reserve(&p.tx, 56));
		lane_commit(&p.tx, 0);
	}
	assert_null(lane_reserve(&p.tx, 0));
	assert_null(lane_reserve(&p.tx, LANE_MSG_MAX));
	assert_int_equal(lane_acked(&p.tx), lane_first(64));
	assert_non_null(lane_peek(&p.rx, &cap, &user));
	lane_next(&p.rx);
	assert_null(lane_reserve(&p.tx, 0));
	lane_publish(&p.rx);
	assert_int_equal(lane_acked(&p.tx) - lane_first(64), 1);
	assert_null(lane_reserve(&p.tx, 57));
	assert_non_null(lane_reserve(&p.tx, 56));
	lane_commit(&p.tx, 0);
	assert_null(lane_reserve(&p.tx, 0));
	pair_close(&p);
}

static void lane_next__publishes_every_quarter_lap(void **state)
{
	struct pair p;
	uint32_t cap;
	uint64_t user;

	pair_open(&p, 64);
	for (uint32_t i = 1; i <= 200; i++) {
		assert_non_null(lane_reserve(&p.tx, 8));
		lane_commit(&p.tx, 0);
		assert_non_null(lane_peek(&p.rx, &cap, &user));
		lane_next(&p.rx);
		assert_int_equal(lane_acked(&p.tx) - lane_first(64), i / 16 * 16);
	}
	lane_publish(&p.rx);
	assert_int_equal(lane_acked(&p.tx) - lane_first(64), 200);
	assert_int_equal(lane_tx_pos(&p.tx) - lane_first(64), 200);
	pair_close(&p);
}

/* The smallest ring never has room for a skip and the largest message at once. */
static void lane_reserve__largest_in_smallest_ring_from_any_place(void **state)
{
	struct pair p;
	uint32_t cap;
	uint64_t user;

	for (uint32_t at = 0; at < 32; at++) {
		uint8_t *to = NULL;

		pair_open(&p, 32);
		for (uint32_t i = 0; i < at; i++) {
			assert_non_null(lane_reserve(&p.tx, 1));
			lane_commit(&p.tx, 0);
			assert_non_null(lane_peek(&p.rx, &cap, &user));
			lane_next(&p.rx);
		}
		for (int pass = 0; pass < 3 && !to; pass++) {
			to = lane_reserve(&p.tx, LANE_MSG_MAX);
			if (!to)
				assert_null(lane_peek(&p.rx, &cap, &user));
			lane_publish(&p.rx);
		}
		assert_non_null(to);
		fill(to, at, LANE_MSG_MAX);
		lane_commit(&p.tx, at);
		to = lane_peek(&p.rx, &cap, &user);
		assert_non_null(to);
		assert_true(is_filled(to, at, LANE_MSG_MAX));
		pair_close(&p);
	}
}

/* Words that look like headers of any lap near the current one: what must never be believed. */
static void fill_with_headers(struct rng *r, uint8_t *to, uint32_t bytes, const struct lane_tx *tx)
{
	for (uint32_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t lap = lane_lap_tag(tx->pos + (uint32_t)rng_below(r, 4) * (tx->mask + 1),
					    tx->lap_shift);
		uint64_t word = lap << 48 | FIELD_PREP(LANE_W_NSLOTS, 1 + rng_below(r, 5)) |
				(rng_below(r, 4) ? 0 : LANE_W_SKIP) | 0xdeadbeef;

		memcpy(to + i, &word, 8);
	}
}

/* Random traffic with such payloads, abandoned reservations and lag; a queue is the model. */
static void run_stale(struct rng *r, struct pair *p, uint32_t msgs)
{
	struct {
		uint32_t bytes;
		void *at;
	} fifo[1024];
	uint32_t in = 0, out = 0, cap;
	uint64_t user;

	while (out < msgs) {
		uint32_t bytes = (uint32_t)rng_below(r, rng_below(r, 3) ? 200 : LANE_MSG_MAX + 1);
		uint8_t *to = in < msgs ? lane_reserve(&p->tx, bytes) : NULL;

		if (to) {
			assert_true(to >= p->mem + 64);
			fill_with_headers(r, to, slots_of(bytes) * 64 - 8, &p->tx);
			if (rng_below(r, 4)) {
				fifo[in % 1024].bytes = bytes;
				fifo[in % 1024].at = to;
				lane_commit(&p->tx, in++);
			}
		}
		for (uint64_t n = to ? rng_below(r, 3) : 3; n; n--) {
			uint8_t *from = lane_peek(&p->rx, &cap, &user);

			if (!from) {
				assert_int_equal(in, out);
				break;
			}
			assert_int_equal(user, out);
			assert_ptr_equal(from, fifo[out % 1024].at);
			assert_int_equal(cap, slots_of(fifo[out % 1024].bytes) * 64 - 8);
			lane_next(&p->rx);
			out++;
		}
		if (!rng_below(r, 4) || !to)
			lane_publish(&p->rx);
		assert_true(lane_tx_pos(&p->tx) - lane_acked(&p->tx) <= p->tx.mask + 1);
	}
	assert_false(p->rx.broken);
}

static void lane_peek__never_takes_payload_for_a_header(void **state)
{
	static const uint32_t cnt[] = {32, 64, 128, 512};
	struct rng r = unit_rng();

	for (size_t i = 0; i < ARRAY_SIZE(cnt); i++) {
		struct pair p;

		pair_open(&p, cnt[i]);
		run_stale(&r, &p, 100000);
		/* where 32-bit positions wrap, and where lap tags do */
		pair_set_pos(&p, -100 * cnt[i]);
		memset(p.tx.slots, 0, (size_t)cnt[i] * 64);
		p.tx.avail = 0;
		run_stale(&r, &p, 20000);
		pair_set_pos(&p, cnt[i] * 0x8000u - 100 * cnt[i]);
		memset(p.tx.slots, 0, (size_t)cnt[i] * 64);
		p.tx.avail = 0;
		run_stale(&r, &p, 20000);
		pair_close(&p);
	}
}

static void lane_acked__hostile_head_acknowledges_nothing(void **state)
{
	struct rng r = unit_rng();
	struct pair p;

	pair_open(&p, 64);
	pair_set_pos(&p, -128u);
	for (int i = 0; i < 200000; i++) {
		uint32_t was = lane_acked(&p.tx), head, now;

		switch (rng_below(&r, 4)) {
		case 0:
			head = (uint32_t)rng_u64(&r);
			break;
		case 1: /* ahead */
			head = p.tx.pos + 1 + (uint32_t)rng_below(&r, 100);
			break;
		case 2: /* back */
			head = was - 1 - (uint32_t)rng_below(&r, 100);
			break;
		default: /* honest */
			head = was + (uint32_t)rng_below(&r, p.tx.pos - was + 1);
		}
		atomic_store(p.tx.head, head);
		now = lane_acked(&p.tx);
		assert_int_equal(now, head - was <= p.tx.pos - was ? head : was);
		if (lane_reserve(&p.tx, (uint32_t)rng_below(&r, LANE_MSG_MAX + 1)))
			lane_commit(&p.tx, 0);
		assert_true(p.tx.pos - lane_acked(&p.tx) <= 64);
	}
	pair_close(&p);
}

static void lane_peek__bad_headers_break_the_lane(void **state)
{
	/* word0 without the tag, and the slot it stands in, in a ring of 64 */
	static const struct {
		uint32_t idx;
		uint64_t word;
	} row[] = {
		{0, FIELD_PREP(LANE_W_NSLOTS, 0)},
		{0, FIELD_PREP(LANE_W_NSLOTS, 33)},
		{0, FIELD_PREP(LANE_W_NSLOTS, 127)},
		{63, FIELD_PREP(LANE_W_NSLOTS, 2)},
		{40, FIELD_PREP(LANE_W_NSLOTS, 25)},
		{40, FIELD_PREP(LANE_W_NSLOTS, 0) | LANE_W_SKIP},
		{40, FIELD_PREP(LANE_W_NSLOTS, 23) | LANE_W_SKIP},
		{40, FIELD_PREP(LANE_W_NSLOTS, 25) | LANE_W_SKIP},
		{0, FIELD_PREP(LANE_W_NSLOTS, 64) | LANE_W_SKIP},
		{32, FIELD_PREP(LANE_W_NSLOTS, 32) | LANE_W_SKIP},
	};
	uint32_t cap;
	uint64_t user;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct pair p;

		pair_open(&p, 64);
		for (uint32_t k = 0; k < row[i].idx; k++) {
			assert_non_null(lane_reserve(&p.tx, 1));
			lane_commit(&p.tx, 0);
			assert_non_null(lane_peek(&p.rx, &cap, &user));
			lane_next(&p.rx);
		}
		assert_null(lane_peek(&p.rx, &cap, &user));
		atomic_store(lane_word0(p.tx.slots, row[i].idx),
			     (uint64_t)lane_lap_tag(lane_first(64), 6) << 48 | row[i].word);
		assert_null(lane_peek(&p.rx, &cap, &user));
		assert_true(p.rx.broken);
		/* for good, whatever comes */
		atomic_store(lane_word0(p.tx.slots, row[i].idx),
			     (uint64_t)lane_lap_tag(lane_first(64), 6) << 48 | FIELD_PREP(LANE_W_NSLOTS, 1));
		assert_null(lane_peek(&p.rx, &cap, &user));
		pair_close(&p);
	}
}

/* The last record before a turn is spoilt while it is being shown: its end must not make the lane whole again. */
static void lane_next__leaves_it_broken(void **state)
{
	uint64_t lap = (uint64_t)lane_lap_tag(lane_first(64), 6) << LANE_LAP_SHIFT, user;
	struct pair p;
	uint32_t cap;

	(void)state;
	pair_open(&p, 64);
	for (uint32_t k = 0; k < 15; k++) {
		assert_non_null(lane_reserve(&p.tx, 1));
		lane_commit(&p.tx, 0);
		assert_non_null(lane_peek(&p.rx, &cap, &user));
		lane_next(&p.rx);
	}
	for (int k = 0; k < 2; k++) {
		assert_non_null(lane_reserve(&p.tx, 1));
		lane_commit(&p.tx, 0);
	}
	assert_non_null(lane_peek(&p.rx, &cap, &user));
	atomic_store(lane_word0(p.tx.slots, 15), lap);
	assert_null(lane_peek(&p.rx, &cap, &user));
	assert_true(p.rx.broken);
	lane_next(&p.rx);
	assert_null(lane_peek(&p.rx, &cap, &user));
	pair_close(&p);
}

/* A peer writes what it likes, mostly with the right tag: the consumer stays in the ring. */
static void lane_peek__fuzzed_memory_stays_in_bounds(void **state)
{
	struct rng r = unit_rng();
	uint32_t msgs = 0;

	for (int round = 0; round < 3000; round++) {
		uint32_t cnt = 32u << rng_below(&r, 3), cap;
		uint64_t user;
		struct pair p;

		pair_open(&p, cnt);
		for (int step = 0; step < 300 && !p.rx.broken; step++) {
			uint8_t *from;

			for (uint32_t i = 0; i < cnt; i++) {
				uint64_t word = rng_u64(&r), n = rng_below(&r, 64);

				if (n) {
					n = n < 50 ? 1 + n % 8 : n < 60 ? cnt - i : n;
					word = (uint64_t)p.rx.lap << 48 |
					       FIELD_PREP(LANE_W_NSLOTS, n) |
					       (n == cnt - i ? LANE_W_SKIP : 0);
				}
				atomic_store(lane_word0(p.tx.slots, i), word);
			}
			from = lane_peek(&p.rx, &cap, &user);
			if (!from)
				continue;
			msgs++;
			assert_true(from >= p.tx.slots + 8);
			assert_true(cap <= LANE_MSG_MAX);
			assert_true(from + cap <= p.mem + lane_shm_size(cnt));
			memset(from, 0x5a, cap);
			lane_next(&p.rx);
		}
		pair_close(&p);
	}
	assert_true(msgs > 10000);
}

/* One side of a stress run; both sides draw the same sizes from @seed. */
struct stress {
	void *mem;
	uint32_t slot_cnt;
	uint64_t seed;
	uint64_t msgs;
	uint64_t errors; /* written by the consumer */
};

static uint32_t stress_size(struct rng *r)
{
	switch (rng_below(r, 8)) {
	case 0:
		return (uint32_t)rng_below(r, LANE_MSG_MAX + 1);
	case 1:
	case 2:
		return (uint32_t)rng_below(r, 300);
	default:
		return (uint32_t)rng_below(r, 57);
	}
}

static void *stress_produce(void *arg)
{
	struct stress *s = arg;
	struct lane_tx tx;
	struct rng r, noise;

	rng_seed(&r, s->seed);
	rng_seed(&noise, ~s->seed);
	lane_tx_init(&tx, s->mem, s->slot_cnt);
	for (uint64_t seq = 0; seq < s->msgs; seq++) {
		uint32_t bytes = stress_size(&r);
		uint8_t *to;

		while (!(to = lane_reserve(&tx, bytes)))
			sched_yield();
		if (!rng_below(&noise, 16)) { /* think again, once */
			memset(to, 0x80, bytes);
			while (!(to = lane_reserve(&tx, (uint32_t)rng_below(&noise, 500))))
				sched_yield();
			while (!(to = lane_reserve(&tx, bytes)))
				sched_yield();
		}
		fill(to, seq, bytes);
		lane_commit(&tx, bytes);
	}
	return NULL;
}

static void stress_consume(struct stress *s)
{
	struct lane_rx rx;
	struct rng r, noise;
	uint8_t copy[LANE_MSG_MAX];

	rng_seed(&r, s->seed);
	rng_seed(&noise, s->seed + 1);
	lane_rx_init(&rx, s->mem, s->slot_cnt, 0);
	for (uint64_t seq = 0; seq < s->msgs && !rx.broken;) {
		uint64_t user, batch = 1 + rng_below(&noise, 32);
		uint32_t cap;
		uint8_t *from;

		for (; batch && (from = lane_peek(&rx, &cap, &user)); batch--) {
			uint32_t bytes = stress_size(&r);

			memcpy(copy, from, MIN(bytes, cap));
			s->errors += user != bytes || cap != slots_of(bytes) * 64 - 8 ||
				     !is_filled(copy, seq, bytes);
			lane_next(&rx);
			seq++;
		}
		lane_publish(&rx);
		if (batch)
			sched_yield();
	}
	s->errors += rx.broken;
}

static void lane__two_threads(void **state)
{
	static const uint32_t cnt[] = {32, 128, 1024};
	struct rng r = unit_rng();

	for (size_t i = 0; i < ARRAY_SIZE(cnt); i++) {
		struct stress s = {.slot_cnt = cnt[i], .seed = rng_u64(&r), .msgs = 500000};
		pthread_t producer;

		s.mem = aligned_alloc(CACHE_LINE, lane_shm_size(cnt[i]));
		lane_shm_init(s.mem, cnt[i]);
		assert_int_equal(pthread_create(&producer, NULL, stress_produce, &s), 0);
		stress_consume(&s);
		pthread_join(producer, NULL);
		assert_int_equal(s.errors, 0);
		free(s.mem);
	}
}

static void *map_fd(int fd, size_t len)
{
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

/* Each process maps the ring by itself, at its own address. */
static void lane__two_processes(void **state)
{
	struct rng r = unit_rng();
	struct stress s = {.slot_cnt = 128, .seed = rng_u64(&r), .msgs = 1000000};
	size_t len = lane_shm_size(s.slot_cnt);
	int fd = memfd_create("lane", MFD_CLOEXEC), status;
	pid_t child;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	s.mem = map_fd(fd, len);
	assert_non_null(s.mem);
	lane_shm_init(s.mem, s.slot_cnt);
	child = unit_fork();
	assert_true(child >= 0);
	if (!child) {
		void *far = map_fd(fd, len);

		munmap(s.mem, len);
		s.mem = far;
		stress_produce(&s);
		_exit(0);
	}
	stress_consume(&s);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(s.errors, 0);
	munmap(s.mem, len);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lane_reserve__sizes_and_alignment),
		cmocka_unit_test(lane_reserve__null_when_full_until_published),
		cmocka_unit_test(lane_reserve__largest_in_smallest_ring_from_any_place),
		cmocka_unit_test(lane_commit__takes_40_bits_of_user),
		cmocka_unit_test(lane_acked__hostile_head_acknowledges_nothing),
		cmocka_unit_test(lane_peek__same_message_until_next),
		cmocka_unit_test(lane_peek__never_takes_payload_for_a_header),
		cmocka_unit_test(lane_peek__bad_headers_break_the_lane),
		cmocka_unit_test(lane_next__leaves_it_broken),
		cmocka_unit_test(lane_peek__fuzzed_memory_stays_in_bounds),
		cmocka_unit_test(lane_next__publishes_every_quarter_lap),
		cmocka_unit_test(lane__two_threads),
		cmocka_unit_test(lane__two_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
