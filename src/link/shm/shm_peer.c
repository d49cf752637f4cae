// SPDX-License-Identifier: BSD-2-Clause
// Ports and peers of the same-host path: open, attach, die, and what the bulk service asks about a
// peer.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TICK_NS		 (50 * NS_PER_MS)
#define STALL_NS	 (100 * NS_PER_MS) /* nothing acknowledged for so long: is the owner alive? */
#define LANE_IDLE_NS	 NS_PER_SEC
#define LOCK_STUCK_NS	 (100 * NS_PER_MS)
#define UNSEEN_NS	 (2 * NS_PER_SEC) /* a sender waits so long for us to have room for its segment */
#define LIVE_LOOKS	 2   /* liveness looks at idle peers per tick */
#define DOOM_WAIT_MAX	 256 /* polls in which a dead peer's last frames may still be taken */
#define GAP_SHARE	 4 /* a pause of ours counts as silence of others up to this part of dead_after */
#define POLLING_OLD_NS	 NS_PER_MS
#define POLLING_FRESH_NS (20 * NS_PER_US) /* to look takes the line from its owner */
#define POLLING_GRACE_NS (50 * NS_PER_US) /* it posts, or copies, between two polls */

static uint32_t port_flags(const struct shm_port *s)
{
	return (s->p->node->lossless ? SHM_F_LOSSLESS : 0) | (s->has_membarrier ? 0 : SHM_F_FENCE);
}

/* --- ports --- */

int shm_port_open(struct link_port *p, struct shm_port **out)
{
	struct shm_port *s = mem_alloc(sizeof(*s));
	struct shm_seg_attr attr = {.addr = p->self, .budget = p->node->room->shm_budget};
	int rc;

	if (!s)
		return -ENOMEM;
	s->p = p;
	s->wake_fd = -1;
	s->look_after = 8;
	s->desc_ready = 4096 / sizeof(struct shm_desc);
	s->has_membarrier = shm_wake_has_membarrier();
	attr.flags = port_flags(s);
	attr.node_id = p->node->bulk_id;
	rc = shm_seg_create(&attr, &s->seg);
	if (rc) {
		mem_free(s);
		return rc;
	}
	s->shared_cnt = 1;
	for (uint32_t k = 0; k < SHM_SHARED_CNT; k++)
		lane_rx_init(&s->shared[k], shm_shared_at(s->seg, k), shm_shared_slots(s->seg, k));
	STAILQ_INIT(&s->limbo);
	STAILQ_INIT(&s->held);
	*out = s;
	return 0;
}

void shm_port_set_nonce(struct shm_port *s, uint32_t nonce)
{
	s->seg->addr.nonce = nonce;
	s->seg->hdr->addr.nonce = nonce; /* Whoever looks for it before that comes too early. */
}

void shm_port_set_label(struct shm_port *s, uint64_t label)
{
	atomic_store_explicit(&s->seg->hdr->label, label, memory_order_relaxed);
}

int shm_port_stage(struct shm_port *s)
{
	struct shm_space space = shm_space_get(s->p->node->room->shm_budget);
	uint32_t grans = shm_space_stage_grans(&space);
	int rc;

	while (grans > SHM_STAGE_GRANS_MIN &&
	       shm_seg_reserve(s->seg, SHM_STAGE_OFF, stage_shm_size(grans)))
		grans = MAX(grans / 4, SHM_STAGE_GRANS_MIN);
	rc = stage_init(&s->stage, s->seg->base + SHM_STAGE_OFF, grans);
	if (rc)
		return rc;
	s->has_stage = true;
	/* release: the memory is there; pairs with the acquire of a receiver's first staged frame */
	atomic_store_explicit(&s->seg->hdr->stage_grans, grans, memory_order_release);
	return 0;
}

