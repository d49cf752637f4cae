// SPDX-License-Identifier: BSD-2-Clause
// SOFTFABRIC_CXI: grammar, generations, services and their limits, access refusals; LNIs, profiles, resources.
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "nic/cassini/cassini_int.h"

static char g_log[2048];
static unsigned g_warnings;

static void on_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	(void)func;
	(void)line;
	if (lvl != LOG_LVL_WARN)
		return;
	g_warnings++;
	snprintf(g_log, sizeof(g_log), "%s", msg);
}

static void conf(const char *text)
{
	unsetenv("SOFTFABRIC_CONF");
	if (text)
		setenv("SOFTFABRIC_CXI", text, 1);
	else
		unsetenv("SOFTFABRIC_CXI");
}

/* The room @text is refused with a sentence that has all of @words (separated by |) in it. */
static void refused(const char *text, const char *words)
{
	char err[512] = "", list[256], *rest = list, *word;

	conf(text);
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 0);
	snprintf(list, sizeof(list), "%s", words);
	while ((word = strsep(&rest, "|")))
		if (!strstr(err, word))
			fail_msg("'%s' is not in: %s", word, err);
}

static struct cassini_svc_desc svc_of(uint32_t id)
{
	struct cassini_svc_desc list[16];
	int cnt = cassini_svc_list(0, list, 16);

	for (int i = 0; i < cnt; i++)
		if (list[i].svc_id == id)
			return list[i];
	fail_msg("no service %u", id);
	return list[0];
}

static void room__default(void **state)
{
	struct cassini_devinfo info;
	struct cassini_svc_desc svc;
	char err[256] = "x";

	(void)state;
	conf(NULL);
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 1);
	assert_string_equal(err, "");
	assert_int_equal(cassini_dev_query(0, &info), 0);
	assert_string_equal(info.name, "cxi0");
	assert_in_range(info.nic, 1, CASSINI_NIC_MAX + 1 - CASSINI_DEV_MAX); /* says which host this is */
	assert_int_equal(info.vendor_id, 0x1590); /* the newest generation */
	assert_int_equal(info.device_id, 0x371);
	assert_int_equal(info.device_rev, 1);
	assert_int_equal(info.version, 2);
	assert_int_equal(info.speed_bps, 400000000000);
	assert_int_equal(info.mtu, 2112);
	assert_true(info.link_up);
	assert_int_equal(info.num_les, 16384);
	assert_int_equal(info.num_ptes, 2048);
	assert_int_equal(cassini_dev_query(1, &info), -ENODEV);
	assert_int_equal(cassini_dev_query(-1, &info), -ENODEV);
	assert_int_equal(cassini_svc_list(0, NULL, 0), 1);
	assert_int_equal(cassini_svc_list(1, NULL, 0), 0);
	svc = svc_of(1);
	assert_true(svc.enabled);
	assert_false(svc.is_system || svc.restricted_members || svc.restricted_vnis || svc.restricted_tcs);
	assert_int_equal(svc.vni_cnt, 2);
	assert_int_equal(svc.vni[0], 1);
	assert_int_equal(svc.vni[1], 10);
	assert_int_equal(svc.tcs, 15);
	assert_int_equal(svc.max[CASSINI_RSRC_LE], 16384);
	assert_int_equal(svc.max[CASSINI_RSRC_TLE], 512);
}

static void room__adapters(void **state)
{
	struct cassini_devinfo info, first;
	char err[256];

	(void)state;
	conf("nics=3;gen=cassini2;les=100;ptes=7;txqs=6;tgqs=5;eqs=4;cts=3;tles=2;acs=1");
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 3);
	assert_int_equal(cassini_dev_query(2, &info), 0);
	assert_string_equal(info.name, "cxi2");
	assert_int_equal(cassini_dev_query(0, &first), 0);
	assert_int_equal(info.nic, first.nic + 2);
	assert_int_equal(info.version, 2);
	assert_int_equal(info.speed_bps, 400000000000);
	assert_int_equal(info.num_les, 100);
	assert_int_equal(info.num_ptes, 7);
	assert_int_equal(info.num_txqs, 6);
	assert_int_equal(info.num_tgqs, 5);
	assert_int_equal(info.num_eqs, 4);
	assert_int_equal(info.num_cts, 3);
	assert_int_equal(info.num_tles, 2);
	assert_int_equal(info.num_acs, 1);
	assert_int_equal(svc_of(1).max[CASSINI_RSRC_TLE], 2);
	conf("nics=0");
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "");
}

