// SPDX-License-Identifier: BSD-2-Clause
// Received frames: credits, parking, Q_Keys, posted buffers, UD, hostile input.
#include "efanic_fix.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

static char g_byte = 42;

static void pattern(void *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(i * 7 + i / 256);
}

/* --- credits --- */

static void credit__one_per_packet(void **state)
{
	struct efanic_stats stats;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 2);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 2);
	assert_int_equal(w.b.cnt, 2);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), 0);
	g_fake.now_ns += EFANIC_RNR_NS_MAX;
	settle(&w);
	assert_int_equal(w.a.cnt, 3);
	assert_int_equal(w.b.cnt, 3);
	efanic_qp_query_stats(w.b.qp, &stats);
	assert_int_equal(stats.recv_wrs, 3);
	assert_int_equal(stats.recv_bytes, 3);
	assert_int_equal(stats.rnr_naks_tx, 1);
	world_close(&w);
}

static void credit__limits(void **state)
{
	struct efanic_qp_mod mod = {.state = EFANIC_QPS_ERR};
	struct efanic_sge sge = {&g_byte, 1, 0};
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 10);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 7), -ENOMEM);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, UINT32_MAX), -ENOMEM);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 6), 0);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), -ENOMEM);
	assert_int_equal(efanic_post_recv(w.b.qp, 1, &sge, 1), -EINVAL);
	assert_int_equal(efanic_qp_modify(w.b.qp, &mod, EFANIC_QPA_STATE), 0);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), -EINVAL);
	mod.state = EFANIC_QPS_RESET;
	assert_int_equal(efanic_qp_modify(w.b.qp, &mod, EFANIC_QPA_STATE), 0);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), -EINVAL);
	assert_int_equal(w.b.qp->credits, 0);
	world_close(&w);
}

/* What the completion says of the sender, and the payload. */
static void wc__fields_and_payload(void **state)
{
	static uint8_t msg[EFANIC_MTU];
	struct efanic_wr imm = {.opcode = EFANIC_OP_SEND,
				.has_imm = true,
				.imm = 77,
				.sge_cnt = 1,
				.sge = {{msg, 300, EFANIC_LKEY_INTERNAL}}};
	struct world w;

	pattern(msg, sizeof(msg));
	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_int_equal(send_to(&w.a, w.ab, 1, msg, 13), 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, msg, EFANIC_MTU), 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, msg, 0), 0);
	settle(&w);
	assert_int_equal(w.b.cnt, 3);
	assert_int_equal(w.b.seen[0].data_len, 13);
	assert_memory_equal(w.b.seen[0].data, msg, 13);
	assert_int_equal(w.b.seen[1].data_len, EFANIC_MTU);
	assert_memory_equal(w.b.seen[1].data, msg, EFANIC_MTU);
	assert_int_equal(w.b.seen[2].data_len, 0);
	assert_int_equal(last(&w.b)->wc.src_qpn, efanic_qp_qpn(w.a.qp));
	assert_int_equal(last(&w.b)->wc.src_ahn, w.ahn);
	assert_memory_equal(last(&w.b)->gid, efanic_attr(w.nic)->gid, 16);
	assert_ptr_equal(last(&w.b)->wc.src, w.ba);
	assert_int_equal(last(&w.b)->wc.wr_id, 0);
	assert_false(last(&w.b)->wc.has_imm);
	imm.dst = w.ab;
	assert_int_equal(efanic_post_send(w.a.qp, &imm), 0);
	settle(&w);
	assert_int_equal(last(&w.b)->data_len, 300);
	assert_memory_equal(last(&w.b)->data, msg, 300);
	assert_int_equal(last(&w.b)->wc.imm, 77);
	world_close(&w);
}

/* --- strangers --- */

static struct efanic_dst *g_held;

static void hold_and_answer(struct end *e, const struct efanic_wc *wc)
{
	if (wc->opcode != EFANIC_OP_RECV)
		return;
	assert_null(efanic_dst_user(wc->src));
	efanic_dst_set_user(wc->src, e);
	assert_int_equal(send_to(e, wc->src, 5, &g_byte, 1), 0); /* without a handle of its own */
	assert_int_equal(efanic_dst_hold(e->qp, wc->src, &g_held), 0);
	assert_int_equal(send_to(e, g_held, 6, &g_byte, 1), 0);
	e->hook = NULL;
}

