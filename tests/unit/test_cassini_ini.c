// SPDX-License-Identifier: BSD-2-Clause
// Commands: checks, packets, events, order, fences, full paths, rendezvous, death of the peer, closing.
#include "cassini_inifake.h"

static struct world w;

/* The path to the peer is full for the next @n frames. */
static void path_full(unsigned n)
{
	g_inifake.send_rc = -EAGAIN;
	g_inifake.send_rc_cnt = n;
}

/* --- checks --- */

static void post__refuses_what_is_malformed(void **state)
{
	struct cassini_cmd bad;

	world_open(&w, 8, 8);
#define REFUSED(opcode_, len_, flags_, what_)                                                                          \
	do {                                                                                                           \
		bad = cmd_of(&w, opcode_, 0, len_, flags_);                                                            \
		what_;                                                                                                 \
		assert_int_equal(cassini_post(w.cq, &bad), -EINVAL);                                                   \
	} while (0)
	REFUSED(CASSINI_OP_PUT, 8, 0, bad.opcode = CASSINI_OP_NUM);
	REFUSED(CASSINI_OP_PUT, 8, 0, bad.opcode = 255);
	REFUSED(CASSINI_OP_PUT, 8, 0, bad.dom = NULL);
	REFUSED(CASSINI_OP_PUT, 8, 0, bad.local_addr = NULL);
	REFUSED(CASSINI_OP_GET, 8, 0, bad.local_addr = NULL);
	REFUSED(CASSINI_OP_PUT, 8, 0, bad.pid = CASSINI_PID_ANY);
	REFUSED(CASSINI_OP_PUT, 8, 0, bad.nic = CASSINI_NIC_MAX + 1);
	REFUSED(CASSINI_OP_PUT, 193, CASSINI_CMD_INLINE, );
	REFUSED(CASSINI_OP_PUT, 225, CASSINI_CMD_INLINE | CASSINI_CMD_RESTRICTED, );
	REFUSED(CASSINI_OP_GET, 8, CASSINI_CMD_INLINE, );
	REFUSED(CASSINI_OP_RENDEZVOUS_PUT, 8, CASSINI_CMD_INLINE, );
	REFUSED(CASSINI_OP_RENDEZVOUS_PUT, 8, CASSINI_CMD_RESTRICTED, );
	REFUSED(CASSINI_OP_RENDEZVOUS_PUT, 8, 0, bad.eager_length = 9);
	REFUSED(CASSINI_OP_RENDEZVOUS_PUT, 20000, 0, bad.eager_length = CASSINI_FRAME_DATA + 1);
	REFUSED(CASSINI_OP_PUT, 8, CASSINI_CMD_HRP, );
	REFUSED(CASSINI_OP_GET, 8, CASSINI_CMD_HRP | CASSINI_CMD_RESTRICTED, );
	REFUSED(CASSINI_OP_ATOMIC, 4, 0, );
	REFUSED(CASSINI_OP_ATOMIC, 8, 0, bad.atomic_op = CASSINI_AMO_OP_NUM);
	REFUSED(CASSINI_OP_ATOMIC, 8, 0, bad.atomic_op = 3);
	REFUSED(CASSINI_OP_ATOMIC, 8, 0, bad.atomic_type = CASSINI_T_NUM);
	REFUSED(CASSINI_OP_ATOMIC, 8, 0, (bad.atomic_op = CASSINI_AMO_CSWAP, bad.cswap_op = CASSINI_CSWAP_NUM));
	REFUSED(CASSINI_OP_FETCHING_ATOMIC, 8, 0, bad.fetch_addr = NULL);
#undef REFUSED
	w.cp->vni = 11;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 8, 0), -EACCES);
	assert_int_equal(g_inifake.sents, 0);
	assert_true(cassini_eq_free(w.eq) == 8 && cassini_cmdq_free(w.cq) == 8);
	world_close(&w);
}

static void cmdq_open__limits(void **state)
{
	struct cassini_cmdq_attr attr = {.depth = 0};
	struct cassini_cmdq *cq = NULL;

	world_open(&w, 8, 8);
	attr.cp = w.cp;
	assert_int_equal(cassini_cmdq_open(&w.lni, &attr, &cq), -EINVAL);
	attr.depth = 1;
	attr.cp = NULL;
	assert_int_equal(cassini_cmdq_open(&w.lni, &attr, &cq), -EINVAL);
	attr.cp = w.cp;
	mem_fail_nth(1);
	assert_int_equal(cassini_cmdq_open(&w.lni, &attr, &cq), -ENOMEM);
	mem_fail_nth(0);
	w.lni.svc.max[CASSINI_RSRC_TXQ] = 1;
	assert_int_equal(cassini_cmdq_open(&w.lni, &attr, &cq), -ENOSPC);
	assert_null(cq);
	cassini_cmdq_close(NULL);
	world_close(&w);
}

