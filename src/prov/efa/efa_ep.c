// SPDX-License-Identifier: BSD-2-Clause
// The RDM endpoint as an object: open, enable, progress, close.
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kit/stubs.h"
#include "prov/efa/efa_obj.h"

#define WATCH_SKIP 16 /* progress calls between two looks at the clock if they are idle, */
#define WATCH_BUSY 16 /* or so many times more if they are busy */
#define CLOSE_WAIT_NS (5 * NS_PER_SEC) /* fi_close lets sends finish for this long; the adapter ends the rest */

static struct efa_ep *to_ep(struct fid *fid)
{
	return container_of(fid, struct efa_ep, kit.fid.fid);
}

/*
 * What a poll does beside the adapter's. Whoever makes something to do sets is_busy; that there is nothing any more is
 * found out here.
 */
static __attribute__((noinline)) int progress_rest(struct efa_ep *ep, int events)
{
	if (ep->user_qp)
		events += efanic_poll(ep->user_qp);
	if (!STAILQ_EMPTY(&ep->queued))
		efa_pkts_retry(ep, clk_now_ns(NULL));
	if (!TAILQ_EMPTY(&ep->pump))
		efa_tx_pump(ep);
	if (ep->has_lost)
		efa_peers_bury(ep);
	if (ep->watch_skip < 0) {
		ep->watch_skip = WATCH_SKIP - 1;
		if (!events || ++ep->watch_busy % WATCH_BUSY == 0)
			efa_peers_watch(ep);
	}
	if (ep->need_doorbell) {
		efanic_doorbell(ep->qp);
		ep->need_doorbell = false;
	}
	ep->is_busy = ep->user_qp || !STAILQ_EMPTY(&ep->queued) || !TAILQ_EMPTY(&ep->pump) || ep->has_lost;
	return events;
}

int efa_ep_progress(struct kit_ep *kep)
{
	struct efa_ep *ep = container_of(kep, struct efa_ep, kit);
	int events = efanic_poll(ep->qp);

	return unlikely(--ep->watch_skip < 0 || ep->is_busy) ? progress_rest(ep, events) : events;
}

/* What a progress pass asks for beside the adapter's poll. */
static bool calm(struct kit_ep *kep, struct calm *c, uint32_t passed)
{
	struct efa_ep *ep = container_of(kep, struct efa_ep, kit);

	ep->watch_skip -= (int32_t)passed;
	return kep->enabled && !ep->is_busy && efanic_calm(ep->qp, c, passed);
}

static int progress_none(struct kit_ep *kep)
{
	return 0;
}

/* Of ep->live: messages go on, and they are messages like all others. */
static void set_enabled(struct efa_ep *ep, bool on)
{
	static const uint8_t ask;

	ep->kit.enabled = on;
	ep->kit.progress = on ? efa_ep_progress : progress_none;
	ep->live = on && !ep->has_other_start ? ep->domain->kit.fork_mark : &ask;
	ep->is_busy = true;
}

static int wait_fd(struct kit_ep *kep, unsigned i)
{
	struct efa_ep *ep = container_of(kep, struct efa_ep, kit);
	struct efanic_qp *qp[] = {ep->qp, ep->user_qp};

	return i < ARRAY_SIZE(qp) && qp[i] ? efanic_wait_fd(qp[i]) : -1;
}

/* What waits for room is tried again by progress alone. */
static int wait_arm(struct kit_ep *kep)
{
	struct efa_ep *ep = container_of(kep, struct efa_ep, kit);

	if (!kep->enabled)
		return 0;
	if (!STAILQ_EMPTY(&ep->queued) || !TAILQ_EMPTY(&ep->pump) || ep->has_lost || efanic_arm(ep->qp))
		return -FI_EAGAIN;
	return ep->user_qp ? efanic_arm(ep->user_qp) : 0;
}

void efa_ep_event(struct efa_ep *ep, int err, int prov_errno, const char *why)
{
	struct fi_eq_err_entry e = {
		.fid = &ep->kit.fid.fid,
		.context = ep->kit.fid.fid.context,
		.err = err,
		.prov_errno = prov_errno,
	};

	/* peers can cause some of these as often as they like */
	if (ep->kit.eq && kit_eq_unread(ep->kit.eq) < KIT_LATE_MAX)
		kit_eq_push_err(ep->kit.eq, &e, why, strlen(why) + 1);
	LOG_WARN("endpoint event %d (%s): %s", prov_errno, efa_strerror((unsigned)prov_errno), why);
}

