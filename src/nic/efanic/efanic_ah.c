// SPDX-License-Identifier: BSD-2-Clause
// Address handles (one number per distinct GID, counted; found by the IP address that it stands
// for) and destinations (what AH, QPN and Q_Key together name).
#include "nic/efanic/efanic_int.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

/*
 * Closing an address handle must be O(1) although thousands of destinations may stand on it, so no destination is told:
 * each entry has a generation, each destination remembers it, and who uses the destination compares, once after its
 * queue pair's gate has moved. The entry after the last stands for "no address handle"; its generation moves when any
 * handle is opened, so that a sender without one is looked up again then, and never otherwise.
 */

static uint32_t ip_hash(const uint8_t ip[16])
{
	uint64_t a, b;

	memcpy(&a, ip, 8);
	memcpy(&b, ip + 8, 8);
	a = (a ^ (b >> 32) ^ b) * 0x9e3779b97f4a7c15ULL;
	return (uint32_t)(a >> 32);
}

int efanic_ah_tab_init(struct efanic *nic)
{
	uint32_t max = nic->attr.max_ah;
	uint32_t bucket_cnt = (uint32_t)roundup_pow2(max);

	nic->ah = mem_alloc((max + 1) * sizeof(*nic->ah));
	if (!nic->ah)
		return -ENOMEM;
	nic->ah_bucket = mem_alloc(bucket_cnt * sizeof(*nic->ah_bucket));
	if (!nic->ah_bucket) {
		mem_free(nic->ah);
		nic->ah = NULL;
		return -ENOMEM;
	}
	memset(nic->ah_bucket, 0xff, bucket_cnt * sizeof(*nic->ah_bucket));
	nic->ah_mask = bucket_cnt - 1;
	nic->ah_free = AH_NONE;
	nic->ah_fresh = 0;
	nic->ah[max].ahn = EFANIC_AHN_UNKNOWN;
	return 0;
}

void efanic_ah_tab_fini(struct efanic *nic)
{
	mem_free(nic->ah_bucket);
	mem_free(nic->ah);
}

uint16_t efanic_ah_find(const struct efanic *nic, const uint8_t ip[16])
{
	uint16_t i = nic->ah_bucket[ip_hash(ip) & nic->ah_mask];

	while (i != AH_NONE && memcmp(nic->ah[i].ip, ip, 16))
		i = nic->ah[i].hnext;
	return i != AH_NONE ? i : (uint16_t)nic->attr.max_ah;
}

/* No port can be there: unspecified and multicast addresses. */
static bool gid_is_unusable(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return !memcmp(gid, zero, 16) || gid[0] == 0xff;
}

/* Where the adapter with @gid is. */
static int ip_of_gid(const struct efanic *nic, const uint8_t gid[16], uint8_t ip[16])
{
	if (gid_is_unusable(gid)) {
		LOG_WARN("%s: no address handle for an unspecified or multicast GID",
			 nic->attr.name);
		return -ENETUNREACH;
	}
	if (!efanic_ip_of_gid(gid, ip)) {
		LOG_WARN("%s: no address handle for ::ffff:%u.%u.%u.%u: no adapter has a GID that "
			 "is an IPv4 address; the one at such an address has fe80::5f:aaff:febb:ccdd",
			 nic->attr.name, gid[12], gid[13], gid[14], gid[15]);
		return -ENETUNREACH;
	}
	return 0;
}

/* A new entry in @bucket. */
static int ah_add(struct efanic *nic, const uint8_t ip[16], uint16_t *bucket, uint16_t *ahn)
{
	struct efanic_ah *ah;
	uint16_t i;

	if (nic->ah_free != AH_NONE) {
		i = nic->ah_free;
		nic->ah_free = nic->ah[i].hnext;
	} else if (nic->ah_fresh < nic->attr.max_ah) {
		i = nic->ah_fresh++;
	} else {
		LOG_WARN("%s: all %u address handles in use (max_ah)", nic->attr.name,
			 nic->attr.max_ah);
		return -ENOMEM;
	}
	ah = &nic->ah[i];
	memcpy(ah->ip, ip, 16);
	ah->refs = 1;
	ah->ahn = i;
	ah->hnext = *bucket;
	*bucket = i;
	nic->ah[nic->attr.max_ah].gen++;
	*ahn = i;
	return 0;
}

