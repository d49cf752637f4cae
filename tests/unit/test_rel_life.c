// SPDX-License-Identifier: BSD-2-Clause
// The reliability module over the simulated network: probes, late acknowledgements, goodbyes, and processes that follow
// one another at one address.
#include "rel_rig.h"

static void rel_probe__silence_of_a_peer_makes_no_storm(void **state)
{
	struct sim_attr attr = {.seed = 11, .latency_ns = 2 * NS_PER_US};
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(rig_send(&g, 0, 1, 1000), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[0].port.stats.retrans, 0);
	/* not scheduled for 25 ms, with a window of datagrams in its socket */
	g.n[1].paused_until = rig_now(&g) + 25 * NS_PER_MS;
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(rig_send(&g, 0, 1, 1000), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	/* it is asked a few times, and nothing that arrived is repeated */
	assert_in_range(g.n[0].port.stats.probes, 3, 8);
	assert_int_equal(g.n[0].port.stats.retrans, 0);
	assert_int_equal(g.n[0].port.stats.timeouts, 0);
	assert_int_equal(g.n[1].port.stats.dup_rx, 0);
	assert_int_equal(g.n[0].err, 0);
	rig_close(&g);
}

static enum sim_fate drop_next_data(void *ctx, const struct link_addr *src, const struct link_addr *dst,
				    const void *buf, size_t len)
{
	uint32_t *left = ctx;
	struct rel_pkt pkt;

	(void)src, (void)dst;
	if (!*left || rel_pkt_check(buf, len, &pkt) != REL_OK || pkt.type != REL_DATA || !pkt.rec_cnt)
		return SIM_PASS;
	--*left;
	return SIM_DROP;
}

/* Nothing later arrives that could show the loss: the answer to a probe does. */
static void rel_probe__loss_of_the_last_costs_one_probe(void **state)
{
	struct sim_attr attr = {.seed = 11, .latency_ns = 20 * NS_PER_US};
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		uint32_t drop = 0;
		uint64_t begin;

		rig_open(&g, 2, cls, &attr, NULL);
		for (uint32_t i = 0; i < 20; i++) {
			assert_int_equal(rig_send(&g, 0, 1, 100), 0);
			assert_true(rig_run(&g, NS_PER_SEC));
		}
		sim_set_filter(g.sim, drop_next_data, &drop);
		drop = 1;
		begin = rig_now(&g);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
		assert_true(rig_now(&g) - begin < 500 * NS_PER_US);
		assert_int_equal(g.n[0].port.stats.probes, 1);
		assert_int_equal(g.n[0].port.stats.timeouts, 1);
		assert_int_equal(g.n[0].port.stats.retrans, 1);
		assert_int_equal(g.n[1].port.stats.dup_rx, 0);
		rig_close(&g);
	}
}

/* A lone frame's acknowledgement waits for an answer to ride on, but not for another frame or poll of the owner's. */
static void rel_ack__lone_frame_is_acknowledged_in_time(void **state)
{
	struct sim_attr attr = {.seed = 13, .latency_ns = 5 * NS_PER_US};
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		rig_open(&g, 2, cls, &attr, NULL);
		for (uint32_t i = 0; i < 100; i++) {
			struct rel *to = g.n[1].port.rel;
			uint64_t arrived, acks = g.n[1].port.stats.acks_tx;

			assert_int_equal(rig_send(&g, 0, 1, 100), 0);
			while (g.n[1].delivered <= i)
				rig_step(&g, CLK_NEVER);
			arrived = rig_now(&g);
			/* whoever looks at the deadline, an agent for instance, knows what to do; or it is done */
			assert_true(rel_next_deadline(to) <= arrived + REL_ACK_DELAY_NS ||
				    g.n[1].port.stats.acks_tx > acks);
			assert_true(rig_run(&g, NS_PER_SEC));
			/* the acknowledgement's way and its delay; the first one had a handshake before it */
			assert_true(rig_now(&g) - arrived <= REL_ACK_DELAY_NS + 5 * NS_PER_US);
		}
		assert_int_equal(g.n[0].port.stats.probes, 0);
		rig_close(&g);
	}
}

/* --- a place without a nonce ------------------------------------------------------------------ */

enum death { BY_CLOSE, BY_KILL, BY_KILL_SILENT, DEATH_NUM };

