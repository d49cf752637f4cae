// SPDX-License-Identifier: BSD-2-Clause
// A peer that was declared dead and goes on: nobody else ever has memory that it may still write or read, and it learns
// of it.
#include "unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "shm_model.h"

static bool staged; /* W's second frame */

/* Step @k of port @i. W can be stopped between any two of its steps. */
static void step(uint32_t i, uint32_t k)
{
	struct link_addr to = addr_of(B);
	struct link_peer *peer = fake_peer(g_port[W], &to);

	switch (i << 4 | k) {
	case W << 4 | 0:
		m.slot = peer->shm ? shm_begin(peer->shm, DIRECT_LEN, false) : NULL;
		break;
	case W << 4 | 1:
		m.slot_seq = m.next[W];
		if (m.slot)
			msg_write(m.slot, W, m.slot_seq, DIRECT_LEN);
		break;
	case W << 4 | 2:
		if (m.slot)
			shm_commit(peer->shm, m.slot, DIRECT_LEN, false, NULL, m.slot_seq), m.next[W]++;
		break;
	case W << 4 | 3:
		send_one(W, B, staged ? STAGED_LEN : DIRECT_LEN);
		break;
	case B << 4 | 0:
		if (sp_of(B, W))
			shm_peer_doom(sp_of(B, W), -ETIMEDOUT);
		break;
	case X << 4 | 0:
	case X << 4 | 1:
		send_one(X, B, k ? STAGED_LEN : DIRECT_LEN);
		break;
	default:
		poll_one(i);
		if (i == B)
			send_one(B, X, STAGED_LEN); /* into the arena in which W may still read */
	}
}

/* The point of it all. */
static void check_writers(void)
{
	struct shm_peer *w = sp_of(W, B), *x = sp_of(X, B);

	if (w && x && w->tx_mode == SHM_TX_OWN && x->tx_mode == SHM_TX_OWN && w->lane_idx == x->lane_idx)
		fail_msg("%s: lane %u has two writers", m.name, w->lane_idx);
}

static void check_end(void)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		for (uint32_t seq = 0; i != B && seq < m.next[i]; seq++) {
			if (m.ended[i][seq] > 1 || (i == X && !m.taken[X][seq]) || (m.good[i][seq] && !m.taken[i][seq]))
				fail_msg("%s: frame %u of %u: ended %u times, good %u, taken %u", m.name, seq, i,
					 m.ended[i][seq], m.good[i][seq], m.taken[i][seq]);
			if (m.ended[i][seq] == 0 && !m.taken[i][seq])
				fail_msg("%s: frame %u of %u was lost in silence", m.name, seq, i);
		}
		assert_int_equal(shm_outstanding(g_port[i]->s), 0);
		assert_int_equal(g_port[i]->s->stage.used, 0);
		assert_true(STAILQ_EMPTY(&g_port[i]->s->limbo));
		assert_true(STAILQ_EMPTY(&g_port[i]->s->held));
	}
}

static void run_order(const uint8_t *order, uint32_t n, bool is_shared)
{
	static char name[64];
	uint32_t k[PORTS] = {0};

	staged = !staged;
	ports_open(is_shared, name);
	for (uint32_t i = 0; i < n; i++)
		snprintf(name + 2 * i, sizeof(name) - 2 * i, "%c%x", "WBX"[order[i]], k[order[i]]++);
	memset(k, 0, sizeof(k));
	send_one(W, B, DIRECT_LEN);
	poll_one(B);
	send_one(B, W, STAGED_LEN); /* which W has not read yet */
	for (uint32_t i = 0; i < n; i++) {
		step(order[i], k[order[i]]++);
		check_writers();
	}
	for (int i = 0; i < 400; i++) {
		poll_one((uint32_t)i % PORTS);
		check_writers();
	}
	check_end();
	ports_close();
}

static void model__own_lanes(void **state)
{
	uint8_t order[16], left[PORTS] = {5, 2, 2};
	struct merged all = {.run = run_order};

	merge(order, 0, left, &all);
	assert_int_equal(all.cnt, 756); /* 9! / (5! 2! 2!) */
	(void)state;
}

