// SPDX-License-Identifier: BSD-2-Clause
// Blocking calls and descriptors: whatever comes between the last look and the sleep ends the
// sleep.
#include "conform.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * The moment in which a wake-up can be lost is the one before a blocking call sleeps: it has
 * looked, found nothing, and enters ppoll(2). This program's ppoll() stands in front of the C
 * library's, for the provider as well. In a thread that has set g_pause it makes the event happen
 * there and then, in the sleeper's own thread, and then sleeps far longer than it was told to: if
 * the descriptor does not say that something has happened, the wake-up is lost, on any machine at
 * any speed. The event may take the domain's lock: nobody sleeps with it.
 */
struct pause {
	struct ct *c;
	void (*event)(struct pause *p); /* called before each sleep */
	int sleeps;
	const struct pollfd *on; /* what this sleep is on */
	struct waits *w;
};

static __thread struct pause *g_pause;

#define LOST_MS	  10000
#define SLEEP_MIN 1000000 /* ns; naps of a waiter that drives are shorter, and end by themselves   \
			   */

static int real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	return (int)syscall(SYS_ppoll, fds, n, ts, mask, (size_t)8);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask,
		size_t len);

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t n,
						 const struct timespec *ts, const sigset_t *mask)
{
	struct timespec longer = {LOST_MS / 1000, 0};
	struct pause *p = g_pause;
	int ret;

	if (!p || (ts && !ts->tv_sec && ts->tv_nsec < SLEEP_MIN))
		return real_ppoll(fds, n, ts, mask);
	g_pause = NULL;
	p->on = fds;
	p->event(p);
	p->sleeps++;
	ret = real_ppoll(fds, n, &longer, mask);
	if (!ret)
		ct_fail(p->c, __FILE__, __LINE__, "sleep %d was not ended by what came before it",
			p->sleeps);
	g_pause = p;
	return ret;
}

/* What a hardened build calls instead. */
__attribute__((visibility("default"))) int __ppoll_chk(struct pollfd *fds, nfds_t n,
						       const struct timespec *ts,
						       const sigset_t *mask, size_t len)
{
	(void)len;
	return ppoll(fds, n, ts, mask);
}

/* --- the objects
 * ------------------------------------------------------------------------------------------------------------
 */

/* What is slept on for a message of c->ep, and by which call. */
enum kind { SREAD, SREADFROM, CNTR, SET_CQ, SET_CNTR, TRY_CQ, TRY_CNTR, KIND_NUM };
static const char *const kind_name[KIND_NUM] = {
	"fi_cq_sread",	    "fi_cq_sreadfrom",	 "fi_cntr_wait",       "fi_wait, queue",
	"fi_wait, counter", "fi_trywait, queue", "fi_trywait, counter"};

struct waits {
	enum kind kind;
	struct fid_wait *set;
	struct ct_ep2 from; /* who sends */
	fi_addr_t to;	    /* c->ep, as it knows it */
	uint8_t mem[64];
	uint64_t cnt;	     /* messages so far */
	struct fid_ep *late; /* enabled while somebody sleeps */
	struct fid_av *late_av;
};

static bool on_cntr(enum kind k)
{
	return k == CNTR || k == SET_CNTR || k == TRY_CNTR;
}

/* Who sends makes progress without the one who sleeps. */
static void send_one(struct ct *c, struct waits *w, fi_addr_t to)
{
	struct fi_cq_tagged_entry e;
	ssize_t ret;

	memset(w->mem, 7, sizeof(w->mem));
	while ((ret = fi_send(w->from.ep, w->mem, 8, NULL, to, &c->ctx[9])) == -FI_EAGAIN)
		fi_cq_read(w->from.cq, &e, 0);
	OK(ret);
	for (int i = 0; i < 200; i++) /* datagrams go out, and what the adapter has held back */
		fi_cq_read(w->from.cq, &e, 0);
}

static void recv_one(struct ct *c, struct waits *w)
{
	struct ct_msg m = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[1], .mem = w->mem + 32, .len = 8};

	ct_recv(c, &m);
}

/* Reads both ends' completions of a message that has come. */
static void took_one(struct ct *c, struct waits *w, bool is_read)
{
	if (!is_read)
		ct_comp(c, c->rxcq);
	ct_comp(c, w->from.cq);
	w->cnt++;
}

