// SPDX-License-Identifier: BSD-2-Clause
// Frames to ports of this host: out through lanes. shm_poll.c takes them in, shm_sent.c ends them.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"

#define LANE_RETRY_NS (200 * NS_PER_MS)
#define ROW_SLOTS     8u /* so many that the peer has not taken are a row */

/* What one send is about. */
struct out {
	const void *hdr;
	size_t hdr_len;
	const struct iovec *iov;
	int iov_cnt;
	size_t len; /* of it all, bytes */
	enum shm_fmt fmt;
	enum link_kind kind;
	void *cookie;
};

/* --- out --- */

/* Something has been published for @sp: does it want to be told? */
static inline void ring_if_wanted(struct shm_peer *sp)
{
	uint32_t state;

	/* S1 before S2, see shm_wake.c */
	if (unlikely(sp->has_fence))
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	state = atomic_load_explicit(sp->state, memory_order_relaxed);
	if (unlikely(state))
		shm_ring(sp, state);
}

/*
 * A frame of @nslots slots has been published in our own lane. In a row of them the lines of those to come are fetched,
 * from @ahead slots on, while their sender makes them: the peer has read them a lap ago, and without that each write
 * waits for its line, and the lock of the next call for the writes. Not for what goes to and fro: there the peer
 * watches these lines, and would lose them.
 */
static inline void row_fetch(struct shm_peer *sp, uint32_t nslots, uint32_t ahead)
{
	if (sp->tx.pos - sp->acked > ROW_SLOTS)
		lane_fetch_ahead(&sp->tx, ahead, nslots);
}

/*
 * A frame whose bytes are in its @nslots slots has been published. A line is longer on its way than a short frame
 * takes, so several are asked for at once; pairs of lines, which some processors fetch together, are not torn
 * (doc/measurements.md#same-host).
 */
static inline void published_here(struct shm_peer *sp, uint32_t nslots)
{
	if (likely(nslots == 1))
		row_fetch(sp, 1, 4);
	else
		row_fetch(sp, nslots, nslots == 2 ? 2 : 0);
	ring_if_wanted(sp);
}

/*
 * The same of one whose @len bytes are in a staging run: nobody watches the next run before it is filled. What writes
 * whole lines need not fetch them.
 */
static void published_staged(struct shm_peer *sp, size_t len)
{
	row_fetch(sp, 1, 0);
	ring_if_wanted(sp);
	if (len < copy_string_min())
		stage_fetch_next(&sp->s->stage, len);
}

/* How far we have taken what @sp sends; every frame to it says so. */
static inline uint64_t ack_bits(const struct shm_peer *sp)
{
	const struct shm_rx *rx = sp->rx;

	return rx ? rx->color | (lane_rx_pos(&rx->lane) & SHM_U_ACK) : 0;
}

/* @len: of an inline frame, else 0. */
static inline uint64_t user_word(const struct shm_peer *sp, enum shm_fmt fmt, uint32_t len,
				 bool is_wanted)
{
	uint64_t u = FIELD_PREP(SHM_U_FMT, fmt) | FIELD_PREP(SHM_U_LEN, len) | ack_bits(sp);

	if (is_wanted) /* pend_push() has been called last */
		u |= SHM_U_WANT | FIELD_PREP(SHM_U_CODE, (sp->pend_tail - 1) & sp->code_mask);
	return u;
}

/*
 * The frame to @dst, which is not published yet. What the bulk service sends is memory that a peer has asked for, and
 * may have gone.
 * Return: whether it was there.
 */
static inline bool gather(uint8_t *dst, const struct out *o)
{
	copy_small(dst, o->hdr, o->hdr_len);
	dst += o->hdr_len;
	for (int i = 0; i < o->iov_cnt; i++) {
		if (likely(o->kind != LINK_K_BULK))
			copy_private(dst, o->iov[i].iov_base, o->iov[i].iov_len);
		else if (!guard_read(dst, o->iov[i].iov_base, o->iov[i].iov_len))
			return false;
		dst += o->iov[i].iov_len;
	}
	return true;
}

static inline bool has_pend_room(const struct shm_peer *sp)
{
	return sp->pend_tail - sp->pend_head <= sp->code_mask;
}

/* Remember the frame whose slots have just been reserved at sp->tx.pos. */
static inline struct shm_pend *pend_push(struct shm_peer *sp, uint8_t kind, void *cookie)
{
	struct shm_pend *e = &sp->pend[sp->pend_tail++ % SHM_PEND_CNT];

	e->pos = sp->tx.pos;
	e->gran = SHM_NO_GRAN;
	e->grans = 0;
	e->kind = kind;
	e->kept = 0;
	e->cookie = cookie;
	sp->s->outstanding += cookie != NULL;
	if (unlikely(!sp->is_busy))
		shm_busy_add(sp);
	return e;
}

