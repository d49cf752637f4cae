// SPDX-License-Identifier: BSD-2-Clause
// The door, field by field.
#include "nic/hfi/hfi_wire.h"

const char *const hfi_drop_name[HFI_DROP_NUM] = {
	[HFI_DROP_SHORT] = "short",
	[HFI_DROP_LENGTH] = "length",
	[HFI_DROP_LNH] = "lnh",
	[HFI_DROP_DLID] = "dlid",
	[HFI_DROP_SLID] = "slid",
	[HFI_DROP_PKEY] = "pkey",
	[HFI_DROP_JKEY] = "jkey",
	[HFI_DROP_UUID] = "uuid",
	[HFI_DROP_CTXT] = "ctxt",
	[HFI_DROP_KVER] = "kver",
	[HFI_DROP_RCVHDRQ_FULL] = "rcvhdrq_full",
	[HFI_DROP_EGR_FULL] = "egr_full",
	[HFI_DROP_PORT_DOWN] = "port_down",
};

void hfi_door_init(struct hfi_door *door, const struct hfi_hdr *like)
{
	memcpy(door->want, like, sizeof(door->want));
}

/* Of one partition, and not both limited members. */
static bool pkey_fits(uint16_t a, uint16_t b)
{
	return !((a ^ b) & ~HFI_PKEY_FULL) && (a | b) & HFI_PKEY_FULL;
}

static bool bytes_eq(const void *a, const void *b, size_t len)
{
	return !memcmp(a, b, len);
}

enum hfi_drop hfi_door_check(const struct hfi_door *door, const struct hfi_hdr *h, uint32_t payload,
			     enum hfi_rcv_type *type)
{
	uint32_t kdeth = le32_get(h->kdeth);
	struct hfi_hdr want;

	memcpy(&want, door->want, sizeof(door->want));
	if (!hfi_wire_fits_len(h, hfi_hdr_len(h), payload))
		return HFI_DROP_LENGTH;
	if ((be16_get(h->lrh_flags) & HFI_LNH_MASK) != HFI_LNH_BTH)
		return HFI_DROP_LNH;
	if (!bytes_eq(&h->dlid, &want.dlid, sizeof(want.dlid)))
		return HFI_DROP_DLID;
	if (!bytes_eq(&h->slid, &want.slid, sizeof(want.slid)))
		return HFI_DROP_SLID;
	if (!pkey_fits(be16_get(h->pkey), be16_get(want.pkey)))
		return HFI_DROP_PKEY;
	if (h->qp != HFI_QP_KDETH || (kdeth & HFI_KVER_MASK) != HFI_KVER)
		return HFI_DROP_KVER;
	/* it is not for us, or it does not come from where it says */
	if (h->dest_rx != want.dest_rx || hfi_hdr_tx(h) != hfi_hdr_tx(&want))
		return HFI_DROP_CTXT;
	if (!bytes_eq(&h->jkey, &want.jkey, sizeof(want.jkey)))
		return HFI_DROP_JKEY;
	if (!bytes_eq(&h->hcrc, &want.hcrc, sizeof(want.hcrc)))
		return HFI_DROP_UUID;
	*type = kdeth & HFI_KDETH_CTRL ? HFI_RCV_EXPECTED : HFI_RCV_EAGER;
	if (*type == HFI_RCV_EAGER && kdeth != HFI_KVER)
		return HFI_DROP_KVER;
	return HFI_DOOR_PASS;
}

uint16_t hfi_wire_hcrc(const uint8_t uuid[16])
{
	uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a */

	for (int i = 0; i < 16; i++)
		h = (h ^ uuid[i]) * 0x100000001b3ULL;
	h ^= h >> 32;
	return (uint16_t)(h ^ h >> 16);
}
