// SPDX-License-Identifier: BSD-2-Clause
// Unexpected messages: overflow and request buffers, and what software matches itself.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi_rxc.h"

/* --- buffers ------------------------------------------------------------------------------------- */

static void buf_free(struct cxi_buf *b)
{
	b->rxc->buf_cnt[b->kind]--;
	mem_free(b->data);
	mem_free(b);
}

/* Used up and empty: kept for reuse up to FI_CXI_*_MAX_CACHED. */
static void buf_retire(struct cxi_buf *b)
{
	const struct cxi_params *p = &b->rxc->domain->params;
	size_t keep = b->kind ? p->req_buf_max_cached : p->oflow_buf_max_cached;
	struct cxi_rxc *r = b->rxc;

	LIST_REMOVE(b, link);
	if (keep && r->buf_cnt[b->kind] > keep && !b->is_untold) {
		buf_free(b);
		return;
	}
	LIST_INSERT_HEAD(&r->spare[b->kind], b, link);
}

static bool buf_is_done(const struct cxi_buf *b)
{
	return !b->linked && b->told == b->used && b->released == b->used;
}

/* A message has come to lie in @b. */
static void buf_count(struct cxi_buf *b, const struct cassini_event *ev)
{
	b->told += ev->mlength;
	b->rxc->moved++;
	if (!ev->auto_unlinked)
		return;
	b->linked = false;
	b->used = (size_t)((uint8_t *)ev->start - b->data) + ev->mlength; /* they lie one behind the other */
	b->rxc->buf_posted[b->kind]--;
}

static void buf_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_buf *b = container_of(req, struct cxi_buf, req);
	struct cxi_rxc *r = b->rxc;
	int kind = b->kind;

	if (ev->type != CASSINI_EV_PUT || r->closing)
		return;
	buf_count(b, ev);
	if (kind && !cxi_fc_hold_message(r, ev))
		cxi_sw_message(r, ev); /* may empty the buffer, which then is gone if it was unlinked */
	else if (!kind && buf_is_done(b))
		buf_retire(b); /* its messages may be lost before their events are read: header_lost() */
	if (ev->auto_unlinked)
		cxi_bufs_fill(r, kind);
	if (unlikely(r->mode == CXI_MATCH_HYBRID))
		cxi_fc_preempt(r, ev);
}

/* An overflow message without its event is still found by its header; of another one nobody will ever hear. */
void cxi_buf_untold(struct cxi_rxc *r, const struct cassini_event *ev)
{
	struct cxi_req *req = (struct cxi_req *)(uintptr_t)ev->user_ptr;
	struct cxi_buf *b = container_of(req, struct cxi_buf, req);

	if (r->closing)
		return;
	if (req->on_event == cxi_rx_on_event)
		cxi_rx_untold(container_of(req, struct cxi_rx, req), ev);
	if (req->on_event != buf_on_event || ev->type != CASSINI_EV_PUT)
		return;
	b->is_untold = true;
	buf_count(b, ev);
	if (b->kind)
		b->released += ev->mlength;
	r->buf_short[b->kind] |= ev->auto_unlinked; /* cxi_rxc_timers() posts the next one */
	if (buf_is_done(b))
		buf_retire(b);
}

static struct cxi_buf *buf_get(struct cxi_rxc *r, int kind)
{
	const struct cxi_params *p = &r->domain->params;
	struct cxi_buf *b = LIST_FIRST(&r->spare[kind]);

	if (b) {
		LIST_REMOVE(b, link);
		return b;
	}
	if (kind && p->req_buf_max_count && r->buf_cnt[kind] >= p->req_buf_max_count)
		return NULL;
	b = mem_alloc(sizeof(*b));
	if (!b)
		return NULL;
	b->size = kind ? p->req_buf_size : p->oflow_buf_size;
	b->data = mem_alloc(b->size); /* pages appear as messages do */
	if (!b->data) {
		mem_free(b);
		return NULL;
	}
	b->req.on_event = buf_on_event;
	b->rxc = r;
	b->kind = (uint8_t)kind;
	r->buf_cnt[kind]++;
	return b;
}

/*
 * 0; -FI_EAGAIN: no room in the event queue, or no memory for its entry. The LINK event that says so is not looked
 * at.
 */
