// SPDX-License-Identifier: BSD-2-Clause
// A peer dies, stops, or is cut off in the middle of mixed traffic: all that waits for it ends in time, once; the
// others go on.
#include "rig.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * Every rank keeps a few operations of each kind under way with every other: a stream of tagged messages of all
 * protocols in each direction, and reads, writes and fetching atomics on the other's region. What message i of a stream
 * looks like follows from the seed, so that both ends know. Between the event and dead_after + 1 s every operation with
 * the victim must complete, well or with a documented code; operations among survivors must all succeed, also in the
 * second before the end.
 *
 * A receive that was only posted stays posted when its sender dies: at the end it must let itself be cancelled. One
 * that was in progress must have ended by itself.
 */

#define RANKS     4
#define SLACK_MS  1000u
#define WIN       3          /* operations of a kind under way with a peer */
#define BUF_LEN   (640u << 10)
#define PATTERN   (1u << 20) /* bytes at the start of a region that only get read */
#define KINDS     3
#define OPS       (RANKS * KINDS * WIN)
#define AFTER_MAX 24         /* operations that are still tried with a peer that is known dead */
#define EARLY_MS  300u       /* of traffic at least before the event */
#define TRAFFIC_WORD 2048      /* of the world, and a word per rank: see has_traffic() */
#define LATE      2          /* of strike(): that was not to be had */
#define REGION    (PATTERN + RANKS * BUF_LEN + RANKS * 8u + (size_t)OPS * BUF_LEN + 4096)

/* Longer where SLOW says so (the sanitizers): a survivor that gets no processor for so long would be taken for dead. */
static unsigned dead_ms(void)
{
	const char *env = getenv("SLOW");

	return 2000u * (env && atoi(env) > 1 ? 3 : 1);
}

enum how { KILL, STOP, CUT, HOW_NUM };
static const char *const how_name[HOW_NUM] = {"kill", "stop", "partition"};

struct scenario {
	enum how how;
	bool udp;
	unsigned life; /* of rig_prov()->life */
	uint32_t victim;
	uint64_t at_ms; /* after the traffic began; partition: after the port opened */
	uint64_t seed;
};

enum kind { SEND, RECV, RMA };
enum rma { WRITE, READ, FETCH, RMA_NUM };

struct op {
	struct fi_context2 ctx; /* first */
	bool is_active, is_unmatched;
	uint8_t kind, rma;
	uint32_t peer;
	uint64_t idx; /* in its stream */
	uint64_t len, posted_ns;
	uint8_t *buf;
};

struct run {
	struct rig *r;
	const struct scenario *sc;
	struct op op[OPS + 1]; /* the last one: see post_unmatched() */
	uint64_t next[RANKS][KINDS]; /* index of the next message or access */
	uint64_t ended[RANKS][KINDS];
	uint64_t fetched[RANKS], write_seed[RANKS];
	uint32_t after[RANKS]; /* tried since it was known dead */
	bool is_known_dead[RANKS], is_stopping;
	uint64_t ok_before, ok_after; /* completions among survivors: before the event, and after dead_after */
};

/* --- who is what --------------------------------------------------------------------------------- */

static bool is_cut(const struct run *x, uint32_t peer)
{
	return peer == x->sc->victim || x->r->rank == x->sc->victim;
}

static uint64_t event_ns(const struct run *x)
{
	return atomic_load_explicit(&x->r->w->event_ns, memory_order_acquire);
}

static uint8_t *write_area(struct rig *r, uint32_t initiator)
{
	return r->region + PATTERN + initiator * BUF_LEN;
}

/* --- what an operation looks like ---------------------------------------------------------------- */

static uint64_t stream_seed(const struct run *x, uint32_t src, uint32_t dst, uint64_t idx)
{
	return x->sc->seed * 1000003 + ((uint64_t)src << 48 | (uint64_t)dst << 40) + idx;
}

static uint64_t stream_len(uint64_t seed)
{
	static const uint32_t len[] = {0, 8, 100, 3000, 8000, 20000, 60000, 200000, 600000};
	uint64_t s = seed;

	return len[rig_below(&s, sizeof(len) / sizeof(len[0]))];
}

static uint64_t stream_tag(uint32_t src, uint64_t idx)
{
	return (uint64_t)src << 40 | idx;
}

