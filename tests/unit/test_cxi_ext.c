// SPDX-License-Identifier: BSD-2-Clause
// The extensions of a cxi domain: fi_open_ops, fi_control, statistics, telemetry, the list of unexpected messages.
#include "base/log.h"
#include "cxi_fix.h"
#include "fi_cxi_ext.h"
#include "fi_ext_softfabric.h"

static struct fi_cxi_dom_ops *dom_ops(const struct cxi_fix *f, const char *name)
{
	struct fi_cxi_dom_ops *ops = NULL;

	assert_int_equal(fi_open_ops(&f->domain->fid, name, 0, (void **)&ops, NULL), 0);
	return ops;
}

static uint64_t counter(const struct cxi_fix *f, const char *name)
{
	struct fi_softfabric_ops_stats *ops = NULL;
	uint64_t v = ~0ULL;

	assert_int_equal(fi_open_ops(&f->domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->read(f->domain, name, &v), 0);
	return v;
}

static void open_ops__every_version_has_its_members(void **state)
{
	static const char *const name[] = {"dom_ops_v1", "dom_ops_v2", "dom_ops_v3",
					   "dom_ops_v4", "dom_ops_v5", "dom_ops_v6"};
	struct cxi_fix f;
	void *ops;

	(void)state;
	cxi_fix_open(&f);
	for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
		struct fi_cxi_dom_ops *o = dom_ops(&f, name[i]);

		assert_true(o->cntr_read && o->topology && o->enable_hybrid_mr_desc && o->ep_get_unexp_msgs &&
			    o->get_dwq_depth && o->enable_mr_match_events && o->enable_optimized_mrs);
	}
	assert_int_equal(fi_open_ops(&f.domain->fid, "dom_ops_v7", 0, &ops, NULL), -FI_EINVAL);
	assert_int_equal(fi_open_ops(&f.domain->fid, NULL, 0, &ops, NULL), -FI_EINVAL);
	cxi_fix_close(&f);
}

static void topology__is_decoded_from_the_nic_address(void **state)
{
	unsigned int group, sw, port;
	struct fi_cxi_dom_ops *ops;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	ops = dom_ops(&f, FI_CXI_DOM_OPS_1);
	cxi_fix_domain(&f)->info.nic = 0x155u << 11 | 0x15u << 6 | 0x2a;
	assert_int_equal(ops->topology(&f.domain->fid, &group, &sw, &port), 0);
	assert_int_equal(group, 0x155);
	assert_int_equal(sw, 0x15);
	assert_int_equal(port, 0x2a);
	assert_int_equal(ops->topology(&f.domain->fid, NULL, NULL, &port), 0);
	assert_int_equal(ops->topology(&f.fabric->fid, &group, &sw, &port), -FI_EINVAL);
	cxi_fix_close(&f);
}

/* The numbers of cntr_read are the places in the list of names; all names are there once. */
static void cntr_read__numbers_and_names_agree(void **state)
{
	struct fi_softfabric_ops_stats *stats = NULL;
	struct fi_cxi_dom_ops *ops;
	struct timespec ts = {0};
	struct cxi_fix_ep e;
	struct cxi_fix f;
	char name[64], other[64];
	uint64_t by_number, by_name;
	size_t cnt = 0;
	bool moved = false;

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(fi_send(e.ep, "abc", 3, NULL, 0, NULL), 0);
	cxi_fix_wait(&e, 1);
	ops = dom_ops(&f, FI_CXI_DOM_OPS_6);
	assert_int_equal(fi_open_ops(&f.domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&stats, NULL), 0);
	for (; !stats->name(f.domain, cnt, name, sizeof(name)); cnt++) {
		assert_int_equal(ops->cntr_read(&f.domain->fid, (unsigned)cnt, &by_number, &ts), 0);
		assert_int_equal(stats->read(f.domain, name, &by_name), 0);
		assert_true(by_name >= by_number);
		moved |= by_number > 0;
		for (size_t i = 0; i < cnt; i++) {
			assert_int_equal(stats->name(f.domain, i, other, sizeof(other)), 0);
			assert_string_not_equal(name, other);
		}
	}
	assert_true(moved);
	assert_true(ts.tv_sec > 0);
	assert_string_equal(name, "sw_transitions"); /* ours are the last */
	assert_int_equal(ops->cntr_read(&f.domain->fid, (unsigned)cnt, &by_number, NULL), -FI_EINVAL);
	assert_int_equal(ops->cntr_read(&f.domain->fid, ~0u, &by_number, NULL), -FI_EINVAL);
	assert_int_equal(ops->cntr_read(&f.domain->fid, 0, NULL, NULL), -FI_EINVAL);
	assert_int_equal(stats->name(f.domain, 0, name, 2), -FI_ETOOSMALL);
	assert_int_equal(stats->read(f.domain, "no such counter", &by_name), -FI_ENOENT);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

static void dwq_depth__is_the_services_less_our_own(void **state)
{
	struct cxi_fix f;
	size_t depth = 0;

	(void)state;
	setenv("SOFTFABRIC_CXI", "svc=1:tles=40", 1);
	cxi_fix_open(&f);
	unsetenv("SOFTFABRIC_CXI");
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_4)->get_dwq_depth(&f.domain->fid, &depth), 0);
	assert_int_equal(depth, 32);
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_4)->get_dwq_depth(&f.domain->fid, NULL), -FI_EINVAL);
	cxi_fix_close(&f);
}

