// SPDX-License-Identifier: BSD-2-Clause
// Peers that take nothing: their adapters' threads are told that something waits.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/shm/shm_int.h"

/*
 * Theory of operation
 *
 * Beside a program that polls its adapter's thread naps for milliseconds, and nobody rings for it. When the program
 * turns to something else, what comes next would wait for the end of that nap. So who has waited for NUDGE_NS adds
 * SHM_NUDGE to the eventfd which that thread sleeps on, and the thread looks whether anybody polls. Only who has a CPU
 * of its own does so (idle_is_alone()): elsewhere the peer may wait for one as well, and a thread that wakes up takes a
 * turn from it.
 *
 * The kernel lends a descriptor of another process to who may copy from its memory, too (pidfd_getfd(2), Linux 5.6);
 * where it does not, the nap lasts as long as it lasts. The number may mean another descriptor by the time it is used:
 * its owner takes it back before it closes the eventfd, so that a number which still stands behind pidfd_getfd() meant
 * that one. Nothing else than an eventfd that never waits is written to, and only while the owner lives, whose pid it
 * is then. A file that was got by mistake stays open: to close it would give up the locks that this process has on it,
 * which may be its own segment.
 */

#define NUDGE_NS       (250 * NS_PER_US) /* more than a program that computes between polls takes, if it polls often */
#define NUDGE_AGAIN_NS (4 * NS_PER_MS)   /* at least between two: about as often as the thread looks by itself; ... */
#define NUDGE_LATER_NS (64 * NS_PER_MS)  /* ... doubles up to that, as its naps do, while nothing comes of it */
#define NUDGES_MAX     2u		 /* at a time: a dozen system calls each */

void shm_port_set_nudge(struct shm_port *s, int fd)
{
	/* release: pairs with the acquire in nudge(); see there */
	atomic_store_explicit(&s->seg->hdr->nudge, fd + 1, memory_order_release);
}

static bool is_eventfd(int fd)
{
	static const char want[] = "anon_inode:[eventfd]";
	char path[32], is[sizeof(want)];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, is, sizeof(is)) == (ssize_t)sizeof(want) - 1 && !memcmp(is, want, sizeof(want) - 1) &&
	       (fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void lent_close(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		close(fd);
}

/* Descriptor @num of the process of @sp; negative: not to be had. */
static int lend(struct shm_peer *sp, int num)
{
	int pidfd = (int)syscall(SYS_pidfd_open, sp->seg->peer_pid, 0), fd = -1;

	if (pidfd < 0)
		return -1;
	if (shm_seg_is_alive(sp->seg)) {
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, num, 0);
		sp->is_deaf = fd < 0 && (errno == EPERM || errno == ENOSYS);
	}
	close(pidfd);
	return fd;
}

static void nudge(struct shm_peer *sp)
{
	_Atomic int32_t *at = &sp->seg->hdr->nudge;
	int32_t num = atomic_load_explicit(at, memory_order_acquire);
	const uint64_t add = SHM_NUDGE;
	int fd;

	/* the latter makes sure that the pid is the owner's, if that lives */
	if (num <= 0 || sp->is_deaf || !shm_peer_cma_ok(sp))
		return;
	fd = lend(sp, num - 1);
	if (fd < 0)
		return;
	/* acquire: the number is looked at behind the call, and stands if it had not been taken back before */
	if (atomic_load_explicit(at, memory_order_acquire) == num && is_eventfd(fd) &&
	    write(fd, &add, sizeof(add)) < 0)
		LOG_DEBUG("cannot nudge pid %d: %s", (int)sp->seg->peer_pid, strerror(errno));
	lent_close(fd);
}

/* Return: whether @sp was nudged, or would have been. */
static bool nudge_look(struct shm_peer *sp, uint64_t now)
{
	/* relaxed: a hint */
	uint32_t state = atomic_load_explicit(sp->state, memory_order_relaxed);

	if (!shm_tx_in_flight(sp) || (state & (SHM_ST_SLEEPING | SHM_ST_CLOSED)) || sp->doom || sp->is_void) {
		sp->nudge_ns = 0;
		return false;
	}
	if (sp->nudge_ns && sp->nudge_acked == sp->acked) {
		if (now < sp->nudge_ns)
			return false;
		shm_read_acked(sp);
		if (shm_has_done(sp))
			sp->s->has_ready = true;
		if (sp->nudge_acked == sp->acked) {
			sp->nudged_ns = now;
			sp->nudge_gap_ns = MIN(MAX(2 * sp->nudge_gap_ns, NUDGE_AGAIN_NS), NUDGE_LATER_NS);
			sp->nudge_ns = now + sp->nudge_gap_ns;
			nudge(sp);
			return true;
		}
	}
	/* 0: what comes next has been there for no time yet */
	sp->nudge_acked = sp->acked;
	sp->nudge_gap_ns = 0;
	sp->nudge_ns = shm_tx_in_flight(sp) ? MAX(now + NUDGE_NS, sp->nudged_ns + NUDGE_AGAIN_NS) : 0;
	return false;
}

void shm_nudge(struct shm_port *s, uint64_t now_ns)
{
	uint32_t cnt = 0;

	for (struct shm_peer *sp = s->busy; sp && cnt < NUDGES_MAX; sp = sp->busy_next)
		if (!sp->is_zombie)
			cnt += nudge_look(sp, now_ns);
	if (s->last && !s->last->is_busy && !s->last->is_zombie)
		nudge_look(s->last, now_ns);
}
