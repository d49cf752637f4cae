// SPDX-License-Identifier: BSD-2-Clause
// The whole of link/ between two processes and between two nodes of one: every path, and peers that
// compute.
#include "link_side.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define WAIT_NS (20 * NS_PER_SEC * unit_slow())
#define BODY	1000

/*
 * One side; in the two-process tests the other one is in a child. Its adapter thread counts as well: each count is an
 * atomic that is raised last, so that who sees it sees the rest.
 */
struct side {
	struct link_side l;
	struct link_peer *peer;
	_Atomic uint32_t got, ended, bulk_ended;
	uint32_t got_bad, failed, last_seq;
	int last_status;
	int bulk_status;
};

/* What a child tells its parent without making a call. */
struct board {
	struct link_addr addr[2];
	_Atomic uint32_t step, got, key;
	_Atomic uintptr_t mem;
	uint64_t spins;
};

static struct board *board;
static bool in_child; /* a failure there must not go on with the parent's tests */

#define NEED(x_)                                                                                   \
	do {                                                                                       \
		if (!(x_)) {                                                                       \
			fprintf(stderr, "[%d] line %d: %s\n", getpid(), __LINE__, #x_);            \
			if (in_child)                                                              \
				_exit(8);                                                          \
			fail();                                                                    \
		}                                                                                  \
	} while (0)

static pid_t fork_child(void)
{
	pid_t pid = unit_fork();

	if (pid)
		return pid;
	in_child = true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return 0;
}

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	struct side *s = ctx;
	uint8_t buf[8 + BODY];
	uint32_t seq;

	(void)peer;
	if (len != sizeof(buf)) {
		s->got_bad++;
		s->got++;
		return 0;
	}
	memcpy(buf, frame, sizeof(buf));
	memcpy(&seq, buf, 4);
	for (size_t i = 8; i < sizeof(buf); i++)
		if (buf[i] != (uint8_t)(seq + i)) {
			s->got_bad++;
			break;
		}
	s->last_seq = seq;
	s->got++;
	if (board)
		atomic_store(&board->got, s->got);
	return seq == 0xdead ? 77 : 0;
}

static void on_sent(void *ctx, void *cookie, int status)
{
	struct side *s = ctx;

	free(cookie);
	s->failed += status != 0;
	s->last_status = status;
	s->ended++;
}

static void on_bulk(void *ctx, void *cookie, int status)
{
	struct side *s = ctx;

	(void)cookie;
	s->bulk_status = status;
	s->bulk_ended++;
}

static const struct link_ops ops = {on_frame, on_sent, on_bulk};

static void on_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	if (lvl == LOG_LVL_WARN || getenv("VERBOSE"))
		fprintf(stderr, "[%d] %s:%d %s\n", getpid(), func, line, msg);
}

static void side_open(struct side *s, enum link_class cls, bool no_shm)
{
	memset(s, 0, sizeof(*s));
	NEED(!link_side_open(&s->l, (struct link_port_attr){.cls = cls, .ops = &ops, .ctx = s, .no_shm = no_shm}));
}

static void side_connect(struct side *s, const struct link_addr *to)
{
	lock_acquire(&s->l.lock);
	NEED(link_peer_get(s->l.port, to, &s->peer) == 0);
	lock_release(&s->l.lock);
}

static void side_close(struct side *s)
{
	link_side_close(&s->l);
}

static int side_poll(struct side *s)
{
	int n = link_side_poll(&s->l);

	if (!n)
		link_idle(s->l.node);
	return n;
}

/* One frame whose content follows from @seq; on_sent() frees it. */
static int side_send(struct side *s, uint32_t seq)
{
	uint8_t *buf = malloc(BODY), hdr[8] = {0};
	struct iovec iov = {buf, BODY};
	int rc;

	memcpy(hdr, &seq, 4);
	for (size_t i = 0; i < BODY; i++)
		buf[i] = (uint8_t)(seq + i + 8);
	lock_acquire(&s->l.lock);
	rc = link_send(s->l.port, s->peer, hdr, sizeof(hdr), &iov, 1, buf);
	if (!rc)
		link_doorbell(s->l.port);
	lock_release(&s->l.lock);
	if (rc)
		free(buf);
	return rc;
}

