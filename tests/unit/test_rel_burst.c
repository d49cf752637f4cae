// SPDX-License-Identifier: BSD-2-Clause
// Reliability: frames that share datagrams, and how long they wait for each other.
#include "rel_rig.h"

static void rel_send__small_frames_share_datagrams(void **state)
{
	struct sim_attr attr = {.seed = 3};
	uint64_t before;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	assert_int_equal(rig_send(&g, 0, 1, 16), 0);
	assert_true(rig_run(&g, NS_PER_MS));
	/* queued in one pass: one datagram holds (1472 - 40) / 24 of them */
	before = g.n[0].port.stats.net_tx_dgrams;
	for (int i = 0; i < 59; i++)
		assert_int_equal(rig_send(&g, 0, 1, 16), 0);
	rel_flush(g.n[0].port.rel, rig_now(&g));
	assert_int_equal(g.n[0].port.stats.net_tx_dgrams, before + 1);
	assert_true(rig_run(&g, NS_PER_MS));
	/* one by one: the first ones go at once, the others wait until an acknowledgement or a full
	 * datagram */
	rig_run_for(&g, NS_PER_MS);
	before = g.n[0].port.stats.net_tx_dgrams;
	for (uint32_t i = 0; i < 300; i++) {
		assert_int_equal(rig_send(&g, 0, 1, 16), 0);
		rel_flush(g.n[0].port.rel, rig_now(&g));
		if (i < REL_CORK)
			assert_int_equal(g.n[0].port.stats.net_tx_dgrams, before + i + 1);
	}
	assert_true(rig_run(&g, NS_PER_MS));
	assert_in_range(g.n[0].port.stats.net_tx_dgrams - before, REL_CORK + 4, REL_CORK + 8);
	rig_close(&g);
}

/* The first of a burst goes at once, the others wait for company until the owner polls, or enough has gathered. */
static void rel_may_wait__in_the_middle_of_a_burst(void **state)
{
	struct sim_attr attr = {.seed = 18};
	struct rel *r;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	r = g.n[0].port.rel;
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC)); /* the handshake */
	rig_run_for(&g, NS_PER_MS);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_false(rel_may_wait(r, rig_now(&g)));
	rel_flush(r, rig_now(&g));
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rel_may_wait(r, rig_now(&g)));
	assert_false(rel_may_wait(r, rig_now(&g) + REL_BURST_NS)); /* that was not a burst */
	for (uint32_t sum = 100; sum < REL_BURST_BYTES; sum += 16 * 1024) {
		assert_true(rel_may_wait(r, rig_now(&g)));
		assert_int_equal(rig_send(&g, 0, 1, 16 * 1024), 0);
	}
	assert_false(rel_may_wait(r, rig_now(&g)));
	rel_flush(r, rig_now(&g));
	/* nobody else's company counts */
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rel_may_wait(r, rig_now(&g)));
	assert_int_equal(rig_send(&g, 0, 0, 100), 0);
	assert_false(rel_may_wait(r, rig_now(&g)));
	rel_flush(r, rig_now(&g));
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_close(&g);
}

static const struct carrier_ops *slow_inner;
static uint64_t slow_ns; /* what the clock of a sender with slow_flush() says */

/* The system's call takes a while. */
static void slow_flush(struct carrier *c)
{
	slow_inner->flush(c);
	slow_ns += REL_BURST_NS + NS_PER_US;
}

/*
 * A burst's pause counts from the return of a call that copied much: otherwise no frames of large messages would share
 * datagrams.
 */
static void rel_may_wait__after_a_long_call(void **state)
{
	struct sim_attr attr = {.seed = 5, .mtu = 60000};
	struct carrier_ops slow;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	assert_int_equal(rig_send(&g, 0, 1, 16), 0);
	assert_true(rig_run(&g, NS_PER_MS));
	slow_inner = g.n[0].port.rel->net->ops;
	slow = *slow_inner;
	slow.flush = slow_flush;
	for (int is_long = 0; is_long < 2; is_long++) {
		struct rel *r = g.n[0].port.rel;

		slow_ns = rig_now(&g);
		g.n[0].node.clk.virt_ns = &slow_ns;
		r->net->ops = &slow;
		assert_int_equal(rig_send(&g, 0, 1, is_long ? REL_CORK_BYTES + 1 : 1000), 0);
		assert_false(rel_may_wait(r, slow_ns)); /* nothing is in flight */
		rel_flush(r, slow_ns);
		for (uint32_t sum = 0; sum < REL_BURST_BYTES; sum += 16 * 1024) {
			assert_int_equal(rig_send(&g, 0, 1, 16 * 1024), 0);
			assert_int_equal(rel_may_wait(r, slow_ns), is_long && sum + 16 * 1024 < REL_BURST_BYTES);
		}
		r->net->ops = slow_inner;
		g.n[0].node.clk.virt_ns = sim_clock(g.sim);
		assert_true(rig_run(&g, 10 * NS_PER_MS));
	}
	rig_close(&g);
}

