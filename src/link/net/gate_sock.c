// SPDX-License-Identifier: BSD-2-Clause
// The gate of a flooded port: its socket, when it opens and closes, and what datagrams have brought.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sock_diag.h>

#include "link/net/gate.h"
#include "link/core/link_int.h"
#include "link/net/rel_wire.h"
#include "link/net/seal.h"

#define NO_GATE	      UINT32_MAX
#define LOSSES_MIN    64u		/* between two looks: fewer are no flood */
#define LOSSES_GO_ON  8u		/* between two judgements: fewer do not keep the gate open */
#define GATE_BUF_LEN  (128 << 10)	/* the kernel doubles it: about 300 short datagrams */
#define PART	      10u		/* of the time goes to the gate, */
#define PART_IDLE     2u		/* or this, if nothing has come into the first socket for IDLE_NS */
#define IDLE_NS	      NS_PER_MS
#define NAP_NS	      NS_PER_MS		/* when it was found empty */
#define WAIT_NS	      (5 * NS_PER_MS)	/* at most, however long the last read was interrupted */
#define JUDGE_NS      (10 * NS_PER_MS)
#define CALM_NS	      NS_PER_SEC
#define LOOK_NS	      (20 * NS_PER_MS)	/* after a flood */

static uint32_t losses(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) ? 0 : info[SK_MEMINFO_DROPS];
}

/* --- the program ------------------------------------------------------------------------------ */

static bool attach(struct gate_sock *s, struct sock_filter *code, uint16_t len)
{
	struct sock_fprog prog = {.len = len, .filter = code};

	return !setsockopt(s->main_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog));
}

static bool attach_standing(struct gate_sock *s)
{
	struct sock_filter code[GATE_PROG_MAX];

	s->g.is_stale = !attach(s, code, gate_prog(&s->g, code));
	return !s->g.is_stale;
}

static bool attach_none(struct gate_sock *s)
{
	struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, GATE_MAIN);

	return attach(s, &code, 1);
}

/* --- opening ---------------------------------------------------------------------------------- */

