// SPDX-License-Identifier: BSD-2-Clause
// Packets out: programmed I/O.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

int hfi_tx_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt, size_t len)
{
	hdr->pktlen = be16_put(hfi_wire_pktlen((uint32_t)len));
	hdr->bth1 = hfi_wire_pad((uint32_t)len);
	if (unlikely(c->may_be_down) && !hfi_port_is_up(c->hfi) && !link_peer_is_local(dst->peer))
		return -ENETDOWN;
	if (likely(!len))
		return link_send_one(c->claim.port, dst->peer, hdr, sizeof(*hdr), NULL);
	return link_send(c->claim.port, dst->peer, hdr, sizeof(*hdr), iov, iov_cnt, NULL);
}

int hfi_pio_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt)
{
	size_t len = 0;
	int rc;

	lock_assert_held(c->hfi->lock);
	assert(iov_cnt >= 0 && iov_cnt <= HFI_IOV_MAX);
	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	if (unlikely(len > c->info.mtu))
		return -EMSGSIZE;
	rc = hfi_tx_send(c, dst, hdr, iov, iov_cnt, len);
	if (unlikely(rc)) {
		c->stats.credit_waits += rc == -EAGAIN;
		return rc;
	}
	c->stats.pio_pkts++;
	c->stats.pio_bytes += len;
	c->stats.exp_pkts_tx += (le32_get(hdr->kdeth) & HFI_KDETH_CTRL) != 0;
	return 0;
}

void hfi_doorbell(struct hfi_ctxt *c)
{
	link_doorbell(c->claim.port);
}