/* --- enable ---------------------------------------------------------------------------------------------- */

static bool shm_allowed(const struct efa_ep *ep)
{
	return ep->domain->params.enable_shm_transfer && ep->shm_permitted &&
	       !((ep->kit.caps & FI_REMOTE_COMM) && !(ep->kit.caps & FI_LOCAL_COMM));
}

static void qps_close(struct efa_ep *ep)
{
	kit_ep_watch(&ep->kit, false);
	LIST_REMOVE(ep, domain_link);
	set_enabled(ep, false);
	efa_zcpy_close(ep);
	efanic_qp_close(ep->qp);
	ep->qp = NULL;
}

static int ep_enable(struct efa_ep *ep)
{
	const struct efanic_dev_attr *dev = &ep->domain->attr;
	const struct efa_params *prm = &ep->domain->params;
	struct efanic_qp_attr attr = {
		.type = EFANIC_QP_SRD,
		.sq_depth = dev->max_sq_wr,
		.rq_depth = (uint32_t)MIN((size_t)dev->max_rq_wr, ep->kit.info->rx_attr->size),
		.qkey = ep->self.qkey,
		.unsolicited_write_recv = ep->unsolicited,
		.no_shm = !shm_allowed(ep),
		.sl = ep->kit.info->tx_attr->tclass == FI_TC_LOW_LATENCY ? 8 : 0,
		.on_send = efa_on_eager,
		.on_wc = efa_on_wc,
		.ctx = ep,
	};
	int ret = kit_ep_enable_check(&ep->kit);

	if (ret)
		return ret;
	if (prm->tx_queue_size > 0)
		attr.sq_depth = MIN(attr.sq_depth, (uint32_t)prm->tx_queue_size);
	lock_acquire(&ep->domain->kit.lock);
	if (ep->kit.enabled) /* perhaps by another thread, just now */
		goto out;
	if (efa_zcpy_choose(ep, !attr.no_shm)) {
		attr.on_send = NULL; /* messages come to the other queue pair */
		attr.on_wc = efa_zcpy_on_wc;
	}
	ep->has_other_start = ep->zcpy_rx || ep->msg_prefix;
	ret = efanic_qp_open(ep->domain->nic, &attr, &ep->qp);
	if (ret)
		goto out;
	ret = efanic_qp_to_rts(ep->qp, ep->rnr_retry);
	if (!ret)
		ret = efanic_post_recv_credits(ep->qp, attr.rq_depth);
	if (!ret && ep->zcpy_rx)
		ret = efa_zcpy_open(ep, &attr);
	if (ret) {
		efanic_qp_close(ep->qp);
		ep->qp = NULL;
		goto out;
	}
	ep->self.qpn = efanic_qp_qpn(ep->qp);
	ep->local_extra = EFA_X_DELIVERY_COMPLETE | EFA_X_CONNID_HDR | EFA_X_RUNT | EFA_X_READ_NACK | EFA_X_REFUSED |
			  (ep->use_read ? EFA_X_RDMA_READ : 0) | (ep->use_write ? EFA_X_RDMA_WRITE : 0) |
			  (ep->unsolicited ? EFA_X_UNSOLICITED_WRITE_RECV : 0) | (ep->zcpy_rx ? EFA_X_USER_RECV_QP : 0);
	LIST_INSERT_HEAD(&ep->domain->eps, ep, domain_link);
	set_enabled(ep, true);
	ret = kit_ep_watch(&ep->kit, true);
	if (ret)
		qps_close(ep);
out:
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? ep_enable(to_ep(fid)) : kit_ep_control(&to_ep(fid)->kit, command, arg);
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	/*
	 * Until libfabric 2.2 an efa address vector served one endpoint; programs that rely on more fail on those
	 * releases.
	 */
	if (bfid && bfid->fclass == FI_CLASS_AV && to_ep(fid)->domain->kit.api_version < KIT_V(2, 2) &&
	    container_of(bfid, struct kit_av, fid.fid)->ep_cnt) {
		LOG_WARN("a second endpoint on one address vector refused: efa allows that from API version 2.2 on");
		return -FI_ENOSYS;
	}
	return kit_ep_bind(&to_ep(fid)->kit, bfid, flags);
}

/* --- close ------------------------------------------------------------------------------------------------- */