/* What the adapter thread of @s counts, it counts under the lock: all of @s may be read after this. */
static uint32_t ended_of(struct side *s)
{
	uint32_t n;

	lock_acquire(&s->l.lock);
	n = s->ended;
	lock_release(&s->l.lock);
	return n;
}

/* Sends @cnt frames from @first on and polls @s, and @other if given, until they have ended. */
static void stream(struct side *s, struct side *other, uint32_t first, uint32_t cnt)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	uint32_t sent = 0, before = ended_of(s);

	while (ended_of(s) - before < cnt) {
		int rc = sent < cnt ? side_send(s, first + sent) : -EAGAIN;

		if (!rc)
			sent++;
		else if (rc != -EAGAIN)
			fail_msg("send: %s", strerror(-rc));
		side_poll(s);
		if (other)
			side_poll(other);
		if (clk_now_ns(NULL) > end)
			fail_msg("%u sent, %u ended of %u", sent, ended_of(s) - before, cnt);
	}
	if (other)
		ended_of(other);
}

static void pair_run(const char *text, enum link_class cls, bool no_shm, bool want_shm)
{
	struct side a, b;
	uint32_t cnt = 3000;

	room_set(text);
	side_open(&a, cls, no_shm);
	side_open(&b, cls, no_shm);
	side_connect(&a, link_port_addr(b.l.port));
	side_connect(&b, link_port_addr(a.l.port));
	stream(&a, &b, 1, cnt);
	assert_int_equal(b.got, cnt);
	assert_int_equal(b.got_bad, 0);
	assert_int_equal(a.failed, 0);
	stream(&b, &a, 1, 100);
	assert_int_equal(a.got, 100);
	/* the owner's refusal comes back as the status */
	stream(&a, &b, 0xdead, 1);
	assert_int_equal(a.last_status, 77);
	lock_acquire(&a.l.lock);
	assert_int_equal(link_port_stats(a.l.port)->net_tx_frames, want_shm ? 0 : cnt + 1);
	assert_true(want_shm == link_peer_is_local(a.peer));
	assert_int_equal(link_peer_label(a.peer), 0);
	lock_release(&a.l.lock);
	lock_acquire(&b.l.lock);
	link_port_set_label(b.l.port, 0x123456789abcdef0);
	lock_release(&b.l.lock);
	lock_acquire(&a.l.lock);
	assert_true(link_peer_label(a.peer) == (want_shm ? 0x123456789abcdef0 : 0));
	if (!want_shm)
		assert_true(link_port_stats(a.l.port)->net_tx_dgrams > 0);
	lock_release(&a.l.lock);
	side_close(&a);
	/* the port is gone: the peer learns it */
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	int rc = 0;

	while (rc != -ECONNREFUSED && clk_now_ns(NULL) < end) {
		rc = side_send(&b, 5);
		assert_true(!rc || rc == -EAGAIN || rc == -ECONNREFUSED);
		side_poll(&b);
	}
	assert_int_equal(rc, -ECONNREFUSED);
	assert_true(!b.failed || b.last_status == -ECONNREFUSED);
	side_close(&b);
}

static void pair__shm(void **state)
{
	(void)state;
	pair_run("", LINK_RELIABLE, false, true);
}
static void pair__shm_only(void **state)
{
	(void)state;
	pair_run("shm", LINK_ORDERED, false, true);
}
static void pair__udp(void **state)
{
	(void)state;
	pair_run("udp", LINK_RELIABLE, false, false);
}
static void pair__udp_small_mtu(void **state)
{
	(void)state;
	pair_run("udp;mtu=600", LINK_ORDERED, false, false);
}
static void pair__no_shm(void **state)
{
	(void)state;
	pair_run("", LINK_RELIABLE, true, false);
}

