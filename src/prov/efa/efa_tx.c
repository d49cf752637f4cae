// SPDX-License-Identifier: BSD-2-Clause
// Outgoing transfers of the RDM endpoint: protocol choice, packets, windows, and the completion. Source:
// doc/facts/efa.md#two-sided-transfers.
#include "prov/efa/efa.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

/*
 * A message up to this long that needs no descriptor is copied next to its header: one piece to gather, nothing to
 * keep.
 */
#define COPY_MAX 128u
#define PUMP_BATCH 16

/* --- life ------------------------------------------------------------------------------------------ */

static inline struct efa_tx *tx_new(struct efa_ep *ep, struct efa_peer *peer, enum efa_tx_kind kind)
{
	struct efa_tx *tx = slab_get(&ep->tx_slab);

	if (unlikely(!tx))
		return NULL;
	tx->ep = ep;
	tx->peer = peer;
	tx->kind = (uint8_t)kind;
	tx->type = 0;
	tx->iov_cnt = tx->rma_iov_cnt = tx->res_cnt = tx->cmp_cnt = 0;
	tx->unstarted = tx->in_pump = tx->parked = tx->reported = tx->has_data = tx->injected = tx->confirmed = false;
	tx->wants_cqe = false;
	tx->id = slab_id(&ep->tx_slab, tx);
	tx->wrs = tx->wait = 0;
	tx->sent = tx->acked = tx->need = tx->window = tx->runt_len = 0;
	tx->tmp_mr[0] = NULL;
	tx->copy = NULL;
	LIST_INSERT_HEAD(&peer->txs, tx, peer_link);
	if (likely(kind != EFA_TX_READRSP))
		ep->tx_outstanding++;
	else
		efa_quota_add(peer, EFA_Q_WORK, 1);
	return tx;
}

struct efa_tx *efa_tx_get(struct efa_ep *ep, struct efa_peer *peer, enum efa_tx_kind kind)
{
	if (unlikely(ep->tx_outstanding >= ep->tx_max && kind != EFA_TX_READRSP))
		return NULL;
	return tx_new(ep, peer, kind);
}

struct efa_tx *efa_tx_get_any(struct efa_ep *ep, struct efa_peer *peer)
{
	return tx_new(ep, peer, EFA_TX_SEND);
}

static void drop_tmp_mrs(struct efa_tx *tx)
{
	for (unsigned i = 0; i < ARRAY_SIZE(tx->tmp_mr) && tx->tmp_mr[i]; i++)
		efanic_mr_dereg(tx->tmp_mr[i]);
	tx->tmp_mr[0] = NULL;
}

static void leave_pump(struct efa_tx *tx)
{
	if (tx->in_pump)
		TAILQ_REMOVE(&tx->ep->pump, tx, pump_link);
	tx->in_pump = false;
}

static void enter_pump(struct efa_tx *tx)
{
	if (!tx->in_pump)
		TAILQ_INSERT_TAIL(&tx->ep->pump, tx, pump_link);
	tx->in_pump = true;
	tx->ep->is_busy = true;
}

static inline void set_started(struct efa_tx *tx)
{
	if (likely(!tx->unstarted))
		return;
	tx->unstarted = false;
	tx->peer->unstarted--;
	efa_peer_gates(tx->peer);
}

void efa_tx_put(struct efa_tx *tx)
{
	struct efa_ep *ep = tx->ep;

	set_started(tx);
	leave_pump(tx);
	if (unlikely(tx->tmp_mr[0] != NULL))
		drop_tmp_mrs(tx);
	mem_free(tx->copy);
	LIST_REMOVE(tx, peer_link);
	if (likely(tx->kind != EFA_TX_READRSP))
		ep->tx_outstanding--;
	else
		efa_quota_put(tx->peer, EFA_Q_WORK, 1);
	slab_put(&ep->tx_slab, tx);
}

