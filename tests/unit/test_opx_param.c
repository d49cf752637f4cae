// SPDX-License-Identifier: BSD-2-Clause
// FI_OPX_*: defaults, ranges, what is refused and said, the job's UUID, cores of progress threads. Source:
// doc/facts/opx.md#parameters, #prog_affinity, #booleans.
#include <string.h>

#include "opx_fake.h"

static struct opx_params prm;

static int setup(void **state)
{
	(void)state;
	fake_reset(1);
	return 0;
}

static void get(int want)
{
	memset(&prm, 0xa5, sizeof(prm));
	assert_int_equal(opx_params_get(&prm), want);
}

/* One variable, then forgotten. */
static void get_with(const char *name, const char *value, int want)
{
	char env[64];

	snprintf(env, sizeof(env), "FI_OPX_%s", name);
	setenv(env, value, 1);
	get(want);
	unsetenv(env);
}

static void defaults__are_documented(void **state)
{
	(void)state;
	get(0);
	assert_string_equal(prm.uuid, "00112233445566778899aabbccddeeff");
	assert_false(prm.force_cpuaffinity);
	assert_false(prm.selinux);
	assert_false(prm.expected_receive_enable);
	assert_true(prm.shm_enable);
	assert_int_equal(prm.reliability_service_usec_max, 500);
	assert_int_equal(prm.reliability_service_pre_ack_rate, 64);
	assert_string_equal(prm.hfi_select, "");
	assert_false(prm.hfi_select_set);
	assert_int_equal(prm.sdma_bounce_buf_threshold, 16385);
	assert_false(prm.sdma_disable);
	assert_int_equal(prm.sdma_min_payload_bytes, 16385);
	assert_int_equal(prm.rzv_min_payload_bytes, 16385);
	assert_false(prm.mp_eager_disable);
	assert_string_equal(prm.prog_affinity, "");
	assert_int_equal(prm.auto_progress_interval_usec, 1);
	assert_int_equal(prm.pkey, 0x8001);
	assert_false(prm.pkey_refused);
	assert_int_equal(prm.sl, 0);
	assert_int_equal(prm.dev_reg_send_threshold, 4096);
	assert_int_equal(prm.dev_reg_recv_threshold, 8192);
	/* the manual's and the fi_info -e table name them all */
	assert_int_equal(opx_param_cnt, 20);
	for (size_t i = 0; i < opx_param_cnt; i++)
		assert_non_null(strstr(opx_param_tab[i].help, "(Default: "));
}

struct range {
	const char *name;
	size_t off;
	int64_t dflt;
	const char *good[6], *bad[8];
	int64_t want[6];
};
#define R(name_, member_, dflt_) .name = name_, .off = offsetof(struct opx_params, member_), .dflt = dflt_

