// SPDX-License-Identifier: BSD-2-Clause
// Objects of the efa provider that its files share: domain, AV, MR, endpoint, peer, outgoing and incoming transfers.
#ifndef SF_PROV_EFA_EFA_H
#define SF_PROV_EFA_EFA_H

#include <bsd/sys/queue.h>

#include "base/slab.h"
#include "kit/atomic_call.h"
#include "kit/call.h"
#include "kit/kit.h"
#include "kit/srx.h"
#include "nic/efanic/efanic.h"
#include "prov/efa/efa_param.h"
#include "prov/efa/efa_proto.h"

#define EFA_MTU          EFANIC_MTU
#define EFA_HDR_WORST    168u                    /* longest request header a message may need (4 rma_iov) */
#define EFA_CTSDATA_CAP  (EFA_MTU - 24 - 8)      /* payload planned per CTSDATA */
#define EFA_INJECT_SHM   4096u                   /* tx_attr.inject_size while shared memory is on */
#define EFA_INJECT_NET   (EFA_MTU - EFA_HDR_WORST)
#define EFA_OWN_MAX      (EFANIC_OWN_MAX - EFA_EAGER_HDR_TAG) /* of a message: fits into each descriptor */
#define EFA_ATOMIC_MAX   (EFA_MTU - 24 - 32 - 4 * 24) /* 8776: max_order_*_size */
#define EFA_PARKED_MAX   16                      /* operations waiting for a handshake, per endpoint */
#define EFA_STRANGERS_MAX 65536                  /* default of implicit_av_size: as many queue pairs as one host has */
#define EFA_HELD_SMALL   512u                    /* bytes of the smaller kind of struct efa_held */
#define EFA_MSG_PREFIX   40                      /* DGRAM */
#define EFA_ENOMR        270                     /* FI_ENOMR, which 1.17 headers lack: no region to be had */
/*
 * Bytes from which a message to a peer on this host is fetched by its receiver, if the kernel may copy between the two.
 * The documented limits of the protocols speak of peers on other hosts. Below it packets cost less than asking:
 * both sides copy at the same time.
 */
#define EFA_LOCAL_MIN_READ 40960u

extern struct fi_provider g_efa_prov; /* efa_prov.c */

/*
 * In the flags of an operation, ours: no completion even on success (the inject calls; FI_INJECT as a flag writes one).
 */
#define EFA_NO_CQE (1ULL << 63)

/* --- address: 32 bytes, doc/facts/efa.md#addresses ---------------------------------------------------------------- */
struct efa_addr {
	uint8_t gid[16]; /* network order */
	uint16_t qpn;
	uint16_t host;   /* 0 on the real adapter; struct efanic_dev_attr */
	uint32_t qkey;   /* connection id */
	uint8_t rsvd[8];
};
static_assert(sizeof(struct efa_addr) == EFA_ADDR_LEN, "efa address");
const char *efa_addr_str(const struct efa_addr *a, char *buf, size_t *len); /* fi_addr_efa://[gid]:qpn:qkey */
/**
 * efa_addr_give() - fi_getname: @self cut to *@len bytes, *@len set to what it takes. 0; -FI_ETOOSMALL; -FI_EINVAL: no
 * @len.
 */
int efa_addr_give(const struct efa_addr *self, void *addr, size_t *len);

/* --- domain, AV, MR -------------------------------------------------------------------------------- */
enum efa_kind { EFA_RDM, EFA_DGRAM, EFA_DIRECT };

struct efa_mr;
struct efa_domain {
	struct kit_domain kit;
	enum efa_kind kind;
	struct efanic *nic;
	struct efanic_dev_attr attr;
	struct efa_params params;  /* as at fi_domain */
	struct efa_mr **mr_tab;    /* hash by key, for packet-emulated RMA; kit.lock */
	struct efa_mr *mr_closed;  /* of closed regions, for the next ones: descriptors that are still held name them */
	uint32_t mr_cnt, mr_mask;
	uint32_t refused_told;     /* for LOG_FEW(): peers' accesses refused */
	uint32_t reads_in_flight;  /* LONGREAD/RUNTREAD messages being received: RUNTREAD only when 0 */
	LIST_HEAD(, efa_ep) eps;   /* for automatic progress; kit.lock */
	bool auto_progress;
};

struct efa_mr {
	struct fid_mr fid;
	struct efa_domain *domain;
	struct efanic_mr *dev;     /* NULL: it has been closed */
	void *addr;
	size_t len;
	uint64_t access;           /* FI_REMOTE_READ ... as granted */
	uint32_t key;
	struct efa_mr *hnext;      /* efa_mr.c: hash chain */
};
int efa_mr_open(struct kit_domain *d, const struct kit_mr_req *req, struct fid_mr **out);
void efa_mrs_fini(struct efa_domain *d);
#define EFA_LKEY_CLOSED UINT32_MAX /* no region's: what names it fails as the device says */
/** efa_desc_covers() - May the adapter read [@buf, +@len) by the descriptor @desc, as efa_desc_lkey() has it? */
static inline bool efa_desc_covers(void *desc, const void *buf, size_t len)
{
	const struct efa_mr *mr = desc;
	size_t off = mr ? (uintptr_t)buf - (uintptr_t)mr->addr : 0;

	return !mr || (off <= mr->len && len <= mr->len - off);
}
/** efa_desc_lkey() - What the adapter is to know of memory with the descriptor @desc, of fi_mr_desc() or NULL. */
static inline uint32_t efa_desc_lkey(void *desc)
{
	const struct efa_mr *mr = desc;

	if (!mr)
		return EFANIC_LKEY_INTERNAL;
	return likely(mr->dev != NULL) ? efanic_mr_lkey(mr->dev) : EFA_LKEY_CLOSED;
}
/**
 * efa_mr_check() - May a peer do @access (FI_REMOTE_READ/WRITE) on [@addr, +@len) with @key? The MR, or NULL. Lock
 * held.
 */
