// SPDX-License-Identifier: BSD-2-Clause
// Frame formats of the soft EFA adapter: descriptor table, door, encoder.
#include "nic/efanic/efanic_wire.h"

const struct efanic_pkt_desc efanic_pkt[EFANIC_PKT_NUM] = {
	[EFANIC_PKT_SEND] = {.name = "SEND",
			     .hdr_len = 8,
			     .payload_max = EFANIC_MTU,
			     .on_ud = true},
	[EFANIC_PKT_SEND_IMM] = {.name = "SEND_IMM",
				 .hdr_len = 12,
				 .payload_max = EFANIC_MTU,
				 .has_imm = true,
				 .on_ud = true},
	[EFANIC_PKT_WRITE_IMM] = {.name = "WRITE_IMM", .hdr_len = 16, .has_imm = true},
};

const char *const efanic_drop_name[EFANIC_DROP_NUM] = {
	[EFANIC_DROP_NONE] = "none",	     [EFANIC_DROP_SHORT] = "short",
	[EFANIC_DROP_VERSION] = "version",   [EFANIC_DROP_OP] = "op",
	[EFANIC_DROP_RESERVED] = "reserved", [EFANIC_DROP_LENGTH] = "length",
	[EFANIC_DROP_CLAIM] = "claim",
};

/* A header that is cut into pieces, or a frame that is shorter than the longest header. */
static __attribute__((cold, noinline)) size_t hdr_gather(const struct view *frame,
							 struct efanic_hdr_all *out)
{
	size_t done = 0;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < frame->seg_cnt && done < sizeof(*out); i++) {
		size_t n = MIN((size_t)frame->seg[i].len, sizeof(*out) - done);

		memcpy((uint8_t *)out + done, frame->seg[i].p, n);
		done += n;
	}
	return done;
}

static size_t hdr_copy(const struct view *frame, struct efanic_hdr_all *out)
{
	if (unlikely(!frame->seg_cnt || frame->seg[0].len < sizeof(*out)))
		return hdr_gather(frame, out);
	memcpy(out, frame->seg[0].p, sizeof(*out));
	return sizeof(*out);
}

enum efanic_drop efanic_pkt_check(const struct view *frame, struct efanic_pkt_in *out)
{
	const struct efanic_pkt_desc *desc;
	struct efanic_hdr_all hdr;
	size_t have = hdr_copy(frame, &hdr);

	if (unlikely(have < sizeof(hdr.base)))
		return EFANIC_DROP_SHORT;
	if (unlikely(hdr.base.ver != EFANIC_WIRE_VERSION))
		return EFANIC_DROP_VERSION;
	if (unlikely(hdr.base.op == 0 || hdr.base.op >= EFANIC_PKT_NUM))
		return EFANIC_DROP_OP;
	if (unlikely(le16_get(hdr.base.rsvd)))
		return EFANIC_DROP_RESERVED;
	desc = &efanic_pkt[hdr.base.op];
	if (unlikely(have < desc->hdr_len || frame->len < desc->hdr_len))
		return EFANIC_DROP_SHORT;
	if (unlikely(frame->len - desc->hdr_len > desc->payload_max))
		return EFANIC_DROP_LENGTH;
	out->op = hdr.base.op;
	out->has_imm = desc->has_imm;
	out->hdr_len = desc->hdr_len;
	out->payload_len = frame->len - desc->hdr_len;
	out->qkey = le32_get(hdr.base.qkey);
	out->imm = 0;
	out->len = 0;
	if (desc->has_imm)
		out->imm = le32_get(hdr.ext.imm);
	if (hdr.base.op == EFANIC_PKT_WRITE_IMM)
		out->len = le32_get(hdr.ext.len);
	return EFANIC_DROP_NONE;
}

uint8_t efanic_drop_status(enum efanic_drop drop)
{
	switch (drop) {
	case EFANIC_DROP_NONE:
		return EFANIC_OK;
	case EFANIC_DROP_VERSION:
	case EFANIC_DROP_OP:
	case EFANIC_DROP_RESERVED:
		return EFANIC_REMOTE_FEATURE_MISMATCH;
	case EFANIC_DROP_SHORT:
	case EFANIC_DROP_LENGTH:
	case EFANIC_DROP_CLAIM:
		return EFANIC_REMOTE_BAD_LENGTH;
	case EFANIC_DROP_NUM:
		break;
	}
	must(0);
}

uint8_t efanic_refusal_status(int code)
{
	switch (code) {
	case EFANIC_REMOTE_BAD_ADDRESS:
	case EFANIC_REMOTE_ABORT:
	case EFANIC_REMOTE_BAD_DEST_QPN:
	case EFANIC_REMOTE_RNR:
	case EFANIC_REMOTE_BAD_LENGTH:
	case EFANIC_REMOTE_UNKNOWN_PEER:
	case EFANIC_REMOTE_FEATURE_MISMATCH:
		return (uint8_t)code;
	default: /* not something that a responder says */
		return EFANIC_REMOTE_BAD_STATUS;
	}
}

void efanic_grh_encode(struct efanic_grh *out, const uint8_t sgid[16], const uint8_t dgid[16],
		       uint32_t payload_len)
{
	*out = (struct efanic_grh){
		.ver_class_flow = be32_put(6u << 28),
		.payload_len = be16_put((uint16_t)payload_len),
		.next_hdr = 0x1b,
		.hop_limit = 64,
	};
	memcpy(out->sgid, sgid, 16);
	memcpy(out->dgid, dgid, 16);
}
