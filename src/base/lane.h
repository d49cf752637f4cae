// SPDX-License-Identifier: BSD-2-Clause
// Lane: ring of 64-byte slots, one producer, one consumer, shared with a peer that is not trusted.
//
// Theory of operation
//
// Shared memory: line 0 holds @head, the number of slots that the consumer has released (free
// running); only the consumer writes it. Then come 2^k slots. Positions are free-running 32-bit
// slot numbers; the lap of a position is position >> k. A message is a record of n >= 1 contiguous
// slots. Its first 8 bytes, word0, are {lap tag 16 | skip 1, slots 7 | user 40}; the producer
// writes them last, with release. There is no tail to read: the consumer at position p waits until
// word0 of slot p mod 2^k carries the tag of p's lap, so that an 8-byte message moves one cache
// line. Records never wrap: where one would, a skip record fills the ring to its end.
//
// Tags. tag(lap) = 0x8000 | lap mod 2^15. It is never 0, and tag(lap) != tag(lap + 1). A 32-bit
// position has a power of two of laps, so this also holds where the position wraps.
//
// Claim: what the consumer takes for a header at p is the header of p. Proof: the records of a lap
// tile the ring, so the consumer releases every slot exactly once per lap. When it releases a slot
// in lap l, the slot's word0 is either the header of a record of lap l, whose tag is not tag(l+1),
// or (a continuation, or the rest of a skip) it is data or leftover, and then lane_next() has read
// it and zeroed it if its upper 16 bits were tag(l+1). So at release word0 never looks like lap
// l+1. The consumer looks at the slot next at position p of lap l+1, if a record begins there.
// Until then only the producer writes, and word0 of p only as that record's header: records before
// p end before p, and slots that an abandoned lane_reserve() dirtied beyond the record that
// replaced it are zeroed before that is committed.
//
// Zeroing on a clash only (1 in 65536 for random data), not always, keeps payload lines shared, not
// modified, in the consumer's cache (doc/measurements.md#same-host).
//
// Trust. The producer believes @head only between what it believed before and its own position. The
// consumer takes word0 in one load and checks that the record lies inside the ring and that a skip
// is one that a producer can need; else the lane is broken for good. Payload may change at any time
// while it is looked at: copy before checking.
//
// No read-modify-write and no fence anywhere; on x86 all orders below are plain loads and stores.
#ifndef SF_BASE_LANE_H
#define SF_BASE_LANE_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/bits.h"

#define LANE_SLOT      64
#define LANE_SLOTS_MAX 32	      /* of one message */
#define LANE_CNT_MIN   LANE_SLOTS_MAX /* slots of a ring */
#define LANE_CNT_MAX   (1u << 24)
#define LANE_WORD0     8					 /* bytes */
#define LANE_MSG_MAX   (LANE_SLOTS_MAX * LANE_SLOT - LANE_WORD0) /* payload bytes of one message */

#define LANE_W_LAP     GENMASK(63, 48)
#define LANE_W_SKIP    BIT(47)
#define LANE_W_NSLOTS  GENMASK(46, 40)
#define LANE_W_USER    GENMASK(39, 0)
#define LANE_NSLOTS_SHIFT 40
#define LANE_LAP_SHIFT 48
/*
 * The uppermost bits of what a user says may tell a kind of message. With the lap's tag and the number of slots before
 * them one comparison finds out that a message is there, and of the usual sort: one slot, of the lane's kind.
 */
#define LANE_W_KIND    GENMASK(39, 37)
#define LANE_KIND_SHIFT 37
#define LANE_LAP_SET   0x8000u /* in every lap tag */
#define LANE_LAP_NEVER UINT32_MAX

/* Line 0 of the shared memory; the slots follow. */
struct lane_shm {
	_Atomic uint32_t head; /* slots released by the consumer, free running */
	uint8_t unused[CACHE_LINE - sizeof(uint32_t)];
};
static_assert(sizeof(struct lane_shm) == CACHE_LINE, "the consumer's line must not hold a slot");

