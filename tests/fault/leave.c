// SPDX-License-Identifier: BSD-2-Clause
// Orderly ends and quiet partners: send, close, exit over a lossy network; many ranks in little memory; a target that
// computes.
#include "rig.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_eq.h>

#define MSGS    120
#define BUF_LEN (128u << 10)
#define SLOTS   8
#define IDLE_MSGS 400

/* What one case is about. */
struct args {
	bool udp;
	unsigned idle_s;
};

static uint64_t msg_seed(const struct rig *r, uint32_t src, uint64_t i)
{
	return r->w->seed * 7919 + (uint64_t)src * 100003 + i;
}

static size_t msg_len(uint64_t seed)
{
	static const uint32_t len[] = {0, 8, 100, 1000, 8000, 20000, 60000, 100000};
	uint64_t s = seed;

	return len[rig_below(&s, sizeof(len) / sizeof(len[0]))];
}

static void no_errors(struct rig *r, ssize_t ret)
{
	struct fi_cq_err_entry e = {0};

	if (ret != -FI_EAVAIL)
		return;
	fi_cq_readerr(r->cq, &e, 0);
	FAIL("an operation ended with %d/%d (%s)", e.err, e.prov_errno, fi_strerror(e.err));
}

/* The context of the next completion; NULL: none now. */
static void *next_done(struct rig *r, size_t *len)
{
	struct fi_cq_tagged_entry e;
	ssize_t ret = fi_cq_read(r->cq, &e, 1);

	if (ret == 1) {
		*len = e.len;
		return e.op_context;
	}
	CHECK(ret == -FI_EAGAIN || ret == -FI_EAVAIL, "fi_cq_read: %zd", ret);
	no_errors(r, ret);
	sched_yield();
	return NULL;
}

static void again(struct rig *r, ssize_t ret, const char *what)
{
	CHECK(!ret || ret == -FI_EAGAIN, "%s: %s", what, fi_strerror((int)-ret));
	if (ret)
		rig_progress(r);
}

/* --- send, close, exit --------------------------------------------------------------------------- */

/* Every third message is injected: its sender hears nothing of it, and closes all the same. */
static void send_all(struct rig *r, uint32_t to)
{
	struct fi_context2 ctx[SLOTS];
	uint64_t posted = 0, done = 0;
	uint8_t small[128];
	size_t len;

	for (uint64_t i = 0; i < MSGS; i++) {
		uint64_t seed = msg_seed(r, r->rank, i);
		uint8_t *buf = r->region + posted % SLOTS * BUF_LEN;
		ssize_t ret;

		len = msg_len(seed);
		if (i % 3 == 0 && len <= MIN(sizeof(small), r->info->tx_attr->inject_size)) {
			rig_fill(small, len, seed);
			do
				again(r, ret = fi_tinject(r->ep, small, len, r->to[to], i), "fi_tinject");
			while (ret);
			continue;
		}
		rig_fill(buf, len, seed);
		do
			again(r, ret = fi_tsend(r->ep, buf, len, fi_mr_desc(r->mr), r->to[to], i, &ctx[posted % SLOTS]),
			      "fi_tsend");
		while (ret);
		posted++;
		/* they end in any order: all of them, before a buffer is used again */
		while (posted % SLOTS == 0 && done < posted)
			done += next_done(r, &len) != NULL;
	}
	while (done < posted)
		done += next_done(r, &len) != NULL;
}

static void recv_all(struct rig *r, uint32_t from)
{
	for (uint64_t i = 0; i < MSGS; i++) {
		uint64_t seed = msg_seed(r, from, i);
		struct fi_context2 ctx;
		ssize_t ret;
		size_t len;

		do
			again(r, ret = fi_trecv(r->ep, r->region, BUF_LEN, fi_mr_desc(r->mr), r->to[from], i, 0, &ctx),
			      "fi_trecv");
		while (ret);
		while (!next_done(r, &len))
			;
		CHECK(len == msg_len(seed), "message %llu has %zu bytes", (unsigned long long)i, len);
		CHECK(rig_is_filled(r->region, len, seed) < 0, "message %llu is damaged", (unsigned long long)i);
	}
}

