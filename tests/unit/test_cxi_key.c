// SPDX-License-Identifier: BSD-2-Clause
// Authorisation keys: what the launcher says, which service fits this user, which VNI, and what is refused with which
// words.
#include <unistd.h>

#include "cxi_fix.h"

static int teardown(void **state)
{
	(void)state;
	unsetenv("SOFTFABRIC_CXI");
	unsetenv("SLINGSHOT_VNIS");
	unsetenv("SLINGSHOT_DEVICES");
	unsetenv("SLINGSHOT_SVC_IDS");
	return 0;
}

static void slingshot(const char *vnis, const char *devices, const char *svcs)
{
	teardown(NULL);
	if (vnis)
		setenv("SLINGSHOT_VNIS", vnis, 1);
	if (devices)
		setenv("SLINGSHOT_DEVICES", devices, 1);
	if (svcs)
		setenv("SLINGSHOT_SVC_IDS", svcs, 1);
}

static void room(const char *fmt, unsigned id)
{
	char text[256];

	snprintf(text, sizeof(text), fmt, id, id);
	setenv("SOFTFABRIC_CXI", text, 1);
}

/* The default key of adapter @idx. */
static int dflt(int idx, struct cxi_key *k, char *why, size_t len)
{
	struct cassini_devinfo dev;
	struct cxi_params prm;

	cxi_params_default(&prm);
	assert_int_equal(cassini_dev_query(idx, &dev), 0);
	memset(k, 0, sizeof(*k));
	*why = '\0';
	return cxi_key_default(idx, &dev, &prm, k, why, len);
}

static void dflt_is(int idx, uint32_t svc, uint16_t vni)
{
	struct cxi_key k;
	char why[256];

	assert_int_equal(dflt(idx, &k, why, sizeof(why)), 0);
	assert_int_equal(k.svc_id, svc);
	assert_int_equal(k.vni, vni);
}

static void dflt_refused(int idx, const char *words)
{
	struct cxi_key k;
	char why[256];

	assert_int_equal(dflt(idx, &k, why, sizeof(why)), -FI_EACCES);
	if (!strstr(why, words))
		fail_msg("\"%s\" does not say \"%s\"", why, words);
}

static void launcher__by_place_in_the_list(void **state)
{
	(void)state;
	slingshot("1025,2049", "cxi0,cxi1", "5,6");
	setenv("SOFTFABRIC_CXI", "nics=2;svc=5:vnis=1025+2049,6:vnis=1025", 1);
	dflt_is(0, 5, 1025); /* the first VNI is the job step's */
	dflt_is(1, 6, 1025);
	slingshot("0x401", "cxi1", "6");
	setenv("SOFTFABRIC_CXI", "nics=2;svc=6:vnis=1025:uid=4242", 1);
	dflt_refused(1, "not a member of service 6");
	dflt_is(0, 1, 10); /* not in the list: as without a launcher */
}

static void launcher__refused_with_a_reason(void **state)
{
	(void)state;
	slingshot("1025", "cxi0", "5");
	setenv("SOFTFABRIC_CXI", "svc=5:vnis=7", 1);
	dflt_refused(0, "VNI 1025 is not in service 5");
	slingshot("1025", "cxi0", "9");
	dflt_refused(0, "no service 9");
}

