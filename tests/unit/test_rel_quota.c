// SPDX-License-Identifier: BSD-2-Clause
// Strangers with a pair each who begin much and finish nothing: what is kept for them is bounded, and honest peers get
// on, with little room, with windows full of refused frames and without memory. Work and time are the simulator's, so
// that every run is the same.
#include "rel_rig.h"

#define SOURCES 10u
#define PAIRS	100u /* of one source */
#define SEG_LEN 1400u

/* A peer of node 0 behind @source that has made its pair. */
static struct rel_peer *stranger(struct rig *g, uint32_t source, uint32_t n)
{
	struct link_addr addr = {.port = (uint16_t)(1000 + n), .nonce = 1 + source * 1000 + n};
	struct rel *r = g->n[0].port.rel;
	struct rel_peer *rp;

	addr.ip[10] = addr.ip[11] = 0xff;
	addr.ip[12] = 10;
	addr.ip[15] = (uint8_t)source;
	rp = rel_peer_new(r, rig_peer_at(&g->n[0], &addr));
	assert_non_null(rp);
	rel_set_state(rp, REL_S_OPEN);
	rp->pair = rng_u64(&g->rng) | 1;
	rp->has_heard = true;
	rp->heard_ns = rp->pto_base_ns = rp->used_ns = rig_now(g);
	rp->tx_seq = rp->tx_una = rp->rx_next = rp->rx_proc = rp->rx_top = REL_SEQ_FIRST;
	rp->nak_una = rp->nak_tx = rp->nak_end = rp->nak_rx = REL_SEQ_FIRST;
	return rp;
}

/* Return: @n more may be kept for @rp, and are. */
static bool take(struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	bool may = rel_quota_has(rp, q, n);

	if (may)
		rel_quota_add(rp, q, n);
	return may;
}

/* The @n-th datagram of @rp, with these records. */
static void inject(struct rig *g, struct rel_peer *rp, enum rel_type type, uint32_t n, const void *recs, size_t len)
{
	struct rel_pkt pkt = {.type = type, .nonce = rp->pair, .seq = REL_SEQ_FIRST + n, .ack = rp->tx_una,
			      .tx = (uint16_t)n, .credit_kib = 64};
	struct link_addr addr = rp->peer->addr;
	static uint8_t buf[REL_DGRAM_MAX];

	rel_input(g->n[0].port.rel, &addr, buf, rig_encode(&pkt, recs, len, buf), rig_now(g));
}

/* As that, the first segment of a frame. */
static void inject_first(struct rig *g, struct rel_peer *rp, uint32_t n)
{
	struct {
		struct rel_rec rec;
		struct rel_seg seg;
		uint8_t data[SEG_LEN];
	} d = {.rec = {le32_put(n), le16_put(SEG_LEN), LINK_K_NIC, REL_REC_SEG},
	       .seg = {0, 1 + (LINK_FRAME_MAX - 1) / SEG_LEN, le16_put(LINK_FRAME_MAX)}};

	inject(g, rp, REL_DATA, n, &d, sizeof(d));
}

#define TINY_CNT 7000u

/* As that, as many frames as it holds. */
static void inject_tiny(struct rig *g, struct rel_peer *rp, uint32_t n)
{
	static struct rel_rec recs[TINY_CNT];

	for (uint32_t i = 0; i < TINY_CNT; i++)
		recs[i] = (struct rel_rec){le32_put(n * TINY_CNT + i), le16_put(0), LINK_K_NIC, 0};
	inject(g, rp, REL_DATA, n, recs, sizeof(recs));
}

/* As many senders that do nothing wrong: credit is shared among those who send. */
static void inject_probe(struct rig *g, struct rel_peer *rp, uint32_t n)
{
	inject(g, rp, REL_DATA, 0, NULL, 0);
}

static struct rel_peer *g_mob[SOURCES][PAIRS];
static uint32_t g_sent[SOURCES][PAIRS];

static void mob_open(struct rig *g)
{
	memset(g_sent, 0, sizeof(g_sent));
	for (uint32_t s = 0; s < SOURCES; s++) {
		for (uint32_t i = 0; i < PAIRS; i++)
			g_mob[s][i] = stranger(g, s, i);
	}
}

