// SPDX-License-Identifier: BSD-2-Clause
// Lanes that we write: one of our own in a peer's segment, or one that many share.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>

/* --- a lane of our own --- */

static void raise_hwm(struct shm_hdr *h, uint32_t to)
{
	uint32_t old = atomic_load_explicit(&h->lane_hwm, memory_order_relaxed);

	while (old < to &&
	       !atomic_compare_exchange_weak_explicit(&h->lane_hwm, &old, to, memory_order_release,
						      memory_order_relaxed))
		;
}

/* Index of a descriptor that is now CLAIMED by us; -ENOSPC. */
static int desc_claim(const struct shm_seg *seg)
{
	uint32_t end = MIN(shm_desc_hwm(seg) + 1, SHM_LANE_CNT);
	int rc = shm_seg_reserve(seg, SHM_DESC_OFF,
				 ALIGN_UP(end * sizeof(struct shm_desc), (size_t)4096));

	if (rc)
		return rc;
	for (uint32_t i = 0; i < end; i++) {
		struct shm_desc *d = shm_desc_at(seg, i);
		uint32_t expect = SHM_D_FREE;

		/* acquire: the owner's last reads of the lane before our writes; pairs with desc_free() */
		if (atomic_compare_exchange_strong_explicit(&d->state, &expect, SHM_D_CLAIMED,
							    memory_order_acquire,
							    memory_order_relaxed))
			return (int)i;
	}
	return end < SHM_LANE_CNT ? -EAGAIN
				  : -ENOSPC; /* EAGAIN: others were faster, there may be more */
}

/*
 * In turns for all our lanes, so that no peer's comes back soon; and not that of its last one, whose acknowledgements
 * may still be on their way.
 */
static uint32_t color_new(const struct shm_peer *sp)
{
	uint32_t color;

	do
		color = 1 + sp->s->color_next++ % SHM_COLOR_NUM;
	while (color == sp->color);
	return color;
}

int shm_lane_claim(struct shm_peer *sp)
{
	struct shm_seg *seg = sp->seg;
	struct shm_space space = shm_space_get(sp->s->p->node->room->shm_budget);
	uint32_t slots = shm_space_lane_slots(&space);
	struct shm_desc *d;
	int idx = -ENOSPC, rc = -ENOSPC;
	void *mem;

	for (int tries = 0; slots && tries < 4; tries++) {
		idx = desc_claim(seg);
		if (idx != -EAGAIN)
			break;
	}
	if (slots && idx >= 0)
		rc = shm_seg_reserve(seg, SHM_LANE_OFF + (size_t)idx * SHM_LANE_STRIDE,
				     SHM_LANE_BYTES(slots));
	if (rc) {
		if (idx >= 0)
			atomic_store_explicit(&shm_desc_at(seg, (uint32_t)idx)->state, SHM_D_FREE,
					      memory_order_release);
		atomic_store_explicit(&seg->hdr->lanes_wanted, 1, memory_order_relaxed);
		return rc;
	}
	mem = shm_lane_at(seg, (uint32_t)idx);
	d = shm_desc_at(seg, (uint32_t)idx);
	lane_shm_init(mem, slots);
	lane_tx_init(&sp->tx, mem, slots);
	shm_block_put(sp);
	sp->codes = shm_codes_at(mem, slots);
	sp->code_mask = SHM_PEND_CNT - 1;
	memset((void *)sp->codes, 0, SHM_PEND_CNT);
	sp->lane_idx = (uint32_t)idx;
	sp->color = color_new(sp);
	sp->lane_turn = atomic_load_explicit(&d->turn, memory_order_relaxed);
	sp->acked = sp->look_pos = sp->tx.pos;
	sp->tx_mode = SHM_TX_OWN;
	sp->is_lock_stuck = sp->is_moving = false;
	d->slot_cnt = slots;
	d->color = sp->color;
	d->is_second = sp->is_second;
	d->src = sp->s->p->self;
	d->proc = sp->s->seg->proc;
	d->life = sp->s->seg->wake;
	raise_hwm(seg->hdr, (uint32_t)idx + 1);
	shm_desc_change(seg, d, SHM_D_ACTIVE);
	return 0;
}

