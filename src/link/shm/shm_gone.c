// SPDX-License-Identifier: BSD-2-Clause
// What a peer that was declared dead may still touch: nobody else gets it before it is really gone, or has agreed.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>

/*
 * Theory of operation
 *
 * A peer that gives no sign of life for dead_after is declared dead. It may only have been stopped (SIGSTOP, a
 * debugger, a frozen cgroup), between any two instructions, and go on later. No check before a store helps against
 * that, so the argument is who may write: memory that a living process could write, or read as ours, is not used for
 * anything else.
 *
 *   lanes in our segment    The owner makes REVOKED of ACTIVE and stops reading (shm_revoke()). The lane waits in
 *                           @limbo until its writer answers CLOSING, or is gone. The head stands still, so the writer
 *                           counts no success meanwhile.
 *   staging runs, codes     What frames to the peer named of our own segment waits in @held (shm_hold()) until the
 *                           peer's side of the lane is finished with them (@turn of the descriptor has moved; the
 *                           shared lane's head has passed), or the peer is gone.
 *   a second life           While something is held from a peer's process, it is lent nothing more: it cannot take all
 *                           by dying often.
 *
 * Gone means: its port was closed in order (SHM_ST_LEFT), or the kernel has given up the lock on its segment, or, if
 * that has no name any more, no process has its pid, its start time and the place of its stack, which exec() changes.
 * In doubt it is not gone. Hence, where a process of another pid namespace is killed and its file removed before we
 * have looked, its lane stays out of use as long as our port is open.
 *
 * A writer learns of it by lane_gen of its own segment, which the owner moves after it has revoked, at its next poll;
 * it looks at its descriptors then, also in each tick and before it attaches a new lane of that owner. What it has
 * under way fails, the lane is given back, and a new one may be asked for. One that had no lane, because it shared one,
 * or had given it back, is told in a list of its own segment (shm_seg.told); it reads that list before it gets to know
 * a new life of any peer, so that an old verdict ends nothing new. Who was told does not tell in turn.
 */

#define GONE_LOOKS 2 /* of a kind, per tick */

/* --- lanes in our segment --- */

/* Nobody writes to the lane any more: who wants it may have it. */
static void desc_free(struct shm_port *s, uint32_t idx, uint32_t slot_cnt)
{
	struct shm_desc *d = shm_desc_at(s->seg, idx);

	shm_seg_punch(s->seg, SHM_LANE_OFF + (size_t)idx * SHM_LANE_STRIDE,
		      SHM_LANE_BYTES(slot_cnt));
	/*
	 * release: we are done with the lane, and with what its frames named; pair with held_is_done() and desc_claim()
	 */
	atomic_fetch_add_explicit(&d->turn, 1, memory_order_release);
	atomic_store_explicit(&d->state, SHM_D_FREE, memory_order_release);
	atomic_store_explicit(&s->seg->hdr->lanes_wanted, 0, memory_order_relaxed);
}

void shm_limbo_free(struct shm_port *s, struct shm_rx *rx)
{
	STAILQ_REMOVE(&s->limbo, rx, shm_rx, entry);
	s->rx_by_idx[rx->idx] = NULL;
	desc_free(s, rx->idx, rx->lane.mask ? rx->lane.mask + 1 : SHM_SLOTS_BIG);
	shm_seg_put(rx->seg);
	mem_free(rx);
}

static bool writer_is_gone(const struct shm_rx *rx)
{
	return rx->seg ? shm_seg_is_gone(rx->seg) : shm_proc_is_gone(&rx->proc);
}

/* Return: false: the writer has given it back already. */
static bool desc_revoke(struct shm_port *s, uint32_t idx)
{
	struct shm_desc *d = shm_desc_at(s->seg, idx);
	uint32_t was = SHM_D_ACTIVE;

	/* acquire: the writer's last stores before our next use; pairs with shm_desc_change() */
	return atomic_compare_exchange_strong_explicit(&d->state, &was, SHM_D_REVOKED, memory_order_acq_rel,
						       memory_order_acquire) ||
	       was == SHM_D_REVOKED;
}

