// SPDX-License-Identifier: BSD-2-Clause
// Receives: the calls, list entries, and the events that end them.
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "base/tailq.h"
#include "fi_cxi_ext.h"
#include "prov/cxi/cxi_rxc.h"

#define RECVMSG_FLAGS                                                                                                  \
	(FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD | FI_REMOTE_CQ_DATA | FI_INJECT |   \
	 FI_FENCE)

/* --- ends ---------------------------------------------------------------------------------------- */

void cxi_rx_unpost(struct cxi_rx *rx)
{
	struct cxi_rxc *r = rx->rxc;

	TAILQ_TAKE_OUT(&r->rx_list, rx, link);
	r->ended++;
}

/* What a whole message for a receive of one message never changes. */
static void as_new(struct cxi_rx *rx, struct cxi_rxc *r)
{
	rx->req.on_event = cxi_rx_on_event;
	rx->rxc = r;
	rx->parts = 0;
	rx->used = 0;
	rx->owner = NULL;
	rx->ep = NULL;
	rx->done = NULL;
	rx->first_ns = 0;
}

struct cxi_rx *cxi_rx_make(struct cxi_rxc *r)
{
	struct cxi_rx *rx = slab_get(&r->rxs);

	if (rx)
		as_new(rx, r);
	return rx;
}

static inline void rest(struct cxi_rx *rx, struct cxi_rxc *r)
{
	must(rx->state != RX_RESTING);
	rx->state = RX_RESTING;
	SLIST_INSERT_HEAD(&r->resting, rx, rest);
}

void cxi_rx_free(struct cxi_rx *rx)
{
	struct cxi_rxc *r = rx->rxc;

	as_new(rx, r);
	rest(rx, r);
}

const struct cxi_portal *cxi_rx_portal(const struct cxi_rxc *r, const struct cassini_dom *dom)
{
	for (int i = 0; i < r->portal_cnt; i++)
		for (int k = 0; k < r->portal[i]->dom_cnt; k++)
			if (r->portal[i]->dom[k] == dom)
				return r->portal[i];
	return NULL;
}

struct cxi_ep *cxi_rx_ep(const struct cxi_rxc *r, const struct cassini_event *ev)
{
	const struct cxi_portal *p = r->ep->kind == CXI_SRX ? cxi_rx_portal(r, ev->dom) : NULL;

	return p ? p->ep : r->ep;
}