static void post__full_queue_and_full_eq(void **state)
{
	world_open(&w, 2, 3);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 8, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 8, CASSINI_CMD_EV_SEND), -EAGAIN); /* needs two */
	assert_int_equal(cassini_eq_free(w.eq), 1);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 8, CASSINI_CMD_NO_EVENT), 0); /* it might fail */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 8, 0), -EAGAIN);
	assert_int_equal(g_inifake.sents, 2);
	sent_end(0, 0);
	sent_end(1, 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 9, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 9, 0), -EAGAIN); /* the event of the first is still there */
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 10, 0), 0);
	sent_end(2, 0);
	sent_end(3, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 9);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 10);
	cassini_eq_close(w.eq);
	w.eq = NULL;
	for (int i = 0; i < 3; i++)
		assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 8, 0), 0);
	assert_true(cassini_cmdq_free(w.cq) == 0 && post(&w, CASSINI_OP_PUT, 0, 8, 0) == -EAGAIN);
	for (unsigned i = 4; i < 7; i++)
		sent_end(i, 0);
	world_close(&w);
}

/* --- packets --- */

static void put__header_is_that_of_the_encoder(void **state)
{
	static const uint32_t lens[] = {0, 1, 192, 208, 209, 224, CASSINI_FRAME_DATA};
	static const uint32_t flags[] = {0, CASSINI_CMD_FLUSH, CASSINI_CMD_RESTRICTED,
					 CASSINI_CMD_RESTRICTED | CASSINI_CMD_HRP};
	uint8_t want[CASSINI_ENCODE_MAX];

	world_open(&w, 64, 64);
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(lens) * ARRAY_SIZE(flags); i++) {
		uint32_t len = lens[i / 2 / ARRAY_SIZE(flags)], f = flags[i / 2 % ARRAY_SIZE(flags)];
		struct cassini_cmd cmd = cmd_of(&w, CASSINI_OP_PUT, 200, len, f);
		bool is_one = i % 2 && len <= LINK_OWN_MAX - CASSINI_PUT_HDR && !(f & CASSINI_CMD_HRP);
		struct cassini_pkt_in pkt;

		g_inifake.has_direct = i % 2;
		assert_int_equal(cassini_post(w.cq, &cmd), 0);
		assert_int_equal(g_inifake.sent[i].is_one, is_one);
		pkt = sent_pkt(i);
		assert_int_equal(pkt.op, CASSINI_PKT_PUT);
		assert_int_equal(pkt.pid_idx, 200);
		assert_int_equal(pkt.vni, FAKE_VNI);
		assert_int_equal(pkt.pid, 1);
		assert_int_equal(pkt.initiator, w.dom.match_id);
		assert_int_equal(pkt.request_len, len);
		assert_int_equal(pkt.payload_len, len);
		assert_int_equal(pkt.remote_offset, cmd.remote_offset);
		assert_true(pkt.match_bits == cmd.match_bits && pkt.header_data == cmd.header_data);
		assert_int_equal(!!(pkt.flags & CASSINI_PKTF_RESTRICTED), !!(f & CASSINI_CMD_RESTRICTED));
		assert_int_equal(!!(pkt.flags & CASSINI_PKTF_FLUSH), !!(f & CASSINI_CMD_FLUSH));
		assert_int_equal(!!(pkt.flags & CASSINI_PKTF_HRP), !!(f & CASSINI_CMD_HRP));
		assert_int_equal(cassini_pkt_encode(&pkt, want), CASSINI_PUT_HDR);
		assert_memory_equal(g_inifake.sent[i].buf, want, CASSINI_PUT_HDR);
		assert_memory_equal(g_inifake.sent[i].buf + CASSINI_PUT_HDR, w.mem, len);
		assert_int_equal(g_inifake.sent[i].is_one, is_one);
		sent_end(i, 0);
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, len);
	}
	assert_int_equal(g_inifake.regions, 0);
	assert_int_equal(w.nic.stats.puts, 2 * ARRAY_SIZE(lens) * ARRAY_SIZE(flags));
	world_close(&w);
}

