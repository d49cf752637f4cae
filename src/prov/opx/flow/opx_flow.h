// SPDX-License-Identifier: BSD-2-Clause
// Reliability between two contexts: handshake, PSNs, ACK, NACK, PING, replay, window, and finding out that a peer is
// gone.
#ifndef SF_PROV_OPX_OPX_FLOW_H
#define SF_PROV_OPX_OPX_FLOW_H

#include <bsd/sys/queue.h>

#include "base/copy.h"
#include "base/slab.h"
#include "nic/hfi/hfi.h"
#include "prov/opx/opx_proto.h"

/*
 * Theory of operation. Source: doc/facts/opx.md#reliability.
 *
 * A *flow* is what one context knows of one peer context: a stream of packets to it (tx) and one from it (rx), each
 * numbered by a 24-bit PSN from 0. All packets but UD ones are part of the stream and are delivered once and in PSN
 * order.
 *
 * Handshake. The sender's INIT names its flow's incarnation (epoch) and the stream (cookie), both random; the receiver
 * answers INIT_ACK with its own epoch, the cookie, and a random 64-bit key, which every later packet of that stream
 * carries in hdr->key, in both directions (data and PING forth; ACK and NACK back). Equal epoch and cookie: equal key,
 * nothing is reset. Otherwise: a new key, and the state of the old stream goes when the first packet with the new key
 * comes, not before, so that a forged INIT changes nothing. A packet with a key that is not current is dropped and
 * counted; to data and PING with an unknown key the answer is RESYNCH with that key: the receiver is not who the sender
 * talked to, and the sender's flow ends (REPLACED).
 *
 * One handshake opens both directions: INIT also offers a key for the stream back. The receiver takes it when the first
 * packet with its own key comes (which shows who sent the INIT), so that it can answer that very packet, whether or not
 * anybody calls for progress there ever again. Where two INITs cross, each end uses the one key that it may use first,
 * that of an INIT_ACK or the offered one, and the other key is forgotten.
 *
 * On one host nobody waits for an answer. What goes through shared memory comes in order and whole, so what follows an
 * INIT comes behind it; and whether it will be let in is known beforehand (hfi_dst_admits()). There INIT says that its
 * cookie is the key, and the stream begins with the next packet, whatever the receiver does meanwhile: computes,
 * sleeps, sends us its own INIT, or is stopped. INIT_ACK still tells whose flow of which epoch that is. The receiver
 * believes such an INIT from this host only: nobody of another user can send it packets with such a source. One of the
 * same user can (in the shared lane the source is what the sender says), who could as well write to the memory of
 * either. It offers no key: the way back is as quickly opened.
 *
 * A flow ends as a whole, both streams, and has a new epoch afterwards: a peer that sees another epoch than it knew
 * ends its flow, too, so that both ends always speak of the same incarnations. It keeps its own epoch then (and
 * wherever the peer has already announced itself anew), for that is what the peer has just been told.
 *
 * Two kinds, fixed at the handshake by hfi_dst_is_local(): *lossless* (same host): nothing is kept for replay and PINGs
 * ask only for life; at most OPX_WINDOW_LOCAL packets are unacknowledged, which bounds what waits at a computing
 * receiver, who acknowledges every quarter of it. *lossy* (network): each packet is kept (copied, or a reference to
 * memory that stays) until an ACK retires it; congestion window between OPX_CWND_MIN and the documented 7,340,032
 * bytes, halved when a third of the packets are lost, grown by ACKs; the packet that fills half of the window asks for
 * an ACK. Where a message ends one is asked for as well; if no operation waits for it and the window is nearly empty it
 * may ride in the datagram of what the receiver sends next, which saves a ping-pong a datagram, half a message's time.
 *
 * A NACK says which PING it answers, and only what was sent before that PING is sent again: nothing is repeated while
 * its repetition may still be on its way. A NACK of a gap just seen answers none and counts only for what was sent
 * once. Repetitions are followed by a PING at once if none is unanswered: one that is lost again is missed after a
 * round trip. Who asks, by a PING or by a packet, and hears nothing for longer than round trips have taken so far
 * (opx_flow_pace.c) asks by a PING. All other PINGs are sent by the timer: what asks for nothing waits for it.
 *
 * Timers run in opx_rel_progress() only, that is, when somebody calls for progress, as in the real provider. Flows end
 * there too (and when the first packet of a new stream replaces an old one), never inside a call that posts. A flow
 * between the cause of its end and its dead() refuses posts with an error. While nobody calls, opx_rel_service() takes
 * UD packets all the same: they are answered, what an ACK makes room for or a NACK asks for is sent, and a peer that
 * only asks for life, because it waits for something, is asked what it lacks.
 */

