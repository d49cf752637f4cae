// SPDX-License-Identifier: BSD-2-Clause
// What the files of the reliability module share: peers, windows, frames in flight.
#ifndef SF_LINK_REL_INT_H
#define SF_LINK_REL_INT_H

#include <sys/queue.h>

#include "base/keyed.h"
#include "base/pqueue.h"
#include "base/quota.h"
#include "link/core/link_int.h"
#include "link/net/rel_wire.h"

/* Theory of operation: see rel.c. Everything here is used with the node's lock held. */

/* Sizes. */
#define REL_WIN_MIN     32            /* first slots of a sender; doubles up to REL_WINDOW */
#define REL_COPY_MAX    1024u         /* frames up to this size are gathered by copying */
#define REL_IOV_CNT     32            /* pieces of one datagram */
#define REL_STAGE_LEN   (160u * 1024) /* headers and small frames between two carrier flushes */
#define REL_FRAMES_MAX  65536u        /* the owner's frames in all, ... */
#define REL_FRAMES_PEER 4096u         /* ... per peer, ... */
#define REL_FRAMES_OWN  64u           /* ... and per peer whatever others have */
#define REL_ASM_PEER    256u          /* unfinished frames of one peer; of others see rel_quota.c */
#define REL_RAW_ASM_CNT 8u            /* the same of one RAW peer */
#define REL_ASM_HASH    32
#define REL_SEQ_FIRST   (0u - 200)    /* first DATA and frame: wrapping is nothing special */

/* How much may be on its way. */
#define REL_SKB_COST    768u          /* of a datagram in a socket buffer beyond its bytes */
#define REL_RCVBUF      (2u << 20)    /* bytes from all senders together on their way to us */
#define REL_CREDIT_MIN  (64u * 1024)
#define REL_CREDIT_UNIT 1024u
#define REL_CWND_FIRST  (256u * 1024)
#define REL_CWND_MIN    (64u * 1024)
#define REL_CWND_MAX    (4u << 20)

/* Small frames wait for company from this many datagrams in flight on, unless so much gathers. */
#define REL_CORK        4
#define REL_CORK_BYTES  8192u

/*
 * Who posts a frame so soon after our last DATA is about to post more: what has company in flight waits for the next
 * poll, or until three quarters of the longest datagram have gathered, so that a burst leaves as one lone frame and
 * then full datagrams. A poster that never polls is looked after by the adapter thread.
 * The time counts from before that DATA was handed over, which takes the system 3 to 5 us by itself; after more than
 * REL_CORK_BYTES, which it copies for longer than that, from its return.
 */
#define REL_BURST_NS    (10 * NS_PER_US)
#define REL_BURST_BYTES (48u * 1024)

/*
 * Acknowledgements leave within the pass after so many datagrams or bytes, or at its end. That of one or
 * two datagrams waits a little for data to ride on, then leaves with the next poll, or by the adapter
 * thread. (Tried: with the first poll that finds nothing more. Request and answer ride together either
 * way, but a stream of small messages loses 40 % of its rate, since early acknowledgements uncork what
 * would have shared a datagram.) Where REL_ACKS_ALONE in a row waited for nothing, a frame that comes
 * alone is acknowledged at the end of its pass: a Put of cxi is answered by nobody, and who posts no
 * other beside it waits for just that.
 */
#define REL_ACKS_ALONE   2                 /* one is usual between a large message and its answer */
#define REL_ACK_DGRAMS   16
#define REL_ACK_SOON     3                 /* from these at the end of the pass: before REL_CORK holds the sender up */
#define REL_ACK_BYTES    (128u * 1024)
#define REL_ACK_DELAY_NS (10 * NS_PER_US)
#define REL_AWAY_NS      (20 * NS_PER_US) /* between two looks at the socket: the program computes meanwhile */