/* Nothing of ours is on its way: no packet waits, no transfer is half sent. */
static bool is_quiet(const struct efa_ep *ep)
{
	return STAILQ_EMPTY(&ep->queued) && TAILQ_EMPTY(&ep->pump) && !ep->tx_outstanding &&
	       !slab_used(&ep->pkt_small) && !slab_used(&ep->pkt_large) && efanic_sq_is_empty(ep->qp);
}

static void drain(struct efa_ep *ep)
{
	uint64_t until = clk_now_ns(NULL) + CLOSE_WAIT_NS;

	while (!is_quiet(ep) && clk_now_ns(NULL) < until)
		if (!efa_ep_progress(&ep->kit))
			kit_yield(&ep->domain->kit);
}

static void fini_slabs(struct efa_ep *ep)
{
	slab_fini(&ep->tx_slab);
	slab_fini(&ep->rx_slab);
	slab_fini(&ep->pkt_small);
	slab_fini(&ep->pkt_large);
	slab_fini(&ep->held_small);
	slab_fini(&ep->held_large);
	slab_fini(&ep->peer_slab);
}

static void ep_stop(struct efa_ep *ep)
{
	struct efa_pkt *pkt;

	lock_acquire(&ep->domain->kit.lock);
	ep->kit.closing = true;
	if (ep->kit.enabled) {
		drain(ep);
		qps_close(ep);
	}
	while ((pkt = STAILQ_FIRST(&ep->queued))) {
		STAILQ_REMOVE_HEAD(&ep->queued, link);
		efa_pkt_end(pkt, EFANIC_FLUSHED);
	}
	efa_peers_stop(ep);
	kit_srx_fini(&ep->srx);
	efa_peers_fini(ep);
	lock_release(&ep->domain->kit.lock);
}

static int ep_close(struct fid *fid)
{
	struct efa_ep *ep = to_ep(fid);

	if (!ep->domain->kit.forked(&ep->domain->kit))
		ep_stop(ep);
	fini_slabs(ep);
	kit_ep_fini(&ep->kit);
	mem_free(ep);
	return 0;
}

/* --- the rest of the calls ------------------------------------------------------------------------------------ */

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct efa_ep *ep = to_ep(fid);
	ssize_t ret;

	if (efa_ep_state(&ep->kit) == -FI_EIO)
		return -FI_EIO;
	if (ep->zcpy_rx) {
		LOG_WARN("fi_cancel refused: the receive is the adapter's in zero-copy receive mode");
		return -FI_EOPNOTSUPP;
	}
	lock_acquire(&ep->domain->kit.lock);
	ret = kit_srx_cancel(&ep->srx, context);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	return efa_addr_give(&to_ep(fid)->self, addr, addrlen);
}

static struct fi_ops ep_fi_ops = KIT_FI_OPS(ep_close, ep_bind, ep_control);
static struct fi_ops_ep ep_ops = KIT_EP_OPS(ep_cancel, efa_ep_getopt, efa_ep_setopt);
static struct fi_ops_cm ep_cm_ops = KIT_CM_OPS(ep_getname);

/* --- open ---------------------------------------------------------------------------------------------------- */

static int choose_rdma(struct efa_ep *ep)
{
	const struct efanic_dev_attr *dev = &ep->domain->attr;
	bool set = kit_param_is_set(&g_efa_prov, "use_device_rdma");
	bool old_device = dev->vendor_part_id == 0xefa0 || dev->vendor_part_id == 0xefa1;
	bool on = set ? ep->domain->params.use_device_rdma
		      : ep->domain->kit.api_version >= KIT_V(1, 18) || !old_device;

	if (set && on && !(dev->device_caps & EFANIC_CAP_RDMA_READ)) {
		LOG_WARN("FI_EFA_USE_DEVICE_RDMA=1 but device %s has no RDMA read", dev->name);
		return -FI_EOPNOTSUPP;
	}
	ep->use_read = on && (dev->device_caps & EFANIC_CAP_RDMA_READ);
	ep->use_write = on && (dev->device_caps & EFANIC_CAP_RDMA_WRITE);
	ep->unsolicited = ep->domain->params.use_unsolicited_write_recv &&
			  (dev->device_caps & EFANIC_CAP_UNSOLICITED_WRITE_RECV);
	return 0;
}

static const struct kit_srx_ops srx_ops = {.start = efa_rx_start, .discard = efa_rx_discard, .source = efa_rx_source};

