// SPDX-License-Identifier: BSD-2-Clause
// Runs the conformance tests of one provider: a fresh process or two per test, a deadline for each, one line of result.
#include "conform.h"
#include "../library.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SKIPPED 77

const struct ct_test *const ct_tables[] = {
	msg_tests, tagged_tests, rma_tests, atomic_tests, cq_tests, cntr_tests, info_tests, av_tests, bad_tests,
	life_tests, dgram_tests, thread_tests, cxi_tests, cxi_av_tests, cxi_fc_tests, cxi_wait_tests, efa_tests,
	opx_tests, opx_first_tests, opx_port_tests, opx_proto_tests, opx_api_tests, zcpy_tests, wait_tests,
	clients_table_tests, clients_tests, gone_tests, meta_tests, NULL,
};

static const char *const mode_name[CT_MODE_NUM] = {"one", "two", "udp"};

static const struct ct_variant plain = {.name = ""};

struct args {
	const char *prov, *filter, *variant;
	int mode; /* -1: all */
	bool list;
	bool once; /* a test that runs in one process and in two runs in two only */
	bool cold; /* just now: those that are CT_COLD, or those that are not */
	uint64_t seed;
	double slow; /* factor on deadlines */
};

struct totals {
	unsigned passed, failed, skipped;
};

/* --- the ranks ------------------------------------------------------------------------------------------------- */

static char key_file[] = "/tmp/conform-key.XXXXXX"; /* of variants whose environment says %K */

static pid_t key_owner;

static void key_drop(void)
{
	if (getpid() == key_owner) /* the ranks leave by exit(), too */
		unlink(key_file);
}

/* Nobody else may read it, as mkstemp() makes it. */
static void key_make(const char *env)
{
	uint8_t key[32];
	int fd;

	if (key_owner || !env || !strstr(env, "%K"))
		return;
	key_owner = getpid();
	fd = mkstemp(key_file);
	if (fd < 0 || getrandom(key, sizeof(key), 0) != sizeof(key) || write(fd, key, sizeof(key)) != sizeof(key)) {
		perror(key_file);
		exit(1);
	}
	close(fd);
	atexit(key_drop);
}

static void set_one(const char *name, const char *value)
{
	const char *key = strstr(value, "%K");
	char text[256];

	snprintf(text, sizeof(text), "%.*s%s%s", (int)(key ? key - value : 0), value, key ? key_file : "",
		 key ? key + 2 : value);
	setenv(name, text, 1);
}

static void set_env(const char *pairs)
{
	char *copy = pairs ? strdup(pairs) : NULL, *save = NULL;

	for (char *p = copy ? strtok_r(copy, " ", &save) : NULL; p; p = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(p, '=');

		if (eq) {
			*eq = '\0';
			set_one(p, eq + 1);
		}
	}
	free(copy);
}

/*
 * Every run has a VNI and a UUID of its own, as every job has on real machines: PIDs and contexts are used again and
 * again, and a late frame of one run must not reach the next.
 */
static unsigned runs; /* begun by this process */

static void set_job(void)
{
	char vni[16], uuid[33];

	snprintf(vni, sizeof(vni), "%u", 1000 + ((unsigned)getppid() * 37 + runs) % 60000);
	setenv("FI_CXI_DEFAULT_VNI", vni, 1);
	snprintf(uuid, sizeof(uuid), "%x%08x", (unsigned)getppid(), runs);
	setenv("FI_OPX_UUID", uuid, 1);
}

static void *rank_main(void *arg)
{
	struct ct *c = arg;

	c->t->run(c);
	return NULL;
}

/* In the child: run the rank(s) of this process; leaves by exit(), so that leak checkers speak. */
static void child_main(struct ct *const c[2], bool threads)
{
	pthread_t other;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("FI_PROVIDER", c[0]->prov, 1);
	set_job();
	if (c[0]->mode == CT_UDP)
		set_env(c[0]->p->udp_env);
	set_env(c[0]->v->env);
	set_env(c[0]->t->env);
	if (threads && pthread_create(&other, NULL, rank_main, c[1]))
		exit(1);
	rank_main(c[0]);
	if (threads)
		pthread_join(other, NULL);
	exit(0);
}

/* --- the parent ------------------------------------------------------------------------------------------------- */

struct job {
	pid_t pid[2];
	int cnt, alive, status[2];
};

