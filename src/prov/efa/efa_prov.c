// SPDX-License-Identifier: BSD-2-Clause
// What stock libfabric finds in libefa-fi.so: one entry point, one provider struct.
#include "prov/efa/efa_obj.h"

int efa_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return kit_fabric_open(&g_efa_prov, efa_domain_open, attr, fabric, context);
}

struct fi_provider g_efa_prov = {
	.version = KIT_PROV_VERSION,
	.name = "efa",
	.getinfo = efa_getinfo,
	.fabric = efa_fabric_open,
};

struct fi_provider *fi_prov_ini(void)
{
	return kit_prov_ini(&g_efa_prov, efa_param_tab, efa_param_cnt);
}
