// SPDX-License-Identifier: BSD-2-Clause
// An honest pair beside attackers at full speed: frames and reads per second of the honest one, when its first frame
// got through, its longest gap between two polls, and growth of memory; alone, beside attackers that send to a closed
// port (what CPU time they take), and beset. One line each, and the share of the rate that is left.
// Usage: beset [attackers [milliseconds [datagrams/s of each]]]. Hosts are addresses of a network namespace of its own;
// who may not make one is told so (77).
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link/bulk/bulk_wire.h"
#include "link/net/rel_int.h"

enum { PAIRS = 64, WINDOW = 32, READ_LEN = 16384, SEG_LEN = 1000 };
enum kind { WRONG_KEYS, UNFINISHED, EARLY, HELLOS, KINDS };
static const char *const kind_name[KINDS] = {"wrong keys", "unfinished frames", "early datagrams", "HELLOs"};

/* --- attackers -------------------------------------------------------------------------------- */

/* One of the peers that an attacker makes. */
struct pair {
	int fd;
	uint64_t half, nonce; /* 0: there is none yet */
	uint32_t una, tx;
	uint64_t said_ns;
};

static void emit(int fd, const struct rel_pkt *pkt, const void *body, size_t len)
{
	uint8_t buf[sizeof(struct rel_base) + sizeof(struct rel_hello) + 1200];
	size_t at = sizeof(struct rel_base);

	rel_base_encode(pkt, (struct rel_base *)buf);
	if (pkt->type == REL_HELLO) {
		rel_hello_encode(pkt, (struct rel_hello *)(buf + at));
		at += sizeof(struct rel_hello);
	}
	if (len)
		memcpy(buf + at, body, len);
	(void)!send(fd, buf, at + len, MSG_DONTWAIT);
}

static void hello(const struct pair *p, uint64_t half, uint64_t echo)
{
	struct rel_pkt pkt = {.type = REL_HELLO,
			      .hello = {.half = half, .echo_half = echo, .serial = 1, .cls = LINK_ORDERED}};

	pkt.hello.src_nonce = (uint32_t)half | 1;
	emit(p->fd, &pkt, NULL, 0);
}

/* What it was told: its pair, how much has arrived, or that this is over. */
static void listen_to(struct pair *p, enum kind kind)
{
	uint8_t buf[2048];
	struct rel_pkt got;
	ssize_t len;

	while ((len = recv(p->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		if (rel_pkt_check(buf, (size_t)len, &got) != REL_OK || kind == HELLOS)
			continue;
		if (got.type == REL_HELLO_ACK && got.hello.echo_half == p->half && !p->nonce) {
			hello(p, p->half, got.hello.half);
			p->nonce = p->half + got.hello.half;
			p->una = REL_SEQ_FIRST;
		} else if (got.type == REL_REFUSE || got.type == REL_BYE) {
			p->nonce = 0;
			p->half++;
		} else if (got.nonce == p->nonce) {
			p->una = got.ack;
		}
	}
}

static void say(struct pair *p, enum kind kind, uint32_t n)
{
	struct rel_pkt pkt = {.type = REL_DATA, .nonce = p->nonce, .ack = REL_SEQ_FIRST, .credit_kib = 64};
	struct bulk_pkt get = {.type = BULK_T_GET, .id = n, .tag = n, .key = 1, .addr = 4096, .len = 64};
	struct {
		struct rel_rec rec;
		union {
			struct rel_seg seg;
			uint8_t get[BULK_HDR_MAX];
			uint8_t data[sizeof(struct rel_seg) + SEG_LEN];
		};
	} d = {0};
	size_t len = SEG_LEN;

	pkt.tx = (uint16_t)p->tx++;
	pkt.seq = p->una + n + (kind == EARLY);
	d.rec = (struct rel_rec){le32_put(pkt.seq), le16_put(SEG_LEN), LINK_K_BULK, 0};
	if (kind == UNFINISHED) {
		d.rec.flags = REL_REC_SEG;
		d.seg = (struct rel_seg){0, 1 + (LINK_FRAME_MAX - 1) / SEG_LEN, le16_put(LINK_FRAME_MAX)};
		len += sizeof(struct rel_seg);
	} else if (kind == WRONG_KEYS) {
		len = bulk_pkt_encode(&get, d.get);
		d.rec.len = le16_put((uint16_t)len);
	}
	emit(p->fd, &pkt, &d, sizeof(struct rel_rec) + len);
}

/* Until @sent datagrams since @begin are not too many. */
static void pace(uint64_t begin, uint64_t sent, uint32_t rate)
{
	while (rate && (clk_now_ns(NULL) - begin) / NS_PER_US * rate / 1000000 < sent)
		usleep(200);
}

static void attack(uint32_t host, enum kind kind, const struct link_addr *to, uint32_t rate)
{
	uint64_t begin = clk_now_ns(NULL), sent = 0;
	static struct pair pairs[PAIRS];
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a010001u + (host << 8))}};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(to->port)};

	memcpy(&at.sin_addr, to->ip + 12, 4);
	for (uint32_t i = 0; i < PAIRS; i++) {
		pairs[i] = (struct pair){.fd = socket(AF_INET, SOCK_DGRAM, 0), .half = (rng_entropy() | 1) >> 1};
		if (bind(pairs[i].fd, (struct sockaddr *)&from, sizeof(from)) ||
		    connect(pairs[i].fd, (struct sockaddr *)&at, sizeof(at)))
			_exit(1);
	}
	for (uint32_t i = 0;; i++) {
		struct pair *p = &pairs[i % PAIRS];
		uint64_t now = clk_now_ns(NULL);

		pace(begin, sent, rate);
		sent += p->nonce || kind == HELLOS || !to->nonce ? WINDOW : 1;
		listen_to(p, kind);
		for (uint32_t n = 0; n < WINDOW && p->nonce; n++)
			say(p, kind, n);
		for (uint32_t n = 0; n < WINDOW && kind == HELLOS; n++)
			hello(p, p->half++, 0);
		if (!p->nonce && kind != HELLOS && now - p->said_ns > NS_PER_MS) {
			hello(p, p->half, 0);
			p->said_ns = now;
		}
		for (uint32_t n = 0; n < WINDOW && !to->nonce; n++) /* closed: as much work for nothing */
			say(p, kind, n);
	}
}