int efanic_ah_open(struct efanic *nic, const uint8_t gid[16], uint16_t *ahn)
{
	uint8_t ip[16];
	int rc = ip_of_gid(nic, gid, ip);
	uint16_t i;

	lock_assert_held(nic->lock);
	if (rc)
		return rc;
	i = efanic_ah_find(nic, ip);
	if (i == nic->attr.max_ah)
		return ah_add(nic, ip, &nic->ah_bucket[ip_hash(ip) & nic->ah_mask], ahn);
	nic->ah[i].refs++;
	*ahn = i;
	return 0;
}

void efanic_ah_close(struct efanic *nic, uint16_t ahn)
{
	struct efanic_ah *ah;
	uint16_t *link;

	lock_assert_held(nic->lock);
	if (ahn >= nic->attr.max_ah || !nic->ah[ahn].refs) {
		LOG_WARN("%s: closing AH %u, which is not open", nic->attr.name, ahn);
		return;
	}
	ah = &nic->ah[ahn];
	if (--ah->refs)
		return;
	link = &nic->ah_bucket[ip_hash(ah->ip) & nic->ah_mask];
	while (*link != ahn)
		link = &nic->ah[*link].hnext;
	*link = ah->hnext;
	ah->gen++;
	ah->hnext = nic->ah_free;
	nic->ah_free = ahn;
	for (struct efanic_qp *qp = nic->qps; qp; qp = qp->next)
		efanic_gate_shut(qp);
}

/* @dst has the handle that is open now for where it is, if there is one. */
static void dst_take_ah(const struct efanic *nic, struct efanic_dst *dst)
{
	dst->ah_idx = efanic_ah_find(nic, link_peer_addr(dst->peer)->ip);
	dst->ah_gen = nic->ah[dst->ah_idx].gen;
}

uint16_t efanic_dst_refresh(struct efanic *nic, struct efanic_dst *dst)
{
	/* A destination whose handle was closed stays so until someone gets it with a new handle.
	 */
	if (dst->ah_idx != nic->attr.max_ah)
		return nic->ah[efanic_ah_find(nic, link_peer_addr(dst->peer)->ip)].ahn;
	dst_take_ah(nic, dst);
	return nic->ah[dst->ah_idx].ahn;
}

/* The destination for (@peer, @qkey): takes over the caller's reference on @peer, also when it
 * fails. */
static int dst_of_peer(struct efanic_qp *qp, struct link_peer *peer, uint32_t qkey,
		       struct efanic_dst **out)
{
	struct efanic_dst *dst = link_peer_user(peer);

	while (dst && dst->qkey != qkey)
		dst = dst->next;
	if (dst) {
		link_peer_put(peer); /* it has one of its own */
		dst->refs++;
		*out = dst;
		return 0;
	}
	dst = slab_get(&qp->nic->dsts);
	if (!dst) {
		link_peer_put(peer);
		return -ENOMEM;
	}
	*dst = (struct efanic_dst){
		.qp = qp,
		.peer = peer,
		.next = link_peer_user(peer),
		.refs = 1,
		.qkey = qkey,
		.wait = {SQ_NONE, SQ_NONE},
	};
	link_peer_set_user(peer, dst);
	*out = dst;
	return 0;
}

int efanic_dst_get(struct efanic_qp *qp, uint16_t ahn, uint16_t qpn, uint32_t qkey,
		   struct efanic_dst **out)
{
	struct efanic *nic = qp->nic;
	struct link_addr addr = {.port = qpn};
	struct link_peer *peer;
	int rc;

	lock_assert_held(nic->lock);
	if (ahn >= nic->attr.max_ah || !nic->ah[ahn].refs)
		return -EINVAL;
	memcpy(addr.ip, nic->ah[ahn].ip, 16);
	/* A UD port's nonce is its own secret: Q_Keys there may be 0 and may change. */
	addr.nonce = qp->is_ud ? 0 : efanic_qkey_nonce(qkey);
	rc = link_peer_get(qp->port, &addr, &peer);
	if (rc)
		return rc;
	rc = dst_of_peer(qp, peer, qkey, out);
	if (rc)
		return rc;
	(*out)->ah_idx = ahn;
	(*out)->ah_gen = nic->ah[ahn].gen;
	return 0;
}

