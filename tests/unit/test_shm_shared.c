// SPDX-License-Identifier: BSD-2-Clause
// Senders that share a lane: one of them that stands still does not hold up the others, and is told when it was
// declared dead.
#include <fcntl.h>
#include "unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "shm_model.h"

/* --- a shared lane whose lock is held by one that is stopped --- */

enum { HELD_POLLS = 12 }; /* of 60 ms each, in which an innocent one's frame is through whoever stands still */

/* W's send through the shared lane in its parts; X sends whole frames meanwhile, and B may declare W dead. */
static void held_step(uint32_t i, uint32_t k)
{
	struct link_addr b = addr_of(B);
	struct shm_peer *sp = fake_peer(g_port[W], &b)->shm;
	struct shm_from from = {.src = addr_of(W), .life = g_port[W]->s->seg->wake};
	uint32_t was = m.next[X];

	switch (i << 4 | k) {
	case W << 4 | 0:
		m.slot = sp && shm_shared_lock(sp) == 0 ? lane_reserve(&sp->tx, sizeof(from) + DIRECT_LEN) : NULL;
		break;
	case W << 4 | 1:
		if (!m.slot)
			break;
		from.block = sp->block;
		shm_shared_note(sp);
		memcpy(m.slot, &from, sizeof(from));
		msg_write(m.slot + sizeof(from), W, m.next[W], DIRECT_LEN);
		break;
	case W << 4 | 2:
		if (m.slot)
			lane_commit(&sp->tx, FIELD_PREP(SHM_U_FMT, SHM_FMT_NIC) | FIELD_PREP(SHM_U_LEN, DIRECT_LEN));
		break;
	case W << 4 | 3:
		if (m.slot)
			shm_shared_unlock(sp, true), m.next[W]++;
		break;
	case B << 4 | 0:
		if (sp_of(B, W))
			shm_peer_doom(sp_of(B, W), -ETIMEDOUT);
		poll_one(B);
		break;
	default:
		for (int n = 0; m.next[X] == was; n++) {
			if (n == HELD_POLLS)
				fail_msg("%s: stalled", m.name);
			send_one(X, B, k == 1 ? STAGED_LEN : DIRECT_LEN);
			poll_one(X), poll_one(B);
		}
	}
}

static void held_check(bool is_doomed)
{
	for (uint32_t k = 0; k < SHM_SHARED_CNT; k++)
		assert_int_equal(atomic_load(&g_port[B]->s->seg->hdr->shared[k].lock), 0);
	for (uint32_t seq = 0; seq < m.next[X]; seq++)
		if (!m.taken[X][seq] || m.ended[X][seq] != 1 || !m.good[X][seq])
			fail_msg("%s: frame %u: taken %u, ended %u", m.name, seq, m.taken[X][seq], m.ended[X][seq]);
	for (uint32_t seq = 0; !is_doomed && seq < m.next[W]; seq++)
		if (!m.taken[W][seq])
			fail_msg("%s: W's frame %u was lost", m.name, seq);
	assert_int_equal(sp_of(X, B)->tx_mode, SHM_TX_SHARED);
}

static void held_order(const uint8_t *order, uint32_t n, bool is_doomed)
{
	static char name[64];
	uint32_t k[PORTS] = {0};

	ports_open(1, name);
	for (uint32_t i = 0; i < n; i++)
		snprintf(name + 2 * i, sizeof(name) - 2 * i, "%c%x", "WBX"[order[i]], k[order[i]]++);
	memset(k, 0, sizeof(k));
	send_one(W, B, DIRECT_LEN);
	poll_one(B), poll_one(W);
	for (uint32_t i = 0; i < n; i++)
		held_step(order[i], k[order[i]]++);
	for (int i = 0; i < 40; i++)
		poll_one((uint32_t)i % PORTS);
	held_check(is_doomed);
	ports_close();
}

static void held_orders(const uint8_t *left, bool is_doomed, uint32_t want)
{
	uint8_t order[16], rest[PORTS];
	struct merged all = {.run = held_order, .arg = is_doomed};

	memcpy(rest, left, sizeof(rest));
	merge(order, 0, rest, &all);
	assert_int_equal(all.cnt, want);
}

