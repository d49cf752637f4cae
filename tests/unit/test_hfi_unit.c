// SPDX-License-Identifier: BSD-2-Clause
// SOFTFABRIC_OPX: grammar, defaults, lists per unit, tables, refusals; job keys.
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "nic/hfi/hfi.h"
#include "nic/hfi/hfi_assign.h"

static void conf(const char *text)
{
	unsetenv("SOFTFABRIC_CONF");
	if (text)
		setenv("SOFTFABRIC_OPX", text, 1);
	else
		unsetenv("SOFTFABRIC_OPX");
}

static struct hfi_unit_attr unit_of(int unit)
{
	struct hfi_unit_attr u;

	assert_int_equal(hfi_unit_query(unit, &u), 0);
	return u;
}

/* The room @text is refused with a sentence that has all of @words (separated by |) in it. */
static void refused(const char *text, const char *words)
{
	char err[512] = "", list[256], *rest = list, *word;

	conf(text);
	assert_int_equal(hfi_unit_cnt(err, sizeof(err)), 0);
	snprintf(list, sizeof(list), "%s", words);
	while ((word = strsep(&rest, "|")))
		if (!strstr(err, word))
			fail_msg("'%s' is not in: %s", word, err);
}

static void room__default(void **state)
{
	static const uint8_t gid[13] = {0xfe, 0x80, [8] = 0x00, 0x11, 0x75, 0x01, 0x01};
	struct hfi_unit_attr u;
	char err[256] = "x";

	(void)state;
	conf(NULL);
	assert_int_equal(hfi_unit_cnt(err, sizeof(err)), 1);
	assert_string_equal(err, "");
	u = unit_of(0);
	assert_string_equal(u.name, "hfi1_0");
	assert_int_equal(u.unit, 0);
	assert_in_range(u.lid, 1, HFI_LID_MAX + 1 - HFI_UNIT_MAX); /* says which host this is */
	assert_memory_equal(u.gid, gid, sizeof(gid));
	assert_int_equal(u.gid[14] << 8 | u.gid[15], u.lid);
	assert_false(u.pci_always);
	assert_int_equal(u.ip[12], 127);
	assert_int_equal(u.ip[15], 1);
	assert_int_equal(u.state, HFI_PORT_ACTIVE);
	assert_int_equal(u.numa_node, -1);
	assert_int_equal(u.nctxts, 160);
	assert_int_equal(u.credits, 1024);
	assert_int_equal(u.rcvhdrq_cnt, 2048);
	assert_int_equal(u.rcvegr_bytes, 8 << 20);
	assert_int_equal(u.sdma_ring_size, 128);
	assert_int_equal(u.mtu, 8192);
	assert_int_equal(u.speed_bps, 100000000000);
	assert_int_equal(u.pkey_cnt, 2);
	assert_int_equal(u.pkeys[0], HFI_PKEY_DEFAULT);
	assert_int_equal(u.pkeys[1], 0x7fff);
	assert_true(u.pkey_check);
	assert_int_equal(u.down_ns[0], 0);
	assert_int_equal(u.down_ns[1], 0);
	assert_int_equal(u.vendor_id, 0x8086);
	assert_int_equal(u.device_id, 0x24f0);
	assert_int_equal(hfi_unit_query(1, &u), -ENODEV);
	assert_int_equal(hfi_unit_query(-1, &u), -ENODEV);
	conf("units=0");
	assert_int_equal(hfi_unit_cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "");
	conf("pci=yes");
	u = unit_of(0);
	assert_true(u.pci_always);
	assert_int_equal(u.pci_bus, 0x18);
}

static void room__numbers(void **state)
{
	struct hfi_unit_attr u;
	char err[256];

	(void)state;
	conf("units=16;contexts=4;credits=129;rcvhdrq=32;egr=64Ki;sdma_ring=2;mtu=8192;rate=200;pkey_check=no");
	assert_int_equal(hfi_unit_cnt(err, sizeof(err)), 16);
	u = unit_of(15);
	assert_string_equal(u.name, "hfi1_15");
	assert_int_equal(u.lid, unit_of(0).lid + 15);
	assert_int_equal(u.nctxts, 4);
	assert_int_equal(u.credits, 129);
	assert_int_equal(u.rcvhdrq_cnt, 32);
	assert_int_equal(u.rcvegr_bytes, 65536);
	assert_int_equal(u.sdma_ring_size, 2);
	assert_int_equal(u.speed_bps, 200000000000);
	assert_false(u.pkey_check);
	conf("mtu=2048;credits=33");
	assert_int_equal(unit_of(0).mtu, 2048);
	conf("contexts=0");
	assert_int_equal(unit_of(0).nctxts, 0);
	assert_int_equal(hfi_unit_free_ctxts(0), 0);
}

/* One entry per unit; an empty one is the default, the last one is for the others. */
static void room__lists(void **state)
{
	(void)state;
	conf("units=4;state=active, init ,,down;numa=1,0;down=,1s-2s,500ms-never,");
	assert_int_equal(unit_of(0).state, HFI_PORT_ACTIVE);
	assert_int_equal(unit_of(1).state, HFI_PORT_INIT);
	assert_int_equal(unit_of(2).state, HFI_PORT_ACTIVE);
	assert_int_equal(unit_of(3).state, HFI_PORT_DOWN);
	assert_int_equal(unit_of(0).numa_node, 1);
	assert_int_equal(unit_of(1).numa_node, 0);
	assert_int_equal(unit_of(3).numa_node, 0);
	assert_int_equal(unit_of(0).down_ns[1], 0);
	assert_int_equal(unit_of(1).down_ns[0], NS_PER_SEC);
	assert_int_equal(unit_of(1).down_ns[1], 2 * NS_PER_SEC);
	assert_int_equal(unit_of(2).down_ns[0], NS_PER_SEC / 2);
	assert_true(unit_of(2).down_ns[1] == CLK_NEVER);
	assert_int_equal(unit_of(3).down_ns[1], 0);
	conf("units=2;state=armed;numa=-1,3");
	assert_int_equal(unit_of(0).state, HFI_PORT_ARMED);
	assert_int_equal(unit_of(1).state, HFI_PORT_ARMED);
	assert_int_equal(unit_of(0).numa_node, -1);
	assert_int_equal(unit_of(1).numa_node, 3);
}