static void put_bulk__region_lives_until_the_reply(void **state)
{
	const uint32_t len = CASSINI_FRAME_DATA + 1;
	struct cassini_pkt_in pkt;

	world_open(&w, 8, 8);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 1, len, 0), 0);
	pkt = sent_pkt(0);
	assert_int_equal(pkt.op, CASSINI_PKT_PUT_BULK);
	assert_int_equal(g_inifake.offered, len);
	assert_int_equal(pkt.payload_len, 0);
	assert_int_equal(pkt.request_len, len);
	assert_true(pkt.region == 1 && pkt.raddr == (uintptr_t)w.mem);
	assert_ptr_equal(g_inifake.region[0].addr, w.mem);
	assert_int_equal(g_inifake.region[0].len, len);
	assert_int_equal(g_inifake.region[0].rights, LINK_GET);
	sent_end(0, CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	expect_none(&w);
	assert_int_equal(g_inifake.regions_live, 1);
	answer(&w, 0, CASSINI_RC_OK, CASSINI_OVERFLOW, NULL, len);
	assert_int_equal(g_inifake.regions_live, 0);
	assert_int_equal(cassini_eq_peek(w.eq)->ptl_list, CASSINI_OVERFLOW);
	assert_int_equal(cassini_eq_peek(w.eq)->rlength, len);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, len);
	/* refused: nothing more is to come */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 1, len, 0), 0);
	sent_end(1, CASSINI_RC_PT_DISABLED);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_PT_DISABLED, len);
	world_close(&w);
}

static void get__in_a_frame_and_by_region(void **state)
{
	const uint32_t big = CASSINI_FRAME_DATA + 1;
	struct cassini_pkt_in pkt;
	uint8_t data[100];

	world_open(&w, 8, 8);
	memset(data, 0xab, sizeof(data));
	assert_int_equal(post(&w, CASSINI_OP_GET, 1, 100, 0), 0);
	pkt = sent_pkt(0);
	assert_int_equal(pkt.op, CASSINI_PKT_GET);
	assert_int_equal(pkt.region, 0);
	sent_end(0, 0);
	expect_none(&w);
	answer(&w, 0, CASSINI_RC_OK, CASSINI_PRIORITY, data, 60); /* the entry had less */
	assert_memory_equal(w.mem, data, 60);
	assert_int_equal(w.mem[60], (uint8_t)(60 * 7));
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_OK, 100);
	/* the answer overtakes the verdict */
	assert_int_equal(post(&w, CASSINI_OP_GET, 1, big, 0), 0);
	pkt = sent_pkt(1);
	assert_int_equal(pkt.region, 1);
	assert_true(pkt.raddr == (uintptr_t)w.mem);
	assert_int_equal(g_inifake.region[0].rights, LINK_PUT);
	answer(&w, 1, CASSINI_RC_OK, CASSINI_PRIORITY, NULL, big);
	expect_none(&w);
	sent_end(1, 0);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_OK, big);
	/* refused, and failed later */
	assert_int_equal(post(&w, CASSINI_OP_GET, 1, 8, 0), 0);
	sent_end(2, CASSINI_RC_ENTRY_NOT_FOUND);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_ENTRY_NOT_FOUND, 8);
	assert_int_equal(post(&w, CASSINI_OP_GET, 1, 8, CASSINI_CMD_NO_EVENT), 0);
	sent_end(3, 0);
	answer(&w, 3, CASSINI_RC_ADDR_OUT_OF_RANGE, CASSINI_PRIORITY, NULL, 0);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_ADDR_OUT_OF_RANGE, 8);
	world_close(&w);
}

static void zero_lengths__are_legal(void **state)
{
	static const enum cassini_opcode op[] = {CASSINI_OP_PUT, CASSINI_OP_GET, CASSINI_OP_RENDEZVOUS_PUT};

	world_open(&w, 8, 8);
	for (unsigned i = 0; i < ARRAY_SIZE(op); i++) {
		struct cassini_cmd cmd = cmd_of(&w, op[i], 0, 0, 0);

		cmd.local_addr = NULL;
		assert_int_equal(cassini_post(w.cq, &cmd), 0);
		assert_int_equal(sent_pkt(i).request_len, 0);
		sent_end(i, 0);
	}
	answer(&w, 1, CASSINI_RC_OK, CASSINI_PRIORITY, NULL, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 0);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_OK, 0);
	assert_int_equal(g_inifake.regions, 0);
	cassini_ini_got(&w.dom, &w.peer[1], sent_pkt(2).handle, 0x77000000);
	world_close(&w);
}

static void atomic__operands_and_ack(void **state)
{
	struct cassini_pkt_in pkt;

	world_open(&w, 8, 8);
	assert_int_equal(post(&w, CASSINI_OP_ATOMIC, 20, 8, 0), 0);
	pkt = sent_pkt(0);
	assert_int_equal(pkt.op, CASSINI_PKT_ATOMIC);
	assert_int_equal(pkt.amo.op, CASSINI_AMO_SUM);
	assert_int_equal(pkt.amo.type, CASSINI_T_U64);
	assert_int_equal(pkt.amo.op1[0], 5);
	assert_int_equal(pkt.amo.op2[1], 8);
	sent_end(0, CASSINI_RC_AMO_ALIGN_ERROR);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_AMO_ALIGN_ERROR, 8);
	assert_int_equal(w.nic.stats.atomics, 1);
	world_close(&w);
}

