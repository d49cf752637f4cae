// SPDX-License-Identifier: BSD-2-Clause
// A packet's life at the target: refused, or matched, deposited or fetched, reported, answered.
#include <errno.h>

#include "base/bits.h"
#include "base/guard.h"
#include "base/log.h"
#include "nic/cassini/cassini_tgt.h"

/*
 * Theory of operation
 *
 * cassini_match() decides where a packet's bytes go and takes that place at once, so the order of matching is the order
 * of arrival. Bytes that came in the frame are copied there from the frame, and the verdict of the link is the
 * acknowledgement. Bytes that did not move by a bulk copy of ours, see cassini_copy.c.
 *
 * An event that will come later has its slot in the EQ claimed, so flow control is decided once, when the packet
 * arrives.
 *
 * Nothing here trusts the peer. The door has checked form and lengths; match, bounds and permissions are
 * cassini_match()'s; a region key that is wrong ends the copy with -EACCES; an entry over the whole address space is no
 * licence to read or write anywhere, see source_of().
 */

#define ARRIVE_SLOTS 3u   /* most events of one packet: MATCH, PUT, REPLY */
/* writes at this pid_idx and above take effect in order; those below are messages, whose order is that of matching */
#define REGION_IDX   16u

/* A packet on its way through. */
struct arrival {
	struct cassini_dom *dom;
	struct cassini_stats *stats;
	struct cassini_peer *peer;
	struct cassini_pte *pte;
	const struct cassini_pkt_in *pkt;
	const uint8_t *frame; /* its payload lies pkt->hdr_len bytes into it */
	struct cassini_hit hit;
	struct cassini_event *ev;
	struct cassini_op *source; /* GET of a rendezvous of ours */
};

/*
 * Some functions get a constant @is_admitted: cassini_tgt_entry() has let it in, as a Put without flags, for
 * an entry that takes just one, and is used up by it, of a PTE that asks for nothing else, and has asked all at once
 * what they would ask one by one.
 */
#define FOLDED static inline __attribute__((always_inline))

/* By kind of packet. */
static const struct kind {
	uint8_t event; /* enum cassini_event_type */
	bool is_put;
} kinds[CASSINI_PKT_NUM] = {
	[CASSINI_PKT_PUT] = {CASSINI_EV_PUT, true},	   [CASSINI_PKT_PUT_BULK] = {CASSINI_EV_PUT, true},
	[CASSINI_PKT_RPUT] = {CASSINI_EV_PUT, true},	   [CASSINI_PKT_GET] = {CASSINI_EV_GET, false},
	[CASSINI_PKT_ATOMIC] = {CASSINI_EV_ATOMIC, false}, [CASSINI_PKT_FETCH] = {CASSINI_EV_FETCH_ATOMIC, false},
};

static bool is_put(const struct cassini_pkt_in *pkt)
{
	return kinds[pkt->op].is_put;
}

/* --- events and counts --- */

/* Of entries that tell of successes only: who does not hear of the end need not hear of the beginning. */
static __attribute__((cold)) void match_report(const struct arrival *a)
{
	struct cassini_event match = *a->ev;

	if (a->hit.le->flags & (CASSINI_LE_EVENT_COMM_DISABLE | CASSINI_LE_EVENT_SUCCESS_DISABLE))
		return;
	match.type = CASSINI_EV_MATCH;
	match.auto_unlinked = false;
	cassini_eq_push(a->pte->eq, &match, false);
}

FOLDED void event_fill(struct arrival *a, bool is_admitted)
{
	const struct cassini_pkt_in *pkt = a->pkt;
	bool is_rdzv = !is_admitted && pkt->op == CASSINI_PKT_RPUT;

	*a->ev = (struct cassini_event){
		.type = is_admitted ? (uint8_t)CASSINI_EV_PUT : kinds[pkt->op].event,
		.rc = CASSINI_RC_OK,
		.ptl_list = a->hit.list,
		.rendezvous = is_rdzv,
		.get_issued = is_rdzv && a->hit.list == CASSINI_PRIORITY && !a->pte->opts.no_rget,
		.auto_unlinked = a->hit.auto_unlinked,
		.rendezvous_id = is_admitted ? 0 : pkt->rendezvous_id,
		.state = 0, /* to name them all is quicker than to zero the rest */
		.sc_reason = 0,
		.nic_auto = false,
		.atomic_op = is_admitted ? 0 : pkt->amo.op,
		.atomic_type = is_admitted ? 0 : pkt->amo.type,
		.vni = a->dom->vni,
		.initiator = pkt->initiator,
		.mlength = a->hit.mlength,
		.rlength = pkt->request_len,
		.life = is_admitted ? 0 : a->peer->life,
		.user_ptr = a->hit.le->user_ptr,
		.match_bits = pkt->match_bits,
		.header_data = pkt->header_data,
		.remote_offset = pkt->remote_offset,
		.start = cassini_le_place(a->hit.le, a->hit.offset),
		.dom = a->dom,
	};
	if (!is_admitted && unlikely(a->pte->opts.en_event_match))
		match_report(a);
}

