// SPDX-License-Identifier: BSD-2-Clause
// LIDs and contexts as IP addresses and UDP ports.
#ifndef SF_NIC_HFI_HFI_ADDR_H
#define SF_NIC_HFI_HFI_ADDR_H

#include "link/hostpart.h"
#include "link/link.h"
#include "nic/hfi/hfi.h"

/*
 * A LID is a number of link/hostpart.h: unicast ones, 1 to 0xBFFF. Its context @ctxt, sub-context @subctxt has the UDP
 * port base + ctxt * HFI_SUBCTXT_MAX + subctxt; a context that is not shared has that of sub-context 0.
 */
extern const struct hostpart_kind hfi_lid_kind;

/**
 * hfi_addr_of() - Link address (nonce 0). Return: 0; -EINVAL @ctxt or @subctxt out of range; -ENETUNREACH no host has
 * @lid here.
 */
int hfi_addr_of(const struct hostpart *map, uint16_t lid, uint16_t ctxt, uint16_t subctxt, struct link_addr *out);
/** hfi_addr_who() - The reverse. Return: 0; -ERANGE: no LID of ours, or no port of a context. */
int hfi_addr_who(const struct hostpart *map, const struct link_addr *addr, uint16_t *lid, uint16_t *ctxt,
		 uint16_t *subctxt);

#endif
