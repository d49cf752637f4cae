// SPDX-License-Identifier: BSD-2-Clause
// What the target says and when: events, answers, bulk copies and what follows them, the adapter's own Get of a
// rendezvous.
#include "nic/cassini/cassini_tgt.h"

#include <errno.h>

/*
 * Theory of operation
 *
 * Large Puts, the rest of a rendezvous and large answers to Gets move by a bulk copy of ours from or into the
 * initiator's region; a struct cassini_copy remembers meanwhile what is to be said at its end: an event here, a REPLY
 * or RGET_DONE there.
 *
 * Copies end in any order. Events of the request list must not, because software matches in the order of events: there
 * an event waits in pte->landing until those of all earlier packets have been made. A header whose data is still
 * landing can be taken by an append; the append's event then waits too.
 *
 * A PTE may be closed while a copy is under way, if its peer does not answer for long. The copy is stopped then, so
 * that nobody touches memory that its owner may free next; it ends without event, and the last one frees the PTE. A
 * Domain may close while an event of it waits in pte->landing for a copy of another one that the PTE is mapped into:
 * what waits there names neither the Domain nor its peers.
 */

#define RDZV_IDX 255u /* where a rendezvous is fetched at its source */

static struct cassini_stats *stats_of(const struct cassini_dom *dom)
{
	return &dom->nic->stats;
}

/* As arithmetic on integers: the entry may span everything, and a length of 0 is not checked against it. */
char *cassini_le_place(const struct cassini_le *le, uint64_t offset)
{
	return (char *)((uintptr_t)le->start + (uintptr_t)offset);
}

static uint8_t status_rc(int status)
{
	if (!status)
		return CASSINI_RC_OK;
	if (status == -EACCES)
		return CASSINI_RC_NO_TRANSLATION;
	return status == -ECANCELED ? CASSINI_RC_CANCELED : CASSINI_RC_UNDELIVERABLE;
}

/* --- events and counts --- */

/* Does this event count, and what for? A rendezvous counts when its data is there. */
static bool is_counted(const struct cassini_le *le, const struct cassini_event *ev)
{
	bool by_overflow = ev->type >= CASSINI_EV_PUT_OVERFLOW && ev->type <= CASSINI_EV_FETCH_ATOMIC_OVERFLOW;

	if (!le->ct)
		return false;
	if (ev->type == CASSINI_EV_REPLY)
		by_overflow = ev->ptl_list != CASSINI_PRIORITY;
	else if (ev->get_issued)
		return false;
	return le->flags & (by_overflow ? CASSINI_LE_EVENT_CT_OVERFLOW : CASSINI_LE_EVENT_CT_COMM);
}

static __attribute__((cold, noinline)) void dropped(const struct cassini_pte *pte, const struct cassini_event *ev)
{
	if (pte->opts.on_dropped)
		pte->opts.on_dropped(pte->user, ev);
}

/* @bytes: what CT_BYTES counts. @claimed: a slot was. */
void cassini_tgt_report(const struct cassini_le *le, struct cassini_event *ev, uint64_t bytes, bool claimed)
{
	uint32_t flags = le->flags;
	bool failed = ev->rc != CASSINI_RC_OK;

	if (flags & CASSINI_LE_EVENT_COMM_DISABLE || (flags & CASSINI_LE_EVENT_SUCCESS_DISABLE && !failed)) {
		if (claimed)
			cassini_eq_unclaim(le->pte->eq);
	} else if (unlikely(!cassini_eq_push(le->pte->eq, ev, claimed))) {
		dropped(le->pte, ev);
	}
	if (unlikely(is_counted(le, ev)))
		cassini_ct_add(le->ct, failed ? 0 : flags & CASSINI_LE_EVENT_CT_BYTES ? bytes : 1, failed);
}

/* --- answers --- */

