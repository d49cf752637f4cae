// SPDX-License-Identifier: BSD-2-Clause
// The adapter thread: works for a node while its application computes, sleeps while the application
// polls.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/limits.h"
#include "link/core/agent_int.h"

/*
 * Theory of operation
 *
 * Hardware answers its peers whether or not the host program runs; so does this thread. When it
 * polls and for how long it sleeps is the duty cycle of base/duty.h, with node->poll_epoch as the
 * application's polls. What it does in the three states of that:
 *
 * napping: the application polls, or would if it had a CPU: with more processes than CPUs a thread that took over
 * then would arm, be rung for at each message and keep the CPU from those who poll. Meanwhile the thread guards sockets
 * that link_poll() leaves alone because nothing ever came there, and makes one pass behind a nap without a poll, or a
 * longer one. A peer on this host that has waited for too long cuts the nap short (shm_nudge.c); whoever has not polled
 * within NUDGED_NS then has turned to something else.
 *
 * dozing: nobody polled. All ports are armed (peers ring), node->armed is set, and it sleeps until a
 * ring, a datagram or the next deadline. The application's next poll takes node->armed back by one
 * exchange and stops the rings; a doze that goes on for longer than a nap it cuts short, once, since that poll may be
 * the only one for a while.
 *
 * working: something came. It runs service() like the application's poll would, for as long as there
 * is something. If the application sleeps on a descriptor it has been woken as well and goes first:
 * the thread gives way once, and only works if nobody has polled by then.
 *
 * Long sleeps would keep peers waiting that expect something within microseconds. Therefore a poll
 * that leaves a deadline in the near future (an acknowledgement that may still ride on an answer, a
 * datagram to be missed) says so by agent_soon(): then no sleep is longer than AGENT_SOON_NS, and one
 * that is gets cut short. A program that stops polling in the middle of traffic has its peers answered
 * after a millisecond.
 *
 * A flood gives it a reason to go on for ever, and the lock is not fair: between two passes it lets whoever waits for
 * the lock come first, so that the application, once its time slice has gone, gets back in.
 *
 * A lock that is held means that the application is active: nap. All of a pass runs under the lock,
 * so nothing else here needs one; the thread outlives the lock's holder only in agent_stop(), which
 * is called without it.
 */

static const struct duty_plan plan = {
	.nap_min_ns = 2 * NS_PER_MS,
	.nap_max_ns = AGENT_NAP_NS,
	.starved_nap_ns = 64 * NS_PER_MS,
	.starved_max_ns = NS_PER_SEC,
	.doze_min_ns = 16 * NS_PER_MS,
	.doze_max_ns = NS_PER_SEC,
	.rest_min_ns = 40 * NS_PER_US,
	.rest_max_ns = 640 * NS_PER_US,
	.free_passes = 3,
};

/* It goes on polling for so long after work: to arm takes microseconds, and to wake up from a sleep tens of them. */
#define HOT_NS        (20 * NS_PER_US) /* where there are CPUs to spare, */
#define HOT_CPUS      4
#define HOT_FEW_NS    (5 * NS_PER_US) /* and elsewhere: a round trip or two */
#define GUARD_NS      (20 * NS_PER_US) /* for the application's poll to look at guarded sockets */
#define WANTED_NS     (100 * NS_PER_US) /* pause between two passes while somebody waits for the lock, ... */
#define WANTED_CNT    10		/* ... so many times at most */
#define NUDGED_NS     (50 * NS_PER_US) /* for the application to poll once, when a peer asks whether it does */
#define GIVE_WAY_NS   (200 * NS_PER_US) /* head start of an application that sleeps on a descriptor */

/* Compared with what it was: a job that polls for minutes makes more of them than 32 bits count. */
static uint32_t polls_now(const struct link_node *n)
{
	return (uint32_t)atomic_load_explicit(&n->poll_epoch, memory_order_relaxed);
}

static void kick_drain(struct agent *a)
{
	uint64_t cnt;

	while (read(a->kick, &cnt, sizeof(cnt)) > 0)
		a->is_nudged |= cnt >= SHM_NUDGE;
}

/* Sleeps on an epoll descriptor. ppoll() and not epoll_wait(): retransmissions need finer steps
 * than 1 ms. */
