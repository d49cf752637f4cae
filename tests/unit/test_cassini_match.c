// SPDX-License-Identifier: BSD-2-Clause
// Tests of the four lists (nic/cassini/cassini_match.c and who uses it): each rule as a case, and random operations
// against lists as the rules say.
#include "cassini_tgtfake.h"

static char g_buf[4096];
static const char g_data[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* --- priority list --- */

static void cassini_match__oldest_that_matches(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, TF_RECV, g_buf, 64, 0x10, 1);

	tf_open(TF_MATCHING, 32, 100);
	attr.match_id = CASSINI_MATCH_ID(TF_PID + 1, TF_NIC); /* of somebody else */
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	attr = tf_attr(CASSINI_PRIORITY, TF_RECV, g_buf + 64, 64, 0x11, 2);
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	attr = tf_attr(CASSINI_PRIORITY, TF_RECV, g_buf + 128, 64, 0x01, 3);
	attr.ignore_bits = 0xf0;
	attr.match_id = TF_PEER;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	assert_int_equal(tf_put(0x11, g_data, 5), 0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 2);
	assert_int_equal(tf_put(0x11, g_data, 6), 0);
	struct cassini_event ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);

	assert_int_equal(ev.user_ptr, 3);
	assert_int_equal(ev.ptl_list, CASSINI_PRIORITY);
	assert_int_equal(ev.mlength, 6);
	assert_int_equal(ev.rlength, 6);
	assert_int_equal(ev.initiator, TF_PEER);
	assert_int_equal(ev.match_bits, 0x11);
	assert_int_equal(ev.header_data, 0x4ead + 0x11);
	assert_int_equal(ev.vni, 1);
	assert_true(ev.auto_unlinked);
	assert_ptr_equal(ev.start, g_buf + 128);
	assert_memory_equal(g_buf + 128, g_data, 6);
	assert_int_equal(tf_put(0x11, g_data, 6), CASSINI_RC_ENTRY_NOT_FOUND);
	assert_int_equal(tf_put(0x10, g_data, 6), CASSINI_RC_ENTRY_NOT_FOUND); /* the first is not for the peer */
	assert_int_equal(g_tf.nic.stats.entry_not_found, 2);
	assert_int_equal(g_tf.nic.stats.priority_hits, 2);
	tf_no_event();
	tf_close();
}

static void cassini_match__op_not_permitted(void **state)
{
	struct cassini_pkt_in get = tf_pkt(CASSINI_PKT_GET, 1, 4), fetch = tf_pkt(CASSINI_PKT_FETCH, 2, 4);

	tf_open(TF_FLOWCTRL, 32, 100);
	tf_append(CASSINI_PRIORITY, CASSINI_LE_OP_PUT | CASSINI_LE_EVENT_LINK_DISABLE, g_buf, 64, 1, 1);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_buf, 64, 1, 2); /* hidden by the first */
	tf_append(CASSINI_PRIORITY, CASSINI_LE_OP_GET | CASSINI_LE_EVENT_LINK_DISABLE, g_buf, 64, 2, 3);
	assert_int_equal(tf_send(&get, NULL), CASSINI_RC_OP_VIOLATION);
	assert_int_equal(tf_put(2, g_data, 4), CASSINI_RC_OP_VIOLATION);
	fetch.amo = (struct cassini_amo_in){.op = CASSINI_AMO_SUM, .type = CASSINI_T_I32};
	assert_int_equal(tf_send(&fetch, NULL), CASSINI_RC_OP_VIOLATION);
	assert_int_equal(g_tf.nic.stats.op_violation, 3);
	assert_int_equal(tf_status().state, CASSINI_PTE_ENABLED);
	tf_no_event();
	tf_close();
}

static void cassini_match__local_offset_until_min_free(void **state)
{
	struct cassini_le_attr attr = tf_attr(CASSINI_PRIORITY, TF_RECV & ~CASSINI_LE_USE_ONCE, g_buf, 100, 1, 1);
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 40);
	struct cassini_event ev;

	tf_open(TF_MATCHING, 32, 100);
	attr.min_free = 20;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	pkt.remote_offset = UINT64_MAX; /* not looked at */
	assert_int_equal(tf_send(&pkt, g_data), 0);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_ptr_equal(ev.start, g_buf);
	assert_false(ev.auto_unlinked);
	assert_int_equal(tf_put(1, g_data, 40), 0);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_ptr_equal(ev.start, g_buf + 40);
	assert_false(ev.auto_unlinked); /* 20 are left, which is not less than 20 */
	assert_int_equal(tf_put(1, g_data, 40), 0);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_ptr_equal(ev.start, g_buf + 80);
	assert_int_equal(ev.mlength, 20);
	assert_int_equal(ev.rlength, 40);
	assert_true(ev.auto_unlinked);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 0);
	tf_close();
}

