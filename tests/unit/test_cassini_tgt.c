// SPDX-License-Identifier: BSD-2-Clause
// Tests of the target (nic/cassini/cassini_tgt.c, cassini_copy.c): bulk copies, rendezvous, Gets, atomics, events and
// counts, and peers that lie.
#include "cassini_tgtfake.h"

static const char g_data[] = "0123456789abcdefghijklmnopqrstuvwxyz";

/* --- large Puts --- */

static void cassini_put_bulk__fetched_then_told(void **state)
{
	const struct tf_answer *a;

	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 2);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_no_event();
	assert_int_equal(g_tf.answer_cnt, 0);
	assert_int_equal(g_tf.bulk_cnt, 1);
	assert_int_equal(g_tf.bulk[0].op, LINK_GET);
	/* its place is taken: the next one matches the next entry */
	assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 2);
	tf_bulk_end(0);
	struct cassini_event ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);

	assert_int_equal(ev.user_ptr, 1);
	assert_int_equal(ev.mlength, TF_BIG);
	assert_true(ev.auto_unlinked);
	assert_memory_equal(g_tf_dst + 4, g_tf_src + 4, TF_BIG - 4);
	a = tf_answer(1, CASSINI_PKT_REPLY);
	assert_int_equal(a->pkt.rc, CASSINI_RC_OK);
	assert_int_equal(a->pkt.handle, 4711);
	assert_int_equal(a->pkt.request_len, TF_BIG);
	assert_int_equal(a->pkt.ptl_list, CASSINI_PRIORITY);
	assert_int_equal(a->pkt.pid, TF_PID);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 0);
	tf_close();
}

static void cassini_put_bulk__truncated_to_nothing(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 0, 1, 1);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	assert_int_equal(g_tf.bulk_cnt, 0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, TF_BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.request_len, 0);
	tf_close();
}

static void cassini_put_bulk__bad_region_or_dead_peer(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 2);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 3);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 4);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 5);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_bulk_end(-EACCES);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.rc, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(g_tf.gone_cnt, 0);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_bulk_end(-ENOTCONN); /* its port closes; what it has sent before may come yet */
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_tf.gone_cnt, 0);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_bulk_end(-ETIMEDOUT);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_tf.gone_cnt, 1);
	g_tf.bulk_rc = -EHOSTUNREACH;
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	g_tf.peer.link = NULL;
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	tf_close();
}

static void cassini_put_bulk__path_full(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, TF_BIG, 1, 1);
	g_tf.bulk_rc = -EAGAIN;
	assert_int_equal(tf_put_bulk(1, 100), 0);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 0);
	g_tf.bulk_rc = 0;
	g_tf.bulk_sync = true;
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 2);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, 100);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, TF_BIG);
	assert_memory_equal(g_tf_dst, g_tf_src, TF_BIG);
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 0);
	g_tf.bulk_rc = -EAGAIN;
	assert_int_equal(tf_put_bulk(1, 100), 0);
	cassini_tgt_close(&g_tf.dom);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_CANCELED);
	tf_close();
}

static void cassini_put_bulk__taken_while_it_lands(void **state)
{
	struct cassini_event ev;

	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, TF_BIG, 50);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 7));
	assert_int_equal(tf_status().ule_cnt, 0); /* nobody else can have it */
	assert_non_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 8));
	tf_no_event();
	tf_bulk_end(0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).ptl_list, CASSINI_OVERFLOW);
	ev = tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	assert_int_equal(ev.user_ptr, 7);
	assert_ptr_equal(ev.start, g_tf_over);
	assert_true(ev.auto_unlinked);
	assert_memory_equal(g_tf_over, g_tf_src, TF_BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.ptl_list, CASSINI_OVERFLOW);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 2);
	tf_close();
}

