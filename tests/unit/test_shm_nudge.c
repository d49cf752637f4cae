// SPDX-License-Identifier: BSD-2-Clause
// Peers that take nothing are nudged, by an eventfd whose number their segment has.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "shm_child.h"

#define WAIT_NS  (250 * NS_PER_US) /* before the first nudge, */
#define AGAIN_NS (4 * NS_PER_MS)   /* and between two, */
#define LATER_NS (64 * NS_PER_MS)  /* which doubles up to that */
#define T0       NS_PER_SEC

struct pair {
	struct fake *a, *b;
	struct link_addr to;
	int event; /* b's */
};

static struct pair pair_open(void)
{
	struct pair p = {.a = open_port(1), .b = open_port(2), .to = addr_of(2)};

	p.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_true(p.event >= 0);
	shm_port_set_nudge(p.b->s, p.event);
	return p;
}

static void pair_close(struct pair *p)
{
	close(p->event);
	close_port(p->a);
	close_port(p->b);
}

/* Nudges since the last call. */
static uint32_t nudges(const struct pair *p)
{
	eventfd_t cnt;

	if (eventfd_read(p->event, &cnt))
		return 0;
	assert_int_equal(cnt % SHM_NUDGE, 0);
	return (uint32_t)(cnt / SHM_NUDGE);
}

static void pair_send(struct pair *p, void *cookie)
{
	uint64_t x = 7;

	assert_int_equal(fake_send(p->a, &p->to, &x, sizeof(x), cookie), 0);
}

/* From when a frame lies there untaken, which has to be seen once. */
static void waits_and_nudges(struct pair *p, uint64_t at)
{
	shm_nudge(p->a->s, at);
	shm_nudge(p->a->s, at + WAIT_NS - 1);
	assert_int_equal(nudges(p), 0);
	shm_nudge(p->a->s, at + WAIT_NS);
	assert_int_equal(nudges(p), 1);
}

static int fd_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void nudge__while_nothing_is_taken(void **state)
{
	struct pair p = pair_open();
	uint64_t t = T0 + WAIT_NS;
	int fd = fd_free();

	(void)state;
	pair_send(&p, &p);
	waits_and_nudges(&p, T0);
	for (uint64_t gap = AGAIN_NS, i = 0; i < 8; i++, gap = MIN(2 * gap, LATER_NS)) {
		shm_nudge(p.a->s, t + gap - 1);
		assert_int_equal(nudges(&p), 0);
		shm_nudge(p.a->s, t += gap);
		assert_int_equal(nudges(&p), 1);
	}
	assert_int_equal(fd_free(), fd); /* what was lent has been given back */
	t += LATER_NS;
	assert_int_equal(fake_poll(p.b), 1); /* taken, which nobody has said yet */
	shm_nudge(p.a->s, t + 2 * AGAIN_NS);
	assert_int_equal(nudges(&p), 0);
	assert_true(fake_poll(p.a) >= 1); /* what the look has found is told */
	assert_int_equal(p.a->sent_cnt, 1);
	shm_nudge(p.a->s, t + 9 * AGAIN_NS);
	assert_int_equal(nudges(&p), 0);
	/* the next one waits for its own time, and the pause behind its nudge is the short one again */
	pair_send(&p, &p);
	waits_and_nudges(&p, T0 + 9 * NS_PER_SEC);
	shm_nudge(p.a->s, T0 + 9 * NS_PER_SEC + WAIT_NS + AGAIN_NS);
	assert_int_equal(nudges(&p), 1);
	pair_close(&p);
}

