// SPDX-License-Identifier: BSD-2-Clause
// The adapter thread's own state: agent.c is the thread, agent_call.c what the others say to it.
#ifndef LINK_CORE_AGENT_INT_H
#define LINK_CORE_AGENT_INT_H

#include <pthread.h>

#include "base/duty.h"
#include "base/starve.h"
#include "link/core/link_int.h"

struct agent {
	struct link_node *node;
	pthread_t thread;
	int ep;	   /* src_fd of every port, and @kick */
	int guard; /* sockets of ports that do not poll them, and @kick */
	int kick;  /* eventfd */
	_Atomic bool is_stopped;
	/* the thread's own */
	struct duty duty;
	struct starve starve; /* what has become of the poller since the nap began */
	bool is_waiting, has_napped; /* its last poll had found nothing; the nap has lasted to its end */
	uint64_t hot_until_ns;
	uint64_t neglect_ns; /* last look for neglected ports */
	bool has_given_way;
	bool is_nudged; /* a peer has waited for so long that it asks (shm_nudge.c) */
};

/** agent_watch() - The thread wakes from its sleep on @ep when @fd is readable. @fd < 0: nothing. */
void agent_watch(int ep, int fd);
/** agent_guard_look() - Has a datagram come for a port that does not look at its socket? Under the lock. */
void agent_guard_look(struct link_node *n);

#endif
