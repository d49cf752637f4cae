// SPDX-License-Identifier: BSD-2-Clause
// Inline SENDs: silent when nobody asked, loud when they fail, and sent again from the descriptor's own bytes.
#include <errno.h>
#include <string.h>

#include "efanic_fix.h"

static int post(struct end *e, struct efanic_dst *dst, const char *text, uint64_t wr_id)
{
	uint8_t *buf = efanic_inline_buf(e->qp);

	if (!buf)
		return -ENOMEM;
	memcpy(buf, text, strlen(text));
	return efanic_post_inline(e->qp, dst, (uint32_t)strlen(text), wr_id);
}

static void assert_data(const struct end *e, const char *text)
{
	assert_int_equal(last(e)->data_len, strlen(text));
	assert_memory_equal(last(e)->data, text, strlen(text));
}

static void post_inline__silent_or_by_wr_id(void **state)
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

static void post_inline__failure_shows_the_bytes(void **state)
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

static void post_inline__not_ready_then_again(void **state)
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

static void post_inline__full_and_foreign(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 16);
	assert_non_null(efanic_inline_buf(w.a.qp));
	assert_int_equal(efanic_post_inline(w.a.qp, w.ba, 1, 0), -EINVAL); /* another queue pair's */
	assert_int_equal(efanic_post_inline(w.a.qp, w.ab, EFANIC_INLINE_MAX + 1, 0), -EINVAL);
	for (int i = 0; i < 16; i++)
		assert_int_equal(post(&w.a, w.ab, "x", 0), 0);
	assert_null(efanic_inline_buf(w.a.qp));
	settle(&w);
	assert_int_equal(w.b.cnt, 16);
	world_close(&w);
}

/* --- direct ones, past the send queue --- */

static void direct(struct end *e, struct efanic_dst *dst, const char *text)
{
	uint8_t *buf = efanic_direct_buf(e->qp, dst, (uint32_t)strlen(text));

	assert_non_null(buf);
	memcpy(buf, text, strlen(text));
	efanic_direct_send(e->qp, dst, buf, (uint32_t)strlen(text));
}

static void direct_buf__only_where_nothing_is_in_the_way(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_null(efanic_direct_buf(w.a.qp, w.ab, 1)); /* no lane */
	g_fake.has_direct = true;
	assert_non_null(efanic_direct_buf(w.a.qp, w.ab, 1));
	assert_null(efanic_direct_buf(w.a.qp, w.ab, EFANIC_INLINE_MAX + 1));
	assert_null(efanic_direct_buf(w.a.qp, w.ba, 1)); /* another queue pair's */
	direct(&w.a, w.ab, "straight");
	assert_false(efanic_sq_is_empty(w.a.qp));
	settle(&w);
	assert_int_equal(w.a.cnt, 0);
	assert_data(&w.b, "straight");
	assert_true(efanic_sq_is_empty(w.a.qp));
	world_close(&w);
}

/* A peer that refuses all of it: those that came back hold slots, and no more go out than there are slots for. */
static void direct_buf__not_beside_a_queue_of_refused_ones(void **state)
{
	struct world w;
	uint32_t cnt = 0;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 0);
	g_fake.has_direct = true;
	for (; cnt < 10000 && efanic_direct_buf(w.a.qp, w.ab, 4); cnt++) {
		direct(&w.a, w.ab, "once");
		if (cnt % 7 == 0)
			settle(&w);
	}
	assert_in_range(cnt, 16, 16 + 7);
	assert_int_equal(efanic_sq_free(w.a.qp), 0);
	world_close(&w);
}

static void direct_send__failure_shows_the_bytes(void **state)
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
static void direct_send__not_ready_behind_a_full_queue(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(post_inline__silent_or_by_wr_id),
		cmocka_unit_test(post_inline__failure_shows_the_bytes),
		cmocka_unit_test(post_inline__not_ready_then_again),
		cmocka_unit_test(post_inline__full_and_foreign),
		cmocka_unit_test(direct_buf__only_where_nothing_is_in_the_way),
		cmocka_unit_test(direct_buf__not_beside_a_queue_of_refused_ones),
		cmocka_unit_test(direct_send__failure_shows_the_bytes),
		cmocka_unit_test(direct_send__not_ready_behind_a_full_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
