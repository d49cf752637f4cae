// SPDX-License-Identifier: BSD-2-Clause
// What the files of efanic/ share: adapter, queue pair, send slots, destinations, regions.
#ifndef SF_NIC_EFANIC_EFANIC_INT_H
#define SF_NIC_EFANIC_EFANIC_INT_H

#include <sys/uio.h>

#include "base/pqueue.h"
#include "base/rng.h"
#include "base/slab.h"
#include "link/link.h"
#include "nic/efanic/efanic.h"
#include "nic/efanic/efanic_wire.h"

/*
 * Theory of operation
 *
 * A queue pair is one link port: its number is the port's, and an SRD queue pair's Q_Key is the
 * port's nonce. A SEND is one link frame and ends with the peer adapter's verdict (0 or a refusal
 * code); READ and WRITE are the link's bulk service.
 *
 * A send slot is always in exactly one place: free, with the link (WR_LINK), in its destination's
 * waiting line because the link had no room (WR_WAIT), on the receiver-not-ready timer (WR_RNR), or
 * finished and not yet reported (WR_DONE).
 *
 * Completions reach on_wc from efanic_poll() only. While it runs, qp->deliver is set and a frame or
 * a verdict goes to the handler at once, without a copy and without a queue. Otherwise (the adapter
 * thread works, or a post has just failed) verdicts wait in qp->done and packets, copied, in
 * qp->parked.
 */

static_assert(EFANIC_PD_MAX <= LINK_GROUP_MAX, "a protection domain is a group of regions");

#define SQ_NONE	   0xffffu
#define SQ_MAX	   (0xfffeu - SQ_SPARE) /* slot numbers are 16 bit */
#define SQ_SPARE   (2 * LINK_OWN_CNT) /* slots beyond the depth: each SEND on its way without one may fail */
#define RQ_SGE_MAX 3
#define EFANIC_UNSOLICITED_MAX 32768u /* unsolicited writes that wait for a poll: the longest completion queue's */

/* A singly linked line of send slots by number, through efanic_swr.next. */
struct wr_line {
	uint16_t head, tail;
};

enum wr_phase { WR_FREE, WR_LINK, WR_WAIT, WR_RNR, WR_DONE, WR_PHASE_NUM };

/* One send work request. The fields that a post writes lie together. */
struct efanic_swr {
	uint64_t wr_id;
	struct efanic_dst *dst; /* one reference */
	uint8_t opcode;		/* enum efanic_opcode */
	bool has_imm;
	uint8_t iov_cnt;
	bool data_done; /* WRITE with immediate: written, the WRITE_IMM frame is due */
	uint8_t rnr_tries;
	bool discard;	/* the queue pair was reset: ends without a completion */
	bool is_own;	/* its one piece is own[], or own_iov if they were too many: memory of its own */
	uint8_t status; /* WR_DONE: what the completion will say */
	uint32_t imm;
	uint32_t len;  /* bytes of all pieces */
	uint16_t next; /* line or free list */
	uint8_t phase; /* enum wr_phase */
	uint8_t life;  /* dst->lives when it was refused, or when its data began: the rest is for nobody else */
	uint32_t rkey;
	uint32_t lkey[EFANIC_SGE_MAX]; /* asked again before each retry */
	union {
		struct iovec iov[EFANIC_SGE_MAX];
		struct {
			struct iovec own_iov; /* iov[0] */
			uint8_t own[EFANIC_OWN_MAX];
		};
	};
	uint64_t raddr;
	struct pq_node rnr;
};

/* One posted receive buffer. */
struct efanic_rwr {
	uint64_t wr_id;
	uint8_t sge_cnt;
	uint32_t lkey[RQ_SGE_MAX];
	struct iovec iov[RQ_SGE_MAX];
};

/* A receive completion that waits for efanic_poll(). */
struct rx_parked {
	struct rx_parked *next;
	struct link_peer *peer; /* one reference; NULL: an error of our own */
	uint64_t wr_id;
	uint8_t status, opcode;
	bool has_imm, unsolicited;
	uint32_t imm;
	uint32_t byte_len;
	uint32_t data_len; /* bytes of @data; 0 with posted buffers */
	uint8_t data[];
};

