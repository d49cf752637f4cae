// SPDX-License-Identifier: BSD-2-Clause
// Encoding, and the check of received datagrams: the header is copied out first, then checked, then used.
#include "link/net/rel_wire.h"

#include "link/core/link_int.h"

const struct rel_desc rel_desc[REL_TYPE_NUM] = {
	[0] = {.name = "none"},
	[REL_HELLO] = {.name = "hello", .part_len = sizeof(struct rel_hello)},
	[REL_HELLO_ACK] = {.name = "hello-ack", .part_len = sizeof(struct rel_hello)},
	[REL_REFUSE] = {.name = "refuse", .part_len = sizeof(struct rel_refuse)},
	[REL_DATA] = {.name = "data", .flags = REL_D_PAIR | REL_D_RECS},
	[REL_ACK] = {.name = "ack", .flags = REL_D_PAIR | REL_D_SACK},
	[REL_BYE] = {.name = "bye", .flags = REL_D_PAIR | REL_D_SACK},
	[REL_BYE_ACK] = {.name = "bye-ack", .flags = REL_D_PAIR},
	[REL_RAW] = {.name = "raw", .flags = REL_D_RECS},
	[REL_NAK] = {.name = "nak", .flags = REL_D_PAIR | REL_D_NAKS},
};

static_assert(LINK_FRAME_MAX <= UINT16_MAX, "struct rel_seg.total");
static_assert((REL_MTU_MIN - sizeof(struct rel_base) - REL_REC_OVERHEAD) * REL_SEG_CNT_MAX >=
		      LINK_FRAME_MAX,
	      "a frame fits in the segments that there may be");

/* 4 bits at a time: only rooms that corrupt on purpose pay for it, so a small table is better than
 * a fast one. */
static const uint32_t crc_tab[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
	0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
	0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t crc_step(uint32_t crc, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		crc = (crc >> 4) ^ crc_tab[crc & 15];
		crc = (crc >> 4) ^ crc_tab[crc & 15];
	}
	return crc;
}

uint32_t rel_crc32c(const struct iovec *iov, int iov_cnt)
{
	uint32_t crc = ~0u;

	for (int i = 0; i < iov_cnt; i++)
		crc = crc_step(crc, iov[i].iov_base, iov[i].iov_len);
	return ~crc;
}

/* The CRC of a whole datagram, its own field taken as 0. */
static uint32_t dgram_crc(const struct rel_base *base, const uint8_t *buf, size_t len)
{
	struct rel_base b = *base;
	struct iovec iov[] = {{&b, sizeof(b)},
			      {(void *)(uintptr_t)(buf + sizeof(b)), len - sizeof(b)}};

	b.crc = le32_put(0);
	return rel_crc32c(iov, ARRAY_SIZE(iov));
}

void rel_base_encode(const struct rel_pkt *pkt, struct rel_base *out)
{
	*out = (struct rel_base){
		.magic = REL_MAGIC,
		.version = REL_VERSION,
		.type = (uint8_t)pkt->type,
		.flags = pkt->flags,
		.nonce = le64_put(pkt->nonce),
		.seq = le32_put(pkt->seq),
		.ack = le32_put(pkt->ack),
		.sack = le64_put(pkt->sack[0]),
		.tx = le16_put(pkt->tx),
		.echo = le16_put(pkt->echo),
		.delay_us = le16_put(pkt->delay_us),
		.credit_kib = le16_put(pkt->credit_kib),
	};
}

void rel_hello_encode(const struct rel_pkt *pkt, struct rel_hello *out)
{
	*out = (struct rel_hello){
		.half = le64_put(pkt->hello.half),
		.echo_half = le64_put(pkt->hello.echo_half),
		.src_nonce = le32_put(pkt->hello.src_nonce),
		.dst_nonce = le32_put(pkt->hello.dst_nonce),
		.serial = le32_put(pkt->hello.serial),
		.cls = pkt->hello.cls,
		.settings = pkt->hello.settings,
	};
}

void rel_refuse_encode(const struct rel_pkt *pkt, struct rel_refuse *out)
{
	*out = (struct rel_refuse){
		.half = le64_put(pkt->refuse.half),
		.reason = pkt->refuse.reason,
		.version = pkt->refuse.version,
		.cls = pkt->refuse.cls,
	};
}

static enum rel_check hello_check(struct wire_rd *r, struct rel_pkt *out)
{
	struct rel_hello h;

	if (!WIRE_GET(r, &h) || wire_left(r) || le16_get(h.rsvd) || h.settings & ~REL_SET_ALL ||
	    h.cls >= LINK_CLASS_NUM || !le32_get(h.src_nonce))
		return REL_BAD_FORM;
	out->hello.half = le64_get(h.half);
	out->hello.echo_half = le64_get(h.echo_half);
	out->hello.src_nonce = le32_get(h.src_nonce);
	out->hello.dst_nonce = le32_get(h.dst_nonce);
	out->hello.serial = le32_get(h.serial);
	out->hello.cls = h.cls;
	out->hello.settings = h.settings;
	return REL_OK;
}

static enum rel_check refuse_check(struct wire_rd *r, struct rel_pkt *out)
{
	struct rel_refuse h;

	if (out->nonce) {
		out->refuse.reason = REL_R_GONE;
		return wire_left(r) ? REL_BAD_FORM : REL_OK;
	}
	if (!WIRE_GET(r, &h) || !h.reason || h.reason >= REL_R_NUM)
		return REL_BAD_FORM;
	out->refuse.half = le64_get(h.half);
	out->refuse.reason = h.reason;
	out->refuse.version = h.version;
	out->refuse.cls = h.cls;
	return REL_OK;
}

