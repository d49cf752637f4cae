// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED of the RDM endpoint: how a send is checked, and whether anything of it is to be remembered.
#include "prov/efa/efa.h"

#define MSG (FI_SEND | FI_MSG)
#define TAG (FI_SEND | FI_TAGGED)

/*
 * An eager packet that the adapter's own memory has room for is written there at once, and where nobody waits for its
 * end no transfer is made of it: only a failure is heard of again (pkt_again() in efa_pkt.c). All else goes out of the
 * caller's memory. In the flags of a call FI_TAGGED says which kind it is.
 */
#define OWN_NOT (FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE) /* flags that need another header */

#define PLAIN_LIM (EFA_OWN_MAX + 1)

/* A call, besides what nearly every message consists of: that stays in registers. */
struct call {
	uint64_t flags;  /* FI_TAGGED, EFA_NO_CQE and those of the call; */
	uint64_t mask;   /* and of the endpoint's these */
	size_t plain_lim; /* a shorter message is neither a vector nor long */
	bool tagged, is_vec;
	struct kit_cq *plain_cq; /* kit_ep.tx_plain of a call that says nothing more, and is no inject; or NULL */
	bool is_quiet; /* the same of an inject, by kit_ep.tx_quiet */
	void *context;
	uint64_t data;
	void *desc;                       /* of the buffer; or */
	const struct iovec *iov;          /* is_vec: @iov_cnt pieces, with @descs or NULL */
	void *const *descs;
	size_t iov_cnt;
};

/*
 * On this host a message that lies in the peer's lane has been sent, so it completes at once, as it does where efa
 * hands local peers to the shm provider. Not if the caller asked for more than that, or has not read the last ones: the
 * queue must not grow by posting.
 */
#define EARLY_NOT (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE)

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
static __attribute__((noinline)) ssize_t send_borrowed(struct efa_peer *peer, const void *bytes, size_t len,
						       uint64_t tag, const struct call *c, uint64_t flags)
{
	struct iovec buf = {(void *)(uintptr_t)bytes, len};
	const struct iovec *iov = c->is_vec ? c->iov : &buf;
	size_t cnt = c->is_vec ? c->iov_cnt : 1;
	void *const *descs = c->is_vec ? c->descs : &c->desc;
	struct efa_ep *ep = peer->ep;
	const struct kit_cq *cq = ep->kit.tx_cq;
	struct efa_tx *tx;
	ssize_t ret;

	len -= MIN(len, (size_t)ep->msg_prefix);
	if (unlikely(len > msg_max(ep, flags) ||
		     (flags & FI_INJECT && len > inject_max(ep, flags))))
		return -FI_EMSGSIZE;
	tx = make_tx(peer, len, tag, c->context, flags);
	if (unlikely(!tx))
		return -FI_EAGAIN;
	tx->has_data = flags & FI_REMOTE_CQ_DATA;
	tx->data = c->data;
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
	ret = efa_tx_start(tx);
	/* the receiver of a long one reads it from us: a row of them must not leave the first unanswered */
	if (!ret && len >= EFA_LOCAL_MIN_READ && efanic_dst_shares_memory(peer->dst) && !(cq && kit_cq_is_behind(cq)))
		efa_ep_progress(&ep->kit);
	return ret;
}

/*
 * The failure of a message that was described by a structure names its context even if its success says nothing: such a
 * one is remembered. Of other calls without a completion the endpoint's event tells.
 */
static inline bool may_forget(const struct efa_ep *ep, uint64_t flags)
{
	return flags & EFA_NO_CQE || kit_tx_wants_cqe(&ep->kit, flags);
}

static inline bool completes_early(const struct efa_peer *peer, const struct kit_cq *cq, uint64_t flags)
{
	return !(flags & EARLY_NOT) && !kit_cq_is_behind(cq) && efanic_dst_is_local(peer->dst);
}

/* A transfer for a packet in the adapter's memory. Return: the id of its work request; 0: too many are under way. */
static __attribute__((noinline)) uint64_t remember(struct efa_peer *peer, size_t len, uint64_t tag, void *context,
						   uint64_t flags)
{
	struct efa_tx *tx = make_tx(peer, len, tag, context, flags);

	return likely(tx != NULL) ? efa_tx_owned(tx) : 0;
}

