// SPDX-License-Identifier: BSD-2-Clause
// Matching tables: receives posted by tag, ignore mask and source; messages that came too early.
//
// Theory of operation
//
// Order is the contract: of all entries that match, the oldest. Every entry gets a sequence number
// and a place in one ordered list, and up to MT_LIST_MAX entries that list is simply scanned. Above
// that, entries are also hashed by the bits that a search knows.
//
// Groups. Entries with equal keys form a group: a ring in order of age, whose oldest entry, the
// leader, stands in the bucket's chain. So ten thousand equal receives cost one place in one chain,
// chains hold distinct keys only, and the first key found is the answer for that key.
//
// Posted. What is known of a message is its tag and source, not the receive's ignore mask. So
// receives are divided into classes (ignore mask, any source or not), and class, tag & ~ignore and
// source make the key. A search looks up one key per class in use and takes the lowest sequence
// number. Real programs use one to four classes. MT_CLASS_MAX are hashed; receives of further
// classes are kept in an ordered ring of their own that every search scans.
//
// Most messages come in the order in which their receives were posted and take the oldest entry, for which no hash is
// needed. So an entry is hashed by the first search that the oldest one does not answer: in order of age, hence the
// entries up to some age are hashed, and those behind it are not. Each is hashed once at most, so that what a search
// costs more than before was saved when they were posted.
//
// Unexpected. Entries are exact; the search has the ignore mask. Entries are hashed twice with the
// mask that searches have been using: by tag, and by tag and source. A search whose mask is finer
// walks one group, a coarser one walks the ordered list. When such walks have cost four steps per
// entry, the table adopts that search's mask and is hashed anew, which makes the cost of a change
// of habit proportional to what has been lost by it.
#ifndef SF_BASE_MATCHTAB_H
#define SF_BASE_MATCHTAB_H

#include <sys/queue.h>

#include "base/base.h"
#include "base/tailq.h"

#define MT_ANY_SRC	 UINT64_MAX
#define MT_CLASS_MAX	 16 /* hashed classes of posted receives in use at the same time */
#define MT_LIST_MAX	 4  /* up to so many entries the ordered list is scanned */
#define MT_BUCKETS_FIXED 64 /* up to so many groups nothing is allocated */

/* How a node hangs in a hash; all fields belong to the table. */
struct mt_link {
	struct mt_node *chain; /* of leaders: the next leader in the bucket */
	uint32_t hash;
	uint16_t cls; /* posted only; MT_CLASS_MAX: in the ring of further classes */
	bool is_leader;
	struct mt_node *next; /* ring of the group, oldest first */
	struct mt_node *prev; /* leader->prev is the youngest */
};

/*
 * One entry, embedded in the caller's object, in one table at a time. The caller sets the first
 * three before adding and leaves everything alone until after deleting. The first 64 bytes are all
 * that a search by tag reads: aligning a node to 64 saves a cache miss. Those before @by are all that
 * is written of a receive that is taken in order.
 */
struct mt_node {
	uint64_t tag;
	uint64_t ignore;      /* posted only: tag bits that need not agree */
	uint64_t src;	      /* posted: or MT_ANY_SRC; unexpected: MT_ANY_SRC if unknown */
	uint64_t seq;	      /* set by add: order of age within the table */
	TAILQ_ENTRY(mt_node) age; /* ordered list of all */
	struct mt_link by[2]; /* posted: [0]; unexpected: [0] by tag, [1] by tag and source */
};
static_assert(offsetof(struct mt_node, by[0].next) == CACHE_LINE, "a search reads one line per node");

struct mt_list {
	TAILQ_HEAD(mt_queue, mt_node) q; /* oldest first */
	uint32_t cnt;
};

struct mt_hash {
	struct mt_node **heap; /* [mask + 1] chains; NULL while @fixed is enough */
	uint32_t mask;
	uint32_t group_cnt;
	uint32_t grow_at; /* grow x4 when there are more groups than this */
	struct mt_node *fixed[MT_BUCKETS_FIXED];
};

struct mt_class {
	uint64_t ignore;
	uint32_t cnt; /* entries */
	bool any_src;
};

/* Posted receives. Not to be moved in memory. Locking: none, the owner serialises all calls. */
struct mt_posted {
	struct mt_list all;
	uint64_t seq;	   /* of the youngest */
	uint64_t hashed_seq;	     /* entries up to this one are hashed, those behind it are not */
	struct mt_node *hashed_last; /* the youngest of them that is left; NULL: none is */
	uint32_t cls_used; /* bit i: cls[i].cnt > 0 */
	struct mt_class cls[MT_CLASS_MAX];
	struct mt_node *further; /* ring of the entries of further classes, oldest first */
	struct mt_hash hash;
};

/* Unexpected messages. Not to be moved in memory. Locking: none, the owner serialises all calls. */
struct mt_unexp {
	struct mt_list all;
	uint64_t seq;
	bool is_hashed;
	uint64_t ignore;	/* mask that the hashes leave out */
	uint64_t walked;	/* steps past the first of a walk since the last rehash */
	struct mt_hash hash[2]; /* by tag; by tag and source */
};

/* What the calls below have for rare cases, and the ordered list; not for others. */
void mt_posted_unhash(struct mt_posted *t, struct mt_node *node);