static bool wait_on(struct agent *a, int ep, uint64_t ns)
{
	struct pollfd pfd = {.fd = ep, .events = POLLIN};
	struct link_node *n = a->node;
	struct timespec ts;
	bool is_ready, is_hurried, is_late;

	atomic_store_explicit(&n->agent_at_ns, clk_now_ns(&n->clk) + ns, memory_order_relaxed);
	/*
	 * full fence; pairs with those in agent_soon() and agent_disarm(): either they see for how long we sleep, or we
	 * see that there is a hurry, or that the application polls
	 */
	atomic_thread_fence(memory_order_seq_cst);
	is_hurried = ns > AGENT_SOON_NS && atomic_exchange_explicit(&n->hurry, 0, memory_order_relaxed);
	/* a poll has taken the doze back before it could see that it has begun: nobody rings */
	is_late = ep == a->ep && ns > AGENT_SOON_NS &&
		  !(atomic_load_explicit(&n->armed, memory_order_relaxed) & AGENT_SLEEPS);
	if (is_hurried || is_late) {
		ns = AGENT_SOON_NS;
		/* or the next poll that is in a hurry would cut short what is short already */
		atomic_store_explicit(&n->agent_at_ns, clk_now_ns(&n->clk) + ns, memory_order_relaxed);
	}
	ts = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC)};
	is_ready = ppoll(&pfd, 1, &ts, NULL) > 0;
	atomic_store_explicit(&n->agent_at_ns, 0, memory_order_relaxed);
	if (is_ready) {
		kick_drain(a);
		/*
		 * The sleep was cut short. The hurry is kept for the next long sleep, which may be a nap because of the
		 * very poll that asked for haste.
		 */
		if (is_hurried)
			atomic_store_explicit(&n->hurry, 1, memory_order_relaxed);
	}
	return is_ready;
}

static uint32_t events_sum(const struct link_node *n)
{
	uint32_t sum = 0;

	for (const struct link_port *p = n->ports; p; p = p->next)
		sum += p->events + (uint32_t)(p->stats.net_rx_dgrams + p->stats.net_tx_dgrams);
	return sum;
}

/* One poll of everything in the application's place. */
static void serve(struct agent *a)
{
	struct link_node *n = a->node;
	uint32_t before = events_sum(n);
	bool has_found;

	for (struct link_port *p = n->ports; p; p = p->next)
		p->armed |= PORT_ARM_SERVED;
	if (n->attr.service)
		n->attr.service(n->attr.ctx);
	else
		for (struct link_port *p = n->ports; p; p = p->next)
			link_poll(p);
	for (struct link_port *p = n->ports; p; p = p->next) {
		p->armed &= (uint8_t)~PORT_ARM_SERVED;
		port_served(p);
	}
	has_found = events_sum(n) != before;
	duty_pass(&a->duty, has_found);
	if (has_found)
		a->hot_until_ns = clk_now_ns(&n->clk) + (n->cpu_cnt >= HOT_CPUS ? HOT_NS : HOT_FEW_NS);
}

/* Return: whether all ports are armed; @deadline: when somebody wants to run even so. */
static bool arm_all(struct link_node *n, uint64_t *deadline)
{
	bool is_quiet = true;

	*deadline = n->attr.next_deadline ? n->attr.next_deadline(n->attr.ctx) : CLK_NEVER;
	for (struct link_port *p = n->ports; p; p = p->next) {
		if (port_arm(p, PORT_ARM_AGENT))
			is_quiet = false;
		*deadline = MIN(*deadline, link_next_deadline(p));
	}
	return is_quiet;
}

/* The application sleeps on a descriptor that has just become readable: let it come first. */
static bool gives_way(struct agent *a)
{
	struct link_node *n = a->node;
	uint32_t epoch = polls_now(n);
	bool is_asleep = false;

	/* a thread that has armed and polls again does not sleep */
	for (struct link_port *p = n->ports; p; p = p->next)
		is_asleep |= (p->armed & PORT_ARM_APP) && p->epoch_armed == epoch;
	a->has_given_way = is_asleep && !a->has_given_way;
	return a->has_given_way;
}

/* A pass under the lock. @woken: a descriptor said so. Return: ns to sleep on a->ep, 0 = look again
 * at once. */
static uint64_t work(struct agent *a, bool woken)
{
	struct link_node *n = a->node;
	uint64_t now = clk_now_ns(&n->clk), deadline = CLK_NEVER;
	bool is_quiet;

	if (now < a->hot_until_ns) {
		serve(a);
		duty_pass(&a->duty, true); /* such passes are free, whatever they find */
		return 0;
	}
	if (woken && gives_way(a))
		return 0;
	is_quiet = !woken && arm_all(n, &deadline);
	if (!is_quiet || deadline <= now) {
		serve(a);
		return 0;
	}
	/* relaxed: this bit is written and read under the lock */
	atomic_fetch_or_explicit(&n->armed, AGENT_SLEEPS, memory_order_relaxed);
	return MIN(deadline - now, duty_doze(&a->duty, now));
}

