// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/core/port.c and link/core/peer.c over real sockets and the stand-ins of link_fake.h.
#include "port_fix.h"

#include <malloc.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- peers ----------------------------------------------------------------------------------- */

static void peer_get__same_address_same_peer(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1), b = addr4(LOOP, 1000, 2),
			 c = addr4(LOOP + 1, 1000, 1);
	struct link_peer *pa = peer_get(&a);
	int user;

	(void)state;
	assert_ptr_equal(link_peer_find(port, &a), pa);
	assert_null(link_peer_find(port, &b));
	assert_ptr_equal(peer_get(&a), pa);
	assert_ptr_not_equal(peer_get(&b), pa); /* the nonce is part of the address */
	assert_ptr_not_equal(peer_get(&c), pa);
	assert_ptr_equal(port_peer_in(port, &a), pa);
	assert_memory_equal(link_peer_addr(pa), &a, sizeof(a));
	assert_null(link_peer_user(pa));
	link_peer_set_user(pa, &user);
	assert_ptr_equal(link_peer_user(pa), &user);
}

static void peer_get__loopback_port_refuses_other_hosts(void **state)
{
	struct link_addr far = addr4(0x0a000001, 1000, 1), v6 = {.ip = {[15] = 1}, .port = 3};
	struct link_peer *peer;

	(void)state;
	assert_int_equal(link_peer_get(port, &far, &peer), -ENETUNREACH);
	assert_int_equal(link_peer_get(port, &far, &peer), -ENETUNREACH);
	assert_int_equal(warns, 1);
	assert_non_null(strstr(last_warn, "if="));
	assert_non_null(strstr(last_warn, "10.0.0.1"));
	assert_int_equal(link_peer_get(port, &v6, &peer), 0); /* ::1 is this host */
}

/* Two hosts that both are on loopback: the peer's address is ours and nobody has it. */
static void peer_dead__names_the_key_on_loopback(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1), b = addr4(LOOP, 1001, 1);
	struct link_peer *met = peer_get(&a), *never = peer_get(&b);

	(void)state;
	met->is_met = true;
	peer_dies(met, -ECONNREFUSED); /* it was there and has left: how every job ends */
	assert_int_equal(warns, 0);
	peer_dies(never, -ECONNREFUSED);
	assert_int_equal(warns, 1);
	assert_non_null(strstr(last_warn, "no adapter with this address on this host"));
	assert_non_null(strstr(last_warn, "if="));
	assert_non_null(strstr(last_warn, "1001"));
	b.port++;
	peer_dies(peer_get(&b), -ECONNREFUSED); /* once is enough */
	assert_int_equal(warns, 1);
}

/* Where peers are places, their numbers tell hosts on loopback apart: who is looked for here has been here. */
static void peer_dead__place_is_of_this_host(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 0);

	(void)state;
	port->by_place = true;
	peer_dies(peer_get(&a), -ECONNREFUSED);
	peer_dies(peer_get(&a), -EHOSTUNREACH);
	assert_int_equal(warns, 1);
	assert_null(strstr(last_warn, "if="));
}

/* Who was reached in shared memory and was killed is missed over the network: no sign of another host. */
static void peer_dead__was_in_shared_memory(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 0);
	struct link_peer *peer;

	(void)state;
	reopen("shm,udp;linger=10ms", LINK_RAW);
	peer = peer_get(&a);
	fake.attach_rc = 0;
	assert_int_equal(send1(peer, NULL), 0);
	assert_non_null(peer->shm);
	peer_dies(peer, -ECONNREFUSED);
	assert_null(peer->shm);
	assert_int_equal(peer->dead, 0); /* whoever opens there next is meant as well */
	peer_dies(peer, -ECONNREFUSED);
	link_peer_put(peer);
	for (int i = 0; i < 2000; i++) { /* it is asked for again and again */
		peer = peer_get(&a);
		peer_dies(peer, -ECONNREFUSED);
		link_peer_put(peer);
	}
	for (uint32_t i = 0; i < PORT_TICK_POLLS; i++)
		link_poll(port);
	a.nonce = 7; /* nor of a later one there */
	peer_dies(peer_get(&a), -ECONNREFUSED);
	assert_int_equal(warns, 0);
}

