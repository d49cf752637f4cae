// SPDX-License-Identifier: BSD-2-Clause
// Datagrams out: what they are made of, gathered in the stage, and given to the carrier. DATA of a slot, RAW, and those
// without frames. Who may send, and when, is rel_tx.c.
#include "link/core/link_int.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "link/net/rel_int.h"

static const uint8_t zeros[REL_PAD_MAX];

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

/* Of up to @len bytes, with frames for @rp; NULL: it has none. */
static void out_init(struct rel *r, struct rel_out *o, const struct rel_peer *rp, uint32_t len)
{
	if (r->raw_to) /* nothing comes between the pieces of a datagram */
		rel_carrier_flush(r);
	stage_reserve(r, len + CACHE_LINE);
	r->stage_at = ALIGN_UP(r->stage_at, 16u);
	o->iov_cnt = 0;
	o->len = 0;
	o->base = out_stage(r, o, sizeof(*o->base));
	o->must_copy = r->must_copy || (rp && rp->has_crc);
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

	out_init(r, &o, NULL, sizeof(struct rel_base) + sizeof(struct rel_hello) + sizeof(pkt->sack) + pkt->recs_len);
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
	uint32_t len = pkt->recs_len ? (uint32_t)sizeof(struct rel_base) + pkt->recs_len : REL_CTL_MAX;
	struct link_addr dst = rel_dst(rp, len);

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
		rp->acks_alone += rp->acks_alone < UINT8_MAX;
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

void rel_ask_data(struct rel_peer *rp, bool is_short, uint64_t now_ns)
{
	struct rel_pkt pkt;

	pkt_init(rp, &pkt, REL_DATA, now_ns);
	pkt.seq = rp->tx_una;
	pkt.tx = ++rp->tx_no;
	if (is_short)
		memset(&pkt.sack[1], 0, REL_SACK_MORE * sizeof(pkt.sack[1]));
	if (emit_to(rp, &pkt))
		return;
	ack_sent(rp);
}

int rel_data_send(struct rel_peer *rp, const struct rel_slot *s, uint32_t seq, uint16_t tx, uint64_t now_ns)
{
	struct rel *r = rp->r;
	const struct rel_frame *f = s->frame;
	struct link_addr dst = rel_dst(rp, s->len); /* the path may have become too small for it */
	struct rel_pkt pkt;
	struct rel_out o;

	pkt_init(rp, &pkt, REL_DATA, now_ns);
	pkt.seq = seq;
	pkt.tx = tx;
	out_init(r, &o, rp, s->len);
	if (f->seg_cnt > 1) {
		out_seg(r, &o, f, s->seg_idx);
	} else {
		for (uint32_t i = 0; i < s->frame_cnt; i++, f = f->next)
			out_whole(r, &o, f);
	}
	assert(o.len == s->len);
	if (out_send(r, &o, &dst, &pkt))
		return -EAGAIN;
	rp->acks_alone = 0;
	ack_sent(rp);
	return 0;
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

void rel_mtu_look(struct rel_peer *rp, uint64_t now_ns)
{
	uint32_t mtu = rp->r->net->ops->mtu(rp->r->net, &rp->peer->addr);

	if (unlikely(rp->path_mtu)) {
		if (now_ns - rp->path_ns < REL_PATH_NS)
			mtu = MIN(mtu, rp->path_mtu);
		else
			rp->path_mtu = 0;
	}
	rp->mtu = MAX(mtu, (uint32_t)REL_MTU_MIN);
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
		out_init(r, &r->raw, rp, mtu);
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
		rel_mtu_look(rp, rp->path_mtu ? clk_now_ns(&r->port->node->clk) : 0);
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

		out_init(r, &o, rp, mtu);
		out_seg(r, &o, f, i);
		dst = rel_dst(rp, o.len);
		if (out_send(r, &o, &dst, &pkt))
			return i ? 0 : -EAGAIN; /* the rest of it counts as lost */
	}
	return 0;
}
