// SPDX-License-Identifier: BSD-2-Clause
// Peers of an endpoint: made at first traffic, introduced by handshakes, forgotten when their address is removed.
#include "prov/efa/efa.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

static int peers_grow(struct efa_ep *ep, fi_addr_t fi_addr)
{
	uint32_t cap = (uint32_t)roundup_pow2(MAX(fi_addr + 1, (fi_addr_t)16));
	struct efa_peer **tab = mem_alloc(cap * sizeof(*tab));

	if (!tab)
		return -FI_ENOMEM;
	if (ep->peers_cap)
		memcpy(tab, ep->peers, ep->peers_cap * sizeof(*tab));
	mem_free(ep->peers);
	ep->peers = tab;
	ep->peers_cap = cap;
	return 0;
}

/* --- gates ---------------------------------------------------------------------------------------- */

/* One more than bytes of the longest message to @peer that may be an eager packet with a connid at once; 0: none. */
static uint32_t own_lim(const struct efa_peer *peer, bool tagged)
{
	const struct efa_ep *ep = peer->ep;
	size_t max = MIN(tagged ? ep->inject_tagged : ep->inject_msg, tagged ? ep->max_tagged_size : ep->max_msg_size);

	if ((peer->flags & (EFA_PEER_HS_RCVD | EFA_PEER_RNR)) != EFA_PEER_HS_RCVD ||
	    (peer->extra & (EFA_X_CONNID_HDR | EFA_X_CONSTANT_HDR_LEN)) != EFA_X_CONNID_HDR ||
	    !STAILQ_EMPTY(&peer->parked) || peer->unstarted || ep->has_other_start)
		return 0;
	return (uint32_t)MIN(max, (size_t)(EFA_MTU - EFA_EAGER_HDR_TAG)) + 1;
}

static bool takes_next(const struct efa_peer *peer)
{
	return TAILQ_EMPTY(&peer->ahead) && (peer->flags & (EFA_PEER_HS_SENT | EFA_PEER_FULL)) == EFA_PEER_HS_SENT;
}

void efa_peer_gates(struct efa_peer *peer)
{
	peer->own_lim[false] = own_lim(peer, false);
	peer->own_lim[true] = own_lim(peer, true);
	peer->takes_next = takes_next(peer);
}

bool efa_peer_gates_hold(const struct efa_peer *peer)
{
	return peer->own_lim[false] == own_lim(peer, false) && peer->own_lim[true] == own_lim(peer, true) &&
	       peer->takes_next == takes_next(peer);
}

void efa_peers_gates(struct efa_ep *ep)
{
	struct efa_peer *peer;

	LIST_FOREACH(peer, &ep->all_peers, ep_link)
		efa_peer_gates(peer);
}

static void assume(struct efa_peer *peer)
{
	if (!(peer->flags & EFA_PEER_HS_RCVD))
		peer->extra = peer->is_self || peer->ep->homogeneous ? peer->ep->local_extra : 0;
}

void efa_peers_assume(struct efa_ep *ep)
{
	struct efa_peer *peer;

	LIST_FOREACH(peer, &ep->all_peers, ep_link)
		assume(peer);
}

/* --- where we stood with those that are gone ------------------------------------------------------ */

static struct efa_past_list *past_bucket(struct efa_ep *ep, const struct efa_addr *addr)
{
	return &ep->past_by[kit_av_hash(ep->kit.av, addr) % EFA_PAST_BUCKETS];
}

static struct efa_past *past_find(struct efa_ep *ep, const struct efa_addr *addr)
{
	struct efa_past *past;

	LIST_FOREACH(past, past_bucket(ep, addr), by)
		if (kit_av_is_same(ep->kit.av, &past->addr, addr))
			return past;
	return NULL;
}

static void past_forget(struct efa_ep *ep, struct efa_past *past)
{
	TAILQ_REMOVE(&ep->past, past, link);
	LIST_REMOVE(past, by);
	ep->past_cnt--;
	mem_free(past);
}

