// SPDX-License-Identifier: BSD-2-Clause
// Incoming packets and transfers: order, matching, payload, grants, completion (doc/facts/efa.md#two-sided-transfers).
#include "prov/efa/efa.h"

#include <string.h>

#include "base/log.h"

/* --- life --------------------------------------------------------------------------------------------- */

struct efa_rx *efa_rx_get(struct efa_ep *ep, struct efa_peer *peer, enum efa_rx_kind kind)
{
	struct efa_rx *rx = slab_get(&ep->rx_slab);

	if (!rx)
		return NULL;
	memset(rx, 0, sizeof(*rx));
	rx->ep = ep;
	rx->peer = peer;
	rx->kind = (uint8_t)kind;
	rx->id = slab_id(&ep->rx_slab, rx);
	TAILQ_INIT(&rx->held);
	LIST_INSERT_HEAD(&peer->rxs, rx, peer_link);
	rx->is_write = kind == EFA_RX_WRITE;
	if (rx->is_write)
		efa_quota_add(peer, EFA_Q_WORK, 1);
	return rx;
}

static void leave_multi(struct efa_rx *rx)
{
	if (!rx->in_multi)
		return;
	LIST_REMOVE(rx, multi_link);
	efa_quota_put(rx->peer, EFA_Q_OPEN, 1);
	rx->in_multi = false;
}

static void enter_multi(struct efa_rx *rx)
{
	if (rx->in_multi)
		return;
	LIST_INSERT_HEAD(&rx->peer->multi, rx, multi_link);
	efa_quota_add(rx->peer, EFA_Q_OPEN, 1);
	rx->in_multi = true;
}

static void unkeep(struct efa_rx *rx)
{
	if (rx->kept)
		efa_quota_put(rx->peer, EFA_Q_KEPT, rx->kept);
	rx->kept = 0;
}

static void drop_held(struct efa_rx *rx)
{
	struct efa_held *held;

	unkeep(rx);
	while ((held = TAILQ_FIRST(&rx->held))) {
		TAILQ_REMOVE(&rx->held, held, link);
		efa_held_put(rx->ep, held);
	}
}

void efa_rx_put(struct efa_rx *rx)
{
	for (unsigned i = 0; i < ARRAY_SIZE(rx->tmp_mr) && rx->tmp_mr[i]; i++)
		efanic_mr_dereg(rx->tmp_mr[i]);
	leave_multi(rx);
	drop_held(rx);
	if (rx->reading)
		rx->ep->domain->reads_in_flight--;
	LIST_REMOVE(rx, peer_link);
	if (rx->is_write)
		efa_quota_put(rx->peer, EFA_Q_WORK, 1);
	slab_put(&rx->ep->rx_slab, rx);
}

static void end(struct efa_rx *rx)
{
	rx->ended = true;
	leave_multi(rx);
	drop_held(rx);
	if (!rx->wrs)
		efa_rx_put(rx);
}

static struct kit_rx_result result_of(const struct efa_rx *rx)
{
	return (struct kit_rx_result){
		.len = (rx->krx ? MIN(rx->len, rx->krx->len) : rx->len) + rx->ep->msg_prefix,
		.data = rx->data,
		.tag = rx->tag,
		.flags = rx->has_data ? FI_REMOTE_CQ_DATA : 0,
		.src = rx->peer->fi_addr,
	};
}

/*
 * Its peer waits to hear that we have read it all, or for our grants, or for a receipt. Where the peer is the reason,
 * it cannot be told.
 */
static void sender_tell(struct efa_rx *rx, unsigned prov_errno)
{
	bool is_memory = prov_errno == EFANIC_REMOTE_BAD_ADDRESS || prov_errno == EFANIC_LOCAL_INVALID_LKEY ||
			 prov_errno == EFA_ERR_RDMA_READ_POST || prov_errno == EFA_ERR_NOMEM; /* of either side */
	bool is_waiting = efa_pkt_tab[rx->type].props & (EFA_P_DC | EFA_P_READ_IOV | EFA_P_LONGCTS);
	struct efa_hdr h = {.type = rx->type, .send_id = rx->send_id};

	if (is_memory && is_waiting && !(rx->peer->flags & EFA_PEER_REMOVED) && !rx->ep->kit.closing)
		efa_refuse_send(rx->peer, &h);
}

