// SPDX-License-Identifier: BSD-2-Clause
// What the files of the target's side share: portal table entry, list entry, unexpected header, copy, answer, what is
// owed. cassini_int.h has the rest of the adapter.
#ifndef SF_NIC_CASSINI_CASSINI_TGT_H
#define SF_NIC_CASSINI_CASSINI_TGT_H

#include "nic/cassini/cassini_int.h"

/* --- portal table (cassini_pte.c, cassini_match.c) --- */

/* What is written of a plain one when it is appended, and read when it is met, is in two lines. */
struct cassini_le {
	struct cassini_pte *pte;
	void *start; /* this and what follows, up to @min_free: as its struct cassini_le_attr */
	uint64_t length;
	uint64_t user_ptr;
	uint32_t flags, min_free;
	uint32_t busy; /* copies in flight into or out of it */
	uint8_t list;
	bool is_once;	   /* takes one Put and asks for no more than its event: most receives are so */
	bool linked;	   /* else unlinked and only waiting for @busy */
	bool is_unlinking; /* UNLINK follows, in a claimed slot, when @busy is 0 */
	bool is_held;	   /* cassini_invalidate() waits for it: its next call frees it */
	SLIST_ENTRY(cassini_le) rest; /* pte->resting */
	struct mt_node mt; /* tag = match bits, ignore, src = match id or MT_ANY_SRC: in pte->list[] */
	struct cassini_ct *ct; /* if @flags says that it counts */
	uint64_t offset; /* MANAGE_LOCAL: bytes used */
};
static_assert(offsetof(struct cassini_le, mt) == CACHE_LINE, "two lines");

/* An unexpected header; holds an LE of the pool. */
struct cassini_ule {
	struct mt_node mt;                /* tag = match bits, src = initiator */
	struct cassini_event ev;          /* the PUT as it came: what PUT_OVERFLOW will repeat */
	struct cassini_peer *peer;
	uint32_t life;                    /* of the peer */
	uint64_t get_bits;                /* rendezvous */
	uint32_t handle, region;          /* of the initiator: rendezvous */
	struct cassini_le *claimed;       /* appended entry that took it while its data was still landing */
	bool landing;
	bool has_slot;                    /* of the EQ, for the event that @claimed will make */
};

/* An append or a search that goes through the unexpected headers, with pauses while the EQ is full. */
struct cassini_run {
	bool is_active;
	bool has_slot;                    /* of the EQ, for LINK or the final SEARCH */
	struct cassini_le *le;            /* append: the entry, not linked yet; NULL: a search */
	struct cassini_search search;
	struct cassini_ule *next;         /* search: not looked at yet */
};

struct cassini_pte {
	struct cassini_lni *lni;
	struct cassini_eq *eq;
	bool (*show)(const struct cassini_event *ev); /* cassini_pte_show() */
	struct cassini_pte_opts opts;
	void *user;
	unsigned ptn;
	uint8_t state;                    /* enum cassini_pte_state; cassini_pte_set() is the only writer */
	/* cassini_pte_gate(): */
	bool is_open;                     /* a Put is asked for nothing but its match and a slot for its event */
	bool is_clear;                    /* an append of a plain entry is asked for nothing: it makes no event */
	uint32_t drop_count;
	/* of these, with flow control: not told of yet; of senders that have gone, or of any when memory was short */
	TAILQ_HEAD(cassini_drops_list, cassini_drops) drops;
	uint32_t drops_lost;
	uint32_t apart_cnt; /* senders whose Puts are refused, whatever the state */
	uint32_t map_cnt;
	uint32_t busy;                    /* copies in flight */
	struct mt_posted list[3];         /* PRIORITY, OVERFLOW, REQUEST */
	struct mt_unexp ules;
	struct slab le_slab, ule_slab;
	/* of @le_slab: entries that have ended, as a plain one that is in no list yet; all others are in use */
	SLIST_HEAD(, cassini_le) resting;
	struct cassini_run run;           /* commands find -EAGAIN while it is active */
	LIST_ENTRY(cassini_pte) waiting;  /* lni->waiting while it is active */
	struct slab copy_slab;            /* struct cassini_copy */
	/* request list: events in order of arrival although copies end in any order */
	STAILQ_HEAD(, cassini_copy) landing;
	bool closing;                     /* closed, but freed only when @busy is 0 */
};
/** cassini_pte_set() - Change state and say so: STATE_CHANGE event. */
void cassini_pte_set(struct cassini_pte *pte, enum cassini_pte_state state, enum cassini_sc_reason why, bool nic_auto);
/** cassini_pte_gate() - The state of @pte has changed, or its unexpected headers, or its run. */
static inline void cassini_pte_gate(struct cassini_pte *pte)
{
	pte->is_open = pte->state == CASSINI_PTE_ENABLED && pte->opts.is_matching && !pte->opts.en_event_match &&
		       !pte->opts.lossless && pte->eq && !pte->apart_cnt;
	pte->is_clear = pte->is_open && !pte->run.is_active && !mt_unexp_cnt(&pte->ules);
}
/** cassini_pte_kick() - Report search hits for which there is room now. Called by cassini_tgt_kick(). */
void cassini_pte_kick(struct cassini_pte *pte);
/**
 * cassini_pte_unbusy() - One copy in flight less; frees a PTE that was closed meanwhile: do not touch it afterwards.
 */