int shm_revoke(struct shm_port *s, uint32_t idx, struct shm_rx *rx, struct shm_seg *seg)
{
	bool is_new = !rx;

	if (is_new) {
		rx = mem_alloc(sizeof(*rx));
		if (!rx)
			return -ENOMEM;
		memcpy(&rx->proc, &shm_desc_at(s->seg, idx)->proc, sizeof(rx->proc));
		rx->idx = idx;
	}
	rx->sp = NULL;
	rx->seg = seg;
	s->rx_by_idx[idx] = rx;
	STAILQ_INSERT_TAIL(&s->limbo, rx, entry);
	if (!desc_revoke(s, idx) || writer_is_gone(rx))
		shm_limbo_free(s, rx);
	return 0;
}

/*
 * Into the list in its segment: it has no lane here, and may wait for an answer all the same. Return: whether it has to
 * look.
 */
static bool told_put(struct shm_peer *sp)
{
	struct shm_hdr *h = sp->seg->hdr;
	uint64_t self = shm_holder(sp->s->seg);
	unsigned bit = SHM_TOLD_ALL;

	if (sp->was_told || sp->has_told || shm_has_closed(sp))
		return false;
	sp->has_told = true;
	for (uint32_t i = 0; i < SHM_TOLD_CNT && bit == SHM_TOLD_ALL; i++) {
		_Atomic uint64_t *slot = &shm_told_at(sp->seg)[(self + i) % SHM_TOLD_CNT];
		uint64_t was = 0;

		/* relaxed: ordered by @told */
		if (atomic_compare_exchange_strong_explicit(slot, &was, self, memory_order_relaxed,
							    memory_order_relaxed) ||
		    was == self)
			bit = SHM_TOLD_SOME;
	}
	/* release: the slot first; pairs with the acquire in shm_told_look() */
	atomic_fetch_or_explicit(&h->told, bit, memory_order_release);
	return true;
}

void shm_revoke_all(struct shm_peer *sp)
{
	struct shm_port *s = sp->s;
	bool is_told = false, is_unread = false;
	uint32_t state, cap;
	uint64_t user;

	for (uint32_t i = 0; i < s->rx_cnt; i++) {
		struct shm_rx *rx = s->rx[i];

		if (rx->sp != sp)
			continue;
		rx->is_gone = true;
		s->ends |= SHM_ENDS_GONE;
		is_unread |= lane_peek(&rx->lane, &cap, &user) != NULL;
		lane_shut(&rx->lane); /* by now: this may be the call that its last frame came to */
		is_told |= desc_revoke(s, rx->idx);
	}
	/*
	 * Who closes is seen to have closed: that tells it at its next tick, and only who waits for us to take
	 * something is woken.
	 */
	if (s->p->is_cancelled ? !is_unread : !is_told && !told_put(sp))
		return;
	if (is_told) /* release: REVOKED first; pairs with the acquire in shm_told_look() */
		atomic_fetch_or_explicit(&sp->seg->hdr->told, SHM_TOLD_LANES, memory_order_release);
	/* release: who sees this sees REVOKED; pairs with the acquire in shm_lane_refresh() */
	atomic_fetch_add_explicit(&sp->seg->hdr->lane_gen, 1, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst); /* S1 before S2, see shm_wake.c */
	state = atomic_load_explicit(&sp->seg->hdr->state, memory_order_relaxed);
	if (state & SHM_ST_SLEEPING)
		shm_ring(sp, SHM_ST_SLEEPING);
}

/* --- our lanes in others' segments --- */

bool shm_is_revoked(const struct shm_peer *sp)
{
	const struct shm_desc *d = shm_desc_at(sp->seg, sp->lane_idx);

	if (sp->tx_mode != SHM_TX_OWN)
		return false;
	/* relaxed: the memory is ours until we say otherwise */
	return atomic_load_explicit(&d->state, memory_order_relaxed) >= SHM_D_REVOKED ||
	       atomic_load_explicit(&d->turn, memory_order_relaxed) != sp->lane_turn;
}

