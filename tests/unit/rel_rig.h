// SPDX-License-Identifier: BSD-2-Clause
// Test rig: reliability modules of several ports over the simulated network, with a checking owner
// in place of port.c.
#ifndef SF_TESTS_UNIT_REL_RIG_H
#define SF_TESTS_UNIT_REL_RIG_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "link/core/link_int.h"
#include "link/net/rel_int.h"
#include "sim.h"

#define RIG_MAX 8

struct rig_node {
	struct rig *rig;
	struct link_room room;
	struct link_node node;
	struct link_port port;
	struct link_peer *peers; /* list by hnext */
	uint32_t idx;
	uint64_t paused_until;	 /* not scheduled before */
	bool is_closed;
	uint32_t delivered, ok, nak, err, peers_dead, byes, unused;
	int last_status;
	uint32_t peer_max; /* of these, above which none comes by itself; 0 = any number */
};

/* One frame of the checking owner: tracked until both ends have reported. */
struct rig_frame {
	uint32_t id, len, order;
	uint32_t src, dst;
	int nak; /* code the receiver refuses it with, 0 = takes it */
	uint32_t delivered;
	bool ended;
	int status;
	bool is_silent;
	uint8_t *mem; /* payload, until on_sent; all of a silent one, until the end */
};

struct rig {
	struct sim *sim;
	struct rng rng;
	struct rig_node n[RIG_MAX];
	uint32_t cnt;
	enum link_class cls;
	struct rig_frame **frame; /* [frame_cnt], by id */
	uint32_t frame_cnt, frame_cap, ended;
	uint32_t order_tx[RIG_MAX][RIG_MAX], order_rx[RIG_MAX][RIG_MAX];
	uint32_t nak_percent;
	bool is_lenient; /* peers lie: contents and statuses mean nothing */
	bool is_silent;	 /* small frames are told of only if they fail */
	void (*on_frame)(struct rig_node *n, struct link_peer *peer); /* may be NULL */
	void (*on_sent)(struct rig_node *n, struct rig_frame *f);     /* may be NULL */
};

/* First bytes of every frame. */
struct rig_hdr {
	uint32_t id, len, order, src;
};

static uint8_t rig_byte(uint32_t id, uint32_t i)
{
	return (uint8_t)((id * 2654435761u + i * 40503u) >> 13);
}

static uint64_t rig_now(const struct rig *g)
{
	return *sim_clock(g->sim);
}

static struct rig_node *rig_of(struct link_port *p)
{
	return container_of(p, struct rig_node, port);
}

/* --- what port.c would do --------------------------------------------------------------------- */

static struct link_peer *rig_peer_at(struct rig_node *n, const struct link_addr *addr)
{
	struct link_peer *peer = n->peers;

	while (peer && memcmp(&peer->addr, addr, sizeof(*addr)))
		peer = peer->hnext;
	if (peer)
		return peer;
	peer = calloc(1, sizeof(*peer)); /* not mem_alloc(): tests that let allocations fail mean
					    the module's */
	peer->port = &n->port;
	peer->addr = *addr;
	peer->hnext = n->peers;
	n->peers = peer;
	return peer;
}

struct link_peer *port_peer_in(struct link_port *p, const struct link_addr *addr)
{
	struct rig_node *n = rig_of(p);
	struct link_addr a = *addr;
	uint32_t cnt = 0;

	if (p->by_place)
		a.nonce = 0;
	for (const struct link_peer *peer = n->peers; peer && n->peer_max; peer = peer->hnext)
		cnt += memcmp(&peer->addr, &a, sizeof(a)) != 0;
	return n->peer_max && cnt >= n->peer_max ? NULL : rig_peer_at(n, &a);
}

int port_peer_status(struct link_port *p, const struct link_addr *addr)
{
	struct link_peer *peer = rig_of(p)->peers;

	while (peer && memcmp(&peer->addr, addr, sizeof(*addr)))
		peer = peer->hnext;
	return peer ? peer->dead : 0;
}

