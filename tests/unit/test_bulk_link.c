// SPDX-License-Identifier: BSD-2-Clause
// One-sided copies between two processes over the real paths: random operations, targets that
// compute, stop or die.
#include "link_side.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/bulk/bulk_int.h"
#include "link/net/rel_wire.h"
#include "link/net/udp_sock.h"

#define LANES	 4
#define LANE_LEN (1u << 20)
#define WAIT_NS	 (30 * NS_PER_SEC * unit_slow())

enum { COMPUTES, POLLS, SOMETIMES, QUITS };

/* Both processes see it; the region is in it as well, so that the initiator can look at what it has
 * written. */
static struct board {
	struct link_addr addr;
	_Atomic uint32_t key, ready, phase;
	uint8_t mem[LANES][LANE_LEN];
} * board;

/* The adapter thread writes it as well: the count last, so that who sees it sees the rest. */
struct done {
	_Atomic int cnt;
	int status;
};

static pid_t target;

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	return 0;
}

static void on_sent(void *ctx, void *cookie, int status) {}

static void on_bulk(void *ctx, void *cookie, int status)
{
	struct done *d = cookie;

	d->status = status;
	d->cnt++;
}

static const struct link_ops ops = {on_frame, on_sent, on_bulk};

static void side_open(struct link_side *s, enum link_class cls)
{
	must(!link_side_open(s, (struct link_port_attr){.cls = cls, .ops = &ops}));
}

static void target_main(enum link_class cls)
{
	struct link_side s;
	uint32_t key, phase, n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_open(&s, cls);
	lock_acquire(&s.lock);
	must(!link_region_add(s.node, board->mem, sizeof(board->mem), LINK_GET | LINK_PUT, &key));
	board->addr = *link_port_addr(s.port);
	lock_release(&s.lock);
	atomic_store(&board->key, key);
	atomic_store(&board->ready, 1);
	while ((phase = atomic_load(&board->phase)) != QUITS) {
		if (phase == COMPUTES || (phase == SOMETIMES && ++n / 1000 % 2))
			usleep(phase == COMPUTES ? 1000 : 1);
		else
			link_side_poll(&s);
	}
	link_side_close(&s);
	_exit(0);
}

/* A target in another process, and our side with it as peer. */
static struct link_peer *pair_open(struct link_side *s, const char *net, enum link_class cls,
				   uint32_t phase)
{
	struct link_peer *peer;
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	room_set(net);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(board, MAP_FAILED);
	atomic_store(&board->phase, phase);
	fflush(stdout);
	target = unit_fork();
	if (!target)
		target_main(cls);
	while (!atomic_load(&board->ready)) {
		assert_true(clk_now_ns(NULL) < end);
		usleep(100);
	}
	side_open(s, cls);
	lock_acquire(&s->lock);
	assert_int_equal(link_peer_get(s->port, &board->addr, &peer), 0);
	lock_release(&s->lock);
	return peer;
}

static void pair_close(struct link_side *s, struct link_peer *peer)
{
	int status;

	atomic_store(&board->phase, QUITS);
	lock_acquire(&s->lock);
	link_peer_put(peer);
	lock_release(&s->lock);
	link_side_close(s);
	assert_int_equal(waitpid(target, &status, 0), target);
	munmap(board, sizeof(*board));
}

static int bulk(struct link_side *s, struct link_peer *peer, int op, void *local, size_t len,
		void *remote, struct done *d)
{
	int rc;

	*d = (struct done){0};
	lock_acquire(&s->lock);
	rc = link_bulk(s->port, peer, op, local, len, (uintptr_t)remote, atomic_load(&board->key),
		       d);
	lock_release(&s->lock);
	return rc;
}

static bool wait_done(struct link_side *s, const struct done *d, uint64_t max_ns)
{
	uint64_t end = clk_now_ns(NULL) + max_ns;

	while (!d->cnt && clk_now_ns(NULL) < end) {
		link_side_poll(s);
		sched_yield();
	}
	return d->cnt == 1;
}

static void fill(struct rng *r, uint8_t *p, size_t len)
{
	uint64_t x = rng_u64(r);

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(x >> (i % 7 * 8)) ^ (uint8_t)(i >> 3);
}

