// SPDX-License-Identifier: BSD-2-Clause
// What the files of cassini/ share: adapter, LNI, Domain, peer, initiator's operation, event queue, counting event.
// What only the target's side has is in cassini_tgt.h.
#ifndef SF_NIC_CASSINI_CASSINI_INT_H
#define SF_NIC_CASSINI_CASSINI_INT_H

#include <bsd/sys/queue.h>
#include <errno.h>

#include "base/copy.h"
#include "base/matchtab.h"
#include "base/pqueue.h"
#include "base/slab.h"
#include "link/hostpart.h"
#include "link/link.h"
#include "nic/cassini/cassini.h"
#include "nic/cassini/cassini_wire.h"

/*
 * Theory of operation
 *
 * A Domain is one link port of class ORDERED. A command is one frame; the link's verdict is its acknowledgement. What a
 * verdict cannot carry comes back as a REPLY packet that names the initiator's operation by its slab handle. Payloads
 * above CASSINI_FRAME_DATA never travel in frames: the target issues a link_bulk() from (Put) or into (Get) the
 * initiator's memory, which is a region for just as long as the operation lives. So nothing of the target's memory is
 * ever exposed to the link, and all rights are checked by list entries in one place, cassini_tgt.c.
 *
 * File by file (each frame's life out and in can be read in this order):
 *   cassini_cmdq.c   commands in: checks, queues, fences, ordering holds
 *   cassini_ini.c    an operation's life: frame, verdict, reply, event
 *   cassini_lost.c   what no operation remembers, when it comes back
 *   cassini_wire.c   formats and door
 *   cassini_dom.c    Domain, port, peers, dispatch of frames
 *   cassini_tgt.c    a packet's life at the target
 *   cassini_match.c  the four lists and their rules, nothing else
 *   cassini_copy.c   events, answers, bulk copies, rendezvous
 *   cassini_answer.c answers: made, sent, kept while the path is full
 *   cassini_drops.c  what a disabled entry has refused of whom
 *   cassini_owe.c    what each peer is owed, and how much that may be
 *   cassini_amo.c    arithmetic
 *   cassini_pte.c    PTE objects, states, append, search, unlink
 *   cassini_eq.c     event queues
 *   cassini_ct.c     counting events
 *   cassini_dev.c    room, services, LNI, profiles, resources
 *   cassini_addr.c, cassini_rc.c, cassini_stats.c   addresses; return codes and their names; counters
 */

struct cassini_peer;
struct cassini_op;
struct cassini_copy;

/* Whatever hands a cookie to the link: an initiator's operation, a target's copy or answer. First member of each. */
struct cassini_work {
	void (*on_sent)(struct cassini_work *w, int status); /* end of its frame: as link_ops.on_sent */
	void (*on_bulk)(struct cassini_work *w, int status); /* end of its bulk copy; NULL: it has none */
};

#define CASSINI_PTN_CNT 2048

#define CASSINI_DEV_MAX 8u                /* adapters of a host */

struct cassini {
	struct cassini_devinfo info;
	struct cassini_open_attr open;
	const struct link_room *net;
	struct link_node *node;
	struct hostpart addr;
	LIST_HEAD(, cassini_lni) lnis;
	LIST_HEAD(, cassini_dom) doms;
	uint32_t next_rgid;
	struct cassini_trig *fired, *fired_last; /* triggers whose threshold is reached, in order; see cassini_ct.c */
	bool is_firing;
	bool is_refusal_said;             /* that an address belongs to another host: once */
	bool in_service;                  /* the adapter thread goes through @doms */
	uint64_t wake_ns;                 /* when it is to run its service in any case: cassini_wake() */
	struct cassini_stats stats;       /* everything but the link's counters */
	struct link_stats closed;         /* link counters of Domains that are closed */
	uint64_t ptn_used[CASSINI_PTN_CNT / 64]; /* bit per portal table entry */
};

struct cassini_cp {
	struct cassini_lni *lni;
	uint32_t refs;
	uint16_t vni;
	uint8_t tc, type, lcid;
};

