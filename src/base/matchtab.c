// SPDX-License-Identifier: BSD-2-Clause
// Lists, rings, the hash of groups, and on top of them the two tables.
#include "base/matchtab.h"

#include <string.h>

#include "base/mem.h"

/* What a group has in common; a bit that is 0 in a keep mask is not part of it. */
struct key {
	uint64_t tag, tag_keep;
	uint64_t src, src_keep;
	uint32_t cls;
};

/* One 64 x 64 -> 128 multiplication, halves folded. Source: wyhash's mum(), public domain. */
static inline uint32_t key_hash(const struct key *k)
{
	uint64_t a = (k->tag & k->tag_keep) ^ 0xa0761d6478bd642fULL;
	uint64_t b = (k->src & k->src_keep) ^ (k->cls + 1) * 0xe7037ed1a0b428dbULL;
	unsigned __int128 product = (unsigned __int128)a * b;
	uint64_t x = (uint64_t)(product >> 64) ^ (uint64_t)product;

	return (uint32_t)(x ^ (x >> 32));
}

static inline bool key_is_of(const struct key *k, const struct mt_node *n, int w)
{
	return !(((n->tag ^ k->tag) & k->tag_keep) | ((n->src ^ k->src) & k->src_keep) |
		 (n->by[w].cls ^ k->cls));
}

/* Append to the ring that begins at @head; NULL: the node becomes a ring. */
static inline void ring_push(struct mt_node *head, struct mt_node *n, int w)
{
	if (!head) {
		n->by[w].next = n->by[w].prev = n;
		return;
	}
	n->by[w].next = head;
	n->by[w].prev = head->by[w].prev;
	head->by[w].prev->by[w].next = n;
	head->by[w].prev = n;
}

/* Return: the node that followed; NULL if @n was the last of the ring. */
static inline struct mt_node *ring_del(struct mt_node *n, int w)
{
	struct mt_link *l = &n->by[w];

	if (l->next == n)
		return NULL;
	l->next->by[w].prev = l->prev;
	l->prev->by[w].next = l->next;
	return l->next;
}

static void hash_reset(struct mt_hash *h)
{
	if (h->heap)
		memset(h->heap, 0, (h->mask + (size_t)1) * sizeof(*h->heap));
	else
		memset(h->fixed, 0, sizeof(h->fixed));
	h->group_cnt = 0;
}

static void hash_init(struct mt_hash *h)
{
	*h = (struct mt_hash){.mask = MT_BUCKETS_FIXED - 1, .grow_at = MT_BUCKETS_FIXED};
}

static void hash_fini(struct mt_hash *h)
{
	mem_free(h->heap);
	hash_init(h);
}

static inline struct mt_node **hash_bucket(struct mt_hash *h, uint32_t hash)
{
	return &(h->heap ? h->heap : h->fixed)[hash & h->mask];
}

static void hash_grow(struct mt_hash *h, int w)
{
	uint32_t old_cnt = h->mask + 1;
	struct mt_node **old = h->heap ? h->heap : h->fixed;
	struct mt_node **new = NULL;

	if (old_cnt <= UINT32_MAX / 8)
		new = mem_alloc((size_t)old_cnt * 4 * sizeof(*new));
	if (!new) { /* not an error; ask again when twice as full, not each time */
		h->grow_at = h->grow_at > UINT32_MAX / 2 ? UINT32_MAX : h->grow_at * 2;
		return;
	}
	for (uint32_t i = 0; i < old_cnt; i++) {
		for (struct mt_node *n = old[i], *next; n; n = next) {
			struct mt_node **to = &new[n->by[w].hash & (old_cnt * 4 - 1)];

			next = n->by[w].chain;
			n->by[w].chain = *to;
			*to = n;
		}
	}
	mem_free(h->heap);
	h->heap = new;
	h->mask = old_cnt * 4 - 1;
	h->grow_at = old_cnt * 4;
}

/* The leader, i.e. the oldest, of the group of @k. */
static inline struct mt_node *hash_find(struct mt_hash *h, const struct key *k, uint32_t hash,
					int w)
{
	for (struct mt_node *n = *hash_bucket(h, hash); n; n = n->by[w].chain) {
		if (key_is_of(k, n, w))
			return n;
	}
	return NULL;
}

static inline void hash_push(struct mt_hash *h, struct mt_node *n, const struct key *k, int w)
{
	uint32_t hash = key_hash(k);
	struct mt_node *leader = hash_find(h, k, hash, w), **bucket;

	n->by[w].hash = hash;
	n->by[w].cls = (uint16_t)k->cls;
	n->by[w].is_leader = !leader;
	ring_push(leader, n, w);
	if (leader)
		return;
	bucket = hash_bucket(h, hash);
	n->by[w].chain = *bucket;
	*bucket = n;
	if (unlikely(++h->group_cnt > h->grow_at))
		hash_grow(h, w);
}

