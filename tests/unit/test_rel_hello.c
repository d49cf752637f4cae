// SPDX-License-Identifier: BSD-2-Clause
// The handshake of the reliability module against strangers: who gets state, an answer, how much, and what ends a pair.
#include "rel_rig.h"
#define HELLO_MIN sizeof(struct rel_base)
#define HELLO_MAX (HELLO_MIN + sizeof(struct rel_hello))
/* --- what the tests say and hear -------------------------------------------------------------- */

/* Everything that left the port of node 0, by type; the last of each. */
struct ear {
	uint16_t port; /* whose datagrams */
	uint32_t cnt[REL_TYPE_NUM], bytes;
	struct rel_pkt last[REL_TYPE_NUM];
};

static enum sim_fate ear_hear(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
			      size_t len)
{
	struct ear *e = ctx;
	struct rel_pkt pkt;

	(void)dst;
	if (src->port != e->port)
		return SIM_PASS;
	assert_int_equal(rel_pkt_check(buf, len, &pkt), REL_OK);
	e->cnt[pkt.type]++;
	e->bytes += (uint32_t)len;
	e->last[pkt.type] = pkt;
	return SIM_PASS;
}

static uint32_t ear_all(const struct ear *e)
{
	uint32_t all = 0;

	for (size_t i = 0; i < ARRAY_SIZE(e->cnt); i++)
		all += e->cnt[i];
	return all;
}

/* @pkt comes to node 0 from @src, and what it makes node 0 do is done. */
static void say(struct rig *g, const struct link_addr *src, const struct rel_pkt *pkt)
{
	uint8_t buf[128];
	size_t len = rig_encode(pkt, NULL, 0, buf);

	rel_input(g->n[0].port.rel, src, buf, len, rig_now(g));
	rel_flush(g->n[0].port.rel, rig_now(g));
}

static struct rel_pkt hello_of(struct rig *g, uint64_t half, uint64_t echo)
{
	return (struct rel_pkt){.type = REL_HELLO,
				.hello = {.half = half,
					  .echo_half = echo,
					  .src_nonce = 5,
					  .dst_nonce = g->n[0].port.self.nonce,
					  .serial = 1,
					  .cls = (uint8_t)g->cls}};
}

static struct link_addr stranger(uint32_t i)
{
	return (struct link_addr){.ip = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = (uint8_t)(i >> 24),
					 [14] = (uint8_t)(i >> 16), [15] = 1},
				  .port = (uint16_t)(1 + i % 65000)};
}

static void ear_open(struct rig *g, struct ear *e)
{
	*e = (struct ear){.port = g->n[0].port.self.port};
	sim_set_filter(g->sim, ear_hear, e);
}

/* A stranger that can hear the answers makes a pair, and no more. */
static void shake(struct rig *g, struct ear *e, const struct link_addr *src, uint64_t half)
{
	struct rel_pkt pkt = hello_of(g, half, 0);

	say(g, src, &pkt);
	pkt.hello.echo_half = e->last[REL_HELLO_ACK].hello.half;
	say(g, src, &pkt);
}

/* --- cookies ---------------------------------------------------------------------------------- */

static void hello__unproved_makes_no_state(void **state)
{
	struct sim_attr attr = {.seed = 1};
	struct rel_pkt pkt;
	struct link_addr src = stranger(7), other;
	uint64_t given;
	struct ear ear;
	struct rig g;

	(void)state;
	rig_open(&g, 1, LINK_ORDERED, &attr, NULL);
	ear_open(&g, &ear);
	pkt = hello_of(&g, 77, 0);
	say(&g, &src, &pkt);
	assert_int_equal(ear.cnt[REL_HELLO_ACK], 1);
	assert_int_equal(ear.last[REL_HELLO_ACK].hello.echo_half, 77);
	assert_int_equal(g.n[0].port.rel->peer_cnt, 0);
	assert_null(g.n[0].peers);
	given = ear.last[REL_HELLO_ACK].hello.half;
	/* each of these was not given to who names it: a guess, another half, serial, nonce, port or address */
	for (int i = 0; i < 6; i++) {
		other = src;
		pkt = hello_of(&g, 77 + (i == 1), given + (i == 0));
		pkt.hello.serial += i == 2;
		pkt.hello.src_nonce += i == 3;
		other.port += i == 4;
		other.ip[15] += i == 5;
		say(&g, &other, &pkt);
		assert_int_equal(g.n[0].port.rel->peer_cnt, 0);
	}
	shake(&g, &ear, &src, 77);
	assert_int_equal(g.n[0].port.rel->peer_cnt, 1);
	rig_close(&g);
}

