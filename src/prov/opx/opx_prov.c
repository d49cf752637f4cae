// SPDX-License-Identifier: BSD-2-Clause
// What stock libfabric finds in libopx-fi.so: one entry point, one provider struct.
#include "prov/opx/opx.h"

/* Its event queues open, for stock programs that open one unasked; endpoints report nothing there. */
int opx_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return kit_fabric_open(&g_opx_prov, opx_domain_open, attr, fabric, context);
}

struct fi_provider g_opx_prov = {
	.version = KIT_PROV_VERSION,
	.name = "opx",
	.getinfo = opx_getinfo,
	.fabric = opx_fabric_open,
};

struct fi_provider *fi_prov_ini(void)
{
	return kit_prov_ini(&g_opx_prov, opx_param_tab, opx_param_cnt);
}