struct efanic_dst *efanic_dst_find(struct efanic_qp *qp, const uint8_t gid[16], uint16_t qpn,
				   uint32_t qkey)
{
	struct link_addr addr = {.port = qpn, .nonce = qp->is_ud ? 0 : efanic_qkey_nonce(qkey)};
	struct efanic_dst *dst;
	struct link_peer *peer;

	lock_assert_held(qp->nic->lock);
	if (!efanic_ip_of_gid(gid, addr.ip))
		return NULL;
	peer = link_peer_find(qp->port, &addr);
	dst = peer ? link_peer_user(peer) : NULL;
	while (dst && dst->qkey != qkey)
		dst = dst->next;
	return dst;
}

/* A lasting destination for the sender of the packet that is being handled. */
static int stranger_settle(struct efanic_qp *qp, struct efanic_dst **out)
{
	struct efanic *nic = qp->nic;
	struct link_peer *peer;
	int rc = link_peer_get(qp->port, link_peer_addr(qp->stranger.peer), &peer);

	if (rc)
		return rc;
	rc = dst_of_peer(qp, peer, qp->stranger.qkey, out);
	if (rc)
		return rc;
	if ((*out)->refs == 1) {
		dst_take_ah(nic, *out);
		(*out)->user = qp->stranger.user;
	}
	return 0;
}

int efanic_dst_settle(struct efanic_qp *qp, struct efanic_dst *dst, struct efanic_dst **out)
{
	if (dst == &qp->stranger && dst->peer)
		return stranger_settle(qp, out);
	if (dst->qp != qp)
		return -EINVAL;
	dst->refs++;
	*out = dst;
	return 0;
}

int efanic_dst_hold(struct efanic_qp *qp, struct efanic_dst *dst, struct efanic_dst **out)
{
	struct efanic *nic = qp->nic;
	int rc;

	lock_assert_held(nic->lock);
	rc = efanic_dst_settle(qp, dst, out);
	if (rc)
		return rc;
	if (efanic_dst_is_stale(nic, *out)) /* kept until now by what is in the send queue */
		dst_take_ah(nic, *out);
	return 0;
}

/* Takes @dst out of the chain at its peer and gives the peer back. */
static void dst_unhook(struct efanic_dst *dst)
{
	struct efanic_dst *d = link_peer_user(dst->peer);

	if (d == dst) {
		link_peer_set_user(dst->peer, dst->next);
	} else {
		while (d->next != dst)
			d = d->next;
		d->next = dst->next;
	}
	link_peer_put(dst->peer);
	dst->peer = NULL;
}

void efanic_dst_put(struct efanic_dst *dst)
{
	struct efanic *nic = dst->is_orphan ? dst->nic : dst->qp->nic;

	lock_assert_held(nic->lock);
	must(dst->refs);
	if (--dst->refs)
		return;
	if (!dst->is_orphan)
		dst_unhook(dst);
	slab_put(&nic->dsts, dst);
}

void efanic_dst_gone(void *ctx, struct link_peer *peer, int status)
{
	(void)ctx;
	for (struct efanic_dst *dst = link_peer_user(peer); dst; dst = dst->next) {
		dst->lives++;
		dst->end = efanic_end_status(dst, status);
	}
}

static void dst_orphan(void *obj, void *arg)
{
	struct efanic_dst *dst = obj;
	struct efanic_qp *qp = arg;

	if (dst->is_orphan || dst->qp != qp)
		return;
	dst_unhook(dst);
	dst->is_orphan = true;
	dst->nic = qp->nic;
}

void efanic_dst_orphan_all(struct efanic_qp *qp)
{
	slab_foreach(&qp->nic->dsts, dst_orphan, qp);
}

uint32_t efanic_dst_qkey(const struct efanic_dst *dst)
{
	return dst->qkey;
}

void *efanic_dst_user(const struct efanic_dst *dst)
{
	return dst->user;
}

void efanic_dst_set_user(struct efanic_dst *dst, void *user)
{
	dst->user = user;
}

bool efanic_dst_is_local(const struct efanic_dst *dst)
{
	return dst->peer && link_peer_is_local(dst->peer);
}

struct quota_source *efanic_dst_source(const struct efanic_dst *dst)
{
	return dst->peer ? link_peer_source(dst->peer) : NULL;
}

bool efanic_dst_shares_memory(const struct efanic_dst *dst)
{
	return link_bulk_is_direct(dst->peer);
}
