// SPDX-License-Identifier: BSD-2-Clause
// The reliability module over the simulated network: exactly once, in order where promised, true
// statuses, and an end to everything.
#include "rel_rig.h"

/* Two ports; if @met, a frame has passed between them. */
static void two_open(struct rig *g, const struct sim_attr *attr, bool met)
{
	rig_open(g, 2, LINK_RELIABLE, attr, NULL);
	if (!met)
		return;
	assert_int_equal(rig_send(g, 0, 1, 100), 0);
	assert_true(rig_run(g, NS_PER_SEC));
}

/* --- one exchange ----------------------------------------------------------------------------- */

static void rel_send__one_frame_arrives_and_ends(void **state)
{
	struct sim_attr attr = {.seed = 1};
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		rig_open(&g, 2, cls, &attr, NULL);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_int_equal(rel_outstanding(g.n[0].port.rel), 1);
		assert_true(rig_run(&g, NS_PER_MS));
		assert_int_equal(g.n[0].ok, 1);
		assert_int_equal(g.n[1].delivered, 1);
		assert_int_equal(rel_outstanding(g.n[0].port.rel), 0);
		assert_int_equal(g.n[0].port.stats.retrans, 0);
		rig_close(&g);
	}
}

static void rel_send__every_length_around_a_datagram(void **state)
{
	static const uint32_t mtu[] = {REL_MTU_MIN, 1472, 8972};
	struct rig g;

	(void)state;
	for (size_t m = 0; m < ARRAY_SIZE(mtu); m++) {
		struct sim_attr attr = {.seed = m, .mtu = mtu[m]};

		rig_open(&g, 2, m ? LINK_ORDERED : LINK_RELIABLE, &attr, NULL);
		for (uint32_t len = sizeof(struct rig_hdr); len <= LINK_FRAME_MAX;
		     len += len % mtu[m] > 70 ? 37 : 1) {
			assert_int_equal(rig_send(&g, 0, 1, len), 0);
			assert_true(rig_run(&g, 100 * NS_PER_MS));
		}
		assert_int_equal(rig_send(&g, 0, 1, LINK_FRAME_MAX), 0);
		assert_int_equal(rig_send(&g, 0, 1, LINK_FRAME_MAX + 1), -EMSGSIZE);
		assert_true(rig_run(&g, 100 * NS_PER_MS));
		assert_int_equal(g.n[0].ok, g.frame_cnt);
		assert_int_equal(g.n[0].port.stats.retrans, 0);
		rig_close(&g);
	}
}

static void rel_send__window_is_bounded_and_refills(void **state)
{
	struct sim_attr attr = {.seed = 4, .mtu = REL_MTU_MIN, .latency_ns = 300 * NS_PER_US};
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		rig_open(&g, 2, cls, &attr, NULL);
		for (int i = 0; i < 3000; i++)
			assert_int_equal(rig_send(&g, 0, 1, 400), 0);
		while (g.ended < g.frame_cnt) {
			const struct rel_peer *rp = rig_peer(&g, 0, 1)->rel;

			rig_step(&g, rig_now(&g) + NS_PER_MS);
			assert_in_range(rp->tx_seq - rp->tx_una, 0, REL_WINDOW);
			assert_true(rig_now(&g) < 2 * NS_PER_SEC);
		}
		assert_int_equal(g.n[0].ok, 3000);
		assert_int_equal(g.n[0].port.stats.retrans, 0);
		rig_close(&g);
	}
}

static void rel_send__full_queue_is_eagain(void **state)
{
	struct sim_attr attr = {.seed = 5};
	struct rig g;

	(void)state;
	rig_open(&g, 3, LINK_RELIABLE, &attr, NULL);
	for (uint32_t i = 0; i < REL_FRAMES_PEER; i++)
		assert_int_equal(rig_send(&g, 0, 1, 16), 0);
	assert_int_equal(rig_send(&g, 0, 1, 16), -EAGAIN);
	assert_int_equal(rig_send(&g, 0, 2, 16), 0); /* one peer does not starve the others */
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(rig_send(&g, 0, 1, 16), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	rig_close(&g);
}

static void rel_send__to_oneself(void **state)
{
	struct sim_attr attr = {.seed = 6, .drop_ppm = 50000};
	struct rig g;

	(void)state;
	rig_open(&g, 1, LINK_ORDERED, &attr, NULL);
	g.nak_percent = 20;
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(rig_send(&g, 0, 0, 16 + i * 40), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[0].delivered, 200);
	assert_true(rig_node_close(&g, 0, NS_PER_SEC));
	rig_close(&g);
}

static void rel_hello__both_at_once_make_one_pair(void **state)
{
	struct sim_attr attr = {.seed = 7};
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_ORDERED, &attr, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(rig_send(&g, i, 1 - i, 100), 0);
		rel_flush(g.n[i].port.rel, rig_now(&g));
	}
	assert_true(rig_run(&g, NS_PER_MS));
	assert_int_equal(rig_peer(&g, 0, 1)->rel->pair, rig_peer(&g, 1, 0)->rel->pair);
	assert_true(rig_peer(&g, 0, 1)->rel->pair);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(g.n[i].ok, 1);
		assert_int_equal(g.n[i].port.stats.drop_nonce, 0);
		assert_int_equal(g.n[i].port.rel->peer_cnt, 1);
	}
	rig_close(&g);
}