static void past_keep(const struct efa_peer *peer)
{
	bool is_stranger = peer->fi_addr == FI_ADDR_NOTAVAIL;
	struct efa_ep *ep = peer->ep;
	struct efa_past *past;

	if (!is_stranger && !peer->next_msg_id && !peer->exp_msg_id)
		return;
	past = mem_alloc(sizeof(*past));
	if (!past)
		return; /* then it must not come back */
	past->addr = peer->addr;
	past->next_msg_id = peer->next_msg_id;
	past->exp_msg_id = peer->exp_msg_id;
	past->was_stranger = is_stranger;
	past->has_greeted = peer->flags & EFA_PEER_HS_RCVD;
	past->user_qpn = peer->user_qpn;
	past->user_qkey = peer->user_qkey;
	past->extra = peer->extra;
	past->host_id = peer->host_id;
	past->device_version = peer->device_version;
	TAILQ_INSERT_HEAD(&ep->past, past, link);
	LIST_INSERT_HEAD(past_bucket(ep, &past->addr), past, by);
	if (++ep->past_cnt > EFA_PAST_MAX)
		past_forget(ep, TAILQ_LAST(&ep->past, efa_past_q));
}

static void past_resume(struct efa_peer *peer, struct efa_past *past)
{
	peer->next_msg_id = past->next_msg_id;
	peer->exp_msg_id = past->exp_msg_id;
	if (past->has_greeted) { /* once is all it will */
		peer->flags |= EFA_PEER_HS_RCVD;
		peer->extra = past->extra;
		peer->user_qpn = past->user_qpn;
		peer->user_qkey = past->user_qkey;
		peer->host_id = past->host_id;
		peer->device_version = past->device_version;
	}
	past_forget(peer->ep, past);
}

/* A message that is dropped because its sender was removed counts all the same. */
static void past_dropped(struct efa_past *past, const struct efa_hdr *h)
{
	if (past && efa_pkt_tab[h->type].props & (EFA_P_RTM | EFA_P_RTA) &&
	    (int32_t)(h->msg_id - past->exp_msg_id) >= 0)
		past->exp_msg_id = h->msg_id + 1;
}

/* --- peers with a name ---------------------------------------------------------------------------- */

/* Takes over the reference on @dst. NULL: no memory. */
static struct efa_peer *peer_new(struct efa_ep *ep, const struct efa_addr *addr, struct efanic_dst *dst)
{
	struct efa_past *past = past_find(ep, addr);
	struct efa_peer *peer = slab_get(&ep->peer_slab);

	if (!peer) {
		efanic_dst_put(dst);
		return NULL;
	}
	memset(peer, 0, sizeof(*peer));
	peer->ep = ep;
	peer->fi_addr = FI_ADDR_NOTAVAIL;
	peer->dst = dst;
	peer->addr = *addr;
	TAILQ_INIT(&peer->ahead);
	STAILQ_INIT(&peer->parked);
	STAILQ_INIT(&peer->untold);
	LIST_INIT(&peer->multi);
	LIST_INIT(&peer->txs);
	LIST_INIT(&peer->rxs);
	LIST_INSERT_HEAD(&ep->all_peers, peer, ep_link);
	peer->is_self = kit_av_is_same(ep->kit.av, addr, &ep->self);
	assume(peer);
	if (peer->is_self) { /* which gets no handshake */
		peer->user_qpn = ep->user_qp ? efanic_qp_qpn(ep->user_qp) : 0;
		peer->user_qkey = ep->user_qkey;
	}
	if (unlikely(past != NULL))
		past_resume(peer, past);
	efa_peer_gates(peer);
	efanic_dst_set_user(dst, peer);
	return peer;
}

static void peer_name(struct efa_peer *peer, fi_addr_t fi_addr)
{
	peer->fi_addr = fi_addr;
	peer->ahn = container_of(peer->ep->kit.av, struct efa_av, kit)->ahn[fi_addr];
	peer->ep->peers[fi_addr] = peer;
}

