// SPDX-License-Identifier: BSD-2-Clause
// The life of a one-sided operation: its queue and timer, its method, its end.
//
// Theory of operation: an operation gets a method (struct bulk_method), has turns until all is moved, and ends. It may
// change its method once it sees that another is better. FRAMES asks the target's owner to take part: it works over
// every path (bulk_frames.c). CMA lets the kernel copy, alone, under a lease on the region (bulk_cma.c, bulk_tab.c);
// HELPED is the same by initiator and owner at once, each a part (bulk_help.c). A local owner that computes instead of
// polling is noticed before (it says so in its segment) or by its silence, and CMA does the rest. Which is fastest to a
// polling owner depends on how far apart the cores are and on much else, hence it is measured (bulk_pick.c). Kernel
// copies end in the order in which they began; long ones and frames take turns.
//
// Every operation ends exactly once, in bulk_poll(), after the link has given back each frame that points into user
// memory, and its method has let go of it.
#include "link/bulk/bulk_int.h"

#include <errno.h>

#define PING_NS NS_PER_SEC /* silence after which the link is asked whether the peer lives */

int bulk_frame(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
	       const void *data, size_t len, void *cookie)
{
	uint8_t hdr[BULK_HDR_MAX];
	struct iovec iov = {(void *)(uintptr_t)data, len};
	size_t hdr_len = bulk_pkt_encode(pkt, hdr);

	return b->port->up->out(b->port, peer, LINK_K_BULK, hdr, hdr_len, &iov, len ? 1 : 0, cookie);
}

/* --- queues and timers ------------------------------------------------------------------------ */

/* By a number, since it has room in a peer where a pointer would not. */
static void ahead_first_set(struct bulk_port *b, struct link_peer *peer, const struct bulk_op *op)
{
	peer->ahead = op ? slab_id(&b->ops, op) + 1 : 0;
}

static void ahead_leave(struct bulk_port *b, const struct bulk_op *op)
{
	struct bulk_op *before = bulk_ahead_first(b, op->peer);

	if (before == op) {
		ahead_first_set(b, op->peer, op->ahead_next);
		return;
	}
	while (before->ahead_next != op)
		before = before->ahead_next;
	before->ahead_next = op->ahead_next;
}

struct bulk_op *bulk_ahead_first(struct bulk_port *b, const struct link_peer *peer)
{
	return peer->ahead ? slab_find(&b->ops, peer->ahead - 1) : NULL;
}

void bulk_queue_leave(struct bulk_port *b, struct bulk_op *op)
{
	if (op->queue == BULK_Q_ACTIVE)
		TAILQ_REMOVE(&b->active, op, entry);
	else if (op->queue == BULK_Q_AHEAD)
		ahead_leave(b, op);
	else if (op->queue == BULK_Q_ENDED)
		TAILQ_REMOVE(&b->ended, op, entry);
	op->queue = BULK_Q_NONE;
}

void bulk_queue_active(struct bulk_port *b, struct bulk_op *op)
{
	bulk_queue_leave(b, op);
	TAILQ_INSERT_TAIL(&b->active, op, entry);
	op->queue = BULK_Q_ACTIVE;
}

void bulk_queue_ahead(struct bulk_port *b, struct bulk_op *op)
{
	bulk_queue_leave(b, op);
	op->ahead_next = bulk_ahead_first(b, op->peer);
	ahead_first_set(b, op->peer, op);
	op->queue = BULK_Q_AHEAD;
}

void bulk_queue_ended(struct bulk_port *b, struct bulk_op *op)
{
	bulk_queue_leave(b, op);
	TAILQ_INSERT_TAIL(&b->ended, op, entry);
	op->queue = BULK_Q_ENDED;
}

void bulk_timer_set(struct bulk_port *b, struct bulk_op *op, uint64_t at_ns)
{
	if (op->timer.pos) {
		pq_update(&b->timers, &op->timer, at_ns);
		return;
	}
	op->timer.key_ns = at_ns;
	must(!pq_push(&b->timers, &op->timer)); /* link_bulk() has reserved the room */
}

/* --- from its beginning to its end --------------------------------------------------------------- */

struct bulk_op *bulk_op_new(struct bulk_port *b, struct link_peer *peer, uint64_t now_ns)
{
	struct bulk_op *op;

	if (pq_reserve(&b->timers, slab_used(&b->ops) + 1) || !(op = slab_get(&b->ops)))
		return NULL;
	*op = (struct bulk_op){.ref = BULK_REF_OP, .peer = bulk_peer_ref(peer)};
	bulk_begun(b);
	bulk_tag_renew(b, op);
	op->target = bulk_target_get(b->node, peer, now_ns);
	if (op->target)
		op->target->op_cnt++;
	return op;
}

