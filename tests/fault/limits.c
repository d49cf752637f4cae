// SPDX-License-Identifier: BSD-2-Clause
// Limits of the system: two processes exchange messages, reads and writes while one of them, or both, may not have
// files, memory, threads, or shared memory. Each row ends well or with an error that somebody has put in words; none
// ends by a signal, and none hangs.
//
//	limits ci		a few values of each limit
//	limits all		every value from 0 up
//	limits pods		the two share a network namespace and not /dev/shm: they must reach each other
//	limits ... TEXT		only rows with TEXT in their description
#include "link/shm/shm_int.h" /* how long a segment is */
#undef MIN
#undef MAX
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROW_MS	    30000 /* far above what a row takes, but for one that hangs */
#define LEN_MAX	    300000u
#define RMA_LEN	    65536u
#define NOBODY	    65534
#define STACK_TOUCH (1u << 20)

/* When a limit begins. */
enum when { W_FIRST, W_LOADED, W_OPEN, W_NUM };
static const char *const when_name[W_NUM] = {"from the start", "after fi_getinfo", "with all open"};
static const char *const who_name[] = {"", "the client", "the server", "both"};

enum kind { K_RLIMIT, K_VM, K_NPROC, K_STACK, K_SHM };

struct row {
	const char *name;
	enum kind kind;
	int resource;
	unsigned who; /* bits */
	enum when when;
	uint64_t value;
	const char *opt; /* K_SHM: of the tmpfs; "": none is there; "=": a usual one, each its own */
	bool must_work;
};

/* What the two sides share. */
struct side {
	_Atomic int stage, rc, has_addr, has_ended, is_through;
	uint8_t addr[64];
	size_t addr_len;
	uint64_t mem, key;
};
struct board {
	struct side side[2];
	_Atomic int has_limit[2];
};

static struct board *g_board;
static const char *g_only; /* of the command line */
static unsigned g_bad, g_worked, g_failed, g_rows;

/* --- one side ----------------------------------------------------------------------------------------------------- */

struct me {
	struct board *b;
	struct side *self, *peer;
	const struct row *row;
	int idx; /* 0: client */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *mem; /* registered: to send, to receive, for the peer's reads and writes */
	fi_addr_t to;
	unsigned done[3]; /* completions by context */
	struct fi_context2 ctx[3];
};
enum { C_SEND, C_RECV, C_RMA };

static __attribute__((noreturn)) void end_with(struct me *m, int rc)
{
	m->self->rc = rc;
	m->self->has_ended = 1;
	exit(2); /* with whatever is open */
}

#define TRY(call_)                                                                                 \
	do {                                                                                       \
		int rc_ = (int)(call_);                                                            \
		m->self->stage++;                                                                  \
		if (rc_)                                                                           \
			end_with(m, rc_);                                                          \
	} while (0)

static void progress(struct me *m)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	ssize_t n = fi_cq_read(m->cq, &e, 1);

	if (n == 1) {
		for (int i = 0; i < 3; i++)
			m->done[i] += e.op_context == &m->ctx[i];
	} else if (n == -FI_EAVAIL) {
		fi_cq_readerr(m->cq, &err, 0);
		end_with(m, -err.err);
	} else if (n != -FI_EAGAIN) {
		end_with(m, (int)n);
	}
	if (m->peer->has_ended && !m->peer->is_through)
		end_with(m, -FI_ECONNABORTED); /* it has told, and is gone */
	if (n == -FI_EAGAIN)
		sched_yield();
}

#define POST(call_)                                                                                \
	do {                                                                                       \
		ssize_t rc_;                                                                       \
		while ((rc_ = (call_)) == -FI_EAGAIN)                                              \
			progress(m);                                                               \
		m->self->stage++;                                                                  \
		if (rc_)                                                                           \
			end_with(m, (int)rc_);                                                     \
	} while (0)

static void await(struct me *m, int what, unsigned cnt)
{
	while (m->done[what] < cnt)
		progress(m);
	m->self->stage++;
}

