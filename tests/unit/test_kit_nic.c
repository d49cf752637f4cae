// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/nic.c.
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "kit_fix.h"

static const struct kit_nic_attr g_attr = {
	.name = "fix0",
	.device_id = "0x1",
	.vendor_id = "0x2",
	.driver = "fixdrv",
	.pci_always = true,
	.pci_domain = 1,
	.pci_bus = 2,
	.pci_device = 3,
	.pci_function = 4,
	.link_address = "here",
	.network_type = "Ethernet",
	.mtu = 9000,
	.speed = 100000000000,
};

static void check(const struct fid_nic *n)
{
	assert_int_equal(n->fid.fclass, FI_CLASS_NIC);
	assert_string_equal(n->device_attr->name, "fix0");
	assert_string_equal(n->device_attr->driver, "fixdrv");
	assert_null(n->device_attr->firmware);
	assert_int_equal(n->bus_attr->bus_type, FI_BUS_PCI);
	assert_int_equal(n->bus_attr->attr.pci.bus_id, 2);
	assert_int_equal(n->bus_attr->attr.pci.function_id, 4);
	assert_string_equal(n->link_attr->network_type, "Ethernet");
	assert_int_equal(n->link_attr->mtu, 9000);
	assert_int_equal(n->link_attr->state, FI_LINK_UP);
}

static void nic_new__holds_copies(void **state)
{
	int64_t live = mem_live_count();
	char name[] = "fix0";
	struct kit_nic_attr attr = g_attr;
	struct fid_nic *n;

	attr.name = name;
	n = kit_nic_new(&attr);
	name[0] = '#';
	check(n);
	assert_int_equal(fi_close(&n->fid), 0);
	assert_int_equal(mem_live_count(), live);
	mem_fail_nth(1);
	assert_null(kit_nic_new(&attr));
}

/* An alias instead of a copy would be closed twice. */
static void nic_control__dup_is_another_object(void **state)
{
	struct fid_nic *n = kit_nic_new(&g_attr), *dup = NULL;

	assert_int_equal(fi_control(&n->fid, FI_DUP, &dup), 0);
	assert_ptr_not_equal(n, dup);
	assert_int_equal(fi_close(&n->fid), 0);
	check(dup);
	assert_int_equal(fi_control(&dup->fid, FI_ENABLE, NULL), -FI_ENOSYS);
	mem_fail_nth(1);
	assert_int_equal(fi_control(&dup->fid, FI_DUP, &n), -FI_ENOMEM);
	assert_int_equal(fi_close(&dup->fid), 0);
}

static void nic__core_can_copy_and_print_it(void **state)
{
	struct fi_info *info = kit_info_new(), *dup;
	char text[8192] = "";

	info->nic = kit_nic_new(&g_attr);
	dup = fi_dupinfo(info);
	assert_non_null(dup);
	fi_freeinfo(info);
	check(dup->nic);
	fi_tostr_r(text, sizeof(text), dup, FI_TYPE_INFO);
	assert_non_null(strstr(text, "fi_info:"));
	assert_non_null(strstr(text, "        fi_link_attr:\n            address: here\n"));
	assert_non_null(strstr(text, "speed: 100000000000"));
	fi_freeinfo(dup);
}

static void nic_tostr__appends_and_stays_inside(void **state)
{
	struct fid_nic *n = kit_nic_new(&g_attr);
	char buf[64] = "so far\n";

	assert_int_equal(n->fid.ops->tostr(&n->fid, buf, 32), -FI_ETOOSMALL);
	assert_memory_equal(buf, "so far\n    nic:\n", 16);
	assert_int_equal(strlen(buf), 31);
	assert_int_equal(fi_close(&n->fid), 0);
}

static int g_asked;

static int answer(struct fid_nic *nic, int command, void *arg)
{
	(void)arg;
	g_asked = command;
	*(uint64_t *)nic->prov_attr = 7;
	return 0;
}

