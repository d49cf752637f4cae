// SPDX-License-Identifier: BSD-2-Clause
// What a peer may make an endpoint keep for it: so much each, so much for all behind one address,
// and a pool (base/quota.h).
#include "prov/efa/efa.h"

#include "base/log.h"

/*
 * Theory of operation
 *
 * Packets of requests are refused at the adapter (receiver not ready) while their sender has more here than it may:
 * they have not arrived, and come again. What finishes something is never refused: answers, further packets of a
 * message that has its receive, a message for which a receive waits. So an honest sender gets on as soon as receives
 * are posted and answers taken. Limits are looked at after something was added, and while a peer is marked
 * EFA_PEER_FULL: who finds the pool empty is one packet late. What the adapter had accepted while nobody polled cannot
 * be refused any more; there is no more of it than the adapter has receives.
 */

/* doc/security.md, "Network: quotas" */
const struct quota_limit efa_limits[EFA_Q_NUM] = {
	[EFA_Q_EARLY] = QUOTA_LIMIT(1, 2u << 20, 64, 64u << 20),
	[EFA_Q_KEPT] = QUOTA_LIMIT(1, 16u << 20, 64, 1u << 30),
	[EFA_Q_OPEN] = QUOTA_LIMIT(1, 1024, 64, 16384),
	[EFA_Q_WORK] = QUOTA_LIMIT(1, 1024, 64, 65536),
};
static_assert(EFA_Q_NUM <= QUOTA_KINDS, "they have room in a book");

bool efa_quota_has(const struct efa_peer *peer, enum efa_quota q, uint64_t n)
{
	return quota_has(&peer->ep->quota, &peer->quota, q, n);
}

void efa_quota_add(struct efa_peer *peer, enum efa_quota q, uint64_t n)
{
	if (!peer->quota.total && !(peer->flags & EFA_PEER_REMOVED))
		quota_join(&peer->quota, efanic_dst_source(peer->dst));
	quota_add(&peer->ep->quota, &peer->quota, q, n);
	if (unlikely(!efa_quota_has(peer, q, 1)))
		efa_peer_flag(peer, EFA_PEER_FULL, true);
}

void efa_quota_put(struct efa_peer *peer, enum efa_quota q, uint64_t n)
{
	quota_put(&peer->ep->quota, &peer->quota, q, n);
}

/* A message packet that is neither early nor for a message that has its receive would be kept. */
static bool is_kept(const struct efa_peer *peer, const struct efa_hdr *h, bool is_first)
{
	bool tagged = efa_pkt_tab[h->type].props & EFA_P_TAGGED;
	const struct efa_rx *rx;

	if (is_first)
		return !mt_posted_match(&peer->ep->srx.posted[tagged], peer->fi_addr, tagged ? h->tag : 0);
	LIST_FOREACH(rx, &peer->multi, multi_link)
		if (rx->msg_id == h->msg_id)
			return !rx->matched;
	return false;
}

static bool is_too_much(const struct efa_peer *peer, const struct efa_hdr *h)
{
	unsigned props = efa_pkt_tab[h->type].props;
	int32_t ahead = (int32_t)(h->msg_id - peer->exp_msg_id);

	if (!(props & EFA_P_REQ) || h->flags & EFA_FLAG_READ_NACK)
		return false;
	if (!(props & EFA_P_RTM))
		return !efa_quota_has(peer, EFA_Q_WORK, 1);
	if (ahead > 0) /* has_room_ahead() */
		return false;
	if (ahead == 0 && !efa_quota_has(peer, EFA_Q_WORK, 1))
		return true;
	if (ahead == 0 && props & EFA_P_MULTI && !efa_quota_has(peer, EFA_Q_OPEN, 1))
		return true;
	return !efa_quota_has(peer, EFA_Q_KEPT, 1) && is_kept(peer, h, ahead == 0);
}

bool efa_quota_refuse(struct efa_peer *peer, const struct efa_hdr *h)
{
	struct efa_ep *ep = peer->ep;
	bool is_full = false;

	for (unsigned q = 0; q < EFA_Q_NUM; q++)
		is_full |= !efa_quota_has(peer, (enum efa_quota)q, 1);
	if (!is_full)
		efa_peer_flag(peer, EFA_PEER_FULL, false);
	if (!is_full || !is_too_much(peer, h) || !efanic_refuse(ep->qp))
		return false;
	if (!ep->stats.quota_refused++)
		LOG_INFO(
			"a peer has to wait: it has %llu bytes of messages that nobody receives, and %llu requests and "
			"answers, under way here",
			(unsigned long long)(peer->quota.used[EFA_Q_EARLY] + peer->quota.used[EFA_Q_KEPT]),
			(unsigned long long)peer->quota.used[EFA_Q_WORK]);
	return true;
}
