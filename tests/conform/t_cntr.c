// SPDX-License-Identifier: BSD-2-Clause
// Counters, event queues, poll sets.
#include "conform.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* --- counters ------------------------------------------------------------------------------------ */

static void traffic(struct ct *c, unsigned n)
{
	static uint8_t mem[2][256];

	for (unsigned i = 0; i < n; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[i], .mem = mem[c->rank],
				   .len = 200};

		if (c->rank)
			ct_recv(c, &m);
		else
			ct_send(c, &m);
	}
}

static void cntr_msg(struct ct *c)
{
	c->want.cntr_flags = c->rank ? FI_RECV : FI_SEND;
	ct_open(c);
	traffic(c, 50);
	OK(fi_cntr_wait(c->cntr, 50, 10000));
	CHECK(fi_cntr_read(c->cntr) == 50 && fi_cntr_readerr(c->cntr) == 0, "%llu and %llu errors",
	      (unsigned long long)fi_cntr_read(c->cntr), (unsigned long long)fi_cntr_readerr(c->cntr));
	for (unsigned i = 0; i < 50; i++)
		ct_comp(c, c->rank ? c->rxcq : c->txcq);
	RET(-FI_ETIMEDOUT, fi_cntr_wait(c->cntr, 51, 50));
	ct_close(c);
}

/* An endpoint without CQs on which everything is counted only. */
static void cntr_only(struct ct *c)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *tx, *rx;

	c->want.tx_bind = c->want.rx_bind = FI_SELECTIVE_COMPLETION;
	c->want.no_enable = true;
	ct_open(c);
	OK(fi_cntr_open(c->domain, &attr, &tx, NULL));
	OK(fi_cntr_open(c->domain, &attr, &rx, NULL));
	OK(fi_ep_bind(c->ep, &tx->fid, FI_SEND));
	OK(fi_ep_bind(c->ep, &rx->fid, FI_RECV));
	OK(fi_enable(c->ep));
	ct_connect(c);
	traffic(c, 200);
	OK(fi_cntr_wait(c->rank ? rx : tx, 200, 10000));
	ct_no_comp(c, c->txcq);
	ct_no_comp(c, c->rxcq);
	ct_barrier(c);
	OK(fi_close(&c->ep->fid));
	OK(fi_close(&tx->fid));
	OK(fi_close(&rx->fid));
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL)); /* for ct_close() */
	c->traffic = false;
	ct_close(c);
}

/*
 * OpenSHMEM libraries do so: an endpoint that serves already gets the counters of what it sends. Nothing else may come
 * late.
 */
static void cntr_late(struct ct *c)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr;

	ct_open(c);
	traffic(c, 10);
	for (unsigned i = 0; i < 10; i++)
		ct_comp(c, c->rank ? c->rxcq : c->txcq);
	OK(fi_cntr_open(c->domain, &attr, &cntr, NULL));
	OK(fi_ep_bind(c->ep, &cntr->fid, c->rank ? FI_RECV : FI_SEND));
	RET(-FI_EINVAL, fi_ep_bind(c->ep, &cntr->fid, c->rank ? FI_RECV : FI_SEND));
	RET(-FI_EOPBADSTATE, fi_ep_bind(c->ep, &c->txcq->fid, FI_TRANSMIT));
	ct_barrier(c);
	traffic(c, 50);
	for (unsigned i = 0; i < 50; i++)
		ct_comp(c, c->rank ? c->rxcq : c->txcq);
	OK(fi_cntr_wait(cntr, 50, 10000));
	RET(50, (ssize_t)fi_cntr_read(cntr));
	RET(-FI_EBUSY, fi_close(&cntr->fid));
	ct_barrier(c);
	OK(fi_close(&c->ep->fid));
	OK(fi_close(&cntr->fid));
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL)); /* for ct_close() */
	c->traffic = false;
	ct_close(c);
}

