// SPDX-License-Identifier: BSD-2-Clause
// Scalable endpoints: up to OPX_SEP_MAX HFI contexts with consecutive numbers; transmit and receive context i share the
// i-th. Source: doc/facts/opx.md#objects.
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/opx/opx.h"

#define TX_CNTR (FI_SEND | FI_READ | FI_WRITE)
#define RX_CNTR (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define RX_ONLY (FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV)

static struct opx_sep *to_sep(struct fid *fid)
{
	return container_of(fid, struct opx_sep, kit.fid.fid);
}

static struct opx_ep *ctx_of(struct fid *fid)
{
	return opx_ep_of(container_of(fid, struct fid_ep, fid));
}

static uint64_t dir_of(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_TX_CTX ? FI_TRANSMIT : FI_RECV;
}

/* --- enable -------------------------------------------------------------------------------------- */

static bool turn_take(struct opx_sep *sep)
{
	return opx_turn_take(sep->domain, &sep->turn);
}

/* With the first of its objects the endpoint gets all its HFI contexts: their numbers must follow each other. */
static int hw_open(struct opx_sep *sep)
{
	if (!sep->kit.av) {
		LOG_WARN("scalable endpoint or context not enabled: no address vector is bound to the endpoint");
		return -FI_ENOAV;
	}
	if (sep->kit.enabled)
		return 0;
	/* now the numbers are the endpoint's, whatever becomes of its contexts */
	for (int i = 0; i < sep->cnt; i++)
		sep->ep[i]->av = container_of(sep->kit.av, struct opx_av, kit);
	int ret = opx_ctxt_open(sep->ep, sep->cnt);

	if (ret)
		return ret;
	lock_acquire(&sep->domain->kit.lock);
	sep->kit.enabled = true;
	lock_release(&sep->domain->kit.lock);
	return 0;
}

static int ctx_enable_in_turn(struct opx_ep *ep, uint64_t dir)
{
	int ret;

	if (ep->on & dir)
		return 0;
	ret = opx_ep_cq_check(ep, dir);
	ret = ret ? ret : hw_open(ep->sep);
	if (!ret && !ep->hw) /* both contexts of this number had been closed */
		ret = opx_ctxt_reopen(ep);
	if (ret)
		return ret;
	lock_acquire(&ep->domain->kit.lock);
	if (!ep->kit.enabled) {
		opx_ep_set_enabled(ep, true);
		ret = kit_ep_watch(&ep->kit, true);
		opx_ep_set_enabled(ep, !ret);
	}
	if (!ret)
		ep->on |= dir;
	lock_release(&ep->domain->kit.lock);
	opx_ep_kick(ep);
	return ret;
}

static int ctx_enable(struct opx_ep *ep, uint64_t dir)
{
	int ret;

	if (!turn_take(ep->sep))
		return -FI_EIO;
	ret = ctx_enable_in_turn(ep, dir);
	pthread_mutex_unlock(&ep->sep->turn);
	return ret;
}

static int sep_enable(struct opx_sep *sep)
{
	int ret;

	if (!turn_take(sep))
		return -FI_EIO;
	ret = hw_open(sep);
	pthread_mutex_unlock(&sep->turn);
	return ret;
}

static int ctx_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? ctx_enable(ctx_of(fid), dir_of(fid))
				    : kit_ep_control(&ctx_of(fid)->kit, command, arg);
}

static int sep_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? sep_enable(to_sep(fid)) : kit_ep_control(&to_sep(fid)->kit, command, arg);
}

/* --- bind ---------------------------------------------------------------------------------------- */

