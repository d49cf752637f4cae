// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/core/agent.c: the adapter thread over a real socket, with the stand-ins of
// link_fake.h above and below.
#include "agent_rig.h"

/*
 * Return: how often this thread was kept off its CPU, or from the lock, so long that the agent may think that nobody
 *         polls.
 */
static uint32_t poll_for(uint64_t ns)
{
	uint64_t now = clk_now_ns(NULL), end = now + ns, last = now;
	uint32_t gaps = 0;

	for (; now < end; last = now, now = clk_now_ns(NULL)) {
		gaps += (uint32_t)((now - last) / NS_PER_MS);
		lock_acquire(&lock);
		link_poll(port);
		lock_release(&lock);
		link_idle(node);
	}
	return gaps;
}

/* Waits without polling until *@v reaches @want. Return: ns that it took. */
static uint64_t await(const uint32_t *v, uint32_t want)
{
	const struct timespec nap = {.tv_nsec = 200000};
	uint64_t begin = clk_now_ns(NULL);

	while (read_locked(v) < want) {
		if (clk_now_ns(NULL) - begin > WAIT_NS)
			fail_msg("%u of %u", read_locked(v), want);
		nanosleep(&nap, NULL);
	}
	return clk_now_ns(NULL) - begin;
}

static void await_deadline_kept(void)
{
	const struct timespec nap = {.tv_nsec = 200000};
	uint64_t begin = clk_now_ns(NULL), at = 0;

	while (at != CLK_NEVER) {
		assert_true(clk_now_ns(NULL) - begin < WAIT_NS);
		nanosleep(&nap, NULL);
		lock_acquire(&lock);
		at = owner_deadline;
		lock_release(&lock);
	}
}

#define SOON_TRIES 50
#define SOON_MAX   (3 * NS_PER_MS) /* the best of SOON_TRIES: less than a long nap, three times the promise */

/* The application's last poll leaves something due, then it computes. Return: ns until the thread does it. */
static uint64_t soon_try(void)
{
	uint64_t begin;
	uint32_t seen = read_locked(&frames), flushes;

	assert_int_equal(send(sock, "x", 1, 0), 1);
	do {
		lock_acquire(&lock);
		fake.rel_deadline = clk_now_ns(NULL) + 10 * NS_PER_US;
		link_poll(port);
		flushes = fake.rel_flushes; /* what it does from here on counts */
		begin = clk_now_ns(NULL);
		lock_release(&lock);
	} while (read_locked(&frames) == seen);
	await(&fake.rel_flushes, flushes + 1);
	lock_acquire(&lock);
	fake.rel_deadline = CLK_NEVER;
	lock_release(&lock);
	return clk_now_ns(NULL) - begin;
}

static void agent_soon__ends_long_naps(void **state)
{
	uint64_t best = UINT64_MAX;

	(void)state;
	for (int i = 0; i < SOON_TRIES && best >= SOON_MAX; i++) { /* a busy machine needs a few */
		poll_for(60 * NS_PER_MS); /* naps of 4 ms by now */
		best = MIN(best, soon_try());
	}
	print_message("taken over after %.2f ms\n", (double)best / 1e6);
	assert_true(best < SOON_MAX);
}

static void agent_soon__ends_armed_sleeps(void **state)
{
	uint64_t best = UINT64_MAX;

	(void)state;
	poll_for(NS_PER_MS);
	lock_acquire(&lock);
	port_net_use(port);
	lock_release(&lock);
	for (int i = 0; i < SOON_TRIES && best >= SOON_MAX; i++) { /* a busy machine needs a few */
		assert_true(await_armed());
		lock_acquire(&lock); /* it cannot come between */
		fake.rel_deadline = clk_now_ns(NULL) + 10 * NS_PER_US;
		assert_int_equal(send(sock, "x", 1, 0), 1);
		while (!link_poll(port))
			;
		uint32_t flushes = fake.rel_flushes;
		uint64_t begin = clk_now_ns(NULL);
		lock_release(&lock);
		await(&fake.rel_flushes, flushes + 1);
		best = MIN(best, clk_now_ns(NULL) - begin);
		lock_acquire(&lock);
		fake.rel_deadline = CLK_NEVER;
		lock_release(&lock);
	}
	print_message("taken over after %.2f ms\n", (double)best / 1e6);
	assert_true(best < SOON_MAX);
}

