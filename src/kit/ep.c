// SPDX-License-Identifier: BSD-2-Clause
// Endpoints: what may be bound to them, when, and what must be bound before they are enabled.
#include "kit/kit_int.h"

#include <string.h>

#include "base/log.h"

#define CQ_FLAGS   (FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)
#define CNTR_FLAGS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static const uint64_t cntr_flag[KIT_CNTR_NUM] = {
	[KIT_CNTR_SEND] = FI_SEND,
	[KIT_CNTR_RECV] = FI_RECV,
	[KIT_CNTR_READ] = FI_READ,
	[KIT_CNTR_WRITE] = FI_WRITE,
	[KIT_CNTR_REMOTE_READ] = FI_REMOTE_READ,
	[KIT_CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

int kit_ep_init(struct kit_ep *ep, struct kit_domain *d, const struct fi_info *info,
		int (*progress)(struct kit_ep *), void *context)
{
	if (!info || !info->ep_attr || !info->tx_attr || !info->rx_attr)
		return -FI_EINVAL;
	if (kit_is_forked(d))
		return -FI_EIO;
	ep->info = kit_info_dup(info);
	if (!ep->info)
		return -FI_ENOMEM;
	ep->domain = d;
	ep->av = NULL;
	ep->tx_cq = ep->rx_cq = ep->rx_plain = ep->tx_plain = NULL;
	memset(ep->cntr, 0, sizeof(ep->cntr));
	ep->tx_selective = ep->rx_selective = ep->enabled = ep->closing = ep->binds_late = ep->is_driven = false;
	ep->caps = info->caps;
	ep->tx_op_flags = info->tx_attr->op_flags;
	ep->rx_op_flags = info->rx_attr->op_flags;
	ep->inject_size = info->tx_attr->inject_size;
	ep->progress = progress;
	ep->wait_fd = NULL;
	ep->wait_arm = NULL;
	ep->eq = d->eq;
	if (ep->eq)
		kit_eq_ref(ep->eq);
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	/* Nothing is NULL, whatever the provider leaves out. The stubs are constant: it replaces
	 * pointers, not entries. */
	ep->fid.fid.ops = (struct fi_ops *)&kit_no_fi_ops;
	ep->fid.ops = (struct fi_ops_ep *)&kit_no_ep_ops;
	ep->fid.cm = (struct fi_ops_cm *)&kit_no_cm_ops;
	ep->fid.msg = (struct fi_ops_msg *)&kit_no_msg_ops;
	ep->fid.rma = (struct fi_ops_rma *)&kit_no_rma_ops;
	ep->fid.tagged = (struct fi_ops_tagged *)&kit_no_tagged_ops;
	ep->fid.atomic = (struct fi_ops_atomic *)&kit_no_atomic_ops;
	ep->fid.collective = (struct fi_ops_collective *)&kit_no_collective_ops;
	kit_ref(&d->refs);
	return 0;
}

/* What else of @ep is bound to it keeps it in the list. */
static bool has_cq(const struct kit_ep *ep, const struct kit_cq *cq)
{
	return ep->tx_cq == cq || ep->rx_cq == cq;
}

static bool has_cntr(const struct kit_ep *ep, const struct kit_cntr *c)
{
	for (int i = 0; i < KIT_CNTR_NUM; i++)
		if (ep->cntr[i] == c)
			return true;
	return false;
}

static void cq_unbind(struct kit_ep *ep, struct kit_cq **slot, bool was_forked)
{
	struct kit_cq *cq = *slot;

	*slot = NULL;
	if (!cq)
		return;
	if (!has_cq(ep, cq)) {
		if (!was_forked)
			kit_wait_watch_ep(cq->wait, cq, ep, false);
		kit_eps_del(cq->eps, &cq->ep_cnt, ep);
	}
	kit_unref(&cq->refs);
}

static void cntr_unbind(struct kit_ep *ep, struct kit_cntr **slot, bool was_forked)
{
	struct kit_cntr *c = *slot;

	*slot = NULL;
	if (!c)
		return;
	if (!has_cntr(ep, c)) {
		if (!was_forked)
			kit_wait_watch_ep(c->wait, c, ep, false);
		kit_eps_del(c->eps, &c->ep_cnt, ep);
	}
	kit_unref(&c->refs);
}

int kit_cntr_drive(struct kit_cntr *c, struct kit_ep *ep, bool on)
{
	int ret;

	if (has_cntr(ep, c))
		return 0;
	ret = on ? kit_eps_add(&c->eps, &c->ep_cnt, &c->ep_cap, ep) : 0;
	ret = ret ? ret : kit_wait_watch_ep(c->wait, c, ep, on);
	if (!on || ret)
		kit_eps_del(c->eps, &c->ep_cnt, ep);
	return ret;
}

#define TX_PLAIN (FI_COMPLETION | FI_INJECT_COMPLETE) /* default flags that ask a send for no more than its entry */

void kit_ep_gate(struct kit_ep *ep)
{
	uint64_t flags = ep->tx_op_flags;
	bool is_quiet = !(flags & ~TX_PLAIN) && !ep->cntr[KIT_CNTR_SEND];

	/* each written once: a send of another thread may look */
	ep->tx_quiet = is_quiet;
	ep->tx_plain = is_quiet && kit_tx_wants_cqe(ep, flags) ? ep->tx_cq : NULL;
	ep->rx_plain = ep->rx_selective || ep->cntr[KIT_CNTR_RECV] ? NULL : ep->rx_cq;
}

static void unbind_locked(struct kit_ep *ep, uint64_t dirs, bool was_forked)
{
	static const uint64_t tx = FI_SEND | FI_READ | FI_WRITE;

	if (dirs & FI_TRANSMIT)
		cq_unbind(ep, &ep->tx_cq, was_forked);
	if (dirs & FI_RECV)
		cq_unbind(ep, &ep->rx_cq, was_forked);
	for (int i = 0; i < KIT_CNTR_NUM; i++)
		if (dirs & (cntr_flag[i] & tx ? FI_TRANSMIT : FI_RECV))
			cntr_unbind(ep, &ep->cntr[i], was_forked);
	kit_ep_gate(ep);
}

void kit_ep_unbind(struct kit_ep *ep, uint64_t dirs)
{
	bool entered = kit_enter(ep->domain);

	unbind_locked(ep, dirs, !entered);
	kit_leave(ep->domain, entered);
}

void kit_ep_fini(struct kit_ep *ep)
{
	struct kit_domain *d = ep->domain;
	bool entered = kit_enter(d);

	unbind_locked(ep, FI_TRANSMIT | FI_RECV, !entered);
	if (ep->av) {
		kit_eps_del(ep->av->eps, &ep->av->ep_cnt, ep);
		kit_unref(&ep->av->refs);
	}
	ep->av = NULL;
	kit_leave(d, entered);
	if (ep->eq) {
		if (entered)
			kit_eq_forget(ep->eq, &ep->fid.fid);
		kit_eq_unref(ep->eq);
	}
	ep->eq = NULL;
	kit_info_free(ep->info);
	ep->info = NULL;
	kit_unref(&d->refs);
}

int kit_ep_watch(struct kit_ep *ep, bool on)
{
	int ret = ep->tx_cq ? kit_wait_watch_ep(ep->tx_cq->wait, ep->tx_cq, ep, on) : 0;

	if (!ret && ep->rx_cq && ep->rx_cq != ep->tx_cq)
		ret = kit_wait_watch_ep(ep->rx_cq->wait, ep->rx_cq, ep, on);
	for (int i = 0; i < KIT_CNTR_NUM && !ret; i++)
		if (ep->cntr[i])
			ret = kit_wait_watch_ep(ep->cntr[i]->wait, ep->cntr[i], ep, on);
	return ret;
}

static int refuse(const struct kit_ep *ep, const char *what, uint64_t flags)
{
	KIT_WARN(ep->domain->prov, FI_LOG_EP_CTRL, "fi_ep_bind: %s (flags %#llx)\n", what,
		 (unsigned long long)flags);
	return -FI_EINVAL;
}

static int bind_cq(struct kit_ep *ep, struct kit_cq *cq, uint64_t flags)
{
	bool selective = flags & FI_SELECTIVE_COMPLETION;
	int ret;

	if (cq->domain != ep->domain)
		return refuse(ep, "the CQ belongs to another domain", flags);
	if ((flags & ~CQ_FLAGS) || !(flags & (FI_TRANSMIT | FI_RECV)))
		return refuse(ep, "a CQ takes FI_TRANSMIT, FI_RECV and FI_SELECTIVE_COMPLETION",
			      flags);
	if (((flags & FI_TRANSMIT) && ep->tx_cq) || ((flags & FI_RECV) && ep->rx_cq))
		return refuse(ep, "there is a CQ for this direction already", flags);
	ret = kit_eps_add(&cq->eps, &cq->ep_cnt, &cq->ep_cap, ep);
	if (ret)
		return ret;
	ret = kit_wait_watch_ep(cq->wait, cq, ep, true);
	if (ret) {
		if (ep->tx_cq != cq && ep->rx_cq != cq)
			kit_eps_del(cq->eps, &cq->ep_cnt, ep);
		return ret;
	}
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = selective;
		kit_ref(&cq->refs);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = selective;
		kit_ref(&cq->refs);
	}
	kit_ep_gate(ep);
	return 0;
}

