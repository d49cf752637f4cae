// SPDX-License-Identifier: BSD-2-Clause
// The packet table of the opx protocol, and what is checked of each packet before anybody looks at it.
#include "prov/opx/opx_proto.h"

#include "prov/opx/flow/opx_flow.h"

#define PIECES_LEN (OPX_PIECES * (uint32_t)sizeof(struct opx_piece))
#define ROW(op_)   [(op_)-OPX_RZV_CTS]

static_assert(sizeof(struct hfi_hdr) - offsetof(struct hfi_hdr, w) == OPX_INJECT_MAX, "opx_inject_fits()");
static_assert(sizeof(struct opx_piece) == 24 && sizeof(struct opx_wire_tid) == 8, "what is on the wire has no padding");

static const struct opx_pkt_desc desc[] = {
	ROW(OPX_RZV_CTS) = {"RZV_CTS", 0, HFI_MTU},
	ROW(OPX_RZV_DATA) = {"RZV_DATA", 0, HFI_MTU},
	ROW(OPX_RMA) = {"RMA", 0, PIECES_LEN},
	ROW(OPX_ATOMIC) = {"ATOMIC", 0, HFI_MTU},
	ROW(OPX_DONE) = {"DONE", 0, 0},
	ROW(OPX_UD) = {"UD", 0, 0},
	ROW(OPX_MP_EAGER_NTH) = {"MP_EAGER_NTH", 1, OPX_EAGER_MAX},
	ROW(OPX_MSG_INJECT) = {"MSG_INJECT", 0, 0, OPX_W1_IF_NEEDED, .is_msg = true},
	ROW(OPX_MSG_EAGER) = {"MSG_EAGER", 0, OPX_EAGER_MAX, OPX_W1_NEVER, .is_msg = true},
	ROW(OPX_MSG_MP_EAGER_FIRST) = {"MSG_MP_EAGER_FIRST", 1, OPX_EAGER_MAX, .is_msg = true},
	ROW(OPX_MSG_RZV_RTS) = {"MSG_RZV_RTS", 0, PIECES_LEN, .is_msg = true},
	ROW(OPX_TAG_INJECT) = {"TAG_INJECT", 0, 0, OPX_W1_IF_NEEDED, .is_msg = true, .tagged = true},
	ROW(OPX_TAG_EAGER) = {"TAG_EAGER", 0, OPX_EAGER_MAX, OPX_W1_NEVER, .is_msg = true, .tagged = true},
	ROW(OPX_TAG_MP_EAGER_FIRST) = {"TAG_MP_EAGER_FIRST", 1, OPX_EAGER_MAX, .is_msg = true, .tagged = true},
	ROW(OPX_TAG_RZV_RTS) = {"TAG_RZV_RTS", 0, PIECES_LEN, .is_msg = true, .tagged = true},
};
static_assert(ARRAY_SIZE(desc) == OPX_TAG_RZV_RTS - OPX_RZV_CTS + 1, "the last opcode is the last row");
static_assert((uint8_t)(OPX_MSG_INJECT | OPX_TAGGED_BIT) == OPX_TAG_INJECT &&
		      (OPX_MSG_RZV_RTS | OPX_TAGGED_BIT) == OPX_TAG_RZV_RTS,
	      "one bit makes a message a tagged one");

const struct opx_pkt_desc *opx_pkt_desc(uint8_t opcode)
{
	uint8_t row = (uint8_t)(opcode - OPX_RZV_CTS);

	return row < ARRAY_SIZE(desc) && desc[row].name ? &desc[row] : NULL;
}

static const char *check_ud(const struct hfi_hdr *h)
{
	bool is_known = (h->aux >= OPX_UD_PING && h->aux <= OPX_UD_RESYNCH) || h->aux == OPX_UD_BYE;

	return is_known ? NULL : "unknown UD packet";
}

static bool is_pieces(uint32_t payload_len)
{
	return payload_len && payload_len <= PIECES_LEN && payload_len % sizeof(struct opx_piece) == 0;
}

static const char *check_rts(const struct hfi_hdr *h, uint32_t payload_len)
{
	uint64_t flags = le64_get(h->w[1]) >> 32;

	if (flags & ~(uint64_t)(OPX_RTS_LOCAL | OPX_RTS_DONE | OPX_RTS_AHEAD))
		return "unknown RTS flags";
	if (flags & OPX_RTS_AHEAD && (flags & OPX_RTS_LOCAL || !(flags & OPX_RTS_DONE)))
		return "data ahead that nothing ends";
	if (flags & OPX_RTS_LOCAL ? !is_pieces(payload_len) : payload_len)
		return "pieces of an RTS";
	return NULL;
}

