// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs of verbs/: their states, what is refused in which, and whom RDMA reaches through them.
#include "verbs_end.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/bulk/bulk_int.h"
#include "nic/efanic/efanic_int.h"

/* A thread may end the queue pair while another one puts requests together: none of them is posted then. */
static void build__state_changes_meanwhile(void **state)
{
	static const enum ibv_qp_state to[] = {IBV_QPS_ERR, IBV_QPS_RESET};
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;
	struct end a;

	(void)state;
	end_open(&a);
	ex = ibv_qp_to_qp_ex(a.qp);
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		struct ibv_qp_attr attr = {.qp_state = to[i]};

		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(ex);
		ibv_wr_set_ud_addr(ex, a.ah, a.qp->qp_num, QKEY);
		ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buf, 8);
		assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		assert_int_equal(ibv_wr_complete(ex), EINVAL);
		assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
		attr.qp_state = IBV_QPS_RESET;
		assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		to_rts(a.qp, QKEY);
	}
	to_itself(&a, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	end_close(&a);
}

/* The kernel and its driver tell an attribute that the transition does not take from one that no queue pair has. */
static void modify__refusals(void **state)
{
	static const struct {
		enum ibv_qp_state to;
		int mask, want;
		uint8_t port;
	} row[] = {
		{IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, EINVAL, 2},
		{IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_TIMEOUT,
		 EOPNOTSUPP, 1},
		{IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, 1},
		{IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_SQ_PSN, EINVAL, 1},
		{IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_PATH_MTU, EOPNOTSUPP, 1},
		{IBV_QPS_RTR, IBV_QP_STATE, 0, 1},
		{IBV_QPS_RTS, IBV_QP_STATE, EINVAL, 1},
		{IBV_QPS_RESET, IBV_QP_STATE | IBV_QP_QKEY, EINVAL, 1},
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;
	struct end a;

	(void)state;
	end_open(&a);
	qp = srd_make(&a, a.pd);
	assert_non_null(qp);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		attr = (struct ibv_qp_attr){.qp_state = row[i].to, .port_num = row[i].port, .qkey = QKEY};
		if (ibv_modify_qp(qp, &attr, row[i].mask) != row[i].want)
			fail_msg("row %zu", i);
	}
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
	assert_true(attr.qp_state == IBV_QPS_RTR && init.cap.max_send_wr == 16);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE, &init), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	end_close(&a);
}

static bool is_idle(struct vqp *qp)
{
	bool idle;

	lock_acquire(&qp->obj.ctx->lock);
	idle = efanic_sq_is_empty(qp->dev);
	lock_release(&qp->obj.ctx->lock);
	return idle;
}