static void model__stopped_holder(void **state)
{
	held_orders((uint8_t[PORTS]){4, 0, 3}, false, 35); /* 7! / (4! 3!) */
	held_orders((uint8_t[PORTS]){4, 1, 3}, true, 280);
	(void)state;
}

/* Takes the lock of shared lane @k at @to, stops, and sends a frame when it goes on. */
static void holder_main(struct link_addr self, struct link_addr to, uint32_t k)
{
	static uint8_t buf[DIRECT_LEN];
	struct fake *f = calloc(1, sizeof(*f));
	struct link_peer *peer;
	uint8_t *slot;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* an alarm does not end who is stopped */
	alarm(60);
	if (!f || fake_open(f, &self))
		_exit(1);
	f->room.shm_budget = 1;
	peer = fake_peer(f, &to);
	if (shm_peer_attach(f->s, peer, &peer->shm))
		_exit(2);
	peer->shm->shared_idx = k ? k - 1 : 0;
	peer->shm->is_moving = k != 0;
	if (shm_shared_lock(peer->shm) || peer->shm->shared_idx != k)
		_exit(3);
	slot = lane_reserve(&peer->shm->tx, sizeof(struct shm_from) + sizeof(buf));
	shm_shared_note(peer->shm);
	memcpy(slot, &(struct shm_from){.src = self, .block = peer->shm->block, .life = f->s->seg->wake},
	       sizeof(struct shm_from));
	raise(SIGSTOP);
	msg_write(slot + sizeof(struct shm_from), W, k, sizeof(buf));
	lane_commit(&peer->shm->tx, FIELD_PREP(SHM_U_FMT, SHM_FMT_NIC) | FIELD_PREP(SHM_U_LEN, sizeof(buf)));
	shm_shared_unlock(peer->shm, true);
	for (uint64_t end = clk_now_ns(NULL) + DEADLINE_NS; shm_tx_in_flight(peer->shm) && clk_now_ns(NULL) < end;)
		shm_read_acked(peer->shm), fake_poll(f);
	fake_close(f);
	_exit(0);
}

/* Frames of an innocent one to @b: through whatever holders are stopped, or an error when all lanes are held. */
static void held_send(struct fake *b, struct fake *x, const struct link_addr *to, uint32_t holders)
{
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	uint32_t seq = 0;

	while (!fake_peer(x, to)->dead && x->sent_cnt < 30) {
		if (seq < 30)
			x_send(x, to, &seq);
		fake_poll(b), fake_poll(x), assert_true(clk_now_ns(NULL) < end);
	}
	assert_int_equal(fake_peer(x, to)->dead, holders < SHM_SHARED_CNT ? 0 : -ETIMEDOUT);
	assert_int_equal(x->sent_bad, 0);
	assert_int_equal(((struct owner *)b->ctx)->taken[X], holders < SHM_SHARED_CNT ? 30 : 0);
}

static void held_processes(uint32_t holders, uint16_t port)
{
	struct link_addr to = addr_of(port), self = addr_of(port + 1u);
	struct fake *b = calloc(1, sizeof(*b)), *x = calloc(1, sizeof(*x));
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	pid_t pid[SHM_SHARED_CNT];
	struct owner o = {0};
	int status;

	b->ctx = &o;
	b->on_frame = b_frame;
	x->room.dead_after_ns = (holders < SHM_SHARED_CNT ? 10000 : 300) * NS_PER_MS;
	assert_int_equal(fake_open(b, &to) | fake_open(x, &self), 0);
	x->room.shm_budget = 1;
	fflush(stdout);
	for (uint32_t k = 0; k < holders; k++) {
		pid[k] = unit_fork();
		if (!pid[k])
			holder_main(addr_of(port + 2u + k), to, k);
		assert_int_equal(waitpid(pid[k], &status, WUNTRACED), pid[k]);
		assert_true(WIFSTOPPED(status));
	}
	held_send(b, x, &to, holders);
	for (uint32_t k = 0; k < holders; k++)
		kill(pid[k], SIGCONT);
	while (o.taken[W] < holders)
		fake_poll(b), assert_true(clk_now_ns(NULL) < end);
	for (uint32_t k = 0; k < holders; k++) {
		while (waitpid(pid[k], &status, WNOHANG) == 0)
			fake_poll(b), assert_true(clk_now_ns(NULL) < end);
		assert_int_equal(status, 0);
		assert_int_equal(atomic_load(&b->s->seg->hdr->shared[k].lock), 0);
	}
	fake_close(x);
	fake_close(b);
	free(x);
	free(b);
}

