// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/matchtab.[ch]: random operations against a naive list; and a table of costs.
#include "unit.h"

#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/matchtab.h"
#include "base/mem.h"

#define MODEL_MAX 2000

/* An array in order of age. */
struct model {
	struct mt_node *node[MODEL_MAX];
	uint32_t cnt;
};

static void model_del(struct model *m, uint32_t i)
{
	memmove(&m->node[i], &m->node[i + 1], (m->cnt - i - 1) * sizeof(m->node[0]));
	m->cnt--;
}

/* The oldest that agrees; @ignore: of the search, in addition to the node's own if @is_posted. */
static uint32_t model_find(const struct model *m, uint64_t src, uint64_t tag, uint64_t ignore,
			   bool is_posted)
{
	uint32_t i;

	for (i = 0; i < m->cnt; i++) {
		const struct mt_node *n = m->node[i];
		uint64_t keep = ~(is_posted ? n->ignore : ignore);

		if (!((n->tag ^ tag) & keep) &&
		    (n->src == src || (is_posted ? n->src : src) == MT_ANY_SRC))
			break;
	}
	return i;
}

static struct mt_node *node_new(uint64_t src, uint64_t tag, uint64_t ignore)
{
	struct mt_node *n = aligned_alloc(CACHE_LINE, ALIGN_UP(sizeof(*n), (size_t)CACHE_LINE));

	assert_non_null(n);
	memset(n, 0xa5, sizeof(*n)); /* the table must not read what nobody set */
	n->src = src;
	n->tag = tag;
	n->ignore = ignore;
	return n;
}

static void mt_posted_match__first_come_first_served(void **state)
{
	struct mt_posted t;
	struct mt_node *n[6];

	mt_posted_init(&t);
	assert_null(mt_posted_match(&t, 1, 1));
	assert_null(mt_posted_first(&t));
	n[0] = node_new(MT_ANY_SRC, 5, 0);
	n[1] = node_new(1, 5, 0);
	n[2] = node_new(1, 0, UINT64_MAX);
	n[3] = node_new(MT_ANY_SRC, 0, UINT64_MAX);
	n[4] = node_new(1, 5, 0);
	n[5] = node_new(2, 5, 0);
	for (int i = 0; i < 6; i++)
		mt_posted_add(&t, n[i]);
	assert_int_equal(mt_posted_cnt(&t), 6);
	assert_ptr_equal(mt_posted_match(&t, 2, 5), n[0]);
	assert_ptr_equal(mt_posted_match(&t, 2, 5), n[0]); /* it stays */
	assert_ptr_equal(mt_posted_match(&t, 1, 6), n[2]);
	assert_ptr_equal(mt_posted_match(&t, 2, 6), n[3]);
	mt_posted_del(&t, n[0]);
	assert_ptr_equal(mt_posted_match(&t, 1, 5), n[1]);
	assert_ptr_equal(mt_posted_match(&t, 2, 5), n[3]);
	mt_posted_del(&t, n[3]);
	assert_ptr_equal(mt_posted_match(&t, 2, 5), n[5]);
	mt_posted_del(&t, n[1]);
	mt_posted_del(&t, n[2]);
	assert_ptr_equal(mt_posted_match(&t, 1, 5), n[4]);
	assert_ptr_equal(mt_posted_first(&t), n[4]);
	assert_ptr_equal(mt_posted_next(n[4]), n[5]);
	assert_null(mt_posted_next(n[5]));
	mt_posted_fini(&t);
	for (int i = 0; i < 6; i++)
		free(n[i]);
}

