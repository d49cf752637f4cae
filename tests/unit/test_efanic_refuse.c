// SPDX-License-Identifier: BSD-2-Clause
// Packets that the provider does not take after all, and those that it looks at before they are reported.
#include <errno.h>

#include "efanic_fix.h"

static uint8_t g_byte = 1;
static unsigned g_refusals_left;
static uint16_t g_peek_from;
static struct efanic_qp *g_peek_at;

static void refuse_some(struct end *e, const struct efanic_wc *wc)
{
	if (wc->opcode == EFANIC_OP_RECV && wc->data.len == 1) {
		g_refusals_left -= g_refusals_left && efanic_refuse(e->qp);
		efanic_post_recv_credits(e->qp, 1);
	}
}

/* A packet that the handler does not want ends like one without a receive: the sender tries again. */
static void refuse__by_the_handler(void **state)
{
	struct efanic_stats stats;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 2);
	w.b.hook = refuse_some;
	g_refusals_left = 2;
	assert_int_equal(send_to(&w.a, w.ab, 7, &g_byte, 1), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 0);
	g_fake.now_ns += EFANIC_RNR_NS_MAX;
	settle(&w);
	g_fake.now_ns += EFANIC_RNR_NS_MAX;
	settle(&w);
	assert_int_equal(g_refusals_left, 0);
	expect(&w.a, 1, 7, EFANIC_OK);
	efanic_qp_query_stats(w.b.qp, &stats);
	assert_int_equal(stats.recv_wrs, 1);
	assert_int_equal(stats.recv_bytes, 1);
	assert_int_equal(stats.rnr_naks_tx, 2);
	assert_int_equal(w.b.qp->credits, 2);
	world_close(&w);
}

/* What was accepted while nobody polled cannot be refused any more. */
static void refuse__too_late(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 2);
	w.b.hook = refuse_some;
	g_refusals_left = 1;
	assert_int_equal(send_to(&w.a, w.ab, 7, &g_byte, 1), 0);
	link_poll(w.b.qp->port); /* as the adapter thread does */
	settle(&w);
	assert_int_equal(g_refusals_left, 1);
	assert_int_equal(w.b.cnt, 1);
	expect(&w.a, 1, 7, EFANIC_OK);
	world_close(&w);
}

static void count_peeked(void *ctx, const struct efanic_wc *wc)
{
	assert_int_equal(wc->opcode, EFANIC_OP_RECV);
	assert_int_equal(wc->data.len, 1);
	assert_int_equal(wc->src_qpn, g_peek_from);
	assert_false(efanic_refuse(g_peek_at)); /* it was accepted */
	++*(unsigned *)ctx;
}

/* What waits is shown once, and reported all the same. */
static void peek__shows_each_packet_once(void **state)
{
	unsigned seen = 0;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 4);
	g_peek_from = efanic_qp_qpn(w.a.qp);
	g_peek_at = w.b.qp;
	efanic_peek(w.b.qp, count_peeked, &seen);
	assert_int_equal(seen, 0);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
		efanic_doorbell(w.a.qp);
		efanic_serve(w.nic);
		efanic_peek(w.b.qp, count_peeked, &seen);
		efanic_peek(w.b.qp, count_peeked, &seen);
		assert_int_equal(seen, i + 1);
	}
	assert_int_equal(w.b.cnt, 0);
	settle(&w);
	assert_int_equal(w.b.cnt, 3);
	efanic_peek(w.b.qp, count_peeked, &seen);
	assert_int_equal(seen, 3);
	world_close(&w);
}

/* Queue pair b, that takes unsolicited writes and has posted buffers; and the frame of such a write. */
static size_t unsolicited_open(struct world *w, uint8_t frame[EFANIC_HDR_MAX])
{
	struct efanic_qp_attr attr;

	world_open(w, NULL);
	pair_attr(&attr, QKEY_B);
	attr.unsolicited_write_recv = true;
	attr.posted_buffers = true;
	end_open(w, &w->b, &attr, EFANIC_RNR_INFINITE, 0);
	return efanic_pkt_encode(EFANIC_PKT_WRITE_IMM, QKEY_B, 5, 1000, frame);
}

