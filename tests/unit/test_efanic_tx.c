// SPDX-License-Identifier: BSD-2-Clause
// Work requests: every completion status provoked, RNR in virtual time, waiting lines, RDMA,
// limits.
#include "efanic_fix.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define EVER UINT32_MAX

static char g_byte = 42;

static void post_send__success(void **state)
{
	struct world w;
	char msg[] = "hello";

	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_int_equal(send_to(&w.a, w.ab, 7, msg, sizeof(msg)), 0);
	efanic_doorbell(w.a.qp);
	assert_int_equal(g_fake.doorbells, 1);
	assert_int_equal(w.a.cnt + w.b.cnt, 0); /* nothing outside of poll */
	settle(&w);
	expect(&w.a, 1, 7, EFANIC_OK);
	assert_int_equal(last(&w.a)->wc.opcode, EFANIC_OP_SEND);
	assert_int_equal(w.b.cnt, 1);
	assert_string_equal((char *)last(&w.b)->data, msg);
	world_close(&w);
}

static void post_send__gathers_pieces(void **state)
{
	struct efanic_wr wr = {.wr_id = 1, .opcode = EFANIC_OP_SEND, .sge_cnt = 5};
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 4);
	wr.dst = w.ab;
	for (int i = 0; i < 5; i++)
		wr.sge[i] = (struct efanic_sge){&"abcde"[i], 1, EFANIC_LKEY_INTERNAL};
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
	wr.sge_cnt = 0;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
	wr.sge_cnt = 6;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EINVAL);
	settle(&w);
	assert_int_equal(w.b.cnt, 2);
	assert_memory_equal(w.b.seen[0].data, "abcde", 5);
	assert_int_equal(w.b.seen[1].wc.byte_len, 0);
	world_close(&w);
}

static void post_send__imm(void **state)
{
	struct efanic_wr wr = {
		.wr_id = 1, .opcode = EFANIC_OP_SEND, .has_imm = true, .imm = 0x01020304};
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 4);
	wr.dst = w.ab;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_true(last(&w.b)->wc.has_imm);
	assert_int_equal(last(&w.b)->wc.imm, 0x01020304);
	assert_int_equal(last(&w.b)->wc.opcode, EFANIC_OP_RECV);
	world_close(&w);
}

static void post_send__refusals(void **state)
{
	struct efanic_wr wr = {.opcode = EFANIC_OP_RECV, .sge_cnt = 1};
	struct efanic_qp_attr attr;
	struct end ud = {0};
	struct world w;

	world_open(&w, "gen=efa0-none");
	pair_open(&w, 0);
	wr.dst = w.ab;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EINVAL);
	wr.opcode = 255;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EINVAL);
	wr.opcode = EFANIC_OP_READ;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EOPNOTSUPP);
	wr.opcode = EFANIC_OP_WRITE;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EOPNOTSUPP);
	wr.opcode = EFANIC_OP_SEND;
	wr.dst = w.ba; /* another queue pair's */
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EINVAL);
	world_close(&w);

	world_open(&w, "gen=efa0-read");
	pair_open(&w, 0);
	wr.dst = w.ab;
	wr.opcode = EFANIC_OP_WRITE;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EOPNOTSUPP);
	wr.opcode = EFANIC_OP_READ;
	wr.sge_cnt = 2;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EINVAL);
	wr.sge_cnt = 0;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), -EINVAL);
	pair_attr(&attr, 0);
	attr.type = EFANIC_QP_UD;
	end_open(&w, &ud, &attr, EFANIC_RNR_INFINITE, 0);
	wr.sge_cnt = 1;
	assert_int_equal(efanic_post_send(ud.qp, &wr), -EINVAL);
	efanic_qp_close(ud.qp);
	assert_int_equal(efanic_sq_free(w.a.qp), 16);
	world_close(&w);
}

static void post_send__queue_full(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 16);
	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 16; i++) {
			assert_int_equal(efanic_sq_free(w.a.qp), 16 - i);
			assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
		}
		assert_int_equal(send_to(&w.a, w.ab, 99, &g_byte, 1), -ENOMEM);
		settle(&w);
		assert_int_equal(w.a.cnt, 16);
		w.a.cnt = w.b.cnt = 0;
		assert_int_equal(efanic_post_recv_credits(w.b.qp, 16), 0);
	}
	world_close(&w);
}