/* --- refusals --- */

static int drop(struct arrival *a)
{
	if (is_put(a->pkt)) {
		a->pte->drop_count = (a->pte->drop_count + 1) & 0xffffff;
		if (a->pte->opts.en_flowctrl)
			cassini_drops_add(a->pte, a->peer);
	}
	a->stats->pt_disabled_naks++;
	return CASSINI_RC_PT_DISABLED;
}

/*
 * Lossless: the sender keeps this one, and all behind it, until it may try again. What it has sent meanwhile comes here
 * before that and must not overtake: only the first one of those that were held back says AGAIN, when nothing of them
 * is under way.
 */
static __attribute__((cold)) int hold_back(struct arrival *a)
{
	a->peer->paused |= (uint16_t)BIT(a->pkt->pid_idx);
	a->stats->lossless_pauses++;
	return CASSINI_RC_RESOURCE_BUSY;
}

static __attribute__((cold)) bool must_hold_back(struct arrival *a)
{
	uint16_t bit = a->pkt->pid_idx < 16 && is_put(a->pkt) ? (uint16_t)BIT(a->pkt->pid_idx) : 0;

	if (!(a->peer->paused & bit))
		return false;
	if (a->pte->opts.lossless && !(a->pkt->flags & CASSINI_PKTF_AGAIN))
		return true;
	a->peer->paused &= (uint16_t)~bit;
	return false;
}

/* Flow control: the entry takes no packets at all, so that none is lost. */
static __attribute__((cold)) int stop(struct arrival *a, enum cassini_sc_reason why)
{
	/* for want of list entries software has to take over what is there, which only flow control asks for */
	if (a->pte->opts.lossless && a->pkt->pid_idx < 16 && why != CASSINI_SC_FC_UNEXPECTED_FAIL)
		return hold_back(a);
	cassini_pte_set(a->pte, CASSINI_PTE_DISABLED, why, true);
	return drop(a);
}

/* Of accesses to regions, that is: of messages, waiting for a receive is the ordinary case. */
static __attribute__((cold, noinline)) void tell_refused(const struct arrival *a, uint8_t rc)
{
	const struct cassini_pkt_in *pkt = a->pkt;
	const char *what = is_put(pkt) ? "write" : pkt->op == CASSINI_PKT_GET ? "read" : "atomic";

	if (pkt->pid_idx >= REGION_IDX)
		LOG_FEW(LOG_LVL_WARN, a->dom->refused_told,
			"a peer's %s of %u bytes at offset 0x%llx of the region at index %u, match bits 0x%llx, "
			"refused: %s",
			what, pkt->request_len, (unsigned long long)pkt->remote_offset, pkt->pid_idx,
			(unsigned long long)pkt->match_bits, cassini_rc_str(rc));
}

static __attribute__((cold)) int refuse(struct arrival *a, uint8_t rc)
{
	struct cassini_stats *stats = a->stats;
	bool is_fc = a->pte->opts.en_flowctrl && is_put(a->pkt);

	tell_refused(a, rc);
	switch (rc) {
	case CASSINI_RC_ENTRY_NOT_FOUND:
		if (is_fc && a->pte->state == CASSINI_PTE_SOFTWARE_MANAGED) {
			stats->request_full++;
			return stop(a, CASSINI_SC_FC_REQUEST_FULL);
		}
		if (is_fc) {
			stats->no_match_drops++;
			return stop(a, CASSINI_SC_FC_NO_MATCH);
		}
		stats->entry_not_found++;
		break;
	case CASSINI_RC_NO_SPACE:
		stats->le_exhausted++;
		if (is_fc)
			return stop(a, CASSINI_SC_FC_UNEXPECTED_FAIL);
		break;
	case CASSINI_RC_OP_VIOLATION:
		stats->op_violation++;
		break;
	default:
		break;
	}
	return rc;
}

