// SPDX-License-Identifier: BSD-2-Clause
// What a frame between two soft Cassini adapters looks like, and the door that every received one passes.
#ifndef SF_NIC_CASSINI_CASSINI_WIRE_H
#define SF_NIC_CASSINI_CASSINI_WIRE_H

#include "base/base.h"
#include "base/le.h"
#include "base/view.h"
#include "nic/cassini/cassini.h"

/*
 * All integers little-endian. The first eight bytes are common; hdr_len of the packet's row says how much of the rest
 * exists.
 *
 *   0        1        2        3        4        5        6        7
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | ver|op | flags  | pid_idx| arg    | VNI             | PID of the target|
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | initiator (match id)              | request_len                       |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | remote_offset                                                         |
 *  | match_bits                                                            |
 *  | header_data      (PUT, RPUT, ATOMIC, FETCH)                           |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | op handle of the initiator        | region key of its memory, 0: none |
 *  | raddr: virtual address there (PUT: source, GET: destination); RPUT: get_bits
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | payload (PUT that fits; RPUT: the eager bytes; ATOMIC, FETCH: operands; REPLY: data)
 *
 * PUT comes in two forms: with its payload (PUT), or with the region where the target fetches it by a bulk copy
 * (PUT_BULK). GET asks for an answer in a frame when its region key is 0, else for a bulk copy into that region. The
 * verdict of the link tells the initiator whether a packet was taken (0, or VERDICT_LIST + list) or its return code;
 * REPLY ends what a verdict cannot: data, bulk copies, fetching atomics. RGET_DONE tells the source of a rendezvous
 * that the target's adapter has fetched the rest. PING asks whether somebody is there.
 *
 * REPLY:     | ver|op | flags | rc | ptl_list | VNI | PID | op handle | mlength | payload
 * RGET_DONE: as PUT's first 32 bytes with the rc in place of pid_idx: request_len = bytes fetched, match_bits =
 * get_bits; then the op handle
 */
#define CASSINI_WIRE_VERSION 1

enum cassini_pkt_op {
	CASSINI_PKT_PUT = 1,
	CASSINI_PKT_PUT_BULK,
	CASSINI_PKT_RPUT,      /* RENDEZVOUS_PUT */
	CASSINI_PKT_GET,
	CASSINI_PKT_ATOMIC,
	CASSINI_PKT_FETCH,
	CASSINI_PKT_REPLY,
	CASSINI_PKT_RGET_DONE,
	CASSINI_PKT_PING,
	CASSINI_PKT_NUM
};

/* flags */
enum {
	CASSINI_PKTF_RESTRICTED = 1, CASSINI_PKTF_FLUSH = 2, CASSINI_PKTF_HRP = 4, CASSINI_PKTF_AGAIN = 8,
	CASSINI_PKTF_ALL = 15
};

struct cassini_hdr {
	uint8_t ver_op;   /* version in the top four bits */
	uint8_t flags;    /* CASSINI_PKTF_* */
	uint8_t pid_idx;  /* REPLY, RGET_DONE: rc */
	uint8_t arg;      /* RPUT: rendezvous_id; REPLY: ptl_list; else 0 */
	le16_t vni, pid;
	le32_t initiator; /* REPLY: op handle */
	le32_t request_len; /* REPLY: mlength */
	/* REPLY ends here */
	le64_t remote_offset;
	le64_t match_bits;
	/* RGET_DONE: then handle; GET: then handle, region, raddr */
	le64_t header_data;
	le32_t handle;
	le32_t region;
	le64_t raddr;
};
static_assert(sizeof(struct cassini_hdr) == 56, "longest header");
#define CASSINI_HDR_MAX sizeof(struct cassini_hdr)

/* Operands of an atomic, the payload of ATOMIC and FETCH. */
struct cassini_amo_wire {
	uint8_t op, type, cswap, rsvd; /* rsvd 0 */
	le32_t handle;                 /* FETCH: op handle; ATOMIC: 0 */
	le64_t op1[2], op2[2];
};
static_assert(sizeof(struct cassini_amo_wire) == 40, "operands");