/* A multi-receive buffer that is used up, and all of whose messages have ended. */
static void owner_release(struct cxi_rx *owner, bool was_said)
{
	struct cxi_ep *ep = owner->ep ? owner->ep : owner->rxc->ep;

	if (!was_said && ep->kit.rx_cq && !owner->rxc->closing)
		kit_cq_push(ep->kit.rx_cq, owner->context, FI_MULTI_RECV, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
	cxi_rx_unpost(owner);
	cxi_rx_free(owner);
}

/* By fi_cancel(), or, of a buffer for many messages, since there is no list entry for the rest of it. */
static void owner_cancelled(struct cxi_rx *owner)
{
	uint8_t rc = owner->multi ? owner->rc : (uint8_t)CASSINI_RC_OK;
	struct fi_cq_err_entry e = {.op_context = owner->context,
				    .flags = FI_RECV | (owner->tagged ? FI_TAGGED : FI_MSG) |
					     (owner->multi ? FI_MULTI_RECV : 0),
				    .err = rc == CASSINI_RC_OK ? FI_ECANCELED : FI_ENOSPC,
				    .prov_errno = rc};
	struct cxi_ep *ep = owner->ep ? owner->ep : owner->rxc->ep;

	if (owner->done)
		cassini_ct_add(owner->done, 0, 1);
	else if (rc != CASSINI_RC_OK || !owner->rxc->is_rnr) /* whose receives the adapter counts, which cancels none */
		cxi_cntr_count(ep->kit.cntr[KIT_CNTR_RECV], 0, 0, 1);
	if (ep->kit.rx_cq && !owner->rxc->closing)
		kit_cq_push_err(ep->kit.rx_cq, &e, NULL, 0);
	cxi_rx_unpost(owner);
	cxi_rx_free(owner);
}

void cxi_rx_cancelled(struct cxi_rx *rx)
{
	rx->state = RX_TAKEN;
	rx->canceled = rx->unlinked = true;
	if (!rx->parts)
		owner_cancelled(rx);
}

/* A part has ended: the flag that its completion carries. */
static uint64_t part_leaves(struct cxi_rx *rx)
{
	struct cxi_rx *owner = rx->owner;

	TAILQ_REMOVE(&owner->part_list, rx, link);
	owner->parts--;
	owner->ep = rx->ep;
	return owner->unlinked && !owner->parts && !owner->canceled && !owner->is_untold ? FI_MULTI_RECV : 0;
}

static inline const struct cxi_form *form_of(const struct cxi_rx *rx)
{
	return &rx->rxc->form[rx->tagged];
}

static inline bool has_data(const struct cxi_rx *rx, const struct cassini_event *msg)
{
	return unlikely(msg->match_bits & rx->rxc->data_bit);
}

static void err_push(struct cxi_rx *rx, uint64_t multi, int err, int prov_errno, size_t olen, const void *data,
		     size_t data_len)
{
	struct fi_cq_err_entry e = {
		.op_context = rx->owner ? rx->owner->context : rx->context,
		.flags = form_of(rx)->cqe_flags | (has_data(rx, &rx->msg) ? FI_REMOTE_CQ_DATA : 0) | multi,
		.len = rx->got,
		.buf = rx->buf,
		.data = rx->msg.header_data,
		.tag = rx->msg.match_bits & form_of(rx)->tag_mask,
		.olen = olen,
		.err = err,
		.prov_errno = prov_errno,
	};

	if (!rx->done) /* else rx_gone() counts it */
		cxi_cntr_count(rx->ep->kit.cntr[KIT_CNTR_RECV], 0, 0, 1);
	if (rx->ep->kit.rx_cq)
		kit_cq_push_err(rx->ep->kit.rx_cq, &e, data, data_len);
}

/* If @owner is used up, and all of its messages have ended, it goes. */
static void owner_look(struct cxi_rx *owner, bool was_said)
{
	if (!owner->unlinked || owner->parts || owner->is_untold)
		return;
	if (owner->canceled)
		owner_cancelled(owner);
	else
		owner_release(owner, was_said);
}

void cxi_rx_look(struct cxi_rx *owner)
{
	owner_look(owner, false);
}

void cxi_rx_release(struct cxi_rx *owner)
{
	owner->state = RX_TAKEN;
	owner->unlinked = true;
	owner_look(owner, false);
}

/* After its entry, an error if @is_err, was written: @rx goes, and perhaps its owner. */
static void rx_gone(struct cxi_rx *rx, bool said_multi, bool is_err)
{
	struct cxi_rx *owner = rx->owner;

	if (unlikely(rx->done != NULL))
		cassini_ct_add(rx->done, !is_err, is_err);
	cxi_rx_free(rx);
	if (owner)
		owner_look(owner, said_multi);
}

static void end_err(struct cxi_rx *rx, int err, int prov_errno, size_t olen)
{
	uint64_t multi = rx->owner ? part_leaves(rx) : rx->multi ? FI_MULTI_RECV : 0;
	bool silent = rx->rxc->closing || rx->is_discard;

	if (!silent)
		err_push(rx, multi, err, prov_errno, olen, NULL, 0);
	rx_gone(rx, multi != 0, true);
}

void cxi_rx_refuse(struct cxi_rx *rx, int err, int prov_errno)
{
	rx->msg = (struct cassini_event){0};
	rx->ep = rx->rxc->ep;
	rx->rc = CASSINI_RC_OK;
	rx->got = 0;
	end_err(rx, err, prov_errno, 0);
}

/* FI_SOURCE_ERR: who sent it is not in the address vector, and the entry says who it is. */
static void end_unknown(struct cxi_rx *rx, uint64_t multi)
{
	uint32_t id = rx->msg.initiator;
	struct cxi_addr a = cxi_addr_make(CASSINI_MATCH_ID_NIC(id), (uint16_t)CASSINI_MATCH_ID_PID(id), 0);

	err_push(rx, multi, FI_EADDRNOTAVAIL, 0, 0, &a, sizeof(a));
	rx_gone(rx, multi != 0, true);
}

/* Where more is to be said of the success of @rx than an entry, or less. Return: the queue of the entry; NULL: none. */
static __attribute__((noinline)) struct kit_cq *complete_rest(const struct cxi_rx *rx, struct cxi_ep *ep, uint32_t got)
{
	if (ep->kit.cntr[KIT_CNTR_RECV] && !rx->done)
		cxi_cntr_count(ep->kit.cntr[KIT_CNTR_RECV], got, 1, 0);
	return kit_rx_wants_cqe(&ep->kit, rx->flags) ? ep->kit.rx_cq : NULL;
}

/* It has succeeded: the completion. Return: the flag FI_MULTI_RECV, if that has been said. */
static inline __attribute__((always_inline)) uint64_t complete(struct cxi_rx *rx, struct cxi_ep *ep,
							       const struct cassini_event *msg, uint32_t got,
							       fi_addr_t src, uint64_t more_flags,
							       const struct cxi_rx *owner)
{
	const struct cxi_form *f = form_of(rx);
	uint64_t flags = f->cqe_flags | more_flags, tag = msg->match_bits & f->tag_mask, data = 0;
	struct kit_cq *cq = ep->kit.rx_plain;

	if (has_data(rx, msg)) {
		flags |= FI_REMOTE_CQ_DATA;
		data = msg->header_data;
	}
	if (unlikely(!cq) && !(cq = complete_rest(rx, ep, got)))
		return 0; /* a buffer's release is an entry of its own */
	kit_cq_push(cq, owner ? owner->context : rx->context, flags, got, owner ? rx->buf : NULL, data, tag,
		    src);
	return flags & FI_MULTI_RECV;
}

/* Completion or error of a receive that got all it will get; frees it. */
static void rx_end(struct cxi_rx *rx)
{
	const struct cassini_event *msg = &rx->msg;
	struct cxi_ep *ep = rx->ep;
	uint64_t multi;
	fi_addr_t src;

	if (unlikely(rx->rc != CASSINI_RC_OK)) {
		end_err(rx, cxi_errno(rx->rc), rx->rc, 0);
		return;
	}
	if (unlikely(rx->got < msg->rlength && !(rx->rxc->is_rnr && ep->domain->params.trunc_ok))) {
		end_err(rx, FI_ETRUNC, CASSINI_RC_OK, msg->rlength - rx->got);
		return;
	}
	multi = unlikely(rx->owner != NULL) ? part_leaves(rx) : 0;
	if (unlikely(rx->rxc->closing || rx->is_discard)) {
		rx_gone(rx, true, false);
		return;
	}
	src = cxi_rx_source(ep, msg->initiator, msg->vni);
	if (unlikely(src == FI_ADDR_NOTAVAIL && ep->source_err)) {
		end_unknown(rx, multi);
		return;
	}
	multi = complete(rx, ep, msg, rx->got, src, multi | (rx->got < msg->rlength ? FI_CXI_TRUNC : 0), rx->owner);
	rx_gone(rx, multi != 0, false);
}

/* --- what a message needs from us ----------------------------------------------------------------- */

/* Go on with @rx. It ends here, or when its Get does. */
static void rx_step(struct cxi_rx *rx)
{
	struct cxi_rxc *r = rx->rxc;
	int ret;

	if (unlikely(r->closing || !cxi_rx_portal(r, rx->msg.dom))) { /* there is nothing to post by */
		rx->rc = rx->needs_get ? CASSINI_RC_CANCELED : rx->rc;
		rx_end(rx);
		return;
	}
	ret = rx->needs_zbp || rx->needs_done ? cxi_rx_tell(rx) : 0;
	if (ret != -FI_EAGAIN)
		rx->needs_zbp = rx->needs_done = false;
	if (!ret && rx->needs_get) {
		ret = cxi_rx_fetch(rx);
		rx->needs_get = ret == -FI_EAGAIN;
		if (!ret)
			return; /* its REPLY ends it */
		rx->rc = ret == -FI_EAGAIN ? rx->rc : CASSINI_RC_CMD_INVALID_ARG;
	}
	if (unlikely(ret == -FI_EAGAIN)) {
		TAILQ_INSERT_TAIL(&r->stalled, rx, wait);
		return;
	}
	rx_end(rx);
}

int cxi_rx_stalled(struct cxi_rxc *r)
{
	struct cxi_rx *rx, *last = TAILQ_LAST(&r->stalled, cxi_rx_wait);
	int n = 0;

	while ((rx = TAILQ_FIRST(&r->stalled))) {
		TAILQ_REMOVE(&r->stalled, rx, wait);
		n++;
		if (rx == last) {
			rx_step(rx);
			break;
		}
		rx_step(rx);
	}
	return n;
}

void cxi_rx_forget(struct cxi_rxc *r, const struct cxi_ep *ep)
{
	struct cxi_rx *rx, *next;

	TAILQ_FOREACH_SAFE(rx, &r->stalled, wait, next) {
		if (rx->ep != ep)
			continue;
		TAILQ_REMOVE(&r->stalled, rx, wait);
		rx_step(rx); /* ends: its Domain is closed */
	}
	TAILQ_FOREACH_SAFE(rx, &r->untold, wait, next) {
		if (rx->ep != ep || rx->multi)
			continue;
		cxi_rx_told(rx);
		cxi_rx_lost(rx, CASSINI_RC_OK);
	}
	TAILQ_FOREACH(rx, &r->rx_list, link)
		if (rx->ep == ep) /* a multi-receive buffer, whose latest message came there */
			rx->ep = NULL;
}

void cxi_rx_take(struct cxi_rx *rx, const struct cassini_event *ev, bool late)
{
	size_t room = rx->len;

	rx->msg = *ev;
	rx->ep = cxi_rx_ep(rx->rxc, ev);
	rx->rc = ev->rc;
	rx->needs_get = rx->needs_zbp = rx->needs_done = false;
	rx->got = (uint32_t)MIN((size_t)ev->mlength, room);
	if (late) {
		if (rx->got)
			copy_bytes(rx->buf, ev->start, rx->got);
		cxi_buf_release(rx->rxc, ev->start, ev->mlength);
		rx->needs_zbp = cxi_wants_notice(rx->rxc, ev, true);
	}
	if (unlikely(ev->rendezvous)) {
		if (ev->get_issued)
			return; /* the adapter's REPLY goes on */
		rx->needs_get = true;
		rx->get_from = ev->remote_offset + ev->mlength;
		rx->get_len = (uint32_t)(MIN((size_t)ev->rlength, room) - rx->got);
	}
	if (unlikely(rx->needs_get || rx->needs_zbp))
		rx_step(rx);
	else
		rx_end(rx);
}

/* --- events of a list entry ---------------------------------------------------------------------- */

/* A message met the entry of @rx. */
static void hit(struct cxi_rx *rx, const struct cassini_event *ev)
{
	if (unlikely(rx->multi)) {
		cxi_multi_hit(rx, ev);
		return;
	}
	cxi_rx_unpost(rx);
	rx->state = RX_TAKEN;
	cxi_rx_take(rx, ev, ev->type == CASSINI_EV_PUT_OVERFLOW);
}

/* The event that tells of its message found no room. */
void cxi_rx_lost(struct cxi_rx *rx, uint8_t rc)
{
	if (rx->ep) { /* that of its rest did not */
		end_err(rx, FI_EIO, rc, 0);
		return;
	}
	cxi_rx_unpost(rx);
	cxi_rx_refuse(rx, FI_EIO, rc);
}

static void rx_on_reply(struct cxi_rx *owner, const struct cassini_event *ev)
{
	struct cxi_rx *rx = unlikely(owner->multi) && ev->rendezvous ? cxi_multi_part(owner, ev) : owner;

	if (unlikely(!rx)) {
		cxi_multi_reply_lost(owner);
		return;
	}
	if (unlikely(!rx->ep)) {
		cxi_rx_lost(rx, ev->rc);
		return;
	}
	if (ev->rc != CASSINI_RC_OK)
		rx->rc = ev->rc;
	else
		rx->got += ev->mlength;
	/* its own Gets say nothing to the sender of alt_read */
	rx->needs_done = !ev->rendezvous && cxi_is_alt_read(&rx->msg);
	if (unlikely(rx->needs_done))
		rx_step(rx);
	else
		rx_end(rx);
}

static void rx_on_unlink(struct cxi_rx *rx, const struct cassini_event *ev)
{
	if (ev->rc != CASSINI_RC_OK) {
		/* a message was quicker; its events follow or came */
		rx->state = rx->state == RX_UNLINKING ? RX_HW : rx->state;
		return;
	}
	cxi_rx_told(rx); /* by this, the last one of its entry */
	cxi_rx_cancelled(rx);
}

void cxi_rx_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_rx *rx = container_of(req, struct cxi_rx, req);

	switch (ev->type) {
	case CASSINI_EV_PUT:
	case CASSINI_EV_PUT_OVERFLOW:
		hit(rx, ev);
		break;
	case CASSINI_EV_REPLY:
		rx_on_reply(rx, ev);
		break;
	case CASSINI_EV_UNLINK:
		rx_on_unlink(rx, ev);
		break;
	case CASSINI_EV_LINK:
		if (ev->rc != CASSINI_RC_OK)
			cxi_fc_append_failed(rx, ev->rc);
		break;
	}
}

