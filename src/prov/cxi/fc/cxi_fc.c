// SPDX-License-Identifier: BSD-2-Clause
// Flow control at the receiver, and the way from hardware to software matching. Source: doc/facts/cxi.md#flow-control.
//
// Theory of operation
//
// When something runs out (event slots, buffers, list entries) the adapter disables the portal table entry and refuses
// what comes; senders keep what was refused, in order, and tell us how many that were once nothing of theirs is in
// flight. Meanwhile we make room: unexpected headers are moved into software's list (onloading), buffers are posted.
// When the senders' numbers add up to the adapter's drop count, nothing refused is unaccounted for, so enabling the
// entry keeps every sender's order; then all are told to resume. In hybrid mode the entry comes back software-managed,
// and the receives that the adapter held move into software's list too.
//
// Senders that are told to resume while there is no room yet are only refused again. So if nothing at all has gone on
// here since they were told the last time, they are told later, each time twice as late, until something does: the
// entry is enabled meanwhile, so that receives are accepted, which in flow control they are not.
//
// Everything that must follow earlier events waits for the end of a search through the unexpected headers, whose event
// comes after them.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi_rxc.h"

#define DROP_MASK 0xffffffu
#define PAUSE_MIN (100 * NS_PER_US)
#define PAUSE_MAX (10 * NS_PER_MS)
#define ASK_NS	  NS_PER_SEC
#define ASKS	  1 /* before who has not told stands apart */

struct notifier {
	LIST_ENTRY(notifier) link;
	struct cxi_portal *portal;
	uint32_t initiator;
	uint16_t vni;
	uint8_t txc;
};

struct held {
	STAILQ_ENTRY(held) link;
	struct cassini_event ev;
};

struct fc {
	struct cxi_req onload_req;       /* events of the search; first */
	struct cxi_rxc *rxc;
	/* what the adapter counts from when it disables; refusals since then that senders told of */
	uint32_t base, sum;
	bool to_software, onloading, moving, enabling;
	bool replayed_once;              /* the entries of receives were refused before */
	uint32_t steps;                  /* cxi_rxc_steps() when senders were told to resume the last time */
	uint64_t pause_ns, resume_ns;    /* how long they wait if that is what it was, and until when; 0: not */
	uint64_t ask_ns;                 /* senders have not told of what was refused: when to ask whether they live */
	uint32_t asked;                  /* how often that was */
	LIST_HEAD(, notifier) notifiers;
	TAILQ_HEAD(, cxi_rx) replay;     /* receives whose entry was refused, by cxi_rx.wait */
	struct cxi_rx *refused;          /* older than these: it was refused again, as its event will say */
	STAILQ_HEAD(, held) early;       /* messages that came software-managed before onloading ended */
};

static const char *const state_name[CXI_RXC_STATE_NUM] = {
	[CXI_RXC_DISABLED] = "RXC_DISABLED",
	[CXI_RXC_ENABLED] = "RXC_ENABLED",
	[CXI_RXC_ENABLED_SOFTWARE] = "RXC_ENABLED_SOFTWARE",
	[CXI_RXC_PENDING_DISABLE] = "RXC_PENDING_PTLTE_DISABLE",
	[CXI_RXC_PENDING_SOFTWARE] = "RXC_PENDING_PTLTE_SOFTWARE_MANAGED",
	[CXI_RXC_ONLOAD] = "RXC_ONLOAD_FLOW_CONTROL",
	[CXI_RXC_ONLOAD_REENABLE] = "RXC_ONLOAD_FLOW_CONTROL_REENABLE",
	[CXI_RXC_FLOW_CONTROL] = "RXC_FLOW_CONTROL",
};

void cxi_rxc_set_state(struct cxi_rxc *r, enum cxi_rxc_state state)
{
	if (r->state == state)
		return;
	LOG_INFO("RXC (%#x:%u) PtlTE %u: now in %s, was %s", r->domain->info.nic, r->portal_cnt ? r->portal[0]->pid : 0,
		 cassini_pte_ptn(r->pte), state_name[state], state_name[r->state]);
	r->state = state;
	cxi_rxc_gate(r);
}

static bool is_running(const struct cxi_rxc *r)
{
	return r->state == CXI_RXC_ENABLED || r->state == CXI_RXC_ENABLED_SOFTWARE;
}

