// SPDX-License-Identifier: BSD-2-Clause
// Timer heap: which embedded node has the smallest key? Update and removal in O(log n).
#ifndef SF_BASE_PQUEUE_H
#define SF_BASE_PQUEUE_H

#include <stddef.h>
#include <stdint.h>

/* Embedded in what has a deadline; zero it before first use. In at most one queue at a time. */
struct pq_node {
	uint64_t key_ns; /* set before pq_push(), afterwards only by pq_update() */
	uint32_t pos;	 /* 1-based place in the heap; 0 = not queued */
};

/* The nodes belong to the caller. */
struct pq {
	struct pq_node **v; /* [cap] binary heap */
	uint32_t cnt, cap;
};

/** pq_init() - An empty queue; allocates nothing. */
void pq_init(struct pq *q);

/** pq_fini() - Free the heap; nodes still queued become not queued. */
void pq_fini(struct pq *q);

/** pq_reserve() - Room for @n nodes in all: pq_push() cannot fail below. Return: 0; -ENOMEM. */
int pq_reserve(struct pq *q, uint32_t n);

/** pq_push() - Queue @node, which is not queued, by its key_ns. Return: 0; -ENOMEM (not done). */
int pq_push(struct pq *q, struct pq_node *node);

/** pq_update() - Give @node, which must be queued here, another key. */
void pq_update(struct pq *q, struct pq_node *node, uint64_t key_ns);

/** pq_remove() - Take @node out; nothing happens if it is not queued. */
void pq_remove(struct pq *q, struct pq_node *node);

/** pq_peek() - The node with the smallest key (ties: any); stays queued. Return: NULL if empty. */
static inline struct pq_node *pq_peek(const struct pq *q)
{
	return q->cnt ? q->v[0] : NULL;
}

#endif
