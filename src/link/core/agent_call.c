// SPDX-License-Identifier: BSD-2-Clause
// What ports and paths say to the adapter thread: look again, hurry, the application polls, watch this descriptor.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "link/core/agent_int.h"

void agent_watch(int ep, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (fd >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		LOG_WARN("the adapter thread cannot watch a port: %s", strerror(errno));
}

void port_disarm(struct link_port *p)
{
	p->armed &= (uint8_t)~PORT_ARM_AGENT;
	p->net_look = true; /* it may have been the socket that woke the agent */
	if (p->shm && !(p->armed & PORT_ARM_APP))
		shm_disarm(p->shm);
}

void port_net_use(struct link_port *p)
{
	if (p->net_used)
		return;
	p->net_used = true;
	agent_guard_del(p);
}

void agent_guard_look(struct link_node *n)
{
	for (struct link_port *p = n->ports; p; p = p->next) {
		struct pollfd pfd = {.fd = p->in_guard ? p->net->ops->fd(p->net) : -1,
				     .events = POLLIN};

		if (pfd.fd >= 0 && poll(&pfd, 1, 0) > 0)
			port_net_use(p);
	}
}

/* Nobody rings for the thread any more. Return: whether it had asked for that. */
static bool disarm(struct link_node *n)
{
	/* relaxed: all who set AGENT_SLEEPS or take it back hold the lock */
	uint32_t was = atomic_exchange_explicit(&n->armed, 0, memory_order_relaxed);

	if (was & AGENT_GUARDS)
		agent_guard_look(n);
	if (!(was & AGENT_SLEEPS))
		return false;
	for (struct link_port *p = n->ports; p; p = p->next)
		if (p->armed & PORT_ARM_AGENT)
			port_disarm(p);
	return true;
}

static void wake(struct link_node *n)
{
	atomic_store_explicit(&n->agent_at_ns, 0, memory_order_relaxed); /* one kick is enough */
	if (n->agent && eventfd_write(n->agent->kick, 1))
		LOG_WARN("cannot wake the adapter thread: %s", strerror(errno));
}

/*
 * It had dozed, which it does for longer the longer nobody has polled, and nobody rings now. If this was a single poll
 * in the middle of a computation, peers would wait for the end of that doze: so the thread goes over to naps.
 */
void agent_disarm(struct link_node *n)
{
	if (!disarm(n))
		return;
	/* full fence; pairs with the one in wait_on(): either we see for how long it sleeps, or it sees that we poll */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&n->agent_at_ns, memory_order_relaxed) > clk_now_ns(&n->clk) + AGENT_NAP_NS)
		wake(n);
}

void agent_kick(struct link_node *n)
{
	disarm(n);
	wake(n);
}

void agent_soon(struct link_node *n, uint64_t now_ns)
{
	if (!n->agent)
		return;
	atomic_store_explicit(&n->hurry, 1, memory_order_relaxed);
	/* full fence; pairs with the one in wait_on() */
	atomic_thread_fence(memory_order_seq_cst);
	if (unlikely(atomic_load_explicit(&n->agent_at_ns, memory_order_relaxed) > now_ns + 2 * AGENT_SOON_NS))
		agent_kick(n);
}

void agent_port_add(struct link_port *p, int fd)
{
	struct agent *a = p->node->agent;

	agent_watch(a->ep, fd);
	p->agent_fd = fd;
	if (p->shm)
		shm_port_set_nudge(p->shm, a->kick);
	/* with conditions on, even local frames are datagrams: such a port looks for itself from
	 * the beginning */
	if (p->node->lossless && !p->net_off && !p->net_used) {
		agent_watch(a->guard, p->net->ops->fd(p->net));
		p->in_guard = true;
	}
	agent_kick(p->node);
}

void agent_port_del(struct link_port *p)
{
	struct agent *a = p->node->agent;

	agent_guard_del(p);
	if (!a || p->agent_fd < 0)
		return;
	if (p->shm)
		shm_port_set_nudge(p->shm, -1);
	epoll_ctl(a->ep, EPOLL_CTL_DEL, p->agent_fd, NULL);
	p->agent_fd = -1;
}

void agent_guard_del(struct link_port *p)
{
	if (!p->in_guard)
		return;
	p->in_guard = false;
	if (p->node->agent)
		epoll_ctl(p->node->agent->guard, EPOLL_CTL_DEL, p->net->ops->fd(p->net), NULL);
}