static int ctx_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	uint64_t dir = dir_of(fid), allowed;
	struct opx_ep *ep = ctx_of(fid);
	int ret;

	if (!bfid)
		return -FI_EINVAL;
	if (bfid->fclass == FI_CLASS_EQ)
		return -FI_ENOSYS;
	if (bfid->fclass == FI_CLASS_MR)
		return 0;
	/*
	 * Chapel names both directions for a context of either kind, which the real provider takes. The other one is
	 * not this context's.
	 */
	if (bfid->fclass == FI_CLASS_CQ && (flags & dir))
		flags &= ~(uint64_t)(FI_TRANSMIT | FI_RECV) | dir;
	allowed = bfid->fclass == FI_CLASS_CQ ? dir | FI_SELECTIVE_COMPLETION : dir == FI_TRANSMIT ? TX_CNTR : RX_CNTR;
	if ((bfid->fclass != FI_CLASS_CQ && bfid->fclass != FI_CLASS_CNTR) || (flags & ~allowed)) {
		LOG_WARN(
			"a %s context takes a completion queue and counters of its direction; the rest is bound to the "
			"scalable endpoint",
			dir == FI_TRANSMIT ? "transmit" : "receive");
		return -FI_EINVAL;
	}
	if (ep->domain->kit.forked(&ep->domain->kit))
		return -FI_EIO;
	if (ep->on & dir)
		return -FI_EOPBADSTATE;
	ret = opx_ep_bind_check(ep, bfid);
	return ret ? ret : kit_ep_bind(&ep->kit, bfid, flags);
}

static int sep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct opx_sep *sep = to_sep(fid);
	int ret;

	if (!bfid || bfid->fclass != FI_CLASS_AV) {
		if (bfid && bfid->fclass == FI_CLASS_EQ)
			return -FI_ENOSYS;
		LOG_WARN("a scalable endpoint takes an address vector; bind the rest to its contexts");
		return -FI_EINVAL;
	}
	if (sep->domain->kit.forked(&sep->domain->kit))
		return -FI_EIO;
	ret = opx_ep_bind_check(sep->ep[0], bfid);
	ret = ret ? ret : kit_ep_bind(&sep->kit, bfid, flags);
	for (int i = 0; i < sep->cnt && !ret; i++)
		ret = kit_ep_bind(&sep->ep[i]->kit, bfid, flags);
	return ret;
}

/* --- the rest of the calls ----------------------------------------------------------------------- */

static int ctx_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct opx_ep *ep = ctx_of(fid);

	return ep->hw ? opx_ep_name(&ep->self, addr, addrlen) : -FI_EOPBADSTATE;
}

static int sep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct opx_sep *sep = to_sep(fid);

	return sep->kit.enabled ? opx_ep_name(&sep->ep[0]->self, addr, addrlen) : -FI_EOPBADSTATE;
}

static int ctx_getopt(fid_t fid, int level, int name, void *val, size_t *len)
{
	return opx_ep_getopt(ctx_of(fid), level, name, val, len);
}

static int ctx_setopt(fid_t fid, int level, int name, const void *val, size_t len)
{
	return opx_ep_setopt(ctx_of(fid), level, name, val, len);
}

static ssize_t ctx_cancel(fid_t fid, void *context)
{
	return opx_ep_cancel(ctx_of(fid), context);
}

/* --- close --------------------------------------------------------------------------------------- */

#define LEAVE_NS NS_PER_SEC /* the adapter may still read what it was given, but not for long */

/* The other direction goes on: what this one has under way must not touch its program's memory, nor its queue. */
static void leave(struct opx_ep *ep, uint64_t dir)
{
	uint64_t until = hfi_now_ns(ep->hfi) + LEAVE_NS;

	while (opx_peers_leave(ep, dir) && hfi_now_ns(ep->hfi) < until)
		if (!opx_ep_progress(&ep->kit))
			kit_yield(&ep->domain->kit);
	opx_ep_settle(ep); /* another thread may be about to tell of one that is over already */
}

/* One direction ends; with the second the HFI context has nobody left. Either may be opened again. */
static void ctx_end(struct opx_ep *ep, uint64_t dir)
{
	bool is_last = !(ep->opened & ~dir);

	if (!ep->kit.enabled)
		return;
	opx_ep_drain(ep);
	opx_ep_settle(ep);
	/* what came unexpected since the receive context was closed goes with the HFI context */
	if (dir == FI_RECV || is_last)
		kit_srx_clear(&ep->srx);
	if (!is_last)
		leave(ep, dir);
	ep->on &= ~dir;
	if (!ep->on && is_last)
		opx_ctxt_stop(ep);
}

static int ctx_close(struct fid *fid)
{
	struct opx_ep *ep = ctx_of(fid);
	struct kit_domain *d = &ep->domain->kit;
	uint64_t dir = dir_of(fid);
	bool has_turn = turn_take(ep->sep);

	if (has_turn) {
		lock_acquire(&d->lock);
		ctx_end(ep, dir);
		lock_release(&d->lock);
	}
	kit_ep_unbind(&ep->kit, dir);
	ep->opened &= ~dir;
	if (has_turn)
		pthread_mutex_unlock(&ep->sep->turn);
	return 0;
}