static int buf_post(struct cxi_buf *b)
{
	const struct cxi_params *p = &b->rxc->domain->params;
	size_t most = MAX(p->rdzv_threshold + p->rdzv_get_min, p->rdzv_eager_size);
	struct cassini_le_attr attr = {
		.list = b->kind ? CASSINI_REQUEST : CASSINI_OVERFLOW,
		.flags = CASSINI_LE_MANAGE_LOCAL | CASSINI_LE_NO_TRUNCATE | CASSINI_LE_OP_PUT |
			 CASSINI_LE_EVENT_LINK_DISABLE | CASSINI_LE_EVENT_UNLINK_DISABLE |
			 CASSINI_LE_UNRESTRICTED_BODY_RO | CASSINI_LE_UNRESTRICTED_END_RO,
		.start = b->data,
		.length = b->size,
		.min_free = (uint32_t)MIN(most, (size_t)CXI_MIN_FREE_MAX),
		.match_id = CASSINI_MATCH_ID_ANY,
		.ignore_bits = ~0ULL,
		.user_ptr = (uintptr_t)&b->req,
	};
	struct cassini_le *le = NULL;
	int ret;

	b->told = b->released = 0;
	b->linked = true;
	ret = cassini_append(b->rxc->pte, &attr, &le);
	return ret ? ret : le ? 0 : -FI_EAGAIN;
}

/* Where software manages the entry it takes no more overflow buffers, and needs none. */
static bool takes_bufs(const struct cxi_rxc *r, int kind, struct cassini_pte_status *st)
{
	if (r->closing)
		return false;
	cassini_pte_status(r->pte, st, NULL, 0);
	return kind || st->state != CASSINI_PTE_SOFTWARE_MANAGED;
}

int cxi_bufs_fill(struct cxi_rxc *r, int kind)
{
	const struct cxi_params *p = &r->domain->params;
	size_t want = kind ? p->req_buf_min_posted : p->oflow_buf_min_posted;
	struct cassini_pte_status st;

	r->buf_short[kind] = false;
	while (r->buf_posted[kind] < want && takes_bufs(r, kind, &st)) {
		/* to ask without an entry makes an event each time, over which nobody could go to sleep */
		bool has_entry = st.les_used < st.les_max;
		struct cxi_buf *b = has_entry ? buf_get(r, kind) : NULL;
		int ret = b ? buf_post(b) : has_entry ? -FI_ENOMEM : -FI_EAGAIN;

		if (ret) {
			r->buf_short[kind] = true; /* tried again by cxi_rxc_timers() */
			if (b)
				LIST_INSERT_HEAD(&r->spare[kind], b, link);
			/* with at least one posted we go on, in small steps */
			return r->buf_posted[kind] ? 0 : ret;
		}
		LIST_INSERT_HEAD(&r->bufs, b, link);
		r->buf_posted[kind]++;
		r->moved++;
	}
	return 0;
}

static struct cxi_buf *buf_of(struct cxi_rxc *r, const void *start)
{
	const uint8_t *at = start;
	struct cxi_buf *b;

	LIST_FOREACH(b, &r->bufs, link)
		if (at >= b->data && at < b->data + b->size)
			return b;
	return NULL;
}

void cxi_buf_release(struct cxi_rxc *r, const void *start, uint32_t len)
{
	struct cxi_buf *b = len ? buf_of(r, start) : NULL;

	if (!b)
		return;
	b->released += len;
	if (buf_is_done(b))
		buf_retire(b);
}

void cxi_bufs_free(struct cxi_rxc *r)
{
	struct cxi_buf *b;

	for (int kind = 0; kind < 2; kind++) {
		while ((b = LIST_FIRST(&r->spare[kind]))) {
			LIST_REMOVE(b, link);
			buf_free(b);
		}
	}
	while ((b = LIST_FIRST(&r->bufs))) {
		LIST_REMOVE(b, link);
		buf_free(b);
	}
}

/* --- messages that software holds ---------------------------------------------------------------- */

static uint64_t src_of(uint32_t match_id)
{
	return match_id == CASSINI_MATCH_ID_ANY ? MT_ANY_SRC : match_id;
}

/* Of a message that came to an endpoint that has closed since then nothing is kept. */
static bool is_late(struct cxi_rxc *r, const struct cassini_event *ev)
{
	if (likely(cxi_rx_portal(r, ev->dom)))
		return false;
	cxi_buf_release(r, ev->start, ev->mlength);
	return true;
}

static void ux_keep(struct cxi_rxc *r, const struct cassini_event *ev)
{
	struct cxi_ux *ux = slab_get(&r->uxs);

	if (!ux) {
		cxi_rx_lose(r, ev, true);
		return;
	}
	ux->ev = *ev;
	ux->mt.tag = ev->match_bits;
	ux->mt.src = ev->initiator;
	mt_unexp_add(&r->sw_unexp, &ux->mt);
	r->moved++;
	cxi_rxc_gate(r);
}

