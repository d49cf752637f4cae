// SPDX-License-Identifier: BSD-2-Clause
// Counting events: range, writeback, hook; triggered commands: order, cascades, limits, cancelling.
#include "cassini_inifake.h"

static struct world w;

static struct cassini_ct *ct_new(void)
{
	struct cassini_ct *ct;

	assert_int_equal(cassini_ct_open(&w.lni, NULL, &ct), 0);
	return ct;
}

static void expect_ct(const struct cassini_ct *ct, uint64_t success, uint64_t failure)
{
	uint64_t s, f;

	cassini_ct_get(ct, &s, &f);
	assert_int_equal(s, success);
	assert_int_equal(f, failure);
}

/* A triggered Put of @len bytes. */
static int trig_put(struct cassini_ct *on, uint64_t threshold, uint32_t len, uint32_t flags)
{
	struct cassini_cmd cmd = cmd_of(&w, CASSINI_OP_PUT, 0, len, flags);

	return cassini_post_trig(w.cq, on, threshold, &cmd);
}

static int trig_event(struct cassini_ct *on, uint64_t threshold, uint64_t user_ptr)
{
	const struct cassini_ct_cmd cmd = {.op = CASSINI_CT_EVENT, .eq = w.eq, .user_ptr = user_ptr};

	return cassini_trig_ct(w.cq, on, threshold, &cmd);
}

static int trig_count(struct cassini_ct *on, uint64_t threshold, enum cassini_ct_op op, struct cassini_ct *ct,
		      uint64_t value)
{
	const struct cassini_ct_cmd cmd = {.op = op, .ct = ct, .value = value};

	return cassini_trig_ct(w.cq, on, threshold, &cmd);
}

static void ct_add__saturates_and_writes_back(void **state)
{
	uint64_t wb = 0;
	struct cassini_ct *ct;

	world_open(&w, 8, 8);
	assert_int_equal(cassini_ct_open(&w.lni, &wb, &ct), 0);
	assert_int_equal(wb, 0);
	cassini_ct_add(ct, 3, 2);
	assert_int_equal(wb, 1ULL << 63 | 2ULL << 48 | 3);
	cassini_ct_add(ct, UINT64_MAX, UINT64_MAX);
	expect_ct(ct, CASSINI_CT_SUCCESS_MAX, CASSINI_CT_FAILURE_MAX);
	cassini_ct_add(ct, 1, 1);
	expect_ct(ct, CASSINI_CT_SUCCESS_MAX, CASSINI_CT_FAILURE_MAX);
	assert_int_equal(wb, 1ULL << 63 | 127ULL << 48 | CASSINI_CT_SUCCESS_MAX);
	cassini_ct_set(ct, 1ULL << 50, 1000);
	expect_ct(ct, CASSINI_CT_SUCCESS_MAX, CASSINI_CT_FAILURE_MAX);
	cassini_ct_set(ct, 4, 0);
	assert_int_equal(wb, 1ULL << 63 | 4);
	cassini_ct_set_wb(ct, NULL);
	cassini_ct_add(ct, 1, 0);
	assert_int_equal(wb, 1ULL << 63 | 4);
	cassini_ct_close(ct);
	cassini_ct_close(NULL);
	world_close(&w);
}

static void ct_open__limit_and_memory(void **state)
{
	struct cassini_ct *ct = NULL, *ct2;

	world_open(&w, 8, 8);
	w.lni.svc.max[CASSINI_RSRC_CT] = 1;
	mem_fail_nth(1);
	assert_int_equal(cassini_ct_open(&w.lni, NULL, &ct), -ENOMEM);
	mem_fail_nth(0);
	assert_null(ct);
	ct = ct_new();
	assert_int_equal(cassini_ct_open(&w.lni, NULL, &ct2), -ENOSPC);
	cassini_ct_close(ct);
	world_close(&w);
}

static void count_call(void *ctx)
{
	++*(unsigned *)ctx;
}

static void ct_on_change__every_change(void **state)
{
	struct cassini_ct *ct;
	unsigned calls = 0;

	world_open(&w, 8, 8);
	ct = ct_new();
	cassini_ct_on_change(ct, count_call, &calls);
	cassini_ct_add(ct, 1, 0);
	cassini_ct_set(ct, 0, 1);
	assert_int_equal(calls, 2);
	cassini_ct_on_change(ct, NULL, NULL);
	cassini_ct_add(ct, 1, 0);
	assert_int_equal(calls, 2);
	cassini_ct_close(ct);
	world_close(&w);
}

