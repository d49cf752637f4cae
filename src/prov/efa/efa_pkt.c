// SPDX-License-Identifier: BSD-2-Clause
// Work requests of an endpoint: making, posting, retrying after receiver-not-ready, and where their completions go.
#include "prov/efa/efa.h"

#include "base/clock.h"
#include "base/log.h"

/* --- copies of packets that must wait ---------------------------------------------------------------- */

struct efa_held *efa_held_get(struct efa_ep *ep, const struct view *pkt, uint32_t msg_id)
{
	bool large = pkt->len > EFA_HELD_SMALL;
	struct efa_held *held = slab_get(large ? &ep->held_large : &ep->held_small);

	if (!held)
		return NULL;
	held->is_large = large;
	held->msg_id = msg_id;
	held->len = (uint32_t)view_copy(pkt, 0, held->data, pkt->len);
	return held;
}

void efa_held_put(struct efa_ep *ep, struct efa_held *held)
{
	slab_put(held->is_large ? &ep->held_large : &ep->held_small, held);
}

/* --- work requests ------------------------------------------------------------------------------------ */

struct efa_pkt *efa_pkt_get(struct efa_ep *ep, struct efa_peer *peer, bool large)
{
	struct efa_pkt *pkt = slab_get(large ? &ep->pkt_large : &ep->pkt_small);

	if (unlikely(!pkt))
		return NULL;
	pkt->ep = ep;
	pkt->peer = peer;
	peer->pkts++;
	pkt->dst = peer->dst;
	pkt->tx = NULL;
	pkt->rx = NULL;
	pkt->opcode = EFANIC_OP_SEND;
	pkt->rnr_cnt = 0;
	pkt->is_large = large;
	pkt->posted = pkt->is_answer = false;
	pkt->has_imm = false;
	pkt->sge_cnt = 0;
	pkt->payload_len = 0;
	return pkt;
}

void efa_pkt_put(struct efa_pkt *pkt)
{
	struct efa_peer *peer = pkt->peer;

	if (unlikely(pkt->is_answer))
		efa_quota_put(peer, EFA_Q_WORK, 1);
	slab_put(pkt->is_large ? &pkt->ep->pkt_large : &pkt->ep->pkt_small, pkt);
	if (unlikely(!--peer->pkts && (peer->flags & EFA_PEER_REMOVED)))
		efa_peer_free(peer);
}

int efa_pkt_post(struct efa_pkt *pkt)
{
	struct efanic_wr wr;
	int ret;

	wr.wr_id = (uintptr_t)pkt;
	wr.dst = pkt->dst;
	wr.opcode = pkt->opcode;
	wr.has_imm = pkt->has_imm;
	wr.sge_cnt = pkt->sge_cnt;
	wr.imm = pkt->imm;
	wr.rkey = pkt->rkey;
	wr.raddr = pkt->raddr;
	for (unsigned i = 0; i < pkt->sge_cnt; i++)
		wr.sge[i] = pkt->sge[i];
	ret = efanic_post_send(pkt->ep->qp, &wr);
	if (unlikely(ret))
		return ret == -ENOMEM ? -FI_EAGAIN : ret;
	pkt->posted = true;
	pkt->ep->need_doorbell = pkt->ep->is_busy = true;
	pkt->ep->stats.tx_pkts[pkt->type]++;
	return 0;
}

void efa_pkt_post_or_queue(struct efa_pkt *pkt)
{
	struct efa_ep *ep = pkt->ep;

	if (!STAILQ_EMPTY(&ep->queued) || efa_pkt_post(pkt)) {
		STAILQ_INSERT_TAIL(&ep->queued, pkt, link);
		ep->is_busy = true;
	}
}

void efa_pkt_end(struct efa_pkt *pkt, unsigned status)
{
	struct efa_tx *tx = pkt->tx;
	struct efa_rx *rx = pkt->rx;

	if (tx)
		efa_tx_pkt_done(tx, pkt, status);
	else if (rx)
		efa_rx_wr_done(rx, pkt, status);
	else if (status != EFANIC_OK && status != EFANIC_FLUSHED && !efa_status_is_loss(status) &&
		 !(pkt->peer->flags & EFA_PEER_REMOVED))
		efa_ep_event(pkt->ep, efa_errno(status), (int)status, "a control packet could not be sent");
	if (unlikely(efa_status_is_loss(status)))
		efa_peer_lost(pkt->peer, status); /* who waits for it is told; that it left unawaited is no error */
	efa_pkt_put(pkt);
}

