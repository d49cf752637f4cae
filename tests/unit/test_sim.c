// SPDX-License-Identifier: BSD-2-Clause
// The simulated network: time, order, faults, refusals, replay.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "link/core/link_int.h"
#include "sim.h"

#define CNT 20000

static struct {
	struct sim *sim;
	struct link_room room;
	struct link_node node;
	struct link_port port[2];
	struct carrier *net[2];
	uint32_t got[2 * CNT], got_cnt, refused_cnt;
	uint64_t got_ns;
} w;

static void on_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	assert_ptr_equal(ctx, &w);
	assert_int_equal(src->port, w.port[0].self.port);
	assert_int_equal(src->nonce, 0); /* the network does not know nonces */
	assert_int_equal(len, 4);
	memcpy(&w.got[w.got_cnt++], buf, 4);
	w.got_ns = *sim_clock(w.sim);
}

static void on_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	(void)ctx;
	assert_int_equal(e->err, ECONNREFUSED);
	assert_true(e->quote && e->quote_len);
	assert_int_equal(dst->port, 9);
	w.refused_cnt++;
}

static void world_open(struct sim_attr attr)
{
	memset(&w, 0, sizeof(w));
	assert_int_equal(sim_world_open(&attr, &w.sim), 0);
	w.node.room = &w.room;
	w.node.clk.virt_ns = sim_clock(w.sim);
	for (int i = 0; i < 2; i++) {
		w.port[i].node = &w.node;
		w.port[i].self.nonce = 5;
		assert_int_equal(sim_open(&w.port[i], w.sim, &w.net[i]), 0);
		w.net[i]->rx = on_rx;
		w.net[i]->error = on_error;
		w.net[i]->rx_ctx = &w;
	}
}

static void world_close(void)
{
	for (int i = 0; i < 2; i++)
		w.net[i]->ops->close(w.net[i]);
	sim_world_close(w.sim);
}

static void send_one(uint32_t id)
{
	struct iovec iov[2] = {{&id, 2}, {(char *)&id + 2, 2}};

	assert_int_equal(w.net[0]->ops->send(w.net[0], &w.port[1].self, iov, 2), 0);
	w.net[0]->ops->flush(w.net[0]);
}

/* Datagrams 0 .. @cnt, one every @gap_ns, received as they come. */
static void run(uint32_t cnt, uint64_t gap_ns)
{
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t until = *sim_clock(w.sim) + gap_ns;

		send_one(i);
		while (*sim_clock(w.sim) < until) {
			assert_true(sim_step(w.sim, until));
			w.net[1]->ops->poll(w.net[1], 64);
		}
	}
	while (sim_step(w.sim, CLK_NEVER))
		w.net[1]->ops->poll(w.net[1], 64);
}