/* One datagram of each, or of every @part-th. */
static void mob_act(struct rig *g, void (*act)(struct rig *, struct rel_peer *, uint32_t), uint32_t first,
		    uint32_t part)
{
	for (uint32_t s = 0; s < SOURCES; s++) {
		for (uint32_t i = 0; i < PAIRS; i++) {
			if ((s * PAIRS + i) % part == 0 && !g->n[0].peers_dead)
				act(g, g_mob[s][i],
				    first + (act == inject_probe ? 0 : g_sent[s][i]++ % (REL_WINDOW - 2)));
		}
	}
}

/* @cnt frames of @len from node 1 to node 0, while @act goes on. Return: simulated time until all have ended. */
static uint64_t honest(struct rig *g, uint32_t cnt, uint32_t len,
		       void (*act)(struct rig *, struct rel_peer *, uint32_t), uint32_t first)
{
	uint64_t start = rig_now(g), end = start + NS_PER_SEC;

	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(rig_send(g, 1, 0, len), 0);
	for (uint64_t next = 0; g->ended < g->frame_cnt && rig_now(g) < end;) {
		rig_step(g, end);
		if (act && rig_now(g) >= next) {
			mob_act(g, act, first, 50);
			next = rig_now(g) + NS_PER_US;
		}
	}
	assert_int_equal(g->ended, g->frame_cnt);
	assert_int_equal(g->n[1].err, 0);
	return rig_now(g) - start;
}

static void rel_quota__unfinished_frames(void **state)
{
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		struct sim_attr attr = {.seed = 7, .mtu = 1472, .drop_ppm = 2000, .is_silent = true};
		struct rig g;
		uint64_t alone, beset;
		struct rel *r;

		rig_open(&g, 2, cls, &attr, NULL);
		r = g.n[0].port.rel;
		honest(&g, 1, 100, NULL, 0);
		mob_open(&g);
		mob_act(&g, inject_probe, 0, 1);
		alone = honest(&g, 1000, 18000, NULL, 0);
		for (int i = 0; i < 30; i++)
			mob_act(&g, inject_first, 0, 1);
		beset = honest(&g, 1000, 18000, inject_first, 0);
		print_message("class %u: 1000 frames in %llu us, beset in %llu us, %u assemblies\n", cls,
			      (unsigned long long)alone / 1000, (unsigned long long)beset / 1000, slab_used(&r->asms));
		assert_true(beset <= 2 * alone);
		assert_in_range(r->asms.cap, 0, 4096 + SOURCES * PAIRS + 8);
		rig_close(&g);
		assert_int_equal(g.n[1].ok, 2001);
	}
}

/* Early datagrams of an ordered pair wait, and each of their frames may have to be refused. */
static void rel_quota__early_datagrams(void **state)
{
	struct sim_attr attr = {.seed = 8, .mtu = 1472, .drop_ppm = 2000, .is_silent = true};
	uint64_t alone, beset;
	struct rig g;
	struct rel *r;

	rig_open(&g, 2, LINK_ORDERED, &attr, NULL);
	r = g.n[0].port.rel;
	honest(&g, 1, 100, NULL, 0);
	mob_open(&g);
	mob_act(&g, inject_probe, 0, 1);
	alone = honest(&g, 4000, 100, NULL, 0);
	for (int i = 0; i < 5; i++)
		mob_act(&g, inject_tiny, 1, 1);
	beset = honest(&g, 4000, 100, inject_tiny, 1);
	print_message("4000 frames in %llu us, beset in %llu us, %u bytes wait, room for %u refusals\n",
		      (unsigned long long)alone / 1000, (unsigned long long)beset / 1000,
		      (uint32_t)r->quota.pool[REL_Q_STASH], r->naks.cap);
	assert_true(beset <= 2 * alone);
	assert_in_range(r->quota.pool[REL_Q_STASH], 0, 32u << 20);
	assert_in_range(r->naks.cap, 0, 262144 + 256 * SOURCES * PAIRS + 8192 + REL_FRAMES_PEER);
	rig_close(&g);
	assert_int_equal(g.n[1].ok, 8001);
}