static void contexts_fini(struct opx_sep *sep)
{
	for (int i = 0; i < sep->cnt; i++)
		opx_ep_fini(sep->ep[i]);
}

static int sep_close(struct fid *fid)
{
	struct opx_sep *sep = to_sep(fid);
	struct kit_domain *d = &sep->domain->kit;

	for (int i = 0; i < sep->cnt; i++) {
		if (!sep->ep[i]->opened)
			continue;
		LOG_INFO("scalable endpoint not closed: contexts of it are open");
		return -FI_EBUSY;
	}
	if (!d->forked(d)) {
		lock_acquire(&d->lock);
		for (int i = 0; i < sep->cnt; i++)
			opx_ep_stop(sep->ep[i]);
		lock_release(&d->lock);
	}
	contexts_fini(sep);
	kit_ep_fini(&sep->kit);
	pthread_mutex_destroy(&sep->turn);
	mem_free(sep);
	return 0;
}

/* --- open: contexts ------------------------------------------------------------------------------ */

static struct fi_ops ctx_fi_ops = KIT_FI_OPS(ctx_close, ctx_bind, ctx_control);
static struct fi_ops_ep ctx_ops = KIT_EP_OPS(ctx_cancel, ctx_getopt, ctx_setopt);
static struct fi_ops_cm ctx_cm_ops = KIT_CM_OPS(ctx_getname);

/* Context @index is open in direction @dir from now on. NULL: it is already, or there is none. */
static struct opx_ep *ctx_take(struct opx_sep *sep, int index, uint64_t dir, size_t cnt)
{
	struct opx_ep *ep = index >= 0 && (size_t)index < cnt ? sep->ep[index] : NULL;
	const char *what = dir == FI_TRANSMIT ? "transmit" : "receive";
	bool has_turn, is_open;

	if (!ep) {
		LOG_WARN("%s context %d refused: the scalable endpoint has %zu", what, index, cnt);
		return NULL;
	}
	has_turn = turn_take(sep);
	is_open = ep->opened & dir;
	ep->opened |= dir;
	if (has_turn)
		pthread_mutex_unlock(&sep->turn);
	if (is_open)
		LOG_WARN("%s context %d of a scalable endpoint is open already", what, index);
	return is_open ? NULL : ep;
}

static int sep_tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **out, void *context)
{
	struct opx_sep *sep = to_sep(&fid->fid);
	uint64_t caps = sep->kit.caps;
	struct opx_ep *ep;

	if (!out || (attr && ((attr->caps & RX_ONLY) || attr->inject_size > OPX_INJECT_MAX)))
		return -FI_EINVAL;
	ep = ctx_take(sep, index, FI_TRANSMIT, MAX(sep->kit.info->ep_attr->tx_ctx_cnt, (size_t)1));
	if (!ep)
		return -FI_EINVAL;
	ep->tx_fid = (struct fid_ep){
		.fid = {.fclass = FI_CLASS_TX_CTX, .context = context, .ops = &ctx_fi_ops},
		.ops = &ctx_ops,
		.cm = &ctx_cm_ops,
		.msg = (struct fi_ops_msg *)(caps & FI_MSG ? &opx_msg_tx_ops : &kit_no_msg_ops),
		.tagged = (struct fi_ops_tagged *)(caps & FI_TAGGED ? &opx_tagged_tx_ops : &kit_no_tagged_ops),
		.rma = (struct fi_ops_rma *)(caps & FI_RMA ? &opx_rma_ops : &kit_no_rma_ops),
		.atomic = (struct fi_ops_atomic *)(caps & FI_ATOMIC ? &opx_atomic_ops.ops : &kit_no_atomic_ops),
		.collective = (struct fi_ops_collective *)&kit_no_collective_ops,
	};
	ep->kit.tx_op_flags = attr && attr->op_flags ? attr->op_flags : sep->kit.info->tx_attr->op_flags;
	*out = &ep->tx_fid;
	return 0;
}

