// SPDX-License-Identifier: BSD-2-Clause
// Shares of peers, of those behind one address, and of all; against a naive count.
#include <string.h>

#include "base/base.h"
#include "base/quota.h"
#include "base/rng.h"
#include "unit.h"

static struct quota_tab g_tab;

/* As those who keep things do. Return: @u may have @n more, and has. */
static bool take(struct quota_book *b, struct quota_user *u, unsigned kind, uint64_t n)
{
	bool may = quota_has(b, u, kind, n);

	if (may)
		quota_add(b, u, kind, n);
	return may;
}

static void ipv4(uint8_t ip[16], uint8_t a, uint8_t d)
{
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	ip[12] = a;
	ip[15] = d;
}

static struct quota_source *source(uint8_t a, uint8_t d)
{
	uint8_t ip[16];

	ipv4(ip, a, d);
	return quota_source_get(&g_tab, ip);
}

static int setup(void **state)
{
	(void)state;
	memset(&g_tab, 0, sizeof(g_tab));
	g_tab.size = sizeof(struct quota_source) + 8;
	keyed_fresh(&g_tab.key);
	return 0;
}

static void source__by_network(void **state)
{
	static const uint8_t v6[4][16] = {{0x20, 1, [7] = 1, [15] = 1},
					  {0x20, 1, [7] = 1, [15] = 2},
					  {0x20, 1, [7] = 2, [15] = 1},
					  {0xfe, 0x80, [15] = 1}};
	struct quota_source *a = source(10, 1), *b = source(10, 2), *lo = source(127, 1), *s[4];
	uint8_t ip[16];

	(void)state;
	assert_ptr_not_equal(a, b);
	assert_int_equal(a->refs, 1);
	ipv4(ip, 127, 77);
	assert_ptr_equal(quota_source_find(&g_tab, ip), lo); /* 127.0.0.0/8 */
	for (int i = 0; i < 4; i++)
		s[i] = quota_source_get(&g_tab, v6[i]);
	assert_ptr_equal(s[0], s[1]); /* a /64 */
	assert_ptr_not_equal(s[0], s[2]);
	memcpy(ip, v6[3], 16);
	ip[15] = 9;
	assert_null(quota_source_find(&g_tab, ip)); /* a link's are hosts */
	quota_source_put(a);
	ipv4(ip, 10, 1);
	assert_null(quota_source_find(&g_tab, ip));
	quota_tab_close(&g_tab);
	quota_source_put(b);
	quota_source_put(lo);
	for (int i = 0; i < 4; i++)
		quota_source_put(s[i]);
}

enum { PEERS = 40, SOURCES = 4, KINDS = 2 };

static const struct quota_limit limits[KINDS] = {
	QUOTA_LIMIT(1, 10, 4, 100),
	{.least = 0, .own = 0, .owns = 0, .peer = 30, .source = 40, .all = 100},
};

static uint64_t beyond(uint64_t used, uint64_t own)
{
	return used > own ? used - own : 0;
}

/*
 * Sums are what peers hold, and no bound is passed: a hostile source has at most its own shares, one each, and half of
 * the pool.
 */
static void check(const struct quota_book *b, const struct quota_user *u, struct quota_source *const *s)
{
	for (int k = 0; k < KINDS; k++) {
		const struct quota_limit *l = &limits[k];
		uint64_t pool = 0;

		for (int i = 0; i < SOURCES; i++) {
			uint64_t own = 0, of = 0;

			for (int p = 0; p < PEERS; p++) {
				if (u[p].source != s[i])
					continue;
				own += MIN(u[p].used[k], l->own);
				of += beyond(u[p].used[k], l->own);
			}
			assert_int_equal(own, s[i]->sum[QUOTA_OWNER][k].own);
			assert_int_equal(of, s[i]->sum[QUOTA_OWNER][k].pool);
			assert_in_range(own, 0, l->owns * l->own + PEERS * l->least);
			assert_in_range(of, 0, MIN(l->source, l->all / 2));
		}
		for (int p = 0; p < PEERS; p++) {
			pool += beyond(u[p].used[k], l->own);
			assert_in_range(u[p].used[k], 0, MIN(l->peer, l->own + l->all / 2));
		}
		assert_int_equal(pool, b->pool[k]);
		assert_in_range(pool, 0, l->all);
	}
}

