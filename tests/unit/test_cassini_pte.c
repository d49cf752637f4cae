// SPDX-License-Identifier: BSD-2-Clause
// Tests of portal table entries (nic/cassini/cassini_pte.c): mapping, states, flow control, commands that pause, the
// end.
#include "cassini_tgtfake.h"

static const char g_data[] = "0123456789abcdefghijklmnopqrstuvwxyz";

/* --- mapping --- */

static void cassini_pte_map__each_index_once(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 1);
	struct cassini_pte *other;

	tf_open(TF_MATCHING, 32, 100);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, 8, 1, 1);
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
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_NO_MATCH);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 8, 1, 1);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(tf_put_bulk(1, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(tf_rput(1, 4, 2), CASSINI_RC_PT_DISABLED);
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
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, 64, 1, 1);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	assert_int_equal(g_tf.nic.stats.eq_full, 1);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_EQ_FULL);
	assert_int_equal(cassini_eq_dropped(g_tf.eq), 0);
	tf_close();
}

static void cassini_tgt_frame__eq_full_without_flowctrl(void **state)
{
	tf_open(TF_MATCHING, 2, 100);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, 64, 1, 1);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(cassini_eq_dropped(g_tf.eq), 3);
	tf_close();
}

static void cassini_tgt_frame__no_entry_left_for_header(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 2);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 64, 50);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_RC_PT_DISABLED);
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_UNEXPECTED_FAIL);
	assert_int_equal(g_tf.nic.stats.le_exhausted, 1);
	tf_close();
}

static void cassini_tgt_frame__software_takes_over(void **state)
{
	struct cassini_pkt_in get = tf_pkt(CASSINI_PKT_GET, 1, 4);
	struct cassini_event ev;

	tf_open(TF_FLOWCTRL, 32, 2);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 64, 50);
	tf_append_any(CASSINI_REQUEST, g_tf_dst, 10, 60);
	assert_int_equal(tf_put(1, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	tf_state_change(CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_SM_UNEXPECTED_FAIL);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(ev.ptl_list, CASSINI_REQUEST);
	assert_int_equal(ev.match_bits, 1);
	assert_int_equal(ev.header_data, 0x4ead + 1);
	assert_memory_equal(g_tf_dst, g_data, 4);
	assert_int_equal(tf_send(&get, NULL), CASSINI_RC_PTLTE_SW_MANAGED);
	/* a rendezvous brings its eager bytes only, and software fetches the rest */
	assert_int_equal(tf_rput(2, TF_BIG, 6), CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(ev.rendezvous);
	assert_false(ev.get_issued);
	assert_int_equal(ev.mlength, 6);
	assert_int_equal(ev.rlength, TF_BIG);
	assert_int_equal(ev.rendezvous_id, 33);
	assert_int_equal(ev.remote_offset, (uintptr_t)g_tf_src);
	assert_ptr_equal(ev.start, g_tf_dst + 4);
	assert_int_equal(g_tf.bulk_cnt, 0);
	/* nothing more fits */
	assert_int_equal(tf_put(1, g_data, 1), CASSINI_RC_PT_DISABLED);
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_REQUEST_FULL);
	tf_close();
}

static void cassini_append__software_takes_over(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 2);
	tf_append_any(CASSINI_REQUEST, g_tf_dst, 64, 60);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 64, 1, 1);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 64, 1, 2));
	assert_int_equal(tf_event(CASSINI_EV_LINK, CASSINI_RC_NO_SPACE).user_ptr, 2);
	tf_state_change(CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_SM_APPEND_FAIL);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 64, 1, 3));
	assert_int_equal(tf_event(CASSINI_EV_LINK, CASSINI_RC_PTLTE_SW_MANAGED).user_ptr, 3);
	assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 1, NULL), 0);
	tf_event(CASSINI_EV_UNLINK, CASSINI_RC_OK);
	assert_non_null(tf_append_any(CASSINI_REQUEST, g_tf_over, 64, 61));
	tf_close();
}

