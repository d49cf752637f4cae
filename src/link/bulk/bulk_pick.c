// SPDX-License-Identifier: BSD-2-Clause
// Which method moves an operation: what is possible, and what has been faster lately.
//
// Theory of operation: to a polling owner on this host every method works: frames through shared memory, a kernel copy
// by the initiator, or one by both sides at once. Which one wins depends on the machine, on how far apart the two cores
// are, on the size, on whether the source has just been written, on how many operations overlap, and on Zen 3 and 4 on
// the offset between the two addresses. All of that changes under the program (a virtual machine's cores move), so
// nothing is assumed: each target has a moving average of ps per byte for every class of operation and method.
//
// The others are looked at again once in a while: for a few operations in a row, because the first one after a change
// finds the lines in the wrong cache and is not counted; and ever more rarely while nothing changes. Operations that
// overlap share the cores, so they are judged together, by the bytes that have come in a period: from the first one
// until none is left, or for PERIOD_BYTES. It may begin and end in the middle of operations, and what comes by another
// method begins it anew. Where operations overlap a choice holds for PERIOD_BYTES, too, since caches take more than a
// burst to get warm. It is judged by all that follows from it: where the owner is not always there, because it posts a
// row of sends before it polls again, what the kernel does in its place is part of what that costs.
#include "link/bulk/bulk_int.h"

#define SMALL_MAX    1024u /* bytes: of so short ones nothing is measured */
#define CLASS_BASE   7	   /* log2: class 0 is below 256 bytes, then each covers a factor of 4 */
#define FIRST_LOOKS  2u	   /* at each method, before one is preferred; where operations overlap one is enough, ... */
#define LOOK_LEN     4u	   /* choices of one look; ... and so is one choice, which some periods follow */
#define GAP_MIN	     32u   /* choices between two looks at a method, doubled each time ... */
#define GAP_SLOW     128u  /* ... from here if it is slower by a quarter ... */
#define GAP_FAR	     1024u /* ... or by half: so that looking costs 3 % at most */
#define GAP_MAX	     4096u
#define GAP_MANY     8u    /* where operations overlap all of these are so much less, since a choice holds for long */
#define PERIOD_BYTES (16u << 20)
#define HELD_OP	     4096u /* each operation counts for so many bytes more, so that a choice of short ones ends, too */
#define PERIOD_MANY  3u	   /* operations at once, from which on they count as overlapping */
#define PERIOD_LONE  4u	   /* periods without that in a row, from which on they count as single ones */
#define PART	     4096u /* what an owner helps with begins at a multiple of it */
#define HELP_MIN     8192u /* bytes */
#define SILENCE_NS   (200 * NS_PER_US) /* for which an owner that did not help is left alone */

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

/*
 * Offsets at which `rep movsb`, hence the kernel, may be many times slower
 * (doc/facts/machine.md#rep-movsb).
 */
static bool is_slow(int op, const void *local, uint64_t raddr)
{
	uint64_t l = (uintptr_t)local, diff = op == LINK_GET ? l - raddr : raddr - l;

	diff %= 4096;
	return diff >= 1 && diff <= 15;
}

static struct bulk_class *class_of(const struct bulk_op *op)
{
	uint32_t log2 = 63 - (uint32_t)__builtin_clzll(op->len | 1);
	uint32_t class = log2 <= CLASS_BASE ? 0 : MIN((log2 - CLASS_BASE + 1) / 2, BULK_CLASS_NUM - 1);

	return &op->target->class[is_slow(op->op, op->local, op->raddr)][class];
}

struct bulk_speed *bulk_speed_of(const struct bulk_op *op)
{
	return &class_of(op)->speed[op->target->is_many];
}

static void learn(struct bulk_speed *s, enum bulk_way m, uint64_t ns, uint64_t bytes)
{
	uint64_t x = MAX(ns * 1000 / MAX(bytes, 1ULL), 1ULL), *avg = &s->ps_per_byte[m];

	/* Disturbances make a sample slower, never faster, and sometimes by much: so slow samples count less. */
	if (!*avg)
		*avg = x;
	else if (x < *avg)
		*avg = (*avg + 3 * x) / 4;
	else
		*avg += MIN((x - *avg) / 4, *avg / 8);
}

