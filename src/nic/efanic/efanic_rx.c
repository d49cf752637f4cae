// SPDX-License-Identifier: BSD-2-Clause
// A received frame's life: door, Q_Key, receive credit or posted buffer, handler or parking place.
#include "nic/efanic/efanic_int.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

#define RECV_SGE_LEN_MAX 65535u /* the driver clips longer pieces silently */

/* --- refusals: what the sender is told; for UD the link only counts it --- */

static __attribute__((cold)) int refuse_malformed(struct efanic_qp *qp, enum efanic_drop drop)
{
	qp->drops[drop]++;
	return efanic_drop_status(drop);
}

static __attribute__((cold)) int refuse_misdirected(struct efanic_qp *qp,
						    const struct efanic_pkt_in *pkt)
{
	if (qp->is_open && pkt->qkey != qp->qkey)
		qp->stats.qkey_violations++;
	if (qp->is_ud)
		qp->stats.rx_drops++;
	return EFANIC_REMOTE_BAD_DEST_QPN;
}

static int refuse_no_receive(struct efanic_qp *qp)
{
	if (qp->is_ud)
		qp->stats.rx_drops++;
	else
		qp->stats.rnr_naks_tx++;
	return EFANIC_REMOTE_RNR;
}

bool efanic_refuse(struct efanic_qp *qp)
{
	lock_assert_held(qp->nic->lock);
	if (qp->is_reporting || qp->is_posted)
		return false;
	qp->is_refused = true;
	return true;
}

/* The handler did not want it: as if there had been no receive. The handler gave the credit back, as
 * for every packet. */
static __attribute__((cold)) int refuse_unwanted(struct efanic_qp *qp, uint32_t len)
{
	qp->is_refused = false;
	qp->taken_cnt--;
	qp->taken_bytes -= len;
	return refuse_no_receive(qp);
}

/* --- who sent it --- */

static __attribute__((noinline)) void src_stranger(struct efanic_qp *qp, struct link_peer *peer,
						   struct efanic_wc *wc)
{
	const struct link_addr *addr = link_peer_addr(peer);
	struct efanic *nic = qp->nic;
	uint16_t idx = efanic_ah_find(nic, addr->ip);

	qp->stranger = (struct efanic_dst){
		.peer = peer,
		/* A UD port does not announce its Q_Key: ours is the best guess, applications use
		   one for all. */
		.qkey = qp->is_ud ? qp->qkey : addr->nonce,
		.ah_idx = idx,
		.ah_gen = nic->ah[idx].gen,
		.wait = {SQ_NONE, SQ_NONE},
	};
	wc->src = &qp->stranger;
	wc->src_ahn = nic->ah[idx].ahn;
}

static inline void src_fill(struct efanic_qp *qp, struct link_peer *peer, struct efanic_wc *wc)
{
	struct efanic_dst *dst = link_peer_user(peer);
	const struct link_addr *addr = link_peer_addr(peer);

	wc->src_ip = addr->ip;
	wc->src_qpn = addr->port;
	if (unlikely(!dst)) {
		src_stranger(qp, peer, wc);
		return;
	}
	wc->src = dst;
	wc->src_ahn = efanic_dst_src_ahn(qp->nic, dst);
}

static void src_none(struct efanic_wc *wc)
{
	static const uint8_t no_ip[16];

	wc->src_ip = no_ip;
	wc->src_qpn = 0;
	wc->src_ahn = EFANIC_AHN_UNKNOWN;
	wc->src = NULL;
}

/* --- parking: a completion outside of efanic_poll() --- */

static struct rx_parked *park_new(struct efanic_qp *qp, struct link_peer *peer, uint32_t data_len)
{
	struct rx_parked *pk = mem_alloc(sizeof(*pk) + data_len);

	if (!pk)
		return NULL;
	if (peer && link_peer_get(qp->port, link_peer_addr(peer), &pk->peer)) {
		mem_free(pk);
		return NULL;
	}
	pk->data_len = data_len;
	return pk;
}

static void park(struct efanic_qp *qp, struct rx_parked *pk)
{
	qp->unsolicited_cnt += pk->unsolicited;
	*qp->parked_tail = pk;
	qp->parked_tail = &pk->next;
	efanic_qp_attn(qp);
}

static void parked_free(struct rx_parked *pk)
{
	if (pk->peer)
		link_peer_put(pk->peer);
	mem_free(pk);
}

