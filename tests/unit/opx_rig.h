// SPDX-License-Identifier: BSD-2-Clause
// Test rig: the reliability of several opx endpoints over an adapter of the test's own: one wire in memory, virtual
// time, seeded faults, and a model that knows what each endpoint must be given.
#ifndef SF_TESTS_UNIT_OPX_RIG_H
#define SF_TESTS_UNIT_OPX_RIG_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "prov/opx/flow/opx_flow.h"
#include "prov/opx/flow/opx_flow_int.h"

#define RIG_MAX      3
#define RIG_LATENCY  (2 * NS_PER_US)
#define RIG_LATE     (10 * NS_PER_US) /* that a packet of hfi_pio_send_late() waits, with no other to leave with */
#define RIG_POLL     200 /* ns that a round of polling takes */
#define RIG_RING     8
#define RIG_PARKED   4096
#define RIG_DEAD     (2 * NS_PER_SEC)

/* Where the endpoints are: on several hosts; on one; on one and known to admit each other (hfi_dst_admits()). */
enum { RIG_FAR, RIG_LOCAL, RIG_NEAR, RIG_WHERE_NUM };

struct rig;
struct rig_node;

/* --- the adapter's objects ---------------------------------------------------------------------------------------- */

struct hfi {
	struct rig *g;
	bool is_down;
};

extern uint64_t rig_clock_reads; /* how often anybody has asked for the time */

struct hfi_ctxt {
	struct rig_node *n;
	struct hfi_ctxt_info info;
	enum hfi_sdma_status sdma_st[RIG_RING];
	struct rig_sdma {
		struct hfi_sdma_req req;
		struct iovec iov[HFI_IOV_MAX];
		uint32_t sent;
	} sdma[RIG_RING];
	uint32_t sdma_head, sdma_cnt;
	bool is_stalled; /* SDMA makes no progress */
};

struct hfi_dst {
	struct rig_node *from;
	uint32_t to, refs;
	void *user;
};

/* A packet on the wire, or parked in a header queue. */
struct rig_pkt {
	TAILQ_ENTRY(rig_pkt) link;
	uint64_t at;
	uint32_t from, to;
	bool is_local;
	struct hfi_hdr hdr;
	uint32_t len;
	uint8_t data[];
};
TAILQ_HEAD(rig_pkts, rig_pkt);

/* --- the model ---------------------------------------------------------------------------------------------------- */

struct opx_op {
	struct rig_node *n;
	uint8_t *mem;
	uint32_t refs, retired;
	LIST_ENTRY(opx_op) link;
};

struct rig_peer {
	struct opx_flow f;
	bool is_used, is_blocked;  /* blocked: -FI_EAGAIN, and room() has not been called since */
	uint32_t tx_stream, tx_id; /* next to post */
	uint32_t rx_stream, rx_id; /* next to be delivered */
	uint32_t want;             /* packets still to be posted */
	uint32_t delivered, rooms, deads;
	enum opx_status why;
};

struct rig_node {
	struct rig *g;
	uint32_t idx, life;
	struct hfi hfi;
	struct hfi_ctxt hw;
	struct opx_rel *rel;
	struct hfi_dst *dst[RIG_MAX];
	struct rig_peer peer[RIG_MAX];
	struct rig_pkts parked;
	uint32_t parked_cnt;
	LIST_HEAD(, opx_op) ops;
	uint64_t wire_data; /* data packets put on the wire */
	uint64_t retired;
	bool is_open, is_computing, is_asleep; /* asleep: neither it nor its service thread runs */
	bool refuses_strangers, refuses_place;
	bool gone[RIG_MAX]; /* to be told of at its next poll */
	int pio_err;        /* every packet ends so; 0 */
	uint64_t late_cnt;  /* packets that waited so */
};

enum rig_fate { RIG_PASS, RIG_DROP, RIG_DUP, RIG_DELAY };

