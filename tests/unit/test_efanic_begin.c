// SPDX-License-Identifier: BSD-2-Clause
// SENDs in the adapter's own memory: silent when nobody asked, loud when they fail, sent again from their own bytes.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "efanic_fix.h"

/* @wr_id: 0, nobody is told. Return: 0; -ENOMEM. */
static int post(struct end *e, struct efanic_dst *dst, const char *text, uint64_t wr_id)
{
	uint8_t *buf = efanic_begin(e->qp, dst, (uint32_t)strlen(text), true);

	if (!buf)
		return -ENOMEM;
	memcpy(buf, text, strlen(text));
	efanic_commit(e->qp, dst, buf, (uint32_t)strlen(text), wr_id, true);
	return 0;
}

static void assert_data(const struct end *e, const char *text)
{
	assert_int_equal(last(e)->data_len, strlen(text));
	assert_memory_equal(last(e)->data, text, strlen(text));
}

static void commit__silent_or_by_wr_id(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_true(efanic_sq_is_empty(w.a.qp));
	assert_int_equal(post(&w.a, w.ab, "quiet", 0), 0);
	assert_false(efanic_sq_is_empty(w.a.qp));
	settle(&w);
	assert_int_equal(w.a.cnt, 0);
	assert_data(&w.b, "quiet");
	assert_true(efanic_sq_is_empty(w.a.qp));
	assert_int_equal(post(&w.a, w.ab, "told", 7), 0);
	settle(&w);
	expect(&w.a, 1, 7, EFANIC_OK);
	assert_data(&w.b, "told");
	world_close(&w);
}

static void commit__failure_in_a_slot_shows_the_bytes(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	g_fake.verdict = EFANIC_REMOTE_BAD_DEST_QPN;
	g_fake.verdict_cnt = 1;
	assert_int_equal(post(&w.a, w.ab, "lost", 0), 0);
	settle(&w);
	expect(&w.a, 1, 0, EFANIC_REMOTE_BAD_DEST_QPN);
	assert_data(&w.a, "lost");
	assert_ptr_equal(last(&w.a)->wc.src, w.ab);
	world_close(&w);
}

static void commit__not_ready_then_again(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(post(&w.a, w.ab, "patience", 0), 0);
	for (int i = 0; i < 3; i++) {
		settle(&w);
		g_fake.now_ns = fake_deadline();
	}
	assert_int_equal(w.b.cnt, 0);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 0);
	assert_data(&w.b, "patience");
	world_close(&w);
}

static void begin__full_and_foreign(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 16);
	assert_non_null(efanic_begin(w.a.qp, w.ab, EFANIC_OWN_MAX, true)); /* a slot that is not taken after all */
	assert_int_equal(efanic_sq_free(w.a.qp), 16);
	assert_null(efanic_begin(w.a.qp, w.ba, 1, true)); /* another queue pair's */
	assert_null(efanic_begin(w.a.qp, w.ab, EFANIC_OWN_MAX + 1, true));
	for (int i = 0; i < 16; i++)
		assert_int_equal(post(&w.a, w.ab, "x", 0), 0);
	assert_null(efanic_begin(w.a.qp, w.ab, 1, true));
	settle(&w);
	assert_int_equal(w.b.cnt, 16);
	world_close(&w);
}

/* --- where the link has room --- */

static void direct(struct end *e, struct efanic_dst *dst, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);
	uint8_t *buf = efanic_begin(e->qp, dst, len, true);

	assert_non_null(buf);
	assert_false(efanic_may_wait(e->qp, buf));
	memcpy(buf, text, len);
	efanic_commit(e->qp, dst, buf, len, 0, true);
}

static void begin__a_slot_where_something_is_in_the_way(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_null(efanic_begin(w.a.qp, w.ab, 1, false)); /* it would have to wait */
	assert_true(efanic_may_wait(w.a.qp, efanic_begin(w.a.qp, w.ab, 1, true))); /* no lane */
	g_fake.has_direct = true;
	assert_false(efanic_may_wait(w.a.qp, efanic_begin(w.a.qp, w.ab, 1, true)));
	assert_null(efanic_begin(w.a.qp, w.ab, EFANIC_MTU + 1, true));
	assert_null(efanic_begin(w.a.qp, w.ba, 1, true)); /* another queue pair's */
	direct(&w.a, w.ab, "straight");
	assert_false(efanic_sq_is_empty(w.a.qp));
	settle(&w);
	assert_int_equal(w.a.cnt, 0);
	assert_data(&w.b, "straight");
	assert_true(efanic_sq_is_empty(w.a.qp));
	world_close(&w);
}

