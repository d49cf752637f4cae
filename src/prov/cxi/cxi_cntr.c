// SPDX-License-Identifier: BSD-2-Clause
// Counters over the adapter's counting events.
#include "base/mem.h"
#include "prov/cxi/cxi.h"

void cxi_cntr_count(struct kit_cntr *kc, uint64_t bytes, uint64_t ok, uint64_t err)
{
	struct cxi_cntr *c;

	if (likely(!kc))
		return;
	c = container_of(kc, struct cxi_cntr, kit);
	cassini_ct_add(c->ct, c->bytes && ok ? bytes : ok, err);
}

/* The adapter counted: the value that libfabric's calls read follows. */
static void ct_on_change(void *ctx)
{
	struct cxi_cntr *c = ctx;
	uint64_t ok, err;

	cassini_ct_get(c->ct, &ok, &err);
	kit_cntr_store(&c->kit, ok, err);
}

int cxi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr_out, void *context)
{
	struct cxi_domain *d = container_of(domain, struct cxi_domain, kit.fid);
	struct cxi_cntr *c = mem_alloc(sizeof(*c));
	int ret;

	if (!c)
		return -FI_ENOMEM;
	ret = kit_cntr_init(&c->kit, &d->kit, attr, true, context);
	if (ret)
		goto err_free;
	lock_acquire(&d->kit.lock);
	ret = cassini_ct_open(d->lni, &c->wb, &c->ct);
	if (!ret)
		cassini_ct_on_change(c->ct, ct_on_change, c);
	lock_release(&d->kit.lock);
	if (ret)
		goto err_cntr;
	*cntr_out = &c->kit.fid;
	return 0;

err_cntr:
	kit_cntr_fini(&c->kit);
err_free:
	mem_free(c);
	return ret;
}
