// SPDX-License-Identifier: BSD-2-Clause
// What the files of the reliability share: the endpoint's state, kept packets, and arithmetic of PSNs.
#ifndef SF_PROV_OPX_OPX_FLOW_INT_H
#define SF_PROV_OPX_OPX_FLOW_INT_H

#include "base/clock.h"
#include "prov/opx/flow/opx_flow.h"

#define OPX_COPY_SMALL 512u /* payload of the smaller of the two sizes of copies, bytes */
#define OPX_CTL_COPIES (8 * OPX_REPLAY_COPIES) /* more than the pool, for CONTROL packets only */
#define OPX_ANSWERS    32u  /* NACKs, and ACKs of ranges, that one PING or gap may cause, */
#define OPX_ANSWERS_FEW 4u  /* and a packet before its turn that asks */
#define OPX_LOSS_MEMORY 1024u /* packets after which half of what was learned of losses is forgotten */
#define OPX_ACK_BACK   OPX_RX_AHEAD /* packets that a cumulative ACK reaches back: no window is larger */
#define OPX_INIT_NS    NS_PER_MS /* INIT is repeated after this, then twice, 4 times... */
#define OPX_INIT_SHIFT 6
#define OPX_PING_SHIFT 5 /* PINGs that nothing comes of: the period grows up to 2^5 */
#define OPX_PING_FREE  4 /* the first so many do not count */
#define OPX_HURRY_MAX 8 /* PINGs out of turn that nothing comes of: then the timer has to do */
#define OPX_PING_MAX_NS  (100 * NS_PER_MS)
#define OPX_RETRY_NS     (5 * NS_PER_US) /* no credits, SDMA is busy, or the port is down: look again */

#define OPX_INIT_KEYED   1u /* INIT: the cookie is the key */

enum opx_replay_kind { OPX_REP_SMALL, OPX_REP_BIG, OPX_REP_REF, OPX_REP_NUM };

/*
 * A packet that is kept: to be sent, sent and not acknowledged, or come before its turn. Its payload or its iovec
 * follows.
 */
struct opx_replay {
	STAILQ_ENTRY(opx_replay) next;
	struct opx_op *op;   /* retired() names it; NULL */
	uint32_t psn, len;   /* len: payload bytes */
	uint64_t sdma_seq;   /* by this SDMA request; 0: by PIO */
	uint32_t serial;     /* the flow's last PING when it was sent: only answers to later ones tell of it */
	uint8_t kind;        /* enum opx_replay_kind */
	uint8_t iov_cnt;
	uint8_t type;        /* ahead: enum hfi_rcv_type */
	bool is_again;       /* has been sent more than once */
	bool wants_again;    /* to be sent again as soon as there are credits */
	bool must_wait;      /* opx_flow_begin(): it cannot go now */
	_Alignas(8) struct hfi_hdr hdr; /* the payload is behind it, as on the wire */
};
static_assert(sizeof(struct opx_replay) == offsetof(struct opx_replay, hdr) + sizeof(struct hfi_hdr), "none between");

/* Behind a short header the payload lies where its w[1] would be, which nobody reads. */
static inline void *opx_replay_buf(struct opx_replay *r)
{
	return (uint8_t *)&r->hdr + hfi_hdr_len(&r->hdr);
}

/* A slot of the SDMA completion ring. */
struct opx_sdma {
	struct opx_flow *flow; /* NULL: it has been closed */
	uint32_t psn;          /* of its first packet */
};

LIST_HEAD(opx_flow_list, opx_flow);

struct opx_rel {
	struct opx_rel_attr a;
	struct opx_rel_stats st;
	uint32_t mtu;
	uint32_t pre_ack_mask;
	uint64_t ping_ns, dead_ns, life_ns; /* periods */
	uint64_t next_ns;      /* progress must look at the flows then; 0: at once */
	uint32_t lazy;         /* calls of progress since the clock was read */
	bool is_coarse;        /* all deadlines are far: the clock need not be read each time */
	bool is_dirty;         /* the doorbell has not been rung */
	bool wants_pool;       /* a flow waits for a free replay */
	bool is_running;       /* somebody is at the timers of all flows */
	struct opx_replay *begun; /* from opx_flow_begin() to _commit(); NULL: the adapter's memory */
	struct opx_flow_list active, all;
	struct slab pool[OPX_REP_NUM];
	uint32_t copies, refs; /* packets to be sent or acknowledged */
	uint32_t silent_said;  /* lines about peers from whom nothing comes */
	uint32_t unkept_said;  /* and about messages for which there was no memory */
	uint32_t ahead;        /* packets before their turn, of all flows */
	struct opx_sdma *sdma; /* [sdma_cnt] */
	uint32_t sdma_cnt, sdma_head, sdma_used; /* busy slots: sdma_used ones from sdma_head on, in order of posting */
	uint64_t sdma_seq;     /* requests posted */
};

