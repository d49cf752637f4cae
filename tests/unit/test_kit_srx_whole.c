// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/srx.c: multi-receive buffers where the provider wants messages whole; calls that fail; late binding.
#include "unit.h"

#include "base/mem.h"
#include "kit/srx.h"
#include "kit_fix.h"

static struct fix g_fix;
static struct fix_ep g_ep;
static struct kit_cq *g_cq;
static struct kit_srx g_srx;

static void end_start(struct kit_ep *ep, struct kit_rx *rx, struct kit_ux *ux)
{
	(void)ep;
	kit_rx_done(rx->srx, rx, rx->tagged, &(struct kit_rx_result){.len = ux->msg_len});
}

static void no_discard(struct kit_ep *ep, struct kit_ux *ux)
{
	(void)ep, (void)ux;
	fail();
}

static const struct kit_srx_ops end_ops = {.start = end_start, .discard = no_discard};

static void rig_open(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 16};

	fix_open(&g_fix, FI_VERSION(1, 17));
	fix_ep_open(&g_fix, &g_ep);
	g_cq = mem_alloc(sizeof(*g_cq));
	assert_int_equal(kit_cq_init(g_cq, &g_fix.domain, &attr, 16, false, NULL), 0);
	assert_int_equal(kit_ep_bind(&g_ep.kit, &g_cq->fid.fid, FI_RECV), 0);
	assert_int_equal(kit_srx_init(&g_srx, &g_ep.kit, &end_ops, 0, 16, false), 0);
	g_srx.min_multi_recv = 16;
	g_srx.multi_whole = true;
}

static void rig_close(void)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), -FI_EAGAIN);
	assert_int_equal(g_srx.posted_cnt, 0);
	assert_int_equal(g_srx.slab.used, fix_resting(&g_srx));
	kit_srx_fini(&g_srx);
	kit_ep_fini(&g_ep.kit);
	assert_int_equal(fi_close(&g_cq->fid.fid), 0);
	fix_close(&g_fix);
}

static void expect_entry(void *context, uint64_t flags, void *buf, size_t len)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), 1);
	assert_ptr_equal(e.op_context, context);
	assert_int_equal(e.flags, flags);
	assert_ptr_equal(e.buf, buf);
	assert_int_equal(e.len, len);
}

/*
 * Where the provider wants messages whole, what the rest of a buffer is too short for is the next one's; the first is
 * told to be free, once.
 */
static void whole__messages_go_to_the_next_buffer(void **state)
{
	uint8_t buf[2][100];
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC, .context = &buf[0], .flags = FI_MULTI_RECV};
	struct kit_rx *rx[2];

	rig_open();
	lock_acquire(&g_fix.domain.lock);
	assert_int_equal(fix_recv_buf(&g_srx, false, buf[0], 100, NULL, &a), 0);
	a.context = &buf[1];
	assert_int_equal(fix_recv_buf(&g_srx, false, buf[1], 100, NULL, &a), 0);
	rx[0] = kit_srx_match(&g_srx, false, 1, 0, 60);
	rx[1] = kit_srx_match(&g_srx, false, 1, 0, 50); /* 40 are left */
	assert_int_equal(g_srx.posted_cnt, 1);
	kit_rx_done(rx[0]->srx, rx[0], rx[0]->tagged, &(struct kit_rx_result){.len = 60});
	kit_rx_done(rx[1]->srx, rx[1], rx[1]->tagged, &(struct kit_rx_result){.len = 50});
	assert_null(kit_srx_match(&g_srx, false, 1, 0, 60)); /* 50 are left, and no other buffer */
	assert_int_equal(g_srx.posted_cnt, 0);
	lock_release(&g_fix.domain.lock);
	expect_entry(&buf[0], FI_RECV | FI_MSG | FI_MULTI_RECV, buf[0], 60);
	expect_entry(&buf[1], FI_RECV | FI_MSG, buf[1], 50);
	expect_entry(&buf[1], FI_MULTI_RECV, NULL, 0);
	rig_close();
}

