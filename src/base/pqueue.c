// SPDX-License-Identifier: BSD-2-Clause
// Binary heap whose nodes know their place.
#include "base/pqueue.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

#define PQ_CAP_MIN 16

void pq_init(struct pq *q)
{
	*q = (struct pq){0};
}

void pq_fini(struct pq *q)
{
	for (uint32_t i = 0; i < q->cnt; i++)
		q->v[i]->pos = 0;
	mem_free(q->v);
	*q = (struct pq){0};
}

int pq_reserve(struct pq *q, uint32_t n)
{
	struct pq_node **v;

	if (n <= q->cap)
		return 0;
	v = mem_alloc(n * sizeof(struct pq_node *));
	if (!v)
		return -ENOMEM;
	if (q->v)
		memcpy(v, q->v, q->cnt * sizeof(struct pq_node *));
	mem_free(q->v);
	q->v = v;
	q->cap = n;
	return 0;
}

static void place(struct pq *q, uint32_t idx, struct pq_node *node)
{
	q->v[idx] = node;
	node->pos = idx + 1;
}

/* Put @node where it belongs above the vacant place @idx; children of @idx are not looked at. */
static void sift_up(struct pq *q, uint32_t idx, struct pq_node *node)
{
	while (idx) {
		uint32_t up = (idx - 1) / 2;

		if (q->v[up]->key_ns <= node->key_ns)
			break;
		place(q, idx, q->v[up]);
		idx = up;
	}
	place(q, idx, node);
}

/* Put @node where it belongs below the vacant place @idx; parents of @idx are not looked at. */
static void sift_down(struct pq *q, uint32_t idx, struct pq_node *node)
{
	uint32_t kid;

	while ((kid = 2 * idx + 1) < q->cnt) {
		if (kid + 1 < q->cnt && q->v[kid + 1]->key_ns < q->v[kid]->key_ns)
			kid++;
		if (node->key_ns <= q->v[kid]->key_ns)
			break;
		place(q, idx, q->v[kid]);
		idx = kid;
	}
	place(q, idx, node);
}

/* Fill the vacant place @idx with @node. */
static void settle(struct pq *q, uint32_t idx, struct pq_node *node)
{
	if (idx && node->key_ns < q->v[(idx - 1) / 2]->key_ns)
		sift_up(q, idx, node);
	else
		sift_down(q, idx, node);
}

int pq_push(struct pq *q, struct pq_node *node)
{
	must(!node->pos);
	if (q->cnt == q->cap && pq_reserve(q, MAX(q->cap * 2, (uint32_t)PQ_CAP_MIN)))
		return -ENOMEM;
	q->cnt++;
	sift_up(q, q->cnt - 1, node);
	return 0;
}

static uint32_t node_idx(const struct pq *q, const struct pq_node *node)
{
	must(node->pos && node->pos <= q->cnt);
	assert(q->v[node->pos - 1] == node);
	return node->pos - 1;
}

void pq_update(struct pq *q, struct pq_node *node, uint64_t key_ns)
{
	node->key_ns = key_ns;
	settle(q, node_idx(q, node), node);
}

void pq_remove(struct pq *q, struct pq_node *node)
{
	struct pq_node *last;
	uint32_t idx;

	if (!node->pos)
		return;
	idx = node_idx(q, node);
	node->pos = 0;
	last = q->v[--q->cnt];
	if (last != node)
		settle(q, idx, last);
}