/* Addresses without a nonce (a Cassini PID): whoever listens there is meant. */
static void rel_hello__nonce_may_be_unknown(void **state)
{
	struct sim_attr attr = {.seed = 29};
	struct link_addr open_addr;
	struct rig g;

	(void)state;
	for (int both = 0; both < 2; both++) {
		rig_open(&g, 2, LINK_ORDERED, &attr, NULL);
		g.n[0].port.by_place = g.n[1].port.by_place = true;
		for (uint32_t i = 0; i <= (uint32_t)both; i++) {
			struct link_peer *peer;

			open_addr = g.n[1 - i].port.self;
			open_addr.nonce = 0;
			peer = rig_peer_at(&g.n[i], &open_addr);
			assert_int_equal(rel_send(g.n[i].port.rel, peer, LINK_K_NIC, "x", 1, NULL,
						  0, NULL, rig_now(&g)),
					 0);
			rel_flush(g.n[i].port.rel, rig_now(&g));
		}
		g.is_lenient = true;
		rig_run_for(&g, 10 * NS_PER_MS);
		for (uint32_t i = 0; i < 2; i++) {
			assert_int_equal(g.n[1 - i].delivered, i <= (uint32_t)both);
			assert_int_equal(g.n[i].port.rel->peer_cnt, 1);
			assert_int_equal(rel_outstanding(g.n[i].port.rel), 0);
		}
		rig_close(&g);
	}
}

static void rel_peer__idle_costs_no_window_and_no_timer(void **state)
{
	struct sim_attr attr = {.seed = 8};
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 50; i++)
			assert_int_equal(rig_send(&g, 0, 1, 3000), 0);
		assert_true(rig_run(&g, NS_PER_SEC));
		rig_run_for(&g, 2 * REL_IDLE_NS);
		for (uint32_t i = 0; i < 2; i++) {
			assert_null(rig_peer(&g, i, 1 - i)->rel->win);
			assert_int_equal(rel_next_deadline(g.n[i].port.rel), CLK_NEVER);
		}
	}
	rig_close(&g);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void rel_nak__code_is_the_senders_status(void **state)
{
	struct sim_attr attr = {.seed = 9};
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		rig_open(&g, 2, cls, &attr, NULL);
		g.nak_percent = 100;
		for (uint32_t i = 0; i < 100; i++) {
			assert_int_equal(rig_send(&g, 0, 1, 16 + i * 100), 0);
			assert_int_equal(rig_send(&g, 1, 0, 16 + i * 100), 0);
		}
		assert_true(rig_run(&g, NS_PER_SEC));
		for (uint32_t i = 0; i < 2; i++) {
			assert_int_equal(g.n[i].nak, 100); /* rig_sent() compares the codes */
			assert_int_equal(g.n[i].port.stats.naks_tx, 100);
			assert_int_equal(g.n[i].port.stats.naks_rx, 100);
			assert_int_equal(g.n[i].port.stats.retrans, 0);
		}
		rig_close(&g);
	}
}

/* --- losses ----------------------------------------------------------------------------------- */

struct single {
	uint32_t at; /* which datagram of the world, 1-based; 0 none */
	uint32_t cnt;
	enum sim_fate fate;
};

static enum sim_fate single_fate(void *ctx, const struct link_addr *src,
				 const struct link_addr *dst, const void *buf, size_t len)
{
	struct single *s = ctx;

	(void)src, (void)dst, (void)buf, (void)len;
	return ++s->cnt == s->at ? s->fate : SIM_PASS;
}

/* A few small and large frames both ways, some refused, and orderly closes. Return: datagrams. */
static uint32_t single_exchange(enum link_class cls, uint32_t at, enum sim_fate fate)
{
	struct sim_attr attr = {.seed = 10};
	struct single s = {.at = at, .fate = fate};
	struct rig g;

	rig_open(&g, 2, cls, &attr, NULL);
	sim_set_filter(g.sim, single_fate, &s);
	g.nak_percent = 25;
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(rig_send(&g, 0, 1, 16 + i * 700), 0);
		assert_int_equal(rig_send(&g, 1, 0, 16 + i), 0);
		rig_run_for(&g, 3 * NS_PER_US);
	}
	if (!rig_run(&g, NS_PER_SEC)) {
		rig_dump(&g);
		fail_msg("class %u, fate %u of datagram %u: not all ends", cls, fate, at);
	}
	assert_int_equal(g.n[0].err + g.n[1].err, 0);
	assert_true(rig_node_close(&g, 0, NS_PER_SEC));
	rig_run_for(&g, NS_PER_MS);
	assert_true(rig_node_close(&g, 1, NS_PER_SEC));
	rig_close(&g);
	return s.cnt;
}

static void rel__every_single_fault_is_repaired(void **state)
{
	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		uint32_t cnt = single_exchange(cls, 0, SIM_PASS);

		assert_in_range(cnt, 20, 200);
		for (enum sim_fate fate = SIM_DROP; fate <= SIM_DELAY; fate++) {
			for (uint32_t at = 1; at <= cnt; at++)
				single_exchange(cls, at, fate);
		}
	}
}

