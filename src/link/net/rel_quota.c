// SPDX-License-Identifier: BSD-2-Clause
// What peers may make us keep for them: so much each, so much for all behind one address, so much in all.
//
// Theory of operation: what has arrived (is acknowledged) is kept until it can be delivered, so nothing of it may ever
// be thrown away again. What would be too much is therefore refused before it counts as arrived: an honest sender
// repeats it. Each pair has a share of its own, which is enough to get on, if slowly (rel_nak.c says why); base/quota.h
// says what there is beyond that. What is kept for too long ends its pair. The sources of a port are kept here, since
// who has come by the network has a struct rel_peer; the port's owner and bulk_serve.c count in them, too.
#include "link/core/link_int.h"

#include "link/net/rel_int.h"

#define SOURCE_OWNS 1024u /* own shares that one source may have in use */
#define NAK_OWN	    256u
static_assert(REL_RECS_MAX <= NAK_OWN, "an honest datagram arrives, whatever others hold");
static_assert(REL_Q_NUM <= QUOTA_KINDS, "they have room in a book");

/* See doc/security.md, "Network: quotas". */
static const struct quota_limit limits[REL_Q_NUM] = {
	[REL_Q_ASM] = {.own = 2, .owns = SOURCE_OWNS, .peer = REL_ASM_PEER, .source = 256, .all = 4096},
	[REL_Q_STASH] = {.peer = REL_RCVBUF + REL_DGRAM_MAX, .source = 4u << 20, .all = 64u << 20},
	[REL_Q_EARLY] = {.peer = 16384, .source = 16384, .all = 131072},
	[REL_Q_NAK] = {.own = NAK_OWN, .owns = SOURCE_OWNS, .peer = 16384, .source = 16384, .all = 131072},
};

void rel_quota_init(struct rel *r)
{
	r->sources.size = sizeof(struct rel_source);
	keyed_fresh(&r->sources.key);
	quota_book_init(&r->quota, QUOTA_REL, limits, REL_Q_NUM);
}

struct rel_source *rel_source_find(struct rel *r, const uint8_t ip[16])
{
	struct quota_source *s = quota_source_find(&r->sources, ip);

	return s ? container_of(s, struct rel_source, quota) : NULL;
}

bool rel_source_get(struct rel_peer *rp, const uint8_t ip[16])
{
	struct quota_source *s = quota_source_get(&rp->r->sources, ip);

	if (!s)
		return false;
	rp->quota.source = s;
	if (s->refs == 1)
		TAILQ_INIT(&rel_source_of(rp)->guests);
	return true;
}

struct quota_source *link_peer_source(const struct link_peer *peer)
{
	return peer->shm || !peer->rel ? NULL : peer->rel->quota.source;
}
