// SPDX-License-Identifier: BSD-2-Clause
// Compares providers: bench_ofi -t TEST -s SIZE [-n ROUNDS] [-c CPU,CPU] [-p PROVIDER [-d DEPTH]
// [-u UNEXPECTED] [-a] [-e NAME=VALUE]...]... Prints CSV: test,size,depth,place,provider,rounds,median,ratio - ratio:
// median of the rounds' ratios to the last provider. -t place prints how far apart each two
// processors are at the moment; -t version the version of libfabric.
#include "bench_kit.h"
#include "place.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * The cores of a virtual machine change place under the program: now siblings, now far apart,
 * several times a minute. So every provider gets a pair of processes on the same two cores, and the
 * pairs take turns, some milliseconds each, while the others sleep in read(). Before and after its
 * turn a pair measures how far its cores are apart. A round counts only if that was the same for
 * all pairs and did not change; medians are per distance ("place").
 *
 * Values: lat, lat_dirty (the sender rewrites its buffer first), wake_* (both sides sleep for each message: in
 * fi_cq_sread, in fi_cntr_wait, in poll(2) on the queue's descriptor), put, get (one at a time), puts, gets (64 under
 * way): ns one way or per operation; bw, bw_busy (both sides compute for 100 us behind each poll): bytes per second;
 * rate: messages per second.
 */

enum test { TEST_LAT, TEST_LAT_DIRTY, TEST_WAKE_CQ, TEST_WAKE_CNTR, TEST_WAKE_FD, TEST_BW,
	    TEST_BW_BUSY, TEST_RATE, TEST_PUT, TEST_GET, TEST_PUTS, TEST_GETS, TEST_PUT_IDLE,
	    TEST_PLACE, TEST_VERSION, TEST_NUM };
static const char *const test_name[TEST_NUM] = {"lat", "lat_dirty", "wake_cq", "wake_cntr", "wake_fd", "bw",
						"bw_busy", "rate", "put", "get", "puts", "gets",
						"put_idle", "place", "version"};

#define PAIR_MAX  8
#define ENV_MAX	  8
#define ROUND_MAX 4096
#define WINDOW	  64
#define TURN_NS	  5000000.0
#define WAKE_MS	  1000
#define BUSY_NS	  100000
#define TAG	  7
#define TAG_OTHER 1000000 /* of receives that never match */

/* Shared by the two processes of a pair. */
struct meet {
	_Alignas(64) _Atomic uint64_t ping;
	_Alignas(64) _Atomic uint64_t pong;
	_Alignas(64) _Atomic uint64_t arrived[2];
	_Alignas(64) _Atomic bool put_done;
	_Atomic bool filled[2];
};

struct order {
	uint64_t ops; /* 0: end */
};
struct answer {
	double value, ns_per_op;
	uint32_t before, after; /* enum place */
};

struct pair {
	const char *prov;
	const char *env[ENV_MAX];
	int env_cnt;
	size_t depth; /* receives that never match, posted in front of those that do */
	size_t unexp; /* messages that are never received, in front of those that are */
	bool auto_progress;
	struct meet *meet;
	int fd[2]; /* to the two processes */
	pid_t pid[2];
	double value[ROUND_MAX];
	double ns_per_op;
};

struct cfg {
	enum test test;
	size_t size;
	int rounds;
	int cpu[2];
	struct pair pair[PAIR_MAX];
	int pair_cnt;
};