static void rel__loss_costs_round_trips_not_timeouts(void **state)
{
	struct sim_attr attr = {.seed = 12, .latency_ns = 20 * NS_PER_US, .drop_ppm = 10000};
	uint64_t start;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	start = rig_now(&g);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(rig_send(&g, 0, 1, 8000), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	/* 6000 datagrams, 60 of them lost; a timeout for each would be 12 ms and more */
	assert_in_range(rig_now(&g) - start, 0, 6 * NS_PER_MS);
	assert_in_range(g.n[0].port.stats.retrans, 40, 120);
	rig_close(&g);
}

/* Datagrams as large as the loopback takes: what arrived early fills the receiver's memory, so
 * credit must count it. */
static void rel__ordered_stash_never_overflows(void **state)
{
	struct sim_attr attr = {
		.seed = 31, .mtu = 61440, .latency_ns = 50 * NS_PER_US, .drop_ppm = 50000};
	uint64_t start;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_ORDERED, &attr, NULL);
	start = rig_now(&g);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(rig_send(&g, 0, 1, 9000), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[1].port.stats.drop_full, 0);
	assert_in_range(rig_now(&g) - start, 0, 30 * NS_PER_MS);
	rig_close(&g);
}

static void random_send(struct rig *g, struct rng *rng)
{
	uint32_t todo = 20 + (uint32_t)rng_below(rng, 600), cnt = g->cnt;

	while (todo) {
		uint32_t from = (uint32_t)rng_below(rng, cnt), to = (uint32_t)rng_below(rng, cnt);
		uint32_t burst = 1 + (uint32_t)rng_below(rng, 20),
			 max = rng_below(rng, 2) ? 64 : LINK_FRAME_MAX;

		for (; burst && todo; burst--, todo--) {
			uint32_t len = sizeof(struct rig_hdr) +
				       (uint32_t)rng_below(rng, max - sizeof(struct rig_hdr) + 1);

			assert_int_equal(rig_send(g, from, to, len), 0);
		}
		if (!rng_below(rng, 30))
			g->n[from].paused_until = rig_now(g) + rng_below(rng, 20 * NS_PER_MS);
		rel_flush(g->n[from].port.rel, rig_now(g));
		rig_run_for(g, rng_below(rng, 200 * NS_PER_US));
	}
}

static void faults_end(struct rig *g)
{
	sim_faults(g->sim, 0, 0, 0);
	for (uint32_t i = 0; i < g->cnt; i++) {
		struct link_room *r = &g->n[i].room;

		r->drop_ppm = r->dup_ppm = r->reorder_ppm = r->corrupt_ppm = r->truncate_ppm = 0;
	}
}

static void random_world(uint64_t seed)
{
	struct link_room room = rig_room;
	struct sim_attr attr = {.seed = seed};
	struct rng rng;
	struct rig g;

	rng_seed(&rng, seed);
	attr.latency_ns = 1 + rng_below(&rng, 50 * NS_PER_US);
	attr.jitter_ns = rng_below(&rng, 2) * rng_below(&rng, attr.latency_ns + 1);
	attr.mtu = rng_below(&rng, 4) ? 1472 : rng_below(&rng, 2) ? REL_MTU_MIN : 8972;
	attr.drop_ppm = (uint32_t)rng_below(&rng, 200000);
	attr.dup_ppm = (uint32_t)rng_below(&rng, 100000);
	attr.reorder_ppm = (uint32_t)rng_below(&rng, 200000);
	room.has_faults = !rng_below(&rng, 3);
	if (room.has_faults) {
		room.seed = seed;
		room.corrupt_ppm = (uint32_t)rng_below(&rng, 100000);
		room.truncate_ppm = (uint32_t)rng_below(&rng, 100000);
		room.reorder_ppm = (uint32_t)rng_below(&rng, 100000);
	}
	rig_open(&g, 2 + (uint32_t)rng_below(&rng, 3), rng_below(&rng, 2) ? LINK_RELIABLE : LINK_ORDERED, &attr, &room);
	g.nak_percent = (uint32_t)rng_below(&rng, 2) * (uint32_t)rng_below(&rng, 30);
	g.is_silent = seed % 2;
	random_send(&g, &rng);
	faults_end(&g);
	if (!rig_run(&g, 2 * NS_PER_SEC)) {
		rig_dump(&g);
		fail_msg("seed %llu: %u of %u frames have ended", (unsigned long long)seed, g.ended,
			 g.frame_cnt);
	}
	for (uint32_t i = 0; i < g.cnt; i++) {
		assert_int_equal(g.n[i].err, 0);
		assert_int_equal(g.n[i].peers_dead, 0);
	}
	for (uint32_t i = 0; i < g.cnt; i++)
		assert_true(rig_node_close(&g, i, NS_PER_SEC));
	rig_close(&g);
}

