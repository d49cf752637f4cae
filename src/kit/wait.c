// SPDX-License-Identifier: BSD-2-Clause
// Wait objects, wait sets, fi_trywait, and how a blocking call sleeps.
//
// Theory of operation: a waiter arms, looks for events, and only then sleeps; a signaller makes its
// event visible, then signals. FD: arm drains the event fd and clears @signaled; signal sets it
// and, if it was clear, writes. Either the waiter's look sees the event, or the signaller sees the
// cleared flag. Drain comes before clear: the other way round could swallow the write of a
// signaller in between and leave the flag set with nothing to read.
//
// Two threads that wait on one object may take each other's drain, therefore no sleep is longer
// than SLEEP_NS_MAX.
//
// Where nothing would wake us (manual progress, no device fd) the waiter itself drives the
// endpoints between naps.
#include "kit/kit_int.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_NS_MAX (20 * NS_PER_MS)
#define NAP_NS	     (50 * NS_PER_US) /* between two looks of a waiter that drives ... */
#define NAP_YIELDS   2000 /* ... after so many looks with nothing but a yield in between */
#define MUTEX_TRIES  1000

static int fds_open(struct kit_wait *w)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = w};
	int ret;

	w->evfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->evfd < 0)
		return -errno;
	w->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epfd < 0) {
		ret = -errno;
		goto err_evfd;
	}
	if (epoll_ctl(w->epfd, EPOLL_CTL_ADD, w->evfd, &ev)) {
		ret = -errno;
		goto err_epfd;
	}
	return 0;

err_epfd:
	close(w->epfd);
err_evfd:
	close(w->evfd);
	return ret;
}

int kit_wait_new(struct kit_wait **out, enum fi_wait_obj obj)
{
	bool is_pollfd = obj == FI_WAIT_POLLFD;
	struct kit_wait *w;
	int ret;

	switch ((int)obj) {
	case FI_WAIT_UNSPEC:
	case FI_WAIT_POLLFD:
	case FI_WAIT_FD:
		obj = FI_WAIT_FD;
		break;
	case FI_WAIT_MUTEX_COND:
	case FI_WAIT_YIELD:
		break;
	default:
		return -FI_EINVAL;
	}
	w = mem_alloc(sizeof(*w));
	if (!w)
		return -FI_ENOMEM;
	w->obj = obj;
	w->is_pollfd = is_pollfd;
	w->evfd = w->epfd = -1;
	ret = obj == FI_WAIT_FD ? fds_open(w) : 0;
	if (ret) {
		mem_free(w);
		return ret;
	}
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->cond, NULL);
	*out = w;
	return 0;
}

void kit_wait_free(struct kit_wait *w)
{
	if (w->obj == FI_WAIT_FD) {
		close(w->epfd);
		close(w->evfd);
	}
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->mutex);
	mem_free(w->members.v);
	mem_free(w);
}

int kit_wait_get(struct kit_wait **out, enum fi_wait_obj obj, struct fid_wait *set,
		 struct fid *member)
{
	struct kit_wait *w;
	int ret;

	if (obj == FI_WAIT_NONE) {
		*out = NULL;
		return 0;
	}
	if (obj != FI_WAIT_SET)
		return kit_wait_new(out, obj);
	if (!set || set->fid.fclass != FI_CLASS_WAIT)
		return -FI_EINVAL;
	w = container_of(set, struct kit_wait, fid);
	lock_acquire(&w->lock);
	ret = kit_watch_add(&w->members, member);
	lock_release(&w->lock);
	if (ret)
		return ret;
	kit_ref(&w->refs);
	*out = w;
	return 0;
}

void kit_wait_put(struct kit_wait *w, struct fid *member)
{
	if (!w)
		return;
	if (!w->fabric) {
		kit_wait_free(w);
		return;
	}
	lock_acquire(&w->lock);
	kit_watch_del(&w->members, member);
	lock_release(&w->lock);
	kit_unref(&w->refs);
}

static int watch_fd(struct kit_wait *w, struct kit_ep *ep, int (*get)(struct kit_ep *), bool on)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ep};
	int fd = get ? get(ep) : -1;

	if (fd < 0)
		return 0;
	/* EEXIST: bound twice to one wait set. Removal may find it gone for the same reason. */
	if (epoll_ctl(w->epfd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &ev) && on &&
	    errno != EEXIST)
		return -errno;
	return 0;
}

int kit_wait_watch_ep(struct kit_wait *w, struct kit_ep *ep, bool on)
{
	int ret;

	if (!w || w->obj != FI_WAIT_FD)
		return 0;
	ret = watch_fd(w, ep, ep->wait_fd, on);
	return ret ? ret : watch_fd(w, ep, ep->timer_fd, on);
}

/*
 * The mutex is the application's too: it may hold it while it waits for the domain's lock, which
 * our caller has. So we never block on it. Not getting it for long means just that, and then the
 * application is about to look anyway.
 */
static void cond_signal(struct kit_wait *w)
{
	bool locked = false;

	for (int i = 0; i < MUTEX_TRIES && !locked; i++) {
		locked = !pthread_mutex_trylock(&w->mutex);
		if (!locked)
			sched_yield();
	}
	/* release; pairs with the acquire in kit_wait_arm() */
	atomic_fetch_add_explicit(&w->seq, 1, memory_order_release);
	pthread_cond_broadcast(&w->cond);
	if (locked)
		pthread_mutex_unlock(&w->mutex);
}