/* Producer's private half. Locking: none, one thread at a time. */
struct lane_tx {
	uint8_t *slots;
	_Atomic uint32_t *head;
	uint32_t mask;	    /* slots in the ring - 1 */
	uint32_t lap_shift; /* k */
	uint32_t pos;	    /* where the next record goes */
	uint32_t head_seen; /* last believed value of *@head */
	uint64_t lap;	    /* tag of the lap in which @avail slots are, in place for a header */
	uint32_t avail;	    /* slots at @pos known to be free and contiguous */
	uint32_t resv;	    /* of lane_reserve(): slots from @pos that may hold bytes of an uncommitted message */
};

/* Consumer's private half. Locking: none, one thread at a time. */
struct lane_rx {
	uint8_t *next; /* slot of the next record */
	int32_t left;  /* slots from there to @turn, at least 1 */
	uint32_t lap;  /* tag of the lap there; LANE_LAP_NEVER once broken or shut */
	uint32_t usual; /* what the header of a message of one slot and of @kind begins with there; or LANE_LAP_NEVER */
	uint32_t cur;  /* slots of the record that was looked at last */
	/*
	 * position at or behind which lane_turn() is due, LANE_SLOTS_MAX slots or a quarter of the ring after the last
	 * one
	 */
	uint32_t turn;
	_Atomic uint32_t *head;
	bool broken;   /* the peer wrote a header that no producer writes; for good */
	uint32_t kind; /* of LANE_W_KIND: of the messages that mostly come */
	uint32_t mask;
	uint32_t lap_shift;
	uint8_t *slots;
};

/** lane_shm_size() - Bytes of shared memory of a lane of @slot_cnt slots, a power of two in
 * LANE_CNT_MIN..MAX. */
size_t lane_shm_size(uint32_t slot_cnt);

/** lane_shm_init() - Make an empty lane of @mem, 64-byte aligned, before either side is
 * initialised. */
void lane_shm_init(void *mem, uint32_t slot_cnt);

/** lane_tx_init() - Producer of the empty lane at @mem, as mapped in this process. */
void lane_tx_init(struct lane_tx *tx, void *mem, uint32_t slot_cnt);

/** lane_rx_init() - Consumer of the empty lane at @mem, as mapped in this process, to which mostly @kind comes. */
void lane_rx_init(struct lane_rx *rx, void *mem, uint32_t slot_cnt, uint32_t kind);

/* The rare parts of the functions below; not for others. */
void *lane_reserve_turn(struct lane_tx *tx, uint32_t nslots);
uint32_t lane_look_other(struct lane_rx *rx, uint64_t *word);
void lane_scrub(struct lane_rx *rx);
void lane_turn(struct lane_rx *rx);

static inline _Atomic uint64_t *lane_word0(uint8_t *slots, uint32_t idx)
{
	return (_Atomic uint64_t *)(void *)(slots + (size_t)idx * LANE_SLOT);
}

/**
 * lane_first() - Where the positions of a lane of @slot_cnt slots begin: a lap before they wrap, so that this is
 * nothing special.
 */
static inline uint32_t lane_first(uint32_t slot_cnt)
{
	return 0u - slot_cnt;
}

static inline uint32_t lane_lap_tag(uint32_t pos, uint32_t lap_shift)
{
	return (uint16_t)(pos >> lap_shift) | LANE_LAP_SET;
}

/**
 * lane_acked() - Slots the consumer has released so far; same unit as lane_tx_pos(), never ahead of
 * it. A position that goes back or runs ahead comes from a hostile peer and acknowledges nothing
 * more.
 */
static inline uint32_t lane_acked(struct lane_tx *tx)
{
	/* acquire: the consumer's last reads before our next writes; pairs with the release in
	 * lane_publish() */
	uint32_t head = atomic_load_explicit(tx->head, memory_order_acquire);

	if (likely(head - tx->head_seen <= tx->pos - tx->head_seen))
		tx->head_seen = head;
	return tx->head_seen;
}

/** lane_nslots() - Slots of a message of @bytes. */
static inline uint32_t lane_nslots(uint32_t bytes)
{
	return (bytes + LANE_WORD0 + LANE_SLOT - 1) / LANE_SLOT;
}