static void cassini_append__no_space_without_request_list(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 64, 1, 1);
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 64, 1, 2));
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
	tf_state_change(CASSINI_PTE_DISABLED, CASSINI_SC_FC_NO_MATCH);
	assert_int_equal(cassini_pte_transition_sm(g_tf.pte, 2), -EAGAIN);
	assert_int_equal(cassini_pte_transition_sm(g_tf.pte, 1), 0);
	assert_int_equal(tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK).state, CASSINI_PTE_SOFTWARE_MANAGED);
	tf_close();
}

/* --- commands --- */

static void cassini_append__bad_attributes(void **state)
{
	struct cassini_le_attr bad[] = {
		tf_attr((enum cassini_list)3, TF_RECV, g_tf_dst, 8, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, g_tf_dst, UINT64_MAX - 1, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, g_tf_dst, UINT64_MAX, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, NULL, UINT64_MAX, 1, 1),
		tf_attr(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 8, 1, 1),
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
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 64, 1, 1);
	struct cassini_search s = {.match_id = CASSINI_MATCH_ID_ANY};

	tf_open(TF_MATCHING, 3, 10);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 64, 50);
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
	struct cassini_le_attr attr =
		tf_attr(CASSINI_PRIORITY, CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL, g_tf_dst, 1000, 1, 7);
	struct cassini_le *le;
	unsigned hits = 0, links = 0, puts = 0;

	tf_open(TF_MATCHING, 8, 100);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 1000, 50);
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
	assert_ptr_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).start, g_tf_dst + 22);
	assert_int_equal(cassini_eq_dropped(g_tf.eq), 0);
	tf_close();
}

static struct cassini_le *append_plain(void *start, uint32_t len, uint64_t bits, uint64_t user_ptr)
{
	return tf_append(CASSINI_PRIORITY, TF_RECV | CASSINI_LE_EVENT_UNLINK_DISABLE, start, len, bits, user_ptr);
}

/* It makes no event, so it needs no slot for one. */
static void cassini_append__of_a_plain_entry_and_eq_full(void **state)
{
	tf_open(TF_MATCHING, 1, 100);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, 8, 1, 1);
	assert_int_equal(tf_put(1, g_data, 4), 0);
	assert_int_equal(cassini_eq_free(g_tf.eq), 0);
	assert_non_null(append_plain(g_tf_dst, 8, 2, 2));
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(tf_put(2, g_data, 4), 0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 2);
	tf_close();
}

static struct {
	unsigned cnt, les;
	uint64_t user_ptr;
	bool takes;
} g_shown;

static bool on_show(const struct cassini_event *ev)
{
	g_shown.cnt++;
	g_shown.les = tf_status().les_used;
	g_shown.user_ptr = ev->user_ptr;
	assert_int_equal(ev->type, CASSINI_EV_PUT);
	assert_int_equal(ev->mlength, 4);
	assert_memory_equal(ev->start, g_data, 4);
	return g_shown.takes;
}

static void put_shown(uint64_t user_ptr)
{
	assert_non_null(append_plain(g_tf_dst, 8, 1, user_ptr));
	assert_int_equal(tf_put(1, g_data, 4), 0);
}