/* --- Puts --- */

static int verdict(const struct arrival *a)
{
	return likely(a->hit.list == CASSINI_PRIORITY) ? 0 : CASSINI_VERDICT_LIST + a->hit.list;
}

static void header_fill(struct arrival *a, bool is_landing)
{
	struct cassini_ule *ule = a->hit.ule;

	ule->ev = *a->ev;
	ule->peer = a->peer;
	ule->life = a->peer->life;
	ule->get_bits = a->pkt->get_bits;
	ule->handle = a->pkt->handle;
	ule->region = a->pkt->region;
	ule->landing = is_landing;
	a->stats->ule_appends++;
}

/* Software matches in the order of events. */
static bool must_wait(const struct arrival *a)
{
	return a->hit.list == CASSINI_REQUEST && !STAILQ_EMPTY(&a->pte->landing);
}

/* Its verdict is all that its peer hears: nothing is owed. */
static __attribute__((noinline)) void report_later(struct arrival *a)
{
	struct cassini_copy *c = cassini_copy_new(a->dom, NULL, a->hit.le, a->ev);

	c->is_ordered = c->is_done = true;
	STAILQ_INSERT_TAIL(&a->pte->landing, c, order);
}

/* Its bytes are in place. */
FOLDED int put_done(struct arrival *a, bool is_admitted)
{
	if (is_admitted)
		return 0; /* cassini_tgt_put() goes on */
	if (unlikely(a->hit.ule))
		header_fill(a, false);
	if (unlikely(must_wait(a)))
		report_later(a);
	else
		cassini_put_report(a->hit.le, a->ev, false);
	return verdict(a);
}

/* The operation fails: its event says so, and so does the acknowledgement. */
FOLDED int fail(struct arrival *a, uint8_t rc, bool is_admitted)
{
	a->ev->rc = rc;
	a->ev->rendezvous = a->ev->get_issued = false;
	if (!is_admitted && unlikely(a->hit.ule)) {
		header_fill(a, false);
		cassini_ule_free(a->pte, a->hit.ule);
	}
	cassini_tgt_report(a->hit.le, a->ev, a->ev->mlength, false);
	return rc;
}

/*
 * The first @len bytes of the payload to their place: memory of the program if the list is its own, else ours. To guard
 * the shortest Puts of a receive, too, would cost them 3 % of their instructions: it is the program's own, no region
 * that peers choose from. Return: it is there.
 */
FOLDED bool deposit(struct arrival *a, uint32_t len, bool is_admitted)
{
	const uint8_t *data = a->frame + a->pkt->hdr_len;

	if (a->hit.list == CASSINI_PRIORITY && !(is_admitted && likely(len <= COPY_SMALL_MAX)))
		return guard_write(a->ev->start, data, len);
	copy_bytes(a->ev->start, data, len);
	return true;
}

FOLDED int put(struct arrival *a, bool is_admitted)
{
	if (unlikely(!deposit(a, a->hit.mlength, is_admitted)))
		return fail(a, CASSINI_RC_NO_TRANSLATION, is_admitted);
	a->stats->rx_bytes += a->hit.mlength;
	return put_done(a, is_admitted);
}

static int put_bulk(struct arrival *a)
{
	struct cassini_copy *c = cassini_copy_new(a->dom, a->peer, a->hit.le, a->ev);

	c->link_op = LINK_GET;
	c->local = a->ev->start;
	c->len = a->hit.mlength;
	c->raddr = a->pkt->raddr;
	c->region = a->pkt->region;
	c->handle = a->pkt->handle;
	if (a->hit.ule) {
		header_fill(a, true);
		c->ule = a->hit.ule;
	}
	if (a->hit.list == CASSINI_REQUEST) {
		c->is_ordered = true;
		STAILQ_INSERT_TAIL(&a->pte->landing, c, order);
	}
	if (a->pkt->pid_idx >= REGION_IDX && !(a->pkt->flags & CASSINI_PKTF_RESTRICTED))
		cassini_copy_chain(c);
	else
		cassini_copy_start(c);
	return 0;
}