struct efa_mr *efa_mr_check(struct efa_domain *d, uint64_t key, uint64_t addr, uint64_t len, uint64_t access);

struct efa_av {
	struct kit_av kit;
	uint16_t *ahn;             /* by fi_addr */
	uint32_t ahn_cap;
};
int efa_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);

/* --- outgoing work request --------------------------------------------------------------------------- */
struct efa_ep;
struct efa_peer;
struct efa_tx;
struct efa_rx;

/*
 * One work request on the send queue: a packet, or an RDMA read/write. Lives from encode to completion. Small packets
 * carry their header (and a small inlined payload) in buf; user payload is gathered from the user's memory.
 */
struct efa_pkt {
	STAILQ_ENTRY(efa_pkt) link;  /* ep->queued while the send queue is full or the peer was not ready */
	struct efa_ep *ep;
	struct efa_peer *peer;       /* counted in peer->pkts */
	struct efa_tx *tx;           /* whose data it carries; or */
	struct efa_rx *rx;           /* whose control packet or RDMA read it is; both NULL: handshake */
	uint8_t type;                /* enum efa_pkt_type, or EFA_WR_* */
	uint8_t opcode;              /* enum efanic_opcode */
	uint8_t rnr_cnt;
	bool is_large, posted;
	bool is_answer;              /* counted in the peer's EFA_Q_WORK */
	uint8_t sge_cnt;
	bool has_imm;
	uint32_t imm;
	uint32_t payload_len;
	uint32_t rkey;
	uint64_t raddr;
	struct efanic_dst *dst;      /* where to; normally peer->dst */
	struct efanic_sge sge[EFANIC_SGE_MAX];
	uint8_t buf[];               /* EFA_PKT_SMALL or EFA_PKT_LARGE bytes */
};
enum { EFA_WR_READ = 250, EFA_WR_WRITE = 251, EFA_WR_USER = 252 /* headerless, to a zero-copy queue pair */ };
#define EFA_PKT_SMALL 320u
#define EFA_PKT_LARGE (EFA_MTU + 64u)

/* --- peer -------------------------------------------------------------------------------------------- */
enum {
	EFA_PEER_HS_SENT = 1,
	EFA_PEER_HS_RCVD = 2,
	EFA_PEER_REQ_SENT = 4,
	EFA_PEER_RNR = 8,
	EFA_PEER_REMOVED = 16,
	EFA_PEER_AWAITED = 32 /* at the last look of efa_peers_watch() */,
	EFA_PEER_FULL = 64 /* it may have too much here: efa_quota.c */
};

/* What a peer can make us keep, and how much of it: its own, and of the pool for all (efa_quota.c). */
enum efa_quota {
	EFA_Q_EARLY, /* bytes of packets before their turn */
	EFA_Q_KEPT,  /* bytes of messages without a receive */
	EFA_Q_OPEN,  /* messages of several packets that are not complete */
	EFA_Q_WORK,  /* its writes and reads that we serve, and our answers on their way */
	EFA_Q_NUM
};
extern const struct quota_limit efa_limits[EFA_Q_NUM];

/* A received packet that could not be used at once, copied out of the adapter. */
struct efa_held {
	TAILQ_ENTRY(efa_held) link;
	uint32_t len;
	uint32_t msg_id;
	bool is_large;
	uint8_t data[];
};
TAILQ_HEAD(efa_held_q, efa_held);

/* Where we stood with a peer that was removed or forgotten: both sides go on from there if it comes back. */
struct efa_past {
	TAILQ_ENTRY(efa_past) link; /* ep->past, latest first */
	LIST_ENTRY(efa_past) by;    /* ep->past_by */
	struct efa_addr addr;
	uint32_t next_msg_id, exp_msg_id;
	bool was_stranger;          /* nobody removed it: its next packet is welcome, with or without a raw address */
	bool has_greeted;           /* its handshake said: */
	uint64_t extra, host_id;
	uint32_t device_version, user_qkey;
	uint16_t user_qpn;
};
#define EFA_PAST_MAX     4096 /* kept per endpoint */
#define EFA_PAST_BUCKETS 1024
LIST_HEAD(efa_past_list, efa_past);