/* Bytes of address space or of data that this process has. */
static uint64_t vm_now(const struct row *row)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, row->resource == RLIMIT_AS ? "VmSize: %lu kB" : "VmData: %lu kB", &kib);
	if (f)
		fclose(f);
	return (uint64_t)kib * 1024;
}

/* The limit of @row above what there is already. The adapter's thread may just be getting memory of its own, the 64 MiB
 * of its arena, so that a limit is judged when it is set. */
static void limit_vm(const struct row *row)
{
	struct rlimit lim;
	uint64_t vm;

	if (getrlimit(row->resource, &lim))
		_exit(3);
	do {
		vm = vm_now(row);
		lim.rlim_cur = vm + row->value;
		if (setrlimit(row->resource, &lim))
			_exit(3);
	} while (vm_now(row) > lim.rlim_cur);
}

/* The limit of @row, of this process from now on. */
static void limit_set(const struct row *row)
{
	struct rlimit lim = {row->value, row->value};
	pthread_attr_t attr;

#ifdef __SANITIZE_ADDRESS__ /* side_main() raises it again, for which not every root has the right */
	if (row->kind == K_RLIMIT && row->resource == RLIMIT_NOFILE)
		lim.rlim_max = 256;
#endif

	if (row->kind == K_NPROC && (setgid(NOBODY) || setuid(NOBODY)))
		_exit(3);
	if (row->kind == K_STACK) { /* as the C library does with the limit it finds when a program begins */
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, row->value < 16384 ? 16384 : row->value);
		pthread_setattr_default_np(&attr);
		pthread_attr_destroy(&attr);
	}
	if (row->kind == K_VM)
		limit_vm(row);
	else if (row->kind != K_SHM && setrlimit(row->resource, &lim))
		_exit(3);
}

static void limit_at(struct me *m, enum when when)
{
	if (m->row->kind != K_SHM && m->row->when == when && (m->row->who & 1u << m->idx))
		limit_set(m->row);
}

static void side_open(struct me *m)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 4};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 256};
	struct fi_info *h;

	limit_at(m, W_FIRST);
	h = fi_allocinfo();
	if (!h || !(h->fabric_attr->prov_name = strdup(rig_prov()->name)))
		end_with(m, -FI_ENOMEM);
	h->ep_attr->type = FI_EP_RDM;
	h->caps = FI_MSG | FI_TAGGED | FI_RMA;
	h->mode = rig_prov()->mode;
	h->domain_attr->mr_mode = rig_prov()->mr_mode;
	TRY(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &m->info));
	fi_freeinfo(h);
	limit_at(m, W_LOADED);
	TRY(fi_fabric(m->info->fabric_attr, &m->fabric, NULL));
	TRY(fi_domain(m->fabric, m->info, &m->domain, NULL));
	TRY(fi_av_open(m->domain, &av, &m->av, NULL));
	TRY(fi_cq_open(m->domain, &cq, &m->cq, NULL));
	TRY(fi_endpoint(m->domain, m->info, &m->ep, NULL));
	TRY(fi_ep_bind(m->ep, &m->av->fid, 0));
	TRY(fi_ep_bind(m->ep, &m->cq->fid, FI_TRANSMIT | FI_RECV));
	TRY(fi_enable(m->ep));
	TRY(fi_mr_reg(m->domain, m->mem, 3 * LEN_MAX,
		      FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &m->mr,
		      NULL));
	if (m->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		TRY(fi_mr_bind(m->mr, &m->ep->fid, 0));
		TRY(fi_mr_enable(m->mr));
	}
}

static void side_meet(struct me *m)
{
	m->self->addr_len = sizeof(m->self->addr);
	TRY(fi_getname(&m->ep->fid, m->self->addr, &m->self->addr_len));
	m->self->mem = m->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)m->mem : 0;
	m->self->key = fi_mr_key(m->mr);
	limit_at(m, W_OPEN);
	m->self->has_addr = 1;
	while (!m->peer->has_addr)
		progress(m);
	TRY(fi_av_insert(m->av, m->peer->addr, 1, &m->to, 0, NULL) - 1);
}

