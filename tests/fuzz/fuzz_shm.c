// SPDX-License-Identifier: BSD-2-Clause
// A port of the same-host path whose segment a hostile peer writes to at will, also into the lane that it was given.
#include "../unit/unit.h"
#include "../unit/shm_fake.h"
#include "fuzz.h"

/* The parts of a segment that a peer may write: everything up to the staging arena that has memory. */
static void scribble(struct fuzz *f, struct fake *to)
{
	struct shm_seg *seg = to->s->seg;
	size_t top = (size_t)((uint8_t *)shm_shared_at(seg, SHM_SHARED_CNT) - seg->base);
	size_t at = fuzz_u16(f) % 4 ? fuzz_u16(f) % sizeof(struct shm_hdr) : (size_t)fuzz_u64(f) % top, n = fuzz_u8(f);

	if (at < top)
		fuzz_get(f, seg->base + at, MIN(n, top - at));
}

static int look(struct fake *f, struct link_peer *peer, enum link_kind kind, const struct view *v)
{
	static uint8_t buf[65536];

	return (int)(view_copy(v, 0, buf, sizeof(buf)) & 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fake *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	uint32_t salt = (uint32_t)getpid();
	struct link_addr at_a = fake_addr(salt, 1, 7), at_b = fake_addr(salt, 2, 9);
	struct fuzz f = {data, size};
	static uint8_t mem[4096];

	a->on_frame = b->on_frame = look;
	if (fake_open(a, &at_a) || fake_open(b, &at_b)) {
		free(a);
		free(b);
		return 0;
	}
	for (int i = 0; i < 64 && f.left; i++) {
		switch (fuzz_u8(&f) % 4) {
		case 0:
			fake_send(b, &at_a, mem, fuzz_u16(&f) % sizeof(mem), NULL);
			break;
		case 1:
			fake_send(a, &at_b, mem, fuzz_u16(&f) % sizeof(mem), NULL);
			break;
		case 2:
			scribble(&f, a);
			break;
		case 3:
			break;
		}
		fake_poll(a);
		fake_poll(b);
	}
	fake_close(b);
	fake_close(a);
	free(a);
	free(b);
	return 0;
}