static void fetch__old_value_comes_back(void **state)
{
	uint64_t old = 0x1234567812345678, got;

	world_open(&w, 8, 8);
	assert_int_equal(post(&w, CASSINI_OP_FETCHING_ATOMIC, 20, 8, 0), 0);
	assert_int_equal(sent_pkt(0).op, CASSINI_PKT_FETCH);
	sent_end(0, 0);
	answer(&w, 0, CASSINI_RC_OK, CASSINI_PRIORITY, &old, 8);
	memcpy(&got, w.mem + 60000, 8);
	assert_true(got == old);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_OK, 8);
	world_close(&w);
}

static void reply__only_for_who_waits(void **state)
{
	struct cassini_pkt_in pkt;
	struct view none = view_of(NULL, 0), some = view_of(w.mem, 4);

	world_open(&w, 16, 16);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 1, 8, 0), 0);      /* expects none */
	assert_int_equal(post(&w, CASSINI_OP_GET, 1, 8, 0), 0);
	pkt = (struct cassini_pkt_in){.op = CASSINI_PKT_REPLY, .rc = CASSINI_RC_OK, .request_len = 4};
	pkt.handle = slab_id(&w.dom.ops, g_inifake.sent[0].work);
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &none);
	pkt.handle = sent_pkt(1).handle + 1000;
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &some);
	pkt.handle = sent_pkt(1).handle;
	cassini_ini_reply(&w.dom, &w.peer[2], &pkt, &some); /* another peer */
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &none); /* bytes missing */
	pkt.request_len = 9;
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &some); /* more than asked */
	pkt.request_len = 4;
	pkt.rc = CASSINI_RC_NO_EVENT;
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &some);
	pkt.rc = CASSINI_RC_OK;
	pkt.ptl_list = CASSINI_LIST_NUM;
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &some);
	pkt.ptl_list = 0;
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &some);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_OK, 8); /* before the verdict, which frees it */
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &some); /* twice */
	assert_int_equal(w.nic.stats.malformed, 8);
	sent_end(0, 0);
	sent_end(1, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_true(!slab_used(&w.dom.ops) && cassini_cmdq_is_idle(w.cq));
	cassini_ini_reply(&w.dom, &w.peer[1], &pkt, &some); /* late */
	assert_int_equal(w.nic.stats.malformed, 9);
	world_close(&w);
}

/* --- events and counts --- */

static void status_rc__all(void **state)
{
	uint8_t list = 99;

	assert_int_equal(cassini_status_rc(0, &list), CASSINI_RC_OK);
	assert_int_equal(list, CASSINI_PRIORITY);
	for (int rc = 2; rc < CASSINI_VERDICT_LIST; rc++)
		assert_int_equal(cassini_status_rc(rc, &list), rc);
	for (int l = 0; l < CASSINI_LIST_NUM; l++) {
		assert_int_equal(cassini_status_rc(CASSINI_VERDICT_LIST + l, &list), CASSINI_RC_OK);
		assert_int_equal(list, l);
	}
	assert_int_equal(cassini_status_rc(CASSINI_VERDICT_LIST + CASSINI_LIST_NUM, &list), CASSINI_RC_UNCOR);
	assert_int_equal(cassini_status_rc(LINK_NAK_MAX, &list), CASSINI_RC_UNCOR);
	assert_int_equal(cassini_status_rc(-ECANCELED, &list), CASSINI_RC_CANCELED);
	assert_int_equal(cassini_status_rc(-ECONNREFUSED, &list), CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(cassini_status_rc(-EHOSTUNREACH, &list), CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(cassini_status_rc(-ETIMEDOUT, &list), CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(cassini_status_rc(-EPROTO, &list), CASSINI_RC_UNDELIVERABLE);
}

static void events__no_event_send_and_list(void **state)
{
	world_open(&w, 8, 8);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, CASSINI_CMD_NO_EVENT), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 2, CASSINI_CMD_NO_EVENT), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 3, CASSINI_CMD_EV_SEND), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 4, CASSINI_CMD_EV_SEND | CASSINI_CMD_NO_EVENT), 0);
	sent_end(0, 0);
	expect_none(&w);
	sent_end(1, CASSINI_RC_OP_VIOLATION);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OP_VIOLATION, 2);
	sent_end(2, CASSINI_VERDICT_LIST + CASSINI_REQUEST);
	expect_event(&w, CASSINI_EV_SEND, CASSINI_RC_OK, 3);
	assert_int_equal(cassini_eq_peek(w.eq)->ptl_list, CASSINI_REQUEST);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 3);
	sent_end(3, 0);
	expect_event(&w, CASSINI_EV_SEND, CASSINI_RC_OK, 4);
	expect_none(&w);
	world_close(&w);
}

