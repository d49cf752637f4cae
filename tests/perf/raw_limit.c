// SPDX-License-Identifier: BSD-2-Clause
// What this machine permits, with no protocol: raw_limit local|net lat|bw|rate SIZE CPU,CPU ROUNDS. Prints CSV as
// bench_ofi does, with "raw" for the provider.
//
// local, up to 4 KiB: messages copied into a ring in shared memory and out of it; above: the kernel copies, each side
// one half at the same time (process_vm_readv by who receives, process_vm_writev by who sends). net: UDP over loopback,
// trains of UDP_SEGMENT and UDP_GRO, with a window that is kept in shared memory, so that nothing is lost and nothing
// has to be answered. lat: ns one way; bw: bytes per second; rate: messages per second.
#include "place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_MAX  4096 /* larger messages are copied by the kernel */
#define SLOTS	  256
#define SLOT_LEN  (RING_MAX + 64)
#define SEG_LEN	  8928 /* of trains, but for small messages */
#define SEG_SMALL 64
#define TRAIN_MAX 62496
#define WINDOW	  (128 << 10)
#define TURN_NS	  5e6
#define SIZE_MAX_ (64u << 20)
#define ROUND_MAX 1000

struct ring {
	_Alignas(64) _Atomic uint64_t taken;
	_Alignas(64) char slot[SLOTS][SLOT_LEN];
};

/* Of messages in one direction. */
struct copy {
	_Alignas(64) _Atomic uint64_t begun, sent; /* by the sender: its half */
	_Alignas(64) _Atomic uint64_t got;	   /* bytes or messages, by the receiver */
};

struct shared {
	_Alignas(64) _Atomic uint64_t ping;
	_Alignas(64) _Atomic uint64_t pong;
	_Alignas(64) _Atomic uint64_t arrived[2];
	_Atomic uint64_t ops;
	char *buf[2]; /* in the processes' own memory */
	pid_t pid[2];
	uint16_t port[2];
	struct ring ring[2];
	struct copy copy[2];
};

struct side {
	struct shared *sh;
	bool is_net, is_rate;
	size_t len;
	int me, fd;
	uint64_t at, probes;
	uint64_t out, in; /* messages or bytes so far, in the direction away from us and in the other */
	char *tx, *rx;
};

static void die(const char *what)
{
	fprintf(stderr, "raw_limit: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void meet(struct side *s)
{
	place_meet(s->sh->arrived, s->me, &s->at);
}

/* --- shared memory ------------------------------------------------------------------------------------------------ */

static void ring_send(struct side *s)
{
	struct ring *r = &s->sh->ring[s->me];
	char *slot = r->slot[s->out % SLOTS];

	while (s->out - atomic_load_explicit(&r->taken, memory_order_acquire) >= SLOTS)
		;
	memcpy(slot + 8, s->tx, s->len);
	atomic_store_explicit((_Atomic uint64_t *)(void *)slot, ++s->out, memory_order_release);
}

static void ring_recv(struct side *s)
{
	struct ring *r = &s->sh->ring[!s->me];
	char *slot = r->slot[s->in % SLOTS];

	s->in++;
	while (atomic_load_explicit((_Atomic uint64_t *)(void *)slot, memory_order_acquire) != s->in)
		;
	memcpy(s->rx, slot + 8, s->len);
	if (s->in % (SLOTS / 4) == 0)
		atomic_store_explicit(&r->taken, s->in, memory_order_release);
}

static void kernel_send(struct side *s)
{
	struct copy *c = &s->sh->copy[s->me];
	size_t half = s->len / 2;
	struct iovec from = {s->tx + half, s->len - half}, to = {s->sh->buf[!s->me] + half, s->len - half};

	/* its buffer is free again */
	while (atomic_load_explicit(&c->got, memory_order_acquire) != s->out)
		;
	atomic_store_explicit(&c->begun, ++s->out, memory_order_release);
	if (process_vm_writev(s->sh->pid[!s->me], &from, 1, &to, 1, 0) != (ssize_t)from.iov_len)
		die("process_vm_writev");
	atomic_store_explicit(&c->sent, s->out, memory_order_release);
}

static void kernel_recv(struct side *s)
{
	struct copy *c = &s->sh->copy[!s->me];
	size_t half = s->len / 2;
	struct iovec to = {s->rx, half}, from = {s->sh->buf[!s->me] - s->len, half};

	s->in++;
	while (atomic_load_explicit(&c->begun, memory_order_acquire) != s->in)
		;
	if (process_vm_readv(s->sh->pid[!s->me], &to, 1, &from, 1, 0) != (ssize_t)half)
		die("process_vm_readv");
	while (atomic_load_explicit(&c->sent, memory_order_acquire) != s->in)
		;
	atomic_store_explicit(&c->got, s->in, memory_order_release);
}

/* --- UDP ---------------------------------------------------------------------------------------------------------- */

static void net_open(struct side *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int one = 1, seg = s->len <= SEG_SMALL ? SEG_SMALL : SEG_LEN, room = 4 << 20;

	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&a, len) || getsockname(s->fd, (struct sockaddr *)&a, &len))
		die("socket");
	if (setsockopt(s->fd, IPPROTO_UDP, UDP_SEGMENT, &seg, sizeof(seg)) ||
	    setsockopt(s->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)))
		die("UDP_SEGMENT, UDP_GRO");
	setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	s->sh->port[s->me] = a.sin_port;
	meet(s);
	a.sin_port = s->sh->port[!s->me];
	if (connect(s->fd, (struct sockaddr *)&a, len))
		die("connect");
}

