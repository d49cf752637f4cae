// SPDX-License-Identifier: BSD-2-Clause
// Flow control where it is hard to end: nothing makes room, senders say what is not true, or have gone.
#include <poll.h>
#include <rdma/fi_trigger.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cxi_fix.h"
#include "nic/cassini/cassini_tgt.h"
#include "prov/cxi/cxi_ep_int.h"
#include "prov/cxi/cxi_rxc.h"

#define WAIT_NS	 (unit_slow() * 10 * NS_PER_SEC)
#define QUIET_NS (100 * NS_PER_MS)
#define TAG	 7u

/* A sender and a receiver that are strangers to each other: domains of their own. */
struct side {
	struct cxi_fix f;
	struct cxi_fix_ep e;
};

struct world {
	struct side a, b;
	fi_addr_t to; /* b, as a knows it */
	struct cxi_rxc *r;
	struct lock *lock; /* of b */
	uint32_t les;	   /* list entries that its service had at first */
};

static struct cxi_domain *domain_of(const struct side *s)
{
	return cxi_fix_domain(&s->f);
}

static struct cassini_svc_desc *svc_of(const struct world *w)
{
	return &domain_of(&w->b)->lni->svc;
}

/* @has_entries: for buffers and receives; else b gets those that its endpoint has by itself. */
static void world_open_as(struct world *w, const char *mode, bool has_entries, enum fi_wait_obj wait_obj)
{
	struct cxi_params *p;
	struct cxi_addr to;
	size_t len = sizeof(to);

	*w = (struct world){0};
	cxi_fix_open(&w->a.f);
	cxi_fix_ep_open(&w->a.e, &w->a.f);
	cxi_fix_open(&w->b.f);
	p = &domain_of(&w->b)->params;
	strcpy(p->rx_match_mode, mode);
	p->req_buf_min_posted = p->req_buf_max_count = 1;
	p->req_buf_size = 32768;
	w->lock = &domain_of(&w->b)->kit.lock;
	w->les = svc_of(w)->max[CASSINI_RSRC_LE];
	if (!has_entries)
		svc_of(w)->max[CASSINI_RSRC_LE] = domain_of(&w->b)->lni->used[CASSINI_RSRC_LE] + 4;
	cxi_fix_ep_make_as(&w->b.e, &w->b.f, wait_obj);
	assert_int_equal(cxi_fix_ep_enable(&w->b.e), 0);
	w->r = cxi_ep_of(w->b.e.ep)->rxc;
	assert_int_equal(fi_getname(&w->b.e.ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(w->a.e.av, &to, 1, &w->to, 0, NULL), 1);
}

static void world_open(struct world *w, const char *mode, bool has_entries)
{
	world_open_as(w, mode, has_entries, FI_WAIT_NONE);
}

static void side_close(struct side *s)
{
	cxi_fix_ep_close(&s->e);
	cxi_fix_close(&s->f);
}

static void world_close(struct world *w)
{
	side_close(&w->a);
	side_close(&w->b);
}

static void entries_allow(const struct world *w, uint32_t more)
{
	svc_of(w)->max[CASSINI_RSRC_LE] += more;
}

/* How often messages were refused. */
static uint64_t refusals(const struct world *w)
{
	const struct cxi_fc_stats *s = &domain_of(&w->b)->stats;

	return s->fc_no_match + s->fc_req_full + s->fc_unexp;
}

static void look(const struct side *s)
{
	fi_cq_read(s->e.cq, NULL, 0);
}

static void await_refusal(const struct world *w)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (!refusals(w)) {
		look(&w->a);
		look(&w->b);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* For a while nothing changes: few are tried in vain, but some. */
static void expect_patience(const struct world *w)
{
	uint64_t begin = clk_now_ns(NULL), before = refusals(w), ns;

	while ((ns = clk_now_ns(NULL) - begin) < QUIET_NS) {
		look(&w->a);
		look(&w->b);
	}
	/* after 100, 200 us ... 6.4 ms, and each 10 ms */
	assert_in_range(refusals(w) - before, 1, 8 + ns / (10 * NS_PER_MS) + 1);
}

static void tsend(const struct world *w, const char *text, uint64_t tag)
{
	assert_int_equal(fi_tsend(w->a.e.ep, text, strlen(text), NULL, w->to, tag, NULL), 0);
}

/* As a program does it, while it polls. */
static void trecv(const struct world *w, void *buf, size_t len, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	ssize_t ret;

	while ((ret = fi_trecv(w->b.e.ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, NULL)) == -FI_EAGAIN) {
		look(&w->b);
		look(&w->a);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 0);
}

static void await_message(const struct world *w, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(w->b.e.cq, &entry, 1)) == -FI_EAGAIN) {
		look(&w->a);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 1);
	assert_int_equal(entry.tag, tag);
}