/* Frames are refused, and whoever sent them never says that he knows. */
static void rel_quota__refusals(void **state)
{
	struct sim_attr attr = {.seed = 9, .mtu = 1472, .is_silent = true};
	uint64_t alone, beset;
	struct rig g;
	struct rel *r;

	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	g.is_lenient = true;
	r = g.n[0].port.rel;
	honest(&g, 1, 100, NULL, 0);
	mob_open(&g);
	mob_act(&g, inject_probe, 0, 1);
	alone = honest(&g, 4000, 100, NULL, 0);
	for (int i = 0; i < 3; i++)
		mob_act(&g, inject_tiny, 0, 1);
	beset = honest(&g, 4000, 100, inject_tiny, 0);
	print_message("4000 frames in %llu us, beset in %llu us, %u refusals\n", (unsigned long long)alone / 1000,
		      (unsigned long long)beset / 1000, slab_used(&r->naks));
	assert_true(beset <= 2 * alone);
	assert_in_range(r->naks.cap, 0, 262144 + 256 * SOURCES * PAIRS + 8192);
	rig_close(&g);
}

/* As from somebody new of the same address. */
static void inject_hello(struct rig *g, const struct rel_peer *rp)
{
	struct rel_pkt pkt = {.type = REL_HELLO, .hello = {.half = rng_u64(&g->rng), .serial = 1, .cls = LINK_ORDERED}};
	struct link_addr addr = rp->peer->addr;
	uint8_t buf[128];

	addr.port = (uint16_t)rng_below(&g->rng, 65536);
	pkt.hello.src_nonce = (uint32_t)pkt.hello.half | 1;
	pkt.hello.dst_nonce = g->n[0].port.self.nonce;
	rel_input(g->n[0].port.rel, &addr, buf, rig_encode(&pkt, NULL, 0, buf), rig_now(g));
}

/* Each address has its own way. */
static void inject_any(struct rig *g, struct rel_peer *rp, uint32_t n)
{
	switch (rp->peer->addr.ip[15] % 3) {
	case 0:
		inject_first(g, rp, n);
		break;
	case 1:
		inject_tiny(g, rp, n + 1);
		break;
	case 2:
		for (int i = 0; i < 10; i++)
			inject_hello(g, rp);
		break;
	}
}

/* Ten attackers of 100 pairs each: an honest pair keeps half of its rate. tests/perf/beset.c has it in real time. */
static void rel_quota__ten_attackers(void **state)
{
	struct sim_attr attr = {.seed = 19, .mtu = 1472, .drop_ppm = 2000, .is_silent = true};
	uint64_t alone, beset;
	struct rig g;
	struct rel *r;

	rig_open(&g, 2, LINK_ORDERED, &attr, NULL);
	r = g.n[0].port.rel;
	honest(&g, 1, 100, NULL, 0);
	mob_open(&g);
	mob_act(&g, inject_probe, 0, 1);
	alone = honest(&g, 1000, 5000, NULL, 0);
	for (int i = 0; i < 5; i++)
		mob_act(&g, inject_any, 0, 1);
	beset = honest(&g, 1000, 5000, inject_any, 0);
	print_message("1000 frames in %llu us, beset in %llu us; %u assemblies, %u KiB wait, %u half-open, %u peers\n",
		      (unsigned long long)alone / 1000, (unsigned long long)beset / 1000, slab_used(&r->asms),
		      (uint32_t)r->quota.pool[REL_Q_STASH] / 1024, r->half_cnt, r->peer_cnt);
	assert_true(beset <= 2 * alone);
	assert_in_range(r->asms.cap, 0, 4096 + SOURCES * PAIRS + 8);
	assert_in_range(r->quota.pool[REL_Q_STASH], 0, 32u << 20);
	assert_int_equal(r->peer_cnt, SOURCES * PAIRS + 1); /* who only says HELLO is nobody */
	rig_close(&g);
	assert_int_equal(g.n[1].ok, 2001);
}