struct efa_peer *efa_peer_get(struct efa_ep *ep, fi_addr_t fi_addr)
{
	struct efa_av *av = container_of(ep->kit.av, struct efa_av, kit);
	const struct efa_addr *addr = kit_av_addr(&av->kit, fi_addr);
	struct efanic_dst *dst;
	struct efa_peer *peer;

	if (!addr || (fi_addr >= ep->peers_cap && peers_grow(ep, fi_addr)))
		return NULL;
	if (ep->peers[fi_addr])
		return ep->peers[fi_addr];
	if (efanic_dst_get(ep->qp, av->ahn[fi_addr], addr->qpn, addr->qkey, &dst))
		return NULL;
	peer = peer_new(ep, addr, dst);
	if (peer)
		peer_name(peer, fi_addr);
	return peer;
}

/* --- the end of a peer ---------------------------------------------------------------------------- */

static void stranger_leave(struct efa_peer *peer)
{
	TAILQ_REMOVE(&peer->ep->strangers, peer, stranger_link);
	peer->ep->stranger_cnt--;
}

void efa_peer_free(struct efa_peer *peer)
{
	quota_leave(&peer->quota);
	slab_put(&peer->ep->peer_slab, peer);
}

/* The refusals that waited for its handshake: sent, if it understands them and is there. */
static void untold_end(struct efa_peer *peer)
{
	bool is_told = peer->flags & EFA_PEER_HS_RCVD && efa_peer_has(peer, EFA_X_REFUSED);
	struct efa_pkt *pkt;

	while ((pkt = STAILQ_FIRST(&peer->untold))) {
		STAILQ_REMOVE_HEAD(&peer->untold, link);
		if (is_told)
			efa_pkt_post_or_queue(pkt);
		else
			efa_pkt_put(pkt);
	}
}

static void peer_end(struct efa_peer *peer)
{
	struct efa_ep *ep = peer->ep;
	struct efa_held *held;
	struct efa_tx *tx;
	struct efa_rx *rx;

	while ((tx = STAILQ_FIRST(&peer->parked))) {
		STAILQ_REMOVE_HEAD(&peer->parked, park_link);
		ep->parked_cnt--;
	}
	untold_end(peer);
	while ((held = TAILQ_FIRST(&peer->ahead))) {
		TAILQ_REMOVE(&peer->ahead, held, link);
		efa_quota_put(peer, EFA_Q_EARLY, efa_held_size(held));
		efa_held_put(ep, held);
	}
	while ((tx = LIST_FIRST(&peer->txs)))
		efa_tx_abandon(tx);
	while ((rx = LIST_FIRST(&peer->rxs)))
		efa_rx_abandon(rx);
	LIST_REMOVE(peer, ep_link);
	if (peer->fi_addr == FI_ADDR_NOTAVAIL)
		stranger_leave(peer);
	else
		ep->peers[peer->fi_addr] = NULL;
	peer->flags |= EFA_PEER_REMOVED;
	efanic_dst_set_user(peer->dst, NULL);
	efanic_dst_put(peer->dst);
	if (peer->user_dst)
		efanic_dst_put(peer->user_dst);
	if (!peer->pkts)
		efa_peer_free(peer);
}

/* --- strangers ------------------------------------------------------------------------------------ */

/*
 * Whoever sends without having been inserted is a peer like any other, but has no index of the program's address
 * vector: the program counts on those. Its completions have FI_ADDR_NOTAVAIL as their source, and no receive can name
 * it, until fi_av_insert() gives it its name (efa_peer_named()); then what it sent before is matched by that name, too.
 * It needs no address handle.
 *
 * Their number is limited. Who comes when there is no room takes the place of the one that has been known longest of
 * those of whom nothing is under way; of that one only its struct efa_past is kept, from which it may go on. Where
 * there is none, the packet is refused as if there were no receive for it, and comes again. Packets that the adapter
 * has accepted in the meantime cannot be refused any more: their senders are let in above the limit, no more of them
 * than the adapter has receives.
 */
