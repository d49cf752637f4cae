// SPDX-License-Identifier: BSD-2-Clause
// The simulated network: one queue of datagrams per port, ordered by time of arrival.
#include "sim.h"

#include <errno.h>
#include <string.h>

#include "base/pqueue.h"
#include "link/core/link_int.h"

#define LATENCY_NS	  (5 * NS_PER_US)
#define MTU		  1472u
#define PORT_FIRST	  40000u
#define DELAY_LATENCIES	  64
#define REORDER_LATENCIES 16
#define PENDING_CNT	  32 /* datagrams between two flushes; one more flushes by itself */
#define PENDING_IOV	  40
#define QUEUE_BYTES	  (4u << 20) /* of one port; what does not fit is lost */

struct dgram {
	struct pq_node node; /* by arrival */
	struct link_addr src;
	bool is_refusal; /* nobody listens at @src */
	uint32_t len;
	uint8_t buf[];
};

/* Sent, but not yet flushed: until then the bytes are still the sender's, as with a real socket. */
struct pending {
	struct link_addr dst;
	struct iovec iov[PENDING_IOV];
	int iov_cnt;
};

struct sim_port {
	struct carrier c;
	struct sim *sim;
	struct sim_port *next;
	struct pq queue;
	uint64_t last_ns; /* arrival of the last datagram in order */
	uint32_t bytes;	  /* in @queue */
	bool is_cut;
	uint32_t pending_cnt;
	struct pending pending[PENDING_CNT];
};

struct sim {
	struct link_world world;
	struct sim_attr attr;
	uint64_t now_ns;
	struct rng rng;
	struct sim_port *ports;
	uint16_t port_next;
	sim_filter_fn filter;
	void *filter_ctx;
};

static int world_carrier(const struct link_world *w, struct link_port *p, struct carrier **out);