static void cassini_put_bulk__lost_while_it_lands(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 2 * TF_BIG, 50);
	assert_int_equal(tf_put_bulk(1, 100), 0);
	assert_int_equal(tf_put_bulk(2, 100), 0);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 7));
	tf_bulk_end(-ETIMEDOUT);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_UNDELIVERABLE);
	tf_bulk_end(-ETIMEDOUT);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(tf_status().ule_cnt, 0); /* a header without message is of no use to anybody */
	tf_no_event();
	tf_close();
}

static void cassini_put_bulk__request_events_in_order(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append_any(CASSINI_REQUEST, g_tf_dst, TF_BIG, 60);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(tf_put_bulk(1, 20000), 0);
	assert_int_equal(tf_put(2, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	assert_int_equal(tf_put_bulk(3, 10000), 0);
	assert_int_equal(tf_put(4, g_data, 0), CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	tf_no_event();
	/* the second copy ends first */
	struct tf_bulk first = g_tf.bulk[0];

	g_tf.bulk[0] = g_tf.bulk[1];
	g_tf.bulk[1] = first;
	tf_bulk_end(0);
	tf_no_event();
	assert_int_equal(g_tf.answer_cnt, 1);
	tf_bulk_end(0);
	for (unsigned i = 1; i <= 4; i++)
		assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).match_bits, i);
	assert_memory_equal(g_tf_dst, g_tf_src, 20000);
	assert_memory_equal(g_tf_dst + 20000, g_data, 4);
	assert_memory_equal(g_tf_dst + 20004, g_tf_src, 10000);
	tf_answer(2, CASSINI_PKT_REPLY);
	tf_close();
}

/* A bulk Put of @len bytes to region 20 by @initiator. */
static void region_put(uint32_t initiator, uint32_t len, uint8_t flags)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT_BULK, 1, len);

	pkt.pid_idx = 20;
	pkt.initiator = initiator;
	pkt.flags = flags;
	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_tf_src;
	assert_int_equal(tf_send(&pkt, NULL), 0);
}

static void region_open(void)
{
	tf_open((struct cassini_pte_opts){0}, 32, 10);
	tf_fill();
	assert_int_equal(cassini_pte_map(g_tf.pte, &g_tf.dom, 20), 0);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, TF_BIG, 1, 1);
}

/* Writes to regions take effect in order: one copy after the other, of each peer. */
static void cassini_put_bulk__one_after_the_other(void **state)
{
	region_open();
	for (uint32_t i = 1; i <= 3; i++)
		region_put(TF_PEER, 1000 * i, 0);
	assert_int_equal(g_tf.bulk_cnt, 1);
	region_put(CASSINI_MATCH_ID(TF_PID + 1, TF_NIC), 4000, 0);   /* another peer */
	region_put(TF_PEER, 5000, CASSINI_PKTF_RESTRICTED); /* no order */
	assert_int_equal(g_tf.bulk_cnt, 3);
	tf_bulk_end(-EACCES); /* also a failure is an end */
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_NO_TRANSLATION).rlength, 1000);
	assert_int_equal(g_tf.bulk_cnt, 4);
	assert_int_equal(g_tf.bulk[3].len, 2000);
	tf_bulk_end(0);
	tf_bulk_end(0);
	assert_int_equal(g_tf.bulk_cnt, 4);
	tf_bulk_end(0);
	assert_int_equal(g_tf.bulk_cnt, 5);
	assert_int_equal(g_tf.bulk[4].len, 3000);
	tf_bulk_end(0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, 4000);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, 5000);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, 2000);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, 3000);
	tf_answer(5, CASSINI_PKT_REPLY);
	tf_close();
}

/* However many wait when the peer dies or the path is full: each ends once, and the stack stays flat. */
static void cassini_put_bulk__chain_ends_at_once(void **state)
{
	region_open();
	for (uint32_t i = 1; i <= 10; i++)
		region_put(TF_PEER, 1000 * i, 0);
	g_tf.bulk_rc = -EHOSTUNREACH;
	tf_bulk_end(-ETIMEDOUT);
	for (uint32_t i = 1; i <= 10; i++)
		assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE).rlength, 1000 * i);
	assert_true(STAILQ_EMPTY(&g_tf.peer.chain));
	g_tf.bulk_rc = -EAGAIN;
	region_put(TF_PEER, 1, 0);
	region_put(TF_PEER, 2, 0);
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 0);
	g_tf.bulk_rc = 0;
	g_tf.bulk_sync = true;
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 1);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, 1);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, 2);
	tf_close();
}