/**
 * lane_reserve_seen() - lane_reserve() in what is known to be free, as far as @tx->head_seen says: for producers that
 * need what the consumer has released a while longer and move that on by themselves. What they do not commit they
 * have not written to, beyond its first slot, which the next header begins: nothing is remembered of it.
 */
static inline void *lane_reserve_seen(struct lane_tx *tx, uint32_t bytes)
{
	uint32_t nslots = lane_nslots(bytes);

	assert(bytes <= LANE_MSG_MAX);
	if (unlikely(nslots > tx->avail))
		return lane_reserve_turn(tx, nslots);
	return tx->slots + (size_t)(tx->pos & tx->mask) * LANE_SLOT + LANE_WORD0;
}

/**
 * lane_reserve() - Room for the next message; it replaces an earlier one that was not committed.
 * @bytes: payload bytes, <= LANE_MSG_MAX.
 * Return: at least @bytes writable bytes, 8-byte aligned, contiguous; NULL when there is no room
 * now.
 */
void *lane_reserve(struct lane_tx *tx, uint32_t bytes);

/**
 * lane_commit_at() - Publish what lane_reserve_seen() has given, @nslots slots at @slot, with @user40, of 40 bits,
 * beside it.
 */
static inline void lane_commit_at(struct lane_tx *tx, void *slot, uint32_t nslots, uint64_t user40)
{
	assert(nslots && nslots <= tx->avail && !(user40 & ~LANE_W_USER) &&
	       tx->lap == (uint64_t)lane_lap_tag(tx->pos, tx->lap_shift) << LANE_LAP_SHIFT);
	/* release: payload before header; pairs with the acquire in lane_peek() */
	atomic_store_explicit((_Atomic uint64_t *)slot - 1, tx->lap | (uint64_t)nslots << LANE_NSLOTS_SHIFT | user40,
			      memory_order_release);
	tx->pos += nslots;
	tx->avail -= nslots;
}

/** lane_commit() - Publish what lane_reserve() has given, with the low 40 bits of @user40 beside it. */
void lane_commit(struct lane_tx *tx, uint64_t user40);

/**
 * lane_fetch_ahead() - Begin to fetch, for writing, @nslots lines (at least 1), @ahead slots behind the last message.
 * The consumer has read them a lap ago, and reads them again while it waits.
 */
static inline void lane_fetch_ahead(const struct lane_tx *tx, uint32_t ahead, uint32_t nslots)
{
	uint32_t pos = tx->pos + ahead;

	do {
		fetch_to_write(tx->slots + (size_t)(pos++ & tx->mask) * LANE_SLOT);
	} while (unlikely(--nslots));
}

/** lane_tx_pos() - Slots published so far, free running: this much acknowledged means all of it. */
static inline uint32_t lane_tx_pos(const struct lane_tx *tx)
{
	return tx->pos;
}

/** lane_rx_pos() - Slots consumed so far, free running: where the next record begins. */
static inline uint32_t lane_rx_pos(const struct lane_rx *rx)
{
	return rx->turn - (uint32_t)rx->left;
}

/** lane_publish() - Tell the producer what has been consumed; call at the end of a poll pass that did. */
static inline void lane_publish(struct lane_rx *rx)
{
	/* release: our reads and zeroing before the producer's reuse; pairs with lane_acked() */
	atomic_store_explicit(rx->head, lane_rx_pos(rx), memory_order_release);
}

/* The tag of the lap in which position @pos is, for the comparisons of lane_look() and lane_is_usual(). */
static inline void lane_rx_lap(struct lane_rx *rx, uint32_t pos)
{
	rx->lap = lane_lap_tag(pos, rx->lap_shift);
	rx->usual = rx->lap << (LANE_LAP_SHIFT - LANE_KIND_SHIFT) | 1u << (LANE_NSLOTS_SHIFT - LANE_KIND_SHIFT) |
		    rx->kind;
}

