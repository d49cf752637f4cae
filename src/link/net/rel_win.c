// SPDX-License-Identifier: BSD-2-Clause
// The window that a peer has while it is in use; what has arrived in it, what of that is final, and the acknowledgement
// of it that we owe.
#include "link/core/link_int.h"

#include <errno.h>

#include "link/net/rel_int.h"

int rel_win_get(struct rel_peer *rp)
{
	struct rel_win *w;

	if (rp->win)
		return 0;
	w = mem_alloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->loss_ns = w->old_ns = CLK_NEVER;
	w->fl_head = w->fl_tail = w->lost_head = w->lost_tail = REL_NIL;
	rp->win = w;
	return 0;
}

void rel_win_free(struct rel_peer *rp)
{
	if (!rp->win)
		return;
	if (rp->win->spare)
		rel_asm_put(rp, rp->win->spare);
	mem_free(rp->win->slot);
	mem_free(rp->win);
	rp->win = NULL;
}

bool rel_is_seen(const struct rel_win *w, uint32_t seq)
{
	return w->seen[seq / 64 % ARRAY_SIZE(w->seen)] >> (seq % 64) & 1;
}

void rel_seen_flip(struct rel_win *w, uint32_t seq)
{
	w->seen[seq / 64 % ARRAY_SIZE(w->seen)] ^= 1ULL << (seq % 64);
}

/* 64 bits of @w->seen from @seq on; those beyond the window are of older numbers' places, which are
 * clear. */
static uint64_t seen_word(const struct rel_win *w, uint32_t seq)
{
	uint64_t lo = w->seen[seq / 64 % ARRAY_SIZE(w->seen)],
		 hi = w->seen[(seq / 64 + 1) % ARRAY_SIZE(w->seen)];

	return seq % 64 ? lo >> (seq % 64) | hi << (64 - seq % 64) : lo;
}

static uint16_t credit_kib(struct rel *r)
{
	uint32_t senders = MAX(MAX(r->rx_active, r->rx_active_prev), 1u);

	return (uint16_t)(MAX(REL_RCVBUF / senders, REL_CREDIT_MIN) / REL_CREDIT_UNIT);
}

void rel_ack_fill(struct rel_peer *rp, struct rel_pkt *pkt, uint64_t now_ns)
{
	uint32_t span = rp->rx_top - rp->rx_next;

	pkt->ack = rp->rx_next;
	pkt->credit_kib = credit_kib(rp->r);
	if (rp->has_echo_rx) {
		pkt->echo = rp->echo_rx;
		pkt->delay_us =
			(uint16_t)MIN((now_ns - rp->rx_echo_ns) / NS_PER_US, (uint64_t)UINT16_MAX);
	}
	for (uint32_t i = 0; rp->win && i * 64 < span; i++) {
		pkt->sack[i] = seen_word(rp->win, rp->rx_next + i * 64);
		/* the last word reaches beyond the window, into bits that stand for its beginning
		 */
		if (span - i * 64 < 64)
			pkt->sack[i] &= (1ULL << (span - i * 64)) - 1;
	}
}

void rel_ack_owe(struct rel_peer *rp, bool now, uint64_t now_ns)
{
	if (!rp->owes_ack) {
		rp->owes_ack = true;
		rp->ack_due_ns = now_ns + REL_ACK_DELAY_NS;
	}
	if (now && !rp->ack_now) {
		rp->ack_now = true;
		rel_ready(rp);
	}
}

void rel_rx_advance(struct rel_peer *rp)
{
	struct rel_win *w = rp->win;
	bool is_ordered = rp->r->port->cls == LINK_ORDERED;

	while (rp->rx_next != rp->rx_top && rel_is_seen(w, rp->rx_next) &&
	       !w->hold[rp->rx_next % REL_WINDOW] && !(is_ordered && rp->rx_next == rp->rx_proc))
		rel_seen_flip(w, rp->rx_next++);
}

void rel_unhold(struct rel_peer *rp, uint32_t seq)
{
	must(rp->win->hold[seq % REL_WINDOW]);
	rp->win->hold[seq % REL_WINDOW]--;
	rel_rx_advance(rp);
	/* the peer waits for just this; it has nothing in flight that would make us answer
	 * otherwise */
	rel_ack_owe(rp, true, 0);
}
