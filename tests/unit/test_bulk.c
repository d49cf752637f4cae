// SPDX-License-Identifier: BSD-2-Clause
// One-sided copies over a fake path: every method against a byte-array model, refusals, and every
// way to end early.
#include "unit.h"

#include <sys/mman.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "bulk_modes.h"

#define LANES	 8
#define LANE_LEN (256u << 10)

static void fill(struct rng *r, uint8_t *p, size_t len)
{
	uint64_t x = rng_u64(r);

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(x >> (i % 7 * 8)) ^ (uint8_t)(i >> 3);
}

/* --- against the model ------------------------------------------------------------------------ */

/* A lane has its own piece of both memories and one operation at a time. */
struct lane_op {
	struct fp_done done;
	bool is_busy;
};

static uint8_t g_local[LANES][LANE_LEN], g_local_model[LANES][LANE_LEN];
static uint8_t g_remote[LANES][LANE_LEN], g_remote_model[LANES][LANE_LEN];

static void lane_start(struct rng *r, struct lane_op *op, int i, uint32_t key)
{
	size_t len = rng_chance(r, 0.5) ? rng_below(r, 5000) : rng_below(r, LANE_LEN);
	size_t at = rng_below(r, LANE_LEN - len + 1), rat = rng_below(r, LANE_LEN - len + 1);
	int kind = rng_chance(r, 0.5) ? LINK_GET : LINK_PUT;

	fill(r, g_local[i], LANE_LEN);
	memcpy(g_local_model[i], g_local[i], LANE_LEN);
	if (kind == LINK_GET)
		memcpy(g_local_model[i] + at, g_remote[i] + rat, len);
	else
		memcpy(g_remote_model[i] + rat, g_local[i] + at, len);
	assert_int_equal(bulk(0, 1, kind, g_local[i] + at, len, g_remote[i] + rat, key, &op->done),
			 0);
	op->is_busy = true;
}

static void lane_finish(struct lane_op *op, int i)
{
	assert_int_equal(op->done.cnt, 1);
	assert_int_equal(op->done.status, 0);
	assert_memory_equal(g_local[i], g_local_model[i], LANE_LEN);
	assert_memory_equal(g_remote[i], g_remote_model[i], LANE_LEN);
	op->is_busy = false;
}

static void model_run(struct rng *r, enum mode m, int ops)
{
	struct lane_op op[LANES] = {0};
	const struct link_stats *st;
	int begun = 0, ended = 0;
	uint32_t key;

	open_mode(m);
	key = region(1, g_remote, sizeof(g_remote), LINK_GET | LINK_PUT);
	for (int i = 0; i < LANES; i++)
		fill(r, g_remote[i], LANE_LEN);
	memcpy(g_remote_model, g_remote, sizeof(g_remote));
	fp.is_slow = true;
	for (int pass = 0; ended < ops; pass++) {
		assert_true(pass < 100 * PASSES);
		if (pass % 64 == 0)
			fp.q_cap = (int)(1 + rng_below(r, 300));
		for (int i = 0; i < LANES; i++) {
			fp.shm[0][1].is_polling = rng_chance(r, 0.7);
			if (op[i].is_busy && op[i].done.cnt) {
				lane_finish(&op[i], i);
				ended++;
			}
			if (!op[i].is_busy && begun < ops && rng_chance(r, 0.3)) {
				lane_start(r, &op[i], i, key);
				begun++;
			}
		}
		if (rng_chance(r, 0.1))
			fp_pass_without(1);
		else
			fp_pass();
	}
	st = link_port_stats(&fp.port[0]);
	print_message("%-14s ring %llu, kernel %llu, net %llu bytes\n", mode_name[m],
		      (unsigned long long)st->bulk_ring_bytes,
		      (unsigned long long)st->bulk_cma_bytes,
		      (unsigned long long)st->bulk_frame_bytes);
	assert_int_equal(st->drop_malformed, 0);
	assert_int_equal(fp.port[1].stats.drop_malformed, 0);
	assert_int_equal(!!st->bulk_ring_bytes, m == RING || m == MIXED);
	assert_int_equal(!!st->bulk_cma_bytes, m >= KERNEL && m <= MIXED);
	assert_int_equal(!!st->bulk_frame_bytes, m >= NET);
	assert_true(st->bulk_get_bytes && st->bulk_put_bytes);
	fp_close();
}