/* --- the honest pair ---------------------------------------------------------------------------- */

struct side {
	struct lock lock;
	struct link_node *node;
	struct link_port *port;
	struct link_peer *peer;
	uint32_t key;
	uint64_t frames, reads, failed, out, reading, gap_ns, last_ns, polls, poll_ns, first_ns, cpu_ns;
	uint8_t mem[READ_LEN];
};

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	(void)ctx, (void)peer, (void)frame, (void)len;
	return 0;
}

static void on_sent(void *ctx, void *cookie, int status)
{
	struct side *s = ctx;

	(void)cookie;
	s->out--;
	if (!s->first_ns)
		s->first_ns = clk_now_ns(NULL);
	s->frames += !status;
	s->failed += status != 0;
}

static void on_bulk(void *ctx, void *cookie, int status)
{
	struct side *s = ctx;

	(void)cookie;
	s->reading--;
	s->reads += !status;
	s->failed += status != 0;
}

static const struct link_ops ops = {.on_frame = on_frame, .on_sent = on_sent, .on_bulk = on_bulk};
static struct link_room room;

static int side_open(struct side *s, uint8_t host)
{
	struct link_port_attr pa = {.nonce = (uint32_t)rng_entropy() | 1, .cls = LINK_ORDERED, .ops = &ops, .ctx = s};
	struct link_node_attr na = {.lock = &s->lock, .room = &room};
	int rc = link_node_open(&na, &s->node);

	if (rc)
		return rc;
	pa.node = s->node;
	pa.by_place = pa.no_shm = true;
	memcpy(pa.ip, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, host, 1}, 16);
	lock_acquire(&s->lock);
	rc = link_port_open(&pa, &s->port);
	if (!rc)
		rc = link_region_add(s->node, s->mem, READ_LEN, LINK_GET, &s->key);
	lock_release(&s->lock);
	return rc;
}

static void side_poll(struct side *s)
{
	uint64_t now = clk_now_ns(NULL);

	if (s->last_ns)
		s->gap_ns = MAX(s->gap_ns, now - s->last_ns);
	s->last_ns = now;
	lock_acquire(&s->lock);
	now = clk_now_ns(NULL);
	link_poll(s->port);
	s->poll_ns = MAX(s->poll_ns, clk_now_ns(NULL) - now);
	s->polls++;
	lock_release(&s->lock);
}

static void side_close(struct side *s)
{
	lock_acquire(&s->lock);
	if (s->peer)
		link_peer_put(s->peer);
	link_port_close(s->port);
	link_region_del(s->node, s->key);
	lock_release(&s->lock);
	link_node_close(s->node);
}