#define REL_REORDER      3                 /* later arrivals that make a missing one lost */
#define REL_PTO_MIN_NS   (200 * NS_PER_US)
#define REL_PTO_MAX_NS   (100 * NS_PER_MS)
#define REL_PROBES_DEAD  3                 /* with fewer unanswered, silence may be our own sleep */
#define REL_HELLO_NS     (1 * NS_PER_MS)   /* first repetition, */
#define REL_HELLO_MAX_NS (10 * NS_PER_MS)  /* and how far apart they get at least: see rel_hello_max_ns() */
#define REL_BYE_TRIES    8                 /* about 0.3 s; a peer that is gone does not answer */
#define REL_RETRY_NS     (50 * NS_PER_US)  /* the carrier or the memory had no room */
#define REL_IDLE_NS      NS_PER_SEC        /* windows are given back after so long */
#define REL_RAW_ASM_NS   (50 * NS_PER_MS)  /* an unfinished RAW frame is given up */
#define REL_EPOCH_NS     (8 * NS_PER_MS)   /* over which active senders are counted */

/* What strangers may cost: see rel_hello.c, and rel_peer.c for the peers that they become. */
#define REL_ANSWER_BURST 64                /* answers of a kind per millisecond */
#define REL_PATH_NS      (600 * NS_PER_SEC) /* then larger datagrams are tried again */
#define REL_COOKIE_NS    (60 * NS_PER_SEC) /* a half that was given is taken for one to two times so long */
#define REL_HALF_MAX     4096u             /* peers that have not sent any DATA yet, */
#define REL_HALF_NS      (5 * NS_PER_SEC)  /* and how long they may do without */
#define REL_PLACE_MAX    16u               /* peers at one address and port that came by themselves, */
#define REL_HOST_MAX     16384u            /* the same of one source (struct rel_source) */
#define REL_HOST_ASKS    16u               /* of these are asked in turn, while newcomers find it full, */
#define REL_ASK_NS       (100 * NS_PER_MS) /* and how often each */

/*
 * State of a pair, seen from one side.
 *
 * NONE   nothing agreed. Frames may wait in the queue; the next flush sends HELLO.
 * HELLO  our HELLO is out and repeated.
 * OPEN   the pair nonce is known; data flows. Not is_sure: the other side may not know it yet.
 * BYE    our goodbye is out and repeated; nothing is taken any more.
 * CLOSED one side said goodbye, or the peer is dead; only an old goodbye is still answered.
 */
/* WRONG: HELLOs with a wrong nonce, which nobody shall find out by trying. */
enum rel_answer { REL_A_HELLO, REL_A_REFUSE, REL_A_WRONG, REL_A_NUM };

enum rel_state { REL_S_NONE, REL_S_HELLO, REL_S_OPEN, REL_S_BYE, REL_S_CLOSED, REL_S_NUM };

/* A frame of ours, from rel_send() until it is final. */
struct rel_frame {
	struct rel_frame *next; /* in the peer's queue, then in its slot */
	uint64_t tag;           /* cookie, or what port_up.lost() shows */
	uint32_t id;
	uint32_t len;           /* header and payload */
	uint32_t first_seq;     /* DATA that carries its first segment */
	uint16_t seg_len;       /* of all segments but the last */
	uint8_t seg_cnt;
	uint8_t segs_left;      /* not yet final */
	uint8_t kind;           /* enum link_kind */
	uint8_t hdr_len, iov_cnt;
	bool is_done;           /* the owner knows its end, its memory is not read any more */
	bool is_own;            /* all of it is in @hdr, and its owner hears of it only if it fails */
	union {
		struct {
			uint8_t hdr_[LINK_HDR_MAX];
			struct iovec iov[LINK_IOV_MAX];
		};
		uint8_t hdr[LINK_OWN_MAX];
	};
};

/* A refusal that the peer has not confirmed yet. */
struct rel_owed {
	struct rel_owed *next;
	uint32_t seq;   /* DATA that is held back meanwhile */
	uint32_t frame; /* refused */
	uint8_t code;
};

