// SPDX-License-Identifier: BSD-2-Clause
// Frames in: duplicates, order, assembly of segments, delivery, refusals, and the acknowledgement
// we owe.
#include "link/core/link_int.h"

#include <errno.h>
#include <string.h>

#include "link/net/rel_int.h"

/* --- delivery --------------------------------------------------------------------------------- */

/* Return: false if the pair ended in the callback. */
static bool deliver(struct rel_peer *rp, uint32_t seq, const struct rel_rec_in *rec, const void *p,
		    uint32_t len)
{
	uint64_t pair = rp->pair;
	bool was_busy = rel_busy(rp);
	int code;

	rp->r->port->stats.net_rx_frames += rec->kind == LINK_K_NIC;
	code = port_deliver(rp->r->port, rp->peer, rec->kind, p, len);

	if (!rp->peer || rp->pair != pair)
		return false;
	if (code <= 0)
		return true;
	if (rp->r->port->cls == LINK_RAW) {
		rp->r->port->stats.naks_tx++;
		return true;
	}
	if (!was_busy) {
		rp->since_ns = rp->heard_ns;
		rp->probes = 0;
	}
	rel_nak_owe(rp, seq, rec->frame, code);
	return true;
}

/* --- assembly --------------------------------------------------------------------------------- */

static struct rel_asm **asm_at(struct rel_win *w, uint32_t frame)
{
	struct rel_asm **at = &w->asm_tab[frame % REL_ASM_HASH];

	while (*at && (*at)->frame != frame)
		at = &(*at)->next;
	return at;
}

static struct rel_asm *asm_new(struct rel_peer *rp)
{
	struct rel_asm *a = rel_quota_has(rp, REL_Q_ASM, 1) ? slab_get(&rp->r->asms) : NULL;

	if (a)
		rel_quota_add(rp, REL_Q_ASM, 1);
	return a;
}

/* Something has to wait from now on. */
static void old_note(struct rel_win *w, uint64_t now_ns)
{
	if (w->old_ns == CLK_NEVER)
		w->old_ns = now_ns;
}

uint64_t rel_rx_old_ns(struct rel_peer *rp, bool exact)
{
	struct rel_win *w = rp->win;
	uint64_t old = CLK_NEVER;

	if (!exact)
		return w->old_ns;
	for (const struct rel_stash *s = w->stash; s; s = s->next)
		old = MIN(old, s->born_ns);
	for (uint32_t i = 0; i < REL_ASM_HASH; i++) {
		for (const struct rel_asm *a = w->asm_tab[i]; a; a = a->next)
			old = MIN(old, a->born_ns);
	}
	return old;
}

/* A place for the frame of @rec, new if need be. NULL: none left, or the frame's segments disagree
 * about it. */
static struct rel_asm *asm_get(struct rel_peer *rp, const struct rel_rec_in *rec, uint32_t cnt_max,
			       uint64_t now_ns)
{
	struct rel_win *w = rp->win;
	struct rel_asm **at = asm_at(w, rec->frame), *a = *at;

	if (a)
		return a->total == rec->total && a->seg_cnt == rec->seg_cnt &&
				       a->seg_len == rec->seg_len && a->kind == rec->kind
			       ? a
			       : NULL;
	a = w->spare;
	w->spare = NULL;
	if (!a && (w->asm_cnt >= cnt_max || !(a = asm_new(rp))))
		return NULL;
	old_note(w, now_ns);
	a->next = NULL;
	a->born_ns = now_ns;
	a->frame = rec->frame;
	a->total = rec->total;
	a->seg_len = rec->seg_len;
	a->seg_cnt = rec->seg_cnt;
	a->kind = rec->kind;
	a->got = 0;
	w->asm_cnt++;
	*at = a;
	return a;
}

static void asm_free(struct rel_peer *rp, struct rel_asm **at)
{
	struct rel_asm *a = *at;

	*at = a->next;
	rp->win->asm_cnt--;
	rel_asm_put(rp, a);
}