static int rput(struct arrival *a)
{
	struct cassini_rget_src src = {
		a->dom, a->peer, a->peer->life, a->pkt->handle, a->pkt->region, a->pkt->get_bits};
	uint32_t eager_len = MIN(a->pkt->payload_len, a->hit.mlength);

	if (unlikely(!deposit(a, eager_len, false)))
		return fail(a, CASSINI_RC_NO_TRANSLATION, false);
	a->stats->rx_bytes += eager_len;
	a->ev->mlength = eager_len;
	if (a->hit.list != CASSINI_PRIORITY || a->pte->opts.no_rget)
		return put_done(a, false);
	cassini_tgt_report(a->hit.le, a->ev, 0, false);
	cassini_rget_start(&src, a->hit.le, a->ev, a->hit.offset, a->hit.mlength);
	return 0;
}

/* --- Gets --- */

/*
 * An entry over the whole address space lets a Get read what a rendezvous of ours offers to just this peer, as on the
 * adapter it reaches no further than what is mapped. Return: the operation; NULL: nothing is offered there.
 */
static struct cassini_op *source_of(const struct arrival *a)
{
	const struct cassini_pkt_in *pkt = a->pkt;
	struct mt_node *n =
		mt_unexp_find(&a->dom->rdzv, CASSINI_MATCH_ID(a->peer->pid, a->peer->nic), pkt->match_bits, 0);
	struct cassini_op *op = n ? container_of(n, struct cassini_op, rdzv) : NULL;
	uint64_t offset;

	if (!op || op->peer != a->peer)
		return NULL;
	offset = pkt->remote_offset - (uintptr_t)op->cmd.local_addr; /* wraps where it lies below */
	if (offset > op->cmd.request_len || a->hit.mlength > op->cmd.request_len - offset)
		return NULL;
	return op;
}

/* A restricted Get may be repeated: cassini_rdzv_done() is how its receiver says that it needs no more of them. */
static bool ends_source(const struct arrival *a)
{
	return a->source && !(a->pkt->flags & CASSINI_PKTF_RESTRICTED);
}

static int get_bulk(struct arrival *a)
{
	struct cassini_copy *c = cassini_copy_new(a->dom, a->peer, a->hit.le, a->ev);

	c->link_op = LINK_PUT;
	c->local = a->ev->start;
	c->len = a->hit.mlength;
	c->raddr = a->pkt->raddr;
	c->region = a->pkt->region;
	c->handle = a->pkt->handle;
	c->get_bits = a->pkt->match_bits;
	c->is_rdzv_source = ends_source(a);
	cassini_copy_start(c);
	return 0;
}

/* No memory for the answer. Its initiator asks again, unless its place is used up, or its beginning was told of. */
static __attribute__((cold, noinline)) int unanswered(struct arrival *a)
{
	if (a->hit.auto_unlinked || a->hit.le->flags & CASSINI_LE_MANAGE_LOCAL || a->pte->opts.en_event_match)
		return fail(a, CASSINI_RC_NO_SPACE, false);
	if (a->hit.ule)
		cassini_ule_free(a->pte, a->hit.ule);
	return CASSINI_RC_RESOURCE_BUSY;
}

static int get(struct arrival *a)
{
	int ret;

	if (a->pkt->region) {
		if (unlikely(a->hit.ule))
			header_fill(a, false);
		return get_bulk(a);
	}
	ret = cassini_tgt_reply(a->dom, a->peer, a->pkt->handle, a->ev, a->ev->start);
	if (unlikely(ret == -EFAULT)) {
		a->ev->rc = CASSINI_RC_NO_TRANSLATION;
		ret = cassini_tgt_reply(a->dom, a->peer, a->pkt->handle, a->ev, NULL);
	}
	if (unlikely(ret))
		return unanswered(a);
	if (unlikely(a->hit.ule))
		header_fill(a, false);
	cassini_tgt_report(a->hit.le, a->ev, a->ev->mlength, false);
	if (unlikely(ends_source(a)))
		cassini_ini_got(a->dom, a->peer, 0, a->pkt->match_bits);
	return 0;
}

/* --- atomics --- */