static uint64_t level_of(uint64_t n)
{
	return n == 0 ? FI_DELIVERY_COMPLETE : n == 1 ? rig_prov()->match_complete : 0;
}

static ssize_t post_send(struct run *x, struct op *op)
{
	struct rig *r = x->r;
	uint64_t seed = stream_seed(x, r->rank, op->peer, op->idx), s = seed ^ 0x55;
	struct iovec iov = {op->buf, op->len = stream_len(seed)};
	void *desc = fi_mr_desc(r->mr);
	struct fi_msg_tagged m = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = r->to[op->peer],
				  .tag = stream_tag(r->rank, op->idx), .context = &op->ctx};

	rig_fill(op->buf, op->len, seed);
	return fi_tsendmsg(r->ep, &m, FI_COMPLETION | level_of(rig_below(&s, 4)));
}

static ssize_t post_recv(struct run *x, struct op *op)
{
	struct rig *r = x->r;

	op->len = stream_len(stream_seed(x, op->peer, r->rank, op->idx));
	memset(op->buf, 0xee, op->len);
	return fi_trecv(r->ep, op->buf, BUF_LEN, fi_mr_desc(r->mr), r->to[op->peer], stream_tag(op->peer, op->idx), 0,
			&op->ctx);
}

static ssize_t post_rma(struct run *x, struct op *op)
{
	struct rig *r = x->r;
	const struct rig_peer *p = &r->w->peer[op->peer];
	void *desc = fi_mr_desc(r->mr);
	uint64_t one = 1;

	op->rma = (uint8_t)(op->idx % RMA_NUM);
	op->len = MAX(stream_len(stream_seed(x, r->rank, op->peer, op->idx) ^ 0x77), 8u);
	if (op->rma == READ)
		return fi_read(r->ep, op->buf, op->len, desc, r->to[op->peer], p->mem, p->key, &op->ctx);
	if (op->rma == WRITE) {
		rig_fill(op->buf, op->len, op->idx);
		return fi_write(r->ep, op->buf, op->len, desc, r->to[op->peer], p->mem + PATTERN + r->rank * BUF_LEN,
				p->key, &op->ctx);
	}
	memcpy(op->buf, &one, 8);
	return fi_fetch_atomic(r->ep, op->buf, 1, desc, op->buf + 8, desc, r->to[op->peer],
			       p->mem + PATTERN + RANKS * BUF_LEN + r->rank * 8, p->key, FI_UINT64, FI_SUM, &op->ctx);
}

/* --- posting ------------------------------------------------------------------------------------- */

/* One write and one atomic at a time: their results tell whether the one before took place. */
static bool may_post(const struct run *x, const struct op *op)
{
	uint32_t peer = op->peer;

	if (peer == x->r->rank)
		return false;
	if (x->is_known_dead[peer])
		return op->kind != RECV && !x->is_stopping && x->after[peer] < AFTER_MAX;
	if (!x->is_stopping)
		return op->kind != RMA || x->next[peer][RMA] == x->ended[peer][RMA];
	/* the others said how much they sent */
	return op->kind == RECV && !is_cut(x, peer) &&
	       x->next[peer][RECV] <
		       atomic_load_explicit(&x->r->w->word[peer * RANKS + x->r->rank], memory_order_relaxed);
}

static void post(struct run *x, struct op *op)
{
	struct rig *r = x->r;
	ssize_t ret;

	op->idx = x->next[op->peer][op->kind];
	ret = op->kind == SEND ? post_send(x, op) : op->kind == RECV ? post_recv(x, op) : post_rma(x, op);
	if (ret == -FI_EAGAIN)
		return;
	if (ret && rig_prov()->posts_tell && is_cut(x, op->peer))
		x->is_known_dead[op->peer] = true;
	x->after[op->peer] += x->is_known_dead[op->peer];
	CHECK(!ret || (is_cut(x, op->peer) && x->is_known_dead[op->peer]), "post %u to rank %u: %zd (%s)", op->kind,
	      op->peer, ret, fi_strerror((int)-ret));
	if (ret)
		return;
	x->next[op->peer][op->kind]++;
	op->is_active = true;
	op->posted_ns = rig_now_ns();
}

