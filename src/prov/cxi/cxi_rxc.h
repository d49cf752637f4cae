// SPDX-License-Identifier: BSD-2-Clause
// What the files of the receiving side share: cxi_rxc.c, cxi_recv.c, cxi_multi.c, cxi_tell.c, cxi_ux.c, cxi_peek.c,
// cxi_fc.c.
#ifndef SF_PROV_CXI_CXI_RXC_H
#define SF_PROV_CXI_CXI_RXC_H

#include "prov/cxi/cxi.h"

/*
 * Theory of operation
 *
 * A receive is normally a list entry of the adapter (RX_HW): messages that come later are put into its buffer, messages
 * that came earlier are reported when it is appended (PUT_OVERFLOW), their bytes lying in an overflow buffer. When
 * software matches (mode software, hybrid after its transition, or while the entries are being moved), receives stand
 * in rxc->sw_posted (RX_SW) and messages in rxc->sw_unexp; both are hashed.
 *
 * One receive takes one message, but for FI_MULTI_RECV, where each message gets a struct cxi_rx of its own (owner set)
 * and the posted one ends with the last of them.
 */

/* RX_REPLAY: its entry was refused, and it waits to be posted again (cxi_fc.c) */
enum cxi_rx_state { RX_HW, RX_SW, RX_TAKEN, RX_UNLINKING, RX_RESTING, RX_REPLAY };

/* What most receives write when they are posted is in two lines, what they read when they end in the first. */
struct cxi_rx {
	struct cxi_req req; /* first */
	struct cxi_rxc *rxc;
	void *context;
	uint64_t flags;
	TAILQ_ENTRY(cxi_rx) link; /* rxc->rx_list (posted ones only) */
	SLIST_ENTRY(cxi_rx) rest; /* rxc->resting */
	uint8_t state;		  /* enum cxi_rx_state */
	bool tagged, multi, unlinked, canceled, is_discard, is_untold;
	bool ends_shown; /* in cxi_rx_show(), if its context allows that: one message, told by the queue alone */
	uint8_t *buf;
	size_t len;
	uint64_t match_bits, ignore;
	struct cassini_le *le;
	uint32_t match_id;
	uint32_t parts; /* multi-receive: messages in progress */
	size_t used;			/* multi-receive matched by software */
	struct cxi_rx *owner;		/* multi-receive: the posted buffer this message went to */
	struct cxi_ep *ep;		/* whose completion it is: the endpoint it arrived at; NULL: not known yet */
	uint64_t first_ns, due_ns;	/* RNR: append retries; @first_ns 0: none yet */
	struct cassini_ct *done;	/* deferred work: counts its end; NULL */
	struct mt_node mt;		/* RX_SW: rxc->sw_posted: match bits, ignore, match id */
	TAILQ_HEAD(, cxi_rx) part_list; /* multi-receive: those messages, by struct cxi_rx.link */
	/* rxc->stalled: a Get or a notice that found the queue full; rxc->untold, while is_untold; of cxi_fc.c */
	TAILQ_ENTRY(cxi_rx) wait;
	/* the message, from cxi_rx_take() on: most have ended before they would have to be remembered */
	struct cassini_event msg; /* its PUT or PUT_OVERFLOW */
	uint32_t got;		  /* bytes that are in the buffer */
	size_t end;		  /* multi-receive: what @used is when all has been told of; SIZE_MAX: not known yet */
	uint32_t lost;		  /* multi-receive: of @parts, those of which nothing but the adapter's Get is left */
	uint8_t rc;		  /* of a failed part; of a multi-receive, @canceled, why it ends */
	bool needs_get, needs_zbp, needs_done;
	uint64_t get_from; /* software's Get: where in the source, and how much */
	uint32_t get_len;
};
static_assert(offsetof(struct cxi_rx, buf) == CACHE_LINE, "one line");
static_assert(offsetof(struct cxi_rx, used) <= 2 * CACHE_LINE, "two lines");

/** cxi_rxc_gate() - The state of @r has changed, or the messages that software holds have. */
static inline void cxi_rxc_gate(struct cxi_rxc *r)
{
	/* what software took over is older than all that the adapter has; a receive that waits, than all that follow */
	r->is_clear = r->state == CXI_RXC_ENABLED && !r->preempts && !r->has_replay && !mt_unexp_cnt(&r->sw_unexp);
}

