// SPDX-License-Identifier: BSD-2-Clause
// Completion queues of opx: their progress threads, what waits for them, and what a fork leaves.
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kit/compat.h"
#include "opx_objrig.h"

/* --- progress threads ---------------------------------------------------------------------------- */

static bool polled_within(int more, uint64_t ns)
{
	uint64_t until = clk_now_ns(NULL) + ns * unit_slow();
	int from = atomic_load(&g_fake.polls);

	while (atomic_load(&g_fake.polls) < from + more) {
		if (clk_now_ns(NULL) > until)
			return false;
		usleep(100);
	}
	return true;
}

static void thread__drives(void **state)
{
	struct rig r, r2;

	(void)state;
	setenv("FI_OPX_PROG_AFFINITY", "0:0:1", 1);
	fake_open(&dom, hints_auto());
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_false(polled_within(1, 2 * NS_PER_MS)); /* not enabled */
	assert_int_equal(fi_enable(r.ep), 0);
	assert_true(polled_within(20, 10 * NS_PER_SEC));
	lock_acquire(&fake_domain(&dom)->kit.lock);
	assert_string_equal(g_fake.thread, "opx-cq0");
	assert_true(g_fake.sigmask_blocked & 1 << 2);  /* SIGINT */
	assert_true(g_fake.sigmask_blocked & 1 << 15); /* SIGTERM */
	assert_int_equal(g_fake.cpus, 1);
	lock_release(&fake_domain(&dom)->kit.lock);
	rig_open(&r2, true, FI_TRANSMIT | FI_RECV); /* one thread per queue */
	rig_close(&r);
	assert_int_equal(fi_enable(r2.ep), 0);
	assert_true(polled_within(20, 10 * NS_PER_SEC));
	lock_acquire(&fake_domain(&dom)->kit.lock);
	assert_string_equal(g_fake.thread, "opx-cq1");
	lock_release(&fake_domain(&dom)->kit.lock);
	rig_close(&r2);
	assert_false(polled_within(1, 2 * NS_PER_MS));
	fake_close(&dom);
}

/* A long interval is kept, and does not delay the close. */
static void thread__interval(void **state)
{
	uint64_t begin;
	struct rig r;
	int polls;

	(void)state;
	setenv("FI_OPX_AUTO_PROGRESS_INTERVAL_USEC", "100000000", 1);
	fake_open(&dom, hints_auto());
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	polls = atomic_load(&g_fake.polls);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_false(polled_within(2, 70 * NS_PER_MS));
	assert_in_range(atomic_load(&g_fake.polls) - polls, 0, 1); /* one before the first interval */
	begin = clk_now_ns(NULL);
	rig_close(&r);
	assert_true(clk_now_ns(NULL) - begin < 5 * NS_PER_SEC * unit_slow());
	fake_close(&dom);
}

/* far more than a thread makes that sleeps between them, far fewer than one that does not; load only lowers them */
#define POLLS_PER_MS 4

/* A thread for which there is nothing to do does next to nothing. */
static void thread__sleeps_while_nothing_comes(void **state)
{
	uint64_t begin;
	struct rig r;
	int from;

	(void)state;
	fake_open(&dom, hints_auto());
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_true(polled_within(20, 10 * NS_PER_SEC));
	begin = clk_now_ns(NULL);
	from = atomic_load(&g_fake.polls);
	usleep(100000);
	assert_true((uint64_t)(atomic_load(&g_fake.polls) - from) <=
		    50 + POLLS_PER_MS * (clk_now_ns(NULL) - begin) / NS_PER_MS);
	assert_true(polled_within(1, 10 * NS_PER_SEC));
	rig_close(&r);
	fake_close(&dom);
}

/* While what it has armed stands, nothing has come: it looks at that, no further. */
static void thread__does_not_poll_while_armed(void **state)
{
	struct rig r;
	eventfd_t n;

	(void)state;
	g_fake.wait_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(g_fake.wait_fd > 0);
	fake_open(&dom, hints_auto());
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_true(atomic_load(&g_fake.polls) || polled_within(1, 10 * NS_PER_SEC));
	while (polled_within(1, 50 * NS_PER_MS))
		; /* until it dozes; with a poll after each doze there would be about 90 */
	assert_true(atomic_load(&g_fake.polls) <= 40);
	assert_int_equal(eventfd_write(g_fake.wait_fd, 1), 0);
	assert_true(polled_within(1, 10 * NS_PER_SEC));
	assert_int_equal(eventfd_read(g_fake.wait_fd, &n), 0);
	rig_close(&r);
	fake_close(&dom);
	close(g_fake.wait_fd);
	g_fake.wait_fd = 0;
}

