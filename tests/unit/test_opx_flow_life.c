// SPDX-License-Identifier: BSD-2-Clause
// Begin and end of opx flows: epochs, keys, restarts, forged packets, BYE, silence, death, and what a stranger may not
// do.
#include "opx_rig.h"

#include "base/log.h"

/* --- strangers ----------------------------------------------------------------------------------- */

static struct hfi_hdr eager(uint64_t key, uint32_t psn)
{
	return (struct hfi_hdr){
		.opcode = OPX_MSG_EAGER, .bth1 = HFI_BTH_CUT, .key = le64_put(key), .psn_tx = le32_put(psn)};
}

static void opx_flow__no_memory_for_a_stranger(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 6, false);
	g.n[1].refuses_strangers = true;
	rig_peer(&g, 0, 1)->want = 5;
	rig_run_for(&g, 20 * NS_PER_MS);
	assert_int_equal(rig_peer(&g, 1, 0)->delivered, 0);
	g.n[1].refuses_strangers = false;
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_close(&g);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static void opx_flow__wrong_keys(void **state)
{
	static const enum opx_ud kinds[] = {OPX_UD_INIT_ACK, OPX_UD_PING,    OPX_UD_ACK,
					    OPX_UD_NACK,     OPX_UD_RESYNCH, OPX_UD_BYE};
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_pair(&g, 7, where);
		g.n[1].refuses_strangers = true; /* only INIT asks for one */
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			uint64_t bad = rig_stats(&g, 1)->bad_key;

			rig_forge(&g, 0, 1, rig_ud(kinds[i], 0, rig_range(0, 5), 0, 0));
			rig_forge(&g, 0, 1, rig_ud(kinds[i], 12345, rig_range(0, 5), 0, 0));
			assert_int_equal(rig_stats(&g, 1)->bad_key, bad + 2);
		}
		for (uint64_t key = 0; key < 3; key++) {
			uint64_t bad = rig_stats(&g, 1)->bad_key, sent = g.sent;
			struct hfi_hdr h = eager(key, 20);

			rig_forge(&g, 0, 1, h);
			assert_int_equal(rig_stats(&g, 1)->bad_key, bad + 1);
			assert_int_equal(g.sent, sent + (key != 0)); /* RESYNCH */
		}
		rig_more(&g);
		assert_int_equal(rig_peer(&g, 0, 1)->deads + rig_peer(&g, 1, 0)->deads, 0);
		rig_close(&g);
	}
}

/* A stream that does not exist has no next packet, whatever key and PSN it names. */
static void opx_flow__no_stream_no_packet(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 8, false);
	rig_meet(&g, 1, 0);
	for (uint32_t psn = 0; psn < 3; psn++)
		rig_forge(&g, 0, 1, eager(0, psn));
	rig_forge(&g, 0, 1, eager(0, HFI_PSN_MASK));
	assert_int_equal(rig_peer(&g, 1, 0)->delivered, 0);
	rig_close(&g);
}

/* --- hostile ranges ----------------------------------------------------------------------------------------------- */

static void opx_flow__hostile_ranges(void **state)
{
	static const uint32_t firsts[] = {0, 1, 19, 20, 21, 0x7fffff, 0x800000, 0xffffff, 0x1000000, 0xffffffff};
	static const uint32_t counts[] = {0, 1, 20, 21, 32, 33, 0x7fffff, 0x800000, 0xffffff, 0x1000000, 0xffffffff};
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_pair(&g, 9, where);
		for (size_t i = 0; i < ARRAY_SIZE(firsts) * ARRAY_SIZE(counts); i++) {
			uint64_t w = rig_range(firsts[i % ARRAY_SIZE(firsts)], counts[i / ARRAY_SIZE(firsts)]);
			uint64_t sent = g.sent;

			rig_forge(&g, 1, 0, rig_ud(OPX_UD_ACK, rig_flow(&g, 0, 1)->tx_key, w, 0, (uint32_t)i));
			rig_forge(&g, 1, 0, rig_ud(OPX_UD_NACK, rig_flow(&g, 0, 1)->tx_key, w, 0, (uint32_t)i));
			assert_int_equal(g.sent, sent);
			assert_int_equal(rig_flow(&g, 0, 1)->tx_psn, 20);
			assert_true(rig_flow(&g, 0, 1)->tx_una <= 20);
			rig_forge(&g, 1, 0, rig_ud(OPX_UD_PING, rig_flow(&g, 0, 1)->rx_key, w, 0, (uint32_t)i));
			assert_true(g.sent - sent <= 2 * OPX_ANSWERS + 1);
			/* what they NACK was never sent */
		}
		assert_true(rig_stats(&g, 0)->malformed > 50);
		rig_more(&g);
		rig_close(&g);
	}
}