static void processes__stopped_holders(void **state)
{
	held_processes(1, 60);
	held_processes(SHM_SHARED_CNT - 1, 70);
	held_processes(SHM_SHARED_CNT, 80);
	(void)state;
}

/* --- who was declared dead is told, with or without a lane --- */

/* W has sent through the shared lane, and all of it was taken: it only waits for an answer, when B declares it dead. */
static void told(bool is_crowd)
{
	struct link_addr w = addr_of(W), b = addr_of(B);
	_Atomic uint64_t *list;

	ports_open(1, "told");
	send_one(W, B, DIRECT_LEN);
	for (int i = 0; i < 6; i++)
		poll_one(B), poll_one(W);
	assert_int_equal(m.taken[W][0] + m.good[W][0], 2);
	assert_int_equal(sp_of(W, B)->tx_mode, SHM_TX_SHARED);
	list = shm_told_at(g_port[W]->s->seg);
	for (uint32_t i = 0; is_crowd && i < SHM_TOLD_CNT; i++) /* of those that W does not know, or not any more */
		atomic_store(&list[i], 1 + i);
	shm_peer_doom(sp_of(B, W), -ETIMEDOUT);
	for (int i = 0; i < 3; i++)
		poll_one(B), poll_one(W);
	assert_int_equal(fake_peer(g_port[W], &b)->dead, -ETIMEDOUT);
	/* the next life of both is another one, and nobody is told twice */
	fake_peer(g_port[W], &b)->dead = fake_peer(g_port[B], &w)->dead = 0;
	send_one(W, B, DIRECT_LEN);
	send_one(B, W, DIRECT_LEN);
	for (int i = 0; i < 20; i++)
		poll_one(B), poll_one(W);
	assert_int_equal(m.taken[W][1], 1);
	assert_int_equal(g_port[W]->dead_cnt, 1);
	assert_int_equal(g_port[B]->dead_cnt, 1);
	ports_close();
}

static void told__without_a_lane(void **state)
{
	told(false);
	told(true);
	(void)state;
}

/* --- an owner that does not get the sender's segment mapped --- */

/* Sends one frame and waits for what becomes of it. Return: as an exit code. */
static int unseen_main(struct link_addr self, struct link_addr to, uint64_t budget, int is_sent)
{
	static uint8_t buf[DIRECT_LEN];
	struct fake *f = calloc(1, sizeof(*f));
	struct link_peer *peer = fake_peer(f, &to);

	alarm(60);
	if (fake_open(f, &self))
		return 1;
	f->room.shm_budget = budget;
	if (fake_send(f, &to, buf, sizeof(buf), buf) || write(is_sent, "", 1) != 1)
		return 2;
	while (!peer->dead)
		fake_poll(f), usleep(50);
	fake_close(f);
	return f->sent_bad != 1 || peer->dead != (budget ? -EPROTO : -ETIMEDOUT);
}

