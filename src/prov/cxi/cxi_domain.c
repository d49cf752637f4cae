// SPDX-License-Identifier: BSD-2-Clause
// The cxi domain: an opened adapter, the resources of a service, parameters, and the objects made on it.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/compat.h"
#include "prov/cxi/cxi.h"
#include "prov/cxi/av/cxi_av_shm.h"

static struct cxi_domain *to_domain(struct fid_domain *fid)
{
	return container_of(fid, struct cxi_domain, kit.fid);
}

/* Automatic progress: the adapter's thread does what the application would, while it does not. */
static void service(void *ctx)
{
	struct cxi_domain *d = ctx;
	struct cxi_portal *p;

	LIST_FOREACH(p, &d->portals, link)
		cxi_portal_serve(p);
}

/*
 * The adapter's thread may be quicker than the sleeper whose descriptor the same message makes readable. Then it must
 * turn the adapter's event into a completion, which wakes the sleeper.
 */
void cxi_domain_waits(struct cxi_domain *d)
{
	lock_acquire(&d->kit.lock);
	cassini_set_service(d->nic, service, d);
	lock_release(&d->kit.lock);
}

static void domain_idle(struct kit_domain *kd)
{
	cassini_idle(container_of(kd, struct cxi_domain, kit)->nic);
}

static bool domain_forked(struct kit_domain *kd)
{
	struct cxi_domain *d = container_of(kd, struct cxi_domain, kit);

	return d->nic && cassini_forked(d->nic);
}

static int domain_close(struct fid *fid)
{
	struct cxi_domain *d = container_of(fid, struct cxi_domain, kit.fid.fid);
	struct cassini *nic = d->nic;
	bool forked = domain_forked(&d->kit);

	if (d->kit.refs)
		return -FI_EBUSY;
	if (!forked) {
		cxi_telemetry_print(d);
		lock_acquire(&d->kit.lock);
		cxi_dwq_close(d);
		cassini_lni_close(d->lni);
		d->lni = NULL;
		lock_release(&d->kit.lock);
	}
	int ret = kit_domain_fini(&d->kit);

	if (ret)
		return ret;
	cassini_close(nic);
	mem_free(d->mr_tab);
	mem_free(d->prov_ids);
	mem_free(d);
	return 0;
}

enum cxi_match_mode cxi_match_mode(const struct cxi_domain *d)
{
	const char *mode = d->params.rx_match_mode;

	return !strcmp(mode, "hybrid")	   ? CXI_MATCH_HYBRID
	       : !strcmp(mode, "software") ? CXI_MATCH_SOFTWARE
					   : CXI_MATCH_HARDWARE;
}

enum cassini_tc cxi_tc(uint32_t tclass)
{
	switch (tclass) {
	case FI_TC_BULK_DATA:
		return CASSINI_TC_BULK_DATA;
	case FI_TC_DEDICATED_ACCESS:
		return CASSINI_TC_DEDICATED_ACCESS;
	case FI_TC_LOW_LATENCY:
		return CASSINI_TC_LOW_LATENCY;
	default:
		return CASSINI_TC_BEST_EFFORT;
	}
}

/* --- CQ ------------------------------------------------------------------------------------------ */

#define CQ_START 512 /* entries that a queue begins with: it grows, and a small ring stays in the cache */

static const char *cq_strerror(struct kit_cq *cq, int prov_errno, const void *err_data)
{
	(void)cq, (void)err_data;
	return cxi_strerror((unsigned)prov_errno);
}

static int cxi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
	struct cxi_domain *d = to_domain(domain);
	struct fi_cq_attr a = attr ? *attr : (struct fi_cq_attr){0};
	int ret;

	a.size = MIN(a.size ? a.size : d->params.default_cq_size, (size_t)CQ_START);
	ret = kit_cq_open(&d->kit, &a, 1, true, cq_strerror, cq, context);
	if (!ret && a.wait_obj != FI_WAIT_NONE)
		cxi_domain_waits(d);
	return ret;
}

/* --- open ---------------------------------------------------------------------------------------- */

static const struct fi_ops domain_fi_ops = {
	.close = domain_close,
	.control = cxi_domain_control,
	.ops_open = cxi_domain_ops_open,
};