void port_peer_unused(struct link_peer *peer)
{
	struct rig_node *n = rig_of(peer->port);
	struct link_peer **at = &n->peers;

	if (peer->refs || peer->rel)
		return;
	n->unused++;
	while (*at != peer)
		at = &(*at)->hnext;
	*at = peer->hnext;
	free(peer);
}

const char *link_addr_text(const struct link_addr *a, char out[LINK_ADDR_TEXT])
{
	snprintf(out, LINK_ADDR_TEXT, "port %u", a->port);
	return out;
}

void port_met_by_net(struct link_peer *peer)
{
	(void)peer; /* there is one path only */
}

bool link_forked(const struct link_node *n)
{
	(void)n;
	return false;
}

static int rig_deliver(struct link_port *p, struct link_peer *peer, enum link_kind kind,
		       const uint8_t *frame, uint32_t len)
{
	struct rig_node *n = rig_of(p);
	struct rig *g = n->rig;
	uint8_t buf[LINK_FRAME_MAX];
	struct rig_frame *f;
	struct rig_hdr h;

	assert_true(kind == LINK_K_NIC || kind == LINK_K_BULK);
	assert_true(len <= LINK_FRAME_MAX);
	memcpy(buf, frame, len); /* a sanitizer looks whether it may be read */
	if (g->is_lenient) {
		n->delivered++;
		return (int)rng_below(&g->rng, 2);
	}
	assert_true(len >= sizeof(h));
	memcpy(&h, buf, sizeof(h));
	assert_true(h.id < g->frame_cnt);
	f = g->frame[h.id];
	assert_int_equal(f->dst, n->idx);
	assert_int_equal(f->len, len);
	assert_int_equal(f->id % 3 ? LINK_K_NIC : LINK_K_BULK, kind);
	assert_int_equal(peer->addr.port, g->n[f->src].port.self.port);
	for (uint32_t i = sizeof(h); i < len; i++)
		assert_int_equal(buf[i], rig_byte(h.id, i));
	f->delivered++;
	n->delivered++;
	if (f->is_silent && !f->nak && !f->ended) { /* nobody says so */
		f->ended = true;
		g->ended++;
		g->n[f->src].ok++;
	}
	if (g->cls != LINK_RAW)
		assert_int_equal(f->delivered, 1);
	/* whoever gave up on a frame may still see it arrive, but nobody may be told that it went
	 * well before */
	assert_false(f->ended && f->status >= 0 && g->cls != LINK_RAW && !f->is_silent);
	if (g->cls == LINK_ORDERED)
		assert_int_equal(f->order, g->order_rx[f->src][f->dst]++);
	if (g->on_frame)
		g->on_frame(n, peer);
	return f->nak;
}

static void rig_sent(struct link_port *p, enum link_kind kind, void *cookie, int status)
{
	struct rig_node *n = rig_of(p);
	struct rig_frame *f = cookie;

	assert_int_equal(f->id % 3 ? LINK_K_NIC : LINK_K_BULK, kind);
	assert_int_equal(f->src, n->idx);
	assert_false(f->ended);
	f->ended = true;
	f->status = status;
	n->rig->ended++;
	n->last_status = status;
	n->ok += !status;
	n->nak += status > 0;
	n->err += status < 0;
	if (status >= 0 && !n->rig->is_lenient) {
		assert_int_equal(f->delivered, 1);
		assert_int_equal(status, f->nak);
	}
	/* nobody may read it any more */
	memset(f->mem, 0xdd, f->len);
	free(f->mem);
	f->mem = NULL;
	if (n->rig->on_sent)
		n->rig->on_sent(n, f);
}

