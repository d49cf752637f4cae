// SPDX-License-Identifier: BSD-2-Clause
// Puts of which nothing is kept: what they look like, when they are not for now, how they come back; and copies, here
// and elsewhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cassini_inifake.h"

/* What on_lost was told. */
static struct lost {
	unsigned cnt;
	struct cassini_cmd cmd;
	uint8_t data[CASSINI_FRAME_DATA];
	uint8_t rc;
} g_lost;

static void on_lost(void *ctx, const struct cassini_cmd *cmd, uint8_t rc)
{
	assert_ptr_equal(ctx, &g_lost);
	g_lost.cnt++;
	g_lost.cmd = *cmd;
	g_lost.rc = rc;
	memcpy(g_lost.data, cmd->local_addr, cmd->request_len);
}

static void lost_open(struct world *w)
{
	world_open(w, 8, 8);
	w->cq->on_lost = on_lost;
	w->cq->ctx = &g_lost;
	memset(&g_lost, 0, sizeof(g_lost));
	g_inifake.has_direct = true;
	w->peer[1].took = 1u << 5;
}

static struct cassini_cmd put_of(struct world *w, unsigned pid_idx, uint32_t len)
{
	uint32_t flags = len <= CASSINI_IDC_MAX ? CASSINI_CMD_INLINE : 0;
	struct cassini_cmd cmd = cmd_of(w, CASSINI_OP_PUT, pid_idx, len, flags);

	cmd.eq = NULL;
	cmd.user_ptr = 0x123456789abc;
	cmd.remote_offset = 0;
	cmd.match_bits = 0x99aabbccddeeff00;
	cmd.header_data = 0x0123456789abcdef;
	return cmd;
}

static bool put_to(struct world *w, unsigned pid_idx, uint32_t len, bool is_near)
{
	struct cassini_cmd cmd = put_of(w, pid_idx, len);

	return cassini_put(w->cq, &cmd, is_near);
}

static bool put(struct world *w, uint32_t len)
{
	return put_to(w, 5, len, false);
}

static void put__is_the_put_that_any_command_makes(void **state)
{
	static const uint32_t lens[] = {0, 1, 8, 100, CASSINI_IDC_MAX, CASSINI_IDC_MAX + 1, 4096, CASSINI_FRAME_DATA};
	static uint8_t want[LINK_FRAME_MAX];
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	lost_open(&w);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		assert_true(put(&w, lens[i]));
		memcpy(want, g_inifake.direct, g_inifake.direct_len);
		cmd = put_of(&w, 5, lens[i]);
		cmd.eq = w.eq;
		cmd.user_ptr = lens[i];
		g_inifake.has_direct = i % 2 == 0; /* else a header and a gather list */
		assert_int_equal(cassini_post(w.cq, &cmd), 0);
		g_inifake.has_direct = true;
		assert_int_equal(g_inifake.sent[i].is_one, i % 2 == 0 && lens[i] <= CASSINI_IDC_MAX);
		assert_int_equal(g_inifake.direct_len, g_inifake.sent[i].len);
		assert_memory_equal(want, g_inifake.sent[i].buf, g_inifake.direct_len);
		sent_end((unsigned)i, 0);
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, lens[i]);
	}
	assert_int_equal(w.nic.stats.puts, 2 * ARRAY_SIZE(lens));
	assert_int_equal(w.nic.stats.idc, 2 * 5);
	assert_int_equal(w.cq->used, 0);
	world_close(&w);
}