static void peer_get__without_udp(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer;

	(void)state;
	reopen("shm;linger=10ms", LINK_RELIABLE);
	peer = peer_get(&a);
	assert_int_equal(send1(peer, &a), -ECONNREFUSED); /* no segment, no other path */
	assert_int_equal(send1(peer, &a), -ECONNREFUSED);
	assert_int_equal(port->stats.peers_dead, 1);
	assert_int_equal(fake.rel_sends, 0);
	assert_int_equal(sents, 0);
	fake.attach_rc = -ENOSPC;
	a.nonce = 2;
	assert_int_equal(send1(peer_get(&a), &a), -EHOSTUNREACH);
	fake.attach_rc = 0;
	a.nonce = 3;
	assert_int_equal(send1(peer_get(&a), &a), 0);
	assert_int_equal(fake.shm_sends, 1);
}

static void peer_tab__100k_peers(void **state)
{
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, after;
	struct link_addr a = addr4(LOOP, 0, 7);
	const uint32_t cnt = 100000;
	uint32_t chain_max = 0, chain;
	double per_peer;

	(void)state;
	for (uint32_t i = 0; i < cnt; i++) {
		a.port = (uint16_t)i;
		a.nonce = i >> 16;
		peer_get(&a);
	}
	assert_int_equal(port->peer_cnt, cnt);
	after = mallinfo2().uordblks + mallinfo2().hblkhd;
	per_peer = (double)(after - before) / cnt;
	for (uint32_t i = 0; i <= port->peer_mask; i++) {
		chain = 0;
		for (struct link_peer *p = port->peer_tab[i]; p; p = p->hnext)
			chain++;
		chain_max = MAX(chain_max, chain);
	}
	print_message("100000 peers: %.1f bytes each, longest chain %u\n", per_peer, chain_max);
	if (after) /* a sanitizer's allocator counts nothing */
		assert_true(per_peer > 40 && per_peer <= 118);
	assert_true(chain_max < 16);
	for (uint32_t i = 0; i < cnt; i += 997) {
		a.port = (uint16_t)i;
		a.nonce = i >> 16;
		assert_non_null(port_peer_find(port, &a));
	}
}

static void peer_in__bounded(void **state)
{
	struct link_addr a = addr4(LOOP, 9, 9);

	(void)state;
	port->peer_cnt = STRANGERS_MAX;
	assert_null(port_peer_in(port, &a));
	assert_int_equal(port->stats.drop_full, 1);
	port->peer_cnt = 0;
	mem_fail_nth(1);
	assert_null(port_peer_in(port, &a)); /* out of memory */
	assert_non_null(port_peer_in(port, &a));
	assert_int_equal(port->peer_cnt, 1);
}

static void peer_put__swept_when_unused(void **state)
{
	struct link_addr a = addr4(LOOP, 0, 7);
	struct link_peer *v[5000];

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(v); i++) {
		a.port = (uint16_t)(i + 1);
		v[i] = peer_get(&a);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(v); i++)
		if (i != 17)
			link_peer_put(v[i]);
	v[40]->rel = (struct rel_peer *)v;		 /* has state on a path */
	assert_int_equal(port->peer_cnt, ARRAY_SIZE(v)); /* never from within a callback */
	for (uint32_t i = 0; i < PORT_TICK_POLLS; i++)
		link_poll(port);
	assert_int_equal(port->peer_cnt, 2);
	a.port = 18;
	assert_ptr_equal(port_peer_find(port, &a), v[17]);
	a.port = 41;
	assert_ptr_equal(port_peer_find(port, &a), v[40]);
}

static void peer_dead__once(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer = peer_get(&a);

	(void)state;
	fake.attach_rc = 0;
	assert_int_equal(send1(peer, &a), 0);
	fake.rel_cookie = &a;
	peer_dies(peer, -ETIMEDOUT);
	peer_dies(peer, -ECONNREFUSED);
	assert_int_equal(send1(peer, &a), -ETIMEDOUT);
	assert_int_equal(port->stats.peers_dead, 1);
	assert_int_equal(fake.detached, 1);
	assert_int_equal(fake.rel_drops, 1);
	assert_int_equal(fake.bulk_deaths, 1);
	assert_int_equal(sents, 1);
	assert_int_equal(last_status, -ETIMEDOUT);
	assert_int_equal(warns, 1);
	assert_non_null(strstr(last_warn, "127.0.0.1:1000"));
	assert_non_null(strstr(last_warn, "silent"));
	assert_false(link_peer_is_local(peer));
	assert_int_equal(node->local_cnt, 0);
}

