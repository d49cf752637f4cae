// SPDX-License-Identifier: BSD-2-Clause
// Two ports of the same-host path whose segments a hostile peer writes to at will, also into lanes that it was given;
// and either is declared dead by the other, whose lane it then has revoked, goes on, and comes back.
#include "../unit/unit.h"
#include "../unit/shm_fake.h"
#include "fuzz.h"

static uint64_t clock_ns;
static uint8_t mem[4096];

/*
 * What of a segment peers know: header, shared lanes, the first descriptors, codes, lanes, and granules of its arena.
 */
static void scribble(struct fuzz *f, struct fake *to)
{
	struct shm_seg *seg = to->s->seg;
	const struct {
		size_t at, len;
	} part[] = {
		{0, sizeof(struct shm_hdr)},
		{offsetof(struct shm_hdr, state), sizeof(struct shm_hdr) - offsetof(struct shm_hdr, state)},
		{offsetof(struct shm_hdr, shared), sizeof(seg->hdr->shared)},
		{SHM_SHARED_OFF, (size_t)((uint8_t *)shm_shared_at(seg, SHM_SHARED_CNT) - seg->base) - SHM_SHARED_OFF},
		{SHM_DESC_OFF, 3 * sizeof(struct shm_desc)},
		{SHM_CODES_OFF, 2 * SHM_BLOCK_CODES},
		{SHM_LANE_OFF, SHM_LANE_BYTES(SHM_SLOTS_BIG)},
		{SHM_STAGE_OFF, SHM_STAGE_GRANS_MIN},
	};
	unsigned k = fuzz_u8(f) % ARRAY_SIZE(part);
	size_t at = fuzz_u16(f) % part[k].len, n = MIN((size_t)fuzz_u8(f), part[k].len - at);

	at += part[k].at;
	if (!shm_seg_reserve(seg, at, n))
		fuzz_get(f, seg->base + at, n);
}

/* @who is told by the owner @by of the segment, or believes to be told, what has become of a lane. */
static void change_desc(struct fuzz *f, struct fake *by, struct fake *who)
{
	uint8_t idx = fuzz_u8(f) % 2, how = fuzz_u8(f);
	struct shm_desc *d = shm_desc_at(by->s->seg, idx);

	if (shm_seg_reserve(by->s->seg, SHM_DESC_OFF, 2 * sizeof(*d)))
		return;
	if (how & 1)
		atomic_store(&d->state, fuzz_u8(f) % (SHM_D_REVOKED + 2));
	if (how & 2)
		atomic_fetch_add(&d->turn, 1);
	if (how & 4)
		atomic_fetch_add(&who->s->seg->hdr->lane_gen, 1);
	if (how & 8)
		atomic_fetch_add(&by->s->seg->hdr->lane_gen, 1);
}

static int look(struct fake *f, struct link_peer *peer, enum link_kind kind, const struct view *v)
{
	static uint8_t buf[65536];

	buf[0] = 0;
	return (int)(view_copy(v, 0, buf, sizeof(buf)) ? buf[0] % 4 : 0);
}

static void send_one(struct fuzz *f, struct fake *from, const struct link_addr *to)
{
	struct link_peer *peer = fake_peer(from, to);
	uint8_t how = fuzz_u8(f), *slot;
	size_t len = fuzz_u16(f) % sizeof(mem);

	mem[0] = how;
	if (how % 4 || peer->dead || !peer->shm) {
		fake_send(from, to, mem, len, how & 16 ? mem : NULL);
		return;
	}
	len = 1 + len % LINK_OWN_MAX;
	slot = shm_begin(peer->shm, len, false);
	if (!slot)
		return;
	memcpy(slot, mem, len);
	shm_commit(peer->shm, slot, len, false, how & 16 ? mem : NULL, how);
}

/* Nothing has been heard of it; later it is there again. */
static void declare_dead(struct fake *by, const struct link_addr *who)
{
	struct link_peer *peer = fake_peer(by, who);

	if (peer->shm)
		shm_peer_doom(peer->shm, -ETIMEDOUT);
	else
		peer->dead = 0;
}

static bool port_open(struct fake *p, const struct link_addr *self, uint64_t budget)
{
	p->on_frame = look;
	p->node.clk.virt_ns = &clock_ns;
	if (fake_open(p, self))
		return false;
	p->room.shm_budget = budget; /* 1: there is nothing for lanes, all go through the shared ones */
	return true;
}

static void play(struct fuzz *f, struct fake *port, const struct link_addr *at)
{
	for (int i = 0; i < 64 && f->left; i++) {
		uint8_t what = fuzz_u8(f), me = what >> 7;

		switch (what % 8) {
		case 0:
		case 1:
			send_one(f, &port[me], &at[!me]);
			break;
		case 2:
			scribble(f, &port[me]);
			break;
		case 3:
			change_desc(f, &port[me], &port[!me]);
			break;
		case 4:
			declare_dead(&port[me], &at[!me]);
			break;
		case 5:
			clock_ns += fuzz_u16(f) * NS_PER_MS;
			break;
		}
		if (!(what & 64))
			fake_poll(&port[0]);
		if (!(what & 32))
			fake_poll(&port[1]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fake *port = calloc(2, sizeof(*port));
	uint32_t salt = (uint32_t)getpid();
	struct link_addr at[2] = {fake_addr(salt, 1, 7), fake_addr(salt, 2, 9)};
	struct fuzz f = {data, size};
	uint8_t how = fuzz_u8(&f);

	clock_ns = NS_PER_SEC;
	if (port_open(&port[0], &at[0], how & 1)) {
		if (port_open(&port[1], &at[1], how >> 1 & 1)) {
			play(&f, port, at);
			fake_close(&port[1]);
		}
		fake_close(&port[0]);
	}
	free(port);
	return 0;
}
