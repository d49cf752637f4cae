// SPDX-License-Identifier: BSD-2-Clause
// Endpoints: open, bind, enable, progress, options, close. Scalable ones are in opx_sep.c, their hardware contexts in
// opx_ctxt.c.
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kit/compat.h"
#include "kit/stubs.h"
#include "prov/opx/opx.h"

static struct opx_ep *to_ep(struct fid *fid)
{
	return container_of(fid, struct opx_ep, kit.fid.fid);
}

/* --- state --------------------------------------------------------------------------------------- */

void opx_ep_set_enabled(struct opx_ep *ep, bool on)
{
	static const uint8_t ask;

	ep->kit.enabled = on;
	ep->may_go = on ? ep->domain->kit.fork_mark : &ask;
}

int opx_ep_not_live(const struct opx_ep *ep)
{
	if (!ep->kit.enabled)
		return -FI_EOPBADSTATE;
	return kit_is_forked(ep->kit.domain) ? -FI_EIO : 0;
}

/* --- progress ------------------------------------------------------------------------------------ */

void opx_ep_kick(const struct opx_ep *ep)
{
	opx_cq_kick(ep->kit.tx_cq);
	if (ep->kit.rx_cq != ep->kit.tx_cq)
		opx_cq_kick(ep->kit.rx_cq);
}

int opx_ep_progress(struct kit_ep *kep)
{
	struct opx_ep *ep = container_of(kep, struct opx_ep, kit);

	ep->driven++;
	if (unlikely(ep->is_dozing)) {
		ep->is_dozing = false;
		opx_ep_kick(ep);
	}
	return opx_ep_drive(ep);
}

/* Not beside a thread of progress, which counts how often it is driven. */
static bool calm(struct kit_ep *kep, struct calm *c, uint32_t passed)
{
	struct opx_ep *ep = container_of(kep, struct opx_ep, kit);

	return kep->enabled && kep->is_driven && TAILQ_EMPTY(&ep->pump) && TAILQ_EMPTY(&ep->copies) &&
	       !ep->need_doorbell && opx_rel_next_ns(ep->rel) == CLK_NEVER && hfi_ctxt_calm(ep->hw, c, passed);
}

int opx_ep_drive(struct opx_ep *ep)
{
	int events;

	if (unlikely(!ep->kit.enabled))
		return 0;
	events = hfi_ctxt_poll(ep->hw);
	events += opx_rel_progress(ep->rel);
	if (unlikely(!TAILQ_EMPTY(&ep->pump) || !TAILQ_EMPTY(&ep->copies)))
		events += opx_pump(ep);
	if (ep->need_doorbell) {
		ep->need_doorbell = false;
		hfi_doorbell(ep->hw);
	}
	return events;
}

/* --- bind ---------------------------------------------------------------------------------------- */

static int too_many(const char *what, uint32_t cnt, uint32_t max)
{
	if (cnt < max)
		return 0;
	LOG_WARN("endpoint not bound: the %s has %u, the limit", what, cnt);
	return -FI_EINVAL;
}

int opx_ep_bind_check(struct opx_ep *ep, struct fid *bfid)
{
	struct kit_cq *cq = container_of(bfid, struct kit_cq, fid.fid);
	int ret = 0;

	lock_acquire(&ep->domain->kit.lock);
	if (bfid->fclass == FI_CLASS_AV)
		ret = too_many("address vector", container_of(bfid, struct kit_av, fid.fid)->ep_cnt, OPX_AV_EPS);
	else if (bfid->fclass == FI_CLASS_CNTR)
		ret = too_many("counter", container_of(bfid, struct kit_cntr, fid.fid)->ep_cnt, OPX_CQ_EPS);
	else if (bfid->fclass == FI_CLASS_CQ && ep->kit.tx_cq != cq && ep->kit.rx_cq != cq)
		ret = too_many("completion queue", cq->ep_cnt, OPX_CQ_EPS);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct opx_ep *ep = to_ep(fid);
	int ret;

	if (!bfid)
		return -FI_EINVAL;
	if (ep->domain->kit.forked(&ep->domain->kit))
		return -FI_EIO;
	if (bfid->fclass == FI_CLASS_EQ)
		return -FI_ENOSYS;
	if (bfid->fclass == FI_CLASS_MR)
		return 0; /* regions are the domain's */
	ret = opx_ep_bind_check(ep, bfid);
	return ret ? ret : kit_ep_bind(&ep->kit, bfid, flags);
}

/* --- enable -------------------------------------------------------------------------------------- */

/* Directions: none given means both. */
static bool has_dir(uint64_t caps, uint64_t group, uint64_t ours, uint64_t theirs)
{
	return (caps & group) && ((caps & ours) || !(caps & theirs));
}