/* What is taken in the order of posting is never hashed; one search out of order hashes what is there, once. */
static void mt_posted_match__hashes_only_out_of_order(void **state)
{
	struct mt_node *n[100];
	struct mt_posted t;

	mt_posted_init(&t);
	for (int i = 0; i < 100; i++)
		mt_posted_add(&t, n[i] = node_new(1, (uint64_t)i, 0));
	for (int i = 0; i < 40; i++) {
		assert_ptr_equal(mt_posted_match(&t, 1, (uint64_t)i), n[i]);
		mt_posted_del(&t, n[i]);
	}
	assert_int_equal(t.hash.group_cnt, 0);
	assert_ptr_equal(mt_posted_match(&t, 1, 99), n[99]);
	assert_int_equal(t.hash.group_cnt, 60);
	mt_posted_del(&t, n[99]);
	for (int i = 0; i < 40; i++) { /* behind those that are hashed */
		n[i]->tag = 100;
		mt_posted_add(&t, n[i]);
	}
	assert_int_equal(t.hash.group_cnt, 59);
	for (int i = 40; i < 99; i++) {
		assert_ptr_equal(mt_posted_match(&t, 1, (uint64_t)i), n[i]);
		mt_posted_del(&t, n[i]);
	}
	assert_int_equal(t.hash.group_cnt, 0);
	assert_ptr_equal(mt_posted_match(&t, 1, 100), n[0]);
	mt_posted_del(&t, n[0]);
	assert_int_equal(t.hash.group_cnt, 0);
	assert_null(mt_posted_match(&t, 2, 100));
	assert_int_equal(t.hash.group_cnt, 1);
	assert_ptr_equal(mt_posted_match(&t, 1, 100), n[1]);
	for (int i = 1; i < 40; i++)
		mt_posted_del(&t, n[i]);
	assert_int_equal(t.hash.group_cnt, 0);
	mt_posted_fini(&t);
	for (int i = 0; i < 100; i++)
		free(n[i]);
}

static void mt_posted_match__allocates_only_above_64_groups(void **state)
{
	struct mt_node *n[600];
	uint64_t before = mem_alloc_count();
	int64_t live = mem_live_count();
	struct mt_posted t;
	int i;

	mt_posted_init(&t);
	for (i = 0; i < 64; i++)
		mt_posted_add(&t, n[i] = node_new(1, (uint64_t)i, 0));
	for (; i < 500; i++)
		mt_posted_add(&t, n[i] = node_new(1, 7, 0));
	assert_null(mt_posted_match(&t, 2, 7));
	assert_int_equal(mem_alloc_count(), before);
	for (; i < 600; i++)
		mt_posted_add(&t, n[i] = node_new(1, (uint64_t)i, 0));
	mem_fail_nth(1);
	assert_null(mt_posted_match(&t, 2, 7));
	assert_int_equal(mem_alloc_count(), before + 1); /* asked again at 129 groups */
	for (i = 0; i < 600; i++) {
		assert_ptr_equal(mt_posted_match(&t, 1, n[i]->tag), n[i]);
		mt_posted_del(&t, n[i]);
		free(n[i]);
	}
	mt_posted_fini(&t);
	assert_int_equal(mem_live_count(), live);
}

/* However many classes and keys come and go: what counts is how many are there at a time. */
static void mt_posted_del__gives_class_and_group_back(void **state)
{
	uint64_t before = mem_alloc_count();
	struct mt_posted t;
	struct mt_unexp u;
	struct mt_node *n[10] = {0}, *m[10] = {0};

	mt_posted_init(&t);
	mt_unexp_init(&u);
	for (uint64_t i = 0; i < 1000; i++) {
		if (n[i % 10]) {
			mt_posted_del(&t, n[i % 10]);
			mt_unexp_del(&u, m[i % 10]);
		}
		free(n[i % 10]);
		free(m[i % 10]);
		mt_posted_add(&t, n[i % 10] = node_new(1, i, i));
		mt_unexp_add(&u, m[i % 10] = node_new(i, i, 0));
		assert_null(mt_posted_match(&t, 2, 0));
		assert_null(t.further);
	}
	assert_int_equal(mem_alloc_count(), before);
	for (int i = 0; i < 10; i++) {
		free(n[i]);
		free(m[i]);
	}
	mt_posted_fini(&t);
	mt_unexp_fini(&u);
}

/* What a random run draws from. */
struct mix {
	uint32_t tag_cnt, src_cnt, ignore_cnt, depth;
	int ops;
};

static uint64_t draw_ignore(struct rng *r, const struct mix *x)
{
	uint64_t i = rng_below(r, x->ignore_cnt);

	/* 0, all, then bits low and high that tags really have */
	return i == 0 ? 0 : i == 1 ? UINT64_MAX : (i * 5 % 64) | (i % 7) << 40;
}

static uint64_t draw_tag(struct rng *r, const struct mix *x)
{
	uint64_t t = rng_below(r, x->tag_cnt);

	return (t & 15) | (t >> 4) << 40;
}

static uint64_t draw_src(struct rng *r, const struct mix *x)
{
	return rng_below(r, 30) ? rng_below(r, x->src_cnt) : MT_ANY_SRC; /* unknown sender */
}