static void bulk__model(void **state)
{
	struct rng r = unit_rng();

	for (enum mode m = 0; m < MODE_NUM; m++) {
		if (m >= KERNEL && m <= MIXED && !has_cma())
			continue;
		model_run(&r, m, 600);
	}
}

static void bulk__4_mib_at_every_odd_alignment(void **state)
{
	uint8_t *a = malloc(4 * MIB + 64), *b = malloc(4 * MIB + 64);
	struct rng r = unit_rng();

	for (enum mode m = 0; m < MODE_NUM; m++) {
		if ((m == KERNEL || m == HELPED) && !has_cma())
			continue;
		for (int off = 0; off < 16; off += 5) {
			uint32_t key;

			open_mode(m);
			key = region(1, b, 4 * MIB + 64, LINK_GET | LINK_PUT);
			fill(&r, b, 4 * MIB + 64);
			assert_int_equal(bulk_run(LINK_GET, a + off, 4 * MIB, b + 7, key), 0);
			assert_memory_equal(a + off, b + 7, 4 * MIB);
			fill(&r, a, 4 * MIB + 64);
			assert_int_equal(bulk_run(LINK_PUT, a + 3, 4 * MIB, b + off, key), 0);
			assert_memory_equal(a + 3, b + off, 4 * MIB);
			fp_close();
		}
	}
	free(a);
	free(b);
}

static void bulk__self(void **state)
{
	static uint8_t src[100000], dst[100000];
	struct rng r = unit_rng();

	for (enum mode m = 0; m < MODE_NUM; m++) {
		struct fp_done d;
		uint32_t key;

		if ((m == KERNEL || m == HELPED) && !has_cma())
			continue;
		open_mode(m);
		fill(&r, src, sizeof(src));
		key = region(0, src, sizeof(src), LINK_GET);
		assert_int_equal(bulk(0, 0, LINK_GET, dst, sizeof(dst), src, key, &d), 0);
		assert_true(fp_run(&d, PASSES));
		assert_int_equal(d.status, 0);
		assert_memory_equal(src, dst, sizeof(src));
		fp_close();
	}
}

/* --- refusals --------------------------------------------------------------------------------- */

static void bulk__rights_range_and_key(void **state)
{
	static uint8_t mem[3000], local[3000], zero[3000];

	for (enum mode m = 0; m < MODE_NUM; m++) {
		uint32_t key_get, key_put, key_none;
		const struct {
			int op;
			size_t at, len;
			uint32_t *key;
			int status;
		} t[] = {
			{LINK_GET, 1000, 1000, &key_get, 0},
			{LINK_GET, 1000, 1001, &key_get, -EACCES},
			{LINK_GET, 999, 1, &key_get, -EACCES},
			{LINK_GET, 2000, 1, &key_get, -EACCES},
			{LINK_GET, 2000, 0, &key_get, 0},
			{LINK_GET, 1500, 0, &key_get, 0},
			{LINK_GET, 2001, 0, &key_get, -EACCES},
			{LINK_PUT, 1000, 1, &key_get, -EACCES},
			{LINK_PUT, 1000, 0, &key_get, -EACCES},
			{LINK_GET, 1000, 1, &key_put, -EACCES},
			{LINK_PUT, 1000, 1000, &key_put, 0},
			{LINK_PUT, 1999, 2, &key_put, -EACCES},
			{LINK_PUT, 1000, 0, &key_put, 0},
			{LINK_GET, 1000, 1, &key_none, -EACCES},
			{LINK_PUT, 1000, 1, &key_none, -EACCES},
			{LINK_GET, 0, 3000, &key_get, -EACCES},
		};

		if ((m == KERNEL || m == HELPED) && !has_cma())
			continue;
		open_mode(m);
		key_get = region(1, mem + 1000, 1000, LINK_GET);
		key_put = region(1, mem + 1000, 1000, LINK_PUT);
		key_none = region(1, mem + 1000, 1000, 0);
		for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
			int got = bulk_run(t[i].op, local, t[i].len, mem + t[i].at, *t[i].key);

			if (got != t[i].status)
				fail_msg("%s, row %zu: %d", mode_name[m], i, got);
		}
		assert_int_equal(bulk_run(LINK_GET, local, 1, mem + 1000, 0), -EACCES);
		assert_int_equal(bulk_run(LINK_GET, local, 1, mem + 1000, UINT32_MAX), -EACCES);
		assert_int_equal(bulk_run(LINK_GET, local, 1, mem + 1000, key_get ^ (1u << 20)),
				 -EACCES);
		/* a range that wraps around the address space */
		assert_int_equal(bulk_run(LINK_GET, local, 1000, (void *)(UINTPTR_MAX - 10), key_get), -EACCES);
		assert_memory_equal(mem, zero, sizeof(mem));
		assert_true(m != RING || fp.port[1].stats.drop_foreign > 10);
		fp_close();
	}
}