static void peer_free(struct shm_peer *sp)
{
	struct shm_port *s = sp->s;
	struct shm_peer **pp = &s->tab[shm_tag(sp->addr.ip, sp->addr.port) % SHM_HASH];

	while (*pp != sp)
		pp = &(*pp)->hnext;
	*pp = sp->hnext;
	if (sp->is_busy) {
		for (pp = &s->busy; *pp != sp; pp = &(*pp)->busy_next)
			;
		*pp = sp->busy_next;
	}
	if (sp->all_next)
		sp->all_next->all_prev = sp->all_prev;
	if (sp->all_prev)
		sp->all_prev->all_next = sp->all_next;
	else
		s->all = sp->all_next;
	if (sp->wake_fd >= 0)
		close(sp->wake_fd);
	shm_stage_unbegin(sp);
	shm_seg_put(sp->seg);
	mem_free(sp->pend);
	mem_free(sp);
}

static __attribute__((noinline)) void reap(struct shm_port *s)
{
	if (s->ends & SHM_ENDS_GONE) {
		s->ends &= ~(unsigned)SHM_ENDS_GONE;
		for (uint32_t i = 0; i < s->rx_cnt;)
			if (s->rx[i]->is_gone)
				shm_lane_free_rx(s, s->rx[i]);
			else
				i++;
	}
	if (s->ends & SHM_ENDS_ZOMBIE) {
		struct shm_peer *next;

		s->ends &= ~(unsigned)SHM_ENDS_ZOMBIE;
		for (struct shm_peer *sp = s->all; sp; sp = next) {
			next = sp->all_next;
			if (sp->is_zombie)
				peer_free(sp);
		}
	}
}

/* In a forked child: free what is private, touch nothing that the parent shares with others. */
static void forget_shared(struct shm_port *s)
{
	for (struct shm_peer *sp = s->all; sp; sp = sp->all_next) {
		sp->tx_mode = SHM_TX_NONE;
		sp->pend_tail = sp->pend_head;
	}
	for (uint32_t i = 0; i < s->rx_cnt; i++)
		mem_free(s->rx[i]);
	s->rx_cnt = 0;
}

void shm_port_hide(struct shm_port *s)
{
	shm_seg_hide(s->seg);
}

void shm_port_close(struct shm_port *s)
{
	if (!s)
		return;
	if (s->seg->owner_pid != getpid())
		forget_shared(s);
	s->in_poll++; /* so that nothing is freed while we use it */
	for (struct shm_peer *sp = s->all; sp; sp = sp->all_next)
		if (!sp->is_zombie)
			shm_peer_detach(sp);
	for (uint32_t i = 0; i < s->rx_cnt; i++) {
		lane_publish(&s->rx[i]->lane);
		mem_free(s->rx[i]);
	}
	while (s->all)
		peer_free(s->all);
	shm_gone_fini(s);
	shm_seg_remove(s->seg);
	shm_seg_put(s->seg);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	if (s->has_stage)
		stage_fini(&s->stage);
	mem_free(s);
}

/* --- peers --- */

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
	*err = addr->nonce ? shm_seg_attach(addr, port_flags(s), &seg) : -ENOENT;
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
	/* Two incarnations of one place cannot both live: the older one's end has not been noticed yet. */
	if (peer && peer->shm && !peer->addr.nonce && peer->shm->addr.nonce != sp->addr.nonce) {
		shm_peer_doom(peer->shm, -ECONNREFUSED);
		if (sp->s->p->ops->on_gone)
			return NULL; /* which the owner hears before anything of the new one */
	}
	/* Ours take another way to the place of this one, who is the later one of the two if it lives. */
	if (peer && n->lossless && peer->shm_tried && peer->port->up->is_other(peer, sp->addr.nonce) && shm_seg_is_alive(sp->seg))
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
	rc = shm_seg_attach(&peer->addr, port_flags(s), &seg);
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

/* All frames of @sp end; then the lane goes, whose slots hold what is shown of the direct ones. */
static void end_frames(struct shm_peer *sp, int status)
{
	enum shm_tx_mode mode = sp->tx_mode;
	struct shm_held *held = shm_hold(sp);

	sp->tx_mode = SHM_TX_NONE; /* nothing more through it */
	shm_complete(sp, status);
	sp->tx_mode = mode;
	/* not before: the owner is shown long frames out of their runs, and may send meanwhile */
	shm_hold_end(sp->s, held);
	shm_lane_give_back(sp);
}

