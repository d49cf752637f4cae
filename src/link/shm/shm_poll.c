// SPDX-License-Identifier: BSD-2-Clause
// Frames from ports of this host: in by polling lanes.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <string.h>

#define LANE_QUOTA    64     /* messages taken from one lane before the others have their turn */
#define SWEEP_EVERY   64u    /* polls; bitmap mode */
#define EPOCH_EVERY   32u    /* polls */
#define SHARED_EVERY  8u     /* polls that found something: look at the shared lane, too */
#define LOOK_GAP_MAX  16u   /* idle polls between two looks at heads */
#define FETCH_MAX     1024u /* bytes of a staged frame that are fetched before its owner asks for them */

/*
 * Whether to look at the heads of the lanes that we write, though it takes the lines from their readers. A row of polls
 * that find nothing has its first look after look_after of them: later and later while acknowledgements come by
 * themselves, on frames of the peer, and sooner and sooner while looks find ends that somebody waits for. The looks get
 * further apart as the row goes on, so that what a reader took long to copy is seen at most an eighth of that time
 * later; a poll may be as long as a system call (link_idle()). Whoever was refused room looks at once (no_room()).
 */
static inline bool is_look_due(struct shm_port *s, int events)
{
	if (events) {
		if (unlikely(s->idle >= s->look_after)) /* the looks of this row were in vain */
			shm_look_adapt(s, false);
		else
			shm_look_restart(s);
		return false;
	}
	if (++s->idle < s->look_at)
		return false;
	s->look_at = s->idle + MIN(s->idle / 8, LOOK_GAP_MAX) + 1;
	return true;
}

/* --- in --- */

/* A message as it was found in a lane. */
struct in {
	const uint8_t *p;
	uint32_t cap;
	uint64_t user;
	_Atomic uint8_t *codes; /* [code_mask + 1] of the sender */
	uint32_t code_mask;
	struct shm_peer *sp;
};

/* Did @rc come of a want that may pass? What could not be looked at for that is not thrown away. */
static bool is_want(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM;
}

/* Return: 0; -EPROTO nonsense; -errno. */
static int stage_view(struct shm_peer *sp)
{
	/* acquire; pairs with the release in shm_port_stage() */
	uint32_t grans = atomic_load_explicit(&sp->seg->hdr->stage_grans, memory_order_acquire);
	int rc;

	if (!grans || grans > SHM_STAGE_GRANS_MAX)
		return -EPROTO;
	rc = shm_seg_reserve(sp->seg, SHM_STAGE_OFF, stage_shm_size(grans));
	if (rc &&
	    rc != -ENOENT) /* gone: but then it had been allocated, and stays while we map it */
		return rc;
	stage_rx_init(&sp->stage, sp->seg->base + SHM_STAGE_OFF, grans);
	sp->has_stage = true;
	return 0;
}

/* Its owner refuses a frame: tell the sender, if it wants to know. */
static __attribute__((cold, noinline)) void refuse(_Atomic uint8_t *codes, uint32_t code_mask, uint64_t user, int code)
{
	/* relaxed: published by the head, or by an acknowledgement in a frame of ours, both with
	 * release */
	if (code > 0 && (user & SHM_U_WANT))
		atomic_store_explicit(&codes[FIELD_GET(SHM_U_CODE, user) & code_mask], (uint8_t)code,
				      memory_order_relaxed);
}

/* Return: false: not now, keep it. */
static bool give_frame(struct shm_port *s, const struct in *m, enum link_kind kind,
		       const uint8_t *p, uint32_t len)
{
	struct link_peer *peer = m->sp->peer;
	int code;

	if (unlikely(!peer)) {
		peer = shm_peer_link(m->sp);
		if (!peer)
			return false;
	}
	if (unlikely(peer->dead)) { /* we have told everybody that it is gone: it must not take this for a success */
		refuse(m->codes, m->code_mask, m->user, SHM_CODE_GONE);
		return true;
	}
	code = port_deliver(s->p, peer, kind, p, len);
	if (unlikely(code))
		refuse(m->codes, m->code_mask, m->user, MIN(code, LINK_NAK_MAX));
	return true;
}

