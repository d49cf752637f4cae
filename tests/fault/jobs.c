// SPDX-License-Identifier: BSD-2-Clause
// Jobs of one user that start and die beside each other on one host: no message may reach a process
// of another job.
#include "rig.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * SEATS jobs run at any time, of RANKS processes each, and when one is over the next one sits down.
 * A job lives for some ten milliseconds, in which its ranks send to each other without a pause;
 * then each rank ends in its own way: it closes all, or exits with everything open, or is killed in
 * the middle. So addresses become free and are taken again all the time, while others still have
 * messages under way to whoever had them before.
 *
 * Job, sender and number of a message are in its tag, in its length and in its bytes. Receives take
 * any tag from anybody: what comes from another job is seen. A rank sends nothing more to a peer
 * once an operation with it has failed, and a bounded number of operations may be under way until
 * it finds out.
 *
 * Before that the same by steps: a rank dies before anybody has sent to it, a process of another
 * job opens its endpoint, and only then the first message to the dead rank is sent. Nothing in that
 * message tells that its receiver is another one. So the heir either has another address (on a
 * desk, where nobody gives the jobs names), or the fabric's own name of the job keeps the message
 * out (where the heir is made to have the same address: VNI and job UUID as a launcher gives them).
 */

#define SEATS	3
#define RANKS	3
#define JOBS	12 /* per path */
#define SLOTS	8  /* receives that are posted */
#define SENDS	4  /* under way to each peer */
#define BUF_LEN (64u << 10)
#define LATE_MS 30000u
#define ANY_TAG 0xffffffffffffull /* all the bits of a tag that every provider has */

enum end { END_CLOSE, END_EXIT, END_KILL, END_NUM };

struct job {
	uint32_t id;
	bool udp;
};

struct send {
	struct fi_context2 ctx; /* first */
	uint32_t peer;
	bool is_active;
	uint8_t *buf;
};

struct run {
	struct rig *r;
	const struct job *job;
	struct fi_context2 recv_ctx[SLOTS];
	struct send send[RANKS][SENDS];
	bool is_gone[RANKS];
	uint64_t sent[RANKS], got;
};

/* --- what a message looks like
 * ------------------------------------------------------------------------------------------- */

static uint64_t msg_tag(uint32_t job, uint32_t src, uint64_t i)
{
	return (uint64_t)job << 32 | src << 24 | (i & 0xffffff);
}

static uint64_t msg_seed(const struct run *x, uint64_t tag)
{
	return x->r->w->seed * 1000003 + tag;
}

/* Jobs that are there at the same time have no length in common. */
static size_t msg_len(uint64_t tag)
{
	static const uint32_t len[] = {8, 100, 1000, 6000, 12000, 40000};

	return len[tag % 6] + 8 * (tag >> 32) % 64;
}

/* --- one rank
 * ------------------------------------------------------------------------------------------------------------
 */

static void post_recv(struct run *x, uint32_t slot)
{
	struct rig *r = x->r;
	ssize_t ret;

	do {
		ret = fi_trecv(r->ep, r->region + slot * BUF_LEN, BUF_LEN, fi_mr_desc(r->mr),
			       FI_ADDR_UNSPEC, 0, ANY_TAG, &x->recv_ctx[slot]);
		if (ret)
			rig_progress(r);
	} while (ret == -FI_EAGAIN);
	OK(ret);
}

static void post_sends(struct run *x, uint32_t peer)
{
	struct rig *r = x->r;

	for (uint32_t i = 0; i < SENDS; i++) {
		struct send *s = &x->send[peer][i];
		uint64_t tag = msg_tag(x->job->id, r->rank, x->sent[peer]);
		ssize_t ret;

		if (s->is_active || x->is_gone[peer] || peer == r->rank)
			continue;
		rig_fill(s->buf, msg_len(tag), msg_seed(x, tag));
		ret = fi_tsend(r->ep, s->buf, msg_len(tag), fi_mr_desc(r->mr), r->to[peer], tag,
			       &s->ctx);
		if (ret == -FI_EAGAIN)
			return;
		if (ret) {
			x->is_gone[peer] = true;
			return;
		}
		s->is_active = true;
		x->sent[peer]++;
	}
}