enum opx_ud {
	OPX_UD_PING = 1, OPX_UD_ACK, OPX_UD_NACK, OPX_UD_INIT, OPX_UD_INIT_ACK, OPX_UD_RESYNCH, OPX_UD_BYE = 9,
	OPX_UD_NUM
};
/*
 *  UD       key          w[0]                     w[1]    tag             imm
 *  INIT     key offered  epoch                    cookie  own address     0        key 0: none offered
 *  INIT     peer's epoch epoch                    cookie  own address     1        cookie: the key; 0: epoch not known
 *  INIT_ACK cookie       epoch of the answerer    issued  own address     0
 *  PING     tx key       first PSN | count << 32  0       0               number   count 0: only asks for life
 *  ACK      rx key       first PSN | count << 32  0       0               of PING  count 0: "I am here"
 *  NACK     rx key       first PSN | count << 32  0       0               of PING, 0: a gap just seen
 *  RESYNCH  key refused  0                        0       0               0
 *  BYE      tx or rx key next PSN                 0       0               0        closes; all is acknowledged or lost
 */

#define OPX_ACK_REQ        0x01u      /* hdr->ecn: acknowledge at once */
/* with OPX_ACK_REQ: or with what is sent next, if that is soon; alone it means nothing */
#define OPX_ACK_LATE       0x02u
#define OPX_WINDOW_LOCAL   1024u      /* packets */
#define OPX_WINDOW_BYTES   7340032u   /* FI_OPX: most unacknowledged bytes of a lossy flow, headers included */
#define OPX_CWND_MIN       131072u    /* bytes: 16 packets */
#define OPX_CWND_FIRST     524288u
#define OPX_REPLAY_COPIES  2048u      /* payload replays of an endpoint */
#define OPX_REPLAY_REFS    8192u      /* iov replays */
/* packets of one flow that may wait for a missing one */
#define OPX_RX_AHEAD       (OPX_REPLAY_COPIES + OPX_REPLAY_REFS)
#define OPX_RX_KEPT        (2 * OPX_RX_AHEAD) /* of all flows together: each at most as many as it leaves to others */
#define OPX_NACK_MAX       32u        /* packets that one NACK names */

struct opx_flow;
struct opx_op;

/* What the reliability asks of its endpoint; all under the lock. All of them may post; none may free a flow. */
struct opx_rel_ops {
	/*
	 * A packet of the stream, in order, once, that opx_pkt_check() has passed. @data is borrowed; of an
	 * HFI_RCV_EXPECTED one that place() has written, only @data->len may be used.
	 */
	void (*deliver)(struct opx_flow *f, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type);
	/*
	 * An expected packet that is no duplicate is about to be counted: write its payload. Return: false: treat it as
	 * lost, it will come again; so true where it has no place any more and never will. May be NULL.
	 */
	bool (*place)(void *ctx, struct opx_flow *f, const struct hfi_pkt *pkt);
	/* Packets that refer to memory of @op have been retired: @cnt of them. */
	void (*retired)(void *ctx, struct opx_op *op, uint32_t cnt);
	/* The flow may take packets again after a call for it has returned -FI_EAGAIN. */
	void (*room)(void *ctx, struct opx_flow *f);
	/*
	 * The flow has ended: enum opx_status (PEER_GONE, PEER_SILENT, PEER_REPLACED, NET_DOWN, UNREACH). It is as new:
	 * the next post begins with a handshake. Its packets that refer to memory are retired behind this, so that
	 * whoever waits for them knows that nobody has acknowledged them.
	 */
	void (*dead)(void *ctx, struct opx_flow *f, enum opx_status why);
	/* A packet from a context that has no flow yet: make one. NULL: no memory, drop it. */
	struct opx_flow *(*stranger)(void *ctx, struct hfi_dst *dst);
};