/* They take no receive, so that nothing else bounds what a peer may leave with who does not poll. */
static void unsolicited__only_so_many_wait(void **state)
{
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	struct efanic_stats stats;
	struct world w;
	size_t len;

	len = unsolicited_open(&w, frame);
	fake_write(w.b.qp->port, (2 * EFANIC_UNSOLICITED_MAX + 1) * 1000ULL);
	for (unsigned round = 1; round <= 2; round++) {
		for (unsigned i = 0; i < EFANIC_UNSOLICITED_MAX; i++)
			assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
		assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), EFANIC_REMOTE_RNR);
		efanic_qp_query_stats(w.b.qp, &stats);
		assert_int_equal(stats.rnr_naks_tx, round);
		settle(&w);
		assert_int_equal(w.b.cnt, round * EFANIC_UNSOLICITED_MAX);
	}
	world_close(&w);
}

/* What was written before the end is told: its sender knows that it arrived. */
static void unsolicited__told_after_an_error(void **state)
{
	struct efanic_qp_mod mod = {.state = EFANIC_QPS_ERR};
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	struct world w;
	size_t len;

	len = unsolicited_open(&w, frame);
	fake_write(w.b.qp->port, 1000);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_int_equal(efanic_qp_modify(w.b.qp, &mod, EFANIC_QPA_STATE), 0);
	settle(&w);
	expect(&w.b, 1, 0, EFANIC_OK);
	assert_true(last(&w.b)->wc.unsolicited);
	mod.state = EFANIC_QPS_RESET;
	assert_int_equal(efanic_qp_modify(w.b.qp, &mod, EFANIC_QPA_STATE), 0);
	assert_int_equal(w.b.cnt, 1);
	world_close(&w);
}

/*
 * The process behind a Q_Key goes, and another one has its place and its key: what the first one has refused for want
 * of a receive, and a write whose data it has, are not for the second one.
 */
static void gone__retries_are_not_for_the_next_one(void **state)
{
	static const struct {
		int how, want;
	} row[] = {{-ECONNREFUSED, EFANIC_REMOTE_ABORT}, {-ETIMEDOUT, EFANIC_LOCAL_UNRESP_REMOTE}};
	static uint8_t mine[64], theirs[64];
	struct efanic_mr_attr attr = {theirs, sizeof(theirs), EFANIC_ACCESS_REMOTE_WRITE};
	struct efanic_wr wr = {.wr_id = 2, .opcode = EFANIC_OP_WRITE, .sge_cnt = 1, .has_imm = true};
	struct efanic_mr *mr;
	struct world w;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		world_open(&w, NULL);
		pair_open(&w, 0);
		assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr), 0);
		wr.dst = w.ab;
		wr.sge[0] = (struct efanic_sge){mine, sizeof(mine), EFANIC_LKEY_INTERNAL};
		wr.raddr = (uintptr_t)theirs;
		wr.rkey = efanic_mr_rkey(mr);
		assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
		assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
		settle(&w);
		assert_int_equal(w.a.cnt, 0); /* both were refused */
		fake_gone(w.a.qp->port, link_port_addr(w.b.qp->port), row[i].how);
		assert_int_equal(efanic_post_recv_credits(w.b.qp, 4), 0);
		g_fake.now_ns += EFANIC_RNR_NS_MAX;
		settle(&w);
		expect(&w.a, 2, last(&w.a)->wc.wr_id, row[i].want);
		assert_int_equal(w.a.seen[0].wc.status, row[i].want);
		assert_int_equal(w.b.cnt, 0);
		/* what was written while it went is not announced either; what is posted now is for the next one */
		g_fake.hold = true;
		assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
		fake_gone(w.a.qp->port, link_port_addr(w.b.qp->port), row[i].how);
		g_fake.hold = false;
		assert_int_equal(send_to(&w.a, w.ab, 3, &g_byte, 1), 0);
		settle(&w);
		assert_int_equal(w.a.cnt, 4);
		for (int k = 2; k < 4; k++)
			assert_int_equal(w.a.seen[k].wc.status,
					 w.a.seen[k].wc.wr_id == 3 ? EFANIC_OK : (enum efanic_status)row[i].want);
		expect(&w.b, 1, 0, EFANIC_OK);
		assert_int_equal(last(&w.b)->wc.opcode, EFANIC_OP_RECV);
		efanic_mr_dereg(mr);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuse__by_the_handler),
		cmocka_unit_test(refuse__too_late),
		cmocka_unit_test(peek__shows_each_packet_once),
		cmocka_unit_test(unsolicited__only_so_many_wait),
		cmocka_unit_test(unsolicited__told_after_an_error),
		cmocka_unit_test(gone__retries_are_not_for_the_next_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