static void check_order(struct mt_node *n, const struct model *m, bool is_posted)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		assert_ptr_equal(n, m->node[i]);
		assert_true(i == 0 || m->node[i - 1]->seq < n->seq);
		n = is_posted ? mt_posted_next(n) : mt_unexp_next(n);
	}
	assert_null(n);
}

/* Fill and drain in turns, so that the table goes through empty and full. */
static bool want_add(struct rng *r, const struct model *m, const struct mix *x, int op)
{
	uint32_t level = (op / 5000) % 2 ? x->depth / 10 : x->depth;

	return m->cnt < MODEL_MAX && rng_below(r, 2 * level + 2) > m->cnt;
}

static void run_posted(struct rng *r, const struct mix *x)
{
	struct model m = {0};
	struct mt_posted t;
	uint32_t i;

	mt_posted_init(&t);
	for (int op = 0; op < x->ops; op++) {
		uint64_t src = draw_src(r, x), tag = draw_tag(r, x);
		struct mt_node *n = NULL;

		if (want_add(r, &m, x, op)) {
			n = node_new(rng_below(r, 3) ? src : MT_ANY_SRC, tag, draw_ignore(r, x));
			if (!rng_below(r, 50))
				mem_fail_nth(1);
			mt_posted_add(&t, n);
			m.node[m.cnt++] = n;
			continue;
		}
		if (rng_below(r, 4)) {
			n = mt_posted_match(&t, src, tag);
			i = model_find(&m, src, tag, 0, true);
			assert_ptr_equal(n, i < m.cnt ? m.node[i] : NULL);
		} else if (m.cnt) {
			i = (uint32_t)rng_below(r, m.cnt);
			n = m.node[i];
		}
		if (n && rng_below(r, 8)) {
			mt_posted_del(&t, n);
			model_del(&m, i);
			free(n);
		}
		if (!rng_below(r, 1000))
			check_order(mt_posted_first(&t), &m, true);
		assert_int_equal(mt_posted_cnt(&t), m.cnt);
	}
	mem_fail_nth(0);
	for (i = 0; i < m.cnt; i++)
		free(m.node[i]);
	mt_posted_fini(&t);
}

/* All that had no known sender are of @src now. */
static void know_src(struct mt_unexp *t, const struct model *m, uint64_t src)
{
	for (uint32_t i = 0; i < m->cnt; i++)
		if (m->node[i]->src == MT_ANY_SRC)
			mt_unexp_set_src(t, m->node[i], src);
}

static void run_unexp(struct rng *r, const struct mix *x)
{
	uint64_t late = 1u << 20; /* no drawn source */
	struct model m = {0};
	struct mt_unexp t;
	uint32_t i;

	mt_unexp_init(&t);
	for (int op = 0; op < x->ops; op++) {
		uint64_t src = draw_src(r, x), tag = draw_tag(r, x);
		struct mt_node *n = NULL;

		if (want_add(r, &m, x, op)) {
			n = node_new(rng_below(r, 6) ? src : MT_ANY_SRC, tag, rng_u64(r));
			if (!rng_below(r, 50))
				mem_fail_nth(1);
			assert_int_equal(mt_unexp_add(&t, n), 0);
			m.node[m.cnt++] = n;
			continue;
		}
		if (rng_below(r, 4)) {
			uint64_t ignore = draw_ignore(r, x);

			if (!rng_below(r, 3))
				src = MT_ANY_SRC;
			else if (!rng_below(r, 4))
				src = late;
			n = mt_unexp_find(&t, src, tag, ignore);
			i = model_find(&m, src, tag, ignore, false);
			assert_ptr_equal(n, i < m.cnt ? m.node[i] : NULL);
		} else if (m.cnt) {
			i = (uint32_t)rng_below(r, m.cnt);
			n = m.node[i];
		}
		if (n && rng_below(r, 8)) {
			mt_unexp_del(&t, n);
			model_del(&m, i);
			free(n);
		}
		if (!rng_below(r, 200))
			know_src(&t, &m, ++late);
		if (!rng_below(r, 1000))
			check_order(mt_unexp_first(&t), &m, false);
		assert_int_equal(mt_unexp_cnt(&t), m.cnt);
	}
	mem_fail_nth(0);
	for (i = 0; i < m.cnt; i++)
		free(m.node[i]);
	mt_unexp_fini(&t);
}