static void parked_fill(struct efanic_qp *qp, const struct rx_parked *pk, struct efanic_wc *wc)
{
	wc->wr_id = pk->wr_id;
	wc->status = pk->status;
	wc->opcode = pk->opcode;
	wc->has_imm = pk->has_imm;
	wc->unsolicited = pk->unsolicited;
	wc->imm = pk->imm;
	wc->byte_len = pk->byte_len;
	wc->data.len = pk->data_len;
	wc->data.seg_cnt = pk->data_len ? 1 : 0;
	wc->data.seg[0] = (struct view_seg){pk->data, pk->data_len};
	if (pk->peer)
		src_fill(qp, pk->peer, wc);
	else
		src_none(wc);
}

static void parked_report(struct efanic_qp *qp, struct rx_parked *pk)
{
	struct efanic_wc *wc = &qp->wc_rx;

	parked_fill(qp, pk, wc);
	qp->is_reporting = true;
	qp->on_wc(qp->ctx, wc);
	qp->is_reporting = false;
	qp->stranger.peer = NULL;
}

static void parked_clear(struct efanic_qp *qp)
{
	qp->parked = NULL;
	qp->unsolicited_cnt = 0;
	qp->parked_tail = qp->unpeeked = &qp->parked;
	efanic_qp_attn(qp);
}

void efanic_peek(struct efanic_qp *qp, efanic_wc_fn fn, void *ctx)
{
	lock_assert_held(qp->nic->lock);
	qp->is_reporting = true;
	for (; *qp->unpeeked; qp->unpeeked = &(*qp->unpeeked)->next) {
		parked_fill(qp, *qp->unpeeked, &qp->wc_rx);
		fn(ctx, &qp->wc_rx);
		qp->stranger.peer = NULL;
	}
	qp->is_reporting = false;
}

static struct efanic_rwr *rq_peek(struct efanic_qp *qp)
{
	return &qp->rq[qp->rq_head];
}

static void rq_pop(struct efanic_qp *qp)
{
	if (++qp->rq_head == qp->rq_depth)
		qp->rq_head = 0;
	qp->rq_used--;
}

/* A buffer of a queue pair in error. */
static void flushed_report(struct efanic_qp *qp)
{
	struct rx_parked pk = {
		.wr_id = rq_peek(qp)->wr_id, .status = EFANIC_FLUSHED, .opcode = EFANIC_OP_RECV};

	rq_pop(qp);
	parked_report(qp, &pk);
}

int efanic_rx_report(struct efanic_qp *qp)
{
	struct rx_parked *pk = qp->parked, *next;
	int n = 0;

	parked_clear(qp);
	for (; pk; pk = next, n++) {
		next = pk->next;
		parked_report(qp, pk);
		parked_free(pk);
	}
	for (; qp->state == EFANIC_QPS_ERR && qp->rq_used; n++)
		flushed_report(qp);
	return n;
}

/* --- completions --- */

/* What the handler sees of @frame behind its header. */
static void view_payload(struct view *out, const struct view *frame, const struct efanic_pkt_in *pkt)
{
	assert(frame->seg_cnt == 1);
	view_set(out, frame->seg[0].p + pkt->hdr_len, pkt->payload_len);
}

static uint8_t wc_opcode(const struct efanic_pkt_in *pkt)
{
	return pkt->op == EFANIC_PKT_WRITE_IMM ? EFANIC_OP_RECV_RDMA_IMM : EFANIC_OP_RECV;
}

static void count_recv(struct efanic_qp *qp, const struct efanic_pkt_in *pkt)
{
	if (likely(pkt->op != EFANIC_PKT_WRITE_IMM)) {
		qp->taken_cnt++;
		qp->taken_bytes += pkt->payload_len;
	} /* the data of a WRITE has been counted by the link */
}

static __attribute__((noinline)) int complete_later(struct efanic_qp *qp, struct link_peer *peer,
						    const struct efanic_pkt_in *pkt, uint64_t wr_id,
						    uint32_t byte_len, bool unsolicited,
						    const struct view *frame)
{
	bool is_full = unsolicited && qp->unsolicited_cnt >= EFANIC_UNSOLICITED_MAX;
	struct rx_parked *pk = is_full ? NULL : park_new(qp, peer, frame ? pkt->payload_len : 0);

	if (!pk)
		return refuse_no_receive(qp);
	if (frame)
		view_copy(frame, pkt->hdr_len, pk->data, pkt->payload_len);
	pk->wr_id = wr_id;
	pk->opcode = wc_opcode(pkt);
	pk->has_imm = pkt->has_imm;
	pk->unsolicited = unsolicited;
	pk->imm = pkt->imm;
	pk->byte_len = byte_len;
	park(qp, pk);
	count_recv(qp, pkt);
	return 0;
}