static void onload_on_event(struct cxi_req *req, const struct cassini_event *ev);

static struct fc *fc_get(struct cxi_rxc *r)
{
	struct cassini_pte_status st;
	struct fc *f = r->fc;

	if (f)
		return f;
	f = mem_alloc(sizeof(*f));
	if (!f)
		return NULL;
	f->rxc = r;
	f->onload_req.on_event = onload_on_event;
	LIST_INIT(&f->notifiers);
	TAILQ_INIT(&f->replay);
	STAILQ_INIT(&f->early);
	f->steps = cxi_rxc_steps(r) - 1;
	/* Cassini 1 counts from -1: whatever it says of no drops is the base. */
	cassini_pte_status(r->pte, &st, NULL, 0);
	f->base = r->domain->info.version >= 2 ? 0 : DROP_MASK;
	r->fc = f;
	return f;
}

/* --- the end: enable again, and tell the senders ------------------------------------------------- */

static void resume_all(struct cxi_rxc *r, struct fc *f)
{
	struct notifier *n;

	f->steps = cxi_rxc_steps(r);
	f->resume_ns = 0;
	while ((n = LIST_FIRST(&f->notifiers))) {
		LIST_REMOVE(n, link);
		cxi_ctrl_send(n->portal,
			      &(struct cxi_dest){.nic = CASSINI_MATCH_ID_NIC(n->initiator),
						 .pid = (uint16_t)CASSINI_MATCH_ID_PID(n->initiator),
						 .vni = n->vni},
			      cxi_sh_ctrl(CXI_CTRL_FC_RESUME, n->txc, f->rxc->idx, 0));
		mem_free(n);
	}
}

/* Tells the senders that wait to resume, if it is time. Return: how many things were done. */
static int resume(struct cxi_rxc *r, struct fc *f)
{
	uint64_t now;

	if (LIST_EMPTY(&f->notifiers))
		return 0;
	if (cxi_rxc_steps(r) != f->steps) {
		f->pause_ns = 0;
		resume_all(r, f);
		return 1;
	}
	now = cassini_now_ns(r->domain->nic);
	if (!f->resume_ns) {
		f->pause_ns = f->pause_ns ? MIN(2 * f->pause_ns, PAUSE_MAX) : PAUSE_MIN;
		f->resume_ns = now + f->pause_ns;
	}
	if (now < f->resume_ns) {
		cassini_wake(r->domain->nic, f->resume_ns);
		return 0;
	}
	resume_all(r, f);
	return 1;
}

/* Receives without order among them (RNR) keep nobody waiting. */
static void replay_note(struct cxi_rxc *r, const struct fc *f)
{
	r->has_replay = !r->is_rnr && (f->refused || !TAILQ_EMPTY(&f->replay));
	cxi_rxc_gate(r);
}

static void replay_add(struct cxi_rxc *r, struct fc *f, struct cxi_rx *rx, bool is_oldest)
{
	if (is_oldest)
		TAILQ_INSERT_HEAD(&f->replay, rx, wait);
	else
		TAILQ_INSERT_TAIL(&f->replay, rx, wait);
	rx->state = RX_REPLAY;
	replay_note(r, f);
}

void cxi_fc_unreplay(struct cxi_rx *rx)
{
	struct fc *f = rx->rxc->fc;

	TAILQ_REMOVE(&f->replay, rx, wait);
	replay_note(rx->rxc, f);
}

/* As far as they go now. */
static void replay_to_adapter(struct cxi_rxc *r, struct fc *f)
{
	struct cxi_rx *rx;

	if (f->refused)
		return;
	while ((rx = TAILQ_FIRST(&f->replay))) {
		if (mt_unexp_cnt(&r->sw_unexp)) {
			TAILQ_REMOVE(&f->replay, rx, wait);
			if (cxi_sw_try(r, rx))
				continue;
			TAILQ_INSERT_HEAD(&f->replay, rx, wait);
		}
		if (cxi_rx_append(rx)) {
			rx->state = RX_REPLAY;
			return; /* the event queue is full; the timer goes on */
		}
		TAILQ_REMOVE(&f->replay, rx, wait);
		if (cxi_append_refused(rx)) {
			f->refused = rx;
			return; /* its event brings it back here */
		}
	}
	f->replayed_once = false; /* there is room again */
}