/* A message that software holds: its bytes are still where the adapter put them. */
struct cxi_ux {
	struct mt_node mt;               /* match bits; src = initiator */
	struct cassini_event ev;         /* the PUT */
	void *claimed_by;                /* context of the FI_PEEK | FI_CLAIM that took it */
	TAILQ_ENTRY(cxi_ux) link;        /* rxc->claimed */
};

/* A large buffer of ours in the overflow or request list. */
struct cxi_buf {
	struct cxi_req req;              /* first */
	LIST_ENTRY(cxi_buf) link;
	struct cxi_rxc *rxc;
	uint8_t kind;                    /* 0 overflow, 1 request */
	bool linked;                     /* the adapter may begin to write more to it */
	bool is_untold;                  /* an event of it was dropped, and earlier ones may still come: not freed */
	/*
	 * Bytes: of all messages, once it is not linked; of those that events have told of; of those that are needed no
	 * more. A long message may come to lie there, and be told of, after those behind it.
	 */
	size_t used, told, released;
	size_t size;
	uint8_t *data;
};

/* --- cxi_recv.c: the life of one receive --- */
void cxi_rx_on_event(struct cxi_req *req, const struct cassini_event *ev);
bool cxi_rx_show(const struct cassini_event *ev); /* cassini_pte_show() */
/** cxi_rx_append() - Give @rx to the adapter. 0; -FI_EAGAIN. */
int cxi_rx_append(struct cxi_rx *rx);
/**
 * cxi_rx_take() - @rx (off all lists, or a multi-receive owner) takes the message of @ev: bytes in @ev->start are
 * copied, a rendezvous is fetched by software when the adapter does not. @late: it was matched after it had arrived.
 */
void cxi_rx_take(struct cxi_rx *rx, const struct cassini_event *ev, bool late);
/** cxi_rx_unpost() - @rx (not a part) is no longer counted and listed as posted. */
void cxi_rx_unpost(struct cxi_rx *rx);
/**
 * cxi_rx_new() - One in which what as_new() of cxi_recv.c writes is set, and nothing else: the caller sets all other
 * fields that will be read, as rx_get() and cxi_rx_part() do. NULL: no memory.
 * cxi_rx_free() - It has ended, and rests until it is wanted again.
 */
struct cxi_rx *cxi_rx_make(struct cxi_rxc *r); /* more memory */
static inline struct cxi_rx *cxi_rx_new(struct cxi_rxc *r)
{
	struct cxi_rx *rx = SLIST_FIRST(&r->resting);

	if (unlikely(!rx))
		return cxi_rx_make(r);
	SLIST_REMOVE_HEAD(&r->resting, rest);
	return rx;
}
void cxi_rx_free(struct cxi_rx *rx);
/** cxi_rx_get() - A receive, counted and listed as posted. NULL: no memory. */
struct cxi_rx *cxi_rx_get(struct cxi_ep *ep, const struct cxi_recv_args *a);
/** cxi_rx_stalled() - Try again what found the queue full. Return: how many went. */
int cxi_rx_stalled(struct cxi_rxc *r);
/** cxi_rx_forget() - @ep, whose portal has closed and whose events are read, is named by no receive of @r any more. */
void cxi_rx_forget(struct cxi_rxc *r, const struct cxi_ep *ep);
/** cxi_rx_refuse() - The end of a receive that no message will meet: an error entry with @err; frees it. */
void cxi_rx_refuse(struct cxi_rx *rx, int err, int prov_errno);
/** cxi_rx_cancelled() - Nobody else has @rx any more: it ends, a buffer for many messages when those it has do. */
void cxi_rx_cancelled(struct cxi_rx *rx);
/** cxi_rx_release() - A multi-receive buffer takes no more: it ends with the messages that it has. */
void cxi_rx_release(struct cxi_rx *owner);
/** cxi_rx_look() - If @owner is used up, and all of its messages have ended, it goes. */
void cxi_rx_look(struct cxi_rx *owner);
/** cxi_rx_lost() - An error entry ends @rx, of whose message, or of its rest, no event tells. @rc: what is known. */
void cxi_rx_lost(struct cxi_rx *rx, uint8_t rc);
/** cxi_rx_source() - fi_addr of the sender as FI_SOURCE wants it. */
static inline fi_addr_t cxi_rx_source(const struct cxi_ep *ep, uint32_t initiator, uint16_t vni)
{
	if (!ep->source || !ep->kit.av)
		return FI_ADDR_NOTAVAIL;
	return cxi_av_source(container_of(ep->kit.av, struct cxi_av, kit), CASSINI_MATCH_ID_NIC(initiator),
			     (uint16_t)CASSINI_MATCH_ID_PID(initiator), vni);
}
/** cxi_rx_portal() - Who has @dom, which may be no more. NULL: an endpoint that has closed. */
const struct cxi_portal *cxi_rx_portal(const struct cxi_rxc *r, const struct cassini_dom *dom);
/** cxi_rx_ep() - The endpoint that @ev arrived at. */
struct cxi_ep *cxi_rx_ep(const struct cxi_rxc *r, const struct cassini_event *ev);