static void on_message(struct run *x, const struct fi_cq_tagged_entry *e)
{
	uint32_t slot = (uint32_t)((struct fi_context2 *)e->op_context - x->recv_ctx);
	struct rig *r = x->r;

	CHECK(slot < SLOTS, "a completion of no receive");
	CHECK(e->tag >> 32 == x->job->id,
	      "a message of job %llu, rank %llu, number %llu, %zu bytes, reached job %u",
	      (unsigned long long)(e->tag >> 32), (unsigned long long)(e->tag >> 24 & 255),
	      (unsigned long long)(e->tag & 0xffffff), e->len, x->job->id);
	CHECK(e->len == msg_len(e->tag), "message %#llx has %zu bytes", (unsigned long long)e->tag,
	      e->len);
	CHECK(rig_is_filled(r->region + slot * BUF_LEN, e->len, msg_seed(x, e->tag)) < 0,
	      "message %#llx is damaged", (unsigned long long)e->tag);
	x->got++;
	post_recv(x, slot);
}

static bool is_send(const struct run *x, const void *ctx)
{
	return (const uint8_t *)ctx >= (const uint8_t *)x->send &&
	       (const uint8_t *)ctx < (const uint8_t *)(x->send + RANKS);
}

/*
 * A send fails with its peer. So does a receive whose message had begun to come, and where the
 * receiver fetches it, it may find the sender's memory closed first. A message that is too long for
 * its receive is another job's.
 */
static void on_error(struct run *x)
{
	struct fi_cq_err_entry e = {0};
	struct rig *r = x->r;

	CHECK(fi_cq_readerr(r->cq, &e, 0) == 1, "no error entry");
	CHECK(e.err != FI_ETRUNC && !e.olen && (!e.tag || e.tag >> 32 == x->job->id),
	      "job %u: an operation ended with %d/%d (%s), tag %#llx, %zu bytes and %zu more",
	      x->job->id, e.err, e.prov_errno, fi_strerror(e.err), (unsigned long long)e.tag, e.len,
	      e.olen);
	if (e.op_context && is_send(x, e.op_context)) {
		struct send *s = e.op_context;

		s->is_active = false;
		x->is_gone[s->peer] = true;
	} else if (e.op_context) {
		post_recv(x, (uint32_t)((struct fi_context2 *)e.op_context - x->recv_ctx));
	}
}

static void drive(struct run *x)
{
	struct fi_cq_tagged_entry e;
	ssize_t ret;

	while ((ret = fi_cq_read(x->r->cq, &e, 1)) != -FI_EAGAIN) {
		if (ret == -FI_EAVAIL) {
			on_error(x);
		} else if (is_send(x, e.op_context)) {
			((struct send *)e.op_context)->is_active = false;
		} else {
			on_message(x, &e);
		}
	}
}

static void leave(struct rig *r, enum end how)
{
	switch (how) {
	case END_CLOSE:
		rig_close_ep(r); /* before its memory: a peer may be fetching a message out of it */
		rig_close(r);
		exit(0);
	case END_EXIT:
		exit(0);
	case END_KILL:
	case END_NUM:
		raise(SIGKILL);
	}
}

static int rank_main(struct rig *r, const void *arg)
{
	static struct run x;
	uint64_t s = r->w->seed * RANKS + r->rank, end;

	x = (struct run){.r = r, .job = arg};
	rig_open(r, (SLOTS + RANKS * SENDS) * BUF_LEN);
	for (uint32_t i = 0; i < SLOTS; i++)
		post_recv(&x, i);
	for (uint32_t i = 0; i < RANKS * SENDS; i++) {
		x.send[i / SENDS][i % SENDS].peer = i / SENDS;
		x.send[i / SENDS][i % SENDS].buf = r->region + (SLOTS + i) * BUF_LEN;
	}
	rig_sync(r);
	end = rig_now_ns() + (5 + rig_below(&s, 40)) * RIG_NS_PER_MS;
	while (rig_now_ns() < end) {
		for (uint32_t peer = 0; peer < RANKS; peer++)
			post_sends(&x, peer);
		drive(&x);
		sched_yield();
	}
	atomic_fetch_add(&r->w->word[0], x.got);
	leave(r, (enum end)rig_below(&s, END_NUM));
	return 0;
}

/* --- jobs
 * ------------------------------------------------------------------------------------------------------------------
 */

