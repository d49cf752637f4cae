// SPDX-License-Identifier: BSD-2-Clause
// Whose Puts a disabled portal table entry has refused: what their senders say of it is true or not.
#include "base/mem.h"
#include "nic/cassini/cassini_tgt.h"

/*
 * Theory of operation
 *
 * With flow control an entry is enabled again when the senders' numbers add up to its drop count. A sender that names
 * any number, or ends before it has named one, would keep the entry disabled for all others. So the adapter, which has
 * refused them, remembers how many of whom: a sender's number counts up to that, and what nobody can speak of any more,
 * since its sender has gone or the Domain that it came by has closed, counts as lost.
 *
 * A sender that lives and does not tell would do the same. So after a while its refusals count as lost as well, and the
 * sender stands apart: the entry goes on for all others, and refuses what comes of it until it has told, so that its
 * messages keep their order. From then on the entry never waits for it again, or one that means harm could shut it for
 * that while again and again; who has told is served like any other.
 *
 * Whether a sender has gone is asked of a few at a time, in turn: the question comes with each poll, and there may be
 * thousands of them.
 */

#define LOOKS 16

struct cassini_drops {
	TAILQ_ENTRY(cassini_drops) link; /* pte->drops: those that were looked at longest ago first */
	SLIST_ENTRY(cassini_drops) next; /* peer->drops */
	struct cassini_pte *pte;
	struct cassini_peer *peer;
	uint32_t life; /* which of those that were @peer */
	uint32_t cnt;  /* not told of yet */
	bool is_apart; /* lost already, and so is what is refused later */
};

static struct cassini_drops *drops_find(const struct cassini_pte *pte, const struct cassini_peer *peer)
{
	struct cassini_drops *d;

	SLIST_FOREACH(d, &peer->drops, next)
		if (d->pte == pte && d->life == peer->life)
			break;
	return d;
}

/* @by: 1 or -1: one more, or one less, is refused whatever the state. */
static void apart_count(struct cassini_pte *pte, int by)
{
	pte->apart_cnt += (uint32_t)by;
	cassini_pte_gate(pte);
}

static void drops_free(struct cassini_drops *d)
{
	if (d->is_apart && d->cnt)
		apart_count(d->pte, -1);
	TAILQ_REMOVE(&d->pte->drops, d, link);
	SLIST_REMOVE(&d->peer->drops, d, cassini_drops, next);
	mem_free(d);
}

static void drops_lose(struct cassini_drops *d)
{
	d->pte->drops_lost += d->is_apart ? 0 : d->cnt;
	drops_free(d);
}

/* At so many, those that were looked at longest ago. */
static void look(struct cassini_pte *pte, int left)
{
	struct cassini_drops *d, *last = TAILQ_LAST(&pte->drops, cassini_drops_list);

	while (left-- && (d = TAILQ_FIRST(&pte->drops))) {
		if (d == last)
			left = 0;
		TAILQ_REMOVE(&pte->drops, d, link);
		TAILQ_INSERT_TAIL(&pte->drops, d, link);
		cassini_peer_look(d->peer);
		if (d->life != d->peer->life)
			drops_lose(d);
	}
}

void cassini_drops_add(struct cassini_pte *pte, struct cassini_peer *peer)
{
	struct cassini_drops *d = drops_find(pte, peer);

	if (!d) {
		look(pte, 1); /* one comes, one that is over may go */
		d = mem_alloc(sizeof(*d));
		if (!d) { /* its sender's word, which may never come, could not be checked, and is not waited for */
			pte->drops_lost++;
			return;
		}
		d->pte = pte;
		d->peer = peer;
		d->life = peer->life;
		TAILQ_INSERT_HEAD(&pte->drops, d, link);
		SLIST_INSERT_HEAD(&peer->drops, d, next);
	}
	pte->drops_lost += d->is_apart;
	if (d->is_apart && !d->cnt)
		apart_count(pte, 1);
	d->cnt++;
}

void cassini_drops_clear(struct cassini_pte *pte, bool and_apart)
{
	struct cassini_drops *d, *next;

	TAILQ_FOREACH_SAFE(d, &pte->drops, link, next)
		if (and_apart || !d->is_apart)
			drops_free(d);
	pte->drops_lost = 0;
}

uint32_t cassini_drops_part(struct cassini_pte *pte)
{
	struct cassini_drops *d;
	uint32_t n = 0;

	lock_assert_held(pte->lni->nic->open.lock);
	TAILQ_FOREACH(d, &pte->drops, link) {
		if (d->is_apart)
			continue;
		d->is_apart = true;
		pte->drops_lost += d->cnt;
		apart_count(pte, 1);
		n++;
	}
	return n;
}

void cassini_drops_unmap(struct cassini_pte *pte, const struct cassini_dom *dom)
{
	struct cassini_drops *d, *next;

	TAILQ_FOREACH_SAFE(d, &pte->drops, link, next)
		if (d->peer->dom == dom)
			drops_lose(d);
}

uint32_t cassini_drops_told(struct cassini_pte *pte, const struct cassini_event *notice, uint32_t cnt)
{
	struct cassini_drops *d;
	bool is_apart;
	uint32_t own;

	lock_assert_held(pte->lni->nic->open.lock);
	TAILQ_FOREACH(d, &pte->drops, link)
		if (d->peer->dom == notice->dom && d->peer->match_id == notice->initiator && d->life == notice->life)
			break;
	own = d ? MIN(cnt, d->cnt) : 0;
	if (!own)
		return 0;
	d->cnt -= own;
	is_apart = d->is_apart;
	if (!d->cnt && is_apart)
		apart_count(pte, -1);
	else if (!d->cnt)
		drops_free(d);
	return is_apart ? 0 : own;
}

uint32_t cassini_drops_lost(struct cassini_pte *pte)
{
	lock_assert_held(pte->lni->nic->open.lock);
	look(pte, LOOKS);
	return pte->drops_lost;
}

bool cassini_drops_apart(struct cassini_pte *pte, const struct cassini_peer *peer)
{
	struct cassini_drops *d;

	look(pte, 1); /* the last one may have gone */
	d = drops_find(pte, peer);
	if (!d || !d->is_apart || !d->cnt)
		return false;
	d->cnt++;
	return true;
}

void cassini_drops_each(const struct cassini_pte *pte,
			void (*fn)(void *arg, struct cassini_dom *dom, uint32_t nic, uint16_t pid), void *arg)
{
	const struct cassini_drops *d;

	TAILQ_FOREACH(d, &pte->drops, link)
		if (!d->is_apart)
			fn(arg, d->peer->dom, d->peer->nic, d->peer->pid);
}
