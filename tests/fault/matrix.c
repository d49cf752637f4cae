// SPDX-License-Identifier: BSD-2-Clause
// The fault matrix: every condition of the room against every protocol and path, and the loss of each single datagram
// in turn.
#include "rig.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * A cell is one operation under one condition on one path between two processes. It opens fresh endpoints, so that the
 * room's counting (the n-th datagram of a port, a partition so long after its opening) begins anew; rank 0 acts, rank 1
 * is the target. Every payload is verified, every operation completes exactly once, the protocol that the cell is named
 * after was taken, and the counter of the condition moved: by chance, so that a cell goes on until it did; or exactly
 * if the n-th datagram existed.
 */

#define BUF_LEN  (256u << 10)
#define WINDOW   4
#define BATCH    8
#define BATCHES  200
#define CELL_NS  (20000 * RIG_NS_PER_MS)
#define NTH_MAX  400
#define TRIES    2 /* of a cell whose condition was over before it began; then it gets a longer one, */
#define STRETCH_MAX 16 /* up to so much */

struct fault {
	const char *name, *room, *counter;
	uint64_t at_least_ms; /* so long does a cell last */
	/* ROOM goes on with it: the condition passes, and a cell that began too late has to begin again */
	uint64_t until_ms;
};

static const struct fault faults[] = {
	{"drop", "loss=10%", "fault_drop", 30},
	{"dup", "dup=15%", "fault_dup", 30},
	{"reorder", "reorder=20%", "fault_reorder", 30},
	{"delay", "delay=1ms", "fault_delay", 30},
	{"corrupt", "corrupt=10%", "fault_corrupt", 30},
	{"truncate", "truncate=10%", "fault_truncate", 30},
	/* it counts from when the port opened: on a busy machine the cell begins much later */
	{"partition", "partition=8ms-", "fault_partition", 310, 300},
	{"all", "loss=3%;dup=3%;reorder=5%;delay=50us;corrupt=2%;truncate=2%", "fault_drop", 40},
};
#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* What the processes of one run are to do. */
struct job {
	const struct fault *fault; /* NULL: single datagrams */
	const char *nth_counter;   /* fault_drop ... */
	uint64_t stretch; /* of the fault's times; 1 */
	unsigned gen; /* of rig_prov()->gen */
	bool udp;
	uint32_t nth, nth_rank;    /* 0: only measure how many datagrams there are */
	const char *only;
};

/* The shared words: counters of each rank in a cell, and datagrams per operation and rank. */
enum { W_MOVED = 0, W_LATE = 2, W_SENT = 16, W_ERRORS = 16384 - 1 };

struct cell {
	struct rig *r;
	const struct job *job;
	const struct rig_oper *op;
	uint64_t start_ns, done, posted, atomics;
	struct fi_context2 ctx[WINDOW];
};

/* --- one operation ------------------------------------------------------------------------------- */

static uint8_t *buf_of(struct cell *c, uint64_t i)
{
	return c->r->region + i % WINDOW * BUF_LEN;
}

static uint64_t seed_of(const struct cell *c, uint64_t i)
{
	return c->r->w->seed + (uint64_t)(c->op - rig_prov()->oper) * 1000003 + i * 31;
}

static ssize_t post_msg(struct cell *c, uint64_t i, void *desc)
{
	struct rig *r = c->r;
	struct iovec iov = {buf_of(c, i), c->op->len};
	struct fi_msg_tagged m = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = r->to[1], .tag = i,
				  .context = &c->ctx[i % WINDOW]};

	return fi_tsendmsg(r->ep, &m, FI_COMPLETION | c->op->level);
}

static ssize_t post_write(struct cell *c, uint64_t i, void *desc)
{
	struct rig *r = c->r;
	const struct rig_peer *p = &r->w->peer[1];
	struct iovec iov = {buf_of(c, i), c->op->len};
	struct fi_rma_iov to = {p->mem + i % WINDOW * BUF_LEN, c->op->len, p->key};
	struct fi_msg_rma m = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = r->to[1], .rma_iov = &to,
			       .rma_iov_count = 1, .context = &c->ctx[i % WINDOW]};

	return fi_writemsg(r->ep, &m, FI_COMPLETION | c->op->level);
}

