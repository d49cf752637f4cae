// SPDX-License-Identifier: BSD-2-Clause
// The rare paths of a lane: ring end, full ring, stale or hostile headers.
#include "base/lane.h"

#include <string.h>

size_t lane_shm_size(uint32_t slot_cnt)
{
	return sizeof(struct lane_shm) + (size_t)slot_cnt * LANE_SLOT;
}

void lane_shm_init(void *mem, uint32_t slot_cnt)
{
	struct lane_shm *shm = mem;

	assert(((uintptr_t)mem & (CACHE_LINE - 1)) == 0);
	/* Word0 of 0 is no header: a lap tag is never 0. */
	memset(mem, 0, lane_shm_size(slot_cnt));
	atomic_init(&shm->head, lane_first(slot_cnt));
}

static void check_slot_cnt(uint32_t slot_cnt)
{
	must(IS_POW2(slot_cnt));
	must(slot_cnt >= LANE_CNT_MIN);
	must(slot_cnt <= LANE_CNT_MAX);
}

void lane_tx_init(struct lane_tx *tx, void *mem, uint32_t slot_cnt)
{
	struct lane_shm *shm = mem;

	check_slot_cnt(slot_cnt);
	*tx = (struct lane_tx){
		.slots = (uint8_t *)(shm + 1),
		.head = &shm->head,
		.mask = slot_cnt - 1,
		.lap_shift = (uint32_t)__builtin_ctz(slot_cnt),
		.pos = lane_first(slot_cnt),
		.head_seen = lane_first(slot_cnt),
		.avail = slot_cnt,
	};
	tx->lap = (uint64_t)lane_lap_tag(tx->pos, tx->lap_shift) << LANE_LAP_SHIFT;
}

/* From one lane_turn() to the next. No record that the fast part of lane_peek() passes is longer. */
static uint32_t stretch(uint32_t slot_cnt)
{
	return MIN(slot_cnt / 4, (uint32_t)LANE_SLOTS_MAX);
}

void lane_rx_init(struct lane_rx *rx, void *mem, uint32_t slot_cnt, uint32_t kind)
{
	struct lane_shm *shm = mem;

	check_slot_cnt(slot_cnt);
	*rx = (struct lane_rx){
		.slots = (uint8_t *)(shm + 1),
		.next = (uint8_t *)(shm + 1),
		.head = &shm->head,
		.mask = slot_cnt - 1,
		.left = (int32_t)stretch(slot_cnt),
		.turn = lane_first(slot_cnt) + stretch(slot_cnt),
		.kind = kind,
		.lap_shift = (uint32_t)__builtin_ctz(slot_cnt),
	};
	lane_rx_lap(rx, lane_first(slot_cnt));
}

/* Fill the ring up to its end with a record that the consumer passes over. */
static void put_skip(struct lane_tx *tx, uint32_t nslots)
{
	uint64_t lap = lane_lap_tag(tx->pos, tx->lap_shift);

	/* release: earlier zeroing first; pairs with the acquire in lane_peek() */
	atomic_store_explicit(lane_word0(tx->slots, tx->pos & tx->mask),
			      lap << LANE_LAP_SHIFT | LANE_W_SKIP |
				      FIELD_PREP(LANE_W_NSLOTS, nslots),
			      memory_order_release);
	tx->pos += nslots;
}

/* Zero word0 of the slots from @pos + @from on that an abandoned message may have dirtied. */
static void undo_abandoned(struct lane_tx *tx, uint32_t from)
{
	/* relaxed: ordered by the release of the next header, before which nobody looks there */
	for (uint32_t i = from; i < tx->resv; i++)
		atomic_store_explicit(lane_word0(tx->slots, (tx->pos + i) & tx->mask), 0,
				      memory_order_relaxed);
}

