// SPDX-License-Identifier: BSD-2-Clause
// The domain object: one adapter opened, one lock, and what was negotiated in fi_getinfo.
#include "kit/kit_int.h"

#include "kit/compat.h"

/* fi_domain_bind: an EQ, once; endpoints opened later use it unless they bind their own. */
static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct kit_domain *d = container_of(fid, struct kit_domain, fid.fid);
	struct kit_eq *eq = (struct kit_eq *)bfid;

	if (!bfid || bfid->fclass != FI_CLASS_EQ) {
		KIT_WARN(d->prov, FI_LOG_DOMAIN, "only an event queue can be bound to a domain\n");
		return -FI_EINVAL;
	}
	/* FI_REG_MR asks for asynchronous registration, which we do not have. */
	if (flags || kit_eq_fabric(eq) != d->fabric || d->eq)
		return -FI_EINVAL;
	d->eq = eq;
	kit_eq_ref(eq);
	return 0;
}

static void fi_ops_fill(struct fi_ops *ops)
{
	ops->size = sizeof(*ops);
	if (!ops->close)
		ops->close = kit_no_fi_ops.close;
	if (!ops->bind)
		ops->bind = domain_bind;
	if (!ops->control)
		ops->control = kit_no_control;
	if (!ops->ops_open)
		ops->ops_open = kit_no_ops_open;
	if (!ops->tostr)
		ops->tostr = kit_no_tostr;
	if (!ops->ops_set)
		ops->ops_set = kit_no_ops_set;
}

static void ops_fill(struct fi_ops_domain *ops)
{
	const struct fi_ops_domain *no = &kit_no_domain_ops;

	ops->size = sizeof(*ops);
	if (!ops->av_open)
		ops->av_open = no->av_open;
	if (!ops->cq_open)
		ops->cq_open = no->cq_open;
	if (!ops->endpoint)
		ops->endpoint = no->endpoint;
	if (!ops->scalable_ep)
		ops->scalable_ep = no->scalable_ep;
	if (!ops->cntr_open)
		ops->cntr_open = no->cntr_open;
	if (!ops->poll_open)
		ops->poll_open = kit_poll_open;
	if (!ops->stx_ctx)
		ops->stx_ctx = no->stx_ctx;
	if (!ops->srx_ctx)
		ops->srx_ctx = no->srx_ctx;
	if (!ops->query_atomic)
		ops->query_atomic = no->query_atomic;
	if (!ops->query_collective)
		ops->query_collective = no->query_collective;
	if (!ops->endpoint2)
		ops->endpoint2 = no->endpoint2;
}

/* The two modes of libfabric 1.0 in today's bits. */
static uint64_t mr_mode_today(const struct fi_info *info)
{
	uint64_t mode = (uint32_t)info->domain_attr->mr_mode;

	if (mode & KIT_MR_BASIC)
		mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	else if (mode & KIT_MR_SCALABLE)
		mode = 0;
	if (info->mode & KIT_LOCAL_MR)
		mode |= FI_MR_LOCAL;
	return mode;
}

int kit_domain_init(struct kit_domain *d, struct kit_fabric *f, const struct fi_info *info,
		    const struct fi_ops *fi_ops, const struct fi_ops_domain *ops, void *context)
{
	const struct fi_domain_attr *a = info ? info->domain_attr : NULL;

	if (!a || !fi_ops || !ops)
		return -FI_EINVAL;
	d->fi_ops = *fi_ops;
	fi_ops_fill(&d->fi_ops);
	d->ops = *ops;
	ops_fill(&d->ops);
	d->fabric = f;
	d->prov = f->prov;
	d->lock = (struct lock){0};
	atomic_store_explicit(&d->refs, 0, memory_order_relaxed);
	d->api_version = f->api_version;
	d->caps = info->caps;
	d->mr_mode = mr_mode_today(info);
	d->threading = a->threading;
	d->progress = a->data_progress;
	d->av_type = a->av_type;
	d->resource_mgmt = a->resource_mgmt;
	d->eq = NULL;
	d->polls = NULL;
	d->stats = NULL;
	d->idle = NULL;
	d->forked = NULL;
	kit_domain_mark(d, NULL);
	d->mr_open = NULL;
	d->fid.fid.fclass = FI_CLASS_DOMAIN;
	d->fid.fid.context = context;
	d->fid.fid.ops = &d->fi_ops;
	d->fid.ops = &d->ops;
	d->fid.mr = &kit_mr_ops;
	kit_ref(&f->refs);
	return 0;
}

void kit_yield(struct kit_domain *d)
{
	lock_release(&d->lock);
	if (d->idle)
		d->idle(d);
	lock_acquire(&d->lock);
}

void kit_domain_mark(struct kit_domain *d, const uint8_t *mark)
{
	static const uint8_t ask;

	d->fork_mark = mark ? mark : &ask;
}

int kit_domain_fini(struct kit_domain *d)
{
	if (kit_busy(&d->refs))
		return -FI_EBUSY;
	if (d->eq) {
		kit_eq_forget(d->eq, &d->fid.fid);
		kit_eq_unref(d->eq);
	}
	d->eq = NULL;
	kit_unref(&d->fabric->refs);
	return 0;
}