static void open_ep(struct ct *c, struct waits *w, enum fi_wait_obj obj, struct fid_ep **ep)
{
	struct fi_cntr_attr ca = {.events = FI_CNTR_EVENTS_COMP,
				  .wait_obj = w->set ? FI_WAIT_SET : obj,
				  .wait_set = w->set};
	struct fi_cq_attr qa = {
		.format = FI_CQ_FORMAT_TAGGED, .wait_obj = ca.wait_obj, .wait_set = w->set};

	OK(fi_endpoint(c->domain, c->info, ep, NULL));
	if (!on_cntr(w->kind)) {
		OK(fi_close(&c->rxcq->fid));
		OK(fi_cq_open(c->domain, &qa, &c->rxcq, NULL));
	} else {
		OK(fi_cntr_open(c->domain, &ca, &c->cntr, NULL));
		OK(fi_ep_bind(*ep, &c->cntr->fid, FI_RECV));
	}
	OK(fi_ep_bind(*ep, &c->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(*ep, &c->rxcq->fid, FI_RECV));
	OK(fi_ep_bind(*ep, &c->av->fid, 0));
}

static void open_waits(struct ct *c, struct waits *w, enum kind kind, enum fi_wait_obj obj)
{
	struct fi_wait_attr wa = {.wait_obj = obj};

	*w = (struct waits){.kind = kind};
	c->want.no_enable = true;
	ct_open(c);
	OK(fi_close(&c->ep->fid));
	if (kind == SET_CQ || kind == SET_CNTR)
		OK(fi_wait_open(c->fabric, &wa, &w->set));
	open_ep(c, w, obj, &c->ep);
	OK(fi_enable(c->ep));
	ct_connect(c);
	ct_ep2_open(c, &w->from);
	RET(1, fi_av_insert(w->from.av, c->addr, 1, &w->to, 0, NULL));
	recv_one(c, w); /* hands are shaken once */
	send_one(c, w, w->to);
	took_one(c, w, false);
}

static void close_waits(struct ct *c, struct waits *w)
{
	struct fid_wait *set = w->set;

	if (w->late)
		OK(fi_close(&w->late->fid));
	if (w->late_av)
		OK(fi_close(&w->late_av->fid));
	ct_ep2_close(c, &w->from);
	if (!set) {
		ct_close(c);
		c->cntr = NULL;
		return;
	}
	/* the set is of the fabric, which ct_close() closes */
	OK(fi_close(&c->ep->fid));
	if (c->cntr)
		OK(fi_close(&c->cntr->fid));
	c->cntr = NULL;
	OK(fi_close(&c->rxcq->fid));
	OK(fi_close(&set->fid));
	c->rxcq = ct_cq(c, 0, 0);
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL));
	ct_close(c);
}

/* fi_trywait, then the program's own poll(2). */
static void sleep_on_fd(struct ct *c, struct fid *fid)
{
	struct pollfd p = {.events = POLLIN};
	struct timespec ts = {1, 0}; /* our ppoll() makes it longer */
	int ret;

	OK(fi_control(fid, FI_GETWAIT, &p.fd));
	do {
		ret = fi_trywait(c->fabric, &fid, 1);
		CHECK(!ret || ret == -FI_EAGAIN, "%s", ct_err(ret));
		if (ret && fid->fclass == FI_CLASS_CQ)
			return;
		if (ret && fi_cntr_read(c->cntr) > 1)
			return;
	} while (ret);
	CHECK(ppoll(&p, 1, &ts, NULL) == 1, "%s", strerror(errno));
}

