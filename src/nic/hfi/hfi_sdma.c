// SPDX-License-Identifier: BSD-2-Clause
// SDMA: requests that the adapter cuts into packets, with automatic header generation and a completion ring.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

#include "base/mem.h"

int hfi_sdma_init(struct hfi_ctxt *c, uint32_t size)
{
	c->sdma.slot = mem_alloc(size * sizeof(*c->sdma.slot));
	if (!c->sdma.slot)
		return -ENOMEM;
	c->sdma.size = size;
	c->sdma.head = c->sdma.tail = SDMA_NONE;
	return 0;
}

void hfi_sdma_fini(struct hfi_ctxt *c)
{
	mem_free(c->sdma.slot);
	c->sdma.slot = NULL;
}

/* --- one packet ---------------------------------------------------------------------------------- */

/* The bytes [@off, +@len) of the request. Return: pieces. */
static int cut(const struct hfi_sdma_slot *s, size_t off, size_t len, struct iovec out[HFI_IOV_MAX])
{
	int cnt = 0;

	for (int i = 0; i < s->req.iov_cnt && len; i++) {
		size_t n = s->iov[i].iov_len;

		if (off >= n) {
			off -= n;
			continue;
		}
		n = MIN(n - off, len);
		out[cnt++] = (struct iovec){(uint8_t *)s->iov[i].iov_base + off, n};
		len -= n;
		off = 0;
	}
	return cnt;
}

/* TID and offset for the packet at @off of the expected receive, which has @len bytes. Return: 0; -EINVAL. */
static int aim(const struct hfi_sdma_slot *s, struct hfi_hdr *hdr, uint32_t off, uint32_t len)
{
	int i = 0;

	while (i < s->req.tid_cnt && off >= s->tids[i].len)
		off -= s->tids[i++].len;
	if (i == s->req.tid_cnt || len > s->tids[i].len - off)
		return -EINVAL; /* a packet cannot begin in one entry and end in another */
	return hfi_tid_hdr(hdr, &s->tids[i], off);
}

static uint32_t pkt_len(const struct hfi_sdma_slot *s, uint32_t n)
{
	uint32_t off = n * s->req.fragsize;

	return MIN(s->len - off, s->req.fragsize);
}

/* The header of packet @n: what the adapter generates from the template. */
static int pkt_hdr(const struct hfi_sdma_slot *s, uint32_t n, struct hfi_hdr *hdr)
{
	uint32_t off = n * s->req.fragsize, psn_tx = le32_get(s->req.hdr.psn_tx);

	*hdr = s->req.hdr;
	hdr->psn_tx = le32_put((psn_tx & ~HFI_PSN_MASK) | ((psn_tx + n) & HFI_PSN_MASK));
	hdr->w[0] = le64_put(le64_get(hdr->w[0]) + off);
	if (n + 1 == s->req.npkts)
		hdr->ecn |= s->req.last_ecn;
	return s->req.tids ? aim(s, hdr, s->req.tid_off + off, pkt_len(s, n)) : 0;
}

static int pkt_send(struct hfi_ctxt *c, struct hfi_sdma_slot *s)
{
	uint32_t len = pkt_len(s, s->sent);
	struct iovec iov[HFI_IOV_MAX];
	int rc, cnt = cut(s, (size_t)s->sent * s->req.fragsize, len, iov);
	struct hfi_hdr hdr;

	rc = pkt_hdr(s, s->sent, &hdr);
	if (!rc)
		rc = hfi_tx_send(c, s->req.dst, &hdr, iov, cnt, len);
	if (rc)
		return rc;
	s->sent++;
	c->stats.sdma_pkts++;
	c->stats.sdma_bytes += len;
	c->stats.exp_pkts_tx += s->req.tids != NULL;
	return 0;
}

/* --- requests ------------------------------------------------------------------------------------ */

static void end(struct hfi_sdma_slot *s, int err)
{
	s->status = err ? HFI_SDMA_ERROR : HFI_SDMA_COMPLETE;
	s->err = err;
	hfi_dst_unref(s->req.dst);
}

/* Return: 0 all sent; -EAGAIN; why the next packet cannot be sent. */
static int run(struct hfi_ctxt *c, struct hfi_sdma_slot *s)
{
	int rc = 0;

	link_borrow(c->claim.port); /* its memory stays until it is complete */
	while (!rc && s->sent < s->req.npkts)
		rc = pkt_send(c, s);
	link_borrow_end(c->claim.port);
	return rc;
}

