// SPDX-License-Identifier: BSD-2-Clause
// When a peer needs a look without anything having come, and what is done then: silence is asked, or is the end; what
// was lost goes again; what is owed is due; what is idle is given back.
#include "link/core/link_int.h"

#include <errno.h>

#include "link/net/rel_int.h"

/* --- when --- */

static uint64_t hello_wait_ns(const struct rel_peer *rp)
{
	uint64_t max = rp->state == REL_S_HELLO ? rel_hello_max_ns(rp->r) : REL_PTO_MAX_NS;

	return MIN(REL_HELLO_NS << MIN(rp->probes, 10), max);
}

/* When silence becomes death; CLK_NEVER: not soon. */
static uint64_t dead_ns(const struct rel_peer *rp)
{
	uint64_t after = rp->r->port->node->room->dead_after_ns;
	uint64_t from = rp->has_heard ? MAX(rp->heard_ns, rp->since_ns) : rp->since_ns;

	if (after == CLK_NEVER || !rel_busy(rp) || rp->probes < REL_PROBES_DEAD)
		return CLK_NEVER;
	return from + after;
}

/*
 * When a peer is dead that owes us the rest of what it began to send: alive, it would repeat it.
 * CLK_NEVER: it owes nothing. Nothing of ours probes it, so a few looks at our own input stand in
 * for probes, in case it was us who slept.
 */
static uint64_t stuck_ns(const struct rel_peer *rp)
{
	uint64_t after = rp->r->port->node->room->dead_after_ns;

	if (after == CLK_NEVER || rel_busy(rp) || rel_rx_idle(rp))
		return CLK_NEVER;
	return rp->heard_ns + after + rp->probes * REL_PTO_MAX_NS;
}

/*
 * When a peer has to answer for something that it began and never ends, though it is heard: alive and honest, it would
 * have repeated what is missing. A few looks, as above. CLK_NEVER: there is nothing.
 */
static uint64_t old_ns(struct rel_peer *rp)
{
	uint64_t after = rp->r->port->node->room->dead_after_ns, old = rp->win ? rel_rx_old_ns(rp, false) : CLK_NEVER;

	if (after == CLK_NEVER || old == CLK_NEVER)
		return CLK_NEVER;
	return old + after + rp->win->old_looks * REL_PTO_MAX_NS;
}

/* Return: false: it did not, and is no peer any more. */
static bool old_check(struct rel_peer *rp, uint64_t now_ns)
{
	char text[LINK_ADDR_TEXT];

	if (old_ns(rp) > now_ns)
		return true;
	rp->win->old_ns = rel_rx_old_ns(rp, true);
	if (old_ns(rp) > now_ns)
		rp->win->old_looks = 0;
	else if (rp->win->old_looks++ >= REL_PROBES_DEAD) {
		LOG_WARN("%s goes on sending, but does not finish what it began: dropped",
			 link_addr_text(&rp->peer->addr, text));
		rel_peer_kill(rp, -ETIMEDOUT);
		return false;
	}
	return true;
}

static uint64_t probe_ns(const struct rel_peer *rp)
{
	const struct rel_win *w = rp->win;
	uint64_t base = rp->pto_base_ns;

	if (!w || rp->tx_una == rp->tx_seq)
		return CLK_NEVER;
	if (w->fl_head != REL_NIL)
		base = MAX(base, w->slot[w->fl_head].sent_ns);
	return base + rel_pto_ns(rp);
}

static uint64_t idle_ns(const struct rel_peer *rp)
{
	return rp->win && !rel_busy(rp) && rel_rx_idle(rp) ? rp->used_ns + REL_IDLE_NS : CLK_NEVER;
}

static uint64_t next_ns(struct rel_peer *rp)
{
	uint64_t at = idle_ns(rp);

	if (rp->r->port->cls == LINK_RAW)
		return rp->win ? rp->used_ns + REL_RAW_ASM_NS : CLK_NEVER;
	if (rp->state == REL_S_HELLO || rp->state == REL_S_BYE)
		return MIN(rp->hello_ns + hello_wait_ns(rp), dead_ns(rp));
	if (rp->state != REL_S_OPEN)
		return at;
	at = MIN(MIN(at, stuck_ns(rp)), MIN(probe_ns(rp), MIN(dead_ns(rp), old_ns(rp))));
	at = MIN(at, rel_nak_due_ns(rp));
	if (rp->owes_ack && !rp->ack_now)
		at = MIN(at, rp->ack_due_ns);
	return rp->win ? MIN(at, rp->win->loss_ns) : at;
}

void rel_timer_update(struct rel_peer *rp, uint64_t now_ns)
{
	struct pq *q = &rp->r->timers;
	uint64_t at = next_ns(rp);

	(void)now_ns;
	if (at == CLK_NEVER) {
		pq_remove(q, &rp->timer);
	} else if (!rp->timer.pos) {
		rp->timer.key_ns = at;
		must(!pq_push(q, &rp->timer)); /* reserved in rel_peer_new() */
	} else if (at != rp->timer.key_ns) {
		pq_update(q, &rp->timer, at);
	}
}

/* --- what --- */

static void on_hello_timer(struct rel_peer *rp, uint64_t now_ns)
{
	if (rp->hello_ns + hello_wait_ns(rp) > now_ns)
		return;
	if (rp->state == REL_S_BYE && rp->probes >= REL_BYE_TRIES) {
		rel_set_state(rp, REL_S_CLOSED);
		return;
	}
	rp->probes += rp->probes < UINT8_MAX;
	rp->hello_ns = now_ns;
	if (rp->state == REL_S_HELLO)
		rel_hello_again(rp, now_ns);
	else
		rel_control(rp, REL_BYE, now_ns);
}

static void on_timer(struct rel_peer *rp, uint64_t now_ns)
{
	if (rp->r->port->cls == LINK_RAW) {
		rel_raw_expire(rp, now_ns);
		if (rel_rx_idle(rp))
			rel_win_free(rp);
		return;
	}
	if (dead_ns(rp) <= now_ns) {
		rel_peer_kill(rp, rp->has_heard ? -ETIMEDOUT : -EHOSTUNREACH);
		return;
	}
	if (idle_ns(rp) <= now_ns)
		rel_win_free(rp);
	if (rp->state == REL_S_HELLO || rp->state == REL_S_BYE) {
		on_hello_timer(rp, now_ns);
		return;
	}
	if (rp->state != REL_S_OPEN)
		return;
	if (stuck_ns(rp) <= now_ns && rp->probes++ >= REL_PROBES_DEAD) {
		rel_peer_kill(rp, -ETIMEDOUT);
		return;
	}
	if (!old_check(rp, now_ns))
		return;
	if (rp->win && rp->win->loss_ns <= now_ns)
		rel_find_lost(rp, now_ns);
	if (probe_ns(rp) <= now_ns) {
		if (!rp->is_sure)
			rel_hello_again(rp, now_ns);
		rel_probe(rp, now_ns);
	}
	rel_nak_timer(rp, now_ns);
	if (rp->owes_ack && !rp->ack_now && rp->ack_due_ns <= now_ns) {
		rp->ack_now = true;
		rel_ready(rp);
	}
}

void rel_timers_run(struct rel *r, uint64_t now_ns)
{
	struct pq_node *node;

	rel_strangers_expire(r, now_ns);
	while ((node = pq_peek(&r->timers)) && node->key_ns <= now_ns) {
		struct rel_peer *rp = container_of(node, struct rel_peer, timer);

		rel_peer_pin(rp);
		on_timer(rp, now_ns);
		if (rel_peer_unpin(rp))
			rel_timer_update(rp, now_ns);
	}
}
