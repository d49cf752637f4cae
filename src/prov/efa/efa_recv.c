// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED of the RDM endpoint: the receives, each a few lines in front of kit_srx_recv().
#include "prov/efa/efa.h"

/* A receive that took an unexpected message may have answered its sender. */
static inline void answer_ready(struct efa_ep *ep)
{
	if (likely(!ep->need_doorbell))
		return;
	efanic_doorbell(ep->qp);
	ep->need_doorbell = false;
}

/* The end of a receive that was not just posted. Gives back the lock. */
static __attribute__((noinline)) ssize_t recv_locked(struct efa_ep *ep, bool tagged, const struct kit_recv_args *a)
{
	ssize_t ret = unlikely(ep->zcpy_rx && !tagged) ? efa_zcpy_recv(ep, a) : kit_srx_recv(&ep->srx, tagged, a);

	answer_ready(ep);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static __attribute__((noinline)) ssize_t recv_args(struct efa_ep *ep, bool tagged, struct kit_recv_args *a)
{
	struct iovec iov[KIT_RX_IOV_MAX];

	if (unlikely(efa_ep_state(&ep->kit)))
		return efa_ep_state(&ep->kit);
	if (unlikely(ep->msg_prefix) && a->iov_cnt) {
		if (a->iov_cnt > KIT_RX_IOV_MAX || !a->iov)
			return -FI_EINVAL;
		for (size_t i = 0; i < a->iov_cnt; i++)
			iov[i] = a->iov[i];
		if (!efa_skip_prefix(ep, iov, a->iov_cnt))
			return -FI_EINVAL;
		a->iov = iov;
	}
	lock_acquire(&ep->domain->kit.lock);
	return recv_locked(ep, tagged, a);
}

/*
 * A receive of one buffer for which more is to be done than to post it; @is_locked: that was found out under the lock.
 * Its arguments are put into memory here, and not where most receives pass.
 */
static inline __attribute__((always_inline)) ssize_t recv_rest(struct efa_ep *ep, bool tagged, void *buf, size_t len,
							       void *desc, const struct kit_recv_args *a,
							       bool is_locked)
{
	struct iovec iov = {buf, len};
	struct kit_recv_args any = *a;

	any.iov = &iov;
	any.desc = &desc;
	any.iov_cnt = 1;
	return is_locked ? recv_locked(ep, tagged, &any) : recv_args(ep, tagged, &any);
}

/* What fi_recv and fi_trecv come to. */
static inline __attribute__((always_inline)) ssize_t recv_buf(struct efa_ep *ep, bool tagged, void *buf, size_t len,
							      void *desc, const struct kit_recv_args *a)
{
	struct lock *lock = &ep->domain->kit.lock;

	if (unlikely(!*ep->live || !lock_try(lock)))
		return recv_rest(ep, tagged, buf, len, desc, a, false);
	if (unlikely(!kit_srx_post(&ep->srx, tagged, buf, len, desc, kit_wanted_src(&ep->srx, a), a)))
		return recv_rest(ep, tagged, buf, len, desc, a, true);
	lock_release(lock);
	return 0;
}

static inline __attribute__((always_inline)) ssize_t do_recv(struct fid_ep *fid, const struct kit_recv *r)
{
	struct efa_ep *ep = efa_ep_of(fid);
	struct kit_recv_args a = kit_recv_args_of(&ep->kit, r);

	return r->is_vec ? recv_args(ep, r->tagged, &a) : recv_buf(ep, r->tagged, r->buf, r->len, r->desc, &a);
}

#define RECV_CALL(name_) ssize_t efa_##name_
#include "kit/call_recv.inc"
