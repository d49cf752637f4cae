// SPDX-License-Identifier: BSD-2-Clause
// Tests of what a disabled portal table entry remembers of the senders that it has refused
// (nic/cassini/cassini_drops.c).
#include "cassini_tgtfake.h"

static const char g_data[] = "0123";

/* One message without a place for it: from here on all are refused. */
static void shut(void)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_NO_MATCH);
}

/* What the peer says, as an event of its notice. */
static uint32_t told(uint32_t cnt)
{
	struct cassini_event ev = {.dom = &g_tf.dom, .initiator = TF_PEER, .life = g_tf.peer.life};

	g_tf.peer.match_id = TF_PEER;
	return cassini_drops_told(g_tf.pte, &ev, cnt);
}

static void drops__counted_once(void **state)
{
	(void)state;
	shut();
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 0);
	assert_int_equal(told(1), 1);
	assert_int_equal(told(1000), 1);
	assert_int_equal(told(1), 0);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 0);
	tf_close();
}

/*
 * There is no memory for the note of a refusal: nobody is waited for, since that one may die before it tells, and its
 * number would then be nobody's.
 */
static void drops__without_memory(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	mem_fail_nth(1);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	mem_fail_nth(0);
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_NO_MATCH);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(tf_status().drop_count, 2);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 1);
	assert_int_equal(told(2), 1);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 1);
	tf_close();
}

/* Thousands of senders are not asked after at each poll, and those that have gone are found all the same. */
static void drops__of_very_many(void **state)
{
	enum { CNT = 5000, MOST = 64 };
	struct cassini_peer *peers;
	unsigned before, calls = 0;

	(void)state;
	shut();
	peers = mem_alloc(CNT * sizeof(*peers));
	assert_non_null(peers);
	for (unsigned i = 0; i < CNT; i++) {
		peers[i] = (struct cassini_peer){.dom = &g_tf.dom, .nic = TF_NIC, .match_id = i};
		cassini_drops_add(g_tf.pte, &peers[i]);
	}
	before = g_tf.look_cnt;
	assert_int_equal(cassini_drops_lost(g_tf.pte), 0);
	assert_in_range(g_tf.look_cnt - before, 1, MOST);
	for (unsigned i = 0; i < CNT; i += 2)
		peers[i].life++;
	while (cassini_drops_lost(g_tf.pte) < CNT / 2)
		assert_in_range(++calls, 1, CNT);
	before = g_tf.look_cnt;
	assert_int_equal(cassini_drops_lost(g_tf.pte), CNT / 2);
	assert_in_range(g_tf.look_cnt - before, 1, MOST);
	assert_int_equal(told(1), 1);
	/* those few that are left are asked after once each */
	for (unsigned i = 5; i < CNT; i += 2)
		peers[i].life++;
	while (cassini_drops_lost(g_tf.pte) < CNT - 2)
		assert_in_range(++calls, 1, 2 * CNT);
	before = g_tf.look_cnt;
	assert_int_equal(cassini_drops_lost(g_tf.pte), CNT - 2);
	assert_int_equal(g_tf.look_cnt - before, 2);
	cassini_drops_clear(g_tf.pte, false);
	mem_free(peers);
	tf_close();
}

static int put_of_the_other(void)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 4);

	pkt.initiator = CASSINI_MATCH_ID(TF_PID + 1, TF_NIC);
	return tf_send(&pkt, g_data);
}

static void expect_put(void)
{
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, 4);
}

static void enable(uint32_t drops)
{
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_ENABLED, drops), 0);
	assert_int_equal(tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK).state, CASSINI_PTE_ENABLED);
}

/* A sender that does not tell is refused until it does. For others the entry goes on, and may stop and go on again. */
static void drops__of_who_stands_apart(void **state)
{
	struct cassini_pkt_in rput = tf_pkt(CASSINI_PKT_RPUT, 1, 4);

	(void)state;
	shut();
	assert_int_equal(put_of_the_other(), CASSINI_RC_PT_DISABLED);
	assert_int_equal(cassini_drops_part(g_tf.pte), 2);
	assert_int_equal(cassini_drops_part(g_tf.pte), 0);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 2);
	g_tf.other.life++; /* a new process there has not been refused */
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 8, 1, 1);
	for (int i = 0; i < 4; i++)
		tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 8, 1, 1);
	enable(2);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(tf_send(&rput, NULL), CASSINI_RC_PT_DISABLED);
	assert_int_equal(put_of_the_other(), 0);
	expect_put();
	assert_int_equal(tf_status().state, CASSINI_PTE_ENABLED);
	/* once more: who stands apart is counted as lost at once */
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 0);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 1);
	assert_int_equal(tf_status().drop_count, 1);
	assert_int_equal(told(3), 0);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 2);
	enable(2);
	assert_int_equal(put_of_the_other(), 0);
	expect_put();
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	/* all of it told: by the quick way again */
	assert_int_equal(told(3), 0);
	assert_true(g_tf.pte->is_open);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	expect_put();
	/* but it is not waited for a second time */
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(cassini_drops_lost(g_tf.pte), 1);
	enable(1);
	assert_false(g_tf.pte->is_open);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(told(2), 0);
	assert_true(g_tf.pte->is_open);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	expect_put();
	tf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drops__counted_once),
		cmocka_unit_test(drops__without_memory),
		cmocka_unit_test(drops__of_very_many),
		cmocka_unit_test(drops__of_who_stands_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