/* The entry goes while some fly and some wait. */
static void cassini_put_bulk__chain_and_a_closed_pte(void **state)
{
	region_open();
	for (uint32_t i = 1; i <= 3; i++)
		region_put(TF_PEER, 1000 * i, 0);
	tf_close();
	assert_true(STAILQ_EMPTY(&g_tf.peer.chain));
}

/* --- rendezvous --- */

static void check_rget_done(unsigned answers, uint32_t len)
{
	const struct tf_answer *a = tf_answer(answers, CASSINI_PKT_RGET_DONE);

	assert_int_equal(a->pkt.request_len, len);
	assert_int_equal(a->pkt.match_bits, 0xabcd);
	assert_int_equal(a->pkt.handle, 4711);
	assert_int_equal(a->pkt.initiator, CASSINI_MATCH_ID(9, 1));
}

static void cassini_rput__expected(void **state)
{
	struct cassini_event ev;

	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_rput(1, TF_BIG, 2048), 0);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(ev.rendezvous && ev.get_issued && ev.auto_unlinked);
	assert_int_equal(ev.mlength, 2048);
	assert_int_equal(ev.rlength, TF_BIG);
	assert_int_equal(ev.rendezvous_id, 33);
	assert_int_equal(g_tf.bulk[0].raddr, (uintptr_t)g_tf_src + 2048);
	assert_int_equal(g_tf.bulk[0].len, TF_BIG - 2048);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_bulk_end(0);
	ev = tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_true(ev.rendezvous);
	assert_int_equal(ev.user_ptr, 1);
	assert_int_equal(ev.initiator, TF_PEER);
	assert_int_equal(ev.rendezvous_id, 33);
	assert_int_equal(ev.mlength, TF_BIG - 2048);
	assert_memory_equal(g_tf_dst, g_tf_src, TF_BIG);
	check_rget_done(1, TF_BIG - 2048);
	assert_int_equal(g_tf.nic.stats.rgets, 1);
	tf_close();
}

static void cassini_rput__truncated(void **state)
{
	static const struct {
		uint32_t room, eager, rest;
	} row[] = {{0, 0, 0}, {100, 100, 0}, {2048, 2048, 0}, {2049, 2048, 1}, {3000, 2048, 952}};

	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		tf_open(TF_FLOWCTRL, 32, 10);
		tf_fill();
		g_tf.bulk_sync = true;
		tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, row[i].room, 1, 1);
		assert_int_equal(tf_rput(1, TF_BIG, 2048), 0);
		assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, row[i].eager);
		assert_int_equal(tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK).mlength, row[i].rest);
		check_rget_done(1, row[i].rest);
		assert_memory_equal(g_tf_dst, g_tf_src, row[i].room);
		for (unsigned k = 0; k < 64; k++)
			assert_int_equal(g_tf_dst[row[i].room + k], 0);
		tf_close();
	}
}

static void cassini_rput__unexpected(void **state)
{
	struct cassini_event put, ev;

	tf_open(TF_FLOWCTRL, 32, 10);
	tf_fill();
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 4096, 50);
	assert_int_equal(tf_rput(1, TF_BIG, 2048), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	put = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(put.rendezvous && !put.get_issued);
	assert_int_equal(put.mlength, 2048);
	assert_int_equal(g_tf.bulk_cnt, 0);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 7));
	ev = tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	assert_true(ev.rendezvous && ev.get_issued);
	assert_ptr_equal(ev.start, g_tf_over);
	assert_int_equal(ev.mlength, 2048);
	assert_int_equal(ev.rlength, TF_BIG);
	tf_bulk_end(0);
	ev = tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(ev.user_ptr, 7);
	assert_int_equal(ev.mlength, TF_BIG - 2048);
	assert_memory_equal(g_tf_over, g_tf_src, 2048);
	assert_memory_equal(g_tf_dst + 2048, g_tf_src + 2048, TF_BIG - 2048);
	check_rget_done(1, TF_BIG - 2048);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 1);
	tf_close();
}