static int bind_cntr(struct kit_ep *ep, struct kit_cntr *c, uint64_t flags)
{
	bool known = false;
	int ret;

	if (c->domain != ep->domain)
		return refuse(ep, "the counter belongs to another domain", flags);
	if ((flags & ~CNTR_FLAGS) || !flags)
		return refuse(ep,
			      "a counter takes FI_SEND, FI_RECV, FI_READ, FI_WRITE, "
			      "FI_REMOTE_READ and FI_REMOTE_WRITE",
			      flags);
	for (int i = 0; i < KIT_CNTR_NUM; i++) {
		if ((flags & cntr_flag[i]) && ep->cntr[i])
			return refuse(ep, "there is a counter for this already", flags);
		known |= ep->cntr[i] == c;
	}
	ret = kit_eps_add(&c->eps, &c->ep_cnt, &c->ep_cap, ep);
	if (ret)
		return ret;
	ret = kit_wait_watch_ep(c->wait, c, ep, true);
	if (ret) {
		if (!known)
			kit_eps_del(c->eps, &c->ep_cnt, ep);
		return ret;
	}
	for (int i = 0; i < KIT_CNTR_NUM; i++) {
		if (!(flags & cntr_flag[i]))
			continue;
		ep->cntr[i] = c;
		kit_ref(&c->refs);
	}
	kit_ep_gate(ep);
	return 0;
}

