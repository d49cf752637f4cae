// SPDX-License-Identifier: BSD-2-Clause
// Ports whose peers are places (by_place), or may have equal nonces (nonces_repeat): processes that follow one another
// at one address, over every path; and what peers get of a process that stops polling.
#include "unit.h"

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link/link.h"

#define WAIT_NS (20 * NS_PER_SEC)
#define LIVES	4
#define MEM_LEN (8u << 20)
#define SPOKEN	3000u /* bytes */
#define TRIES	300 /* sends that may fail before the next process is reached */

struct side {
	struct lock lock;
	struct link_node *node;
	struct link_port *port;
	struct link_peer *peer;
	uint32_t sent;
	/* the adapter thread counts, too */
	_Atomic uint32_t got, ended, failed, bulk_ended;
	_Atomic uint32_t last_life;
	_Atomic int last_status, last_bulk;
	uint32_t wrong; /* frames of a speaker with bytes of another one */
};

/* What the children tell. */
struct board {
	struct link_addr addr[2]; /* parent's, child's */
	_Atomic uint32_t turn;	  /* the child to begin, of all tests */
	_Atomic uint32_t life;	  /* the child is there */
	_Atomic uint32_t leave, got;
	_Atomic uint32_t key;
	bool by_shared_lane;
	_Atomic uintptr_t mem;
};

#define SAME_NONCE 0x11111111u

static struct link_room room;
static struct board *board;
static uint32_t g_turn; /* children that have begun */
static bool no_thread;
static bool by_nonce; /* nonces_repeat in place of by_place; all lives have the same one */

#define NEED(x_)                                                                                   \
	do {                                                                                       \
		if (!(x_)) {                                                                       \
			fprintf(stderr, "child, line %d: %s\n", __LINE__, #x_);                    \
			_exit(8);                                                                  \
		}                                                                                  \
	} while (0)

/* What a speaker sends: long enough to lie in its own segment. */
static bool is_spoken(const uint8_t *bytes, uint32_t life)
{
	for (uint32_t i = sizeof(life); i < SPOKEN; i++)
		if (bytes[i] != (uint8_t)life)
			return false;
	return true;
}

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	struct side *s = ctx;
	uint32_t life = 0;

	(void)peer;
	memcpy(&life, frame, MIN((size_t)len, sizeof(life)));
	if (len == SPOKEN)
		s->wrong += !is_spoken(frame, life);
	s->last_life = life;
	s->got++;
	return 0;
}

static void on_sent(void *ctx, void *cookie, int status)
{
	struct side *s = ctx;

	(void)cookie;
	s->ended++;
	s->failed += status != 0;
	s->last_status = status;
}

static void on_bulk(void *ctx, void *cookie, int status)
{
	struct side *s = ctx;

	(void)cookie;
	s->last_bulk = status;
	s->bulk_ended++;
}

static const struct link_ops ops = {on_frame, on_sent, on_bulk};

/* @port: 0 = any. Return: of link_port_open(). */
static int side_open(struct side *s, uint16_t port)
{
	struct link_node_attr na = {.lock = &s->lock, .room = &room, .no_thread = no_thread};
	struct link_port_attr pa = {.cls = LINK_ORDERED, .ops = &ops, .ctx = s, .by_place = !by_nonce,
				    .nonces_repeat = by_nonce, .port = port};
	int rc;

	if (by_nonce)
		pa.cls = LINK_RELIABLE;
	memset(s, 0, sizeof(*s));
	rc = link_node_open(&na, &s->node);
	lock_acquire(&s->lock);
	pa.node = s->node;
	pa.nonce = by_nonce ? SAME_NONCE : (uint32_t)rng_entropy() | 1;
	if (!rc)
		rc = link_room_ip(&room, 0, pa.ip, NULL, 0);
	if (!rc)
		rc = link_port_open(&pa, &s->port);
	lock_release(&s->lock);
	return rc;
}

static struct link_addr place_of(struct side *s)
{
	struct link_addr a = *link_port_addr(s->port);

	a.nonce = by_nonce ? SAME_NONCE : 0;
	return a;
}

static void side_close(struct side *s)
{
	lock_acquire(&s->lock);
	link_port_close(s->port);
	lock_release(&s->lock);
	link_node_close(s->node);
}

static void side_poll(struct side *s)
{
	int n;

	lock_acquire(&s->lock);
	n = link_poll(s->port);
	lock_release(&s->lock);
	if (!n)
		link_idle(s->node);
}