int sim_world_open(const struct sim_attr *attr, struct sim **out)
{
	struct sim *s = mem_alloc(sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->attr = *attr;
	if (!s->attr.latency_ns)
		s->attr.latency_ns = LATENCY_NS;
	if (!s->attr.mtu)
		s->attr.mtu = MTU;
	s->world = (struct link_world){.now_ns = &s->now_ns, .carrier = world_carrier};
	s->now_ns = NS_PER_SEC; /* not 0, which means "never" to some */
	s->port_next = PORT_FIRST;
	rng_seed(&s->rng, attr->seed);
	*out = s;
	return 0;
}

void sim_world_close(struct sim *s)
{
	if (!s)
		return;
	assert(!s->ports);
	mem_free(s);
}

const struct link_world *sim_world(const struct sim *s)
{
	return s ? &s->world : NULL;
}

const uint64_t *sim_clock(const struct sim *s)
{
	return &s->now_ns;
}

void sim_faults(struct sim *s, uint32_t drop_ppm, uint32_t dup_ppm, uint32_t reorder_ppm)
{
	s->attr.drop_ppm = drop_ppm;
	s->attr.dup_ppm = dup_ppm;
	s->attr.reorder_ppm = reorder_ppm;
}

void sim_cut(struct sim *s, uint16_t udp_port, bool is_cut)
{
	for (struct sim_port *p = s->ports; p; p = p->next) {
		if (p->c.port->self.port == udp_port)
			p->is_cut = is_cut;
	}
}

void sim_set_filter(struct sim *s, sim_filter_fn fn, void *ctx)
{
	s->filter = fn;
	s->filter_ctx = ctx;
}

static struct sim_port *find_port(struct sim *s, const struct link_addr *a)
{
	struct sim_port *p = s->ports;

	while (p && !link_same_place(&p->c.port->self, a))
		p = p->next;
	return p;
}

static struct dgram *enqueue(struct sim_port *to, const struct link_addr *src, uint32_t len,
			     uint64_t at_ns)
{
	struct dgram *d;

	if (to->bytes + len > QUEUE_BYTES || !(d = mem_alloc(sizeof(*d) + len)))
		return NULL;
	d->src = (struct link_addr){.port = src->port};
	memcpy(d->src.ip, src->ip, sizeof(src->ip));
	d->len = len;
	d->node.key_ns = at_ns;
	if (pq_push(&to->queue, &d->node)) {
		mem_free(d);
		return NULL;
	}
	to->bytes += len;
	return d;
}

static bool chance(struct sim *s, uint32_t ppm)
{
	return ppm && rng_below(&s->rng, 1000000) < ppm;
}

/* When a datagram that leaves now arrives. In order: not before, and not together with, the one
 * before it. */
static uint64_t arrival_ns(struct sim *s, struct sim_port *to, enum sim_fate fate)
{
	uint64_t at = s->now_ns + s->attr.latency_ns;

	if (s->attr.jitter_ns)
		at += rng_below(&s->rng, s->attr.jitter_ns);
	if (fate == SIM_DELAY)
		return at + DELAY_LATENCIES * s->attr.latency_ns;
	if (chance(s, s->attr.reorder_ppm))
		return at + rng_below(&s->rng, REORDER_LATENCIES * s->attr.latency_ns);
	to->last_ns = MAX(to->last_ns + 1, at);
	return to->last_ns;
}

static void gather(const struct pending *pd, uint8_t *out)
{
	for (int i = 0; i < pd->iov_cnt; out += pd->iov[i++].iov_len)
		memcpy(out, pd->iov[i].iov_base, pd->iov[i].iov_len);
}

static void deliver(struct sim *s, struct sim_port *from, struct sim_port *to,
		    const struct pending *pd, uint32_t len, enum sim_fate fate)
{
	struct dgram *d = enqueue(to, &from->c.port->self, len, arrival_ns(s, to, fate));

	if (d)
		gather(pd, d->buf);
}

/* Tell the sender, as ICMP does. */
static void refuse(struct sim *s, struct sim_port *from, const struct pending *pd, uint32_t len)
{
	struct dgram *d = s->attr.is_silent
				  ? NULL
				  : enqueue(from, &pd->dst, len, s->now_ns + 2 * s->attr.latency_ns);

	if (!d)
		return;
	d->is_refusal = true;
	gather(pd, d->buf);
}

static enum sim_fate fate_of(struct sim *s, struct sim_port *from, const struct pending *pd,
			     uint32_t len)
{
	enum sim_fate fate;
	uint8_t *flat;

	if (!s->filter)
		return SIM_PASS;
	flat = mem_alloc(len);
	if (!flat)
		return SIM_DROP;
	gather(pd, flat);
	fate = s->filter(s->filter_ctx, &from->c.port->self, &pd->dst, flat, len);
	mem_free(flat);
	return fate;
}

static void pending_go(struct sim_port *from, const struct pending *pd)
{
	struct sim *s = from->sim;
	struct sim_port *to;
	enum sim_fate fate;
	uint32_t len = 0;

	for (int i = 0; i < pd->iov_cnt; i++)
		len += (uint32_t)pd->iov[i].iov_len;
	must(len <= s->attr.mtu);
	from->c.port->stats.net_tx_dgrams++;
	from->c.port->stats.net_tx_bytes += len;
	fate = fate_of(s, from, pd, len);
	if (chance(s, s->attr.drop_ppm) || fate == SIM_DROP || from->is_cut)
		return;
	to = find_port(s, &pd->dst);
	if (!to) {
		refuse(s, from, pd, len);
		return;
	}
	if (to->is_cut)
		return;
	deliver(s, from, to, pd, len, fate);
	if (fate == SIM_DUP || chance(s, s->attr.dup_ppm))
		deliver(s, from, to, pd, len, SIM_PASS);
}

static void sim_flush(struct carrier *c)
{
	struct sim_port *p = container_of(c, struct sim_port, c);

	for (uint32_t i = 0; i < p->pending_cnt; i++)
		pending_go(p, &p->pending[i]);
	p->pending_cnt = 0;
}

static int sim_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov,
		    int iov_cnt)
{
	struct sim_port *p = container_of(c, struct sim_port, c);
	struct pending *pd;

	if (p->pending_cnt == PENDING_CNT)
		sim_flush(c);
	must(iov_cnt <= PENDING_IOV);
	pd = &p->pending[p->pending_cnt++];
	pd->dst = *dst;
	pd->iov_cnt = iov_cnt;
	memcpy(pd->iov, iov, (size_t)iov_cnt * sizeof(*iov));
	return 0;
}