/* A nap that is short because of a hurry says so, or each poll that leaves something due soon would cut it short. */
static void agent_soon__knows_that_a_nap_is_short(void **state)
{
	struct agent a = {.kick = -1};
	uint64_t begin_ns;

	(void)state;
	agent_stop(node);
	a.node = node;
	spy.node = &node;
	spy.is_on = true;
	atomic_store(&node->hurry, 1);
	begin_ns = clk_now_ns(NULL);
	wait_on(&a, -1, 4 * NS_PER_MS);
	assert_int_equal(spy.sleep_ns, AGENT_SOON_NS);
	assert_true(spy.at_ns >= begin_ns && spy.at_ns <= clk_now_ns(NULL) + AGENT_SOON_NS);
	begin_ns = clk_now_ns(NULL);
	wait_on(&a, -1, 4 * NS_PER_MS);
	assert_int_equal(spy.sleep_ns, 4 * NS_PER_MS);
	assert_true(spy.at_ns >= begin_ns + 4 * NS_PER_MS);
	spy.is_on = false;
}

/* What a poll finds takes the socket from the thread's descriptor; before that sleeps there it is back. */
static void agent__hears_a_socket_that_polls_took_over(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t seen;
		bool is_out;

		lock_acquire(&lock); /* the thread cannot be the one that finds it */
		port_net_use(port);
		assert_int_equal(send(sock, "x", 1, 0), 1);
		while (!link_poll(port))
			;
		is_out = !port->src_has_net;
		lock_release(&lock);
		assert_true(is_out);
		assert_true(await_armed());
		lock_acquire(&lock);
		is_out = !port->src_has_net;
		seen = frames;
		lock_release(&lock);
		assert_false(is_out);
		assert_int_equal(send(sock, "x", 1, 0), 1);
		await(&frames, seen + 1); /* nobody but the thread */
	}
}

static bool is_readable(int fd, int ms)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, ms) == 1;
}

/* The application has armed and comes late to its descriptor: the thread has taken all by then. */
static void wait_fd__readable_after_the_agent_took_it(void **state)
{
	int fd;

	(void)state;
	lock_acquire(&lock);
	fd = link_wait_fd(port);
	lock_release(&lock);
	assert_true(fd >= 0);
	for (uint32_t i = 1; i <= 20; i++) {
		lock_acquire(&lock);
		while (link_poll(port))
			;
		assert_int_equal(link_arm(port), 0);
		lock_release(&lock);
		assert_false(is_readable(fd, 0));
		assert_int_equal(send(sock, "x", 1, 0), 1);
		await(&frames, i); /* nobody but the thread */
		assert_true(is_readable(fd, 1000));
		assert_true(is_readable(fd, 0)); /* until the next link_arm() after a poll */
		lock_acquire(&lock);
		assert_int_equal(link_arm(port), -EAGAIN);
		lock_release(&lock);
	}
}

/* What the owner's service() makes without a callback of the link. */
static void wake__makes_it_readable_once(void **state)
{
	int fd;

	(void)state;
	lock_acquire(&lock);
	link_wake(port); /* nobody sleeps: nothing */
	fd = link_wait_fd(port);
	link_poll(port);
	assert_int_equal(link_arm(port), 0);
	assert_false(is_readable(fd, 0));
	link_wake(port);
	link_wake(port);
	assert_true(is_readable(fd, 0));
	assert_int_equal(link_arm(port), -EAGAIN); /* there may be something to poll */
	link_poll(port);
	assert_true(is_readable(fd, 0)); /* another thread may have polled */
	assert_int_equal(link_arm(port), 0);
	assert_false(is_readable(fd, 0));
	lock_release(&lock);
}

#define STRESS_CNT 1500
static _Atomic uint32_t stress_seen;

