// SPDX-License-Identifier: BSD-2-Clause
// Frames out: queue, slots, what may be sent and what is sent again, and how frames end. Their datagrams are made by
// rel_out.c.
#include "link/core/link_int.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "link/net/rel_int.h"

/* --- frames ----------------------------------------------------------------------------------- */

void rel_frame_end(struct rel_peer *rp, struct rel_frame *f, int status)
{
	if (f->is_done)
		return;
	f->is_done = true;
	rp->frame_cnt--;
	rp->r->frame_cnt--;
	rp->r->own_cnt -= f->is_own;
	rp->own_cnt -= f->is_own;
	if (!f->is_own && f->tag)
		rp->r->port->up->sent(rp->r->port, f->kind, (void *)(uintptr_t)f->tag, status);
	else if (unlikely(f->is_own && status))
		rp->r->port->up->lost(rp->r->port, rp->peer ? rp->peer : rp->left, f->tag, f->hdr, f->hdr_len, status);
}

void rel_frames_end(struct rel_peer *rp, struct rel_frame *list, int status)
{
	struct rel_frame *next;

	for (struct rel_frame *f = list; f; f = next) {
		next = f->next;
		rel_frame_end(rp, f, status);
		slab_put(&rp->r->frames, f);
	}
}

/* --- memory that goes ------------------------------------------------------------------------- */

struct repoint {
	enum link_kind kind;
	void (*fn)(void *arg, void *cookie, struct iovec *iov);
	void *arg;
};

static void frame_repoint(struct rel_frame *f, const struct repoint *to)
{
	if (f->kind != to->kind || f->is_own || f->is_done || !f->tag) /* of what has ended the cookie means nothing */
		return;
	for (int i = 0; i < f->iov_cnt; i++)
		to->fn(to->arg, (void *)(uintptr_t)f->tag, &f->iov[i]);
}

/* A frame in several segments is seen with each of them. */
static void peer_repoint(struct rel_peer *rp, const struct repoint *to)
{
	for (uint32_t seq = rp->tx_una; seq != rp->tx_seq; seq++) {
		const struct rel_slot *s = rel_slot_at(rp->win, seq);
		struct rel_frame *f = s->frame;

		for (uint32_t i = 0; i < s->frame_cnt; i++, f = f->next)
			frame_repoint(f, to);
	}
	for (struct rel_frame *f = rp->q_head; f; f = f->next)
		frame_repoint(f, to);
}

void rel_repoint(struct rel *r, enum link_kind kind, void (*fn)(void *arg, void *cookie, struct iovec *iov), void *arg)
{
	const struct repoint to = {kind, fn, arg};

	for (uint32_t i = 0; i <= r->tab_mask; i++) {
		for (struct rel_peer *rp = r->tab[i]; rp; rp = rp->hnext)
			peer_repoint(rp, &to);
	}
	rel_carrier_flush(r); /* what it was given points to the old place */
}

/* --- slots ------------------------------------------------------------------------------------ */

static uint16_t slot_idx(const struct rel_win *w, const struct rel_slot *s)
{
	return (uint16_t)(s - w->slot);
}

static void flight_add(struct rel_peer *rp, struct rel_slot *s)
{
	struct rel_win *w = rp->win;

	s->state = SLOT_FLIGHT;
	s->next = REL_NIL;
	s->prev = w->fl_tail;
	if (w->fl_tail == REL_NIL)
		w->fl_head = slot_idx(w, s);
	else
		w->slot[w->fl_tail].next = slot_idx(w, s);
	w->fl_tail = slot_idx(w, s);
	rp->flight_bytes += rel_slot_cost(s);
	rp->flight_cnt++;
}

static void flight_remove(struct rel_peer *rp, struct rel_slot *s)
{
	struct rel_win *w = rp->win;

	if (s->prev == REL_NIL)
		w->fl_head = s->next;
	else
		w->slot[s->prev].next = s->next;
	if (s->next == REL_NIL)
		w->fl_tail = s->prev;
	else
		w->slot[s->next].prev = s->prev;
	rp->flight_bytes -= rel_slot_cost(s);
	rp->flight_cnt--;
}

static void lost_add(struct rel_win *w, struct rel_slot *s, enum rel_slot_state state)
{
	s->state = (uint8_t)state;
	s->next = REL_NIL;
	s->prev = w->lost_tail;
	if (w->lost_tail == REL_NIL)
		w->lost_head = slot_idx(w, s);
	else
		w->slot[w->lost_tail].next = slot_idx(w, s);
	w->lost_tail = slot_idx(w, s);
}

static void lost_remove(struct rel_win *w, struct rel_slot *s)
{
	if (s->prev == REL_NIL)
		w->lost_head = s->next;
	else
		w->slot[s->prev].next = s->next;
	if (s->next == REL_NIL)
		w->lost_tail = s->prev;
	else
		w->slot[s->next].prev = s->prev;
}

