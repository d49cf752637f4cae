// SPDX-License-Identifier: BSD-2-Clause
// Latency and rate of the same-host path alone, two processes on two CPUs: one line per size and
// core distance.
//
// A virtual machine's CPUs change place under the program, so each sample is taken between two
// probes of the core distance and kept only if both agree (and, with a second argument, only in
// that mode). Usage: shm_rate [samples [smt|near|far]]
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../unit/shm_fake.h"

enum { PROBE_ROUNDS = 2000, MODE_NUM = 4, SAMPLES_MAX = 4096 };

static const char *const mode_name[MODE_NUM] = {"smt", "near", "far", "bad"};
static const uint32_t sizes[] = {8, 64, 256, 512, 1024, 2048, 4096, 8928};

/* Memory of both processes, beside what is measured. */
struct shared {
	_Alignas(64) _Atomic uint32_t ping;
	_Alignas(64) _Atomic uint32_t pong;
	_Alignas(64) _Atomic uint64_t got; /* by the receiver */
	_Alignas(64) _Atomic uint32_t phase;
};

struct side {
	struct fake f;
	struct link_addr to;
	struct shared *sh;
	uint32_t round; /* of the probe */
	uint64_t got, sent;
	uint8_t *src, *dst;
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Mean ns one way for one line, best of four blocks. */
static double probe(struct side *s, bool is_first)
{
	double best = 1e9;

	for (int b = 0; b < 4; b++) {
		uint64_t t = clk_now_ns(NULL);

		for (int i = 0; i < PROBE_ROUNDS / 4; i++) {
			_Atomic uint32_t *mine = is_first ? &s->sh->ping : &s->sh->pong;
			_Atomic uint32_t *other = is_first ? &s->sh->pong : &s->sh->ping;

			s->round++;
			if (is_first)
				atomic_store_explicit(mine, s->round, memory_order_release);
			while (atomic_load_explicit(other, memory_order_acquire) != s->round)
				;
			if (!is_first)
				atomic_store_explicit(mine, s->round, memory_order_release);
		}
		best = MIN(best, (double)(clk_now_ns(NULL) - t) / (PROBE_ROUNDS / 4) / 2);
	}
	return best;
}

static int mode_of(double ns)
{
	return ns < 38 ? 0 : ns < 110 ? 1 : ns < 400 ? 2 : 3;
}

static int on_frame(struct fake *f, struct link_peer *peer, enum link_kind kind,
		    const struct view *v)
{
	struct side *s = container_of(f, struct side, f);

	view_copy(v, 0, s->dst, v->len);
	s->got++;
	(void)peer;
	(void)kind;
	return 0;
}

static void on_sent(struct fake *f, enum link_kind kind, void *cookie, int status)
{
	struct side *s = container_of(f, struct side, f);

	s->sent--;
	(void)kind;
	(void)cookie;
	(void)status;
}

static inline void send_one(struct side *s, struct link_peer *peer, uint32_t len)
{
	struct iovec iov = {s->src, len - 8};

	s->src[0]++;
	while (shm_send(peer->shm, LINK_K_NIC, &len, 8, &iov, len > 8, s))
		shm_poll(s->f.s, 64);
	s->sent++;
}

static void pingpong(struct side *s, struct link_peer *peer, uint32_t len, uint32_t rounds,
		     bool is_first)
{
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t want = s->got + 1;

		if (is_first)
			send_one(s, peer, len);
		while (s->got < want)
			shm_poll(s->f.s, 64);
		if (!is_first)
			send_one(s, peer, len);
	}
	while (s->sent)
		shm_poll(s->f.s, 64);
}

static void stream(struct side *s, struct link_peer *peer, uint32_t len, uint32_t cnt,
		   bool is_first)
{
	uint64_t want = s->got + (is_first ? 1 : cnt);

	if (is_first)
		for (uint32_t i = 0; i < cnt; i++) {
			while (s->sent >= 128)
				shm_poll(s->f.s, 64);
			send_one(s, peer, len);
		}
	while (s->got < want)
		shm_poll(s->f.s, 64);
	if (!is_first)
		send_one(s, peer, 8);
	while (s->sent)
		shm_poll(s->f.s, 64);
}

static int cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct result {
	double v[SAMPLES_MAX];
	uint32_t cnt;
};