/* The next frame comes when the sleeper has seen the last: no other can wake it in its place. */
static void *stress_sender(void *arg)
{
	struct rng rng;

	rng_seed(&rng, *(const uint64_t *)arg);
	for (uint32_t i = 1; i <= STRESS_CNT; i++) {
		struct timespec ts = {.tv_nsec = (long)rng_below(&rng, rng_below(&rng, 8) ? 50000 : 1500000)};
		uint64_t end = clk_now_ns(NULL) + 2 * WAIT_NS;

		nanosleep(&ts, NULL);
		if (send(sock, "x", 1, 0) != 1)
			return "send";
		while (atomic_load(&stress_seen) < i && clk_now_ns(NULL) < end)
			sched_yield();
	}
	return NULL;
}

/* Whoever takes a frame, the sleeper wakes: it sleeps without a limit of its own, and is sometimes late. */
static void wait_fd__no_wakeup_is_lost(void **state)
{
	struct rng rng = unit_rng();
	uint64_t seed = rng_u64(&rng);
	uint32_t seen = 0, woken_for_nothing = 0;
	pthread_t t;
	void *failed;
	int fd;

	(void)state;
	lock_acquire(&lock);
	fd = link_wait_fd(port);
	lock_release(&lock);
	assert_int_equal(pthread_create(&t, NULL, stress_sender, &seed), 0);
	atomic_store(&stress_seen, 0);
	while (seen < STRESS_CNT) {
		uint32_t before = seen;
		int rc;

		lock_acquire(&lock);
		if (rng_below(&rng, 2))
			link_poll(port);
		rc = frames == seen ? link_arm(port) : 0;
		if (rc)
			link_poll(port);
		rc = rc || frames != seen;
		seen = frames;
		lock_release(&lock);
		atomic_store(&stress_seen, seen);
		if (rc)
			continue;
		if (!rng_below(&rng, 4)) {
			/* at times late enough for the thread to believe that nobody polls any more */
			uint64_t most_ns = rng_below(&rng, 8) ? 300000 : 12000000;
			struct timespec late = {.tv_nsec = (long)rng_below(&rng, most_ns)};

			nanosleep(&late, NULL);
		}
		if (!is_readable(fd, (int)(WAIT_NS / NS_PER_MS)))
			fail_msg("asleep after %u frames, %u are there", seen, read_locked(&frames));
		woken_for_nothing += read_locked(&frames) == before;
	}
	pthread_join(t, &failed);
	assert_null(failed);
	print_message("woken before anything was taken: %u\n", woken_for_nothing);
}

static void agent__serves_while_application_computes(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 20; i++) {
		assert_int_equal(send(sock, "x", 1, 0), 1);
		await(&frames, i);
	}
	assert_true(port->net_used);
}

static void agent__sleeps_while_nothing_happens(void **state)
{
	uint32_t before;

	(void)state;
	assert_true(await_armed());
	before = read_locked(&services);
	usleep(200000); /* nothing to wait for: that nothing happens is the result */
	assert_in_range(read_locked(&services), before, before + 4);
}

/* As many polls as a job of minutes makes: what is compared has 32 bits on both sides. */
static void agent__sleeps_after_billions_of_polls(void **state)
{
	uint64_t now = clk_now_ns(NULL), end = now + WAIT_NS;

	(void)state;
	lock_acquire(&lock);
	atomic_store(&node->poll_epoch, 5ULL << 32);
	agent_kick(node); /* out of a doze that began before */
	lock_release(&lock);
	for (; atomic_load(&node->agent_at_ns) <= now + 2 * AGENT_NAP_NS; now = clk_now_ns(NULL)) {
		assert_true(now < end);
		sched_yield();
	}
}