static void make_zombie(struct shm_peer *sp)
{
	sp->is_zombie = true;
	sp->s->ends |= SHM_ENDS_ZOMBIE;
}

void shm_peer_detach(struct shm_peer *sp)
{
	struct shm_port *s;
	struct link_peer *peer;
	int status;

	if (!sp)
		return;
	s = sp->s;
	peer = sp->peer;
	status = peer && peer->dead ? peer->dead : -ECANCELED;
	s->in_poll++;
	shm_read_acked(sp);
	sp->is_detaching = true; /* callbacks may try to send */
	end_frames(sp, status);
	shm_block_put(sp);
	sp->is_detaching = false;
	sp->doom = 0;
	if (peer && peer->shm == sp) {
		peer->shm = NULL;
		s->p->node->local_cnt--;
	}
	sp->peer = NULL;
	sp->is_attached = false;
	if (peer && peer->dead)
		shm_revoke_all(sp);
	if (!sp->rx_cnt)
		make_zombie(sp);
	if (--s->in_poll == 0)
		reap(s);
}

bool shm_is_hopeless(struct shm_port *s, uint64_t *since_ns)
{
	uint64_t now = clk_now_ns(&s->p->node->clk);

	if (!*since_ns)
		*since_ns = now;
	return now - *since_ns >= UNSEEN_NS;
}

void shm_peer_doom(struct shm_peer *sp, int status)
{
	if (!sp->doom)
		sp->doom = status;
	sp->s->ends |= SHM_ENDS_DOOM;
}

/* May its last frames still be on their way to our owner? */
static bool has_unread(struct shm_peer *sp)
{
	struct shm_port *s = sp->s;
	uint32_t cap;
	uint64_t user;

	for (uint32_t i = 0; i < s->rx_cnt; i++)
		if (s->rx[i]->sp == sp && !s->rx[i]->is_gone && lane_peek(&s->rx[i]->lane, &cap, &user))
			return ++sp->doom_wait < DOOM_WAIT_MAX;
	return false;
}

static void doom_one(struct shm_peer *sp)
{
	struct link_port *p = sp->s->p;
	struct link_peer *peer = sp->peer;
	int status = sp->doom;
	bool is_told;

	sp->doom = 0;
	shm_revoke_all(sp);
	if (!sp->is_attached) {
		if (!sp->rx_cnt)
			make_zombie(sp);
		return;
	}
	is_told = p->cls != LINK_RAW || p->ops->on_gone;
	if (!peer && is_told)
		peer = port_peer_find(p, &sp->link_addr);
	/* RAW frames may get lost. */
	if (!is_told || !peer) {
		sp->is_void = true;
		if (!sp->peer) { /* its holder lets go of it when it likes */
			end_frames(sp, status);
			return;
		}
		sp->peer->shm_tried = false;
		shm_peer_detach(sp);
		return;
	}
	p->up->dead(peer, status); /* ends in shm_peer_detach() */
}

/* Outside of a poll also lanes count that nobody has looked at yet, and what lies in a shared one, whoever put it there. */
static bool may_have_unread(struct shm_peer *sp)
{
	struct shm_port *s = sp->s;
	uint32_t cap, wait = sp->doom_wait;
	uint64_t user;
	bool found = has_unread(sp);

	sp->doom_wait = wait; /* polls are counted, not looks */
	for (uint32_t k = 0; k < s->shared_cnt && !found; k++)
		found = lane_peek(&s->shared[k], &cap, &user);
	return found || shm_lane_is_unseen(s, sp);
}

bool shm_peer_expire(struct shm_peer *sp)
{
	if (sp->is_zombie || sp->is_void || shm_seg_is_alive(sp->seg))
		return false;
	shm_peer_doom(sp, -ECONNREFUSED);
	if (!may_have_unread(sp))
		doom_one(sp);
	return true;
}