static void bulk__raw_needs_a_local_peer(void **state)
{
	uint8_t a[100] = {0}, b[100] = {1};
	struct fp_done d;
	uint32_t key;

	fp_open(LINK_RAW, false);
	key = region(1, b, sizeof(b), LINK_GET);
	assert_int_equal(bulk(0, 1, LINK_GET, a, sizeof(a), b, key, &d), -EOPNOTSUPP);
	fp_close();
	fp_open(LINK_RAW, true);
	key = region(1, b, sizeof(b), LINK_GET);
	assert_int_equal(bulk_run(LINK_GET, a, sizeof(a), b, key), 0);
	fp_close();
}

/* --- early ends ------------------------------------------------------------------------------- */

/* The region's memory vanishes as soon as link_region_del() returns: whoever touches it then
 * crashes. */
static void bulk__region_goes_in_the_middle(void **state)
{
	uint8_t *local = malloc(4 * MIB);

	memset(local, 1, 4 * MIB);
	for (enum mode m = 0; m < MODE_NUM; m++) {
		size_t len = m == KERNEL || m == HELPED ? 4 * MIB : MIB; /* so that one pass does not do it */

		for (int i = 0; i < 40; i++) {
			uint8_t *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			struct fp_done d;
			uint32_t key;

			if ((m == KERNEL || m == HELPED) && !has_cma())
				continue;
			open_mode(m);
			key = region(1, mem, len, LINK_GET | LINK_PUT);
			assert_int_equal(bulk(0, 1, i % 2 ? LINK_GET : LINK_PUT, local, len, mem, key, &d), 0);
			for (int k = 0; k < i / 2; k++)
				fp_pass();
			link_region_del(&fp.node[1], key);
			munmap(mem, len);
			assert_true(fp_run(&d, PASSES));
			assert_int_equal(d.cnt, 1);
			if (d.status)
				assert_int_equal(d.status, -EACCES);
			else
				assert_true(i >= 4); /* it had been done before */
			fp_close();
		}
	}
	free(local);
}

static void bulk__peer_dies_in_the_middle(void **state)
{
	static uint8_t local[2][MIB], mem[2][MIB];

	for (enum mode m = 0; m < MODE_NUM; m++) {
		for (int i = 0; i < 30; i++) {
			struct fp_done d[2];
			uint32_t key;

			open_mode(m);
			key = region(1, mem, sizeof(mem), LINK_GET | LINK_PUT);
			assert_int_equal(bulk(0, 1, LINK_GET, local[0], MIB, mem[0], key, &d[0]),
					 0);
			assert_int_equal(bulk(0, 1, LINK_PUT, local[1], MIB, mem[1], key, &d[1]),
					 0);
			for (int k = 0; k < i; k++)
				fp_pass();
			fp_peer_dead(0, 1, -ETIMEDOUT);
			fp_peer_dead(1, 0, -ETIMEDOUT);
			for (int k = 0; k < 10; k++)
				fp_pass();
			for (int k = 0; k < 2; k++) {
				assert_int_equal(d[k].cnt, 1);
				assert_true(d[k].status == 0 || d[k].status == -ETIMEDOUT);
			}
			assert_true(i || d[0].status == -ETIMEDOUT);
			assert_int_equal(bulk(0, 1, LINK_GET, local[0], MIB, mem[0], key, &d[0]),
					 -ETIMEDOUT);
			assert_int_equal(bulk_outstanding(fp.port[0].bulk), 0);
			assert_int_equal(bulk_outstanding(fp.port[1].bulk), 0);
			fp_close();
		}
	}
}

