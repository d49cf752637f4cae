// SPDX-License-Identifier: BSD-2-Clause
// FI_PROGRESS_AUTO: the thread of a completion queue. Source: doc/facts/opx.md#automatic-progress.
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duty.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "prov/opx/opx.h"

/*
 * Theory of operation
 *
 * One thread per completion queue drives the endpoints bound to it as a reading application would, and completes
 * nothing itself: the application reads. FI_OPX_AUTO_PROGRESS_INTERVAL_USEC is the least time between two of its polls.
 * When it polls and for how long it sleeps is the duty cycle of base/duty.h, with what the application has driven these
 * endpoints as its polls. What it does in the three states of that:
 *
 * napping: whoever holds the lock when it looks is probably the application at it again; but one that only drives other
 * endpoints holds it most of the time, too: so the lock is waited for unless the last look has found help.
 *
 * working: it polls, at the interval, until a few polls in a row have found nothing. It does not sleep in between if
 * the interval is short, unless somebody waits for the lock.
 *
 * dozing: the contexts are armed and the thread sleeps until something arrives, a timer of the reliability is due, or
 * it is kicked. A doze that is longer than NAP_MAX_NS is cut short by the application's next poll (opx_ep_progress()).
 * If then the arming stands, nothing has come: it dozes on without a poll, because arming is expensive and all threads
 * of a domain share its lock.
 */
struct opx_auto {
	struct opx_domain *domain;
	struct kit_cq *cq;
	pthread_t thread;
	int kick; /* eventfd */
	_Atomic bool is_stopped;
	/* the thread's own */
	uint64_t interval_ns, next_ns; /* no poll before next_ns */
	uint64_t now_ns;               /* at the beginning of this turn */
	struct duty duty;
	bool may_nap;                  /* the last look has found that the application polls */
	bool is_called;                /* something was readable since the last look */
};

#define NAP_MAX_NS  NS_PER_MS
#define DOZE_MAX_NS NS_PER_SEC
#define AWAKE_NS    (5 * NS_PER_US) /* a wait up to this is not slept: an idle core takes longer to wake up */
#define ROOM_NS     (50 * NS_PER_US) /* something waits for room: look again, whatever comes */

static const struct duty_plan plan = {
	.nap_min_ns = 50 * NS_PER_US,
	.nap_max_ns = NAP_MAX_NS,
	.doze_min_ns = NAP_MAX_NS,
	.doze_max_ns = DOZE_MAX_NS,
	.rest_min_ns = NS_PER_US,
	.rest_max_ns = 50 * NS_PER_US,
	.free_passes = 8,
};

struct doze {
	uint64_t ns;
	nfds_t cnt;
	struct pollfd fd[1 + OPX_CQ_EPS]; /* the first is the kick's */
};

static struct opx_ep *ep_at(const struct opx_auto *a, uint32_t i)
{
	return container_of(a->cq->eps[i], struct opx_ep, kit);
}

static bool is_stopped(struct opx_auto *a)
{
	/* relaxed: only the stop itself is told, the join orders the rest */
	return atomic_load_explicit(&a->is_stopped, memory_order_relaxed);
}

static void sleep_on(struct opx_auto *a, struct pollfd *fd, nfds_t cnt, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC)};
	eventfd_t kicks;

	fd[0] = (struct pollfd){.fd = a->kick, .events = POLLIN};
	if (ppoll(fd, cnt, &ts, NULL) <= 0)
		return;
	a->is_called = true;
	if (fd[0].revents)
		eventfd_read(a->kick, &kicks);
}

/* Until the next poll is allowed, whatever comes. */
static void pace(struct opx_auto *a)
{
	struct pollfd kick;

	while ((a->now_ns = clk_now_ns(NULL)) < a->next_ns && !is_stopped(a)) {
		if (a->next_ns - a->now_ns > AWAKE_NS)
			sleep_on(a, &kick, 1, a->next_ns - a->now_ns);
		else
			sched_yield();
	}
}

/* --- under the lock ------------------------------------------------------------------------------ */

/* The application's polls up to now. A thread that dozed is awake. */
static uint32_t polls_sum(struct opx_auto *a)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < a->cq->ep_cnt; i++) {
		sum += ep_at(a, i)->driven;
		ep_at(a, i)->is_dozing = false;
	}
	return sum;
}

/* How long @ep, armed, can be left alone if nothing comes. 0: not at all. */
static uint64_t ep_patience(struct opx_ep *ep, uint64_t now)
{
	uint64_t at;

	if (!hfi_ctxt_is_armed(ep->hw) && hfi_ctxt_arm(ep->hw))
		return 0;
	if (!TAILQ_EMPTY(&ep->pump) || !TAILQ_EMPTY(&ep->copies))
		return ROOM_NS;
	at = opx_rel_next_ns(ep->rel);
	return at > now ? at - now : 0;
}

