// SPDX-License-Identifier: BSD-2-Clause
// Flow control where it is hard to end: nothing makes room.
#include <poll.h>
#include <rdma/fi_trigger.h>

#include "cxi_fc_world.h"

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
	while (state_of(&w) != CXI_RXC_ENABLED) /* but for the few that are on their way */
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
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