/*
 * A plain Put has met the entry of a receive. If it is whole, and nothing but the completion remains to be done, which
 * the receive and its context were asked when they were made (ends_shown), it is done here.
 */
bool cxi_rx_show(const struct cassini_event *ev)
{
	struct cxi_rx *rx = container_of((struct cxi_req *)(uintptr_t)ev->user_ptr, struct cxi_rx, req);
	struct cxi_rxc *r = rx->rxc;

	if (unlikely(ev->mlength != ev->rlength || !rx->ends_shown || !r->ends_shown))
		return false;
	complete(rx, r->ep, ev, ev->mlength, cxi_rx_source(r->ep, ev->initiator, ev->vni), 0, NULL);
	cxi_rx_unpost(rx);
	rest(rx, r);
	return true;
}

/* @rx, to whose @len bytes at @buf messages go that @m takes; these as the caller has them at hand. */
static inline __attribute__((always_inline)) int append(struct cxi_rx *rx, struct cxi_rxc *r, void *buf, size_t len,
							const struct cxi_match *m, bool is_multi)
{
	const struct cassini_le_attr attr = {
		.list = CASSINI_PRIORITY,
		.flags = CASSINI_LE_MANAGE_LOCAL | CASSINI_LE_OP_PUT | CASSINI_LE_UNRESTRICTED_BODY_RO |
			 CASSINI_LE_UNRESTRICTED_END_RO | CASSINI_LE_EVENT_LINK_DISABLE |
			 CASSINI_LE_EVENT_UNLINK_DISABLE | (is_multi ? 0 : CASSINI_LE_USE_ONCE),
		.start = buf,
		.length = len,
		.min_free = is_multi ? (uint32_t)r->min_multi_recv : 0,
		.match_id = m->id,
		.match_bits = m->bits,
		.ignore_bits = m->ignore,
		.user_ptr = (uintptr_t)&rx->req,
	};

	return cassini_append(r->pte, &attr, &rx->le);
}

