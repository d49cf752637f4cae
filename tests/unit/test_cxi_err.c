// SPDX-License-Identifier: BSD-2-Clause
// Return codes of the adapter: every one has an error of libfabric and words. Source: doc/facts/cxi.md#errors.
#include "cxi_fix.h"

static void errno__every_return_code(void **state)
{
	(void)state;
	for (unsigned rc = 0; rc < CASSINI_RC_NUM + 10; rc++) {
		int want = rc == CASSINI_RC_OK	       ? 0
			   : rc == CASSINI_RC_UNDELIVERABLE ? FI_EHOSTUNREACH
			   : rc == CASSINI_RC_VNI_NOT_FOUND ? FI_ENOTCONN
							    : FI_EIO;

		assert_int_equal(cxi_errno(rc), want);
		assert_non_null(cxi_strerror(rc));
		assert_true(*cxi_strerror(rc));
	}
	assert_int_equal(cxi_errno(~0u), FI_EIO);
}

/* The numbers that programs and logs know. */
static void strerror__names_of_the_device(void **state)
{
	static const struct {
		unsigned rc;
		const char *name;
	} row[] = {
		{1, "OK"}, {2, "UNDELIVERABLE"}, {3, "PT_DISABLED"}, {4, "DROPPED"}, {5, "PERM_VIOLATION"},
		{6, "OP_VIOLATION"}, {8, "NO_MATCH"}, {16, "NO_SPACE"}, {18, "ENTRY_NOT_FOUND"}, {25, "VNI_NOT_FOUND"},
		{26, "PTLTE_NOT_FOUND"}, {27, "PTLTE_SW_MANAGED"}, {52, "ADDR_OUT_OF_RANGE"}, {54, "CANCELED"},
		{58, "AMO_LENGTH_ERROR"},
		{10, "UNCOR_TRNSNT"}, {22, "SEQUENCE_ERROR"}, {30, "HRP_CONFIG_ERROR"}, {49, "CMD_ALIGN_ERROR"},
		{60, "RESOURCE_BUSY"},
		{62, "TRS_PEND_RSP"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_string_equal(cxi_strerror(row[i].rc), row[i].name);
	/* what libfabric itself defines lies above them */
	assert_string_equal(cxi_strerror(FI_ETRUNC), fi_strerror(FI_ETRUNC));
	assert_string_not_equal(cxi_strerror(CASSINI_RC_CANCELED), cxi_strerror(CASSINI_RC_NO_SPACE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errno__every_return_code),
		cmocka_unit_test(strerror__names_of_the_device),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