/* Plain Puts are shown in place of their event, not before an event that came earlier, nor in the adapter's thread. */
static void cassini_pte_show__in_order(void **state)
{
	(void)state;
	tf_open(TF_MATCHING, 8, 100);
	cassini_pte_show(g_tf.pte, on_show);
	memset(&g_shown, 0, sizeof(g_shown));
	g_shown.takes = true;
	put_shown(1);
	assert_int_equal(g_shown.cnt, 1);
	assert_int_equal(g_shown.user_ptr, 1);
	assert_int_equal(g_shown.les, 0); /* the entry is used up by then */
	assert_null(cassini_eq_ready(&g_tf.lni));
	g_shown.takes = false;
	put_shown(2); /* an event is wanted */
	assert_int_equal(g_shown.cnt, 2);
	assert_ptr_equal(cassini_eq_ready(&g_tf.lni), g_tf.eq);
	g_shown.takes = true;
	put_shown(3); /* behind it */
	assert_int_equal(g_shown.cnt, 2);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 2);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 3);
	assert_null(cassini_eq_ready(&g_tf.lni));
	g_tf.nic.in_service = true;
	put_shown(4);
	g_tf.nic.in_service = false;
	assert_int_equal(g_shown.cnt, 2);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 4);
	tf_append(CASSINI_PRIORITY, TF_RECV | CASSINI_LE_EVENT_UNLINK_DISABLE, g_tf_dst, 100, 1, 5);
	assert_int_equal(tf_put_bulk(1, 100), 0); /* what is no plain Put is an event */
	tf_bulk_end(0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 5);
	put_shown(6);
	assert_int_equal(g_shown.cnt, 3);
	tf_close();
}

/* Entries that have ended take nothing of what the service allows, and no trace of them is in who comes after them. */
static void cassini_append__after_entries_of_other_kinds(void **state)
{
	struct cassini_le *le, *first;

	tf_open(TF_MATCHING, 32, 1);
	for (unsigned i = 0; i < 3; i++) {
		le = append_plain(g_tf_dst, 8, 1, 1);
		first = i ? first : le;
		assert_ptr_equal(le, first);
		assert_true(le->is_once);
		assert_null(append_plain(g_tf_dst, 8, 1, 1)); /* one is all that there may be */
		tf_event(CASSINI_EV_LINK, CASSINI_RC_NO_SPACE);
		assert_int_equal(tf_put(1, g_data, 4), 0);
		assert_true(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).auto_unlinked);
		assert_int_equal(cassini_invalidate(g_tf.pte, le), -ENOENT);
		assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 1, le), 0);
		tf_event(CASSINI_EV_UNLINK, CASSINI_RC_ENTRY_NOT_FOUND);

		/* a counted window, of which a copy is under way when it is killed */
		struct cassini_le_attr attr =
			tf_attr(CASSINI_PRIORITY, TF_WINDOW | CASSINI_LE_EVENT_CT_COMM, g_tf_dst, TF_BIG, 2, 2);

		attr.ct = &g_tf.ct;
		assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
		assert_ptr_equal(le, first);
		assert_int_equal(tf_put_bulk(2, 100), 0);
		assert_int_equal(cassini_invalidate(g_tf.pte, le), -EAGAIN);
		tf_bulk_end(0);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_int_equal(cassini_invalidate(g_tf.pte, le), 0);
		assert_int_equal(tf_status().les_used, 0);

		/* a buffer of the overflow list */
		le = tf_append_any(CASSINI_OVERFLOW, g_tf_over, 1000, 3);
		assert_ptr_equal(le, first);
		assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_OVERFLOW, 3, le), 0);
		tf_event(CASSINI_EV_UNLINK, CASSINI_RC_OK);

		/* a receive that took the bytes of a rendezvous, and so did not end as a plain one */
		assert_non_null(append_plain(g_tf_dst, 100, 4, 4));
		assert_int_equal(tf_rput(4, 100, 10), 0);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
		tf_bulk_end(0);
		tf_event(CASSINI_EV_REPLY, CASSINI_RC_OK);
		assert_int_equal(tf_status().les_used, 0);
	}
	tf_no_event();
	tf_close();
}

static void cassini_search__more_hits_than_slots(void **state)
{
	struct cassini_search s = {.match_bits = 1, .match_id = CASSINI_MATCH_ID_ANY, .delete = true, .user_ptr = 77};
	unsigned hits = 0, ends = 0;

	tf_open(TF_MATCHING, 4, 100);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 1000, 50);
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
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, TF_BIG, 50);
	assert_int_equal(tf_put_bulk(1, 100), 0);
	assert_int_equal(tf_put_bulk(2, 100), 0);
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
	le = tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, 100), 0);
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

