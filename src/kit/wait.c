// SPDX-License-Identifier: BSD-2-Clause
// Wait objects, fi_trywait, and how a blocking call sleeps.
//
// Theory of operation: whoever wants to sleep arms, looks once more, and only then sleeps; whoever makes an event makes
// it visible first, then signals. That is all of kit_wait_for(), which every blocking call is, and of kit_wait_try(),
// which fi_trywait is. Why no wake-up is lost:
//
// An event of software (a completion that another thread's progress made, fi_cntr_add, fi_eq_write, fi_cq_signal):
// arming drains the eventfd, then clears @signaled; a signal sets it and, if it was clear, writes. Either the look
// after the arming sees the event, or its maker sees the cleared flag and makes the descriptor readable. Drain comes
// before clear: the other way round could swallow the write of a signaller in between and leave the flag set with
// nothing to read.
//
// An event of a device: a look is a progress pass, then a look at the object, then wait_arm() of the endpoints, in one
// hold of the domain's lock (kit_look()), so nobody else can make progress in between. wait_arm() looks at the device
// itself after having armed it, and what comes later makes the endpoint's descriptor readable until somebody arms
// again. The lock is released before the sleep. An endpoint that is enabled or bound while somebody sleeps signals
// (kit_wait_watch_ep()), so that the sleeper looks again and arms it, too.
//
// Several sleepers: none may drain what another has not seen yet. Blocking calls have a bell of their own, and count
// those that have armed it; a bell that was rung is drained only when all who were armed then have been woken and are
// gone, until then the others look again (call_arm()). What they armed at a device the device's interface keeps for
// them. The application's descriptor is armed by fi_trywait alone, which rings it again unless it has found nothing.
//
// A sleep ends by itself after HEARTBEAT_NS: an endpoint's progress pass also asks, now and then, whether silent peers
// live. No wake-up depends on it.
//
// Where nothing would wake us (manual progress, no device fd) the waiter itself drives the endpoints between naps.
#include "kit/kit_int.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEARTBEAT_NS (20 * NS_PER_MS)
#define NAP_NS	     (50 * NS_PER_US) /* between two looks of a waiter that drives ... */
#define NAP_YIELDS   2000 /* ... after so many looks with nothing but a yield in between */
#define MUTEX_TRIES  1000

/* --- bells -------------------------------------------------------------------------------------------------------- */

static int bell_open(struct kit_bell *b)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = b};

	b->evfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->evfd < 0)
		return -errno;
	b->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (b->epfd < 0 || epoll_ctl(b->epfd, EPOLL_CTL_ADD, b->evfd, &ev))
		return -errno;
	return 0;
}

static void bell_close(struct kit_bell *b)
{
	if (b->epfd >= 0)
		close(b->epfd);
	if (b->evfd >= 0)
		close(b->evfd);
}