struct efa_peer {
	/* what a small message touches: one line of the cache */
	struct efa_ep *ep;
	fi_addr_t fi_addr;                 /* FI_ADDR_NOTAVAIL: a stranger, whom nobody has inserted (yet) */
	struct efanic_dst *dst;
	uint32_t own_lim[2];               /* [tagged]: a shorter message may leave at once: efa_peer_gates() */
	uint32_t next_msg_id;              /* to send */
	uint32_t exp_msg_id;               /* to receive next */
	bool takes_next;                   /* that one may be taken at once: efa_peer_gates() */
	bool is_self;
	uint8_t lost_status;               /* enum efanic_status: it is dead and what waits for it is about to end */
	uint8_t gone_status;               /* the same, of one that was found dead: its address never comes again */
	uint32_t flags;                    /* EFA_PEER_* */
	/* the rest */
	struct efanic_dst *user_dst;       /* zero-copy receive queue pair */
	uint16_t user_qpn;                 /* of user_dst, from its handshake */
	uint32_t user_qkey;
	uint16_t ahn;                      /* of the address vector's entry; a stranger has none */
	uint64_t extra;                    /* extra_info[0] of its handshake */
	uint32_t device_version;
	uint64_t host_id;
	uint32_t runt_in_flight;           /* bytes */
	/* receive: messages ahead of exp_msg_id, sorted by msg_id; and multi-packet messages in progress */
	struct efa_held_q ahead;
	uint32_t ahead_cnt;
	struct quota_user quota;           /* efa_quota.c */
	LIST_HEAD(, efa_rx) multi;
	/* receiver-not-ready backoff */
	uint64_t rnr_until_ns, rnr_wait_ns;
	uint32_t pkts;                     /* work requests alive; a removed peer is freed when the last one ends */
	STAILQ_HEAD(, efa_tx) parked;      /* operations waiting for its handshake */
	STAILQ_HEAD(, efa_pkt) untold;     /* refusals waiting for it, see efa_refuse_send() */
	/* of those, unparked and waiting in ep->pump for room: nothing may overtake them */
	uint32_t unstarted;
	LIST_HEAD(, efa_tx) txs;           /* live outgoing transfers */
	LIST_HEAD(, efa_rx) rxs;           /* live incoming transfers, latest first */
	LIST_ENTRY(efa_peer) ep_link;      /* ep->all_peers */
	TAILQ_ENTRY(efa_peer) stranger_link; /* ep->strangers */
	struct efa_addr addr;
	bool is_near;                      /* a packet of its has come: whatever its address says, it is here */
};

/* --- outgoing transfer --------------------------------------------------------------------------------- */
enum efa_tx_kind {
	EFA_TX_SEND, EFA_TX_WRITE, EFA_TX_READ, EFA_TX_ATOMIC, EFA_TX_FETCH, EFA_TX_COMPARE, EFA_TX_READRSP,
	EFA_TX_KIND_NUM
};

/* What a transfer still waits for before the user's completion, besides its own packets. */
enum { EFA_WAIT_RECEIPT = 1, EFA_WAIT_EOR = 2, EFA_WAIT_RESPONSE = 4, EFA_WAIT_HANDSHAKE = 8, EFA_WAIT_CTS = 16,
       EFA_WAIT_READS = 32 /* it has failed, and is told so when its other RDMA reads have ended */ };

struct efa_tx {
	LIST_ENTRY(efa_tx) peer_link;    /* peer->txs */
	TAILQ_ENTRY(efa_tx) pump_link;   /* ep->pump while data may be sent */
	STAILQ_ENTRY(efa_tx) park_link;  /* peer->parked */
	struct efa_ep *ep;
	struct efa_peer *peer;
	uint8_t kind;                    /* enum efa_tx_kind */
	uint8_t type;                    /* protocol chosen: its request packet type */
	uint8_t iov_cnt, rma_iov_cnt, res_cnt, cmp_cnt;
	bool in_pump, parked, unstarted, reported, has_data, injected, wants_cqe, confirmed;
	uint32_t id;                     /* our handle on the wire */
	uint32_t wrs;                    /* work requests not yet completed */
	uint32_t wait;                   /* EFA_WAIT_* */
	uint32_t msg_id;
	uint32_t recv_id;                /* peer's handle, from CTS */
	uint64_t flags;                  /* of the call, after op_flags */
	uint64_t cq_flags;               /* FI_SEND|FI_MSG ... of the completion */
	void *context;
	uint64_t tag, data;
	uint64_t len;                    /* bytes of the transfer */
	uint64_t sent, acked;            /* bytes handed to / accepted through the send queue */
	uint64_t need;                   /* acked bytes without which it is not complete */
	uint64_t window;                 /* bytes the peer granted and we have not sent */
	uint64_t runt_len;
	int fail_err;                    /* EFA_WAIT_READS: efa_tx_fail()'s */
	unsigned fail_code;
	struct iovec iov[4];
	void *desc[4];
	struct efa_rma_iov rma_iov[EFA_IOV_MAX];
	struct efanic_mr *tmp_mr[4];     /* regions made for this transfer's read_iov */
	/* atomics */
	uint32_t atomic_dt, atomic_op;
	struct iovec res[4], cmp[4];
	uint8_t *copy;                   /* injected payload above a small packet; mem_free */
};

/* --- incoming transfer ------------------------------------------------------------------------------------ */
enum efa_rx_kind {
	EFA_RX_MSG, EFA_RX_WRITE, EFA_RX_READ, EFA_RX_SINK /* discarded: taken to the end into no buffer */
};