static void post_send__local_errors(void **state)
{
	struct efanic_mr_attr mr_attr = {&g_byte, 1, 0};
	struct efanic_mr *mr;
	struct world w;
	struct efanic_wr wr = {.wr_id = 1, .opcode = EFANIC_OP_SEND, .sge_cnt = 1};
	static char big[EFANIC_MTU + 1];

	world_open(&w, NULL);
	pair_open(&w, 4);
	wr.dst = w.ab;
	assert_int_equal(efanic_mr_reg(w.nic, &mr_attr, &mr), 0);
	wr.sge[0] = (struct efanic_sge){&g_byte, 1, efanic_mr_lkey(mr)};
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	wr.sge[0].len = 2;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
	assert_int_equal(w.a.cnt, 1);
	efanic_poll(w.a.qp);
	expect(&w.a, 2, 1, EFANIC_LOCAL_INVALID_LKEY);
	assert_int_equal(send_to(&w.a, w.ab, 2, big, sizeof(big)), 0);
	efanic_poll(w.a.qp);
	expect(&w.a, 3, 2, EFANIC_LOCAL_BAD_LENGTH);
	assert_int_equal(send_to(&w.a, w.ab, 3, big, EFANIC_MTU), 0);
	settle(&w);
	expect(&w.a, 4, 3, EFANIC_OK);
	assert_int_equal(w.b.cnt, 2); /* only good ones arrive */
	efanic_mr_dereg(mr);
	world_close(&w);
}

static void post_send__smaller_mtu(void **state)
{
	static char big[2048];
	struct world w;

	world_open(&w, "mtu=1024");
	pair_open(&w, 4);
	assert_int_equal(send_to(&w.a, w.ab, 1, big, 1025), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_LOCAL_BAD_LENGTH);
	assert_int_equal(send_to(&w.a, w.ab, 2, big, 1024), 0);
	settle(&w);
	expect(&w.a, 2, 2, EFANIC_OK);
	world_close(&w);
}

/* Whatever the link says ends a request with the documented status, whether it says so at once or
 * later. */
