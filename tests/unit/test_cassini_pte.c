// SPDX-License-Identifier: BSD-2-Clause
// Tests of portal table entries and the target (nic/cassini/cassini_pte.c, cassini_tgt.c, cassini_copy.c): states, flow control, bulk copies,
// rendezvous, Gets, atomics, commands that pause, and peers that lie.
#include "cassini_tgtfake.h"

#define BIG 50000u

static char g_src[BIG], g_dst[BIG + 64], g_over[BIG + 64];
static const char g_data[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static void fill(void)
{
	for (unsigned i = 0; i < BIG; i++)
		g_src[i] = (char)(i * 7 + i / 256);
	memset(g_dst, 0, sizeof(g_dst));
	memset(g_over, 0, sizeof(g_over));
}

static int put_bulk(uint64_t bits, uint32_t len)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT_BULK, bits, len);

	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_src;
	return tf_send(&pkt, NULL);
}

static struct cassini_pkt_in rput_pkt(uint64_t bits, uint32_t len, uint32_t eager)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_RPUT, bits, len);

	pkt.payload_len = eager;
	pkt.region = TF_REGION;
	pkt.remote_offset = (uintptr_t)g_src;
	pkt.rendezvous_id = 33;
	pkt.get_bits = 0xabcd;
	return pkt;
}

static int rput(uint64_t bits, uint32_t len, uint32_t eager)
{
	struct cassini_pkt_in pkt = rput_pkt(bits, len, eager);

	return tf_send(&pkt, g_src);
}

static struct cassini_event expect_state(enum cassini_pte_state to, enum cassini_sc_reason why)
{
	struct cassini_event ev = tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);

	assert_int_equal(ev.state, to);
	assert_int_equal(ev.sc_reason, why);
	assert_true(ev.nic_auto);
	assert_int_equal(ev.user_ptr, (uintptr_t)&g_tf);
	return ev;
}

static struct cassini_le *append_any(enum cassini_list list, void *start, uint64_t len, uint64_t user_ptr)
{
	struct cassini_le_attr attr = tf_attr(list, TF_BUFFER, start, len, 0, user_ptr);
	struct cassini_le *le;

	attr.ignore_bits = UINT64_MAX;
	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	return le;
}

/* --- mapping --- */

static void cassini_pte_map__each_index_once(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 1);
	struct cassini_pte *other;

	tf_open(TF_MATCHING, 32, 100);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_dst, 8, 1, 1);
	assert_int_equal(cassini_pte_open(&g_tf.lni, NULL, &TF_MATCHING, NULL, &other), 0);
	assert_int_not_equal(cassini_pte_ptn(other), cassini_pte_ptn(g_tf.pte));
	assert_int_equal(cassini_pte_map(other, &g_tf.dom, TF_IDX), -EADDRINUSE);
	assert_int_equal(cassini_pte_map(other, &g_tf.dom, 256), -EINVAL);
	assert_int_equal(cassini_pte_map(g_tf.pte, &g_tf.dom, 200), 0);
	pkt.pid_idx = 200;
	assert_int_equal(tf_send(&pkt, g_data), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	cassini_pte_unmap(g_tf.pte, &g_tf.dom, 200);
	assert_int_equal(tf_send(&pkt, g_data), CASSINI_RC_PTLTE_NOT_FOUND);
	assert_int_equal(g_tf.nic.stats.ptlte_not_found, 1);
	assert_int_equal(cassini_pte_map(other, &g_tf.dom, 200), 0);
	assert_int_equal(tf_send(&pkt, g_data), CASSINI_RC_PT_DISABLED); /* RESET */
	assert_ptr_equal(cassini_pte_user(other), NULL);
	cassini_pte_close(other);
	assert_int_equal(tf_send(&pkt, g_data), CASSINI_RC_PTLTE_NOT_FOUND);
	tf_close();
}

static void cassini_pte_open__limits(void **state)
{
	struct cassini_pte *pte;

	tf_open(TF_MATCHING, 32, 100);
	g_tf.lni.svc.max[CASSINI_RSRC_PTE] = 1;
	assert_int_equal(cassini_pte_open(&g_tf.lni, NULL, &TF_MATCHING, NULL, &pte), -ENOSPC);
	g_tf.lni.svc.max[CASSINI_RSRC_PTE] = 2;
	mem_fail_nth(1);
	assert_int_equal(cassini_pte_open(&g_tf.lni, NULL, &TF_MATCHING, NULL, &pte), -ENOMEM);
	tf_close();
}

/* --- flow control and states --- */

static void cassini_set_state__drops_must_agree(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 100);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	expect_state(CASSINI_PTE_DISABLED, CASSINI_SC_FC_NO_MATCH);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 8, 1, 1);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(put_bulk(1, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(rput(1, 4, 2), CASSINI_RC_PT_DISABLED);
	assert_int_equal(tf_status().drop_count, 4);
	assert_int_equal(g_tf.nic.stats.pt_disabled_naks, 4);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_ENABLED, 3), 0);
	struct cassini_event ev = tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);

	assert_int_equal(ev.state, CASSINI_PTE_DISABLED);
	assert_int_equal(ev.sc_reason, CASSINI_SC_FC_NO_MATCH);
	assert_false(ev.nic_auto);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_ENABLED, 4), 0);
	assert_int_equal(tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK).state, CASSINI_PTE_ENABLED);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_ETHERNET, 0), -EINVAL);
	tf_close();
}