struct place {
	struct rig g;
	struct link_peer *peer; /* node 0's, of node 1's place */
	struct rig_frame *last;
};

/* rel_send() of a small frame to the place, whoever is there. Return: of rel_send(). */
static int place_send(struct place *pl)
{
	struct rig_frame *f = rig_frame_new(&pl->g, 0, 1, 100);
	struct rig_node *n = &pl->g.n[0];
	struct iovec iov = {f->mem, f->len};
	int rc = rel_send(n->port.rel, pl->peer, f->id % 3 ? LINK_K_NIC : LINK_K_BULK, NULL, 0, &iov, 1, f,
			  rig_now(&pl->g));

	assert_int_equal(rc, 0);
	pl->g.order_tx[0][1]++;
	pl->last = f;
	return rc;
}

static void place_open(struct place *pl, enum link_class cls)
{
	struct sim_attr attr = {.seed = 17};
	struct link_addr a;

	rig_open(&pl->g, 2, cls, &attr, NULL);
	pl->g.n[0].port.by_place = pl->g.n[1].port.by_place = true;
	a = pl->g.n[1].port.self;
	a.nonce = 0;
	pl->peer = rig_peer_at(&pl->g.n[0], &a);
}

/* What is left of node 1 after kill -9: its port is closed, nobody was told. */
static void place_kill(struct place *pl)
{
	sim_cut(pl->g.sim, pl->g.n[1].port.self.port, true);
	rig_node_fini(&pl->g.n[1]);
	sim_cut(pl->g.sim, pl->g.n[1].port.self.port, false);
}

static void place_reopen(struct place *pl)
{
	uint16_t port = pl->g.n[1].port.self.port;

	rig_node_open(&pl->g, 1, port, &rig_room);
	pl->g.n[1].port.by_place = true;
	/* a new order begins with it */
	pl->g.order_rx[0][1] = pl->g.order_tx[0][1];
}

static void place_run(struct place *pl)
{
	if (rig_run(&pl->g, NS_PER_SEC))
		return;
	rig_dump(&pl->g);
	fail_msg("not all ends");
}

static void rel_place__next_process_is_reached(void **state)
{
	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		for (enum death how = 0; how < DEATH_NUM; how++) {
			struct place pl;

			place_open(&pl, cls);
			for (uint32_t life = 0; life < 4; life++) {
				uint32_t ended = pl.g.ended;

				place_send(&pl);
				place_run(&pl);
				assert_int_equal(pl.last->status, 0);
				assert_int_equal(pl.last->delivered, 1);
				/* some are on their way when it dies: each ends once, rig_close() counts */
				for (uint32_t i = 0; how != BY_CLOSE && i < 5; i++)
					place_send(&pl);
				if (how == BY_CLOSE)
					assert_true(rig_node_close(&pl.g, 1, NS_PER_SEC));
				else
					place_kill(&pl);
				if (how != BY_KILL_SILENT) /* nobody is there */
					rig_run_for(&pl.g, 10 * NS_PER_MS);
				place_reopen(&pl);
				place_run(&pl);
				assert_int_equal(pl.g.ended - ended, how == BY_CLOSE ? 1 : 6);
				if (how != BY_CLOSE)
					assert_int_equal(pl.last->status, -ECONNREFUSED);
				assert_int_equal(pl.peer->dead, 0);
			}
			rig_close(&pl.g);
		}
	}
}

/* The new process speaks first: what the old one owed has ended before its first frame arrives. */
static void rel_place__next_process_speaks_first(void **state)
{
	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		struct link_addr a;
		struct place pl;
		uint32_t dead;

		place_open(&pl, cls);
		place_send(&pl);
		place_run(&pl);
		/* kept from our receiving node, not refused: only the HELLO tells */
		sim_cut(pl.g.sim, pl.g.n[1].port.self.port, true);
		place_send(&pl);
		rig_poll(&pl.g, 0);
		rig_node_fini(&pl.g.n[1]);
		place_reopen(&pl);
		sim_cut(pl.g.sim, pl.g.n[1].port.self.port, false);
		dead = pl.g.n[0].peers_dead;
		a = pl.g.n[0].port.self;
		a.nonce = 0;
		assert_ptr_equal(rig_peer_at(&pl.g.n[0], &pl.peer->addr), pl.peer);
		pl.g.is_lenient = true;
		assert_int_equal(rel_send(pl.g.n[1].port.rel, rig_peer_at(&pl.g.n[1], &a), LINK_K_NIC, "x", 1, NULL, 0,
					  NULL, rig_now(&pl.g)),
				 0);
		/* its first HELLO finds out that the old one is gone, the next is heard */
		rig_run_for(&pl.g, 10 * NS_PER_MS);
		assert_int_equal(pl.g.n[0].delivered, 1);
		assert_true(pl.last->ended);
		assert_int_equal(pl.last->status, -ECONNREFUSED);
		assert_int_equal(pl.g.n[0].peers_dead, dead + 1);
		assert_int_equal(pl.peer->dead, 0);
		assert_non_null(pl.peer->rel);
		assert_int_equal(pl.peer->rel->state, REL_S_OPEN);
		/* and the pair works in both directions */
		place_send(&pl);
		rig_run_for(&pl.g, NS_PER_MS);
		assert_true(pl.last->ended && pl.last->status >= 0);
		rig_close(&pl.g);
	}
}

