// SPDX-License-Identifier: BSD-2-Clause
// The reliability module over the simulated network.
#include "rel_rig.h"

/* --- one exchange --------------------------------------------------------------------------------------------------- */

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

static void random_world(uint64_t seed)
{
	struct rng rng;
	struct sim_attr attr = {.seed = seed};
	struct rig g;
	uint32_t cnt, todo;

	rng_seed(&rng, seed);
	attr.latency_ns = 1 + rng_below(&rng, 50 * NS_PER_US);
	attr.jitter_ns = rng_below(&rng, 2) * rng_below(&rng, attr.latency_ns + 1);
	attr.mtu = rng_below(&rng, 4) ? 1472 : rng_below(&rng, 2) ? REL_MTU_MIN : 8972;
	attr.drop_ppm = (uint32_t)rng_below(&rng, 200000);
	attr.dup_ppm = (uint32_t)rng_below(&rng, 100000);
	attr.reorder_ppm = (uint32_t)rng_below(&rng, 200000);
	cnt = 2 + (uint32_t)rng_below(&rng, 3);
	rig_open(&g, cnt, rng_below(&rng, 2) ? LINK_RELIABLE : LINK_ORDERED, &attr, NULL);
	g.nak_percent = (uint32_t)rng_below(&rng, 2) * (uint32_t)rng_below(&rng, 30);
	todo = 20 + (uint32_t)rng_below(&rng, 600);
	while (todo) {
		uint32_t from = (uint32_t)rng_below(&rng, cnt), to = (uint32_t)rng_below(&rng, cnt);
		uint32_t burst = 1 + (uint32_t)rng_below(&rng, 20), max = rng_below(&rng, 2) ? 64 : LINK_FRAME_MAX;

		for (; burst && todo; burst--, todo--)
			assert_int_equal(rig_send(&g, from, to, sizeof(struct rig_hdr) +
						  (uint32_t)rng_below(&rng, max - sizeof(struct rig_hdr) + 1)), 0);
		if (!rng_below(&rng, 30))
			g.n[from].paused_until = rig_now(&g) + rng_below(&rng, 20 * NS_PER_MS);
		rel_flush(g.n[from].port.rel, rig_now(&g));
		rig_run_for(&g, rng_below(&rng, 200 * NS_PER_US));
	}
	sim_faults(g.sim, 0, 0, 0);
	if (!rig_run(&g, 2 * NS_PER_SEC)) {
		rig_dump(&g);
		fail_msg("seed %llu: %u of %u frames have ended", (unsigned long long)seed, g.ended, g.frame_cnt);
	}
	for (uint32_t i = 0; i < cnt; i++) {
		assert_int_equal(g.n[i].err, 0);
		assert_int_equal(g.n[i].peers_dead, 0);
	}
	for (uint32_t i = 0; i < cnt; i++)
		assert_true(rig_node_close(&g, i, NS_PER_SEC));
	rig_close(&g);
}

static void rel__random_worlds(void **state)
{
	const char *env = getenv("SEED");
	uint64_t first = env ? strtoull(env, NULL, 0) : 1, cnt = env ? 1 : 200;
	int64_t live = mem_live_count();

	(void)state;
	for (uint64_t seed = first; seed < first + cnt; seed++) {
		random_world(seed);
		if (mem_live_count() != live)
			fail_msg("seed %llu leaks", (unsigned long long)seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rel_send__one_frame_arrives_and_ends),
		cmocka_unit_test(rel__random_worlds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
