// SPDX-License-Identifier: BSD-2-Clause
// EFA RDM protocol version 4 on the wire: packet types, their layouts as one table, and the door that decodes them.
#ifndef SF_PROV_EFA_EFA_PROTO_H
#define SF_PROV_EFA_EFA_PROTO_H

#include "base/base.h"
#include "base/le.h"
#include "base/view.h"

/*
 * Theory of operation
 *
 * A packet is: base header (type, version, flags), the mandatory fields of its type, then for request packets the
 * optional parts in fixed order, then payload:
 *
 *   | type u8 | version u8 | flags u16 | mandatory fields ... | rma_iov[] | raw address or connid, CQ data | read_iov[]
 *   | payload |
 *
 * One row of efa_pkt_tab[] per type lists the mandatory fields in wire order; encoder, decoder, names, documentation
 * and tests all come from that row. Integers are little-endian. struct efa_hdr is the decoded form; only the fields of
 * the type and of the set flags are valid. Source: doc/facts/efa.md#packets.
 */

#define EFA_PROTO_VERSION 4
#define EFA_IOV_MAX       4    /* rma_iov and read_iov entries the wire may carry */
#define EFA_ADDR_LEN      32
#define EFA_RAW_ADDR_LEN  36   /* addr_len of the raw address header: 32 and 4 zero bytes */
#define EFA_EXTRA_MAX     4    /* u64 words of extra_info */
#define EFA_HDR_MAX       384  /* no encoded header is longer */

enum efa_pkt_type {
	EFA_PKT_CTS = 3,
	EFA_PKT_CTSDATA = 4,
	EFA_PKT_READRSP = 5,
	EFA_PKT_EOR = 7,
	EFA_PKT_ATOMRSP = 8,
	EFA_PKT_HANDSHAKE = 9,
	EFA_PKT_RECEIPT = 10,
	EFA_PKT_READ_NACK = 11,
	EFA_PKT_REFUSED = 12, /* ours, see EFA_X_REFUSED */
	EFA_PKT_EAGER_MSGRTM = 64,
	EFA_PKT_EAGER_TAGRTM,
	EFA_PKT_MEDIUM_MSGRTM,
	EFA_PKT_MEDIUM_TAGRTM,
	EFA_PKT_LONGCTS_MSGRTM,
	EFA_PKT_LONGCTS_TAGRTM,
	EFA_PKT_EAGER_RTW,
	EFA_PKT_LONGCTS_RTW,
	EFA_PKT_SHORT_RTR,
	EFA_PKT_LONGCTS_RTR,
	EFA_PKT_WRITE_RTA,
	EFA_PKT_FETCH_RTA,
	EFA_PKT_COMPARE_RTA,
	EFA_PKT_LONGREAD_MSGRTM = 128,
	EFA_PKT_LONGREAD_TAGRTM,
	EFA_PKT_LONGREAD_RTW,
	EFA_PKT_DC_EAGER_MSGRTM = 133,
	EFA_PKT_DC_EAGER_TAGRTM,
	EFA_PKT_DC_MEDIUM_MSGRTM,
	EFA_PKT_DC_MEDIUM_TAGRTM,
	EFA_PKT_DC_LONGCTS_MSGRTM,
	EFA_PKT_DC_LONGCTS_TAGRTM,
	EFA_PKT_DC_EAGER_RTW,
	EFA_PKT_DC_LONGCTS_RTW,
	EFA_PKT_DC_WRITE_RTA,
	EFA_PKT_RUNTREAD_MSGRTM = 145,
	EFA_PKT_RUNTREAD_TAGRTM,
	EFA_PKT_NUM = 147
};

/* Base header flags. */
enum {
	EFA_FLAG_CONNID = 0x8000,
	/* requests */
	EFA_FLAG_RAW_ADDR = 0x0001,
	EFA_FLAG_CQ_DATA = 0x0002,
	EFA_FLAG_MSG = 0x0004,    /* on every RTM, tagged too */
	EFA_FLAG_TAGGED = 0x0008,
	EFA_FLAG_RMA = 0x0010,
	EFA_FLAG_ATOMIC = 0x0020,
	EFA_FLAG_READ_NACK = 0x2000, /* this RTM answers a READ_NACK */
	/* CTS */
	EFA_FLAG_CTS_READ_REQ = 0x0080,
	/* HANDSHAKE */
	EFA_FLAG_HS_HOST_ID = 0x0001,
	EFA_FLAG_HS_DEVICE_VERSION = 0x0002,
	EFA_FLAG_HS_USER_RECV_QP = 0x0004,
};