static void net_send(struct side *s)
{
	struct copy *c = &s->sh->copy[s->me];
	size_t len = s->is_rate ? SEG_SMALL : s->len, at = 0;

	while (at < len) {
		size_t n = len - at < TRAIN_MAX ? len - at : TRAIN_MAX;

		while (s->out + n - atomic_load_explicit(&c->got, memory_order_acquire) > WINDOW)
			;
		if (send(s->fd, s->tx + at, n, 0) < 0) {
			if (errno != EAGAIN && errno != ENOBUFS)
				die("send");
			continue;
		}
		at += n;
		s->out += n;
	}
}

static void net_recv(struct side *s, uint64_t len)
{
	struct copy *c = &s->sh->copy[!s->me];
	uint64_t end = s->in + len;

	while (s->in < end) {
		ssize_t n = recv(s->fd, s->rx, 65536, 0);

		if (n < 0 && errno != EAGAIN)
			die("recv");
		s->in += n < 0 ? 0 : (uint64_t)n;
		if (n > 0)
			atomic_store_explicit(&c->got, s->in, memory_order_release);
	}
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

static void send_one(struct side *s)
{
	if (s->is_net)
		net_send(s);
	else if (s->len <= RING_MAX)
		ring_send(s);
	else
		kernel_send(s);
}

static void recv_one(struct side *s)
{
	if (s->is_net)
		net_recv(s, s->len);
	else if (s->len <= RING_MAX)
		ring_recv(s);
	else
		kernel_recv(s);
}

/* Trains of segments, each of which is a message. */
static void run_segments(struct side *s, uint64_t ops)
{
	size_t train = (size_t)SEG_SMALL * SEG_SMALL, len = s->len;

	s->len = train;
	s->is_rate = false;
	for (uint64_t i = 0; i < ops / SEG_SMALL; i++)
		s->me ? net_recv(s, train) : net_send(s);
	s->len = len;
	s->is_rate = true;
}

static double turn(struct side *s, bool is_lat, uint64_t ops)
{
	uint64_t t;

	meet(s);
	t = place_now_ns();
	if (s->is_net && s->is_rate) {
		run_segments(s, ops);
	} else {
		for (uint64_t i = 0; i < ops; i++) {
			s->me ? recv_one(s) : send_one(s);
			if (is_lat)
				s->me ? send_one(s) : recv_one(s);
		}
	}
	meet(s);
	return (double)(place_now_ns() - t) / (double)ops;
}

static enum place probe(struct side *s)
{
	meet(s);
	return place_probe(&s->sh->ping, &s->sh->pong, s->me, &s->probes);
}

static void side_open(struct side *s)
{
	size_t len = s->len < 65536 ? 65536 : s->len;
	char *p = NULL;

	/* first what is sent, then what is received */
	if (posix_memalign((void **)&p, 4096, 2 * len))
		die("memory");
	memset(p, 1, 2 * len);
	s->tx = p + len - s->len;
	s->rx = p + len;
	s->sh->buf[s->me] = s->rx;
	s->sh->pid[s->me] = getpid();
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (s->is_net)
		net_open(s);
	meet(s);
}

static void side_run(struct side *s, const char *test, int rounds)
{
	static double value[PLACE_NUM][ROUND_MAX];
	bool is_lat = !strcmp(test, "lat");
	int cnt[PLACE_NUM] = {0};
	uint64_t ops = 64;

	for (int r = -2; r < rounds; r++) {
		enum place place;
		double ns;

		if (!s->me)
			atomic_store(&s->sh->ops, ops);
		place = probe(s);
		ns = turn(s, is_lat, atomic_load(&s->sh->ops));
		if (probe(s) == place && r >= 0)
			value[place][cnt[place]++] = is_lat ? ns / 2 : (s->is_rate ? 1 : (double)s->len) * 1e9 / ns;
		ops = ((uint64_t)(TURN_NS / ns) / 64 + 1) * 64;
	}
	for (int p = 0; !s->me && p < PLACE_NUM; p++) {
		qsort(value[p], (size_t)cnt[p], sizeof(double), place_double_cmp);
		if (cnt[p] && p != PLACE_BAD)
			printf("%s,%zu,0,%s,raw,%d,%.1f,1.0\n", test, s->len, place_name[p], cnt[p],
			       value[p][cnt[p] / 2]);
	}
}

int main(int argc, char **argv)
{
	struct side s = {.fd = -1};
	int cpu[2] = {0, 0}, rounds = argc == 6 ? atoi(argv[5]) : 0;
	cpu_set_t set;

	s.len = rounds ? strtoull(argv[3], NULL, 0) : 0;
	if (rounds < 1 || rounds > ROUND_MAX || !s.len || s.len > SIZE_MAX_ ||
	    sscanf(argv[4], "%d,%d", &cpu[0], &cpu[1]) != 2) {
		fprintf(stderr, "usage: raw_limit local|net lat|bw|rate SIZE CPU,CPU ROUNDS\n");
		return 2;
	}
	if (cpu[0] == cpu[1])
		return 0;
	s.is_net = !strcmp(argv[1], "net");
	s.is_rate = !strcmp(argv[2], "rate");
	s.sh = mmap(NULL, sizeof(*s.sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s.sh == MAP_FAILED)
		die("mmap");
	alarm(60);
	s.me = !fork();
	if (s.me)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	CPU_SET(cpu[s.me], &set);
	sched_setaffinity(0, sizeof(set), &set);
	side_open(&s);
	side_run(&s, argv[2], rounds);
	if (!s.me)
		wait(NULL);
	return 0;
}
