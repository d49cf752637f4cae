// SPDX-License-Identifier: BSD-2-Clause
// The soft room's EFA adapters: SOFTFABRIC_EFA and SOFTFABRIC_CONF, attributes, open.
#include "efanic_fix.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static void room(const char *text)
{
	unsetenv("SOFTFABRIC_CONF");
	fake_reset();
	if (text)
		setenv("SOFTFABRIC_EFA", text, 1);
	else
		unsetenv("SOFTFABRIC_EFA");
}

static void cnt__default_is_one(void **state)
{
	static const uint8_t gid[16] = {0xfe, 0x80, [9] = 0x5f, 127, 0xff, 0xfe, 0, 0, 1};
	struct efanic_dev_attr attr;
	char err[256];

	room(NULL);
	assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 1);
	assert_int_equal(efanic_dev_cnt(NULL, 0), 1);
	assert_int_equal(efanic_dev_query(0, &attr), 0);
	assert_string_equal(attr.name, "rdmap0s6");
	assert_int_equal(attr.vendor_id, 0x1d0f);
	assert_int_equal(attr.vendor_part_id, 0xefa2);
	assert_int_equal(attr.device_caps, 31);
	assert_int_equal(attr.max_sq_wr, 4096);
	assert_int_equal(attr.max_rq_wr, 32768);
	assert_int_equal(attr.max_sq_sge, 2);
	assert_int_equal(attr.max_rq_sge, 3);
	assert_int_equal(attr.inline_buf_size, 32);
	assert_int_equal(attr.max_rdma_size, 1 << 30);
	assert_int_equal(attr.mtu, 8928);
	assert_int_equal(attr.max_qp, 256);
	assert_int_equal(attr.max_cq, 512);
	assert_int_equal(attr.max_mr, 262144);
	assert_int_equal(attr.max_mr_size, 103079215104);
	assert_string_equal(attr.driver, "efa");
	assert_string_equal(attr.fw_ver, "0.0.0.0");
	assert_string_equal(attr.hw_abi, "6");
	assert_memory_equal(attr.gid, gid, sizeof(gid));
	assert_int_equal(attr.pci_bus, 0);
	assert_int_equal(attr.pci_device, 6);
	assert_int_equal(efanic_dev_query(1, &attr), -ENODEV);
	assert_int_equal(efanic_dev_query(-1, &attr), -ENODEV);
}

static void cnt__several(void **state)
{
	struct efanic_dev_attr attr, prev = {0};
	char err[256];

	room("nics=8");
	assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 8);
	for (int i = 0; i < 8; i++) {
		char name[32];

		assert_int_equal(efanic_dev_query(i, &attr), 0);
		assert_string_not_equal(attr.name, prev.name);
		assert_memory_not_equal(attr.gid, prev.gid, 16);
		snprintf(name, sizeof(name), "rdmap%us%u", attr.pci_bus, attr.pci_device);
		assert_string_equal(attr.name, name);
		prev = attr;
	}
	assert_int_equal(efanic_dev_query(8, &attr), -ENODEV);
	room("nics=0");
	assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "");
}

static void cnt__refused_with_a_sentence(void **state)
{
	static const char *const bad[] = {"nics=9", "gen=efa9", "gen=efa1,efa2", "colour=red",
					  "nics",   "sq=0",	"mtu=8929",	 "max_ah=70000"};
	struct efanic_open_attr open = {.no_thread = true};
	struct efanic_dev_attr attr;
	struct efanic *nic;
	char err[256];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		room(bad[i]);
		assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 0);
		assert_true(strlen(err) > 10);
		assert_int_equal(efanic_dev_query(0, &attr), -ENODEV);
		assert_int_equal(efanic_open(&open, &nic), -ENODEV);
	}
	room(NULL);
	g_fake.ip_rc = -ENODEV;
	assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "no address for adapter 0");
	g_fake.ip_rc = 0;
	g_fake.room_rc = -EINVAL;
	assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "the net is refused");
}

static void query__generations(void **state)
{
	static const struct {
		const char *conf;
		unsigned part, caps;
	} row[] = {
		{"gen=efa0-none", 0xefa0, 0}, {"gen=efa0-read", 0xefa0, 3},
		{"gen=efa1-rw", 0xefa1, 15},  {"gen=efa2-full", 0xefa2, 31},
		{"gen=efa1", 0xefa1, 15},     {"gen=efa2", 0xefa2, 31},
	};
	struct efanic_dev_attr attr;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		room(row[i].conf);
		assert_int_equal(efanic_dev_query(0, &attr), 0);
		assert_int_equal(attr.vendor_part_id, row[i].part);
		assert_int_equal(attr.device_caps, row[i].caps);
	}
}