static void rel__random_worlds(void **state)
{
	static const uint64_t stuck[] = {202, 203, 242, 329, 384, 453, 666, 1018, 1283};
	const char *env = getenv("SEED"), *worlds = getenv("WORLDS"); /* by hand: SEED=1 WORLDS=5000 */
	uint64_t first = env ? strtoull(env, NULL, 0) : 1, cnt = worlds ? strtoull(worlds, NULL, 0) : env ? 1 : 200;
	int64_t live = mem_live_count();

	(void)state;
	/* of these some frames never ended, and some refused ones ended well, when refusals were among the frames */
	for (size_t i = 0; !env && i < ARRAY_SIZE(stuck); i++)
		random_world(stuck[i]);
	for (uint64_t seed = first; seed < first + cnt; seed++) {
		if (seed == first)
			print_message("SEED=%llu..\n", (unsigned long long)seed);
		random_world(seed);
		if (mem_live_count() != live)
			fail_msg("seed %llu leaks", (unsigned long long)seed);
	}
}

/* --- the end of peers ------------------------------------------------------------------------- */

static void rel_dead__silence_ends_everything_in_time(void **state)
{
	struct sim_attr attr = {.seed = 13, .is_silent = true};
	uint64_t start;
	struct rig g;

	(void)state;
	for (int was_known = 0; was_known < 2; was_known++) {
		two_open(&g, &attr, was_known);
		sim_cut(g.sim, g.n[1].port.self.port, true);
		start = rig_now(&g);
		for (int i = 0; i < 20; i++)
			assert_int_equal(rig_send(&g, 0, 1, 5000), 0);
		assert_true(rig_run(&g, 10 * NS_PER_SEC));
		assert_in_range(rig_now(&g) - start, rig_room.dead_after_ns,
				rig_room.dead_after_ns + NS_PER_SEC);
		assert_int_equal(g.n[0].err, 20);
		assert_int_equal(g.n[0].last_status, was_known ? -ETIMEDOUT : -EHOSTUNREACH);
		assert_int_equal(g.n[0].peers_dead, 1);
		assert_int_equal(rig_send(&g, 0, 1, 100), g.n[0].last_status);
		rig_close(&g);
	}
}

static void rel_dead__long_silence_without_anything_outstanding_is_none(void **state)
{
	struct sim_attr attr = {.seed = 14};
	struct rig g;

	(void)state;
	two_open(&g, &attr, true);
	rig_run_for(&g, 100 * NS_PER_SEC);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rig_run(&g, NS_PER_MS));
	assert_int_equal(g.n[0].ok, 2);
	rig_close(&g);
}

static void rel_dead__half_a_frame_from_a_peer_that_died(void **state)
{
	struct sim_attr attr = {.seed = 30, .is_silent = true};
	struct single s = {.at = 5, .fate = SIM_DROP}; /* after three HELLOs the second of four segments */
	struct rig g;

	(void)state;
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		s.cnt = 0;
		rig_open(&g, 2, cls, &attr, NULL);
		sim_set_filter(g.sim, single_fate, &s);
		assert_int_equal(rig_send(&g, 0, 1, 5000), 0);
		while (!g.n[1].port.rel->peer_cnt || rel_rx_idle(rig_peer(&g, 1, 0)->rel))
			assert_true(rig_step(&g, rig_now(&g) + NS_PER_SEC));
		sim_cut(g.sim, g.n[0].port.self.port, true);
		rig_run_for(&g, rig_room.dead_after_ns + NS_PER_SEC);
		assert_int_equal(g.n[1].delivered, 0);
		assert_int_equal(g.n[1].peers_dead, 1);
		assert_int_equal(slab_used(&g.n[1].port.rel->asms), 0);
		rig_close(&g);
	}
}

static void rel_refused__closed_port_answers(void **state)
{
	struct sim_attr attr = {.seed = 15};
	struct rig g;

	(void)state;
	/* the host says so, before and after the handshake */
	for (int was_known = 0; was_known < 2; was_known++) {
		two_open(&g, &attr, was_known);
		if (was_known) /* its goodbye does not arrive */
			sim_cut(g.sim, g.n[1].port.self.port, true);
		rig_node_close(&g, 1, 0);
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, NS_PER_MS));
		assert_int_equal(g.n[0].last_status, -ECONNREFUSED);
		rig_close(&g);
	}
}

static void rel_refused__next_incarnation_answers(void **state)
{
	struct sim_attr attr = {.seed = 16, .is_silent = true};
	uint16_t udp_port;
	struct link_addr old;
	struct link_peer *peer;
	struct rig g;

	(void)state;
	for (int was_known = 0; was_known < 2; was_known++) {
		rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
		old = g.n[1].port.self;
		udp_port = old.port;
		peer = rig_peer(&g, 0, 1);
		if (was_known) {
			assert_int_equal(rig_send(&g, 0, 1, 100), 0);
			assert_true(rig_run(&g, NS_PER_SEC));
			sim_cut(g.sim, udp_port, true);
		}
		rig_node_close(&g, 1, 0);
		rig_node_open(&g, 1, udp_port, &rig_room);
		assert_int_equal(rel_send(g.n[0].port.rel, peer, LINK_K_NIC, "x", 1, NULL, 0, NULL,
					  rig_now(&g)),
				 0);
		rig_run_for(&g, NS_PER_MS);
		assert_int_equal(peer->dead, -ECONNREFUSED);
		assert_int_equal(g.n[1].delivered, 0);
		/* and the new one can be reached under its own nonce */
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, NS_PER_MS));
		assert_int_equal(g.n[1].delivered, 1);
		rig_close(&g);
	}
}