/* --- in -------------------------------------------------------------------------------------- */

static void deliver__by_kind(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer = peer_get(&a);
	const uint8_t *hello = (const uint8_t *)"hello";

	(void)state;
	frame_answer = 9;
	assert_int_equal(port_deliver(port, peer, LINK_K_NIC, hello, 5), 9);
	assert_int_equal(frames, 1);
	assert_int_equal(port->stats.rx_bytes, 5);
	assert_int_equal(port_deliver(port, peer, LINK_K_BULK, hello, 5), 0);
	assert_int_equal(fake.bulk_frames, 1);
	assert_int_equal(port_deliver(port, peer, (enum link_kind)77, hello, 5), 0);
	assert_int_equal(port->stats.drop_malformed, 1);
	assert_int_equal(frames, 1);
	port->up->sent(port, LINK_K_NIC, NULL, 0);
	assert_int_equal(sents, 0);
}

static struct link_addr addr_of_port(const struct link_port *p)
{
	return *link_port_addr(p);
}

static void poll__datagram_reaches_rel(void **state)
{
	struct link_port *other;
	struct link_addr dst;
	uint64_t end = clk_now_ns(NULL) + 2 * NS_PER_SEC;

	(void)state;
	assert_int_equal(port_try(LINK_RELIABLE, &other), 0);
	dst = addr_of_port(other);
	assert_int_equal(dst.nonce, 5);
	assert_int_equal(send1(peer_get(&dst), &dst), 0);
	link_doorbell(port);
	while (!fake.rel_inputs && clk_now_ns(NULL) < end)
		link_poll(other);
	assert_int_equal(fake.rel_inputs, 1);
	assert_int_equal(frames, 1);
	assert_int_equal(fake.last_src.port, addr_of_port(port).port);
	link_port_close(other);
	/* and once it is closed, the sender learns it */
	assert_int_equal(send1(peer_get(&dst), &dst), 0);
	link_doorbell(port);
	fake.rel_outstanding = 1;
	while (!fake.rel_refusals && clk_now_ns(NULL) < end)
		link_poll(port);
	assert_true(fake.rel_refusals >= 1);
	assert_int_equal(fake.last_src.port, dst.port);
	fake.rel_outstanding = 0;
}

static int net_polls;
static const struct carrier_ops *real_ops;

static int count_poll(struct carrier *c, int budget)
{
	net_polls++;
	return real_ops->poll(c, budget);
}

static void poll__sockets_every_16th_idle_pass(void **state)
{
	struct carrier_ops counting = *port->net->ops;

	(void)state;
	real_ops = port->net->ops;
	counting.poll = count_poll;
	port->net->ops = &counting;
	net_polls = 0;
	for (int i = 0; i < 1600; i++)
		assert_int_equal(link_poll(port), 0);
	assert_in_range(net_polls, 100, 101);
	fake.rel_outstanding = 1;
	net_polls = 0;
	for (int i = 0; i < 100; i++)
		link_poll(port);
	assert_int_equal(net_polls, 100);
	fake.rel_outstanding = 0;
	port->net->ops = real_ops;
}

static uint32_t flushes_then; /* rel's, when the carrier was polled last */

static int note_flushes(struct carrier *c, int budget)
{
	flushes_then = fake.rel_flushes;
	return real_ops->poll(c, budget);
}