/* What waits may be refused later, whatever has become of the pool: room was kept for it. */
static void rel_quota__early_and_refused(void **state)
{
	struct sim_attr attr = {.seed = 12, .mtu = 1472, .is_silent = true};
	struct rel_peer *first[4];
	struct rig g;

	rig_open(&g, 2, LINK_ORDERED, &attr, NULL);
	g.is_lenient = true;
	for (uint32_t i = 0; i < ARRAY_SIZE(first); i++) {
		first[i] = stranger(&g, 100 + i, 1);
		inject_tiny(&g, first[i], 1); /* waits for number 0 */
		assert_int_equal(first[i]->quota.used[REL_Q_EARLY], TINY_CNT);
	}
	for (uint32_t s = 0; s < 50; s++) {
		struct rel_peer *greedy = stranger(&g, 200 + s, 1);

		while (take(greedy, REL_Q_NAK, 300) || take(greedy, REL_Q_EARLY, 300))
			;
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(first); i++) {
		struct rel_rec rec = {le32_put(1), le16_put(0), LINK_K_NIC, 0};

		inject(&g, first[i], REL_DATA, 0, &rec, sizeof(rec));
		assert_int_equal(first[i]->quota.used[REL_Q_EARLY], 0);
		assert_in_range(first[i]->quota.used[REL_Q_NAK], 1, TINY_CNT); /* half of them, about, were refused */
	}
	rig_close(&g);
}

/* Who is heard, but never finishes what he began, is no peer for ever. */
static void rel_quota__what_never_ends(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		struct sim_attr attr = {.seed = 10, .mtu = 1472, .is_silent = true};
		struct rel_peer *rp;
		struct rig g;
		uint64_t start;

		rig_open(&g, 2, kind ? LINK_ORDERED : LINK_RELIABLE, &attr, NULL);
		honest(&g, 1, 100, NULL, 0);
		rp = stranger(&g, 1, 1);
		start = rig_now(&g);
		inject_first(&g, rp, (uint32_t)kind);
		while (!g.n[0].peers_dead && rig_now(&g) < start + 20 * NS_PER_SEC) {
			inject(&g, rp, REL_ACK, 2, NULL, 0);
			if (rig_now(&g) / NS_PER_SEC % 2)
				honest(&g, 1, 5000, NULL, 0);
			rig_run_for(&g, 50 * NS_PER_MS);
		}
		assert_int_equal(g.n[0].peers_dead, 1);
		assert_in_range(rig_now(&g) - start, 2 * NS_PER_SEC, 3 * NS_PER_SEC);
		assert_int_equal(g.n[1].err, 0);
		assert_in_range(slab_used(&g.n[0].port.rel->asms), 0, 1); /* the honest one's spare */
		rig_close(&g);
	}
}

#define NAK_ALL 131072u

/* Others hold all that there is for refusals: what an honest sender gathers while he has to wait still arrives. */
static void rel_quota__full_datagram(void **state)
{
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		struct sim_attr attr = {.seed = 13, .mtu = 61440, .is_silent = true};
		struct rig g;

		rig_open(&g, 2, cls, &attr, NULL);
		g.n[0].port.rel->quota.pool[REL_Q_NAK] += NAK_ALL;
		honest(&g, 4000, 16, NULL, 0);
		assert_int_equal(g.n[0].port.stats.drop_full, 0);
		g.n[0].port.rel->quota.pool[REL_Q_NAK] -= NAK_ALL;
		rig_close(&g);
	}
}

/* A refusal needs no room: it arrives where none is left. */
static void rel_quota__refusal_arrives(void **state)
{
	struct rel_nak nak = {le32_put(REL_SEQ_FIRST), le32_put(1), 5, {0}};
	struct sim_attr attr = {.seed = 14, .is_silent = true};
	struct rel_peer *rp;
	struct rig g;

	rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
	g.is_lenient = true;
	rp = stranger(&g, 1, 1);
	while (take(rp, REL_Q_NAK, 1))
		;
	inject(&g, rp, REL_NAK, 0, &nak, sizeof(nak));
	assert_int_equal(g.n[0].port.stats.drop_full, 0);
	assert_int_equal(rp->nak_rx, REL_SEQ_FIRST + 1);
	rig_close(&g);
}

/*
 * Two sides refuse what the other one sends, and neither has more room for refusals than is the pair's own: each gets
 * on with the other.
 */