/* --- nothing makes room -------------------------------------------------------------------------- */

/* There is neither an entry for a buffer, nor a receive. Then there is one, and what was refused comes. */
static void pause__without_entries(void **state)
{
	static const char *const modes[] = {"hardware", "hybrid"};
	char in[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct world w;

		world_open(&w, modes[i], false);
		tsend(&w, "abc", TAG);
		await_refusal(&w);
		expect_patience(&w);
		entries_allow(&w, 8);
		trecv(&w, in, sizeof(in), TAG);
		await_message(&w, TAG);
		assert_memory_equal(in, "abc", 3);
		world_close(&w);
	}
}

/* A receive that does not take it is there. */
static void pause__with_another_receive(void **state)
{
	char in[2][8];
	struct world w;

	(void)state;
	world_open(&w, "hardware", false);
	entries_allow(&w, 1);
	lock_acquire(w.lock);
	w.r->domain->params.oflow_buf_min_posted = 0; /* the entry is for the receive */
	lock_release(w.lock);
	trecv(&w, in[0], sizeof(in[0]), TAG + 1);
	tsend(&w, "abc", TAG);
	await_refusal(&w);
	expect_patience(&w);
	entries_allow(&w, 1);
	trecv(&w, in[1], sizeof(in[1]), TAG);
	await_message(&w, TAG);
	assert_memory_equal(in[1], "abc", 3);
	world_close(&w);
}

/* Software has as many buffers as it may, and all are full: each receive takes a message, and all come in order. */
static void pause__without_a_request_buffer(void **state)
{
	enum { CNT = 6, LEN = 16000 };
	static char out[CNT][LEN], in[LEN];
	struct world w;

	(void)state;
	world_open(&w, "software", true);
	for (int i = 0; i < CNT; i++) {
		memset(out[i], 'a' + i, LEN);
		assert_int_equal(fi_tsend(w.a.e.ep, out[i], LEN, NULL, w.to, TAG, NULL), 0);
	}
	await_refusal(&w);
	expect_patience(&w);
	for (int i = 0; i < CNT; i++) {
		trecv(&w, in, LEN, TAG);
		await_message(&w, TAG);
		assert_memory_equal(in, out[i], LEN);
	}
	world_close(&w);
}

/* While senders wait, receives are taken: a program that tries one now and then does not have to meet a moment. */
static void pause__takes_receives(void **state)
{
	char in[8];
	struct world w;

	(void)state;
	world_open(&w, "hardware", false);
	tsend(&w, "abc", TAG);
	await_refusal(&w);
	for (uint64_t end = clk_now_ns(NULL) + 2 * QUIET_NS; clk_now_ns(NULL) < end;) {
		look(&w.a);
		look(&w.b);
	}
	while (w.r->state != CXI_RXC_ENABLED) /* but for the few that are on their way */
		look(&w.b);
	entries_allow(&w, 1);
	assert_int_equal(fi_trecv(w.b.e.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL), 0);
	await_message(&w, TAG);
	world_close(&w);
}

/*
 * A program sleeps on its descriptor, and looks when that says so. Its senders are told in time all the same: they ask
 * again only once in a second.
 */