#define STRANGER_LOOKS 64 /* at the oldest, per newcomer */

static bool is_idle(const struct efa_peer *peer)
{
	return !peer->pkts && LIST_EMPTY(&peer->txs) && LIST_EMPTY(&peer->rxs) && TAILQ_EMPTY(&peer->ahead) &&
	       STAILQ_EMPTY(&peer->parked);
}

static bool forget_one(struct efa_ep *ep)
{
	for (unsigned i = 0; i < STRANGER_LOOKS && i < ep->stranger_cnt; i++) {
		struct efa_peer *peer = TAILQ_FIRST(&ep->strangers);

		if (is_idle(peer)) {
			if (!ep->stats.implicit_forgotten++)
				LOG_INFO(
					"%u senders that nobody inserted (FI_EFA_IMPLICIT_AV_SIZE): the oldest is "
					"forgotten",
					ep->stranger_cnt);
			past_keep(peer);
			peer_end(peer);
			return true;
		}
		TAILQ_REMOVE(&ep->strangers, peer, stranger_link);
		TAILQ_INSERT_TAIL(&ep->strangers, peer, stranger_link);
	}
	return false;
}

static bool has_room_for_stranger(struct efa_ep *ep)
{
	size_t max = ep->domain->params.implicit_av_size;

	if (ep->stranger_cnt < (max ? max : EFA_STRANGERS_MAX) || forget_one(ep))
		return true;
	if (!efanic_refuse(ep->qp))
		return true;
	if (!ep->stats.implicit_refused++)
		LOG_WARN(
			"a sender that nobody inserted has to wait: %u others, the limit (FI_EFA_IMPLICIT_AV_SIZE), "
			"have messages here",
			ep->stranger_cnt);
	return false;
}

/* A packet from nobody in the address vector. */
static struct efa_peer *stranger_get(struct efa_ep *ep, const struct efanic_wc *wc, const struct efa_hdr *h,
				     const struct efa_addr *addr)
{
	struct efa_past *past = past_find(ep, addr);
	struct efanic_dst *dst;
	struct efa_peer *peer;

	/* Who leaves out its raw address counts on being known. It may be one that the program has removed. */
	if (!(h->flags & EFA_FLAG_RAW_ADDR) && !(past && past->was_stranger)) {
		past_dropped(past, h);
		if (!ep->stats.drop_unknown_peer++)
			LOG_INFO("dropped a %s packet: its sender is not in the address vector", efa_pkt_name(h->type));
		return NULL;
	}
	if (!has_room_for_stranger(ep))
		return NULL;
	peer = efanic_dst_hold(ep->qp, wc->src, &dst) ? NULL : peer_new(ep, addr, dst);
	if (!peer) {
		efa_ep_event(ep, FI_ENOMEM, EFA_ERR_AV_INSERT, "no memory for a sender that nobody inserted");
		return NULL;
	}
	TAILQ_INSERT_TAIL(&ep->strangers, peer, stranger_link);
	ep->stranger_cnt++;
	ep->stats.implicit_peers++;
	return peer;
}

int efa_peer_reserve(struct efa_ep *ep, fi_addr_t fi_addr)
{
	return ep->stranger_cnt && fi_addr >= ep->peers_cap ? peers_grow(ep, fi_addr) : 0;
}

/* Its messages that wait for a receive have its name now, too: the oldest first. */
static void name_messages(struct efa_peer *peer)
{
	LIST_HEAD(, efa_rx) oldest_first = LIST_HEAD_INITIALIZER(oldest_first);
	struct efa_rx *rx;

	while ((rx = LIST_FIRST(&peer->rxs))) {
		LIST_REMOVE(rx, peer_link);
		LIST_INSERT_HEAD(&oldest_first, rx, peer_link);
	}
	while ((rx = LIST_FIRST(&oldest_first))) {
		LIST_REMOVE(rx, peer_link);
		LIST_INSERT_HEAD(&peer->rxs, rx, peer_link);
		if (rx->kind == EFA_RX_MSG && !rx->matched && !rx->ended)
			kit_srx_know(&peer->ep->srx, &rx->ux, peer->fi_addr);
	}
}