/* Take one segment; deliver the frame when it was the last. Return: false if the pair ended in the
 * callback. */
static bool seg_take(struct rel_peer *rp, uint32_t seq, const struct rel_rec_in *rec,
		     struct rel_asm *a)
{
	bool is_ok;

	if (a->got & BIT(rec->seg_idx))
		return true;
	a->got |= BIT(rec->seg_idx);
	memcpy(a->buf + rec->off, rec->p, rec->len);
	if (a->got != UINT64_MAX >> (64 - a->seg_cnt))
		return true;
	/* out of the table first: the owner may drop the peer */
	*asm_at(rp->win, a->frame) = a->next;
	rp->win->asm_cnt--;
	is_ok = deliver(rp, seq, rec, a->buf, a->total);
	rel_asm_put(rp, a);
	return is_ok;
}

/* --- the way of a DATA ------------------------------------------------------------------------ */

/* Return: false if the pair ended in a callback. */
static bool recs_process(struct rel_peer *rp, uint32_t seq, const uint8_t *recs, uint32_t len,
			 uint64_t now_ns)
{
	struct wire_rd rd = wire_rd(recs, len);
	struct rel_rec_in rec;

	while (rel_rec_next(&rd, &rec)) {
		struct rel_asm *a;

		if (!(rec.flags & REL_REC_SEG)) {
			if (!deliver(rp, seq, &rec, rec.p, rec.len))
				return false;
		} else if ((a = asm_get(rp, &rec, REL_ASM_PEER, now_ns))) {
			if (!seg_take(rp, seq, &rec, a))
				return false;
		} else {
			rp->r->port->stats.drop_malformed++; /* segments of an honest sender agree */
		}
	}
	return true;
}

static uint32_t stash_cost(uint32_t len)
{
	return (uint32_t)sizeof(struct rel_stash) + len;
}

static bool stash_put(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns)
{
	struct rel_win *w = rp->win;
	struct rel_stash *s, **at = &w->stash;

	/* an honest peer never has more on its way than it has credit for */
	if (!rel_quota_has(rp, REL_Q_STASH, stash_cost(pkt->recs_len)) || !rel_quota_has(rp, REL_Q_EARLY, pkt->rec_cnt))
		return false;
	s = mem_alloc(stash_cost(pkt->recs_len));
	if (!s)
		return false;
	rel_quota_add(rp, REL_Q_STASH, stash_cost(pkt->recs_len));
	rel_quota_add(rp, REL_Q_EARLY, pkt->rec_cnt);
	old_note(w, now_ns);
	s->born_ns = now_ns;
	s->seq = pkt->seq;
	s->len = pkt->recs_len;
	s->rec_cnt = pkt->rec_cnt;
	memcpy(s->recs, pkt->recs, pkt->recs_len);
	if (w->stash_tail && rel_seq_before(w->stash_tail->seq, s->seq))
		at = &w->stash_tail->next;
	while (*at && rel_seq_before((*at)->seq, s->seq))
		at = &(*at)->next;
	s->next = *at;
	*at = s;
	if (!s->next)
		w->stash_tail = s;
	rp->r->stash_recs += s->rec_cnt;
	return true;
}

static struct rel_stash *stash_pop(struct rel_peer *rp)
{
	struct rel_win *w = rp->win;
	struct rel_stash *s = w->stash;

	w->stash = s->next;
	if (!w->stash)
		w->stash_tail = NULL;
	rel_quota_put(rp, REL_Q_STASH, stash_cost(s->len));
	rel_quota_put(rp, REL_Q_EARLY, s->rec_cnt);
	rp->r->stash_recs -= s->rec_cnt;
	return s;
}

/* ORDERED: what waited for the DATA just processed. Return: false if the pair ended in a callback.
 */
static bool stash_process(struct rel_peer *rp, uint64_t now_ns)
{
	while (rp->win->stash && rp->win->stash->seq == rp->rx_proc) {
		struct rel_stash *s = stash_pop(rp);
		bool is_ok = recs_process(rp, s->seq, s->recs, s->len, now_ns);

		mem_free(s);
		if (!is_ok)
			return false;
		rp->rx_proc++;
	}
	return true;
}