struct efa_rx {
	struct kit_ux ux;                /* while unexpected */
	LIST_ENTRY(efa_rx) peer_link;    /* peer->rxs */
	LIST_ENTRY(efa_rx) multi_link;   /* peer->multi */
	struct efa_ep *ep;
	struct efa_peer *peer;
	uint8_t kind;                    /* enum efa_rx_kind */
	uint8_t type;                    /* request packet type */
	bool in_multi, matched, has_data, nacked, want_nack, failed, reading, ended;
	bool is_write;                   /* counted in its peer's EFA_Q_WORK */
	bool send_id_known;              /* the sender waits for our CTS */
	uint32_t id;                     /* our handle on the wire */
	uint32_t send_id;                /* peer's handle */
	uint32_t msg_id;
	uint32_t wrs;                    /* our RDMA reads and control packets in flight */
	uint64_t tag, data;
	uint64_t len;                    /* bytes of the message */
	uint64_t got;                    /* bytes received (also those that did not fit) */
	uint64_t granted;                /* end of what we told the sender it may send */
	uint64_t runt_len;
	struct kit_rx *krx;              /* EFA_RX_MSG: the matched receive */
	struct efa_tx *tx;               /* EFA_RX_READ: the emulated read it serves */
	struct iovec iov[4];             /* destination of WRITE and READ */
	struct efa_rma_iov at[EFA_IOV_MAX]; /* EFA_RX_WRITE: the same as the peer has named it */
	uint8_t iov_cnt;
	uint8_t read_iov_cnt;
	struct efa_rma_iov read_iov[EFA_IOV_MAX];
	uint64_t read_left;              /* RDMA read bytes not yet arrived */
	int fail_err;                    /* not 0: it has failed, and is told so when its other reads have ended */
	unsigned fail_code;
	uint32_t credit;                 /* LONGCTS: packets the sender asked for */
	uint64_t last_ns;                /* when anything of it last arrived or was asked for */
	struct efanic_mr *tmp_mr[4];
	struct efa_held_q held;          /* packets that came before the match */
	uint64_t held_len;               /* bytes of them */
	uint32_t kept;                   /* counted in its peer's EFA_Q_KEPT */
};

/* --- endpoint --------------------------------------------------------------------------------------------------- */
struct efa_stats { /* per protocol, for tests, logs and the demo */
	uint64_t tx_pkts[256], rx_pkts[256];
	uint64_t drop[EFA_DROP_NUM], drop_unknown_peer, drop_stale_id, drop_duplicate, drop_early, drop_zcpy,
		early_refused, quota_refused, rnr_queued, implicit_peers, implicit_forgotten, implicit_refused;
};

struct efa_ep {
	struct kit_ep kit;
	struct efa_domain *domain;
	enum efa_kind kind;
	LIST_ENTRY(efa_ep) domain_link;
	/* of each call, together */
	struct efanic_qp *qp;
	const uint8_t *live;    /* a byte; 0: messages may not go on, or not simply: set_enabled() */
	struct efa_peer **peers;         /* by fi_addr */
	uint32_t peers_cap;
	bool is_busy;                    /* a poll has more to do than the adapter: progress_rest() */
	bool need_doorbell;
	bool has_other_start;            /* messages do not start with an eager header: prefix, or zero-copy receive */
	int32_t watch_skip;              /* progress calls until the next efa_peers_watch() */
	struct efanic_qp *user_qp;
	struct efa_addr self;
	struct kit_srx srx;
	uint32_t stranger_cnt;
	LIST_HEAD(, efa_peer) all_peers; /* strangers included */
	TAILQ_HEAD(efa_stranger_q, efa_peer) strangers; /* longest known first */
	TAILQ_HEAD(efa_past_q, efa_past) past; /* removed and forgotten peers */
	struct efa_past_list past_by[EFA_PAST_BUCKETS]; /* the same by address: any packet may ask for one */
	uint32_t past_cnt;
	struct quota_book quota;         /* what peers have here: enum efa_quota */
	struct slab tx_slab, rx_slab, pkt_small, pkt_large, held_small, held_large, peer_slab;
	STAILQ_HEAD(, efa_pkt) queued;   /* packets that must go out later */
	TAILQ_HEAD(efa_tx_pump_head, efa_tx) pump; /* transfers with data to send */
	LIST_HEAD(, efa_rx) rx_orphans;
	LIST_HEAD(, efa_tx) orphans;     /* transfers of removed peers whose work requests are not back yet */
	uint32_t parked_cnt;
	uint32_t tx_outstanding, tx_max; /* user operations */
	size_t min_multi_recv, max_msg_size, max_tagged_size, max_rma_size, max_atomic_size;
	size_t inject_msg, inject_tagged, inject_rma, inject_atomic;
	/* FI_MSG_PREFIX: bytes at the start of every message buffer that are the provider's */
	uint32_t msg_prefix;
	uint8_t rnr_retry;
	bool use_read, use_write;        /* device RDMA in use */
	bool shm_permitted, zcpy_rx, unsolicited, homogeneous;
	bool has_lost;                   /* some peer's lost_status is set */
	uint32_t watch_busy;             /* looks that fell due in a busy call */
	uint64_t watch_ns;               /* not before */
	uint64_t local_extra;            /* what our handshake announces */
	uint32_t user_qkey;              /* connection id of user_qp */
	struct efa_stats stats;
};

/**
 * efa_ep_state() - May data calls go on? 0; -FI_EOPBADSTATE not enabled; -FI_EIO in a child after fork: the adapter is
 * the parent's.
 */