static void check_bytes(struct me *m, const uint8_t *p, size_t len, uint64_t seed)
{
	if (rig_is_filled(p, len, seed) >= 0)
		end_with(m, -FI_EIO);
}

/* There and back. */
static void turn(struct me *m, size_t len, unsigned nr)
{
	void *desc = fi_mr_desc(m->mr);
	uint8_t *in = m->mem + LEN_MAX;

	memset(in, 0, len);
	POST(fi_trecv(m->ep, in, len, desc, m->to, nr, 0, &m->ctx[C_RECV]));
	if (m->idx)
		await(m, C_RECV, nr);
	rig_fill(m->mem, len, nr * 2 + (unsigned)m->idx);
	POST(fi_tsend(m->ep, m->mem, len, desc, m->to, nr, &m->ctx[C_SEND]));
	await(m, C_SEND, nr);
	await(m, C_RECV, nr);
	check_bytes(m, in, len, nr * 2 + !m->idx);
}

static void exchange(struct me *m)
{
	static const size_t len[] = {8, 8, 4000, 40000, LEN_MAX, 8};
	void *desc = fi_mr_desc(m->mr);
	uint8_t *there = m->mem + 2 * (size_t)LEN_MAX;
	unsigned nr = 0;

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		turn(m, len[i], ++nr);
	if (!m->idx) {
		rig_fill(m->mem, RMA_LEN, 99);
		POST(fi_write(m->ep, m->mem, RMA_LEN, desc, m->to, m->peer->mem + 2 * (uint64_t)LEN_MAX, m->peer->key,
			      &m->ctx[C_RMA]));
		await(m, C_RMA, 1);
		memset(there, 0, RMA_LEN);
		POST(fi_read(m->ep, there, RMA_LEN, desc, m->to, m->peer->mem + 2 * (uint64_t)LEN_MAX, m->peer->key,
			     &m->ctx[C_RMA]));
		await(m, C_RMA, 2);
		check_bytes(m, there, RMA_LEN, 99);
	}
	turn(m, 8, ++nr);
}

static void side_close(struct me *m)
{
	if (m->info->domain_attr->mr_mode & FI_MR_ENDPOINT)
		TRY(fi_close(&m->mr->fid));
	TRY(fi_close(&m->ep->fid));
	if (!(m->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		TRY(fi_close(&m->mr->fid));
	TRY(fi_close(&m->cq->fid));
	TRY(fi_close(&m->av->fid));
	TRY(fi_close(&m->domain->fid));
	TRY(fi_close(&m->fabric->fid));
	fi_freeinfo(m->info);
}

/* A /dev without shm, and the few devices that programs look for. */
static bool dev_without_shm(void)
{
	return !mount("tmpfs", "/dev", "tmpfs", 0, "size=64K") && !mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3)) &&
	       !mknod("/dev/zero", S_IFCHR | 0666, makedev(1, 5)) &&
	       !mknod("/dev/urandom", S_IFCHR | 0666, makedev(1, 9));
}

static void shm_set(const struct row *row)
{
	bool is_ro = strstr(row->opt, "ro") == row->opt, ok;

	ok = !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (!*row->opt)
		ok = ok && dev_without_shm();
	else
		ok = ok && !mount("tmpfs", "/dev/shm", "tmpfs", is_ro ? MS_RDONLY : 0,
				  *row->opt == '=' ? "size=64M"
				  : is_ro	   ? "size=1M"
						   : row->opt);
	if (!ok)
		_exit(3);
}

/* So that it need not grow later: a main thread without a stack is the program's business. */
static __attribute__((noinline)) void stack_grow(void)
{
	volatile uint8_t stack[STACK_TOUCH];

	for (size_t i = sizeof(stack); i >= 4096; i -= 4096)
		stack[i - 1] = 0;
}

