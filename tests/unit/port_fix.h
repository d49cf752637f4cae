// SPDX-License-Identifier: BSD-2-Clause
// A port over real sockets and the stand-ins of link_fake.h, for the tests of port.c and port_out.c.
#ifndef SF_TEST_PORT_FIX_H
#define SF_TEST_PORT_FIX_H

#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "link_fake.h"

#include "../../src/link/core/peer.c"
#include "../../src/link/core/port.c"

static struct lock lock;
static struct link_room room;
static struct link_node *node;
static struct link_port *port;
static uint32_t frames, sents, warns;
static int last_status, frame_answer;
static void *last_cookie;
static char last_warn[512];

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	(void)ctx, (void)peer, (void)frame, (void)len;
	frames++;
	return frame_answer;
}

static void on_sent(void *ctx, void *cookie, int status)
{
	(void)ctx;
	sents++;
	last_cookie = cookie;
	last_status = status;
}

static void on_bulk(void *ctx, void *cookie, int status)
{
	(void)ctx, (void)cookie, (void)status;
}

static const struct link_ops ops = {on_frame, on_sent, on_bulk};

static void on_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	(void)func, (void)line;
	if (lvl != LOG_LVL_WARN)
		return;
	warns++;
	snprintf(last_warn, sizeof(last_warn), "%s", msg);
}

static struct link_addr addr4(uint32_t ip, uint16_t num, uint32_t nonce)
{
	struct link_addr a = {.ip = {[10] = 0xff, [11] = 0xff}, .port = num, .nonce = nonce};
	uint32_t be = htonl(ip);

	memcpy(a.ip + 12, &be, 4);
	return a;
}

#define LOOP 0x7f000001u

static void node_open(bool no_thread)
{
	struct link_node_attr na = {.lock = &lock, .room = &room, .no_thread = no_thread};

	assert_int_equal(link_node_open(&na, &node), 0);
	lock_acquire(&lock);
}

static void peer_dies(struct link_peer *peer, int status)
{
	peer->port->up->dead(peer, status);
}

static int port_try(enum link_class cls, struct link_port **out)
{
	struct link_addr a = addr4(LOOP, 0, 0);
	struct link_port_attr pa = {.node = node, .nonce = 5, .cls = cls, .ops = &ops};

	memcpy(pa.ip, a.ip, 16);
	return link_port_open(&pa, out);
}

static void room_set(const char *text)
{
	char err[256];

	if (link_room_parse(text, &room, err, sizeof(err)))
		fail_msg("%s", err);
}

static int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.attach_rc = -ENOENT;
	fake.rel_deadline = CLK_NEVER;
	frames = sents = warns = 0;
	frame_answer = last_status = 0;
	last_cookie = NULL;
	room_set("linger=30ms");
	log_set_hook(on_log);
	node_open(true);
	assert_int_equal(port_try(LINK_RELIABLE, &port), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	link_port_close(port);
	lock_release(&lock);
	link_node_close(node);
	log_set_hook(NULL);
	return 0;
}

static void reopen(const char *text, enum link_class cls)
{
	link_port_close(port);
	lock_release(&lock);
	link_node_close(node);
	room_set(text);
	node_open(true);
	assert_int_equal(port_try(cls, &port), 0);
}

static struct link_peer *peer_get(const struct link_addr *a)
{
	struct link_peer *peer = NULL;

	assert_int_equal(link_peer_get(port, a, &peer), 0);
	return peer;
}

static int send1(struct link_peer *peer, void *cookie)
{
	static uint8_t hdr[8], body[100]; /* stay until the flush */
	struct iovec iov = {body, sizeof(body)};

	return link_send(port, peer, hdr, sizeof(hdr), &iov, 1, cookie);
}

#define T_(fn_) cmocka_unit_test_setup_teardown(fn_, setup, teardown)

#endif