static inline int efa_ep_state(const struct kit_ep *ep)
{
	if (unlikely(!ep->enabled))
		return -FI_EOPBADSTATE;
	return kit_is_forked(ep->domain) ? -FI_EIO : 0;
}

/* efa_ep.c */
int efa_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int efa_ep_progress(struct kit_ep *ep);
/* Provider error codes, above the device's statuses: efa_err.c. Source: doc/facts/efa.md#error-codes. */
enum efa_err {
	EFA_ERR_GENERIC = 4096, EFA_ERR_OLD_PROTOCOL, EFA_ERR_PKT_TYPE, EFA_ERR_PKT_UNKNOWN, EFA_ERR_PKT_POST,
	EFA_ERR_PKT_SEND, EFA_ERR_PKT_MSG, EFA_ERR_PKT_TAGGED, EFA_ERR_PKT_TWICE, EFA_ERR_NOMEM, EFA_ERR_MR_CLOSE,
	EFA_ERR_COPY, EFA_ERR_NO_RX, EFA_ERR_NO_TX, EFA_ERR_AV_INSERT, EFA_ERR_REMOTE_MEM, EFA_ERR_RECV_POST,
	EFA_ERR_HANDSHAKE, EFA_ERR_SEND_POST, EFA_ERR_PKT_MISMATCH, EFA_ERR_READ_POST, EFA_ERR_RDMA_READ_POST,
	EFA_ERR_ATOMIC, EFA_ERR_WRITE, EFA_ERR_WRITE_RECV, EFA_ERR_DGRAM_CQ, EFA_ERR_SHM, EFA_ERR_SHM_CQ,
	EFA_ERR_UNRESPONSIVE, EFA_ERR_ZCPY_HEADER, EFA_ERR_UNREACHABLE
};
/**
 * efa_ep_event() - Something failed that no operation can report: EQ error entry (FI_EFA_ERR code), or one warning
 * without EQ.
 */
void efa_ep_event(struct efa_ep *ep, int err, int prov_errno, const char *why);

/* efa_zcpy.c: receives posted to a queue pair of their own */
#define EFA_ZCPY_NOT 1
/**
 * efa_zcpy_choose() - Sets ep->zcpy_rx as the endpoint's attributes and options want; before it is enabled. @is_shm:
 * shared memory is on.
 */
bool efa_zcpy_choose(struct efa_ep *ep, bool is_shm);
/** efa_zcpy_open() - The second queue pair, otherwise like @like. 0 or efanic_qp_open()'s. Lock held. */
int efa_zcpy_open(struct efa_ep *ep, const struct efanic_qp_attr *like);
void efa_zcpy_close(struct efa_ep *ep);
/** efa_zcpy_on_wc() - efa_on_wc() for the first queue pair of an endpoint in this mode. */
void efa_zcpy_on_wc(void *ctx, const struct efanic_wc *wc);
/** efa_zcpy_recv() - fi_recv*. 0; -FI_EAGAIN; -FI_EINVAL: too many pieces; -FI_EOPNOTSUPP: multi-receive. Lock held. */
ssize_t efa_zcpy_recv(struct efa_ep *ep, const struct kit_recv_args *a);
/**
 * efa_zcpy_send() - Starts an untagged send. 0; EFA_ZCPY_NOT: the peer wants a header; -FI_EAGAIN, -FI_EMSGSIZE:
 * nothing happened.
 */
int efa_zcpy_send(struct efa_tx *tx);

/* efa_opt.c */
int efa_ep_setopt(struct fid *fid, int level, int name, const void *val, size_t len);
int efa_ep_getopt(struct fid *fid, int level, int name, void *val, size_t *len);

/* efa_peer.c */
/**
 * efa_peer_gates() - Computes own_lim and takes_next, which stand for conditions that rarely change: called wherever
 * one of them does. efa_peers_gates() - Of all peers, where one of the endpoint's has changed.
 */
void efa_peer_gates(struct efa_peer *peer);
void efa_peers_gates(struct efa_ep *ep);
/** efa_peers_assume() - ep->homogeneous is another: so is what is known of those from whom no handshake has come. */
void efa_peers_assume(struct efa_ep *ep);
/** efa_peer_gates_hold() - Are they what they would be now? For asserts. */
bool efa_peer_gates_hold(const struct efa_peer *peer);
static inline void efa_peer_flag(struct efa_peer *peer, uint32_t flag, bool on)
{
	peer->flags = on ? peer->flags | flag : peer->flags & ~flag;
	efa_peer_gates(peer);
}
/** efa_peer_get() - The peer behind @fi_addr, made on first use. NULL: not in the AV, or no memory. Lock held. */
struct efa_peer *efa_peer_get(struct efa_ep *ep, fi_addr_t fi_addr);
static inline struct efa_peer *efa_peer_find(struct efa_ep *ep, fi_addr_t fi_addr)
{
	struct efa_peer *p = likely(fi_addr < ep->peers_cap) ? ep->peers[fi_addr] : NULL;

	return likely(p != NULL) ? p : efa_peer_get(ep, fi_addr);
}
/**
 * efa_peer_of_packet() - Who sent this packet; somebody new is a stranger from then on. NULL: not to be taken
 * (counted).
 */
