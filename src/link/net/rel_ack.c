// SPDX-License-Identifier: BSD-2-Clause
// What acknowledgements do to frames in flight: ends, round trips, the window, losses.
#include "link/core/link_int.h"

#include "link/net/rel_int.h"

uint64_t rel_pto_ns(const struct rel_peer *rp)
{
	uint64_t ns = rp->srtt_ns ? MAX(2ull * rp->srtt_ns + 100 * NS_PER_US, REL_PTO_MIN_NS)
				  : REL_HELLO_NS;

	if (rp->probes)
		ns <<= 1 + MIN(rp->probes, 16);
	return MIN(ns, rp->is_sure ? REL_PTO_MAX_NS : rel_hello_max_ns(rp->r));
}

/*
 * @ns: from transmission to acknowledgement, at least 1; @delay_ns of it the peer says it kept the acknowledgement
 * back, or did not look at its socket meanwhile. Return: what the network has taken of it, as far as can be told.
 */
static uint64_t rtt_sample(struct rel_peer *rp, uint64_t ns, uint64_t delay_ns, uint64_t now_ns)
{
	uint32_t rtt = (uint32_t)MIN(ns, (uint64_t)UINT32_MAX / 2);
	uint64_t kept = delay_ns + rel_away_ns(rp->r, now_ns), sample;
	bool is_first = !rp->rtt_min_ns;

	/* the shortest one is forgotten after a while: routes change */
	if (is_first || rtt <= rp->rtt_min_ns ||
	    now_ns - rp->win->rtt_min_at_ns > 10 * NS_PER_SEC) {
		rp->rtt_min_ns = rtt;
		rp->win->rtt_min_at_ns = now_ns;
	}
	sample = rtt > rp->rtt_min_ns + kept ? rtt - kept : rp->rtt_min_ns;
	/*
	 * The delay is counted from the pass that brought the datagram, which may have begun long before it came. Where
	 * the peer computes meanwhile, the next answer takes as long, and what waits for it has to know.
	 */
	if (delay_ns < REL_AWAY_NS && rtt > rp->rtt_min_ns + delay_ns)
		rtt -= (uint32_t)delay_ns;
	/* before the first sample it was a guess from the handshake */
	rp->srtt_ns = is_first ? rtt : rp->srtt_ns - rp->srtt_ns / 8 + rtt / 8;
	return sample;
}

/*
 * Delay alone shrinks the window: a round trip far above the shortest means that a queue stands somewhere. What lies in
 * the socket of a program that computes does not count, it is bounded by the credit.
 */
static void cwnd_update(struct rel_peer *rp, uint64_t sample_ns, uint32_t bytes, uint64_t now_ns)
{
	uint64_t target = 3ull * rp->rtt_min_ns + 50 * NS_PER_US;

	if (!sample_ns || sample_ns <= target) {
		rp->cwnd = MIN(rp->cwnd + bytes, REL_CWND_MAX);
	} else if (now_ns - rp->win->cut_ns > rp->srtt_ns) {
		uint32_t cut = (uint32_t)(rp->cwnd / 2 * (sample_ns - target) / sample_ns);

		rp->cwnd = MAX(rp->cwnd - cut, rel_cwnd_min(rp));
		rp->win->cut_ns = now_ns;
	}
}

/* Append the frames that end with a final slot to the list that ends at *done_end. */
static void slot_final(struct rel_slot *s, struct rel_frame ***done_end)
{
	struct rel_frame *f = s->frame, *next;

	for (uint32_t i = 0; i < s->frame_cnt; i++, f = next) {
		next = f->next;
		if (--f->segs_left)
			continue;
		f->next = NULL;
		**done_end = f;
		*done_end = &f->next;
	}
}

struct ack_sum {
	uint64_t sample_ns; /* 0 = none */
	uint32_t bytes, cnt;
};