/* Waits by the call of w->kind until one message more has been counted or completed. */
static void wait_one(struct ct *c, struct waits *w, int timeout)
{
	struct fi_cq_tagged_entry e;
	uint64_t sum = w->cnt + 1;
	fi_addr_t src;

	switch (w->kind) {
	case SREAD:
		RET(1, fi_cq_sread(c->rxcq, &e, 1, NULL, timeout));
		break;
	case SREADFROM:
		RET(1, fi_cq_sreadfrom(c->rxcq, &e, 1, &src, NULL, timeout));
		break;
	case CNTR:
		OK(fi_cntr_wait(c->cntr, sum, timeout));
		break;
	case SET_CQ:
		do
			OK(fi_wait(w->set, timeout));
		while (fi_cq_read(c->rxcq, &e, 1) == -FI_EAGAIN);
		break;
	case SET_CNTR:
		do
			OK(fi_wait(w->set, timeout));
		while (fi_cntr_read(c->cntr) < sum);
		break;
	case TRY_CQ:
		while (fi_cq_read(c->rxcq, &e, 1) == -FI_EAGAIN)
			sleep_on_fd(c, &c->rxcq->fid);
		break;
	case TRY_CNTR:
		while (fi_cntr_read(c->cntr) < sum)
			sleep_on_fd(c, &c->cntr->fid);
		break;
	case KIND_NUM:
		break;
	}
	took_one(c, w, !on_cntr(w->kind));
}

/* --- what comes between the last look and the sleep
 * ----------------------------------------------------------------------------- */

static void a_message(struct pause *p)
{
	if (!p->sleeps)
		send_one(p->c, p->w, p->w->to);
}

/* Another thread, which reads another queue of the endpoint, and leaves. */
static void a_poll_then_a_message(struct pause *p)
{
	struct ct *c = p->c;
	struct fi_cq_tagged_entry e;

	for (int i = 0; i < 3 && !p->sleeps; i++)
		RET(-FI_EAGAIN, fi_cq_read(p->c->txcq, &e, 1));
	a_message(p);
}

/* ... and takes the sleeper's message. */
static void a_message_then_a_poll(struct pause *p)
{
	struct ct *c = p->c;
	struct fi_cq_tagged_entry e;

	a_message(p);
	for (int i = 0; i < 3 && !p->sleeps; i++)
		RET(-FI_EAGAIN, fi_cq_read(p->c->txcq, &e, 1));
}

/* Another thread waits as well, for what does not come, before and after the message. */
static void a_waiter_in_vain(struct pause *p)
{
	struct ct *c = p->c;

	if (p->sleeps)
		return;
	RET(-FI_ETIMEDOUT, fi_cntr_wait(c->cntr, 1000, 1));
	a_message(p);
	RET(-FI_ETIMEDOUT, fi_cntr_wait(c->cntr, 1000, 1));
}

/* An endpoint comes to the queue or the counter that is slept on, and then a message for it. */
static void an_endpoint_then_a_message(struct pause *p)
{
	struct ct *c = p->c;
	struct waits *w = p->w;
	uint8_t addr[64];
	size_t len;
	fi_addr_t to;

	if (!p->sleeps) {
		OK(fi_enable(w->late));
		return;
	}
	if (p->sleeps > 1)
		return;
	ct_get_name(c, w->late, addr, &len);
	RET(1, fi_av_insert(w->from.av, addr, 1, &to, 0, NULL));
	OK(fi_recv(w->late, w->mem + 32, 8, NULL, FI_ADDR_UNSPEC, &c->ctx[1]));
	send_one(c, w, to);
}

static void pause_at(struct ct *c, struct waits *w, void (*event)(struct pause *), int timeout)
{
	struct pause p = {.c = c, .w = w, .event = event};

	recv_one(c, w);
	g_pause = &p;
	wait_one(c, w, timeout);
	g_pause = NULL;
	CHECK(p.sleeps, "%s did not sleep", kind_name[w->kind]);
}

/* --- the tests ---------------------------------------------------------------------------------------------------- */

/* @obj: of the kinds in which our calls sleep; the descriptor is for FI_WAIT_FD. */
static void messages(struct ct *c, enum kind kind, enum fi_wait_obj obj)
{
	struct waits w;

	open_waits(c, &w, kind, obj);
	for (int i = 0; i < 3; i++) {
		pause_at(c, &w, a_message, i ? -1 : 20000);
		pause_at(c, &w, a_poll_then_a_message, 20000);
		pause_at(c, &w, a_message_then_a_poll, -1);
	}
	close_waits(c, &w);
}

static bool has(struct ct *c, enum kind kind)
{
	return on_cntr(kind) || (c->p->has & CT_HAS_WAIT_FD);
}

