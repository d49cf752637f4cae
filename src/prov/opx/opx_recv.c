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

static inline __attribute__((always_inline)) ssize_t recv_buf(struct opx_ep *ep, bool tagged, void *buf, size_t len,
							      struct kit_recv_args *a)
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

static inline __attribute__((always_inline)) ssize_t do_recv(struct fid_ep *fid, const struct kit_recv *r)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct kit_recv_args a = kit_recv_args_of(&ep->kit, r);

	return r->is_vec ? recv_args(ep, r->tagged, &a) : recv_buf(ep, r->tagged, r->buf, r->len, &a);
}

#define RECV_CALL(name_) ssize_t opx_##name_
#include "kit/call_recv.inc"