/* Whoever is refused looks in its next idle poll for what the peers have taken. Return: NULL. */
static __attribute__((noinline)) void *no_room(struct shm_port *s)
{
	s->look_at = 0;
	return NULL;
}

/* The known free slots are used up: free is what has been consumed and has no unfinished frame. */
static __attribute__((noinline)) void *own_reserve_look(struct shm_peer *sp, uint32_t len)
{
	uint32_t oldest = sp->pend[sp->pend_head % SHM_PEND_CNT].pos;
	void *slot;

	shm_read_acked(sp);
	sp->tx.head_seen = shm_has_done(sp) ? oldest : sp->acked;
	slot = lane_reserve_seen(&sp->tx, len);
	return slot ? slot : no_room(sp->s);
}

/*
 * Has the owner of @sp closed? Nobody would take what we put there, and who sends it may mean the next one at this
 * place: the next poll tells of the end.
 */
static inline bool is_end(struct shm_peer *sp)
{
	if (likely(!shm_has_closed(sp)))
		return false;
	shm_peer_doom(sp, -ECONNREFUSED);
	return true;
}

bool shm_peer_is_over(struct shm_peer *sp)
{
	return is_end(sp);
}

/*
 * Slots of our own lane. NULL: none free now, or nobody is there any more. Where a slot is free, there is room to
 * remember what will be in it: what is remembered holds slots of its own.
 */
static inline void *own_reserve(struct shm_peer *sp, size_t len)
{
	void *slot = lane_reserve_seen(&sp->tx, (uint32_t)len);

	if (unlikely(is_end(sp)))
		return NULL;
	return likely(slot) ? slot : own_reserve_look(sp, (uint32_t)len);
}

/* Stalled peers must not hold all of the arena: each has half of what the others have left. */
static bool is_share_used(const struct shm_peer *sp, uint32_t grans)
{
	uint32_t others = sp->s->stage.used - sp->staged_grans, all = sp->s->stage.gran_cnt;

	return sp->staged_grans && (others >= all || sp->staged_grans + grans > (all - others) / 2);
}

/* A staging run for @len bytes, ours until run_end(), or shm_stage_unbegin(). NULL: none now. */
static __attribute__((noinline)) uint8_t *run_begin(struct shm_peer *sp, size_t len)
{
	struct shm_port *s = sp->s;
	uint8_t *run;

	shm_stage_unbegin(sp);
	if (unlikely(!s->has_stage) && shm_port_stage(s))
		return NULL;
	if (is_share_used(sp, (uint32_t)DIV_ROUND_UP(len, STAGE_GRAN)))
		return no_room(s);
	if (unlikely(!STAILQ_EMPTY(&s->held)) && shm_is_held(sp)) {
		sp->is_blocked = true;
		return NULL;
	}
	run = stage_alloc(&s->stage, len, &sp->begun_gran);
	return likely(run) ? run : no_room(s);
}

/* It is filled with @len bytes: its place into the lane at @slot. */
static struct shm_pend *run_end(struct shm_peer *sp, void *slot, size_t len, uint8_t kind, void *cookie)
{
	struct shm_staged ref = {.gran = sp->begun_gran, .len = (uint32_t)len};
	uint32_t grans = (uint32_t)DIV_ROUND_UP(len, STAGE_GRAN);
	struct shm_pend *e = pend_push(sp, kind, cookie);

	memcpy(slot, &ref, sizeof(ref));
	e->gran = ref.gran;
	e->grans = (uint16_t)grans;
	sp->staged_grans += grans;
	sp->begun_gran = SHM_NO_GRAN;
	return e;
}

#define LINE_0 ((size_t)(LANE_SLOT - LANE_WORD0)) /* bytes of a frame in its first line */

/*
 * A frame into its slots, their first line last. The reader watches that line: written first, it is taken away while
 * the others are on their way, and has to come back for the header. 256 bytes one way: 427 ns in place of 586.
 */
static inline void put_frame(uint8_t *slot, const uint8_t *frame, size_t len)
{
	if (len > LINE_0) {
		copy_small(slot + LINE_0, frame + LINE_0, len - LINE_0);
		atomic_signal_fence(memory_order_seq_cst);
		copy_small(slot, frame, LINE_0);
	} else {
		copy_small(slot, frame, len);
	}
}

/*
 * Where a frame of @len bytes for our own lane is written: into its slots, or, if it is longer than they take, into a
 * staging run, and then one slot has room for its place. NULL: none free now, or nobody is there any more.
 */
static inline uint8_t *own_begin(struct shm_peer *sp, size_t len)
{
	if (likely(len <= SHM_INLINE_MAX))
		return own_reserve(sp, len);
	return own_reserve(sp, sizeof(struct shm_staged)) ? run_begin(sp, len) : NULL;
}

