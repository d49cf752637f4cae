// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/reserve.c: what works in a process that may have no more memory.
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/reserve.h"

#define MAP_LEN ((size_t)16 << 20)
#define BLOCK	((size_t)1 << 20) /* more than the C library keeps by itself */
#define SKIP	77

/* Nothing more for this process than it has. */
static void limit_set(int resource)
{
	const char *what = resource == RLIMIT_AS ? "VmSize: %lu kB" : "VmData: %lu kB";
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	unsigned long kib = 0;
	struct rlimit lim;

	while (f && !kib && fgets(line, sizeof(line), f))
		(void)!sscanf(line, what, &kib);
	if (f)
		fclose(f);
	getrlimit(resource, &lim);
	lim.rlim_cur = kib * 1024 + (64 << 10);
	setrlimit(resource, &lim);
	if (mmap(NULL, 8 * MAP_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		_exit(SKIP); /* an emulator that does not pass limits on */
}

static void limit_lift(int resource)
{
	struct rlimit lim;

	getrlimit(resource, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(resource, &lim);
}

/* Return: as an exit code, 0 or the number of what was wrong. */
static int heap_main(int resource)
{
	if (!reserve_want())
		return 1;
	limit_set(resource);
	if (mem_alloc((size_t)1 << 40)) /* nothing is given up for what does not fit */
		return 6;
	if (!mem_alloc(BLOCK) || !mem_alloc_aligned(4096, BLOCK))
		return 2;
	if (mem_alloc(RESERVE_HEAP)) /* it has been used */
		return 3;
	limit_lift(resource);
	if (!reserve_fill())
		return 4;
	limit_set(resource);
	if (!mem_alloc(RESERVE_HEAP / 2))
		return 5;
	reserve_drop();
	return 0;
}

/* Without a reserve: else the rest shows nothing. */
static int none_main(int resource)
{
	limit_set(resource);
	if (mem_alloc(BLOCK))
		return 1;
	return resource == RLIMIT_AS ? reserve_want() : 0; /* there is no room for one, which its user is told */
}

static int map_main(int resource)
{
	int fd = memfd_create("map", MFD_CLOEXEC);
	void *p;

	if (fd < 0 || ftruncate(fd, MAP_LEN) || !reserve_want())
		return 1;
	reserve_want_map(MAP_LEN);
	limit_set(resource);
	p = reserve_map(fd, MAP_LEN);
	if (!p)
		return 2;
	if (reserve_map(fd, MAP_LEN))
		return 3;
	if (reserve_fill()) /* which tells peers that there is room for no other one */
		return 4;
	munmap(p, MAP_LEN);
	if (!reserve_fill())
		return 5;
	if (!reserve_map(fd, MAP_LEN))
		return 6;
	reserve_drop();
	return 0;
}

static void in_child(int (*fn)(int resource), int resource)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* which need address space themselves */
	(void)fn, (void)resource;
	skip();
#else
	int st;
	pid_t pid = unit_fork();

	if (!pid)
		_exit(fn(resource));
	assert_int_equal(waitpid(pid, &st, 0), pid);
	if (WIFEXITED(st) && WEXITSTATUS(st) == SKIP)
		skip();
	assert_int_equal(st, 0);
#endif
}

static void reserve__heap(void **state)
{
	in_child(none_main, RLIMIT_AS);
	in_child(none_main, RLIMIT_DATA);
	in_child(heap_main, RLIMIT_AS);
	in_child(heap_main, RLIMIT_DATA);
}

static void reserve__map(void **state)
{
	in_child(map_main, RLIMIT_AS);
}

static void reserve__goes_with_its_last_user(void **state)
{
	assert_true(reserve_want());
	assert_true(reserve_want());
	reserve_drop();
	assert_true(reserve_give_heap(1));
	assert_false(reserve_give_heap(1));
	assert_true(reserve_fill());
	reserve_drop();
	assert_false(reserve_give_heap(1));
	assert_true(reserve_fill());
	assert_false(reserve_give_heap(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserve__heap),
		cmocka_unit_test(reserve__map),
		cmocka_unit_test(reserve__goes_with_its_last_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