static int sep_rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **out, void *context)
{
	struct opx_sep *sep = to_sep(&fid->fid);
	uint64_t caps = sep->kit.caps;
	struct opx_ep *ep;

	if (!out || (attr && (attr->caps & FI_SEND)))
		return -FI_EINVAL;
	ep = ctx_take(sep, index, FI_RECV, MAX(sep->kit.info->ep_attr->rx_ctx_cnt, (size_t)1));
	if (!ep)
		return -FI_EINVAL;
	ep->kit.fid.fid.context = context;
	ep->kit.fid.msg = (struct fi_ops_msg *)(caps & FI_MSG ? &opx_msg_rx_ops : &kit_no_msg_ops);
	ep->kit.fid.tagged = (struct fi_ops_tagged *)(caps & FI_TAGGED ? &opx_tagged_rx_ops : &kit_no_tagged_ops);
	ep->kit.fid.rma = (struct fi_ops_rma *)&kit_no_rma_ops;
	ep->kit.fid.atomic = (struct fi_ops_atomic *)&kit_no_atomic_ops;
	ep->kit.rx_op_flags = attr && attr->op_flags ? attr->op_flags : sep->kit.info->rx_attr->op_flags;
	ep->srx.min_multi_recv = OPX_MIN_MULTI_RECV;
	*out = &ep->kit.fid;
	return 0;
}

/* --- open: the endpoint -------------------------------------------------------------------------- */

static int contexts_init(struct opx_sep *sep, struct fi_info *info)
{
	for (int i = 0; i < sep->cnt; i++) {
		struct opx_ep *ep = mem_alloc(sizeof(*ep));
		int ret = ep ? opx_ep_init(ep, sep->domain, info, NULL) : -FI_ENOMEM;

		if (ret) {
			mem_free(ep);
			for (sep->cnt = i, i = 0; i < sep->cnt; i++)
				kit_srx_fini(&sep->ep[i]->srx);
			contexts_fini(sep);
			return ret;
		}
		ep->sep = sep;
		ep->sep_index = i;
		ep->kit.binds_late = true;
		ep->kit.fid.fid.fclass = FI_CLASS_RX_CTX;
		ep->kit.fid.fid.ops = &ctx_fi_ops;
		ep->kit.fid.ops = &ctx_ops;
		ep->kit.fid.cm = &ctx_cm_ops;
		sep->ep[i] = ep;
	}
	return 0;
}

static int no_progress(struct kit_ep *kep)
{
	(void)kep;
	return 0;
}

static struct fi_ops sep_fi_ops = KIT_FI_OPS(sep_close, sep_bind, sep_control);
static struct fi_ops_ep sep_ops = KIT_SEP_OPS(sep_tx_ctx, sep_rx_ctx);
static struct fi_ops_cm sep_cm_ops = KIT_CM_OPS(sep_getname);

int opx_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep_out, void *context)
{
	struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	struct opx_sep *sep;
	size_t cnt;
	int ret;

	if (!info || !info->ep_attr || !info->tx_attr || !info->rx_attr || !sep_out ||
	    (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC))
		return -FI_EINVAL;
	cnt = MAX(MAX(info->ep_attr->tx_ctx_cnt, info->ep_attr->rx_ctx_cnt), (size_t)1);
	if (cnt > OPX_SEP_MAX) {
		LOG_WARN("scalable endpoint with %zu transmit and %zu receive contexts refused: the limit is %d",
			 info->ep_attr->tx_ctx_cnt, info->ep_attr->rx_ctx_cnt, OPX_SEP_MAX);
		return -FI_EINVAL;
	}
	sep = mem_alloc(sizeof(*sep));
	if (!sep)
		return -FI_ENOMEM;
	sep->domain = d;
	sep->cnt = (int)cnt;
	pthread_mutex_init(&sep->turn, NULL);
	ret = kit_ep_init(&sep->kit, &d->kit, info, no_progress, context);
	if (ret)
		goto err_free;
	ret = contexts_init(sep, info);
	if (ret)
		goto err_ep;
	sep->kit.fid.fid.fclass = FI_CLASS_SEP;
	sep->kit.fid.fid.ops = &sep_fi_ops;
	sep->kit.fid.ops = &sep_ops;
	sep->kit.fid.cm = &sep_cm_ops;
	*sep_out = &sep->kit.fid;
	return 0;

err_ep:
	kit_ep_fini(&sep->kit);
err_free:
	pthread_mutex_destroy(&sep->turn);
	mem_free(sep);
	return ret;
}
