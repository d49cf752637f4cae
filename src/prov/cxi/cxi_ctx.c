// SPDX-License-Identifier: BSD-2-Clause
// Scalable endpoints and their contexts, shared contexts, endpoint aliases.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/cxi/cxi_ep_int.h"
#include "prov/cxi/cxi_rxc.h"

static struct cxi_ep *to_ep(struct fid *fid)
{
	return container_of(fid, struct cxi_ep, kit.fid.fid);
}

/* --- contexts of a scalable endpoint ------------------------------------------------------------- */

#define TX_ONLY (FI_SEND | FI_READ | FI_WRITE)
#define RX_ONLY                                                                                                        \
	(FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR)

/* An info that describes context @ep of @sep: the parent's, narrowed to one direction and by the attributes given. */
static int context_init(struct cxi_ep *ep, struct cxi_ep *sep, enum cxi_ep_kind kind, uint64_t caps, void *context)
{
	struct fi_info *info = kit_info_dup(sep->kit.info);
	int ret;

	if (!info)
		return -FI_ENOMEM;
	info->caps &= caps | (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC);
	info->caps |= caps & (kind == CXI_TX_CTX ? TX_ONLY : RX_ONLY) & sep->kit.info->caps;
	info->caps &= kind == CXI_TX_CTX ? ~RX_ONLY : ~TX_ONLY;
	ret = cxi_ep_init(ep, sep->domain, kind, info, context);
	kit_info_free(info);
	if (ret)
		return ret;
	ep->parent = sep;
	return 0;
}

/* RMA and atomics of a receive context are the target's, which needs no calls. */
static void context_caps(struct cxi_ep *ep, enum cxi_ep_kind kind)
{
	if (kind == CXI_RX_CTX)
		ep->kit.caps &= ~(FI_RMA | FI_ATOMIC);
	cxi_ep_set_ops(ep);
}

static struct fi_ops ctx_fi_ops; /* below */

static int ctx_open(struct cxi_ep *sep, enum cxi_ep_kind kind, int index, uint64_t caps, struct cxi_ep **out,
		    void *context)
{
	bool is_tx = kind == CXI_TX_CTX;
	struct cxi_ep **slot = &(is_tx ? sep->tx : sep->rx)[index];
	struct cxi_ep *ep;
	int ret;

	if (*slot) {
		LOG_WARN("%s context %d of a scalable endpoint is open already", is_tx ? "transmit" : "receive", index);
		return -FI_EINVAL;
	}
	ep = mem_alloc(sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ret = context_init(ep, sep, kind, caps, context);
	if (ret) {
		mem_free(ep);
		return ret;
	}
	ep->idx = (uint8_t)index;
	ep->kit.fid.fid.fclass = is_tx ? FI_CLASS_TX_CTX : FI_CLASS_RX_CTX;
	ep->kit.fid.fid.ops = &ctx_fi_ops;
	context_caps(ep, kind);
	*slot = ep;
	sep->children++;
	*out = ep;
	return 0;
}

static int sep_tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context)
{
	struct cxi_ep *sep = cxi_ep_of(fid), *ep;
	int ret;

	if (!tx_ep || index < 0 || index >= sep->tx_cnt)
		return -FI_EINVAL;
	if (attr && attr->inject_size > CXI_INJECT_MAX)
		return -FI_EINVAL;
	ret = ctx_open(sep, CXI_TX_CTX, index, attr && attr->caps ? attr->caps : ~0ULL, &ep, context);
	if (ret)
		return ret;
	if (attr) {
		if (attr->size)
			ep->kit.info->tx_attr->size = MIN(attr->size, (size_t)CXI_TX_MAX);
		if (attr->op_flags)
			ep->kit.tx_op_flags = cxi_defaults(attr->op_flags, CXI_TX_OP_FLAGS);
		if (attr->msg_order)
			ep->msg_order = attr->msg_order;
		if (attr->tclass)
			ep->tclass = attr->tclass;
		attr->size = ep->kit.info->tx_attr->size;
		attr->inject_size = ep->kit.inject_size;
		attr->op_flags = ep->kit.tx_op_flags;
		attr->caps = ep->kit.caps;
	}
	*tx_ep = &ep->kit.fid;
	return 0;
}