static void side_main(const struct row *row, int idx, int log_fd)
{
	static struct me me;
	struct me *m = &me;

	stack_grow();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(log_fd, 2);
	close(log_fd);
	setenv("FI_PROVIDER", rig_prov()->name, 1);
	setenv("FI_LOG_LEVEL", "warn", 1);
	setenv("FI_LOG_PROV", rig_prov()->name, 1);
	setenv("SOFTFABRIC_NET", "dead_after=5s", 1);
	m->b = g_board;
	m->row = row;
	m->idx = idx;
	m->self = &m->b->side[idx];
	m->peer = &m->b->side[!idx];
	m->mem = mmap(NULL, 3 * LEN_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (m->mem == MAP_FAILED)
		_exit(3);
	if (row->kind == K_SHM && (row->who & 1u << idx))
		shm_set(row);
	side_open(m);
	side_meet(m);
	exchange(m);
	m->self->is_through = 1;
	side_close(m);
	m->self->has_ended = 1;
#ifdef __SANITIZE_ADDRESS__ /* the leak checker opens files */
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){256, 256});
#endif
	exit(0);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void row_text(const struct row *row, char *out, size_t len)
{
	if (row->kind == K_SHM)
		snprintf(out, len, "/dev/shm %s, of %s", row->name, who_name[row->who]);
	else
		snprintf(out, len, "%s %llu, of %s, %s", row->name, (unsigned long long)row->value, who_name[row->who],
			 when_name[row->when]);
}

/* What the provider has said, into @out; the rest is other providers looking for their hardware. */
static void log_read(int fd, char *out, size_t len)
{
	static char all[65536];
	ssize_t n = read(fd, all, sizeof(all) - 1);
	char from[32], *rest = all, *line;
	size_t at = 0;

	all[n < 0 ? 0 : n] = *out = '\0';
	snprintf(from, sizeof(from), "::%s:", rig_prov()->name);
	while ((line = strsep(&rest, "\n")) && at < len)
		if (strstr(line, from))
			at += (size_t)snprintf(out + at, len - at, "%s\n", line);
	close(fd);
}

static void row_bad(const char *text, int idx, const char *what, const char *log)
{
	g_bad++;
	printf("  FAIL %s: %s %s at step %d\n%s", text, who_name[1 + idx], what, g_board->side[idx].stage, log);
}

/* Of a side that has ended with @st. */
static void row_judge(const struct row *row, const char *text, int idx, int st, const char *log)
{
	const struct side *s = &g_board->side[idx];
	char what[128];

	if (WIFSIGNALED(st)) {
		snprintf(what, sizeof(what), WTERMSIG(st) == SIGKILL ? "hangs (%s)" : "was killed by signal %s",
			 strsignal(WTERMSIG(st)));
		row_bad(text, idx, what, log);
	} else if (WEXITSTATUS(st) == 3) {
		row_bad(text, idx, "could not be limited", log);
	} else if (WEXITSTATUS(st) && row->must_work) {
		snprintf(what, sizeof(what), "failed: %s", fi_strerror(-s->rc));
		row_bad(text, idx, what, log);
	} else if (WEXITSTATUS(st) && s->stage > 1 && s->rc != -FI_ECONNABORTED && s->rc != -FI_ENOMEM &&
		   !*log) { /* ENOMEM says it all */
		snprintf(what, sizeof(what), "failed without a word: %s", fi_strerror(-s->rc));
		row_bad(text, idx, what, "");
	}
}