static int bind_av(struct kit_ep *ep, struct kit_av *av, uint64_t flags)
{
	int ret;

	if (av->domain != ep->domain)
		return refuse(ep, "the AV belongs to another domain", flags);
	if (flags || ep->av)
		return refuse(ep, flags ? "an AV takes no flags" : "there is an AV already", flags);
	ret = kit_eps_add(&av->eps, &av->ep_cnt, &av->ep_cap, ep);
	if (ret)
		return ret;
	ep->av = av;
	kit_ref(&av->refs);
	return 0;
}

/* An endpoint's own EQ takes the place of its domain's. */
static int bind_eq(struct kit_ep *ep, struct kit_eq *eq, uint64_t flags)
{
	if (kit_eq_fabric(eq) != ep->domain->fabric)
		return refuse(ep, "the EQ belongs to another fabric", flags);
	if (flags || (ep->eq && ep->eq != ep->domain->eq))
		return refuse(ep, flags ? "an EQ takes no flags" : "there is an EQ already", flags);
	if (ep->eq)
		kit_eq_unref(ep->eq);
	ep->eq = eq;
	kit_eq_ref(eq);
	return 0;
}

int kit_ep_bind(struct kit_ep *ep, struct fid *bfid, uint64_t flags)
{
	int ret;

	if (!bfid)
		return -FI_EINVAL;
	if (!kit_enter(ep->domain))
		return -FI_EIO;
	if (ep->enabled && !ep->binds_late && bfid->fclass != FI_CLASS_CNTR &&
	    bfid->fclass != FI_CLASS_EQ) {
		lock_release(&ep->domain->lock);
		return -FI_EOPBADSTATE;
	}
	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		ret = bind_cq(ep, container_of(bfid, struct kit_cq, fid.fid), flags);
		break;
	case FI_CLASS_CNTR:
		ret = bind_cntr(ep, container_of(bfid, struct kit_cntr, fid.fid), flags);
		break;
	case FI_CLASS_AV:
		ret = bind_av(ep, container_of(bfid, struct kit_av, fid.fid), flags);
		break;
	case FI_CLASS_EQ:
		ret = bind_eq(ep, (struct kit_eq *)bfid, flags);
		break;
	default:
		ret = refuse(ep, "an object of this class cannot be bound", flags);
	}
	lock_release(&ep->domain->lock);
	return ret;
}

