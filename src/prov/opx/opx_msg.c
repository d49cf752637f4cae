// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED: the calls themselves, each a few lines in front of opx_send() and kit_srx_recv().
#include "prov/opx/opx.h"

#include "kit/stubs.h"

#define MSG false
#define TAG true

/* --- send ------------------------------------------------------------------------------------------------ */

/*
 * One look at the wire where there was no room: a loop of sends alone makes progress. Source:
 * doc/facts/opx.md#throttle.
 */
static __attribute__((noinline)) int send_again(struct opx_ep *ep, struct opx_peer *peer, const struct opx_send *s)
{
	opx_ep_progress(&ep->kit);
	return opx_send(peer, s);
}

static int send_any(struct opx_ep *ep, fi_addr_t to, const struct opx_send *s)
{
	struct opx_peer *peer = opx_peer_find(ep, to);
	int rc = likely(peer != NULL) ? opx_send(peer, s) : -FI_EINVAL;

	if (unlikely(rc == -FI_EAGAIN))
		rc = send_again(ep, peer, s);
	if (ep->need_doorbell && !(s->flags & FI_MORE)) {
		ep->need_doorbell = false;
		hfi_doorbell(ep->hw);
	}
	return rc;
}

/* @s by value: only here need it be in memory. */
static __attribute__((noinline)) int send_slow(struct opx_ep *ep, const void *buf, fi_addr_t to, struct opx_send s)
{
	struct iovec iov = {(void *)(uintptr_t)buf, s.len};

	s.iov = &iov;
	s.iov_cnt = 1;
	return send_any(ep, to, &s);
}

static int send_check(const struct opx_ep *ep, uint64_t len, uint64_t flags)
{
	if (unlikely(opx_ep_state(ep)))
		return opx_ep_state(ep);
	return unlikely(flags & FI_INJECT && len > ep->kit.inject_size) ? -FI_EINVAL : 0;
}

/* A message that fits a header, to a peer who is near and ready. Return: it has left. */
static inline __attribute__((always_inline)) bool send_quick(struct opx_ep *ep, const void *buf, fi_addr_t to, const struct opx_send *s)
{
	struct opx_peer *peer = likely(to < ep->by_addr_cap) ? ep->by_addr[to] : NULL;

	if (s->len > OPX_INJECT_MAX || (s->flags & (OPX_DONE_FLAGS | FI_MORE | FI_FENCE)) || unlikely(!peer || !peer->flow.is_fast))
		return false;
	if (unlikely(opx_inject(peer, s, buf)))
		return false;
	ep->need_doorbell = false;
	hfi_doorbell(ep->hw);
	return true;
}

/* @s: what is said of the message besides its bytes. */
static inline __attribute__((always_inline)) ssize_t send_buf(struct opx_ep *ep, const void *buf, size_t len, fi_addr_t to, struct opx_send s)
{
	struct lock *lock = &ep->domain->kit.lock;
	int rc = send_check(ep, len, s.flags);

	if (unlikely(rc))
		return rc;
	s.len = len;
	lock_acquire(lock);
	rc = likely(send_quick(ep, buf, to, &s)) ? 0 : send_slow(ep, buf, to, s);
	lock_release(lock);
	return rc;
}

static ssize_t send_iov(struct opx_ep *ep, const struct iovec *iov, size_t cnt, fi_addr_t to, struct opx_send s)
{
	struct lock *lock = &ep->domain->kit.lock;
	int rc;

	if (cnt > OPX_IOV_MAX || (cnt && !iov))
		return -FI_EINVAL;
	s.iov = iov;
	s.iov_cnt = cnt;
	s.len = kit_iov_len(iov, cnt);
	if (s.len == SIZE_MAX)
		return -FI_EINVAL; /* the sum of the lengths wraps */
	rc = send_check(ep, s.len, s.flags);
	if (unlikely(rc))
		return rc;
	lock_acquire(lock);
	rc = send_any(ep, to, &s);
	lock_release(lock);
	return rc;
}

/* The rest of what is said of a message. */
static inline struct opx_send about(bool tagged, uint64_t tag, uint64_t data, void *context, uint64_t flags)
{
	return (struct opx_send){.tag = tag, .data = data, .context = context, .flags = flags, .tagged = tagged};
}

/* sendmsg: the flags of the call replace the endpoint's; without selective completion each call completes. */
static uint64_t msg_flags(const struct opx_ep *ep, uint64_t flags)
{
	return flags | (ep->kit.tx_selective ? 0 : FI_COMPLETION);
}

