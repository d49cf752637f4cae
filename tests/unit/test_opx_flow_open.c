// SPDX-License-Identifier: BSD-2-Clause
// The handshake of opx flows: what opens which direction, what it owes to whom, and what forged ones may not do.
#include "opx_rig.h"

static void opx_flow__forged_init_changes_nothing(void **state)
{
	struct rig g;

	(void)state;
	for (int local = 0; local < 2; local++) {
		uint64_t key, addr;
		uint32_t psn;

		rig_pair(&g, 3, local);
		key = rig_flow(&g, 1, 0)->rx_key;
		psn = rig_flow(&g, 1, 0)->rx_psn;
		addr = rig_flow(&g, 1, 0)->peer_addr;
		for (uint64_t i = 1; i < 10; i++)
			assert_true(rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 0, i * 977, i, 0)));
		assert_int_equal(rig_flow(&g, 1, 0)->rx_key, key);
		assert_int_equal(rig_flow(&g, 1, 0)->rx_psn, psn);
		assert_int_equal(rig_flow(&g, 1, 0)->peer_addr, addr);
		rig_more(&g);
		assert_int_equal(rig_peer(&g, 0, 1)->deads + rig_peer(&g, 1, 0)->deads, 0);
		rig_close(&g);
	}
}

static void opx_flow__init_of_the_same_epoch_resets_nothing(void **state)
{
	uint64_t key, sent;
	struct rig g;

	(void)state;
	rig_pair(&g, 4, false);
	key = rig_flow(&g, 1, 0)->rx_key;
	sent = g.sent;
	assert_true(rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 0, rig_flow(&g, 1, 0)->peer_epoch, rig_flow(&g, 1, 0)->rx_cookie, 0)));
	assert_int_equal(g.sent, sent + 1);
	assert_int_equal(le64_get(TAILQ_LAST(&g.wire, rig_pkts)->hdr.w[1]), key);
	assert_int_equal(le64_get(TAILQ_LAST(&g.wire, rig_pkts)->hdr.key), rig_flow(&g, 1, 0)->rx_cookie);
	assert_int_equal(rig_flow(&g, 1, 0)->rx_key_next, 0);
	rig_more(&g);
	rig_close(&g);
}

/* The answer counts only with the cookie of the question. */
static void opx_flow__forged_init_ack(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 5, false);
	g.loss = 1;
	assert_int_equal(rig_post(&g, 0, 1, 10, 0), -EAGAIN);
	assert_true(rig_forge(&g, 1, 0, rig_ud(OPX_UD_INIT_ACK, rig_flow(&g, 0, 1)->cookie ^ 2, 1, 99, 0)));
	assert_int_equal(rig_flow(&g, 0, 1)->state, OPX_FLOW_INIT);
	assert_true(rig_forge(&g, 1, 0, rig_ud(OPX_UD_INIT_ACK, 0, 1, 99, 0)));
	assert_int_equal(rig_flow(&g, 0, 1)->state, OPX_FLOW_INIT);
	g.loss = 0;
	rig_peer(&g, 0, 1)->want = 5;
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_true(rig_forge(&g, 1, 0, rig_ud(OPX_UD_INIT_ACK, rig_flow(&g, 0, 1)->cookie, 1, 99, 0)));
	rig_more(&g);
	rig_close(&g);
}

/* --- a receiver that does its duty and no more ---------------------------------------------------------------------- */

static int answer_err; /* of the answer's packet: it finds no room */

/* It answers the first packet from within its delivery; from then on nobody calls for progress there. */
static void answer_and_compute(struct rig_node *n, uint32_t from)
{
	if (n->idx != 1 || n->is_computing)
		return;
	n->pio_err = answer_err;
	assert_int_equal(rig_post(n->g, 1, from, 24, OPX_POST_CONTROL), 0);
	n->pio_err = 0;
	n->is_computing = true;
}

/* One handshake opens both directions. */
static void opx_flow__answer_of_a_stranger(void **state)
{
	struct rig g;

	(void)state;
	for (int local = 0; local < 2; local++) {
		answer_err = 0;
		rig_open(&g, 2, 6, local);
		g.on_deliver = answer_and_compute;
		rig_peer(&g, 0, 1)->want = 1;
		rig_run_for(&g, 100 * NS_PER_US);
		assert_true(g.n[1].is_computing);
		assert_int_equal(rig_peer(&g, 0, 1)->delivered, 1);
		assert_int_equal(rig_stats(&g, 0)->inits_tx + rig_stats(&g, 1)->inits_tx, 1);
		rig_close(&g);
	}
}