static const uint8_t cntr_of_kind[EFA_TX_KIND_NUM] = {
	[EFA_TX_SEND] = KIT_CNTR_SEND,    [EFA_TX_WRITE] = KIT_CNTR_WRITE, [EFA_TX_READ] = KIT_CNTR_READ,
	[EFA_TX_ATOMIC] = KIT_CNTR_WRITE, [EFA_TX_FETCH] = KIT_CNTR_READ,  [EFA_TX_COMPARE] = KIT_CNTR_READ,
	[EFA_TX_READRSP] = KIT_CNTR_NUM,
};

static void report(struct efa_tx *tx)
{
	struct efa_ep *ep = tx->ep;

	tx->reported = true;
	if (unlikely(tx->kind == EFA_TX_READRSP))
		return;
	if (tx->wants_cqe)
		kit_cq_push(ep->kit.tx_cq, tx->context, tx->cq_flags, tx->len, NULL, tx->data, tx->tag,
			    FI_ADDR_NOTAVAIL);
	if (ep->kit.cntr[cntr_of_kind[tx->kind]])
		kit_cntr_add(ep->kit.cntr[cntr_of_kind[tx->kind]], 1, 0);
}

void efa_tx_check_done(struct efa_tx *tx)
{
	if (!tx->reported && !tx->wait && tx->acked >= tx->need && (!tx->wrs || tx->confirmed))
		report(tx);
	if (tx->reported && !tx->wrs)
		efa_tx_put(tx);
}

uint64_t efa_tx_owned(struct efa_tx *tx)
{
	tx->sent = tx->need = tx->len;
	tx->wrs = 1;
	return (uintptr_t)tx | 1;
}

void efa_tx_owned_done(struct efa_tx *tx)
{
	tx->wrs = 0;
	tx->acked = tx->need;
	efa_tx_check_done(tx);
}

/*
 * RDMA reads of it are on their way, and who answers them writes to the program's memory, which is the program's again
 * once it hears of a failure.
 */
static bool fail_later(struct efa_tx *tx, int err, unsigned prov_errno)
{
	if (likely(tx->kind != EFA_TX_READ || tx->type || !tx->wrs || tx->reported))
		return false;
	if (!(tx->wait & EFA_WAIT_READS)) {
		tx->fail_err = err;
		tx->fail_code = prov_errno;
	}
	tx->wait |= EFA_WAIT_READS;
	return true;
}

void efa_tx_fail(struct efa_tx *tx, int err, unsigned prov_errno)
{
	struct efa_ep *ep = tx->ep;
	char text[512];
	struct fi_cq_err_entry e = {
		.op_context = tx->context,
		.flags = tx->cq_flags,
		.err = err,
		.prov_errno = (int)prov_errno,
	};

	if (fail_later(tx, err, prov_errno))
		return;
	leave_pump(tx);
	if (tx->parked) {
		STAILQ_REMOVE(&tx->peer->parked, tx, efa_tx, park_link);
		tx->parked = false;
		ep->parked_cnt--;
		efa_peer_gates(tx->peer);
	}
	tx->wait = 0;
	if (tx->kind == EFA_TX_READ && !tx->reported)
		efa_rx_orphan(tx);
	if (!tx->reported && tx->kind != EFA_TX_READRSP) {
		size_t len = efa_err_data(ep, tx->peer, prov_errno, text, sizeof(text));

		e.tag = tx->kind == EFA_TX_SEND ? tx->tag : 0;
		if (unlikely(tx->flags & EFA_NO_CQE))
			kit_ep_late_error(&ep->kit, err, (int)prov_errno, text, efa_peer_is_far(ep, tx->peer));
		else if (ep->kit.tx_cq)
			kit_cq_push_err(ep->kit.tx_cq, &e, text, len);
		kit_cntr_add(ep->kit.cntr[cntr_of_kind[tx->kind]], 0, 1);
	}
	tx->reported = true;
	if (!tx->wrs)
		efa_tx_put(tx);
}

