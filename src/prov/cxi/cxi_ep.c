// SPDX-License-Identifier: BSD-2-Clause
// Endpoints: open, bind, enable, options, close. Scalable endpoints and shared contexts are in cxi_ctx.c.
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fi_cxi_ext.h"
#include "kit/compat.h"
#include "kit/stubs.h"
#include "prov/cxi/cxi_ep_int.h"

/* fi_close lets operations finish for this long; then they end with the adapter's objects */
#define CLOSE_WAIT_NS (5 * NS_PER_SEC)

/* --- progress and waiting --- */

int cxi_ep_progress(struct kit_ep *kep)
{
	struct cxi_ep *ep = container_of(kep, struct cxi_ep, kit);

	return likely(kep->enabled) ? cxi_portal_progress(ep->portal) : 0;
}

static bool calm(struct kit_ep *kep, struct calm *c, uint32_t passed)
{
	struct cxi_ep *ep = container_of(kep, struct cxi_ep, kit);

	return kep->enabled && cxi_portal_calm(ep->portal, c, passed);
}

/* One for each VNI. */
int cxi_ep_wait_fd(struct kit_ep *kep, unsigned i)
{
	struct cxi_ep *ep = container_of(kep, struct cxi_ep, kit);

	return ep->portal && i < (unsigned)ep->portal->dom_cnt ? cassini_dom_wait_fd(ep->portal->dom[i]) : -1;
}

/* Also asked of an endpoint that is not enabled: it has nothing to wait for. */
int cxi_ep_wait_arm(struct kit_ep *kep)
{
	struct cxi_ep *ep = container_of(kep, struct cxi_ep, kit);
	struct cxi_portal *p = ep->portal;

	if (!kep->enabled)
		return 0;
	cxi_portal_timers(p); /* who sleeps does not poll often enough for it */
	if (cassini_eq_peek(p->eq))
		return -FI_EAGAIN;
	for (int i = 0; i < p->txc_cnt; i++)
		if (cassini_eq_peek(p->txc[i]->eq) || p->txc[i]->fc || !cxi_rnr_is_idle(p->txc[i]))
			return -FI_EAGAIN;
	for (int i = 0; i < p->rxc_top; i++)
		if (p->rxc[i] && cassini_eq_peek(p->rxc[i]->eq))
			return -FI_EAGAIN;
	for (int i = 0; i < p->dom_cnt; i++)
		if (cassini_dom_arm(p->dom[i]))
			return -FI_EAGAIN;
	return 0;
}

/* --- enable --- */

static int rx_enable(struct cxi_ep *ep)
{
	struct cxi_rxc *r;
	int ret;

	if (!ep->srx) {
		ret = cxi_rxc_open(ep->domain, ep, ep->idx, ep->kit.info->rx_attr->size, &ep->rxc);
		if (ret)
			return ret;
	}
	r = ep->srx ? ep->srx->rxc : ep->rxc;
	ret = cxi_rxc_map(r, ep->portal, ep->idx);
	if (!ret)
		return 0;
	if (!ep->srx)
		cxi_rxc_close(ep->rxc);
	ep->rxc = NULL;
	return ret;
}

static int tx_enable(struct cxi_ep *ep)
{
	const struct fi_tx_attr *attr = ep->kit.info->tx_attr;
	int ret = 0;

	if (ep->stx)
		ep->txc = ep->stx;
	else
		ret = cxi_txc_open(ep->domain, &ep->keys[0], ep->tclass, attr->size, &ep->txc);
	if (!ret && !ep->stx) {
		ep->txc->ep = ep;
		cxi_txc_gate(ep->txc);
	}
	return ret ? ret : cxi_portal_add_txc(ep->portal, ep->txc);
}

static void tx_disable(struct cxi_ep *ep)
{
	if (!ep->txc)
		return;
	cxi_portal_del_txc(ep->portal, ep->txc);
	if (!ep->stx)
		cxi_txc_close(ep->txc);
	ep->txc = NULL;
}

