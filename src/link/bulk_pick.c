// SPDX-License-Identifier: BSD-2-Clause
// Which method moves an operation: what is possible, and what has been faster lately.
//
// Theory of operation: to a polling owner on this host both methods work, and which one wins depends on the machine, on how far
// apart the two cores are, on the size, and on Zen 3 and 4 on the offset between the two addresses. All of that changes under
// the program (a virtual machine's cores move), so nothing is assumed: each target has a moving average of ps per byte for every
// class of operation and method. The slower method is looked at again once in a while, rarely if it is much slower.
#include "link/bulk_int.h"

#define CLASS_BASE   7	 /* log2: class 0 is below 256 bytes, then each covers a factor of 4 */
#define PROBE_EVERY  64u /* operations between two looks at the slower method ... */
#define PROBE_FAR    16u /* ... times this if it is slower by a factor of ... */
#define PROBE_RATIO  4u
#define PROBE_AT     4u
#define BUSY_BYTES   (16u << 20) /* a busy period is cut here, to learn from it */
#define AVG_WEIGHT   4u

bool bulk_can_cma(const struct bulk_port *b, const struct bulk_op *op)
{
	const struct bulk_target *t = op->target;

	return t && t->tab && !t->no_cma && !op->no_cma && b->force != BULK_FRAMES && op->peer->shm &&
	       shm_peer_cma_ok(op->peer->shm);
}

static struct bulk_speed *speed_of(const struct bulk_op *op)
{
	uint32_t log2 = 63 - (uint32_t)__builtin_clzll(op->len | 1);
	uint32_t class = log2 <= CLASS_BASE ? 0 : MIN((log2 - CLASS_BASE + 1) / 2, BULK_CLASS_NUM - 1);

	return &op->target->speed[bulk_cma_is_slow(op->op, op->local, op->raddr)][class];
}

static void learn(struct bulk_speed *s, enum bulk_method m, uint64_t ns, uint64_t bytes)
{
	uint64_t x = MAX(ns * 1000 / MAX(bytes, 1ULL), 1ULL), *avg = &s->ps_per_byte[m];

	*avg = *avg ? ((AVG_WEIGHT - 1) * *avg + x) / AVG_WEIGHT : x;
}

static enum bulk_method pick_faster(struct bulk_speed *s)
{
	uint64_t frames = s->ps_per_byte[BULK_FRAMES], cma = s->ps_per_byte[BULK_CMA];
	enum bulk_method best = frames && cma && cma < frames ? BULK_CMA : BULK_FRAMES;
	bool is_far = cma && MAX(frames, cma) / PROBE_RATIO >= MIN(frames, cma);
	uint32_t every = is_far ? PROBE_EVERY * PROBE_FAR : PROBE_EVERY;

	if (s->cnt++ % every == PROBE_AT)
		return best == BULK_CMA ? BULK_FRAMES : BULK_CMA;
	return best;
}

enum bulk_method bulk_pick(struct bulk_port *b, struct bulk_op *op)
{
	if (!bulk_can_cma(b, op))
		return BULK_FRAMES;
	if (b->force >= 0)
		return (enum bulk_method)b->force;
	if (!shm_peer_is_polling(op->peer->shm))
		return BULK_CMA;
	return pick_faster(speed_of(op));
}

/* Operations by frames overlap, so only busy periods tell their speed, and only if all of it were of one class. */
void bulk_busy_enter(struct bulk_op *op, uint64_t now_ns)
{
	struct bulk_target *t = op->target;

	if (!t || op->counts_busy)
		return;
	op->counts_busy = true;
	if (!t->frames_cnt++) {
		t->busy_ns = now_ns;
		t->busy_bytes = 0;
		t->busy_speed = speed_of(op);
	} else if (t->busy_speed != speed_of(op)) {
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
	if (!is_done || op->cma_ns)
		t->busy_speed = NULL;
	if (--t->frames_cnt && t->busy_bytes < BUSY_BYTES)
		return;
	if (t->busy_speed)
		learn(t->busy_speed, BULK_FRAMES, now_ns - t->busy_ns, t->busy_bytes);
	t->busy_ns = now_ns;
	t->busy_bytes = 0;
}

void bulk_learn_cma(const struct bulk_op *op, uint64_t ns)
{
	learn(speed_of(op), BULK_CMA, ns, op->len);
}

void bulk_learn_silence(const struct bulk_op *op)
{
	struct bulk_speed *s = speed_of(op);

	s->ps_per_byte[BULK_FRAMES] = MAX(s->ps_per_byte[BULK_FRAMES], 2 * s->ps_per_byte[BULK_CMA]);
}
