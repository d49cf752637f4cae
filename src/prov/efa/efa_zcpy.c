// SPDX-License-Identifier: BSD-2-Clause
// Zero-copy receive: a second queue pair takes messages without headers straight into the application's buffers.
// Source: doc/facts/efa.md#zero-copy-receive.
#include "prov/efa/efa.h"

#include <string.h>

#include "base/log.h"
#include "base/rng.h"

/*
 * Theory of operation
 *
 * An application that needs neither tags, order, directed receives nor atomics and whose messages fit a packet can have
 * its receives posted to the adapter. The mode is entered when the endpoint is enabled. Our handshake then names the
 * second queue pair. Two endpoints in this mode send each other messages there, without a header; everything else, and
 * messages to others, take the first one. What others send as a message can no longer be matched: their packet is an
 * event.
 */

/* Why the mode cannot be entered; NULL: it can. */
static const char *obstacle(const struct efa_ep *ep, bool is_shm)
{
	const struct fi_info *i = ep->kit.info;

	if (!ep->domain->params.use_zcpy_rx)
		return "FI_EFA_USE_ZCPY_RX=0";
	if (ep->kit.caps & (FI_DIRECTED_RECV | FI_TAGGED | FI_ATOMIC))
		return "FI_DIRECTED_RECV, FI_TAGGED or FI_ATOMIC is among the capabilities";
	if (ep->max_msg_size > EFA_MTU - ep->msg_prefix)
		return "FI_OPT_MAX_MSG_SIZE is more than a packet holds";
	if ((i->tx_attr->msg_order | i->rx_attr->msg_order) & FI_ORDER_SAS)
		return "FI_ORDER_SAS is asked for";
	if (!(i->domain_attr->mr_mode & FI_MR_LOCAL))
		return "FI_MR_LOCAL is not set";
	return is_shm ? "shared memory is not turned off" : NULL;
}

/* --- receive ---------------------------------------------------------------------------------------------- */

static fi_addr_t sender_of(const struct efa_ep *ep, const struct efanic_wc *wc)
{
	struct efa_addr a = {.qpn = wc->src_qpn, .qkey = efanic_dst_qkey(wc->src)};

	efanic_wc_gid(wc, a.gid);
	return kit_av_find(ep->kit.av, &a);
}

static void on_user_wc(void *ctx, const struct efanic_wc *wc)
{
	struct kit_rx *krx = (struct kit_rx *)(uintptr_t)wc->wr_id;
	struct kit_rx_result res = {.src = FI_ADDR_NOTAVAIL};
	struct efa_ep *ep = ctx;

	if (!krx)
		return; /* an unsolicited write to the wrong queue pair: no receive of ours is concerned */
	if (wc->status != EFANIC_OK || wc->opcode != EFANIC_OP_RECV) {
		unsigned code = wc->status != EFANIC_OK ? wc->status : EFA_ERR_PKT_TYPE;

		if (ep->kit.closing)
			slab_put(&ep->srx.slab, krx);
		else
			kit_rx_fail(krx, &res, efa_errno(code), (int)code, 0, NULL, 0);
		return;
	}
	res.len = wc->byte_len + ep->msg_prefix;
	res.flags = wc->has_imm ? FI_REMOTE_CQ_DATA : 0;
	res.data = wc->imm;
	res.src = sender_of(ep, wc);
	ep->stats.rx_pkts[EFA_WR_USER]++;
	kit_rx_done(&ep->srx, krx, krx->tagged, &res);
}

ssize_t efa_zcpy_recv(struct efa_ep *ep, const struct kit_recv_args *a)
{
	struct efanic_sge sge[EFANIC_SGE_MAX];
	struct kit_rx *krx;
	int ret;

	if (a->flags & FI_MULTI_RECV) {
		LOG_WARN(
			"a multi-receive buffer was refused: zero-copy receive mode has none (FI_EFA_USE_ZCPY_RX=0 "
			"turns it off)");
		return -FI_EOPNOTSUPP;
	}
	if (a->iov_cnt > ep->domain->attr.max_rq_sge || (a->iov_cnt && !a->iov))
		return -FI_EINVAL;
	krx = kit_rx_get(&ep->srx);
	if (!krx)
		return -FI_EAGAIN;
	kit_rx_init(krx, &ep->srx, false, kit_wanted_src(&ep->srx, a), a);
	krx->iov_cnt = (uint8_t)a->iov_cnt;
	krx->len = 0;
	for (size_t i = 0; i < a->iov_cnt; i++) {
		krx->iov[i] = a->iov[i];
		krx->len += a->iov[i].iov_len;
		sge[i] = (struct efanic_sge){a->iov[i].iov_base, (uint32_t)MIN(a->iov[i].iov_len, (size_t)EFA_MTU),
					     efa_desc_lkey(a->desc ? a->desc[i] : NULL)};
	}
	ret = efanic_post_recv(ep->user_qp, (uintptr_t)krx, sge, (int)a->iov_cnt);
	if (!ret)
		return 0;
	slab_put(&ep->srx.slab, krx);
	return ret == -ENOMEM ? -FI_EAGAIN : ret;
}