/* Where a work request goes. Shared by all users of one (peer, Q_Key) of a queue pair. */
struct efanic_dst {
	union {
		struct efanic_qp *qp; /* NULL in qp->stranger */
		struct efanic *nic;   /* is_orphan */
	};
	struct link_peer *peer; /* one reference; NULL if is_orphan */
	void *user;
	struct efanic_dst *next;      /* another Q_Key at the same peer (UD); peer's user -> first */
	struct efanic_dst *wait_next; /* qp->waiters */
	uint32_t refs;
	uint32_t qkey;
	uint32_t ah_gen; /* equal to the entry's: the address handle is still the same */
	uint32_t gate;	 /* equal to the queue pair's: efanic_dst_open() has found nothing in the way */
	uint16_t ah_idx; /* nic->ah[]; max_ah: none */
	struct wr_line wait;
	bool has_answered : 1; /* a verdict came from there once */
	bool is_waiting : 1;   /* in qp->waiters */
	bool is_orphan : 1;    /* the queue pair is closed: the handle lives on and names nothing */
	uint8_t end : 5;       /* enum efanic_status: how the last process there went */
	uint8_t lives;	       /* processes that have gone there; wraps */
};
static_assert(EFANIC_STATUS_NUM <= 32, "efanic_dst.end");
static_assert(sizeof(struct efanic_dst) <= 64, "one per peer: keep it small");

struct efanic_ah {
	uint8_t ip[16];
	uint32_t refs;
	uint32_t gen;	/* changes whenever the entry's meaning does */
	uint16_t ahn;	/* its index; EFANIC_AHN_UNKNOWN for the last entry */
	uint16_t hnext; /* hash chain or free list; AH_NONE ends it */
	uint32_t pad;	/* to 32 bytes: indexed by a shift */
};
#define AH_NONE 0xffffu

struct efanic_mr {
	struct efanic *nic;
	uint64_t addr, len;
	unsigned access;
	uint32_t pd;
	uint32_t rkey; /* link's region key; 0: no remote access */
	uint32_t read_cnt; /* RDMA reads at the link that write to it */
};

struct efanic {
	struct lock *lock; /* protects everything below */
	struct efanic_dev_attr attr;
	struct efanic_open_attr open;
	struct link_node *node;
	struct efanic_qp *qps; /* list by qp->next */
	uint32_t qp_cnt;
	struct slab mrs, dsts;
	struct efanic_ah *ah; /* [max_ah + 1]; the last stands for "no address handle" */
	uint16_t *ah_bucket;  /* [ah_mask + 1] by hash of the IP address */
	uint32_t ah_mask;
	uint16_t ah_free, ah_fresh; /* free list; first entry never used */
	struct rng rng;
	struct efanic_stats closed; /* sums of closed queue pairs */
};

/* What stands in the way of a poll that only looks at the link. */
enum { ATTN_POLLING = 1, /* it runs already */
       ATTN_WORK = 2 /* something is kept, or waits: efanic_qp_attn() */ };

struct efanic_qp {
	/* what every message touches, in the first two lines of the cache */
	struct efanic *nic;
	struct link_port *port;
	uint8_t attn; /* ATTN_* */
	bool deliver; /* a handler may be called now */
	uint32_t gate;	 /* another value whenever SENDs may have to take the send queue: efanic_dst_open() */
	uint32_t rx_lim; /* a SEND of fewer bytes may be shown to on_send: efanic_rx_gate() */
	uint32_t credits; /* receives that may still arrive */
	le64_t rx_first;  /* how a SEND to us begins */
	efanic_send_fn on_send;
	void *ctx;
	struct efanic_swr *sq;
	size_t sq_bytes;
	uint64_t sent_cnt, sent_bytes; /* SENDs that were accepted */
	uint64_t taken_cnt, taken_bytes; /* SENDs that were received */
	struct link_peer *shown_by; /* who has sent what on_send is shown: efanic_pass() */
	uint16_t sq_free;  /* slot freed last */
	uint16_t sq_fresh; /* first slot never used */
	/* per opcode: bit n set, n pieces may be posted now */
	uint8_t post_ok[EFANIC_OP_WRITE + 1];
	bool is_ud;
	bool may_skip_sq; /* SENDs may go to the link at once */
	bool is_open;	/* state takes frames */
	bool is_posted; /* receives need buffers */
	uint8_t backlog;   /* posts since something waits for room at the link */
	bool is_refused; /* the handler did not take the packet that it was shown */
	uint32_t qkey, mtu;
	uint32_t sq_used, sq_depth;
	efanic_wc_fn on_wc;
	struct efanic_stats stats; /* the rarer ones of its own counts; efanic_stats.c derives the rest */
	struct efanic_wc wc_tx;	   /* reused: only the fields that change are written per message */
	struct efanic_wc wc_rx;
	/* the rest */
	struct wr_line done;
	struct rx_parked *parked, **parked_tail;
	uint32_t unsolicited_cnt; /* of them; nothing else limits these */
	struct rx_parked **unpeeked; /* link to the first that efanic_peek() has not shown */
	struct efanic_dst *waiters; /* destinations with a waiting line, served in turn */
	struct efanic_dst **waiters_tail;
	struct pq rnr;
	struct efanic_rwr *rq; /* ring of rq_depth */
	uint32_t rq_head, rq_used, rq_depth;
	/* wc->src of a sender that nobody asked for; lives for one handler call */
	struct efanic_dst stranger;
	enum efanic_qp_type type;
	enum efanic_qp_state state;
	bool unsolicited_ok;
	bool is_reporting; /* the handler is shown what was accepted earlier */
	bool late_qkey;
	bool serves; /* peers' RDMA: the port is not shut */
	uint8_t rnr_retry, sl;
	uint16_t qpn;
	uint32_t pd;
	uint64_t drops[EFANIC_DROP_NUM];
	struct efanic_qp *next;
};

