// SPDX-License-Identifier: BSD-2-Clause
// The fabric object: where everything a provider opens hangs.
#include "kit/kit_int.h"

/*
 * Ops tables are the provider's static ones. Filling their gaps again for a second object writes
 * nothing, so opening from two threads is safe once the first open has finished; opens of the very
 * first object race harmlessly on equal values.
 */
static void fi_ops_fill(struct fi_ops *ops)
{
	if (!ops->size)
		ops->size = sizeof(*ops);
	if (!ops->close)
		ops->close = kit_no_fi_ops.close;
	if (!ops->bind)
		ops->bind = kit_no_bind;
	if (!ops->control)
		ops->control = kit_no_control;
	if (!ops->ops_open)
		ops->ops_open = kit_no_ops_open;
}

static void fabric_ops_fill(struct fi_ops_fabric *ops)
{
	if (!ops->size)
		ops->size = sizeof(*ops);
	if (!ops->domain)
		ops->domain = kit_no_fabric_ops.domain;
	if (!ops->passive_ep)
		ops->passive_ep = kit_no_fabric_ops.passive_ep;
	if (!ops->eq_open)
		ops->eq_open = kit_eq_open;
	if (!ops->wait_open)
		ops->wait_open = kit_wait_open;
	if (!ops->trywait)
		ops->trywait = kit_trywait;
	if (!ops->domain2)
		ops->domain2 = kit_no_fabric_ops.domain2;
}

int kit_fabric_init(struct kit_fabric *f, const struct fi_provider *prov,
		    const struct fi_fabric_attr *attr, struct fi_ops *fi_ops,
		    struct fi_ops_fabric *ops, void *context)
{
	if (!attr || !fi_ops || !ops)
		return -FI_EINVAL;
	fi_ops_fill(fi_ops);
	fabric_ops_fill(ops);
	f->prov = prov;
	f->api_version = attr->api_version;
	atomic_store_explicit(&f->refs, 0, memory_order_relaxed);
	f->fid.fid.fclass = FI_CLASS_FABRIC;
	f->fid.fid.context = context;
	f->fid.fid.ops = fi_ops;
	f->fid.ops = ops;
	f->fid.api_version = attr->api_version;
	return 0;
}

int kit_fabric_fini(struct kit_fabric *f)
{
	return kit_busy(&f->refs) ? -FI_EBUSY : 0;
}