static uint32_t gap_after(const struct bulk_speed *s, unsigned m, unsigned best, uint32_t look_len)
{
	uint32_t gap = GAP_MIN, less = look_len < LOOK_LEN ? GAP_MANY : 1;
	const uint64_t *ps = s->ps_per_byte;

	if (ps[m] / 2 >= ps[best])
		gap = GAP_FAR;
	else if (ps[m] * 4 >= ps[best] * 5)
		gap = GAP_SLOW;
	return MIN(MAX(gap / less, 2 * s->gap[m]), GAP_MAX / less);
}

/* The fastest; the last winner unless another one is clearly better, for each change costs. */
static unsigned best_of(const struct bulk_speed *s, unsigned cnt)
{
	const uint64_t *ps = s->ps_per_byte;
	unsigned best = BULK_FRAMES;

	for (unsigned m = 0; m < cnt; m++) {
		if (ps[m] && (!ps[best] || ps[m] < ps[best]))
			best = m;
	}
	if (s->best < cnt && ps[s->best] && ps[s->best] - ps[s->best] / 8 <= ps[best])
		best = s->best;
	return best;
}

/* When to look at the losers, if there is another winner or the same one has become much slower. */
static void note_best(struct bulk_speed *s, unsigned best, uint32_t look_len)
{
	uint64_t ps = s->ps_per_byte[best];
	bool is_slower = best == s->best && ps / 2 > s->best_ps;

	if (best == s->best && s->best_ps && !is_slower) {
		s->best_ps = MIN(s->best_ps, ps);
		return;
	}
	for (unsigned m = 0; m < BULK_WAY_NUM; m++) {
		if (is_slower) /* conditions have changed: look soon */
			s->gap[m] = 0;
		s->look_at[m] = s->cnt + gap_after(s, m, best, look_len);
	}
	s->best = (enum bulk_way)best;
	s->best_ps = ps;
}

/* @cnt: of methods in question; the one that has been fastest, or one to be looked at again. */
static enum bulk_way pick_faster(struct bulk_speed *s, unsigned cnt, uint32_t look_len)
{
	unsigned best, turn = s->cnt++;
	uint32_t first = look_len < LOOK_LEN ? 1 : FIRST_LOOKS * LOOK_LEN;

	if (turn < first * cnt)
		return (enum bulk_way)(turn / look_len % cnt);
	if (s->look_left && s->look_way < cnt) {
		s->look_left--;
		return s->look_way;
	}
	best = best_of(s, cnt);
	note_best(s, best, look_len);
	for (unsigned m = 0; m < cnt; m++) {
		if (m == best || (int32_t)(turn - s->look_at[m]) < 0)
			continue;
		s->gap[m] = gap_after(s, m, best, look_len);
		s->look_at[m] = turn + s->gap[m];
		s->look_way = (enum bulk_way)m;
		s->look_left = look_len - 1;
		return s->look_way;
	}
	return (enum bulk_way)best;
}

/* The owner's kernel copy, too, has to be worth its two messages. */
static bool can_help(const struct bulk_op *op)
{
	return op->op == LINK_GET && !op->is_help && !op->help_key && op->len - op->pos >= HELP_MIN;
}

static bool is_in_period(const struct bulk_op *op)
{
	const struct bulk_target *t = op->target;

	return !t->period.is_over && t->period.class == class_of(op) &&
	       (t->period.way != BULK_HELPED || can_help(op));
}

/* Is there no use in waiting for the owner now? To look costs a cache line of its. */
static bool is_away(const struct bulk_op *op, uint64_t now_ns)
{
	return now_ns < op->target->silent_ns || !shm_peer_is_polling(op->peer->shm);
}

/* @m, just picked, was not possible: the next choice is the same. */
static void put_off(struct bulk_speed *s, enum bulk_way m)
{
	s->cnt--;
	s->look_left += s->best_ps && m != s->best && m == s->look_way;
}

/* What moves @op, whose choice is known. */
static enum bulk_way way_now(const struct bulk_op *op, uint64_t now_ns)
{
	return op->way != BULK_CMA && is_away(op, now_ns) ? BULK_CMA : op->way;
}

