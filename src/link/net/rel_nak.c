// SPDX-License-Identifier: BSD-2-Clause
// Refusals of frames, both ways.
//
// Theory of operation: a refusal is owed from the moment in which the owner says so until the peer has confirmed it,
// and as long the DATA that completed the frame is not final. Refusals are numbered, and travel in datagrams of their
// own (REL_NAK) beside the DATA: they are taken in the order of their numbers, and the next ACK says up to which number
// that has come. What is not confirmed goes again, from the oldest on.
//
// They need nothing of the receiver, neither a place in a window, nor credit, nor a share of anything, and an ACK needs
// none either: hence each refusal is confirmed some time, whatever else is stuck, and its room and the DATA that it
// holds are free. All else follows from this: the oldest DATA that is not final has arrived, then it becomes final as
// soon as its refusals are confirmed; or it has not, then it is sent again, and is taken once as many refusals are
// confirmed as the pair's own share is short of (REL_RECS_MAX frames fit into an empty one). (Tried: refusals as
// records of DATA. Two sides whose windows were full of refused frames had no number left for a refusal, about one
// random world in 500, and where room was short, each dropped the other's refusals for the frames that came with them.
// Numbers kept free for refusals do not help: as long as older frames wait for a refusal from the other side, each such
// DATA keeps its number after it has arrived.)
#include "link/core/link_int.h"

#include "link/net/rel_int.h"

#define NAKS_FLIGHT 1024u /* refusals on their way at a time */

/* --- ours ------------------------------------------------------------------------------------- */

void rel_nak_owe(struct rel_peer *rp, uint32_t seq, uint32_t frame, int code)
{
	struct rel_owed *o = slab_get(&rp->r->naks);

	must(o); /* reserved before the DATA counted as arrived, and nobody else takes of these */
	rel_quota_add(rp, REL_Q_NAK, 1);
	*o = (struct rel_owed){.seq = seq, .frame = frame, .code = (uint8_t)MIN(code, LINK_NAK_MAX)};
	if (rp->nak_head)
		rp->nak_tail->next = o;
	else
		rp->nak_head = o;
	rp->nak_tail = o;
	rp->nak_end++;
	if (!rp->nak_next)
		rp->nak_next = o;
	rp->win->hold[seq % REL_WINDOW]++;
	rp->r->port->stats.naks_tx++;
	rel_ready(rp);
}

/* One datagram from rp->nak_next on. Return: 0; -EAGAIN. */
static int naks_send(struct rel_peer *rp, uint64_t now_ns)
{
	uint32_t room = (rp->mtu - (uint32_t)sizeof(struct rel_base)) / sizeof(struct rel_nak), cnt = 0;
	struct rel_nak nak[REL_NAKS_MAX];
	struct rel_owed *o;
	int rc;

	for (o = rp->nak_next; o && cnt < MIN(room, (uint32_t)REL_NAKS_MAX); o = o->next)
		nak[cnt++] = (struct rel_nak){.seq = le32_put(o->seq), .frame = le32_put(o->frame), .code = o->code};
	rc = rel_send_naks(rp, rp->nak_tx, nak, cnt, now_ns);
	if (rc)
		return rc;
	if (rp->nak_tx == rp->nak_una)
		rp->nak_ns = now_ns;
	rp->nak_tx += cnt;
	rp->nak_next = o;
	return 0;
}

bool rel_nak_flush(struct rel_peer *rp, uint64_t now_ns)
{
	while (rp->nak_next && rp->nak_tx - rp->nak_una < NAKS_FLIGHT) {
		if (naks_send(rp, now_ns))
			return false;
	}
	return true;
}

uint64_t rel_nak_due_ns(const struct rel_peer *rp)
{
	return rp->nak_tx == rp->nak_una ? CLK_NEVER : rp->nak_ns + rel_pto_ns(rp);
}

/* Whatever is on its way goes again. */
static void naks_again(struct rel_peer *rp)
{
	rp->nak_next = rp->nak_head;
	rp->nak_tx = rp->nak_una;
	rel_ready(rp);
}