static inline void mt_list_push(struct mt_list *l, struct mt_node *n)
{
	TAILQ_INSERT_TAIL(&l->q, n, age);
	l->cnt++;
}

static inline void mt_list_del(struct mt_list *l, struct mt_node *n)
{
	TAILQ_TAKE_OUT(&l->q, n, age);
	l->cnt--;
}

/** mt_posted_init() - The empty table; allocates nothing. */
void mt_posted_init(struct mt_posted *t);

/** mt_posted_fini() - Free what the table has allocated; nodes still in it are forgotten. */
void mt_posted_fini(struct mt_posted *t);

/**
 * mt_posted_add() - Post a receive behind all others.
 * @node:  tag, ignore and src set by the caller; seq is set here.
 */
static inline void mt_posted_add(struct mt_posted *t, struct mt_node *node)
{
	node->seq = ++t->seq;
	mt_list_push(&t->all, node);
}

/** mt_posted_del() - Take out @node, which is in the table. */
static inline void mt_posted_del(struct mt_posted *t, struct mt_node *node)
{
	if (unlikely(node->seq <= t->hashed_seq))
		mt_posted_unhash(t, node);
	mt_list_del(&t->all, node);
}

struct mt_node *mt_posted_search(struct mt_posted *t, uint64_t src, uint64_t tag);

/* Does posted receive @n take a message of @src with @tag? */
static inline bool mt_posted_takes(const struct mt_node *n, uint64_t src, uint64_t tag)
{
	return !((n->tag ^ tag) & ~n->ignore) && (n->src == src || n->src == MT_ANY_SRC);
}

/**
 * mt_posted_match() - The oldest receive that takes a message of @src with @tag; it stays in the
 * table.
 * @src:   the sender; MT_ANY_SRC for one that no receive can name.
 * Return: NULL if none takes it. Growing may fail to find memory; the table then stays as it is, and slower.
 */
static inline struct mt_node *mt_posted_match(struct mt_posted *t, uint64_t src, uint64_t tag)
{
	struct mt_node *oldest = TAILQ_FIRST(&t->all.q);

	/* whatever the table looks like, nothing is older than the oldest */
	if (!oldest || likely(mt_posted_takes(oldest, src, tag)))
		return oldest;
	return mt_posted_search(t, src, tag);
}

/** mt_posted_cnt() - Number of posted receives. */
static inline uint32_t mt_posted_cnt(const struct mt_posted *t)
{
	return t->all.cnt;
}

/** mt_posted_first() - The oldest receive, or NULL; mt_posted_next() goes on in the order of
 * posting. */
static inline struct mt_node *mt_posted_first(const struct mt_posted *t)
{
	return TAILQ_FIRST(&t->all.q);
}

/** mt_posted_next() - The receive posted after @node, or NULL; ask before deleting @node. */
static inline struct mt_node *mt_posted_next(const struct mt_node *node)
{
	return TAILQ_NEXT(node, age);
}

/** mt_unexp_init() - The empty table; allocates nothing. */
void mt_unexp_init(struct mt_unexp *t);

/** mt_unexp_fini() - Free what the table has allocated; nodes still in it are forgotten. */
void mt_unexp_fini(struct mt_unexp *t);

/**
 * mt_unexp_add() - Keep a message behind all others.
 * @node:  tag and src set by the caller, src MT_ANY_SRC for a sender that no receive can name: only
 *         searches for any source find it. ignore is not looked at; seq is set here.
 * Return: 0. Growing may fail to find memory; the table then stays as it is, and slower.
 */
int mt_unexp_add(struct mt_unexp *t, struct mt_node *node);

/** mt_unexp_del() - Take out @node, which is in the table. */
void mt_unexp_del(struct mt_unexp *t, struct mt_node *node);

/**
 * mt_unexp_set_src() - The sender of @node, which is in the table and had MT_ANY_SRC, is known now. It keeps its age;
 * of several whose sender becomes known, the oldest goes first.
 */
void mt_unexp_set_src(struct mt_unexp *t, struct mt_node *node, uint64_t src);

struct mt_node *mt_unexp_search(struct mt_unexp *t, uint64_t src, uint64_t tag, uint64_t ignore);

/**
 * mt_unexp_find() - The oldest message from @src whose tag agrees with @tag outside @ignore; it
 * stays.
 * @src:   the sender, or MT_ANY_SRC.
 * Return: NULL if there is none.
 */
static inline struct mt_node *mt_unexp_find(struct mt_unexp *t, uint64_t src, uint64_t tag,
					    uint64_t ignore)
{
	return t->all.cnt ? mt_unexp_search(t, src, tag, ignore) : NULL;
}

/** mt_unexp_cnt() - Number of messages. */
static inline uint32_t mt_unexp_cnt(const struct mt_unexp *t)
{
	return t->all.cnt;
}

/** mt_unexp_first() - The oldest message, or NULL; mt_unexp_next() goes on in order of arrival. */
static inline struct mt_node *mt_unexp_first(const struct mt_unexp *t)
{
	return TAILQ_FIRST(&t->all.q);
}

/** mt_unexp_next() - The message that came after @node, or NULL; ask before deleting @node. */
static inline struct mt_node *mt_unexp_next(const struct mt_node *node)
{
	return TAILQ_NEXT(node, age);
}

#endif