static void put__not_now(void **state)
{
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put(&w, 8));
	g_inifake.directs_out = 0;
	assert_false(put(&w, CASSINI_FRAME_DATA + 1));
	g_inifake.has_direct = false;
	assert_false(put(&w, 8));
	g_inifake.has_direct = true;
	g_inifake.peer_rc = -ENETUNREACH;
	w.cq->last = NULL;
	assert_false(put(&w, 8));
	g_inifake.peer_rc = 0;
	w.lni.cp[1] = *w.cp;
	w.lni.cp[1].vni++;
	cassini_cmdq_set_cp(w.cq, &w.lni.cp[1]);
	assert_false(put(&w, 8));
	cassini_cmdq_set_cp(w.cq, w.cp);
	w.dom.closing = true;
	w.cq->last = NULL; /* as cassini_ini_close() has it */
	assert_false(put(&w, 8));
	w.dom.closing = false;
	cmd = put_of(&w, 5, 8);
	cmd.pid = CASSINI_PID_CNT;
	assert_false(cassini_put(w.cq, &cmd, false));
	/* behind a fence, and behind what a fence holds */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 8, CASSINI_CMD_INLINE), 0);
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_false(put(&w, 8));
	cmd = cmd_of(&w, CASSINI_OP_PUT, 5, 9, CASSINI_CMD_INLINE);
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_false(put(&w, 8));
	sent_end(0, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	assert_true(put(&w, 8));
	sent_end(1, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 9);
	g_inifake.directs_out = 0;
	world_close(&w);
}

static void put__only_where_one_was_taken(void **state)
{
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	lost_open(&w);
	w.peer[1].took = 0;
	assert_false(put(&w, 8));
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 8, CASSINI_CMD_INLINE), 0);
	assert_false(put(&w, 8)); /* not answered yet */
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_true(put(&w, 8));
	assert_false(put_to(&w, 6, 8, false));
	/* taken late is taken, too */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 6, 8, CASSINI_CMD_INLINE), 0);
	sent_end(1, CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_true(put_to(&w, 6, 8, false));
	/* refused: from then on one waits for the answer */
	cassini_lost(&w.dom, (void *)&w.peer[1], g_inifake.direct_tag, g_inifake.direct, g_inifake.direct_len,
		     CASSINI_RC_PTLTE_NOT_FOUND);
	assert_int_equal(g_lost.cnt, 1);
	assert_false(put_to(&w, 6, 8, false));
	assert_true(put(&w, 8));
	cmd = put_of(&w, 6, 8);
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	sent_end(2, CASSINI_RC_PTLTE_NOT_FOUND);
	expect_none(&w);
	assert_int_equal(g_lost.cnt, 2); /* there is no queue for its event */
	assert_int_equal(g_lost.cmd.user_ptr, 0x123456789abc);
	assert_int_equal(g_lost.rc, CASSINI_RC_PTLTE_NOT_FOUND);
	assert_false(put_to(&w, 6, 8, false));
	assert_false(put_to(&w, 200, 8, false)); /* a region: nobody keeps account of these */
	world_close(&w);
}

/* The peer is gone, and an answer to what was sent to it before comes late. */
static void put__not_to_who_is_gone(void **state)
{
	struct link_peer *link;
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put(&w, 8));
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 8, CASSINI_CMD_INLINE), 0);
	link = w.peer[1].link;
	w.peer[1].link = NULL; /* as cassini_peer_gone() has it */
	w.peer[1].took = 0;
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_false(put(&w, 8));
	w.peer[1].link = link;
	g_inifake.directs_out = 0;
	world_close(&w);
}

/* To another host, too, but for who says that it is done at once; what waits there is started. */
static void put__far(void **state)
{
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put_to(&w, 5, 8, true));
	assert_int_equal(g_inifake.doorbells, 0);
	g_inifake.is_far = true;
	assert_false(put_to(&w, 5, 8, true));
	assert_false(put_to(&w, 5, 4096, false)); /* no record has room for it */
	assert_true(put_to(&w, 5, 8, false));
	assert_int_equal(g_inifake.doorbells, 1);
	/* more are announced: started with the last */
	cmd = put_of(&w, 5, 8);
	cmd.flags |= CASSINI_CMD_MORE;
	assert_true(cassini_put(w.cq, &cmd, false));
	assert_int_equal(g_inifake.doorbells, 1);
	assert_true(put_to(&w, 5, 8, false));
	assert_int_equal(g_inifake.doorbells, 2);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 8, CASSINI_CMD_INLINE), 0);
	assert_int_equal(g_inifake.doorbells, 3);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	g_inifake.directs_out = 0;
	world_close(&w);
}