void shm_lane_give_back(struct shm_peer *sp)
{
	struct shm_desc *d = shm_desc_at(sp->seg, sp->lane_idx);

	/* the turn has moved: its owner took us for gone, and it is not ours to give */
	if (sp->tx_mode == SHM_TX_OWN && atomic_load_explicit(&d->turn, memory_order_relaxed) == sp->lane_turn)
		shm_desc_change(sp->seg, d, SHM_D_CLOSING);
	sp->tx_mode = SHM_TX_NONE;
}

/* --- the shared lanes --- */

/*
 * Pass over what a holder published who died before it could say so. Word0 of the slot at @pos has
 * the tag of @pos's lap if and only if a record was committed there (base/lane.h, claim), also when
 * the consumer has already taken it. Return: false when the lane makes no sense.
 */
static bool shared_walk(struct lane_tx *tx)
{
	for (uint32_t n = 0; n <= tx->mask + 1;) {
		uint32_t idx = tx->pos & tx->mask, nslots;
		uint64_t word =
			atomic_load_explicit(lane_word0(tx->slots, idx), memory_order_relaxed);

		if (word >> LANE_LAP_SHIFT != lane_lap_tag(tx->pos, tx->lap_shift))
			return true;
		nslots = (uint32_t)FIELD_GET(LANE_W_NSLOTS, word);
		if (!nslots || idx + nslots > tx->mask + 1)
			return false;
		if (!(word & LANE_W_SKIP))
			tx->resv = 0; /* its bytes are those of the record */
		tx->pos += nslots;
		n += nslots;
	}
	return false;
}

void shm_block_put(struct shm_peer *sp)
{
	/* a receiver that still has frames of ours may write there some day: see shm_hold() */
	shm_block_free(sp->s, sp->block);
	sp->block = SHM_NO_BLOCK;
}

static int block_get(struct shm_peer *sp)
{
	struct shm_port *s = sp->s;
	uint32_t w = 0, block;

	while (w < ARRAY_SIZE(s->block_used) && s->block_used[w] == UINT64_MAX)
		w++;
	if (w == ARRAY_SIZE(s->block_used))
		return -EAGAIN;
	block = w * 64 + (uint32_t)__builtin_ctzll(~s->block_used[w]);
	if (shm_seg_reserve(s->seg, SHM_CODES_OFF + (size_t)block * SHM_BLOCK_CODES,
			    SHM_BLOCK_CODES))
		return -EAGAIN;
	s->block_used[w] |= BIT(block % 64);
	sp->block = block;
	memset((void *)shm_block_at(s->seg, block), 0, SHM_BLOCK_CODES);
	return 0;
}

/* The next shared lane. Return: whether that was possible: all frames in the last one have ended. */
static bool shared_move(struct shm_peer *sp)
{
	struct shm_hdr *h = sp->seg->hdr;
	uint32_t idx = (sp->shared_idx + 1) % SHM_SHARED_CNT, top;

	if (sp->tx_mode == SHM_TX_SHARED)
		shm_read_acked(sp);
	if ((sp->tx_mode == SHM_TX_SHARED && shm_tx_in_flight(sp)) || sp->pend_head != sp->pend_tail)
		return false;
	sp->is_moving = false;
	sp->shared_idx = idx;
	/* relaxed: whoever sees it late sees lane_gen move, release, before anything is there */
	top = atomic_load_explicit(&h->shared_top, memory_order_relaxed);
	while (top < idx && !atomic_compare_exchange_weak_explicit(&h->shared_top, &top, idx, memory_order_relaxed,
								   memory_order_relaxed))
		;
	/* always: who raised it before us may have been stopped or killed before it said so */
	atomic_fetch_add_explicit(&h->lane_gen, 1, memory_order_release);
	return true;
}