static void cntr_rma(struct ct *c)
{
	struct ct_window w;

	c->want.cntr_flags = FI_READ | FI_WRITE;
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_window(c, &w, 4096, FI_REMOTE_READ | FI_REMOTE_WRITE);
	ct_barrier(c);
	if (c->rank == 0) {
		c->traffic = true;
		for (unsigned i = 0; i < 40; i++)
			while (ct_again(c, i % 2 ? fi_read(c->ep, w.mine.mem, 100, w.mine.desc, c->peer, w.at.addr,
							   w.at.key, NULL)
						 : fi_write(c->ep, w.mine.mem, 100, w.mine.desc, c->peer, w.at.addr,
							    w.at.key, NULL)))
				;
		OK(fi_cntr_wait(c->cntr, 40, 10000));
		CHECK(fi_cntr_read(c->cntr) == 40, "%llu", (unsigned long long)fi_cntr_read(c->cntr));
		for (unsigned i = 0; i < 40; i++)
			ct_comp(c, c->txcq);
	}
	ct_window_free(c, &w);
	ct_close(c);
}

static void cntr_set(struct ct *c)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *n;

	ct_open(c);
	OK(fi_cntr_open(c->domain, &attr, &n, NULL));
	CHECK(!fi_cntr_read(n) && !fi_cntr_readerr(n), "a new counter is not 0");
	OK(fi_cntr_set(n, 10));
	OK(fi_cntr_add(n, 5));
	CHECK(fi_cntr_read(n) == 15, "10 and 5 is %llu", (unsigned long long)fi_cntr_read(n));
	OK(fi_cntr_seterr(n, 2));
	OK(fi_cntr_adderr(n, 1));
	CHECK(fi_cntr_readerr(n) == 3, "2 and 1 is %llu", (unsigned long long)fi_cntr_readerr(n));
	OK(fi_cntr_wait(n, 15, 0));
	OK(fi_close(&n->fid));
	attr.events = (enum fi_cntr_events)77;
	CHECK(fi_cntr_open(c->domain, &attr, &n, NULL) < 0, "a counter of unknown events");
	ct_close(c);
}

/* A failed operation counts as an error and wakes the waiter. */
static void cntr_error(struct ct *c)
{
	struct ct_ep2 gone;
	uint8_t mem[8] = {0};
	fi_addr_t to;
	int ret;

	c->want.cntr_flags = FI_SEND;
	ct_open(c);
	ct_ep2_open(c, &gone);
	RET(1, fi_av_insert(c->av, gone.addr, 1, &to, 0, NULL));
	ct_ep2_close(c, &gone);
	struct ct_msg m = {.addr = to, .ctx = &c->ctx[0], .mem = mem, .len = 8};
	if (ct_send_gone(c, &m)) {
		ret = fi_cntr_wait(c->cntr, 1, 10000);
		RET(-FI_EAVAIL, ret);
		CHECK(fi_cntr_readerr(c->cntr) == 1 && !fi_cntr_read(c->cntr), "%llu errors",
		      (unsigned long long)fi_cntr_readerr(c->cntr));
		ct_comp_err(c, c->txcq, FI_SEND | FI_MSG);
	}
	ct_close(c);
}

/* --- event queues -------------------------------------------------------------------------------- */