static void bell_ring(struct kit_bell *b)
{
	const uint64_t one = 1;

	/* sequentially consistent: event before flag; pairs with flag before look in bell_arm() */
	if (atomic_load_explicit(&b->signaled, memory_order_seq_cst) ||
	    atomic_exchange_explicit(&b->signaled, true, memory_order_seq_cst))
		return;
	if (write(b->evfd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: the counter is full, hence readable */
}

/*
 * Return: it had been rung. The one write of a ringer may be late: then there is nothing to drain now, but there will
 * be later; otherwise it would stay readable for nothing until the next ring, and nobody could sleep.
 */
static bool bell_arm(struct kit_bell *b)
{
	bool was_rung;
	uint64_t cnt;

	/*
	 * sequentially consistent, both of @signaled; pair with bell_ring(). @owed is relaxed: a count, seen late it is
	 * drained late.
	 */
	if (!atomic_load_explicit(&b->signaled, memory_order_seq_cst) &&
	    !atomic_load_explicit(&b->owed, memory_order_relaxed))
		return false;
	if (read(b->evfd, &cnt, sizeof(cnt)) < 0)
		cnt = 0; /* EAGAIN: not written yet */
	was_rung = atomic_exchange_explicit(&b->signaled, false, memory_order_seq_cst);
	if (was_rung != cnt)
		atomic_fetch_add_explicit(&b->owed, (int32_t)was_rung - (int32_t)cnt, memory_order_relaxed);
	return true;
}

/* --- wait objects -------------------------------------------------------------------------------- */

static void bells_close(struct kit_wait *w)
{
	bell_close(&w->app);
	bell_close(&w->call);
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
	/* as if rung, by nobody who writes */
	w->app = w->call = (struct kit_bell){.epfd = -1, .evfd = -1, .signaled = true, .owed = -1};
	ret = obj == FI_WAIT_FD ? bell_open(&w->app) : 0;
	if (!ret && obj != FI_WAIT_YIELD)
		ret = bell_open(&w->call);
	if (ret) {
		bells_close(w);
		mem_free(w);
		return ret;
	}
	/* A program that does not call fi_trywait before its first sleep is woken all the same. */
	if (obj == FI_WAIT_FD) {
		w->app.signaled = false;
		w->app.owed = 0;
	}
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->cond, NULL);
	*out = w;
	return 0;
}

void kit_wait_free(struct kit_wait *w)
{
	bells_close(w);
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->mutex);
	mem_free(w->members.v);
	mem_free(w->src);
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

/* --- what they watch
 * ---------------------------------------------------------------------------------------------------
 */

static bool has_source(const struct kit_wait *w, const struct kit_source *s)
{
	for (uint32_t i = 0; i < w->src_cnt; i++)
		if (w->src[i].who == s->who && w->src[i].ep == s->ep && w->src[i].fd == s->fd)
			return true;
	return false;
}

static bool has_fd(const struct kit_wait *w, int fd)
{
	for (uint32_t i = 0; i < w->src_cnt; i++)
		if (w->src[i].fd == fd)
			return true;
	return false;
}

static int source_note(struct kit_wait *w, const struct kit_source *s)
{
	uint32_t cap = w->src_cap ? w->src_cap * 2 : 4;
	struct kit_source *more;

	if (has_source(w, s))
		return 0;
	if (w->src_cnt == w->src_cap) {
		more = mem_alloc(cap * sizeof(*more));
		if (!more)
			return -FI_ENOMEM;
		if (w->src_cnt)
			memcpy(more, w->src, w->src_cnt * sizeof(*more));
		mem_free(w->src);
		w->src = more;
		w->src_cap = cap;
	}
	w->src[w->src_cnt++] = *s;
	return 0;
}

/* 0, also if it is there already: others need it, too. -errno. */
static int bell_watch(const struct kit_bell *b, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	if (b->epfd < 0 || !epoll_ctl(b->epfd, EPOLL_CTL_ADD, fd, &ev) || errno == EEXIST)
		return 0;
	return -errno;
}

/* A descriptor that its owner has closed has gone by itself. */
static void bell_unwatch(const struct kit_bell *b, int fd)
{
	if (b->epfd >= 0)
		epoll_ctl(b->epfd, EPOLL_CTL_DEL, fd, NULL);
}

static int source_add(struct kit_wait *w, const struct kit_source *s)
{
	int ret;

	lock_acquire(&w->calls_lock);
	ret = source_note(w, s);
	ret = ret ? ret : bell_watch(&w->app, s->fd);
	ret = ret ? ret : bell_watch(&w->call, s->fd);
	lock_release(&w->calls_lock);
	return ret;
}

/*
 * Endpoints share descriptors (the contexts of a scalable endpoint), and so do the objects of a
 * wait set that are bound to one endpoint; epoll knows a descriptor once. So it goes with the last
 * who needed it.
 */
static void sources_del(struct kit_wait *w, const void *who, const struct kit_ep *ep)
{
	lock_acquire(&w->calls_lock);
	for (uint32_t i = 0; i < w->src_cnt;) {
		int fd = w->src[i].fd;

		if (w->src[i].who != who || w->src[i].ep != ep) {
			i++;
			continue;
		}
		w->src[i] = w->src[--w->src_cnt];
		if (!has_fd(w, fd)) {
			bell_unwatch(&w->app, fd);
			bell_unwatch(&w->call, fd);
		}
	}
	lock_release(&w->calls_lock);
}

int kit_wait_watch_ep(struct kit_wait *w, const void *who, struct kit_ep *ep, bool on)
{
	struct kit_source s = {.who = who, .ep = ep};
	int ret = 0;

	if (!w)
		return 0;
	for (unsigned i = 0; on && !ret && ep->wait_fd && (s.fd = ep->wait_fd(ep, i)) >= 0; i++)
		ret = source_add(w, &s);
	if (!on || ret)
		sources_del(w, who, ep);
	if (on && !ret)
		kit_wait_signal(w);
	return ret;
}

/* --- signals
 * ------------------------------------------------------------------------------------------------------------
 */

/*
 * The mutex is the application's too: it may hold it while it waits for the domain's lock, which
 * our caller has. So we never block on it, and after MUTEX_TRIES we broadcast without it. If its
 * holder is in a call of ours then, it is about to look. But if that thread was interrupted between
 * fi_trywait() and pthread_cond_wait() for as long as our tries take, nothing tells it of this
 * event: it sleeps until the next one (doc/limits.md).
 */
static void cond_signal(struct kit_wait *w)
{
	bool locked = false;

	for (int i = 0; i < MUTEX_TRIES && !locked; i++) {
		locked = !pthread_mutex_trylock(&w->mutex);
		if (!locked)
			sched_yield();
	}
	pthread_cond_broadcast(&w->cond);
	if (locked)
		pthread_mutex_unlock(&w->mutex);
}

void kit_wait_signal(struct kit_wait *w)
{
	if (w->obj == FI_WAIT_MUTEX_COND)
		cond_signal(w);
	bell_ring(&w->app);
	bell_ring(&w->call);
}

/* --- sleeping ------------------------------------------------------------------------------------ */

/*
 * False: it has been rung, and a thread that was armed has still to see it: it is awake or about to be, and goes
 * (call_disarm()) before it arms again. Then the caller, who is not among those counted, looks again.
 */
static bool call_arm(struct kit_wait *w)
{
	bool is_armed;

	lock_acquire(&w->calls_lock);
	/* acquire; pairs with the exchange in bell_ring(). One that comes now rings for those who are counted. */
	is_armed = !w->calls || !atomic_load_explicit(&w->call.signaled, memory_order_acquire);
	if (is_armed) {
		bell_arm(&w->call);
		w->calls++;
	}
	lock_release(&w->calls_lock);
	return is_armed;
}

static void call_disarm(struct kit_wait *w)
{
	lock_acquire(&w->calls_lock);
	w->calls--;
	lock_release(&w->calls_lock);
}

static void cancelled(void *arg)
{
	if (arg)
		call_disarm(arg);
}

/*
 * Between two looks. @armed: the object on whose bell to sleep, or NULL. @ns 0: let others run, no
 * more. Only here a blocking call's thread may be cancelled: a look has locks.
 */
static void rest(struct kit_wait *armed, uint64_t ns, int cancel_state)
{
	struct pollfd p = {.fd = armed ? armed->call.epfd : -1, .events = POLLIN};
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_SEC),
			      .tv_nsec = (long)(ns % NS_PER_SEC)};

	pthread_cleanup_push(cancelled, armed);
	pthread_setcancelstate(cancel_state, NULL);
	if (ns)
		ppoll(&p, 1, &ts, NULL); /* EINTR: the caller looks again */
	else
		sched_yield();
	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
}

