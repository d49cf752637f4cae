// SPDX-License-Identifier: BSD-2-Clause
// Destinations: contexts of this and other hosts, as one of ours sees them.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

#include "base/log.h"
#include "nic/hfi/hfi_addr.h"

/* What the headers of packets from @dst must say. */
static void door_open(struct hfi_ctxt *c, struct hfi_dst *dst)
{
	struct hfi_hdr like = c->like;

	like.dlid = be16_put(c->info.lid);
	like.slid = be16_put(dst->lid);
	like.dest_rx = (uint8_t)c->info.ctxt;
	like.psn_tx = le32_put((uint32_t)dst->rx << 24);
	hfi_door_init(&dst->door, &like);
}

/* The destination behind @peer, whose reference it takes over, also when it fails. NULL: no memory. */
static struct hfi_dst *dst_new(struct hfi_ctxt *c, struct link_peer *peer, uint16_t lid, uint16_t rx, uint16_t subctxt)
{
	struct hfi_dst *dst = slab_get(&c->hfi->dsts);

	if (!dst) {
		link_peer_put(peer);
		return NULL;
	}
	*dst = (struct hfi_dst){
		.peer = peer,
		.c = c,
		.lid = lid,
		.rx = (uint8_t)rx,
		.subctxt = (uint8_t)subctxt,
		.is_host = link_peer_is_host(peer),
	};
	door_open(c, dst);
	link_peer_set_user(peer, dst);
	return dst;
}

struct hfi_dst *hfi_dst_of(struct hfi_ctxt *c, struct link_peer *peer)
{
	struct hfi_dst *dst = link_peer_user(peer);
	uint16_t lid, rx, subctxt;

	if (dst)
		return dst;
	if (hfi_addr_who(&c->hfi->map, link_peer_addr(peer), &lid, &rx, &subctxt) ||
	    link_peer_get(c->claim.port, link_peer_addr(peer), &peer))
		return NULL;
	return dst_new(c, peer, lid, rx, subctxt);
}

int hfi_dst_get(struct hfi_ctxt *c, uint16_t lid, uint8_t rx, struct hfi_dst **out)
{
	struct link_addr addr;
	struct link_peer *peer;
	struct hfi_dst *dst;
	int rc;

	lock_assert_held(c->hfi->lock);
	if (!lid || lid > HFI_LID_MAX || rx >= HFI_CTXT_MAX)
		return -EINVAL;
	rc = hfi_addr_of(&c->hfi->map, lid, rx, 0, &addr);
	if (rc) {
		LOG_WARN("%s: no host has LID %#x: %s", c->hfi->attr.name, lid,
			 c->hfi->map.loop
				 ? "between hosts set SOFTFABRIC_NET=\"if=...\" to an interface, an address or auto"
				 : "see the keys net and map of SOFTFABRIC_NET");
		return rc;
	}
	rc = link_peer_get(c->claim.port, &addr, &peer);
	if (rc)
		return rc;
	dst = link_peer_user(peer);
	if (dst)
		link_peer_put(peer); /* it has one of its own */
	else
		dst = dst_new(c, peer, lid, rx, 0);
	if (!dst)
		return -ENOMEM;
	dst->refs++;
	*out = dst;
	return 0;
}

void hfi_dst_hold(struct hfi_dst *dst)
{
	dst->refs++;
}

static struct hfi *hfi_of(const struct hfi_dst *dst)
{
	return dst->peer ? dst->c->hfi : dst->hfi;
}

void hfi_dst_free(struct hfi_dst *dst)
{
	struct hfi *hfi = hfi_of(dst);

	if (dst->peer) {
		link_peer_set_user(dst->peer, NULL);
		link_peer_put(dst->peer);
	}
	slab_put(&hfi->dsts, dst);
}

void hfi_dst_put(struct hfi_dst *dst)
{
	lock_assert_held(hfi_of(dst)->lock);
	hfi_dst_unref(dst);
}

static void dst_orphan(void *obj, void *arg)
{
	struct hfi_dst *dst = obj;
	struct hfi_ctxt *c = arg;

	if (!dst->peer || dst->c != c)
		return;
	link_peer_set_user(dst->peer, NULL);
	link_peer_put(dst->peer);
	dst->peer = NULL;
	dst->hfi = c->hfi;
}

void hfi_dst_orphan_all(struct hfi_ctxt *c)
{
	slab_foreach(&c->hfi->dsts, dst_orphan, c);
}

uint16_t hfi_dst_lid(const struct hfi_dst *dst)
{
	return dst->lid;
}

uint8_t hfi_dst_rx(const struct hfi_dst *dst)
{
	return dst->rx;
}

void *hfi_dst_user(const struct hfi_dst *dst)
{
	return dst->user;
}

void hfi_dst_set_user(struct hfi_dst *dst, void *user)
{
	dst->user = user;
}

bool hfi_dst_is_local(const struct hfi_dst *dst)
{
	return dst->peer && link_peer_is_local(dst->peer);
}

struct quota_source *hfi_dst_source(const struct hfi_dst *dst)
{
	return dst->peer ? link_peer_source(dst->peer) : NULL;
}

bool hfi_dst_admits(const struct hfi_dst *dst)
{
	return dst->peer && link_peer_label(dst->peer) == hfi_door_label(&dst->c->like);
}

bool hfi_dst_is_host(const struct hfi_dst *dst)
{
	return dst->is_host;
}

int hfi_dst_connect(struct hfi_dst *dst)
{
	int rc;

	lock_assert_held(hfi_of(dst)->lock);
	rc = dst->peer ? link_peer_connect(dst->peer) : -ECONNREFUSED;
	return !rc && dst->is_gone_parked ? -EAGAIN : rc;
}

void hfi_dst_hdr(const struct hfi_dst *dst, struct hfi_hdr *out)
{
	*out = dst->c->like;
	out->dlid = be16_put(dst->lid);
	out->dest_rx = dst->rx;
}