struct cassini_lni {
	struct cassini *nic;
	LIST_ENTRY(cassini_lni) link;
	struct cassini_svc_desc svc;
	uint32_t id;
	uint32_t used[CASSINI_RSRC_NUM];
	LIST_HEAD(, cassini_cmdq) cmdqs;  /* all that are open */
	uint16_t next_cmdq;
	struct cassini_cp cp[CASSINI_LCID_MAX];
	LIST_HEAD(, cassini_pte) waiting; /* PTEs with an unfinished run */
	LIST_HEAD(, cassini_eq) ready;    /* event queues that have events */
};
/**
 * cassini_rsrc_get() - Count one more of @r. 0; -ENOSPC (logged with name and limit; quiet for LE, whose exhaustion is
 * an event).
 */
int cassini_rsrc_get(struct cassini_lni *lni, enum cassini_rsrc r);
void cassini_rsrc_put(struct cassini_lni *lni, enum cassini_rsrc r);

/* --- Domain and peers (cassini_dom.c) --- */

struct cassini_dom {
	struct cassini *nic;
	struct cassini_lni *lni;
	LIST_ENTRY(cassini_dom) link;     /* nic->doms */
	struct link_port *port;
	uint16_t vni, pid;
	uint32_t match_id;                /* as initiator */
	uint64_t put_word;                /* what the header of a plain Put to us begins with, pid_idx 0 */
	bool closing, is_polling;
	struct cassini_pte *pte[CASSINI_PID_IDX_CNT];
	struct slab ops;                  /* struct cassini_op; its ids are the handles on the wire */
	struct mt_unexp rdzv;             /* RENDEZVOUS_PUTs whose Get has not come, by get_bits (exact) */
	LIST_HEAD(, cassini_peer) awaited; /* peers that owe us a REPLY or a Get; pinged when silent */
	uint64_t watch_ns;                /* next look at them */
	LIST_HEAD(, cassini_cmdq) cmdqs;  /* queues with held commands from this Domain, tried again at each poll */
	STAILQ_HEAD(, cassini_ans) unsent; /* answers that found the path full */
	struct slab answers;              /* short ones; the others come from the heap */
	uint32_t answers_out;             /* that the link has or that are unsent */
	struct quota_book owe;            /* to all peers: enum cassini_owe */
	struct slab peers;
	struct cassini_peer **peer_tab;   /* [peer_mask + 1] chains by match id */
	uint32_t peer_mask, peer_cnt;
	uint32_t polls;                   /* wraps */
	uint32_t refused_told;            /* for LOG_FEW(): accesses to regions refused */
	STAILQ_HEAD(, cassini_copy) copies; /* of cassini_tgt.c: bulk copies that found the path full */
};

/* The user pointer of a link_peer: one remote Domain. */
struct cassini_peer {
	struct cassini_dom *dom;
	/* one reference; NULL after cassini_peer_gone(), until the next cassini_peer_get() */
	struct link_peer *link;
	uint32_t life;                    /* counts cassini_peer_gone() */
	uint32_t nic;
	uint16_t pid;
	uint32_t match_id;                /* of both */
	uint64_t put_word;                /* as the Domain's, of a Put to it */
	uint32_t owed;                    /* operations in @waiting */
	struct quota_user owe;            /* what we owe it: cassini_owe.c */
	LIST_ENTRY(cassini_peer) await;   /* dom->awaited while owed > 0 */
	LIST_HEAD(, cassini_op) waiting;  /* accepted, REPLY or Get to come */
	/* bulk Puts to regions whose data is still moving: later writes in frames are held */
	uint32_t ordered;
	STAILQ_HEAD(, cassini_copy) chain; /* the other way round: those of it that we fetch, one after the other */
	bool is_chain_going;
	/* target: bit per lossless index at which its Puts are held back until one comes with AGAIN */
	uint16_t paused;
	uint16_t held;                    /* initiator: the same at the peer, as far as its verdicts have told */
	uint32_t refusals;                /* ... counts them */
	uint64_t resume_ns;               /* ... when to try again */
	/* bit per pid_idx below 32: it has taken a Put of ours, and refused none since; 0 without @link */
	uint32_t took;
	SLIST_HEAD(, cassini_drops) drops; /* of it, refused by disabled PTEs: cassini_drops.c */
	bool ping_out;
	bool has_spoken;                  /* a frame of it came since the last look of the watch */
	uint32_t nonce;                   /* incarnation behind @link, as far as known; 0: not */
	struct cassini_peer *hnext;       /* dom->peer_tab */
};
/**
 * cassini_peer_get() - The peer at (@nic, @pid) of @dom's VNI, made on first use and kept with the Domain. 0; -ENOMEM;
 * -ENETUNREACH.
 */
