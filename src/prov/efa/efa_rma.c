// SPDX-License-Identifier: BSD-2-Clause
// FI_RMA of the RDM endpoint: device RDMA where both sides have it, packets otherwise; both sides of the latter.
// Source: doc/facts/efa.md#one-sided-transfers.
#include "prov/efa/efa.h"

#include <string.h>

#include "base/guard.h"
#include "base/mem.h"

/* --- device ---------------------------------------------------------------------------------------- */

struct wr_walk {
	uint64_t off;           /* bytes of the transfer behind us */
	unsigned li, ri;        /* local and remote piece */
	uint64_t loff, roff;
};

/* Bytes that one work request moves at most. */
static uint64_t wr_max(const struct efa_tx *tx)
{
	return MIN((uint64_t)tx->ep->domain->params.inter_read_segment_size, tx->ep->domain->attr.max_rdma_size);
}

/* The next work request: inside one local and one remote piece and the device's limit. Return: its length. */
static uint64_t walk_len(const struct efa_tx *tx, const struct wr_walk *w)
{
	return MIN(MIN(tx->iov[w->li].iov_len - w->loff, tx->rma_iov[w->ri].len - w->roff), wr_max(tx));
}

static void walk_on(const struct efa_tx *tx, struct wr_walk *w, uint64_t len)
{
	w->off += len;
	w->loff += len;
	w->roff += len;
	while (w->li + 1 < tx->iov_cnt && w->loff == tx->iov[w->li].iov_len)
		w->loff = 0, w->li++;
	while (w->ri + 1 < tx->rma_iov_cnt && w->roff == tx->rma_iov[w->ri].len)
		w->roff = 0, w->ri++;
}

static unsigned count_wrs(const struct efa_tx *tx)
{
	struct wr_walk w = {0};
	unsigned cnt = 0;

	do {
		walk_on(tx, &w, walk_len(tx, &w));
		cnt++;
	} while (w.off < tx->len && cnt < UINT16_MAX);
	return cnt;
}

static int post_device(struct efa_tx *tx, const struct wr_walk *w, uint64_t len, uint8_t opcode)
{
	struct efa_pkt *pkt = efa_pkt_get(tx->ep, tx->peer, tx->injected && len);
	char *local = (char *)tx->iov[w->li].iov_base + w->loff;
	uint32_t lkey = efa_desc_lkey(tx->desc[w->li]);
	int ret;

	if (!pkt)
		return -FI_EAGAIN;
	pkt->type = opcode == EFANIC_OP_READ ? EFA_WR_READ : EFA_WR_WRITE;
	pkt->opcode = opcode;
	pkt->tx = tx;
	pkt->payload_len = (uint32_t)len;
	pkt->raddr = tx->rma_iov[w->ri].addr + w->roff;
	pkt->rkey = (uint32_t)tx->rma_iov[w->ri].key;
	if (tx->injected && len) {
		local = memcpy(pkt->buf, local, len);
		lkey = EFANIC_LKEY_INTERNAL;
	}
	if (tx->has_data) {
		pkt->has_imm = true;
		pkt->imm = (uint32_t)tx->data;
	}
	pkt->sge[0] = (struct efanic_sge){local, (uint32_t)len, lkey};
	pkt->sge_cnt = 1;
	ret = efa_pkt_post(pkt);
	if (ret) {
		efa_pkt_put(pkt);
		return ret;
	}
	tx->wrs++;
	tx->sent += len;
	return 0;
}

static int start_device(struct efa_tx *tx, uint8_t opcode)
{
	struct wr_walk w = {0};

	if (efanic_sq_free(tx->ep->qp) < count_wrs(tx))
		return -FI_EAGAIN;
	tx->need = tx->len;
	do {
		uint64_t len = walk_len(tx, &w);
		int ret = post_device(tx, &w, len, opcode);

		if (ret && !tx->wrs)
			return ret;
		if (ret) {
			efa_tx_fail(tx, FI_ENOMEM, EFA_ERR_NOMEM);
			return 0;
		}
		walk_on(tx, &w, len);
	} while (w.off < tx->len);
	return 0;
}

/* --- packets ---------------------------------------------------------------------------------------- */