int cassini_tgt_reply(struct cassini_dom *dom, struct cassini_peer *peer, uint32_t handle,
		      const struct cassini_event *ev, const void *data)
{
	struct cassini_pkt_in pkt = {
		.op = CASSINI_PKT_REPLY,
		.rc = ev->rc,
		.ptl_list = ev->ptl_list,
		.vni = dom->vni,
		.pid = peer->pid,
		.handle = handle,
		.request_len = ev->rc == CASSINI_RC_OK ? ev->mlength : 0,
	};

	pkt.payload_len = data ? pkt.request_len : 0;
	return cassini_answer(dom, peer, &pkt, data, pkt.payload_len);
}

static int rget_done(struct cassini_dom *dom, struct cassini_peer *peer, uint32_t handle, uint64_t get_bits,
		      uint32_t len, uint8_t rc)
{
	struct cassini_pkt_in pkt = {
		.op = CASSINI_PKT_RGET_DONE,
		.rc = rc,
		.pid_idx = RDZV_IDX,
		.vni = dom->vni,
		.pid = peer->pid,
		.initiator = dom->match_id,
		.request_len = rc == CASSINI_RC_OK ? len : 0,
		.match_bits = get_bits,
		.get_bits = get_bits,
		.handle = handle,
	};

	return cassini_answer(dom, peer, &pkt, NULL, 0);
}

/* --- copies --- */

/*
 * Does who asked for @c still live there? Another process at the same address is told nothing: the numbers that an
 * answer names are its own, of other operations. What those of the old one are to us has ended with it.
 */
static bool is_heard(const struct cassini_copy *c)
{
	return c->life == c->peer->life;
}

static int copy_reply(struct cassini_copy *c)
{
	return is_heard(c) ? cassini_tgt_reply(c->dom, c->peer, c->handle, &c->ev, NULL) : 0;
}

/* Is its initiator told, or does it not hear of it? Return: false: there is no memory for that yet. */
static bool is_told(struct cassini_copy *c)
{
	int rc = 0;

	if (!c->is_answered && c->is_rget && is_heard(c))
		rc = rget_done(c->dom, c->peer, c->handle, c->get_bits, c->len, c->ev.rc);
	else if (!c->is_answered && !c->is_rget)
		rc = copy_reply(c);
	c->is_answered = rc != -ENOMEM;
	return c->is_answered;
}

static void on_bulk(struct cassini_work *work, int status);

/* @le gets a reference. There is an object: the caller has reserved it. */
struct cassini_copy *cassini_copy_new(struct cassini_dom *dom, struct cassini_peer *peer, struct cassini_le *le,
				      const struct cassini_event *ev)
{
	struct cassini_copy *c = slab_get(&le->pte->copy_slab);

	must(c);
	*c = (struct cassini_copy){
		.work = {.on_bulk = on_bulk},
		.dom = dom,
		.peer = peer,
		.life = peer ? peer->life : 0,
		.le = le,
		.pte = le->pte,
		.ev = *ev,
		.has_slot = !cassini_eq_claim(le->pte->eq),
	};
	le->busy++;
	le->pte->busy++;
	if (peer)
		cassini_owe(peer, 0);
	return c;
}

bool cassini_copy_reserve(struct cassini_pte *pte)
{
	return !slab_reserve(&pte->copy_slab, slab_used(&pte->copy_slab) + 1);
}

/* Nothing follows that its initiator hears of, who may go before its event is made. */
static void settle(struct cassini_copy *c)
{
	if (c->peer)
		cassini_owe_less(c->peer, 0);
	c->peer = NULL;
}

static void copy_free(struct cassini_copy *c)
{
	struct cassini_pte *pte = c->pte;

	settle(c);
	cassini_le_unref(c->le);
	slab_put(&pte->copy_slab, c);
	cassini_pte_unbusy(pte);
}

/* The append that took a header while its data was landing. */
static void claimed_report(struct cassini_ule *ule, uint8_t rc)
{
	struct cassini_le *le = ule->claimed;

	ule->ev.rc = rc;
	if (!le->pte->closing)
		cassini_tgt_report(le, &ule->ev, ule->ev.mlength, ule->has_slot);
	cassini_le_unref(le);
}