static int init_slabs(struct efa_ep *ep)
{
	int ret = slab_init(&ep->tx_slab, sizeof(struct efa_tx), CACHE_LINE, 64, 0);

	ret = ret ? ret : slab_init(&ep->rx_slab, sizeof(struct efa_rx), CACHE_LINE, 64, 0);
	ret = ret ? ret : slab_init(&ep->pkt_small, sizeof(struct efa_pkt) + EFA_PKT_SMALL, CACHE_LINE, 64, 0);
	ret = ret ? ret : slab_init(&ep->pkt_large, sizeof(struct efa_pkt) + EFA_PKT_LARGE, CACHE_LINE, 16, 0);
	ret = ret ? ret : slab_init(&ep->held_small, sizeof(struct efa_held) + EFA_HELD_SMALL, CACHE_LINE, 64, 0);
	ret = ret ? ret : slab_init(&ep->held_large, sizeof(struct efa_held) + EFA_MTU, CACHE_LINE, 16, 0);
	return ret ? ret : slab_init(&ep->peer_slab, sizeof(struct efa_peer), CACHE_LINE, 16, 0);
}

static void init_limits(struct efa_ep *ep, const struct fi_info *info)
{
	ep->max_msg_size = ep->max_tagged_size = ep->max_rma_size = ep->max_atomic_size = info->ep_attr->max_msg_size;
	ep->inject_msg = ep->inject_tagged = ep->inject_rma = ep->inject_atomic = info->tx_attr->inject_size;
	ep->tx_max = (uint32_t)info->tx_attr->size;
	ep->msg_prefix = info->mode & FI_MSG_PREFIX ? (uint32_t)info->ep_attr->msg_prefix_size : 0;
	ep->rnr_retry = 3;
	ep->shm_permitted = true;
	ep->kit.inject_size = info->tx_attr->inject_size;
	memcpy(ep->self.gid, ep->domain->attr.gid, 16);
	ep->self.host = ep->domain->attr.host;
	do
		ep->self.qkey = (uint32_t)rng_entropy() & 0x7fffffff;
	while (!ep->self.qkey);
}

int efa_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_out, void *context)
{
	struct efa_domain *d = container_of(domain, struct efa_domain, kit.fid);
	struct efa_ep *ep;
	int ret;

	if (!info->tx_attr || !info->rx_attr)
		return -FI_EINVAL;
	ep = mem_alloc(sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = d;
	ep->kind = d->kind;
	quota_book_init(&ep->quota, QUOTA_OWNER, efa_limits, EFA_Q_NUM);
	STAILQ_INIT(&ep->queued);
	TAILQ_INIT(&ep->pump);
	LIST_INIT(&ep->orphans);
	LIST_INIT(&ep->rx_orphans);
	LIST_INIT(&ep->all_peers);
	TAILQ_INIT(&ep->strangers);
	TAILQ_INIT(&ep->past);
	init_limits(ep, info);
	ret = choose_rdma(ep);
	if (!ret)
		ret = init_slabs(ep);
	if (ret)
		goto err_slabs;
	ret = kit_ep_init(&ep->kit, &d->kit, info, progress_none, context);
	if (ret)
		goto err_slabs;
	set_enabled(ep, false);
	ep->kit.wait_fd = wait_fd;
	ep->kit.wait_arm = wait_arm;
	ep->kit.calm = calm;
	ep->kit.is_driven = !d->auto_progress;
	ret = kit_srx_init(&ep->srx, &ep->kit, &srx_ops, 0, (uint32_t)info->rx_attr->size,
			   info->caps & FI_DIRECTED_RECV);
	if (ret)
		goto err_ep;
	ep->srx.min_multi_recv = EFA_INJECT_NET;
	ep->kit.fid.fid.ops = &ep_fi_ops;
	ep->kit.fid.ops = &ep_ops;
	ep->kit.fid.cm = &ep_cm_ops;
	ep->kit.fid.msg = (struct fi_ops_msg *)(uintptr_t)&efa_msg_ops;
	ep->kit.fid.tagged = (struct fi_ops_tagged *)(uintptr_t)&efa_tagged_ops;
	ep->kit.fid.rma = (struct fi_ops_rma *)(uintptr_t)&efa_rma_ops;
	ep->kit.fid.atomic = (struct fi_ops_atomic *)(uintptr_t)&efa_atomic_ops.ops;
	*ep_out = &ep->kit.fid;
	return 0;

err_ep:
	kit_ep_fini(&ep->kit);
err_slabs:
	fini_slabs(ep);
	mem_free(ep);
	return ret;
}