/* The first call of a side finds its peer. */
static int side_send(struct side *s, const struct link_addr *to, uint32_t life)
{
	int rc = 0;

	lock_acquire(&s->lock);
	if (!s->peer)
		rc = link_peer_get(s->port, to, &s->peer);
	if (!rc)
		rc = link_send(s->port, s->peer, &life, sizeof(life), NULL, 0, s);
	link_doorbell(s->port);
	s->sent += !rc;
	lock_release(&s->lock);
	return rc;
}

/* Answers every frame with one, until it is told to close, or is killed. */
static void child(uint32_t life)
{
	static uint8_t mem[MEM_LEN];
	uint32_t key, answered = 0;
	struct side s;

	NEED(!side_open(&s, board->addr[1].port));
	lock_acquire(&s.lock);
	NEED(!link_region_add(s.node, mem, sizeof(mem), LINK_GET | LINK_PUT, &key));
	lock_release(&s.lock);
	board->addr[1] = place_of(&s);
	atomic_store(&board->key, key);
	atomic_store(&board->mem, (uintptr_t)mem);
	atomic_store(&board->life, life);
	while (!atomic_load(&board->leave)) {
		side_poll(&s);
		NEED(!s.got || s.last_life == life); /* nothing that was sent to an earlier one */
		if (answered < s.got && !side_send(&s, &board->addr[0], life))
			answered++;
	}
	side_close(&s);
	_exit(0);
}

/*
 * They are forked while this process has no threads, and wait for their turn: what a child of a process with threads
 * may do is little, to begin threads of its own not among it for race checkers and emulators.
 */
static void children_fork(pid_t pid[LIVES], uint32_t first, void (*run)(uint32_t life))
{
	for (uint32_t i = 0; i < LIVES; i++) {
		pid[i] = unit_fork();
		if (pid[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (atomic_load(&board->turn) != first + i)
			nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
		run(i + 1);
	}
}

static void child_start(uint32_t turn, uint32_t life)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	atomic_store(&board->leave, 0);
	atomic_store(&board->turn, turn);
	while (atomic_load(&board->life) != life)
		if (clk_now_ns(NULL) > end)
			fail_msg("life %u does not begin", life);
}

/* Sends until this life has answered. Return: sends that failed. */
static uint32_t reach(struct side *s, uint32_t life)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	uint32_t failed = 0;

	while (s->last_life != life) {
		uint32_t before = s->failed;
		int rc = side_send(s, &board->addr[1], life);

		failed += rc && rc != -EAGAIN;
		while (s->ended < s->sent && clk_now_ns(NULL) < end)
			side_poll(s);
		failed += s->failed - before;
		/* it was taken, so it is answered */
		while (!rc && s->failed == before && s->last_life != life && clk_now_ns(NULL) < end)
			side_poll(s);
		if (failed > TRIES || clk_now_ns(NULL) > end)
			fail_msg("life %u is not reached: %u sends failed, last with %d", life, failed, s->last_status);
	}
	return failed;
}

/* What a killed process left in /dev/shm is reaped by its successor; the last one's files we remove. */
static void files_unlink(pid_t pid)
{
	char file[64], line[512], path[300];
	glob_t found;
	FILE *f;

	snprintf(file, sizeof(file), "/proc/%d/maps", pid);
	f = fopen(file, "r");
	while (f && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "/dev/shm/softfabric-");

		if (!at || sscanf(at, "%290s", path) != 1)
			continue;
		unlink(path);
		strcat(path, ".*.wake");
		if (!glob(path, 0, NULL, &found))
			unlink(found.gl_pathv[0]);
		globfree(&found);
	}
	if (f)
		fclose(f);
}

