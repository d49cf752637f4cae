// SPDX-License-Identifier: BSD-2-Clause
// Datagram formats of the reliability module, and the check that every received datagram passes before it is believed.
#ifndef SF_LINK_REL_WIRE_H
#define SF_LINK_REL_WIRE_H

#include <sys/uio.h>

#include "base/base.h"
#include "base/le.h"
#include "base/wire.h"

/*
 * Every datagram begins with the base header; all integers are little-endian.
 *
 *      0        1        2        3        4        5        6        7
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  | magic  |version |  type  | flags  |            nonce (low)            |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  |           nonce (high)            |                seq                |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  |                ack                |            sack (low)             |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  |            sack (high)            |       tx        |      echo       |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *  |    delay_us     |   credit_kib    |                crc                |
 *  +--------+--------+--------+--------+--------+--------+--------+--------+
 *
 * nonce   the pair's nonce, the sum of a half of each side; 0 in HELLO, HELLO_ACK and in
 *         REFUSE of a HELLO. RAW: nonce of the sender's port in the low 32 bits, of the receiver's in
 *         the high ones (0 = not known)
 * seq     DATA: number of this datagram, the same in every retransmission. NAK: number of its first refusal. ACK:
 *         refusals of the receiver of this datagram below this number have been taken. Else the number that the next
 *         DATA will have
 * ack     all DATA below are final: processed, and no refusal is on its way
 * sack    bit i: DATA ack + i has arrived, do not send it again
 * tx      DATA: number of this transmission, different in every retransmission
 * echo    highest tx that has arrived
 * delay   from the arrival of echo, at the earliest, to this datagram, saturating
 * credit  bytes / 1024 that the receiver of this datagram may have in flight towards its sender
 * crc     CRC32C of the datagram with this field 0, if flag CRC is set; else 0
 */
#define REL_MAGIC   0xb5
#define REL_VERSION 5

enum rel_type {
	REL_HELLO = 1, /* asks for a pair; carries our half of the nonce, and the other one once it is known */
	REL_HELLO_ACK, /* carries the answering side's half; who names it has the pair */
	REL_REFUSE,    /* there is no pair and will be none, or not any more */
	REL_DATA,      /* records */
	REL_ACK,       /* acknowledgement alone; up to REL_SACK_MORE more words of sack follow */
	REL_BYE,       /* the sender closes; ack and sack are final */
	REL_BYE_ACK,
	REL_RAW,       /* records outside of any pair */
	REL_NAK,       /* refusals; answered by ACK */
	REL_TYPE_NUM
};

#define REL_F_CRC     0x01
#define REL_F_NEW     0x02 /* the receiver may not have this pair yet: it does not refuse it, and will be told again */
#define REL_F_ALL     0x03
#define REL_SACK_MORE 7                          /* words; with the header's they cover the window */
#define REL_WINDOW    (64 * (1 + REL_SACK_MORE)) /* DATA that may be unacknowledged */

struct rel_base {
	uint8_t magic, version, type, flags;
	le64_t nonce;
	le32_t seq;
	le32_t ack;
	le64_t sack;
	le16_t tx;
	le16_t echo;
	le16_t delay_us;
	le16_t credit_kib;
	le32_t crc;
};
static_assert(sizeof(struct rel_base) == 40, "no padding");
static_assert(offsetof(struct rel_base, seq) == 12, "wire layout");
static_assert(offsetof(struct rel_base, crc) == 36, "wire layout");

/*
 * HELLO and HELLO_ACK, of one length: an answer is no longer than its question. The receiver's port must have
 * @dst_nonce, unless that is 0, which ports with a nonce in their address do not answer. A HELLO without @echo_half
 * makes no state; one with the half that HELLO_ACK gave is not answered.
 */
struct rel_hello {
	le64_t half;       /* sender's half */
	le64_t echo_half;  /* HELLO_ACK: the half of the HELLO; HELLO: that of the HELLO_ACK, 0 before there was one */
	le32_t src_nonce;  /* of the sender's port */
	le32_t dst_nonce;  /* of the port meant; 0 = whoever listens there */
	le32_t serial;     /* grows with every pair of the sender's port: an older one is a late copy */
	uint8_t cls;       /* enum link_class */
	uint8_t settings;  /* REL_SET_* */
	le16_t rsvd;       /* 0 */
};
static_assert(sizeof(struct rel_hello) == 32, "no padding");
#define REL_SET_CRC 0x01 /* the sender wants CRCs; one side is enough */
#define REL_SET_ALL 0x01

/*
 * REFUSE of a HELLO. This layout, magic and the places of version and type are the same in all wire versions. REFUSE of
 * anything else is the base header alone, with the nonce that is refused: reason GONE.
 */
struct rel_refuse {
	le64_t half;    /* of the HELLO refused */
	uint8_t reason; /* enum rel_reason */
	uint8_t version, cls; /* of the refusing port */
	uint8_t rsvd;   /* 0 */
	le32_t rsvd2;   /* 0 */
};
static_assert(sizeof(struct rel_refuse) == 16, "no padding");