/* --- efanic_qp.c --- */

/* A row of the state table: which mask bits a transition needs and which it allows besides. */
struct efanic_transition {
	bool legal;
	unsigned required, optional;
};
/** efanic_qp_transition() - The kernel driver's table. Source: doc/facts/efa.md#queue-pairs. */
struct efanic_transition efanic_qp_transition(enum efanic_qp_type type, enum efanic_qp_state from,
					      enum efanic_qp_state to);
extern const char *const efanic_qp_state_name[EFANIC_QPS_NUM];

/** efanic_qkey_nonce() - The nonce of an SRD port with @qkey: that, or one that no provider uses, since none is 0. */
static inline uint32_t efanic_qkey_nonce(uint32_t qkey)
{
	return likely(qkey) ? qkey : UINT32_MAX;
}

/* --- efanic_tx.c --- */

/* RNR retry timer: the first wait and the longest, ns. */
#define EFANIC_RNR_NS_MIN (20 * NS_PER_US)
#define EFANIC_RNR_NS_MAX (20 * NS_PER_US << 7)

/** efanic_end_status() - What a completion says where the link has ended what went to @dst with @verdict, below 0. */
uint8_t efanic_end_status(const struct efanic_dst *dst, int verdict);
void efanic_tx_sent(void *ctx, void *cookie, int status); /* link_ops.on_sent */
/* link_ops.on_lost */
void efanic_tx_lost(void *ctx, struct link_peer *peer, uint64_t tag, const void *frame, size_t len, int status);
void efanic_tx_bulk(void *ctx, void *cookie, int status); /* link_ops.on_bulk */
void efanic_dst_gone(void *ctx, struct link_peer *peer, int status); /* link_ops.on_gone */
/** efanic_tx_retry() - Waiting lines and due RNR timers. Return: work requests moved. */
int efanic_tx_retry(struct efanic_qp *qp);
/**
 * efanic_tx_stop_reads() - @mr goes: what reads into it ends with LOCAL_INVALID_LKEY. Return: and writes there no more;
 * false: ask again, without the lock in between.
 */
bool efanic_tx_stop_reads(const struct efanic_mr *mr);
/** efanic_tx_report() - Hand qp->done to the handler. Return: completions. */
int efanic_tx_report(struct efanic_qp *qp);
/**
 * efanic_tx_flush() - End what the link does not hold with FLUSHED.
 * @discard: without completions, also of what the link holds.
 */
void efanic_tx_flush(struct efanic_qp *qp, bool discard);
uint64_t efanic_tx_deadline(const struct efanic_qp *qp);

/* --- efanic_rx.c --- */

/* link_ops.on_frame */
int efanic_rx_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t frame_len);
/** efanic_rx_report() - Report what is parked, and in state ERR the posted buffers. Return: how many. */
int efanic_rx_report(struct efanic_qp *qp);
/**
 * efanic_rx_flush() - Forget credits and parked packets.
 * @discard: posted buffers and their completions too.
 */
void efanic_rx_flush(struct efanic_qp *qp, bool discard);

/* --- efanic_mr.c --- */

/**
 * efanic_mr_check() - Does @lkey (not the internal one), in protection domain @pd, allow @access (0: read) of
 * [@addr, +@len)?
 */