/* What the provider adds is copied with the object, freed with it, and its own commands reach it. */
static void nic_new__provider_attributes_travel(void **state)
{
	int64_t live = mem_live_count();
	struct kit_nic_attr attr = g_attr;
	const uint64_t mine[3] = {1, 2, 3};
	struct fid_nic *n, *dup = NULL;
	char text[2048] = "";

	attr.prov_attr = mine;
	attr.prov_attr_len = sizeof(mine);
	attr.control = answer;
	attr.link_down = true;
	n = kit_nic_new(&attr);
	assert_int_equal(fi_control(&n->fid, FI_DUP, &dup), 0);
	assert_int_equal(fi_close(&n->fid), 0);
	assert_memory_equal(dup->prov_attr, mine, sizeof(mine));
	assert_int_equal(dup->link_attr->state, FI_LINK_DOWN);
	assert_string_equal(dup->device_attr->name, "fix0");
	assert_int_equal(dup->fid.ops->tostr(&dup->fid, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "FI_LINK_DOWN"));
	assert_int_equal(fi_control(&dup->fid, 4711, NULL), 0);
	assert_int_equal(g_asked, 4711);
	assert_int_equal(*(uint64_t *)dup->prov_attr, 7);
	assert_int_equal(fi_close(&dup->fid), 0);
	assert_int_equal(mem_live_count(), live);
}

/* One device with its vendor and kind in a made-up sysfs. */
static void sysfs_put(const char *root, const char *file, const char *text)
{
	static const char *const dirs[] = {"", "/bus", "/bus/pci", "/bus/pci/devices",
					   "/bus/pci/devices/0001:02:03.4"};
	char path[256];
	FILE *f;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s%s", root, dirs[i]);
		assert_true(!mkdir(path, 0700) || errno == EEXIST);
	}
	snprintf(path, sizeof(path), "%s%s/%s", root, dirs[4], file);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void bus_is(const struct kit_nic_attr *a, enum fi_bus_type want)
{
	struct fid_nic *n = kit_nic_new(a), *dup = NULL;
	char text[2048] = "";

	assert_non_null(n);
	assert_int_equal(fi_control(&n->fid, FI_DUP, &dup), 0);
	fi_close(&n->fid);
	assert_int_equal(dup->bus_attr->bus_type, want);
	assert_int_equal(dup->bus_attr->attr.pci.bus_id, want == FI_BUS_PCI ? 2 : 0);
	assert_int_equal(dup->fid.ops->tostr(&dup->fid, text, sizeof(text)), 0);
	assert_int_equal(!!strstr(text, "bus_type: FI_BUS_PCI\n            fi_pci_attr:\n"),
			 want == FI_BUS_PCI);
	assert_int_equal(!!strstr(text, "bus_type: FI_BUS_UNKNOWN\n        fi_link_attr:\n"),
			 want == FI_BUS_UNKNOWN);
	fi_close(&dup->fid);
}

/* MPICH ends a program whose adapter is not where its PCI address says. */
static void nic_bus__is_told_where_the_machine_has_it(void **state)
{
	char root[] = "/tmp/test_kit_nic.XXXXXX", cmd[64];
	struct kit_nic_attr a = g_attr;

	assert_non_null(mkdtemp(root));
	setenv("SYSFS_PATH", root, 1);
	a.pci_always = false;
	bus_is(&a, FI_BUS_UNKNOWN); /* nothing there */
	sysfs_put(root, "vendor", "0x0002\n");
	bus_is(&a, FI_BUS_UNKNOWN);
	sysfs_put(root, "device", "0x0007\n"); /* another device of that vendor */
	bus_is(&a, FI_BUS_UNKNOWN);
	sysfs_put(root, "device", "0x0001\n");
	bus_is(&a, FI_BUS_PCI);
	sysfs_put(root, "vendor", "");
	bus_is(&a, FI_BUS_UNKNOWN);
	a.pci_always = true;
	bus_is(&a, FI_BUS_PCI);
	unsetenv("SYSFS_PATH");
	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	assert_int_equal(system(cmd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nic_new__provider_attributes_travel),
		cmocka_unit_test(nic_new__holds_copies),
		cmocka_unit_test(nic_control__dup_is_another_object),
		cmocka_unit_test(nic__core_can_copy_and_print_it),
		cmocka_unit_test(nic_bus__is_told_where_the_machine_has_it),
		cmocka_unit_test(nic_tostr__appends_and_stays_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
