// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs of verbs/: their states, and what is refused in which.
#include "verbs_end.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build__state_changes_meanwhile),
		cmocka_unit_test(modify__refusals),
		cmocka_unit_test(reset__old_queues_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