static void counts__operations_bytes_failures(void **state)
{
	static const struct { uint32_t flags; int status; uint64_t success, failure; } row[] = {
		{0, 0, 0, 0},
		{CASSINI_CMD_CT_ACK, 0, 1, 0},
		{CASSINI_CMD_CT_ACK | CASSINI_CMD_CT_BYTES, 0, 50, 0},
		{CASSINI_CMD_CT_ACK | CASSINI_CMD_CT_BYTES, CASSINI_RC_DROPPED, 0, 1},
		{CASSINI_CMD_CT_ACK | CASSINI_CMD_NO_EVENT, 0, 1, 0},
		{CASSINI_CMD_CT_ACK, -ETIMEDOUT, 0, 1},
	};
	struct cassini_cmd cmd;
	struct cassini_ct *ct;
	uint64_t s, f;

	world_open(&w, 8, 8);
	assert_int_equal(cassini_ct_open(&w.lni, NULL, &ct), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		cassini_ct_set(ct, 0, 0);
		cmd = cmd_of(&w, CASSINI_OP_PUT, 0, 50, row[i].flags);
		cmd.ct = ct;
		cmd.eq = NULL; /* nowhere, errors included */
		assert_int_equal(cassini_post(w.cq, &cmd), 0);
		sent_end(i, row[i].status);
		cassini_ct_get(ct, &s, &f);
		assert_int_equal(s, row[i].success);
		assert_int_equal(f, row[i].failure);
		expect_none(&w);
	}
	cassini_ct_close(ct);
	world_close(&w);
}

static void hrp__is_acknowledged_by_the_switch(void **state)
{
	world_open(&w, 8, 8);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 8, CASSINI_CMD_HRP | CASSINI_CMD_RESTRICTED), 0);
	sent_end(0, CASSINI_RC_ENTRY_NOT_FOUND);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 9, CASSINI_CMD_HRP | CASSINI_CMD_RESTRICTED), 0);
	sent_end(1, -EHOSTUNREACH);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 9);
	/* too large to be fired and forgotten */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20000, CASSINI_CMD_HRP | CASSINI_CMD_RESTRICTED), 0);
	sent_end(2, CASSINI_RC_ENTRY_NOT_FOUND);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_ENTRY_NOT_FOUND, 20000);
	world_close(&w);
}

static void doorbell__waits_for_the_last(void **state)
{
	world_open(&w, 8, 8);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, CASSINI_CMD_MORE), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 2, CASSINI_CMD_MORE), 0);
	assert_int_equal(g_inifake.doorbells, 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 3, 0), 0);
	assert_int_equal(g_inifake.doorbells, 1);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 4, CASSINI_CMD_MORE), 0);
	cassini_doorbell(w.cq);
	cassini_doorbell(w.cq);
	assert_int_equal(g_inifake.doorbells, 2);
	for (unsigned i = 0; i < 4; i++) {
		sent_end(i, 0);
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, i + 1);
	}
	assert_int_equal(g_inifake.peer_gets, 1); /* it remembers to whom */
	world_close(&w);
}

/* --- order --- */

static void path_full__nothing_happened(void **state)
{
	world_open(&w, 8, 8);
	path_full(4);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 8, CASSINI_CMD_EV_SEND), -EAGAIN);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20000, 0), -EAGAIN);
	assert_int_equal(post(&w, CASSINI_OP_GET, 20, 20000, 0), -EAGAIN);
	assert_int_equal(post(&w, CASSINI_OP_RENDEZVOUS_PUT, 0, 20000, 0), -EAGAIN);
	assert_int_equal(cassini_eq_free(w.eq), 8);
	assert_int_equal(slab_used(&w.dom.ops), 0);
	assert_int_equal(g_inifake.regions_live, 0);
	assert_true(cassini_cmdq_is_idle(w.cq));
	g_inifake.region_rc = -ENOSPC;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20000, 0), -EAGAIN);
	g_inifake.peer_rc = -ENOMEM;
	w.cq->last = NULL;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 8, 0), -EAGAIN);
	assert_int_equal(slab_used(&w.dom.ops), 0);
	world_close(&w);
}