void cassini_pte_unbusy(struct cassini_pte *pte);

/* What an arriving Put, Get or atomic meets. */
struct cassini_hit {
	struct cassini_le *le;            /* NULL: see @rc */
	uint8_t list;                     /* enum cassini_list */
	uint8_t rc;                       /* when le is NULL */
	uint64_t offset;                  /* in the entry: where to begin */
	uint32_t mlength;                 /* bytes that go there */
	bool auto_unlinked;               /* it was unlinked by this */
	/* OVERFLOW, unless the entry wants none: the header, already listed; the caller fills in the rest */
	struct cassini_ule *ule;
};
/**
 * cassini_match() - Find the entry for @pkt and take its bytes: priority, overflow, or request list as the state says.
 * Pure list work, no events. The refusal reasons are counted and a flow-controlled PTE is disabled by the caller
 * (cassini_tgt.c) from @hit->rc.
 */
void cassini_match(struct cassini_pte *pte, const struct cassini_pkt_in *pkt, struct cassini_hit *hit);
/** cassini_le_new() - An entry as @attr says, not listed. NULL: no LE left. */
struct cassini_le *cassini_le_new(struct cassini_pte *pte, const struct cassini_le_attr *attr);
/* What is asked of a plain entry, and what may be asked of it besides. */
#define CASSINI_ONCE_FLAGS (CASSINI_LE_MANAGE_LOCAL | CASSINI_LE_OP_PUT | CASSINI_LE_USE_ONCE)
#define CASSINI_ONCE_MAYBE \
	(CASSINI_LE_EVENT_LINK_DISABLE | CASSINI_LE_EVENT_UNLINK_DISABLE | CASSINI_LE_UNRESTRICTED_BODY_RO | \
	 CASSINI_LE_UNRESTRICTED_END_RO)
static inline bool cassini_is_once(const struct cassini_le_attr *attr)
{
	return (attr->flags & ~(uint32_t)CASSINI_ONCE_MAYBE) == CASSINI_ONCE_FLAGS && attr->list == CASSINI_PRIORITY &&
	       attr->length != UINT64_MAX;
}
/** cassini_le_once() - The same for a plain one. */
struct cassini_le *cassini_le_once(struct cassini_pte *pte, const struct cassini_le_attr *attr);
/** cassini_le_link(), cassini_le_unlink() - Into its list, behind all others; out of it (freed unless busy). */
void cassini_le_link(struct cassini_le *le);
void cassini_le_unlink(struct cassini_le *le);
/**
 * cassini_le_take() - @rlen bytes at @offset of @le (MANAGE_LOCAL: wherever it is) are used. Return: true: used up, to
 * be unlinked.
 */
bool cassini_le_take(struct cassini_le *le, uint64_t rlen, uint64_t *offset, uint32_t *mlength);
/** cassini_le_enlist() - What cassini_le_link() does, where the list is known. */
static inline void cassini_le_enlist(struct cassini_pte *pte, enum cassini_list list, struct cassini_le *le)
{
	le->linked = true;
	mt_posted_add(&pte->list[list], &le->mt);
}
/**
 * cassini_le_consume() - The end of a plain entry that a packet has used, and that nothing else has changed: as
 * cassini_le_unlink().
 */
