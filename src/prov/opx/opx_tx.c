// SPDX-License-Identifier: BSD-2-Clause
// Sending messages: which protocol, its first packet, and what the receiver answers. Source:
// doc/facts/opx.md#size-classes, #rendezvous.
#include "prov/opx/opx.h"

#include "base/mem.h"

/*
 * Theory of operation
 *
 *  inject      0..16 bytes, in the header
 *  eager       one packet
 *  MP eager    several packets, the first of which matches
 *  rendezvous  RTS matches; then the receiver fetches the bytes out of our exposed memory and says DONE (same host), or
 *              says CTS and gets data packets (between hosts)
 *
 * Between hosts the data of a rendezvous of up to AHEAD_MAX bytes mostly follow the RTS unasked, and DONE ends it: that
 * spares a crossing. A receiver that did not take them when they came, because no receive was posted, says CTS later.
 *
 * Delivery complete always takes the rendezvous with DONE, of whatever length. A first packet that finds no room is the
 * caller's -FI_EAGAIN and nothing has happened; later packets wait in the endpoint's pump. So first packets, which are
 * what matches, leave in the order of the calls.
 */

int opx_send_packet(struct opx_peer *peer, const struct opx_send *s)
{
	bool is_inject = s->len <= OPX_INJECT_MAX;
	uint32_t len = is_inject ? 0 : (uint32_t)s->len, head = is_inject ? opx_inject_head(s->len) : HFI_HDR_CUT;
	int rc;
	struct hfi_hdr *h = opx_flow_begin(&peer->flow, head, len, 0, &rc);

	if (unlikely(!h))
		return rc;
	if (is_inject) {
		opx_inject_hdr(&peer->flow, h, head, s);
		kit_iov_copy_from(h->w, s->len, s->iov, s->iov_cnt, 0);
	} else {
		opx_flow_payload(h, head, s->iov, s->iov_cnt);
		opx_first_hdr(&peer->flow, h, OPX_MSG_EAGER, 0, s->flags, (uint32_t)s->data, s->tag);
		h->w[0] = le64_put(s->len);
	}
	rc = opx_flow_commit(&peer->flow, h, head, len, 0);
	if (unlikely(rc))
		return rc;
	*(is_inject ? &peer->ep->stats.tx_inject : &peer->ep->stats.tx_eager) += 1;
	opx_sent(peer->ep, s->context, s->flags);
	return 0;
}

static struct opx_op *send_op(struct opx_peer *peer, const struct opx_send *s)
{
	struct opx_op *op = opx_op_get(peer, OPX_OP_SEND);

	if (!op)
		return NULL;
	op->iov_cnt = (uint8_t)s->iov_cnt;
	for (size_t i = 0; i < s->iov_cnt; i++)
		op->iov[i] = s->iov[i];
	op->len = s->len;
	op->tag = s->tag;
	op->flags = s->flags;
	op->cq_flags = opx_send_cq_flags(s->flags);
	op->context = s->context;
	op->wants_cqe = !(s->flags & OPX_NO_CQE) && kit_tx_wants_cqe(&peer->ep->kit, s->flags);
	return op;
}

static int send_mp(struct opx_peer *peer, const struct opx_send *s)
{
	struct opx_op *op = send_op(peer, s);
	struct iovec iov[OPX_IOV_MAX];
	struct hfi_hdr h;
	int cnt, rc;

	if (!op)
		return -FI_EAGAIN;
	opx_first_hdr(&peer->flow, &h, OPX_MSG_MP_EAGER_FIRST, 0, s->flags, (uint32_t)s->data, s->tag);
	h.w[0] = le64_put(s->len);
	h.w[1] = le64_put(0);
	op->is_mp = true;
	op->sent = peer->ep->mtu;
	op->mp_psn = peer->flow.tx_psn;
	cnt = (int)kit_iov_slice(s->iov, s->iov_cnt, 0, op->sent, iov, OPX_IOV_MAX);
	rc = opx_flow_post(&peer->flow, &h, iov, cnt, 0, NULL, NULL);
	if (rc) {
		opx_op_abandon(op);
		return rc;
	}
	peer->ep->stats.tx_mp++;
	opx_op_wait(op);
	opx_op_pump(op);
	return 0;
}