static const struct fi_ops_domain domain_ops = {
	.av_open = cxi_av_open,
	.cq_open = cxi_cq_open,
	.endpoint = cxi_ep_open,
	.scalable_ep = cxi_sep_open,
	.stx_ctx = cxi_stx_open,
	.srx_ctx = cxi_srx_open,
	.cntr_open = cxi_cntr_open,
	.query_atomic = cxi_query_atomic,
};

static int find_device(const char *name, struct cassini_devinfo *info)
{
	char err[256];
	int cnt = cassini_dev_cnt(err, sizeof(err));

	for (int i = 0; i < cnt; i++)
		if (!cassini_dev_query(i, info) && !strcmp(info->name, name))
			return i;
	LOG_WARN("no Cassini adapter named %s%s%s", name, cnt ? "" : ": ", cnt ? "" : err);
	return -1;
}

static int choose_key(struct cxi_domain *d, const struct fi_domain_attr *attr)
{
	char why[256];
	int ret;

	if (attr->auth_key && attr->auth_key_size)
		return cxi_key_check(d->dev_idx, attr->auth_key, attr->auth_key_size, &d->key);
	ret = cxi_key_default(d->dev_idx, &d->info, &d->params, &d->key, why, sizeof(why));
	if (ret)
		LOG_WARN("domain refused: %s", why);
	return ret;
}

/* FI_AV_AUTH_KEY: how many keys an endpoint may take from its address vector; 0: keys come as ever. */
static size_t av_auth_keys(const struct fi_domain_attr *attr)
{
	struct kit_domain_attr_ext ext = {0};

	if (attr->auth_key_size != KIT_AV_AUTH_KEY)
		return 0;
	memcpy(&ext, attr, kit_domain_attr_len());
	return ext.max_ep_auth_key ? MIN(ext.max_ep_auth_key, (size_t)CXI_AUTH_KEY_MAX) : CXI_AUTH_KEY_MAX;
}

static int open_nic(struct cxi_domain *d, const struct fi_domain_attr *attr)
{
	struct cassini_open_attr open = {.lock = &d->kit.lock};
	int ret;

	open.dev_idx = d->dev_idx = find_device(attr->name, &d->info);
	if (open.dev_idx < 0)
		return -FI_ENODEV;
	ret = choose_key(d, attr);
	if (ret)
		return ret;
	if (d->auto_progress) {
		open.service = service;
		open.ctx = d;
	}
	ret = cassini_open(&open, &d->nic);
	if (ret)
		return ret;
	lock_acquire(&d->kit.lock);
	ret = cassini_lni_open(d->nic, d->key.svc_id, &d->lni);
	lock_release(&d->kit.lock);
	if (ret) {
		cassini_close(d->nic);
		d->nic = NULL;
	}
	return ret;
}

int cxi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	struct kit_fabric *f = container_of(fabric, struct kit_fabric, fid);
	struct cxi_domain *d;
	int ret;

	if (!info || !info->domain_attr || !info->domain_attr->name || !domain)
		return -FI_EINVAL;
	d = mem_alloc(sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	LIST_INIT(&d->portals);
	LIST_INIT(&d->cntrs);
	LIST_INIT(&d->txcs);
	LIST_INIT(&d->rxcs);
	cxi_params_get(&d->params); /* what is refused was reported and keeps its default */
	d->prov_key = info->domain_attr->mr_mode & FI_MR_PROV_KEY;
	d->tclass = info->domain_attr->tclass;
	d->max_ep_auth_key = av_auth_keys(info->domain_attr);
	d->alt_read = !strcmp(d->params.rdzv_proto, "alt_read");
	d->auto_progress = info->domain_attr->data_progress == FI_PROGRESS_AUTO;
	ret = kit_domain_init(&d->kit, f, info, &domain_fi_ops, &domain_ops, context);
	if (ret)
		goto err_free;
	d->kit.stats = cxi_stats_groups;
	d->kit.mr_open = cxi_mr_open;
	ret = open_nic(d, info->domain_attr);
	if (ret)
		goto err_domain;
	d->kit.idle = domain_idle;
	d->kit.forked = domain_forked;
	kit_domain_mark(&d->kit, cassini_fork_mark(d->nic));
	cxi_telemetry_start(d);
	cxi_av_shm_reap();
	*domain = &d->kit.fid;
	return 0;

err_domain:
	kit_domain_fini(&d->kit);
err_free:
	mem_free(d);
	return ret;
}