struct seat {
	struct job job;
	struct rig_world *w; /* NULL: empty */
	pid_t pid[RANKS];
	uint64_t end_ns;
};

static void sit_down(struct seat *s, uint32_t id, bool udp, const char *const *env)
{
	s->job = (struct job){.id = id, .udp = udp};
	s->w = rig_world_new(RANKS, rig_seed() + id);
	s->end_ns = rig_now_ns() + LATE_MS * RIG_NS_PER_MS;
	for (uint32_t i = 0; i < RANKS; i++)
		s->pid[i] = rig_spawn(s->w, i, rank_main, &s->job, env);
}

/* Return: is it over? *failed counts ranks that ended with an error, or not in time; to be killed
 * is how some end. */
static bool is_over(struct seat *s, unsigned *failed)
{
	bool is_late = rig_now_ns() > s->end_ns, is_left = false;

	for (uint32_t i = 0; i < RANKS; i++) {
		int st;

		if (!s->pid[i])
			continue;
		if (is_late) {
			printf("    job %u, rank %u: still running after %u ms\n", s->job.id, i,
			       LATE_MS);
			kill(s->pid[i], SIGKILL);
			*failed += 1;
		}
		if (waitpid(s->pid[i], &st, is_late ? 0 : WNOHANG) != s->pid[i]) {
			is_left = true;
			continue;
		}
		s->pid[i] = 0;
		if (WIFSIGNALED(st) ? WTERMSIG(st) != SIGKILL : WEXITSTATUS(st)) {
			printf("    job %u, rank %u: ended with status %#x\n", s->job.id, i, st);
			*failed += 1;
		}
	}
	return !is_left;
}