static void run_doom(struct shm_port *s)
{
	struct shm_peer *next;

	s->ends &= ~(unsigned)SHM_ENDS_DOOM; /* callbacks may doom others, behind us in the list */
	for (struct shm_peer *sp = s->all; sp; sp = next) {
		next = sp->all_next; /* nothing is freed inside a poll */
		if (!sp->doom || sp->is_zombie || sp->is_void)
			continue;
		if (has_unread(sp))
			s->ends |= SHM_ENDS_DOOM;
		else
			doom_one(sp);
	}
	if (s->has_rescan)
		s->gen_seen--; /* a lane of the next life of one of them may wait */
}

__attribute__((noinline)) void shm_peer_ends(struct shm_port *s)
{
	if (s->ends & SHM_ENDS_DOOM)
		run_doom(s);
	if (--s->in_poll == 0)
		reap(s);
}

/* --- timer --- */

/* Frames are out there and nothing comes back. */
static void tick_stalled(struct shm_peer *sp, uint64_t now)
{
	uint32_t epoch = atomic_load_explicit(&sp->seg->hdr->epoch, memory_order_relaxed);

	if (!sp->stall_ns || sp->acked != sp->tick_acked) {
		sp->stall_ns = sp->silent_ns = now;
		sp->tick_acked = sp->acked;
	}
	if (epoch != sp->tick_epoch) {
		sp->tick_epoch = epoch;
		sp->silent_ns = now;
	}
	if (now - sp->stall_ns < STALL_NS)
		return;
	if (!shm_seg_is_alive(sp->seg))
		shm_peer_doom(sp, -ECONNREFUSED);
	else if (now - sp->silent_ns >= sp->s->p->node->room->dead_after_ns)
		shm_peer_doom(sp, -ETIMEDOUT);
}

static void tick_idle(struct shm_peer *sp, uint64_t now)
{
	sp->stall_ns = 0;
	if (!sp->idle_ns || sp->tx.pos != sp->tick_pos) {
		sp->idle_ns = now;
		sp->tick_pos = sp->tx.pos;
	}
	if (sp->tx_mode == SHM_TX_OWN && now - sp->idle_ns >= LANE_IDLE_NS &&
	    sp->pend_head == sp->pend_tail &&
	    atomic_load_explicit(&sp->seg->hdr->lanes_wanted, memory_order_relaxed))
		shm_lane_give_back(sp);
}

/* Whoever holds a shared lane may have died, or stand still: then another one is tried, and after all of them for long enough none. */
static void tick_lock(struct shm_peer *sp, uint64_t now)
{
	if (!sp->is_lock_stuck) {
		sp->lock_ns = sp->shut_ns = 0;
		return;
	}
	if (!sp->was_shut || !sp->shut_ns) /* nobody wants to send any more, or the first try */
		sp->shut_ns = now;
	sp->was_shut = false;
	if (!sp->lock_ns)
		sp->lock_ns = now;
	if (now - sp->lock_ns >= LOCK_STUCK_NS && !sp->is_moving) {
		shm_shared_unstick(sp);
		sp->lock_ns = now;
	}
	if (now - sp->shut_ns < sp->s->p->node->room->dead_after_ns)
		return;
	LOG_WARN("%s: processes that stand still hold all its shared lanes", sp->seg->path);
	shm_peer_doom(sp, -ETIMEDOUT);
}

static void tick_peer(struct shm_peer *sp, uint64_t now)
{
	bool is_waiting;
	uint32_t state = atomic_load_explicit(&sp->seg->hdr->state, memory_order_acquire);

	tick_lock(sp, now);
	is_waiting = sp->is_blocked || shm_tx_in_flight(sp);
	sp->is_blocked = false; /* until the next try */
	if (shm_tx_in_flight(sp)) {
		shm_read_acked(sp);
		if (shm_has_done(sp))
			sp->s->has_ready = true;
	}
	if (state & SHM_ST_CLOSED)
		shm_peer_doom(sp, -ECONNREFUSED);
	else if ((state & SHM_ST_BROKEN) && sp->tx_mode == SHM_TX_SHARED && is_waiting)
		shm_peer_doom(sp, -EPROTO);
	else if (is_waiting)
		tick_stalled(sp, now);
	else
		tick_idle(sp, now);
}