void efa_peer_named(struct efa_ep *ep, fi_addr_t fi_addr, const struct efa_addr *addr)
{
	struct efanic_dst *dst = ep->stranger_cnt ? efanic_dst_find(ep->qp, addr->gid, addr->qpn, addr->qkey) : NULL;
	struct efa_peer *peer = dst ? efanic_dst_user(dst) : NULL;

	if (!peer || peer->fi_addr != FI_ADDR_NOTAVAIL)
		return;
	stranger_leave(peer);
	peer->addr = *addr;
	peer_name(peer, fi_addr);
	/* from now on it has the handle of this entry, and is gone for sends when that is closed */
	if (!efanic_dst_get(ep->qp, peer->ahn, addr->qpn, addr->qkey, &dst))
		efanic_dst_put(dst);
	name_messages(peer);
}

/* --- who sent it ---------------------------------------------------------------------------------- */

/* The sender's address from what the packet and the adapter say; false if they contradict each other. */
static bool sender_addr(const struct efanic_wc *wc, const struct efa_hdr *h, struct efa_addr *a)
{
	uint8_t gid[16];

	memset(a, 0, sizeof(*a));
	efanic_wc_gid(wc, gid);
	if ((efa_pkt_tab[h->type].props & EFA_P_REQ) && (h->flags & EFA_FLAG_RAW_ADDR)) {
		memcpy(a, h->raw_addr, sizeof(*a));
		return !memcmp(a->gid, gid, sizeof(gid)) && a->qpn == wc->src_qpn;
	}
	if (!(h->flags & EFA_FLAG_CONNID))
		return false;
	memcpy(a->gid, gid, sizeof(gid));
	a->qpn = wc->src_qpn;
	a->qkey = h->connid;
	return true;
}

struct efa_peer *efa_peer_of_packet(struct efa_ep *ep, const struct efanic_wc *wc, const struct efa_hdr *h)
{
	struct efa_peer *peer = likely(wc->src != NULL) ? efanic_dst_user(wc->src) : NULL;
	struct efa_addr a;
	fi_addr_t fi_addr;

	if (likely(peer != NULL))
		return peer;
	if (!wc->src || !sender_addr(wc, h, &a)) {
		ep->stats.drop_unknown_peer++;
		return NULL;
	}
	fi_addr = kit_av_find(ep->kit.av, &a);
	peer = fi_addr != FI_ADDR_NOTAVAIL ? efa_peer_get(ep, fi_addr) : stranger_get(ep, wc, h, &a);
	if (peer)
		peer->is_near = true;
	if (peer && !efanic_dst_user(wc->src))
		efanic_dst_set_user(wc->src, peer);
	return peer;
}

/* --- handshake ------------------------------------------------------------------------------------ */

int efa_handshake_send(struct efa_peer *peer)
{
	struct efa_ep *ep = peer->ep;
	struct efa_hdr h = {
		.type = EFA_PKT_HANDSHAKE,
		.flags = EFA_FLAG_HS_HOST_ID | EFA_FLAG_HS_DEVICE_VERSION,
		.nextra_p3 = 4,
		.extra_info = {ep->local_extra},
		.host_id = efa_host_id(),
		.device_version = ep->domain->attr.vendor_part_id,
	};
	int ret;

	if (ep->user_qp) {
		h.flags |= EFA_FLAG_HS_USER_RECV_QP;
		h.user_recv_qpn = efanic_qp_qpn(ep->user_qp);
		h.user_recv_qkey = ep->user_qkey;
	}
	ret = efa_ctrl_send(peer, &h, NULL);
	if (!ret)
		efa_peer_flag(peer, EFA_PEER_HS_SENT, true);
	return ret;
}

