// SPDX-License-Identifier: BSD-2-Clause
// FI_OPX_HFI_SELECT: every string of doc/facts/opx.md#hfi_select, what it chooses for whom, and the default
// (#choice-of-a-unit).
#include <string.h>

#include "opx_fake.h"

/* Accepted everywhere that has the units, nodes and cores; refused everywhere. */
static const char *const good[] = {"0", "4", "numa:0:0,numa:1:1,numa:0:2,numa:1:3", "numa:0:0-3,default",
				   "core:1:0,fixed:0", "default,core:1:0",
				   "core:0:0-5", "fixed:10", "default", "numa:0:0", "core:0:0-0", "00"};
static const char *const bad[] = {"", " ", "  0  ", "0,", "0,numa:0:0", "-1", "+1", "numa:-1:0", "numa:0:-1", "numa:0",
				  "numa::0", "numa:   :0",
				  "numa:0:0:", "core:0:2-1", "core:0:1-", "core:0:1--5", "core:0-1:1", "core::0:1-2",
				  "defaults", "default:1",
				  "DEFAULT", "fixed", "fixed:1:2", "notnuma:0:0", ",", "default,", ",default",
				  "default,,default", "fixed:",
				  "numa:0:0,bad", "0x1", "1 ", "fixed:0 ", "default, fixed:0", "numa", "core", "numa:",
				  "core:0:"};

static struct hfi_unit_attr units[HFI_UNIT_MAX];
static char err[512];

static int units_init(void **state)
{
	(void)state;
	for (int i = 0; i < HFI_UNIT_MAX; i++)
		units[i] = (struct hfi_unit_attr){.unit = i, .state = HFI_PORT_ACTIVE, .numa_node = -1, .nctxts = 8};
	return 0;
}

static int choose(const char *text, int cpu, int node, int cnt)
{
	struct opx_where w = {.cpu = cpu, .numa_node = node, .cpu_cnt = 64, .numa_max = 3};
	int ret;

	err[0] = '\0';
	ret = opx_select_unit(text, &w, units, cnt, err, sizeof(err));
	assert_int_equal(ret < 0, err[0] != '\0');
	return ret;
}

static void grammar__accepts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		int ret = choose(good[i], 0, 0, HFI_UNIT_MAX);

		if (ret < 0)
			fail_msg("\"%s\": %d, %s", good[i], ret, err);
	}
}

static void grammar__refuses(void **state)
{
	static char longest[KIT_PARAM_TEXT + 8];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (choose(bad[i], 0, 0, HFI_UNIT_MAX) != -FI_EINVAL)
			fail_msg("\"%s\" was not refused", bad[i]);
	/* 4096 characters are the limit */
	for (size_t at = 0; at < 4089; at += 8)
		memcpy(longest + at, "default,", 8);
	memcpy(longest + 4088, "fixed:00", 8);
	assert_int_equal(strlen(longest), 4096);
	assert_int_equal(choose(longest, 0, 0, 1), OPX_UNIT_DEFAULT);
	strcat(longest, "0");
	assert_int_equal(choose(longest, 0, 0, 1), -FI_EINVAL);
}

static void choice__first_match_wins(void **state)
{
	(void)state;
	assert_int_equal(choose("1", 9, 2, 2), 1);
	for (int node = 0; node < 4; node++)
		assert_int_equal(choose("numa:0:0,numa:1:1,numa:0:2,numa:1:3", 0, node, 2), node & 1);
	assert_int_equal(choose("numa:1:0-2,default", 0, 2, 2), 1);
	assert_int_equal(choose("numa:1:0-2,default", 0, 3, 2), OPX_UNIT_DEFAULT);
	assert_int_equal(choose("core:1:0,fixed:0", 0, 0, 2), 1);
	assert_int_equal(choose("core:1:0,fixed:0", 1, 0, 2), 0);
	assert_int_equal(choose("default,core:1:0", 0, 0, 2), OPX_UNIT_DEFAULT);
	assert_int_equal(choose("core:1:4-6,core:0:0-63", 6, 0, 2), 1);
	assert_int_equal(choose("core:1:4-6,core:0:0-63", 7, 0, 2), 0);
	assert_int_equal(choose("numa:1:0", 0, -1, 2), 1); /* a host that knows of no nodes has one */
}