static void pause__while_its_program_sleeps(void **state)
{
	struct pollfd fd = {.events = POLLIN};
	uint64_t until, before;
	bool is_due = true;
	struct fid *fids[1];
	struct world w;

	(void)state;
	world_open_as(&w, "hardware", false, FI_WAIT_FD);
	assert_int_equal(fi_control(&w.b.e.cq->fid, FI_GETWAIT, &fd.fd), 0);
	fids[0] = &w.b.e.cq->fid;
	tsend(&w, "abc", TAG);
	await_refusal(&w);
	until = clk_now_ns(NULL) + WAIT_NS;
	for (before = refusals(&w); refusals(&w) < before + 60;) {
		look(&w.a);
		if (!is_due && !poll(&fd, 1, 1))
			continue;
		look(&w.b);
		is_due = fi_trywait(w.b.f.fabric, fids, 1) == -FI_EAGAIN;
		assert_true(clk_now_ns(NULL) < until);
	}
	world_close(&w);
}

/*
 * A message that a counter has started is refused, and sent again when there is room. That is one success, and no
 * failure.
 */
static void pause__of_deferred_work(void **state)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct iovec iov = {(void *)(uintptr_t)"abc", 3};
	struct fid_cntr *trig, *done;
	struct fi_op_tagged op;
	struct fi_deferred_work work;
	struct world w;
	char in[8];

	(void)state;
	world_open(&w, "hardware", false);
	assert_int_equal(fi_cntr_open(w.a.f.domain, &attr, &trig, NULL), 0);
	assert_int_equal(fi_cntr_open(w.a.f.domain, &attr, &done, NULL), 0);
	op = (struct fi_op_tagged){
		.ep = w.a.e.ep, .msg = {.msg_iov = &iov, .iov_count = 1, .addr = w.to, .tag = TAG}};
	work = (struct fi_deferred_work){.threshold = 1, .triggering_cntr = trig, .completion_cntr = done,
					 .op_type = FI_OP_TSEND, .op.tagged = &op};
	assert_int_equal(fi_control(&w.a.f.domain->fid, FI_QUEUE_WORK, &work), 0);
	assert_int_equal(fi_cntr_add(trig, 1), 0);
	await_refusal(&w);
	entries_allow(&w, 8);
	trecv(&w, in, sizeof(in), TAG);
	await_message(&w, TAG);
	for (uint64_t until = clk_now_ns(NULL) + WAIT_NS; !fi_cntr_read(done); look(&w.a))
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(fi_cntr_read(done), 1);
	assert_int_equal(fi_cntr_readerr(done), 0);
	assert_int_equal(fi_close(&trig->fid), 0);
	assert_int_equal(fi_close(&done->fid), 0);
	world_close(&w);
}

/* --- receives that become software's -------------------------------------------------------------- */

/* The oldest event alone. */
static void step(struct cassini_eq *eq)
{
	const struct cassini_event *ev = cassini_eq_peek(eq);
	struct cxi_req *req;

	assert_non_null(ev);
	req = (struct cxi_req *)(uintptr_t)ev->user_ptr;
	eq->is_taken = true;
	req->on_event(req, ev);
	cassini_eq_pop(eq);
	eq->is_taken = false;
}

/* b's adapter alone takes a message, whose event is the only one. */
static void take_one(const struct world *w, const char *text)
{
	tsend(w, text, TAG);
	cxi_fix_await_event(&w->b.f, w->r->eq, &w->b.e, 1);
}

static void expect_part(const struct world *w, const char *at, const char *text)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(w->b.e.cq, &entry, 1)) == -FI_EAGAIN) {
		look(&w->a);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 1);
	assert_ptr_equal(entry.buf, at);
	assert_int_equal(entry.len, strlen(text));
	assert_memory_equal(at, text, strlen(text));
}

/*
 * The copy of a message into a buffer for many ends when the search that precedes the move has ended, so that its event
 * is behind that of the search. The next message, which software has already, lies behind it all the same.
 */