/*
 * Keeps the last HELLO of node 1 that names a half, and says the one kept before as soon as node 0 gives a half again.
 */
struct copy {
	struct place pl;
	uint8_t buf[128], late[128];
	size_t len, late_len;
};

static enum sim_fate copy_see(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
			      size_t len)
{
	struct copy *c = ctx;
	struct rel_pkt pkt;

	assert_int_equal(rel_pkt_check(buf, len, &pkt), REL_OK);
	if (pkt.type == REL_HELLO && pkt.hello.echo_half && len <= sizeof(c->buf)) {
		memcpy(c->buf, buf, len);
		c->len = len;
	}
	if (pkt.type == REL_HELLO_ACK && c->late_len) {
		sim_inject(c->pl.g.sim, dst, src, c->late, c->late_len);
		c->late_len = 0;
	}
	return SIM_PASS;
}

/* A proof of an earlier process comes late, before that of the one that is there now. */
static void rel_place__late_proof(void **state)
{
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		for (int answers = 0; answers < 2; answers++) {
			static struct copy c;
			struct place *pl = &c.pl;
			struct link_addr a;

			memset(&c, 0, sizeof(c));
			place_open(pl, cls);
			pl->g.is_lenient = true;
			a = pl->g.n[0].port.self;
			a.nonce = 0;
			sim_set_filter(pl->g.sim, copy_see, &c);
			for (uint32_t life = 0; life < 3; life++) {
				assert_int_equal(rel_send(pl->g.n[1].port.rel, rig_peer_at(&pl->g.n[1], &a), LINK_K_NIC,
							  "x", 1, NULL, 0, NULL, rig_now(&pl->g)),
						 0);
				while (life && c.late_len) /* until the copy is there */
					rig_step(&pl->g, CLK_NEVER);
				rig_poll(&pl->g, 0);
				if (answers && life) /* to whom it believes to be there */
					place_send(pl);
				rig_run_for(&pl->g, 20 * NS_PER_MS);
				assert_int_equal(pl->g.n[0].delivered, life + 1);
				assert_int_equal(
					rel_outstanding(pl->g.n[0].port.rel) + rel_outstanding(pl->g.n[1].port.rel), 0);
				assert_int_equal(pl->g.n[1].delivered, answers && life);
				assert_true(rig_node_close(&pl->g, 1, NS_PER_SEC));
				place_reopen(pl);
				memcpy(c.late, c.buf, c.len);
				c.late_len = c.len;
			}
			rig_close(&pl->g);
		}
	}
}

/*
 * How jobs end: one closes, which the other hears. It may be gone before it has the answer, and says it once more
 * then.
 */
static void bye__is_no_loss(void **state)
{
	struct sim_attr attr = {.seed = 41};
	struct rig g;
	const struct link_stats *a = &g.n[0].port.stats, *b = &g.n[1].port.stats;

	(void)state;
	for (int is_hasty = 0; is_hasty < 2; is_hasty++) {
		rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
		rel_drain(g.n[0].port.rel, rig_now(&g));
		if (is_hasty)
			rel_peer_drop(g.n[0].port.rel, rig_peer(&g, 0, 1), -ECANCELED);
		rig_run_for(&g, NS_PER_SEC);
		assert_int_equal(g.n[1].byes, 1);
		assert_int_equal(g.n[1].peers_dead, 1);
		assert_int_equal(a->late_byes > 0 && b->late_byes > 0, is_hasty);
		assert_int_equal(a->drop_nonce + a->drop_source + b->drop_nonce + b->drop_source, 0);
		rig_close(&g);
	}
}