void cxi_ux_add(struct cxi_rxc *r, const struct cassini_event *ev)
{
	if (!is_late(r, ev))
		ux_keep(r, ev);
}

void cxi_ux_del(struct cxi_rxc *r, struct cxi_ux *ux)
{
	mt_unexp_del(&r->sw_unexp, &ux->mt);
	cxi_rxc_gate(r);
}

/* @ux, which is off its list. */
static void ux_drop(struct cxi_rxc *r, struct cxi_ux *ux)
{
	cxi_buf_release(r, ux->ev.start, ux->ev.mlength);
	slab_put(&r->uxs, ux);
}

void cxi_ux_forget(struct cxi_rxc *r)
{
	struct cxi_ux *ux, *next;
	struct mt_node *n, *n_next;

	for (n = mt_unexp_first(&r->sw_unexp); n; n = n_next) {
		n_next = mt_unexp_next(n);
		ux = container_of(n, struct cxi_ux, mt);
		if (cxi_rx_portal(r, ux->ev.dom))
			continue;
		cxi_ux_del(r, ux);
		ux_drop(r, ux);
	}
	TAILQ_FOREACH_SAFE(ux, &r->claimed, link, next) {
		if (cxi_rx_portal(r, ux->ev.dom))
			continue;
		TAILQ_REMOVE(&r->claimed, ux, link);
		ux_drop(r, ux);
	}
}

/*
 * A receive that wants nothing takes the message: the sender of a rendezvous, or who waits for the match, is told as
 * ever.
 */
void cxi_ux_discard(struct cxi_rxc *r, const struct cassini_event *ev)
{
	struct cxi_rx *rx = cxi_rx_new(r);

	if (!rx) {
		cxi_rx_pass(r, ev, true);
		return;
	}
	*rx = (struct cxi_rx){.req.on_event = cxi_rx_on_event, .rxc = r, .state = RX_TAKEN, .is_discard = true,
			      .rc = CASSINI_RC_OK};
	cxi_rx_take(rx, ev, true);
}

/* @rx, in software's list or about to be, takes the message of @ev. Return: @rx can take more. */
static bool sw_give(struct cxi_rx *rx, const struct cassini_event *ev)
{
	struct cxi_rxc *r = rx->rxc;
	struct cxi_rx *part;

	if (!rx->multi) {
		cxi_rx_unpost(rx);
		rx->state = RX_TAKEN;
		cxi_rx_take(rx, ev, true);
		return false;
	}
	part = cxi_rx_part(rx, ev->rlength);
	if (!part) {
		cxi_rx_lose(r, ev, true);
		return true;
	}
	rx->unlinked = rx->len - rx->used < r->min_multi_recv;
	/* the last part may end here and take @rx with it */
	if (rx->unlinked) {
		if (rx->state == RX_SW)
			mt_posted_del(&r->sw_posted, &rx->mt);
		rx->state = RX_TAKEN;
		cxi_rx_take(part, ev, true);
		return false;
	}
	cxi_rx_take(part, ev, true);
	return true;
}

void cxi_sw_message(struct cxi_rxc *r, const struct cassini_event *ev)
{
	struct mt_node *n;
	struct cxi_rx *rx;

	if (is_late(r, ev))
		return;
	n = mt_posted_match(&r->sw_posted, ev->initiator, ev->match_bits);
	if (!n) {
		ux_keep(r, ev);
		return;
	}
	rx = container_of(n, struct cxi_rx, mt);
	if (!rx->multi)
		mt_posted_del(&r->sw_posted, n);
	sw_give(rx, ev);
}

bool cxi_sw_try(struct cxi_rxc *r, struct cxi_rx *rx)
{
	struct mt_node *n;

	while ((n = mt_unexp_find(&r->sw_unexp, src_of(rx->match_id), rx->match_bits, rx->ignore))) {
		struct cxi_ux *ux = container_of(n, struct cxi_ux, mt);
		struct cassini_event ev = ux->ev;

		cxi_ux_del(r, ux);
		slab_put(&r->uxs, ux);
		if (!sw_give(rx, &ev))
			return true;
	}
	return false;
}

void cxi_sw_post(struct cxi_rxc *r, struct cxi_rx *rx)
{
	rx->state = RX_TAKEN;
	if (mt_unexp_cnt(&r->sw_unexp) && cxi_sw_try(r, rx))
		return;
	rx->state = RX_SW;
	rx->mt.tag = rx->match_bits;
	rx->mt.ignore = rx->ignore;
	rx->mt.src = src_of(rx->match_id);
	mt_posted_add(&r->sw_posted, &rx->mt);
}