/* Feature (F) and request (R) bits of HANDSHAKE.extra_info[0]. */
enum {
	EFA_X_RDMA_READ = 1 << 0,
	EFA_X_DELIVERY_COMPLETE = 1 << 1,
	EFA_X_CONSTANT_HDR_LEN = 1 << 2, /* R */
	EFA_X_CONNID_HDR = 1 << 3,       /* R */
	EFA_X_RUNT = 1 << 4,
	EFA_X_RDMA_WRITE = 1 << 5,
	EFA_X_READ_NACK = 1 << 6,
	EFA_X_USER_RECV_QP = 1 << 7,
	EFA_X_UNSOLICITED_WRITE_RECV = 1 << 8,
};

/*
 * Ours: "tell me when you refuse memory that I named". Protocol 4 lets the target report a wrong key to itself only,
 * and the initiator waits for ever. Peers without the bit never see the packet.
 */
#define EFA_X_REFUSED (1ULL << 48)
#define EFA_ID_NONE   0xffffffffu /* no handle; no slab gives it out */

struct efa_rma_iov {
	uint64_t addr, len, key;
};

/* A decoded header, host order. */
struct efa_hdr {
	uint8_t type;
	uint16_t flags;
	uint32_t msg_id;       /* RTM, RTA: per-peer sequence; RECEIPT: echoed */
	uint32_t send_id;      /* handle chosen by the side that sends the data */
	uint32_t recv_id;      /* handle chosen by the side that receives it */
	uint32_t connid;       /* sender's Q_Key; valid with EFA_FLAG_CONNID (always decoded where mandatory) */
	uint64_t tag;
	uint64_t msg_len;      /* bytes of the whole message */
	uint64_t seg_off;      /* this packet's payload starts here in the message, bytes */
	uint64_t seg_len;      /* CTSDATA, READRSP, ATOMRSP: payload bytes */
	uint64_t runt_len;     /* RUNTREAD: bytes that come in packets */
	uint64_t recv_len;     /* CTS: bytes granted; RTR: bytes wanted (u32 on the wire) */
	uint32_t recv_len32;
	uint32_t credit;       /* LONGCTS: packets of window the sender asks for */
	uint32_t rma_iov_cnt, read_iov_cnt;
	uint32_t atomic_dt, atomic_op; /* libfabric's numbers */
	uint32_t nextra_p3;    /* HANDSHAKE: words of extra_info + 3 */
	uint32_t pad;
	uint64_t data;         /* remote CQ data; valid with EFA_FLAG_CQ_DATA */
	struct efa_rma_iov rma_iov[EFA_IOV_MAX], read_iov[EFA_IOV_MAX];
	uint8_t raw_addr[EFA_ADDR_LEN]; /* valid with EFA_FLAG_RAW_ADDR */
	uint64_t extra_info[EFA_EXTRA_MAX];
	uint64_t host_id;
	uint32_t device_version;
	uint32_t user_recv_qpn, user_recv_qkey;
};

#define EFA_FIELD_MAX 8
struct efa_field {
	uint16_t off;   /* in struct efa_hdr */
	uint8_t width;  /* bytes on the wire, 4 or 8; 0 ends the list */
};

/* Properties of a packet type. */
enum {
	EFA_P_REQ = 1,       /* a request: optional parts may follow */
	EFA_P_RTM = 2,       /* a message: ordered by msg_id, matched */
	EFA_P_TAGGED = 4,
	EFA_P_RMA_IOV = 8,   /* rma_iov[rma_iov_cnt] follows the fields */
	EFA_P_READ_IOV = 16, /* read_iov[read_iov_cnt] follows the optional parts */
	EFA_P_DC = 32,       /* delivery complete: answered by a RECEIPT */
	EFA_P_MULTI = 64,    /* a message may be several such packets */
	EFA_P_RTA = 128,     /* atomic: ordered by msg_id */
	EFA_P_PAYLOAD = 256, /* payload allowed */
	EFA_P_LONGCTS = 512, /* continues by CTS and CTSDATA */
};

struct efa_pkt_desc {
	const char *name;
	uint16_t props;
	uint16_t fixed_len;  /* base header and mandatory fields, bytes */
	uint64_t needs;      /* EFA_X_* the peer must have announced */
	struct efa_field field[EFA_FIELD_MAX];
};

extern const struct efa_pkt_desc efa_pkt_tab[EFA_PKT_NUM];

/*
 * What nearly every packet is: an EAGER_MSGRTM or EAGER_TAGRTM with a connid, no CQ data and no raw address. Encoder
 * and decoder of just that, equal to what the table gives for it (tests/unit/test_efa_proto.c):
 *
 *   | type | version | flags | msg_id u32 | tag u64, tagged only | connid u32 | payload |
 */
#define EFA_EAGER_HDR_MSG 12u
#define EFA_EAGER_HDR_TAG 20u

struct efa_eager {
	bool tagged;
	uint8_t hdr_len; /* bytes: EFA_EAGER_HDR_* */
	uint32_t msg_id;
	uint64_t tag; /* 0 if not tagged */
};

