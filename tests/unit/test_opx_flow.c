// SPDX-License-Identifier: BSD-2-Clause
// Reliability of opx against a model: everything once, in order, with its bytes, and every reference retired once,
// whatever the wire does.
#include "opx_rig.h"

static void opx_flow__one_packet(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_open(&g, 2, 1, where);
		assert_int_equal(rig_post(&g, 0, 1, 100, 0), where == RIG_NEAR ? 0 : -EAGAIN);
		rig_peer(&g, 0, 1)->want = 1;
		assert_true(rig_run(&g, 10 * NS_PER_MS));
		assert_int_equal(rig_peer(&g, 1, 0)->delivered, 1 + (where == RIG_NEAR));
		assert_int_equal(rig_stats(&g, 0)->inits_tx, 1);
		assert_int_equal(rig_stats(&g, 0)->replays, 0);
		rig_close(&g);
	}
}

static void opx_flow__many_both_ways(void **state)
{
	struct rig g;

	(void)state;
	for (int where = 0; where < RIG_WHERE_NUM; where++) {
		rig_open(&g, 3, 2, where);
		for (uint32_t i = 0; i < 3; i++) {
			for (uint32_t k = 0; k < 3; k++)
				rig_peer(&g, i, k)->want = 3000;
		}
		assert_true(rig_run(&g, 10 * NS_PER_SEC));
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(rig_stats(&g, i)->replays, 0);
			assert_int_equal(rig_stats(&g, i)->rx_pkts, 9000);
			assert_int_equal(rig_stats(&g, i)->dups, 0);
			if (where)
				assert_int_equal(rig_stats(&g, i)->pings_tx, 0);
		}
		rig_close(&g);
	}
}

/* Each packet of a short exchange in turn, the handshake's included, is lost, doubled or late. */
static void opx_flow__every_single_fault(void **state)
{
	struct rig g;

	(void)state;
	for (enum rig_fate fate = RIG_DROP; fate <= RIG_DELAY; fate++) {
		for (int64_t nth = 0, sent = 1; nth < sent; nth++) {
			rig_open(&g, 2, 77, false);
			g.nth = nth;
			g.fate = fate;
			rig_peer(&g, 0, 1)->want = 40;
			rig_peer(&g, 1, 0)->want = 40;
			assert_true(rig_run(&g, NS_PER_SEC));
			sent = (int64_t)g.sent;
			rig_close(&g);
		}
	}
}

static void opx_flow__random_faults(void **state)
{
	static const double loss[] = {0.01, 0.05, 0.10, 0.20, 0.50};
	struct rng r = unit_rng();
	struct rig g;

	(void)state;
	for (uint32_t i = 0; i < 60; i++) {
		rig_open(&g, 2, rng_u64(&r), false);
		g.loss = loss[i % ARRAY_SIZE(loss)];
		g.dup = i % 2 ? 0.05 : 0;
		g.reorder = i % 3 ? 0.05 : 0;
		g.eagain = i % 4 ? 0.02 : 0;
		rig_peer(&g, 0, 1)->want = 1500;
		rig_peer(&g, 1, 0)->want = 500;
		assert_true(rig_run(&g, 100 * NS_PER_SEC));
		assert_int_equal(rig_peer(&g, 0, 1)->deads + rig_peer(&g, 1, 0)->deads, 0);
		rig_close(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opx_flow__one_packet),
		cmocka_unit_test(opx_flow__many_both_ways),
		cmocka_unit_test(opx_flow__every_single_fault),
		cmocka_unit_test(opx_flow__random_faults),
	};

	return cmocka_run_group_tests_name("opx_flow", tests, NULL, NULL);
}