/* The handler, now. What @pkt says, and @byte_len and @wr_id, as in the completion; @frame NULL: no data to show. */
static inline int show(struct efanic_qp *qp, struct link_peer *peer, const struct efanic_pkt_in *pkt, uint64_t wr_id,
		       uint32_t byte_len, bool unsolicited, const struct view *frame)
{
	struct efanic_wc *wc = &qp->wc_rx;

	wc->wr_id = wr_id;
	wc->status = EFANIC_OK;
	wc->opcode = wc_opcode(pkt);
	wc->has_imm = pkt->has_imm;
	wc->unsolicited = unsolicited;
	wc->imm = pkt->imm;
	wc->byte_len = byte_len;
	if (likely(frame))
		view_payload(&wc->data, frame, pkt);
	else
		wc->data.len = wc->data.seg_cnt = 0;
	src_fill(qp, peer, wc);
	qp->on_wc(qp->ctx, wc);
	qp->stranger.peer = NULL;
	if (unlikely(qp->is_refused))
		return refuse_unwanted(qp, pkt->payload_len);
	return 0;
}

/* The handler, now or, with a parked copy, later. Return: 0; RNR when there is no memory to park, or too much is. */
static inline int complete(struct efanic_qp *qp, struct link_peer *peer, const struct efanic_pkt_in *pkt,
			   uint64_t wr_id, uint32_t byte_len, bool unsolicited, const struct view *frame)
{
	if (unlikely(!qp->deliver))
		return complete_later(qp, peer, pkt, wr_id, byte_len, unsolicited, frame);
	count_recv(qp, pkt);
	return show(qp, peer, pkt, wr_id, byte_len, unsolicited, frame);
}

/* --- posted buffers --- */

static bool rwr_is_writable(struct efanic_qp *qp, const struct efanic_rwr *w)
{
	for (unsigned i = 0; i < w->sge_cnt; i++) {
		if (w->lkey[i] != EFANIC_LKEY_INTERNAL &&
		    !efanic_mr_check(qp->nic, qp->pd, w->lkey[i], w->iov[i].iov_base, w->iov[i].iov_len,
				     EFANIC_ACCESS_LOCAL_WRITE))
			return false;
	}
	return true;
}

static size_t rwr_len(const struct efanic_rwr *w)
{
	size_t len = 0;

	for (unsigned i = 0; i < w->sge_cnt; i++)
		len += w->iov[i].iov_len;
	return len;
}

/* Writes bytes [@src_off, +@len) of @src to the buffer from its @off on; the buffer is long enough.
 */
static void rwr_fill(const struct efanic_rwr *w, size_t off, const struct view *src, size_t src_off,
		     size_t len)
{
	for (unsigned i = 0; i < w->sge_cnt && len; i++) {
		size_t n = w->iov[i].iov_len;

		if (off >= n) {
			off -= n;
			continue;
		}
		n = MIN(n - off, len);
		view_copy(src, src_off, (uint8_t *)w->iov[i].iov_base + off, n);
		src_off += n;
		len -= n;
		off = 0;
	}
}

/* The oldest buffer ends with an error of our own. Always parked: the packet that found out is
 * still under way. */
static bool rwr_fail(struct efanic_qp *qp, uint8_t status)
{
	struct rx_parked *pk = park_new(qp, NULL, 0);

	if (!pk)
		return false;
	pk->wr_id = rq_peek(qp)->wr_id;
	pk->status = status;
	pk->opcode = EFANIC_OP_RECV;
	rq_pop(qp);
	park(qp, pk);
	return true;
}

static void rwr_write(struct efanic_qp *qp, struct link_peer *peer, const struct efanic_pkt_in *pkt,
		      const struct view *frame)
{
	const struct efanic_rwr *w = rq_peek(qp);
	struct efanic_grh grh;
	uint8_t sgid[16];
	struct view head;

	if (qp->is_ud) {
		efanic_gid_of_ip(link_peer_addr(peer)->ip, sgid);
		efanic_grh_encode(&grh, sgid, qp->nic->attr.gid, pkt->payload_len);
		head = view_of(&grh, sizeof(grh));
		rwr_fill(w, 0, &head, 0, sizeof(grh));
	}
	rwr_fill(w, qp->is_ud ? EFANIC_UD_GRH_LEN : 0, frame, pkt->hdr_len, pkt->payload_len);
}

