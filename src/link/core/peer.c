// SPDX-License-Identifier: BSD-2-Clause
// The peers of a port: a hash table by full address, small because a job has up to 100,000 of them.
#include <errno.h>
#include <string.h>

#include "base/keyed.h"
#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * Chained hashing with 96-byte peers from a slab; the table doubles when chains average two, so an
 * idle peer costs about 118 bytes in all. The hash has a key per port: senders choose their
 * addresses, but not their chains.
 *
 * A peer lives while it has references or state on a path. One that lost both may still be in use
 * by a caller further up the stack (a completion that drops the last reference), so it is only
 * counted; link_poll() sweeps the table at its beginning when a quarter of it has become free.
 */

#define PEER_TAB_MIN   8u
#define PEER_CHAIN_MAX 2u /* average length at which the table grows */
#define PEER_MAX       SLAB_MAX_CNT
#define PEER_SWEEP_MIN 1024u
#define STRANGERS_MAX  (1u << 18) /* peers in all above which none comes by itself */

/* The address under which @p knows who is at @addr. */
static struct link_addr known_as(const struct link_port *p, const struct link_addr *addr)
{
	struct link_addr a = *addr;

	if (p->by_place)
		a.nonce = 0;
	return a;
}

static uint32_t addr_hash(const struct link_port *p, const struct link_addr *a)
{
	uint64_t w[3];

	memcpy(w, a->ip, 16);
	w[2] = (uint64_t)a->port << 32 | a->nonce;
	return (uint32_t)keyed_hash(&p->hash_key, w, sizeof(w));
}

static bool addr_eq(const struct link_addr *a, const struct link_addr *b)
{
	return a->nonce == b->nonce && link_same_place(a, b);
}

int peer_tab_open(struct link_port *p)
{
	p->peer_tab = mem_alloc(PEER_TAB_MIN * sizeof(*p->peer_tab));
	if (!p->peer_tab)
		return -ENOMEM;
	p->peer_mask = PEER_TAB_MIN - 1;
	link_secret(p->node, &p->hash_key, sizeof(p->hash_key));
	return slab_init(&p->peer_slab, sizeof(struct link_peer), 8, 64, PEER_MAX);
}

void peer_tab_close(struct link_port *p)
{
	slab_fini(&p->peer_slab);
	mem_free(p->peer_tab);
	p->peer_tab = NULL;
	p->peer_cnt = 0;
}

struct link_peer *port_peer_find(struct link_port *p, const struct link_addr *addr)
{
	struct link_addr a = known_as(p, addr);
	struct link_peer *peer = p->peer_tab[addr_hash(p, &a) & p->peer_mask];

	while (peer && !addr_eq(&peer->addr, &a))
		peer = peer->hnext;
	return peer;
}

int port_peer_status(struct link_port *p, const struct link_addr *addr)
{
	struct link_peer *peer = port_peer_find(p, addr);

	return peer ? peer->dead : 0;
}

/* Failure only makes chains longer. */
static void tab_grow(struct link_port *p)
{
	uint32_t mask = 2 * p->peer_mask + 1;
	struct link_peer **tab = mem_alloc(((size_t)mask + 1) * sizeof(*tab));

	if (!tab)
		return;
	for (uint32_t i = 0; i <= p->peer_mask; i++) {
		for (struct link_peer *peer = p->peer_tab[i], *next; peer; peer = next) {
			struct link_peer **head = &tab[addr_hash(p, &peer->addr) & mask];

			next = peer->hnext;
			peer->hnext = *head;
			*head = peer;
		}
	}
	mem_free(p->peer_tab);
	p->peer_tab = tab;
	p->peer_mask = mask;
}

struct link_peer *peer_add(struct link_port *p, const struct link_addr *addr)
{
	struct link_addr a = known_as(p, addr);
	struct link_peer *peer = slab_get(&p->peer_slab), **head;

	if (!peer)
		return NULL;
	if (p->peer_cnt / PEER_CHAIN_MAX > p->peer_mask &&
	    !p->is_cancelled) /* peer_foreach() runs */
		tab_grow(p);
	head = &p->peer_tab[addr_hash(p, &a) & p->peer_mask];
	*peer = (struct link_peer){.port = p, .addr = a, .hnext = *head};
	*head = peer;
	p->peer_cnt++;
	return peer;
}

struct link_peer *port_peer_in(struct link_port *p, const struct link_addr *addr)
{
	struct link_peer *peer = port_peer_find(p, addr);

	if (peer)
		return peer;
	if (p->peer_cnt < STRANGERS_MAX)
		peer = peer_add(p, addr);
	if (!peer)
		p->stats.drop_full++;
	return peer;
}

static bool peer_is_free(const struct link_peer *peer)
{
	return !peer->refs && !peer->shm && !peer->rel;
}

void port_peer_unused(struct link_peer *peer)
{
	if (peer_is_free(peer))
		peer->port->peer_free_cnt++;
}

void peer_sweep(struct link_port *p)
{
	/* one that is lost again and again was counted as often; of few nothing is gained, and was_met() knows them */
	if (p->peer_cnt < PEER_SWEEP_MIN || p->peer_free_cnt < PEER_SWEEP_MIN || p->peer_free_cnt < p->peer_cnt / 4)
		return;
	p->peer_free_cnt = 0;
	for (uint32_t i = 0; i <= p->peer_mask; i++) {
		struct link_peer **at = &p->peer_tab[i];

		while (*at) {
			struct link_peer *peer = *at;

			if (!peer_is_free(peer)) {
				at = &peer->hnext;
				continue;
			}
			*at = peer->hnext;
			slab_put(&p->peer_slab, peer);
			p->peer_cnt--;
		}
	}
}

void peer_foreach(struct link_port *p, void (*fn)(struct link_peer *peer, void *arg), void *arg)
{
	for (uint32_t i = 0; i <= p->peer_mask; i++)
		for (struct link_peer *peer = p->peer_tab[i]; peer; peer = peer->hnext)
			fn(peer, arg);
}

void link_peer_put(struct link_peer *peer)
{
	must(peer->refs);
	if (!--peer->refs && peer_is_free(peer))
		peer->port->peer_free_cnt++;
}

void port_met_by_net(struct link_peer *peer)
{
	struct link_port *p = peer->port;
	char text[LINK_ADDR_TEXT];

	if (peer->shm_tried || !p->node->lossless)
		return;
	peer->shm_tried = true;
	if (p->shm && host_ip_is_local(p->node, peer->addr.ip))
		LOG_INFO(
			"%s is on this host and came by UDP (another user or /dev/shm, or out of memory or descriptors "
			"there): so go our answers",
			link_addr_text(&peer->addr, text));
}