/* --- random operations ------------------------------------------------------------------------ */

static uint8_t local[LANES][LANE_LEN], model[LANES][LANE_LEN];

struct lane_op {
	struct done done;
	bool is_busy;
	int op;
	size_t at, rat, len;
};

static void lane_start(struct rng *r, struct link_side *s, struct link_peer *peer, struct lane_op *o,
		       int i)
{
	o->len = rng_chance(r, 0.5) ? rng_below(r, 9000) : rng_below(r, LANE_LEN);
	o->at = rng_below(r, LANE_LEN - o->len + 1);
	o->rat = rng_below(r, LANE_LEN - o->len + 1);
	o->op = rng_chance(r, 0.5) ? LINK_GET : LINK_PUT;
	fill(r, o->op == LINK_GET ? board->mem[i] + o->rat : local[i] + o->at, o->len);
	if (o->op == LINK_GET)
		memcpy(model[i], board->mem[i], LANE_LEN);
	else
		memcpy(model[i] + o->rat, local[i] + o->at, o->len);
	assert_int_equal(
		bulk(s, peer, o->op, local[i] + o->at, o->len, board->mem[i] + o->rat, &o->done),
		0);
	o->is_busy = true;
}

static void lane_finish(struct lane_op *o, int i)
{
	assert_int_equal(o->done.cnt, 1);
	assert_int_equal(o->done.status, 0);
	assert_memory_equal(board->mem[i], model[i], LANE_LEN);
	assert_memory_equal(local[i] + o->at, model[i] + o->rat, o->len);
	o->is_busy = false;
}

static void model_run(const char *net, enum link_class cls, uint32_t phase, int ops_cnt, int force,
		      struct link_stats *st)
{
	struct rng r = unit_rng();
	struct lane_op op[LANES] = {0};
	int begun = 0, ended = 0;
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	struct link_peer *peer;
	struct link_side s;

	peer = pair_open(&s, net, cls, phase);
	s.port->bulk->force = force;
	memset(model, 0, sizeof(model));
	while (ended < ops_cnt) {
		assert_true(clk_now_ns(NULL) < end);
		for (int i = 0; i < LANES; i++) {
			if (op[i].is_busy && op[i].done.cnt) {
				lane_finish(&op[i], i);
				ended++;
			}
			if (!op[i].is_busy && begun < ops_cnt) {
				lane_start(&r, &s, peer, &op[i], i);
				begun++;
			}
		}
		link_side_poll(&s);
	}
	lock_acquire(&s.lock);
	*st = *link_port_stats(s.port);
	lock_release(&s.lock);
	print_message("%s: ring %llu, kernel %llu, net %llu bytes\n", net,
		      (unsigned long long)st->bulk_ring_bytes,
		      (unsigned long long)st->bulk_cma_bytes,
		      (unsigned long long)st->bulk_frame_bytes);
	if (!side_room.corrupt_ppm)
		assert_int_equal(st->drop_malformed, 0);
	pair_close(&s, peer);
}

static void bulk__shm(void **state)
{
	struct link_stats st;

	model_run("shm", LINK_RELIABLE, POLLS, 300, -1, &st);
	assert_int_equal(st.bulk_frame_bytes, 0);
	model_run("shm", LINK_RELIABLE, POLLS, 300, BULK_FRAMES, &st);
	assert_int_equal(st.bulk_frame_bytes + st.bulk_cma_bytes, 0);
	model_run("shm", LINK_ORDERED, SOMETIMES, 200, BULK_FRAMES, &st);
	assert_int_equal(st.bulk_frame_bytes + st.bulk_cma_bytes, 0);
	model_run("shm", LINK_ORDERED, SOMETIMES, 300, -1, &st);
	model_run("shm", LINK_RAW, SOMETIMES, 100, -1, &st);
	model_run("shm,udp", LINK_RELIABLE, COMPUTES, 100, -1, &st);
	assert_int_equal(st.bulk_frame_bytes, 0);
}