static void sent__every_status(void **state)
{
	static const struct {
		int link;
		enum efanic_status first, later; /* before and after a first answer from there */
	} row[] = {
		{0, EFANIC_OK, EFANIC_OK},
		{-ECONNREFUSED, EFANIC_REMOTE_BAD_DEST_QPN, EFANIC_REMOTE_ABORT},
		{-EHOSTUNREACH, EFANIC_LOCAL_UNREACH_REMOTE, EFANIC_LOCAL_UNREACH_REMOTE},
		{-ENETUNREACH, EFANIC_LOCAL_UNREACH_REMOTE, EFANIC_LOCAL_UNREACH_REMOTE},
		{-ETIMEDOUT, EFANIC_LOCAL_UNRESP_REMOTE, EFANIC_LOCAL_UNRESP_REMOTE},
		{-EPROTO, EFANIC_REMOTE_FEATURE_MISMATCH, EFANIC_REMOTE_FEATURE_MISMATCH},
		{-ECANCELED, EFANIC_FLUSHED, EFANIC_FLUSHED},
		{-EMSGSIZE, EFANIC_LOCAL_BAD_LENGTH, EFANIC_LOCAL_BAD_LENGTH},
		{-EIO, EFANIC_LOCAL_QP_INTERNAL, EFANIC_LOCAL_QP_INTERNAL},
		{EFANIC_REMOTE_BAD_ADDRESS, EFANIC_REMOTE_BAD_ADDRESS, EFANIC_REMOTE_BAD_ADDRESS},
		{EFANIC_REMOTE_ABORT, EFANIC_REMOTE_ABORT, EFANIC_REMOTE_ABORT},
		{EFANIC_REMOTE_BAD_DEST_QPN, EFANIC_REMOTE_BAD_DEST_QPN,
		 EFANIC_REMOTE_BAD_DEST_QPN},
		{EFANIC_REMOTE_BAD_LENGTH, EFANIC_REMOTE_BAD_LENGTH, EFANIC_REMOTE_BAD_LENGTH},
		{EFANIC_REMOTE_UNKNOWN_PEER, EFANIC_REMOTE_UNKNOWN_PEER,
		 EFANIC_REMOTE_UNKNOWN_PEER},
		{EFANIC_REMOTE_FEATURE_MISMATCH, EFANIC_REMOTE_FEATURE_MISMATCH,
		 EFANIC_REMOTE_FEATURE_MISMATCH},
		{255, EFANIC_REMOTE_BAD_STATUS, EFANIC_REMOTE_BAD_STATUS},
		{EFANIC_LOCAL_INVALID_LKEY, EFANIC_REMOTE_BAD_STATUS, EFANIC_REMOTE_BAD_STATUS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		for (int way = 0; way < 6; way++) {
			bool has_answered = way & 1;
			struct world w;

			if (way / 2 == 2 && row[i].link >= 0)
				continue;
			world_open(&w, NULL);
			pair_open(&w, 4);
			if (has_answered) {
				assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
				settle(&w);
			}
			w.a.cnt = 0;
			g_fake.verdict = g_fake.send_rc = row[i].link;
			g_fake.is_sync = way / 2 == 1;
			g_fake.verdict_cnt = way / 2 < 2;
			g_fake.send_rc_cnt = way / 2 == 2;
			assert_int_equal(send_to(&w.a, w.ab, 2, &g_byte, 1), 0);
			assert_int_equal(w.a.cnt, 0);
			settle(&w);
			expect(&w.a, 1, 2, has_answered ? row[i].later : row[i].first);
			world_close(&w);
		}
	}
}

static void sent__peer_closed(void **state)
{
	struct world w;
	struct efanic_dst *nobody;

	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 999, 5, &nobody), 0);
	assert_int_equal(send_to(&w.a, nobody, 1, &g_byte, 1), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_REMOTE_BAD_DEST_QPN);
	assert_int_equal(send_to(&w.a, w.ab, 2, &g_byte, 1), 0);
	settle(&w);
	expect(&w.a, 2, 2, EFANIC_OK);
	efanic_qp_close(w.b.qp);
	w.b.qp = NULL;
	assert_int_equal(send_to(&w.a, w.ab, 3, &g_byte, 1), 0);
	settle(&w);
	expect(&w.a, 3, 3, EFANIC_REMOTE_ABORT);
	efanic_dst_put(nobody);
	world_close(&w);
}

/* --- receiver not ready --- */

/* With @retry the frame goes out 1 + @retry times, at 20, 60, 140, ... us, and then it is an error.
 */
static void rnr__counted_retries(void **state)
{
	for (uint8_t retry = 0; retry < EFANIC_RNR_INFINITE; retry++) {
		uint64_t wait_ns = EFANIC_RNR_NS_MIN;
		struct efanic_qp_attr attr;
		struct efanic_stats stats;
		struct world w;

		world_open(&w, NULL);
		pair_attr(&attr, QKEY_A);
		end_open(&w, &w.a, &attr, retry, 0);
		pair_attr(&attr, QKEY_B);
		end_open(&w, &w.b, &attr, EFANIC_RNR_INFINITE, 0);
		assert_int_equal(
			efanic_dst_get(w.a.qp, w.ahn, efanic_qp_qpn(w.b.qp), QKEY_B, &w.ab), 0);
		assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
		for (unsigned i = 0; i < retry; i++, wait_ns *= 2) {
			settle(&w);
			assert_int_equal(fake_deadline(), g_fake.now_ns + wait_ns);
			g_fake.now_ns += wait_ns - 1;
			settle(&w);
			assert_int_equal(g_fake.sends, i + 1);
			assert_int_equal(w.a.cnt, 0);
			g_fake.now_ns++;
		}
		settle(&w);
		assert_int_equal(g_fake.sends, retry + 1);
		expect(&w.a, 1, 1, EFANIC_REMOTE_RNR);
		assert_int_equal(fake_deadline(), CLK_NEVER);
		efanic_qp_query_stats(w.a.qp, &stats);
		assert_int_equal(stats.rnr_naks_rx, retry + 1);
		assert_int_equal(stats.send_wrs, 1);
		efanic_qp_query_stats(w.b.qp, &stats);
		assert_int_equal(stats.rnr_naks_tx, retry + 1);
		/* the next one, in the same slot, has all its retries */
		g_fake.sends = 0;
		assert_int_equal(send_to(&w.a, w.ab, 2, &g_byte, 1), 0);
		for (settle(&w); fake_deadline() != CLK_NEVER; settle(&w))
			g_fake.now_ns = fake_deadline();
		assert_int_equal(g_fake.sends, retry + 1);
		expect(&w.a, 2, 2, EFANIC_REMOTE_RNR);
		world_close(&w);
	}
}