static bool seg_check(struct wire_rd *r, struct rel_rec_in *out)
{
	struct rel_seg s;

	if (!WIRE_GET(r, &s) || s.cnt < 2 || s.cnt > REL_SEG_CNT_MAX || s.idx >= s.cnt || !out->len)
		return false;
	out->seg_idx = s.idx;
	out->seg_cnt = s.cnt;
	out->total = le16_get(s.total);
	if (out->total > LINK_FRAME_MAX || out->len >= out->total)
		return false;
	if (s.idx < s.cnt - 1) {
		out->seg_len = out->len;
	} else {
		out->seg_len = (out->total - out->len) / (s.cnt - 1u);
		if (out->seg_len * (s.cnt - 1u) != out->total - out->len || out->len > out->seg_len)
			return false;
	}
	out->off = s.idx * out->seg_len;
	/* the last segment has at least one byte and no more than the others */
	return out->seg_len * (s.cnt - 1u) < out->total && out->seg_len * s.cnt >= out->total;
}

bool rel_rec_next(struct wire_rd *r, struct rel_rec_in *out)
{
	struct rel_rec rec;

	if (!WIRE_GET(r, &rec))
		return false;
	*out = (struct rel_rec_in){
		.frame = le32_get(rec.frame),
		.kind = rec.kind,
		.flags = rec.flags,
		.seg_cnt = 1,
		.len = le16_get(rec.len),
	};
	if (rec.flags & ~REL_REC_SEG || !rec.kind || rec.kind >= LINK_K_NUM ||
	    out->len > LINK_FRAME_MAX)
		return false;
	out->total = out->seg_len = out->len;
	if (rec.flags & REL_REC_SEG && !seg_check(r, out))
		return false;
	out->p = r->p;
	return wire_skip(r, out->len);
}

static enum rel_check recs_check(struct wire_rd *r, struct rel_pkt *out)
{
	struct rel_rec_in rec;

	out->recs = r->p;
	out->recs_len = (uint32_t)wire_left(r);
	while (wire_left(r)) {
		if (!rel_rec_next(r, &rec))
			return REL_BAD_FORM;
		out->rec_cnt++;
		if (rec.flags & REL_REC_SEG) {
			if (out->rec_cnt > 1 || wire_left(r) > REL_PAD_MAX)
				return REL_BAD_FORM;
			out->recs_len -= (uint32_t)wire_left(r);
			break;
		}
	}
	/* DATA without records asks for an acknowledgement of @seq */
	return out->rec_cnt || out->type == REL_DATA ? REL_OK : REL_BAD_FORM;
}

static enum rel_check naks_check(struct wire_rd *r, struct rel_pkt *out)
{
	struct rel_nak nak;

	out->recs = r->p;
	out->recs_len = (uint32_t)wire_left(r);
	while (WIRE_GET(r, &nak)) {
		if (!nak.code || nak.rsvd[0] || nak.rsvd[1] || nak.rsvd[2])
			return REL_BAD_FORM;
		out->rec_cnt++;
	}
	return out->rec_cnt && !wire_left(r) ? REL_OK : REL_BAD_FORM;
}

static enum rel_check sack_check(struct wire_rd *r, struct rel_pkt *out)
{
	le64_t word;

	if (wire_left(r) % sizeof(word) || wire_left(r) > REL_SACK_MORE * sizeof(word))
		return REL_BAD_FORM;
	for (int i = 1; WIRE_GET(r, &word); i++)
		out->sack[i] = le64_get(word);
	return REL_OK;
}

enum rel_check rel_pkt_check(const void *buf, size_t len, struct rel_pkt *out)
{
	struct wire_rd r = wire_rd(buf, len);
	const struct rel_desc *desc;
	struct rel_base b;

	*out = (struct rel_pkt){0};
	if (len > REL_DGRAM_MAX || !WIRE_GET(&r, &b) || b.magic != REL_MAGIC || !b.type ||
	    b.type >= REL_TYPE_NUM)
		return REL_BAD_FORM;
	desc = &rel_desc[b.type];
	*out = (struct rel_pkt){
		.type = b.type,
		.version = b.version,
		.flags = b.flags,
		.nonce = le64_get(b.nonce),
		.seq = le32_get(b.seq),
		.ack = le32_get(b.ack),
		.sack = {le64_get(b.sack)},
		.tx = le16_get(b.tx),
		.echo = le16_get(b.echo),
		.delay_us = le16_get(b.delay_us),
		.credit_kib = le16_get(b.credit_kib),
	};
	if (b.flags & REL_F_CRC && le32_get(b.crc) != dgram_crc(&b, buf, len))
		return REL_BAD_FORM;
	if (b.type == REL_REFUSE)
		return refuse_check(&r, out);
	if (b.version != REL_VERSION) {
		le64_t half;

		/* the half is at the same place in every version, so that a refusal can show that
		 * it has seen it */
		if (b.type == REL_HELLO && WIRE_GET(&r, &half))
			out->hello.half = le64_get(half);
		return REL_BAD_VERSION;
	}
	if (b.flags & ~REL_F_ALL || (!(b.flags & REL_F_CRC) && le32_get(b.crc)))
		return REL_BAD_FORM;
	if (desc->flags & REL_D_PAIR && !out->nonce) /* that of no pair */
		return REL_BAD_FORM;
	if (desc->part_len)
		return out->nonce ? REL_BAD_FORM : hello_check(&r, out);
	if (desc->flags & REL_D_RECS)
		return recs_check(&r, out);
	if (desc->flags & REL_D_NAKS)
		return naks_check(&r, out);
	if (desc->flags & REL_D_SACK)
		return sack_check(&r, out);
	return wire_left(&r) ? REL_BAD_FORM : REL_OK;
}