static const struct mix g_mix[] = {
	{.tag_cnt = 3, .src_cnt = 2, .ignore_cnt = 2, .depth = 3, .ops = 300000},
	{.tag_cnt = 40, .src_cnt = 4, .ignore_cnt = 1, .depth = 100, .ops = 400000},
	{.tag_cnt = 200, .src_cnt = 9, .ignore_cnt = 3, .depth = 300, .ops = 400000},
	{.tag_cnt = 100, .src_cnt = 3, .ignore_cnt = 12, .depth = 60, .ops = 300000},
	{.tag_cnt = 1000, .src_cnt = 50, .ignore_cnt = 40, .depth = 300, .ops = 300000},
	{.tag_cnt = 5000, .src_cnt = 3, .ignore_cnt = 1, .depth = 800, .ops = 300000},
};

static void mt_posted__random_against_list(void **state)
{
	struct rng r = unit_rng();

	for (size_t i = 0; i < ARRAY_SIZE(g_mix); i++)
		run_posted(&r, &g_mix[i]);
}

static void mt_unexp__random_against_list(void **state)
{
	struct rng r = unit_rng();

	for (size_t i = 0; i < ARRAY_SIZE(g_mix); i++)
		run_unexp(&r, &g_mix[i]);
}

/* A search with another mask walks the list until the table has adopted the mask. */
static void mt_unexp_find__adopts_the_mask_in_use(void **state)
{
	struct mt_node *n[1000];
	struct mt_unexp t;

	mt_unexp_init(&t);
	for (uint64_t i = 0; i < 1000; i++)
		mt_unexp_add(&t, n[i] = node_new(i % 10, i, 0));
	assert_int_equal(t.ignore, 0);
	assert_ptr_equal(mt_unexp_find(&t, MT_ANY_SRC, 0, 0xff), n[0]);
	assert_int_equal(t.walked, 0);
	for (int i = 0; i < 6; i++)
		assert_ptr_equal(mt_unexp_find(&t, MT_ANY_SRC, 0x300, 0xff), n[0x300]);
	assert_int_equal(t.ignore, 0xff);
	assert_int_equal(t.walked, 0);
	/* a finer mask walks one group, until that has cost too much as well */
	assert_ptr_equal(mt_unexp_find(&t, n[0x2aa]->src, 0x2aa, 0), n[0x2aa]);
	assert_null(mt_unexp_find(&t, n[0x2aa]->src + 1, 0x2aa, 0));
	for (int i = 0; i < 100000 && t.ignore; i++)
		mt_unexp_find(&t, n[0x2f0]->src, 0x2f0, 0);
	assert_int_equal(t.ignore, 0);
	for (int i = 0; i < 1000; i++)
		free(n[i]);
	mt_unexp_fini(&t);
}

static const uint32_t g_depth[] = {1, 4, 5, 100, 1000, 10000, 100000};

/* How a table of @depth receives is made and asked. */
enum pattern { PAT_DIRECTED, PAT_ANY_SRC, PAT_4_CLASSES, PAT_STRIDED, PAT_ONE_KEY, PAT_NUM };
static const char *const g_pattern[] = {"directed", "any source", "4 classes", "tag << 32",
					"one key"};

static void pattern_set(struct mt_node *n, enum pattern p, uint32_t i)
{
	n->src = i % 16;
	n->tag = i * 7ULL + 1;
	n->ignore = 0;
	switch (p) {
	case PAT_ANY_SRC:
		n->src = MT_ANY_SRC;
		break;
	case PAT_4_CLASSES:
		n->src = i & 1 ? n->src : MT_ANY_SRC;
		n->ignore = i & 2 ? 1ULL << 60 : 0;
		break;
	case PAT_STRIDED:
		n->tag = (uint64_t)i << 32;
		break;
	case PAT_ONE_KEY:
		n->src = n->tag = 1;
		break;
	case PAT_DIRECTED:
	case PAT_NUM:
		break;
	}
}