static void rnr__infinite_until_credit(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	for (int i = 0; i < 300; i++) {
		settle(&w);
		assert_int_equal(w.a.cnt, 0);
		assert_in_range(fake_deadline() - g_fake.now_ns, 1, EFANIC_RNR_NS_MAX);
		g_fake.now_ns = fake_deadline();
	}
	assert_int_equal(g_fake.sends, 300);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_int_equal(w.b.cnt, 1);
	world_close(&w);
}

/* --- waiting for room --- */

static void wait__eagain_keeps_order_and_loses_nothing(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 16);
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = EVER;
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
	assert_int_equal(g_fake.sends, 2); /* the first is tried twice, the rest queues up behind it without asking */
	settle(&w);
	assert_int_equal(w.a.cnt, 0);
	g_fake.send_rc_cnt = 1;
	settle(&w);
	for (int i = 0; i < 3; i++)
		settle(&w);
	assert_int_equal(w.a.cnt, 12);
	for (unsigned i = 0; i < 12; i++) {
		assert_int_equal(w.a.seen[i].wc.wr_id, i);
		assert_int_equal(w.a.seen[i].wc.status, EFANIC_OK);
	}
	assert_int_equal(efanic_sq_free(w.a.qp), 16);
	world_close(&w);
}

/* A program that posts and never polls: what found no room goes out by later posts, as hardware would send it. */
static void wait__posting_alone_moves_the_queue_on(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 16);
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = 1; /* the post; its immediate retry finds room, and so does all that follows */
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
	assert_int_equal(w.a.cnt, 0); /* no handler outside of a poll */
	assert_true(g_fake.sends >= 4);
	for (int i = 0; i < 5; i++)
		settle(&w);
	assert_int_equal(w.a.cnt, 16);
	world_close(&w);
}

/* 20 destinations wait; one with a long line must not keep the others waiting. */
static void wait__destinations_take_turns(void **state)
{
	struct efanic_dst *dst[20];
	struct efanic_qp_attr attr;
	struct world w;
	bool seen[20] = {0};

	world_open(&w, NULL);
	pair_attr(&attr, QKEY_A);
	attr.sq_depth = 64;
	end_open(&w, &w.a, &attr, 0, 0);
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = EVER;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, (uint16_t)(1000 + i), 1, &dst[i]),
				 0);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(send_to(&w.a, dst[0], 0, &g_byte, 1), 0);
	for (unsigned i = 1; i < 20; i++)
		assert_int_equal(send_to(&w.a, dst[i], i, &g_byte, 1), 0);
	g_fake.send_rc_cnt = 0;
	efanic_poll(w.a.qp); /* 16 destinations: the first gave 8 */
	efanic_poll(w.a.qp); /* the other 4 and more of the first */
	efanic_poll(w.a.qp);
	for (unsigned i = 0; i < w.a.cnt; i++)
		seen[w.a.seen[i].wc.wr_id] = true;
	for (unsigned i = 0; i < 20; i++)
		assert_true(seen[i]);
	assert_in_range(w.a.cnt, 20, 43); /* the first is not done yet */
	settle(&w);
	assert_int_equal(w.a.cnt, 59);
	for (unsigned i = 0; i < 20; i++)
		efanic_dst_put(dst[i]);
	world_close(&w);
}

