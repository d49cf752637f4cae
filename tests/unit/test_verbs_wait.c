// SPDX-License-Identifier: BSD-2-Clause
// Completion channels: who sleeps is woken, through shared memory and over UDP, whoever took what came.
#include "verbs_end.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void channel__wakes(void **state)
{
	struct pollfd pfd = {.events = POLLIN};
	uint64_t best = UINT64_MAX, begin;
	struct ibv_cq *cq;
	struct end a, b;
	void *context;

	(void)state;
	end_open(&a);
	end_open(&b);
	assert_int_equal(ibv_req_notify_cq(b.cq, 1), EOPNOTSUPP);
	assert_int_equal(fcntl(b.ch->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(b.ch, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	pfd.fd = b.ch->fd;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		begin = clk_now_ns(NULL);
		do
			assert_int_equal(poll(&pfd, 1, 20000), 1);
		while (ibv_get_cq_event(b.ch, &cq, &context) && errno == EAGAIN);
		best = MIN(best, clk_now_ns(NULL) - begin);
		assert_ptr_equal(cq, b.cq);
		assert_ptr_equal(context, &b);
		ibv_ack_cq_events(cq, 1);
		assert_int_equal(wc_get(&b).status, IBV_WC_SUCCESS);
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	}
	print_message("event %.1f us after the send, the best of 20\n", (double)best / 1e3);
	assert_true(best < 10 * NS_PER_MS * unit_slow()); /* less than the naps of whoever looks now and then */
	end_close(&b);
	end_close(&a);
}

/* What ends while the program posts it, or by its change of state, has no peer that would wake the program. */
static void channel__tells_of_what_ends_at_once(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct pollfd pfd = {.events = POLLIN};
	struct ibv_qp *srd, *ud;
	struct ibv_qp_ex *ex;
	struct ibv_cq *cq;
	struct end a, b;
	void *context;

	(void)state;
	end_open(&a);
	end_open(&b);
	srd = a.qp;
	ud = ud_make(&a);
	ex = ibv_qp_to_qp_ex(srd);
	pfd.fd = a.ch->fd;
	for (int i = 0; i < 4; i++) {
		a.qp = i == 0 ? ud : srd;
		if (i == 3)
			assert_int_equal(recv_post(&a, a.mr->lkey, 1), 0);
		assert_int_equal(ibv_req_notify_cq(a.cq, 0), 0);
		assert_int_equal(poll(&pfd, 1, 0), 0);
		if (i < 2) { /* UD; and a local key that is none */
			assert_int_equal(send_post(&a, &b, a.ah, i ? 99 : a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		} else if (i == 2) {
			ibv_wr_start(ex);
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_send(ex);
			ibv_wr_set_ud_addr(ex, a.ah, b.qp->qp_num, QKEY);
			ibv_wr_set_sge(ex, 99, (uintptr_t)a.buf, 8);
			assert_int_equal(ibv_wr_complete(ex), 0);
		} else {
			assert_int_equal(ibv_modify_qp(srd, &attr, IBV_QP_STATE), 0);
		}
		if (poll(&pfd, 1, 5000) != 1)
			fail_msg("row %d: not told", i);
		assert_int_equal(ibv_get_cq_event(a.ch, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		wc_get(&a);
	}
	a.qp = srd;
	assert_int_equal(ibv_destroy_qp(ud), 0);
	end_close(&b);
	end_close(&a);
}

static struct {
	struct end *e;
	_Atomic uint64_t woken_ns;
} sleeper;

static void *sleeper_run(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(sleeper.e->ch, &cq, &context))
		return arg;
	sleeper.woken_ns = clk_now_ns(NULL);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

/* Nobody polls; the adapter's thread has taken over, and still the program is woken by the message itself. */
static void channel__wakes_a_sleeper(void **state)
{
	uint64_t best = UINT64_MAX, begin;
	struct end a, b;
	pthread_t thread;
	void *failed;

	(void)state;
	end_open(&a);
	end_open(&b);
	sleeper.e = &b;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_int_equal(pthread_create(&thread, NULL, sleeper_run, &a), 0);
		nanosleep(&(struct timespec){.tv_nsec = 12 * NS_PER_MS}, NULL);
		begin = clk_now_ns(NULL);
		assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(pthread_join(thread, &failed), 0);
		assert_null(failed);
		best = MIN(best, sleeper.woken_ns - begin);
		assert_int_equal(wc_get(&b).status, IBV_WC_SUCCESS);
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	}
	print_message("woken %.1f us after the send, the best of 10\n", (double)best / 1e3);
	assert_true(best < 10 * NS_PER_MS * unit_slow()); /* less than the naps of whoever looks now and then */
	end_close(&b);
	end_close(&a);
}

/* A thread that polls another context does the work of this one, too, and takes what was to wake its program. */
static void channel__tells_of_what_others_took(void **state)
{
	struct pollfd pfd = {.events = POLLIN};
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct end a, b;
	void *context;

	(void)state;
	end_open(&a);
	end_open(&b);
	pfd.fd = b.ch->fd;
	for (int i = 0; i < 20; i++) {
		uint64_t until = clk_now_ns(NULL) + WAIT_NS;

		assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS); /* so b's adapter has it */
		while (!poll(&pfd, 1, 0) && clk_now_ns(NULL) < until)
			assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
		assert_int_equal(poll(&pfd, 1, 0), 1);
		assert_int_equal(ibv_get_cq_event(b.ch, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		assert_int_equal(wc_get(&b).status, IBV_WC_SUCCESS);
	}
	end_close(&b);
	end_close(&a);
}

static void *destroyer_run(void *cq)
{
	return ibv_destroy_cq(cq) ? cq : NULL;
}

/* Whoever waits until an event is acknowledged has taken the others back before. */
/* As a program may look at it, without a lock. */
static __attribute__((noinline, no_sanitize_thread)) int refcnt_of(const struct ibv_comp_channel *ch)
{
	const volatile int *refcnt = &ch->refcnt;

	return *refcnt;
}

static void channel__destroy_takes_its_events(void **state)
{
	pthread_t thread;
	struct ibv_cq *cq;
	struct end a, b;
	uint64_t until;
	void *context;

	(void)state;
	end_open(&a);
	end_open(&b);
	assert_int_equal(fcntl(b.ch->fd, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
		assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
		assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(wc_get(&b).status, IBV_WC_SUCCESS);
		if (!i)
			assert_int_equal(ibv_get_cq_event(b.ch, &cq, &context), 0);
	}
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
	until = clk_now_ns(NULL) + WAIT_NS;
	assert_int_equal(pthread_create(&thread, NULL, destroyer_run, b.cq), 0);
	while (refcnt_of(b.ch) && clk_now_ns(NULL) < until)
		sched_yield();
	assert_int_equal(refcnt_of(b.ch), 0);
	assert_int_equal(ibv_get_cq_event(b.ch, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	ibv_ack_cq_events(b.cq, 1);
	assert_int_equal(pthread_join(thread, &context), 0);
	assert_null(context);
	assert_int_equal(ibv_close_device(b.ctx), 0);
	free(b.buf);
	end_close(&a);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(channel__wakes),
	cmocka_unit_test(channel__tells_of_what_ends_at_once),
	cmocka_unit_test(channel__wakes_a_sleeper),
	cmocka_unit_test(channel__tells_of_what_others_took),
	cmocka_unit_test(channel__destroy_takes_its_events),
};

/* --- a peer that goes without a word --- */

#define DEAD_AFTER   "2s"
#define DEAD_AFTER_S 2

/*
 * The inode of a file of @qpn in shared memory, that with the number @ino if it is not 0; 0: there is none. Others may
 * use the same number, of another address or later, but not the same inode.
 */
static ino_t file_of(uint32_t qpn, ino_t ino)
{
	struct dirent *e;
	ino_t found = 0;
	char end[16];
	DIR *dir = opendir("/dev/shm");

	assert_non_null(dir);
	snprintf(end, sizeof(end), "-%u", qpn);
	while (!found && (e = readdir(dir))) {
		const char *last = strrchr(e->d_name, '-');

		if (last && !strcmp(last, end) && (!ino || e->d_ino == ino))
			found = e->d_ino;
	}
	closedir(dir);
	return found;
}

/* Another process: says its queue pair's number, takes one message, and exits with all open when told to. */
static void child_main(int out, int in)
{
	struct end e;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a row that fails leaves nobody behind */
	end_open(&e);
	if (recv_post(&e, e.mr->lkey, 1) || write(out, &e.qp->qp_num, 4) != 4 || wc_get(&e).status != IBV_WC_SUCCESS)
		_exit(1);
	if (read(in, &c, 1) == 1)
		exit(0);
	_exit(1);
}

/*
 * What a message to it is told, once it took one and was then stopped, killed, or exited: as with the real adapter, the
 * kernel of a dead process tears its queue pairs down, which the peer is told; who is silent has not answered.
 */
static void peer_goes(int sig, uint8_t want)
{
	int up[2], down[2], status;
	struct ibv_qp other = {0};
	struct end a, to = {.qp = &other};
	struct ibv_wc wc;
	uint64_t begin;
	pid_t pid;
	ino_t ino;

	assert_int_equal(pipe(up) | pipe(down), 0);
	pid = unit_fork();
	if (!pid)
		child_main(up[1], down[0]);
	end_open(&a);
	assert_int_equal(read(up[0], &other.qp_num, 4), 4);
	assert_int_equal(send_post(&a, &to, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	ino = strstr(getenv("SOFTFABRIC_NET"), "udp") ? 0 : file_of(other.qp_num, 0);
	assert_true(ino || strstr(getenv("SOFTFABRIC_NET"), "udp"));
	assert_int_equal(sig ? kill(pid, sig) : write(down[1], "x", 1) - 1, 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	begin = clk_now_ns(NULL);
	assert_int_equal(send_post(&a, &to, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	wc = wc_get(&a);
	assert_true(clk_now_ns(NULL) - begin < (DEAD_AFTER_S + 1) * NS_PER_SEC * unit_slow());
	assert_int_equal(wc.vendor_err, want);
	assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
	if (WIFSTOPPED(status)) {
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	assert_int_equal(sig ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status), 1);
	end_close(&a);
	end_open(&a); /* who comes next removes what a killed one has left */
	assert_int_equal(ino ? file_of(other.qp_num, ino) : 0, 0);
	end_close(&a);
	for (int i = 0; i < 2; i++) {
		close(up[i]);
		close(down[i]);
	}
}

static void peer__stopped(void **state)
{
	(void)state;
	peer_goes(SIGSTOP, EFANIC_LOCAL_UNRESP_REMOTE);
}

static void peer__killed(void **state)
{
	(void)state;
	peer_goes(SIGKILL, EFANIC_REMOTE_ABORT);
}

static void peer__exits_with_all_open(void **state)
{
	(void)state;
	peer_goes(0, EFANIC_REMOTE_ABORT);
}

static const struct CMUnitTest goes[] = {
	cmocka_unit_test(peer__stopped),
	cmocka_unit_test(peer__killed),
	cmocka_unit_test(peer__exits_with_all_open),
};

/* What the network is, is read once: each in a process of its own. */
static int group(const char *name, const char *net, const struct CMUnitTest *rows, size_t cnt)
{
	pid_t pid = unit_fork();
	int status;

	if (!pid) {
		setenv("SOFTFABRIC_NET", net, 1);
		exit(_cmocka_run_group_tests(name, rows, cnt, NULL, NULL));
	}
	return waitpid(pid, &status, 0) != pid || status;
}

int main(void)
{
	int bad = group("udp", "udp", tests, ARRAY_SIZE(tests));

	bad |= group("memory", "", tests, ARRAY_SIZE(tests));
	bad |= group("goes, udp", "udp;dead_after=" DEAD_AFTER, goes, ARRAY_SIZE(goes));
	return bad | group("goes, memory", "dead_after=" DEAD_AFTER, goes, ARRAY_SIZE(goes));
}
