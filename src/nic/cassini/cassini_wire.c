// SPDX-License-Identifier: BSD-2-Clause
// Frame formats of the soft Cassini adapter: descriptor table, door, encoder.
#include "nic/cassini/cassini_wire.h"

#define HDR_BASE  16u /* up to request_len */
#define HDR_MATCH 32u /* up to match_bits */
#define HDR_PUT   40u /* up to header_data */

/* What follows match_bits in a GET, header_data in PUT_BULK and RPUT. RGET_DONE has the handle only. */
struct tail {
	le32_t handle, region;
	le64_t raddr;
};
static_assert(HDR_BASE == offsetof(struct cassini_hdr, remote_offset), "layout");
static_assert(HDR_MATCH == offsetof(struct cassini_hdr, header_data), "layout");
static_assert(HDR_PUT == offsetof(struct cassini_hdr, handle), "layout");
static_assert(HDR_PUT + sizeof(struct tail) == CASSINI_HDR_MAX, "layout");
static_assert(CASSINI_FRAME_DATA % 128 == 0, "whole lines");
static_assert(HDR_PUT + sizeof(struct cassini_amo_wire) <= CASSINI_ENCODE_MAX, "room of the encoder");

#define ROW(op_, hdr_, min_, max_, to_pte_)                                                                            \
	[CASSINI_PKT_##op_] = {                                                                                        \
		.name = #op_, .hdr_len = (hdr_), .payload_min = (min_), .payload_max = (max_), .to_pte = (to_pte_)}
#define OPERANDS sizeof(struct cassini_amo_wire)
const struct cassini_pkt_desc cassini_pkt[CASSINI_PKT_NUM] = {
	ROW(PUT, HDR_PUT, 0, CASSINI_FRAME_DATA, true),
	ROW(PUT_BULK, CASSINI_HDR_MAX, 0, 0, true),
	ROW(RPUT, CASSINI_HDR_MAX, 0, CASSINI_FRAME_DATA, true),
	ROW(GET, HDR_MATCH + sizeof(struct tail), 0, 0, true),
	ROW(ATOMIC, HDR_PUT, OPERANDS, OPERANDS, true),
	ROW(FETCH, HDR_PUT, OPERANDS, OPERANDS, true),
	ROW(REPLY, HDR_BASE, 0, CASSINI_FRAME_DATA, false),
	ROW(RGET_DONE, HDR_MATCH + sizeof(le32_t), 0, 0, false),
	ROW(PING, HDR_BASE, 0, 0, false),
};
static_assert(CASSINI_FRAME_DATA + CASSINI_HDR_MAX <= 18688, "fits a link frame");

const char *const cassini_drop_name[CASSINI_DROP_NUM] = {
	[CASSINI_DROP_NONE] = "none", [CASSINI_DROP_SHORT] = "short",	    [CASSINI_DROP_VERSION] = "version",
	[CASSINI_DROP_OP] = "op",     [CASSINI_DROP_RESERVED] = "reserved", [CASSINI_DROP_LENGTH] = "length",
};

/* --- the door --- */

/* Most frames are Puts in one piece: then this is a copy of a fixed length. Return: bytes of @h that the frame has. */
static inline size_t hdr_copy(const struct view *frame, struct cassini_hdr *h)
{
	if (likely(frame->seg_cnt && frame->seg[0].len >= HDR_PUT)) {
		__builtin_memcpy(h, frame->seg[0].p, HDR_PUT);
		return HDR_PUT;
	}
	memset(h, 0, HDR_PUT);
	return view_copy(frame, 0, h, HDR_PUT);
}

static bool initiator_is_good(uint32_t id)
{
	return CASSINI_MATCH_ID_PID(id) < CASSINI_PID_CNT &&
	       id == CASSINI_MATCH_ID(CASSINI_MATCH_ID_PID(id), CASSINI_MATCH_ID_NIC(id));
}

/* The first 16 bytes, the same for all ops. */
static inline bool base_is_good(const struct cassini_hdr *h, const struct cassini_pkt_desc *desc, unsigned op)
{
	if (unlikely(!le16_get(h->vni) || le16_get(h->pid) >= CASSINI_PID_CNT))
		return false;
	if (unlikely(h->flags & ~(desc->to_pte ? CASSINI_PKTF_ALL : 0)))
		return false;
	if (unlikely(h->flags & CASSINI_PKTF_HRP && !(h->flags & CASSINI_PKTF_RESTRICTED)))
		return false;
	if (op == CASSINI_PKT_REPLY)
		return h->pid_idx < CASSINI_RC_NUM && h->arg < CASSINI_LIST_NUM;
	if (unlikely((op == CASSINI_PKT_PING && h->pid_idx) || (op != CASSINI_PKT_RPUT && h->arg)))
		return false;
	if (unlikely(op == CASSINI_PKT_RGET_DONE && h->pid_idx >= CASSINI_RC_NUM))
		return false;
	return initiator_is_good(le32_get(h->initiator));
}

static enum cassini_drop tail_take(const struct view *frame, size_t off, struct cassini_pkt_in *out)
{
	struct tail t = {0};

	if (view_copy(frame, off, &t, sizeof(t)) != sizeof(t))
		return CASSINI_DROP_SHORT;
	out->handle = le32_get(t.handle);
	out->region = le32_get(t.region);
	out->raddr = le64_get(t.raddr);
	return CASSINI_DROP_NONE;
}

static enum cassini_drop amo_take(const struct view *frame, struct cassini_pkt_in *out)
{
	struct cassini_amo_wire w;

	if (view_copy(frame, HDR_PUT, &w, sizeof(w)) != sizeof(w))
		return CASSINI_DROP_SHORT;
	if (w.rsvd || w.op >= CASSINI_AMO_OP_NUM || w.op == CASSINI_AMO_SUM + 1 || w.cswap >= CASSINI_CSWAP_NUM)
		return CASSINI_DROP_RESERVED;
	if ((w.op != CASSINI_AMO_CSWAP && w.cswap) || !cassini_amo_type_size(w.type))
		return CASSINI_DROP_RESERVED;
	if (out->op == CASSINI_PKT_ATOMIC && le32_get(w.handle))
		return CASSINI_DROP_RESERVED;
	if (out->request_len != cassini_amo_type_size(w.type))
		return CASSINI_DROP_LENGTH;
	out->handle = le32_get(w.handle);
	out->amo = (struct cassini_amo_in){
		.op = w.op,
		.type = w.type,
		.cswap = w.cswap,
		.op1 = {le64_get(w.op1[0]), le64_get(w.op1[1])},
		.op2 = {le64_get(w.op2[0]), le64_get(w.op2[1])},
	};
	out->hdr_len += (uint16_t)sizeof(w);
	out->payload_len = 0;
	return CASSINI_DROP_NONE;
}

static enum cassini_drop get_take(const struct view *frame, struct cassini_pkt_in *out)
{
	enum cassini_drop drop = tail_take(frame, HDR_MATCH, out);

	out->header_data = 0; /* a GET has its tail there */
	if (!drop && !out->region && out->request_len > CASSINI_FRAME_DATA)
		return CASSINI_DROP_LENGTH;
	return !drop && !out->region && out->raddr ? CASSINI_DROP_RESERVED : drop;
}

static enum cassini_drop rput_take(const struct view *frame, struct cassini_pkt_in *out)
{
	enum cassini_drop drop = tail_take(frame, HDR_PUT, out);

	out->get_bits = out->raddr;
	out->raddr = 0;
	if (!drop && out->payload_len > out->request_len)
		return CASSINI_DROP_LENGTH;
	/* without a region there is nothing that could be fetched */
	return !drop && !out->region && out->payload_len != out->request_len ? CASSINI_DROP_RESERVED : drop;
}

/* What only some ops have. */
static __attribute__((noinline)) enum cassini_drop rest_take(const struct view *frame, struct cassini_pkt_in *out)
{
	enum cassini_drop drop = CASSINI_DROP_NONE;
	le32_t handle = {{0}};

	switch ((enum cassini_pkt_op)out->op) {
	case CASSINI_PKT_PUT:
		break;
	case CASSINI_PKT_PUT_BULK:
		drop = tail_take(frame, HDR_PUT, out);
		return !drop && !out->region ? CASSINI_DROP_RESERVED : drop;
	case CASSINI_PKT_RPUT:
		return rput_take(frame, out);
	case CASSINI_PKT_GET:
		return get_take(frame, out);
	case CASSINI_PKT_ATOMIC:
	case CASSINI_PKT_FETCH:
		return amo_take(frame, out);
	case CASSINI_PKT_REPLY:
		out->handle = out->initiator;
		out->initiator = 0;
		out->rc = out->pid_idx;
		out->pid_idx = 0;
		out->remote_offset = out->match_bits = out->header_data = 0; /* its data lies there */
		return out->payload_len > out->request_len ? CASSINI_DROP_LENGTH : CASSINI_DROP_NONE;
	case CASSINI_PKT_RGET_DONE:
		view_copy(frame, HDR_MATCH, &handle, sizeof(handle));
		out->handle = le32_get(handle);
		out->get_bits = out->match_bits;
		out->rc = out->pid_idx;
		out->pid_idx = 0;
		out->header_data = 0;
		return out->remote_offset ? CASSINI_DROP_RESERVED : CASSINI_DROP_NONE;
	case CASSINI_PKT_PING:
		return out->request_len ? CASSINI_DROP_RESERVED : CASSINI_DROP_NONE;
	case CASSINI_PKT_NUM:
		break;
	}
	must(0);
}

enum cassini_drop cassini_pkt_check(const struct view *frame, struct cassini_pkt_in *out)
{
	const struct cassini_pkt_desc *desc;
	struct cassini_hdr h;
	struct cassini_pkt_in pkt;
	enum cassini_drop drop;
	size_t have = hdr_copy(frame, &h);
	unsigned op = h.ver_op & 15;

	if (unlikely(have < HDR_BASE))
		return CASSINI_DROP_SHORT;
	if (unlikely(h.ver_op >> 4 != CASSINI_WIRE_VERSION))
		return CASSINI_DROP_VERSION;
	if (unlikely(!op || op >= CASSINI_PKT_NUM))
		return CASSINI_DROP_OP;
	desc = &cassini_pkt[op];
	if (unlikely(frame->len < desc->hdr_len || have < MIN((size_t)desc->hdr_len, (size_t)HDR_PUT)))
		return CASSINI_DROP_SHORT;
	if (unlikely(!base_is_good(&h, desc, op)))
		return CASSINI_DROP_RESERVED;
	cassini_pkt_open(&pkt, &h, desc->hdr_len, frame->len);
	if (unlikely(pkt.payload_len < desc->payload_min || pkt.payload_len > desc->payload_max))
		return CASSINI_DROP_LENGTH;
	if (likely(op == CASSINI_PKT_PUT)) {
		if (unlikely(pkt.payload_len != pkt.request_len))
			return CASSINI_DROP_LENGTH;
	} else {
		if (op == CASSINI_PKT_RPUT)
			pkt.rendezvous_id = h.arg;
		if (op == CASSINI_PKT_REPLY)
			pkt.ptl_list = h.arg;
		if (op == CASSINI_PKT_PING)
			pkt.remote_offset = pkt.match_bits = pkt.header_data = 0;
		drop = rest_take(frame, &pkt);
		if (unlikely(drop))
			return drop;
	}
	*out = pkt;
	return CASSINI_DROP_NONE;
}

/* --- the encoder --- */

static void amo_encode(const struct cassini_pkt_in *pkt, uint8_t *to)
{
	const struct cassini_amo_in *amo = &pkt->amo;
	struct cassini_amo_wire w = {
		.op = amo->op,
		.type = amo->type,
		.cswap = amo->op == CASSINI_AMO_CSWAP ? amo->cswap : 0,
		.handle = le32_put(pkt->op == CASSINI_PKT_FETCH ? pkt->handle : 0),
		.op1 = {le64_put(amo->op1[0]), le64_put(amo->op1[1])},
		.op2 = {le64_put(amo->op2[0]), le64_put(amo->op2[1])},
	};

	memcpy(to, &w, sizeof(w));
}

size_t cassini_pkt_encode(const struct cassini_pkt_in *pkt, void *buf)
{
	const struct cassini_pkt_desc *desc = &cassini_pkt[pkt->op];
	bool is_reply = pkt->op == CASSINI_PKT_REPLY, is_done = pkt->op == CASSINI_PKT_RGET_DONE;
	struct tail t = {
		.handle = le32_put(pkt->handle),
		.region = le32_put(pkt->region),
		.raddr = le64_put(pkt->op == CASSINI_PKT_RPUT ? pkt->get_bits : pkt->raddr),
	};
	struct cassini_hdr h = {
		.ver_op = (uint8_t)(CASSINI_WIRE_VERSION << 4 | pkt->op),
		.flags = desc->to_pte ? pkt->flags : 0,
		.pid_idx = is_reply || is_done ? pkt->rc : desc->to_pte ? pkt->pid_idx : 0,
		.arg = is_reply ? pkt->ptl_list : pkt->op == CASSINI_PKT_RPUT ? pkt->rendezvous_id : 0,
		.vni = le16_put(pkt->vni),
		.pid = le16_put(pkt->pid),
		.initiator = le32_put(is_reply ? pkt->handle : pkt->initiator),
		.request_len = le32_put(pkt->op == CASSINI_PKT_PING ? 0 : pkt->request_len),
		.remote_offset = le64_put(is_done ? 0 : pkt->remote_offset),
		.match_bits = le64_put(is_done ? pkt->get_bits : pkt->match_bits),
		.header_data = le64_put(pkt->header_data),
	};

	memcpy(buf, &h, MIN((size_t)desc->hdr_len, (size_t)HDR_PUT));
	if (desc->payload_min) {
		amo_encode(pkt, (uint8_t *)buf + HDR_PUT);
		return HDR_PUT + OPERANDS;
	}
	if (pkt->op == CASSINI_PKT_GET || is_done)
		memcpy((uint8_t *)buf + HDR_MATCH, &t, desc->hdr_len - HDR_MATCH);
	else if (desc->hdr_len > HDR_PUT)
		memcpy((uint8_t *)buf + HDR_PUT, &t, desc->hdr_len - HDR_PUT);
	return desc->hdr_len;
}