static void unseen(uint64_t budget, uint16_t port)
{
	struct link_addr to = addr_of(port), self = addr_of(port + 1u);
	struct fake *b = calloc(1, sizeof(*b));
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	struct rlimit was, none;
	int status, is_sent[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(is_sent), 0);
	b->virt_ns = NS_PER_SEC;
	b->node.clk.virt_ns = &b->virt_ns;
	assert_int_equal(fake_open(b, &to), 0);
	fflush(stdout);
	pid = unit_fork();
	if (!pid)
		_exit(unseen_main(self, to, budget, is_sent[1]));
	close(is_sent[1]);
	assert_int_equal(read(is_sent[0], &byte, 1), 1);
	close(is_sent[0]);
	getrlimit(RLIMIT_NOFILE, &was);
	none = (struct rlimit){0, was.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		b->virt_ns += NS_PER_MS;
		fake_poll(b);
		usleep(50);
		if (clk_now_ns(NULL) > end)
			kill(pid, SIGKILL);
	}
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(status, 0);
	assert_int_equal(b->rx_cnt, 0);
	fake_close(b);
	free(b);
}

static void unseen__is_told(void **state)
{
	unseen(0, 90);
	unseen(1, 94);
	(void)state;
}

/* Who could not open a file, not even with the descriptor in reserve, says so, and takes it back. */
static void unseen__limit_is_noticed(void **state)
{
	struct rlimit was, none;
	const struct shm_hdr *h;

	ports_open(0, "limit");
	h = g_port[B]->s->seg->hdr;
	getrlimit(RLIMIT_NOFILE, &was);
	none = (struct rlimit){0, was.rlim_max};
	for (int i = 0; i < 2; i++)
		poll_one(B);
	assert_true(atomic_load(&h->room) > 0);
	setrlimit(RLIMIT_NOFILE, &none);
	assert_int_equal(shm_fd_open("/dev/null", O_RDONLY, &(bool){false}), -1);
	for (int i = 0; i < 2; i++)
		poll_one(B);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_true(atomic_load(&h->room) < 0);
	for (int i = 0; i < 2; i++)
		poll_one(B);
	assert_true(atomic_load(&h->room) > 0);
	ports_close();
	(void)state;
}

/* The same where nobody opens anything: the adapter thread looks. */
static void unseen__limit_is_looked_at(void **state)
{
	struct rlimit was, none;
	const struct shm_hdr *h;

	(void)state;
	ports_open(0, "limit");
	h = g_port[B]->s->seg->hdr;
	getrlimit(RLIMIT_NOFILE, &was);
	none = (struct rlimit){3, was.rlim_max};
	shm_limit_look();
	assert_true(atomic_load(&h->room) > 0);
	setrlimit(RLIMIT_NOFILE, &none);
	shm_limit_look();
	setrlimit(RLIMIT_NOFILE, &was);
	assert_true(atomic_load(&h->room) < 0);
	poll_one(B);
	assert_true(atomic_load(&h->room) < 0); /* until somebody looks again */
	shm_limit_look();
	assert_true(atomic_load(&h->room) > 0);
	ports_close();
}

/* Who comes before anybody has looked asks for the limit itself. */
static void unseen__limit_is_asked_for(void **state)
{
	struct rlimit was, none;
	struct shm_proc self = shm_proc_self(), other = self;
	int32_t room;

	(void)state;
	ports_open(0, "limit");
	poll_one(B);
	room = atomic_load(&g_port[B]->s->seg->hdr->room);
	getrlimit(RLIMIT_NOFILE, &was);
	assert_true(room > 0 && (rlim_t)room <= was.rlim_cur);
	none = (struct rlimit){(rlim_t)room - 1, was.rlim_max};
	assert_true(shm_proc_may_open(&self, room));
	setrlimit(RLIMIT_NOFILE, &none);
	assert_false(shm_proc_may_open(&self, room));
	assert_true(shm_proc_may_open(&self, room - 1));
	other.ns++; /* its number means another process here, or none */
	assert_true(shm_proc_may_open(&other, room));
	setrlimit(RLIMIT_NOFILE, &was);
	ports_close();
}