static bool give(struct shm_port *s, const struct in *m, enum shm_fmt fmt, const uint8_t *p,
		 uint32_t len)
{
	switch (fmt) {
	case SHM_FMT_NIC:
	case SHM_FMT_NIC_STAGED:
		return give_frame(s, m, LINK_K_NIC, p, len);
	case SHM_FMT_BULK:
	case SHM_FMT_BULK_STAGED:
		return give_frame(s, m, LINK_K_BULK, p, len);
	case SHM_FMT_DGRAM:
	case SHM_FMT_DGRAM_STAGED:
		s->p->up->dgram(s->p, &m->sp->addr, p, len);
		return true;
	case SHM_FMT_NUM:
		break;
	}
	must(0);
	return true;
}

/* What a message says besides: how far its sender has read our lane. */
static inline void note_ack(struct shm_port *s, struct shm_peer *sp, uint64_t user)
{
	uint32_t color = (uint32_t)FIELD_GET(SHM_U_COLOR, user), ack = (uint32_t)FIELD_GET(SHM_U_ACK, user);

	if (!color || color != sp->color || sp->tx_mode != SHM_TX_OWN)
		return;
	shm_set_acked(sp, sp->acked + ((ack - sp->acked) & (uint32_t)SHM_U_ACK));
	s->has_ready |= sp->is_busy; /* whoever owes us nothing must not keep us awake */
}

/*
 * The beginning of a staged frame, which comes from its sender's cache: its lines at once, and not the header first and
 * the others when its owner has looked at that.
 */
static inline void fetch_staged(const uint8_t *p, uint32_t len)
{
	for (uint32_t at = 0; at < MIN(len, FETCH_MAX); at += CACHE_LINE)
		__builtin_prefetch(p + at);
}

/* The door: a message is complete and inside what it may touch, or dropped. Return: false: not now,
 * keep it. */
static __attribute__((noinline)) bool take(struct shm_port *s, const struct in *m)
{
	uint32_t fmt = (uint32_t)FIELD_GET(SHM_U_FMT, m->user),
		 len = (uint32_t)FIELD_GET(SHM_U_LEN, m->user);
	struct shm_peer *sp = m->sp;
	struct shm_staged ref;
	const uint8_t *p;
	int rc;

	note_ack(s, sp, m->user);
	if (fmt == SHM_FMT_NIC || fmt == SHM_FMT_BULK || fmt == SHM_FMT_DGRAM) {
		if (len <= m->cap)
			return give(s, m, (enum shm_fmt)fmt, m->p, len);
		goto err_malformed;
	}
	if (fmt == 0 || fmt >= SHM_FMT_NUM || m->cap < sizeof(ref))
		goto err_malformed;
	memcpy(&ref, m->p, sizeof(ref));
	if (unlikely(!sp->has_stage) && (rc = stage_view(sp))) {
		if (is_want(rc))
			return false;
		goto err_malformed;
	}
	p = stage_rx_ptr(&sp->stage, ref.gran, ref.len);
	if (!p || ref.len > SHM_LEN_MAX)
		goto err_malformed;
	fetch_staged(p, ref.len);
	return give(s, m, (enum shm_fmt)fmt, p, ref.len);

err_malformed:
	s->p->stats.drop_malformed++;
	return true;
}

/* take() of a message of @nslots slots in the lane @rx, which begins with @word. */
static __attribute__((noinline)) bool take_other(struct shm_port *s, struct shm_rx *rx, uint64_t word, uint32_t nslots)
{
	struct in m = {rx->lane.next + LANE_WORD0, lane_cap(nslots), word & LANE_W_USER, rx->codes, SHM_PEND_CNT - 1,
		       rx->sp};

	return take(s, &m);
}