/* A look at an empty socket flushes only what is due; and what was posted before leaves before the look. */
static void poll__flushes_what_is_due(void **state)
{
	struct carrier_ops noting = *port->net->ops;
	struct link_addr a = addr4(LOOP, 1000, 1);
	uint32_t before = fake.rel_flushes;

	(void)state;
	real_ops = port->net->ops;
	noting.poll = note_flushes;
	port->net->ops = &noting;
	fake.rel_outstanding = 1;
	fake.rel_deadline = clk_now_ns(NULL) + 3600 * NS_PER_SEC;
	for (int i = 0; i < 100; i++)
		link_poll(port);
	assert_int_equal(fake.rel_flushes, before);
	fake.rel_deadline = clk_now_ns(NULL);
	link_poll(port);
	assert_int_equal(fake.rel_flushes, before + 1);
	assert_int_equal(flushes_then, before);
	fake.rel_deadline = CLK_NEVER;
	assert_int_equal(send1(peer_get(&a), &a), 0);
	link_poll(port);
	assert_int_equal(fake.rel_flushes, before + 2);
	assert_int_equal(flushes_then, before + 2);
	fake.rel_outstanding = 0;
	port->net->ops = real_ops;
}

static int shm_works(void)
{
	return 3;
}

static void poll__work_resets_idle_count(void **state)
{
	(void)state;
	atomic_store(&node->idle_polls, 99);
	assert_int_equal(link_poll(port), 0);
	assert_int_equal(atomic_load(&node->idle_polls), 99);
	fake.on_shm_poll = shm_works;
	assert_int_equal(link_poll(port), 3);
	assert_int_equal(atomic_load(&node->idle_polls), 0);
}

static void poll__timers_and_bulk(void **state)
{
	(void)state;
	for (int i = 0; i < 640; i++)
		link_poll(port);
	assert_int_equal(fake.shm_timers, 10);
	assert_int_equal(fake.shm_nudges, 10);
	idle_crowd(node); /* whoever waits for a CPU lets the others' threads be */
	for (int i = 0; i < 640; i++)
		link_poll(port);
	assert_int_equal(fake.shm_timers, 20);
	assert_int_equal(fake.shm_nudges, 10);
	assert_int_equal(fake.bulk_polls, 0);
	fake.bulk_outstanding = 1;
	port->bulk_due = true;
	link_poll(port);
	node->left_ns = 0; /* a test that is not scheduled for a while makes no pause */
	link_poll(port);
	assert_int_equal(fake.bulk_polls, 2);
	fake.bulk_outstanding = 0;
	node->left_ns = 0;
	link_poll(port);
	link_poll(port);
	assert_int_equal(fake.bulk_polls, 3); /* the one that found out */
}

/* What a poll asks for shuts the gate, and polls that pass by it count as polls. */
static void calm__shut_by_what_is_due(void **state)
{
	uint32_t ticks = fake.shm_timers;
	struct calm c = {0};

	(void)state;
	link_poll(port);
	port->rest_due = 0;
	calm_begin(&c);
	assert_true(link_calm(port, &c, 0));
	port->bulk_due = true;
	assert_false(link_calm(port, &c, 0));
	port->bulk_due = false;
	port->net_look = true; /* the adapter's thread has seen something there */
	assert_false(link_calm(port, &c, 0));
	port->net_look = false;
	port->armed |= PORT_ARM_AGENT; /* or sleeps */
	assert_false(link_calm(port, &c, 0));
	port->armed &= (uint8_t)~PORT_ARM_AGENT;
	atomic_store(&node->armed, 1);
	assert_false(link_calm(port, &c, 0));
	atomic_store(&node->armed, 0);
	for (int i = 0; i < 20; i++) {
		link_poll(port);
		port->rest_due = 0;
		assert_true(link_calm(port, &c, CALM_ROW - 1));
	}
	assert_int_equal(fake.shm_passed, 20 * (CALM_ROW - 1));
	assert_in_range(fake.shm_timers - ticks, 9, 11);
}

#define MOVES	     10
#define MAKE_UP_IDLE (50 * NS_PER_US) /* less than MAKE_UP_IDLE_NS */

/* Copies for MOVES polls are under way; the last one was @pause_ns ago, 0: not known. Return: polls in one. */
static uint32_t poll_after(uint64_t pause_ns)
{
	fake.bulk_polls = 0;
	fake.bulk_outstanding = 1;
	fake.bulk_moves = MOVES;
	port->bulk_due = true;
	node->left_ns = pause_ns ? clk_now_ns(&node->clk) - pause_ns : 0;
	link_poll(port);
	return fake.bulk_polls;
}

