// SPDX-License-Identifier: BSD-2-Clause
// Buffers for many messages: which part of one is whose. And receives of which the adapter could not tell.
#include "prov/cxi/cxi_rxc.h"

/*
 * Theory of operation
 *
 * Each message of a multi-receive buffer gets a struct cxi_rx of its own, a part. The adapter puts messages one behind
 * the other in the order in which they arrive, and tells of long ones when their bytes are there, which may be after
 * those behind them. So where a message lies is what its event says, and the one that uses the buffer up need not be
 * the last one told of: that is who completes the number of bytes.
 *
 * Without flow control an event that finds no room in the queue is dropped, and its receive would wait for ever. It
 * ends with an error, a buffer for many messages with what it has, as soon as the queue is empty: until then earlier
 * events in it may name the receive.
 */

/* A message that lies at @at of @owner, or will, and wants @rlength bytes. */
static struct cxi_rx *part_at(struct cxi_rx *owner, size_t at, uint32_t rlength)
{
	struct cxi_rx *rx = cxi_rx_new(owner->rxc);

	if (!rx)
		return NULL;
	*rx = (struct cxi_rx){
		.req.on_event = cxi_rx_on_event,
		.rxc = owner->rxc,
		.owner = owner,
		.done = owner->done,
		.flags = owner->flags,
		.state = RX_TAKEN,
		.tagged = owner->tagged,
		.rc = CASSINI_RC_OK,
		.buf = owner->buf + at,
		.len = MIN((size_t)rlength, owner->len - at),
	};
	owner->used += rx->len;
	owner->parts++;
	owner->rxc->moved++;
	TAILQ_INSERT_TAIL(&owner->part_list, rx, link);
	return rx;
}

struct cxi_rx *cxi_rx_part(struct cxi_rx *owner, uint32_t rlength)
{
	return part_at(owner, owner->used, rlength);
}

/* What came before the buffer was posted is told of in the order of its places, and lies elsewhere yet. */
static size_t place_of(const struct cxi_rx *owner, const struct cassini_event *ev)
{
	return ev->type == CASSINI_EV_PUT_OVERFLOW ? owner->used : (size_t)((const uint8_t *)ev->start - owner->buf);
}

/* Without a part for it. */
static void skip(struct cxi_rx *owner, const struct cassini_event *ev, size_t at)
{
	owner->used += MIN((size_t)ev->rlength, owner->len - at);
	if (!ev->get_issued)
		return;
	/* its Get writes to the buffer until its REPLY comes, which finds no part */
	owner->parts++;
	owner->lost++;
}

/* After the bytes of @ev, at @at, were counted: have all been told of? */
static void look_for_end(struct cxi_rx *owner, const struct cassini_event *ev, size_t at)
{
	if (ev->auto_unlinked) {
		owner->end = at + MIN((size_t)ev->rlength, owner->len - at);
		owner->state = RX_TAKEN;
	}
	owner->unlinked |= owner->used == owner->end;
}

void cxi_multi_hit(struct cxi_rx *owner, const struct cassini_event *ev)
{
	bool is_late = ev->type == CASSINI_EV_PUT_OVERFLOW;
	size_t at = place_of(owner, ev);
	struct cxi_rx *part = part_at(owner, at, ev->rlength);

	if (unlikely(!part)) {
		cxi_rx_lose(owner->rxc, ev, is_late);
		owner->ep = cxi_rx_ep(owner->rxc, ev);
		skip(owner, ev, at);
	}
	look_for_end(owner, ev, at);
	if (likely(part))
		cxi_rx_take(part, ev, is_late);
	else
		cxi_rx_look(owner);
}

/* It does not say of which message but by its sender and id. */
struct cxi_rx *cxi_multi_part(struct cxi_rx *owner, const struct cassini_event *reply)
{
	struct cxi_rx *part;

	TAILQ_FOREACH(part, &owner->part_list, link)
		if (part->msg.initiator == reply->initiator && part->msg.rendezvous_id == reply->rendezvous_id &&
		    part->msg.life == reply->life &&
		    !((part->msg.match_bits ^ reply->match_bits) & CXI_MB_RDZV_HI))
			return part;
	return NULL;
}

void cxi_multi_reply_lost(struct cxi_rx *owner)
{
	if (!owner->lost)
		return;
	owner->lost--;
	owner->parts--;
	cxi_rx_look(owner);
}

/* --- what the adapter could not tell of ---------------------------------------------------------- */

static void end_later(struct cxi_rx *rx)
{
	if (rx->is_untold)
		return;
	rx->is_untold = true;
	TAILQ_INSERT_TAIL(&rx->rxc->untold, rx, wait);
}

void cxi_rx_told(struct cxi_rx *rx)
{
	if (!rx->is_untold)
		return;
	rx->is_untold = false;
	TAILQ_REMOVE(&rx->rxc->untold, rx, wait);
}

static void untold_put(struct cxi_rx *rx, const struct cassini_event *ev)
{
	size_t at;

	if (rx->multi) {
		at = place_of(rx, ev);
		skip(rx, ev, at);
		look_for_end(rx, ev, at);
	} else if (ev->get_issued) {
		return; /* its REPLY ends it */
	} else if (rx->state == RX_HW) {
		rx->state = RX_TAKEN;
	}
	end_later(rx);
}

static void untold_reply(struct cxi_rx *rx, const struct cassini_event *ev)
{
	struct cxi_rx *part = rx->multi ? cxi_multi_part(rx, ev) : rx;

	if (!part && !rx->lost)
		return;
	if (!part) {
		rx->lost--;
		rx->parts--;
		part = rx;
	}
	end_later(part);
}

void cxi_rx_untold(struct cxi_rx *rx, const struct cassini_event *ev)
{
	if (ev->type == CASSINI_EV_PUT || ev->type == CASSINI_EV_PUT_OVERFLOW)
		untold_put(rx, ev);
	else if (ev->type == CASSINI_EV_REPLY)
		untold_reply(rx, ev);
}

int cxi_rx_end_untold(struct cxi_rxc *r)
{
	struct cxi_rx *rx;
	int n = 0;

	if (cassini_eq_peek(r->eq))
		return 0;
	while ((rx = TAILQ_FIRST(&r->untold))) {
		cxi_rx_told(rx);
		n++;
		if (rx->multi)
			cxi_rx_look(rx);
		else
			cxi_rx_lost(rx, CASSINI_RC_OK);
	}
	return n;
}
