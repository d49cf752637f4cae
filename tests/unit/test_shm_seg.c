// SPDX-License-Identifier: BSD-2-Clause
// Segments between processes: names, owners alive and dead, hostile headers, and a /dev/shm that is
// full.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "shm_child.h"

/* --- names and owners
 * ------------------------------------------------------------------------------------------ */

static void shm_seg__file(void **state)
{
	struct fake *f = open_port(1), *g = calloc(1, sizeof(*g));
	struct link_addr same = addr_of(1);
	char path[SHM_NAME_MAX];
	struct stat st;

	assert_int_equal(lstat(f->s->seg->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, SHM_FILE_LEN);
	assert_true(st.st_blocks * 512 < 128 * 1024); /* sparse */
	assert_true(fcntl(f->s->seg->fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fake_open(g, &same), -EADDRINUSE);
	assert_true(file_exists(f->s->seg));
	memcpy(path, f->s->seg->path, sizeof(path));
	close_port(f);
	assert_int_equal(access(path, F_OK), -1);
	free(g);
	(void)state;
}

static void shm_seg__live_owner_elsewhere(void **state)
{
	struct link_addr at = addr_of(1);
	struct child c = child_start(CHILD_SERVE, &at);
	struct fake *f = calloc(1, sizeof(*f));

	assert_int_equal(fake_open(f, &at), -EADDRINUSE);
	assert_int_equal(child_end(&c, 0), 0);
	assert_int_equal(fake_open(f, &at), 0);
	close_port(f);
	(void)state;
}

static void shm_seg__forked_child_leaves_all_alone(void **state)
{
	struct fake *a = open_port(1), *b = open_port(2);
	struct link_addr to = addr_of(2), mine = addr_of(1);
	uint64_t x = 1, end = clk_now_ns(NULL) + DEADLINE_NS;
	struct link_addr at = addr_of(3);
	pid_t pid;
	int status;

	assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
	pid = unit_fork();
	if (!pid) {
		struct fake *f = calloc(1, sizeof(*f));

		fake_close(a);
		fake_close(b);
		/* and a new port of the child reaches the parent's by name */
		if (fake_open(f, &at) || fake_send(f, &to, &x, 8, &x))
			_exit(1);
		while (!f->sent_cnt)
			fake_poll(f);
		fake_close(f);
		_exit(f->sent_bad != 0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0 && clk_now_ns(NULL) < end)
		fake_poll(b);
	assert_int_equal(status, 0);
	assert_true(file_exists(a->s->seg) && file_exists(b->s->seg));
	pid = unit_fork(); /* both are still locked */
	if (!pid) {
		struct shm_seg *s1, *s2;

		_exit(shm_seg_attach(&mine, SHM_F_LOSSLESS, &s1) ||
		      shm_seg_attach(&to, SHM_F_LOSSLESS, &s2) || !shm_seg_is_alive(s1) ||
		      !shm_seg_is_alive(s2));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	while ((!a->sent_cnt || b->rx_cnt < 2) && clk_now_ns(NULL) < end) {
		fake_poll(a);
		fake_poll(b);
	}
	assert_int_equal(a->sent_cnt, 1);
	assert_int_equal(b->rx_cnt, 2);
	close_port(a);
	close_port(b);
	(void)state;
}

static _Atomic bool looks;

static void *look_on(void *arg)
{
	while (atomic_load(&looks))
		shm_seg_find_holder(1);
	return arg;
}

/* fork() while another thread is at work in here: the child opens ports of its own. */
static void shm_seg__fork_beside_a_busy_thread(void **state)
{
	struct fake *f;
	pthread_t thread;

#ifdef __SANITIZE_ADDRESS__
	print_message("the sanitizer's allocator may be locked in such a child\n");
	skip();
#endif
	f = open_port(1);
	atomic_store(&looks, true);
	assert_int_equal(pthread_create(&thread, NULL, look_on, NULL), 0);
	for (uint16_t i = 0; i < 10; i++) {
		struct link_addr at = addr_of(2 + i);
		struct child c = child_start(CHILD_SERVE, &at);

		assert_int_equal(child_end(&c, 0), 0);
	}
	atomic_store(&looks, false);
	pthread_join(thread, NULL);
	close_port(f);
	(void)state;
}

static void shm_seg__wrong_names(void **state)
{
	struct fake *f = open_port(1);
	struct link_addr at = addr_of(1), other = addr_of(1);
	struct shm_seg *seg;
	char path[SHM_NAME_MAX];

	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), 0);
	shm_seg_put(seg);
	other.nonce++;
	assert_int_equal(shm_seg_attach(&other, SHM_F_LOSSLESS, &seg), -ENOENT);
	other.nonce = 0;
	assert_int_equal(shm_seg_attach(&other, SHM_F_LOSSLESS, &seg), 0);
	assert_int_equal(seg->addr.nonce, at.nonce);
	shm_seg_put(seg);
	assert_int_equal(shm_seg_attach(&at, 0, &seg),
			 -ENOENT); /* one has faults on, the other has not */
	other = addr_of(9);
	assert_int_equal(shm_seg_attach(&other, SHM_F_LOSSLESS, &seg), -ENOENT);
	memcpy(path, f->s->seg->path, sizeof(path));
	path[strlen(path) - 1] = '9';
	assert_int_equal(symlink(f->s->seg->path, path), 0);
	assert_int_equal(shm_seg_attach(&other, SHM_F_LOSSLESS, &seg),
			 -ENOENT); /* no link is followed */
	unlink(path);
	close_port(f);
	(void)state;
}

/* Headers of a living process that lies: never mapped, never believed. */
static void shm_seg__hostile_headers(void **state)
{
	struct link_addr at = addr_of(1);
	struct child c = child_start(CHILD_STUCK, &at);
	struct shm_hdr good, bad;
	struct shm_seg *seg;
	size_t off[] = {offsetof(struct shm_hdr, magic),	offsetof(struct shm_hdr, version),
			offsetof(struct shm_hdr, uid),		offsetof(struct shm_hdr, netns),
			offsetof(struct shm_hdr, file_len),	offsetof(struct shm_hdr, addr),
			offsetof(struct shm_hdr, shared_slots), offsetof(struct shm_hdr, state)};
	char path[SHM_NAME_MAX];
	int fd;

	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), 0);
	memcpy(path, seg->path, sizeof(path));
	shm_seg_put(seg);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &good, sizeof(good), 0), sizeof(good));
	for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
		memcpy(&bad, &good, sizeof(bad));
		((uint8_t *)&bad)[off[i]] ^= 0x42;
		assert_int_equal(pwrite(fd, &bad, sizeof(bad), 0), sizeof(bad));
		assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), -ENOENT);
	}
	assert_int_equal(pwrite(fd, &good, sizeof(good), 0), sizeof(good));
	assert_int_equal(ftruncate(fd, SHM_FILE_LEN - 4096), 0);
	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), -ENOENT);
	assert_int_equal(ftruncate(fd, SHM_FILE_LEN), 0);
	assert_int_equal(shm_seg_attach(&at, SHM_F_LOSSLESS, &seg), 0);
	shm_seg_put(seg);
	close(fd);
	assert_int_equal(child_end(&c, 0), 0);
	(void)state;
}

