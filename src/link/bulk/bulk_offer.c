// SPDX-License-Identifier: BSD-2-Clause
// Bytes that an owner on another host sends before its peer asks for them, which saves a message of up to 64 KiB one of
// its crossings.
//
// Theory of operation: who sends a message that its peer is going to fetch (a rendezvous) says so with link_offer(). An
// OFFER goes ahead of the message and the bytes follow it, in one datagram if they fit. Frames of a pair come in order:
// while the peer handles the message it knows the offer, and if it begins to read just those bytes then, nothing has to
// be asked for. Otherwise, because no receive was posted or it is too short, the bytes go by when they come, and the
// read, when it begins, asks. So nobody ever keeps bytes that nobody wants; of offers a port keeps the last one, which
// more than one sender at a time makes lose some. An owner whose bytes went by, or whose message was refused, makes no
// offers for a while, and for longer each time: programs that post their receives late do so again.
#include "link/bulk/bulk_int.h"

#define CNT_MAX 8u /* of one peer at once: what may go by */

/* --- the owner -------------------------------------------------------------------------------- */

static bool may_offer(const struct link_peer *peer)
{
	/* a request through shared memory crosses at once; where order is not kept the bytes may come first */
	return peer->shm_tried && !peer->shm && !peer->dead &&
	       peer->port->cls == LINK_ORDERED && (!peer->bulk || peer->bulk->stream_cnt < CNT_MAX);
}

void link_offer(struct link_port *p, struct link_peer *peer, uint32_t key, uint64_t addr, size_t len)
{
	struct bulk_port *b = p->bulk;
	struct bulk_pkt pkt = {.type = BULK_T_OFFER, .key = key, .addr = addr, .len = len, .tag = b->next_tag + 1};
	struct bulk_stream *s;

	lock_assert_held(p->node->lock);
	if (!ahead_may(&peer->offers, len) || !may_offer(peer)) {
		ahead_sent(&peer->offers, false);
		return;
	}
	s = bulk_stream_new(b, peer, &pkt);
	if (!s)
		return;
	s->is_ahead = true;
	/* through shared memory this might find the peer dead, and the stream gone */
	if (bulk_frame(b, peer, &pkt, NULL, 0, NULL)) {
		bulk_stream_stop(b, s);
		return;
	}
	b->next_tag++;
	bulk_region_offer(b->node, key);
	ahead_sent(&peer->offers, true);
	b->fresh = s;
}

void bulk_offer_send(struct bulk_port *b)
{
	/* nobody is called back by what goes over the network, so this is no turn within another one of the stream */
	while (b->fresh && bulk_stream_turn(b, b->fresh) > 0)
		;
	b->fresh = NULL;
}

/* --- its peer --------------------------------------------------------------------------------- */

void bulk_offer_forget(struct bulk_port *b, const struct link_peer *peer)
{
	struct link_peer *from = b->offer.peer;

	if (!from || (peer && from != peer))
		return;
	b->offer.peer = NULL;
	link_peer_put(from);
}

void bulk_offer_come(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	bulk_offer_forget(b, NULL);
	b->offer = (struct bulk_offer){.peer = bulk_peer_ref(peer), .pkt = *pkt};
}

bool bulk_offer_take(struct bulk_port *b, struct bulk_op *op)
{
	const struct bulk_pkt *o = &b->offer.pkt;
	uint32_t cnt = 0;

	if (b->port->cls != LINK_ORDERED || b->offer.peer != op->peer || o->key != op->key ||
	    o->addr != op->raddr + op->pos || o->len != op->len - op->pos)
		return false;
	for (const struct bulk_op *i = bulk_ahead_first(b, op->peer); i; i = i->ahead_next)
		cnt++;
	if (cnt >= CNT_MAX) /* no owner of ours offers more; each frame that comes looks through them */
		return false;
	op->offer_tag = o->tag;
	bulk_queue_ahead(b, op);
	bulk_offer_forget(b, op->peer);
	return true;
}

struct bulk_op *bulk_offer_find(struct bulk_port *b, const struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_op *op = bulk_ahead_first(b, peer);

	while (op && op->offer_tag != pkt->tag)
		op = op->ahead_next;
	if (!op && b->offer.pkt.tag == pkt->tag) /* they come, and nobody has taken them */
		bulk_offer_forget(b, peer);
	return op;
}
