// SPDX-License-Identifier: BSD-2-Clause
// The fault decorator over a carrier that remembers: rates, counters, exact picks, and the same
// fate for the same seed.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "link/core/link_int.h"

#define SENT 20000

/* The inner carrier: keeps what it is given, as bytes at flush time (before that they may still
 * change). */
struct sink {
	struct carrier c;
	const void *pending[64];
	size_t pending_len[64];
	uint32_t pending_cnt, cnt, closed;
	uint32_t id[2 * SENT + 64]; /* first four bytes of each datagram, in order */
	uint32_t len[2 * SENT + 64];
	uint32_t flips;
};

static struct {
	uint64_t now_ns;
	struct link_room room;
	struct link_node node;
	struct link_port port;
	struct sink sink;
	struct carrier *top;
	uint32_t rx_cnt, refused_cnt;
} w;

static void sink_flush(struct carrier *c)
{
	struct sink *s = container_of(c, struct sink, c);

	for (uint32_t i = 0; i < s->pending_cnt; i++) {
		const uint8_t *p = s->pending[i];

		s->id[s->cnt] = UINT32_MAX;
		if (s->pending_len[i] >= 4)
			memcpy(&s->id[s->cnt], p, 4);
		for (size_t k = 4; k < s->pending_len[i]; k++)
			s->flips += (uint32_t)__builtin_popcount(p[k] ^ 0x5a);
		s->len[s->cnt++] = (uint32_t)s->pending_len[i];
	}
	s->pending_cnt = 0;
}

static int sink_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov,
		     int iov_cnt)
{
	struct sink *s = container_of(c, struct sink, c);

	assert_int_equal(dst->port, 77);
	assert_int_equal(iov_cnt, 1);
	if (s->pending_cnt == ARRAY_SIZE(s->pending))
		sink_flush(c);
	s->pending[s->pending_cnt] = iov[0].iov_base;
	s->pending_len[s->pending_cnt++] = iov[0].iov_len;
	return 0;
}

static int sink_poll(struct carrier *c, int budget)
{
	const struct carrier_error refused = {.err = ECONNREFUSED};
	struct link_addr src = {.port = 77};

	(void)budget;
	c->rx(c->rx_ctx, &src, "x", 1);
	c->error(c->rx_ctx, &src, &refused);
	return 1;
}

static uint32_t sink_mtu(struct carrier *c, const struct link_addr *dst)
{
	(void)c, (void)dst;
	return 1234;
}

static uint64_t sink_deadline(struct carrier *c)
{
	(void)c;
	return CLK_NEVER;
}

static int sink_fd(struct carrier *c)
{
	(void)c;
	return 42;
}

static void sink_close(struct carrier *c)
{
	container_of(c, struct sink, c)->closed++;
}

static const struct carrier_ops sink_ops = {sink_send,	   sink_flush, sink_poll, sink_mtu,
					    sink_deadline, sink_fd,    sink_close};

static void on_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	(void)ctx, (void)src, (void)buf, (void)len;
	w.rx_cnt++;
}

static void on_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	(void)ctx, (void)dst;
	assert_int_equal(e->err, ECONNREFUSED);
	w.refused_cnt++;
}

static void world_open(struct link_room room)
{
	memset(&w, 0, sizeof(w));
	w.now_ns = 5 * NS_PER_SEC;
	w.room = room;
	w.room.has_faults = true;
	if (!w.room.seed)
		w.room.seed = 99;
	w.node.room = &w.room;
	w.node.clk.virt_ns = &w.now_ns;
	w.port.node = &w.node;
	w.port.opened_ns = w.now_ns;
	w.sink.c.ops = &sink_ops;
	assert_int_equal(fault_open(&w.port, &w.sink.c, &w.top), 0);
	w.top->rx = on_rx;
	w.top->error = on_error;
}

static void world_close(void)
{
	int64_t live = mem_live_count();

	w.top->ops->close(w.top);
	assert_int_equal(w.sink.closed, 1);
	assert_true(mem_live_count() < live);
}

