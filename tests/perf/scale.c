// SPDX-License-Identifier: BSD-2-Clause
// What a job costs as it grows: scale PROVIDER PROCESSES [ROUNDS [PARTNERS]] starts so many processes on this machine,
// each with one endpoint that knows all the others, or PARTNERS of them, its neighbours in a ring (8 where there are
// more than 64 processes). Start-up ends when everybody has a message of 8 bytes from each partner; a round sends one
// to each partner. Prints CSV: PROVIDER,PROCESSES,what,value. Times of processors are those of the whole job, waiting
// included, so that they mean something where processes are many and processors few.
#include "bench_kit.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCS_MAX = 4096, FULL_MAX = 64, RING = 8, IDLE_POLLS = 200, MESSAGES = 100000, ROUNDS_MAX = 200, PARTS = 5 };
/* All have an address; have looked at their memory; have heard their partners; have looked again; are through with the
 * rounds; and with the idle polls, so that nobody closes before. */
enum { GATE_OPEN, GATE_READY, GATE_MET, GATE_SEEN, GATE_DONE, GATE_LEFT, GATES };

static const char *const gate_name[GATES] = {"waits for an address of",		"waits before the first message for",
					     "waits for the first messages of", "waits before the rounds for",
					     "waits behind the rounds for",	"waits behind the last poll for"};

struct rank {
	struct bench_name name;
	uint64_t start_cpu_ns, idle_cpu_ns;
	uint64_t cpu_ns[PARTS], wall_ns[PARTS]; /* of the rounds */
	uint64_t process_bytes, peers_bytes;	/* for the endpoint, and on top of it when it has heard its partners */
};

/* Shared by all processes. */
struct job {
	const char *prov;
	int procs, partners, rounds;
	uint64_t begin_ns, deadline_ns;
	uint64_t shm_before, shm_bytes; /* in /dev/shm */
	_Atomic uint64_t met_ns;	/* when the last one had heard its partners */
	_Atomic int arrived[GATES];
	_Atomic uint32_t is_open[GATES];
	_Atomic bool is_over; /* somebody failed: everybody leaves */
	struct rank ranks[];
};

struct self {
	struct job *job;
	struct rank *rank;
	int me;
	struct bench_ep ep;
	fi_addr_t *addrs;
	struct fi_context2 *ctx;
};

static uint64_t cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

/* Leaves when the job is over, or when it takes too long; the first one says so. */
static void time_check(const struct self *s, const char *doing, int how_many)
{
	bool is_first;

	if (atomic_load(&s->job->is_over))
		exit(0);
	if (bench_now_ns() < s->job->deadline_ns)
		return;
	is_first = !atomic_exchange(&s->job->is_over, true);
	if (is_first)
		fprintf(stderr, "scale: %s: time is up, and process %d of %d %s %d others\n", s->job->prov, s->me,
			s->job->procs, doing, how_many);
	exit(is_first ? 3 : 0);
}