/* Neither is an errno. NOT_SIMPLE: it has to be remembered, or to wait, or has many bytes. */
#define NOT_OWNED  1
#define NOT_SIMPLE 2

struct message {
	const void *buf;
	size_t len;
	uint64_t tag;
};

/* There is no room for the packet after all. */
static __attribute__((cold, noinline)) ssize_t forget(uint64_t wr_id, size_t len)
{
	if (wr_id)
		efa_tx_put(efa_tx_of_wr(wr_id));
	return len > EFA_OWN_MAX ? NOT_OWNED : -FI_EAGAIN;
}

/*
 * What the adapter's descriptors have no room for can lie in its memory only on one host, where nobody has to hear of
 * its end, and where its key, which nobody asks for then, would have been good.
 */
static bool may_own(const struct efa_ep *ep, const void *buf, size_t len, const struct call *c, uint64_t flags,
		    bool is_told)
{
	if (c->is_vec)
		return len <= EFA_OWN_MAX && may_forget(ep, flags);
	return len <= EFA_OWN_MAX || (!is_told && efa_desc_covers(c->desc, buf, len));
}

static inline bool wants_entry(const struct efa_ep *ep, const struct call *c, uint64_t flags)
{
	return c->plain_cq || (!(flags & EFA_NO_CQE) && kit_tx_wants_cqe(&ep->kit, flags));
}

static inline struct kit_cq *entry_cq(const struct efa_ep *ep, const struct call *c)
{
	return c->plain_cq ? c->plain_cq : ep->kit.tx_cq;
}

/* Does somebody wait for its end? */
static inline bool is_told_of(const struct efa_ep *ep, const struct efa_peer *peer, const struct call *c,
			      uint64_t flags)
{
	return (!c->plain_cq && !c->is_quiet && ep->kit.cntr[KIT_CNTR_SEND]) ||
	       (wants_entry(ep, c, flags) && !completes_early(peer, entry_cq(ep, c), flags));
}

/*
 * Header and bytes into the adapter's memory. NOT_OWNED: it has to be sent out of the caller's. @is_simple: it is
 * neither a vector nor long, and nobody waits for its end; NOT_SIMPLE: but it would have to wait.
 */
static inline __attribute__((always_inline)) ssize_t send_owned(struct efa_ep *ep, struct efa_peer *peer,
								struct message m, const struct call *c,
								uint64_t flags, bool tagged, bool is_simple)
{
	uint64_t tag = m.tag;
	size_t len = m.len;
	bool is_told = !is_simple && is_told_of(ep, peer, c, flags);
	uint32_t hdr_len = efa_eager_hdr_len(tagged), pkt_len = (uint32_t)len + hdr_len;
	struct efanic_dst *dst = peer->dst;
	struct efanic_qp *qp = ep->qp;
	uint64_t wr_id = 0;
	uint8_t *pkt;

	if (!is_simple && !may_own(ep, m.buf, len, c, flags, is_told))
		return NOT_OWNED;
	if (unlikely(is_told) && !(wr_id = remember(peer, len, tag, c->context, flags)))
		return -FI_EAGAIN;
	pkt = efanic_begin(qp, dst, pkt_len, !is_simple);
	if (unlikely(!pkt))
		return is_simple ? NOT_SIMPLE : forget(wr_id, len);
	/* what may wait has not been sent yet: who wants to know is told when it has */
	if (!is_simple && !(flags & EFA_NO_CQE) && unlikely(efanic_may_wait(qp, pkt)) && !wr_id &&
	    !(wr_id = remember(peer, len, tag, c->context, flags)))
		return -FI_EAGAIN;
	efa_eager_encode(pkt, tagged, peer->next_msg_id++, tag, ep->self.qkey);
	if (!is_simple && c->is_vec)
		kit_iov_copy_from(pkt + hdr_len, len, c->iov, c->iov_cnt, 0);
	else
		copy_private(pkt + hdr_len, m.buf, len);
	ep->stats.tx_pkts[efa_eager_type(tagged)]++;
	efanic_commit(qp, dst, pkt, pkt_len, wr_id, !is_simple);
	if (wants_entry(ep, c, flags) && likely(!wr_id))
		kit_cq_push(entry_cq(ep, c), c->context, tagged ? TAG : MSG, len, NULL, 0, tag, FI_ADDR_NOTAVAIL);
	return 0;
}