static void hello__key_is_renewed(void **state)
{
	struct sim_attr attr = {.seed = 2};
	struct link_addr src = stranger(7);
	struct ear ear;
	struct rig g;

	(void)state;
	for (uint32_t periods = 0; periods < 4; periods++) {
		struct rel_pkt pkt;

		rig_open(&g, 1, LINK_ORDERED, &attr, NULL);
		ear_open(&g, &ear);
		pkt = hello_of(&g, 77, 0);
		say(&g, &src, &pkt);
		pkt.hello.echo_half = ear.last[REL_HELLO_ACK].hello.half;
		rig_run_for(&g, periods * REL_COOKIE_NS);
		say(&g, &src, &pkt);
		assert_int_equal(g.n[0].port.rel->peer_cnt, periods < 2);
		rig_close(&g);
	}
}

/* Where addresses have a nonce, it is part of the secret that lets anybody in, and answers would tell it. */
static void hello__without_the_nonce_is_silence(void **state)
{
	struct sim_attr attr = {.seed = 3};
	struct link_addr src = stranger(7);
	struct ear ear;
	struct rig g;

	(void)state;
	for (int by_place = 0; by_place < 2; by_place++) {
		rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
		g.n[0].port.by_place = by_place;
		ear_open(&g, &ear);
		for (uint64_t echo = 0; echo < 2; echo++) {
			struct rel_pkt pkt = hello_of(&g, 77, echo);

			pkt.hello.dst_nonce = 0;
			say(&g, &src, &pkt);
		}
		assert_int_equal(ear_all(&ear), by_place ? 2 : 0);
		assert_int_equal(g.n[0].port.stats.drop_nonce, by_place ? 0 : 2);
		/* a wrong one is told that it is wrong, as silence would, and nothing else */
		for (uint32_t i = 1; i < 30; i++) {
			struct rel_pkt pkt = hello_of(&g, 77, 0);

			pkt.hello.dst_nonce ^= 1u << i;
			say(&g, &src, &pkt);
		}
		assert_int_equal(ear.cnt[REL_REFUSE], 29);
		assert_int_equal(ear.cnt[REL_HELLO_ACK], by_place ? 2 : 0);
		rig_close(&g);
	}
}

/* To listen to the answers makes trying all nonces no faster: after many wrong ones the right one is not looked at. */
static void hello__nonces_are_not_to_be_tried(void **state)
{
	struct sim_attr attr = {.seed = 14};
	struct link_addr src = stranger(7);
	struct ear ear;
	struct rig g;

	(void)state;
	rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
	ear_open(&g, &ear);
	for (uint32_t i = 1; i < 100; i++) {
		struct rel_pkt pkt = hello_of(&g, i, 0);

		pkt.hello.dst_nonce += i < REL_ANSWER_BURST + 1 ? i : 0;
		say(&g, &src, &pkt);
	}
	assert_int_equal(ear.cnt[REL_HELLO_ACK], 0);
	rig_run_for(&g, NS_PER_MS);
	shake(&g, &ear, &src, 77);
	assert_int_equal(g.n[0].port.rel->peer_cnt, 1);
	rig_close(&g);
}