static int bind_beside(struct gate_sock *s)
{
	struct sockaddr_in6 name;
	socklen_t len = sizeof(name);
	int one = 1, size = GATE_BUF_LEN;

	setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(s->fd, SOL_UDP, UDP_GRO, &one, sizeof(one));
	if (s->g.is_v4) {
		setsockopt(s->fd, SOL_IP, IP_RECVERR, &one, sizeof(one));
	} else {
		setsockopt(s->fd, SOL_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		setsockopt(s->fd, SOL_IPV6, IPV6_RECVERR, &one, sizeof(one));
	}
	if (setsockopt(s->main_fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) ||
	    setsockopt(s->fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) ||
	    getsockname(s->main_fd, (struct sockaddr *)&name, &len) || bind(s->fd, (struct sockaddr *)&name, len) ||
	    !attach_none(s)) /* only now: a group of one socket has no program */
		return -errno;
	return 0;
}

/* Once for a port: a forked child may have the socket as well, and would keep it in the group. */
static struct gate_sock *gate_new(struct link_port *p, int main_fd)
{
	struct gate_sock *s = mem_alloc(sizeof(*s));
	char text[LINK_ADDR_TEXT];
	int rc = -ENOMEM;

	if (!s)
		goto err;
	s->port = p;
	s->main_fd = main_fd;
	s->g.is_v4 = link_ip_is_v4(p->self.ip);
	s->g.word_at = p->node->room->is_sealed ? offsetof(struct seal_hdr, id) : offsetof(struct rel_base, nonce);
	link_secret(p->node, s->g.mul, sizeof(s->g.mul));
	for (uint32_t i = 0; i < ARRAY_SIZE(s->g.mul); i++)
		s->g.mul[i] |= 1;
	s->fd = socket(s->g.is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	rc = s->fd < 0 ? -errno : bind_beside(s);
	if (!rc)
		return s;
	if (s->fd >= 0)
		close(s->fd);
	mem_free(s);
err:
	LOG_WARN("%s is flooded, and the system has no second socket for it: %s", link_addr_text(&p->self, text),
		 strerror(-rc));
	return NULL;
}

/* @nonce is written the other way round than the kernel reads it. */
static uint32_t key_of(const struct gate *g, const struct link_addr *addr, uint32_t nonce)
{
	return gate_key(g, addr->ip, __builtin_bswap32(nonce));
}

static void known_add(void *arg, const struct link_addr *addr, uint32_t nonce)
{
	struct gate *g = arg;

	if (nonce)
		gate_known(g, key_of(g, addr, nonce));
}

static void gate_on(struct gate_sock *s, uint64_t now_ns)
{
	char text[LINK_ADDR_TEXT];

	gate_clear(&s->g); /* what was true of an earlier flood says little, and who stood then may hold all places */
	if (s->port->rel && !s->port->node->room->is_sealed)
		rel_known(s->port->rel, known_add, &s->g);
	if (!attach_standing(s))
		return;
	if (!s->port->stats.floods++)
		LOG_WARN("%s is flooded: who sends most in vain is heard less", link_addr_text(&s->port->self, text));
	s->is_on = true;
	s->drops = losses(s->fd);
	s->main_drops = losses(s->main_fd);
	s->judge_ns = s->lost_ns = s->next_ns = now_ns;
}

void gate_look(struct gate_sock **at, struct link_port *p, int fd, uint32_t *seen)
{
	uint32_t now, lost;

	if (*seen == NO_GATE)
		return;
	now = losses(fd);
	lost = now - *seen;
	*seen = now;
	if (*at) /* what the last flood has cost counts once */
		lost = MIN(lost, now - (*at)->main_drops);
	if (lost < LOSSES_MIN || (*at && (*at)->is_on))
		return;
	if (!*at)
		*at = gate_new(p, fd);
	if (*at)
		gate_on(*at, clk_now_ns(&p->node->clk));
	else
		*seen = NO_GATE; /* it has been said */
}

void gate_close(struct gate_sock *s)
{
	if (!s)
		return;
	close(s->fd); /* whom the program still sends there the kernel gives to the other one of the group */
	mem_free(s);
}

/* --- while it is open ------------------------------------------------------------------------- */

static void judge(struct gate_sock *s, uint64_t now_ns)
{
	uint32_t drops = losses(s->fd), main_drops = losses(s->main_fd);

	s->judge_ns = now_ns;
	if (drops - s->drops + main_drops - s->main_drops >= LOSSES_GO_ON)
		s->lost_ns = now_ns;
	s->port->stats.drop_gate += drops - s->drops;
	s->drops = drops;
	s->main_drops = main_drops;
	gate_judge(&s->g);
	/* no memory for the program: as before there was a gate, for who has lost his standing is heard by neither */
	if (now_ns - s->lost_ns >= CALM_NS || (s->g.is_stale && !attach_standing(s)))
		s->is_on = !attach_none(s);
}

bool gate_is_due(struct gate_sock *s, uint64_t *now_ns)
{
	*now_ns = clk_now_ns(&s->port->node->clk);
	if (*now_ns < s->next_ns)
		return false;
	if (!s->is_on)
		s->next_ns = *now_ns + LOOK_NS;
	return true;
}

void gate_polled(struct gate_sock *s, uint64_t begin_ns, int cnt)
{
	uint64_t now_ns = clk_now_ns(&s->port->node->clk), spent = now_ns - begin_ns;
	uint64_t part;

	if (s->is_busy)
		s->busy_ns = now_ns;
	s->is_busy = false;
	part = now_ns - s->busy_ns < IDLE_NS ? PART : PART_IDLE;

	if (now_ns - s->judge_ns >= JUDGE_NS)
		judge(s, now_ns);
	s->next_ns = now_ns + (cnt ? MIN((part - 1) * spent, WAIT_NS) : NAP_NS);
}

/* What the link itself does not take, or its owner's regions do not. */
static uint64_t drops_of(const struct gate_sock *s)
{
	const struct link_stats *st = &s->port->stats;

	return st->drop_foreign + st->drop_malformed + st->drop_nonce + st->drop_source + st->drop_version +
	       st->drop_full + st->late_byes - s->unsent;
}

static uint32_t progress(const struct gate_sock *s, const struct link_addr *src)
{
	return s->port->rel ? rel_progress(s->port->rel, src) : 0;
}

/* The pair that a handshake has made since it was last asked; 0: none, or what is sealed names its sender. */
static uint32_t met_now(struct gate_sock *s)
{
	uint32_t met = s->port->rel ? rel_met(s->port->rel) : 0;

	return s->port->node->room->is_sealed ? 0 : met;
}

bool gate_mark(struct gate_sock *s, int fd, const struct link_addr *src, const uint8_t *buf, uint32_t len,
	       struct gate_mark *m)
{
	be32_t word;

	*m = (struct gate_mark){.drops = drops_of(s)};
	if (len >= s->g.word_at + sizeof(word)) {
		memcpy(&word, buf + s->g.word_at, sizeof(word));
		m->key = gate_key(&s->g, src->ip, be32_get(word));
	}
	if (fd == s->main_fd && (!m->key || !gate_stands(&s->g, m->key))) {
		s->port->stats.drop_gate++;
		return false;
	}
	s->is_busy |= fd == s->main_fd;
	m->progress = progress(s, src);
	(void)met_now(s); /* of before */
	return true;
}

void gate_done(struct gate_sock *s, const struct link_addr *src, const struct gate_mark *m)
{
	bool is_raw = s->port->cls == LINK_RAW, is_news = drops_of(s) == m->drops;
	uint32_t now = progress(s, src), met = met_now(s), key = m->key;

	if (met) /* a handshake names no pair: what counts is that of which it was the last step */
		key = key_of(&s->g, src, met);
	if (key)
		gate_note(&s->g, key, is_news && (is_raw ? now != 0 : now != m->progress));
}
