// SPDX-License-Identifier: BSD-2-Clause
// What surrounds the initiator of the soft Cassini adapter, for its tests: a link that keeps frames, peers, a target
// that writes down.
#ifndef SF_TESTS_UNIT_CASSINI_INIFAKE_H
#define SF_TESTS_UNIT_CASSINI_INIFAKE_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "nic/cassini/cassini_int.h"

#define FAKE_SENT_MAX 64
#define FAKE_PEERS    4
#define FAKE_NIC      0x12345u
#define FAKE_VNI      10

struct fake_sent {
	struct cassini_work *work;
	struct link_peer *peer;
	uint32_t len;
	bool is_one; /* by link_commit() */
	uint8_t buf[LINK_FRAME_MAX];
};

struct fake_region {
	const void *addr;
	size_t len;
	unsigned rights;
	bool is_live;
};

struct inifake {
	/* orders */
	int send_rc; /* link_send() answers this ... */
	unsigned send_rc_cnt;
	bool is_sync; /* a frame ends with sync_status before link_send() returns */
	int sync_status;
	int region_rc, peer_rc;
	bool has_direct; /* link_begin() has room */
	bool is_far; /* peers have no memory on this host */
	bool is_local; /* link_bulk_is_direct() */
	int offers_missed;
	size_t offered; /* the last link_offer(); a target fetches it in one piece */
	/* what was seen */
	struct fake_sent sent[FAKE_SENT_MAX];
	unsigned sents, doorbells, peer_gets, gone;
	struct fake_region region[FAKE_SENT_MAX];
	unsigned regions, regions_live;
	unsigned get_events;
	uint32_t get_initiator;
	uint64_t get_bits;
	uint8_t get_rc;
	uint64_t now_ns; /* of the node's clock */
	unsigned directs, directs_out; /* sent; of which not ended, as the test says */
	const struct link_port *busy_port; /* another one, which does not come to rest */
	uint8_t direct[LINK_FRAME_MAX]; /* the last one */
	size_t direct_len;
	uint64_t direct_tag;
};
extern struct inifake g_inifake;

/* One of everything. */
struct world {
	struct lock lock;
	struct cassini nic;
	struct cassini_lni lni;
	struct cassini_cp *cp;
	struct cassini_dom dom;
	struct cassini_peer peer[FAKE_PEERS]; /* by PID */
	struct cassini_eq *eq;
	struct cassini_cmdq *cq;
	uint8_t mem[65536];
	int64_t live;
};

/** world_open() - An EQ of @slots and a queue of @depth, which may have triggers. */
void world_open(struct world *w, uint32_t slots, uint32_t depth);
/** world_close() - Nothing may be left: no event, claim, operation, region, resource. */
void world_close(struct world *w);
/** cmd_of() - A command to PID 1 from w->mem. user_ptr is @len. */
struct cassini_cmd cmd_of(struct world *w, enum cassini_opcode opcode, unsigned pid_idx, uint32_t len, uint32_t flags);
int post(struct world *w, enum cassini_opcode opcode, unsigned pid_idx, uint32_t len, uint32_t flags);
/** sent_end() - Frame @i, as counted from 0, ends with @status. */
void sent_end(unsigned i, int status);
/** sent_pkt() - Frame @i as the peer reads it. */
struct cassini_pkt_in sent_pkt(unsigned i);
/** answer() - PID 1 answers frame @i. */
void answer(struct world *w, unsigned i, uint8_t rc, uint8_t list, const void *data, uint32_t len);
/** expect_event() - The oldest event is this one; it is taken. */
void expect_event(struct world *w, enum cassini_event_type type, enum cassini_rc rc, uint64_t user_ptr);
void expect_none(struct world *w);

#endif
