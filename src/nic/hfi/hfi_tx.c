// SPDX-License-Identifier: BSD-2-Clause
// Packets out: programmed I/O.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

static_assert(HFI_MTU + sizeof(struct hfi_hdr) <= LINK_FRAME_MAX, "a packet is a frame");

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

int hfi_tx_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt,
		size_t len)
{
	uint32_t head = hfi_hdr_len(hdr);
	int rc = tx_check(c, dst);

	if (unlikely(rc))
		return rc;
	hfi_wire_put_len(hdr, head, (uint32_t)len);
	return link_send(c->claim.port, dst->peer, hdr, head, iov, iov_cnt, NULL);
}

/* These two are part of each small message: inline, whatever else its module has. */
inline __attribute__((always_inline)) struct hfi_hdr *hfi_pio_begin(struct hfi_ctxt *c, struct hfi_dst *dst,
								    size_t head, size_t len)
{
	lock_assert_held(c->hfi->lock);
	assert(len <= c->info.mtu);
	if (unlikely(tx_check(c, dst)))
		return NULL; /* hfi_pio_send() says which */
	return (struct hfi_hdr *)link_begin(c->claim.port, dst->peer, LINK_RAW, head + len);
}

bool hfi_pio_full(struct hfi_ctxt *c, const struct hfi_dst *dst)
{
	bool is_full = dst->is_gone_parked || link_is_full(dst->peer);

	c->stats.credit_waits += is_full;
	return is_full;
}

inline __attribute__((always_inline)) void hfi_pio_commit(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr,
							   size_t head, size_t len)
{
	hfi_wire_put_len(hdr, (uint32_t)head, (uint32_t)len);
	c->stats.pio_pkts++;
	if (len) {
		c->stats.pio_bytes += len;
		c->stats.exp_pkts_tx += (le32_get(hdr->kdeth) & HFI_KDETH_CTRL) != 0;
	}
	link_commit(c->claim.port, dst->peer, LINK_RAW, (uint8_t *)hdr, head + len, NULL, 0);
}

/* What has become of a packet of @len bytes: @rc. */
static int pio_sent(struct hfi_ctxt *c, const struct hfi_hdr *hdr, size_t len, int rc)
{
	if (unlikely(rc)) {
		c->stats.credit_waits += rc == -EAGAIN;
		return rc;
	}
	c->stats.pio_pkts++;
	c->stats.pio_bytes += len;
	c->stats.exp_pkts_tx += (le32_get(hdr->kdeth) & HFI_KDETH_CTRL) != 0;
	return 0;
}

int hfi_pio_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt)
{
	size_t len = 0;

	lock_assert_held(c->hfi->lock);
	assert(iov_cnt >= 0 && iov_cnt <= HFI_IOV_MAX);
	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	if (unlikely(len > c->info.mtu))
		return -EMSGSIZE;
	return pio_sent(c, hdr, len, hfi_tx_send(c, dst, hdr, iov, iov_cnt, len));
}

int hfi_pio_send_late(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr)
{
	uint32_t head = hfi_hdr_len(hdr);
	int rc = tx_check(c, dst);

	lock_assert_held(c->hfi->lock);
	if (!rc) {
		hfi_wire_put_len(hdr, head, 0);
		rc = link_send_late(c->claim.port, dst->peer, hdr, head);
	}
	return pio_sent(c, hdr, 0, rc);
}

void hfi_doorbell(struct hfi_ctxt *c)
{
	link_doorbell(c->claim.port);
}