static void room__older_generation(void **state)
{
	struct cassini_devinfo info;
	char err[256];

	(void)state;
	conf("gen=cassini1");
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 1);
	assert_int_equal(cassini_dev_query(0, &info), 0);
	assert_int_equal(info.vendor_id, 0x17db);
	assert_int_equal(info.device_id, 0x501);
	assert_int_equal(info.device_rev, 2);
	assert_int_equal(info.version, 1);
	assert_int_equal(info.speed_bps, 200000000000);
}

static void room__refusals(void **state)
{
	(void)state;
	refused("nics=9", "SOFTFABRIC_CXI|nics|8");
	refused("mtu=1", "mtu|nics|gen|svc");
	refused("gen=cassini3", "cassini1|cassini2");
	refused("gen=cassini1,cassini2", "one of");
	refused("svc=x:vnis=1", "svc=x|service id");
	refused("svc=0", "service id");
	refused("svc=2:vnis=0", "service 2|vnis=0");
	refused("svc=2:vnis=1+2+3+4+5", "service 2|one to 4");
	refused("svc=2:vnis=1+x", "vnis=1+x");
	refused("svc=2:vnis=65536", "vnis=65536");
	refused("svc=2:user=5", "service 2|user|uid|gid|vnis");
	refused("svc=2:tcs=gold", "gold|best_effort|low_latency");
	refused("svc=2:uid=-1", "uid");
	refused("les=10;svc=2:les=11", "service 2|11 list entries|10");
	refused("svc=2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "16 services");
}

static void room__services(void **state)
{
	struct cassini_svc_desc s;
	char err[256];

	(void)state;
	conf("svc=2:vnis=1+10:uid=1000:tcs=best_effort+low_latency:les=64, 3:system=yes:enabled=no:gid=7,4");
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 0); /* a blank is no digit */
	conf("svc=2:vnis=1+10:uid=1000:tcs=best_effort+low_latency:les=64,3:system=yes:enabled=no:gid=7,4;nics=2");
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 2);
	assert_int_equal(cassini_svc_list(1, NULL, 0), 4);
	s = svc_of(2);
	assert_true(s.enabled && s.restricted_members && s.restricted_vnis && s.restricted_tcs && !s.is_system);
	assert_int_equal(s.uid, 1000);
	assert_int_equal(s.gid, -1);
	assert_int_equal(s.vni_cnt, 2);
	assert_int_equal(s.vni[1], 10);
	assert_int_equal(s.tcs, 1 << CASSINI_TC_BEST_EFFORT | 1 << CASSINI_TC_LOW_LATENCY);
	assert_int_equal(s.max[CASSINI_RSRC_LE], 64);
	assert_int_equal(s.max[CASSINI_RSRC_PTE], 2048);
	s = svc_of(3);
	assert_true(s.is_system && !s.enabled && s.restricted_members && !s.restricted_vnis);
	assert_int_equal(s.gid, 7);
	s = svc_of(4);
	assert_true(s.enabled && !s.restricted_members && !s.restricted_vnis && !s.restricted_tcs);
	conf("svc=1:vnis=5");
	s = svc_of(1);
	assert_true(s.restricted_vnis && s.vni_cnt == 1 && s.vni[0] == 5);
}

static void room__file(void **state)
{
	char path[] = "/tmp/sf_cassini_XXXXXX", err[512];
	struct cassini_devinfo info;
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	(void)state;
	assert_non_null(f);
	fprintf(f, "[efa]\nnics = 9\n[cxi]\nnics = 2\ngen = cassini2\nles = 77\n");
	fclose(f);
	conf("nics=4");
	setenv("SOFTFABRIC_CONF", path, 1);
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 4);
	assert_int_equal(cassini_dev_query(0, &info), 0);
	assert_int_equal(info.num_les, 77);
	assert_int_equal(info.version, 2);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "[cxi]\nnics = many\n");
	fclose(f);
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 0);
	assert_non_null(strstr(err, path));
	unlink(path);
	assert_int_equal(cassini_dev_cnt(err, sizeof(err)), 0);
	assert_non_null(strstr(err, "cannot be read"));
	conf(NULL);
}