/* @cnt datagrams of 100 bytes; time passes by @gap_ns after each. */
static void send_many(uint32_t cnt, uint64_t gap_ns)
{
	static uint8_t bytes[64][100];
	static uint32_t at;
	struct link_addr dst = {.port = 77};

	for (uint32_t i = 0; i < cnt; i++) {
		uint8_t *p = bytes[at++ % 64];
		struct iovec iov = {p, 100};

		memset(p, 0x5a, 100);
		memcpy(p, &i, 4);
		assert_int_equal(w.top->ops->send(w.top, &dst, &iov, 1), 0);
		if (i % 8 == 7) {
			w.top->ops->flush(w.top);
			memset(bytes, 0xee, sizeof(bytes)); /* not the sender's any more */
		}
		w.now_ns += gap_ns;
	}
	w.top->ops->flush(w.top);
}

static void fault__rates_and_counters(void **state)
{
	const struct link_stats *st = &w.port.stats;

	(void)state;
	world_open((struct link_room){.drop_ppm = 100000});
	send_many(SENT, 0);
	assert_in_range(st->fault_drop, SENT / 10 - 200, SENT / 10 + 200);
	assert_int_equal(w.sink.cnt, SENT - st->fault_drop);
	world_close();
	world_open((struct link_room){.dup_ppm = 100000});
	send_many(SENT, 0);
	assert_in_range(st->fault_dup, SENT / 10 - 200, SENT / 10 + 200);
	assert_int_equal(w.sink.cnt, SENT + st->fault_dup);
	assert_int_equal(w.sink.flips, 0);
	world_close();
	world_open((struct link_room){.corrupt_ppm = 100000});
	send_many(SENT, 0);
	assert_in_range(st->fault_corrupt, SENT / 10 - 200, SENT / 10 + 200);
	assert_int_equal(w.sink.cnt, SENT);
	assert_in_range(w.sink.flips, st->fault_corrupt, 3 * st->fault_corrupt);
	world_close();
	world_open((struct link_room){.truncate_ppm = 100000});
	send_many(SENT, 0);
	assert_in_range(st->fault_truncate, SENT / 10 - 200, SENT / 10 + 200);
	for (uint32_t i = 0, cnt = 0; i < SENT; i++) {
		cnt += w.sink.len[i] < 100;
		if (i == SENT - 1)
			assert_int_equal(cnt, st->fault_truncate);
	}
	world_close();
}

static void fault__reorder_is_bounded_and_ends(void **state)
{
	uint32_t late = 0;

	(void)state;
	world_open((struct link_room){.reorder_ppm = 100000});
	send_many(SENT, 0);
	w.now_ns += NS_PER_SEC;
	w.top->ops->flush(w.top);
	assert_int_equal(w.sink.cnt, SENT);
	for (uint32_t i = 0; i < SENT; i++) {
		int32_t shift = (int32_t)(i - w.sink.id[i]);

		assert_in_range(shift + 8, 7, 16); /* overtaken by 1..8, or moved up by one */
		late += shift > 0;
	}
	assert_int_equal(late, w.port.stats.fault_reorder);
	assert_in_range(late, SENT / 20, SENT / 10);
	/* the last one does not wait for ever */
	assert_int_equal(w.top->ops->next_deadline(w.top), CLK_NEVER);
	world_close();
	world_open((struct link_room){.reorder_ppm = 1000000});
	send_many(1, 0);
	assert_int_equal(w.sink.cnt, 0);
	w.now_ns = w.top->ops->next_deadline(w.top);
	assert_int_equal(w.top->ops->poll(w.top, 1), 1);
	assert_int_equal(w.sink.cnt, 1);
	world_close();
}

/* Delayed datagrams are overtaken too, however far apart they are sent. */
static void fault__reorder_beside_delay(void **state)
{
	uint32_t late = 0;

	(void)state;
	world_open((struct link_room){.reorder_ppm = 100000, .delay_ns = 50 * NS_PER_US});
	send_many(1000, 20 * NS_PER_US); /* eight at a time */
	w.now_ns += NS_PER_SEC;
	w.top->ops->flush(w.top);
	assert_int_equal(w.sink.cnt, 1000);
	assert_int_equal(w.port.stats.fault_delay, 1000);
	assert_in_range(w.port.stats.fault_reorder, 40, 100);
	world_close();
	/* further apart than the delay is spread: only the reordered ones are late */
	world_open((struct link_room){.reorder_ppm = 100000, .delay_ns = 50 * NS_PER_US});
	send_many(1000, 100 * NS_PER_US);
	w.now_ns += NS_PER_SEC;
	w.top->ops->flush(w.top);
	for (uint32_t i = 0; i < 1000; i++)
		late += i > w.sink.id[i];
	assert_int_equal(late, w.port.stats.fault_reorder);
	assert_in_range(late, 40, 100);
	world_close();
}

