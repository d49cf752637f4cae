// SPDX-License-Identifier: BSD-2-Clause
// Reliability over unreliable datagrams: opening, sending, the way in, flushing, draining.
#include "link/core/link_int.h"

#include <errno.h>
#include <string.h>

#include "link/net/rel_int.h"
#include "link/net/seal.h"

/*
 * Theory of operation
 *
 * Two ports that talk form a *pair*: each gives a half of a 64-bit nonce in HELLO and
 * HELLO_ACK, and everything after that carries the sum. Who cannot see the traffic cannot guess it,
 * and datagrams of an earlier incarnation do not have it. HELLOs that cross make the same pair,
 * since both sides know both halves. rel_hello.c has the rest of it.
 *
 * Frames are put into DATA datagrams, small ones together, large ones in segments. A DATA keeps its
 * number (seq) and its contents in every retransmission, so that a bitmap at the receiver makes
 * delivery exactly once; tx numbers transmissions, so that the echo of tx says which of them
 * arrived: round-trip times and losses are never guessed from an ambiguous acknowledgement. (Tried
 * on paper: a new number for every transmission, as QUIC has it, needs duplicate detection by frame
 * and a way to say "below this nothing will come"; an unnumbered retransmission makes every pause
 * of a peer that was not scheduled look like the loss of all that came after the probe.)
 *
 * *Arrived* (sack) and *final* (ack) differ. What has arrived is not sent again; what is final has
 * been taken by the peer's owner, or its refusal has been delivered. on_sent(0) follows from final
 * only, hence a refusal can never be overtaken by a success: the DATA that completed a refused
 * frame is not final before the refusal has been confirmed (rel_nak.c).
 *
 * ORDERED processes DATA in order of seq and stashes what is early, so its senders count bytes
 * against the credit until they are final; RELIABLE processes on arrival. Nothing else differs.
 *
 * A missing DATA is lost when REL_REORDER later transmissions arrived and it is 1.25 round trips
 * old; when nothing is acknowledged at all, an empty DATA asks, first after about two round trips,
 * then four times later, then doubling. Its answer shows what is lost, and only that is sent again
 * (tried: the probe as a retransmission saves a round trip for the last datagram before a pause, and
 * repeats one for every pause of a peer that computes or is not scheduled, of which an MPI job on
 * busy cores has a hundred in a second). After dead_after without any sign the peer
 * is dead.
 *
 * Bytes in flight are bounded by the receiver's credit (its socket buffer, shared among those who
 * send) and by a window that shrinks only when round trips grow far beyond the shortest one: random
 * loss is repaired, not punished.
 *
 * No I/O and no clock: datagrams go to r->net, arrive by rel_input(), and time is an argument.
 * Callbacks into the owner may send, ring and drop peers; therefore state is consistent before
 * every callback, and a peer in use is pinned.
 */

#define TAB_MIN 16

