// SPDX-License-Identifier: BSD-2-Clause
// What a provider begins with: its registration, and the fabric object, where everything it opens hangs.
#include "kit/kit_int.h"

static void cleanup(void) {} /* objects own all resources; nothing outlives them */

struct fi_provider *kit_prov_ini(struct fi_provider *prov, const struct kit_param *params, size_t param_cnt)
{
	static bool done;

	if (done)
		return NULL;
	done = true;
	kit_log_init(prov);
	prov->fi_version = kit_core_version();
	prov->cleanup = cleanup;
	kit_params_define(prov, params, param_cnt);
	return prov;
}

static int fabric_close(struct fid *fid)
{
	struct kit_fabric *f = container_of(fid, struct kit_fabric, fid.fid);

	if (kit_busy(&f->refs))
		return -FI_EBUSY;
	mem_free(f);
	return 0;
}

static struct fi_ops fabric_fi_ops = KIT_FI_OPS(fabric_close, kit_no_bind, kit_no_control);

int kit_fabric_open(const struct fi_provider *prov, kit_domain_open_fn *domain_open, const struct fi_fabric_attr *attr,
		    struct fid_fabric **fabric, void *context)
{
	struct kit_fabric *f;

	if (!attr || !fabric || (attr->name && strncasecmp(attr->name, prov->name, strlen(prov->name))))
		return -FI_EINVAL;
	f = mem_alloc(sizeof(*f));
	if (!f)
		return -FI_ENOMEM;
	f->prov = prov;
	f->api_version = attr->api_version;
	f->ops = kit_no_fabric_ops;
	f->ops.domain = domain_open;
	f->ops.eq_open = kit_eq_open;
	f->ops.wait_open = kit_wait_open;
	f->ops.trywait = kit_trywait;
	f->fid.fid.fclass = FI_CLASS_FABRIC;
	f->fid.fid.context = context;
	f->fid.fid.ops = &fabric_fi_ops;
	f->fid.ops = &f->ops;
	f->fid.api_version = attr->api_version;
	*fabric = &f->fid;
	return 0;
}
