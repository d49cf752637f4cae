// SPDX-License-Identifier: BSD-2-Clause
// Frames out: queue, slots, gathering of datagrams, retransmission, and what acknowledgements do to
// them.
#include "link/core/link_int.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "link/net/rel_int.h"

static const uint8_t zeros[REL_PAD_MAX];

/* --- frames ----------------------------------------------------------------------------------- */

struct rel_frame *rel_frame_new(struct rel *r)
{
	return slab_get(&r->frames);
}

void rel_frame_free(struct rel *r, struct rel_frame *f)
{
	slab_put(&r->frames, f);
}

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

/* --- gathering -------------------------------------------------------------------------------- */

void rel_carrier_flush(struct rel *r)
{
	bool is_full = rel_raw_close(r);

	r->net->ops->flush(r->net);
	if (is_full && rel_raw_close(r))
		r->raw_to = NULL; /* the open datagram is lost, because its bytes are about to be reused */
	r->stage_at = 0;
	r->linger_ns = 0;
}

/* Room in the stage for a whole datagram: a flush in the middle of one would take its own pieces
 * away. */
static void stage_reserve(struct rel *r, uint32_t len)
{
	if (REL_STAGE_LEN - r->stage_at < len)
		rel_carrier_flush(r);
}

static void out_ref(struct rel_out *o, const void *p, size_t len)
{
	struct iovec *last = o->iov_cnt ? &o->iov[o->iov_cnt - 1] : NULL;

	if (!len)
		return;
	o->len += (uint32_t)len;
	if (last && (const char *)last->iov_base + last->iov_len == p) {
		last->iov_len += len;
		return;
	}
	must(o->iov_cnt < REL_IOV_CNT);
	o->iov[o->iov_cnt++] = (struct iovec){(void *)(uintptr_t)p, len};
}

static void *out_stage(struct rel *r, struct rel_out *o, size_t len)
{
	void *p = r->stage + r->stage_at;

	must(r->stage_at + len <= REL_STAGE_LEN);
	r->stage_at += (uint32_t)len;
	out_ref(o, p, len);
	return p;
}

static void out_copy(struct rel *r, struct rel_out *o, const void *p, size_t len)
{
	if (len)
		memcpy(out_stage(r, o, len), p, len);
}

/*
 * The same of a caller's memory. It may have been unmapped since it was given to us, or before a repetition: the bytes
 * are numbered and expected by then, so something has to come in their place.
 */
static void out_copy_user(struct rel *r, struct rel_out *o, const void *p, size_t len)
{
	void *to = out_stage(r, o, len);

	if (unlikely(!guard_read(to, p, len)))
		memset(to, 0, len);
}

/* The bytes [@off, +@len) of @f: its header by copy, its payload by copy or by reference. */
static void out_bytes(struct rel *r, struct rel_out *o, const struct rel_frame *f, uint32_t off,
		      uint32_t len)
{
	bool by_copy = f->len <= REL_COPY_MAX || o->must_copy || (r->port->cls == LINK_RAW && !r->port->is_borrowing);

	if (off < f->hdr_len) {
		uint32_t n = MIN(len, f->hdr_len - off);

		out_copy(r, o, f->hdr + off, n);
		len -= n;
		off = 0;
	} else {
		off -= f->hdr_len;
	}
	for (int i = 0; i < f->iov_cnt && len; i++) {
		const uint8_t *p = f->iov[i].iov_base;
		uint32_t n = (uint32_t)f->iov[i].iov_len;

		if (off >= n) {
			off -= n;
			continue;
		}
		n = MIN(n - off, len);
		if (by_copy)
			out_copy_user(r, o, p + off, n);
		else
			out_ref(o, p + off, n);
		len -= n;
		off = 0;
	}
}

static void out_whole(struct rel *r, struct rel_out *o, const struct rel_frame *f)
{
	struct rel_rec rec = {
		.frame = le32_put(f->id),
		.len = le16_put((uint16_t)f->len),
		.kind = f->kind,
	};

	out_copy(r, o, &rec, sizeof(rec));
	out_bytes(r, o, f, 0, f->len);
}