/* A datagram that node 1 sends to node 0: @b, of a wire version to come, and @body behind it. */
static void inject_version_9(struct rig *g, struct rel_base b, const void *body, size_t len)
{
	uint8_t buf[sizeof(b) + 64];
	struct iovec iov = {buf, sizeof(b) + len};

	assert_in_range(len, 1, 64);
	b.version = 9;
	memcpy(buf, &b, sizeof(b));
	memcpy(buf + sizeof(b), body, len);
	b.crc = le32_put(rel_crc32c(&iov, 1));
	memcpy(buf, &b, sizeof(b));
	sim_inject(g->sim, &g->n[1].port.self, &g->n[0].port.self, buf, iov.iov_len);
}

static void rel_refused__class_and_version(void **state)
{
	struct sim_attr attr = {.seed = 17};
	struct rel_pkt pkt = {.type = REL_HELLO,
			      .flags = REL_F_CRC,
			      .hello = {.half = 1, .src_nonce = 5, .cls = LINK_RELIABLE}};
	struct rel_base b;
	struct rel_hello h;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	g.n[1].port.cls = LINK_ORDERED;
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[0].last_status, -EPROTO);
	/* a HELLO of version 9 from our own port: the refusal comes back to it and says version */
	rel_base_encode(&pkt, &b);
	rel_hello_encode(&pkt, &h);
	inject_version_9(&g, b, &h, sizeof(h));
	rig_run_for(&g, NS_PER_MS);
	assert_int_equal(g.n[0].port.stats.drop_version, 1);
	assert_int_equal(g.n[1].port.stats.drop_nonce, 1); /* a refusal of what it never sent */
	rig_close(&g);
}

static void rel_refuse__version_ends_the_peer(void **state)
{
	struct sim_attr attr = {.seed = 18};
	struct rel_pkt pkt = {.type = REL_REFUSE,
			      .flags = REL_F_CRC,
			      .refuse = {.reason = REL_R_VERSION, .version = 9}};
	struct rel_base b;
	struct rel_refuse h;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	sim_cut(g.sim, g.n[1].port.self.port, true);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	rel_flush(g.n[0].port.rel, rig_now(&g));
	for (int is_right = 0; is_right < 2; is_right++) {
		/* who has not seen our half cannot refuse */
		pkt.refuse.half = rig_peer(&g, 0, 1)->rel->half + !is_right;
		rel_base_encode(&pkt, &b);
		rel_refuse_encode(&pkt, &h);
		inject_version_9(&g, b, &h, sizeof(h));
		rig_poll(&g, 0);
		assert_int_equal(g.n[0].err, is_right);
		assert_int_equal(g.n[0].port.stats.drop_nonce, 1);
	}
	assert_int_equal(g.n[0].last_status, -EPROTO);
	rig_close(&g);
}

static void rel_drain__send_and_close_under_loss(void **state)
{
	static const uint32_t drop[] = {50000, 300000};
	uint32_t ok = 0, all = 0;

	(void)state;
	for (size_t d = 0; d < ARRAY_SIZE(drop); d++) {
		for (uint64_t seed = 1; seed <= 200; seed++) {
			struct sim_attr attr = {.seed = seed, .drop_ppm = drop[d]};
			struct rig g;

			rig_open(&g, 2, seed % 2 ? LINK_RELIABLE : LINK_ORDERED, &attr, NULL);
			for (uint32_t i = 0; i < 5; i++)
				assert_int_equal(rig_send(&g, 0, 1, 16 + (uint32_t)seed % 3000), 0);
			/* the sender closes at once, then the receiver: nobody hangs, and what was
			 * said to be fine was */
			assert_true(rig_node_close(&g, 0, NS_PER_SEC));
			assert_int_equal(g.n[0].ok, 5);
			assert_true(rig_node_close(&g, 1, NS_PER_SEC));
			assert_true(rig_now(&g) < 3 * NS_PER_SEC);
			rig_close(&g);
			/* the receiver takes one frame, closes and exits; the sender must come to
			 * an end */
			attr.seed = seed + 1000;
			rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
			assert_int_equal(rig_send(&g, 0, 1, 100), 0);
			while (!g.n[1].delivered)
				assert_true(rig_step(&g, rig_now(&g) + NS_PER_SEC));
			rig_node_close(&g, 1, NS_PER_SEC);
			assert_true(rig_run(&g, NS_PER_SEC));
			all++;
			ok += g.n[0].ok;
			assert_true(!g.n[0].last_status || g.n[0].last_status == -ECONNREFUSED);
			rig_close(&g);
		}
	}
	/* the last acknowledgement is repeated by the goodbye until that is answered */
	assert_in_range(ok, all - 2, all);
}

static void rel_drain__peers_outstanding_frames_are_refused(void **state)
{
	struct sim_attr attr = {.seed = 19};
	struct rig g;

	(void)state;
	two_open(&g, &attr, true);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(rig_send(&g, 0, 1, 5000), 0);
	rig_node_close(&g, 1, NS_PER_SEC);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[0].ok + g.n[0].err, 1001);
	assert_true(g.n[0].err);
	assert_int_equal(g.n[0].last_status, -ECONNREFUSED);
	assert_int_equal(rig_send(&g, 0, 1, 100), -ECONNREFUSED);
	rig_close(&g);
}

