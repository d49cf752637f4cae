// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and unexpected messages: what matches what, and how a receive ends. Source: fi_msg(3), fi_tagged(3).
#include "kit/srx.h"

#include <string.h>

/* --- life ------------------------------------------------------------------------------------------------ */

int kit_srx_init(struct kit_srx *s, struct kit_ep *ep, const struct kit_srx_ops *ops, size_t rx_extra,
		 uint32_t posted_max, bool directed)
{
	int ret;

	*s = (struct kit_srx){
		.ep = ep,
		.ops = ops,
		.rx_extra = rx_extra,
		.posted_max = posted_max,
		.min_multi_recv = 1,
		.directed = directed,
	};
	ret = slab_init(&s->slab, sizeof(struct kit_rx) + rx_extra, CACHE_LINE, 64, 0);
	if (ret)
		return ret;
	for (int i = 0; i < 2; i++) {
		mt_posted_init(&s->posted[i]);
		mt_unexp_init(&s->unexp[i]);
	}
	mt_unexp_init(&s->claimed);
	return 0;
}

static void discard_all(struct kit_srx *s, struct mt_unexp *t)
{
	struct mt_node *n;

	while ((n = mt_unexp_first(t))) {
		mt_unexp_del(t, n);
		s->ops->discard(s->ep, container_of(n, struct kit_ux, mt));
	}
}

void kit_srx_fini(struct kit_srx *s)
{
	for (int i = 0; i < 2; i++) {
		discard_all(s, &s->unexp[i]);
		mt_unexp_fini(&s->unexp[i]);
		mt_posted_fini(&s->posted[i]);
	}
	discard_all(s, &s->claimed);
	mt_unexp_fini(&s->claimed);
	s->rest = NULL;
	slab_fini(&s->slab);
}

/* A multi-receive buffer with messages in progress goes with the last of them. */
static void clear_posted(void *obj, void *arg)
{
	struct kit_rx *rx = obj;
	struct kit_srx *s = arg;

	if (!rx->posted)
		return;
	mt_posted_del(&s->posted[rx->tagged], &rx->mt);
	rx->posted = false;
	s->posted_cnt--;
	if (!rx->slices)
		slab_put(&s->slab, rx);
}

void kit_srx_clear(struct kit_srx *s)
{
	slab_foreach(&s->slab, clear_posted, s);
	for (int i = 0; i < 2; i++)
		discard_all(s, &s->unexp[i]);
	discard_all(s, &s->claimed);
}

static void forget_src(struct kit_srx *s, struct mt_unexp *t, fi_addr_t src)
{
	struct mt_node *n, *next;

	for (n = mt_unexp_first(t); n; n = next) {
		struct kit_ux *ux = container_of(n, struct kit_ux, mt);

		next = mt_unexp_next(n);
		if (ux->mt.src != src)
			continue;
		mt_unexp_del(t, n);
		s->ops->discard(s->ep, ux);
	}
}

void kit_srx_forget_src(struct kit_srx *s, fi_addr_t src)
{
	forget_src(s, &s->unexp[0], src);
	forget_src(s, &s->unexp[1], src);
	forget_src(s, &s->claimed, src);
}

static struct mt_unexp *table_of(struct kit_srx *s, const struct kit_ux *ux)
{
	return ux->is_claimed ? &s->claimed : &s->unexp[ux->tagged];
}

void kit_srx_know(struct kit_srx *s, struct kit_ux *ux, fi_addr_t src)
{
	struct kit_rx *rx = ux->is_claimed ? NULL : kit_srx_match(s, ux->tagged, src, ux->mt.tag, ux->msg_len);

	if (!rx) {
		mt_unexp_set_src(table_of(s, ux), &ux->mt, src);
		return;
	}
	mt_unexp_del(table_of(s, ux), &ux->mt);
	ux->mt.src = src;
	s->ops->start(s->ep, rx, ux);
}

void kit_srx_lose(struct kit_srx *s, struct kit_ux *ux)
{
	mt_unexp_del(table_of(s, ux), &ux->mt);
}

/* --- completion --------------------------------------------------------------------------------------------- */

/* It rests, unless it is a slice: those have another owner each. */
static void rx_free(struct kit_rx *rx)
{
	if (rx->owner)
		slab_put(&rx->srx->slab, rx);
	else
		kit_rx_rest(rx->srx, rx);
}

/*
 * A slice of a multi-receive buffer has ended. Return: FI_MULTI_RECV if it was the buffer's last and the buffer is used
 * up.
 */
static uint64_t slice_end(struct kit_rx *owner)
{
	if (--owner->slices || owner->posted)
		return 0;
	rx_free(owner);
	return FI_MULTI_RECV;
}

