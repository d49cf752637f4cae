// SPDX-License-Identifier: BSD-2-Clause
// What the tests of the soft EFA adapter share: an open adapter over the fake link, queue pairs, a
// record of completions.
#ifndef SF_TESTS_UNIT_EFANIC_FIX_H
#define SF_TESTS_UNIT_EFANIC_FIX_H

#include "unit.h"

#include "fake_link.h"
#include "nic/efanic/efanic_int.h"

#define WC_MAX 64
#define QKEY_A 0xaaaa
#define QKEY_B 0xbbbb

/* A completion, with what was borrowed copied. */
struct seen {
	struct efanic_wc wc;
	uint8_t gid[16];
	uint8_t data[EFANIC_MTU];
	uint32_t data_len;
};

struct end {
	struct efanic_qp *qp;
	struct seen seen[WC_MAX];
	unsigned cnt; /* completions; only the first WC_MAX are recorded */
	void (*hook)(struct end *e,
		     const struct efanic_wc *wc); /* runs in the handler; may be NULL */
};

/* The world of one test. */
struct world {
	struct lock lock;
	struct efanic *nic;
	struct end a, b;	    /* queue pairs that the fixture opened */
	struct efanic_dst *ab, *ba; /* from a to b, from b to a */
	uint16_t ahn;		    /* of this adapter's own GID */
	int64_t live;		    /* allocations before */
};

/** world_open() - An adapter of the room @conf (SOFTFABRIC_EFA; NULL: default); lock held. */
void world_open(struct world *w, const char *conf);
/** world_close() - Closes what is open and checks that nothing is left: memory, ports, peers,
 * regions. */
void world_close(struct world *w);
/** end_open() - A queue pair that records to @e, in state RTS with @rnr_retry and, if it takes
 * credits, @credits. */
void end_open(struct world *w, struct end *e, const struct efanic_qp_attr *attr, uint8_t rnr_retry,
	      uint32_t credits);
/** pair_open() - SRD queue pairs a and b, that know each other; b with @credits. */
void pair_open(struct world *w, uint32_t credits);
void pair_attr(struct efanic_qp_attr *attr, uint32_t qkey);
void end_record(void *ctx, const struct efanic_wc *wc); /* an efanic_wc_fn; @ctx: struct end */
/** last() - The latest completion; fails the test if there is none. */
const struct seen *last(const struct end *e);
/** settle() - Polls both ends until nothing moves. */
void settle(struct world *w);
/** send_to() - One SEND of @len bytes at @buf, provider's own memory. Return: as
 * efanic_post_send(). */
int send_to(struct end *e, struct efanic_dst *dst, uint64_t wr_id, const void *buf, uint32_t len);
/** expect() - @e saw @cnt completions in all and the last has @wr_id and @status. */
void expect(const struct end *e, unsigned cnt, uint64_t wr_id, enum efanic_status status);

#endif