/* With an operation it has its place in the queue and its event, and is written in the same place. */
static void put__kept(void **state)
{
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	lost_open(&w);
	cmd = put_of(&w, 5, 8);
	cmd.eq = w.eq;
	for (unsigned i = 0; i < 8; i++) {
		cmd.user_ptr = 100 + i;
		assert_int_equal(cassini_post(w.cq, &cmd), 0);
	}
	assert_int_equal(cassini_post(w.cq, &cmd), -EAGAIN); /* depth and slots */
	assert_true(g_inifake.sent[7].is_one);
	assert_int_equal(w.cq->used, 8);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 100);
	sent_end(1, CASSINI_RC_PT_DISABLED);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_PT_DISABLED, 101);
	sent_end(2, CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	assert_int_equal(cassini_eq_peek(w.eq)->ptl_list, CASSINI_OVERFLOW);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 102);
	sent_end(3, -ECONNREFUSED);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 103);
	assert_int_equal(g_inifake.gone, 1);
	cassini_cmdq_close(w.cq); /* those under way end without event */
	for (unsigned i = 4; i < 8; i++)
		sent_end(i, 0);
	expect_none(&w);
	assert_int_equal(g_lost.cnt, 0);
	w.cq = NULL;
	world_close(&w);
}

/* What may not leave in one piece goes in two, and what may not leave at once is held. */
static void put__kept_and_not_in_place(void **state)
{
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	lost_open(&w);
	w.peer[1].took = 0; /* for what is kept it need not have taken one */
	cmd = cmd_of(&w, CASSINI_OP_PUT, 200, 8, 0);
	cmd.user_ptr = 8;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	g_inifake.has_direct = false;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	g_inifake.has_direct = true;
	w.peer[1].held = 1;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	w.peer[1].held = 0;
	cmd.request_len = LINK_OWN_MAX - CASSINI_PUT_HDR + 1;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_int_equal(g_inifake.sents, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(g_inifake.sent[i].is_one, i == 0);
	cmd.request_len = 8;
	w.peer[1].ordered = 1; /* a large write to a region is not there yet */
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_int_equal(g_inifake.sents, 4);
	w.peer[1].ordered = 0;
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_int_equal(g_inifake.sents, 5);
	assert_int_equal(slab_used(&w.dom.ops), 6);
	for (unsigned i = 0; i < 5; i++)
		sent_end(i, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	sent_end(5, 0);
	for (unsigned i = 0; i < 6; i++)
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	assert_int_equal(w.cq->used, 0);
	assert_int_equal(cassini_eq_free(w.eq), 8);
	world_close(&w);
}

static void fence__waits_for_what_nobody_remembers(void **state)
{
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put(&w, 8));
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 8, 0), 0);
	assert_int_equal(g_inifake.sents, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 0);
	g_inifake.directs_out = 0;
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	assert_int_equal(g_inifake.sents, 1);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	world_close(&w);
}

/* What others send, to somebody who is stopped perhaps, is nothing to a fence. */
static void fence__not_for_other_domains(void **state)
{
	struct cassini_dom other = {.port = (void *)&other};
	struct world w;

	(void)state;
	lost_open(&w);
	LIST_INSERT_HEAD(&w.nic.doms, &other, link);
	g_inifake.busy_port = other.port;
	assert_true(put(&w, 8));
	g_inifake.directs_out = 0;
	assert_int_equal(cassini_fence(w.cq), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 8, 0), 0);
	assert_int_equal(g_inifake.sents, 1);
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	LIST_REMOVE(&other, link);
	world_close(&w);
}

