// SPDX-License-Identifier: BSD-2-Clause
// A rank is stopped for longer than dead_after and goes on: no message of it ends in another's stream, and it counts
// nothing that was not taken.
#include "rig.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * Rank W sends to rank B without end and is stopped in the middle of it. B, which sends to W now and then, finds it
 * dead. Then rank X comes and sends to B; W goes on meanwhile, and has to connect anew. Every message of W ends: well,
 * and then B has it, or with an error. X has no error, and B has all that it sent, once.
 */

enum { W, B, X, RANKS };
enum { UP, DEAD, X_SENT, GOOD, GOT, OVER }; /* words of the world */
#define DEAD_MS	 1000u
#define LIMIT_MS 30000u
#define WIN	 4
#define BUF_LEN	 4096u
#define REGION	 (64 * BUF_LEN)
#define X_CNT	 100u
#define SEQ_MAX	 1000000u

struct op {
	struct fi_context2 ctx; /* first */
	bool is_active;
	uint32_t src; /* of a receive */
	uint8_t *buf;
};

struct run {
	struct rig *r;
	struct op op[2 * WIN];
	uint64_t next[RANKS], good, bad; /* next: number of the next message to, or how many from */
	uint64_t end_ns;
	bool is_taken[RANKS][SEQ_MAX];
};

static uint64_t word(struct rig *r, unsigned i)
{
	return atomic_load(&r->w->word[i]);
}

static uint64_t tag_of(uint32_t src, uint64_t seq)
{
	return (uint64_t)(src + 1) << 32 | seq;
}

static uint32_t len_of(uint64_t seq)
{
	return seq % 3 ? 100 : 3000;
}

static uint32_t active(const struct run *x)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < WIN; i++)
		n += x->op[i].is_active;
	return n;
}

static void check_time(struct run *x)
{
	struct rig *r = x->r;

	CHECK(rig_now_ns() < x->end_ns,
	      "hangs with %llu failed, %u under way: up %llu, dead %llu, X has sent %llu, over %llu",
	      (unsigned long long)x->bad, active(x), (unsigned long long)word(r, UP), (unsigned long long)word(r, DEAD),
	      (unsigned long long)word(r, X_SENT), (unsigned long long)word(r, OVER));
}

static void on_done(struct run *x, void *context, uint64_t tag, bool is_good)
{
	struct op *op = context;
	struct rig *r = x->r;
	uint64_t seq;

	op->is_active = false;
	x->good += is_good;
	x->bad += !is_good;
	if (op->src == B || !is_good)
		return;
	/* received: only B does, from W and X; what is short may overtake what is long */
	seq = tag - tag_of(op->src, 0);
	CHECK(seq < SEQ_MAX && !x->is_taken[op->src][seq], "message %#llx of rank %u came before, or is none",
	      (unsigned long long)tag, op->src);
	CHECK(rig_is_filled(op->buf, len_of(seq), tag) < 0, "message %#llx of rank %u is not what was sent",
	      (unsigned long long)tag, op->src);
	x->is_taken[op->src][seq] = true;
	x->next[op->src]++;
	if (op->src == W)
		atomic_store(&r->w->word[GOT], x->next[W]);
}

static void poll_cq(struct run *x)
{
	struct fi_cq_tagged_entry e[8];
	struct fi_cq_err_entry err = {0};
	struct rig *r = x->r;
	ssize_t n = fi_cq_read(r->cq, e, 8);

	for (ssize_t i = 0; i < n; i++)
		on_done(x, e[i].op_context, e[i].tag, true);
	if (n == -FI_EAVAIL && fi_cq_readerr(r->cq, &err, 0) == 1)
		on_done(x, err.op_context, 0, false);
	check_time(x);
}