int cassini_peer_get(struct cassini_dom *dom, uint32_t nic, uint16_t pid, struct cassini_peer **out);
/**
 * cassini_peer_gone() - The link told us that @peer, as it was in its life number @life, is gone (a terminal status).
 * Unless that is known already: the link's handle is dropped, so that the next cassini_peer_get() begins anew with
 * whoever has that address then, and everything in @peer->waiting ends by cassini_ini_lost().
 */
void cassini_peer_gone(struct cassini_peer *peer, uint32_t life);
/** cassini_peer_look() - Does the link still reach the process that it reached? If not, what that owed is lost. */
void cassini_peer_look(struct cassini_peer *peer);
/**
 * cassini_peer_await(), cassini_peer_unawait() - @op waits for more than a verdict; when the peer dies
 * cassini_ini_lost() ends it.
 */
void cassini_peer_await(struct cassini_peer *peer, struct cassini_op *op);
void cassini_peer_unawait(struct cassini_peer *peer, struct cassini_op *op);
/** cassini_send_whole() - link_send() of a frame that lies in one piece, header included, until @cookie comes back. */
static inline int cassini_send_whole(struct cassini_peer *peer, uint8_t *frame, size_t len, void *cookie)
{
	size_t hdr_len = MIN(len, (size_t)LINK_HDR_MAX);
	struct iovec iov = {frame + hdr_len, len - hdr_len};

	return link_send(peer->dom->port, peer->link, frame, hdr_len, &iov, len > hdr_len, cookie);
}
/* NIC addresses for link/hostpart.h. */
extern const struct hostpart_kind cassini_nic_kind;
/** cassini_nic_ip(), cassini_ip_nic() - IP address of a NIC, and the reverse. 0; -ENETUNREACH; -ERANGE. */
int cassini_nic_ip(const struct cassini *nic, uint32_t nic_addr, uint8_t ip[16]);
int cassini_ip_nic(const struct cassini *nic, const uint8_t ip[16], uint32_t *nic_addr);
/** cassini_port_nr() - UDP port of (vni, pid): base + (vni mod 24) x 512 + pid. */
uint16_t cassini_port_nr(uint16_t vni, uint16_t pid);
/**
 * cassini_addr_of(), cassini_addr_who() - Link address (nonce 0) of (NIC, VNI, PID), and the reverse. 0; -ENETUNREACH;
 * -ERANGE.
 */
int cassini_addr_of(const struct cassini *nic, uint32_t nic_addr, uint16_t vni, uint16_t pid, struct link_addr *out);
int cassini_addr_who(const struct cassini *nic, const struct link_addr *addr, uint16_t vni, uint32_t *nic_addr,
		     uint16_t *pid);
/** cassini_dom_deadline() - ns (adapter's clock) at which @dom wants to be polled by its own timers; CLK_NEVER. */
uint64_t cassini_dom_deadline(const struct cassini_dom *dom);
/** cassini_svc_why() - As cassini_svc_check(), for a service that is at hand. */
int cassini_svc_why(const struct cassini_svc_desc *svc, uint16_t vni, int tc, char *why, size_t why_len);
/** cassini_stats_tell() - The line of all counters of the adapter @ctx as it is now (link_node_attr.tell). */
size_t cassini_stats_tell(void *ctx, char *buf, size_t len);

/* --- the initiator (cassini_cmdq.c, cassini_ini.c) --- */

