// SPDX-License-Identifier: BSD-2-Clause
// What stock libfabric finds in libopx-fi.so: one entry point, one provider struct.
#include "prov/opx/opx.h"

/* Above every built-in provider of the same name, and a real version for programs that compare it. */
#define PROV_VERSION FI_VERSION(1000, 0)

static void cleanup(void) {} /* objects own all resources; nothing outlives them */

struct fi_provider g_opx_prov = {
	.version = PROV_VERSION,
	.name = "opx",
	.getinfo = opx_getinfo,
	.fabric = opx_fabric_open,
	.cleanup = cleanup,
};

struct fi_provider *fi_prov_ini(void);

/* Runs in every libfabric process of a user who set FI_PROVIDER_PATH; as in efa_prov.c. */
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	static bool done;

	if (done)
		return NULL;
	done = true;
	kit_log_init(&g_opx_prov);
	g_opx_prov.fi_version = kit_core_version();
	kit_params_define(&g_opx_prov, opx_param_tab, opx_param_cnt);
	return &g_opx_prov;
}