static void eq_write(struct ct *c)
{
	struct fi_eq_attr attr = {.size = 4, .flags = FI_WRITE, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_eq_entry in = {.context = &attr, .data = 5}, out;
	struct fi_eq_err_entry err = {0};
	struct fid_eq *eq;
	uint32_t event;
	uint64_t start;

	ct_open_to_domain(c);
	OK(fi_eq_open(c->fabric, &attr, &eq, NULL));
	RET(-FI_EAGAIN, fi_eq_read(eq, &event, &out, sizeof(out), 0));
	RET(-FI_EAGAIN, fi_eq_readerr(eq, &err, 0));
	start = ct_now_ms();
	{
		ssize_t ret = fi_eq_sread(eq, &event, &out, sizeof(out), 60, 0);

		CHECK(ret == -FI_EAGAIN || ret == -FI_ETIMEDOUT, "%s", ct_err(ret));
		CHECK(ct_now_ms() - start >= 40, "woke after %llu ms", (unsigned long long)(ct_now_ms() - start));
	}
	for (uint64_t i = 0; i < 20; i++) { /* more than its size */
		in.data = i;
		in.fid = &eq->fid;
		RET(sizeof(in), fi_eq_write(eq, FI_NOTIFY, &in, sizeof(in), 0));
	}
	RET(sizeof(out), fi_eq_read(eq, &event, &out, sizeof(out), FI_PEEK));
	CHECK(out.data == 0, "peeked %llu", (unsigned long long)out.data);
	for (uint64_t i = 0; i < 20; i++) {
		RET(sizeof(out), i % 2 ? fi_eq_read(eq, &event, &out, sizeof(out), 0)
				       : fi_eq_sread(eq, &event, &out, sizeof(out), 1000, 0));
		CHECK(event == FI_NOTIFY && out.data == i && out.context == &attr, "event %u, data %llu", event,
		      (unsigned long long)out.data);
	}
	RET(-FI_EAGAIN, fi_eq_read(eq, &event, &out, sizeof(out), 0));
	RET(sizeof(in), fi_eq_write(eq, FI_NOTIFY, &in, sizeof(in), 0));
	CHECK(fi_eq_read(eq, &event, &out, 4, 0) <= 4, "more than was asked for");
	CHECK(*fi_eq_strerror(eq, 5, NULL, NULL, 0), "no text");
	OK(fi_close(&eq->fid));
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(c->info);
}

static void *write_later(void *arg)
{
	struct fi_eq_entry in = {.data = 9};
	struct timespec ts = {0, 30 * 1000 * 1000};

	nanosleep(&ts, NULL);
	fi_eq_write(arg, FI_NOTIFY, &in, sizeof(in), 0);
	return NULL;
}

/* A sleeping reader is woken by another thread's event, long before its timeout. */
static void eq_wake(struct ct *c)
{
	static const enum fi_wait_obj obj[] = {FI_WAIT_UNSPEC, FI_WAIT_FD};

	ct_open_to_domain(c);
	for (unsigned i = 0; i < 2; i++) {
		struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = obj[i]};
		uint64_t start = ct_now_ms();
		struct fi_eq_entry out;
		struct fid_eq *eq;
		uint32_t event;
		pthread_t th;

		OK(fi_eq_open(c->fabric, &attr, &eq, NULL));
		OK(pthread_create(&th, NULL, write_later, eq));
		RET(sizeof(out), fi_eq_sread(eq, &event, &out, sizeof(out), 10000, 0));
		CHECK(ct_now_ms() - start < 5000, "woke late");
		pthread_join(th, NULL);
		OK(fi_close(&eq->fid));
	}
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(c->info);
}

static void eq_bound(struct ct *c)
{
	c->want.eq = true;
	if (c->p->has & CT_NO_EQ_BIND)
		ct_skip(c, "endpoints have no events");
	ct_open(c);
	ct_sweep(c, false, CT_SEND, 0);
	CHECK(fi_close(&c->eq->fid) == -FI_EBUSY, "a bound EQ closes");
	ct_close(c);
}

/* The real providers take an EQ after fi_enable, too. */
static void eq_bound_late(struct ct *c)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};

	if (c->p->has & CT_NO_EQ_BIND)
		ct_skip(c, "endpoints have no events");
	ct_open(c);
	OK(fi_eq_open(c->fabric, &attr, &c->eq, NULL));
	OK(fi_ep_bind(c->ep, &c->eq->fid, 0));
	CHECK(fi_close(&c->eq->fid) == -FI_EBUSY, "a bound EQ closes");
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