enum cassini_op_state {
	CASSINI_OPS_HELD, CASSINI_OPS_SENT, CASSINI_OPS_WAIT, CASSINI_OPS_GOT_REPLY, CASSINI_OPS_ENDING, CASSINI_OPS_NUM
};
#define CASSINI_PUT_HDR offsetof(struct cassini_hdr, handle) /* header bytes of a PUT in one frame */
struct cassini_op {
	struct cassini_work work;         /* on_sent; no bulk copy is ever the initiator's */
	struct cassini_cmdq *cq;          /* NULL: it was closed, or the command's ACK has been given */
	struct cassini_peer *peer;
	uint32_t life;                    /* of the peer when it was sent */
	uint32_t region;                  /* link region over the local memory; 0: none */
	uint8_t state;                    /* enum cassini_op_state */
	bool is_fence;                    /* starts when everything before it in the queue has ended */
	bool is_ordered;                  /* an unrestricted write to a region: waits for peer->ordered */
	bool is_moving;                   /* counted in peer->ordered */
	bool in_rdzv;
	bool is_bulk;                     /* its data moves by a copy of the target's, not in a frame */
	bool owes_send;                   /* a slot is claimed for its SEND event */
	bool is_again;                    /* under way as the first after a pause: CASSINI_CMD_AGAIN */
	uint8_t rc, list;                 /* of a REPLY that overtook the verdict */
	bool is_busy;                     /* a Get that its target had no room for: not before peer->resume_ns */
	uint32_t refusal;                 /* peer->refusals when a lossless PTE first held it back; 0: never */
	const struct cassini_eq *told;    /* rendezvous in state WAIT: where its command has ended */
	/* of one that nobody remembered: its bytes, if they are too many for @frame */
	void *own;
	struct cassini_cmd cmd;           /* as posted; from atomic_op on for atomics only */
	STAILQ_ENTRY(cassini_op) held;    /* cq->held */
	LIST_ENTRY(cassini_op) await;     /* peer->waiting */
	struct mt_node rdzv;              /* dom->rdzv: tag = get_bits, src = match id of the target */
	/* the header; with it the payload of INLINE ones */
	uint8_t frame[CASSINI_ENCODE_MAX + CASSINI_IDC_RESTRICTED_MAX];
};
static_assert(CASSINI_PUT_HDR <= CASSINI_ENCODE_MAX, "a short Put fits");

struct cassini_cmdq {
	struct cassini_lni *lni;
	struct cassini_cp *cp;
	LIST_ENTRY(cassini_cmdq) all;     /* lni->cmdqs */
	LIST_ENTRY(cassini_cmdq) link;    /* watched_by->cmdqs while something waits */
	struct cassini_dom *watched_by;
	struct cassini_dom *bell;         /* has frames that wait for the doorbell (MORE) */
	/* whom the last command went to, under this profile, or NULL: mostly the next one's, too */
	struct cassini_peer *last;
	struct cassini_dom *only;         /* of all commands until now, unless they are of several (is_mixed) */
	STAILQ_HEAD(, cassini_op) held;   /* in order: behind a fence, an ordered copy, or a full path */
	uint32_t depth, used;             /* commands that have not ended */
	uint16_t id;                      /* in the LNI, while it is open: in the tag of what no operation remembers */
	void (*on_lost)(void *ctx, const struct cassini_cmd *lost, uint8_t rc);
	void *ctx;
	uint32_t held_cnt, held_fences;   /* of which held; of which begin behind a fence */
	bool has_trig, is_mixed;
	bool fence_next;                  /* cassini_fence() came, and no command since */
	LIST_HEAD(, cassini_trig) trigs;  /* all that name this queue */
	struct cassini_trig *ready, *ready_last; /* fired, but the queue or the path was full */
};
/** cassini_ini_is_bulk() - Will the target fetch the data of @op, a Put? */
bool cassini_ini_is_bulk(const struct cassini_op *op);
/** cassini_ini_start() - Send @op's frame. 0; -EAGAIN the path is full; anything else has ended it with an event. */
int cassini_ini_start(struct cassini_op *op);
/** cassini_stats_started() - Count a command as it goes out. */
static inline void cassini_stats_started(struct cassini_stats *s, unsigned opcode, uint32_t flags, uint32_t len)
{
	s->idc += flags & CASSINI_CMD_INLINE ? 1 : 0;
	if (likely(opcode == CASSINI_OP_PUT))
		s->puts++;
	else if (opcode == CASSINI_OP_GET)
		s->gets++;
	else if (opcode == CASSINI_OP_RENDEZVOUS_PUT)
		s->rendezvous++;
	else if (opcode == CASSINI_OP_ATOMIC)
		s->atomics++;
	else
		s->fetching_atomics++;
	if (opcode != CASSINI_OP_GET)
		s->tx_bytes += len;
}
/** cassini_ini_sent() - work.on_sent of every operation. */
void cassini_ini_sent(struct cassini_work *w, int status);
/**
 * cassini_ini_reply() - A REPLY for our operation @pkt->handle: data, event, count. A handle that names nothing of
 * @peer is counted as malformed.
 */
