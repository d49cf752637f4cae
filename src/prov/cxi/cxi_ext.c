// SPDX-License-Identifier: BSD-2-Clause
// fi_open_ops and fi_control of a domain: the documented extensions, statistics, telemetry.
#include <string.h>

#include "fi_cxi_ext.h"
#include "fi_ext_softfabric.h"
#include "prov/cxi/cxi.h"

static int stats_read(struct fid_domain *domain, const char *name, uint64_t *value)
{
	struct cxi_domain *d;
	struct cassini_stats s;
	const char *known;
	size_t off;

	if (!domain || domain->fid.fclass != FI_CLASS_DOMAIN || !name || !*name || !value)
		return -FI_EINVAL;
	d = container_of(domain, struct cxi_domain, kit.fid);
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	for (int i = 0; (known = cassini_stat_name(i, &off)); i++) {
		if (strcmp(known, name))
			continue;
		lock_acquire(&d->kit.lock);
		cassini_query_stats(d->nic, &s);
		lock_release(&d->kit.lock);
		memcpy(value, (const char *)&s + off, sizeof(*value));
		return 0;
	}
	return -FI_ENOENT;
}

static int stats_name(struct fid_domain *domain, size_t index, char *buf, size_t len)
{
	const char *name;
	size_t off;

	if (!domain || !buf)
		return -FI_EINVAL;
	name = index > INT32_MAX ? NULL : cassini_stat_name((int)index, &off);
	if (!name)
		return -FI_ENOENT;
	if (strlen(name) >= len)
		return -FI_ETOOSMALL;
	memcpy(buf, name, strlen(name) + 1);
	return 0;
}

static struct fi_softfabric_ops_stats stats_ops = {
	.size = sizeof(struct fi_softfabric_ops_stats),
	.read = stats_read,
	.name = stats_name,
};

int cxi_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)flags, (void)context;
	if (!name || !ops)
		return -FI_EINVAL;
	if (strcmp(name, FI_SOFTFABRIC_STATS_OPS))
		return -FI_EINVAL;
	*ops = &stats_ops;
	return 0;
}

int cxi_domain_control(struct fid *fid, int command, void *arg)
{
	struct cxi_domain *d = container_of(fid, struct cxi_domain, kit.fid.fid);
	int ret;

	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	lock_acquire(&d->kit.lock);
	switch (command) {
	case FI_QUEUE_WORK:
		ret = cxi_queue_work(d, arg);
		break;
	case FI_FLUSH_WORK:
		ret = cxi_flush_work(d);
		break;
	default:
		ret = -FI_EINVAL;
	}
	lock_release(&d->kit.lock);
	return ret;
}

void cxi_telemetry_start(struct cxi_domain *d) { (void)d; }
void cxi_telemetry_print(struct cxi_domain *d) { (void)d; }