static void greet(void *ctx, const struct efanic_wc *wc)
{
	struct efa_peer *peer;
	size_t payload_off;
	struct efa_hdr h;

	if (wc->status != EFANIC_OK || wc->opcode != EFANIC_OP_RECV || efa_pkt_decode(&wc->data, &h, &payload_off))
		return;
	if (!(h.flags & EFA_FLAG_RAW_ADDR))
		return; /* it has our handshake */
	peer = efa_peer_of_packet(ctx, wc, &h);
	if (peer && !(peer->flags & EFA_PEER_HS_SENT))
		efa_handshake_send(peer);
}

void efa_peers_greet(struct efa_ep *ep)
{
	efanic_peek(ep->qp, greet, ep);
	if (!ep->need_doorbell)
		return;
	efanic_doorbell(ep->qp);
	ep->need_doorbell = false;
}

void efa_handshake_received(struct efa_peer *peer, const struct efa_hdr *h)
{
	struct efa_ep *ep = peer->ep;
	struct efa_tx *tx;

	peer->extra = h->extra_info[0];
	if (h->flags & EFA_FLAG_HS_DEVICE_VERSION)
		peer->device_version = h->device_version;
	if (h->flags & EFA_FLAG_HS_HOST_ID)
		peer->host_id = h->host_id;
	if (h->flags & EFA_FLAG_HS_USER_RECV_QP) {
		peer->user_qpn = (uint16_t)h->user_recv_qpn;
		peer->user_qkey = h->user_recv_qkey;
	}
	peer->flags |= EFA_PEER_HS_RCVD;
	while ((tx = STAILQ_FIRST(&peer->parked))) {
		STAILQ_REMOVE_HEAD(&peer->parked, park_link);
		ep->parked_cnt--;
		efa_tx_unpark(tx);
	}
	untold_end(peer);
	efa_peer_gates(peer);
}

/* An EAGER_RTW that writes nothing: a request like any other, of which the peer need not tell its user. */
static int empty_send(struct efa_peer *peer)
{
	struct efa_ep *ep = peer->ep;
	struct efa_hdr h = {.type = EFA_PKT_EAGER_RTW};
	struct efa_pkt *pkt = efa_pkt_get(ep, peer, false);

	if (!pkt)
		return -FI_EAGAIN;
	efa_hdr_identity(ep, peer, &h);
	pkt->type = h.type;
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)efa_pkt_encode(&h, pkt->buf, EFA_PKT_SMALL),
					  EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	efa_pkt_post_or_queue(pkt);
	peer->flags |= EFA_PEER_REQ_SENT;
	return 0;
}

int efa_peer_trigger(struct efa_peer *peer)
{
	return peer->flags & EFA_PEER_REQ_SENT ? 0 : empty_send(peer);
}

/* --- peers that die ------------------------------------------------------------------------------- */

/*
 * The adapter reports a dead peer to whoever has a work request on its way there. A transfer may have none: the
 * receiver of a long message between two grants, a sender that waits for a receipt. So a peer that such transfers wait
 * for over two looks in a row is asked for a sign of life every look. Nobody reads the answer: the link's
 * acknowledgement is one, and its failure ends everything of that peer in efa_peers_bury().
 */
#define WATCH_NS (250 * NS_PER_MS)

/* Nothing of it is on its way: it goes on only when the peer does something. */
static bool tx_waits(const struct efa_tx *tx)
{
	return !tx->wrs && !tx->reported;
}

static bool rx_waits(const struct efa_rx *rx)
{
	return !rx->wrs && !rx->ended && (rx->matched || rx->kind != EFA_RX_MSG);
}

static bool is_awaited(const struct efa_peer *peer)
{
	const struct efa_tx *tx;
	const struct efa_rx *rx;

	LIST_FOREACH(tx, &peer->txs, peer_link)
		if (tx_waits(tx))
			return true;
	LIST_FOREACH(rx, &peer->rxs, peer_link)
		if (rx_waits(rx))
			return true;
	return false;
}