void efa_pkts_retry(struct efa_ep *ep, uint64_t now_ns)
{
	struct efa_pkt *pkt, *next, *tail = STAILQ_LAST(&ep->queued, efa_pkt, link);

	/* One pass over what is queued now: a packet whose peer still backs off goes to the end again. */
	for (pkt = STAILQ_FIRST(&ep->queued); pkt; pkt = next) {
		bool last = pkt == tail;

		next = STAILQ_NEXT(pkt, link);
		STAILQ_REMOVE_HEAD(&ep->queued, link);
		if (pkt->peer->flags & EFA_PEER_REMOVED) {
			efa_pkt_end(pkt, EFANIC_FLUSHED);
		} else if ((pkt->peer->flags & EFA_PEER_RNR) && now_ns < pkt->peer->rnr_until_ns) {
			STAILQ_INSERT_TAIL(&ep->queued, pkt, link);
		} else if (efa_pkt_post(pkt)) {
			STAILQ_INSERT_HEAD(&ep->queued, pkt, link);
			return;
		}
		if (last)
			return;
	}
}

/*
 * The peer had no receive: the first time the packet goes out again at the next progress, after that the peer backs off
 * exponentially and new operations to it are refused with -FI_EAGAIN. Source: doc/facts/efa.md#receiver-not-ready.
 */
static void pkt_requeue_rnr(struct efa_pkt *pkt)
{
	struct efa_ep *ep = pkt->ep;
	struct efa_peer *peer = pkt->peer;
	const struct efa_params *prm = &ep->domain->params;

	ep->stats.rnr_queued++;
	if (pkt->rnr_cnt < 255)
		pkt->rnr_cnt++;
	if (pkt->rnr_cnt > 1) {
		uint64_t now = clk_now_ns(NULL);

		if (!(peer->flags & EFA_PEER_RNR) || now >= peer->rnr_until_ns) {
			uint64_t base = prm->timeout_interval ? (uint64_t)prm->timeout_interval
							      : 40 + (peer->addr.qkey + peer->next_msg_id) % 80;
			peer->rnr_wait_ns = peer->rnr_wait_ns ? peer->rnr_wait_ns * 2 : base * NS_PER_US;
			peer->rnr_wait_ns = MIN(peer->rnr_wait_ns, (uint64_t)prm->max_timeout * NS_PER_US);
			peer->rnr_until_ns = now + peer->rnr_wait_ns;
			efa_peer_flag(peer, EFA_PEER_RNR, true);
		}
	}
	pkt->posted = false;
	STAILQ_INSERT_TAIL(&ep->queued, pkt, link);
	ep->is_busy = true;
}

struct efa_pkt *efa_ctrl_pkt(struct efa_peer *peer, struct efa_hdr *h, struct efa_rx *rx)
{
	struct efa_ep *ep = peer->ep;
	struct efa_pkt *pkt = efa_pkt_get(ep, peer, false);

	if (!pkt)
		return NULL;
	h->flags |= EFA_FLAG_CONNID;
	h->connid = ep->self.qkey;
	pkt->is_answer = true;
	efa_quota_add(peer, EFA_Q_WORK, 1);
	pkt->type = h->type;
	pkt->rx = rx;
	if (rx)
		rx->wrs++;
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)efa_pkt_encode(h, pkt->buf, EFA_PKT_SMALL),
					  EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	return pkt;
}

int efa_ctrl_send(struct efa_peer *peer, struct efa_hdr *h, struct efa_rx *rx)
{
	struct efa_pkt *pkt = efa_ctrl_pkt(peer, h, rx);

	if (!pkt)
		return -FI_ENOMEM;
	efa_pkt_post_or_queue(pkt);
	return 0;
}

/* The transfer of a message of which nothing was kept but its bytes. NULL: no memory. */
static struct efa_tx *tx_again(struct efa_ep *ep, struct efa_peer *peer, const struct view *bytes)
{
	struct efa_eager e;
	struct efa_tx *tx;

	if (!efa_eager_decode(bytes->seg[0].p, bytes->len, &e)) /* too short: the adapter had no memory for them */
		return NULL;
	tx = efa_tx_get_any(ep, peer);
	if (!tx)
		return NULL;
	tx->injected = true;
	tx->flags = FI_INJECT | EFA_NO_CQE;
	tx->cq_flags = FI_SEND | (e.tagged ? FI_TAGGED : FI_MSG);
	tx->context = NULL;
	tx->tag = e.tag;
	tx->data = 0;
	tx->len = bytes->len - e.hdr_len;
	efa_tx_owned(tx);
	return tx;
}

/* What lay in the adapter's memory becomes a packet like any other. NULL: it has ended here. */
static struct efa_pkt *pkt_again(struct efa_ep *ep, const struct efanic_wc *wc)
{
	struct efa_tx *tx = efa_tx_of_wr(wc->wr_id);
	struct efa_peer *peer = efanic_dst_user(wc->src);
	struct efa_pkt *pkt;

