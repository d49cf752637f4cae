// SPDX-License-Identifier: BSD-2-Clause
// The reliability module as a mere carrier: RAW frames, of which nobody keeps anything.
#include "rel_rig.h"

static void rel_raw__frames_arrive_without_a_pair(void **state)
{
	struct sim_attr attr = {.seed = 27};
	struct link_peer *peer;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RAW, &attr, NULL);
	for (uint32_t len = 16; len <= LINK_FRAME_MAX; len += 100) {
		assert_int_equal(rig_send(&g, 0, 1, len), 0);
		rig_step(&g, rig_now(&g) + 10 * NS_PER_US);
	}
	rig_run_for(&g, NS_PER_MS);
	assert_int_equal(g.n[1].delivered, g.frame_cnt);
	assert_int_equal(g.n[1].port.stats.net_tx_dgrams, 0); /* nothing comes back */
	assert_true(rig_peer(&g, 1, 0)->is_met); /* when it dies, that is no sign that its host is out of reach */
	/* another incarnation's frames are dropped */
	peer = rig_peer(&g, 0, 1);
	g.n[1].port.self.nonce ^= 2;
	assert_int_equal(
		rel_send(g.n[0].port.rel, peer, LINK_K_NIC, "x", 1, NULL, 0, NULL, rig_now(&g)), 0);
	rig_run_for(&g, NS_PER_MS);
	assert_int_equal(g.n[1].port.stats.drop_nonce, 1);
	rig_close(&g);
}

/* One frame of @len bytes in @cnt pieces, whose bytes are right only before rel_send() or only after it. */
static void raw_borrow(struct rig *g, uint32_t len, int cnt, bool is_late)
{
	struct rig_frame *f = rig_frame_new(g, 0, 1, len);
	uint32_t part = len / (uint32_t)cnt;
	uint8_t *keep = malloc(len);
	struct iovec iov[LINK_IOV_MAX];

	for (int i = 0; i < cnt; i++)
		iov[i] = (struct iovec){f->mem + part * (uint32_t)i, part};
	iov[cnt - 1].iov_len += len - part * (uint32_t)cnt;
	memcpy(keep, f->mem, len);
	if (is_late)
		memset(f->mem, 0xbb, len);
	assert_int_equal(rel_send(g->n[0].port.rel, rig_peer(g, 0, 1), f->id % 3 ? LINK_K_NIC : LINK_K_BULK, NULL, 0,
				  iov, cnt, f, rig_now(g)),
			 0);
	if (is_late)
		memcpy(f->mem, keep, len);
	else if (!g->n[0].port.is_borrowing)
		memset(f->mem, 0xbb, len);
	free(keep);
	f->ended = true;
	g->ended++;
}

/*
 * A borrowed payload is read when its datagram goes, no later than the flush; another one at once. The rig checks what
 * arrives.
 */
static void rel_raw__borrowed_bytes(void **state)
{
	struct sim_attr attr = {.seed = 30, .mtu = 60000};
	struct rig g;

	(void)state;
	for (int i = 0; i < 4; i++) {
		bool borrows = i & 1;

		attr.mtu = i & 2 ? 1472 : 60000;
		rig_open(&g, 2, LINK_RAW, &attr, NULL);
		g.n[0].port.is_borrowing = borrows;
		for (int k = 0; k < 20; k++) /* of more pieces together than a datagram may have */
			raw_borrow(&g, 2000, LINK_IOV_MAX, borrows && attr.mtu == 60000);
		raw_borrow(&g, LINK_FRAME_MAX, 1, borrows && attr.mtu == 60000);
		rel_carrier_flush(g.n[0].port.rel);
		for (uint32_t k = 0; k < g.frame_cnt; k++) { /* the owner may do so now */
			memset(g.frame[k]->mem, 0xcc, g.frame[k]->len);
			free(g.frame[k]->mem);
			g.frame[k]->mem = NULL;
		}
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(g.n[1].delivered, g.frame_cnt);
		rig_close(&g);
	}
}

/* A frame that may linger leaves with the next one, or when its time is over, or when its owner goes to sleep. */
static void rel_raw__lingers(void **state)
{
	struct sim_attr attr = {.seed = 32};
	struct rel *r;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RAW, &attr, NULL);
	r = g.n[0].port.rel;
	for (int i = 0; i < 3; i++) {
		uint64_t begin = rig_now(&g), dgrams = g.n[0].port.stats.net_tx_dgrams;
		uint32_t came = g.n[1].delivered;

		assert_int_equal(rig_send(&g, 0, 1, 64), 0);
		assert_int_equal(rel_next_deadline(r), 0);
		rel_linger(r, begin);
		rel_linger(r, begin + 1); /* the first one counts */
		assert_int_equal(rel_next_deadline(r), begin + REL_ACK_DELAY_NS);
		if (i == 1) {
			assert_int_equal(rig_send(&g, 0, 1, 800), 0);
			rel_flush(r, begin);
		} else if (i == 2) {
			assert_true(rel_ack_owed(r, begin));
			rel_flush(r, begin);
			assert_false(rel_ack_owed(r, begin));
			/* what follows begins a burst, and is not in the middle of one */
			assert_int_equal(rig_send(&g, 0, 1, 64), 0);
			assert_false(rel_may_wait(r, begin + 1));
			rel_flush(r, begin + 1);
			dgrams++, came++;
		}
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(g.n[1].delivered - came, i == 1 ? 2 : 1);
		assert_int_equal(g.n[0].port.stats.net_tx_dgrams - dgrams, 1);
		assert_int_equal(rel_next_deadline(r), CLK_NEVER);
	}
	rig_close(&g);
}