/* most payload bytes of one frame: LINK_FRAME_MAX less the header, a multiple of 128 */
#define CASSINI_FRAME_DATA 18560u

/* Verdicts of on_frame: 0 taken, on the priority list; below 64 an enum cassini_rc; else taken, on list (v - 64). */
#define CASSINI_VERDICT_LIST 64

/* One row per op; row 0 is no packet. */
struct cassini_pkt_desc {
	const char *name;
	uint16_t hdr_len;      /* bytes of struct cassini_hdr that it carries, as cassini_pkt_check() lays them out */
	uint16_t payload_min, payload_max;
	bool to_pte;           /* pid_idx names its target */
};
extern const struct cassini_pkt_desc cassini_pkt[CASSINI_PKT_NUM];

enum cassini_drop {
	CASSINI_DROP_NONE, CASSINI_DROP_SHORT, CASSINI_DROP_VERSION, CASSINI_DROP_OP, CASSINI_DROP_RESERVED,
	CASSINI_DROP_LENGTH, CASSINI_DROP_NUM
};
extern const char *const cassini_drop_name[CASSINI_DROP_NUM];

/* A packet in host order; what its op does not have is 0. In the order of the header, so that to fill it in is to copy.
 */
struct cassini_pkt_in {
	uint8_t op, flags, pid_idx;
	uint8_t rendezvous_id; /* RPUT */
	uint16_t vni, pid;
	uint32_t initiator;
	uint32_t request_len;   /* REPLY: mlength */
	uint64_t remote_offset, match_bits, header_data;
	uint32_t payload_len;
	uint16_t hdr_len;     /* bytes of the frame before the payload */
	uint8_t rc, ptl_list; /* REPLY */
	uint32_t handle, region;
	uint64_t raddr, get_bits;
	/* ATOMIC, FETCH: their payload, already taken out */
	struct cassini_amo_in { uint8_t op, type, cswap; uint64_t op1[2], op2[2]; } amo;
};

/** cassini_pkt_open() - @out of a packet whose header ends with header_data. */
static inline void cassini_pkt_open(struct cassini_pkt_in *out, const struct cassini_hdr *h, uint16_t hdr_len,
				    uint32_t len)
{
	out->op = h->ver_op & 15;
	out->flags = h->flags;
	out->pid_idx = h->pid_idx;
	out->rendezvous_id = 0;
	out->vni = le16_get(h->vni);
	out->pid = le16_get(h->pid);
	out->initiator = le32_get(h->initiator);
	out->request_len = le32_get(h->request_len);
	out->remote_offset = le64_get(h->remote_offset);
	out->match_bits = le64_get(h->match_bits);
	out->header_data = le64_get(h->header_data);
	out->payload_len = len - hdr_len;
	out->hdr_len = hdr_len;
	out->rc = out->ptl_list = 0;
	out->handle = out->region = 0;
	out->raddr = out->get_bits = 0;
	out->amo = (struct cassini_amo_in){0};
}

/**
 * cassini_pkt_check() - The door: copies the header (and the operands of an atomic) out of @frame and checks all of it:
 * version, op, flags, reserved bits, lengths (a PUT's payload is its request_len; an RPUT's at most that), PID and VNI
 * ranges, PID and NIC of the initiator.
 * @frame: anything, also memory that its sender still writes. @out: written only if the frame is good.
 */
enum cassini_drop cassini_pkt_check(const struct view *frame, struct cassini_pkt_in *out);

/**
 * cassini_pkt_encode() - @pkt in wire form, without payload (the operands of atomics included). @buf: 96 bytes. Return:
 * bytes.
 */
size_t cassini_pkt_encode(const struct cassini_pkt_in *pkt, void *buf);
#define CASSINI_ENCODE_MAX 96u

#endif