/* What is used up goes with its last copy, whoever asks for it before. */
static void cassini_invalidate__used_up(void **state)
{
	struct cassini_le *le;

	tf_open(TF_MATCHING, 32, 100);
	le = tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, 100), 0);
	assert_int_equal(cassini_invalidate(g_tf.pte, le), -EAGAIN);
	tf_bulk_end(0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(tf_status().les_used, 0);
	assert_int_equal(cassini_invalidate(g_tf.pte, le), -ENOENT);
	tf_close();
}

static void cassini_invalidate__waits_for_copies(void **state)
{
	struct cassini_le *le;

	tf_open(TF_MATCHING, 32, 100);
	le = tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, 100), 0);
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
	struct cassini_le_attr attr =
		tf_attr(CASSINI_PRIORITY, CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL, g_tf_dst, 1000, 1, 7);
	struct cassini_le *le;

	tf_open(TF_MATCHING, 4, 100);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 1000, 50);
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
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 1000, 50);
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
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	g_tf.poll_ends = true;
	cassini_pte_close(g_tf.pte);
	g_tf.pte = NULL;
	assert_memory_equal(g_tf_dst, g_tf_src, TF_BIG);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	tf_close();
}

/*
 * Peers that never answer: the PTE is closed all the same, LNI and EQ too, late ends find nothing to break, and late
 * data does not land in memory that is its owner's again.
 */
static void cassini_pte_close__copies_that_never_end(void **state)
{
	struct cassini_le *le;

	tf_open(TF_MATCHING, 64, 100);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, TF_BIG, 50);
	tf_append_any(CASSINI_REQUEST, g_tf_over, TF_BIG, 60);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 1);
	le = tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_dst, TF_BIG, 4, 4);
	assert_int_equal(tf_put_bulk(1, 100), 0);			/* expected */
	assert_int_equal(tf_put_bulk(2, 100), 0);			/* unexpected, taken */
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 2, 2));
	assert_int_equal(tf_put_bulk(3, 100), 0);			/* unexpected, not taken */
	assert_int_equal(tf_rput(4, 100, 50), 0);			/* rendezvous */
	assert_int_equal(cassini_unlink(g_tf.pte, CASSINI_PRIORITY, 4, le), 0); /* an UNLINK that waits */
	g_tf.bulk_rc = -EAGAIN;
	assert_int_equal(tf_put_bulk(3, 100), 0);			/* never started */
	g_tf.bulk_rc = 0;
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	assert_int_equal(tf_put_bulk(5, 100), 0);			/* request list */
	assert_int_equal(tf_put(6, g_data, 4), CASSINI_VERDICT_LIST + CASSINI_REQUEST); /* waits for it */
	g_tf.stop_busy_cnt = 3; /* a peer is in the middle of copies, of which one ends meanwhile */
	cassini_pte_close(g_tf.pte);
	g_tf.pte = NULL;
	assert_int_equal(g_tf.stop_busy_cnt, 0);
	assert_int_equal(g_tf.bulk_cnt - g_tf.bulk_done, 3);
	for (unsigned i = g_tf.bulk_done; i < g_tf.bulk_cnt; i++)
		assert_true(g_tf.bulk[i].is_stopped);
	tf_close();
	assert_int_equal(g_tf.gone_cnt, 0); /* they are not known to be dead */
}

static void cassini_pte_close__with_paused_append(void **state)
{
	struct cassini_le_attr attr =
		tf_attr(CASSINI_PRIORITY, CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL, g_tf_dst, 1000, 1, 7);

	tf_open(TF_MATCHING, 4, 100);
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, 1000, 50);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(tf_put(1, g_data, 1), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	}
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	tf_close();
}

