// SPDX-License-Identifier: BSD-2-Clause
// What the fault tests share: ranks as processes, their endpoints, payloads, and what a failure prints.
#ifndef SF_TESTS_FAULT_RIG_H
#define SF_TESTS_FAULT_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "fi_ext_softfabric.h"

/*
 * Theory of operation
 *
 * A world is a parent and its ranks, one process each, which find each other through a page that they share. Each rank
 * has one endpoint with one completion queue and one registered region, which the others may read and write. Every rank
 * that fails prints one sentence and exits with 1; the parent kills what is left at the world's deadline, so that a
 * test cannot hang.
 */

#define RIG_RANKS   64
#define RIG_SKIP    77
#define RIG_NS_PER_MS 1000000ull
#define MAX(a_, b_) ((a_) > (b_) ? (a_) : (b_))
#define MIN(a_, b_) ((a_) < (b_) ? (a_) : (b_))

struct rig_peer {
	uint8_t addr[64];
	uint64_t addr_len;
	uint64_t mem, key; /* of its region */
};

/* --- what differs between providers: prov.c; SOFTFABRIC_NAME chooses, efa without it ------------- */

enum rig_act { RIG_SEND, RIG_INJECT, RIG_WRITE, RIG_READ, RIG_ATOMIC, RIG_FETCH, RIG_COMPARE };
#define RIG_GENS 4
#define RIG_ENV  24 /* words of an environment, NULL included */

/* One way a message or an access takes. */
struct rig_oper {
	const char *name; /* NULL ends the list */
	enum rig_act act;
	uint32_t len;
	uint64_t level;   /* FI_DELIVERY_COMPLETE ... */
	unsigned gens;    /* bit per rig_prov.gen */
	const char *env[5];
	const char *took; /* counter that shows it */
};

/* A kind of device, or a mode of the provider: NAME, value, ... */
struct rig_gen {
	const char *label; /* NULL: no more */
	const char *env[5];
};

struct rig_prov {
	const char *name;
	uint64_t mode;
	int mr_mode;
	enum fi_progress idle;   /* progress under which a target that computes is served; 0: manual is enough */
	bool posts_tell;         /* a call may return the error of a peer that is gone before any completion says so */
	uint64_t match_complete; /* FI_MATCH_COMPLETE if it has that level */
	const struct rig_oper *oper;
	struct rig_gen gen[RIG_GENS], life[2]; /* of the matrix; of deaths */
	const char *udp[3];      /* environment that turns shared memory off, */
	const char *udp_room;    /* or what begins the room then */
	const char *stat_prefix; /* of the link's counters */
	struct { int prov, err; } lost[8]; /* how operations with a lost peer may end */
};
const struct rig_prov *rig_prov(void);
/** rig_env_add() - Append to a NULL-ended environment of RIG_ENV words. rig_env_path(): what the path asks for. */
void rig_env_add(const char **env, const char *const *more);
void rig_env_path(const char **env, bool udp);

/* The page. */
struct rig_world {
	uint32_t ranks;
	uint64_t seed;
	_Atomic uint32_t arrived[64];     /* rig_barrier(), used once each */
	_Atomic uint32_t synced[64];      /* rig_sync() */
	_Atomic uint64_t event_ns;        /* set by the parent: when it did what the test is about */
	_Atomic uint32_t phase;           /* free for the test */
	struct rig_peer peer[RIG_RANKS];
	_Atomic uint64_t word[16384];     /* free for the test */
};

struct rig {
	struct rig_world *w;
	uint32_t rank;
	uint64_t rng;
	uint32_t syncs;
	enum fi_progress progress; /* asked for; set before rig_open() */
	const char *service;       /* our port or PID, NULL: any; the same */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *region;
	size_t region_len;
	uint64_t enabled_ns[2]; /* between these two times its port opened */
	fi_addr_t to[RIG_RANKS];
	struct fi_softfabric_ops_stats *stats;
};

/* --- checks -------------------------------------------------------------------------------------- */

void rig_fail(const struct rig *r, const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
#define FAIL(...) rig_fail(r, __FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond_, fmt_, ...)                                                                    \
	do {                                                                                       \
		if (!(cond_))                                                                      \
			FAIL("%s: " fmt_, #cond_, ##__VA_ARGS__);                                  \
	} while (0)
#define OK(call_)                                                                                  \
	do {                                                                                       \
		long ret_ = (long)(call_);                                                         \
		if (ret_)                                                                          \
			FAIL("%s: %ld (%s)", #call_, ret_, fi_strerror((int)-ret_));               \
	} while (0)

uint64_t rig_now_ns(void);
uint64_t rig_rand(uint64_t *state);
uint64_t rig_below(uint64_t *state, uint64_t n);
/** rig_seed() - SEED= of the environment, or a fixed one: CI repeats itself. */
uint64_t rig_seed(void);

/* --- the world: called by the parent ------------------------------------------------------------- */

struct rig_world *rig_world_new(uint32_t ranks, uint64_t seed);
void rig_world_free(struct rig_world *w);
/**
 * rig_spawn() - Fork rank @rank; it runs @fn and exits with what that returns. @env: NULL-ended NAME, value, NAME,
 * value ...
 */
pid_t rig_spawn(struct rig_world *w, uint32_t rank, int (*fn)(struct rig *r, const void *arg), const void *arg,
		const char *const *env);
/**
 * rig_await() - Until all @n have ended. Return: 0 if all exited with 0; 1, after killing those who were late. pid 0:
 * skip.
 */
int rig_await(pid_t *pid, uint32_t n, uint64_t limit_ms);
/**
 * rig_private() - Give this process and its children a /dev/shm of their own of @mib MiB, and a loopback. Return:
 * false, why in @why.
 */
bool rig_private(unsigned mib, char *why, size_t why_len);
/** rig_shm_files() - Files of ours in /dev/shm; prints their names. */
unsigned rig_shm_files(void);
void rig_sleep_ms(uint64_t ms);

/* --- a rank -------------------------------------------------------------------------------------- */

/** rig_open() - Endpoint, region of @region_len bytes, addresses of all ranks. All ranks call it. */
void rig_open(struct rig *r, size_t region_len);
/** rig_open_alone() - The same without anybody else. */
void rig_open_alone(struct rig *r, size_t region_len);
void rig_close(struct rig *r);
/** rig_close_ep() - The endpoint alone, so that counters can still be read; rig_close() then closes the rest. */
void rig_close_ep(struct rig *r);
/** rig_barrier() - Wait for @n ranks at barrier @id; drives the endpoint. */
void rig_barrier(struct rig *r, unsigned id, uint32_t n);
/** rig_sync() - All ranks; drives the endpoint, if there is one. */
void rig_sync(struct rig *r);
void rig_progress(struct rig *r);
uint64_t rig_stat(struct rig *r, const char *name);
/** rig_link_stat() - A counter of the link: fault_drop, net_tx_dgrams ... */
uint64_t rig_link_stat(struct rig *r, const char *name);

void rig_fill(void *mem, size_t len, uint64_t seed);
/** rig_is_filled() - Index of the first wrong byte, or -1. */
int64_t rig_is_filled(const void *mem, size_t len, uint64_t seed);

#endif