static void cassini_match__too_long(void **state)
{
	struct cassini_event ev;

	tf_open(TF_MATCHING, 32, 100);
	tf_append(CASSINI_PRIORITY, TF_RECV | CASSINI_LE_NO_TRUNCATE, g_buf, 8, 1, 1);
	tf_append(CASSINI_PRIORITY, TF_RECV, g_buf + 64, 9, 1, 2);
	memset(g_buf + 64, '.', 64);
	assert_int_equal(tf_put(1, g_data, 10), 0);
	ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(ev.user_ptr, 2);
	assert_int_equal(ev.mlength, 9);
	assert_int_equal(ev.rlength, 10);
	assert_memory_equal(g_buf + 64, "012345678.", 10);
	assert_int_equal(tf_put(1, g_data, 9), CASSINI_RC_ENTRY_NOT_FOUND);
	assert_int_equal(tf_put(1, g_data, 8), 0);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).user_ptr, 1);
	tf_close();
}

static void cassini_match__window(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t len;
		int verdict;
	} row[] = {
		{0, 64, 0},	       {63, 1, 0},	       {64, 0, 0},
		{63, 2, CASSINI_RC_ADDR_OUT_OF_RANGE}, {64, 1, CASSINI_RC_ADDR_OUT_OF_RANGE},
		{0, 65, CASSINI_RC_ADDR_OUT_OF_RANGE},
		{UINT64_MAX, 1, CASSINI_RC_ADDR_OUT_OF_RANGE}, {UINT64_MAX - 63, 64, CASSINI_RC_ADDR_OUT_OF_RANGE},
		{1ULL << 63, 8, CASSINI_RC_ADDR_OUT_OF_RANGE},
		{UINT64_MAX, 0, 0}, /* touches nothing */
	};
	char data[128];

	tf_open(TF_FLOWCTRL, 64, 100);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_buf, 64, 1, 1);
	memset(data, 'x', sizeof(data));
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, row[i].len);

		memset(g_buf, '.', 128);
		pkt.remote_offset = row[i].offset;
		assert_int_equal(tf_send(&pkt, data), row[i].verdict);
		for (unsigned k = 0; k < 128; k++)
			assert_int_equal(g_buf[k], !row[i].verdict && k - row[i].offset < row[i].len ? 'x' : '.');
		if (!row[i].verdict)
			assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, row[i].len);
		tf_no_event();
	}
	tf_close();
}

static void cassini_match__without_matching_the_first_takes_all(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 99, 4);

	tf_open((struct cassini_pte_opts){0}, 32, 100);
	assert_int_equal(tf_put(99, g_data, 4), CASSINI_RC_ENTRY_NOT_FOUND);
	tf_append(CASSINI_PRIORITY, TF_WINDOW | CASSINI_LE_EVENT_COMM_DISABLE, g_buf, 64, 1, 1);
	pkt.flags = CASSINI_PKTF_RESTRICTED;
	pkt.remote_offset = 60;
	assert_int_equal(tf_send(&pkt, g_data), 0);
	assert_memory_equal(g_buf + 60, g_data, 4);
	pkt.remote_offset = 61;
	assert_int_equal(tf_send(&pkt, g_data), CASSINI_RC_ADDR_OUT_OF_RANGE);
	assert_int_equal(g_tf.nic.stats.plec_hits, 1);
	assert_int_equal(g_tf.nic.stats.rx_restricted_pkts, 2);
	tf_no_event();
	tf_close();
}

static void cassini_match__restricted_needs_no_matching(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, 1, 4);

	tf_open(TF_MATCHING, 32, 100);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_buf, 64, 1, 1);
	pkt.flags = CASSINI_PKTF_RESTRICTED;
	assert_int_equal(tf_send(&pkt, g_data), CASSINI_RC_RESTRICTED_UNICAST);
	tf_no_event();
	tf_close();
}