static void lost(struct world *w, int status)
{
	cassini_lost(&w->dom, (void *)&w->peer[1], g_inifake.direct_tag, g_inifake.direct, g_inifake.direct_len,
		     status);
}

static void lost__shows_what_was_given(void **state)
{
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put(&w, 100));
	lost(&w, CASSINI_RC_PT_DISABLED);
	assert_int_equal(g_lost.cnt, 1);
	assert_int_equal(g_lost.rc, CASSINI_RC_PT_DISABLED);
	assert_ptr_equal(g_lost.cmd.dom, &w.dom);
	assert_int_equal(g_lost.cmd.match_bits, 0x99aabbccddeeff00);
	assert_int_equal(g_lost.cmd.header_data, 0x0123456789abcdef);
	assert_int_equal(g_lost.cmd.user_ptr, 0x123456789abc);
	assert_int_equal(g_lost.cmd.nic, FAKE_NIC);
	assert_int_equal(g_lost.cmd.pid, 1);
	assert_int_equal(g_lost.cmd.pid_idx, 5);
	assert_int_equal(g_lost.cmd.request_len, 100);
	assert_memory_equal(g_lost.data, w.mem, 100);
	assert_int_equal(g_inifake.gone, 0);
	/* taken on another list is taken */
	lost(&w, CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	assert_int_equal(g_lost.cnt, 1);
	/* the peer has died */
	lost(&w, -ECONNREFUSED);
	assert_int_equal(g_lost.cnt, 2);
	assert_int_equal(g_lost.rc, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_inifake.gone, 1);
	assert_int_equal(w.nic.stats.unreachable, 1);
	lost(&w, -ECONNREFUSED); /* of the same life */
	assert_int_equal(g_inifake.gone, 1);
	world_close(&w);
}

static void lost__nobody_hears(void **state)
{
	struct cassini_cmdq_attr attr = {.depth = 8, .on_lost = on_lost, .ctx = &g_lost};
	struct cassini_cmdq *second;
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put(&w, 8));
	w.dom.closing = true;
	lost(&w, -ECANCELED);
	assert_int_equal(g_lost.cnt, 0);
	w.dom.closing = false;
	/* its queue is closed, and another one is open */
	attr.cp = w.cp;
	assert_int_equal(cassini_cmdq_open(&w.lni, &attr, &second), 0);
	cassini_cmdq_close(w.cq);
	lost(&w, CASSINI_RC_PT_DISABLED);
	assert_int_equal(g_lost.cnt, 0);
	w.cq = second;
	world_close(&w);
}

/* A lossless entry lets its senders wait: those that come back go again in their order, the first one alone. */
static void lost__held_back(void **state)
{
	uint64_t tag[2];
	struct world w;

	(void)state;
	lost_open(&w);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(put(&w, 8 + i));
		tag[i] = g_inifake.direct_tag;
	}
	/* the second one's bytes are in the fake: the first had eight of the same */
	cassini_lost(&w.dom, (void *)&w.peer[1], tag[0], g_inifake.direct, g_inifake.direct_len - 1,
		     CASSINI_RC_RESOURCE_BUSY);
	assert_int_equal(g_lost.cnt, 0);
	assert_int_equal(w.cq->used, 1);
	assert_false(put(&w, 8)); /* not past it */
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 100, 0), 0);
	cassini_lost(&w.dom, (void *)&w.peer[1], tag[1], g_inifake.direct, g_inifake.direct_len,
		     CASSINI_RC_RESOURCE_BUSY);
	assert_int_equal(g_inifake.sents, 0);
	g_inifake.now_ns += NS_PER_MS;
	assert_int_equal(cassini_cmdq_kick(&w.dom), 0); /* others that nobody remembers are still under way */
	g_inifake.directs_out = 0;
	g_inifake.now_ns += NS_PER_MS;
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	assert_int_equal(sent_pkt(0).request_len, 8);
	assert_int_equal(sent_pkt(0).flags, CASSINI_PKTF_AGAIN);
	assert_true(sent_pkt(0).match_bits == 0x99aabbccddeeff00);
	sent_end(0, 0);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 2);
	assert_int_equal(sent_pkt(1).request_len, 9);
	assert_int_equal(sent_pkt(2).request_len, 100);
	sent_end(1, CASSINI_RC_PT_DISABLED); /* it is of those that are told of after all */
	assert_int_equal(g_lost.cnt, 1);
	assert_int_equal(g_lost.cmd.request_len, 9);
	assert_int_equal(g_lost.cmd.user_ptr, 0x123456789abc);
	assert_memory_equal(g_lost.data, w.mem, 9);
	sent_end(2, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 100);
	world_close(&w);
}

