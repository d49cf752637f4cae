// SPDX-License-Identifier: BSD-2-Clause
// Threads and progress: FI_THREAD_SAFE under stress; a target that makes no calls; manual and automatic progress.
#include "conform.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* --- four threads on one endpoint ---------------------------------------------------------------- */

#define THREADS 4
#define EACH    500

struct worker {
	struct ct *c;
	unsigned id;
	pthread_t th;
	struct ct own; /* its rng only: the rank's is not for several threads */
	/* completions by worker, counted by whoever reads them */
	_Atomic unsigned *tx_done, *rx_done;
	struct ct_buf out, in;
};

static size_t size_of(unsigned id, unsigned i)
{
	static const size_t len[] = {4, 64, 200, 5000, 9000, 40000, 100000, 4000};

	return len[(id * 7 + i) % 8];
}

/* Reads one completion, of anybody's operation: its context says whose. */
static void reap(struct worker *w)
{
	struct ct *c = w->c;
	struct fi_cq_tagged_entry e;
	struct fid_cq *cq = ct_below(&w->own, 2) ? c->txcq : c->rxcq;
	ssize_t ret = fi_cq_read(cq, &e, 1);
	size_t k;

	if (ret == -FI_EAGAIN)
		return;
	CHECK(ret == 1, "%s", ct_err(ret));
	k = (size_t)((struct fi_context2 *)e.op_context - c->ctx);
	CHECK(k < 2 * THREADS, "foreign context");
	/* release; pairs with the acquire in worker_main(), so that the worker sees its data */
	atomic_fetch_add_explicit(cq == c->txcq ? &w->tx_done[k] : &w->rx_done[k - THREADS], 1, memory_order_release);
}

static bool retry(struct worker *w, ssize_t ret)
{
	struct ct *c = w->c;

	if (ret == -FI_EAGAIN) {
		reap(w);
		return true;
	}
	CHECK(!ret, "%s", ct_err(ret));
	return false;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct ct *c = w->c;

	for (unsigned i = 0; i < EACH; i++) {
		size_t len = size_of(w->id, i);

		ct_fill(w->out.mem, len, w->id * 10000 + i * 2 + (unsigned)c->rank);
		while (retry(w, fi_trecv(c->ep, w->in.mem, len, w->in.desc, FI_ADDR_UNSPEC, w->id, 0,
					 &c->ctx[THREADS + w->id])))
			;
		while (retry(w, fi_tsend(c->ep, w->out.mem, len, w->out.desc, c->peer, w->id, &c->ctx[w->id])))
			;
		/* acquire; pairs with the release in reap() */
		while (atomic_load_explicit(&w->rx_done[w->id], memory_order_acquire) <= i ||
		       atomic_load_explicit(&w->tx_done[w->id], memory_order_acquire) <= i)
			reap(w);
		ct_verify(c, w->in.mem, len, w->id * 10000 + i * 2 + (unsigned)!c->rank, "threaded");
	}
	return NULL;
}