static void wait__destination_put_while_waiting(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 16);
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = EVER;
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	efanic_dst_put(w.ab);
	w.ab = NULL;
	g_fake.send_rc_cnt = 0;
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	world_close(&w);
}

/* --- address handles under way --- */

static void ah_closed__ends_with_invalid_ah(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	settle(&w); /* on the timer */
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = 1;
	assert_int_equal(send_to(&w.a, w.ab, 2, &g_byte, 1), 0); /* in the line */
	efanic_ah_close(w.nic, w.ahn);
	assert_int_equal(send_to(&w.a, w.ab, 3, &g_byte, 1), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 2);
	g_fake.now_ns += EFANIC_RNR_NS_MAX;
	settle(&w);
	assert_int_equal(w.a.cnt, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(w.a.seen[i].wc.status, EFANIC_LOCAL_INVALID_AH);
	assert_int_equal(w.b.cnt, 0);
	world_close(&w);
}

static void ah_closed__what_the_link_has(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 1);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0); /* will arrive */
	assert_int_equal(send_to(&w.a, w.ab, 2, &g_byte, 1), 0); /* will not: no credit */
	efanic_ah_close(w.nic, w.ahn);
	settle(&w);
	assert_int_equal(w.a.seen[0].wc.status, EFANIC_OK);
	expect(&w.a, 2, 2, EFANIC_LOCAL_INVALID_AH);
	world_close(&w);
}

/* --- RDMA --- */

struct rdma {
	struct world w;
	struct efanic_mr *local, *remote;
	char mine[64], theirs[64];
	struct efanic_wr wr;
};

static void rdma_open(struct rdma *r, const char *conf, unsigned remote_access, bool unsolicited)
{
	struct efanic_mr_attr attr = {r->mine, sizeof(r->mine), EFANIC_ACCESS_LOCAL_WRITE};
	struct efanic_qp_attr qp_attr;

	world_open(&r->w, conf);
	pair_attr(&qp_attr, QKEY_A);
	end_open(&r->w, &r->w.a, &qp_attr, EFANIC_RNR_INFINITE, 0);
	pair_attr(&qp_attr, QKEY_B);
	qp_attr.unsolicited_write_recv = unsolicited;
	end_open(&r->w, &r->w.b, &qp_attr, EFANIC_RNR_INFINITE, 0);
	assert_int_equal(
		efanic_dst_get(r->w.a.qp, r->w.ahn, efanic_qp_qpn(r->w.b.qp), QKEY_B, &r->w.ab), 0);
	assert_int_equal(efanic_mr_reg(r->w.nic, &attr, &r->local), 0);
	attr = (struct efanic_mr_attr){r->theirs, sizeof(r->theirs),
				       EFANIC_ACCESS_LOCAL_WRITE | remote_access};
	assert_int_equal(efanic_mr_reg(r->w.nic, &attr, &r->remote), 0);
	memset(r->mine, 'm', sizeof(r->mine));
	memset(r->theirs, 't', sizeof(r->theirs));
	r->wr = (struct efanic_wr){
		.wr_id = 1,
		.dst = r->w.ab,
		.opcode = EFANIC_OP_READ,
		.sge_cnt = 1,
		.rkey = efanic_mr_rkey(r->remote),
		.raddr = (uintptr_t)r->theirs,
		.sge = {{r->mine, 64, efanic_mr_lkey(r->local)}},
	};
}

static void rdma_close(struct rdma *r)
{
	efanic_mr_dereg(r->local);
	efanic_mr_dereg(r->remote);
	world_close(&r->w);
}

static void rdma_post(struct rdma *r, enum efanic_status status)
{
	unsigned cnt = r->w.a.cnt;

	assert_int_equal(efanic_post_send(r->w.a.qp, &r->wr), 0);
	assert_int_equal(r->w.a.cnt, cnt);
	settle(&r->w);
	expect(&r->w.a, cnt + 1, r->wr.wr_id, status);
	assert_int_equal(last(&r->w.a)->wc.opcode, r->wr.opcode);
}