/* An application that polls needs no help: the thread would only take the lock, and the core, from it. */
static void thread__leaves_a_polling_application_alone(void **state)
{
	uint64_t begin, now;
	int from, own = 0;
	struct rig r;

	(void)state;
	fake_open(&dom, hints_auto());
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_true(polled_within(1, 10 * NS_PER_SEC));
	begin = clk_now_ns(NULL);
	from = atomic_load(&g_fake.polls);
	do {
		assert_int_equal(fi_cq_read(r.cq, NULL, 0), -FI_EAGAIN);
		own++;
		now = clk_now_ns(NULL);
	} while (now - begin < 100 * NS_PER_MS);
	assert_true((uint64_t)(atomic_load(&g_fake.polls) - from - own) <=
		    50 + POLLS_PER_MS * (now - begin) / NS_PER_MS);
	assert_true(polled_within(20, 10 * NS_PER_SEC)); /* which stops */
	rig_close(&r);
	fake_close(&dom);
}

/* Of queues, by their names. */
static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		char path[300], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		n += fgets(name, sizeof(name), f) && !strncmp(name, "opx-cq", 6);
		fclose(f);
	}
	closedir(d);
	return n;
}

/* The kernel may list a thread for a moment after it was joined. */
static bool threads_become(int cnt)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;

	while (threads() != cnt) {
		if (clk_now_ns(NULL) > until)
			return false;
		usleep(1000);
	}
	return true;
}

/* Of two domains at once only the one that asked for it has threads, as many as it has queues. */
static void thread__by_domain(void **state)
{
	struct fi_cq_attr attr = {0};
	struct fake_dom manual;
	struct fid_cq *cq[3];

	(void)state;
	assert_true(threads_become(0)); /* those of earlier tests */
	fake_open(&dom, hints_auto());
	fake_open(&manual, NULL);
	assert_int_equal(fi_cq_open(manual.domain, &attr, &cq[0], NULL), 0);
	assert_int_equal(threads(), 0);
	assert_int_equal(fi_cq_open(dom.domain, &attr, &cq[1], NULL), 0);
	assert_int_equal(threads(), 1);
	assert_int_equal(fi_cq_open(dom.domain, &attr, &cq[2], NULL), 0);
	assert_int_equal(threads(), 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_close(&cq[i]->fid), 0);
	assert_true(threads_become(0));
	fake_close(&manual);
	fake_close(&dom);
}

static void thread__none_with_manual(void **state)
{
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_false(polled_within(1, 5 * NS_PER_MS));
	assert_int_equal(fi_cq_read(r.cq, NULL, 0), -FI_EAGAIN);
	assert_int_equal(g_fake.polls, 1);
	rig_close(&r);
	fake_close(&dom);
}

/* --- waits --------------------------------------------------------------------------------------- */

