// SPDX-License-Identifier: BSD-2-Clause
// Long read: the receiver fetches what its sender has named (doc/facts/efa.md#two-sided-transfers).
#include "prov/efa/efa.h"

static struct efanic_mr *dest_mr(struct efa_rx *rx, unsigned i, const struct iovec *iov, void *desc)
{
	struct efanic_mr_attr attr = {iov->iov_base, iov->iov_len, EFANIC_ACCESS_LOCAL_WRITE};
	struct efa_mr *mr = rx->kind == EFA_RX_WRITE ? efa_rma_region(rx->ep, &rx->at[i], FI_REMOTE_WRITE) : desc;

	if (mr || rx->kind == EFA_RX_WRITE)
		return mr ? mr->dev : NULL;
	if (!rx->tmp_mr[i] && efanic_mr_reg(rx->ep->domain->nic, &attr, &rx->tmp_mr[i]))
		return NULL;
	return rx->tmp_mr[i];
}

static int post_read(struct efa_rx *rx, void *dst, uint32_t lkey, uint64_t raddr, uint64_t rkey, uint32_t len)
{
	struct efa_pkt *pkt = efa_pkt_get(rx->ep, rx->peer, false);

	if (!pkt)
		return -FI_ENOMEM;
	pkt->type = EFA_WR_READ;
	pkt->opcode = EFANIC_OP_READ;
	pkt->rx = rx;
	pkt->raddr = raddr;
	pkt->rkey = (uint32_t)rkey;
	pkt->payload_len = len;
	pkt->sge[0] = (struct efanic_sge){dst, len, lkey};
	pkt->sge_cnt = 1;
	rx->wrs++;
	efa_pkt_post_or_queue(pkt);
	return 0;
}

/* Reads [@off, @end) of the message: both sides are lists, each work request stays inside one piece of each. */
static int post_range(struct efa_rx *rx, const struct iovec *iov, unsigned cnt, void **desc, uint64_t off, uint64_t end)
{
	const struct efa_domain *d = rx->ep->domain;
	uint64_t max = MIN((uint64_t)d->params.inter_read_segment_size, d->attr.max_rdma_size);
	uint64_t di = 0, si = 0, doff = off, soff = off;

	while (di < cnt && doff >= iov[di].iov_len)
		doff -= iov[di++].iov_len;
	while (si < rx->read_iov_cnt && soff >= rx->read_iov[si].len)
		soff -= rx->read_iov[si++].len;
	while (off < end && di < cnt && si < rx->read_iov_cnt) {
		uint64_t len = MIN(MIN(iov[di].iov_len - doff, rx->read_iov[si].len - soff), MIN(end - off, max));
		struct efanic_mr *mr = dest_mr(rx, (unsigned)di, &iov[di], desc ? desc[di] : NULL);
		int ret = mr ? post_read(rx, (char *)iov[di].iov_base + doff, efanic_mr_lkey(mr),
					 rx->read_iov[si].addr + soff, rx->read_iov[si].key, (uint32_t)len)
			     : -EFA_ENOMR;

		if (ret)
			return ret;
		rx->read_left += len;
		off += len;
		doff += len;
		soff += len;
		if (doff == iov[di].iov_len)
			doff = 0, di++;
		if (soff == rx->read_iov[si].len)
			soff = 0, si++;
	}
	return off < end ? -FI_EINVAL : 0;
}

int efa_rx_post_reads(struct efa_rx *rx)
{
	bool msg = rx->kind == EFA_RX_MSG;
	uint64_t stop = msg ? MIN(rx->len, rx->krx->len) : rx->len;
	int ret = 0;

	rx->reading = true;
	rx->ep->domain->reads_in_flight++;
	if (stop > rx->runt_len)
		ret = post_range(rx, msg ? rx->krx->iov : rx->iov, msg ? rx->krx->iov_cnt : rx->iov_cnt,
				 msg ? rx->krx->desc : NULL, rx->runt_len, stop);
	if (!ret)
		rx->got += rx->len - rx->runt_len; /* what is not fetched does not fit and is not wanted */
	return ret;
}

void efa_rx_wr_done(struct efa_rx *rx, struct efa_pkt *pkt, unsigned status)
{
	rx->wrs--;
	if (rx->ended) {
		if (!rx->wrs)
			efa_rx_put(rx);
		return;
	}
	if (status != EFANIC_OK || rx->fail_err) {
		unsigned code = rx->fail_err ? rx->fail_code : efa_prov_errno(rx->peer, status);

		efa_rx_fail(rx, rx->fail_err ? rx->fail_err : efa_errno(code), code);
		return;
	}
	rx->read_left -= pkt->payload_len;
	efa_rx_check(rx);
}
