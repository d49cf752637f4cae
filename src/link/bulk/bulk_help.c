// SPDX-License-Identifier: BSD-2-Clause
// Help with a GET: the owner copies a part of it by the kernel, straight into the initiator's memory.
//
// Theory of operation: one kernel copy is bound by one core, and reading what another core has just written is several
// times slower than writing to where that core will read it. So the initiator makes a region of the end of its buffer
// and asks the owner to fill it (HELP), while it copies the beginning itself. Whoever was waited for gets less to do
// the next time, so the share follows what the two cores can do. The owner holds a lease on the region while it copies,
// as for any PUT by the kernel, so the initiator can take the region back at any time and do the rest alone: an owner
// that dies, sleeps or is stopped costs time, not safety. The owner notes beside the region how much is there, so that
// nothing is copied twice. The operation does not end before the region is free again.
//
// Of many operations only the foremost are helped with: the owner always has a next part to go to, and what it is too
// slow for is copied by the initiator alone.
#include "link/bulk/bulk_int.h"

#include <errno.h>

#define SHARE_UNIT 32u /* our share of an operation is a multiple of this part of it ... */
#define SHARE_FIRST 12 /* ... this many at first, and at most so many more */
#define SHARE_MORE  8
#define PART_ALIGN 4096u
#define HELP_SLOWEST 2u /* bytes per ns below which an owner counts as silent */
#define HELP_AHEAD 3 /* parts that a target is asked for at a time */
#define EARLY_NS   150u  /* an answer that comes sooner after our part had been ready before it, */
#define EARLY_MAX  1000u /* of a long part, behind which the first poll takes longer, even within this */

/* --- the initiator ---------------------------------------------------------------------------- */

/* The owner is not (any more) busy with @op. */
static void note_answer(struct bulk_op *op)
{
	if (!op->is_asked)
		return;
	op->is_asked = false;
	op->target->asked_cnt--;
	op->target->asked_bytes -= op->len - op->copy_end;
}

/* Return: whether nobody touches the region any more; @filled: as bulk_region_try_free(). */
static bool take_back(struct bulk_port *b, struct bulk_op *op, uint64_t *filled)
{
	uint64_t now = bulk_now(b);

	note_answer(op);
	bulk_region_retract(b->node, op->help_key);
	if (!bulk_region_try_free(b->node, op->help_key, filled)) {
		if (!op->recall_ns)
			op->recall_ns = now;
		bulk_region_break(b->node, op->help_key, now - op->recall_ns);
		return false;
	}
	op->help_key = 0;
	op->recall_ns = 0;
	op->unsent_cnt--;
	return true;
}

static bool help_stop(struct bulk_port *b, struct bulk_op *op)
{
	return !op->help_key || take_back(b, op, NULL);
}

/* Share @op with the owner if that is possible now. */
static void help_ask(struct bulk_port *b, struct bulk_op *op)
{
	const struct bulk_speed *s = bulk_speed_of(op);
	uint64_t left = op->len - op->pos;
	uint64_t own = left * (uint32_t)(SHARE_FIRST + s->own_more) / SHARE_UNIT;
	struct bulk_pkt pkt = bulk_pkt_of(b, op, BULK_T_HELP);

	own = op->pos + ALIGN_DOWN(own, (uint64_t)PART_ALIGN);
	pkt.key = op->key;
	pkt.addr = op->raddr + own;
	pkt.len = op->len - own;
	pkt.dst = (uintptr_t)op->local + own;
	op->wants_help = false;
	if (op->help_key || link_port_region_add(b->port, op->local + own, pkt.len, LINK_PUT, &op->help_key))
		return;
	op->unsent_cnt++;
	op->copy_end = own;
	op->is_helped = false;
	op->is_asked = true;
	op->target->asked_cnt++;
	op->target->asked_bytes += pkt.len;
	pkt.dst_key = op->help_key;
	if (!bulk_frame(b, op->peer, &pkt, NULL, 0, NULL))
		return;
	help_stop(b, op);
	op->copy_end = op->len;
}