/* What is bounded per peer, per source address and in all (rel_quota.c). */
enum rel_quota {
	REL_Q_ASM,   /* unfinished frames */
	REL_Q_STASH, /* bytes that wait for earlier ones */
	REL_Q_EARLY, /* frames in these: each may have to be refused, and is REL_Q_NAK then whatever else is */
	REL_Q_NAK,   /* frames that are refused, or may have to be now */
	REL_Q_NUM
};

/* Peers that one may be behind: those of one IPv4 address or one IPv6 network. */
struct rel_source {
	struct quota_source quota; /* first */
	uint32_t guest_cnt; /* came by themselves: in @guests, first those that are asked whether they live */
	TAILQ_HEAD(, rel_peer) guests;
};

enum rel_slot_state { SLOT_UNSENT, SLOT_FLIGHT, SLOT_LOST, SLOT_SACKED };

#define REL_NIL UINT16_MAX

/* One DATA datagram, slot[seq & (slot_cnt - 1)]. */
struct rel_slot {
	struct rel_frame *frame; /* first of @frame_cnt, by ->next; or the one this is a segment of */
	uint64_t sent_ns;        /* last transmission */
	uint32_t len;            /* datagram, bytes */
	uint16_t frame_cnt;
	uint16_t tx;             /* last transmission's number */
	uint16_t prev, next;     /* in the list of those in flight, or of those to send again */
	uint8_t state;           /* enum rel_slot_state */
	uint8_t seg_idx;
	uint8_t sends;           /* saturating */
};

/* A frame whose segments are arriving. */
struct rel_asm {
	struct rel_asm *next; /* hash chain */
	uint64_t born_ns;
	uint32_t frame, total, seg_len;
	uint64_t got; /* bit per segment */
	uint8_t seg_cnt, kind;
	uint8_t buf[LINK_FRAME_MAX];
};

/* A datagram that waits for earlier ones (ORDERED). */
struct rel_stash {
	struct rel_stash *next; /* by seq */
	uint64_t born_ns;
	uint32_t seq, len, rec_cnt;
	uint8_t recs[];
};

/* Windows of an active peer; given back when idle. */
struct rel_win {
	struct rel_slot *slot;
	uint32_t slot_cnt;             /* power of two */
	uint16_t fl_head, fl_tail;     /* in flight, oldest transmission first; in @slot */
	uint16_t lost_head, lost_tail; /* to send again, or refused by the carrier at first */
	uint64_t loss_ns;              /* when a missing one is old enough to be lost */
	uint64_t cut_ns;               /* when cwnd was cut last */
	uint64_t rtt_min_at_ns;
	uint64_t seen[REL_WINDOW / 64]; /* DATA rx_next .. that arrived, bit seq % REL_WINDOW */
	uint16_t hold[REL_WINDOW];     /* reasons why an arrived DATA is not final yet */
	struct rel_stash *stash, *stash_tail; /* ORDERED: what arrived too early, by seq */
	struct rel_asm *spare;         /* ORDERED: for the one frame in assembly */
	uint32_t asm_cnt;
	uint8_t old_looks;             /* how often something looked too old */
	uint64_t old_ns;               /* nothing in assembly or stash is older */
	struct rel_asm *asm_tab[REL_ASM_HASH];
};