/* A message that the victim takes and no receive of it ever matches: it must end with its peer all the same. */
static void post_unmatched(struct run *x)
{
	struct op *op = &x->op[OPS];
	struct rig *r = x->r;
	struct iovec iov = {r->region, 100};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .addr = r->to[x->sc->victim],
				  .tag = (1ull << 47) + r->rank, .context = &op->ctx};
	ssize_t ret;

	if (!rig_prov()->match_complete || r->rank == x->sc->victim)
		return;
	*op = (struct op){.is_active = true, .kind = SEND, .peer = x->sc->victim, .is_unmatched = true};
	do
		rig_progress(r);
	while ((ret = fi_tsendmsg(r->ep, &m, FI_COMPLETION | FI_MATCH_COMPLETE)) == -FI_EAGAIN);
	OK(ret);
	op->posted_ns = rig_now_ns();
}

/* --- completions --------------------------------------------------------------------------------- */

static void verify(struct run *x, const struct op *op)
{
	struct rig *r = x->r;
	int64_t at = -1;
	uint64_t v;

	if (op->kind == RECV)
		at = rig_is_filled(op->buf, op->len, stream_seed(x, op->peer, r->rank, op->idx));
	if (op->kind == RMA && op->rma == READ)
		at = rig_is_filled(op->buf, op->len, op->peer);
	CHECK(at < 0, "operation %u of kind %u with rank %u: wrong byte near %lld of %llu", (unsigned)op->idx, op->kind,
	      op->peer, (long long)at, (unsigned long long)op->len);
	if (op->kind != RMA || op->rma != FETCH)
		return;
	memcpy(&v, op->buf + 8, 8);
	CHECK(v == x->fetched[op->peer], "atomic %llu at rank %u fetched %llu",
	      (unsigned long long)x->fetched[op->peer], op->peer, (unsigned long long)v);
	x->fetched[op->peer]++;
}

static struct op *op_of(struct run *x, void *context)
{
	struct rig *r = x->r;
	struct op *op = context;

	CHECK(op >= x->op && op <= x->op + OPS && op->is_active, "a completion of an operation that is not under way");
	op->is_active = false;
	x->ended[op->peer][op->kind] += !op->is_unmatched;
	return op;
}

static void on_done(struct run *x, const struct fi_cq_tagged_entry *e)
{
	struct op *op = op_of(x, e->op_context);
	uint64_t now = rig_now_ns(), at = event_ns(x);
	struct rig *r = x->r;

	if (op->kind == RECV)
		CHECK(e->len == op->len, "%zu bytes received from rank %u, not %llu", e->len, op->peer,
		      (unsigned long long)op->len);
	CHECK(!op->is_unmatched, "a message that nobody received was matched");
	verify(x, op);
	if (is_cut(x, op->peer))
		return;
	if (op->kind == RMA && op->rma == WRITE)
		x->write_seed[op->peer] = op->idx << 32 | op->len;
	if (!at || now < at) {
		x->ok_before++;
		atomic_store_explicit(&r->w->word[TRAFFIC_WORD + r->rank], 1, memory_order_relaxed);
	} else if (now > at + dead_ms() * RIG_NS_PER_MS) {
		x->ok_after++;
		atomic_store_explicit(&r->w->word[TRAFFIC_WORD + r->rank], 2, memory_order_relaxed);
	}
}

static bool is_documented(const struct fi_cq_err_entry *e)
{
	const struct rig_prov *p = rig_prov();

	for (size_t i = 0; p->lost[i].err; i++)
		if (e->prov_errno == p->lost[i].prov && e->err == p->lost[i].err)
			return true;
	return false;
}

static void on_error(struct run *x, const struct fi_cq_err_entry *e)
{
	struct op *op = op_of(x, e->op_context);
	struct rig *r = x->r;
	uint64_t at = event_ns(x);

	CHECK(is_cut(x, op->peer), "operation of kind %u with survivor %u failed: %d/%d", op->kind, op->peer, e->err,
	      e->prov_errno);
	CHECK(at && rig_now_ns() + 100 * RIG_NS_PER_MS >= at,
	      "operation with rank %u failed before anything happened: %d/%d", op->peer, e->err, e->prov_errno);
	CHECK(is_documented(e), "operation of kind %u with the victim ended with %d/%d", op->kind, e->err,
	      e->prov_errno);
	x->is_known_dead[op->peer] = true;
}

