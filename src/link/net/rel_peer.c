// SPDX-License-Identifier: BSD-2-Clause
// Peers of the reliability module: state, table, strangers, how they end.
#include "link/core/link_int.h"

#include <errno.h>
#include <string.h>

#include "link/net/rel_int.h"

static const char *const state_name[REL_S_NUM] = {
	[REL_S_NONE] = "none", [REL_S_HELLO] = "hello",	  [REL_S_OPEN] = "open",
	[REL_S_BYE] = "bye",   [REL_S_CLOSED] = "closed",
};

static const bool state_allowed[REL_S_NUM][REL_S_NUM] = {
	[REL_S_NONE] = {[REL_S_HELLO] = true, [REL_S_OPEN] = true, [REL_S_CLOSED] = true},
	[REL_S_HELLO] = {[REL_S_OPEN] = true, [REL_S_CLOSED] = true},
	[REL_S_OPEN] = {[REL_S_NONE] = true, [REL_S_BYE] = true, [REL_S_CLOSED] = true},
	[REL_S_BYE] = {[REL_S_CLOSED] = true},
	[REL_S_CLOSED] = {[REL_S_NONE] = true, [REL_S_CLOSED] = true},
};

void rel_set_state(struct rel_peer *rp, enum rel_state to)
{
	must(state_allowed[rp->state][to]);
	LOG_DEBUG("peer port %u: %s -> %s", rp->peer ? rp->peer->addr.port : 0,
		  state_name[rp->state], state_name[to]);
	rp->state = (uint8_t)to;
}

/* --- table ------------------------------------------------------------------------------------ */

/*
 * Keyed: senders choose their addresses, but not their chains. Those of one place share a chain, which REL_PLACE_MAX
 * bounds.
 */
static uint32_t addr_hash(const struct rel *r, const struct link_addr *a)
{
	return (uint32_t)keyed_hash(&r->hash_key, a, offsetof(struct link_addr, flags));
}

static struct rel_peer *first_at(struct rel_peer *rp, const struct link_addr *addr)
{
	while (rp && !link_same_place(&rp->peer->addr, addr))
		rp = rp->hnext;
	return rp;
}

struct rel_peer *rel_peer_first(struct rel *r, const struct link_addr *addr)
{
	return first_at(r->tab[addr_hash(r, addr) & r->tab_mask], addr);
}

struct rel_peer *rel_peer_next(struct rel_peer *rp)
{
	return first_at(rp->hnext, &rp->peer->addr);
}

struct rel_peer *rel_peer_find(struct rel *r, const struct link_addr *addr, uint32_t nonce)
{
	struct rel_peer *open = NULL;

	for (struct rel_peer *rp = rel_peer_first(r, addr); rp; rp = rel_peer_next(rp)) {
		if (rp->peer_nonce == nonce)
			return rp;
		if (!rp->peer->addr.nonce)
			open = rp;
	}
	return open;
}

uint32_t rel_progress(struct rel *r, const struct link_addr *addr)
{
	uint32_t sum = 0;

	for (struct rel_peer *rp = rel_peer_first(r, addr); rp; rp = rel_peer_next(rp)) {
		if (r->port->cls == LINK_RAW)
			sum |= rp->peer->refs != 0;
		else
			sum += (uint32_t)rp->pair + rp->rx_top + rp->rx_next + rp->tx_una + rp->echo_tx + rp->nak_una +
			       rp->nak_rx + rp->rx_bytes;
	}
	return sum;
}

uint32_t rel_met(struct rel *r)
{
	uint32_t met = r->met;

	r->met = 0;
	return met;
}

void rel_known(struct rel *r, void (*fn)(void *arg, const struct link_addr *addr, uint32_t nonce), void *arg)
{
	for (uint32_t i = 0; i <= r->tab_mask; i++) {
		for (const struct rel_peer *rp = r->tab[i]; rp; rp = rp->hnext) {
			bool is_raw = r->port->cls == LINK_RAW;

			if (rp->peer->refs)
				fn(arg, &rp->peer->addr, is_raw ? rp->peer_nonce : (uint32_t)rp->pair);
		}
	}
}

static void tab_grow(struct rel *r)
{
	uint32_t mask = r->tab_mask * 2 + 1;
	struct rel_peer **tab = mem_alloc((mask + 1ull) * sizeof(*tab));

	if (!tab)
		return; /* longer chains */
	for (uint32_t i = 0; i <= r->tab_mask; i++) {
		for (struct rel_peer *rp = r->tab[i], *next; rp; rp = next) {
			struct rel_peer **at = &tab[addr_hash(r, &rp->peer->addr) & mask];

			next = rp->hnext;
			rp->hnext = *at;
			*at = rp;
		}
	}
	mem_free(r->tab);
	r->tab = tab;
	r->tab_mask = mask;
}

static void fresh_half(struct rel_peer *rp)
{
	do {
		link_secret(rp->r->port->node, &rp->half, sizeof(rp->half));
	} while (!rp->half);
}

uint32_t rel_peer_nonce(const struct rel_peer *rp)
{
	return rp->peer_nonce;
}