/* Of one endpoint context. */
struct opx_rel_attr {
	struct hfi *hfi;
	struct hfi_ctxt *hw;
	const struct opx_rel_ops *ops;
	void *ctx;
	uint64_t own_addr;        /* the endpoint's 8 bytes, told to peers */
	uint32_t usec_max;        /* FI_OPX_RELIABILITY_SERVICE_USEC_MAX */
	uint32_t pre_ack_rate;    /* FI_OPX_RELIABILITY_SERVICE_PRE_ACK_RATE: 0 or a power of two */
};
struct opx_rel; /* opx_flow.c */
int opx_rel_open(const struct opx_rel_attr *attr, struct opx_rel **out);
/** opx_rel_drained() - Is nothing of any flow unacknowledged or unsent? */
bool opx_rel_drained(const struct opx_rel *rel);
/**
 * opx_rel_close() - Says BYE on every flow; frees what is left without callbacks. Flows must not be used afterwards.
 */
void opx_rel_close(struct opx_rel *rel);
/**
 * opx_rel_rx() - on_pkt of the context: the door of reliability. opx_rel_service() - on_service, which takes UD packets
 * alone.
 */
void opx_rel_rx(struct opx_rel *rel, const struct hfi_pkt *pkt);
bool opx_rel_service(struct opx_rel *rel, const struct hfi_pkt *pkt);
/** opx_rel_gone() - on_gone of the context. */
void opx_rel_gone(void *rel, struct hfi_dst *dst, int status);
/**
 * opx_rel_progress() - Send what waits, PING, ACK what is owed, notice the dead. Cheap when nothing is due. Return:
 * events.
 */
int opx_rel_progress(struct opx_rel *rel);
/** opx_rel_is_running() - Has somebody let go of the lock in the middle of that? */
bool opx_rel_is_running(const struct opx_rel *rel);
uint64_t opx_rel_next_ns(const struct opx_rel *rel); /* when it must run again; CLK_NEVER */

struct opx_rel_stats {
	uint64_t tx_pkts, rx_pkts, replays, pings_tx, pings_rx, acks_tx, acks_rx, nacks_tx, nacks_rx, dups, ahead,
		ahead_drops;
	uint64_t full_drops, unkept, bad_key, inits_tx, inits_rx, resynchs_tx, resynchs_rx, throttled, peers_dead,
		malformed;
	uint64_t peers_closed; /* they said BYE, as at the end of each job; peers_dead are the others */
};
const struct opx_rel_stats *opx_rel_stats(const struct opx_rel *rel);

/* One kept packet; opx_flow.c knows its inside. */
struct opx_replay;
STAILQ_HEAD(opx_replay_q, opx_replay);