/* --- death --- */

/* Sends until the peer's lane is full, all sizes; then the peer ends in some way. Return: how many
 * frames are out. */
static uint64_t fill(struct fake *f, const struct link_addr *to)
{
	static uint8_t buf[9000];
	uint64_t n = 0;

	for (uint32_t i = 0; i < 400; i++)
		n += fake_send(f, to, buf, i % 3 ? 8 : sizeof(buf), buf) == 0;
	return n;
}

static void wait_sent(struct fake *f, uint64_t n)
{
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;

	while (f->sent_cnt < n && clk_now_ns(NULL) < end)
		fake_poll(f);
	for (int i = 0; i < 1000; i++)
		fake_poll(f);
	assert_int_equal(f->sent_cnt, n);
	assert_int_equal(shm_outstanding(f->s), 0);
}

static void death(enum child_job job, int sig, int want)
{
	struct link_addr to = addr_of(1);
	struct child c = child_start(job, &to);
	struct fake *f = open_port(2);
	uint64_t n = fill(f, &to), t0;

	assert_true(n > 100);
	t0 = clk_now_ns(NULL);
	child_end(&c, sig);
	wait_sent(f, n);
	assert_true(clk_now_ns(NULL) - t0 < 2 * NS_PER_SEC * unit_slow());
	if (job == CHILD_STUCK) {
		assert_int_equal(f->sent_bad, n);
		assert_int_equal(f->last_status, want);
	}
	for (unsigned i = 0; i < 100 * unit_slow() && !f->dead_cnt; i++) {
		usleep(10000); /* an idle peer's death is noticed by and by */
		fake_poll(f);
	}
	assert_int_equal(f->dead_cnt, 1);
	assert_int_equal(f->peers[0].dead, want);
	for (int i = 0; i < 1000 && f->s->stage.used; i++) {
		usleep(10000); /* what was lent is taken back in ticks */
		fake_poll(f);
	}
	assert_int_equal(f->s->stage.used, 0);
	assert_null(f->s->all);
	close_port(f);
}