/* The sender leaves as soon as it may; whoever stays sees no error, though receives are still posted. */
static int leaver(struct rig *r, const void *arg)
{
	struct fi_context2 ctx[2];
	uint64_t end;
	size_t len;

	(void)arg;
	rig_open(r, (SLOTS + 2) * BUF_LEN);
	if (r->rank == 0) {
		send_all(r, 1);
		rig_close(r);
		return 0;
	}
	OK(fi_trecv(r->ep, r->region + BUF_LEN, 8, fi_mr_desc(r->mr), r->to[0], 1u << 20, 0, &ctx[0]));
	OK(fi_trecv(r->ep, r->region + BUF_LEN, 8, fi_mr_desc(r->mr), FI_ADDR_UNSPEC, 1u << 21, 0, &ctx[1]));
	recv_all(r, 0);
	for (end = rig_now_ns() + 300 * RIG_NS_PER_MS; rig_now_ns() < end;)
		CHECK(!next_done(r, &len), "a completion out of nowhere");
	rig_close(r);
	return 0;
}

static int case_leave(const struct args *a)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", NULL};
	struct rig_world *w = rig_world_new(2, rig_seed());
	char room[64];
	pid_t pid[2];
	int ret;

	snprintf(room, sizeof(room), "%sloss=5%%;seed=11", a->udp ? rig_prov()->udp_room : "");
	env[1] = room;
	rig_env_path(env, a->udp);
	for (uint32_t i = 0; i < 2; i++)
		pid[i] = rig_spawn(w, i, leaver, a, env);
	ret = rig_await(pid, 2, 30000);
	rig_world_free(w);
	return ret;
}

/* --- a target that makes no call ----------------------------------------------------------------- */

static void wait_one(struct rig *r, uint64_t end, const char *what)
{
	size_t len;

	while (!next_done(r, &len))
		CHECK(rig_now_ns() < end, "%s did not complete while the target computes", what);
}

/* A post may have to wait for the handshake, which the target's adapter or its thread answers. */
#define POST(r_, end_, call_, what_)                                                                                   \
	for (ssize_t ret_; (ret_ = (call_)) != 0; again(r_, ret_, what_))                                              \
	CHECK(rig_now_ns() < end_, "%s is not taken while the target computes", what_)

static void busy_partner(struct rig *r, const struct args *a)
{
	uint64_t end = rig_now_ns() + a->idle_s * 800 * RIG_NS_PER_MS, last = rig_now_ns();
	const struct rig_peer *t = &r->w->peer[0];
	void *desc = fi_mr_desc(r->mr);
	struct fi_context2 ctx;
	uint64_t sent = 0;

	/* spread over the whole time: the adapter thread must not fall asleep for good */
	for (uint64_t i = 0; rig_now_ns() < end; i++) {
		size_t len = msg_len(msg_seed(r, 1, i));
		uint64_t soon = rig_now_ns() + 2000 * RIG_NS_PER_MS;

		rig_fill(r->region, len, i);
		POST(r, soon, fi_write(r->ep, r->region, len, desc, r->to[0], t->mem + BUF_LEN, t->key, &ctx),
		     "a write");
		wait_one(r, soon, "a write");
		memset(r->region + BUF_LEN, 0, len);
		POST(r, soon, fi_read(r->ep, r->region + BUF_LEN, len, desc, r->to[0], t->mem + BUF_LEN, t->key, &ctx),
		     "a read");
		wait_one(r, soon, "a read");
		CHECK(rig_is_filled(r->region + BUF_LEN, len, i) < 0, "read back something else");
		if (sent < IDLE_MSGS) {
			rig_fill(r->region, 64, msg_seed(r, 1, sent));
			POST(r, soon, fi_tsend(r->ep, r->region, 64, desc, r->to[0], sent, &ctx), "a send");
			wait_one(r, soon, "a send");
			sent++;
		}
		if (rig_now_ns() - last > 100 * RIG_NS_PER_MS)
			rig_sleep_ms(rig_below(&r->rng, a->idle_s * 20));
		last = rig_now_ns();
		rig_sleep_ms(rig_below(&r->rng, a->idle_s));
	}
	atomic_store(&r->w->word[0], sent + 1);
}

static int idle_main(struct rig *r, const void *arg)
{
	const struct args *a = arg;
	struct fi_context2 ctx;
	uint64_t sent;
	size_t len;

	r->progress = rig_prov()->idle ? rig_prov()->idle : FI_PROGRESS_MANUAL;
	rig_open(r, 4 * BUF_LEN);
	rig_barrier(r, 1, 2); /* the idle one has not polled even once: its adapter has to introduce itself */
	if (r->rank == 1) {
		busy_partner(r, a);
		rig_barrier(r, 2, 2);
		rig_close(r);
		return 0;
	}
	rig_sleep_ms(a->idle_s * 1000ull);
	sent = atomic_load(&r->w->word[0]);
	CHECK(sent, "the partner is not ready after %u s", a->idle_s);
	for (uint64_t i = 0; i + 1 < sent; i++) {
		OK(fi_trecv(r->ep, r->region, 64, fi_mr_desc(r->mr), r->to[1], i, 0, &ctx));
		while (!next_done(r, &len))
			;
		CHECK(len == 64 && rig_is_filled(r->region, 64, msg_seed(r, 1, i)) < 0, "message %llu",
		      (unsigned long long)i);
	}
	rig_barrier(r, 2, 2);
	rig_close(r);
	return 0;
}

