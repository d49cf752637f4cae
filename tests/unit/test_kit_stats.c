// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/stats.c: counters by name and by index, of rows and of names that are made.
#include "unit.h"

#include "kit/stats.h"
#include "kit_fix.h"

static struct fix g_fix;

struct counts {
	uint64_t a, b;
};
static const struct counts g_counts = {7, 8};
static const uint64_t g_list[4] = {10, 11, 12, 13};

static uint64_t counts_read(struct kit_domain *d, size_t off)
{
	lock_assert_held(&d->lock);
	return stats_value(&g_counts, off);
}

static uint64_t list_read(struct kit_domain *d, size_t off)
{
	lock_assert_held(&d->lock);
	return stats_value(g_list, off);
}

/* 1 and 2 have no counter. */
static void list_name(size_t n, char buf[KIT_STAT_NAME])
{
	if (n == 0 || n == 3)
		snprintf(buf, KIT_STAT_NAME, "list.%zu", n);
}

static const struct stats_row row[] = {{"b", offsetof(struct counts, b)}, {"a", offsetof(struct counts, a)}};
static const struct kit_stats_group group[] = {
	{row, ARRAY_SIZE(row), NULL, counts_read},
	{NULL, ARRAY_SIZE(g_list), list_name, list_read},
	{0},
};

static void stats__by_index_and_name(void **state)
{
	static const struct {
		const char *name;
		uint64_t value;
	} want[] = {{"b", 8}, {"a", 7}, {"list.0", 10}, {"list.3", 13}};
	struct fid_domain *d = &g_fix.domain.fid;
	char name[KIT_STAT_NAME];
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(kit_stats_ops.name(d, i, name, sizeof(name)), 0);
		assert_string_equal(name, want[i].name);
		assert_int_equal(kit_stats_ops.read(d, name, &v), 0);
		assert_int_equal(v, want[i].value);
	}
	assert_int_equal(kit_stats_ops.name(d, ARRAY_SIZE(want), name, sizeof(name)), -FI_ENOENT);
}

static void stats__refusals(void **state)
{
	struct fid_domain *d = &g_fix.domain.fid, other = {.fid.fclass = FI_CLASS_EP};
	char name[8];
	uint64_t v;

	(void)state;
	assert_int_equal(kit_stats_ops.read(d, "c", &v), -FI_ENOENT);
	assert_int_equal(kit_stats_ops.read(d, "", &v), -FI_EINVAL);
	assert_int_equal(kit_stats_ops.read(d, NULL, &v), -FI_EINVAL);
	assert_int_equal(kit_stats_ops.read(d, "a", NULL), -FI_EINVAL);
	assert_int_equal(kit_stats_ops.read(NULL, "a", &v), -FI_EINVAL);
	assert_int_equal(kit_stats_ops.read(&other, "a", &v), -FI_EINVAL);
	assert_int_equal(kit_stats_ops.name(NULL, 0, name, sizeof(name)), -FI_EINVAL);
	assert_int_equal(kit_stats_ops.name(d, 0, NULL, 0), -FI_EINVAL);
	assert_int_equal(kit_stats_ops.name(d, 2, name, 6), -FI_ETOOSMALL);
	assert_int_equal(kit_stats_ops.name(d, 2, name, 7), 0);
	assert_string_equal(name, "list.0");
	g_fix.forked = true;
	assert_int_equal(kit_stats_ops.read(d, "a", &v), -FI_EIO);
	g_fix.forked = false;
}

static int setup(void **state)
{
	(void)state;
	fix_open(&g_fix, KIT_V(1, 17));
	g_fix.domain.stats = group;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fix_close(&g_fix);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stats__by_index_and_name, setup, teardown),
		cmocka_unit_test_setup_teardown(stats__refusals, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