static void rel_quota__both_refuse(void **state)
{
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		struct sim_attr attr = {.seed = 15 + cls, .mtu = 8972, .drop_ppm = 10000, .is_silent = true};
		struct rig g;

		rig_open(&g, 2, cls, &attr, NULL);
		g.nak_percent = 100;
		for (uint32_t i = 0; i < 2; i++) {
			g.n[i].port.rel->quota.pool[REL_Q_NAK] += NAK_ALL;
			for (uint32_t k = 0; k < 2000; k++)
				assert_int_equal(rig_send(&g, i, 1 - i, 16), 0);
		}
		assert_true(rig_run(&g, NS_PER_SEC));
		for (uint32_t i = 0; i < 2; i++) {
			assert_int_equal(g.n[i].nak, 2000);
			g.n[i].port.rel->quota.pool[REL_Q_NAK] -= NAK_ALL;
		}
		rig_run_for(&g, NS_PER_SEC);
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(g.n[i].port.rel->quota.pool[REL_Q_NAK] + slab_used(&g.n[i].port.rel->naks), 0);
		rig_close(&g);
	}
}

/*
 * Windows full of refused frames both ways, or of one who talks to himself: what is refused keeps its place, refusals
 * need none.
 */
static void rel_quota__full_windows(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct sim_attr attr = {.seed = seed, .mtu = REL_MTU_MIN, .drop_ppm = 50000, .is_silent = true};
		struct rig g;

		rig_open(&g, 2, seed % 2 ? LINK_RELIABLE : LINK_ORDERED, &attr, NULL);
		g.nak_percent = 100;
		for (uint32_t i = 0; i < 300; i++) {
			assert_int_equal(rig_send(&g, 0, seed & 2 ? 0 : 1, 16 + i * 20), 0);
			assert_int_equal(rig_send(&g, 1, seed & 2 ? 1 : 0, 16 + i * 20), 0);
		}
		assert_true(rig_run(&g, 2 * NS_PER_SEC));
		assert_int_equal(g.n[0].nak + g.n[1].nak, 600); /* also of those whose segments had company */
		rig_close(&g);
	}
}

static void answer_and_fail(struct rig_node *n, struct link_peer *peer)
{
	struct rig *g = n->rig;

	(void)peer;
	if (n->idx)
		return;
	for (int i = 0; i < 8; i++) {
		mem_fail_nth(0);
		rig_send(g, 0, 1, 16);
	}
	mem_fail_nth(1);
}

/*
 * Memory for the refusals of a datagram is there before its first frame is delivered, and its owner's own frames do not
 * take it.
 */
static void rel_quota__refused_without_memory(void **state)
{
	struct sim_attr attr = {.seed = 17, .mtu = 8972};
	struct rig g;

	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	honest(&g, 1, 100, NULL, 0);
	g.on_frame = answer_and_fail;
	g.nak_percent = 100;
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(rig_send(&g, 1, 0, 16), 0);
	while (g.n[1].nak < 200) {
		mem_fail_nth(0);
		assert_true(rig_now(&g) < NS_PER_SEC * 10 && rig_step(&g, rig_now(&g) + NS_PER_MS));
	}
	mem_fail_nth(0);
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_close(&g);
}

/* Shares of their own, of a source, and of all; what is given back is there again. */
static void rel_quota__shares(void **state)
{
	struct sim_attr attr = {.seed = 11, .is_silent = true};
	struct rel_peer *a, *b, *c, *last;
	struct rig g;

	rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
	a = stranger(&g, 1, 1);
	b = stranger(&g, 1, 2);
	c = stranger(&g, 2, 1);
	assert_ptr_equal(a->quota.source, b->quota.source);
	assert_ptr_not_equal(a->quota.source, c->quota.source);
	assert_true(take(a, REL_Q_ASM, 130));
	assert_false(take(a, REL_Q_ASM, 1)); /* half of its source's, and its own */
	while (take(b, REL_Q_ASM, 1))
		;
	assert_int_equal(b->quota.used[REL_Q_ASM], 66); /* half of what the first has left */
	assert_true(take(c, REL_Q_ASM, 130));
	rel_quota_put(a, REL_Q_ASM, 100);
	assert_true(take(b, REL_Q_ASM, 20));
	rel_quota_put(b, REL_Q_ASM, b->quota.used[REL_Q_ASM]);
	assert_true(take(a, REL_Q_ASM, 100));
	for (uint32_t s = 10; s < 22; s++) { /* a dozen that takes all it gets ... */
		for (uint32_t i = 0; i < 4; i++) {
			struct rel_peer *greedy = stranger(&g, s, i);

			while (take(greedy, REL_Q_ASM, 1))
				;
		}
	}
	last = stranger(&g, 99, 1); /* ... and there is some for the next */
	assert_true(take(last, REL_Q_ASM, 1));
	assert_true(take(last, REL_Q_ASM, 8));
	rel_quota_put(last, REL_Q_ASM, 9);
	assert_false(rel_quota_has(a, REL_Q_NAK, 16385));
	assert_false(rel_quota_has(a, REL_Q_NAK, UINT32_MAX));
	assert_true(rel_quota_has(a, REL_Q_NAK, REL_DGRAM_MAX / 8)); /* a datagram full of the smallest */
	assert_false(rel_quota_has(a, REL_Q_STASH, UINT32_MAX));
	rel_quota_put(a, REL_Q_ASM, 130);
	rel_quota_put(c, REL_Q_ASM, 130);
	assert_int_equal(a->quota.source->sum[QUOTA_REL][REL_Q_ASM].pool, 0);
	assert_int_equal(a->quota.source->sum[QUOTA_REL][REL_Q_ASM].own, 0);
	rig_close(&g);
}