/* Receives whose entries were refused: in order, before any new one. */
static void replay_hardware(struct cxi_rxc *r, struct fc *f)
{
	replay_to_adapter(r, f);
	replay_note(r, f);
}

bool cxi_fc_replay(struct cxi_rxc *r)
{
	struct fc *f = r->fc;

	if (!TAILQ_EMPTY(&f->replay))
		replay_hardware(r, f);
	return r->has_replay;
}

/* What came software-managed meanwhile is younger than all that was onloaded. */
static void younger_process(struct cxi_rxc *r, struct fc *f)
{
	struct held *h;

	while ((h = STAILQ_FIRST(&f->early))) {
		STAILQ_REMOVE_HEAD(&f->early, link);
		cxi_sw_message(r, &h->ev);
		mem_free(h);
	}
}

static void replay_software(struct cxi_rxc *r, struct fc *f)
{
	struct cxi_rx *rx;

	while ((rx = TAILQ_FIRST(&f->replay))) {
		TAILQ_REMOVE(&f->replay, rx, wait);
		cxi_sw_post(r, rx);
	}
	replay_note(r, f);
	younger_process(r, f);
}

static void running(struct cxi_rxc *r, struct fc *f, bool software)
{
	f->enabling = false;
	if (software) {
		if (r->state != CXI_RXC_ENABLED_SOFTWARE) {
			r->domain->stats.sw_transitions++;
			LOG_WARN("RXC (%#x) PtlTE %u: Software managed EP enabled", r->domain->info.nic,
				 cassini_pte_ptn(r->pte));
		}
		cxi_rxc_set_state(r, CXI_RXC_ENABLED_SOFTWARE);
		replay_software(r, f);
	} else {
		cxi_rxc_set_state(r, CXI_RXC_ENABLED);
		replay_hardware(r, f);
	}
	if (is_running(r))
		resume(r, f);
}

/* Its answer is the adapter's. Without one its life ends, and cassini_drops_lost() has what it did not tell of. */
static void sender_ask(void *arg, struct cassini_dom *dom, uint32_t nic, uint16_t pid)
{
	const struct cxi_rxc *r = arg;

	for (int i = 0; i < r->portal_cnt; i++)
		for (int k = 0; k < r->portal[i]->dom_cnt; k++)
			if (r->portal[i]->dom[k] == dom)
				cxi_ctrl_send(r->portal[i],
					      &(struct cxi_dest){.nic = nic, .pid = pid, .vni = cassini_dom_vni(dom)},
					      cxi_sh_ctrl(CXI_CTRL_ASK, 0, 0, 0));
}

/*
 * Some have not told of what was refused. They may compute, with nobody who looks at their endpoint, or mean harm: the
 * others do not wait for them for ever. Return: they are waited for no longer.
 */
static bool senders_await(struct cxi_rxc *r, struct fc *f)
{
	uint64_t now = cassini_now_ns(r->domain->nic);
	uint32_t n = 0;

	if (!f->ask_ns) {
		f->ask_ns = now + ASK_NS;
	} else if (now >= f->ask_ns && f->asked++ < ASKS) {
		f->ask_ns = now + ASK_NS;
		cassini_drops_each(r->pte, sender_ask, r);
	} else if (now >= f->ask_ns) {
		f->ask_ns = now + ASK_NS;
		n = cassini_drops_part(r->pte);
	}
	if (n)
		LOG_WARN("RXC (%#x) PtlTE %u: %u senders have not told what was refused of them: they wait alone",
			 r->domain->info.nic, cassini_pte_ptn(r->pte), n);
	cassini_wake(r->domain->nic, f->ask_ns);
	return n;
}

/*
 * Do the senders' numbers add up? Then the entry may be enabled; its event says whether nothing else was refused
 * meanwhile.
 */