/*
 * The application polls, but perhaps not every port: one whose endpoint is left alone (its completion queue is not
 * read, or only after the others) must serve its peers all the same. So must all behind a nap of @slept_ns that was
 * longer than usual: the poll in it may have been at its beginning.
 */
static void serve_neglected(struct agent *a, uint64_t slept_ns)
{
	struct link_node *n = a->node;
	uint64_t now = clk_now_ns(&n->clk);
	bool is_neglected = slept_ns > AGENT_NAP_NS;
	uint32_t idle_polls;

	if (now - a->neglect_ns < plan.nap_min_ns || !lock_try(n->lock))
		return;
	a->neglect_ns = now;
	for (struct link_port *p = n->ports; p; p = p->next) {
		is_neglected |= p->polls == p->polls_seen;
		p->polls_seen = p->polls;
	}
	if (is_neglected) {
		/* relaxed: a hint; what is found here is not what the application has found */
		idle_polls = atomic_load_explicit(&n->idle_polls, memory_order_relaxed);
		serve(a);
		atomic_store_explicit(&n->idle_polls, idle_polls, memory_order_relaxed);
		for (struct link_port *p = n->ports; p; p = p->next)
			p->polls_seen = p->polls;
	}
	lock_release(n->lock);
}

/* The lock is not fair: an application that does nothing but poll may keep it from this thread for
 * ever. Its next poll that does not pass by looks then. */
static void guard_check(struct agent *a)
{
	struct link_node *n = a->node;

	if (lock_tries(n->lock)) {
		agent_guard_look(n);
		lock_release(n->lock);
		return;
	}
	/* relaxed: the poll looks at the sockets themselves */
	atomic_fetch_or_explicit(&n->armed, AGENT_GUARDS, memory_order_relaxed);
	wait_on(a, a->kick, GUARD_NS);
}

/* Gives whoever waits for the lock the time to take it. Return: it was kicked meanwhile. */
static bool lets_in(struct agent *a)
{
	for (int i = 0; i < WANTED_CNT && lock_is_wanted(a->node->lock); i++)
		if (wait_on(a, a->kick, WANTED_NS))
			return true;
	return false;
}

/*
 * Before a nap of at least @least_ns: whom to ask behind it whether all that it waits for is a CPU. @is_first: nap
 * behind a poll.
 */
static void poller_watch(struct agent *a, bool is_first, uint64_t least_ns)
{
	struct link_node *n = a->node;

	/*
	 * Whose last poll has found something is probably at that now. Only at the first nap, since what this thread
	 * finds in its own passes counts there, too. Relaxed, both: hints.
	 */
	if (is_first)
		a->is_waiting = atomic_load_explicit(&n->idle_polls, memory_order_relaxed);
	starve_begin(&a->starve, atomic_load_explicit(&n->idle_tid, memory_order_relaxed), least_ns);
}

/* In the middle of a nap a peer has asked: whoever does not poll within a while now has turned to something else. */
static void nudged(struct agent *a)
{
	struct link_node *n = a->node;
	/* what was polled up to now does not count */
	bool has_polled = duty_look(&a->duty, polls_now(n), clk_now_ns(&n->clk));

	poller_watch(a, has_polled, NUDGED_NS / 2);
	wait_on(a, -1, NUDGED_NS); /* whatever comes: the next peer that asks is no answer */
	a->has_napped = true;
}

/* A nap beside an application that polls, or waits for a CPU to poll on. */
static void nap(struct agent *a, bool has_polled, uint64_t ns)
{
	bool is_cut;

	a->is_nudged = false; /* whoever asked before has been served, or asks again */
	poller_watch(a, !a->has_napped || has_polled, NS_PER_MS);
	is_cut = wait_on(a, a->guard, ns);
	if (is_cut)
		guard_check(a);
	a->has_napped = !is_cut; /* who was called looks by itself */
	if (a->is_nudged)
		nudged(a);
	serve_neglected(a, ns);
	shm_limit_look();
	a->has_given_way = false;
}

