// SPDX-License-Identifier: BSD-2-Clause
// Frames on their way out: through the peer's memory, or to the reliability module.
#include "link/core/link_int.h"

#include <errno.h>

void port_flush(struct link_port *p, uint64_t now)
{
	p->is_dirty = false;
	rel_flush(p->rel, now); /* the carrier, too */
}

void port_soon(struct link_port *p, uint64_t now)
{
	if (!(p->armed & PORT_ARM_SERVED) && (p->is_dirty || rel_next_deadline(p->rel) < now + AGENT_SOON_NS))
		agent_soon(p->node, now);
}

/* A frame waits for the next flush. */
static void net_sent(struct link_port *p)
{
	p->is_dirty = true;
	/* the application computes and the agent sleeps until a deadline that does not know of this frame */
	if (unlikely(atomic_load_explicit(&p->node->armed, memory_order_relaxed)))
		agent_kick(p->node);
}

static int frame_out_net(struct link_port *p, struct link_peer *peer, enum link_kind kind,
			 const void *hdr, size_t hdr_len, const struct iovec *iov, int iov_cnt,
			 void *cookie)
{
	int rc;

	port_net_use(p);
	p->out_ns = clk_now_ns(&p->node->clk);
	rc = rel_send(p->rel, peer, kind, hdr, hdr_len, iov, iov_cnt, cookie, p->out_ns);
	if (!rc)
		net_sent(p);
	return rc;
}

int port_frame_out(struct link_port *p, struct link_peer *peer, enum link_kind kind,
		   const void *hdr, size_t hdr_len, const struct iovec *iov, int iov_cnt,
		   void *cookie)
{
	size_t len = hdr_len;
	int rc;

	lock_assert_held(p->node->lock);
	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	if (unlikely(len > LINK_FRAME_MAX))
		return -EMSGSIZE;
	if (unlikely(peer->dead))
		return peer->dead;
	if (unlikely(!peer->shm_tried)) {
		rc = port_choose_path(peer);
		if (rc)
			return rc;
	}
	if (p->cls == LINK_RAW && kind == LINK_K_NIC)
		cookie = NULL;
	if (likely(peer->shm)) {
		rc = shm_send(peer->shm, kind, hdr, hdr_len, iov, iov_cnt, cookie);
	} else {
		rc = frame_out_net(p, peer, kind, hdr, hdr_len, iov, iov_cnt, cookie);
		p->stats.net_tx_frames += !rc && kind == LINK_K_NIC;
	}
	if (likely(!rc && kind == LINK_K_NIC)) {
		p->stats.tx_frames++;
		p->stats.tx_bytes += len;
	}
	return rc;
}

int link_send(struct link_port *p, struct link_peer *peer, const void *hdr, size_t hdr_len,
	      const struct iovec *iov, int iov_cnt, void *cookie)
{
	return port_frame_out(p, peer, LINK_K_NIC, hdr, hdr_len, iov, iov_cnt, cookie);
}

int link_send_late(struct link_port *p, struct link_peer *peer, const void *hdr, size_t hdr_len)
{
	uint64_t frames = p->stats.tx_frames + 1;
	bool was_dirty = p->is_dirty;
	int rc = port_frame_out(p, peer, LINK_K_NIC, hdr, hdr_len, NULL, 0, NULL);

	/* an error that came of it may have had the owner send something else */
	if (!rc && !peer->shm && !was_dirty && p->stats.tx_frames == frames) {
		rel_linger(p->rel, p->out_ns);
		p->is_dirty = false;
		p->net_look = true; /* the next poll is not one of those that leave the network out */
		port_soon(p, p->out_ns);
	}
	return rc;
}

/* Not inline, as the halves of every message's way on one host are. */
static __attribute__((noinline)) uint8_t *net_begin(struct link_port *p, struct link_peer *peer, size_t len)
{
	return peer->shm_tried && p->cls != LINK_RAW && len <= LINK_OWN_MAX ? rel_begin(p->rel, peer) : NULL;
}

static __attribute__((noinline)) void net_commit(struct link_port *p, struct link_peer *peer, size_t len, void *cookie,
						 uint64_t tag)
{
	port_net_use(p);
	p->out_ns = clk_now_ns(&p->node->clk);
	rel_commit(p->rel, peer, len, cookie, tag, p->out_ns);
	p->stats.net_tx_frames++;
	net_sent(p);
}

inline __attribute__((always_inline)) uint8_t *link_begin(struct link_port *p, struct link_peer *peer,
							  enum link_class cls, size_t len)
{
	lock_assert_held(p->node->lock);
	assert(cls == p->cls);
	/* a peer with shared memory is alive, and its path is chosen */
	if (likely(peer->shm))
		return shm_begin(peer->shm, len, cls == LINK_RAW);
	return net_begin(p, peer, len);
}

bool link_is_full(const struct link_peer *peer)
{
	return peer->shm && shm_has_lane(peer->shm);
}

inline __attribute__((always_inline)) void link_commit(struct link_port *p, struct link_peer *peer, enum link_class cls,
						       uint8_t *frame, size_t len, void *cookie, uint64_t tag)
{
	if (likely(peer->shm))
		shm_commit(peer->shm, frame, len, cls == LINK_RAW, cookie, tag);
	else
		net_commit(p, peer, len, cookie, tag);
	p->stats.tx_frames++;
	p->stats.tx_bytes += len;
}

bool link_is_idle(const struct link_port *p)
{
	return (!p->shm || !shm_outstanding(p->shm)) && !rel_own(p->rel);
}

bool link_peer_is_idle(const struct link_peer *peer)
{
	const struct link_port *p = peer->port;

	return (!p->shm || !shm_outstanding(p->shm)) && (!peer->rel || !rel_peer_own(peer->rel));
}

static __attribute__((noinline)) void ring(struct link_port *p)
{
	bulk_offer_send(p->bulk);
	if (!rel_may_wait(p->rel, p->out_ns))
		port_flush(p, p->out_ns);
	port_soon(p, p->out_ns);
}

/* Asked after each send, and mostly for nothing: small enough to be part of it. */
void link_doorbell(struct link_port *p)
{
	lock_assert_held(p->node->lock);
	if (unlikely(p->is_dirty))
		ring(p);
}

void link_borrow(struct link_port *p)
{
	lock_assert_held(p->node->lock);
	p->is_borrowing = true;
}

void link_borrow_end(struct link_port *p)
{
	p->is_borrowing = false;
	if (p->is_dirty)
		rel_carrier_flush(p->rel);
}
