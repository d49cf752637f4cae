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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drops__counted_once),
		cmocka_unit_test(drops__without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