/* No answer is longer than its question, and there is at most one; in a millisecond there are so many. */
static void hello__answers_are_bounded(void **state)
{
	struct sim_attr attr = {.seed = 4};
	struct link_addr src = stranger(7);
	uint8_t buf[128];
	struct ear ear;
	struct rig g;

	(void)state;
	rig_open(&g, 1, LINK_ORDERED, &attr, NULL);
	ear_open(&g, &ear);
	for (unsigned type = REL_HELLO; type < REL_TYPE_NUM; type++) {
		for (int draining = 0; draining < 2; draining++) {
			struct rel_pkt pkt = hello_of(&g, 77, 0);
			uint32_t bytes = ear.bytes, cnt = ear_all(&ear);

			g.n[0].port.rel->draining = draining;
			pkt.type = (enum rel_type)type;
			if (type != REL_HELLO && type != REL_HELLO_ACK)
				pkt.nonce = 1234;
			say(&g, &src, &pkt);
			assert_true(ear.bytes - bytes <= rig_encode(&pkt, NULL, 0, buf));
			assert_true(ear_all(&ear) - cnt <= 1);
			rig_run_for(&g, NS_PER_MS);
		}
	}
	g.n[0].port.rel->draining = false;
	assert_true(ear.cnt[REL_HELLO_ACK] && ear.cnt[REL_REFUSE]);
	memset(ear.cnt, 0, sizeof(ear.cnt));
	for (uint32_t i = 0; i < 10000; i++) {
		struct rel_pkt pkt = hello_of(&g, i, 0);

		src = stranger(i);
		say(&g, &src, &pkt);
	}
	assert_int_equal(ear.cnt[REL_HELLO_ACK], REL_ANSWER_BURST);
	assert_int_equal(g.n[0].port.rel->peer_cnt, 0);
	rig_close(&g);
}

/* The first @len bytes of @pkt, of wire version @version, come to node 0. Return: bytes that it answers. */
static uint32_t say_part(struct rig *g, struct ear *e, const struct link_addr *src, const struct rel_pkt *pkt,
			 uint8_t version, size_t len)
{
	uint32_t before = e->bytes;
	uint8_t buf[128] = {0};

	rig_encode(pkt, NULL, 0, buf);
	buf[1] = version;
	rel_input(g->n[0].port.rel, src, buf, len, rig_now(g));
	rel_flush(g->n[0].port.rel, rig_now(g));
	rig_run_for(g, NS_PER_MS);
	return e->bytes - before;
}

/* The same of short ones: of each length, type and version, with any nonce or none, and into a pair with gaps. */
static void hello__answers_are_no_longer(void **state)
{
	struct sim_attr attr = {.seed = 15, .is_silent = true};
	struct link_addr src = stranger(7);
	struct {
		struct rel_rec rec;
		struct rel_seg seg;
		uint8_t data[5];
	} half = {{le32_put(1), le16_put(5), LINK_K_NIC, REL_REC_SEG}, {0, 2, le16_put(10)}, {0}}; /* of a frame */
	struct ear ear;
	struct rig g;

	rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
	ear_open(&g, &ear);
	for (uint8_t version = REL_VERSION; version < REL_VERSION + 2; version++) {
		for (unsigned type = REL_HELLO; type < REL_TYPE_NUM; type++) {
			struct rel_pkt pkt = hello_of(&g, 77, 0);

			pkt.type = (enum rel_type)type;
			for (size_t len = HELLO_MIN; len <= HELLO_MAX; len++)
				for (pkt.nonce = 0; pkt.nonce < 2; pkt.nonce++)
					assert_in_range(say_part(&g, &ear, &src, &pkt, version, len), 0, len);
		}
	}
	assert_true(ear.cnt[REL_REFUSE] > 10);
	/* who shares a place with a peer that we miss much of: we ask that peer, briefly */
	shake(&g, &ear, &src, 78);
	for (uint32_t i = 1; i < REL_WINDOW; i += 50) {
		uint64_t pair = g.n[0].peers->rel->pair;
		struct rel_pkt pkt = {.type = REL_DATA, .nonce = pair, .seq = REL_SEQ_FIRST + i, .ack = REL_SEQ_FIRST};
		uint8_t buf[128];

		half.rec.frame = le32_put(i);
		rel_input(g.n[0].port.rel, &src, buf, rig_encode(&pkt, &half, 17, buf), rig_now(&g));
	}
	rig_run_for(&g, NS_PER_MS);
	for (uint64_t other = 79; other < 85; other++) {
		struct rel_pkt pkt = hello_of(&g, other, other % 2);

		assert_in_range(say_part(&g, &ear, &src, &pkt, REL_VERSION, HELLO_MAX), 40, 72);
	}
	rig_close(&g);
}