static void rel_raw__lost_segments_leave_nothing_behind(void **state)
{
	struct sim_attr attr = {
		.seed = 28, .drop_ppm = 100000, .dup_ppm = 50000, .reorder_ppm = 50000};
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RAW, &attr, NULL);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(rig_send(&g, 0, 1, 5000),
				 0); /* 4 datagrams: about two thirds arrive */
		rig_run_for(&g, 10 * NS_PER_US);
	}
	rig_run_for(&g, NS_PER_SEC);
	assert_in_range(g.n[1].delivered, 500, 900);
	assert_null(rig_peer(&g, 1, 0)->rel->win);
	assert_int_equal(slab_used(&g.n[1].port.rel->asms), 0);
	rig_run_for(&g, REL_HALF_NS); /* nobody else knows it */
	assert_int_equal(g.n[1].port.rel->peer_cnt, 0);
	assert_int_equal(rel_next_deadline(g.n[1].port.rel), CLK_NEVER);
	rig_close(&g);
}

/* One frame of a sender that calls itself @nonce at @port. */
static void raw_say(struct rig *g, uint16_t port, uint32_t nonce)
{
	struct rel_pkt pkt = {.type = REL_RAW, .nonce = (uint64_t)g->n[0].port.self.nonce << 32 | nonce};
	struct {
		struct rel_base base;
		struct rel_rec rec;
	} d = {.rec = {.kind = LINK_K_NIC}};
	struct link_addr addr = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .port = port};

	rel_base_encode(&pkt, &d.base);
	rel_input(g->n[0].port.rel, &addr, &d, sizeof(d), rig_now(g));
}

/* A sender that calls itself another with each datagram leaves nothing behind that would keep newcomers out. */
static void rel_raw__many_at_one_place(void **state)
{
	struct sim_attr attr = {.seed = 31, .is_silent = true};
	uint32_t came;
	struct rig g;

	(void)state;
	rig_open(&g, 1, LINK_RAW, &attr, NULL);
	g.is_lenient = true;
	g.n[0].peer_max = 4 * REL_PLACE_MAX;
	for (uint32_t i = 1; i <= 1000; i++)
		raw_say(&g, 77, i);
	assert_in_range(g.n[0].port.rel->peer_cnt, 1, REL_PLACE_MAX);
	came = g.n[0].port.rel->peer_cnt;
	raw_say(&g, 78, 1);
	assert_int_equal(g.n[0].port.rel->peer_cnt, came + 1);
	rig_close(&g);
}

/*
 * What the path said of one peer's datagrams is forgotten after a while; only what is longer than that may be cut up.
 */
struct ruler {
	uint32_t longest, cut;
	struct rel_base last;
};

static enum sim_fate ruler_see(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
			       size_t len)
{
	struct ruler *r = ctx;

	r->longest = MAX(r->longest, (uint32_t)len);
	r->cut += dst->flags == LINK_ADDR_CUT;
	memcpy(&r->last, buf, sizeof(r->last));
	return SIM_PASS;
}

static void rel_raw__path(void **state)
{
	static const struct {
		uint32_t says, longest;
		bool is_cut;
	} row[] = {{0, 1472, false}, {600, 600, false}, {300, 512, true}, {0, 1472, false}};
	struct sim_attr attr = {.seed = 32, .mtu = 1472};
	struct ruler r = {0};
	struct rig g;

	rig_open(&g, 2, LINK_RAW, &attr, NULL);
	sim_set_filter(g.sim, ruler_see, &r);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct carrier_error e = {.err = EMSGSIZE, .mtu = row[i].says, .quote_len = sizeof(r.last)};
		struct rel_base quoted = r.last;

		e.quote = (const uint8_t *)&quoted;
		if (row[i].says)
			rel_error(g.n[0].port.rel, &g.n[1].port.self, &e, rig_now(&g));
		else
			rig_run_for(&g, REL_PATH_NS);
		r.longest = r.cut = 0;
		for (uint32_t k = 0; k < 20; k++) {
			assert_int_equal(rig_send(&g, 0, 1, k % 2 ? 1400 : 8000), 0);
			rig_run_for(&g, NS_PER_MS);
		}
		assert_in_range(r.longest, row[i].longest - 60, row[i].longest);
		assert_int_equal(r.cut != 0, row[i].is_cut);
	}
	assert_int_equal(g.n[1].delivered, g.frame_cnt);
	rig_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rel_raw__frames_arrive_without_a_pair),
		cmocka_unit_test(rel_raw__borrowed_bytes),
		cmocka_unit_test(rel_raw__lingers),
		cmocka_unit_test(rel_raw__lost_segments_leave_nothing_behind),
		cmocka_unit_test(rel_raw__many_at_one_place),
		cmocka_unit_test(rel_raw__path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
