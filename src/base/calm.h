// SPDX-License-Identifier: BSD-2-Clause
// A gate in front of polls: what would have to change for the next one to find something.
#ifndef SF_BASE_CALM_H
#define SF_BASE_CALM_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * Opened by the second poll in a row that has found nothing, each layer saying what it waits for: a word that a peer
 * would write (calm_watch()), or some number of polls (calm_last()); who waits for more than that keeps it shut, and is
 * not asked again for CALM_ROW polls. Whoever has the lock ends the row, since a holder lets go by lock_release(); only
 * who has changed nothing lets go by lock_release_calm(). So a poll that finds the lock as such a one has left it, and
 * no word changed, would find nothing, and may end. Nothing hangs on that: after CALM_ROW polls the next one asks for
 * everything.
 */
#define CALM_ROW   32 /* polls, the one that opens it included */
#define CALM_WORDS 10

struct calm {
	_Atomic uint64_t *polls; /* counted there, for those who look whether somebody polls; under the lock */
	int32_t left;		 /* polls that may still pass */
	int32_t given;		 /* what @left was when it was opened */
	struct calm_word *end;	 /* of those in use */
	struct calm_word {
		const _Atomic uint64_t *at; /* valid until somebody else has had the lock */
		uint64_t seen;
	} word[CALM_WORDS];
};

/** calm_void() - It is shut, and what has passed by is of no row any more. */
static inline void calm_void(struct calm *c)
{
	c->given = c->left = 0;
}

/** calm_begin() - What was told is void, each layer is asked anew. Return: polls that have passed by. */
static inline uint32_t calm_begin(struct calm *c)
{
	uint32_t passed = (uint32_t)(c->given - c->left);

	c->given = c->left = CALM_ROW - 1;
	c->end = c->word;
	return passed;
}

/** calm_end() - It is open if all layers agree, @is_calm. Return: whether it is. */
static inline bool calm_end(struct calm *c, bool is_calm)
{
	if (!is_calm || c->left < 0)
		c->left = 0;
	c->given = c->left;
	return c->left > 0;
}

/** calm_watch() - The next poll is needed when the word at @at is not @seen any more. */
static inline void calm_watch(struct calm *c, const _Atomic uint64_t *at, uint64_t seen)
{
	assert(c->end < c->word + CALM_WORDS);
	c->end->at = at;
	c->end++->seen = seen;
}

/** calm_last() - At most @polls polls may pass. */
static inline void calm_last(struct calm *c, int32_t polls)
{
	if (c->left > polls)
		c->left = polls;
}

/** calm_holds() - The lock is LOCK_CALM since calm_end(): would a poll find nothing? Then it has passed by. */
static inline bool calm_holds(struct calm *c)
{
	uint64_t polls;

	if (!c->left)
		return false;
	for (const struct calm_word *w = c->end; w-- != c->word;)
		/* relaxed: the poll that this leads to looks again */
		if (atomic_load_explicit(w->at, memory_order_relaxed) != w->seen)
			return false;
	c->left--;
	polls = atomic_load_explicit(c->polls, memory_order_relaxed);
	atomic_store_explicit(c->polls, polls + 1, memory_order_relaxed);
	return true;
}

#endif
