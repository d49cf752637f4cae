// SPDX-License-Identifier: BSD-2-Clause
// Completion queues with their progress threads, and counters. Source: facts/opx.md 7.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/opx/opx.h"

/*
 * FI_PROGRESS_AUTO is one thread per completion queue, which drives the endpoints bound to it as a reading application would, and completes nothing
 * itself: the application reads. While no endpoint is bound there is nothing to do, and the thread looks rarely.
 */
struct opx_cq {
	struct kit_cq kit;
	struct opx_domain *domain;
	pthread_t thread;
	bool has_thread;
	_Atomic bool stop;
};

#define CQ_START 512       /* entries that a queue begins with: it grows, and a small ring stays in the cache */
#define EMPTY_NS 200000ULL /* between two looks for an endpoint */
#define PIECE_NS 10000000ULL

/* --- the thread -------------------------------------------------------------------------------------------------------------- */

static void pin(const struct opx_cores *c)
{
	int last = MIN(c->end, (int)sysconf(_SC_NPROCESSORS_CONF) - 1);
	cpu_set_t set;

	if (c->start > last)
		return;
	CPU_ZERO(&set);
	for (int i = c->start; i <= last && i < CPU_SETSIZE; i += c->stride)
		CPU_SET(i, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		LOG_WARN("progress thread not bound to the cores of FI_OPX_PROG_AFFINITY: %s", strerror(errno));
}

/* Return: is there anything to drive? */
static bool drive(struct opx_cq *cq)
{
	bool some = false;

	lock_acquire(&cq->domain->kit.lock);
	for (uint32_t i = 0; i < cq->kit.ep_cnt; i++) {
		struct kit_ep *ep = cq->kit.eps[i];

		some |= ep->enabled;
		ep->progress(ep);
	}
	lock_release(&cq->domain->kit.lock);
	return some;
}

static bool is_stopped(struct opx_cq *cq)
{
	/* relaxed: only the stop itself is told, the join orders the rest */
	return atomic_load_explicit(&cq->stop, memory_order_relaxed);
}

/* In pieces, so that a close need not wait for the end of a long interval. */
static void rest(struct opx_cq *cq, uint64_t ns)
{
	while (ns && !is_stopped(cq)) {
		uint64_t piece = MIN(ns, PIECE_NS);
		struct timespec ts = {.tv_nsec = (long)piece};

		nanosleep(&ts, NULL);
		ns -= piece;
	}
}

static void *thread_main(void *arg)
{
	struct opx_cq *cq = arg;
	uint64_t ns = (uint64_t)MAX(cq->domain->params.auto_progress_interval_usec, (int64_t)1) * NS_PER_US;

	pin(&cq->domain->cores);
	prctl(PR_SET_TIMERSLACK, 1UL); /* else each rest is 50 us longer */
	while (!is_stopped(cq))
		rest(cq, drive(cq) ? ns : EMPTY_NS);
	return NULL;
}

/* Signals are the application's threads' business. */
static int thread_start(struct opx_cq *cq)
{
	uint32_t seq = atomic_fetch_add_explicit(&cq->domain->cq_seq, 1, memory_order_relaxed);
	sigset_t all, old;
	char name[16];
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&cq->thread, NULL, thread_main, cq);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		LOG_WARN("progress thread not started: %s", strerror(ret));
		return -ret;
	}
	snprintf(name, sizeof(name), "opx-cq%u", seq % 1000000);
	pthread_setname_np(cq->thread, name);
	cq->has_thread = true;
	return 0;
}

static void thread_stop(struct opx_cq *cq)
{
	if (!cq->has_thread)
		return;
	atomic_store_explicit(&cq->stop, true, memory_order_relaxed);
	pthread_join(cq->thread, NULL);
	cq->has_thread = false;
}

/* --- completion queues ------------------------------------------------------------------------------------------------------- */

/* A child after fork has no such thread. */
static int cq_close(struct fid *fid)
{
	struct opx_cq *cq = container_of(fid, struct opx_cq, kit.fid.fid);
	struct kit_domain *d = &cq->domain->kit;
	int ret;

	if (cq->kit.refs)
		return -FI_EBUSY;
	if (!d->forked(d))
		thread_stop(cq);
	ret = kit_cq_fini(&cq->kit);
	if (!ret)
		mem_free(cq);
	return ret;
}

static const char *cq_strerror(struct kit_cq *cq, int prov_errno, const void *err_data)
{
	(void)cq, (void)err_data;
	return opx_strerror(prov_errno);
}

static struct fi_ops cq_fi_ops = KIT_FI_OPS(cq_close, kit_no_bind, kit_cq_control);

int opx_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_out, void *context)
{
	struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	struct fi_cq_attr a = attr ? *attr : (struct fi_cq_attr){0};
	struct opx_cq *cq;
	int ret;

	if (!cq_out)
		return -FI_EINVAL;
	a.size = a.size ? MIN(a.size, (size_t)CQ_START) : CQ_START;
	cq = mem_alloc(sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = d;
	ret = kit_cq_init(&cq->kit, &d->kit, &a, 1, true, context);
	if (ret)
		goto err_free;
	cq->kit.fid.fid.ops = &cq_fi_ops;
	cq->kit.strerror = cq_strerror;
	ret = d->auto_progress ? thread_start(cq) : 0;
	if (ret)
		goto err_cq;
	*cq_out = &cq->kit.fid;
	return 0;

err_cq:
	kit_cq_fini(&cq->kit);
err_free:
	mem_free(cq);
	return ret;
}

/* --- counters ------------------------------------------------------------------------------------------------------------------ */

static int cntr_close(struct fid *fid)
{
	struct kit_cntr *c = container_of(fid, struct kit_cntr, fid.fid);
	struct opx_domain *d = container_of(c->domain, struct opx_domain, kit);
	int ret = kit_cntr_fini(c);

	if (ret)
		return ret;
	atomic_fetch_sub_explicit(&d->cntr_cnt, 1, memory_order_relaxed);
	mem_free(c);
	return 0;
}

static struct fi_ops cntr_fi_ops = KIT_FI_OPS(cntr_close, kit_no_bind, kit_cntr_control);

int opx_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr_out, void *context)
{
	struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	struct fi_cntr_attr a = attr ? *attr : (struct fi_cntr_attr){.wait_obj = FI_WAIT_UNSPEC};
	struct kit_cntr *c;
	int ret;

	if (!cntr_out)
		return -FI_EINVAL;
	if (atomic_fetch_add_explicit(&d->cntr_cnt, 1, memory_order_relaxed) >= OPX_CNTR_CNT) {
		LOG_WARN("counter refused: a domain has at most %d", OPX_CNTR_CNT);
		ret = -FI_EINVAL;
		goto err_cnt;
	}
	ret = -FI_ENOMEM;
	c = mem_alloc(sizeof(*c));
	if (!c)
		goto err_cnt;
	ret = kit_cntr_init(c, &d->kit, &a, true, context);
	if (ret)
		goto err_free;
	c->fid.fid.ops = &cntr_fi_ops;
	*cntr_out = &c->fid;
	return 0;

err_free:
	mem_free(c);
err_cnt:
	atomic_fetch_sub_explicit(&d->cntr_cnt, 1, memory_order_relaxed);
	return ret;
}
