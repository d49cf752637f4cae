// SPDX-License-Identifier: BSD-2-Clause
// A lane and a staging arena whose memory is what a hostile producer wrote, and changes while it is read; and an honest
// producer of that lane, to whom head and slots lie.
#include "fuzz.h"

#include "base/base.h"
#include "base/lane.h"
#include "base/stage.h"

#define SLOTS 32u

static void scribble(struct fuzz *f, uint8_t *mem, size_t len)
{
	size_t at = fuzz_u16(f) % len, n = fuzz_u8(f);

	fuzz_get(f, mem + at, MIN(n, len - at));
}

static void produce(struct fuzz *f, struct lane_tx *tx)
{
	uint32_t bytes = fuzz_u16(f) % (LANE_MSG_MAX + 1);
	uint8_t *p = lane_reserve(tx, bytes);

	FUZZ_CHECK(tx->pos - tx->head_seen <= SLOTS);
	if (!p)
		return;
	FUZZ_CHECK(p >= tx->slots && p + bytes <= tx->slots + SLOTS * LANE_SLOT);
	memset(p, 0xaa, bytes);
	if (fuzz_u8(f) % 4)
		lane_commit(tx, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = lane_shm_size(SLOTS), stage_len = stage_shm_size(16);
	uint8_t *mem = aligned_alloc(64, ALIGN_UP(len, 64)), *arena = aligned_alloc(64, ALIGN_UP(stage_len, 64));
	struct fuzz f = {data, size};
	struct stage_rx stage;
	struct lane_tx tx;
	struct lane_rx rx;
	volatile uint8_t sum = 0;

	lane_shm_init(mem, SLOTS);
	memset(arena, 0, stage_len);
	lane_tx_init(&tx, mem, SLOTS);
	lane_rx_init(&rx, mem, SLOTS, 0);
	stage_rx_init(&stage, arena, 16);
	for (int i = 0; i < 200 && f.left; i++) {
		uint32_t cap = 0, gran = (uint32_t)fuzz_u64(&f), want = fuzz_u16(&f);
		const uint8_t *p;
		uint64_t user;

		if (fuzz_u8(&f) % 2)
			produce(&f, &tx);
		else
			scribble(&f, mem, len);
		p = lane_peek(&rx, &cap, &user);
		for (uint32_t k = 0; p && k < cap; k++)
			sum = (uint8_t)(sum + p[k]);
		if (p && fuzz_u8(&f) % 4)
			lane_next(&rx);
		lane_publish(&rx);
		p = stage_rx_ptr(&stage, gran, want);
		for (uint32_t k = 0; p && k < want; k++)
			sum = (uint8_t)(sum + p[k]);
	}
	free(mem);
	free(arena);
	return 0;
}