static void read__data_and_counters(void **state)
{
	struct efanic_stats stats;
	struct rdma r;

	rdma_open(&r, NULL, EFANIC_ACCESS_REMOTE_READ, false);
	rdma_post(&r, EFANIC_OK);
	assert_memory_equal(r.mine, r.theirs, 64);
	r.wr.sge[0].len = 0;
	rdma_post(&r, EFANIC_OK);
	efanic_query_stats(r.w.nic, &stats);
	assert_int_equal(stats.rdma_read_wrs, 2);
	assert_int_equal(stats.rdma_read_bytes, 64);
	assert_int_equal(stats.rdma_read_wr_err, 0);
	assert_int_equal(stats.send_wrs, 0);
	rdma_close(&r);
}

static void read__errors(void **state)
{
	struct efanic_stats stats;
	struct rdma r;

	rdma_open(&r, "max_rdma_size=64", EFANIC_ACCESS_REMOTE_READ, false);
	r.wr.rkey++;
	rdma_post(&r, EFANIC_REMOTE_BAD_ADDRESS);
	r.wr.rkey--;
	r.wr.raddr++;
	rdma_post(&r, EFANIC_REMOTE_BAD_ADDRESS);
	r.wr.raddr--;
	r.wr.sge[0].lkey = efanic_mr_lkey(r.remote); /* does not cover it */
	rdma_post(&r, EFANIC_LOCAL_INVALID_LKEY);
	r.wr.sge[0].lkey = EFANIC_LKEY_INTERNAL;
	r.wr.sge[0].len = 65;
	rdma_post(&r, EFANIC_LOCAL_BAD_LENGTH);
	r.wr.sge[0].len = 64;
	g_fake.bulk_verdict = -ETIMEDOUT;
	g_fake.bulk_verdict_cnt = 1;
	rdma_post(&r, EFANIC_LOCAL_UNRESP_REMOTE);
	g_fake.bulk_rc = -ECONNREFUSED; /* known dead; it had answered, with refusals */
	g_fake.bulk_rc_cnt = 1;
	rdma_post(&r, EFANIC_REMOTE_ABORT);
	efanic_query_stats(r.w.nic, &stats);
	assert_int_equal(stats.rdma_read_wr_err, 6);
	assert_int_equal(stats.rdma_read_bytes, 0);
	assert_int_equal(stats.unresponsive_remote_events, 1);
	/* a read needs a local buffer that may be written */
	r.wr.opcode = EFANIC_OP_WRITE;
	rdma_post(&r, EFANIC_REMOTE_BAD_ADDRESS); /* no write right there */
	rdma_close(&r);
}

static void read__local_write_right(void **state)
{
	struct efanic_mr_attr attr = {0};
	struct efanic_mr *readonly;
	struct rdma r;

	rdma_open(&r, NULL, EFANIC_ACCESS_REMOTE_READ | EFANIC_ACCESS_REMOTE_WRITE, false);
	attr = (struct efanic_mr_attr){r.mine, sizeof(r.mine), 0};
	assert_int_equal(efanic_mr_reg(r.w.nic, &attr, &readonly), 0);
	r.wr.sge[0].lkey = efanic_mr_lkey(readonly);
	rdma_post(&r, EFANIC_LOCAL_INVALID_LKEY);
	r.wr.opcode = EFANIC_OP_WRITE;
	rdma_post(&r, EFANIC_OK);
	assert_memory_equal(r.mine, r.theirs, 64);
	efanic_mr_dereg(readonly);
	rdma_close(&r);
}

static void bulk__waits_for_room_and_ends_at_once(void **state)
{
	struct rdma r;

	rdma_open(&r, NULL, EFANIC_ACCESS_REMOTE_READ, false);
	g_fake.bulk_rc = -EAGAIN;
	g_fake.bulk_rc_cnt = 2;
	assert_int_equal(efanic_post_send(r.w.a.qp, &r.wr), 0);
	efanic_poll(r.w.a.qp);
	assert_int_equal(r.w.a.cnt, 0);
	settle(&r.w);
	settle(&r.w);
	expect(&r.w.a, 1, 1, EFANIC_OK);
	assert_int_equal(g_fake.bulks, 3);
	g_fake.is_sync = true;
	rdma_post(&r, EFANIC_OK);
	rdma_close(&r);
}

