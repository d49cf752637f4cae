// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/av.c.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kit_fix.h"

#define LEN 32

static struct fix g_fix;
static struct kit_av *g_av;
static int g_added, g_removed, g_added_ret;

/* An address that begins with 0xbad is illegal. */
static int check(struct kit_av *av, const void *addr)
{
	uint32_t head;

	memcpy(&head, addr, sizeof(head));
	return head == 0xbad ? -FI_EINVAL : 0;
}

static int added(struct kit_av *av, fi_addr_t fi_addr, const void *addr)
{
	assert_memory_equal(kit_av_addr(av, fi_addr), addr, LEN);
	g_added++;
	return g_added_ret;
}

static void removed(struct kit_av *av, fi_addr_t fi_addr, const void *addr)
{
	assert_ptr_equal(kit_av_addr(av, fi_addr), addr);
	g_removed++;
}

static const char *straddr(struct kit_av *av, const void *addr, char *buf, size_t *len)
{
	snprintf(buf, *len, "fix://x");
	*len = sizeof("fix://x");
	return buf;
}

static int insertsvc(struct kit_av *av, const char *node, const char *service, void *addr)
{
	memset(addr, 0, LEN);
	snprintf(addr, LEN, "%s:%s", node, service);
	return strcmp(node, "nobody") ? 0 : -FI_EINVAL;
}

static const struct kit_av_ops g_ops = {.check = check,
					.added = added,
					.removed = removed,
					.straddr = straddr,
					.insertsvc = insertsvc};
static const struct kit_av_ops g_plain_ops;

static int setup(void **state)
{
	const struct fi_av_attr attr = {.type = FI_AV_MAP};

	fix_open(&g_fix, FI_VERSION(1, 17));
	g_av = mem_alloc(sizeof(*g_av));
	assert_int_equal(kit_av_init(g_av, &g_fix.domain, &attr, LEN, &g_ops, NULL), 0);
	g_added = g_removed = g_added_ret = 0;
	return 0;
}

static int teardown(void **state)
{
	mem_fail_nth(0);
	assert_int_equal(fi_close(&g_av->fid.fid), 0);
	fix_close(&g_fix);
	return 0;
}

static void addr_make(uint8_t *addr, uint32_t n)
{
	memset(addr, 0, LEN);
	memcpy(addr + 20, &n, sizeof(n));
}

static fi_addr_t find(const uint8_t *addr)
{
	fi_addr_t ret;

	lock_acquire(&g_fix.domain.lock);
	ret = kit_av_find(g_av, addr);
	lock_release(&g_fix.domain.lock);
	return ret;
}

static void av_insert__numbers_are_dense_and_looked_up(void **state)
{
	uint8_t addr[3][LEN], out[LEN + 8];
	fi_addr_t fa[3];
	size_t len;

	for (uint32_t i = 0; i < 3; i++)
		addr_make(addr[i], i);
	assert_int_equal(g_av->type, FI_AV_TABLE);
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 3, fa, 0, NULL), 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(fa[i], i);
		assert_int_equal(find(addr[i]), i);
	}
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 0, NULL, 0, NULL), 0);
	memset(out, 0xa5, sizeof(out));
	len = 21; /* cut, and told how much there is */
	assert_int_equal(fi_av_lookup(&g_av->fid, 1, out, &len), 0);
	assert_int_equal(len, LEN);
	assert_memory_equal(out, addr[1], 21);
	assert_int_equal(out[21], 0xa5);
	len = sizeof(out);
	assert_int_equal(fi_av_lookup(&g_av->fid, 2, out, &len), 0);
	assert_int_equal(len, LEN);
	assert_memory_equal(out, addr[2], LEN);
	len = 0;
	assert_int_equal(fi_av_lookup(&g_av->fid, 2, NULL, &len), 0);
	assert_int_equal(len, LEN);
	assert_int_equal(fi_av_lookup(&g_av->fid, 3, out, &len), -FI_EINVAL);
	assert_int_equal(fi_av_lookup(&g_av->fid, FI_ADDR_NOTAVAIL, out, &len), -FI_EINVAL);
}