/* Its data is there, or never will be. */
static void header_landed(struct cassini_pte *pte, struct cassini_ule *ule, uint8_t rc)
{
	bool is_claimed = ule->claimed, is_lost = rc != CASSINI_RC_OK || (!ule->peer && pte->opts.on_lost);

	ule->landing = false;
	if (is_claimed)
		claimed_report(ule, rc);
	if (is_claimed || pte->closing)
		cassini_ule_free(pte, ule);
	else if (is_lost)
		cassini_ule_lose(pte, ule);
	if (!pte->closing)
		cassini_pte_kick(pte);
}

static bool is_silent(const struct cassini_event *ev)
{
	/* Portals: an unexpected message without data is told by its PUT_OVERFLOW only. */
	return ev->ptl_list == CASSINI_OVERFLOW && !ev->mlength && !ev->rendezvous && !ev->auto_unlinked &&
	       ev->rc == CASSINI_RC_OK;
}

void cassini_put_report(struct cassini_le *le, struct cassini_event *ev, bool claimed)
{
	if (!is_silent(ev))
		cassini_tgt_report(le, ev, ev->mlength, claimed);
	else if (claimed)
		cassini_eq_unclaim(le->pte->eq);
}

static void put_finish(struct cassini_copy *c)
{
	if (!c->pte->closing)
		cassini_put_report(c->le, &c->ev, c->has_slot);
	if (c->ule)
		header_landed(c->pte, c->ule, c->ev.rc);
	copy_free(c);
}

/* What has landed and stands first, in order of arrival. */
static void put_finish_ordered(struct cassini_pte *pte)
{
	struct cassini_copy *c;

	while ((c = STAILQ_FIRST(&pte->landing)) && c->is_done) {
		STAILQ_REMOVE_HEAD(&pte->landing, order);
		put_finish(c);
	}
}

void cassini_copy_unmap(struct cassini_pte *pte, const struct cassini_dom *dom)
{
	struct cassini_copy *c;

	STAILQ_FOREACH(c, &pte->landing, order)
		if (c->ev.dom == dom)
			c->ev.dom = NULL;
}

static void get_finish(struct cassini_copy *c)
{
	/* the rendezvous has ended, and its number may be another's */
	bool is_late = c->is_rdzv_source && !is_heard(c);

	if (is_late && c->has_slot)
		cassini_eq_unclaim(c->pte->eq);
	else if (!is_late && !c->pte->closing)
		cassini_tgt_report(c->le, &c->ev, c->ev.mlength, c->has_slot);
	if (c->is_rdzv_source && !is_late)
		cassini_ini_got(c->dom, c->peer, 0, c->get_bits);
	copy_free(c);
}

static void rget_finish(struct cassini_copy *c)
{
	if (!c->pte->closing)
		cassini_tgt_report(c->le, &c->ev, (uint64_t)c->eager_len + c->len, c->has_slot);
	copy_free(c);
}

/* Bulk Puts to regions: one after the other, so that they take effect in order. Flat however many end at once. */
static void chain_go(struct cassini_peer *peer)
{
	struct cassini_copy *c;

	if (peer->is_chain_going)
		return;
	peer->is_chain_going = true;
	while ((c = STAILQ_FIRST(&peer->chain)) && !c->is_started) {
		c->is_started = true;
		cassini_copy_start(c);
	}
	peer->is_chain_going = false;
}

void cassini_copy_chain(struct cassini_copy *c)
{
	c->is_chained = true;
	STAILQ_INSERT_TAIL(&c->peer->chain, c, chain);
	chain_go(c->peer);
}

/*
 * Its bytes have moved, or never will. Its initiator waits for the answer, so without memory for that the whole end is
 * tried again. Return: false: later.
 */