static void stranger__can_be_answered_and_held(void **state)
{
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, NULL);
	pair_attr(&attr, QKEY_A);
	end_open(&w, &w.a, &attr, 0, 4);
	pair_attr(&attr, QKEY_B);
	end_open(&w, &w.b, &attr, 0, 4);
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, efanic_qp_qpn(w.b.qp), QKEY_B, &w.ab), 0);
	w.b.hook = hold_and_answer;
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	settle(&w);
	assert_int_equal(w.b.seen[0].wc.src_ahn, w.ahn);
	assert_int_equal(w.a.cnt, 3);
	assert_int_equal(w.b.cnt, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(w.b.seen[i].wc.status, EFANIC_OK);
	assert_ptr_equal(efanic_dst_user(g_held), &w.b);
	/* from now on packets carry what was held */
	assert_int_equal(send_to(&w.a, w.ab, 2, &g_byte, 1), 0);
	settle(&w);
	assert_ptr_equal(w.b.seen[3].wc.src, g_held);
	efanic_dst_put(g_held);
	world_close(&w);
}

static void stranger__ahn_follows_handles(void **state)
{
	struct link_addr from = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 9}, .port = 99, .nonce = 3};
	uint8_t other[16];
	uint8_t frame[EFANIC_HDR_MAX];
	struct efanic_dst *held;
	struct world w;
	uint16_t ahn;
	size_t len;

	world_open(&w, NULL);
	pair_open(&w, 16);
	len = efanic_pkt_encode(EFANIC_PKT_SEND, QKEY_B, 0, 0, frame);
	efanic_gid_of_ip(from.ip, other);
	w.b.qp->deliver = true;
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_int_equal(last(&w.b)->wc.src_ahn, EFANIC_AHN_UNKNOWN);
	assert_int_equal(last(&w.b)->wc.src_qpn, 99);
	assert_memory_equal(last(&w.b)->gid, other, 16);
	assert_int_equal(efanic_ah_open(w.nic, other, &ahn), 0);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_int_equal(last(&w.b)->wc.src_ahn, ahn);
	/* also when a destination exists: opened, closed, opened again */
	assert_int_equal(efanic_dst_get(w.b.qp, ahn, 99, 3, &held), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
		assert_int_equal(last(&w.b)->wc.src_ahn, ahn);
		efanic_ah_close(w.nic, ahn);
		assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
		assert_int_equal(last(&w.b)->wc.src_ahn, EFANIC_AHN_UNKNOWN);
		assert_int_equal(efanic_ah_open(w.nic, other, &ahn), 0);
	}
	w.b.qp->deliver = false;
	efanic_dst_put(held);
	world_close(&w);
}

static void hold(struct end *e, const struct efanic_wc *wc)
{
	assert_int_equal(efanic_dst_hold(e->qp, wc->src, &g_held), 0);
	e->hook = NULL;
}

/* Something in the send queue keeps the destination of a peer whose handle was closed: the peer that sends then can be
 * answered all the same, and has the next handle. */
static void stranger__held_after_its_handle(void **state)
{
	struct link_addr from = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 9}, .port = 99, .nonce = 3};
	uint8_t other[16], frame[EFANIC_HDR_MAX];
	struct efanic_dst *queued;
	struct world w;
	uint16_t ahn;
	size_t len;

	world_open(&w, NULL);
	pair_open(&w, 16);
	len = efanic_pkt_encode(EFANIC_PKT_SEND, QKEY_B, 0, 0, frame);
	efanic_gid_of_ip(from.ip, other);
	assert_int_equal(efanic_ah_open(w.nic, other, &ahn), 0);
	assert_int_equal(efanic_dst_get(w.b.qp, ahn, 99, 3, &queued), 0);
	efanic_ah_close(w.nic, ahn);
	assert_true(efanic_dst_is_stale(w.nic, queued));
	w.b.hook = hold;
	w.b.qp->deliver = true;
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_ptr_equal(g_held, queued);
	assert_false(efanic_dst_is_stale(w.nic, queued));
	assert_int_equal(efanic_ah_open(w.nic, other, &ahn), 0);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_int_equal(last(&w.b)->wc.src_ahn, ahn);
	w.b.qp->deliver = false;
	efanic_dst_put(queued);
	efanic_dst_put(g_held);
	efanic_ah_close(w.nic, ahn);
	world_close(&w);
	(void)state;
}

