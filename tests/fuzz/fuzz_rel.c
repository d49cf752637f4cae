// SPDX-License-Identifier: BSD-2-Clause
// The reliability module as a whole: two honest ports and one that sends what the fuzzer likes, in virtual time.
#include "../unit/unit.h"
#include "../unit/rel_rig.h"
#include "fuzz.h"

#include "link/rel_int.h"

/* A datagram that fits the pair of @n with its peer but for what the fuzzer changes: else everything ends at the nonce. */
static size_t forge(struct fuzz *f, struct rig *g, uint8_t *buf, size_t cap)
{
	size_t len = fuzz_u16(f) % cap;
	struct link_peer *peer = g->n[0].peers;

	fuzz_get(f, buf, len);
	for (; peer && !peer->rel; peer = peer->hnext)
		;
	if (peer && len >= 16 && (buf[0] & 1))
		memcpy(buf + 8, &peer->rel->pair, 8);
	return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sim_attr attr = {.seed = 1};
	struct fuzz f = {data, size};
	struct rig *g = calloc(1, sizeof(*g));
	uint8_t *buf = malloc(2048);

	rig_open(g, 3, (enum link_class)(fuzz_u8(&f) % LINK_CLASS_NUM), &attr, NULL);
	g->is_lenient = true;
	for (int i = 0; i < 64 && f.left; i++) {
		switch (fuzz_u8(&f) % 4) {
		case 0:
			rig_send(g, fuzz_u8(&f) % 2, 2, 32 + fuzz_u16(&f) % 4000);
			break;
		case 1:
		case 2:
			size = forge(&f, g, buf, 1500);
			rel_input(g->n[0].port.rel, &g->n[fuzz_u8(&f) % 3].port.self, buf, size, rig_now(g));
			rel_flush(g->n[0].port.rel, rig_now(g));
			break;
		case 3:
			rig_run_for(g, (uint64_t)fuzz_u16(&f) * 100000);
			break;
		}
	}
	rig_run_for(g, 10 * NS_PER_SEC);
	rig_close(g);
	free(buf);
	free(g);
	return 0;
}