/* The same of a frame of the owner's; if it lies in its slots, of a peer that we know, in short. */
static inline bool take_own(struct shm_port *s, struct shm_rx *rx, uint64_t user, uint32_t nslots)
{
	uint32_t len = (uint32_t)FIELD_GET(SHM_U_LEN, user), said = (uint32_t)(user & (SHM_U_COLOR | SHM_U_ACK));
	const uint8_t *p = rx->lane.next + LANE_WORD0;
	struct link_peer *peer = rx->sp->peer;
	int code;

	if (unlikely(len > lane_cap(nslots) || !peer || peer->dead))
		return take_other(s, rx, user, nslots);
	if (said != rx->said) { /* the same again says nothing new */
		rx->said = said;
		note_ack(s, rx->sp, user);
	}
	code = port_deliver(s->p, peer, LINK_K_NIC, p, len);
	if (unlikely(code))
		refuse(rx->codes, SHM_PEND_CNT - 1, user, MIN(code, LINK_NAK_MAX));
	return true;
}

/* A poll that has taken nothing: what the sender is still owed. @is_empty: nothing is in the lane. */
static __attribute__((noinline)) void rx_idle(struct shm_port *s, struct shm_rx *rx, bool is_empty)
{
	if (rx->is_wake_due) {
		rx->is_wake_due = false;
		shm_ring_acked(rx->sp);
	}
	if (rx->lane.broken && !rx->is_gone) {
		s->p->stats.drop_malformed++;
		rx->is_gone = true;
		s->ends |= SHM_ENDS_GONE;
		shm_peer_doom(rx->sp, -EPROTO);
	} else if (rx->is_closing && is_empty) { /* shm_lane_refresh() saw that before this poll: it stays empty */
		rx->is_gone = true;
		s->ends |= SHM_ENDS_GONE;
	}
}

/* The lines of a message of @nslots, without the first. */
static inline void fetch_more(const uint8_t *slot, uint32_t nslots)
{
	for (; unlikely(nslots > 1); nslots--)
		__builtin_prefetch(slot += LANE_SLOT);
}

/* Inlined where it is called: it is most of what a poll does. */
static inline __attribute__((always_inline)) int poll_rx(struct shm_port *s, struct shm_rx *rx, int quota)
{
	struct lane_rx *lane = &rx->lane;
	uint32_t nslots;
	int n = 0;

	/* all lines of a message at once, if it is as long as the last one; more would be taken from who writes them */
	fetch_more(lane->next, lane->cur);
	for (;;) {
		uint64_t word = lane_word(lane);
		bool is_own = lane_is_usual(lane, word);
		const uint8_t *next;

		nslots = 1;
		if (unlikely(!is_own)) {
			nslots = lane_look(lane, &word);
			if (!nslots)
				break;
			is_own = FIELD_GET(SHM_U_FMT, word) == SHM_FMT_NIC;
		}
		next = lane->next + (size_t)nslots * LANE_SLOT;
		__builtin_prefetch(next);
		fetch_more(next, nslots);
		if (unlikely(!(is_own ? take_own(s, rx, word, nslots) : take_other(s, rx, word, nslots))))
			break;
		lane_pass(lane, nslots);
		if (unlikely(++n == quota))
			break;
	}
	if (n) {
		lane_publish(lane);
		rx->is_wake_due = true;
	} else if (unlikely(rx->is_wake_due | rx->is_closing | lane->broken)) {
		rx_idle(s, rx, !nslots);
	}
	return n;
}

/* The codes of a sender through our shared lane; NULL: what it says makes no sense. */
static _Atomic uint8_t *block_of(struct shm_peer *sp, uint32_t block, int *err)
{
	*err = 0;
	if (block >= SHM_BLOCK_CNT)
		return NULL;
	if (block >= sp->blocks_ready) {
		int rc = shm_seg_reserve(sp->seg, SHM_CODES_OFF,
					 (size_t)(block + 1) * SHM_BLOCK_CODES);

		if (rc && rc != -ENOENT) { /* gone: see stage_view() */
			*err = rc;
			return NULL;
		}
		sp->blocks_ready = block + 1;
	}
	return shm_block_at(sp->seg, block);
}