void sim_inject(struct sim *s, const struct link_addr *src, const struct link_addr *dst,
		const void *buf, size_t len)
{
	struct sim_port *to = find_port(s, dst);
	struct dgram *d = to ? enqueue(to, src, (uint32_t)len, s->now_ns) : NULL;

	if (d)
		memcpy(d->buf, buf, len);
}

static int sim_poll(struct carrier *c, int budget)
{
	struct sim_port *p = container_of(c, struct sim_port, c);
	struct pq_node *first;
	int cnt = 0;

	while (cnt < budget && (first = pq_peek(&p->queue)) && first->key_ns <= p->sim->now_ns) {
		struct dgram *d = container_of(first, struct dgram, node);

		pq_remove(&p->queue, first);
		p->bytes -= d->len;
		if (!d->is_refusal) {
			c->port->stats.net_rx_dgrams++;
			c->port->stats.net_rx_bytes += d->len;
			c->rx(c->rx_ctx, &d->src, d->buf, d->len);
		} else if (c->error) {
			struct carrier_error e = {
				.err = ECONNREFUSED, .quote = d->buf, .quote_len = MIN(d->len, CARRIER_QUOTE_MAX)};

			c->error(c->rx_ctx, &d->src, &e);
		}
		mem_free(d);
		cnt++;
	}
	return cnt;
}

static uint32_t sim_mtu(struct carrier *c, const struct link_addr *dst)
{
	(void)dst;
	return container_of(c, struct sim_port, c)->sim->attr.mtu;
}

static uint64_t sim_deadline(struct carrier *c)
{
	struct pq_node *first = pq_peek(&container_of(c, struct sim_port, c)->queue);

	return first ? first->key_ns : CLK_NEVER;
}

static int sim_fd(struct carrier *c)
{
	(void)c;
	return -1;
}

static void sim_close(struct carrier *c)
{
	struct sim_port *p = container_of(c, struct sim_port, c), **at = &p->sim->ports;
	struct pq_node *first;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	while ((first = pq_peek(&p->queue))) {
		pq_remove(&p->queue, first);
		mem_free(container_of(first, struct dgram, node));
	}
	pq_fini(&p->queue);
	mem_free(p);
}

static const struct carrier_ops sim_ops = {
	.send = sim_send,
	.flush = sim_flush,
	.poll = sim_poll,
	.mtu = sim_mtu,
	.next_deadline = sim_deadline,
	.fd = sim_fd,
	.close = sim_close,
};

int sim_open(struct link_port *p, struct sim *sim, struct carrier **out)
{
	struct sim_port *sp;

	if (p->self.port && find_port(sim, &p->self))
		return -EADDRINUSE;
	while (!p->self.port) {
		p->self.port = sim->port_next++;
		if (find_port(sim, &p->self))
			p->self.port = 0;
	}
	sp = mem_alloc(sizeof(*sp));
	if (!sp)
		return -ENOMEM;
	pq_init(&sp->queue);
	sp->c.ops = &sim_ops;
	sp->c.port = p;
	sp->sim = sim;
	sp->next = sim->ports;
	sim->ports = sp;
	*out = &sp->c;
	return 0;
}

static int world_carrier(const struct link_world *w, struct link_port *p, struct carrier **out)
{
	return sim_open(p, container_of(w, struct sim, world), out);
}

bool sim_step(struct sim *s, uint64_t until_ns)
{
	uint64_t at = until_ns;

	for (struct sim_port *p = s->ports; p; p = p->next) {
		struct pq_node *first = pq_peek(&p->queue);

		/* what has arrived and is not polled is for somebody who sleeps: time passes
		 * nevertheless */
		if (first && first->key_ns > s->now_ns)
			at = MIN(at, first->key_ns);
	}
	if (at == CLK_NEVER)
		return false;
	s->now_ns = MAX(s->now_ns, at);
	return true;
}