static void reap(struct job *j)
{
	int st;

	for (int i = 0; i < j->cnt; i++)
		if (j->pid[i] && waitpid(j->pid[i], &st, WNOHANG) == j->pid[i]) {
			j->pid[i] = 0;
			j->status[i] = st;
			j->alive--;
		}
}

static bool has_failed(const struct job *j)
{
	for (int i = 0; i < j->cnt; i++)
		if (!j->pid[i] && j->status[i] && !(WIFEXITED(j->status[i]) && WEXITSTATUS(j->status[i]) == SKIPPED))
			return true;
	return false;
}

/* Until all have ended or the deadline is past; once one rank has failed the other gets two seconds more. */
static bool await(struct job *j, uint64_t deadline_ms)
{
	struct timespec tick = {0, 20 * 1000 * 1000};
	bool failed = false;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		reap(j);
		if (!j->alive)
			return true;
		if (!failed && has_failed(j)) {
			failed = true;
			if (deadline_ms > ct_now_ms() + 2000)
				deadline_ms = ct_now_ms() + 2000;
		}
		if (ct_now_ms() > deadline_ms)
			break;
		sigtimedwait(&chld, NULL, &tick);
	}
	for (int i = 0; i < j->cnt; i++)
		if (j->pid[i]) {
			kill(j->pid[i], SIGKILL);
			waitpid(j->pid[i], &j->status[i], 0);
		}
	return failed; /* a rank that waited for a failed one did not hang */
}

/* 0, SKIPPED or 1; says why if it was a signal or the deadline. */
static int verdict(const struct job *j, bool in_time)
{
	int ret = 0;

	if (!in_time) {
		printf("    deadline passed: killed\n");
		return 1;
	}
	for (int i = 0; i < j->cnt; i++) {
		int st = j->status[i];

		if (WIFSIGNALED(st) && WTERMSIG(st) != SIGKILL)
			printf("    rank %d: killed by signal %d (%s)\n", i, WTERMSIG(st), strsignal(WTERMSIG(st)));
		if (WIFEXITED(st) && WEXITSTATUS(st) == SKIPPED)
			ret = ret ? ret : SKIPPED;
		else if (st)
			ret = 1;
	}
	return ret;
}

static struct ct *rank_new(const struct args *a, const struct ct_test *t, enum ct_mode mode, const struct ct_variant *v,
			   int rank, int fd)
{
	struct ct *c = calloc(1, sizeof(*c));

	if (!c)
		exit(1);
	c->t = t;
	c->prov = a->prov;
	c->p = ct_prov_find(a->prov);
	c->v = v;
	c->mode = mode;
	c->rank = rank;
	c->peer_fd = fd;
	c->seed = a->seed;
	c->slow = a->slow;
	c->rng = a->seed * 2 + (uint64_t)rank;
	return c;
}

static int run(const struct args *a, const struct ct_test *t, enum ct_mode mode, const struct ct_variant *v)
{
	bool threads = mode == CT_ONE && !(t->flags & CT_SOLO);
	uint64_t limit = (uint64_t)((t->deadline_s ? t->deadline_s : 30) * 1000 * a->slow);
	struct job j = {.cnt = mode == CT_ONE ? 1 : 2};
	struct ct *c[2];
	uint8_t *shared;
	int fd[2], ret;

	key_make(v->env);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return 1;
	shared = mmap(NULL, CT_SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++) {
		c[i] = rank_new(a, t, mode, v, i, fd[i]);
		c[i]->shared = shared;
	}
	runs++;
	fflush(stdout);
	for (int i = 0; i < j.cnt; i++) {
		j.pid[i] = fork();
		if (j.pid[i] == 0) {
			struct ct *mine[2] = {c[i], c[!i]};

			if (j.cnt == 2)
				close(fd[!i]);
			child_main(mine, threads);
		}
		j.alive += j.pid[i] > 0;
	}
	close(fd[0]);
	close(fd[1]);
	ret = verdict(&j, await(&j, ct_now_ms() + limit));
	munmap(shared, CT_SHARED);
	free(c[0]);
	free(c[1]);
	return ret;
}

