// SPDX-License-Identifier: BSD-2-Clause
// Test rig: an adapter's thread beside an application that is the test, with one port over a fake link.
#ifndef SF_TESTS_UNIT_AGENT_RIG_H
#define SF_TESTS_UNIT_AGENT_RIG_H

#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/starve.h"
#include "link_fake.h"

/* What the thread says of a sleep when it begins. */
static struct {
	bool is_on;
	uint64_t sleep_ns, at_ns;
	struct link_node **node;
} spy;

static int spy_ppoll(struct pollfd *fds, nfds_t cnt, const struct timespec *ts, const sigset_t *mask)
{
	if (!spy.is_on)
		return ppoll(fds, cnt, ts, mask);
	spy.sleep_ns = (uint64_t)ts->tv_sec * NS_PER_SEC + (uint64_t)ts->tv_nsec;
	spy.at_ns = atomic_load(&(*spy.node)->agent_at_ns);
	return 0;
}

/* What is said of the poller; 0: what is so. */
static _Atomic uint32_t starved_left, starved_looks;
static _Atomic uint64_t starved_ns[6]; /* when it was asked, at first */

static bool spy_starve_look(const struct starve *s)
{
	uint32_t left = atomic_load(&starved_left), nth;

	if (!left || !s->tid)
		return !left && starve_look(s);
	nth = atomic_load(&starved_looks);
	if (nth < ARRAY_SIZE(starved_ns))
		atomic_store(&starved_ns[nth], clk_now_ns(NULL));
	atomic_fetch_add(&starved_looks, 1);
	return atomic_compare_exchange_strong(&starved_left, &left, left - 1);
}

#define ppoll spy_ppoll
#define starve_look spy_starve_look
#include "../../src/link/core/agent.c"
#undef ppoll
#undef starve_look

#define WAIT_NS (5 * NS_PER_SEC) /* far more than anything here takes */

static struct lock lock;
static struct link_room room;
static struct link_node *node;
static struct link_port *port;
static uint32_t frames, services; /* under the lock */
static uint64_t owner_deadline;
static _Atomic uint32_t flood_left, passes; /* passes that find something, whatever came; and those that were */
static int sock;

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	(void)ctx, (void)peer, (void)frame, (void)len;
	frames++;
	return 0;
}

static void on_done(void *ctx, void *cookie, int status)
{
	(void)ctx, (void)cookie, (void)status;
}

static const struct link_ops ops = {on_frame, on_done, on_done};

static void service(void *ctx)
{
	(void)ctx;
	services++;
	lock_assert_held(&lock);
	for (struct link_port *p = node->ports; p; p = p->next)
		link_poll(p);
	if (atomic_load(&flood_left)) {
		uint64_t end = clk_now_ns(NULL) + 5 * NS_PER_MS;

		atomic_fetch_sub(&flood_left, 1);
		atomic_fetch_add(&passes, 1);
		port->events++;
		while (clk_now_ns(NULL) < end)
			;
		return;
	}
	if (owner_deadline <= clk_now_ns(NULL))
		owner_deadline = CLK_NEVER;
}

static uint64_t next_deadline(void *ctx)
{
	(void)ctx;
	return owner_deadline;
}

static int setup(void **state)
{
	struct link_node_attr na = {
		.lock = &lock, .room = &room, .service = service, .next_deadline = next_deadline};
	struct link_port_attr pa = {.ip = {[10] = 0xff, 0xff, 127, 0, 0, 1},
				    .nonce = 5,
				    .cls = LINK_RELIABLE,
				    .ops = &ops};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.attach_rc = -ENOENT;
	fake.rel_deadline = owner_deadline = CLK_NEVER;
	frames = services = 0;
	assert_int_equal(link_room_parse("linger=10ms", &room, NULL, 0), 0);
	assert_int_equal(link_node_open(&na, &node), 0);
	pa.node = node;
	lock_acquire(&lock);
	assert_int_equal(link_port_open(&pa, &port), 0);
	to.sin_port = htons(link_port_addr(port)->port);
	lock_release(&lock);
	sock = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&to, sizeof(to)), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(sock);
	lock_acquire(&lock);
	link_port_close(port);
	lock_release(&lock);
	link_node_close(node);
	return 0;
}

static uint32_t read_locked(const uint32_t *v)
{
	uint32_t x;

	lock_acquire(&lock);
	x = *v;
	lock_release(&lock);
	return x;
}

static bool await_armed(void)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	while (!(atomic_load(&node->armed) & AGENT_SLEEPS) && clk_now_ns(NULL) < end)
		sched_yield();
	return atomic_load(&node->armed) & AGENT_SLEEPS;
}

#define T_(fn_) cmocka_unit_test_setup_teardown(fn_, setup, teardown)

#endif