void rel_peer_tell(const struct rel_peer *rp, struct live_path *out)
{
	out->name = "net";
	out->sent = rp->tx_seq - REL_SEQ_FIRST;
	out->waiting = rp->flight_cnt;
	out->rtt_ns = rp->srtt_ns;
}

struct rel_peer *rel_peer_new(struct rel *r, struct link_peer *peer)
{
	struct rel_peer *rp, **at;

	if (pq_reserve(&r->timers, r->peer_cnt + 1 > r->timers.cap ? 2 * r->timers.cap + 16 : 0) ||
	    !(rp = slab_get(&r->peers)))
		return NULL;
	*rp = (struct rel_peer){
		.r = r,
		.peer = peer,
		.peer_nonce = peer->addr.nonce,
		.mtu = r->net->ops->mtu(r->net, &peer->addr),
		.credit = REL_CREDIT_MIN,
		.cwnd = REL_CWND_FIRST,
		.frame_next = REL_SEQ_FIRST,
	};
	if (!rel_source_get(rp, peer->addr.ip)) {
		slab_put(&r->peers, rp);
		return NULL;
	}
	fresh_half(rp);
	rp->serial = ++r->serial;
	if (r->peer_cnt > r->tab_mask)
		tab_grow(r);
	at = &r->tab[addr_hash(r, &peer->addr) & r->tab_mask];
	rp->hnext = *at;
	*at = rp;
	r->peer_cnt++;
	peer->rel = rp;
	return rp;
}

static void tab_remove(struct rel_peer *rp)
{
	struct rel *r = rp->r;
	struct rel_peer **at = &r->tab[addr_hash(r, &rp->peer->addr) & r->tab_mask];

	while (*at != rp)
		at = &(*at)->hnext;
	*at = rp->hnext;
	r->peer_cnt--;
	if (r->found == rp)
		r->found = NULL;
	rel_half_end(rp);
	if (rp->is_guest) {
		TAILQ_REMOVE(&rel_source_of(rp)->guests, rp, guest);
		rel_source_of(rp)->guest_cnt--;
	}
	rp->is_guest = false;
}

/* --- strangers -------------------------------------------------------------------------------- */

/* @rp, whom the owner does not know, or did not when it came, is forgotten. */
static void guest_end(struct rel_peer *rp)
{
	struct link_peer *peer = rp->peer;

	rel_peer_drop(rp->r, peer, -ETIMEDOUT);
	port_peer_unused(peer);
}

/* The oldest goes, unless somebody came to know it. */
static void half_evict(struct rel *r)
{
	struct rel_peer *rp = TAILQ_FIRST(&r->strangers);

	rel_half_end(rp);
	if (rp->peer->refs || rel_busy(rp) || rp->pins)
		return;
	r->port->stats.half_expired++;
	guest_end(rp);
}

/* How many there are at the place of @addr that came by themselves. */
static uint32_t place_cnt(struct rel *r, const struct link_addr *addr)
{
	uint32_t cnt = 0;

	for (struct rel_peer *rp = rel_peer_first(r, addr); rp; rp = rel_peer_next(rp))
		cnt += rp->is_guest;
	return cnt;
}

/* One of so many at a place: an address and port have one owner, so most have gone. The oldest is asked. */
static void place_ask(struct rel *r, const struct link_addr *addr, uint64_t now_ns)
{
	struct rel_peer *oldest = NULL;

	for (struct rel_peer *rp = rel_peer_first(r, addr); rp; rp = rel_peer_next(rp)) {
		if (rp->is_guest) /* the newest comes first */
			oldest = rp;
	}
	if (oldest && !oldest->pins && (oldest->is_half || (r->port->cls == LINK_RAW && !oldest->peer->refs)))
		guest_end(oldest);
	else if (oldest && oldest->pair)
		rel_ask(oldest, now_ns);
}

static void guest_to_end(struct rel_peer *rp)
{
	TAILQ_REMOVE(&rel_source_of(rp)->guests, rp, guest);
	TAILQ_INSERT_TAIL(&rel_source_of(rp)->guests, rp, guest);
	rp->asks = 0;
}

/*
 * As many came from @s as may: some may have gone without a word. One of the first few is asked: if its port is closed
 * its system says so, the next one there refuses the nonce, who lives acknowledges, and who is silent for as long as a
 * peer with work for us might be is forgotten, unless the owner knows it. Who lives goes to the end, so that all are
 * asked in turn; who has work has a clock of its own. RAW has nobody
 * to ask.
 */
static void source_ask(struct rel_source *s, uint64_t now_ns)
{
	struct rel_peer *rp = TAILQ_FIRST(&s->guests), *next;

	for (uint32_t i = 0; rp && i < REL_HOST_ASKS; i++, rp = next) {
		bool is_raw = rp->r->port->cls == LINK_RAW, is_new;
		uint64_t age = now_ns - rp->asked_ns;

		next = TAILQ_NEXT(rp, guest);
		is_new = rp->heard_ns + REL_IDLE_NS > now_ns || (rp->asks && rp->heard_ns >= rp->asked_ns);
		if (rp->pins || rel_busy(rp) || (!is_raw && (is_new || rp->state != REL_S_OPEN))) {
			guest_to_end(rp);
		} else if (is_raw || (rp->asks >= REL_PROBES_DEAD && age >= rp->r->port->node->room->dead_after_ns)) {
			if (!rp->peer->refs) {
				guest_end(rp);
				return;
			}
			guest_to_end(rp);
		} else if (!rp->asks || age >= rp->asks * REL_ASK_NS) {
			if (!rp->asks)
				rp->asked_ns = now_ns;
			rp->asks += rp->asks < UINT8_MAX;
			rel_ask_data(rp, true, now_ns);
			return; /* one datagram for one */
		}
	}
}