/* One poll while the thread dozes. Return: whether it naps well before the doze would have ended. */
static bool one_poll_ends_a_doze(void)
{
	uint64_t doze, at, now;
	bool is_woken, is_late;

	assert_true(await_armed());
	lock_acquire(&lock);
	now = clk_now_ns(NULL);
	doze = atomic_load(&node->armed) & AGENT_SLEEPS ? atomic_load(&node->agent_at_ns) : 0;
	if (doze <= now + AGENT_NAP_NS + NS_PER_MS) { /* it has not fallen asleep yet, or is about to wake */
		lock_release(&lock);
		return false;
	}
	link_poll(port);
	is_woken = atomic_load(&node->agent_at_ns) != doze;
	is_late = clk_now_ns(NULL) + AGENT_NAP_NS >= doze; /* we were kept off our CPU: it is about to wake */
	lock_release(&lock);
	if (!is_woken && is_late)
		return false;
	assert_true(is_woken);
	do {
		at = atomic_load(&node->agent_at_ns);
		now = clk_now_ns(NULL);
	} while ((!at || at == doze) && now < doze);
	return now < doze;
}

/* A single poll in the middle of a long computation stops the rings: the doze that it finds does not go on. */
static void agent__one_poll_ends_a_doze(void **state)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	bool has_ended = false;

	(void)state;
	while (!has_ended && clk_now_ns(NULL) < end) /* a busy machine needs a few */
		has_ended = one_poll_ends_a_doze();
	assert_true(has_ended);
	assert_true(await_armed()); /* and nobody polls again */
}

static void agent__stays_out_while_application_polls(void **state)
{
	uint32_t before, gaps = 0;

	(void)state;
	poll_for(100 * NS_PER_MS);
	before = read_locked(&services);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(send(sock, "x", 1, 0), 1);
		gaps += poll_for(10 * NS_PER_MS);
	}
	for (uint64_t end = clk_now_ns(NULL) + WAIT_NS; read_locked(&frames) < 20 && clk_now_ns(NULL) < end;)
		gaps += poll_for(NS_PER_MS);
	assert_int_equal(read_locked(&frames), 20);
	/* a gap is enough for as many passes as it makes before each waits longest */
	assert_in_range(read_locked(&services), before, before + 6 + 8 * gaps);
}

static void agent__takes_over_again(void **state)
{
	uint64_t took;
	uint32_t armed;

	(void)state;
	for (uint32_t i = 1; i <= 3; i++) {
		assert_true(await_armed());
		poll_for(30 * NS_PER_MS);
		/* under the lock: a test that is not scheduled for a while may find it armed again */
		lock_acquire(&lock);
		link_poll(port);
		armed = atomic_load(&node->armed);
		lock_release(&lock);
		assert_int_equal(armed, 0);
		assert_int_equal(send(sock, "x", 1, 0), 1);
		took = await(&frames, i);
		print_message("taken over after %.1f ms\n", (double)took / 1e6);
	}
}

#define NUDGED_MAX (2 * NS_PER_MS) /* the best of SOON_TRIES; without being asked it takes 4 ms at least */

/* The application polls, then computes, and a peer asks. Return: ns until the thread has taken over. */
static uint64_t nudge_try(void)
{
	uint64_t begin;

	poll_for(15 * NS_PER_MS);
	begin = clk_now_ns(NULL);
	assert_int_equal(eventfd_write(node->agent->kick, SHM_NUDGE), 0);
	assert_true(await_armed());
	return clk_now_ns(NULL) - begin;
}

static void agent__takes_over_soon_when_a_peer_asks(void **state)
{
	uint64_t best = UINT64_MAX;

	(void)state;
	for (int i = 0; i < SOON_TRIES && best > NUDGED_MAX; i++)
		best = MIN(best, nudge_try());
	assert_in_range(best, 0, NUDGED_MAX);
}