static int start_write_packets(struct efa_tx *tx)
{
	bool dc = (tx->flags & FI_DELIVERY_COMPLETE) && !tx->injected;
	struct efa_hdr h;
	int ret;

	if (dc && !efa_peer_has(tx->peer, EFA_X_DELIVERY_COMPLETE))
		return -FI_EOPNOTSUPP;
	if (tx->len >= (uint64_t)tx->ep->domain->params.inter_min_read_write_size && !tx->injected &&
	    efa_read_interop(tx->ep, tx->peer)) {
		tx->type = EFA_PKT_LONGREAD_RTW;
		efa_tx_hdr(tx, &h);
		tx->wait = EFA_WAIT_EOR;
		ret = efa_tx_read_iov(tx, &h);
		if (!ret)
			return efa_tx_send_packet(tx, &h, 0, 0);
	}
	tx->wait = dc ? EFA_WAIT_RECEIPT : 0;
	tx->need = tx->len;
	tx->type = dc ? EFA_PKT_DC_EAGER_RTW : EFA_PKT_EAGER_RTW;
	if (tx->len <= efa_eager_cap(tx->peer, tx, tx->type)) {
		efa_tx_hdr(tx, &h);
		return efa_tx_send_packet(tx, &h, 0, tx->len);
	}
	tx->type = dc ? EFA_PKT_DC_LONGCTS_RTW : EFA_PKT_LONGCTS_RTW;
	return efa_tx_start_longcts(tx);
}

static int start_read_packets(struct efa_tx *tx)
{
	const struct efa_params *prm = &tx->ep->domain->params;
	struct efa_rx *rx = efa_rx_get(tx->ep, tx->peer, EFA_RX_READ);
	struct efa_hdr h;
	int ret;

	if (!rx)
		return -FI_EAGAIN;
	rx->tx = tx;
	rx->len = tx->len;
	rx->iov_cnt = tx->iov_cnt;
	memcpy(rx->iov, tx->iov, tx->iov_cnt * sizeof(rx->iov[0]));
	tx->type = rx->type = tx->len < EFA_MTU - 24 ? EFA_PKT_SHORT_RTR : EFA_PKT_LONGCTS_RTR;
	efa_tx_hdr(tx, &h);
	h.recv_id = rx->id;
	rx->granted = MIN(tx->len, (uint64_t)prm->tx_min_credits * EFA_CTSDATA_CAP);
	h.recv_len32 = (uint32_t)rx->granted;
	tx->wait = EFA_WAIT_RESPONSE;
	ret = efa_tx_send_packet(tx, &h, 0, 0);
	if (ret)
		efa_rx_put(rx);
	return ret;
}

int efa_rma_start(struct efa_tx *tx)
{
	struct efa_peer *peer = tx->peer;
	struct efa_ep *ep = tx->ep;

	if (!efa_peer_is_known(peer))
		return efa_tx_park(tx);
	if (tx->kind == EFA_TX_READ)
		return efa_read_interop(ep, peer) ? start_device(tx, EFANIC_OP_READ) : start_read_packets(tx);
	/* data comes with each work request, and is to come once */
	if (!ep->use_write || !efa_peer_has(peer, EFA_X_RDMA_WRITE) ||
	    (tx->has_data && (tx->iov_cnt > 1 || tx->rma_iov_cnt > 1 || tx->len > wr_max(tx))))
		return start_write_packets(tx);
	if (tx->has_data && !peer->is_self && ep->unsolicited != efa_peer_has(peer, EFA_X_UNSOLICITED_WRITE_RECV))
		return -FI_EOPNOTSUPP;
	return start_device(tx, EFANIC_OP_WRITE);
}

/* --- the target of packets ----------------------------------------------------------------------------- */

/*
 * SRD keeps no order: a request may come before the handshake of its sender, which says whether it understands a
 * refusal. Until that comes the packet waits.
 */