static void cassini_set_state__first_generation_counts_from_minus_one(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 100);
	g_tf.nic.info.version = 1;
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(tf_status().drop_count, 0xffffff);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(tf_status().drop_count, 0);
	tf_close();
}

static void cassini_tgt_frame__get_does_not_disable(void **state)
{
	struct cassini_pkt_in get = tf_pkt(CASSINI_PKT_GET, 1, 4);

	tf_open(TF_FLOWCTRL, 32, 100);
	assert_int_equal(tf_send(&get, NULL), CASSINI_RC_ENTRY_NOT_FOUND);
	assert_int_equal(tf_status().state, CASSINI_PTE_ENABLED);
	tf_no_event();
	tf_close();
}

static void cassini_tgt_frame__eq_full(void **state)
{
	tf_open(TF_FLOWCTRL, 4, 100);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_dst, 64, 1, 1);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(g_tf.nic.stats.eq_full, 1);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	expect_state(CASSINI_PTE_DISABLED, CASSINI_SC_FC_EQ_FULL);
	assert_int_equal(cassini_eq_dropped(g_tf.eq), 0);
	tf_close();
}

static void cassini_tgt_frame__eq_full_without_flowctrl(void **state)
{
	tf_open(TF_MATCHING, 2, 100);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_dst, 64, 1, 1);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(cassini_eq_dropped(g_tf.eq), 3);
	tf_close();
}

static void cassini_tgt_frame__no_entry_left_for_header(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 2);
	append_any(CASSINI_OVERFLOW, g_over, 64, 50);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	expect_state(CASSINI_PTE_DISABLED, CASSINI_SC_FC_UNEXPECTED_FAIL);
	assert_int_equal(g_tf.nic.stats.le_exhausted, 1);
	tf_close();
}

static void cassini_tgt_frame__software_takes_over(void **state)
{
	struct cassini_pkt_in get = tf_pkt(CASSINI_PKT_GET, 1, 4);
	struct cassini_event ev;

	tf_open(TF_FLOWCTRL, 32, 2);
	append_any(CASSINI_OVERFLOW, g_over, 64, 50);
	append_any(CASSINI_REQUEST, g_dst, 10, 60);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	expect_state(CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_SM_UNEXPECTED_FAIL);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(ev.ptl_list, CASSINI_REQUEST);
	assert_int_equal(ev.match_bits, 1);
	assert_int_equal(ev.header_data, 0x4ead + 1);
	assert_memory_equal(g_dst, g_data, 4);
	assert_int_equal(tf_send(&get, NULL), CASSINI_RC_PTLTE_SW_MANAGED);
	/* a rendezvous brings its eager bytes only, and software fetches the rest */
	assert_int_equal(rput(2, BIG, 6), CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(ev.rendezvous);
	assert_false(ev.get_issued);
	assert_int_equal(ev.mlength, 6);
	assert_int_equal(ev.rlength, BIG);
	assert_int_equal(ev.rendezvous_id, 33);
	assert_int_equal(ev.remote_offset, (uintptr_t)g_src);
	assert_ptr_equal(ev.start, g_dst + 4);
	assert_int_equal(g_tf.bulk_cnt, 0);
	/* nothing more fits */
	assert_int_equal(tf_put(1, g_data, 1), CASSINI_RC_PT_DISABLED);
	expect_state(CASSINI_PTE_DISABLED, CASSINI_SC_FC_REQUEST_FULL);
	tf_close();
}

static void cassini_append__software_takes_over(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 2);
	append_any(CASSINI_REQUEST, g_dst, 64, 60);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 64, 1, 1);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 64, 1, 2));
	assert_int_equal(tf_event(CASSINI_EV_LINK, CASSINI_RC_NO_SPACE).user_ptr, 2);
	expect_state(CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_SM_APPEND_FAIL);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 64, 1, 3));
	assert_int_equal(tf_event(CASSINI_EV_LINK, CASSINI_RC_PTLTE_SW_MANAGED).user_ptr, 3);
	assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 1, NULL), 0);
	tf_event(CASSINI_EV_UNLINK, CASSINI_RC_OK);
	assert_non_null(append_any(CASSINI_REQUEST, g_over, 64, 61));
	tf_close();
}

static void cassini_append__no_space_without_request_list(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 64, 1, 1);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 64, 1, 2));
	tf_event(CASSINI_EV_LINK, CASSINI_RC_NO_SPACE);
	tf_no_event();
	assert_int_equal(tf_status().state, CASSINI_PTE_ENABLED);
	tf_close();
}

static void cassini_pte_transition_sm__from_disabled_only(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	assert_int_equal(cassini_pte_transition_sm(g_tf.pte, 0), -EINVAL);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	expect_state(CASSINI_PTE_DISABLED, CASSINI_SC_FC_NO_MATCH);
	assert_int_equal(cassini_pte_transition_sm(g_tf.pte, 2), -EAGAIN);
	assert_int_equal(cassini_pte_transition_sm(g_tf.pte, 1), 0);
	assert_int_equal(tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK).state, CASSINI_PTE_SOFTWARE_MANAGED);
	tf_close();
}