/* A send queue that was replaced while the adapter had requests of it goes once the adapter has none any more. */
static void reset__old_queues_go(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	uint64_t until;
	struct ibv_wc wc;
	struct end a, b;
	struct vqp *qp;

	(void)state;
	end_open(&a);
	end_open(&b);
	qp = verbs_obj_get(OBJ_QP, a.qp);
	for (int i = 0; i < 3; i++) {
		/* the peer does not poll: nothing of it ends before the reset */
		assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		to_rts(a.qp, QKEY);
	}
	until = clk_now_ns(NULL) + WAIT_NS;
	while (!is_idle(qp)) {
		assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
		assert_int_equal(ibv_poll_cq(b.cq, 1, &wc), 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	assert_null(qp->sq->old);
	to_rts(a.qp, QKEY);
	to_itself(&a, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	end_close(&b);
	end_close(&a);
}

/* In SQD nothing more begins, and the program asks when what has begun is over. */
static void query__draining(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct ibv_qp_init_attr init;
	struct end a, b;
	struct vqp *vb;

	(void)state;
	end_open(&a);
	end_open(&b);
	vb = verbs_obj_get(OBJ_QP, b.qp);
	assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
	lock_acquire(&vb->obj.ctx->lock); /* its adapter takes nothing */
	assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_true(attr.qp_state == IBV_QPS_RTS && !attr.sq_draining);
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_true(attr.qp_state == IBV_QPS_SQD && attr.sq_draining);
	lock_release(&vb->obj.ctx->lock);
	assert_int_equal(wc_get(&b).status, IBV_WC_SUCCESS);
	assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_true(attr.qp_state == IBV_QPS_SQD && !attr.sq_draining);
	end_close(&b);
	end_close(&a);
}

/* --- RDMA: a peer names a queue pair and a key -------------------------------------------------------------------- */

#define MIB (1u << 20) /* the kernel copies it, where it can; LEN goes in frames if its owner polls */

static void *big_new(void)
{
	void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static bool is_all(const uint8_t *p, uint8_t byte)
{
	return p[0] == byte && !memcmp(p, p + 1, MIB - 1);
}

/* Where an end reads from and writes to at another one. */
struct far {
	uint32_t qpn, rkey;
	uint64_t addr;
	struct ibv_qp *qp; /* if it is of this process */
};

/*
 * Over UDP the adapter of @qp may send what was read once more, because the acknowledgement is late: by a read of that
 * memory which nobody uses, and which a race checker sees.
 */
static void calm_down(struct ibv_qp *qp)
{
	struct vqp *v = verbs_obj_get(OBJ_QP, qp);
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct link_port *p = v->dev->port;
	bool is_calm = false;
	struct ibv_wc wc;

	while (!is_calm) {
		assert_true(clk_now_ns(NULL) < until);
		assert_int_equal(ibv_poll_cq(qp->send_cq, 1, &wc), 0);
		lock_acquire(&v->obj.ctx->lock);
		is_calm = !rel_outstanding(p->rel) && !bulk_outstanding(p->bulk);
		lock_release(&v->obj.ctx->lock);
	}
}

/* The status of one request of @e. */
static uint32_t rdma(struct end *e, const struct ibv_mr *from, const struct far *to, bool is_write, uint32_t len)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(e->qp);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (is_write)
		ibv_wr_rdma_write(ex, to->rkey, to->addr);
	else
		ibv_wr_rdma_read(ex, to->rkey, to->addr);
	ibv_wr_set_sge(ex, from->lkey, (uintptr_t)from->addr, len);
	ibv_wr_set_ud_addr(ex, e->ah, to->qpn, QKEY);
	assert_int_equal(ibv_wr_complete(ex), 0);
	return wc_get(e).vendor_err;
}

/* Reads and writes, short and long, of which each ends with @want; those that do not succeed move nothing. */
static void rdma_all(struct end *e, const struct ibv_mr *from, const struct far *to, uint32_t want)
{
	static const uint32_t lens[] = {8, LEN, MIB};
	uint8_t *local = from->addr, *remote = (uint8_t *)(uintptr_t)to->addr;

	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		for (int is_write = 0; is_write < 2; is_write++) {
			uint32_t got;

			calm_down(e->qp);
			calm_down(to->qp);
			memset(local, 1, MIB);
			memset(remote, 2, MIB);
			got = rdma(e, from, to, is_write, lens[i]);
			if (got != want)
				fail_msg("%s of %u bytes: %u, not %u", is_write ? "write" : "read", lens[i], got, want);
			if (want)
				assert_true(is_all(local, 1) && is_all(remote, 2));
			else
				assert_memory_equal(local, remote, lens[i]);
		}
	}
}

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static void rkey__belongs_to_its_domain(void **state)
{
	struct ibv_mr *from, *mr[2];
	struct ibv_qp *qp[2];
	struct ibv_pd *pd[2];
	struct end a, b;

	(void)state;
	end_open(&a);
	end_open(&b);
	from = ibv_reg_mr(a.pd, big_new(), MIB, ACCESS);
	pd[0] = b.pd;
	pd[1] = ibv_alloc_pd(b.ctx);
	qp[0] = b.qp;
	qp[1] = srd_make(&b, pd[1]);
	to_rts(qp[1], QKEY);
	for (int i = 0; i < 2; i++)
		mr[i] = ibv_reg_mr(pd[i], big_new(), MIB, ACCESS);
	for (int of = 0; of < 2; of++)
		for (int by = 0; by < 2; by++)
			rdma_all(&a, from, &(struct far){qp[by]->qp_num, mr[of]->rkey, (uintptr_t)mr[of]->addr, qp[by]},
				 of == by ? EFANIC_OK : EFANIC_REMOTE_BAD_ADDRESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(munmap(mr[i]->addr, MIB), 0);
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
	}
	assert_int_equal(ibv_destroy_qp(qp[1]), 0);
	assert_int_equal(ibv_dealloc_pd(pd[1]), 0);
	assert_int_equal(munmap(from->addr, MIB), 0);
	assert_int_equal(ibv_dereg_mr(from), 0);
	end_close(&b);
	end_close(&a);
}

/* A queue pair that takes nothing serves no RDMA, and one of type UD never does. */
static void rdma__by_state_of_its_queue_pair(void **state)
{
	static const enum ibv_qp_state off[] = {IBV_QPS_ERR, IBV_QPS_RESET};
	struct ibv_qp_attr attr = {.port_num = 1, .qkey = QKEY};
	struct ibv_mr *from, *mr;
	struct ibv_qp *ud;
	struct end a, b;
	struct far to;

	(void)state;
	end_open(&a);
	end_open(&b);
	from = ibv_reg_mr(a.pd, big_new(), MIB, ACCESS);
	mr = ibv_reg_mr(b.pd, big_new(), MIB, ACCESS);
	to = (struct far){b.qp->qp_num, mr->rkey, (uintptr_t)mr->addr, b.qp};
	for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
		rdma_all(&a, from, &to, EFANIC_OK);
		attr.qp_state = off[i];
		assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
		rdma_all(&a, from, &to, EFANIC_REMOTE_BAD_DEST_QPN);
		to.rkey++; /* no such key: the queue pair comes first */
		rdma_all(&a, from, &to, EFANIC_REMOTE_BAD_DEST_QPN);
		to.rkey--;
		attr.qp_state = IBV_QPS_RESET;
		assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
		attr.qp_state = IBV_QPS_INIT;
		assert_int_equal(ibv_modify_qp(b.qp, &attr,
					       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
				 0);
		rdma_all(&a, from, &to, EFANIC_REMOTE_BAD_DEST_QPN);
		attr.qp_state = IBV_QPS_RTR;
		assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
		rdma_all(&a, from, &to, EFANIC_OK);
		attr.qp_state = IBV_QPS_RTS;
		assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	}
	ud = ud_make(&b);
	to.qpn = ud->qp_num;
	assert_int_not_equal(rdma(&a, from, &to, true, LEN), EFANIC_OK);
	assert_int_equal(ibv_destroy_qp(ud), 0);
	assert_int_equal(munmap(from->addr, MIB) | munmap(mr->addr, MIB), 0);
	assert_int_equal(ibv_dereg_mr(from) | ibv_dereg_mr(mr), 0);
	end_close(&b);
	end_close(&a);
}

/* What two processes see: where to write, and how often that ended with which status. */
static struct board {
	struct far to;
	_Atomic uint32_t go, ends[EFANIC_STATUS_NUM];
} *g_board;

/* Another process: writes as fast as it can, whatever becomes of it. */
static void writer_main(void)
{
	struct ibv_mr *from;
	struct end e;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	end_open(&e);
	from = ibv_reg_mr(e.pd, big_new(), MIB, ACCESS);
	while (!atomic_load(&g_board->go))
		usleep(100);
	for (;;)
		atomic_fetch_add(&g_board->ends[rdma(&e, from, &g_board->to, true, MIB)], 1);
}

/* Two more have ended so: the second one had not begun yet. */
static void wait_ends(enum efanic_status status)
{
	uint32_t from = atomic_load(&g_board->ends[status]);
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (atomic_load(&g_board->ends[status]) - from < 2)
		assert_true(clk_now_ns(NULL) < until);
}

/* A program keeps its peers off by the state of its queue pair: once that is ERR, the memory is its own. */
static void rdma__keeps_off_writers(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_mr *mr;
	struct end a;
	uint8_t *mem;
	int status;
	pid_t pid;

	(void)state;
	g_board = mmap(NULL, sizeof(*g_board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(g_board, MAP_FAILED);
	fflush(stdout);
	pid = unit_fork();
	if (!pid)
		writer_main();
	end_open(&a);
	mem = big_new();
	mr = ibv_reg_mr(a.pd, mem, MIB, ACCESS);
	g_board->to = (struct far){a.qp->qp_num, mr->rkey, (uintptr_t)mem, NULL};
	atomic_store(&g_board->go, 1);
	for (int i = 0; i < 20; i++) {
		wait_ends(EFANIC_OK); /* by the adapter's thread, since nobody polls here */
		attr.qp_state = IBV_QPS_ERR;
		assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		memset(mem, 3, MIB);
		wait_ends(EFANIC_REMOTE_BAD_DEST_QPN);
		assert_true(is_all(mem, 3));
		attr.qp_state = IBV_QPS_RESET;
		assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		to_rts(a.qp, QKEY);
	}
	for (int i = 0; i < EFANIC_STATUS_NUM; i++)
		assert_true(i == EFANIC_OK || i == EFANIC_REMOTE_BAD_DEST_QPN || !g_board->ends[i]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, MIB);
	end_close(&a);
	end_open(&a); /* who comes next removes what a killed one has left */
	end_close(&a);
	munmap(g_board, sizeof(*g_board));
}

/* --- one that is in the middle of a copy --- */

static struct {
	_Atomic int is_holding, may_go;
} *g_hold;

/* Another process, at a copy from @mr through @qp until it is told to let go. */
static pid_t holder(const struct ibv_qp *qp, const struct ibv_mr *mr)
{
	const struct vqp *v = verbs_obj_get(OBJ_QP, qp);
	uint64_t id = v->dev->nic->node->bulk_id;
	struct bulk_tab *tab;
	pid_t pid;
	int slot;

	fflush(stdout);
	pid = unit_fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (bulk_tab_attach(id, &tab))
		_exit(1);
	slot = bulk_tab_slot_claim(tab);
	if (slot < 0 ||
	    bulk_lease_take(tab, slot, (uint16_t)qp->qp_num, mr->rkey, LINK_GET, (uintptr_t)mr->addr, mr->length))
		_exit(2);
	atomic_store(&g_hold->is_holding, 1);
	while (!atomic_load(&g_hold->may_go))
		sched_yield(); /* it is seen to run, so that nobody takes its lease away soon */
	_exit(bulk_lease_drop(tab, slot) ? 3 : 0);
}

/* An end, and a holder of its region that is at it. */
static void hold_open(struct end *e, pid_t *pid)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	g_hold = mmap(NULL, sizeof(*g_hold), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(g_hold, MAP_FAILED);
	end_open(e);
	*pid = holder(e->qp, e->mr);
	while (!atomic_load(&g_hold->is_holding))
		assert_true(clk_now_ns(NULL) < until);
}

/* A thread that moves @qp to @to. */
struct mover {
	struct ibv_qp *qp;
	enum ibv_qp_state to;
	pthread_t thread;
	_Atomic bool is_done;
	int rc;
};

static void *mover_main(void *arg)
{
	struct mover *m = arg;
	struct ibv_qp_attr attr = {.qp_state = m->to};

	m->rc = ibv_modify_qp(m->qp, &attr, IBV_QP_STATE);
	atomic_store(&m->is_done, true);
	return NULL;
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/*
 * Who takes a queue pair off its peers waits for their copies, and another thread may change it meanwhile: the state is
 * there before the wait, so that nobody writes an older one over a newer one behind it.
 */
static void modify__two_threads_and_a_copy(void **state)
{
	struct mover m[] = {{.to = IBV_QPS_ERR}, {.to = IBV_QPS_RESET}};
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct end a;
	int status;
	pid_t pid;

	(void)state;
	hold_open(&a, &pid);
	for (size_t i = 0; i < ARRAY_SIZE(m); i++) {
		m[i].qp = a.qp;
		assert_int_equal(pthread_create(&m[i].thread, NULL, mover_main, &m[i]), 0);
		while (state_of(a.qp) != m[i].to)
			assert_true(clk_now_ns(NULL) < until);
		assert_false(m[i].is_done);
	}
	assert_int_equal(ibv_destroy_qp(a.qp), EBUSY);
	assert_false(m[0].is_done || m[1].is_done);
	atomic_store(&g_hold->may_go, 1);
	for (size_t i = 0; i < ARRAY_SIZE(m); i++) {
		pthread_join(m[i].thread, NULL);
		assert_int_equal(m[i].rc, 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(state_of(a.qp), IBV_QPS_RESET);
	to_rts(a.qp, QKEY);
	to_itself(&a, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	end_close(&a);
	munmap(g_hold, sizeof(*g_hold));
}

struct remover {
	struct ibv_mr *mr;
	_Atomic bool is_done;
	int rc;
};

static void *remover_main(void *arg)
{
	struct remover *r = arg;

	r->rc = ibv_dereg_mr(r->mr);
	atomic_store(&r->is_done, true);
	return NULL;
}

/* A region is nobody's any more from the beginning of its end, which may wait for a peer's copy. */
static void dereg__again_while_a_copy_ends(void **state)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct remover r = {0};
	pthread_t thread;
	struct end a;
	int status;
	pid_t pid;

	(void)state;
	hold_open(&a, &pid);
	r.mr = a.mr;
	assert_int_equal(pthread_create(&thread, NULL, remover_main, &r), 0);
	while (verbs_obj_get(OBJ_MR, a.mr))
		assert_true(clk_now_ns(NULL) < until);
	assert_false(r.is_done);
	assert_int_equal(ibv_dereg_mr(a.mr), EINVAL);
	assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
	assert_false(r.is_done);
	atomic_store(&g_hold->may_go, 1);
	pthread_join(thread, NULL);
	assert_int_equal(r.rc, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	a.mr = ibv_reg_mr(a.pd, a.buf, LEN, ACCESS);
	end_close(&a);
	munmap(g_hold, sizeof(*g_hold));
}

static const struct CMUnitTest rdma_rows[] = {
	cmocka_unit_test(rkey__belongs_to_its_domain),
	cmocka_unit_test(rdma__by_state_of_its_queue_pair),
	cmocka_unit_test(rdma__keeps_off_writers),
};

/* What the network is, is read once: each in a process of its own. */
static int rdma_group(const char *name, const char *net)
{
	pid_t pid = unit_fork();
	int status;

	if (!pid) {
		setenv("SOFTFABRIC_NET", net, 1);
		exit(_cmocka_run_group_tests(name, rdma_rows, ARRAY_SIZE(rdma_rows), NULL, NULL));
	}
	return waitpid(pid, &status, 0) != pid || status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build__state_changes_meanwhile),
		cmocka_unit_test(modify__refusals),
		cmocka_unit_test(reset__old_queues_go),
		cmocka_unit_test(query__draining),
		cmocka_unit_test(modify__two_threads_and_a_copy),
		cmocka_unit_test(dereg__again_while_a_copy_ends),
	};

	int bad = rdma_group("udp", "udp") | rdma_group("memory", "");

	return bad | cmocka_run_group_tests(tests, NULL, NULL);
}