static void write_failed(struct efa_rx *rx, int err, unsigned prov_errno)
{
	efa_ep_event(rx->ep, err, (int)prov_errno, "a write of a peer could not be finished");
	sender_tell(rx, prov_errno);
}

/*
 * RDMA reads of it are on their way, and who answers them writes to the receive, which is its owner's again once he
 * hears of a failure.
 */
static bool fail_later(struct efa_rx *rx, int err, unsigned prov_errno)
{
	if (!rx->wrs)
		return false;
	if (!rx->fail_err) {
		rx->fail_err = err;
		rx->fail_code = prov_errno;
	}
	return true;
}

void efa_rx_fail(struct efa_rx *rx, int err, unsigned prov_errno)
{
	struct kit_rx_result res = result_of(rx);
	char text[512];

	if (rx->ended)
		return;
	rx->failed = true;
	if (rx->kind == EFA_RX_MSG && !rx->matched)
		return; /* told to the receive that will match it */
	if (fail_later(rx, err, prov_errno))
		return;
	if (rx->kind == EFA_RX_MSG) {
		sender_tell(rx, prov_errno);
		kit_rx_fail(rx->krx, &res, err, (int)prov_errno, 0, text,
			    efa_err_data(rx->ep, rx->peer, prov_errno, text, sizeof(text)));
	} else if (rx->kind == EFA_RX_WRITE) {
		write_failed(rx, err, prov_errno);
	}
	if (rx->kind == EFA_RX_READ)
		efa_tx_fail(rx->tx, err, prov_errno); /* ends @rx, too */
	else
		end(rx);
}

void efa_rx_orphan(const struct efa_tx *tx)
{
	struct efa_rx *rx;

	LIST_FOREACH(rx, &tx->peer->rxs, peer_link) {
		if (rx->kind == EFA_RX_READ && rx->tx == tx && !rx->ended) {
			end(rx);
			return;
		}
	}
}

void efa_rx_abandon(struct efa_rx *rx)
{
	LIST_REMOVE(rx, peer_link);
	LIST_INSERT_HEAD(&rx->ep->rx_orphans, rx, peer_link);
	if (rx->ended)
		return;
	if (rx->kind == EFA_RX_MSG && rx->matched) {
		efa_rx_fail(rx, FI_ECANCELED, EFANIC_FLUSHED);
		return;
	}
	end(rx);
}

/* --- payload ---------------------------------------------------------------------------------------------- */

/* The memory for them is not there any more: @rx ends. */
static __attribute__((cold)) void bytes_lost(struct efa_rx *rx)
{
	struct efa_hdr h = {.type = rx->type, .send_id = rx->send_id};

	if (rx->kind == EFA_RX_WRITE) {
		efa_refuse(rx->peer, &h, "a peer wrote to memory that is not there any more");
		end(rx);
	} else {
		efa_rx_fail(rx, efa_errno(EFANIC_LOCAL_INVALID_LKEY), EFANIC_LOCAL_INVALID_LKEY);
	}
}

bool efa_rx_bytes(struct efa_rx *rx, uint64_t off, const struct view *data, size_t payload_off)
{
	uint64_t len = data->len - payload_off;

	if (off > rx->len || len > rx->len - off)
		return false;
	if (rx->kind == EFA_RX_MSG) {
		kit_rx_copy(rx->krx, off, data, payload_off);
	} else {
		bool is_ok = rx->kind != EFA_RX_WRITE || efa_rma_is_there(rx->ep, rx->at, rx->iov_cnt, FI_REMOTE_WRITE);
		struct view v = *data;
		size_t at = off;

		view_skip(&v, payload_off);
		for (unsigned i = 0; i < v.seg_cnt; i++) {
			size_t n = is_ok ? kit_iov_copy_to(rx->iov, rx->iov_cnt, at, v.seg[i].p, v.seg[i].len) : 0;

			if (unlikely(n < v.seg[i].len && rx->kind != EFA_RX_SINK)) {
				bytes_lost(rx);
				return false;
			}
			at += v.seg[i].len;
		}
	}
	rx->got += len;
	return true;
}