int shm_shared_lock(struct shm_peer *sp)
{
	struct shm_shared *sh = &sp->seg->hdr->shared[sp->shared_idx];
	bool in_flight = sp->tx_mode == SHM_TX_SHARED && shm_tx_in_flight(sp);
	uint32_t end = sp->tx.pos, head;
	uint64_t expect = 0;

	if (sp->block == SHM_NO_BLOCK) {
		sp->is_blocked = !STAILQ_EMPTY(&sp->s->held) && shm_is_held(sp);
		if (sp->is_blocked || block_get(sp))
			return -EAGAIN;
	}
	if (unlikely(sp->is_moving)) {
		if (!shared_move(sp))
			goto err_shut;
		sh = &sp->seg->hdr->shared[sp->shared_idx];
		in_flight = false;
	}
	/* acquire; pairs with the release in shm_shared_unlock() */
	if (!atomic_compare_exchange_strong_explicit(&sh->lock, &expect, shm_holder(sp->s->seg),
						     memory_order_acquire, memory_order_relaxed))
		goto err_shut;
	sp->is_lock_stuck = false;
	sp->lock_ns = sp->shut_ns = 0;
	lane_tx_init(&sp->tx, shm_shared_at(sp->seg, sp->shared_idx), shm_shared_slots(sp->seg, sp->shared_idx));
	sp->tx.pos = atomic_load_explicit(&sh->pos, memory_order_relaxed);
	sp->tx.resv = MIN(atomic_load_explicit(&sh->resv, memory_order_relaxed),
			  (uint32_t)LANE_SLOTS_MAX);
	sp->tx.avail = 0;
	sp->codes = shm_block_at(sp->s->seg, sp->block);
	sp->code_mask = SHM_BLOCK_CODES - 1;
	sp->tx_mode = SHM_TX_SHARED;
	if (!shared_walk(&sp->tx))
		goto err_broken;
	/* acquire; pairs with lane_publish() of the owner */
	head = atomic_load_explicit(sp->tx.head, memory_order_acquire);
	if (sp->tx.pos - head > sp->tx.mask + 1)
		goto err_broken;
	sp->tx.head_seen = head;
	if (!in_flight)
		sp->acked = end = sp->tx.pos;
	sp->shared_end = end;
	return 0;

err_broken:
	LOG_WARN("the shared lane of %s is broken", sp->seg->path);
	sp->shared_end = end;
	shm_shared_unlock(sp, false);
	return -EPROTO;

err_shut:
	sp->is_lock_stuck = sp->was_shut = true;
	return -EAGAIN;
}

void shm_shared_note(struct shm_peer *sp)
{
	/* Relaxed: read only by who gets the lock after us, or after our death, when all our stores
	 * are done. */
	atomic_store_explicit(&sp->seg->hdr->shared[sp->shared_idx].resv, sp->tx.resv, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* no payload before this */
}

void shm_shared_unlock(struct shm_peer *sp, bool is_sent)
{
	struct shm_shared *sh = &sp->seg->hdr->shared[sp->shared_idx];
	uint64_t mine = shm_holder(sp->s->seg);

	atomic_store_explicit(&sh->pos, sp->tx.pos, memory_order_relaxed);
	atomic_store_explicit(&sh->resv, sp->tx.resv, memory_order_relaxed);
	/* release; pairs with the acquire in shm_shared_lock() */
	atomic_compare_exchange_strong_explicit(&sh->lock, &mine, 0, memory_order_release, memory_order_relaxed);
	if (!is_sent)
		sp->tx.pos = sp->shared_end;
}

void shm_shared_unstick(struct shm_peer *sp)
{
	struct shm_shared *sh = &sp->seg->hdr->shared[sp->shared_idx];
	uint64_t holder = atomic_load_explicit(&sh->lock, memory_order_relaxed);

	if (!holder)
		return;
	if (shm_seg_find_holder(holder)) {
		sp->is_moving = true;
		return;
	}
	/* relaxed: the next holder finds out from the lane itself what the dead one has done */
	if (atomic_compare_exchange_strong_explicit(&sh->lock, &holder, 0, memory_order_relaxed, memory_order_relaxed))
		LOG_INFO("%s: broke the lock of a dead sender", sp->seg->path);
}
