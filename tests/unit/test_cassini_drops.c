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
	cassini_drops_clear(g_tf.pte);
	mem_free(peers);
	tf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drops__counted_once),
		cmocka_unit_test(drops__without_memory),
		cmocka_unit_test(drops__of_very_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