/* Directions: none given means both. */
static bool caps_allow(uint64_t caps, uint64_t group, uint64_t ours, uint64_t theirs)
{
	return (caps & group) && ((caps & ours) || !(caps & theirs));
}

int kit_ep_enable_check(struct kit_ep *ep)
{
	uint64_t c = ep->caps;
	bool needs_tx = caps_allow(c, FI_MSG | FI_TAGGED, FI_SEND, FI_RECV) ||
			caps_allow(c, FI_RMA | FI_ATOMIC, FI_READ | FI_WRITE,
				   FI_REMOTE_READ | FI_REMOTE_WRITE);
	bool needs_rx = caps_allow(c, FI_MSG | FI_TAGGED, FI_RECV, FI_SEND);

	if (kit_is_forked(ep->domain))
		return -FI_EIO;
	if (!ep->av)
		return -FI_ENOAV;
	return (needs_tx && !ep->tx_cq) || (needs_rx && !ep->rx_cq) ? -FI_ENOCQ : 0;
}

void kit_ep_late_error(struct kit_ep *ep, int err, int prov_errno, const char *what, bool is_far)
{
	const struct fi_eq_err_entry e = {
		.fid = &ep->fid.fid,
		.context = ep->fid.fid.context,
		.err = err,
		.prov_errno = prov_errno,
	};

	ep->late_cnt++;
	ep->late_errno = prov_errno;
	if (ep->eq && kit_eq_unread(ep->eq) < KIT_LATE_MAX)
		kit_eq_push_err(ep->eq, &e, what, strlen(what) + 1);
	if (!ep->eq && ep->tx_cq && is_far)
		kit_cq_strand(ep->tx_cq, err);
	LOG_FEW(LOG_LVL_WARN, ep->late_told,
		"an operation that was over for its caller, or asked for no completion, has failed: error %d (%s), %s",
		prov_errno, fi_strerror(err), what);
}

static uint64_t *op_flags(struct kit_ep *ep, uint64_t which)
{
	switch (which & (FI_TRANSMIT | FI_RECV)) {
	case FI_TRANSMIT:
		return &ep->tx_op_flags;
	case FI_RECV:
		return &ep->rx_op_flags;
	default:
		return NULL;
	}
}

int kit_ep_control(struct kit_ep *ep, int command, void *arg)
{
	uint64_t *flags = arg, *mine;

	if (command != FI_GETOPSFLAG && command != FI_SETOPSFLAG)
		return -FI_ENOSYS;
	mine = flags ? op_flags(ep, *flags) : NULL;
	if (!mine)
		return -FI_EINVAL;
	if (!kit_enter(ep->domain))
		return -FI_EIO;
	if (command == FI_GETOPSFLAG)
		*flags = *mine;
	else
		*mine = *flags & ~(uint64_t)(FI_TRANSMIT | FI_RECV);
	kit_ep_gate(ep);
	lock_release(&ep->domain->lock);
	return 0;
}