static void av_insert__reports_each_failure(void **state)
{
	uint8_t addr[3][LEN];
	fi_addr_t fa[3];
	int err[3] = {9, 9, 9};
	uint32_t bad = 0xbad;

	for (uint32_t i = 0; i < 3; i++)
		addr_make(addr[i], i);
	memcpy(addr[1], &bad, sizeof(bad));
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 3, fa, FI_SYNC_ERR | FI_MORE, err), 2);
	assert_int_equal(fa[0], 0);
	assert_int_equal(fa[1], FI_ADDR_NOTAVAIL);
	assert_int_equal(fa[2], 1);
	assert_int_equal(err[0], 0);
	assert_int_equal(err[1], FI_EINVAL);
	assert_int_equal(err[2], 0);
	g_av->stops = true;
	addr_make(addr[2], 3);
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 3, fa, FI_SYNC_ERR, err), 1);
	assert_int_equal(fa[1], FI_ADDR_NOTAVAIL);
	assert_int_equal(fa[2], FI_ADDR_NOTAVAIL);
	assert_int_equal(err[1], FI_EINVAL);
	assert_int_equal(err[2], FI_ECANCELED);
	assert_int_equal(find(addr[2]), FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 3, fa, FI_SYNC_ERR, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_insert(&g_av->fid, NULL, 1, fa, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_insert(&g_av->fid, addr, SIZE_MAX, fa, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 1, fa, FI_PEEK, NULL), -FI_ENOSYS);
}

static void av_insert__the_provider_can_refuse(void **state)
{
	uint8_t addr[LEN];
	fi_addr_t fa;
	int err;

	addr_make(addr, 1);
	g_added_ret = -FI_ENOMEM;
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 1, &fa, FI_SYNC_ERR, &err), 0);
	assert_int_equal(err, FI_ENOMEM);
	assert_int_equal(fa, FI_ADDR_NOTAVAIL);
	assert_int_equal(find(addr), FI_ADDR_NOTAVAIL);
	assert_int_equal(g_av->cnt, 0);
	g_added_ret = 0;
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 1, &fa, 0, NULL), 1);
	assert_int_equal(fa, 0);
}

static void av_insert__duplicates(void **state)
{
	uint8_t addr[LEN];
	fi_addr_t fa[2];

	addr_make(addr, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_av_insert(&g_av->fid, addr, 1, &fa[i], 0, NULL), 1);
	assert_int_equal(fa[1], 1);
	/* The reverse lookup names one of them, and goes on working when one is removed. */
	assert_true(find(addr) < 2);
	assert_int_equal(fi_av_remove(&g_av->fid, &fa[0], 1, 0), 0);
	assert_int_equal(find(addr), 1);
	g_av->dedup = true;
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 1, &fa[0], 0, NULL), 1);
	assert_int_equal(fa[0], 1);
	assert_int_equal(g_added, 2);
}

static void av_remove__frees_numbers_for_reuse(void **state)
{
	uint8_t addr[4][LEN];
	fi_addr_t fa[4], gone[3] = {1, 7, 2};

	for (uint32_t i = 0; i < 4; i++)
		addr_make(addr[i], i);
	assert_int_equal(fi_av_insert(&g_av->fid, addr, 4, fa, 0, NULL), 4);
	assert_int_equal(fi_av_remove(&g_av->fid, gone, 1, FI_MORE), -FI_EINVAL);
	assert_int_equal(fi_av_remove(&g_av->fid, NULL, 1, 0), -FI_EINVAL);
	/* 7 is nobody; the others go nevertheless. */
	assert_int_equal(fi_av_remove(&g_av->fid, gone, 3, 0), -FI_EINVAL);
	assert_int_equal(g_removed, 2);
	assert_int_equal(find(addr[1]), FI_ADDR_NOTAVAIL);
	assert_int_equal(find(addr[3]), 3);
	assert_int_equal(fi_av_insert(&g_av->fid, addr[2], 1, fa, 0, NULL), 1);
	assert_int_equal(fa[0], 1);
	assert_int_equal(fi_av_insert(&g_av->fid, addr[1], 1, fa, 0, NULL), 1);
	assert_int_equal(fa[0], 2);
}