/* Peers of whom we want nothing can die unnoticed, and their memory with them. Look at a few in
 * turn. */
static void look_at_idle(struct shm_port *s)
{
	uint32_t i = 0, looks = 0;

	for (struct shm_peer *sp = s->all; sp && looks < LIVE_LOOKS; sp = sp->all_next) {
		if (i++ < s->live_skip)
			continue;
		s->live_skip++;
		if (sp->is_zombie || sp->is_void || sp->doom)
			continue;
		if (!sp->was_used) {
			looks++;
			if (!shm_seg_is_alive(sp->seg))
				shm_peer_doom(sp, -ECONNREFUSED);
		}
		sp->was_used = false;
	}
	if (looks < LIVE_LOOKS)
		s->live_skip = 0;
}

static void clock_shift(uint64_t *since_ns, uint64_t by)
{
	if (*since_ns)
		*since_ns += by;
}

/*
 * Nobody has looked for a while. We may have been stopped, perhaps with all others, who had no chance to be heard then: little of
 * it counts as theirs. Some does, for a program that polls rarely.
 */
static void tick_gap(struct shm_port *s, uint64_t now)
{
	uint64_t most = MAX(s->p->node->room->dead_after_ns / GAP_SHARE, 2 * TICK_NS), gap = s->ticked_ns ? now - s->ticked_ns : 0;

	s->ticked_ns = now;
	for (struct shm_peer *sp = gap > most ? s->all : NULL; sp; sp = sp->all_next) {
		clock_shift(&sp->stall_ns, gap - most);
		clock_shift(&sp->silent_ns, gap - most);
		clock_shift(&sp->lock_ns, gap - most);
		clock_shift(&sp->shut_ns, gap - most);
	}
}

__attribute__((noinline)) void shm_timer(struct shm_port *s, uint64_t now_ns)
{
	if (now_ns < s->tick_ns)
		return;
	s->tick_ns = now_ns + TICK_NS;
	tick_gap(s, now_ns);
	s->in_poll++;
	if (s->has_rescan)
		shm_lane_refresh(s);
	shm_revoked_look(s);
	shm_gone_tick(s);
	for (struct shm_peer *sp = s->all; sp; sp = sp->all_next)
		if (!sp->is_zombie && !sp->is_void)
			tick_peer(sp, now_ns);
	look_at_idle(s);
	shm_seg_tell_room();
	shm_peer_ends(s);
}

uint64_t shm_next_deadline(struct shm_port *s)
{
	if (s->ends & SHM_ENDS_DOOM || s->has_ready)
		return 0;
	for (struct shm_peer *sp = s->all; sp; sp = sp->all_next)
		if (shm_tx_in_flight(sp) || sp->is_lock_stuck || sp->is_blocked)
			return s->tick_ns;
	return CLK_NEVER;
}

/* --- for the bulk service
 * --------------------------------------------------------------------------------------- */

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

uint32_t shm_outstanding(const struct shm_port *s)
{
	return s->outstanding;
}

uint32_t shm_untaken(struct shm_port *s)
{
	uint32_t cnt = 0;

	for (struct shm_peer *sp = s->all; sp; sp = sp->all_next) {
		if (sp->is_void || sp->is_zombie || sp->doom || !shm_tx_in_flight(sp))
			continue;
		shm_read_acked(sp);
		if (shm_has_done(sp))
			s->has_ready = true;
		/* relaxed: who sees it late asks once more */
		cnt += shm_tx_in_flight(sp) && !shm_has_closed(sp);
	}
	return cnt;
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