static void fall_asleep(struct opx_auto *a, struct doze *z)
{
	z->ns = duty_doze(&a->duty, a->now_ns);
	for (uint32_t i = 0; i < a->cq->ep_cnt; i++) {
		struct opx_ep *ep = ep_at(a, i);
		int fd = ep->kit.enabled ? hfi_ctxt_wait_fd(ep->hw) : -1;

		if (!ep->kit.enabled)
			continue;
		z->ns = MIN(z->ns, fd < 0 ? NAP_MAX_NS : ep_patience(ep, hfi_now_ns(ep->hfi)));
		if (fd >= 0 && z->cnt < ARRAY_SIZE(z->fd))
			z->fd[z->cnt++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	/* a reason to look again at once that does not go away, a peer without room perhaps, must not become a loop */
	z->ns = MAX(z->ns, duty_rest(&a->duty));
	for (uint32_t i = 0; i < a->cq->ep_cnt && z->ns > NAP_MAX_NS; i++)
		ep_at(a, i)->is_dozing = true;
}

/* Has nothing come while it dozed? */
static bool is_undisturbed(const struct opx_auto *a)
{
	for (uint32_t i = 0; i < a->cq->ep_cnt; i++) {
		const struct opx_ep *ep = ep_at(a, i);

		if (!ep->kit.enabled || !hfi_ctxt_is_armed(ep->hw) || opx_rel_next_ns(ep->rel) <= hfi_now_ns(ep->hfi) ||
		    !TAILQ_EMPTY(&ep->pump) || !TAILQ_EMPTY(&ep->copies))
			return false;
	}
	return a->cq->ep_cnt;
}

static void look(struct opx_auto *a, struct doze *z)
{
	bool is_called = a->is_called;
	int enabled = 0, events = 0;

	a->is_called = false;
	z->ns = duty_look(&a->duty, polls_sum(a), a->now_ns);
	a->may_nap = z->ns;
	if (a->may_nap)
		return;
	if (!is_called && is_undisturbed(a)) {
		fall_asleep(a, z);
		return;
	}
	for (uint32_t i = 0; i < a->cq->ep_cnt; i++) {
		enabled += ep_at(a, i)->kit.enabled;
		events += opx_ep_drive(ep_at(a, i));
	}
	a->next_ns = clk_now_ns(NULL) + a->interval_ns;
	duty_pass(&a->duty, events);
	if (!enabled)
		z->ns = DOZE_MAX_NS; /* whoever enables one kicks */
	else if (!duty_is_hot(&a->duty))
		fall_asleep(a, z);
}

/* --- the thread ---------------------------------------------------------------------------------- */

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

/* Return: false: have another nap instead. */
static bool look_begin(struct opx_auto *a, struct lock *l)
{
	if (!a->may_nap) {
		lock_acquire(l);
		return true;
	}
	a->may_nap = false;
	return lock_tries(l);
}

static void *thread_main(void *arg)
{
	struct opx_auto *a = arg;
	struct lock *lock = &a->domain->kit.lock;

	pin(&a->domain->cores);
	prctl(PR_SET_TIMERSLACK, 1UL); /* else each rest is 50 us longer */
	for (pace(a); !is_stopped(a); pace(a)) {
		struct doze z = {.cnt = 1};

		if (look_begin(a, lock)) {
			look(a, &z);
			lock_release(lock);
		} else {
			z.ns = duty_locked(&a->duty, a->now_ns);
		}
		if (z.ns || lock_is_wanted(lock))
			sleep_on(a, z.fd, z.cnt, MAX(z.ns, (uint64_t)NS_PER_US));
	}
	return NULL;
}

static int thread_start(struct opx_auto *a)
{
	uint32_t seq = atomic_fetch_add_explicit(&a->domain->cq_seq, 1, memory_order_relaxed);
	char name[16];
	int ret = limits_thread(&a->thread, thread_main, a);

	if (ret)
		return ret;
	snprintf(name, sizeof(name), "opx-cq%u", seq % 1000000);
	pthread_setname_np(a->thread, name);
	return 0;
}

int opx_auto_start(struct opx_domain *d, struct kit_cq *cq, struct opx_auto **out)
{
	struct opx_auto *a = mem_alloc(sizeof(*a));
	int ret;

	if (!a)
		return -FI_ENOMEM;
	a->domain = d;
	a->cq = cq;
	a->interval_ns = (uint64_t)MAX(d->params.auto_progress_interval_usec, (int64_t)1) * NS_PER_US;
	duty_init(&a->duty, &plan, 0, clk_now_ns(NULL));
	a->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = a->kick < 0 ? -errno : thread_start(a);
	if (!ret) {
		*out = a;
		return 0;
	}
	LOG_WARN("progress thread not started: %s", strerror(-ret));
	if (a->kick >= 0)
		close(a->kick);
	mem_free(a);
	return ret;
}

void opx_auto_kick(struct opx_auto *a)
{
	if (eventfd_write(a->kick, 1))
		LOG_WARN("cannot wake a progress thread: %s", strerror(errno));
}

void opx_auto_stop(struct opx_auto *a, bool has_thread)
{
	if (has_thread) {
		atomic_store_explicit(&a->is_stopped, true, memory_order_relaxed);
		opx_auto_kick(a);
		pthread_join(a->thread, NULL);
	}
	close(a->kick);
	mem_free(a);
}
