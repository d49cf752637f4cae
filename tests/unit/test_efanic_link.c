// SPDX-License-Identifier: BSD-2-Clause
// The soft EFA adapter over the real link: in one process and in two, through shared memory, UDP
// and a lossy UDP.
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "nic/efanic/efanic.h"

/*
 * The room of a process is fixed when it is first asked for, so every case runs in a child of its
 * own (or two). A child must not use cmocka's assertions: CHECK prints and exits.
 */
#define CHECK(x_)                                                                                  \
	do {                                                                                       \
		if (!(x_)) {                                                                       \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #x_);                   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define DEADLINE_NS (30 * NS_PER_SEC * unit_slow())
#define MSG_CNT	    400
#define CREDITS	    64
#define BULK_LEN    (1u << 20)

/* What two processes tell each other first. */
struct card {
	uint64_t raddr;
	uint16_t qpn, rsvd[3]; /* goes through a pipe as it is: no padding */
	uint32_t qkey, rkey;
};

struct node {
	struct lock lock;
	struct efanic *nic;
	uint16_t ahn;
	uint64_t deadline_ns;
};

struct port {
	struct node *node;
	struct efanic_qp *qp;
	struct efanic_mr *mr;
	struct efanic_dst *to;
	uint8_t *bulk; /* BULK_LEN bytes, registered */
	uint32_t qkey;
	unsigned sent, received, imms, failed;
	uint8_t last_status;
	uint32_t last_imm;
	bool has_credits;
	bool seen[MSG_CNT];
};

static void node_open(struct node *n)
{
	struct efanic_open_attr attr = {.lock = &n->lock};

	memset(n, 0, sizeof(*n));
	CHECK(efanic_open(&attr, &n->nic) == 0);
	n->deadline_ns = clk_now_ns(NULL) + DEADLINE_NS;
	lock_acquire(&n->lock);
	CHECK(efanic_ah_open(n->nic, efanic_attr(n->nic)->gid, &n->ahn) == 0);
}

static void node_close(struct node *n)
{
	efanic_ah_close(n->nic, n->ahn);
	lock_release(&n->lock);
	efanic_close(n->nic);
}

static uint32_t msg_len(unsigned i)
{
	return i % 7 == 0 ? EFANIC_MTU : 4 + i * 37 % 3000;
}

static void msg_fill(uint8_t *buf, unsigned i)
{
	uint32_t id = i;

	for (uint32_t k = 0; k < msg_len(i); k++)
		buf[k] = (uint8_t)(i + k * 5);
	memcpy(buf, &id, sizeof(id));
}

static void on_recv(struct port *p, const struct efanic_wc *wc)
{
	static uint8_t got[EFANIC_MTU], want[EFANIC_MTU];
	uint32_t i;

	CHECK(wc->status == EFANIC_OK);
	CHECK(wc->byte_len >= 4 && wc->byte_len == wc->data.len);
	view_copy(&wc->data, 0, got, wc->byte_len);
	memcpy(&i, got, sizeof(i));
	CHECK(i < MSG_CNT && !p->seen[i] && wc->byte_len == msg_len(i));
	msg_fill(want, i);
	CHECK(!memcmp(got, want, wc->byte_len));
	p->seen[i] = true;
	p->received++;
	CHECK(efanic_post_recv_credits(p->qp, 1) == 0);
}

static void on_wc(void *ctx, const struct efanic_wc *wc)
{
	struct port *p = ctx;

	p->last_status = wc->status;
	if (wc->opcode == EFANIC_OP_RECV) {
		on_recv(p, wc);
	} else if (wc->opcode == EFANIC_OP_RECV_RDMA_IMM) {
		p->imms++;
		p->last_imm = wc->imm;
	} else {
		p->sent++;
		p->failed += wc->status != EFANIC_OK;
	}
}

static void port_open(struct port *p, struct node *n, uint32_t qkey, uint8_t rnr_retry)
{
	struct efanic_qp_attr attr = {.sq_depth = 32,
				      .rq_depth = CREDITS,
				      .qkey = qkey,
				      .unsolicited_write_recv = true,
				      .on_wc = on_wc,
				      .ctx = p};
	struct efanic_mr_attr mr = {.len = BULK_LEN,
				    .access = EFANIC_ACCESS_LOCAL_WRITE |
					      EFANIC_ACCESS_REMOTE_READ |
					      EFANIC_ACCESS_REMOTE_WRITE};

	memset(p, 0, sizeof(*p));
	p->node = n;
	p->qkey = qkey;
	p->bulk = malloc(BULK_LEN);
	CHECK(p->bulk);
	mr.addr = p->bulk;
	CHECK(efanic_mr_reg(n->nic, &mr, &p->mr) == 0);
	CHECK(efanic_qp_open(n->nic, &attr, &p->qp) == 0);
	CHECK(efanic_qp_to_rts(p->qp, rnr_retry) == 0);
}

static void port_close(struct port *p)
{
	if (p->to)
		efanic_dst_put(p->to);
	efanic_qp_close(p->qp);
	efanic_mr_dereg(p->mr);
	free(p->bulk);
}

static struct card card_of(const struct port *p)
{
	return (struct card){.raddr = (uintptr_t)p->bulk,
			     .qpn = efanic_qp_qpn(p->qp),
			     .qkey = p->qkey,
			     .rkey = efanic_mr_rkey(p->mr)};
}

static void port_connect(struct port *p, const struct card *c)
{
	CHECK(efanic_dst_get(p->qp, p->node->ahn, c->qpn, c->qkey, &p->to) == 0);
}

/* Receives come only once a sender has been told that there are none. */
static void late_credits(struct port *a, struct port *b)
{
	struct efanic_stats stats;

	efanic_qp_query_stats(a->qp, &stats);
	if (!stats.rnr_naks_rx)
		return;
	CHECK(efanic_post_recv_credits(b->qp, CREDITS) == 0);
	b->has_credits = true;
}

/* One turn of the application; the lock is free meanwhile for the adapter thread. */
static void turn(struct node *n, struct port *a, struct port *b)
{
	int cnt = efanic_poll(a->qp) + (b ? efanic_poll(b->qp) : 0);

	if (b && !b->has_credits)
		late_credits(a, b);
	lock_release(&n->lock);
	if (!cnt)
		efanic_idle(n->nic);
	CHECK(clk_now_ns(NULL) < n->deadline_ns);
	lock_acquire(&n->lock);
}

/* All messages to p->to, as many at a time as there are buffers. */
static void send_all(struct port *p, struct port *other)
{
	static uint8_t buf[32][EFANIC_MTU];
	unsigned base = p->sent;

	for (unsigned i = 0; i < MSG_CNT; i++) {
		struct efanic_wr wr = {
			.wr_id = i, .dst = p->to, .opcode = EFANIC_OP_SEND, .sge_cnt = 1};

		while (p->sent - base + 32 <= i || !efanic_sq_free(p->qp))
			turn(p->node, p, other);
		/* completions come in any order: only when all 32 are done is the first buffer
		 * surely free */
		if (i % 32 == 0)
			while (p->sent - base < i)
				turn(p->node, p, other);
		msg_fill(buf[i % 32], i);
		wr.sge[0] = (struct efanic_sge){buf[i % 32], msg_len(i), EFANIC_LKEY_INTERNAL};
		CHECK(efanic_post_send(p->qp, &wr) == 0);
		if (i % 4 == 3)
			efanic_doorbell(p->qp);
	}
	while (p->sent - base < MSG_CNT)
		turn(p->node, p, other);
	CHECK(p->failed == 0);
}

static void rdma(struct port *p, struct port *other, const struct card *c, uint8_t opcode,
		 uint32_t len)
{
	struct efanic_wr wr = {.dst = p->to,
			       .opcode = opcode,
			       .has_imm = opcode == EFANIC_OP_WRITE,
			       .imm = len,
			       .rkey = c->rkey,
			       .raddr = c->raddr,
			       .sge_cnt = 1};
	unsigned sent = p->sent;

	wr.sge[0] = (struct efanic_sge){p->bulk, len, efanic_mr_lkey(p->mr)};
	CHECK(efanic_post_send(p->qp, &wr) == 0);
	efanic_doorbell(p->qp);
	while (p->sent == sent)
		turn(p->node, p, other);
}

static bool filled_with(const uint8_t *buf, int byte)
{
	for (uint32_t i = 0; i < BULK_LEN; i++)
		if (buf[i] != (uint8_t)byte)
			return false;
	return true;
}

/* --- one process --- */

/* Which path carried the SENDs, and that the lossy one lost something. */
static void check_path(const struct efanic_stats *stats)
{
	const char *net = getenv("SOFTFABRIC_NET");

	if (strstr(net, "shm")) {
		CHECK(stats->net.shm_tx_pkts >= MSG_CNT);
		CHECK(stats->net.net_tx_pkts == 0);
	} else {
		CHECK(stats->net.shm_tx_pkts == 0);
		CHECK(stats->net.net_tx_pkts >= MSG_CNT);
	}
	CHECK(!strstr(net, "loss") || stats->retrans_pkts > 0);
}

static void one_process(void)
{
	struct efanic_stats stats;
	struct port a, b;
	struct card c;
	struct node n;

	node_open(&n);
	port_open(&a, &n, 11, EFANIC_RNR_INFINITE);
	port_open(&b, &n, 22, EFANIC_RNR_INFINITE);
	c = card_of(&b);
	port_connect(&a, &c);
	send_all(&a, &b);
	CHECK(b.received == MSG_CNT);

	memset(a.bulk, 1, BULK_LEN);
	memset(b.bulk, 2, BULK_LEN);
	rdma(&a, &b, &c, EFANIC_OP_READ, BULK_LEN);
	CHECK(a.last_status == EFANIC_OK);
	CHECK(filled_with(a.bulk, 2));
	memset(a.bulk, 3, BULK_LEN);
	rdma(&a, &b, &c, EFANIC_OP_WRITE, BULK_LEN);
	CHECK(a.failed == 0);
	while (!b.imms)
		turn(&n, &a, &b);
	CHECK(b.last_imm == BULK_LEN);
	CHECK(filled_with(b.bulk, 3));
	c.rkey ^= 0x10000;
	rdma(&a, &b, &c, EFANIC_OP_READ, 1);
	CHECK(a.failed == 1);
	CHECK(a.last_status == EFANIC_REMOTE_BAD_ADDRESS);

	efanic_query_stats(n.nic, &stats);
	CHECK(stats.rdma_read_wrs == 2);
	CHECK(stats.rdma_read_bytes == BULK_LEN);
	CHECK(stats.rdma_read_wr_err == 1);
	/* the target's side, by whatever means they were served */
	CHECK(stats.rdma_read_resp_bytes >= BULK_LEN);
	CHECK(strstr(getenv("SOFTFABRIC_NET"), "shm") || stats.rdma_read_resp_bytes == BULK_LEN);
	CHECK(stats.rdma_write_recv_bytes == BULK_LEN);
	CHECK(stats.send_wrs == MSG_CNT);
	CHECK(stats.recv_wrs == MSG_CNT);
	CHECK(stats.malformed == 0);
	check_path(&stats);
	port_close(&a);
	port_close(&b);
	node_close(&n);
}

/* --- two processes --- */

static void give(int fd, const void *buf, size_t len)
{
	CHECK(write(fd, buf, len) == (ssize_t)len);
}

static void take(int fd, void *buf, size_t len)
{
	CHECK(recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len);
}

/* Both send everything to each other at once; then the second only computes while the first does
 * RDMA on it. */
static void side(int fd, bool is_first)
{
	struct efanic_stats stats;
	struct card mine, c;
	struct port p;
	struct node n;
	char sync = 0;

	node_open(&n);
	port_open(&p, &n, is_first ? 11 : 22, EFANIC_RNR_INFINITE);
	CHECK(efanic_post_recv_credits(p.qp, CREDITS) == 0);
	memset(p.bulk, is_first ? 1 : 2, BULK_LEN);
	mine = card_of(&p);
	give(fd, &mine, sizeof(mine));
	take(fd, &c, sizeof(c));
	port_connect(&p, &c);
	send_all(&p, NULL);
	while (p.received < MSG_CNT)
		turn(&n, &p, NULL);
	give(fd, &sync, 1);
	while (recv(fd, &sync, 1, MSG_DONTWAIT) != 1)
		turn(&n, &p, NULL);
	if (is_first) {
		rdma(&p, NULL, &c, EFANIC_OP_READ, BULK_LEN);
		CHECK(p.failed == 0 && filled_with(p.bulk, 2));
		memset(p.bulk, 3, BULK_LEN);
		rdma(&p, NULL, &c, EFANIC_OP_WRITE, BULK_LEN);
		CHECK(p.failed == 0);
		give(fd, &sync, 1);
	} else {
		lock_release(&n.lock); /* makes no call: the adapter thread serves */
		take(fd, &sync, 1);
		lock_acquire(&n.lock);
		while (!p.imms)
			turn(&n, &p, NULL);
		CHECK(p.last_imm == BULK_LEN && filled_with(p.bulk, 3));
		efanic_query_stats(n.nic, &stats);
		CHECK(stats.rdma_read_resp_bytes >= BULK_LEN);
		CHECK(stats.rdma_write_recv_bytes >= BULK_LEN);
		CHECK(stats.rdma_read_bytes == 0 && stats.rdma_write_bytes == 0);
	}
	port_close(&p);
	node_close(&n);
}

/* The second goes away without a word; the first is told. */
static void side_killed(int fd, bool is_first)
{
	struct efanic_wr wr = {.opcode = EFANIC_OP_SEND};
	struct card mine, c;
	struct port p;
	struct node n;

	node_open(&n);
	port_open(&p, &n, is_first ? 11 : 22, EFANIC_RNR_INFINITE);
	mine = card_of(&p);
	give(fd, &mine, sizeof(mine));
	take(fd, &c, sizeof(c));
	if (!is_first)
		_exit(0);
	CHECK(recv(fd, &mine, 1, 0) == 0); /* it is gone */
	port_connect(&p, &c);
	wr.dst = p.to;
	CHECK(efanic_post_send(p.qp, &wr) == 0);
	while (!p.sent)
		turn(&n, &p, NULL);
	CHECK(p.last_status == EFANIC_REMOTE_BAD_DEST_QPN ||
	      p.last_status == EFANIC_LOCAL_UNREACH_REMOTE);
	port_close(&p);
	node_close(&n);
}

/* --- runners --- */

static pid_t child(const char *net, void (*one)(void), void (*two)(int fd, bool is_first), int *fds,
		   int which)
{
	pid_t pid = unit_fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	setenv("SOFTFABRIC_NET", net, 1);
	unsetenv("SOFTFABRIC_EFA");
	unsetenv("SOFTFABRIC_CONF");
	alarm(60 * unit_slow());
	if (one) {
		one();
	} else {
		close(fds[!which]);
		two(fds[which], which == 0);
	}
	exit(0); /* with the sanitizer's leak check */
}

static void join(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void run_two(const char *net, void (*fn)(int fd, bool is_first))
{
	pid_t pid[2];
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	for (int i = 0; i < 2; i++)
		pid[i] = child(net, NULL, fn, fds, i);
	close(fds[0]);
	close(fds[1]);
	join(pid[0]);
	join(pid[1]);
}

#define LOSSY "udp;loss=2%;reorder=5%;dup=1%;seed=7"

static void one_process__shm(void **state)
{
	join(child("shm,udp", one_process, NULL, NULL, 0));
}

static void one_process__udp(void **state)
{
	join(child("udp", one_process, NULL, NULL, 0));
}

static void one_process__lossy(void **state)
{
	join(child(LOSSY, one_process, NULL, NULL, 0));
}

static void two_processes__shm(void **state)
{
	run_two("shm,udp", side);
}

static void two_processes__udp(void **state)
{
	run_two("udp", side);
}

static void two_processes__lossy(void **state)
{
	run_two(LOSSY, side);
}

static void two_processes__peer_gone(void **state)
{
	run_two("shm,udp;dead_after=2s", side_killed);
	run_two("udp;dead_after=2s", side_killed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_processes__peer_gone), /* the next one reaps what it left */
		cmocka_unit_test(one_process__shm),	    cmocka_unit_test(one_process__udp),
		cmocka_unit_test(one_process__lossy),	    cmocka_unit_test(two_processes__shm),
		cmocka_unit_test(two_processes__udp),	    cmocka_unit_test(two_processes__lossy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
