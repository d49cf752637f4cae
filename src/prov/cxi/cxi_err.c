// SPDX-License-Identifier: BSD-2-Clause
// Return codes of the adapter as libfabric's errors: one table. Source: doc/facts/cxi.md#errors.
#include "prov/cxi/cxi.h"

#include <string.h>

static const struct err_row {
	uint8_t rc;
	uint8_t err;
} err_tab[] = {
	{CASSINI_RC_OK, 0},
	{CASSINI_RC_UNDELIVERABLE, FI_EHOSTUNREACH},
	{CASSINI_RC_VNI_NOT_FOUND, FI_ENOTCONN},
};

int cxi_errno(unsigned rc)
{
	for (size_t i = 0; i < ARRAY_SIZE(err_tab); i++)
		if (err_tab[i].rc == rc)
			return err_tab[i].err;
	return FI_EIO;
}

const char *cxi_strerror(unsigned prov_errno)
{
	/*
	 * What libfabric itself defines, as in the entry of a truncated receive, lies above the 6 bits of a return
	 * code.
	 */
	return prov_errno < CASSINI_RC_NUM ? cassini_rc_str(prov_errno) : fi_strerror((int)prov_errno);
}