static uint64_t kind_flags(const struct kit_rx *rx)
{
	return rx->tagged ? FI_RECV | FI_TAGGED : FI_RECV | FI_MSG;
}

void kit_rx_done_rest(struct kit_rx *rx, const struct kit_rx_result *r)
{
	struct kit_ep *ep = rx->srx->ep;
	uint64_t flags = kind_flags(rx) | r->flags;

	if (unlikely(rx->owner != NULL))
		flags |= slice_end(rx->owner);
	/* the end of a multi-receive buffer is told even to those who asked for no completions */
	if (kit_rx_wants_cqe(ep, rx->flags) || (ep->rx_cq && (flags & FI_MULTI_RECV)))
		kit_cq_push(ep->rx_cq, rx->context, flags, r->len, rx->owner ? rx->iov[0].iov_base : r->buf, r->data,
			    r->tag, r->src);
	if (ep->cntr[KIT_CNTR_RECV])
		kit_cntr_add(ep->cntr[KIT_CNTR_RECV], 1, 0);
	rx_free(rx);
}

void kit_rx_fail(struct kit_rx *rx, const struct kit_rx_result *r, int err, int prov_errno, size_t olen,
		 const void *err_data, size_t err_len)
{
	struct kit_ep *ep = rx->srx->ep;
	struct fi_cq_err_entry e = {
		.op_context = rx->context,
		.flags = kind_flags(rx) | r->flags,
		.len = r->len,
		.buf = rx->owner ? rx->iov[0].iov_base : r->buf,
		.data = r->data,
		.tag = r->tag,
		.olen = olen,
		.err = err,
		.prov_errno = prov_errno,
	};

	if (rx->owner)
		e.flags |= slice_end(rx->owner);
	if (ep->rx_cq)
		kit_cq_push_err(ep->rx_cq, &e, err_data, err_len);
	if (ep->cntr[KIT_CNTR_RECV])
		kit_cntr_add(ep->cntr[KIT_CNTR_RECV], 0, 1);
	rx_free(rx);
}

size_t kit_rx_copy(struct kit_rx *rx, size_t off, const struct view *v, size_t view_off)
{
	size_t len = v->len - view_off, done = 0;

	if (likely(rx->iov_cnt == 1)) {
		if (unlikely(off >= rx->len))
			return 0;
		return view_copy(v, view_off, (char *)rx->iov[0].iov_base + off, MIN(len, rx->len - off));
	}
	for (unsigned i = 0; i < rx->iov_cnt && done < len; i++) {
		size_t part = rx->iov[i].iov_len;

		if (off >= part) {
			off -= part;
			continue;
		}
		part = MIN(part - off, len - done);
		done += view_copy(v, view_off + done, (char *)rx->iov[i].iov_base + off, part);
		off = 0;
	}
	return done;
}

/* --- a message arrives ----------------------------------------------------------------------------------------- */

static void multi_leave(struct kit_srx *s, struct kit_rx *owner)
{
	mt_posted_del(&s->posted[owner->tagged], &owner->mt);
	owner->posted = false;
	s->posted_cnt--;
}

/*
 * Is what is left of @owner too short for a message that a whole buffer may hold? Then that is the message's, and
 * @owner goes back to its program.
 */