/* Before a DATA is believed to have arrived: memory for all that its processing may need. It can be
 * refused only now. */
static bool data_reserve(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns)
{
	struct rel *r = rp->r;
	struct wire_rd rd = wire_rd(pkt->recs, pkt->recs_len);
	struct rel_rec_in rec;

	/* each frame may be refused */
	if (!rel_quota_has(rp, REL_Q_NAK, pkt->rec_cnt) ||
	    slab_reserve(&r->naks, slab_used(&r->naks) + r->stash_recs + pkt->rec_cnt))
		return false;
	if (!rel_rec_next(&rd, &rec) || !(rec.flags & REL_REC_SEG))
		return true;
	if (r->port->cls == LINK_ORDERED) {
		/* segments are processed in order, so one frame at a time: it is being assembled,
		 * or will need the spare */
		if (!rp->win->spare && !rp->win->asm_cnt)
			rp->win->spare = asm_new(rp);
		return rp->win->spare || rp->win->asm_cnt;
	}
	return asm_get(rp, &rec, REL_ASM_PEER, now_ns) || *asm_at(rp->win, rec.frame);
}

static void epoch_count(struct rel_peer *rp, uint64_t now_ns)
{
	struct rel *r = rp->r;
	uint32_t epoch = (uint32_t)(now_ns / REL_EPOCH_NS);

	if (r->rx_epoch != epoch) {
		r->rx_active_prev = r->rx_epoch + 1 == epoch ? r->rx_active : 0;
		r->rx_active = 0;
		r->rx_epoch = epoch;
	}
	if (rp->rx_epoch != epoch || !r->rx_active) {
		rp->rx_epoch = epoch;
		r->rx_active++;
	}
}

/* What is dropped for want of memory has not arrived, so it is not echoed either. */
static void echo_note(struct rel_peer *rp, uint16_t tx, uint64_t now_ns)
{
	if (rp->has_echo_rx && !rel_tx_before(rp->echo_rx, tx))
		return;
	rp->has_echo_rx = true;
	rp->echo_rx = tx;
	rp->rx_echo_ns = now_ns - rel_away_ns(rp->r, now_ns);
}

/* Return: false if there is nothing new in it, or no memory for it. */
static bool data_is_new(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns)
{
	struct link_stats *st = &rp->r->port->stats;
	uint32_t off = pkt->seq - rp->rx_next;

	epoch_count(rp, now_ns);
	rp->used_ns = now_ns;
	if (!pkt->rec_cnt || rel_seq_before(pkt->seq, rp->rx_next) ||
	    (rp->win && off < REL_WINDOW && rel_is_seen(rp->win, pkt->seq))) {
		st->dup_rx += pkt->rec_cnt != 0;
		echo_note(rp, pkt->tx, now_ns);
		rel_ack_owe(rp, true,
			now_ns); /* the earlier acknowledgement was lost, or this asks for one */
		return false;
	}
	if (off >= REL_WINDOW || rel_win_get(rp) || !data_reserve(rp, pkt, now_ns)) {
		st->drop_full++;
		return false;
	}
	return true;
}

