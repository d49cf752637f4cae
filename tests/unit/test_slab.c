// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/slab.c and slab.h.
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/slab.h"

static void slab_init__rejects_nonsense(void **state)
{
	struct slab s;

	assert_int_equal(slab_init(&s, 0, 8, 16, 0), -EINVAL);
	assert_int_equal(slab_init(&s, 8, 0, 16, 0), -EINVAL);
	assert_int_equal(slab_init(&s, 8, 24, 16, 0), -EINVAL);
	assert_int_equal(slab_init(&s, 8, SLAB_ALIGN_MAX * 2, 16, 0), -EINVAL);
	assert_int_equal(slab_init(&s, 8, 8, 0, 0), -EINVAL);
	assert_int_equal(slab_init(&s, 8, 8, SLAB_MAX_CNT + 1, 0), -EINVAL);
	assert_int_equal(slab_init(&s, 8, 8, 16, SLAB_MAX_CNT + 1), -EINVAL);
	assert_int_equal(slab_init(&s, SIZE_MAX, 8, 16, 0), -EINVAL);
	assert_int_equal(slab_init(&s, SIZE_MAX / 8, 8, 16, 0), -EINVAL);
}

static void slab_init__allocates_nothing(void **state)
{
	uint64_t allocs = mem_alloc_count();
	struct slab s;

	assert_int_equal(slab_init(&s, 100, 8, 16, 0), 0);
	assert_null(slab_find(&s, 0));
	assert_int_equal(slab_used(&s), 0);
	slab_fini(&s);
	assert_int_equal(mem_alloc_count(), allocs);
}

static void slab_get__aligned_disjoint_objects(void **state)
{
	for (size_t align = 1; align <= 4096; align *= 2) {
		uint8_t *obj[40];
		struct slab s;

		assert_int_equal(slab_init(&s, 37, align, 8, 0), 0);
		for (size_t i = 0; i < ARRAY_SIZE(obj); i++) {
			obj[i] = slab_get(&s);
			assert_non_null(obj[i]);
			assert_int_equal((uintptr_t)obj[i] % align, 0);
			memset(obj[i], (int)i, 37);
		}
		for (size_t i = 0; i < ARRAY_SIZE(obj); i++) {
			assert_int_equal(obj[i][0], i);
			assert_int_equal(obj[i][36], i);
			assert_int_equal(FIELD_GET(SLAB_ID_IDX, slab_id(&s, obj[i])), i);
			assert_ptr_equal(slab_find(&s, slab_id(&s, obj[i])), obj[i]);
		}
		slab_fini(&s);
	}
}

static void slab_get__is_lifo_and_keeps_contents(void **state)
{
	struct slab s;
	uint64_t *a, *b;

	assert_int_equal(slab_init(&s, sizeof(*a), 8, 16, 0), 0);
	a = slab_get(&s);
	b = slab_get(&s);
	*a = 1234;
	slab_put(&s, b);
	slab_put(&s, a);
	assert_ptr_equal(slab_get(&s), a);
	assert_int_equal(*a, 1234);
	assert_ptr_equal(slab_get(&s), b);
	slab_fini(&s);
}