int opx_ep_cq_check(struct opx_ep *ep, uint64_t dirs)
{
	uint64_t c = ep->kit.caps;
	bool tx = has_dir(c, FI_MSG | FI_TAGGED, FI_SEND, FI_RECV) ||
		  has_dir(c, FI_RMA | FI_ATOMIC, FI_READ | FI_WRITE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	bool rx = has_dir(c, FI_MSG | FI_TAGGED, FI_RECV, FI_SEND);

	if ((dirs & FI_TRANSMIT) && tx && !ep->kit.tx_cq) {
		LOG_WARN("endpoint not enabled: it can send and has no transmit completion queue");
		return -FI_ENOENT;
	}
	if (!(dirs & FI_RECV) || !rx || ep->kit.rx_cq)
		return 0;
	if (!ep->kit.tx_cq) {
		LOG_WARN("endpoint not enabled: it can receive and has no completion queue");
		return -FI_ENOENT;
	}
	LOG_WARN("endpoint without a receive completion queue: receives complete in the transmit completion queue");
	return kit_ep_bind(&ep->kit, &ep->kit.tx_cq->fid.fid,
			   FI_RECV | (ep->kit.tx_selective ? FI_SELECTIVE_COMPLETION : 0));
}

bool opx_turn_take(struct opx_domain *d, pthread_mutex_t *turn)
{
	if (d->kit.forked(&d->kit))
		return false;
	pthread_mutex_lock(turn);
	return true;
}

static int enable_in_turn(struct opx_ep *ep)
{
	int ret;

	if (ep->kit.enabled) /* by who had the turn before */
		return 0;
	if (!ep->kit.av) {
		LOG_WARN("endpoint not enabled: no address vector is bound");
		return -FI_ENOAV;
	}
	ret = opx_ep_cq_check(ep, FI_TRANSMIT | FI_RECV);
	if (ret)
		return ret;
	ep->av = container_of(ep->kit.av, struct opx_av, kit);
	ret = opx_ctxt_open(&ep, 1);
	if (ret)
		return ret;
	lock_acquire(&ep->domain->kit.lock);
	opx_ep_set_enabled(ep, true);
	ret = kit_ep_watch(&ep->kit, true);
	if (ret)
		opx_ctxt_stop(ep);
	lock_release(&ep->domain->kit.lock);
	opx_ep_kick(ep);
	return ret ? -FI_EBUSY : 0;
}

static int ep_enable(struct opx_ep *ep)
{
	int ret;

	if (!opx_turn_take(ep->domain, &ep->turn))
		return -FI_EIO;
	ret = enable_in_turn(ep);
	pthread_mutex_unlock(&ep->turn);
	return ret;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? ep_enable(to_ep(fid)) : kit_ep_control(&to_ep(fid)->kit, command, arg);
}

/* --- options, cancel, name ----------------------------------------------------------------------- */

int opx_ep_getopt(struct opx_ep *ep, int level, int name, void *val, size_t *len)
{
	size_t v = name == FI_OPT_MIN_MULTI_RECV ? ep->srx.min_multi_recv : 0;

	if (level != FI_OPT_ENDPOINT || (name != FI_OPT_MIN_MULTI_RECV && name != FI_OPT_CM_DATA_SIZE))
		return -FI_ENOPROTOOPT;
	if (!val || !len)
		return -FI_EINVAL;
	if (*len < sizeof(v))
		return -FI_ETOOSMALL;
	memcpy(val, &v, sizeof(v));
	*len = sizeof(v);
	return 0;
}

int opx_ep_setopt(struct opx_ep *ep, int level, int name, const void *val, size_t len)
{
	size_t v;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == KIT_OPT_CUDA_API_PERMITTED)
		return 0; /* nobody here would use it */
	if (name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (!val || len != sizeof(v))
		return -FI_EINVAL;
	memcpy(&v, val, sizeof(v));
	if (ep->domain->kit.forked(&ep->domain->kit))
		return -FI_EIO;
	lock_acquire(&ep->domain->kit.lock);
	ep->srx.min_multi_recv = v;
	lock_release(&ep->domain->kit.lock);
	return 0;
}

static int ep_getopt(fid_t fid, int level, int name, void *val, size_t *len)
{
	return opx_ep_getopt(to_ep(fid), level, name, val, len);
}

static int ep_setopt(fid_t fid, int level, int name, const void *val, size_t len)
{
	return opx_ep_setopt(to_ep(fid), level, name, val, len);
}

/* What is not found, or not a receive, has ended or will: the real provider says 0 too. */
ssize_t opx_ep_cancel(struct opx_ep *ep, void *context)
{
	ssize_t ret = opx_ep_state(ep);

	if (ret)
		return ret;
	lock_acquire(&ep->domain->kit.lock);
	kit_srx_cancel(&ep->srx, context);
	lock_release(&ep->domain->kit.lock);
	return 0;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	return opx_ep_cancel(to_ep(fid), context);
}

int opx_ep_name(const struct opx_addr *self, void *addr, size_t *addrlen)
{
	size_t room;

	if (!addrlen)
		return -FI_EINVAL;
	room = *addrlen;
	*addrlen = sizeof(*self);
	if (room < sizeof(*self))
		return -FI_ETOOSMALL;
	if (!addr)
		return -FI_EINVAL;
	memcpy(addr, self, sizeof(*self));
	return 0;
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct opx_ep *ep = to_ep(fid);

	if (!ep->hw) {
		LOG_INFO("an endpoint has its name once it is enabled");
		return -FI_EOPBADSTATE;
	}
	return opx_ep_name(&ep->self, addr, addrlen);
}

/* --- close --------------------------------------------------------------------------------------- */

static bool is_quiet(const struct opx_ep *ep)
{
	return TAILQ_EMPTY(&ep->pump) && TAILQ_EMPTY(&ep->copies) && opx_rel_drained(ep->rel);
}

void opx_ep_drain(struct opx_ep *ep)
{
	uint64_t until = hfi_now_ns(ep->hfi) + hfi_linger_ns(ep->hfi);

	while (!is_quiet(ep) && hfi_now_ns(ep->hfi) < until)
		if (!opx_ep_progress(&ep->kit))
			kit_yield(&ep->domain->kit);
}

void opx_ep_settle(struct opx_ep *ep)
{
	while (ep->hw && (ep->holds || hfi_ctxt_is_polled(ep->hw) || opx_rel_is_running(ep->rel)))
		kit_yield(&ep->domain->kit);
}

void opx_ep_stop(struct opx_ep *ep)
{
	if (ep->kit.enabled)
		opx_ep_drain(ep);
	opx_ep_settle(ep);
	kit_srx_fini(&ep->srx);
	if (ep->hw)
		opx_ctxt_stop(ep);
}

void opx_ep_fini(struct opx_ep *ep)
{
	kit_ep_fini(&ep->kit);
	opx_wait_fini(ep);
	pthread_mutex_destroy(&ep->turn);
	mem_free(ep);
}

static int ep_close(struct fid *fid)
{
	struct opx_ep *ep = to_ep(fid);
	struct kit_domain *d = &ep->domain->kit;

	if (!d->forked(d)) {
		lock_acquire(&d->lock);
		opx_ep_stop(ep);
		lock_release(&d->lock);
	}
	opx_ep_fini(ep);
	return 0;
}

/* --- open ---------------------------------------------------------------------------------------- */

static struct fi_ops ep_fi_ops = KIT_FI_OPS(ep_close, ep_bind, ep_control);
static struct fi_ops_ep ep_ops = KIT_EP_OPS(ep_cancel, ep_getopt, ep_setopt);
static struct fi_ops_cm ep_cm_ops = KIT_CM_OPS(ep_getname);

static void set_data_ops(struct fid_ep *fid, uint64_t caps)
{
	if (caps & FI_MSG)
		fid->msg = (struct fi_ops_msg *)&opx_msg_ops;
	if (caps & FI_TAGGED)
		fid->tagged = (struct fi_ops_tagged *)&opx_tagged_ops;
	if (caps & FI_RMA)
		fid->rma = (struct fi_ops_rma *)&opx_rma_ops;
	if (caps & FI_ATOMIC)
		fid->atomic = (struct fi_ops_atomic *)&opx_atomic_ops.ops;
}

int opx_ep_init(struct opx_ep *ep, struct opx_domain *d, struct fi_info *info, void *context)
{
	int ret = kit_ep_init(&ep->kit, &d->kit, info, opx_ep_progress, context);

	if (ret)
		return ret;
	ret = kit_srx_init(&ep->srx, &ep->kit, &opx_srx_ops, 0, UINT32_MAX, info->caps & FI_DIRECTED_RECV);
	if (ret) {
		kit_ep_fini(&ep->kit);
		return ret;
	}
	ep->domain = d;
	pthread_mutex_init(&ep->turn, NULL);
	opx_ep_set_enabled(ep, false);
	TAILQ_INIT(&ep->pump);
	TAILQ_INIT(&ep->copies);
	ep->srx.min_multi_recv = OPX_MIN_MULTI_RECV;
	ep->srx.multi_whole = true;
	ep->kit.inject_size = MIN(ep->kit.inject_size, (size_t)OPX_INJECT_MAX);
	opx_wait_init(ep);
	ep->kit.calm = calm;
	ep->kit.fid.fid.ops = &ep_fi_ops;
	ep->kit.fid.ops = &ep_ops;
	ep->kit.fid.cm = &ep_cm_ops;
	set_data_ops(&ep->kit.fid, info->caps);
	return 0;
}

int opx_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_out, void *context)
{
	struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	struct opx_ep *ep;
	int ret;

	if (!info || !info->ep_attr || !info->tx_attr || !info->rx_attr || !ep_out)
		return -FI_EINVAL;
	if (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC) {
		LOG_WARN("endpoint type %d refused: opx has FI_EP_RDM", (int)info->ep_attr->type);
		return -FI_EINVAL;
	}
	if (info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT || info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT)
		return -FI_ENOSYS;
	ep = mem_alloc(sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ret = opx_ep_init(ep, d, info, context);
	if (ret) {
		mem_free(ep);
		return ret;
	}
	*ep_out = &ep->kit.fid;
	return 0;
}