struct rig {
	struct rng rng;
	uint64_t now;
	uint32_t cnt;
	struct rig_node n[RIG_MAX];
	struct rig_pkts wire;
	uint64_t sent; /* packets put on the wire, by anybody */
	bool is_bad;   /* the datagram begun at fate_at with packet fate_from is lost */
	uint64_t fate_at, fate_from;
	/* faults */
	double loss, dup, reorder, eagain;
	uint32_t burst;     /* so many packets in a row share the fate of the first, as those of one datagram do */
	uint64_t latency;   /* one way, ns */
	int64_t nth; /* this one meets its fate; -1: none */
	enum rig_fate fate;
	bool is_local, is_admitted, is_lenient, no_driver;
	bool wants_full;              /* hfi_pio_begin() has found no memory: hfi_pio_full() may be asked */
	uint32_t max_len;
	uint32_t usec_max, pre_ack;
	void (*on_deliver)(struct rig_node *n, uint32_t from); /* may be NULL */
};

static inline struct rig_peer *rig_peer(struct rig *g, uint32_t at, uint32_t of)
{
	return &g->n[at].peer[of];
}

static inline struct opx_flow *rig_flow(struct rig *g, uint32_t at, uint32_t of)
{
	return &g->n[at].peer[of].f;
}

static inline uint8_t rig_byte(uint32_t from, uint32_t id, uint32_t i)
{
	return (uint8_t)((id * 2654435761u + i * 40503u + from * 77u) >> 13);
}

void rig_pkts_free(struct rig_pkts *q);
/** rig_sdma_step() - One packet of the oldest request: header and payload are read only now. Return: there was one. */
bool rig_sdma_step(struct hfi_ctxt *c);
/** rig_meet() - The flow of @at to @of; begun if there is none. */
struct opx_flow *rig_meet(struct rig *g, uint32_t at, uint32_t of);
void rig_node_open(struct rig *g, uint32_t i);
/** rig_node_close() - Without a word if @is_killed. */
void rig_node_close(struct rig *g, uint32_t i, bool is_killed);
void rig_open(struct rig *g, uint32_t cnt, uint64_t seed, int where);
/** rig_knobs() - All again with other knobs. */
void rig_knobs(struct rig *g, uint32_t usec_max, uint32_t pre_ack);
void rig_close(struct rig *g);
/** rig_post() - The next packet of the model, of @len bytes. Return: of opx_flow_post(). */
int rig_post(struct rig *g, uint32_t from, uint32_t to, uint32_t len, unsigned flags);
/** rig_sdma() - @npkts packets of @frag bytes (the last one half of it) by SDMA. */
int rig_sdma(struct rig *g, uint32_t from, uint32_t to, uint32_t npkts, uint32_t frag, bool has_tid);
/** rig_step() - A round: everybody polls, time goes to the next event, at most to @limit, and packets arrive. */
void rig_step(struct rig *g, uint64_t limit);
void rig_run_for(struct rig *g, uint64_t ns);
/** rig_is_done() - Has all that was posted been delivered, and all that was kept been retired? */
bool rig_is_done(struct rig *g);
/** rig_run() - Return: done within @ns; if not, the state of all flows is printed. */
bool rig_run(struct rig *g, uint64_t ns);
const struct opx_rel_stats *rig_stats(struct rig *g, uint32_t i);
/** rig_pair() - Two endpoints, each with a stream to the other; timers have come to rest. */
void rig_pair(struct rig *g, uint64_t seed, int where);
/** rig_more() - More packets, both ways, arrive as they should. */
void rig_more(struct rig *g);
/** rig_forge() - A packet that nobody sent arrives at @at as if from @from. */
void rig_forge(struct rig *g, uint32_t from, uint32_t at, struct hfi_hdr h);
struct hfi_hdr rig_ud(enum opx_ud aux, uint64_t key, uint64_t w0, uint64_t w1, uint32_t imm);
uint64_t rig_range(uint32_t first, uint32_t cnt);

#endif