/* What a flooded port asks: does a datagram bring something new? */
static bool is_news(struct rig *g, struct rel_peer *rp, void (*act)(struct rig *, struct rel_peer *, uint32_t),
		    uint32_t n)
{
	struct link_addr addr = rp->peer->addr;
	uint32_t before = rel_progress(g->n[0].port.rel, &addr);

	act(g, rp, n);
	return rel_progress(g->n[0].port.rel, &addr) != before;
}

static void inject_ack(struct rig *g, struct rel_peer *rp, uint32_t n)
{
	inject(g, rp, REL_ACK, n, NULL, 0);
}

static void rel_progress__is_news(void **state)
{
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		struct sim_attr attr = {.seed = 5, .mtu = 1472, .is_silent = true};
		uint32_t before, taken = 0;
		struct rel_peer *rp;
		struct rig g;

		rig_open(&g, 2, cls, &attr, NULL);
		rp = stranger(&g, 1, 1);
		assert_true(is_news(&g, rp, inject_first, 0));
		assert_false(is_news(&g, rp, inject_first, 0)); /* a copy */
		assert_true(is_news(&g, rp, inject_first, 9));	/* early */
		assert_false(is_news(&g, rp, inject_first, 9));
		assert_true(is_news(&g, rp, inject_first, 4)); /* in a gap */
		assert_false(is_news(&g, rp, inject_first, 4));
		assert_false(is_news(&g, rp, inject_probe, 0));
		assert_false(is_news(&g, rp, inject_ack, 0));
		for (uint32_t i = 10; i < REL_WINDOW - 2; i++)
			taken += is_news(&g, rp, inject_first, i);
		if (cls == LINK_RELIABLE) /* what no quota takes is not new */
			assert_in_range(taken, 100, 300);
		before = rel_progress(g.n[0].port.rel, &rig_peer(&g, 0, 1)->addr);
		for (uint32_t i = 0; i < 3; i++) { /* acknowledgements of ours are */
			assert_int_equal(rig_send(&g, 0, 1, 100), 0);
			assert_true(rig_run(&g, NS_PER_SEC));
			assert_int_not_equal(rel_progress(g.n[0].port.rel, &rig_peer(&g, 0, 1)->addr), before);
			before = rel_progress(g.n[0].port.rel, &rig_peer(&g, 0, 1)->addr);
		}
		assert_false(is_news(&g, rig_peer(&g, 0, 1)->rel, inject_ack, 0));
		rig_close(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rel_quota__shares),
		cmocka_unit_test(rel_quota__unfinished_frames),
		cmocka_unit_test(rel_quota__early_datagrams),
		cmocka_unit_test(rel_quota__ten_attackers),
		cmocka_unit_test(rel_quota__refusals),
		cmocka_unit_test(rel_quota__early_and_refused),
		cmocka_unit_test(rel_quota__what_never_ends),
		cmocka_unit_test(rel_quota__full_datagram),
		cmocka_unit_test(rel_quota__refusal_arrives),
		cmocka_unit_test(rel_quota__both_refuse),
		cmocka_unit_test(rel_quota__full_windows),
		cmocka_unit_test(rel_quota__refused_without_memory),
		cmocka_unit_test(rel_progress__is_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