/* A pair of a stranger that said nothing but HELLO is told once that we close, and nobody waits for its answer. */
static void hello__goodbye_to_strangers_is_said_once(void **state)
{
	struct sim_attr attr = {.seed = 5, .is_silent = true};
	uint64_t begin;
	struct ear ear;
	struct rig g;

	(void)state;
	rig_open(&g, 1, LINK_ORDERED, &attr, NULL);
	ear_open(&g, &ear);
	for (uint32_t i = 0; i < 50; i++) {
		struct link_addr src = stranger(i);

		shake(&g, &ear, &src, 77);
	}
	assert_int_equal(g.n[0].port.rel->peer_cnt, 50);
	begin = rig_now(&g);
	assert_true(rig_node_close(&g, 0, NS_PER_SEC));
	assert_true(rig_now(&g) - begin < NS_PER_MS);
	assert_int_equal(ear.cnt[REL_BYE], 50);
	rig_close(&g);
}

/* --- how many ---------------------------------------------------------------------------------- */

static void half__expires(void **state)
{
	struct sim_attr attr = {.seed = 6, .is_silent = true};
	struct link_addr src = stranger(7);
	struct ear ear;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	ear_open(&g, &ear);
	shake(&g, &ear, &src, 77);
	assert_int_equal(rig_send(&g, 1, 0, 100), 0); /* this one means it */
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[0].port.rel->peer_cnt, 2);
	assert_int_equal(g.n[0].port.rel->half_cnt, 1);
	rig_run_for(&g, REL_HALF_NS);
	assert_int_equal(g.n[0].port.rel->peer_cnt, 1);
	assert_int_equal(g.n[0].port.rel->half_cnt, 0);
	assert_int_equal(g.n[0].port.stats.half_expired, 1);
	assert_int_equal(g.n[0].unused, 1);
	assert_int_equal(rig_send(&g, 1, 0, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[1].ok, 2);
	rig_close(&g);
}