static void numbers__ranges(void **state)
{
	static const struct range tab[] = {
		{R("RELIABILITY_SERVICE_USEC_MAX", reliability_service_usec_max, 500),
		 .good = {"1", "0x10", "2147483647"}, .want = {1, 16, 2147483647},
		 .bad = {"2147483648", "5s", "", "x"}},
		{R("RELIABILITY_SERVICE_PRE_ACK_RATE", reliability_service_pre_ack_rate, 64),
		 .good = {"0", "1", "2", "128", "32768"}, .want = {0, 1, 2, 128, 32768},
		 .bad = {"3", "-1", "65536", "100", "32769", "64k"}},
		{R("SDMA_BOUNCE_BUF_THRESHOLD", sdma_bounce_buf_threshold, 16385), .good = {"16385", "2147483646"},
		 .want = {16385, 2147483646}, .bad = {"16384", "64", "2147483647", "-5", "many"}},
		{R("SDMA_MIN_PAYLOAD_BYTES", sdma_min_payload_bytes, 16385), .good = {"64", "2147483646"},
		 .want = {64, 2147483646}, .bad = {"63", "0", "2147483647", "64K"}},
		{R("RZV_MIN_PAYLOAD_BYTES", rzv_min_payload_bytes, 16385), .good = {"64", "65536"}, .want = {64, 65536},
		 .bad = {"63", "65537", "-64", "1e3"}},
		{R("AUTO_PROGRESS_INTERVAL_USEC", auto_progress_interval_usec, 1), .good = {"0", "1", "1000000"},
		 .want = {0, 1, 1000000}, .bad = {"1us", "2147483648"}},
		{R("SL", sl, 0), .good = {"0", "31"}, .want = {0, 31}, .bad = {"32", "-1", "low"}},
		{R("DEV_REG_SEND_THRESHOLD", dev_reg_send_threshold, 4096), .good = {"0", "1048576"},
		 .want = {0, 1048576}, .bad = {"-1"}},
		{R("DEV_REG_RECV_THRESHOLD", dev_reg_recv_threshold, 8192), .good = {"0", "1048576"},
		 .want = {0, 1048576}, .bad = {"-1"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tab); i++) {
		const struct range *r = &tab[i];
		int64_t v;

		for (int k = 0; k < 6 && r->good[k]; k++) {
			get_with(r->name, r->good[k], 0);
			memcpy(&v, (uint8_t *)&prm + r->off, sizeof(v));
			assert_int_equal(v, r->want[k]);
		}
		for (int k = 0; k < 8 && r->bad[k]; k++) {
			get_with(r->name, r->bad[k], -FI_EINVAL);
			memcpy(&v, (uint8_t *)&prm + r->off, sizeof(v));
			assert_int_equal(v, r->dflt);
		}
	}
}

static void numbers__clamped(void **state)
{
	(void)state;
	get_with("RELIABILITY_SERVICE_USEC_MAX", "0", -FI_EINVAL);
	assert_int_equal(prm.reliability_service_usec_max, 1);
	get_with("RELIABILITY_SERVICE_USEC_MAX", "-7", -FI_EINVAL);
	assert_int_equal(prm.reliability_service_usec_max, 1);
	get_with("AUTO_PROGRESS_INTERVAL_USEC", "-1", -FI_EINVAL);
	assert_int_equal(prm.auto_progress_interval_usec, 0);
}

static void booleans__words(void **state)
{
	static const char *const yes[] = {"1", "on", "true", "yes", "YES", "True"}, *const no[] = {"0", "off", "false",
												   "no", "No"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		get_with("SELINUX", yes[i], 0);
		assert_true(prm.selinux);
		get_with("FORCE_CPUAFFINITY", yes[i], 0);
		assert_true(prm.force_cpuaffinity);
		get_with("EXPECTED_RECEIVE_ENABLE", yes[i], 0);
		assert_true(prm.expected_receive_enable);
		get_with("SDMA_DISABLE", yes[i], 0); /* documented as integers */
		assert_true(prm.sdma_disable);
		get_with("MP_EAGER_DISABLE", yes[i], 0);
		assert_true(prm.mp_eager_disable);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		get_with("SHM_ENABLE", no[i], 0);
		assert_false(prm.shm_enable);
		get_with("SDMA_DISABLE", no[i], 0);
		assert_false(prm.sdma_disable);
	}
	get_with("SDMA_DISABLE", "-3", 0); /* any integer but 0 */
	assert_true(prm.sdma_disable);
	get_with("MP_EAGER_DISABLE", "maybe", -FI_EINVAL);
	assert_false(prm.mp_eager_disable);
	get_with("SELINUX", "2", -FI_EINVAL);
	assert_false(prm.selinux);
}

static void bounce__has_an_old_name(void **state)
{
	(void)state;
	get_with("DELIVERY_COMPLETION_THRESHOLD", "20000", 0);
	assert_int_equal(prm.sdma_bounce_buf_threshold, 20000);
	setenv("FI_OPX_SDMA_BOUNCE_BUF_THRESHOLD", "30000", 1);
	get_with("DELIVERY_COMPLETION_THRESHOLD", "20000", 0);
	assert_int_equal(prm.sdma_bounce_buf_threshold, 30000);
	unsetenv("FI_OPX_SDMA_BOUNCE_BUF_THRESHOLD");
	get_with("DELIVERY_COMPLETION_THRESHOLD", "16384", -FI_EINVAL);
	assert_int_equal(prm.sdma_bounce_buf_threshold, 16385);
}

static void pkey__refused_is_not_default(void **state)
{
	static const char *const bad[] = {"0", "-1", "0x10000", "", "pkey", "0x"};

	(void)state;
	get_with("PKEY", "0x7001", 0);
	assert_int_equal(prm.pkey, 0x7001);
	assert_false(prm.pkey_refused);
	get_with("PKEY", "65535", 0);
	assert_int_equal(prm.pkey, 0xffff);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		get_with("PKEY", bad[i], -FI_EINVAL);
		assert_true(prm.pkey_refused);
	}
}

