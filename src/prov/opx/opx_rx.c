// SPDX-License-Identifier: BSD-2-Clause
// What arrives, in order and once: dispatch by opcode, and messages up to multi-packet eager.
#include "prov/opx/opx.h"

#include "base/log.h"
#include "base/mem.h"

/* --- incoming messages that outlive their packet ------------------------------------------------------------ */

struct opx_in *opx_in_get(struct opx_peer *peer, enum opx_in_kind kind, const struct hfi_hdr *h, uint64_t len)
{
	struct opx_in *in = slab_get(&peer->ep->in_slab);

	if (!in)
		return NULL;
	memset(in, 0, offsetof(struct opx_in, small));
	in->ep = peer->ep;
	in->peer = peer;
	in->kind = (uint8_t)kind;
	in->len = len;
	in->psn = hfi_hdr_psn(h);
	in->ux.mt.tag = h->opcode & OPX_TAGGED_BIT ? le64_get(h->tag) : 0;
	in->ux.mt.src = peer->uid;
	in->ux.msg_len = len;
	in->ux.has_data = h->aux & OPX_AUX_DATA;
	in->ux.data = in->ux.has_data ? le32_get(h->imm) : 0;
	in->ux.tagged = h->opcode & OPX_TAGGED_BIT;
	if (kind == OPX_IN_EAGER)
		LIST_INSERT_HEAD(&peer->eager, in, link);
	else
		LIST_INSERT_HEAD(&peer->ins, in, link);
	return in;
}

void opx_in_put(struct opx_in *in)
{
	if (in->kept)
		opx_quota_put(in->peer, OPX_Q_KEPT, in->kept);
	if (in->peer->ahead_in == in)
		in->peer->ahead_in = NULL;
	LIST_REMOVE(in, link);
	if (in->kind == OPX_IN_RZV || in->kind == OPX_IN_MP)
		opx_flow_wait(&in->peer->flow, -1);
	if (in->tid_cnt)
		hfi_tid_free(in->ep->hw, in->tids, in->tid_cnt);
	mem_free(in->tids);
	if (in->buf != in->small)
		mem_free(in->buf);
	slab_put(&in->ep->in_slab, in);
}

static struct kit_rx_result result(const struct opx_in *in, uint64_t len)
{
	return (struct kit_rx_result){
		.len = len, .data = in->ux.data, .tag = in->ux.mt.tag, .flags = in->ux.has_data ? FI_REMOTE_CQ_DATA : 0,
		.src = opx_peer_name(in->peer), .buf = in->krx->iov[0].iov_base};
}

/* Out of line, so that it is inline where it is for most messages: in inject(). */
static __attribute__((noinline)) void done(struct kit_rx *rx, const struct kit_rx_result *r)
{
	kit_rx_done(rx->srx, rx, rx->tagged, r);
}

void opx_in_done(struct opx_in *in)
{
	struct kit_rx_result r = result(in, MIN(in->len, (uint64_t)in->krx->len));

	if (in->len > in->krx->len)
		kit_rx_fail(in->krx, &r, FI_ETRUNC, OPX_ST_TRUNC, in->len - in->krx->len, NULL, 0);
	else
		done(in->krx, &r);
	opx_in_put(in);
}

void opx_in_fail(struct opx_in *in, enum opx_status why)
{
	struct kit_rx_result r;

	if (in->is_copying && !opx_copy_cancel(&in->cp)) { /* the receive's memory is not its owner's yet */
		in->why = in->why ? in->why : (uint8_t)why;
		return;
	}
	if (in->krx) {
		r = result(in, 0);
		kit_rx_fail(in->krx, &r, opx_err_of(why), (int)why, 0, NULL, 0);
	} else if (!in->discarded) {
		kit_srx_lose(&in->ep->srx, &in->ux);
	}
	opx_in_put(in);
}

static int buf_reserve(struct opx_in *in)
{
	in->buf = in->len <= sizeof(in->small) ? in->small : mem_alloc(in->len);
	return in->buf ? 0 : -FI_ENOMEM;
}