static void pair__faults_over_shm(void **state)
{
	(void)state;
	pair_run("shm,udp;loss=3%;dup=2%;reorder=3%;seed=5;linger=3s", LINK_RELIABLE, false, false);
}

static void pair__faults_shm_only(void **state)
{
	(void)state;
	pair_run("shm;loss=3%;seed=6;linger=3s", LINK_ORDERED, false, false);
}

static void pair__faults_over_udp(void **state)
{
	(void)state;
	pair_run("udp;loss=3%;dup=2%;reorder=3%;seed=7;linger=3s", LINK_ORDERED, false, false);
}

static void pair__captured(void **state)
{
	char dir[] = "/tmp/sf_link_XXXXXX", text[64], name[400];
	struct dirent *e;
	struct stat st;
	off_t len = 0;
	DIR *d;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(text, sizeof(text), "pcap=%s/x.pcapng", dir);
	pair_run(text, LINK_RELIABLE, false, false);
	d = opendir(dir);
	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(name, sizeof(name), "%s/%s", dir, e->d_name);
		if (e->d_name[0] == '.' || stat(name, &st))
			continue;
		len += st.st_size;
		unlink(name);
	}
	closedir(d);
	assert_int_equal(rmdir(dir), 0);
	assert_true(len > 3000 * BODY);
}

/* --- two processes --------------------------------------------------------------------------- */

static void await_step(uint32_t step)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;

	while (atomic_load(&board->step) < step) {
		sched_yield();
		NEED(clk_now_ns(NULL) < end);
	}
}

/* The target: opens a port and a region, then computes and makes no call at all until the parent is
 * done. */
static void child_compute(enum link_class cls)
{
	static uint8_t mem[300000];
	struct side s;
	uint32_t key = 0;

	for (size_t i = 0; i < sizeof(mem); i++)
		mem[i] = (uint8_t)(i * 7);
	side_open(&s, cls, false);
	lock_acquire(&s.l.lock);
	if (link_region_add(s.l.node, mem, sizeof(mem), LINK_GET | LINK_PUT, &key))
		_exit(2);
	lock_release(&s.l.lock);
	board->addr[0] = *link_port_addr(s.l.port);
	atomic_store(&board->key, key);
	atomic_store(&board->mem, (uintptr_t)mem);
	atomic_store(&board->step, 1);
	while (atomic_load(&board->step) < 2)
		board->spins++;
	lock_acquire(&s.l.lock); /* what the adapter thread has stored, it has stored under it */
	lock_release(&s.l.lock);
	for (size_t i = 0; i < 100000; i++)
		if (mem[i] != (uint8_t)(i * 3))
			_exit(3);
	if (s.got_bad)
		_exit(4);
	side_close(&s);
	_exit(0);
}

static void child_join(pid_t pid, int want)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), want);
}

static void bulk_run(struct side *s, int op, void *local, size_t len, uint64_t raddr, uint32_t key)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	uint32_t before = s->bulk_ended;
	int rc;

	do {
		lock_acquire(&s->l.lock);
		rc = link_bulk(s->l.port, s->peer, op, local, len, raddr, key, s);
		lock_release(&s->l.lock);
		side_poll(s);
	} while (rc == -EAGAIN && clk_now_ns(NULL) < end);
	assert_int_equal(rc, 0);
	while (s->bulk_ended == before && clk_now_ns(NULL) < end)
		side_poll(s);
	assert_int_equal(s->bulk_ended, before + 1);
}