static void lives_run(const char *text, bool by_kill, bool nonce)
{
	static uint8_t mem[MEM_LEN];
	pid_t children[LIVES];
	uint64_t end;
	struct side s;
	char err[256];

	if (link_room_parse(text, &room, err, sizeof(err)))
		fail_msg("%s", err);
	memset(board, 0, sizeof(*board));
	by_nonce = nonce;
	children_fork(children, g_turn + 1, child);
	assert_int_equal(side_open(&s, 0), 0);
	board->addr[0] = place_of(&s);
	for (uint32_t life = 1; life <= LIVES; life++) {
		pid_t pid = children[life - 1];
		uint32_t failed, bulk;
		int rc;

		child_start(++g_turn, life);
		failed = reach(&s, life);
		bulk = s.bulk_ended;
		if (failed)
			print_message("life %u: reached after %u failures\n", life, failed);
		/* something of every kind is under way when it goes */
		for (int i = 0; i < 5; i++)
			side_send(&s, &board->addr[1], life);
		lock_acquire(&s.lock);
		rc = link_bulk(s.port, s.peer, LINK_GET, mem, sizeof(mem), atomic_load(&board->mem),
			       atomic_load(&board->key), &s);
		lock_release(&s.lock);
		assert_int_equal(rc, 0);
		side_poll(&s);
		if (by_kill && life == LIVES)
			files_unlink(pid);
		if (by_kill)
			kill(pid, SIGKILL);
		atomic_store(&board->leave, 1);
		waitpid(pid, &rc, 0);
		if (!by_kill)
			assert_true(WIFEXITED(rc) && !WEXITSTATUS(rc));
		if (life % 2) /* every other successor comes before anything was noticed */
			continue;
		end = clk_now_ns(NULL) + WAIT_NS;
		while ((s.ended < s.sent || s.bulk_ended == bulk) && clk_now_ns(NULL) < end)
			side_poll(&s);
		assert_int_equal(s.ended, s.sent);
		assert_int_equal(s.bulk_ended, bulk + 1);
	}
	/* all of all lives, once */
	assert_int_equal(s.ended, s.sent);
	assert_int_equal(s.bulk_ended, LIVES);
	side_close(&s);
	assert_int_equal(s.ended, s.sent);
}

static void place_run(const char *text, bool by_kill)
{
	lives_run(text, by_kill, false);
}

static void place__close_shm(void **state)
{
	(void)state;
	place_run("", false);
}
static void place__kill_shm(void **state)
{
	(void)state;
	place_run("", true);
}
static void place__kill_shm_alone(void **state)
{
	(void)state;
	place_run("shm", true);
}
static void place__close_udp(void **state)
{
	(void)state;
	place_run("udp", false);
}
static void place__kill_udp(void **state)
{
	(void)state;
	place_run("udp", true);
}
static void place__kill_with_loss(void **state)
{
	(void)state;
	place_run("loss=2%;seed=5;dead_after=2s", true);
}

static void nonce__close_shm(void **state)
{
	(void)state;
	lives_run("", false, true);
}
static void nonce__kill_shm(void **state)
{
	(void)state;
	lives_run("", true, true);
}
static void nonce__close_udp(void **state)
{
	(void)state;
	lives_run("udp", false, true);
}
static void nonce__kill_udp(void **state)
{
	(void)state;
	lives_run("udp", true, true);
}
static void nonce__kill_with_loss(void **state)
{
	(void)state;
	lives_run("loss=2%;seed=5;dead_after=2s", true, true);
}

/* One read of the region of @to by @s, with the other one polled or not. Return: its status. */
static int side_read(struct side *s, struct side *to, void *local, size_t len, const void *mem, uint32_t key,
		     bool polls)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	uint32_t before = s->bulk_ended;
	int rc;

	do {
		lock_acquire(&s->lock);
		rc = link_bulk(s->port, s->peer, LINK_GET, local, len, (uintptr_t)mem, key, s);
		lock_release(&s->lock);
		side_poll(s);
	} while (rc == -EAGAIN && clk_now_ns(NULL) < end);
	assert_int_equal(rc, 0);
	while (s->bulk_ended == before && clk_now_ns(NULL) < end) {
		side_poll(s);
		if (polls)
			side_poll(to);
	}
	assert_int_equal(s->bulk_ended, before + 1);
	return s->last_bulk;
}

/*
 * A program that closes and makes another one with the same number and key is read from at once, as it is sent to: the
 * first request after that reaches the second one, though nobody has polled and seen the first one go.
 */
static void nonce__next_life_is_read_from(void **state)
{
	static const size_t lens[] = {64, MEM_LEN};
	static uint8_t mem[MEM_LEN], local[MEM_LEN];
	struct link_addr at = {0};
	struct side s, to;
	uint32_t key;

	(void)state;
	assert_int_equal(link_room_parse("shm", &room, NULL, 0), 0);
	by_nonce = no_thread = true;
	assert_int_equal(side_open(&s, 0), 0);
	for (uint32_t life = 0; life < 8; life++) {
		assert_int_equal(side_open(&to, at.port), 0);
		lock_acquire(&to.lock);
		at = place_of(&to);
		assert_int_equal(link_region_add(to.node, mem, sizeof(mem), LINK_GET, &key), 0);
		lock_release(&to.lock);
		if (!s.peer) {
			lock_acquire(&s.lock);
			assert_int_equal(link_peer_get(s.port, &at, &s.peer), 0);
			lock_release(&s.lock);
		}
		memset(mem, (int)life, sizeof(mem));
		for (int i = 0; i < 4; i++) {
			size_t len = lens[(i + life) % 2];

			assert_int_equal(side_read(&s, &to, local, len, mem, key, (life + i) / 2 % 2), 0);
			assert_memory_equal(local, mem, len);
		}
		side_close(&to);
	}
	side_close(&s);
	no_thread = false;
}