/* A held destination without an address handle gets its number when one is opened. */
static void stranger__held_before_its_handle(void **state)
{
	struct link_addr from = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 9}, .port = 99, .nonce = 3};
	uint8_t other[16];
	uint8_t frame[EFANIC_HDR_MAX];
	struct world w;
	uint16_t ahn;
	size_t len;

	world_open(&w, NULL);
	pair_open(&w, 16);
	len = efanic_pkt_encode(EFANIC_PKT_SEND, QKEY_B, 0, 0, frame);
	efanic_gid_of_ip(from.ip, other);
	w.b.hook = hold;
	w.b.qp->deliver = true;
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_ptr_equal(last(&w.b)->wc.src, g_held);
	assert_int_equal(last(&w.b)->wc.src_ahn, EFANIC_AHN_UNKNOWN);
	assert_int_equal(efanic_ah_open(w.nic, other, &ahn), 0);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_int_equal(last(&w.b)->wc.src_ahn, ahn);
	w.b.qp->deliver = false;
	efanic_dst_put(g_held);
	world_close(&w);
}

/* --- outside of efanic_poll() --- */

static void park__adapter_thread_takes_packets(void **state)
{
	static uint8_t msg[EFANIC_MTU];
	struct world w;

	pattern(msg, sizeof(msg));
	world_open(&w, NULL);
	pair_open(&w, 2);
	assert_int_equal(send_to(&w.a, w.ab, 1, msg, sizeof(msg)), 0);
	assert_int_equal(send_to(&w.a, w.ab, 2, msg, 3), 0);
	assert_int_equal(send_to(&w.a, w.ab, 3, msg, 3), 0); /* no credit */
	for (int i = 0; i < 3; i++)
		fake_poll_all();
	assert_int_equal(w.a.cnt + w.b.cnt, 0); /* handlers run in efanic_poll() only */
	memset(msg, 0, sizeof(msg));		/* the copies stay */
	g_fake.hold = true;
	assert_int_equal(efanic_poll(w.a.qp), 2);
	assert_int_equal(efanic_poll(w.b.qp), 2);
	assert_int_equal(w.a.cnt, 2);
	assert_int_equal(w.b.cnt, 2);
	pattern(msg, sizeof(msg));
	assert_memory_equal(w.b.seen[0].data, msg, sizeof(msg));
	assert_int_equal(w.b.seen[1].wc.byte_len, 3);
	assert_ptr_equal(w.b.seen[1].wc.src, w.ba);
	assert_int_equal(w.b.seen[1].wc.src_ahn, w.ahn);
	world_close(&w);
}

/* The adapter thread also retries, so RNR ends without the application. */
static void park__adapter_thread_retries(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	fake_poll_all();
	fake_poll_all();
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), 0);
	g_fake.now_ns = fake_deadline();
	for (int i = 0; i < 3; i++)
		fake_poll_all();
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_int_equal(w.b.cnt, 1);
	world_close(&w);
}

static void park__close_drops_unseen_packets(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 2);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	fake_poll_all();
	assert_non_null(w.b.qp->parked);
	efanic_qp_close(w.b.qp);
	w.b.qp = NULL;
	assert_int_equal(w.b.cnt, 0);
	world_close(&w);
}

static void park__no_memory_is_rnr(void **state)
{
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 2);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	mem_fail_nth(1);
	fake_poll_all();
	mem_fail_nth(0);
	assert_null(w.b.qp->parked);
	assert_int_equal(w.b.qp->credits, 2);
	settle(&w);
	g_fake.now_ns += EFANIC_RNR_NS_MAX;
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_int_equal(w.b.cnt, 1);
	world_close(&w);
}

