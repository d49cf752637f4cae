// SPDX-License-Identifier: BSD-2-Clause
// Rendezvous between hosts whose data do not wait for CTS: taken by a receive that is posted, let go by otherwise; and
// to the sender it is a rendezvous all the same.
#include <string.h>

#include "base/clock.h"
#include "opx_world.h"

#define LEN 20000u

static struct world w;
static uint8_t g_src[LEN], g_dst[LEN];

static uint64_t end_ns(void)
{
	return clk_now_ns(NULL) + 20 * NS_PER_SEC * unit_slow();
}

static void open_far(unsigned how)
{
	world_open(&w, WORLD_UDP | how);
	for (uint32_t i = 0; i < LEN; i++)
		g_src[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(g_dst, 0, LEN);
}

static void send_one(void)
{
	assert_int_equal(fi_tsend(w.ep[1], g_src, LEN, NULL, w.to[0], 5, g_src), 0);
}

static void recv_one(size_t len)
{
	assert_int_equal(fi_trecv(w.ep[0], g_dst, len, NULL, w.to[1], 5, 0, g_dst), 0);
}

/* One end of one operation. Return: as world_poll(). */
static int finish(int ep, struct fi_cq_err_entry *err)
{
	uint64_t end = end_ns();
	void *ctx;
	int rc;

	while (!(rc = world_poll(&w, ep, &ctx, err)) && clk_now_ns(NULL) < end)
		fi_cq_read(w.cq[!ep], NULL, 0);
	return rc;
}

static void both_finish(void)
{
	struct fi_cq_err_entry err;

	assert_int_equal(finish(0, &err), 1);
	assert_int_equal(finish(1, &err), 1);
	assert_memory_equal(g_dst, g_src, LEN);
}

static void run_until(const uint64_t *stat, uint64_t value)
{
	uint64_t end = end_ns();

	while (*stat < value && clk_now_ns(NULL) < end)
		world_run(&w, 1);
	assert_int_equal(*stat, value);
}

static void ahead__is_taken(void **state)
{
	const struct opx_stats *tx, *rx;

	open_far(0);
	tx = &world_ep(&w, 1)->stats;
	rx = &world_ep(&w, 0)->stats;
	for (uint64_t n = 1; n < 4; n++) {
		memset(g_dst, 0, LEN);
		recv_one(LEN);
		send_one();
		both_finish();
		assert_int_equal(tx->tx_ahead, n);
		assert_int_equal(rx->rx_ahead, n);
		/* memory that packets refer to is the user's again; the operation has ended with that */
		world_run(&w, 20);
	}
	assert_int_equal(tx->tx_rzv, 3);
	assert_int_equal(rx->rx_malformed + rx->rx_stale + tx->rx_malformed + tx->rx_stale, 0);
	world_close(&w);
}

/* As with any rendezvous: a send has not ended before a receive has taken the message. */
static void ahead__goes_by(void **state)
{
	const struct opx_stats *tx, *rx;
	struct fi_cq_err_entry err;
	void *ctx;

	open_far(0);
	tx = &world_ep(&w, 1)->stats;
	rx = &world_ep(&w, 0)->stats;
	send_one();
	run_until(&rx->rx_unexpected, 1);
	world_run(&w, 50);
	assert_int_equal(tx->tx_ahead, 1);
	assert_int_equal(rx->rx_ahead, 0);
	assert_int_equal(world_poll(&w, 1, &ctx, &err), 0);
	recv_one(LEN);
	both_finish();
	assert_int_equal(rx->rx_malformed + rx->rx_stale + tx->rx_malformed + tx->rx_stale, 0);
	world_run(&w, 50);
	/* the next two wait for CTS, and that after them does not */
	for (int n = 0; n < 3; n++) {
		memset(g_dst, 0, LEN);
		recv_one(LEN);
		send_one();
		both_finish();
		assert_int_equal(tx->tx_ahead, n < 2 ? 1 : 2);
		world_run(&w, 50);
	}
	world_close(&w);
}

static void ahead__is_more_than_fits(void **state)
{
	struct fi_cq_err_entry err;

	open_far(0);
	recv_one(LEN - 1000);
	send_one();
	assert_int_equal(finish(0, &err), -1);
	assert_int_equal(err.err, FI_ETRUNC);
	assert_int_equal(err.olen, 1000);
	assert_int_equal(finish(1, &err), 1);
	assert_memory_equal(g_dst, g_src, LEN - 1000);
	assert_int_equal(g_dst[LEN - 1000], 0);
	assert_int_equal(world_ep(&w, 0)->stats.rx_ahead, 0);
	world_close(&w);
}

/* Who programs its buffers for expected packets says CTS. */
static void ahead__to_expected_receive(void **state)
{
	open_far(WORLD_TID);
	recv_one(LEN);
	send_one();
	both_finish();
	assert_int_equal(world_ep(&w, 1)->stats.tx_ahead, 1);
	assert_int_equal(world_ep(&w, 0)->stats.rx_ahead, 0);
	world_close(&w);
}

/* Where more is on its way already nothing is sent that may be in vain. */
static void ahead__only_one(void **state)
{
	struct fi_cq_err_entry err;

	open_far(0);
	for (int i = 0; i < 8; i++)
		recv_one(LEN);
	for (int i = 0; i < 8; i++)
		send_one();
	assert_int_equal(world_ep(&w, 1)->stats.tx_ahead, 1);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(finish(0, &err), 1);
		assert_int_equal(finish(1, &err), 1);
	}
	assert_memory_equal(g_dst, g_src, LEN);
	world_close(&w);
}