/* --- rendezvous -------------------------------------------------------------------------------------------- */

static void data_ahead(struct opx_op *op)
{
	op->ep->stats.tx_ahead++;
	op->is_ahead = true;
	opx_op_choose_path(op);
	opx_op_pump(op);
}

static int send_rts(struct opx_peer *peer, const struct opx_send *s)
{
	struct opx_ep *ep = peer->ep;
	bool is_local = peer->flow.is_local;
	bool is_ahead = !is_local && LIST_EMPTY(&peer->ops) && ahead_may(&peer->ahead, s->len);
	struct opx_piece pieces[OPX_PIECES];
	struct iovec iov = {pieces, 0};
	struct opx_op *op = send_op(peer, s);
	uint32_t rts = is_ahead ? OPX_RTS_DONE | OPX_RTS_AHEAD : s->flags & OPX_DONE_FLAGS ? OPX_RTS_DONE : 0;
	struct hfi_hdr h;
	int rc = 0;

	if (!op)
		return -FI_EAGAIN;
	if (s->flags & FI_INJECT)
		rc = opx_op_take_copy(op);
	if (!rc && is_local && s->len) {
		rts |= OPX_RTS_LOCAL | OPX_RTS_DONE;
		rc = opx_op_expose(op, HFI_COPY_GET, pieces);
		iov.iov_len = op->iov_cnt * sizeof(pieces[0]);
	}
	op->needs_done = rts & OPX_RTS_DONE;
	opx_first_hdr(&peer->flow, &h, OPX_MSG_RZV_RTS, 0, s->flags, (uint32_t)s->data, s->tag);
	h.w[0] = le64_put(s->len);
	h.w[1] = le64_put(opx_op_handle(op) | (uint64_t)rts << 32);
	rc = rc ? rc : opx_flow_post(&peer->flow, &h, &iov, iov.iov_len != 0, 0, NULL, NULL);
	if (rc) {
		opx_op_abandon(op);
		return rc;
	}
	op->is_posted = rts & OPX_RTS_LOCAL; /* the receiver fetches */
	ep->stats.tx_rzv += !(rts & OPX_RTS_LOCAL);
	ep->stats.tx_rzv_local += (rts & OPX_RTS_LOCAL) != 0;
	opx_op_wait(op);
	ahead_sent(&peer->ahead, is_ahead);
	if (is_ahead)
		data_ahead(op);
	return 0;
}

/* Its data had gone by when a receive took it. */
static void ahead_again(struct opx_op *op)
{
	ahead_missed(&op->peer->ahead);
	op->is_ahead = op->is_posted = false;
	op->sent = 0;
}

void opx_on_cts(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t w1 = le64_get(h->w[1]), want = le64_get(h->tag);
	struct opx_op *op = opx_op_find(peer, (uint32_t)le64_get(h->w[0]));
	uint32_t tids = le32_get(h->imm);
	bool is_owed;

	if (!op)
		return;
	is_owed = op->is_ahead || (!op->is_posted && !op->in_pump);
	if (op->kind != OPX_OP_SEND || op->is_mp || !is_owed || op->err || want > op->len) {
		peer->ep->stats.rx_malformed++; /* nobody has asked, or it was answered before */
		return;
	}
	if (op->is_ahead)
		ahead_again(op);
	op->len = want;
	op->peer_handle = (uint32_t)w1;
	op->tid_gen = (uint32_t)(w1 >> 32);
	if (tids && opx_take_tids(op, data, tids)) {
		opx_op_fail(op, FI_EIO, OPX_ST_RANGE);
		opx_flow_doom(&peer->flow, OPX_ST_NOMEM); /* the receiver waits for data that will not come */
		return;
	}
	opx_op_choose_path(op);
	opx_op_pump(op);
}