/* Frames that nobody is told of are not remembered, but for the peer of the last one. */
static void without_a_cookie(uint64_t budget)
{
	struct pair p = pair_open();

	p.a->room.shm_budget = budget;
	pair_send(&p, NULL);
	assert_null(p.a->s->busy);
	assert_int_equal(p.a->peers[0].shm->tx_mode, budget ? SHM_TX_SHARED : SHM_TX_OWN);
	waits_and_nudges(&p, T0);
	assert_int_equal(fake_poll(p.b), 1);
	shm_nudge(p.a->s, T0 + WAIT_NS + AGAIN_NS);
	shm_nudge(p.a->s, T0 + WAIT_NS + 3 * AGAIN_NS);
	assert_int_equal(nudges(&p), 0);
	close_port(p.b); /* and nobody is left to be nudged */
	shm_peer_detach(p.a->peers[0].shm);
	assert_null(p.a->s->last);
	p.b = open_port(2);
	pair_close(&p);
}

static void nudge__of_frames_without_a_cookie(void **state)
{
	(void)state;
	without_a_cookie(0);
	without_a_cookie(1); /* which leaves room for no lane of its own */
}

/* Who goes on taking frames, however slowly, is left alone. */
static void nudge__not_who_takes_some(void **state)
{
	struct pair p = pair_open();

	(void)state;
	for (uint64_t i = 0; i < 20; i++) {
		pair_send(&p, &p);
		pair_send(&p, &p);
		shm_nudge(p.a->s, T0 + i * 2 * (WAIT_NS - 1));
		assert_int_equal(shm_poll(p.b->s, 1), 1);
		shm_nudge(p.a->s, T0 + (i * 2 + 1) * (WAIT_NS - 1));
		assert_int_equal(nudges(&p), 0);
	}
	pair_close(&p);
}

/* Who sleeps has been rung for. */
static void nudge__not_who_sleeps(void **state)
{
	struct pair p = pair_open();

	(void)state;
	pair_send(&p, &p);
	assert_int_equal(fake_poll(p.b), 1);
	fake_poll(p.b);
	fake_poll(p.a);
	pair_send(&p, &p);
	atomic_fetch_or(&p.b->s->hdr->state, SHM_ST_SLEEPING);
	for (uint64_t t = T0; t < T0 + 20 * NS_PER_MS; t += NS_PER_MS)
		shm_nudge(p.a->s, t);
	assert_int_equal(nudges(&p), 0);
	atomic_fetch_and(&p.b->s->hdr->state, ~SHM_ST_SLEEPING);
	waits_and_nudges(&p, T0 + NS_PER_SEC);
	pair_close(&p);
}