/* The bytes are in their run: the frame is published. Return: how it is remembered. */
static __attribute__((noinline)) struct shm_pend *own_run_commit(struct shm_peer *sp, size_t len, uint8_t kind,
								 enum shm_fmt fmt, void *cookie)
{
	uint8_t *slot = (uint8_t *)lane_word0(sp->tx.slots, sp->tx.pos & sp->tx.mask) + LANE_WORD0;
	struct shm_pend *e = run_end(sp, slot, len, kind, cookie);

	lane_commit_at(&sp->tx, slot, 1, user_word(sp, fmt + 1, 0, cookie));
	published_staged(sp, len);
	return e;
}

/* The bytes are in place, at @frame: it is published. Whoever has a @cookie still has them, or nobody wants to know. */
static inline void own_commit(struct shm_peer *sp, uint8_t *frame, size_t len, enum link_kind kind, enum shm_fmt fmt,
			      void *cookie)
{
	uint32_t nslots = lane_nslots((uint32_t)len);

	if (unlikely(len > SHM_INLINE_MAX)) {
		own_run_commit(sp, len, (uint8_t)kind, fmt, cookie);
		return;
	}
	if (cookie)
		pend_push(sp, (uint8_t)kind, cookie);
	else
		sp->s->last = sp;
	lane_commit_at(&sp->tx, frame, nslots, user_word(sp, fmt, (uint32_t)len, cookie));
	published_here(sp, nslots);
}

/* gather(), and put_frame(). */
static __attribute__((noinline)) bool gather_lines(uint8_t *slot, const struct out *o)
{
	uint8_t frame[SHM_INLINE_MAX];

	if (!gather(frame, o))
		return false;
	put_frame(slot, frame, o->len);
	return true;
}

static int send_own(struct shm_peer *sp, const struct out *o)
{
	uint8_t *frame = own_begin(sp, o->len);
	bool is_lines = o->len > LINE_0 && o->len <= SHM_INLINE_MAX;

	if (unlikely(!frame))
		return -EAGAIN;
	if (unlikely(!(is_lines ? gather_lines(frame, o) : gather(frame, o)))) {
		shm_stage_unbegin(sp);
		return -EFAULT;
	}
	own_commit(sp, frame, o->len, o->kind, o->fmt, o->cookie);
	return 0;
}

/* The lock is ours: as send_own(), but each message says who sends. */
static int send_locked(struct shm_peer *sp, const struct out *o)
{
	struct shm_from from = {.src = sp->s->p->self, .block = sp->block, .life = sp->s->seg->wake};
	bool is_staged = o->len + sizeof(from) > SHM_INLINE_MAX;
	uint32_t here = (uint32_t)(is_staged ? sizeof(struct shm_staged) : o->len);
	uint8_t *slot, *frame;

	if ((is_staged || o->cookie) && !has_pend_room(sp))
		return -EAGAIN;
	slot = lane_reserve(&sp->tx, (uint32_t)sizeof(from) + here);
	if (!slot)
		return -EAGAIN;
	shm_shared_note(sp);
	memcpy(slot, &from, sizeof(from));
	slot += sizeof(from);
	frame = is_staged ? run_begin(sp, o->len) : slot;
	if (!frame)
		return -EAGAIN;
	if (!gather(frame, o)) {
		shm_stage_unbegin(sp);
		return -EFAULT;
	}
	if (is_staged)
		run_end(sp, slot, o->len, (uint8_t)o->kind, o->cookie);
	else if (o->cookie)
		pend_push(sp, (uint8_t)o->kind, o->cookie);
	else
		sp->s->last = sp;
	lane_commit(&sp->tx, user_word(sp, o->fmt + is_staged, is_staged ? 0 : here, o->cookie));
	return 0;
}

static int send_shared(struct shm_peer *sp, const struct out *o)
{
	int rc = shm_shared_lock(sp);

	if (rc == -EPROTO) {
		shm_peer_doom(sp, -EPROTO);
		return -EAGAIN; /* the next poll says why */
	}
	if (rc)
		return rc;
	rc = send_locked(sp, o);
	shm_shared_unlock(sp, rc == 0);
	ring_if_wanted(sp);
	return rc;
}

/*
 * Time to ask for a lane? From the shared lane to our own only when nothing is left in the shared
 * one, so a stream of frames is held back for that, but only if there is a lane to be had.
 * Return: whether this frame is held back.
 */
static bool want_lane(struct shm_peer *sp)
{
	struct link_node *n = sp->s->p->node;
	uint64_t now = clk_now_ns(&n->clk);

	if (now < sp->lane_retry_ns)
		return false;
	if (shm_tx_in_flight(sp))
		shm_read_acked(sp);
	if (shm_tx_in_flight(sp) || sp->pend_head != sp->pend_tail) {
		if (!sp->is_switching) {
			struct shm_space space = shm_space_get(n->room->shm_budget);

			sp->is_switching = shm_space_lane_slots(&space) != 0;
		}
		if (sp->is_switching)
			return true;
	} else {
		sp->is_switching = false;
		if (!shm_lane_claim(sp))
			return false;
	}
	sp->lane_retry_ns = now + LANE_RETRY_NS;
	return false;
}