/*
 * Nobody has kept a packet between contexts of one host: where the receiver lacks one, it says so by a NACK, and both
 * flows end.
 */
static void opx_flow__hole_on_one_host(void **state)
{
	struct opx_flow *f;
	struct rig g;

	(void)state;
	rig_pair(&g, 9, RIG_LOCAL);
	f = rig_flow(&g, 0, 1);
	assert_true(f->is_local && !rig_post(&g, 0, 1, 10, 0));
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_NACK, f->tx_key, rig_range((f->tx_psn - 1) & HFI_PSN_MASK, 1), 0, 0));
	rig_run_for(&g, 10 * NS_PER_MS);
	assert_int_equal(rig_peer(&g, 0, 1)->deads, 1);
	rig_close(&g);
}

/* Nobody can acknowledge what has not been sent. */
static void opx_flow__ack_beyond_what_was_sent(void **state)
{
	struct opx_flow *f;
	uint64_t before;
	struct rig g;

	(void)state;
	rig_pair(&g, 10, false);
	f = rig_flow(&g, 0, 1);
	before = g.n[0].retired;
	g.no_driver = true;
	g.loss = 1;
	for (int i = 0; i < 10; i++)
		assert_int_equal(rig_post(&g, 0, 1, 100, OPX_POST_REF), 0);
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_ACK, f->tx_key, rig_range(f->tx_una, 11), 0, 0));
	assert_false(opx_rel_drained(g.n[0].rel));
	assert_int_equal(g.n[0].retired - before, 0);
	/* a range in the middle, then what is before it, then all */
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_ACK, f->tx_key, rig_range(f->tx_una + 4, 3), 0, 0));
	assert_int_equal(g.n[0].retired - before, 3);
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_ACK, f->tx_key, rig_range(f->tx_una, 4), 0, 0));
	assert_int_equal(g.n[0].retired - before, 7);
	assert_int_equal(f->tx_una, 27);
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_ACK, f->tx_key, rig_range(0, 29), 0, 0));
	rig_forge(&g, 1, 0, rig_ud(OPX_UD_ACK, f->tx_key, rig_range(0, 30), 0, 0));
	assert_int_equal(g.n[0].retired - before, 10);
	assert_int_equal(f->bytes_out, 0);
	rig_close(&g);
}

static void opx_flow__psn_far_ahead_is_dropped(void **state)
{
	struct hfi_hdr h = eager(0, 0);
	struct rig g;

	(void)state;
	rig_pair(&g, 11, false);
	h.key = le64_put(rig_flow(&g, 1, 0)->rx_key);
	h.psn_tx = le32_put(20 + OPX_RX_AHEAD);
	rig_forge(&g, 0, 1, h);
	h.psn_tx = le32_put(0x700000);
	rig_forge(&g, 0, 1, h);
	assert_int_equal(rig_stats(&g, 1)->ahead_drops, 2);
	assert_int_equal(rig_flow(&g, 1, 0)->ahead_cnt, 0);
	/* behind: a duplicate, acknowledged */
	h.psn_tx = le32_put(0x900000);
	rig_forge(&g, 0, 1, h);
	h.psn_tx = le32_put(HFI_PSN_MASK);
	rig_forge(&g, 0, 1, h);
	assert_int_equal(rig_stats(&g, 1)->dups, 2);
	rig_more(&g);
	rig_close(&g);
}

static uint32_t full_after; /* deliveries to endpoint 1 until it has too much */

static void become_full(struct rig_node *n, uint32_t from)
{
	if (n->idx == 1 && full_after && !--full_after)
		opx_flow_full(rig_flow(n->g, 1, from), true);
}

