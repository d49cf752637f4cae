// SPDX-License-Identifier: BSD-2-Clause
// Doorbell of a sleeping port: one byte into a FIFO beside its segment, once per sleep.
#include "link/shm_int.h"

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
 * This is Dekker's pattern: unless each side orders its store before its load, both may miss each other. A fence costs the sender
 * 2..16 ns at every frame, the sleep costs the receiver microseconds anyway. So the receiver pays for both: between R1 and R2 it calls
 * membarrier(GLOBAL_EXPEDITED), which makes every CPU that runs a registered process execute a full barrier before it
 * returns. A sender that is registered and running has this barrier either after S1, then R2 sees the frame, or before S1 and
 * hence before S2, then S2 sees SLEEPING, because R1 was visible when the barrier ran. A sender that is not running passed full barriers when it
 * was switched out and will when it comes back. The sender itself only has to keep the compiler from swapping S1 and S2.
 *
 * Both sides register when they open a port. Where one cannot (old kernel, seccomp), it says so: a receiver by SHM_F_FENCE in its
 * header, and then senders fence between S1 and S2; a sender knows it about itself, and does the same.
 *
 * SLEEPING is cleared by whoever takes it, with an exchange, so one byte is written per sleep. A byte that arrives after the receiver
 * has woken by itself is drained before the next sleep, or causes one idle wake-up.
 */

static long membarrier(int cmd)
{
	return syscall(SYS_membarrier, cmd, 0, 0);
}

bool shm_wake_has_membarrier(void)
{
	/* Per process image and cheap once done: asked again by every port, so that a forked child is right too. */
	return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void shm_wake_barrier(bool has_membarrier)
{
	/* A sender without membarrier(2) fences for itself; our own order needs one as well. */
	atomic_thread_fence(memory_order_seq_cst);
	if (has_membarrier)
		membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

static void wake_path(const struct shm_seg *seg, char out[SHM_NAME_MAX + 8])
{
	snprintf(out, SHM_NAME_MAX + 8, "%s.wake", seg->path);
}

static int fifo_open(const char *path, int flags)
{
	int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISFIFO(st.st_mode) || st.st_uid != geteuid()) {
		close(fd);
		return -EACCES;
	}
	return fd;
}

int shm_wake_open_rx(const struct shm_seg *seg)
{
	char path[SHM_NAME_MAX + 8];
	int fd;

	wake_path(seg, path);
	/* EEXIST: left by a dead owner whose segment was removed by hand */
	if (mkfifo(path, 0600) && errno == EEXIST && (unlink(path) || mkfifo(path, 0600))) {
		LOG_WARN("mkfifo %s: %s", path, strerror(errno));
		return -errno;
	}
	/* Also for writing: else the FIFO is at end of file, and readable for ever, when the last sender leaves. */
	fd = fifo_open(path, O_RDWR);
	if (fd < 0)
		LOG_WARN("open %s: %s", path, strerror(-fd));
	return fd;
}

void shm_wake_ring(const struct shm_seg *seg, int *fd)
{
	ssize_t n;

	if (*fd < 0) {
		char path[SHM_NAME_MAX + 8];

		wake_path(seg, path);
		/* Also for reading: a write to a FIFO that its only reader has closed would raise SIGPIPE. */
		*fd = fifo_open(path, O_RDWR);
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
}

void shm_wake_drain(int fd)
{
	char buf[256];

	while (read(fd, buf, sizeof(buf)) == (ssize_t)sizeof(buf))
		;
}