void cassini_ini_reply(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		       const struct view *payload);
/**
 * cassini_ini_got() - Somebody has fetched (or failed to) a RENDEZVOUS_PUT's rest: region gone, operation over. @handle
 * or, if 0, @get_bits names it.
 */
void cassini_ini_got(struct cassini_dom *dom, struct cassini_peer *peer, uint32_t handle, uint64_t get_bits);
/**
 * cassini_ini_lost() - @op, in peer->waiting, will not be answered: leaves that list, an event with @rc (rendezvous: a
 * GET event at PTE 255), gone.
 */
void cassini_ini_lost(struct cassini_op *op, uint8_t rc);
/** cassini_ini_drop() - @op has not been sent: ends it with @rc. */
void cassini_ini_drop(struct cassini_op *op, uint8_t rc);
/**
 * cassini_ini_orphan() - Its queue is closed: no event, no count, and no peer reads or writes the user's memory any
 * more. May let go of the lock, as link_region_del() does.
 */
void cassini_ini_orphan(struct cassini_op *op);
/** cassini_ini_forget() - The same of @op if it is a rendezvous that awaits its Get, and its command ended in @eq. */
void cassini_ini_forget(struct cassini_op *op, const struct cassini_eq *eq);
/**
 * cassini_cmdq_pause() - @op, as if it had not been sent, goes back among the held ones: a lossless PTE asks its
 * senders to wait.
 */
void cassini_cmdq_pause(struct cassini_op *op);
/** cassini_cmdq_again() - The same of a Get, whose target owes us too much: first of the held ones, a little later. */
void cassini_cmdq_again(struct cassini_op *op);
/** cassini_pause_mark() - @op is about to be sent to a peer that has held some back. */
void cassini_pause_mark(struct cassini_op *op);
/** cassini_is_lossless() - Could a lossless PTE hold back this operation? */
static inline bool cassini_is_lossless(const struct cassini_cmd *cmd)
{
	return cmd->pid_idx < 16 && (cmd->opcode == CASSINI_OP_PUT || cmd->opcode == CASSINI_OP_RENDEZVOUS_PUT);
}
/** cassini_cmd_check() - What cassini_post() looks at first. 0; -EINVAL; -EACCES (logged). */
int cassini_cmd_check(const struct cassini_cmdq *cq, const struct cassini_cmd *cmd);
/**
 * cassini_ini_close() - First act of closing @dom, dom->closing being set: what is held or waits for an answer ends
 * CANCELED; nobody keeps a pointer to @dom or its peers but the frames that the link has, and these end, CANCELED too,
 * in link_port_close().
 */
void cassini_ini_close(struct cassini_dom *dom);
#define CASSINI_PUT_VNI_SHIFT	32
#define CASSINI_PUT_PID_SHIFT	48
/** cassini_put_word() - What the header of a plain Put to pid_idx 0 of (@vni, @pid) begins with, as a number. */
static inline uint64_t cassini_put_word(uint16_t vni, uint16_t pid)
{
	return (CASSINI_WIRE_VERSION << 4 | CASSINI_PKT_PUT) | (uint64_t)vni << CASSINI_PUT_VNI_SHIFT |
	       (uint64_t)pid << CASSINI_PUT_PID_SHIFT;
}
#define CASSINI_PUT_FLAGS_SHIFT 8 /* of flags and pid_idx in that word */
#define CASSINI_PUT_IDX_SHIFT	16
/* What no header begins with when its pid_idx is left out: the first row of the door lets nothing pass. */
#define CASSINI_PUT_NONE ((uint64_t)UINT8_MAX << CASSINI_PUT_IDX_SHIFT)
static_assert(offsetof(struct cassini_hdr, flags) == 1 && offsetof(struct cassini_hdr, pid_idx) == 2 &&
	      offsetof(struct cassini_hdr, vni) == 4 && offsetof(struct cassini_hdr, pid) == 6, "cassini_put_word()");