static void bulk__udp(void **state)
{
	struct link_stats st;

	model_run("udp", LINK_RELIABLE, POLLS, 60, -1, &st);
	assert_int_equal(st.bulk_ring_bytes + st.bulk_cma_bytes, 0);
	model_run("udp", LINK_ORDERED, COMPUTES, 60, -1, &st);
}

static void bulk__with_faults(void **state)
{
	struct link_stats st;

	model_run("shm,udp;loss=2%;reorder=5%;dup=2%;corrupt=1%;seed=7", LINK_RELIABLE, SOMETIMES,
		  30, -1, &st);
	assert_int_equal(st.bulk_ring_bytes + st.bulk_cma_bytes, 0);
	assert_true(st.fault_drop && st.retrans);
	model_run("udp;loss=2%;seed=8", LINK_ORDERED, POLLS, 30, -1, &st);
}

/* --- targets in trouble ----------------------------------------------------------------------- */

static void bulk__stopped_target_is_read_and_written(void **state)
{
	struct link_peer *peer;
	struct link_side s;
	struct done d;
	int status;

	peer = pair_open(&s, "shm,udp", LINK_RELIABLE, COMPUTES);
	assert_int_equal(bulk(&s, peer, LINK_GET, local[0], 1, board->mem[0], &d), 0);
	assert_true(wait_done(&s, &d, WAIT_NS));
	if (!shm_peer_cma_ok(peer->shm)) {
		pair_close(&s, peer);
		print_message("the kernel forbids cross memory attach here\n");
		skip();
	}
	kill(target, SIGSTOP);
	assert_int_equal(waitpid(target, &status, WUNTRACED), target);
	for (uint64_t end = clk_now_ns(NULL) + NS_PER_SEC * unit_slow(); shm_peer_is_polling(peer->shm);) {
		assert_true(clk_now_ns(NULL) < end);
		usleep(10);
	}
	memset(board->mem[1], 0x42, LANE_LEN);
	assert_int_equal(bulk(&s, peer, LINK_GET, local[1], LANE_LEN, board->mem[1], &d), 0);
	assert_true(wait_done(&s, &d, 5 * NS_PER_SEC));
	assert_int_equal(d.status, 0);
	assert_memory_equal(local[1], board->mem[1], LANE_LEN);
	memset(local[1], 0x43, LANE_LEN);
	assert_int_equal(bulk(&s, peer, LINK_PUT, local[1], LANE_LEN, board->mem[1], &d), 0);
	assert_true(wait_done(&s, &d, 5 * NS_PER_SEC));
	assert_int_equal(d.status, 0);
	assert_memory_equal(local[1], board->mem[1], LANE_LEN);
	kill(target, SIGCONT);
	pair_close(&s, peer);
}

/* Stops the target inside a copy of its part. Return: it was; false: the kernel does not tell, or it never helps. */
static bool stop_helper(struct link_side *s, struct link_peer *peer, struct done *d)
{
	char path[64], text[32] = "";
	int status;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)target);
	for (int i = 0; i < 3000; i++) {
		uint64_t end = clk_now_ns(NULL) + (uint64_t)(i % 100) * 5 * NS_PER_US;
		int fd;

		assert_int_equal(bulk(s, peer, LINK_GET, local, sizeof(local), board->mem, d), 0);
		while (clk_now_ns(NULL) < end)
			link_side_poll(s);
		kill(target, SIGSTOP);
		assert_int_equal(waitpid(target, &status, WUNTRACED), target);
		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
			return false;
		close(fd);
		if (atoi(text) == SYS_process_vm_writev && !d->cnt)
			return true;
		kill(target, SIGCONT);
		assert_true(wait_done(s, d, WAIT_NS));
	}
	return false;
}