static void select__is_told_when_set(void **state)
{
	char text[KIT_PARAM_TEXT + 1];

	(void)state;
	get_with("HFI_SELECT", "numa:0:0-3,default", 0);
	assert_true(prm.hfi_select_set);
	assert_string_equal(prm.hfi_select, "numa:0:0-3,default");
	get_with("HFI_SELECT", "", 0);
	assert_true(prm.hfi_select_set);
	memset(text, '0', sizeof(text));
	text[4096] = '\0';
	get_with("HFI_SELECT", text, 0);
	assert_string_equal(prm.hfi_select, text);
	text[4096] = '0';
	text[4097] = '\0';
	get_with("HFI_SELECT", text, -FI_EINVAL);
	assert_true(prm.hfi_select_set);
	assert_string_equal(prm.hfi_select, "");
}

/* --- the job ------------------------------------------------------------------------------------- */

static void job_check(const char *hex)
{
	char got[33];

	for (int i = 0; i < 16; i++)
		snprintf(got + 2 * i, 3, "%02x", prm.job[i]);
	assert_string_equal(got, hex);
}

static void uuid__precedence(void **state)
{
	(void)state;
	get(0);
	job_check("00112233445566778899aabbccddeeff");
	setenv("I_MPI_HYDRA_UUID", "abc", 1);
	get(0);
	job_check("00000000000000000000000000000abc");
	setenv("I_MPI_HYDRA_UUID", "3dc80000-e4d5-a1fe-7fbf-050001B4d7b4", 1); /* as Intel MPI writes it */
	get(0);
	job_check("3dc80000e4d5a1fe7fbf050001b4d7b4");
	setenv("SLURM_JOB_ID", "4711", 1);
	get(0);
	job_check("00000000000000000000000000004711");
	get_with("UUID", "DEADbeef", 0);
	assert_string_equal(prm.uuid, "DEADbeef");
	job_check("000000000000000000000000deadbeef");
	get_with("UUID", "ffeeddccbbaa99887766554433221100", 0);
	job_check("ffeeddccbbaa99887766554433221100");
}

static void uuid__refused(void **state)
{
	static const char *const bad[] = {"", "g", "0x12", "12-34", " 1", "1 ", "ffeeddccbbaa998877665544332211000"};

	(void)state;
	setenv("SLURM_JOB_ID", "4711", 1); /* not in place of one that is refused: ranks would disagree */
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		get_with("UUID", bad[i], -FI_EINVAL);
		job_check("00112233445566778899aabbccddeeff");
		assert_string_equal(prm.uuid, "00112233445566778899aabbccddeeff");
	}
	setenv("SLURM_JOB_ID", "job7", 1);
	get(-FI_EINVAL);
	job_check("00112233445566778899aabbccddeeff");
}

/* --- cores --------------------------------------------------------------------------------------- */

static void cores__triplet(void **state)
{
	static const char *const bad[] = {"",	     "1",      "1:5",	 "1:5:",   ":5:2",   "1::2",  "1:5:2:",
					  "1:5:2:1", "-1:5:2", "1:5:-2", " 1:5:2", "1:5:2 ", "a:b:c", "1:5:2,6:8:1"};
	struct opx_cores c = {0};

	(void)state;
	assert_int_equal(opx_cores_parse("1:5:2", &c), 0);
	assert_int_equal(c.start, 1);
	assert_int_equal(c.end, 5);
	assert_int_equal(c.stride, 2);
	assert_int_equal(opx_cores_parse("0:99999999999999:0", &c), 0);
	assert_int_equal(c.stride, 1);
	assert_true(c.end > 1000000);
	assert_int_equal(opx_cores_parse("5:1:1", &c), 0); /* no core: no binding */
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (opx_cores_parse(bad[i], &c) != -FI_EINVAL)
			fail_msg("\"%s\" was not refused", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(defaults__are_documented, setup),
		cmocka_unit_test_setup(numbers__ranges, setup),
		cmocka_unit_test_setup(numbers__clamped, setup),
		cmocka_unit_test_setup(booleans__words, setup),
		cmocka_unit_test_setup(bounce__has_an_old_name, setup),
		cmocka_unit_test_setup(pkey__refused_is_not_default, setup),
		cmocka_unit_test_setup(select__is_told_when_set, setup),
		cmocka_unit_test_setup(uuid__precedence, setup),
		cmocka_unit_test_setup(uuid__refused, setup),
		cmocka_unit_test_setup(cores__triplet, setup),
	};

	return cmocka_run_group_tests(tests, fake_group_setup, NULL);
}