/* What differs between UD packets. */
struct opx_ud_pkt {
	enum opx_ud ud;
	uint64_t key, w0, w1, tag;
	uint32_t imm;
};

/** psn_diff() - How far @a is ahead of @b, -2^23 .. 2^23 - 1. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & HFI_PSN_MASK;
}

static inline uint32_t pkt_cost(uint32_t len)
{
	return len + (uint32_t)sizeof(struct hfi_hdr);
}

/** flow_sent_psn() - The first PSN that has not been sent. */
static inline uint32_t flow_sent_psn(const struct opx_flow *f)
{
	return f->unsent ? f->unsent->psn : f->tx_psn;
}

/* --- opx_flow.c --- */

/**
 * opx_replay_new() - Room for @len bytes of payload, or with @is_ref for an iovec. Not counted in any pool. NULL: no
 * memory.
 */
struct opx_replay *opx_replay_new(struct opx_rel *rel, uint32_t len, bool is_ref);
void opx_replay_free(struct opx_rel *rel, struct opx_replay *r);
/** opx_flow_attend() - The next progress looks at @f. */
void opx_flow_attend(struct opx_flow *f);
/** opx_flow_want() - Its owner waits for room(). */
void opx_flow_want(struct opx_flow *f);
/**
 * opx_flow_refused() - A packet could not be sent with error @rc. Return: @rc; the flow is doomed where that is final.
 */
int opx_flow_refused(struct opx_flow *f, int rc);
void opx_flow_end(struct opx_flow *f, enum opx_status why);
/** opx_flow_epoch() - Its own, which is chosen when it is first told to the peer. */
uint64_t opx_flow_epoch(struct opx_flow *f);
/**
 * opx_flow_opened() - INIT_ACK has come with the key, which the stream may have begun with already, from a peer of
 * @epoch.
 */
void opx_flow_opened(struct opx_flow *f, uint64_t key, uint64_t epoch);
/** opx_flow_knows() - Is @key that of the stream in, or may that stream begin with it? */
static inline bool opx_flow_knows(const struct opx_flow *f, uint64_t key)
{
	if (!key)
		return false;
	/* who may use what we offered has answered us */
	return key == f->rx_key || key == f->rx_key_next || (key == f->rx_key_offer && f->state == OPX_FLOW_OPEN);
}
/**
 * opx_flow_begin_rx() - The first packet with @key has come, known and not rx_key: the old stream is history. Return:
 * false: not yet, opx_flow_hold() it.
 */
bool opx_flow_begin_rx(struct opx_flow *f, uint64_t key);

/* --- opx_flow_tx.c --- */

/**
 * opx_flow_retire() - Drop the kept packets @q, none of which is in the flow's queue any more, and tell their
 * operations.
 */
void opx_flow_retire(struct opx_rel *rel, struct opx_replay_q *q, bool is_told);
/** opx_flow_acked() - The peer has [@first, +@cnt). Return: false, nothing done: it cannot. */
bool opx_flow_acked(struct opx_flow *f, uint32_t first, uint32_t cnt);
/**
 * opx_flow_nacked() - The peer lacks [@first, +@cnt), and answers PING @serial. Return: false, nothing done: it cannot.
 */
bool opx_flow_nacked(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial);
/** opx_flow_push() - Send what waits, the repetitions first. Return: packets. */
int opx_flow_push(struct opx_flow *f);
/** opx_flow_is_stuck() - Does something wait that the window would let go? */
bool opx_flow_is_stuck(const struct opx_flow *f);
/** opx_flow_may_post() - Would a packet of HFI_MTU bytes be taken now, credits aside? */
bool opx_flow_may_post(const struct opx_flow *f);
/** opx_flow_look() - Sets f->pass: whatever it depends on has changed, but for a packet that has passed. */
void opx_flow_look(struct opx_flow *f);
/** opx_sdma_reap() - Free the slots of requests that are complete. */
void opx_sdma_reap(struct opx_rel *rel);
/** opx_sdma_oldest() - The request of @f that the adapter is still reading. NULL: none. */
const struct opx_sdma *opx_sdma_oldest(const struct opx_rel *rel, const struct opx_flow *f);
void opx_sdma_forget(struct opx_rel *rel, const struct opx_flow *f);