static void cassini_rput__domain_closed_before_append(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 4096, 50);
	assert_int_equal(tf_rput(1, TF_BIG, 2048), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	cassini_pte_unmap(g_tf.pte, &g_tf.dom, TF_IDX);
	memset(&g_tf.peer, 0x5a, sizeof(g_tf.peer)); /* gone with its Domain */
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 7);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	tf_event(CASSINI_EV_REPLY, CASSINI_RC_CANCELED);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_close();
}

/* --- Gets --- */

static void cassini_get__small(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_GET, 1, 100);
	struct cassini_event ev;
	const struct tf_answer *a;

	tf_open(TF_MATCHING, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_src, TF_BIG, 1, 1);
	pkt.remote_offset = 1000;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	ev = tf_event(CASSINI_EV_GET, CASSINI_RC_OK);
	assert_int_equal(ev.mlength, 100);
	assert_int_equal(ev.remote_offset, 1000);
	a = tf_answer(1, CASSINI_PKT_REPLY);
	assert_int_equal(a->pkt.payload_len, 100);
	assert_memory_equal(a->data, g_tf_src + 1000, 100);
	pkt.remote_offset = TF_BIG - 99;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_ADDR_OUT_OF_RANGE);
	pkt.remote_offset = 0;
	pkt.request_len = CASSINI_FRAME_DATA + 1; /* needs a region */
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_CMD_INVALID_ARG);
	assert_int_equal(g_tf.got_cnt, 0);
	tf_close();
}

static void cassini_get__large(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_GET, 1, TF_BIG);

	tf_open(TF_MATCHING, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_src, TF_BIG, 1, 1);
	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_tf_dst;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	tf_no_event();
	assert_int_equal(g_tf.answer_cnt, 0);
	assert_int_equal(g_tf.bulk[0].op, LINK_PUT);
	tf_bulk_end(0);
	assert_int_equal(tf_event(CASSINI_EV_GET, CASSINI_RC_OK).mlength, TF_BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.request_len, TF_BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.payload_len, 0);
	assert_memory_equal(g_tf_dst, g_tf_src, TF_BIG);
	pkt.region = TF_BAD_KEY;
	g_tf.bulk_sync = true;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	tf_event(CASSINI_EV_GET, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(tf_answer(2, CASSINI_PKT_REPLY)->pkt.rc, CASSINI_RC_NO_TRANSLATION);
	tf_close();
}