/* --- packets that no honest peer sends ----------------------------------------------------------- */

static bool take(const struct hfi_hdr *h, const void *data, uint32_t len)
{
	struct view v = view_of(data, len);

	return world_take(&w, h, &v, HFI_RCV_EAGER);
}

static struct hfi_hdr rts(uint32_t handle, uint64_t flags)
{
	struct hfi_hdr h = world_hdr(&w, OPX_TAG_RZV_RTS, 0, 0);

	h.w[0] = le64_put(LEN);
	h.w[1] = le64_put(handle | flags << 32);
	h.tag = le64_put(5);
	return h;
}

static struct hfi_hdr data_at(uint64_t handle, uint64_t off)
{
	struct hfi_hdr h = world_hdr(&w, OPX_RZV_DATA, OPX_SUB_AHEAD, 0);

	h.w[0] = le64_put(off);
	h.w[1] = le64_put(handle);
	return h;
}

static void ahead__flags_that_lie(void **state)
{
	struct opx_piece piece = {.len = le64_put(LEN)};
	struct hfi_hdr h;

	open_far(0);
	recv_one(LEN);
	h = rts(1, OPX_RTS_AHEAD);
	assert_false(take(&h, NULL, 0));
	h = rts(1, OPX_RTS_AHEAD | OPX_RTS_DONE | OPX_RTS_LOCAL);
	assert_false(take(&h, &piece, sizeof(piece)));
	h = rts(1, OPX_RTS_DONE | 8);
	assert_false(take(&h, NULL, 0));
	h = data_at(1, 0);
	assert_false(take(&h, NULL, 0));
	world_close(&w);
}

