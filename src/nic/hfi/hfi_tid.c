// SPDX-License-Identifier: BSD-2-Clause
// Expected receive: the receive array's entries (TIDs), and packets that go straight where they belong.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

#include "base/mem.h"

#define OFF_SMALL_UNIT 4u
#define OFF_LARGE_UNIT 64u

int hfi_tid_init(struct hfi_ctxt *c)
{
	c->tid = mem_alloc(HFI_TID_CNT * sizeof(*c->tid));
	if (!c->tid)
		return -ENOMEM;
	for (uint16_t i = 0; i < HFI_TID_CNT; i++)
		c->tid[i].next = (uint16_t)(i + 1);
	c->tid[HFI_TID_CNT - 1].next = TID_NONE;
	c->tid_free = 0;
	c->tid_left = HFI_TID_CNT;
	return 0;
}

void hfi_tid_fini(struct hfi_ctxt *c)
{
	mem_free(c->tid);
	c->tid = NULL;
}

int hfi_tid_update(struct hfi_ctxt *c, void *addr, size_t len, struct hfi_tid *list, int max)
{
	size_t cnt = DIV_ROUND_UP(len, HFI_TID_BYTES);
	uint16_t gen = ++c->tid_gen;

	lock_assert_held(c->hfi->lock);
	if (cnt > c->tid_left || max < 0 || cnt > (size_t)max)
		return -ENOSPC;
	for (size_t i = 0; i < cnt; i++) {
		struct hfi_tid_row *row = &c->tid[c->tid_free];
		size_t off = i * HFI_TID_BYTES;

		list[i] = (struct hfi_tid){.idx = c->tid_free, .gen = gen,
					   .len = (uint32_t)MIN(len - off, (size_t)HFI_TID_BYTES)};
		c->tid_free = row->next;
		*row = (struct hfi_tid_row){.addr = (uint8_t *)addr + off, .len = list[i].len, .gen = gen,
					    .next = TID_NONE, .is_used = true};
	}
	c->tid_left -= (uint16_t)cnt;
	c->stats.tid_updates++;
	return (int)cnt;
}

void hfi_tid_free(struct hfi_ctxt *c, const struct hfi_tid *list, int cnt)
{
	lock_assert_held(c->hfi->lock);
	for (int i = 0; i < cnt; i++) {
		struct hfi_tid_row *row = &c->tid[list[i].idx];

		must(list[i].idx < HFI_TID_CNT && row->is_used && row->gen == list[i].gen);
		row->is_used = false;
		row->next = c->tid_free;
		c->tid_free = list[i].idx;
		c->tid_left++;
	}
}

int hfi_tid_hdr(struct hfi_hdr *hdr, const struct hfi_tid *tid, uint32_t off)
{
	bool is_small = off <= HFI_KDETH_OFF * OFF_SMALL_UNIT;
	uint32_t unit = is_small ? OFF_SMALL_UNIT : OFF_LARGE_UNIT;

	if (off % unit || off / unit > HFI_KDETH_OFF)
		return -EINVAL;
	hdr->kdeth = le32_put(off / unit | (is_small ? 0 : HFI_KDETH_OM) | (uint32_t)tid->idx << 16 | HFI_KDETH_CTRL |
			      HFI_KVER);
	return 0;
}

uint16_t hfi_hdr_tid(const struct hfi_hdr *hdr)
{
	return (uint16_t)HFI_KDETH_TID(le32_get(hdr->kdeth));
}

int hfi_tid_place(struct hfi_ctxt *c, const struct hfi_pkt *pkt, uint16_t gen)
{
	uint32_t kdeth = le32_get(pkt->hdr->kdeth);
	uint32_t off = (kdeth & HFI_KDETH_OFF) * (kdeth & HFI_KDETH_OM ? OFF_LARGE_UNIT : OFF_SMALL_UNIT);
	const struct hfi_tid_row *row = &c->tid[HFI_KDETH_TID(kdeth)];
	static_assert(HFI_TID_CNT == HFI_KDETH_TID(~0u) + 1, "every number on the wire is an entry");

	lock_assert_held(c->hfi->lock);
	if (pkt->type != HFI_RCV_EXPECTED || !row->is_used || row->gen != gen) {
		c->stats.tid_stale++;
		return -ENOENT;
	}
	if (off > row->len || pkt->data.len > row->len - off)
		return -ERANGE;
	return (int)view_copy(&pkt->data, 0, row->addr + off, pkt->data.len);
}
