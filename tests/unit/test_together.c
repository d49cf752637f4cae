// SPDX-License-Identifier: BSD-2-Clause
// All modules in one folder, as they are installed, in one process: libfabric skips one that it
// cannot load without a word. SOFTFABRIC_PROVIDERS names them, FI_PROVIDER_PATH the folder.
#include "unit.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <stdio.h>
#include <string.h>

/* Fails with the loader's reason where there is one. */
static void must_be_listed(const struct fi_info *list, const char *prov)
{
	char path[4096];

	for (const struct fi_info *i = list; i; i = i->next)
		if (!strcmp(i->fabric_attr->prov_name, prov))
			return;
	snprintf(path, sizeof(path), "%s/lib%s-fi.so", getenv("FI_PROVIDER_PATH"), prov);
	if (!dlopen(path, RTLD_NOW))
		print_error("%s\n", dlerror());
	fail_msg("fi_getinfo does not list %s", prov);
}

static void getinfo__lists_all(void **state)
{
	struct fi_info *list = NULL;
	char names[64], *save, *name;
	unsigned cnt = 0;

	(void)state;
	assert_non_null(getenv("SOFTFABRIC_PROVIDERS"));
	snprintf(names, sizeof(names), "%s", getenv("SOFTFABRIC_PROVIDERS"));
	assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &list), 0);
	for (name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save), cnt++)
		must_be_listed(list, name);
	assert_true(cnt);
	fi_freeinfo(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(getinfo__lists_all)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
