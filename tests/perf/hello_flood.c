// SPDX-License-Identifier: BSD-2-Clause
// A port under a flood of HELLOs from strangers that know its nonce and hear its answers: longest gap between two
// polls, a newcomer's time to connect, state, time to close; one line. Usage: hello_flood [packets/s [milliseconds
// [check]]]; check: judge what does not depend on speed.
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/net/rel_int.h"

enum { SOCKS = 64, CONNECTS_MAX = 4096 };

struct side {
	struct lock lock;
	struct link_node *node;
	struct link_port *port;
};

struct newcomer {
	struct side l;
	int status;
	bool has_ended;
};

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	(void)ctx, (void)peer, (void)frame, (void)len;
	return 0;
}

static void on_sent(void *ctx, void *cookie, int status)
{
	struct newcomer *n = ctx;

	(void)cookie;
	n->status = status;
	n->has_ended = true;
}

static const struct link_ops ops = {.on_frame = on_frame, .on_sent = on_sent};

static struct link_room room;

static int side_open(struct side *s, void *ctx)
{
	struct link_port_attr pa = {.nonce = (uint32_t)rng_entropy() | 1, .cls = LINK_RELIABLE, .no_shm = true,
				    .ops = &ops, .ctx = ctx};
	struct link_node_attr na = {.lock = &s->lock, .room = &room};
	int rc;

	memset(s, 0, sizeof(*s));
	rc = link_node_open(&na, &s->node);
	if (rc)
		return rc;
	pa.node = s->node;
	lock_acquire(&s->lock);
	rc = link_room_ip(&room, 0, pa.ip, NULL, 0);
	if (!rc)
		rc = link_port_open(&pa, &s->port);
	lock_release(&s->lock);
	return rc;
}

static void side_poll(struct side *s)
{
	lock_acquire(&s->lock);
	link_poll(s->port);
	lock_release(&s->lock);
}

static void side_close(struct side *s)
{
	lock_acquire(&s->lock);
	link_port_close(s->port);
	lock_release(&s->lock);
	link_node_close(s->node);
}

/* --- strangers ---------------------------------------------------------------------------------- */

static int stranger_open(uint32_t i, const struct link_addr *victim)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000100u + i)}};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(victim->port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), len = 1 << 18;

	memcpy(&to.sin_addr, victim->ip + 12, 4);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof(len));
	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		_exit(1);
	return fd;
}

static void hello(int fd, const struct rel_pkt *pkt)
{
	uint8_t buf[sizeof(struct rel_base) + sizeof(struct rel_hello)];

	rel_base_encode(pkt, (struct rel_base *)buf);
	rel_hello_encode(pkt, (struct rel_hello *)(buf + sizeof(struct rel_base)));
	if (send(fd, buf, sizeof(buf), 0) < 0 && errno == ECONNREFUSED)
		_exit(0); /* it has closed */
}

