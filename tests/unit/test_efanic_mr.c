// SPDX-License-Identifier: BSD-2-Clause
// Memory regions: keys, ranges, access by generation, limits, failures.
#include "efanic_fix.h"

#include <errno.h>

#include "base/mem.h"

enum {
	LW = EFANIC_ACCESS_LOCAL_WRITE,
	RW = EFANIC_ACCESS_REMOTE_WRITE,
	RR = EFANIC_ACCESS_REMOTE_READ
};

static char g_buf[100];

static struct efanic_mr *reg(struct world *w, void *addr, size_t len, unsigned access)
{
	struct efanic_mr_attr attr = {addr, len, access};
	struct efanic_mr *mr;

	assert_int_equal(efanic_mr_reg(w->nic, &attr, &mr), 0);
	return mr;
}

static void check__range_and_access(void **state)
{
	struct efanic_mr *mr;
	struct world w;
	uint32_t key;

	world_open(&w, NULL);
	mr = reg(&w, g_buf + 10, 20, 0);
	key = efanic_mr_lkey(mr);
	assert_int_not_equal(key, EFANIC_LKEY_INTERNAL);
	for (int from = 0; from <= 40; from++) {
		for (int len = 0; len <= 40; len++) {
			bool good = from >= 10 && from + len <= 30;

			assert_int_equal(efanic_mr_check(w.nic, 0, key, g_buf + from, len, 0), good);
			assert_false(efanic_mr_check(w.nic, 0, key, g_buf + from, len, LW));
		}
	}
	assert_false(efanic_mr_check(w.nic, 0, key, g_buf + 10, UINT64_MAX, 0));
	assert_false(efanic_mr_check(w.nic, 0, key, NULL, UINT64_MAX, 0));
	assert_false(efanic_mr_check(w.nic, 0, key, (void *)UINTPTR_MAX, 1, 0));
	efanic_mr_dereg(mr);
	mr = reg(&w, g_buf, 20, LW);
	/* another protection domain's queue pairs do not use it */
	assert_false(efanic_mr_check(w.nic, 1, efanic_mr_lkey(mr), g_buf, 20, LW));
	assert_true(efanic_mr_check(w.nic, 0, efanic_mr_lkey(mr), g_buf, 20, LW));
	efanic_mr_dereg(mr);
	world_close(&w);
}

/* The slot is used again, the key is not. */
static void check__stale_key(void **state)
{
	struct efanic_mr *mr;
	struct world w;
	uint32_t old;

	world_open(&w, NULL);
	mr = reg(&w, g_buf, 20, LW);
	old = efanic_mr_lkey(mr);
	efanic_mr_dereg(mr);
	assert_false(efanic_mr_check(w.nic, 0, old, g_buf, 1, 0));
	mr = reg(&w, g_buf, 20, LW);
	assert_int_not_equal(efanic_mr_lkey(mr), old);
	assert_false(efanic_mr_check(w.nic, 0, old, g_buf, 1, 0));
	assert_true(efanic_mr_check(w.nic, 0, efanic_mr_lkey(mr), g_buf, 1, 0));
	efanic_mr_dereg(mr);
	world_close(&w);
}

static void check__invented_keys(void **state)
{
	struct rng rng = unit_rng();
	struct efanic_mr *mr;
	struct world w;
	uint32_t key;

	world_open(&w, NULL);
	mr = reg(&w, g_buf, 20, LW);
	for (int i = 0; i < 100000; i++) {
		key = (uint32_t)rng_u64(&rng) >> rng_below(&rng, 32);
		assert_int_equal(efanic_mr_check(w.nic, 0, key, g_buf, 1, 0),
				 key == efanic_mr_lkey(mr));
	}
	assert_false(efanic_mr_check(w.nic, 0, 0, g_buf, 1, 0));
	efanic_mr_dereg(mr);
	world_close(&w);
}

static void reg__access_by_generation(void **state)
{
	static const struct {
		const char *conf;
		unsigned allowed;
	} row[] = {
		{"gen=efa0-none", LW},
		{"gen=efa0-read", LW | RR},
		{"gen=efa1-rw", LW | RR | RW},
		{"gen=efa2-full", LW | RR | RW},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct world w;

		world_open(&w, row[i].conf);
		for (unsigned access = 0; access < 16; access++) {
			struct efanic_mr_attr attr = {g_buf, 1, access};
			struct efanic_mr *mr = NULL;
			bool good = !(access & ~row[i].allowed);

			assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr), good ? 0 : -EOPNOTSUPP);
			if (!good) {
				assert_null(mr);
				continue;
			}
			assert_int_equal(efanic_mr_rkey(mr) != 0, (access & (RR | RW)) != 0);
			assert_int_equal(g_fake.regions, (access & (RR | RW)) != 0);
			efanic_mr_dereg(mr);
		}
		world_close(&w);
	}
}

