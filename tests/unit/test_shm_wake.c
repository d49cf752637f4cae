// SPDX-License-Identifier: BSD-2-Clause
// The doorbell: one byte per sleep, and no wake-up is ever lost.
#include "unit.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "shm_fake.h"

#define SLEEPS_WANTED 5000u /* of one process; the environment's SLEEPS= overrules it */
#define LOST_MS	      5000

static struct link_addr addr_of(uint16_t port)
{
	return fake_addr((uint32_t)getpid(), port, 1000u + port);
}

static struct fake *open_port(uint16_t port)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct link_addr a = addr_of(port);

	assert_non_null(f);
	assert_int_equal(fake_open(f, &a), 0);
	return f;
}

static void close_port(struct fake *f)
{
	fake_close(f);
	free(f);
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void shm_arm__one_byte_per_sleep(void **state)
{
	struct fake *a = open_port(1), *b = open_port(2);
	struct link_addr to = addr_of(2);
	uint64_t x = 1;
	int fd = shm_wait_fd(b->s), bytes;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fd, shm_wait_fd(b->s));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & (S_IFMT | 0777), S_IFIFO | 0600);
	for (uint64_t i = 1; i <= 100; i++) {
		assert_int_equal(shm_arm(b->s), 0);
		assert_false(is_readable(fd));
		for (int k = 0; k < 3; k++)
			assert_int_equal(fake_send(a, &to, &x, 8, NULL), 0);
		assert_true(is_readable(fd));
		assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
		assert_int_equal(bytes, 1);
		assert_int_equal(a->port.stats.wakeups_tx, i);
		assert_false(shm_is_armed(b->s));
		shm_disarm(b->s);
		assert_false(is_readable(fd));
		assert_int_equal(shm_arm(b->s), -EAGAIN); /* there is work */
		assert_int_equal(fake_send(a, &to, &x, 8, NULL), 0);
		assert_int_equal(a->port.stats.wakeups_tx, i); /* nobody sleeps */
		assert_int_equal(fake_poll(b), 4);
	}
	close_port(a);
	close_port(b);
	(void)state;
}

/* A sleeper that waits for its frames to be taken is woken when they are; one that does not is left
 * alone. */
static void shm_arm__acknowledgements_wake(void **state)
{
	struct fake *a = open_port(1), *b = open_port(2);
	struct link_addr to = addr_of(2);
	uint64_t x = 1;
	int fd = shm_wait_fd(a->s);

	assert_int_equal(fake_send(a, &to, &x, 8, NULL), 0);
	assert_int_equal(shm_arm(a->s), 0);
	while (fake_poll(b) || b->rx_cnt == 0)
		;
	fake_poll(b);
	assert_false(is_readable(fd));
	shm_disarm(a->s);
	assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
	assert_int_equal(shm_arm(a->s), 0);
	assert_int_equal(fake_poll(b), 1);
	assert_false(is_readable(fd)); /* an answer may follow and wake it anyway */
	fake_poll(b);
	assert_true(is_readable(fd));
	shm_disarm(a->s);
	assert_int_equal(shm_arm(a->s), -EAGAIN);
	assert_int_equal(fake_poll(a), 1);
	assert_int_equal(a->sent_cnt, 1);
	/* the receiver goes to sleep before its idle pass: the same */
	assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
	assert_int_equal(shm_arm(a->s), 0);
	assert_int_equal(fake_poll(b), 1);
	assert_int_equal(shm_arm(b->s), 0);
	assert_true(is_readable(fd));
	close_port(a);
	close_port(b);
	(void)state;
}

/* What a frame says of frames of ours that have ended before is no reason to stay awake. */
static void shm_arm__acknowledged_already(void **state)
{
	struct fake *a = open_port(1), *b = open_port(2);
	struct link_addr to_a = addr_of(1), to_b = addr_of(2);
	uint64_t x = 1;

	for (uint64_t i = 1; i <= 4; i++) { /* the first ones take the shared lane */
		assert_int_equal(fake_send(a, &to_b, &x, 8, &x), 0);
		while (b->rx_cnt < i)
			fake_poll(b);
		while (a->sent_cnt < i)
			fake_poll(a);
		assert_int_equal(fake_send(b, &to_a, &x, 8, NULL), 0);
		while (a->rx_cnt < i)
			fake_poll(a);
		while (fake_poll(a))
			;
		assert_int_equal(shm_arm(a->s), 0);
		shm_disarm(a->s);
	}
	close_port(a);
	close_port(b);
	(void)state;
}

/*
 * A second sleeper on the same bell drains the first one's byte only when what it told of has been taken, and puts the
 * bell up again.
 */