enum bulk_way bulk_pick(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	struct bulk_target *t = op->target;

	op->way = BULK_FRAMES;
	if (!bulk_can_cma(b, op))
		return op->way;
	if (b->force >= 0)
		return op->way = b->force == BULK_HELPED && !can_help(op) ? BULK_CMA : (enum bulk_way)b->force;
	/* no system call is as fast as an owner who looks anyhow */
	if (op->len <= SMALL_MAX && !is_away(op, now_ns))
		return op->way;
	/* a choice is judged by all that follows from it, so also by what the kernel did in place of a silent owner */
	if (is_in_period(op)) {
		op->way = t->period.way;
		return way_now(op, now_ns);
	}
	op->way = pick_faster(bulk_speed_of(op), can_help(op) ? BULK_WAY_NUM : BULK_HELPED, t->is_many ? 1 : LOOK_LEN);
	if (way_now(op, now_ns) != op->way) {
		put_off(bulk_speed_of(op), op->way);
		op->way = BULK_CMA;
	}
	return op->way;
}

/* Only what comes from now on is measured. */
static void period_restart(struct bulk_period *d, uint64_t now_ns)
{
	d->begin_ns = now_ns;
	d->bytes = 0;
	d->is_whole = false;
}

static bool is_measured(const struct bulk_period *d, const struct bulk_op *op)
{
	return d->class == class_of(op) && d->way == op->way;
}

void bulk_busy_enter(struct bulk_op *op, uint64_t now_ns)
{
	struct bulk_target *t = op->target;
	struct bulk_period *d;

	if (!t || op->counts_busy)
		return;
	d = &t->period;
	op->counts_busy = true;
	d->is_over |= !is_measured(d, op);
	if (d->is_over)
		d->held = 0;
	if (d->is_over || !d->op_cnt) {
		period_restart(d, now_ns);
		d->is_whole = !d->op_cnt;
	}
	d->class = class_of(op);
	d->way = op->way;
	d->is_over = false;
	d->peak = MAX(d->peak, ++d->op_cnt);
}

/* What it says about its method. */
static void period_end(struct bulk_target *t, uint64_t now_ns)
{
	struct bulk_period *d = &t->period;
	bool is_many = d->peak >= PERIOD_MANY;
	struct bulk_speed *s = &d->class->speed[is_many];

	/* the first operation of a burst often ends before the second begins: a few such ones do not end a stream */
	t->lone_cnt = is_many ? 0 : t->lone_cnt + 1;
	t->is_many = is_many || (t->is_many && t->lone_cnt < PERIOD_LONE);
	/* what is left of one that was cut is too little to say anything */
	if (d->is_whole || d->bytes >= PERIOD_BYTES / 2) {
		/* the first by another method than the last had to move the lines to another cache first */
		if (s->last_way == d->way || is_many || !s->ps_per_byte[d->way])
			learn(s, d->way, now_ns - d->begin_ns, d->bytes);
		s->last_way = d->way;
	}
	period_restart(d, now_ns);
	d->is_over = !t->is_many || d->held >= PERIOD_BYTES;
	d->peak = d->op_cnt;
}

/* Bytes of @op that are there. Of a helped one both parts are taken to grow alike, else they would come in lumps. */
static uint64_t done_of(const struct bulk_op *op)
{
	uint64_t done = op->op == LINK_GET ? op->pos + op->got : op->pos - (op->sent - op->got);

	return op->copy_end < op->len ? done / PART * op->len / MAX(op->copy_end / PART, 1ULL) : done;
}

/* @done bytes of @op are there. What another method or class than the period's is still at says nothing of it. */
static void period_count(struct bulk_op *op, uint64_t done, uint64_t now_ns)
{
	struct bulk_period *d = &op->target->period;
	uint64_t more = done > op->counted ? MIN(done, op->len) - op->counted : 0;

	op->counted += more;
	d->bytes += more;
	d->held += more;
	if (!is_measured(d, op))
		period_restart(d, now_ns);
	else if (d->bytes >= PERIOD_BYTES)
		period_end(op->target, now_ns);
}

void bulk_busy_moved(struct bulk_op *op, uint64_t now_ns)
{
	if (op->counts_busy)
		period_count(op, done_of(op), now_ns);
}

void bulk_busy_leave(struct bulk_op *op, bool is_done, uint64_t now_ns)
{
	struct bulk_target *t = op->target;

	if (!op->counts_busy)
		return;
	op->counts_busy = false;
	t->period.held += HELD_OP;
	if (is_done)
		period_count(op, op->len, now_ns);
	else
		period_restart(&t->period, now_ns);
	if (!--t->period.op_cnt)
		period_end(t, now_ns);
}

void bulk_learn_silence(const struct bulk_op *op, uint64_t now_ns)
{
	op->target->silent_ns = now_ns + SILENCE_NS;
}