/* Packets that wait behind a stream that was full are taken when it is not, even if a question was answered before. */
static void opx_flow__ahead_of_one_that_was_full(void **state)
{
	struct opx_flow *f;
	struct rig g;

	(void)state;
	rig_pair(&g, 6, RIG_FAR);
	f = rig_flow(&g, 1, 0);
	g.on_deliver = become_full;
	full_after = 3;
	g.loss = 1; /* the first one comes last */
	assert_int_equal(rig_post(&g, 0, 1, 24, 0), 0);
	rig_run_for(&g, 10 * NS_PER_US);
	g.loss = 0;
	for (int i = 0; i < 9; i++)
		assert_int_equal(rig_post(&g, 0, 1, 24, 0), 0);
	rig_run_for(&g, 20 * NS_PER_MS);
	assert_int_equal(full_after, 0);
	assert_int_equal(f->ahead_cnt, 7);
	assert_true(STAILQ_EMPTY(&rig_flow(&g, 0, 1)->queue));
	opx_flow_full(f, false);
	rig_forge(&g, 0, 1, rig_ud(OPX_UD_PING, f->rx_key, rig_range(0, 0), 0, 1));
	rig_run_for(&g, 20 * NS_PER_MS);
	assert_int_equal(f->ahead_cnt, 0);
	assert_true(rig_is_done(&g));
	rig_close(&g);
}

/* One that fills all the room there is for packets before their turn. */
static void opx_flow__ahead_is_bounded(void **state)
{
	struct hfi_hdr h = eager(0, 0);
	struct rig g;

	(void)state;
	rig_open(&g, 3, 12, false);
	for (uint32_t i = 0; i < 2; i++)
		rig_peer(&g, i, 2)->want = 1;
	assert_true(rig_run(&g, NS_PER_SEC));
	for (uint32_t from = 0; from < 2; from++) {
		h.key = le64_put(rig_flow(&g, 2, from)->rx_key);
		for (uint32_t psn = 2; psn < 3 * OPX_RX_AHEAD; psn++) {
			h.psn_tx = le32_put(psn);
			rig_forge(&g, from, 2, h);
		}
	}
	/* one alone has a whole window, and half of what is left is the next one's */
	assert_in_range(rig_flow(&g, 2, 0)->ahead_cnt, OPX_RX_AHEAD - 2, OPX_RX_AHEAD);
	assert_in_range(rig_flow(&g, 2, 1)->ahead_cnt, OPX_RX_AHEAD / 2, OPX_RX_AHEAD / 2 + 1);
	assert_int_equal(g.n[2].rel->ahead, rig_flow(&g, 2, 0)->ahead_cnt + rig_flow(&g, 2, 1)->ahead_cnt);
	assert_true(rig_stats(&g, 2)->ahead_drops >= 4 * OPX_RX_AHEAD);
	rig_close(&g);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static void opx_flow__bye(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_pair(&g, 13, where);
		rig_node_close(&g, 0, false);
		rig_run_for(&g, 10 * NS_PER_MS);
		assert_int_equal(rig_peer(&g, 1, 0)->deads, 1);
		assert_int_equal(rig_peer(&g, 1, 0)->why, OPX_ST_PEER_GONE);
		assert_int_equal(opx_rel_stats(g.n[1].rel)->peers_closed, 1);
		assert_int_equal(opx_rel_stats(g.n[1].rel)->peers_dead, 0);
		assert_int_equal(rig_flow(&g, 1, 0)->state, OPX_FLOW_NEW);
		rig_close(&g);
	}
}

/* BYE of one who has only received: its peer, a sender, learns it too. */
static void opx_flow__bye_of_a_receiver(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 14, false);
	rig_peer(&g, 0, 1)->want = 5;
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_node_close(&g, 1, false);
	rig_run_for(&g, 10 * NS_PER_MS);
	assert_int_equal(rig_peer(&g, 0, 1)->deads, 1);
	assert_int_equal(rig_peer(&g, 0, 1)->why, OPX_ST_PEER_GONE);
	rig_close(&g);
}