struct rel_peer {
	struct rel *r;
	struct link_peer *peer;       /* NULL: dropped while in use, */
	struct link_peer *left;       /* and this is who it was, while its frames end */
	uint32_t own_cnt;             /* frames that are is_own and have not ended */
	struct rel_peer *hnext;       /* by address */
	struct rel_peer *ready_next;  /* in r->ready while is_ready */
	struct rel_win *win;          /* NULL while idle */
	struct quota_user quota;      /* enum rel_quota; its source is a struct rel_source */
	TAILQ_ENTRY(rel_peer) stranger; /* in r->strangers, while is_half */
	struct pq_node timer;
	TAILQ_ENTRY(rel_peer) guest;  /* in source->guests, while is_guest */
	uint64_t asked_ns;            /* is_guest: when it was asked first, for lack of room */
	uint64_t made_ns;             /* while is_half */
	uint64_t pair, half;          /* 0 = not yet */
	uint64_t peer_half;
	uint64_t heard_ns;            /* last valid datagram of the pair */
	uint64_t since_ns;            /* since when something of ours is outstanding */
	uint64_t pto_base_ns;         /* last progress or probe: the next probe counts from here */
	uint64_t hello_ns;            /* last HELLO or BYE */
	uint64_t used_ns;             /* last DATA in or out */
	uint64_t ack_due_ns;          /* while owes_ack */
	struct rel_frame *q_head, *q_tail;     /* frames not yet in a slot */
	struct rel_owed *nak_head, *nak_tail;  /* refusals not yet confirmed */
	struct rel_owed *nak_next;    /* to be sent; NULL: all are on their way */
	uint64_t nak_ns;              /* when the oldest that is on its way was sent, or one was confirmed since */
	uint32_t q_bytes;
	uint32_t frame_cnt;           /* owner's frames that have not ended */
	uint32_t serial, peer_serial, peer_nonce;
	uint32_t mtu;                 /* of the next DATA */
	uint32_t path_mtu;            /* a router said so at path_ns, may be less than @mtu; 0 = no, or long ago */
	uint64_t path_ns;
	uint32_t tx_seq, tx_una;      /* next DATA; oldest that is not final */
	uint32_t frame_next;          /* id of the next frame */
	uint32_t nak_una, nak_tx, nak_end; /* numbers: the oldest refusal, @nak_next, the next to come */
	uint32_t nak_rx;              /* number of the peer's next refusal */
	uint32_t flight_bytes, flight_cnt; /* sent and neither arrived nor lost */
	uint32_t open_bytes;          /* of all slots: sent and not final */
	uint32_t cwnd, credit;        /* bytes */
	uint32_t srtt_ns, rtt_min_ns; /* 0 = no sample yet; saturating */
	uint32_t rx_next;             /* oldest DATA of the peer that is not final */
	uint32_t rx_proc;             /* ORDERED: next DATA to process */
	uint32_t rx_top;              /* one past the highest DATA that arrived */
	uint64_t rx_echo_ns;          /* arrival of echo_rx, at the earliest */
	uint32_t rx_dgrams, rx_bytes; /* since our last acknowledgement */
	uint32_t rx_epoch;            /* when it last counted as an active sender */
	uint16_t tx_no;               /* number of the last transmission */
	uint16_t echo_tx;             /* highest of our transmissions that arrived there */
	uint16_t echo_rx;             /* highest of its transmissions that arrived here */
	uint8_t state;                /* enum rel_state */
	uint8_t probes;               /* sent since the last progress; HELLO and BYE: repetitions */
	uint8_t q_seg;                /* next segment of q_head */
	uint8_t pins;                 /* uses on the stack: not freed before 0 */
	bool is_ready;
	bool owes_ack, ack_now;       /* now: with the next flush, else at ack_due_ns */
	uint8_t acks_alone;           /* acknowledgements since our last DATA */
	bool has_naks;                /* refusals have come since our last ACK */
	bool has_echo_rx, has_echo_tx; /* echo_rx, echo_tx mean something */
	bool has_crc, has_heard;
	bool is_sure;                 /* OPEN: the other side has the pair, too */
	bool is_proved;               /* OPEN: so its HELLO says, which may be a late copy; nothing else has come */
	bool is_half;                 /* a guest that has sent nothing but HELLO; RAW: and the owner does not know it */
	bool is_guest;                /* came by itself */
	uint8_t asks;                 /* since asked_ns */
};

/* A datagram being gathered; pieces point into r->stage or the owner's memory. */
struct rel_out {
	struct iovec iov[REL_IOV_CNT];
	int iov_cnt;
	uint32_t len;
	struct rel_base *base; /* in r->stage, written last */
	bool must_copy;        /* somebody here reads it before the system does, and has no guard */
};