/* Random inserts and removals against a plain array. */
static void av__matches_a_model(void **state)
{
	struct rng r = unit_rng();
	bool in[300] = {false};
	fi_addr_t where[300];
	uint32_t cnt = 0;

	g_av->dedup = true;
	for (int step = 0; step < 20000; step++) {
		uint32_t n = (uint32_t)rng_below(&r, 300);
		uint8_t addr[LEN];

		addr_make(addr, n);
		if (in[n]) {
			assert_int_equal(find(addr), where[n]);
			assert_int_equal(fi_av_remove(&g_av->fid, &where[n], 1, 0), 0);
			cnt--;
		} else {
			assert_int_equal(find(addr), FI_ADDR_NOTAVAIL);
			assert_int_equal(fi_av_insert(&g_av->fid, addr, 1, &where[n], 0, NULL), 1);
			cnt++;
		}
		in[n] = !in[n];
		assert_int_equal(g_av->cnt, cnt);
	}
	for (uint32_t n = 0; n < 300; n++) {
		uint8_t addr[LEN];

		addr_make(addr, n);
		assert_int_equal(find(addr), in[n] ? where[n] : FI_ADDR_NOTAVAIL);
	}
}

static void av__100k_entries_are_small(void **state)
{
	enum { CNT = 100000 };
	uint8_t(*addr)[LEN] = mem_alloc(CNT * sizeof(*addr));
	uint64_t start;
	size_t bytes;

	for (uint32_t i = 0; i < CNT; i++)
		addr_make(addr[i], i);
	start = clk_now_ns(NULL);
	assert_int_equal(fi_av_insert(&g_av->fid, addr, CNT, NULL, 0, NULL), CNT);
	print_message("100k inserts: %llu us\n",
		      (unsigned long long)((clk_now_ns(NULL) - start) / 1000));
	bytes = (size_t)g_av->cap * (LEN + 1) + ((size_t)g_av->hash_mask + 1) * 4;
	assert_true(bytes / CNT <= 64);
	for (uint32_t i = 0; i < CNT; i += 997)
		assert_int_equal(find(addr[i]), i);
	mem_free(addr);
}

static void av_insertsym__counts_through_names(void **state)
{
	static const char *const want[] = {"n08:7", "n08:8", "n09:7", "n09:8", "n10:7", "n10:8"};
	fi_addr_t fa[6];
	char out[LEN];
	size_t len;

	assert_int_equal(fi_av_insertsym(&g_av->fid, "n08", 3, "7", 2, fa, 0, NULL), 6);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		len = sizeof(out);
		assert_int_equal(fi_av_lookup(&g_av->fid, fa[i], out, &len), 0);
		assert_string_equal(out, want[i]);
	}
	assert_int_equal(fi_av_insertsvc(&g_av->fid, "host", "9", fa, 0, NULL), 1);
	assert_int_equal(fa[0], 6);
	assert_int_equal(fi_av_insertsvc(&g_av->fid, "nobody", "9", fa, 0, NULL), 0);
	assert_int_equal(fa[0], FI_ADDR_NOTAVAIL);
	/* A name without a number cannot be counted. */
	assert_int_equal(fi_av_insertsym(&g_av->fid, "host", 2, "7", 1, fa, 0, NULL), -FI_EINVAL);
	g_av->ops = &g_plain_ops;
	assert_int_equal(fi_av_insertsvc(&g_av->fid, "host", "9", fa, 0, NULL), -FI_ENOSYS);
	assert_int_equal(fi_av_insertsym(&g_av->fid, "h1", 1, "9", 1, fa, 0, NULL), -FI_ENOSYS);
}

