// SPDX-License-Identifier: BSD-2-Clause
// The hardware contexts of endpoints: which unit, opening them, and what follows from them for the protocols. Source:
// doc/facts/opx.md#opening-a-context, #size-classes, #sdma.
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/log.h"
#include "prov/opx/opx.h"

/* --- what the adapter calls: the reliability of the context, once there is one ------------------------------------ */

/* Nobody polls an endpoint that is not enabled, and an enabled one has its reliability. */
static void on_pkt(void *ctx, const struct hfi_pkt *pkt)
{
	struct opx_ep *ep = ctx;

	opx_rel_rx(ep->rel, pkt);
}

static bool on_service(void *ctx, const struct hfi_pkt *pkt)
{
	struct opx_ep *ep = ctx;

	return ep->rel && opx_rel_service(ep->rel, pkt);
}

static void on_gone(void *ctx, struct hfi_dst *dst, int status)
{
	struct opx_ep *ep = ctx;

	if (ep->rel)
		opx_rel_gone(ep->rel, dst, status);
}

/* --- which unit --------------------------------------------------------------------------------------------------- */

/* Units to try, in this order. Return: how many; 0 the reason was logged. */
static int candidates(struct opx_domain *d, int *order)
{
	struct hfi_unit_attr units[HFI_UNIT_MAX];
	int free[HFI_UNIT_MAX], cnt, n = 0, unit = OPX_UNIT_DEFAULT;
	struct opx_where w;
	char err[512] = "";

	cnt = MIN(hfi_unit_cnt(err, sizeof(err)), HFI_UNIT_MAX);
	for (int i = 0; i < cnt; i++) {
		if (hfi_unit_query(i, &units[n]))
			continue;
		free[n] = hfi_unit_free_ctxts(i);
		n++;
	}
	opx_where_now(&w);
	if (d->params.hfi_select_set) {
		unit = opx_select_unit(d->params.hfi_select, &w, units, n, err, sizeof(err));
		if (unit < 0) {
			LOG_WARN("context not opened: FI_OPX_HFI_SELECT=\"%.128s\": %s", d->params.hfi_select, err);
			return 0;
		}
	}
	if (unit != OPX_UNIT_DEFAULT) {
		order[0] = unit;
		return 1;
	}
	n = opx_select_default(&w, units, free, n, d->unit, order);
	if (!n)
		LOG_WARN("context not opened: none of %d HFI units of this host is ACTIVE%s%s", cnt, *err ? ": " : "",
			 err);
	return n;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static int open_one(struct opx_ep *ep, int ctxt, unsigned first)
{
	const struct opx_params *prm = &ep->domain->params;
	struct hfi_ctxt_attr attr = {
		.ctxt = ctxt,
		.first = first,
		.pkey = (uint16_t)prm->pkey,
		.sl = (uint8_t)prm->sl,
		.selinux = prm->selinux,
		.on_pkt = on_pkt,
		.on_service = on_service,
		.on_gone = on_gone,
		.on_copy = opx_on_copy,
		.ctx = ep,
	};

	memcpy(attr.uuid, prm->job, sizeof(attr.uuid));
	return hfi_ctxt_open(ep->hfi, &attr, &ep->hw);
}

static void hw_close(struct opx_ep *ep)
{
	struct hfi_ctxt *hw = ep->hw;

	ep->hw = NULL;
	hfi_ctxt_close(hw);
}

static void close_all(struct opx_ep **eps, int cnt)
{
	struct lock *lock = &eps[0]->domain->kit.lock;

	lock_acquire(lock);
	for (int i = 0; i < cnt; i++)
		hw_close(eps[i]);
	lock_release(lock);
}

/* @cnt contexts from @base on. Return: 0; -errno, then *@tried is the number after the one that was refused. */
static int open_run(struct opx_ep **eps, int cnt, int base, int *tried)
{
	for (int i = 0; i < cnt; i++) {
		int ret = open_one(eps[i], base + i, 0);

		if (ret) {
			*tried = base + i + 1;
			close_all(eps, i);
			return ret;
		}
	}
	return 0;
}

/*
 * Others hold contexts too, and may look for a run of their own at this moment. So a run begins at a multiple of its
 * length: two that want the same one meet at its first context, and who has that gets the others. Were they to meet in
 * the middle, who is refused would go on right before the other, refuse him the next number, and so on to the end of
 * the unit. Only where no such run is left it is the first one that is long enough.
 */
static int open_runs(struct opx_ep **eps, int cnt, int nctxts)
{
	int tried, ret = -EBUSY;

	for (int base = 0; ret == -EBUSY && base + cnt <= nctxts; base += cnt)
		ret = open_run(eps, cnt, base, &tried);
	for (int base = 0; ret == -EBUSY && base + cnt <= nctxts; base = tried)
		ret = open_run(eps, cnt, base, &tried);
	return ret;
}

/*
 * The search for a single context begins anywhere. Jobs of a cluster have a UUID each; on a desk two jobs of a user
 * mostly share the default one, and then a message to a process that has just died would reach whoever has its context
 * next. So contexts go round with the numbers of processes.
 */
static int open_on(struct opx_domain *d, int unit, struct opx_ep **eps, int cnt)
{
	struct hfi *hfi;
	int ret = opx_domain_hfi(d, unit, &hfi), nctxts;

	if (ret)
		return ret;
	for (int i = 0; i < cnt; i++)
		eps[i]->hfi = hfi;
	if (cnt == 1)
		return open_one(eps[0], -1, (unsigned)getpid());
	nctxts = (int)hfi_attr(hfi)->nctxts;
	ret = open_runs(eps, cnt, nctxts);
	if (ret == -EBUSY)
		LOG_WARN("unit %d has no %d free contexts with consecutive numbers: %d of %d are free; "
			 "SOFTFABRIC_OPX=\"contexts=...\" gives up to %d, \"units=...\" another adapter",
			 unit, cnt, hfi_unit_free_ctxts(unit), nctxts, HFI_CTXT_MAX);
	return ret;
}

/* The thread that opens stays where it is. */
static void force_affinity(void)
{
	int cpu = sched_getcpu();
	cpu_set_t set;

	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		LOG_WARN("FI_OPX_FORCE_CPUAFFINITY: thread not bound to core %d: %s", cpu, strerror(errno));
}

/* --- what follows from a context ---------------------------------------------------------------------------------- */

static void set_name(struct opx_ep *ep, const struct hfi_ctxt_info *first)
{
	const struct hfi_ctxt_info *c = hfi_ctxt_info(ep->hw);
	uint16_t flag = ep->sep ? OPX_ADDR_SEP : 0;

	ep->self = (struct opx_addr){
		.hfi1_rx = (uint8_t)first->ctxt,
		.hfi1_unit = (uint8_t)c->unit,
		.reliability_rx = (uint8_t)first->ctxt,
		.endpoint_id = le16_put((uint16_t)(first->send_ctxt | flag)),
		.lid = be16_put(c->lid),
		.rx_index = (uint8_t)(ep->sep ? ep->sep_index : c->send_ctxt),
	};
}

static void set_thresholds(struct opx_ep *ep)
{
	const struct hfi_ctxt_info *c = hfi_ctxt_info(ep->hw);
	const struct opx_params *p = &ep->domain->params;

	ep->mtu = opx_mtu(c->mtu);
	ep->eager_max = MIN((size_t)OPX_EAGER_MAX, ((size_t)MAX(c->credits, 2u) - 1) * HFI_PIO_BLOCK);
	ep->eager_max = MIN(ep->eager_max, (size_t)ep->mtu);
	ep->rzv_min = (size_t)p->rzv_min_payload_bytes;
	ep->packet_max = MAX((size_t)OPX_INJECT_MAX, MIN(ep->eager_max, ep->rzv_min - 1));
	ep->mp_max = p->mp_eager_disable ? 0 : ep->rzv_min - 1;
	ep->sdma_min = p->sdma_disable ? SIZE_MAX : (size_t)p->sdma_min_payload_bytes;
	ep->bounce_max = (size_t)p->sdma_bounce_buf_threshold;
	ep->use_tid = p->expected_receive_enable;
}

static int start_one(struct opx_ep *ep)
{
	int ret;

	set_thresholds(ep);
	memset(&ep->stats, 0, sizeof(ep->stats));
	ret = opx_peers_init(ep);
	if (!ret)
		LIST_INSERT_HEAD(&ep->domain->eps, ep, domain_link);
	return ret;
}

static int start_all(struct opx_domain *d, struct opx_ep **eps, int cnt)
{
	int ret = 0, n = 0;

	lock_acquire(&d->kit.lock);
	for (; n < cnt && !ret; n++) {
		set_name(eps[n], hfi_ctxt_info(eps[0]->hw));
		ret = start_one(eps[n]);
	}
	for (n--; ret && n-- > 0;) { /* without the one that failed */
		LIST_REMOVE(eps[n], domain_link);
		opx_peers_fini(eps[n]);
	}
	lock_release(&d->kit.lock);
	if (ret)
		LOG_WARN("context not opened: no memory for its peers");
	return ret;
}

int opx_ctxt_open(struct opx_ep **eps, int cnt)
{
	struct opx_domain *d = eps[0]->domain;
	int order[HFI_UNIT_MAX], n, ret = -FI_ENODEV;

	if (d->params.pkey_refused) {
		LOG_WARN("context not opened: FI_OPX_PKEY is set and is no partition key");
		return -FI_EBUSY;
	}
	n = candidates(d, order);
	for (int i = 0; i < n && ret; i++) {
		ret = open_on(d, order[i], eps, cnt);
		if (!ret && order[i] != d->unit)
			LOG_INFO("context of domain ib%d opened on unit %d", d->unit, order[i]);
	}
	if (ret == -EBUSY) /* who holds them was logged */
		LOG_WARN(
			"context not opened: none is free on %s; a process of Open MPI opens one for mtl/ofi and one "
			"for btl/ofi, and "
			"\"--mca btl ^ofi\" saves the second",
			n > 1 ? "any ACTIVE unit" : "the unit");
	else if (ret)
		LOG_WARN("context not opened: %s", strerror(-ret));
	if (ret)
		return -FI_EBUSY;
	if (start_all(d, eps, cnt)) {
		close_all(eps, cnt);
		return -FI_EBUSY;
	}
	if (d->params.force_cpuaffinity)
		force_affinity();
	return 0;
}

int opx_ctxt_reopen(struct opx_ep *ep)
{
	struct lock *lock = &ep->domain->kit.lock;
	int ret = open_one(ep, ep->self.hfi1_rx + ep->sep_index, 0);

	if (ret)
		return -FI_EBUSY; /* logged */
	lock_acquire(lock);
	ret = start_one(ep);
	if (ret)
		hw_close(ep);
	lock_release(lock);
	return ret ? -FI_EBUSY : 0;
}

void opx_ctxt_stop(struct opx_ep *ep)
{
	kit_ep_watch(&ep->kit, false);
	opx_ep_set_enabled(ep, false);
	LIST_REMOVE(ep, domain_link);
	opx_stats_closed(ep);
	opx_peers_fini(ep);
	hw_close(ep);
}