static void quota__against_a_count(void **state)
{
	struct quota_source *s[SOURCES];
	struct quota_user u[PEERS] = {0};
	struct quota_book b;
	struct rng rng = unit_rng();
	unsigned refused = 0;

	(void)state;
	quota_book_init(&b, QUOTA_OWNER, limits, KINDS);
	for (uint8_t i = 0; i < SOURCES; i++)
		s[i] = source(10, i);
	for (int i = 0; i < 20000; i++) {
		struct quota_user *at = &u[rng_below(&rng, PEERS)];
		unsigned k = (unsigned)rng_below(&rng, KINDS);
		uint64_t n = 1 + rng_below(&rng, at->used[k] + 2);

		quota_join(at, rng_below(&rng, 5) ? s[(at - u) % SOURCES] : NULL);
		if (rng_below(&rng, 5) < 3)
			refused += !take(&b, at, k, at->used[k] < limits[k].least ? 1 : n);
		else
			quota_put(&b, at, k, MIN(n, at->used[k]));
		if (i % 16 == 0)
			check(&b, u, s);
	}
	assert_true(refused > 1000);
	for (int p = 0; p < PEERS; p++) {
		for (unsigned k = 0; k < KINDS; k++)
			quota_put(&b, &u[p], k, u[p].used[k]);
		quota_leave(&u[p]);
	}
	check(&b, u, s);
	for (int i = 0; i < SOURCES; i++) {
		assert_int_equal(s[i]->refs, 1);
		quota_source_put(s[i]);
	}
}

/*
 * A host makes peers without end; each of its honest ones gets on with one at a time, and those elsewhere have all that
 * is theirs.
 */
static void quota__a_crowd_of_one_host(void **state)
{
	struct quota_user crowd[100] = {0}, late = {0}, other = {0}, near = {0};
	struct quota_source *s = source(10, 1), *o = source(10, 2);
	struct quota_book b;

	(void)state;
	quota_book_init(&b, QUOTA_OWNER, limits, KINDS);
	for (int i = 0; i < 100; i++) {
		quota_join(&crowd[i], s);
		while (take(&b, &crowd[i], 0, 1))
			;
	}
	assert_in_range(s->sum[QUOTA_OWNER][0].own, 40, 40 + 100);
	assert_int_equal(s->sum[QUOTA_OWNER][0].pool, 50);
	quota_join(&late, s);
	assert_true(take(&b, &late, 0, 1));
	assert_false(take(&b, &late, 0, 1));
	quota_put(&b, &late, 0, 1);
	assert_true(take(&b, &late, 0, 1));
	quota_join(&other, o);
	assert_true(take(&b, &other, 0, 10 + 25)); /* its own, and as much of the pool as it leaves */
	assert_false(quota_has(&b, &other, 0, 1));
	assert_true(take(&b, &near, 0, 10 + 12)); /* who shares with nobody */
	assert_false(quota_has(&b, &near, 0, 1));
	assert_false(quota_has(&b, &other, 0, UINT32_MAX));
	/* what it holds was had with those; empty, it may go to others */
	quota_join(&other, s);
	assert_ptr_equal(other.source, o);
	quota_put(&b, &other, 0, 35);
	quota_join(&other, s);
	assert_ptr_equal(other.source, s);
	assert_int_equal(o->refs, 1);
	quota_source_put(o);
	for (int i = 0; i < 100; i++) {
		quota_put(&b, &crowd[i], 0, crowd[i].used[0]);
		quota_leave(&crowd[i]);
	}
	quota_put(&b, &late, 0, 1);
	quota_leave(&late);
	quota_leave(&other);
	quota_put(&b, &near, 0, 22);
	assert_int_equal(s->refs, 1);
	quota_source_put(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(source__by_network, setup),
		cmocka_unit_test_setup(quota__against_a_count, setup),
		cmocka_unit_test_setup(quota__a_crowd_of_one_host, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
