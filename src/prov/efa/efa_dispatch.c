// SPDX-License-Identifier: BSD-2-Clause
// Which handler takes which packet, and the answers that a transfer of ours waits for.
#include "prov/efa/efa.h"

static struct efa_tx *tx_of(struct efa_peer *peer, uint32_t id)
{
	struct efa_tx *tx = slab_find(&peer->ep->tx_slab, id);

	if (tx && tx->peer == peer && !tx->reported)
		return tx;
	peer->ep->stats.drop_stale_id++;
	return NULL;
}

static struct efa_rx *rx_of(struct efa_peer *peer, uint32_t id)
{
	struct efa_rx *rx = slab_find(&peer->ep->rx_slab, id);

	if (rx && rx->peer == peer && !rx->ended && (rx->matched || rx->kind != EFA_RX_MSG))
		return rx;
	peer->ep->stats.drop_stale_id++;
	return NULL;
}

static void on_cts(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_tx *tx = tx_of(peer, h->send_id);

	(void)data, (void)payload_off;
	if (tx)
		efa_tx_on_cts(tx, h);
}

static void on_ctsdata(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_rx *rx = rx_of(peer, h->recv_id);

	if (rx && efa_rx_bytes(rx, h->seg_off, data, payload_off))
		efa_rx_check(rx);
}

static void on_readrsp(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_rx *rx = rx_of(peer, h->recv_id);

	if (!rx || rx->kind != EFA_RX_READ || rx->send_id_known)
		return;
	rx->send_id = h->send_id;
	rx->send_id_known = true;
	if (efa_rx_bytes(rx, 0, data, payload_off))
		efa_rx_check(rx);
}

static void on_eor(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_tx *tx = tx_of(peer, h->send_id);

	(void)data, (void)payload_off;
	if (tx)
		efa_tx_on_eor(tx);
}

static void on_receipt(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_tx *tx = tx_of(peer, h->send_id);

	(void)data, (void)payload_off;
	if (tx)
		efa_tx_on_receipt(tx);
}

static void on_nack(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_tx *tx = tx_of(peer, h->send_id);

	(void)data, (void)payload_off;
	if (tx)
		efa_tx_on_nack(tx, h);
}

/*
 * Sent to peers that announced EFA_X_REFUSED only: a request of ours named memory that it may not touch. What has not
 * been sent, or is the adapter's to do (type 0), no peer has been asked for.
 */
static void on_refused(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_tx *tx = h->send_id != EFA_ID_NONE ? tx_of(peer, h->send_id) : NULL;
	struct efa_rx *rx = h->recv_id != EFA_ID_NONE ? rx_of(peer, h->recv_id) : NULL;

	(void)data, (void)payload_off;
	if (tx && tx->kind != EFA_TX_READRSP && tx->type)
		efa_tx_fail(tx, efa_errno(EFANIC_REMOTE_BAD_ADDRESS), EFANIC_REMOTE_BAD_ADDRESS);
	else if (rx && rx->kind == EFA_RX_READ)
		efa_rx_fail(rx, efa_errno(EFANIC_REMOTE_BAD_ADDRESS), EFANIC_REMOTE_BAD_ADDRESS);
}

static void on_atomrsp(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_tx *tx = tx_of(peer, h->recv_id);

	if (tx)
		efa_atomic_on_rsp(tx, h, data, payload_off);
}

static void on_handshake(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	(void)data, (void)payload_off;
	efa_handshake_received(peer, h);
}

static void on_rtr(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	(void)data, (void)payload_off;
	efa_rma_on_rtr(peer, h);
}

typedef void (*packet_fn)(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off);
static const packet_fn handler[EFA_PKT_NUM] = {
	[EFA_PKT_CTS] = on_cts,
	[EFA_PKT_CTSDATA] = on_ctsdata,
	[EFA_PKT_READRSP] = on_readrsp,
	[EFA_PKT_EOR] = on_eor,
	[EFA_PKT_ATOMRSP] = on_atomrsp,
	[EFA_PKT_HANDSHAKE] = on_handshake,
	[EFA_PKT_RECEIPT] = on_receipt,
	[EFA_PKT_READ_NACK] = on_nack,
	[EFA_PKT_REFUSED] = on_refused,
	[EFA_PKT_EAGER_MSGRTM ... EFA_PKT_LONGCTS_TAGRTM] = efa_rx_ordered,
	[EFA_PKT_EAGER_RTW] = efa_rma_on_rtw,
	[EFA_PKT_LONGCTS_RTW] = efa_rma_on_rtw,
	[EFA_PKT_SHORT_RTR] = on_rtr,
	[EFA_PKT_LONGCTS_RTR] = on_rtr,
	[EFA_PKT_WRITE_RTA ... EFA_PKT_COMPARE_RTA] = efa_rx_ordered,
	[EFA_PKT_LONGREAD_MSGRTM] = efa_rx_ordered,
	[EFA_PKT_LONGREAD_TAGRTM] = efa_rx_ordered,
	[EFA_PKT_LONGREAD_RTW] = efa_rma_on_rtw,
	[EFA_PKT_DC_EAGER_MSGRTM ... EFA_PKT_DC_LONGCTS_TAGRTM] = efa_rx_ordered,
	[EFA_PKT_DC_EAGER_RTW] = efa_rma_on_rtw,
	[EFA_PKT_DC_LONGCTS_RTW] = efa_rma_on_rtw,
	[EFA_PKT_DC_WRITE_RTA] = efa_rx_ordered,
	[EFA_PKT_RUNTREAD_MSGRTM] = efa_rx_ordered,
	[EFA_PKT_RUNTREAD_TAGRTM] = efa_rx_ordered,
};

void efa_rx_packet(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	handler[h->type](peer, h, data, payload_off);
}