static void compute_run(const char *text)
{
	static uint8_t mem[300000];
	uint32_t key, cnt = 500;
	uint64_t raddr, begin;
	struct side s;
	pid_t pid;

	room_set(text);
	atomic_store(&board->step, 0);
	atomic_store(&board->got, 0);
	pid = fork_child();
	if (!pid)
		child_compute(LINK_RELIABLE);
	await_step(1);
	key = atomic_load(&board->key);
	raddr = atomic_load(&board->mem);
	side_open(&s, LINK_RELIABLE, false);
	side_connect(&s, &board->addr[0]);
	begin = clk_now_ns(NULL);
	stream(&s, NULL, 1, cnt);
	assert_int_equal(s.failed, 0);
	assert_int_equal(atomic_load(&board->got), cnt);
	print_message("%s: %u frames to a computing target in %.1f ms\n", *text ? text : "default",
		      cnt, (double)(clk_now_ns(NULL) - begin) / 1e6);
	bulk_run(&s, LINK_GET, mem, sizeof(mem), raddr, key);
	assert_int_equal(s.bulk_status, 0);
	for (size_t i = 0; i < sizeof(mem); i++)
		assert_int_equal(mem[i], (uint8_t)(i * 7));
	for (size_t i = 0; i < 100000; i++)
		mem[i] = (uint8_t)(i * 3);
	bulk_run(&s, LINK_PUT, mem, 100000, raddr, key);
	assert_int_equal(s.bulk_status, 0);
	bulk_run(&s, LINK_GET, mem, 10, raddr, key + 1);
	assert_int_equal(s.bulk_status, -EACCES);
	atomic_store(&board->step, 2);
	side_close(&s);
	child_join(pid, 0);
	assert_true(board->spins > 0);
}

static void compute__shm(void **state)
{
	(void)state;
	compute_run("");
}
static void compute__udp(void **state)
{
	(void)state;
	compute_run("udp");
}
static void compute__faults(void **state)
{
	(void)state;
	compute_run("loss=2%;seed=3");
}

/* What a process has mapped from /dev/shm: a killed one leaves it to the next that opens a port, we
 * leave nothing. */
struct names {
	char path[16][300];
	int cnt;
};

static void names_of(pid_t pid, struct names *out)
{
	char file[64], line[512];
	FILE *f;

	snprintf(file, sizeof(file), "/proc/%d/maps", pid);
	f = fopen(file, "r");
	out->cnt = 0;
	while (f && fgets(line, sizeof(line), f) && out->cnt < 16) {
		char *at = strstr(line, "/dev/shm/softfabric-");

		if (at && sscanf(at, "%290s", out->path[out->cnt]) == 1)
			out->cnt++;
	}
	if (f)
		fclose(f);
}

static void names_unlink(struct names *n)
{
	for (int i = 0; i < n->cnt; i++) {
		glob_t found;

		unlink(n->path[i]);
		strcat(n->path[i], ".*.wake");
		if (!glob(n->path[i], 0, NULL, &found))
			unlink(found.gl_pathv[0]);
		globfree(&found);
	}
}

/* A target that is killed: every send ends, once. */
static void kill_run(const char *text, int sig)
{
	struct side s;
	pid_t pid;
	struct names names;
	uint64_t end, begin;
	uint32_t sent = 0;
	int rc = 0;

	room_set(text);
	atomic_store(&board->step, 0);
	pid = fork_child();
	if (!pid)
		child_compute(LINK_RELIABLE);
	await_step(1);
	side_open(&s, LINK_RELIABLE, false);
	side_connect(&s, &board->addr[0]);
	stream(&s, NULL, 1, 10);
	names_of(pid, &names);
	kill(pid, sig);
	if (sig == SIGKILL)
		waitpid(pid, NULL, 0);
	begin = clk_now_ns(NULL);
	end = begin + WAIT_NS;
	lock_acquire(&s.l.lock);
	s.ended = s.failed = 0;
	lock_release(&s.l.lock);
	do {
		rc = side_send(&s, 20 + sent);
		sent += !rc;
		side_poll(&s);
	} while ((!rc || rc == -EAGAIN) && clk_now_ns(NULL) < end);
	assert_true(rc == -ECONNREFUSED || rc == -ETIMEDOUT);
	assert_int_equal(ended_of(&s), sent);
	print_message("%s, signal %d: noticed after %.0f ms\n", *text ? text : "default", sig,
		      (double)(clk_now_ns(NULL) - begin) / 1e6);
	if (sig != SIGKILL) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	side_close(&s);
	names_unlink(&names); /* the child's, and ours that are closed */
}