void rel_nak_timer(struct rel_peer *rp, uint64_t now_ns)
{
	if (rel_nak_due_ns(rp) > now_ns)
		return;
	if (rp->tx_una == rp->tx_seq) /* else the probes for DATA count the silence */
		rp->probes += rp->probes < UINT8_MAX;
	naks_again(rp);
}

static void nak_done(struct rel_peer *rp)
{
	struct rel_owed *o = rp->nak_head;
	uint32_t seq = o->seq;

	if (rp->nak_next == o) { /* it was about to go again */
		rp->nak_next = o->next;
		rp->nak_tx++;
	}
	rp->nak_head = o->next;
	rp->nak_una++;
	rel_quota_put(rp, REL_Q_NAK, 1);
	slab_put(&rp->r->naks, o);
	rel_unhold(rp, seq);
}

void rel_nak_confirmed(struct rel_peer *rp, uint32_t next, uint64_t now_ns)
{
	uint32_t cnt = next - rp->nak_una;

	if (!rp->nak_head || cnt > rp->nak_end - rp->nak_una) /* overtaken by a newer one */
		return;
	if (!cnt) { /* what is on its way has been lost, if there was time enough for a round trip */
		if (rp->nak_tx != rp->nak_una && rp->srtt_ns && rp->nak_ns + rp->srtt_ns + rp->srtt_ns / 4 <= now_ns)
			naks_again(rp);
		return;
	}
	while (cnt--)
		nak_done(rp);
	rp->nak_ns = rp->pto_base_ns = now_ns;
	rp->probes = 0;
	if (rp->nak_next)
		rel_ready(rp);
}

void rel_nak_reset(struct rel_peer *rp)
{
	struct rel_owed *o;

	while ((o = rp->nak_head)) {
		rp->nak_head = o->next;
		rel_quota_put(rp, REL_Q_NAK, 1);
		slab_put(&rp->r->naks, o);
	}
	rp->nak_next = NULL;
	rp->nak_una = rp->nak_tx = rp->nak_end;
	rp->has_naks = false;
}

/* --- the peer's ------------------------------------------------------------------------------- */

static struct rel_frame *slot_find(const struct rel_slot *s, uint32_t id)
{
	struct rel_frame *f = s->frame;

	for (uint32_t i = 0; i < s->frame_cnt; i++, f = f->next) {
		if (f->id == id)
			return f;
	}
	return NULL;
}

static void nak_take(struct rel_peer *rp, const struct rel_nak *nak)
{
	struct link_stats *st = &rp->r->port->stats;
	uint32_t seq = le32_get(nak->seq);
	struct rel_frame *f;

	if (!nak->code || seq - rp->tx_una >= rp->tx_seq - rp->tx_una ||
	    !(f = slot_find(rel_slot_at(rp->win, seq), le32_get(nak->frame))) || f->is_done ||
	    f->first_seq + f->seg_cnt - rp->tx_una > rp->tx_seq - rp->tx_una) {
		st->drop_malformed++;
		return;
	}
	st->naks_rx++;
	/* all of it arrived, whether or not the acknowledgement did: its memory goes back to the owner now */
	for (seq = f->first_seq; seq != f->first_seq + f->seg_cnt; seq++) {
		if (!rel_seq_before(seq, rp->tx_una))
			rel_slot_arrived(rp, rel_slot_at(rp->win, seq));
	}
	rel_frame_end(rp, f, nak->code);
}

void rel_on_naks(struct rel_peer *rp, const struct rel_pkt *pkt)
{
	struct wire_rd rd = wire_rd(pkt->recs, pkt->recs_len);
	uint32_t known = rp->nak_rx - pkt->seq;
	uint64_t pair = rp->pair;
	struct rel_nak nak;

	rp->has_naks = true;
	rel_ready(rp);
	if (rel_seq_before(rp->nak_rx, pkt->seq)) /* one is missing */
		return;
	while (WIRE_GET(&rd, &nak)) {
		if (known) {
			known--;
			continue;
		}
		rp->nak_rx++;
		nak_take(rp, &nak);
		if (!rp->peer || rp->pair != pair)
			return;
	}
}
