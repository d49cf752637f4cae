// SPDX-License-Identifier: BSD-2-Clause
// Ports in shared memory that children own, and whose files are looked at.
#ifndef SF_TEST_SHM_CHILD_H
#define SF_TEST_SHM_CHILD_H

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "shm_fake.h"
#include "unit.h"

#define DEADLINE_NS (20 * NS_PER_SEC * unit_slow())

static inline struct link_addr addr_of(uint16_t port)
{
	return fake_addr((uint32_t)getpid(), port, 1000u + port);
}

static inline struct fake *open_at(const struct link_addr *a, uint64_t budget)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->room.shm_budget = budget;
	assert_int_equal(fake_open(f, a), 0);
	return f;
}

static inline struct fake *open_port(uint16_t port)
{
	struct link_addr a = addr_of(port);

	return open_at(&a, 0);
}

static inline void close_port(struct fake *f)
{
	fake_close(f);
	free(f);
}

static inline bool file_exists(const struct shm_seg *seg)
{
	return access(seg->path, F_OK) == 0;
}

/* --- children that own a port --- */

enum child_job { CHILD_SERVE, CHILD_STUCK, CHILD_EXIT };

struct child {
	pid_t pid;
	int to, from; /* pipes */
};

static inline void child_main(enum child_job job, const struct link_addr *at, int in, int out)
{
	struct fake *f = calloc(1, sizeof(*f));
	char c = 'r';

	alarm(60); /* a child that hangs closes its pipe that way */
	if (!f || fake_open(f, at) || write(out, &c, 1) != 1)
		_exit(1);
	if (job == CHILD_EXIT)
		_exit(0);
	fcntl(in, F_SETFL, O_NONBLOCK);
	while (read(in, &c, 1) != 1)
		if (job == CHILD_SERVE)
			fake_poll(f);
		else
			usleep(1000);
	fake_close(f);
	_exit(0);
}

/* Its port is open when this returns. */
static inline struct child child_start(enum child_job job, const struct link_addr *at)
{
	int to[2], from[2];
	struct child c;
	char ready;

	assert_int_equal(pipe(to) | pipe(from), 0);
	c.pid = unit_fork();
	if (!c.pid)
		child_main(job, at, to[0], from[1]);
	assert_true(c.pid > 0);
	close(to[0]);
	close(from[1]);
	c.to = to[1];
	c.from = from[0];
	assert_int_equal(read(c.from, &ready, 1), 1);
	return c;
}

static inline int child_end(struct child *c, int sig)
{
	int status;

	if (sig)
		kill(c->pid, sig);
	else if (write(c->to, "x", 1) != 1)
		assert_int_equal(errno, EPIPE); /* has ended by itself */
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	close(c->to);
	close(c->from);
	return status;
}

#endif
