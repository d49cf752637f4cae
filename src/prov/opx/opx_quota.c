// SPDX-License-Identifier: BSD-2-Clause
// What a peer may make an endpoint keep for it: so much each, so much for all behind one address, and a pool
// (base/quota.h).
#include "prov/opx/opx.h"

#include "base/log.h"

/*
 * Theory of operation
 *
 * A peer that has more here than it may is not heard further: its stream is neither acknowledged nor, between hosts,
 * taken (opx_flow_full()), so that its window fills and its sends are told to try again. It goes on as soon as receives
 * take its messages and it takes its answers. Nothing that was acknowledged is lost.
 */

/* doc/security.md, "Network: quotas" */
const struct quota_limit opx_limits[OPX_Q_NUM] = {
	[OPX_Q_KEPT] = QUOTA_LIMIT(1, 16u << 20, 64, 1u << 30),
	[OPX_Q_SERVED] = QUOTA_LIMIT(0, 4096, 64, 65536), /* through shared memory only: no source */
};
static_assert(OPX_Q_NUM <= QUOTA_KINDS, "they have room in a book");

static bool has_room(const struct opx_peer *peer)
{
	for (unsigned q = 0; q < OPX_Q_NUM; q++)
		if (!quota_has(&peer->ep->quota, &peer->quota, q, 1))
			return false;
	return true;
}

void opx_quota_add(struct opx_peer *peer, enum opx_quota q, uint64_t n)
{
	struct opx_ep *ep = peer->ep;

	if (!peer->quota.total)
		quota_join(&peer->quota, hfi_dst_source(peer->flow.dst));
	quota_add(&ep->quota, &peer->quota, q, n);
	if (likely(peer->flow.is_full || has_room(peer)))
		return;
	if (!ep->stats.quota_full++)
		LOG_INFO(
			"a peer has to wait: it has %llu bytes of messages that nobody receives, and %llu requests to "
			"be served, here",
			(unsigned long long)peer->quota.used[OPX_Q_KEPT],
			(unsigned long long)peer->quota.used[OPX_Q_SERVED]);
	LIST_INSERT_HEAD(&ep->full, peer, full);
	opx_flow_full(&peer->flow, true);
}

void opx_quota_put(struct opx_peer *peer, enum opx_quota q, uint64_t n)
{
	struct opx_peer *next;

	quota_put(&peer->ep->quota, &peer->quota, q, n);
	for (struct opx_peer *p = LIST_FIRST(&peer->ep->full); unlikely(p != NULL); p = next) {
		next = LIST_NEXT(p, full);
		if (!has_room(p))
			continue;
		LIST_REMOVE(p, full);
		opx_flow_full(&p->flow, false);
	}
}