/* --- successors that speak before anybody speaks to them --- */

/* Sends two frames, and then nothing but waits. */
static void speaker(uint32_t life)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	uint8_t frame[SPOKEN];
	struct side s;
	int rc;

	NEED(!side_open(&s, board->addr[1].port));
	if (board->by_shared_lane)
		room.shm_budget = 1; /* no memory for a lane */
	board->addr[1] = place_of(&s);
	memset(frame, (int)life, sizeof(frame));
	memcpy(frame, &life, sizeof(life));
	lock_acquire(&s.lock);
	NEED(!link_peer_get(s.port, &board->addr[0], &s.peer));
	for (int i = 0; i < 2; i++)
		do {
			rc = link_send(s.port, s.peer, frame, sizeof(frame), NULL, 0, &s);
			link_poll(s.port);
			NEED(!rc || (rc == -EAGAIN && clk_now_ns(NULL) < end));
		} while (rc);
	lock_release(&s.lock);
	atomic_store(&board->life, life);
	while (!atomic_load(&board->leave))
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	side_close(&s);
	_exit(0);
}

/*
 * One who listens meets each of the lives by what it says. Nobody works here between two of them, so that the end of
 * the one is not noticed before the other has spoken: what it says lies in a segment of its own, and what was under way
 * to its predecessor fails.
 */
static void speakers_run(bool by_kill, bool by_shared_lane)
{
	pid_t children[LIVES];
	struct side s;
	uint64_t end;
	int status;

	assert_int_equal(link_room_parse("shm", &room, NULL, 0), 0);
	memset(board, 0, sizeof(*board));
	board->by_shared_lane = by_shared_lane;
	by_nonce = true;
	no_thread = true; /* of a speaker it could take what is sent to it before the kill */
	children_fork(children, g_turn + 1, speaker);
	assert_int_equal(side_open(&s, 0), 0);
	no_thread = false;
	board->addr[0] = place_of(&s);
	for (uint32_t life = 1; life <= LIVES; life++) {
		child_start(++g_turn, life);
		for (end = clk_now_ns(NULL) + WAIT_NS; s.got < 2 * life && clk_now_ns(NULL) < end;)
			side_poll(&s);
		assert_int_equal(s.got, 2 * life);
		assert_int_equal(s.last_life, life);
		assert_int_equal(s.wrong, 0);
		assert_int_equal(s.ended, s.sent); /* all that was under way to the last one */
		if (by_kill) /* who closes takes what has come */
			assert_int_equal(s.failed, s.sent);
		while (side_send(&s, &board->addr[1], life) == -EAGAIN && clk_now_ns(NULL) < end)
			side_poll(&s);
		if (by_kill && life == LIVES)
			files_unlink(children[life - 1]);
		if (by_kill)
			kill(children[life - 1], SIGKILL);
		atomic_store(&board->leave, 1);
		assert_int_equal(waitpid(children[life - 1], &status, 0), children[life - 1]);
	}
	assert_int_equal(s.sent, LIVES);
	side_close(&s);
}

static void speaks__after_close(void **state)
{
	(void)state;
	speakers_run(false, false);
}
static void speaks__after_kill(void **state)
{
	(void)state;
	speakers_run(true, false);
}
static void speaks__after_close_shared(void **state)
{
	(void)state;
	speakers_run(false, true);
}
static void speaks__after_kill_shared(void **state)
{
	(void)state;
	speakers_run(true, true);
}

/* Traffic begun by both sides at once is one pair, not two that end each other. */
static void place__both_begin(void **state)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	struct link_addr at[2];
	struct side s[2];

	(void)state;
	by_nonce = false;
	assert_int_equal(link_room_parse("udp", &room, NULL, 0), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(side_open(&s[i], 0), 0);
		at[i] = place_of(&s[i]);
	}
	for (uint32_t r = 0; r < 1000; r++)
		for (int i = 0; i < 2; i++) {
			while (side_send(&s[i], &at[1 - i], r) == -EAGAIN && clk_now_ns(NULL) < end)
				side_poll(&s[i]);
			side_poll(&s[i]);
		}
	while (s[0].ended + s[1].ended < 2000 && clk_now_ns(NULL) < end)
		for (int i = 0; i < 2; i++)
			side_poll(&s[i]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s[i].ended, 1000);
		assert_int_equal(s[i].failed, 0);
		assert_int_equal(s[i].got, 1000);
		side_close(&s[i]);
	}
}