/* --- cxi_multi.c --- */
/**
 * cxi_rx_part() - One message of multi-receive buffer @owner that will take @rlength bytes of what is left. NULL: no
 * memory.
 */
struct cxi_rx *cxi_rx_part(struct cxi_rx *owner, uint32_t rlength);
/** cxi_multi_hit() - The adapter tells of a message for @owner. */
void cxi_multi_hit(struct cxi_rx *owner, const struct cassini_event *ev);
/** cxi_multi_part() - Whose rest the adapter has fetched. NULL: cxi_multi_reply_lost(). */
struct cxi_rx *cxi_multi_part(struct cxi_rx *owner, const struct cassini_event *reply);
void cxi_multi_reply_lost(struct cxi_rx *owner);
/** cxi_rx_untold() - @ev, of the entry of @rx, found no room in the event queue. */
void cxi_rx_untold(struct cxi_rx *rx, const struct cassini_event *ev);
/** cxi_rx_told() - It is not among those any more. */
void cxi_rx_told(struct cxi_rx *rx);
/** cxi_rx_end_untold() - They end if no events wait that may name them. Return: how many. */
int cxi_rx_end_untold(struct cxi_rxc *r);

/* --- cxi_tell.c: to the sender of the message of @rx --- */
/** cxi_is_alt_read() - Is @msg a rendezvous of which restricted Gets fetch all, and a notice ends it? */
static inline bool cxi_is_alt_read(const struct cassini_event *msg)
{
	return msg->match_bits & CXI_MB_ALT_READ;
}
/** cxi_rx_fetch() - Software's Get of the rest of a rendezvous. Its REPLY is an event of @rx. 0; -FI_EAGAIN ... */
int cxi_rx_fetch(struct cxi_rx *rx);
/** cxi_rx_tell() - It was matched, or, of alt_read, fetched. Nothing comes back. 0; -FI_EAGAIN ... */
int cxi_rx_tell(const struct cxi_rx *rx);

/** cxi_wants_notice() - Does the sender of @msg wait to hear that it was matched? */
static inline bool cxi_wants_notice(const struct cxi_rxc *r, const struct cassini_event *msg, bool is_late)
{
	return is_late && !msg->rendezvous && !r->is_rnr && (msg->match_bits & CXI_MB_MATCH_COMP);
}
/**
 * cxi_rx_lose() - There is no memory to remember the message @msg by: it is lost, and its endpoint has an error.
 * cxi_rx_pass() - What follows, also of one that nobody wants: its bytes are released if it @is_late. Its sender, who
 * might wait for ever, is told as if it had been taken, later if the queue is full.
 * cxi_rx_tell_lost() - Try again. Return: how many were told.
 * cxi_rx_lost_forget() - Of senders to endpoints that have closed nobody can be told.
 */
void cxi_rx_lose(struct cxi_rxc *r, const struct cassini_event *msg, bool is_late);
void cxi_rx_pass(struct cxi_rxc *r, const struct cassini_event *msg, bool is_late);
int cxi_rx_tell_lost(struct cxi_rxc *r);
void cxi_rx_lost_forget(struct cxi_rxc *r);

/* --- cxi_ux.c: buffers and software's lists --- */
/**
 * cxi_bufs_fill() - Post overflow (@kind 0) or request (1) buffers up to the number that FI_CXI_*_MIN_POSTED says. 0;
 * -FI_ENOMEM; -FI_EAGAIN.
 */