static void rel_drain__takes_no_frames(void **state)
{
	struct sim_attr attr = {.seed = 20};
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	assert_true(rel_drain(g.n[0].port.rel, rig_now(&g)));
	assert_int_equal(rig_send(&g, 0, 1, 100), -ECANCELED);
	/* and makes no new pairs */
	assert_int_equal(rig_send(&g, 1, 0, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_int_equal(g.n[1].last_status, -ECONNREFUSED);
	rig_close(&g);
}

static void rel_close__cancels_what_is_left(void **state)
{
	struct sim_attr attr = {.seed = 21, .is_silent = true};
	struct rig g;

	(void)state;
	two_open(&g, &attr, true);
	sim_cut(g.sim, g.n[1].port.self.port, true);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(rig_send(&g, 0, 1, 100 + i * 30), 0);
	assert_false(rig_node_close(&g, 0, 100 * NS_PER_MS));
	assert_int_equal(g.n[0].err, 300);
	assert_int_equal(g.n[0].last_status, -ECANCELED);
	rig_close(&g);
}

/* --- strangers -------------------------------------------------------------------------------- */

struct spy {
	uint8_t buf[2048];
	size_t len;
	uint8_t type; /* which to keep the last of */
};

static enum sim_fate spy_see(void *ctx, const struct link_addr *src, const struct link_addr *dst,
			     const void *buf, size_t len)
{
	struct spy *s = ctx;

	(void)src, (void)dst;
	if (((const uint8_t *)buf)[3 - 1] == s->type && len <= sizeof(s->buf)) {
		memcpy(s->buf, buf, len);
		s->len = len;
	}
	return SIM_PASS;
}

static void rel_input__off_path_injection_is_ignored(void **state)
{
	struct sim_attr attr = {.seed = 22};
	struct spy spy = {.type = REL_DATA};
	struct link_addr liar;
	struct rel_base b;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	sim_set_filter(g.sim, spy_see, &spy);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	assert_true(spy.len);
	/* the next DATA, well formed, but the nonce is guessed; every type that has one */
	memcpy(&b, spy.buf, sizeof(b));
	b.seq = le32_put(le32_get(b.seq) + 1);
	for (uint32_t bit = 0; bit < 64; bit++) {
		struct rel_base bad = b;

		bad.nonce.b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		memcpy(spy.buf, &bad, sizeof(bad));
		sim_inject(g.sim, &g.n[0].port.self, &g.n[1].port.self, spy.buf, spy.len);
		rig_poll(&g, 1);
		assert_int_equal(g.n[1].port.stats.drop_nonce, bit + 1);
	}
	assert_int_equal(g.n[1].delivered, 1);
	/* the right nonce from another place */
	memcpy(spy.buf, &b, sizeof(b));
	liar = g.n[0].port.self;
	liar.port++;
	sim_inject(g.sim, &liar, &g.n[1].port.self, spy.buf, spy.len);
	rig_poll(&g, 1);
	assert_int_equal(g.n[1].port.stats.drop_source, 1);
	assert_int_equal(g.n[1].delivered, 1);
	/* the refusals that this caused harm nobody */
	rig_run_for(&g, NS_PER_MS);
	assert_int_equal(g.n[0].peers_dead + g.n[1].peers_dead, 0);
	sim_set_filter(g.sim, NULL, NULL);
	assert_int_equal(rig_send(&g, 0, 1, 100), 0);
	assert_true(rig_run(&g, NS_PER_MS));
	assert_int_equal(g.n[0].ok, 2);
	rig_close(&g);
}

static void rel_input__refusals_are_rate_limited(void **state)
{
	struct sim_attr attr = {.seed = 23};
	struct rel_pkt pkt = {.type = REL_ACK, .nonce = 77};
	struct link_addr liar;
	struct rel_base b;
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_RELIABLE, &attr, NULL);
	rel_base_encode(&pkt, &b);
	liar = g.n[0].port.self;
	for (int i = 0; i < 10000; i++)
		rel_input(g.n[1].port.rel, &liar, &b, sizeof(b), rig_now(&g));
	assert_int_equal(rel_next_deadline(g.n[1].port.rel), 0);
	rel_flush(g.n[1].port.rel, rig_now(&g));
	assert_int_equal(rel_next_deadline(g.n[1].port.rel), CLK_NEVER);
	assert_int_equal(g.n[1].port.stats.drop_source, 10000);
	assert_int_equal(g.n[1].port.stats.net_tx_dgrams, REL_ANSWER_BURST);
	rig_close(&g);
}

/* Late copies of every datagram of an exchange, in any order, after it: nothing happens twice. */
struct tape {
	uint8_t *dgram[400];
	size_t len[400];
	uint32_t to[400], cnt;
	struct rig *g;
};

static enum sim_fate tape_record(void *ctx, const struct link_addr *src,
				 const struct link_addr *dst, const void *buf, size_t len)
{
	struct tape *t = ctx;

	(void)src;
	if (t->cnt == ARRAY_SIZE(t->len))
		return SIM_PASS;
	t->dgram[t->cnt] = mem_alloc(len);
	memcpy(t->dgram[t->cnt], buf, len);
	t->to[t->cnt] = dst->port == t->g->n[1].port.self.port;
	t->len[t->cnt++] = len;
	return SIM_PASS;
}

static void rel_input__replay_changes_nothing(void **state)
{
	struct rng rng = unit_rng();
	struct sim_attr attr = {.seed = 24};
	struct tape t = {0};
	struct rig g;

	(void)state;
	rig_open(&g, 2, LINK_ORDERED, &attr, NULL);
	t.g = &g;
	sim_set_filter(g.sim, tape_record, &t);
	g.nak_percent = 20;
	for (uint32_t i = 0; i < 30; i++) {
		assert_int_equal(rig_send(&g, 0, 1, 16 + 100 * i), 0);
		assert_int_equal(rig_send(&g, 1, 0, 16 + 100 * i), 0);
	}
	assert_true(rig_run(&g, NS_PER_SEC));
	sim_set_filter(g.sim, NULL, NULL);
	for (int i = 0; i < 2000; i++) {
		uint32_t k = (uint32_t)rng_below(&rng, t.cnt), to = t.to[k];

		sim_inject(g.sim, &g.n[1 - to].port.self, &g.n[to].port.self, t.dgram[k], t.len[k]);
		rig_step(&g, rig_now(&g) + NS_PER_US);
	}
	rig_run_for(&g, 10 * NS_PER_MS);
	assert_int_equal(g.n[0].delivered, 30);
	assert_int_equal(g.n[1].delivered, 30);
	assert_int_equal(g.n[0].peers_dead + g.n[1].peers_dead, 0);
	assert_int_equal(rig_send(&g, 0, 1, 5000), 0);
	assert_true(rig_run(&g, NS_PER_SEC));
	for (uint32_t i = 0; i < t.cnt; i++)
		mem_free(t.dgram[i]);
	rig_close(&g);
}

/* A peer that knows the nonce and lies about everything else: no crash, no read outside, no frame
 * without an end. */
static void rel_input__authentic_garbage(void **state)
{
	struct rng rng = unit_rng();
	int64_t live = mem_live_count();

	for (uint64_t round = 0; round < 20; round++) {
		struct sim_attr attr = {.seed = 25 + round, .mtu = round % 3 ? 1472 : REL_MTU_MIN};
		struct tape t = {0};
		struct rig g;

		rig_open(&g, 2, round % 2 ? LINK_RELIABLE : LINK_ORDERED, &attr, NULL);
		t.g = &g;
		g.is_lenient = true;
		sim_set_filter(g.sim, tape_record, &t);
		for (uint32_t i = 0; i < 60; i++) {
			assert_int_equal(rig_send(&g, 0, 1, 16 + 50 * i), 0);
			assert_int_equal(rig_send(&g, 1, 0, 16 + 50 * i), 0);
			rig_step(&g, rig_now(&g) + NS_PER_US);
		}
		for (int i = 0; i < 3000; i++) {
			uint32_t k = (uint32_t)rng_below(&rng, t.cnt), to = t.to[k];
			size_t len = t.len[k];
			uint8_t *buf = malloc(len);

			memcpy(buf, t.dgram[k], len);
			for (uint64_t n = 1 + rng_below(&rng, 4); n; n--) {
				/* seq, ack and echo move a little; the rest takes any value */
				size_t at = 12 + rng_below(&rng, 24);

				if (rng_below(&rng, 2))
					buf[at < 20 ? at & ~3u : at] +=
						(uint8_t)rng_below(&rng, 32);
				else if (len > 40)
					buf[40 + rng_below(&rng, len - 40)] =
						(uint8_t)rng_u64(&rng);
			}
			if (!rng_below(&rng, 8))
				buf[2] = (uint8_t)rng_below(
					&rng, REL_BYE); /* goodbyes would end the game early */
			if (!rng_below(&rng, 8))
				len = rng_below(&rng, len + 1);
			rel_input(g.n[to].port.rel, &g.n[1 - to].port.self, buf, len, rig_now(&g));
			free(buf);
			rig_step(&g, rig_now(&g) + NS_PER_US);
		}
		sim_set_filter(g.sim, NULL, NULL);
		/* pairs whose numbers were led astray may never recover, but closing ends every
		 * frame */
		rig_run(&g, 10 * NS_PER_MS);
		for (uint32_t i = 0; i < t.cnt; i++)
			mem_free(t.dgram[i]);
		rig_close(&g);
		assert_int_equal(mem_live_count(), live);
	}
}

/* --- owners that act in callbacks ------------------------------------------------------------- */

static void pong(struct rig_node *n, struct link_peer *peer)
{
	struct rig *g = n->rig;

	(void)peer;
	if (g->frame_cnt < 500)
		assert_int_equal(rig_send(g, n->idx, 1 - n->idx, 16 + g->frame_cnt % 4000), 0);
	rel_flush(n->port.rel, rig_now(g)); /* rings inside the callback */
}

static void rel_callback__may_send_and_ring(void **state)
{
	struct sim_attr attr = {.seed = 26, .drop_ppm = 30000};
	struct rig g;

	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		rig_open(&g, 2, cls, &attr, NULL);
		g.on_frame = pong;
		g.nak_percent = 10;
		assert_int_equal(rig_send(&g, 0, 1, 100), 0);
		assert_true(rig_run(&g, 60 * NS_PER_SEC));
		assert_int_equal(g.frame_cnt, 500);
		assert_int_equal(g.n[0].err + g.n[1].err, 0);
		rig_close(&g);
	}
}

