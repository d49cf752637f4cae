// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/pqueue.c.
#include "unit.h"

#include <errno.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/pqueue.h"

#define NODE_CNT 200

static void pq_peek__empty(void **state)
{
	uint64_t allocs = mem_alloc_count();
	struct pq_node node = {0};
	struct pq q;

	pq_init(&q);
	assert_null(pq_peek(&q));
	pq_remove(&q, &node);
	assert_null(pq_peek(&q));
	pq_fini(&q);
	assert_int_equal(mem_alloc_count(), allocs);
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void pq_push__drains_sorted(void **state)
{
	struct rng r = unit_rng();
	static struct pq_node node[1000];
	uint64_t key[1000];
	struct pq q;

	pq_init(&q);
	for (size_t i = 0; i < ARRAY_SIZE(node); i++) {
		key[i] = rng_below(&r, i % 2 ? 50 : UINT64_MAX);
		node[i] = (struct pq_node){.key_ns = key[i]};
		assert_int_equal(pq_push(&q, &node[i]), 0);
	}
	qsort(key, ARRAY_SIZE(key), sizeof(key[0]), cmp_u64);
	for (size_t i = 0; i < ARRAY_SIZE(node); i++) {
		struct pq_node *min = pq_peek(&q);

		assert_true(min->key_ns == key[i]);
		pq_remove(&q, min);
		assert_int_equal(min->pos, 0);
	}
	assert_null(pq_peek(&q));
	pq_fini(&q);
}

/* Heap order, and every node knows its place. */
static void check_shape(const struct pq *q)
{
	for (uint32_t i = 0; i < q->cnt; i++) {
		assert_int_equal(q->v[i]->pos, i + 1);
		assert_true(!i || q->v[(i - 1) / 2]->key_ns <= q->v[i]->key_ns);
	}
}

static void check_against_scan(const struct pq *q, const struct pq_node *node)
{
	uint64_t min = UINT64_MAX;
	uint32_t cnt = 0;

	for (int i = 0; i < NODE_CNT; i++) {
		if (node[i].pos) {
			min = MIN(min, node[i].key_ns);
			cnt++;
		}
	}
	assert_int_equal(q->cnt, cnt);
	if (cnt)
		assert_true(pq_peek(q)->key_ns == min);
	else
		assert_null(pq_peek(q));
}

static void pq_update__random_operations_agree_with_scan(void **state)
{
	struct pq_node node[NODE_CNT] = {0};
	struct rng r = unit_rng();
	struct pq q;

	pq_init(&q);
	for (int i = 0; i < 20000; i++) {
		struct pq_node *n = &node[rng_below(&r, NODE_CNT)];
		uint64_t key = rng_chance(&r, 0.1) ? UINT64_MAX : rng_below(&r, 300);

		if (rng_chance(&r, 0.3)) {
			pq_remove(&q, n);
			assert_int_equal(n->pos, 0);
		} else if (n->pos) {
			pq_update(&q, n, key);
			assert_true(n->key_ns == key);
		} else {
			n->key_ns = key;
			assert_int_equal(pq_push(&q, n), 0);
		}
		check_shape(&q);
		check_against_scan(&q, node);
	}
	pq_fini(&q);
	for (int i = 0; i < NODE_CNT; i++)
		assert_int_equal(node[i].pos, 0);
}

static void pq_push__survives_alloc_failure(void **state)
{
	struct pq_node node[NODE_CNT] = {0};
	int64_t live = mem_live_count();
	int fail_cnt = 0;
	struct pq q;

	pq_init(&q);
	for (uint32_t i = 0; i < NODE_CNT; i++) {
		node[i].key_ns = NODE_CNT - i;
		mem_fail_nth(1);
		if (pq_push(&q, &node[i])) {
			fail_cnt++;
			assert_int_equal(node[i].pos, 0);
			check_against_scan(&q, node);
			assert_int_equal(pq_push(&q, &node[i]), 0);
		}
		mem_fail_nth(0);
		check_shape(&q);
	}
	assert_true(fail_cnt > 0);
	pq_fini(&q);
	assert_int_equal(mem_live_count(), live);
}

static void pq_reserve__makes_push_allocation_free(void **state)
{
	struct pq_node node[NODE_CNT] = {0};
	uint64_t allocs;
	struct pq q;

	pq_init(&q);
	mem_fail_nth(1);
	assert_int_equal(pq_reserve(&q, NODE_CNT), -ENOMEM);
	assert_int_equal(pq_push(&q, &node[0]), 0);
	assert_int_equal(pq_reserve(&q, NODE_CNT), 0);
	assert_ptr_equal(pq_peek(&q), &node[0]);
	allocs = mem_alloc_count();
	assert_int_equal(pq_reserve(&q, 3), 0);
	for (int i = 1; i < NODE_CNT; i++)
		assert_int_equal(pq_push(&q, &node[i]), 0);
	assert_int_equal(mem_alloc_count(), allocs);
	pq_fini(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pq_peek__empty),
		cmocka_unit_test(pq_reserve__makes_push_allocation_free),
		cmocka_unit_test(pq_push__drains_sorted),
		cmocka_unit_test(pq_push__survives_alloc_failure),
		cmocka_unit_test(pq_update__random_operations_agree_with_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