static void rig_lost(struct link_port *p, struct link_peer *peer, uint64_t tag, const void *frame, size_t len,
		      int status)
{
	struct rig_node *n = rig_of(p);
	struct rig_frame *f;

	if (n->rig->is_lenient)
		return;
	f = n->rig->frame[tag];
	assert_true(f->is_silent && f->src == n->idx && f->len == len && status);
	assert_int_equal(peer->addr.port, n->rig->n[f->dst].port.self.port);
	assert_memory_equal(frame, f->mem, len);
	if (f->ended) { /* it had arrived, which cannot be known any more */
		assert_true(status < 0 && !f->nak);
		return;
	}
	f->ended = true;
	f->status = status;
	n->rig->ended++;
	n->nak += status > 0;
	n->err += status < 0;
	if (status > 0)
		assert_int_equal(status, f->nak);
}

static void rig_dead(struct link_peer *peer, int status)
{
	assert_int_equal(peer->dead, 0);
	peer->dead = (int16_t)status;
	rig_of(peer->port)->peers_dead++;
	rig_of(peer->port)->byes += peer->said_bye;
	rel_peer_drop(peer->port->rel, peer, status);
	if (!peer->addr.nonce)
		peer->dead = 0;
}

static int rig_on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	(void)ctx;
	return rig_deliver(peer->port, peer, LINK_K_NIC, frame, len);
}

static const struct port_up rig_up = {
	.other = rig_deliver,
	.sent = rig_sent,
	.lost = rig_lost,
	.dead = rig_dead,
};

/* --- the rig ---------------------------------------------------------------------------------- */

static void rig_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	struct rig_node *n = ctx;

	rel_input(n->port.rel, src, buf, len, rig_now(n->rig));
}

static void rig_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	struct rig_node *n = ctx;

	rel_error(n->port.rel, dst, e, rig_now(n->rig));
}

static const struct link_ops rig_ops = {.on_frame = rig_on_frame};

static void rig_node_open(struct rig *g, uint32_t i, uint16_t udp_port,
			  const struct link_room *room)
{
	struct rig_node *n = &g->n[i];
	struct carrier *c;

	*n = (struct rig_node){.rig = g, .idx = i, .room = *room};
	n->node.room = &n->room;
	n->node.clk.virt_ns = sim_clock(g->sim);
	rng_seed(&n->node.rng, rng_u64(&g->rng));
	n->port.node = &n->node;
	n->port.cls = g->cls;
	n->port.up = &rig_up;
	n->port.ops = &rig_ops;
	n->port.self.ip[15] = 1;
	n->port.self.port = udp_port;
	n->port.self.nonce = (uint32_t)rng_u64(&g->rng) | 1;
	n->port.opened_ns = rig_now(g);
	assert_int_equal(sim_open(&n->port, g->sim, &c), 0);
	if (room->has_faults)
		assert_int_equal(fault_open(&n->port, c, &c), 0);
	c->rx = rig_rx;
	c->rx_ctx = n;
	c->error = rig_error;
	n->port.net = c;
	assert_int_equal(rel_open(&n->port, c, &n->port.rel), 0);
}

/* The room of tests: nothing wrong in it, peers die after two seconds. */
static const struct link_room rig_room = {.dead_after_ns = 2 * NS_PER_SEC, .linger_ns = NS_PER_SEC};

static void rig_open(struct rig *g, uint32_t cnt, enum link_class cls, const struct sim_attr *attr,
		     const struct link_room *room)
{
	*g = (struct rig){.cnt = cnt, .cls = cls};
	rng_seed(&g->rng, attr->seed);
	assert_int_equal(sim_world_open(attr, &g->sim), 0);
	for (uint32_t i = 0; i < cnt; i++)
		rig_node_open(g, i, 0, room ? room : &rig_room);
}

static void rig_node_fini(struct rig_node *n)
{
	struct link_peer *peer;

	rel_close(n->port.rel);
	n->port.net->ops->close(n->port.net);
	while ((peer = n->peers)) {
		assert_null(peer->rel);
		n->peers = peer->hnext;
		free(peer);
	}
	n->is_closed = true;
}