/* The path finds the peer dead inside port_up.out(), of every frame in turn. */
static void bulk__peer_dies_while_sending(void **state)
{
	static uint8_t local[MIB / 4], mem[MIB / 4];

	for (int n = 1; n < 40; n++) {
		struct fp_done d[2];
		uint32_t key;

		open_mode(n % 2 ? RING : NET);
		key = region(1, mem, sizeof(mem), LINK_GET | LINK_PUT);
		fp.dies_at_send = n;
		for (int k = 0; k < 2; k++) {
			if (bulk(0, 1, k ? LINK_PUT : LINK_GET, local, sizeof(mem), mem, key,
				 &d[k]))
				d[k].cnt = 1;
		}
		for (int k = 0; k < 100; k++)
			fp_pass();
		/* whom it was that died the operation does not know yet, if it was the target that
		 * noticed */
		if (fp.peer[1][0].dead)
			fp_peer_dead(0, 1, -ECONNREFUSED);
		fp_pass();
		assert_int_equal(d[0].cnt, 1);
		assert_int_equal(d[1].cnt, 1);
		fp_close();
	}
}

static void bulk_port_close__in_the_middle(void **state)
{
	static uint8_t local[2][MIB], mem[2][MIB];

	for (enum mode m = 0; m < MODE_NUM; m++) {
		for (int i = 0; i < 20; i++) {
			struct fp_done d[2];
			uint32_t key;

			open_mode(m);
			key = region(1, mem, sizeof(mem), LINK_GET | LINK_PUT);
			assert_int_equal(bulk(0, 1, LINK_GET, local[0], MIB, mem[0], key, &d[0]),
					 0);
			assert_int_equal(bulk(0, 1, LINK_PUT, local[1], MIB, mem[1], key, &d[1]),
					 0);
			for (int k = 0; k < i; k++)
				fp_pass();
			fp_close();
			for (int k = 0; k < 2; k++) {
				assert_int_equal(d[k].cnt, 1);
				assert_true(d[k].status == 0 || d[k].status == -ECANCELED);
			}
			assert_true(i || d[0].status == -ECANCELED);
		}
	}
}

static void bulk__refused_frame_ends_put(void **state)
{
	uint8_t a[100] = {0}, b[100];
	struct fp_done d;
	uint32_t key;

	open_mode(NET);
	key = region(1, b, sizeof(b), LINK_PUT);
	assert_int_equal(bulk(0, 1, LINK_PUT, a, sizeof(a), b, key, &d), 0);
	assert_int_equal(fp.q_cnt, 1);
	bulk_on_sent(fp.port[0].bulk, fp.q[0].cookie, 7);
	fp_drop(0);
	fp_pass();
	assert_int_equal(d.cnt, 1);
	assert_int_equal(d.status, -EPROTO);
	fp_close();
}

/* --- the choice of a method ------------------------------------------------------------------- */

static void bulk__silent_owner_get(void **state)
{
	static uint8_t local[MIB], mem[MIB];
	struct fp_done d;
	uint32_t key;

	if (!has_cma())
		skip();
	open_mode(MIXED);
	memset(mem, 5, MIB);
	key = region(1, mem, MIB, LINK_GET);
	assert_int_equal(bulk(0, 1, LINK_GET, local, MIB, mem, key, &d), 0);
	for (int i = 0; i < 60 && !d.cnt; i++) /* 60 us of 1 us each */
		fp_pass_without(1);
	assert_int_equal(d.cnt, 1);
	assert_int_equal(d.status, 0);
	assert_memory_equal(local, mem, MIB);
	assert_int_equal(fp.port[0].stats.bulk_cma_bytes, MIB);

	/* the owner wakes up and answers: too late, the memory belongs to somebody else now */
	memset(local, 9, MIB);
	for (int i = 0; i < 200; i++)
		fp_pass();
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(local[i], 9);
	assert_int_equal(d.cnt, 1);
	assert_int_equal(fp.port[0].stats.drop_malformed, 0);
	fp_close();
}

