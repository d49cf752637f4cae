// SPDX-License-Identifier: BSD-2-Clause
// A place whose first process had no shared memory and whose next one has: everything between it and one that outlives
// both.
#include "rig.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_eq.h>

#define LEN_MAX	   (1u << 20)
#define IN_OFF	   LEN_MAX /* where receives and one-sided accesses go */
#define REGION_LEN (2 * LEN_MAX + 4096)
#define WORD_OFF   (2 * LEN_MAX)

enum { RANK_STAYS, RANK_FIRST, RANK_NEXT, RANKS };
enum { S_FIRST, S_MET, S_QUIET, S_DEAD, S_NEXT }; /* words of the page */

struct args {
	bool next_speaks; /* the second process does, before the one that stays says anything */
};

struct item {
	enum rig_act act;
	uint32_t len;
};
/* Large first: nothing small has told either side who the other one is. */
static const struct item items[] = {
	{RIG_SEND, LEN_MAX}, {RIG_SEND, 64}, {RIG_SEND, 12000}, {RIG_WRITE, 100000}, {RIG_READ, 100000},
	{RIG_WRITE, 64},     {RIG_READ, 64}, {RIG_ATOMIC, 8},	{RIG_FETCH, 8},	     {RIG_SEND, 200000},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

static void step_is(struct rig *r, int step, bool polls)
{
	uint64_t end = rig_now_ns() + 20000 * RIG_NS_PER_MS;

	while (!atomic_load(&r->w->word[step])) {
		CHECK(rig_now_ns() < end, "step %d does not come", step);
		if (polls)
			rig_progress(r);
		sched_yield();
	}
}

/* The next completion, of the operation @ctx. Return: 0; the error that it ended with. */
static int done(struct rig *r, const void *ctx, const char *what)
{
	uint64_t end = rig_now_ns() + 20000 * RIG_NS_PER_MS;
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;

	for (;;) {
		ssize_t n = fi_cq_read(r->cq, &e, 1);

		if (n == 1 && e.op_context == ctx)
			return 0;
		if (n == -FI_EAVAIL && fi_cq_readerr(r->cq, &err, 0) == 1 && err.op_context == ctx)
			return err.err;
		CHECK(n == -FI_EAGAIN, "%s: %zd, of another operation", what, n);
		CHECK(rig_now_ns() < end, "%s: does not end", what);
		sched_yield();
	}
}

static ssize_t post(struct rig *r, const struct item *it, uint32_t to, uint64_t tag, void *ctx)
{
	const struct rig_peer *p = &r->w->peer[to];
	void *desc = fi_mr_desc(r->mr);
	uint8_t *out = r->region;

	switch (it->act) {
	case RIG_SEND:
		return fi_tsend(r->ep, out, it->len, desc, r->to[to], tag, ctx);
	case RIG_WRITE:
		return fi_write(r->ep, out, it->len, desc, r->to[to], p->mem + IN_OFF, p->key, ctx);
	case RIG_READ:
		return fi_read(r->ep, out, it->len, desc, r->to[to], p->mem + IN_OFF, p->key, ctx);
	case RIG_ATOMIC:
		return fi_atomic(r->ep, out, 1, desc, r->to[to], p->mem + WORD_OFF, p->key, FI_UINT64, FI_SUM, ctx);
	default: /* RIG_FETCH */
		return fi_fetch_atomic(r->ep, out, 1, desc, out + 64, desc, r->to[to], p->mem + WORD_OFF, p->key,
				       FI_UINT64, FI_SUM, ctx);
	}
}

/* Return: 0; the error that the call, or the operation, ended with. */
static int issue(struct rig *r, const struct item *it, uint32_t to, uint64_t tag, const char *what)
{
	uint64_t end = rig_now_ns() + 20000 * RIG_NS_PER_MS;
	struct fi_context2 ctx[2]; /* some modes want room here */
	ssize_t ret;

	while ((ret = post(r, it, to, tag, &ctx)) == -FI_EAGAIN) {
		CHECK(rig_now_ns() < end, "%s: finds no room", what);
		rig_progress(r);
		sched_yield();
	}
	return ret ? (int)-ret : done(r, &ctx, what);
}

/* One item, from @from to @to, both of whom call this; the target's barrier drives it. */
static void one(struct rig *r, const struct item *it, uint32_t from, uint32_t to, unsigned id)
{
	uint64_t seed = r->w->seed + id, word = id, was;
	bool is_word = it->act == RIG_ATOMIC || it->act == RIG_FETCH;
	struct fi_context2 ctx;
	char what[64];

	snprintf(what, sizeof(what), "item %u of %u bytes from rank %u to %u", id, it->len, from, to);
	if (r->rank == to) {
		memset(r->region + IN_OFF, 0, it->len);
		memcpy(r->region + WORD_OFF, &word, 8);
		if (it->act == RIG_READ)
			rig_fill(r->region + IN_OFF, it->len, seed);
		if (it->act == RIG_SEND)
			OK(fi_trecv(r->ep, r->region + IN_OFF, it->len, fi_mr_desc(r->mr), FI_ADDR_UNSPEC, id, 0,
				    &ctx));
		atomic_fetch_add(&r->w->phase, 1);
		if (it->act == RIG_SEND)
			CHECK(!done(r, &ctx, what), "%s: failed", what);
		rig_barrier(r, id, 2);
		if (it->act != RIG_READ && !is_word)
			CHECK(rig_is_filled(r->region + IN_OFF, it->len, seed) < 0, "%s: wrong bytes", what);
		memcpy(&word, r->region + WORD_OFF, 8);
		CHECK(!is_word || word == id + 7, "%s: the word is %llu", what, (unsigned long long)word);
		return;
	}
	while (atomic_load(&r->w->phase) <= id) /* the target is ready; nothing is polled that could tell us of it */
		sched_yield();
	rig_fill(r->region, it->len, seed);
	word = 7;
	if (is_word)
		memcpy(r->region, &word, 8);
	if (it->act == RIG_READ)
		memset(r->region, 0, it->len);
	CHECK(!issue(r, it, to, id, what), "%s: failed", what);
	rig_barrier(r, id, 2);
	if (it->act == RIG_READ)
		CHECK(rig_is_filled(r->region, it->len, seed) < 0, "%s: wrong bytes", what);
	memcpy(&was, r->region + 64, 8);
	CHECK(it->act != RIG_FETCH || was == id, "%s: fetched %llu", what, (unsigned long long)was);
}

static void publish(struct rig *r)
{
	struct rig_peer *me = &r->w->peer[r->rank];
	size_t len = sizeof(me->addr);

	OK(fi_getname(&r->ep->fid, me->addr, &len));
	me->addr_len = len;
	me->mem = r->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)r->region : 0;
	me->key = fi_mr_key(r->mr);
}

