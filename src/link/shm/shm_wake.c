// SPDX-License-Identifier: BSD-2-Clause
// Doorbell of a sleeping port: one byte into a FIFO beside its segment, once per sleep.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Why no wake-up is lost
 *
 *   sender:   (S1) publish a frame      (S2) load state, ring if SLEEPING
 *   receiver: (R1) set SLEEPING   (R2) look at all lanes, sleep if they are empty
 *
 * This is Dekker's pattern: unless each side orders its store before its load, both may miss each
 * other. A fence costs the sender 2..16 ns at every frame, the sleep costs the receiver
 * microseconds anyway. So the receiver pays for both: between R1 and R2 it calls
 * membarrier(GLOBAL_EXPEDITED), which makes every CPU that runs a registered process execute a full
 * barrier before it returns. A sender that is registered and running has this barrier either after
 * S1, then R2 sees the frame, or before S1 and hence before S2, then S2 sees SLEEPING, because R1
 * was visible when the barrier ran. A sender that is not running passed full barriers when it was
 * switched out and will when it comes back. The sender itself only has to keep the compiler from
 * swapping S1 and S2.
 *
 * Both sides register when they open a port. Where one cannot (old kernel, seccomp), it says so: a
 * receiver by SHM_F_FENCE in its header, and then senders fence between S1 and S2; a sender knows
 * it about itself, and does the same.
 *
 * SLEEPING is cleared by whoever takes it, with an exchange, so one byte is written per sleep. A
 * byte that arrives after the receiver has woken by itself is drained before the next sleep, or
 * causes one idle wake-up.
 */

static long membarrier(int cmd)
{
	return syscall(SYS_membarrier, cmd, 0, 0);
}

