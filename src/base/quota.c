// SPDX-License-Identifier: BSD-2-Clause
// Shares of peers in what they can make us keep. quota.h has the theory.
#include "base/quota.h"

#include <string.h>

#include "base/base.h"
#include "base/mem.h"

/* --- sources ---------------------------------------------------------------------------------- */

/*
 * Who has one address of IPv6 has its /64, and who is on this host all of 127.0.0.0/8. Addresses of a link are hosts;
 * in ::ffff:0:0/96 lies IPv4.
 */
static void net_of(const uint8_t ip[16], uint8_t net[16])
{
	static const uint8_t zero[8], lo[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
	bool is_host = !memcmp(ip, zero, 8) || (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);

	memset(net, 0, 16);
	memcpy(net, ip, !memcmp(ip, lo, sizeof(lo)) ? sizeof(lo) : is_host ? 16 : 8);
}

static struct quota_source **bucket(struct quota_tab *t, const uint8_t net[16])
{
	return &t->hash[keyed_hash(&t->key, net, 16) % QUOTA_BUCKETS];
}

static struct quota_source *find(struct quota_tab *t, const uint8_t net[16])
{
	struct quota_source *s = *bucket(t, net);

	while (s && memcmp(s->net, net, 16))
		s = s->next;
	return s;
}

struct quota_source *quota_source_find(struct quota_tab *t, const uint8_t ip[16])
{
	uint8_t net[16];

	net_of(ip, net);
	return find(t, net);
}

struct quota_source *quota_source_get(struct quota_tab *t, const uint8_t ip[16])
{
	struct quota_source *s, **at;
	uint8_t net[16];

	net_of(ip, net);
	s = find(t, net);
	if (!s) {
		s = mem_alloc(t->size);
		if (!s)
			return NULL;
		memcpy(s->net, net, 16);
		at = bucket(t, net);
		s->tab = t;
		s->next = *at;
		*at = s;
	}
	s->refs++;
	return s;
}

void quota_source_put(struct quota_source *s)
{
	struct quota_source **at;

	if (--s->refs)
		return;
	if (s->tab) {
		for (at = bucket(s->tab, s->net); *at != s; at = &(*at)->next)
			;
		*at = s->next;
	}
	mem_free(s);
}

void quota_tab_close(struct quota_tab *t)
{
	for (unsigned i = 0; i < QUOTA_BUCKETS; i++) {
		for (struct quota_source *s = t->hash[i]; s; s = s->next)
			s->tab = NULL;
		t->hash[i] = NULL;
	}
}

/* --- books ------------------------------------------------------------------------------------ */

void quota_book_init(struct quota_book *b, enum quota_book_idx idx, const struct quota_limit *limit, unsigned kinds)
{
	must(kinds <= QUOTA_KINDS);
	memset(b, 0, sizeof(*b));
	b->idx = idx;
	memcpy(b->limit, limit, kinds * sizeof(*limit));
}

void quota_join(struct quota_user *u, struct quota_source *s)
{
	if (likely(u->source == s) || u->total)
		return;
	if (s)
		s->refs++;
	if (u->source)
		quota_source_put(u->source);
	u->source = s;
}

void quota_leave(struct quota_user *u)
{
	if (u->source)
		quota_source_put(u->source);
	u->source = NULL;
}

bool quota_has(const struct quota_book *b, const struct quota_user *u, unsigned kind, uint64_t n)
{
	const struct quota_limit *l = &b->limit[kind];
	uint64_t was = u->used[kind], mine, more, then, of_source;
	const struct quota_source *s = u->source;

	if (was < l->least)
		return true;
	if (n > l->peer || was > l->peer - n)
		return false;
	mine = quota_beyond(l, was + n);
	more = mine - quota_beyond(l, was);
	if (s && s->sum[b->idx][kind].own + n - more > l->owns * l->own)
		return false;
	if (!more)
		return true;
	/* as it will be then: so each part of @n, taken alone, is there too */
	then = b->pool[kind] + more;
	if (!s)
		return mine + then <= l->all;
	of_source = s->sum[b->idx][kind].pool + more;
	return of_source + then <= l->all && mine + of_source <= l->source;
}
