// SPDX-License-Identifier: BSD-2-Clause
// The initiator before a lossless portal table entry that lets its senders wait: order, one at a time, ends.
#include "cassini_inifake.h"

#define BUSY CASSINI_RC_RESOURCE_BUSY

static struct world w;

/* Puts to index 0 are told apart by their length; AGAIN is what the target needs to see. */
static void sent_is(unsigned i, uint32_t len, bool again)
{
	struct cassini_pkt_in pkt = sent_pkt(i);

	assert_int_equal(pkt.request_len, len);
	assert_int_equal(!!(pkt.flags & CASSINI_PKTF_AGAIN), again);
}

static void kick_after(uint64_t us)
{
	g_inifake.now_ns += us * 1000;
	cassini_cmdq_kick(&w.dom);
}

static void put(uint32_t len)
{
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, len, 0), 0);
}

/*
 * Three are refused, a fourth is posted later: they go in that order, the first alone, and nothing is told to the
 * program meanwhile.
 */
static void pause__order_is_kept(void **state)
{
	(void)state;
	world_open(&w, 16, 16);
	w.peer[1].took = 1; /* it has taken others before */
	put(1), put(2), put(3);
	assert_int_equal(g_inifake.sents, 3);
	sent_end(0, BUSY);
	assert_int_equal(w.peer[1].took, 0); /* of no queue may a Put that nobody remembers go there now */
	cassini_peer_took(&w.peer[1], 0, true); /* nor does an earlier answer that comes late change that */
	assert_int_equal(w.peer[1].took, 0);
	put(4); /* stands behind it */
	kick_after(1000);
	assert_int_equal(g_inifake.sents, 3); /* two are still under way: they might come behind the first */
	sent_end(1, BUSY);
	sent_end(2, BUSY);
	kick_after(0);
	assert_int_equal(g_inifake.sents, 3); /* too early */
	kick_after(1000);
	assert_int_equal(g_inifake.sents, 4);
	sent_is(3, 1, true);
	kick_after(1000);
	assert_int_equal(g_inifake.sents, 4);
	sent_end(3, BUSY); /* still no room */
	kick_after(1000);
	sent_is(4, 1, true);
	expect_none(&w);
	sent_end(4, 0);
	kick_after(1000);
	assert_int_equal(g_inifake.sents, 8);
	for (unsigned i = 0; i < 3; i++) {
		sent_is(5 + i, 2 + i, false);
		sent_end(5 + i, CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	}
	for (unsigned i = 1; i <= 4; i++)
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, i);
	assert_int_equal(w.nic.stats.puts, 4); /* each once */
	world_close(&w);
}

/* What a process has taken says nothing of the next one at its place, though the answer comes after that one. */
static void took__by_an_earlier_life(void **state)
{
	(void)state;
	world_open(&w, 16, 16);
	put(1), put(2);
	sent_end(0, 0);
	assert_int_equal(w.peer[1].took, 1);
	w.peer[1].took = 0;
	w.peer[1].life++;
	sent_end(1, 0);
	assert_int_equal(w.peer[1].took, 0);
	for (unsigned i = 1; i <= 2; i++)
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, i);
	world_close(&w);
}

/* A rendezvous and a large Put have their memory open only while they are under way. */
static void pause__memory_is_closed(void **state)
{
	struct cassini_cmd cmd;

	(void)state;
	world_open(&w, 16, 16);
	cmd = cmd_of(&w, CASSINI_OP_RENDEZVOUS_PUT, 0, 20000, 0);
	cmd.eager_length = 100;
	cmd.get_bits = 77;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	put(30000);
	assert_int_equal(g_inifake.regions_live, 2);
	sent_end(0, BUSY);
	sent_end(1, BUSY);
	assert_int_equal(g_inifake.regions_live, 0);
	kick_after(1000);
	assert_int_equal(g_inifake.regions_live, 1);
	sent_is(2, 20000, true);
	sent_end(2, CASSINI_RC_PT_DISABLED); /* flow control took over: an answer like any other */
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_PT_DISABLED, 20000);
	kick_after(0);
	sent_is(3, 30000, false);
	sent_end(3, CASSINI_RC_PT_DISABLED);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_PT_DISABLED, 30000);
	world_close(&w);
}

/*
 * Other indices and other peers are not concerned, but what stands behind in the queue waits, as its traffic class
 * would.
 */
static void pause__who_is_concerned(void **state)
{
	struct cassini_cmd cmd;

	(void)state;
	world_open(&w, 16, 16);
	put(1);
	sent_end(0, BUSY);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 2, CASSINI_CMD_RESTRICTED), 0); /* no order */
	assert_int_equal(g_inifake.sents, 2);
	cmd = cmd_of(&w, CASSINI_OP_PUT, 0, 3, 0);
	cmd.pid = 2;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_int_equal(g_inifake.sents, 2);
	kick_after(1000);
	assert_int_equal(g_inifake.sents, 4);
	sent_is(2, 1, true);
	sent_is(3, 3, false);
	for (unsigned i = 1; i < 4; i++)
		sent_end(i, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 2);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 1);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 3);
	/* an index for regions has no such answer */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 5, 0), 0);
	sent_end(4, BUSY);
	expect_event(&w, CASSINI_EV_ACK, BUSY, 5);
	world_close(&w);
}

static void pause__queue_closes(void **state)
{
	(void)state;
	world_open(&w, 16, 16);
	put(1), put(2);
	sent_end(0, BUSY);
	sent_end(1, BUSY);
	cassini_cmdq_close(w.cq);
	w.cq = NULL;
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_CANCELED, 1);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_CANCELED, 2);
	world_close(&w);
}

/* A target that has given us up answers nothing of ours any more. */
static void death__said_by_the_target(void **state)
{
	(void)state;
	world_open(&w, 8, 8);
	assert_int_equal(post(&w, CASSINI_OP_GET, 20, 100, 0), 0);
	sent_end(0, 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, 0), 0);
	sent_end(1, CASSINI_RC_UNDELIVERABLE);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 1);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_UNDELIVERABLE, 100);
	assert_int_equal(g_inifake.gone, 1);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(took__by_an_earlier_life),
		cmocka_unit_test(pause__order_is_kept),
		cmocka_unit_test(pause__memory_is_closed),
		cmocka_unit_test(pause__who_is_concerned),
		cmocka_unit_test(pause__queue_closes),
		cmocka_unit_test(death__said_by_the_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