static void ordered__waits_for_the_bulk_put(void **state)
{
	const uint32_t big = 20000;

	world_open(&w, 16, 16);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, big, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, 0), 0);                        /* a message passes */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 255, 2, CASSINI_CMD_RESTRICTED), 0); /* no order */
	assert_int_equal(post(&w, CASSINI_OP_GET, 20, 3, 0), 0);                       /* no write */
	assert_int_equal(g_inifake.sents, 4);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 21, 4, CASSINI_CMD_INLINE), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 5, 0), 0);                        /* behind it in this queue */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 22, 6, CASSINI_CMD_RESTRICTED), 0);
	assert_int_equal(g_inifake.sents, 5);
	assert_int_equal(sent_pkt(4).request_len, 6);
	w.mem[0] = 0xee;
	sent_end(0, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 0);
	answer(&w, 0, CASSINI_RC_OK, CASSINI_PRIORITY, NULL, big);
	assert_int_equal(g_inifake.sents, 5); /* polls go on, nobody else */
	assert_int_equal(cassini_cmdq_kick(&w.dom), 2);
	assert_int_equal(sent_pkt(5).request_len, 4);
	assert_int_equal(g_inifake.sent[5].buf[CASSINI_PUT_HDR], 0); /* INLINE: as it was */
	assert_int_equal(sent_pkt(6).request_len, 5);
	assert_true(LIST_EMPTY(&w.dom.cmdqs));
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, big);
	for (unsigned i = 1; i < 7; i++)
		sent_end(i, 0);
	answer(&w, 3, CASSINI_RC_OK, CASSINI_PRIORITY, w.mem, 3);
	for (unsigned i = 1; i < 7; i++)
		cassini_eq_pop(w.eq);
	world_close(&w);
}

static void ordered__other_queue_other_peer(void **state)
{
	struct cassini_cmdq_attr attr = {.depth = 4};
	struct cassini_cmdq *first;
	struct cassini_cmd cmd;

	world_open(&w, 16, 16);
	attr.cp = w.cp;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20000, 0), 0);
	first = w.cq;
	assert_int_equal(cassini_cmdq_open(&w.lni, &attr, &w.cq), 0);
	cmd = cmd_of(&w, CASSINI_OP_PUT, 20, 20001, 0);
	cmd.pid = 2;
	assert_int_equal(cassini_post(w.cq, &cmd), 0); /* another peer */
	assert_int_equal(g_inifake.sents, 2);
	assert_int_equal(post(&w, CASSINI_OP_ATOMIC, 20, 8, 0), 0);
	assert_int_equal(g_inifake.sents, 2);
	sent_end(0, CASSINI_RC_ENTRY_NOT_FOUND); /* also a refusal is an end */
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	sent_end(1, CASSINI_RC_ENTRY_NOT_FOUND);
	sent_end(2, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_ENTRY_NOT_FOUND, 20000);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_ENTRY_NOT_FOUND, 20001);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	cassini_cmdq_close(first);
	world_close(&w);
}

static void fence__waits_for_all_before(void **state)
{
	world_open(&w, 16, 16);
	assert_int_equal(cassini_fence(w.cq), 0); /* nothing before it */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 2, CASSINI_CMD_RESTRICTED), 0);
	assert_int_equal(g_inifake.sents, 2);
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 3, CASSINI_CMD_RESTRICTED), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 4, 0), 0);
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 5, CASSINI_CMD_RESTRICTED), 0);
	assert_int_equal(g_inifake.sents, 2);
	sent_end(1, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 0);
	sent_end(0, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 2);
	sent_end(2, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 0);
	sent_end(3, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	sent_end(4, 0);
	for (unsigned i = 0; i < 5; i++)
		cassini_eq_pop(w.eq);
	/* a post that was refused leaves the fence to the next */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 6, 0), 0);
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 193, CASSINI_CMD_INLINE), -EINVAL);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 7, 0), 0);
	assert_int_equal(g_inifake.sents, 6);
	sent_end(5, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	sent_end(6, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 6);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 7);
	world_close(&w);
}

static void kick__full_path_keeps_the_order(void **state)
{
	world_open(&w, 16, 16);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, 0), 0);
	assert_int_equal(cassini_fence(w.cq), 0);
	for (uint32_t i = 2; i < 5; i++)
		assert_int_equal(post(&w, CASSINI_OP_PUT, 0, i, 0), 0);
	sent_end(0, 0);
	path_full(1);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 5, 0), 0); /* held, not refused */
	assert_int_equal(g_inifake.sents, 1);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 4);
	for (unsigned i = 1; i < 5; i++) {
		assert_int_equal(sent_pkt(i).request_len, i + 1);
		sent_end(i, 0);
	}
	for (unsigned i = 0; i < 5; i++)
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, i + 1);
	world_close(&w);
}

/* --- rendezvous --- */

static unsigned rdzv_post(uint32_t len, uint32_t eager)
{
	struct cassini_cmd cmd = cmd_of(&w, CASSINI_OP_RENDEZVOUS_PUT, 0, len, 0);

	cmd.eager_length = eager;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	return g_inifake.sents - 1;
}

