// SPDX-License-Identifier: BSD-2-Clause
// Packets in: the door, delivery in order and once, and what waits for its turn.
#include "prov/opx/flow/opx_flow.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "prov/opx/flow/opx_flow_int.h"

#define NACK_AGAIN 8 /* packets kept, between NACKs of the first gap */

static inline void deliver(struct opx_rel *rel, struct opx_flow *f, const struct hfi_hdr *h, const struct view *data,
			   enum hfi_rcv_type type)
{
	f->heard = true;
	f->rx_psn = psn_add(f->rx_psn, 1);
	f->rx_next = f->rx_next == OPX_PSN_NONE ? OPX_PSN_NONE : f->rx_psn;
	rel->st.rx_pkts++;
	rel->a.ops->deliver(f, h, data, type);
}

/* --- packets before their turn ------------------------------------------------------------------------------------ */

static void ahead_free(struct opx_flow *f, struct opx_replay *r)
{
	f->ahead_cnt--;
	opx_flow_rx_look(f);
	f->rel->ahead--;
	opx_replay_free(f->rel, r);
}

void opx_flow_ahead_drop(struct opx_flow *f)
{
	struct opx_replay *r;

	while ((r = STAILQ_FIRST(&f->ahead))) {
		STAILQ_REMOVE_HEAD(&f->ahead, next);
		ahead_free(f, r);
	}
}

bool opx_flow_ahead_is_due(const struct opx_flow *f)
{
	const struct opx_replay *r = STAILQ_FIRST(&f->ahead);

	return r && r->psn == f->rx_psn && !f->is_full;
}

void opx_flow_ahead_take(struct opx_flow *f)
{
	while (opx_flow_ahead_is_due(f)) {
		struct opx_replay *r = STAILQ_FIRST(&f->ahead);
		struct view data = view_of(opx_replay_buf(r), r->len);

		if (r->type == HFI_RCV_EXPECTED)
			data.seg_cnt = 0; /* its bytes are where they belong */
		STAILQ_REMOVE_HEAD(&f->ahead, next);
		f->rx_wrapped |= r->psn == HFI_PSN_MASK;
		deliver(f->rel, f, &r->hdr, &data, (enum hfi_rcv_type)r->type);
		ahead_free(f, r);
	}
	opx_ud_ack(f, 0);
}

static bool place(struct opx_flow *f, const struct hfi_pkt *pkt)
{
	const struct opx_rel_ops *ops = f->rel->a.ops;

	return pkt->type != HFI_RCV_EXPECTED || !ops->place || ops->place(f->rel->a.ctx, f, pkt);
}

static struct opx_replay *ahead_copy(struct opx_flow *f, const struct hfi_pkt *pkt, uint32_t psn)
{
	bool is_placed = pkt->type == HFI_RCV_EXPECTED;
	struct opx_rel *rel = f->rel;
	struct opx_replay *r;

	if (f->ahead_cnt + rel->ahead >= OPX_RX_KEPT)
		return NULL;
	r = opx_replay_new(rel, is_placed ? 0 : pkt->data.len, false);
	if (!r)
		return NULL;
	if (!place(f, pkt)) {
		opx_replay_free(rel, r);
		return NULL;
	}
	r->hdr = *pkt->hdr;
	r->psn = psn;
	r->len = pkt->data.len;
	r->type = (uint8_t)pkt->type;
	if (!is_placed)
		view_copy(&pkt->data, 0, opx_replay_buf(r), r->len);
	return r;
}

/* A packet @off behind the next one. */
static void rx_ahead(struct opx_flow *f, const struct hfi_pkt *pkt, uint32_t psn, int32_t off)
{
	struct opx_replay *last = STAILQ_LAST(&f->ahead, opx_replay, next), *prev = NULL, *r;
	uint32_t gap = last ? psn_add(last->psn, 1) : f->rx_psn;

	if (off >= (int32_t)OPX_RX_AHEAD) {
		f->rel->st.ahead_drops++;
		return;
	}
	if (last && psn_diff(psn, last->psn) > 0) {
		prev = last;
	} else {
		STAILQ_FOREACH(r, &f->ahead, next)
		{
			if (psn_diff(r->psn, psn) >= 0)
				break;
			prev = r;
		}
		if (r && r->psn == psn) {
			f->rel->st.dups++;
			opx_ud_ack_range(f, psn, 1, 0);
			return;
		}
	}
	r = ahead_copy(f, pkt, psn);
	if (!r) {
		f->rel->st.ahead_drops++;
		return;
	}
	if (prev)
		STAILQ_INSERT_AFTER(&f->ahead, prev, r, next);
	else
		STAILQ_INSERT_HEAD(&f->ahead, r, next);
	f->ahead_cnt++;
	opx_flow_rx_look(f);
	f->rel->ahead++;
	f->rel->st.ahead++;
	if (pkt->hdr->ecn & OPX_ACK_REQ)
		opx_ud_answer(f, f->rx_psn, (uint32_t)off + 1, 0, OPX_ANSWERS_FEW);
	else if (prev == last && gap != psn)
		opx_ud_nack(f, gap, (psn - gap) & HFI_PSN_MASK, 0, OPX_ANSWERS);
	else if (f->ahead_cnt % NACK_AGAIN == 0) /* it may have been lost; told twice it does no harm */
		opx_ud_nack(f, f->rx_psn, (STAILQ_FIRST(&f->ahead)->psn - f->rx_psn) & HFI_PSN_MASK, 0, 1);
}

