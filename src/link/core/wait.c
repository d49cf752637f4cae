// SPDX-License-Identifier: BSD-2-Clause
// Sleeping and waking: what a port's descriptors are readable for, who arms, and who wakes whom (see link.h).
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * src_fd is readable when something has come for the port: a bell rung in its segment, or a datagram. The adapter
 * thread sleeps on the src_fd of all ports. The application sleeps on wait_fd, which is that and an eventfd: since both
 * are woken by what comes, the one who is late would find nothing and sleep on, so what the thread takes in the place
 * of a sleeping application is told by the eventfd.
 *
 * A socket in an epoll descriptor makes each datagram run through the latter, and through those that it is in itself,
 * whether anybody sleeps there or not; over loopback the sender's call does that. So the first datagram that a poll of
 * the application finds takes the socket out of src_fd, and the thread puts it back before it sleeps there.
 *
 * Why no sleeper of the application is forgotten
 *
 * Any number of its threads may sleep on wait_fd, while others poll the same port and stop polling whenever they like.
 * We know neither how many sleep nor when one of them ends, so link_poll() leaves what was armed as it is. From the
 * first link_arm() on one of these holds, whenever nobody has the lock:
 *  - PORT_ARM_APP is set, the bell is up, and the lanes were seen empty after it went up: whoever sends, rings.
 *    Datagrams need no bell, a socket stays readable as long as there are any.
 *  - wait_fd is readable: the bell has been rung and nobody has drained it, or the eventfd was written and nobody has
 * drained it. Only two ever drain: link_arm() and the adapter thread. Both put the bell up again in the same hold of
 * the lock, look into the lanes once more, and write the eventfd if they find something there or cannot (link_arm(),
 * port_arm(), port_served()). So a drained byte is never the only trace of something that is still to be taken; and
 * what a poll has taken in the place of a sleeper, its owner's callbacks have told to whom it concerns.
 *
 * The price is one ring by the next sender after the last sleep, for nothing.
 */

#define EPOLL_FDS 3

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

/* The descriptors of what comes, -1 where there is none, and room for one more. */
static void src_fds(struct link_port *p, int fds[EPOLL_FDS])
{
	fds[0] = p->shm ? shm_wait_fd(p->shm) : -1;
	fds[1] = p->net_off ? -1 : p->net->ops->fd(p->net);
	fds[2] = -1;
}

/* Readable when something has come, for the adapter thread. -errno. */
static int port_src_fd(struct link_port *p)
{
	int fds[EPOLL_FDS], fd;

	src_fds(p, fds);

	if (p->node->attr.world)
		return -ENOTSUP;
	if (p->src_fd >= 0)
		return p->src_fd;
	if (fds[1] < 0 && fds[0] >= 0)
		return fds[0];
	fd = epoll_of(fds);
	if (fd >= 0) {
		p->src_fd = fd;
		p->src_has_net = fds[1] >= 0;
	}
	return fd;
}

int port_src_net(struct link_port *p, bool is_in)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (p->src_has_net == is_in || p->src_fd < 0 || p->net_off)
		return 0;
	if (epoll_ctl(p->src_fd, is_in ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, p->net->ops->fd(p->net), &ev))
		return -errno;
	p->src_has_net = is_in;
	/* it may sleep there still, although the application polls: what comes after that would not wake it */
	if (!is_in)
		agent_soon(p->node, clk_now_ns(&p->node->clk));
	return 0;
}

void port_watch(struct link_port *p)
{
	int fd;

	if (!p->node->agent || p->agent_fd >= 0)
		return;
	fd = port_src_fd(p);
	if (fd >= 0)
		agent_port_add(p, fd);
}

int link_wait_fd(struct link_port *p)
{
	int fds[EPOLL_FDS], ep;

	if (p->wait_fd >= 0)
		return p->wait_fd;
	if (p->node->attr.world)
		return -ENOTSUP;
	/* not src_fd: each epoll descriptor in another one makes waking slower, and the kernel takes only a few */
	src_fds(p, fds);
	fds[2] = eventfd(p->armed & PORT_ARM_CALLED ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fds[2] < 0)
		return -errno;
	ep = epoll_of(fds);
	if (ep < 0) {
		close(fds[2]);
		return ep;
	}
	p->wake_fd = fds[2];
	p->wait_fd = ep;
	return ep;
}

/* The application may sleep, and what it waits for is taken by somebody else, or no bell will tell of it. */
static void port_wake(struct link_port *p)
{
	p->armed = (uint8_t)((p->armed & ~PORT_ARM_APP) | PORT_ARM_WOKEN | PORT_ARM_CALLED);
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
	if (bulk_outstanding(p->bulk) && bulk_next_deadline(p->bulk) <= clk_now_ns(&p->node->clk))
		return -EAGAIN;
	if (p->shm && shm_arm(p->shm)) {
		link_wake(p); /* what the bell told others of may be drained */
		return -EAGAIN;
	}
	if ((who & PORT_ARM_AGENT) && port_src_net(p, true))
		return -EAGAIN; /* no memory: it looks now and then in place of sleeping */
	p->armed |= who;
	p->looked_ns = 0;
	return 0;
}

/*
 * Readable for what has been seen by now: the caller looks at everything before it sleeps. Others whom it was to wake
 * may sleep on.
 */
static void wake_drain(struct link_port *p)
{
	eventfd_t cnt;

	p->armed = (uint8_t)((p->armed & ~PORT_ARM_CALLED) | PORT_ARM_APP);
	/* EAGAIN: there was no descriptor when it was woken */
	eventfd_read(p->wake_fd, &cnt);
}

int link_arm(struct link_port *p)
{
	uint64_t now = clk_now_ns(&p->node->clk);
	int rc;

	lock_assert_held(p->node->lock);
	if (p->armed & PORT_ARM_WOKEN)
		return -EAGAIN;
	if (p->armed & PORT_ARM_CALLED)
		wake_drain(p);
	p->net_look = true;	  /* it may be the socket that wakes us */
	p->events_armed = p->events;
	p->epoch_armed = atomic_load_explicit(&p->node->poll_epoch, memory_order_relaxed);
	/* left to the adapter thread they would come up to a millisecond late, and somebody may sleep until they do */
	if (p->net_used && rel_ack_owed(p->rel, now))
		port_flush(p, now);
	rc = port_arm(p, PORT_ARM_APP);
	if (rc)
		/*
		 * the caller looks again and may never come back, but others sleep, and what told them may be drained
		 */
		link_wake(p);
	/* or the flush in port_arm() has ended something */
	return rc || p->events != p->events_armed ? -EAGAIN : 0;
}

bool link_is_armed(const struct link_port *p)
{
	lock_assert_held(p->node->lock);
	/* link_arm() lets out what waits for company */
	return (p->armed & PORT_ARM_APP) && (!p->shm || shm_is_armed(p->shm)) && !rel_lingers(p->rel);
}

/* A thread announced that it sleeps, or was woken; now it, or another one for it, polls. */
__attribute__((noinline)) void port_awake(struct link_port *p)
{
	struct link_node *n = p->node;

	if (p->armed & PORT_ARM_SERVED) {
		p->polls |= PORT_TICK_POLLS - 1;
		p->net_look = true;
		port_disarm(p);
		return;
	}
	port_count_poll(n);
	if (atomic_load_explicit(&n->armed, memory_order_relaxed))
		agent_disarm(n);
	p->armed &= (uint8_t)~PORT_ARM_WOKEN;
	if (p->armed & PORT_ARM_AGENT)
		port_disarm(p);
}
