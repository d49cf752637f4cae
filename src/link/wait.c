// SPDX-License-Identifier: BSD-2-Clause
// Sleeping and waking: what a port's descriptors are readable for, who arms, and who wakes whom (see link.h).
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "link/link_int.h"

/*
 * Theory of operation
 *
 * src_fd is readable when something has come for the port: a bell rung in its segment, or a datagram. The adapter thread sleeps on
 * the src_fd of all ports. The application sleeps on wait_fd, which is that and an eventfd: since both are woken by what comes, the
 * one who is late would find nothing and sleep on, so what the thread takes in the place of a sleeping application is told by the
 * eventfd. It stays readable until the application polls (PORT_ARM_WOKEN).
 */

#define EPOLL_FDS 2

/* An epoll descriptor for those of @fds that are >= 0. -errno. */
static int epoll_of(const int fds[EPOLL_FDS])
{
	int ep = epoll_create1(EPOLL_CLOEXEC), rc;

	if (ep < 0)
		goto err;
	for (int i = 0; i < EPOLL_FDS; i++) {
		struct epoll_event ev = {.events = EPOLLIN};

		if (fds[i] >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev))
			goto err;
	}
	return ep;

err:
	rc = -errno;
	LOG_WARN("no descriptor to wait on: %s", strerror(-rc));
	if (ep >= 0)
		close(ep);
	return rc;
}

int port_src_fd(struct link_port *p)
{
	int fds[EPOLL_FDS] = {p->shm ? shm_wait_fd(p->shm) : -1,
			      p->net_off ? -1 : p->net->ops->fd(p->net)};
	int fd;

	if (p->node->attr.sim)
		return -ENOTSUP;
	if (p->src_fd >= 0)
		return p->src_fd;
	if (fds[1] < 0 && fds[0] >= 0)
		return fds[0];
	fd = epoll_of(fds);
	if (fd >= 0)
		p->src_fd = fd;
	return fd;
}

int link_wait_fd(struct link_port *p)
{
	int fds[EPOLL_FDS] = {port_src_fd(p), -1};
	int ep;

	if (p->wait_fd >= 0 || fds[0] < 0)
		return p->wait_fd >= 0 ? p->wait_fd : fds[0];
	fds[1] = eventfd(p->armed & PORT_ARM_WOKEN ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fds[1] < 0)
		return -errno;
	ep = epoll_of(fds);
	if (ep < 0) {
		close(fds[1]);
		return ep;
	}
	p->wake_fd = fds[1];
	p->wait_fd = ep;
	return ep;
}

/* The application sleeps, and what it waits for has been taken by somebody else. */
static void port_wake(struct link_port *p)
{
	p->armed = (uint8_t)((p->armed & ~PORT_ARM_APP) | PORT_ARM_WOKEN);
	if (p->wake_fd >= 0 && eventfd_write(p->wake_fd, 1))
		LOG_WARN("cannot wake the application: %s", strerror(errno));
}

void link_wake(struct link_port *p)
{
	lock_assert_held(p->node->lock);
	if (p->armed & PORT_ARM_APP)
		port_wake(p);
}

void port_served(struct link_port *p)
{
	if (!(p->armed & PORT_ARM_APP))
		return;
	/* a bell that was rung for nothing must be put up again */
	if (p->events != p->events_armed || (p->shm && shm_arm(p->shm)))
		port_wake(p);
}

int port_arm(struct link_port *p, uint8_t who)
{
	lock_assert_held(p->node->lock);
	if (p->is_dirty)
		port_flush(p, clk_now_ns(&p->node->clk));
	if (p->shm && shm_arm(p->shm)) {
		link_wake(p); /* the agent puts away the bell that has been rung for both */
		port_disarm(p, PORT_ARM_APP | PORT_ARM_AGENT);
		return -EAGAIN;
	}
	p->armed |= who;
	if (bulk_outstanding(p->bulk) && bulk_next_deadline(p->bulk) <= clk_now_ns(&p->node->clk)) {
		port_disarm(p, who);
		return -EAGAIN;
	}
	return 0;
}

void port_disarm(struct link_port *p, uint8_t who)
{
	p->armed &= (uint8_t)~who;
	if (p->armed & (PORT_ARM_APP | PORT_ARM_AGENT))
		return;
	if (p->shm)
		shm_disarm(p->shm);
	p->net_look = true; /* it may have been the socket that woke us */
}

int link_arm(struct link_port *p)
{
	int rc;

	if (p->armed & PORT_ARM_WOKEN)
		return -EAGAIN;
	p->events_armed = p->events;
	rc = port_arm(p, PORT_ARM_APP);
	if (!rc && p->events != p->events_armed) { /* the flush in port_arm() has ended something */
		port_disarm(p, PORT_ARM_APP);
		return -EAGAIN;
	}
	return rc;
}

bool link_is_armed(const struct link_port *p)
{
	lock_assert_held(p->node->lock);
	return p->armed & PORT_ARM_APP;
}

static void wake_drain(struct link_port *p)
{
	eventfd_t cnt;

	p->armed &= (uint8_t)~PORT_ARM_WOKEN;
	/* EAGAIN: there was no descriptor when it was woken */
	eventfd_read(p->wake_fd, &cnt);
}

/* Somebody announced that he sleeps; now he, or somebody for him, polls. */
void port_awake(struct link_port *p)
{
	struct link_node *n = p->node;

	if (n->agent_runs) {
		p->net_look = true;
		port_disarm(p, PORT_ARM_AGENT);
		return;
	}
	if (atomic_load_explicit(&n->armed, memory_order_relaxed))
		agent_disarm(n);
	if (p->armed & PORT_ARM_WOKEN)
		wake_drain(p);
	port_disarm(p, PORT_ARM_APP | PORT_ARM_AGENT);
}
