// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED of the RDM endpoint: how a send is checked, and whether anything of it is to be remembered.
#include "prov/efa/efa.h"

#define MSG (FI_SEND | FI_MSG)
#define TAG (FI_SEND | FI_TAGGED)

/*
 * In the flags from do_send() on FI_TAGGED says which kind it is.
 *
 * An eager packet that the adapter's own memory has room for is written there at once, and where nobody waits for its
 * end no transfer is made of it: only a failure is heard of again (pkt_again() in efa_pkt.c). All else goes out of the
 * caller's memory.
 */
#define OWN_MAX (EFANIC_OWN_MAX - EFA_EAGER_HDR_TAG) /* the bytes are copied here, so that no key is asked for */
#define OWN_NOT (FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE) /* flags that need another header */

/*
 * On this host a message that lies in the peer's lane has been sent, so it completes at once, as it does where efa
 * hands local peers to the shm provider. Not if the caller asked for more than that, or has not read the last ones: the
 * queue must not grow by posting.
 */
#define EARLY_NOT (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE)
#define EARLY_MAX 64u /* unread completions */

static inline size_t inject_max(const struct efa_ep *ep, uint64_t flags)
{
	return flags & FI_TAGGED ? ep->inject_tagged : ep->inject_msg;
}

static inline size_t msg_max(const struct efa_ep *ep, uint64_t flags)
{
	return flags & FI_TAGGED ? ep->max_tagged_size : ep->max_msg_size;
}

/* What the completion of a message of @len bytes will need. NULL: too many are under way. */
static struct efa_tx *make_tx(struct efa_peer *peer, size_t len, uint64_t tag, void *context, uint64_t flags)
{
	struct efa_ep *ep = peer->ep;
	struct efa_tx *tx = efa_tx_get(ep, peer, EFA_TX_SEND);

	if (unlikely(!tx))
		return NULL;
	tx->flags = flags;
	tx->injected = flags & FI_INJECT;
	tx->wants_cqe = kit_tx_wants_cqe(&ep->kit, flags) && !(flags & EFA_NO_CQE);
	tx->cq_flags = flags & FI_TAGGED ? TAG : MSG;
	tx->context = context;
	tx->tag = tag;
	tx->data = 0;
	tx->len = len;
	return tx;
}

/* Out of the caller's memory, by the protocol that efa_tx_start() chooses. */
static __attribute__((noinline)) ssize_t send_borrowed(struct efa_peer *peer, const struct kit_send *s, size_t len,
						       uint64_t flags)
{
	struct iovec buf = {(void *)(uintptr_t)s->buf, s->len};
	const struct iovec *iov = s->is_vec ? s->iov : &buf;
	size_t cnt = s->is_vec ? s->iov_cnt : 1;
	void *const *descs = s->is_vec ? s->descs : &s->desc;
	struct efa_ep *ep = peer->ep;
	struct efa_tx *tx;

	len -= MIN(len, (size_t)ep->msg_prefix);
	if (unlikely(len > msg_max(ep, flags) ||
		     (flags & FI_INJECT && len > inject_max(ep, flags))))
		return -FI_EMSGSIZE;
	tx = make_tx(peer, len, s->tag, s->context, flags);
	if (unlikely(!tx))
		return -FI_EAGAIN;
	tx->has_data = flags & FI_REMOTE_CQ_DATA;
	tx->data = s->data;
	tx->iov_cnt = (uint8_t)cnt;
	tx->desc[0] = NULL;
	for (size_t i = 0; i < cnt; i++) {
		tx->iov[i] = iov[i];
		tx->desc[i] = descs ? descs[i] : NULL;
	}
	if (unlikely(ep->msg_prefix) && !efa_skip_prefix(ep, tx->iov, cnt)) {
		efa_tx_put(tx);
		return -FI_EINVAL;
	}
	return efa_tx_start(tx);
}

/* Is a message of @len bytes an eager packet with a connid that has room there, with nothing in its way? */
static inline bool takes_own(const struct efa_ep *ep, const struct efa_peer *peer, size_t len, uint64_t flags)
{
	return len <= OWN_MAX && !(flags & OWN_NOT) &&
	       (peer->flags & (EFA_PEER_HS_RCVD | EFA_PEER_RNR)) == EFA_PEER_HS_RCVD &&
	       (peer->extra & (EFA_X_CONNID_HDR | EFA_X_CONSTANT_HDR_LEN)) == EFA_X_CONNID_HDR &&
	       STAILQ_EMPTY(&peer->parked) && !peer->unstarted && !ep->has_other_start && len <= inject_max(ep, flags) &&
	       len <= msg_max(ep, flags);
}

/*
 * The failure of a message that was described by a structure names its context even if its success says nothing: such a
 * one is remembered. Of other calls without a completion the endpoint's event tells.
 */
static inline bool may_forget(const struct efa_ep *ep, uint64_t flags)
{
	return flags & EFA_NO_CQE || kit_tx_wants_cqe(&ep->kit, flags);
}

static inline bool completes_early(const struct efa_peer *peer, uint64_t flags)
{
	const struct kit_cq *cq = peer->ep->kit.tx_cq;

	return !(flags & EARLY_NOT) && cq->tail - cq->head < EARLY_MAX && efanic_dst_is_local(peer->dst);
}