static void svc__access(void **state)
{
	char text[256], why[256] = "";
	unsigned me = (unsigned)geteuid(), my_group = (unsigned)getegid();

	(void)state;
	snprintf(text, sizeof(text), "svc=2:vnis=1+10:uid=%u:tcs=best_effort,3:uid=%u,4:enabled=no,5:uid=%u:gid=%u", me,
		 me + 1, me + 1, my_group);
	conf(text);
	assert_int_equal(cassini_svc_check(0, 1, 4711, -1, why, sizeof(why)), 0);
	assert_int_equal(cassini_svc_check(0, 1, 1, CASSINI_TC_DEDICATED_ACCESS, why, sizeof(why)), 0);
	assert_int_equal(cassini_svc_check(0, 1, 0, -1, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "VNI 0"));
	assert_int_equal(cassini_svc_check(0, 1, 1, CASSINI_TC_ETH, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "eth"));
	assert_int_equal(cassini_svc_check(0, 2, 10, CASSINI_TC_BEST_EFFORT, why, sizeof(why)), 0);
	assert_int_equal(cassini_svc_check(0, 2, 11, -1, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "VNI 11 is not in service 2, which has 1, 10"));
	assert_int_equal(cassini_svc_check(0, 2, 10, CASSINI_TC_LOW_LATENCY, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "low_latency"));
	assert_int_equal(cassini_svc_check(0, 2, 10, 77, why, sizeof(why)), -EACCES);
	assert_int_equal(cassini_svc_check(0, 3, 10, -1, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "not a member"));
	assert_int_equal(cassini_svc_check(0, 4, 10, -1, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "disabled"));
	assert_int_equal(cassini_svc_check(0, 5, 10, -1, why, sizeof(why)), 0); /* by its group */
	assert_int_equal(cassini_svc_check(0, 6, 10, -1, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "no service 6"));
}

struct world {
	struct lock lock;
	struct cassini *nic;
	int64_t live;
};

static void world_open(struct world *w, const char *text)
{
	struct cassini_open_attr attr = {.lock = &w->lock, .no_thread = true};

	memset(w, 0, sizeof(*w));
	conf(text);
	w->live = mem_live_count();
	assert_int_equal(cassini_open(&attr, &w->nic), 0);
	lock_acquire(&w->lock);
	g_warnings = 0;
}

static void world_close(struct world *w)
{
	lock_release(&w->lock);
	cassini_close(w->nic);
	assert_int_equal(mem_live_count(), w->live);
}

static void open__missing(void **state)
{
	struct lock lock = {0};
	struct cassini_open_attr attr = {.lock = &lock, .no_thread = true, .dev_idx = 1};
	struct cassini *nic = NULL;
	int64_t live = mem_live_count();

	(void)state;
	conf(NULL);
	assert_int_equal(cassini_open(&attr, &nic), -ENODEV);
	attr.dev_idx = 0;
	mem_fail_nth(1);
	assert_int_equal(cassini_open(&attr, &nic), -ENOMEM);
	mem_fail_nth(0);
	assert_null(nic);
	assert_int_equal(mem_live_count(), live);
	cassini_close(NULL);
}

static void lni__services(void **state)
{
	struct cassini_lni *a, *b;
	struct world w;

	(void)state;
	world_open(&w, "svc=2:enabled=no");
	assert_int_equal(cassini_lni_open(w.nic, 1, &a), 0);
	assert_int_equal(cassini_lni_open(w.nic, 1, &b), 0);
	assert_int_not_equal(cassini_lni_id(a), cassini_lni_id(b));
	assert_int_equal(g_warnings, 0);
	cassini_lni_close(b);
	assert_int_equal(cassini_lni_open(w.nic, 2, &b), -EACCES);
	assert_non_null(strstr(g_log, "disabled"));
	assert_int_equal(cassini_lni_open(w.nic, 3, &b), -EINVAL);
	assert_int_equal(g_warnings, 2);
	mem_fail_nth(1);
	assert_int_equal(cassini_lni_open(w.nic, 1, &b), -ENOMEM);
	mem_fail_nth(0);
	cassini_lni_close(a);
	cassini_lni_close(NULL);
	assert_string_equal(cassini_info(w.nic)->name, "cxi0");
	assert_false(cassini_forked(w.nic));
	world_close(&w);
}