struct rel {
	struct link_port *port;
	struct carrier *net;
	struct slab frames, peers, asms, naks;
	uint32_t frame_cnt;       /* owner's frames that have not ended, all peers; */
	uint32_t own_cnt;         /* of them, is_own */
	struct rel_frame *begun;  /* by rel_begin() */
	struct rel_peer **tab;    /* hash by address */
	uint32_t tab_mask, peer_cnt;
	struct keyed hash_key;
	struct rel_peer *found;   /* last one of find_pair(): datagrams come in trains */
	TAILQ_HEAD(, rel_peer) strangers; /* is_half, oldest first */
	uint32_t half_cnt;
	uint32_t met;             /* see rel_met() */
	struct keyed cookie[2];   /* our halves are made with the first, and with the second were before */
	uint64_t cookie_ns;       /* since when; 0 = there are none */
	struct pq timers;
	struct rel_peer *ready, **ready_end; /* peers that the next flush must look at */
	uint64_t retry_ns;        /* when to try again what is ready; 0 = now */
	uint32_t serial;          /* of the last HELLO */
	uint32_t rx_epoch, rx_active, rx_active_prev; /* senders in this and the last epoch */
	uint64_t answer_ms;       /* rate limit of answers to strangers: the millisecond, */
	uint32_t answer_cnt[REL_A_NUM]; /* and answers in it */
	uint32_t stash_recs;      /* records in all stashes: each may become a refusal */
	struct quota_tab sources; /* of struct rel_source */
	struct quota_book quota;
	uint32_t raw_id;
	struct rel_peer *raw_to;  /* RAW: whose datagram is open in @raw; NULL: none is */
	struct rel_out raw;
	uint32_t raw_seq, raw_mtu;
	uint64_t sent_ns;         /* last DATA, to anybody */
	uint32_t fresh_bytes;     /* taken since the last flush */
	bool has_urgent;          /* and some of it has nothing in flight before it */
	uint64_t linger_ns;       /* RAW: what lies in the stage may stay so long; 0 = it may not */
	bool draining, in_flush, flush_again, wants_crc;
	bool must_copy;           /* what carries its datagrams reads them, without a guard for memory that has gone */
	bool class_said;          /* a foreign class has been logged */
	uint8_t *stage;           /* [REL_STAGE_LEN], @stage_at used since the last flush */
	uint32_t stage_at;
};

/*
 * With copies under way: for how long what comes in at @now_ns may have lain in the socket, because the program
 * computed and nobody looked there; 0 where looks follow each other, or who looks has slept until something came.
 */
static inline uint64_t rel_away_ns(const struct rel *r, uint64_t now_ns)
{
	uint64_t at = r->port->looked_ns, away = at ? now_ns - MIN(now_ns, at) : 0;

	return away >= REL_AWAY_NS ? away : 0;
}

/* --- rel_timer.c --- */

/** rel_timer_update() - Recompute when @rp needs the next look. */
void rel_timer_update(struct rel_peer *rp, uint64_t now_ns);
void rel_timers_run(struct rel *r, uint64_t now_ns);

/* --- rel_peer.c: peers --- */

/** rel_peer_find() - The peer at @addr whose port has @nonce, or whose nonce its link_addr leaves open. */
struct rel_peer *rel_peer_find(struct rel *r, const struct link_addr *addr, uint32_t nonce);
/** rel_peer_first() - Any peer at ip and port of @addr; the others follow by rel_peer_next(). */
struct rel_peer *rel_peer_first(struct rel *r, const struct link_addr *addr);
struct rel_peer *rel_peer_next(struct rel_peer *rp);
struct rel_peer *rel_peer_new(struct rel *r, struct link_peer *peer);
/**
 * rel_peer_arrived() - A new peer, half-open, for something that came from @addr. NULL: no memory, or there are too
 * many (counted).
 */