/* Embedded in the endpoint's peer; private but for the first members. */
struct opx_flow {
	struct opx_rel *rel;
	struct hfi_dst *dst;         /* one reference */
	uint64_t peer_addr;          /* its 8 bytes, from the handshake; 0: not known yet */
	struct hfi_hdr hdr;          /* template from hfi_dst_hdr() with the key */
	/* what every packet looks at */
	uint64_t rx_key;             /* 0: no stream */
	uint32_t rx_psn;             /* next expected; OPX_PSN_NONE: no stream */
	uint32_t rx_next;            /* rx_psn, or NONE if more is to be done than deliver: opx_flow_rx_look() */
	uint32_t ahead_cnt;          /* packets in ahead */
	uint32_t ack_mask;           /* acknowledge when rx_psn has none of these bits */
	uint32_t tx_psn;             /* next to assign, 24 bits */
	uint32_t tx_una;             /* oldest not acknowledged */
	uint32_t pass;               /* packets that may leave at once on this host: opx_flow_look() */
	bool heard;                  /* since heard_ns */
	bool is_full;                /* opx_flow_full() */
	/* tx */
	bool is_local, wants_room, is_listed;
	bool is_keyed;               /* our INIT's cookie is the key: it opens the stream when it leaves */
	bool owes_init_ack;          /* to such an INIT, which is sent once */
	bool is_armed;               /* ping_ns holds */
	uint8_t state;               /* enum opx_flow_state */
	uint8_t doom;                /* enum opx_status: it ends at the next progress; 0 */
	bool said_bye;               /* and that is because the peer closes */
	uint64_t tx_key;
	/* rx */
	uint64_t rx_cookie;
	/* of the stream that is announced, and not begun yet; key 0: none */
	uint64_t rx_key_next, rx_cookie_next, epoch_next, addr_next;
	uint64_t tx_key_next;        /* that its sender offers for ours; 0: none */
	uint64_t rx_key_offer;       /* that our INIT offers for the stream in; 0: none, or not to be used any more */
	bool owes_ack;
	uint32_t overrun;            /* packets taken while is_full */
	bool rx_wrapped;             /* more than 2^24 packets have come */
	/* lossy; a local flow has only packets in its queue that found no room */
	struct opx_replay_q queue;   /* in PSN order; those from unsent on have not been sent */
	struct opx_replay *unsent;
	uint32_t bytes_out, cwnd, ssthresh;
	uint32_t recover;            /* losses before this PSN have halved the window already */
	uint32_t seen_cnt, lost_cnt; /* of the last packets of which it is known, how many were lost */
	uint32_t resends;            /* replays that wait to be sent again */
	uint32_t serial;             /* of the last PING */
	uint32_t again;              /* unacknowledged packets that were sent more than once */
	bool is_answered;            /* the last PING has been answered */
	bool asks;                   /* a PING at the next progress */
	uint8_t hurries;             /* such PINGs, and those out of impatience, since something was acknowledged */
	struct opx_replay_q ahead;   /* received before their turn, in PSN order */
	struct opx_replay_q held;    /* of the next stream, which cannot begin yet, as they came */
	/* the question whose answer is awaited */
	bool ask_is_timed;           /* ask_ns is when it left */
	uint32_t ask_psn;            /* the packet that asks; OPX_PSN_NONE: a PING */
	uint32_t ask_last;           /* the last packet that did; OPX_PSN_NONE: there was none */
	uint32_t srtt_ns, rttvar_ns; /* round trips; 0: not known yet */
	uint64_t ask_ns;             /* 0: there is none */
	/* timers */
	uint32_t waits;              /* opx_flow_wait() */
	uint32_t fruitless;          /* PINGs since something was acknowledged */
	uint32_t ping_una;           /* tx_una at the last one */
	uint64_t cookie;             /* of the stream out */
	uint64_t epoch, peer_epoch;  /* 0: none yet, not known yet */
	uint64_t heard_ns, ping_ns, ran_ns;
	LIST_ENTRY(opx_flow) active; /* rel's list of flows with something to watch */
	LIST_ENTRY(opx_flow) all;
};
#define OPX_PSN_NONE UINT32_MAX
enum opx_flow_state { OPX_FLOW_NEW, OPX_FLOW_INIT, OPX_FLOW_OPEN };

/** opx_flow_init() - Takes a reference to @dst, whose user pointer becomes @f. Sends nothing. */
void opx_flow_init(struct opx_flow *f, struct opx_rel *rel, struct hfi_dst *dst);
/** opx_flow_fini() - Forget it; packets that refer to operations are dropped without callbacks. Not from a callback. */
void opx_flow_fini(struct opx_flow *f);

enum {
	OPX_POST_CONTROL = 1, /* ours, cannot be refused: queued if it cannot go now (memory aside) */
	OPX_POST_REF = 2,     /* payload stays unchanged until ops->retired(@op); else it is copied or sent at once */
	OPX_POST_ACK = 4,     /* ask for an acknowledgement */
};
/**
 * opx_flow_hdr() - Begin a packet: the flow's template with @opcode, @aux, @imm. The tag and the words are not touched.
 */
static inline void opx_flow_hdr(const struct opx_flow *f, struct hfi_hdr *h, uint8_t opcode, uint8_t aux, uint32_t imm)
{
	memcpy(h, &f->hdr, offsetof(struct hfi_hdr, tag));
	h->opcode = opcode;
	h->aux = aux;
	h->imm = le32_put(imm);
}
/**
 * opx_flow_begin() - Room for the next packet of the stream, with @len bytes of payload behind @head of its header,
 * where it will stay: its receiver's memory on this host, else our record of it. Its PSN will be f->tx_psn.
 * @head, @len: as for hfi_pio_begin().
 * Return: to be filled in by opx_flow_payload() and opx_flow_hdr(), and given off by opx_flow_commit() before anything
 * else is done with the endpoint. NULL, then @rc is: -FI_EAGAIN handshake not done, window or pool full, no credits
 * (room() will tell); -FI_ECONNREFUSED, -FI_EHOSTUNREACH, -FI_ENETUNREACH nobody there; -FI_ENOMEM (CONTROL).
 */