static int case_idle(const struct args *a)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", a->udp ? rig_prov()->udp_room : "", NULL};
	struct rig_world *w = rig_world_new(2, rig_seed());
	pid_t pid[2];
	int ret;

	rig_env_path(env, a->udp);
	for (uint32_t i = 0; i < 2; i++)
		pid[i] = rig_spawn(w, i, idle_main, a, env);
	ret = rig_await(pid, 2, a->idle_s * 1000ull + 30000);
	rig_world_free(w);
	return ret;
}

/* --- many ranks in little memory ----------------------------------------------------------------- */

#define CROWD     64
#define CROWD_LEN 20000u

/* To everyone at once: one small message and one of several packets. */
static int crowd_main(struct rig *r, const void *arg)
{
	static struct fi_context2 ctx[CROWD][4];
	const uint32_t n = r->w->ranks;
	uint8_t *in, *out;
	uint32_t left = 0;
	size_t len;

	(void)arg;
	rig_open(r, 2 * CROWD * (CROWD_LEN + 128));
	out = r->region;
	in = out + CROWD * (CROWD_LEN + 128);
	for (uint32_t k = 1; k < n; k++) {
		uint32_t p = (r->rank + n - k) % n;

		OK(fi_trecv(r->ep, in + p * CROWD_LEN, CROWD_LEN, fi_mr_desc(r->mr), r->to[p], 1, 0, &ctx[p][0]));
		OK(fi_trecv(r->ep, in + CROWD * CROWD_LEN + p * 128, 100, fi_mr_desc(r->mr), r->to[p], 2, 0,
			    &ctx[p][1]));
	}
	for (uint32_t k = 1; k < n; k++) {
		uint32_t p = (r->rank + k) % n;
		ssize_t ret;

		rig_fill(out + p * CROWD_LEN, CROWD_LEN, msg_seed(r, r->rank, p));
		rig_fill(out + CROWD * CROWD_LEN + p * 128, 100, msg_seed(r, r->rank, CROWD + p));
		do
			again(r,
			      ret = fi_tsend(r->ep, out + CROWD * CROWD_LEN + p * 128, 100, fi_mr_desc(r->mr), r->to[p],
					     2, &ctx[p][2]),
			      "small");
		while (ret);
		do
			again(r,
			      ret = fi_tsend(r->ep, out + p * CROWD_LEN, CROWD_LEN, fi_mr_desc(r->mr), r->to[p], 1,
					     &ctx[p][3]),
			      "large");
		while (ret);
	}
	for (left = 4 * (n - 1); left;)
		left -= next_done(r, &len) != NULL;
	for (uint32_t p = 0; p < n; p++) {
		if (p == r->rank)
			continue;
		CHECK(rig_is_filled(in + p * CROWD_LEN, CROWD_LEN, msg_seed(r, p, r->rank)) < 0, "large one of rank %u",
		      p);
		CHECK(rig_is_filled(in + CROWD * CROWD_LEN + p * 128, 100, msg_seed(r, p, CROWD + r->rank)) < 0,
		      "small one of rank %u", p);
	}
	rig_barrier(r, 1, n);
	rig_close(r);
	return 0;
}

static int case_crowd(const struct args *a)
{
	struct rig_world *w = rig_world_new(CROWD, rig_seed());
	pid_t pid[CROWD];
	int ret;

	(void)a;
	for (uint32_t i = 0; i < CROWD; i++)
		pid[i] = rig_spawn(w, i, crowd_main, NULL, NULL);
	ret = rig_await(pid, CROWD, 120000);
	rig_world_free(w);
	return ret;
}

/* --- another process at the address of one that died --------------------------------------------- */

/* Steps, in words of the page. */
enum { S_READY, S_TAKEN, S_DEAD, S_AGAIN, S_OVER };

static void step_is(struct rig *r, int step, bool polls)
{
	uint64_t end = rig_now_ns() + 10000 * RIG_NS_PER_MS;

	while (!atomic_load(&r->w->word[step])) {
		CHECK(rig_now_ns() < end, "step %d does not come", step);
		if (polls)
			rig_progress(r);
		sched_yield();
	}
}