static void cpu_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Return: false: the other process is gone. */
static bool io_try(int fd, void *buf, size_t len, bool is_write)
{
	char *p = buf;

	while (len) {
		ssize_t n = is_write ? write(fd, p, len) : read(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static void io_all(int fd, void *buf, size_t len, bool is_write)
{
	if (!io_try(fd, buf, len, is_write))
		exit(2); /* whose end was said */
}

/* --- one process of a pair
 * ------------------------------------------------------------------------------------------ */

struct side {
	const struct cfg *cfg;
	struct meet *meet;
	struct bench_ep e;
	size_t depth, unexp;
	int me;	     /* 0 starts each exchange */
	uint64_t at; /* meetings so far */
	size_t inject_max;
	char *tx, *rx;
	int got, sent; /* completions not yet used */
	bool is_busy;  /* computes behind each poll */
	uint64_t counted; /* receives that fi_cntr_wait has told of */
	struct fi_context2 *ctx;
	uint64_t probes;
	unsigned turns; /* this one included */
};

/* A test in which each message is slept for, of those that measure one at a time. */
static bool is_wake(const struct side *s)
{
	return s->cfg->test >= TEST_WAKE_CQ && s->cfg->test <= TEST_WAKE_FD;
}

static bool is_lat(const struct side *s)
{
	return s->cfg->test <= TEST_WAKE_FD;
}

static void took(struct side *s, const struct fi_cq_tagged_entry *wc, ssize_t rc)
{
	struct fi_cq_err_entry err = {0};

	for (ssize_t i = 0; i < rc; i++) {
		if (wc[i].flags & FI_RECV)
			s->got++;
		else
			s->sent++;
	}
	if (rc < 0 && rc != -FI_EAGAIN) {
		fi_cq_readerr(s->e.cq, &err, 0);
		bench_die("completion", -err.err);
	}
}

static void poll_once(struct side *s)
{
	struct fi_cq_tagged_entry wc[16];

	took(s, wc, fi_cq_read(s->e.cq, wc, 16));
	for (uint64_t end = s->is_busy ? bench_now_ns() + BUSY_NS : 0; end && bench_now_ns() < end;)
		;
}

static void sleep_on_fd(struct side *s)
{
	struct fid *fid = &s->e.cq->fid;
	struct pollfd p = {.events = POLLIN};

	BENCH_CHECK(fi_control(fid, FI_GETWAIT, &p.fd));
	if (!fi_trywait(s->e.fabric, &fid, 1) && poll(&p, 1, WAKE_MS) == 0)
		bench_die("poll", -FI_ETIMEDOUT);
}

/* Sleeps until something has come, or for a second: a wake-up that is lost shows as a large number. */
static void sleep_once(struct side *s)
{
	struct fi_cq_tagged_entry wc[16];

	if (s->cfg->test == TEST_WAKE_CQ) {
		took(s, wc, fi_cq_sread(s->e.cq, wc, 16, NULL, WAKE_MS));
		return;
	}
	if (s->cfg->test == TEST_WAKE_CNTR) {
		BENCH_CHECK(fi_cntr_wait(s->e.cntr, ++s->counted, WAKE_MS));
		poll_once(s);
		return;
	}
	poll_once(s);
	if (!s->got)
		sleep_on_fd(s);
}

/*
 * Who waits still answers the other: what it sent last may have to go again, which only its own calls do where progress
 * is manual.
 */
static void meet(struct side *s)
{
	s->at++;
	atomic_store(&s->meet->arrived[s->me], s->at);
	while (atomic_load(&s->meet->arrived[!s->me]) < s->at) {
		if (s->e.cq) /* -t place has no endpoints */
			poll_once(s);
		sched_yield();
	}
}

static enum place probe(struct side *s)
{
	if (s->cfg->cpu[0] == s->cfg->cpu[1])
		return PLACE_SAME;
	meet(s);
	return place_probe(&s->meet->ping, &s->meet->pong, s->me, &s->probes);
}

static void post_recv(struct side *s, size_t len, struct fi_context2 *ctx)
{
	ssize_t rc;

	while ((rc = fi_trecv(s->e.ep, s->rx, len, s->e.desc, FI_ADDR_UNSPEC, TAG, 0, ctx)) ==
	       -FI_EAGAIN)
		poll_once(s);
	BENCH_CHECK(rc);
}

/* Return: completions that will come. */
static int post_send(struct side *s, size_t len, struct fi_context2 *ctx)
{
	bool is_inject = len <= s->inject_max;
	ssize_t rc;

	for (;;) {
		rc = is_inject ? fi_tinject(s->e.ep, s->tx, len, s->e.peer, TAG)
			       : fi_tsend(s->e.ep, s->tx, len, s->e.desc, s->e.peer, TAG, ctx);
		if (rc != -FI_EAGAIN)
			break;
		poll_once(s);
	}
	BENCH_CHECK(rc);
	return !is_inject;
}

static void wait_for(struct side *s, int got, int sent)
{
	while (s->got < got || s->sent < sent)
		is_wake(s) && s->got < got ? sleep_once(s) : poll_once(s);
	s->got -= got;
	s->sent -= sent;
}

static void run_lat(struct side *s, uint64_t ops)
{
	size_t len = s->cfg->size;
	int sends = 0;

	for (uint64_t i = 0; i < ops; i++) {
		if (s->me)
			wait_for(s, 1, 0);
		if (s->me && i + 1 < ops)
			post_recv(s, len, &s->ctx[i % 2]);
		for (size_t at = 0; s->cfg->test == TEST_LAT_DIRTY && at < len; at += 64)
			s->tx[at] = (char)i;
		sends += post_send(s, len, &s->ctx[2 + i % 2]);
		if (!s->me)
			wait_for(s, 1, 0);
		if (!s->me && i + 1 < ops)
			post_recv(s, len, &s->ctx[i % 2]);
		/* A send's completion may come late; its context is used again two messages on. */
		wait_for(s, 0, sends > 1 ? 1 : 0);
		sends -= sends > 1;
	}
	wait_for(s, 0, sends);
}

/* Windows of messages, each answered by one small message. */
static void run_windows(struct side *s, uint64_t ops)
{
	size_t len = s->cfg->size;
	int sends;

	for (uint64_t w = 0; w < ops / WINDOW; w++) {
		sends = 0;
		if (s->me) {
			wait_for(s, WINDOW, 0);
			for (int i = 0; w + 1 < ops / WINDOW && i < WINDOW; i++)
				post_recv(s, len, &s->ctx[i]);
			sends += post_send(s, 1, &s->ctx[WINDOW]);
		} else {
			for (int i = 0; i < WINDOW; i++)
				sends += post_send(s, len, &s->ctx[i]);
			wait_for(s, 1, 0);
			if (w + 1 < ops / WINDOW)
				post_recv(s, 1, &s->ctx[WINDOW]);
		}
		wait_for(s, 0, sends);
	}
}

static void post_rma(struct side *s, bool is_get, struct fi_context2 *ctx)
{
	struct bench_ep *e = &s->e;
	ssize_t rc;

	for (;;) {
		rc = is_get ? fi_read(e->ep, s->rx, s->cfg->size, e->desc, e->peer, e->rma_base, e->rma_key, ctx)
			    : fi_write(e->ep, s->tx, s->cfg->size, e->desc, e->peer, e->rma_base, e->rma_key, ctx);
		if (rc != -FI_EAGAIN)
			break;
		poll_once(s);
	}
	BENCH_CHECK(rc);
}

/* Each ends before the window's next one begins. */
static void run_rma(struct side *s, uint64_t ops)
{
	enum test t = s->cfg->test;
	bool is_get = t == TEST_GET || t == TEST_GETS;
	uint64_t window = t == TEST_PUTS || t == TEST_GETS ? WINDOW : 1;

	if (s->me) {
		/* An idle target still answers the first transfer: peers of efa shake hands by it.
		 */
		while ((t != TEST_PUT_IDLE || s->turns == 1) &&
		       !atomic_load_explicit(&s->meet->put_done, memory_order_relaxed))
			poll_once(s);
		return;
	}
	for (uint64_t i = 0; i < ops; i++) {
		post_rma(s, is_get, &s->ctx[i % window]);
		if (i + 1 >= window)
			wait_for(s, 0, 1);
	}
	wait_for(s, 0, (int)(ops < window ? ops : window) - 1);
	atomic_store(&s->meet->put_done, true);
}

static void receives_ready(struct side *s, uint64_t ops)
{
	bool is_window = s->cfg->test >= TEST_BW && s->cfg->test <= TEST_RATE;

	if (!ops || s->cfg->test >= TEST_PUT)
		return;
	if (is_window && s->me)
		for (int i = 0; i < WINDOW; i++)
			post_recv(s, s->cfg->size, &s->ctx[i]);
	else
		post_recv(s, is_window ? 1 : s->cfg->size, &s->ctx[is_window ? WINDOW : 1]);
}

static void turn(struct side *s, uint64_t ops, struct answer *out)
{
	uint64_t t;

	s->turns++;
	receives_ready(s, ops);
	out->before = probe(s);
	if (!s->me)
		atomic_store(&s->meet->put_done, false);
	meet(s);
	s->is_busy = s->cfg->test == TEST_BW_BUSY;
	t = bench_now_ns();
	if (is_lat(s))
		run_lat(s, ops);
	else if (s->cfg->test < TEST_PUT)
		run_windows(s, ops);
	else
		run_rma(s, ops);
	t = bench_now_ns() - t;
	s->is_busy = false;
	/* An idle target is asleep by now. */
	out->after = s->cfg->test == TEST_PUT_IDLE ? out->before : (uint32_t)probe(s);
	out->ns_per_op = (double)t / (double)ops;
	if (is_lat(s))
		out->value = out->ns_per_op / 2;
	else if (s->cfg->test == TEST_BW || s->cfg->test == TEST_BW_BUSY)
		out->value = (double)s->cfg->size * 1e9 / out->ns_per_op;
	else if (s->cfg->test == TEST_RATE)
		out->value = 1e9 / out->ns_per_op;
	else
		out->value = out->ns_per_op;
}

static void depth_fill(struct side *s)
{
	uint64_t until = bench_now_ns() + 20000000000u;
	ssize_t rc;

	for (size_t i = 0; i < s->depth; i++) {
		/* cxi refuses while it goes from hardware to software matching. */
		while ((rc = fi_trecv(s->e.ep, s->rx, 8, s->e.desc, FI_ADDR_UNSPEC, TAG_OTHER + i, 0,
				      &s->ctx[2 * WINDOW + i])) == -FI_EAGAIN &&
		       bench_now_ns() < until)
			poll_once(s);
		if (rc)
			bench_die("posted receives", rc);
	}
}

/* Messages for the other side that it never receives, until both have sent theirs. */
static void unexp_fill(struct side *s)
{
	ssize_t rc;

	for (size_t i = 0; i < s->unexp; i++) {
		while ((rc = fi_tinject(s->e.ep, s->tx, 8, s->e.peer, TAG_OTHER + i)) == -FI_EAGAIN)
			poll_once(s);
		BENCH_CHECK(rc);
	}
	atomic_store(&s->meet->filled[s->me], true);
	while (s->unexp && !atomic_load(&s->meet->filled[!s->me]))
		poll_once(s);
}

static void side_main(const struct cfg *cfg, struct pair *p, int me, int fd)
{
	size_t room = cfg->size < 4096 ? 4096 : cfg->size;
	struct bench_opt opt = {.prov = p->prov, .buf_len = 2 * room, .rma = cfg->test >= TEST_PUT};
	struct side s = {.cfg = cfg, .meet = p->meet, .me = me, .depth = p->depth, .unexp = p->unexp};
	struct bench_name mine, theirs;
	struct answer answer = {0};
	struct order order;

	cpu_pin(cfg->cpu[me]);
	for (int i = 0; i < p->env_cnt; i++)
		putenv((char *)p->env[i]);
	opt.cq_wait = cfg->test == TEST_WAKE_CQ	  ? FI_WAIT_UNSPEC
		      : cfg->test == TEST_WAKE_FD ? FI_WAIT_FD
						  : FI_WAIT_NONE;
	opt.cntr = cfg->test == TEST_WAKE_CNTR;
	opt.auto_progress = p->auto_progress;
	if (p->depth > 512)
		opt.rx_depth = p->depth + 2 * WINDOW;
	bench_ep_open(&s.e, &opt);
	s.tx = s.e.buf;
	s.rx = s.e.buf + room;
	s.inject_max = s.e.info->tx_attr->inject_size;
	s.ctx = calloc(2 * WINDOW + p->depth + 1, sizeof(*s.ctx));
	bench_ep_name(&s.e, &mine);
	io_all(fd, &mine, sizeof(mine), true);
	io_all(fd, &theirs, sizeof(theirs), false);
	bench_ep_connect(&s.e, &theirs);
	depth_fill(&s);
	unexp_fill(&s);
	for (;;) {
		io_all(fd, &order, sizeof(order), false);
		if (!order.ops)
			break;
		turn(&s, order.ops, &answer);
		if (!me || cfg->test != TEST_PUT_IDLE)
			io_all(fd, &answer, sizeof(answer), true);
	}
	bench_ep_close(&s.e); /* with SOFTFABRIC_STATS the counters are printed */
	exit(0); /* not _exit(): providers remove their shared memory then */
}

/* --- the process that gives the turns
 * --------------------------------------------------------------------------------- */

/* Return: false: one of the processes has ended, and has said why. */
static bool pair_start(const struct cfg *cfg, struct pair *p)
{
	struct bench_name name[2];
	int sv[2];

	p->meet = mmap(NULL, sizeof(*p->meet), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (p->meet == MAP_FAILED)
		bench_die("mmap", -errno);
	for (int me = 0; me < 2; me++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
			bench_die("socketpair", -errno);
		fflush(NULL); /* the child leaves by exit() */
		p->pid[me] = fork();
		if (!p->pid[me]) {
			alarm(120);
			side_main(cfg, p, me, sv[1]);
		}
		close(sv[1]);
		p->fd[me] = sv[0];
	}
	return io_try(p->fd[0], &name[0], sizeof(name[0]), false) &&
	       io_try(p->fd[1], &name[1], sizeof(name[1]), false) &&
	       io_try(p->fd[0], &name[1], sizeof(name[1]), true) && io_try(p->fd[1], &name[0], sizeof(name[0]), true);
}

/* Return: as pair_start(). */
static bool pair_turn(const struct cfg *cfg, struct pair *p, uint64_t ops, struct answer *answer)
{
	struct order order = {ops};
	struct answer other;
	bool is_idle = cfg->test == TEST_PUT_IDLE; /* the second says nothing then */

	if (!io_try(p->fd[0], &order, sizeof(order), true) || !io_try(p->fd[1], &order, sizeof(order), true) ||
	    !io_try(p->fd[0], answer, sizeof(*answer), false) ||
	    (!is_idle && !io_try(p->fd[1], &other, sizeof(other), false)))
		return false;
	p->ns_per_op = answer->ns_per_op;
	return true;
}

/* Leaves @at out: it costs its own column, and not the row. */
static void pair_drop(struct cfg *cfg, int at)
{
	struct pair *p = &cfg->pair[at];

	for (int me = 0; me < 2; me++) {
		close(p->fd[me]);
		kill(p->pid[me], SIGKILL);
		waitpid(p->pid[me], NULL, 0);
	}
	munmap(p->meet, sizeof(*p->meet));
	memmove(p, p + 1, (size_t)(--cfg->pair_cnt - at) * sizeof(*p));
}

static void pair_stop(struct pair *p)
{
	struct order end = {0};

	for (int me = 0; me < 2; me++) {
		io_try(p->fd[me], &end, sizeof(end), true);
		waitpid(p->pid[me], NULL, 0);
	}
}

static uint64_t ops_for(const struct pair *p)
{
	double ops = TURN_NS / (p->ns_per_op > 1 ? p->ns_per_op : 1);

	if (ops > 1e6)
		ops = 1e6;
	return ((uint64_t)ops / WINDOW + 1) * WINDOW;
}

static double median(double *v, int cnt)
{
	qsort(v, (size_t)cnt, sizeof(*v), place_double_cmp);
	return cnt % 2 ? v[cnt / 2] : (v[cnt / 2 - 1] + v[cnt / 2]) / 2;
}

static void report(const struct cfg *cfg, const uint32_t *place, int rounds)
{
	const struct pair *last = &cfg->pair[cfg->pair_cnt - 1];
	double v[ROUND_MAX], r[ROUND_MAX];

	for (uint32_t at = 0; at < PLACE_NUM; at++)
		for (int p = 0; at != PLACE_BAD && p < cfg->pair_cnt; p++) {
			int cnt = 0;

			for (int i = 0; i < rounds; i++) {
				if (place[i] != at)
					continue;
				v[cnt] = cfg->pair[p].value[i];
				r[cnt++] = cfg->pair[p].value[i] / last->value[i];
			}
			if (cnt)
				printf("%s,%zu,%zu,%s,%s,%d,%.1f,%.4f\n", test_name[cfg->test],
				       cfg->size, cfg->pair[p].depth + cfg->pair[p].unexp, place_name[at],
				       cfg->pair[p].prov, cnt, median(v, cnt), median(r, cnt));
		}
}

static void measure(struct cfg *cfg)
{
	static uint32_t place[ROUND_MAX];
	struct answer a;
	int kept = 0;

	for (int p = 0; p < cfg->pair_cnt;) {
		struct pair *one = &cfg->pair[p];

		if (pair_start(cfg, one) && pair_turn(cfg, one, WINDOW, &a) &&
		    pair_turn(cfg, one, one->ns_per_op > TURN_NS / 10 ? WINDOW : 8 * WINDOW, &a))
			p++;
		else
			pair_drop(cfg, p);
	}
	for (int i = 0; i < cfg->rounds && cfg->pair_cnt; i++) {
		bool is_same = true;

		for (int p = 0; p < cfg->pair_cnt; p++) {
			if (!pair_turn(cfg, &cfg->pair[p], ops_for(&cfg->pair[p]), &a)) {
				pair_drop(cfg, p--);
				is_same = false;
				continue;
			}
			cfg->pair[p].value[kept] = a.value;
			if (!p)
				place[kept] = a.before;
			is_same = is_same && a.before == place[kept] && a.after == place[kept];
		}
		kept += is_same;
	}
	for (int p = 0; p < cfg->pair_cnt; p++)
		pair_stop(&cfg->pair[p]);
	if (!cfg->pair_cnt)
		exit(2);
	if (!kept)
		fprintf(stderr, "bench: no round counts: in each the cores changed place\n");
	report(cfg, place, kept);
}

static void cpus_default(int cpu[2])
{
	cpu_set_t set;
	int n = 0;

	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &set))
			cpu[n++] = i;
	if (n == 1)
		cpu[1] = cpu[0];
}

static void args_get(int argc, char **argv, struct cfg *cfg)
{
	bool is_wrong = false;
	int opt;

	while ((opt = getopt(argc, argv, "t:s:d:u:n:c:p:e:a")) != -1) {
		struct pair *p = &cfg->pair[cfg->pair_cnt ? cfg->pair_cnt - 1 : 0];

		if (opt == 't')
			for (cfg->test = 0;
			     cfg->test < TEST_NUM && strcmp(optarg, test_name[cfg->test]);)
				cfg->test++;
		else if (opt == 's')
			cfg->size = strtoull(optarg, NULL, 0);
		else if (opt == 'd')
			p->depth = strtoull(optarg, NULL, 0);
		else if (opt == 'u')
			p->unexp = strtoull(optarg, NULL, 0);
		else if (opt == 'n')
			cfg->rounds = atoi(optarg);
		else if (opt == 'c')
			sscanf(optarg, "%d,%d", &cfg->cpu[0], &cfg->cpu[1]);
		else if (opt == 'p' && cfg->pair_cnt < PAIR_MAX)
			cfg->pair[cfg->pair_cnt++].prov = optarg;
		else if (opt == 'a')
			p->auto_progress = true;
		else if (opt == 'e' && cfg->pair_cnt && p->env_cnt < ENV_MAX)
			p->env[p->env_cnt++] = optarg;
		else
			is_wrong = true;
	}
	if (is_wrong || cfg->test == TEST_NUM || (!cfg->pair_cnt && cfg->test < TEST_PLACE) ||
	    cfg->rounds < 1 || cfg->rounds > ROUND_MAX) {
		fprintf(stderr,
			"bench: usage: bench_ofi -t "
			"lat|lat_dirty|wake_cq|wake_cntr|wake_fd|bw|bw_busy|rate|put|put_idle|place|version -s SIZE "
			"[-n ROUNDS] [-c CPU,CPU] "
			"[-p PROVIDER [-d DEPTH] [-u UNEXPECTED] [-a] [-e NAME=VALUE]...]..., of -p at most %d\n",
			PAIR_MAX);
		exit(1);
	}
}

static void places_print(struct cfg *cfg)
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int a = 0; a < CPU_SETSIZE; a++)
		for (int b = a + 1; b < CPU_SETSIZE; b++) {
			struct side s = {.cfg = cfg};
			enum place place;
			pid_t pid;

			if (!CPU_ISSET(a, &set) || !CPU_ISSET(b, &set))
				continue;
			cfg->cpu[0] = a;
			cfg->cpu[1] = b;
			s.meet = mmap(NULL, sizeof(*s.meet), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			if (s.meet == MAP_FAILED)
				bench_die("mmap", -errno);
			pid = fork();
			s.me = !pid;
			cpu_pin(cfg->cpu[s.me]);
			place = probe(&s);
			if (!pid)
				_exit(0);
			waitpid(pid, NULL, 0);
			printf("%d,%d %s\n", a, b, place_name[place]);
			munmap(s.meet, sizeof(*s.meet));
		}
}

int main(int argc, char **argv)
{
	static struct cfg cfg = {.size = 8, .rounds = 40};

	signal(SIGPIPE, SIG_IGN); /* a process that has ended */
	cpus_default(cfg.cpu);
	args_get(argc, argv, &cfg);
	if (cfg.test == TEST_PLACE)
		places_print(&cfg);
	else if (cfg.test == TEST_VERSION)
		printf("%u.%u\n", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
	else
		measure(&cfg);
	return 0;
}