int cxi_rx_append(struct cxi_rx *rx)
{
	const struct cxi_match m = {.bits = rx->match_bits, .ignore = rx->ignore, .id = rx->match_id};
	int ret;

	rx->state = RX_HW;
	rx->le = NULL; /* what the adapter does not take it does not write; the entry there was may be another's */
	/* software may have put messages to the beginning of it */
	ret = append(rx, rx->rxc, rx->buf + rx->used, rx->len - rx->used, &m, rx->multi);
	if (unlikely(ret))
		rx->state = RX_TAKEN;
	return ret;
}

/* --- posting ------------------------------------------------------------------------------------- */

static inline void match_make(const struct cxi_ep *ep, const struct cxi_recv_args *a, struct cxi_match *m)
{
	const struct cxi_form *f = &ep->rxc->form[a->tagged];
	struct cxi_dest src;

	m->bits = (a->tagged ? a->tag : 0) | f->bits;
	m->ignore = a->ignore | f->ignore;
	m->id = CASSINI_MATCH_ID_ANY;
	if (unlikely(ep->directed && a->src != FI_ADDR_UNSPEC && ep->kit.av) &&
	    !cxi_av_dest(container_of(ep->kit.av, struct cxi_av, kit), a->src, &src))
		m->id = CASSINI_MATCH_ID(src.pid, src.nic);
}