static void drop_it(struct rig_node *n, struct link_peer *peer)
{
	if (n->delivered % 10 == 0)
		rel_peer_drop(n->port.rel, peer, -ECANCELED);
}

static void drop_all(struct rig_node *n, struct rig_frame *f)
{
	(void)f;
	for (struct link_peer *peer = n->peers; peer; peer = peer->hnext)
		rel_peer_drop(n->port.rel, peer, -ECANCELED);
}

static void rel_callback__may_drop_the_peer(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct sim_attr attr = {.seed = seed, .drop_ppm = 30000};
		struct rig g;

		rig_open(&g, 2, seed % 2 ? LINK_RELIABLE : LINK_ORDERED, &attr, NULL);
		if (seed % 3)
			g.on_frame = drop_it;
		else
			g.on_sent = drop_all;
		for (uint32_t i = 0; i < 100; i++) {
			rig_send(&g, 0, 1, 16 + i * 50);
			rig_send(&g, 1, 0, 16 + i * 50);
		}
		assert_true(rig_run(&g, 10 * NS_PER_SEC));
		rig_close(&g);
	}
}

static void rel__survives_failing_allocations(void **state)
{
	for (enum link_class cls = LINK_RELIABLE; cls <= LINK_ORDERED; cls++) {
		for (uint64_t n = 1; n < 60; n++) {
			struct sim_attr attr = {.seed = n, .drop_ppm = 20000};
			int64_t live = mem_live_count();
			struct rig g;

			rig_open(&g, 2, cls, &attr, NULL);
			for (uint32_t i = 0; i < 40; i++) {
				struct rig_frame *f = rig_frame_new(&g, 0, 1, 16 + i * 200);
				struct iovec iov = {f->mem, f->len};
				int rc;

				if (i == n % 7)
					mem_fail_nth(1 + n / 7);
				rc = rel_send(g.n[0].port.rel, rig_peer(&g, 0, 1),
					      f->id % 3 ? LINK_K_NIC : LINK_K_BULK, NULL, 0, &iov,
					      1, f, rig_now(&g));
				if (rc) {
					assert_int_equal(rc, -EAGAIN);
					free(f->mem);
					free(f);
					g.frame_cnt--;
				} else {
					g.order_tx[0][1]++;
				}
				rig_step(&g, rig_now(&g) + NS_PER_US);
			}
			assert_true(rig_run(&g, NS_PER_SEC));
			mem_fail_nth(0);
			assert_int_equal(g.n[0].err, 0);
			rig_close(&g);
			assert_int_equal(mem_live_count(), live);
		}
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rel_send__one_frame_arrives_and_ends),
		cmocka_unit_test(rel_send__every_length_around_a_datagram),
		cmocka_unit_test(rel_send__window_is_bounded_and_refills),
		cmocka_unit_test(rel_send__full_queue_is_eagain),
		cmocka_unit_test(rel_send__to_oneself),
		cmocka_unit_test(rel_hello__both_at_once_make_one_pair),
		cmocka_unit_test(rel_hello__nonce_may_be_unknown),
		cmocka_unit_test(rel_peer__idle_costs_no_window_and_no_timer),
		cmocka_unit_test(rel_nak__code_is_the_senders_status),
		cmocka_unit_test(rel__every_single_fault_is_repaired),
		cmocka_unit_test(rel__loss_costs_round_trips_not_timeouts),
		cmocka_unit_test(rel__ordered_stash_never_overflows),
		cmocka_unit_test(rel__random_worlds),
		cmocka_unit_test(rel_dead__silence_ends_everything_in_time),
		cmocka_unit_test(rel_dead__long_silence_without_anything_outstanding_is_none),
		cmocka_unit_test(rel_dead__half_a_frame_from_a_peer_that_died),
		cmocka_unit_test(rel_refused__closed_port_answers),
		cmocka_unit_test(rel_refused__next_incarnation_answers),
		cmocka_unit_test(rel_refused__class_and_version),
		cmocka_unit_test(rel_refuse__version_ends_the_peer),
		cmocka_unit_test(rel_drain__send_and_close_under_loss),
		cmocka_unit_test(rel_drain__peers_outstanding_frames_are_refused),
		cmocka_unit_test(rel_drain__takes_no_frames),
		cmocka_unit_test(rel_close__cancels_what_is_left),
		cmocka_unit_test(rel_input__off_path_injection_is_ignored),
		cmocka_unit_test(rel_input__refusals_are_rate_limited),
		cmocka_unit_test(rel_input__replay_changes_nothing),
		cmocka_unit_test(rel_input__authentic_garbage),
		cmocka_unit_test(rel_callback__may_send_and_ring),
		cmocka_unit_test(rel_callback__may_drop_the_peer),
		cmocka_unit_test(rel__survives_failing_allocations),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