static void query__limits_are_settable(void **state)
{
	struct efanic_dev_attr attr;

	room("max_qp=1;max_cq=2;max_ah=3;max_mr=4;max_pd=5;max_mr_size=6Gi;max_rdma_size=7;sq=8;rq="
	     "9;mtu=4096;lenient=yes");
	assert_int_equal(efanic_dev_query(0, &attr), 0);
	assert_int_equal(attr.max_qp, 1);
	assert_int_equal(attr.max_cq, 2);
	assert_int_equal(attr.max_ah, 3);
	assert_int_equal(attr.max_mr, 4);
	assert_int_equal(attr.max_pd, 5);
	assert_int_equal(attr.max_mr_size, 6ULL << 30);
	assert_int_equal(attr.max_rdma_size, 7);
	assert_int_equal(attr.max_sq_wr, 8);
	assert_int_equal(attr.max_rq_wr, 9);
	assert_int_equal(attr.mtu, 4096);
	assert_true(attr.is_lenient);
}

/* The file is read first, the variable wins. */
static void query__conf_file(void **state)
{
	char path[] = "/tmp/efanic_dev_XXXXXX", err[256];
	const char text[] = "[net]\nseed = 1\n[efa]\nnics = 3\nmax_qp = 9\n";
	int fd = mkstemp(path);
	struct efanic_dev_attr attr;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	room("max_qp=5");
	setenv("SOFTFABRIC_CONF", path, 1);
	assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 3);
	assert_int_equal(efanic_dev_query(0, &attr), 0);
	assert_int_equal(attr.max_qp, 5);
	unlink(path);
	assert_int_equal(efanic_dev_cnt(err, sizeof(err)), 0);
	assert_non_null(strstr(err, path));
	unsetenv("SOFTFABRIC_CONF");
}

static void open__alloc_fail(void **state)
{
	struct lock lock = {0};
	struct efanic_open_attr attr = {.lock = &lock, .no_thread = true};
	struct efanic *nic = NULL;
	int64_t live = mem_live_count();
	int rc = -1, fails = 0;

	room(NULL);
	for (uint64_t n = 1; rc; n++) {
		mem_fail_nth(n);
		rc = efanic_open(&attr, &nic);
		mem_fail_nth(0);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(mem_live_count(), live);
			fails++;
		}
	}
	assert_in_range(fails, 3, 6);
	assert_false(efanic_forked(nic));
	efanic_idle(nic);
	efanic_close(nic);
	efanic_close(NULL);
	assert_int_equal(mem_live_count(), live);
}

static void open__errors(void **state)
{
	struct lock lock = {0};
	struct efanic_open_attr attr = {.lock = &lock, .no_thread = true, .dev_idx = 1};
	struct efanic *nic;
	int64_t live = mem_live_count();

	room(NULL);
	assert_int_equal(efanic_open(&attr, &nic), -ENODEV);
	attr.dev_idx = 0;
	g_fake.node_rc = -EMFILE;
	assert_int_equal(efanic_open(&attr, &nic), -EMFILE);
	assert_int_equal(mem_live_count(), live);
}

static unsigned g_served;

static void count_service(void *ctx)
{
	assert_ptr_equal(ctx, &g_served);
	g_served++;
}

static void open__service_of_the_application(void **state)
{
	struct lock lock = {0};
	struct efanic_open_attr attr = {
		.lock = &lock, .no_thread = true, .service = count_service, .ctx = &g_served};
	struct efanic *nic;

	room(NULL);
	assert_int_equal(efanic_open(&attr, &nic), 0);
	fake_poll_all();
	assert_int_equal(g_served, 1);
	efanic_close(nic);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cnt__default_is_one),
		cmocka_unit_test(cnt__several),
		cmocka_unit_test(cnt__refused_with_a_sentence),
		cmocka_unit_test(query__generations),
		cmocka_unit_test(query__limits_are_settable),
		cmocka_unit_test(query__conf_file),
		cmocka_unit_test(open__alloc_fail),
		cmocka_unit_test(open__errors),
		cmocka_unit_test(open__service_of_the_application),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