/* No lane of our own yet: get one, or take a shared one, or wait. */
static __attribute__((noinline)) int send_shared_or_wait(struct shm_peer *sp, const struct out *o)
{
	if (sp->is_detaching || sp->is_zombie)
		return -EAGAIN;
	if (sp->is_void)
		return -ECONNREFUSED;
	if (is_end(sp))
		return -EAGAIN;
	if (want_lane(sp))
		return -EAGAIN;
	return sp->tx_mode == SHM_TX_OWN ? send_own(sp, o) : send_shared(sp, o);
}

static int send_out(struct shm_peer *sp, struct out *o)
{
	o->len = o->hdr_len;
	for (int i = 0; i < o->iov_cnt; i++)
		o->len += o->iov[i].iov_len;
	if (unlikely(o->len > SHM_LEN_MAX))
		return -EMSGSIZE;
	return likely(sp->tx_mode == SHM_TX_OWN) ? send_own(sp, o) : send_shared_or_wait(sp, o);
}

int shm_send(struct shm_peer *sp, enum link_kind kind, const void *hdr, size_t hdr_len,
	     const struct iovec *iov, int iov_cnt, void *cookie)
{
	struct out o = {
		.hdr = hdr,
		.hdr_len = hdr_len,
		.iov = iov,
		.iov_cnt = iov_cnt,
		.fmt = kind == LINK_K_NIC ? SHM_FMT_NIC : SHM_FMT_BULK,
		.kind = kind,
		.cookie = cookie,
	};

	return send_out(sp, &o);
}

bool shm_has_lane(const struct shm_peer *sp)
{
	return sp->tx_mode == SHM_TX_OWN;
}

/*
 * A frame longer than a lane takes, without a cookie: its run keeps the bytes until the peer has taken them, and
 * end_one() shows them if it does not.
 */
static __attribute__((noinline)) void kept_commit(struct shm_peer *sp, size_t len, uint64_t tag)
{
	struct shm_pend *e = own_run_commit(sp, len, SHM_K_OWN, SHM_FMT_NIC, sp); /* any cookie but none */

	e->word[0] = len;
	e->word[1] = tag;
}

/* These two and what is above them are part of each small message: inline, whatever else its module has. */
inline __attribute__((always_inline)) uint8_t *shm_begin(struct shm_peer *sp, size_t len, bool is_raw)
{
	if (unlikely(sp->tx_mode != SHM_TX_OWN))
		return NULL;
	if (unlikely(!is_raw && sp->s->outstanding >= LINK_OWN_CNT))
		return no_room(sp->s);
	return own_begin(sp, len);
}

inline __attribute__((always_inline)) void shm_commit(struct shm_peer *sp, uint8_t *frame, size_t len, bool is_raw,
						      void *cookie, uint64_t tag)
{
	uint32_t code = sp->pend_tail % SHM_PEND_CNT, nslots = lane_nslots((uint32_t)len);
	struct shm_pend *e = &sp->pend[code];

	if (is_raw || cookie) { /* nobody wants to know, or its owner still has the bytes */
		own_commit(sp, frame, len, LINK_K_NIC, SHM_FMT_NIC, cookie);
		return;
	}
	if (unlikely(len > SHM_INLINE_MAX)) {
		kept_commit(sp, len, tag);
		return;
	}
	assert(has_pend_room(sp));
	sp->pend_tail++;
	e->pos = sp->tx.pos;
	e->kept = (uint8_t)len; /* tells that most of the other fields are not used */
	e->owner_tag = tag;
	for (size_t at = LANE_SLOT - LANE_WORD0; unlikely(at < len); at += LANE_SLOT)
		memcpy(&e->word[at / LANE_SLOT], frame + at, sizeof(e->word[0]));
	sp->s->outstanding++;
	if (unlikely(!sp->is_busy))
		shm_busy_add(sp);
	lane_commit_at(&sp->tx, frame, nslots,
		       SHM_U_WANT | (uint64_t)code << SHM_U_CODE_SHIFT | (uint64_t)SHM_FMT_NIC << SHM_U_FMT_SHIFT |
			       (uint64_t)len << SHM_U_LEN_SHIFT | ack_bits(sp));
	published_here(sp, nslots);
}

int shm_send_dgram(struct shm_peer *sp, const struct iovec *iov, int iov_cnt)
{
	struct out o = {.hdr = "", .iov = iov, .iov_cnt = iov_cnt, .fmt = SHM_FMT_DGRAM};

	return send_out(sp, &o);
}