static void bulk__silent_owner_put(void **state)
{
	static uint8_t local[MIB], mem[MIB];
	struct fp_done d, d2;
	uint32_t key;

	if (!has_cma())
		skip();
	open_mode(MIXED);
	memset(local, 5, MIB);
	key = region(1, mem, MIB, LINK_PUT);
	assert_int_equal(bulk(0, 1, LINK_PUT, local, MIB, mem, key, &d), 0);
	for (int i = 0; i < 200; i++)
		fp_pass_without(1);
	/* all that was not in the ring yet is there, but the operation has not ended: frames in the
	 * ring would overwrite later data */
	assert_true(fp.port[0].stats.bulk_cma_bytes >= MIB / 2);
	assert_int_equal(d.cnt, 0);
	assert_true(fp_run(&d, PASSES));
	assert_int_equal(d.status, 0);
	assert_memory_equal(local, mem, MIB);
	memset(local, 6, MIB);
	assert_int_equal(bulk(0, 1, LINK_PUT, local, MIB, mem, key, &d2), 0);
	assert_true(fp_run(&d2, PASSES));
	for (int i = 0; i < 100; i++)
		fp_pass();
	assert_memory_equal(local, mem, MIB);
	assert_int_equal(d.cnt, 1);
	fp_close();
}

static void bulk__silent_remote_owner_is_pinged(void **state)
{
	uint8_t local[100], mem[100] = {0};
	struct fp_done d;
	int pings = 0;

	open_mode(NET);
	assert_int_equal(bulk(0, 1, LINK_GET, local, 100, mem, region(1, mem, 100, LINK_GET), &d),
			 0);
	while (fp.q_cnt) /* the link has acknowledged the request, but the owner does nothing */
		fp_drop(0);
	for (int i = 0; i < 35; i++) {
		fp.now_ns = MAX(fp.now_ns, MIN(bulk_next_deadline(fp.port[0].bulk),
					       fp.now_ns + NS_PER_SEC / 10));
		bulk_poll(fp.port[0].bulk, fp.now_ns);
		for (; fp.q_cnt; fp_drop(0))
			pings += fp.q[0].bytes[0] == BULK_T_PING;
	}
	assert_in_range(pings, 5, 8); /* 3.5 s, dead_after / 4 = 500 ms */
	assert_int_equal(d.cnt, 0);
	fp_peer_dead(0, 1, -ETIMEDOUT); /* what the link finds out by them */
	bulk_poll(fp.port[0].bulk, fp.now_ns);
	assert_int_equal(d.cnt, 1);
	fp_close();
}

static void bulk__busy_target_is_asked_again(void **state)
{
	static uint8_t local[8][MIB / 8], mem[MIB / 8];
	struct fp_done d[8];
	uint32_t key;

	open_mode(NET);
	fp.port[1].bulk->streams.max = 1;
	memset(mem, 3, sizeof(mem));
	key = region(1, mem, sizeof(mem), LINK_GET);
	for (int i = 0; i < 8; i++)
		assert_int_equal(bulk(0, 1, LINK_GET, local[i], sizeof(mem), mem, key, &d[i]), 0);
	for (int i = 0; i < 8; i++) {
		assert_true(fp_run(&d[i], PASSES));
		assert_int_equal(d[i].status, 0);
		assert_memory_equal(local[i], mem, sizeof(mem));
	}
	fp_close();
}

/* Bytes that went by the kernel in @ops operations of 64 KiB. */
static uint64_t cma_share(int ops, uint8_t *local, uint8_t *mem, uint32_t key)
{
	uint64_t before = fp.port[0].stats.bulk_cma_bytes;

	for (int i = 0; i < ops; i++)
		assert_int_equal(bulk_run(LINK_GET, local, 65536, mem, key), 0);
	return (fp.port[0].stats.bulk_cma_bytes - before) / 65536;
}

/* What was learnt of frames, and of both ways that the kernel takes part in. */
static void speed_set(struct bulk_target *t, uint64_t frames, uint64_t kernel)
{
	for (uint32_t i = 0; i < 2 * BULK_CLASS_NUM; i++) {
		uint64_t *ps = t->class[i % 2][i / 2].speed[0].ps_per_byte;

		ps[BULK_FRAMES] = frames;
		ps[BULK_CMA] = ps[BULK_HELPED] = kernel;
	}
}

