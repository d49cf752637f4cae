// SPDX-License-Identifier: BSD-2-Clause
// The handshake of opx flows: what opens which direction, what it owes to whom, and what forged ones may not do.
#include "opx_rig.h"

static void opx_flow__forged_init_changes_nothing(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		uint64_t key, addr;
		uint32_t psn;

		rig_pair(&g, 3, where);
		key = rig_flow(&g, 1, 0)->rx_key;
		psn = rig_flow(&g, 1, 0)->rx_psn;
		addr = rig_flow(&g, 1, 0)->peer_addr;
		for (uint64_t i = 1; i < 10; i++)
			rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 0, i * 977, i, i & 1));
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
	rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 0, rig_flow(&g, 1, 0)->peer_epoch, rig_flow(&g, 1, 0)->rx_cookie, 0));
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
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_INIT_ACK, rig_flow(&g, 0, 1)->cookie ^ 2, 1, 99, 0));
	assert_int_equal(rig_flow(&g, 0, 1)->state, OPX_FLOW_INIT);
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_INIT_ACK, 0, 1, 99, 0));
	assert_int_equal(rig_flow(&g, 0, 1)->state, OPX_FLOW_INIT);
	g.loss = 0;
	rig_peer(&g, 0, 1)->want = 5;
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_INIT_ACK, rig_flow(&g, 0, 1)->cookie, 1, 99, 0));
	rig_more(&g);
	rig_close(&g);
}

/* --- a receiver that does its duty and no more --------------------------------------------------- */

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
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		answer_err = 0;
		rig_open(&g, 2, 6, where);
		g.on_deliver = answer_and_compute;
		rig_peer(&g, 0, 1)->want = 1;
		rig_run_for(&g, 100 * NS_PER_US);
		assert_true(g.n[1].is_computing);
		assert_int_equal(rig_peer(&g, 0, 1)->delivered, 1);
		assert_int_equal(rig_stats(&g, 0)->inits_tx + rig_stats(&g, 1)->inits_tx, where == RIG_NEAR ? 2 : 1);
		rig_close(&g);
	}
}

/*
 * An answer that found no room, or that was lost, gets there while its sender computes, because its receiver waits and
 * asks.
 */
static void opx_flow__late_answer(void **state)
{
	struct rig g;

	(void)state;
	for (int i = 0; i < RIG_WHERE_NUM + 1; i++) {
		int where = i % RIG_WHERE_NUM;
		bool lost = i == RIG_WHERE_NUM; /* between hosts */

		answer_err = lost ? 0 : -EAGAIN;
		rig_open(&g, 2, 6, where);
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
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_open(&g, 2, 7, where);
		rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 4711, 5, 6, 0));
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(rig_flow(&g, 1, 0)->state, OPX_FLOW_NEW);
		/* a handshake of its own */
		assert_int_equal(rig_post(&g, 1, 0, 24, 0), where == RIG_NEAR ? 0 : -EAGAIN);
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
	struct hfi_hdr h = {.opcode = OPX_MSG_EAGER, .bth1 = HFI_BTH_CUT};
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
	/* the one that came opened both ways */
	assert_int_equal(rig_stats(&g, 0)->inits_tx + rig_stats(&g, 1)->inits_tx, 2);
	rig_more(&g);
	rig_close(&g);
}

/* --- on one host -------------------------------------------------------------------------------------------------- */

/*
 * The first packet goes at once, whatever its receiver does: sleeps like the dead, computes, or sends its own first
 * packet.
 */
static void opx_flow__nobody_is_waited_for(void **state)
{
	struct rig g;

	(void)state;
	for (int i = 0; i < 4; i++) {
		rig_open(&g, 2, 9, RIG_NEAR);
		g.n[1].is_asleep = i == 1;
		g.n[1].is_computing = i == 2;
		assert_int_equal(rig_post(&g, 0, 1, 100, 0), 0);
		if (i == 3)
			assert_int_equal(rig_post(&g, 1, 0, 100, 0), 0);
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(rig_peer(&g, 1, 0)->delivered, i == 1 || i == 2 ? 0 : 1);
		g.n[1].is_asleep = g.n[1].is_computing = false;
		rig_more(&g);
		assert_int_equal(rig_stats(&g, 0)->inits_tx, 1);
		assert_int_equal(rig_stats(&g, 1)->inits_tx, 1);
		assert_int_equal(rig_peer(&g, 0, 1)->deads + rig_peer(&g, 1, 0)->deads, 0);
		assert_int_equal(rig_stats(&g, 0)->bad_key + rig_stats(&g, 1)->bad_key, 0);
		rig_close(&g);
	}
}