static int send_cts(struct efa_rx *rx)
{
	const struct efa_params *prm = &rx->ep->domain->params;
	uint64_t credits = MIN((uint64_t)prm->tx_min_credits, rx->credit ? rx->credit : UINT32_MAX);
	struct efa_hdr h = {
		.type = EFA_PKT_CTS,
		.flags = rx->kind == EFA_RX_READ ? EFA_FLAG_CTS_READ_REQ : 0,
		.send_id = rx->send_id,
		.recv_id = rx->id,
		.recv_len = MIN(rx->len - rx->got, credits * EFA_CTSDATA_CAP),
	};

	rx->granted = rx->got + h.recv_len;
	return efa_ctrl_send(rx->peer, &h, NULL);
}

static void send_ctrl(struct efa_rx *rx, uint8_t type)
{
	struct efa_hdr h = {.type = type, .send_id = rx->send_id, .recv_id = rx->id, .msg_id = rx->msg_id};

	if (efa_ctrl_send(rx->peer, &h, NULL))
		efa_ep_event(rx->ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory to answer a peer");
}

static void send_nack(struct efa_rx *rx)
{
	rx->want_nack = false;
	rx->nacked = true;
	send_ctrl(rx, EFA_PKT_READ_NACK);
	if (rx->kind == EFA_RX_MSG)
		enter_multi(rx); /* the retry is found by its msg_id */
	else
		end(rx); /* the sender starts a fresh write */
}

static void complete(struct efa_rx *rx)
{
	struct efa_ep *ep = rx->ep;
	unsigned props = efa_pkt_tab[rx->type].props;
	struct kit_rx_result res = result_of(rx);

	if (props & EFA_P_READ_IOV && rx->len > rx->runt_len)
		send_ctrl(rx, EFA_PKT_EOR);
	if (props & EFA_P_DC)
		send_ctrl(rx, EFA_PKT_RECEIPT);
	if (rx->kind == EFA_RX_SINK) {
		/* nobody to tell */
	} else if (rx->kind == EFA_RX_READ) {
		efa_tx_on_response(rx->tx);
	} else if (rx->kind == EFA_RX_WRITE) {
		if (rx->has_data && ep->kit.rx_cq)
			kit_cq_push(ep->kit.rx_cq, NULL, FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE, rx->len, NULL,
				    rx->data, 0, rx->peer->fi_addr);
		kit_cntr_add(ep->kit.cntr[KIT_CNTR_REMOTE_WRITE], 1, 0);
	} else if (rx->len > rx->krx->len) {
		kit_rx_fail(rx->krx, &res, FI_ETRUNC, FI_ETRUNC, rx->len - rx->krx->len, NULL, 0);
	} else {
		kit_rx_done(&ep->srx, rx->krx, rx->krx->tagged, &res);
	}
	end(rx);
}

void efa_rx_check(struct efa_rx *rx)
{
	if (rx->ended || rx->fail_err)
		return;
	if (rx->got >= rx->len && !rx->read_left) {
		complete(rx);
		return;
	}
	if (rx->want_nack) {
		if (rx->got >= rx->runt_len)
			send_nack(rx);
		return;
	}
	if (!(efa_pkt_tab[rx->type].props & EFA_P_READ_IOV) && !(efa_pkt_tab[rx->type].props & EFA_P_MULTI) &&
	    rx->send_id_known && rx->got >= rx->granted && send_cts(rx))
		efa_rx_fail(rx, FI_ENOMEM, EFA_ERR_NOMEM);
}

/* --- requests: matched at once, or kept ------------------------------------------------------------------------- */

void efa_rx_go_on(struct efa_rx *rx)
{
	int ret;

	if (rx->failed) {
		rx->failed = false;
		efa_rx_fail(rx, FI_ECONNABORTED, EFANIC_REMOTE_ABORT);
		return;
	}
	if (efa_pkt_tab[rx->type].props & EFA_P_READ_IOV && rx->len > rx->runt_len) {
		ret = efa_rx_post_reads(rx);
		if (ret == -EFA_ENOMR && !rx->wrs && efa_peer_has(rx->peer, EFA_X_READ_NACK)) {
			rx->want_nack = true;
		} else if (ret) {
			efa_rx_fail(rx, -ret, EFA_ERR_RDMA_READ_POST);
			return;
		}
	}
	efa_rx_check(rx);
}

void efa_rx_fill(struct efa_rx *rx, const struct efa_hdr *h, uint64_t len)
{
	unsigned props = efa_pkt_tab[h->type].props;

	rx->type = h->type;
	rx->msg_id = h->msg_id;
	rx->len = len;
	rx->tag = props & EFA_P_TAGGED ? h->tag : 0;
	rx->has_data = h->flags & EFA_FLAG_CQ_DATA;
	rx->data = rx->has_data ? h->data : 0;
	rx->send_id = h->send_id;
	rx->send_id_known = props & EFA_P_LONGCTS;
	rx->credit = props & EFA_P_LONGCTS ? h->credit : 0;
	if (props & EFA_P_READ_IOV) {
		rx->read_iov_cnt = (uint8_t)h->read_iov_cnt;
		memcpy(rx->read_iov, h->read_iov, h->read_iov_cnt * sizeof(h->read_iov[0]));
		rx->runt_len = props & EFA_P_MULTI ? h->runt_len : 0;
	}
}

/* Return: false: no memory, and a sender that waits for more than the packet's arrival has been told. */
static bool hold(struct efa_rx *rx, const struct efa_hdr *h, const struct view *data)
{
	struct efa_held *held = efa_held_get(rx->ep, data, h->msg_id);

	if (!held) {
		efa_ep_event(rx->ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory for an unexpected message");
		if (efa_pkt_tab[rx->type].props & (EFA_P_DC | EFA_P_READ_IOV | EFA_P_LONGCTS))
			efa_refuse_send(rx->peer, h);
		return false;
	}
	TAILQ_INSERT_TAIL(&rx->held, held, link);
	rx->kept += efa_held_size(held);
	efa_quota_add(rx->peer, EFA_Q_KEPT, efa_held_size(held));
	return true;
}

static void keep_unexpected(struct efa_rx *rx, const struct efa_hdr *h, const struct view *data)
{
	struct efa_ep *ep = rx->ep;

	if (!hold(rx, h, data)) {
		end(rx);
		return;
	}
	rx->kept += sizeof(*rx);
	efa_quota_add(rx->peer, EFA_Q_KEPT, sizeof(*rx));
	rx->ux.mt.tag = rx->tag;
	rx->ux.mt.src = rx->peer->fi_addr;
	rx->ux.msg_len = rx->len;
	rx->ux.has_data = rx->has_data;
	rx->ux.data = rx->data;
	rx->ux.tagged = efa_pkt_tab[rx->type].props & EFA_P_TAGGED;
	if (kit_srx_unexpected(&ep->srx, &rx->ux)) {
		efa_ep_event(ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory for an unexpected message");
		end(rx);
	}
}

/* Payload offset in the message of a packet of @rx. */
static uint64_t seg_off(const struct efa_hdr *h)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.UndefReturn): only what was parsed is of several packets */
	return efa_pkt_tab[h->type].props & EFA_P_MULTI ? h->seg_off : 0;
}

static void first_packet(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off,
			 struct kit_rx *krx, uint64_t len)
{
	struct efa_ep *ep = peer->ep;
	struct efa_rx *rx = efa_rx_get(ep, peer, EFA_RX_MSG);

	if (!rx) {
		efa_ep_event(ep, FI_ENOMEM, EFA_ERR_NO_RX, "no memory for a message");
		if (krx)
			kit_rx_fail(krx, &(struct kit_rx_result){.src = peer->fi_addr}, FI_ENOMEM, EFA_ERR_NO_RX, 0,
				    NULL, 0);
		return;
	}
	efa_rx_fill(rx, h, len);
	if (efa_pkt_tab[h->type].props & EFA_P_MULTI)
		enter_multi(rx);
	if (!krx) {
		keep_unexpected(rx, h, data);
		return;
	}
	rx->krx = krx;
	rx->matched = true;
	efa_rx_bytes(rx, seg_off(h), data, payload_off);
	efa_rx_go_on(rx);
}

/* The common end of a message: one packet, one copy, no transfer object. It fits the receive @krx. */
static void take_eager(struct efa_peer *peer, struct kit_rx *krx, const struct efa_hdr *h, const struct view *data,
		       size_t payload_off)
{
	struct kit_rx_result res = {.len = data->len - payload_off + peer->ep->msg_prefix,
				    .tag = efa_pkt_tab[h->type].props & EFA_P_TAGGED ? h->tag : 0,
				    .src = peer->fi_addr};

	if (h->flags & EFA_FLAG_CQ_DATA) {
		res.flags = FI_REMOTE_CQ_DATA;
		res.data = h->data;
	}
	kit_rx_copy(krx, 0, data, payload_off);
	kit_rx_done(&peer->ep->srx, krx, krx->tagged, &res);
}

/* The first packet of a message whose turn it is. */
static void on_message(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	unsigned props = efa_pkt_tab[h->type].props;
	bool eager = !(props & (EFA_P_MULTI | EFA_P_LONGCTS | EFA_P_READ_IOV));
	uint64_t len = eager ? data->len - payload_off : h->msg_len;
	bool tagged = props & EFA_P_TAGGED;
	struct kit_rx *krx = kit_srx_match(&peer->ep->srx, tagged, peer->fi_addr, tagged ? h->tag : 0, len);

	if (likely(krx && eager && !(props & EFA_P_DC) && len <= krx->len))
		take_eager(peer, krx, h, data, payload_off);
	else
		first_packet(peer, h, data, payload_off, krx, len);
}

/* No receive waits for it, or a shorter one, or one of several pieces. */
static __attribute__((noinline)) void eager_kept(struct efa_peer *peer, const uint8_t *pkt, uint32_t len, bool tagged,
						 uint64_t tag, struct kit_rx *krx)
{
	const struct efa_hdr h = {.type = efa_eager_type(tagged), .flags = efa_eager_flags(tagged),
				  .msg_id = peer->exp_msg_id - 1, .tag = tag};
	struct view data = view_of(pkt, len);

	first_packet(peer, &h, &data, efa_eager_hdr_len(tagged), krx, len - (uint32_t)efa_eager_hdr_len(tagged));
}

/* on_message() and all before it, in short; its first four bytes have been looked at. Return: taken. */
static inline __attribute__((always_inline)) bool take_next(struct efa_peer *peer, const uint8_t *pkt, uint32_t len,
							    bool tagged)
{
	uint32_t hdr_len = efa_eager_hdr_len(tagged), n = len - hdr_len;
	struct kit_rx_result res = {.src = peer->fi_addr};
	struct efa_ep *ep = peer->ep;
	struct kit_rx *krx;

	if (unlikely(len < hdr_len || efa_eager_msg_id(pkt) != peer->exp_msg_id))
		return false;
	peer->exp_msg_id++;
	ep->stats.rx_pkts[efa_eager_type(tagged)]++;
	res.tag = tagged ? efa_eager_tag(pkt) : 0;
	krx = kit_srx_match(&ep->srx, tagged, res.src, res.tag, n);
	if (unlikely(!krx || n > krx->len || krx->iov_cnt != 1)) {
		eager_kept(peer, pkt, len, tagged, res.tag, krx);
		return true;
	}
	copy_bytes(krx->iov[0].iov_base, pkt + hdr_len, n);
	res.len = n + ep->msg_prefix;
	kit_rx_done(&ep->srx, krx, tagged, &res);
	return true;
}

/*
 * A peer that we know and have greeted sends its next small message. What it must begin with is known in advance; each
 * byte of it is read once. All else has its door behind efanic_pass().
 */
int efa_on_eager(void *ctx, void *src, const uint8_t *pkt, uint32_t len)
{
	struct efa_peer *peer = src;
	struct efa_ep *ep = ctx;

	assert(!peer || efa_peer_gates_hold(peer));
	if (likely(peer && peer->takes_next && len >= EFA_EAGER_HDR_MSG)) {
		uint32_t base = efa_eager_front(pkt);

		if (likely(base == efa_eager_base(true))) {
			if (likely(take_next(peer, pkt, len, true)))
				return 0;
		} else if (base == efa_eager_base(false) && take_next(peer, pkt, len, false)) {
			return 0;
		}
	}
	return efanic_pass(ep->qp, pkt, len);
}

/* A further packet of a message of several. */
static void on_more(struct efa_rx *rx, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	uint64_t len = data->len - payload_off, room = rx->len - MIN(rx->held_len, rx->len);

	if (h->type != rx->type || h->msg_len != rx->len || (!rx->matched && (!len || len > room))) {
		rx->ep->stats.drop[EFA_DROP_LENGTH]++;
	} else if (!rx->matched) {
		rx->held_len += len;
		rx->failed |= !hold(rx, h, data); /* the receive that will match it must not wait for these bytes */
	} else if (efa_rx_bytes(rx, h->seg_off, data, payload_off)) {
		efa_rx_check(rx);
	}
}

static struct efa_rx *multi_find(struct efa_peer *peer, uint32_t msg_id)
{
	struct efa_rx *rx;

	LIST_FOREACH(rx, &peer->multi, multi_link)
		if (rx->msg_id == msg_id)
			return rx;
	return NULL;
}

/* The sender's second attempt, by CTS, at a message we could not read. */
static void on_nack_retry(struct efa_peer *peer, const struct efa_hdr *h)
{
	struct efa_rx *rx = multi_find(peer, h->msg_id);

	if (!rx || !rx->nacked || !(efa_pkt_tab[h->type].props & EFA_P_LONGCTS) || h->msg_len != rx->len) {
		peer->ep->stats.drop_stale_id++;
		return;
	}
	leave_multi(rx);
	rx->nacked = false;
	rx->type = h->type;
	rx->send_id = h->send_id;
	rx->send_id_known = true;
	rx->credit = h->credit;
	rx->granted = rx->got;
	efa_rx_check(rx);
}

void efa_rx_start(struct kit_ep *kep, struct kit_rx *krx, struct kit_ux *ux)
{
	struct efa_rx *rx = container_of(ux, struct efa_rx, ux);
	struct efa_held *held;
	struct efa_hdr h;
	size_t payload_off;

	(void)kep;
	rx->krx = krx;
	rx->matched = true;
	while ((held = TAILQ_FIRST(&rx->held))) {
		struct view v = view_of(held->data, held->len);

		TAILQ_REMOVE(&rx->held, held, link);
		if (!efa_pkt_decode(&v, &h, &payload_off))
			efa_rx_bytes(rx, seg_off(&h), &v, payload_off);
		efa_held_put(rx->ep, held);
	}
	unkeep(rx);
	efa_rx_go_on(rx);
}

fi_addr_t efa_rx_source(const struct kit_ux *ux)
{
	return container_of(ux, struct efa_rx, ux)->peer->fi_addr;
}

/* Bytes of a CTS-based message that came before it was discarded; the rest goes nowhere too. */
static void sink(struct efa_rx *rx)
{
	struct efa_held *held;
	struct efa_hdr h;
	size_t payload_off;

	unkeep(rx);
	rx->kind = EFA_RX_SINK;
	rx->iov_cnt = 0;
	while ((held = TAILQ_FIRST(&rx->held))) {
		struct view v = view_of(held->data, held->len);

		TAILQ_REMOVE(&rx->held, held, link);
		if (!efa_pkt_decode(&v, &h, &payload_off))
			efa_rx_bytes(rx, 0, &v, payload_off);
		efa_held_put(rx->ep, held);
	}
	efa_rx_check(rx);
}

void efa_rx_discard(struct kit_ep *kep, struct kit_ux *ux)
{
	struct efa_rx *rx = container_of(ux, struct efa_rx, ux);

	/* An endpoint that closes sends no receipt: its queue pair is gone, and the message was not received. */
	if (kep->closing || (rx->peer->flags & EFA_PEER_REMOVED)) {
		end(rx);
		return;
	}
	/* Its sender may wait for us: for an EOR, for a receipt, or for grants until all has gone into no buffer. */
	if (efa_pkt_tab[rx->type].props & EFA_P_LONGCTS) {
		sink(rx);
		return;
	}
	if (efa_pkt_tab[rx->type].props & EFA_P_READ_IOV)
		send_ctrl(rx, EFA_PKT_EOR);
	if (efa_pkt_tab[rx->type].props & EFA_P_DC && !(efa_pkt_tab[rx->type].props & EFA_P_LONGCTS))
		send_ctrl(rx, EFA_PKT_RECEIPT);
	end(rx);
}

/* --- order: messages and atomics of a peer take effect by msg_id --------------------------------- */

static void ordered_now(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	if (likely(efa_pkt_tab[h->type].props & EFA_P_RTM))
		on_message(peer, h, data, payload_off);
	else
		efa_atomic_on_rta(peer, h, data, payload_off);
}

/*
 * Is there room for a packet that came @ahead messages early? Packets beyond the window are refused at the adapter:
 * their sender backs off and tries again, the one that everybody waits for is always taken. Those that the adapter
 * accepted while nobody polled are owed a place; there are no more of them than receives.
 */
static bool has_room_ahead(struct efa_peer *peer, uint32_t ahead, uint32_t len)
{
	struct efa_ep *ep = peer->ep;
	uint32_t window = (uint32_t)ep->domain->params.recvwin_size;

	if (likely(ahead < window && peer->ahead_cnt < window && efa_quota_has(peer, EFA_Q_EARLY, len)))
		return true;
	if (efanic_refuse(ep->qp)) {
		ep->stats.early_refused++;
		return false;
	}
	if (peer->ahead_cnt < (uint64_t)window + ep->kit.info->rx_attr->size)
		return true;
	if (!ep->stats.drop_early++)
		efa_ep_event(ep, FI_EIO, EFA_ERR_GENERIC, "too many messages came early (FI_EFA_RECVWIN_SIZE)");
	return false;
}

static void keep_ahead(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data)
{
	struct efa_held *held = efa_held_get(peer->ep, data, h->msg_id), *at;

	if (!held) {
		efa_ep_event(peer->ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory for a message that came early");
		return;
	}
	TAILQ_FOREACH_REVERSE(at, &peer->ahead, efa_held_q, link)
		if ((int32_t)(at->msg_id - h->msg_id) <= 0)
			break;
	if (at)
		TAILQ_INSERT_AFTER(&peer->ahead, at, held, link);
	else
		TAILQ_INSERT_HEAD(&peer->ahead, held, link);
	peer->ahead_cnt++;
	efa_peer_gates(peer);
	efa_quota_add(peer, EFA_Q_EARLY, efa_held_size(held));
}

static void ordered_late(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct efa_rx *rx = efa_pkt_tab[h->type].props & EFA_P_MULTI ? multi_find(peer, h->msg_id) : NULL;

	if (rx)
		on_more(rx, h, data, payload_off);
	else if (!peer->ep->stats.drop_duplicate++)
		LOG_INFO("dropped a %s packet that was processed already", efa_pkt_name(h->type));
}

void efa_rx_ordered(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	int32_t ahead = (int32_t)(h->msg_id - peer->exp_msg_id);
	struct efa_held *held;

	if (unlikely(h->flags & EFA_FLAG_READ_NACK)) {
		on_nack_retry(peer, h);
		return;
	}
	if (unlikely(ahead > 0)) {
		if (has_room_ahead(peer, (uint32_t)ahead, data->len))
			keep_ahead(peer, h, data);
		return;
	}
	if (unlikely(ahead < 0)) {
		ordered_late(peer, h, data, payload_off);
		return;
	}
	peer->exp_msg_id++;
	ordered_now(peer, h, data, payload_off);
	while (unlikely((held = TAILQ_FIRST(&peer->ahead)) != NULL) &&
	       (int32_t)(held->msg_id - peer->exp_msg_id) <= 0) {
		struct view v = view_of(held->data, held->len);
		struct efa_hdr hh;
		size_t off;

		TAILQ_REMOVE(&peer->ahead, held, link);
		peer->ahead_cnt--;
		efa_peer_gates(peer);
		efa_quota_put(peer, EFA_Q_EARLY, efa_held_size(held));
		if (efa_pkt_decode(&v, &hh, &off)) {
			/* cannot be: it passed the door once and is our copy */
		} else if (hh.msg_id == peer->exp_msg_id) {
			peer->exp_msg_id++;
			ordered_now(peer, &hh, &v, off);
		} else {
			ordered_late(peer, &hh, &v, off);
		}
		efa_held_put(peer->ep, held);
	}
}