/* Who has been asked for gives the application its time to poll, whoever asks meanwhile. */
static void agent__asked_by_several_peers(void **state)
{
	struct agent a = {.node = node};
	uint64_t begin;
	eventfd_t cnt;

	(void)state;
	agent_stop(node);
	a.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(a.kick >= 0);
	duty_init(&a.duty, &plan, polls_now(node), clk_now_ns(NULL));
	assert_int_equal(eventfd_write(a.kick, SHM_NUDGE), 0);
	/* it has not polled since the nap began, by when its last poll had found nothing */
	a.is_waiting = true;
	atomic_store(&node->idle_polls, 0);
	begin = clk_now_ns(NULL);
	nudged(&a);
	assert_true(clk_now_ns(NULL) - begin >= NUDGED_NS);
	assert_true(a.has_napped);
	assert_true(a.is_waiting);
	assert_int_equal(duty_look(&a.duty, polls_now(node), clk_now_ns(NULL)), 0);
	/* it has, and had found something; what it polled before does not count */
	lock_acquire(&lock);
	link_poll(port);
	lock_release(&lock);
	nudged(&a);
	assert_false(a.is_waiting);
	assert_int_equal(duty_look(&a.duty, polls_now(node), clk_now_ns(NULL)), 0);
	assert_int_equal(eventfd_read(a.kick, &cnt), 0); /* for the next sleep */
	assert_int_equal(cnt, SHM_NUDGE);
	close(a.kick);
}

static int fake_nudge_fd(void)
{
	int fd;

	lock_acquire(&lock);
	fd = fake.nudge_fd;
	lock_release(&lock);
	return fd;
}

/* Peers have the number of the thread's eventfd as long as there are the port and the thread. */
static void agent__number_for_those_who_ask(void **state)
{
	struct link_port_attr pa = {.node = node, .ip = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .nonce = 6,
				    .cls = LINK_RELIABLE, .ops = &ops};
	struct link_port *other;
	int rc;

	(void)state;
	assert_int_equal(fake_nudge_fd(), node->agent->kick);
	lock_acquire(&lock);
	fake.nudge_fd = 0;
	rc = link_port_open(&pa, &other);
	lock_release(&lock);
	assert_int_equal(rc, 0);
	assert_int_equal(fake_nudge_fd(), node->agent->kick);
	lock_acquire(&lock);
	link_port_close(other);
	lock_release(&lock);
	assert_int_equal(fake_nudge_fd(), -1);
	lock_acquire(&lock);
	fake.nudge_fd = 0;
	lock_release(&lock);
	agent_stop(node);
	assert_int_equal(fake_nudge_fd(), -1);
}

/* There is always more to do for the thread, and the application wants to poll: it gets the lock within few passes. */
static void agent__lets_the_application_in(void **state)
{
	enum { FLOOD = 400, ENTRIES = 10 };
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	(void)state;
	assert_true(await_armed());
	atomic_store(&passes, 0);
	lock_acquire(&lock);
	owner_deadline = 0;
	atomic_store(&flood_left, FLOOD);
	agent_kick(node);
	lock_release(&lock);
	for (int i = 0; i < ENTRIES; i++) {
		uint32_t before = atomic_load(&passes);

		while (atomic_load(&passes) == before && clk_now_ns(NULL) < end)
			;
		lock_acquire(&lock);
		lock_release(&lock);
	}
	print_message("%u passes for %d times in\n", atomic_load(&passes), ENTRIES);
	assert_in_range(atomic_load(&passes), ENTRIES, FLOOD / 2);
	atomic_store(&flood_left, 0);
}

/* A port without network use does not look at its socket: the thread does, also while the
 * application polls. */
static void agent__guards_cold_socket(void **state)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	(void)state;
	poll_for(50 * NS_PER_MS);
	lock_acquire(&lock);
	assert_false(port->net_used);
	assert_true(port->in_guard);
	lock_release(&lock);
	assert_int_equal(send(sock, "x", 1, 0), 1);
	while (!read_locked(&frames) && clk_now_ns(NULL) < end)
		poll_for(NS_PER_MS);
	lock_acquire(&lock);
	assert_int_equal(frames, 1);
	assert_true(port->net_used);
	assert_false(port->in_guard);
	lock_release(&lock);
}

/* The same while the application polls so busily that the thread never finds the lock free. */
static void agent__guards_without_the_lock(void **state)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	(void)state;
	poll_for(50 * NS_PER_MS);
	lock_acquire(&lock);
	assert_true(port->in_guard);
	assert_int_equal(send(sock, "x", 1, 0), 1);
	while (!frames && clk_now_ns(NULL) < end)
		link_poll(port);
	lock_release(&lock);
	assert_int_equal(read_locked(&frames), 1);
	assert_true(port->net_used);
}

