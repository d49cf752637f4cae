// SPDX-License-Identifier: BSD-2-Clause
// How many lines of shared memory a message of cxi takes: each costs its way from one core to another.
#include "cxi_fix.h"
#include "lines.h"
#include "nic/cassini/cassini_int.h"

static void message__lines(void **state)
{
	static const struct lines_row row[] = {{0, 1, 0}, {8, 1, 0}, {16, 1, 0}, {64, 2, 0}, {1024, 1, 17}};
	struct lines_pair p = {0};
	struct cxi_fix_ep e[2];
	struct cxi_addr name;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	for (int i = 0; i < 2; i++)
		cxi_fix_ep_open(&e[i], &f);
	for (int i = 0; i < 2; i++) {
		size_t len = sizeof(name);

		assert_int_equal(fi_getname(&e[!i].ep->fid, &name, &len), 0);
		assert_int_equal(fi_av_insert(e[i].av, &name, 1, &p.to[i], 0, NULL), 1);
		p.ep[i] = e[i].ep;
		p.cq[i] = e[i].cq;
		lines_open(&p.seg[i], cxi_ep_of(e[i].ep)->portal->dom[0]->port);
	}
	lines_check(&p, row, ARRAY_SIZE(row));
	for (int i = 0; i < 2; i++) {
		lines_close(&p.seg[i]);
		cxi_fix_ep_close(&e[i]);
	}
	cxi_fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message__lines),
	};

	return cmocka_run_group_tests_name("cxi_lines", tests, cxi_fix_init, NULL);
}