static void bulk__the_choice_follows_the_measured_speed(void **state)
{
	uint8_t *local = aligned_alloc(4096, 65536 + 4096), *mem = aligned_alloc(4096, 65536);
	struct bulk_target *t;
	uint32_t key;

	if (!has_cma())
		skip();
	memset(mem, 1, 65536);
	open_mode(MIXED);
	key = region(1, mem, 65536, LINK_GET);
	assert_int_equal(bulk_run(LINK_GET, local, 1, mem, key), 0);
	t = bulk_target_get(fp.node[0].bulk, &fp.peer[0][1], fp.now_ns);
	assert_non_null(t);

	/* every method gets its chance at first */
	assert_int_equal(cma_share(24, local, mem, key), 16);
	speed_set(t, 1u << 30, 1);
	assert_int_equal(cma_share(40, local, mem, key), 40);
	/* the losers are looked at again: rarely, for they are far behind */
	speed_set(t, 1, 1u << 30);
	assert_int_equal(cma_share(900, local, mem, key), 0);
	assert_int_equal(cma_share(300, local, mem, key), 2 * 4);
	/* what is true for one offset between the addresses need not be for another */
	assert_int_equal(cma_share(24, local + 8, mem, key), 16);
	speed_set(t, 1, 1u << 30);
	assert_int_equal(cma_share(10, local + 8, mem, key), 0);
	/* but always if nobody is there to help */
	fp.shm[0][1].is_polling = false;
	assert_int_equal(cma_share(4, local + 8, mem, key), 4);
	fp_close();
	free(local);
	free(mem);
}

/* Every way in which an owner that was asked for help does not give it. */
static void bulk__help_that_does_not_come(void **state)
{
	uint8_t *local = malloc(MIB), *mem = malloc(MIB);
	struct rng r = unit_rng();
	struct fp_done d;
	uint32_t key;

	if (!has_cma())
		skip();
	open_mode(HELPED);
	fill(&r, mem, MIB);
	/* silence: the initiator does it all, and the late help finds the region gone */
	key = region(1, mem, MIB, LINK_GET);
	assert_int_equal(bulk(0, 1, LINK_GET, local, MIB, mem, key, &d), 0);
	for (int i = 0; i < PASSES && !d.cnt; i++)
		fp_pass_without(1);
	assert_int_equal(d.cnt, 1);
	assert_int_equal(d.status, 0);
	assert_memory_equal(local, mem, MIB);
	memset(local, 0, MIB);
	for (int i = 0; i < 100; i++)
		fp_pass();
	assert_int_equal(local[MIB - 1], 0);
	/* the owner may not copy */
	fp.shm[1][0].has_no_cma = true;
	assert_int_equal(bulk_run(LINK_GET, local, MIB, mem, key), 0);
	assert_memory_equal(local, mem, MIB);
	fp.shm[1][0].has_no_cma = false;
	/* the key is wrong for the owner, too */
	assert_int_equal(bulk_run(LINK_GET, local, MIB, mem + 1, key), -EACCES);
	/* the region goes away while the owner is at it */
	assert_int_equal(bulk(0, 1, LINK_GET, local, MIB, mem, key, &d), 0);
	for (int i = 0; i < 2; i++)
		fp_pass();
	link_region_del(&fp.node[1], key);
	assert_true(fp_run(&d, PASSES));
	assert_int_equal(d.cnt, 1);
	assert_true(!d.status || d.status == -EACCES);
	assert_int_equal(fp.port[1].bulk->help_cnt, 0);
	/* nothing is left behind */
	for (int i = 0; i < 2; i++)
		assert_int_equal(bulk_outstanding(fp.port[i].bulk), 0);
	fp_close();
	free(local);
	free(mem);
}

static void bulk__kernel_forbids(void **state)
{
	static uint8_t local[1000], mem[1000];
	uint32_t key;

	open_mode(MIXED);
	fp.shm[0][1].has_no_cma = true;
	fp.shm[0][1].is_polling = false;
	memset(mem, 2, sizeof(mem));
	key = region(1, mem, sizeof(mem), LINK_GET);
	assert_int_equal(bulk_run(LINK_GET, local, 1000, mem, key), 0);
	assert_memory_equal(mem, local, 1000);
	assert_int_equal(fp.port[0].stats.bulk_cma_bytes, 0);
	/* found out only when tried: a process that is not there */
	fp.shm[0][1].has_no_cma = false;
	fp.shm[0][1].pid = INT32_MAX;
	assert_int_equal(bulk_run(LINK_GET, local, 1000, mem, key), -ECONNREFUSED);
	fp_close();
}