/* --- not for us --- */

static void qkey__mismatch_is_bad_qpn(void **state)
{
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	struct efanic_stats stats;
	struct world w;
	size_t len;

	world_open(&w, NULL);
	pair_open(&w, 2);
	len = efanic_pkt_encode(EFANIC_PKT_SEND, QKEY_B + 1, 0, 0, frame);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), EFANIC_REMOTE_BAD_DEST_QPN);
	efanic_qp_query_stats(w.b.qp, &stats);
	assert_int_equal(stats.qkey_violations, 1);
	assert_int_equal(w.b.qp->credits, 2);
	world_close(&w);
}

static void state__not_ready_is_bad_qpn(void **state)
{
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	struct world w;
	size_t len;

	world_open(&w, NULL);
	pair_open(&w, 2);
	len = efanic_pkt_encode(EFANIC_PKT_SEND, QKEY_B, 0, 0, frame);
	for (int s = 0; s < EFANIC_QPS_NUM; s++) {
		bool is_open = s == EFANIC_QPS_RTR || s == EFANIC_QPS_RTS || s == EFANIC_QPS_SQD ||
			       s == EFANIC_QPS_SQE;
		struct efanic_qp_mod mod = {.state = EFANIC_QPS_RESET, .port = 1, .qkey = QKEY_B};
		struct efanic_qp *qp = w.b.qp;

		assert_int_equal(efanic_qp_modify(qp, &mod, EFANIC_QPA_STATE), 0);
		if (s != EFANIC_QPS_RESET)
			assert_int_equal(efanic_qp_to_rts(qp, 7), 0);
		if (s == EFANIC_QPS_SQD || s == EFANIC_QPS_ERR) {
			mod.state = s;
			assert_int_equal(efanic_qp_modify(qp, &mod, EFANIC_QPA_STATE), 0);
		} else if (s == EFANIC_QPS_INIT || s == EFANIC_QPS_RTR) {
			mod.state = EFANIC_QPS_RESET;
			assert_int_equal(efanic_qp_modify(qp, &mod, EFANIC_QPA_STATE), 0);
			mod.state = EFANIC_QPS_INIT;
			assert_int_equal(efanic_qp_modify(qp, &mod, 15), 0);
			mod.state = s;
			assert_int_equal(efanic_qp_modify(qp, &mod, EFANIC_QPA_STATE), 0);
		} else if (s == EFANIC_QPS_SQE) {
			continue; /* only hardware failures lead there */
		}
		assert_int_equal(qp->state, s);
		qp->deliver = true;
		assert_int_equal(fake_inject(qp->port, &from, frame, len),
				 is_open ? EFANIC_REMOTE_RNR : EFANIC_REMOTE_BAD_DEST_QPN);
		/* credits do not help where the state does not take frames */
		w.b.cnt = 0;
		if (s == EFANIC_QPS_INIT || is_open)
			assert_int_equal(efanic_post_recv_credits(qp, 1), 0);
		assert_int_equal(fake_inject(qp->port, &from, frame, len),
				 is_open ? EFANIC_OK : EFANIC_REMOTE_BAD_DEST_QPN);
		assert_int_equal(w.b.cnt, is_open);
		qp->deliver = false;
	}
	world_close(&w);
}

static void malformed__counted_and_refused(void **state)
{
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	struct efanic_stats stats;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 2);
	efanic_pkt_encode(EFANIC_PKT_SEND, QKEY_B, 0, 0, frame);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, 7), EFANIC_REMOTE_BAD_LENGTH);
	frame[0] = 9;
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, 8),
			 EFANIC_REMOTE_FEATURE_MISMATCH);
	assert_int_equal(w.b.qp->drops[EFANIC_DROP_SHORT], 1);
	assert_int_equal(w.b.qp->drops[EFANIC_DROP_VERSION], 1);
	efanic_qp_query_stats(w.b.qp, &stats);
	assert_int_equal(stats.malformed, 2);
	assert_int_equal(w.b.qp->credits, 2);
	world_close(&w);
}

