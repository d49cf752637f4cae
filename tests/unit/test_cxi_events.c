// SPDX-License-Identifier: BSD-2-Clause
// Events whose request lets go of the lock, as link_region_del() does while a stopped process reads what is to end:
// another thread then leaves the queue alone, and does not close what the events name. And a queue that is full.
#include <pthread.h>
#include <sched.h>

#include "base/mem.h"
#include "cxi_fix.h"
#include "fi_cxi_ext.h"
#include "nic/cassini/cassini_tgt.h"
#include "prov/cxi/cxi_rxc.h"

#define EVENTS	 5
#define HANDOVER 2000 /* times that the lock is free for others; closing takes some of them */

struct seeker;

/* Stands for a request that has to wait for somebody. */
struct slow {
	struct cxi_req req;
	struct cxi_fix f;
	struct cxi_fix_ep e;
	void (*meanwhile)(struct slow *s); /* at the first event, without the lock */
	int events;
	bool is_at_it, came_again;
	struct fid *victim; /* what another thread closes then */
	_Atomic bool begins, is_closed;
	pthread_t closer;
	struct seeker *seeker;
};

static void let_go(struct slow *s)
{
	struct lock *lock = &cxi_fix_domain(&s->f)->kit.lock;

	s->is_at_it = true;
	lock_release(lock);
	s->meanwhile(s);
	lock_acquire(lock);
	s->is_at_it = false;
}

static void on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct slow *s = container_of(req, struct slow, req);

	assert_int_equal(ev->type, CASSINI_EV_ACK);
	s->came_again |= s->is_at_it;
	if (!s->events++ && s->meanwhile)
		let_go(s);
}

/* Events for @s: answers to zero-byte Puts to itself, which nobody is told of. */
static void post(struct slow *s, int n)
{
	struct cxi_portal *p = cxi_ep_of(s->e.ep)->portal;
	struct cassini_cmd cmd = {
		.opcode = CASSINI_OP_PUT,
		.pid_idx = CXI_IDX_SHARED,
		.pid = p->pid,
		.nic = p->domain->info.nic,
		.dom = p->dom[0],
		.eq = p->eq,
		.match_bits = cxi_sh_ctrl(CXI_CTRL_ASK, 0, 0, 0),
		.user_ptr = (uintptr_t)&s->req,
	};

	lock_acquire(&p->domain->kit.lock);
	for (int i = 0; i < n; i++)
		assert_int_equal(cxi_cps_post(&p->cps, p->cmdq, &cmd), 0);
	lock_release(&p->domain->kit.lock);
}

static void progress(struct slow *s)
{
	struct fi_cq_tagged_entry entry;

	assert_int_equal(fi_cq_read(s->e.cq, &entry, 1), -FI_EAGAIN);
}

static void await(struct slow *s, int events)
{
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC;

	while (s->events < events) {
		progress(s);
		assert_true(clk_now_ns(NULL) < until);
	}
}

static struct slow *slow_new(void (*meanwhile)(struct slow *s))
{
	struct slow *s = mem_alloc(sizeof(*s));

	assert_non_null(s);
	s->req.on_event = on_event;
	s->meanwhile = meanwhile;
	cxi_fix_open(&s->f);
	cxi_fix_ep_open(&s->e, &s->f);
	return s;
}

static void progress_of_another(struct slow *s)
{
	struct cassini_eq *eq = cxi_ep_of(s->e.ep)->portal->eq;

	post(s, 1); /* there is something new, and it comes last */
	for (int i = 0; i < 10; i++)
		progress(s);
	assert_false(s->came_again);
	assert_int_equal(s->events, 1);
	assert_true(eq->rd != eq->wr);
}

static void drain__one_at_a_time(void **state)
{
	struct slow *s = slow_new(progress_of_another);

	(void)state;
	post(s, EVENTS);
	await(s, EVENTS + 1);
	progress(s);
	assert_int_equal(s->events, EVENTS + 1); /* each came once, and what lay in the ring before came no more */
	cxi_fix_ep_close(&s->e);
	cxi_fix_close(&s->f);
	mem_free(s);
}

static void *closer(void *arg)
{
	struct slow *s = arg;

	atomic_store(&s->begins, true);
	assert_int_equal(fi_close(s->victim), 0);
	atomic_store(&s->is_closed, true);
	return NULL;
}