	if (!tx && peer)
		tx = tx_again(ep, peer, &wc->data);
	pkt = tx && peer ? efa_pkt_get(ep, peer, wc->data.len > EFA_PKT_SMALL) : NULL;
	if (!pkt) {
		if (tx && peer) {
			tx->wrs = 0;
			efa_tx_fail(tx, FI_ENOMEM, EFA_ERR_NOMEM);
		} else if (tx) { /* of a peer that was removed, whose transfers were told */
			efa_tx_owned_done(tx);
		} else if (peer) {
			efa_ep_event(ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory for a message that could not be sent");
		}
		return NULL;
	}
	tx->peer = peer; /* the one that it was for may have been removed and inserted again */
	pkt->type = efa_eager_type(tx->cq_flags & FI_TAGGED);
	pkt->tx = tx;
	pkt->payload_len = (uint32_t)tx->len;
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)view_copy(&wc->data, 0, pkt->buf, wc->data.len),
					  EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	return pkt;
}

/* Whatever was sent and failed comes here. */
static __attribute__((cold, noinline)) void send_failed(struct efa_ep *ep, const struct efanic_wc *wc)
{
	struct efa_pkt *pkt = efa_wr_is_owned(wc->wr_id) ? pkt_again(ep, wc) : (struct efa_pkt *)(uintptr_t)wc->wr_id;

	if (!pkt)
		return;
	if (wc->status == EFANIC_REMOTE_RNR && !ep->kit.closing && !(pkt->peer->flags & EFA_PEER_REMOVED) &&
	    (!pkt->tx || ep->domain->kit.resource_mgmt != FI_RM_DISABLED))
		pkt_requeue_rnr(pkt);
	else
		efa_pkt_end(pkt, wc->status);
}

static inline void on_send_wc(struct efa_ep *ep, const struct efanic_wc *wc)
{
	struct efa_pkt *pkt = (struct efa_pkt *)(uintptr_t)wc->wr_id;
	struct efa_peer *peer;

	if (unlikely(wc->status != EFANIC_OK)) {
		send_failed(ep, wc);
		return;
	}
	if (likely(efa_wr_is_owned(wc->wr_id))) {
		efa_tx_owned_done(efa_tx_of_wr(wc->wr_id));
		return;
	}
	peer = pkt->peer;
	if (unlikely(peer->flags & EFA_PEER_RNR)) {
		efa_peer_flag(peer, EFA_PEER_RNR, false);
		peer->rnr_wait_ns = 0;
	}
	efa_pkt_end(pkt, EFANIC_OK);
}

static __attribute__((noinline)) void on_packet(struct efa_ep *ep, const struct efanic_wc *wc)
{
	struct efa_hdr h;
	size_t payload_off;
	enum efa_drop why = efa_pkt_decode(&wc->data, &h, &payload_off);
	struct efa_peer *peer;

	if (unlikely(why)) {
		if (!ep->stats.drop[why]++)
			efa_ep_event(ep, FI_EIO,
				     why == EFA_DROP_DEPRECATED ? EFA_ERR_OLD_PROTOCOL
				     : why == EFA_DROP_TYPE     ? EFA_ERR_PKT_TYPE
								: EFA_ERR_GENERIC,
				     efa_drop_name(why));
		return;
	}
	ep->stats.rx_pkts[h.type]++;
	peer = efa_peer_of_packet(ep, wc, &h);
	if (unlikely(!peer))
		return;
	if (unlikely(peer->flags & EFA_PEER_FULL) && efa_quota_refuse(peer, &h))
		return;
	if (unlikely(!(peer->flags & EFA_PEER_HS_SENT)))
		efa_handshake_send(peer);
	efa_rx_packet(peer, &h, &wc->data, payload_off);
}

/* A peer wrote with immediate data: only remote CQ data makes a completion at the target. */
static void on_write_imm_wc(struct efa_ep *ep, const struct efanic_wc *wc)
{
	if (ep->kit.rx_cq)
		kit_cq_push(ep->kit.rx_cq, NULL, FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE, wc->byte_len, NULL,
			    wc->imm, 0, FI_ADDR_NOTAVAIL);
	kit_cntr_add(ep->kit.cntr[KIT_CNTR_REMOTE_WRITE], 1, 0);
}

void efa_on_wc(void *ctx, const struct efanic_wc *wc)
{
	struct efa_ep *ep = ctx;

	switch ((enum efanic_opcode)wc->opcode) {
	case EFANIC_OP_SEND:
	case EFANIC_OP_READ:
	case EFANIC_OP_WRITE:
		on_send_wc(ep, wc);
		return;
	case EFANIC_OP_RECV:
		on_packet(ep, wc);
		break;
	case EFANIC_OP_RECV_RDMA_IMM:
		on_write_imm_wc(ep, wc);
		break;
	case EFANIC_OP_NUM:
		break;
	}
	/*
	 * The adapter's receive is consumed whatever became of it; nothing here holds on to adapter memory, so give it
	 * back.
	 */
	if (!wc->unsolicited)
		efanic_post_recv_credits(ep->qp, 1);
}