static int sep_rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
{
	struct cxi_ep *sep = cxi_ep_of(fid), *ep;
	int ret;

	if (!rx_ep || index < 0 || index >= sep->rx_cnt)
		return -FI_EINVAL;
	ret = ctx_open(sep, CXI_RX_CTX, index, attr && attr->caps ? attr->caps : ~0ULL, &ep, context);
	if (ret)
		return ret;
	if (attr) {
		if (attr->size)
			ep->kit.info->rx_attr->size = MIN(attr->size, (size_t)CXI_RX_MAX);
		if (attr->op_flags)
			ep->kit.rx_op_flags = cxi_defaults(attr->op_flags, CXI_RX_OP_FLAGS);
		attr->size = ep->kit.info->rx_attr->size;
		attr->op_flags = ep->kit.rx_op_flags;
		attr->caps = ep->kit.caps;
	}
	*rx_ep = &ep->kit.fid;
	return 0;
}

/* --- enable, bind, close ------------------------------------------------------------------------- */

/*
 * The scalable endpoint's portal opens with the first of its objects to be enabled. The manual gives no order, and
 * programs differ: Open MPI's btl/ofi enables the contexts first, Chapel nothing but contexts.
 */
static int sep_enable(struct cxi_ep *sep)
{
	int ret = 0;

	if (!sep->kit.av) {
		LOG_WARN("scalable endpoint or context not enabled: no address vector is bound to the endpoint");
		return -FI_ENOAV;
	}
	lock_acquire(&sep->domain->kit.lock);
	if (!sep->kit.enabled) {
		ret = cxi_ep_keys(sep);
		ret = ret ? ret : cxi_portal_open(sep->domain, sep->keys, sep->key_cnt, sep->pid, sep, &sep->portal);
		sep->kit.enabled = !ret;
	}
	if (!ret)
		sep->pid = sep->portal->pid;
	lock_release(&sep->domain->kit.lock);
	return ret;
}

/* A context takes from its scalable endpoint, once that has it all, the address vector, the keys and the portal. */
static int context_enable(struct cxi_ep *ep)
{
	struct cxi_ep *sep = ep->parent;
	int ret = sep_enable(sep);

	if (!ret && !ep->kit.av)
		ret = kit_ep_bind(&ep->kit, &sep->kit.av->fid.fid, 0);
	ret = ret ? ret : kit_ep_enable_check(&ep->kit);
	if (ret)
		return ret;
	lock_acquire(&ep->domain->kit.lock);
	if (!ep->kit.enabled) { /* perhaps by another thread, just now */
		memcpy(ep->keys, sep->keys, sizeof(ep->keys));
		ep->key_cnt = sep->key_cnt;
		ep->portal = sep->portal;
		ret = cxi_contexts_enable(ep);
		if (ret)
			ep->portal = NULL;
	}
	lock_release(&ep->domain->kit.lock);
	return ret;
}

int cxi_ctx_enable(struct cxi_ep *ep)
{
	if (kit_is_forked(&ep->domain->kit))
		return -FI_EIO;
	switch (ep->kind) {
	case CXI_SEP:
		return sep_enable(ep);
	case CXI_TX_CTX:
	case CXI_RX_CTX:
		return context_enable(ep);
	default:
		return -FI_EINVAL;
	}
}

static int ctx_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct cxi_ep *ep = to_ep(fid);

	/* Completions are the contexts'; a scalable endpoint has an address vector and an event queue. */
	if (ep->kind == CXI_SEP && bfid && bfid->fclass != FI_CLASS_AV && bfid->fclass != FI_CLASS_EQ) {
		LOG_WARN(
			"a scalable endpoint takes an address vector and an event queue; bind the rest to its "
			"contexts");
		return -FI_EINVAL;
	}
	return kit_ep_bind(&ep->kit, bfid, flags);
}