/*
 * An operation that asked for no completion, or has had it, and fails afterwards, is an event of the endpoint: what its
 * caller gave as the context may be somebody else's by now. Endpoints without events only log it. Rank 0 looks for the
 * sends with ctx[0], which alone may end with an error entry.
 */
struct late {
	unsigned done, failed, events;
};

static void late_look(struct ct *c, struct late *l)
{
	struct fi_cq_err_entry e = {0};
	struct fi_eq_err_entry q = {0};
	struct fi_cq_tagged_entry t;
	ssize_t ret = fi_cq_read(c->txcq, &t, 1);

	l->done += ret == 1;
	if (ret == -FI_EAVAIL) {
		RET(1, fi_cq_readerr(c->txcq, &e, 0));
		CHECK(e.op_context == &c->ctx[0], "error %d/%d of an operation without context", e.err, e.prov_errno);
		l->failed++;
	}
	if (!c->eq || fi_eq_readerr(c->eq, &q, 0) <= 0)
		return;
	CHECK(q.fid == &c->ep->fid && q.err && q.prov_errno, "event of %p: error %d/%d", (void *)q.fid, q.err,
	      q.prov_errno);
	l->events++;
}

/* @sends of those with a context were accepted, @injects of the others. */
static void late_wait(struct ct *c, struct late *l, unsigned sends, unsigned injects)
{
	uint64_t until = ct_now_ms() + 20000;

	while (l->done + l->failed < sends || (c->eq && l->events < injects + l->done)) {
		CHECK(ct_now_ms() < until, "of %u and %u: %u done, %u failed, %u events", sends, injects, l->done,
		      l->failed, l->events);
		late_look(c, l);
		ct_progress(c);
	}
	for (until = ct_now_ms() + 50; ct_now_ms() < until; ct_progress(c))
		late_look(c, l);
	CHECK(l->done + l->failed == sends && (!c->eq || l->events == injects + l->done),
	      "of %u and %u: %u done, %u failed, %u events", sends, injects, l->done, l->failed, l->events);
}

/* Writes to a region that is not there any more. */
static void eq_late_write(struct ct *c)
{
	struct late l = {0};
	uint64_t v = 5;
	struct ct_buf b, mine;
	struct fi_rma_iov at;

	c->want.eq = !(c->p->has & CT_NO_EQ_BIND);
	ct_open(c);
	ct_buf(c, &b, 64, 0, FI_REMOTE_WRITE);
	ct_buf(c, &mine, 64, 0, 0);
	ct_share(c, &b, &at);
	if (c->rank)
		ct_buf_free(c, &b);
	ct_barrier(c);
	if (!c->rank) {
		while (ct_again(c, fi_inject_write(c->ep, &v, 8, c->peer, at.addr, at.key)))
			;
		while (ct_again(c, fi_write(c->ep, mine.mem, 8, mine.desc, c->peer, at.addr, at.key, &c->ctx[0])))
			;
		late_wait(c, &l, 1, 1);
		CHECK(l.failed == 1, "a write to no memory was done");
		ct_buf_free(c, &b);
	}
	ct_barrier(c);
	ct_buf_free(c, &mine);
	ct_close(c);
}