/* What the module owns, and nobody else remembers, comes back with its bytes if it is refused, or if its peer dies. */
static void rel_commit__what_fails_comes_back(void **state)
{
	struct sim_attr attr = {.seed = 15, .drop_ppm = 50000};
	struct rig g;

	(void)state;
	for (uint32_t cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		rig_open(&g, 3, (enum link_class)cls, &attr, NULL);
		g.is_silent = true;
		for (uint32_t i = 0; i < 600; i++) {
			g.nak_percent = i % 2 ? 100 : 0;
			assert_int_equal(rig_send(&g, 0, 1, 16 + i % (LINK_OWN_MAX - 15)), 0);
		}
		assert_true(rig_run(&g, NS_PER_SEC));
		assert_int_equal(g.n[0].ok, 300);
		assert_int_equal(g.n[0].nak, 300);
		assert_int_equal(rel_own(g.n[0].port.rel), 0);
		g.n[2].paused_until = CLK_NEVER;
		for (uint32_t i = 0; i < 60; i++)
			assert_int_equal(rig_send(&g, 0, 2, 100), 0);
		assert_true(rel_own(g.n[0].port.rel) > 0);
		assert_true(rig_run(&g, 10 * NS_PER_SEC));
		assert_int_equal(g.n[0].err, 60);
		assert_int_equal(rel_own(g.n[0].port.rel), 0);
		rig_close(&g);
	}
}

/* As many as were promised, to all peers together. */
static void rel_begin__is_bounded(void **state)
{
	struct sim_attr attr = {.seed = 16};
	struct link_peer *peer;
	struct rig g;
	uint32_t cnt = 0;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	peer = rig_peer(&g, 0, 1);
	for (; rel_begin(g.n[0].port.rel, peer); cnt++)
		rel_commit(g.n[0].port.rel, peer, 0, NULL, 0, rig_now(&g));
	assert_int_equal(cnt, MIN(LINK_OWN_CNT, REL_FRAMES_PEER));
	assert_int_equal(rel_own(g.n[0].port.rel), cnt);
	g.is_lenient = true;
	rig_run_for(&g, NS_PER_SEC);
	assert_int_equal(rel_own(g.n[0].port.rel), 0);
	assert_non_null(rel_begin(g.n[0].port.rel, peer)); /* and is given back at the end, if it was never committed */
	rig_close(&g);
}

/* --- what the carrier is given ------------------------------------------------------------------ */

static struct {
	const struct carrier_ops *ops;
	const uint8_t *mem;
	size_t len;
	uint32_t by_ref; /* pieces of it that the carrier was shown */
	uint32_t flushes;
} watched;

static int watched_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov, int iov_cnt)
{
	for (int i = 0; i < iov_cnt; i++)
		watched.by_ref += (uintptr_t)iov[i].iov_base - (uintptr_t)watched.mem < watched.len;
	return watched.ops->send(c, dst, iov, iov_cnt);
}

static void watched_flush(struct carrier *c)
{
	watched.flushes++;
	watched.ops->flush(c);
}

/* @ops: of the first node's carrier from now on. */
static void watch(struct rig *g, struct carrier_ops *ops)
{
	struct carrier *c = g->n[0].port.net;

	memset(&watched, 0, sizeof(watched));
	watched.ops = c->ops;
	*ops = *c->ops;
	ops->send = watched_send;
	ops->flush = watched_flush;
	c->ops = ops;
}

/* --- rel_repoint() ---------------------------------------------------------------------------- */

#define MOVED_CNT 60

struct moves {
	uint8_t *to[MOVED_CNT]; /* of frames with a cookie, by id */
	uint32_t seen;
};

static void move_piece(void *arg, void *cookie, struct iovec *iov)
{
	struct rig_frame *f = cookie;
	struct moves *m = arg;
	uintptr_t off = (uintptr_t)iov->iov_base - (uintptr_t)f->mem;

	assert_true(f->id % 3 == 0 && !f->ended);
	m->seen++;
	if (off < f->len) /* else it has been moved with another segment */
		iov->iov_base = m->to[f->id] + off;
}