void rel_slot_arrived(struct rel_peer *rp, struct rel_slot *s)
{
	if (s->state == SLOT_SACKED)
		return;
	if (s->state == SLOT_FLIGHT)
		flight_remove(rp, s);
	else
		lost_remove(rp->win, s);
	s->state = SLOT_SACKED;
}

void rel_slot_lost(struct rel_peer *rp, struct rel_slot *s)
{
	flight_remove(rp, s);
	lost_add(rp->win, s, SLOT_LOST);
	rel_ready(rp);
}

/* More slots; the lists hold places in the old array, which become places in the new one. */
static bool slots_grow(struct rel_peer *rp)
{
	struct rel_win *w = rp->win;
	uint32_t cnt = w->slot_cnt ? 2 * w->slot_cnt : REL_WIN_MIN, una = rp->tx_una;
	struct rel_slot *slot = mem_alloc(cnt * sizeof(*slot));
	uint16_t *link[] = {&w->fl_head, &w->fl_tail, &w->lost_head, &w->lost_tail};

	if (!slot)
		return false;
#define MOVED(idx_)                                                                                \
	((idx_) == REL_NIL ? REL_NIL                                                               \
			   : (uint16_t)((una + (((idx_)-una) & (w->slot_cnt - 1))) & (cnt - 1)))
	for (uint32_t seq = una; seq != rp->tx_seq; seq++) {
		struct rel_slot *s = &slot[seq & (cnt - 1)];

		*s = *rel_slot_at(w, seq);
		s->prev = MOVED(s->prev);
		s->next = MOVED(s->next);
	}
	for (size_t i = 0; i < ARRAY_SIZE(link); i++)
		*link[i] = MOVED(*link[i]);
#undef MOVED
	mem_free(w->slot);
	w->slot = slot;
	w->slot_cnt = cnt;
	return true;
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Send the datagram of @s, which is in no list. Return: false, nothing happened, if the carrier has no room. */
static bool slot_send(struct rel_peer *rp, struct rel_slot *s, uint32_t seq, uint64_t now_ns)
{
	uint16_t tx = (uint16_t)(rp->tx_no + 1);

	if (rel_data_send(rp, s, seq, tx, now_ns))
		return false;
	rp->tx_no = s->tx = tx;
	s->sent_ns = rp->used_ns = rp->r->sent_ns = now_ns;
	if (s->sends)
		rp->r->port->stats.retrans++;
	s->sends += s->sends < UINT8_MAX;
	flight_add(rp, s);
	return true;
}

static uint32_t slot_seq(const struct rel_peer *rp, const struct rel_slot *s)
{
	return rp->tx_una + ((slot_idx(rp->win, s) - rp->tx_una) & (rp->win->slot_cnt - 1));
}

static bool may_send(const struct rel_peer *rp)
{
	return !rp->flight_cnt || rp->flight_bytes < MIN(rp->credit, rp->cwnd);
}

/* ORDERED: what arrived early fills the receiver's memory until its turn comes, so it counts
 * against the credit until it is final. */
static bool may_send_new(const struct rel_peer *rp)
{
	if (rp->r->port->cls == LINK_ORDERED && rp->open_bytes >= rp->credit)
		return rp->tx_una == rp->tx_seq;
	return rp->tx_seq - rp->tx_una < REL_WINDOW && may_send(rp);
}

static bool lost_flush(struct rel_peer *rp, uint64_t now_ns)
{
	struct rel_win *w = rp->win;

	while (w->lost_head != REL_NIL && may_send(rp)) {
		struct rel_slot *s = &w->slot[w->lost_head];
		enum rel_slot_state was = s->state;

		lost_remove(w, s);
		if (!slot_send(rp, s, slot_seq(rp, s), now_ns)) {
			lost_add(w, s, was);
			return false;
		}
	}
	return true;
}

/*
 * Small frames wait for others to share a datagram with while enough is in flight that its acknowledgement will release
 * them.
 */
static bool is_corked(const struct rel_peer *rp)
{
	return rp->flight_cnt >= REL_CORK && !rp->q_seg && rp->q_bytes < MIN(rp->mtu, REL_CORK_BYTES);
}

static void q_pop(struct rel_peer *rp)
{
	struct rel_frame *f = rp->q_head;

	rp->q_head = f->next;
	if (!rp->q_head)
		rp->q_tail = NULL;
	f->next = NULL;
	rp->q_bytes -= f->len + (uint32_t)sizeof(struct rel_rec);
}

static void slot_add(struct rel_slot *s, struct rel_frame **tail, struct rel_frame *f)
{
	if (*tail)
		(*tail)->next = f;
	else
		s->frame = f;
	*tail = f;
	f->seg_cnt = f->segs_left = 1;
	s->frame_cnt++;
}

/* Whole frames into slot @s, as many as fit, and as its receiver has room of its own to refuse. */
static void slot_take_whole(struct rel_peer *rp, struct rel_slot *s, uint32_t seq)
{
	struct rel_frame *tail = NULL, *f;
	bool is_open = true; /* the last piece is in the stage and may grow */
	int pieces = 1;

	while ((f = rp->q_head) && !rp->q_seg && s->frame_cnt < REL_RECS_MAX) {
		uint32_t len = (uint32_t)sizeof(struct rel_rec) + f->len;
		bool by_ref = f->len > REL_COPY_MAX;
		int more = !is_open + (by_ref ? f->iov_cnt : 0);

		if (s->len + len > rp->mtu || pieces + more > REL_IOV_CNT)
			return;
		q_pop(rp);
		f->first_seq = seq;
		slot_add(s, &tail, f);
		s->len += len;
		pieces += more;
		is_open = !by_ref;
	}
}

/* The next segment of the first frame, which is longer than a datagram. */
static void slot_take_seg(struct rel_peer *rp, struct rel_slot *s, uint32_t seq)
{
	struct rel_frame *f = rp->q_head;

	if (!rp->q_seg) {
		uint32_t room = rp->mtu - (uint32_t)(sizeof(struct rel_base) + REL_REC_OVERHEAD);
		uint32_t cnt = MAX(DIV_ROUND_UP(f->len, room), 2u);

		must(cnt <= REL_SEG_CNT_MAX);
		f->seg_len = (uint16_t)DIV_ROUND_UP(f->len, cnt);
		/* rounding up may save one segment: every segment must have a byte */
		f->seg_cnt = f->segs_left = (uint8_t)DIV_ROUND_UP(f->len, (uint32_t)f->seg_len);
		f->first_seq = seq;
	}
	s->frame = f;
	s->frame_cnt = 1;
	s->seg_idx = rp->q_seg++;
	s->len += (uint32_t)REL_REC_OVERHEAD + f->seg_len;
	if (rp->q_seg == f->seg_cnt) {
		q_pop(rp);
		rp->q_seg = 0;
	}
}

static bool queue_flush(struct rel_peer *rp, uint64_t now_ns)
{
	struct rel_win *w = rp->win;

	while (rp->q_head) {
		uint32_t seq = rp->tx_seq, used = seq - rp->tx_una;
		struct rel_slot *s;

		if (!may_send_new(rp) || is_corked(rp))
			return true;
		if (used == w->slot_cnt && !slots_grow(rp))
			return w->slot_cnt; /* without any slot nothing will wake us */
		if (!used)
			rp->pto_base_ns = now_ns;
		s = rel_slot_at(w, seq);
		*s = (struct rel_slot){.len = sizeof(struct rel_base)};
		slot_take_whole(rp, s, seq);
		if (!s->frame)
			slot_take_seg(rp, s, seq);
		rp->tx_seq++;
		rp->open_bytes += rel_slot_cost(s);
		if (!slot_send(rp, s, seq, now_ns)) {
			lost_add(w, s, SLOT_UNSENT);
			return false;
		}
	}
	return true;
}

bool rel_tx_flush(struct rel_peer *rp, uint64_t now_ns)
{
	return !rel_win_get(rp) && lost_flush(rp, now_ns) && queue_flush(rp, now_ns);
}

/* --- probes, reset ---------------------------------------------------------------------------- */

void rel_probe(struct rel_peer *rp, uint64_t now_ns)
{
	rp->r->port->stats.probes++;
	rp->pto_base_ns = now_ns;
	rp->probes += rp->probes < UINT8_MAX;
	if (rp->probes > 1)
		rp->cwnd = MAX(rp->cwnd / 2, rel_cwnd_min(rp));
	/* the gap in tx makes the answer's echo prove that what left before and is not in it is lost */
	rp->tx_no += REL_REORDER;
	rel_ask_data(rp, false, now_ns);
}

void rel_tx_reset(struct rel_peer *rp, struct rel_frame **done)
{
	struct rel_frame **end = done, *f, *next;

	for (uint32_t seq = rp->tx_una; seq != rp->tx_seq; seq++) {
		const struct rel_slot *s = rel_slot_at(rp->win, seq);

		for (f = s->frame; f && f->segs_left && s->frame_cnt && f != rp->q_head; f = next) {
			next = f->seg_cnt > 1 ? NULL : f->next;
			f->segs_left = 0; /* further segments find it collected */
			f->next = NULL;
			*end = f;
			end = &f->next;
		}
	}
	*end = rp->q_head;
	rp->q_head = rp->q_tail = NULL;
	rp->q_bytes = rp->q_seg = 0;
	rp->flight_bytes = rp->flight_cnt = rp->open_bytes = 0;
	rp->tx_una = rp->tx_seq;
}