static void rig_close(struct rig *g)
{
	for (uint32_t i = 0; i < g->cnt; i++) {
		if (!g->n[i].is_closed)
			rig_node_fini(&g->n[i]);
	}
	assert_int_equal(g->ended, g->frame_cnt);
	for (uint32_t i = 0; i < g->frame_cnt; i++) {
		free(g->frame[i]->mem);
		free(g->frame[i]);
	}
	free(g->frame);
	sim_world_close(g->sim);
}

static struct link_peer *rig_peer(struct rig *g, uint32_t from, uint32_t to)
{
	return rig_peer_at(&g->n[from], &g->n[to].port.self);
}

static struct rig_frame *rig_frame_new(struct rig *g, uint32_t from, uint32_t to, uint32_t len)
{
	struct rig_frame *f = calloc(1, sizeof(*f));

	if (g->frame_cnt == g->frame_cap) {
		g->frame_cap = g->frame_cap ? 2 * g->frame_cap : 64;
		g->frame = realloc(g->frame, g->frame_cap * sizeof(*g->frame));
	}
	g->frame[g->frame_cnt] = f;
	*f = (struct rig_frame){
		.id = g->frame_cnt++,
		.len = len,
		.order = g->order_tx[from][to],
		.src = from,
		.dst = to,
		.mem = malloc(len),
	};
	if (rng_below(&g->rng, 100) < g->nak_percent)
		f->nak = 1 + (int)rng_below(&g->rng, LINK_NAK_MAX);
	for (uint32_t i = 0; i < len; i++)
		f->mem[i] = rig_byte(f->id, i);
	memcpy(f->mem, &(struct rig_hdr){f->id, len, f->order, from}, sizeof(struct rig_hdr));
	return f;
}

/* @f as a frame that the reliability module owns. Return: 0; of rel_send(), as far as it is known. */
static int rig_commit(struct rig_node *n, struct link_peer *peer, struct rig_frame *f)
{
	struct rig *g = n->rig;
	uint8_t *at = rel_begin(n->port.rel, peer);

	if (!at)
		return peer->dead ? peer->dead : -EAGAIN;
	memcpy(at, f->mem, f->len);
	f->is_silent = g->is_silent;
	rel_commit(n->port.rel, peer, f->len, g->is_silent ? NULL : f, f->id, rig_now(g));
	return 0;
}

/* A frame of @len bytes with checked contents, in header and pieces of random size. Return: of
 * rel_send(). */
static int rig_send(struct rig *g, uint32_t from, uint32_t to, uint32_t len)
{
	struct rig_frame *f = rig_frame_new(g, from, to, len);
	struct rig_node *n = &g->n[from];
	uint32_t hdr_len = (uint32_t)rng_below(&g->rng, MIN(len, (uint32_t)LINK_HDR_MAX) + 1),
		 at = hdr_len;
	struct iovec iov[LINK_IOV_MAX];
	uint8_t hdr[LINK_HDR_MAX];
	int cnt = 0, rc;

	memcpy(hdr, f->mem, hdr_len);
	while (at < len) {
		uint32_t piece = cnt == LINK_IOV_MAX - 1
					 ? len - at
					 : 1 + (uint32_t)rng_below(&g->rng, len - at);

		iov[cnt++] = (struct iovec){f->mem + at, piece};
		at += piece;
	}
	if (len <= LINK_OWN_MAX && f->id % 3 && f->id % 2 && g->cls != LINK_RAW)
		rc = rig_commit(n, rig_peer(g, from, to), f);
	else
		rc = rel_send(n->port.rel, rig_peer(g, from, to), f->id % 3 ? LINK_K_NIC : LINK_K_BULK, hdr,
			      hdr_len, iov, cnt, f, rig_now(g));
	memset(hdr, 0xee, sizeof(hdr));
	memset(iov, 0xee, sizeof(iov));
	if (!rc && g->cls != LINK_RAW) {
		g->order_tx[from][to]++;
		return 0;
	}
	free(f->mem);
	f->mem = NULL;
	if (!rc) {
		f->ended = true;
		g->ended++;
		return 0;
	}
	free(f);
	g->frame_cnt--;
	return rc;
}