static_assert(offsetof(struct cassini_hdr, initiator) == 8 && offsetof(struct cassini_hdr, request_len) == 12,
	      "the next eight");
static inline uint8_t cassini_wire_flags(uint32_t flags)
{
	return (uint8_t)((flags & CASSINI_CMD_RESTRICTED ? CASSINI_PKTF_RESTRICTED : 0) |
			 (flags & CASSINI_CMD_FLUSH ? CASSINI_PKTF_FLUSH : 0) |
			 (flags & CASSINI_CMD_HRP ? CASSINI_PKTF_HRP : 0) |
			 (flags & CASSINI_CMD_AGAIN ? CASSINI_PKTF_AGAIN : 0));
}

static inline void cassini_word_write(uint8_t *frame, unsigned i, uint64_t value)
{
	le64_t word = le64_put(value);

	__builtin_memcpy(frame + 8 * (size_t)i, &word, sizeof(word));
}

static inline uint64_t cassini_word_read(const uint8_t *frame, unsigned i)
{
	le64_t word;

	__builtin_memcpy(&word, frame + 8 * (size_t)i, sizeof(word));
	return le64_get(word);
}

/* What cassini_pkt_encode() makes of a PUT, in a row of stores; a test compares the two. */
static inline void cassini_put_encode(uint8_t *frame, const struct cassini_cmd *cmd, const struct cassini_peer *peer)
{
	static_assert(CASSINI_PUT_HDR == 5 * sizeof(le64_t), "all of it");
	cassini_word_write(frame, 0,
			   peer->put_word | (uint64_t)cassini_wire_flags(cmd->flags) << CASSINI_PUT_FLAGS_SHIFT |
				   (uint64_t)cmd->pid_idx << CASSINI_PUT_IDX_SHIFT);
	cassini_word_write(frame, 1, cmd->dom->match_id | (uint64_t)cmd->request_len << 32);
	cassini_word_write(frame, 2, cmd->remote_offset);
	cassini_word_write(frame, 3, cmd->match_bits);
	cassini_word_write(frame, 4, cmd->header_data);
}
/** cassini_put_write() - A Put to @peer in one piece: header and payload. */
static inline void cassini_put_write(uint8_t *frame, const struct cassini_cmd *cmd, const struct cassini_peer *peer)
{
	cassini_put_encode(frame, cmd, peer);
	copy_private(frame + CASSINI_PUT_HDR, cmd->local_addr, cmd->request_len);
}
/**
 * cassini_put_check() - The first row of the door: @frame is a Put without flags, to @put_word and by initiator
 * @match_id. Its first 16 bytes are all that there is to check then, as one comparison with what they have to
 * be; any pid_idx. Return: it is one, and @out is what cassini_pkt_check() would say of it.
 */
static inline bool cassini_put_check(const uint8_t *frame, uint32_t frame_len, uint64_t put_word, uint32_t match_id,
				     struct cassini_pkt_in *out)
{
	uint32_t len = frame_len - CASSINI_PUT_HDR;
	uint8_t pid_idx;
	uint64_t word;