static struct cassini_event lost;
static unsigned lost_cnt;

static void on_lost(void *user, const struct cassini_event *put)
{
	assert_ptr_equal(user, cassini_pte_user(g_tf.pte));
	lost = *put;
	lost_cnt++;
}

/* The owner of the PTE wants none of them: one that is there, and one whose data is landing. */
static void cassini_pte_unmap__headers_go(void **state)
{
	(void)state;
	tf_open(TF_FLOWCTRL, 32, 10);
	g_tf.pte->opts.on_lost = on_lost;
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, sizeof(g_tf_over), 50);
	assert_int_equal(tf_put(1, g_tf_src, 100), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(tf_put_bulk(1, TF_BIG - 100), 0);
	assert_int_equal(mt_unexp_cnt(&g_tf.pte->ules), 2);
	cassini_pte_unmap(g_tf.pte, &g_tf.dom, TF_IDX);
	assert_int_equal(lost_cnt, 1);
	assert_int_equal(lost.mlength, 100);
	tf_bulk_end(0);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(lost_cnt, 2);
	assert_int_equal(lost.mlength, TF_BIG - 100);
	assert_int_equal(mt_unexp_cnt(&g_tf.pte->ules), 0);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 7);
	tf_no_event();
	tf_close();
}

/* Its data never comes: the PUT says so, and the owner, whose buffer it has a part of, hears that nobody takes it. */
static void cassini_tgt_frame__header_without_data(void **state)
{
	(void)state;
	lost_cnt = 0;
	tf_open(TF_FLOWCTRL, 32, 10);
	g_tf.pte->opts.on_lost = on_lost;
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, sizeof(g_tf_over), 50);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_bulk_end(-EACCES);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_NO_TRANSLATION).mlength, TF_BIG);
	assert_int_equal(lost_cnt, 1);
	assert_int_equal(lost.mlength, TF_BIG);
	assert_ptr_equal(lost.start, g_tf_over);
	assert_int_equal(mt_unexp_cnt(&g_tf.pte->ules), 0);
	/* one that a receive waits for is told of by its PUT_OVERFLOW */
	tf_append_any(CASSINI_OVERFLOW, g_tf_over, sizeof(g_tf_over), 51);
	assert_int_equal(tf_put_bulk(1, TF_BIG), 0);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_tf_dst, TF_BIG, 1, 7);
	tf_bulk_end(-EACCES);
	tf_event(CASSINI_EV_PUT, CASSINI_RC_NO_TRANSLATION);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_NO_TRANSLATION);
	assert_int_equal(lost_cnt, 1);
	tf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cassini_pte_map__each_index_once),
		cmocka_unit_test(cassini_pte_unmap__headers_go),
		cmocka_unit_test(cassini_tgt_frame__header_without_data),
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
		cmocka_unit_test(cassini_append__bad_attributes),
		cmocka_unit_test(cassini_append__eq_without_slots),
		cmocka_unit_test(cassini_append__more_hits_than_slots),
		cmocka_unit_test(cassini_append__of_a_plain_entry_and_eq_full),
		cmocka_unit_test(cassini_pte_show__in_order),
		cmocka_unit_test(cassini_append__after_entries_of_other_kinds),
		cmocka_unit_test(cassini_search__more_hits_than_slots),
		cmocka_unit_test(cassini_search__deleting_waits_for_what_lands),
		cmocka_unit_test(cassini_unlink__after_the_last_event),
		cmocka_unit_test(cassini_invalidate__used_up),
		cmocka_unit_test(cassini_invalidate__waits_for_copies),
		cmocka_unit_test(cassini_invalidate__of_a_paused_append),
		cmocka_unit_test(cassini_pte_status__offsets_in_order),
		cmocka_unit_test(cassini_pte_close__drains),
		cmocka_unit_test(cassini_pte_close__copies_that_never_end),
		cmocka_unit_test(cassini_pte_close__with_paused_append),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