static ssize_t post_atomic(struct cell *c, uint64_t i, void *desc)
{
	struct rig *r = c->r;
	uint64_t *v = (uint64_t *)buf_of(c, i);
	struct fi_ioc ioc = {v, c->op->len / 8};
	struct fi_rma_ioc to = {r->w->peer[1].mem + WINDOW * BUF_LEN, c->op->len / 8, r->w->peer[1].key};
	struct fi_msg_atomic m = {.msg_iov = &ioc, .desc = &desc, .iov_count = 1, .addr = r->to[1], .rma_iov = &to,
				  .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM,
				  .context = &c->ctx[i % WINDOW]};
	struct fi_ioc res = {v + 64, c->op->len / 8}, cmp = {v + 128, c->op->len / 8};

	for (uint32_t k = 0; k < c->op->len / 8; k++) {
		v[k] = c->op->act == RIG_COMPARE ? i + 1 : k + 1;
		v[128 + k] = i;
	}
	if (c->op->act == RIG_ATOMIC)
		return fi_atomicmsg(r->ep, &m, FI_COMPLETION | c->op->level);
	if (c->op->act == RIG_FETCH)
		return fi_fetch_atomicmsg(r->ep, &m, &res, &desc, 1, FI_COMPLETION);
	m.op = FI_CSWAP;
	return fi_compare_atomicmsg(r->ep, &m, &cmp, &desc, 1, &res, &desc, 1, FI_COMPLETION);
}

static ssize_t post(struct cell *c, uint64_t i)
{
	struct rig *r = c->r;
	void *desc = fi_mr_desc(r->mr);

	if (c->op->act == RIG_SEND || c->op->act == RIG_INJECT || c->op->act == RIG_WRITE)
		rig_fill(buf_of(c, i), c->op->len, seed_of(c, i));
	switch (c->op->act) {
	case RIG_SEND:
		return post_msg(c, i, desc);
	case RIG_INJECT:
		return fi_tinject(r->ep, buf_of(c, i), c->op->len, r->to[1], i);
	case RIG_WRITE:
		return post_write(c, i, desc);
	case RIG_READ:
		memset(buf_of(c, i), 0, c->op->len);
		return fi_read(r->ep, buf_of(c, i), c->op->len, desc, r->to[1],
			       r->w->peer[1].mem + i % WINDOW * BUF_LEN, r->w->peer[1].key, &c->ctx[i % WINDOW]);
	case RIG_ATOMIC:
	case RIG_FETCH:
	case RIG_COMPARE:
		break;
	}
	return post_atomic(c, i, desc);
}

static void verify_result(struct cell *c, uint64_t i)
{
	const uint64_t *res = (const uint64_t *)buf_of(c, i) + 64;
	struct rig *r = c->r;

	if (c->op->act == RIG_READ)
		CHECK(rig_is_filled(buf_of(c, i), c->op->len, 77 + i % WINDOW) < 0, "%s %llu: wrong data", c->op->name,
		      (unsigned long long)i);
	for (uint32_t k = 0; (c->op->act == RIG_FETCH || c->op->act == RIG_COMPARE) && k < c->op->len / 8; k++) {
		uint64_t want = c->op->act == RIG_FETCH ? i * (k + 1) : i;

		CHECK(res[k] == want, "%s %llu: word %u was %llu, not %llu", c->op->name, (unsigned long long)i, k,
		      (unsigned long long)res[k], (unsigned long long)want);
	}
}

/* --- completions --------------------------------------------------------------------------------- */

static void check_time(struct cell *c, const char *what)
{
	struct rig *r = c->r;

	CHECK(rig_now_ns() < c->start_ns + CELL_NS, "%s: %s hangs after %llu of %llu", c->op->name, what,
	      (unsigned long long)c->done, (unsigned long long)c->posted);
}