static void av_straddr__asks_the_provider(void **state)
{
	uint8_t addr[LEN] = {0};
	size_t len = 32;
	char buf[32];

	assert_string_equal(fi_av_straddr(&g_av->fid, addr, buf, &len), "fix://x");
	assert_int_equal(len, 8);
	len = 32;
	assert_null(fi_av_straddr(&g_av->fid, addr, NULL, &len));
	assert_int_equal(len, 8);
}

static void av_init__refuses_bad_attributes(void **state)
{
	static const struct {
		struct fi_av_attr attr;
		int ret;
	} row[] = {
		{{.type = 9}, -FI_EINVAL},
		{{.flags = FI_EVENT}, -FI_ENOSYS},
		{{.name = "shared"}, -FI_ENOSYS},
		{{.count = SIZE_MAX}, -FI_EINVAL},
	};
	struct kit_av av = {0};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(kit_av_init(&av, &g_fix.domain, &row[i].attr, LEN, &g_ops, NULL),
				 row[i].ret);
	assert_int_equal(kit_av_init(&av, &g_fix.domain, NULL, LEN, &g_ops, NULL), -FI_EINVAL);
}

static void av__survives_failed_allocations(void **state)
{
	const struct fi_av_attr attr = {.count = 1};
	int64_t live = mem_live_count();
	struct kit_av av = {0};
	uint8_t addr[LEN];
	fi_addr_t fa;

	for (uint64_t n = 1; n <= 3; n++) {
		mem_fail_nth(n);
		assert_int_equal(kit_av_init(&av, &g_fix.domain, &attr, LEN, &g_ops, NULL),
				 -FI_ENOMEM);
		assert_int_equal(mem_live_count(), live);
	}
	assert_int_equal(kit_av_init(&av, &g_fix.domain, &attr, LEN, &g_ops, NULL), 0);
	for (uint32_t i = 0; i < av.cap; i++) {
		addr_make(addr, i);
		assert_int_equal(fi_av_insert(&av.fid, addr, 1, &fa, 0, NULL), 1);
	}
	for (uint64_t n = 1; n <= 3; n++) {
		mem_fail_nth(n);
		addr_make(addr, 1000000);
		assert_int_equal(fi_av_insert(&av.fid, addr, 1, &fa, 0, NULL), 0);
		assert_int_equal(fa, FI_ADDR_NOTAVAIL);
	}
	mem_fail_nth(0);
	assert_int_equal(fi_av_insert(&av.fid, addr, 1, &fa, 0, NULL), 1);
	assert_int_equal(kit_av_fini(&av), 0);
	assert_int_equal(mem_live_count(), live);
}

static void av__is_busy_while_bound(void **state)
{
	struct fix_ep ep;

	fix_ep_open(&g_fix, &ep);
	assert_int_equal(kit_ep_bind(&ep.kit, &g_av->fid.fid, 0), 0);
	assert_int_equal(g_av->ep_cnt, 1);
	assert_int_equal(fi_close(&g_av->fid.fid), -FI_EBUSY);
	kit_ep_fini(&ep.kit);
	assert_int_equal(g_av->ep_cnt, 0);
	assert_int_equal(fi_ep_bind((struct fid_ep *)&g_av->fid, &g_fix.domain.fid.fid, 0),
			 -FI_ENOSYS);
}

#define T(f_) cmocka_unit_test_setup_teardown(f_, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(av_insert__numbers_are_dense_and_looked_up),
		T(av_insert__reports_each_failure),
		T(av_insert__the_provider_can_refuse),
		T(av_insert__duplicates),
		T(av_remove__frees_numbers_for_reuse),
		T(av__matches_a_model),
		T(av__100k_entries_are_small),
		T(av_insertsym__counts_through_names),
		T(av_straddr__asks_the_provider),
		T(av_init__refuses_bad_attributes),
		T(av__survives_failed_allocations),
		T(av__is_busy_while_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