/* --- large Puts --- */

static void cassini_put_bulk__fetched_then_told(void **state)
{
	const struct tf_answer *a;

	tf_open(TF_FLOWCTRL, 32, 10);
	fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 2);
	assert_int_equal(put_bulk(1, BIG), 0);
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
	assert_int_equal(ev.mlength, BIG);
	assert_true(ev.auto_unlinked);
	assert_memory_equal(g_dst + 4, g_src + 4, BIG - 4);
	a = tf_answer(1, CASSINI_PKT_REPLY);
	assert_int_equal(a->pkt.rc, CASSINI_RC_OK);
	assert_int_equal(a->pkt.handle, 4711);
	assert_int_equal(a->pkt.request_len, BIG);
	assert_int_equal(a->pkt.ptl_list, CASSINI_PRIORITY);
	assert_int_equal(a->pkt.pid, TF_PID);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 0);
	tf_close();
}

static void cassini_put_bulk__truncated_to_nothing(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 0, 1, 1);
	assert_int_equal(put_bulk(1, BIG), 0);
	assert_int_equal(g_tf.bulk_cnt, 0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).rlength, BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.request_len, 0);
	tf_close();
}

static void cassini_put_bulk__bad_region_or_dead_peer(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 2);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 3);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 4);
	assert_int_equal(put_bulk(1, BIG), 0);
	tf_bulk_end(-EACCES);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.rc, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(g_tf.gone_cnt, 0);
	assert_int_equal(put_bulk(1, BIG), 0);
	tf_bulk_end(-ETIMEDOUT);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_tf.gone_cnt, 1);
	g_tf.bulk_rc = -EHOSTUNREACH;
	assert_int_equal(put_bulk(1, BIG), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	g_tf.peer.link = NULL;
	assert_int_equal(put_bulk(1, BIG), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	tf_close();
}

static void cassini_put_bulk__path_full(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	fill();
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_dst, BIG, 1, 1);
	g_tf.bulk_rc = -EAGAIN;
	assert_int_equal(put_bulk(1, 100), 0);
	assert_int_equal(put_bulk(1, BIG), 0);
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 0);
	g_tf.bulk_rc = 0;
	g_tf.bulk_sync = true;
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 2);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, 100);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, BIG);
	assert_memory_equal(g_dst, g_src, BIG);
	assert_int_equal(cassini_tgt_kick(&g_tf.dom), 0);
	g_tf.bulk_rc = -EAGAIN;
	assert_int_equal(put_bulk(1, 100), 0);
	cassini_tgt_close(&g_tf.dom);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_CANCELED);
	tf_close();
}

static void cassini_put_bulk__taken_while_it_lands(void **state)
{
	struct cassini_event ev;

	tf_open(TF_FLOWCTRL, 32, 10);
	fill();
	append_any(CASSINI_OVERFLOW, g_over, BIG, 50);
	assert_int_equal(put_bulk(1, BIG), 0);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 7));
	assert_int_equal(tf_status().ule_cnt, 0); /* nobody else can have it */
	assert_non_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 8));
	tf_no_event();
	tf_bulk_end(0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).ptl_list, CASSINI_OVERFLOW);
	ev = tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	assert_int_equal(ev.user_ptr, 7);
	assert_ptr_equal(ev.start, g_over);
	assert_true(ev.auto_unlinked);
	assert_memory_equal(g_over, g_src, BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.ptl_list, CASSINI_OVERFLOW);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 2);
	tf_close();
}

static void cassini_put_bulk__lost_while_it_lands(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	append_any(CASSINI_OVERFLOW, g_over, 2 * BIG, 50);
	assert_int_equal(put_bulk(1, 100), 0);
	assert_int_equal(put_bulk(2, 100), 0);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 7));
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
	fill();
	append_any(CASSINI_REQUEST, g_dst, BIG, 60);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);
	assert_int_equal(put_bulk(1, 20000), 0);
	assert_int_equal(tf_put(2, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	assert_int_equal(put_bulk(3, 10000), 0);
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
	assert_memory_equal(g_dst, g_src, 20000);
	assert_memory_equal(g_dst + 20000, g_data, 4);
	assert_memory_equal(g_dst + 20004, g_src, 10000);
	tf_answer(2, CASSINI_PKT_REPLY);
	tf_close();
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
	fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 1);
	assert_int_equal(rput(1, BIG, 2048), 0);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(ev.rendezvous && ev.get_issued && ev.auto_unlinked);
	assert_int_equal(ev.mlength, 2048);
	assert_int_equal(ev.rlength, BIG);
	assert_int_equal(ev.rendezvous_id, 33);
	assert_int_equal(g_tf.bulk[0].raddr, (uintptr_t)g_src + 2048);
	assert_int_equal(g_tf.bulk[0].len, BIG - 2048);
	assert_int_equal(g_tf.answer_cnt, 0);
	tf_bulk_end(0);
	ev = tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_true(ev.rendezvous);
	assert_int_equal(ev.user_ptr, 1);
	assert_int_equal(ev.initiator, TF_PEER);
	assert_int_equal(ev.rendezvous_id, 33);
	assert_int_equal(ev.mlength, BIG - 2048);
	assert_memory_equal(g_dst, g_src, BIG);
	check_rget_done(1, BIG - 2048);
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
		fill();
		g_tf.bulk_sync = true;
		tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, row[i].room, 1, 1);
		assert_int_equal(rput(1, BIG, 2048), 0);
		assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, row[i].eager);
		assert_int_equal(tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK).mlength, row[i].rest);
		check_rget_done(1, row[i].rest);
		assert_memory_equal(g_dst, g_src, row[i].room);
		for (unsigned k = 0; k < 64; k++)
			assert_int_equal(g_dst[row[i].room + k], 0);
		tf_close();
	}
}