/* The index in the window of the next completion, or -1. */
static int next_done(struct cell *c, size_t *len)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	struct rig *r = c->r;
	ssize_t ret = fi_cq_read(r->cq, &e, 1);

	if (ret == -FI_EAVAIL) {
		fi_cq_readerr(r->cq, &err, 0);
		FAIL("%s: ended with %d/%d (%s)", c->op->name, err.err, err.prov_errno, fi_strerror(err.err));
	}
	if (ret == 1) {
		*len = e.len;
		return (int)((struct fi_context2 *)e.op_context - c->ctx);
	}
	CHECK(ret == -FI_EAGAIN, "fi_cq_read: %zd", ret);
	check_time(c, "the cell");
	sched_yield();
	return -1;
}

/* --- both ranks of a batch ----------------------------------------------------------------------- */

/* @n operations, at most @window under way; each slot completes once. */
static void act(struct cell *c, uint64_t first, uint64_t n, unsigned window)
{
	bool is_open[WINDOW] = {false};
	struct rig *r = c->r;
	size_t len;

	c->posted = c->done = 0;
	while (c->done < n) {
		uint64_t i = first + c->posted;
		int at;

		if (c->posted < n && c->posted - c->done < window && !is_open[i % WINDOW]) {
			ssize_t ret = post(c, i);

			CHECK(!ret || ret == -FI_EAGAIN, "%s: post %s", c->op->name, fi_strerror((int)-ret));
			c->posted += !ret;
			if (!ret && c->op->act == RIG_INJECT)
				c->done++;
			else if (!ret)
				is_open[i % WINDOW] = true;
			else
				check_time(c, "a post");
		}
		at = next_done(c, &len);
		if (at < 0)
			continue;
		CHECK(at < WINDOW && is_open[at], "%s: a completion of nothing", c->op->name);
		is_open[at] = false;
		c->done++;
		verify_result(c, window == 1 ? first + c->done - 1 : (uint64_t)at);
	}
}

static void take(struct cell *c, uint64_t first, uint64_t n)
{
	uint64_t of_slot[WINDOW];
	struct rig *r = c->r;
	size_t len;

	c->posted = c->done = 0;
	while (c->done < n) {
		int at;

		if (c->posted < n && c->posted - c->done < WINDOW && c->posted < c->done / WINDOW * WINDOW + WINDOW) {
			uint64_t i = first + c->posted;

			ssize_t ret = fi_trecv(r->ep, buf_of(c, i), BUF_LEN, fi_mr_desc(r->mr), r->to[0], i, 0,
					       &c->ctx[i % WINDOW]);

			CHECK(!ret || ret == -FI_EAGAIN, "%s: receive %s", c->op->name, fi_strerror((int)-ret));
			if (ret) {
				rig_progress(r);
				check_time(c, "a receive");
				continue;
			}
			of_slot[i % WINDOW] = i;
			c->posted++;
			continue;
		}
		at = next_done(c, &len);
		if (at < 0)
			continue;
		CHECK(at < WINDOW && of_slot[at] != UINT64_MAX, "%s: a completion of nothing", c->op->name);
		CHECK(len == c->op->len, "%s %llu: %zu bytes", c->op->name, (unsigned long long)of_slot[at], len);
		CHECK(rig_is_filled(r->region + (size_t)at * BUF_LEN, len, seed_of(c, of_slot[at])) < 0,
		      "%s %llu: wrong data", c->op->name, (unsigned long long)of_slot[at]);
		of_slot[at] = UINT64_MAX;
		c->done++;
	}
}

static bool is_msg(const struct rig_oper *op)
{
	return op->act == RIG_SEND || op->act == RIG_INJECT;
}

/* What the target's memory must be after @n operations in all; the last WINDOW writes of them are still there. */
static void check_target(struct cell *c, uint64_t n)
{
	const uint64_t *word = (const uint64_t *)(c->r->region + WINDOW * BUF_LEN);
	struct rig *r = c->r;

	for (uint64_t i = n > WINDOW ? n - WINDOW : 0; c->op->act == RIG_WRITE && i < n; i++)
		CHECK(rig_is_filled(buf_of(c, i), c->op->len, seed_of(c, i)) < 0, "%s %llu: wrong data", c->op->name,
		      (unsigned long long)i);
	for (uint32_t k = 0; c->op->act >= RIG_ATOMIC && k < c->op->len / 8; k++) {
		uint64_t want = c->op->act == RIG_COMPARE ? n : n * (k + 1);

		CHECK(word[k] == want, "%s: word %u is %llu after %llu operations, not %llu", c->op->name, k,
		      (unsigned long long)word[k], (unsigned long long)n, (unsigned long long)want);
	}
}