static __attribute__((noinline)) int rx_posted(struct efanic_qp *qp, struct link_peer *peer,
					       const struct efanic_pkt_in *pkt,
					       const struct view *frame)
{
	uint32_t total = pkt->payload_len + (qp->is_ud ? EFANIC_UD_GRH_LEN : 0);
	uint64_t wr_id;
	int rc;

	while (qp->rq_used && !rwr_is_writable(qp, rq_peek(qp)))
		if (!rwr_fail(qp, EFANIC_LOCAL_INVALID_LKEY))
			break;
	if (!qp->rq_used || !rwr_is_writable(qp, rq_peek(qp)))
		return refuse_no_receive(qp);
	if (pkt->op == EFANIC_PKT_WRITE_IMM) {
		total = pkt->len;
	} else if (rwr_len(rq_peek(qp)) < total) {
		/* Guess: the buffer stays posted. fi_efa never posts one too short, so no user can
		 * tell. */
		if (qp->is_ud)
			qp->stats.rx_drops++;
		return EFANIC_REMOTE_BAD_LENGTH;
	}
	if (pkt->op != EFANIC_PKT_WRITE_IMM)
		rwr_write(qp, peer, pkt, frame);
	wr_id = rq_peek(qp)->wr_id;
	rq_pop(qp);
	rc = complete(qp, peer, pkt, wr_id, total, false, NULL);
	if (rc) { /* no memory to park: the buffer goes back in front */
		qp->rq_head = (qp->rq_head ? qp->rq_head : qp->rq_depth) - 1;
		qp->rq_used++;
	}
	return rc;
}

/* --- a frame --- */

static inline void credits_add(struct efanic_qp *qp, uint32_t n)
{
	qp->credits += n;
	efanic_rx_gate(qp);
}

static inline void credit_take(struct efanic_qp *qp)
{
	if (unlikely(!--qp->credits))
		efanic_rx_gate(qp);
}

/* It takes a receive: a posted buffer, or a credit. @frame NULL: its data is there already. */
static int rx_receive(struct efanic_qp *qp, struct link_peer *peer, const struct efanic_pkt_in *pkt,
		      const struct view *frame)
{
	int rc;

	if (unlikely(qp->is_posted))
		return rx_posted(qp, peer, pkt, frame);
	if (unlikely(!qp->credits))
		return refuse_no_receive(qp);
	credit_take(qp);
	rc = complete(qp, peer, pkt, 0, frame ? pkt->payload_len : pkt->len, false, frame);
	if (unlikely(rc) && !qp->deliver)
		credits_add(qp, 1);
	return rc;
}

/* The sender says how much it has written: not more than has come, and none of it twice. */
static int rx_write_imm(struct efanic_qp *qp, struct link_peer *peer, const struct efanic_pkt_in *pkt,
			const struct view *frame)
{
	int rc;

	(void)frame;
	if (unlikely(!link_peer_wrote(peer, pkt->len)))
		return refuse_malformed(qp, EFANIC_DROP_CLAIM);
	rc = qp->unsolicited_ok ? complete(qp, peer, pkt, 0, pkt->len, true, NULL) : rx_receive(qp, peer, pkt, NULL);
	if (!rc)
		link_peer_told(peer, pkt->len);
	return rc;
}

/* By op, what the door has let in. Return: 0; what its sender is told. */
static int (*const rows[EFANIC_PKT_NUM])(struct efanic_qp *, struct link_peer *, const struct efanic_pkt_in *,
					 const struct view *) = {
	[EFANIC_PKT_SEND] = rx_receive,
	[EFANIC_PKT_SEND_IMM] = rx_receive,
	[EFANIC_PKT_WRITE_IMM] = rx_write_imm,
};

/* The other rows of the door: what each must say, then who takes it. Apart, so that the first one needs no memory. */
static __attribute__((noinline)) int rx_rest(struct efanic_qp *qp, struct link_peer *peer, const uint8_t *bytes,
					     uint32_t len)
{
	struct efanic_pkt_in pkt;
	enum efanic_drop drop;
	struct view frame;

	view_set(&frame, bytes, len);
	drop = efanic_pkt_check(&frame, &pkt);
	if (unlikely(drop != EFANIC_DROP_NONE))
		return refuse_malformed(qp, drop);
	if (unlikely(pkt.qkey != qp->qkey || !qp->is_open))
		return refuse_misdirected(qp, &pkt);
	if (unlikely(qp->is_ud && !efanic_pkt[pkt.op].on_ud))
		return refuse_malformed(qp, EFANIC_DROP_OP);
	return rows[pkt.op](qp, peer, &pkt, &frame);
}