bool opx_in_keep(struct opx_in *in)
{
	if (!kit_srx_unexpected(&in->ep->srx, &in->ux)) {
		in->ep->stats.rx_unexpected++;
		in->kept = sizeof(*in) + (in->buf && in->buf != in->small ? in->len : 0);
		opx_quota_add(in->peer, OPX_Q_KEPT, in->kept);
		return true;
	}
	return false;
}

/* Nobody has posted a receive, or its memory cannot be had: what has brought @in has not come. @in may be NULL. */
static void unkept(struct opx_peer *peer, struct opx_in *in)
{
	if (in)
		opx_in_put(in);
	opx_flow_unkept(&peer->flow);
}

/* --- inject and eager: one packet ------------------------------------------------------------------------------ */

static __attribute__((noinline)) void eager_unexpected(struct opx_peer *peer, const struct hfi_hdr *h,
						       const struct view *data)
{
	struct opx_in *in = opx_in_get(peer, OPX_IN_EAGER, h, data->len);

	if (!in || buf_reserve(in)) {
		unkept(peer, in);
		return;
	}
	view_copy(data, 0, in->buf, data->len);
	if (!opx_in_keep(in))
		unkept(peer, in);
}

static inline bool is_tagged(const struct hfi_hdr *h)
{
	return h->opcode & OPX_TAGGED_BIT;
}

static inline uint64_t eager_tag(const struct hfi_hdr *h, bool tagged)
{
	return tagged ? le64_get(h->tag) : 0;
}

static inline struct kit_rx_result eager_result(struct opx_peer *peer, const struct hfi_hdr *h, uint64_t tag,
						const struct kit_rx *rx, size_t len)
{
	bool has_data = h->aux & OPX_AUX_DATA;

	return (struct kit_rx_result){.len = len, .data = has_data ? le32_get(h->imm) : 0,
				      .tag = tag, .flags = has_data ? FI_REMOTE_CQ_DATA : 0,
				      .src = opx_peer_name(peer), .buf = rx->iov[0].iov_base};
}

/*
 * A whole message whose receive, if there is one, is not one piece or too small, or whose bytes are not in one piece.
 */
static __attribute__((noinline)) void whole_rest(struct opx_peer *peer, const struct hfi_hdr *h,
						 const struct view *data, struct kit_rx *rx)
{
	struct kit_rx_result r;

	if (!rx) {
		eager_unexpected(peer, h, data);
		return;
	}
	kit_rx_copy(rx, 0, data, 0);
	r = eager_result(peer, h, eager_tag(h, is_tagged(h)), rx, MIN((size_t)data->len, rx->len));
	if (data->len > rx->len)
		kit_rx_fail(rx, &r, FI_ETRUNC, OPX_ST_TRUNC, data->len - rx->len, NULL, 0);
	else
		done(rx, &r);
}

/* @tagged is known when this is compiled: it chooses half of what matching looks at. */
static inline __attribute__((always_inline)) void eager(struct opx_peer *peer, const struct hfi_hdr *h,
							const struct view *data, bool tagged)
{
	struct opx_ep *ep = peer->ep;
	uint64_t tag = eager_tag(h, tagged);
	struct kit_rx *rx = kit_srx_match(&ep->srx, tagged, peer->uid, tag, data->len);
	struct kit_rx_result r;

	ep->stats.rx_eager++;
	if (unlikely(!rx || rx->iov_cnt != 1 || data->seg_cnt != 1 || data->len > rx->len)) {
		whole_rest(peer, h, data, rx);
		return;
	}
	r = eager_result(peer, h, tag, rx, data->len); /* while all of it is in registers */
	copy_bytes(r.buf, data->seg[0].p, data->len);
	kit_rx_done(&ep->srx, rx, tagged, &r);
}

static __attribute__((noinline)) void on_tag_eager(struct opx_peer *peer, const struct hfi_hdr *h,
						   const struct view *data)
{
	eager(peer, h, data, true);
}

