// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED: the receives, each a few lines in front of kit_srx_recv().
#include "prov/opx/opx.h"

/* A receive that took an unexpected message may have answered its sender. */
static inline void answer_ready(struct opx_ep *ep)
{
	if (likely(!ep->need_doorbell))
		return;
	ep->need_doorbell = false;
	hfi_doorbell(ep->hw);
}

static inline bool needs_source(const struct opx_ep *ep, const struct kit_recv_args *a)
{
	return unlikely(ep->srx.directed) && a->src != FI_ADDR_UNSPEC;
}

/* Receives name their source by what a packet says of it. False: no such address. */
static inline bool source_resolve(struct opx_ep *ep, struct kit_recv_args *a)
{
	/* a claim names its message by context */
	if (likely(!needs_source(ep, a) || (a->flags & (FI_PEEK | FI_CLAIM)) == FI_CLAIM)) {
		a->src = FI_ADDR_UNSPEC;
		return true;
	}
	a->src = opx_peer_uid(ep, a->src);
	return a->src != 0;
}

/* The end of a receive that was not just posted. Gives back the lock. */
static __attribute__((noinline)) ssize_t recv_locked(struct opx_ep *ep, bool tagged, struct kit_recv_args *a)
{
	ssize_t ret = source_resolve(ep, a) ? kit_srx_recv(&ep->srx, tagged, a) : -FI_EINVAL;

	answer_ready(ep);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static __attribute__((noinline)) ssize_t recv_args(struct opx_ep *ep, bool tagged, struct kit_recv_args *a)
{
	if (unlikely(opx_ep_state(ep)))
		return opx_ep_state(ep);
	lock_acquire(&ep->domain->kit.lock);
	return recv_locked(ep, tagged, a);
}

/*
 * A receive of one buffer for which more is to be done than to post it; @is_locked: that was found out under the lock.
 * Its arguments are put into memory here, and not where most receives pass.
 */
static inline __attribute__((always_inline)) ssize_t recv_rest(struct opx_ep *ep, bool tagged, void *buf, size_t len,
							       const struct kit_recv_args *a, bool is_locked)
{
	struct iovec iov = {buf, len};
	struct kit_recv_args any = *a;

	any.iov = &iov;
	any.iov_cnt = 1;
	return is_locked ? recv_locked(ep, tagged, &any) : recv_args(ep, tagged, &any);
}

/* Of a receive of anybody's message, or of that of a peer which is known: kit_srx_post(). */
static inline __attribute__((always_inline)) bool recv_post(struct opx_ep *ep, bool tagged, void *buf, size_t len,
							    const struct kit_recv_args *a)
{
	uint64_t src = MT_ANY_SRC;

	if (needs_source(ep, a)) {
		const struct opx_peer *peer = opx_peer_known(ep, a->src);

		if (unlikely(!peer))
			return false;
		src = peer->uid;
	}
	return kit_srx_post(&ep->srx, tagged, buf, len, NULL, src, a);
}

static inline __attribute__((always_inline)) ssize_t recv_buf(struct opx_ep *ep, bool tagged, void *buf, size_t len,
							      const struct kit_recv_args *a)
{
	struct lock *lock = &ep->domain->kit.lock;

	if (unlikely(!*ep->may_go || !lock_try(lock)))
		return recv_rest(ep, tagged, buf, len, a, false);
	if (unlikely(!recv_post(ep, tagged, buf, len, a)))
		return recv_rest(ep, tagged, buf, len, a, true);
	lock_release(lock);
	return 0;
}

static inline __attribute__((always_inline)) ssize_t do_recv(struct fid_ep *fid, const struct kit_recv *r)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = kit_recv_args_of(&ep->kit, r);

	return r->is_vec ? recv_args(ep, r->tagged, &a) : recv_buf(ep, r->tagged, r->buf, r->len, &a);
}

#define RECV_CALL(name_) ssize_t opx_##name_
#include "kit/call_recv.inc"