static void rx_disable(struct cxi_ep *ep)
{
	struct cxi_rxc *r = ep->srx ? ep->srx->rxc : ep->rxc;

	if (!r)
		return;
	cxi_srx_drain(ep); /* whose messages they are is known while it is mapped */
	cxi_rxc_unmap(r, ep->portal, ep->idx);
	if (!ep->srx)
		cxi_rxc_close(ep->rxc);
	ep->rxc = NULL;
}

int cxi_contexts_enable(struct cxi_ep *ep)
{
	bool has_tx = ep->kind != CXI_RX_CTX, has_rx = ep->kind != CXI_TX_CTX;
	int ret = has_tx ? tx_enable(ep) : 0;

	if (!ret && has_rx)
		ret = rx_enable(ep);
	if (!ret) {
		ep->kit.enabled = true;
		ret = kit_ep_watch(&ep->kit, true);
	}
	if (ret) {
		ep->kit.enabled = false;
		tx_disable(ep);
		if (has_rx)
			rx_disable(ep);
	}
	cxi_ep_gate(ep);
	return ret;
}

void cxi_contexts_disable(struct cxi_ep *ep)
{
	kit_ep_watch(&ep->kit, false);
	ep->kit.enabled = false;
	if (ep->kind != CXI_RX_CTX)
		tx_disable(ep);
	if (ep->kind != CXI_TX_CTX)
		rx_disable(ep);
	cxi_ep_gate(ep);
}

/* FI_AV_AUTH_KEY: the keys that the address vector has now. Later ones are for endpoints enabled later. */
int cxi_ep_keys(struct cxi_ep *ep)
{
	if (!ep->domain->max_ep_auth_key)
		return 0;
	ep->key_cnt = cxi_av_keys(container_of(ep->kit.av, struct cxi_av, kit), ep->keys);
	if (ep->key_cnt)
		return 0;
	LOG_WARN(
		"endpoint not enabled: the domain has FI_AV_AUTH_KEY, and no key was inserted into the address vector");
	return -FI_EINVAL;
}

static int ep_enable_locked(struct cxi_ep *ep)
{
	int ret = cxi_ep_keys(ep);

	ret = ret ? ret : cxi_portal_open(ep->domain, ep->keys, ep->key_cnt, ep->pid, ep, &ep->portal);
	if (ret)
		return ret;
	ret = cxi_contexts_enable(ep);
	if (ret) {
		cxi_portal_close(ep->portal);
		ep->portal = NULL; /* what a shared context has yet to say of it finds it gone */
		cxi_shared_drain(ep);
		return ret;
	}
	ep->pid = ep->portal->pid;
	return 0;
}

static int ep_enable(struct cxi_ep *ep)
{
	int ret = kit_ep_enable_check(&ep->kit);

	if (ret)
		return ret;
	if ((ep->wants_stx && !ep->stx) || (ep->wants_srx && !ep->srx)) {
		LOG_WARN("endpoint not enabled: its attributes ask for a shared context and none is bound");
		return -FI_EOPBADSTATE;
	}
	lock_acquire(&ep->domain->kit.lock);
	/* perhaps by another thread, just now */
	ret = ep->kit.enabled ? 0 : ep_enable_locked(ep);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

/* --- bind, control, options --- */

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct cxi_ep *ep = container_of(fid, struct cxi_ep, kit.fid.fid);

	if (bfid && (bfid->fclass == FI_CLASS_STX_CTX || bfid->fclass == FI_CLASS_SRX_CTX))
		return cxi_shared_bind(ep, bfid, flags);
	return kit_ep_bind(&ep->kit, bfid, flags);
}