void efa_refuse_send(struct efa_peer *peer, const struct efa_hdr *h)
{
	struct efa_hdr r = {.type = EFA_PKT_REFUSED, .send_id = EFA_ID_NONE, .recv_id = EFA_ID_NONE};
	bool is_known = efa_peer_is_known(peer);
	struct efa_pkt *pkt;

	if (is_known && !efa_peer_has(peer, EFA_X_REFUSED))
		return;
	switch (h->type) {
	case EFA_PKT_SHORT_RTR:
	case EFA_PKT_LONGCTS_RTR:
		r.recv_id = h->recv_id; /* the reader's incoming transfer */
		break;
	case EFA_PKT_FETCH_RTA:
	case EFA_PKT_COMPARE_RTA:
		r.send_id = h->recv_id; /* the initiator's operation, named as receiver of the old values */
		break;
	case EFA_PKT_EAGER_RTW:
	case EFA_PKT_WRITE_RTA:
		return; /* nobody waits: such an operation is complete when the packet is accepted */
	default:
		r.send_id = h->send_id;
	}
	pkt = efa_ctrl_pkt(peer, &r, NULL);
	if (!pkt)
		efa_ep_event(peer->ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory to answer a peer");
	else if (is_known)
		efa_pkt_post_or_queue(pkt);
	else
		STAILQ_INSERT_TAIL(&peer->untold, pkt, link);
}

void efa_refuse(struct efa_peer *peer, const struct efa_hdr *h, const char *why)
{
	efa_ep_event(peer->ep, FI_EINVAL, EFA_ERR_REMOTE_MEM, why);
	efa_refuse_send(peer, h);
}

struct efa_mr *efa_rma_region(struct efa_ep *ep, const struct efa_rma_iov *at, uint64_t access)
{
	return efa_mr_check(ep->domain, at->key, at->addr, at->len, access);
}

bool efa_rma_is_there(struct efa_ep *ep, const struct efa_rma_iov *at, unsigned cnt, uint64_t access)
{
	for (unsigned i = 0; i < cnt; i++)
		if (!efa_rma_region(ep, &at[i], access))
			return false;
	return true;
}

bool efa_rma_copy_out(uint8_t *to, const struct efa_tx *tx, uint64_t off, uint64_t len)
{
	struct iovec piece[ARRAY_SIZE(tx->iov)];
	size_t cnt = kit_iov_slice(tx->iov, tx->iov_cnt, off, len, piece, ARRAY_SIZE(piece));

	if (!efa_rma_is_there(tx->ep, tx->rma_iov, tx->rma_iov_cnt, FI_REMOTE_READ))
		return false;
	for (size_t i = 0; i < cnt; i++) {
		if (!guard_read(to, piece[i].iov_base, piece[i].iov_len))
			return false;
		to += piece[i].iov_len;
	}
	return true;
}

/* Every piece of a request must lie in a region with @access; fills @iov. Return: total bytes, or -1 (reported). */
static int64_t check_target(struct efa_peer *peer, const struct efa_hdr *h, uint64_t access, struct iovec *iov)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < h->rma_iov_cnt; i++) {
		const struct efa_rma_iov *r = &h->rma_iov[i];

		if (!efa_rma_region(peer->ep, r, access) ||
		    total + r->len < total || total + r->len > INT64_MAX) {
			efa_refuse(peer, h, "a peer named memory that it may not touch");
			return -1;
		}
		iov[i] = (struct iovec){(void *)(uintptr_t)r->addr, r->len};
		total += r->len;
	}
	return (int64_t)total;
}

void efa_rma_on_rtw(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	unsigned props = efa_pkt_tab[h->type].props;
	bool eager = !(props & (EFA_P_LONGCTS | EFA_P_READ_IOV));
	struct iovec iov[EFA_IOV_MAX];
	uint64_t len = eager ? data->len - payload_off : h->msg_len;
	struct efa_rx *rx;
	int64_t total;

	if (!h->rma_iov_cnt)
		return; /* only there to make us send our handshake */
	total = check_target(peer, h, FI_REMOTE_WRITE, iov);
	if (total < 0)
		return;
	if ((uint64_t)total != len) {
		peer->ep->stats.drop[EFA_DROP_LENGTH]++;
		return;
	}
	rx = efa_rx_get(peer->ep, peer, EFA_RX_WRITE);
	if (!rx) {
		efa_ep_event(peer->ep, FI_ENOMEM, EFA_ERR_NO_RX, "no memory for a write of a peer");
		return;
	}
	efa_rx_fill(rx, h, len);
	rx->send_id_known = props & EFA_P_LONGCTS;
	rx->iov_cnt = (uint8_t)h->rma_iov_cnt;
	memcpy(rx->iov, iov, h->rma_iov_cnt * sizeof(iov[0]));
	memcpy(rx->at, h->rma_iov, h->rma_iov_cnt * sizeof(rx->at[0]));
	if (efa_rx_bytes(rx, 0, data, payload_off))
		efa_rx_go_on(rx);
}

void efa_rma_on_rtr(struct efa_peer *peer, const struct efa_hdr *h)
{
	struct efa_ep *ep = peer->ep;
	struct iovec iov[EFA_IOV_MAX];
	int64_t total = check_target(peer, h, FI_REMOTE_READ, iov);
	struct efa_hdr r = {.type = EFA_PKT_READRSP, .flags = EFA_FLAG_CONNID, .connid = ep->self.qkey};
	struct efa_tx *tx;

	if (total < 0)
		return;
	if ((uint64_t)total != h->msg_len || h->recv_len32 > h->msg_len) {
		ep->stats.drop[EFA_DROP_LENGTH]++;
		return;
	}
	tx = efa_tx_get(ep, peer, EFA_TX_READRSP);
	if (!tx) {
		efa_ep_event(ep, FI_ENOMEM, EFA_ERR_NO_TX, "no memory to answer a read of a peer");
		return;
	}
	tx->len = tx->need = h->msg_len;
	tx->type = EFA_PKT_READRSP;
	tx->cq_flags = tx->flags = 0;
	tx->context = NULL;
	tx->recv_id = h->recv_id;
	tx->iov_cnt = tx->rma_iov_cnt = (uint8_t)h->rma_iov_cnt;
	memcpy(tx->iov, iov, h->rma_iov_cnt * sizeof(iov[0]));
	memcpy(tx->rma_iov, h->rma_iov, h->rma_iov_cnt * sizeof(tx->rma_iov[0]));
	memset(tx->desc, 0, sizeof(tx->desc));
	r.recv_id = h->recv_id;
	r.send_id = tx->id;
	r.seg_len = MIN((uint64_t)h->recv_len32, (uint64_t)EFA_MTU - 24);
	efa_tx_respond(tx, &r, h->recv_len32 - r.seg_len);
}