static bool copy_finish(struct cassini_copy *c)
{
	if (!is_told(c)) {
		c->is_over = c->is_unsent = true;
		STAILQ_INSERT_HEAD(&c->dom->copies, c, unsent);
		return false;
	}
	if (c->is_rget) {
		rget_finish(c);
	} else if (c->link_op == LINK_PUT) {
		get_finish(c);
	} else if (c->is_ordered) {
		/* whoever asked, and our Domain, may be gone by the time its event may be made */
		settle(c);
		c->is_done = true;
		put_finish_ordered(c->pte);
	} else {
		put_finish(c);
	}
	return true;
}

static void copy_end(struct cassini_copy *c, int status)
{
	struct cassini_peer *peer = c->is_chained ? c->peer : NULL;

	if (peer)
		STAILQ_REMOVE(&peer->chain, c, cassini_copy, chain);
	c->ev.rc = status_rc(status);
	if (!status && c->link_op == LINK_GET)
		stats_of(c->dom)->rx_bytes += c->len;
	copy_finish(c);
	if (peer)
		chain_go(peer);
}

/*
 * Does the end of a copy with @rc mean that the peer has gone? Not that its port is shut, which it is before it closes:
 * its last frames may lie here unread.
 */
static bool is_gone(int rc)
{
	return rc < 0 && rc != -EAGAIN && rc != -EACCES && rc != -ENOTCONN && rc != -ECANCELED;
}

/* Return: 0 it is under way, and may have ended: do not look at @c; -EAGAIN; else it has failed, with that. */
static int copy_issue(struct cassini_copy *c)
{
	struct cassini_peer *peer = c->peer;
	int rc;

	if (c->dom->closing)
		return -ECANCELED;
	if (!peer->link || !is_heard(c))
		return -EHOSTUNREACH;
	rc = link_bulk(c->dom->port, peer->link, c->link_op, c->local, c->len, c->raddr, c->region, &c->work);
	if (is_gone(rc))
		cassini_peer_gone(peer, c->life);
	return rc;
}

void cassini_copy_start(struct cassini_copy *c)
{
	struct cassini_dom *dom = c->dom;
	int rc = 0;

	if (!c->len) {
		copy_end(c, 0);
		return;
	}
	if (STAILQ_EMPTY(&dom->copies)) {
		STAILQ_INIT(&dom->copies); /* a Domain begins as zeroes */
		rc = copy_issue(c);
	} else {
		rc = -EAGAIN;
	}
	if (rc == -EAGAIN) {
		c->is_unsent = true;
		STAILQ_INSERT_TAIL(&dom->copies, c, unsent);
	} else if (rc) {
		copy_end(c, rc);
	}
}

static void on_bulk(struct cassini_work *work, int status)
{
	struct cassini_copy *c = container_of(work, struct cassini_copy, work);

	if (status == -EFAULT) /* cassini_tgt_stop() */
		status = -ECANCELED;
	if (is_gone(status))
		cassini_peer_gone(c->peer, c->life);
	copy_end(c, status);
}

/*
 * A Get is answered right behind its bytes, not when its initiator has said that they have come, which would be a round
 * trip more. If they cannot be placed there its adapter knows (link_region_is_spoilt()), and we are told by the end.
 * Until then both the answer and the copy are owed, so where that leaves too little room for others the end answers.
 */
void cassini_copy_left(void *ctx, void *cookie)
{
	struct cassini_work *work = cookie;
	struct cassini_copy *c = container_of(work, struct cassini_copy, work);

	(void)ctx;
	if (c->link_op == LINK_PUT && !c->is_answered && cassini_owe_has_room(c->peer))
		c->is_answered = !copy_reply(c);
}