static __attribute__((noinline)) ssize_t send_other(struct efa_ep *ep, struct efa_peer *peer, const void *buf,
						    size_t len, uint64_t tag, const struct call *c, uint64_t flags)
{
	return send_owned(ep, peer, (struct message){buf, len, tag}, c, flags, c->tagged, false);
}

/* These two have the call in memory, and not where most messages pass: by its parts, so that it is nowhere else. */
#define CALL_COPY(c_) \
	{.flags = (c_)->flags, .mask = (c_)->mask, .plain_lim = (c_)->plain_lim, .tagged = (c_)->tagged, \
	 .is_quiet = (c_)->is_quiet, \
	 .is_vec = (c_)->is_vec, .plain_cq = (c_)->plain_cq, .context = (c_)->context, .data = (c_)->data, \
	 .desc = (c_)->desc, .iov = (c_)->iov, .descs = (c_)->descs, .iov_cnt = (c_)->iov_cnt}

static inline __attribute__((always_inline)) ssize_t other(struct efa_ep *ep, struct efa_peer *peer, const void *buf,
							   size_t len, uint64_t tag, const struct call *c,
							   uint64_t flags)
{
	struct call here = CALL_COPY(c);

	return send_other(ep, peer, buf, len, tag, &here, flags);
}

static inline __attribute__((always_inline)) ssize_t borrowed(struct efa_peer *peer, const void *buf, size_t len,
							      uint64_t tag, const struct call *c, uint64_t flags)
{
	struct call here = CALL_COPY(c);

	return send_borrowed(peer, buf, len, tag, &here, flags);
}

/* Bytes of a vector. Return: 0; -FI_EINVAL: there is none, or of too many pieces, or the sum of their lengths wraps. */
static __attribute__((noinline)) ssize_t vec_len(const struct iovec *iov, size_t cnt, size_t *len)
{
	if (cnt > 4 || (cnt && !iov))
		return -FI_EINVAL;
	*len = kit_iov_len(iov, cnt);
	return cnt > 1 && *len == SIZE_MAX ? -FI_EINVAL : 0;
}

/* What all calls come to. The checks that depend on the peer alone are one, of its own_lim. */
static inline __attribute__((always_inline)) ssize_t send_one(struct fid_ep *fid, const void *buf, size_t len,
							      fi_addr_t to, uint64_t tag, const struct call *c,
							      bool tagged)
{
	struct efa_ep *ep = efa_ep_of(fid);
	uint64_t flags = (ep->kit.tx_op_flags & c->mask) | c->flags;
	struct lock *lock = &ep->domain->kit.lock;
	ssize_t ret = likely(*ep->live) ? 0 : efa_ep_state(&ep->kit);
	struct efa_peer *peer;

	if (unlikely(ret))
		return ret;
	ret = NOT_OWNED;
	lock_acquire(lock);
	peer = efa_peer_find(ep, to);
	assert(!peer || efa_peer_gates_hold(peer));
	if (unlikely(!peer))
		ret = -FI_EINVAL;
	else if (likely(len < peer->own_lim[tagged] && !(flags & OWN_NOT)))
		ret = likely(len < c->plain_lim && !is_told_of(ep, peer, c, flags))
			      ? send_owned(ep, peer, (struct message){buf, len, tag}, c, flags, tagged, true)
			      : NOT_SIMPLE;
	if (unlikely(ret == NOT_SIMPLE))
		ret = other(ep, peer, buf, len, tag, c, flags);
	if (unlikely(ret == NOT_OWNED))
		ret = borrowed(peer, buf, len, tag, c, flags);
	if (!(flags & FI_MORE))
		efanic_doorbell(ep->qp);
	lock_release(lock);
	return ret;
}

