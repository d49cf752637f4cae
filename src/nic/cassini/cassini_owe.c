// SPDX-License-Identifier: BSD-2-Clause
// What a target owes its initiators: answers on their way or unsent, and copies that will end in one. So much for each,
// so much for all behind one address, and a pool (base/quota.h).
#include "nic/cassini/cassini_tgt.h"

/*
 * Theory of operation
 *
 * An initiator that asks and does not take its answers makes us keep them. Gets are what that costs most by: beyond the
 * bound they are refused with RESOURCE_BUSY before anything has happened, and their initiator asks again
 * (cassini_cmdq_again()), later. Whatever else leads to an answer is short and may have an order, so it cannot be sent
 * back alone: who lets more of these lie than any honest queue has commands is no peer any more.
 */

/* doc/security.md, "Network: quotas" */
#define GETS_LESS 512u /* a Get is refused while there is no room for so many answers */

static const struct quota_limit limits[CASSINI_OWE_NUM] = {
	[CASSINI_OWE_CNT] = QUOTA_LIMIT(CASSINI_OWE_LEAST, 1024, 1024, 65536),
	[CASSINI_OWE_BYTES] = QUOTA_LIMIT(1, CASSINI_OWE_OWN, 64, 32u << 20),
};
static_assert(CASSINI_OWE_NUM <= QUOTA_KINDS, "they have room in a book");

void cassini_owe_init(struct cassini_dom *dom)
{
	quota_book_init(&dom->owe, QUOTA_OWNER, limits, CASSINI_OWE_NUM);
}

void cassini_owe(struct cassini_peer *peer, uint32_t bytes)
{
	if (!peer->owe.total)
		quota_join(&peer->owe, peer->link ? link_peer_source(peer->link) : NULL);
	quota_add(&peer->dom->owe, &peer->owe, CASSINI_OWE_CNT, 1);
	quota_add(&peer->dom->owe, &peer->owe, CASSINI_OWE_BYTES, bytes);
}

void cassini_owe_less(struct cassini_peer *peer, uint32_t bytes)
{
	quota_put(&peer->dom->owe, &peer->owe, CASSINI_OWE_CNT, 1);
	quota_put(&peer->dom->owe, &peer->owe, CASSINI_OWE_BYTES, bytes);
}

bool cassini_owe_has_room(const struct cassini_peer *peer)
{
	return quota_has(&peer->dom->owe, &peer->owe, CASSINI_OWE_BYTES, 1) &&
	       quota_has(&peer->dom->owe, &peer->owe, CASSINI_OWE_CNT, GETS_LESS);
}

bool cassini_owe_is_too_much(const struct cassini_peer *peer)
{
	return !quota_has(&peer->dom->owe, &peer->owe, CASSINI_OWE_CNT, 1);
}