static void room__tables(void **state)
{
	struct hfi_unit_attr u;
	uint8_t sc, vl;

	(void)state;
	conf("");
	u = unit_of(0);
	for (uint8_t sl = 0; sl < HFI_SL_MAX; sl++) {
		hfi_sl_path(&u, sl, &sc, &vl);
		assert_int_equal(sc, sl == 15 ? 0 : sl); /* 15 is management's */
		assert_int_equal(vl, sl == 15 ? 0 : sl % 8);
	}
	conf("sl2sc=3:5, 4:15;sc2vl=5:2,6:15;pkeys=0x8003 , 0x8002 ;");
	u = unit_of(0);
	hfi_sl_path(&u, 3, &sc, &vl);
	assert_int_equal(sc, 5);
	assert_int_equal(vl, 2);
	hfi_sl_path(&u, 4, &sc, &vl);
	assert_int_equal(sc, 0);
	assert_int_equal(vl, 0);
	hfi_sl_path(&u, 6, &sc, &vl);
	assert_int_equal(sc, 6);
	assert_int_equal(vl, 0);
	assert_int_equal(u.pkey_cnt, 2);
	assert_int_equal(u.pkeys[0], 0x8003);
	assert_int_equal(u.pkeys[1], 0x8002);
}

static void room__refusals(void **state)
{
	struct hfi_unit_attr u;

	(void)state;
	refused("units=17", "SOFTFABRIC_OPX|units|16");
	refused("nics=1",
		"nics|units|contexts|credits|rcvhdrq|egr|"
		"sdma_ring|mtu|rate|state|numa|down|pkeys|pkey_check|sl2sc|sc2vl");
	refused("contexts=161", "contexts|160");
	refused("mtu=4000", "mtu=4000|2048, 4096, 8192");
	refused("mtu=10240", "mtu|8192");
	refused("credits=128", "credits=128|mtu=8192|129");
	refused("credits=2048", "credits|2047");
	refused("rcvhdrq=33", "rcvhdrq=33|32");
	refused("egr=4096", "egr|8192");
	refused("state=up", "state=up|down, init, armed or active");
	refused("units=2;state=active,polling", "polling|active");
	refused("numa=x", "numa=x|1023|-1");
	refused("numa=-2", "numa=-2");
	refused("down=1s", "down=1s|FROM-TO");
	refused("down=2s-1s", "down|ends before");
	refused("down=1s-2", "down|to");
	refused("pkeys=0", "pkeys=0|0x8001");
	refused("pkeys=1,,2", "pkeys=1,,2");
	refused("pkeys=65536", "pkeys=65536|0xffff");
	refused("pkeys=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "16 P_Keys");
	refused("sl2sc=3", "sl2sc=3|FROM:TO");
	refused("sl2sc=32:0", "sl2sc=32:0|31");
	refused("sl2sc=0:32", "sl2sc=0:32|31");
	refused("sc2vl=0:16", "sc2vl=0:16|15");
	refused("sc2vl=0:8", "sc2vl=0:8|VL 8|15");
	assert_int_equal(hfi_unit_query(0, &u), -ENODEV);
	assert_int_equal(hfi_unit_free_ctxts(0), -ENODEV);
}

static void room__file(void **state)
{
	char path[] = "/tmp/test_hfi_unit_XXXXXX", err[512];
	static const char text[] = "[net]\n[opx]\nunits = 3\ncontexts = 5 # few\nstate = down\n[cxi]\nnics = 1\n";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	conf("contexts=7");
	setenv("SOFTFABRIC_CONF", path, 1);
	assert_int_equal(hfi_unit_cnt(err, sizeof(err)), 3);
	assert_int_equal(unit_of(2).nctxts, 7); /* the variable has the last word */
	assert_int_equal(unit_of(2).state, HFI_PORT_DOWN);
	unlink(path);
	assert_int_equal(hfi_unit_cnt(err, sizeof(err)), 0);
	assert_non_null(strstr(err, path));
	conf(NULL);
}

static void jkey__ranges(void **state)
{
	(void)state;
	assert_int_equal(hfi_jkey_of(0, true), 0);
	assert_int_equal(hfi_jkey_of(1000, true), 1000 & 31);
	assert_int_equal(hfi_jkey_of(65535, true), 31);
	assert_int_equal(hfi_jkey_of(1000, false), 1000);
	assert_int_equal(hfi_jkey_of(64, false), 64);
	assert_int_equal(hfi_jkey_of(63, false), 0x803f);
	assert_int_equal(hfi_jkey_of(0, false), 0x8000);
	assert_int_equal(hfi_jkey_of(65536 + 1000, false), 1000);
	assert_int_equal(hfi_jkey_of(65536, false), 0x8000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room__default), cmocka_unit_test(room__numbers),
		cmocka_unit_test(room__lists), cmocka_unit_test(room__tables),
		cmocka_unit_test(room__refusals), cmocka_unit_test(room__file),	   cmocka_unit_test(jkey__ranges),
	};

	unsetenv("SOFTFABRIC_NET");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