/* --- packets before their stream ---------------------------------------------------------------------------------- */

/*
 * A flow cannot end while SDMA reads what belongs to it, and the first packets of its peer's next stream may already
 * come. A peer on another host would send them again; one on this host keeps no copy, whichever way our own packets
 * take to it. So they wait for the end of the flow.
 */
void opx_flow_hold(struct opx_flow *f, const struct hfi_pkt *pkt)
{
	struct opx_rel *rel = f->rel;
	struct opx_replay *r = NULL;

	if (pkt->type == HFI_RCV_EXPECTED) { /* for entries of the old stream: the new one has been given none */
		rel->st.ahead_drops++;
		return;
	}
	if (rel->ahead < OPX_RX_KEPT)
		r = opx_replay_new(rel, pkt->data.len, false);
	if (!r) { /* a stream with a hole must not begin */
		rel->st.ahead_drops++;
		f->rx_key_next = f->tx_key_next = 0;
		opx_ud_resynch(rel, f->dst, le64_get(pkt->hdr->key));
		return;
	}
	r->hdr = *pkt->hdr;
	view_copy(&pkt->data, 0, opx_replay_buf(r), r->len);
	STAILQ_INSERT_TAIL(&f->held, r, next);
	rel->ahead++;
	rel->st.ahead++;
}

static void held_free(struct opx_flow *f, struct opx_replay *r)
{
	f->rel->ahead--;
	opx_replay_free(f->rel, r);
}

void opx_flow_held_take(struct opx_flow *f)
{
	struct opx_replay_q q = STAILQ_HEAD_INITIALIZER(q);
	struct opx_replay *r;

	STAILQ_CONCAT(&q, &f->held);
	while ((r = STAILQ_FIRST(&q))) {
		struct hfi_pkt pkt = {.src = f->dst, .hdr = &r->hdr, .data = view_of(opx_replay_buf(r), r->len),
				      .type = HFI_RCV_EAGER};

		STAILQ_REMOVE_HEAD(&q, next);
		opx_rel_rx(f->rel, &pkt);
		held_free(f, r);
	}
}

void opx_flow_held_drop(struct opx_flow *f)
{
	struct opx_replay *r;

	while ((r = STAILQ_FIRST(&f->held))) {
		STAILQ_REMOVE_HEAD(&f->held, next);
		held_free(f, r);
	}
}

/* --- too much ------------------------------------------------------------------------------------ */

void opx_flow_full(struct opx_flow *f, bool is_full)
{
	f->is_full = is_full;
	opx_flow_rx_look(f);
	f->overrun = 0;
	if (is_full)
		return;
	f->owes_ack = true; /* not here: what is taken may be why we are called */
	opx_flow_attend(f);
}

/* Of a full one: may this packet, whose turn it is, be taken? */
static bool may_take(struct opx_flow *f, const struct hfi_hdr *h)
{
	struct opx_rel *rel = f->rel;

	if (hfi_dst_is_local(f->dst) && ++f->overrun <= 2 * OPX_WINDOW_LOCAL)
		return true;
	rel->st.full_drops++;
	if (hfi_dst_is_local(f->dst))
		opx_flow_doom(f, OPX_ST_NOMEM);
	else if (h->ecn & OPX_ACK_REQ)
		opx_ud_ack(f, 0);
	return false;
}

void opx_flow_unkept(struct opx_flow *f)
{
	f->rx_psn = psn_add(f->rx_psn, HFI_PSN_MASK);
	opx_flow_rx_look(f);
	f->rel->st.rx_pkts--;
	f->rel->st.unkept++;
	LOG_FEW(LOG_LVL_WARN, f->rel->unkept_said, "no memory for a message from LID %u: %s", hfi_dst_lid(f->dst),
		hfi_dst_is_local(f->dst) ? "it is lost, which its sender is told" : "it has to come again");
	if (hfi_dst_is_local(f->dst) && !opx_ud_nack(f, f->rx_psn, 1, 0, 1))
		opx_flow_doom(f, OPX_ST_NOMEM); /* it cannot be told so; it hears of that */
}