static void cassini_rput__unexpected(void **state)
{
	struct cassini_event put, ev;

	tf_open(TF_FLOWCTRL, 32, 10);
	fill();
	append_any(CASSINI_OVERFLOW, g_over, 4096, 50);
	assert_int_equal(rput(1, BIG, 2048), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	put = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(put.rendezvous && !put.get_issued);
	assert_int_equal(put.mlength, 2048);
	assert_int_equal(g_tf.bulk_cnt, 0);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 7));
	ev = tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	assert_true(ev.rendezvous && ev.get_issued);
	assert_ptr_equal(ev.start, g_over);
	assert_int_equal(ev.mlength, 2048);
	assert_int_equal(ev.rlength, BIG);
	tf_bulk_end(0);
	ev = tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(ev.user_ptr, 7);
	assert_int_equal(ev.mlength, BIG - 2048);
	assert_memory_equal(g_over, g_src, 2048);
	assert_memory_equal(g_dst + 2048, g_src + 2048, BIG - 2048);
	check_rget_done(1, BIG - 2048);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 1);
	tf_close();
}

static void cassini_rput__domain_closed_before_append(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 10);
	append_any(CASSINI_OVERFLOW, g_over, 4096, 50);
	assert_int_equal(rput(1, BIG, 2048), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	cassini_pte_unmap(g_tf.pte, &g_tf.dom, TF_IDX);
	memset(&g_tf.peer, 0x5a, sizeof(g_tf.peer)); /* gone with its Domain */
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 7);
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
	fill();
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_src, BIG, 1, 1);
	pkt.remote_offset = 1000;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	ev = tf_event(CASSINI_EV_GET, CASSINI_RC_OK);
	assert_int_equal(ev.mlength, 100);
	assert_int_equal(ev.remote_offset, 1000);
	a = tf_answer(1, CASSINI_PKT_REPLY);
	assert_int_equal(a->pkt.payload_len, 100);
	assert_memory_equal(a->data, g_src + 1000, 100);
	pkt.remote_offset = BIG - 99;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_ADDR_OUT_OF_RANGE);
	pkt.remote_offset = 0;
	pkt.request_len = CASSINI_FRAME_DATA + 1; /* needs a region */
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_CMD_INVALID_ARG);
	assert_int_equal(g_tf.got_cnt, 0);
	tf_close();
}

static void cassini_get__large(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_GET, 1, BIG);

	tf_open(TF_MATCHING, 32, 10);
	fill();
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_src, BIG, 1, 1);
	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_dst;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	tf_no_event();
	assert_int_equal(g_tf.answer_cnt, 0);
	assert_int_equal(g_tf.bulk[0].op, LINK_PUT);
	tf_bulk_end(0);
	assert_int_equal(tf_event(CASSINI_EV_GET, CASSINI_RC_OK).mlength, BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.request_len, BIG);
	assert_int_equal(tf_answer(1, CASSINI_PKT_REPLY)->pkt.payload_len, 0);
	assert_memory_equal(g_dst, g_src, BIG);
	pkt.region = TF_BAD_KEY;
	g_tf.bulk_sync = true;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	tf_event(CASSINI_EV_GET, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(tf_answer(2, CASSINI_PKT_REPLY)->pkt.rc, CASSINI_RC_NO_TRANSLATION);
	tf_close();
}

/* A RENDEZVOUS_PUT of ours to the peer, and the entry at 255 that its software posts. */
static struct cassini_op *source_open(void)
{
	struct cassini_op *op = slab_get(&g_tf.dom.ops);

	assert_non_null(op);
	memset(op, 0, sizeof(*op));
	op->peer = &g_tf.peer;
	op->in_rdzv = true;
	op->cmd.local_addr = g_src;
	op->cmd.request_len = BIG;
	op->cmd.get_bits = 0xabcd;
	op->rdzv.tag = 0xabcd;
	op->rdzv.src = TF_PEER;
	mt_unexp_add(&g_tf.dom.rdzv, &op->rdzv);
	assert_int_equal(cassini_pte_map(g_tf.pte, &g_tf.dom, 255), 0);
	tf_append(CASSINI_PRIORITY, CASSINI_LE_OP_GET | CASSINI_LE_EVENT_LINK_DISABLE, NULL, UINT64_MAX, 0xabcd, 9);
	return op;
}

static void source_close(struct cassini_op *op)
{
	mt_unexp_del(&g_tf.dom.rdzv, &op->rdzv);
	slab_put(&g_tf.dom.ops, op);
}

