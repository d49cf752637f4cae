// SPDX-License-Identifier: BSD-2-Clause
// Which atomics cxi takes: the table of the provider that it stands for, pair by pair.
#include <rdma/fi_atomic.h>

#include "cxi_fix.h"

enum { PLAIN = 1, FETCH = 2, COMPARE = 4 };

/*
 * Bit per datatype: 8 integers, float, double, two complex ones, long double (none), long double complex (none), two
 * 128-bit integers.
 */
static const struct {
	enum fi_op op;
	uint16_t types;
	unsigned families;
} want[] = {
	{FI_MIN, 0x03ff, PLAIN | FETCH},	  {FI_MAX, 0x03ff, PLAIN | FETCH},  {FI_SUM, 0x0fff, PLAIN | FETCH},
	{FI_LOR, 0x00ff, PLAIN | FETCH},	  {FI_LAND, 0x00ff, PLAIN | FETCH}, {FI_LXOR, 0x00ff, PLAIN | FETCH},
	{FI_BOR, 0x00ff, PLAIN | FETCH},	  {FI_BAND, 0x00ff, PLAIN | FETCH}, {FI_BXOR, 0x00ff, PLAIN | FETCH},
	{FI_ATOMIC_WRITE, 0x0fff, PLAIN | FETCH}, {FI_ATOMIC_READ, 0x0fff, FETCH},  {FI_CSWAP, 0xcfff, COMPARE},
	{FI_CSWAP_NE, 0x0fff, COMPARE},		  {FI_CSWAP_LE, 0x03ff, COMPARE},   {FI_CSWAP_LT, 0x03ff, COMPARE},
	{FI_CSWAP_GE, 0x03ff, COMPARE},		  {FI_CSWAP_GT, 0x03ff, COMPARE},   {FI_MSWAP, 0x00ff, COMPARE},
	{FI_PROD, 0, 0},
};

static void query_atomic__each_pair(void **state)
{
	static const uint64_t flag[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
	struct fi_atomic_attr attr;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		for (unsigned dt = 0; dt < 16; dt++)
			for (unsigned k = 0; k < 3; k++) {
				bool is_valid = want[i].types >> dt & 1 && want[i].families >> k & 1;
				int ret = fi_query_atomic(f.domain, (enum fi_datatype)dt, want[i].op, &attr, flag[k]);

				if (ret != (is_valid ? 0 : -FI_EOPNOTSUPP))
					fail_msg("operation %d, datatype %u, family %u: %d", (int)want[i].op, dt, k,
						 ret);
				if (is_valid)
					assert_int_equal(attr.count, 1);
			}
	assert_int_equal(fi_query_atomic(f.domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
			 -FI_EINVAL);
	assert_int_equal(fi_query_atomic(f.domain, (enum fi_datatype)99, FI_SUM, &attr, 0), -FI_EINVAL);
	assert_int_equal(fi_query_atomic(f.domain, FI_UINT64, (enum fi_op)99, &attr, 0), -FI_EINVAL);
	cxi_fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(query_atomic__each_pair),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