static void slab_get__stops_at_max(void **state)
{
	void *obj[21];
	struct slab s;

	/* chunks of 8, 8 and 5 */
	assert_int_equal(slab_init(&s, 8, 8, 7, ARRAY_SIZE(obj)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(obj); i++) {
		obj[i] = slab_get(&s);
		assert_non_null(obj[i]);
	}
	assert_null(slab_get(&s));
	assert_int_equal(slab_used(&s), ARRAY_SIZE(obj));
	assert_int_equal(slab_reserve(&s, ARRAY_SIZE(obj)), 0);
	assert_int_equal(slab_reserve(&s, ARRAY_SIZE(obj) + 1), -ENOMEM);
	slab_put(&s, obj[3]);
	assert_ptr_equal(slab_get(&s), obj[3]);
	assert_null(slab_get(&s));
	slab_fini(&s);
}

static void slab_reserve__makes_get_allocation_free(void **state)
{
	uint64_t allocs;
	struct slab s;

	assert_int_equal(slab_init(&s, 8, 8, 16, 0), 0);
	assert_non_null(slab_get(&s));
	assert_int_equal(slab_reserve(&s, 100), 0);
	allocs = mem_alloc_count();
	for (int i = 1; i < 100; i++)
		assert_non_null(slab_get(&s));
	assert_int_equal(slab_reserve(&s, 50), 0);
	assert_int_equal(mem_alloc_count(), allocs);
	slab_fini(&s);
}

static void slab_get__survives_alloc_failure(void **state)
{
	int64_t live = mem_live_count();

	for (uint64_t n = 1;; n++) {
		uint32_t got = 0, failed = 0;
		struct slab s;

		assert_int_equal(slab_init(&s, 8, 8, 2, 0), 0);
		mem_fail_nth(n);
		while (got < 64) {
			if (slab_get(&s))
				got++;
			else
				failed++;
			assert_int_equal(slab_used(&s), got);
		}
		mem_fail_nth(0);
		slab_fini(&s);
		assert_int_equal(mem_live_count(), live);
		if (!failed)
			break;
		assert_int_equal(failed, 1);
	}
}

static void slab_reserve__survives_alloc_failure(void **state)
{
	int64_t live = mem_live_count();
	int ret = -ENOMEM;

	for (uint64_t n = 1; ret; n++) {
		struct slab s;

		assert_int_equal(slab_init(&s, 8, 8, 2, 0), 0);
		mem_fail_nth(n);
		ret = slab_reserve(&s, 64);
		mem_fail_nth(0);
		assert_true(ret == 0 || ret == -ENOMEM);
		assert_int_equal(slab_reserve(&s, 64), 0);
		slab_fini(&s);
		assert_int_equal(mem_live_count(), live);
	}
}

static void slab_find__stale_handle(void **state)
{
	struct slab s;
	uint32_t id;
	void *obj;

	assert_int_equal(slab_init(&s, 8, 8, 4, 0), 0);
	obj = slab_get(&s);
	id = slab_id(&s, obj);
	assert_ptr_equal(slab_find(&s, id), obj);
	slab_put(&s, obj);
	assert_null(slab_find(&s, id));
	assert_ptr_equal(slab_get(&s), obj);
	assert_null(slab_find(&s, id));
	assert_int_not_equal(slab_id(&s, obj), id);
	slab_fini(&s);
}

/* The handle of a free slot's next user is predictable, but names nothing before slab_get(). */
static void slab_find__future_handle(void **state)
{
	struct slab s;

	assert_int_equal(slab_init(&s, 8, 8, 4, 0), 0);
	assert_non_null(slab_get(&s));
	for (uint32_t idx = 1; idx < 8; idx++)
		assert_null(slab_find(&s, idx));
	slab_fini(&s);
}

#define MODEL_CNT 300

/* Naive twin: all live objects with their handles, found by scanning. */
struct model {
	void *obj[MODEL_CNT];
	uint32_t id[MODEL_CNT];
	uint32_t cnt;
};

static void *model_find(const struct model *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		if (m->id[i] == id)
			return m->obj[i];
	}
	return NULL;
}

static void check_hostile_ids(struct slab *s, const struct model *m, uint32_t stale, struct rng *r)
{
	assert_ptr_equal(slab_find(s, stale), model_find(m, stale));
	for (int i = 0; i < 10; i++) {
		uint32_t any = (uint32_t)rng_u64(r);
		uint32_t near = (uint32_t)(FIELD_PREP(SLAB_ID_GEN, rng_below(r, 8)) |
					   rng_below(r, MODEL_CNT + 64));

		assert_ptr_equal(slab_find(s, any), model_find(m, any));
		assert_ptr_equal(slab_find(s, near), model_find(m, near));
	}
	assert_null(slab_find(s, SLAB_ID_NONE));
}

static void slab_find__hostile_handles_agree_with_model(void **state)
{
	struct rng r = unit_rng();
	struct model m = {.cnt = 0};
	uint32_t stale = SLAB_ID_NONE;
	struct slab s;

	assert_int_equal(slab_init(&s, 24, 8, 16, MODEL_CNT), 0);
	for (int i = 0; i < 10000; i++) {
		if (rng_chance(&r, 0.51)) {
			void *obj = slab_get(&s);

			assert_int_equal(!obj, m.cnt == MODEL_CNT);
			if (obj) {
				m.obj[m.cnt] = obj;
				m.id[m.cnt] = slab_id(&s, obj);
				assert_null(model_find(&m, m.id[m.cnt]));
				m.cnt++;
			}
		} else if (m.cnt) {
			uint32_t k = (uint32_t)rng_below(&r, m.cnt--);

			stale = m.id[k];
			slab_put(&s, m.obj[k]);
			m.obj[k] = m.obj[m.cnt];
			m.id[k] = m.id[m.cnt];
		}
		assert_int_equal(slab_used(&s), m.cnt);
		check_hostile_ids(&s, &m, stale, &r);
	}
	slab_fini(&s);
}

