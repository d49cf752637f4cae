// SPDX-License-Identifier: BSD-2-Clause
// The door of a context: what the header of every packet that comes in must say.
#ifndef SF_NIC_HFI_HFI_WIRE_H
#define SF_NIC_HFI_HFI_WIRE_H

#include <string.h>

#include "base/base.h"
#include "nic/hfi/hfi.h"

/*
 * What the adapter checks is the same for all packets from one context to another but for length and padding. So a
 * destination keeps a header that its packets must resemble, and the check is six words under a mask; only what
 * differs is looked at field by field, to say why it is dropped, or that it is an expected packet, or that its P_Key
 * fits though it is not equal.
 */
#define HFI_LNH_BTH   0x0002u
#define HFI_LNH_MASK  0x0003u
#define HFI_QP_KDETH  0x80u
#define HFI_KVER      (1u << 30)
#define HFI_KVER_MASK (3u << 30)
/* KDETH of an expected packet */
#define HFI_KDETH_OFF      0x7fffu
#define HFI_KDETH_OM       (1u << 15) /* offset in units of 64 bytes, else of 4 */
#define HFI_KDETH_TID(v_)  ((v_) >> 16 & 0x3ffu)
#define HFI_KDETH_CTRL     (3u << 26)
#define HFI_PKEY_FULL      0x8000u    /* member bit */

#define HFI_DOOR_WORDS 6

/* What a packet from one context to another must say: the first words of its header, in pairs as they are copied. */
struct hfi_door {
	uint64_t want[HFI_DOOR_WORDS];
};

/** hfi_wire_pktlen() - Dwords of a packet of @head and @payload bytes: header without PBC, payload, ICRC. */
static inline uint16_t hfi_wire_pktlen(uint32_t head, uint32_t payload)
{
	return (uint16_t)((head - 8 + payload + 3) / 4 + 1);
}

static inline uint8_t hfi_wire_pad(uint32_t payload)
{
	return (uint8_t)(-payload & 3);
}

/** hfi_wire_put_len() - What @h says of a packet's length. */
static inline void hfi_wire_put_len(struct hfi_hdr *h, uint32_t head, uint32_t payload)
{
	h->pktlen = be16_put(hfi_wire_pktlen(head, payload));
	h->bth1 = (uint8_t)(sizeof(*h) - head) | hfi_wire_pad(payload);
}

/** hfi_wire_fits_len() - Does @h say of @head and @payload bytes what hfi_wire_put_len() does? */
static inline bool hfi_wire_fits_len(const struct hfi_hdr *h, uint32_t head, uint32_t payload)
{
	struct hfi_hdr want;

	hfi_wire_put_len(&want, head, payload);
	return h->bth1 == want.bth1 && be16_get(h->pktlen) == be16_get(want.pktlen) && payload <= HFI_MTU;
}

/** hfi_door_mask() - The bits of struct hfi_door that count. */
static inline const struct hfi_hdr *hfi_door_mask(void)
{
	static const struct hfi_hdr mask = {
		.lrh_flags = {{0, HFI_LNH_MASK}},
		.dlid = {{0xff, 0xff}},
		.slid = {{0xff, 0xff}},
		.pkey = {{0xff, 0xff}},
		.qp = 0xff,
		.dest_rx = 0xff,
		.psn_tx = {{0, 0, 0, 0xff}},
		.kdeth = {{0xff, 0xff, 0xff, 0xff}},
		.jkey = {{0xff, 0xff}},
		.hcrc = {{0xff, 0xff}},
	};

	return &mask;
}

/** hfi_door_is_eager() - @h of @head bytes, followed by @payload bytes, is an eager packet that may pass. */
static inline bool hfi_door_is_eager(const struct hfi_door *door, const struct hfi_hdr *h, uint32_t head,
				     uint32_t payload)
{
	typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias));
	const pair *mask = (const pair *)hfi_door_mask(), *is = (const pair *)h, *want = (const pair *)door->want;
	pair diff = ((is[0] ^ want[0]) & mask[0]) | ((is[1] ^ want[1]) & mask[1]) | ((is[2] ^ want[2]) & mask[2]);

	return !(diff[0] | diff[1]) && hfi_wire_fits_len(h, head, payload);
}

/** hfi_door_init() - Packets must be like @like, the fields marked A but for length and padding. */
void hfi_door_init(struct hfi_door *door, const struct hfi_hdr *like);

/**
 * hfi_door_label() - What a context tells this host's others of its door, from the header @like of its own packets: who
 * has an equal label may come in. Never 0.
 */
static inline uint64_t hfi_door_label(const struct hfi_hdr *like)
{
	return 1ull << 48 | (uint64_t)be16_get(like->pkey) << 32 | (uint32_t)le16_get(like->hcrc) << 16 |
	       le16_get(like->jkey);
}

#define HFI_DOOR_PASS HFI_DROP_NUM
/** hfi_door_check() - The same for all packets. Return: HFI_DOOR_PASS and @type; else why it is dropped. */
enum hfi_drop hfi_door_check(const struct hfi_door *door, const struct hfi_hdr *h, uint32_t payload,
			     enum hfi_rcv_type *type);

/** hfi_wire_hcrc() - 16 bits of a hash of the job's UUID. */
uint16_t hfi_wire_hcrc(const uint8_t uuid[16]);

#endif