/* One frame from 0 to 1. Return: how long after its arrival it has ended at its sender. */
static uint64_t lone_frame(struct rig *g)
{
	uint32_t before = g->n[1].delivered;
	uint64_t arrived;

	assert_int_equal(rig_send(g, 0, 1, 100), 0);
	while (g->n[1].delivered == before)
		rig_step(g, CLK_NEVER);
	arrived = rig_now(g);
	while (g->ended < g->frame_cnt)
		rig_step(g, CLK_NEVER);
	return rig_now(g) - arrived;
}

/* Who is not answered for a while does not wait until an answer could have come, whoever was answered last does. */
static void rel_ack__of_a_lone_frame_that_nobody_answers(void **state)
{
	struct sim_attr attr = {.seed = 27, .latency_ns = 5 * NS_PER_US};
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		uint64_t acks;

		rig_open(&g, 2, cls, &attr, NULL);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
		for (int round = 0; round < 3; round++) {
			assert_int_equal(rig_send(&g, 1, 0, 100), 0);
			assert_true(rig_run(&g, NS_PER_MS));
			for (int i = 0; i < 7; i++)
				assert_int_equal(lone_frame(&g),
						 attr.latency_ns + (i < REL_ACKS_ALONE ? REL_ACK_DELAY_NS : 0));
		}
		/* those that share a datagram are many: their sender has more to do than to wait */
		acks = g.n[1].port.stats.acks_tx;
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		rig_run_for(&g, attr.latency_ns + REL_ACK_DELAY_NS / 2);
		assert_int_equal(g.n[1].port.stats.acks_tx, acks);
		assert_true(rig_run(&g, NS_PER_MS));
		rig_close(&g);
	}
}

/*
 * With enough to send for 400 rounds of 120 us. @computes: bit by bit, who looks at its socket in the last 20 us of
 * each round only; the others always do. @is_told: the reliability knows when they looked. Return: bytes that may be on
 * their way.
 */
static uint32_t window_of(uint32_t computes, bool is_told)
{
	struct sim_attr attr = {.seed = 28, .latency_ns = 5 * NS_PER_US};
	struct rig g;
	uint32_t cwnd;

	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	for (int i = 0; i < 10; i++)
		lone_frame(&g); /* how long a round trip is */
	for (int round = 0; round < 400; round++) {
		uint64_t end = rig_now(&g) + 120 * NS_PER_US;

		for (uint32_t i = 0; i < 2; i++) {
			if (computes & BIT(i))
				g.n[i].paused_until = end - 20 * NS_PER_US;
		}
		while (rig_peer(&g, 0, 1)->rel->q_bytes < 256 * 1024)
			assert_int_equal(rig_send(&g, 0, 1, 16 * 1024), 0);
		rel_flush(g.n[0].port.rel, rig_now(&g)); /* what is sent leaves before the program computes */
		while (rig_now(&g) < end) {
			rig_step(&g, end);
			for (uint32_t i = 0; i < 2; i++) {
				if (is_told && g.n[i].paused_until <= rig_now(&g))
					g.n[i].port.looked_ns = rig_now(&g);
			}
		}
	}
	cwnd = rig_peer(&g, 0, 1)->rel->cwnd;
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[0].port.stats.retrans, 0);
	rig_close(&g);
	return cwnd;
}

/* What has lain in the socket of who computes has not stood in a queue of the network. */
static void rel_window__who_computes_is_no_queue(void **state)
{
	for (uint32_t computes = 1; computes < 4; computes++) {
		assert_in_range(window_of(computes, false), REL_CWND_MIN, 2 * REL_CWND_FIRST);
		assert_in_range(window_of(computes, true), 3 * REL_CWND_FIRST, REL_CWND_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rel_send__small_frames_share_datagrams),
		cmocka_unit_test(rel_may_wait__in_the_middle_of_a_burst),
		cmocka_unit_test(rel_may_wait__after_a_long_call),
		cmocka_unit_test(rel_ack__of_a_lone_frame_that_nobody_answers),
		cmocka_unit_test(rel_window__who_computes_is_no_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