void shm_revoked_doom(struct shm_peer *sp)
{
	bool has_left = shm_has_closed(sp); /* who closes gives everything up, too: that is no death */

	sp->is_unseen = sp->tx_mode == SHM_TX_OWN && atomic_load_explicit(&shm_desc_at(sp->seg, sp->lane_idx)->state,
									  memory_order_relaxed) == SHM_D_UNSEEN;
	if (!has_left)
		LOG_WARN("%s: its owner has %s; what is under way there fails", sp->seg->path,
			 sp->is_unseen ? "no memory, address space or descriptors to map our segment"
				       : "declared us dead");
	sp->was_told = true;
	shm_peer_doom(sp, has_left ? -ECONNREFUSED : -ETIMEDOUT);
}

static void told_by(struct shm_peer *sp)
{
	if (sp->is_attached && !sp->is_zombie && !sp->is_void && !sp->doom)
		shm_revoked_doom(sp);
}

/* A line of each peer: once per tick, or when somebody has told so. */
static void lanes_look(struct shm_port *s)
{
	for (struct shm_peer *sp = s->all; sp; sp = sp->all_next) {
		if (sp->is_zombie || sp->doom || !shm_is_revoked(sp))
			continue;
		shm_revoked_doom(sp);
	}
}

void shm_told_look(struct shm_port *s)
{
	_Atomic uint64_t *slot = shm_told_at(s->seg);
	/* relaxed: none is the rule, and who comes now moves lane_gen */
	unsigned what = atomic_load_explicit(&s->seg->hdr->told, memory_order_relaxed);

	if (likely(!what))
		return;
	/* acquire; pairs with told_put() */
	what = atomic_exchange_explicit(&s->seg->hdr->told, 0, memory_order_acquire);
	if (what & SHM_TOLD_LANES)
		lanes_look(s);
	for (uint32_t i = 0; i < SHM_TOLD_CNT && what != SHM_TOLD_LANES; i++) {
		uint64_t who = atomic_exchange_explicit(&slot[i], 0, memory_order_relaxed);

		for (struct shm_peer *sp = who ? s->tab[(who >> 32) % SHM_HASH] : NULL; sp; sp = sp->hnext)
			if (shm_holder(sp->seg) == who)
				told_by(sp);
	}
	/* more than the list has room for have declared us dead: then all may have that cannot say so by a lane */
	for (struct shm_peer *sp = what & SHM_TOLD_ALL ? s->all : NULL; sp; sp = sp->all_next)
		if (sp->tx_mode != SHM_TX_OWN)
			told_by(sp);
}

void shm_revoked_look(struct shm_port *s)
{
	shm_told_look(s);
	lanes_look(s);
}

/* --- our memory that others know of --- */

static void held_free(struct shm_port *s, struct shm_held *h)
{
	for (uint32_t i = 0; i < h->cnt; i++)
		stage_free(&s->stage, h->gran[i]);
	shm_block_free(s, h->block);
	shm_seg_put(h->seg);
	mem_free(h);
}

/* Runs of frames that the peer has not taken, by @h; NULL: only count. */
static uint32_t runs_of(const struct shm_peer *sp, struct shm_held *h)
{
	uint32_t n = 0;

	for (uint32_t i = sp->pend_head; i != sp->pend_tail; i++) {
		const struct shm_pend *e = &sp->pend[i % SHM_PEND_CNT];

		if (shm_is_acked(sp, e) || e->kept || e->gran == SHM_NO_GRAN)
			continue;
		if (h)
			h->gran[n] = e->gran;
		n++;
	}
	return n;
}

struct shm_held *shm_hold(struct shm_peer *sp)
{
	struct shm_port *s = sp->s;
	bool has_block = sp->block != SHM_NO_BLOCK && shm_tx_in_flight(sp);
	uint32_t cnt = runs_of(sp, NULL);
	struct shm_held *h;