/* --- more than a command holds, to a peer of this host --- */

static void lost__long_shows_what_was_given(void **state)
{
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put(&w, CASSINI_FRAME_DATA));
	lost(&w, CASSINI_RC_PT_DISABLED);
	assert_int_equal(g_lost.cnt, 1);
	assert_int_equal(g_lost.cmd.request_len, CASSINI_FRAME_DATA);
	assert_int_equal(g_lost.cmd.flags, 0); /* no command has room for it */
	assert_int_equal(g_lost.cmd.user_ptr, 0x123456789abc);
	assert_memory_equal(g_lost.data, w.mem, CASSINI_FRAME_DATA);
	lost(&w, -ECONNREFUSED);
	assert_int_equal(g_lost.cnt, 2);
	assert_int_equal(g_lost.rc, CASSINI_RC_UNDELIVERABLE);
	world_close(&w);
}

/* One that a lossless entry sent back has memory of its own until it has ended, however that is. */
static void lost__long_held_back(void **state)
{
	int64_t live;
	struct world w;

	(void)state;
	lost_open(&w);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 5, 8, 0), 0); /* there is a place for operations */
	sent_end(0, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	live = mem_live_count();
	for (uint32_t i = 0; i < 3; i++)
		assert_true(put(&w, 5000 + i));
	for (uint32_t i = 0; i < 3; i++) /* the fake has the last one's bytes: the others had as many of the same */
		cassini_lost(&w.dom, (void *)&w.peer[1], g_inifake.direct_tag, g_inifake.direct,
			     CASSINI_PUT_HDR + 5000 + i, CASSINI_RC_RESOURCE_BUSY);
	assert_int_equal(g_lost.cnt, 0);
	assert_int_equal(mem_live_count(), live + 3);
	memset(g_inifake.direct, 0, sizeof(g_inifake.direct));
	g_inifake.directs_out = 0;
	g_inifake.now_ns += NS_PER_MS;
	assert_int_equal(cassini_cmdq_kick(&w.dom), 1);
	sent_end(1, 0);
	assert_int_equal(mem_live_count(), live + 2);
	assert_int_equal(cassini_cmdq_kick(&w.dom), 2);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(sent_pkt(1 + i).request_len, 5000 + i);
		assert_memory_equal(g_inifake.sent[1 + i].buf + CASSINI_PUT_HDR, w.mem, 5000 + i);
	}
	sent_end(2, CASSINI_RC_PT_DISABLED); /* shown out of that memory */
	assert_int_equal(g_lost.cnt, 1);
	assert_memory_equal(g_lost.data, w.mem, 5001);
	assert_int_equal(mem_live_count(), live + 1);
	sent_end(3, CASSINI_RC_RESOURCE_BUSY); /* held back once more, and then its queue closes */
	assert_int_equal(w.cq->held_cnt, 1);
	world_close(&w);
}

