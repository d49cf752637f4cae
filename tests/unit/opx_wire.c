// SPDX-License-Identifier: BSD-2-Clause
// The adapter of the opx rig: one wire in memory with seeded faults, and all that the reliability calls of
// nic/hfi/hfi.h.
#include "opx_rig.h"

uint64_t rig_clock_reads;

/* --- the wire ----------------------------------------------------------------------------------------------------- */

static void wire_put(struct rig *g, struct rig_pkt *p)
{
	struct rig_pkt *at = TAILQ_LAST(&g->wire, rig_pkts);

	while (at && at->at > p->at)
		at = TAILQ_PREV(at, rig_pkts, link);
	if (at)
		TAILQ_INSERT_AFTER(&g->wire, at, p, link);
	else
		TAILQ_INSERT_HEAD(&g->wire, p, link);
}

static struct rig_pkt *wire_pkt(uint32_t from, uint32_t to, const struct hfi_hdr *h, const struct iovec *iov,
				int iov_cnt)
{
	uint32_t len = 0, at = 0;
	struct rig_pkt *p;

	for (int i = 0; i < iov_cnt; i++)
		len += (uint32_t)iov[i].iov_len;
	p = malloc(sizeof(*p) + len);
	p->from = from;
	p->to = to;
	p->hdr = (struct hfi_hdr){0};
	memcpy(&p->hdr, h, hfi_hdr_len(h));
	p->len = len;
	for (int i = 0; i < iov_cnt; i++) {
		if (iov[i].iov_len)
			memcpy(p->data + at, iov[i].iov_base, iov[i].iov_len);
		at += (uint32_t)iov[i].iov_len;
	}
	return p;
}

/* @wait: ns before it leaves. */
static void wire_send(struct rig *g, uint32_t from, uint32_t to, const struct hfi_hdr *h, const struct iovec *iov,
		      int iov_cnt, uint64_t wait)
{
	struct rig_pkt *p = wire_pkt(from, to, h, iov, iov_cnt);
	enum rig_fate fate = RIG_PASS;

	if (h->opcode != OPX_UD)
		g->n[from].wire_data++;
	p->is_local = g->is_local;
	p->at = g->now + wait + g->latency;
	if (!g->is_local) {
		if (g->fate_at != g->now || g->sent - g->fate_from >= g->burst) {
			g->is_bad = rng_chance(&g->rng, g->loss);
			g->fate_at = g->now;
			g->fate_from = g->sent;
		}
		if (g->is_bad)
			fate = RIG_DROP;
		else if (rng_chance(&g->rng, g->dup))
			fate = RIG_DUP;
		else if (rng_chance(&g->rng, g->reorder))
			fate = RIG_DELAY;
		if ((int64_t)g->sent == g->nth)
			fate = g->fate;
	}
	g->sent++;
	if (fate == RIG_DROP) {
		free(p);
		return;
	}
	if (fate == RIG_DELAY)
		p->at += 1 + rng_below(&g->rng, 20 * g->latency);
	if (fate == RIG_DUP) {
		struct rig_pkt *q = wire_pkt(from, to, h, iov, iov_cnt);

		q->is_local = false;
		q->at = p->at + rng_below(&g->rng, 4 * g->latency);
		wire_put(g, q);
	}
	wire_put(g, p);
}

void rig_pkts_free(struct rig_pkts *q)
{
	struct rig_pkt *p;

	while ((p = TAILQ_FIRST(q))) {
		TAILQ_REMOVE(q, p, link);
		free(p);
	}
}

/* --- what the reliability calls ----------------------------------------------------------------------------------- */

uint64_t hfi_now_ns(const struct hfi *hfi)
{
	rig_clock_reads++;
	return hfi->g->now;
}

uint64_t hfi_random(struct hfi *hfi)
{
	return rng_u64(&hfi->g->rng);
}