static inline uint8_t efa_eager_type(bool tagged)
{
	return tagged ? EFA_PKT_EAGER_TAGRTM : EFA_PKT_EAGER_MSGRTM;
}

static inline uint16_t efa_eager_flags(bool tagged)
{
	return EFA_FLAG_CONNID | EFA_FLAG_MSG | (tagged ? EFA_FLAG_TAGGED : 0);
}

/* The first four bytes as a number. */
static inline uint32_t efa_eager_base(bool tagged)
{
	return efa_eager_type(tagged) | EFA_PROTO_VERSION << 8 | (uint32_t)efa_eager_flags(tagged) << 16;
}

static inline uint32_t efa_eager_hdr_len(bool tagged)
{
	return tagged ? EFA_EAGER_HDR_TAG : EFA_EAGER_HDR_MSG;
}

/** efa_eager_encode() - The header into @buf. Return: its length. */
static inline size_t efa_eager_encode(uint8_t *buf, bool tagged, uint32_t msg_id, uint64_t tag, uint32_t connid)
{
	le32_t base = le32_put(efa_eager_base(tagged)), msg = le32_put(msg_id), id = le32_put(connid);
	le64_t t = le64_put(tag);

	memcpy(buf, &base, 4);
	memcpy(buf + 4, &msg, 4);
	if (tagged)
		memcpy(buf + 8, &t, 8);
	memcpy(buf + (tagged ? 16 : 8), &id, 4);
	return efa_eager_hdr_len(tagged);
}

/* Fields of such a packet, each read once: the first four bytes, for efa_eager_base(), then others. */
static inline uint32_t efa_eager_front(const uint8_t *p)
{
	le32_t front;

	memcpy(&front, p, sizeof(front));
	return le32_get(front);
}

static inline uint32_t efa_eager_msg_id(const uint8_t *p)
{
	return efa_eager_front(p + 4);
}

static inline uint64_t efa_eager_tag(const uint8_t *p)
{
	le64_t tag;

	memcpy(&tag, p + 8, sizeof(tag));
	return le64_get(tag);
}

/**
 * efa_eager_decode() - The door's first row. What it takes is good; each byte of the packet is read once.
 * Return: false if the @len bytes at @p are something else, or not good: efa_pkt_decode() has the other rows.
 */
static inline bool efa_eager_decode(const uint8_t *p, uint32_t len, struct efa_eager *e)
{
	struct { le32_t base, msg_id; } front;
	le64_t tag;

	if (unlikely(len < EFA_EAGER_HDR_MSG))
		return false;
	memcpy(&front, p, 8);
	e->msg_id = le32_get(front.msg_id);
	if (le32_get(front.base) == efa_eager_base(true) && likely(len >= EFA_EAGER_HDR_TAG)) {
		memcpy(&tag, p + 8, 8);
		e->tagged = true;
		e->hdr_len = EFA_EAGER_HDR_TAG;
		e->tag = le64_get(tag);
		return true;
	}
	e->tagged = false;
	e->hdr_len = EFA_EAGER_HDR_MSG;
	e->tag = 0;
	return le32_get(front.base) == efa_eager_base(false);
}

/** efa_pkt_name() - For logs; "invalid" for numbers without a row. */
const char *efa_pkt_name(unsigned type);
static inline bool efa_pkt_known(unsigned type)
{
	return type < EFA_PKT_NUM && efa_pkt_tab[type].name;
}

/* Why a packet was thrown away at the door. */
enum efa_drop {
	EFA_DROP_NONE,
	EFA_DROP_SHORT,       /* ends inside its header */
	EFA_DROP_TYPE,        /* no such packet type */
	EFA_DROP_DEPRECATED,  /* RTS, CONNACK of protocol 3 */
	EFA_DROP_VERSION,
	EFA_DROP_COUNT,       /* a count above what the protocol allows */
	EFA_DROP_ADDR_LEN,
	EFA_DROP_LENGTH,      /* payload and announced lengths disagree */
	EFA_DROP_NUM
};
const char *efa_drop_name(enum efa_drop why);

/**
 * efa_pkt_hdr_len() - Bytes that efa_pkt_encode() will write for @h. Depends on type, flags and counts only.
 */
size_t efa_pkt_hdr_len(const struct efa_hdr *h);
/**
 * efa_pkt_encode() - Write the header @h to @buf (@cap >= efa_pkt_hdr_len(), at most EFA_HDR_MAX). Return: bytes
 * written.
 */
size_t efa_pkt_encode(const struct efa_hdr *h, void *buf, size_t cap);
/**
 * efa_pkt_decode() - The door: copy the header of @pkt out, check it, and say where the payload starts.
 * @pkt: bytes from a peer, which may change under our eyes; each is read once.
 * Return: EFA_DROP_NONE, @h and @payload_off valid; else why not.
 */
enum efa_drop efa_pkt_decode(const struct view *pkt, struct efa_hdr *h, size_t *payload_off);

#endif