/** lane_shut() - Nothing that is in the lane, or comes into it, is shown any more. */
static inline void lane_shut(struct lane_rx *rx)
{
	rx->lap = rx->usual = LANE_LAP_NEVER;
}

/** lane_word() - What is where the next message begins: for lane_is_usual(), and lane_look(), which tell what it is. */
static inline uint64_t lane_word(const struct lane_rx *rx)
{
	/* acquire; pairs with the release in lane_commit() */
	return atomic_load_explicit((_Atomic uint64_t *)(void *)rx->next, memory_order_acquire);
}

/** lane_is_next() - Is @word, of lane_word(), of something to look at? lane_look() may find that it is nonsense. */
static inline bool lane_is_next(const struct lane_rx *rx, uint64_t word)
{
	return word >> LANE_LAP_SHIFT == rx->lap;
}

/** lane_has() - Is there something to look at? */
static inline bool lane_has(const struct lane_rx *rx)
{
	return lane_is_next(rx, lane_word(rx));
}

/** lane_is_usual() - Does @word begin a message of one slot, of the kind that mostly comes here? */
static inline bool lane_is_usual(const struct lane_rx *rx, uint64_t word)
{
	return word >> LANE_KIND_SHIFT == rx->usual;
}

/**
 * lane_look() - How many slots the message has that *@word begins, of lane_word(); behind a skip, which it passes over,
 * *@word is the next one's. The payload follows the word at @rx->next. Return: 0: there is none, or the lane is broken.
 */
static inline __attribute__((always_inline)) uint32_t lane_look(struct lane_rx *rx, uint64_t *word)
{
	uint32_t nslots = (uint32_t)FIELD_GET(LANE_W_NSLOTS | LANE_W_SKIP, *word);

	if (*word >> LANE_LAP_SHIFT != rx->lap)
		return 0;
	if (unlikely(nslots - 1 >= (uint32_t)rx->left)) { /* a skip, or it goes beyond the next turn, or nonsense */
		uint64_t other = *word; /* the call's own, so that the caller's need not be in memory */

		nslots = lane_look_other(rx, &other);
		*word = other;
	}
	return nslots;
}

/** lane_cap() - Payload bytes that @nslots slots hold: what the sender had, rounded up to a slot's end. */
static inline uint32_t lane_cap(uint32_t nslots)
{
	return nslots * LANE_SLOT - LANE_WORD0;
}

/** lane_pass() - Consume the message of @nslots slots that was looked at; do not touch it afterwards. */
static inline void lane_pass(struct lane_rx *rx, uint32_t nslots)
{
	rx->cur = nslots;
	if (unlikely(nslots > 1)) {
		lane_scrub(rx);
		rx->next += (size_t)(nslots - 1) * LANE_SLOT;
		rx->left -= (int32_t)(nslots - 1);
	}
	rx->next += LANE_SLOT;
	if (unlikely(--rx->left <= 0))
		lane_turn(rx);
}

/**
 * lane_peek() - The next message; the same one until lane_next().
 * @cap_bytes: receives the bytes that its slots hold, lane_cap().
 * @user40:    receives lane_commit()'s @user40.
 * Return:     the payload, 8-byte aligned; the peer may still change it. NULL if there is none (the
 *             out-parameters are unchanged), or if the lane is broken.
 *
 * Each poll asks, so it is inlined however large the rest of a module is: optimising all of it at
 * once the compiler has a limit on what inlining may add, and 30 instructions per message hang on it.
 */
static inline __attribute__((always_inline)) void *lane_peek(struct lane_rx *rx, uint32_t *cap_bytes, uint64_t *user40)
{
	uint64_t word = lane_word(rx);
	uint32_t nslots = lane_look(rx, &word);

	if (!nslots)
		return NULL;
	rx->cur = nslots;
	*cap_bytes = lane_cap(nslots);
	*user40 = word & LANE_W_USER;
	return rx->next + LANE_WORD0;
}

/** lane_next() - Consume the message that lane_peek() returned; do not touch it afterwards. */
static inline void lane_next(struct lane_rx *rx)
{
	assert(rx->cur);
	lane_pass(rx, rx->cur);
}

#endif