	if (sp->tx_mode == SHM_TX_NONE || (!cnt && !has_block))
		return NULL;
	h = mem_alloc(sizeof(*h) + cnt * sizeof(h->gran[0]));
	if (!h) { /* then they stay out of use for this port's life */
		if (has_block)
			sp->block = SHM_NO_BLOCK;
		return NULL;
	}
	h->block = SHM_NO_BLOCK;
	h->idx = sp->tx_mode == SHM_TX_OWN ? sp->lane_idx : SHM_LANE_CNT + sp->shared_idx;
	h->turn = sp->lane_turn;
	h->pos = sp->tx.pos;
	h->cnt = runs_of(sp, h);
	if (has_block) {
		h->block = sp->block;
		sp->block = SHM_NO_BLOCK;
	}
	h->seg = shm_seg_get(sp->seg);
	STAILQ_INSERT_TAIL(&s->held, h, entry);
	return h;
}

void shm_hold_end(struct shm_port *s, struct shm_held *h)
{
	struct shm_held *at;

	/* what the owner did meanwhile may have been long: is it there still? */
	STAILQ_FOREACH(at, &s->held, entry)
		if (at == h)
			break;
	if (!at || !shm_seg_is_gone(at->seg))
		return;
	STAILQ_REMOVE(&s->held, at, shm_held, entry);
	held_free(s, at);
}

/* Has the peer's side of the lane finished with it? */
static bool held_is_done(const struct shm_held *h)
{
	const struct lane_shm *shared;

	/* acquire, both: its last reads before our next writes; pair with desc_free() and lane_publish() */
	if (h->idx < SHM_LANE_CNT)
		return atomic_load_explicit(&shm_desc_at(h->seg, h->idx)->turn, memory_order_acquire) != h->turn;
	shared = shm_shared_at(h->seg, h->idx - SHM_LANE_CNT);
	return (int32_t)(atomic_load_explicit(&shared->head, memory_order_acquire) - h->pos) >= 0;
}

bool shm_is_held(const struct shm_peer *sp)
{
	const struct shm_held *h;

	STAILQ_FOREACH(h, &sp->s->held, entry)
		if (h->seg->dev == sp->seg->dev && h->seg->ino == sp->seg->ino && !held_is_done(h))
			return true;
	return false;
}

/* --- taken back in each tick --- */

/* Of those who live, and have read what they were lent. */
static void held_done_free(struct shm_port *s)
{
	struct shm_held *h, *next;

	for (h = STAILQ_FIRST(&s->held); h; h = next) {
		next = STAILQ_NEXT(h, entry);
		if (!held_is_done(h))
			continue;
		STAILQ_REMOVE(&s->held, h, shm_held, entry);
		held_free(s, h);
	}
}

void shm_gone_tick(struct shm_port *s)
{
	struct shm_held *h;
	struct shm_rx *rx;

	for (int i = 0; i < GONE_LOOKS && (rx = STAILQ_FIRST(&s->limbo)); i++) {
		STAILQ_REMOVE_HEAD(&s->limbo, entry);
		STAILQ_INSERT_TAIL(&s->limbo, rx, entry);
		if (writer_is_gone(rx))
			shm_limbo_free(s, rx);
	}
	held_done_free(s);
	for (int i = 0; i < GONE_LOOKS && (h = STAILQ_FIRST(&s->held)); i++) {
		STAILQ_REMOVE_HEAD(&s->held, entry);
		if (shm_seg_is_gone(h->seg))
			held_free(s, h);
		else
			STAILQ_INSERT_TAIL(&s->held, h, entry);
	}
}

void shm_gone_fini(struct shm_port *s)
{
	struct shm_held *h;
	struct shm_rx *rx;

	while ((rx = STAILQ_FIRST(&s->limbo))) {
		STAILQ_REMOVE_HEAD(&s->limbo, entry);
		shm_seg_put(rx->seg);
		mem_free(rx);
	}
	while ((h = STAILQ_FIRST(&s->held))) {
		STAILQ_REMOVE_HEAD(&s->held, entry);
		shm_seg_put(h->seg);
		mem_free(h);
	}
}