void kit_wait_signal(struct kit_wait *w)
{
	const uint64_t one = 1;

	if (w->obj == FI_WAIT_MUTEX_COND) {
		cond_signal(w);
	} else if (w->obj == FI_WAIT_FD) {
		/* sequentially consistent: event before flag; pairs with flag before look in arm */
		if (atomic_load_explicit(&w->signaled, memory_order_seq_cst) ||
		    atomic_exchange_explicit(&w->signaled, true, memory_order_seq_cst))
			return;
		if (write(w->evfd, &one, sizeof(one)) < 0)
			return; /* EAGAIN: the counter is full, hence readable */
	}
}

uint32_t kit_wait_arm(struct kit_wait *w)
{
	uint64_t cnt;

	if (w->obj == FI_WAIT_FD) {
		if (read(w->evfd, &cnt, sizeof(cnt)) < 0)
			cnt = 0; /* EAGAIN: nothing was signalled */
		/* sequentially consistent; pairs with kit_wait_signal() */
		atomic_exchange_explicit(&w->signaled, false, memory_order_seq_cst);
	}
	/* acquire; pairs with the release in cond_signal() */
	return atomic_load_explicit(&w->seq, memory_order_acquire);
}

struct kit_nap kit_nap_start(int timeout_ms)
{
	struct kit_nap nap = {.end_ns = UINT64_MAX};

	if (timeout_ms >= 0)
		nap.end_ns = clk_now_ns(NULL) + (uint64_t)timeout_ms * NS_PER_MS;
	return nap;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_SEC),
				 .tv_nsec = (long)(ns % NS_PER_SEC)};
}

static void cond_sleep(struct kit_wait *w, uint32_t token, uint64_t ns)
{
	struct timespec ts;

	/* The condition variable's clock is the default one, since the application waits on it as
	 * well. */
	clock_gettime(CLOCK_REALTIME, &ts);
	ts = to_timespec((uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec + ns);
	pthread_mutex_lock(&w->mutex);
	if (atomic_load_explicit(&w->seq, memory_order_acquire) == token)
		pthread_cond_timedwait(&w->cond, &w->mutex, &ts);
	pthread_mutex_unlock(&w->mutex);
}

bool kit_nap(struct kit_nap *nap, struct kit_wait *w, uint32_t token, int can_sleep)
{
	uint64_t now = clk_now_ns(NULL), ns = can_sleep == 1 ? SLEEP_NS_MAX : NAP_NS;

	if (now >= nap->end_ns)
		return false;
	ns = MIN(ns, nap->end_ns - now);
	if (!w || w->obj == FI_WAIT_YIELD || (can_sleep != 1 && nap->rounds++ < NAP_YIELDS)) {
		sched_yield();
	} else if (w->obj == FI_WAIT_MUTEX_COND) {
		cond_sleep(w, token, ns);
	} else {
		struct pollfd p = {.fd = w->epfd, .events = POLLIN};
		struct timespec ts = to_timespec(ns);

		ppoll(&p, 1, &ts, NULL); /* EINTR: the caller looks again */
	}
	return true;
}

static int get_fd(const struct kit_wait *w, void *arg)
{
	struct fi_wait_pollfd *set = arg;
	size_t room;

	if (!w->is_pollfd) {
		memcpy(arg, &w->epfd, sizeof(w->epfd));
		return 0;
	}
	room = set->nfds;
	set->nfds = 1;
	if (room < 1 || !set->fd)
		return -FI_ETOOSMALL;
	set->change_index = 1;
	set->fd[0] = (struct pollfd){.fd = w->epfd, .events = POLLIN};
	return 0;
}

int kit_wait_control(struct kit_wait *w, int command, void *arg)
{
	struct fi_mutex_cond mc = {.mutex = &w->mutex, .cond = &w->cond};
	enum fi_wait_obj obj = w->is_pollfd ? FI_WAIT_POLLFD : w->obj;

	switch (command) {
	case FI_GETWAIT:
		if (!arg)
			return -FI_EINVAL;
		if (w->obj == FI_WAIT_FD)
			return get_fd(w, arg);
		if (w->obj == FI_WAIT_YIELD)
			return -FI_ENODATA;
		memcpy(arg, &mc, sizeof(mc));
		return 0;
	case FI_GETWAITOBJ:
		if (!arg)
			return -FI_EINVAL;
		memcpy(arg, &obj, sizeof(obj));
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

int kit_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	int ret = 0;

	if (count < 0 || (count && !fids))
		return -FI_EINVAL;
	for (int i = 0; i < count && !ret; i++) {
		switch (fids[i] ? fids[i]->fclass : FI_CLASS_UNSPEC) {
		case FI_CLASS_CQ:
			ret = kit_cq_trywait(container_of(fids[i], struct kit_cq, fid.fid));
			break;
		case FI_CLASS_CNTR:
			ret = kit_cntr_trywait(container_of(fids[i], struct kit_cntr, fid.fid));
			break;
		case FI_CLASS_EQ:
			ret = kit_eq_trywait((struct kit_eq *)fids[i]);
			break;
		case FI_CLASS_WAIT:
			ret = kit_waitset_trywait(container_of(fids[i], struct kit_wait, fid.fid));
			break;
		default:
			ret = -FI_EINVAL;
		}
	}
	return ret;
}
