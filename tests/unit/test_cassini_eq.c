// SPDX-License-Identifier: BSD-2-Clause
// Event queues: room, claims, the slots of flow control, loss.
#include "cassini_inifake.h"

static const struct cassini_event g_ev = {.type = CASSINI_EV_PUT, .rc = CASSINI_RC_OK, .user_ptr = 1};
static const struct cassini_event g_fc = {.type = CASSINI_EV_STATE_CHANGE, .rc = CASSINI_RC_OK, .user_ptr = 2};

static void eq_open__refuses_sizes(void **state)
{
	struct cassini_eq *eq = NULL;
	static struct world w;

	world_open(&w, 8, 8);
	assert_int_equal(cassini_eq_open(&w.lni, 0, 0, &eq), -EINVAL);
	assert_int_equal(cassini_eq_open(&w.lni, (1u << 24) + 1, 0, &eq), -EINVAL);
	assert_int_equal(cassini_eq_open(&w.lni, 4, 4, &eq), -EINVAL);
	assert_null(eq);
	assert_int_equal(w.lni.used[CASSINI_RSRC_EQ], 1);
	world_close(&w);
}

static void eq_open__limit_and_memory(void **state)
{
	struct cassini_eq *eq = NULL;
	static struct world w;

	world_open(&w, 8, 8);
	w.lni.svc.max[CASSINI_RSRC_EQ] = 1;
	assert_int_equal(cassini_eq_open(&w.lni, 4, 0, &eq), -ENOSPC);
	w.lni.svc.max[CASSINI_RSRC_EQ] = 2;
	for (unsigned n = 1; n <= 2; n++) {
		mem_fail_nth(n);
		assert_int_equal(cassini_eq_open(&w.lni, 4, 0, &eq), -ENOMEM);
		assert_int_equal(w.lni.used[CASSINI_RSRC_EQ], 1);
	}
	mem_fail_nth(0);
	assert_int_equal(cassini_eq_open(&w.lni, 4, 0, &eq), 0);
	cassini_eq_close(eq);
	cassini_eq_close(NULL);
	world_close(&w);
}

static void eq_push__order_wrap_and_loss(void **state)
{
	struct cassini_event ev = g_ev;
	static struct world w;

	world_open(&w, 5, 8); /* no power of two */
	for (int round = 0; round < 4; round++) {
		w.eq->rd = w.eq->wr = UINT32_MAX - (uint32_t)round; /* the indices wrap */
		for (unsigned i = 0; i < 5; i++) {
			ev.user_ptr = i;
			assert_int_equal(cassini_eq_free(w.eq), 5 - i);
			assert_true(cassini_eq_has_room(w.eq, 5 - i));
			assert_false(cassini_eq_has_room(w.eq, 6 - i));
			assert_true(cassini_eq_push(w.eq, &ev, false));
		}
		assert_false(cassini_eq_push(w.eq, &ev, false));
		assert_int_equal(cassini_eq_dropped(w.eq), round + 1);
		for (unsigned i = 0; i < 5; i++)
			expect_event(&w, CASSINI_EV_PUT, CASSINI_RC_OK, i);
		expect_none(&w);
	}
	assert_int_equal(w.nic.stats.events_dropped, 4);
	world_close(&w);
}

/* So that a reader who keeps up touches one slot only, not megabytes of ring. */
static void eq_pop__empty_ring_begins_anew(void **state)
{
	const struct cassini_event *first;
	static struct world w;

	world_open(&w, 8, 8);
	assert_true(cassini_eq_push(w.eq, &g_ev, false));
	first = cassini_eq_peek(w.eq);
	for (unsigned i = 0; i < 20; i++) {
		assert_ptr_equal(cassini_eq_peek(w.eq), first);
		cassini_eq_pop(w.eq);
		assert_null(cassini_eq_peek(w.eq));
		assert_true(cassini_eq_push(w.eq, &g_ev, false));
	}
	assert_true(cassini_eq_push(w.eq, &g_ev, false)); /* not empty in between: the next slot */
	cassini_eq_pop(w.eq);
	assert_ptr_equal(cassini_eq_peek(w.eq), first + 1);
	cassini_eq_pop(w.eq);
	world_close(&w);
}

