// SPDX-License-Identifier: BSD-2-Clause
// What peers may make us keep for them: so much each, so much for all behind one address, and a pool for all.
#ifndef SF_BASE_QUOTA_H
#define SF_BASE_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/keyed.h"

/*
 * Theory of operation
 *
 * A *book* counts what the peers of one object hold, of up to QUOTA_KINDS kinds. A peer has a share of its own, which
 * nobody else can use up and which is enough to get on, if slowly; beyond that it draws from a pool: a source at most
 * as much as it leaves there, and a peer at most as much as it leaves to its source. Peers are cheap to make for one
 * host, so own shares are kept for a number of them per source only; then those of that source have what they can get
 * on with one at a time (@least), and peers elsewhere notice nothing.
 *
 * A *source* is one IPv4 address, one address of an IPv6 link, or one /64; all of 127.0.0.0/8 is one. It is shared by
 * the books of a port: each has its number, and its place in the source's sums. A peer without a source shares with
 * nobody.
 */

#define QUOTA_KINDS   4u
#define QUOTA_BUCKETS 1024u

/* Books of one port. */
enum quota_book_idx { QUOTA_REL, QUOTA_BULK, QUOTA_OWNER, QUOTA_BOOKS };

struct quota_limit {
	uint64_t least; /* who has less than this may have more, whatever others have */
	uint64_t own;   /* that a peer has whatever others have, as long as ... */
	uint64_t owns;  /* ... its source's peers have less than so many own shares */
	uint64_t peer;  /* at most, own share included */
	uint64_t source; /* of the pool at most */
	uint64_t all;   /* the pool */
};
#define QUOTA_ANY (UINT64_MAX / 4) /* for @peer and @source: the pool is limit enough; adding to it never wraps */
#define QUOTA_LIMIT(least_, own_, owns_, all_)                                                                         \
	{.least = least_, .own = own_, .owns = owns_, .peer = QUOTA_ANY, .source = QUOTA_ANY, .all = all_}

struct quota_source {
	struct quota_tab *tab; /* NULL: it is closed */
	struct quota_source *next;
	uint8_t net[16];
	uint32_t refs;
	void *turns; /* QUOTA_BULK's */
	struct {
		uint64_t own, pool;
	} sum[QUOTA_BOOKS][QUOTA_KINDS];
};

struct quota_tab {
	struct quota_source *hash[QUOTA_BUCKETS];
	struct keyed key; /* the caller's to fill */
	size_t size;	  /* of an entry, which begins with a struct quota_source */
};

struct quota_book {
	enum quota_book_idx idx;
	uint64_t pool[QUOTA_KINDS]; /* in use beyond own shares */
	struct quota_limit limit[QUOTA_KINDS];
};

/* One peer in one book; zeroed: it has nothing. */
struct quota_user {
	struct quota_source *source; /* referenced; NULL: it shares with nobody */
	uint64_t total;		     /* of all kinds; only whether it is 0 means anything */
	uint64_t used[QUOTA_KINDS];
};

/** quota_source_find() - Those behind @ip; NULL: there are none. */
struct quota_source *quota_source_find(struct quota_tab *t, const uint8_t ip[16]);
/**
 * quota_source_get() - The same, made if new (zeroed behind what is ours, and refs is 1), with one reference. NULL: no
 * memory.
 */
struct quota_source *quota_source_get(struct quota_tab *t, const uint8_t ip[16]);
void quota_source_put(struct quota_source *s);
/** quota_tab_close() - Nobody is looked up any more; sources go with their last reference. */
void quota_tab_close(struct quota_tab *t);

void quota_book_init(struct quota_book *b, enum quota_book_idx idx, const struct quota_limit *limit, unsigned kinds);
/** quota_join() - @u is one of @s (NULL: of nobody), unless it holds something: that stays with whom it was had. */
void quota_join(struct quota_user *u, struct quota_source *s);
/** quota_leave() - @u, which has given everything back, ends. */
void quota_leave(struct quota_user *u);

/** quota_has() - May @u have @n more? */
bool quota_has(const struct quota_book *b, const struct quota_user *u, unsigned kind, uint64_t n);

/* Of what it has, that which is not its own. */
static inline uint64_t quota_beyond(const struct quota_limit *l, uint64_t used)
{
	return used > l->own ? used - l->own : 0;
}

/** quota_add() - @u has @n more, whether it may or not. */
static inline void quota_add(struct quota_book *b, struct quota_user *u, unsigned kind, uint64_t n)
{
	const struct quota_limit *l = &b->limit[kind];
	uint64_t more = quota_beyond(l, u->used[kind] + n) - quota_beyond(l, u->used[kind]);

	u->used[kind] += n;
	u->total += n;
	b->pool[kind] += more;
	if (u->source) {
		u->source->sum[b->idx][kind].own += n - more;
		u->source->sum[b->idx][kind].pool += more;
	}
}

static inline void quota_put(struct quota_book *b, struct quota_user *u, unsigned kind, uint64_t n)
{
	const struct quota_limit *l = &b->limit[kind];
	uint64_t was = u->used[kind], less;

	must(was >= n);
	less = quota_beyond(l, was) - quota_beyond(l, was - n);
	u->used[kind] -= n;
	u->total -= n;
	b->pool[kind] -= less;
	if (u->source) {
		u->source->sum[b->idx][kind].own -= n - less;
		u->source->sum[b->idx][kind].pool -= less;
	}
}

#endif
