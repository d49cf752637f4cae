// SPDX-License-Identifier: BSD-2-Clause
// A link in one process and in memory, for tests of the adapters: every answer that link.h allows
// can be ordered.
#ifndef SF_TESTS_UNIT_FAKE_LINK_H
#define SF_TESTS_UNIT_FAKE_LINK_H

#include "link/link.h"

/*
 * Frames move when the receiver polls, verdicts and bulk copies when the initiator polls. A counter
 * says how often an order is still to be followed; UINT_MAX for ever.
 */
struct fake_ctl {
	uint64_t now_ns; /* the node's clock */
	int send_rc;	 /* link_send() answers this ... */
	unsigned send_rc_cnt;
	int bulk_rc; /* link_bulk() answers this ... */
	unsigned bulk_rc_cnt;
	int verdict; /* frames are not delivered but end so ... */
	unsigned verdict_cnt;
	int bulk_verdict;
	unsigned bulk_verdict_cnt;
	unsigned stop_busy_cnt; /* so many times link_bulk_stop() has to be asked again */
	bool hold;	  /* nothing moves */
	bool is_sync;	  /* verdict orders and bulk copies end before link_send() or link_bulk()
			     returns */
	int port_rc, region_rc, peer_rc, node_rc, ip_rc,
		room_rc, connect_rc; /* != 0: what these calls answer */
	bool is_remote;	 /* peers are not local */
	bool has_direct; /* link_begin() has room */
	bool is_full;	 /* link_is_full() says so */
	bool is_forked;  /* link_forked() says so */
	/* what was seen */
	unsigned sends, directs, doorbells, bulks, polls;
	unsigned lates;    /* sends by link_send_late() */
	unsigned borrowed; /* sends between link_borrow() and link_borrow_end() */
	bool is_borrowing;
	int ports, peers, regions, nodes; /* alive */
	uint16_t last_port_no_shm;
};
extern struct fake_ctl g_fake;

/** fake_reset() - No orders, counts 0. Everything must be closed. */
void fake_reset(void);
/** fake_inject() - Show @to a frame as if the port at @from had sent it. Return: what on_frame
 * said. */
int fake_inject(struct link_port *to, const struct link_addr *from, const void *buf, size_t len);
/** fake_write() - As if peers of @to had written @len bytes more to its regions, which link_peer_wrote() counts. */
void fake_write(struct link_port *to, uint64_t len);
/** fake_gone() - Tell @to that the process at @from is gone. */
void fake_gone(struct link_port *to, const struct link_addr *from, int status);
/** fake_port() - The open port with that number; NULL. */
struct link_port *fake_port(uint16_t number);
/** fake_poll_all() - What the adapter thread would do: the service function of every node, once,
 * the node's lock held. */
void fake_poll_all(void);
/** fake_stats() - The port's counters, to be written. */
struct link_stats *fake_stats(struct link_port *p);
/** fake_deadline() - What the node's owner answers to next_deadline(). */
uint64_t fake_deadline(void);

#endif
