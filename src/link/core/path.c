// SPDX-License-Identifier: BSD-2-Clause
// A peer from its first frame to its end: what reaches it, and what is said when it has gone.
#include <errno.h>
#include <string.h>

#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * The first frame to a peer decides its path for good: its segment, if it can be attached and nothing forbids it, else
 * the reliability module over the carrier stack. Frames of one peer never change path, so order survives. Where a peer
 * is a place, that holds for each process there: the path is chosen anew when one has gone, when frames of another one
 * come through shared memory, and, on a RAW port, which hears of no end, at each link_peer_connect().
 */

static const char *dead_reason(int status)
{
	switch (status) {
	case -ECONNREFUSED:
		return "nobody listens there";
	case -EHOSTUNREACH:
		return "never answered";
	case -ETIMEDOUT:
		return "silent for too long";
	case -EPROTO:
		return "speaks another wire version or has other settings";
	default:
		return strerror(-status);
	}
}

struct place {
	const struct link_addr *addr;
	bool is_met;
};

static void place_look(struct link_peer *peer, void *arg)
{
	struct place *at = arg;

	if (link_same_place(&peer->addr, at->addr))
		at->is_met |= peer->is_met || peer->shm;
}

/* Was anybody there, whom a port of this node has reached, under this incarnation or another? */
static bool was_met(const struct link_peer *peer)
{
	struct place at = {.addr = &peer->addr};

	for (struct link_port *p = peer->port->node->ports; p; p = p->next)
		peer_foreach(p, place_look, &at);
	return at.is_met;
}

/*
 * Hosts that are all on loopback look like one, on which nobody has the peer's address. Says once which key helps.
 * Where peers are places their numbers tell hosts on loopback apart (hostpart_init()): one that comes to here is of
 * this host, and has ended.
 */
static bool is_lost_on_loopback(const struct link_peer *peer, int status)
{
	struct link_port *p = peer->port;

	if (p->is_refusal_said || p->by_place || p->node->attr.world)
		return false;
	if (status != -ECONNREFUSED && status != -EHOSTUNREACH)
		return false;
	return link_ip_is_loopback(p->self.ip) && !was_met(peer);
}

/* Ends everything of @peer, once. Return: false: it was so already. */
static bool peer_end(struct link_peer *peer, int status)
{
	struct link_port *p = peer->port;
	struct shm_peer *sp = peer->shm;
	bool is_unseen = sp && shm_peer_is_unseen(sp) && !p->net_off;
	bool has_closed = status == -ECONNREFUSED && (peer->said_bye || (sp && shm_peer_has_closed(sp)));
	char text[LINK_ADDR_TEXT];

	lock_assert_held(p->node->lock);
	if (peer->dead)
		return false;
	peer->dead = (int16_t)status;
	*(has_closed ? &p->stats.peers_closed : &p->stats.peers_dead) += 1;
	p->events++;
	if (is_lost_on_loopback(peer, status)) {
		p->is_refusal_said = true;
		log_line(LOG_LVL_WARN, __func__, __LINE__,
			 "%s: no adapter with this address on this host; between hosts set "
			 "SOFTFABRIC_NET=\"if=...\" to an interface, an address or auto",
			 link_addr_text(&peer->addr, text));
	}
	/* closed ports are how every job ends, so that only the other causes are warnings */
	log_line(status == -ECONNREFUSED ? LOG_LVL_INFO : LOG_LVL_WARN, __func__, __LINE__,
		 "peer %s is gone: %s", link_addr_text(&peer->addr, text), dead_reason(status));
	if (sp) {
		peer->is_met = true;
		peer->shm = NULL;
		p->node->local_cnt--;
		shm_peer_detach(sp);
	}
	if (p->local)
		local_peer_drop(p->local, &peer->addr);
	rel_peer_drop(p->rel, peer, status);
	bulk_peer_dead(p->bulk, peer, status);
	if (!peer->refs)
		p->peer_free_cnt++;
	if ((peer->addr.nonce && !p->nonces_repeat) || p->is_cancelled)
		return true;
	/* whoever opens there next is meant as well */
	peer->dead = 0;
	peer->said_bye = peer->is_near = false;
	peer->shm_tried = is_unseen; /* the network may reach who cannot map us */
	return true;
}

void port_peer_dead(struct link_peer *peer, int status)
{
	struct link_port *p = peer->port;

	if (peer_end(peer, status) && p->ops->on_gone && !p->is_cancelled)
		p->ops->on_gone(p->ctx, peer, status);
}

bool port_peer_is_other(const struct link_peer *peer, uint32_t nonce)
{
	uint32_t known = peer->rel ? rel_peer_nonce(peer->rel) : 0;

	if (peer->shm || peer->addr.nonce || !peer->port->by_place)
		return false;
	return peer->port->cls == LINK_RAW || (known && known != nonce);
}