static inline void cassini_le_consume(struct cassini_pte *pte, struct cassini_le *le)
{
	mt_posted_del(&pte->list[CASSINI_PRIORITY], &le->mt);
	le->linked = false;
	SLIST_INSERT_HEAD(&pte->resting, le, rest);
	pte->lni->used[CASSINI_RSRC_LE]--;
}
/** cassini_le_is_used() - Is @le, of any age, an entry that has not ended? */
static inline bool cassini_le_is_used(const struct cassini_le *le)
{
	return le->linked || le->busy || le->is_held;
}
/** cassini_le_unlinked() - The UNLINK event that had to wait for copies. */
void cassini_le_unlinked(struct cassini_le *le);
/**
 * cassini_le_unref() - A copy ended; frees an entry that was unlinked meanwhile. cassini_match() leaves one reference
 * (busy) in hit->le.
 */
void cassini_le_unref(struct cassini_le *le);
/** cassini_le_free() - Give back its LE. */
void cassini_le_free(struct cassini_le *le);
/** cassini_ule_find() - The oldest header that @le takes, NULL: none. cassini_ule_delist() takes one out,
 * cassini_ule_free() gives back its LE as well, cassini_ule_lose() tells the owner of the PTE, too, if asked to. */
struct cassini_ule *cassini_ule_find(struct cassini_le *le);
void cassini_ule_delist(struct cassini_pte *pte, struct cassini_ule *ule);
void cassini_ule_free(struct cassini_pte *pte, struct cassini_ule *ule);
void cassini_ule_lose(struct cassini_pte *pte, struct cassini_ule *ule);

/* --- the target (cassini_tgt.c) --- */

/** cassini_tgt_frame() - A packet for a PTE of @dom; its payload lies pkt->hdr_len bytes into @frame. Return: the
 * verdict. */
int cassini_tgt_frame(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		      const uint8_t *frame);
/**
 * cassini_tgt_entry() - The entry of a Put that cassini_put_check() has let in, if nothing but to deposit it and to
 * tell of it remains to be done: by cassini_tgt_put(), as cassini_tgt_frame() would. NULL: more does.
 */
struct cassini_le *cassini_tgt_entry(const struct cassini_dom *dom, const struct cassini_pkt_in *pkt);
int cassini_tgt_put(struct cassini_dom *dom, struct cassini_peer *peer, struct cassini_le *le,
		    const struct cassini_pkt_in *pkt, const uint8_t *frame);
/**
 * cassini_tgt_kick() - Start copies that found the path full; report search hits. Called by every poll. Return: things
 * done.
 */
int cassini_tgt_kick(struct cassini_dom *dom);
/**
 * cassini_tgt_close() - @dom is closing: end the copies that were never started. After link_port_close(), which ends
 * the others.
 */
void cassini_tgt_close(struct cassini_dom *dom);
/**
 * cassini_tgt_append_hit() - @le (just appended, priority) took @ule: PUT_OVERFLOW and, for a rendezvous, the adapter's
 * Get.
 */
void cassini_tgt_append_hit(struct cassini_le *le, struct cassini_ule *ule, uint64_t offset, uint32_t mlength,
			    bool auto_unlinked);
/** cassini_tgt_rget_done() - A target's adapter says that it fetched a rendezvous of ours: GET event at PTE 255. */
void cassini_tgt_rget_done(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt);
/**
 * cassini_tgt_get_event() - The GET event at PTE 255 of @dom for @get_bits with @rc (also used when the target died).
 */
void cassini_tgt_get_event(struct cassini_dom *dom, uint32_t initiator, uint64_t get_bits, uint32_t mlength,
			   uint8_t rc);

