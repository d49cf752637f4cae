// SPDX-License-Identifier: BSD-2-Clause
// What peers may make us keep for them: so much each, so much for all behind one address, so much in all.
//
// Theory of operation: what has arrived (is acknowledged) is kept until it can be delivered, so nothing of it may ever be thrown away
// again. What would be too much is therefore refused before it counts as arrived: an honest sender repeats it. Each pair has a share of
// its own, which nobody else can use up and which is enough to get on, if slowly (rel_nak.c says why); beyond that it draws from a pool: a
// source address at most as much as it leaves there, and a pair at most as much as it leaves of its source's part. For how many pairs of a
// source own shares are kept is bounded, too. What is kept for too long ends its pair.
#include "link/link_int.h"

#include <string.h>

#include "link/rel_int.h"

#define SOURCE_OWNS 1024u /* own shares that one source may have in use */
#define NAK_OWN	    256u
static_assert(REL_RECS_MAX <= NAK_OWN, "an honest datagram arrives, whatever others hold");

/* See doc/security.md, "Network: quotas". */
static const struct {
	uint32_t own, peer, source, all;
} limit[REL_Q_NUM] = {
	[REL_Q_ASM] = {2, REL_ASM_PEER, 256, 4096},
	[REL_Q_STASH] = {0, REL_RCVBUF + REL_DGRAM_MAX, 4u << 20, 64u << 20},
	[REL_Q_EARLY] = {0, 16384, 16384, 131072},
	[REL_Q_NAK] = {NAK_OWN, 16384, 16384, 131072},
};

static struct rel_source **bucket(struct rel *r, const uint8_t net[16])
{
	return &r->sources[keyed_hash(&r->source_key, net, 16) % ARRAY_SIZE(r->sources)];
}

/* Who has one address of IPv6 has its /64. Addresses of a link are hosts; in ::ffff:0:0/96 lies IPv4. */
static void net_of(const uint8_t ip[16], uint8_t net[16])
{
	static const uint8_t zero[8];
	bool is_host = !memcmp(ip, zero, 8) || (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);

	memset(net, 0, 16);
	memcpy(net, ip, is_host ? 16 : 8);
}

struct rel_source *rel_source_find(struct rel *r, const uint8_t ip[16])
{
	struct rel_source *s;
	uint8_t net[16];

	net_of(ip, net);
	for (s = *bucket(r, net); s && memcmp(s->net, net, sizeof(net)); s = s->next)
		;
	return s;
}

bool rel_source_get(struct rel_peer *rp, const uint8_t ip[16])
{
	struct rel_source *s = rel_source_find(rp->r, ip), **at;

	if (!s) {
		s = mem_alloc(sizeof(*s));
		if (!s)
			return false;
		net_of(ip, s->net);
		TAILQ_INIT(&s->guests);
		at = bucket(rp->r, s->net);
		s->next = *at;
		*at = s;
	}
	s->refs++;
	rp->source = s;
	return true;
}

void rel_source_put(struct rel_peer *rp)
{
	struct rel_source *s = rp->source, **at = bucket(rp->r, s->net);

	rp->source = NULL;
	if (--s->refs)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	mem_free(s);
}

/* Of @rp's @n, what does not come out of its own share. */
static uint32_t beyond_own(enum rel_quota q, uint32_t n)
{
	return n > limit[q].own ? n - limit[q].own : 0;
}

bool rel_quota_has(const struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	const struct rel_source *s = rp->source;
	uint32_t was = rp->used[q], pool = beyond_own(q, was + n) - beyond_own(q, was);

	if (n > limit[q].peer || was > limit[q].peer - n || s->own[q] + n - pool > SOURCE_OWNS * limit[q].own)
		return false;
	if (!pool)
		return true;
	/* as it will be then: so each part of @n, taken alone, is there too */
	return s->pool[q] + pool <= limit[q].source && s->pool[q] + 2 * pool + rp->r->pool[q] <= limit[q].all &&
	       beyond_own(q, was + n) + s->pool[q] + pool <= limit[q].source;
}

void rel_quota_add(struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	uint32_t was = rp->used[q], pool = beyond_own(q, was + n) - beyond_own(q, was);

	rp->used[q] += n;
	rp->source->own[q] += n - pool;
	rp->source->pool[q] += pool;
	rp->r->pool[q] += pool;
}

bool rel_quota_take(struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	if (!rel_quota_has(rp, q, n))
		return false;
	rel_quota_add(rp, q, n);
	return true;
}

void rel_quota_put(struct rel_peer *rp, enum rel_quota q, uint32_t n)
{
	uint32_t was = rp->used[q], pool;

	must(was >= n);
	pool = beyond_own(q, was) - beyond_own(q, was - n);
	rp->used[q] -= n;
	rp->source->own[q] -= n - pool;
	rp->source->pool[q] -= pool;
	rp->r->pool[q] -= pool;
}