static void cassini_get__rendezvous_source(void **state)
{
	static const struct {
		int64_t from;
		uint32_t len;
	} bad[] = {{-1, 10}, {-(int64_t)BIG, 1}, {BIG, 1}, {BIG - 9, 10}, {INT64_MAX, 10}, {-(int64_t)0x100000000, 10}, {1LL << 40, 4}};
	struct cassini_pkt_in pkt;
	struct cassini_op *op;

	tf_open(TF_MATCHING, 32, 10);
	fill();
	op = source_open();
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		pkt = tf_pkt(CASSINI_PKT_GET, 0xabcd, bad[i].len);
		pkt.pid_idx = 255;
		pkt.remote_offset = (uintptr_t)g_src + (uint64_t)bad[i].from;
		assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_NO_TRANSLATION);
	}
	pkt = tf_pkt(CASSINI_PKT_GET, 0xabcd, 10);
	pkt.pid_idx = 255;
	pkt.remote_offset = (uintptr_t)g_src + BIG - 10;
	pkt.initiator = CASSINI_MATCH_ID(TF_PID + 1, TF_NIC); /* not offered to that one */
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(g_tf.got_cnt, 0);
	tf_no_event();
	pkt.initiator = TF_PEER;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	assert_memory_equal(tf_answer(1, CASSINI_PKT_REPLY)->data, g_src + BIG - 10, 10);
	assert_int_equal(tf_event(CASSINI_EV_GET, CASSINI_RC_OK).user_ptr, 9);
	assert_int_equal(g_tf.got_cnt, 1);
	assert_int_equal(g_tf.got_bits, 0xabcd);
	pkt.request_len = BIG;
	pkt.remote_offset = (uintptr_t)g_src;
	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_dst;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	assert_int_equal(g_tf.got_cnt, 1);
	tf_bulk_end(0);
	assert_int_equal(g_tf.got_cnt, 2);
	tf_event(CASSINI_EV_GET, CASSINI_RC_OK);
	assert_memory_equal(g_dst, g_src, BIG);
	source_close(op);
	tf_close();
}

static void cassini_put__whole_address_space_is_refused(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 4);

	tf_open(TF_MATCHING, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, NULL, UINT64_MAX, 1, 1);
	append_any(CASSINI_OVERFLOW, g_over, 64, 2);
	pkt.remote_offset = (uintptr_t)g_dst;
	assert_int_equal(tf_send(&pkt, g_data), CASSINI_RC_NO_TRANSLATION);
	pkt.request_len = pkt.payload_len = 0;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 2);
	tf_close();
}

static void cassini_tgt_rget_done__only_of_who_was_asked(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_RGET_DONE, 0xabcd, 2 * BIG);
	struct cassini_op *op;

	tf_open(TF_MATCHING, 32, 10);
	op = source_open();
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
	assert_int_equal(ev.mlength, BIG);
	assert_int_equal(g_tf.got_cnt, 1);
	cassini_tgt_get_event(&g_tf.dom, TF_PEER, 0xabcd, 0, CASSINI_RC_UNDELIVERABLE);
	tf_event(CASSINI_EV_GET, CASSINI_RC_UNDELIVERABLE);
	cassini_tgt_get_event(&g_tf.dom, TF_PEER, 0xabce, 0, CASSINI_RC_UNDELIVERABLE);
	tf_no_event();
	source_close(op);
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

/* --- which events and counts --- */

static void cassini_tgt_report__flags(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, TF_WINDOW, g_dst, 64, 1, 1);

	tf_open(TF_MATCHING, 64, 20);
	attr.ct = &g_tf.ct;
	attr.flags |= CASSINI_LE_EVENT_SUCCESS_DISABLE | CASSINI_LE_EVENT_CT_COMM;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	assert_int_equal(tf_put(1, g_data, 10), 0);
	tf_no_event();
	assert_int_equal(g_tf.ct.success, 1);
	attr = tf_attr(CASSINI_PRIORITY, TF_WINDOW | CASSINI_LE_EVENT_CT_COMM | CASSINI_LE_EVENT_CT_BYTES, g_dst, 64, 2, 2);
	attr.ct = &g_tf.ct;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	assert_int_equal(tf_put(2, g_data, 10), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(g_tf.ct.success, 11);
	assert_int_equal(put_bulk(2, 20), 0);
	tf_bulk_end(-EACCES);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(g_tf.ct.success, 11);
	assert_int_equal(g_tf.ct.failure, 1);
	/* a rendezvous counts once, when all of it is there */
	assert_int_equal(rput(2, 60, 10), 0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(g_tf.ct.success, 11);
	tf_bulk_end(0);
	tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(g_tf.ct.success, 71);
	append_any(CASSINI_OVERFLOW, g_over, 64, 50);
	assert_int_equal(tf_put(3, g_data, 5), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	attr = tf_attr(CASSINI_PRIORITY, TF_RECV | CASSINI_LE_EVENT_CT_OVERFLOW, g_dst, 64, 3, 3);
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
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, 64, 1, 1);
	assert_int_equal(put_bulk(1, 20), 0);
	assert_int_equal(tf_event(CASSINI_EV_MATCH, CASSINI_RC_OK).user_ptr, 1);
	tf_no_event();
	tf_bulk_end(0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_close();
}

/* --- commands --- */

static void cassini_append__bad_attributes(void **state)
{
	struct cassini_le_attr bad[] = {
		tf_attr((enum cassini_list)3, TF_RECV, g_dst, 8, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, g_dst, UINT64_MAX - 1, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, g_dst, UINT64_MAX, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, NULL, UINT64_MAX, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, g_dst, 8, 1, 1),
	};

	tf_open(TF_MATCHING, 32, 10);
	bad[4].min_free = 1 << 24;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(cassini_append(g_tf.pte, &bad[i], NULL), -EINVAL);
	tf_no_event();
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 0);
	tf_close();
}

static void cassini_append__eq_without_slots(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, TF_RECV, g_dst, 64, 1, 1);
	struct cassini_search s = {.match_id = CASSINI_MATCH_ID_ANY};

	tf_open(TF_MATCHING, 3, 10);
	append_any(CASSINI_OVERFLOW, g_over, 64, 50);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(tf_put(1, g_data, 5), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), -EAGAIN);
	assert_int_equal(cassini_search(g_tf.pte, &s), -EAGAIN);
	assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 1, NULL), -EAGAIN);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_DISABLED, 0), -EAGAIN);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 4);
	for (unsigned i = 0; i < 3; i++)
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	tf_close();
}