static void meet(struct rig *r, uint32_t rank)
{
	CHECK(fi_av_insert(r->av, r->w->peer[rank].addr, 1, &r->to[rank], 0, NULL) == 1, "address of rank %u refused",
	      rank);
}

/* Both ways with the first process, which shared memory does not reach. */
static void first_life(struct rig *r)
{
	static const struct item it = {RIG_SEND, 64};

	one(r, &it, RANK_STAYS, RANK_FIRST, 0);
	one(r, &it, RANK_FIRST, RANK_STAYS, 1);
}

/*
 * Until nothing has been sent to the first process for a while: what it did not answer any more would say that it died.
 */
static void quiet(struct rig *r)
{
	uint64_t end = rig_now_ns() + 20000 * RIG_NS_PER_MS, since = rig_now_ns(), was = 0, now;

	while (rig_now_ns() - since < 300 * RIG_NS_PER_MS) {
		now = rig_link_stat(r, "net_tx_dgrams");
		if (now != was)
			since = rig_now_ns();
		was = now;
		CHECK(rig_now_ns() < end, "it does not get quiet");
		rig_progress(r);
		sched_yield();
	}
}

/*
 * Who stays speaks first, still to the dead one as far as it knows: that may end with an error, which is how it learns.
 * Twice at most: the end of what was, and what crosses the beginning of the next.
 */
static void learn(struct rig *r)
{
	static const struct item it = {RIG_ATOMIC, 8};
	int tries = 0, err;

	while ((err = issue(r, &it, RANK_NEXT, 99, "the first word to the successor")))
		CHECK(++tries < 3, "the successor is not reached: %d (%s)", err, fi_strerror(err));
}