void *lane_reserve_turn(struct lane_tx *tx, uint32_t nslots)
{
	uint32_t slot_cnt = tx->mask + 1;
	uint32_t idx = tx->pos & tx->mask, to_end = slot_cnt - idx;
	uint32_t skip = nslots > to_end ? to_end : 0;
	uint32_t room = slot_cnt - (tx->pos - tx->head_seen);

	must(nslots <= LANE_SLOTS_MAX);
	/*
	 * The skip goes out as soon as there is room for it alone: a ring of 32 slots never has
	 * room for a skip and a message of 32 at once.
	 */
	if (skip && room >= skip) {
		put_skip(tx, skip);
		tx->resv = 0;
		room -= skip;
		skip = 0;
		to_end = slot_cnt;
	}
	tx->avail = MIN(room, to_end); /* so that each lap begins here */
	tx->lap = (uint64_t)lane_lap_tag(tx->pos, tx->lap_shift) << LANE_LAP_SHIFT;
	if (skip || nslots > tx->avail)
		return NULL;
	return tx->slots + (size_t)(tx->pos & tx->mask) * LANE_SLOT + LANE_WORD0;
}

void *lane_reserve(struct lane_tx *tx, uint32_t bytes)
{
	void *slot = lane_reserve_seen(tx, bytes);

	if (!slot) {
		lane_acked(tx);
		slot = lane_reserve_seen(tx, bytes);
	}
	if (slot) {
		undo_abandoned(tx, lane_nslots(bytes));
		tx->resv = lane_nslots(bytes);
	}
	return slot;
}

void lane_commit(struct lane_tx *tx, uint64_t user40)
{
	uint32_t nslots = tx->resv;

	tx->resv = 0;
	lane_commit_at(tx, (uint8_t *)lane_word0(tx->slots, tx->pos & tx->mask) + LANE_WORD0, nslots,
		       user40 & LANE_W_USER);
}

/*
 * A continuation must not look like a header of the next lap (see Theory of operation). Relaxed:
 * the data came with the header's acquire, and a zero goes out before the release of
 * lane_publish().
 */
void lane_scrub(struct lane_rx *rx)
{
	uint32_t pos = lane_rx_pos(rx), next_lap = lane_lap_tag(pos + rx->mask + 1, rx->lap_shift);
	uint32_t idx = pos & rx->mask;

	for (uint32_t i = 1; i < rx->cur; i++) {
		_Atomic uint64_t *word0 = lane_word0(rx->slots, idx + i);

		if (atomic_load_explicit(word0, memory_order_relaxed) >> LANE_LAP_SHIFT == next_lap)
			atomic_store_explicit(word0, 0, memory_order_relaxed);
	}
}

/* A lap begins at a turn, and no record crosses the end of the ring: so tag and place change only here. */
void lane_turn(struct lane_rx *rx)
{
	uint32_t pos = lane_rx_pos(rx), len = stretch(rx->mask + 1);

	rx->turn = (pos & ~(len - 1)) + len; /* the last record may have gone beyond the last one */
	rx->left = (int32_t)(rx->turn - pos);
	rx->next = (uint8_t *)lane_word0(rx->slots, pos & rx->mask);
	if (likely(rx->lap != LANE_LAP_NEVER))
		lane_rx_lap(rx, pos);
	lane_publish(rx);
}

uint32_t lane_look_other(struct lane_rx *rx, uint64_t *word)
{
	uint32_t idx = lane_rx_pos(rx) & rx->mask, nslots = (uint32_t)FIELD_GET(LANE_W_NSLOTS, *word);

	if (!(*word & LANE_W_SKIP) && nslots - 1 < LANE_SLOTS_MAX && idx + nslots <= rx->mask + 1)
		return nslots;
	/*
	 * A skip is shorter than the longest message and ends the ring. So none begins at index 0,
	 * and a hostile peer cannot keep us here by skip after skip.
	 */
	if ((*word & LANE_W_SKIP) && nslots < LANE_SLOTS_MAX && idx &&
	    idx + nslots == rx->mask + 1) {
		lane_pass(rx, nslots);
		*word = lane_word(rx);
		return lane_look(rx, word);
	}
	rx->broken = true;
	lane_shut(rx);
	return 0;
}