static void kill__shm(void **state)
{
	(void)state;
	kill_run("", SIGKILL);
}
static void kill__udp(void **state)
{
	(void)state;
	kill_run("udp", SIGKILL);
}
static void stop__shm(void **state)
{
	(void)state;
	kill_run("dead_after=500ms", SIGSTOP);
}
static void stop__udp(void **state)
{
	(void)state;
	kill_run("udp;dead_after=500ms", SIGSTOP);
}

/*
 * Both sleep on their descriptors between frames, without a limit, and are late at times: then the adapter threads
 * work.
 */
static void wait_fd_run(const char *text, enum link_class cls)
{
	struct rng rng = unit_rng();
	struct side s;
	pid_t pid;
	uint32_t rounds = 400;

	room_set(text);
	atomic_store(&board->step, 0);
	pid = fork_child();
	if (!pid)
		rng_u64(&rng); /* another stream than the parent's */
	side_open(&s, cls, false);
	board->addr[pid ? 0 : 1] = *link_port_addr(s.l.port);
	atomic_fetch_add(&board->step, 1);
	await_step(2);
	side_connect(&s, &board->addr[pid ? 1 : 0]);
	for (uint32_t r = 1; r <= rounds; r++) {
		NEED(!pid || side_send(&s, r) == 0);
		while (s.got < r) {
			struct pollfd pfd = {.events = POLLIN};
			int rc;

			lock_acquire(&s.l.lock);
			link_poll(s.l.port);
			pfd.fd = link_wait_fd(s.l.port);
			rc = s.got < r ? link_arm(s.l.port) : -EAGAIN;
			lock_release(&s.l.lock);
			if (rc)
				continue;
			if (!rng_below(&rng, 4)) {
				struct timespec late = {.tv_nsec = (long)rng_below(&rng, 2000000)};

				nanosleep(&late, NULL);
			}
			NEED(poll(&pfd, 1, WAIT_NS / NS_PER_MS) == 1);
		}
		NEED(pid || side_send(&s, r) == 0);
	}
	while (s.ended < rounds)
		side_poll(&s);
	if (!pid) {
		side_close(&s);
		NEED(!s.got_bad);
		if (s.failed)
			fprintf(stderr, "child: %u failed, last status %d\n", s.failed,
				s.last_status);
		_exit(s.failed != 0);
	}
	assert_int_equal(s.failed + s.got_bad, 0);
	side_close(&s);
	child_join(pid, 0);
}

static void wait_fd__ping_pong(void **state)
{
	(void)state;
	wait_fd_run("", LINK_RELIABLE);
}
static void wait_fd__ping_pong_ordered(void **state)
{
	(void)state;
	wait_fd_run("", LINK_ORDERED);
}
static void wait_fd__ping_pong_udp(void **state)
{
	(void)state;
	wait_fd_run("udp", LINK_RELIABLE);
}

/* Two sides that have exchanged frames both ways. */
static void pair_met(struct side *a, struct side *b)
{
	side_open(a, LINK_RELIABLE, false);
	side_open(b, LINK_RELIABLE, false);
	side_connect(a, link_port_addr(b->l.port));
	side_connect(b, link_port_addr(a->l.port));
	stream(a, b, 1, 100);
	stream(b, a, 1, 100);
}