/* Whoever has many addresses: the oldest make room, and who comes then gets in. */
static void half__oldest_makes_room(void **state)
{
	struct sim_attr attr = {.seed = 7, .is_silent = true};
	struct ear ear;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	ear_open(&g, &ear);
	assert_int_equal(rig_send(&g, 1, 0, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	for (uint32_t i = 0; i < REL_HALF_MAX + 1000; i++) {
		struct link_addr src = stranger(i << 16 | i);

		if (i % 16 == 0) /* answers are bounded */
			rig_run_for(&g, NS_PER_MS);
		shake(&g, &ear, &src, 77);
		assert_in_range(g.n[0].port.rel->half_cnt, 0, REL_HALF_MAX);
	}
	assert_int_equal(g.n[0].port.rel->peer_cnt, REL_HALF_MAX + 1);
	assert_int_equal(rig_send(&g, 1, 0, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[1].ok, 2);
	rig_close(&g);
}

/* Many at one address and port, which has one owner: they would all be in one chain. */
static void place__is_bounded(void **state)
{
	struct sim_attr attr = {.seed = 8, .is_silent = true};
	struct link_addr src = stranger(7);
	struct ear ear;
	struct rig g;

	(void)state;
	rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
	g.n[0].peer_max = 2 * REL_PLACE_MAX;
	ear_open(&g, &ear);
	for (uint32_t i = 0; i < 1000; i++) {
		struct rel_pkt pkt = hello_of(&g, 77, 0);

		if (i % 16 == 0)
			rig_run_for(&g, NS_PER_MS);
		pkt.hello.src_nonce = i + 1;
		say(&g, &src, &pkt);
		pkt.hello.echo_half = ear.last[REL_HELLO_ACK].hello.half;
		say(&g, &src, &pkt);
		assert_in_range(g.n[0].port.rel->peer_cnt, 1, REL_PLACE_MAX);
	}
	assert_true(g.n[0].port.stats.drop_full);
	assert_true(g.n[0].unused); /* those who made room are nobody's */
	rig_close(&g);
}

/* Half of those of a full host have gone without a word. */
struct crowd {
	struct rig *g;
	struct ear ear;
	uint32_t asked;
};

#define CROWD	    40u
#define CROWD_ALIVE 20u /* of these */

static enum sim_fate crowd_hear(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
				size_t len)
{
	struct crowd *c = ctx;
	struct rel_pkt pkt;

	ear_hear(&c->ear, src, dst, buf, len);
	assert_int_equal(rel_pkt_check(buf, len, &pkt), REL_OK);
	if (pkt.type == REL_DATA && dst->port <= CROWD) { /* which peers answer; an ACK they do not */
		struct rel_pkt answer = {.type = REL_ACK, .nonce = pkt.nonce, .seq = REL_SEQ_FIRST,
					 .ack = REL_SEQ_FIRST};
		uint8_t out[128];

		c->asked++;
		if (dst->port <= CROWD_ALIVE)
			sim_inject(c->g->sim, dst, src, out, rig_encode(&answer, NULL, 0, out));
	}
	return SIM_PASS;
}

/* A host that has as many peers as it may: the dead make room for newcomers, the living stay. */
static void host__dead_make_room(void **state)
{
	struct sim_attr attr = {.seed = 16, .is_silent = true};
	uint32_t in = 0, cnt;
	struct crowd c = {0};
	uint64_t end;
	struct rig g;

	rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
	c.g = &g;
	c.ear.port = g.n[0].port.self.port;
	sim_set_filter(g.sim, crowd_hear, &c);
	for (uint32_t i = 0; i < CROWD; i++) {
		struct link_addr src = stranger(i);

		shake(&g, &c.ear, &src, 77);
		rel_half_end(g.n[0].peers->rel); /* they were more than strangers once */
		rig_run_for(&g, NS_PER_MS);
	}
	rig_run_for(&g, 2 * REL_IDLE_NS);
	rel_source_of(g.n[0].peers->rel)->guest_cnt += REL_HOST_MAX - CROWD;
	end = rig_now(&g) + 30 * NS_PER_SEC;
	c.asked = 0;
	for (cnt = 0; in < CROWD - CROWD_ALIVE; cnt++) {
		struct link_addr src = stranger(CROWD + in);
		uint32_t said = ear_all(&c.ear);

		shake(&g, &c.ear, &src, 77);
		assert_in_range(ear_all(&c.ear) - said, 0, 2); /* one for one */
		for (const struct link_peer *p = g.n[0].peers; p; p = p->hnext) {
			if (p->addr.port == src.port) {
				rel_half_end(p->rel);
				in++;
				break;
			}
		}
		assert_true(rig_now(&g) < end);
		rig_run_for(&g, 20 * NS_PER_MS);
	}
	assert_int_equal(g.n[0].port.rel->peer_cnt, CROWD);
	for (uint16_t port = 1; port <= CROWD_ALIVE; port++) {
		const struct link_peer *p = g.n[0].peers;

		while (p && p->addr.port != port)
			p = p->hnext;
		assert_non_null(p);
		assert_int_equal(p->rel->state, REL_S_OPEN);
	}
	rel_source_of(g.n[0].peers->rel)->guest_cnt -= REL_HOST_MAX - CROWD;
	rig_close(&g);
}

/* --- pairs that are open ------------------------------------------------------------------------ */

/* A HELLO with the peer's address, any nonce and half, with or without an echo: no pair ends, nothing is lost. */
static void forged__hello_does_not_end_a_pair(void **state)
{
	struct sim_attr attr = {.seed = 9};
	struct ear ear;
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		struct link_addr src, open;
		struct link_peer *peer;

		rig_open(&g, 2, cls, &attr, NULL);
		g.n[0].port.by_place = g.n[1].port.by_place = true;
		ear_open(&g, &ear);
		open = g.n[0].port.self;
		open.nonce = 0;
		peer = rig_peer_at(&g.n[1], &open);
		g.is_lenient = true;
		src = g.n[1].port.self;
		src.nonce = 0;
		for (uint32_t i = 0; i < 100; i++) {
			struct rel_pkt pkt = hello_of(&g, 77 + i, i % 2 ? ear.last[REL_HELLO_ACK].hello.half : 0);

			assert_int_equal(
				rel_send(g.n[1].port.rel, peer, LINK_K_NIC, "x", 1, NULL, 0, NULL, rig_now(&g)), 0);
			rig_run_for(&g, 50 * NS_PER_US);
			pkt.hello.src_nonce += i % 3;
			pkt.hello.serial = i;
			pkt.hello.dst_nonce = i % 5 ? pkt.hello.dst_nonce : 0;
			say(&g, &src, &pkt);
			rig_run_for(&g, 50 * NS_PER_US);
		}
		assert_int_equal(g.n[0].delivered, 100);
		assert_int_equal(g.n[0].peers_dead + g.n[1].peers_dead, 0);
		assert_int_equal(g.n[0].port.rel->peer_cnt, 1);
		assert_int_equal(g.n[0].port.stats.drop_hello, 100);
		rig_close(&g);
	}
}

/* ICMP errors that quote no pair, half a header, or the nonce of another pair: nothing. The right one ends it. */
static void forged__icmp_needs_the_nonce(void **state)
{
	struct sim_attr attr = {.seed = 10, .mtu = 8972};
	uint8_t quote[128];
	struct carrier_error right = {.err = ECONNREFUSED, .quote = quote};
	struct rel_pkt pkt = {.type = REL_DATA};
	struct link_addr dst;
	struct rel_peer *rp;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	rp = rig_peer(&g, 0, 1)->rel;
	dst = g.n[1].port.self;
	dst.nonce = 0;
	for (int err = 0; err < 2; err++) {
		struct carrier_error e = {.err = err ? EMSGSIZE : ECONNREFUSED, .mtu = 600, .quote = quote};

		for (uint32_t bit = 0; bit < 64; bit++) {
			pkt.nonce = rp->pair ^ 1ull << bit;
			e.quote_len = rig_encode(&pkt, NULL, 0, quote);
			rel_error(g.n[0].port.rel, &dst, &e, rig_now(&g));
		}
		pkt.nonce = rp->pair;
		for (uint32_t len = 0; len < 40; len++) {
			rig_encode(&pkt, NULL, 0, quote);
			e.quote_len = len;
			rel_error(g.n[0].port.rel, &dst, &e, rig_now(&g));
		}
		assert_int_equal(g.n[0].port.stats.drop_quote, 104 * (err + 1));
		assert_int_equal(g.n[0].peers_dead, 0);
		assert_int_equal(rp->mtu, 8972);
	}
	/* as little as a router likes, but not less than we promise */
	for (uint32_t mtu = 1400; mtu; mtu -= 350) {
		struct carrier_error e = {.err = EMSGSIZE, .mtu = mtu, .quote = quote,
					  .quote_len = rig_encode(&pkt, NULL, 0, quote)};

		rel_error(g.n[0].port.rel, &dst, &e, rig_now(&g));
		assert_int_equal(rp->mtu, MAX(mtu, (uint32_t)REL_MTU_MIN));
		assert_int_equal(rig_send(&g, 0, 1, 18000), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
	}
	/* and not for good */
	rig_run_for(&g, REL_PATH_NS);
	assert_int_equal(rig_send(&g, 0, 1, 18000), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(rp->mtu, 8972);
	assert_int_equal(g.n[0].err, 0);
	right.quote_len = rig_encode(&pkt, NULL, 0, quote);
	rel_error(g.n[0].port.rel, &dst, &right, rig_now(&g));
	assert_int_equal(g.n[0].peers_dead, 1);
	rig_close(&g);
}

/* A path that takes @most bytes whole, and says so; what may be cut up passes. */
struct narrow {
	struct rig *g;
	uint32_t most, too_big, cut;
	struct link_addr dst;
	uint8_t quote[CARRIER_QUOTE_MAX];
};

static enum sim_fate narrow_see(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
				size_t len)
{
	struct narrow *n = ctx;

	if (len <= n->most || src->port != n->g->n[0].port.self.port)
		return SIM_PASS;
	if (dst->flags & LINK_ADDR_CUT) {
		n->cut++;
		return SIM_PASS;
	}
	n->too_big++;
	n->dst = *dst;
	memcpy(n->quote, buf, MIN(len, sizeof(n->quote)));
	return SIM_DROP;
}

/* Below the least that we make, too: then datagrams are cut up, those without frames as well. */
static void path__may_be_narrow(void **state)
{
	static const uint32_t most[] = {1400, 400, 60};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(most); i++) {
		struct sim_attr attr = {.seed = 17, .mtu = 8972, .is_silent = true};
		enum link_class cls = i % 2 ? LINK_RELIABLE : LINK_ORDERED;
		struct narrow n;
		struct rig g;
		uint64_t end;

		rig_open(&g, 2, cls, &attr, NULL);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
		n = (struct narrow){.g = &g, .most = most[i / 2]};
		sim_set_filter(g.sim, narrow_see, &n);
		g.nak_percent = 50;
		for (uint32_t k = 0; k < 100; k++) {
			assert_int_equal(rig_send(&g, 0, 1, 16 + k * 180), 0);
			assert_int_equal(rig_send(&g, 1, 0, 16 + k * 180), 0);
		}
		end = rig_now(&g) + NS_PER_SEC;
		for (uint32_t told = 0; g.ended < g.frame_cnt && rig_now(&g) < end;) {
			struct carrier_error e = {.err = EMSGSIZE, .mtu = n.most, .quote = n.quote,
						  .quote_len = sizeof(n.quote)};

			rig_step(&g, end);
			if (told == n.too_big)
				continue;
			told = n.too_big;
			rel_error(g.n[0].port.rel, &n.dst, &e, rig_now(&g));
		}
		assert_int_equal(g.ended, g.frame_cnt);
		assert_int_equal(g.n[0].err + g.n[1].err, 0);
		assert_true(n.too_big && (n.cut || n.most > REL_MTU_MIN));
		sim_set_filter(g.sim, NULL, NULL);
		rig_close(&g);
	}
}

/* Before there is a pair, the half of our HELLO is what nobody else knows. */
static void forged__icmp_about_hello(void **state)
{
	struct sim_attr attr = {.seed = 11, .is_silent = true};
	uint8_t quote[128];
	struct rel_pkt pkt;
	struct link_addr dst;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	sim_cut(g.sim, g.n[1].port.self.port, true);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	rel_flush(g.n[0].port.rel, rig_now(&g));
	dst = g.n[1].port.self;
	dst.nonce = 0;
	for (int is_right = 0; is_right < 2; is_right++) {
		struct carrier_error e = {.err = ECONNREFUSED, .quote = quote};

		pkt = hello_of(&g, rig_peer(&g, 0, 1)->rel->half ^ (uint64_t)!is_right, 0);
		e.quote_len = MIN(rig_encode(&pkt, NULL, 0, quote), (size_t)CARRIER_QUOTE_MAX);
		rel_error(g.n[0].port.rel, &dst, &e, rig_now(&g));
		assert_int_equal(g.n[0].peers_dead, is_right);
	}
	assert_int_equal(g.n[0].last_status, -ECONNREFUSED);
	rig_close(&g);
}

/* --- the third step ----------------------------------------------------------------------------- */

/* Drops the first @left HELLOs that name a half. */
static enum sim_fate third_drop(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
				size_t len)
{
	uint32_t *left = ctx;
	struct rel_pkt pkt;

	(void)src, (void)dst;
	if (!*left || rel_pkt_check(buf, len, &pkt) != REL_OK || pkt.type != REL_HELLO || !pkt.hello.echo_half)
		return SIM_PASS;
	--*left;
	return SIM_DROP;
}

static void third_step__may_be_lost(void **state)
{
	struct sim_attr attr = {.seed = 12};

	(void)state;
	for (uint32_t drop = 0; drop < 6; drop++) {
		uint32_t left = drop;
		struct rig g;

		rig_open(&g, 2, drop % 2 ? LINK_RELIABLE : LINK_ORDERED, &attr, NULL);
		sim_set_filter(g.sim, third_drop, &left);
		for (uint32_t i = 0; i < 20; i++)
			assert_int_equal(rig_send(&g, 0, 1, 16 + 300 * i), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
		assert_int_equal(left, 0);
		assert_int_equal(g.n[0].ok, 20);
		rig_close(&g);
	}
}

/* The handshake costs no round trip more than it ever did: the frame is there after one and a half. */
static void third_step__costs_no_round_trip(void **state)
{
	struct sim_attr attr = {.seed = 13, .latency_ns = 100 * NS_PER_US};
	uint64_t begin;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	begin = rig_now(&g);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	while (!g.n[1].delivered)
		assert_true(rig_step(&g, rig_now(&g) + NS_PER_SEC));
	assert_in_range(rig_now(&g) - begin, 300 * NS_PER_US, 301 * NS_PER_US);
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_close(&g);
}

/* HELLOs of node 0 in the second after the first, to @cnt that never answer. */
static uint32_t hellos_to(uint32_t cnt)
{
	struct sim_attr attr = {.seed = 14, .is_silent = true};
	struct ear ear;
	struct rig g;
	uint32_t before;

	rig_open(&g, 1, LINK_RELIABLE, &attr, NULL);
	ear_open(&g, &ear);
	for (uint32_t i = 0; i < cnt; i++) {
		struct link_addr to = stranger(i);
		struct link_peer *peer = rig_peer_at(&g.n[0], &to);

		assert_false(rel_send(g.n[0].port.rel, peer, LINK_K_NIC, "hi", 2, NULL, 0, NULL, rig_now(&g)));
	}
	rel_flush(g.n[0].port.rel, rig_now(&g));
	rig_run_for(&g, 500 * NS_PER_MS);
	before = ear.cnt[REL_HELLO];
	rig_run_for(&g, NS_PER_SEC);
	before = ear.cnt[REL_HELLO] - before;
	rig_close(&g);
	return before;
}

/* Where a flood loses nearly all, few who knock get in soon; and a large job that waits for its peers is no flood. */
static void hello__is_repeated_as_few_do(void **state)
{
	(void)state;
	assert_in_range(hellos_to(1), 90, 100);
	assert_in_range(hellos_to(50), 900, 1050);
	assert_in_range(hellos_to(1000), 9000, 10500); /* each ten times, as ever */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello__unproved_makes_no_state),
		cmocka_unit_test(hello__key_is_renewed),
		cmocka_unit_test(hello__without_the_nonce_is_silence),
		cmocka_unit_test(hello__nonces_are_not_to_be_tried),
		cmocka_unit_test(hello__answers_are_bounded),
		cmocka_unit_test(hello__answers_are_no_longer),
		cmocka_unit_test(hello__goodbye_to_strangers_is_said_once),
		cmocka_unit_test(half__expires),
		cmocka_unit_test(half__oldest_makes_room),
		cmocka_unit_test(place__is_bounded),
		cmocka_unit_test(host__dead_make_room),
		cmocka_unit_test(forged__hello_does_not_end_a_pair),
		cmocka_unit_test(forged__icmp_needs_the_nonce),
		cmocka_unit_test(path__may_be_narrow),
		cmocka_unit_test(forged__icmp_about_hello),
		cmocka_unit_test(third_step__may_be_lost),
		cmocka_unit_test(third_step__costs_no_round_trip),
		cmocka_unit_test(hello__is_repeated_as_few_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