/* A target's copy in flight, or an event that waits for the ones before it. From pte->copy_slab. */
struct cassini_copy {
	struct cassini_work work;         /* on_bulk */
	STAILQ_ENTRY(cassini_copy) unsent; /* dom->copies: the path was full */
	STAILQ_ENTRY(cassini_copy) order; /* pte->landing */
	STAILQ_ENTRY(cassini_copy) chain; /* peer->chain, if is_chained */
	struct cassini_dom *dom;
	struct cassini_peer *peer;
	uint32_t life;                    /* of the peer */
	struct cassini_le *le;            /* one reference */
	struct cassini_pte *pte;
	struct cassini_ule *ule;          /* header whose data this is */
	struct cassini_event ev;          /* to be reported at the end */
	uint64_t get_bits;                /* rendezvous: for RGET_DONE; at the source: whose end this is */
	uint64_t raddr;
	char *local;
	uint32_t len, eager_len;          /* of a rendezvous: what came before */
	uint32_t region, handle;          /* the initiator's */
	uint8_t link_op;                  /* LINK_GET, LINK_PUT */
	bool has_slot, is_unsent, is_ordered, is_done;
	bool is_chained, is_started;      /* writes to a region take effect in order */
	bool is_rget;                     /* the adapter's own Get */
	bool is_rdzv_source;
	bool is_answered;                 /* perhaps before its end: see cassini_copy_left() */
	bool is_over;                     /* is_unsent: its answer, for which there was no memory */
};
char *cassini_le_place(const struct cassini_le *le, uint64_t offset);
/**
 * cassini_tgt_report() - Event and count of @le as its flags say. @bytes: what CT_BYTES counts. @claimed: a slot of the
 * EQ is.
 */
void cassini_tgt_report(const struct cassini_le *le, struct cassini_event *ev, uint64_t bytes, bool claimed);
/** cassini_put_report() - The same for a PUT, which makes no event if it is unexpected and brought no data. */
void cassini_put_report(struct cassini_le *le, struct cassini_event *ev, bool claimed);
/**
 * cassini_tgt_reply() - REPLY as @ev says, with its mlength bytes of @data, NULL: none. Return: as cassini_answer().
 */
int cassini_tgt_reply(struct cassini_dom *dom, struct cassini_peer *peer, uint32_t handle,
		      const struct cassini_event *ev, const void *data);
/** cassini_copy_reserve() - Return: false: no memory for another one. */
bool cassini_copy_reserve(struct cassini_pte *pte);
/**
 * cassini_copy_new() - One that has been reserved; it refers to @le and claims a slot for @ev. @peer: who is told of
 * its end; NULL: nobody. cassini_copy_start(): do not look at it afterwards.
 */
struct cassini_copy *cassini_copy_new(struct cassini_dom *dom, struct cassini_peer *peer, struct cassini_le *le,
				      const struct cassini_event *ev);
void cassini_copy_start(struct cassini_copy *c);
/** cassini_copy_unmap() - @pte is not mapped into @dom any more: events that wait for their turn are of no Domain. */
void cassini_copy_unmap(struct cassini_pte *pte, const struct cassini_dom *dom);
/** cassini_copy_left() - link_ops.on_bulk_left. */
void cassini_copy_left(void *ctx, void *cookie);
/** cassini_copy_chain() - The same when all earlier ones of its peer's chain have ended. */
void cassini_copy_chain(struct cassini_copy *c);
/* Whose memory a rendezvous comes from; peer is NULL if that Domain is closed. */
struct cassini_rget_src {
	struct cassini_dom *dom;
	struct cassini_peer *peer;
	uint32_t life; /* of it: from who has its address by then nothing is fetched */
	uint32_t handle, region;
	uint64_t get_bits;
};
/**
 * cassini_rget_start() - The adapter's own Get: ev->mlength of @mlength bytes have come, the rest follows behind them
 * to @offset of @le.
 * @ev: the PUT or PUT_OVERFLOW, already reported. A copy has been reserved.
 */
void cassini_rget_start(const struct cassini_rget_src *src, struct cassini_le *le, const struct cassini_event *ev,
			uint64_t offset, uint32_t mlength);
/**
 * cassini_tgt_orphan() - @pte is being closed: what still flies has no events to make, what does not fly is dropped.
 */
void cassini_tgt_orphan(struct cassini_pte *pte);
/**
 * cassini_tgt_stop() - Behind it: what still flies ends without touching memory, as far as link_bulk_stop() does that.
 * Return: false: a peer is in the middle of a copy: ask again, without the lock in between.
 */
bool cassini_tgt_stop(struct cassini_pte *pte);

