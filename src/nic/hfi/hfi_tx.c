// SPDX-License-Identifier: BSD-2-Clause
// Packets out: programmed I/O.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

#define DIRECT_MAX (LINK_OWN_MAX - sizeof(struct hfi_hdr)) /* bytes of payload of a frame that the link has room for */

/* A small packet, written in place. Return: false: not to this one, or not now. */
static inline bool send_direct(struct hfi_ctxt *c, struct hfi_dst *dst, const struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt, size_t len)
{
	uint8_t *frame = link_begin(c->claim.port, dst->peer, sizeof(*hdr) + len), *at;

	if (unlikely(!frame))
		return false;
	memcpy(frame, hdr, sizeof(*hdr));
	at = frame + sizeof(*hdr);
	for (int i = 0; i < iov_cnt; i++) {
		copy_small(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	link_commit(c->claim.port, dst->peer, frame, sizeof(*hdr) + len, NULL, 0);
	return true;
}

/*
 * Return: 0; -EAGAIN who was there has gone, which is to be told first: this would go to the next one, whom nobody
 *         knows yet; -ENETDOWN.
 */
static inline int tx_check(struct hfi_ctxt *c, const struct hfi_dst *dst)
{
	if (likely(!(c->may_be_down | dst->is_gone_parked)))
		return 0;
	if (dst->is_gone_parked)
		return -EAGAIN;
	return hfi_port_is_up(c->hfi) || link_peer_is_local(dst->peer) ? 0 : -ENETDOWN;
}

int hfi_tx_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt, size_t len)
{
	int rc = tx_check(c, dst);

	if (unlikely(rc))
		return rc;
	hdr->pktlen = be16_put(hfi_wire_pktlen((uint32_t)len));
	hdr->bth1 = hfi_wire_pad((uint32_t)len);
	if (likely(!len))
		return link_send_one(c->claim.port, dst->peer, hdr, sizeof(*hdr), NULL);
	if (likely(len <= DIRECT_MAX) && send_direct(c, dst, hdr, iov, iov_cnt, len))
		return 0;
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

int hfi_pio_send_hdr(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr)
{
	int rc = tx_check(c, dst);

	lock_assert_held(c->hfi->lock);
	if (unlikely(rc))
		return rc;
	hdr->pktlen = be16_put(hfi_wire_pktlen(0));
	hdr->bth1 = hfi_wire_pad(0);
	rc = link_send_one(c->claim.port, dst->peer, hdr, sizeof(*hdr), NULL);
	if (unlikely(rc)) {
		c->stats.credit_waits += rc == -EAGAIN;
		return rc;
	}
	c->stats.pio_pkts++;
	return 0;
}

void hfi_doorbell(struct hfi_ctxt *c)
{
	link_doorbell(c->claim.port);
}