static void trig__fires_by_threshold_then_age(void **state)
{
	static const uint64_t threshold[] = {5, 2, 7, 2, 5};
	struct cassini_ct *ct;

	world_open(&w, 8, 8);
	ct = ct_new();
	for (unsigned i = 0; i < ARRAY_SIZE(threshold); i++)
		assert_int_equal(trig_event(ct, threshold[i], i), 0);
	cassini_ct_add(ct, 1, 100); /* failures do not trigger */
	expect_none(&w);
	cassini_ct_add(ct, 1, 0);
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 1);
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 3);
	expect_none(&w);
	cassini_ct_add(ct, 10, 0);
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 0);
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 4);
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 2);
	assert_int_equal(trig_event(ct, 12, 9), 0); /* reached already */
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 9);
	assert_int_equal(w.lni.used[CASSINI_RSRC_TLE], 0);
	assert_int_equal(w.nic.stats.triggered, 6);
	cassini_ct_close(ct);
	world_close(&w);
}

static void trig__order_is_that_of_a_model(void **state)
{
	struct rng rng = unit_rng();
	uint64_t threshold[40];
	struct cassini_ct *ct;
	unsigned fired = 0;

	world_open(&w, 64, 8);
	w.lni.svc.max[CASSINI_RSRC_TLE] = 64;
	ct = ct_new();
	for (unsigned i = 0; i < 40; i++) {
		threshold[i] = 1 + rng_u64(&rng) % 10;
		assert_int_equal(trig_event(ct, threshold[i], i), 0);
	}
	for (uint64_t value = 1; value <= 10; value++) {
		cassini_ct_add(ct, 1, 0);
		for (unsigned i = 0; i < 40; i++) {
			if (threshold[i] == value) {
				expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, i);
				fired++;
			}
		}
		expect_none(&w);
	}
	assert_int_equal(fired, 40);
	cassini_ct_close(ct);
	world_close(&w);
}

#define CHAIN 1000

/*
 * So long that recursion of some hundred bytes a step would be seen by a stack limit; and in a ring, which ends only
 * because counts do.
 */
static void trig__cascade_without_recursion(void **state)
{
	static struct cassini_ct *ct[CHAIN];

	world_open(&w, 8, 8);
	w.lni.svc.max[CASSINI_RSRC_TLE] = w.lni.svc.max[CASSINI_RSRC_CT] = CHAIN;
	for (unsigned i = 0; i < CHAIN; i++)
		ct[i] = ct_new();
	for (unsigned i = 0; i < CHAIN; i++)
		assert_int_equal(trig_count(ct[i], 1, CASSINI_CT_INC, ct[(i + 1) % CHAIN], 2), 0);
	cassini_ct_add(ct[0], 1, 0);
	expect_ct(ct[0], 3, 0);
	for (unsigned i = 1; i < CHAIN; i++)
		expect_ct(ct[i], 2, 0);
	assert_int_equal(w.lni.used[CASSINI_RSRC_TLE], 0);
	for (unsigned i = 0; i < CHAIN; i++)
		cassini_ct_close(ct[i]);
	world_close(&w);
}

static void trig_set__overwrites_successes(void **state)
{
	struct cassini_ct *a, *b;

	world_open(&w, 8, 8);
	a = ct_new();
	b = ct_new();
	cassini_ct_set(b, 50, 3);
	assert_int_equal(trig_count(a, 1, CASSINI_CT_SET, b, 7), 0);
	cassini_ct_add(a, 1, 0);
	expect_ct(b, 7, 3); /* of successes */
	cassini_ct_close(a);
	cassini_ct_close(b);
	world_close(&w);
}