static int try_enable(struct cxi_rxc *r, struct fc *f)
{
	bool software = f->to_software || r->mode == CXI_MATCH_SOFTWARE || r->is_soft;
	struct cassini_pte_status st;

	if (f->onloading || f->moving || f->enabling || r->state != CXI_RXC_FLOW_CONTROL)
		return 0;
	cassini_pte_status(r->pte, &st, NULL, 0);
	if (((st.drop_count - f->base - f->sum - cassini_drops_lost(r->pte)) & DROP_MASK) != 0) {
		return senders_await(r, f) ? try_enable(r, f) : 0;
	}
	f->ask_ns = f->asked = 0;
	if (software) {
		if (cassini_pte_transition_sm(r->pte, st.drop_count))
			return 0;
		r->is_soft = true;
		f->sum = 0;
		running(r, f, true);
		return 1;
	}
	f->enabling = !cassini_set_state(r->pte, CASSINI_PTE_ENABLED, st.drop_count);
	if (f->enabling)
		f->sum = 0; /* the next time that it disables it counts anew */
	return f->enabling;
}

/* --- onloading ----------------------------------------------------------------------------------- */

/* Besides the event in hand, if there is one. */
static bool has_unread(const struct cxi_rxc *r)
{
	return r->eq->wr - r->eq->rd > (r->eq->is_taken ? 1u : 0u);
}

/*
 * Receives that the adapter still holds become software's, in the order of posting. How far a buffer for many messages
 * is used is known when no copy into it is in flight and all events are read: a long message may have ended since the
 * search began. Those behind it wait, too. Return: false: not yet all.
 */
static bool move_receives(struct cxi_rxc *r)
{
	struct cxi_rx *rx, *next;
	bool all = true;

	TAILQ_FOREACH_SAFE(rx, &r->rx_list, link, next) {
		int ret;

		if (rx->state != RX_HW || !rx->le)
			continue;
		if (rx->multi && has_unread(r))
			return false;
		ret = cassini_invalidate(r->pte, rx->le);
		if (ret == -FI_EAGAIN && rx->multi)
			return false;
		if (ret == -FI_EAGAIN) { /* used up, so that it is in nobody's way */
			all = false;
			continue;
		}
		if (ret)
			continue; /* used up: its events are on the way */
		rx->le = NULL;
		cxi_sw_post(r, rx);
	}
	return all;
}

static void onloaded(struct cxi_rxc *r, struct fc *f)
{
	bool software = f->to_software || r->is_soft;

	f->onloading = false;
	LOG_INFO("RXC (%#x) PtlTE %u: %u unexpected messages are software's now", r->domain->info.nic,
		 cassini_pte_ptn(r->pte), mt_unexp_cnt(&r->sw_unexp));
	for (int kind = 0; kind < 2; kind++)
		if (kind == software || (!kind && r->mode != CXI_MATCH_SOFTWARE && !software))
			cxi_bufs_fill(r, kind);
	if (software) {
		f->moving = !move_receives(r);
		if (f->moving)
			return; /* the timer goes on */
	}
	if (r->state == CXI_RXC_PENDING_SOFTWARE) { /* the adapter went there by itself */
		r->is_soft = true;
		running(r, f, true);
		return;
	}
	cxi_rxc_set_state(r, CXI_RXC_FLOW_CONTROL);
	try_enable(r, f);
}

static void onload_start(struct cxi_rxc *r, struct fc *f)
{
	struct cassini_search s = {.ignore_bits = ~0ULL, .match_id = CASSINI_MATCH_ID_ANY, .delete = true,
				   .user_ptr = (uintptr_t)&f->onload_req};

	if (f->onloading)
		return;
	f->onloading = !cassini_search(r->pte, &s);
	/* the event queue is full: the timer tries again */
}

static void onload_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct fc *f = container_of(req, struct fc, onload_req);

	if (f->rxc->closing)
		return;
	if (ev->type == CASSINI_EV_PUT_OVERFLOW)
		cxi_ux_add(f->rxc, ev);
	else if (ev->type == CASSINI_EV_SEARCH)
		onloaded(f->rxc, f);
}

/* --- the adapter says something changed ---------------------------------------------------------- */

