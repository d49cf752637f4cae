// SPDX-License-Identifier: BSD-2-Clause
// A peer dies while the target works for it, and another process has its address by the time that it would be answered
// (nic/cassini/cassini_copy.c): the new one hears nothing of that, loses nothing by it, and is asked for nothing. And a
// Domain of ours closes while events of it wait for those of another one.
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

/* Events tell software whose they were, for it may want to answer: as it was when the message came. */
static void life__of_what_software_answers(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 4096, 50);
	g_tf.peer.life = 3;
	assert_int_equal(tf_put(1, "abc", 3), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	another_lives_there();
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).life, 3);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK).life, 3);
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

/* Another Domain that the PTE is mapped into, and its peer; both end before the PTE does. */
struct second {
	struct cassini_dom dom;
	struct cassini_peer peer;
};

static struct second *second_open(void)
{
	struct second *s = mem_alloc(sizeof(*s));

	assert_non_null(s);
	s->dom = (struct cassini_dom){.nic = &g_tf.nic, .lni = &g_tf.lni, .vni = 1, .pid = 10};
	s->dom.match_id = CASSINI_MATCH_ID(10, 1);
	cassini_owe_init(&s->dom);
	s->peer = (struct cassini_peer){.dom = &s->dom, .link = (void *)&s->peer, .nic = TF_NIC, .pid = TF_PID};
	STAILQ_INIT(&s->peer.chain);
	LIST_INSERT_HEAD(&g_tf.nic.doms, &s->dom, link);
	assert_int_equal(cassini_pte_map(g_tf.pte, &s->dom, TF_IDX), 0);
	return s;
}

static void second_send(struct second *s, struct cassini_pkt_in *pkt)
{
	const uint8_t *abc = (const uint8_t *)"abc";

	pkt->pid = s->dom.pid;
	assert_in_range(cassini_tgt_frame(&s->dom, &s->peer, pkt, abc), 0, CASSINI_VERDICT_LIST + CASSINI_REQUEST);
}

/* As cassini_dom_close() does: what its link still has, the latest copy, ends. */
static void second_close(struct second *s)
{
	struct tf_bulk *b = &g_tf.bulk[--g_tf.bulk_cnt];

	cassini_pte_unmap(g_tf.pte, &s->dom, TF_IDX);
	s->dom.closing = true;
	b->work->on_bulk(b->work, -ECANCELED);
	cassini_tgt_close(&s->dom);
	assert_int_equal(s->peer.owe.total, 0);
	LIST_REMOVE(&s->dom, link);
	mem_free(s);
}

/* Software matches, and the first message is still to come: the events of the other Domain wait, which closes. */
static void life__of_a_domain_behind_another(void **state)
{
	struct cassini_pkt_in put = tf_pkt(CASSINI_PKT_PUT, 2, 3), bulk = tf_pkt(CASSINI_PKT_PUT_BULK, 3, 20000);
	struct cassini_event ev;
	struct second *s;

	(void)state;
	bulk.region = TF_REGION;
	bulk.raddr = (uintptr_t)g_tf_src;
	tf_open(TF_FLOWCTRL, 32, 10);
	s = second_open();
	tf_append_any(CASSINI_REQUEST, g_tf_over, TF_BIG, 60);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(tf_put_bulk(1, 20000), 0);
	second_send(s, &put);
	second_send(s, &bulk);
	second_close(s);
	tf_no_event();
	tf_bulk_end(0);
	assert_ptr_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).dom, &g_tf.dom);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(ev.match_bits, 2);
	assert_null(ev.dom);
	assert_null(tf_event(CASSINI_EV_PUT, CASSINI_RC_CANCELED).dom);
	assert_int_equal(g_tf.peer.owe.total, 0);
	tf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(life__of_a_put),
		cmocka_unit_test(life__of_a_put_that_software_matches),
		cmocka_unit_test(life__of_a_rendezvous),
		cmocka_unit_test(life__of_an_unexpected_rendezvous),
		cmocka_unit_test(life__of_what_software_answers),
		cmocka_unit_test(life__of_a_get),
		cmocka_unit_test(life__of_a_get_of_a_rendezvous),
		cmocka_unit_test(life__of_a_domain_behind_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