static void *agent_main(void *arg)
{
	struct agent *a = arg;
	struct link_node *n = a->node;
	uint64_t sleep_ns, nap_ns, now;
	uint32_t epoch = polls_now(n);
	bool woken = true, has_polled, is_starved;

	duty_init(&a->duty, &plan, epoch, clk_now_ns(&n->clk));
	/* acquire; pairs with the release in agent_stop() */
	while (!atomic_load_explicit(&a->is_stopped, memory_order_acquire)) {
		if (n->live)
			live_tick(n);
		epoch = polls_now(n);
		now = clk_now_ns(&n->clk);
		nap_ns = duty_look(&a->duty, epoch, now);
		has_polled = nap_ns;
		/* only behind a nap: who is at work already does not ask at each message */
		is_starved = a->has_napped && (has_polled || a->is_waiting) && starve_look(&a->starve);
		nap_ns = duty_starved(&a->duty, nap_ns, is_starved, now);
		if (!nap_ns && !lock_tries(n->lock))
			nap_ns = duty_locked(&a->duty, now);
		if (nap_ns) {
			nap(a, has_polled, nap_ns);
			woken = true; /* the first pass afterwards looks at everything */
			continue;
		}
		a->has_napped = false;
		sleep_ns = work(a, woken);
		lock_release(n->lock);
		if (lets_in(a)) {
			woken = false;
			continue; /* sleep_ns does not know of what it was kicked for */
		}
		if (a->has_given_way) {
			wait_on(a, a->kick, GIVE_WAY_NS);
			continue;
		}
		woken = false;
		/* the reason does not go away, so we do not spin on it; a kick means what it means in lets_in() */
		if (!duty_is_hot(&a->duty) && wait_on(a, a->kick, duty_rest(&a->duty)))
			continue;
		/*
		 * relaxed: after a poll in the meantime we nap, for as long as its hurry allows; a later hurry cuts the
		 * sleep short
		 */
		if (sleep_ns && polls_now(n) == epoch) {
			shm_limit_look();
			woken = wait_on(a, a->ep, sleep_ns);
		}
	}
	return NULL;
}

/* --- called under the lock ------------------------------------------------------------------- */

static int fds_open(struct agent *a)
{
	a->ep = epoll_create1(EPOLL_CLOEXEC);
	a->guard = epoll_create1(EPOLL_CLOEXEC);
	a->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->ep < 0 || a->guard < 0 || a->kick < 0)
		return -errno;
	agent_watch(a->ep, a->kick);
	agent_watch(a->guard, a->kick);
	return 0;
}

static void agent_free(struct agent *a)
{
	if (a->ep >= 0)
		close(a->ep);
	if (a->guard >= 0)
		close(a->guard);
	if (a->kick >= 0)
		close(a->kick);
	mem_free(a);
}

static int thread_start(struct agent *a)
{
	int rc = limits_thread(&a->thread, agent_main, a);

	if (!rc)
		pthread_setname_np(a->thread, "softfabric");
	return rc;
}

void agent_start(struct link_node *n)
{
	struct agent *a;
	int rc = -ENOMEM;

	if (n->agent || n->attr.no_thread)
		return;
	a = mem_alloc(sizeof(*a));
	if (a) {
		a->node = n;
		live_open(n);
		rc = fds_open(a);
		if (!rc)
			rc = thread_start(a);
		if (rc) {
			live_close(n);
			agent_free(a);
		}
	}
	if (rc) {
		LOG_WARN("no adapter thread, peers wait while this process computes: %s",
			 strerror(-rc));
		n->attr.no_thread = true; /* no second try at each peer */
		return;
	}
	n->agent = a;
	for (struct link_port *p = n->ports; p; p = p->next)
		port_watch(p);
}

/* Before its eventfd is closed, and the number may mean another one. */
static void nudges_end(struct link_node *n)
{
	lock_acquire(n->lock);
	for (struct link_port *p = n->ports; p; p = p->next)
		if (p->shm)
			shm_port_set_nudge(p->shm, -1);
	lock_release(n->lock);
}

void agent_stop(struct link_node *n)
{
	struct agent *a = n->agent;

	if (!a)
		return;
	atomic_store_explicit(&a->is_stopped, true, memory_order_release);
	if (eventfd_write(a->kick, 1))
		LOG_WARN("the adapter thread ends late: %s", strerror(errno));
	pthread_join(a->thread, NULL);
	nudges_end(n);
	n->agent = NULL;
	live_close(n);
	atomic_store_explicit(&n->armed, 0, memory_order_relaxed);
	agent_free(a);
}