void efa_zcpy_on_wc(void *ctx, const struct efanic_wc *wc)
{
	struct efa_ep *ep = ctx;
	uint8_t type = 0;

	if (wc->opcode != EFANIC_OP_RECV || !view_copy(&wc->data, 0, &type, 1) ||
	    !(efa_pkt_tab[type].props & EFA_P_RTM)) {
		efa_on_wc(ctx, wc);
		return;
	}
	if (!ep->stats.drop_zcpy++)
		efa_ep_event(ep, FI_EINVAL, EFA_ERR_ZCPY_HEADER,
			     "a peer that does not use zero-copy receive sent a message");
	efanic_post_recv_credits(ep->qp, 1);
}

/* --- send ------------------------------------------------------------------------------------------------- */

static struct efa_pkt *make_packet(struct efa_tx *tx)
{
	struct efa_pkt *pkt = efa_pkt_get(tx->ep, tx->peer, tx->injected && tx->len > EFA_PKT_SMALL);

	if (!pkt)
		return NULL;
	pkt->type = EFA_WR_USER;
	pkt->tx = tx;
	pkt->dst = tx->peer->user_dst;
	pkt->payload_len = (uint32_t)tx->len;
	pkt->has_imm = tx->has_data;
	pkt->imm = (uint32_t)tx->data;
	if (!tx->injected) {
		efa_tx_gather(pkt, tx, 0, tx->len);
		return pkt;
	}
	kit_iov_copy_from(pkt->buf, tx->len, tx->iov, tx->iov_cnt, 0);
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)tx->len, EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	return pkt;
}

int efa_zcpy_send(struct efa_tx *tx)
{
	struct efa_peer *peer = tx->peer;
	struct efa_ep *ep = tx->ep;
	struct efa_pkt *pkt;
	int ret;

	if (!(peer->flags & EFA_PEER_HS_RCVD) && !peer->is_self)
		return efa_tx_park(tx);
	if (!efa_peer_has(peer, EFA_X_USER_RECV_QP))
		return EFA_ZCPY_NOT;
	if (tx->len > EFA_MTU)
		return -FI_EMSGSIZE;
	if (!peer->user_dst && efanic_dst_get(ep->qp, peer->ahn, peer->user_qpn, peer->user_qkey, &peer->user_dst))
		peer->user_dst = NULL;
	pkt = peer->user_dst ? make_packet(tx) : NULL;
	if (!pkt)
		return -FI_EAGAIN;
	tx->type = EFA_PKT_EAGER_MSGRTM; /* the nearest of those that have a header */
	tx->wait = 0;
	tx->need = tx->len;
	ret = efa_pkt_post(pkt);
	if (ret) {
		efa_pkt_put(pkt);
		return ret;
	}
	tx->wrs++;
	tx->sent = tx->len;
	return 0;
}

/* --- the second queue pair -------------------------------------------------------------------------------- */

bool efa_zcpy_choose(struct efa_ep *ep, bool is_shm)
{
	const char *why = obstacle(ep, is_shm);

	if (why)
		LOG_INFO("no zero-copy receive: %s", why);
	ep->zcpy_rx = !why;
	return ep->zcpy_rx;
}

int efa_zcpy_open(struct efa_ep *ep, const struct efanic_qp_attr *like)
{
	struct efanic_qp_attr attr = *like;
	int ret;

	do
		ep->user_qkey = (uint32_t)rng_entropy() & 0x7fffffff;
	while (!ep->user_qkey || ep->user_qkey == ep->self.qkey);
	attr.qkey = ep->user_qkey;
	attr.posted_buffers = true;
	attr.on_wc = on_user_wc;
	ret = efanic_qp_open(ep->domain->nic, &attr, &ep->user_qp);
	if (ret)
		return ret;
	ret = efanic_qp_to_rts(ep->user_qp, ep->rnr_retry);
	if (ret) {
		efa_zcpy_close(ep);
		return ret;
	}
	ep->inject_msg = MIN(ep->inject_msg, (size_t)ep->domain->attr.inline_buf_size);
	ep->inject_rma = MIN(ep->inject_rma, (size_t)ep->domain->attr.inline_buf_size);
	return 0;
}

void efa_zcpy_close(struct efa_ep *ep)
{
	if (ep->user_qp)
		efanic_qp_close(ep->user_qp);
	ep->user_qp = NULL;
}