static void rdzv__ack_then_get(void **state)
{
	struct cassini_pkt_in pkt;

	world_open(&w, 8, 8);
	rdzv_post(30000, 2048);
	pkt = sent_pkt(0);
	assert_int_equal(pkt.op, CASSINI_PKT_RPUT);
	assert_int_equal(pkt.payload_len, 2048);
	assert_int_equal(g_inifake.offered, 30000 - 2048);
	assert_int_equal(pkt.rendezvous_id, 3);
	assert_true(pkt.get_bits == 0x77000000 + 30000 && pkt.remote_offset == (uintptr_t)w.mem);
	assert_int_equal(g_inifake.region[pkt.region - 1].len, 30000);
	assert_int_equal(g_inifake.region[pkt.region - 1].rights, LINK_GET);
	sent_end(0, CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	assert_int_equal(cassini_eq_peek(w.eq)->ptl_list, CASSINI_OVERFLOW);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 30000);
	assert_true(cassini_cmdq_is_idle(w.cq)); /* the command, not the operation */
	assert_int_equal(g_inifake.regions_live, 1);
	cassini_ini_got(&w.dom, &w.peer[2], pkt.handle, pkt.get_bits); /* somebody else */
	cassini_ini_got(&w.dom, &w.peer[1], 0, pkt.get_bits + 1);
	assert_int_equal(w.nic.stats.malformed, 2);
	assert_int_equal(g_inifake.regions_live, 1);
	cassini_ini_got(&w.dom, &w.peer[1], 0, pkt.get_bits); /* by software's Get: no handle */
	assert_int_equal(g_inifake.regions_live, 0);
	assert_int_equal(slab_used(&w.dom.ops), 0);
	cassini_ini_got(&w.dom, &w.peer[1], pkt.handle, pkt.get_bits);
	assert_int_equal(w.nic.stats.malformed, 3);
	world_close(&w);
}

static void rdzv__get_before_the_verdict(void **state)
{
	struct cassini_pkt_in pkt;

	world_open(&w, 8, 8);
	rdzv_post(30000, 0);
	pkt = sent_pkt(0);
	cassini_ini_got(&w.dom, &w.peer[1], pkt.handle, pkt.get_bits);
	assert_int_equal(g_inifake.regions_live, 0);
	expect_none(&w);
	cassini_ini_got(&w.dom, &w.peer[1], pkt.handle, pkt.get_bits);
	assert_int_equal(w.nic.stats.malformed, 1);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 30000);
	assert_int_equal(slab_used(&w.dom.ops), 0);
	world_close(&w);
}

static void rdzv__refused(void **state)
{
	world_open(&w, 8, 8);
	rdzv_post(30000, 2048);
	sent_end(0, CASSINI_RC_PT_DISABLED);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_PT_DISABLED, 30000);
	assert_int_equal(g_inifake.offers_missed, 1); /* what went with it was in vain */
	assert_int_equal(g_inifake.regions_live + g_inifake.get_events, 0);
	world_close(&w);
}

static void rdzv__target_dies_before_the_get(void **state)
{
	world_open(&w, 8, 8);
	rdzv_post(30000, 2048);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 30000);
	cassini_peer_gone(&w.peer[1], w.peer[1].life);
	assert_int_equal(g_inifake.get_events, 1);
	assert_int_equal(g_inifake.get_initiator, CASSINI_MATCH_ID(1, FAKE_NIC));
	assert_int_equal(g_inifake.get_bits, 0x77000000 + 30000);
	assert_int_equal(g_inifake.get_rc, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_inifake.regions_live, 0);
	expect_none(&w);
	world_close(&w);
}

/* --- death and closing --- */

static void death__ends_what_waits_and_the_next_begins_anew(void **state)
{
	world_open(&w, 16, 16);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20000, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_GET, 20, 100, 0), 0);
	sent_end(0, 0);
	sent_end(1, 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 1, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_GET, 0, 2, 0), 0);
	sent_end(2, -ETIMEDOUT);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 1);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_UNDELIVERABLE, 100);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 20000);
	assert_int_equal(g_inifake.gone, 1);
	assert_int_equal(w.peer[1].ordered, 0);
	/* who comes then is not hurt by the rest of the bad news, and does not owe what the old one took */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 3, 0), 0);
	assert_int_equal(g_inifake.peer_gets, 2);
	sent_end(3, 0);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_UNDELIVERABLE, 2);
	assert_int_equal(g_inifake.gone, 1);
	sent_end(4, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 3);
	assert_int_equal(w.nic.stats.unreachable, 4);
	world_close(&w);
}

