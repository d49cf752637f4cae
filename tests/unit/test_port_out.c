// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/core/port_out.c.
#include "port_fix.h"

static void send__network_when_no_segment(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer = peer_get(&a);

	(void)state;
	assert_int_equal(send1(peer, &a), 0);
	assert_int_equal(fake.rel_sends, 1);
	assert_false(link_peer_is_local(peer));
	fake.attach_rc = 0; /* chosen once and for all, for the sake of order */
	assert_int_equal(send1(peer, &a), 0);
	assert_int_equal(fake.rel_sends, 2);
	assert_int_equal(port->stats.tx_frames, 2);
	assert_int_equal(port->stats.tx_bytes, 216);
	assert_int_equal(port->stats.net_tx_frames, 2);
	assert_int_equal(link_next_deadline(port), 0); /* something is held back */
	link_doorbell(port);
	assert_int_equal(fake.rel_flushes, 1);
	assert_int_equal(fake.bulk_offers, 1); /* what was announced leaves with its frame */
	link_doorbell(port);
	assert_int_equal(fake.rel_flushes, 1);
	assert_int_equal(fake.bulk_offers, 1);
	assert_true(link_next_deadline(port) == CLK_NEVER);
}

/* What is borrowed has left when it is given back, even where a doorbell would wait for more. */
static void send__borrowed(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer = peer_get(&a);

	(void)state;
	link_borrow(port);
	assert_true(port->is_borrowing);
	assert_int_equal(send1(peer, &a), 0);
	assert_int_equal(fake.carrier_flushes, 0);
	link_borrow_end(port);
	assert_false(port->is_borrowing);
	assert_int_equal(fake.carrier_flushes, 1);
	link_doorbell(port);
	link_borrow(port); /* nothing is held back */
	link_borrow_end(port);
	assert_int_equal(fake.carrier_flushes, 1);
}

static void send__shared_memory_when_it_opens(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer = peer_get(&a);

	(void)state;
	fake.attach_rc = 0;
	assert_int_equal(send1(peer, &a), 0);
	assert_true(link_peer_is_local(peer));
	assert_int_equal(fake.shm_sends, 1);
	assert_int_equal(fake.rel_sends, 0);
	assert_int_equal(fake.last_shm.kind, LINK_K_NIC);
	assert_ptr_equal(fake.last_shm.cookie, &a);
	assert_int_equal(port->stats.net_tx_frames, 0);
	assert_int_equal(port_frame_out(port, peer, LINK_K_BULK, NULL, 0, NULL, 0, &a), 0);
	assert_int_equal(port->stats.tx_frames, 1); /* bulk is not the owner's */
}

static void send__raw_has_no_cookie(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);

	(void)state;
	reopen("linger=10ms", LINK_RAW);
	fake.attach_rc = 0;
	assert_int_equal(send1(peer_get(&a), &a), 0);
	assert_null(fake.last_shm.cookie);
}

/* What may be late is for no doorbell to push out, and leaves with what is not. */
static void send__late(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer;
	uint32_t before;

	(void)state;
	reopen("linger=10ms", LINK_RAW);
	before = fake.rel_flushes;
	peer = peer_get(&a);
	assert_int_equal(link_send_late(port, peer, &a, 8), 0);
	assert_int_equal(fake.rel_lingers, 1);
	link_doorbell(port);
	assert_int_equal(fake.rel_flushes, before);
	/* who sleeps lets it out before: he has to arm again */
	port->armed = PORT_ARM_APP;
	fake.shm_armed = true;
	assert_true(link_is_armed(port));
	fake.is_lingering = true;
	assert_false(link_is_armed(port));
	fake.is_lingering = false;
	port->armed = 0;
	assert_int_equal(send1(peer, &a), 0);
	assert_int_equal(link_send_late(port, peer, &a, 8), 0); /* it does not hold up what was there before */
	assert_int_equal(fake.rel_lingers, 1);
	link_doorbell(port);
	assert_int_equal(fake.rel_flushes, before + 1);
	/* on this host there is nothing to wait for */
	fake.attach_rc = 0;
	a.port++;
	assert_int_equal(link_send_late(port, peer_get(&a), &a, 8), 0);
	assert_int_equal(fake.shm_sends, 1);
	assert_int_equal(fake.rel_lingers, 1);
}

static void send__faults_never_go_straight(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	struct link_peer *peer;

	(void)state;
	reopen("loss=1%;seed=1;linger=10ms", LINK_RELIABLE);
	fake.attach_rc = 0;
	peer = peer_get(&a);
	assert_int_equal(send1(peer, &a), 0);
	assert_false(link_peer_is_local(peer));
	assert_int_equal(fake.rel_sends, 1);
	assert_int_equal(fake.shm_sends, 1); /* but the datagram went through shared memory */
	assert_int_equal(port->stats.net_tx_dgrams, 1);
	peer_dies(peer, -ETIMEDOUT);
	assert_int_equal(fake.detached, 1);
}

static void send__too_long(void **state)
{
	struct link_addr a = addr4(LOOP, 1000, 1);
	static uint8_t body[LINK_FRAME_MAX];
	struct iovec iov = {body, LINK_FRAME_MAX - 8};

	(void)state;
	assert_int_equal(link_send(port, peer_get(&a), body, 8, &iov, 1, &a), 0);
	iov.iov_len++;
	assert_int_equal(link_send(port, peer_get(&a), body, 8, &iov, 1, &a), -EMSGSIZE);
	assert_int_equal(port->stats.tx_frames, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T_(send__network_when_no_segment),
		T_(send__borrowed),
		T_(send__shared_memory_when_it_opens),
		T_(send__raw_has_no_cookie),
		T_(send__late),
		T_(send__faults_never_go_straight),
		T_(send__too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