bool efanic_mr_check(struct efanic *nic, uint32_t pd, uint32_t lkey, const void *addr, uint64_t len,
		     unsigned access);

/* --- efanic_ah.c --- */

int efanic_ah_tab_init(struct efanic *nic);
void efanic_ah_tab_fini(struct efanic *nic);
/** efanic_ah_find() - Index of the open entry for the GID of @ip; max_ah (none) if there is not one. */
uint16_t efanic_ah_find(const struct efanic *nic, const uint8_t ip[16]);
/* Was the address handle behind @dst closed? Never so for a destination without one. */
static inline bool efanic_dst_is_stale(const struct efanic *nic, const struct efanic_dst *dst)
{
	return unlikely(nic->ah[dst->ah_idx].gen != dst->ah_gen) && dst->ah_idx != nic->attr.max_ah;
}
/** efanic_dst_refresh() - As efanic_dst_src_ahn() when the generation has changed. */
uint16_t efanic_dst_refresh(struct efanic *nic, struct efanic_dst *dst);
/* AH number to report for packets from @dst now. */
static inline uint16_t efanic_dst_src_ahn(struct efanic *nic, struct efanic_dst *dst)
{
	const struct efanic_ah *ah = &nic->ah[dst->ah_idx];

	return likely(ah->gen == dst->ah_gen) ? ah->ahn : efanic_dst_refresh(nic, dst);
}
/** efanic_dst_settle() - efanic_dst_hold() from inside. */
int efanic_dst_settle(struct efanic_qp *qp, struct efanic_dst *dst, struct efanic_dst **out);
/** efanic_dst_orphan_all() - @qp closes: its destinations stay handles, but name nothing. */
void efanic_dst_orphan_all(struct efanic_qp *qp);

/* --- efanic_stats.c --- */

/** efanic_stats_derive() - All counters of @qp from its own and from @link, those of its port. */
void efanic_stats_derive(const struct efanic_qp *qp, const struct link_stats *link,
			 struct efanic_stats *out);
/** efanic_stats_tell() - The line of all counters of the adapter @ctx as it is now (link_node_attr.tell). */
size_t efanic_stats_tell(void *ctx, char *buf, size_t len);

/*
 * Gates: each stands for conditions that rarely change, so that the path of a small message asks one question. The
 * function that computes it is called wherever one of them changes.
 */

static inline bool efanic_qp_has_work(const struct efanic_qp *qp)
{
	return qp->parked || !qp->is_open || qp->done.head != SQ_NONE || qp->waiters || pq_peek(&qp->rnr);
}

/** efanic_qp_attn() - Of qp->attn: what is kept or waits, beside the link. */
static inline void efanic_qp_attn(struct efanic_qp *qp)
{
	qp->attn = (uint8_t)((qp->attn & ATTN_POLLING) | (efanic_qp_has_work(qp) ? ATTN_WORK : 0));
}

/** efanic_rx_gate() - Of qp->rx_lim: somebody wants to be shown it, the state takes frames, and there is a receive. */
static inline void efanic_rx_gate(struct efanic_qp *qp)
{
	qp->rx_lim = qp->on_send && qp->is_open && qp->credits ? EFANIC_MTU + 1 : 0;
}

/** efanic_gate_shut() - Something that efanic_dst_open() asks for may be otherwise now, for all destinations of @qp. */
static inline void efanic_gate_shut(struct efanic_qp *qp)
{
	if (!++qp->gate)
		qp->gate = 1; /* 0 is that of a destination which is shut itself */
}

static inline bool efanic_dst_may_skip(const struct efanic_qp *qp, const struct efanic_dst *dst)
{
	return qp->may_skip_sq && qp->sq_used < qp->sq_depth && !dst->is_waiting && !efanic_dst_is_stale(qp->nic, dst);
}

/** efanic_dst_open() - May a SEND to @dst go to the link at once? If so, that stays so until efanic_gate_shut(). */
static inline bool efanic_dst_open(const struct efanic_qp *qp, struct efanic_dst *dst)
{
	bool is_open = dst->gate == qp->gate;

	assert(!is_open || efanic_dst_may_skip(qp, dst));
	if (unlikely(!is_open) && efanic_dst_may_skip(qp, dst)) {
		dst->gate = qp->gate;
		is_open = true;
	}
	return is_open;
}

/** efanic_qp_push() - Work on requests that wait for room, outside of a poll; completions are kept for the next one. */
void efanic_qp_push(struct efanic_qp *qp);

#endif
