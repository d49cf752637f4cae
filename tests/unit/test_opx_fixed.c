// SPDX-License-Identifier: BSD-2-Clause
// The opx module as built with OPX_AV=map or OPX_AV=table, which variable OPX_AV says; SOFTFABRIC_MODULE names it: one
// type of address vector.
#include <dlfcn.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "unit.h"

#define API FI_VERSION(1, 17)

static struct fi_provider *g_prov;
static enum fi_av_type g_only, g_other;

/* Hints with address vectors of @type. */
static int info_get(enum fi_av_type type, struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	assert_non_null(hints);
	hints->domain_attr->av_type = type;
	hints->mode = ~0ULL;
	ret = g_prov->getinfo(API, NULL, NULL, 0, hints, info);
	fi_freeinfo(hints);
	return ret;
}

static void info__all_have_the_type_of_the_build(void **state)
{
	static const enum fi_av_type asked[] = {FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE};
	struct fi_info *info;
	int cnt = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		/* who asks for FI_AV_MAP can do with a table: fi_av(3) */
		if (asked[i] == g_other && g_only == FI_AV_MAP) {
			assert_int_equal(info_get(asked[i], &info), -FI_ENODATA);
			continue;
		}
		assert_int_equal(info_get(asked[i], &info), 0);
		for (struct fi_info *at = info; at; at = at->next, cnt++)
			assert_int_equal(at->domain_attr->av_type, g_only);
		fi_freeinfo(info);
	}
	assert_true(cnt >= 2);
	assert_int_equal(g_prov->getinfo(API, NULL, NULL, 0, NULL, &info), 0);
	assert_int_equal(info->domain_attr->av_type, g_only);
	fi_freeinfo(info);
}

static void av_open__the_other_type_is_refused(void **state)
{
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av = NULL;
	struct fi_av_attr attr = {.type = g_other};

	(void)state;
	assert_int_equal(info_get(FI_AV_UNSPEC, &info), 0);
	assert_int_equal(g_prov->fabric(info->fabric_attr, &fabric, NULL), 0);
	if (!info->fabric_attr->prov_name) /* the core would have done this */
		info->fabric_attr->prov_name = strdup("opx");
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	assert_int_equal(fi_av_open(domain, &attr, &av, NULL), -FI_EINVAL);
	assert_null(av);
	for (int unspec = 0; unspec < 2; unspec++) {
		attr = (struct fi_av_attr){.type = unspec ? FI_AV_UNSPEC : g_only};
		assert_int_equal(fi_av_open(domain, &attr, &av, NULL), 0);
		assert_int_equal(attr.type, g_only);
		assert_int_equal(fi_close(&av->fid), 0);
	}
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info__all_have_the_type_of_the_build),
		cmocka_unit_test(av_open__the_other_type_is_refused),
	};
	const char *module = getenv("SOFTFABRIC_MODULE"), *only = getenv("OPX_AV");
	struct fi_provider *(*ini)(void);
	void *handle, *sym;

	handle = module && only ? dlopen(module, RTLD_NOW | RTLD_LOCAL) : NULL;
	sym = handle ? dlsym(handle, "fi_prov_ini") : NULL;
	if (!sym) {
		print_error("no module: %s\n", module && only ? dlerror() : "SOFTFABRIC_MODULE and OPX_AV name it");
		return 1;
	}
	memcpy(&ini, &sym, sizeof(ini)); /* POSIX's way around ISO C */
	g_prov = ini();
	g_only = strcmp(only, "map") ? FI_AV_TABLE : FI_AV_MAP;
	g_other = g_only == FI_AV_MAP ? FI_AV_TABLE : FI_AV_MAP;
	return g_prov ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