void cxi_match_make(const struct cxi_ep *ep, const struct cxi_recv_args *a, struct cxi_match *m)
{
	match_make(ep, a, m);
}

static inline int args_check(const struct cxi_ep *ep, const struct cxi_recv_args *a)
{
	if (unlikely(a->len > CXI_MSG_MAX && !(a->flags & FI_MULTI_RECV)))
		return -FI_EMSGSIZE;
	if (unlikely(!a->buf) && unlikely(a->len && !(a->flags & (FI_PEEK | FI_DISCARD))))
		return -FI_EINVAL;
	if (unlikely((a->tag | a->ignore) & ep->tag_not)) {
		LOG_INFO("tag %#llx or ignore mask %#llx refused: %d bits may be set", (unsigned long long)a->tag,
			 (unsigned long long)a->ignore, ep->is_rnr ? CXI_RNR_TAG_BITS : CXI_TAG_BITS);
		return -FI_EINVAL;
	}
	return 0;
}

static inline __attribute__((always_inline)) struct cxi_rx *rx_get(struct cxi_ep *ep, const struct cxi_recv_args *a,
								   const struct cxi_match *m, bool is_multi)
{
	struct cxi_rxc *r = ep->rxc;
	struct cxi_rx *rx = cxi_rx_new(r);

	if (unlikely(!rx))
		return NULL;
	rx->context = a->context;
	rx->flags = a->flags;
	rx->state = RX_HW;
	rx->tagged = a->tagged;
	rx->multi = is_multi;
	rx->unlinked = rx->canceled = rx->is_discard = rx->is_untold = false;
	rx->ends_shown = !is_multi && !a->done;
	rx->match_id = m->id;
	rx->buf = a->buf;
	rx->len = a->len;
	rx->match_bits = m->bits;
	rx->ignore = m->ignore;
	if (unlikely(a->done))
		rx->done = a->done;
	if (unlikely(is_multi)) {
		TAILQ_INIT(&rx->part_list);
		rx->lost = 0;
		rx->end = SIZE_MAX;
		rx->rc = CASSINI_RC_OK;
	}
	TAILQ_INSERT_TAIL(&r->rx_list, rx, link);
	r->accepted++;
	return rx;
}