struct rel_peer *rel_peer_arrived(struct rel *r, const struct link_addr *addr, uint64_t now_ns);
/** rel_peer_kill() - The peer is gone: everything of it ends with @status. May free @rp unless it is pinned. */
void rel_peer_kill(struct rel_peer *rp, int status);
/** rel_peer_refused() - Nobody is there for @rp: it is killed, or has ended if it was saying goodbye. */
void rel_peer_refused(struct rel_peer *rp, int status);
/** rel_strangers_expire() - Who has sent nothing but HELLO for too long is forgotten. */
void rel_strangers_expire(struct rel *r, uint64_t now_ns);
/** rel_peer_fail() - All frames end with @status, windows are emptied; the peer stays. */
void rel_peer_fail(struct rel_peer *rp, int status);
void rel_peer_pin(struct rel_peer *rp);
/** rel_peer_unpin() - Return: false if the peer was dropped meanwhile; it may be freed by now. */
bool rel_peer_unpin(struct rel_peer *rp);
void rel_set_state(struct rel_peer *rp, enum rel_state to);

/* --- rel_hello.c: handshake, goodbye, refusals --- */

/** rel_hello_again() - HELLO to @rp, whose state says which. */
void rel_hello_again(struct rel_peer *rp, uint64_t now_ns);
void rel_hello_start(struct rel_peer *rp, uint64_t now_ns);
void rel_bye_start(struct rel_peer *rp, uint64_t now_ns);
/** rel_on_hello(), rel_on_hello_ack() - Return: the peer with which a pair was made just now; NULL: none. */
struct rel_peer *rel_on_hello(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt, uint64_t now_ns);
struct rel_peer *rel_on_hello_ack(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt,
				  uint64_t now_ns);
void rel_on_refuse(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt);
void rel_on_bye(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns);
/** rel_refuse() - Tell @src that what @pkt belongs to does not exist here. */
void rel_refuse(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt,
		enum rel_reason why, uint64_t now_ns);

static inline struct rel_slot *rel_slot_at(const struct rel_win *w, uint32_t seq)
{
	return &w->slot[seq & (w->slot_cnt - 1)];
}

/* The longest datagram but for DATA, RAW and NAK. */
#define REL_CTL_MAX ((uint32_t)(sizeof(struct rel_base) + REL_SACK_MORE * sizeof(uint64_t)))

/* Bytes that a datagram in flight takes of credit and window. */
static inline uint32_t rel_slot_cost(const struct rel_slot *s)
{
	return s->len + REL_SKB_COST;
}

/* The window never shrinks below what it takes to notice a loss without waiting for a probe. */
static inline uint32_t rel_cwnd_min(const struct rel_peer *rp)
{
	return MAX(REL_CWND_MIN, (REL_REORDER + 2) * (rp->mtu + REL_SKB_COST));
}

/** rel_ready() - The next flush must look at @rp. */
static inline void rel_ready(struct rel_peer *rp)
{
	if (rp->is_ready)
		return;
	rp->is_ready = true;
	rp->ready_next = NULL;
	*rp->r->ready_end = rp;
	rp->r->ready_end = &rp->ready_next;
}

/** rel_busy() - Something of ours at the peer has not ended. */
static inline bool rel_busy(const struct rel_peer *rp)
{
	return rp->frame_cnt || rp->nak_head || rp->tx_una != rp->tx_seq;
}

/** rel_half_end() - @rp is more than a stranger from now on. */
static inline void rel_half_end(struct rel_peer *rp)
{
	if (!rp->is_half)
		return;
	rp->is_half = false;
	TAILQ_REMOVE(&rp->r->strangers, rp, stranger);
	rp->r->half_cnt--;
}

/**
 * rel_hello_max_ns() - How far apart what is sent to a peer that may not know us gets by repetition. Where a flood
 * loses most of it a port of few peers tries often; all of up to a hundred peers together once a millisecond at most.
 */
static inline uint64_t rel_hello_max_ns(const struct rel *r)
{
	return MIN(MAX(r->peer_cnt * NS_PER_MS, REL_HELLO_MAX_NS), REL_PTO_MAX_NS);
}

/* --- rel_quota.c --- */

