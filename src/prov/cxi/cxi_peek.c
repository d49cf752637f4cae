// SPDX-License-Identifier: BSD-2-Clause
// FI_PEEK, FI_CLAIM and FI_DISCARD: looking at messages that have come, wherever they are.
#include "base/mem.h"
#include "prov/cxi/cxi_rxc.h"

/* A search through the adapter's unexpected headers. */
struct peek {
	struct cxi_req req; /* first */
	struct cxi_ep *ep;
	void *context;
	uint64_t flags;
	struct cxi_ux *ux; /* to keep what is claimed, so that it is not lost for want of memory; NULL */
};

/*
 * What the real provider counts: a look is a receive to it, which succeeds or fails. RNR's receives are counted by the
 * adapter, which does not look.
 */
static void count(const struct cxi_ep *ep, uint64_t ok, uint64_t err)
{
	if (!ep->is_rnr)
		cxi_cntr_count(ep->kit.cntr[KIT_CNTR_RECV], 0, ok, err);
}

static void say_none(struct cxi_ep *ep, void *context, uint64_t tag, int rc)
{
	struct fi_cq_err_entry e = {.op_context = context, .flags = FI_RECV | FI_TAGGED, .tag = tag, .err = FI_ENOMSG,
				    .prov_errno = rc};

	count(ep, 0, 1);
	if (ep->kit.rx_cq)
		kit_cq_push_err(ep->kit.rx_cq, &e, NULL, 0);
}

/* The message is there. */
static void say_found(struct cxi_ep *ep, void *context, uint64_t flags, const struct cassini_event *ev)
{
	bool has_data = ev->match_bits & CXI_MB_CQ_DATA;

	if (kit_rx_wants_cqe(&ep->kit, flags))
		kit_cq_push(ep->kit.rx_cq, context, FI_RECV | FI_TAGGED | (has_data ? FI_REMOTE_CQ_DATA : 0),
			    ev->rlength, NULL, has_data ? ev->header_data : 0, ev->match_bits & CXI_TAG_MASK,
			    cxi_rx_source(ep, ev->initiator, ev->vni));
	count(ep, 1, 0);
}

/* @ux, off every list, is kept for the claim. */
static void claim(struct cxi_rxc *r, void *context, struct cxi_ux *ux)
{
	ux->claimed_by = context;
	TAILQ_INSERT_TAIL(&r->claimed, ux, link);
}

static void found(struct peek *p, struct cxi_rxc *r, const struct cassini_event *ev)
{
	say_found(p->ep, p->context, p->flags, ev);
	if (ev->type != CASSINI_EV_PUT_OVERFLOW)
		return;
	if (p->flags & FI_DISCARD) {
		cxi_ux_discard(r, ev);
		return;
	}
	p->ux->ev = *ev;
	claim(r, p->context, p->ux);
	p->ux = NULL;
}

static void peek_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct peek *p = container_of(req, struct peek, req);
	struct cxi_rxc *r = p->ep->rxc;

	if (r && !r->closing) {
		if (ev->type == CASSINI_EV_PUT_OVERFLOW || (ev->type == CASSINI_EV_SEARCH && ev->rc == CASSINI_RC_OK))
			found(p, r, ev);
		else
			say_none(p->ep, p->context, ev->match_bits & CXI_TAG_MASK, ev->rc);
		if (p->ux)
			slab_put(&r->uxs, p->ux);
	}
	mem_free(p);
}

static ssize_t peek_adapter(struct cxi_ep *ep, const struct cxi_recv_args *a, const struct cxi_match *m)
{
	struct cassini_search s = {
		.match_bits = m->bits,
		.ignore_bits = m->ignore,
		.match_id = m->id,
		.use_once = true,
		.delete = a->flags & (FI_CLAIM | FI_DISCARD),
	};
	bool is_kept = (a->flags & (FI_CLAIM | FI_DISCARD)) == FI_CLAIM;
	struct cxi_ux *ux = is_kept ? slab_get(&ep->rxc->uxs) : NULL;
	struct peek *p = is_kept && !ux ? NULL : mem_alloc(sizeof(*p));
	int ret = -FI_EAGAIN;

	if (p) {
		*p = (struct peek){.req.on_event = peek_on_event, .ep = cxi_ep_base(ep), .context = a->context,
				   .flags = a->flags, .ux = ux};
		s.user_ptr = (uintptr_t)&p->req;
		ret = cassini_search(ep->rxc->pte, &s);
	}
	if (ret) {
		mem_free(p);
		if (ux)
			slab_put(&ep->rxc->uxs, ux);
	}
	return ret;
}

ssize_t cxi_peek(struct cxi_ep *ep, const struct cxi_recv_args *a)
{
	struct cxi_rxc *r = ep->rxc;
	struct cxi_match m;
	struct mt_node *n;

	if ((a->flags & FI_CLAIM) && !a->context)
		return -FI_EINVAL;
	if (r->is_rnr) { /* nothing is ever unexpected there */
		say_none(ep, a->context, a->tag, CASSINI_RC_NO_MATCH);
		return 0;
	}
	cxi_match_make(ep, a, &m);
	n = mt_unexp_find(&r->sw_unexp, m.id == CASSINI_MATCH_ID_ANY ? MT_ANY_SRC : m.id, m.bits, m.ignore);
	if (n) {
		struct cxi_ux *ux = container_of(n, struct cxi_ux, mt);
		struct cassini_event ev = ux->ev;

		say_found(ep, a->context, a->flags, &ev);
		if (a->flags & (FI_CLAIM | FI_DISCARD))
			cxi_ux_del(r, ux);
		if (a->flags & FI_DISCARD) {
			slab_put(&r->uxs, ux);
			cxi_ux_discard(r, &ev);
		} else if (a->flags & FI_CLAIM) {
			claim(r, a->context, ux);
		}
		return 0;
	}
	if (r->state == CXI_RXC_ENABLED)
		return peek_adapter(ep, a, &m);
	say_none(ep, a->context, a->tag, CASSINI_RC_NO_MATCH);
	return 0;
}

ssize_t cxi_claim(struct cxi_ep *ep, const struct cxi_recv_args *a)
{
	struct cxi_rxc *r = ep->rxc;
	struct cassini_event ev;
	struct cxi_rx *rx;
	struct cxi_ux *ux;

	TAILQ_FOREACH(ux, &r->claimed, link)
		if (ux->claimed_by == a->context)
			break;
	if (!(a->flags & FI_CLAIM) || !a->context || !ux)
		return -FI_EINVAL; /* FI_DISCARD alone, or nothing was claimed with this context */
	ev = ux->ev;
	if (a->flags & FI_DISCARD) {
		say_found(ep, a->context, a->flags, &ev);
		TAILQ_REMOVE(&r->claimed, ux, link);
		slab_put(&r->uxs, ux);
		cxi_ux_discard(r, &ev);
		return 0;
	}
	rx = cxi_rx_get(ep, a);
	if (!rx)
		return -FI_EAGAIN;
	TAILQ_REMOVE(&r->claimed, ux, link);
	slab_put(&r->uxs, ux);
	rx->multi = false;
	cxi_rx_unpost(rx);
	rx->state = RX_TAKEN;
	cxi_rx_take(rx, &ev, true);
	return 0;
}
