// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED of the RDM endpoint: the sends, each a few lines in front of efa_tx_start().
#include "prov/efa/efa.h"

#define MSG (FI_SEND | FI_MSG)
#define TAG (FI_SEND | FI_TAGGED)

/* Every send ends up here. @cq_flags: FI_SEND|FI_MSG or FI_SEND|FI_TAGGED. */
static ssize_t send_iov(struct efa_ep *ep, const struct iovec *iov, void *const *desc, size_t cnt, fi_addr_t to, uint64_t tag,
			uint64_t data, void *context, uint64_t flags, uint64_t cq_flags)
{
	struct lock *lock = &ep->domain->kit.lock;
	struct efa_peer *peer;
	struct efa_tx *tx;
	ssize_t ret;

	if (unlikely(efa_ep_state(&ep->kit)))
		return efa_ep_state(&ep->kit);
	if (unlikely(cnt > 4 || (cnt && !iov)))
		return -FI_EINVAL;
	if (unlikely(cnt > 1 && kit_iov_len(iov, cnt) == SIZE_MAX))
		return -FI_EINVAL; /* the sum of the lengths wraps */
	lock_acquire(lock);
	peer = efa_peer_find(ep, to);
	tx = likely(peer != NULL) ? efa_tx_get(ep, peer, EFA_TX_SEND) : NULL;
	if (unlikely(!tx)) {
		lock_release(lock);
		return peer ? -FI_EAGAIN : -FI_EINVAL;
	}
	tx->iov_cnt = (uint8_t)cnt;
	tx->len = 0;
	tx->desc[0] = NULL;
	for (size_t i = 0; i < cnt; i++) {
		tx->iov[i] = iov[i];
		tx->len += iov[i].iov_len;
		tx->desc[i] = desc ? desc[i] : NULL;
	}
	if (unlikely(ep->msg_prefix)) {
		if (!efa_skip_prefix(ep, tx->iov, cnt)) {
			efa_tx_put(tx);
			lock_release(lock);
			return -FI_EINVAL;
		}
		tx->len -= ep->msg_prefix;
	}
	tx->flags = flags;
	tx->injected = flags & FI_INJECT;
	tx->wants_cqe = kit_tx_wants_cqe(&ep->kit, flags) && !(flags & EFA_NO_CQE);
	tx->has_data = flags & FI_REMOTE_CQ_DATA;
	tx->cq_flags = cq_flags;
	tx->context = context;
	tx->tag = tag;
	tx->data = data;
	if (unlikely(tx->len > (cq_flags & FI_TAGGED ? ep->max_tagged_size : ep->max_msg_size) ||
		     (tx->injected && tx->len > (cq_flags & FI_TAGGED ? ep->inject_tagged : ep->inject_msg)))) {
		efa_tx_put(tx);
		ret = -FI_EMSGSIZE;
	} else {
		ret = efa_tx_start(tx);
	}
	if (!(flags & FI_MORE) && likely(!ret)) {
		efanic_doorbell(ep->qp);
		ep->need_doorbell = false;
	}
	lock_release(lock);
	return ret;
}

/*
 * A small message needs no packet and, injected, no transfer either: header and payload go into the adapter's own
 * descriptor, and only a failure is heard of again (small_failed() in efa_pkt.c).
 */
#define SMALL_MAX (EFANIC_INLINE_MAX - EFA_EAGER_HDR_TAG)
#define SMALL_NOT (FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE) /* flags that need more than that */

/* Is nothing in the way of an eager packet with a connid to @peer? */
static inline bool small_ok(const struct efa_ep *ep, const struct efa_peer *peer)
{
	return (peer->flags & (EFA_PEER_HS_RCVD | EFA_PEER_RNR)) == EFA_PEER_HS_RCVD &&
	       (peer->extra & (EFA_X_CONNID_HDR | EFA_X_CONSTANT_HDR_LEN)) == EFA_X_CONNID_HDR &&
	       STAILQ_EMPTY(&peer->parked) && !peer->unstarted && !ep->no_inline;
}

/* What the completion will need. NULL: too many operations. */
static struct efa_tx *small_tx(struct efa_peer *peer, size_t len, uint64_t tag, void *context, uint64_t flags)
{
	struct efa_ep *ep = peer->ep;
	struct efa_tx *tx = efa_tx_get(ep, peer, EFA_TX_SEND);

	if (unlikely(!tx))
		return NULL;
	tx->injected = flags & FI_INJECT;
	tx->wants_cqe = kit_tx_wants_cqe(&ep->kit, flags) && !(flags & EFA_NO_CQE);
	tx->flags = flags;
	tx->cq_flags = flags & FI_TAGGED ? TAG : MSG;
	tx->context = context;
	tx->tag = tag;
	tx->data = 0;
	tx->len = tx->sent = tx->need = len;
	tx->wrs = 1;
	return tx;
}

static inline size_t small_hdr_len(uint64_t flags)
{
	return flags & FI_TAGGED ? EFA_EAGER_HDR_TAG : EFA_EAGER_HDR_MSG;
}

/* The packet, @small_hdr_len() + @len bytes, into @frame. */
static inline void small_fill(struct efa_peer *peer, uint8_t *frame, const void *buf, size_t len, uint64_t tag,
			      uint64_t flags)
{
	struct efa_ep *ep = peer->ep;
	bool tagged = flags & FI_TAGGED;

	efa_eager_encode(frame, tagged, peer->next_msg_id++, tag, ep->self.qkey);
	copy_small(frame + small_hdr_len(flags), buf, len);
	ep->stats.tx_pkts[efa_eager_type(tagged)]++;
}