/* --- fi_control ---------------------------------------------------------------------------------- */

static struct fi_info *client_key_info(void)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_ENDPOINT;
	return cxi_fix_info(FI_VERSION(1, 17), h);
}

static void control__flags_of_regions(void **state)
{
	static const int opt[][3] = { /* set, get, set on a domain with keys of clients */
		{FI_OPT_CXI_SET_MR_MATCH_EVENTS, FI_OPT_CXI_GET_MR_MATCH_EVENTS, 0},
		{FI_OPT_CXI_SET_OPTIMIZED_MRS, FI_OPT_CXI_GET_OPTIMIZED_MRS, -FI_EINVAL},
		{FI_OPT_CXI_SET_PROV_KEY_CACHE, FI_OPT_CXI_GET_PROV_KEY_CACHE, -FI_EINVAL},
	};
	struct cxi_fix f, client;
	bool on, off = false;

	(void)state;
	cxi_fix_open(&f);
	assert_true(cxi_fix_domain(&f)->prov_key);
	cxi_fix_open_info(&client, client_key_info());
	assert_false(cxi_fix_domain(&client)->prov_key);
	for (size_t i = 0; i < ARRAY_SIZE(opt); i++) {
		for (int v = 0; v < 2; v++) {
			on = v;
			assert_int_equal(fi_control(&f.domain->fid, opt[i][0], &on), 0);
			on = !v;
			assert_int_equal(fi_control(&f.domain->fid, opt[i][1], &on), 0);
			assert_int_equal(on, v);
		}
		assert_int_equal(fi_control(&f.domain->fid, opt[i][0], NULL), -FI_EINVAL);
		assert_int_equal(fi_control(&f.domain->fid, opt[i][1], NULL), -FI_EINVAL);
		assert_int_equal(fi_control(&client.domain->fid, opt[i][0], &off), opt[i][2]);
		assert_int_equal(fi_control(&client.domain->fid, opt[i][1], &on), 0);
	}
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_6)->enable_optimized_mrs(&f.domain->fid, false), 0);
	assert_false(cxi_fix_domain(&f)->params.optimized_mrs);
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_6)->enable_optimized_mrs(&client.domain->fid, false), -FI_EINVAL);
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_5)->enable_mr_match_events(&f.domain->fid, true), 0);
	assert_true(cxi_fix_domain(&f)->params.mr_match_events);
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_2)->enable_hybrid_mr_desc(&f.domain->fid, true), 0);
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_2)->enable_hybrid_mr_desc(&f.fabric->fid, true), -FI_EINVAL);
	assert_int_equal(fi_control(&f.domain->fid, 4711, &on), -FI_EINVAL);
	cxi_fix_close(&client);
	cxi_fix_close(&f);
}

static void control__overrides_of_receiving(void **state)
{
	struct cxi_fix f;
	size_t size = 0;
	char mode[16];

	(void)state;
	cxi_fix_open(&f);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, "software"), 0);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_GET_RX_MATCH_MODE_OVERRIDE, mode), 0);
	assert_string_equal(mode, "software");
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, "hybrid"), 0);
	assert_int_equal(cxi_match_mode(cxi_fix_domain(&f)), CXI_MATCH_HYBRID);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, "HARDware"), 0);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_GET_RX_MATCH_MODE_OVERRIDE, mode), 0);
	assert_string_equal(mode, "hardware");
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, "Software"), -FI_EINVAL);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, NULL), -FI_EINVAL);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE, &size), -FI_EINVAL);
	size = 1;
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE, &size), 0);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_GET_REQ_BUF_SIZE_OVERRIDE, &size), 0);
	assert_int_equal(size, 16384 + 2049); /* the largest eager message */
	size = 1 << 20;
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE, &size), 0);
	assert_int_equal(cxi_fix_domain(&f)->params.req_buf_size, 1 << 20);
	cxi_fix_close(&f);
}

static char g_late[4096];

