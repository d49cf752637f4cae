// SPDX-License-Identifier: BSD-2-Clause
// One-sided copies over a fake path that has no room for a while, and one that nobody could have led to where it is.
#include "unit.h"

#include "fake_path.h"
#include "link/bulk/bulk_int.h"

/* Nothing to copy is something to send: it goes out when there is room, and what it finds there is its end. */
static void full__an_empty_copy_waits_for_room(void **state)
{
	static uint8_t mem[8];

	(void)state;
	for (int op = LINK_GET; op <= LINK_PUT; op++) {
		struct fp_done d = {0};
		uint32_t key = 0;

		fp_open(LINK_RELIABLE, false);
		assert_int_equal(link_region_add(&fp.node[1], mem, sizeof(mem), LINK_GET | LINK_PUT, &key), 0);
		fp.q_cap = 0;
		assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], op, mem, 0, (uintptr_t)mem, key, &d), 0);
		for (int i = 0; i < 10; i++)
			fp_pass();
		assert_int_equal(d.cnt, 0);
		fp.q_cap = 10;
		assert_true(fp_run(&d, 1000)); /* a millisecond: nobody has given up */
		assert_int_equal(d.cnt, 1);
		assert_int_equal(d.status, 0);
		fp_close();
	}
}

static void astray_one(void *obj, void *arg)
{
	struct bulk_op *op = obj;

	if (op->cookie != arg)
		return;
	op->is_asked = true; /* and in the queue of those that have turns, as no code of ours leaves it */
}

/* A turn that cannot be costs its peer the pair: all operations end, each once, whichever of them it was. */
static void astray__each_ends_once(void **state)
{
	static uint8_t local[3][100], mem[100];

	(void)state;
	for (int which = 0; which < 3; which++) {
		struct fp_done d[3] = {0};
		uint32_t key = 0;

		fp_open(LINK_RELIABLE, false);
		assert_int_equal(link_region_add(&fp.node[1], mem, sizeof(mem), LINK_GET | LINK_PUT, &key), 0);
		fp.q_cap = 0; /* they stay where they are */
		for (int i = 0; i < 3; i++)
			assert_int_equal(link_bulk(&fp.port[0], &fp.peer[0][1], LINK_GET, local[i], sizeof(mem),
						   (uintptr_t)mem, key, &d[i]),
					 0);
		slab_foreach(&fp.port[0].bulk->ops, astray_one, &d[which]);
		for (int i = 0; i < 10; i++)
			fp_pass();
		for (int i = 0; i < 3; i++) {
			assert_int_equal(d[i].cnt, 1);
			assert_int_equal(d[i].status, -EPROTO);
		}
		assert_int_equal(fp.peer[0][1].dead, -EPROTO);
		assert_int_equal(bulk_outstanding(fp.port[0].bulk), 0);
		fp_close();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full__an_empty_copy_waits_for_room),
		cmocka_unit_test(astray__each_ends_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