int cassini_tgt_kick(struct cassini_dom *dom)
{
	struct cassini_pte *pte, *next;
	struct cassini_copy *c;
	int n = 0;

	while ((c = STAILQ_FIRST(&dom->copies)) != NULL) {
		int rc;

		/* Out of the queue first: a copy that ends at once may start others. */
		STAILQ_REMOVE_HEAD(&dom->copies, unsent);
		c->is_unsent = false;
		if (c->is_over) {
			if (!copy_finish(c))
				break;
			n++;
			continue;
		}
		rc = copy_issue(c);
		if (rc == -EAGAIN) {
			c->is_unsent = true;
			STAILQ_INSERT_HEAD(&dom->copies, c, unsent);
			break;
		}
		if (rc)
			copy_end(c, rc);
		n++;
	}
	if (likely(LIST_EMPTY(&dom->lni->waiting)))
		return n;
	LIST_FOREACH_SAFE (pte, &dom->lni->waiting, waiting, next)
		cassini_pte_kick(pte);
	return n;
}

void cassini_tgt_close(struct cassini_dom *dom)
{
	struct cassini_copy *c;

	while ((c = STAILQ_FIRST(&dom->copies)) != NULL) {
		STAILQ_REMOVE_HEAD(&dom->copies, unsent);
		c->is_unsent = false;
		c->is_answered = true; /* nobody hears it */
		if (c->is_over)
			copy_finish(c);
		else
			copy_end(c, -ECANCELED);
	}
}

static void copy_orphan(void *obj, void *arg)
{
	struct cassini_copy *c = obj;

	if (c->has_slot)
		cassini_eq_unclaim(c->pte->eq);
	c->has_slot = c->is_ordered = false;
	if (c->is_done) {
		put_finish(c);
	} else if (c->is_over) {
		return; /* only its answer is left, which does not need us */
	} else if (c->is_unsent) {
		STAILQ_REMOVE(&c->dom->copies, c, cassini_copy, unsent);
		c->is_unsent = false;
		copy_end(c, -ECANCELED);
	} else if (c->is_chained && !c->is_started) {
		copy_end(c, -ECANCELED);
	}
}

static void ule_orphan(void *obj, void *arg)
{
	struct cassini_ule *ule = obj;

	if (ule->has_slot)
		cassini_eq_unclaim(ule->claimed->pte->eq);
	ule->has_slot = false;
}

static void le_orphan(void *obj, void *arg)
{
	struct cassini_le *le = obj;

	if (le->is_unlinking)
		cassini_eq_unclaim(le->pte->eq);
	le->is_unlinking = false;
}

void cassini_tgt_orphan(struct cassini_pte *pte)
{
	STAILQ_INIT(&pte->landing);
	slab_foreach(&pte->le_slab, le_orphan, NULL);
	slab_foreach(&pte->ule_slab, ule_orphan, NULL);
	slab_foreach(&pte->copy_slab, copy_orphan, NULL);
}

/* What is over has moved its bytes, and waits for memory to say so. */
static void copy_stop(void *obj, void *arg)
{
	const struct cassini_copy *c = obj;
	bool *is_free = arg;

	if (!c->is_over && !link_bulk_stop(c->dom->port, &c->work))
		*is_free = false;
}

bool cassini_tgt_stop(struct cassini_pte *pte)
{
	bool is_free = true;

	slab_foreach(&pte->copy_slab, copy_stop, &is_free);
	return is_free;
}

/* --- rendezvous: the adapter's own Get --- */

/*
 * @eager_len bytes of @mlength have come; the rest follows to @offset + @eager_len of @le. @ev: the PUT or
 * PUT_OVERFLOW, already reported. @src: whose memory; its peer is NULL if that Domain is closed.
 */