/* Random frames, some of them almost right, to every kind of queue pair. */
static void malformed__random(void **state)
{
	struct rng rng = unit_rng();
	static uint8_t frame[EFANIC_MTU + 64];

	for (int kind = 0; kind < 4; kind++) {
		struct efanic_qp_attr attr;
		struct world w;
		char buf[64];
		struct efanic_sge sge = {buf, sizeof(buf), EFANIC_LKEY_INTERNAL};

		world_open(&w, NULL);
		pair_attr(&attr, QKEY_B);
		attr.type = kind == 3 ? EFANIC_QP_UD : EFANIC_QP_SRD;
		attr.posted_buffers = kind >= 2;
		attr.unsolicited_write_recv = kind == 1;
		end_open(&w, &w.b, &attr, 0, 0);
		for (int i = 0; i < 20000; i++) {
			struct link_addr from = {.port = (uint16_t)rng_below(&rng, 8), .nonce = 3};
			size_t len = rng_below(&rng, i % 64 ? 80 : sizeof(frame));
			int rc;

			for (size_t k = 0; k < MIN(len, (size_t)80); k++)
				frame[k] = (uint8_t)rng_u64(&rng);
			if (rng_below(&rng, 4)) {
				efanic_pkt_encode((enum efanic_pkt_op)(1 + rng_below(&rng, 3)),
						  QKEY_B, 1, 2, frame);
				frame[rng_below(&rng, 16)] ^=
					(uint8_t)(rng_below(&rng, 3) << rng_below(&rng, 7));
			}
			w.b.qp->deliver = rng_below(&rng, 2);
			if (attr.posted_buffers || attr.type == EFANIC_QP_UD)
				efanic_post_recv(w.b.qp, 1, &sge, 1);
			else
				efanic_post_recv_credits(w.b.qp, 1);
			rc = fake_inject(w.b.qp->port, &from, frame, len);
			assert_in_range(rc, 0, EFANIC_STATUS_NUM - 1);
			w.b.qp->deliver = false;
			if (!(i % 8))
				efanic_poll(w.b.qp);
			w.b.cnt %= WC_MAX;
		}
		world_close(&w);
	}
}

/* --- posted buffers --- */

static void posted_open(struct world *w, enum efanic_qp_type type)
{
	struct efanic_qp_attr attr;

	world_open(w, NULL);
	pair_attr(&attr, QKEY_A);
	attr.type = type;
	end_open(w, &w->a, &attr, 0, 0);
	pair_attr(&attr, QKEY_B);
	attr.type = type;
	attr.posted_buffers = true;
	end_open(w, &w->b, &attr, 0, 0);
	assert_int_equal(efanic_dst_get(w->a.qp, w->ahn, efanic_qp_qpn(w->b.qp), QKEY_B, &w->ab),
			 0);
}

static void posted__scatters(void **state)
{
	uint8_t msg[30], buf[3][10];
	struct efanic_sge sge[3];
	struct world w;

	pattern(msg, sizeof(msg));
	for (int parked = 0; parked < 2; parked++) {
		posted_open(&w, EFANIC_QP_SRD);
		memset(buf, 0, sizeof(buf));
		for (int i = 0; i < 3; i++)
			sge[i] = (struct efanic_sge){buf[i], 10, EFANIC_LKEY_INTERNAL};
		assert_int_equal(efanic_post_recv(w.b.qp, 9, sge, 3), 0);
		assert_int_equal(send_to(&w.a, w.ab, 1, msg, 27), 0);
		if (parked)
			fake_poll_all();
		settle(&w);
		expect(&w.a, 1, 1, EFANIC_OK);
		expect(&w.b, 1, 9, EFANIC_OK);
		assert_int_equal(last(&w.b)->wc.byte_len, 27);
		assert_int_equal(last(&w.b)->wc.data.len, 0);
		assert_memory_equal(buf, msg, 27);
		assert_int_equal(buf[2][7], 0);
		world_close(&w);
	}
}

