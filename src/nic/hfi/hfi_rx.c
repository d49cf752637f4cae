// SPDX-License-Identifier: BSD-2-Clause
// Packets in: the door, on_pkt, and what has to wait because nobody polls.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"

/*
 * The adapter drops without a word what another user, job or partition sends, and its sender waits in vain: here it is
 * said.
 */
static __attribute__((cold, noinline)) void drop_say(struct hfi_ctxt *c, enum hfi_drop why)
{
	static const char *const other[HFI_DROP_NUM] = {
		[HFI_DROP_PKEY] = "P_Key",
		[HFI_DROP_JKEY] = "job key (its process belongs to another user)",
		[HFI_DROP_UUID] = "FI_OPX_UUID",
	};

	if (other[why])
		LOG_FEW(LOG_LVL_WARN, c->drops_said, "context %u: a packet of another %s is dropped", c->info.ctxt,
			other[why]);
}

static int drop(struct hfi_ctxt *c, enum hfi_drop why)
{
	c->stats.drop[why]++;
	drop_say(c, why);
	return 0;
}

/* --- waiting ------------------------------------------------------------------------------------- */

static void park(struct hfi_ctxt *c, struct hfi_parked *e)
{
	e->next = NULL;
	e->dst->refs++;
	e->dst->parked_cnt++;
	*c->parked_end = e;
	c->parked_end = &e->next;
	c->parked_cnt++;
	c->parked_bytes += e->len;
}

static struct hfi_parked *unpark(struct hfi_ctxt *c)
{
	struct hfi_parked *e = c->parked;

	c->parked = e->next;
	if (!c->parked)
		c->parked_end = &c->parked;
	c->parked_cnt--;
	c->parked_bytes -= e->len;
	e->dst->parked_cnt--;
	if (e->gone)
		e->dst->is_gone_parked = false;
	return e;
}

static void parked_free(struct hfi_parked *e)
{
	hfi_dst_unref(e->dst);
	mem_free(e);
}

/* May a packet of @len bytes wait? What comes from this host always may: nobody would send it again. */
static enum hfi_drop room_check(const struct hfi_ctxt *c, uint32_t len, bool is_local)
{
	if (is_local)
		return HFI_DOOR_PASS;
	if (c->parked_cnt >= c->info.rcvhdrq_cnt)
		return HFI_DROP_RCVHDRQ_FULL;
	return len && c->parked_bytes + len > c->info.rcvegr_bytes ? HFI_DROP_EGR_FULL : HFI_DOOR_PASS;
}

/* Return: taken. */
static bool park_pkt(struct hfi_ctxt *c, const struct hfi_pkt *pkt, bool is_local)
{
	enum hfi_drop why = room_check(c, pkt->data.len, is_local);
	struct hfi_parked *e = why == HFI_DOOR_PASS ? mem_alloc(sizeof(*e) + pkt->data.len) : NULL;

	if (!e) {
		drop(c, why == HFI_DOOR_PASS ? HFI_DROP_RCVHDRQ_FULL : why);
		/* no memory, and nobody sends it again: what its sender waits for must not be waited for */
		if (is_local && c->attr.on_gone)
			c->attr.on_gone(c->ctx, pkt->src, -ENOMEM);
		return false;
	}
	e->dst = pkt->src;
	e->type = pkt->type;
	e->hdr = *pkt->hdr;
	e->len = (uint32_t)view_copy(&pkt->data, 0, e->data, pkt->data.len);
	park(c, e);
	c->stats.rcv_parked++;
	return true;
}

__attribute__((noinline)) int hfi_rx_show(struct hfi_ctxt *c)
{
	int n = 0;

	while (c->parked) {
		struct hfi_parked *e = unpark(c);
		struct hfi_pkt pkt = {.src = e->dst, .hdr = &e->hdr, .data = view_of(e->data, e->len), .type = e->type};

		if (!e->gone)
			c->on_pkt(c->ctx, &pkt);
		else if (c->attr.on_gone)
			c->attr.on_gone(c->ctx, e->dst, e->gone);
		parked_free(e);
		n++;
	}
	return n;
}

void hfi_rx_drop(struct hfi_ctxt *c)
{
	while (c->parked)
		parked_free(unpark(c));
}

/* --- arriving ------------------------------------------------------------------------------------ */

/*
 * The door's first row, while somebody polls: an eager packet from somebody who is known needs no more than to be
 * shown. @len: of the frame; where it is known when this is compiled, as it is of most packets, half of the
 * questions are. Return: it was one.
 */