/* Its owner was stopped while it helped with a read of ours that we want to end: nobody waits for it with the lock. */
static void bulk__read_ends_while_its_helper_is_stopped(void **state)
{
	uint64_t start_ns, asked_ns, longest_ns = 0;
	struct link_peer *peer;
	struct link_side s;
	bool is_free;
	struct done d;

	(void)state;
	peer = pair_open(&s, "shm;dead_after=4s", LINK_RELIABLE, POLLS);
	s.port->bulk->force = BULK_HELPED;
	if (!stop_helper(&s, peer, &d)) {
		pair_close(&s, peer);
		print_message("the target was never seen in the middle of a copy\n");
		skip();
	}
	start_ns = clk_now_ns(NULL);
	do {
		lock_acquire(&s.lock);
		asked_ns = clk_now_ns(NULL);
		is_free = link_bulk_stop(s.port, &d);
		longest_ns = MAX(longest_ns, clk_now_ns(NULL) - asked_ns);
		lock_release(&s.lock);
		assert_true(clk_now_ns(NULL) - start_ns < WAIT_NS);
	} while (!is_free);
	print_message("free after %llu ms, asked in %llu us\n",
		      (unsigned long long)((clk_now_ns(NULL) - start_ns) / NS_PER_MS),
		      (unsigned long long)(longest_ns / NS_PER_US));
	memset(local, 0xdd, sizeof(local));
	assert_true(longest_ns < side_room.dead_after_ns / 8);
	kill(target, SIGCONT);
	assert_true(wait_done(&s, &d, WAIT_NS));
	assert_int_equal(d.status, -EFAULT);
	for (int i = 0; i < 1000; i++)
		link_side_poll(&s);
	for (size_t i = 0; i < sizeof(local); i++)
		assert_int_equal(((uint8_t *)local)[i], 0xdd);
	pair_close(&s, peer);
}

/* kill -9: whatever was going on ends exactly once, within dead_after + 1 s. */
static void target_dies(const char *net, uint32_t phase, int max_us)
{
	struct rng r = unit_rng();

	for (int round = 0; round < 4; round++) {
		struct link_peer *peer;
		struct done d[LANES];
		uint64_t t;
		struct link_side s;
		int busy = 0;

		peer = pair_open(&s, net, LINK_RELIABLE, phase);
		for (int i = 0; i < LANES; i++) {
			assert_int_equal(bulk(&s, peer, i % 2 ? LINK_GET : LINK_PUT, local[i],
					      LANE_LEN, board->mem[i], &d[i]),
					 0);
		}
		t = clk_now_ns(NULL) + rng_below(&r, (uint64_t)max_us) * NS_PER_US;
		while (clk_now_ns(NULL) < t)
			link_side_poll(&s);
		kill(target, SIGKILL);
		t = clk_now_ns(NULL);
		for (int i = 0; i < LANES; i++)
			busy += !d[i].cnt;
		for (int i = 0; i < LANES; i++) {
			assert_true(wait_done(&s, &d[i], 4 * NS_PER_SEC * unit_slow()));
		}
		t = clk_now_ns(NULL) - t;
		for (int i = 0; i < 100; i++)
			link_side_poll(&s);
		for (int i = 0; i < LANES; i++) {
			assert_int_equal(d[i].cnt, 1);
			assert_true(d[i].status == 0 || d[i].status == -ECONNREFUSED ||
				    d[i].status == -ETIMEDOUT || d[i].status == -EHOSTUNREACH);
		}
		print_message("%s: %d of %d were busy, all ended after %llu ms\n", net, busy, LANES,
			      (unsigned long long)(t / NS_PER_MS));
		assert_true(t <= side_room.dead_after_ns + NS_PER_SEC * unit_slow());
		pair_close(&s, peer);
	}
}

static void bulk__target_dies(void **state)
{
	target_dies("shm,udp;dead_after=1s", POLLS, 300);
	target_dies("shm,udp;dead_after=1s", COMPUTES, 300);
	target_dies("udp;dead_after=1s", POLLS, 1500);
}

/* --- an initiator in trouble ------------------------------------------------------------------ */