static void death__kill_while_stuck(void **state)
{
	death(CHILD_STUCK, SIGKILL, -ECONNREFUSED);
	(void)state;
}

static void death__kill_while_serving(void **state)
{
	death(CHILD_SERVE, SIGKILL, -ECONNREFUSED);
	(void)state;
}

static void death__close_while_stuck(void **state)
{
	death(CHILD_STUCK, 0, -ECONNREFUSED);
	(void)state;
}

static void death__close_after_serving(void **state)
{
	death(CHILD_SERVE, 0, -ECONNREFUSED);
	(void)state;
}

/* Stopped, not dead: silence counts only after dead_after. */
static void death__stopped(void **state)
{
	struct link_addr to = addr_of(1), self = addr_of(2);
	struct child c = child_start(CHILD_STUCK, &to);
	struct fake *f = calloc(1, sizeof(*f));
	uint64_t n, t0 = clk_now_ns(NULL);

	f->room.dead_after_ns = 700 * NS_PER_MS;
	assert_int_equal(fake_open(f, &self), 0);
	kill(c.pid, SIGSTOP);
	n = fill(f, &to);
	while (clk_now_ns(NULL) - t0 < 500 * NS_PER_MS) {
		fake_poll(f);
		/* unless we stood in line for a CPU that long */
		assert_true(!f->sent_cnt || clk_now_ns(NULL) - t0 > f->room.dead_after_ns);
	}
	wait_sent(f, n);
	assert_int_equal(f->sent_bad, n);
	assert_int_equal(f->peers[0].dead, -ETIMEDOUT);
	kill(c.pid, SIGCONT);
	assert_int_equal(child_end(&c, 0), 0);
	close_port(f);
	(void)state;
}

/* A sender that dies: what it had sent is delivered, then its lane is free again. */
static void death__of_a_sender(void **state)
{
	struct fake *f = open_port(1);
	struct link_addr to = addr_of(1), at = addr_of(2);
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	pid_t pid = unit_fork();

	if (!pid) {
		struct fake *g = calloc(1, sizeof(*g));
		uint64_t x = 1;

		if (fake_open(g, &at))
			_exit(1);
		for (int i = 0; i < 50; i++)
			fake_send(g, &to, &x, 8, &x);
		while (g->sent_cnt < 50)
			fake_poll(g);
		for (int i = 0; i < 50; i++)
			fake_send(g, &to, &x, 8, &x);
		_exit(0);
	}
	while (waitpid(pid, NULL, WNOHANG) == 0)
		if (f->rx_cnt < 50)
			fake_poll(f);
	while ((f->s->rx_cnt || f->s->all) && clk_now_ns(NULL) < end)
		fake_poll(f);
	assert_int_equal(f->rx_cnt, 100);
	assert_int_equal(f->s->rx_cnt, 0);
	assert_null(f->s->all);
	assert_int_equal(f->peers[0].dead, -ECONNREFUSED);
	close_port(f);
	(void)state;
}

/* RAW: frames may get lost, peers are never declared dead; the next incarnation is found. */
static void death__raw(void **state)
{
	struct link_addr to = addr_of(1), self = addr_of(2);
	struct child c = child_start(CHILD_SERVE, &to);
	struct fake *f = calloc(1, sizeof(*f));
	uint64_t x = 1, end = clk_now_ns(NULL) + DEADLINE_NS;

	to.nonce = 0;
	f->is_raw = true;
	assert_int_equal(fake_open(f, &self), 0);
	assert_int_equal(fake_send(f, &to, &x, 8, NULL), 0);
	child_end(&c, SIGKILL);
	while (f->peers[0].shm && clk_now_ns(NULL) < end)
		fake_poll(f);
	assert_null(f->peers[0].shm);
	assert_int_equal(f->peers[0].dead, 0);
	assert_int_equal(fake_send(f, &to, &x, 8, NULL), -ENOENT);
	to = addr_of(1);
	to.nonce = 77;
	c = child_start(CHILD_SERVE, &to);
	to.nonce = 0;
	assert_int_equal(fake_send(f, &to, &x, 8, NULL), 0);
	assert_int_equal(child_end(&c, 0), 0);
	close_port(f);
	(void)state;
}

