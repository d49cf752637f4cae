// SPDX-License-Identifier: BSD-2-Clause
// Lanes that we read: new senders in our segment, and those that leave.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>

#define UNSEEN_NS (2 * NS_PER_SEC) /* a sender waits so long for us to have room for its segment */

bool shm_is_hopeless(struct shm_port *s, uint64_t *since_ns)
{
	uint64_t now = clk_now_ns(&s->p->node->clk);

	if (!*since_ns)
		*since_ns = now;
	return now - *since_ns >= UNSEEN_NS;
}

static void set_bitmap_mode(struct shm_port *s)
{
	/* relaxed: senders that see it late are found by the full sweep */
	if (s->rx_cnt > SHM_SWEEP_MAX)
		atomic_fetch_or_explicit(&s->seg->hdr->state, SHM_ST_BITMAP, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&s->seg->hdr->state, ~SHM_ST_BITMAP,
					  memory_order_relaxed);
}

/* Return: 0; -ENOENT the sender is gone or wrote nonsense; -errno not now. */
static int rx_attach(struct shm_port *s, uint32_t idx)
{
	struct shm_desc d; /* a copy: checked, then used */
	struct shm_peer *sp;
	struct shm_rx *rx;
	void *mem = shm_lane_at(s->seg, idx);
	int rc;

	memcpy(&d, (const void *)shm_desc_at(s->seg, idx), sizeof(d));
	if ((d.slot_cnt != SHM_SLOTS_BIG && d.slot_cnt != SHM_SLOTS_SMALL) ||
	    d.color - 1 >= SHM_COLOR_NUM) {
		s->p->stats.drop_malformed++;
		return -ENOENT;
	}
	sp = shm_peer_of(s, &d.src, d.life, &rc);
	if (!sp) {
		s->p->stats.drop_source += rc == -ENOENT;
		return rc;
	}
	/* A lane of its next life: all that is under way between us has to end first. */
	if (!sp->doom && shm_is_revoked(sp))
		shm_revoked_doom(sp);
	if (sp->doom && !shm_has_closed(sp)) /* a port that has closed has no next life: these are its last frames */
		return -EAGAIN;
	rc = shm_seg_reserve(s->seg, SHM_LANE_OFF + (size_t)idx * SHM_LANE_STRIDE,
			     SHM_LANE_BYTES(d.slot_cnt));
	if (rc)
		return rc;
	rx = mem_alloc(sizeof(*rx));
	if (!rx)
		return -ENOMEM;
	lane_rx_init(&rx->lane, mem, d.slot_cnt, SHM_FMT_NIC);
	rx->codes = shm_codes_at(mem, d.slot_cnt);
	rx->idx = idx;
	rx->color = (uint32_t)FIELD_PREP(SHM_U_COLOR, d.color);
	rx->sp = sp;
	sp->rx_cnt++;
	if (!d.is_second)
		sp->rx = rx;
	s->rx_by_idx[idx] = rx;
	s->rx[s->rx_cnt++] = rx;
	s->pending[idx / 64] |= BIT(idx % 64);
	set_bitmap_mode(s);
	return 0;
}

/* Its sender writes no more there. */
static void rx_closing(struct shm_port *s, struct shm_rx *rx)
{
	if (!rx->sp) {
		shm_limbo_free(s, rx);
		return;
	}
	rx->is_closing = true;
	if (rx->sp->rx == rx)
		rx->sp->rx = NULL; /* nobody waits for acknowledgements of it, and its color may be another one's */
}

/* We do not get the segment of its sender mapped, who waits for us to read the lane. */
static int revoke_unseen(struct shm_port *s, uint32_t idx)
{
	uint32_t was = SHM_D_REVOKED;
	int rc = shm_revoke(s, idx, NULL, NULL);

	if (rc)
		return rc;
	LOG_WARN("%s: no memory, address space or descriptors for the segment of a sender: its frames are not taken",
		 s->seg->path);
	atomic_compare_exchange_strong_explicit(&shm_desc_at(s->seg, idx)->state, &was, SHM_D_UNSEEN,
						memory_order_release, memory_order_relaxed);
	return 0;
}