static void row_run(const struct row *row)
{
	pid_t pid[2];
	int log[2][2], st[2] = {0}, left = 2;
	uint64_t until = rig_now_ns() + ROW_MS * RIG_NS_PER_MS;
	char text[160], said[2][16384];
	bool is_ok = true;

	row_text(row, text, sizeof(text));
	if (g_only && !strstr(text, g_only))
		return;
	memset(g_board, 0, sizeof(*g_board));
	for (int i = 0; i < 2; i++) {
		if (pipe2(log[i], O_CLOEXEC | O_NONBLOCK))
			exit(1);
		fflush(stdout);
		pid[i] = fork();
		if (!pid[i])
			side_main(row, i, log[i][1]);
		close(log[i][1]);
	}
	while (left) {
		for (int i = 0; i < 2; i++) {
			if (pid[i] && rig_now_ns() > until)
				kill(pid[i], SIGKILL);
			if (pid[i] && waitpid(pid[i], &st[i], WNOHANG) == pid[i]) {
				pid[i] = 0;
				left--;
				g_board->side[i].has_ended = 1;
			}
		}
		rig_sleep_ms(1);
	}
	for (int i = 0; i < 2; i++) {
		log_read(log[i][0], said[i], sizeof(said[i]));
		row_judge(row, text, i, st[i], said[i]);
		is_ok &= st[i] == 0;
	}
	g_rows++;
	g_worked += is_ok;
	g_failed += !is_ok;
	if (getenv("VERBOSE"))
		printf("  %-60s %s (client: step %d, %s; server: step %d, %s)\n%s%s", text, is_ok ? "worked" : "ended",
		       g_board->side[0].stage, fi_strerror(-g_board->side[0].rc), g_board->side[1].stage,
		       fi_strerror(-g_board->side[1].rc), said[0], said[1]);
}

static void rows_of(struct row row, bool all, const uint64_t *value, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		for (row.who = all ? 1 : 3; row.who <= 3; row.who++) {
			row.value = value[i];
			row_run(&row);
		}
}
#define ROWS(row_, ...)                                                                            \
	do {                                                                                       \
		const uint64_t value_[] = {__VA_ARGS__};                                           \
		rows_of(row_, all, value_, sizeof(value_) / sizeof(value_[0]));                    \
	} while (0)

static void files_rows(bool all)
{
	struct row row = {.name = "file size", .kind = K_RLIMIT, .resource = RLIMIT_FSIZE, .must_work = true};

	ROWS(row, 0, 1, SHM_FILE_LEN - 1, SHM_FILE_LEN);
	for (unsigned bits = 1; all && bits < 36; bits++)
		ROWS(row, (1ull << bits) - 1, 1ull << bits, (1ull << bits) + 1);
	row.when = W_OPEN;
	ROWS(row, 0);
	row.name = "descriptors";
	row.resource = RLIMIT_NOFILE;
	row.must_work = false;
	row.when = W_FIRST;
	if (!all)
		ROWS(row, 0, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16);
	for (uint64_t n = 0; all && n < 64; n++)
		ROWS(row, n);
	row.when = W_LOADED;
	for (uint64_t n = 0; n < (all ? 64 : 0); n++)
		ROWS(row, n);
	row.when = W_OPEN;
	for (uint64_t n = 0; n < (all ? 32 : 1); n++)
		ROWS(row, n);
	/* The other one may map this one, and this one not the other one. */
	row.value = 1;
	for (row.who = 1; row.who <= 2 && !all; row.who++)
		row_run(&row);
}

static void memory_rows(bool all)
{
	struct row row = {.name = "address space, bytes more",
			  .kind = K_VM,
			  .resource = RLIMIT_AS,
			  .who = 2,
			  .when = W_OPEN,
			  .value = 8 << 20};

	static_assert(8 << 20 < SHM_FILE_LEN, "not a segment");
	row_run(&row); /* a server that has no room to map the client's segment */

	for (row.when = W_LOADED; row.when < W_NUM; row.when++) {
		ROWS(row, 0, 8 << 20);
		for (uint64_t mib = 1; all && mib < 400; mib += 1 + mib / 8)
			ROWS(row, mib << 20);
		for (uint64_t kib = 4; all && kib < 1024; kib += 4 + kib / 8)
			ROWS(row, kib << 10);
	}
	row.name = "data, bytes more";
	row.resource = RLIMIT_DATA;
	for (row.when = W_LOADED; row.when < W_NUM; row.when++) {
		ROWS(row, 0, 8 << 20);
		for (uint64_t kib = 4; all && kib < 32768; kib += 4 + kib / 8)
			ROWS(row, kib << 10);
	}
}