static void choice__errors(void **state)
{
	(void)state;
	assert_int_equal(choose("2", 0, 0, 2), -FI_ENODEV);
	assert_int_equal(choose("fixed:2", 0, 0, 2), -FI_ENODEV);
	assert_int_equal(choose("99999999999999999999", 0, 0, 2), -FI_ENODEV);
	assert_int_equal(choose("numa:1:1", 0, 0, 2), -FI_ENODEV); /* nothing matches */
	assert_int_equal(choose("numa:7:1,default", 0, 0, 2), -FI_ENODEV); /* also where it does not match */
	assert_int_equal(choose("default,numa:7:1", 0, 0, 2), OPX_UNIT_DEFAULT); /* not asked any more */
	assert_int_equal(choose("numa:0:4,default", 0, 0, 2), -FI_EINVAL);
	assert_int_equal(choose("numa:0:0-4,default", 0, 0, 2), -FI_EINVAL);
	assert_int_equal(choose("core:0:64,default", 0, 0, 2), -FI_EINVAL);
	units[1].state = HFI_PORT_ARMED;
	assert_int_equal(choose("1", 0, 0, 2), -FI_ENODEV);
	assert_non_null(strstr(err, "ARMED"));
	assert_int_equal(choose("numa:1:1,default", 0, 0, 2), -FI_ENODEV);
	assert_int_equal(choose("fixed:1,fixed:0", 0, 0, 2), -FI_ENODEV); /* no fall-through */
}

/* --- the default logic --------------------------------------------------------------------------- */

static void order_check(int node, int first, const int *free, const int *want, int cnt)
{
	struct opx_where w = {.numa_node = node, .numa_max = 1, .cpu_cnt = 64};
	int order[HFI_UNIT_MAX];

	assert_int_equal(opx_select_default(&w, units, free, 4, first, order), cnt);
	for (int i = 0; i < cnt; i++)
		assert_int_equal(order[i], want[i]);
}

static void default__near_then_free(void **state)
{
	static const int free[] = {1, 5, 3, 5};

	(void)state;
	order_check(0, -1, free, (const int[]){1, 3, 2, 0}, 4); /* nodes of units unknown */
	units[0].numa_node = units[2].numa_node = 0;
	units[1].numa_node = units[3].numa_node = 1;
	order_check(0, -1, free, (const int[]){2, 0, 1, 3}, 4);
	order_check(1, -1, free, (const int[]){1, 3, 2, 0}, 4);
	order_check(-1, -1, free, (const int[]){1, 3, 2, 0}, 4); /* of the caller unknown */
	order_check(1, 0, free, (const int[]){0, 1, 3, 2}, 4);   /* the domain's own first */
	units[0].state = HFI_PORT_DOWN;
	units[3].state = HFI_PORT_INIT;
	order_check(1, 0, free, (const int[]){1, 2}, 2);
	units[1].state = units[2].state = HFI_PORT_DOWN;
	order_check(1, 0, free, NULL, 0);
}

static void where__is_real(void **state)
{
	struct opx_where w;

	(void)state;
	opx_where_now(&w);
	assert_in_range(w.cpu, 0, w.cpu_cnt - 1);
	assert_true(w.numa_node <= w.numa_max);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(grammar__accepts, units_init),
		cmocka_unit_test_setup(grammar__refuses, units_init),
		cmocka_unit_test_setup(choice__first_match_wins, units_init),
		cmocka_unit_test_setup(choice__errors, units_init),
		cmocka_unit_test_setup(default__near_then_free, units_init),
		cmocka_unit_test(where__is_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
