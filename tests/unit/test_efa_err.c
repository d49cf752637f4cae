// SPDX-License-Identifier: BSD-2-Clause
// Device statuses and provider codes: every one has an errno and words; numbers: doc/facts/efa.md#error-codes.
#include "prov/efa/efa.h"

#include <string.h>

#include "unit.h"

static void errno__device_statuses(void **state)
{
	static const int want[EFANIC_STATUS_NUM] = {
		[EFANIC_OK] = 0,
		[EFANIC_FLUSHED] = FI_ECANCELED,
		[EFANIC_LOCAL_QP_INTERNAL] = FI_EINVAL,
		[EFANIC_LOCAL_UNSUPPORTED_OP] = FI_EINVAL,
		[EFANIC_LOCAL_INVALID_AH] = FI_EINVAL,
		[EFANIC_LOCAL_INVALID_LKEY] = FI_EINVAL,
		[EFANIC_LOCAL_BAD_LENGTH] = FI_EMSGSIZE,
		[EFANIC_REMOTE_BAD_ADDRESS] = FI_EINVAL,
		[EFANIC_REMOTE_ABORT] = FI_ECONNABORTED,
		[EFANIC_REMOTE_BAD_DEST_QPN] = FI_ENOTCONN,
		[EFANIC_REMOTE_RNR] = FI_ENORX,
		[EFANIC_REMOTE_BAD_LENGTH] = FI_EMSGSIZE,
		[EFANIC_REMOTE_BAD_STATUS] = FI_EREMOTEIO,
		[EFANIC_LOCAL_UNRESP_REMOTE] = FI_ECONNABORTED,
		[EFANIC_REMOTE_UNKNOWN_PEER] = FI_ENOTCONN,
		[EFANIC_LOCAL_UNREACH_REMOTE] = FI_EHOSTUNREACH,
		[EFANIC_REMOTE_FEATURE_MISMATCH] = FI_EINVAL,
	};

	(void)state;
	for (unsigned s = 0; s < EFANIC_STATUS_NUM; s++) {
		if (s == 16 || s == 17)
			continue; /* not assigned by the device */
		assert_int_equal(efa_errno(s), want[s]);
		assert_string_not_equal(efa_strerror(s), "unknown error");
	}
}

static void errno__provider_codes(void **state)
{
	(void)state;
	for (unsigned s = 4096; s <= 4126; s++) {
		assert_true(efa_errno(s) > 0);
		assert_string_not_equal(efa_strerror(s), "unknown error");
	}
	assert_int_equal(efa_errno(4105), FI_ENOMEM);
	assert_int_equal(efa_errno(4124), FI_ECONNABORTED);
	assert_int_equal(efa_errno(4126), FI_ECONNABORTED);
	assert_non_null(strstr(efa_strerror(4124), "unresponsive")); /* runbooks look for these words */
	assert_non_null(strstr(efa_strerror(4126), "handshake"));
	assert_int_equal(efa_errno(99999), FI_EOTHER);
	assert_string_equal(efa_strerror(99999), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errno__device_statuses),
		cmocka_unit_test(errno__provider_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
