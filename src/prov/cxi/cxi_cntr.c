// SPDX-License-Identifier: BSD-2-Clause
// Counters over the adapter's counting events. Source: doc/facts/cxi.md#counters.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "fi_cxi_ext.h"
#include "kit/stubs.h"
#include "prov/cxi/cxi.h"

static struct cxi_cntr *to_cntr(struct fid *fid)
{
	return container_of(fid, struct cxi_cntr, kit.fid.fid);
}

static struct cxi_domain *domain_of(const struct cxi_cntr *c)
{
	return container_of(c->kit.domain, struct cxi_domain, kit);
}

void cxi_cntr_count(struct kit_cntr *kc, uint64_t bytes, uint64_t ok, uint64_t err)
{
	struct cxi_cntr *c;

	if (likely(!kc))
		return;
	c = container_of(kc, struct cxi_cntr, kit);
	cassini_ct_add(c->ct, c->bytes && ok ? bytes : ok, err);
}

/* The adapter counted, perhaps in its own thread: the value that libfabric's calls read follows. */
static void ct_on_change(void *ctx)
{
	struct cxi_cntr *c = ctx;
	uint64_t ok, err;

	cassini_ct_get(c->ct, &ok, &err);
	kit_cntr_store(&c->kit, ok, err);
}

/* --- changes by the application ------------------------------------------------------------------ */

static int change(struct fid_cntr *fid, uint64_t v, bool is_err, bool add)
{
	struct cxi_cntr *c = to_cntr(&fid->fid);
	struct kit_domain *d = c->kit.domain;
	uint64_t ok, err;

	if (v > (is_err ? CASSINI_CT_FAILURE_MAX : CASSINI_CT_SUCCESS_MAX)) {
		LOG_INFO("counter value %#llx refused: the adapter counts %d bits", (unsigned long long)v,
			 is_err ? 7 : 48);
		return -FI_EINVAL;
	}
	if (d->forked(d))
		return -FI_EIO;
	lock_acquire(&d->lock);
	if (add) {
		cassini_ct_add(c->ct, is_err ? 0 : v, is_err ? v : 0);
	} else {
		cassini_ct_get(c->ct, &ok, &err);
		cassini_ct_set(c->ct, is_err ? ok : v, is_err ? v : err);
	}
	lock_release(&d->lock);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t v)
{
	return change(fid, v, false, true);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t v)
{
	return change(fid, v, true, true);
}

static int cntr_set(struct fid_cntr *fid, uint64_t v)
{
	return change(fid, v, false, false);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t v)
{
	return change(fid, v, true, false);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	if (!to_cntr(&fid->fid)->kit.wait) {
		LOG_INFO("fi_cntr_wait() refused: the counter was opened with FI_WAIT_NONE");
		return -FI_EINVAL;
	}
	if (threshold > CASSINI_CT_SUCCESS_MAX) {
		LOG_INFO("fi_cntr_wait() for %#llx refused: the adapter counts 48 bits", (unsigned long long)threshold);
		return -FI_EINVAL;
	}
	return kit_cntr_fid_wait(fid, threshold, timeout);
}

/* --- "cxi_counter_ops" --------------------------------------------------------------------------- */

static int set_wb_buffer(struct fid *fid, void *buf, size_t len)
{
	struct cxi_cntr *c = to_cntr(fid);

	if (!fid || fid->fclass != FI_CLASS_CNTR || !buf || len < sizeof(uint64_t) || (uintptr_t)buf % sizeof(uint64_t))
		return -FI_EINVAL;
	lock_acquire(&c->kit.domain->lock);
	cassini_ct_set_wb(c->ct, buf);
	lock_release(&c->kit.domain->lock);
	return 0;
}

/* Stores into a mapped doorbell cannot be seen by software that is not told of them. */
static int get_mmio_addr(struct fid *fid, void **addr, size_t *len)
{
	(void)fid, (void)addr, (void)len;
	LOG_INFO("a counter of the soft adapter has no doorbell page: use fi_cntr_add() and its kin");
	return -FI_EOPNOTSUPP;
}

static struct fi_cxi_cntr_ops ext_ops = {.set_wb_buffer = set_wb_buffer, .get_mmio_addr = get_mmio_addr};

static int cntr_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)flags, (void)context;
	if (!name || !ops || strcmp(name, FI_CXI_COUNTER_OPS))
		return -FI_EINVAL;
	*ops = &ext_ops;
	return 0;
}

/* --- open, close --------------------------------------------------------------------------------- */

static int cntr_close(struct fid *fid)
{
	struct cxi_cntr *c = to_cntr(fid);
	struct cxi_domain *d = domain_of(c);
	bool forked = d->kit.forked(&d->kit);

	if (c->kit.refs)
		return -FI_EBUSY;
	if (!forked) {
		lock_acquire(&d->kit.lock);
		cxi_cntr_forget(d, c);
		LIST_REMOVE(c, link);
		cassini_ct_close(c->ct);
		lock_release(&d->kit.lock);
	}
	kit_cntr_fini(&c->kit);
	mem_free(c);
	return 0;
}

static struct fi_ops cntr_fi_ops = KIT_FI_OPS_OPEN(cntr_close, kit_no_bind, kit_cntr_control, cntr_ops_open);
static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = kit_cntr_fid_read,
	.readerr = kit_cntr_fid_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

static int attr_check(const struct fi_cntr_attr *attr)
{
	if (attr && (attr->flags & ~FI_CXI_CNTR_CACHED || (uint32_t)attr->events > FI_CXI_CNTR_EVENTS_BYTES)) {
		LOG_WARN("counter with events %u, flags %#llx refused", (unsigned)attr->events,
			 (unsigned long long)attr->flags);
		return -FI_ENOSYS;
	}
	return 0;
}

int cxi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr_out, void *context)
{
	struct cxi_domain *d = container_of(domain, struct cxi_domain, kit.fid);
	struct fi_cntr_attr a = attr ? *attr : (struct fi_cntr_attr){.wait_obj = FI_WAIT_UNSPEC};
	struct cxi_cntr *c;
	int ret = attr_check(attr);

	if (ret || !cntr_out)
		return ret ? ret : -FI_EINVAL;
	c = mem_alloc(sizeof(*c));
	if (!c)
		return -FI_ENOMEM;
	c->bytes = (uint32_t)a.events == FI_CXI_CNTR_EVENTS_BYTES;
	c->cached = a.flags & FI_CXI_CNTR_CACHED;
	a.events = FI_CNTR_EVENTS_COMP;
	a.flags = 0;
	ret = kit_cntr_init(&c->kit, &d->kit, &a, true, context);
	if (ret)
		goto err_free;
	lock_acquire(&d->kit.lock);
	ret = cassini_ct_open(d->lni, &c->wb, &c->ct);
	if (!ret) {
		cassini_ct_on_change(c->ct, ct_on_change, c);
		LIST_INSERT_HEAD(&d->cntrs, c, link);
	}
	lock_release(&d->kit.lock);
	if (ret)
		goto err_cntr;
	if (c->kit.wait)
		cxi_domain_waits(d);
	c->kit.fid.fid.ops = &cntr_fi_ops;
	c->kit.fid.ops = &cntr_ops;
	*cntr_out = &c->kit.fid;
	return 0;

err_cntr:
	kit_cntr_fini(&c->kit);
err_free:
	mem_free(c);
	return ret;
}