/* Who goes to sleep owes nobody an acknowledgement: its lock is held, so that no adapter thread can send one for it. */
static void arm__acknowledges(void **state)
{
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	struct side a, b;
	int rc = -EAGAIN;

	(void)state;
	room_set("udp");
	side_open(&a, LINK_RELIABLE, false);
	side_open(&b, LINK_RELIABLE, false);
	side_connect(&a, link_port_addr(b.l.port));
	stream(&a, &b, 1, 100);
	lock_acquire(&b.l.lock);
	NEED(link_wait_fd(b.l.port) >= 0);
	NEED(!side_send(&a, 101));
	while ((b.got < 101 || rc) && clk_now_ns(NULL) < end) {
		link_poll(b.l.port);
		rc = b.got < 101 ? -EAGAIN : link_arm(b.l.port);
	}
	while (a.ended < 101 && clk_now_ns(NULL) < end)
		side_poll(&a);
	lock_release(&b.l.lock);
	assert_int_equal(b.got, 101);
	assert_int_equal(a.ended, 101);
	side_close(&a);
	side_close(&b);
}

static bool clock_is_cheap(void)
{
	char name[32] = "";
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");

	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return !strncmp(name, "tsc", 3) || !strncmp(name, "kvm", 3) || !strncmp(name, "arch", 4);
}

/* In a thread that any system call would end. (Strict mode will not do: it takes the clock away,
 * too.) */
static void child_idle(void)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD);
	struct sock_fprog prog = {1, &none};
	struct side a, b;

	pair_met(&a, &b);
	lock_acquire(&a.l.lock);
	NEED(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	NEED(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
	for (uint32_t i = 0; i < 100000; i++)
		link_poll(a.l.port);
	atomic_store(&board->step, 1);
	for (;;)
		;
}

static void idle_poll__no_system_call(void **state)
{
	const char *preload = getenv("LD_PRELOAD");
	uint64_t end = clk_now_ns(NULL) + WAIT_NS;
	struct names names;
	uint32_t step = 0;
	pid_t pid;

	(void)state;
	if (!clock_is_cheap()) {
		print_message("reading the clock is a system call on this machine\n");
		skip();
	}
	if (preload && strstr(preload, "vgpreload")) {
		print_message("valgrind makes system calls of its own\n");
		skip();
	}
	room_set("");
	atomic_store(&board->step, 0);
	pid = fork_child();
	if (!pid)
		child_idle();
	while (!step && clk_now_ns(NULL) < end && !waitpid(pid, NULL, WNOHANG))
		step = atomic_load(&board->step);
	names_of(pid, &names);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	names_unlink(&names);
	assert_int_equal(step, 1);
}

static int group_setup(void **state)
{
	(void)state;
	log_set_hook(on_log);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	return board == MAP_FAILED;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pair__shm),
		cmocka_unit_test(pair__shm_only),
		cmocka_unit_test(pair__udp),
		cmocka_unit_test(pair__udp_small_mtu),
		cmocka_unit_test(pair__no_shm),
		cmocka_unit_test(pair__faults_over_shm),
		cmocka_unit_test(pair__faults_shm_only),
		cmocka_unit_test(pair__faults_over_udp),
		cmocka_unit_test(pair__captured),
		cmocka_unit_test(compute__shm),
		cmocka_unit_test(compute__udp),
		cmocka_unit_test(compute__faults),
		cmocka_unit_test(kill__shm),
		cmocka_unit_test(kill__udp),
		cmocka_unit_test(stop__shm),
		cmocka_unit_test(stop__udp),
		cmocka_unit_test(wait_fd__ping_pong),
		cmocka_unit_test(wait_fd__ping_pong_ordered),
		cmocka_unit_test(wait_fd__ping_pong_udp),
		cmocka_unit_test(arm__acknowledges),
		cmocka_unit_test(idle_poll__no_system_call),
	};

	if (getenv("TEST")) /* one by name, * allowed */
		cmocka_set_test_filter(getenv("TEST"));
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