struct amo_run {
	const struct cassini_amo_in *amo;
	void *target;
	uint8_t old[16];
	uint8_t rc;
};

static void amo_run(void *arg)
{
	struct amo_run *r = arg;

	r->rc = cassini_amo_exec(r->amo, r->target, r->old);
}

static int atomic(struct arrival *a)
{
	struct amo_run r = {.amo = &a->pkt->amo, .target = a->ev->start};

	if (unlikely(a->pkt->op == CASSINI_PKT_FETCH && !cassini_answer_ready(a->dom)))
		return fail(a, CASSINI_RC_NO_SPACE, false); /* not done yet; it has an order, and cannot come again */
	if (a->hit.mlength != a->pkt->request_len)
		return fail(a, CASSINI_RC_ADDR_OUT_OF_RANGE, false); /* it was cut: half an operation is none */
	if (unlikely(!guard_call(r.target, a->hit.mlength, amo_run, &r)))
		r.rc = CASSINI_RC_NO_TRANSLATION;
	if (r.rc != CASSINI_RC_OK)
		return fail(a, r.rc, false);
	if (unlikely(a->hit.ule))
		header_fill(a, false);
	a->stats->rx_bytes += a->hit.mlength;
	cassini_tgt_report(a->hit.le, a->ev, a->ev->mlength, false);
	if (a->pkt->op == CASSINI_PKT_ATOMIC)
		return verdict(a);
	cassini_tgt_reply(a->dom, a->peer, a->pkt->handle, a->ev, r.old);
	return 0;
}

/* --- arrival --- */

/* What can be said before anything is matched: CASSINI_RC_OK or why not. */
static uint8_t pkt_refusal(const struct arrival *a)
{
	const struct cassini_pkt_in *pkt = a->pkt;

	/* without match bits there is nothing to match */
	if (pkt->flags & CASSINI_PKTF_RESTRICTED && a->pte->opts.is_matching)
		return CASSINI_RC_RESTRICTED_UNICAST;
	if (a->pte->state == CASSINI_PTE_SOFTWARE_MANAGED && !is_put(pkt))
		return CASSINI_RC_PTLTE_SW_MANAGED;
	if (pkt->op == CASSINI_PKT_GET)
		return pkt->region || pkt->request_len <= CASSINI_FRAME_DATA ? CASSINI_RC_OK
									     : CASSINI_RC_CMD_INVALID_ARG;
	if (pkt->op != CASSINI_PKT_ATOMIC && pkt->op != CASSINI_PKT_FETCH)
		return CASSINI_RC_OK;
	if (a->pte->opts.no_atomic)
		return CASSINI_RC_OP_VIOLATION;
	if (cassini_amo_check(&pkt->amo) != CASSINI_RC_OK)
		return CASSINI_RC_AMO_INVAL_OP_ERROR;
	return pkt->request_len == cassini_amo_type_size(pkt->amo.type) ? CASSINI_RC_OK : CASSINI_RC_AMO_LENGTH_ERROR;
}

/* Its initiator takes no answers. Return: RESOURCE_BUSY, ask again; RC_OK: it may go on; else the end. */
static __attribute__((cold, noinline)) uint8_t owed_refusal(struct arrival *a)
{
	struct cassini_stats *stats = a->stats;

	if (a->pkt->op == CASSINI_PKT_GET && !cassini_owe_has_room(a->peer)) {
		stats->owed_busy++;
		return CASSINI_RC_RESOURCE_BUSY;
	}
	if (a->pkt->op == CASSINI_PKT_PUT || a->pkt->op == CASSINI_PKT_ATOMIC || !cassini_owe_is_too_much(a->peer))
		return CASSINI_RC_OK;
	stats->owed_ended++;
	LOG_FEW(LOG_LVL_WARN, a->dom->refused_told,
		"PID %u at NIC 0x%x does not take its %llu answers: it is no peer any more", a->peer->pid, a->peer->nic,
		(unsigned long long)a->peer->owe.used[CASSINI_OWE_CNT]);
	cassini_peer_gone(a->peer, a->peer->life);
	return CASSINI_RC_UNDELIVERABLE;
}

