// SPDX-License-Identifier: BSD-2-Clause
// See kit_fix.h. Also takes the place of libfabric's log, so that tests can read what was said.
#include "kit_fix.h"

#include <stdarg.h>

#include "unit.h"

#include "base/mem.h"

struct fi_provider g_fix_prov = {
	.version = FI_VERSION(1000, 0),
	.fi_version = FI_VERSION(1, 17),
	.name = "fix",
};
struct fix_log g_fix_log;

int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys)
{
	return 1;
}

void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
	    const char *func, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(g_fix_log.last, sizeof(g_fix_log.last), fmt, ap);
	va_end(ap);
	g_fix_log.cnt++;
	g_fix_log.warnings += level == FI_LOG_WARN;
}

static void idle(struct kit_domain *d)
{
	container_of(d, struct fix, domain)->idle_cnt++;
}

static bool forked(struct kit_domain *d)
{
	return container_of(d, struct fix, domain)->forked;
}

struct fi_info *fix_info(void)
{
	struct fi_info *i = kit_info_new();

	assert_non_null(i);
	i->caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV;
	i->ep_attr->type = FI_EP_RDM;
	i->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	i->tx_attr->inject_size = 64;
	i->domain_attr->name = strdup("fix0");
	i->fabric_attr->name = strdup("fix");
	return i;
}

void fix_open(struct fix *f, uint32_t version)
{
	static const struct fi_ops fi_ops;
	static const struct fi_ops_domain ops;
	struct fid_fabric *fabric;
	struct fi_info *info;

	memset(f, 0, sizeof(*f));
	f->live = mem_live_count();
	info = fix_info();
	info->fabric_attr->api_version = version;
	assert_int_equal(kit_fabric_open(&g_fix_prov, kit_no_fabric_ops.domain, info->fabric_attr, &fabric, NULL), 0);
	f->fabric = container_of(fabric, struct kit_fabric, fid);
	assert_int_equal(kit_domain_init(&f->domain, f->fabric, info, &fi_ops, &ops, NULL), 0);
	f->domain.idle = idle;
	f->domain.forked = forked;
	fi_freeinfo(info);
}

void fix_close(struct fix *f)
{
	assert_int_equal(kit_domain_fini(&f->domain), 0);
	assert_int_equal(fi_close(&f->fabric->fid.fid), 0);
	assert_int_equal(mem_live_count(), f->live);
}

static int progress(struct kit_ep *kep)
{
	struct fix_ep *ep = container_of(kep, struct fix_ep, kit);

	ep->progress_cnt++;
	if (!ep->script)
		return 0;
	ep->script(ep);
	return 1;
}

void fix_ep_open(struct fix *f, struct fix_ep *ep)
{
	struct fi_info *info = fix_info();

	memset(ep, 0, sizeof(*ep));
	assert_int_equal(kit_ep_init(&ep->kit, &f->domain, info, progress, ep), 0);
	fi_freeinfo(info);
}