static void death__known_at_send_is_tried_once_more(void **state)
{
	world_open(&w, 8, 8);
	g_inifake.send_rc = -ECONNREFUSED;
	g_inifake.send_rc_cnt = 1;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20000, 0), 0);
	assert_int_equal(g_inifake.gone, 1);
	assert_int_equal(g_inifake.regions_live, 1);
	sent_end(0, CASSINI_RC_PTLTE_NOT_FOUND);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_PTLTE_NOT_FOUND, 20000);
	g_inifake.send_rc_cnt = 2;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 2, CASSINI_CMD_EV_SEND), 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 2);
	assert_int_equal(g_inifake.gone, 3);
	g_inifake.peer_rc = -ENETUNREACH;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 3, 0), 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 3);
	world_close(&w);
}

static void cmdq_close__held_are_cancelled_sent_are_silent(void **state)
{
	uint8_t data[8] = {1, 1, 1, 1, 1, 1, 1, 1};

	world_open(&w, 16, 16);
	assert_int_equal(post(&w, CASSINI_OP_GET, 0, 8, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_GET, 0, 20000, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20001, CASSINI_CMD_EV_SEND), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 1, CASSINI_CMD_EV_SEND), 0);
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 2, 0), 0);
	sent_end(1, 0);
	cassini_cmdq_close(w.cq);
	w.cq = NULL;
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_CANCELED, 1);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_CANCELED, 2);
	expect_none(&w);
	assert_int_equal(cassini_eq_free(w.eq), 16);
	assert_int_equal(g_inifake.regions_live, 0); /* nothing is fetched from a Put, or written to a Get, any more */
	sent_end(0, 0);
	answer(&w, 0, CASSINI_RC_OK, CASSINI_PRIORITY, data, 8);
	assert_int_equal(w.mem[1], 7); /* not written */
	answer(&w, 1, CASSINI_RC_PERM_VIOLATION, CASSINI_PRIORITY, NULL, 0);
	sent_end(2, 0);
	answer(&w, 2, CASSINI_RC_OK, CASSINI_PRIORITY, NULL, 20001);
	expect_none(&w);
	world_close(&w);
}

static void dom_close__everything_ends(void **state)
{
	world_open(&w, 16, 16);
	assert_int_equal(post(&w, CASSINI_OP_GET, 0, 1, 0), 0); /* waits for the answer */
	sent_end(0, 0);
	rdzv_post(30000, 10);
	sent_end(1, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 30000);
	assert_int_equal(post(&w, CASSINI_OP_GET, 0, 2, 0), 0); /* taken while the port drains */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 3, CASSINI_CMD_EV_SEND), 0); /* never */
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 4, CASSINI_CMD_MORE), 0); /* held */
	cassini_ini_close(&w.dom);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_CANCELED, 4);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_CANCELED, 1);
	expect_none(&w);
	assert_int_equal(g_inifake.get_events, 1);
	assert_int_equal(g_inifake.get_rc, CASSINI_RC_CANCELED);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 0, 5, 0), -EINVAL);
	sent_end(2, 0);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_CANCELED, 2);
	sent_end(3, -ECANCELED);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_CANCELED, 3);
	assert_int_equal(g_inifake.gone, 0);
	assert_null(w.cq->last);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(post__refuses_what_is_malformed),
		cmocka_unit_test(cmdq_open__limits),
		cmocka_unit_test(post__full_queue_and_full_eq),
		cmocka_unit_test(put__header_is_that_of_the_encoder),
		cmocka_unit_test(put_bulk__region_lives_until_the_reply),
		cmocka_unit_test(get__in_a_frame_and_by_region),
		cmocka_unit_test(zero_lengths__are_legal),
		cmocka_unit_test(atomic__operands_and_ack),
		cmocka_unit_test(fetch__old_value_comes_back),
		cmocka_unit_test(reply__only_for_who_waits),
		cmocka_unit_test(status_rc__all),
		cmocka_unit_test(events__no_event_send_and_list),
		cmocka_unit_test(counts__operations_bytes_failures),
		cmocka_unit_test(hrp__is_acknowledged_by_the_switch),
		cmocka_unit_test(doorbell__waits_for_the_last),
		cmocka_unit_test(path_full__nothing_happened),
		cmocka_unit_test(ordered__waits_for_the_bulk_put),
		cmocka_unit_test(ordered__other_queue_other_peer),
		cmocka_unit_test(fence__waits_for_all_before),
		cmocka_unit_test(kick__full_path_keeps_the_order),
		cmocka_unit_test(rdzv__ack_then_get),
		cmocka_unit_test(rdzv__get_before_the_verdict),
		cmocka_unit_test(rdzv__refused),
		cmocka_unit_test(rdzv__target_dies_before_the_get),
		cmocka_unit_test(death__ends_what_waits_and_the_next_begins_anew),
		cmocka_unit_test(death__known_at_send_is_tried_once_more),
		cmocka_unit_test(cmdq_close__held_are_cancelled_sent_are_silent),
		cmocka_unit_test(dom_close__everything_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