/* In the link's memory as well: the slot that hears of the end has the bytes when they are refused. */
static void commit__told_by_a_slot(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 1);
	g_fake.has_direct = true;
	assert_int_equal(post(&w.a, w.ab, "told", 7), 0);
	assert_int_equal(efanic_sq_free(w.a.qp), 15);
	assert_int_equal(g_fake.directs, 1);
	settle(&w);
	expect(&w.a, 1, 7, EFANIC_OK);
	assert_data(&w.b, "told");
	assert_int_equal(post(&w.a, w.ab, "patience", 8), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 1);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), 0);
	g_fake.now_ns = fake_deadline();
	settle(&w);
	expect(&w.a, 2, 8, EFANIC_OK);
	assert_data(&w.b, "patience");
	g_fake.verdict = EFANIC_REMOTE_BAD_DEST_QPN;
	g_fake.verdict_cnt = 1;
	assert_int_equal(post(&w.a, w.ab, "lost", 9), 0);
	settle(&w);
	expect(&w.a, 3, 9, EFANIC_REMOTE_BAD_DEST_QPN);
	assert_data(&w.a, "lost");
	assert_ptr_equal(last(&w.a)->wc.src, w.ab);
	assert_true(efanic_sq_is_empty(w.a.qp));
	world_close(&w);
}

/* Behind others of its destination it takes its turn. */
static void begin__a_slot_behind_those_that_wait(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = UINT_MAX;
	assert_int_equal(post(&w.a, w.ab, "first", 7), 0);
	g_fake.has_direct = true;
	assert_true(efanic_may_wait(w.a.qp, efanic_begin(w.a.qp, w.ab, 6, true)));
	assert_int_equal(post(&w.a, w.ab, "second", 0), 0);
	assert_int_equal(efanic_sq_free(w.a.qp), 14);
	g_fake.send_rc_cnt = 0;
	settle(&w);
	expect(&w.a, 1, 7, EFANIC_OK);
	assert_int_equal(w.b.cnt, 2);
	assert_data(&w.b, "second");
	direct(&w.a, w.ab, "third");
	settle(&w);
	assert_data(&w.b, "third");
	world_close(&w);
}

/* Its address handle has gone: a completion says so, as for a work request. */
static void commit__without_address_handle(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	g_fake.has_direct = true;
	efanic_ah_close(w.nic, w.ahn);
	assert_int_equal(post(&w.a, w.ab, "nowhere", 0), 0);
	settle(&w);
	expect(&w.a, 1, 0, EFANIC_LOCAL_INVALID_AH);
	assert_data(&w.a, "nowhere");
	assert_int_equal(w.b.cnt, 0);
	assert_int_equal(efanic_ah_open(w.nic, efanic_attr(w.nic)->gid, &w.ahn), 0);
	world_close(&w);
}

/* A peer that refuses all of it: those that came back hold slots, and no more go out than there are slots for. */
static void begin__not_beside_a_queue_of_refused_ones(void **state)
{
	struct world w;
	uint32_t cnt = 0;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 0);
	g_fake.has_direct = true;
	for (; cnt < 10000 && efanic_begin(w.a.qp, w.ab, 4, true); cnt++) {
		direct(&w.a, w.ab, "once");
		if (cnt % 7 == 0)
			settle(&w);
	}
	assert_in_range(cnt, 16, 16 + 7);
	assert_int_equal(efanic_sq_free(w.a.qp), 0);
	world_close(&w);
}

static void commit__failure_shows_the_bytes(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	g_fake.has_direct = true;
	g_fake.verdict = EFANIC_REMOTE_BAD_DEST_QPN;
	g_fake.verdict_cnt = 1;
	direct(&w.a, w.ab, "lost");
	settle(&w);
	expect(&w.a, 1, 0, EFANIC_REMOTE_BAD_DEST_QPN);
	assert_data(&w.a, "lost");
	assert_ptr_equal(last(&w.a)->wc.src, w.ab);
	assert_true(efanic_sq_is_empty(w.a.qp));
	world_close(&w);
}