static void desc_look(struct shm_port *s, uint32_t idx, bool *is_wanting)
{
	/* acquire; pairs with shm_desc_change() */
	uint32_t state =
		atomic_load_explicit(&shm_desc_at(s->seg, idx)->state, memory_order_acquire);
	struct shm_rx *rx = s->rx_by_idx[idx];
	int rc = 0;

	if (state != SHM_D_ACTIVE && state != SHM_D_CLOSING)
		return;
	if (!rx) {
		rc = rx_attach(s, idx);
		if (rc == -ENOENT)
			rc = shm_revoke(s, idx, NULL, NULL);
		else if (rc && rc != -EAGAIN && shm_is_hopeless(s, &s->want_ns))
			rc = revoke_unseen(s, idx);
		*is_wanting |= rc && rc != -EAGAIN;
		rx = s->rx_by_idx[idx];
	}
	if (rc)
		s->has_rescan = true;
	else if (rx && state == SHM_D_CLOSING)
		rx_closing(s, rx);
}

/* Is a further shared lane in use? */
static void shared_look(struct shm_port *s)
{
	/* relaxed: ordered by lane_gen, which moves after it. Clamped: others write it. */
	uint32_t top = atomic_load_explicit(&s->seg->hdr->shared_top, memory_order_relaxed);

	s->shared_cnt = 1 + MIN(top, SHM_SHARED_CNT - 1);
	if (s->shared_cnt > 1)
		s->shared_due |= SHM_DUE_MORE;
}

__attribute__((noinline)) void shm_lane_refresh(struct shm_port *s)
{
	bool is_wanting = false;
	uint32_t hwm;

	/* acquire; pairs with shm_desc_change(). Read first: a change after it brings us here again. */
	s->gen_seen = atomic_load_explicit(&s->seg->hdr->lane_gen, memory_order_acquire);
	s->has_rescan = false;
	shm_told_look(s);
	shared_look(s);
	hwm = shm_desc_hwm(s->seg);
	if (hwm > s->desc_ready) {
		if (shm_seg_reserve(s->seg, SHM_DESC_OFF,
				    ALIGN_UP(hwm * sizeof(struct shm_desc), (size_t)4096)))
			hwm = s->desc_ready;
		s->desc_ready = hwm;
	}
	for (uint32_t i = 0; i < hwm; i++)
		desc_look(s, i, &is_wanting);
	if (!is_wanting)
		s->want_ns = 0;
}

bool shm_lane_is_unseen(struct shm_port *s, const struct shm_peer *sp)
{
	uint32_t hwm = shm_desc_hwm(s->seg);

	for (uint32_t i = 0; i < hwm && i < s->desc_ready; i++) {
		const struct shm_desc *d = shm_desc_at(s->seg, i);
		/* acquire; pairs with shm_desc_change() */
		uint32_t state = atomic_load_explicit(&d->state, memory_order_acquire);
		struct link_addr who = d->src;

		if (!s->rx_by_idx[i] && (state == SHM_D_ACTIVE || state == SHM_D_CLOSING) && d->life == sp->seg->wake &&
		    !memcmp(&who, &sp->addr, sizeof(who)))
			return true;
	}
	return hwm > s->desc_ready;
}

void shm_lane_free_rx(struct shm_port *s, struct shm_rx *rx)
{
	struct shm_peer *sp = rx->sp;
	uint32_t i = 0;

	while (s->rx[i] != rx)
		i++;
	s->rx[i] = s->rx[--s->rx_cnt];
	s->rx_last = 0;
	s->pending[rx->idx / 64] &= ~BIT(rx->idx % 64);
	if (sp->rx == rx)
		sp->rx = NULL;
	if (--sp->rx_cnt == 0 && !sp->is_attached) {
		sp->is_zombie = true;
		s->ends |= SHM_ENDS_ZOMBIE;
	}
	set_bitmap_mode(s);
	shm_revoke(s, rx->idx, rx, shm_seg_get(sp->seg));
}