static inline __attribute__((always_inline)) bool eager_show(struct hfi_ctxt *c, struct hfi_dst *dst,
							     const uint8_t *frame, uint32_t len)
{
	struct hfi_pkt pkt; /* unused segments are not worth the zeroing */
	struct hfi_hdr h;
	uint32_t head;

	memcpy(&h, frame, HFI_HDR_CUT);
	atomic_signal_fence(memory_order_seq_cst); /* a peer may write there: it is read once */
	head = len == HFI_HDR_CUT ? HFI_HDR_CUT : hfi_hdr_len(&h);
	len -= head; /* what is shorter than that wraps, and is too long for the door */
	if (unlikely(!hfi_door_is_eager(&dst->door, &h, head, len)))
		return false;
	h.w[1] = le64_put(0);
	if (head == sizeof(h))
		memcpy(&h.w[1], frame + HFI_HDR_CUT, sizeof(h.w[1]));
	pkt.src = dst;
	pkt.hdr = &h;
	pkt.data.len = len;
	pkt.data.seg_cnt = 0;
	if (len) {
		pkt.data.seg_cnt = 1;
		pkt.data.seg[0].p = frame + head;
		pkt.data.seg[0].len = len;
	}
	pkt.type = HFI_RCV_EAGER;
	pkt.is_service = false;
	c->stats.rcv_eager++; /* before it is, which leaves nothing to be remembered meanwhile */
	c->stats.rcv_bytes += len;
	c->on_pkt(c->ctx, &pkt);
	return true;
}

/* The other rows. Return: HFI_DOOR_PASS, and @pkt->src has a reference more, since a stranger has none; why not. */
static __attribute__((noinline)) enum hfi_drop any_open(struct hfi_ctxt *c, struct link_peer *peer,
							const uint8_t *frame, uint32_t len, struct hfi_hdr *h,
							struct hfi_pkt *pkt)
{
	enum hfi_drop why;

	if (len < HFI_HDR_CUT)
		return HFI_DROP_SHORT;
	memcpy(h, frame, MIN((size_t)len, sizeof(*h)));
	if (len < hfi_hdr_len(h))
		return HFI_DROP_SHORT;
	if (h->bth1 & HFI_BTH_CUT)
		h->w[1] = le64_put(0);
	*pkt = (struct hfi_pkt){
		.src = hfi_dst_of(c, peer), .hdr = h, .data = view_of(frame, len), .is_service = !c->is_polling};
	if (!pkt->src)
		return HFI_DROP_SLID;
	view_skip(&pkt->data, hfi_hdr_len(h));
	why = hfi_door_check(&pkt->src->door, h, pkt->data.len, &pkt->type);
	pkt->src->refs++;
	if (why != HFI_DOOR_PASS)
		hfi_dst_unref(pkt->src);
	return why;
}

/* Shown or parked; the caller's reference stays while the provider gives back its own. */
static __attribute__((noinline)) void take(struct hfi_ctxt *c, const struct hfi_pkt *pkt)
{
	bool is_local = link_peer_is_local(pkt->src->peer), is_taken = true;

	if (!is_local && !hfi_port_is_up(c->hfi)) {
		drop(c, HFI_DROP_PORT_DOWN);
		return;
	}
	/* the end of who was there before must be told first */
	if (pkt->src->is_gone_parked)
		is_taken = false;
	else if (pkt->is_service)
		is_taken = c->attr.on_service(c->ctx, pkt);
	else
		c->on_pkt(c->ctx, pkt);
	if (!is_taken && !park_pkt(c, pkt, is_local))
		return;
	c->stats.rcv_eager += pkt->type == HFI_RCV_EAGER;
	c->stats.rcv_expected += pkt->type == HFI_RCV_EXPECTED;
	c->stats.rcv_bytes += pkt->data.len;
}

/* link_ops.on_frame: the door. */
int hfi_rx_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	struct hfi_dst *dst = link_peer_user(peer);
	struct hfi_ctxt *c = ctx;
	struct hfi_pkt pkt;
	struct hfi_hdr h;
	enum hfi_drop why;

	if (likely(dst && len >= HFI_HDR_CUT && c->is_polling && !c->may_be_down) &&
	    (likely(len == HFI_HDR_CUT) ? eager_show(c, dst, frame, HFI_HDR_CUT) : eager_show(c, dst, frame, len)))
		return 0;
	if (unlikely(c->is_closing))
		return 0;
	why = any_open(c, peer, frame, len, &h, &pkt);
	if (unlikely(why != HFI_DOOR_PASS))
		return drop(c, why);
	take(c, &pkt);
	hfi_dst_unref(pkt.src);
	return 0;
}

void hfi_rx_gone(void *ctx, struct link_peer *peer, int status)
{
	struct hfi_dst *dst = link_peer_user(peer);
	struct hfi_ctxt *c = ctx;
	struct hfi_parked *e;

	if (!dst || c->is_closing)
		return;
	hfi_sdma_gone(c, dst, status);
	if (!c->attr.on_gone)
		return;
	e = dst->parked_cnt && !c->is_polling ? mem_alloc(sizeof(*e)) : NULL;
	if (e) { /* after what it has sent */
		e->dst = dst;
		e->gone = status;
		dst->is_gone_parked = true;
		park(c, e);
		return;
	}
	dst->refs++;
	c->attr.on_gone(c->ctx, dst, status);
	hfi_dst_unref(dst);
}