static __attribute__((noinline)) void on_msg_eager(struct opx_peer *peer, const struct hfi_hdr *h,
						   const struct view *data)
{
	eager(peer, h, data, false);
}

static __attribute__((noinline)) void inject_rest(struct opx_peer *peer, const struct hfi_hdr *h, struct kit_rx *rx)
{
	struct view data = view_of(h->w, h->aux & OPX_AUX_LEN);

	whole_rest(peer, h, &data, rx);
}

/* As eager(), of what lies in the header. */
static inline __attribute__((always_inline)) void inject(struct opx_peer *peer, const struct hfi_hdr *h, bool tagged)
{
	struct opx_ep *ep = peer->ep;
	uint32_t len = h->aux & OPX_AUX_LEN;
	uint64_t tag = eager_tag(h, tagged);
	struct kit_rx *rx = kit_srx_match(&ep->srx, tagged, peer->uid, tag, len);
	struct kit_rx_result r;

	ep->stats.rx_inject++;
	if (unlikely(!rx || rx->iov_cnt != 1 || len > rx->len)) {
		inject_rest(peer, h, rx);
		return;
	}
	r = eager_result(peer, h, tag, rx, len); /* while all of it is in registers */
	copy_tiny(r.buf, (const uint8_t *)h->w, len);
	kit_rx_done(&ep->srx, rx, tagged, &r);
}

static __attribute__((noinline)) void on_tag_inject(struct opx_peer *peer, const struct hfi_hdr *h)
{
	inject(peer, h, true);
}

static __attribute__((noinline)) void on_msg_inject(struct opx_peer *peer, const struct hfi_hdr *h)
{
	inject(peer, h, false);
}

/* --- multi-packet eager ------------------------------------------------------------------------------------------ */

static void mp_bytes(struct opx_in *in, uint64_t off, const struct view *data)
{
	if (off != in->got || data->len > in->len - off) { /* they are sent, and delivered, in order */
		in->ep->stats.rx_malformed++;
		return;
	}
	if (in->krx)
		kit_rx_copy(in->krx, off, data, 0);
	else if (!in->discarded)
		view_copy(data, 0, in->buf + off, data->len);
	in->got += data->len;
	if (in->got < in->len)
		return;
	if (in->krx) {
		opx_in_done(in);
	} else if (in->discarded) {
		opx_in_put(in);
	} else {
		in->kind = OPX_IN_EAGER; /* complete: it does not depend on its sender any more */
		opx_flow_wait(&in->peer->flow, -1);
		LIST_REMOVE(in, link);
		LIST_INSERT_HEAD(&in->peer->eager, in, link);
	}
}

static void on_mp_first(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t len = le64_get(h->w[0]);
	struct opx_in *in;

	if (len > OPX_MP_MAX) {
		peer->ep->stats.rx_malformed++;
		return;
	}
	in = opx_in_get(peer, OPX_IN_MP, h, len);
	if (!in) {
		unkept(peer, NULL);
		return;
	}
	opx_flow_wait(&peer->flow, 1); /* for the rest: who is stopped in the middle is noticed */
	in->krx = kit_srx_match(&peer->ep->srx, in->ux.tagged, peer->uid, in->ux.mt.tag, len);
	if (!in->krx && (buf_reserve(in) || !opx_in_keep(in))) {
		unkept(peer, in);
		return;
	}
	peer->ep->stats.rx_mp++;
	mp_bytes(in, 0, data);
}

static void on_mp_nth(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t psn = le64_get(h->w[1]);
	struct opx_in *in;

	LIST_FOREACH(in, &peer->ins, link) {
		if (in->kind == OPX_IN_MP && in->psn == psn) {
			mp_bytes(in, le64_get(h->w[0]), data);
			return;
		}
	}
	peer->ep->stats.rx_stale++;
}

/* --- matching says: this receive takes that message ---------------------------------------------- */