static bool multi_skip(struct kit_srx *s, struct kit_rx *owner, uint64_t len)
{
	struct kit_ep *ep = s->ep;

	if (!s->multi_whole || !owner->is_begun || len <= owner->len)
		return false;
	multi_leave(s, owner);
	if (owner->slices)
		return true; /* the last of them tells that the buffer is free */
	if (ep->rx_cq)
		kit_cq_push(ep->rx_cq, owner->context, FI_MULTI_RECV, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
	rx_free(owner);
	return true;
}

/* A slice of the multi-receive buffer @owner for a message of @len bytes. NULL: no memory. */
static struct kit_rx *slice_new(struct kit_srx *s, struct kit_rx *owner, uint64_t len)
{
	struct kit_rx *rx = slab_get(&s->slab);
	size_t part = MIN(len, owner->len);

	if (!rx)
		return NULL;
	rx->srx = s;
	rx->owner = owner;
	rx->context = owner->context;
	rx->flags = owner->flags;
	rx->tagged = owner->tagged;
	rx->posted = false;
	rx->iov_cnt = 1;
	rx->iov[0] = (struct iovec){owner->iov[0].iov_base, part};
	rx->desc[0] = owner->desc[0];
	rx->len = part;
	owner->slices++;
	owner->is_begun = true;
	owner->iov[0].iov_base = (char *)owner->iov[0].iov_base + part;
	owner->len -= part;
	if (owner->len < s->min_multi_recv || !owner->len)
		multi_leave(s, owner);
	return rx;
}

struct kit_rx *kit_srx_match_multi(struct kit_srx *s, struct kit_rx *rx, fi_addr_t src, uint64_t tag, uint64_t len)
{
	bool tagged = rx->tagged;

	return multi_skip(s, rx, len) ? kit_srx_match(s, tagged, src, tag, len) : slice_new(s, rx, len);
}

int kit_srx_unexpected(struct kit_srx *s, struct kit_ux *ux)
{
	ux->mt.ignore = 0;
	ux->is_claimed = false;
	return mt_unexp_add(&s->unexp[ux->tagged], &ux->mt);
}

/* --- a receive is posted ------------------------------------------------------------------------------------------ */

static struct kit_rx *rx_new(struct kit_srx *s, bool tagged, const struct kit_recv_args *a)
{
	struct kit_rx *rx = kit_rx_get(s);

	if (unlikely(!rx))
		return NULL;
	kit_rx_init(rx, s, tagged, kit_wanted_src(s, a), a);
	rx->iov_cnt = (uint8_t)a->iov_cnt;
	rx->len = 0;
	for (size_t i = 0; i < a->iov_cnt; i++) {
		rx->iov[i] = a->iov[i];
		rx->desc[i] = a->desc ? a->desc[i] : NULL;
		rx->len += a->iov[i].iov_len;
	}
	return rx;
}

/* A message was looked at (or thrown away): its completion carries everything but data. */
static void complete_peek(struct kit_srx *s, bool tagged, const struct kit_recv_args *a, const struct kit_ux *ux)
{
	struct kit_ep *ep = s->ep;

	if (kit_rx_wants_cqe(ep, a->flags))
		kit_cq_push(ep->rx_cq, a->context,
			    FI_RECV | (tagged ? FI_TAGGED : FI_MSG) | (ux->has_data ? FI_REMOTE_CQ_DATA : 0),
			    ux->msg_len, NULL, ux->data, ux->mt.tag, s->ops->source(ux));
	if (ep->cntr[KIT_CNTR_RECV] && (!(a->flags & FI_CLAIM) || a->flags & FI_DISCARD))
		kit_cntr_add(ep->cntr[KIT_CNTR_RECV], 1, 0);
}

static int peek(struct kit_srx *s, bool tagged, const struct kit_recv_args *a)
{
	struct mt_node *n = mt_unexp_find(&s->unexp[tagged], kit_wanted_src(s, a), a->tag, a->ignore);
	struct kit_ux *ux;

	if (!n) {
		struct fi_cq_err_entry e = {
			.op_context = a->context,
			.flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG),
			.tag = a->tag,
			.err = FI_ENOMSG,
			.prov_errno = FI_ENOMSG,
		};

		if (s->ep->rx_cq)
			kit_cq_push_err(s->ep->rx_cq, &e, NULL, 0);
		return 0;
	}
	ux = container_of(n, struct kit_ux, mt);
	complete_peek(s, tagged, a, ux);
	if (!(a->flags & (FI_CLAIM | FI_DISCARD)))
		return 0;
	mt_unexp_del(&s->unexp[tagged], n);
	if (a->flags & FI_DISCARD) {
		s->ops->discard(s->ep, ux);
		return 0;
	}
	ux->is_claimed = true;
	ux->claimed = a->context;
	if (mt_unexp_add(&s->claimed, n)) {
		mt_unexp_add(&s->unexp[tagged], n);
		return -FI_ENOMEM;
	}
	return 0;
}

static struct kit_ux *find_claimed(struct kit_srx *s, bool tagged, void *context)
{
	struct mt_node *n;

	for (n = mt_unexp_first(&s->claimed); n; n = mt_unexp_next(n)) {
		struct kit_ux *ux = container_of(n, struct kit_ux, mt);

		if (ux->claimed == context && ux->tagged == tagged)
			return ux;
	}
	return NULL;
}

static int claim(struct kit_srx *s, bool tagged, const struct kit_recv_args *a)
{
	struct kit_ux *ux = find_claimed(s, tagged, a->context);
	struct kit_rx *rx;

	if (!ux)
		return -FI_EINVAL; /* nothing was claimed with this context */
	if (a->flags & FI_DISCARD) {
		complete_peek(s, tagged, a, ux);
		mt_unexp_del(&s->claimed, &ux->mt);
		s->ops->discard(s->ep, ux);
		return 0;
	}
	rx = rx_new(s, tagged, a);
	if (!rx)
		return -FI_EAGAIN;
	rx->flags &= ~FI_MULTI_RECV;
	mt_unexp_del(&s->claimed, &ux->mt);
	ux->is_claimed = false;
	s->ops->start(s->ep, rx, ux);
	return 0;
}