void efa_peers_watch(struct efa_ep *ep)
{
	struct efa_peer *peer;
	uint64_t now;

	if (!ep->tx_outstanding && !slab_used(&ep->tx_slab) && !slab_used(&ep->rx_slab))
		return;
	now = clk_now_ns(NULL);
	if (now < ep->watch_ns)
		return;
	ep->watch_ns = now + WATCH_NS;
	LIST_FOREACH(peer, &ep->all_peers, ep_link) {
		if (peer->is_self)
			continue;
		if (peer->pkts || !is_awaited(peer))
			peer->flags &= ~(uint32_t)EFA_PEER_AWAITED;
		else if (peer->flags & EFA_PEER_AWAITED)
			empty_send(peer);
		else
			peer->flags |= EFA_PEER_AWAITED;
	}
}

void efa_peer_lost(struct efa_peer *peer, unsigned status)
{
	if (peer->flags & EFA_PEER_REMOVED)
		return;
	peer->lost_status = (uint8_t)status;
	peer->ep->has_lost = peer->ep->is_busy = true;
}

/*
 * What still has work requests on their way ends with them. An unmatched message ends when a receive asks for the rest
 * of it.
 */
static void bury(struct efa_peer *peer, unsigned status)
{
	unsigned code = efa_prov_errno(peer, status);
	struct efa_tx *tx, *next_tx;
	struct efa_rx *rx, *next_rx;

	for (rx = LIST_FIRST(&peer->rxs); rx; rx = next_rx) {
		next_rx = LIST_NEXT(rx, peer_link);
		if (rx_waits(rx))
			efa_rx_fail(rx, efa_errno(code), code);
	}
	for (tx = LIST_FIRST(&peer->txs); tx; tx = next_tx) {
		next_tx = LIST_NEXT(tx, peer_link);
		if (tx_waits(tx))
			efa_tx_fail(tx, efa_errno(code), code);
	}
	untold_end(peer);
	peer->flags &= ~(uint32_t)EFA_PEER_REQ_SENT; /* the next operation finds out for itself */
}

void efa_peers_bury(struct efa_ep *ep)
{
	struct efa_peer *peer;

	ep->has_lost = false;
	LIST_FOREACH(peer, &ep->all_peers, ep_link) {
		unsigned status = peer->lost_status;

		if (!status)
			continue;
		peer->lost_status = 0;
		peer->gone_status = (uint8_t)status;
		bury(peer, status);
	}
}

/* --- from outside --------------------------------------------------------------------------------- */

void efa_peer_removed(struct efa_ep *ep, fi_addr_t fi_addr)
{
	if (fi_addr >= ep->peers_cap || !ep->peers[fi_addr])
		return;
	kit_srx_forget_src(&ep->srx, fi_addr);
	past_keep(ep->peers[fi_addr]);
	peer_end(ep->peers[fi_addr]);
}

void efa_peers_stop(struct efa_ep *ep)
{
	struct efa_peer *peer;
	struct efa_rx *rx, *next;

	LIST_FOREACH(peer, &ep->all_peers, ep_link) {
		for (rx = LIST_FIRST(&peer->rxs); rx; rx = next) {
			next = LIST_NEXT(rx, peer_link);
			if (rx->kind == EFA_RX_MSG && rx->matched)
				efa_rx_fail(rx, FI_ECANCELED, EFANIC_FLUSHED);
		}
	}
}

void efa_peers_fini(struct efa_ep *ep)
{
	while (!LIST_EMPTY(&ep->all_peers))
		peer_end(LIST_FIRST(&ep->all_peers));
	while (!TAILQ_EMPTY(&ep->past))
		past_forget(ep, TAILQ_FIRST(&ep->past));
	mem_free(ep->peers);
	ep->peers = NULL;
	ep->peers_cap = 0;
}
