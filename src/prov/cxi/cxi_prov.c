// SPDX-License-Identifier: BSD-2-Clause
// What stock libfabric finds in libcxi-fi.so: one entry point, one provider struct.
#include "prov/cxi/cxi.h"

int cxi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return kit_fabric_open(&g_cxi_prov, cxi_domain_open, attr, fabric, context);
}

struct fi_provider g_cxi_prov = {
	.version = KIT_PROV_VERSION,
	.name = "cxi",
	.getinfo = cxi_getinfo,
	.fabric = cxi_fabric_open,
};

struct fi_provider *fi_prov_ini(void)
{
	return kit_prov_ini(&g_cxi_prov, cxi_param_tab, cxi_param_cnt);
}