/* Is there room for what it will lead to? */
static bool is_reserved(const struct arrival *a)
{
	const struct cassini_pkt_in *pkt = a->pkt;

	if (pkt->op == CASSINI_PKT_PUT_BULK || pkt->op == CASSINI_PKT_RPUT ||
	    (pkt->op == CASSINI_PKT_GET && pkt->region) ||
	    !STAILQ_EMPTY(&a->pte->landing))
		return cassini_copy_reserve(a->pte);
	return true;
}

/* Finds its entry, perhaps by handing the PTE over to software. Return: CASSINI_RC_OK; why not. */
static uint8_t match(struct arrival *a)
{
	struct cassini_pte *pte = a->pte;

	cassini_match(pte, a->pkt, &a->hit);
	if (unlikely(!a->hit.le && a->hit.rc == CASSINI_RC_NO_SPACE && is_put(a->pkt) &&
		     mt_posted_cnt(&pte->list[CASSINI_REQUEST]))) {
		a->stats->le_exhausted++;
		cassini_pte_set(pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_SM_UNEXPECTED_FAIL, true);
		cassini_match(pte, a->pkt, &a->hit);
	}
	return a->hit.le ? CASSINI_RC_OK : a->hit.rc;
}

FOLDED void hit_count(const struct arrival *a, bool is_admitted)
{
	struct cassini_stats *stats = a->stats;

	stats->priority_hits += a->hit.list == CASSINI_PRIORITY;
	if (is_admitted)
		return;
	stats->plec_hits += !a->pte->opts.is_matching;
	stats->overflow_hits += a->hit.list == CASSINI_OVERFLOW;
	stats->request_hits += a->hit.list == CASSINI_REQUEST;
}

static int put_whole(struct arrival *a)
{
	return put(a, false);
}

/* By kind of packet, what is done with it. Return: the verdict. */
static int (*const rows[CASSINI_PKT_NUM])(struct arrival *a) = {
	[CASSINI_PKT_PUT] = put_whole, [CASSINI_PKT_PUT_BULK] = put_bulk, [CASSINI_PKT_RPUT] = rput,
	[CASSINI_PKT_GET] = get,       [CASSINI_PKT_ATOMIC] = atomic,	  [CASSINI_PKT_FETCH] = atomic,
};

/* It has its entry, and its place there. */
FOLDED int perform(struct arrival *a, bool is_admitted)
{
	if (!is_admitted && unlikely(a->hit.le->length == UINT64_MAX)) {
		/* a Get of nothing ends its source, too */
		a->source = a->pkt->op == CASSINI_PKT_GET ? source_of(a) : NULL;
		if (!a->source && (a->hit.mlength || a->pkt->op == CASSINI_PKT_GET)) {
			if (a->hit.ule)
				cassini_ule_free(a->pte, a->hit.ule);
			return CASSINI_RC_NO_TRANSLATION;
		}
		if (a->source && a->source->region) /* software asks: what was sent ahead has gone by */
			link_offer_missed(a->dom->port, a->peer->link, a->source->region);
	}
	hit_count(a, is_admitted);
	event_fill(a, is_admitted);
	return is_admitted ? put(a, true) : rows[a->pkt->op](a);
}

/* A sender that has not told of what was refused before gets no further. */
static __attribute__((cold)) bool is_apart(const struct arrival *a)
{
	if (!is_put(a->pkt) || !cassini_drops_apart(a->pte, a->peer))
		return false;
	a->stats->pt_disabled_naks++;
	return true;
}

/* May it come in, and is there room for what it will lead to? Return: 0; else the verdict. */
static int admit(struct arrival *a)
{
	uint8_t rc = pkt_refusal(a);

	if (unlikely(rc != CASSINI_RC_OK))
		return refuse(a, rc);
	if (unlikely(a->pte->apart_cnt) && is_apart(a))
		return CASSINI_RC_PT_DISABLED;
	if (unlikely(cassini_owe_is_much(a->peer)) && (rc = owed_refusal(a)) != CASSINI_RC_OK)
		return rc;
	if (unlikely(a->peer->paused && must_hold_back(a)))
		return hold_back(a);
	if (unlikely(a->pte->opts.en_flowctrl && is_put(a->pkt) && !cassini_eq_has_room(a->pte->eq, ARRIVE_SLOTS))) {
		a->stats->eq_full++;
		return stop(a, CASSINI_SC_FC_EQ_FULL);
	}
	return unlikely(!is_reserved(a)) ? refuse(a, CASSINI_RC_NO_SPACE) : 0;
}