/* An answer of ours: REPLY, RGET_DONE, PING. Kept until the link has taken it. */
struct cassini_ans {
	struct cassini_work work;
	STAILQ_ENTRY(cassini_ans) link;   /* dom->unsent */
	struct cassini_peer *peer;
	uint32_t life, nonce;             /* of the peer that it is for: another one does not get it */
	uint32_t len;                     /* bytes of @frame */
	uint32_t cost;                    /* counted in peer->owe */
	bool is_ping, is_short;
	uint8_t frame[];
};
/**
 * cassini_answer() - Send @pkt with @len bytes of @data (copied) to @peer, later if the path is full. -ENOMEM: it is
 * not told; -EFAULT: @data is not there.
 */
int cassini_answer(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		   const void *data, size_t len);
/** cassini_answer_ready() - Is there memory for the next one, if it is short? */
static inline bool cassini_answer_ready(struct cassini_dom *dom)
{
	return likely(slab_is_ready(&dom->answers)) || !slab_reserve(&dom->answers, slab_used(&dom->answers) + 1);
}
/** cassini_answers_init() - Return: 0; -ENOMEM. */
int cassini_answers_init(struct cassini_dom *dom);
/** cassini_answers_retry() - One full path must not stop answers to others: each is tried. Return: those that left. */
int cassini_answers_retry(struct cassini_dom *dom);
/** cassini_answers_drop() - @dom closes: what is still unsent goes. */
void cassini_answers_drop(struct cassini_dom *dom);

/* --- what is refused while disabled (cassini_drops.c) --- */

/** cassini_drops_add() - A Put of @peer. */
void cassini_drops_add(struct cassini_pte *pte, struct cassini_peer *peer);
/**
 * cassini_drops_clear() - It is disabled anew, or, @and_apart, closed.
 * cassini_drops_apart() - A Put of @peer meets @pte, which takes packets. Return: not from @peer, and it is counted.
 */
void cassini_drops_clear(struct cassini_pte *pte, bool and_apart);
bool cassini_drops_apart(struct cassini_pte *pte, const struct cassini_peer *peer);
/** cassini_drops_unmap() - Nobody can speak any more of what came by @dom. */
void cassini_drops_unmap(struct cassini_pte *pte, const struct cassini_dom *dom);

/* --- what is owed (cassini_owe.c) --- */

/** cassini_owe(), cassini_owe_less() - An answer of @bytes to @peer, or a copy (0 bytes), begins; has ended. */
void cassini_owe(struct cassini_peer *peer, uint32_t bytes);
void cassini_owe_less(struct cassini_peer *peer, uint32_t bytes);
enum cassini_owe {
	CASSINI_OWE_CNT, /* answers and copies */
	CASSINI_OWE_BYTES,
	CASSINI_OWE_NUM
};
#define CASSINI_OWE_LEAST 16u		   /* that each may have, whatever others do, */
#define CASSINI_OWE_OWN	  (256u << 10) /* and bytes, whatever those of other hosts do */
void cassini_owe_init(struct cassini_dom *dom);
/** cassini_owe_is_much() - Is it worth a look whether @peer has too much? */
static inline bool cassini_owe_is_much(const struct cassini_peer *peer)
{
	const uint64_t *used = peer->owe.used;

	return used[CASSINI_OWE_CNT] >= CASSINI_OWE_LEAST || used[CASSINI_OWE_BYTES] >= CASSINI_OWE_OWN;
}
/** cassini_owe_has_room() - May @peer ask for more data? */
bool cassini_owe_has_room(const struct cassini_peer *peer);
/** cassini_owe_is_too_much() - No honest peer lets so much lie. */
bool cassini_owe_is_too_much(const struct cassini_peer *peer);

/* --- arithmetic (cassini_amo.c) --- */

/** cassini_amo_check() - Is there such an operation on such a type? CASSINI_RC_OK; AMO_INVAL_OP_ERROR. */
uint8_t cassini_amo_check(const struct cassini_amo_in *amo);
/**
 * cassini_amo_exec() - *@target = op(*@target, operands), atomic for all users of this adapter's lock and with respect
 * to the CPU's own atomic instructions on the same naturally aligned word where the type has them. @old: receives what
 * was there (16 bytes room), may be NULL.
 * Return: CASSINI_RC_OK; AMO_INVAL_OP_ERROR, AMO_ALIGN_ERROR, AMO_LENGTH_ERROR; nothing changed then.
 */
uint8_t cassini_amo_exec(const struct cassini_amo_in *amo, void *target, void *old);

#endif