static void whole__messages_that_wait(void **state)
{
	uint8_t buf[100];
	struct kit_ux ux[3] = {{.msg_len = 60}, {.msg_len = 60}, {.msg_len = 150}};
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC, .context = &a, .flags = FI_MULTI_RECV};

	rig_open();
	lock_acquire(&g_fix.domain.lock);
	for (int i = 0; i < 3; i++)
		kit_srx_unexpected(&g_srx, &ux[i]);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fix_recv_buf(&g_srx, false, buf, sizeof(buf), NULL, &a), 0);
		assert_int_equal(mt_unexp_cnt(&g_srx.unexp[0]), 2 - i);
		assert_int_equal(g_srx.posted_cnt, 0);
	}
	lock_release(&g_fix.domain.lock);
	for (int i = 0; i < 2; i++) {
		expect_entry(&a, FI_RECV | FI_MSG, buf, 60);
		expect_entry(&a, FI_MULTI_RECV, NULL, 0);
	}
	/* no buffer is long enough: the provider cuts it */
	expect_entry(&a, FI_RECV | FI_MSG | FI_MULTI_RECV, buf, 150);
	rig_close();
}

static void srx_recv__refuses_what_makes_no_sense(void **state)
{
	uint8_t buf[8];
	struct iovec iov[KIT_RX_IOV_MAX + 1] = {{buf, 1}, {buf, 1}, {buf, 1}, {buf, 1}, {buf, 1}};
	struct kit_recv_args a = {.iov = iov, .iov_cnt = KIT_RX_IOV_MAX + 1, .src = FI_ADDR_UNSPEC};

	rig_open();
	lock_acquire(&g_fix.domain.lock);
	assert_int_equal(kit_srx_recv(&g_srx, true, &a), -FI_EINVAL);
	a.iov_cnt = 2;
	a.flags = FI_MULTI_RECV;
	assert_int_equal(kit_srx_recv(&g_srx, true, &a), -FI_EINVAL);
	a.flags = FI_DISCARD;
	assert_int_equal(kit_srx_recv(&g_srx, true, &a), -FI_EINVAL);
	a.flags = FI_CLAIM;
	assert_int_equal(kit_srx_recv(&g_srx, true, &a), -FI_EINVAL);
	a.flags = 0;
	a.iov = NULL;
	assert_int_equal(kit_srx_recv(&g_srx, true, &a), -FI_EINVAL);
	a.iov_cnt = 0;
	assert_int_equal(kit_srx_recv(&g_srx, true, &a), 0);
	assert_int_equal(g_srx.slab.used, 1);
	kit_srx_clear(&g_srx);
	lock_release(&g_fix.domain.lock);
	rig_close();
}

/* No memory for a receive: nothing is lost, and the call can be repeated. */
static void srx_recv__survives_want_of_memory(void **state)
{
	uint8_t buf[8];
	struct kit_ux ux = {.msg_len = 4};
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC, .context = &a};

	rig_open();
	lock_acquire(&g_fix.domain.lock);
	kit_srx_unexpected(&g_srx, &ux);
	mem_fail_nth(1);
	assert_int_equal(fix_recv_buf(&g_srx, false, buf, 8, NULL, &a), -FI_EAGAIN);
	assert_int_equal(mt_unexp_cnt(&g_srx.unexp[0]), 1);
	assert_int_equal(fix_recv_buf(&g_srx, false, buf, 8, NULL, &a), 0);
	lock_release(&g_fix.domain.lock);
	expect_entry(&a, FI_RECV | FI_MSG, NULL, 4);
	rig_close();
}

static bool post_one(uint64_t flags)
{
	static uint8_t buf[8];
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC, .context = buf, .flags = flags};

	return kit_srx_post(&g_srx, false, buf, sizeof(buf), NULL, MT_ANY_SRC, &a);
}