/* A program that computes between its polls gets done in one what would have been done meanwhile. */
static void poll__makes_up_for_a_pause(void **state)
{
	uint64_t begin = clk_now_ns(&node->clk);
	uint32_t polls = 0;

	(void)state;
	assert_int_equal(poll_after(0), 1);
	assert_true(node->left_ns >= begin);
	for (int i = 0; i < 1000 && polls != MOVES; i++) /* one that is not scheduled for a while has no time left */
		polls = poll_after(NS_PER_SEC);
	assert_int_equal(polls, MOVES);
	assert_int_equal(node->left_ns, 0);
	assert_false(port->makes_up);
	port->armed |= PORT_ARM_SERVED;
	assert_int_equal(poll_after(NS_PER_SEC), 1);
	port->armed = 0;
	/* nothing comes: it returns */
	fake.bulk_outstanding = 1;
	fake.bulk_moves = 0;
	port->bulk_due = true;
	begin = clk_now_ns(&node->clk);
	node->left_ns = begin - NS_PER_SEC;
	assert_int_equal(link_poll(port), 0);
	assert_true(node->left_ns >= begin + MAKE_UP_IDLE); /* what it has waited for is no pause of the program */
	/* nor does anybody else have to wait for it */
	atomic_store(&lock.wanted, 1);
	assert_int_equal(poll_after(NS_PER_SEC), 1);
	atomic_store(&lock.wanted, 0);
	fake.bulk_outstanding = fake.bulk_moves = 0;
}

/* The adapter thread's polls are none of the application's, and the timers have their turn in each of them. */
static void poll__by_the_agent(void **state)
{
	uint64_t epoch = atomic_load(&node->poll_epoch);
	uint32_t timers = fake.shm_timers;

	(void)state;
	port->armed |= PORT_ARM_SERVED;
	for (int i = 0; i < 3; i++)
		link_poll(port);
	assert_int_equal(atomic_load(&node->poll_epoch), epoch);
	assert_int_equal(fake.shm_timers, timers + 3);
	port->armed = PORT_ARM_WOKEN;
	link_poll(port);
	link_poll(port);
	assert_int_equal(port->armed, 0);
	assert_int_equal(atomic_load(&node->poll_epoch), epoch + 2);
	assert_int_equal(fake.shm_timers, timers + 3);
}

/* Whoever polls may be another thread than the one that sleeps. */
static void arm__outlasts_polls(void **state)
{
	(void)state;
	fake.shm_arm_rc = -EAGAIN;
	assert_int_equal(link_arm(port), -EAGAIN);
	assert_int_equal(port->armed, 0); /* nobody else sleeps who would have to be woken */
	fake.shm_arm_rc = 0;
	assert_int_equal(link_arm(port), 0);
	assert_int_equal(fake.shm_armed, 1);
	link_poll(port);
	assert_int_equal(fake.shm_disarms, 0);
	assert_int_equal(port->armed, PORT_ARM_APP);
	fake.shm_arm_rc = -EAGAIN;
	assert_int_equal(link_arm(port), -EAGAIN);
	assert_int_equal(port->armed, PORT_ARM_WOKEN | PORT_ARM_CALLED); /* for the one of the first link_arm() */
	link_poll(port);
	assert_int_equal(port->armed, PORT_ARM_CALLED);
	assert_true(link_wait_fd(port) >= 0);
	assert_int_equal(link_wait_fd(port), link_wait_fd(port));
}

/*
 * Who arms and is told to look again may find what he waits for and never come back. Whom else the eventfd was to wake
 * may not have run yet.
 */
