// SPDX-License-Identifier: BSD-2-Clause
// Messages of the bulk service as frames of kind LINK_K_BULK: formats, table, and the one door they
// come in by.
//
// The initiator names its operation by (id, tag); the target only echoes both, but for what it sends unasked (OFFER,
// AHEAD and the status WITHDRAWN), which it names itself; the key in AHEAD is for who reads a capture. GET asks for a
// range and is answered by DATA frames that cover it, in any order; PUT carries its bytes, and each of
// its frames names the whole operation, so that the target checks key, range and right of every
// frame without remembering anything. REPLY ends or acknowledges.
//
// A type or status that is new here is a new REL_VERSION, unless who does not know it may ignore it: older builds drop
// the message, and what waits for it would not end.
#ifndef SF_LINK_BULK_WIRE_H
#define SF_LINK_BULK_WIRE_H

#include "base/base.h"
#include "base/le.h"
#include "base/view.h"
#include "link/link.h"

enum bulk_type {
	BULK_T_GET = 1, /* initiator -> target: asks for [addr, +len) */
	BULK_T_DATA,	/* target -> initiator: bytes of a GET, @off from its addr */
	BULK_T_PUT,   /* initiator -> target: bytes for [addr + off, ...) of an operation on [addr,
			 +len) */
	BULK_T_REPLY, /* target -> initiator: @bytes more of a PUT are in place, or the operation
			 has failed */
	BULK_T_STOP,  /* initiator -> target: no more DATA is wanted for this GET */
	BULK_T_PING,  /* initiator -> target: asks whether it is there. The link's own acknowledgement is the
			 answer */
	BULK_T_HELP, /* initiator -> target: copy [addr, +len) into my region @dst_key at @dst */
	BULK_T_OFFER, /* target -> initiator: [addr, +len) follows unasked; (id, tag) are the target's */
	BULK_T_AHEAD, /* target -> initiator: bytes of an OFFER, @off from its addr */
	BULK_T_NUM
};

enum bulk_status {
	BULK_S_OK,
	BULK_S_ACCESS, /* key, range or right wrong */
	BULK_S_BUSY,   /* nothing happened, ask again later */
	BULK_S_WITHDRAWN, /* no more of this OFFER follows: ask */
	BULK_S_SHUT,   /* the port serves nobody now */
	BULK_S_NUM     /* of a message that came: none that we know, hence a refusal */
};

/*
 *  0        1        2                 4                       8
 *  +--------+--------+-----------------+-----------------------+
 *  |  type  | status |     rsvd = 0    |          id           |  status: 0 except in REPLY
 *  +--------+--------+-----------------+-----------------------+
 *  |               tag                 |          key          |  key: 0 in DATA, REPLY, STOP, PING
 *  +-----------------------------------+-----------------------+
 */
struct bulk_hdr {
	uint8_t type;
	uint8_t status;
	le16_t rsvd;
	le32_t id;
	le32_t tag;
	le32_t key;
};
static_assert(sizeof(struct bulk_hdr) == 16, "wire");

struct bulk_hdr_get {
	struct bulk_hdr h;
	le64_t addr;
	le64_t len;
};
static_assert(sizeof(struct bulk_hdr_get) == 32, "wire");

struct bulk_hdr_data {
	struct bulk_hdr h;
	le64_t off;
};
static_assert(sizeof(struct bulk_hdr_data) == 24, "wire");

struct bulk_hdr_put {
	struct bulk_hdr h;
	le64_t addr;
	le64_t len;
	le64_t off;
};
static_assert(sizeof(struct bulk_hdr_put) == 40, "wire");

struct bulk_hdr_reply {
	struct bulk_hdr h;
	le64_t bytes;
};
static_assert(sizeof(struct bulk_hdr_reply) == 24, "wire");

struct bulk_hdr_help {
	struct bulk_hdr h;
	le64_t addr;
	le64_t len;
	le64_t dst;
	le64_t dst_key;
};
static_assert(sizeof(struct bulk_hdr_help) == 48, "wire");

#define BULK_HDR_MAX sizeof(struct bulk_hdr_help)
static_assert(BULK_HDR_MAX <= LINK_HDR_MAX, "link_send() copies the header");

/*
 * Most bytes of one DATA, AHEAD or PUT frame: six of them fill a datagram of the loopback; whole cache lines, so that
 * the next piece starts on one too.
 */
#define BULK_CHUNK ALIGN_DOWN(10240u - (uint32_t)BULK_HDR_MAX, 64u)
static_assert(BULK_CHUNK + BULK_HDR_MAX <= LINK_FRAME_MAX, "a frame");

/* A message in host form; fields that its type lacks are 0. */
struct bulk_pkt {
	enum bulk_type type;
	enum bulk_status status;
	uint32_t id, tag, key;
	uint64_t addr, len; /* the whole operation */
	uint64_t off;	    /* of the payload in it */
	uint64_t bytes;
	uint64_t dst; /* HELP: address in the initiator ... */
	uint32_t dst_key; /* ... in this region of it */
	uint32_t hdr_len, payload_len;
};

struct bulk_desc {
	const char *name;
	uint32_t hdr_len;
	uint32_t payload_min, payload_max;
	bool has_status, has_key;
};
extern const struct bulk_desc bulk_desc[BULK_T_NUM];

/** bulk_pkt_encode() - Header of @pkt into @buf (BULK_HDR_MAX bytes). Return: its length. */
size_t bulk_pkt_encode(const struct bulk_pkt *pkt, uint8_t buf[BULK_HDR_MAX]);

/**
 * bulk_pkt_check() - The door: copy the header out of a frame and believe it only if all of it is
 * right.
 * @out: written only on success; the payload starts @out->hdr_len bytes into @frame and, for DATA
 * and PUT, lies inside [0, len) of the operation as far as the frame itself can tell. Return: 0;
 * -EPROTO.
 */
int bulk_pkt_check(const struct view *frame, struct bulk_pkt *out);

#endif