/* --- probes --- */

static void shm_peer__cma_and_polling(void **state)
{
	struct link_addr to = addr_of(1);
	struct child c = child_start(CHILD_STUCK, &to);
	struct fake *f = open_port(2);
	struct link_peer *peer = fake_peer(f, &to);
	uint64_t x = 1, t;
	struct shm_peer *sp;

	assert_int_equal(fake_send(f, &to, &x, 8, &x), 0);
	sp = peer->shm;
	assert_int_equal(shm_peer_pid(sp), c.pid);
	assert_int_equal(shm_peer_node(sp), 0x1d);
	if (!shm_peer_cma_ok(sp))
		print_message(
			"process_vm_readv() is not allowed here: only its absence is tested\n");
	else
		assert_true(shm_peer_cma_ok(sp));
	sp->cma = SHM_CMA_UNKNOWN;
	sp->seg->peer_pid = getpid(); /* as if the number meant another process */
	assert_false(shm_peer_cma_ok(sp));
	assert_false(shm_peer_cma_ok(sp));
	f->node.clk.virt_ns = &f->virt_ns;
	for (t = 1; t < 20; t++) {
		f->virt_ns = NS_PER_SEC + t * 10 * NS_PER_US;
		assert_false(shm_peer_is_polling(sp));
	}
	for (; t < 40; t++) {
		f->virt_ns = NS_PER_SEC + t * 10 * NS_PER_US;
		atomic_fetch_add(&sp->seg->hdr->epoch, 1);
		if (t >= 22) /* it looks every 20 us */
			assert_true(shm_peer_is_polling(sp));
	}
	for (; t < 60; t++) {
		f->virt_ns = NS_PER_SEC + t * 10 * NS_PER_US;
		if (t >= 48) /* and believes what it saw for 50 */
			assert_false(shm_peer_is_polling(sp));
		else
			shm_peer_is_polling(sp);
	}
	assert_int_equal(child_end(&c, 0), 0);
	close_port(f);
	(void)state;
}

/* --- memory --- */

