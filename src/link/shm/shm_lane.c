// SPDX-License-Identifier: BSD-2-Clause
// Lanes come and go: claims in a peer's segment, new senders in ours, and the lane that many share.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>

/* --- a lane of our own
 * ------------------------------------------------------------------------------- */

static uint32_t desc_hwm(const struct shm_seg *seg)
{
	/* acquire; pairs with the release in raise_hwm(). Clamped: others write it. */
	return MIN(atomic_load_explicit(&seg->hdr->lane_hwm, memory_order_acquire), SHM_LANE_CNT);
}

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
	uint32_t end = MIN(desc_hwm(seg) + 1, SHM_LANE_CNT);
	int rc = shm_seg_reserve(seg, SHM_DESC_OFF,
				 ALIGN_UP(end * sizeof(struct shm_desc), (size_t)4096));

	if (rc)
		return rc;
	for (uint32_t i = 0; i < end; i++) {
		struct shm_desc *d = shm_desc_at(seg, i);
		uint32_t expect = SHM_D_FREE;

		/* acquire: the owner's last reads of the lane before our writes; pairs with
		 * shm_lane_free_rx() */
		if (atomic_compare_exchange_strong_explicit(&d->state, &expect, SHM_D_CLAIMED,
							    memory_order_acquire,
							    memory_order_relaxed))
			return (int)i;
	}
	return end < SHM_LANE_CNT ? -EAGAIN
				  : -ENOSPC; /* EAGAIN: others were faster, there may be more */
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
	/* of all our lanes, not of this peer's: acknowledgements of its last one may still be on their way */
	sp->color = 1 + sp->s->color_next++ % SHM_COLOR_NUM;
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

/* --- lanes in our segment
 * ------------------------------------------------------------------------------ */

static void set_bitmap_mode(struct shm_port *s)
{
	/* relaxed: senders that see it late are found by the full sweep */
	if (s->rx_cnt > SHM_SWEEP_MAX)
		atomic_fetch_or_explicit(&s->seg->hdr->state, SHM_ST_BITMAP, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&s->seg->hdr->state, ~SHM_ST_BITMAP,
					  memory_order_relaxed);
}

void shm_desc_free(struct shm_port *s, uint32_t idx, uint32_t slot_cnt)
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

/* Return: 0; -ENOENT the sender is gone or wrote nonsense; -errno not now. */
static int rx_attach(struct shm_port *s, uint32_t idx)
{
	struct shm_desc d; /* a copy: checked, then used */
	struct shm_peer *sp;
	struct shm_rx *rx;
	void *mem = shm_lane_at(s->seg, idx);
	int rc;

	memcpy(&d, (const void *)shm_desc_at(s->seg, idx), sizeof(d));
	if ((d.slot_cnt != SHM_SLOTS_BIG && d.slot_cnt != SHM_SLOTS_SMALL) ||
	    d.color - 1 >= SHM_COLOR_NUM) {
		s->p->stats.drop_malformed++;
		return -ENOENT;
	}
	sp = shm_peer_of(s, &d.src, d.life, &rc);
	if (!sp) {
		s->p->stats.drop_source += rc == -ENOENT;
		return rc;
	}
	/* A lane of its next life: all that is under way between us has to end first. */
	if (!sp->doom && shm_is_revoked(sp))
		shm_revoked_doom(sp);
	if (sp->doom && !shm_has_closed(sp)) /* a port that has closed has no next life: these are its last frames */
		return -EAGAIN;
	rc = shm_seg_reserve(s->seg, SHM_LANE_OFF + (size_t)idx * SHM_LANE_STRIDE,
			     SHM_LANE_BYTES(d.slot_cnt));
	if (rc)
		return rc;
	rx = mem_alloc(sizeof(*rx));
	if (!rx)
		return -ENOMEM;
	lane_rx_init(&rx->lane, mem, d.slot_cnt);
	rx->codes = shm_codes_at(mem, d.slot_cnt);
	rx->idx = idx;
	rx->color = d.color;
	rx->sp = sp;
	sp->rx_cnt++;
	if (!d.is_second)
		sp->rx = rx;
	s->rx_by_idx[idx] = rx;
	s->rx[s->rx_cnt++] = rx;
	s->pending[idx / 64] |= BIT(idx % 64);
	set_bitmap_mode(s);
	return 0;
}

/* Its sender writes no more there. */
static void rx_closing(struct shm_port *s, struct shm_rx *rx)
{
	if (!rx->sp) {
		shm_limbo_agreed(s, rx);
		return;
	}
	rx->is_closing = true;
	if (rx->sp->rx == rx)
		rx->sp->rx = NULL; /* nobody waits for acknowledgements of it, and its color may be another one's */
}