static void cassini_get__rendezvous_source(void **state)
{
	static const struct {
		int64_t from;
		uint32_t len;
	} bad[] = {{-1, 10},	    {-(int64_t)TF_BIG, 1},	 {TF_BIG, 1},	{TF_BIG - 9, 10},
		   {INT64_MAX, 10}, {-(int64_t)0x100000000, 10}, {1LL << 40, 4}};
	struct cassini_pkt_in pkt;
	struct cassini_op *op;

	tf_open(TF_MATCHING, 32, 10);
	tf_fill();
	op = tf_source_open();
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		pkt = tf_pkt(CASSINI_PKT_GET, 0xabcd, bad[i].len);
		pkt.pid_idx = 255;
		pkt.remote_offset = (uintptr_t)g_tf_src + (uint64_t)bad[i].from;
		assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_NO_TRANSLATION);
	}
	pkt = tf_pkt(CASSINI_PKT_GET, 0xabcd, 10);
	pkt.pid_idx = 255;
	pkt.remote_offset = (uintptr_t)g_tf_src + TF_BIG - 10;
	pkt.initiator = CASSINI_MATCH_ID(TF_PID + 1, TF_NIC); /* not offered to that one */
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_NO_TRANSLATION);
	pkt.request_len = 0; /* nor may that one end it */
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(g_tf.got_cnt, 0);
	tf_no_event();
	pkt.request_len = 10;
	pkt.initiator = TF_PEER;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	assert_memory_equal(tf_answer(1, CASSINI_PKT_REPLY)->data, g_tf_src + TF_BIG - 10, 10);
	assert_int_equal(tf_event(CASSINI_EV_GET, CASSINI_RC_OK).user_ptr, 9);
	assert_int_equal(g_tf.got_cnt, 1);
	assert_int_equal(g_tf.got_bits, 0xabcd);
	pkt.request_len = TF_BIG;
	pkt.remote_offset = (uintptr_t)g_tf_src;
	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_tf_dst;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	assert_int_equal(g_tf.got_cnt, 1);
	tf_bulk_end(0);
	assert_int_equal(g_tf.got_cnt, 2);
	tf_event(CASSINI_EV_GET, CASSINI_RC_OK);
	assert_memory_equal(g_tf_dst, g_tf_src, TF_BIG);
	pkt.request_len = pkt.region = 0; /* its receiver has no room for any of it, which is its end, too */
	assert_int_equal(tf_send(&pkt, NULL), 0);
	assert_int_equal(g_tf.got_cnt, 3);
	tf_event(CASSINI_EV_GET, CASSINI_RC_OK);
	tf_source_close(op);
	tf_close();
}

static void cassini_put__whole_address_space_is_refused(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 4);

	tf_open(TF_MATCHING, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, NULL, UINT64_MAX, 1, 1);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 64, 2);
	pkt.remote_offset = (uintptr_t)g_tf_dst;
	assert_int_equal(tf_send(&pkt, g_data), CASSINI_RC_NO_TRANSLATION);
	pkt.request_len = pkt.payload_len = 0;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 2);
	tf_close();
}

static void cassini_tgt_rget_done__only_of_who_was_asked(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_RGET_DONE, 0xabcd, 2 * TF_BIG);
	struct cassini_op *op;

	tf_open(TF_MATCHING, 32, 10);
	op = tf_source_open();
	pkt.handle = slab_id(&g_tf.dom.ops, op) + 1;
	cassini_tgt_rget_done(&g_tf.dom, &g_tf.peer, &pkt);
	pkt.handle = slab_id(&g_tf.dom.ops, op);
	cassini_tgt_rget_done(&g_tf.dom, &g_tf.other, &pkt);
	pkt.match_bits = 0xabce;
	cassini_tgt_rget_done(&g_tf.dom, &g_tf.peer, &pkt);
	assert_int_equal(g_tf.nic.stats.malformed, 3);
	tf_no_event();
	pkt.match_bits = 0xabcd;
	cassini_tgt_rget_done(&g_tf.dom, &g_tf.peer, &pkt);
	struct cassini_event ev = tf_event(CASSINI_EV_GET, CASSINI_RC_OK);

	assert_int_equal(ev.user_ptr, 9);
	assert_int_equal(ev.match_bits, 0xabcd);
	assert_int_equal(ev.initiator, TF_PEER);
	assert_int_equal(ev.mlength, TF_BIG);
	assert_int_equal(g_tf.got_cnt, 1);
	cassini_tgt_get_event(&g_tf.dom, TF_PEER, 0xabcd, 0, CASSINI_RC_UNDELIVERABLE);
	tf_event(CASSINI_EV_GET, CASSINI_RC_UNDELIVERABLE);
	cassini_tgt_get_event(&g_tf.dom, TF_PEER, 0xabce, 0, CASSINI_RC_UNDELIVERABLE);
	tf_no_event();
	tf_source_close(op);
	tf_close();
}

/* --- atomics --- */

