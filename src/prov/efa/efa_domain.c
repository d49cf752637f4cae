// SPDX-License-Identifier: BSD-2-Clause
// The efa domain: an opened adapter, its parameters, and the objects made on it.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/deprecated.h"
#include "prov/efa/efa_obj.h"

static struct efa_domain *to_domain(struct fid_domain *fid)
{
	return container_of(fid, struct efa_domain, kit.fid);
}

/* Automatic progress: the adapter's thread does what the application would, while it does not. */
static void service(void *ctx)
{
	struct efa_domain *d = ctx;
	struct efa_ep *ep;

	LIST_FOREACH(ep, &d->eps, domain_link)
		efa_ep_progress(&ep->kit);
}

/*
 * Manual progress: what an adapter does alone, and one thing more. A peer that means to read or write our memory waits
 * for our handshake first; the memory is exposed, so a program that computes must not make it wait.
 */
static void service_adapter(void *ctx)
{
	struct efa_domain *d = ctx;
	struct efa_ep *ep;

	efanic_serve(d->nic);
	LIST_FOREACH(ep, &d->eps, domain_link)
		if (!ep->kit.closing)
			efa_peers_greet(ep);
}

static void domain_idle(struct kit_domain *kd)
{
	efanic_idle(container_of(kd, struct efa_domain, kit)->nic);
}

static bool domain_forked(struct kit_domain *kd)
{
	struct efa_domain *d = container_of(kd, struct efa_domain, kit);

	return d->nic && efanic_forked(d->nic);
}

static int domain_close(struct fid *fid)
{
	struct efa_domain *d = container_of(fid, struct efa_domain, kit.fid.fid);
	struct efanic *nic = d->nic;
	int ret = kit_domain_fini(&d->kit);

	if (ret)
		return ret;
	efanic_close(nic);
	efa_mrs_fini(d);
	mem_free(d);
	return 0;
}

/* --- CQ and counter ------------------------------------------------------------------------------------ */

static const char *cq_strerror(struct kit_cq *cq, int prov_errno, const void *err_data)
{
	(void)cq;
	return err_data && *(const char *)err_data ? err_data : efa_strerror((unsigned)prov_errno);
}

static int efa_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
	struct efa_domain *d = to_domain(domain);
	size_t least = d->kind == EFA_RDM ? (size_t)d->params.cq_size : 1024;

	if (attr && attr->wait_obj != FI_WAIT_NONE) {
		LOG_WARN("completion queue with a wait object refused: efa has none");
		return -FI_ENOSYS;
	}
	if (attr && attr->format == FI_CQ_FORMAT_TAGGED && d->kind == EFA_DGRAM)
		return -FI_ENOSYS;
	return kit_cq_open(&d->kit, attr, least, false, cq_strerror, cq, context);
}

static int efa_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context)
{
	struct efa_domain *d = to_domain(domain);

	if (d->kind == EFA_DGRAM) {
		LOG_WARN("counter refused: efa offers none for FI_EP_DGRAM");
		return -FI_ENOSYS;
	}
	return kit_cntr_open(&d->kit, attr, true, cntr, context); /* MPI asks for FI_WAIT_UNSPEC and waits */
}

static int efa_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	if (!info || !info->ep_attr || !ep)
		return -FI_EINVAL;
	switch (info->ep_attr->type) {
	case FI_EP_RDM:
		return efa_ep_open(domain, info, ep, context);
	case FI_EP_DGRAM:
		return efa_dgram_open(domain, info, ep, context);
	default:
		LOG_WARN("endpoint type %d refused: efa has FI_EP_RDM and FI_EP_DGRAM", (int)info->ep_attr->type);
		return -FI_EINVAL;
	}
}

/* --- open ------------------------------------------------------------------------------------------------ */

static const struct fi_ops domain_fi_ops = {
	.close = domain_close,
	.ops_open = efa_domain_ops_open,
};

static const struct fi_ops_domain domain_ops = {
	.av_open = efa_av_open,
	.cq_open = efa_cq_open,
	.endpoint = efa_endpoint,
	.cntr_open = efa_cntr_open,
	.query_atomic = efa_query_atomic,
};

enum efa_kind efa_kind_of(const struct fi_info *info)
{
	if (info->ep_attr && info->ep_attr->type == FI_EP_DGRAM)
		return EFA_DGRAM;
	return info->fabric_attr && info->fabric_attr->name && !strcasecmp(info->fabric_attr->name, "efa-direct")
		       ? EFA_DIRECT
		       : EFA_RDM;
}

/* The adapter whose name starts the domain's: "rdmap0s6" of "rdmap0s6-rdm". */
static int find_device(const char *domain_name, struct efanic_dev_attr *attr)
{
	char err[256];
	int cnt = efanic_dev_cnt(err, sizeof(err));

	for (int i = 0; i < cnt; i++) {
		size_t len;

		if (efanic_dev_query(i, attr))
			continue;
		len = strlen(attr->name);
		if (!strncmp(domain_name, attr->name, len) && domain_name[len] == '-')
			return i;
	}
	LOG_WARN("no EFA device for the domain %s%s%s", domain_name, cnt ? "" : ": ", cnt ? "" : err);
	return -1;
}

static int open_nic(struct efa_domain *d, const char *name)
{
	struct efanic_open_attr attr = {.lock = &d->kit.lock};

	attr.dev_idx = find_device(name, &d->attr);
	if (attr.dev_idx < 0)
		return -FI_ENODEV;
	attr.ctx = d;
	if (d->kind != EFA_DGRAM)
		attr.service = d->auto_progress ? service : service_adapter;
	return efanic_open(&attr, &d->nic);
}

int efa_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	struct kit_fabric *f = container_of(fabric, struct kit_fabric, fid);
	struct efa_domain *d;
	int ret;

	if (!info || !info->domain_attr || !info->domain_attr->name || !domain)
		return -FI_EINVAL;
	d = mem_alloc(sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	LIST_INIT(&d->eps);
	d->kind = efa_kind_of(info);
	efa_params_get(&d->params); /* what is refused was reported and keeps its default */
	if (d->kind != EFA_RDM && !(info->domain_attr->mr_mode & FI_MR_LOCAL) &&
	    info->domain_attr->mr_mode != KIT_MR_BASIC && !(info->mode & KIT_LOCAL_MR)) {
		LOG_WARN("domain without FI_MR_LOCAL refused: this endpoint type needs it");
		ret = -FI_ENODATA;
		goto err_free;
	}
	ret = kit_domain_init(&d->kit, f, info, &domain_fi_ops, &domain_ops, context);
	if (ret)
		goto err_free;
	d->auto_progress = info->domain_attr->data_progress == FI_PROGRESS_AUTO && d->kind == EFA_RDM;
	d->kit.stats = efa_stats_groups;
	d->kit.mr_open = efa_mr_open;
	ret = open_nic(d, info->domain_attr->name);
	if (ret)
		goto err_domain;
	d->kit.idle = domain_idle;
	d->kit.forked = domain_forked;
	kit_domain_mark(&d->kit, efanic_fork_mark(d->nic));
	*domain = &d->kit.fid;
	return 0;

err_domain:
	kit_domain_fini(&d->kit);
err_free:
	mem_free(d);
	return ret;
}