static int set_val(struct cxi_ep *ep, const struct fi_fid_var *var)
{
	if (!var || !var->val)
		return -FI_EINVAL;
	switch (var->name) {
	case FI_OPT_CXI_SET_TCLASS:
		LOG_INFO("traffic class %u is accepted and has no effect: the soft network has no priorities",
			 *(uint32_t *)var->val);
		ep->tclass = *(uint32_t *)var->val;
		return 0;
	case FI_OPT_CXI_SET_MSG_ORDER:
		ep->msg_order = *(uint64_t *)var->val;
		return 0;
	case FI_OPT_CXI_SET_RNR_MAX_RETRY_TIME:
		if (!ep->is_rnr)
			return -FI_EINVAL;
		ep->rnr_max_us = *(uint64_t *)var->val;
		return 0;
	}
	return -FI_EINVAL;
}

int cxi_ep_control(struct fid *fid, int command, void *arg)
{
	struct cxi_ep *ep = container_of(fid, struct cxi_ep, kit.fid.fid);
	int ret;

	switch (command) {
	case FI_ENABLE:
		return ep->kind == CXI_EP ? ep_enable(ep) : cxi_ctx_enable(ep);
	case FI_ALIAS:
		return cxi_alias_open(ep, arg);
	case FI_SET_VAL:
		lock_acquire(&ep->domain->kit.lock);
		ret = set_val(ep, arg);
		lock_release(&ep->domain->kit.lock);
		return ret;
	}
	return kit_ep_control(&ep->kit, command, arg);
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	struct cxi_ep *ep = container_of(fid, struct cxi_ep, kit.fid.fid);

	if (level != FI_OPT_ENDPOINT || !optval || !optlen)
		return level == FI_OPT_ENDPOINT ? -FI_EINVAL : -FI_ENOPROTOOPT;
	switch (optname) {
	case FI_OPT_MIN_MULTI_RECV:
		if (*optlen < sizeof(size_t))
			return -FI_ETOOSMALL;
		*(size_t *)optval = ep->min_multi_recv;
		*optlen = sizeof(size_t);
		return 0;
	case FI_OPT_CXI_GET_RNR_APPEND_RETRY_ATTEMPTS:
		if (*optlen < sizeof(uint64_t))
			return -FI_ETOOSMALL;
		*(uint64_t *)optval = ep->rxc ? ep->rxc->append_retries : 0;
		*optlen = sizeof(uint64_t);
		return 0;
	}
	return -FI_ENOPROTOOPT;
}

static int set_min_multi_recv(struct cxi_ep *ep, const void *optval, size_t optlen)
{
	size_t v;

	if (!optval || optlen != sizeof(v))
		return -FI_EINVAL;
	memcpy(&v, optval, sizeof(v));
	if (v > CXI_MIN_FREE_MAX) {
		LOG_WARN("FI_OPT_MIN_MULTI_RECV %zu refused: the adapter counts up to %u", v, CXI_MIN_FREE_MAX);
		return -FI_EINVAL;
	}
	ep->min_multi_recv = v;
	if (ep->rxc)
		ep->rxc->min_multi_recv = v;
	return 0;
}

static int set_flow_control(struct cxi_ep *ep, const void *optval, size_t optlen)
{
	if (!optval || optlen != sizeof(bool))
		return -FI_EINVAL;
	if (ep->rxc)
		return -FI_EOPBADSTATE;
	ep->no_flow_control = !*(const bool *)optval;
	return 0;
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	struct cxi_ep *ep = container_of(fid, struct cxi_ep, kit.fid.fid);

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (optname) {
	case FI_OPT_MIN_MULTI_RECV:
		return set_min_multi_recv(ep, optval, optlen);
	case FI_OPT_CXI_SET_RX_FLOW_CONTROL:
		return set_flow_control(ep, optval, optlen);
	case KIT_OPT_CUDA_API_PERMITTED:
		return 0;
	}
	return -FI_ENOPROTOOPT;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct cxi_ep *ep = container_of(fid, struct cxi_ep, kit.fid.fid);
	ssize_t ret = cxi_ep_state(ep);

	if (ret)
		return ret;
	lock_acquire(&ep->domain->kit.lock);
	ret = ep->rxc ? cxi_recv_cancel(ep->rxc, context) : -FI_ENOENT;
	if (ret == -FI_ENOENT && ep->txc && ep->is_rnr)
		ret = cxi_rnr_cancel(ep, context);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

int cxi_ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct cxi_ep *ep = container_of(fid, struct cxi_ep, kit.fid.fid);
	struct cxi_addr self;
	size_t room;

	if (!addrlen)
		return -FI_EINVAL;
	if (!ep->portal)
		return -FI_EOPBADSTATE;
	self = cxi_addr_make(ep->domain->info.nic, ep->portal->pid, 0);
	room = *addrlen;
	*addrlen = sizeof(self);
	if (room < sizeof(self))
		return -FI_ETOOSMALL;
	if (!addr)
		return -FI_EINVAL;
	memcpy(addr, &self, sizeof(self));
	return 0;
}