void rel_on_data(struct rel_peer *rp, const struct rel_pkt *pkt, size_t len, uint64_t now_ns)
{
	struct rel *r = rp->r;
	bool is_ordered = r->port->cls == LINK_ORDERED, is_turn, is_awaited;

	if (!data_is_new(rp, pkt, now_ns))
		return;
	is_turn = !is_ordered || pkt->seq == rp->rx_proc;
	if (!is_turn && !stash_put(rp, pkt, now_ns)) {
		r->port->stats.drop_full++;
		return;
	}
	if (unlikely(rp->is_half))
		rel_half_end(rp);
	echo_note(rp, pkt->tx, now_ns);
	/* held while callbacks run: no acknowledgement sent meanwhile may call it final */
	rp->win->hold[pkt->seq % REL_WINDOW]++;
	rel_seen_flip(rp->win, pkt->seq);
	is_awaited = !rp->rx_dgrams && pkt->rec_cnt == 1 && rp->acks_alone >= REL_ACKS_ALONE;
	rp->rx_dgrams++;
	rp->rx_bytes += (uint32_t)len;
	rel_ack_owe(rp, pkt->seq != rp->rx_top || rp->rx_dgrams >= REL_ACK_SOON, now_ns);
	if (!rel_seq_before(pkt->seq, rp->rx_top))
		rp->rx_top = pkt->seq + 1;
	if (is_turn && !recs_process(rp, pkt->seq, pkt->recs, pkt->recs_len, now_ns))
		return;
	rp->win->hold[pkt->seq % REL_WINDOW]--;
	if (is_ordered && is_turn) {
		rp->rx_proc++;
		if (!stash_process(rp, now_ns))
			return;
	}
	rel_rx_advance(rp);
	if (is_awaited && rp->owes_ack) /* only now is it final, and nobody has answered */
		rel_ack_owe(rp, true, now_ns);
	if (rp->owes_ack && (rp->rx_dgrams >= REL_ACK_DGRAMS || rp->rx_bytes >= REL_ACK_BYTES)) {
		rel_control(rp, REL_ACK, now_ns);
		rel_carrier_flush(r);
	}
}

bool rel_rx_idle(const struct rel_peer *rp)
{
	return !rp->win || (rp->rx_next == rp->rx_top && !rp->win->asm_cnt);
}

void rel_rx_reset(struct rel_peer *rp)
{
	struct rel_win *w = rp->win;

	for (uint32_t i = 0; w && i < REL_ASM_HASH; i++) {
		while (w->asm_tab[i])
			asm_free(rp, &w->asm_tab[i]);
	}
	while (w && w->stash)
		mem_free(stash_pop(rp));
	rp->owes_ack = rp->ack_now = false;
	rp->rx_next = rp->rx_proc = rp->rx_top;
}

/* --- RAW -------------------------------------------------------------------------------------- */

void rel_raw_expire(struct rel_peer *rp, uint64_t now_ns)
{
	for (uint32_t i = 0; rp->win && i < REL_ASM_HASH; i++) {
		struct rel_asm **at = &rp->win->asm_tab[i];

		while (*at) {
			if ((*at)->born_ns + REL_RAW_ASM_NS <= now_ns)
				asm_free(rp, at);
			else
				at = &(*at)->next;
		}
	}
}

static void raw_evict_oldest(struct rel_peer *rp)
{
	struct rel_asm **oldest = NULL;

	for (uint32_t i = 0; i < REL_ASM_HASH; i++) {
		for (struct rel_asm **at = &rp->win->asm_tab[i]; *at; at = &(*at)->next) {
			if (!oldest || (*at)->born_ns < (*oldest)->born_ns)
				oldest = at;
		}
	}
	asm_free(rp, oldest);
}

void rel_on_raw(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns)
{
	struct wire_rd rd = wire_rd(pkt->recs, pkt->recs_len);
	struct rel_rec_in rec;

	rp->peer->is_met = true;
	while (rel_rec_next(&rd, &rec)) {
		struct rel_asm *a;

		if (!(rec.flags & REL_REC_SEG)) {
			if (!deliver(rp, 0, &rec, rec.p, rec.len))
				return;
		} else {
			if (rel_win_get(rp))
				return;
			if (!*asm_at(rp->win, rec.frame) && rp->win->asm_cnt &&
			    (rp->win->asm_cnt >= REL_RAW_ASM_CNT || !rel_quota_has(rp, REL_Q_ASM, 1)))
				raw_evict_oldest(rp);
			rp->used_ns = now_ns;
			a = asm_get(rp, &rec, REL_RAW_ASM_CNT, now_ns);
			if (!a)
				rp->r->port->stats.drop_full++;
			else if (!seg_take(rp, 0, &rec, a))
				return;
		}
	}
}
