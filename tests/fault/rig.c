// SPDX-License-Identifier: BSD-2-Clause
// Ranks as processes, and the endpoint of each.
#include "rig.h"
#include "../library.h"

#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- small things -------------------------------------------------------------------------------- */

uint64_t rig_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t rig_rand(uint64_t *state)
{
	return mix(*state += 0x9e3779b97f4a7c15ULL);
}

uint64_t rig_below(uint64_t *state, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rig_rand(state) * n) >> 64);
}

uint64_t rig_seed(void)
{
	const char *text = getenv("SEED");

	return text && *text ? strtoull(text, NULL, 0) : 20261121;
}

void rig_sleep_ms(uint64_t ms)
{
	struct timespec ts = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

void rig_fail(const struct rig *r, const char *file, int line, const char *fmt, ...)
{
	const char *base = strrchr(file, '/');
	va_list ap;

	flockfile(stdout);
	printf("    rank %u, %s:%d: ", r->rank, base ? base + 1 : file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (SEED=%#llx)\n", (unsigned long long)r->w->seed);
	fflush(stdout);
	_exit(1);
}

void rig_fill(void *mem, size_t len, uint64_t seed)
{
	uint8_t *p = mem;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = mix(seed * 0x9e3779b97f4a7c15ULL + i + 1);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

int64_t rig_is_filled(const void *mem, size_t len, uint64_t seed)
{
	const uint8_t *p = mem;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = mix(seed * 0x9e3779b97f4a7c15ULL + i + 1);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8))
			return (int64_t)i;
	}
	return -1;
}

/* --- the world ----------------------------------------------------------------------------------- */

struct rig_world *rig_world_new(uint32_t ranks, uint64_t seed)
{
	struct rig_world *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (w == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	w->ranks = ranks;
	w->seed = seed;
	return w;
}

void rig_world_free(struct rig_world *w)
{
	munmap(w, sizeof(*w));
}

pid_t rig_spawn(struct rig_world *w, uint32_t rank, int (*fn)(struct rig *r, const void *arg), const void *arg,
		const char *const *env)
{
	static bool is_begun;
	pid_t parent = getpid(), pid;
	struct rig r = {.w = w, .rank = rank};

	if (!is_begun)
		library_begin(rig_prov()->name);
	is_begun = true;
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; env && env[0]; env += 2)
		setenv(env[0], env[1], 1);
	r.rng = w->seed * RIG_RANKS + rank;
	exit(fn(&r, arg)); /* and not _exit: leak checkers want to speak */
}

static bool reap(pid_t *pid, uint32_t n, int *bad)
{
	bool is_left = false;

	for (uint32_t i = 0; i < n; i++) {
		int st;

		if (!pid[i])
			continue;
		if (waitpid(pid[i], &st, WNOHANG) != pid[i]) {
			is_left = true;
			continue;
		}
		pid[i] = 0;
		if (WIFSIGNALED(st))
			printf("    rank %u: killed by signal %d (%s)\n", i, WTERMSIG(st), strsignal(WTERMSIG(st)));
		if (st)
			*bad = WIFEXITED(st) && WEXITSTATUS(st) == RIG_SKIP && !*bad ? RIG_SKIP : 1;
	}
	return is_left;
}

int rig_await(pid_t *pid, uint32_t n, uint64_t limit_ms)
{
	uint64_t end = rig_now_ns() + limit_ms * RIG_NS_PER_MS;
	int bad = 0;

	while (reap(pid, n, &bad)) {
		uint64_t now = rig_now_ns();

		if (bad && end > now + 3000 * RIG_NS_PER_MS)
			end = now + 3000 * RIG_NS_PER_MS; /* the others wait for one that failed */
		if (now > end) {
			for (uint32_t i = 0; i < n; i++) {
				if (!pid[i])
					continue;
				if (!bad && limit_ms)
					printf("    rank %u: still running after %llu ms\n", i,
					       (unsigned long long)limit_ms);
				kill(pid[i], SIGKILL);
				waitpid(pid[i], NULL, 0);
				pid[i] = 0;
			}
			return 1;
		}
		rig_sleep_ms(2);
	}
	return bad;
}

static bool write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	bool ok;

	if (!f)
		return false;
	ok = fputs(text, f) >= 0;
	return !fclose(f) && ok;
}

/* Loopback of its own: on the host's, the address of a rank that died may be taken by the rank of another test. */
static bool private_net(void)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd, rc;

	if (unshare(CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	rc = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &ifr);
	if (fd >= 0)
		close(fd);
	return !rc;
}

/* Root needs a mount namespace only; others a user namespace, where they are root. */
bool rig_private(unsigned mib, char *why, size_t why_len)
{
	char map[64], opt[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(uid ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS)) {
		snprintf(why, why_len, "no mount namespace: %s", strerror(errno));
		return false;
	}
	if (uid) {
		snprintf(map, sizeof(map), "0 %u 1", uid);
		write_file("/proc/self/uid_map", map);
		write_file("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", gid);
		write_file("/proc/self/gid_map", map);
	}
	snprintf(opt, sizeof(opt), "size=%uM,mode=1777", mib);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("tmpfs", "/dev/shm", "tmpfs", 0, opt)) {
		snprintf(why, why_len, "no tmpfs of one's own: %s", strerror(errno));
		return false;
	}
	if (!private_net()) {
		snprintf(why, why_len, "no network of one's own: %s", strerror(errno));
		return false;
	}
	return true;
}