/* More hits than the EQ can hold: it pauses, nothing is lost, and what arrives meanwhile comes after. */
static void cassini_append__more_hits_than_slots(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL, g_dst, 1000, 1, 7);
	struct cassini_le *le;
	unsigned hits = 0, links = 0, puts = 0;

	tf_open(TF_MATCHING, 8, 100);
	append_any(CASSINI_OVERFLOW, g_over, 1000, 50);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(tf_put(1, &g_data[i], 1), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	}
	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	assert_non_null(le);
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), -EAGAIN);
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_DISABLED, 0), -EAGAIN);
	for (unsigned i = 20; i < 22; i++) {
		tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		hits++;
		assert_int_equal(tf_put(1, &g_data[i], 1), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	}
	for (const struct cassini_event *ev; (ev = cassini_eq_peek(g_tf.eq)) != NULL; cassini_tgt_kick(&g_tf.dom)) {
		if (ev->type == CASSINI_EV_PUT_OVERFLOW)
			assert_int_equal(*(char *)ev->start, g_data[hits++]);
		links += ev->type == CASSINI_EV_LINK;
		puts += ev->type == CASSINI_EV_PUT;
		cassini_eq_pop(g_tf.eq);
	}
	assert_int_equal(hits, 22);
	assert_int_equal(links, 1);
	assert_int_equal(puts, 2);
	assert_int_equal(tf_put(1, g_data, 1), 0); /* linked */
	assert_ptr_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).start, g_dst + 22);
	assert_int_equal(cassini_eq_dropped(g_tf.eq), 0);
	tf_close();
}

static void cassini_search__more_hits_than_slots(void **state)
{
	struct cassini_search s = {.match_bits = 1, .match_id = CASSINI_MATCH_ID_ANY, .delete = true, .user_ptr = 77};
	unsigned hits = 0, ends = 0;

	tf_open(TF_MATCHING, 4, 100);
	append_any(CASSINI_OVERFLOW, g_over, 1000, 50);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(tf_put(i % 2, &g_data[i], 1), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	}
	assert_int_equal(cassini_search(g_tf.pte, &s), 0);
	for (const struct cassini_event *ev; (ev = cassini_eq_peek(g_tf.eq)) != NULL; cassini_tgt_kick(&g_tf.dom)) {
		assert_int_equal(ev->user_ptr, 77);
		if (ev->type == CASSINI_EV_PUT_OVERFLOW)
			assert_int_equal(*(char *)ev->start, g_data[2 * hits++ + 1]);
		ends += ev->type == CASSINI_EV_SEARCH && ev->rc == CASSINI_RC_NO_MATCH;
		cassini_eq_pop(g_tf.eq);
	}
	assert_int_equal(hits, 10);
	assert_int_equal(ends, 1);
	assert_int_equal(tf_status().ule_cnt, 10);
	tf_close();
}

static void cassini_search__deleting_waits_for_what_lands(void **state)
{
	struct cassini_search s = {.match_id = CASSINI_MATCH_ID_ANY, .ignore_bits = UINT64_MAX, .user_ptr = 77};

	tf_open(TF_MATCHING, 32, 100);
	append_any(CASSINI_OVERFLOW, g_over, BIG, 50);
	assert_int_equal(put_bulk(1, 100), 0);
	assert_int_equal(put_bulk(2, 100), 0);
	assert_int_equal(cassini_search(g_tf.pte, &s), 0);
	assert_int_equal(tf_event(CASSINI_EV_SEARCH, CASSINI_RC_OK).match_bits, 1);
	assert_int_equal(tf_event(CASSINI_EV_SEARCH, CASSINI_RC_OK).match_bits, 2);
	tf_event(CASSINI_EV_SEARCH, CASSINI_RC_NO_MATCH);
	s.delete = true;
	assert_int_equal(cassini_search(g_tf.pte, &s), 0);
	tf_no_event();
	tf_bulk_end(0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	tf_no_event();
	tf_bulk_end(-ETIMEDOUT); /* the header that the search stands at goes */
	tf_event(CASSINI_EV_PUT, CASSINI_RC_UNDELIVERABLE);
	tf_event(CASSINI_EV_SEARCH, CASSINI_RC_NO_MATCH);
	tf_no_event();
	tf_close();
}

static void cassini_unlink__after_the_last_event(void **state)
{
	struct cassini_le *le;

	tf_open(TF_MATCHING, 32, 100);
	le = tf_append(CASSINI_PRIORITY, TF_WINDOW, g_dst, BIG, 1, 1);
	assert_int_equal(put_bulk(1, 100), 0);
	assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 1, le), 0);
	tf_no_event();
	assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 1, le), 0);
	tf_event(CASSINI_EV_UNLINK, CASSINI_RC_ENTRY_NOT_FOUND);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_ENTRY_NOT_FOUND);
	tf_bulk_end(0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_false(tf_event(CASSINI_EV_UNLINK, CASSINI_RC_OK).auto_unlinked);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 0);
	assert_int_equal(cassini_unlink(g_tf.pte, (enum cassini_list)7, 1, NULL), 0);
	tf_event(CASSINI_EV_UNLINK, CASSINI_RC_ENTRY_NOT_FOUND);
	tf_close();
}