static void out_seg(struct rel *r, struct rel_out *o, const struct rel_frame *f, uint8_t idx)
{
	uint32_t off = (uint32_t)idx * f->seg_len, len = MIN((uint32_t)f->seg_len, f->len - off);
	struct rel_rec rec = {
		.frame = le32_put(f->id),
		.len = le16_put((uint16_t)len),
		.kind = f->kind,
		.flags = REL_REC_SEG,
	};
	struct rel_seg seg = {.idx = idx, .cnt = f->seg_cnt, .total = le16_put((uint16_t)f->len)};

	out_copy(r, o, &rec, sizeof(rec));
	out_copy(r, o, &seg, sizeof(seg));
	out_bytes(r, o, f, off, len);
	/* all segments of a frame make datagrams of one length, which UDP sends as one train */
	out_ref(o, zeros, f->seg_len - len);
}

/* Complete the base header and hand the datagram over. */
static int out_send(struct rel *r, struct rel_out *o, const struct link_addr *dst,
		    const struct rel_pkt *pkt)
{
	rel_base_encode(pkt, o->base);
	if (pkt->flags & REL_F_CRC)
		o->base->crc = le32_put(rel_crc32c(o->iov, o->iov_cnt));
	return r->net->ops->send(r->net, dst, o->iov, o->iov_cnt) == -EAGAIN ? -EAGAIN : 0;
}

static void out_init(struct rel *r, struct rel_out *o, uint32_t len)
{
	if (r->raw_to) /* nothing comes between the pieces of a datagram */
		rel_carrier_flush(r);
	stage_reserve(r, len + CACHE_LINE);
	r->stage_at = ALIGN_UP(r->stage_at, 16u);
	o->iov_cnt = 0;
	o->len = 0;
	o->base = out_stage(r, o, sizeof(*o->base));
	o->must_copy = r->must_copy;
}

struct link_addr rel_dst(const struct rel_peer *rp, uint32_t len)
{
	struct link_addr dst = rp->peer->addr;

	if (unlikely(len > rp->mtu || (rp->path_mtu && len > rp->path_mtu)))
		dst.flags = LINK_ADDR_CUT;
	return dst;
}

int rel_emit(struct rel *r, const struct link_addr *dst, const struct rel_pkt *pkt)
{
	struct rel_out o;

	out_init(r, &o, sizeof(struct rel_base) + sizeof(struct rel_hello) + sizeof(pkt->sack) + pkt->recs_len);
	if (pkt->type == REL_REFUSE && !pkt->nonce)
		rel_refuse_encode(pkt, out_stage(r, &o, sizeof(struct rel_refuse)));
	else if (pkt->type != REL_REFUSE && rel_desc[pkt->type].part_len)
		rel_hello_encode(pkt, out_stage(r, &o, sizeof(struct rel_hello)));
	if (rel_desc[pkt->type].flags & REL_D_SACK) {
		int words = REL_SACK_MORE;

		while (words && !pkt->sack[words])
			words--;
		for (int i = 1; i <= words; i++) {
			le64_t word = le64_put(pkt->sack[i]);

			out_copy(r, &o, &word, sizeof(word));
		}
	}
	out_copy(r, &o, pkt->recs, pkt->recs_len);
	return out_send(r, &o, dst, pkt);
}

static int emit_to(struct rel_peer *rp, const struct rel_pkt *pkt)
{
	struct link_addr dst = rel_dst(rp, pkt->recs_len ? (uint32_t)sizeof(struct rel_base) + pkt->recs_len : REL_CTL_MAX);

	return rel_emit(rp->r, &dst, pkt);
}

static void pkt_init(struct rel_peer *rp, struct rel_pkt *pkt, enum rel_type type, uint64_t now_ns)
{
	*pkt = (struct rel_pkt){
		.type = type,
		.flags = (rp->has_crc ? REL_F_CRC : 0) | (rp->is_sure ? 0 : REL_F_NEW),
		.nonce = rp->pair,
		.seq = type == REL_ACK ? rp->nak_rx : rp->tx_seq,
	};
	rel_ack_fill(rp, pkt, now_ns);
}

/* What just left carried our acknowledgement. */
static void ack_sent(struct rel_peer *rp)
{
	rp->owes_ack = rp->ack_now = false;
	rp->rx_dgrams = rp->rx_bytes = 0;
}