static void under(struct ct *c, enum fi_progress progress)
{
	static const enum fi_wait_obj obj[] = {FI_WAIT_FD, FI_WAIT_UNSPEC, FI_WAIT_MUTEX_COND};

	if (progress == FI_PROGRESS_AUTO && !(c->p->has & CT_HAS_AUTO))
		ct_skip(c, "manual progress only");
	c->want.progress = progress;
	for (enum kind k = 0; k < KIND_NUM; k++)
		for (unsigned i = 0; i < (k < TRY_CQ ? 3 : 1) && has(c, k); i++)
			messages(c, k, obj[i]);
}

static void wait_message(struct ct *c)
{
	under(c, FI_PROGRESS_MANUAL);
}

static void wait_message_auto(struct ct *c)
{
	under(c, FI_PROGRESS_AUTO);
}

static void wait_waiters(struct ct *c)
{
	struct waits w;

	open_waits(c, &w, CNTR, FI_WAIT_UNSPEC);
	for (int i = 0; i < 5; i++)
		pause_at(c, &w, a_waiter_in_vain, 20000);
	close_waits(c, &w);
}

static void wait_enable(struct ct *c)
{
	struct waits w;
	struct pause p = {.c = c, .w = &w, .event = an_endpoint_then_a_message};

	open_waits(c, &w, CNTR, FI_WAIT_UNSPEC);
	OK(fi_endpoint(c->domain, c->info, &w.late, NULL));
	OK(fi_ep_bind(w.late, &c->cntr->fid, FI_RECV));
	OK(fi_ep_bind(w.late, &c->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(w.late, &c->rxcq->fid, FI_RECV));
	w.late_av = ct_av(c); /* efa: one endpoint per address vector */
	OK(fi_ep_bind(w.late, &w.late_av->fid, 0));
	g_pause = &p;
	wait_one(c, &w, 20000);
	g_pause = NULL;
	CHECK(p.sleeps > 1, "%d sleeps", p.sleeps);
	close_waits(c, &w);
}

/* --- events of software
 * --------------------------------------------------------------------------------------------------------------
 */

static struct fid_cntr *g_cntr;
static struct fid_cq *g_cq;
static struct fid_eq *g_eq;

static void add(struct pause *p)
{
	struct ct *c = p->c;
	if (!p->sleeps)
		OK(fi_cntr_add(g_cntr, 2));
}

static void set(struct pause *p)
{
	struct ct *c = p->c;
	if (!p->sleeps)
		OK(fi_cntr_set(g_cntr, 9));
}

static void adderr(struct pause *p)
{
	struct ct *c = p->c;
	if (!p->sleeps)
		OK(fi_cntr_adderr(g_cntr, 1));
}

static void seterr(struct pause *p)
{
	struct ct *c = p->c;
	if (!p->sleeps)
		OK(fi_cntr_seterr(g_cntr, 5));
}

/* Two waiters for different values: the other one is first to see the news, and waits on. */
static void add_to_both(struct pause *p)
{
	struct ct *c = p->c;
	if (p->sleeps)
		return;
	OK(fi_cntr_add(g_cntr, 1));
	OK(fi_cntr_wait(g_cntr, 1, -1));
	RET(-FI_ETIMEDOUT, fi_cntr_wait(g_cntr, 100, 1));
}

static void signal_cq(struct pause *p)
{
	struct ct *c = p->c;
	if (!p->sleeps)
		OK(fi_cq_signal(g_cq));
}

static void write_eq(struct pause *p)
{
	struct ct *c = p->c;
	struct fi_eq_entry in = {.data = 5};

	if (!p->sleeps)
		RET(sizeof(in), fi_eq_write(g_eq, FI_NOTIFY, &in, sizeof(in), 0));
}

/* No endpoint is bound. */
static void cntr_calls(struct ct *c, enum fi_wait_obj obj)
{
	static const struct {
		void (*event)(struct pause *p);
		uint64_t threshold;
		int ret;
	} row[] = {{add_to_both, 1, 0},
		   {add, 3, 0},
		   {set, 9, 0},
		   {adderr, 20, -FI_EAVAIL},
		   {seterr, 20, -FI_EAVAIL}};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = obj};

	OK(fi_cntr_open(c->domain, &attr, &g_cntr, NULL));
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct pause p = {.c = c, .event = row[i].event};

		g_pause = &p;
		RET(row[i].ret, fi_cntr_wait(g_cntr, row[i].threshold, i % 2 ? 20000 : -1));
		g_pause = NULL;
		RET(1, p.sleeps);
	}
	RET(-FI_ETIMEDOUT, fi_cntr_wait(g_cntr, 20, 0));
	RET(-FI_ETIMEDOUT, fi_cntr_wait(g_cntr, 20, 1));
	OK(fi_close(&g_cntr->fid));
}