static void arm__failed_leaves_the_eventfd(void **state)
{
	struct pollfd pfd = {.events = POLLIN};

	(void)state;
	pfd.fd = link_wait_fd(port);
	for (int is_bulk = 0; is_bulk < 2; is_bulk++) {
		assert_int_equal(link_arm(port), 0);
		assert_int_equal(poll(&pfd, 1, 0), 0);
		link_wake(port);
		link_poll(port);
		assert_int_equal(poll(&pfd, 1, 0), 1);
		fake.shm_arm_rc = is_bulk ? 0 : -EAGAIN;
		fake.bulk_outstanding = (uint32_t)is_bulk;
		fake.is_bulk_due = is_bulk;
		assert_int_equal(link_arm(port), -EAGAIN);
		assert_int_equal(poll(&pfd, 1, 0), 1);
		fake.shm_arm_rc = 0;
		fake.bulk_outstanding = 0;
		fake.is_bulk_due = false;
		link_poll(port);
	}
	assert_int_equal(link_arm(port), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
}

/* --- open and close -------------------------------------------------------------------------- */

static void close__bounded_by_linger(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	uint64_t begin = clk_now_ns(NULL), took;

	(void)state;
	assert_int_equal(send1(peer_get(&a), &a), 0);
	fake.rel_owes = true;
	link_port_close(port);
	took = clk_now_ns(NULL) - begin;
	assert_true(took >= 30 * NS_PER_MS && took < 3 * NS_PER_SEC);
	assert_int_equal(sents, 1);
	assert_ptr_equal(last_cookie, &a);
	assert_int_equal(last_status, -ECANCELED);
	fake.rel_owes = false;
	assert_int_equal(port_try(LINK_RELIABLE, &port), 0); /* for teardown */
}

static void close__null_and_rest_by_node(void **state)
{
	struct link_port *other;

	(void)state;
	link_port_close(NULL);
	link_node_close(NULL);
	assert_int_equal(port_try(LINK_RELIABLE, &other), 0);
	assert_ptr_equal(node->ports, other);
	link_port_close(other);
	assert_ptr_equal(node->ports, port);
	assert_int_equal(port_try(LINK_RELIABLE, &other), 0); /* left to link_node_close() */
}

static void open__address_in_use(void **state)
{
	struct link_port_attr pa = {.node = node, .nonce = 5, .cls = LINK_RELIABLE, .ops = &ops};
	struct link_port *other;

	(void)state;
	memcpy(pa.ip, port->self.ip, 16);
	pa.port = port->self.port;
	assert_int_equal(link_port_open(&pa, &other), -EADDRINUSE);
	assert_int_equal(warns, 0); /* the caller may be looking for a free one */
}

static void open__survives_every_failed_allocation(void **state)
{
	int64_t live = mem_live_count();
	struct link_port *other;
	int rc = -ENOMEM;
	uint64_t n = 0;

	(void)state;
	while (rc) {
		mem_fail_nth(++n);
		rc = port_try(LINK_RELIABLE, &other);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(mem_live_count(), live);
		}
	}
	mem_fail_nth(0);
	assert_true(n > 4);
	link_port_close(other);
	assert_int_equal(mem_live_count(), live);
}

static void forked__only_in_child(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	assert_false(link_forked(node));
	pid = unit_fork();
	if (!pid) {
		bool known = link_forked(node);

		link_port_close(port); /* must touch nothing */
		link_node_close(node);
		_exit(known ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_false(link_forked(node));
	link_poll(port);
}

static void addr_text(void **state)
{
	struct link_addr a = addr4(0xc0000201, 5000, 1),
			 b = {.ip = {0xfd, [15] = 2}, .port = 65535};
	char text[LINK_ADDR_TEXT];

	(void)state;
	assert_string_equal(link_addr_text(&a, text), "192.0.2.1:5000");
	assert_string_equal(link_addr_text(&b, text), "[fd00::2]:65535");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T_(peer_get__same_address_same_peer),
		T_(peer_get__loopback_port_refuses_other_hosts),
		T_(peer_dead__place_is_of_this_host),
		T_(peer_dead__was_in_shared_memory),
		T_(peer_dead__names_the_key_on_loopback),
		T_(peer_get__without_udp),
		T_(peer_tab__100k_peers),
		T_(peer_in__bounded),
		T_(peer_put__swept_when_unused),
		T_(peer_dead__once),
		T_(deliver__by_kind),
		T_(poll__datagram_reaches_rel),
		T_(poll__sockets_every_16th_idle_pass),
		T_(poll__flushes_what_is_due),
		T_(poll__work_resets_idle_count),
		T_(poll__timers_and_bulk),
		T_(calm__shut_by_what_is_due),
		T_(poll__makes_up_for_a_pause),
		T_(poll__by_the_agent),
		T_(arm__outlasts_polls),
		T_(arm__failed_leaves_the_eventfd),
		T_(close__bounded_by_linger),
		T_(close__null_and_rest_by_node),
		T_(open__address_in_use),
		T_(open__survives_every_failed_allocation),
		T_(forked__only_in_child),
		T_(addr_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
