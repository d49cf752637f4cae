// SPDX-License-Identifier: BSD-2-Clause
// What a frame between two soft EFA adapters looks like, and the door that every received one
// passes.
#ifndef SF_NIC_EFANIC_EFANIC_WIRE_H
#define SF_NIC_EFANIC_EFANIC_WIRE_H

#include <string.h>

#include "base/base.h"
#include "base/le.h"
#include "base/view.h"
#include "nic/efanic/efanic.h"

/*
 *   0        1        2        3        4        5        6        7
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | ver    | op     | reserved, 0     | Q_Key of the destination          |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | imm (SEND_IMM, WRITE_IMM)         | len (WRITE_IMM)                   |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | payload (SEND, SEND_IMM) ...
 *
 * All integers little-endian. Who sent it is known to the link (address and port = GID and QPN),
 * and so is where the frame ends. RDMA data does not travel in these frames: it is the link's bulk
 * service; WRITE_IMM follows a finished write.
 */
#define EFANIC_WIRE_VERSION 1

enum efanic_pkt_op {
	EFANIC_PKT_SEND = 1,
	EFANIC_PKT_SEND_IMM,
	EFANIC_PKT_WRITE_IMM,
	EFANIC_PKT_NUM
};

struct efanic_hdr {
	uint8_t ver;
	uint8_t op; /* enum efanic_pkt_op */
	le16_t rsvd;
	le32_t qkey;
};
static_assert(sizeof(struct efanic_hdr) == 8, "base header");

/* Follows struct efanic_hdr in part or whole: hdr_len of the descriptor says how much. */
struct efanic_hdr_ext {
	le32_t imm;
	le32_t len; /* bytes that the RDMA write carried; believed as far as they have come, link_peer_wrote() */
};
static_assert(sizeof(struct efanic_hdr_ext) == 8, "header extension");

/* The longest header; of the shorter ones only the first hdr_len bytes exist. */
struct efanic_hdr_all {
	struct efanic_hdr base;
	struct efanic_hdr_ext ext;
};
#define EFANIC_HDR_MAX sizeof(struct efanic_hdr_all)
static_assert(EFANIC_HDR_MAX == 16, "longest header");

/* One row per op; row 0 is no packet. */
struct efanic_pkt_desc {
	const char *name;
	uint16_t hdr_len;     /* bytes */
	uint16_t payload_max; /* bytes; the minimum is always 0 */
	bool has_imm;
	bool on_ud; /* UD queue pairs take it too */
};
static_assert(sizeof(struct efanic_pkt_desc) <= 16, "cheap to index");
extern const struct efanic_pkt_desc efanic_pkt[EFANIC_PKT_NUM];

/* Why the door refused a frame. */
enum efanic_drop {
	EFANIC_DROP_NONE,
	EFANIC_DROP_SHORT,    /* ends inside its header */
	EFANIC_DROP_VERSION,  /* another wire version */
	EFANIC_DROP_OP,	      /* no such op */
	EFANIC_DROP_RESERVED, /* reserved bits set */
	EFANIC_DROP_LENGTH,   /* payload longer than the op allows */
	EFANIC_DROP_CLAIM,    /* of more bytes than were written */
	EFANIC_DROP_NUM
};
extern const char *const efanic_drop_name[EFANIC_DROP_NUM];

/* A header that passed the door, in host order. */
struct efanic_pkt_in {
	uint8_t op;
	bool has_imm;
	uint16_t hdr_len;     /* bytes of the frame before the payload */
	uint32_t payload_len; /* bytes */
	uint32_t qkey;
	uint32_t imm, len; /* 0 when the op has none */
};

/**
 * efanic_pkt_check() - The door: copies the header out of @frame and checks all of it.
 * @frame: anything, also memory that its sender still writes. @out: written only if the frame is
 * good. Return: EFANIC_DROP_NONE or the first reason to refuse it.
 */
enum efanic_drop efanic_pkt_check(const struct view *frame, struct efanic_pkt_in *out);

/* struct efanic_hdr as one number: what a SEND from anyone to a queue pair with @qkey begins with.
 */
static inline le64_t efanic_hdr_word(enum efanic_pkt_op op, uint32_t qkey)
{
	return le64_put(EFANIC_WIRE_VERSION | (uint64_t)op << 8 | (uint64_t)qkey << 32);
}

/** efanic_send_encode() - Write the header of a SEND to @qkey, as efanic_pkt_encode() does: 8 bytes. */
static inline void efanic_send_encode(uint32_t qkey, uint8_t *buf)
{
	le32_t word[2] = {le32_put(EFANIC_WIRE_VERSION | EFANIC_PKT_SEND << 8), le32_put(qkey)};

	memcpy(buf, &word[0], 4); /* a constant and one number: two stores are less than putting them together */
	memcpy(buf + 4, &word[1], 4);
}

/**
 * efanic_pkt_encode() - Write a header.
 * @imm, @len: ignored where @op has none.
 * @buf:       EFANIC_HDR_MAX bytes.
 * Return:     length of the header, bytes.
 */
static inline size_t efanic_pkt_encode(enum efanic_pkt_op op, uint32_t qkey, uint32_t imm,
				       uint32_t len, void *buf)
{
	le64_t word[2] = {efanic_hdr_word(op, qkey), le64_put(imm | (uint64_t)len << 32)};

	memcpy(buf, word, sizeof(word));
	return efanic_pkt[op].hdr_len;
}

/**
 * efanic_hdr_is() - The door's first row: do the 8 bytes at @p say what @want does, efanic_hdr_word() of a SEND to this
 * queue pair? The comparison covers all that the door checks but the length. False: efanic_pkt_check() has the others.
 */
static inline bool efanic_hdr_is(const uint8_t *p, le64_t want)
{
	return !memcmp(p, &want, sizeof(want));
}

/** efanic_drop_status() - What the sender of a frame so refused is told (enum efanic_status). */
uint8_t efanic_drop_status(enum efanic_drop drop);

/** efanic_refusal_status() - Completion status for the refusal code of a peer; any byte is possible. */
uint8_t efanic_refusal_status(int code);

/* The global route header that UD puts before the payload of a receive: an IPv6 header. Source:
 * IBTA 1.4, 8.3. */
struct efanic_grh {
	be32_t ver_class_flow; /* version 6 in the top four bits */
	be16_t payload_len;    /* bytes after this header */
	uint8_t next_hdr;      /* 0x1b: a base transport header follows */
	uint8_t hop_limit;
	uint8_t sgid[16], dgid[16];
};
static_assert(sizeof(struct efanic_grh) == EFANIC_UD_GRH_LEN, "GRH");

void efanic_grh_encode(struct efanic_grh *out, const uint8_t sgid[16], const uint8_t dgid[16],
		       uint32_t payload_len);

#endif