static void sim__latency_and_order(void **state)
{
	(void)state;
	world_open((struct sim_attr){.seed = 1, .latency_ns = 777, .jitter_ns = 5000});
	send_one(1);
	assert_true(sim_step(w.sim, NS_PER_SEC + 776));
	assert_int_equal(w.net[1]->ops->poll(w.net[1], 64), 0);
	assert_int_equal(*sim_clock(w.sim), NS_PER_SEC + 776);
	assert_true(sim_step(w.sim, CLK_NEVER));
	assert_int_equal(w.net[1]->ops->poll(w.net[1], 64), 1);
	assert_in_range(w.got_ns - NS_PER_SEC, 777, 777 + 5000);
	assert_false(sim_step(w.sim, CLK_NEVER));
	w.got_cnt = 0;
	run(1000, 100);
	assert_int_equal(w.got_cnt, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(w.got[i], i);
	world_close();
}

static void sim__time_passes_for_those_who_sleep(void **state)
{
	(void)state;
	world_open((struct sim_attr){.seed = 1});
	send_one(1);
	assert_true(sim_step(w.sim, CLK_NEVER));
	assert_true(sim_step(w.sim, 3 * NS_PER_SEC)); /* nobody polls */
	assert_int_equal(*sim_clock(w.sim), 3 * NS_PER_SEC);
	assert_int_equal(w.net[1]->ops->next_deadline(w.net[1]), NS_PER_SEC + 5 * NS_PER_US);
	assert_int_equal(w.net[1]->ops->poll(w.net[1], 64), 1);
	world_close();
}

static void sim__faults_have_their_rates(void **state)
{
	uint32_t late = 0, dup = 0;

	(void)state;
	world_open((struct sim_attr){.seed = 2, .drop_ppm = 100000});
	run(CNT, 100);
	assert_in_range(w.got_cnt, CNT * 9 / 10 - 200, CNT * 9 / 10 + 200);
	world_close();
	world_open((struct sim_attr){.seed = 3, .dup_ppm = 100000});
	run(CNT, 100);
	for (uint32_t i = 1; i < w.got_cnt; i++)
		dup += w.got[i] == w.got[i - 1];
	assert_int_equal(dup, w.got_cnt - CNT);
	assert_in_range(dup, CNT / 10 - 200, CNT / 10 + 200);
	world_close();
	world_open((struct sim_attr){.seed = 4, .reorder_ppm = 100000});
	run(CNT, 100);
	assert_int_equal(w.got_cnt, CNT);
	for (uint32_t i = 1; i < CNT; i++)
		late += w.got[i] < w.got[i - 1];
	assert_in_range(late, CNT / 20, CNT / 10 + 200);
	world_close();
}

static void sim__cut_and_refusal(void **state)
{
	struct link_addr nobody;
	struct iovec iov = {"abcd", 4};

	(void)state;
	world_open((struct sim_attr){.seed = 5});
	nobody = w.port[1].self;
	nobody.port = 9;
	sim_cut(w.sim, w.port[1].self.port, true);
	run(3, 100);
	assert_int_equal(w.got_cnt, 0);
	sim_cut(w.sim, w.port[1].self.port, false);
	run(3, 100);
	assert_int_equal(w.got_cnt, 3);
	assert_int_equal(w.net[0]->ops->send(w.net[0], &nobody, &iov, 1), 0);
	w.net[0]->ops->flush(w.net[0]);
	assert_true(sim_step(w.sim, CLK_NEVER));
	assert_int_equal(w.net[0]->ops->poll(w.net[0], 64), 1);
	assert_int_equal(w.refused_cnt, 1);
	world_close();
}

static enum sim_fate by_number(void *ctx, const struct link_addr *src, const struct link_addr *dst,
			       const void *buf, size_t len)
{
	uint32_t id;

	(void)ctx;
	assert_int_equal(src->port, w.port[0].self.port);
	assert_int_equal(dst->port, w.port[1].self.port);
	assert_int_equal(len, 4);
	memcpy(&id, buf, 4);
	return id == 1 ? SIM_DROP : id == 3 ? SIM_DUP : id == 5 ? SIM_DELAY : SIM_PASS;
}

static void sim__filter_decides(void **state)
{
	(void)state;
	world_open((struct sim_attr){.seed = 6});
	sim_set_filter(w.sim, by_number, NULL);
	run(8, 100);
	assert_int_equal(w.got_cnt, 8);
	assert_memory_equal(w.got, ((uint32_t[]){0, 2, 3, 3, 4, 6, 7, 5}), 32);
	world_close();
}

static void sim__a_seed_replays(void **state)
{
	static uint32_t got[2 * CNT];
	uint32_t cnt = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		world_open((struct sim_attr){.seed = 7,
					     .drop_ppm = 50000,
					     .dup_ppm = 50000,
					     .reorder_ppm = 50000,
					     .jitter_ns = 999});
		run(2000, 100);
		if (i) {
			assert_int_equal(w.got_cnt, cnt);
			assert_memory_equal(w.got, got, cnt * 4);
		}
		cnt = w.got_cnt;
		memcpy(got, w.got, sizeof(got));
		world_close();
	}
}

/* As with a real socket: what the bytes are at the flush is what is sent, so that a test sees who
 * changes them too early. */
static void sim__bytes_are_taken_at_the_flush(void **state)
{
	uint32_t id = 1;
	struct iovec iov = {&id, 4};

	(void)state;
	world_open((struct sim_attr){.seed = 9});
	assert_int_equal(w.net[0]->ops->send(w.net[0], &w.port[1].self, &iov, 1), 0);
	iov.iov_base = NULL; /* the vector itself is the carrier's already */
	id = 2;
	assert_false(sim_step(w.sim, CLK_NEVER));
	w.net[0]->ops->flush(w.net[0]);
	run(0, 0);
	assert_int_equal(w.got_cnt, 1);
	assert_int_equal(w.got[0], 2);
	world_close();
}

static void sim__addresses(void **state)
{
	struct link_port p = {.node = &w.node};
	struct carrier *c;

	(void)state;
	world_open((struct sim_attr){.seed = 8});
	assert_int_not_equal(w.port[0].self.port, w.port[1].self.port);
	p.self = w.port[0].self;
	assert_int_equal(sim_open(&p, w.sim, &c), -EADDRINUSE);
	p.self.ip[15]++; /* another address, same port */
	assert_int_equal(sim_open(&p, w.sim, &c), 0);
	assert_int_equal(c->ops->mtu(c, &p.self), 1472);
	assert_int_equal(c->ops->fd(c), -1);
	c->ops->close(c);
	send_one(1); /* closing with a datagram on its way leaks nothing */
	world_close();
	assert_int_equal(mem_live_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim__latency_and_order),
		cmocka_unit_test(sim__time_passes_for_those_who_sleep),
		cmocka_unit_test(sim__faults_have_their_rates),
		cmocka_unit_test(sim__cut_and_refusal),
		cmocka_unit_test(sim__filter_decides),
		cmocka_unit_test(sim__a_seed_replays),
		cmocka_unit_test(sim__bytes_are_taken_at_the_flush),
		cmocka_unit_test(sim__addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