/* Most of what nobody hears the end of says nothing more, and then half of the questions are answered here. */
static __attribute__((noinline)) ssize_t inject_msg(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
	static const struct call c = {.flags = FI_INJECT | EFA_NO_CQE, .mask = ~(uint64_t)FI_TAGGED,
				      .plain_lim = PLAIN_LIM};

	return send_one(fid, buf, len, to, 0, &c, false);
}

static __attribute__((noinline)) ssize_t inject_tagged(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to,
						       uint64_t tag)
{
	static const struct call c = {.flags = FI_INJECT | EFA_NO_CQE | FI_TAGGED, .mask = ~(uint64_t)FI_TAGGED,
				      .plain_lim = PLAIN_LIM, .tagged = true};

	return send_one(fid, buf, len, to, tag, &c, true);
}

static __attribute__((noinline)) ssize_t send_msg(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to,
						  uint64_t tag, const struct call *c)
{
	return send_one(fid, buf, len, to, tag, c, false);
}

static __attribute__((noinline)) ssize_t send_tagged(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to,
						     uint64_t tag, const struct call *c)
{
	return send_one(fid, buf, len, to, tag, c, true);
}

static inline __attribute__((always_inline)) ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	uint64_t own = s->tagged ? FI_TAGGED : 0, mask = s->form == KIT_BY_MSG ? 0 : ~(uint64_t)FI_TAGGED;
	size_t len = s->len;
	struct call c;

	if (s->form == KIT_BY_INJECT && !(s->flags & FI_REMOTE_CQ_DATA)) {
		const struct call quiet = {.flags = own | FI_INJECT | EFA_NO_CQE, .plain_lim = PLAIN_LIM,
					   .tagged = s->tagged, .is_quiet = true};

		if (likely(efa_ep_of(fid)->kit.tx_quiet))
			return send_one(fid, s->buf, len, s->to, s->tag, &quiet, s->tagged);
		return s->tagged ? inject_tagged(fid, s->buf, len, s->to, s->tag) : inject_msg(fid, s->buf, len, s->to);
	}
	if (s->form == KIT_BY_ARGS && !s->is_vec && !(s->flags & FI_REMOTE_CQ_DATA)) {
		struct kit_cq *cq = efa_ep_of(fid)->kit.tx_plain;

		if (likely(cq != NULL)) {
			const struct call plain = {.flags = own | FI_COMPLETION, .plain_lim = PLAIN_LIM,
						   .tagged = s->tagged, .plain_cq = cq, .context = s->context,
						   .desc = s->desc};

			return send_one(fid, s->buf, len, s->to, s->tag, &plain, s->tagged);
		}
	}
	if (s->is_vec) {
		ssize_t ret = efa_ep_state(&efa_ep_of(fid)->kit);

		ret = ret ? ret : vec_len(s->iov, s->iov_cnt, &len);
		if (ret)
			return ret;
	}
	c.flags = own | (s->form == KIT_BY_INJECT ? EFA_NO_CQE : 0) |
		  (mask ? s->flags : kit_tx_flags(&efa_ep_of(fid)->kit, s->form, s->flags) & ~(uint64_t)FI_TAGGED);
	c.mask = mask;
	c.plain_lim = s->is_vec ? 0 : PLAIN_LIM;
	c.tagged = s->tagged;
	c.is_vec = s->is_vec;
	c.plain_cq = NULL;
	c.is_quiet = false;
	c.context = s->context;
	c.data = s->data;
	if (s->is_vec) {
		c.iov = s->iov;
		c.descs = s->descs;
		c.iov_cnt = s->iov_cnt;
	} else {
		c.desc = s->desc;
	}
	return s->tagged ? send_tagged(fid, s->buf, len, s->to, s->tag, &c)
			 : send_msg(fid, s->buf, len, s->to, s->tag, &c);
}

#include "kit/call_send.inc"

const struct fi_ops_msg efa_msg_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_MSG_RX(efa)};
const struct fi_ops_tagged efa_tagged_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_TAG_RX(efa)};