/* --- calls ------------------------------------------------------------------------------------------------- */

static ssize_t rma(struct efa_ep *ep, enum efa_tx_kind kind, const struct fi_msg_rma *m, uint64_t flags)
{
	struct lock *lock = &ep->domain->kit.lock;
	size_t len = 0, rlen = 0;
	struct efa_peer *peer;
	struct efa_tx *tx;
	ssize_t ret = -FI_EAGAIN;

	if (unlikely(efa_ep_state(&ep->kit)))
		return efa_ep_state(&ep->kit);
	if (!(ep->kit.caps & FI_RMA))
		return -FI_EOPNOTSUPP;
	if (m->iov_count > 4 || m->rma_iov_count > EFA_IOV_MAX || !m->rma_iov_count || !m->rma_iov ||
	    (m->iov_count && !m->msg_iov))
		return -FI_EINVAL;
	for (size_t i = 0; i < m->rma_iov_count; i++)
		rlen += m->rma_iov[i].len;
	len = kit_iov_len(m->msg_iov, m->iov_count);
	if (len != rlen || len == SIZE_MAX || len > ep->max_rma_size ||
	    ((flags & FI_INJECT) && (len > ep->inject_rma || kind == EFA_TX_READ)))
		return -FI_EINVAL;
	lock_acquire(lock);
	peer = efa_peer_find(ep, m->addr);
	if (unlikely(!peer)) {
		ret = -FI_EINVAL;
		goto out;
	}
	tx = efa_tx_get(ep, peer, kind);
	if (unlikely(!tx))
		goto out;
	tx->flags = flags;
	tx->injected = flags & FI_INJECT;
	tx->wants_cqe = kit_tx_wants_cqe(&ep->kit, flags) && !(flags & EFA_NO_CQE);
	tx->cq_flags = FI_RMA | (kind == EFA_TX_READ ? FI_READ : FI_WRITE);
	tx->context = m->context;
	tx->tag = 0;
	tx->has_data = flags & FI_REMOTE_CQ_DATA;
	tx->data = m->data;
	tx->len = len;
	tx->iov_cnt = (uint8_t)MAX(m->iov_count, (size_t)1);
	tx->rma_iov_cnt = (uint8_t)m->rma_iov_count;
	tx->iov[0] = (struct iovec){0};
	for (size_t i = 0; i < m->iov_count; i++)
		tx->iov[i] = m->msg_iov[i];
	for (size_t i = 0; i < tx->iov_cnt; i++)
		tx->desc[i] = m->desc && i < m->iov_count ? m->desc[i] : NULL;
	for (size_t i = 0; i < m->rma_iov_count; i++)
		tx->rma_iov[i] = (struct efa_rma_iov){m->rma_iov[i].addr, m->rma_iov[i].len, m->rma_iov[i].key};
	ret = efa_tx_start(tx);
	if (likely(!ret) && !(flags & FI_MORE))
		efanic_doorbell(ep->qp);
out:
	lock_release(lock);
	return ret;
}

static ssize_t do_rma(struct fid_ep *fid, const struct kit_rma *r)
{
	struct efa_ep *ep = efa_ep_of(fid);
	uint64_t flags = kit_tx_flags(&ep->kit, r->form, r->flags) | (r->form == KIT_BY_INJECT ? EFA_NO_CQE : 0);

	/* an endpoint's flags for data that go out are none of its reads' */
	if (!r->is_write && r->form == KIT_BY_ARGS)
		flags &= ~(uint64_t)(FI_INJECT | FI_REMOTE_CQ_DATA);
	return rma(ep, r->is_write ? EFA_TX_WRITE : EFA_TX_READ, r->m, flags);
}

#include "kit/call_rma.inc"

const struct fi_ops_rma efa_rma_ops = {.size = sizeof(struct fi_ops_rma), KIT_RMA};