/* ns to match a random receive, take it out and post it again, at a steady depth. */
static double posted_cost(struct mt_node *nodes, uint32_t depth, enum pattern p, struct rng *r)
{
	enum { OPS = 200000 };
	struct mt_posted t;
	uint64_t begin;

	mt_posted_init(&t);
	for (uint32_t i = 0; i < depth; i++) {
		pattern_set(&nodes[i], p, i);
		mt_posted_add(&t, &nodes[i]);
	}
	begin = clk_now_ns(NULL);
	for (int i = 0; i < OPS; i++) {
		const struct mt_node *like = &nodes[rng_below(r, depth)];
		struct mt_node *n =
			mt_posted_match(&t, like->src == MT_ANY_SRC ? 3 : like->src, like->tag);

		must(n != NULL);
		mt_posted_del(&t, n);
		mt_posted_add(&t, n);
	}
	begin = clk_now_ns(NULL) - begin;
	mt_posted_fini(&t);
	return (double)begin / OPS;
}

static double unexp_cost(struct mt_node *nodes, uint32_t depth, enum pattern p, struct rng *r)
{
	enum { OPS = 200000 };
	struct mt_unexp t;
	uint64_t begin;

	mt_unexp_init(&t);
	for (uint32_t i = 0; i < depth; i++) {
		pattern_set(&nodes[i], p, i);
		nodes[i].src = i % 16;
		mt_unexp_add(&t, &nodes[i]);
	}
	begin = clk_now_ns(NULL);
	for (int i = 0; i < OPS; i++) {
		const struct mt_node *like = &nodes[rng_below(r, depth)];
		struct mt_node *n = mt_unexp_find(&t, p == PAT_ANY_SRC ? MT_ANY_SRC : like->src,
						  like->tag, p == PAT_4_CLASSES ? 1ULL << 60 : 0);

		must(n != NULL);
		mt_unexp_del(&t, n);
		mt_unexp_add(&t, n);
	}
	begin = clk_now_ns(NULL) - begin;
	mt_unexp_fini(&t);
	return (double)begin / OPS;
}

/*
 * A walk along the list would cost thousands of times as much at the greatest depth; caches cost some tens, and more
 * where a sanitizer's shadow memory and other programs share them.
 */
static void cost_check(double shallow, double deep, const char *what, enum pattern p)
{
	if (deep > 200 * (shallow + 10) * unit_slow())
		fail_msg("%s, %s: %.0f ns at depth %u, %.0f at 1", what, g_pattern[p], deep,
			 g_depth[ARRAY_SIZE(g_depth) - 1], shallow);
}

static void matchtab__costs(void **state)
{
	double posted[ARRAY_SIZE(g_depth)][PAT_NUM], unexp[ARRAY_SIZE(g_depth)][PAT_NUM];
	uint32_t max = g_depth[ARRAY_SIZE(g_depth) - 1];
	struct mt_node *nodes = aligned_alloc(CACHE_LINE, max * sizeof(*nodes));
	struct rng r = unit_rng();

	memset(nodes, 0, max * sizeof(*nodes));
	print_message("ns per match + delete + add, posted / unexpected, by depth\n%8s", "");
	for (int p = 0; p < PAT_NUM; p++)
		print_message(" %15s", g_pattern[p]);
	for (size_t i = 0; i < ARRAY_SIZE(g_depth); i++) {
		print_message("\n%8u", g_depth[i]);
		for (int p = 0; p < PAT_NUM; p++) {
			posted[i][p] = posted_cost(nodes, g_depth[i], (enum pattern)p, &r);
			unexp[i][p] = unexp_cost(nodes, g_depth[i], (enum pattern)p, &r);
			print_message(" %7.1f %7.1f", posted[i][p], unexp[i][p]);
		}
	}
	print_message("\n");
	for (int p = 0; p < PAT_NUM; p++) {
		cost_check(posted[0][p], posted[ARRAY_SIZE(g_depth) - 1][p], "posted", (enum pattern)p);
		cost_check(unexp[0][p], unexp[ARRAY_SIZE(g_depth) - 1][p], "unexpected", (enum pattern)p);
	}
	free(nodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mt_posted_match__first_come_first_served),
		cmocka_unit_test(mt_posted_match__hashes_only_out_of_order),
		cmocka_unit_test(mt_posted_match__allocates_only_above_64_groups),
		cmocka_unit_test(mt_posted_del__gives_class_and_group_back),
		cmocka_unit_test(mt_posted__random_against_list),
		cmocka_unit_test(mt_unexp__random_against_list),
		cmocka_unit_test(mt_unexp_find__adopts_the_mask_in_use),
		cmocka_unit_test(matchtab__costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