struct efa_peer *efa_peer_of_packet(struct efa_ep *ep, const struct efanic_wc *wc, const struct efa_hdr *h);
/** efa_peer_reserve() - Make room for efa_peer_named(), which cannot fail then. 0; -FI_ENOMEM. Lock held. */
int efa_peer_reserve(struct efa_ep *ep, fi_addr_t fi_addr);
/**
 * efa_peer_named() - @addr was inserted as @fi_addr: if a stranger has it, that peer and all it has sent get the name.
 * Lock held.
 */
void efa_peer_named(struct efa_ep *ep, fi_addr_t fi_addr, const struct efa_addr *addr);
void efa_peer_removed(struct efa_ep *ep, fi_addr_t fi_addr); /* AV removal: ends and forgets everything */
void efa_peer_free(struct efa_peer *peer); /* a removed one, when its last work request ended */
/** efa_peers_stop() - The endpoint closes: messages that receives have begun to take end, while these are there. */
void efa_peers_stop(struct efa_ep *ep);
void efa_peers_fini(struct efa_ep *ep);
int efa_handshake_send(struct efa_peer *peer);
void efa_handshake_received(struct efa_peer *peer, const struct efa_hdr *h);
/**
 * efa_peers_greet() - Send handshakes to those whose first packets the adapter has accepted and we have not seen yet.
 */
void efa_peers_greet(struct efa_ep *ep);
/** efa_peer_trigger() - Make the peer send its handshake: one empty EAGER_RTW, unless a request was sent already. */
int efa_peer_trigger(struct efa_peer *peer);
/** efa_peers_watch() - Ask peers that only we wait for whether they live. Called every few progress calls. */
void efa_peers_watch(struct efa_ep *ep);
/** efa_peer_lost() - A work request ended with a @status that means that nothing will come from @peer any more. */
void efa_peer_lost(struct efa_peer *peer, unsigned status);
/** efa_peers_bury() - End all that waits for lost peers; after a poll, when their last packets have been taken. */
void efa_peers_bury(struct efa_ep *ep);
/* efa_quota.c */
/** efa_quota_has() - Is there room for @n more of @peer? */
bool efa_quota_has(const struct efa_peer *peer, enum efa_quota q, uint64_t n);
void efa_quota_add(struct efa_peer *peer, enum efa_quota q, uint64_t n);
void efa_quota_put(struct efa_peer *peer, enum efa_quota q, uint64_t n);
/** efa_quota_refuse() - Of an EFA_PEER_FULL: has its packet been sent back, to come again? */
bool efa_quota_refuse(struct efa_peer *peer, const struct efa_hdr *h);
/** efa_hdr_identity() - Set the raw address or connid part of a request header for @peer. */
static inline void efa_hdr_identity(const struct efa_ep *ep, const struct efa_peer *peer, struct efa_hdr *h)
{
	if (unlikely(!(peer->flags & EFA_PEER_HS_RCVD) || (peer->extra & EFA_X_CONSTANT_HDR_LEN))) {
		h->flags |= EFA_FLAG_RAW_ADDR;
		__builtin_memcpy(h->raw_addr, &ep->self, EFA_ADDR_LEN);
	} else if (peer->extra & EFA_X_CONNID_HDR) {
		h->flags |= EFA_FLAG_CONNID;
		h->connid = ep->self.qkey;
	}
}
static inline bool efa_peer_has(const struct efa_peer *peer, uint64_t bits)
{
	return (peer->extra & bits) == bits;
}
/**
 * efa_peer_is_known() - Do we know what @peer can? By its handshake, as ourselves, or because the program says that all
 * its peers are as we are (FI_OPT_EFA_HOMOGENEOUS_PEERS).
 */
static inline bool efa_peer_is_known(const struct efa_peer *peer)
{
	return peer->flags & EFA_PEER_HS_RCVD || peer->is_self || peer->ep->homogeneous;
}

/* efa_pkt.c: work requests */
struct efa_pkt *efa_pkt_get(struct efa_ep *ep, struct efa_peer *peer, bool large);
void efa_pkt_put(struct efa_pkt *pkt);
/** efa_pkt_post() - Put it on the send queue. 0; -FI_EAGAIN: send queue full, nothing happened. */
int efa_pkt_post(struct efa_pkt *pkt);
/** efa_pkt_post_or_queue() - For packets that must not fail: waits in ep->queued if there is no room. */
void efa_pkt_post_or_queue(struct efa_pkt *pkt);
/** efa_pkt_end() - A work request has ended with @status (enum efanic_status): tell its transfer, free it. */
void efa_pkt_end(struct efa_pkt *pkt, unsigned status);
void efa_pkts_retry(struct efa_ep *ep, uint64_t now_ns);
/*
 * What lies in the adapter's memory has no packet: its id is that of its transfer, marked by bit 0; or 0, where nothing
 * is remembered.
 */
static inline bool efa_wr_is_owned(uint64_t wr_id)
{
	return !wr_id || wr_id & 1;
}
static inline struct efa_tx *efa_tx_of_wr(uint64_t wr_id)
{
	return (struct efa_tx *)(uintptr_t)(wr_id & ~1ULL);
}
/** efa_ctrl_pkt() - A control packet without payload, for efa_pkt_post_or_queue(). NULL: no memory. */
struct efa_pkt *efa_ctrl_pkt(struct efa_peer *peer, struct efa_hdr *h, struct efa_rx *rx);
/** efa_ctrl_send() - The same, sent. 0; -FI_ENOMEM. */
int efa_ctrl_send(struct efa_peer *peer, struct efa_hdr *h, struct efa_rx *rx);
/** efa_on_wc() - Completions of the main queue pair. */
void efa_on_wc(void *ctx, const struct efanic_wc *wc);

