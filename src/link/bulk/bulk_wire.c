// SPDX-License-Identifier: BSD-2-Clause
// Encoding and checking of bulk messages.
#include "link/bulk/bulk_wire.h"

#include <errno.h>

#include "base/wire.h"

#define CTL .payload_min = 0, .payload_max = 0

const struct bulk_desc bulk_desc[BULK_T_NUM] = {
	[BULK_T_GET] = {.name = "get", .hdr_len = sizeof(struct bulk_hdr_get), .has_key = true, CTL},
	[BULK_T_DATA] = {.name = "data", .hdr_len = sizeof(struct bulk_hdr_data), .payload_min = 1,
			 .payload_max = LINK_FRAME_MAX},
	[BULK_T_PUT] = {.name = "put", .hdr_len = sizeof(struct bulk_hdr_put), .has_key = true, .payload_min = 0,
			.payload_max = LINK_FRAME_MAX},
	[BULK_T_REPLY] = {.name = "reply", .hdr_len = sizeof(struct bulk_hdr_reply), .has_status = true, CTL},
	[BULK_T_STOP] = {.name = "stop", .hdr_len = sizeof(struct bulk_hdr), CTL},
	[BULK_T_PING] = {.name = "ping", .hdr_len = sizeof(struct bulk_hdr), CTL},
	[BULK_T_OFFER] = {.name = "offer", .hdr_len = sizeof(struct bulk_hdr_get), .has_key = true, CTL},
	[BULK_T_AHEAD] = {.name = "ahead", .hdr_len = sizeof(struct bulk_hdr_data), .has_key = true,
			  .payload_min = 1, .payload_max = LINK_FRAME_MAX},
	[BULK_T_HELP] = {.name = "help", .hdr_len = sizeof(struct bulk_hdr_help), .has_key = true, CTL},
};

size_t bulk_pkt_encode(const struct bulk_pkt *pkt, uint8_t buf[BULK_HDR_MAX])
{
	struct wire_wr w = wire_wr(buf, BULK_HDR_MAX);
	struct bulk_hdr h = {
		.type = (uint8_t)pkt->type,
		.status = (uint8_t)pkt->status,
		.id = le32_put(pkt->id),
		.tag = le32_put(pkt->tag),
		.key = le32_put(pkt->key),
	};
	le64_t addr = le64_put(pkt->addr), len = le64_put(pkt->len), off = le64_put(pkt->off),
	       bytes = le64_put(pkt->bytes), dst = le64_put(pkt->dst),
	       dst_key = le64_put(pkt->dst_key);

	WIRE_PUT(&w, &h);
	switch (pkt->type) {
	case BULK_T_GET:
	case BULK_T_OFFER:
		WIRE_PUT(&w, &addr);
		WIRE_PUT(&w, &len);
		break;
	case BULK_T_DATA:
	case BULK_T_AHEAD:
		WIRE_PUT(&w, &off);
		break;
	case BULK_T_PUT:
		WIRE_PUT(&w, &addr);
		WIRE_PUT(&w, &len);
		WIRE_PUT(&w, &off);
		break;
	case BULK_T_REPLY:
		WIRE_PUT(&w, &bytes);
		break;
	case BULK_T_HELP:
		WIRE_PUT(&w, &addr);
		WIRE_PUT(&w, &len);
		WIRE_PUT(&w, &dst);
		WIRE_PUT(&w, &dst_key);
		break;
	case BULK_T_STOP:
	case BULK_T_PING:
		break;
	case BULK_T_NUM:
		must(0);
	}
	assert(w.ok);
	return (size_t)(w.p - buf);
}

/* The part behind struct bulk_hdr. @r holds exactly the bytes that the type has. */
static void decode_rest(struct wire_rd *r, struct bulk_pkt *pkt)
{
	le64_t v[4] = {0};

	wire_get(r, v, wire_left(r));
	switch (pkt->type) {
	case BULK_T_PUT:
		pkt->off = le64_get(v[2]);
		__attribute__((fallthrough));
	case BULK_T_GET:
	case BULK_T_OFFER:
		pkt->addr = le64_get(v[0]);
		pkt->len = le64_get(v[1]);
		break;
	case BULK_T_DATA:
	case BULK_T_AHEAD:
		pkt->off = le64_get(v[0]);
		break;
	case BULK_T_REPLY:
		pkt->bytes = le64_get(v[0]);
		break;
	case BULK_T_HELP:
		pkt->addr = le64_get(v[0]);
		pkt->len = le64_get(v[1]);
		pkt->dst = le64_get(v[2]);
		pkt->dst_key = (uint32_t)le64_get(v[3]);
		break;
	case BULK_T_STOP:
	case BULK_T_PING:
		break;
	case BULK_T_NUM:
		must(0);
	}
}

int bulk_pkt_check(const struct view *frame, struct bulk_pkt *out)
{
	uint8_t buf[BULK_HDR_MAX];
	size_t n = view_copy(frame, 0, buf, sizeof(buf));
	struct wire_rd r = wire_rd(buf, n);
	struct bulk_hdr h;
	const struct bulk_desc *d;

	if (!WIRE_GET(&r, &h) || h.type == 0 || h.type >= BULK_T_NUM)
		return -EPROTO;
	d = &bulk_desc[h.type];
	if (n < d->hdr_len || frame->len - d->hdr_len < d->payload_min ||
	    frame->len - d->hdr_len > d->payload_max)
		return -EPROTO;
	if (le16_get(h.rsvd) || (h.status && !d->has_status) || (le32_get(h.key) && !d->has_key))
		return -EPROTO;

	struct bulk_pkt pkt = {
		.type = (enum bulk_type)h.type,
		.status = (enum bulk_status)MIN(h.status, (uint8_t)BULK_S_NUM),
		.id = le32_get(h.id),
		.tag = le32_get(h.tag),
		.key = le32_get(h.key),
		.hdr_len = d->hdr_len,
		.payload_len = frame->len - d->hdr_len,
	};

	r.end = buf + d->hdr_len;
	decode_rest(&r, &pkt);
	if (pkt.type == BULK_T_PUT && (pkt.off > pkt.len || pkt.payload_len > pkt.len - pkt.off))
		return -EPROTO;
	*out = pkt;
	return 0;
}
