// SPDX-License-Identifier: BSD-2-Clause
// How soon ibv_get_cq_event() returns when a completion is there, both sides asleep: verbs_wake memory|network
// [ROUNDS]. One line for receives, one for sends: what,room,median,99 %,longest, in ns.
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include "base/clock.h"

/*
 * The receiver sleeps in ibv_get_cq_event(); the sender posts a message two milliseconds later and sleeps there, too.
 * Nobody polls. A receive: from before ibv_post_send() in one process until ibv_get_cq_event() has returned in the
 * other, which is more than its completion takes. A send: from the receiver's waking, which takes the message, until
 * the sender's; its completion is not earlier than that.
 */

#define QKEY	   0x11111111u
#define ROUNDS_MAX 10000
#define LEN	   64

/* Shared by the two processes. */
static struct board {
	_Atomic uint32_t qpn, asleep, woken;
	_Atomic uint64_t woken_ns;
	_Atomic bool has_failed;
} *board;

static struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	char buf[LEN];
} side;

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "verbs_wake: %s: %s\n", what, strerror(errno));
	board->has_failed = true;
	exit(1);
}

static void qp_open(void)
{
	struct ibv_qp_init_attr attr = {.send_cq = side.cq,
					.recv_cq = side.cq,
					.qp_type = IBV_QPT_DRIVER,
					.cap = {.max_send_wr = 4,
						.max_recv_wr = 4,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	side.qp = efadv_create_driver_qp(side.pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
	check(side.qp, "efadv_create_driver_qp");
	check(!ibv_modify_qp(side.qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "to INIT");
	to.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(side.qp, &to, IBV_QP_STATE), "to RTR");
	to.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(side.qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
}

static void side_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};

	check(list && list[0], "ibv_get_device_list");
	side.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	check(side.ctx, "ibv_open_device");
	side.pd = ibv_alloc_pd(side.ctx);
	side.ch = ibv_create_comp_channel(side.ctx);
	check(side.pd && side.ch, "ibv_create_comp_channel");
	side.cq = ibv_create_cq(side.ctx, 8, NULL, side.ch, 0);
	side.mr = ibv_reg_mr(side.pd, side.buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	check(side.cq && side.mr, "ibv_create_cq");
	qp_open();
	check(!ibv_query_gid(side.ctx, 1, 0, &ah.grh.dgid), "ibv_query_gid");
	side.ah = ibv_create_ah(side.pd, &ah);
	check(side.ah, "ibv_create_ah");
}

static void side_close(void)
{
	ibv_destroy_ah(side.ah);
	ibv_destroy_qp(side.qp);
	ibv_dereg_mr(side.mr);
	ibv_destroy_cq(side.cq);
	ibv_destroy_comp_channel(side.ch);
	ibv_dealloc_pd(side.pd);
	ibv_close_device(side.ctx);
}

/* Sleeps until there is a completion, which the caller has armed for, and takes it. Return: when it woke. */
static uint64_t completion_wait(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	uint64_t woken;
	void *context;

	check(!ibv_get_cq_event(side.ch, &cq, &context), "ibv_get_cq_event");
	woken = clk_now_ns(NULL);
	ibv_ack_cq_events(cq, 1);
	check(ibv_poll_cq(side.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "ibv_poll_cq");
	return woken;
}

static void receive(uint32_t rounds)
{
	struct ibv_sge sge = {(uintptr_t)side.buf, LEN, side.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	board->qpn = side.qp->qp_num;
	for (uint32_t i = 1; i <= rounds; i++) {
		check(!ibv_post_recv(side.qp, &wr, &bad), "ibv_post_recv");
		check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
		board->asleep = i;
		board->woken_ns = completion_wait();
		board->woken = i;
	}
}

/* Until the other process has come to @round at @what; it may end before. */
static void other_wait(_Atomic uint32_t *what, uint32_t round)
{
	while (*what < round && !board->has_failed)
		nanosleep(&(struct timespec){.tv_nsec = 100 * NS_PER_US}, NULL);
	if (board->has_failed)
		exit(1);
}

static void send_round(uint32_t round, uint64_t *recv_ns, uint64_t *send_ns)
{
	struct ibv_sge sge = {(uintptr_t)side.buf, 8, side.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	uint64_t begin, woken;

	other_wait(&board->asleep, round);
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.ud.ah = side.ah;
	wr.wr.ud.remote_qpn = board->qpn;
	wr.wr.ud.remote_qkey = QKEY;
	nanosleep(&(struct timespec){.tv_nsec = 2 * NS_PER_MS}, NULL); /* so that it does sleep */
	check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
	begin = clk_now_ns(NULL);
	check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
	woken = completion_wait();
	other_wait(&board->woken, round);
	*recv_ns = board->woken_ns - begin;
	*send_ns = woken > board->woken_ns ? woken - board->woken_ns : 0;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void print(const char *what, const char *room, uint64_t *ns, uint32_t cnt)
{
	qsort(ns, cnt, sizeof(*ns), by_size);
	printf("%s,%s,%llu,%llu,%llu\n", what, room, (unsigned long long)ns[cnt / 2],
	       (unsigned long long)ns[cnt - 1 - cnt / 100], (unsigned long long)ns[cnt - 1]);
}

int main(int argc, char **argv)
{
	static uint64_t recv_ns[ROUNDS_MAX], send_ns[ROUNDS_MAX];
	const char *room = argc > 1 ? argv[1] : "memory";
	uint32_t rounds = argc > 2 ? (uint32_t)atoi(argv[2]) : 500;
	int status = 0;
	pid_t pid;

	if (!rounds || rounds > ROUNDS_MAX)
		return 1;
	setenv("SOFTFABRIC_NET", !strcmp(room, "network") ? "udp" : "", 1);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return 1;
	pid = fork();
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_open();
	if (!pid) {
		receive(rounds);
		side_close();
		return 0;
	}
	for (uint32_t i = 0; i < rounds; i++)
		send_round(i + 1, &recv_ns[i], &send_ns[i]);
	side_close();
	if (waitpid(pid, &status, 0) != pid || status)
		return 1;
	print("receive", room, recv_ns, rounds);
	print("send", room, send_ns, rounds);
	return 0;
}