/* efa_select.c: pure */
struct efa_select_in {
	uint64_t len, flags;
	bool tagged, peer_hs, can_read; /* can_read: both sides, interoperable devices, memory readable */
	uint64_t eager_cap, max_medium, min_read, runt_quota;
	bool read_in_flight;
};
uint8_t efa_select_msg(const struct efa_select_in *in);

/* efa_tx.c: outgoing transfers */
struct efa_tx *efa_tx_get(struct efa_ep *ep, struct efa_peer *peer, enum efa_tx_kind kind);
/** efa_tx_get_any() - efa_tx_get() of a SEND that has left already, however many there are. NULL: no memory. */
struct efa_tx *efa_tx_get_any(struct efa_ep *ep, struct efa_peer *peer);
/** efa_tx_owned() - The only packet of @tx is in the adapter's memory. Return: the id of its work request. */
uint64_t efa_tx_owned(struct efa_tx *tx);
/** efa_tx_owned_done() - It has arrived. */
void efa_tx_owned_done(struct efa_tx *tx);
void efa_tx_put(struct efa_tx *tx);
/** efa_tx_abandon() - Its peer is gone: no completion; freed when its work requests have ended. */
void efa_tx_abandon(struct efa_tx *tx);
/** efa_tx_unpark() - The handshake that @tx waited for has come: start it. */
void efa_tx_unpark(struct efa_tx *tx);
/**
 * efa_tx_start() - Choose the protocol and post the first packet(s). 0; -FI_EAGAIN and other codes: nothing happened,
 * @tx is freed.
 */
int efa_tx_start(struct efa_tx *tx);
/** efa_tx_park() - Wait for the peer's handshake. 0; -FI_EAGAIN: too many wait already, or an inject. */
int efa_tx_park(struct efa_tx *tx);
/** efa_tx_hdr() - The request header of @tx: type, flags, identity, ids, lengths. */
void efa_tx_hdr(const struct efa_tx *tx, struct efa_hdr *h);
/**
 * efa_tx_gather() - Append the pieces of the user's memory that make up [@off, +@len) of the transfer to the packet.
 */
void efa_tx_gather(struct efa_pkt *pkt, const struct efa_tx *tx, uint64_t off, uint64_t len);
int efa_tx_send_packet(struct efa_tx *tx, struct efa_hdr *h, uint64_t off, uint64_t len); /* 0; -FI_EAGAIN */
int efa_tx_start_longcts(struct efa_tx *tx);
/**
 * efa_tx_respond() - First packet @h of an answer with payload from the start of @tx, then @window bytes by CTSDATA.
 */
void efa_tx_respond(struct efa_tx *tx, struct efa_hdr *h, uint64_t window);
/**
 * efa_tx_read_iov() - Fill read_iov with the transfer's memory, registering what has no key. -EFA_ENOMR: limits
 * reached.
 */
int efa_tx_read_iov(struct efa_tx *tx, struct efa_hdr *h);
bool efa_read_interop(const struct efa_ep *ep, const struct efa_peer *peer);
void efa_tx_pkt_done(struct efa_tx *tx, struct efa_pkt *pkt, unsigned status);
void efa_tx_on_cts(struct efa_tx *tx, const struct efa_hdr *h);
void efa_tx_on_receipt(struct efa_tx *tx);
void efa_tx_on_eor(struct efa_tx *tx);
void efa_tx_on_response(struct efa_tx *tx); /* the data of a read or fetch is there */
void efa_tx_on_nack(struct efa_tx *tx, const struct efa_hdr *h);
void efa_tx_pump(struct efa_ep *ep);
/** efa_tx_fail() - End with an error completion, once. */
void efa_tx_fail(struct efa_tx *tx, int err, unsigned prov_errno);
void efa_tx_check_done(struct efa_tx *tx);
size_t efa_eager_cap(const struct efa_peer *peer, const struct efa_tx *tx, uint8_t type);

/* efa_rx.c: incoming packets and transfers */
/** efa_rx_packet() - One packet of @peer, decoded. @data: the whole packet. */
void efa_rx_packet(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off);
/**
 * efa_on_eager() - A packet in one piece from @src, a peer or NULL: taken if it is the next small message; else
 * efanic_pass().
 */
int efa_on_eager(void *ctx, void *src, const uint8_t *pkt, uint32_t len);
void efa_rx_start(struct kit_ep *ep, struct kit_rx *krx, struct kit_ux *ux);
void efa_rx_discard(struct kit_ep *ep, struct kit_ux *ux);
fi_addr_t efa_rx_source(const struct kit_ux *ux);
struct efa_rx *efa_rx_get(struct efa_ep *ep, struct efa_peer *peer, enum efa_rx_kind kind);
void efa_rx_put(struct efa_rx *rx);
void efa_rx_abandon(struct efa_rx *rx);
/** efa_rx_orphan() - The emulated read @tx has failed: what still comes for it must not be written. */
void efa_rx_orphan(const struct efa_tx *tx);
/** efa_held_get() - A copy of a received packet. NULL: no memory. */
struct efa_held *efa_held_get(struct efa_ep *ep, const struct view *pkt, uint32_t msg_id);
void efa_held_put(struct efa_ep *ep, struct efa_held *held);
static inline uint32_t efa_held_size(const struct efa_held *held)
{
	return (uint32_t)sizeof(*held) + (held->is_large ? EFA_MTU : EFA_HELD_SMALL);
}
void efa_rx_wr_done(struct efa_rx *rx, struct efa_pkt *pkt, unsigned status);
/**
 * efa_rx_bytes() - Payload of a transfer arrived at @off of the message. False: out of its range, dropped; or its
 * memory has gone, and so has @rx.
 */
