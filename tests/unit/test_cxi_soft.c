// SPDX-License-Identifier: BSD-2-Clause
// Receives that software and the adapter share, where something is wanting: room in the queues, list entries, memory.
#include "base/mem.h"
#include "cxi_fix.h"
#include "nic/cassini/cassini_tgt.h"
#include "prov/cxi/cxi_rxc.h"

#define WAIT_NS (unit_slow() * 10 * NS_PER_SEC)
#define LEN	1000
#define LARGE	200000u /* a rendezvous */

/* One endpoint, that sends to itself, and a receive of it. */
struct rig {
	struct cxi_fix f;
	struct cxi_fix_ep e;
	struct lock *lock;
	struct cxi_ep *ep;
	struct cxi_rxc *r;
	struct fi_context2 ctx;
	uint8_t out[LEN], in[LEN];
};

static void rig_open_as(struct rig *g, enum cxi_match_mode mode)
{
	cxi_fix_open(&g->f);
	strcpy(cxi_fix_domain(&g->f)->params.rx_match_mode, mode == CXI_MATCH_SOFTWARE ? "software" : "hardware");
	cxi_fix_ep_open(&g->e, &g->f);
	g->lock = &cxi_fix_domain(&g->f)->kit.lock;
	g->ep = cxi_ep_of(g->e.ep);
	g->r = g->ep->rxc;
	memset(g->out, 7, sizeof(g->out));
	memset(g->in, 0, sizeof(g->in));
}

static void rig_open(struct rig *g)
{
	rig_open_as(g, CXI_MATCH_HARDWARE);
}

static void rig_close(struct rig *g)
{
	cxi_fix_ep_close(&g->e);
	cxi_fix_close(&g->f);
}

/* A message of itself, untagged, as the adapter would tell of it. */
static struct cassini_event event_of(const struct rig *g, enum cassini_event_type type, uint32_t len)
{
	return (struct cassini_event){
		.type = (uint8_t)type,
		.rc = CASSINI_RC_OK,
		.vni = cassini_dom_vni(g->ep->portal->dom[0]),
		.initiator = CASSINI_MATCH_ID(g->ep->portal->pid, cxi_fix_domain(&g->f)->info.nic),
		.mlength = len,
		.rlength = len,
		.start = (void *)(uintptr_t)g->out,
		.dom = g->ep->portal->dom[0],
	};
}

/* The rest of one, of which nothing has come. */
static struct cassini_event rdzv_of(const struct rig *g, enum cassini_event_type type, uint32_t len)
{
	struct cassini_event ev = event_of(g, type, len);

	ev.rendezvous = true;
	ev.mlength = type == CASSINI_EV_REPLY ? len : 0;
	ev.remote_offset = (uintptr_t)g->out;
	return ev;
}

/* A multi-receive of @g->in. Lock held. */
static struct cxi_rx *post_multi(struct rig *g)
{
	const struct cxi_recv_args a = {.buf = g->in,
					.len = sizeof(g->in),
					.src = FI_ADDR_UNSPEC,
					.context = &g->ctx,
					.flags = FI_MULTI_RECV | FI_COMPLETION};

	struct cxi_rx *rx, *last = NULL;

	assert_int_equal(cxi_recv_common(g->ep, &a), 0);
	TAILQ_FOREACH(rx, &g->r->rx_list, link)
		last = rx;
	return last;
}

/* What the next completion, but for those of sends, says; of an error its entry. */
static struct fi_cq_tagged_entry next(struct rig *g, struct fi_cq_err_entry *err)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry = {0};
	ssize_t ret;

	while ((ret = fi_cq_read(g->e.cq, &entry, 1)) == -FI_EAGAIN || (ret == 1 && entry.flags & FI_SEND))
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, err ? -FI_EAVAIL : 1);
	if (err)
		assert_int_equal(fi_cq_readerr(g->e.cq, err, 0), 1);
	return entry;
}

static void nothing(struct cxi_req *req, const struct cassini_event *ev)
{
	(void)req, (void)ev;
}

/* Events that nobody minds, until the queue of the receives is full. Lock held. */
static void eq_fill(struct rig *g)
{
	static struct cxi_req req = {nothing};
	const struct cassini_event ev = {.type = CASSINI_EV_LINK, .user_ptr = (uintptr_t)&req};

	while (cassini_eq_push(g->r->eq, &ev, false))
		;
}