static void disabled(struct cxi_rxc *r, struct fc *f, const struct cassini_event *ev)
{
	bool hybrid = r->mode == CXI_MATCH_HYBRID && !r->is_soft;

	if (f->enabling) { /* something was refused between the look at the drop count and the command */
		f->enabling = false;
		cxi_rxc_set_state(r, CXI_RXC_FLOW_CONTROL);
		return;
	}
	/* our own command: entries ran out when a receive was posted, or it is time for software */
	if (!ev->nic_auto) {
		f->to_software |= hybrid;
		cxi_rxc_set_state(r, CXI_RXC_ONLOAD);
		onload_start(r, f);
		return;
	}
	switch ((enum cassini_sc_reason)ev->sc_reason) {
	case CASSINI_SC_FC_EQ_FULL:
		r->domain->stats.fc_eq_full++;
		LOG_WARN("RXC (%#x) PtlTE %u: Flow control EQ full", r->domain->info.nic, cassini_pte_ptn(r->pte));
		cxi_rxc_set_state(r, CXI_RXC_FLOW_CONTROL); /* this drain makes room; the timer enables */
		return;
	case CASSINI_SC_FC_REQUEST_FULL:
		r->domain->stats.fc_req_full++;
		LOG_WARN("RXC (%#x) PtlTE %u: Flow control request list full; a larger FI_CXI_REQ_BUF_SIZE helps",
			 r->domain->info.nic, cassini_pte_ptn(r->pte));
		cxi_bufs_fill(r, 1);
		cxi_rxc_set_state(r, CXI_RXC_FLOW_CONTROL);
		return;
	case CASSINI_SC_FC_NO_MATCH:
		r->domain->stats.fc_no_match++;
		LOG_WARN("RXC (%#x) PtlTE %u: Flow control overflow no match; a larger FI_CXI_OFLOW_BUF_SIZE helps",
			 r->domain->info.nic, cassini_pte_ptn(r->pte));
		cxi_rxc_set_state(r, CXI_RXC_ONLOAD_REENABLE);
		break;
	default:
		r->domain->stats.fc_unexp++;
		LOG_WARN("RXC (%#x) PtlTE %u: no list entry for an unexpected message", r->domain->info.nic,
			 cassini_pte_ptn(r->pte));
		f->to_software |= hybrid;
		if (hybrid)
			LOG_WARN("RXC (%#x) PtlTE %u: NIC transition to SW EP", r->domain->info.nic,
				 cassini_pte_ptn(r->pte));
		cxi_rxc_set_state(r, CXI_RXC_ONLOAD);
	}
	onload_start(r, f);
}

void cxi_fc_on_pte(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_rxc *r = container_of(req, struct cxi_rxc, pte_req);
	struct fc *f;

	if (ev->type != CASSINI_EV_STATE_CHANGE || r->closing)
		return;
	f = r->fc;
	if (ev->state == CASSINI_PTE_ENABLED || (ev->state == CASSINI_PTE_SOFTWARE_MANAGED && !ev->nic_auto)) {
		if (f && f->enabling && ev->state == CASSINI_PTE_ENABLED)
			running(r, f, false);
		return;
	}
	f = fc_get(r);
	if (!f) {
		LOG_WARN("out of memory: a receive queue in flow control stays there");
		return;
	}
	if (ev->state == CASSINI_PTE_SOFTWARE_MANAGED) {
		LOG_WARN("RXC (%#x) PtlTE %u: NIC transition to SW EP", r->domain->info.nic, cassini_pte_ptn(r->pte));
		f->to_software = true;
		cxi_rxc_set_state(r, CXI_RXC_PENDING_SOFTWARE);
		onload_start(r, f);
		return;
	}
	if (ev->state == CASSINI_PTE_DISABLED)
		disabled(r, f, ev);
}

bool cxi_fc_hold_message(struct cxi_rxc *r, const struct cassini_event *ev)
{
	struct fc *f = r->fc;
	struct held *h;

	if (likely(!f || (!f->onloading && !f->moving)) || r->state == CXI_RXC_ENABLED_SOFTWARE)
		return false;
	h = mem_alloc(sizeof(*h));
	if (!h)
		return false; /* out of order rather than lost */
	h->ev = *ev;
	STAILQ_INSERT_TAIL(&f->early, h, link);
	return true;
}

/* --- receives for which the adapter has no entry ------------------------------------------------- */

bool cxi_append_refused(const struct cxi_rx *rx)
{
	const struct cassini_eq *eq = rx->rxc->eq;
	const struct cassini_event *last = &eq->ring[(eq->wr - 1) & eq->mask];

	return !rx->le && eq->wr != eq->rd && last->type == CASSINI_EV_LINK && last->rc != CASSINI_RC_OK &&
	       last->user_ptr == (uintptr_t)&rx->req;
}