/* What a computing receiver has in its header queue is delivered before it hears of the sender's end. */
static void opx_flow__bye_does_not_overtake(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_pair(&g, 15, where);
		g.n[1].is_computing = true;
		rig_peer(&g, 0, 1)->want = 50;
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(rig_peer(&g, 0, 1)->want, 0);
		rig_node_close(&g, 0, false);
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(rig_peer(&g, 1, 0)->delivered, 20);
		g.n[1].is_computing = false;
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(rig_peer(&g, 1, 0)->delivered, 70);
		assert_int_equal(rig_peer(&g, 1, 0)->why, OPX_ST_PEER_GONE);
		rig_close(&g);
	}
}

/* Killed and started again under the same address: the other end's flow ends, then all goes on. */
static void opx_flow__peer_restarts(void **state)
{
	struct rig g;

	(void)state;
	for (int i = 0; i < 8; i++) {
		bool local = i & 1, first = i & 2, lossy = i & 4 && !local;

		rig_pair(&g, 16, local);
		g.loss = lossy ? 0.1 : 0;
		rig_node_close(&g, 0, true);
		rig_node_open(&g, 0);
		rig_peer(&g, 0, 1)->want = first ? 100 : 0; /* who speaks first after it */
		rig_peer(&g, 1, 0)->want = first ? 0 : 100;
		for (int k = 0; k < 10000 && !rig_peer(&g, 1, 0)->deads; k++)
			rig_step(&g, g.now + NS_PER_MS);
		assert_int_equal(rig_peer(&g, 1, 0)->deads, 1);
		assert_int_equal(rig_peer(&g, 1, 0)->why, OPX_ST_PEER_REPLACED);
		rig_peer(&g, 0, 1)->rx_stream = rig_peer(&g, 1, 0)->tx_stream;
		rig_peer(&g, 0, 1)->rx_id = 0;
		rig_run_for(&g, 200 * NS_PER_MS);
		rig_peer(&g, 0, 1)->want += 100;
		rig_peer(&g, 1, 0)->want += 100;
		assert_true(rig_run(&g, 5 * NS_PER_SEC));
		assert_int_equal(rig_peer(&g, 1, 0)->deads, 1);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
		rig_close(&g);
	}
}

static int g_silent_said;

static void on_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	g_silent_said += lvl == LOG_LVL_WARN && strstr(msg, "ends with FI_ETIMEDOUT");
}

/* Silence ends a flow if somebody waits or packets are unacknowledged, and only then. */
static void opx_flow__silence(void **state)
{
	struct rig g;

	(void)state;
	g_silent_said = 0;
	log_set_hook(on_log);
	for (int i = 0; i < 4; i++) {
		bool local = i & 1, waits = i & 2;
		uint64_t at;

		rig_pair(&g, 17, local);
		g.n[1].is_asleep = true;
		g.n[0].hfi.is_down = local; /* which is nothing to a peer on this host */
		rig_run_for(&g, 3 * RIG_DEAD);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
		if (waits || local)
			opx_flow_wait(rig_flow(&g, 0, 1), 1);
		else
			assert_int_equal(rig_post(&g, 0, 1, 100, OPX_POST_REF), 0);
		at = g.now;
		rig_run_for(&g, RIG_DEAD - NS_PER_MS);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
		while (!rig_peer(&g, 0, 1)->deads && g.now < at + 2 * RIG_DEAD)
			rig_step(&g, g.now + NS_PER_MS);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 1);
		assert_int_equal(rig_peer(&g, 0, 1)->why, OPX_ST_PEER_SILENT);
		assert_int_equal(g_silent_said, i + 1);
		assert_true(g.now - at <= RIG_DEAD + RIG_DEAD / 4);
		assert_true(opx_rel_drained(g.n[0].rel));
		assert_true(LIST_EMPTY(&g.n[0].ops));
		assert_true(rig_stats(&g, 0)->pings_tx < 500); /* they have become rare */
		g.n[1].is_asleep = false;
		rig_close(&g);
	}
	log_set_hook(NULL);
}