void rel_quota_init(struct rel *r);
/** rel_source_find() - Those behind @ip; NULL: there are none. */
struct rel_source *rel_source_find(struct rel *r, const uint8_t ip[16]);
/** rel_source_get() - @rp is one of those behind @ip, until quota_leave(). Return: false: no memory. */
bool rel_source_get(struct rel_peer *rp, const uint8_t ip[16]);
static inline struct rel_source *rel_source_of(const struct rel_peer *rp)
{
	return container_of(rp->quota.source, struct rel_source, quota);
}
/** rel_quota_has() - May @n more be kept for @rp? */
static inline bool rel_quota_has(const struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	return quota_has(&rp->r->quota, &rp->quota, q, n);
}
/** rel_quota_add() - @n more are kept for @rp: rel_quota_has() said so, or they were given back for just this. */
static inline void rel_quota_add(struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	quota_add(&rp->r->quota, &rp->quota, q, n);
}
static inline void rel_quota_put(struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	quota_put(&rp->r->quota, &rp->quota, q, n);
}

/* --- rel_tx.c: frames out --- */

/** rel_tx_flush() - What was lost and what is new, as far as it may be sent. Return: false: the carrier has no room. */
bool rel_tx_flush(struct rel_peer *rp, uint64_t now_ns);
/** rel_frame_end() - Tell the owner, once. */
void rel_frame_end(struct rel_peer *rp, struct rel_frame *f, int status);
/** rel_frames_end() - The same of all of @list, which are free then. May call back: @rp is pinned. */
void rel_frames_end(struct rel_peer *rp, struct rel_frame *list, int status);
/** rel_probe() - Nothing was acknowledged for long: ask, without records, what has arrived. */
void rel_probe(struct rel_peer *rp, uint64_t now_ns);
/** rel_slot_arrived() - The datagram of @s has arrived there: its frames' memory is never read again. */
void rel_slot_arrived(struct rel_peer *rp, struct rel_slot *s);
/** rel_slot_lost() - Send @s, which is in flight, again. */
void rel_slot_lost(struct rel_peer *rp, struct rel_slot *s);
/** rel_tx_reset() - Forget slots and queues; their frames are appended to *@done. */
void rel_tx_reset(struct rel_peer *rp, struct rel_frame **done);

/* --- rel_out.c: datagrams out --- */

/** rel_control() - Send a datagram of @type without records. Loss is silent. */
void rel_control(struct rel_peer *rp, enum rel_type type, uint64_t now_ns);
/** rel_ask() - ACK of the base header alone: who lives there and knows of no such pair refuses it. */
void rel_ask(struct rel_peer *rp, uint64_t now_ns);
/** rel_ask_data() - The same as DATA, which who lives acknowledges. @is_short: no longer than a newcomer's question. */
void rel_ask_data(struct rel_peer *rp, bool is_short, uint64_t now_ns);
/** rel_dst() - Where @len bytes for @rp go: what is longer than its path takes whole may be cut up. */
struct link_addr rel_dst(const struct rel_peer *rp, uint32_t len);
/** rel_emit() - Send host-form @pkt with its fixed part to @dst. Return: 0; -EAGAIN. */
int rel_emit(struct rel *r, const struct link_addr *dst, const struct rel_pkt *pkt);
/** rel_data_send() - DATA @seq, which @s has, as transmission @tx. Return: 0; -EAGAIN. */
int rel_data_send(struct rel_peer *rp, const struct rel_slot *s, uint32_t seq, uint16_t tx, uint64_t now_ns);
/** rel_send_naks() - @cnt refusals, the first of which has number @first. Return: 0; -EAGAIN. */
int rel_send_naks(struct rel_peer *rp, uint32_t first, const struct rel_nak *nak, uint32_t cnt, uint64_t now_ns);
/** rel_mtu_look() - How long datagrams to @rp may be now. */
void rel_mtu_look(struct rel_peer *rp, uint64_t now_ns);
/**
 * rel_raw_send() - @f by copy unless the port borrows; small ones share datagrams until rel_carrier_flush(). Return: 0;
 * -EAGAIN.
 */
