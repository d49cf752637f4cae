// SPDX-License-Identifier: BSD-2-Clause
// What the tests of verbs/ share: one program's objects, made and taken down.
#ifndef SF_TESTS_UNIT_VERBS_END_H
#define SF_TESTS_UNIT_VERBS_END_H

#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "verbs/verbs_int.h"

#define WAIT_NS (20 * NS_PER_SEC * unit_slow())
#define QKEY	0x11111111u
#define LEN	4096u

#define OPS                                                                                                            \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |   \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)

/* One program's objects. */
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah; /* to the one adapter of this host */
	uint8_t *buf;
};

static inline struct ibv_device *device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *dev;

	assert_non_null(list);
	dev = list[0];
	assert_non_null(dev);
	ibv_free_device_list(list);
	return dev;
}

static inline struct ibv_qp *srd_make(struct end *e, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = 32},
		.qp_type = IBV_QPT_DRIVER,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = OPS,
	};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};

	return efadv_create_qp_ex(e->ctx, &attr, &efa, sizeof(efa));
}

static inline void to_rts(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static inline void end_open(struct end *e)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};

	memset(e, 0, sizeof(*e));
	e->ctx = ibv_open_device(device());
	assert_non_null(e->ctx);
	e->pd = ibv_alloc_pd(e->ctx);
	assert_non_null(e->pd);
	e->ch = ibv_create_comp_channel(e->ctx);
	assert_non_null(e->ch);
	e->cq = ibv_create_cq(e->ctx, 8, e, e->ch, 0); /* shorter than the queues: the ring grows */
	assert_non_null(e->cq);
	e->qp = srd_make(e, e->pd);
	assert_non_null(e->qp);
	e->buf = calloc(2, LEN);
	e->mr = ibv_reg_mr(e->pd, e->buf, 2 * LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(e->mr);
	assert_int_equal(ibv_query_gid(e->ctx, 1, 0, &ah.grh.dgid), 0);
	e->ah = ibv_create_ah(e->pd, &ah);
	assert_non_null(e->ah);
	to_rts(e->qp, QKEY);
}

static inline void end_close(struct end *e)
{
	assert_int_equal(ibv_dealloc_pd(e->pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(e->cq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(e->ch), EBUSY);
	assert_int_equal(ibv_destroy_ah(e->ah), 0);
	assert_int_equal(ibv_dereg_mr(e->mr), 0);
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	assert_int_equal(ibv_destroy_cq(e->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(e->ch), 0);
	assert_int_equal(ibv_dealloc_pd(e->pd), 0);
	assert_int_equal(ibv_close_device(e->ctx), 0);
	free(e->buf);
}

static inline int recv_post(struct end *e, uint32_t lkey, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)e->buf + LEN, LEN, lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

static inline int send_post(struct end *e, const struct end *to, struct ibv_ah *ah, uint32_t lkey, uint32_t len,
		     unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)e->buf, len, lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags},
			   *bad = NULL;
	int err;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to->qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	err = ibv_post_send(e->qp, &wr, &bad);
	assert_true(!err || bad == &wr);
	return err;
}

static inline struct ibv_wc wc_get(struct end *e)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct ibv_wc wc = {0};

	while (!ibv_poll_cq(e->cq, 1, &wc))
		if (clk_now_ns(NULL) > until)
			fail_msg("no completion");
	return wc;
}

static inline struct ibv_qp *ud_make(struct end *e)
{
	struct ibv_qp_init_attr attr = {.send_cq = e->cq,
					.recv_cq = e->cq,
					.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &attr);

	assert_non_null(qp);
	to_rts(qp, QKEY);
	return qp;
}

/* @cnt messages to itself. */
static inline void to_itself(struct end *e, int cnt)
{
	for (int i = 0; i < cnt; i++) {
		assert_int_equal(recv_post(e, e->mr->lkey, 1), 0);
		assert_int_equal(send_post(e, e, e->ah, e->mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	}
}

#endif