void bulk_op_free(struct bulk_port *b, struct bulk_op *op)
{
	struct link_peer *peer = op->peer;

	if (op->target)
		op->target->op_cnt--;
	slab_put(&b->ops, op);
	link_peer_put(peer);
}

/* The kernel does not copy @op any more because its owner was silent. */
static void left_end(struct bulk_op *op)
{
	if (op->is_left)
		op->target->left_cnt--;
	op->is_left = false;
}

void bulk_op_begin(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	left_end(op);
	op->state = BULK_RUNS;
	op->how = b->methods[bulk_pick(b, op, now_ns)];
	op->copy_end = op->len;
	op->has_rest = op->wants_help = false;
	bulk_queue_active(b, op);
	op->how->start(b, op, now_ns);
}

/* @op is not moved by its method any more: what follows begins when that has let go of its memory. */
void bulk_op_leave(struct bulk_port *b, struct bulk_op *op)
{
	if (op->how->stop && !op->how->stop(b, op))
		bulk_timer_set(b, op, bulk_now(b) + BULK_SWITCH_NS);
	else if (op->state == BULK_CHANGES)
		bulk_op_begin(b, op, bulk_now(b));
	else if (!op->unsent_cnt)
		bulk_queue_ended(b, op);
}

void bulk_tag_renew(struct bulk_port *b, struct bulk_op *op)
{
	op->tag = ++b->next_tag;
}

void bulk_op_end(struct bulk_port *b, struct bulk_op *op, int status)
{
	struct link_stats *st = &b->port->stats;
	/* a PUT that has sent frames before ends by their answer */
	bool is_copied = op->how == b->methods[BULK_CMA] && op->copied_ns && !op->sent;

	if (op->state == BULK_ENDED)
		return;
	op->state = BULK_ENDED;
	op->status = status;
	bulk_tag_renew(b, op);
	pq_remove(&b->timers, &op->timer);
	bulk_queue_leave(b, op);
	if (op->counts_busy) /* reading the clock costs more than most of this */
		bulk_busy_leave(op, !status, is_copied ? op->copied_ns : bulk_now(b));
	left_end(op);
	if (op->target)
		op->target->op_cnt--;
	b->help_cnt -= op->is_help;
	if (!status && op->op == LINK_GET)
		st->bulk_get_bytes += op->len;
	else if (!status && op->is_help)
		b->node->get_served += op->len;
	else if (!status)
		st->bulk_put_bytes += op->len;
	bulk_op_leave(b, op);
	op->target = NULL;
}

/* --- waiting, and another way ------------------------------------------------------------------ */

/* Soon enough that the link can find the peer dead within its time. */
uint64_t bulk_ping_ns(const struct bulk_port *b)
{
	return MIN(PING_NS, MAX(b->n->room->dead_after_ns / 4, NS_PER_MS));
}

void bulk_timer_arm(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	op->has_news = false;
	bulk_timer_set(b, op, now_ns + (bulk_can_cma(b, op) ? BULK_SWITCH_NS : bulk_ping_ns(b)));
}

void bulk_op_wait(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	bulk_queue_leave(b, op);
	bulk_timer_arm(b, op, now_ns);
}

void bulk_op_resume(struct bulk_port *b, struct bulk_op *op)
{
	if (op->pos < op->len && op->queue == BULK_Q_NONE)
		bulk_queue_active(b, op);
}

/* Of many operations each waits for its turn with the owner: that is not silence. */
bool bulk_op_is_heard(const struct bulk_port *b, const struct bulk_op *op)
{
	return op->has_news || (op->target && bulk_now(b) - op->target->heard_ns < BULK_SWITCH_NS);
}

/* Answers to a PUT count whatever has moved it since; what else was asked for is not wanted any more. */
int bulk_op_again(struct bulk_port *b, struct bulk_op *op)
{
	if (op->is_help) /* the peer that asked does it by itself */
		return -EACCES;
	if (op->op == LINK_GET)
		bulk_tag_renew(b, op);
	bulk_busy_leave(op, false, bulk_now(b));
	bulk_queue_leave(b, op);
	op->state = BULK_CHANGES;
	bulk_op_leave(b, op);
	return -EAGAIN;
}

/* If what a peer wrote into shared memory led here, that costs it its pair, and nobody else anything. */
int bulk_op_astray(struct bulk_port *b, struct bulk_op *op)
{
	LOG_WARN("one-sided operation of state %d had a turn; its peer is dropped", op->state);
	bulk_queue_leave(b, op);
	if (op->state == BULK_ENDED && !op->unsent_cnt)
		bulk_queue_ended(b, op);
	if (!op->peer->dead)
		op->peer->port->up->dead(op->peer, -EPROTO);
	return -EPROTO;
}
