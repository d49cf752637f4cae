// SPDX-License-Identifier: BSD-2-Clause
// One operation by each method: what the tests of one-sided copies share.
#ifndef SF_TESTS_UNIT_BULK_MODES_H
#define SF_TESTS_UNIT_BULK_MODES_H

#include "unit.h"

#include "fake_path.h"

#define MIB	 (1u << 20)
#define PASSES	 20000

enum mode { RING, KERNEL, HELPED, MIXED, NET, NET_REORDERED, MODE_NUM };
static const char *const mode_name[MODE_NUM] = {"ring", "kernel", "helped", "mixed", "net", "net reordered"};

static inline void open_mode(enum mode m)
{
	fp_open(m == NET || m == NET_REORDERED ? LINK_RELIABLE : LINK_ORDERED, m < NET);
	fp_force(m == RING ? BULK_FRAMES : m == KERNEL ? BULK_CMA : m == HELPED ? BULK_HELPED : -1);
	fp.is_reordering = m == NET_REORDERED;
}

static inline bool has_cma(void)
{
	int a = 1, b = 0;

	if (bulk_cma_copy(getpid(), LINK_GET, NULL, &b, (uintptr_t)&a, sizeof(a)) == sizeof(a))
		return true;
	print_message("the kernel forbids cross memory attach here\n");
	return false;
}

static int bulk(int from, int to, int op, void *local, size_t len, const void *remote, uint32_t key,
		struct fp_done *d)
{
	*d = (struct fp_done){0};
	return link_bulk(&fp.port[from], &fp.peer[from][to], op, local, len, (uintptr_t)remote, key,
			 d);
}

/* One operation, run to its end. Return: its status. */
static inline int bulk_run(int op, void *local, size_t len, const void *remote, uint32_t key)
{
	struct fp_done d;

	assert_int_equal(bulk(0, 1, op, local, len, remote, key, &d), 0);
	assert_true(fp_run(&d, PASSES));
	assert_int_equal(d.cnt, 1);
	return d.status;
}

static inline uint32_t region(int node, void *addr, size_t len, unsigned rights)
{
	uint32_t key = 0;

	assert_int_equal(link_region_add(&fp.node[node], addr, len, rights, &key), 0);
	assert_int_not_equal(key, 0);
	return key;
}

#endif