static void bulk__unmapped_region(void **state)
{
	uint8_t *mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t local[8192];
	uint32_t key;

	if (!has_cma())
		skip();
	open_mode(KERNEL);
	key = region(1, mem, 8192, LINK_GET);
	assert_int_equal(mprotect(mem, 8192, PROT_NONE), 0); /* an allocator may take what is only unmapped */
	assert_int_equal(bulk_run(LINK_GET, local, 8192, mem, key), -EACCES);
	fp_close();
}

/* --- hostile peers ---------------------------------------------------------------------------- */

static size_t hostile_frame(struct rng *r, uint8_t *buf, const struct bulk_pkt *seen, uint32_t key,
			    uint64_t base)
{
	struct bulk_pkt pkt = *seen;
	size_t n;

	pkt.type = (enum bulk_type)(1 + rng_below(r, BULK_T_NUM - 1));
	if (rng_chance(r, 0.3))
		pkt.tag = (uint32_t)rng_u64(r);
	if (rng_chance(r, 0.3))
		pkt.id ^= 1u << rng_below(r, 32);
	pkt.key = rng_chance(r, 0.8) ? key : (uint32_t)rng_u64(r);
	pkt.status = bulk_desc[pkt.type].has_status ? (enum bulk_status)rng_below(r, BULK_S_NUM)
						    : BULK_S_OK;
	pkt.addr = base + (rng_chance(r, 0.2) ? rng_u64(r) : rng_below(r, 12000) - 2000);
	pkt.len = rng_chance(r, 0.2) ? rng_u64(r) : rng_below(r, 12000);
	pkt.off = rng_chance(r, 0.2) ? rng_u64(r) : rng_below(r, 12000);
	pkt.bytes = rng_chance(r, 0.2) ? rng_u64(r) : rng_below(r, 20000);
	n = bulk_pkt_encode(&pkt, buf);
	if (!bulk_desc[pkt.type].has_key)
		memset(buf + 12, 0, 4);
	if (rng_chance(r, 0.1))
		buf[rng_below(r, n)] ^= (uint8_t)rng_u64(r);
	if (bulk_desc[pkt.type].payload_max)
		n += rng_below(r, 4000);
	return n;
}

static void bulk_on_frame__hostile(void **state)
{
	static uint8_t mem[3][8192], local[3][8192], buf[BULK_HDR_MAX + 8192], ones[8192];
	static uint8_t put_src[8192];
	struct rng r = unit_rng();

	memset(ones, 1, sizeof(ones));
	for (int round = 0; round < 60; round++) {
		struct fp_done d[2];
		uint32_t key;

		open_mode(round % 2 ? RING : NET);
		memset(mem, 1, sizeof(mem));
		memset(local, 1, sizeof(local));
		memset(buf, 2, sizeof(buf));
		key = region(1, mem[1], sizeof(mem[1]), LINK_GET | LINK_PUT);
		assert_int_equal(bulk(0, 1, LINK_GET, local[1], 8192, mem[1], key, &d[0]), 0);
		assert_int_equal(bulk(0, 1, LINK_PUT, put_src, 8192, mem[1], key, &d[1]), 0);
		for (int i = 0; i < 1000; i++) {
			struct bulk_pkt seen = {.id = (uint32_t)rng_below(&r, 3),
						.tag = (uint32_t)rng_below(&r, 4)};
			size_t n = hostile_frame(&r, buf, &seen, key, (uintptr_t)mem[1]);
			int to = (int)rng_below(&r, 2);

			fp_deliver_view(to, (int)rng_below(&r, 3), buf, n);
			if (i % 10 == 0)
				fp_pass();
		}
		for (int i = 0; i < 3; i += 2) { /* left and right of what they may write */
			assert_memory_equal(mem[i], ones, 8192);
			assert_memory_equal(local[i], ones, 8192);
		}
		fp_close();
		assert_int_equal(d[0].cnt, 1);
		assert_int_equal(d[1].cnt, 1);
	}
}

/* A third port that guesses id and tag of somebody else's operation, and a late answer to a
 * question withdrawn. */