static int ctx_close(struct fid *fid)
{
	struct cxi_ep *ep = to_ep(fid), *sep = ep->parent;
	struct cxi_ep **slot = ep->kind == CXI_TX_CTX ? &sep->tx[ep->idx] : &sep->rx[ep->idx];
	bool is_ours = !ep->domain->kit.forked(&ep->domain->kit);

	if (ep->children)
		return -FI_EBUSY;
	if (is_ours) {
		lock_acquire(&ep->domain->kit.lock);
		cxi_ep_stop(ep);
	}
	*slot = NULL; /* events of regions look there */
	sep->children--;
	if (is_ours)
		lock_release(&ep->domain->kit.lock);
	kit_ep_fini(&ep->kit);
	mem_free(ep);
	return 0;
}

static int sep_close(struct fid *fid)
{
	struct cxi_ep *sep = to_ep(fid);

	if (sep->children || (sep->portal && !LIST_EMPTY(&sep->portal->mrs))) {
		LOG_INFO("scalable endpoint not closed: contexts or memory regions of it are open");
		return -FI_EBUSY;
	}
	if (!sep->domain->kit.forked(&sep->domain->kit)) {
		lock_acquire(&sep->domain->kit.lock);
		cxi_portal_close(sep->portal);
		lock_release(&sep->domain->kit.lock);
	}
	kit_ep_fini(&sep->kit);
	mem_free(sep);
	return 0;
}

/* --- shared contexts ----------------------------------------------------------------------------- */

static int stx_close(struct fid *fid)
{
	struct cxi_txc *t = container_of(fid, struct cxi_txc, stx.fid);
	struct cxi_domain *d = t->domain;

	if (t->refs)
		return -FI_EBUSY;
	if (!d->kit.forked(&d->kit)) {
		lock_acquire(&d->kit.lock);
		cxi_txc_close(t);
		lock_release(&d->kit.lock);
	}
	atomic_fetch_sub(&d->kit.refs, 1);
	return 0;
}

static int srx_close(struct fid *fid)
{
	struct cxi_ep *ep = to_ep(fid);

	if (ep->rxc->portal_cnt || ep->children)
		return -FI_EBUSY;
	if (!ep->domain->kit.forked(&ep->domain->kit)) {
		lock_acquire(&ep->domain->kit.lock);
		cxi_rxc_close(ep->rxc);
		lock_release(&ep->domain->kit.lock);
	}
	kit_ep_fini(&ep->kit);
	mem_free(ep);
	return 0;
}

static struct fi_ops ctx_fi_ops = KIT_FI_OPS(ctx_close, ctx_bind, cxi_ep_control);
static struct fi_ops sep_fi_ops = KIT_FI_OPS(sep_close, ctx_bind, cxi_ep_control);
static struct fi_ops_ep sep_ep_ops = KIT_SEP_OPS(sep_tx_ctx, sep_rx_ctx);
static struct fi_ops stx_fi_ops = KIT_FI_OPS(stx_close, kit_no_bind, kit_no_control);
static struct fi_ops srx_fi_ops = KIT_FI_OPS(srx_close, kit_no_bind, cxi_ep_control);

int cxi_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep_out, void *context)
{
	struct cxi_domain *d = container_of(domain, struct cxi_domain, kit.fid);
	struct cxi_ep *sep;
	int ret;

	if (!info || !info->ep_attr || !info->tx_attr || !info->rx_attr || !sep_out || info->ep_attr->type != FI_EP_RDM)
		return -FI_EINVAL;
	if (info->ep_attr->tx_ctx_cnt > CXI_CTX_MAX || info->ep_attr->rx_ctx_cnt > CXI_CTX_MAX) {
		LOG_WARN("scalable endpoint with %zu transmit and %zu receive contexts refused: the limit is %d",
			 info->ep_attr->tx_ctx_cnt, info->ep_attr->rx_ctx_cnt, CXI_CTX_MAX);
		return -FI_EINVAL;
	}
	sep = mem_alloc(sizeof(*sep));
	if (!sep)
		return -FI_ENOMEM;
	ret = cxi_ep_init(sep, d, CXI_SEP, info, context);
	if (ret) {
		mem_free(sep);
		return ret;
	}
	sep->tx_cnt = (uint8_t)(info->ep_attr->tx_ctx_cnt ? info->ep_attr->tx_ctx_cnt : 1);
	sep->rx_cnt = (uint8_t)(info->ep_attr->rx_ctx_cnt ? info->ep_attr->rx_ctx_cnt : 1);
	sep->kit.fid.fid.fclass = FI_CLASS_SEP;
	sep->kit.fid.fid.ops = &sep_fi_ops;
	sep->kit.fid.ops = &sep_ep_ops;
	*sep_out = &sep->kit.fid;
	return 0;
}