/* --- overflow list and unexpected headers --- */

static void cassini_match__unexpected_then_appended(void **state)
{
	struct cassini_event put, late;

	tf_open(TF_FLOWCTRL, 32, 100);
	tf_append(CASSINI_OVERFLOW, TF_BUFFER, g_buf, 256, 0, 50);
	struct cassini_le_attr attr = tf_attr(CASSINI_OVERFLOW, TF_BUFFER, g_buf, 256, 0, 51);

	attr.ignore_bits = UINT64_MAX;
	assert_int_equal(cassini_append(g_tf.pte, &attr, NULL), 0);
	assert_int_equal(tf_put(7, g_data, 10), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	put = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_int_equal(put.ptl_list, CASSINI_OVERFLOW);
	assert_int_equal(put.user_ptr, 51);
	assert_memory_equal(put.start, g_data, 10);
	assert_int_equal(tf_status().ule_cnt, 1);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 3); /* the header holds one */
	assert_non_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_buf + 512, 5, 8, 1));
	assert_null(tf_append(CASSINI_PRIORITY, TF_RECV, g_buf + 512, 5, 7, 2));
	late = tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	assert_int_equal(late.user_ptr, 2);
	assert_ptr_equal(late.start, put.start);
	assert_int_equal(late.mlength, 10);
	assert_int_equal(late.rlength, 10);
	assert_int_equal(late.initiator, TF_PEER);
	assert_int_equal(late.header_data, put.header_data);
	assert_true(late.auto_unlinked);
	assert_int_equal(tf_status().ule_cnt, 0);
	assert_int_equal(g_tf.lni.used[CASSINI_RSRC_LE], 3);
	tf_no_event();
	tf_close();
}

static void cassini_match__unexpected_without_data(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 100);
	tf_append(CASSINI_OVERFLOW, TF_BUFFER, g_buf, 256, 7, 50);
	assert_int_equal(tf_put(7, g_data, 0), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	tf_no_event(); /* PUT_OVERFLOW says it all */
	tf_append(CASSINI_PRIORITY, TF_RECV, g_buf + 512, 5, 7, 2);
	assert_int_equal(tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK).rlength, 0);
	tf_close();
}

static void cassini_match__header_not_wanted(void **state)
{
	tf_open(TF_FLOWCTRL, 32, 100);
	tf_append(CASSINI_OVERFLOW, TF_BUFFER | CASSINI_LE_UNEXPECTED_HDR_DISABLE, g_buf, 256, 7, 50);
	assert_int_equal(tf_put(7, g_data, 3), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	assert_int_equal(tf_event(CASSINI_EV_PUT, CASSINI_RC_OK).mlength, 3);
	assert_int_equal(tf_status().ule_cnt, 0);
	tf_close();
}

static void cassini_match__append_takes_until_min_free(void **state)
{
	struct cassini_le_attr attr =
		tf_attr(CASSINI_PRIORITY, (TF_RECV & ~CASSINI_LE_USE_ONCE) & ~CASSINI_LE_EVENT_LINK_DISABLE,
			g_buf + 512, 30, 7, 2);
	struct cassini_le *le;

	tf_open(TF_FLOWCTRL, 64, 100);
	tf_append(CASSINI_OVERFLOW, TF_BUFFER, g_buf, 256, 7, 50);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(tf_put(7, g_data, 10), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
		tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);
	}
	attr.min_free = 11;
	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	assert_null(le);
	assert_false(tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK).auto_unlinked);
	/* 10 left, fewer than 11; never linked: no LINK */
	assert_true(tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK).auto_unlinked);
	tf_no_event();
	attr.min_free = 1;
	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	assert_non_null(le);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	tf_event(CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
	tf_event(CASSINI_EV_LINK, CASSINI_RC_OK);
	assert_int_equal(tf_put(7, g_data, 10), 0);
	struct cassini_event ev = tf_event(CASSINI_EV_PUT, CASSINI_RC_OK);

	assert_ptr_equal(ev.start, g_buf + 512 + 20); /* behind what the headers took */
	assert_true(ev.auto_unlinked);
	tf_close();
}

/* --- against the rules as lists --- */

#define M_MAX 64

