// SPDX-License-Identifier: BSD-2-Clause
// Speed of one-sided copies between two processes: one line per size, operation and method; the
// target polls, or computes.
//
// Usage: bulk_rate [room [cpu0 cpu1]], e.g. bulk_rate shm 0 1, bulk_rate udp
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/bulk/bulk_int.h"

#define LEN_MAX (4u << 20)
#define WINDOW	4

enum { IDLE, POLLING, QUIT };

struct board {
	struct link_addr addr;
	_Atomic uintptr_t mem;
	_Atomic uint32_t key;
	_Atomic int ready, phase;
};

static struct board *board;
static struct link_room room;
static int done, bad;

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	return 0;
}

static void on_sent(void *ctx, void *cookie, int status) {}

static void on_bulk(void *ctx, void *cookie, int status)
{
	done++;
	bad += status != 0;
}

static const struct link_ops ops = {on_frame, on_sent, on_bulk};

struct side {
	struct lock lock;
	struct link_node *node;
	struct link_port *port;
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (cpu >= 0)
		sched_setaffinity(0, sizeof(set), &set);
}

static void side_open(struct side *s)
{
	struct link_node_attr na = {.lock = &s->lock, .room = &room};
	struct link_port_attr pa = {.nonce = (uint32_t)getpid(), .cls = LINK_RELIABLE, .ops = &ops};
	char err[200];

	if (link_room_ip(&room, 0, pa.ip, err, sizeof(err)) || link_node_open(&na, &s->node))
		exit(1);
	pa.node = s->node;
	lock_acquire(&s->lock);
	if (link_port_open(&pa, &s->port))
		exit(1);
	lock_release(&s->lock);
}

static void side_close(struct side *s)
{
	lock_acquire(&s->lock);
	link_port_close(s->port);
	lock_release(&s->lock);
	link_node_close(s->node);
}

static uint8_t *memory(void)
{
	uint8_t *p =
		mmap(NULL, LEN_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, LEN_MAX);
	return p;
}

static void target(int cpu)
{
	uint8_t *mem = memory();
	struct side s = {0};
	uint32_t key;

	pin(cpu);
	side_open(&s);
	lock_acquire(&s.lock);
	if (link_region_add(s.node, mem, LEN_MAX, LINK_GET | LINK_PUT, &key))
		exit(1);
	board->addr = *link_port_addr(s.port);
	lock_release(&s.lock);
	atomic_store(&board->mem, (uintptr_t)mem);
	atomic_store(&board->key, key);
	atomic_store(&board->ready, 1);
	while (atomic_load(&board->phase) != QUIT) {
		if (atomic_load_explicit(&board->phase, memory_order_relaxed) == IDLE) {
			usleep(100);
			continue;
		}
		lock_acquire(&s.lock);
		link_poll(s.port);
		lock_release(&s.lock);
	}
	side_close(&s);
	exit(0);
}

/* @total bytes in operations of @len, @window at a time. Return: ns. */
static uint64_t run(struct side *s, struct link_peer *peer, int op, uint8_t *local, uint32_t len,
		    int ops_cnt, int window)
{
	uint64_t t = clk_now_ns(NULL);
	int begun = 0;

	done = 0;
	lock_acquire(&s->lock);
	while (done < ops_cnt) {
		while (begun < ops_cnt && begun - done < window &&
		       !link_bulk(s->port, peer, op, local, len, atomic_load(&board->mem),
				  atomic_load(&board->key), s))
			begun++;
		link_poll(s->port);
	}
	lock_release(&s->lock);
	return clk_now_ns(NULL) - t;
}

static void measure(struct side *s, struct link_peer *peer, uint8_t *local, int op, int force,
		    uint32_t len)
{
	static const char *const name[BULK_WAY_NUM] = {"frames", "cma", "helped"};
	int cnt = (int)MIN(MAX((32u << 20) / len, 8u), 4000u);
	uint64_t one = UINT64_MAX, many = UINT64_MAX;
	const struct link_stats *st = link_port_stats(s->port);
	uint64_t ring, cma, net;

	s->port->bulk->force = force;
	run(s, peer, op, local, len, 8, 1);
	ring = st->bulk_ring_bytes;
	cma = st->bulk_cma_bytes;
	net = st->bulk_frame_bytes;
	for (int i = 0; i < 5; i++) {
		one = MIN(one,
			  run(s, peer, op, local, len, cnt / 4 + 1, 1) / (uint64_t)(cnt / 4 + 1));
		many = MIN(many, run(s, peer, op, local, len, cnt, WINDOW) / (uint64_t)cnt);
	}
	ring = st->bulk_ring_bytes - ring;
	cma = st->bulk_cma_bytes - cma;
	net = st->bulk_frame_bytes - net;
	printf("%s %-6s %8u B: one at a time %9.2f us, %d at a time %6.2f GB/s  (ring %3.0f%%)\n",
	       op == LINK_GET ? "get" : "put",
	       force < 0 ? "choice" : name[force],
	       len, (double)one / 1000, WINDOW, (double)len / (double)many,
	       100.0 * (double)ring / (double)MAX(ring + cma + net, 1ULL));
}

int main(int argc, char **argv)
{
	static const uint32_t len[] = {8, 4096, 16384, 65536, 262144, 1u << 20, LEN_MAX};
	struct side s = {0};
	struct link_peer *peer;
	char err[200];
	uint8_t *local;
	bool has_shm;

	if (link_room_parse(argc > 1 ? argv[1] : "shm", &room, err, sizeof(err)))
		return 1;
	has_shm = room.paths & LINK_PATH_SHM;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (!fork())
		target(argc > 3 ? atoi(argv[3]) : -1);
	while (!atomic_load(&board->ready))
		usleep(100);
	pin(argc > 3 ? atoi(argv[2]) : -1);
	local = memory();
	side_open(&s);
	lock_acquire(&s.lock);
	if (link_peer_get(s.port, &board->addr, &peer))
		return 1;
	lock_release(&s.lock);
	for (int phase = POLLING; phase >= IDLE; phase--) {
		atomic_store(&board->phase, phase);
		printf("target %s\n", phase == POLLING ? "polls" : "computes");
		usleep(20000);
		for (int op = LINK_GET; op <= LINK_PUT; op++)
			for (int force = has_shm ? BULK_HELPED : -1; force >= -1; force--)
				for (size_t i = 0; i < ARRAY_SIZE(len); i++)
					measure(&s, peer, local, op, force, len[i]);
	}
	atomic_store(&board->phase, QUIT);
	lock_acquire(&s.lock);
	link_peer_put(peer);
	lock_release(&s.lock);
	side_close(&s);
	wait(NULL);
	if (bad)
		printf("%d operations failed\n", bad);
	return bad != 0;
}