static void cq_calls(struct ct *c, enum fi_wait_obj obj)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = obj};
	struct pause p = {.c = c, .event = signal_cq};
	struct fi_cq_tagged_entry e;

	OK(fi_cq_open(c->domain, &attr, &g_cq, NULL));
	g_pause = &p;
	RET(-FI_EAGAIN, fi_cq_sread(g_cq, &e, 1, NULL, -1));
	g_pause = NULL;
	RET(1, p.sleeps);
	RET(-FI_EAGAIN, fi_cq_sread(g_cq, &e, 1, NULL, 0));
	RET(-FI_EAGAIN, fi_cq_sread(g_cq, &e, 1, NULL, 1));
	OK(fi_close(&g_cq->fid));
}

static void eq_calls(struct ct *c, enum fi_wait_obj obj)
{
	struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = obj};
	struct pause p = {.c = c, .event = write_eq};
	struct fi_eq_entry e;
	uint32_t event;

	OK(fi_eq_open(c->fabric, &attr, &g_eq, NULL));
	g_pause = &p;
	RET(sizeof(e), fi_eq_sread(g_eq, &event, &e, sizeof(e), -1, 0));
	g_pause = NULL;
	RET(1, p.sleeps);
	OK(fi_close(&g_eq->fid));
}

static void wait_software(struct ct *c)
{
	static const enum fi_wait_obj obj[] = {FI_WAIT_FD, FI_WAIT_UNSPEC, FI_WAIT_MUTEX_COND};

	ct_open(c);
	for (unsigned i = 0; i < 3; i++) {
		cntr_calls(c, obj[i]);
		if (c->p->has & CT_HAS_WAIT_FD)
			cq_calls(c, obj[i]);
		eq_calls(c, obj[i]);
	}
	ct_close(c);
}

/* --- a region's counter --- */

static struct fi_rma_iov g_target;

static void write_one(struct ct *c, struct waits *w)
{
	struct fi_cq_tagged_entry e;
	ssize_t ret;

	while ((ret = fi_write(w->from.ep, w->mem, 8, NULL, w->to, g_target.addr, g_target.key,
			       &c->ctx[9])) == -FI_EAGAIN)
		fi_cq_read(w->from.cq, &e, 0);
	OK(ret);
	for (int i = 0; i < 200; i++)
		fi_cq_read(w->from.cq, &e, 0);
}

/* How many descriptors does the epoll descriptor @epfd watch? */
static int watched(int epfd)
{
	char path[64], line[256];
	int cnt = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epfd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		cnt += !strncmp(line, "tfd:", 4);
	if (f)
		fclose(f);
	return cnt;
}

static void a_write(struct pause *p)
{
	struct ct *c = p->c;

	CHECK(watched(p->on->fd) > 1, "who waits watches no device");
	if (!p->sleeps)
		write_one(p->c, p->w);
}

/*
 * It is bound to the region alone; the region's endpoint is what has to be driven, and wakes. The
 * adapter thread would end the sleep as well, a little later, and hide that nothing else does. So
 * a_write() also looks whether the waiter watches more than the descriptor that threads write to.
 */
static void wait_region(struct ct *c)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct pause p = {.c = c, .event = a_write};
	static uint8_t mem[64];
	struct fid_mr *mr;
	struct waits w;

	open_waits(c, &w, SREAD, FI_WAIT_UNSPEC);
	p.w = &w;
	OK(fi_cntr_open(c->domain, &attr, &g_cntr, NULL));
	OK(fi_mr_reg(c->domain, mem, sizeof(mem), FI_REMOTE_WRITE, 0, 3, FI_RMA_EVENT, &mr, NULL));
	OK(fi_mr_bind(mr, &c->ep->fid, 0));
	OK(fi_mr_bind(mr, &g_cntr->fid, FI_REMOTE_WRITE));
	OK(fi_mr_enable(mr));
	g_target = (struct fi_rma_iov){.addr = ct_base(c, mem), .key = fi_mr_key(mr)};
	write_one(c, &w);
	while (fi_cntr_read(g_cntr) < 1)
		fi_cq_read(w.from.cq, NULL, 0);
	ct_comp(c, w.from.cq);
	for (uint64_t i = 2; i < 6; i++) {
		p.sleeps = 0;
		g_pause = &p;
		OK(fi_cntr_wait(g_cntr, i, -1));
		g_pause = NULL;
		CHECK(p.sleeps, "fi_cntr_wait did not sleep");
		ct_comp(c, w.from.cq);
	}
	OK(fi_close(&mr->fid));
	OK(fi_close(&g_cntr->fid));
	close_waits(c, &w);
}