static void said_late(enum log_level level, const char *func, int line, const char *text)
{
	(void)level, (void)func, (void)line;
	if (strstr(text, "only before the first"))
		strncat(g_late, "+", sizeof(g_late) - strlen(g_late) - 1);
}

/*
 * Regions and contexts are made with what was set before: later it is refused, in one sentence each, and nothing has
 * changed.
 */
static void control__refused_once_objects_are_made(void **state)
{
	bool on = true, off = false;
	size_t size = 1 << 20;
	struct fid_mr *mr;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	char mem[8];

	(void)state;
	cxi_fix_open(&f);
	log_set_hook(said_late);
	assert_int_equal(fi_mr_reg(f.domain, mem, sizeof(mem), FI_REMOTE_READ, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_MR_MATCH_EVENTS, &on), -FI_EOPBADSTATE);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_OPTIMIZED_MRS, &off), -FI_EOPBADSTATE);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_PROV_KEY_CACHE, &off), -FI_EOPBADSTATE);
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_6)->enable_optimized_mrs(&f.domain->fid, false), -FI_EOPBADSTATE);
	assert_int_equal(dom_ops(&f, FI_CXI_DOM_OPS_5)->enable_mr_match_events(&f.domain->fid, true), -FI_EOPBADSTATE);
	assert_string_equal(g_late, "+++++");
	assert_int_equal(fi_close(&mr->fid), 0); /* there has been one */
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_OPTIMIZED_MRS, &off), -FI_EOPBADSTATE);
	assert_true(cxi_fix_domain(&f)->params.optimized_mrs && cxi_fix_domain(&f)->params.prov_key_cache);
	assert_false(cxi_fix_domain(&f)->params.mr_match_events);
	/* contexts do not exist yet */
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, "hybrid"), 0);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE, &size), 0);
	cxi_fix_close(&f);

	cxi_fix_open(&f);
	*g_late = '\0';
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, "hybrid"), -FI_EOPBADSTATE);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE, &size), -FI_EOPBADSTATE);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_MR_MATCH_EVENTS, &on), -FI_EOPBADSTATE);
	assert_string_equal(g_late, "+++");
	assert_int_equal(cxi_match_mode(cxi_fix_domain(&f)), CXI_MATCH_HARDWARE);
	/* of regions, of which there are none */
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_OPTIMIZED_MRS, &off), 0);
	log_set_hook(NULL);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* --- unexpected messages ------------------------------------------------------------------------- */

static void unexp_check(const char *mode)
{
	struct fi_info *h = fi_allocinfo();
	struct fi_cq_tagged_entry entry[8];
	struct fi_cxi_dom_ops *ops;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	fi_addr_t src[8];
	size_t total = 0;
	char buf[64];

	assert_non_null(h);
	h->caps = FI_MSG | FI_TAGGED | FI_SOURCE;
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_ENDPOINT | FI_MR_PROV_KEY;
	h->tx_attr->msg_order = FI_ORDER_SAS;
	cxi_fix_open_info(&f, cxi_fix_info(FI_VERSION(1, 17), h));
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, (void *)mode), 0);
	cxi_fix_ep_open(&e, &f);
	ops = dom_ops(&f, FI_CXI_DOM_OPS_3);
	assert_int_equal(ops->ep_get_unexp_msgs(e.ep, entry, 8, src, &total), 0);
	assert_int_equal(total, 0);
	assert_int_equal(fi_tsend(e.ep, "abc", 3, NULL, 0, 77, NULL), 0);
	assert_int_equal(fi_senddata(e.ep, "abcd", 4, NULL, 4711, 0, NULL), 0);
	assert_int_equal(fi_tsenddata(e.ep, NULL, 0, NULL, 4712, 0, 78, NULL), 0);
	cxi_fix_wait(&e, 3);
	assert_int_equal(ops->ep_get_unexp_msgs(e.ep, NULL, 8, src, &total), 0);
	assert_int_equal(total, 3);
	total = 0;
	assert_int_equal(ops->ep_get_unexp_msgs(e.ep, entry, 2, src, &total), 2);
	assert_int_equal(total, 3);
	assert_int_equal(ops->ep_get_unexp_msgs(e.ep, entry, 8, src, &total), 3);
	assert_int_equal(entry[0].flags, FI_TAGGED);
	assert_int_equal(entry[0].len, 3);
	assert_int_equal(entry[0].tag, 77);
	assert_null(entry[0].buf);
	assert_int_equal(entry[1].flags, FI_MSG | FI_REMOTE_CQ_DATA);
	assert_int_equal(entry[1].len, 4);
	assert_int_equal(entry[1].data, 4711);
	assert_int_equal(entry[2].flags, FI_TAGGED | FI_REMOTE_CQ_DATA);
	assert_int_equal(entry[2].tag, 78);
	assert_int_equal(src[2], 0);
	/* to look changed nothing */
	assert_int_equal(fi_trecv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 77, 0, NULL), 0);
	cxi_fix_wait(&e, 1);
	assert_memory_equal(buf, "abc", 3);
	assert_int_equal(ops->ep_get_unexp_msgs(e.ep, entry, 8, src, &total), 2);
	assert_int_equal((ssize_t)ops->ep_get_unexp_msgs(NULL, entry, 8, src, &total), -FI_EINVAL);
	assert_int_equal((ssize_t)ops->ep_get_unexp_msgs(e.ep, entry, 8, src, NULL), -FI_EINVAL);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

