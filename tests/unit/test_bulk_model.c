// SPDX-License-Identifier: BSD-2-Clause
// Operations under everything that may happen to them in any order, a peer that writes into the shared table included:
// each ends once, and none has a turn that it cannot have.
#include "bulk_modes.h"

#include <errno.h>

#define OPS   6
#define STEPS 400

/* Fields of the shared table as a peer may write them: see struct tab_hdr, tab_slot and tab_entry. */
#define OFF_PARTIAL 32
#define OFF_SLOT    4096u
#define OFF_LEASE   8
#define OFF_ENTRY   (OFF_SLOT + BULK_SLOT_NUM * 64u)
#define OFF_KEY	    16

static uint8_t g_mem[MIB], g_local[OPS][MIB];

/* The @n-th table that is mapped here; NULL: there are not so many. */
static uint8_t *table(int n)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long at = 0, found = 0;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (strstr(line, "softfabric-mr-") && sscanf(line, "%lx", &at) == 1 && !n--)
			found = at;
	}
	if (f)
		fclose(f);
	return (uint8_t *)found;
}

static void put32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, sizeof(v));
}

struct look {
	struct rng *r;
	uint8_t *tab[2];
};

/* A lease on what the owner fills for @obj, or an answer that nobody has sent. */
static void meddle(void *obj, void *arg)
{
	struct look *l = arg;
	struct bulk_op *op = obj;
	uint8_t buf[BULK_HDR_MAX];
	struct bulk_pkt pkt = {.type = BULK_T_REPLY,
			       .status = (enum bulk_status)rng_below(l->r, BULK_S_NUM),
			       .id = slab_id(&fp.port[0].bulk->ops, op),
			       .tag = op->tag,
			       .bytes = rng_chance(l->r, 0.5) ? op->len - op->copy_end : rng_u64(l->r)};
	struct view v = view_of(buf, (uint32_t)bulk_pkt_encode(&pkt, buf));

	for (int i = 0; i < 2 && op->help_key && l->tab[i]; i++) {
		memcpy(l->tab[i] + OFF_SLOT + 64 * 400, l->tab[i] + OFF_SLOT, 8); /* of a process that lives: us */
		put32(l->tab[i] + OFF_SLOT + 64 * 400 + OFF_LEASE,
		      rng_chance(l->r, 0.5) ? op->help_key % BULK_ENTRY_MIN + 1 : 0);
	}
	if (rng_chance(l->r, 0.1))
		bulk_on_frame(fp.port[0].bulk, &fp.peer[0][1], &v);
}

static void spoil(struct look *l, uint32_t key)
{
	struct rng *r = l->r;

	for (int i = 0; i < 2 && l->tab[i]; i++) {
		put32(l->tab[i] + 28, 512); /* slots in use */
		put32(l->tab[i] + OFF_PARTIAL, rng_chance(r, 0.5));
		if (rng_chance(r, 0.3))
			put32(l->tab[i] + OFF_ENTRY + key % BULK_ENTRY_MIN * 32 + OFF_KEY,
			      rng_chance(r, 0.5) ? key : 0);
	}
	fp.shm[0][1].has_no_cma = rng_chance(r, 0.1);
	fp.shm[1][0].has_no_cma = rng_chance(r, 0.1);
	fp.shm[0][1].is_polling = rng_chance(r, 0.8);
}

static void one_event(struct look *l, struct fp_done *d, bool *is_busy, uint32_t key)
{
	int i = (int)rng_below(l->r, OPS);

	switch (rng_below(l->r, 6)) {
	case 0:
		if (!is_busy[i] &&
		    !bulk(0, 1, rng_chance(l->r, 0.8) ? LINK_GET : LINK_PUT, g_local[i], MIB, g_mem, key, &d[i]))
			is_busy[i] = true;
		break;
	case 1:
		spoil(l, key);
		break;
	case 2:
		slab_foreach(&fp.port[0].bulk->ops, meddle, l);
		break;
	case 3:
		fp_pass_without(1);
		break;
	case 4:
		fp.now_ns += rng_below(l->r, 200) * NS_PER_US;
		break;
	default:
		fp_pass();
	}
	for (i = 0; i < OPS; i++) {
		if (is_busy[i] && d[i].cnt) {
			assert_int_equal(d[i].cnt, 1);
			is_busy[i] = false;
		}
	}
}

static void bulk__any_order(void **state)
{
	struct rng r = unit_rng();

	if (!has_cma())
		skip();
	for (int round = 0; round < 150; round++) {
		struct fp_done d[OPS] = {0};
		bool is_busy[OPS] = {0};
		struct look l = {.r = &r};
		uint32_t key;

		open_mode(round % 3 ? HELPED : MIXED);
		key = region(1, g_mem, MIB, LINK_GET | LINK_PUT);
		for (int i = 0; i < STEPS; i++) {
			if (i % 20 == 0) {
				l.tab[0] = table(0);
				l.tab[1] = l.tab[0] ? table(1) : NULL;
			}
			one_event(&l, d, is_busy, key);
			assert_int_equal(fp.peer[0][1].dead, 0);
		}
		for (int i = 0; i < 2 && l.tab[i]; i++)
			put32(l.tab[i] + OFF_SLOT + 64 * 400 + OFF_LEASE, 0);
		fp.shm[0][1].has_no_cma = false;
		for (int n = 0; n < 500; n++)
			fp_pass();
		/* who was told lies may wait for the truth for as long as the liar lives */
		fp_peer_dead(0, 1, -ECONNREFUSED);
		for (int n = 0; n < 500; n++)
			fp_pass();
		for (int i = 0; i < OPS; i++)
			assert_true(!is_busy[i] || d[i].cnt == 1);
		fp_close();
	}
}

/* A write that the kernel took over from frames, and that goes back to these since the table lacks its region. */
static void bulk__put_by_frames_again(void **state)
{
	struct fp_done d;
	uint32_t key;

	if (!has_cma())
		skip();
	open_mode(MIXED);
	memset(g_local[0], 5, MIB);
	key = region(1, g_mem, MIB, LINK_PUT);
	put32(table(0) + OFF_ENTRY + key % BULK_ENTRY_MIN * 32 + OFF_KEY, 0);
	put32(table(0) + OFF_PARTIAL, 1);
	assert_int_equal(bulk(0, 1, LINK_PUT, g_local[0], MIB, g_mem, key, &d), 0);
	for (int i = 0; i < 200; i++)
		fp_pass_without(1);
	assert_true(fp.port[0].stats.bulk_ring_bytes > 0);
	assert_true(bulk_target_get(fp.node[0].bulk, &fp.peer[0][1], fp.now_ns)->silent_ns);
	assert_int_equal(fp.port[0].stats.bulk_cma_bytes, 0);
	assert_true(fp_run(&d, PASSES));
	assert_int_equal(d.status, 0);
	assert_memory_equal(g_local[0], g_mem, MIB);
	fp_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk__any_order),
		cmocka_unit_test(bulk__put_by_frames_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