/* --- the door ----------------------------------------------------------------------------------------------------- */

/*
 * Who asks is answered as his request says. Who does not ask has room for more: after a short packet the answer may
 * wait, after a long one, of which his window holds few, it leaves at once.
 */
static void ack_due(struct opx_flow *f, uint8_t ecn, uint32_t len)
{
	if (ecn & OPX_ACK_REQ ? ecn & OPX_ACK_LATE : len <= OPX_COPY_SMALL)
		opx_ud_ack_late(f);
	else
		opx_ud_ack(f, 0);
}

/* Is an acknowledgement due once a packet with @ecn, which is the next in order, has been delivered? */
static inline bool is_ack_due(const struct opx_flow *f, uint8_t ecn)
{
	return (ecn & OPX_ACK_REQ) || !(psn_add(f->rx_psn, 1) & f->ack_mask);
}

static __attribute__((noinline)) void take_and_ack(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	f->rx_wrapped |= hfi_hdr_psn(pkt->hdr) == HFI_PSN_MASK;
	deliver(rel, f, pkt->hdr, &pkt->data, pkt->type);
	ack_due(f, pkt->hdr->ecn, pkt->data.len);
}

/*
 * The next packet in order, with nothing behind it that came before. Delivering it is the last that is done for most.
 */
static inline void take_next(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	if (unlikely(is_ack_due(f, pkt->hdr->ecn)))
		take_and_ack(rel, f, pkt);
	else
		deliver(rel, f, pkt->hdr, &pkt->data, pkt->type);
}

static __attribute__((noinline)) void rx_not_next(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	const struct hfi_hdr *h = pkt->hdr;
	uint64_t key = le64_get(h->key);
	uint32_t psn = hfi_hdr_psn(h);
	int32_t off;

	if (!f || !opx_flow_knows(f, key)) {
		rel->st.bad_key++;
		if (key)
			opx_ud_resynch(rel, pkt->src, key);
		return;
	}
	if (key != f->rx_key && !opx_flow_begin_rx(f, key)) {
		opx_flow_hold(f, pkt);
		return;
	}
	f->heard = true;
	off = psn_diff(psn, f->rx_psn);
	if (off < 0) {
		rel->st.dups++;
		opx_ud_ack(f, 0);
	} else if (off > 0) {
		rx_ahead(f, pkt, psn, off);
	} else if ((!f->is_full || may_take(f, h)) && place(f, pkt)) {
		f->rx_wrapped |= psn == HFI_PSN_MASK;
		if (!f->ahead_cnt) {
			take_next(rel, f, pkt);
			return;
		}
		deliver(rel, f, h, &pkt->data, pkt->type);
		opx_flow_ahead_take(f);
	}
}

/* The next packet of its stream, with nothing in its way? Without a stream no PSN is the next one. */
static inline bool is_next(const struct opx_flow *f, const struct hfi_hdr *h)
{
	if (unlikely(!f || hfi_hdr_psn(h) != f->rx_next))
		return false;
	assert(f->rx_key && f->rx_next == f->rx_psn && !f->ahead_cnt && !f->is_full);
	return likely(le64_get(h->key) == f->rx_key);
}

static bool rx_any(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	const struct hfi_hdr *h = pkt->hdr;

	if (unlikely(opx_pkt_check(h, pkt->data.len)))
		rel->st.malformed++;
	else if (unlikely(h->opcode == OPX_UD))
		return opx_ud_rx(rel, f, pkt);
	else if (likely(is_next(f, h) && pkt->type == HFI_RCV_EAGER))
		take_next(rel, f, pkt);
	else
		rx_not_next(rel, f, pkt);
	return true;
}

/* All but a message in one packet whose turn it is. It may end the flow, which gives back its reference to pkt->src. */
static __attribute__((noinline)) bool rx_rest(struct opx_rel *rel, const struct hfi_pkt *pkt)
{
	bool is_taken;

	hfi_dst_hold(pkt->src);
	is_taken = rx_any(rel, hfi_dst_user(pkt->src), pkt);
	hfi_dst_put(pkt->src);
	return is_taken;
}

void opx_rel_rx(struct opx_rel *rel, const struct hfi_pkt *pkt)
{
	struct opx_flow *f = hfi_dst_user(pkt->src);

	if (likely(opx_pkt_is_whole(pkt->hdr, pkt->data.len) && is_next(f, pkt->hdr)))
		take_next(rel, f, pkt);
	else
		rx_rest(rel, pkt);
}

bool opx_rel_service(struct opx_rel *rel, const struct hfi_pkt *pkt)
{
	return pkt->hdr->opcode == OPX_UD && rx_rest(rel, pkt);
}