static void eq_claim__keeps_its_slot(void **state)
{
	static struct world w;

	world_open(&w, 3, 8);
	assert_int_equal(cassini_eq_claim(w.eq), 0);
	assert_int_equal(cassini_eq_claim(w.eq), 0);
	assert_true(cassini_eq_push(w.eq, &g_ev, false));
	assert_false(cassini_eq_push(w.eq, &g_ev, false));
	assert_int_equal(cassini_eq_claim(w.eq), -EAGAIN);
	assert_true(cassini_eq_push(w.eq, &g_ev, true));
	*cassini_eq_slot(w.eq) = g_ev;
	assert_int_equal(cassini_eq_free(w.eq), 0);
	for (int i = 0; i < 3; i++)
		expect_event(&w, CASSINI_EV_PUT, CASSINI_RC_OK, 1);
	assert_int_equal(cassini_eq_claim(w.eq), 0);
	assert_int_equal(cassini_eq_free(w.eq), 2);
	cassini_eq_unclaim(w.eq);
	assert_int_equal(cassini_eq_free(w.eq), 3);
	world_close(&w);
}

static void eq_push_fc__has_slots_of_its_own(void **state)
{
	struct cassini_eq *all;
	static struct world w;

	world_open(&w, 8, 8);
	all = w.eq;
	assert_int_equal(cassini_eq_open(&w.lni, 4, 2, &w.eq), 0);
	assert_int_equal(cassini_eq_claim(w.eq), 0);
	assert_true(cassini_eq_push(w.eq, &g_ev, false));
	assert_false(cassini_eq_push(w.eq, &g_ev, false));
	assert_int_equal(cassini_eq_claim(w.eq), -EAGAIN);
	assert_true(cassini_eq_push_fc(w.eq, &g_fc));
	assert_true(cassini_eq_push_fc(w.eq, &g_fc));
	assert_false(cassini_eq_push_fc(w.eq, &g_fc)); /* the claim is not its */
	assert_int_equal(cassini_eq_free(w.eq), 0);
	assert_true(cassini_eq_push(w.eq, &g_ev, true));
	expect_event(&w, CASSINI_EV_PUT, CASSINI_RC_OK, 1);
	expect_event(&w, CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK, 2);
	expect_event(&w, CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK, 2);
	expect_event(&w, CASSINI_EV_PUT, CASSINI_RC_OK, 1);
	assert_int_equal(cassini_eq_free(w.eq), 2);
	cassini_eq_close(w.eq);
	w.eq = all;
	world_close(&w);
}

/* Those that have events are known, each once, until the last event is taken; who closes with events leaves none. */
static void eq_ready__until_the_last(void **state)
{
	struct cassini_eq *other = NULL;
	static struct world w;

	(void)state;
	world_open(&w, 8, 8);
	assert_int_equal(cassini_eq_open(&w.lni, 4, 1, &other), 0);
	assert_null(cassini_eq_ready(&w.lni));
	for (int round = 0; round < 3; round++) {
		assert_true(cassini_eq_push(w.eq, &g_ev, false));
		assert_true(cassini_eq_push(w.eq, &g_ev, false));
		assert_true(cassini_eq_push_fc(other, &g_fc));
		for (int n = 3; n; n--) {
			assert_non_null(cassini_eq_ready(&w.lni));
			cassini_eq_pop(cassini_eq_ready(&w.lni));
		}
		assert_null(cassini_eq_ready(&w.lni));
	}
	assert_int_equal(cassini_eq_claim(w.eq), 0);
	*cassini_eq_slot(w.eq) = g_ev;
	assert_ptr_equal(cassini_eq_ready(&w.lni), w.eq);
	assert_true(cassini_eq_push(other, &g_ev, false));
	cassini_eq_close(other);
	assert_ptr_equal(cassini_eq_ready(&w.lni), w.eq);
	cassini_eq_pop(w.eq);
	assert_null(cassini_eq_ready(&w.lni));
	world_close(&w);
}

static void eq__null_takes_everything(void **state)
{
	assert_int_equal(cassini_eq_claim(NULL), 0);
	cassini_eq_unclaim(NULL);
	assert_true(cassini_eq_push(NULL, &g_ev, true));
	assert_true(cassini_eq_push_fc(NULL, &g_fc));
	assert_true(cassini_eq_has_room(NULL, UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eq_open__refuses_sizes),
		cmocka_unit_test(eq_open__limit_and_memory),
		cmocka_unit_test(eq_push__order_wrap_and_loss),
		cmocka_unit_test(eq_pop__empty_ring_begins_anew),
		cmocka_unit_test(eq_ready__until_the_last),
		cmocka_unit_test(eq_claim__keeps_its_slot),
		cmocka_unit_test(eq_push_fc__has_slots_of_its_own),
		cmocka_unit_test(eq__null_takes_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