static void print(const char *what, uint32_t len, int mode, struct result *r)
{
	if (!r->cnt)
		return;
	qsort(r->v, r->cnt, sizeof(*r->v), cmp);
	printf("%-4s  %5u B  %-12s  min %8.1f  med %8.1f  max %8.1f  (%u samples)\n",
	       mode_name[mode], len, what, r->v[0], r->v[r->cnt / 2], r->v[r->cnt - 1], r->cnt);
}

/* Both processes run this in step. */
static void run(struct side *s, struct link_peer *peer, int samples, int only, bool is_first)
{
	static struct result lat[ARRAY_SIZE(sizes)][MODE_NUM], rate[ARRAY_SIZE(sizes)][MODE_NUM],
		raw[MODE_NUM];

	for (int k = 0; k < samples; k++)
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			uint32_t rounds = 2000, cnt = sizes[i] <= 1024 ? 40000 : 10000;
			double line = probe(s, is_first);
			int before = mode_of(line), mid, after;
			uint64_t t0 = clk_now_ns(NULL), t1, t2;

			pingpong(s, peer, sizes[i], rounds, is_first);
			t1 = clk_now_ns(NULL);
			mid = mode_of(probe(s, is_first));
			if (before == mid && raw[mid].cnt < SAMPLES_MAX)
				raw[mid].v[raw[mid].cnt++] = line;
			if (before == mid)
				lat[i][mid].v[lat[i][mid].cnt++] = (double)(t1 - t0) / rounds / 2;
			t1 = clk_now_ns(NULL);
			stream(s, peer, sizes[i], cnt, is_first);
			t2 = clk_now_ns(NULL);
			after = mode_of(probe(s, is_first));
			if (mid == after)
				rate[i][mid].v[rate[i][mid].cnt++] = cnt * 1e3 / (double)(t2 - t1);
		}
	for (int m = 0; m < MODE_NUM && is_first; m++)
		print("raw line, ns", 8, m, &raw[m]);
	for (int m = 0; m < MODE_NUM && is_first; m++)
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes) && (only < 0 || only == m); i++) {
			print("one-way ns", sizes[i], m, &lat[i][m]);
			print("Mmsg/s", sizes[i], m, &rate[i][m]);
		}
}

static void idle_cost(struct side *s)
{
	uint64_t t = clk_now_ns(NULL);

	for (int i = 0; i < 1000000; i++)
		shm_poll(s->f.s, 64);
	printf("idle poll, one peer: %.1f ns\n", (double)(clk_now_ns(NULL) - t) / 1e6);
}

static int side_main(struct shared *sh, uint32_t salt, int samples, int only, bool is_first)
{
	struct side *s = calloc(1, sizeof(*s));
	struct link_addr self = fake_addr(salt, is_first ? 1 : 2, is_first ? 1 : 2);
	struct link_peer *peer;

	if (!s)
		return 1;
	pin(is_first ? 0 : 1);
	s->to = fake_addr(salt, is_first ? 2 : 1, is_first ? 2 : 1);
	s->sh = sh;
	s->src = aligned_alloc(4096, 16384);
	s->dst = aligned_alloc(4096, 16384);
	memset(s->src, 1, 16384);
	s->f.on_frame = on_frame;
	s->f.on_sent = on_sent;
	if (fake_open(&s->f, &self))
		return 1;
	atomic_fetch_add(&sh->phase, 1);
	while (atomic_load(&sh->phase) < 2)
		;
	peer = fake_peer(&s->f, &s->to);
	if (shm_peer_attach(s->f.s, peer, &peer->shm))
		return 1;
	peer->shm_tried = true;
	run(s, peer, samples, only, is_first);
	if (is_first)
		idle_cost(s);
	atomic_fetch_add(&sh->phase, 1);
	while (atomic_load(&sh->phase) < 4)
		shm_poll(s->f.s, 64);
	fake_close(&s->f);
	return 0;
}

int main(int argc, char **argv)
{
	struct shared *sh =
		mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int samples = argc > 1 ? atoi(argv[1]) : 30, only = -1, rc, status;
	uint32_t salt = (uint32_t)getpid();
	pid_t pid;

	for (int m = 0; argc > 2 && m < MODE_NUM; m++)
		if (strcmp(argv[2], mode_name[m]) == 0)
			only = m;
	samples = MIN(samples, SAMPLES_MAX);
	pid = fork();
	rc = side_main(sh, salt, samples, only, pid != 0);
	if (!pid)
		_exit(rc);
	waitpid(pid, &status, 0);
	return rc || status;
}