static uint64_t inject_flags(const struct opx_ep *ep)
{
	return (ep->kit.tx_op_flags & ~(uint64_t)FI_DELIVERY_COMPLETE) | FI_INJECT | OPX_NO_CQE;
}

static ssize_t opx_msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);

	(void)desc;
	return send_buf(ep, buf, len, to, about(MSG, 0, 0, context, ep->kit.tx_op_flags));
}

static ssize_t opx_msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t to, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);

	(void)desc;
	return send_iov(ep, iov, cnt, to, about(MSG, 0, 0, context, ep->kit.tx_op_flags));
}

static ssize_t opx_msg_sendmsg(struct fid_ep *fid, const struct fi_msg *m, uint64_t flags)
{
	struct opx_ep *ep = opx_ep_of(fid);

	return send_iov(ep, m->msg_iov, m->iov_count, m->addr, about(MSG, 0, m->data, m->context, msg_flags(ep, flags)));
}

static ssize_t opx_msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
	struct opx_ep *ep = opx_ep_of(fid);

	return send_buf(ep, buf, len, to, about(MSG, 0, 0, NULL, inject_flags(ep)));
}

static ssize_t opx_msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);

	(void)desc;
	return send_buf(ep, buf, len, to, about(MSG, 0, data, context, ep->kit.tx_op_flags | FI_REMOTE_CQ_DATA));
}

static ssize_t opx_msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to)
{
	struct opx_ep *ep = opx_ep_of(fid);

	return send_buf(ep, buf, len, to, about(MSG, 0, data, NULL, inject_flags(ep) | FI_REMOTE_CQ_DATA));
}

static ssize_t opx_tag_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);

	(void)desc;
	return send_buf(ep, buf, len, to, about(TAG, tag, 0, context, ep->kit.tx_op_flags));
}

static ssize_t opx_tag_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t to, uint64_t tag, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);

	(void)desc;
	return send_iov(ep, iov, cnt, to, about(TAG, tag, 0, context, ep->kit.tx_op_flags));
}

static ssize_t opx_tag_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags)
{
	struct opx_ep *ep = opx_ep_of(fid);

	return send_iov(ep, m->msg_iov, m->iov_count, m->addr, about(TAG, m->tag, m->data, m->context, msg_flags(ep, flags)));
}

static ssize_t opx_tag_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
	struct opx_ep *ep = opx_ep_of(fid);

	return send_buf(ep, buf, len, to, about(TAG, tag, 0, NULL, inject_flags(ep)));
}

static ssize_t opx_tag_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, uint64_t tag,
				void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);

	(void)desc;
	return send_buf(ep, buf, len, to, about(TAG, tag, data, context, ep->kit.tx_op_flags | FI_REMOTE_CQ_DATA));
}

static ssize_t opx_tag_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to, uint64_t tag)
{
	struct opx_ep *ep = opx_ep_of(fid);

	return send_buf(ep, buf, len, to, about(TAG, tag, data, NULL, inject_flags(ep) | FI_REMOTE_CQ_DATA));
}

/* --- receive ------------------------------------------------------------------------------------------------ */

/* A receive that took an unexpected message may have answered its sender. */
static inline void answer_ready(struct opx_ep *ep)
{
	if (likely(!ep->need_doorbell))
		return;
	ep->need_doorbell = false;
	hfi_doorbell(ep->hw);
}

/* Receives name their source by what a packet says of it. False: no such address. */
static inline bool source_resolve(struct opx_ep *ep, struct kit_recv_args *a)
{
	/* a claim names its message by context */
	if (likely(!ep->srx.directed || a->src == FI_ADDR_UNSPEC || (a->flags & (FI_PEEK | FI_CLAIM)) == FI_CLAIM)) {
		a->src = FI_ADDR_UNSPEC;
		return true;
	}
	a->src = opx_peer_uid(ep, a->src);
	return a->src != 0;
}

static ssize_t recv_args(struct opx_ep *ep, bool tagged, struct kit_recv_args *a)
{
	struct lock *lock = &ep->domain->kit.lock;
	ssize_t ret;

	if (unlikely(opx_ep_state(ep)))
		return opx_ep_state(ep);
	lock_acquire(lock);
	ret = source_resolve(ep, a) ? kit_srx_recv(&ep->srx, tagged, a) : -FI_EINVAL;
	answer_ready(ep);
	lock_release(lock);
	return ret;
}