static void trig_ct__refuses_nonsense(void **state)
{
	struct cassini_cmdq_attr attr = {.depth = 1};
	struct cassini_cmdq *cq = w.cq;
	struct cassini_ct *ct;
	struct cassini_cmd cmd;

	world_open(&w, 1, 8);
	ct = ct_new();
	cq = w.cq;
	assert_int_equal(trig_count(ct, 1, CASSINI_CT_SET, NULL, 1), -EINVAL);
	assert_int_equal(trig_count(ct, 1, CASSINI_CT_EVENT, ct, 1), -EINVAL); /* no EQ */
	assert_int_equal(trig_count(ct, 1, (enum cassini_ct_op)17, ct, 1), -EINVAL);
	attr.cp = w.cp;
	assert_int_equal(cassini_cmdq_open(&w.lni, &attr, &w.cq), 0);
	assert_int_equal(trig_event(ct, 1, 0), -EINVAL); /* has no triggers */
	assert_int_equal(cassini_eq_free(w.eq), 1);
	cassini_cmdq_close(w.cq);
	w.cq = cq;
	cmd = cmd_of(&w, CASSINI_OP_PUT, 0, 193, CASSINI_CMD_INLINE);
	assert_int_equal(cassini_post_trig(cq, ct, 1, &cmd), -EINVAL);
	mem_fail_nth(1);
	assert_int_equal(trig_put(ct, 1, 8, 0), -ENOMEM);
	mem_fail_nth(0);
	assert_int_equal(w.lni.used[CASSINI_RSRC_TLE], 0);
	cassini_ct_close(ct);
	world_close(&w);
}

static void trig_event__claims_its_slot(void **state)
{
	struct cassini_ct *ct;

	world_open(&w, 1, 8);
	ct = ct_new();
	assert_int_equal(trig_event(ct, 1, 1), 0);
	assert_int_equal(trig_event(ct, 1, 2), -EAGAIN);
	assert_int_equal(w.lni.used[CASSINI_RSRC_TLE], 1);
	cassini_ct_add(ct, 1, 0);
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 1);
	cassini_ct_close(ct);
	world_close(&w);
}

static void trig__limit_of_the_service(void **state)
{
	struct cassini_ct *ct;

	world_open(&w, 8, 8);
	w.lni.svc.max[CASSINI_RSRC_TLE] = 2;
	ct = ct_new();
	assert_int_equal(trig_event(ct, 1, 1), 0);
	assert_int_equal(trig_put(ct, 2, 8, 0), 0);
	assert_int_equal(trig_event(ct, 1, 3), -ENOSPC);
	assert_int_equal(trig_put(ct, 1, 8, 0), -ENOSPC);
	assert_int_equal(cassini_eq_free(w.eq), 7); /* the refused one claimed nothing */
	cassini_ct_add(ct, 1, 0);
	expect_event(&w, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK, 1);
	assert_int_equal(trig_event(ct, 9, 4), 0);
	cassini_ct_close(ct);
	assert_int_equal(w.nic.stats.triggered_cancelled, 2);
	world_close(&w);
}

static uint64_t g_told[8];
static unsigned g_told_cnt;

static void told(void *ctx, uint64_t user_ptr)
{
	assert_ptr_equal(ctx, &w);
	g_told[g_told_cnt++] = user_ptr;
}

static void ct_cancel__tells_and_forgets(void **state)
{
	struct cassini_ct *ct, *other;

	world_open(&w, 8, 8);
	ct = ct_new();
	other = ct_new();
	g_told_cnt = 0;
	assert_int_equal(trig_put(ct, 5, 16, 0), 0);
	assert_int_equal(trig_event(ct, 4, 77), 0);
	assert_int_equal(trig_event(other, 1, 88), 0);
	assert_int_equal(cassini_ct_cancel(ct, told, &w), 2);
	assert_int_equal(g_told_cnt, 2);
	assert_int_equal(g_told[0], 77);
	assert_int_equal(g_told[1], 16);
	assert_int_equal(cassini_ct_cancel(ct, NULL, NULL), 0);
	cassini_ct_add(ct, 100, 0);
	expect_none(&w);
	assert_int_equal(g_inifake.sents, 0);
	assert_int_equal(w.lni.used[CASSINI_RSRC_TLE], 1);
	cassini_ct_close(ct);
	cassini_ct_close(other);
	world_close(&w);
}