struct rel_peer *rel_peer_arrived(struct rel *r, const struct link_addr *addr, uint64_t now_ns)
{
	struct rel_source *source = rel_source_find(r, addr->ip);
	struct link_addr at = *addr;
	struct link_peer *peer;
	struct rel_peer *rp;

	at.flags = 0;
	if (place_cnt(r, addr) >= REL_PLACE_MAX) {
		r->port->stats.drop_full++;
		place_ask(r, addr, now_ns);
		return NULL;
	}
	if (source && source->guest_cnt >= REL_HOST_MAX) {
		r->port->stats.drop_full++;
		source_ask(source, now_ns);
		return NULL;
	}
	if (r->half_cnt >= REL_HALF_MAX)
		half_evict(r);
	peer = port_peer_in(r->port, &at);
	if (!peer || peer->dead)
		return NULL;
	if (peer->rel)
		return peer->rel;
	rp = rel_peer_new(r, peer);
	if (!rp) {
		port_peer_unused(peer);
		return NULL;
	}
	rp->is_guest = true;
	rel_source_of(rp)->guest_cnt++;
	TAILQ_INSERT_TAIL(&rel_source_of(rp)->guests, rp, guest);
	rp->is_half = true;
	rp->made_ns = now_ns;
	TAILQ_INSERT_TAIL(&r->strangers, rp, stranger);
	r->half_cnt++;
	return rp;
}

static void ready_remove(struct rel_peer *rp)
{
	struct rel *r = rp->r;
	struct rel_peer **at = &r->ready;

	if (!rp->is_ready)
		return;
	while (*at != rp)
		at = &(*at)->ready_next;
	*at = rp->ready_next;
	if (r->ready_end == &rp->ready_next)
		r->ready_end = at;
	rp->is_ready = false;
}

void rel_peer_pin(struct rel_peer *rp)
{
	must(rp->pins < UINT8_MAX);
	rp->pins++;
}

bool rel_peer_unpin(struct rel_peer *rp)
{
	rp->pins--;
	if (rp->peer)
		return true;
	if (!rp->pins) {
		quota_leave(&rp->quota);
		slab_put(&rp->r->peers, rp);
	}
	return false;
}

void rel_peer_fail(struct rel_peer *rp, int status)
{
	struct rel_frame *done = NULL;

	rel_tx_reset(rp, &done);
	rel_nak_reset(rp);
	rel_rx_reset(rp);
	rel_win_free(rp);
	rp->pair = 0;
	rp->has_heard = false;
	if (rp->state != REL_S_CLOSED)
		rel_set_state(rp, REL_S_CLOSED);
	rel_peer_pin(rp);
	rel_frames_end(rp, done, status);
	rel_peer_unpin(rp);
}

void rel_peer_drop(struct rel *r, struct link_peer *peer, int status)
{
	struct rel_peer *rp = peer->rel;

	if (!rp)
		return;
	/* for those who did not answer within the linger: if it arrives, they need not wait for
	 * dead_after */
	if (r->draining && (rp->state == REL_S_OPEN || rp->state == REL_S_BYE))
		rel_control(rp, REL_BYE, clk_now_ns(&r->port->node->clk));
	if (r->raw_to == rp && rel_raw_close(r))
		r->raw_to = NULL; /* lost */
	rel_peer_pin(rp);
	tab_remove(rp);
	ready_remove(rp);
	pq_remove(&r->timers, &rp->timer);
	peer->rel = NULL;
	rp->peer = NULL;
	rp->left = peer;
	rel_peer_fail(rp, status);
	rel_peer_unpin(rp);
}

void rel_peer_kill(struct rel_peer *rp, int status)
{
	rel_peer_pin(rp);
	rp->r->port->up->dead(rp->peer, status);
	if (rp->peer)
		rel_peer_drop(rp->r, rp->peer, status);
	rel_peer_unpin(rp);
}

void rel_peer_refused(struct rel_peer *rp, int status)
{
	if (rp->state == REL_S_BYE) /* its timer finds nothing more to do */
		rel_set_state(rp, REL_S_CLOSED);
	else if (rp->state == REL_S_HELLO || rp->state == REL_S_OPEN)
		rel_peer_kill(rp, status);
}

void rel_strangers_expire(struct rel *r, uint64_t now_ns)
{
	struct rel_peer *rp;

	while ((rp = TAILQ_FIRST(&r->strangers)) && rp->made_ns + REL_HALF_NS <= now_ns)
		half_evict(r);
}