static void posted__limits(void **state)
{
	struct efanic_sge sge[4] = {{&g_byte, 1, 0}};
	struct world w;

	posted_open(&w, EFANIC_QP_SRD);
	assert_int_equal(efanic_post_recv(w.b.qp, 1, sge, 4), -EINVAL);
	assert_int_equal(efanic_post_recv(w.b.qp, 1, sge, -1), -EINVAL);
	assert_int_equal(efanic_post_recv_credits(w.b.qp, 1), -EINVAL);
	for (int round = 0; round < 3; round++) { /* around the ring */
		for (uint64_t i = 0; i < 16; i++)
			assert_int_equal(efanic_post_recv(w.b.qp, i, sge, 1), 0);
		assert_int_equal(efanic_post_recv(w.b.qp, 16, sge, 1), -ENOMEM);
		for (uint64_t i = 0; i < 11; i++)
			assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
		settle(&w);
		assert_int_equal(w.b.cnt, 11);
		assert_int_equal(last(&w.b)->wc.wr_id, 10);
		w.b.cnt = w.a.cnt = 0;
		for (uint64_t i = 0; i < 5; i++)
			assert_int_equal(send_to(&w.a, w.ab, i, &g_byte, 1), 0);
		settle(&w);
		assert_int_equal(last(&w.b)->wc.wr_id, 15);
		w.b.cnt = w.a.cnt = 0;
	}
	world_close(&w);
}

static void posted__too_short_and_none(void **state)
{
	char buf[4], msg[5] = "abcd";
	struct efanic_sge sge = {buf, sizeof(buf), EFANIC_LKEY_INTERNAL};
	struct world w;

	posted_open(&w, EFANIC_QP_SRD);
	assert_int_equal(send_to(&w.a, w.ab, 1, msg, 4), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_REMOTE_RNR);
	assert_int_equal(efanic_post_recv(w.b.qp, 9, &sge, 1), 0);
	assert_int_equal(send_to(&w.a, w.ab, 2, msg, 5), 0);
	settle(&w);
	expect(&w.a, 2, 2, EFANIC_REMOTE_BAD_LENGTH);
	assert_int_equal(w.b.cnt, 0);
	assert_int_equal(send_to(&w.a, w.ab, 3, msg, 4), 0);
	settle(&w);
	expect(&w.b, 1, 9, EFANIC_OK);
	world_close(&w);
}

static void posted__lkeys(void **state)
{
	char buf[8];
	struct efanic_mr_attr attr = {buf, sizeof(buf), EFANIC_ACCESS_LOCAL_WRITE};
	struct efanic_mr *gone, *readonly, *good;
	struct efanic_sge sge = {buf, sizeof(buf), 0};
	struct world w;

	posted_open(&w, EFANIC_QP_SRD);
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &gone), 0);
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &good), 0);
	attr.access = 0;
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &readonly), 0);
	sge.lkey = efanic_mr_lkey(gone);
	assert_int_equal(efanic_post_recv(w.b.qp, 1, &sge, 1), 0);
	sge.lkey = efanic_mr_lkey(readonly);
	assert_int_equal(efanic_post_recv(w.b.qp, 2, &sge, 1), 0);
	sge.lkey = efanic_mr_lkey(good);
	assert_int_equal(efanic_post_recv(w.b.qp, 3, &sge, 1), 0);
	efanic_mr_dereg(gone);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_int_equal(w.b.cnt, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct efanic_wc *wc = &w.b.seen[i].wc;

		assert_int_equal(wc->status,
				 wc->wr_id == 3 ? EFANIC_OK : EFANIC_LOCAL_INVALID_LKEY);
		assert_int_equal(wc->opcode, EFANIC_OP_RECV);
	}
	assert_int_equal(buf[0], g_byte);
	efanic_mr_dereg(readonly);
	efanic_mr_dereg(good);
	world_close(&w);
}