static bool wanted(const struct args *a, const struct ct_test *t, enum ct_mode mode, const struct ct_variant *v)
{
	if (a->mode >= 0 && a->mode != (int)mode)
		return false;
	if (a->cold != !!(t->flags & CT_COLD))
		return false;
	if (t->prov && strcmp(t->prov, a->prov))
		return false;
	if ((t->flags & CT_SOLO) && mode != CT_ONE)
		return false;
	if ((t->flags & CT_NO_ONE) && mode == CT_ONE)
		return false;
	if (*v->name && (!(t->flags & v->flag) || ((v->flag & CT_LOSSY) && mode != CT_UDP) ||
			 (v->skip && !fnmatch(v->skip, t->name, FNM_EXTMATCH))))
		return false;
	if (mode == CT_UDP && !ct_prov_find(a->prov)->udp_env)
		return false;
	if (a->once && mode == CT_ONE && !(t->flags & CT_SOLO))
		return false;
	return !a->filter || strstr(t->name, a->filter) || !fnmatch(a->filter, t->name, 0);
}

static void run_all(const struct args *a, enum ct_mode mode, const struct ct_variant *v, struct totals *sum)
{
	for (const struct ct_test *const *tab = ct_tables; *tab; tab++)
		for (const struct ct_test *t = *tab; t->name; t++) {
			char name[80];
			uint64_t start;
			int ret;

			if (!wanted(a, t, mode, v))
				continue;
			snprintf(name, sizeof(name), "%s%s%s", t->name, *v->name ? "@" : "", v->name);
			if (a->list) {
				printf("%s %s %s\n", a->prov, mode_name[mode], name);
				continue;
			}
			start = ct_now_ms();
			ret = run(a, t, mode, v);
			printf("%s %s %s %-34s %5llu ms\n", ret ? ret == SKIPPED ? "skip" : "FAIL" : "pass", a->prov,
			       mode_name[mode], name, (unsigned long long)(ct_now_ms() - start));
			fflush(stdout);
			sum->passed += ret == 0;
			sum->skipped += ret == SKIPPED;
			sum->failed += ret != 0 && ret != SKIPPED;
		}
}

static void run_modes(const struct args *a, struct totals *sum)
{
	for (int m = 0; m < CT_MODE_NUM; m++) {
		if (!a->variant || !strcmp(a->variant, "all"))
			run_all(a, (enum ct_mode)m, &plain, sum);
		for (const struct ct_variant *v = ct_prov_find(a->prov)->variants; a->variant && v->name; v++)
			if (!strcmp(a->variant, "all") || !strcmp(a->variant, v->name))
				run_all(a, (enum ct_mode)m, v, sum);
	}
}

/* --- command line -------------------------------------------------------------------------------- */

static int usage(void)
{
	fprintf(stderr,
		"conform -p PROV [-k FILTER] [-m one|two|udp] [-v VARIANT|all] [-l] [-o]\n"
		"  -o: once, tests of two ranks not in mode one. -l: only list them.\n"
		"  FILTER: part of a name, or a pattern as the shell's. SEED= replays; SLOW= stretches deadlines.\n");
	return 2;
}

static bool parse(int argc, char **argv, struct args *a)
{
	const char *seed = getenv("SEED"), *slow = getenv("SLOW");
	int opt;

	a->mode = -1;
	a->slow = slow ? atof(slow) : 1;
	if (seed)
		a->seed = strtoull(seed, NULL, 0);
	else if (getrandom(&a->seed, sizeof(a->seed), 0) != sizeof(a->seed))
		a->seed = (uint64_t)time(NULL);
	while ((opt = getopt(argc, argv, "p:k:m:v:lo")) != -1)
		switch (opt) {
		case 'p': a->prov = optarg; break;
		case 'k': a->filter = optarg; break;
		case 'v': a->variant = optarg; break;
		case 'l': a->list = true; break;
		case 'o': a->once = true; break;
		case 'm':
			for (int m = 0; m < CT_MODE_NUM; m++)
				if (!strcmp(optarg, mode_name[m]))
					a->mode = m;
			if (a->mode >= 0)
				break;
			return false;
		default:
			return false;
		}
	return a->prov && a->slow > 0 && optind == argc;
}

int main(int argc, char **argv)
{
	struct totals sum = {0};
	struct args a = {0};
	sigset_t chld;

	if (!parse(argc, argv, &a))
		return usage();
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	if (!a.list)
		printf("SEED=%#llx\n", (unsigned long long)a.seed);
	a.cold = true;
	run_modes(&a, &sum);
	a.cold = false;
	if (!a.list)
		library_begin(a.prov); /* what it reads of the environment here is for CT_COLD */
	run_modes(&a, &sum);
	if (a.list)
		return 0;
	printf("%u passed, %u failed, %u skipped\n", sum.passed, sum.failed, sum.skipped);
	if (sum.failed)
		return 1;
	return sum.passed ? 0 : SKIPPED;
}