__attribute__((noinline)) int hfi_sdma_step(struct hfi_ctxt *c)
{
	struct hfi_sdma *q = &c->sdma;
	int n = 0;

	while (q->head != SDMA_NONE) {
		struct hfi_sdma_slot *s = &q->slot[q->head];
		uint32_t before = s->sent;
		int rc = run(c, s);

		n += (int)(s->sent - before);
		if (rc == -EAGAIN)
			break;
		q->head = s->next;
		end(s, rc);
	}
	if (q->head == SDMA_NONE)
		q->tail = SDMA_NONE;
	return n;
}

void hfi_sdma_gone(struct hfi_ctxt *c, const struct hfi_dst *dst, int err)
{
	struct hfi_sdma *q = &c->sdma;
	uint16_t i = q->head;

	q->head = q->tail = SDMA_NONE;
	while (i != SDMA_NONE) {
		struct hfi_sdma_slot *s = &q->slot[i];
		uint16_t next = s->next;

		if (!dst || s->req.dst == dst) {
			end(s, err);
		} else {
			s->next = SDMA_NONE;
			if (q->head == SDMA_NONE)
				q->head = i;
			else
				q->slot[q->tail].next = i;
			q->tail = i;
		}
		i = next;
	}
}

static bool is_in_limits(const struct hfi_ctxt *c, const struct hfi_sdma_req *req)
{
	size_t len = 0;

	if (req->iov_cnt < 0 || req->iov_cnt > HFI_IOV_MAX || !req->npkts || req->npkts > HFI_SDMA_PKTS)
		return false;
	if (!req->fragsize || req->fragsize % 64 || req->fragsize > c->info.mtu)
		return false;
	if (req->tids && (req->tid_cnt < 1 || req->tid_cnt > HFI_IOV_MAX))
		return false;
	for (int i = 0; i < req->iov_cnt; i++)
		len += req->iov[i].iov_len;
	return len <= (size_t)req->npkts * req->fragsize && len + req->fragsize > (size_t)req->npkts * req->fragsize;
}

/* @s: filled from @req. Return: false: a packet has no place among the TIDs. */
static bool slot_fill(struct hfi_sdma_slot *s, const struct hfi_sdma_req *req)
{
	struct hfi_hdr hdr;

	s->req = *req;
	s->len = s->sent = 0;
	s->next = SDMA_NONE;
	for (int i = 0; i < req->iov_cnt; i++) {
		s->iov[i] = req->iov[i];
		s->len += (uint32_t)req->iov[i].iov_len;
	}
	if (!req->tids)
		return true;
	memcpy(s->tids, req->tids, (size_t)req->tid_cnt * sizeof(s->tids[0]));
	for (uint32_t n = 0; n < req->npkts; n++)
		if (pkt_hdr(s, n, &hdr))
			return false;
	return true;
}

int hfi_sdma_post(struct hfi_ctxt *c, const struct hfi_sdma_req *req)
{
	struct hfi_sdma *q = &c->sdma;
	struct hfi_sdma_slot *s;
	int rc = -EAGAIN;

	lock_assert_held(c->hfi->lock);
	if (q->used == q->size)
		return -EBUSY;
	if (req->comp_idx >= q->size || !is_in_limits(c, req))
		return -EINVAL;
	s = &q->slot[req->comp_idx];
	if (s->status != HFI_SDMA_FREE || !slot_fill(s, req))
		return -EINVAL;
	if (q->head == SDMA_NONE)
		rc = run(c, s);
	if (rc && rc != -EAGAIN && !s->sent)
		return rc; /* nothing has happened */
	q->used++;
	c->stats.sdma_reqs++;
	hfi_dst_hold(req->dst);
	if (rc != -EAGAIN) {
		end(s, rc);
		return 0;
	}
	s->status = HFI_SDMA_QUEUED;
	if (q->head == SDMA_NONE)
		q->head = req->comp_idx;
	else
		q->slot[q->tail].next = req->comp_idx;
	q->tail = req->comp_idx;
	return 0;
}

enum hfi_sdma_status hfi_sdma_status(const struct hfi_ctxt *c, uint16_t idx, int *err)
{
	const struct hfi_sdma_slot *s = &c->sdma.slot[idx];

	must(idx < c->sdma.size);
	if (err)
		*err = s->err;
	return (enum hfi_sdma_status)s->status;
}

void hfi_sdma_free(struct hfi_ctxt *c, uint16_t idx)
{
	must(idx < c->sdma.size);
	if (c->sdma.slot[idx].status != HFI_SDMA_COMPLETE && c->sdma.slot[idx].status != HFI_SDMA_ERROR)
		return;
	c->sdma.slot[idx].status = HFI_SDMA_FREE;
	c->sdma.slot[idx].err = 0;
	c->sdma.used--;
}