/* A computing peer's service thread answers for it. */
static void opx_flow__computing_is_not_silence(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_pair(&g, 18, where);
		g.n[1].is_computing = true;
		opx_flow_wait(rig_flow(&g, 0, 1), 1);
		rig_peer(&g, 0, 1)->want = 30;
		rig_run_for(&g, 5 * RIG_DEAD);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
		assert_int_equal(rig_peer(&g, 1, 0)->delivered, 20);
		assert_int_equal(rig_stats(&g, 0)->replays, 0); /* its header queue has them */
		g.n[1].is_computing = false;
		assert_true(rig_run(&g, NS_PER_SEC));
		opx_flow_wait(rig_flow(&g, 0, 1), -1);
		rig_close(&g);
	}
}

/* So is the handshake. */
static void opx_flow__handshake_with_a_computing_peer(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_open(&g, 2, 19, where);
		g.n[1].is_computing = true;
		rig_peer(&g, 0, 1)->want = 30;
		opx_flow_wait(rig_meet(&g, 0, 1), 1);
		rig_run_for(&g, 3 * RIG_DEAD);
		assert_int_equal(rig_peer(&g, 0, 1)->want, 0);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
		g.n[1].is_computing = false;
		assert_true(rig_run(&g, NS_PER_SEC));
		opx_flow_wait(rig_flow(&g, 0, 1), -1);
		rig_close(&g);
	}
}

/* Nobody asked the peer anything while its owner did not call for progress. */
static void opx_flow__own_sleep_is_not_the_peers_silence(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_pair(&g, 20, where);
		opx_flow_wait(rig_flow(&g, 0, 1), 1);
		rig_run_for(&g, NS_PER_MS);
		g.n[0].is_computing = true;
		rig_run_for(&g, 10 * RIG_DEAD);
		g.n[0].is_computing = false;
		rig_more(&g);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
		opx_flow_wait(rig_flow(&g, 0, 1), -1);
		rig_close(&g);
	}
}

/* Who waits for somebody that it never sent anything to learns of its death, too. */
static void opx_flow__waits_without_a_stream(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 21, false);
	rig_peer(&g, 0, 1)->want = 5;
	assert_true(rig_run(&g, NS_PER_SEC));
	opx_flow_wait(rig_flow(&g, 1, 0), 1);
	rig_run_for(&g, 2 * RIG_DEAD);
	assert_int_equal(rig_peer(&g, 1, 0)->deads, 0);
	g.n[0].is_asleep = true;
	rig_run_for(&g, 2 * RIG_DEAD);
	assert_int_equal(rig_peer(&g, 1, 0)->deads, 1);
	assert_int_equal(rig_peer(&g, 1, 0)->why, OPX_ST_PEER_SILENT);
	opx_flow_wait(rig_flow(&g, 1, 0), -1);
	g.n[0].is_asleep = false;
	rig_close(&g);
}

static void opx_flow__gone(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_pair(&g, 22, where);
		rig_node_close(&g, 1, true);
		rig_peer(&g, 0, 1)->want = 5;
		rig_run_for(&g, 10 * NS_PER_MS);
		assert_int_equal(rig_peer(&g, 0, 1)->deads >= 1, 1);
		assert_int_equal(rig_peer(&g, 0, 1)->why, OPX_ST_PEER_GONE);
		assert_true(opx_rel_drained(g.n[0].rel));
		/* between the cause and the end posts are refused */
		rig_peer(&g, 0, 1)->want = 0;
		rig_node_open(&g, 1);
		rig_peer(&g, 1, 0)->rx_stream = 0;
		rig_more(&g);
		opx_rel_gone(g.n[0].rel, g.n[0].dst[1], -ETIMEDOUT);
		assert_int_equal(rig_post(&g, 0, 1, 10, 0), -ETIMEDOUT);
		assert_int_equal(rig_post(&g, 0, 1, 10, OPX_POST_CONTROL), -ETIMEDOUT);
		rig_step(&g, g.now + NS_PER_MS);
		assert_int_equal(rig_peer(&g, 0, 1)->why, OPX_ST_PEER_SILENT);
		rig_close(&g);
	}
}

/* A flow in which nothing ever happened has nothing to end. */
static void opx_flow__gone_of_a_new_flow(void **state)
{
	struct rig g;

	(void)state;
	rig_open(&g, 2, 23, false);
	opx_rel_gone(g.n[0].rel, g.n[0].dst[1], -ECONNREFUSED);
	rig_meet(&g, 0, 1);
	opx_rel_gone(g.n[0].rel, g.n[0].dst[1], -ECONNREFUSED);
	rig_run_for(&g, NS_PER_MS);
	assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
	rig_close(&g);
}