/** efa_rx_ordered() - A message or atomic packet: it takes effect when its msg_id is due. */
void efa_rx_ordered(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off);
/**
 * efa_refuse() - Report that @h named memory that @peer may not touch: here, and to the initiator if it wants to know
 * and waits.
 */
void efa_refuse(struct efa_peer *peer, const struct efa_hdr *h, const char *why);
/** efa_refuse_send() - The latter only. */
void efa_refuse_send(struct efa_peer *peer, const struct efa_hdr *h);
bool efa_rx_bytes(struct efa_rx *rx, uint64_t off, const struct view *data, size_t payload_off);
void efa_rx_fail(struct efa_rx *rx, int err, unsigned prov_errno);
void efa_rx_check(struct efa_rx *rx); /* completes, or asks for more; may free @rx */
int efa_rx_post_reads(struct efa_rx *rx); /* RDMA reads of what does not come in packets; -EFA_ENOMR: cannot register */
/** efa_rx_fill() - Take over what request @h says of a transfer of @len bytes. */
void efa_rx_fill(struct efa_rx *rx, const struct efa_hdr *h, uint64_t len);
/**
 * efa_rx_go_on() - The destination is known and the request's own bytes are in: fetch or ask for the rest. May free
 * @rx.
 */
void efa_rx_go_on(struct efa_rx *rx);

/* efa_rma.c, efa_atomic.c: target side of one-sided requests */
void efa_rma_on_rtw(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off);
void efa_rma_on_rtr(struct efa_peer *peer, const struct efa_hdr *h);
/** efa_rma_region() - The region that a peer has named by @at; NULL: it may not do @access there, or not any more. */
struct efa_mr *efa_rma_region(struct efa_ep *ep, const struct efa_rma_iov *at, uint64_t access);
/** efa_rma_is_there() - Have all @cnt pieces of @at their regions? They may have been closed since the last packet. */
bool efa_rma_is_there(struct efa_ep *ep, const struct efa_rma_iov *at, unsigned cnt, uint64_t access);
/**
 * efa_rma_copy_out() - [@off, +@len) of what a peer reads by @tx. It may have gone, with its region or without, which
 * must not be found out by who sends it: one piece at a time. Return: it was there.
 */
bool efa_rma_copy_out(uint8_t *to, const struct efa_tx *tx, uint64_t off, uint64_t len);
void efa_atomic_on_rta(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off);
void efa_atomic_on_rsp(struct efa_tx *tx, const struct efa_hdr *h, const struct view *data, size_t payload_off);
int efa_rma_start(struct efa_tx *tx);    /* device or emulated, called by efa_tx_start() for WRITE and READ */
int efa_atomic_start(struct efa_tx *tx);

static inline struct efa_ep *efa_ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct efa_ep, kit.fid);
}

/* FI_MSG_PREFIX: the head of the buffer is ours to use, which we do not: the message starts behind it. */
static inline bool efa_skip_prefix(const struct efa_ep *ep, struct iovec *iov, size_t cnt)
{
	if (!cnt || iov[0].iov_len < ep->msg_prefix)
		return false;
	iov[0].iov_base = (char *)iov[0].iov_base + ep->msg_prefix;
	iov[0].iov_len -= ep->msg_prefix;
	return true;
}

KIT_RECV_CALLS(efa);
extern const struct fi_ops_msg efa_msg_ops;
extern const struct fi_ops_tagged efa_tagged_ops;
extern const struct fi_ops_rma efa_rma_ops;
extern const struct kit_atomic_ops efa_atomic_ops;
int efa_query_atomic(struct fid_domain *domain, enum fi_datatype dt, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags);

/* efa_err.c: one table device status / provider code -> fi errno, texts */
int efa_errno(unsigned prov_errno);
/**
 * efa_prov_errno() - The provider's code for a device status: "unresponsive" is told apart by whether @peer was ever
 * heard.
 */
unsigned efa_prov_errno(const struct efa_peer *peer, unsigned status);
/** efa_status_is_loss() - Does @status mean that the peer is gone or will never understand us? */
bool efa_status_is_loss(unsigned status);
uint64_t efa_host_id(void); /* of this machine, 0 if it has none */
const char *efa_strerror(unsigned prov_errno);
/** efa_peer_is_far() - @peer is on another host, and its GID and ours are on loopback: SOFTFABRIC_NET lacks if=. */
bool efa_peer_is_far(const struct efa_ep *ep, const struct efa_peer *peer);
/** efa_err_data() - "<text> My EFA addr: ... Peer EFA addr: ..." into @buf; its length. */
size_t efa_err_data(const struct efa_ep *ep, const struct efa_peer *peer, unsigned prov_errno, char *buf, size_t cap);

#endif
