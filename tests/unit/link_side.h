// SPDX-License-Identifier: BSD-2-Clause
// Test fixture: one side of a link, a node with one port in the room that room_set() has set.
#ifndef SF_TESTS_UNIT_LINK_SIDE_H
#define SF_TESTS_UNIT_LINK_SIDE_H

#include "unit.h"

#include <string.h>

#include "link/link.h"

struct link_side {
	struct lock lock;
	struct link_node *node;
	struct link_port *port;
};

static struct link_room side_room;

static void room_set(const char *text)
{
	char err[256];

	if (link_room_parse(text, &side_room, err, sizeof(err)))
		fail_msg("%s", err);
}

/* @attr: of the port; node, address and nonce are filled in. Return: 0, or what the first call that failed returned. */
static int link_side_open(struct link_side *s, struct link_port_attr attr)
{
	struct link_node_attr na = {.lock = &s->lock, .room = &side_room};
	int rc;

	memset(s, 0, sizeof(*s));
	rc = link_node_open(&na, &s->node);
	if (rc)
		return rc;
	attr.node = s->node;
	attr.nonce = (uint32_t)rng_entropy() | 1;
	lock_acquire(&s->lock);
	rc = link_room_ip(&side_room, 0, attr.ip, NULL, 0);
	if (!rc)
		rc = link_port_open(&attr, &s->port);
	lock_release(&s->lock);
	return rc;
}

static void link_side_close(struct link_side *s)
{
	lock_acquire(&s->lock);
	link_port_close(s->port);
	lock_release(&s->lock);
	link_node_close(s->node);
}

/* Return: what link_poll() does. */
static int link_side_poll(struct link_side *s)
{
	int n;

	lock_acquire(&s->lock);
	n = link_poll(s->port);
	lock_release(&s->lock);
	return n;
}

#endif