static void shm_arm__two_sleepers(void **state)
{
	struct fake *a = open_port(1), *b = open_port(2);
	struct link_addr to = addr_of(2);
	uint64_t x = 1;
	int fd = shm_wait_fd(b->s);

	assert_int_equal(shm_arm(b->s), 0);
	assert_int_equal(shm_arm(b->s), 0);
	assert_int_equal(fake_send(a, &to, &x, 8, NULL), 0);
	assert_int_equal(shm_arm(b->s), -EAGAIN);
	assert_true(is_readable(fd));
	assert_int_equal(fake_poll(b), 1);
	assert_true(is_readable(fd)); /* of no concern to a poll */
	assert_int_equal(shm_arm(b->s), 0);
	assert_false(is_readable(fd));
	assert_int_equal(fake_send(a, &to, &x, 8, NULL), 0);
	assert_true(is_readable(fd));
	assert_int_equal(a->port.stats.wakeups_tx, 2);
	close_port(a);
	close_port(b);
	(void)state;
}

/* --- stress: two processes, every message finds a sleeper, or just not
 * ----------------------------------------------- */

struct ball {
	struct fake *f;
	struct link_addr to;
	struct rng rng;
	uint32_t sleeps;
	bool is_last; /* the first player has had enough */
};

/* Wait for message @want by sleeping, with a random delay before it so that all interleavings
 * happen. */
static bool wait_for(struct ball *b, uint64_t want)
{
	struct pollfd p = {.fd = shm_wait_fd(b->f->s), .events = POLLIN};

	while (b->f->rx_cnt < want) {
		if (shm_poll(b->f->s, 64))
			continue;
		for (volatile uint64_t spin = rng_below(&b->rng, 100); spin; spin--)
			;
		if (shm_arm(b->f->s))
			continue;
		b->sleeps++;
		if (poll(&p, 1, LOST_MS) == 0)
			return false;
		shm_disarm(b->f->s);
	}
	return true;
}

static int on_ball(struct fake *f, struct link_peer *peer, enum link_kind kind,
		   const struct view *v)
{
	struct ball *b = f->ctx;

	view_copy(v, 0, &b->is_last, 1);
	(void)peer;
	(void)kind;
	return 0;
}

/*
 * Delays of the order of what arming takes: messages arrive before, in and after it. Large ones
 * keep the sender's store buffer full, so that its look at the receiver's state overtakes the
 * publishing store: without the barriers this loses wake-ups.
 */
static bool play(struct ball *b, uint32_t sleeps, bool is_first)
{
	static uint8_t buf[9000];

	for (uint64_t i = 1; !b->is_last; i++) {
		bool is_last = is_first && b->sleeps >= sleeps;

		if (!is_first && !wait_for(b, i))
			return false;
		is_last |= b->is_last;
		for (volatile uint64_t spin = rng_below(&b->rng, 40000); spin; spin--)
			;
		buf[0] = is_last;
		while (fake_send(b->f, &b->to, buf, rng_chance(&b->rng, 0.3) ? 1 : sizeof(buf),
				 rng_chance(&b->rng, 0.5) ? b : NULL))
			shm_poll(b->f->s, 64);
		if (is_first && !wait_for(b, i))
			return false;
	}
	return true;
}

static void stress(bool no_membarrier)
{
	const char *seed = getenv("SEED"), *env = getenv("SLEEPS");
	struct link_addr at[2] = {addr_of(1), addr_of(2)};
	struct ball b = {0};
	int up[2], status;
	uint32_t sleeps = env ? (uint32_t)strtoul(env, NULL, 0) : SLEEPS_WANTED, other = 0;
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe(up), 0);
	pid = unit_fork();
	b.f = calloc(1, sizeof(*b.f));
	b.f->ctx = &b;
	b.f->on_frame = on_ball;
	rng_seed(&b.rng, (seed ? strtoull(seed, NULL, 0) : 7) + !pid);
	b.to = at[pid != 0];
	if (fake_open(b.f, &at[pid == 0]))
		_exit(2);
	if (no_membarrier) {
		b.f->s->has_membarrier = false;
		b.f->s->seg->hdr->flags |= SHM_F_FENCE;
	}
	if (!pid) {
		if (write(up[1], &c, 1) != 1 || !play(&b, sleeps, false) ||
		    write(up[1], &b.sleeps, 4) != 4)
			_exit(1);
		while (shm_outstanding(b.f->s))
			fake_poll(b.f);
		fake_close(b.f);
		_exit(b.f->sent_bad != 0);
	}
	assert_true(pid > 0);
	close(up[1]);
	assert_int_equal(read(up[0], &c, 1), 1);
	assert_true(play(&b, sleeps, true));
	assert_int_equal(read(up[0], &other, 4), 4);
	while (waitpid(pid, &status, WNOHANG) == 0)
		fake_poll(b.f);
	assert_int_equal(status, 0);
	close(up[0]);
	print_message("%u sleeps, none lost%s\n", b.sleeps + other,
		      no_membarrier ? ", with fences" : "");
	close_port(b.f);
}

static void stress__membarrier(void **state)
{
	if (!shm_wake_has_membarrier()) {
		print_message("no membarrier(2) here\n");
		skip();
	}
	stress(false);
	(void)state;
}

static void stress__fences(void **state)
{
	stress(true);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shm_arm__one_byte_per_sleep),
		cmocka_unit_test(shm_arm__acknowledgements_wake),
		cmocka_unit_test(shm_arm__acknowledged_already),
		cmocka_unit_test(shm_arm__two_sleepers),
		cmocka_unit_test(stress__membarrier),
		cmocka_unit_test(stress__fences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
