// SPDX-License-Identifier: BSD-2-Clause
// What a peer may make an endpoint keep for it: so much each, and a pool for all of which nobody gets more than the others leave.
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
const struct opx_limit opx_limits[OPX_Q_NUM] = {
	[OPX_Q_KEPT] = {16u << 20, 1u << 30},
	[OPX_Q_SERVED] = {4096, 65536},
};

static uint64_t beyond_own(const struct opx_limit *l, uint64_t n)
{
	return n > l->own ? n - l->own : 0;
}

static bool has_room(const struct opx_peer *peer)
{
	for (unsigned q = 0; q < OPX_Q_NUM; q++) {
		const struct opx_limit *l = &peer->ep->limit[q];
		uint64_t mine = beyond_own(l, peer->used[q] + 1);

		if (mine && (peer->ep->pool[q] >= l->all || mine > l->all - (peer->ep->pool[q] - beyond_own(l, peer->used[q]))))
			return false;
	}
	return true;
}

static void account(struct opx_peer *peer, enum opx_quota q, uint64_t used)
{
	const struct opx_limit *l = &peer->ep->limit[q];

	peer->ep->pool[q] += beyond_own(l, used) - beyond_own(l, peer->used[q]);
	peer->used[q] = used;
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