/* No memory for them: they are lost, and that is told as any failure is. */
static void lost__long_held_back_without_memory(void **state)
{
	struct world w;

	(void)state;
	lost_open(&w);
	assert_true(put(&w, 4096));
	mem_fail_nth(1);
	lost(&w, CASSINI_RC_RESOURCE_BUSY);
	mem_fail_nth(0);
	assert_int_equal(g_lost.cnt, 1);
	assert_int_equal(g_lost.rc, CASSINI_RC_RESOURCE_BUSY);
	assert_memory_equal(g_lost.data, w.mem, 4096);
	assert_int_equal(w.cq->used, 0);
	world_close(&w);
}

/* --- what else is different on this host --- */

/* What fits into a frame is not copied by the kernel, on this host either. */
static void local__copies_begin_above_a_frame(void **state)
{
	struct cassini_pkt_in pkt;
	struct world w;

	(void)state;
	world_open(&w, 8, 8);
	g_inifake.is_local = true;
	assert_int_equal(post(&w, CASSINI_OP_PUT, 1, CASSINI_FRAME_DATA, 0), 0);
	assert_int_equal(sent_pkt(0).op, CASSINI_PKT_PUT);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 1, CASSINI_FRAME_DATA + 1, CASSINI_CMD_RESTRICTED), 0);
	pkt = sent_pkt(1);
	assert_int_equal(pkt.op, CASSINI_PKT_PUT_BULK);
	assert_int_equal(post(&w, CASSINI_OP_GET, 1, CASSINI_FRAME_DATA, 0), 0);
	assert_int_equal(sent_pkt(2).region, 0);
	assert_int_equal(post(&w, CASSINI_OP_GET, 1, CASSINI_FRAME_DATA + 1, 0), 0);
	assert_int_equal(sent_pkt(3).region, 2);
	/* what was begun one way ends that way, whatever the path is by then */
	g_inifake.is_local = false;
	for (unsigned i = 0; i < 4; i++)
		sent_end(i, 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, CASSINI_FRAME_DATA);
	expect_none(&w);
	answer(&w, 1, CASSINI_RC_OK, CASSINI_PRIORITY, NULL, CASSINI_FRAME_DATA + 1);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, CASSINI_FRAME_DATA + 1);
	answer(&w, 2, CASSINI_RC_OK, CASSINI_PRIORITY, w.mem, CASSINI_FRAME_DATA);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_OK, CASSINI_FRAME_DATA);
	answer(&w, 3, CASSINI_RC_OK, CASSINI_PRIORITY, NULL, CASSINI_FRAME_DATA + 1);
	expect_event(&w, CASSINI_EV_REPLY, CASSINI_RC_OK, CASSINI_FRAME_DATA + 1);
	world_close(&w);
}

static void rdzv__brings_nothing(void **state)
{
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	world_open(&w, 8, 8);
	g_inifake.is_local = true;
	cmd = cmd_of(&w, CASSINI_OP_RENDEZVOUS_PUT, 0, 30000, 0);
	cmd.eager_length = 2048;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	assert_int_equal(sent_pkt(0).payload_len, 0);
	assert_int_equal(sent_pkt(0).request_len, 30000);
	sent_end(0, -ECONNREFUSED);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 30000);
	world_close(&w);
}

/* --- elsewhere --- */

/* The target keeps their order. What comes in a frame waits for all of them. */
static void ordered__bulk_puts_follow_each_other(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, 16, 16);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(post(&w, CASSINI_OP_PUT, 20 + i, 20000 + i, 0), 0);
	assert_int_equal(g_inifake.sents, 3);
	assert_int_equal(w.peer[1].ordered, 3);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 8, 0), 0);
	assert_int_equal(post(&w, CASSINI_OP_PUT, 20, 20003, 0), 0); /* behind it */
	assert_int_equal(g_inifake.sents, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(cassini_cmdq_kick(&w.dom), 0);
		sent_end(i, 0);
		answer(&w, i, CASSINI_RC_OK, CASSINI_PRIORITY, NULL, 20000 + i);
		expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 20000 + i);
	}
	assert_int_equal(cassini_cmdq_kick(&w.dom), 2);
	assert_int_equal(sent_pkt(3).request_len, 8);
	sent_end(3, 0);
	sent_end(4, CASSINI_RC_ENTRY_NOT_FOUND);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_OK, 8);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_ENTRY_NOT_FOUND, 20003);
	world_close(&w);
}