void cassini_rget_start(const struct cassini_rget_src *src, struct cassini_le *le, const struct cassini_event *ev,
			uint64_t offset, uint32_t mlength)
{
	bool is_there = src->peer && src->life == src->peer->life;
	uint32_t eager_len = MIN(ev->mlength, mlength);
	struct cassini_event end = *ev;
	struct cassini_copy *c;

	end.type = CASSINI_EV_REPLY;
	end.mlength = mlength - eager_len;
	end.auto_unlinked = false;
	end.start = cassini_le_place(le, offset + eager_len);
	if (!is_there) {
		end.rc = src->peer ? CASSINI_RC_UNDELIVERABLE : CASSINI_RC_CANCELED;
		cassini_tgt_report(le, &end, 0, false);
		return;
	}
	stats_of(src->dom)->rgets++;
	c = cassini_copy_new(src->dom, src->peer, le, &end);
	c->is_rget = true;
	c->link_op = LINK_GET;
	c->local = end.start;
	c->len = end.mlength;
	c->eager_len = eager_len;
	c->raddr = ev->remote_offset + eager_len;
	c->region = src->region;
	c->handle = src->handle;
	c->get_bits = src->get_bits;
	cassini_copy_start(c);
}

void cassini_tgt_append_hit(struct cassini_le *le, struct cassini_ule *ule, uint64_t offset, uint32_t mlength,
			    bool auto_unlinked)
{
	struct cassini_peer *peer = ule->peer;
	struct cassini_rget_src src = {
		peer ? peer->dom : NULL, peer, ule->life, ule->handle, ule->region, ule->get_bits};
	struct cassini_event ev = ule->ev;

	/* GET_OVERFLOW and the others follow in the same order */
	ev.type = (uint8_t)(ev.type + CASSINI_EV_PUT_OVERFLOW);
	ev.user_ptr = le->user_ptr;
	ev.auto_unlinked = auto_unlinked;
	ev.get_issued = ev.rendezvous && !le->pte->opts.no_rget;
	if (ule->landing) {
		cassini_ule_delist(le->pte, ule);
		ule->claimed = le;
		ule->ev = ev;
		ule->has_slot = !cassini_eq_claim(le->pte->eq);
		le->busy++;
		return;
	}
	cassini_ule_free(le->pte, ule);
	cassini_tgt_report(le, &ev, ev.mlength, false);
	if (ev.get_issued)
		cassini_rget_start(&src, le, &ev, offset, mlength);
}

/* --- the source of a rendezvous --- */

void cassini_tgt_get_event(struct cassini_dom *dom, uint32_t initiator, uint64_t get_bits, uint32_t mlength, uint8_t rc)
{
	struct cassini_pte *pte = dom->pte[RDZV_IDX];
	struct mt_node *n = pte ? mt_posted_match(&pte->list[CASSINI_PRIORITY], initiator, get_bits) : NULL;
	struct cassini_le *le = n ? container_of(n, struct cassini_le, mt) : NULL;
	struct cassini_event ev = {
		.dom = dom,
		.type = CASSINI_EV_GET,
		.rc = rc,
		.ptl_list = CASSINI_PRIORITY,
		.vni = dom->vni,
		.initiator = initiator,
		.mlength = mlength,
		.rlength = mlength,
		.match_bits = get_bits,
	};

	if (!le || !(le->flags & CASSINI_LE_OP_GET))
		return;
	ev.user_ptr = le->user_ptr;
	cassini_tgt_report(le, &ev, mlength, false);
}

void cassini_tgt_rget_done(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt)
{
	uint32_t target = CASSINI_MATCH_ID(peer->pid, peer->nic);
	struct mt_node *n = mt_unexp_find(&dom->rdzv, target, pkt->match_bits, 0);
	struct cassini_op *op = n ? container_of(n, struct cassini_op, rdzv) : NULL;
	uint8_t rc = pkt->rc != CASSINI_RC_NO_EVENT ? pkt->rc : CASSINI_RC_OK;

	if (!op || op->peer != peer || slab_id(&dom->ops, op) != pkt->handle) {
		stats_of(dom)->malformed++;
		return;
	}
	cassini_tgt_get_event(dom, target, pkt->match_bits, MIN(pkt->request_len, op->cmd.request_len), rc);
	cassini_ini_got(dom, peer, pkt->handle, pkt->match_bits);
}