/* Have the owner busy with @op, whose turn it is, and what follows it. */
static void help_ahead(struct bulk_port *b, struct bulk_op *op)
{
	struct bulk_target *t = op->target;
	struct bulk_op *next;

	for (int i = 0; op && i < HELP_AHEAD && t->asked_cnt < HELP_AHEAD; i++, op = next) {
		next = TAILQ_NEXT(op, entry);
		if (!op->wants_help || op->target != t)
			continue;
		help_ask(b, op);
		if (op->queue != BULK_Q_ACTIVE) /* asking found the peer dead */
			return;
	}
}

static void help_start(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	bulk_busy_enter(op, now_ns);
	op->wants_help = true;
	if (!op->target->asked_cnt)
		help_ask(b, op);
}

/*
 * Both parts are copied: who was waited for? In between nothing is changed, because each move of the
 * border takes lines from one cache to another.
 */
static void help_balance(struct bulk_op *op, uint64_t now_ns)
{
	struct bulk_speed *s = bulk_speed_of(op);
	uint64_t unit_ns = op->cma_ns * (op->len / SHARE_UNIT) / MAX(op->copy_end, 1ULL);
	uint64_t wait_ns = op->ready_ns ? now_ns - op->ready_ns : 0;
	uint64_t early_ns = MIN(MAX(unit_ns, (uint64_t)EARLY_NS), (uint64_t)EARLY_MAX);

	if (wait_ns < early_ns && s->own_more > -SHARE_FIRST)
		s->own_more--;
	else if (wait_ns > early_ns + 2 * unit_ns && s->own_more < SHARE_MORE)
		s->own_more++;
}

/* Where our part ends, go on where the owner's copy ends, if it has given up. */
static void help_resume(struct bulk_op *op)
{
	if (!op->has_rest || op->pos != op->copy_end)
		return;
	op->has_rest = false;
	op->pos = op->rest;
	op->copy_end = op->len;
}

/*
 * The owner is silent, or cannot: what it has not copied is ours. Not a byte more: whoever watches the memory may have
 * seen what it has copied, and have put something else there. So if it is at it, it is waited for.
 */
static void help_failed(struct bulk_port *b, struct bulk_op *op)
{
	uint64_t filled;

	bulk_tag_renew(b, op); /* its answer may still come */
	if (!take_back(b, op, &filled)) {
		if (op->queue == BULK_Q_NONE)
			bulk_timer_set(b, op, bulk_now(b) + BULK_SWITCH_NS);
		return;
	}
	filled = MIN(filled, op->len - op->copy_end);
	b->port->stats.bulk_cma_bytes += filled;
	op->rest = op->copy_end + filled;
	op->has_rest = true;
	help_resume(op);
	if (op->queue == BULK_Q_NONE)
		bulk_queue_active(b, op);
}

/* A copy of our part; how long all of them take is half of what the next share depends on. */
static int64_t own_move(struct bulk_port *b, struct bulk_op *op, uint64_t len)
{
	uint64_t start_ns = bulk_now(b);
	int64_t n = bulk_cma_move(b, op, len);

	if (n >= 0)
		op->cma_ns += op->copied_ns - start_ns;
	return n;
}

/* The turn of our part; where it ends it is the end of all, unless the owner is still at its own. */
static int64_t help_turn(struct bulk_port *b, struct bulk_op *op, uint64_t len)
{
	int64_t rc = 0;

	if (op->wants_help)
		help_ahead(b, op);
	if (op->state == BULK_ENDED)
		return 0;
	if (!op->help_key || op->pos < op->copy_end)
		rc = own_move(b, op, len);
	if (rc < 0)
		return rc;
	help_resume(op);
	if (op->pos < op->copy_end)
		return rc;
	if (op->help_key && !op->is_helped) {
		op->ready_ns = bulk_now(b);
		bulk_queue_leave(b, op);
		bulk_timer_set(b, op, op->ready_ns + BULK_SWITCH_NS + op->target->asked_bytes / HELP_SLOWEST);
	} else {
		bulk_op_end(b, op, 0);
	}
	return rc;
}

static bool help_give_up(struct bulk_port *b, struct bulk_op *op)
{
	if (!op->help_key)
		return false;
	if (op->is_asked)
		bulk_learn_silence(op, bulk_now(b));
	help_failed(b, op);
	return true;
}