/* Is the PTE there, and does it take packets? Return: 0; else the verdict. */
static int shut(struct arrival *a)
{
	if (unlikely(!a->pte)) {
		a->stats->ptlte_not_found++;
		tell_refused(a, CASSINI_RC_PTLTE_NOT_FOUND);
		return CASSINI_RC_PTLTE_NOT_FOUND;
	}
	switch ((enum cassini_pte_state)a->pte->state) {
	case CASSINI_PTE_ENABLED:
	case CASSINI_PTE_SOFTWARE_MANAGED:
		return 0;
	case CASSINI_PTE_DISABLED:
		return drop(a);
	case CASSINI_PTE_RESET:
	case CASSINI_PTE_ETHERNET:
	case CASSINI_PTE_STATE_NUM:
		break;
	}
	a->stats->pt_disabled_naks++;
	return CASSINI_RC_PT_DISABLED;
}

static inline void pkt_count(struct cassini_stats *stats, uint8_t flags)
{
	if (flags & CASSINI_PKTF_RESTRICTED)
		stats->rx_restricted_pkts++;
	else
		stats->rx_unrestricted_pkts++;
}

int cassini_tgt_frame(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		      const uint8_t *frame)
{
	struct cassini_event ev;
	struct arrival a = {
		.dom = dom,
		.stats = &dom->nic->stats,
		.peer = peer,
		.pte = dom->pte[pkt->pid_idx],
		.pkt = pkt,
		.frame = frame,
		.ev = &ev,
	};
	struct cassini_le *le;
	uint8_t rc;
	int verdict;

	pkt_count(a.stats, pkt->flags);
	verdict = shut(&a);
	verdict = verdict ? verdict : admit(&a);
	if (unlikely(verdict))
		return verdict;
	rc = match(&a);
	if (unlikely(rc != CASSINI_RC_OK))
		return refuse(&a, rc);
	le = a.hit.le;
	verdict = perform(&a, false);
	cassini_le_unref(le);
	return verdict;
}

/*
 * What shut(), admit() and match() find out step by step is known here beforehand: of the PTE since its state was set
 * (is_open), of the entry since it was made (is_once).
 */
inline struct cassini_le *cassini_tgt_entry(const struct cassini_dom *dom, const struct cassini_pkt_in *pkt)
{
	struct cassini_pte *pte = dom->pte[pkt->pid_idx];
	struct cassini_le *le;
	struct mt_node *n;

	if (unlikely(!pte || !pte->is_open || !cassini_eq_room(pte->eq, ARRIVE_SLOTS)))
		return NULL;
	n = mt_posted_match(&pte->list[CASSINI_PRIORITY], pkt->initiator, pkt->match_bits);
	if (unlikely(!n))
		return NULL;
	le = container_of(n, struct cassini_le, mt);
	return likely(le->is_once) ? le : NULL;
}

/* @ev lies where the next event will: it is shown, or becomes that. What came before must not come behind it. */
static inline void tell(const struct cassini_pte *pte, const struct cassini *nic, const struct cassini_event *ev)
{
	struct cassini_eq *eq = pte->eq;

	if (unlikely(!pte->show || eq->rd != eq->wr || nic->in_service || !pte->show(ev)))
		cassini_eq_publish(eq);
}

inline int cassini_tgt_put(struct cassini_dom *dom, struct cassini_peer *peer, struct cassini_le *le,
			   const struct cassini_pkt_in *pkt, const uint8_t *frame)
{
	struct cassini_pte *pte = dom->pte[pkt->pid_idx];
	struct arrival a = {.dom = dom,
			    .stats = &dom->nic->stats,
			    .peer = peer,
			    .pte = pte,
			    .pkt = pkt,
			    .frame = frame,
			    .ev = cassini_eq_next(pte->eq)};
	int verdict;

	a.hit = (struct cassini_hit){.le = le, .list = CASSINI_PRIORITY, .auto_unlinked = true};
	a.hit.mlength = (uint32_t)MIN(pkt->request_len, le->length);
	pkt_count(a.stats, 0);
	verdict = perform(&a, true);
	cassini_le_consume(pte, le);
	if (likely(!verdict))
		tell(pte, dom->nic, a.ev);
	return verdict;
}