/* Each frame of the service that has not ended has its payload elsewhere from now on. */
static void move_all(struct rig *g, struct moves *m)
{
	for (uint32_t i = 0; i < g->frame_cnt; i += 3) {
		struct rig_frame *f = g->frame[i];

		m->to[i] = f->ended ? NULL : malloc(f->len);
		if (m->to[i])
			memcpy(m->to[i], f->mem, f->len);
	}
	watched.flushes = 0;
	rel_repoint(g->n[0].port.rel, LINK_K_BULK, move_piece, m);
	assert_int_equal(watched.flushes, 1); /* what the carrier had been given has left */
	for (uint32_t i = 0; i < g->frame_cnt; i += 3) {
		struct rig_frame *f = g->frame[i];

		if (!m->to[i])
			continue;
		memset(f->mem, 0xdd, f->len);
		free(f->mem);
		f->mem = m->to[i];
	}
}

/*
 * Queued, handed to the carrier, on its way, lost, and in segments of which some have arrived: all of it arrives, and
 * nothing is read where it was.
 */
static void rel_repoint__what_has_not_arrived(void **state)
{
	static const uint32_t lens[] = {16, 900, 2000, LINK_FRAME_MAX};
	struct rng r = unit_rng();

	(void)state;
	for (uint32_t round = 0; round < 60; round++) {
		struct sim_attr attr = {.seed = rng_u64(&r), .drop_ppm = 200000, .mtu = round % 2 ? 1472 : 61440,
					.latency_ns = 20 * NS_PER_US};
		struct carrier_ops ops;
		struct moves m = {0};
		struct rig g;

		rig_open(&g, 2, round % 3 ? LINK_RELIABLE : LINK_ORDERED, &attr, NULL);
		g.nak_percent = 10; /* these end before those that were sent before them */
		watch(&g, &ops);
		for (uint32_t i = 0; i < MOVED_CNT; i++) {
			assert_int_equal(rig_send(&g, 0, 1, lens[rng_below(&r, ARRAY_SIZE(lens))]), 0);
			if (rng_chance(&r, 0.2))
				rel_flush(g.n[0].port.rel, rig_now(&g));
			if (rng_chance(&r, 0.1))
				rig_step(&g, rig_now(&g) + NS_PER_MS);
			if (rng_chance(&r, 0.1))
				move_all(&g, &m);
		}
		while (g.ended < g.frame_cnt) {
			move_all(&g, &m);
			rig_step(&g, rig_now(&g) + NS_PER_MS);
		}
		assert_int_equal(g.n[0].ok + g.n[0].nak, MOVED_CNT);
		assert_true(m.seen > 0);
		rig_close(&g);
	}
}

/* What injects faults, captures or makes checksums reads what it is given, and has no guard: it is given copies. */
static void rel_send__rooms_that_read_get_copies(void **state)
{
	struct link_room rooms[] = {rig_room, rig_room, rig_room, rig_room};
	struct sim_attr attr = {.seed = 17};
	struct carrier_ops ops;
	struct rig g;

	(void)state;
	rooms[1].has_faults = true;
	rooms[2].pcap[0] = 'x';
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		rig_open(&g, 2, LINK_RELIABLE, &attr, &rooms[i]);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
		watch(&g, &ops);
		if (i == 3) /* the peer asks for checksums */
			g.n[0].peers->rel->has_crc = g.n[1].peers->rel->has_crc = true;
		assert_int_equal(rig_send(&g, 0, 1, 8000), 0);
		watched.mem = g.frame[1]->mem;
		watched.len = 8000;
		assert_true(rig_run(&g, NS_PER_SEC));
		assert_int_equal(watched.by_ref != 0, !i);
		rig_close(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bye__is_no_loss),
		cmocka_unit_test(rel_probe__silence_of_a_peer_makes_no_storm),
		cmocka_unit_test(rel_probe__loss_of_the_last_costs_one_probe),
		cmocka_unit_test(rel_ack__lone_frame_is_acknowledged_in_time),
		cmocka_unit_test(rel_place__next_process_is_reached),
		cmocka_unit_test(rel_place__next_process_speaks_first),
		cmocka_unit_test(rel_place__late_proof),
		cmocka_unit_test(rel_commit__what_fails_comes_back),
		cmocka_unit_test(rel_begin__is_bounded),
		cmocka_unit_test(rel_repoint__what_has_not_arrived),
		cmocka_unit_test(rel_send__rooms_that_read_get_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