/* --- in real time ------------------------------------------------------------------------------------------------- */

#define PINGPONGS 200
#define EACH_US	  5000 /* half of what a lost wake-up cost when each was: ends of sleeps of 20 ms */

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Both sides sleep for each message. The median: on a machine with other work some take long. */
static void pingpong(struct ct *c, enum kind kind)
{
	struct ct_msg rx = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[1], .len = 8},
		      tx = {.call = CT_INJECT, .len = 8};
	struct waits w = {.kind = kind};
	static uint64_t us[2][PINGPONGS];
	uint8_t mem[2][8] = {0};

	c->want.no_enable = true;
	ct_open(c);
	OK(fi_close(&c->ep->fid));
	open_ep(c, &w, FI_WAIT_UNSPEC, &c->ep);
	OK(fi_enable(c->ep));
	ct_connect(c);
	rx.mem = mem[0];
	tx.mem = mem[1];
	tx.addr = c->peer;
	ct_recv(c, &rx);
	ct_barrier(c);
	for (int i = 0; i < PINGPONGS; i++) {
		struct fi_cq_tagged_entry e;
		uint64_t start = now_us();

		for (int turn = 0; turn < 2; turn++) {
			if (turn == c->rank) {
				ct_send(c, &tx);
				continue;
			}
			if (kind == CNTR)
				OK(fi_cntr_wait(c->cntr, (uint64_t)i + 1, 20000));
			RET(1, kind == CNTR ? fi_cq_read(c->rxcq, &e, 1)
					    : fi_cq_sread(c->rxcq, &e, 1, NULL, 20000));
			if (i + 1 < PINGPONGS)
				ct_recv(c, &rx);
		}
		us[c->rank][i] = now_us() - start;
	}
	qsort(us[c->rank], PINGPONGS, sizeof(us[0][0]), by_size);
	printf("%s, rank %d: %llu us, longest %llu\n", kind_name[kind], c->rank,
	       (unsigned long long)us[c->rank][PINGPONGS / 2],
	       (unsigned long long)us[c->rank][PINGPONGS - 1]);
	CHECK(us[c->rank][PINGPONGS / 2] < EACH_US, "a ping-pong takes %llu us",
	      (unsigned long long)us[c->rank][PINGPONGS / 2]);
	ct_close(c);
	c->cntr = NULL;
}

static void wait_pingpong(struct ct *c)
{
	pingpong(c, CNTR);
	if (c->p->has & CT_HAS_WAIT_FD)
		pingpong(c, SREAD);
}

#define NET "SOFTFABRIC_NET=paths=udp"

const struct ct_test wait_tests[] = {
	{"wait_message", wait_message, FI_MSG, 0, CT_SOLO, NULL, NULL, NULL, 60},
	{"wait_message_auto", wait_message_auto, FI_MSG, 0, CT_SOLO, NULL, NULL, NULL, 60},
	{"wait_message_net", wait_message, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, NULL, NET, NULL, 60},
	{"wait_waiters", wait_waiters, FI_MSG, 0, CT_SOLO, NULL},
	{"wait_enable", wait_enable, FI_MSG, 0, CT_SOLO, NULL},
	{"wait_software", wait_software, FI_MSG, 0, CT_SOLO, NULL},
	{"wait_region", wait_region, FI_MSG | FI_RMA | FI_RMA_EVENT, 0, CT_SOLO, NULL, NULL, "cxi"},
	{"wait_pingpong", wait_pingpong, FI_MSG, 0, 0, NULL},
	{0},
};