struct cxi_rx *cxi_rx_get(struct cxi_ep *ep, const struct cxi_recv_args *a)
{
	struct cxi_match m;

	match_make(ep, a, &m);
	return rx_get(ep, a, &m, a->flags & FI_MULTI_RECV);
}

/*
 * The adapter has said @ret to @rx. @is_begun: software has given it messages. 0; -FI_EAGAIN: it was not posted, and is
 * gone.
 */
static __attribute__((noinline)) ssize_t rx_appended(struct cxi_rx *rx, int ret, bool is_begun)
{
	struct cxi_rxc *r = rx->rxc;

	if (unlikely(ret && is_begun)) {
		cxi_fc_append_later(rx);
		return 0;
	}
	if (unlikely(ret)) {
		cxi_rx_unpost(rx);
		cxi_rx_free(rx);
		return ret;
	}
	/* refused for want of an entry: later receives must not overtake it */
	if (unlikely(!rx->le) && cxi_append_refused(rx) && !r->is_rnr)
		cxi_rxc_set_state(r, CXI_RXC_PENDING_DISABLE);
	if (unlikely(r->preempts))
		cxi_fc_preempt(r, NULL);
	return 0;
}

/* Given to whoever matches it, whatever there is before it. As rx_appended(). */
static ssize_t rx_post(struct cxi_rx *rx)
{
	struct cxi_rxc *r = rx->rxc;
	uint32_t held = mt_unexp_cnt(&r->sw_unexp);

	if (unlikely(r->state == CXI_RXC_ENABLED_SOFTWARE)) {
		cxi_sw_post(r, rx);
		return 0;
	}
	/* Messages that software took over are older than all that the adapter has. */
	rx->state = RX_TAKEN;
	if (unlikely(held) && cxi_sw_try(r, rx))
		return 0;
	return rx_appended(rx, cxi_rx_append(rx), mt_unexp_cnt(&r->sw_unexp) != held);
}

