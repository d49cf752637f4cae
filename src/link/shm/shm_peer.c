// SPDX-License-Identifier: BSD-2-Clause
// Peers of the same-host path: found, made, attached, and what is asked about them. How they end is shm_port.c.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define POLLING_OLD_NS	 NS_PER_MS
#define POLLING_FRESH_NS (20 * NS_PER_US) /* to look takes the line from its owner */
#define POLLING_GRACE_NS (50 * NS_PER_US) /* it posts, or copies, between two polls */

static struct shm_peer *peer_find(struct shm_port *s, const struct link_addr *addr)
{
	struct shm_peer *sp = s->tab[shm_tag(addr->ip, addr->port) % SHM_HASH];

	for (; sp; sp = sp->hnext)
		if (!sp->is_zombie && !sp->is_second && !sp->is_void && memcmp(&sp->addr, addr, sizeof(*addr)) == 0)
			return sp;
	return NULL;
}

static int peer_make(struct shm_port *s, struct shm_seg *seg, struct shm_peer **out)
{
	struct shm_peer **bucket = &s->tab[shm_tag(seg->addr.ip, seg->addr.port) % SHM_HASH];
	struct shm_peer *sp = mem_alloc(sizeof(*sp));

	if (!sp)
		return -ENOMEM;
	sp->pend = mem_alloc(SHM_PEND_CNT * sizeof(*sp->pend));
	if (!sp->pend) {
		mem_free(sp);
		return -ENOMEM;
	}
	sp->pend_head = sp->pend_tail = 0u - SHM_PEND_CNT / 2; /* wrapping is nothing special */
	sp->s = s;
	sp->seg = seg;
	sp->state = &seg->hdr->state;
	sp->addr = seg->addr;
	sp->wake_fd = -1;
	sp->block = SHM_NO_BLOCK;
	sp->begun_gran = SHM_NO_GRAN;
	sp->has_fence = !s->has_membarrier || (seg->peer_flags & SHM_F_FENCE);
	sp->hnext = *bucket;
	*bucket = sp;
	sp->all_next = s->all;
	if (s->all)
		s->all->all_prev = sp;
	s->all = sp;
	*out = sp;
	return 0;
}

/* The one whom we know as @sp and the one who sends are two lives of one port (link_port_attr.nonces_repeat). */
static int other_life(struct shm_peer *sp)
{
	if (shm_seg_is_alive(sp->seg))
		return -ENOENT; /* so it is the sender who is gone, and its segment with it */
	shm_peer_doom(sp, -ECONNREFUSED);
	return -EAGAIN;
}

struct shm_peer *shm_peer_of(struct shm_port *s, const struct link_addr *addr, uint32_t life, int *err)
{
	struct shm_peer *sp = peer_find(s, addr);
	struct shm_seg *seg;

	if (likely(sp && sp->seg->wake == life))
		return sp;
	*err = sp ? other_life(sp) : 0;
	if (*err)
		return NULL;
	shm_told_look(s);
	*err = addr->nonce ? shm_seg_attach(addr, shm_port_flags(s), &seg) : -ENOENT;
	if (*err)
		return NULL;
	*err = seg->wake == life ? peer_make(s, seg, &sp) : -ENOENT;
	if (*err) {
		shm_seg_put(seg);
		return NULL;
	}
	return sp;
}

struct link_peer *shm_peer_link(struct shm_peer *sp)
{
	struct link_node *n = sp->s->p->node;
	struct link_peer *peer = sp->peer;

	if (peer)
		return peer;
	peer = port_peer_in(sp->s->p, &sp->addr);
	if (peer)
		peer->is_near = n->lossless;
	/* Two incarnations of one place cannot both live: the older one's end has not been noticed yet. */
	if (peer && peer->shm && !peer->addr.nonce && peer->shm->addr.nonce != sp->addr.nonce) {
		shm_peer_doom(peer->shm, -ECONNREFUSED);
		if (sp->s->p->ops->on_gone)
			return NULL; /* which the owner hears before anything of the new one */
	}
	/* Ours take another way to the place of this one, who is the later one of the two if it lives. */
	if (peer && n->lossless && peer->shm_tried && peer->port->up->is_other(peer, sp->addr.nonce) &&
	    shm_seg_is_alive(sp->seg))
		peer->port->up->renew(peer);
	/* Its owner will want to answer the same way; unless it has already chosen another one, for
	 * good. */
	if (peer && n->lossless && !peer->shm_tried && !peer->dead) {
		peer->shm_tried = true;
		peer->shm = sp;
		sp->peer = peer;
		sp->is_attached = true;
		if (++n->local_cnt >= n->cpu_cnt)
			idle_crowd(n);
	}
	return peer;
}

/* May the owner of @seg, known as @sp or NULL, be unable to map our segment? Then frames would lie in the lane, unread.
 */
static bool is_tight(const struct shm_seg *seg, const struct shm_peer *sp)
{
	/* relaxed: a hint; who is too late for it is told by the lane (SHM_D_UNSEEN) */
	int32_t room = atomic_load_explicit(&seg->hdr->room, memory_order_relaxed);

	if (seg->owner_pid || (sp && sp->rx_cnt))
		return false;
	/* the limit may have been lowered since, which its owner notices later */
	return room < 0 || (room && !shm_proc_may_open(&seg->proc, room));
}