/* @pkt with its fixed part and @len bytes of @body behind that, as it comes off the wire, in @buf. Return: bytes. */
static inline size_t rig_encode(const struct rel_pkt *pkt, const void *body, size_t len, uint8_t *buf)
{
	size_t at = sizeof(struct rel_base);
	struct rel_base b;
	struct rel_hello h;

	rel_base_encode(pkt, &b);
	memcpy(buf, &b, sizeof(b));
	if (pkt->type == REL_HELLO || pkt->type == REL_HELLO_ACK) {
		rel_hello_encode(pkt, &h);
		memcpy(buf + at, &h, sizeof(h));
		at += sizeof(h);
	}
	if (len)
		memcpy(buf + at, body, len);
	return at + len;
}

static void rig_poll(struct rig *g, uint32_t i)
{
	struct rig_node *n = &g->n[i];

	if (n->is_closed || n->paused_until > rig_now(g))
		return;
	n->port.net->ops->poll(n->port.net, 64);
	rel_flush(n->port.rel, rig_now(g));
}

/* Time passes to the next event, at most to @limit_ns; everybody polls. false: nothing will ever
 * happen. */
static bool rig_step(struct rig *g, uint64_t limit_ns)
{
	uint64_t at = limit_ns;

	for (uint32_t i = 0; i < g->cnt; i++) {
		struct rig_node *n = &g->n[i];

		if (n->is_closed)
			continue;
		if (n->paused_until > rig_now(g))
			at = MIN(at, n->paused_until);
		else
			at = MIN(at, MIN(rel_next_deadline(n->port.rel),
					 n->port.net->ops->next_deadline(n->port.net)));
	}
	if (!sim_step(g->sim, at))
		return false;
	for (uint32_t i = 0; i < g->cnt; i++)
		rig_poll(g, i);
	return true;
}

static void rig_run_for(struct rig *g, uint64_t ns)
{
	uint64_t end = rig_now(g) + ns;

	while (rig_now(g) < end)
		rig_step(g, end);
}

/* For whoever looks into a failure. */
static inline void rig_dump(struct rig *g)
{
	for (uint32_t i = 0; i < g->cnt; i++) {
		for (struct link_peer *peer = g->n[i].is_closed ? NULL : g->n[i].peers; peer;
		     peer = peer->hnext) {
			const struct rel_peer *rp = peer->rel;

			if (!rp)
				continue;
			print_message("%u -> port %u: state %u, queue %u bytes, tx [%d, %d), "
				      "flight %u, rx [%d, %d), probes %u, "
				      "frames %u, timer in %lld ns, ready %u, cwnd %u, credit %u\n",
				      i, peer->addr.port, rp->state, rp->q_bytes, (int)rp->tx_una,
				      (int)rp->tx_seq, rp->flight_cnt, (int)rp->rx_next,
				      (int)rp->rx_top, rp->probes, rp->frame_cnt,
				      rp->timer.pos ? (long long)(rp->timer.key_ns - rig_now(g))
						    : -1,
				      rp->is_ready, rp->cwnd, rp->credit);
		}
	}
}

/* Until all frames have ended or @ns have passed. Return: whether all have. */
static inline bool rig_run(struct rig *g, uint64_t ns)
{
	uint64_t end = rig_now(g) + ns;

	while (g->ended < g->frame_cnt && rig_now(g) < end)
		rig_step(g, end);
	return g->ended == g->frame_cnt;
}

/* Drain for at most @linger_ns as link_port_close() does, then close. Return: drained. */
static inline bool rig_node_close(struct rig *g, uint32_t i, uint64_t linger_ns)
{
	uint64_t end = rig_now(g) + linger_ns;
	bool is_done;

	while (!(is_done = rel_drain(g->n[i].port.rel, rig_now(g))) && rig_now(g) < end)
		rig_step(g, end);
	rig_node_fini(&g->n[i]);
	return is_done;
}

#endif