/* Where something stands before it, or it is no receive of one message. By value: the caller has it in registers. */
static __attribute__((noinline)) ssize_t recv_rest(struct cxi_ep *ep, struct cxi_recv_args a)
{
	struct cxi_rxc *r = ep->rxc;
	struct cxi_rx *rx;

	if (unlikely(r->state != CXI_RXC_ENABLED && r->state != CXI_RXC_ENABLED_SOFTWARE))
		return -FI_EAGAIN;
	if (unlikely(a.flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)))
		return a.flags & FI_PEEK ? cxi_peek(ep, &a) : cxi_claim(ep, &a);
	if (unlikely(r->has_replay) && r->state == CXI_RXC_ENABLED && cxi_fc_replay(r))
		return -FI_EAGAIN;
	rx = cxi_rx_get(ep, &a);
	return likely(rx != NULL) ? rx_post(rx) : -FI_EAGAIN;
}

/* Folded into each call. Mostly nothing is in the way of a receive to the adapter's list. */
static inline __attribute__((always_inline)) ssize_t recv_common(struct cxi_ep *ep, const struct cxi_recv_args *a)
{
	struct cxi_rxc *r = ep->rxc;
	struct cxi_match m;
	struct cxi_rx *rx;
	int ret = args_check(ep, a);

	if (unlikely(ret))
		return ret;
	if (unlikely(!r->is_clear || a->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MULTI_RECV)))
		return recv_rest(ep, (struct cxi_recv_args){.buf = a->buf,
							    .len = a->len,
							    .src = a->src,
							    .tag = a->tag,
							    .ignore = a->ignore,
							    .context = a->context,
							    .flags = a->flags,
							    .done = a->done,
							    .tagged = a->tagged});
	match_make(ep, a, &m);
	rx = rx_get(ep, a, &m, false);
	if (unlikely(!rx))
		return -FI_EAGAIN;
	ret = append(rx, r, a->buf, a->len, &m, false);
	return likely(!ret && rx->le) ? 0 : rx_appended(rx, ret, false);
}

ssize_t cxi_recv_common(struct cxi_ep *ep, const struct cxi_recv_args *a)
{
	return recv_common(ep, a);
}

int cxi_recv_cancel(struct cxi_rxc *r, void *context)
{
	struct cxi_rx *rx;
	int rc;

	TAILQ_FOREACH(rx, &r->rx_list, link)
		if (rx->context == context && !rx->unlinked &&
		    (rx->state == RX_HW || rx->state == RX_SW || rx->state == RX_REPLAY))
			break;
	if (!rx)
		return -FI_ENOENT;
	if (rx->state == RX_HW) {
		/* of one that has no entry it is told yet whether it was refused one, or has its message already */
		rc = rx->le ? cassini_unlink(r->pte, CASSINI_PRIORITY, (uintptr_t)&rx->req, rx->le) : 0;
		if (!rc) /* without room for the event nothing has happened */
			rx->state = RX_UNLINKING;
		return rc;
	}
	if (rx->state == RX_SW)
		mt_posted_del(&r->sw_posted, &rx->mt);
	else
		cxi_fc_unreplay(rx);
	cxi_rx_cancelled(rx);
	return 0;
}

/* --- the calls ----------------------------------------------------------------------------------- */

static int call_check(const struct kit_recv *r)
{
	if (r->form == KIT_BY_MSG && r->flags & ~(uint64_t)RECVMSG_FLAGS)
		return -FI_EBADFLAGS;
	if (r->iov_cnt > 1 || (r->iov_cnt && !r->iov))
		return -FI_EINVAL;
	if (!r->tagged && r->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return -FI_EBADFLAGS; /* tagged messages only */
	return 0;
}

static inline __attribute__((always_inline)) ssize_t do_recv(struct fid_ep *fid, const struct kit_recv *r)
{
	struct cxi_ep *ep = cxi_ep_of(fid);
	struct cxi_recv_args a = {.buf = r->buf, .len = r->len, .src = r->src, .tag = r->tag, .ignore = r->ignore,
				  .context = r->context,
				  .flags = r->form == KIT_BY_MSG ? r->flags : ep->kit.rx_op_flags, .tagged = r->tagged};
	ssize_t ret = r->is_vec ? call_check(r) : 0;

	ret = ret ? ret : cxi_rx_state(ep);
	if (unlikely(ret))
		return ret;
	if (r->iov_cnt) {
		a.buf = r->iov->iov_base;
		a.len = r->iov->iov_len;
	}
	lock_acquire(&ep->domain->kit.lock);
	ret = recv_common(ep, &a);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

#define RECV_CALL(name_) ssize_t cxi_##name_
#include "kit/call_recv.inc"