static void trig_put__goes_out_with_its_own_copy(void **state)
{
	struct cassini_cmd cmd;
	struct cassini_ct *ct;
	uint8_t want[32];

	world_open(&w, 8, 8);
	ct = ct_new();
	memcpy(want, w.mem, sizeof(want));
	cmd = cmd_of(&w, CASSINI_OP_PUT, 0, 32, CASSINI_CMD_INLINE);
	assert_int_equal(cassini_post_trig(w.cq, ct, 1, &cmd), 0);
	memset(w.mem, 0, 32);
	assert_int_equal(g_inifake.sents, 0);
	cassini_ct_add(ct, 1, 0);
	assert_int_equal(g_inifake.sents, 1);
	assert_memory_equal(g_inifake.sent[0].buf + CASSINI_PUT_HDR, want, 32);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 32);
	cassini_ct_close(ct);
	world_close(&w);
}

static void trig_put__by_the_count_of_another(void **state)
{
	struct cassini_cmd cmd;
	struct cassini_ct *ct;

	world_open(&w, 8, 1); /* a queue of one: the count comes when its place is free */
	ct = ct_new();
	assert_int_equal(trig_put(ct, 1, 8, 0), 0);
	cmd = cmd_of(&w, CASSINI_OP_PUT, 0, 16, CASSINI_CMD_CT_ACK);
	cmd.ct = ct;
	g_inifake.is_sync = true; /* inside of cassini_post() */
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_int_equal(g_inifake.sents, 2);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 16);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_true(cassini_cmdq_is_idle(w.cq));
	cassini_ct_close(ct);
	world_close(&w);
}

static void trig_put__waits_for_a_full_queue_in_order(void **state)
{
	struct cassini_ct *ct;

	world_open(&w, 16, 1);
	ct = ct_new();
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, 0), 0);
	for (uint32_t i = 2; i < 5; i++)
		assert_int_equal(trig_put(ct, 1, i, 0), 0);
	cassini_ct_add(ct, 1, 0);
	assert_int_equal(g_inifake.sents, 1);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(g_inifake.sents, i + 1);
		sent_end(i, 0);
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, i + 1);
		assert_int_equal(cassini_cmdq_kick(&w.dom), i < 3);
	}
	assert_int_equal(w.lni.used[CASSINI_RSRC_TLE], 0);
	/* and one that is still waiting when the queue closes */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, 0), 0);
	assert_int_equal(trig_put(ct, 1, 9, 0), 0);
	cassini_ct_close(ct);
	cassini_cmdq_close(w.cq);
	w.cq = NULL;
	sent_end(4, 0);
	assert_int_equal(w.lni.used[CASSINI_RSRC_TLE], 0);
	world_close(&w);
}

static void ct_close__commands_count_no_more(void **state)
{
	struct cassini_cmd cmd;
	struct cassini_ct *ct, *on;

	world_open(&w, 8, 8);
	ct = ct_new();
	on = ct_new();
	cmd = cmd_of(&w, CASSINI_OP_PUT, 0, 8, CASSINI_CMD_CT_ACK);
	cmd.ct = ct;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_int_equal(cassini_post_trig(w.cq, on, 1, &cmd), 0);
	assert_int_equal(trig_count(on, 1, CASSINI_CT_INC, ct, 1), 0);
	cassini_ct_close(ct);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	cassini_ct_add(on, 1, 0);
	sent_end(1, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	cassini_ct_close(on);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ct_add__saturates_and_writes_back),
		cmocka_unit_test(ct_open__limit_and_memory),
		cmocka_unit_test(ct_on_change__every_change),
		cmocka_unit_test(trig__fires_by_threshold_then_age),
		cmocka_unit_test(trig__order_is_that_of_a_model),
		cmocka_unit_test(trig__cascade_without_recursion),
		cmocka_unit_test(trig_set__overwrites_successes),
		cmocka_unit_test(trig_ct__refuses_nonsense),
		cmocka_unit_test(trig_event__claims_its_slot),
		cmocka_unit_test(trig__limit_of_the_service),
		cmocka_unit_test(ct_cancel__tells_and_forgets),
		cmocka_unit_test(trig_put__goes_out_with_its_own_copy),
		cmocka_unit_test(trig_put__by_the_count_of_another),
		cmocka_unit_test(trig_put__waits_for_a_full_queue_in_order),
		cmocka_unit_test(ct_close__commands_count_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