/* A host on loopback has its own NIC addresses: others are not here, and the log says so, once. */
static void dom__another_host_on_loopback(void **state)
{
	const struct cassini_dom_attr attr = {.vni = 10, .pid = CASSINI_PID_ANY};
	struct cassini_peer *peer;
	struct cassini_lni *lni;
	struct cassini_dom *dom;
	struct world w;
	uint32_t self;

	(void)state;
	world_open(&w, "nics=2");
	self = cassini_info(w.nic)->nic;
	assert_int_equal(cassini_lni_open(w.nic, 1, &lni), 0);
	assert_int_equal(cassini_dom_open(lni, &attr, &dom), 0);
	g_log[0] = '\0';
	assert_int_equal(cassini_peer_get(dom, self, 3, &peer), 0);
	assert_int_equal(cassini_peer_get(dom, self + 1, 3, &peer), 0);
	assert_string_equal(g_log, "");
	for (int i = 0; i < 3; i++)
		assert_int_equal(cassini_peer_get(dom, self ^ 0x80000, 3, &peer), -ENETUNREACH);
	assert_non_null(
		strstr(g_log, "no adapter with this address on this host; between hosts set SOFTFABRIC_NET=\"if="));
	assert_int_equal(g_warnings, 1);
	cassini_dom_close(dom);
	cassini_lni_close(lni);
	world_close(&w);
}

static void rsrc__limits(void **state)
{
	struct cassini_lni *lni;
	uint32_t used, max;
	struct world w;

	(void)state;
	world_open(&w, "cts=2;les=1");
	assert_int_equal(cassini_lni_open(w.nic, 1, &lni), 0);
	assert_int_equal(cassini_rsrc_get(lni, CASSINI_RSRC_CT), 0);
	assert_int_equal(cassini_rsrc_get(lni, CASSINI_RSRC_CT), 0);
	assert_int_equal(g_warnings, 0);
	assert_int_equal(cassini_rsrc_get(lni, CASSINI_RSRC_CT), -ENOSPC);
	assert_int_equal(g_warnings, 1);
	assert_non_null(strstr(g_log, "no CT left: all 2 counting events"));
	cassini_rsrc(lni, CASSINI_RSRC_CT, &used, &max);
	assert_int_equal(used, 2);
	assert_int_equal(max, 2);
	cassini_rsrc_put(lni, CASSINI_RSRC_CT);
	assert_int_equal(cassini_rsrc_get(lni, CASSINI_RSRC_CT), 0);
	assert_int_equal(cassini_rsrc_get(lni, CASSINI_RSRC_LE), 0);
	assert_int_equal(cassini_rsrc_get(lni, CASSINI_RSRC_LE), -ENOSPC);
	assert_int_equal(g_warnings, 1); /* an event tells of that one */
	cassini_lni_close(lni);
	world_close(&w);
}

static void cp__shared_and_limited(void **state)
{
	struct cassini_cp *cp[CASSINI_LCID_MAX], *again, *more;
	struct cassini_lni *lni;
	struct world w;

	(void)state;
	world_open(&w, "svc=2:vnis=10:tcs=best_effort");
	assert_int_equal(cassini_lni_open(w.nic, 1, &lni), 0);
	for (unsigned i = 0; i < CASSINI_LCID_MAX; i++) {
		assert_int_equal(cassini_cp_open(lni, (uint16_t)(i + 1), CASSINI_TC_BEST_EFFORT,
						 CASSINI_TC_TYPE_DEFAULT, &cp[i]),
				 0);
		assert_int_equal(cp[i]->lcid, i);
	}
	assert_int_equal(cassini_cp_open(lni, 3, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &again), 0);
	assert_ptr_equal(again, cp[2]);
	assert_int_equal(cassini_cp_open(lni, 3, CASSINI_TC_LOW_LATENCY, CASSINI_TC_TYPE_DEFAULT, &more), -ENOSPC);
	assert_non_null(strstr(g_log, "all 16"));
	cassini_cp_close(again);
	assert_int_equal(cassini_cp_open(lni, 3, CASSINI_TC_LOW_LATENCY, CASSINI_TC_TYPE_DEFAULT, &more), -ENOSPC);
	cassini_cp_close(cp[2]);
	assert_int_equal(cassini_cp_open(lni, 3, CASSINI_TC_LOW_LATENCY, CASSINI_TC_TYPE_RESTRICTED, &more), 0);
	assert_int_equal(more->lcid, 2);
	assert_int_equal(cassini_cp_open(lni, 3, CASSINI_TC_NUM, CASSINI_TC_TYPE_DEFAULT, &again), -EINVAL);
	assert_int_equal(cassini_cp_open(lni, 3, CASSINI_TC_ETH, CASSINI_TC_TYPE_DEFAULT, &again), -EACCES);
	cassini_cp_close(NULL);
	cassini_lni_close(lni);
	assert_int_equal(cassini_lni_open(w.nic, 2, &lni), 0);
	assert_int_equal(cassini_cp_open(lni, 11, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &again), -EACCES);
	assert_non_null(strstr(g_log, "VNI 11"));
	assert_int_equal(cassini_cp_open(lni, 10, CASSINI_TC_BULK_DATA, CASSINI_TC_TYPE_DEFAULT, &again), -EACCES);
	assert_int_equal(cassini_cp_open(lni, 10, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &again), 0);
	cassini_cp_close(again);
	cassini_lni_close(lni);
	world_close(&w);
}

