// SPDX-License-Identifier: BSD-2-Clause
// A peer dies while the target works for it, and another process has its address by the time that it would be answered
// (nic/cassini/cassini_copy.c): the new one hears nothing of that, loses nothing by it, and is asked for nothing.
#include "cassini_tgtfake.h"

static void another_lives_there(void)
{
	g_tf.peer.life++;
}

static void life__of_a_put(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	another_lives_there();
	tf_bulk_end(0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, TF_BIG);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_close();
}

/* Those of the request list are answered before their events are made. */
static void life__of_a_put_that_software_matches(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append_any(CASSINI_REQUEST, g_tf_dst, TF_BIG, 60);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(tf_put_bulk(1, 20000), 0);
	another_lives_there();
	tf_bulk_end(-ETIMEDOUT);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_close();
}

/* The adapter's own Get of an expected rendezvous. */
static void life__of_a_rendezvous(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_rput(1, TF_BIG, 2048), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	another_lives_there();
	tf_bulk_end(-ETIMEDOUT);
	tf_event(CASSINI_EV_REPLY, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_close();
}

/* An unexpected one is not fetched from whoever lives there when it is wanted. */
static void life__of_an_unexpected_rendezvous(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 4096, 50);
	assert_int_equal(tf_rput(1, TF_BIG, 2048), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	another_lives_there();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_true(tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK).get_issued);
	assert_int_equal(tf_event(CASSINI_EV_REPLY, CASSINI_RC_UNDELIVERABLE).user_ptr, 1);
	assert_int_equal(g_tf.bulk_cnt, 0);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_close();
}

/* A large Get, of a region. */
static void life__of_a_get(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_GET, 1, TF_BIG);

	(void)state;
	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_tf_dst;
	tf_open(TF_MATCHING, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_src, TF_BIG, 1, 1);
	assert_int_equal(tf_send(&pkt, NULL), 0);
	another_lives_there();
	tf_bulk_end(0);
	tf_event(CASSINI_EV_GET, CASSINI_RC_OK);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_close();
}

/* A Get of a rendezvous of ours, which has ended with its target: what has its number by now is another one. */
static void life__of_a_get_of_a_rendezvous(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_GET, 0xabcd, TF_BIG);
	struct cassini_op *op;

	(void)state;
	tf_open(TF_MATCHING, 32, 10);
	op = tf_source_open();
	pkt.pid_idx = 255;
	pkt.remote_offset = (uintptr_t)g_tf_src;
	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_tf_dst;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	another_lives_there();
	op->life = g_tf.peer.life;
	tf_bulk_end(-ETIMEDOUT);
	tf_no_event();
	assert_int_equal(g_tf.got_cnt, 0);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_source_close(op);
	tf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(life__of_a_put),
		cmocka_unit_test(life__of_a_put_that_software_matches),
		cmocka_unit_test(life__of_a_rendezvous),
		cmocka_unit_test(life__of_an_unexpected_rendezvous),
		cmocka_unit_test(life__of_a_get),
		cmocka_unit_test(life__of_a_get_of_a_rendezvous),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