static void write_imm__needs_a_credit(void **state)
{
	struct rdma r;

	rdma_open(&r, NULL, EFANIC_ACCESS_REMOTE_WRITE, false);
	r.wr.opcode = EFANIC_OP_WRITE;
	r.wr.has_imm = true;
	r.wr.imm = 0xcafe;
	assert_int_equal(efanic_post_send(r.w.a.qp, &r.wr), 0);
	settle(&r.w);
	assert_memory_equal(r.theirs, r.mine, 64); /* written, but not yet announced */
	assert_int_equal(r.w.a.cnt + r.w.b.cnt, 0);
	assert_int_equal(efanic_post_recv_credits(r.w.b.qp, 1), 0);
	g_fake.now_ns += EFANIC_RNR_NS_MAX;
	settle(&r.w);
	expect(&r.w.a, 1, 1, EFANIC_OK);
	assert_int_equal(last(&r.w.a)->wc.opcode, EFANIC_OP_WRITE);
	expect(&r.w.b, 1, 0, EFANIC_OK);
	assert_int_equal(last(&r.w.b)->wc.opcode, EFANIC_OP_RECV_RDMA_IMM);
	assert_int_equal(last(&r.w.b)->wc.imm, 0xcafe);
	assert_true(last(&r.w.b)->wc.has_imm);
	assert_false(last(&r.w.b)->wc.unsolicited);
	assert_int_equal(last(&r.w.b)->wc.byte_len, 64);
	assert_int_equal(r.w.b.qp->credits, 0);
	assert_int_equal(g_fake.bulks, 1); /* the data went once */
	/* the slot remembers nothing of it */
	assert_int_equal(efanic_post_recv_credits(r.w.b.qp, 1), 0);
	assert_int_equal(send_to(&r.w.a, r.w.ab, 2, &g_byte, 1), 0);
	settle(&r.w);
	expect(&r.w.a, 2, 2, EFANIC_OK);
	assert_int_equal(last(&r.w.b)->wc.opcode, EFANIC_OP_RECV);
	rdma_close(&r);
}

static void write_imm__unsolicited(void **state)
{
	struct efanic_stats stats;
	struct rdma r;

	for (int is_sync = 0; is_sync < 2; is_sync++) {
		rdma_open(&r, NULL, EFANIC_ACCESS_REMOTE_WRITE, true);
		g_fake.is_sync = is_sync;
		r.wr.opcode = EFANIC_OP_WRITE;
		r.wr.has_imm = true;
		rdma_post(&r, EFANIC_OK);
		expect(&r.w.b, 1, 0, EFANIC_OK);
		assert_true(last(&r.w.b)->wc.unsolicited);
		efanic_query_stats(r.w.nic, &stats);
		assert_int_equal(stats.rdma_write_wrs, 1);
		assert_int_equal(stats.rdma_write_bytes, 64);
		assert_int_equal(stats.rdma_write_recv_bytes, 64);
		assert_int_equal(stats.recv_wrs, 0);
		rdma_close(&r);
	}
}

static void write_imm__data_refused_is_not_announced(void **state)
{
	struct rdma r;

	rdma_open(&r, NULL, EFANIC_ACCESS_REMOTE_READ, true);
	r.wr.opcode = EFANIC_OP_WRITE;
	r.wr.has_imm = true;
	rdma_post(&r, EFANIC_REMOTE_BAD_ADDRESS);
	assert_int_equal(r.w.b.cnt, 0);
	assert_int_equal(g_fake.sends, 0);
	rdma_close(&r);
}

/* --- handlers that post --- */

static struct world *g_world;
static unsigned g_reposts;

static void post_more(struct end *e, const struct efanic_wc *wc)
{
	if (g_reposts && g_reposts--)
		assert_int_equal(send_to(e, g_world->ab, wc->wr_id + 1, &g_byte, 1), 0);
}