/* Whatever ends it, until it has ended nobody may take it for open. */
static void opx_flow_open__of_a_doomed_one(void **state)
{
	struct rig g;

	(void)state;
	rig_pair(&g, 27, RIG_LOCAL);
	assert_int_equal(opx_flow_open(rig_flow(&g, 0, 1)), 0);
	for (int why = OPX_ST_KEY; why < OPX_ST_NUM; why++) {
		rig_flow(&g, 0, 1)->doom = (uint8_t)why;
		assert_true(opx_flow_open(rig_flow(&g, 0, 1)) < 0);
	}
	rig_flow(&g, 0, 1)->doom = OPX_OK;
	rig_more(&g);
	rig_close(&g);
}

static void opx_flow__send_errors(void **state)
{
	static const struct {
		int err;
		enum opx_status why;
	} row[] = {{-ECONNREFUSED, OPX_ST_PEER_GONE}, {-EHOSTUNREACH, OPX_ST_UNREACH}, {-ENETUNREACH, OPX_ST_UNREACH}};
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
			rig_pair(&g, 24, where);
			g.n[0].pio_err = row[i].err;
			assert_int_equal(rig_post(&g, 0, 1, 10, 0), row[i].err);
			assert_int_equal(rig_peer(&g, 0, 1)->deads, 0); /* never inside a post */
			rig_step(&g, g.now + NS_PER_MS);
			assert_int_equal(rig_peer(&g, 0, 1)->deads, 1);
			assert_int_equal(rig_peer(&g, 0, 1)->why, row[i].why);
			/* of a new flow: the error only, there is nothing to end */
			assert_int_equal(rig_post(&g, 0, 1, 10, 0), row[i].err);
			rig_step(&g, g.now + NS_PER_MS);
			assert_int_equal(rig_peer(&g, 0, 1)->deads, 1);
			g.n[0].pio_err = 0;
			rig_close(&g);
		}
	}
}

/* A port that is down refuses posts; what is under way survives if it comes back in time, else ends with the reason. */
static void opx_flow__port_down(void **state)
{
	struct rig g;

	(void)state;
	for (int back = 0; back < 2; back++) {
		rig_pair(&g, 25, false);
		g.loss = 1;
		for (int i = 0; i < 10; i++)
			assert_int_equal(rig_post(&g, 0, 1, 100, OPX_POST_REF), 0);
		g.n[0].hfi.is_down = true;
		assert_int_equal(rig_post(&g, 0, 1, 10, 0), -ENETDOWN);
		assert_int_equal(rig_post(&g, 0, 1, 10, OPX_POST_CONTROL), 0);
		rig_run_for(&g, back ? RIG_DEAD / 2 : 2 * RIG_DEAD);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, !back);
		g.loss = 0;
		g.n[0].hfi.is_down = false;
		if (back)
			assert_true(rig_run(&g, NS_PER_SEC));
		else
			assert_int_equal(rig_peer(&g, 0, 1)->why, OPX_ST_NET_DOWN);
		rig_close(&g);
	}
}

/*
 * One end gives up on the other, which lives: both begin anew, nothing is taken for an old packet, and it is not taken
 * for one end more. Whichever streams there were, and whoever speaks first after it.
 */