enum rel_reason {
	REL_R_GONE = 1, /* nobody here knows that nonce (any more) */
	REL_R_VERSION,  /* another wire version */
	REL_R_CLASS,    /* another class of service */
	REL_R_NUM
};

/*
 * DATA and RAW: one or more records, each followed by @len bytes; or one record with flag SEG, followed by struct
 * rel_seg, @len bytes and up to REL_PAD_MAX bytes of padding (datagrams of one length make longer segment trains).
 */
struct rel_rec {
	le32_t frame;  /* number of the frame */
	le16_t len;
	uint8_t kind;  /* enum link_kind */
	uint8_t flags; /* REL_REC_* */
};
static_assert(sizeof(struct rel_rec) == 8, "no padding");
#define REL_REC_SEG 0x01 /* one segment of a frame */

/* All segments but the last have the same length; segment i begins at i times that. */
struct rel_seg {
	uint8_t idx, cnt;
	le16_t total; /* bytes of the frame */
};
static_assert(sizeof(struct rel_seg) == 4, "no padding");
#define REL_SEG_CNT_MAX 64
#define REL_PAD_MAX     (REL_SEG_CNT_MAX - 1)

/* NAK: one or more of these. */
struct rel_nak {
	le32_t seq;      /* of the DATA that completed the refused frame */
	le32_t frame;    /* its number */
	uint8_t code;    /* 1 .. LINK_NAK_MAX */
	uint8_t rsvd[3]; /* 0 */
};
static_assert(sizeof(struct rel_nak) == 12, "no padding");
#define REL_NAKS_MAX 100 /* that we put in one datagram */

#define REL_REC_OVERHEAD (sizeof(struct rel_rec) + sizeof(struct rel_seg))
#define REL_MTU_MIN      512 /* carriers take this much: LINK_FRAME_MAX in REL_SEG_CNT_MAX segments */
#define REL_DGRAM_MAX    65535u
#define REL_RECS_MAX     256u /* records that we put in one datagram: what a receiver always has room to refuse */

/* One row per type; flags: REL_D_*. */
struct rel_desc {
	const char *name;
	uint16_t part_len; /* fixed bytes after the base header */
	uint16_t flags;
};
#define REL_D_PAIR 0x01 /* the nonce must be the pair's */
#define REL_D_RECS 0x02 /* records follow */
#define REL_D_SACK 0x04 /* words of sack follow */
#define REL_D_NAKS 0x08 /* refusals follow */
extern const struct rel_desc rel_desc[REL_TYPE_NUM];

/* --- host form, filled by the door ------------------------------------------------------------- */

struct rel_pkt {
	enum rel_type type;
	uint8_t version, flags;
	uint64_t nonce;
	uint32_t seq, ack;
	uint64_t sack[1 + REL_SACK_MORE]; /* words not sent are 0 */
	uint16_t tx, echo, delay_us, credit_kib;
	struct { /* HELLO, HELLO_ACK */
		uint64_t half, echo_half;
		uint32_t src_nonce, dst_nonce, serial;
		uint8_t cls, settings;
	} hello;
	struct { /* REFUSE */
		uint64_t half;
		uint8_t reason, version, cls;
	} refuse;
	const uint8_t *recs; /* DATA, RAW, NAK: the records or refusals, in the datagram */
	uint32_t recs_len, rec_cnt;
};

struct rel_rec_in {
	uint32_t frame;
	uint8_t kind;
	uint8_t flags;
	uint8_t seg_idx, seg_cnt; /* 0, 1 without flag SEG */
	uint32_t total, off;      /* of the frame, and where these bytes belong */
	uint32_t seg_len;         /* of every segment but the last */
	const uint8_t *p;         /* in the datagram */
	uint32_t len;
};

enum rel_check { REL_OK, REL_BAD_FORM, REL_BAD_VERSION, REL_CHECK_NUM };

/**
 * rel_pkt_check() - The door: copies the headers out of @buf and checks every length, type, reserved bit and record.
 * @out: written in every case where type and version could be read; to be believed only for REL_OK.
 * Return: REL_BAD_VERSION also for datagrams whose other fields make no sense here (REFUSE never is).
 */
enum rel_check rel_pkt_check(const void *buf, size_t len, struct rel_pkt *out);

/** rel_rec_next() - The next record of a checked datagram, checked again (its memory may be shared). false: no more. */
bool rel_rec_next(struct wire_rd *r, struct rel_rec_in *out);

/** rel_crc32c() - CRC32C of gathered bytes. Source: RFC 3720 B.4; Castagnoli polynomial 0x1edc6f41. */
uint32_t rel_crc32c(const struct iovec *iov, int iov_cnt);

/** rel_base_encode() - Base header of @pkt into @out; crc 0. */
void rel_base_encode(const struct rel_pkt *pkt, struct rel_base *out);
void rel_hello_encode(const struct rel_pkt *pkt, struct rel_hello *out);
void rel_refuse_encode(const struct rel_pkt *pkt, struct rel_refuse *out);

/** rel_seq_before() - Serial number order: @a before @b. */
static inline bool rel_seq_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline bool rel_tx_before(uint16_t a, uint16_t b)
{
	return (int16_t)(a - b) < 0;
}

#endif