static void poll_cq(struct run *x)
{
	struct fi_cq_tagged_entry e[8];
	struct fi_cq_err_entry err = {0};
	struct rig *r = x->r;
	ssize_t n = fi_cq_read(r->cq, e, 8);

	for (ssize_t i = 0; i < n; i++)
		on_done(x, &e[i]);
	if (n == -FI_EAVAIL) {
		CHECK(fi_cq_readerr(r->cq, &err, 0) == 1, "no error entry after FI_EAVAIL");
		on_error(x, &err);
	} else {
		CHECK(n >= 0 || n == -FI_EAGAIN, "fi_cq_read: %zd", n);
	}
	if (n <= 0)
		sched_yield();
}

/* --- the loop ------------------------------------------------------------------------------------ */

/* How long this thread has stood in line for a CPU; 0 where the kernel does not say. */
static uint64_t starved_ns(void)
{
	FILE *f = fopen("/proc/thread-self/schedstat", "re");
	unsigned long long ran, waited = 0;

	if (f && fscanf(f, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	if (f)
		fclose(f);
	return waited;
}

static void check_time(struct run *x, uint64_t now)
{
	uint64_t at = event_ns(x);
	struct rig *r = x->r;

	for (uint32_t i = 0; i <= OPS; i++) {
		const struct op *op = &x->op[i];
		uint64_t until = MAX(op->posted_ns, at) + (dead_ms() + SLACK_MS) * RIG_NS_PER_MS;

		if (!op->is_active || op->kind == RECV)
			continue;
		if (is_cut(x, op->peer) && at)
			CHECK(now < until || now < until + starved_ns(),
			      "kind %u/%u to the victim (rank %u, index %llu, %llu bytes, posted %lld ms after the "
			      "event) is still outstanding",
			      op->kind, op->rma, op->peer, (unsigned long long)op->idx, (unsigned long long)op->len,
			      (long long)(op->posted_ns - at) / 1000000);
		else if (!op->is_unmatched)
			CHECK(now < op->posted_ns + 15000 * RIG_NS_PER_MS, "kind %u to rank %u hangs", op->kind,
			      op->peer);
	}
}

static void step(struct run *x)
{
	for (uint32_t i = 0; i < OPS; i++) {
		struct op *op = &x->op[i];

		if (!op->is_active && may_post(x, op))
			post(x, op);
	}
	for (int i = 0; i < 16; i++)
		poll_cq(x);
	check_time(x, rig_now_ns());
}

static bool is_quiet(const struct run *x)
{
	for (uint32_t i = 0; i <= OPS; i++) {
		const struct op *op = &x->op[i];

		if (op->peer == x->r->rank && !op->is_unmatched)
			continue;
		if (op->is_active && op->kind != RECV)
			return false;
		if (!is_cut(x, op->peer) &&
		    x->ended[op->peer][RECV] <
			    atomic_load_explicit(&x->r->w->word[op->peer * RANKS + x->r->rank], memory_order_relaxed))
			return false;
	}
	return true;
}

/* What is only posted is given back; what does not let itself be cancelled was in progress and should have ended. */
static void cancel_rest(struct run *x)
{
	struct fi_cq_err_entry err;
	struct rig *r = x->r;

	for (uint32_t i = 0; i < OPS; i++) {
		struct op *op = &x->op[i];
		uint64_t end = rig_now_ns() + 2000 * RIG_NS_PER_MS;
		ssize_t n;

		if (!op->is_active)
			continue;
		fi_cancel(&r->ep->fid, &op->ctx);
		do {
			memset(&err, 0, sizeof(err));
			n = fi_cq_readerr(r->cq, &err, 0);
			rig_progress(r);
			CHECK(rig_now_ns() < end,
			      "receive %llu from rank %u (%llu bytes) neither ended nor was cancelled",
			      (unsigned long long)op->idx, op->peer, (unsigned long long)op->len);
		} while (n == -FI_EAGAIN);
		CHECK(n == 1 && err.op_context == &op->ctx && err.err == FI_ECANCELED, "cancelled receive: %zd, %d", n,
		      err.err);
		op->is_active = false;
	}
}

static void check_writes(struct run *x)
{
	struct rig *r = x->r;

	for (uint32_t i = 0; i < RANKS; i++) {
		uint64_t last = atomic_load_explicit(&r->w->word[1024 + i * RANKS + r->rank], memory_order_relaxed);
		int64_t at = last ? rig_is_filled(write_area(r, i), last & UINT32_MAX, last >> 32) : -1;

		if (!is_cut(x, i))
			CHECK(at < 0, "last write of rank %u is wrong near byte %lld", i, (long long)at);
	}
}

static void finish(struct run *x)
{
	struct rig *r = x->r;
	bool alone = r->rank == x->sc->victim;
	uint64_t start;

	x->is_stopping = true;
	for (uint32_t i = 0; i < RANKS; i++)
		atomic_store_explicit(&r->w->word[r->rank * RANKS + i], x->next[i][SEND], memory_order_relaxed);
	if (!alone)
		rig_barrier(r, 2, RANKS - 1);
	while (!is_quiet(x))
		step(x);
	cancel_rest(x);
	for (uint32_t i = 0; i < RANKS; i++)
		atomic_store_explicit(&r->w->word[1024 + r->rank * RANKS + i], x->write_seed[i], memory_order_relaxed);
	if (!alone) {
		rig_barrier(r, 3, RANKS - 1);
		check_writes(x);
		rig_barrier(r, 4, RANKS - 1);
		CHECK(x->ok_before && x->ok_after, "%llu completions among survivors before, %llu after",
		      (unsigned long long)x->ok_before, (unsigned long long)x->ok_after);
	}
	start = rig_now_ns();
	rig_close(r);
	CHECK(rig_now_ns() - start < 4000 * RIG_NS_PER_MS, "closing took %llu ms",
	      (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
}

static void layout(struct run *x)
{
	struct rig *r = x->r;
	uint8_t *at = r->region + PATTERN + RANKS * BUF_LEN + RANKS * 8u;

	rig_fill(r->region, PATTERN, r->rank);
	at += 64 - (uintptr_t)at % 64;
	for (uint32_t i = 0; i < OPS; i++, at += BUF_LEN)
		x->op[i] = (struct op){.kind = (uint8_t)(i % KINDS), .peer = i / KINDS % RANKS, .buf = at};
}

static int rank_main(struct rig *r, const void *arg)
{
	struct run *x = calloc(1, sizeof(*x));

	CHECK(x, "out of memory");
	*x = (struct run){.r = r, .sc = arg};
	rig_open(r, REGION);
	if (x->sc->how == CUT && r->rank == x->sc->victim)
		atomic_store(&r->w->event_ns, r->enabled_ns[1] + x->sc->at_ms * RIG_NS_PER_MS);
	layout(x);
	post_unmatched(x);
	rig_barrier(r, 1, RANKS);
	while (!atomic_load_explicit(&r->w->phase, memory_order_relaxed))
		step(x);
	finish(x);
	free(x);
	return 0;
}

/* --- the parent ---------------------------------------------------------------------------------- */

static int newcomer(struct rig *r, const void *arg)
{
	(void)arg;
	rig_open_alone(r, 4096);
	rig_close(r);
	return 0;
}

static bool some_ended(void)
{
	siginfo_t si = {0};

	return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) || si.si_pid;
}

/* Have the survivors had completions among themselves, before the event (@when 1), or after its bound (2)? */
static bool has_traffic(struct rig_world *w, const struct scenario *sc, uint64_t when)
{
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != sc->victim && atomic_load_explicit(&w->word[TRAFFIC_WORD + i], memory_order_relaxed) < when)
			return false;
	return true;
}

/* Return: 0 = done; 1; LATE: nothing was tested. */
static int strike(struct rig_world *w, const struct scenario *sc, const pid_t *pid)
{
	uint64_t end = rig_now_ns() + 20000 * RIG_NS_PER_MS, at;

	while (atomic_load(&w->arrived[1]) < RANKS || !has_traffic(w, sc, 1)) {
		if (rig_now_ns() > end || some_ended()) {
			printf("    the ranks did not get ready\n");
			return 1;
		}
		if (sc->how == CUT && atomic_load(&w->event_ns) && rig_now_ns() > atomic_load(&w->event_ns))
			return LATE;
		rig_sleep_ms(1);
	}
	if (sc->how == CUT) {
		at = atomic_load(&w->event_ns);
		if (rig_now_ns() + EARLY_MS * RIG_NS_PER_MS > at)
			return LATE;
	} else {
		rig_sleep_ms(sc->at_ms);
		at = rig_now_ns();
		atomic_store(&w->event_ns, at);
		kill(pid[sc->victim], sc->how == KILL ? SIGKILL : SIGSTOP);
	}
	/* on a busy machine some ranks have their turn late: the end waits for what it asks for */
	at += (dead_ms() + SLACK_MS + 300) * RIG_NS_PER_MS;
	end = at + 10000 * RIG_NS_PER_MS;
	while (rig_now_ns() < at || (rig_now_ns() < end && !has_traffic(w, sc, 2)))
		rig_sleep_ms(10);
	atomic_store(&w->phase, 1);
	return 0;
}

static int try_one(const struct scenario *sc)
{
	char room[128], cut[192];
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", room, NULL}, *env_cut[RIG_ENV] = {"SOFTFABRIC_NET", cut, NULL};
	struct rig_world *w = rig_world_new(RANKS, sc->seed);
	pid_t pid[RANKS], victim, fresh;
	int ret;

	rig_env_path(env, sc->udp);
	rig_env_add(env, rig_prov()->life[sc->life].env);
	rig_env_add(env_cut, env + 2);
	snprintf(room, sizeof(room), "%sdead_after=%us;seed=%u", sc->udp ? rig_prov()->udp_room : "", dead_ms() / 1000,
		 (unsigned)(sc->seed & 0xffff) + 1);
	snprintf(cut, sizeof(cut), "%s;partition=%llums-never", room, (unsigned long long)sc->at_ms);
	for (uint32_t i = 0; i < RANKS; i++)
		pid[i] = rig_spawn(w, i, rank_main, sc, sc->how == CUT && i == sc->victim ? env_cut : env);
	victim = pid[sc->victim];
	ret = strike(w, sc, pid);
	if (sc->how != CUT)
		pid[sc->victim] = 0;
	if (rig_await(pid, RANKS, ret ? 0 : 19000 + 3 * (int)dead_ms()) && !ret)
		ret = 1;
	if (sc->how != CUT) {
		kill(victim, SIGKILL);
		waitpid(victim, NULL, 0);
	}
	fresh = rig_spawn(w, 0, newcomer, NULL, env);
	if (rig_await(&fresh, 1, 10000))
		ret = 1;
	rig_world_free(w);
	return ret;
}

/*
 * A cut counts from when the victim's port opened: on a busy machine the others may be ready after it only. Later,
 * then.
 */
static int run_one(struct scenario *sc)
{
	int ret = try_one(sc);

	for (int i = 0; i < 3 && ret == LATE; i++) {
		sc->at_ms *= 2;
		printf("    the ranks were ready too late, again with %llu ms\n", (unsigned long long)sc->at_ms);
		ret = try_one(sc);
	}
	return ret;
}

int main(int argc, char **argv)
{
	uint64_t seed = rig_seed(), s = seed;
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1, failed = 0;
	const char *only = argc > 2 ? argv[2] : "";
	char why[128] = "";
	bool own_shm;

	printf("SEED=%#llx\n", (unsigned long long)seed);
	own_shm = rig_private(512, why, sizeof(why));
	if (!own_shm)
		printf("files left in /dev/shm are not checked: %s\n", why);
	for (unsigned i = 0; i < rounds * HOW_NUM * 4; i++) {
		struct scenario sc = {
			.how = (enum how)(i / 4 % HOW_NUM),
			.udp = i % 2,
			.life = i / 2 % 2,
			.seed = rig_rand(&s),
		};
		char name[64];
		uint64_t start = rig_now_ns();
		int ret;

		sc.victim = (uint32_t)rig_below(&s, RANKS);
		/* the others have so long to get ready: see run_one() */
		sc.at_ms = 200 + rig_below(&s, 500) + (sc.how == CUT ? 1800 : 0);
		snprintf(name, sizeof(name), "%s-%s-%s", how_name[sc.how], sc.udp ? "udp" : "shm",
			 rig_prov()->life[sc.life].label);
		if (!strstr(name, only))
			continue;
		ret = run_one(&sc);
		if (own_shm && rig_shm_files())
			ret = 1;
		failed += ret != 0;
		printf("%s %s (victim %u at %llu ms) %llu ms\n", ret ? "FAIL" : "pass", name, sc.victim,
		       (unsigned long long)sc.at_ms, (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
		fflush(stdout);
	}
	return failed != 0;
}