struct model_le {
	struct cassini_le_attr a;
	struct cassini_le *real;
	uint64_t used;
};

struct model_ule {
	uint64_t bits;
	uint32_t initiator, rlen, mlen;
	uint64_t header_data;
	const void *start;
};

struct model {
	struct model_le le[2][M_MAX]; /* by list, oldest first */
	unsigned le_cnt[2];
	struct model_ule ule[M_MAX];
	unsigned ule_cnt;
	bool disabled;
	uint32_t drops, les_max;
	struct cassini_event want[M_MAX];
	unsigned want_cnt;
	uint64_t next_ptr;
};

static struct model g_m;

static unsigned m_used(void)
{
	return g_m.le_cnt[0] + g_m.le_cnt[1] + g_m.ule_cnt;
}

static struct cassini_event *m_want(enum cassini_event_type type, enum cassini_rc rc, uint64_t user_ptr)
{
	struct cassini_event *ev = &g_m.want[g_m.want_cnt++];

	assert_true(g_m.want_cnt <= M_MAX);
	*ev = (struct cassini_event){.type = (uint8_t)type, .rc = (uint8_t)rc, .user_ptr = user_ptr};
	return ev;
}

static void m_le_del(unsigned list, unsigned i)
{
	memmove(&g_m.le[list][i], &g_m.le[list][i + 1], (--g_m.le_cnt[list] - i) * sizeof(g_m.le[0][0]));
}

static void m_ule_del(unsigned i)
{
	memmove(&g_m.ule[i], &g_m.ule[i + 1], (--g_m.ule_cnt - i) * sizeof(g_m.ule[0]));
}

static bool m_takes(const struct model_le *le, uint64_t bits, uint32_t initiator, uint32_t len)
{
	if ((bits ^ le->a.match_bits) & ~le->a.ignore_bits)
		return false;
	if (le->a.match_id != CASSINI_MATCH_ID_ANY && le->a.match_id != initiator)
		return false;
	return !(le->a.flags & CASSINI_LE_NO_TRUNCATE) || len <= le->a.length - le->used;
}

/* Bytes taken, where, and whether it is used up. */
static uint32_t m_take(struct model_le *le, uint32_t len, char **start, bool *gone)
{
	uint32_t n = (uint32_t)MIN((uint64_t)len, le->a.length - le->used);

	*start = (char *)le->a.start + le->used;
	*gone = le->a.flags & CASSINI_LE_USE_ONCE;
	if (le->a.flags & CASSINI_LE_MANAGE_LOCAL) {
		le->used += n;
		*gone = *gone || le->a.length - le->used < le->a.min_free;
	}
	return n;
}

static int m_refuse(enum cassini_sc_reason why)
{
	struct cassini_event *ev = m_want(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK, (uintptr_t)&g_tf);

	ev->state = CASSINI_PTE_DISABLED;
	ev->sc_reason = (uint8_t)why;
	g_m.disabled = true;
	g_m.drops = 1;
	return CASSINI_RC_PT_DISABLED;
}

static int m_put(const struct cassini_pkt_in *pkt)
{
	if (g_m.disabled) {
		g_m.drops++;
		return CASSINI_RC_PT_DISABLED;
	}
	for (unsigned list = 0; list < 2; list++) {
		for (unsigned i = 0; i < g_m.le_cnt[list]; i++) {
			struct model_le *le = &g_m.le[list][i];
			struct cassini_event *ev;
			char *start;
			bool gone;
			uint32_t n;

			if (!m_takes(le, pkt->match_bits, pkt->initiator, pkt->request_len))
				continue;
			if (!(le->a.flags & (CASSINI_LE_USE_ONCE | CASSINI_LE_MANAGE_LOCAL)) &&
			    pkt->request_len > le->a.length)
				return CASSINI_RC_ADDR_OUT_OF_RANGE;
			if (list && m_used() == g_m.les_max)
				return m_refuse(CASSINI_SC_FC_UNEXPECTED_FAIL);
			n = m_take(le, pkt->request_len, &start, &gone);
			if (list)
				g_m.ule[g_m.ule_cnt++] = (struct model_ule){
					pkt->match_bits, pkt->initiator, pkt->request_len, n, pkt->header_data, start};
			if (!list || n || gone) {
				ev = m_want(CASSINI_EV_PUT, CASSINI_RC_OK, le->a.user_ptr);
				ev->ptl_list = (uint8_t)list;
				ev->mlength = n;
				ev->rlength = pkt->request_len;
				ev->initiator = pkt->initiator;
				ev->header_data = pkt->header_data;
				ev->start = start;
				ev->auto_unlinked = gone;
			}
			if (gone)
				m_le_del(list, i);
			return list ? CASSINI_VERDICT_LIST + (int)list : 0;
		}
	}
	return m_refuse(CASSINI_SC_FC_NO_MATCH);
}