static void batch(struct cell *c, uint64_t first, uint64_t n)
{
	struct rig *r = c->r;
	bool one_by_one = c->op->act >= RIG_FETCH;

	if (r->rank == 0)
		act(c, first, n, one_by_one ? 1 : WINDOW);
	else if (is_msg(c->op))
		take(c, first, n);
	rig_sync(r);
	if (r->rank == 1)
		check_target(c, first + n);
	rig_sync(r); /* nothing new before that */
}

/* --- a cell -------------------------------------------------------------------------------------- */

/* Of both ranks. */
static uint64_t moved(struct cell *c, const char *counter)
{
	struct rig *r = c->r;

	atomic_store(&r->w->word[W_MOVED + r->rank], rig_link_stat(r, counter));
	rig_sync(r);
	return atomic_load(&r->w->word[W_MOVED]) + atomic_load(&r->w->word[W_MOVED + 1]);
}

static void cell_open(struct cell *c)
{
	struct rig *r = c->r;

	for (const char *const *env = c->op->env; *env; env += 2)
		setenv(env[0], env[1], 1);
	c->start_ns = rig_now_ns();
	rig_open(r, WINDOW * BUF_LEN + 4096);
	if (r->rank == 1 && c->op->act == RIG_READ)
		for (uint64_t i = 0; i < WINDOW; i++)
			rig_fill(buf_of(c, i), c->op->len, 77 + i);
	rig_sync(r);
}

/* The path and the protocol were those of the cell's name, and nothing more completes. */
static void cell_checks(struct cell *c)
{
	struct rig *r = c->r;
	size_t len;

	for (int i = 0; i < 20; i++)
		CHECK(next_done(c, &len) < 0, "%s: one completion too many", c->op->name);
	if (r->rank == 0)
		CHECK(rig_stat(r, c->op->took), "%s: nothing in %s", c->op->name, c->op->took);
	CHECK(!rig_link_stat(r, "shm_tx_pkts"), "%s went past the conditions", c->op->name);
}

/* As before the first cell. */
static void rank_renew(struct rig *r)
{
	*r = (struct rig){.w = r->w, .rank = r->rank, .rng = r->rng, .syncs = r->syncs};
}

/* Return: has the condition struck? Both ranks say the same. */
static bool fault_cell(struct cell *c)
{
	const struct fault *f = c->job->fault;
	struct rig *r = c->r;
	uint64_t n = 0, end, ms = f->at_least_ms * c->job->stretch;
	bool is_enough = false, is_over = false;

	cell_open(c);
	end = (f->until_ms ? rig_now_ns() : c->start_ns) + ms * RIG_NS_PER_MS;
	for (int b = 0; b < BATCHES && !is_enough && !(is_over && f->until_ms); b++, n += BATCH) {
		batch(c, n, BATCH);
		is_enough = moved(c, f->counter) && n;
		/* one clock decides for both */
		if (r->rank == 0)
			atomic_store(&r->w->phase, rig_now_ns() >= end);
		rig_sync(r);
		is_over = atomic_load(&r->w->phase);
		is_enough &= is_over;
		rig_sleep_ms(ms / (BATCHES / 2)); /* so many batches last long enough, and adapters fall asleep */
	}
	batch(c, n, BATCH);
	is_enough = moved(c, f->counter);
	CHECK(is_enough || f->until_ms, "%s: %s did not move in %llu operations", c->op->name, f->counter,
	      (unsigned long long)n);
	cell_checks(c);
	rig_sync(r);
	rig_close(r);
	rig_sync(r);
	return is_enough;
}