int cxi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
	struct cxi_domain *d = container_of(domain, struct cxi_domain, kit.fid);
	size_t size = attr && attr->size ? attr->size : d->params.default_tx_size;
	struct cxi_txc *t;
	int ret;

	if (!stx || size > CXI_TX_MAX)
		return -FI_EINVAL;
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	lock_acquire(&d->kit.lock);
	d->has_eps = true;
	ret = cxi_txc_open(d, &d->key, attr && attr->tclass ? attr->tclass : d->tclass, size, &t);
	lock_release(&d->kit.lock);
	if (ret)
		return ret;
	t->stx.fid = (struct fid){.fclass = FI_CLASS_STX_CTX, .context = context, .ops = &stx_fi_ops};
	t->stx.ops = (struct fi_ops_ep *)&kit_no_ep_ops;
	atomic_fetch_add(&d->kit.refs, 1);
	*stx = &t->stx;
	return 0;
}

/* A shared receive context is an endpoint that can only receive and has no portal of its own. */
static struct fi_info *srx_info(struct cxi_domain *d, const struct fi_rx_attr *attr)
{
	struct fi_info *info = kit_info_new();

	if (!info)
		return NULL;
	info->caps = attr && attr->caps ? attr->caps : d->kit.caps;
	info->caps &= ~(TX_ONLY | FI_RMA | FI_ATOMIC);
	info->caps |= FI_RECV | (info->caps & (FI_MSG | FI_TAGGED) ? 0 : FI_MSG | FI_TAGGED);
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->protocol = FI_PROTO_CXI;
	*info->rx_attr = attr ? *attr : (struct fi_rx_attr){0};
	return info;
}

int cxi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx, void *context)
{
	struct cxi_domain *d = container_of(domain, struct cxi_domain, kit.fid);
	struct fi_info *info;
	struct cxi_ep *ep;
	int ret = -FI_ENOMEM;

	if (!rx || (attr && attr->size > CXI_RX_MAX))
		return -FI_EINVAL;
	ep = mem_alloc(sizeof(*ep));
	info = srx_info(d, attr);
	if (ep && info)
		ret = cxi_ep_init(ep, d, CXI_SRX, info, context);
	kit_info_free(info);
	if (ret)
		goto err_free;
	lock_acquire(&d->kit.lock);
	ret = cxi_rxc_open(d, ep, 0, ep->kit.info->rx_attr->size, &ep->rxc);
	lock_release(&d->kit.lock);
	if (ret)
		goto err_ep;
	ep->kit.fid.fid.fclass = FI_CLASS_SRX_CTX;
	ep->kit.fid.fid.ops = &srx_fi_ops;
	cxi_ep_set_ops(ep);
	ep->kit.enabled = true; /* receives may be posted from now on */
	cxi_ep_gate(ep);
	*rx = &ep->kit.fid;
	return 0;

err_ep:
	kit_ep_fini(&ep->kit);
err_free:
	mem_free(ep);
	return ret;
}

int cxi_shared_bind(struct cxi_ep *ep, struct fid *bfid, uint64_t flags)
{
	bool is_stx = bfid->fclass == FI_CLASS_STX_CTX;
	struct cxi_txc *t = container_of(bfid, struct cxi_txc, stx.fid);
	struct cxi_ep *srx = to_ep(bfid);

	if (ep->kit.enabled)
		return -FI_EOPBADSTATE;
	if (ep->kind != CXI_EP || flags || (is_stx ? ep->stx != NULL : ep->srx != NULL)) {
		LOG_WARN("shared context not bound: %s",
			 flags ? "it takes no flags" : "this object has one already or takes none");
		return -FI_EINVAL;
	}
	if ((is_stx ? t->domain : srx->domain) != ep->domain) {
		LOG_WARN("shared context not bound: it belongs to another domain");
		return -FI_EINVAL;
	}
	if (is_stx) {
		ep->stx = t;
		t->refs++;
	} else {
		ep->srx = srx;
		srx->children++;
	}
	return 0;
}