static void fault__delay_is_spread_around_its_value(void **state)
{
	uint64_t sent;

	(void)state;
	world_open((struct link_room){.delay_ns = NS_PER_MS});
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t before = w.sink.cnt;

		send_many(1, 0);
		sent = w.now_ns;
		assert_int_equal(w.sink.cnt, before);
		w.now_ns = w.top->ops->next_deadline(w.top);
		assert_in_range(w.now_ns - sent, NS_PER_MS / 2, NS_PER_MS / 2 * 3);
		w.top->ops->flush(w.top);
		assert_int_equal(w.sink.cnt, before + 1);
	}
	assert_int_equal(w.port.stats.fault_delay, 200);
	send_many(50, 0); /* closing does not lose them */
	world_close();
	assert_int_equal(w.sink.cnt, 250);
}

static void fault__exact_datagrams(void **state)
{
	(void)state;
	world_open((struct link_room){.drop_nth = 3, .dup_nth = 5, .delay_nth = 7});
	send_many(10, 0);
	w.now_ns = w.top->ops->next_deadline(w.top);
	w.top->ops->flush(w.top);
	assert_int_equal(w.sink.cnt, 10);
	assert_memory_equal(w.sink.id, ((uint32_t[]){0, 1, 3, 4, 4, 5, 7, 8, 9, 6}), 40);
	assert_int_equal(w.port.stats.fault_drop, 1);
	assert_int_equal(w.port.stats.fault_dup, 1);
	assert_int_equal(w.port.stats.fault_delay, 1);
	world_close();
}

static void fault__partition_cuts_both_ways_and_heals(void **state)
{
	(void)state;
	world_open((struct link_room){.partition_ns = {NS_PER_SEC, 2 * NS_PER_SEC}});
	for (int phase = 0; phase < 3; phase++) {
		bool is_open = phase != 1;

		w.rx_cnt = w.refused_cnt = w.sink.cnt = 0;
		send_many(10, 0);
		w.top->ops->poll(w.top, 1);
		assert_int_equal(w.sink.cnt, is_open ? 10 : 0);
		assert_int_equal(w.rx_cnt, is_open);
		assert_int_equal(w.refused_cnt, is_open);
		w.now_ns += NS_PER_SEC;
	}
	assert_int_equal(w.port.stats.fault_partition, 11);
	world_close();
}

static void fault__a_seed_replays(void **state)
{
	static uint32_t id[2 * 5000];
	uint32_t cnt;

	(void)state;
	for (int run = 0; run < 3; run++) {
		world_open((struct link_room){.drop_ppm = 50000,
					      .dup_ppm = 50000,
					      .reorder_ppm = 50000,
					      .truncate_ppm = 10000,
					      .seed = run == 2 ? 8 : 7});
		send_many(5000, 100);
		if (!run) {
			memcpy(id, w.sink.id, sizeof(id));
			cnt = w.sink.cnt;
		} else if (run == 1) {
			assert_int_equal(w.sink.cnt, cnt);
			assert_memory_equal(id, w.sink.id, cnt * sizeof(*id));
		} else {
			assert_memory_not_equal(id, w.sink.id, cnt * sizeof(*id));
		}
		world_close();
	}
}

static void fault__passes_the_rest_through(void **state)
{
	(void)state;
	world_open((struct link_room){.drop_ppm = 1});
	assert_int_equal(w.top->ops->mtu(w.top, NULL), 1234);
	assert_int_equal(w.top->ops->fd(w.top), 42);
	mem_fail_nth(1);
	assert_int_equal(fault_open(&w.port, &w.sink.c, &w.top), -ENOMEM);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault__rates_and_counters),
		cmocka_unit_test(fault__reorder_is_bounded_and_ends),
		cmocka_unit_test(fault__reorder_beside_delay),
		cmocka_unit_test(fault__delay_is_spread_around_its_value),
		cmocka_unit_test(fault__exact_datagrams),
		cmocka_unit_test(fault__partition_cuts_both_ways_and_heals),
		cmocka_unit_test(fault__a_seed_replays),
		cmocka_unit_test(fault__passes_the_rest_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
