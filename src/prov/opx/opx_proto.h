// SPDX-License-Identifier: BSD-2-Clause
// Packets of the opx protocol: opcodes, what each header field means for each of them, and the door that every received
// one passes.
#ifndef SF_PROV_OPX_OPX_PROTO_H
#define SF_PROV_OPX_OPX_PROTO_H

#include "base/base.h"
#include "nic/hfi/hfi.h"

/*
 * Every packet begins with struct hfi_hdr. Numbers are upstream's where it has one for the same thing
 * (doc/facts/opx.md#opcodes); nothing here needs to talk to another implementation. "handle" is a slab handle (index
 * and generation) that its owner checks: there is no pointer on the wire.
 *
 *  opcode            aux        imm      w[0]             w[1]                tag               payload
 *  UD                enum ud    (below)
 *  *_INJECT          len|DATA   CQ data  bytes 0..7       bytes 8..15 / none  tag
 *  *_EAGER           DATA       CQ data  len              not there           tag               len bytes
 *  *_MP_EAGER_FIRST  DATA       CQ data  len of message   0                   tag               its first bytes
 *  MP_EAGER_NTH      0          0        offset           PSN of the first    0                 bytes from there
 *  *_RZV_RTS         DATA       CQ data  len of message   handle | RTS_*<<32  tag               RTS_LOCAL: pieces
 *  RZV_CTS           RZV        TIDs     handle (sender)  handle | gen<<32    len wanted        tids [imm]
 *                    GET        handle   offset in MR     key                 len               local: pieces [1..4]
 *  RZV_DATA          RZV        0        offset           handle | gen<<32    0                 bytes (TID: in KDETH)
 *                    AHEAD      0        offset           handle (sender)     0                 bytes
 *                    PUT        handle   offset in MR     key                 end offset        bytes
 *                    GET        0        offset           handle (initiator)  len               bytes
 *                    FETCH      0        0                handle (initiator)  0                 old values
 *  RMA               PUT_LOCAL  handle   offset in MR     key                 len               pieces [1..4]
 *                    PUT_DATA   CQ data  offset in MR     key                 len of write        le32_t handle
 *  ATOMIC            kind       handle   offset in MR     key                 dt|op<<8|cnt<<16    operands, comparands
 *  DONE              0          0        handle           enum opx_status     0
 *
 * handle | gen: the receiver's; pieces: struct opx_piece of memory to read from (RTS, PUT_LOCAL) or to write to (GET);
 * tids: struct opx_wire_tid.
 *
 * handle in PUT, PUT_LOCAL, PUT_DATA, ATOMIC: OPX_NO_HANDLE where nobody waits; then only a failure is answered (DONE
 * with OPX_NO_HANDLE). OPX_DATA_HANDLE in PUT, PUT_LOCAL: nothing is answered, the PUT_DATA that follows is, for both.
 * A PUT packet is the last one when w[0] + payload == tag. UD packets: opx_flow.h.
 */

enum opx_opcode {
	OPX_RZV_CTS = 0xC1, OPX_RZV_DATA = 0xC2, OPX_RMA = 0xC3, OPX_ATOMIC = 0xC4, OPX_DONE = 0xC5, OPX_UD = 0xC6,
	OPX_MP_EAGER_NTH = 0xF7, OPX_MSG_INJECT = 0xF8, OPX_MSG_EAGER, OPX_MSG_MP_EAGER_FIRST, OPX_MSG_RZV_RTS,
	OPX_TAG_INJECT = 0xFC, OPX_TAG_EAGER, OPX_TAG_MP_EAGER_FIRST, OPX_TAG_RZV_RTS,
};
#define OPX_TAGGED_BIT (OPX_TAG_INJECT - OPX_MSG_INJECT) /* of the message opcodes */

enum opx_sub {
	OPX_SUB_RZV, OPX_SUB_PUT, OPX_SUB_GET, OPX_SUB_FETCH = 4, OPX_SUB_AHEAD,
	OPX_SUB_PUT_LOCAL = 16, OPX_SUB_PUT_DATA
};
#define OPX_AUX_DATA  0x80u /* imm is remote CQ data */
#define OPX_AUX_LEN   0x1fu /* INJECT */
#define OPX_NO_HANDLE UINT32_MAX
#define OPX_DATA_HANDLE (UINT32_MAX - 1)