static void bulk_on_frame__foreign_and_late_data(void **state)
{
	uint8_t local[100] = {0}, mem[100] = {0}, zero[100] = {0}, buf[BULK_HDR_MAX + 100];
	struct bulk_pkt pkt = {.type = BULK_T_DATA};
	struct fp_done d;
	size_t n;

	open_mode(NET);
	assert_int_equal(bulk(0, 1, LINK_GET, local, 100, mem, region(1, mem, 100, LINK_GET), &d),
			 0);
	memcpy(&pkt.id, fp.q[0].bytes + 4, 4);
	memcpy(&pkt.tag, fp.q[0].bytes + 8, 4);
	memset(buf, 7, sizeof(buf));
	n = bulk_pkt_encode(&pkt, buf);
	fp_deliver_view(0, 2, buf, n + 100);
	assert_memory_equal(local, zero, 100);
	pkt.tag--;
	bulk_pkt_encode(&pkt, buf);
	fp_deliver_view(0, 1, buf, n + 100);
	assert_memory_equal(local, zero, 100);
	pkt.tag++;
	bulk_pkt_encode(&pkt, buf);
	fp_deliver_view(0, 1, buf, n + 100);
	assert_int_equal(local[99], 7);
	fp_close();
}

/* --- memory and files ------------------------------------------------------------------------- */

static void link_region_add__without_room_in_dev_shm(void **state)
{
	struct rlimit old, none = {4096, 4096};
	uint8_t local[100], mem[100] = {4};
	uint32_t key;

	if (!has_cma())
		skip();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none.rlim_max = old.rlim_max;
	open_mode(MIXED);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &none);
	key = region(1, mem, sizeof(mem), LINK_GET);
	setrlimit(RLIMIT_FSIZE, &old);
	fp.shm[0][1].is_polling = false;
	assert_int_equal(bulk_run(LINK_GET, local, 100, mem, key), 0);
	assert_int_equal(local[0], 4);
	assert_int_equal(fp.port[0].stats.bulk_cma_bytes, 0);
	fp_close();
}

static void bulk__out_of_memory(void **state)
{
	static uint8_t local[20000], mem[20000];
	int64_t live = mem_live_count();

	for (uint64_t n = 1; n < 40; n++) {
		struct fp_done d = {0};
		uint32_t key;
		int rc = 0;

		open_mode(n % 2 ? NET : RING);
		key = region(0, mem, 1,
			     0); /* the first chunk of another node: not what is tested */
		mem_fail_nth(n / 2);
		rc = link_region_add(&fp.node[1], mem, sizeof(mem), LINK_GET, &key);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			key = region(1, mem, sizeof(mem), LINK_GET);
		}
		rc = bulk(0, 1, LINK_GET, local, sizeof(local), mem, key, &d);
		if (rc) {
			assert_int_equal(rc, -EAGAIN);
			assert_int_equal(bulk(0, 1, LINK_GET, local, sizeof(local), mem, key, &d),
					 0);
		}
		assert_true(fp_run(&d, PASSES));
		assert_int_equal(d.status, 0);
		mem_fail_nth(0);
		fp_close();
	}
	assert_int_equal(mem_live_count(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk__model),
		cmocka_unit_test(bulk__4_mib_at_every_odd_alignment),
		cmocka_unit_test(bulk__self),
		cmocka_unit_test(bulk__rights_range_and_key),
		cmocka_unit_test(bulk__raw_needs_a_local_peer),
		cmocka_unit_test(bulk__region_goes_in_the_middle),
		cmocka_unit_test(bulk__peer_dies_in_the_middle),
		cmocka_unit_test(bulk__peer_dies_while_sending),
		cmocka_unit_test(bulk_port_close__in_the_middle),
		cmocka_unit_test(bulk__refused_frame_ends_put),
		cmocka_unit_test(bulk__silent_owner_get),
		cmocka_unit_test(bulk__silent_owner_put),
		cmocka_unit_test(bulk__silent_remote_owner_is_pinged),
		cmocka_unit_test(bulk__busy_target_is_asked_again),
		cmocka_unit_test(bulk__the_choice_follows_the_measured_speed),
		cmocka_unit_test(bulk__help_that_does_not_come),
		cmocka_unit_test(bulk__kernel_forbids),
		cmocka_unit_test(bulk__unmapped_region),
		cmocka_unit_test(bulk_on_frame__hostile),
		cmocka_unit_test(bulk_on_frame__foreign_and_late_data),
		cmocka_unit_test(link_region_add__without_room_in_dev_shm),
		cmocka_unit_test(bulk__out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