/* A transfer for a packet in the adapter's memory. Return: the id of its work request; 0: too many are under way. */
static __attribute__((noinline)) uint64_t remember(struct efa_peer *peer, size_t len, uint64_t tag, void *context,
						   uint64_t flags)
{
	struct efa_tx *tx = make_tx(peer, len, tag, context, flags);

	return likely(tx != NULL) ? efa_tx_owned(tx) : 0;
}

/* There is no room for the packet after all. */
static __attribute__((cold, noinline)) ssize_t forget(uint64_t wr_id)
{
	if (wr_id)
		efa_tx_put(efa_tx_of_wr(wr_id));
	return -FI_EAGAIN;
}

/* Header and bytes into the adapter's memory. */
static __attribute__((noinline)) ssize_t send_owned(struct efa_peer *peer, const void *buf, size_t len, uint64_t tag,
						    void *context, uint64_t flags)
{
	struct efa_ep *ep = peer->ep;
	struct efanic_qp *qp = ep->qp;
	bool tagged = flags & FI_TAGGED, wants_cqe = !(flags & EFA_NO_CQE) && kit_tx_wants_cqe(&ep->kit, flags);
	bool is_told = ep->kit.cntr[KIT_CNTR_SEND] || (wants_cqe && !completes_early(peer, flags));
	uint32_t pkt_len = (uint32_t)len + (tagged ? EFA_EAGER_HDR_TAG : EFA_EAGER_HDR_MSG);
	uint64_t wr_id = 0;
	uint8_t *pkt;

	if (unlikely(is_told) && !(wr_id = remember(peer, len, tag, context, flags)))
		return -FI_EAGAIN;
	pkt = efanic_begin(qp, peer->dst, pkt_len);
	if (unlikely(!pkt))
		return forget(wr_id);
	/* what may wait has not been sent yet: who wants to know is told when it has */
	if (!(flags & EFA_NO_CQE) && unlikely(efanic_may_wait(qp, pkt)) && !wr_id &&
	    !(wr_id = remember(peer, len, tag, context, flags)))
		return -FI_EAGAIN;
	copy_small(pkt + efa_eager_encode(pkt, tagged, peer->next_msg_id++, tag, ep->self.qkey), buf, len);
	ep->stats.tx_pkts[efa_eager_type(tagged)]++;
	efanic_commit(qp, peer->dst, pkt, pkt_len, wr_id);
	if (wants_cqe && likely(!wr_id))
		kit_cq_push(ep->kit.tx_cq, context, tagged ? TAG : MSG, len, NULL, 0, tag, FI_ADDR_NOTAVAIL);
	return 0;
}

/* The bytes of a vector, @len of them, in one piece. */
static __attribute__((noinline)) const void *gather(uint8_t own[OWN_MAX], const struct iovec *iov, size_t cnt, size_t len)
{
	kit_iov_copy_from(own, len, iov, cnt, 0);
	return own;
}

/* Bytes of a vector. Return: 0; -FI_EINVAL: there is none, or of too many pieces, or the sum of their lengths wraps. */
static __attribute__((noinline)) ssize_t vec_len(const struct iovec *iov, size_t cnt, size_t *len)
{
	if (cnt > 4 || (cnt && !iov))
		return -FI_EINVAL;
	*len = kit_iov_len(iov, cnt);
	return cnt > 1 && *len == SIZE_MAX ? -FI_EINVAL : 0;
}

static inline __attribute__((always_inline)) ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	struct efa_ep *ep = efa_ep_of(fid);
	uint64_t flags = (kit_tx_flags(&ep->kit, s->form, s->flags) & ~(uint64_t)FI_TAGGED) |
			 (s->form == KIT_BY_INJECT ? EFA_NO_CQE : 0) | (s->tagged ? FI_TAGGED : 0);
	struct lock *lock = &ep->domain->kit.lock;
	uint8_t own[OWN_MAX];
	struct efa_peer *peer;
	size_t len = s->len;
	ssize_t ret = efa_ep_state(&ep->kit);

	if (s->is_vec && !ret)
		ret = vec_len(s->iov, s->iov_cnt, &len);
	if (unlikely(ret))
		return ret;
	lock_acquire(lock);
	peer = efa_peer_find(ep, s->to);
	if (unlikely(!peer)) {
		ret = -FI_EINVAL;
	} else if (likely(takes_own(ep, peer, len, flags)) && (!s->is_vec || may_forget(ep, flags))) {
		ret = send_owned(peer, s->is_vec ? gather(own, s->iov, s->iov_cnt, len) : s->buf, len, s->tag, s->context, flags);
	} else {
		/* all of it, in memory here alone */
		const struct kit_send m = {.is_vec = s->is_vec, .buf = s->buf, .len = s->len, .iov = s->iov,
					   .descs = s->descs, .iov_cnt = s->iov_cnt, .desc = s->desc, .tag = s->tag,
					   .data = s->data, .context = s->context};

		ret = send_borrowed(peer, &m, len, flags);
	}
	if (!(flags & FI_MORE)) {
		efanic_doorbell(ep->qp);
		ep->need_doorbell = false;
	}
	lock_release(lock);
	return ret;
}

#include "kit/call_send.inc"

const struct fi_ops_msg efa_msg_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_MSG_RX(efa)};
const struct fi_ops_tagged efa_tagged_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_TAG_RX(efa)};