/* Return: false: not now, or never again. */
static bool post_send(struct run *x, uint32_t dst)
{
	struct rig *r = x->r;
	struct op *op = x->op;
	uint64_t seq = x->next[dst], tag = tag_of(r->rank, seq);
	struct fi_msg_tagged m;
	struct iovec iov;
	void *desc = fi_mr_desc(r->mr);
	ssize_t rc;

	while (op < x->op + WIN && op->is_active)
		op++;
	if (op == x->op + WIN || seq == SEQ_MAX)
		return false;
	iov = (struct iovec){op->buf, len_of(seq)};
	rig_fill(op->buf, iov.iov_len, tag);
	m = (struct fi_msg_tagged){.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = r->to[dst], .tag = tag,
				   .context = &op->ctx};
	op->src = B;
	rc = fi_tsendmsg(r->ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	op->is_active = rc == 0;
	x->next[dst] += rc == 0;
	x->bad += rc && rc != -FI_EAGAIN;
	return rc == 0;
}

static void post_recv(struct run *x, struct op *op, uint32_t src)
{
	struct rig *r = x->r;
	ssize_t rc;

	if (op->is_active)
		return;
	op->src = src;
	rc = fi_trecv(r->ep, op->buf, BUF_LEN, fi_mr_desc(r->mr), r->to[src], tag_of(src, 0), UINT32_MAX, &op->ctx);
	CHECK(!rc || rc == -FI_EAGAIN || src == W, "receive: %zd", rc);
	op->is_active = rc == 0;
}

/* Sends until it hears that B has given it up, or, having been stopped between two messages, for a while afterwards. */
static void run_w(struct run *x)
{
	struct rig *r = x->r;

	uint64_t mark = UINT64_MAX;

	while (!x->bad && x->good < mark) {
		post_send(x, B);
		poll_cq(x);
		atomic_store(&r->w->word[UP], x->good);
		if (word(r, DEAD) && mark == UINT64_MAX)
			mark = x->good + 20;
	}
	while (active(x))
		poll_cq(x);
	atomic_store(&r->w->word[GOOD], x->good);
	atomic_store(&r->w->word[OVER], 1);
}

static void run_x(struct run *x)
{
	struct rig *r = x->r;

	while (!word(r, DEAD))
		poll_cq(x);
	while (x->next[B] < X_CNT || !word(r, OVER)) {
		post_send(x, B);
		poll_cq(x);
		atomic_store(&r->w->word[X_SENT], x->good);
	}
	while (active(x))
		poll_cq(x);
	CHECK(!x->bad, "%llu messages of the innocent rank failed", (unsigned long long)x->bad);
	atomic_store(&r->w->word[X_SENT], x->good);
	atomic_store(&r->w->word[OVER], 2);
}

static void run_b(struct run *x)
{
	struct rig *r = x->r;
	bool is_dead = false;

	while (word(r, OVER) < 2 || x->next[X] < word(r, X_SENT)) {
		for (uint32_t i = 0; i < WIN; i++)
			post_recv(x, &x->op[WIN + i], i % 2 ? X : W);
		if (atomic_load(&r->w->event_ns) && !is_dead)
			post_send(x, W); /* nobody receives it: only to see whether W is there */
		poll_cq(x);
		if (x->bad && !is_dead) {
			is_dead = true;
			atomic_store(&r->w->word[DEAD], 1);
		}
	}
	CHECK(word(r, GOOD) <= x->next[W], "%llu messages counted as delivered, %llu taken",
	      (unsigned long long)word(r, GOOD), (unsigned long long)x->next[W]);
}

static int rank_main(struct rig *r, const void *arg)
{
	struct run *x = calloc(1, sizeof(*x));

	(void)arg;
	CHECK(x, "out of memory");
	x->r = r;
	x->end_ns = rig_now_ns() + LIMIT_MS * RIG_NS_PER_MS;
	rig_open(r, REGION);
	for (uint32_t i = 0; i < 2 * WIN; i++)
		x->op[i].buf = r->region + i * BUF_LEN;
	rig_barrier(r, 1, RANKS);
	if (r->rank == W)
		run_w(x);
	else if (r->rank == B)
		run_b(x);
	else
		run_x(x);
	rig_close(r);
	free(x);
	return 0;
}

static bool wait_word(struct rig_world *w, unsigned i, uint64_t at_least)
{
	uint64_t end = rig_now_ns() + LIMIT_MS * RIG_NS_PER_MS;

	while (atomic_load(&w->word[i]) < at_least && rig_now_ns() < end)
		rig_sleep_ms(1);
	return atomic_load(&w->word[i]) >= at_least;
}

static int run_one(unsigned round)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", "dead_after=1s", NULL};
	struct rig_world *w = rig_world_new(RANKS, rig_seed() + round);
	pid_t pid[RANKS];
	int ret = 1;

	rig_env_add(env, rig_prov()->life[round % 2].env);
	for (uint32_t i = 0; i < RANKS; i++)
		pid[i] = rig_spawn(w, i, rank_main, NULL, env);
	if (wait_word(w, UP, 50 + round % 64)) {
		kill(pid[W], SIGSTOP);
		atomic_store(&w->event_ns, rig_now_ns());
		ret = !wait_word(w, DEAD, 1) || !wait_word(w, X_SENT, X_CNT / 2);
		kill(pid[W], SIGCONT);
	}
	if (ret)
		printf("    up %llu, dead %llu, X has sent %llu\n", (unsigned long long)w->word[UP],
		       (unsigned long long)w->word[DEAD], (unsigned long long)w->word[X_SENT]);
	ret |= rig_await(pid, RANKS, ret ? 0 : LIMIT_MS);
	rig_world_free(w);
	return ret;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1, failed = 0;
	char why[128] = "";
	bool own_shm = rig_private(256, why, sizeof(why));

	printf("SEED=%#llx\n", (unsigned long long)rig_seed());
	if (!own_shm)
		printf("files left in /dev/shm are not checked: %s\n", why);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start = rig_now_ns();
		int ret = run_one(i);

		if (own_shm && rig_shm_files())
			ret = 1;
		failed += ret != 0;
		printf("%s round %u, %llu ms\n", ret ? "FAIL" : "pass", i,
		       (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
		fflush(stdout);
	}
	return failed != 0;
}