enum {
	OPX_RTS_LOCAL = 1,
	OPX_RTS_DONE = 2, /* the sender waits for DONE */
	OPX_RTS_AHEAD = 4 /* the data follow unasked, as AHEAD, for a receive that is posted when the RTS comes */
};

/* Why a peer did not do what it was asked; also prov_errno of error entries. */
enum opx_status {
	OPX_OK, OPX_ST_KEY = 1, OPX_ST_RANGE, OPX_ST_ACCESS, OPX_ST_ATOMIC, OPX_ST_CANCELED, OPX_ST_NOMEM, OPX_ST_COPY,
	OPX_ST_GONE,
	OPX_ST_WIRE_NUM,
	/* not on the wire */
	OPX_ST_PEER_GONE = 32, OPX_ST_PEER_SILENT, OPX_ST_PEER_REPLACED, OPX_ST_NET_DOWN, OPX_ST_UNREACH, OPX_ST_TRUNC,
	OPX_ST_UNKEPT,
	OPX_ST_NUM
};
/**
 * opx_status_of() - Why a post or a copy between processes failed with @rc: @other if it is nothing that has a status
 * of its own.
 */
enum opx_status opx_status_of(int rc, enum opx_status other);
/** opx_err_of() - fi errno of a status; opx_strerror() its words. */
int opx_err_of(enum opx_status st);
const char *opx_strerror(int prov_errno);

struct opx_piece { le64_t addr; le64_t len; le32_t key; le32_t rsvd; };
struct opx_wire_tid { le16_t idx, rsvd; le32_t len; };
#define OPX_PIECES 4

#define OPX_INJECT_MAX 16u
#define OPX_MP_MAX     65535u /* multi-packet eager, hard limit */
#define OPX_EAGER_MAX  8192u /* FI_OPX: payload of one packet */

/* Has a packet w[1], or is its header cut (hfi_hdr_len())? IF_NEEDED: up to the 8 bytes that w[0] holds need none. */
enum opx_w1 { OPX_W1_ALWAYS, OPX_W1_NEVER, OPX_W1_IF_NEEDED };

/* One row per opcode: what opx_pkt_check() demands. */
struct opx_pkt_desc {
	const char *name;
	uint32_t payload_min, payload_max;
	enum opx_w1 w1;
	bool is_msg;   /* may match a receive */
	bool tagged;
};
/** opx_pkt_desc() - NULL: no such opcode. */
const struct opx_pkt_desc *opx_pkt_desc(uint8_t opcode);
/** opx_inject_head() - The header's bytes for INJECT of @len bytes: w[0] holds half of OPX_INJECT_MAX. */
static inline uint32_t opx_inject_head(uint64_t len)
{
	return len <= OPX_INJECT_MAX / 2 ? HFI_HDR_CUT : (uint32_t)sizeof(struct hfi_hdr);
}
/** opx_inject_fits() - Are the bytes of an INJECT in its header? */
static inline bool opx_inject_fits(const struct hfi_hdr *h)
{
	return (h->aux & OPX_AUX_LEN) + (h->bth1 & HFI_BTH_CUT) <= OPX_INJECT_MAX;
}
/** opx_pkt_is_whole() - A packet that opx_pkt_check() would pass, of the two kinds that most messages are. */
static inline bool opx_pkt_is_whole(const struct hfi_hdr *h, uint32_t payload_len)
{
	uint8_t kind = h->opcode & (uint8_t)~OPX_TAGGED_BIT;

	if (likely(kind == OPX_MSG_INJECT))
		return !payload_len && opx_inject_fits(h);
	return kind == OPX_MSG_EAGER && (h->bth1 & HFI_BTH_CUT) && payload_len <= OPX_EAGER_MAX &&
	       le64_get(h->w[0]) == payload_len;
}
/**
 * opx_pkt_check() - The door: opcode, sub-opcode, payload length, lengths against each other. NULL: fine; else why not,
 * for the log.
 */
const char *opx_pkt_check(const struct hfi_hdr *h, uint32_t payload_len);

#endif