static struct cassini_event *m_want_ule(enum cassini_event_type type, const struct model_ule *u, uint64_t user_ptr)
{
	struct cassini_event *ev = m_want(type, CASSINI_RC_OK, user_ptr);

	ev->mlength = u->mlen;
	ev->rlength = u->rlen;
	ev->initiator = u->initiator;
	ev->header_data = u->header_data;
	ev->start = (void *)(uintptr_t)u->start;
	return ev;
}

/* Return: is it linked? */
static bool m_append(const struct cassini_le_attr *a)
{
	struct model_le le = {.a = *a};

	if (m_used() == g_m.les_max) {
		m_want(CASSINI_EV_LINK, CASSINI_RC_NO_SPACE, a->user_ptr);
		return false;
	}
	for (unsigned i = 0; a->list == CASSINI_PRIORITY && i < g_m.ule_cnt;) {
		char *start;
		bool gone;

		if (!m_takes(&le, g_m.ule[i].bits, g_m.ule[i].initiator, g_m.ule[i].rlen)) {
			i++;
			continue;
		}
		m_take(&le, g_m.ule[i].rlen, &start, &gone);
		m_want_ule(CASSINI_EV_PUT_OVERFLOW, &g_m.ule[i], a->user_ptr)->auto_unlinked = gone;
		m_ule_del(i);
		if (gone)
			return false;
	}
	if (!(a->flags & CASSINI_LE_EVENT_LINK_DISABLE))
		m_want(CASSINI_EV_LINK, CASSINI_RC_OK, a->user_ptr);
	g_m.le[a->list][g_m.le_cnt[a->list]++] = le;
	return true;
}

static void m_search(const struct cassini_search *s)
{
	for (unsigned i = 0; i < g_m.ule_cnt;) {
		const struct model_ule *u = &g_m.ule[i];

		if (((u->bits ^ s->match_bits) & ~s->ignore_bits) ||
		    (s->match_id != CASSINI_MATCH_ID_ANY && s->match_id != u->initiator)) {
			i++;
			continue;
		}
		m_want_ule(s->delete ? CASSINI_EV_PUT_OVERFLOW : CASSINI_EV_SEARCH, u, s->user_ptr);
		if (s->delete)
			m_ule_del(i);
		else
			i++;
		if (s->use_once)
			return;
	}
	m_want(CASSINI_EV_SEARCH, CASSINI_RC_NO_MATCH, s->user_ptr);
}

/* The events made are the events wanted. */
static void m_compare(void)
{
	for (unsigned i = 0; i < g_m.want_cnt; i++) {
		const struct cassini_event *w = &g_m.want[i];
		struct cassini_event ev = tf_event((enum cassini_event_type)w->type, (enum cassini_rc)w->rc);

		assert_int_equal(ev.user_ptr, w->user_ptr);
		assert_int_equal(ev.mlength, w->mlength);
		assert_int_equal(ev.rlength, w->rlength);
		assert_int_equal(ev.auto_unlinked, w->auto_unlinked);
		assert_int_equal(ev.state, w->state);
		assert_int_equal(ev.sc_reason, w->sc_reason);
		if (w->type == CASSINI_EV_PUT)
			assert_int_equal(ev.ptl_list, w->ptl_list);
		if (w->rlength || w->start) {
			assert_int_equal(ev.initiator, w->initiator);
			assert_int_equal(ev.header_data, w->header_data);
			assert_ptr_equal(ev.start, w->start);
			if (w->type == CASSINI_EV_PUT)
				assert_memory_equal(ev.start, g_data, w->mlength);
		}
	}
	tf_no_event();
	g_m.want_cnt = 0;
	struct cassini_pte_status st = tf_status();

	assert_int_equal(st.ule_cnt, g_m.ule_cnt);
	assert_int_equal(st.les_used, m_used());
	assert_int_equal(st.state, g_m.disabled ? CASSINI_PTE_DISABLED : CASSINI_PTE_ENABLED);
	if (g_m.disabled)
		assert_int_equal(st.drop_count, g_m.drops);
}