static void cassini_atomic__result_event_answer(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_ATOMIC, 1, 4);
	static uint32_t word[4];
	uint32_t old;

	tf_open(TF_MATCHING, 32, 10);
	word[1] = 40;
	tf_append(CASSINI_PRIORITY, TF_WINDOW, word, sizeof(word), 1, 1);
	pkt.remote_offset = 4;
	pkt.amo = (struct cassini_amo_in){.op = CASSINI_AMO_SUM, .type = CASSINI_T_U32, .op1 = {2}};
	assert_int_equal(tf_send(&pkt, NULL), 0);
	assert_int_equal(word[1], 42);
	assert_int_equal(tf_event(CASSINI_EV_ATOMIC, CASSINI_RC_OK).atomic_op, CASSINI_AMO_SUM);
	assert_int_equal(g_tf.answer_cnt, 0);
	pkt.op = CASSINI_PKT_FETCH;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	memcpy(&old, tf_answer(1, CASSINI_PKT_REPLY)->data, 4);
	assert_int_equal(old, 42);
	assert_int_equal(word[1], 44);
	tf_event(CASSINI_EV_FETCH_ATOMIC, CASSINI_RC_OK);
	pkt.remote_offset = 6;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_AMO_ALIGN_ERROR);
	tf_event(CASSINI_EV_FETCH_ATOMIC, CASSINI_RC_AMO_ALIGN_ERROR);
	pkt.remote_offset = 13;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_ADDR_OUT_OF_RANGE);
	pkt.remote_offset = 0;
	pkt.request_len = 8;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_AMO_LENGTH_ERROR);
	pkt.amo.op = 3;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_AMO_INVAL_OP_ERROR);
	tf_no_event();
	assert_int_equal(word[0] + word[2] + word[3], 0);
	tf_close();
}

/* Where messages are received an atomic, which no honest peer sends there, uses up no receive. */
static void cassini_atomic__not_to_messages(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_ATOMIC, 1, 4);
	struct cassini_pte_opts opts = TF_MATCHING;

	opts.no_atomic = true;
	tf_open(opts, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 8, 1, 1);
	pkt.amo = (struct cassini_amo_in){.op = CASSINI_AMO_SUM, .type = CASSINI_T_U32, .op1 = {2}};
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_OP_VIOLATION);
	pkt.op = CASSINI_PKT_FETCH;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_OP_VIOLATION);
	tf_no_event();
	assert_int_equal(tf_put(1, g_data, 4), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_close();
}

/* --- which events and counts --- */