static void move__multi_receive_with_an_unread_event(void **state)
{
	struct cassini_event first, next;
	static char in[4096];
	struct cxi_recv_args a = {.buf = in, .len = sizeof(in), .src = FI_ADDR_UNSPEC, .tag = TAG,
				  .flags = FI_MULTI_RECV, .tagged = true};
	struct cassini_eq *eq;
	struct world w;

	(void)state;
	world_open(&w, "hybrid", true);
	eq = w.r->eq;
	lock_acquire(w.lock);
	cxi_drain(eq); /* that its entry was enabled */
	assert_int_equal(cxi_recv_common(cxi_ep_of(w.b.e.ep), &a), 0);
	lock_release(w.lock);
	take_one(&w, "abc");
	lock_acquire(w.lock);
	first = *cassini_eq_peek(eq);
	cassini_eq_pop(eq);
	assert_ptr_equal(first.start, in);
	/* the adapter goes to software by itself, and takes the next one */
	cassini_pte_set(w.r->pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_SM_UNEXPECTED_FAIL, true);
	step(eq);
	assert_int_equal(w.r->state, CXI_RXC_PENDING_SOFTWARE);
	next = *cassini_eq_peek(eq); /* of the search */
	assert_int_equal(next.type, CASSINI_EV_SEARCH);
	cassini_eq_pop(eq);
	lock_release(w.lock);
	take_one(&w, "defg");
	lock_acquire(w.lock);
	assert_true(cassini_eq_push(eq, &next, false));
	assert_true(cassini_eq_push(eq, &first, false));
	lock_release(w.lock);
	expect_part(&w, in, "abc");
	expect_part(&w, in + 3, "defg");
	world_close(&w);
}

/* --- receives that are cancelled ----------------------------------------------------------------- */

/* The error entry of @context, which must be the next that b has. */
static void await_cancelled(const struct world *w, const void *context)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(w->b.e.cq, &entry, 1)) == -FI_EAGAIN)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(w->b.e.cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_ptr_equal(err.op_context, context);
}

static void recv_locked(const struct world *w, void *context)
{
	static char in[8];
	const struct cxi_recv_args a = {.buf = in, .len = sizeof(in), .src = FI_ADDR_UNSPEC, .tag = TAG,
					.context = context, .tagged = true};

	assert_int_equal(cxi_recv_common(cxi_ep_of(w->b.e.ep), &a), 0);
}

/* The adapter has no entry for it, and its event that says so is unread. It ends all the same, and others go on. */
static void cancel__of_a_refused_one(void **state)
{
	static const char *const modes[] = {"hardware", "hybrid"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		int context;
		struct world w;
		char in[8];

		world_open(&w, modes[i], false);
		lock_acquire(w.lock);
		recv_locked(&w, &context);
		assert_int_equal(w.r->state, CXI_RXC_PENDING_DISABLE);
		assert_int_equal(cxi_recv_cancel(w.r, &context), 0);
		assert_int_equal(cxi_recv_cancel(w.r, &context), -FI_ENOENT);
		lock_release(w.lock);
		await_cancelled(&w, &context);
		entries_allow(&w, 8);
		trecv(&w, in, sizeof(in), TAG);
		tsend(&w, "abc", TAG);
		await_message(&w, TAG);
		assert_int_equal(cxi_rxc_posted(w.r), 0);
		world_close(&w);
	}
}

/* A receiver whose receives have no order (RNR): those that are refused are tried again while it runs. */
static void rnr_open(struct side *s)
{
	struct fi_info *h = fi_allocinfo();
	struct cassini_lni *lni;

	assert_non_null(h);
	h->ep_attr->protocol = CXI_PROTO_RNR;
	h->caps = FI_MSG | FI_TAGGED;
	cxi_fix_open_info(&s->f, cxi_fix_info(FI_VERSION(1, 17), h));
	domain_of(s)->params.rnr_append_retry_timeout_us = 1000000000;
	cxi_fix_ep_open(&s->e, &s->f);
	lni = domain_of(s)->lni;
	lni->svc.max[CASSINI_RSRC_LE] = lni->used[CASSINI_RSRC_LE];
}