void efa_tx_abandon(struct efa_tx *tx)
{
	leave_pump(tx);
	LIST_REMOVE(tx, peer_link);
	LIST_INSERT_HEAD(&tx->ep->orphans, tx, peer_link);
	tx->parked = false;
	tx->reported = true;
	tx->wait = 0;
	if (!tx->wrs)
		efa_tx_put(tx);
}

/* --- packets of a transfer --------------------------------------------------------------------------- */

void efa_tx_gather(struct efa_pkt *pkt, const struct efa_tx *tx, uint64_t off, uint64_t len)
{
	for (unsigned i = 0; i < tx->iov_cnt && len; i++) {
		uint64_t n = tx->iov[i].iov_len;

		if (off >= n) {
			off -= n;
			continue;
		}
		n = MIN(n - off, len);
		pkt->sge[pkt->sge_cnt++] =
			(struct efanic_sge){(char *)tx->iov[i].iov_base + off, (uint32_t)n, efa_desc_lkey(tx->desc[i])};
		len -= n;
		off = 0;
	}
}

static inline void copy_own(uint8_t *to, const struct efa_tx *tx, uint64_t off, uint64_t len)
{
	if (likely(tx->iov_cnt == 1))
		copy_bytes(to, (char *)tx->iov[0].iov_base + off, len);
	else if (len)
		kit_iov_copy_from(to, len, tx->iov, tx->iov_cnt, off);
}

/*
 * One packet of @tx: header @h, then @len bytes from @off. Return: 0; -FI_EAGAIN no memory; -FI_EFAULT the bytes are
 * not there.
 */
static int make_packet(struct efa_tx *tx, struct efa_hdr *h, uint64_t off, uint64_t len, struct efa_pkt **out)
{
	bool is_rsp = tx->kind == EFA_TX_READRSP, copy = is_rsp || tx->injected || (len <= COPY_MAX && !tx->desc[0]);
	struct efa_pkt *pkt = efa_pkt_get(tx->ep, tx->peer, copy && len > COPY_MAX);
	size_t hdr_len;

	if (unlikely(!pkt))
		return -FI_EAGAIN;
	*out = pkt;
	pkt->type = h->type;
	pkt->tx = tx;
	pkt->payload_len = (uint32_t)len;
	hdr_len = efa_pkt_encode(h, pkt->buf, EFA_PKT_SMALL);
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)hdr_len, EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	if (!copy) {
		efa_tx_gather(pkt, tx, off, len);
		return 0;
	}
	if (unlikely(is_rsp && !efa_rma_copy_out(pkt->buf + hdr_len, tx, off, len))) {
		efa_pkt_put(pkt);
		return -FI_EFAULT;
	}
	if (likely(!is_rsp))
		copy_own(pkt->buf + hdr_len, tx, off, len);
	pkt->sge[0].len += (uint32_t)len;
	return 0;
}

static void sent_packet(struct efa_tx *tx, uint64_t len)
{
	tx->wrs++;
	tx->sent += len;
	tx->peer->flags |= EFA_PEER_REQ_SENT;
}

int efa_tx_send_packet(struct efa_tx *tx, struct efa_hdr *h, uint64_t off, uint64_t len)
{
	struct efa_pkt *pkt;
	int ret = make_packet(tx, h, off, len, &pkt);

	if (unlikely(ret))
		return ret;
	ret = efa_pkt_post(pkt);
	if (unlikely(ret)) {
		efa_pkt_put(pkt);
		return ret;
	}
	sent_packet(tx, len);
	return 0;
}

/* What it reads is not there any more. */
static void refuse_reader(const struct efa_tx *tx)
{
	struct efa_hdr h = {.type = EFA_PKT_SHORT_RTR, .recv_id = tx->recv_id};

	efa_refuse(tx->peer, &h, "a peer read memory that is not there any more");
}