static void thread_safe(struct ct *c)
{
	_Atomic unsigned tx[THREADS] = {0}, rx[THREADS] = {0};
	struct worker *w = calloc(THREADS, sizeof(*w));

	c->want.threading = FI_THREAD_SAFE;
	ct_open(c);
	c->traffic = true;
	for (unsigned i = 0; i < THREADS; i++) {
		w[i].c = c, w[i].id = i, w[i].tx_done = tx, w[i].rx_done = rx;
		w[i].own.rng = c->seed + i;
		ct_buf(c, &w[i].out, 100000, i, 0);
		ct_buf(c, &w[i].in, 100000, i, 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		OK(pthread_create(&w[i].th, NULL, worker_main, &w[i]));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(w[i].th, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		ct_buf_free(c, &w[i].out);
		ct_buf_free(c, &w[i].in);
	}
	free(w);
	ct_close(c);
}

static _Atomic uint64_t next_key = 1000;

/* Threads that open, use and close objects of one domain at the same time. */
static void *churn(void *arg)
{
	struct ct *c = arg;

	for (unsigned i = 0; i < 30; i++) {
		uint8_t mem[100];
		struct fid_mr *mr;
		struct ct_ep2 e;
		fi_addr_t fa;

		OK(fi_mr_reg(c->domain, mem, sizeof(mem), FI_REMOTE_READ, 0, atomic_fetch_add(&next_key, 1), 0, &mr,
			     NULL));
		ct_ep2_open(c, &e);
		RET(1, fi_av_insert(e.av, e.addr, 1, &fa, 0, NULL));
		ct_ep2_close(c, &e);
		OK(fi_close(&mr->fid));
	}
	return NULL;
}

static void thread_churn(struct ct *c)
{
	pthread_t th[THREADS];

	c->want.threading = FI_THREAD_SAFE;
	ct_open(c);
	for (unsigned i = 0; i < THREADS; i++)
		OK(pthread_create(&th[i], NULL, churn, c));
	ct_self(c, false);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	ct_close(c);
}

struct enabler {
	struct ct *c;
	pthread_barrier_t start;
	struct fid_ep *ep;
};

static void *enabler(void *arg)
{
	struct enabler *e = arg;
	struct ct *c = e->c;

	pthread_barrier_wait(&e->start);
	OK(fi_enable(e->ep));
	return NULL;
}

/*
 * Threads enable the same endpoint at the same time: it is enabled once, and each hears what fi_enable of an enabled
 * one says. Afterwards it is an endpoint like any other, and nothing of it is left when it is closed.
 */
static void thread_enable(struct ct *c)
{
	struct enabler e = {.c = c};

	c->want.threading = FI_THREAD_SAFE;
	ct_open(c);
	OK(pthread_barrier_init(&e.start, NULL, THREADS));
	for (unsigned i = 0; i < 20; i++) {
		struct fid_cq *cq = ct_cq(c, 0, 0);
		struct fi_cq_tagged_entry t;
		struct fid_av *av = ct_av(c);
		size_t len = 0;
		pthread_t th[THREADS];
		uint8_t addr[64];
		fi_addr_t to;
		unsigned n = 0;
		ssize_t ret;

		OK(fi_endpoint(c->domain, c->info, &e.ep, NULL));
		OK(fi_ep_bind(e.ep, &cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_ep_bind(e.ep, &av->fid, 0));
		for (unsigned k = 0; k < THREADS; k++)
			OK(pthread_create(&th[k], NULL, enabler, &e));
		for (unsigned k = 0; k < THREADS; k++)
			pthread_join(th[k], NULL);
		ct_get_name(c, e.ep, addr, &len);
		RET(1, fi_av_insert(av, addr, 1, &to, 0, NULL));
		OK(fi_recv(e.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
		do
			ret = fi_send(e.ep, NULL, 0, NULL, to, &c->ctx[1]);
		while (ret == -FI_EAGAIN && fi_cq_read(cq, NULL, 0));
		OK(ret);
		while (n < 2) {
			ret = fi_cq_read(cq, &t, 1);
			CHECK(ret == 1 || ret == -FI_EAGAIN, "a completion: %s", ct_err(ret));
			n += ret == 1;
		}
		OK(fi_close(&e.ep->fid));
		OK(fi_close(&cq->fid));
		OK(fi_close(&av->fid));
	}
	pthread_barrier_destroy(&e.start);
	ct_close(c);
}

/* --- progress ------------------------------------------------------------------------------------ */

/* The target registers memory and then makes no libfabric call at all until the initiator is done. */
static void silent_target(struct ct *c, size_t len)
{
	struct ct_window w;

	ct_window(c, &w, len, FI_REMOTE_READ | FI_REMOTE_WRITE);
	ct_fill(w.b.mem, len, 50);
	ct_adapter_sync(c);
	ct_barrier_idle(c); /* the first time the two have never met: the target's adapter introduces itself */
	if (c->rank == 0) {
		while (ct_again(c,
				fi_read(c->ep, w.mine.mem, len, w.mine.desc, c->peer, w.at.addr, w.at.key, &c->ctx[1])))
			;
		ct_tx(c, &c->ctx[1], FI_READ | FI_RMA);
		ct_verify(c, w.mine.mem, len, 50, "read from a silent target");
		ct_fill(w.mine.mem, len, 51);
		while (ct_again(
			c, fi_write(c->ep, w.mine.mem, len, w.mine.desc, c->peer, w.at.addr, w.at.key, &c->ctx[2])))
			;
		ct_tx(c, &c->ctx[2], FI_WRITE | FI_RMA);
		while (ct_again(c, fi_inject(c->ep, w.mine.mem, 8, c->peer)))
			;
	}
	ct_barrier_idle(c); /* rank 1 waits here all the time */
	if (c->rank) {
		struct ct_msg m = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[0], .mem = w.mine.mem, .len = 8,
				   .buf = &w.mine};

		ct_recv(c, &m);
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, 8);
	}
	ct_verify(c, c->rank ? w.b.mem : w.mine.mem, len, 51, "written at a silent target");
	ct_window_free(c, &w);
}

/* Device RDMA needs no help of the target's program, whatever the progress model. */
static void progress_rma(struct ct *c)
{
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	c->want.progress = FI_PROGRESS_MANUAL;
	if (c->p->has & CT_NO_SILENT)
		ct_skip(c, "the target's program must make progress");
	ct_open(c);
	silent_target(c, 100);
	silent_target(c, 100000);
	silent_target(c, 3000000);
	ct_close(c);
}

/* With automatic progress everything goes on while a side computes: long messages, emulated RMA, atomics. */
static void progress_auto(struct ct *c)
{
	size_t len = 700000;
	struct ct_window w;
	uint64_t one = 1, old = 9;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	c->want.progress = FI_PROGRESS_AUTO;
	if (!(c->p->has & CT_HAS_AUTO))
		ct_skip(c, "no automatic progress");
	ct_open(c);
	CHECK(c->info->domain_attr->data_progress == FI_PROGRESS_AUTO, "progress");
	silent_target(c, 3000);
	silent_target(c, 300000);
	ct_window(c, &w, len, FI_REMOTE_READ | FI_REMOTE_WRITE);
	struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = w.mine.mem, .len = len,
			   .buf = &w.mine};
	if (c->rank) {
		ct_recv(c, &m);
		ct_barrier_idle(c); /* posted */
		ct_barrier_idle(c); /* and not a call more until the sender is through */
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, len);
		ct_verify(c, w.mine.mem, len, 60, "received while computing");
	} else {
		ct_fill(w.mine.mem, len, 60);
		ct_barrier_idle(c);
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		while (ct_again(c, fi_fetch_atomic(c->ep, &one, 1, NULL, &old, NULL, c->peer, w.at.addr, w.at.key,
						   FI_UINT64, FI_SUM, &c->ctx[1])))
			;
		ct_tx(c, &c->ctx[1], FI_READ | FI_ATOMIC);
		CHECK(old == 0, "fetched %llu", (unsigned long long)old);
		ct_barrier_idle(c);
	}
	ct_window_free(c, &w);
	ct_close(c);
}

/* --- memory that is watched ---------------------------------------------------------------------- */

#define WATCH_CNT 2000
#define WATCH_MAX 70000
#define WATCH_SPINS 100000

/* In c->shared: what the initiator has been told of, what the watcher has seen, what the target has checked. */
enum { W_DONE, W_SEEN, W_CHECKED };

static _Atomic uint64_t *watch_word(struct ct *c, int i)
{
	return (_Atomic uint64_t *)(void *)c->shared + i;
}

static _Atomic uint64_t *g_watched;

/* Waits for the word as a SHMEM program does, and puts it back to 0. */
static void *watcher(void *arg)
{
	struct ct *c = arg;

	for (uint64_t i = 1; i <= WATCH_CNT; i++) {
		for (unsigned spins = 1; !atomic_load_explicit(g_watched, memory_order_acquire); spins++)
			if (spins % WATCH_SPINS == 0)
				sched_yield(); /* what it waits for may need this core */
		CHECK(atomic_load(g_watched) == i, "%llu seen, not %llu", (unsigned long long)atomic_load(g_watched),
		      (unsigned long long)i);
		atomic_store(g_watched, 0);
		atomic_store(watch_word(c, W_SEEN), i);
	}
	return NULL;
}

/* A write is stored once: what the watcher of its last word puts there stays. */
static void progress_watched(struct ct *c)
{
	static const size_t len[] = {8, 16, 8, 12, 100, 1000, 8, 5000, 30000, WATCH_MAX};
	struct ct_window w;
	pthread_t th;

#ifdef __SANITIZE_THREAD__
	ct_skip(c, "a watcher races with what it watches");
#endif
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_window(c, &w, WATCH_MAX, FI_REMOTE_WRITE);
	if (c->rank) {
		g_watched = (_Atomic uint64_t *)(void *)(w.b.mem + WATCH_MAX - 8);
		atomic_store(g_watched, 0);
		OK(pthread_create(&th, NULL, watcher, c));
	}
	ct_barrier(c);
	for (uint64_t i = 1; i <= WATCH_CNT; i++) {
		size_t n = len[i % (sizeof(len) / sizeof(len[0]))];
		uint8_t *from = w.mine.mem + WATCH_MAX - n;

		if (c->rank) {
			while (atomic_load(watch_word(c, W_DONE)) < i || atomic_load(watch_word(c, W_SEEN)) < i)
				ct_progress(c);
			CHECK(!atomic_load(g_watched), "%zu bytes were stored twice", n);
			atomic_store(watch_word(c, W_CHECKED), i);
			continue;
		}
		memcpy(from + n - 8, &i, 8);
		while (ct_again(c, fi_write(c->ep, from, n, w.mine.desc, c->peer, w.at.addr + WATCH_MAX - n, w.at.key,
					    &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_WRITE | FI_RMA);
		atomic_store(watch_word(c, W_DONE), i);
		while (atomic_load(watch_word(c, W_CHECKED)) < i)
			ct_progress(c);
	}
	if (c->rank)
		pthread_join(th, NULL);
	ct_window_free(c, &w);
	ct_close(c);
}

/* Sends to a receiver that is busy elsewhere for seconds are accepted meanwhile and all arrive afterwards. */
static void progress_sleepy(struct ct *c)
{
	uint8_t mem[2][2000];
	struct timespec nap = {2, 0};

	ct_open(c);
	if (c->rank)
		nanosleep(&nap, NULL);
	for (unsigned i = 0; i < 300; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = mem[c->rank],
				   .len = 2000};

		if (c->rank) {
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, 2000);
			ct_verify(c, mem[1], 2000, i, "after a nap");
		} else {
			ct_fill(mem[0], 2000, i);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		}
	}
	ct_close(c);
}

const struct ct_test thread_tests[] = {
	{"thread_safe", thread_safe, FI_TAGGED, 0, CT_GENS | CT_LOSSY, "threading:FI_THREAD_SAFE", NULL, NULL, 60},
	{"thread_churn", thread_churn, FI_MSG | FI_RMA, 0, CT_SOLO | CT_ANY_PATH, "threading:FI_THREAD_SAFE", NULL,
	 NULL, 180},
	{"thread_enable", thread_enable, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, "threading:FI_THREAD_SAFE", NULL, NULL, 60},
	{"progress_rma", progress_rma, FI_RMA | FI_MSG, 0, 0, "progress:FI_PROGRESS_MANUAL"},
	{"progress_auto", progress_auto, FI_RMA | FI_MSG | FI_ATOMIC, 0, CT_GENS | CT_LOSSY,
	 "progress:FI_PROGRESS_AUTO"},
	{"progress_watched", progress_watched, FI_RMA, 0, CT_GENS | CT_LOSSY, "rma:stored once", NULL, NULL, 120},
	{"progress_sleepy", progress_sleepy, FI_MSG, 0, 0, "rx.size rm:FI_RM_ENABLED"},
	{0},
};
