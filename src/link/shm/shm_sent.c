// SPDX-License-Identifier: BSD-2-Clause
// How frames end that we sent to ports of this host: taken, refused, or lost with their peer.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>

#define LOOK_STEP 32u /* slots after which a busy poll looks again, see SHM_LOOK_STREAM */

void shm_read_acked(struct shm_peer *sp)
{
	uint32_t head;

	switch (sp->tx_mode) {
	case SHM_TX_NONE:
		break;
	case SHM_TX_OWN:
	case SHM_TX_SHARED:
		/* acquire: codes before the head; pairs with lane_publish(). Others' frames may
		 * follow ours in a shared lane. */
		head = atomic_load_explicit(sp->tx.head, memory_order_acquire);
		if (sp->tx_mode == SHM_TX_SHARED && (int32_t)(head - sp->tx.pos) >= 0)
			sp->acked = sp->tx.pos;
		else
			shm_set_acked(sp, head);
		break;
	}
	sp->look_pos = sp->tx.pos;
}

static int refusal_of(struct shm_peer *sp, uint32_t idx)
{
	_Atomic uint8_t *code = &sp->codes[idx & sp->code_mask];
	/* relaxed: ordered by the acquire that showed us the acknowledgement */
	uint8_t refused = atomic_load_explicit(code, memory_order_relaxed);

	if (likely(!refused))
		return 0;
	atomic_store_explicit(code, 0, memory_order_relaxed);
	if (refused != SHM_CODE_GONE)
		return refused;
	shm_peer_doom(sp, -ETIMEDOUT); /* it has declared us dead */
	return -ETIMEDOUT;
}

/* A kept frame was refused, or ends with its peer. Its slots may be written again after the call only. */
static __attribute__((noinline)) void kept_lost(struct shm_peer *sp, const struct shm_pend *e, int status)
{
	const uint8_t *slot = sp->tx.slots + (size_t)(e->pos & sp->tx.mask) * LANE_SLOT + LANE_WORD0;
	uint8_t frame[LINK_OWN_MAX];

	memcpy(frame, slot, e->kept);
	for (size_t at = LANE_SLOT - LANE_WORD0; at < e->kept; at += LANE_SLOT)
		memcpy(frame + at, &e->word[at / LANE_SLOT], MIN(sizeof(e->word[0]), e->kept - at));
	sp->s->p->up->lost(sp->s->p, sp->peer, e->owner_tag, frame, e->kept, status);
}

/* A staged frame of shm_commit() was refused, or ends with its peer: its run has the bytes. */
static __attribute__((cold, noinline)) void own_lost(struct shm_peer *sp, const struct shm_pend *e, int status)
{
	const uint8_t *frame = sp->s->stage.data + (size_t)e->gran * STAGE_GRAN;

	sp->s->p->up->lost(sp->s->p, sp->peer, e->word[1], frame, e->word[0], status);
}

/*
 * One that is acknowledged (@st: refusal code or 0), or ends with @st. A staged run is free when the peer has taken the
 * frame; else shm_hold() has it.
 */
static void end_one(struct shm_peer *sp, const struct shm_pend *e, bool is_acked, int st)
{
	struct shm_port *s = sp->s;
	void *cookie = e->cookie;
	uint8_t kind = e->kind;

	if (e->kept) {
		kept_lost(sp, e, st);
		sp->pend_head++;
		s->outstanding--;
		return;
	}
	if (unlikely(kind == SHM_K_OWN && st))
		own_lost(sp, e, st);
	if (e->gran != SHM_NO_GRAN) {
		sp->staged_grans -= e->grans;
		if (is_acked)
			stage_free(&s->stage, e->gran);
	}
	sp->pend_head++; /* before the call: it may send, and reuse the entry */
	if (!cookie)
		return;
	s->outstanding--;
	if (kind == SHM_K_OWN)
		return;
	s->has_told = true;
	s->p->up->sent(s->p, (enum link_kind)kind, cookie, st);
}

int shm_complete(struct shm_peer *sp, int status)
{
	uint32_t head = sp->pend_head;

	while (sp->pend_head != sp->pend_tail) {
		const struct shm_pend *e = &sp->pend[sp->pend_head % SHM_PEND_CNT];
		bool is_acked = shm_is_acked(sp, e);
		int st = status;

		if (likely(is_acked)) {
			st = e->kept || e->cookie ? refusal_of(sp, sp->pend_head) : 0;
			if (likely(e->kept && !st)) { /* nobody waits for it */
				sp->pend_head++;
				sp->s->outstanding--;
				continue;
			}
		} else if (!status) {
			break;
		}
		end_one(sp, e, is_acked, st);
	}
	return (int)(sp->pend_head - head);
}

__attribute__((noinline)) int shm_poll_acks(struct shm_port *s, bool is_look)
{
	struct shm_peer *list = s->busy, *sp;
	bool has_found = false;
	int n = 0;

	s->has_ready = s->has_told = false;
	s->busy = NULL; /* callbacks may put peers there */
	while ((sp = list)) {
		uint32_t old = sp->acked;

		list = sp->busy_next;
		sp->is_busy = false;
		if (sp->is_zombie)
			continue;
		if (is_look || (sp->pend_tail - sp->pend_head > SHM_LOOK_STREAM &&
				sp->tx.pos - sp->look_pos >= LOOK_STEP))
			shm_read_acked(sp);
		has_found |= sp->acked != old;
		n += shm_complete(sp, 0);
		if (sp->pend_head != sp->pend_tail && !sp->is_busy)
			shm_busy_add(sp);
	}
	if (is_look && has_found) /* to look sooner pays only if somebody waits for what was found */
		shm_look_adapt(s, s->has_told);
	return n;
}