unsigned rig_shm_files(void)
{
	DIR *d = opendir("/dev/shm");
	struct dirent *de;
	unsigned n = 0;

	while (d && (de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		printf("    left behind: /dev/shm/%s\n", de->d_name);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

/* --- a rank -------------------------------------------------------------------------------------- */

static struct fi_info *hints_new(const struct rig *r)
{
	struct fi_info *h = fi_allocinfo();

	CHECK(h, "out of memory");
	h->fabric_attr->prov_name = strdup(rig_prov()->name);
	h->ep_attr->type = FI_EP_RDM;
	h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE;
	h->mode = rig_prov()->mode;
	h->domain_attr->mr_mode = rig_prov()->mr_mode;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->data_progress = h->domain_attr->control_progress = r->progress;
	h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
	return h;
}

static void region_open(struct rig *r, size_t len)
{
	r->region_len = len;
	r->region = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(r->region != MAP_FAILED, "no memory for %zu bytes", len);
	OK(fi_mr_reg(r->domain, r->region, len,
		     FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0, 0, &r->mr, NULL));
	if (!(r->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		return;
	OK(fi_mr_bind(r->mr, &r->ep->fid, 0));
	OK(fi_mr_enable(r->mr));
}

void rig_open_alone(struct rig *r, size_t region_len)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = RIG_RANKS};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 16384};
	struct fi_info *h = hints_new(r);

	OK(fi_getinfo(FI_VERSION(1, 17), NULL, r->service, r->service ? FI_SOURCE : 0, h, &r->info));
	fi_freeinfo(h);
	OK(fi_fabric(r->info->fabric_attr, &r->fabric, NULL));
	OK(fi_domain(r->fabric, r->info, &r->domain, NULL));
	OK(fi_av_open(r->domain, &av, &r->av, NULL));
	OK(fi_cq_open(r->domain, &cq, &r->cq, NULL));
	OK(fi_endpoint(r->domain, r->info, &r->ep, NULL));
	OK(fi_ep_bind(r->ep, &r->av->fid, 0));
	OK(fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV));
	r->enabled_ns[0] = rig_now_ns();
	OK(fi_enable(r->ep));
	r->enabled_ns[1] = rig_now_ns();
	if (fi_open_ops(&r->domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&r->stats, NULL))
		r->stats = NULL;
	region_open(r, region_len);
}

void rig_open(struct rig *r, size_t region_len)
{
	struct rig_peer *me = &r->w->peer[r->rank];
	size_t len = sizeof(me->addr);

	rig_open_alone(r, region_len);
	OK(fi_getname(&r->ep->fid, me->addr, &len));
	me->addr_len = len;
	me->mem = r->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)r->region : 0;
	me->key = fi_mr_key(r->mr);
	rig_sync(r);
	for (uint32_t i = 0; i < r->w->ranks; i++)
		CHECK(fi_av_insert(r->av, r->w->peer[i].addr, 1, &r->to[i], 0, NULL) == 1, "address of rank %u refused",
		      i);
}

void rig_close_ep(struct rig *r)
{
	if (r->info->domain_attr->mr_mode & FI_MR_ENDPOINT) { /* it belongs to the endpoint */
		OK(fi_close(&r->mr->fid));
		r->mr = NULL;
	}
	OK(fi_close(&r->ep->fid));
	r->ep = NULL;
}

void rig_close(struct rig *r)
{
	if (r->mr && !(r->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		OK(fi_close(&r->mr->fid));
	if (r->ep)
		rig_close_ep(r);
	OK(fi_close(&r->cq->fid));
	OK(fi_close(&r->av->fid));
	OK(fi_close(&r->domain->fid));
	OK(fi_close(&r->fabric->fid));
	fi_freeinfo(r->info);
	munmap(r->region, r->region_len);
	r->cq = NULL;
}

void rig_progress(struct rig *r)
{
	if (r->cq)
		fi_cq_read(r->cq, NULL, 0);
}

static void arrive(struct rig *r, _Atomic uint32_t *at, uint32_t n)
{
	/*
	 * What a peer writes here, the adapter thread may store, under the domain's lock, which is taken before and
	 * after: that the peers order it a checker of data races does not see.
	 */
	rig_progress(r);
	/* what a rank wrote to the page before is seen by all after */
	atomic_fetch_add_explicit(at, 1, memory_order_acq_rel);
	while (atomic_load_explicit(at, memory_order_acquire) < n) {
		rig_progress(r);
		sched_yield();
	}
	rig_progress(r);
}

void rig_sync(struct rig *r)
{
	uint32_t id = r->syncs++;

	arrive(r, &r->w->synced[id % 64], (id / 64 + 1) * r->w->ranks);
}

void rig_barrier(struct rig *r, unsigned id, uint32_t n)
{
	arrive(r, &r->w->arrived[id], n);
}

uint64_t rig_stat(struct rig *r, const char *name)
{
	uint64_t v = 0;

	CHECK(r->stats, "the domain has no counters");
	CHECK(!r->stats->read(r->domain, name, &v), "no counter %s", name);
	return v;
}

uint64_t rig_link_stat(struct rig *r, const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "%s%s", rig_prov()->stat_prefix, name);
	return rig_stat(r, full);
}