/*
 * A thread that cannot arm, because one that was woken has still to go, naps, too: the other one may
 * wait for our processor, and under SCHED_FIFO a yield does not give it away.
 */
static int wait_for(struct kit_wait *w, kit_look_fn *look, void *arg, uint64_t end,
		    int cancel_state)
{
	bool can_sleep = w && w->call.epfd >= 0;
	uint32_t yields = 0;

	for (;;) {
		enum kit_look l = look(arg, KIT_ARM_NONE);
		uint64_t now, ns = 0;
		bool is_armed;

		if (l == KIT_FOUND)
			return 0;
		now = clk_now_ns(NULL);
		if (now >= end)
			return -FI_ETIMEDOUT;
		is_armed = can_sleep && call_arm(w);
		l = is_armed ? look(arg, KIT_ARM_FD) : KIT_NAP;
		if (l == KIT_SLEEP)
			ns = HEARTBEAT_NS;
		else if (can_sleep && yields >= NAP_YIELDS)
			ns = NAP_NS;
		yields = l == KIT_SLEEP ? 0 : yields + !ns;
		if (l != KIT_FOUND)
			rest(is_armed ? w : NULL, MIN(ns, end - now), cancel_state);
		if (is_armed)
			call_disarm(w);
		if (l == KIT_FOUND)
			return 0;
	}
}

int kit_wait_for(struct kit_wait *w, kit_look_fn *look, void *arg, int timeout_ms)
{
	uint64_t end =
		timeout_ms < 0 ? UINT64_MAX : clk_now_ns(NULL) + (uint64_t)timeout_ms * NS_PER_MS;
	int ret, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ret = wait_for(w, look, arg, end, state);
	pthread_setcancelstate(state, NULL);
	return ret;
}

int kit_wait_try(struct kit_wait *w, kit_look_fn *look, void *arg)
{
	bool is_fd = w->obj == FI_WAIT_FD;
	bool was_rung = is_fd && bell_arm(&w->app);

	if (look(arg, is_fd ? KIT_ARM_FD : KIT_ARM_COND) == KIT_SLEEP)
		return 0;
	if (was_rung)
		bell_ring(&w->app);
	return -FI_EAGAIN;
}

/* --- what the application asks for --------------------------------------------------------------- */

static int get_fd(const struct kit_wait *w, void *arg)
{
	struct fi_wait_pollfd *set = arg;
	size_t room;

	if (!w->is_pollfd) {
		memcpy(arg, &w->app.epfd, sizeof(w->app.epfd));
		return 0;
	}
	room = set->nfds;
	set->nfds = 1;
	if (room < 1 || !set->fd)
		return -FI_ETOOSMALL;
	set->change_index = 1;
	set->fd[0] = (struct pollfd){.fd = w->app.epfd, .events = POLLIN};
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
