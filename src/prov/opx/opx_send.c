// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED: the sends, each a few lines in front of opx_send().
#include "prov/opx/opx.h"

#include "kit/stubs.h"

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

static inline __attribute__((always_inline)) ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	struct opx_ep *ep = opx_ep_of(fid);
	uint64_t flags = kit_tx_flags(&ep->kit, s->form, s->flags);
	struct opx_send about = {.tag = s->tag, .data = s->data, .context = s->context, .flags = flags, .tagged = s->tagged};

	if (s->form == KIT_BY_INJECT)
		about.flags = (flags & ~(uint64_t)FI_DELIVERY_COMPLETE) | OPX_NO_CQE;
	return s->is_vec ? send_iov(ep, s->iov, s->iov_cnt, s->to, about) : send_buf(ep, s->buf, s->len, s->to, about);
}

#include "kit/call_send.inc"

/* A context of a scalable endpoint has half of them. */
const struct fi_ops_msg opx_msg_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_MSG_RX(opx)};
const struct fi_ops_msg opx_msg_tx_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_NO_MSG_RX};
const struct fi_ops_msg opx_msg_rx_ops = {.size = sizeof(struct fi_ops_msg), KIT_NO_MSG_TX, KIT_MSG_RX(opx)};
const struct fi_ops_tagged opx_tagged_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_TAG_RX(opx)};
const struct fi_ops_tagged opx_tagged_tx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_NO_TAGGED_RX};
const struct fi_ops_tagged opx_tagged_rx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_NO_TAGGED_TX, KIT_TAG_RX(opx)};