/* Through the send queue: where the caller wants to know when it has arrived. */
static __attribute__((noinline)) bool send_inline(struct efa_peer *peer, const void *buf, size_t len, uint64_t tag,
						  void *context, uint64_t flags)
{
	struct efa_ep *ep = peer->ep;
	bool is_quiet = flags & EFA_NO_CQE && !ep->kit.cntr[KIT_CNTR_SEND];
	uint8_t *frame = efanic_inline_buf(ep->qp);
	struct efa_tx *tx = NULL;

	if (unlikely(!frame || (!is_quiet && !(tx = small_tx(peer, len, tag, context, flags)))))
		return false;
	small_fill(peer, frame, buf, len, tag, flags);
	must(!efanic_post_inline(ep->qp, peer->dst, (uint32_t)(small_hdr_len(flags) + len), efa_small_wr_id(tx)));
	ep->need_doorbell = true;
	return true;
}

/*
 * On this host a message that lies in the peer's lane has been sent, so it completes at once, as it does where efa
 * hands local peers to the shm provider. Not if the caller asked for more than that, or has not read the last ones: the
 * queue must not grow by posting.
 */
#define EARLY_NOT (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE)
#define EARLY_MAX 64u /* unread completions */

/* @flags: of the call, FI_TAGGED if it is. Return: sent; else do it the long way, which knows every case. Lock held. */
static __attribute__((noinline)) bool send_small(struct efa_peer *peer, const void *buf, size_t len, uint64_t tag,
						 void *context, uint64_t flags)
{
	struct efa_ep *ep = peer->ep;
	bool wants_cqe = !(flags & EFA_NO_CQE) && kit_tx_wants_cqe(&ep->kit, flags);
	struct kit_cq *cq = ep->kit.tx_cq;
	size_t pkt_len = small_hdr_len(flags) + len;
	uint8_t *frame;

	if (unlikely(!small_ok(ep, peer) || len > (flags & FI_TAGGED ? ep->inject_tagged : ep->inject_msg)))
		return false;
	if (unlikely(ep->kit.cntr[KIT_CNTR_SEND] ||
		     (wants_cqe && (flags & EARLY_NOT || cq->tail - cq->head >= EARLY_MAX ||
				    !efanic_dst_is_local(peer->dst)))))
		return send_inline(peer, buf, len, tag, context, flags);
	frame = efanic_direct_buf(ep->qp, peer->dst, (uint32_t)pkt_len);
	if (unlikely(!frame))
		return send_inline(peer, buf, len, tag, context, flags);
	small_fill(peer, frame, buf, len, tag, flags);
	ep->need_doorbell |= efanic_direct_send(ep->qp, peer->dst, frame, (uint32_t)pkt_len);
	if (wants_cqe)
		kit_cq_push(cq, context, flags & FI_TAGGED ? TAG : MSG, len, NULL, 0, tag, FI_ADDR_NOTAVAIL);
	return true;
}

static __attribute__((noinline)) ssize_t send_buf_any(struct efa_ep *ep, const void *buf, size_t len, void *desc,
						      fi_addr_t to, uint64_t tag, uint64_t data, void *context,
						      uint64_t flags, uint64_t cq_flags)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return send_iov(ep, &iov, &desc, 1, to, tag, data, context, flags, cq_flags);
}

static inline __attribute__((always_inline)) ssize_t send_buf(struct efa_ep *ep, const void *buf, size_t len, void *desc,
							      fi_addr_t to, uint64_t tag, uint64_t data,
							      void *context, uint64_t flags, uint64_t cq_flags)
{
	struct lock *lock = &ep->domain->kit.lock;
	struct efa_peer *peer;
	bool is_sent;

	if (likely(len <= SMALL_MAX && !(flags & SMALL_NOT) && !efa_ep_state(&ep->kit))) {
		lock_acquire(lock);
		peer = efa_peer_find(ep, to);
		is_sent = likely(peer != NULL) && send_small(peer, buf, len, tag, context, flags | (cq_flags & FI_TAGGED));
		if (unlikely(ep->need_doorbell) && !(flags & FI_MORE)) {
			efanic_doorbell(ep->qp);
			ep->need_doorbell = false;
		}
		lock_release(lock);
		if (likely(is_sent))
			return 0;
	}
	return send_buf_any(ep, buf, len, desc, to, tag, data, context, flags, cq_flags);
}

static inline __attribute__((always_inline)) ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	struct efa_ep *ep = efa_ep_of(fid);
	uint64_t flags = kit_tx_flags(&ep->kit, s->form, s->flags) | (s->form == KIT_BY_INJECT ? EFA_NO_CQE : 0);
	uint64_t cq_flags = s->tagged ? TAG : MSG;

	if (s->is_vec)
		return send_iov(ep, s->iov, s->descs, s->iov_cnt, s->to, s->tag, s->data, s->context, flags, cq_flags);
	return send_buf(ep, s->buf, s->len, s->desc, s->to, s->tag, s->data, s->context, flags, cq_flags);
}

#include "kit/call_send.inc"

const struct fi_ops_msg efa_msg_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_MSG_RX(efa)};
const struct fi_ops_tagged efa_tagged_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_TAG_RX(efa)};
