// SPDX-License-Identifier: BSD-2-Clause
// Two units of soft HFI1 in one process, with a context each, and what tests do with them.
#ifndef SF_TESTS_UNIT_HFI_PAIR_H
#define SF_TESTS_UNIT_HFI_PAIR_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "nic/hfi/hfi_int.h"
#include "sim.h"

#define REAL_NS (30 * NS_PER_SEC)
#define SIM_NS	(300 * NS_PER_SEC)

enum path { PATH_SHM, PATH_UDP, PATH_SIM, PATH_LOSSY, PATH_NUM };

/* A packet that came in. */
struct got {
	struct hfi_hdr hdr;
	enum hfi_rcv_type type;
	bool is_service;
	uint32_t len;
	struct hfi_dst *src;
	uint8_t data[HFI_MTU];
};
#define GOT_MAX 4096

struct side {
	struct lock lock;
	struct hfi *hfi;
	struct hfi_ctxt *c;
	struct hfi_dst *dst; /* the other side */
	struct got *got;     /* [GOT_MAX] ring, by number */
	uint32_t got_cnt, shown_cnt, gone_cnt, copy_cnt;
	bool refuses;        /* what is shown to on_service */
	int gone_status, copy_status;
	void *copy_cookie;
	void (*on_pkt)(struct side *s, const struct hfi_pkt *pkt); /* instead of keeping it; may be NULL */
};

struct pair {
	enum path path;
	struct sim *sim;
	struct side a, b;
	struct rng rng;
};
extern struct pair g_w;
extern uint64_t g_until_ns;

/** pair_env() - The room; before the first test. */
void pair_env(void);
/** pair_threads() - Whether the adapters opened from now on have threads. */
void pair_threads(bool has_threads);
/**
 * pair_open(), pair_close() - Both sides, with contexts that know each other, on @path; both locks are held in between.
 */
void pair_open(enum path path);
void pair_close(void);
/** on_all_paths() - @body, once on each path, between opening and closing the pair. */
void on_all_paths(void (*body)(void));
/** side_ctxt_open() - A context of @s. @ctxt: -1: any. Return: of hfi_ctxt_open(). */
int side_ctxt_open(struct side *s, int ctxt);
/** side_ctxt_close() - And what the side knows of others. */
void side_ctxt_close(struct side *s);
/** side_meet() - @s->dst is @to. */
void side_meet(struct side *s, const struct side *to);
uint64_t now_ns(void);
/** turn() - One turn of both adapters; time goes on when they are idle. Fails the test at g_until_ns. */
void turn(void);
/** settle() - A while of turns. */
void settle(void);
/** hdr_to() - A header for @s's destination with PSN @psn. */
struct hfi_hdr hdr_to(const struct side *s, uint32_t psn);
/** send() - One packet from @s, until it is taken. Return: of hfi_pio_send(). */
int send_pkt(struct side *s, uint32_t psn, const void *buf, size_t len);
struct hfi_stats stats_of(const struct side *s);
void fill(uint8_t *p, size_t len, unsigned salt);

#define UNTIL(cond_)                                                                                                   \
	for (g_until_ns = now_ns() + (g_w.sim ? SIM_NS : REAL_NS * unit_slow()); !(cond_);)                            \
	turn()

#endif