/* The slot is free when its completion is seen, also with a send queue of one. */
static void handler__posts_again(void **state)
{
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, NULL);
	g_world = &w;
	g_reposts = 10;
	pair_attr(&attr, QKEY_A);
	attr.sq_depth = 1;
	end_open(&w, &w.a, &attr, 0, 0);
	pair_attr(&attr, QKEY_B);
	end_open(&w, &w.b, &attr, 0, 16);
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, efanic_qp_qpn(w.b.qp), QKEY_B, &w.ab), 0);
	w.a.hook = post_more;
	assert_int_equal(send_to(&w.a, w.ab, 0, &g_byte, 1), 0);
	settle(&w);
	expect(&w.a, 11, 10, EFANIC_OK);
	assert_int_equal(w.b.cnt, 11);
	/* a handler whose posts fail at once does not keep poll busy for ever */
	efanic_ah_close(w.nic, w.ahn);
	g_reposts = 5;
	assert_int_equal(send_to(&w.a, w.ab, 100, &g_byte, 1), 0);
	efanic_poll(w.a.qp);
	assert_int_equal(w.a.cnt, 12);
	settle(&w);
	assert_int_equal(w.a.cnt, 17);
	world_close(&w);
}

static unsigned g_depth;

static void post_deeper(struct end *e, const struct efanic_wc *wc)
{
	assert_int_equal(g_depth++, 0);
	post_more(e, wc);
	g_depth--;
}

/* A verdict that comes while a handler posts is the next poll's. */
static void handler__does_not_nest(void **state)
{
	struct world w;

	world_open(&w, NULL);
	g_world = &w;
	g_reposts = 5;
	pair_open(&w, 0);
	g_fake.is_sync = true;
	g_fake.verdict_cnt = EVER;
	w.a.hook = post_deeper;
	assert_int_equal(send_to(&w.a, w.ab, 0, &g_byte, 1), 0);
	assert_int_equal(w.a.cnt, 0);
	settle(&w);
	expect(&w.a, 6, 5, EFANIC_OK);
	world_close(&w);
}

static void data_path__allocates_nothing(void **state)
{
	struct world w;
	uint64_t before;

	world_open(&w, NULL);
	pair_open(&w, 8);
	before = mem_alloc_count();
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
	settle(&w);
	assert_int_equal(send_to(&w.a, w.ab, 8, &g_byte, 1), 0); /* RNR */
	settle(&w);
	assert_int_equal(w.a.cnt, 8);
	assert_int_equal(mem_alloc_count(), before);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(post_send__success),
		cmocka_unit_test(post_send__gathers_pieces),
		cmocka_unit_test(post_send__imm),
		cmocka_unit_test(post_send__refusals),
		cmocka_unit_test(post_send__queue_full),
		cmocka_unit_test(post_send__local_errors),
		cmocka_unit_test(post_send__smaller_mtu),
		cmocka_unit_test(sent__every_status),
		cmocka_unit_test(sent__peer_closed),
		cmocka_unit_test(rnr__counted_retries),
		cmocka_unit_test(rnr__infinite_until_credit),
		cmocka_unit_test(wait__eagain_keeps_order_and_loses_nothing),
		cmocka_unit_test(wait__posting_alone_moves_the_queue_on),
		cmocka_unit_test(wait__destinations_take_turns),
		cmocka_unit_test(wait__destination_put_while_waiting),
		cmocka_unit_test(ah_closed__ends_with_invalid_ah),
		cmocka_unit_test(ah_closed__what_the_link_has),
		cmocka_unit_test(read__data_and_counters),
		cmocka_unit_test(read__errors),
		cmocka_unit_test(read__local_write_right),
		cmocka_unit_test(bulk__waits_for_room_and_ends_at_once),
		cmocka_unit_test(write_imm__needs_a_credit),
		cmocka_unit_test(write_imm__unsolicited),
		cmocka_unit_test(write_imm__data_refused_is_not_announced),
		cmocka_unit_test(handler__posts_again),
		cmocka_unit_test(handler__does_not_nest),
		cmocka_unit_test(data_path__allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