static void unexp__of_the_adapter(void **state)
{
	(void)state;
	unexp_check("hardware");
}

static void unexp__of_software(void **state)
{
	(void)state;
	unexp_check("software");
}

/* --- counters of flow control, telemetry --------------------------------------------------------- */

/* The adapter has few list entries: unexpected messages use them up, and hybrid matching goes to software. */
static void stats__transition_is_counted(void **state)
{
	struct cxi_fix_ep e;
	struct cxi_fix f;
	char buf[8];

	(void)state;
	setenv("SOFTFABRIC_CXI", "svc=1:les=32", 1);
	cxi_fix_open(&f);
	assert_int_equal(fi_control(&f.domain->fid, FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE, "hybrid"), 0);
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(counter(&f, "sw_transitions"), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(fi_tsend(e.ep, "abc", 3, NULL, 0, 77, NULL), 0);
	for (int i = 0; i < 100; i++) {
		uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
		ssize_t ret;

		while ((ret = fi_trecv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 77, 0, NULL)) == -FI_EAGAIN) {
			assert_true(clk_now_ns(NULL) < until);
			fi_cq_read(e.cq, NULL, 0);
		}
		assert_int_equal(ret, 0);
	}
	cxi_fix_wait(&e, 200);
	assert_int_equal(counter(&f, "sw_transitions"), 1);
	cxi_fix_ep_close(&e);
	assert_int_equal(counter(&f, "sw_transitions"), 1); /* also when the context is gone */
	cxi_fix_close(&f);
	unsetenv("SOFTFABRIC_CXI");
}

static char g_said[4096];

static void said(enum log_level level, const char *func, int line, const char *text)
{
	(void)level, (void)func, (void)line;
	if (!strcasestr(text, "telemetry")) /* of others, as that a port is taken */
		return;
	strncat(g_said, text, sizeof(g_said) - strlen(g_said) - 1);
	strncat(g_said, "\n", sizeof(g_said) - strlen(g_said) - 1);
}

static void telemetry__differences_at_close(void **state)
{
	struct cxi_fix_ep e;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	snprintf(cxi_fix_domain(&f)->params.telemetry, KIT_PARAM_STR, "soft_put_cmds,nonsense,soft_malformed");
	log_set_hook(said);
	cxi_telemetry_start(cxi_fix_domain(&f));
	assert_non_null(strstr(g_said, "\"nonsense\""));
	*g_said = '\0';
	cxi_fix_ep_open(&e, &f);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_send(e.ep, "abc", 3, NULL, 0, NULL), 0);
	cxi_fix_wait(&e, 3);
	cxi_fix_ep_close(&e);
	cxi_fix_domain(&f)->params.telemetry_rgid = (int64_t)cassini_lni_id(cxi_fix_domain(&f)->lni) + 1;
	cxi_telemetry_print(cxi_fix_domain(&f));
	assert_string_equal(g_said, ""); /* another resource group is asked for */
	cxi_fix_domain(&f)->params.telemetry_rgid = -1;
	cxi_fix_close(&f);
	assert_non_null(strstr(g_said, "soft_put_cmds: 3\n"));
	assert_non_null(strstr(g_said, "soft_malformed: 0\n"));
	log_set_hook(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_ops__every_version_has_its_members),
		cmocka_unit_test(topology__is_decoded_from_the_nic_address),
		cmocka_unit_test(cntr_read__numbers_and_names_agree),
		cmocka_unit_test(dwq_depth__is_the_services_less_our_own),
		cmocka_unit_test(control__flags_of_regions),
		cmocka_unit_test(control__overrides_of_receiving),
		cmocka_unit_test(control__refused_once_objects_are_made),
		cmocka_unit_test(unexp__of_the_adapter),
		cmocka_unit_test(unexp__of_software),
		cmocka_unit_test(stats__transition_is_counted),
		cmocka_unit_test(telemetry__differences_at_close),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