static void cassini_tgt_report__flags(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, 64, 1, 1);

	tf_open(TF_MATCHING, 64, 20);
	attr.ct = &g_tf.ct;
	attr.flags |= CASSINI_LE_EVENT_SUCCESS_DISABLE | CASSINI_LE_EVENT_CT_COMM;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	assert_int_equal(tf_put(1, g_data, 10), 0);
	tf_no_event();
	assert_int_equal(g_tf.ct.success, 1);
	attr = tf_attr(CASSINI_PRIORITY, TF_WINDOW | CASSINI_LE_EVENT_CT_COMM | CASSINI_LE_EVENT_CT_BYTES, g_tf_dst, 64,
		       2, 2);
	attr.ct = &g_tf.ct;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	assert_int_equal(tf_put(2, g_data, 10), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(g_tf.ct.success, 11);
	assert_int_equal(tf_put_bulk(2, 20), 0);
	tf_bulk_end(-EACCES);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(g_tf.ct.success, 11);
	assert_int_equal(g_tf.ct.failure, 1);
	/* a rendezvous counts once, when all of it is there */
	assert_int_equal(tf_rput(2, 60, 10), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(g_tf.ct.success, 11);
	tf_bulk_end(0);
	tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(g_tf.ct.success, 71);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 64, 50);
	assert_int_equal(tf_put(3, g_data, 5), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	attr = tf_attr(CASSINI_PRIORITY, TF_RECV | CASSINI_LE_EVENT_CT_OVERFLOW, g_tf_dst, 64, 3, 3);
	attr.ct = &g_tf.ct;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	assert_int_equal(g_tf.ct.success, 72);
	tf_no_event();
	tf_close();
}

static void cassini_tgt_frame__match_event_first(void **state)
{
	tf_open((struct cassini_pte_opts){.is_matching = true, .en_event_match = true}, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 64, 1, 1);
	assert_int_equal(tf_put_bulk(1, 20), 0);
	assert_int_equal(tf_event(CASSINI_EV_MATCH, CASSINI_RC_OK).user_ptr, 1);
	tf_no_event();
	tf_bulk_end(0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	/* who hears of nothing hears not of this */
	tf_append(CASSINI_PRIORITY, TF_RECV | CASSINI_LE_EVENT_COMM_DISABLE, g_tf_dst, 64, 1, 2);
	assert_int_equal(tf_put(1, g_data, 20), 0);
	tf_no_event();
	tf_close();
}

/* --- anything a peer may send --- */

static void random_packet(struct rng *r, struct cassini_pkt_in *pkt)
{
	static const uint32_t lens[] = {0, 1, 4, 8, 100, 2048, CASSINI_FRAME_DATA, TF_BIG, UINT32_MAX};
	uint64_t offsets[] = {
		0,	   4, 100, TF_BIG, UINT32_MAX, UINT64_MAX, (uintptr_t)g_tf_src, (uintptr_t)g_tf_src + TF_BIG,
		1ULL << 63};

	*pkt = tf_pkt((enum cassini_pkt_op)(1 + rng_below(r, CASSINI_PKT_FETCH)), rng_below(r, 8),
		      lens[rng_below(r, ARRAY_SIZE(lens))]);
	if (rng_chance(r, 0.3))
		pkt->initiator += 1u << 23;
	if (rng_chance(r, 0.1))
		pkt->pid_idx = 255;
	if (rng_chance(r, 0.1))
		pkt->match_bits = 0xabcd;
	pkt->flags = rng_chance(r, 0.1) ? CASSINI_PKTF_RESTRICTED : 0;
	pkt->remote_offset = offsets[rng_below(r, ARRAY_SIZE(offsets))];
	pkt->region = rng_chance(r, 0.5) ? TF_BAD_KEY : 0;
	pkt->raddr = rng_u64(r);
	pkt->get_bits = rng_u64(r);
	pkt->handle = (uint32_t)rng_u64(r);
	pkt->amo = (struct cassini_amo_in){(uint8_t)rng_below(r, 16),
					   (uint8_t)rng_below(r, 16),
					   (uint8_t)rng_below(r, 8),
					   {rng_u64(r)},
					   {rng_u64(r)}};
	pkt->payload_len = 0;
	/* what the door lets pass */
	if (pkt->op == CASSINI_PKT_PUT)
		pkt->payload_len = pkt->request_len = MIN(pkt->request_len, CASSINI_FRAME_DATA);
	if (pkt->op == CASSINI_PKT_RPUT)
		pkt->payload_len = (uint32_t)rng_below(r, MIN(pkt->request_len, CASSINI_FRAME_DATA) + 1);
}

static void random_entry(struct rng *r)
{
	struct cassini_le_attr attr = tf_attr((enum cassini_list)rng_below(r, 3), (uint32_t)rng_u64(r) & 0xffff,
					      g_tf_dst, rng_below(r, TF_BIG + 1), rng_below(r, 8), rng_below(r, 1000));

	attr.ct = &g_tf.ct;
	attr.min_free = (uint32_t)rng_below(r, 5000);
	attr.ignore_bits = rng_chance(r, 0.3) ? 7 : 0;
	if (rng_chance(r, 0.05)) {
		attr.start = NULL;
		attr.length = UINT64_MAX;
	}
	cassini_append(g_tf.pte, &attr, NULL);
}

static void random_command(struct rng *r)
{
	struct cassini_search s = {rng_below(r, 8),    rng_below(r, 8),	   CASSINI_MATCH_ID_ANY,
				   rng_chance(r, 0.5), rng_chance(r, 0.5), 1};

	switch (rng_below(r, 4)) {
	case 0:
		cassini_search(g_tf.pte, &s);
		break;
	case 1:
		cassini_unlink(g_tf.pte, (enum cassini_list)rng_below(r, 3), rng_below(r, 1000), NULL);
		break;
	case 2:
		cassini_set_state(g_tf.pte, (enum cassini_pte_state)rng_below(r, 4), CASSINI_DROP_IGNORE);
		break;
	default:
		cassini_set_state(g_tf.pte, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE);
	}
}

static void random_step(struct rng *r)
{
	struct cassini_pkt_in pkt;
	uint64_t what = rng_below(r, 100);

	if (what < 50) {
		random_packet(r, &pkt);
		assert_in_range(tf_send(&pkt, g_tf_src), 0, CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	} else if (what < 70) {
		random_entry(r);
	} else if (what < 78) {
		random_command(r);
	} else if (what < 90 && g_tf.bulk_done < g_tf.bulk_cnt) {
		tf_bulk_end(rng_chance(r, 0.5) ? -EACCES : -ETIMEDOUT);
	} else if (cassini_eq_peek(g_tf.eq)) {
		cassini_eq_pop(g_tf.eq);
	}
	if (rng_chance(r, 0.1))
		g_tf.bulk_rc = rng_chance(r, 0.5) ? -EAGAIN : 0;
	g_tf.bulk_sync = rng_chance(r, 0.1) && g_tf.bulk_done == g_tf.bulk_cnt;
	cassini_tgt_kick(&g_tf.dom);
	if (g_tf.bulk_done == g_tf.bulk_cnt)
		g_tf.bulk_done = g_tf.bulk_cnt = 0;
}

static void cassini_tgt_frame__random_packets(void **state)
{
	struct rng r = unit_rng();

	for (unsigned round = 0; round < 100; round++) {
		struct cassini_op *op;

		tf_open((struct cassini_pte_opts){.is_matching = rng_chance(&r, 0.8),
						  .en_flowctrl = rng_chance(&r, 0.5),
						  .en_event_match = rng_chance(&r, 0.2)},
			(uint32_t)(4 + rng_below(&r, 40)), (uint32_t)(5 + rng_below(&r, 40)));
		op = tf_source_open();
		for (unsigned i = 0; i < 1000 && g_tf.bulk_cnt < TF_MAX - 2; i++)
			random_step(&r);
		tf_source_close(op);
		tf_close();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cassini_put_bulk__fetched_then_told),
		cmocka_unit_test(cassini_put_bulk__truncated_to_nothing),
		cmocka_unit_test(cassini_put_bulk__bad_region_or_dead_peer),
		cmocka_unit_test(cassini_put_bulk__path_full),
		cmocka_unit_test(cassini_put_bulk__taken_while_it_lands),
		cmocka_unit_test(cassini_put_bulk__lost_while_it_lands),
		cmocka_unit_test(cassini_put_bulk__request_events_in_order),
		cmocka_unit_test(cassini_put_bulk__one_after_the_other),
		cmocka_unit_test(cassini_put_bulk__chain_ends_at_once),
		cmocka_unit_test(cassini_put_bulk__chain_and_a_closed_pte),
		cmocka_unit_test(cassini_rput__expected),
		cmocka_unit_test(cassini_rput__truncated),
		cmocka_unit_test(cassini_rput__unexpected),
		cmocka_unit_test(cassini_rput__domain_closed_before_append),
		cmocka_unit_test(cassini_get__small),
		cmocka_unit_test(cassini_get__large),
		cmocka_unit_test(cassini_get__rendezvous_source),
		cmocka_unit_test(cassini_put__whole_address_space_is_refused),
		cmocka_unit_test(cassini_tgt_rget_done__only_of_who_was_asked),
		cmocka_unit_test(cassini_atomic__result_event_answer),
		cmocka_unit_test(cassini_atomic__not_to_messages),
		cmocka_unit_test(cassini_tgt_report__flags),
		cmocka_unit_test(cassini_tgt_frame__match_event_first),
		cmocka_unit_test(cassini_tgt_frame__random_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