uint64_t hfi_dead_after_ns(const struct hfi *hfi)
{
	(void)hfi;
	return RIG_DEAD;
}

bool hfi_port_is_up(const struct hfi *hfi)
{
	return !hfi->is_down;
}

const struct hfi_ctxt_info *hfi_ctxt_info(const struct hfi_ctxt *c)
{
	return &c->info;
}

void hfi_dst_hold(struct hfi_dst *dst)
{
	dst->refs++;
}

void hfi_dst_put(struct hfi_dst *dst)
{
	assert_true(dst->refs);
	dst->refs--;
}

void *hfi_dst_user(const struct hfi_dst *dst)
{
	return dst->user;
}

void hfi_dst_set_user(struct hfi_dst *dst, void *user)
{
	dst->user = user;
}

bool hfi_dst_is_local(const struct hfi_dst *dst)
{
	return dst->from->g->is_local;
}

uint16_t hfi_dst_lid(const struct hfi_dst *dst)
{
	return 1;
}

bool hfi_dst_admits(const struct hfi_dst *dst)
{
	return dst->from->g->is_local && dst->from->g->is_admitted;
}

bool hfi_dst_is_host(const struct hfi_dst *dst)
{
	return dst->from->g->is_local;
}

int hfi_dst_connect(struct hfi_dst *dst)
{
	struct rig *g = dst->from->g;

	return g->is_local && !g->n[dst->to].is_open ? -ECONNREFUSED : 0;
}

void hfi_dst_hdr(const struct hfi_dst *dst, struct hfi_hdr *out)
{
	*out = (struct hfi_hdr){.psn_tx = le32_put((dst->from->idx + 1) << 24), .qp = 0x80,
				.dest_rx = (uint8_t)dst->to};
}

void hfi_doorbell(struct hfi_ctxt *c)
{
	(void)c;
}

static int pio_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt,
		    uint64_t wait)
{
	struct rig *g = c->n->g;

	assert_int_equal(le32_get(hdr->psn_tx) >> 24, c->n->idx + 1);
	assert_true(c->n->is_open);
	if (c->n->hfi.is_down)
		return -ENETDOWN;
	if (c->n->pio_err)
		return c->n->pio_err;
	if (rng_chance(&g->rng, g->eagain))
		return -EAGAIN;
	hdr->pktlen = be16_put(1);
	wire_send(g, c->n->idx, dst->to, hdr, iov, iov_cnt, wait);
	return 0;
}

int hfi_pio_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt)
{
	return pio_send(c, dst, hdr, iov, iov_cnt, 0);
}

int hfi_pio_send_late(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr)
{
	bool is_local = c->n->g->is_local;
	int rc = pio_send(c, dst, hdr, NULL, 0, is_local ? 0 : RIG_LATE);

	c->n->late_cnt += !rc && !is_local;
	return rc;
}

/* Only on one host, and not always there, is memory given. */
struct hfi_hdr *hfi_pio_begin(struct hfi_ctxt *c, struct hfi_dst *dst, size_t head, size_t len)
{
	static _Alignas(8) uint8_t frame[sizeof(struct hfi_hdr) + HFI_MTU];
	struct rig *g = c->n->g;

	(void)dst;
	assert_true(len <= HFI_MTU && (head == HFI_HDR_CUT || head == sizeof(struct hfi_hdr)));
	g->wants_full = !g->is_local || c->n->hfi.is_down || c->n->pio_err || rng_chance(&g->rng, g->eagain);
	if (g->wants_full)
		return NULL;
	memset(frame, 0xee, head + len);
	return (struct hfi_hdr *)frame;
}

/* Where there is no memory there may still be room. */
bool hfi_pio_full(struct hfi_ctxt *c, const struct hfi_dst *dst)
{
	struct rig *g = c->n->g;

	assert_true(g->is_local && dst->from->g == g);
	assert_true(g->wants_full); /* it is asked after hfi_pio_begin() alone */
	g->wants_full = false;
	return !c->n->hfi.is_down && !c->n->pio_err && rng_chance(&g->rng, g->eagain);
}

