// SPDX-License-Identifier: BSD-2-Clause
// Tests of a target without memory for what an initiator waits for: it is tried again, or refused before anything has
// happened.
#include "cassini_tgtfake.h"

/* Nothing is said of it while there is no memory, then both sides hear of it. */
static void retried(enum cassini_pkt_op op, enum cassini_event_type type, unsigned bulks)
{
	tf_no_event();
	g_tf.no_answers = true;
	assert_int_equal(g_tf.bulk_cnt, bulks);
	tf_bulk_end(0);
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 0);
	tf_no_event();
	g_tf.no_answers = false;
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 1);
	tf_event(type, CASSINI_RC_OK);
	assert_int_equal(tf_answer(1, op)->pkt.rc, CASSINI_RC_OK);
	tf_no_event();
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 0);
	assert_int_equal(g_tf.answer_cnt, 1);
}

static void answer__of_a_large_put(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	retried(CASSINI_PKT_REPLY, CASSINI_EV_PUT, 1);
	tf_close();
}

static void answer__of_one_that_software_matches(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append_any(CASSINI_REQUEST, g_tf_over, TF_BIG, 60);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(tf_put_bulk(1, 20000), 0);
	retried(CASSINI_PKT_REPLY, CASSINI_EV_PUT, 1);
	tf_close();
}

static void answer__of_a_large_get(void **state)
{
	struct cassini_pkt_in get = tf_pkt(CASSINI_PKT_GET, 1, TF_BIG);

	(void)state;
	tf_open(TF_MATCHING, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, TF_BIG, 1, 1);
	get.region = TF_REGION;
	get.raddr = (uintptr_t)g_tf_src;
	assert_int_equal(tf_send(&get, NULL), 0);
	retried(CASSINI_PKT_REPLY, CASSINI_EV_GET, 1);
	tf_close();
}

static void answer__of_a_rendezvous(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_rput(1, TF_BIG, 16), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	retried(CASSINI_PKT_RGET_DONE, CASSINI_EV_REPLY, 1);
	tf_close();
}

/* The Domain closes first: nobody hears it, and the receive ends all the same. */
static void answer__until_the_domain_closes(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	g_tf.no_answers = true;
	tf_bulk_end(0);
	tf_no_event();
	cassini_tgt_close(&g_tf.dom);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_close();
}

/* The portal table entry closes first: there is no event any more, but its initiator still waits. */
static void answer__of_an_entry_that_has_closed(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	g_tf.no_answers = true;
	tf_bulk_end(0);
	cassini_pte_close(g_tf.pte);
	g_tf.pte = NULL;
	g_tf.no_answers = false;
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 1);
	tf_answer(1, CASSINI_PKT_REPLY);
	tf_close();
}

/* No memory for the adapter's own Get: the message is refused before it is anywhere, and comes again. */
static void rendezvous__without_memory(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	mem_fail_nth(1);
	assert_int_equal(tf_rput(1, TF_BIG, 16), CASSINI_RC_PT_DISABLED);
	mem_fail_nth(0);
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_UNEXPECTED_FAIL);
	tf_no_event();
	assert_int_equal(g_tf.answer_cnt, 0);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 1); /* the receive waits */
	tf_close();
}

/* The same of one that came before its receive: the receive takes it when there is memory. */
static void rendezvous__unexpected_without_memory(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 7);
	struct cassini_le *le;

	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, TF_BIG, 50);
	assert_int_equal(tf_rput(1, TF_BIG, 16), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	/* what has been reserved for it goes */
	slab_fini(&g_tf.pte->copy_slab);
	assert_int_equal(slab_init(&g_tf.pte->copy_slab, sizeof(struct cassini_copy), CACHE_LINE, 64, 0), 0);
	le = cassini_le_new(g_tf.pte, &attr); /* so that the append takes no memory but for the copy */
	assert_non_null(le);
	cassini_le_free(le);
	mem_fail_nth(1);
	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	mem_fail_nth(0);
	tf_no_event();
	assert_int_equal(g_tf.bulk_cnt, 0);
	cassini_tgt_kick(&g_tf.dom);
	assert_int_equal(tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK).user_ptr, 7);
	assert_int_equal(g_tf.bulk_cnt, 1);
	tf_bulk_end(0);
	tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
	tf_answer(1, CASSINI_PKT_RGET_DONE);
	tf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer__of_a_large_put),
		cmocka_unit_test(answer__of_one_that_software_matches),
		cmocka_unit_test(answer__of_a_large_get),
		cmocka_unit_test(answer__of_a_rendezvous),
		cmocka_unit_test(answer__until_the_domain_closes),
		cmocka_unit_test(answer__of_an_entry_that_has_closed),
		cmocka_unit_test(rendezvous__without_memory),
		cmocka_unit_test(rendezvous__unexpected_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