struct hfi_hdr *opx_flow_begin(struct opx_flow *f, uint32_t head, uint32_t len, unsigned flags, int *rc);
/**
 * opx_flow_payload() - The bytes behind the header @h, of @head bytes, which is written after them: its receiver
 * watches the line in which it begins, and takes that away from who writes to it too early (put_frame() in
 * link/shm/shm.c has the figures).
 */
static inline void opx_flow_payload(struct hfi_hdr *h, uint32_t head, const struct iovec *iov, size_t iov_cnt)
{
	uint8_t *at = (uint8_t *)h + head;

	for (size_t i = 0; i < iov_cnt; i++) {
		copy_private(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	atomic_signal_fence(memory_order_seq_cst);
}
/**
 * opx_flow_commit() - It is complete but for the PSN. @head, @len, @flags: of opx_flow_begin(). Return: as there, 0 if
 * it is; -FI_ENETDOWN the port is down (CONTROL waits for it). Nothing is sent unless it is 0.
 */
int opx_flow_commit(struct opx_flow *f, struct hfi_hdr *h, uint32_t head, uint32_t len, unsigned flags);
/**
 * opx_flow_pass_begin(), opx_flow_pass_commit() - The same of a packet that may leave at once for a process on this
 * host, and asks for no answer. NULL: not so, opx_flow_begin() knows more; nothing has happened.
 */
struct hfi_hdr *opx_flow_pass_begin(struct opx_flow *f, uint32_t head, uint32_t len);
void opx_flow_pass_commit(struct opx_flow *f, struct hfi_hdr *h, uint32_t head, uint32_t len);
/**
 * opx_flow_post() - One packet whose parts lie elsewhere: @h from opx_flow_hdr(), payload @iov. All of the above.
 * @op: with POST_REF the operation that retired() names; *@refs is increased by one if a replay refers to its memory.
 * Return: as they; -FI_EMSGSIZE.
 */
int opx_flow_post(struct opx_flow *f, struct hfi_hdr *h, const struct iovec *iov, int iov_cnt, unsigned flags,
		  struct opx_op *op, uint32_t *refs);
/**
 * opx_flow_room() - Packets of HFI_MTU bytes that the flow would take now; 0 starts the handshake if there was none.
 */
uint32_t opx_flow_room(struct opx_flow *f);
/**
 * opx_flow_post_sdma() - @req->npkts packets of the stream by one SDMA request (lossy flows only), kept for replay by
 * reference to @op's memory.
 * @req: dst, PSN, key, last_ecn and comp_idx are set here. @flags: OPX_POST_ACK, and OPX_POST_REF if @op ends with it.
 *       As opx_flow_post() with POST_REF; -FI_EAGAIN also when the ring is full.
 */
int opx_flow_post_sdma(struct opx_flow *f, struct hfi_sdma_req *req, unsigned flags, struct opx_op *op, uint32_t *refs);
/** opx_flow_wait() - @delta +1/-1: an operation waits for something of this peer: its death must be noticed. */
void opx_flow_wait(struct opx_flow *f, int delta);
/**
 * opx_flow_full() - Take no more of @f's stream for now: what comes between hosts counts as lost, what comes on this
 * host, where nobody sends anything again, is taken and not acknowledged, so that its sender's window fills. Who sends
 * beyond that does not keep to the protocol: its flow ends.
 */
void opx_flow_full(struct opx_flow *f, bool is_full);
/**
 * opx_flow_unkept() - From deliver(), at its end: there was no memory for that packet, which has not come then. Between
 * hosts it comes again; on this host nobody has a copy, and the sender's flow ends (UNKEPT).
 */
void opx_flow_unkept(struct opx_flow *f);
/** opx_flow_open() - Start or go on with the handshake. Return: 0 it is done; -FI_EAGAIN; else as opx_flow_post(). */
int opx_flow_open(struct opx_flow *f);
/**
 * opx_flow_doom() - It ends at the next progress; the first reason counts. Also the answer to a peer that waits for
 * what cannot be had any more: its next question, within an eighth of dead_after if it waits, is answered with RESYNCH,
 * and all that it waits for ends.
 */
void opx_flow_doom(struct opx_flow *f, enum opx_status why);

#endif