void hfi_pio_commit(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, size_t head, size_t len)
{
	const struct iovec iov = {(uint8_t *)hdr + head, len};

	assert_int_equal(le32_get(hdr->psn_tx) >> 24, c->n->idx + 1);
	assert_true(c->n->is_open);
	hdr->pktlen = be16_put(1);
	hdr->bth1 = (uint8_t)(sizeof(*hdr) - head);
	wire_send(c->n->g, c->n->idx, dst->to, hdr, &iov, len != 0, 0);
}

int hfi_tid_hdr(struct hfi_hdr *hdr, const struct hfi_tid *tid, uint32_t off)
{
	if (off % 4)
		return -EINVAL;
	hdr->kdeth = le32_put((uint32_t)tid->idx << 16 | 1u << 26 | off / 64);
	return 0;
}

int hfi_sdma_post(struct hfi_ctxt *c, const struct hfi_sdma_req *req)
{
	struct rig_sdma *s = &c->sdma[req->comp_idx];

	assert_true(req->comp_idx < RIG_RING && c->sdma_st[req->comp_idx] == HFI_SDMA_FREE);
	assert_int_equal(req->comp_idx, (c->sdma_head + c->sdma_cnt) % RIG_RING);
	if (rng_chance(&c->n->g->rng, c->n->g->eagain))
		return -EBUSY;
	*s = (struct rig_sdma){.req = *req};
	for (int i = 0; i < req->iov_cnt; i++)
		s->iov[i] = req->iov[i];
	s->req.iov = s->iov;
	c->sdma_st[req->comp_idx] = HFI_SDMA_QUEUED;
	c->sdma_cnt++;
	return 0;
}

enum hfi_sdma_status hfi_sdma_status(const struct hfi_ctxt *c, uint16_t idx, int *err)
{
	*err = 0;
	return c->sdma_st[idx];
}

void hfi_sdma_free(struct hfi_ctxt *c, uint16_t idx)
{
	assert_int_equal(c->sdma_st[idx], HFI_SDMA_COMPLETE);
	c->sdma_st[idx] = HFI_SDMA_FREE;
}

bool rig_sdma_step(struct hfi_ctxt *c)
{
	struct rig_sdma *s = &c->sdma[c->sdma_head];
	uint8_t buf[HFI_MTU];
	struct hfi_hdr h;
	uint32_t off, n = 0;

	if (!c->sdma_cnt || c->is_stalled)
		return false;
	h = s->req.hdr;
	off = s->sent * s->req.fragsize;
	h.psn_tx = le32_put((le32_get(h.psn_tx) & ~HFI_PSN_MASK) | psn_add(hfi_hdr_psn(&h), s->sent));
	h.w[0] = le64_put(le64_get(h.w[0]) + off);
	if (s->req.tids)
		hfi_tid_hdr(&h, s->req.tids, s->req.tid_off + off);
	for (int i = 0; i < s->req.iov_cnt && n < s->req.fragsize; i++) {
		uint32_t len = (uint32_t)s->iov[i].iov_len, skip = MIN(off, len),
			 take = MIN(len - skip, s->req.fragsize - n);

		memcpy(buf + n, (char *)s->iov[i].iov_base + skip, take);
		off -= skip;
		n += take;
	}
	if (s->sent + 1 == s->req.npkts)
		h.ecn |= s->req.last_ecn;
	wire_send(c->n->g, c->n->idx, s->req.dst->to, &h, &(struct iovec){buf, n}, 1, 0);
	if (++s->sent == s->req.npkts) {
		c->sdma_st[c->sdma_head] = HFI_SDMA_COMPLETE;
		c->sdma_head = (c->sdma_head + 1) % RIG_RING;
		c->sdma_cnt--;
	}
	return true;
}