static void slot_ack(struct rel_peer *rp, struct rel_slot *s, const struct rel_pkt *pkt,
		     uint64_t now_ns, struct ack_sum *sum)
{
	if (s->state == SLOT_SACKED)
		return;
	if (s->state == SLOT_FLIGHT && s->tx == pkt->echo)
		sum->sample_ns = MAX(now_ns - s->sent_ns, NS_PER_US);
	sum->bytes += rel_slot_cost(s);
	sum->cnt++;
	rel_slot_arrived(rp, s);
}

void rel_find_lost(struct rel_peer *rp, uint64_t now_ns)
{
	struct rel_win *w = rp->win;
	uint64_t age = rp->srtt_ns + rp->srtt_ns / 4;

	if (!w)
		return;
	w->loss_ns = CLK_NEVER;
	while (rp->has_echo_tx && w->fl_head != REL_NIL) {
		struct rel_slot *s = &w->slot[w->fl_head];

		if ((int16_t)(rp->echo_tx - s->tx) < REL_REORDER)
			return;
		if (s->sent_ns + age > now_ns) {
			w->loss_ns = s->sent_ns + age;
			return;
		}
		rel_slot_lost(rp, s);
		/* what a probe has brought to light is progress, too */
		rp->r->port->stats.timeouts += rp->probes != 0;
		rp->pto_base_ns = now_ns;
		rp->probes = 0;
	}
}

/* Return: whether it says something new. */
static bool echo_take(struct rel_peer *rp, const struct rel_pkt *pkt)
{
	/* an echo ahead of what was sent cannot be, one behind is from an older datagram */
	if (rel_tx_before(rp->tx_no, pkt->echo) ||
	    (rp->has_echo_tx && !rel_tx_before(rp->echo_tx, pkt->echo)))
		return false;
	rp->echo_tx = pkt->echo;
	rp->has_echo_tx = true;
	return true;
}

bool rel_on_ack(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns)
{
	struct rel_frame *done = NULL, **done_end = &done;
	struct ack_sum sum = {0};
	bool has_news;

	if (rel_seq_before(rp->tx_seq, pkt->ack))
		return false;
	if (rel_seq_before(pkt->ack, rp->tx_una)) /* overtaken by a newer one */
		return true;
	rp->credit = MAX(pkt->credit_kib * REL_CREDIT_UNIT, REL_CREDIT_UNIT);
	if (rp->tx_una == rp->tx_seq)
		return true;
	for (; rp->tx_una != pkt->ack; rp->tx_una++) {
		struct rel_slot *s = rel_slot_at(rp->win, rp->tx_una);

		slot_ack(rp, s, pkt, now_ns, &sum);
		rp->open_bytes -= rel_slot_cost(s);
		slot_final(s, &done_end);
	}
	for (uint32_t i = 0; i <= REL_SACK_MORE; i++) {
		for (uint64_t bits = pkt->sack[i]; bits; bits &= bits - 1) {
			uint32_t seq = pkt->ack + 64 * i + (uint32_t)__builtin_ctzll(bits);

			if (rel_seq_before(seq, rp->tx_seq))
				slot_ack(rp, rel_slot_at(rp->win, seq), pkt, now_ns, &sum);
		}
	}
	if (sum.sample_ns) {
		/* one that could not be longer says of the network nothing at all */
		uint64_t delay_us = pkt->delay_us < UINT16_MAX ? pkt->delay_us : UINT32_MAX;

		sum.sample_ns = rtt_sample(rp, sum.sample_ns, delay_us * NS_PER_US, now_ns);
	}
	has_news = echo_take(rp, pkt) || done;
	if (sum.cnt) {
		cwnd_update(rp, sum.sample_ns, sum.bytes, now_ns);
		rp->pto_base_ns = now_ns;
		rp->probes = 0;
	}
	if (has_news || sum.cnt)
		rel_find_lost(rp, now_ns);
	if (rp->q_head || rp->win->lost_head != REL_NIL)
		rel_ready(rp);
	rel_frames_end(rp, done, 0);
	return true;
}
