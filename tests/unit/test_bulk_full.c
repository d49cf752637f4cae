// SPDX-License-Identifier: BSD-2-Clause
// One-sided copies over a fake path that has no room for a while.
#include "unit.h"

#include "fake_path.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full__an_empty_copy_waits_for_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