/* Four frames and one read are always under way from @c to @v. */
static void work(struct side *c, struct side *v)
{
	static uint8_t into[READ_LEN];

	lock_acquire(&c->lock);
	while (c->out < 4 && !link_send(c->port, c->peer, "honest words", 12, NULL, 0, c))
		c->out++;
	if (!c->reading && !link_bulk(c->port, c->peer, LINK_GET, into, READ_LEN, (uintptr_t)v->mem, v->key, into))
		c->reading++;
	link_doorbell(c->port);
	lock_release(&c->lock);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static uint64_t rss_kib(void)
{
	unsigned long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%lu %lu", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

enum mode { ALONE, CLOSED, BESET, MODES };
static const char *const mode_name[MODES] = {"alone", "closed", "beset"};

/* @rate: out, frames and reads per second. Return: 0; 1 something honest has failed, or it could not begin. */
static int run(enum mode mode, uint32_t cnt, uint32_t ms, uint32_t pps, double rate[2])
{
	static struct side v, c;
	struct link_addr to;
	pid_t pid[64], parent = getpid();
	uint64_t begin, end, rss;
	struct rel *rel;

	memset(&v, 0, sizeof(v));
	memset(&c, 0, sizeof(c));
	if (side_open(&v, 0) || side_open(&c, 1))
		return 1;
	lock_acquire(&c.lock);
	if (link_peer_get(c.port, link_port_addr(v.port), &c.peer))
		return 1;
	lock_release(&c.lock);
	to = *link_port_addr(v.port);
	if (mode == CLOSED) {
		to.port = 9;
		to.nonce = 0;
	}
	for (uint32_t i = 0; mode != ALONE && i < cnt; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() == parent)
				attack(i, (enum kind)(i % KINDS), &to, pps);
			_exit(1);
		}
	}
	rss = rss_kib();
	c.cpu_ns = cpu_ns();
	begin = clk_now_ns(NULL);
	for (end = begin + ms * NS_PER_MS; clk_now_ns(NULL) < end;) {
		work(&c, &v);
		side_poll(&v);
		side_poll(&c);
	}
	end = clk_now_ns(NULL);
	c.cpu_ns = cpu_ns() - c.cpu_ns;
	rate[0] = (double)c.frames * 1e9 / (double)(end - begin);
	rate[1] = (double)c.reads * 1e9 / (double)(end - begin);
	rel = v.port->rel;
	printf("beset,%s,attackers,%u,frames/s,%.0f,reads/s,%.0f,failed,%llu,polls,%llu,poll_us,%llu,gap_us,%llu,",
	       mode_name[mode], mode == ALONE ? 0 : cnt, rate[0], rate[1], (unsigned long long)c.failed,
	       (unsigned long long)v.polls, (unsigned long long)(v.poll_ns / NS_PER_US),
	       (unsigned long long)(v.gap_ns / NS_PER_US));
	printf("first_us,%llu,cpu_us,%llu,floods,%llu,cut,%llu,",
	       (unsigned long long)(c.first_ns ? (c.first_ns - begin) / NS_PER_US : 0),
	       (unsigned long long)(c.cpu_ns / NS_PER_US), (unsigned long long)v.port->stats.floods,
	       (unsigned long long)v.port->stats.drop_gate);
	printf("grown_kib,%lld,peers,%u,half,%u,asms,%u,early_kib,%llu,refused,%llu\n",
	       (long long)rss_kib() - (long long)rss, rel->peer_cnt, rel->half_cnt, slab_used(&rel->asms),
	       (unsigned long long)rel->quota.pool[REL_Q_STASH] / 1024,
	       (unsigned long long)v.port->stats.drop_full);
	fflush(stdout);
	for (uint32_t i = 0; mode != ALONE && i < cnt; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	side_close(&c);
	side_close(&v);
	return c.failed != 0;
}

int main(int argc, char **argv)
{
	uint32_t cnt = argc > 1 ? MIN((uint32_t)atoi(argv[1]), 64u) : 10;
	uint32_t ms = argc > 2 ? (uint32_t)atoi(argv[2]) : 3000,
		 pps = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
	double rate[MODES][2];
	int failed = 0;

	if ((unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) ||
	    system("ip link set lo up && ip route add local 10.0.0.0/8 dev lo")) {
		fprintf(stderr, "no network namespace to be had: %s\n", strerror(errno));
		return 77;
	}
	if (link_room_parse("udp", &room, NULL, 0))
		return 1;
	for (uint32_t i = 0; i < KINDS; i++)
		fprintf(stderr, "%u of %s\n", (cnt + KINDS - 1 - i) / KINDS, kind_name[i]);
	for (enum mode m = ALONE; m < MODES; m++)
		failed |= run(m, cnt, ms, pps, rate[m]);
	printf("beset,left,%u,of alone,%.2f,%.2f,of closed,%.2f,%.2f\n", pps, rate[BESET][0] / rate[ALONE][0],
	       rate[BESET][1] / rate[ALONE][1],
	       rate[BESET][0] / rate[CLOSED][0], rate[BESET][1] / rate[CLOSED][1]);
	return failed;
}