/* An answer that found no room, or that was lost, gets there while its sender computes, because its receiver waits and asks. */
static void opx_flow__late_answer(void **state)
{
	struct rig g;

	(void)state;
	for (int i = 0; i < 3; i++) {
		bool local = i & 1, lost = i & 2;

		answer_err = lost ? 0 : -EAGAIN;
		rig_open(&g, 2, 6, local);
		g.on_deliver = answer_and_compute;
		rig_peer(&g, 0, 1)->want = 1;
		while (!g.n[1].is_computing)
			rig_step(&g, g.now + NS_PER_MS);
		g.loss = lost;
		rig_run_for(&g, NS_PER_MS);
		g.loss = 0;
		opx_flow_wait(rig_flow(&g, 0, 1), 1);
		rig_run_for(&g, 2 * RIG_DEAD);
		assert_int_equal(rig_peer(&g, 0, 1)->delivered, 1);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
		opx_flow_wait(rig_flow(&g, 0, 1), -1);
		rig_close(&g);
	}
}

/* Two that compute ask each other nothing for ever, although each has sent something that the other has not seen. */
static void opx_flow__computing_both(void **state)
{
	struct rig g;

	(void)state;
	rig_pair(&g, 6, false);
	assert_int_equal(rig_post(&g, 0, 1, 24, 0), 0);
	assert_int_equal(rig_post(&g, 1, 0, 24, 0), 0);
	g.n[0].is_computing = g.n[1].is_computing = true;
	rig_run_for(&g, NS_PER_MS);
	rig_forge(&g, 0, 1, rig_ud(OPX_UD_PING, rig_flow(&g, 1, 0)->rx_key, rig_range(20, 0), 0, 0));
	g.sent = 0;
	rig_run_for(&g, NS_PER_SEC);
	assert_true(g.sent < 10);
	g.n[0].is_computing = g.n[1].is_computing = false;
	rig_more(&g);
	rig_close(&g);
}

/* What is offered to a stranger counts when he has shown that he is who he says: his first packet. */
static void opx_flow__forged_offer(void **state)
{
	struct rig g;

	(void)state;
	for (int local = 0; local < 2; local++) {
		rig_open(&g, 2, 7, local);
		rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 4711, 5, 6, 0));
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(rig_flow(&g, 1, 0)->state, OPX_FLOW_NEW);
		assert_int_equal(rig_post(&g, 1, 0, 24, 0), -EAGAIN); /* a handshake of its own */
		rig_peer(&g, 1, 0)->want = 5;
		assert_true(rig_run(&g, NS_PER_SEC));
		assert_int_not_equal(rig_flow(&g, 1, 0)->tx_key, 4711);
		rig_more(&g);
		assert_int_equal(rig_peer(&g, 0, 1)->deads + rig_peer(&g, 1, 0)->deads, 0);
		rig_close(&g);
	}
}

/* Nobody may use what was offered before he has answered, nor when the stream in has begun. */
static void opx_flow__offer_is_bound(void **state)
{
	struct hfi_hdr h = {.opcode = OPX_MSG_EAGER};
	struct rig g;

	(void)state;
	rig_open(&g, 2, 8, false);
	g.loss = 1;
	assert_int_equal(rig_post(&g, 0, 1, 10, 0), -EAGAIN);
	h.key = le64_put(rig_flow(&g, 0, 1)->rx_key_offer);
	assert_int_not_equal(le64_get(h.key), 0);
	rig_forge(&g, 1, 0, h);
	assert_int_equal(rig_stats(&g, 0)->bad_key, 1);
	g.loss = 0;
	rig_peer(&g, 0, 1)->want = 5;
	rig_peer(&g, 1, 0)->want = 5;
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(rig_flow(&g, 0, 1)->rx_key_offer, 0);
	assert_int_equal(rig_stats(&g, 0)->inits_tx + rig_stats(&g, 1)->inits_tx, 2); /* the one that came opened both ways */
	rig_more(&g);
	rig_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opx_flow__forged_init_changes_nothing),
		cmocka_unit_test(opx_flow__init_of_the_same_epoch_resets_nothing),
		cmocka_unit_test(opx_flow__forged_init_ack),
		cmocka_unit_test(opx_flow__answer_of_a_stranger),
		cmocka_unit_test(opx_flow__late_answer),
		cmocka_unit_test(opx_flow__computing_both),
		cmocka_unit_test(opx_flow__forged_offer),
		cmocka_unit_test(opx_flow__offer_is_bound),
	};

	return cmocka_run_group_tests_name("opx_flow_open", tests, NULL, NULL);
}