/* The lock is there for whoever wants it, time and again. */
static void close_of_another(struct slow *s)
{
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC;

	assert_int_equal(pthread_create(&s->closer, NULL, closer, s), 0);
	for (int i = 0; i < HANDOVER && !atomic_load(&s->is_closed); i += atomic_load(&s->begins)) {
		progress(s);
		sched_yield();
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_false(atomic_load(&s->is_closed));
}

static void close_during_event(struct slow *s, struct fid *victim)
{
	s->victim = victim;
	post(s, 1);
	await(s, 1);
	assert_int_equal(pthread_join(s->closer, NULL), 0);
	assert_true(atomic_load(&s->is_closed));
}

static void close__of_an_endpoint(void **state)
{
	struct slow *s = slow_new(close_of_another);

	(void)state;
	close_during_event(s, &s->e.ep->fid);
	assert_int_equal(fi_close(&s->e.cq->fid), 0);
	assert_int_equal(fi_close(&s->e.av->fid), 0);
	cxi_fix_close(&s->f);
	mem_free(s);
}

/* It waits although the event in hand is none of its own: those behind it may be. */
static void close__of_a_region(void **state)
{
	struct slow *s = slow_new(close_of_another);
	struct fid_mr *mr;
	uint64_t mem = 0;

	(void)state;
	assert_int_equal(fi_mr_reg(s->f.domain, &mem, sizeof(mem), FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(fi_mr_bind(mr, &s->e.ep->fid, 0), 0);
	assert_int_equal(fi_mr_enable(mr), 0);
	close_during_event(s, &mr->fid);
	cxi_fix_ep_close(&s->e);
	cxi_fix_close(&s->f);
	mem_free(s);
}

/* Another thread has an event in hand when a search begins, whose finds are behind it. */
struct seeker {
	struct slow *s;
	struct fi_cxi_dom_ops *ops;
	size_t found, total;
	_Atomic bool is_back;
};

static void *seek(void *arg)
{
	struct seeker *k = arg;
	struct fi_cq_tagged_entry entry;
	fi_addr_t src;

	k->found = k->ops->ep_get_unexp_msgs(k->s->e.ep, &entry, 1, &src, &k->total);
	atomic_store(&k->is_back, true);
	return NULL;
}

/* The lock is there for us while the other one searches, and a close waits for both. */
static void search_of_another(struct slow *s)
{
	struct cxi_portal *p = cxi_ep_of(s->e.ep)->portal;
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC;
	bool is_there = false;

	assert_int_equal(pthread_create(&s->closer, NULL, seek, s->seeker), 0);
	while (!is_there && !atomic_load(&s->seeker->is_back)) {
		lock_acquire(&p->domain->kit.lock);
		is_there = p->holds == 2;
		lock_release(&p->domain->kit.lock);
		sched_yield();
		assert_true(clk_now_ns(NULL) < until);
	}
}

static void search__behind_an_event_in_hand(void **state)
{
	struct slow *s = slow_new(search_of_another);
	struct seeker k = {.s = s};
	struct cassini_event ev = {.type = CASSINI_EV_ACK, .user_ptr = (uintptr_t)&s->req};
	struct lock *lock = &cxi_fix_domain(&s->f)->kit.lock;

	(void)state;
	s->seeker = &k;
	assert_int_equal(fi_open_ops(&s->f.domain->fid, FI_CXI_DOM_OPS_3, 0, (void **)&k.ops, NULL), 0);
	assert_int_equal(fi_tsend(s->e.ep, "abc", 3, NULL, 0, 77, NULL), 0);
	cxi_fix_wait(&s->e, 1);
	lock_acquire(lock);
	assert_true(cassini_eq_push(cxi_ep_of(s->e.ep)->rxc->eq, &ev, false));
	lock_release(lock);
	await(s, 1);
	while (!atomic_load(&k.is_back))
		progress(s);
	assert_int_equal(pthread_join(s->closer, NULL), 0);
	assert_int_equal(k.found, 1);
	assert_int_equal(k.total, 1);
	cxi_fix_ep_close(&s->e);
	cxi_fix_close(&s->f);
	mem_free(s);
}

static void nothing(struct cxi_req *req, const struct cassini_event *ev)
{
	(void)req, (void)ev;
}

/* Events that nobody minds, until the queue of the endpoint's receives is full. */
static void eq_fill(const struct cxi_fix *f, const struct cxi_fix_ep *e)
{
	static struct cxi_req req = {nothing};
	const struct cassini_event ev = {.type = CASSINI_EV_LINK, .user_ptr = (uintptr_t)&req};
	struct lock *lock = &cxi_fix_domain(f)->kit.lock;

	lock_acquire(lock);
	while (cassini_eq_push(cxi_ep_of(e->ep)->rxc->eq, &ev, false))
		;
	lock_release(lock);
}

static void await_cancelled(const struct cxi_fix_ep *e, void *context)
{
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};
	ssize_t ret;

	while ((ret = fi_cq_read(e->cq, &entry, 1)) == -FI_EAGAIN)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(e->cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_ptr_equal(err.op_context, context);
}

/* The adapter has no room to say that the entry is out: nothing has happened, and a later try is as good. */
static void cancel__without_room_for_the_event(void **state)
{
	struct fi_context2 context;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	uint8_t buf[8];

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(fi_recv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, &context), 0);
	eq_fill(&f, &e);
	assert_int_equal(fi_cancel(&e.ep->fid, &context), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(e.cq, NULL, 0), -FI_EAGAIN); /* a look takes them */
	assert_int_equal(fi_cancel(&e.ep->fid, &context), 0);
	await_cancelled(&e, &context);
	assert_int_equal(fi_cancel(&e.ep->fid, &context), -FI_ENOENT);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* A message of @len bytes at @at of @b is told of. */
static void buf_told(struct cxi_buf *b, size_t at, uint32_t len, bool is_last)
{
	struct cassini_event ev = {
		.type = CASSINI_EV_PUT,
		.ptl_list = CASSINI_OVERFLOW,
		.start = b->data + at,
		.mlength = len,
		.auto_unlinked = is_last,
	};

	b->req.on_event(&b->req, &ev);
}

static bool is_spare(const struct cxi_rxc *r, const struct cxi_buf *b)
{
	const struct cxi_buf *at;

	LIST_FOREACH(at, &r->spare[0], link)
		if (at == b)
			return true;
	return false;
}

/* An endpoint's first overflow buffer, posted and empty, with the domain's lock held. */
struct buf_rig {
	struct cxi_fix f;
	struct cxi_fix_ep e;
	struct cxi_rxc *r;
	struct cxi_buf *b;
};

static void buf_open(struct buf_rig *g)
{
	cxi_fix_open(&g->f);
	cxi_fix_ep_open(&g->e, &g->f);
	lock_acquire(&cxi_fix_domain(&g->f)->kit.lock);
	g->r = cxi_ep_of(g->e.ep)->rxc;
	g->b = LIST_FIRST(&g->r->bufs);
	assert_non_null(g->b);
}

static void buf_close(struct buf_rig *g)
{
	lock_release(&cxi_fix_domain(&g->f)->kit.lock);
	cxi_fix_ep_close(&g->e);
	cxi_fix_close(&g->f);
}

/* The last message of an overflow buffer is taken while a longer one before it still comes to lie there. */
static void buf__last_but_not_alone(void **state)
{
	struct buf_rig g;

	(void)state;
	buf_open(&g);
	buf_told(g.b, 30000, 10, true);
	cxi_buf_release(g.r, g.b->data + 30000, 10);
	assert_false(is_spare(g.r, g.b));
	buf_told(g.b, 0, 30000, false);
	assert_false(is_spare(g.r, g.b));
	cxi_buf_release(g.r, g.b->data, 30000);
	assert_true(is_spare(g.r, g.b));
	buf_close(&g);
}

/* What is lost is released before the event that tells of it is read. */
static void buf__released_before_it_is_told_of(void **state)
{
	struct buf_rig g;

	(void)state;
	buf_open(&g);
	cxi_buf_release(g.r, g.b->data, 30000);
	buf_told(g.b, 30000, 10, true);
	cxi_buf_release(g.r, g.b->data + 30000, 10);
	assert_false(is_spare(g.r, g.b)); /* an event names it */
	buf_told(g.b, 0, 30000, false);
	assert_true(is_spare(g.r, g.b));
	buf_close(&g);
}

/*
 * The adapter has no entry left for the next buffer: that one is not posted, and is when there are entries again. The
 * event that says so means nothing to a buffer that may be another's by then.
 */
static void buf__without_an_entry_for_it(void **state)
{
	struct cassini_lni *lni;
	struct buf_rig g;
	size_t posted;
	uint32_t max;

	(void)state;
	buf_open(&g);
	lni = cxi_fix_domain(&g.f)->lni;
	max = lni->svc.max[CASSINI_RSRC_LE];
	posted = g.r->buf_posted[0];
	lni->svc.max[CASSINI_RSRC_LE] = lni->used[CASSINI_RSRC_LE];
	cxi_drain(g.r->eq);
	buf_told(g.b, 0, 10, true);
	assert_int_equal(g.r->buf_posted[0], posted - 1);
	assert_int_equal(cxi_rxc_timers(g.r), 0);
	assert_int_equal(g.r->buf_posted[0], posted - 1);
	assert_null(cassini_eq_peek(g.r->eq)); /* else nobody could go to sleep */
	lni->svc.max[CASSINI_RSRC_LE] = max;
	assert_int_equal(cxi_rxc_timers(g.r), 1);
	assert_int_equal(g.r->buf_posted[0], posted);
	assert_int_equal(cxi_rxc_timers(g.r), 0);
	cxi_drain(g.r->eq);
	assert_int_equal(g.r->buf_posted[0], posted);
	cxi_buf_release(g.r, g.b->data, 10);
	assert_true(is_spare(g.r, g.b));
	buf_close(&g);
}

/* Software matches from now on: what an overflow buffer would take comes no more, so none is asked for. */
static void buf__of_an_entry_that_software_manages(void **state)
{
	struct buf_rig g;
	size_t posted;

	(void)state;
	buf_open(&g);
	posted = g.r->buf_posted[0];
	assert_int_equal(cassini_set_state(g.r->pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_DROP_IGNORE), 0);
	buf_told(g.b, 0, 10, true);
	assert_int_equal(g.r->buf_posted[0], posted - 1);
	assert_false(g.r->buf_short[0]);
	buf_close(&g);
}

/* A message to itself, whose event finds no room. */
static void send_untold(const struct cxi_fix *f, const struct cxi_fix_ep *e, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC, before;
	const struct cxi_ep *ep = cxi_ep_of(e->ep);
	struct lock *lock = &cxi_fix_domain(f)->kit.lock;

	eq_fill(f, e);
	before = cassini_eq_dropped(ep->rxc->eq);
	assert_int_equal(fi_tsend(e->ep, "abc", 3, NULL, 0, tag, NULL), 0);
	lock_acquire(lock);
	while (cassini_eq_dropped(ep->rxc->eq) == before) {
		cassini_dom_poll(ep->portal->dom[0]);
		assert_true(clk_now_ns(NULL) < until);
	}
	lock_release(lock);
	fi_cq_read(e->cq, NULL, 0); /* a look takes those that did */
}

/* Without flow control events may be lost, but not the buffer that they would have told of, and its place is filled. */
static void buf__whose_events_find_no_room(void **state)
{
	struct fi_cq_tagged_entry entry;
	struct cassini_le *le;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	struct cxi_rxc *r;
	struct cxi_buf *b;
	struct lock *lock;
	size_t posted;
	uint8_t buf[8];

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_make(&e, &f);
	cxi_ep_of(e.ep)->no_flow_control = true;
	assert_int_equal(cxi_fix_ep_enable(&e), 0);
	r = cxi_ep_of(e.ep)->rxc;
	lock = &cxi_fix_domain(&f)->kit.lock;
	lock_acquire(lock);
	posted = r->buf_posted[0];
	le = container_of(mt_posted_first(&r->pte->list[CASSINI_OVERFLOW]), struct cassini_le, mt);
	b = container_of((struct cxi_req *)(uintptr_t)le->user_ptr, struct cxi_buf, req);
	lock_release(lock);
	send_untold(&f, &e, 1);
	lock_acquire(lock);
	le->min_free = (uint32_t)le->length; /* the next one is its last */
	lock_release(lock);
	send_untold(&f, &e, 2);
	for (uint64_t tag = 1; tag <= 2; tag++)
		assert_int_equal(fi_trecv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, tag, 0, NULL), 0);
	cxi_fix_wait(&e, 4);
	for (int i = 0; i < 200; i++) /* timers look now and then */
		assert_int_equal(fi_cq_read(e.cq, &entry, 1), -FI_EAGAIN);
	lock_acquire(lock);
	assert_int_equal(r->buf_posted[0], posted);
	assert_int_equal(mt_posted_cnt(&r->pte->list[CASSINI_OVERFLOW]), posted);
	assert_true(is_spare(r, b) || (b->linked && !b->told)); /* or it was, and is posted again */
	lock_release(lock);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* Nor the receive: what comes for it is lost, which it says. A buffer for many ends with what it has. */
static void untold__receives_end(void **state)
{
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry = {0};
	struct fi_cq_err_entry err = {0};
	struct fi_context2 ctx[2];
	struct cxi_fix_ep e;
	struct cxi_fix f;
	uint8_t buf[2][8];
	const struct iovec iov = {buf[1], sizeof(buf[1])};
	const struct fi_msg_tagged many = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 2,
					   .context = &ctx[1]};
	ssize_t ret;

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_make(&e, &f);
	cxi_ep_of(e.ep)->no_flow_control = true;
	assert_int_equal(cxi_fix_ep_enable(&e), 0);
	assert_int_equal(fi_trecv(e.ep, buf[0], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[0]), 0);
	assert_int_equal(fi_trecvmsg(e.ep, &many, FI_MULTI_RECV), 0);
	send_untold(&f, &e, 1);
	send_untold(&f, &e, 2);
	while (err.op_context != &ctx[0] || entry.op_context != &ctx[1]) {
		ret = fi_cq_read(e.cq, &entry, 1);
		assert_true(ret == 1 || ret == -FI_EAGAIN || ret == -FI_EAVAIL);
		if (ret == -FI_EAVAIL)
			assert_int_equal(fi_cq_readerr(e.cq, &err, 0), 1);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(err.err, FI_EIO);
	assert_int_equal(entry.flags, FI_MULTI_RECV);
	assert_int_equal(cxi_rxc_posted(cxi_ep_of(e.ep)->rxc), 0);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* Events that name it may still be in the queue when a dropped one was its last: it is not freed. */
static void buf__untold_is_not_freed(void **state)
{
	struct cassini_event ev = {.type = CASSINI_EV_PUT, .mlength = 10, .auto_unlinked = true};
	struct buf_rig g;

	(void)state;
	buf_open(&g);
	g.r->domain->params.oflow_buf_max_cached = 1;
	ev.start = g.b->data;
	ev.user_ptr = (uintptr_t)&g.b->req;
	cxi_buf_untold(g.r, &ev);
	cxi_buf_release(g.r, g.b->data, 10);
	assert_true(is_spare(g.r, g.b));
	buf_close(&g);
}

/* The buffer of many messages that is posted, when no memory is left for the next one. */
struct multi_rig {
	struct cxi_fix f;
	struct cxi_fix_ep e;
	struct cxi_rxc *r;
	struct cxi_rx *rx;
	struct fi_context2 context;
	uint8_t buf[1000];
};

static void multi_open(struct multi_rig *g)
{
	struct iovec iov = {g->buf, sizeof(g->buf)};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &g->context};

	cxi_fix_open(&g->f);
	cxi_fix_ep_open(&g->e, &g->f);
	g->r = cxi_ep_of(g->e.ep)->rxc;
	assert_int_equal(fi_recvmsg(g->e.ep, &msg, FI_MULTI_RECV), 0);
	g->rx = TAILQ_FIRST(&g->r->rx_list);
	assert_true(SLIST_EMPTY(&g->r->resting));
	g->r->rxs.max = g->r->rxs.cap; /* no more memory for receives, whoever else allocates meanwhile */
	while (slab_get(&g->r->rxs))
		;
}

/* The adapter's event, of a message that there is no memory for. */
static void multi_event(struct multi_rig *g, struct cassini_event ev)
{
	struct lock *lock = &cxi_fix_domain(&g->f)->kit.lock;

	ev.rc = CASSINI_RC_OK;
	ev.dom = cxi_ep_of(g->e.ep)->portal->dom[0];
	ev.start = g->buf;
	ev.rlength = ev.rlength ? ev.rlength : sizeof(g->buf);
	lock_acquire(lock);
	g->rx->req.on_event(&g->rx->req, &ev);
	lock_release(lock);
}

static void multi_close(struct multi_rig *g)
{
	struct fi_cq_tagged_entry entry = {0};

	assert_int_equal(fi_cq_read(g->e.cq, &entry, 1), 1);
	assert_int_equal(entry.flags, FI_MULTI_RECV);
	assert_ptr_equal(entry.op_context, &g->context);
	assert_int_equal(cxi_rxc_posted(g->r), 0);
	cxi_fix_ep_close(&g->e);
	cxi_fix_close(&g->f);
}

/* The message that uses up the buffer is lost for want of memory; that the buffer is the caller's again is not. */
static void multi__last_message_without_memory(void **state)
{
	struct multi_rig g;

	(void)state;
	multi_open(&g);
	multi_event(&g, (struct cassini_event){
			.type = CASSINI_EV_PUT, .mlength = sizeof(g.buf), .auto_unlinked = true});
	multi_close(&g);
}

/* Memory for one part, of @len bytes, and no more. */
static struct cxi_rx *multi_part(struct multi_rig *g, uint32_t len)
{
	struct lock *lock = &cxi_fix_domain(&g->f)->kit.lock;
	struct cxi_rx *part;

	lock_acquire(lock);
	g->r->rxs.max++;
	part = cxi_rx_part(g->rx, len);
	lock_release(lock);
	assert_non_null(part);
	return part;
}

/* One behind a lost one is where the adapter has put it. */
static void multi__behind_one_without_memory(void **state)
{
	struct multi_rig g;

	(void)state;
	multi_open(&g);
	multi_event(&g, (struct cassini_event){.type = CASSINI_EV_PUT, .mlength = 10, .rlength = 10});
	assert_ptr_equal(multi_part(&g, 20)->buf, g.buf + 10);
	cxi_fix_ep_close(&g.e);
	cxi_fix_close(&g.f);
}

/* What software has put into a buffer is not written over by the adapter, which gets the rest of it. */
static void multi__begun_by_software(void **state)
{
	struct multi_rig g;

	(void)state;
	multi_open(&g);
	multi_part(&g, 10);
	lock_acquire(&cxi_fix_domain(&g.f)->kit.lock);
	assert_int_equal(cxi_rx_append(g.rx), 0);
	lock_release(&cxi_fix_domain(&g.f)->kit.lock);
	assert_ptr_equal(g.rx->le->start, g.buf + 10);
	assert_int_equal(g.rx->le->length, sizeof(g.buf) - 10);
	cxi_fix_ep_close(&g.e);
	cxi_fix_close(&g.f);
}

/* While the adapter fetches it, it is not. */
static void multi__last_rendezvous_without_memory(void **state)
{
	struct fi_cq_tagged_entry entry;
	struct multi_rig g;

	(void)state;
	multi_open(&g);
	multi_event(&g, (struct cassini_event){
			.type = CASSINI_EV_PUT, .rendezvous = true, .get_issued = true, .auto_unlinked = true});
	assert_int_equal(fi_cq_read(g.e.cq, &entry, 1), -FI_ENOMEM); /* once: a message is lost */
	assert_int_equal(fi_cq_read(g.e.cq, &entry, 1), -FI_EAGAIN);
	multi_event(&g, (struct cassini_event){
			.type = CASSINI_EV_REPLY, .mlength = sizeof(g.buf), .rendezvous = true, .get_issued = true});
	multi_close(&g);
}

/* Of an endpoint's own list entries none may be missing, so without them it is not enabled; buffers come later. */
static void enable__without_entries(void **state)
{
	struct cassini_lni *lni;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	uint32_t max;

	(void)state;
	cxi_fix_open(&f);
	lni = cxi_fix_domain(&f)->lni;
	max = lni->svc.max[CASSINI_RSRC_LE];
	for (uint32_t i = 0; i < 4; i++) {
		lni->svc.max[CASSINI_RSRC_LE] = lni->used[CASSINI_RSRC_LE] + i;
		assert_int_equal(cxi_fix_ep_try(&e, &f), -FI_ENOSPC);
	}
	lni->svc.max[CASSINI_RSRC_LE] = lni->used[CASSINI_RSRC_LE] + 4;
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(cxi_ep_of(e.ep)->rxc->buf_posted[0], 0);
	lni->svc.max[CASSINI_RSRC_LE] = max;
	assert_int_equal(fi_tsend(e.ep, "abc", 3, NULL, 0, 7, NULL), 0);
	cxi_fix_wait(&e, 1);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__one_at_a_time),
		cmocka_unit_test(close__of_an_endpoint),
		cmocka_unit_test(close__of_a_region),
		cmocka_unit_test(search__behind_an_event_in_hand),
		cmocka_unit_test(cancel__without_room_for_the_event),
		cmocka_unit_test(buf__last_but_not_alone),
		cmocka_unit_test(buf__released_before_it_is_told_of),
		cmocka_unit_test(buf__without_an_entry_for_it),
		cmocka_unit_test(buf__of_an_entry_that_software_manages),
		cmocka_unit_test(buf__whose_events_find_no_room),
		cmocka_unit_test(untold__receives_end),
		cmocka_unit_test(buf__untold_is_not_freed),
		cmocka_unit_test(multi__last_message_without_memory),
		cmocka_unit_test(multi__behind_one_without_memory),
		cmocka_unit_test(multi__begun_by_software),
		cmocka_unit_test(enable__without_entries),
		cmocka_unit_test(multi__last_rendezvous_without_memory),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