static inline __attribute__((always_inline)) ssize_t recv_buf(struct opx_ep *ep, bool tagged, void *buf, size_t len, struct kit_recv_args *a)
{
	struct lock *lock = &ep->domain->kit.lock;
	ssize_t ret;

	if (unlikely(opx_ep_state(ep)))
		return opx_ep_state(ep);
	lock_acquire(lock);
	ret = likely(source_resolve(ep, a)) ? kit_srx_recv_buf(&ep->srx, tagged, buf, len, NULL, a) : -FI_EINVAL;
	answer_ready(ep);
	lock_release(lock);
	return ret;
}

static uint64_t rx_msg_flags(const struct opx_ep *ep, uint64_t flags)
{
	return flags | (ep->kit.rx_selective ? 0 : FI_COMPLETION);
}

static ssize_t opx_msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = {.src = src, .context = context, .flags = ep->kit.rx_op_flags};

	(void)desc;
	return recv_buf(ep, MSG, buf, len, &a);
}

static ssize_t opx_msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t src, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = {.iov = iov, .desc = desc, .iov_cnt = cnt, .src = src, .context = context, .flags = ep->kit.rx_op_flags};

	return recv_args(ep, MSG, &a);
}

static ssize_t opx_msg_recvmsg(struct fid_ep *fid, const struct fi_msg *m, uint64_t flags)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = {.iov = m->msg_iov, .desc = m->desc, .iov_cnt = m->iov_count, .src = m->addr, .context = m->context,
				  .flags = rx_msg_flags(ep, flags)};

	return recv_args(ep, MSG, &a);
}

static ssize_t opx_tag_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = {.src = src, .tag = tag, .ignore = ignore, .context = context,
				  .flags = ep->kit.rx_op_flags & ~(uint64_t)FI_MULTI_RECV};

	(void)desc;
	return recv_buf(ep, TAG, buf, len, &a);
}

static ssize_t opx_tag_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t src, uint64_t tag,
			     uint64_t ignore, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = {.iov = iov, .desc = desc, .iov_cnt = cnt, .src = src, .tag = tag, .ignore = ignore, .context = context,
				  .flags = ep->kit.rx_op_flags & ~(uint64_t)FI_MULTI_RECV};

	return recv_args(ep, TAG, &a);
}

static ssize_t opx_tag_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = {.iov = m->msg_iov, .desc = m->desc, .iov_cnt = m->iov_count, .src = m->addr, .tag = m->tag,
				  .ignore = m->ignore, .context = m->context, .flags = rx_msg_flags(ep, flags)};

	return recv_args(ep, TAG, &a);
}

/* A context of a scalable endpoint has half of them. */
#define MSG_TX                                                                                                                   \
	.send = opx_msg_send, .sendv = opx_msg_sendv, .sendmsg = opx_msg_sendmsg, .inject = opx_msg_inject,                      \
	.senddata = opx_msg_senddata, .injectdata = opx_msg_injectdata
#define MSG_RX .recv = opx_msg_recv, .recvv = opx_msg_recvv, .recvmsg = opx_msg_recvmsg
const struct fi_ops_msg opx_msg_ops = {.size = sizeof(struct fi_ops_msg), MSG_TX, MSG_RX};
const struct fi_ops_msg opx_msg_tx_ops = {.size = sizeof(struct fi_ops_msg), MSG_TX, KIT_NO_MSG_RX};
const struct fi_ops_msg opx_msg_rx_ops = {.size = sizeof(struct fi_ops_msg), KIT_NO_MSG_TX, MSG_RX};

#define TAG_TX                                                                                                                   \
	.send = opx_tag_send, .sendv = opx_tag_sendv, .sendmsg = opx_tag_sendmsg, .inject = opx_tag_inject,                      \
	.senddata = opx_tag_senddata, .injectdata = opx_tag_injectdata
#define TAG_RX .recv = opx_tag_recv, .recvv = opx_tag_recvv, .recvmsg = opx_tag_recvmsg
const struct fi_ops_tagged opx_tagged_ops = {.size = sizeof(struct fi_ops_tagged), TAG_TX, TAG_RX};
const struct fi_ops_tagged opx_tagged_tx_ops = {.size = sizeof(struct fi_ops_tagged), TAG_TX, KIT_NO_TAGGED_RX};
const struct fi_ops_tagged opx_tagged_rx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_NO_TAGGED_TX, TAG_RX};