int rel_raw_send(struct rel_peer *rp, struct rel_frame *f);
/** rel_raw_close() - Hand the open datagram over. Return: 0, also if there is none; -EAGAIN it is still open. */
int rel_raw_close(struct rel *r);

/* --- rel_ack.c: acknowledgements --- */

/** rel_on_ack() - Acknowledgements in @pkt. Return: false if they make no sense. May call back. */
bool rel_on_ack(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns);
/** rel_find_lost() - Send again what later transmissions have overtaken. */
void rel_find_lost(struct rel_peer *rp, uint64_t now_ns);
/** rel_pto_ns() - How long nothing may be acknowledged before the next probe. */
uint64_t rel_pto_ns(const struct rel_peer *rp);

/* --- rel_nak.c: refusals --- */

/** rel_nak_owe() - @frame, which DATA @seq completed, is refused with @code; room for it has been reserved. */
void rel_nak_owe(struct rel_peer *rp, uint32_t seq, uint32_t frame, int code);
/** rel_nak_flush() - Send what is owed. Return: false if the carrier has no room. */
bool rel_nak_flush(struct rel_peer *rp, uint64_t now_ns);
/** rel_nak_due_ns() - When refusals go again; CLK_NEVER: none is on its way. */
uint64_t rel_nak_due_ns(const struct rel_peer *rp);
void rel_nak_timer(struct rel_peer *rp, uint64_t now_ns);
/** rel_nak_confirmed() - The peer has taken all refusals below @next. */
void rel_nak_confirmed(struct rel_peer *rp, uint32_t next, uint64_t now_ns);
/** rel_nak_reset() - Forget what is owed. */
void rel_nak_reset(struct rel_peer *rp);
/** rel_on_naks() - Refusals of our frames. May call back. */
void rel_on_naks(struct rel_peer *rp, const struct rel_pkt *pkt);

/* --- rel_win.c: what has arrived --- */

/** rel_win_get() - A window for @rp, if it has none. Return: 0; -ENOMEM. */
int rel_win_get(struct rel_peer *rp);
void rel_win_free(struct rel_peer *rp);
/** rel_is_seen() - Has DATA @seq, which is inside the window, arrived? */
bool rel_is_seen(const struct rel_win *w, uint32_t seq);
/** rel_seen_flip() - It has, or is final. */
void rel_seen_flip(struct rel_win *w, uint32_t seq);
/** rel_ack_fill() - Acknowledgement fields of @pkt. */
void rel_ack_fill(struct rel_peer *rp, struct rel_pkt *pkt, uint64_t now_ns);
/** rel_ack_owe() - An acknowledgement, @now or when it is due. */
void rel_ack_owe(struct rel_peer *rp, bool now, uint64_t now_ns);
/** rel_rx_advance() - Everything below the first gap, hold or unprocessed DATA is final. */
void rel_rx_advance(struct rel_peer *rp);
/** rel_unhold() - A reason why DATA @seq was not final is gone. */
void rel_unhold(struct rel_peer *rp, uint32_t seq);
/** rel_asm_put() - Give back what an assembly took. */
static inline void rel_asm_put(struct rel_peer *rp, struct rel_asm *a)
{
	rel_quota_put(rp, REL_Q_ASM, 1);
	slab_put(&rp->r->asms, a);
}

/* --- rel_rx.c: frames in --- */

void rel_on_data(struct rel_peer *rp, const struct rel_pkt *pkt, size_t len, uint64_t now_ns);
/** rel_on_raw() - The frames in @pkt, of @rp. May call back. */
void rel_on_raw(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns);
void rel_rx_reset(struct rel_peer *rp);
bool rel_rx_idle(const struct rel_peer *rp);
/**
 * rel_rx_old_ns() - Since when the oldest unfinished frame or early datagram has waited, or before; CLK_NEVER: none.
 * @exact: not before.
 */
uint64_t rel_rx_old_ns(struct rel_peer *rp, bool exact);
void rel_raw_expire(struct rel_peer *rp, uint64_t now_ns);

#endif