static const uint64_t g_ignore[] = {0, 0, 0, 1, 2, 4, 7, UINT64_MAX};

static void random_append(struct rng *r)
{
	enum cassini_list list = rng_chance(r, 0.4) ? CASSINI_OVERFLOW : CASSINI_PRIORITY;
	struct cassini_le_attr a = tf_attr(list, CASSINI_LE_OP_PUT, g_buf + 64 * rng_below(r, 60), rng_below(r, 64),
					   rng_below(r, 8), ++g_m.next_ptr);
	struct cassini_le *le;
	bool linked;

	a.flags |= rng_chance(r, 0.5) ? CASSINI_LE_USE_ONCE : 0;
	a.flags |= rng_chance(r, 0.7) ? CASSINI_LE_MANAGE_LOCAL : 0;
	a.flags |= rng_chance(r, 0.3) ? CASSINI_LE_NO_TRUNCATE : 0;
	a.flags |= rng_chance(r, 0.5) ? CASSINI_LE_EVENT_LINK_DISABLE : 0;
	/* A persistent entry refuses what reaches beyond it: too often for a test of lists. */
	if (!(a.flags & (CASSINI_LE_USE_ONCE | CASSINI_LE_MANAGE_LOCAL)))
		a.length = 60;
	a.min_free = (uint32_t)rng_below(r, 20);
	a.ignore_bits = g_ignore[rng_below(r, ARRAY_SIZE(g_ignore))];
	if (rng_chance(r, 0.5))
		a.match_id = TF_PEER + (rng_chance(r, 0.5) ? 1u << 23 : 0);
	assert_int_equal(cassini_append(g_tf.pte, &a, &le), 0);
	linked = m_append(&a);
	assert_int_equal(!!le, linked);
	if (linked)
		g_m.le[list][g_m.le_cnt[list] - 1].real = le;
}

static void random_put(struct rng *r)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, rng_below(r, 8), (uint32_t)rng_below(r, 40));

	if (rng_chance(r, 0.5))
		pkt.initiator += 1u << 23;
	pkt.header_data = rng_u64(r);
	assert_int_equal(tf_send(&pkt, g_data), m_put(&pkt));
}

static void random_unlink(struct rng *r)
{
	unsigned list = (unsigned)rng_below(r, 2), i = (unsigned)rng_below(r, M_MAX);

	if (i >= g_m.le_cnt[list]) {
		assert_int_equal(cassini_unlink(g_tf.pte, (enum cassini_list)list, 1ULL << 40, NULL), 0);
		m_want(CASSINI_EV_UNLINK, CASSINI_RC_ENTRY_NOT_FOUND, 1ULL << 40);
		return;
	}
	struct model_le le = g_m.le[list][i];

	m_le_del(list, i);
	if (rng_chance(r, 0.3)) {
		assert_int_equal(cassini_invalidate(g_tf.pte, le.real), 0);
		return;
	}
	assert_int_equal(
		cassini_unlink(g_tf.pte, (enum cassini_list)list, le.a.user_ptr, rng_chance(r, 0.5) ? le.real : NULL),
		0);
	m_want(CASSINI_EV_UNLINK, CASSINI_RC_OK, le.a.user_ptr);
}

static void random_search(struct rng *r)
{
	struct cassini_search s = {
		.match_bits = rng_below(r, 8),
		.ignore_bits = g_ignore[rng_below(r, ARRAY_SIZE(g_ignore))],
		.match_id = rng_chance(r, 0.5) ? TF_PEER : CASSINI_MATCH_ID_ANY,
		.use_once = rng_chance(r, 0.7),
		.delete = rng_chance(r, 0.5),
		.user_ptr = ++g_m.next_ptr,
	};

	assert_int_equal(cassini_search(g_tf.pte, &s), 0);
	m_search(&s);
}