/*
 * The INIT that opens a stream finds no room: the call says so, and the next one tries again; what cannot be refused
 * goes when there is room.
 */
static void opx_flow__first_without_room(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 10, RIG_NEAR);
	g.n[0].pio_err = -EAGAIN;
	assert_int_equal(rig_post(&g, 0, 1, 100, 0), -EAGAIN);
	assert_int_equal(rig_post(&g, 0, 1, 100, 0), -EAGAIN);
	g.n[0].pio_err = 0;
	assert_int_equal(rig_post(&g, 0, 1, 100, 0), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	g.n[1].pio_err = -EAGAIN;
	assert_int_equal(rig_post(&g, 1, 0, 100, OPX_POST_CONTROL), 0);
	g.n[1].pio_err = 0;
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_more(&g);
	rig_close(&g);
}

/* The answer to an INIT that is sent once finds no room: it follows, and tells whose flow of which epoch that is. */
static void opx_flow__late_init_ack(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 11, RIG_NEAR);
	g.n[1].pio_err = -EAGAIN;
	assert_int_equal(rig_post(&g, 0, 1, 100, 0), 0);
	rig_run_for(&g, 100 * NS_PER_US);
	assert_int_equal(rig_peer(&g, 1, 0)->delivered, 1);
	assert_int_equal(rig_flow(&g, 0, 1)->peer_epoch, 0);
	g.n[1].pio_err = 0;
	rig_run_for(&g, 100 * NS_PER_US);
	assert_int_not_equal(rig_flow(&g, 0, 1)->peer_epoch, 0);
	assert_int_equal(rig_flow(&g, 0, 1)->peer_epoch, rig_flow(&g, 1, 0)->epoch);
	assert_false(rig_flow(&g, 1, 0)->owes_init_ack);
	rig_close(&g);
}

/* Nobody but one of this host may name the key: what comes over the network can be anybody's. */
static void opx_flow__key_named_from_afar(void **state)
{
	struct hfi_hdr h = {.opcode = OPX_MSG_EAGER, .bth1 = HFI_BTH_CUT, .key = le64_put(6)};
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_open(&g, 2, 12, where);
		rig_peer(&g, 1, 0)->rx_stream = rig_peer(&g, 1, 0)->rx_id = 0;
		rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 0, 5, 6, 1));
		rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, 0, 5, 0, 1)); /* no key at all */
		assert_int_equal(rig_stats(&g, 1)->malformed, where == RIG_FAR ? 2 : 1);
		if (where == RIG_FAR) {
			rig_forge(&g, 0, 1, h);
			assert_int_equal(rig_peer(&g, 1, 0)->delivered, 0);
			assert_int_equal(rig_stats(&g, 1)->bad_key, 1);
		} else {
			assert_int_equal(rig_flow(&g, 1, 0)->rx_key_next, 6);
		}
		rig_close(&g);
	}
}

/* An INIT that means the flow before this one opens nothing: its sender learns that, once, and both begin anew. */
static void opx_flow__key_for_another(void **state)
{
	struct rig g;

	(void)state;
	rig_pair(&g, 13, RIG_NEAR);
	rig_forge(&g, 0, 1, rig_ud(OPX_UD_INIT, rig_flow(&g, 1, 0)->epoch ^ 2, 5, 6, 1));
	assert_int_equal(rig_flow(&g, 1, 0)->rx_key_next, 0);
	rig_more(&g);
	assert_int_equal(rig_peer(&g, 0, 1)->deads + rig_peer(&g, 1, 0)->deads, 0);
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
		cmocka_unit_test(opx_flow__nobody_is_waited_for),
		cmocka_unit_test(opx_flow__first_without_room),
		cmocka_unit_test(opx_flow__late_init_ack),
		cmocka_unit_test(opx_flow__key_named_from_afar),
		cmocka_unit_test(opx_flow__key_for_another),
	};

	return cmocka_run_group_tests_name("opx_flow_open", tests, NULL, NULL);
}