static const char *check_cts(const struct hfi_hdr *h, uint32_t payload_len)
{
	switch (h->aux) {
	case OPX_SUB_RZV:
		return payload_len == (uint64_t)le32_get(h->imm) * sizeof(struct opx_wire_tid) ? NULL : "TIDs of a CTS";
	case OPX_SUB_GET:
		return !payload_len || is_pieces(payload_len) ? NULL : "pieces of a CTS";
	default:
		return "unknown CTS";
	}
}

static const char *check_data(const struct hfi_hdr *h, uint32_t payload_len)
{
	uint64_t off = le64_get(h->w[0]), end;

	if (__builtin_add_overflow(off, payload_len, &end))
		return "offset out of range";
	switch (h->aux) {
	case OPX_SUB_RZV:
	case OPX_SUB_AHEAD:
		return payload_len ? NULL : "data without bytes";
	case OPX_SUB_PUT:
		return end <= le64_get(h->tag) ? NULL : "more than was to be put";
	case OPX_SUB_GET:
		return payload_len <= le64_get(h->tag) ? NULL : "more than was to be got";
	case OPX_SUB_FETCH:
		return payload_len ? NULL : "values without bytes";
	default:
		return "unknown data";
	}
}

static const char *check_rma(const struct hfi_hdr *h, uint32_t payload_len)
{
	uint64_t end;

	switch (h->aux) {
	case OPX_SUB_PUT_LOCAL:
		if (__builtin_add_overflow(le64_get(h->w[0]), le64_get(h->tag), &end))
			return "offset out of range";
		return is_pieces(payload_len) ? NULL : "pieces of a put";
	case OPX_SUB_PUT_DATA:
		return payload_len == sizeof(le32_t) ? NULL : "handle of a put with data";
	default:
		return "unknown RMA";
	}
}

/* Lengths against each other, and sub-opcodes. */
static const char *check_op(const struct hfi_hdr *h, uint32_t payload_len)
{
	switch ((enum opx_opcode)h->opcode) {
	case OPX_MSG_INJECT:
	case OPX_TAG_INJECT:
		return opx_inject_fits(h) ? NULL : "inject too long";
	case OPX_MSG_EAGER:
	case OPX_TAG_EAGER:
		return le64_get(h->w[0]) == payload_len ? NULL : "length of an eager message";
	case OPX_MSG_MP_EAGER_FIRST:
	case OPX_TAG_MP_EAGER_FIRST:
		return le64_get(h->w[0]) > payload_len ? NULL : "length of a message of several packets";
	case OPX_MP_EAGER_NTH:
		return le64_get(h->w[0]) <= UINT64_MAX - payload_len && le64_get(h->w[1]) <= HFI_PSN_MASK
			       ? NULL
			       : "place of a packet";
	case OPX_MSG_RZV_RTS:
	case OPX_TAG_RZV_RTS:
		return check_rts(h, payload_len);
	case OPX_RZV_CTS:
		return check_cts(h, payload_len);
	case OPX_RZV_DATA:
		return check_data(h, payload_len);
	case OPX_RMA:
		return check_rma(h, payload_len);
	case OPX_ATOMIC:
		return (uint16_t)(le64_get(h->tag) >> 16) ? NULL : "atomic of nothing";
	case OPX_DONE:
		return le64_get(h->w[1]) < OPX_ST_WIRE_NUM ? NULL : "unknown status";
	case OPX_UD:
		return check_ud(h);
	}
	return "unknown opcode";
}

const char *opx_pkt_check(const struct hfi_hdr *h, uint32_t payload_len)
{
	const struct opx_pkt_desc *d = opx_pkt_desc(h->opcode);

	if (unlikely(!d))
		return "unknown opcode";
	if (unlikely(payload_len < d->payload_min || payload_len > d->payload_max))
		return "payload length";
	if (unlikely(d->w1 == (h->bth1 & HFI_BTH_CUT ? OPX_W1_ALWAYS : OPX_W1_NEVER)))
		return "header length";
	return check_op(h, payload_len);
}