static void ahead__gap_and_overlap(void **state)
{
	static const uint64_t off[] = {0, 1001, 999, LEN, LEN - 10, UINT64_MAX - 1000};
	static uint8_t bytes[1000];
	const struct opx_stats *rx;
	struct fi_cq_err_entry err;
	struct hfi_hdr h;

	open_far(0);
	rx = &world_ep(&w, 0)->stats;
	memset(bytes, 0xee, sizeof(bytes));
	h = data_at(77, 0); /* nobody has heard of it: it goes by */
	assert_true(take(&h, bytes, sizeof(bytes)));
	recv_one(LEN);
	recv_one(LEN);
	h = rts(77, OPX_RTS_AHEAD | OPX_RTS_DONE);
	assert_true(take(&h, NULL, 0));
	h = rts(78, OPX_RTS_AHEAD | OPX_RTS_DONE); /* a second one at once: this one is asked for */
	assert_true(take(&h, NULL, 0));
	assert_int_equal(rx->rx_ahead, 1);
	h = data_at(78, 0);
	assert_true(take(&h, bytes, sizeof(bytes)));
	h = data_at(77 | 1ULL << 32, 0); /* no handle */
	assert_true(take(&h, bytes, sizeof(bytes)));
	assert_int_equal(g_dst[0], 0);
	h = data_at(77, 0);
	assert_true(take(&h, bytes, sizeof(bytes)));
	assert_int_equal(g_dst[999], 0xee);
	assert_int_equal(rx->rx_malformed, 0);
	for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
		h = data_at(77, off[i]);
		assert_true(take(&h, bytes, sizeof(bytes)));
		assert_int_equal(rx->rx_malformed, i + 1);
	}
	assert_int_equal(g_dst[1000] | g_dst[LEN - 1], 0);
	h = data_at(77, 0);
	assert_false(world_take(&w, &h, &(struct view){0}, HFI_RCV_EXPECTED));
	for (uint64_t at = 1000; at < LEN; at += 1000) {
		h = data_at(77, at);
		assert_true(take(&h, bytes, sizeof(bytes)));
	}
	assert_int_equal(finish(0, &err), 1);
	h = data_at(77, 0); /* it has ended */
	assert_true(take(&h, bytes, sizeof(bytes)));
	world_close(&w);
}

/* A receiver asks again for what was sent ahead once, and in its answer for no more than there is. */
static void ahead__cts_twice(void **state)
{
	const struct opx_stats *rx;
	struct opx_op *op;
	struct hfi_hdr h;

	open_far(0);
	rx = &world_ep(&w, 0)->stats;
	assert_int_equal(fi_tsend(w.ep[0], g_src, LEN, NULL, w.to[1], 5, g_src), 0);
	op = LIST_FIRST(&world_peer(&w, 1)->ops);
	assert_true(op->is_ahead && op->is_posted);
	h = world_hdr(&w, OPX_RZV_CTS, OPX_SUB_RZV, 0);
	h.w[0] = le64_put(opx_op_handle(op));
	h.tag = le64_put(LEN + 1);
	assert_true(take(&h, NULL, 0));
	assert_int_equal(rx->rx_malformed, 1);
	h.tag = le64_put(LEN - 1);
	assert_true(take(&h, NULL, 0));
	assert_int_equal(rx->rx_malformed, 1);
	assert_false(op->is_ahead);
	assert_int_equal(op->sent, LEN - 1);
	assert_true(take(&h, NULL, 0));
	assert_int_equal(rx->rx_malformed, 2);
	assert_int_equal(world_peer(&w, 1)->ahead.skip, 2);
	world_close(&w);
}

/* The sender dies, or its peer takes it for dead, with half of it there. */
static void ahead__half_of_it(void **state)
{
	static uint8_t bytes[1000];
	struct fi_cq_err_entry err;
	struct hfi_hdr h;

	open_far(0);
	recv_one(LEN);
	h = rts(77, OPX_RTS_AHEAD | OPX_RTS_DONE);
	assert_true(take(&h, NULL, 0));
	h = data_at(77, 0);
	assert_true(take(&h, bytes, sizeof(bytes)));
	lock_acquire(&world_ep(&w, 0)->domain->kit.lock);
	opx_flow_doom(&world_peer(&w, 1)->flow, OPX_ST_PEER_GONE);
	lock_release(&world_ep(&w, 0)->domain->kit.lock);
	assert_int_equal(finish(0, &err), -1);
	assert_null(world_peer(&w, 1)->ahead_in);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ahead__is_taken),
		cmocka_unit_test(ahead__goes_by),
		cmocka_unit_test(ahead__is_more_than_fits),
		cmocka_unit_test(ahead__to_expected_receive),
		cmocka_unit_test(ahead__only_one),
		cmocka_unit_test(ahead__flags_that_lie),
		cmocka_unit_test(ahead__gap_and_overlap),
		cmocka_unit_test(ahead__cts_twice),
		cmocka_unit_test(ahead__half_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