static void model__shared_lane(void **state)
{
	uint8_t order[16], left[PORTS] = {5, 2, 1};
	struct merged all = {.run = run_order, .arg = true};

	merge(order, 0, left, &all);
	assert_int_equal(all.cnt, 168);
	(void)state;
}

/* --- real processes --- */

static struct {
	_Atomic uint32_t is_up, sent, good, bad, is_dead;
} *g_sh; /* what W says of itself */

static void w_sent(struct fake *f, enum link_kind kind, void *cookie, int status)
{
	(void)f, (void)kind, (void)cookie;
	atomic_fetch_add(status ? &g_sh->bad : &g_sh->good, 1);
}

static void w_lost(struct fake *f, struct link_peer *peer, uint64_t tag, const void *frame, size_t len)
{
	(void)f, (void)peer, (void)tag, (void)frame, (void)len;
	atomic_fetch_add(&g_sh->bad, 1);
}

/* Sends as fast as it can until it hears that B has given it up. */
static void w_main(struct link_addr self, struct link_addr to)
{
	static uint8_t buf[STAGED_LEN];
	struct fake *f = calloc(1, sizeof(*f));
	struct link_peer *peer;
	uint64_t until;

	alarm(60);
	f->on_sent = w_sent;
	f->on_lost = w_lost;
	if (!f || fake_open(f, &self))
		_exit(1);
	peer = fake_peer(f, &to);
	for (uint32_t seq = 0; !peer->dead; seq++) {
		uint32_t len = seq % 5 ? DIRECT_LEN : STAGED_LEN;

		msg_write(buf, W, seq, len);
		while (!peer->dead && fake_send(f, &to, buf, len, buf))
			fake_poll(f);
		atomic_fetch_add(&g_sh->sent, !peer->dead);
		fake_poll(f);
		atomic_store(&g_sh->is_up, 1);
	}
	until = clk_now_ns(NULL) + 200 * NS_PER_MS;
	while (shm_outstanding(f->s) && clk_now_ns(NULL) < until)
		fake_poll(f);
	atomic_store(&g_sh->is_dead, 1);
	fake_close(f);
	_exit(0);
}

static void stop_round(uint32_t round)
{
	struct link_addr addr[PORTS];
	struct fake *b = calloc(1, sizeof(*b)), *x = calloc(1, sizeof(*x));
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS, word = 0;
	uint32_t seq = 0, mark = 0, more = 0;
	struct owner o = {0};
	int status = -1;
	pid_t pid;

	memset(g_sh, 0, sizeof(*g_sh));
	for (uint32_t i = 0; i < PORTS; i++)
		addr[i] = addr_of(10 + PORTS * round + i);
	b->room.dead_after_ns = 120 * NS_PER_MS;
	b->ctx = &o;
	b->on_frame = b_frame;
	assert_int_equal(fake_open(b, &addr[B]) | fake_open(x, &addr[X]), 0);
	fflush(stdout);
	pid = unit_fork();
	if (!pid)
		w_main(addr[W], addr[B]);
	while (o.taken[W] < 100 + round % 50)
		fake_poll(b), assert_true(clk_now_ns(NULL) < end);
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	while (!fake_peer(b, &addr[W])->dead) {
		fake_send(b, &addr[W], &word, sizeof(word), &word);
		fake_poll(b), assert_true(clk_now_ns(NULL) < end);
	}
	assert_int_equal(fake_peer(b, &addr[W])->dead, -ETIMEDOUT);
	for (int i = 0; i < 100; i++) /* the next sender comes */
		x_send(x, &addr[B], &seq), fake_poll(b), fake_poll(x);
	mark = o.taken[W];
	kill(pid, SIGCONT);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		x_send(x, &addr[B], &seq);
		fake_poll(b), fake_poll(x);
		assert_true(clk_now_ns(NULL) < end);
	}
	assert_int_equal(status, 0);
	assert_true(atomic_load(&g_sh->is_dead));
	assert_int_equal(o.taken[W], mark); /* nothing of it after its death */
	/* it counts as sent what was taken, and nothing else */
	assert_true(atomic_load(&g_sh->good) <= o.taken[W]);
	assert_int_equal(atomic_load(&g_sh->good) + atomic_load(&g_sh->bad), atomic_load(&g_sh->sent));
	while ((o.taken[X] < seq || !STAILQ_EMPTY(&b->s->limbo) || !STAILQ_EMPTY(&b->s->held)) && more++ < 1000000)
		fake_poll(b), fake_poll(x), assert_true(clk_now_ns(NULL) < end);
	assert_int_equal(o.taken[X], seq);
	assert_int_equal(x->sent_bad, 0);
	fake_close(x);
	fake_close(b);
	free(x);
	free(b);
}

