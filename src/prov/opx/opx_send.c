// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED: the sends, all of them one function in front of opx_send().
#include "prov/opx/opx.h"

#include "kit/stubs.h"

/* What is said of each call: @s, whose bytes are summed up here, to @to. */
static __attribute__((noinline)) ssize_t send_msg(struct opx_ep *ep, struct opx_send *s, fi_addr_t to)
{
	struct lock *lock = &ep->domain->kit.lock;
	struct opx_peer *peer;
	bool is_again = false;
	int rc = opx_ep_state(ep);

	if (unlikely(rc))
		return rc;
	if (unlikely(s->flags & FI_INJECT && s->len > ep->kit.inject_size))
		return -FI_EINVAL;
	lock_acquire(lock);
	peer = opx_peer_find(ep, to);
	while (unlikely((rc = likely(peer != NULL) ? opx_send(peer, s) : -FI_EINVAL) == -FI_EAGAIN) && !is_again) {
		/* one look at the wire where there was no room: a loop of sends alone makes progress (doc/facts/opx.md#throttle) */
		opx_ep_progress(&ep->kit);
		is_again = true;
	}
	if (ep->need_doorbell && !(s->flags & FI_MORE)) {
		ep->need_doorbell = false;
		hfi_doorbell(ep->hw);
	}
	lock_release(lock);
	return rc;
}

static inline __attribute__((always_inline)) ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct iovec one = {(void *)(uintptr_t)s->buf, s->len};
	struct opx_send about = {.iov = s->is_vec ? s->iov : &one,
				 .iov_cnt = s->is_vec ? s->iov_cnt : 1,
				 .len = s->len,
				 .tag = s->tag,
				 .data = s->data,
				 .context = s->context,
				 .flags = kit_tx_flags(&ep->kit, s->form, s->flags),
				 .tagged = s->tagged};

	if (s->form == KIT_BY_INJECT)
		about.flags = (about.flags & ~(uint64_t)FI_DELIVERY_COMPLETE) | OPX_NO_CQE;
	if (s->is_vec) {
		if (s->iov_cnt > OPX_IOV_MAX || (s->iov_cnt && !s->iov))
			return -FI_EINVAL;
		about.len = kit_iov_len(s->iov, s->iov_cnt);
		if (about.len == SIZE_MAX)
			return -FI_EINVAL; /* the sum of the lengths wraps */
	}
	return send_msg(ep, &about, s->to);
}

#include "kit/call_send.inc"

/* A context of a scalable endpoint has half of them. */
const struct fi_ops_msg opx_msg_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_MSG_RX(opx)};
const struct fi_ops_msg opx_msg_tx_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_NO_MSG_RX};
const struct fi_ops_msg opx_msg_rx_ops = {.size = sizeof(struct fi_ops_msg), KIT_NO_MSG_TX, KIT_MSG_RX(opx)};
const struct fi_ops_tagged opx_tagged_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_TAG_RX(opx)};
const struct fi_ops_tagged opx_tagged_tx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_NO_TAGGED_RX};
const struct fi_ops_tagged opx_tagged_rx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_NO_TAGGED_TX, KIT_TAG_RX(opx)};