/* A frame that lies in memory which cannot be made safe to touch waits; for want of descriptors none does. */
static void none_left__memory_is_reserved(void **state)
{
	struct rlimit was, none;
	struct shm_seg peer;
	struct stat before, after;
	int rc;

	(void)state;
	ports_open(0, "limit");
	peer = *g_port[B]->s->seg;
	peer.owner_pid = 0; /* as a peer has it */
	assert_int_equal(fstat(peer.fd, &before), 0);
	getrlimit(RLIMIT_NOFILE, &was);
	none = (struct rlimit){0, was.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	rc = shm_seg_reserve(&peer, SHM_STAGE_OFF + 100, 1 << 20);
	setrlimit(RLIMIT_NOFILE, &was);
	/* emulators take any advice, and do nothing; MADV_POPULATE_WRITE is of Linux 5.14 */
	if (!madvise(peer.base, 4096, 9999) || (rc == -EMFILE && madvise(peer.base, 4096, 23) && errno == EINVAL)) {
		ports_close();
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(fstat(peer.fd, &after), 0);
	assert_true((after.st_blocks - before.st_blocks) * 512 > 1 << 19); /* the arena had its first pages */
	ports_close();
}

/* Two senders to an owner that has room for one of their segments. The second one is told before it begins, and gets in
 * when there is room. */
enum { T_NONE, T_OPEN, T_FIRST_IN, T_SECOND_TOLD, T_ROOM };

static int tight_main(struct link_addr self, struct link_addr to, _Atomic int *step, bool is_second)
{
	static uint8_t buf[DIRECT_LEN];
	struct fake *f = calloc(1, sizeof(*f));

	alarm(60);
	if (fake_open(f, &self))
		return 1;
	while (*step < (is_second ? T_FIRST_IN : T_OPEN))
		usleep(50);
	if (is_second && fake_send(f, &to, buf, sizeof(buf), buf) != -ENOMEM)
		return 2;
	if (is_second)
		*step = T_SECOND_TOLD;
	while (is_second && *step < T_ROOM)
		usleep(50);
	if (fake_send(f, &to, buf, sizeof(buf), buf))
		return 3;
	while (!f->sent_cnt || *step < T_ROOM)
		fake_poll(f), usleep(50);
	fake_close(f);
	return f->sent_bad;
}

/* Emulators do not pass limits on. */
static bool has_limits(void)
{
	struct rlimit was, none;
	void *p;

	getrlimit(RLIMIT_AS, &was);
	none = (struct rlimit){0, was.rlim_max};
	setrlimit(RLIMIT_AS, &none);
	p = mmap(NULL, SHM_FILE_LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	setrlimit(RLIMIT_AS, &was);
	if (p != MAP_FAILED)
		munmap(p, SHM_FILE_LEN);
	return p == MAP_FAILED;
}

static void unseen__is_foreseen(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* which need address space themselves */
	skip();
#else
	_Atomic int *step = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct link_addr to = addr_of(80), self[2] = {addr_of(81), addr_of(82)};
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	struct fake *b = calloc(1, sizeof(*b));
	struct rlimit was, lim;
	char line[256] = "";
	unsigned long kib = 0;
	int status[2];
	pid_t pid[2];
	FILE *stat;

	if (!has_limits())
		skip();
	for (int i = 0; i < 2; i++) {
		fflush(stdout);
		pid[i] = unit_fork();
		if (!pid[i])
			_exit(tight_main(self[i], to, step, i));
	}
	assert_int_equal(fake_open(b, &to), 0);
	stat = fopen("/proc/self/status", "re");
	while (!kib && fgets(line, sizeof(line), stat))
		(void)!sscanf(line, "VmSize: %lu kB", &kib);
	fclose(stat);
	getrlimit(RLIMIT_AS, &was);
	lim = (struct rlimit){kib * 1024 + (1 << 20), was.rlim_max};
	setrlimit(RLIMIT_AS, &lim);
	*step = T_OPEN;
	for (int left = 2; left;) {
		fake_poll(b);
		usleep(50);
		if (b->rx_cnt == 1 && *step == T_OPEN)
			*step = T_FIRST_IN;
		if (*step == T_SECOND_TOLD) {
			setrlimit(RLIMIT_AS, &was);
			shm_seg_tell_room();
			*step = T_ROOM;
		}
		for (int i = 0; i < 2; i++) {
			if (pid[i] && clk_now_ns(NULL) > end)
				kill(pid[i], SIGKILL);
			if (!pid[i] || !waitpid(pid[i], &status[i], WNOHANG))
				continue;
			pid[i] = 0;
			left--;
		}
	}
	assert_int_equal(status[0], 0);
	assert_int_equal(status[1], 0);
	assert_int_equal(b->rx_cnt, 2);
	fake_close(b);
	free(b);
	munmap((void *)step, 4096);
#endif
	(void)state;
}

/* --- our own stop, and our own end --- */

/* All stand still for an hour: nobody was silent for long then. One who stays so is, in the end. */
static void tick__own_stop_is_not_silence(void **state)
{
	struct link_addr b = addr_of(B);

	ports_open(0, "stop");
	send_one(W, B, DIRECT_LEN);
	for (int i = 0; i < 4; i++)
		poll_one(W);
	g_port[W]->virt_ns += 3600 * NS_PER_SEC;
	for (int i = 0; i < 4; i++)
		poll_one(W);
	assert_int_equal(fake_peer(g_port[W], &b)->dead, 0);
	for (int i = 0; i < 600 && !fake_peer(g_port[W], &b)->dead; i++) /* 36 s; dead_after is 30 */
		poll_one(W);
	assert_int_equal(fake_peer(g_port[W], &b)->dead, -ETIMEDOUT);
	/* and who polls rarely finds out as well */
	fake_peer(g_port[W], &b)->dead = 0;
	send_one(W, B, DIRECT_LEN);
	for (int i = 0; i < 12 && !fake_peer(g_port[W], &b)->dead; i++) {
		g_port[W]->virt_ns += 20 * NS_PER_SEC;
		poll_one(W);
	}
	assert_int_equal(fake_peer(g_port[W], &b)->dead, -ETIMEDOUT);
	ports_close();
	(void)state;
}

static void sleep_now(struct fake *f)
{
	for (int i = 0; shm_arm(f->s); i++) {
		assert_true(i < 1000);
		fake_poll(f);
	}
	assert_true(atomic_load(&f->s->seg->hdr->state) & SHM_ST_SLEEPING);
}

/* A port that closes wakes who waits for it to take something, and not all that ever sent to it. */
static void close__wakes_who_needs_it(void **state)
{
	struct link_addr w = addr_of(W), x = addr_of(X), b = addr_of(B);

	ports_open(0, "close");
	send_one(W, B, DIRECT_LEN);
	send_one(X, B, DIRECT_LEN);
	for (int i = 0; i < 4; i++)
		poll_one(B), poll_one(W), poll_one(X);
	send_one(W, B, DIRECT_LEN);
	sleep_now(g_port[W]);
	sleep_now(g_port[X]);
	g_port[B]->port.is_cancelled = true; /* as link_port_close() */
	fake_peer(g_port[B], &w)->dead = fake_peer(g_port[B], &x)->dead = -ECANCELED;
	fake_close(g_port[B]);
	assert_false(atomic_load(&g_port[W]->s->seg->hdr->state) & SHM_ST_SLEEPING);
	assert_true(atomic_load(&g_port[X]->s->seg->hdr->state) & SHM_ST_SLEEPING);
	poll_one(W), poll_one(X);
	assert_int_equal(fake_peer(g_port[W], &b)->dead, -ECONNREFUSED);
	assert_int_equal(fake_peer(g_port[X], &b)->dead, -ECONNREFUSED);
	assert_int_equal(fake_open(g_port[B], &b), 0);
	ports_close();
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model__stopped_holder),     cmocka_unit_test(processes__stopped_holders),
		cmocka_unit_test(told__without_a_lane),	     cmocka_unit_test(unseen__is_told),
		cmocka_unit_test(unseen__limit_is_noticed),  cmocka_unit_test(unseen__is_foreseen),
		cmocka_unit_test(unseen__limit_is_looked_at), cmocka_unit_test(unseen__limit_is_asked_for),
		cmocka_unit_test(none_left__memory_is_reserved),
		cmocka_unit_test(tick__own_stop_is_not_silence),
		cmocka_unit_test(close__wakes_who_needs_it),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