static void shm_port_open__alloc_fail(void **state)
{
	int64_t live = mem_live_count();
	int rc = -ENOMEM;

	for (uint64_t n = 1; rc; n++) {
		struct fake *f = calloc(1, sizeof(*f));
		struct link_addr at = addr_of(1), to = addr_of(1);
		uint8_t buf[2000] = {0};

		mem_fail_nth(n);
		rc = fake_open(f, &at);
		if (!rc) {
			rc = fake_send(f, &to, buf, sizeof(buf), buf);
			mem_fail_nth(0);
			assert_true(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
			fake_close(f);
		} else {
			assert_int_equal(rc, -ENOMEM);
		}
		assert_int_equal(mem_live_count(), live);
		free(f);
	}
	(void)state;
}

#define RANKS 64

/* All ranks to all, with a small /dev/shm: every frame arrives, nobody dies of SIGBUS. */
static int all_to_all(void)
{
	static struct fake *f[RANKS];
	static uint8_t buf[9000];
	uint64_t want = (uint64_t)RANKS * (RANKS - 1) * 4, end = clk_now_ns(NULL) + 60 * NS_PER_SEC,
		 got;
	uint32_t shared = 0;

	for (uint16_t i = 0; i < RANKS; i++) {
		struct link_addr at = addr_of(100 + i);

		f[i] = calloc(1, sizeof(**f));
		if (fake_open(f[i], &at))
			return 2;
	}
	for (int round = 0; round < 4; round++)
		for (uint16_t i = 0; i < RANKS; i++)
			for (uint16_t k = 0; k < RANKS; k++) {
				struct link_addr to = addr_of(100 + k);

				while (i != k && fake_send(f[i], &to, buf,
							   round % 2 ? sizeof(buf) : 8, buf)) {
					if (clk_now_ns(NULL) > end)
						return 3;
					for (uint16_t j = 0; j < RANKS; j++)
						fake_poll(f[j]);
				}
			}
	do {
		got = 0;
		for (uint16_t j = 0; j < RANKS; j++) {
			fake_poll(f[j]);
			got += f[j]->sent_cnt;
		}
	} while (got < want && clk_now_ns(NULL) < end);
	for (uint16_t j = 0; j < RANKS; j++) {
		for (struct shm_peer *sp = f[j]->s->all; sp; sp = sp->all_next)
			shared += sp->tx_mode == SHM_TX_SHARED;
		if (f[j]->sent_bad || f[j]->rx_cnt != 4 * (RANKS - 1))
			return 4;
	}
	for (uint16_t j = 0; j < RANKS; j++)
		fake_close(f[j]);
	print_message("%u of %u pairs through shared lanes\n", shared, RANKS * (RANKS - 1));
	return got == want ? 0 : 5;
}

/* In a mount namespace of its own, with a /dev/shm of @size, run @fn. */
static void with_small_shm(const char *size, int (*fn)(void))
{
	char opt[32];
	int status;
	pid_t pid;

	snprintf(opt, sizeof(opt), "size=%s", size);
	pid = unit_fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
		    mount("tmpfs", "/dev/shm", "tmpfs", 0, opt))
			_exit(77);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("needs the right to mount a tmpfs\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void space__all_to_all_in_64_mb(void **state)
{
	with_small_shm("64m", all_to_all);
	(void)state;
}

/* Full from the outside after the ports are open: lanes and arenas are refused by the kernel, not
 * by the budget. */
static int full_behind_our_back(void)
{
	struct link_addr a1 = addr_of(1), a2 = addr_of(2);
	struct fake *f, *g;
	static uint8_t buf[9000];
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	int fd;

	f = open_at(&a1, 1 << 30);
	g = open_at(&a2, 1 << 30);
	fd = open("/dev/shm/filler", O_RDWR | O_CREAT, 0600);
	for (off_t off = 0; posix_fallocate(fd, off, 4096) == 0; off += 4096)
		;
	f->room.shm_budget = g->room.shm_budget = 0; /* 25 % of nothing */
	for (int i = 0; i < 200; i++)
		while (fake_send(f, &a2, buf, i % 2 ? 8 : sizeof(buf), buf)) {
			fake_poll(g);
			fake_poll(f);
			if (clk_now_ns(NULL) > end)
				return 2;
		}
	while (f->sent_cnt < 200 && clk_now_ns(NULL) < end) {
		fake_poll(g);
		fake_poll(f);
	}
	return f->sent_cnt == 200 && g->rx_cnt == 200 && !f->sent_bad ? 0 : 3;
}

static void space__full_in_mid_run(void **state)
{
	with_small_shm("2m", full_behind_our_back);
	(void)state;
}

static int no_room_at_all(void)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct link_addr at = addr_of(1);
	int rc = fake_open(f, &at);

	free(f);
	return rc == -ENOSPC && system("test -z \"$(ls /dev/shm)\"") == 0 ? 0 : 1;
}

static void space__none(void **state)
{
	with_small_shm("16k", no_room_at_all);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shm_seg__file),
		cmocka_unit_test(shm_seg__live_owner_elsewhere),
		cmocka_unit_test(shm_seg__forked_child_leaves_all_alone),
		cmocka_unit_test(shm_seg__fork_beside_a_busy_thread),
		cmocka_unit_test(shm_seg__wrong_names),
		cmocka_unit_test(shm_seg__hostile_headers),
		cmocka_unit_test(death__kill_while_stuck),
		cmocka_unit_test(death__kill_while_serving),
		cmocka_unit_test(death__close_while_stuck),
		cmocka_unit_test(death__close_after_serving),
		cmocka_unit_test(death__stopped),
		cmocka_unit_test(death__of_a_sender),
		cmocka_unit_test(death__raw),
		cmocka_unit_test(shm_peer__cma_and_polling),
		cmocka_unit_test(shm_port_open__alloc_fail),
		cmocka_unit_test(space__all_to_all_in_64_mb),
		cmocka_unit_test(space__full_in_mid_run),
		cmocka_unit_test(space__none),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