void port_peer_renew(struct link_peer *peer)
{
	if (peer->port->cls == LINK_RAW)
		peer->shm_tried = false; /* nothing is in order here, and its owner finds out who is there */
	else
		port_peer_dead(peer, -ECONNREFUSED);
}

/* Whether the room lets this port talk to @addr at all; says once per port why not. */
static int addr_check(struct link_port *p, const struct link_addr *addr)
{
	char self[LINK_ADDR_TEXT], text[LINK_ADDR_TEXT];
	enum log_level lvl = p->is_refusal_said ? LOG_LVL_DEBUG : LOG_LVL_WARN;
	bool is_far = link_ip_is_loopback(p->self.ip) && !link_ip_is_loopback(addr->ip);

	if (p->node->attr.world || (!is_far && (!p->net_off || host_ip_is_local(p->node, addr->ip))))
		return 0;
	p->is_refusal_said = true;
	if (is_far)
		log_line(lvl, __func__, __LINE__,
			 "%s is on another host, but this adapter is bound to %s: set "
			 "SOFTFABRIC_NET=\"if=...\" "
			 "to an interface, an address or auto",
			 link_addr_text(addr, text), link_addr_text(&p->self, self));
	else
		log_line(lvl, __func__, __LINE__, "%s is on another host, but SOFTFABRIC_NET has no path udp",
			 link_addr_text(addr, text));
	return -ENETUNREACH;
}

int link_peer_get(struct link_port *p, const struct link_addr *addr, struct link_peer **out)
{
	struct link_peer *peer;
	int rc;

	lock_assert_held(p->node->lock);
	peer = port_peer_find(p, addr);
	if (!peer) {
		rc = addr_check(p, addr);
		if (rc)
			return rc;
		peer = peer_add(p, addr);
		if (!peer)
			return -ENOMEM;
	}
	peer->refs++;
	*out = peer;
	return 0;
}

struct link_peer *link_peer_find(struct link_port *p, const struct link_addr *addr)
{
	lock_assert_held(p->node->lock);
	return port_peer_find(p, addr);
}

int port_choose_path(struct link_peer *peer)
{
	struct link_port *p = peer->port;
	struct link_node *n = p->node;
	char text[LINK_ADDR_TEXT];
	int rc = -ENOENT;

	peer->shm_tried = true;
	if (p->is_cancelled) { /* met in a callback of link_port_close() */
		peer->dead = -ECANCELED;
		return -ECANCELED;
	}
	if (n->lossless && p->shm && host_ip_is_local(n, peer->addr.ip)) {
		rc = shm_peer_attach(p->shm, peer, &peer->shm);
		if (!rc) {
			n->local_cnt++;
			if (n->local_cnt >= n->cpu_cnt)
				idle_crowd(n);
			return 0;
		}
		peer->shm = NULL;
		if (rc != -ENOENT)
			LOG_INFO("no shared memory with %s: %s%s",
				 link_addr_text(&peer->addr, text), strerror(-rc),
				 p->net_off ? "" : ", using UDP");
	}
	if ((!n->lossless || !p->net_off) && (peer->addr.port || p->cls == LINK_RAW))
		return 0;
	/* port 0 is nobody's, which no host would tell us: the kernel sends nothing there */
	rc = rc == -ENOENT ? -ECONNREFUSED : -EHOSTUNREACH;
	peer_end(peer, rc); /* the caller learns it, on_gone would say it twice */
	return rc;
}

int link_peer_connect(struct link_peer *peer)
{
	struct link_port *p = peer->port;

	lock_assert_held(p->node->lock);
	if (peer->dead)
		return peer->dead;
	/* Whoever is there now is meant, and the one that we have met may have left since. */
	if (peer->shm && !peer->addr.nonce && shm_peer_expire(peer->shm) && peer->shm)
		return -EAGAIN;
	/* RAW: nobody tells when the process there has become another one, which shared memory may reach */
	if (peer->shm || (peer->shm_tried && p->cls != LINK_RAW))
		return 0;
	if (p->local)
		local_peer_renew(p->local, &peer->addr);
	return port_choose_path(peer);
}

const struct link_addr *link_peer_addr(const struct link_peer *peer)
{
	return &peer->addr;
}

bool link_peer_is_local(const struct link_peer *peer)
{
	return peer->shm;
}

uint64_t link_peer_label(const struct link_peer *peer)
{
	return peer->shm ? shm_peer_label(peer->shm) : 0;
}

bool link_peer_is_host(const struct link_peer *peer)
{
	return host_ip_is_local(peer->port->node, peer->addr.ip);
}

void *link_peer_user(const struct link_peer *peer)
{
	return peer->user;
}

void link_peer_set_user(struct link_peer *peer, void *user)
{
	peer->user = user;
}

uint32_t link_peer_nonce(const struct link_peer *peer)
{
	if (peer->addr.nonce)
		return peer->addr.nonce;
	if (peer->shm)
		return shm_peer_nonce(peer->shm);
	return peer->rel ? rel_peer_nonce(peer->rel) : 0;
}