static void posted__write_imm_takes_a_buffer(void **state)
{
	char buf[4] = "abc";
	struct efanic_sge sge = {buf, sizeof(buf), EFANIC_LKEY_INTERNAL};
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	struct world w;
	size_t len;

	posted_open(&w, EFANIC_QP_SRD);
	len = efanic_pkt_encode(EFANIC_PKT_WRITE_IMM, QKEY_B, 5, 1000, frame);
	fake_write(w.b.qp->port, 1000);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), EFANIC_REMOTE_RNR);
	assert_int_equal(efanic_post_recv(w.b.qp, 9, &sge, 1), 0);
	assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	settle(&w);
	expect(&w.b, 1, 9, EFANIC_OK);
	assert_int_equal(last(&w.b)->wc.opcode, EFANIC_OP_RECV_RDMA_IMM);
	assert_int_equal(last(&w.b)->wc.byte_len, 1000);
	assert_string_equal(buf, "abc");
	world_close(&w);
}

/* What a WRITE_IMM says was written must have come, and is told once. */
static void write_imm__claims_what_was_written(void **state)
{
	static const struct {
		uint32_t written, len;
		int want;
	} row[] = {
		{0, 1, EFANIC_REMOTE_BAD_LENGTH},
		{0, 0, 0},
		{999, 1000, EFANIC_REMOTE_BAD_LENGTH},
		{1, 1000, 0},
		{0, 1, EFANIC_REMOTE_BAD_LENGTH},
		{1500, 1000, 0},
		{0, 501, EFANIC_REMOTE_BAD_LENGTH},
		{0, UINT32_MAX, EFANIC_REMOTE_BAD_LENGTH},
		{0, 500, 0},
	};
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	unsigned taken = 0, drops = 0;
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, ARRAY_SIZE(row));
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		size_t len = efanic_pkt_encode(EFANIC_PKT_WRITE_IMM, QKEY_B, 5, row[i].len, frame);

		fake_write(w.b.qp->port, row[i].written);
		assert_int_equal(fake_inject(w.b.qp->port, &from, frame, len), row[i].want);
		taken += !row[i].want;
		drops += row[i].want != 0;
		settle(&w);
		assert_int_equal(w.b.cnt, taken);
		assert_int_equal(w.b.qp->drops[EFANIC_DROP_CLAIM], drops);
		assert_true(!taken || row[i].want || last(&w.b)->wc.byte_len == row[i].len);
	}
	assert_int_equal(w.b.qp->credits, ARRAY_SIZE(row) - taken);
	world_close(&w);
}

/* --- UD --- */

static void ud__grh_comes_first(void **state)
{
	uint8_t buf[EFANIC_UD_GRH_LEN + 16] = {0};
	struct efanic_sge sge = {buf, sizeof(buf), EFANIC_LKEY_INTERNAL};
	struct world w;

	posted_open(&w, EFANIC_QP_UD);
	assert_int_equal(efanic_post_recv(w.b.qp, 9, &sge, 1), 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, "payload", 8), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	expect(&w.b, 1, 9, EFANIC_OK);
	assert_int_equal(last(&w.b)->wc.byte_len, EFANIC_UD_GRH_LEN + 8);
	assert_string_equal((char *)buf + EFANIC_UD_GRH_LEN, "payload");
	assert_int_equal(buf[0] >> 4, 6);
	assert_memory_equal(buf + 8, efanic_attr(w.nic)->gid, 16);
	assert_memory_equal(buf + 24, efanic_attr(w.nic)->gid, 16);
	assert_int_equal(last(&w.b)->wc.src_qpn, efanic_qp_qpn(w.a.qp));
	assert_int_equal(last(&w.b)->wc.src_ahn, w.ahn);
	world_close(&w);
}