static inline void hash_del(struct mt_hash *h, struct mt_node *n, int w)
{
	struct mt_node *heir = ring_del(n, w), **at;

	if (!n->by[w].is_leader)
		return;
	at = hash_bucket(h, n->by[w].hash);
	while (*at != n)
		at = &(*at)->by[w].chain;
	if (heir) {
		heir->by[w].is_leader = true;
		heir->by[w].chain = n->by[w].chain;
		*at = heir;
	} else {
		*at = n->by[w].chain;
		h->group_cnt--;
	}
}

void mt_posted_init(struct mt_posted *t)
{
	*t = (struct mt_posted){0};
	TAILQ_INIT(&t->all.q);
	hash_init(&t->hash);
}

void mt_posted_fini(struct mt_posted *t)
{
	hash_fini(&t->hash);
	mt_posted_init(t);
}

static inline struct key class_key(const struct mt_posted *t, uint32_t cls, uint64_t src,
				   uint64_t tag)
{
	const struct mt_class *c = &t->cls[cls];

	return (struct key){
		.tag = tag,
		.tag_keep = ~c->ignore,
		.src = src,
		.src_keep = c->any_src ? 0 : UINT64_MAX,
		.cls = cls,
	};
}

/* The class of a receive, a new one if there is room; MT_CLASS_MAX if there is not. */
static uint32_t class_get(struct mt_posted *t, uint64_t ignore, bool any_src)
{
	uint32_t fresh;

	for (uint32_t used = t->cls_used; used; used &= used - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(used);

		if (t->cls[i].ignore == ignore && t->cls[i].any_src == any_src)
			return i;
	}
	fresh = (uint32_t)__builtin_ctz(~t->cls_used);
	if (fresh < MT_CLASS_MAX)
		t->cls[fresh] = (struct mt_class){.ignore = ignore, .any_src = any_src};
	return fresh;
}

static void posted_hash(struct mt_posted *t, struct mt_node *n)
{
	uint32_t cls = class_get(t, n->ignore, n->src == MT_ANY_SRC);
	struct key k;

	if (unlikely(cls == MT_CLASS_MAX)) {
		n->by[0].cls = MT_CLASS_MAX;
		ring_push(t->further, n, 0);
		if (!t->further)
			t->further = n;
		return;
	}
	t->cls[cls].cnt++;
	t->cls_used |= 1u << cls;
	k = class_key(t, cls, n->src, n->tag);
	hash_push(&t->hash, n, &k, 0);
}

void mt_posted_unhash(struct mt_posted *t, struct mt_node *node)
{
	uint32_t cls = node->by[0].cls;

	if (t->hashed_last == node)
		t->hashed_last = TAILQ_PREV(node, mt_queue, age); /* all that is older is hashed, too */
	if (unlikely(cls == MT_CLASS_MAX)) {
		struct mt_node *heir = ring_del(node, 0);

		if (t->further == node)
			t->further = heir;
		return;
	}
	hash_del(&t->hash, node, 0);
	if (!--t->cls[cls].cnt)
		t->cls_used &= ~(1u << cls);
}

/* The entries that were posted since a search last needed the hash. */
static void posted_hash_rest(struct mt_posted *t)
{
	struct mt_node *n = t->hashed_last ? TAILQ_NEXT(t->hashed_last, age) : TAILQ_FIRST(&t->all.q);

	for (; n; n = TAILQ_NEXT(n, age))
		posted_hash(t, n);
	t->hashed_last = TAILQ_LAST(&t->all.q, mt_queue);
	t->hashed_seq = t->seq;
}

/* The oldest entry of further classes that takes the message, if it is older than @best. */
static struct mt_node *further_match(const struct mt_posted *t, uint64_t src, uint64_t tag,
				     struct mt_node *best)
{
	struct mt_node *n = t->further;

	do {
		if (best && n->seq > best->seq)
			return best;
		if (mt_posted_takes(n, src, tag))
			return n;
		n = n->by[0].next;
	} while (n != t->further);
	return best;
}

struct mt_node *mt_posted_search(struct mt_posted *t, uint64_t src, uint64_t tag)
{
	struct mt_node *best = NULL, *n;

	if (t->all.cnt <= MT_LIST_MAX) {
		TAILQ_FOREACH(n, &t->all.q, age)
			if (mt_posted_takes(n, src, tag))
				break;
		return n;
	}
	if (t->hashed_seq != t->seq)
		posted_hash_rest(t);
	for (uint32_t used = t->cls_used; used; used &= used - 1) {
		struct key k = class_key(t, (uint32_t)__builtin_ctz(used), src, tag);

		n = hash_find(&t->hash, &k, key_hash(&k), 0);
		if (n && (!best || n->seq < best->seq))
			best = n;
	}
	return unlikely(t->further != NULL) ? further_match(t, src, tag, best) : best;
}