/*
 * Even after everything unexpected was moved there is no entry for it: the application is told, where the real provider
 * ends the process.
 */
static void give_up(struct cxi_rx *rx, uint8_t rc)
{
	LOG_WARN("LE exhaustion in flow control: a receive ends with an error; FI_CXI_RX_MATCH_MODE=hybrid avoids it");
	if (rx->multi && rx->parts) { /* messages that software gave it are under way, and end first */
		rx->canceled = true;
		rx->rc = rc;
		cxi_rx_release(rx);
		return;
	}
	cxi_rx_unpost(rx);
	cxi_rx_refuse(rx, FI_ENOSPC, rc);
}

void cxi_fc_append_later(struct cxi_rx *rx)
{
	struct fc *f = fc_get(rx->rxc);

	if (f)
		replay_add(rx->rxc, f, rx, false);
	else
		cxi_rx_release(rx);
}

static void rnr_append_later(struct cxi_rx *rx, struct fc *f, uint8_t rc)
{
	uint64_t now = cassini_now_ns(rx->rxc->domain->nic);

	if (!rx->first_ns)
		rx->first_ns = now;
	rx->ends_shown = false; /* so that no end forgets to make it as new */
	if (now - rx->first_ns >= (uint64_t)rx->rxc->domain->params.rnr_append_retry_timeout_us * 1000) {
		give_up(rx, rc);
		return;
	}
	rx->rxc->append_retries++;
	replay_add(rx->rxc, f, rx, false);
}

/* It is not posted again. */
static void refused_end(struct cxi_rx *rx, uint8_t rc, bool is_cancelled)
{
	if (is_cancelled)
		cxi_rx_cancelled(rx);
	else
		give_up(rx, rc);
}

void cxi_fc_append_failed(struct cxi_rx *rx, uint8_t rc)
{
	struct cxi_rxc *r = rx->rxc;
	struct fc *f = fc_get(r);
	struct cassini_pte_status st;
	bool is_oldest = f && f->refused == rx;
	bool is_cancelled = rx->state == RX_UNLINKING; /* before this event was read; the context goes on as ever */

	if (r->closing)
		return;
	rx->state = RX_TAKEN;
	if (is_oldest)
		f->refused = NULL;
	if (!f || (r->is_rnr && is_cancelled)) {
		refused_end(rx, rc, is_cancelled);
		return;
	}
	if (r->is_rnr) {
		rnr_append_later(rx, f, rc);
		return;
	}
	if (rc == CASSINI_RC_NO_SPACE && f->replayed_once && mt_unexp_cnt(&r->sw_unexp) == 0 &&
	    r->mode == CXI_MATCH_HARDWARE) {
		/* the entry was not disabled for this one: receives may be posted again */
		cassini_pte_status(r->pte, &st, NULL, 0);
		if (r->state == CXI_RXC_PENDING_DISABLE && st.state == CASSINI_PTE_ENABLED)
			cxi_rxc_set_state(r, CXI_RXC_ENABLED);
		replay_note(r, f);
		refused_end(rx, rc, is_cancelled);
		return;
	}
	if (is_cancelled) {
		replay_note(r, f);
		cxi_rx_cancelled(rx);
	} else {
		replay_add(r, f, rx, is_oldest);
	}
	if (rc == CASSINI_RC_NO_SPACE && (is_running(r) || r->state == CXI_RXC_PENDING_DISABLE)) {
		cxi_rxc_set_state(r, CXI_RXC_PENDING_DISABLE);
		f->replayed_once = true;
		cassini_set_state(r->pte, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE);
	} else if (rc == CASSINI_RC_PT_DISABLED && is_running(r)) {
		cxi_rxc_set_state(r, CXI_RXC_PENDING_DISABLE); /* the adapter's STATE_CHANGE is on its way */
	} else if (r->state == CXI_RXC_ENABLED_SOFTWARE) {
		replay_software(r, f);
	}
}