/* Nothing that happens to a datagram is the sender's business. */
static void ud__losses_are_silent(void **state)
{
	uint8_t buf[EFANIC_UD_GRH_LEN + 4];
	struct efanic_sge sge = {buf, sizeof(buf), EFANIC_LKEY_INTERNAL};
	struct efanic_stats stats;
	struct efanic_dst *dst;
	struct world w;

	posted_open(&w, EFANIC_QP_UD);
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0); /* no buffer */
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_int_equal(efanic_post_recv(w.b.qp, 9, &sge, 1), 0);
	assert_int_equal(send_to(&w.a, w.ab, 2, "12345", 5), 0); /* too long */
	settle(&w);
	expect(&w.a, 2, 2, EFANIC_OK);
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, efanic_qp_qpn(w.b.qp), QKEY_B + 1, &dst), 0);
	assert_ptr_not_equal(dst, w.ab);
	assert_int_equal(send_to(&w.a, dst, 3, &g_byte, 1), 0); /* wrong Q_Key */
	settle(&w);
	expect(&w.a, 3, 3, EFANIC_OK);
	g_fake.send_rc = -ECONNREFUSED; /* nobody there */
	g_fake.send_rc_cnt = 1;
	assert_int_equal(send_to(&w.a, w.ab, 4, &g_byte, 1), 0);
	settle(&w);
	expect(&w.a, 4, 4, EFANIC_OK);
	assert_int_equal(w.b.cnt, 0);
	efanic_qp_query_stats(w.b.qp, &stats);
	assert_int_equal(stats.rx_drops, 3);
	assert_int_equal(stats.qkey_violations, 1);
	assert_int_equal(stats.rnr_naks_tx, 0);
	efanic_dst_put(dst);
	world_close(&w);
}

static void ud__no_rdma_frames(void **state)
{
	struct link_addr from = {.port = 99, .nonce = 3};
	uint8_t frame[EFANIC_HDR_MAX];
	struct world w;
	size_t len;

	posted_open(&w, EFANIC_QP_UD);
	len = efanic_pkt_encode(EFANIC_PKT_WRITE_IMM, QKEY_B, 5, 1000, frame);
	assert_int_not_equal(fake_inject(w.b.qp->port, &from, frame, len), 0);
	assert_int_equal(w.b.qp->drops[EFANIC_DROP_OP], 1);
	world_close(&w);
}

static void ud__waits_for_room(void **state)
{
	uint8_t buf[EFANIC_UD_GRH_LEN + 4];
	struct efanic_sge sge = {buf, sizeof(buf), EFANIC_LKEY_INTERNAL};
	struct world w;

	posted_open(&w, EFANIC_QP_UD);
	assert_int_equal(efanic_post_recv(w.b.qp, 9, &sge, 1), 0);
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = 2;
	assert_int_equal(send_to(&w.a, w.ab, 1, &g_byte, 1), 0);
	assert_int_equal(efanic_sq_free(w.a.qp), 15);
	efanic_poll(w.a.qp);
	settle(&w);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_int_equal(w.b.cnt, 1);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credit__one_per_packet),
		cmocka_unit_test(credit__limits),
		cmocka_unit_test(wc__fields_and_payload),
		cmocka_unit_test(stranger__can_be_answered_and_held),
		cmocka_unit_test(stranger__ahn_follows_handles),
		cmocka_unit_test(stranger__held_before_its_handle),
		cmocka_unit_test(stranger__held_after_its_handle),
		cmocka_unit_test(park__adapter_thread_takes_packets),
		cmocka_unit_test(park__adapter_thread_retries),
		cmocka_unit_test(park__close_drops_unseen_packets),
		cmocka_unit_test(park__no_memory_is_rnr),
		cmocka_unit_test(qkey__mismatch_is_bad_qpn),
		cmocka_unit_test(state__not_ready_is_bad_qpn),
		cmocka_unit_test(malformed__counted_and_refused),
		cmocka_unit_test(malformed__random),
		cmocka_unit_test(posted__scatters),
		cmocka_unit_test(posted__limits),
		cmocka_unit_test(posted__too_short_and_none),
		cmocka_unit_test(posted__lkeys),
		cmocka_unit_test(posted__write_imm_takes_a_buffer),
		cmocka_unit_test(write_imm__claims_what_was_written),
		cmocka_unit_test(ud__grh_comes_first),
		cmocka_unit_test(ud__losses_are_silent),
		cmocka_unit_test(ud__no_rdma_frames),
		cmocka_unit_test(ud__waits_for_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