/* --- who stops polling -------------------------------------------------------------------------- */

/* Two sides of this process over UDP that have talked. */
static void pair_open(struct side s[2], struct link_addr at[2])
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	assert_int_equal(link_room_parse("udp", &room, NULL, 0), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(side_open(&s[i], 0), 0);
		at[i] = place_of(&s[i]);
	}
	assert_int_equal(side_send(&s[0], &at[1], 1), 0);
	while (!s[0].ended && clk_now_ns(NULL) < end)
		for (int i = 0; i < 2; i++)
			side_poll(&s[i]);
	assert_int_equal(s[1].got, 1);
}

/* A burst of small frames shares datagrams, and does not need its sender's polls to leave. */
static void burst__leaves_without_polls(void **state)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS, dgrams;
	struct link_addr at[2];
	struct side s[2];

	(void)state;
	pair_open(s, at);
	lock_acquire(&s[0].lock); /* its thread keeps out */
	dgrams = link_port_stats(s[0].port)->net_tx_dgrams;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(link_send(s[0].port, s[0].peer, "12345678", 8, NULL, 0, s), 0);
		link_doorbell(s[0].port);
	}
	/* one alone; if we are not scheduled for a while the next one is alone, too */
	assert_in_range(link_port_stats(s[0].port)->net_tx_dgrams - dgrams, 1, 10);
	lock_release(&s[0].lock);
	while (s[1].got < 51 && clk_now_ns(NULL) < end)
		side_poll(&s[1]);
	assert_int_equal(s[1].got, 51);
	for (int i = 0; i < 2; i++)
		side_close(&s[i]);
}

#define LAST_TRIES 50 /* a busy machine needs a few */
#define LAST_MAX   (3 * NS_PER_MS) /* a nap takes 4, and it takes another to be sure */

/* A receiver that has taken a frame and polls no more owes its acknowledgement: its adapter thread sends it. */
static void ack__of_receiver_that_stops_polling(void **state)
{
	uint64_t best = UINT64_MAX, begin, end, retrans;
	struct link_addr at[2];
	struct side s[2];

	(void)state;
	pair_open(s, at);
	for (uint32_t i = 2; i <= LAST_TRIES + 1 && best >= LAST_MAX; i++) {
		/* both threads nap for long by now */
		for (end = clk_now_ns(NULL) + 60 * NS_PER_MS; clk_now_ns(NULL) < end;) {
			side_poll(&s[0]);
			side_poll(&s[1]);
		}
		assert_int_equal(side_send(&s[0], &at[1], i), 0);
		while (s[1].got < i) /* on_frame() runs here unless its thread was quicker */
			side_poll(&s[1]);
		begin = clk_now_ns(NULL);
		while (s[0].ended < i && clk_now_ns(NULL) - begin < WAIT_NS)
			side_poll(&s[0]);
		assert_int_equal(s[0].ended, i);
		best = MIN(best, clk_now_ns(NULL) - begin);
	}
	print_message("ended %.2f ms after the last poll of the receiver\n", (double)best / 1e6);
	assert_true(best < LAST_MAX);
	lock_acquire(&s[0].lock);
	retrans = link_port_stats(s[0].port)->retrans;
	lock_release(&s[0].lock);
	assert_int_equal(retrans, 0);
	for (int i = 0; i < 2; i++)
		side_close(&s[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(place__close_shm),
		cmocka_unit_test(place__kill_shm),
		cmocka_unit_test(place__kill_shm_alone),
		cmocka_unit_test(place__close_udp),
		cmocka_unit_test(place__kill_udp),
		cmocka_unit_test(place__kill_with_loss),
		cmocka_unit_test(nonce__close_shm),
		cmocka_unit_test(nonce__kill_shm),
		cmocka_unit_test(nonce__close_udp),
		cmocka_unit_test(nonce__kill_udp),
		cmocka_unit_test(nonce__kill_with_loss),
		cmocka_unit_test(nonce__next_life_is_read_from),
		cmocka_unit_test(speaks__after_close),
		cmocka_unit_test(speaks__after_kill),
		cmocka_unit_test(speaks__after_close_shared),
		cmocka_unit_test(speaks__after_kill_shared),
		cmocka_unit_test(place__both_begin),
		cmocka_unit_test(burst__leaves_without_polls),
		cmocka_unit_test(ack__of_receiver_that_stops_polling),
	};

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