/* Short sends to one that has just gone: those that complete at once have completed, whatever comes of them. */
static void eq_late_send(struct ct *c)
{
	uint8_t addr[64], out[8] = {1}, in[4][8];
	struct ct_ep2 e2 = {0};
	struct late l = {0};
	unsigned sends = 0, injects = 0;
	fi_addr_t to;

	c->want.eq = !(c->p->has & CT_NO_EQ_BIND);
	ct_open(c);
	if (c->rank)
		ct_ep2_open(c, &e2);
	ct_swap(c, e2.addr, addr, sizeof(addr));
	for (unsigned i = 0; i < 4; i++) {
		struct fi_cq_tagged_entry t;

		if (c->rank) {
			OK(fi_recv(e2.ep, in[i], 8, NULL, FI_ADDR_UNSPEC, &c->ctx[i]));
			ct_barrier(c);
			while (fi_cq_read(e2.cq, &t, 1) == -FI_EAGAIN)
				ct_progress(c);
		} else {
			if (!i)
				RET(1, fi_av_insert(c->av, addr, 1, &to, 0, NULL));
			ct_barrier(c);
			while (ct_again(c, fi_send(c->ep, out, 8, NULL, to, &c->ctx[1])))
				;
			ct_tx(c, &c->ctx[1], FI_SEND | FI_MSG);
		}
		ct_barrier(c);
	}
	if (c->rank)
		ct_ep2_close(c, &e2);
	ct_barrier_idle(c);
	c->traffic = true;
	for (unsigned i = 0; !c->rank && i < 3; i++) {
		ssize_t ret;

		while ((ret = fi_send(c->ep, out, 8, NULL, to, &c->ctx[0])) == -FI_EAGAIN)
			late_look(c, &l);
		sends += !ret;
		while ((ret = fi_inject(c->ep, out, 8, to)) == -FI_EAGAIN)
			late_look(c, &l);
		injects += !ret;
	}
	if (!c->rank && !(c->p->has & CT_REFUSES))
		late_wait(c, &l, sends, injects);
	else if (!c->rank)
		late_wait(c, &l, sends, 0);
	ct_close(c);
}

/* --- poll sets ----------------------------------------------------------------------------------- */

static void poll_set(struct ct *c)
{
	struct fi_poll_attr attr = {0};
	struct fid_poll *set;
	void *who[4];
	int n, ret;

	ct_open(c);
	ret = fi_poll_open(c->domain, &attr, &set);
	if (ret == -FI_ENOSYS)
		ct_skip(c, "no poll sets");
	OK(ret);
	c->rxcq->fid.context = &c->rxcq;
	c->txcq->fid.context = &c->txcq;
	OK(fi_poll_add(set, &c->rxcq->fid, 0));
	OK(fi_poll_add(set, &c->txcq->fid, 0));
	RET(0, fi_poll(set, who, 4));
	ct_barrier(c);
	traffic(c, 1);
	while ((n = fi_poll(set, who, 4)) == 0)
		;
	RET(1, n);
	CHECK(who[0] == (c->rank ? (void *)&c->rxcq : (void *)&c->txcq), "the other CQ is ready");
	ct_comp(c, c->rank ? c->rxcq : c->txcq);
	ct_barrier(c);
	RET(0, fi_poll(set, who, 4));
	OK(fi_poll_del(set, &c->txcq->fid, 0));
	CHECK(fi_poll_add(set, &c->ep->fid, 0) < 0, "an endpoint in a poll set");
	OK(fi_poll_del(set, &c->rxcq->fid, 0));
	OK(fi_close(&set->fid));
	ct_close(c);
}

const struct ct_test cntr_tests[] = {
	{"cntr_msg", cntr_msg, FI_MSG, 0, 0, "cntr_cnt"},
	{"cntr_only", cntr_only, FI_MSG, 0, 0, NULL},
	{"cntr_late", cntr_late, FI_MSG, 0, 0, NULL},
	{"cntr_rma", cntr_rma, FI_RMA, 0, CT_GENS, NULL},
	{"cntr_set", cntr_set, FI_MSG, 0, CT_SOLO, NULL},
	{"cntr_error", cntr_error, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, NULL},
	{"eq_write", eq_write, FI_MSG, 0, CT_SOLO, NULL},
	{"eq_wake", eq_wake, FI_MSG, 0, CT_SOLO, NULL},
	{"eq_bound", eq_bound, FI_MSG, 0, 0, NULL},
	{"eq_bound_late", eq_bound_late, FI_MSG, 0, 0, NULL},
	{"eq_late_write", eq_late_write, FI_RMA, 0, 0, NULL},
	{"eq_late_send", eq_late_send, FI_MSG, 0, CT_ANY_PATH, NULL},
	{"poll_set", poll_set, FI_MSG, 0, 0, NULL},
	{0},
};