static void opx_flow__one_sided_end(void **state)
{
	struct rig g;

	(void)state;
	for (uint32_t i = 0; i < RIG_WHERE_NUM * 3 * 3 * 2; i++) {
		bool restart = i / 27;
		uint32_t had = 1 + i / 3 % 3, speaks = 1 + i / 9 % 3; /* bit 0: from 0, bit 1: from 1 */

		rig_open(&g, 2, 26 + i, (int)(i % RIG_WHERE_NUM));
		rig_peer(&g, 0, 1)->want = had & 1 ? 30 : 0;
		rig_peer(&g, 1, 0)->want = had & 2 ? 30 : 0;
		assert_true(rig_run(&g, NS_PER_SEC));
		if (restart) {
			rig_node_close(&g, 0, true);
			rig_node_open(&g, 0);
		} else {
			opx_flow_doom(rig_flow(&g, 0, 1), OPX_ST_PEER_SILENT);
			rig_step(&g, g.now + NS_PER_MS);
		}
		rig_peer(&g, 0, 1)->want = speaks & 1 ? 50 : 0;
		rig_peer(&g, 1, 0)->want = speaks & 2 ? 50 : 0;
		rig_run_for(&g, 100 * NS_PER_MS);
		rig_peer(&g, 0, 1)->want += 50;
		rig_peer(&g, 1, 0)->want += 50;
		if (restart) /* what was sent before the end was known may be lost, no more */
			rig_run_for(&g, 100 * NS_PER_MS);
		rig_run_for(&g, 100 * NS_PER_MS);
		assert_int_equal(rig_peer(&g, 1, 0)->deads, 1);
		assert_int_equal(rig_peer(&g, 1, 0)->why, OPX_ST_PEER_REPLACED);
		assert_int_equal(rig_peer(&g, 0, 1)->deads, !restart);
		assert_int_equal(rig_flow(&g, 0, 1)->epoch, rig_flow(&g, 1, 0)->peer_epoch);
		assert_int_equal(rig_flow(&g, 1, 0)->epoch, rig_flow(&g, 0, 1)->peer_epoch);
		assert_int_equal(rig_peer(&g, 0, 1)->want + rig_peer(&g, 1, 0)->want, 0);
		assert_true(opx_rel_drained(g.n[0].rel) && opx_rel_drained(g.n[1].rel));
		rig_close(&g);
	}
}

/* Ends at random moments, under loss: never a packet twice or out of order in any stream, never a reference left. */
static void opx_flow__random_ends(void **state)
{
	struct rng r = unit_rng();
	struct rig g;

	(void)state;
	for (int i = 0; i < 60; i++) {
		rig_open(&g, 3, rng_u64(&r), i % RIG_WHERE_NUM);
		g.loss = i % 2 ? 0.05 : 0;
		g.dup = g.reorder = i % 4 == 1 ? 0.05 : 0;
		for (int k = 0; k < 30; k++) {
			uint32_t a = (uint32_t)rng_below(&r, 3), b = (a + 1 + (uint32_t)rng_below(&r, 2)) % 3;

			rig_peer(&g, a, b)->want += (uint32_t)rng_below(&r, 100);
			rig_run_for(&g, rng_below(&r, 300 * NS_PER_US));
			if (rng_below(&r, 6) == 0) {
				rig_node_close(&g, a, rng_below(&r, 2));
				rig_run_for(&g, rng_below(&r, 5 * NS_PER_MS));
				rig_node_open(&g, a);
				for (uint32_t n = 0; n < 3; n++)
					rig_peer(&g, a, n)->rx_stream = rig_peer(&g, a, n)->rx_id = 0;
				g.is_lenient = true; /* the model does not follow who was told what */
			} else if (rng_below(&r, 6) == 0 && rig_peer(&g, a, b)->is_used) {
				opx_flow_doom(rig_flow(&g, a, b), OPX_ST_PEER_SILENT);
			}
		}
		rig_run_for(&g, 3 * RIG_DEAD);
		for (uint32_t n = 0; n < 3; n++) {
			assert_true(opx_rel_drained(g.n[n].rel));
			assert_true(LIST_EMPTY(&g.n[n].ops));
		}
		rig_close(&g);
	}
}

/* --- a successor on this host ------------------------------------------------------------------------------------- */

/*
 * Our packets to the peer took the network, and SDMA still reads some; its successor is near, sends, and keeps no copy
 * of what it sends, perhaps closes at once. All of it is delivered, in order, after the end of what there was before,
 * whether or not anything comes behind it.
 */