/* The first message is taken and never matched; the second one, which is complete when it was taken, says so. */
static void to_the_dead(struct rig *r)
{
	struct fi_context2 ctx[2];
	struct iovec iov = {r->region, 100};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .context = &ctx[0]};
	struct fi_cq_err_entry e = {0};
	uint64_t end;
	size_t len;

	step_is(r, S_READY, true);
	CHECK(fi_av_insert(r->av, r->w->peer[1].addr, 1, &r->to[1], 0, NULL) == 1, "address refused");
	m.addr = r->to[1];
	OK(fi_tsendmsg(r->ep, &m, FI_COMPLETION | FI_MATCH_COMPLETE));
	OK(fi_tsend(r->ep, r->region, 100, NULL, r->to[1], 1, &ctx[1]));
	while (!next_done(r, &len))
		;
	atomic_store(&r->w->word[S_TAKEN], 1);
	step_is(r, S_AGAIN, false); /* whoever asks now gets an answer */
	for (end = rig_now_ns() + 3000 * RIG_NS_PER_MS; fi_cq_readerr(r->cq, &e, 0) != 1; rig_progress(r))
		CHECK(rig_now_ns() < end, "a message to a dead process waits for its successor");
	CHECK(e.op_context == &ctx[0] && e.err == FI_EHOSTUNREACH, "it ended with %d/%d", e.err, e.prov_errno);
	atomic_store(&r->w->word[S_OVER], 1);
}

static int succession(struct rig *r, const void *arg)
{
	uint8_t addr[64];
	size_t len = sizeof(addr);
	char pid[16];

	(void)arg;
	snprintf(pid, sizeof(pid), "%d", 100 + getppid() % 400);
	r->service = r->rank ? pid : NULL;
	r->progress = FI_PROGRESS_MANUAL;
	if (r->rank == 2)
		step_is(r, S_DEAD, false);
	if (r->rank == 0)
		step_is(r, S_READY, false);
	rig_open_alone(r, 4096);
	OK(fi_getname(&r->ep->fid, r->rank ? addr : r->w->peer[0].addr, &len));
	if (r->rank == 1) {
		memcpy(r->w->peer[1].addr, addr, len);
		atomic_store(&r->w->word[S_READY], 1);
		step_is(r, S_TAKEN, true);
		raise(SIGKILL);
	}
	if (r->rank == 2) {
		CHECK(!memcmp(r->w->peer[1].addr, addr, len), "the successor has another address");
		atomic_store(&r->w->word[S_AGAIN], 1);
		step_is(r, S_OVER, true);
	} else {
		to_the_dead(r);
	}
	rig_close(r);
	return 0;
}

static int case_successor(const struct args *a)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", a->udp ? rig_prov()->udp_room : "", NULL};
	struct rig_world *w = rig_world_new(3, rig_seed());
	pid_t pid[3];
	int ret;

	rig_env_path(env, a->udp);
	for (uint32_t i = 0; i < 3; i++)
		pid[i] = rig_spawn(w, i, succession, a, env);
	waitpid(pid[1], NULL, 0);
	pid[1] = 0;
	atomic_store(&w->word[S_DEAD], 1);
	ret = rig_await(pid, 3, 20000);
	rig_world_free(w);
	return ret;
}

/* --- which --------------------------------------------------------------------------------------- */

static int one(const char *name, int (*fn)(const struct args *a), const struct args *a)
{
	uint64_t start = rig_now_ns();
	int ret = fn(a);

	if (rig_shm_files())
		ret = 1;
	printf("%s %s-%s %llu ms\n", ret ? "FAIL" : "pass", name, a->udp ? "udp" : "shm",
	       (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
	fflush(stdout);
	return ret != 0;
}

/* leave | idle [seconds] | successor | crowd */
int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "leave";
	struct args a = {.idle_s = argc > 2 ? (unsigned)atoi(argv[2]) : 5};
	char why[128] = "";
	int failed = 0;

	printf("SEED=%#llx\n", (unsigned long long)rig_seed());
	if (!rig_private(64, why, sizeof(why))) {
		printf("SKIP: needs a /dev/shm of its own: %s\n", why);
		return RIG_SKIP;
	}
	for (int udp = 0; udp < 2; udp++) {
		a.udp = udp;
		if (!strcmp(what, "leave"))
			failed += one(what, case_leave, &a);
		else if (!strcmp(what, "idle"))
			failed += one(what, case_idle, &a);
		else if (!strcmp(what, "successor") && rig_prov()->match_complete)
			failed += one(what, case_successor, &a);
		else if (!strcmp(what, "crowd") && !udp)
			failed += one(what, case_crowd, &a);
	}
	return failed != 0;
}