int shm_peer_attach(struct shm_port *s, struct link_peer *peer, struct shm_peer **out)
{
	struct shm_seg *seg;
	struct shm_peer *sp, *first;
	int rc;

	shm_told_look(s); /* of an earlier life, not of this one */
	/* Also when we know this address already: it tells whether the peer still lives. */
	rc = shm_seg_attach(&peer->addr, shm_port_flags(s), &seg);
	if (rc)
		return rc;
	first = sp = peer_find(s, &seg->addr);
	if (sp && sp->seg->wake != seg->wake) { /* an earlier life of it, whom its lane has made known */
		shm_peer_doom(sp, -ECONNREFUSED);
		first = sp = NULL;
	}
	if (!s->p->net_off && is_tight(seg, sp)) {
		shm_seg_put(seg);
		return -ENOMEM;
	}
	if (sp && !sp->is_attached) {
		shm_seg_put(seg);
	} else {
		rc = peer_make(s, seg, &sp);
		if (rc) {
			shm_seg_put(seg);
			return rc;
		}
		sp->is_second = first != NULL;
	}
	sp->is_attached = true;
	sp->link_addr = peer->addr;
	/* Datagram peers are not kept alive by us: look them up when they matter. */
	sp->peer = s->p->node->lossless ? peer : NULL;
	*out = sp;
	return 0;
}

/* --- what the layers above ask about a peer --- */

pid_t shm_peer_pid(const struct shm_peer *sp)
{
	return sp->seg->peer_pid;
}

uint32_t shm_peer_nonce(const struct shm_peer *sp)
{
	return sp->addr.nonce;
}

bool shm_peer_is_void(const struct shm_peer *sp)
{
	return sp->is_void;
}

bool shm_peer_has_closed(const struct shm_peer *sp)
{
	return shm_has_closed(sp);
}

bool shm_peer_is_unseen(const struct shm_peer *sp)
{
	return sp->is_unseen;
}

uint64_t shm_peer_label(const struct shm_peer *sp)
{
	return atomic_load_explicit(&sp->seg->hdr->label, memory_order_relaxed);
}

uint32_t shm_peer_serves(const struct shm_peer *sp)
{
	/* relaxed: with a lease, after its fence, see bulk_tab.c */
	return atomic_load_explicit(&sp->seg->hdr->serves, memory_order_relaxed);
}

void shm_peer_tell(const struct shm_peer *sp, struct live_path *out)
{
	out->name = "shm";
	out->sent = sp->tx.pos;
	out->waiting = sp->tx.pos - sp->acked;
}

uint64_t shm_peer_node(const struct shm_peer *sp)
{
	return sp->seg->peer_node;
}

bool shm_peer_cma_ok(struct shm_peer *sp)
{
	struct link_addr got = {0};
	struct iovec local = {&got, sizeof(got)};
	struct iovec remote = {
		(void *)(uintptr_t)(sp->seg->peer_self_addr + offsetof(struct shm_hdr, addr)),
		sizeof(got)};
	ssize_t n;

	if (sp->cma != SHM_CMA_UNKNOWN)
		return sp->cma == SHM_CMA_OK;
	n = process_vm_readv(sp->seg->peer_pid, &local, 1, &remote, 1, 0);
	/* The nonce makes sure that the pid means this process, also across pid namespaces. */
	if (n == (ssize_t)sizeof(got) && memcmp(&got, &sp->addr, sizeof(got)) == 0) {
		sp->cma = SHM_CMA_OK;
		return true;
	}
	sp->cma = SHM_CMA_OFF;
	LOG_INFO("no copies between address spaces with pid %d (%s): large transfers go through "
		 "shared memory",
		 (int)sp->seg->peer_pid, n < 0 ? strerror(errno) : "it is another process");
	return false;
}

bool shm_peer_is_polling(struct shm_peer *sp)
{
	uint64_t now = clk_now_ns(&sp->s->p->node->clk), gap = now - sp->look_ns;
	uint32_t epoch, rx_pos = sp->rx ? lane_rx_pos(&sp->rx->lane) : 0;
	bool is_fresh;

	if (sp->look_ns && gap < POLLING_FRESH_NS)
		return sp->was_polling;
	epoch = atomic_load_explicit(&sp->seg->hdr->epoch, memory_order_relaxed);
	/* A look that is too old tells that it polled once since, not that it does now: what it has
	 * sent since does, or else the last answer is kept, and asked for again soon. Who posts a
	 * long burst does not poll, and will soon. */
	is_fresh = sp->look_ns && gap < POLLING_OLD_NS;
	if (rx_pos != sp->look_rx_pos || (is_fresh && epoch != sp->look_epoch))
		sp->moved_ns = now;
	if (is_fresh || sp->moved_ns == now)
		sp->was_polling = now - sp->moved_ns < POLLING_GRACE_NS;
	sp->look_rx_pos = rx_pos;
	sp->look_epoch = epoch;
	sp->look_ns = now;
	return sp->was_polling;
}