static void opx_flow__successor_while_sdma_reads(void **state)
{
	struct rig g;

	(void)state;
	for (int where = RIG_LOCAL; where < RIG_WHERE_NUM; where++)
		for (int closes = 0; closes < 2; closes++) {
			rig_pair(&g, 21, RIG_FAR);
			g.n[0].hw.is_stalled = true;
			assert_int_equal(rig_sdma(&g, 0, 1, 4, 128, false), 0);
			rig_node_close(&g, 1, true);
			g.is_local = true;
			g.is_admitted = where == RIG_NEAR;
			rig_node_open(&g, 1);
			rig_peer(&g, 0, 1)->delivered = 0;
			rig_peer(&g, 1, 0)->want = 20;
			rig_run_for(&g, 5 * NS_PER_MS);
			assert_int_equal(rig_peer(&g, 1, 0)->want, 0);
			assert_int_equal(rig_peer(&g, 0, 1)->delivered, 0);
			assert_int_equal(rig_peer(&g, 0, 1)->deads, 0);
			if (closes)
				rig_node_close(&g, 1, false);
			rig_run_for(&g, NS_PER_MS);
			g.n[0].hw.is_stalled = false;
			rig_run_for(&g, NS_PER_MS);
			assert_int_equal(rig_peer(&g, 0, 1)->delivered, 20);
			assert_int_equal(rig_peer(&g, 0, 1)->deads, 1 + closes);
			assert_true(LIST_EMPTY(&g.n[0].ops));
			if (!closes)
				rig_more(&g);
			rig_close(&g);
		}
}

/* Where there is no room to keep them, the successor is told so: it ends with an error, not with a hole. */
static void opx_flow__successor_without_room(void **state)
{
	struct rig g;

	(void)state;
	rig_pair(&g, 22, RIG_FAR);
	g.n[0].hw.is_stalled = true;
	assert_int_equal(rig_sdma(&g, 0, 1, 4, 128, false), 0);
	rig_node_close(&g, 1, true);
	g.is_local = g.is_admitted = true;
	rig_node_open(&g, 1);
	g.n[0].rel->ahead += OPX_RX_KEPT;
	rig_peer(&g, 1, 0)->want = 1;
	rig_run_for(&g, NS_PER_MS);
	g.n[0].rel->ahead -= OPX_RX_KEPT;
	g.n[0].hw.is_stalled = false;
	rig_run_for(&g, NS_PER_MS);
	assert_int_equal(rig_stats(&g, 0)->ahead_drops, 1);
	assert_int_equal(rig_peer(&g, 1, 0)->deads, 1);
	assert_int_equal(rig_peer(&g, 1, 0)->why, OPX_ST_PEER_REPLACED);
	rig_more(&g);
	rig_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opx_flow__no_memory_for_a_stranger),
		cmocka_unit_test(opx_flow__wrong_keys),
		cmocka_unit_test(opx_flow__no_stream_no_packet),
		cmocka_unit_test(opx_flow__hostile_ranges),
		cmocka_unit_test(opx_flow__hole_on_one_host),
		cmocka_unit_test(opx_flow__ack_beyond_what_was_sent),
		cmocka_unit_test(opx_flow__psn_far_ahead_is_dropped),
		cmocka_unit_test(opx_flow__ahead_of_one_that_was_full),
		cmocka_unit_test(opx_flow__ahead_is_bounded),
		cmocka_unit_test(opx_flow__bye),
		cmocka_unit_test(opx_flow__bye_of_a_receiver),
		cmocka_unit_test(opx_flow__bye_does_not_overtake),
		cmocka_unit_test(opx_flow__peer_restarts),
		cmocka_unit_test(opx_flow__silence),
		cmocka_unit_test(opx_flow__computing_is_not_silence),
		cmocka_unit_test(opx_flow__handshake_with_a_computing_peer),
		cmocka_unit_test(opx_flow__own_sleep_is_not_the_peers_silence),
		cmocka_unit_test(opx_flow__waits_without_a_stream),
		cmocka_unit_test(opx_flow__gone),
		cmocka_unit_test(opx_flow__gone_of_a_new_flow),
		cmocka_unit_test(opx_flow_open__of_a_doomed_one),
		cmocka_unit_test(opx_flow__send_errors),
		cmocka_unit_test(opx_flow__port_down),
		cmocka_unit_test(opx_flow__one_sided_end),
		cmocka_unit_test(opx_flow__random_ends),
		cmocka_unit_test(opx_flow__successor_while_sdma_reads),
		cmocka_unit_test(opx_flow__successor_without_room),
	};

	return cmocka_run_group_tests_name("opx_flow_life", tests, NULL, NULL);
}