/* False: on this machine the condition is over before a cell begins. Both ranks say the same. */
static bool run_fault_cell(struct cell *c)
{
	struct rig *r = c->r;
	int tries = 1;

	while (!fault_cell(c)) {
		CHECK(tries < TRIES || c->job->stretch < STRETCH_MAX, "%s: %s never moved", c->op->name,
		      c->job->fault->counter);
		if (tries++ == TRIES)
			return false;
		rank_renew(r);
	}
	return true;
}

/* Datagrams that this port gave to the conditions, those of its close included. */
static uint64_t offered(struct rig *r)
{
	return rig_link_stat(r, "net_tx_dgrams") + rig_link_stat(r, "fault_drop") - rig_link_stat(r, "fault_dup");
}

static void run_nth_cell(struct cell *c)
{
	_Atomic uint64_t *sent = &c->r->w->word[W_SENT + 2 * (c->op - rig_prov()->oper) + c->r->rank];
	const struct job *j = c->job;
	struct rig *r = c->r;
	uint64_t hits, all;

	if (j->nth > atomic_load(&c->r->w->word[W_SENT + 2 * (c->op - rig_prov()->oper) + j->nth_rank]))
		return;
	rig_sync(r); /* before one of them measures anew */
	cell_open(c);
	batch(c, 0, 1); /* the first one may not know yet what its peer can */
	batch(c, 1, 1);
	cell_checks(c);
	rig_sync(r);
	rig_close_ep(r);
	if (!j->nth) {
		atomic_store(sent, offered(r));
	} else if (r->rank == j->nth_rank) {
		/*
		 * what is queued before the one that was hit is counted when it goes out, by the adapter thread at the
		 * latest
		 */
		do {
			hits = rig_link_stat(r, j->nth_counter);
			/* the one that was held back to the end is not counted among those that went out */
			all = offered(r) + (hits ? rig_link_stat(r, "fault_delay") : 0);
		} while (hits && all < j->nth && rig_now_ns() < c->start_ns + CELL_NS);
		CHECK(hits <= 1 && (hits ? all >= j->nth : all < j->nth),
		      "%s: %s is %llu of %llu datagrams", c->op->name, j->nth_counter, (unsigned long long)hits,
		      (unsigned long long)all);
	}
	rig_close(r);
	rig_sync(r);
}

static int rank_main(struct rig *r, const void *arg)
{
	const struct job *j = arg;

	for (const struct rig_oper *op = rig_prov()->oper; op->name; op++) {
		struct cell c = {.r = r, .job = j, .op = op};

		if (!(op->gens & 1u << j->gen) || (j->only && !strstr(op->name, j->only)))
			continue;
		if (!j->fault) {
			run_nth_cell(&c);
		} else if (!run_fault_cell(&c)) {
			atomic_store(&r->w->word[W_LATE], 1);
			return 0;
		}
		rank_renew(r);
	}
	return 0;
}

/* --- runs ---------------------------------------------------------------------------------------- */

static unsigned gen_cnt(void)
{
	unsigned n = 0;

	while (n < RIG_GENS && rig_prov()->gen[n].label)
		n++;
	return n;
}

static int run(struct rig_world *w, const struct job *j, const char *room0, const char *room1, uint64_t limit_ms)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", NULL};
	char room[320];
	pid_t pid[2];

	env[1] = room;
	rig_env_path(env, j->udp);
	rig_env_add(env, rig_prov()->gen[j->gen].env);
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(room, sizeof(room), "%s%s", j->udp ? rig_prov()->udp_room : "", i ? room1 : room0);
		pid[i] = rig_spawn(w, i, rank_main, j, env);
	}
	return rig_await(pid, 2, limit_ms);
}

/* A room is one for the life of a process: where a condition is over too soon, new ones get a longer one. */
static int run_fault(struct job *j)
{
	bool is_late = true;
	int ret = 0;

	for (j->stretch = 1; is_late && !ret; j->stretch *= 2) {
		struct rig_world *w = rig_world_new(2, rig_seed());
		uint64_t until = j->fault->until_ms * j->stretch;
		char room[256], ms[32] = "";

		if (until)
			snprintf(ms, sizeof(ms), "%llums", (unsigned long long)until);
		snprintf(room, sizeof(room), "%s%s;seed=%u", j->fault->room, ms, (unsigned)(rig_seed() % 65521) + 1);
		ret = run(w, j, room, room, 120000);
		is_late = atomic_load(&w->word[W_LATE]);
		rig_world_free(w);
	}
	return ret;
}