static void agent__keeps_deadlines(void **state)
{
	uint32_t before;

	(void)state;
	assert_true(await_armed());
	lock_acquire(&lock);
	owner_deadline = clk_now_ns(NULL) + 5 * NS_PER_MS;
	before = services;
	agent_kick(node);
	lock_release(&lock);
	/* the kick and the deadline: two services, or one by a thread that comes late for both */
	await(&services, before + 1);
	await_deadline_kept();
	/* a frame that the sleeping thread does not know of kicks by itself */
	assert_true(await_armed());
	lock_acquire(&lock);
	{
		static uint8_t hdr[8];
		struct link_peer *peer;

		assert_int_equal(link_peer_get(port, link_port_addr(port), &peer), 0);
		before = fake.rel_flushes;
		assert_int_equal(link_send(port, peer, hdr, 8, NULL, 0, &lock), 0);
		assert_int_equal(atomic_load(&node->armed), 0);
	}
	lock_release(&lock);
	await(&fake.rel_flushes, before + 1);
}

/* Another port that sleeps by itself is not disarmed when a poll wakes the agent. */
static void agent_disarm__leaves_the_applications(void **state)
{
	struct link_port_attr pa = {.node = node, .nonce = 6, .cls = LINK_RELIABLE, .ops = &ops};
	struct link_port *other;

	(void)state;
	lock_acquire(&lock);
	memcpy(pa.ip, port->self.ip, 16);
	assert_int_equal(link_port_open(&pa, &other), 0);
	assert_int_equal(link_arm(other), 0);
	lock_release(&lock);
	assert_true(await_armed());
	lock_acquire(&lock);
	assert_int_equal(other->armed, PORT_ARM_APP | PORT_ARM_AGENT);
	assert_int_equal(port->armed, PORT_ARM_AGENT);
	link_poll(port);
	assert_int_equal(other->armed, PORT_ARM_APP);
	assert_int_equal(port->armed, 0);
	link_port_close(other);
	lock_release(&lock);
}

static void agent__does_not_spin_on_a_stuck_reason(void **state)
{
	uint32_t before;

	(void)state;
	lock_acquire(&lock);
	fake.rel_deadline = 1; /* always due, never done */
	agent_kick(node);
	lock_release(&lock);
	usleep(50000);
	before = read_locked(&services);
	usleep(100000);
	assert_true(read_locked(&services) - before < 1000);
	lock_acquire(&lock);
	fake.rel_deadline = CLK_NEVER;
	lock_release(&lock);
}

static void agent__blocks_signals_and_has_a_name(void **state)
{
	char name[16] = "";

	(void)state;
	assert_int_equal(pthread_getname_np(node->agent->thread, name, sizeof(name)), 0);
	assert_string_equal(name, "softfabric");
	/* the caller's mask is as it was */
	sigset_t mask;
	assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
	assert_false(sigismember(&mask, SIGUSR1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T_(agent__serves_while_application_computes),
		T_(agent__sleeps_while_nothing_happens),
		T_(agent__sleeps_after_billions_of_polls),
		T_(agent__one_poll_ends_a_doze),
		T_(agent__stays_out_while_application_polls),
		T_(agent__takes_over_again),
		T_(agent__takes_over_soon_when_a_peer_asks),
		T_(agent__asked_by_several_peers),
		T_(agent__number_for_those_who_ask),
		T_(agent__lets_the_application_in),
		T_(agent__guards_cold_socket),
		T_(agent__guards_without_the_lock),
		T_(agent__keeps_deadlines),
		T_(agent_disarm__leaves_the_applications),
		T_(agent__does_not_spin_on_a_stuck_reason),
		T_(agent_soon__ends_long_naps),
		T_(agent_soon__ends_armed_sleeps),
		T_(agent_soon__knows_that_a_nap_is_short),
		T_(agent__hears_a_socket_that_polls_took_over),
		T_(wait_fd__readable_after_the_agent_took_it),
		T_(wake__makes_it_readable_once),
		T_(wait_fd__no_wakeup_is_lost),
		T_(agent__blocks_signals_and_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
