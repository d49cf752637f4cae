// SPDX-License-Identifier: BSD-2-Clause
// How much memory a new lane may take, and that it costs no look at each file where there is plenty.
#include "unit.h"

#include <dirent.h>
#include <sys/statvfs.h>

#include "link/shm/shm_int.h"

static struct {
	uint64_t free, all; /* bytes of the file system; all: that are used */
	bool is_lost;	    /* nothing is told of it */
	uint32_t looks;	    /* at all files */
} said;

static int spy_statvfs(const char *path, struct statvfs *out)
{
	assert_string_equal(path, SHM_DIR);
	if (said.is_lost)
		return -1;
	*out = (struct statvfs){.f_frsize = 4096, .f_bavail = said.free / 4096, .f_bfree = said.free / 4096,
				.f_blocks = (said.free + said.all) / 4096};
	return 0;
}

static DIR *spy_opendir(const char *path)
{
	said.looks++;
	return opendir(path);
}

#define opendir			 spy_opendir
#define statvfs(path_, out_) spy_statvfs(path_, out_)
#include "../../src/link/shm/shm_dir.c"
#undef opendir
#undef statvfs

#define GIB (1ull << 30)
#define MIB (1ull << 20)

static struct shm_space get(uint64_t budget, uint64_t free, uint64_t all)
{
	said.free = free;
	said.all = all;
	said.looks = 0;
	return shm_space_get(budget);
}

static void space__plenty(void **state)
{
	struct shm_space sp = get(0, 8 * GIB, GIB);

	(void)state;
	assert_int_equal(said.looks, 0);
	assert_int_equal(shm_space_left(&sp), 9 * GIB / 4 - GIB);
	assert_int_equal(shm_space_lane_slots(&sp), SHM_SLOTS_BIG);
	assert_int_equal(shm_space_stage_grans(&sp), SHM_STAGE_GRANS_MAX);
	sp = get(GIB, 8 * GIB, 100 * MIB);
	assert_int_equal(said.looks, 0);
	assert_int_equal(shm_space_left(&sp), GIB - 100 * MIB);
}

/* Others have much: then it matters what is ours. */
static void space__of_others(void **state)
{
	struct shm_space sp = get(0, 4 * GIB, 8 * GIB);

	(void)state;
	assert_int_equal(said.looks, 1);
	assert_int_equal(sp.total, (4 * GIB + sp.used) / 4);
	sp = get(100 * MIB, 8 * GIB, 90 * MIB);
	assert_int_equal(said.looks, 1);
	assert_int_equal(sp.total, 100 * MIB);
}

/* The last bytes are not given away on a guess. */
static void space__little(void **state)
{
	struct shm_space sp = get(0, 64 * MIB, 0);

	(void)state;
	assert_int_equal(said.looks, 1);
	assert_true(shm_space_stage_grans(&sp) < SHM_STAGE_GRANS_MAX);
	sp = get(0, 0, 0); /* a file system without a size */
	assert_int_equal(said.looks, 1);
	assert_int_equal(shm_space_left(&sp), 0);
	assert_int_equal(shm_space_lane_slots(&sp), 0);
	said.is_lost = true;
	sp = get(GIB, GIB, 0);
	said.is_lost = false;
	assert_int_equal(said.looks, 1);
	assert_int_equal(shm_space_left(&sp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(space__plenty),
		cmocka_unit_test(space__of_others),
		cmocka_unit_test(space__little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