static void second_life(struct rig *r, const struct args *a)
{
	uint32_t first = a->next_speaks ? RANK_NEXT : RANK_STAYS, other = RANK_NEXT - first;
	unsigned id = 3;

	if (!a->next_speaks && r->rank == RANK_STAYS)
		learn(r);
	rig_barrier(r, 2, 2);
	if (r->rank == RANK_STAYS)
		atomic_fetch_add(&r->w->phase, 1);
	for (size_t i = 0; i < ITEMS; i++) {
		one(r, &items[i], first, other, id++);
		one(r, &items[i], other, first, id++);
	}
}

static int rank_main(struct rig *r, const void *arg)
{
	uint64_t before;
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", 100 + getppid() % 400);
	r->service = rig_prov()->match_complete && r->rank != RANK_STAYS ? pid : NULL;
	if (r->rank == RANK_NEXT)
		step_is(r, S_DEAD, false);
	if (r->rank == RANK_FIRST)
		step_is(r, S_FIRST, false);
	rig_open_alone(r, REGION_LEN);
	publish(r);
	atomic_store(&r->w->word[r->rank == RANK_STAYS ? S_FIRST : r->rank == RANK_FIRST ? S_MET : S_NEXT], 1);
	if (r->rank == RANK_FIRST) {
		meet(r, RANK_STAYS);
		first_life(r);
		step_is(r, S_DEAD, true); /* which is its own end */
	} else if (r->rank == RANK_NEXT) {
		CHECK(!strcmp(rig_prov()->name, "efa") ||
			      !memcmp(r->w->peer[RANK_FIRST].addr, r->w->peer[RANK_NEXT].addr, 16),
		      "the successor is at another place");
		meet(r, RANK_STAYS);
		second_life(r, arg);
	} else {
		step_is(r, S_MET, true);
		meet(r, RANK_FIRST);
		first_life(r);
		CHECK(!rig_link_stat(r, "shm_tx_pkts"), "the first process was to be reached by UDP");
		quiet(r);
		atomic_store(&r->w->word[S_QUIET], 1);
		step_is(r, S_NEXT, false); /* nothing is sent meanwhile, so that nothing says that it died */
		meet(r, RANK_NEXT);
		before = rig_link_stat(r, "net_tx_dgrams");
		second_life(r, arg);
		CHECK(rig_link_stat(r, "shm_tx_pkts"),
		      "the second process was to be reached by shared memory: %llu datagrams",
		      (unsigned long long)(rig_link_stat(r, "net_tx_dgrams") - before));
	}
	rig_close(r);
	return 0;
}

static int run(const struct args *a)
{
	/* two contexts: who comes second has the first one's */
	static const char *const env[RANKS][5] = {
		[RANK_STAYS] = {"SOFTFABRIC_OPX", "contexts=2"},
		[RANK_FIRST] = {"SOFTFABRIC_OPX", "contexts=2", "SOFTFABRIC_NET", "udp"},
		[RANK_NEXT] = {"SOFTFABRIC_OPX", "contexts=2"}};
	struct rig_world *w = rig_world_new(RANKS, rig_seed());
	uint64_t start = rig_now_ns();
	pid_t pid[RANKS];
	int ret;

	for (uint32_t i = 0; i < RANKS; i++)
		pid[i] = rig_spawn(w, i, rank_main, a, env[i]);
	while (!atomic_load(&w->word[S_QUIET]) && rig_now_ns() - start < 30000 * RIG_NS_PER_MS)
		rig_sleep_ms(1);
	kill(pid[RANK_FIRST], SIGKILL);
	waitpid(pid[RANK_FIRST], NULL, 0);
	pid[RANK_FIRST] = 0;
	atomic_store(&w->word[S_DEAD], 1);
	ret = rig_await(pid, RANKS, 60000);
	rig_world_free(w);
	if (rig_shm_files())
		ret = 1;
	printf("%s place-%s %llu ms\n", ret ? "FAIL" : "pass", a->next_speaks ? "successor-speaks" : "survivor-speaks",
	       (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
	fflush(stdout);
	return ret != 0;
}

int main(void)
{
	char why[128] = "";
	int failed = 0;

	printf("SEED=%#llx\n", (unsigned long long)rig_seed());
	if (!rig_private(64, why, sizeof(why))) {
		printf("SKIP: needs a /dev/shm of its own: %s\n", why);
		return RIG_SKIP;
	}
	for (int next = 0; next < 2; next++)
		failed += run(&(struct args){.next_speaks = next});
	return failed != 0;
}