static void random_resume(struct rng *r)
{
	bool agree = rng_chance(r, 0.7);
	struct cassini_event *ev;

	if (!g_m.disabled)
		return;
	assert_int_equal(cassini_set_state(g_tf.pte, CASSINI_PTE_ENABLED, g_m.drops + !agree), 0);
	ev = m_want(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK, (uintptr_t)&g_tf);
	ev->state = agree ? CASSINI_PTE_ENABLED : CASSINI_PTE_DISABLED;
	ev->sc_reason = agree ? 0 : CASSINI_SC_FC_NO_MATCH;
	g_m.disabled = !agree;
}

static void cassini_match__like_naive_lists(void **state)
{
	struct rng r = unit_rng();

	for (unsigned round = 0; round < 40; round++) {
		tf_open(TF_FLOWCTRL, 4096, (uint32_t)(10 + rng_below(&r, 50)));
		memset(&g_m, 0, sizeof(g_m));
		g_m.les_max = g_tf.lni.svc.max[CASSINI_RSRC_LE];
		for (unsigned i = 0; i < 2000; i++) {
			uint64_t what = rng_below(&r, 100);

			if (what < 40)
				random_put(&r);
			else if (what < 75)
				random_append(&r);
			else if (what < 85)
				random_unlink(&r);
			else if (what < 93)
				random_search(&r);
			else
				random_resume(&r);
			m_compare();
		}
		tf_close();
	}
}

/* --- answers that there is no memory for -------------------------------------------------------------- */

/* There is no memory for the answer: it comes again, and nothing has happened. What is used up fails. */
static void cassini_get__without_memory(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_GET, 1, 100);

	tf_open(TF_MATCHING, 32, 10);
	tf_fill();
	tf_append(CASSINI_PRIORITY, TF_WINDOW, g_tf_src, TF_BIG, 1, 1);
	tf_append(CASSINI_PRIORITY, TF_WINDOW | CASSINI_LE_USE_ONCE, g_tf_src, TF_BIG, 2, 2);
	g_tf.no_answers = true;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_RESOURCE_BUSY);
	tf_no_event();
	pkt.match_bits = 2;
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_NO_SPACE);
	tf_event(CASSINI_EV_GET, CASSINI_RC_NO_SPACE);
	g_tf.no_answers = false;
	pkt.match_bits = 1;
	assert_int_equal(tf_send(&pkt, NULL), 0);
	tf_event(CASSINI_EV_GET, CASSINI_RC_OK);
	tf_answer(1, CASSINI_PKT_REPLY);
	tf_close();
}

/* Nor for that of a fetching atomic, which has an order: it fails before anything is done. */
static void cassini_fetch__without_memory(void **state)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_FETCH, 1, 8);
	uint64_t word = 5;

	tf_open(TF_MATCHING, 32, 10);
	tf_append(CASSINI_PRIORITY, TF_WINDOW, &word, sizeof(word), 1, 1);
	pkt.amo = (struct cassini_amo_in){.op = CASSINI_AMO_SUM, .type = CASSINI_T_U64, .op1 = {1}};
	slab_fini(&g_tf.dom.answers);
	assert_int_equal(slab_init(&g_tf.dom.answers, sizeof(struct cassini_ans), 64, 16, 1), 0);
	assert_non_null(slab_get(&g_tf.dom.answers));
	assert_int_equal(tf_send(&pkt, NULL), CASSINI_RC_NO_SPACE);
	assert_int_equal(word, 5);
	tf_event(CASSINI_EV_FETCH_ATOMIC, CASSINI_RC_NO_SPACE);
	tf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cassini_get__without_memory),
		cmocka_unit_test(cassini_fetch__without_memory),
		cmocka_unit_test(cassini_match__oldest_that_matches),
		cmocka_unit_test(cassini_match__op_not_permitted),
		cmocka_unit_test(cassini_match__local_offset_until_min_free),
		cmocka_unit_test(cassini_match__too_long),
		cmocka_unit_test(cassini_match__window),
		cmocka_unit_test(cassini_match__without_matching_the_first_takes_all),
		cmocka_unit_test(cassini_match__restricted_needs_no_matching),
		cmocka_unit_test(cassini_match__unexpected_then_appended),
		cmocka_unit_test(cassini_match__unexpected_without_data),
		cmocka_unit_test(cassini_match__header_not_wanted),
		cmocka_unit_test(cassini_match__append_takes_until_min_free),
		cmocka_unit_test(cassini_match__like_naive_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