static bool run_jobs(bool udp, uint32_t jobs)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", udp ? rig_prov()->udp_room : "", NULL};
	struct seat seat[SEATS] = {0};
	uint32_t begun = 0, over = 0;
	uint64_t start = rig_now_ns(), got = 0;
	unsigned failed = 0;

	rig_env_path(env, udp);
	while (over < begun || (begun < jobs && !failed)) {
		for (struct seat *s = seat; s < seat + SEATS; s++) {
			if (!s->w && begun < jobs && !failed)
				sit_down(s, ++begun, udp, env);
			if (!s->w || !is_over(s, &failed))
				continue;
			got += atomic_load(&s->w->word[0]);
			rig_world_free(s->w);
			s->w = NULL;
			over++;
		}
		rig_sleep_ms(1);
	}
	printf("%s jobs-%s: %u jobs, %llu messages, %llu ms\n", failed || !got ? "FAIL" : "pass",
	       udp ? "udp" : "shm", over, (unsigned long long)got,
	       (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
	fflush(stdout);
	return !failed && got;
}

/* --- one heir
 * --------------------------------------------------------------------------------------------------------------
 */

enum step { S_PLACED, S_DEAD, S_HEIR, S_OVER }; /* words of the page */

struct heir {
	bool is_named; /* the jobs have names, and the heir the address */
};

static void step_wait(struct rig *r, enum step step, bool polls)
{
	uint64_t end = rig_now_ns() + LATE_MS * RIG_NS_PER_MS;

	while (!atomic_load(&r->w->word[step])) {
		CHECK(rig_now_ns() < end, "step %d does not come", (int)step);
		if (polls)
			rig_progress(r);
		sched_yield();
	}
}

/* The first message to the dead rank, to be refused or to fail. */
static void send_late(struct rig *r)
{
	uint64_t end = rig_now_ns() + LATE_MS * RIG_NS_PER_MS;
	struct fi_cq_err_entry e = {0};
	struct fi_cq_tagged_entry done;
	struct fi_context2 ctx;
	ssize_t ret;

	CHECK(fi_av_insert(r->av, r->w->peer[1].addr, 1, &r->to[1], 0, NULL) == 1,
	      "address refused");
	do {
		CHECK(rig_now_ns() < end, "a send to a dead rank neither begins nor fails");
		rig_progress(r);
		ret = fi_tsend(r->ep, r->region, 64, fi_mr_desc(r->mr), r->to[1], 1, &ctx);
	} while (ret == -FI_EAGAIN);
	for (; !ret && (ret = fi_cq_read(r->cq, &done, 1)) != -FI_EAVAIL; sched_yield()) {
		CHECK(ret == -FI_EAGAIN, "a send to a dead rank is complete");
		CHECK(rig_now_ns() < end, "a send to a dead rank never ends");
		ret = 0;
	}
	if (ret == -FI_EAVAIL)
		CHECK(fi_cq_readerr(r->cq, &e, 0) == 1 && e.op_context == &ctx && e.err,
		      "no error entry");
}

static void name_job(const struct heir *h, uint32_t job)
{
	char uuid[16], vni[16];

	if (!h->is_named)
		return;
	snprintf(uuid, sizeof(uuid), "%u", job);
	snprintf(vni, sizeof(vni), "%u", 10 + 24 * (job - 1)); /* these two share their ports */
	setenv("FI_OPX_UUID", uuid, 1);
	setenv("FI_CXI_DEFAULT_VNI", vni, 1);
}

static int heir_main(struct rig *r, const void *arg)
{
	const struct heir *h = arg;
	struct rig_peer *me = &r->w->peer[r->rank];
	size_t len = sizeof(me->addr);
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
	ssize_t ret;

	name_job(h, r->rank == 2 ? 2 : 1);
	if (h->is_named && rig_prov()->match_complete)
		r->service = r->rank ? "7" : "6";
	if (r->rank == 2)
		step_wait(r, S_DEAD, false);
	rig_open_alone(r, BUF_LEN);
	OK(fi_getname(&r->ep->fid, me->addr, &len));
	if (r->rank == 1) {
		atomic_store(&r->w->word[S_PLACED], 1);
		for (;;)
			sched_yield();
	}
	if (r->rank == 0) {
		step_wait(r, S_HEIR, true);
		send_late(r);
		atomic_store(&r->w->word[S_OVER], 1);
	} else {
		ret = fi_trecv(r->ep, r->region, BUF_LEN, fi_mr_desc(r->mr), FI_ADDR_UNSPEC, 0,
			       ANY_TAG, &ctx);
		OK(ret);
		atomic_store(&r->w->word[S_HEIR], 1);
		step_wait(r, S_OVER, true);
		ret = fi_cq_read(r->cq, &e, 1);
		CHECK(ret == -FI_EAGAIN,
		      "a message to a dead rank reached a process of another job");
	}
	rig_close(r);
	return 0;
}

/* opx has no addresses to choose from: with two contexts the heir gets the one that is free. */
static bool run_heir(bool udp, bool is_named)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", NULL, "SOFTFABRIC_OPX",
				    is_named ? "contexts=2" : "", NULL};
	struct heir h = {.is_named = is_named};
	struct rig_world *w = rig_world_new(3, rig_seed());
	char room[64];
	pid_t pid[3];
	bool ok;

	snprintf(room, sizeof(room), "%sdead_after=2s", udp ? rig_prov()->udp_room : "");
	env[1] = room;
	rig_env_path(env, udp);
	for (uint32_t i = 0; i < 3; i++)
		pid[i] = rig_spawn(w, i, heir_main, &h, env);
	for (uint64_t end = rig_now_ns() + LATE_MS * RIG_NS_PER_MS;
	     !atomic_load(&w->word[S_PLACED]) && rig_now_ns() < end;)
		rig_sleep_ms(1);
	kill(pid[1], SIGKILL);
	waitpid(pid[1], NULL, 0);
	pid[1] = 0;
	atomic_store(&w->word[S_DEAD], 1);
	ok = rig_await(pid, 3, LATE_MS) == 0;
	rig_world_free(w);
	printf("%s heir-%s-%s\n", ok ? "pass" : "FAIL", udp ? "udp" : "shm",
	       is_named ? "named" : "desk");
	fflush(stdout);
	return ok;
}

/* jobs [how many] */
int main(int argc, char **argv)
{
	uint32_t jobs = argc > 1 ? (uint32_t)atoi(argv[1]) : JOBS;
	char why[128] = "";
	bool ok = true;

	printf("SEED=%#llx\n", (unsigned long long)rig_seed());
	if (!rig_private(256, why, sizeof(why))) {
		printf("SKIP: needs a /dev/shm and a loopback of its own: %s\n", why);
		return RIG_SKIP;
	}
	for (int udp = 0; udp < 2; udp++) {
		ok &= run_heir(udp, false);
		ok &= run_heir(udp, true);
		ok &= run_jobs(udp, jobs);
	}
	return !ok;
}