static void srx_start(struct kit_ep *kep, struct kit_rx *rx, struct kit_ux *ux)
{
	struct opx_in *in = container_of(ux, struct opx_in, ux);
	struct view data;

	(void)kep;
	in->krx = rx;
	if (in->kind == OPX_IN_RZV) {
		opx_rzv_start(in);
		return;
	}
	/* MP: packets come in order */
	data = view_of(in->buf, (uint32_t)(in->kind == OPX_IN_EAGER ? in->len : in->got));
	kit_rx_copy(rx, 0, &data, 0);
	if (in->kind == OPX_IN_EAGER)
		opx_in_done(in);
}

static void srx_discard(struct kit_ep *kep, struct kit_ux *ux)
{
	struct opx_in *in = container_of(ux, struct opx_in, ux);

	(void)kep;
	in->discarded = true;
	if (in->kind == OPX_IN_RZV)
		opx_rzv_discard(in);
	else if (in->kind == OPX_IN_EAGER)
		opx_in_put(in);
}

static fi_addr_t srx_source(const struct kit_ux *ux)
{
	return opx_peer_name(container_of(ux, struct opx_in, ux)->peer);
}

const struct kit_srx_ops opx_srx_ops = {.start = srx_start, .discard = srx_discard, .source = srx_source};

/* --- dispatch ------------------------------------------------------------------------------------ */

static void on_cts(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	if (h->aux == OPX_SUB_GET)
		opx_on_get_request(peer, h, data);
	else
		opx_on_cts(peer, h, data);
}

static void on_data(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type)
{
	switch (h->aux) {
	case OPX_SUB_RZV:
	case OPX_SUB_AHEAD:
		opx_rzv_data(peer, h, data, type);
		break;
	case OPX_SUB_PUT:
		opx_on_put(peer, h, data);
		break;
	case OPX_SUB_GET:
		opx_on_get_data(peer, h, data);
		break;
	default: /* OPX_SUB_FETCH, as opx_pkt_check() has seen */
		opx_on_fetched(peer, h, data);
		break;
	}
}

static __attribute__((noinline)) void deliver_rest(struct opx_peer *peer, const struct hfi_hdr *h,
						   const struct view *data, enum hfi_rcv_type type)
{
	switch (h->opcode) {
	case OPX_MSG_MP_EAGER_FIRST:
	case OPX_TAG_MP_EAGER_FIRST:
		on_mp_first(peer, h, data);
		break;
	case OPX_MP_EAGER_NTH:
		on_mp_nth(peer, h, data);
		break;
	case OPX_MSG_RZV_RTS:
	case OPX_TAG_RZV_RTS:
		opx_rzv_on_rts(peer, h, data);
		break;
	case OPX_RZV_CTS:
		on_cts(peer, h, data);
		break;
	case OPX_RZV_DATA:
		on_data(peer, h, data, type);
		break;
	case OPX_RMA:
		opx_on_rma(peer, h, data);
		break;
	case OPX_ATOMIC:
		opx_on_atomic(peer, h, data);
		break;
	default: /* OPX_DONE */
		opx_on_done(peer, h);
		break;
	}
}

void opx_deliver(struct opx_flow *f, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type)
{
	struct opx_peer *peer = container_of(f, struct opx_peer, flow);

	/* an expected packet's bytes are in their place already, if it is one that has a place */
	if (unlikely(type == HFI_RCV_EXPECTED && (h->opcode != OPX_RZV_DATA || h->aux != OPX_SUB_RZV))) {
		peer->ep->stats.rx_malformed++;
		return;
	}
	if (likely(h->opcode == OPX_TAG_INJECT))
		on_tag_inject(peer, h);
	else if (likely(h->opcode == OPX_MSG_INJECT))
		on_msg_inject(peer, h);
	else if (likely(h->opcode == OPX_TAG_EAGER))
		on_tag_eager(peer, h, data);
	else if (likely(h->opcode == OPX_MSG_EAGER))
		on_msg_eager(peer, h, data);
	else
		deliver_rest(peer, h, data, type);
}