int cxi_bufs_fill(struct cxi_rxc *r, int kind);
void cxi_bufs_free(struct cxi_rxc *r);
/** cxi_buf_untold() - @ev, of @r, perhaps of a message in one of the buffers, found no room in the event queue. */
void cxi_buf_untold(struct cxi_rxc *r, const struct cassini_event *ev);
/** cxi_buf_release() - The bytes at @start were copied out. @len 0: there were none. */
void cxi_buf_release(struct cxi_rxc *r, const void *start, uint32_t len);
/**
 * cxi_ux_add() - Software holds the message of @ev from now on, unless it came to an endpoint that has closed, or
 * memory is short, which is said.
 */
void cxi_ux_add(struct cxi_rxc *r, const struct cassini_event *ev);
/** cxi_ux_forget() - What software holds, or was claimed, of endpoints that have closed vanishes. */
void cxi_ux_forget(struct cxi_rxc *r);
void cxi_ux_del(struct cxi_rxc *r, struct cxi_ux *ux);
/** cxi_ux_discard() - Thrown away: a rendezvous' sender is told. */
void cxi_ux_discard(struct cxi_rxc *r, const struct cassini_event *ev);
/** cxi_sw_message() - Software matches the message of @ev: a posted receive takes it, or it is kept. */
void cxi_sw_message(struct cxi_rxc *r, const struct cassini_event *ev);
/** cxi_sw_post() - Software matches @rx: messages that are held, else it is posted. */
void cxi_sw_post(struct cxi_rxc *r, struct cxi_rx *rx);
/** cxi_sw_try() - Does a message that software holds match @rx? Takes it. */
bool cxi_sw_try(struct cxi_rxc *r, struct cxi_rx *rx);

/* --- cxi_peek.c --- */
struct cxi_match { uint64_t bits, ignore; uint32_t id; };
void cxi_match_make(const struct cxi_ep *ep, const struct cxi_recv_args *a, struct cxi_match *m);
ssize_t cxi_peek(struct cxi_ep *ep, const struct cxi_recv_args *a);
ssize_t cxi_claim(struct cxi_ep *ep, const struct cxi_recv_args *a);

/* --- cxi_fc.c --- */
void cxi_rxc_set_state(struct cxi_rxc *r, enum cxi_rxc_state state);
/** cxi_fc_on_pte() - STATE_CHANGE and the searches of onloading: user pointer of the PTE. */
void cxi_fc_on_pte(struct cxi_req *req, const struct cassini_event *ev);
/** cxi_fc_append_failed() - LINK event of @rx with @rc not OK: replay it later, in software or after recovery. */
void cxi_fc_append_failed(struct cxi_rx *rx, uint8_t rc);
/**
 * cxi_fc_append_later() - @rx, a multi-receive that has had messages from software, found no room for its append: it is
 * replayed, or ends with what it has.
 */
void cxi_fc_append_later(struct cxi_rx *rx);
/** cxi_fc_replay() - A receive is to be posted: those that were refused come first. Return: true: not all could yet. */
bool cxi_fc_replay(struct cxi_rxc *r);
/** cxi_fc_unreplay() - @rx, which is RX_REPLAY, waits no more. */
void cxi_fc_unreplay(struct cxi_rx *rx);
/** cxi_append_refused() - Did the append that has just returned end with a LINK event that refuses it? */
bool cxi_append_refused(const struct cxi_rx *rx);
/** cxi_fc_hold_message() - Software-managed message of @ev that must wait until older ones are onloaded. True: kept. */
bool cxi_fc_hold_message(struct cxi_rxc *r, const struct cassini_event *ev);
/**
 * cxi_fc_preempt() - Hybrid: is it time to go to software before entries run out? @ev: an unexpected message came;
 * NULL: a receive was posted.
 */
void cxi_fc_preempt(struct cxi_rxc *r, const struct cassini_event *ev);
/** cxi_fc_rxc_timers() - What recovery waits for. Return: how many things were done. */
int cxi_fc_rxc_timers(struct cxi_rxc *r);
/** cxi_fc_rxc_forget() - @p, unmapped, is about to go: who notified us through it is not told to resume. */
void cxi_fc_rxc_forget(struct cxi_rxc *r, const struct cxi_portal *p);
void cxi_fc_rxc_fini(struct cxi_rxc *r); /* r->fc may be NULL */

#endif
