// SPDX-License-Identifier: BSD-2-Clause
// Which method moves an operation: what is possible, and what has been faster lately.
//
// Theory of operation: to a polling owner on this host every method works: frames through shared
// memory, a kernel copy by the initiator, or one by both sides at once. Which one wins depends on
// the machine, on how far apart the two cores are, on the size, on whether the source has just been
// written, and on Zen 3 and 4 on the offset between the two addresses. All of that changes under
// the program (a virtual machine's cores move), so nothing is assumed: each target has a moving
// average of ps per byte for every class of operation and method. The slower methods are looked at
// again once in a while, rarely if they are much slower. Operations overlap and then share the
// cores, so a choice holds, and is judged, for a whole busy period.
#include "link/bulk_int.h"

#define CLASS_BASE  7	/* log2: class 0 is below 256 bytes, then each covers a factor of 4 */
#define PROBE_EVERY 16u	  /* choices between two looks at a slower method; if it is slower ... */
#define PROBE_SLOW  64u	  /* ... by half */
#define PROBE_FAR   1024u /* ... to a quarter */
#define PROBE_AT    4u
#define BUSY_BYTES  (16u << 20) /* a busy period is cut here, to learn from it */
#define FIRST_LOOKS  8u /* at each method, before one is preferred */
#define HELP_MIN     8192u /* bytes */
#define AVG_WEIGHT  4u

bool bulk_can_cma(const struct bulk_port *b, const struct bulk_op *op)
{
	const struct bulk_target *t = op->target;

	return t && t->tab && !t->no_cma && !op->no_cma && b->force != BULK_FRAMES &&
	       op->peer->shm && shm_peer_cma_ok(op->peer->shm);
}

bool link_bulk_is_direct(const struct link_peer *peer)
{
	return peer->shm && shm_peer_cma_ok(peer->shm);
}

struct bulk_speed *bulk_speed_of(const struct bulk_op *op)
{
	uint32_t log2 = 63 - (uint32_t)__builtin_clzll(op->len | 1);
	uint32_t class =
		log2 <= CLASS_BASE ? 0 : MIN((log2 - CLASS_BASE + 1) / 2, BULK_CLASS_NUM - 1);

	return &op->target->speed[bulk_cma_is_slow(op->op, op->local, op->raddr)][class];
}

static void learn(struct bulk_speed *s, enum bulk_method m, uint64_t ns, uint64_t bytes)
{
	uint64_t x = MAX(ns * 1000 / MAX(bytes, 1ULL), 1ULL), *avg = &s->ps_per_byte[m];

	if (!*avg || x < *avg) /* what disturbs makes slower, not faster */
		*avg = (*avg + x) / (*avg ? 2 : 1);
	else
		*avg = ((AVG_WEIGHT - 1) * *avg + x) / AVG_WEIGHT;
}

/* @cnt: of methods in question; the one that has been fastest, or one to be looked at again. */
static enum bulk_method pick_faster(struct bulk_speed *s, unsigned cnt)
{
	const uint64_t *ps = s->ps_per_byte;
	unsigned best = BULK_FRAMES, turn = s->cnt++, other;
	uint32_t every = PROBE_EVERY;

	if (turn < FIRST_LOOKS * cnt)
		return (enum bulk_method)(turn % cnt);
	for (unsigned m = 0; m < cnt; m++) {
		if (ps[m] && (!ps[best] || ps[m] < ps[best]))
			best = m;
	}
	/* the losers in turn, however rare their turns are */
	other = turn / PROBE_EVERY + turn / PROBE_SLOW + turn / PROBE_FAR;
	other = (best + 1 + other % (cnt - 1)) % cnt;
	if (ps[other] / 4 >= ps[best])
		every = PROBE_FAR;
	else if (ps[other] * 2 >= ps[best] * 3)
		every = PROBE_SLOW;
	return (enum bulk_method)(turn % every == PROBE_AT ? other : best);
}

/* The owner's kernel copy, too, has to be worth its two messages. */
static bool can_help(const struct bulk_op *op)
{
	return op->op == LINK_GET && !op->is_help && !op->help_key && op->len - op->pos >= HELP_MIN;
}

/* Operations that overlap share the two cores: only a period of one method tells how fast that is. */
static bool is_in_period(const struct bulk_op *op)
{
	const struct bulk_target *t = op->target;

	return t->busy_cnt && !t->is_busy_cut && t->busy_speed == bulk_speed_of(op) &&
	       (t->busy_method != BULK_HELPED || can_help(op));
}

enum bulk_method bulk_pick(struct bulk_port *b, struct bulk_op *op)
{
	if (!bulk_can_cma(b, op))
		return BULK_FRAMES;
	if (b->force >= 0)
		return b->force == BULK_HELPED && !can_help(op) ? BULK_CMA
								: (enum bulk_method)b->force;
	if (!shm_peer_is_polling(op->peer->shm))
		return BULK_CMA;
	if (is_in_period(op))
		return op->target->busy_method;
	op->target->is_busy_cut = false;
	return pick_faster(bulk_speed_of(op), can_help(op) ? BULK_METHOD_NUM : BULK_HELPED);
}

/* Operations by frames overlap, so only busy periods tell their speed, and only if all of it were
 * of one class. */
void bulk_busy_enter(struct bulk_op *op, uint64_t now_ns)
{
	struct bulk_target *t = op->target;

	if (!t || op->counts_busy)
		return;
	op->counts_busy = true;
	if (!t->busy_cnt++) {
		t->busy_ns = now_ns;
		t->busy_bytes = 0;
		t->busy_speed = bulk_speed_of(op);
		t->busy_method = op->method;
	} else if (t->busy_speed != bulk_speed_of(op) || t->busy_method != op->method) {
		t->busy_speed = NULL;
	}
}

void bulk_busy_leave(struct bulk_op *op, bool is_done, uint64_t now_ns)
{
	struct bulk_target *t = op->target;

	if (!op->counts_busy)
		return;
	op->counts_busy = false;
	t->busy_bytes += MAX(op->len, 1ULL);
	if (!is_done || (op->method == BULK_FRAMES && op->cma_ns))
		t->busy_speed = NULL;
	if (--t->busy_cnt && t->busy_bytes < BUSY_BYTES)
		return;
	if (t->busy_speed)
		learn(t->busy_speed, t->busy_method, now_ns - t->busy_ns, t->busy_bytes);
	t->busy_ns = now_ns;
	t->busy_bytes = 0;
	t->is_busy_cut = true;
}

void bulk_learn_silence(const struct bulk_op *op)
{
	struct bulk_speed *s = bulk_speed_of(op);

	s->ps_per_byte[op->method] =
		MAX(s->ps_per_byte[op->method], 2 * s->ps_per_byte[BULK_CMA]);
}