	if (unlikely(len > CASSINI_FRAME_DATA))
		return false;
	word = cassini_word_read(frame, 0);
	pid_idx = (uint8_t)(word >> CASSINI_PUT_IDX_SHIFT);
	if (unlikely((word & ~CASSINI_PUT_NONE) != put_word ||
		     cassini_word_read(frame, 1) != (match_id | (uint64_t)len << 32)))
		return false;
	/* what has been compared is known: the frame may lie in memory that its sender still writes */
	*out = (struct cassini_pkt_in){
		.op = CASSINI_PKT_PUT,
		.pid_idx = pid_idx,
		.vni = (uint16_t)(put_word >> CASSINI_PUT_VNI_SHIFT),
		.pid = (uint16_t)(put_word >> CASSINI_PUT_PID_SHIFT),
		.initiator = match_id,
		.request_len = len,
		.remote_offset = cassini_word_read(frame, 2),
		.match_bits = cassini_word_read(frame, 3),
		.header_data = cassini_word_read(frame, 4),
		.payload_len = len,
		.hdr_len = CASSINI_PUT_HDR,
	};
	return true;
}
/* --- what no operation remembers (cassini_lost.c) --- */

#define CASSINI_SEQ_BITS 48 /* of user_ptr, in the link's tag; above it the number of the queue */
static inline uint64_t cassini_lost_tag(const struct cassini_cmdq *cq, uint64_t user_ptr)
{
	return (uint64_t)cq->id << CASSINI_SEQ_BITS | (user_ptr & ((1ULL << CASSINI_SEQ_BITS) - 1));
}
/** cassini_lost_tell() - @cmd, which has no EQ, has failed with @rc: tell who posted it, if he wants to know. */
void cassini_lost_tell(struct cassini_cmdq *cq, const struct cassini_cmd *cmd, uint8_t rc);
/** cassini_lost() - link_ops.on_lost. */
void cassini_lost(void *ctx, struct link_peer *from, uint64_t tag, const void *frame, size_t len, int status);
/** cassini_gone() - link_ops.on_gone. */
void cassini_gone(void *ctx, struct link_peer *from, int status);
/** cassini_op_new() - An operation for @cmd to @peer, counted in cq->used, neither sent nor held. NULL: no memory. */
struct cassini_op *cassini_op_new(struct cassini_cmdq *cq, struct cassini_peer *peer, const struct cassini_cmd *cmd);
/** cassini_peer_took() - An answer to a Put to @pid_idx of @peer. */
static inline void cassini_peer_took(struct cassini_peer *peer, unsigned pid_idx, bool has_taken)
{
	uint32_t bit = pid_idx < 32 ? 1u << pid_idx : 0;

	/* a late answer says nothing of who comes next, nor of an entry that has paused since */
	peer->took = has_taken && peer->link && !(peer->held & bit) ? peer->took | bit : peer->took & ~bit;
}
/** cassini_cmdq_is_last() - Did @cq's last command go to (@nic, @pid) of @dom? */
static inline bool cassini_cmdq_is_last(const struct cassini_cmdq *cq, const struct cassini_dom *dom, uint32_t nic,
					uint16_t pid)
{
	const struct cassini_peer *last = cq->last;

	return likely(last && last->pid == pid && last->nic == nic && last->dom == dom);
}
/**
 * cassini_cmdq_peer() - The peer at (@nic, @pid) of @dom, which is mostly whom @cq's last command went to. 0; -EAGAIN
 * for want of memory; -ENETUNREACH.
 */
static inline int cassini_cmdq_peer(struct cassini_cmdq *cq, struct cassini_dom *dom, uint32_t nic, uint16_t pid,
				    struct cassini_peer **out)
{
	int rc;

	if (cassini_cmdq_is_last(cq, dom, nic, pid) && likely(cq->last->link)) {
		*out = cq->last;
		return 0;
	}
	rc = cassini_peer_get(dom, nic, pid, out);
	if (rc)
		return rc == -ENOMEM ? -EAGAIN : rc;
	cq->last = *out;
	cq->is_mixed |= cq->only && cq->only != dom;
	cq->only = dom;
	return 0;
}
/** cassini_cmdq_kick() - Try held commands of @dom again; called by every poll. Return: commands started. */
int cassini_cmdq_kick(struct cassini_dom *dom);
/**
 * cassini_status_rc() - Return code for a link status: 0 OK; > 0 a verdict; < 0 UNDELIVERABLE, or CANCELED when it was
 * us.
 */
uint8_t cassini_status_rc(int status, uint8_t *list);

/* --- event queues, counting events --- */