static int run_faults(const char *which, const char *only)
{
	int failed = 0;

	for (size_t f = 0; f < FAULTS; f++) {
		for (unsigned k = 0; k < 2 * gen_cnt(); k++) {
			struct job j = {.fault = &faults[f], .gen = k / 2, .udp = k % 2, .only = only};
			uint64_t start = rig_now_ns();
			int ret;

			if (which && strcmp(which, faults[f].name))
				continue;
			ret = run_fault(&j);
			failed += ret != 0;
			printf("%s %s %s %s %llu ms\n", ret ? "FAIL" : "pass", faults[f].name, j.udp ? "udp" : "shm",
			       rig_prov()->gen[j.gen].label,
			       (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
			fflush(stdout);
		}
	}
	return failed != 0;
}

static uint64_t most(struct rig_world *w, uint32_t rank)
{
	uint64_t n = 0;

	for (size_t i = 0; rig_prov()->oper[i].name; i++)
		n = MAX(n, atomic_load(&w->word[W_SENT + 2 * i + rank]));
	return MIN(n, NTH_MAX);
}

/* Measure how many datagrams each operation takes, then hit each of them. @stride: every so many, from @first on. */
static int run_nth(const char *key, bool udp, unsigned gen, unsigned stride, unsigned first, const char *only)
{
	struct rig_world *w = rig_world_new(2, rig_seed());
	char counter[32], quiet[96], hit[96];
	struct job j = {.nth_counter = counter, .gen = gen, .udp = udp, .only = only};
	uint64_t start = rig_now_ns();
	unsigned runs = 0, failed = 0;

	snprintf(counter, sizeof(counter), "fault_%s", key);
	snprintf(quiet, sizeof(quiet), "%s_nth=1000000", key);
	if (run(w, &j, quiet, quiet, 60000))
		failed = 1;
	for (uint32_t rank = 0; rank < 2 && !failed; rank++) {
		for (uint64_t n = 1 + first; n <= most(w, rank) && failed < 3; n += stride) {
			j.nth = (uint32_t)n;
			j.nth_rank = rank;
			snprintf(hit, sizeof(hit), "%s_nth=%u", key, j.nth);
			memset(w->synced, 0, sizeof(w->synced));
			if (run(w, &j, rank ? quiet : hit, rank ? hit : quiet, 60000)) {
				printf("    with %s at rank %u\n", hit, rank);
				failed++;
			}
			runs++;
		}
	}
	printf("%s %s-nth %s %s: %u datagrams of %llu and %llu, %llu ms\n", failed ? "FAIL" : "pass", key,
	       udp ? "udp" : "shm", rig_prov()->gen[gen].label, runs, (unsigned long long)most(w, 0),
	       (unsigned long long)most(w, 1), (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
	fflush(stdout);
	rig_world_free(w);
	return failed != 0;
}

static int run_all_nth(unsigned stride, const char *only)
{
	static const char *const key[] = {"drop", "dup", "delay"};
	int failed = 0;

	for (unsigned k = 0; k < 3 * 2 * gen_cnt(); k++)
		failed += run_nth(key[k % 3], k / 3 % 2, k / 6, stride, k % stride, only);
	return failed != 0;
}

/* faults [FAULT [OPERATION]] | nth [STRIDE [OPERATION]] */
int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "faults", *arg = argc > 2 ? argv[2] : NULL,
		   *only = argc > 3 ? argv[3] : NULL;

	printf("SEED=%#llx\n", (unsigned long long)rig_seed());
	if (!strcmp(what, "faults"))
		return run_faults(arg && *arg ? arg : NULL, only);
	return run_all_nth(arg ? (unsigned)MAX(atoi(arg), 1) : 1, only);
}