/* We do not get the segment of its sender mapped, who waits for us to read the lane. */
static int revoke_unseen(struct shm_port *s, uint32_t idx)
{
	uint32_t was = SHM_D_REVOKED;
	int rc = shm_revoke(s, idx, NULL, NULL);

	if (rc)
		return rc;
	LOG_WARN("%s: no memory, address space or descriptors for the segment of a sender: its frames are not taken", s->seg->path);
	atomic_compare_exchange_strong_explicit(&shm_desc_at(s->seg, idx)->state, &was, SHM_D_UNSEEN, memory_order_release, memory_order_relaxed);
	return 0;
}

static void desc_look(struct shm_port *s, uint32_t idx, bool *is_wanting)
{
	/* acquire; pairs with shm_desc_change() */
	uint32_t state =
		atomic_load_explicit(&shm_desc_at(s->seg, idx)->state, memory_order_acquire);
	struct shm_rx *rx = s->rx_by_idx[idx];
	int rc = 0;

	if (state != SHM_D_ACTIVE && state != SHM_D_CLOSING)
		return;
	if (!rx) {
		rc = rx_attach(s, idx);
		if (rc == -ENOENT)
			rc = shm_revoke(s, idx, NULL, NULL);
		else if (rc && rc != -EAGAIN && shm_is_hopeless(s, &s->want_ns))
			rc = revoke_unseen(s, idx);
		*is_wanting |= rc && rc != -EAGAIN;
		rx = s->rx_by_idx[idx];
	}
	if (rc)
		s->has_rescan = true;
	else if (rx && state == SHM_D_CLOSING)
		rx_closing(s, rx);
}

/* Is a further shared lane in use? */
static void shared_look(struct shm_port *s)
{
	/* relaxed: ordered by lane_gen, which moves after it. Clamped: others write it. */
	uint32_t top = atomic_load_explicit(&s->seg->hdr->shared_top, memory_order_relaxed);

	s->shared_cnt = 1 + MIN(top, SHM_SHARED_CNT - 1);
	if (s->shared_cnt > 1)
		s->shared_due |= SHM_DUE_MORE;
}

__attribute__((noinline)) void shm_lane_refresh(struct shm_port *s)
{
	bool is_wanting = false;
	uint32_t hwm;

	/* acquire; pairs with shm_desc_change(). Read first: a change after it brings us here again. */
	s->gen_seen = atomic_load_explicit(&s->seg->hdr->lane_gen, memory_order_acquire);
	s->has_rescan = false;
	shm_told_look(s);
	shared_look(s);
	hwm = desc_hwm(s->seg);
	if (hwm > s->desc_ready) {
		if (shm_seg_reserve(s->seg, SHM_DESC_OFF,
				    ALIGN_UP(hwm * sizeof(struct shm_desc), (size_t)4096)))
			hwm = s->desc_ready;
		s->desc_ready = hwm;
	}
	for (uint32_t i = 0; i < hwm; i++)
		desc_look(s, i, &is_wanting);
	if (!is_wanting)
		s->want_ns = 0;
}

bool shm_lane_is_unseen(struct shm_port *s, const struct shm_peer *sp)
{
	uint32_t hwm = desc_hwm(s->seg);

	for (uint32_t i = 0; i < hwm && i < s->desc_ready; i++) {
		const struct shm_desc *d = shm_desc_at(s->seg, i);
		/* acquire; pairs with shm_desc_change() */
		uint32_t state = atomic_load_explicit(&d->state, memory_order_acquire);
		struct link_addr who = d->src;

		if (!s->rx_by_idx[i] && (state == SHM_D_ACTIVE || state == SHM_D_CLOSING) && d->life == sp->seg->wake &&
		    !memcmp(&who, &sp->addr, sizeof(who)))
			return true;
	}
	return hwm > s->desc_ready;
}

void shm_lane_free_rx(struct shm_port *s, struct shm_rx *rx)
{
	struct shm_peer *sp = rx->sp;
	uint32_t i = 0;

	while (s->rx[i] != rx)
		i++;
	s->rx[i] = s->rx[--s->rx_cnt];
	s->rx_last = 0;
	s->pending[rx->idx / 64] &= ~BIT(rx->idx % 64);
	if (sp->rx == rx)
		sp->rx = NULL;
	if (--sp->rx_cnt == 0 && !sp->is_attached) {
		sp->is_zombie = true;
		s->ends |= SHM_ENDS_ZOMBIE;
	}
	set_bitmap_mode(s);
	shm_revoke(s, rx->idx, rx, shm_seg_get(sp->seg));
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
	if (sp->block == SHM_NO_BLOCK)
		return;
	/* a receiver that still has frames of ours may write there some day: see shm_hold() */
	sp->s->block_used[sp->block / 64] &= ~BIT(sp->block % 64);
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
	while (top < idx && !atomic_compare_exchange_weak_explicit(&h->shared_top, &top, idx, memory_order_relaxed, memory_order_relaxed))
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