static void other_rows(bool all)
{
	static const struct {
		const char *name;
		int resource;
	} lim[] = {{"locked memory", RLIMIT_MEMLOCK},
		   {"pending signals", RLIMIT_SIGPENDING},
		   {"file locks", RLIMIT_LOCKS},
		   {"message queues", RLIMIT_MSGQUEUE},
		   {"core", RLIMIT_CORE}};
	struct row row = {.name = "stack", .kind = K_STACK, .resource = RLIMIT_STACK, .must_work = true};

	ROWS(row, 0, 16384, 65536, 262144);
	for (uint64_t kib = 8; all && kib < 10240; kib += kib / 4)
		ROWS(row, kib << 10);
	row.kind = K_RLIMIT;
	for (size_t i = 0; i < sizeof(lim) / sizeof(lim[0]); i++) {
		row.name = lim[i].name;
		row.resource = lim[i].resource;
		ROWS(row, 0);
		for (uint64_t n = 1; all && n < 65536; n *= 4)
			ROWS(row, n);
	}
	row = (struct row){.name = "threads", .kind = K_NPROC, .resource = RLIMIT_NPROC, .when = W_LOADED};
	if (getuid())
		printf("  SKIP threads: the limit does not count for this user, and only root can be another one\n");
	for (uint64_t n = 0; !getuid() && n < (all ? 8 : 2); n++)
		ROWS(row, n);
}

static void shm_rows(bool all, bool has_mounts)
{
	static const struct row rows[] = {
		{.name = "missing", .opt = ""}, {.name = "read-only", .opt = "ro"},
		{.name = "of 4 KiB", .opt = "size=4K"},
		{.name = "of 1 MiB", .opt = "size=1M"}, {.name = "of one file", .opt = "size=64M,nr_inodes=2"},
	};
	static char opt[4096][32];
	struct row row;
	unsigned n = 0;

	if (!has_mounts)
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned who = 1; who <= 3; who++) {
			row = rows[i];
			row.kind = K_SHM;
			row.must_work = true;
			row.who = who;
			row_run(&row);
		}
	for (unsigned kib = 4; all && kib < 65536; kib += 4 + kib / 8, n++) {
		snprintf(opt[n], sizeof(opt[n]), "size=%uK", kib);
		row = (struct row){.name = opt[n], .kind = K_SHM, .opt = opt[n], .must_work = true};
		for (row.who = 1; row.who <= 3; row.who++)
			row_run(&row);
	}
	for (unsigned inodes = 1; all && inodes < 12; inodes++, n++) {
		snprintf(opt[n], sizeof(opt[n]), "size=64M,nr_inodes=%u", inodes);
		row = (struct row){.name = opt[n], .kind = K_SHM, .opt = opt[n], .must_work = true};
		for (row.who = 1; row.who <= 3; row.who++)
			row_run(&row);
	}
}

/* Two containers of one pod. */
static void pod_rows(void)
{
	for (unsigned who = 1; who <= 3; who++) {
		struct row row = {.name = "another one", .kind = K_SHM, .opt = "=", .must_work = true, .who = who};

		row_run(&row);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "ci";
	bool all = !strcmp(what, "all"), has_mounts;
	char why[160] = "";

	g_only = argc > 2 ? argv[2] : NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	has_mounts = rig_private(256, why, sizeof(why));
	g_board = mmap(NULL, sizeof(*g_board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!has_mounts)
		printf("  SKIP what needs another /dev/shm: %s\n", why);
	if (!strcmp(what, "pods")) {
		if (!has_mounts)
			return RIG_SKIP;
		pod_rows();
	} else {
		shm_rows(all, has_mounts);
		files_rows(all);
#ifndef __SANITIZE_ADDRESS__ /* which needs address space itself */
		memory_rows(all);
#endif
		other_rows(all);
	}
	printf("%u rows: %u worked, %u ended with an error, %u are wrong\n", g_rows, g_worked, g_failed, g_bad);
	return g_bad != 0;
}