/* One message of the shared lane. Return: false: not now, keep it. */
static bool take_shared(struct shm_port *s, struct in *m)
{
	struct shm_from from;
	int err;

	if (m->cap < sizeof(from)) {
		s->p->stats.drop_malformed++;
		return true;
	}
	memcpy(&from, m->p, sizeof(from));
	m->sp = shm_peer_of(s, &from.src, from.life, &err);
	if (!m->sp) {
		s->p->stats.drop_source += err == -ENOENT;
		if (err != -ENOENT)
			shm_is_hopeless(s, &s->shut_ns);
		return err == -ENOENT;
	}
	m->codes = block_of(m->sp, from.block, &err);
	if (!m->codes) {
		if (is_want(err))
			return false;
		s->p->stats.drop_malformed++;
		return true;
	}
	m->p += sizeof(from);
	m->cap -= (uint32_t)sizeof(from);
	m->sp->is_wake_due = true;
	m->sp->was_used = true;
	return take(s, m);
}

static int poll_shared_one(struct shm_port *s, struct lane_rx *lane, int quota)
{
	struct in m = {.code_mask = SHM_BLOCK_CODES - 1};
	int n = 0;

	while (n < quota && (m.p = lane_peek(lane, &m.cap, &m.user))) {
		if (!take_shared(s, &m))
			break;
		lane_next(lane);
		n++;
	}
	if (n) {
		lane_publish(lane);
		s->shut_ns = 0;
	}
	/* or its first frame is of one whose segment we do not get mapped, and all others wait behind it */
	if (unlikely(lane->broken || (s->shut_ns && shm_is_hopeless(s, &s->shut_ns))) && !s->is_shared_broken) {
		s->is_shared_broken = true;
		s->p->stats.drop_malformed += lane->broken;
		LOG_WARN("a shared lane of %s is %s; only peers with a lane of their own reach it", s->seg->path,
			 lane->broken ? "broken"
				      : "stuck: no memory, address space or descriptors for the segment of a sender");
		atomic_fetch_or_explicit(&s->seg->hdr->state, SHM_ST_BROKEN, memory_order_relaxed);
	}
	return n;
}

static __attribute__((noinline)) int poll_shared(struct shm_port *s, int quota)
{
	int n = 0;

	for (uint32_t k = 0; k < s->shared_cnt && n < quota; k++)
		n += poll_shared_one(s, &s->shared[k], quota - n);
	if (n)
		s->shared_due |= SHM_DUE_WAKE;
	else if (s->shared_due & SHM_DUE_WAKE)
		shm_ring_shared(s);
	return n;
}

/* Few lanes: all of them, the one that spoke last first. */
static __attribute__((noinline)) int poll_all(struct shm_port *s, int budget)
{
	uint32_t cnt = s->rx_cnt, first = s->rx_last;
	int n = 0;

	for (uint32_t k = 0; k < cnt && n < budget; k++) {
		uint32_t i = first + k < cnt ? first + k : first + k - cnt;
		int got = poll_rx(s, s->rx[i], MIN(budget - n, LANE_QUOTA));

		if (got) {
			s->rx_last = i;
			n += got;
		}
	}
	return n;
}

/* Many lanes: those that were marked by their senders, or are known not to be empty. */
static __attribute__((noinline)) int poll_marked(struct shm_port *s, int budget)
{
	int n = 0;

	for (uint32_t w = 0; w < ARRAY_SIZE(s->pending); w++) {
		_Atomic uint64_t *active = &s->seg->hdr->active[w];
		uint64_t todo;

		/* relaxed: the lane itself orders; a mark that we miss waits for the sweep */
		if (atomic_load_explicit(active, memory_order_relaxed))
			s->pending[w] |= atomic_exchange_explicit(active, 0, memory_order_relaxed);
		for (todo = s->pending[w]; todo && n < budget; todo &= todo - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(todo);
			struct shm_rx *rx = s->rx_by_idx[w * 64 + bit];
			/* without a peer it has been revoked, and is not read */
			int got = rx && rx->sp ? poll_rx(s, rx, MIN(budget - n, LANE_QUOTA)) : 0;

			/* once more after the last message, for what an empty lane still owes its
			 * sender */
			if (!got)
				s->pending[w] &= ~BIT(bit);
			n += got;
		}
	}
	return n;
}