/* An endpoint with a queue that sleeps on @obj. */
static void waiter_open(struct rig *r, enum fi_wait_obj obj)
{
	struct fi_cq_attr attr = {.wait_obj = obj};
	struct fi_av_attr av = {0};

	g_fake.wait_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(g_fake.wait_fd > 0);
	fake_open(&dom, NULL);
	*r = (struct rig){0};
	assert_int_equal(fi_av_open(dom.domain, &av, &r->av, NULL), 0);
	assert_int_equal(fi_cq_open(dom.domain, &attr, &r->cq, NULL), 0);
	assert_int_equal(fi_endpoint(dom.domain, dom.info, &r->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(r->ep, &r->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(r->ep), 0);
}

static void waiter_close(struct rig *r)
{
	rig_close(r);
	fake_close(&dom);
	close(g_fake.wait_fd);
	g_fake.wait_fd = 0;
}

static int try_wait(struct rig *r)
{
	struct fid *fids[] = {&r->cq->fid};

	return dom.fabric->ops->trywait(dom.fabric, fids, 1);
}

static bool is_readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* Who waits is woken when the reliability must do something, and not before. */
static void wait__timer(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	waiter_open(&r, FI_WAIT_FD);
	assert_int_equal(fi_control(&r.cq->fid, FI_GETWAIT, &fd), 0);
	assert_int_equal(try_wait(&r), 0);
	assert_false(is_readable(fd, 10));
	g_fake.next_ns = g_fake.now_ns + 1000 * NS_PER_SEC;
	assert_int_equal(try_wait(&r), 0);
	assert_false(is_readable(fd, 10));
	g_fake.next_ns = g_fake.now_ns + 10 * NS_PER_MS; /* earlier than what is set */
	assert_int_equal(try_wait(&r), 0);
	assert_true(is_readable(fd, 10000));
	g_fake.now_ns = g_fake.next_ns;
	assert_int_equal(try_wait(&r), -FI_EAGAIN); /* it is due */
	g_fake.next_ns = g_fake.now_ns + 1000 * NS_PER_SEC;
	assert_int_equal(try_wait(&r), 0);
	assert_false(is_readable(fd, 10));
	g_fake.next_ns = g_fake.now_ns + 10 * NS_PER_MS;
	assert_int_equal(try_wait(&r), 0);
	assert_true(is_readable(fd, 10000));
	g_fake.now_ns = g_fake.next_ns;
	g_fake.next_ns = CLK_NEVER;
	assert_int_equal(try_wait(&r), 0); /* and what was due is forgotten */
	assert_false(is_readable(fd, 10));
	waiter_close(&r);
}

/* A blocking read sleeps while a timer is set: it looks a few times, not all the time. */
static void wait__is_sleep(void **state)
{
	struct fi_cq_entry e;
	struct rig r;
	int polls;

	(void)state;
	waiter_open(&r, FI_WAIT_FD);
	g_fake.next_ns = g_fake.now_ns + 1000 * NS_PER_SEC;
	polls = atomic_load(&g_fake.polls);
	assert_int_equal(fi_cq_sread(r.cq, &e, 1, NULL, 200), -FI_EAGAIN);
	assert_true(atomic_load(&g_fake.polls) - polls < 40);
	waiter_close(&r);
}

/* What waits for room sleeps if its flow tells when to look again; otherwise it is tried all the time. */
static void wait__with_operations(void **state)
{
	struct opx_peer peer = {0};
	struct opx_op op = {.peer = &peer};
	struct opx_ep *ep;
	struct rig r;

	(void)state;
	waiter_open(&r, FI_WAIT_FD);
	ep = opx_ep_of(r.ep);
	TAILQ_INSERT_TAIL(&ep->pump, &op, pump_link);
	assert_int_equal(try_wait(&r), -FI_EAGAIN);
	peer.flow.wants_room = true;
	assert_int_equal(try_wait(&r), 0);
	TAILQ_REMOVE(&ep->pump, &op, pump_link);
	waiter_close(&r);
}

/* Nobody signals a condition variable while nobody makes progress: who waits for it has to, without and with timers. */
static void wait__condition(void **state)
{
	struct rig r;

	(void)state;
	waiter_open(&r, FI_WAIT_MUTEX_COND);
	assert_int_equal(try_wait(&r), -FI_EAGAIN);
	waiter_close(&r);
}

/* --- fork ---------------------------------------------------------------------------------------- */

/* The child has no thread and no adapter: calls fail, closing works. */
static void fork__child_can_close(void **state)
{
	struct fi_cq_tagged_entry e;
	struct rig r;
	int status;
	pid_t pid;

	(void)state;
	fake_open(&dom, hints_auto());
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	pid = unit_fork();
	if (!pid) {
		size_t v = 1;
		bool ok = fi_cq_read(r.cq, &e, 1) == -FI_EIO &&
			  fi_recv(r.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL) == -FI_EIO &&
			  fi_setopt(&r.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, sizeof(v)) == -FI_EIO &&
			  fi_ep_bind(r.ep, &r.av->fid, 0) == -FI_EIO && fi_cancel(&r.ep->fid, NULL) == -FI_EIO &&
			  !fi_close(&r.ep->fid) && !fi_close(&r.cq->fid) && !fi_close(&r.av->fid);

		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rig_close(&r);
	fake_close(&dom);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(thread__drives, setup),
		cmocka_unit_test_setup(thread__interval, setup),
		cmocka_unit_test_setup(thread__sleeps_while_nothing_comes, setup),
		cmocka_unit_test_setup(thread__does_not_poll_while_armed, setup),
		cmocka_unit_test_setup(thread__leaves_a_polling_application_alone, setup),
		cmocka_unit_test_setup(thread__by_domain, setup),
		cmocka_unit_test_setup(thread__none_with_manual, setup),
		cmocka_unit_test_setup(wait__timer, setup),
		cmocka_unit_test_setup(wait__is_sleep, setup),
		cmocka_unit_test_setup(wait__with_operations, setup),
		cmocka_unit_test_setup(wait__condition, setup),
		cmocka_unit_test_setup(fork__child_can_close, setup),
	};

	return cmocka_run_group_tests(tests, fake_group_setup, NULL);
}