/* The same of one that was refused before, and has just been refused again. */
static void cancel__of_one_refused_again(void **state)
{
	struct world w = {0};
	int context;

	(void)state;
	rnr_open(&w.b);
	w.r = cxi_ep_of(w.b.e.ep)->rxc;
	w.lock = &domain_of(&w.b)->kit.lock;
	lock_acquire(w.lock);
	recv_locked(&w, &context);
	cxi_drain(w.r->eq);
	assert_true(cxi_rxc_has_timers(w.r));
	cxi_rxc_timers(w.r);
	assert_non_null(cassini_eq_peek(w.r->eq));
	assert_int_equal(cxi_recv_cancel(w.r, &context), 0);
	lock_release(w.lock);
	await_cancelled(&w, &context);
	assert_int_equal(cxi_rxc_posted(w.r), 0);
	side_close(&w.b);
}

/* --- senders that do not tell, or not the truth -------------------------------------------------- */

/* b alone is at work until it has refused a message. */
static void await_disabled(const struct world *w)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (w->r->state != CXI_RXC_FLOW_CONTROL) {
		look(&w->b);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* A notice of @cnt refusals of who has @pid on this host. */
static void notice(const struct world *w, uint16_t pid, unsigned cnt)
{
	struct cxi_portal *p = w->r->portal[0];
	uint32_t nic = domain_of(&w->b)->info.nic;
	struct cassini_event ev = {
		.type = CASSINI_EV_PUT,
		.rc = CASSINI_RC_OK,
		.initiator = CASSINI_MATCH_ID(pid, nic),
		.vni = cassini_dom_vni(p->dom[0]),
		.match_bits = cxi_sh_ctrl(CXI_CTRL_FC_NOTIFY, 3, 0, cnt),
		.dom = p->dom[0],
	};

	lock_acquire(w->lock);
	ev.life = cassini_peer_life(p->dom[0], nic, pid);
	cxi_fc_notified(w->r, p, &ev);
	lock_release(w->lock);
}

/* A receiver counts what it has refused, not what anybody says. */
static void notice__of_more_than_is_true(void **state)
{
	struct world w;
	uint16_t pid;
	char in[8];

	(void)state;
	world_open(&w, "hardware", false);
	pid = cxi_ep_of(w.a.e.ep)->portal->pid;
	tsend(&w, "abc", TAG);
	await_disabled(&w);
	notice(&w, (uint16_t)(pid ^ 1), 1000);
	notice(&w, (uint16_t)(pid ^ 2), 1);
	assert_int_equal(w.r->state, CXI_RXC_FLOW_CONTROL);
	notice(&w, pid, 0xffff);
	entries_allow(&w, 1);
	trecv(&w, in, sizeof(in), TAG);
	await_message(&w, TAG);
	world_close(&w);
}

/* More than there is room for in one notice: all are told of. */
static void notice__of_very_many(void **state)
{
	enum { CNT = 70000 };
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct cassini_dom *dom;
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	world_open(&w, "hardware", false);
	tsend(&w, "abc", TAG);
	await_disabled(&w);
	dom = w.r->portal[0]->dom[0];
	cmd = (struct cassini_cmd){.opcode = CASSINI_OP_PUT, .nic = domain_of(&w.b)->info.nic,
				   .pid = w.r->portal[0]->pid, .dom = cxi_ep_of(w.a.e.ep)->portal->dom[0]};
	lock_acquire(w.lock);
	assert_int_equal(dom->peer_cnt, 1);
	for (uint32_t i = 0; i <= dom->peer_mask; i++)
		for (int k = 0; k < CNT && dom->peer_tab[i]; k++)
			cassini_drops_add(w.r->pte, dom->peer_tab[i]);
	w.r->pte->drop_count = (w.r->pte->drop_count + CNT) & 0xffffff;
	lock_release(w.lock);
	lock_acquire(&domain_of(&w.a)->kit.lock);
	for (int k = 0; k < CNT; k++)
		cxi_send_lost(cxi_ep_of(w.a.e.ep)->txc, &cmd, CASSINI_RC_PT_DISABLED);
	lock_release(&domain_of(&w.a)->kit.lock);
	while (w.r->state != CXI_RXC_ENABLED) {
		look(&w.a);
		look(&w.b);
		assert_true(clk_now_ns(NULL) < until);
	}
	side_close(&w.b); /* else the other one waits until all have been taken */
	side_close(&w.a);
}

/* @c sends as well, and is heard although the other sender has gone. */
static void another_is_heard(struct world *w, struct side *c)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	bool is_posted = false;
	char in[8] = "";
	ssize_t ret;

	assert_int_equal(fi_tsend(c->e.ep, "xyz", 3, NULL, 1, TAG, NULL), 0);
	entries_allow(w, 8);
	while ((ret = fi_cq_read(w->b.e.cq, &entry, 1)) == -FI_EAGAIN) {
		look(c);
		if (!is_posted)
			is_posted = !fi_trecv(w->b.e.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 1);
	assert_memory_equal(in, "xyz", 3);
}

static void side_open(const struct world *w, struct side *c)
{
	struct cxi_addr to;
	size_t len = sizeof(to);

	cxi_fix_open(&c->f);
	cxi_fix_ep_open(&c->e, &c->f);
	assert_int_equal(fi_getname(&w->b.e.ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(c->e.av, &to, 1, NULL, 0, NULL), 1);
}

static void gone__closed_before_it_tells(void **state)
{
	struct world w;
	struct side c;

	(void)state;
	world_open(&w, "hardware", false);
	side_open(&w, &c);
	tsend(&w, "abc", TAG);
	await_disabled(&w);
	side_close(&w.a);
	another_is_heard(&w, &c);
	side_close(&c);
	side_close(&w.b);
}

/* It lives and computes. The others do not wait for it, and what it has sent comes when it looks at its endpoint. */
static void quiet__lives_and_does_not_tell(void **state)
{
	struct world w;
	struct side c;
	char in[8];

	(void)state;
	world_open(&w, "hardware", false);
	side_open(&w, &c);
	tsend(&w, "abc", TAG + 1);
	await_disabled(&w);
	another_is_heard(&w, &c);
	assert_int_equal(w.r->pte->apart_cnt, 1);
	trecv(&w, in, sizeof(in), TAG + 1);
	await_message(&w, TAG + 1);
	assert_memory_equal(in, "abc", 3);
	assert_int_equal(w.r->pte->apart_cnt, 0);
	side_close(&c);
	world_close(&w);
}

/* A process that sends to who says through @fd where it is, and lives until it is killed. */
static void child_run(int fd)
{
	struct cxi_addr to;
	struct side c;

	cxi_fix_open(&c.f);
	cxi_fix_ep_open(&c.e, &c.f);
	if (read(fd, &to, sizeof(to)) != sizeof(to) || fi_av_insert(c.e.av, &to, 1, NULL, 0, NULL) != 1 ||
	    fi_tsend(c.e.ep, "abc", 3, NULL, 1, TAG, NULL))
		_exit(1);
	for (;;)
		pause();
}

/* Nothing of ours is under way to it that would tell us. */
static void gone__killed_before_it_tells(void **state)
{
	struct cxi_addr to;
	size_t len = sizeof(to);
	struct world w;
	struct side c;
	int fd[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		child_run(fd[0]);
		_exit(1);
	}
	world_open(&w, "hardware", false);
	assert_int_equal(fi_getname(&w.b.e.ep->fid, &to, &len), 0);
	assert_int_equal(write(fd[1], &to, sizeof(to)), sizeof(to));
	await_disabled(&w);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	side_open(&w, &c); /* which removes the files that the other one has left */
	another_is_heard(&w, &c);
	side_close(&c);
	world_close(&w);
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pause__without_entries),
		cmocka_unit_test(pause__with_another_receive),
		cmocka_unit_test(pause__without_a_request_buffer),
		cmocka_unit_test(pause__takes_receives),
		cmocka_unit_test(pause__while_its_program_sleeps),
		cmocka_unit_test(pause__of_deferred_work),
		cmocka_unit_test(move__multi_receive_with_an_unread_event),
		cmocka_unit_test(cancel__of_a_refused_one),
		cmocka_unit_test(cancel__of_one_refused_again),
		cmocka_unit_test(notice__of_more_than_is_true),
		cmocka_unit_test(notice__of_very_many),
		cmocka_unit_test(quiet__lives_and_does_not_tell),
		cmocka_unit_test(gone__closed_before_it_tells),
		cmocka_unit_test(gone__killed_before_it_tells),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