/* Where more is to be done than to post nothing has happened: no object is taken, no receive is there. */
static void srx_post__leaves_alone_what_is_more(void **state)
{
	static const uint64_t more[] = {FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV};
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC};
	struct kit_rx_result r = {0};
	struct kit_ux ux = {.msg_len = 4};
	struct kit_rx *rx[16];
	uint8_t buf[8];

	rig_open();
	lock_acquire(&g_fix.domain.lock);
	assert_false(post_one(0)); /* no receive rests yet */
	for (size_t i = 0; i < ARRAY_SIZE(rx); i++) {
		assert_int_equal(fix_recv_buf(&g_srx, false, buf, sizeof(buf), NULL, &a), 0);
		rx[i] = kit_srx_match(&g_srx, false, 1, 0, 4);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rx); i++)
		kit_rx_done(&g_srx, rx[i], false, &r);
	g_cq->head = g_cq->tail = 0; /* their entries are another test's */
	assert_int_equal(fix_resting(&g_srx), g_srx.posted_max);
	assert_true(post_one(0));
	assert_true(post_one(0));
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		assert_false(post_one(more[i]));
	assert_int_equal(g_srx.posted_cnt, 2);
	while (g_srx.posted_cnt < g_srx.posted_max)
		assert_true(post_one(0));
	assert_false(post_one(0));
	assert_int_equal(g_srx.slab.used, g_srx.posted_max);
	kit_srx_clear(&g_srx);
	assert_int_equal(kit_srx_unexpected(&g_srx, &ux), 0);
	assert_false(post_one(0));
	assert_int_equal(g_srx.posted_cnt, 0);
	assert_int_equal(g_srx.slab.used, 0);
	kit_srx_lose(&g_srx, &ux);
	lock_release(&g_fix.domain.lock);
	rig_close();
}

static void receive_one(struct kit_recv_args *a)
{
	struct kit_rx *rx;
	uint8_t buf[8];

	lock_acquire(&g_fix.domain.lock);
	assert_int_equal(fix_recv_buf(&g_srx, true, buf, sizeof(buf), NULL, a), 0);
	rx = kit_srx_match(&g_srx, true, 1, 0, 4);
	kit_rx_done(&g_srx, rx, true, &(struct kit_rx_result){.len = 4});
	lock_release(&g_fix.domain.lock);
}

/* A counter may come to an endpoint that receives already, and both it and the queue may go. */
static void rx_done__does_what_is_bound_by_now(void **state)
{
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC, .context = &a};
	struct fi_cntr_attr attr = {0};
	struct kit_cntr *cntr;

	rig_open();
	cntr = mem_alloc(sizeof(*cntr));
	assert_int_equal(kit_cntr_init(cntr, &g_fix.domain, &attr, false, NULL), 0);
	receive_one(&a);
	expect_entry(&a, FI_RECV | FI_TAGGED, NULL, 4);
	assert_int_equal(kit_ep_bind(&g_ep.kit, &cntr->fid.fid, FI_RECV), 0);
	receive_one(&a);
	expect_entry(&a, FI_RECV | FI_TAGGED, NULL, 4);
	assert_int_equal(fi_cntr_read(&cntr->fid), 1);
	kit_ep_unbind(&g_ep.kit, FI_RECV);
	receive_one(&a);
	assert_int_equal(fi_cntr_read(&cntr->fid), 1);
	assert_int_equal(fi_close(&cntr->fid.fid), 0);
	rig_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole__messages_go_to_the_next_buffer),
		cmocka_unit_test(whole__messages_that_wait),
		cmocka_unit_test(srx_recv__refuses_what_makes_no_sense),
		cmocka_unit_test(srx_recv__survives_want_of_memory),
		cmocka_unit_test(srx_post__leaves_alone_what_is_more),
		cmocka_unit_test(rx_done__does_what_is_bound_by_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