static void slab_id__generation_wraps_without_none(void **state)
{
	struct slab s;
	void *last = NULL, *obj;
	uint32_t id;

	assert_int_equal(slab_init(&s, 1, 1, SLAB_MAX_CNT, 0), 0);
	while ((obj = slab_get(&s)))
		last = obj;
	assert_int_equal(slab_used(&s), SLAB_MAX_CNT);
	id = slab_id(&s, last);
	assert_int_equal(FIELD_GET(SLAB_ID_IDX, id), SLAB_MAX_CNT - 1);
	for (int i = 0; i < SLAB_GEN_NUM; i++) {
		assert_true(i == 0 || slab_id(&s, last) != id);
		assert_true(slab_id(&s, last) != SLAB_ID_NONE);
		slab_put(&s, last);
		assert_null(slab_find(&s, SLAB_ID_NONE));
		assert_ptr_equal(slab_get(&s), last);
	}
	assert_int_equal(slab_id(&s, last), id);
	slab_fini(&s);
}

static void sum_up(void *obj, void *arg)
{
	*(uint64_t *)arg += *(uint64_t *)obj;
}

static void put_back(void *obj, void *arg)
{
	slab_put(arg, obj);
}

static void slab_foreach__visits_live_and_allows_put(void **state)
{
	uint64_t sum = 0, *obj[50];
	struct slab s;

	assert_int_equal(slab_init(&s, sizeof(uint64_t), 8, 16, 0), 0);
	slab_foreach(&s, sum_up, &sum);
	for (uint64_t i = 0; i < ARRAY_SIZE(obj); i++) {
		obj[i] = slab_get(&s);
		assert_non_null(obj[i]);
		*obj[i] = i;
	}
	for (size_t i = 0; i < ARRAY_SIZE(obj); i += 2)
		slab_put(&s, obj[i]);
	slab_foreach(&s, sum_up, &sum);
	assert_int_equal(sum, 25 * 25); /* 1 + 3 + ... + 49 */
	slab_foreach(&s, put_back, &s);
	assert_int_equal(slab_used(&s), 0);
	slab_fini(&s);
}

static void put_twice(void)
{
	const struct rlimit no_core = {0};
	struct slab s;
	void *obj;

	setrlimit(RLIMIT_CORE, &no_core);
	signal(SIGILL, SIG_DFL); /* cmocka would go on with the next test */
	signal(SIGTRAP, SIG_DFL);
	if (slab_init(&s, 8, 8, 4, 0) || !(obj = slab_get(&s)))
		return;
	slab_put(&s, obj);
	slab_put(&s, obj);
}

static void slab_put__twice_traps(void **state)
{
	int status = 0;
	pid_t pid = unit_fork();

	assert_true(pid >= 0);
	if (!pid) {
		put_twice();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slab_init__rejects_nonsense),
		cmocka_unit_test(slab_init__allocates_nothing),
		cmocka_unit_test(slab_reserve__makes_get_allocation_free),
		cmocka_unit_test(slab_reserve__survives_alloc_failure),
		cmocka_unit_test(slab_find__stale_handle),
		cmocka_unit_test(slab_find__future_handle),
		cmocka_unit_test(slab_find__hostile_handles_agree_with_model),
		cmocka_unit_test(slab_foreach__visits_live_and_allows_put),
		cmocka_unit_test(slab_get__aligned_disjoint_objects),
		cmocka_unit_test(slab_get__is_lifo_and_keeps_contents),
		cmocka_unit_test(slab_get__stops_at_max),
		cmocka_unit_test(slab_get__survives_alloc_failure),
		cmocka_unit_test(slab_put__twice_traps),
		cmocka_unit_test(slab_id__generation_wraps_without_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