void mt_unexp_init(struct mt_unexp *t)
{
	*t = (struct mt_unexp){0};
	TAILQ_INIT(&t->all.q);
	hash_init(&t->hash[0]);
	hash_init(&t->hash[1]);
}

void mt_unexp_fini(struct mt_unexp *t)
{
	hash_fini(&t->hash[0]);
	hash_fini(&t->hash[1]);
	mt_unexp_init(t);
}

static inline struct key unexp_key(const struct mt_unexp *t, uint64_t src, uint64_t tag, int w)
{
	return (struct key){
		.tag = tag,
		.tag_keep = ~t->ignore,
		.src = src,
		.src_keep = w ? UINT64_MAX : 0,
	};
}

static void unexp_hash(struct mt_unexp *t, struct mt_node *n)
{
	struct key k0 = unexp_key(t, n->src, n->tag, 0), k1 = unexp_key(t, n->src, n->tag, 1);

	hash_push(&t->hash[0], n, &k0, 0);
	hash_push(&t->hash[1], n, &k1, 1);
}

static void unexp_rehash(struct mt_unexp *t, uint64_t ignore)
{
	struct mt_node *n;

	hash_reset(&t->hash[0]);
	hash_reset(&t->hash[1]);
	t->ignore = ignore;
	t->walked = 0;
	t->is_hashed = true;
	TAILQ_FOREACH(n, &t->all.q, age)
		unexp_hash(t, n);
}

int mt_unexp_add(struct mt_unexp *t, struct mt_node *node)
{
	node->seq = ++t->seq;
	mt_list_push(&t->all, node);
	if (t->is_hashed)
		unexp_hash(t, node);
	else if (t->all.cnt > MT_LIST_MAX)
		unexp_rehash(t, t->ignore);
	return 0;
}

void mt_unexp_del(struct mt_unexp *t, struct mt_node *node)
{
	mt_list_del(&t->all, node);
	if (t->is_hashed) {
		hash_del(&t->hash[0], node, 0);
		hash_del(&t->hash[1], node, 1);
	}
	if (!t->all.cnt) /* not at MT_LIST_MAX: a queue that swings around it would be hashed time and again */
		t->is_hashed = false;
}

void mt_unexp_set_src(struct mt_unexp *t, struct mt_node *node, uint64_t src)
{
	struct key k;

	if (t->is_hashed)
		hash_del(&t->hash[1], node, 1);
	node->src = src;
	if (!t->is_hashed)
		return;
	k = unexp_key(t, src, node->tag, 1);
	hash_push(&t->hash[1], node, &k, 1);
}

/* Walk the ordered list. @steps: receives how many nodes were looked at. */
static struct mt_node *list_find(const struct mt_unexp *t, uint64_t src, uint64_t tag,
				 uint64_t ignore, uint64_t *steps)
{
	uint64_t cnt = 0;
	struct mt_node *n;

	TAILQ_FOREACH(n, &t->all.q, age) {
		cnt++;
		if (!((n->tag ^ tag) & ~ignore) && (src == MT_ANY_SRC || n->src == src))
			break;
	}
	*steps = cnt;
	return n;
}

/* Walk the group that has all messages with @tag under the table's mask, which is no finer. */
static struct mt_node *group_find(struct mt_unexp *t, uint64_t src, uint64_t tag, uint64_t ignore,
				  uint64_t *steps)
{
	int w = src != MT_ANY_SRC;
	struct key k = unexp_key(t, src, tag, w);
	struct mt_node *leader = hash_find(&t->hash[w], &k, key_hash(&k), w), *n = leader;

	*steps = 0;
	if (!leader)
		return NULL;
	do {
		++*steps;
		if (!((n->tag ^ tag) & ~ignore))
			return n;
		n = n->by[w].next;
	} while (n != leader);
	return NULL;
}

struct mt_node *mt_unexp_search(struct mt_unexp *t, uint64_t src, uint64_t tag, uint64_t ignore)
{
	struct mt_node *n;
	uint64_t steps;

	if (t->all.cnt <= MT_LIST_MAX)
		return list_find(t, src, tag, ignore, &steps);
	if (!(ignore & ~t->ignore))
		n = group_find(t, src, tag, ignore, &steps);
	else
		n = list_find(t, src, tag, ignore, &steps);
	if (steps > 1) {
		t->walked += steps - 1;
		if (t->walked > 4 * (uint64_t)t->all.cnt)
			unexp_rehash(t, ignore);
	}
	return n;
}