bool shm_wake_has_membarrier(void)
{
	/* Per process image and cheap once done: asked again by every port, so that a forked child
	 * is right too. */
	return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

static void wake_barrier(bool has_membarrier)
{
	/* A sender without membarrier(2) fences for itself; our own order needs one as well. */
	atomic_thread_fence(memory_order_seq_cst);
	if (has_membarrier)
		membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

/* *@is_spare: it has to be closed by shm_fd_close(), soon. */
static int fifo_open(const char *path, int flags, bool *is_spare)
{
	int fd = shm_fd_open(path, flags, is_spare);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISFIFO(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)) {
		shm_fd_close(fd);
		return -EACCES;
	}
	return fd;
}

int shm_wake_open_rx(const struct shm_seg *seg)
{
	char path[SHM_WAKE_MAX];
	bool is_spare;
	int fd, rc;

	shm_wake_path(seg->path, seg->wake, path);
	rc = shm_seg_make_fifo(seg, path);
	if (rc) {
		if (rc != -ESHUTDOWN)
			LOG_WARN("mkfifo %s: %s", path, strerror(-rc));
		return rc;
	}
	/* Also for writing: else the FIFO is at end of file, and readable for ever, when the last
	 * sender leaves. */
	fd = fifo_open(path, O_RDWR, &is_spare);
	if (fd >= 0 && is_spare) { /* this one stays open */
		shm_fd_close(fd);
		fd = -EMFILE;
	}
	if (fd < 0)
		LOG_WARN("open %s: %s", path, strerror(-fd));
	return fd;
}

/* One byte to @seg's owner; *@fd (-1 at first) keeps the FIFO open. */
static void wake_ring(const struct shm_seg *seg, int *fd)
{
	bool is_spare = false;
	ssize_t n;

	if (*fd < 0) {
		char path[SHM_WAKE_MAX];

		shm_wake_path(seg->path, seg->wake, path);
		/* Also for reading: a write to a FIFO that its only reader has closed would raise
		 * SIGPIPE. */
		*fd = fifo_open(path, O_RDWR, &is_spare);
		if (*fd < 0) {
			LOG_INFO("cannot wake %s: %s", path, strerror(-*fd));
			*fd = -1;
			return;
		}
	}
	/* EAGAIN: it is full of bytes, so the owner wakes anyway */
	do
		n = write(*fd, "", 1);
	while (n < 0 && errno == EINTR);
	if (is_spare) {
		shm_fd_close(*fd);
		*fd = -1;
	}
}

static void wake_drain(int fd)
{
	char buf[256];

	while (read(fd, buf, sizeof(buf)) == (ssize_t)sizeof(buf))
		;
}

/* --- ringing --- */

void shm_ring(struct shm_peer *sp, uint32_t state)
{
	struct shm_hdr *h = sp->seg->hdr;

	/* relaxed, all: a bit that is seen late costs a full sweep, not a frame; see shm_wake.c for
	 * SLEEPING */
	if ((state & SHM_ST_BITMAP) && sp->tx_mode == SHM_TX_OWN) {
		_Atomic uint64_t *word = &h->active[sp->lane_idx / 64];
		uint64_t bit = BIT(sp->lane_idx % 64);

		if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
			atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
	}
	if (state & SHM_ST_SLEEPING) {
		state = atomic_fetch_and_explicit(&h->state, ~(SHM_ST_SLEEPING | SHM_ST_ACKS),
						  memory_order_relaxed);
		if (state & SHM_ST_SLEEPING) {
			wake_ring(sp->seg, &sp->wake_fd);
			sp->s->p->stats.wakeups_tx++;
		}
	}
	if (state & SHM_ST_CLOSED)
		shm_peer_doom(sp, -ECONNREFUSED);
	else if ((state & SHM_ST_BROKEN) && sp->tx_mode == SHM_TX_SHARED)
		shm_peer_doom(sp, -EPROTO);
}

void shm_ring_acked(struct shm_peer *sp)
{
	uint32_t want = SHM_ST_SLEEPING | SHM_ST_ACKS, state;

	if (sp->has_fence)
		atomic_thread_fence(memory_order_seq_cst);
	state = atomic_load_explicit(&sp->seg->hdr->state, memory_order_relaxed);
	if ((state & want) == want)
		shm_ring(sp, state & want);
}

void shm_ring_shared(struct shm_port *s)
{
	s->shared_due &= ~(unsigned)SHM_DUE_WAKE;
	for (struct shm_peer *sp = s->all; sp; sp = sp->all_next) {
		if (!sp->is_wake_due || sp->is_zombie)
			continue;
		sp->is_wake_due = false;
		shm_ring_acked(sp);
	}
}

/* --- sleeping --- */

int shm_wait_fd(struct shm_port *s)
{
	if (s->wake_fd < 0) {
		int fd = shm_wake_open_rx(s->seg);

		if (fd < 0)
			return fd;
		s->wake_fd = fd;
	}
	return s->wake_fd;
}

static bool has_work(struct shm_port *s)
{
	uint32_t cap;
	uint64_t user;

	if (s->ends & SHM_ENDS_DOOM || s->has_ready ||
	    atomic_load_explicit(&s->seg->hdr->lane_gen, memory_order_relaxed) != s->gen_seen)
		return true;
	for (uint32_t k = 0; k < s->shared_cnt; k++)
		if (lane_has(&s->shared[k])) /* no lane_peek(): nonsense is found by a poll, which tells of it */
			return true;
	for (uint32_t i = 0; i < s->rx_cnt; i++)
		if (lane_peek(&s->rx[i]->lane, &cap, &user))
			return true;
	for (struct shm_peer *sp = s->busy; sp; sp = sp->busy_next) {
		shm_read_acked(sp);
		if (shm_has_done(sp))
			s->has_ready = true;
	}
	return s->has_ready;
}

/* Senders that sleep until we take their frames: we are about to stop looking after them. */
static void ring_due(struct shm_port *s)
{
	for (uint32_t i = 0; i < s->rx_cnt; i++) {
		if (!s->rx[i]->is_wake_due)
			continue;
		s->rx[i]->is_wake_due = false;
		shm_ring_acked(s->rx[i]->sp);
	}
	shm_ring_shared(s);
}

int shm_arm(struct shm_port *s)
{
	uint32_t bits = SHM_ST_SLEEPING | (s->outstanding ? SHM_ST_ACKS : 0), state;

	if (shm_wait_fd(s) < 0)
		return -EAGAIN; /* cannot be woken: stay awake */
	ring_due(s);
	if (has_work(s))
		return -EAGAIN;
	/*
	 * Another one who sleeps on the same bell: what it has been rung for was taken by now, or the last look finds
	 * it.
	 */
	state = s->is_armed ? atomic_load_explicit(&s->seg->hdr->state, memory_order_relaxed) : 0;
	if (s->is_armed ? !(state & SHM_ST_SLEEPING) : s->is_wake_dirty)
		wake_drain(s->wake_fd);
	s->is_wake_dirty = false;
	s->is_armed = true;
	if ((state & bits) != bits) { /* else R1 and the barrier are behind us, and whoever comes rings */
		atomic_fetch_or_explicit(&s->seg->hdr->state, bits, memory_order_seq_cst); /* R1 */
		wake_barrier(s->has_membarrier);
	}
	/* R2; the bell stays up, others may sleep on it */
	return has_work(s) ? -EAGAIN : 0;
}

bool shm_is_armed(const struct shm_port *s)
{
	return s->is_armed && (atomic_load_explicit(&s->seg->hdr->state, memory_order_relaxed) & SHM_ST_SLEEPING);
}

void shm_disarm(struct shm_port *s)
{
	uint32_t old;

	if (!s->is_armed)
		return;
	s->is_armed = false;
	/* relaxed: whoever clears the bit owns the one byte of this sleep */
	old = atomic_fetch_and_explicit(&s->seg->hdr->state, ~(SHM_ST_SLEEPING | SHM_ST_ACKS),
					memory_order_relaxed);
	if (old & SHM_ST_SLEEPING)
		return;
	/* The byte is there or on its way; what comes after this drain goes before the next sleep,
	 * or is one idle wake-up. */
	s->is_wake_dirty = true;
	wake_drain(s->wake_fd);
}