struct cassini_eq_int {
	struct cassini_eq pub;            /* first */
	struct cassini_lni *lni;
	uint32_t slots, fc_slots;
	uint32_t open; /* slots that are neither claimed by commands which have not ended nor kept for flow control */
	uint64_t dropped;
};
/** cassini_eq_claim(), cassini_eq_unclaim() - Keep one slot for the event of a command. 0; -EAGAIN. NULL is fine. */
static inline int cassini_eq_claim(struct cassini_eq *eq)
{
	struct cassini_eq_int *e = (struct cassini_eq_int *)eq;

	if (!e)
		return 0;
	if (unlikely(e->pub.wr - e->pub.rd >= e->open))
		return -EAGAIN;
	e->open--;
	return 0;
}
void cassini_eq_unclaim(struct cassini_eq *eq);
/**
 * cassini_eq_push() - Append @ev. @claimed: into a claimed slot (never fails). Return: false: dropped and counted.
 * NULL: true.
 */
bool cassini_eq_push(struct cassini_eq *eq, const struct cassini_event *ev, bool claimed);
/** cassini_eq_push_fc() - The same into the slots kept for STATE_CHANGE. */
bool cassini_eq_push_fc(struct cassini_eq *eq, const struct cassini_event *ev);
/** cassini_eq_next() - Where the next event will lie, of which there is one free; cassini_eq_publish() - it lies there.
 */
static inline struct cassini_event *cassini_eq_next(struct cassini_eq *eq)
{
	return &eq->ring[eq->wr & eq->mask];
}
static inline void cassini_eq_publish(struct cassini_eq *eq)
{
	if (eq->wr++ == eq->rd)
		LIST_INSERT_HEAD(&((struct cassini_eq_int *)eq)->lni->ready, eq, ready);
}
/** cassini_eq_slot() - The claimed slot itself, to be written now: what cassini_eq_push(..., true) copies to. */
static inline struct cassini_event *cassini_eq_slot(struct cassini_eq *eq)
{
	struct cassini_event *ev = cassini_eq_next(eq);

	((struct cassini_eq_int *)eq)->open++;
	cassini_eq_publish(eq);
	return ev;
}
/** cassini_eq_has_room() - Can @n target events be appended? NULL: true. */
bool cassini_eq_has_room(const struct cassini_eq *eq, uint32_t n);
static inline bool cassini_eq_room(const struct cassini_eq *eq, uint32_t n) /* the same of an EQ that is there */
{
	const struct cassini_eq_int *e = (const struct cassini_eq_int *)eq;

	return eq->wr - eq->rd + n <= e->open;
}


/* A triggered list entry: waits on a CT, then in nic->fired, then perhaps in its queue's ready list. */
enum cassini_trig_kind { CASSINI_TRIG_CMD, CASSINI_TRIG_SET, CASSINI_TRIG_INC, CASSINI_TRIG_EVENT };
struct cassini_trig {
	LIST_ENTRY(cassini_trig) of_cq;   /* cq->trigs */
	TAILQ_ENTRY(cassini_trig) of_ct;  /* on->trigs, while on is not NULL */
	struct cassini_trig *next;        /* nic->fired or cq->ready */
	struct cassini_ct *on;
	struct cassini_cmdq *cq;
	uint64_t threshold;
	uint8_t kind;                     /* enum cassini_trig_kind */
	struct cassini_cmd cmd;           /* CMD; EVENT uses its eq and user_ptr; SET and INC its ct */
	uint64_t value;
	uint8_t data[CASSINI_IDC_RESTRICTED_MAX]; /* INLINE */
};
struct cassini_ct {
	struct cassini_lni *lni;
	uint64_t success, failure;
	uint64_t *wb;
	void (*on_change)(void *ctx);
	void *ctx;
	TAILQ_HEAD(cassini_trig_list, cassini_trig) trigs; /* by threshold; equal ones in the order posted */
};
/** cassini_trig_retry() - Post what @cq's ready list holds, as far as it goes. Return: how many. */
int cassini_trig_retry(struct cassini_cmdq *cq);
/** cassini_cmdq_watch() - Something waits in @cq: have its Domain's polls look at it. */
void cassini_cmdq_watch(struct cassini_cmdq *cq);

#endif
