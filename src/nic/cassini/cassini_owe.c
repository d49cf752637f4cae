// SPDX-License-Identifier: BSD-2-Clause
// What a target owes its initiators: answers on their way or unsent, and copies that will end in one. So much for each, and a pool for all.
#include "nic/cassini/cassini_int.h"

/*
 * Theory of operation
 *
 * An initiator that asks and does not take its answers makes us keep them. Gets are what that costs most by: beyond the bound they are refused with
 * RESOURCE_BUSY before anything has happened, and their initiator asks again (cassini_cmdq_again()), later. Whatever else leads to an answer is short
 * and may have an order, so it cannot be sent back alone: who lets more of these lie than any honest queue has commands is no peer any more.
 */

/* doc/security.md, "Network: quotas" */
#define BYTES_ALL (32u << 20)
#define GETS_ALL  32768u
#define CNT_OWN	  1024u
#define CNT_ALL	  65536u

/* One gets at most as much beyond its own as it leaves. */
static bool has_share(uint64_t mine, uint64_t own, uint64_t used, uint64_t all)
{
	return mine < own || (used < all && mine - own < all - used);
}

void cassini_owe(struct cassini_peer *peer, uint32_t bytes)
{
	peer->owe_cnt++;
	peer->owe_bytes += bytes;
	peer->dom->owe_cnt++;
	peer->dom->owe_bytes += bytes;
}

void cassini_owe_less(struct cassini_peer *peer, uint32_t bytes)
{
	must(peer->owe_cnt && peer->owe_bytes >= bytes);
	peer->owe_cnt--;
	peer->owe_bytes -= bytes;
	peer->dom->owe_cnt--;
	peer->dom->owe_bytes -= bytes;
}

bool cassini_owe_has_room(const struct cassini_peer *peer)
{
	return has_share(peer->owe_bytes, CASSINI_OWE_BYTES, peer->dom->owe_bytes, BYTES_ALL) &&
	       has_share(peer->owe_cnt, CASSINI_OWE_CNT, peer->dom->owe_cnt, GETS_ALL);
}

bool cassini_owe_is_too_much(const struct cassini_peer *peer)
{
	return !has_share(peer->owe_cnt, CNT_OWN, peer->dom->owe_cnt, CNT_ALL);
}
