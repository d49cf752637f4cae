// SPDX-License-Identifier: BSD-2-Clause
// Staging arena: the sender's payload memory in a shared segment, recycled first in, first out.
//
// Theory of operation: shared memory is one busy flag per granule of 1 KiB, then, page aligned, the
// granules. The sender takes runs of contiguous granules from a cursor that only goes forward and
// wraps; a descriptor {granule, length} travels in a lane. The receiver clears the flag of a run's
// first granule when it has copied. The sender looks at flags only where its cursor meets old runs,
// so taking a run that replaces one of the same size costs one load. A run that a slow receiver
// still holds is jumped over; it does not stop the others.
//
// Forward, not last-freed-first: a line that still sits in the peer's L2 is slow to write (~7 ns),
// one that has been evicted to the shared L3 is not. Walking through an arena larger than L2 makes
// 30-40 GB/s out of 9 (doc/facts/machine.md#rings-larger-than-the-second-level-cache).
//
// Trust: lengths of runs are private to the sender, so a hostile receiver can at worst have the
// sender overwrite a run too early, i.e. spoil payloads. The receiver checks granule and length.
#ifndef SF_BASE_STAGE_H
#define SF_BASE_STAGE_H

#include <stdatomic.h>

#include "base/base.h"

#define STAGE_GRAN    1024	 /* bytes */
#define STAGE_ALIGN   4096	 /* of the shared memory and of the data in it, bytes */
#define STAGE_RUN_MAX UINT16_MAX /* granules */
#define STAGE_LEN_MAX ((size_t)STAGE_RUN_MAX * STAGE_GRAN)

/* The owner's (sender's) side. Locking: none, one thread at a time. */
struct stage {
	uint8_t *data;
	_Atomic uint8_t
		*busy; /* [gran_cnt], shared: not 0 while a run that begins here is in use */
	uint16_t *run; /* [gran_cnt], private: length of the run that begins here; 0 = none */
	uint32_t gran_cnt;
	uint32_t cursor; /* where the search begins; never inside a run */
};

/* A peer's (receiver's) view of the owner's arena. */
struct stage_rx {
	const uint8_t *data;
	_Atomic uint8_t *busy;
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

/** stage_fini() - Free the private memory; receivers may still hold runs. */
void stage_fini(struct stage *s);

/**
 * stage_alloc() - Take the next free run going forward from the last one.
 * @len:   bytes, 1..STAGE_LEN_MAX.
 * @gran:  receives the run's first granule, to be sent to the receiver.
 * Return: 64-byte aligned memory of at least @len bytes; NULL if one lap finds no room.
 */
void *stage_alloc(struct stage *s, size_t len, uint32_t *gran);

/**
 * stage_cancel() - Take back a run that no receiver knows of, or whose receiver is dead.
 * @gran: as returned by stage_alloc().
 */
void stage_cancel(struct stage *s, uint32_t gran);

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

/** stage_rx_release() - Give the run that begins at @gran back; a number outside the arena does
 * nothing. */
static inline void stage_rx_release(struct stage_rx *rx, uint32_t gran)
{
	if (unlikely(gran >= rx->gran_cnt))
		return;
	/* release: our reads before the run's reuse; pairs with the acquire in stage.c: step() */
	atomic_store_explicit(&rx->busy[gran], 0, memory_order_release);
}

#endif