/* Does another process see that the owner of @seg lives? */
static bool child_finds_alive(const struct shm_seg *seg)
{
	pid_t pid = unit_fork();
	int status;

	if (!pid) {
		int fd = open(seg->path, O_RDWR);
		struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

		_exit(fd >= 0 && !fcntl(fd, F_GETLK, &fl) && fl.l_type != F_UNLCK ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* Who takes a frame just before each nudge is not asked more often than others. */
static void nudge__not_too_often(void **state)
{
	struct pair p = pair_open();
	uint32_t cnt = 0;

	(void)state;
	for (uint64_t t = T0; t < T0 + 10 * AGAIN_NS; t += WAIT_NS + WAIT_NS / 2) {
		pair_send(&p, &p);
		shm_nudge(p.a->s, t);
		shm_nudge(p.a->s, t + WAIT_NS);
		cnt += nudges(&p);
		assert_int_equal(fake_poll(p.b), 1);
		fake_poll(p.a);
		shm_nudge(p.a->s, t + WAIT_NS + 1);
	}
	assert_in_range(cnt, 5, 11);
	pair_close(&p);
}

/* Numbers of no eventfd, and of none at all. */
static void nudge__nothing_else_is_written_to(void **state)
{
	struct pair p = pair_open();
	uint64_t t = T0;
	int fds[2], bytes, event;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pair_send(&p, &p);
	waits_and_nudges(&p, t);
	static const int nobody[] = {-1, -2, 1000000, INT32_MAX - 1};
	for (size_t i = 0; i < ARRAY_SIZE(nobody); i++) {
		shm_port_set_nudge(p.b->s, nobody[i]);
		shm_nudge(p.a->s, t += NS_PER_SEC);
	}
	shm_port_set_nudge(p.b->s, fds[1]);
	shm_nudge(p.a->s, t += NS_PER_SEC);
	assert_int_equal(ioctl(fds[0], FIONREAD, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(nudges(&p), 0);
	event = eventfd(0, EFD_CLOEXEC); /* whose writer might wait */
	shm_port_set_nudge(p.b->s, event);
	shm_nudge(p.a->s, t += NS_PER_SEC);
	assert_false(fcntl(event, F_SETFL, O_NONBLOCK));
	assert_int_equal(eventfd_read(event, &(eventfd_t){0}), -1);
	close(event);
	/* a file: its locks stay, though it was lent */
	shm_port_set_nudge(p.b->s, p.b->s->seg->fd);
	shm_nudge(p.a->s, t += NS_PER_SEC);
	assert_true(child_finds_alive(p.b->s->seg));
	shm_port_set_nudge(p.b->s, p.event);
	shm_nudge(p.a->s, t + NS_PER_SEC);
	assert_int_equal(nudges(&p), 1);
	close(fds[0]);
	close(fds[1]);
	pair_close(&p);
}

/* Owns port 3 until it is nudged, says so, and then waits for its end. */
static void sleeper_main(const struct link_addr *at, int out)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct pollfd p = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
	eventfd_t cnt;

	alarm((unsigned)(3 * DEADLINE_NS / NS_PER_SEC));
	if (!f || p.fd < 0 || fake_open(f, at))
		_exit(1);
	shm_port_set_nudge(f->s, p.fd);
	if (write(out, "r", 1) != 1 || poll(&p, 1, -1) != 1 || eventfd_read(p.fd, &cnt) || cnt != SHM_NUDGE ||
	    write(out, "n", 1) != 1)
		_exit(1);
	pause();
	_exit(1);
}

/* What the child says next; 0: nothing in time, or it has ended. */
static char heard(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char c = 0;

	return poll(&p, 1, (int)(DEADLINE_NS / NS_PER_MS)) == 1 && read(fd, &c, 1) == 1 ? c : 0;
}

static void nudge__another_process(void **state)
{
	struct fake *f = open_port(1);
	struct link_addr at = addr_of(3);
	uint64_t x = 7;
	int out[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(out), 0);
	pid = unit_fork();
	if (!pid)
		sleeper_main(&at, out[1]);
	close(out[1]);
	assert_int_equal(heard(out[0]), 'r');
	assert_int_equal(fake_send(f, &at, &x, sizeof(x), &x), 0);
	shm_nudge(f->s, T0);
	shm_nudge(f->s, T0 + WAIT_NS);
	if (!f->peers[0].shm->is_deaf && shm_peer_cma_ok(f->peers[0].shm)) /* else a sandbox forbids it */
		assert_int_equal(heard(out[0]), 'n');
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	/* the number of one that has ended means nothing, and the next one must not crash */
	shm_nudge(f->s, T0 + NS_PER_SEC);
	close(out[0]);
	close_port(f);
	close_port(open_port(1)); /* which removes what the child has left */
}

/* A sandbox, or an emulator, may have none of it, also of oneself. */
static bool is_permitted(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0), fd = -1;
	char from = 1, to = 0;
	struct iovec local = {&to, 1}, remote = {&from, 1};

	if (pidfd < 0)
		return false;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, pidfd, 0);
	close(pidfd);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nudge__while_nothing_is_taken),
		cmocka_unit_test(nudge__of_frames_without_a_cookie),
		cmocka_unit_test(nudge__not_who_takes_some),
		cmocka_unit_test(nudge__not_who_sleeps),
		cmocka_unit_test(nudge__not_too_often),
		cmocka_unit_test(nudge__nothing_else_is_written_to),
		cmocka_unit_test(nudge__another_process),
	};

	if (!is_permitted())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