static bool help_reply(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt, const struct view *frame)
{
	if (pkt->type != BULK_T_REPLY || !op->help_key || op->is_helped)
		return false;
	if (pkt->status != BULK_S_OK || pkt->bytes != op->len - op->copy_end) {
		help_failed(b, op);
		return true;
	}
	b->port->stats.bulk_cma_bytes += pkt->bytes;
	help_balance(op, bulk_now(b));
	op->is_helped = true;
	if (b->done_cnt < ARRAY_SIZE(b->done_key)) {
		/*
		 * The owner had let go before it answered, so that taking the region back can wait for the next poll.
		 */
		note_answer(op);
		b->done_key[b->done_cnt++] = op->help_key;
		bulk_begun(b);
		op->help_key = 0;
		op->unsent_cnt--;
	} else {
		help_stop(b, op);
	}
	if (op->pos == op->copy_end)
		bulk_op_end(b, op, 0);
	return true;
}

const struct bulk_method bulk_help_method = {
	.start = help_start,
	.turn = help_turn,
	.reply = help_reply,
	.give_up = help_give_up,
	.stop = help_stop,
	.keep_len = BULK_KEEP_LEN,
};

void bulk_help_take_back(struct bulk_port *b, struct bulk_op *op)
{
	if (op->help_key)
		bulk_region_wait_free(b->node, op->help_key);
	op->help_key = 0;
}

void bulk_help_fini(struct bulk_port *b)
{
	bulk_help_tidy(b);
	while (b->done_cnt)
		bulk_region_wait_free(b->node, b->done_key[--b->done_cnt]);
}

void bulk_help_tidy(struct bulk_port *b)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < b->done_cnt; i++) {
		bulk_region_retract(b->node, b->done_key[i]);
		if (!bulk_region_try_free(b->node, b->done_key[i], NULL))
			b->done_key[kept++] = b->done_key[i];
	}
	b->done_cnt = kept;
}

/* --- the owner -------------------------------------------------------------------------------- */

void bulk_help_on_request(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_op *op = NULL;

	if (bulk_region_check(b->port, pkt->key, LINK_GET, pkt->addr, pkt->len)) {
		bulk_serve_answer(b, peer, pkt, BULK_S_ACCESS, 0);
		return;
	}
	if (pkt->len && b->help_cnt < BULK_HELP_MAX && !b->port->closing && !peer->dead)
		op = bulk_op_new(b, peer, bulk_now(b));
	if (!op || !bulk_can_cma(b, op)) {
		if (op)
			bulk_op_free(b, op);
		bulk_serve_answer(b, peer, pkt, BULK_S_BUSY, 0);
		return;
	}
	op->op = LINK_PUT;
	op->way = BULK_CMA;
	op->how = b->methods[BULK_CMA];
	op->local = (uint8_t *)(uintptr_t)pkt->addr;
	op->len = op->copy_end = pkt->len;
	op->raddr = pkt->dst;
	op->key = pkt->dst_key;
	op->is_help = true;
	op->src_key = pkt->key;
	op->peer_id = pkt->id;
	op->peer_tag = pkt->tag;
	b->help_cnt++;
	bulk_queue_active(b, op);
}

void bulk_help_answer(struct bulk_port *b, const struct bulk_op *op)
{
	struct bulk_pkt pkt = {.id = op->peer_id, .tag = op->peer_tag};

	bulk_serve_answer(b, op->peer, &pkt, op->status ? BULK_S_BUSY : BULK_S_OK, op->status ? 0 : op->len);
}

struct gone_arg {
	struct bulk_port *b;
	uint32_t key;
};

static void help_end_if(void *obj, void *arg)
{
	struct gone_arg *a = arg;
	struct bulk_op *op = obj;

	if (op->is_help && (!a->key || op->src_key == a->key))
		bulk_op_end(a->b, op, -EACCES);
}

void bulk_help_region_gone(struct bulk_port *b, uint32_t key)
{
	struct gone_arg arg = {.b = b, .key = key};

	if (b->help_cnt)
		slab_foreach(&b->ops, help_end_if, &arg);
}
