// SPDX-License-Identifier: BSD-2-Clause
// Two soft Cassini adapters in one process, and what tests do with them.
#ifndef SF_TESTS_UNIT_CASSINI_PAIR_H
#define SF_TESTS_UNIT_CASSINI_PAIR_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "nic/cassini/cassini.h"
#include "sim.h"

#define VNI	    10
#define PID	    40
#define MEM_LEN	    (3u << 20)
#define REAL_NS	    (30 * NS_PER_SEC)
#define SIM_NS	    (300 * NS_PER_SEC)
#define REGION	    20u  /* pid_idx of a PTE without matching over all of mem */
#define MSG	    0u   /* matching */
#define SRC	    255u /* where a rendezvous is fetched */
#define LE_QUIET                                                                                                       \
	(CASSINI_LE_EVENT_LINK_DISABLE | CASSINI_LE_EVENT_UNLINK_DISABLE | CASSINI_LE_OP_PUT | CASSINI_LE_OP_GET)
#define GET_BITS    0x5500000000ULL

enum path { PATH_SHM, PATH_SIM, PATH_LOSSY, PATH_NUM };

struct end {
	struct lock lock;
	struct cassini *nic;
	struct cassini_lni *lni;
	struct cassini_cp *cp;
	struct cassini_dom *dom;
	struct cassini_cmdq *cq;
	struct cassini_eq *eq;  /* of commands */
	struct cassini_eq *teq; /* of PTEs */
	struct cassini_pte *region, *msg, *src;
	uint8_t *mem;
};

struct pair {
	enum path path;
	struct sim *sim;
	struct end a, b;
	struct rng rng;
};
extern struct pair g_w;

extern uint64_t g_until_ns;

/** now_ns() - The adapters' clock. */
uint64_t now_ns(void);
/** turn() - One turn of both adapters; time goes on when they are idle. Fails the test at g_until_ns. */
void turn(void);
/** settle() - A while of turns: nothing more is to come. */
void settle(void);
/** expect_state() - The STATE_CHANGE event of a PTE of @e. */
void expect_state(struct end *e);
/** dom_open(), dom_close() - The Domain of @e with its three PTEs. */
void dom_open(struct end *e);
void dom_close(struct end *e);
/** on_all_paths() - @body, once on each path, between opening and closing the pair; it leaves no event. */
void on_all_paths(void (*body)(void));
struct end *other(const struct end *e);
/** cmd_of() - A command of @e to the other; user_ptr is @len. */
struct cassini_cmd cmd_of(struct end *e, enum cassini_opcode opcode, unsigned idx, void *local, uint32_t len);
/** post() - Until it is taken. */
void post(struct end *e, const struct cassini_cmd *cmd);
/** next_of() - The next event, when it comes. */
struct cassini_event next_of(struct cassini_eq *eq);
/** expect() - The next event is such a one. */
struct cassini_event expect(struct cassini_eq *eq, enum cassini_event_type type, enum cassini_rc rc);
void none(struct cassini_eq *eq);
/** fill() - A pattern, different for each @salt. */
void fill(uint8_t *p, size_t len, unsigned salt);
/** msg_append() - An entry for every message of @e. */
void msg_append(struct end *e, enum cassini_list list, uint32_t flags, void *start, uint64_t len, uint64_t user_ptr);
/** rput() - A rendezvous of @len bytes from a to b, number @i. */
void rput(uint32_t len, uint32_t eager, unsigned i);

#define UNTIL(cond_)                                                                                                   \
	for (g_until_ns = now_ns() + (g_w.sim ? SIM_NS : REAL_NS); !(cond_);)                                          \
	turn()

/** pair_env() - The room; before the first test. */
void pair_env(void);

#endif