int rel_open(struct link_port *p, struct carrier *net, struct rel **out)
{
	const struct link_room *room = p->node->room;
	struct rel *r = mem_alloc(sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->port = p;
	r->net = net;
	r->ready_end = &r->ready;
	TAILQ_INIT(&r->strangers);
	r->wants_crc = room->corrupt_ppm || room->truncate_ppm;
	r->must_copy = room->has_faults || room->pcap[0];
	r->raw_id = REL_SEQ_FIRST;
	link_secret(p->node, &r->hash_key, sizeof(r->hash_key));
	pq_init(&r->timers);
	/* cannot fail: the sizes are constants within slab_init()'s bounds */
	must(!slab_init(&r->frames, sizeof(struct rel_frame), _Alignof(struct rel_frame), 64, 0));
	must(!slab_init(&r->peers, sizeof(struct rel_peer), _Alignof(struct rel_peer), 16, 0));
	must(!slab_init(&r->asms, sizeof(struct rel_asm), _Alignof(struct rel_asm), 4, 0));
	must(!slab_init(&r->naks, sizeof(struct rel_owed), _Alignof(struct rel_owed), 64, 0));
	rel_quota_init(r);
	r->tab_mask = TAB_MIN - 1;
	r->tab = mem_alloc(TAB_MIN * sizeof(*r->tab));
	r->stage = mem_alloc(REL_STAGE_LEN);
	if (!r->tab || !r->stage) {
		rel_close(r);
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

void rel_close(struct rel *r)
{
	if (!r)
		return;
	if (r->begun)
		slab_put(&r->frames, r->begun);
	r->begun = NULL;
	r->draining = true;
	r->in_flush = true; /* no flush from callbacks */
	for (uint32_t i = 0; r->tab && i <= r->tab_mask; i++) {
		while (r->tab[i]) /* no new ones come: rel_send() takes nothing */
			rel_peer_drop(r, r->tab[i]->peer, -ECANCELED);
	}
	if (r->stage)
		rel_carrier_flush(r);
	pq_fini(&r->timers);
	slab_fini(&r->naks);
	slab_fini(&r->asms);
	slab_fini(&r->peers);
	slab_fini(&r->frames);
	quota_tab_close(&r->sources);
	mem_free(r->stage);
	mem_free(r->tab);
	mem_free(r);
}

/* @f is its header alone, of @hdr_len bytes. */
static void frame_init(struct rel_frame *f, enum link_kind kind, size_t hdr_len)
{
	f->next = NULL;
	f->kind = (uint8_t)kind;
	f->hdr_len = (uint8_t)hdr_len;
	f->iov_cnt = 0;
	f->seg_cnt = f->segs_left = 0;
	f->is_done = false;
	f->len = (uint32_t)hdr_len;
}

static void frame_fill(struct rel_frame *f, enum link_kind kind, const void *hdr, size_t hdr_len,
		       const struct iovec *iov, int iov_cnt)
{
	frame_init(f, kind, hdr_len);
	f->iov_cnt = (uint8_t)iov_cnt;
	if (hdr_len)
		memcpy(f->hdr, hdr, hdr_len);
	for (int i = 0; i < iov_cnt; i++) {
		f->iov[i] = iov[i];
		f->len += (uint32_t)iov[i].iov_len;
	}
}

static bool frame_fits(size_t hdr_len, const struct iovec *iov, int iov_cnt)
{
	size_t len = hdr_len;

	if (hdr_len > LINK_HDR_MAX || iov_cnt > LINK_IOV_MAX)
		return false;
	for (int i = 0; i < iov_cnt; i++) {
		if (iov[i].iov_len > LINK_FRAME_MAX)
			return false;
		len += iov[i].iov_len;
	}
	return len <= LINK_FRAME_MAX;
}

/* May a frame go to @peer? Return: 0; as rel_send(). */
static int send_check(struct rel *r, struct link_peer *peer, struct rel_peer **out)
{
	struct rel_peer *rp = peer->rel;

	if (peer->dead)
		return peer->dead;
	if (r->draining)
		return -ECANCELED;
	if (!rp && !(rp = rel_peer_new(r, peer)))
		return -EAGAIN;
	if (unlikely(rp->is_half))
		rel_half_end(rp);
	*out = rp;
	return rp->state == REL_S_CLOSED || rp->state == REL_S_BYE ? -ECONNREFUSED : 0;
}

static bool has_room(const struct rel *r, const struct rel_peer *rp)
{
	return (r->frame_cnt < REL_FRAMES_MAX || rp->frame_cnt < REL_FRAMES_OWN) && rp->frame_cnt < REL_FRAMES_PEER;
}

/* @f, which says all of itself but its number, is the last one to @rp. */
static void frame_queue(struct rel_peer *rp, struct rel_frame *f, uint64_t now_ns)
{
	struct rel *r = rp->r;

	f->id = rp->frame_next++;
	if (!rel_busy(rp)) {
		rp->since_ns = now_ns;
		rp->probes = 0;
	}
	if (rp->q_tail)
		rp->q_tail->next = f;
	else
		rp->q_head = f;
	rp->q_tail = f;
	rp->q_bytes += f->len + (uint32_t)sizeof(struct rel_rec);
	rp->frame_cnt++;
	r->frame_cnt++;
	r->own_cnt += f->is_own;
	rp->own_cnt += f->is_own;
	r->fresh_bytes += f->len;
	r->has_urgent |= !rp->flight_cnt;
	rel_ready(rp);
}

int rel_send(struct rel *r, struct link_peer *peer, enum link_kind kind, const void *hdr,
	     size_t hdr_len, const struct iovec *iov, int iov_cnt, void *cookie, uint64_t now_ns)
{
	struct rel_peer *rp;
	struct rel_frame *f;
	int rc;

	if (!frame_fits(hdr_len, iov, iov_cnt))
		return -EMSGSIZE;
	rc = send_check(r, peer, &rp);
	if (rc)
		return rc;
	if (r->port->cls == LINK_RAW) {
		struct rel_frame raw;

		frame_fill(&raw, kind, hdr, hdr_len, iov, iov_cnt);
		return rel_raw_send(rp, &raw);
	}
	if (!has_room(r, rp) || !(f = slab_get(&r->frames)))
		return -EAGAIN;
	frame_fill(f, kind, hdr, hdr_len, iov, iov_cnt);
	f->tag = (uintptr_t)cookie;
	f->is_own = false;
	frame_queue(rp, f, now_ns);
	return 0;
}

uint8_t *rel_begin(struct rel *r, struct link_peer *peer)
{
	struct rel_peer *rp;

	if (send_check(r, peer, &rp) || !has_room(r, rp) || r->own_cnt >= LINK_OWN_CNT)
		return NULL;
	if (!r->begun)
		r->begun = slab_get(&r->frames);
	return r->begun ? r->begun->hdr : NULL;
}

void rel_commit(struct rel *r, struct link_peer *peer, size_t len, void *cookie, uint64_t tag, uint64_t now_ns)
{
	struct rel_frame *f = r->begun;

	r->begun = NULL;
	frame_init(f, LINK_K_NIC, len);
	f->is_own = !cookie;
	f->tag = cookie ? (uintptr_t)cookie : tag;
	frame_queue(peer->rel, f, now_ns);
}

void rel_linger(struct rel *r, uint64_t now_ns)
{
	if (!r->linger_ns)
		r->linger_ns = now_ns + REL_ACK_DELAY_NS;
	r->fresh_bytes = 0; /* it begins no burst that an answer would have to wait for */
}

bool rel_lingers(const struct rel *r)
{
	return r->linger_ns;
}

bool rel_may_wait(const struct rel *r, uint64_t now_ns)
{
	return !r->has_urgent && r->fresh_bytes < REL_BURST_BYTES && now_ns - r->sent_ns < REL_BURST_NS;
}

/*
 * The pair of @src with nonce @pair; *known: some peer lives at @src, *waiting: and has not said that it has the pair.
 */
static struct rel_peer *find_pair(struct rel *r, const struct link_addr *src, uint64_t pair,
				  bool *known, bool *waiting)
{
	struct rel_peer *rp = r->found;

	*known = *waiting = false;
	if (likely(rp && pair && rp->pair == pair && link_same_place(&rp->peer->addr, src)))
		return rp;
	for (rp = rel_peer_first(r, src); rp; rp = rel_peer_next(rp)) {
		if (pair && rp->pair == pair) {
			r->found = rp;
			return rp;
		}
		*known = true;
		*waiting |= rp->state == REL_S_OPEN && !rp->is_sure;
	}
	return NULL;
}

static void pair_input(struct rel_peer *rp, const struct rel_pkt *pkt, size_t len, uint64_t now_ns)
{
	struct link_stats *st = &rp->r->port->stats;

	if (rp->has_crc && !(pkt->flags & REL_F_CRC)) {
		st->drop_malformed++;
		return;
	}
	rel_peer_pin(rp);
	rp->heard_ns = now_ns;
	rp->has_heard = rp->is_sure = true;
	rp->is_proved = false;
	if (pkt->type == REL_BYE) {
		rel_on_bye(rp, pkt, now_ns);
	} else if (pkt->type == REL_BYE_ACK) {
		if (rp->state == REL_S_BYE)
			rel_set_state(rp, REL_S_CLOSED);
	} else if (rp->state == REL_S_OPEN) {
		uint64_t pair = rp->pair;

		if (!rel_on_ack(rp, pkt, now_ns))
			st->drop_malformed++;
		else if (rp->pair != pair || rp->state != REL_S_OPEN) /* a callback ended it */
			;
		else if (pkt->type == REL_DATA)
			rel_on_data(rp, pkt, len, now_ns);
		else if (pkt->type == REL_NAK)
			rel_on_naks(rp, pkt);
		else
			rel_nak_confirmed(rp, pkt->seq, now_ns);
	}
	if (rel_peer_unpin(rp))
		rel_timer_update(rp, now_ns);
}

/* A pair has been made with @rp, if it is not NULL. */
static void pair_made(struct rel *r, struct rel_peer *rp, uint64_t now_ns)
{
	if (!rp)
		return;
	r->met = (uint32_t)rp->pair;
	rel_timer_update(rp, now_ns);
}

static void raw_input(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt, uint64_t now_ns)
{
	uint32_t src_nonce = (uint32_t)pkt->nonce, dst_nonce = (uint32_t)(pkt->nonce >> 32);
	struct link_addr addr = *src;
	struct rel_peer *rp;

	if ((dst_nonce && dst_nonce != r->port->self.nonce) || !src_nonce) {
		r->port->stats.drop_nonce++;
		return;
	}
	if (r->wants_crc && !(pkt->flags & REL_F_CRC)) {
		r->port->stats.drop_malformed++;
		return;
	}
	rp = rel_peer_find(r, src, src_nonce);
	if (!rp) {
		addr.nonce = src_nonce;
		rp = rel_peer_arrived(r, &addr, now_ns);
	}
	if (!rp) /* counted */
		return;
	rel_peer_pin(rp);
	rel_on_raw(rp, pkt, now_ns);
	if (rel_peer_unpin(rp))
		rel_timer_update(rp, now_ns);
}

/* What cannot be read begins like a sealed datagram, and this room has no key. */
static void seal_hint(struct link_port *p, const struct link_addr *src, const uint8_t *buf, size_t len)
{
	char text[LINK_ADDR_TEXT];

	if (p->is_seal_said || p->node->room->is_sealed || len < SEAL_OVERHEAD || *buf != SEAL_MAGIC)
		return;
	p->is_seal_said = true;
	LOG_WARN(
		"a datagram from %s is sealed, and SOFTFABRIC_NET has no key= here; it is dropped, as further ones "
		"will be",
		link_addr_text(src, text));
}

void rel_input(struct rel *r, const struct link_addr *src, const void *buf, size_t len,
	       uint64_t now_ns)
{
	struct link_stats *st = &r->port->stats;
	bool known, waiting;
	struct rel_peer *rp;
	struct rel_pkt pkt;

	switch (rel_pkt_check(buf, len, &pkt)) {
	case REL_OK:
		break;
	case REL_BAD_VERSION:
		st->drop_version++;
		/* no answer is longer than its question */
		if (pkt.type == REL_HELLO && len >= sizeof(struct rel_base) + sizeof(struct rel_refuse))
			rel_refuse(r, src, &pkt, REL_R_VERSION, now_ns);
		return;
	case REL_BAD_FORM:
	case REL_CHECK_NUM:
		st->drop_malformed++;
		seal_hint(r->port, src, buf, len);
		return;
	}
	if (pkt.type == REL_HELLO && r->port->cls == LINK_RAW && pkt.hello.cls == LINK_RAW) {
		st->drop_malformed++;
	} else if (pkt.type == REL_HELLO) {
		pair_made(r, rel_on_hello(r, src, &pkt, now_ns), now_ns);
	} else if (pkt.type == REL_HELLO_ACK) {
		pair_made(r, rel_on_hello_ack(r, src, &pkt, now_ns), now_ns);
	} else if (pkt.type == REL_REFUSE) {
		rel_on_refuse(r, src, &pkt);
	} else if ((pkt.type == REL_RAW) != (r->port->cls == LINK_RAW)) {
		st->drop_malformed++;
	} else if (pkt.type == REL_RAW) {
		raw_input(r, src, &pkt, now_ns);
	} else if ((rp = find_pair(r, src, pkt.nonce, &known, &waiting))) {
		pair_input(rp, &pkt, len, now_ns);
	} else {
		if (pkt.type == REL_BYE || pkt.type == REL_BYE_ACK)
			st->late_byes++; /* both sides close at once, or our answer was lost */
		else if (known)
			st->drop_nonce++;
		else
			st->drop_source++;
		if (!waiting && pkt.type != REL_BYE_ACK && !(pkt.flags & REL_F_NEW))
			rel_refuse(r, src, &pkt, REL_R_GONE, now_ns);
	}
}

/* Does @e quote something that only @rp and we, or who sees our traffic, can know? */
static bool quote_is_ours(const struct rel_peer *rp, const struct carrier_error *e)
{
	struct wire_rd rd = wire_rd(e->quote, e->quote_len);
	bool is_sure = rp->state == REL_S_OPEN ? rp->is_sure : rp->state != REL_S_HELLO;
	struct rel_base b;
	le64_t half;

	if (!e->quote)
		return true;
	if (!WIRE_GET(&rd, &b) || b.magic != REL_MAGIC || b.version != REL_VERSION)
		return false;
	if (rp->r->port->cls == LINK_RAW)
		return b.type == REL_RAW && (uint32_t)le64_get(b.nonce) == rp->r->port->self.nonce;
	if (b.type != REL_HELLO)
		return rp->pair && le64_get(b.nonce) == rp->pair;
	return !is_sure && WIRE_GET(&rd, &half) && le64_get(half) == rp->half;
}

static void path_lower(struct rel_peer *rp, uint32_t to, uint64_t now_ns)
{
	char text[LINK_ADDR_TEXT];

	to = MAX(to, 1u);
	if (to >= rp->mtu && (!rp->path_mtu || to >= rp->path_mtu))
		return;
	LOG_INFO("datagrams of %u bytes are too big for the path to %s: %u for a while", rp->mtu,
		 link_addr_text(&rp->peer->addr, text), to);
	if (to < REL_MTU_MIN)
		LOG_WARN(
			"the path to %s takes %u bytes whole, less than %u: datagrams are cut up for it, which is slow",
			link_addr_text(&rp->peer->addr, text), to, REL_MTU_MIN);
	rp->mtu = MAX(to, (uint32_t)REL_MTU_MIN);
	rp->path_mtu = to;
	rp->path_ns = now_ns;
}

void rel_error(struct rel *r, const struct link_addr *dst, const struct carrier_error *e, uint64_t now_ns)
{
	struct rel_peer *rp = rel_peer_first(r, dst), *next;
	bool is_ours = false;

	for (; rp; rp = next) {
		next = rel_peer_next(rp);
		if (!quote_is_ours(rp, e))
			continue;
		is_ours = true;
		if (e->err == EMSGSIZE) {
			path_lower(rp, e->mtu, now_ns);
		} else if (r->port->cls != LINK_RAW) {
			rel_peer_pin(rp);
			rel_peer_refused(rp, -ECONNREFUSED);
			rel_peer_unpin(rp);
			if (e->quote) /* of this one alone */
				break;
			next = NULL; /* the chain may have changed: the next error tells the others */
		} else if (r->port->ops->on_gone) {
			rel_peer_kill(rp, -ECONNREFUSED); /* one for each place, and a callback may make it anew */
			break;
		}
	}
	r->port->stats.drop_quote += !is_ours;
}

static struct rel_peer *ready_pop(struct rel *r)
{
	struct rel_peer *rp = r->ready;

	if (!rp)
		return NULL;
	r->ready = rp->ready_next;
	if (!r->ready)
		r->ready_end = &r->ready;
	rp->is_ready = false;
	return rp;
}

/* All that the windows of @rp allow. Return: false if the carrier has no room. */
static bool peer_flush(struct rel_peer *rp, uint64_t now_ns)
{
	if (rp->state == REL_S_NONE && rp->q_head)
		rel_hello_start(rp, now_ns);
	if (rp->state != REL_S_OPEN)
		return true;
	rel_mtu_look(rp, now_ns);
	if (rp->nak_next && !rel_nak_flush(rp, now_ns))
		return false;
	if ((rp->q_head || rp->tx_una != rp->tx_seq) && !rel_tx_flush(rp, now_ns))
		return false;
	if ((rp->owes_ack && rp->ack_now) || rp->has_naks)
		rel_control(rp, REL_ACK, now_ns);
	return true;
}

static void flush_pass(struct rel *r, uint64_t now_ns)
{
	uint32_t bytes = r->fresh_bytes;
	struct rel_peer *rp;

	r->retry_ns = 0;
	if (r->raw_to && r->fresh_bytes)
		r->sent_ns = now_ns;
	r->fresh_bytes = 0;
	r->has_urgent = false;
	rel_timers_run(r, now_ns);
	while ((rp = ready_pop(r))) {
		bool has_room;

		rel_peer_pin(rp);
		has_room = peer_flush(rp, now_ns);
		if (!rel_peer_unpin(rp))
			continue;
		if (!has_room) {
			rel_ready(rp);
			r->retry_ns = now_ns + REL_RETRY_NS;
			break;
		}
		rel_timer_update(rp, now_ns);
	}
	rel_carrier_flush(r);
	if (bytes > REL_CORK_BYTES && r->sent_ns == now_ns) /* its copy alone takes longer than a burst may pause */
		r->sent_ns = clk_now_ns(&r->port->node->clk);
}

void rel_flush(struct rel *r, uint64_t now_ns)
{
	if (r->in_flush) { /* the owner rings from a callback of ours */
		r->flush_again = true;
		return;
	}
	r->in_flush = true;
	do {
		r->flush_again = false;
		flush_pass(r, now_ns);
	} while (r->flush_again);
	r->in_flush = false;
}

bool rel_ack_owed(struct rel *r, uint64_t now_ns)
{
	bool is_any = r->linger_ns;
	struct pq_node *first;

	while ((first = pq_peek(&r->timers)) && first->key_ns <= now_ns + REL_ACK_DELAY_NS) {
		struct rel_peer *rp = container_of(first, struct rel_peer, timer);

		if (!rp->owes_ack || rp->ack_now)
			break; /* something else is due; so soon that the sleep ends at once */
		rp->ack_now = is_any = true;
		rel_ready(rp);
		rel_timer_update(rp, now_ns);
	}
	return is_any;
}

uint64_t rel_next_deadline(struct rel *r)
{
	const struct rel_peer *half = TAILQ_FIRST(&r->strangers);
	struct pq_node *first = pq_peek(&r->timers);
	uint64_t at = first ? first->key_ns : CLK_NEVER;

	if (half)
		at = MIN(at, half->made_ns + REL_HALF_NS);
	if (r->stage_at) /* something was handed to the carrier and not flushed */
		return MIN(at, r->linger_ns);
	return r->ready ? MIN(at, r->retry_ns) : at;
}

bool rel_drain(struct rel *r, uint64_t now_ns)
{
	bool is_done = true;

	r->draining = true;
	for (uint32_t i = 0; i <= r->tab_mask && r->port->cls != LINK_RAW; i++) {
		for (struct rel_peer *rp = r->tab[i]; rp; rp = rp->hnext) {
			bool is_busy = rel_busy(rp);

			if (rp->state == REL_S_OPEN && !is_busy) {
				rel_bye_start(rp, now_ns);
				rel_timer_update(rp, now_ns);
			}
			is_done &= !is_busy && rp->state != REL_S_OPEN && rp->state != REL_S_BYE;
		}
	}
	rel_flush(r, now_ns);
	return is_done;
}

uint32_t rel_peer_own(const struct rel_peer *rp)
{
	return rp->own_cnt;
}

uint32_t rel_own(const struct rel *r)
{
	return r->own_cnt;
}

uint32_t rel_outstanding(const struct rel *r)
{
	return r->frame_cnt;
}