/* --- for one process only ------------------------------------------------------------------------ */

/* As a receiver's software answers: whoever has that place by then hears nothing, also of what had to wait. */
static void life__of_who_is_meant(void **state)
{
	static const enum cassini_opcode ops[] = {CASSINI_OP_PUT, CASSINI_OP_GET};
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		world_open(&w, 8, 8);
		g_inifake.has_direct = true;
		w.peer[1].life = 7;
		cmd = cmd_of(&w, ops[i], 255, 8, CASSINI_CMD_SAME_LIFE);
		cmd.life = 7;
		assert_int_equal(cassini_post(w.cq, &cmd), 0);
		assert_int_equal(g_inifake.sents, 1);
		assert_int_equal(cassini_fence(w.cq), 0);
		assert_int_equal(cassini_post(w.cq, &cmd), 0); /* waits for the first one */
		w.peer[1].life = 8;
		assert_int_equal(cassini_post(w.cq, &cmd), 0);
		sent_end(0, CASSINI_RC_ENTRY_NOT_FOUND);
		expect_event(&w, ops[i] == CASSINI_OP_GET ? CASSINI_EV_REPLY : CASSINI_EV_ACK,
			     CASSINI_RC_ENTRY_NOT_FOUND, 8);
		cassini_cmdq_kick(&w.dom);
		for (int n = 0; n < 2; n++)
			expect_event(&w, ops[i] == CASSINI_OP_GET ? CASSINI_EV_REPLY : CASSINI_EV_ACK,
				     CASSINI_RC_UNDELIVERABLE, 8);
		assert_int_equal(g_inifake.sents, 1);
		assert_int_equal(g_inifake.directs, 0);
		world_close(&w);
	}
}

/* The link says that he has gone: another one is not tried in his place. */
static void life__that_ends_meanwhile(void **state)
{
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	world_open(&w, 8, 8);
	cmd = cmd_of(&w, CASSINI_OP_PUT, 255, 8, CASSINI_CMD_SAME_LIFE);
	cmd.life = w.peer[1].life;
	g_inifake.send_rc = -ECONNREFUSED;
	g_inifake.send_rc_cnt = 1;
	assert_int_equal(cassini_post(w.cq, &cmd), 0);
	expect_event(&w, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE, 8);
	assert_int_equal(g_inifake.sents, 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__is_the_put_that_any_command_makes),
		cmocka_unit_test(put__not_now),
		cmocka_unit_test(put__only_where_one_was_taken),
		cmocka_unit_test(put__not_to_who_is_gone),
		cmocka_unit_test(put__far),
		cmocka_unit_test(put__kept),
		cmocka_unit_test(put__kept_and_not_in_place),
		cmocka_unit_test(fence__waits_for_what_nobody_remembers),
		cmocka_unit_test(fence__not_for_other_domains),
		cmocka_unit_test(lost__shows_what_was_given),
		cmocka_unit_test(lost__nobody_hears),
		cmocka_unit_test(lost__held_back),
		cmocka_unit_test(lost__long_shows_what_was_given),
		cmocka_unit_test(lost__long_held_back),
		cmocka_unit_test(lost__long_held_back_without_memory),
		cmocka_unit_test(local__copies_begin_above_a_frame),
		cmocka_unit_test(rdzv__brings_nothing),
		cmocka_unit_test(ordered__bulk_puts_follow_each_other),
		cmocka_unit_test(life__of_who_is_meant),
		cmocka_unit_test(life__that_ends_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
