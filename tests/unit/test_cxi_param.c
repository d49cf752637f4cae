// SPDX-License-Identifier: BSD-2-Clause
// The FI_CXI_* parameters: defaults, what changes them, what is refused. Source: doc/facts/cxi.md#parameters.
#include <ctype.h>
#include <stdio.h>

#include "cxi_fix.h"

static char *env_name(const char *param, char *buf, size_t len)
{
	snprintf(buf, len, "FI_CXI_%s", param);
	for (char *p = buf; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	return buf;
}

static int teardown(void **state)
{
	char name[64];

	(void)state;
	for (size_t i = 0; i < cxi_param_cnt; i++)
		unsetenv(env_name(cxi_param_tab[i].name, name, sizeof(name)));
	return 0;
}

static const struct kit_param *row_of(const char *name)
{
	for (size_t i = 0; i < cxi_param_cnt; i++)
		if (!strcmp(cxi_param_tab[i].name, name))
			return &cxi_param_tab[i];
	fail_msg("no parameter %s", name);
	return NULL;
}

static void value_text(const struct kit_param *row, const struct cxi_params *p, char *buf, size_t len)
{
	const char *at = (const char *)p + row->off;
	int64_t i;
	size_t s;

	switch (row->type) {
	case KIT_BOOL:
	case KIT_FLAG:
		snprintf(buf, len, "%d", *(const bool *)at);
		break;
	case KIT_INT:
		memcpy(&i, at, sizeof(i));
		snprintf(buf, len, "%lld", (long long)i);
		break;
	case KIT_SIZE:
		memcpy(&s, at, sizeof(s));
		snprintf(buf, len, "%zu", s);
		break;
	case KIT_STRING:
		snprintf(buf, len, "%s", at);
		break;
	}
}

static const struct {
	const char *name, *text;
} dflt[] = {
	{"odp", "0"}, {"force_odp", "0"}, {"ats", "0"}, {"iotlb", "1"}, {"ats_mlock_mode", "all"}, {"device_name", ""},
	{"default_vni", "10"},
	{"rx_match_mode", "hardware"}, {"rdzv_threshold", "16384"}, {"rdzv_get_min", "2049"},
	{"rdzv_eager_size", "2048"}, {"rdzv_proto", "default"},
	{"disable_alt_read_cmdq", "0"}, {"rdzv_aligned_sw_rget", "1"},
	{"rget_tc", ""}, {"disable_non_inject_msg_idc", "0"},
	{"disable_non_inject_rma_idc", "0"}, {"disable_non_inject_amo_idc", "0"},
	{"disable_host_register", "0"}, {"oflow_buf_size", "12582912"},
	{"oflow_buf_min_posted", "3"}, {"oflow_buf_count", "3"},
	{"oflow_buf_max_cached", "9"}, {"req_buf_size", "12582912"},
	{"req_buf_min_posted", "6"}, {"req_buf_max_cached", "0"},
	{"req_buf_max_count", "0"}, {"safe_devmem_copy_threshold", "4096"},
	{"optimized_mrs", "1"}, {"mr_match_events", "0"}, {"prov_key_cache", "1"}, {"enable_writedata", "0"},
	{"mr_target_ordering", "default"},
	{"mr_cache_events_disable_poll_nsecs", "100000"}, {"mr_cache_events_disable_le_poll_nsecs", "1000000000"},
	{"llring_mode", "idle"},
	{"cq_policy", "low_empty"}, {"eq_ack_batch_size", "32"}, {"msg_lossless", "0"}, {"fc_retry_usec_delay", "1000"},
	{"ctrl_rx_eq_max_size", "67108864"}, {"default_cq_size", "131072"},
	{"cq_fill_percent", "50"}, {"disable_cq_hugetlb", "0"},
	{"disable_eq_hugetlb", "0"}, {"default_tx_size", "1024"},
	{"default_rx_size", "1024"}, {"sw_rx_tx_init_max", "1024"},
	{"hybrid_preemptive", "0"}, {"hybrid_recv_preemptive", "0"}, {"hybrid_posted_recv_preemptive", "0"},
	{"hybrid_unexpected_msg_preemptive", "0"}, {"rnr_max_timeout_us", "500000"},
	{"rnr_append_retry_timeout_us", "2000000"}, {"trunc_ok", "0"},
	{"cntr_spin_before_yield", "1000"}, {"cntr_trig_cmdq", "0"},
	{"enable_trig_op_limit", "0"}, {"disable_hmem_dev_register", "0"},
	{"force_ze_hmem_support", "0"}, {"force_dev_reg_copy", "0"}, {"disable_cuda_sync_memops", "0"},
	{"telemetry", ""}, {"telemetry_rgid", "-1"},
	{"zbcoll_radix", "2"}, {"coll_job_id", ""}, {"coll_job_step_id", ""}, {"coll_mcast_token", ""},
	{"coll_fabric_mgr_url", ""},
	{"hwcoll_addrs_per_job", "0"}, {"hwcoll_min_nodes", "-1"},
	{"coll_retry_usec", "32000"}, {"coll_timeout_usec", "20000000"},
	{"coll_use_dma_put", "0"},
};

static void table__defaults_are_the_documented(void **state)
{
	struct cxi_params p;
	char text[KIT_PARAM_STR];

	(void)state;
	assert_int_equal(cxi_params_get(&p), 0);
	for (size_t i = 0; i < ARRAY_SIZE(dflt); i++) {
		value_text(row_of(dflt[i].name), &p, text, sizeof(text));
		if (strcmp(text, dflt[i].text))
			fail_msg("%s is \"%s\", not \"%s\"", dflt[i].name, text, dflt[i].text);
	}
	assert_int_equal(cxi_param_cnt, ARRAY_SIZE(dflt)); /* none that is not documented */
}

/* Defaults lie in their ranges; help ends in what it is when unset, with the value that it has. */
static void table__help_agrees_with_values(void **state)
{
	struct cxi_params p;
	char text[KIT_PARAM_STR], want[KIT_PARAM_STR + 16];

	(void)state;
	cxi_params_default(&p);
	for (size_t i = 0; i < cxi_param_cnt; i++) {
		const struct kit_param *r = &cxi_param_tab[i];

		value_text(r, &p, text, sizeof(text));
		snprintf(want, sizeof(want), "(Default: %s", text);
		if (*text && strcmp(r->name, "oflow_buf_max_cached") && !strstr(r->help, want))
			fail_msg("help of %s does not say \"%s\": %s", r->name, want, r->help);
		if (r->type == KIT_INT && r->min != r->max)
			assert_in_range(strtoll(text, NULL, 10) - r->min, 0, r->max - r->min);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(cxi_param_tab[k].name, r->name);
	}
}

static void values__good_ones(void **state)
{
	struct cxi_params p;

	(void)state;
	setenv("FI_CXI_RX_MATCH_MODE", "hybrid", 1);
	setenv("FI_CXI_RDZV_THRESHOLD", "4096", 1);
	setenv("FI_CXI_DEFAULT_VNI", "77", 1);
	setenv("FI_CXI_FORCE_ODP", "1", 1);
	setenv("FI_CXI_OFLOW_BUF_COUNT", "5", 1);
	assert_int_equal(cxi_params_get(&p), 0);
	assert_string_equal(p.rx_match_mode, "hybrid");
	assert_int_equal(p.rdzv_threshold, 4096);
	assert_int_equal(p.default_vni, 77);
	assert_true(p.odp); /* implied */
	assert_int_equal(p.oflow_buf_min_posted, 5); /* by its older name */
	assert_int_equal(p.oflow_buf_max_cached, 15);
	setenv("FI_CXI_OFLOW_BUF_MIN_POSTED", "2", 1);
	setenv("FI_CXI_OFLOW_BUF_MAX_CACHED", "0", 1);
	assert_int_equal(cxi_params_get(&p), 0);
	assert_int_equal(p.oflow_buf_min_posted, 2);
	assert_int_equal(p.oflow_buf_max_cached, 0);
}

static void values__bad_ones_keep_the_default(void **state)
{
	static const char *const row[][2] = {
		{"rx_match_mode", "fast"}, {"rx_match_mode", "Hybrid"},
		{"rdzv_proto", "rget"}, {"mr_target_ordering", "loose"},
		{"rdzv_threshold", "100"}, {"rdzv_threshold", "-1"}, {"default_vni", "0"}, {"default_vni", "65536"},
		{"cq_fill_percent", "0"}, {"cq_fill_percent", "101"},
		{"default_tx_size", "15"}, {"default_tx_size", "16385"},
		{"default_rx_size", "15361"}, {"sw_rx_tx_init_max", "63"},
		{"coll_retry_usec", "32001"}, {"odp", "perhaps"},
		{"default_cq_size", "0"}, {"req_buf_min_posted", "0"},
		{"oflow_buf_size", "1"}, {"default_cq_size", "many"},
	};
	char text[KIT_PARAM_STR], name[64];
	struct cxi_params p, d;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		char want[KIT_PARAM_STR];

		teardown(NULL);
		setenv(env_name(row[i][0], name, sizeof(name)), row[i][1], 1);
		if (cxi_params_get(&p) != -FI_EINVAL)
			fail_msg("%s=%s is taken", row[i][0], row[i][1]);
		cxi_params_default(&d);
		value_text(row_of(row[i][0]), &d, want, sizeof(want));
		value_text(row_of(row[i][0]), &p, text, sizeof(text));
		assert_string_equal(text, want);
	}
}

static void values__rules_between_them(void **state)
{
	struct cxi_params p;

	(void)state;
	setenv("FI_CXI_RDZV_THRESHOLD", "1000", 1);
	setenv("FI_CXI_RDZV_EAGER_SIZE", "2000", 1);
	cxi_params_get(&p);
	assert_int_equal(p.rdzv_eager_size, 1000);
	setenv("FI_CXI_RDZV_PROTO", "alt_read", 1);
	cxi_params_get(&p);
	assert_string_equal(p.rdzv_proto, "alt_read");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(table__defaults_are_the_documented, teardown, teardown),
		cmocka_unit_test_setup_teardown(table__help_agrees_with_values, teardown, teardown),
		cmocka_unit_test_setup_teardown(values__good_ones, teardown, teardown),
		cmocka_unit_test_setup_teardown(values__bad_ones_keep_the_default, teardown, teardown),
		cmocka_unit_test_setup_teardown(values__rules_between_them, teardown, teardown),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
