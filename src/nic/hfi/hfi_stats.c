// SPDX-License-Identifier: BSD-2-Clause
// Counters: what a context counts itself, and what follows from its port's counts.
#include "nic/hfi/hfi_int.h"

void hfi_stats_derive(const struct hfi_ctxt *c, const struct link_stats *link, struct hfi_stats *out)
{
	*out = c->stats;
	out->copy_get_bytes = link->bulk_get_bytes;
	out->copy_put_bytes = link->bulk_put_bytes;
	out->port_xmit_data = out->pio_bytes + out->sdma_bytes + (out->pio_pkts + out->sdma_pkts) * HFI_WIRE_HDR;
	out->port_rcv_data = out->rcv_bytes + (out->rcv_eager + out->rcv_expected) * HFI_WIRE_HDR;
	nic_net_stats(link, &out->net);
}

void hfi_ctxt_query_stats(const struct hfi_ctxt *c, struct hfi_stats *out)
{
	lock_assert_held(c->hfi->lock);
	hfi_stats_derive(c, link_port_stats(c->claim.port), out);
}

void hfi_query_stats(const struct hfi *hfi, struct hfi_stats *out)
{
	struct hfi_stats one;

	lock_assert_held(hfi->lock);
	*out = hfi->closed;
	for (const struct hfi_ctxt *c = hfi->ctxts; c; c = c->next) {
		hfi_ctxt_query_stats(c, &one);
		stats_add(out, &one, sizeof(one));
	}
}

#define ROW(name_) {#name_, offsetof(struct hfi_stats, name_)}
#define DROP(name_, why_) {"drop_" #name_, offsetof(struct hfi_stats, drop) + sizeof(uint64_t) * (why_)}
const struct stats_row hfi_stat_row[] = {
	ROW(pio_pkts), ROW(pio_bytes), ROW(sdma_reqs), ROW(sdma_pkts), ROW(sdma_bytes), ROW(exp_pkts_tx),
	ROW(rcv_eager), ROW(rcv_expected), ROW(rcv_bytes), ROW(rcv_parked),
	ROW(tid_updates), ROW(tid_stale), ROW(credit_waits), ROW(copy_get_bytes), ROW(copy_put_bytes),
	ROW(port_xmit_data), ROW(port_rcv_data),
	DROP(short, HFI_DROP_SHORT), DROP(length, HFI_DROP_LENGTH), DROP(lnh, HFI_DROP_LNH), DROP(dlid, HFI_DROP_DLID),
	DROP(slid, HFI_DROP_SLID), DROP(pkey, HFI_DROP_PKEY), DROP(jkey, HFI_DROP_JKEY), DROP(uuid, HFI_DROP_UUID),
	DROP(ctxt, HFI_DROP_CTXT), DROP(kver, HFI_DROP_KVER), DROP(rcvhdrq_full, HFI_DROP_RCVHDRQ_FULL),
	DROP(egr_full, HFI_DROP_EGR_FULL), DROP(port_down, HFI_DROP_PORT_DOWN),
	NIC_NET_ROWS("", struct hfi_stats, net),
};

size_t hfi_stats_tell(void *ctx, char *buf, size_t len)
{
	const struct hfi *hfi = ctx;
	struct hfi_stats sum;

	hfi_query_stats(hfi, &sum);
	return stats_line(buf, len, hfi->attr.name, hfi_stat_row, ARRAY_SIZE(hfi_stat_row), &sum);
}