static void launcher__nonsense_is_as_if_unset(void **state)
{
	static const char *const row[][3] = {
		{"", "cxi0", "1"},	 {"x", "cxi0", "1"}, {"65536", "cxi0", "1"}, {"5", "cxi0", ""},
		{"5", "cxi0", "x"},	 {"5", "", "1"},     {"5", "cxi00", "1"},	{NULL, "cxi0", "1"},
		{"5", NULL, "1"},	 {"5", "cxi0", NULL}, {"5", "cxi1,cxi0", "1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		slingshot(row[i][0], row[i][1], row[i][2]);
		dflt_is(0, 1, 10);
	}
}

static void service__who_fits_best(void **state)
{
	(void)state;
	room("svc=2:uid=%u:vnis=20,3:vnis=30", (unsigned)geteuid());
	dflt_is(0, 2, 20); /* a member by user, before those that take anybody */
	room("svc=2:gid=%u:vnis=20,3:uid=%u:vnis=30",
	     (unsigned)geteuid() == (unsigned)getegid() ? (unsigned)geteuid() : 0);
	if (geteuid() == getegid())
		dflt_is(0, 3, 30);
	room("svc=2:vnis=20,3:vnis=30", 0);
	dflt_is(0, 3, 30); /* of equals the last */
	room("svc=2:uid=%u:system=yes", (unsigned)geteuid());
	dflt_is(0, 1, 10); /* not for users */
	room("svc=1:uid=%u", (unsigned)geteuid() + 1);
	dflt_refused(0, "no enabled service");
}

static void check__keys_of_the_application(void **state)
{
	const struct {
		struct cxi_key k;
		size_t len;
		int want;
	} row[] = {
		{{2, 20, 0}, 8, 0}, {{2, 21, 0}, 8, -FI_EACCES},
		{{2, 0, 0}, 8, -FI_EACCES}, {{7, 20, 0}, 8, -FI_EINVAL},
		{{2, 20, 0}, 7, -FI_EINVAL}, {{2, 20, 0}, 0, -FI_EINVAL},
		{{3, 30, 0}, 8, -FI_EACCES}, {{1, 4711, 0}, 8, 0},
	};
	struct cxi_key out;

	(void)state;
	room("svc=2:uid=%u:vnis=20,3:uid=4242:vnis=30", (unsigned)geteuid());
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		memset(&out, 0, sizeof(out));
		assert_int_equal(cxi_key_check(0, &row[i].k, row[i].len, &out), row[i].want);
		assert_int_equal(out.vni, row[i].want ? 0 : row[i].k.vni); /* untouched when refused */
	}
	assert_int_equal(cxi_key_check(0, NULL, 8, &out), -FI_EINVAL);
}

/* What the user sees: not "function not implemented". */
static void domain__refused_is_eacces(void **state)
{
	struct fi_info *info = cxi_fix_info(FI_VERSION(1, 17), NULL);
	struct fid_domain *domain;
	struct fid_fabric *fabric;

	(void)state;
	assert_int_equal(cxi_fabric_open(info->fabric_attr, &fabric, NULL), 0);
	room("svc=1:uid=%u", (unsigned)geteuid() + 1);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), -FI_EACCES);
	teardown(NULL);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

/* An endpoint may have another VNI than its domain, of the same service. */
static void endpoint__key_of_another_service(void **state)
{
	struct cxi_key k = {.svc_id = 2, .vni = 20};
	struct cxi_fix f;
	struct fid_ep *ep;

	(void)state;
	cxi_fix_open(&f);
	setenv("SOFTFABRIC_CXI", "svc=2:vnis=20", 1);
	f.info->ep_attr->auth_key = malloc(sizeof(k));
	f.info->ep_attr->auth_key_size = sizeof(k);
	memcpy(f.info->ep_attr->auth_key, &k, sizeof(k));
	assert_int_equal(fi_endpoint(f.domain, f.info, &ep, NULL), -FI_EINVAL);
	k = (struct cxi_key){.svc_id = 1, .vni = 33};
	memcpy(f.info->ep_attr->auth_key, &k, sizeof(k));
	assert_int_equal(fi_endpoint(f.domain, f.info, &ep, NULL), 0);
	assert_int_equal(cxi_ep_of(ep)->keys[0].vni, 33);
	assert_int_equal(fi_close(&ep->fid), 0);
	cxi_fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(launcher__by_place_in_the_list, teardown),
		cmocka_unit_test_teardown(launcher__refused_with_a_reason, teardown),
		cmocka_unit_test_teardown(launcher__nonsense_is_as_if_unset, teardown),
		cmocka_unit_test_teardown(service__who_fits_best, teardown),
		cmocka_unit_test_teardown(check__keys_of_the_application, teardown),
		cmocka_unit_test_teardown(domain__refused_is_eacces, teardown),
		cmocka_unit_test_teardown(endpoint__key_of_another_service, teardown),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