static void cassini_invalidate__waits_for_copies(void **state)
{
	struct cassini_le *le;

	tf_open(TF_MATCHING, 32, 100);
	le = tf_append(CASSINI_PRIORITY, TF_WINDOW, g_dst, BIG, 1, 1);
	assert_int_equal(put_bulk(1, 100), 0);
	assert_int_equal(cassini_invalidate(g_tf.pte, le), -EAGAIN);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_ENTRY_NOT_FOUND);
	assert_int_equal(cassini_invalidate(g_tf.pte, le), -EAGAIN);
	tf_bulk_end(0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(cassini_invalidate(g_tf.pte, le), 0);
	assert_int_equal(cassini_invalidate(g_tf.pte, le), -ENOENT);
	assert_int_equal(cassini_invalidate(g_tf.pte, NULL), -ENOENT);
	tf_no_event();
	tf_close();
}

static void cassini_invalidate__of_a_paused_append(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL, g_dst, 1000, 1, 7);
	struct cassini_le *le;

	tf_open(TF_MATCHING, 4, 100);
	append_any(CASSINI_OVERFLOW, g_over, 1000, 50);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(tf_put(1, g_data, 1), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	}
	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	assert_int_equal(cassini_invalidate(g_tf.pte, le), 0);
	while (cassini_eq_peek(g_tf.eq))
		tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	cassini_tgt_kick(&g_tf.dom);
	tf_no_event();
	assert_int_equal(cassini_eq_free(g_tf.eq), 4);
	tf_close();
}

static void cassini_pte_status__offsets_in_order(void **state)
{
	struct cassini_pte_status st;
	uint64_t offset[8] = {0};

	tf_open(TF_MATCHING, 32, 100);
	append_any(CASSINI_OVERFLOW, g_over, 1000, 50);
	for (unsigned i = 0; i < 5; i++) {
		struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 1);

		pkt.remote_offset = 100 + i;
		assert_int_equal(tf_send(&pkt, g_data), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	}
	cassini_pte_status(g_tf.pte, &st, offset, 4);
	assert_int_equal(st.ule_cnt, 5);
	assert_int_equal(st.les_used, 6);
	assert_int_equal(st.les_max, 100);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(offset[i], 100 + i);
	assert_int_equal(offset[4], 0);
	tf_close();
}

/* --- the end --- */

static void cassini_pte_close__drains(void **state)
{
	tf_open(TF_MATCHING, 32, 100);
	fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 1);
	assert_int_equal(put_bulk(1, BIG), 0);
	g_tf.poll_ends = true;
	cassini_pte_close(g_tf.pte);
	g_tf.pte = NULL;
	assert_memory_equal(g_dst, g_src, BIG);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_close();
}

/* Peers that never answer: the PTE is closed all the same, LNI and EQ too, and late ends find nothing to break. */
static void cassini_pte_close__copies_that_never_end(void **state)
{
	struct cassini_le *le;

	tf_open(TF_MATCHING, 64, 100);
	append_any(CASSINI_OVERFLOW, g_over, BIG, 50);
	append_any(CASSINI_REQUEST, g_over, BIG, 60);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 1, 1);
	le = tf_append(CASSINI_PRIORITY, TF_WINDOW, g_dst, BIG, 4, 4);
	assert_int_equal(put_bulk(1, 100), 0);			/* expected */
	assert_int_equal(put_bulk(2, 100), 0);			/* unexpected, taken */
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_dst, BIG, 2, 2));
	assert_int_equal(put_bulk(3, 100), 0);			/* unexpected, not taken */
	assert_int_equal(rput(4, 100, 50), 0);			/* rendezvous */
	assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 4, le), 0); /* an UNLINK that waits */
	g_tf.bulk_rc = -EAGAIN;
	assert_int_equal(put_bulk(3, 100), 0);			/* never started */
	g_tf.bulk_rc = 0;
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	assert_int_equal(put_bulk(5, 100), 0);			/* request list */
	assert_int_equal(tf_put(6, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_REQUEST); /* waits for it */
	tf_close();
}