static void initiator_main(const char *net, struct link_addr addr, void *remote, uint32_t key)
{
	struct link_peer *peer;
	struct link_side s;
	struct done d = {1, 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	room_set(net);
	side_open(&s, LINK_RELIABLE);
	lock_acquire(&s.lock);
	must(!link_peer_get(s.port, &addr, &peer));
	for (int n = 0;;) {
		if (d.cnt) {
			d.cnt = 0;
			n++;
			must(!link_bulk(s.port, peer, n % 2 ? LINK_GET : LINK_PUT, local[0],
					LANE_LEN, (uintptr_t)remote, key, &d));
			if (n == 3)
				atomic_store(&board->ready, 1);
		}
		link_poll(s.port);
	}
}

/*
 * Deregistration is not held up by it, and what it had begun here is forgotten. On a busy machine each may hear nothing
 * of the other for a second: before it dies neither takes the other for dead.
 */
static void initiator_dies(const char *paths)
{
	uint64_t dead_s = unit_slow();
	struct rng r = unit_rng();
	char net[64], patient[64];

	snprintf(net, sizeof(net), "%s;dead_after=%us", paths, (unsigned)dead_s);
	snprintf(patient, sizeof(patient), "%s;dead_after=60s", paths);

	for (int round = 0; round < 4; round++) {
		uint64_t end = clk_now_ns(NULL) + WAIT_NS, t;
		struct link_side s;
		uint32_t key;
		pid_t pid;

		room_set(net);
		board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		side_open(&s, LINK_RELIABLE);
		lock_acquire(&s.lock);
		assert_int_equal(
			link_region_add(s.node, local[1], LANE_LEN, LINK_GET | LINK_PUT, &key), 0);
		lock_release(&s.lock);
		fflush(stdout);
		pid = unit_fork();
		if (!pid)
			initiator_main(patient, *link_port_addr(s.port), local[1], key);
		while (!atomic_load(&board->ready)) {
			assert_true(clk_now_ns(NULL) < end);
			link_side_poll(&s);
		}
		t = clk_now_ns(NULL) + rng_below(&r, 500 * NS_PER_US);
		while (clk_now_ns(NULL) < t)
			link_side_poll(&s);
		kill(pid, SIGKILL);
		t = clk_now_ns(NULL);
		lock_acquire(&s.lock);
		link_region_del(s.node, key);
		lock_release(&s.lock);
		t = clk_now_ns(NULL) - t;
		/* no longer than a busy machine takes to see that it is dead */
		assert_true(t < 5 * NS_PER_SEC * unit_slow());
		for (end = clk_now_ns(NULL) + (3 + dead_s) * NS_PER_SEC; clk_now_ns(NULL) < end;) {
			link_side_poll(&s);
			if (!bulk_outstanding(s.port->bulk))
				break;
		}
		assert_int_equal(bulk_outstanding(s.port->bulk), 0);
		link_side_close(&s);
		waitpid(pid, NULL, 0);
		munmap(board, sizeof(*board));
	}
}

static void bulk__initiator_dies(void **state)
{
	initiator_dies("shm,udp");
	initiator_dies("udp");
}

/*
 * Over the loopback one datagram has room for what cxi's rendezvous fetches of a message of 64 KiB: all but the first 2
 * KiB. How many datagrams came is not asked: on a busy machine acknowledgements and repetitions are among them.
 */
static void bulk__64_kib_fit_a_datagram(void **state)
{
	enum { LEN = 65536 - 2048, CHUNKS = DIV_ROUND_UP(LEN, BULK_CHUNK) };

	(void)state;
	assert_in_range(sizeof(struct rel_base) + CHUNKS * (REL_REC_OVERHEAD + LINK_HDR_MAX) + LEN, LEN, UDP_MTU_LOOP);
}

/* A port that opens removes what killed processes have left. */
static int reap_group(void **state)
{
	struct link_side s;

	room_set("shm");
	side_open(&s, LINK_RELIABLE);
	link_side_close(&s);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk__shm),
		cmocka_unit_test(bulk__udp),
		cmocka_unit_test(bulk__64_kib_fit_a_datagram),
		cmocka_unit_test(bulk__with_faults),
		cmocka_unit_test(bulk__stopped_target_is_read_and_written),
		cmocka_unit_test(bulk__read_ends_while_its_helper_is_stopped),
		cmocka_unit_test(bulk__target_dies),
		cmocka_unit_test(bulk__initiator_dies),
	};

	if (getenv("TEST")) /* one by name, * allowed */
		cmocka_set_test_filter(getenv("TEST"));
	return cmocka_run_group_tests(tests, NULL, reap_group);
}