int opx_take_tids(struct opx_op *op, const struct view *data, uint32_t cnt)
{
	uint64_t sum = 0;

	if (cnt > HFI_TID_CNT || data->len != cnt * sizeof(struct opx_wire_tid))
		return -FI_EINVAL;
	op->tids = mem_alloc(cnt * sizeof(*op->tids));
	if (!op->tids)
		return -FI_ENOMEM;
	for (uint32_t i = 0; i < cnt; i++) {
		struct opx_wire_tid w;

		view_copy(data, i * sizeof(w), &w, sizeof(w));
		op->tids[i] = (struct hfi_tid){.idx = le16_get(w.idx), .gen = (uint16_t)op->tid_gen,
					       .len = le32_get(w.len)};
		/* every entry but the last is full, so that a byte's entry is known by division */
		if (op->tids[i].idx >= HFI_TID_CNT || !op->tids[i].len || op->tids[i].len > HFI_TID_BYTES ||
		    (i + 1 < cnt && op->tids[i].len != HFI_TID_BYTES))
			return -FI_EINVAL;
		sum += op->tids[i].len;
	}
	op->tid_cnt = (uint16_t)cnt;
	return sum == op->len ? 0 : -FI_EINVAL;
}

void opx_on_done(struct opx_peer *peer, const struct hfi_hdr *h)
{
	uint32_t id = (uint32_t)le64_get(h->w[0]);
	uint64_t st = le64_get(h->w[1]);
	struct opx_op *op;

	if (id == OPX_NO_HANDLE && st && peer->silent) {
		peer->silent--;
		opx_refused(peer, (enum opx_status)st);
		return;
	}
	op = opx_op_find(peer, id);
	if (!op) {
		peer->ep->stats.done_late++;
		return;
	}
	/* a rendezvous that waits for CTS may be refused instead */
	if (!op->needs_done && (!st || op->kind != OPX_OP_SEND || op->is_mp || op->is_posted || op->in_pump)) {
		peer->ep->stats.rx_malformed++;
		return;
	}
	op->is_done = true;
	op->is_posted |= op->kind == OPX_OP_SEND; /* the receiver wants nothing more, perhaps nothing at all */
	if (st) {
		opx_op_fail(op, opx_err_of((enum opx_status)st), (enum opx_status)st);
		return;
	}
	opx_op_check(op);
}

void opx_refused(struct opx_peer *peer, enum opx_status why)
{
	struct opx_ep *ep = peer->ep;

	ep->stats.rma_refused++;
	kit_ep_late_error(&ep->kit, opx_err_of(why), (int)why, opx_strerror((int)why), false);
	if (ep->kit.cntr[KIT_CNTR_WRITE])
		kit_cntr_add(ep->kit.cntr[KIT_CNTR_WRITE], 0, 1);
}

void opx_done_send(struct opx_peer *peer, uint32_t handle, enum opx_status st)
{
	struct hfi_hdr h;

	opx_flow_hdr(&peer->flow, &h, OPX_DONE, 0, 0);
	h.w[0] = le64_put(handle);
	h.w[1] = le64_put(st);
	h.tag = le64_put(0);
	/* without memory the flow ends, and the peer hears of that */
	opx_flow_post(&peer->flow, &h, NULL, 0, OPX_POST_CONTROL, NULL, NULL);
	peer->ep->need_doorbell = true;
}

/* --- choice -------------------------------------------------------------------------------------------------- */

int opx_send(struct opx_peer *peer, const struct opx_send *s)
{
	struct opx_ep *ep = peer->ep;
	int rc;

	if (unlikely(peer->flow.state != OPX_FLOW_OPEN)) {
		rc = opx_peer_open(peer);
		if (rc)
			return rc;
	}
	if (opx_fence(peer, s->flags))
		return -FI_EAGAIN;
	ep->need_doorbell = true;
	if (unlikely(s->flags & OPX_DONE_FLAGS))
		return send_rts(peer, s);
	if (s->len <= ep->packet_max)
		return opx_send_packet(peer, s);
	return s->len <= ep->mp_max ? send_mp(peer, s) : send_rts(peer, s);
}