/*
 * The door. What nearly every frame is, its first row, goes to the handler past the completion: its credit is taken and
 * given back at once. The handler's call is the last thing there, so that nothing has to be kept beside it;
 * efanic_pass() goes on.
 */
int efanic_rx_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t frame_len)
{
	const uint32_t hdr_len = sizeof(struct efanic_hdr);
	uint32_t len = frame_len - hdr_len;
	struct efanic_qp *qp = ctx;
	struct efanic_dst *dst;

	assert(!qp->rx_lim == !(qp->on_send && qp->is_open && qp->credits));
	if (unlikely(!qp->deliver || len >= qp->rx_lim || !efanic_hdr_is(frame, qp->rx_first)))
		return rx_rest(qp, peer, frame, frame_len);
	dst = link_peer_user(peer);
	frame += hdr_len;
	qp->taken_cnt++;
	qp->taken_bytes += len;
	qp->shown_by = peer;
	return likely(dst) ? qp->on_send(qp->ctx, dst->user, frame, len) : efanic_pass(qp, frame, len);
}

/* What the first row shows has been counted; now it takes its credit. */
int efanic_pass(struct efanic_qp *qp, const uint8_t *data, uint32_t len)
{
	const struct efanic_pkt_in pkt = {.op = EFANIC_PKT_SEND, .payload_len = len};
	struct view v;

	view_set(&v, data, len);
	credit_take(qp);
	return show(qp, qp->shown_by, &pkt, 0, len, false, &v);
}

/* --- posting --- */

static bool state_takes_receives(const struct efanic_qp *qp)
{
	return qp->state != EFANIC_QPS_RESET && qp->state != EFANIC_QPS_ERR;
}

int efanic_post_recv_credits(struct efanic_qp *qp, uint32_t n)
{
	lock_assert_held(qp->nic->lock);
	if (unlikely(qp->is_posted || !state_takes_receives(qp))) {
		LOG_WARN("QP %u: receive credits in state %s%s", qp->qpn,
			 efanic_qp_state_name[qp->state],
			 qp->is_posted ? ", but it takes posted buffers" : "");
		return -EINVAL;
	}
	if (unlikely(n > qp->rq_depth - qp->credits))
		return -ENOMEM;
	credits_add(qp, n);
	return 0;
}

int efanic_post_recv(struct efanic_qp *qp, uint64_t wr_id, const struct efanic_sge *sge,
		     int sge_cnt)
{
	struct efanic_rwr *w;
	uint32_t i;

	lock_assert_held(qp->nic->lock);
	if (unlikely(!qp->is_posted || !state_takes_receives(qp) || sge_cnt < 0 ||
		     sge_cnt > qp->nic->attr.max_rq_sge)) {
		LOG_WARN("QP %u: receive of %d pieces (limit %u) in state %s%s", qp->qpn, sge_cnt,
			 qp->nic->attr.max_rq_sge, efanic_qp_state_name[qp->state],
			 qp->is_posted ? "" : ", but it takes credits");
		return -EINVAL;
	}
	if (unlikely(qp->rq_used == qp->rq_depth))
		return -ENOMEM;
	i = qp->rq_head + qp->rq_used;
	w = &qp->rq[i < qp->rq_depth ? i : i - qp->rq_depth];
	w->wr_id = wr_id;
	w->sge_cnt = (uint8_t)sge_cnt;
	for (int k = 0; k < MIN(sge_cnt, RQ_SGE_MAX); k++) {
		w->lkey[k] = sge[k].lkey;
		w->iov[k] = (struct iovec){(void *)(uintptr_t)sge[k].addr,
					   MIN(sge[k].len, RECV_SGE_LEN_MAX)};
	}
	qp->rq_used++;
	return 0;
}

void efanic_rx_flush(struct efanic_qp *qp, bool discard)
{
	struct rx_parked *pk = qp->parked, *next;

	qp->credits = 0;
	efanic_rx_gate(qp);
	parked_clear(qp);
	for (; pk; pk = next) {
		next = pk->next;
		pk->next = NULL;
		/* A consumed buffer must be given back; its data arrived before the end, so it is
		 * reported as it is, and so is what took none. */
		if (!discard && qp->is_posted)
			park(qp, pk);
		else
			parked_free(pk);
	}
	if (discard)
		qp->rq_used = 0; /* else efanic_rx_report() ends them */
}
