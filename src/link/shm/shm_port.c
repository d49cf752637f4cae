// SPDX-License-Identifier: BSD-2-Clause
// Ports of the same-host path: opened, looked after in time, closed; and how their peers end.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TICK_NS		 (50 * NS_PER_MS)
#define STALL_NS	 (100 * NS_PER_MS) /* nothing acknowledged for so long: is the owner alive? */
#define LANE_IDLE_NS	 NS_PER_SEC
#define LOCK_STUCK_NS	 (100 * NS_PER_MS)
#define LIVE_LOOKS	 2   /* liveness looks at idle peers per tick */
#define DOOM_WAIT_MAX	 256 /* polls in which a dead peer's last frames may still be taken */
#define GAP_SHARE	 4 /* a pause of ours counts as silence of others up to this part of dead_after */

int shm_port_open(struct link_port *p, struct shm_port **out)
{
	struct shm_port *s = mem_alloc(sizeof(*s));
	struct shm_seg_attr attr = {.addr = p->self, .serves = p->serves, .budget = p->node->room->shm_budget};
	int rc;

	if (!s)
		return -ENOMEM;
	s->p = p;
	s->wake_fd = -1;
	s->look_after = 8;
	s->desc_ready = 4096 / sizeof(struct shm_desc);
	s->has_membarrier = shm_wake_has_membarrier();
	attr.flags = shm_port_flags(s);
	attr.node_id = p->node->bulk_id;
	rc = shm_seg_create(&attr, &s->seg);
	if (rc) {
		mem_free(s);
		return rc;
	}
	s->hdr = s->seg->hdr;
	s->shared_cnt = 1;
	for (uint32_t k = 0; k < SHM_SHARED_CNT; k++)
		lane_rx_init(&s->shared[k], shm_shared_at(s->seg, k), shm_shared_slots(s->seg, k), SHM_FMT_NIC);
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

void shm_port_set_serves(struct shm_port *s, uint32_t serves)
{
	/* relaxed: who shuts it fences before looking for leases (bulk_port_shut()), else it may be seen late */
	atomic_store_explicit(&s->seg->hdr->serves, serves, memory_order_relaxed);
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

/* --- the end of peers --- */

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
		s->has_ready &= s->busy != NULL; /* else it stays: only a pass with busy peers takes it back */
	}
	if (s->last == sp)
		s->last = NULL;
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

/* All frames of @sp end; then the lane goes, whose slots hold what is shown of the kept ones. */
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

/*
 * Outside of a poll also lanes count that nobody has looked at yet, and what lies in a shared one, whoever put it
 * there.
 */
static bool may_have_unread(struct shm_peer *sp)
{
	struct shm_port *s = sp->s;
	uint32_t wait = sp->doom_wait;
	bool found = has_unread(sp);

	sp->doom_wait = wait; /* polls are counted, not looks */
	for (uint32_t k = 0; k < s->shared_cnt && !found; k++)
		found = lane_has(&s->shared[k]); /* as has_work() of shm_wake.c */
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

/* --- the end of a port --- */

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

/*
 * Whoever holds a shared lane may have died, or stand still: then another one is tried, and after all of them for long
 * enough none.
 */
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

/* Has @sp sent anything since the last time that was asked? */
static bool was_used(struct shm_peer *sp)
{
	uint32_t pos = sp->rx ? lane_rx_pos(&sp->rx->lane) : 0;
	bool was_used = sp->was_used || pos != sp->used_pos;

	sp->was_used = false;
	sp->used_pos = pos;
	return was_used;
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
		if (was_used(sp))
			continue;
		looks++;
		if (!shm_seg_is_alive(sp->seg))
			shm_peer_doom(sp, -ECONNREFUSED);
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
 * Nobody has looked for a while. We may have been stopped, perhaps with all others, who had no chance to be heard then:
 * little of it counts as theirs. Some does, for a program that polls rarely.
 */
static void tick_gap(struct shm_port *s, uint64_t now)
{
	uint64_t most = MAX(s->p->node->room->dead_after_ns / GAP_SHARE, 2 * TICK_NS);
	uint64_t gap = s->ticked_ns ? now - s->ticked_ns : 0;

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