/* Everybody passes when everybody is here; who polls serves its peers meanwhile. */
static void gate(struct self *s, int which, bool polls)
{
	struct job *job = s->job;
	struct timespec nap = {.tv_nsec = 100000000};

	if (atomic_fetch_add(&job->arrived[which], 1) + 1 == job->procs) {
		atomic_store(&job->is_open[which], 1);
		syscall(SYS_futex, &job->is_open[which], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
	while (!atomic_load(&job->is_open[which])) {
		if (polls && bench_poll(&s->ep))
			bench_die("a message too many", -FI_EOTHER);
		if (polls)
			sched_yield();
		else
			syscall(SYS_futex, &job->is_open[which], FUTEX_WAIT, 0, &nap, NULL, 0);
		time_check(s, gate_name[which], job->procs - atomic_load(&job->arrived[which]));
	}
}

/* The partner of that number: the next ones around the ring, then the last ones before us. */
static int partner(const struct job *job, int me, int idx)
{
	int ahead = (job->partners + 1) / 2;

	return (me + (idx < ahead ? idx + 1 : job->procs - job->partners + idx)) % job->procs;
}

/* What a process sends in a round: tag and content; never 0. */
static uint64_t said_by(int from, int round)
{
	return (uint64_t)round * PROCS_MAX + (uint64_t)from + 1;
}

static void round_post(struct self *s, int round)
{
	uint64_t *in = (uint64_t *)s->ep.buf;

	for (int i = 0; i < s->job->partners; i++) {
		uint64_t tag = said_by(partner(s->job, s->me, i), round);
		ssize_t rc;

		in[i] = 0;
		while ((rc = fi_trecv(s->ep.ep, &in[i], sizeof(in[i]), s->ep.desc, FI_ADDR_UNSPEC, tag, 0,
				      &s->ctx[i])) == -FI_EAGAIN) {
			bench_poll(&s->ep); /* nothing else is posted */
			time_check(s, "cannot post receives from", s->job->partners - i);
		}
		BENCH_CHECK(rc);
	}
}

static void round_run(struct self *s, int round)
{
	uint64_t *in = (uint64_t *)s->ep.buf, out = said_by(s->me, round);
	int heard = 0;

	for (int i = 0; i < s->job->partners; i++) {
		ssize_t rc;

		while ((rc = fi_tinject(s->ep.ep, &out, sizeof(out), s->addrs[i], out)) == -FI_EAGAIN) {
			heard += bench_poll(&s->ep);
			time_check(s, "cannot send to", s->job->partners - i);
		}
		BENCH_CHECK(rc);
	}
	while (heard < s->job->partners) {
		int cnt = bench_poll(&s->ep);

		heard += cnt;
		if (cnt)
			continue;
		sched_yield();
		time_check(s, "waits for messages of", s->job->partners - heard);
	}
	for (int i = 0; i < s->job->partners; i++)
		if (in[i] != said_by(partner(s->job, s->me, i), round))
			bench_die("a message is not what its partner sent", -FI_EOTHER);
}

/* From the start of the process to a message from each partner. */
static void start_up(struct self *s)
{
	struct job *job = s->job;
	size_t cnt = (size_t)job->partners;
	struct bench_opt opt = {.prov = job->prov, .buf_len = cnt * sizeof(uint64_t), .rx_depth = cnt};
	struct bench_name *names = calloc(cnt, sizeof(*names));
	uint64_t bare = bench_memory("Pss"), used, now;

	s->addrs = calloc(cnt, sizeof(*s->addrs));
	s->ctx = calloc(cnt, sizeof(*s->ctx));
	bench_ep_open(&s->ep, &opt);
	bench_ep_name(&s->ep, &s->rank->name);
	gate(s, GATE_OPEN, false);
	for (size_t i = 0; i < cnt; i++)
		names[i] = job->ranks[partner(job, s->me, (int)i)].name;
	used = bench_memory("Pss");
	s->rank->process_bytes = used > bare ? used - bare : 0;
	gate(s, GATE_READY, false);
	round_post(s, 0);
	for (size_t i = 0; i < cnt; i++) {
		bench_ep_connect(&s->ep, &names[i]);
		s->addrs[i] = s->ep.peer;
	}
	round_run(s, 0);
	s->rank->start_cpu_ns = cpu_ns();
	now = bench_now_ns();
	if (atomic_load(&job->met_ns) < now)
		atomic_store(&job->met_ns, now);
	gate(s, GATE_MET, true);
	bare = used;
	used = bench_memory("Pss");
	s->rank->peers_bytes = used > bare ? used - bare : 0;
	free(names);
}

/* Bytes in /dev/shm. */
static uint64_t shm_used(void)
{
	struct statvfs v;

	if (statvfs("/dev/shm", &v))
		return 0;
	return (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
}

/* A fifth of the rounds. */
static void part_run(struct self *s, int part)
{
	uint64_t cpu = cpu_ns(), wall = bench_now_ns();
	int each = s->job->rounds / PARTS;

	for (int round = part * each + 1; round <= (part + 1) * each; round++) {
		round_post(s, round);
		round_run(s, round);
	}
	s->rank->cpu_ns[part] = cpu_ns() - cpu;
	s->rank->wall_ns[part] = bench_now_ns() - wall;
}

static void rank_run(struct job *job, int me)
{
	struct self s = {.job = job, .rank = &job->ranks[me], .me = me};
	uint64_t cpu;

	start_up(&s);
	if (!me)
		job->shm_bytes = shm_used();
	gate(&s, GATE_SEEN, false);
	for (int part = 0; part < PARTS; part++)
		part_run(&s, part);
	gate(&s, GATE_DONE, true);
	cpu = cpu_ns();
	for (int i = 0; i < IDLE_POLLS; i++)
		if (bench_poll(&s.ep))
			bench_die("a message too many", -FI_EOTHER);
	s.rank->idle_cpu_ns = cpu_ns() - cpu;
	gate(&s, GATE_LEFT, true);
	bench_ep_close(&s.ep);
	exit(0);
}

/* Of all children: when the first one has failed, and said why, the others leave or are ended. */
static bool children_wait(struct job *job, const pid_t *pids)
{
	uint64_t end_ns = job->deadline_ns + 5000000000u;
	struct timespec nap = {.tv_nsec = 2000000};
	bool is_good = true;
	int left = job->procs;

	while (left) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		left -= pid > 0;
		if (pid > 0 && is_good && (!WIFEXITED(status) || WEXITSTATUS(status))) {
			if (WIFSIGNALED(status))
				fprintf(stderr, "scale: %s: one of %d processes ended by signal %d\n", job->prov,
					job->procs, WTERMSIG(status));
			is_good = false;
			atomic_store(&job->is_over, true);
			end_ns = bench_now_ns() + 5000000000u;
		}
		if (pid < 0 && errno == ECHILD)
			break;
		if (pid > 0)
			continue;
		if (bench_now_ns() > end_ns) {
			if (is_good)
				fprintf(stderr, "scale: %s: %d of %d processes did not end in time and were killed\n",
					job->prov, left, job->procs);
			is_good = false;
			end_ns = UINT64_MAX;
			for (int i = 0; i < job->procs; i++)
				if (!waitid(P_PID, (id_t)pids[i], &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT))
					kill(pids[i], SIGKILL);
		}
		nanosleep(&nap, NULL);
	}
	return is_good;
}

static void say(const struct job *job, const char *what, double value)
{
	printf("%s,%d,%s,%.1f\n", job->prov, job->procs, what, value);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The middle one of all parts: one that waited for somebody else's processor does not count. */
static double median(double v[PARTS])
{
	qsort(v, PARTS, sizeof(v[0]), by_size);
	return v[PARTS / 2];
}

static void report(const struct job *job, bool shm_is_own)
{
	double start = 0, idle = 0, process = 0, peers = 0, procs = job->procs;
	double cpu[PARTS] = {0}, wall[PARTS], messages = procs * job->partners * (job->rounds / PARTS);

	for (int i = 0; i < job->procs; i++) {
		const struct rank *r = &job->ranks[i];

		start += (double)r->start_cpu_ns;
		idle += (double)r->idle_cpu_ns;
		process += (double)r->process_bytes;
		peers += (double)r->peers_bytes;
		for (int part = 0; part < PARTS; part++)
			cpu[part] += (double)r->cpu_ns[part];
	}
	for (int part = 0; part < PARTS; part++)
		wall[part] = (double)job->ranks[0].wall_ns[part];
	say(job, "partners", job->partners);
	say(job, "start_ms", (double)(job->met_ns - job->begin_ns) / 1e6);
	say(job, "start_cpu_ms", start / procs / 1e6);
	say(job, "message_cpu_ns", median(cpu) / messages);
	say(job, "message_wall_ns", median(wall) / messages);
	say(job, "idle_poll_ns", idle / procs / IDLE_POLLS);
	say(job, "process_bytes", process / procs);
	say(job, "peer_bytes", peers / procs / job->partners);
	if (shm_is_own)
		say(job, "shm_bytes", (double)(job->shm_bytes - job->shm_before) / procs);
}

/* A /dev/shm of our own, where that is permitted: what others do there is neither counted nor looked at. */
static bool shm_own(void)
{
	return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
}

static int shm_files(void)
{
	DIR *dir = opendir("/dev/shm");
	int cnt = 0;

	for (struct dirent *d; dir && (d = readdir(dir));)
		cnt += d->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return cnt;
}

static struct job *job_new(int argc, char **argv)
{
	int procs = argc > 2 ? atoi(argv[2]) : 4, partners = procs > FULL_MAX ? RING : procs - 1;
	const char *limit = getenv("SCALE_SECONDS");
	size_t len = sizeof(struct job) + sizeof(struct rank) * (size_t)procs;
	struct job *job;

	if (argc > 4)
		partners = atoi(argv[4]);
	if (procs < 2 || procs > PROCS_MAX || partners < 1 || partners >= procs ||
	    (partners % 2 && partners < procs - 1)) {
		fprintf(stderr, "usage: scale PROVIDER 2..%d [ROUNDS [PARTNERS, all or an even number]]\n", PROCS_MAX);
		exit(1);
	}
	job = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job == MAP_FAILED)
		bench_die("mmap", -errno);
	job->prov = argc > 1 ? argv[1] : "efa";
	job->procs = procs;
	job->partners = partners;
	job->rounds = argc > 3 ? atoi(argv[3]) : 0;
	if (job->rounds < 1) {
		job->rounds = MESSAGES / (procs * partners) + 10;
		job->rounds = job->rounds > ROUNDS_MAX ? ROUNDS_MAX : job->rounds;
	}
	job->rounds += (PARTS - job->rounds % PARTS) % PARTS;
	job->deadline_ns = (uint64_t)(limit ? atoi(limit) : 90) * 1000000000u;
	return job;
}

int main(int argc, char **argv)
{
	struct job *job = job_new(argc, argv);
	pid_t *pids = calloc((size_t)job->procs, sizeof(*pids)), parent = getpid();
	bool is_own = shm_own(), is_good;

	job->shm_before = shm_used();
	job->begin_ns = bench_now_ns();
	job->deadline_ns += job->begin_ns;
	for (int i = 0; i < job->procs; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			fprintf(stderr, "scale: fork: %s\n", strerror(errno));
			atomic_store(&job->is_over, true);
			job->procs = i;
			break;
		}
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				exit(1);
			free(pids);
			rank_run(job, i);
		}
	}
	is_good = children_wait(job, pids) && !atomic_load(&job->is_over);
	free(pids);
	if (is_own && is_good && shm_files()) {
		fprintf(stderr, "scale: %s: %d files were left in /dev/shm\n", job->prov, shm_files());
		is_good = false;
	}
	if (is_good)
		report(job, is_own);
	return is_good ? 0 : 1;
}