static void stats__names(void **state)
{
	bool seen[sizeof(struct cassini_stats) / sizeof(uint64_t)] = {false};

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(cassini_stat_row); n++) {
		size_t off = cassini_stat_row[n].off;

		assert_true(*cassini_stat_row[n].name);
		assert_int_equal(off % sizeof(uint64_t), 0);
		assert_true(off < sizeof(struct cassini_stats));
		assert_false(seen[off / sizeof(uint64_t)]);
		seen[off / sizeof(uint64_t)] = true;
	}
}

/* A name is the telemetry's, for tools that look for it, or says that it is not. */
static void stats__names_of_the_telemetry(void **state)
{
	static const char *const real[] = {
		"cq_success_tx_cntr", "cq_num_idc_cmds_0", "ixe_rx_ptl_unrestricted_pkt", "ixe_rx_ptl_restricted_pkt",
		"lpe_plec_hits", "lpe_net_match_priority_0", "lpe_net_match_overflow_0", "lpe_net_match_request_0",
		"lpe_rndzv_puts_offloaded_0", "lpe_err_pt_disabled_no_match_in_overflow",
		"lpe_err_pt_disabled_req_empty", "lpe_err_pt_disabled_eq_full", "ee_events_dropped_ordinary_cntr_0",
		"rmu_ptl_invld_vni_cntr", "rmu_ptl_no_ptlte_cntr", "lpe_err_entry_not_found_no_match_in_overflow",
		"lpe_err_op_violation",
	};
	size_t found = 0;

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(cassini_stat_row); n++) {
		const char *name = cassini_stat_row[n].name;
		size_t i = 0;

		while (i < ARRAY_SIZE(real) && strcmp(real[i], name))
			i++;
		found += i < ARRAY_SIZE(real);
		if (i == ARRAY_SIZE(real) && strncmp(name, "soft_", 5))
			fail_msg("%s is no counter of the telemetry", name);
	}
	assert_int_equal(found, ARRAY_SIZE(real));
}

static void stats__report(void **state)
{
	char prefix[64], path[96], line[4096] = "";
	struct world w;
	FILE *f;

	(void)state;
	snprintf(prefix, sizeof(prefix), "/tmp/sf_cassini_stats_%d", (int)getpid());
	snprintf(path, sizeof(path), "%s.%d", prefix, (int)getpid());
	world_open(&w, NULL);
	w.nic->stats.puts = 41;
	w.nic->stats.gets = 100;
	w.nic->stats.rendezvous = 200;
	w.nic->stats.atomics = 400;
	w.nic->stats.fetching_atomics = 800;
	setenv("SOFTFABRIC_STATS", prefix, 1);
	world_close(&w);
	unsetenv("SOFTFABRIC_STATS");
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	unlink(path);
	assert_non_null(strstr(line, "adapter=cxi0"));
	assert_non_null(strstr(line, " soft_put_cmds=41 "));
	assert_non_null(strstr(line, " cq_success_tx_cntr=1541 ")); /* all of these */
	assert_non_null(strstr(line, "soft_fault_partition=0\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room__default), cmocka_unit_test(room__adapters),
		cmocka_unit_test(room__older_generation),
		cmocka_unit_test(room__refusals), cmocka_unit_test(stats__names_of_the_telemetry),
		cmocka_unit_test(room__services), cmocka_unit_test(room__file),	    cmocka_unit_test(svc__access),
		cmocka_unit_test(open__missing),  cmocka_unit_test(lni__services),
		cmocka_unit_test(dom__another_host_on_loopback), cmocka_unit_test(rsrc__limits),
		cmocka_unit_test(cp__shared_and_limited), cmocka_unit_test(stats__names),
		cmocka_unit_test(stats__report),
	};

	unsetenv("SOFTFABRIC_NET");
	unsetenv("SOFTFABRIC_STATS");
	log_set_hook(on_log);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