static void eq_empty(struct cxi_domain *d, struct cassini_eq *eq)
{
	cxi_eq_settle(d, eq);
	cxi_drain(eq);
}

void cxi_srx_drain(struct cxi_ep *ep)
{
	if (ep->srx)
		eq_empty(ep->domain, ep->srx->rxc->eq);
}

void cxi_shared_drain(struct cxi_ep *ep)
{
	if (ep->stx)
		eq_empty(ep->domain, ep->stx->eq);
	cxi_srx_drain(ep);
	if (ep->srx)
		cxi_rx_forget(ep->srx->rxc, ep);
}

void cxi_shared_unbind(struct cxi_ep *ep)
{
	if (ep->stx)
		ep->stx->refs--;
	if (ep->srx)
		ep->srx->children--;
	ep->stx = NULL;
	ep->srx = NULL;
}

/* --- aliases ------------------------------------------------------------------------------------- */

/* The same queues under other default flags. What the base has is borrowed, so nothing of it is counted twice. */
int cxi_alias_sync(struct cxi_ep *ep)
{
	struct cxi_ep *base = ep->parent;

	if (!base->kit.enabled)
		return -FI_EOPBADSTATE;
	ep->kit.av = base->kit.av;
	ep->kit.tx_cq = base->kit.tx_cq;
	ep->kit.rx_cq = base->kit.rx_cq;
	memcpy(ep->kit.cntr, base->kit.cntr, sizeof(ep->kit.cntr));
	ep->kit.tx_selective = base->kit.tx_selective;
	ep->kit.rx_selective = base->kit.rx_selective;
	kit_ep_gate(&ep->kit);
	ep->portal = base->portal;
	ep->txc = base->txc;
	ep->rxc = base->rxc;
	ep->kit.enabled = true;
	cxi_ep_gate(ep);
	return 0;
}

static void leave_to_base(void *obj, void *alias)
{
	struct cxi_ep *ep = alias;
	struct cxi_tx *tx = obj;

	if (tx->ep == ep)
		tx->ep = ep->parent;
}

/* What the alias has sent and has not ended is told of as the base's: their queues are the same. */
static int alias_close(struct fid *fid)
{
	struct cxi_ep *ep = to_ep(fid);
	struct kit_domain *d = &ep->domain->kit;

	if (ep->txc && !d->forked(d)) {
		lock_acquire(&d->lock);
		slab_foreach(&ep->txc->txs, leave_to_base, ep);
		lock_release(&d->lock);
	}
	ep->kit.av = NULL;
	ep->kit.tx_cq = ep->kit.rx_cq = NULL;
	memset(ep->kit.cntr, 0, sizeof(ep->kit.cntr));
	ep->parent->children--;
	kit_ep_fini(&ep->kit);
	mem_free(ep);
	return 0;
}

static struct fi_ops alias_fi_ops = KIT_FI_OPS(alias_close, kit_no_bind, cxi_ep_control);

int cxi_alias_open(struct cxi_ep *base, void *arg)
{
	const struct fi_alias *a = arg;
	bool is_tx, is_rx;
	struct cxi_ep *ep;
	int ret;

	if (!a || !a->fid || base->kind == CXI_ALIAS || base->kind == CXI_SEP)
		return -FI_EINVAL;
	is_tx = a->flags & FI_TRANSMIT;
	is_rx = a->flags & FI_RECV;
	if (is_tx == is_rx) {
		LOG_WARN("alias refused: it is for FI_TRANSMIT or for FI_RECV");
		return -FI_EINVAL;
	}
	ep = mem_alloc(sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ret = cxi_ep_init(ep, base->domain, CXI_ALIAS, base->kit.info, base->kit.fid.fid.context);
	if (ret) {
		mem_free(ep);
		return ret;
	}
	if (is_tx)
		ep->kit.tx_op_flags = a->flags & ~(uint64_t)FI_TRANSMIT;
	else
		ep->kit.rx_op_flags = a->flags & ~(uint64_t)FI_RECV;
	ep->kit.fid.fid.ops = &alias_fi_ops;
	ep->parent = base;
	base->children++;
	cxi_ep_set_ops(ep);
	*a->fid = &ep->kit.fid.fid;
	return 0;
}