static void cassini_pte_close__with_paused_append(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL, g_dst, 1000, 1, 7);

	tf_open(TF_MATCHING, 4, 100);
	append_any(CASSINI_OVERFLOW, g_over, 1000, 50);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(tf_put(1, g_data, 1), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	}
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	tf_close();
}

/* --- anything a peer may send --- */

static void random_packet(struct rng *r, struct cassini_pkt_in *pkt)
{
	static const uint32_t lens[] = {0, 1, 4, 8, 100, 2048, CASSINI_FRAME_DATA, BIG, UINT32_MAX};
	uint64_t offsets[] = {0, 4, 100, BIG, UINT32_MAX, UINT64_MAX, (uintptr_t)g_src, (uintptr_t)g_src + BIG, 1ULL << 63};

	*pkt = tf_pkt((enum cassini_pkt_op)(1 + rng_below(r, CASSINI_PKT_FETCH)), rng_below(r, 8), lens[rng_below(r, ARRAY_SIZE(lens))]);
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
	pkt->amo = (struct cassini_amo_in){(uint8_t)rng_below(r, 16), (uint8_t)rng_below(r, 16), (uint8_t)rng_below(r, 8), {rng_u64(r)}, {rng_u64(r)}};
	pkt->payload_len = 0;
	/* what the door lets pass */
	if (pkt->op == CASSINI_PKT_PUT)
		pkt->payload_len = pkt->request_len = MIN(pkt->request_len, CASSINI_FRAME_DATA);
	if (pkt->op == CASSINI_PKT_RPUT)
		pkt->payload_len = (uint32_t)rng_below(r, MIN(pkt->request_len, CASSINI_FRAME_DATA) + 1);
}

static void random_entry(struct rng *r)
{
	struct cassini_le_attr attr = tf_attr((enum cassini_list)rng_below(r, 3), (uint32_t)rng_u64(r) & 0xffff, g_dst, rng_below(r, BIG + 1),
					      rng_below(r, 8), rng_below(r, 1000));

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
	struct cassini_search s = {rng_below(r, 8), rng_below(r, 8), CASSINI_MATCH_ID_ANY, rng_chance(r, 0.5), rng_chance(r, 0.5), 1};

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
		assert_in_range(tf_send(&pkt, g_src), 0, CASSINI_VERDICT_LIST + CASSINI_REQUEST);
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

		tf_open((struct cassini_pte_opts){.is_matching = rng_chance(&r, 0.8), .en_flowctrl = rng_chance(&r, 0.5), .en_event_match = rng_chance(&r, 0.2)},
			(uint32_t)(4 + rng_below(&r, 40)), (uint32_t)(5 + rng_below(&r, 40)));
		op = source_open();
		for (unsigned i = 0; i < 1000 && g_tf.bulk_cnt < TF_MAX - 2; i++)
			random_step(&r);
		source_close(op);
		tf_close();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cassini_pte_map__each_index_once),
		cmocka_unit_test(cassini_pte_open__limits),
		cmocka_unit_test(cassini_set_state__drops_must_agree),
		cmocka_unit_test(cassini_set_state__first_generation_counts_from_minus_one),
		cmocka_unit_test(cassini_tgt_frame__get_does_not_disable),
		cmocka_unit_test(cassini_tgt_frame__eq_full),
		cmocka_unit_test(cassini_tgt_frame__eq_full_without_flowctrl),
		cmocka_unit_test(cassini_tgt_frame__no_entry_left_for_header),
		cmocka_unit_test(cassini_tgt_frame__software_takes_over),
		cmocka_unit_test(cassini_append__software_takes_over),
		cmocka_unit_test(cassini_append__no_space_without_request_list),
		cmocka_unit_test(cassini_pte_transition_sm__from_disabled_only),
		cmocka_unit_test(cassini_put_bulk__fetched_then_told),
		cmocka_unit_test(cassini_put_bulk__truncated_to_nothing),
		cmocka_unit_test(cassini_put_bulk__bad_region_or_dead_peer),
		cmocka_unit_test(cassini_put_bulk__path_full),
		cmocka_unit_test(cassini_put_bulk__taken_while_it_lands),
		cmocka_unit_test(cassini_put_bulk__lost_while_it_lands),
		cmocka_unit_test(cassini_put_bulk__request_events_in_order),
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
		cmocka_unit_test(cassini_tgt_report__flags),
		cmocka_unit_test(cassini_tgt_frame__match_event_first),
		cmocka_unit_test(cassini_append__bad_attributes),
		cmocka_unit_test(cassini_append__eq_without_slots),
		cmocka_unit_test(cassini_append__more_hits_than_slots),
		cmocka_unit_test(cassini_search__more_hits_than_slots),
		cmocka_unit_test(cassini_search__deleting_waits_for_what_lands),
		cmocka_unit_test(cassini_unlink__after_the_last_event),
		cmocka_unit_test(cassini_invalidate__waits_for_copies),
		cmocka_unit_test(cassini_invalidate__of_a_paused_append),
		cmocka_unit_test(cassini_pte_status__offsets_in_order),
		cmocka_unit_test(cassini_pte_close__drains),
		cmocka_unit_test(cassini_pte_close__copies_that_never_end),
		cmocka_unit_test(cassini_pte_close__with_paused_append),
		cmocka_unit_test(cassini_tgt_frame__random_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