void cxi_fc_preempt(struct cxi_rxc *r, const struct cassini_event *ev)
{
	const struct cxi_params *p = &r->domain->params;
	bool is_asked = ev ? p->hybrid_preemptive : p->hybrid_recv_preemptive;
	struct cassini_pte_status st;
	bool due = false;

	if (r->state != CXI_RXC_ENABLED)
		return;
	if (is_asked) {
		cassini_pte_status(r->pte, &st, NULL, 0);
		due = st.les_used > st.les_max / 2;
	}
	due |= p->hybrid_posted_recv_preemptive && cxi_rxc_posted(r) > r->max;
	if (!due && p->hybrid_unexpected_msg_preemptive) {
		cassini_pte_status(r->pte, &st, NULL, 0);
		due = st.ule_cnt > r->max;
	}
	if (!due || !fc_get(r))
		return;
	LOG_WARN("RXC (%#x) PtlTE %u: Transitioning to SW EP due to too many %s", r->domain->info.nic,
		 cassini_pte_ptn(r->pte),
		 p->hybrid_posted_recv_preemptive && cxi_rxc_posted(r) > r->max
			 ? "posted receives"
			 : "unexpected messages or list entries");
	cxi_rxc_set_state(r, CXI_RXC_PENDING_DISABLE);
	cassini_set_state(r->pte, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE);
}

/* --- notices of senders, timers ------------------------------------------------------------------ */

void cxi_fc_notified(struct cxi_rxc *r, struct cxi_portal *p, const struct cassini_event *ev)
{
	unsigned txc = (unsigned)FIELD_GET(CXI_SH_CTRL_TXC, ev->match_bits);
	struct fc *f = fc_get(r);
	struct cassini_pte_status st;
	struct notifier *n;
	uint32_t told;

	if (!f)
		return; /* it asks again */
	cassini_pte_status(r->pte, &st, NULL, 0);
	told = cassini_drops_told(r->pte, ev, (uint32_t)FIELD_GET(CXI_SH_CTRL_DROPS, ev->match_bits));
	if (st.state == CASSINI_PTE_DISABLED)
		f->sum += told;
	LIST_FOREACH(n, &f->notifiers, link)
		if (n->initiator == ev->initiator && n->vni == ev->vni && n->txc == txc && n->portal == p)
			break;
	if (!n) {
		n = mem_alloc(sizeof(*n));
		if (!n)
			return;
		*n = (struct notifier){.portal = p, .initiator = ev->initiator, .vni = ev->vni, .txc = (uint8_t)txc};
		LIST_INSERT_HEAD(&f->notifiers, n, link);
	}
	if (is_running(r))
		resume(r, f); /* it was enabled before the notice came: nothing of that sender was refused since */
	else
		try_enable(r, f);
}

int cxi_fc_rxc_timers(struct cxi_rxc *r)
{
	struct fc *f = r->fc;

	if (is_running(r)) {
		bool has_replay = !TAILQ_EMPTY(&f->replay);

		if (unlikely(has_replay) && r->state == CXI_RXC_ENABLED)
			replay_hardware(r, f);
		return has_replay + (is_running(r) ? resume(r, f) : 0);
	}
	if ((r->state == CXI_RXC_ONLOAD || r->state == CXI_RXC_ONLOAD_REENABLE ||
	     r->state == CXI_RXC_PENDING_SOFTWARE) &&
	    !f->onloading) {
		if (f->moving)
			onloaded(r, f);
		else
			onload_start(r, f);
		return f->onloading;
	}
	return try_enable(r, f);
}

void cxi_fc_rxc_forget(struct cxi_rxc *r, const struct cxi_portal *p)
{
	struct fc *f = r->fc;
	struct notifier *n, *next;
	struct held *h;

	if (!f)
		return;
	LIST_FOREACH_SAFE(n, &f->notifiers, link, next) {
		if (n->portal != p)
			continue;
		LIST_REMOVE(n, link);
		mem_free(n);
	}
	STAILQ_FOREACH(h, &f->early, link)
		if (!cxi_rx_portal(r, h->ev.dom))
			h->ev.dom = NULL; /* dropped when its turn comes: another may have that memory by then */
}

void cxi_fc_rxc_fini(struct cxi_rxc *r)
{
	struct fc *f = r->fc;
	struct notifier *n;
	struct held *h;

	if (!f)
		return;
	while ((n = LIST_FIRST(&f->notifiers))) {
		LIST_REMOVE(n, link);
		mem_free(n);
	}
	while ((h = STAILQ_FIRST(&f->early))) {
		STAILQ_REMOVE_HEAD(&f->early, link);
		mem_free(h);
	}
	mem_free(f);
	r->fc = NULL;
}
