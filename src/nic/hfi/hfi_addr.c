// SPDX-License-Identifier: BSD-2-Clause
// LIDs and contexts as IP addresses and UDP ports.
#include "nic/hfi/hfi_addr.h"

#include <errno.h>
#include <string.h>

#define PORT_CNT (HFI_CTXT_MAX * HFI_SUBCTXT_MAX)

const struct hostpart_kind hfi_lid_kind = {
	.name = "LID",
	.word = "LID",
	.min = 1, /* 0 is reserved, those above 0xBFFF are multicast. Source: doc/facts/opx.md#units-and-lids */
	.max = HFI_LID_MAX,
	.dev_max = HFI_UNIT_MAX,
	.below = PORT_CNT,
	.port_cnt = PORT_CNT,
};
static_assert(HOSTPART_BASE_MIN >= 1024 + PORT_CNT, "no context has a privileged port");

int hfi_addr_of(const struct hostpart *map, uint16_t lid, uint16_t ctxt, uint16_t subctxt, struct link_addr *out)
{
	struct link_addr addr = {0};
	uint16_t base;
	int rc;

	if (ctxt >= HFI_CTXT_MAX || subctxt >= HFI_SUBCTXT_MAX)
		return -EINVAL;
	rc = hostpart_ip(map, lid, addr.ip, &base);
	if (rc)
		return rc;
	addr.port = (uint16_t)(base + ctxt * HFI_SUBCTXT_MAX + subctxt);
	*out = addr;
	return 0;
}

int hfi_addr_who(const struct hostpart *map, const struct link_addr *addr, uint16_t *lid, uint16_t *ctxt,
		 uint16_t *subctxt)
{
	uint16_t base;
	uint32_t nr;
	int off;

	if (hostpart_nr(map, addr->ip, addr->port, &nr, &base))
		return -ERANGE;
	off = addr->port - base;
	if (off < 0 || off >= (int)PORT_CNT)
		return -ERANGE;
	*lid = (uint16_t)nr;
	*ctxt = (uint16_t)(off / (int)HFI_SUBCTXT_MAX);
	*subctxt = (uint16_t)(off % (int)HFI_SUBCTXT_MAX);
	return 0;
}
