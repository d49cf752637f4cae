// SPDX-License-Identifier: BSD-2-Clause
// What a peer may make an endpoint keep for it: so much each, and a pool for all (kit/quota.h).
#include "prov/opx/opx.h"

#include "base/log.h"

/*
 * Theory of operation
 *
 * A peer that has more here than it may is not heard further: its stream is neither acknowledged nor, between hosts, taken (opx_flow_full()), so that its
 * window fills and its sends are told to try again. It goes on as soon as receives take its messages and it takes its answers. Nothing that was
 * acknowledged is lost.
 */

/* doc/security.md, "Network: quotas" */
const struct kit_quota opx_limits[OPX_Q_NUM] = {
	[OPX_Q_KEPT] = {16u << 20, 1u << 30},
	[OPX_Q_SERVED] = {4096, 65536},
};

static bool has_room(const struct opx_peer *peer)
{
	for (unsigned q = 0; q < OPX_Q_NUM; q++)
		if (!kit_quota_has(&peer->ep->limit[q], peer->used[q], peer->ep->pool[q], 1))
			return false;
	return true;
}

static void account(struct opx_peer *peer, enum opx_quota q, uint64_t used)
{
	kit_quota_set(&peer->ep->limit[q], &peer->used[q], &peer->ep->pool[q], used);
}

void opx_quota_add(struct opx_peer *peer, enum opx_quota q, uint64_t n)
{
	struct opx_ep *ep = peer->ep;

	account(peer, q, peer->used[q] + n);
	if (likely(peer->flow.is_full || has_room(peer)))
		return;
	if (!ep->stats.quota_full++)
		LOG_INFO("a peer has to wait: it has %llu bytes of messages that nobody receives, and %llu requests to be served, here",
			 (unsigned long long)peer->used[OPX_Q_KEPT], (unsigned long long)peer->used[OPX_Q_SERVED]);
	LIST_INSERT_HEAD(&ep->full, peer, full);
	opx_flow_full(&peer->flow, true);
}

void opx_quota_put(struct opx_peer *peer, enum opx_quota q, uint64_t n)
{
	struct opx_peer *next;

	must(peer->used[q] >= n);
	account(peer, q, peer->used[q] - n);
	for (struct opx_peer *p = LIST_FIRST(&peer->ep->full); unlikely(p != NULL); p = next) {
		next = LIST_NEXT(p, full);
		if (!has_room(p))
			continue;
		LIST_REMOVE(p, full);
		opx_flow_full(&p->flow, false);
	}
}