static void post(struct kit_srx *s, struct kit_rx *rx)
{
	mt_posted_add(&s->posted[rx->tagged], &rx->mt);
	rx->posted = true;
	s->posted_cnt++;
}

/*
 * A multi-receive buffer takes every unexpected message that is there, then is posted with what is left. Once used up,
 * it goes with its last slice, which may be while that slice starts.
 */
static void post_multi(struct kit_srx *s, struct kit_rx *rx)
{
	bool tagged = rx->tagged, is_left = true;
	struct mt_node want = rx->mt, *n;

	post(s, rx);
	while (is_left && (n = mt_unexp_find(&s->unexp[tagged], want.src, want.tag, want.ignore))) {
		struct kit_ux *ux = container_of(n, struct kit_ux, mt);
		struct kit_rx *slice = multi_skip(s, rx, ux->msg_len) ? NULL : slice_new(s, rx, ux->msg_len);

		if (!slice)
			break;
		is_left = rx->posted;
		mt_unexp_del(&s->unexp[tagged], n);
		s->ops->start(s->ep, slice, ux);
	}
}

int kit_srx_recv(struct kit_srx *s, bool tagged, const struct kit_recv_args *a)
{
	struct mt_node *n;
	struct kit_rx *rx;

	if (likely(a->iov_cnt == 1 && a->iov) &&
	    kit_srx_post(s, tagged, a->iov->iov_base, a->iov->iov_len, a->desc ? a->desc[0] : NULL,
			 kit_wanted_src(s, a), a))
		return 0;
	if (unlikely(a->flags & FI_PEEK))
		return peek(s, tagged, a);
	if (unlikely(a->flags & FI_DISCARD)) /* buffers are not looked at */
		return a->flags & FI_CLAIM ? claim(s, tagged, a) : -FI_EINVAL;
	if (unlikely(a->iov_cnt > KIT_RX_IOV_MAX || (a->iov_cnt && !a->iov)))
		return -FI_EINVAL;
	if (unlikely(a->flags & FI_CLAIM))
		return claim(s, tagged, a);
	if (unlikely(s->posted_cnt >= s->posted_max))
		return -FI_EAGAIN;
	rx = rx_new(s, tagged, a);
	if (unlikely(!rx))
		return -FI_EAGAIN;
	if (unlikely(a->flags & FI_MULTI_RECV)) {
		if (a->iov_cnt != 1) {
			rx_free(rx);
			return -FI_EINVAL;
		}
		post_multi(s, rx);
		return 0;
	}
	n = mt_unexp_find(&s->unexp[tagged], rx->mt.src, a->tag, a->ignore);
	if (likely(!n)) {
		post(s, rx);
		return 0;
	}
	mt_unexp_del(&s->unexp[tagged], n);
	s->ops->start(s->ep, rx, container_of(n, struct kit_ux, mt));
	return 0;
}

/* --- cancel -------------------------------------------------------------------------------------- */

static struct kit_rx *find_context(struct kit_srx *s, void *context)
{
	for (int i = 0; i < 2; i++)
		for (struct mt_node *n = mt_posted_first(&s->posted[i]); n; n = mt_posted_next(n)) {
			struct kit_rx *rx = container_of(n, struct kit_rx, mt);

			if (rx->context == context)
				return rx;
		}
	return NULL;
}

int kit_srx_cancel(struct kit_srx *s, void *context)
{
	struct kit_rx *rx = find_context(s, context);
	struct fi_cq_err_entry e = {.err = FI_ECANCELED, .prov_errno = FI_ECANCELED};

	if (!rx)
		return -FI_ENOENT;
	mt_posted_del(&s->posted[rx->tagged], &rx->mt);
	rx->posted = false;
	s->posted_cnt--;
	e.op_context = rx->context;
	e.flags = kind_flags(rx);
	e.tag = rx->tagged ? rx->mt.tag : 0;
	if (rx->flags & FI_MULTI_RECV && !rx->slices) /* else the last slice tells that the buffer is free */
		e.flags |= FI_MULTI_RECV;
	if (s->ep->rx_cq)
		kit_cq_push_err(s->ep->rx_cq, &e, NULL, 0);
	if (!(rx->flags & FI_MULTI_RECV) || !rx->slices)
		rx_free(rx);
	return 0;
}
