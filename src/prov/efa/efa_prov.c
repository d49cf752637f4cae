// SPDX-License-Identifier: BSD-2-Clause
// What stock libfabric finds in libefa-fi.so: one entry point, one provider struct.
#include "prov/efa/efa_obj.h"

/* Above every built-in provider of the same name, and a real version for programs that compare it. */
#define PROV_VERSION FI_VERSION(1000, 0)

static void cleanup(void) {} /* objects own all resources; nothing outlives them */

struct fi_provider g_efa_prov = {
	.version = PROV_VERSION,
	.name = "efa",
	.getinfo = efa_getinfo,
	.fabric = efa_fabric_open,
	.cleanup = cleanup,
};

struct fi_provider *fi_prov_ini(void);

/*
 * Runs in every libfabric process of a user who set FI_PROVIDER_PATH, whatever provider it uses: so it only fills in the version and
 * names the parameters. A second call means that the library was found twice: say "not available" then.
 */
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	static bool done;

	if (done)
		return NULL;
	done = true;
	kit_log_init(&g_efa_prov);
	g_efa_prov.fi_version = kit_core_version();
	kit_params_define(&g_efa_prov, efa_param_tab, efa_param_cnt);
	return &g_efa_prov;
}