/* The send queue is full of others: what went past it still has its place when it comes back. */
static void commit__not_ready_behind_a_full_queue(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 0);
	g_fake.has_direct = true;
	for (int i = 0; i < 40; i++)
		direct(&w.a, w.ab, "patience");
	for (int i = 0; i < 16; i++)
		assert_int_equal(post(&w.a, w.ab, "patience", 0), 0);
	settle(&w);
	assert_int_equal(w.b.cnt, 0);
	assert_int_equal(efanic_sq_free(w.a.qp), 0);
	for (int i = 0; i < 20 && w.b.cnt < 56; i++) {
		assert_int_equal(efanic_post_recv_credits(w.b.qp, 16), 0);
		for (int k = 0; k < 3; k++) {
			settle(&w);
			g_fake.now_ns = fake_deadline() == UINT64_MAX ? g_fake.now_ns : fake_deadline();
		}
		settle(&w);
		if (w.b.cnt % 16)
			break;
	}
	assert_int_equal(w.a.cnt, 0);
	assert_int_equal(w.b.cnt, 56);
	assert_data(&w.b, "patience");
	assert_true(efanic_sq_is_empty(w.a.qp));
	world_close(&w);
}

/* --- more than a descriptor has room for: the link alone has it --- */

static const char *long_text(void)
{
	static char text[EFANIC_MTU + 1];

	for (uint32_t i = 0; i < EFANIC_MTU; i++)
		text[i] = (char)('a' + i % 23);
	return text;
}

/* A receiver that is not ready: the bytes are kept in memory of their own until it is. */
static void commit__long_and_not_ready(void **state)
{
	int64_t live;
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 0);
	g_fake.has_direct = true;
	live = mem_live_count();
	direct(&w.a, w.ab, long_text());
	for (int i = 0; i < 3; i++) {
		settle(&w);
		g_fake.now_ns = fake_deadline();
	}
	assert_int_equal(w.b.cnt, 0);
	assert_int_equal(mem_live_count(), live + 1);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 0);
	assert_data(&w.b, long_text());
	assert_int_equal(mem_live_count(), live);
	world_close(&w);
}

static void commit__failure_shows_the_bytes_of_a_long_one(void **state)
{
	int64_t live;
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	g_fake.has_direct = true;
	g_fake.verdict = EFANIC_REMOTE_BAD_DEST_QPN;
	g_fake.verdict_cnt = 2;
	live = mem_live_count();
	direct(&w.a, w.ab, long_text());
	settle(&w);
	expect(&w.a, 1, 0, EFANIC_REMOTE_BAD_DEST_QPN);
	assert_data(&w.a, long_text());
	assert_int_equal(mem_live_count(), live);
	direct(&w.a, w.ab, long_text());
	mem_fail_nth(1);
	settle(&w);
	mem_fail_nth(0);
	expect(&w.a, 2, 0, EFANIC_REMOTE_BAD_DEST_QPN);
	assert_int_equal(last(&w.a)->data_len, 0); /* no memory for them */
	assert_ptr_equal(last(&w.a)->wc.src, w.ab);
	assert_true(efanic_sq_is_empty(w.a.qp));
	world_close(&w);
}

/* The queue pair goes while one waits for its receiver. */
static void close__with_a_long_one_kept(void **state)
{
	int64_t live = mem_live_count();
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 0);
	g_fake.has_direct = true;
	direct(&w.a, w.ab, long_text());
	settle(&w);
	world_close(&w);
	assert_int_equal(mem_live_count(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commit__silent_or_by_wr_id),
		cmocka_unit_test(commit__failure_in_a_slot_shows_the_bytes),
		cmocka_unit_test(commit__not_ready_then_again),
		cmocka_unit_test(begin__full_and_foreign),
		cmocka_unit_test(begin__a_slot_where_something_is_in_the_way),
		cmocka_unit_test(commit__told_by_a_slot),
		cmocka_unit_test(begin__a_slot_behind_those_that_wait),
		cmocka_unit_test(commit__without_address_handle),
		cmocka_unit_test(begin__not_beside_a_queue_of_refused_ones),
		cmocka_unit_test(commit__failure_shows_the_bytes),
		cmocka_unit_test(commit__not_ready_behind_a_full_queue),
		cmocka_unit_test(commit__long_and_not_ready),
		cmocka_unit_test(commit__failure_shows_the_bytes_of_a_long_one),
		cmocka_unit_test(close__with_a_long_one_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