/* --- close --- */

static bool has_sends(const struct cxi_ep *ep)
{
	if (!ep->txc || ep->stx)
		return false;
	for (int i = 0; i < ep->portal->dom_cnt; i++)
		if (!cassini_dom_is_idle(ep->portal->dom[i]))
			return true;
	return ep->txc->used || !cassini_cmdq_is_idle(ep->txc->cmdq);
}

/*
 * Operations in flight finish before the queue goes, within a bound; what software still holds for later never started
 * and vanishes.
 */
static void drain(struct cxi_ep *ep)
{
	uint64_t until = clk_now_ns(NULL) + CLOSE_WAIT_NS;

	while (has_sends(ep) && clk_now_ns(NULL) < until)
		if (!cxi_portal_progress(ep->portal))
			kit_yield(&ep->domain->kit);
}

void cxi_ep_stop(struct cxi_ep *ep)
{
	ep->kit.closing = true;
	if (!ep->kit.enabled)
		return;
	cxi_dwq_forget(ep); /* nobody waits for a count that may never come */
	drain(ep);
	cxi_portal_settle(ep->portal);
	cxi_contexts_disable(ep);
}

static int ep_close(struct fid *fid)
{
	struct cxi_ep *ep = container_of(fid, struct cxi_ep, kit.fid.fid);

	if (ep->children || (ep->portal && !LIST_EMPTY(&ep->portal->mrs))) {
		LOG_INFO("endpoint not closed: memory regions or aliases of it are open");
		return -FI_EBUSY;
	}
	if (!ep->domain->kit.forked(&ep->domain->kit)) {
		lock_acquire(&ep->domain->kit.lock);
		cxi_ep_stop(ep);
		cxi_portal_close(ep->portal);
		ep->portal = NULL; /* what a shared context has yet to say of it finds it gone */
		cxi_shared_drain(ep);
		cxi_shared_unbind(ep);
		lock_release(&ep->domain->kit.lock);
	}
	kit_ep_fini(&ep->kit);
	mem_free(ep);
	return 0;
}

/* --- open --- */

static struct fi_ops ep_fi_ops = KIT_FI_OPS(ep_close, ep_bind, cxi_ep_control);
static struct fi_ops_ep ep_ops = KIT_EP_OPS(ep_cancel, ep_getopt, ep_setopt);
static struct fi_ops_cm ep_cm_ops = KIT_CM_OPS(cxi_ep_getname);

/* Keys of the endpoint, else the domain's. */
static int choose_keys(struct cxi_ep *ep, const struct fi_ep_attr *attr)
{
	ep->keys[0] = ep->domain->key;
	ep->key_cnt = 1;
	if (!attr->auth_key || !attr->auth_key_size)
		return 0;
	return cxi_key_of_domain(ep->domain, attr->auth_key, attr->auth_key_size, &ep->keys[0]);
}

static int choose_pid(struct cxi_ep *ep, const struct fi_info *info)
{
	struct cxi_addr src;

	ep->pid = CASSINI_PID_ANY;
	if (!info->src_addr)
		return 0;
	if (info->src_addrlen != sizeof(src)) {
		LOG_WARN("source address of %zu bytes refused: a cxi address has %zu", info->src_addrlen, sizeof(src));
		return -FI_EINVAL;
	}
	memcpy(&src, info->src_addr, sizeof(src));
	ep->pid = cxi_addr_pid(&src);
	return 0;
}

