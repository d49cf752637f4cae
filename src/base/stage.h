// SPDX-License-Identifier: BSD-2-Clause
// Staging arena: the sender's payload memory in a shared segment, recycled first in, first out.
//
// Theory of operation: shared memory is an array of granules of 1 KiB, and nothing else. The sender takes runs of
// contiguous granules from a cursor that goes forward and wraps; a descriptor {granule, length} travels in a lane. What
// is in use only the sender knows: a run is free when the lane has acknowledged its frame, so giving it back moves no
// cache line. A run that a slow receiver still holds is jumped over; it does not stop the others.
//
// Forward, not last-freed-first: a line that still sits in the peer's L2 is slow to write, one that has been evicted to
// the shared L3 is not, so walking through an arena larger than L2 is several times as fast
// (doc/measurements.md#the-staging-arena; doc/facts/machine.md#rings-larger-than-the-second-level-cache). But messages
// that go to and fro one at a time find nothing in use, and so does the first one of a window. They may begin again at
// the front, and how far they walk before that is learnt by base/walk.h.
//
// Trust: what is in use is private to the sender, and a receiver can at worst acknowledge early what it has not read,
// i.e. spoil its own payload. The receiver checks granule and length.
#ifndef SF_BASE_STAGE_H
#define SF_BASE_STAGE_H

#include "base/base.h"
#include "base/walk.h"

#define STAGE_GRAN    1024	 /* bytes */
#define STAGE_ALIGN   4096	 /* of the shared memory, bytes */
#define STAGE_RUN_MAX INT16_MAX	 /* granules */
#define STAGE_FETCH_MAX 1024	 /* bytes */
#define STAGE_LEN_MAX ((size_t)STAGE_RUN_MAX * STAGE_GRAN)

/* The owner's (sender's) side. Locking: none, one thread at a time. */
struct stage {
	uint8_t *data;
	uint16_t *run; /* [gran_cnt] length of the run that begins here, and whether it is in use; 0 = none */
	uint32_t gran_cnt;
	uint32_t cursor; /* where the search begins; never inside a run */
	uint32_t used;	 /* granules in use */
	struct walk walk;
};

/* A peer's (receiver's) view of the owner's arena. */
struct stage_rx {
	const uint8_t *data;
	uint32_t gran_cnt;
};

/** stage_shm_size() - Bytes of shared memory of an arena of @gran_cnt granules. */
size_t stage_shm_size(uint32_t gran_cnt);

/**
 * stage_init() - Make an empty arena and become its owner.
 * @mem:   stage_shm_size(@gran_cnt) bytes at a multiple of STAGE_ALIGN; stays the caller's.
 * Return: 0; -ENOMEM.
 */
int stage_init(struct stage *s, void *mem, uint32_t gran_cnt);

/** stage_fini() - Free the private memory; receivers may still read runs. */
void stage_fini(struct stage *s);

/**
 * stage_alloc() - Take the next free run going forward from the last one.
 * @len:   bytes, 1..STAGE_LEN_MAX.
 * @gran:  receives the run's first granule, to be sent to the receiver.
 * Return: 64-byte aligned memory of at least @len bytes; NULL if one lap finds no room.
 */
void *stage_alloc(struct stage *s, size_t len, uint32_t *gran);

/**
 * stage_free() - Give a run back that no receiver reads any more: it has been acknowledged, or its reader is gone.
 * @gran: as returned by stage_alloc().
 */
void stage_free(struct stage *s, uint32_t gran);

/** stage_cancel() - As stage_free(), of a run that no receiver has ever known of. */
void stage_cancel(struct stage *s, uint32_t gran);

/**
 * stage_fetch_next() - Begin to fetch the lines of the next run, for writing, if it begins at the cursor and is as long
 * as this one. The receiver has read them a lap ago, so that they are in its cache or in a shared one. To be called
 * when a run has been handed over: what fills the next one then waits for no line.
 * @len: bytes of this one; of more than STAGE_FETCH_MAX the rest comes while these are written.
 */
static inline void stage_fetch_next(const struct stage *s, size_t len)
{
	const uint8_t *next = s->data + (size_t)s->cursor * STAGE_GRAN;

	for (size_t at = 0; at < MIN(len, (size_t)STAGE_FETCH_MAX); at += CACHE_LINE)
		fetch_to_write(next + at);
}

/** stage_rx_init() - View the arena of @gran_cnt granules at @mem, as mapped in this process. */
void stage_rx_init(struct stage_rx *rx, void *mem, uint32_t gran_cnt);

/** stage_rx_ptr() - Where @len bytes from granule @gran on lie; NULL if they are not inside the
 * arena. */
static inline const uint8_t *stage_rx_ptr(const struct stage_rx *rx, uint32_t gran, size_t len)
{
	if (unlikely(gran >= rx->gran_cnt || len > (size_t)(rx->gran_cnt - gran) * STAGE_GRAN))
		return NULL;
	return rx->data + (size_t)gran * STAGE_GRAN;
}

#endif