/* --- opx_flow_pace.c --- */

/**
 * opx_flow_asked() - The packet @psn, or with OPX_PSN_NONE a PING, asks the peer for an answer.
 * @is_late: the answer may wait for company.
 */
void opx_flow_asked(struct opx_flow *f, uint32_t psn, bool is_late);
/** opx_flow_answered() - The last PING has been answered (@is_ping), or tx_una has moved. */
void opx_flow_answered(struct opx_flow *f, bool is_ping);
/** opx_flow_due_ns() - When an answer should have come. CLK_NEVER: none is missed, or the timer asks soon enough. */
uint64_t opx_flow_due_ns(const struct opx_flow *f);
/** opx_flow_grow() - @pkts packets of @bytes have been acknowledged. */
void opx_flow_grow(struct opx_flow *f, uint32_t pkts, uint32_t bytes);
/** opx_flow_shrink() - @pkts packets from @psn on are lost: once for all that was on its way when that was seen. */
void opx_flow_shrink(struct opx_flow *f, uint32_t psn, uint32_t pkts);

/* --- opx_flow_rx.c --- */

/** opx_flow_rx_look() - Sets f->rx_next: whatever it depends on has changed. */
static inline void opx_flow_rx_look(struct opx_flow *f)
{
	f->rx_next = f->rx_key && !f->ahead_cnt && !f->is_full ? f->rx_psn : OPX_PSN_NONE;
}
void opx_flow_ahead_drop(struct opx_flow *f);
/**
 * opx_flow_ahead_take() - Deliver those of the packets that came before their turn whose turn it is now, and
 * acknowledge.
 */
void opx_flow_ahead_take(struct opx_flow *f);
/** opx_flow_ahead_is_due() - Is it the turn of the first of them, and may it be taken? */
bool opx_flow_ahead_is_due(const struct opx_flow *f);
/**
 * opx_flow_hold() - @pkt is of the next stream, which cannot begin yet. Where that cannot be kept, its sender is told
 * that there is no such stream.
 */
void opx_flow_hold(struct opx_flow *f, const struct hfi_pkt *pkt);
/** opx_flow_held_take() - What was held, as if it came now: the old stream has ended. */
void opx_flow_held_take(struct opx_flow *f);
void opx_flow_held_drop(struct opx_flow *f);

/* --- opx_flow_ud.c --- */

int opx_ud_init(struct opx_flow *f);
/** opx_ud_init_ack() - Answer the last keyed INIT, now or when there is room: it is not sent again. */
void opx_ud_init_ack(struct opx_flow *f);
int opx_ud_ping(struct opx_flow *f);
/**
 * opx_ud_ack() - All that has come in order, in answer to PING @serial. What cannot go now goes at the next progress.
 */
void opx_ud_ack(struct opx_flow *f, uint32_t serial);
/** opx_ud_ack_late() - The same for who is not held up by it: it leaves with what is sent next, or a little later. */
void opx_ud_ack_late(struct opx_flow *f);
void opx_ud_ack_range(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial);
/**
 * opx_ud_answer() - What there is of [@first, +@cnt), which the peer has sent, and what is not, in answer to PING
 * @serial.
 * @max: ACKs of ranges, and NACKs.
 */
void opx_ud_answer(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial, uint32_t max);
/** opx_ud_nack() - [@first, +@cnt), in as many NACKs as it takes, at most @max. Return: NACKs. */
uint32_t opx_ud_nack(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial, uint32_t max);
void opx_ud_resynch(struct opx_rel *rel, struct hfi_dst *dst, uint64_t key);
void opx_ud_bye(struct opx_flow *f);
/** opx_ud_rx() - @pkt, a UD packet that opx_pkt_check() has passed. Return: as on_service of a context. */
bool opx_ud_rx(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt);

#endif