static void reg__limits(void **state)
{
	struct efanic_mr_attr attr = {g_buf, 65, LW | RR};
	struct efanic_mr *mr[3];
	struct world w;

	world_open(&w, "max_mr=2;max_mr_size=64");
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr[0]), -ENOMEM);
	attr.len = 64;
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr[0]), 0);
	attr.len = 0;
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr[1]), 0);
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr[2]), -ENOMEM);
	efanic_mr_dereg(mr[1]);
	g_fake.region_rc = -ENOSPC;
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr[1]), -ENOMEM);
	g_fake.region_rc = 0;
	attr = (struct efanic_mr_attr){(void *)(UINTPTR_MAX - 10), 20, LW};
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr[1]), -ENOMEM);
	attr.addr = g_buf;
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr[1]), 0);
	efanic_mr_dereg(mr[0]);
	efanic_mr_dereg(mr[1]);
	world_close(&w);
}

static void reg__alloc_fail(void **state)
{
	struct efanic_mr_attr attr = {g_buf, 10, LW | RR};
	struct efanic_mr *mr = NULL;
	struct world w;
	int rc = -1;
	int fails = 0;

	world_open(&w, NULL);
	for (uint64_t n = 1; rc; n++) {
		mem_fail_nth(n);
		rc = efanic_mr_reg(w.nic, &attr, &mr);
		mem_fail_nth(0);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(g_fake.regions, 0);
			fails++;
		}
	}
	assert_in_range(fails, 1, 5);
	efanic_mr_dereg(mr);
	world_close(&w);
}

/* Neither on the timer nor in the line may bytes be read that are nobody's any more. */
static void dereg__ends_what_is_retried(void **state)
{
	struct efanic_wr wr = {.opcode = EFANIC_OP_SEND, .sge_cnt = 1};
	struct efanic_mr *mr;
	struct world w;

	(void)state;
	world_open(&w, NULL);
	pair_open(&w, 0);
	mr = reg(&w, g_buf, 1, 0);
	wr.dst = w.ab;
	wr.sge[0] = (struct efanic_sge){g_buf, 1, efanic_mr_lkey(mr)};
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
	settle(&w); /* on the timer */
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = UINT32_MAX;
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0); /* in the line */
	efanic_mr_dereg(mr);
	g_fake.send_rc_cnt = 0;
	g_fake.now_ns += EFANIC_RNR_NS_MAX;
	settle(&w);
	assert_int_equal(w.a.cnt, 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(w.a.seen[i].wc.status, EFANIC_LOCAL_INVALID_LKEY);
	assert_int_equal(w.b.cnt, 0);
	world_close(&w);
}

/* What an RDMA read is written to goes while the read is under way: it ends there. */
static void dereg__ends_reads(void **state)
{
	static uint8_t mine[64], theirs[64] = {1, 2, 3};
	struct efanic_wr wr = {.wr_id = 1, .opcode = EFANIC_OP_READ, .sge_cnt = 1};
	struct efanic_mr *local, *other, *remote;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 0);
	remote = reg(&w, theirs, sizeof(theirs), RR);
	other = reg(&w, mine, sizeof(mine), LW);
	wr.dst = w.ab;
	wr.rkey = efanic_mr_rkey(remote);
	wr.raddr = (uintptr_t)theirs;
	for (unsigned i = 0; i < 2; i++) {
		local = reg(&w, mine, sizeof(mine), LW);
		wr.sge[0] = (struct efanic_sge){mine, sizeof(mine), efanic_mr_lkey(local)};
		memset(mine, 0xdd, sizeof(mine));
		assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
		g_fake.stop_busy_cnt = i * 3; /* a peer is in the middle of it */
		efanic_mr_dereg(i ? local : other); /* the same memory by another key is nobody's business */
		assert_int_equal(g_fake.stop_busy_cnt, 0);
		settle(&w);
		expect(&w.a, i + 1, wr.wr_id, i ? EFANIC_LOCAL_INVALID_LKEY : EFANIC_OK);
		assert_int_equal(mine[0], i ? 0xdd : 1);
		if (!i)
			efanic_mr_dereg(local);
	}
	efanic_mr_dereg(remote);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check__range_and_access),
		cmocka_unit_test(check__stale_key),
		cmocka_unit_test(check__invented_keys),
		cmocka_unit_test(reg__access_by_generation),
		cmocka_unit_test(reg__limits),
		cmocka_unit_test(reg__alloc_fail),
		cmocka_unit_test(dereg__ends_what_is_retried),
		cmocka_unit_test(dereg__ends_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