/* A packet that a peer waits for: behind what is queued, if there is no room. Return: as make_packet(). */
static int answer_packet(struct efa_tx *tx, struct efa_hdr *h, uint64_t len)
{
	struct efa_pkt *pkt;
	int ret = make_packet(tx, h, 0, len, &pkt);

	if (ret)
		return ret;
	sent_packet(tx, len);
	efa_pkt_post_or_queue(pkt);
	return 0;
}

void efa_tx_respond(struct efa_tx *tx, struct efa_hdr *h, uint64_t window)
{
	int ret = answer_packet(tx, h, h->seg_len);

	if (ret) {
		if (ret == -FI_EFAULT)
			refuse_reader(tx);
		else
			efa_ep_event(tx->ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory to answer a peer");
		efa_tx_put(tx);
		return;
	}
	tx->window = window;
	if (window)
		enter_pump(tx);
	else if (tx->sent < tx->len)
		tx->wait |= EFA_WAIT_CTS;
}

size_t efa_eager_cap(const struct efa_peer *peer, const struct efa_tx *tx, uint8_t type)
{
	size_t len =
		efa_pkt_tab[type].fixed_len + tx->rma_iov_cnt * sizeof(struct efa_rma_iov) + (tx->has_data ? 8 : 0);

	if (!(peer->flags & EFA_PEER_HS_RCVD) || (peer->extra & EFA_X_CONSTANT_HDR_LEN))
		len += 4 + EFA_RAW_ADDR_LEN;
	else if (peer->extra & EFA_X_CONNID_HDR)
		len += 4;
	return EFA_MTU - len;
}

void efa_tx_hdr(const struct efa_tx *tx, struct efa_hdr *h)
{
	const struct efa_pkt_desc *d = &efa_pkt_tab[tx->type];

	h->type = tx->type;
	h->flags = 0;
	if (d->props & EFA_P_RTM)
		h->flags |= d->props & EFA_P_TAGGED ? EFA_FLAG_MSG | EFA_FLAG_TAGGED : EFA_FLAG_MSG;
	if (tx->has_data) {
		h->flags |= EFA_FLAG_CQ_DATA;
		h->data = tx->data;
	}
	efa_hdr_identity(tx->ep, tx->peer, h);
	h->msg_id = tx->msg_id;
	h->tag = tx->tag;
	h->send_id = tx->id;
	h->msg_len = tx->len;
	h->seg_off = 0;
	h->pad = 0;
	if (unlikely(d->props & EFA_P_RMA_IOV)) {
		h->rma_iov_cnt = tx->rma_iov_cnt;
		memcpy(h->rma_iov, tx->rma_iov, tx->rma_iov_cnt * sizeof(h->rma_iov[0]));
	}
	if (unlikely(d->props & EFA_P_LONGCTS))
		h->credit = (uint32_t)tx->ep->domain->params.tx_min_credits;
}

static int start_eager(struct efa_tx *tx)
{
	struct efa_hdr h;

	efa_tx_hdr(tx, &h);
	tx->need = tx->len;
	return efa_tx_send_packet(tx, &h, 0, tx->len);
}

/* Medium and the runt part of runting read: [0, @total) in equal packets that may arrive in any order. */
static int send_segments(struct efa_tx *tx, struct efa_hdr *h, uint64_t total)
{
	uint64_t cap = EFA_MTU - efa_pkt_hdr_len(h);
	uint64_t cnt = DIV_ROUND_UP(total, cap);
	uint64_t seg = ALIGN_DOWN(DIV_ROUND_UP(total, cnt), 8ULL);

	if (seg * cnt < total && total - seg * (cnt - 1) > cap)
		cnt++;
	/* Packets in the endpoint's queue are no reason to refuse: they may wait for another peer that is not ready. */
	if (efanic_sq_free(tx->ep->qp) < cnt)
		return -FI_EAGAIN;
	for (uint64_t i = 0, off = 0; i < cnt; i++) {
		uint64_t len = i + 1 == cnt ? total - off : seg;
		int ret;

		h->seg_off = off;
		ret = efa_tx_send_packet(tx, h, off, len);
		if (ret) {
			if (!i)
				return ret;
			/*
			 * Out of memory in the middle: what was sent cannot be recalled, so the operation fails by
			 * completion.
			 */
			efa_tx_fail(tx, FI_ENOMEM, EFA_ERR_NOMEM);
			return 0;
		}
		off += len;
	}
	return 0;
}

static int start_medium(struct efa_tx *tx)
{
	struct efa_hdr h;

	efa_tx_hdr(tx, &h);
	tx->need = tx->len;
	return send_segments(tx, &h, tx->len);
}

/* The first packet of @tx, and how many bytes it takes along. */
static uint64_t longcts_hdr(const struct efa_tx *tx, struct efa_hdr *h)
{
	efa_tx_hdr(tx, h);
	return MIN((uint64_t)(EFA_MTU - efa_pkt_hdr_len(h)), tx->len);
}

int efa_tx_start_longcts(struct efa_tx *tx)
{
	struct efa_hdr h;
	uint64_t first = longcts_hdr(tx, &h);
	int ret;

	tx->need = tx->len;
	tx->wait |= EFA_WAIT_CTS;
	ret = efa_tx_send_packet(tx, &h, 0, first);
	if (ret)
		tx->wait &= ~(uint32_t)EFA_WAIT_CTS;
	return ret;
}

int efa_tx_read_iov(struct efa_tx *tx, struct efa_hdr *h)
{
	unsigned made = 0;

	h->read_iov_cnt = tx->iov_cnt;
	for (unsigned i = 0; i < tx->iov_cnt; i++) {
		struct efanic_mr_attr attr = {tx->iov[i].iov_base, tx->iov[i].iov_len, EFANIC_ACCESS_REMOTE_READ};
		struct efa_mr *mr = tx->desc[i];
		struct efanic_mr *dev = mr ? mr->dev : NULL;
		bool is_closed = mr && !dev;

		if (!dev || !efanic_mr_rkey(dev)) {
			if (is_closed || efanic_mr_reg(tx->ep->domain->nic, &attr, &dev)) {
				drop_tmp_mrs(tx);
				return -EFA_ENOMR;
			}
			tx->tmp_mr[made++] = dev;
			if (made < ARRAY_SIZE(tx->tmp_mr))
				tx->tmp_mr[made] = NULL;
		}
		h->read_iov[i] =
			(struct efa_rma_iov){(uintptr_t)tx->iov[i].iov_base, tx->iov[i].iov_len, efanic_mr_rkey(dev)};
	}
	return 0;
}

/* Long read, and runting read when @runt bytes go ahead in packets. */
static int start_read_based(struct efa_tx *tx, uint64_t runt)
{
	struct efa_hdr h;
	int ret;

	efa_tx_hdr(tx, &h);
	ret = efa_tx_read_iov(tx, &h);
	if (ret)
		return ret;
	tx->wait |= EFA_WAIT_EOR;
	tx->runt_len = tx->need = h.runt_len = runt;
	if (runt == tx->len)
		tx->wait &= ~(uint32_t)EFA_WAIT_EOR;
	ret = runt ? send_segments(tx, &h, runt) : efa_tx_send_packet(tx, &h, 0, 0);
	if (!ret) {
		tx->peer->runt_in_flight += (uint32_t)runt;
		return 0;
	}
	tx->wait &= ~(uint32_t)EFA_WAIT_EOR;
	drop_tmp_mrs(tx);
	return ret;
}

/* Devices of the 0xefa0 kind read only from their like. */
bool efa_read_interop(const struct efa_ep *ep, const struct efa_peer *peer)
{
	bool ours = ep->domain->attr.vendor_part_id == 0xefa0;
	uint32_t theirs = peer->flags & EFA_PEER_HS_RCVD ? peer->device_version : ep->domain->attr.vendor_part_id;

	return ep->use_read && efa_peer_has(peer, EFA_X_RDMA_READ) && ours == (theirs == 0xefa0);
}

static uint64_t runt_quota(const struct efa_tx *tx)
{
	uint64_t size = (uint64_t)tx->ep->domain->params.runt_size;

	if (!efa_peer_has(tx->peer, EFA_X_RUNT) || size <= tx->peer->runt_in_flight)
		return 0;
	return ALIGN_DOWN(MIN(size - tx->peer->runt_in_flight, tx->len), 8ULL);
}

static int start_msg(struct efa_tx *tx)
{
	struct efa_peer *peer = tx->peer;
	struct efa_ep *ep = tx->ep;
	const struct efa_params *prm = &ep->domain->params;
	bool tagged = tx->cq_flags & FI_TAGGED;
	struct efa_select_in in = {
		.len = tx->len,
		.flags = tx->flags,
		.tagged = tagged,
		.peer_hs = efa_peer_is_known(peer),
		.eager_cap = efa_eager_cap(peer, tx, tx->flags & FI_DELIVERY_COMPLETE ? EFA_PKT_DC_EAGER_MSGRTM + tagged
										      : EFA_PKT_EAGER_MSGRTM + tagged),
		.max_medium = (uint64_t)prm->inter_max_medium_message_size,
		.min_read = (uint64_t)prm->inter_min_read_message_size,
	};
	bool direct;
	int ret;

	if (unlikely(ep->zcpy_rx && !tagged)) {
		ret = efa_zcpy_send(tx);
		if (ret != EFA_ZCPY_NOT)
			return ret;
	}
	direct = in.len >= EFA_LOCAL_MIN_READ && in.peer_hs && efanic_dst_shares_memory(peer->dst);
	if (direct)
		in.min_read = MIN(in.min_read, (uint64_t)EFA_LOCAL_MIN_READ);
	if (unlikely(in.len >= in.min_read) && in.peer_hs) {
		in.can_read = !tx->injected && efa_read_interop(ep, peer) && (prm->mr_cache_enable || tx->desc[0]);
		in.runt_quota = direct ? 0 : runt_quota(tx);
		in.read_in_flight = ep->domain->reads_in_flight;
	}
	tx->type = efa_select_msg(&in);
	if (unlikely(efa_pkt_tab[tx->type].needs)) {
		if (!in.peer_hs)
			return efa_tx_park(tx);
		if (!efa_peer_has(peer, efa_pkt_tab[tx->type].needs))
			return -FI_EOPNOTSUPP;
	}
	tx->msg_id = peer->next_msg_id;
	tx->wait = efa_pkt_tab[tx->type].props & EFA_P_DC ? EFA_WAIT_RECEIPT : 0;
	if (efa_pkt_tab[tx->type].props & EFA_P_READ_IOV) {
		ret = start_read_based(tx, efa_pkt_tab[tx->type].props & EFA_P_MULTI ? in.runt_quota : 0);
		if (ret != -EFA_ENOMR)
			goto out;
		tx->type = (uint8_t)(EFA_PKT_LONGCTS_MSGRTM + tagged);
	}
	if (likely(tx->len <= in.eager_cap && !(efa_pkt_tab[tx->type].props & (EFA_P_MULTI | EFA_P_LONGCTS))))
		ret = start_eager(tx);
	else if (efa_pkt_tab[tx->type].props & EFA_P_MULTI)
		ret = start_medium(tx);
	else
		ret = efa_tx_start_longcts(tx);
out:
	if (likely(!ret))
		peer->next_msg_id++;
	return ret;
}

/* --- start, park, pump ----------------------------------------------------------------------------------- */

int efa_tx_park(struct efa_tx *tx)
{
	struct efa_ep *ep = tx->ep;

	if (tx->injected || ep->parked_cnt >= EFA_PARKED_MAX) {
		/* of a dead one no handshake comes: who has no completion, or tries again, hears of it here */
		if (tx->peer->gone_status)
			return -efa_errno(efa_prov_errno(tx->peer, tx->peer->gone_status));
		efa_peer_trigger(tx->peer);
		return -FI_EAGAIN;
	}
	if (efa_peer_trigger(tx->peer))
		return -FI_EAGAIN;
	tx->wait = EFA_WAIT_HANDSHAKE;
	tx->type = 0;
	tx->parked = true;
	STAILQ_INSERT_TAIL(&tx->peer->parked, tx, park_link);
	ep->parked_cnt++;
	efa_peer_gates(tx->peer);
	return 0;
}

static int begin(struct efa_tx *tx)
{
	if (likely(tx->kind == EFA_TX_SEND))
		return start_msg(tx);
	if (tx->kind == EFA_TX_WRITE || tx->kind == EFA_TX_READ)
		return efa_rma_start(tx);
	return efa_atomic_start(tx);
}

int efa_tx_start(struct efa_tx *tx)
{
	struct efa_peer *peer = tx->peer;
	int ret;

	if (unlikely(peer->flags & EFA_PEER_RNR) && clk_now_ns(NULL) < peer->rnr_until_ns)
		ret = -FI_EAGAIN;
	else if (unlikely(!STAILQ_EMPTY(&peer->parked) || peer->unstarted) && tx->kind != EFA_TX_READRSP)
		/* behind those that wait already: order of sends is kept */
		ret = peer->flags & EFA_PEER_HS_RCVD ? -FI_EAGAIN : efa_tx_park(tx);
	else
		ret = begin(tx);
	if (unlikely(ret))
		efa_tx_put(tx);
	return ret;
}

static void begin_again(struct efa_tx *tx)
{
	int ret;

	tx->wait = 0;
	ret = begin(tx);
	if (ret != -FI_EAGAIN)
		set_started(tx);
	if (ret == -FI_EAGAIN) {
		tx->type = 0;
		tx->wait = EFA_WAIT_HANDSHAKE;
		drop_tmp_mrs(tx); /* the next try makes its own */
		enter_pump(tx);
	} else if (ret) {
		leave_pump(tx);
		efa_tx_fail(tx, -ret, EFA_ERR_GENERIC);
	} else if (!tx->window) {
		leave_pump(tx);
	}
}

void efa_tx_unpark(struct efa_tx *tx)
{
	tx->parked = false;
	/* An earlier one of this peer may wait in the pump for room; keep behind it. */
	tx->unstarted = true;
	tx->peer->unstarted++;
	efa_peer_gates(tx->peer);
	enter_pump(tx);
	tx->type = 0;
}

static void send_data(struct efa_tx *tx)
{
	struct efa_hdr h = {.type = EFA_PKT_CTSDATA, .recv_id = tx->recv_id};
	int ret;

	if (efa_peer_has(tx->peer, EFA_X_CONNID_HDR)) {
		h.flags = EFA_FLAG_CONNID;
		h.connid = tx->ep->self.qkey;
	}
	for (int i = 0; i < PUMP_BATCH && tx->window; i++) {
		h.seg_len = MIN(tx->window, (uint64_t)EFA_CTSDATA_CAP);
		h.seg_off = tx->sent;
		ret = efa_tx_send_packet(tx, &h, tx->sent, h.seg_len);
		if (ret == -FI_EFAULT) {
			refuse_reader(tx);
			efa_tx_fail(tx, FI_EFAULT, EFANIC_LOCAL_INVALID_LKEY);
		}
		if (ret)
			return;
		tx->window -= h.seg_len;
	}
	if (!tx->window) {
		leave_pump(tx);
		if (tx->sent < tx->len)
			tx->wait |= EFA_WAIT_CTS;
	}
}

void efa_tx_pump(struct efa_ep *ep)
{
	struct efa_tx *tx, *next, *last = TAILQ_LAST(&ep->pump, efa_tx_pump_head);
	bool blocked = false;

	for (tx = TAILQ_FIRST(&ep->pump); tx && !blocked; tx = next) {
		bool end = tx == last;

		next = TAILQ_NEXT(tx, pump_link);
		if (tx->type == 0) {
			begin_again(tx);
			/* still not started: those behind it must not overtake it */
			blocked = tx->in_pump && tx->type == 0;
		} else if (efa_peer_is_known(tx->peer)) {
			send_data(tx);
		}
		if (end)
			break;
	}
}

/* --- events ----------------------------------------------------------------------------------------------- */

void efa_tx_pkt_done(struct efa_tx *tx, struct efa_pkt *pkt, unsigned status)
{
	tx->wrs--;
	if (unlikely(tx->wait & EFA_WAIT_READS)) {
		efa_tx_fail(tx, tx->fail_err, tx->fail_code);
		return;
	}
	if (unlikely(status != EFANIC_OK)) {
		unsigned code = efa_prov_errno(tx->peer, status);

		efa_tx_fail(tx, efa_errno(code), code);
		return;
	}
	tx->acked += pkt->payload_len;
	if (unlikely(tx->runt_len) && pkt->payload_len && pkt->type >= EFA_PKT_RUNTREAD_MSGRTM &&
	    pkt->type <= EFA_PKT_RUNTREAD_TAGRTM)
		tx->peer->runt_in_flight -= pkt->payload_len;
	efa_tx_check_done(tx);
}

void efa_tx_on_cts(struct efa_tx *tx, const struct efa_hdr *h)
{
	if (!(tx->wait & EFA_WAIT_CTS) || tx->reported)
		return;
	tx->wait &= ~(uint32_t)EFA_WAIT_CTS;
	tx->recv_id = h->recv_id;
	tx->window = MIN(h->recv_len, tx->len - tx->sent);
	if (tx->window)
		enter_pump(tx);
	else if (tx->sent < tx->len)
		tx->wait |= EFA_WAIT_CTS; /* a grant of nothing grants nothing */
}

void efa_tx_on_receipt(struct efa_tx *tx)
{
	if (!(tx->wait & EFA_WAIT_RECEIPT))
		return;
	tx->wait &= ~(uint32_t)EFA_WAIT_RECEIPT;
	tx->acked = tx->need;
	tx->confirmed = true;
	efa_tx_check_done(tx);
}

void efa_tx_on_eor(struct efa_tx *tx)
{
	if (!(tx->wait & EFA_WAIT_EOR))
		return;
	tx->wait &= ~(uint32_t)EFA_WAIT_EOR;
	tx->confirmed = true;
	efa_tx_check_done(tx);
}

void efa_tx_on_response(struct efa_tx *tx)
{
	tx->wait &= ~(uint32_t)EFA_WAIT_RESPONSE;
	tx->confirmed = true;
	efa_tx_check_done(tx);
}

/* The receiver cannot read: the rest goes by CTS. The message keeps its msg_id; its request carries no payload. */
void efa_tx_on_nack(struct efa_tx *tx, const struct efa_hdr *nack)
{
	bool dc = tx->flags & FI_DELIVERY_COMPLETE;
	uint64_t first = 0;
	struct efa_hdr h;

	(void)nack;
	if (!(tx->wait & EFA_WAIT_EOR) || tx->reported)
		return;
	tx->wait = EFA_WAIT_CTS | (dc ? EFA_WAIT_RECEIPT : 0);
	drop_tmp_mrs(tx);
	tx->need = tx->len;
	if (tx->kind == EFA_TX_WRITE) {
		tx->type = dc ? EFA_PKT_DC_LONGCTS_RTW : EFA_PKT_LONGCTS_RTW;
		first = longcts_hdr(tx, &h);
	} else {
		tx->type = (uint8_t)((dc ? EFA_PKT_DC_LONGCTS_MSGRTM : EFA_PKT_LONGCTS_MSGRTM) +
				     !!(tx->cq_flags & FI_TAGGED));
		efa_tx_hdr(tx, &h);
		h.flags |= EFA_FLAG_READ_NACK;
	}
	if (answer_packet(tx, &h, first))
		efa_tx_fail(tx, FI_ENOMEM, EFA_ERR_NOMEM);
}