void rel_control(struct rel_peer *rp, enum rel_type type, uint64_t now_ns)
{
	struct rel_pkt pkt;

	pkt_init(rp, &pkt, type, now_ns);
	if (emit_to(rp, &pkt))
		return;
	if (type == REL_ACK) {
		rp->r->port->stats.acks_tx++;
		rp->has_naks = false;
	}
	ack_sent(rp);
}

void rel_ask(struct rel_peer *rp, uint64_t now_ns)
{
	struct rel_pkt pkt;

	pkt_init(rp, &pkt, REL_ACK, now_ns);
	memset(&pkt.sack[1], 0, REL_SACK_MORE * sizeof(pkt.sack[1])); /* it may answer somebody's 72 bytes */
	emit_to(rp, &pkt);
}

void rel_ask_idle(struct rel_peer *rp, uint64_t now_ns)
{
	struct rel_pkt pkt;

	pkt_init(rp, &pkt, REL_DATA, now_ns);
	pkt.tx = ++rp->tx_no;
	/* as long as the question of a newcomer at most */
	memset(&pkt.sack[1], 0, REL_SACK_MORE * sizeof(pkt.sack[1]));
	emit_to(rp, &pkt);
}

int rel_send_naks(struct rel_peer *rp, uint32_t first, const struct rel_nak *nak, uint32_t cnt, uint64_t now_ns)
{
	struct rel_pkt pkt;

	pkt_init(rp, &pkt, REL_NAK, now_ns);
	pkt.seq = first;
	pkt.recs = (const uint8_t *)nak;
	pkt.recs_len = cnt * (uint32_t)sizeof(*nak);
	if (emit_to(rp, &pkt))
		return -EAGAIN;
	ack_sent(rp);
	return 0;
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

/* Send the datagram of @s, which is in no list. Return: false, nothing happened, if the carrier has
 * no room. */
static bool slot_send(struct rel_peer *rp, struct rel_slot *s, uint32_t seq, uint64_t now_ns)
{
	struct rel *r = rp->r;
	const struct rel_frame *f = s->frame;
	struct link_addr dst = rel_dst(rp, s->len); /* the path may have become too small for it */
	struct rel_pkt pkt;
	struct rel_out o;

	pkt_init(rp, &pkt, REL_DATA, now_ns);
	pkt.seq = seq;
	pkt.tx = (uint16_t)(rp->tx_no + 1);
	out_init(r, &o, s->len);
	o.must_copy |= rp->has_crc;
	if (f->seg_cnt > 1) {
		out_seg(r, &o, f, s->seg_idx);
	} else {
		for (uint32_t i = 0; i < s->frame_cnt; i++, f = f->next)
			out_whole(r, &o, f);
	}
	assert(o.len == s->len);
	if (out_send(r, &o, &dst, &pkt))
		return false;
	rp->tx_no++;
	s->tx = pkt.tx;
	s->sent_ns = rp->used_ns = r->sent_ns = now_ns;
	if (s->sends)
		r->port->stats.retrans++;
	s->sends += s->sends < UINT8_MAX;
	flight_add(rp, s);
	ack_sent(rp);
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

static uint32_t mtu_of(struct rel_peer *rp, uint64_t now_ns)
{
	uint32_t mtu = rp->r->net->ops->mtu(rp->r->net, &rp->peer->addr);

	if (unlikely(rp->path_mtu)) {
		if (now_ns - rp->path_ns < REL_PATH_NS)
			mtu = MIN(mtu, rp->path_mtu);
		else
			rp->path_mtu = 0;
	}
	return MAX(mtu, (uint32_t)REL_MTU_MIN);
}

bool rel_peer_flush(struct rel_peer *rp, uint64_t now_ns)
{
	if (rp->state == REL_S_NONE && rp->q_head)
		rel_hello_start(rp, now_ns);
	if (rp->state != REL_S_OPEN)
		return true;
	rp->mtu = mtu_of(rp, now_ns);
	if (rp->nak_next && !rel_nak_flush(rp, now_ns))
		return false;
	if (rp->q_head || rp->tx_una != rp->tx_seq) {
		if (rel_win_get(rp) || !lost_flush(rp, now_ns) || !queue_flush(rp, now_ns))
			return false;
	}
	if ((rp->owes_ack && rp->ack_now) || rp->has_naks)
		rel_control(rp, REL_ACK, now_ns);
	return true;
}

/* --- probes, reset ---------------------------------------------------------------------------- */

void rel_probe(struct rel_peer *rp, uint64_t now_ns)
{
	struct rel_pkt pkt;

	rp->r->port->stats.probes++;
	rp->pto_base_ns = now_ns;
	rp->probes += rp->probes < UINT8_MAX;
	if (rp->probes > 1)
		rp->cwnd = MAX(rp->cwnd / 2, rel_cwnd_min(rp));
	if (!rp->is_sure)
		rel_hello_again(rp, now_ns);
	/* the gap in tx makes the answer's echo prove that what left before and is not in it is lost */
	rp->tx_no += REL_REORDER;
	pkt_init(rp, &pkt, REL_DATA, now_ns);
	pkt.seq = rp->tx_una;
	pkt.tx = ++rp->tx_no;
	if (!emit_to(rp, &pkt))
		ack_sent(rp);
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

/* --- RAW -------------------------------------------------------------------------------------- */

static struct rel_pkt raw_pkt(const struct rel *r, const struct rel_peer *to, uint32_t seq)
{
	return (struct rel_pkt){
		.type = REL_RAW,
		.flags = r->wants_crc ? REL_F_CRC : 0,
		.nonce = r->port->self.nonce | (uint64_t)to->peer_nonce << 32,
		.seq = seq,
	};
}

int rel_raw_close(struct rel *r)
{
	struct rel_peer *to = r->raw_to;
	struct link_addr dst;
	struct rel_pkt pkt;

	if (!to)
		return 0;
	dst = rel_dst(to, r->raw.len);
	pkt = raw_pkt(r, to, r->raw_seq);
	if (out_send(r, &r->raw, &dst, &pkt))
		return -EAGAIN;
	r->raw_to = NULL;
	return 0;
}

/* In a datagram that others may follow into. */
static int raw_send_whole(struct rel_peer *rp, const struct rel_frame *f, uint32_t mtu)
{
	struct rel *r = rp->r;
	uint32_t len = (uint32_t)sizeof(struct rel_rec) + f->len;

	bool is_full = r->raw.len + len > r->raw_mtu || r->raw.iov_cnt + 1 + f->iov_cnt > REL_IOV_CNT;

	if (r->raw_to && (r->raw_to != rp || is_full) && rel_raw_close(r))
		return -EAGAIN;
	if (!r->raw_to) {
		out_init(r, &r->raw, mtu);
		r->raw_to = rp;
		r->raw_seq = f->id;
		r->raw_mtu = mtu;
	}
	out_whole(r, &r->raw, f);
	return 0;
}

int rel_raw_send(struct rel_peer *rp, struct rel_frame *f)
{
	struct rel *r = rp->r;
	uint32_t mtu, room;
	struct rel_pkt pkt;
	uint8_t cnt;

	if (r->raw_to != rp)
		rp->mtu = mtu_of(rp, rp->path_mtu ? clk_now_ns(&r->port->node->clk) : 0);
	mtu = r->raw_to == rp ? r->raw_mtu : rp->mtu;
	room = mtu - (uint32_t)(sizeof(struct rel_base) + REL_REC_OVERHEAD);
	f->id = r->raw_id++;
	r->fresh_bytes += f->len;
	if (f->len <= room) {
		f->seg_cnt = 1;
		return raw_send_whole(rp, f, mtu);
	}
	if (rel_raw_close(r))
		return -EAGAIN;
	cnt = (uint8_t)DIV_ROUND_UP(f->len, room);
	f->seg_len = (uint16_t)DIV_ROUND_UP(f->len, cnt);
	f->seg_cnt = (uint8_t)DIV_ROUND_UP(f->len, (uint32_t)f->seg_len);
	pkt = raw_pkt(r, rp, f->id);
	for (uint8_t i = 0; i < f->seg_cnt; i++) {
		struct link_addr dst;
		struct rel_out o;

		out_init(r, &o, mtu);
		o.must_copy |= rp->has_crc;
		out_seg(r, &o, f, i);
		dst = rel_dst(rp, o.len);
		if (out_send(r, &o, &dst, &pkt))
			return i ? 0 : -EAGAIN; /* the rest of it counts as lost */
	}
	return 0;
}
