// SPDX-License-Identifier: BSD-2-Clause
// The carrier of a room with conditions on one host: datagrams over the peer's segment, over the
// inner carrier elsewhere.
#include <errno.h>
#include <string.h>

#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * With faults or capture on, local frames must pass the decorators and so become datagrams of the
 * reliability module. They still travel through shared memory, so that such a run exercises the
 * code that it is meant to test. The segments are kept here and not in link_peer: there they would
 * mean "frames go straight".
 *
 * Without the path udp this carrier is the last one: what no segment takes is refused, from poll()
 * only (see udp.c).
 */

#define LOCAL_BUCKETS 256u /* power of two; peers on one host are few */
#define LOCAL_REFUSED 16

static const struct carrier_error refused = {.err = ECONNREFUSED};

struct local_peer {
	struct local_peer *next;
	struct link_addr addr;
	struct shm_peer *shm; /* NULL: has no segment for us */
};

struct local {
	struct carrier c;
	struct carrier *inner;
	uint32_t refused_cnt;
	struct link_addr refused[LOCAL_REFUSED];
	struct local_peer *tab[LOCAL_BUCKETS];
};

static struct local *to_local(struct carrier *c)
{
	return container_of(c, struct local, c);
}

static struct local_peer **bucket_of(struct local *l, const struct link_addr *a)
{
	uint32_t h = (a->port * 2654435761u) ^ a->nonce ^ a->ip[15] ^ (uint32_t)a->ip[14] << 8;

	return &l->tab[(h ^ h >> 16) % LOCAL_BUCKETS];
}

static struct local_peer **peer_at(struct local *l, const struct link_addr *a)
{
	struct local_peer **at = bucket_of(l, a);

	while (*at && ((*at)->addr.nonce != a->nonce || !link_same_place(&(*at)->addr, a)))
		at = &(*at)->next;
	return at;
}

/* The peer's segment, attached at the first datagram; NULL: none. */
static struct shm_peer *shm_of(struct local *l, const struct link_addr *dst)
{
	struct link_port *p = l->c.port;
	struct local_peer **at, *lp;
	struct link_peer *peer;
	char text[LINK_ADDR_TEXT];
	int rc;

	if (!p->shm || !host_ip_is_local(p->node, dst->ip))
		return NULL;
	at = peer_at(l, dst);
	if (*at && unlikely((*at)->shm && shm_peer_is_void((*at)->shm))) {
		local_peer_drop(&l->c, dst); /* whoever is there now has another segment */
		at = peer_at(l, dst);
	}
	if (*at)
		return (*at)->shm;
	peer = port_peer_find(p, dst);
	if (!peer || peer->dead)
		return NULL; /* a stranger is answered over the path by which its datagram came */
	lp = mem_alloc(sizeof(*lp));
	if (!lp)
		return NULL;
	lp->addr = *dst;
	rc = shm_peer_attach(p->shm, peer, &lp->shm);
	if (rc) {
		lp->shm = NULL;
		LOG_INFO("no shared memory with %s: %s", link_addr_text(dst, text), strerror(-rc));
	}
	*at = lp;
	return lp->shm;
}

static void refused_note(struct local *l, const struct link_addr *dst)
{
	for (uint32_t i = 0; i < l->refused_cnt; i++)
		if (!memcmp(&l->refused[i], dst, sizeof(*dst)))
			return;
	if (l->refused_cnt < LOCAL_REFUSED)
		l->refused[l->refused_cnt++] = *dst;
}

static int local_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov,
		      int iov_cnt)
{
	struct local *l = to_local(c);
	struct shm_peer *sp = shm_of(l, dst);
	struct link_stats *st = &c->port->stats;

	if (!sp && !c->port->net_off)
		return l->inner->ops->send(l->inner, dst, iov, iov_cnt);
	if (!sp)
		refused_note(l, dst);
	else if (shm_send_dgram(sp, iov, iov_cnt) == -EAGAIN)
		return -EAGAIN;
	/* a datagram that nobody took has been sent all the same, as on a wire */
	st->net_tx_dgrams++;
	for (int i = 0; i < iov_cnt; i++)
		st->net_tx_bytes += iov[i].iov_len;
	return 0;
}

static void local_flush(struct carrier *c)
{
	struct local *l = to_local(c);

	l->inner->ops->flush(l->inner);
}

static int local_poll(struct carrier *c, int budget)
{
	struct local *l = to_local(c);
	struct link_addr dst[LOCAL_REFUSED];
	uint32_t n = l->refused_cnt;

	memcpy(dst, l->refused, n * sizeof(*dst));
	l->refused_cnt = 0;
	for (uint32_t i = 0; i < n && c->error; i++)
		c->error(c->rx_ctx, &dst[i], &refused);
	return c->port->net_off ? 0 : l->inner->ops->poll(l->inner, budget);
}

/* Both ways must take it: a peer may lose its segment in mid-run. */
static uint32_t local_mtu(struct carrier *c, const struct link_addr *dst)
{
	struct local *l = to_local(c);
	uint32_t mtu = l->inner->ops->mtu(l->inner, dst);

	return MIN(mtu, LINK_FRAME_MAX);
}

static uint64_t local_next_deadline(struct carrier *c)
{
	struct local *l = to_local(c);

	return l->refused_cnt ? 0 : l->inner->ops->next_deadline(l->inner);
}

static int local_fd(struct carrier *c)
{
	struct local *l = to_local(c);

	return l->inner->ops->fd(l->inner);
}

static void local_close(struct carrier *c)
{
	struct local *l = to_local(c);

	for (uint32_t i = 0; i < LOCAL_BUCKETS; i++)
		while (l->tab[i])
			local_peer_drop(c, &l->tab[i]->addr);
	l->inner->ops->close(l->inner);
	mem_free(l);
}

static void on_inner_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	local_input(ctx, src, buf, len);
}

static void on_inner_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	struct carrier *c = ctx;

	if (c->error)
		c->error(c->rx_ctx, dst, e);
}

void local_input(struct carrier *c, const struct link_addr *src, const void *buf, size_t len)
{
	c->rx(c->rx_ctx, src, buf, len);
}

void local_peer_drop(struct carrier *c, const struct link_addr *addr)
{
	struct local_peer **at = peer_at(to_local(c), addr), *lp = *at;

	if (!lp)
		return;
	*at = lp->next;
	if (lp->shm)
		shm_peer_detach(lp->shm);
	mem_free(lp);
}

void local_peer_renew(struct carrier *c, const struct link_addr *addr)
{
	const struct local_peer *lp = *peer_at(to_local(c), addr);

	if (lp && !lp->shm)
		local_peer_drop(c, addr);
}

static const struct carrier_ops local_ops = {
	.send = local_send,
	.flush = local_flush,
	.poll = local_poll,
	.mtu = local_mtu,
	.next_deadline = local_next_deadline,
	.fd = local_fd,
	.close = local_close,
};

int local_open(struct link_port *p, struct carrier *inner, struct carrier **out)
{
	struct local *l = mem_alloc(sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->c.ops = &local_ops;
	l->c.port = p;
	l->inner = inner;
	inner->rx = on_inner_rx;
	inner->error = on_inner_error;
	inner->rx_ctx = &l->c;
	*out = &l->c;
	return 0;
}