static void await_append(struct rig *g, const struct cxi_rx *rx)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (!rx->le) {
		assert_int_equal(fi_cq_read(g->e.cq, NULL, 0), -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* The rest of @g->in, from @at on, is the adapter's: the last message comes to lie there, and ends the buffer. */
static void last_message(struct rig *g, size_t at)
{
	struct fi_cq_tagged_entry entry;
	size_t len = LEN - at - 10;

	assert_int_equal(fi_send(g->e.ep, g->out, len, NULL, 0, NULL), 0);
	entry = next(g, NULL);
	assert_ptr_equal(entry.buf, g->in + at);
	assert_int_equal(entry.len, len);
	assert_true(entry.flags & FI_MULTI_RECV);
	assert_memory_equal(g->in + at, g->out, len);
}

/* --- multi-receives that software has begun to fill ---------------------------------------------- */

/* A message has ended there when the adapter has no room for the append of the rest. */
static void refused_after(uint32_t len)
{
	struct cassini_event ev;
	struct cxi_rx *rx;
	struct rig g;

	rig_open(&g);
	ev = event_of(&g, CASSINI_EV_PUT, len);
	lock_acquire(g.lock);
	cxi_ux_add(g.r, &ev);
	eq_fill(&g);
	rx = post_multi(&g);
	assert_null(rx->le);
	assert_true(g.r->has_replay);
	lock_release(g.lock);
	assert_int_equal(next(&g, NULL).len, len);
	await_append(&g, rx);
	last_message(&g, len);
	assert_int_equal(cxi_rxc_posted(g.r), 0);
	rig_close(&g);
}

static void multi__refused_after_a_message(void **state)
{
	(void)state;
	refused_after(3);
	refused_after(0);
}

/* One is still under way; the list entry that a receive had here before is another's. */
static void multi__refused_during_a_message(void **state)
{
	struct fi_cq_err_entry err = {0};
	struct cassini_event ev;
	struct cxi_rx *rx;
	struct rig g;

	(void)state;
	rig_open(&g);
	assert_int_equal(fi_recv(g.e.ep, g.in, LEN, NULL, FI_ADDR_UNSPEC, NULL), 0);
	assert_int_equal(fi_send(g.e.ep, g.out, 3, NULL, 0, NULL), 0);
	next(&g, NULL);
	ev = rdzv_of(&g, CASSINI_EV_PUT, 100);
	lock_acquire(g.lock);
	assert_non_null(SLIST_FIRST(&g.r->resting)->le);
	cxi_ux_add(g.r, &ev);
	eq_fill(&g);
	rx = post_multi(&g);
	assert_int_equal(rx->parts, 1);
	assert_null(rx->le);
	assert_true(g.r->has_replay);
	lock_release(g.lock);
	next(&g, &err); /* nobody offers such a rendezvous */
	assert_int_equal(err.prov_errno, CASSINI_RC_NO_TRANSLATION);
	await_append(&g, rx);
	last_message(&g, 100);
	assert_int_equal(cxi_rxc_posted(g.r), 0);
	rig_close(&g);
}

/* The adapter has no list entry for the rest, for good: the buffer ends with what it has, not before, and says why. */
static void multi__without_an_entry_during_a_message(void **state)
{
	struct fi_cq_err_entry err = {0};
	struct cassini_event ev, reply;
	struct cxi_rx *rx, *part, *other;
	struct rig g;

	(void)state;
	rig_open(&g);
	ev = rdzv_of(&g, CASSINI_EV_PUT, 100);
	reply = rdzv_of(&g, CASSINI_EV_REPLY, 100);
	ev.get_issued = reply.get_issued = true;
	lock_acquire(g.lock);
	other = post_multi(&g);
	rx = post_multi(&g);
	assert_int_equal(cassini_invalidate(g.r->pte, rx->le), 0);
	assert_int_equal(cassini_invalidate(g.r->pte, other->le), 0);
	rx->le = other->le = NULL;
	part = cxi_rx_part(rx, 100);
	assert_non_null(part);
	cxi_rx_take(part, &ev, false);
	cxi_fc_append_failed(other, CASSINI_RC_NO_SPACE);
	cxi_fc_append_failed(rx, CASSINI_RC_NO_SPACE);
	assert_int_equal(rx->parts, 1);
	part->req.on_event(&part->req, &reply);
	lock_release(g.lock);
	assert_int_equal(next(&g, NULL).flags, FI_RECV | FI_MSG);
	next(&g, &err);
	assert_int_equal(err.err, FI_ENOSPC);
	assert_int_equal(err.prov_errno, CASSINI_RC_NO_SPACE);
	assert_int_equal(err.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
	assert_ptr_equal(err.op_context, &g.ctx);
	rig_close(&g);
}

/* One that waits to be posted again can be cancelled like any other. */
static void cancel__of_one_that_waits(void **state)
{
	struct fi_cq_err_entry err = {0};
	struct cxi_rx *rx;
	struct rig g;

	(void)state;
	rig_open(&g);
	assert_int_equal(fi_recv(g.e.ep, g.in, LEN, NULL, FI_ADDR_UNSPEC, &g.ctx), 0);
	lock_acquire(g.lock);
	rx = TAILQ_FIRST(&g.r->rx_list);
	assert_int_equal(cassini_invalidate(g.r->pte, rx->le), 0);
	rx->le = NULL;
	cxi_fc_append_failed(rx, CASSINI_RC_NO_SPACE);
	assert_true(g.r->has_replay);
	lock_release(g.lock);
	assert_int_equal(fi_cancel(&g.e.ep->fid, &g.ctx), 0);
	next(&g, &err);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_ptr_equal(err.op_context, &g.ctx);
	assert_false(g.r->has_replay);
	assert_int_equal(cxi_rxc_posted(g.r), 0);
	rig_close(&g);
}

/* Without any message in it: its error gives it back, as programs count buffers by that flag. */
static void multi__refused_is_given_back(void **state)
{
	struct fi_cq_err_entry err = {0};
	struct cxi_rx *rx, *other;
	struct rig g;

	(void)state;
	rig_open(&g);
	lock_acquire(g.lock);
	other = post_multi(&g);
	rx = post_multi(&g);
	assert_int_equal(cassini_invalidate(g.r->pte, rx->le), 0);
	assert_int_equal(cassini_invalidate(g.r->pte, other->le), 0);
	rx->le = other->le = NULL;
	cxi_fc_append_failed(other, CASSINI_RC_NO_SPACE); /* tried again */
	cxi_fc_append_failed(rx, CASSINI_RC_NO_SPACE);
	lock_release(g.lock);
	next(&g, &err);
	assert_int_equal(err.err, FI_ENOSPC);
	assert_int_equal(err.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
	rig_close(&g);
}

/* --- without memory ------------------------------------------------------------------------------ */

/* From here on there is none for receives, whoever else allocates meanwhile. Lock held. */
static void no_memory(struct rig *g)
{
	g->r->rxs.max = g->r->rxs.cap;
	while (cxi_rx_new(g->r))
		;
}

/*
 * The adapter fetches two messages into one buffer: there was no memory to remember the one, and no room for the event
 * of the other, which ends first. The buffer is the adapter's until both have.
 */
static void multi__two_lost_in_their_ways(void **state)
{
	struct cassini_event untold, lost, reply;
	struct fi_cq_tagged_entry entry;
	struct cxi_rx *rx;
	struct rig g;

	(void)state;
	rig_open(&g);
	untold = rdzv_of(&g, CASSINI_EV_PUT, 100);
	lost = rdzv_of(&g, CASSINI_EV_PUT, LEN - 100);
	reply = rdzv_of(&g, CASSINI_EV_REPLY, 100);
	untold.get_issued = lost.get_issued = reply.get_issued = true;
	untold.start = g.in; /* the adapter says where it has put them */
	lost.start = g.in + 100;
	untold.rendezvous_id = reply.rendezvous_id = 1;
	lost.rendezvous_id = 2;
	lost.auto_unlinked = true;
	lock_acquire(g.lock);
	rx = post_multi(&g);
	no_memory(&g);
	untold.user_ptr = (uintptr_t)&rx->req;
	cxi_buf_untold(g.r, &untold);
	rx->req.on_event(&rx->req, &lost);
	rx->req.on_event(&rx->req, &reply);
	lock_release(g.lock);
	assert_int_equal(fi_cq_read(g.e.cq, &entry, 1), -FI_ENOMEM);
	assert_int_equal(fi_cq_read(g.e.cq, &entry, 1), -FI_EAGAIN);
	reply.rendezvous_id = 2;
	lock_acquire(g.lock);
	rx->req.on_event(&rx->req, &reply);
	lock_release(g.lock);
	assert_int_equal(next(&g, NULL).flags, FI_MULTI_RECV);
	rig_close(&g);
}

/* A long message is told of when its bytes are there, behind the short one that has used up the buffer. */
static void multi__told_of_in_another_order(void **state)
{
	struct cassini_event first, last;
	struct fi_cq_tagged_entry entry;
	struct cxi_rx *rx;
	struct rig g;

	(void)state;
	rig_open(&g);
	first = event_of(&g, CASSINI_EV_PUT, LEN - 10);
	last = event_of(&g, CASSINI_EV_PUT, 10);
	first.start = g.in;
	last.start = g.in + LEN - 10;
	last.auto_unlinked = true;
	lock_acquire(g.lock);
	rx = post_multi(&g);
	rx->req.on_event(&rx->req, &last);
	lock_release(g.lock);
	entry = next(&g, NULL);
	assert_ptr_equal(entry.buf, g.in + LEN - 10);
	assert_int_equal(entry.flags, FI_RECV | FI_MSG);
	lock_acquire(g.lock);
	rx->req.on_event(&rx->req, &first);
	lock_release(g.lock);
	entry = next(&g, NULL);
	assert_ptr_equal(entry.buf, g.in);
	assert_int_equal(entry.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
	rig_close(&g);
}

/* Ids are used again by who has a dead one's place: the rest that comes is of the one that sent its beginning. */
static void multi__of_two_lives(void **state)
{
	struct cassini_event put, reply;
	struct cxi_rx *rx;
	struct rig g;

	(void)state;
	rig_open(&g);
	put = rdzv_of(&g, CASSINI_EV_PUT, 100);
	put.get_issued = true;
	put.start = g.in;
	lock_acquire(g.lock);
	rx = post_multi(&g);
	rx->req.on_event(&rx->req, &put);
	put.start = g.in + 100;
	put.rlength = 300;
	put.life = 1;
	rx->req.on_event(&rx->req, &put);
	reply = rdzv_of(&g, CASSINI_EV_REPLY, 300);
	reply.get_issued = true;
	reply.life = 1;
	rx->req.on_event(&rx->req, &reply);
	lock_release(g.lock);
	assert_ptr_equal(next(&g, NULL).buf, g.in + 100);
	rig_close(&g);
}

/* There was no room for the end of what the adapter fetches: the part ends with an error, and the buffer later. */
static void multi__reply_untold(void **state)
{
	struct cassini_event put, reply;
	struct fi_cq_err_entry err = {0};
	struct cxi_rx *rx;
	struct rig g;

	(void)state;
	rig_open(&g);
	put = rdzv_of(&g, CASSINI_EV_PUT, LEN);
	reply = rdzv_of(&g, CASSINI_EV_REPLY, LEN);
	put.get_issued = reply.get_issued = put.auto_unlinked = true;
	put.start = g.in;
	lock_acquire(g.lock);
	rx = post_multi(&g);
	rx->req.on_event(&rx->req, &put);
	reply.user_ptr = (uintptr_t)&rx->req;
	cxi_buf_untold(g.r, &reply);
	lock_release(g.lock);
	next(&g, &err);
	assert_int_equal(err.err, FI_EIO);
	assert_ptr_equal(err.op_context, &g.ctx);
	assert_true(err.flags & FI_MULTI_RECV);
	rig_close(&g);
}

static void await_sent(struct rig *g)
{
	const struct cassini_dom *dom = g->ep->portal->dom[0];
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	/* that one is lost the next read of the queue says, once */
	while ((ret = fi_cq_read(g->e.cq, &entry, 1)) == -FI_EAGAIN || ret == -FI_ENOMEM)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, 1);
	assert_int_equal(entry.flags, FI_SEND | FI_MSG);
	while (mt_unexp_cnt(&dom->rdzv)) { /* of a rendezvous nothing is offered any more */
		fi_cq_read(g->e.cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* One that its receiver's software has to speak of: a rendezvous, or one whose sender waits for the match. */
static void send_waiting(struct rig *g, bool is_rdzv)
{
	static uint8_t large[LARGE];
	const struct iovec iov = {is_rdzv ? large : g->out, is_rdzv ? sizeof(large) : 3};
	const struct fi_msg m = {.msg_iov = &iov, .iov_count = 1};

	assert_int_equal(fi_sendmsg(g->e.ep, &m, FI_COMPLETION | (is_rdzv ? 0 : FI_MATCH_COMPLETE)), 0);
}

/* There is no memory to keep it by: its sender does not wait for ever. */
static void lost__when_it_is_unexpected(void **state)
{
	struct rig g;

	(void)state;
	for (int is_rdzv = 0; is_rdzv < 2; is_rdzv++) {
		rig_open_as(&g, CXI_MATCH_SOFTWARE);
		g.r->uxs.max = g.r->uxs.cap;
		while (slab_get(&g.r->uxs))
			;
		send_waiting(&g, is_rdzv);
		await_sent(&g);
		assert_int_equal(mt_unexp_cnt(&g.r->sw_unexp), 0);
		rig_close(&g);
	}
}

/* The queue by which its sender is told is full, too: it is told later. */
static void lost__while_the_queue_is_full(void **state)
{
	struct rig g;

	(void)state;
	for (int is_rdzv = 0; is_rdzv < 2; is_rdzv++) {
		uint64_t until = clk_now_ns(NULL) + WAIT_NS;
		uint32_t depth;

		rig_open_as(&g, CXI_MATCH_SOFTWARE);
		g.r->uxs.max = g.r->uxs.cap;
		while (slab_get(&g.r->uxs))
			;
		depth = g.r->cmdq->depth;
		g.r->cmdq->depth = 0;
		send_waiting(&g, is_rdzv);
		while (!g.r->lost_cnt) {
			assert_int_not_equal(fi_cq_read(g.e.cq, NULL, 0), 1);
			assert_true(clk_now_ns(NULL) < until);
		}
		g.r->cmdq->depth = depth;
		await_sent(&g);
		assert_int_equal(g.r->lost_cnt, 0);
		rig_close(&g);
	}
}

/* Until the endpoint has @cnt errors. Return: reads that failed for that. */
static int await_late(struct rig *g, uint32_t cnt)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	int failed = 0;
	ssize_t ret;

	while (g->ep->kit.late_cnt < cnt || !failed) {
		ret = fi_cq_read(g->e.cq, NULL, 0);
		assert_true(ret == -FI_EAGAIN || ret == -FI_ENOMEM);
		failed += ret == -FI_ENOMEM;
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(g->ep->kit.late_cnt, cnt);
	assert_int_equal(g->ep->kit.late_errno, CASSINI_RC_NO_SPACE);
	return failed;
}

/*
 * The receiver hears of each that it has lost, by an event and by its queue, and of those whose sender is not told: of
 * so many only that it does not know. When the queue has room again the next one finds its place.
 */
static void lost__is_told_where_it_is_missed(void **state)
{
	const unsigned most = ARRAY_SIZE(((struct cxi_rxc *)NULL)->lost);
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fi_eq_err_entry err = {0};
	struct fid_eq *eq;
	uint32_t depth;
	struct rig g;

	(void)state;
	rig_open_as(&g, CXI_MATCH_SOFTWARE);
	assert_int_equal(fi_eq_open(g.f.fabric, &attr, &eq, NULL), 0);
	assert_int_equal(fi_ep_bind(g.e.ep, &eq->fid, 0), 0);
	g.r->uxs.max = g.r->uxs.cap;
	while (slab_get(&g.r->uxs))
		;
	depth = g.r->cmdq->depth;
	g.r->cmdq->depth = 0;
	for (unsigned i = 0; i < most; i++)
		send_waiting(&g, false);
	assert_in_range(await_late(&g, most), 1, most);
	assert_int_equal(g.r->lost_cnt, most);
	for (unsigned i = 0; i < most; i++) {
		assert_int_equal(fi_eq_readerr(eq, &err, 0), sizeof(err));
		assert_int_equal(err.err, FI_ENOMEM);
		assert_ptr_equal(err.fid, &g.e.ep->fid);
	}
	assert_int_equal(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
	send_waiting(&g, false); /* of this one twice */
	await_late(&g, most + 2);
	g.r->cmdq->depth = depth;
	send_waiting(&g, false);
	for (unsigned i = 0; i < most + 1; i++)
		await_sent(&g);
	assert_int_equal(g.r->lost_cnt, 0);
	assert_int_equal(g.ep->txc->used, 1);
	cxi_fix_ep_close(&g.e); /* waits for that one, but not for ever */
	assert_int_equal(fi_close(&eq->fid), 0);
	cxi_fix_close(&g.f);
}

/* Nor for a part of the buffer that takes it. */
static void lost__in_a_buffer_for_many(void **state)
{
	struct rig g;

	(void)state;
	for (int is_rdzv = 0; is_rdzv < 2; is_rdzv++) {
		rig_open_as(&g, CXI_MATCH_SOFTWARE);
		lock_acquire(g.lock);
		post_multi(&g);
		no_memory(&g);
		lock_release(g.lock);
		send_waiting(&g, is_rdzv);
		await_sent(&g);
		rig_close(&g);
	}
}

/* The adapter had it when the buffer was posted. */
static void lost__in_a_buffer_that_comes_late(void **state)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct rig g;

	(void)state;
	rig_open(&g);
	send_waiting(&g, false);
	while (!mt_unexp_cnt(&g.r->pte->ules)) {
		fi_cq_read(g.e.cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	lock_acquire(g.lock);
	no_memory(&g);
	g.r->rxs.max++;
	post_multi(&g);
	lock_release(g.lock);
	await_sent(&g);
	rig_close(&g);
}

/* A message that is claimed is not lost: who holds it is who it is claimed by, or it stays where it is. */
static void claim__without_memory(void **state)
{
	static const enum cxi_match_mode modes[] = {CXI_MATCH_SOFTWARE, CXI_MATCH_HARDWARE};
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct rig g;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		const struct iovec iov = {g.in, LEN};
		struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &g.ctx};
		bool is_soft = modes[i] == CXI_MATCH_SOFTWARE;

		rig_open_as(&g, modes[i]);
		assert_int_equal(fi_tinject(g.e.ep, g.out, 100, 0, 0), 0);
		while (!mt_unexp_cnt(&g.r->sw_unexp) && !mt_unexp_cnt(&g.r->pte->ules)) {
			fi_cq_read(g.e.cq, NULL, 0);
			assert_true(clk_now_ns(NULL) < until);
		}
		g.r->uxs.max = g.r->uxs.cap;
		while (slab_get(&g.r->uxs))
			;
		assert_int_equal(fi_trecvmsg(g.e.ep, &m, FI_PEEK | FI_CLAIM), is_soft ? 0 : -FI_EAGAIN);
		if (is_soft)
			assert_int_equal(next(&g, NULL).len, 100);
		assert_int_equal(fi_trecvmsg(g.e.ep, &m, is_soft ? FI_CLAIM : 0), 0);
		assert_int_equal(next(&g, NULL).len, 100);
		assert_memory_equal(g.in, g.out, 100);
		rig_close(&g);
	}
}

/* --- a sender that has gone ---------------------------------------------------------------------- */

/* The process that sent what software holds has gone, and another one, which is us as well, has its place. */
static void another_lives_there(struct rig *g)
{
	struct cassini_dom *dom = g->ep->portal->dom[0];

	lock_acquire(g->lock);
	assert_int_equal(dom->peer_cnt, 1);
	for (uint32_t i = 0; i <= dom->peer_mask; i++)
		if (dom->peer_tab[i])
			cassini_peer_gone(dom->peer_tab[i], dom->peer_tab[i]->life);
	lock_release(g->lock);
}

/* A receive takes the message: the new one is neither asked for the rest, nor told of the match. */
static void life__of_a_sender(void **state)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS, cmds;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err;
	struct cassini_stats *stats;
	struct rig g;

	(void)state;
	for (int is_rdzv = 0; is_rdzv < 2; is_rdzv++) {
		rig_open_as(&g, CXI_MATCH_SOFTWARE);
		stats = &cxi_fix_domain(&g.f)->nic->stats;
		send_waiting(&g, is_rdzv);
		while (!mt_unexp_cnt(&g.r->sw_unexp)) {
			assert_int_equal(fi_cq_read(g.e.cq, NULL, 0), -FI_EAGAIN);
			assert_true(clk_now_ns(NULL) < until);
		}
		another_lives_there(&g);
		lock_acquire(g.lock);
		cmds = stats->gets + stats->puts;
		assert_int_equal(cxi_recv_common(g.ep, &(struct cxi_recv_args){.buf = g.in,
									       .len = LEN,
									       .src = FI_ADDR_UNSPEC,
									       .context = &g.ctx,
									       .flags = FI_COMPLETION}), 0);
		assert_int_equal(stats->gets + stats->puts, cmds);
		lock_release(g.lock);
		/* the send has ended with its target, too, and may say so before */
		entry = (struct fi_cq_tagged_entry){0};
		err = (struct fi_cq_err_entry){0};
		while (entry.op_context != &g.ctx && err.op_context != &g.ctx) {
			if (fi_cq_read(g.e.cq, &entry, 1) == -FI_EAVAIL)
				assert_int_equal(fi_cq_readerr(g.e.cq, &err, 0), 1);
			assert_true(clk_now_ns(NULL) < until);
		}
		if (is_rdzv)
			assert_int_equal(err.prov_errno, CASSINI_RC_UNDELIVERABLE);
		else
			assert_int_equal(entry.len, 3); /* it is whole */
		rig_close(&g);
	}
}

/* A Get that ends a rendezvous is its target's: ids are small numbers, which others may know. */
static void rdzv__ended_by_its_target_only(void **state)
{
	struct cassini_event ev = {.type = CASSINI_EV_GET, .rc = CASSINI_RC_OK};
	struct cxi_portal *p;
	struct rig g;
	uint32_t id = 0;

	(void)state;
	rig_open_as(&g, CXI_MATCH_SOFTWARE);
	p = g.ep->portal;
	send_waiting(&g, true);
	lock_acquire(g.lock);
	assert_non_null(p->rdzv_id);
	while (id < CXI_RDZV_ID_CNT && !p->rdzv_id[id])
		id++;
	assert_in_range(id, 0, CXI_RDZV_ID_CNT - 1);
	ev.match_bits = cxi_sh_rdzv(id);
	ev.initiator = CASSINI_MATCH_ID(p->pid + 1, cxi_fix_domain(&g.f)->info.nic);
	cxi_rdzv_on_event(&p->rdzv_req, &ev);
	assert_true(p->rdzv_id[id] && (p->rdzv_id[id]->wait & CXI_WAIT_GET));
	lock_release(g.lock);
	assert_int_equal(fi_recv(g.e.ep, g.in, LEN, NULL, FI_ADDR_UNSPEC, NULL), 0);
	cxi_fix_wait(&g.e, 1);
	rig_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(multi__refused_after_a_message),
		cmocka_unit_test(multi__refused_during_a_message),
		cmocka_unit_test(multi__without_an_entry_during_a_message),
		cmocka_unit_test(multi__two_lost_in_their_ways),
		cmocka_unit_test(multi__refused_is_given_back),
		cmocka_unit_test(multi__told_of_in_another_order),
		cmocka_unit_test(multi__of_two_lives),
		cmocka_unit_test(multi__reply_untold),
		cmocka_unit_test(lost__when_it_is_unexpected),
		cmocka_unit_test(lost__while_the_queue_is_full),
		cmocka_unit_test(lost__is_told_where_it_is_missed),
		cmocka_unit_test(lost__in_a_buffer_for_many),
		cmocka_unit_test(lost__in_a_buffer_that_comes_late),
		cmocka_unit_test(cancel__of_one_that_waits),
		cmocka_unit_test(claim__without_memory),
		cmocka_unit_test(life__of_a_sender),
		cmocka_unit_test(rdzv__ended_by_its_target_only),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