/* Is there anything in a shared lane, or about one, to look at? */
static inline bool is_shared_due(struct shm_port *s)
{
	return unlikely(s->shared_due || lane_has(&s->shared[0]));
}

/* Several lanes, or none. */
static __attribute__((noinline)) int poll_lanes(struct shm_port *s, int budget)
{
	return s->rx_cnt <= SHM_SWEEP_MAX || s->pass % SWEEP_EVERY == 0 ? poll_all(s, budget) : poll_marked(s, budget);
}

/* The end of a pass in which some peer or lane has ended. Return: what the port's owner was told for that. */
static __attribute__((noinline)) int ends_told(struct shm_port *s)
{
	uint32_t before = s->p->events;

	shm_peer_ends(s);
	return (int)(s->p->events - before);
}

/* Part of each poll, hence inline: whatever else its module has. */
inline __attribute__((always_inline)) int shm_poll(struct shm_port *s, int budget)
{
	int n;

	if (unlikely(s->in_poll))
		return 0;
	s->in_poll = 1;
	s->pass++;
	if (unlikely(atomic_load_explicit(&s->hdr->lane_gen, memory_order_relaxed) != s->gen_seen))
		shm_lane_refresh(s);
	n = likely(s->rx_cnt == 1) ? poll_rx(s, s->rx[0], budget) : poll_lanes(s, budget);
	/* A sender with a lane of its own uses that one; a busy sender does not keep the others waiting for long. */
	if ((!n || s->pass % SHARED_EVERY == 0) && is_shared_due(s) && n < budget)
		n += poll_shared(s, budget - n);
	if (s->busy) {
		bool is_look = is_look_due(s, n);

		if (s->has_ready || is_look || s->outstanding > SHM_LOOK_STREAM)
			n += shm_poll_acks(s, is_look);
	}
	if (unlikely(s->ends))
		n += ends_told(s);
	else
		s->in_poll = 0;
	/* relaxed: a sign of life, nothing more */
	if (n || s->pass % EPOCH_EVERY == 0)
		atomic_store_explicit(&s->hdr->epoch, s->pass, memory_order_relaxed);
	return n;
}

/* Nothing is in @lane, and its last message was no longer than a line: each poll fetches the others ahead. */
static bool lane_calm(const struct lane_rx *lane, struct calm *c)
{
	uint64_t word = lane_word(lane);

	if (lane->cur > 1 || lane_is_next(lane, word))
		return false;
	calm_watch(c, (const _Atomic uint64_t *)(const void *)lane->next, word);
	return true;
}

bool shm_calm(struct shm_port *s, struct calm *c, uint32_t passed)
{
	struct shm_hdr *h = s->hdr;
	uint64_t lanes = atomic_load_explicit(&h->lanes, memory_order_relaxed);

	s->pass += passed;
	atomic_store_explicit(&h->epoch, s->pass, memory_order_relaxed); /* the sign of life of these polls */
	if (s->in_poll || s->ends || s->shared_due || s->has_ready || s->rx_cnt > SHM_SWEEP_MAX)
		return false;
	if (s->busy) { /* until the next look, see is_look_due() */
		if (s->outstanding > SHM_LOOK_STREAM)
			return false;
		s->idle += passed;
		calm_last(c, (int32_t)(s->look_at - s->idle) - 1);
	}
	calm_watch(c, &h->lanes, lanes);
	if (atomic_load_explicit(&h->lane_gen, memory_order_relaxed) != s->gen_seen || !lane_calm(&s->shared[0], c))
		return false;
	for (uint32_t i = 0; i < s->rx_cnt; i++) {
		const struct shm_rx *rx = s->rx[i];

		if (rx->is_wake_due || rx->is_closing || rx->lane.broken || !lane_calm(&rx->lane, c))
			return false;
	}
	return true;
}