static uint32_t g_rounds = 20;

static void processes__stop_and_go_on(void **state)
{
	for (uint32_t i = 0; i < g_rounds; i++)
		stop_round(i);
	(void)state;
}

static uint32_t blocks_used(const struct shm_port *s)
{
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(s->block_used); i++)
		n += (uint32_t)__builtin_popcountll(s->block_used[i]);
	return n;
}

/* A child with a port that never looks at it. */
static pid_t stuck_child(const struct link_addr *at)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	fflush(stdout);
	pid = unit_fork();
	if (!pid) {
		struct fake *f = calloc(1, sizeof(*f));

		alarm(60);
		if (!f || fake_open(f, at) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

/*
 * What of ours a peer knows of when it is declared dead stays out of use while it exists, and is all there again
 * afterwards.
 */
static void lent(uint64_t budget, uint16_t port)
{
	struct link_addr self = addr_of(port), to = addr_of(port + 1u);
	struct fake *f = calloc(1, sizeof(*f));
	pid_t pid = stuck_child(&to);
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	static uint8_t buf[STAGED_LEN];
	uint32_t grans, sent = 0;

	f->room.dead_after_ns = 120 * NS_PER_MS;
	assert_int_equal(fake_open(f, &self), 0);
	f->room.shm_budget = budget;
	while (fake_send(f, &to, buf, sizeof(buf), buf) == 0)
		sent++;
	grans = f->s->stage.used;
	assert_int_equal(grans, sent * DIV_ROUND_UP(STAGED_LEN, STAGE_GRAN));
	assert_int_equal(blocks_used(f->s), budget == 1);
	while (!fake_peer(f, &to)->dead)
		fake_poll(f), assert_true(clk_now_ns(NULL) < end);
	assert_int_equal(fake_peer(f, &to)->dead, -ETIMEDOUT);
	assert_int_equal(f->sent_bad, sent);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(f->s->stage.used, grans);
		assert_int_equal(blocks_used(f->s), budget == 1);
		/* in a second life it gets nothing more, and that ends, too */
		fake_peer(f, &to)->dead = 0;
		assert_int_equal(fake_send(f, &to, buf, sizeof(buf), buf), -EAGAIN);
		while (!fake_peer(f, &to)->dead) {
			fake_send(f, &to, buf, sizeof(buf), buf);
			fake_poll(f), assert_true(clk_now_ns(NULL) < end);
		}
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	while (!STAILQ_EMPTY(&f->s->held))
		fake_poll(f), assert_true(clk_now_ns(NULL) < end);
	assert_int_equal(f->s->stage.used, 0);
	assert_int_equal(blocks_used(f->s), 0);
	fake_close(f);
	free(f);
}

static void lent__until_it_is_gone(void **state)
{
	lent(0, 20);
	lent(1, 22);
	(void)state;
}

/*
 * Peers that are killed with frames of ours unread: through the shared lane each took a block of codes with it, of
 * 1,024.
 */
static void lent__to_the_killed(void **state)
{
	struct link_addr self = addr_of(30), to = addr_of(31);
	struct fake *f = calloc(1, sizeof(*f));
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	static uint8_t buf[STAGED_LEN];

	assert_int_equal(fake_open(f, &self), 0);
	f->room.shm_budget = 1;
	for (int i = 0; i < 5; i++) {
		pid_t pid = stuck_child(&to);

		assert_int_equal(fake_send(f, &to, buf, sizeof(buf), buf), 0);
		assert_int_equal(blocks_used(f->s), 1);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		while (!fake_peer(f, &to)->dead)
			fake_poll(f), assert_true(clk_now_ns(NULL) < end);
		assert_int_equal(fake_peer(f, &to)->dead, -ECONNREFUSED);
		assert_int_equal(blocks_used(f->s) + f->s->stage.used, 0);
		fake_peer(f, &to)->dead = 0;
	}
	fake_close(f);
	free(f);
	(void)state;
}

/* With many lanes those are polled that their senders marked: not one that was revoked before it was ever seen. */
static void limbo__is_not_polled(void **state)
{
	enum { SENDERS = SHM_SWEEP_MAX + 2, FREE = SENDERS + 3 };
	static struct fake f[1 + SENDERS];
	struct link_addr self = addr_of(40);
	struct shm_desc *d;
	uint8_t frame[64] = {0};

	assert_int_equal(fake_open(&f[0], &self), 0);
	for (uint32_t i = 1; i <= SENDERS; i++) {
		struct link_addr a = addr_of(40 + i);

		assert_int_equal(fake_open(&f[i], &a), 0);
		assert_int_equal(fake_send(&f[i], &self, frame, sizeof(frame), NULL), 0);
	}
	for (int i = 0; i < 100; i++)
		fake_poll(&f[0]);
	assert_int_equal(f[0].s->rx_cnt, SENDERS);
	/* a process that lives has announced a lane, and its segment is not to be had */
	d = shm_desc_at(f[0].s->seg, FREE);
	d->proc = f[0].s->seg->proc;
	atomic_store(&d->state, SHM_D_ACTIVE);
	assert_int_equal(shm_revoke(f[0].s, FREE, NULL, NULL), 0);
	assert_false(STAILQ_EMPTY(&f[0].s->limbo));
	for (int i = 0; i < 100; i++) {
		atomic_fetch_or(&f[0].s->seg->hdr->active[FREE / 64], BIT(FREE % 64));
		fake_poll(&f[0]);
	}
	assert_int_equal(atomic_load(&d->state), SHM_D_REVOKED);
	for (uint32_t i = 0; i <= SENDERS; i++)
		fake_close(&f[SENDERS - i]);
	(void)state;
}

/* Its pid and start time stay, its image does not: who has replaced it touches nothing of ours any more. */
static void gone__after_exec(void **state)
{
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	static char arg[2048];
	struct shm_proc self;
	int pipes[2];
	pid_t pid;

	memset(arg, 'x', sizeof(arg) - 1); /* the stack begins elsewhere, whether or not addresses are random */
	assert_int_equal(pipe(pipes), 0);
	fflush(stdout);
	pid = unit_fork();
	if (!pid) {
		self = shm_proc_self();
		alarm(60);
		if (write(pipes[1], &self, sizeof(self)) == sizeof(self))
			execl("/bin/sh", "sh", "-c", "kill -STOP $$", arg, NULL);
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &self, sizeof(self)), sizeof(self));
	assert_int_equal(self.pid, pid);
	while (!shm_proc_is_gone(&self))
		usleep(1000), assert_true(clk_now_ns(NULL) < end);
	assert_int_equal(kill(pid, 0), 0);
	self = shm_proc_self();
	assert_false(shm_proc_is_gone(&self));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(pipes[0]);
	close(pipes[1]);
	(void)state;
}

static int setup(void **state)
{
	g_sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	(void)state;
	return g_sh == MAP_FAILED;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model__own_lanes),
		cmocka_unit_test(model__shared_lane),
		cmocka_unit_test(processes__stop_and_go_on),
		cmocka_unit_test(lent__until_it_is_gone),
		cmocka_unit_test(lent__to_the_killed),
		cmocka_unit_test(limbo__is_not_polled),
		cmocka_unit_test(gone__after_exec),
	};

	if (argc > 1)
		g_rounds = (uint32_t)atoi(argv[1]);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, setup, NULL);
}