/* One HELLO as from somebody new; and what was answered is said back, which makes a pair that never says anything. */
static void stranger_speak(int fd, uint32_t i, const struct link_addr *victim)
{
	struct rel_pkt pkt = {.type = REL_HELLO,
			      .hello = {.half = i,
					.src_nonce = i % 9973 + 1,
					.dst_nonce = victim->nonce,
					.serial = 1,
					.cls = LINK_RELIABLE}};
	uint8_t buf[256];
	struct rel_pkt got;
	ssize_t len;

	hello(fd, &pkt);
	while ((len = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (rel_pkt_check(buf, (size_t)len, &got) != REL_OK || got.type != REL_HELLO_ACK)
			continue;
		pkt.hello.half = got.hello.echo_half;
		pkt.hello.src_nonce = (uint32_t)(got.hello.echo_half % 9973 + 1);
		pkt.hello.echo_half = got.hello.half;
		hello(fd, &pkt);
	}
}

static pid_t strangers_start(uint32_t rate, const struct link_addr *victim)
{
	pid_t parent = getpid(), pid = fork();
	uint64_t begin = clk_now_ns(NULL);
	int fd[SOCKS];

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (uint32_t i = 0; i < SOCKS; i++)
		fd[i] = stranger_open(i, victim);
	for (uint32_t i = 0;;) {
		uint64_t due = (clk_now_ns(NULL) - begin) / NS_PER_US * rate / 1000000;

		for (; i < due; i++)
			stranger_speak(fd[i % SOCKS], i, victim);
		usleep(200);
	}
}

/* --- the victim and who wants to talk to it -------------------------------------------------------- */

struct result {
	uint64_t gap_ns, close_ns, connect_ns[CONNECTS_MAX];
	uint32_t connects, failed, peers_max, half_max;
};

static void victim_poll(struct side *v, struct result *r, uint64_t *last)
{
	struct rel *rel = v->port->rel;
	uint64_t now;

	side_poll(v);
	now = clk_now_ns(NULL);
	r->gap_ns = MAX(r->gap_ns, now - *last);
	*last = now;
	lock_acquire(&v->lock);
	r->peers_max = MAX(r->peers_max, rel->peer_cnt);
	r->half_max = MAX(r->half_max, rel->half_cnt);
	lock_release(&v->lock);
}

/* A port that opens, sends one frame, and closes. */
static void connect_once(struct side *v, struct result *r)
{
	struct newcomer n = {0};
	struct link_peer *peer;
	uint64_t begin, last;

	if (side_open(&n.l, &n))
		return;
	begin = last = clk_now_ns(NULL);
	lock_acquire(&n.l.lock);
	if (!link_peer_get(n.l.port, &v->port->self, &peer) && !link_send(n.l.port, peer, "hello", 5, NULL, 0, &n))
		link_doorbell(n.l.port);
	lock_release(&n.l.lock);
	while (!n.has_ended && clk_now_ns(NULL) - begin < 20 * NS_PER_SEC) {
		victim_poll(v, r, &last);
		side_poll(&n.l);
	}
	r->failed += !n.has_ended || n.status;
	r->connect_ns[r->connects++] = clk_now_ns(NULL) - begin;
	side_close(&n.l); /* polls by itself, which the gap does not count */
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv)
{
	uint32_t rate = argc > 1 ? (uint32_t)atoi(argv[1]) : 10000, ms = argc > 2 ? (uint32_t)atoi(argv[2]) : 3000;
	bool is_check = argc > 3 && !strcmp(argv[3], "check");
	static struct result r;
	struct side v;
	uint64_t end, last;
	pid_t pid;

	if (link_room_parse("udp", &room, NULL, 0) || side_open(&v, NULL))
		return 1;
	pid = strangers_start(rate, &v.port->self);
	end = clk_now_ns(NULL) + ms * NS_PER_MS;
	while (clk_now_ns(NULL) < end && r.connects < CONNECTS_MAX) {
		uint64_t next = clk_now_ns(NULL) + 10 * NS_PER_MS;

		for (last = clk_now_ns(NULL); last < next;)
			victim_poll(&v, &r, &last);
		connect_once(&v, &r);
	}
	last = clk_now_ns(NULL);
	side_close(&v);
	r.close_ns = clk_now_ns(NULL) - last;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	qsort(r.connect_ns, r.connects, sizeof(*r.connect_ns), by_size);
	printf("%u,gap_us,%llu,connect_us,%llu,connect_max_us,%llu,connects,%u,"
	       "failed,%u,peers,%u,half,%u,close_ms,%llu\n",
	       rate, (unsigned long long)(r.gap_ns / NS_PER_US),
	       (unsigned long long)(r.connects ? r.connect_ns[r.connects / 2] / NS_PER_US : 0),
	       (unsigned long long)(r.connects ? r.connect_ns[r.connects - 1] / NS_PER_US : 0), r.connects, r.failed,
	       r.peers_max, r.half_max, (unsigned long long)(r.close_ns / NS_PER_MS));
	if (!is_check)
		return 0;
	/* what they may keep here is bounded, everybody else gets in, and nobody is waited for */
	return r.failed || !r.connects || r.half_max > REL_HALF_MAX ||
	       r.peers_max > SOCKS * REL_PLACE_MAX + r.connects || r.close_ns > 5 * NS_PER_SEC;
}