void cxi_ep_set_ops(struct cxi_ep *ep)
{
	uint64_t caps = ep->kit.caps;

	if (caps & FI_MSG)
		ep->kit.fid.msg = &cxi_msg_ops;
	if (caps & FI_TAGGED)
		ep->kit.fid.tagged = &cxi_tagged_ops;
	if (caps & FI_RMA)
		ep->kit.fid.rma = &cxi_rma_ops;
	if (caps & FI_ATOMIC)
		ep->kit.fid.atomic = (struct fi_ops_atomic *)&cxi_atomic_ops.ops;
}

int cxi_ep_init(struct cxi_ep *ep, struct cxi_domain *d, enum cxi_ep_kind kind, struct fi_info *info, void *context)
{
	int ret;

	ep->domain = d;
	ep->kind = kind;
	ep->is_rnr = info->ep_attr->protocol == CXI_PROTO_RNR;
	ep->tag_not = ~(ep->is_rnr ? CXI_RNR_TAG_MASK : CXI_TAG_MASK);
	ep->directed = info->caps & FI_DIRECTED_RECV;
	ep->source = info->caps & FI_SOURCE;
	ep->source_err = info->caps & CXI_SOURCE_ERR;
	ep->tclass = info->tx_attr->tclass ? info->tx_attr->tclass : d->tclass;
	ep->msg_order = info->tx_attr->msg_order;
	ep->min_multi_recv = CXI_MIN_MULTI_RECV;
	ep->rnr_max_us = (uint64_t)d->params.rnr_max_timeout_us;
	ret = choose_pid(ep, info);
	ret = ret ? ret : choose_keys(ep, info->ep_attr);
	ret = ret ? ret : kit_ep_init(&ep->kit, &d->kit, info, cxi_ep_progress, context);
	if (ret)
		return ret;
	cxi_ep_gate(ep); /* shut, until it is enabled */
	ep->kit.tx_op_flags = cxi_defaults(ep->kit.tx_op_flags, CXI_TX_OP_FLAGS);
	ep->kit.rx_op_flags = cxi_defaults(ep->kit.rx_op_flags, CXI_RX_OP_FLAGS);
	ep->kit.inject_size = ep->is_rnr ? 0 : MIN(info->tx_attr->inject_size, (size_t)CXI_INJECT_MAX);
	if (!ep->kit.info->tx_attr->size)
		ep->kit.info->tx_attr->size = d->params.default_tx_size;
	if (!ep->kit.info->rx_attr->size)
		ep->kit.info->rx_attr->size = d->params.default_rx_size;
	lock_acquire(&d->kit.lock);
	d->has_eps = true;
	lock_release(&d->kit.lock);
	ep->kit.wait_fd = cxi_ep_wait_fd;
	ep->kit.wait_arm = cxi_ep_wait_arm;
	ep->kit.calm = calm;
	ep->kit.fid.ops = &ep_ops;
	ep->kit.fid.cm = &ep_cm_ops;
	return 0;
}

int cxi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_out, void *context)
{
	struct cxi_domain *d = container_of(domain, struct cxi_domain, kit.fid);
	struct cxi_ep *ep;
	int ret;

	if (!info || !info->ep_attr || !info->tx_attr || !info->rx_attr || !ep_out)
		return -FI_EINVAL;
	if (info->ep_attr->type != FI_EP_RDM) {
		LOG_WARN("endpoint type %d refused: cxi has FI_EP_RDM", (int)info->ep_attr->type);
		return -FI_EINVAL;
	}
	ep = mem_alloc(sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ret = cxi_ep_init(ep, d, CXI_EP, info, context);
	if (ret) {
		mem_free(ep);
		return ret;
	}
	ep->wants_stx = info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->wants_srx = info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->kit.fid.fid.ops = &ep_fi_ops;
	cxi_ep_set_ops(ep);
	*ep_out = &ep->kit.fid;
	return 0;
}
