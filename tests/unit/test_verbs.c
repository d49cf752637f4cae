// SPDX-License-Identifier: BSD-2-Clause
// libibverbs' and libefa's functions on the soft adapter, from inside of one process: what a program gets, and what it
// gets for mistakes.
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static struct ibv_device *device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *dev;

	assert_non_null(list);
	dev = list[0];
	assert_non_null(dev);
	ibv_free_device_list(list);
	return dev;
}

static struct ibv_qp *srd_make(struct end *e, struct ibv_pd *pd)
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

static void to_rts(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void end_open(struct end *e)
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

static void end_close(struct end *e)
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

static int recv_post(struct end *e, uint32_t lkey, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)e->buf + LEN, LEN, lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

static int send_post(struct end *e, const struct end *to, struct ibv_ah *ah, uint32_t lkey, uint32_t len,
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

static struct ibv_wc wc_get(struct end *e)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct ibv_wc wc = {0};

	while (!ibv_poll_cq(e->cq, 1, &wc))
		if (clk_now_ns(NULL) > until)
			fail_msg("no completion");
	return wc;
}

/* --- a message, each kind --- */

static void send__old_and_extended(void **state)
{
	struct ibv_qp_ex *ex;
	struct end a, b;
	struct ibv_wc wc;

	(void)state;
	end_open(&a);
	end_open(&b);
	memset(a.buf, 0x5a, LEN);
	assert_int_equal(recv_post(&b, b.mr->lkey, 0), 0);
	assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 100, IBV_SEND_SIGNALED), 0);
	wc = wc_get(&b);
	assert_true(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 100 &&
		    wc.src_qp == a.qp->qp_num);
	assert_memory_equal(b.buf + LEN, a.buf, 100);
	wc = wc_get(&a);
	assert_true(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7 && wc.qp_num == a.qp->qp_num);

	assert_int_equal(recv_post(&b, b.mr->lkey, 8), 0);
	ex = ibv_qp_to_qp_ex(a.qp);
	ibv_wr_start(ex);
	ex->wr_id = 0;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_send_imm(ex, 0x01020304);
	ibv_wr_set_ud_addr(ex, a.ah, b.qp->qp_num, QKEY);
	ibv_wr_set_inline_data(ex, (void *)(uintptr_t) "inline", 6);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = wc_get(&b);
	assert_true(wc.wr_id == 8 && wc.byte_len == 6 && wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == 0x01020304);
	assert_memory_equal(b.buf + LEN, "inline", 6);
	wc = wc_get(&a);
	assert_true(wc.status == IBV_WC_SUCCESS && wc.wr_id == 0);
	end_close(&b);
	end_close(&a);
}

static void rdma__read_write(void **state)
{
	struct ibv_qp_ex *ex;
	struct end a, b;

	(void)state;
	end_open(&a);
	end_open(&b);
	memset(a.buf, 1, LEN);
	memset(b.buf + LEN, 2, LEN);
	ex = ibv_qp_to_qp_ex(a.qp);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = 1;
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.buf);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buf, LEN);
	ibv_wr_set_ud_addr(ex, a.ah, b.qp->qp_num, QKEY);
	ex->wr_id = 2;
	ibv_wr_rdma_read(ex, b.mr->rkey, (uintptr_t)b.buf + LEN);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buf + LEN, LEN);
	ibv_wr_set_ud_addr(ex, a.ah, b.qp->qp_num, QKEY);
	assert_int_equal(ibv_wr_complete(ex), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	assert_memory_equal(b.buf, a.buf, LEN);
	assert_memory_equal(a.buf + LEN, b.buf + LEN, LEN);
	end_close(&b);
	end_close(&a);
}

/* --- keys, handles, states --- */

/* Bad local keys are the adapter's to find: a completion says so. */
static void lkey__belongs_to_its_domain(void **state)
{
	struct ibv_pd *other;
	struct ibv_mr *mr;
	struct end a, b;

	(void)state;
	end_open(&a);
	end_open(&b);
	other = ibv_alloc_pd(a.ctx);
	mr = ibv_reg_mr(other, a.buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(send_post(&a, &b, a.ah, i ? 0 : mr->lkey, 64, IBV_SEND_SIGNALED), 0);
		assert_int_equal(wc_get(&a).status, IBV_WC_LOC_PROT_ERR);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	end_close(&b);
	end_close(&a);
}

static void ah__destroyed_or_none(void **state)
{
	struct ibv_ah *gone, *bad[2] = {NULL, NULL};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct end a, b;
	struct ibv_wc wc;

	(void)state;
	end_open(&a);
	end_open(&b);
	assert_int_equal(ibv_query_gid(a.ctx, 1, 0, &attr.grh.dgid), 0);
	gone = ibv_create_ah(a.pd, &attr);
	assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
	assert_int_equal(send_post(&a, &b, gone, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_ah(gone), 0);
	assert_int_equal(ibv_destroy_ah(gone), EINVAL);
	bad[1] = gone;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(send_post(&a, &b, bad[i], a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		wc = wc_get(&a);
		assert_true(wc.status == IBV_WC_LOC_QP_OP_ERR && wc.vendor_err == EFANIC_LOCAL_INVALID_AH);
	}
	attr.is_global = 0;
	assert_null(ibv_create_ah(a.pd, &attr));
	end_close(&b);
	end_close(&a);
}

static void post__mistakes(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr rwr = {.num_sge = 2}, *rbad;
	struct ibv_qp_ex *ex;
	struct end a;

	(void)state;
	end_open(&a);
	assert_int_equal(send_post(&a, &a, a.ah, a.mr->lkey, 8, 0), EINVAL); /* without a completion */
	assert_int_equal(send_post(&a, &a, a.ah, a.mr->lkey, 33, IBV_SEND_SIGNALED | IBV_SEND_INLINE), EINVAL);
	assert_int_equal(send_post(&a, &a, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED | IBV_SEND_FENCE), EINVAL);
	assert_int_equal(ibv_post_recv(a.qp, &rwr, &rbad), EINVAL);
	/* all or none: the second request is wrong */
	ex = ibv_qp_to_qp_ex(a.qp);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, a.ah, a.qp->qp_num, QKEY);
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buf, 8);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, a.buf, 33);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	/* slots are free again when their completions are polled, not before: no receive, so none ends */
	for (int i = 0; i < 16; i++)
		assert_int_equal(send_post(&a, &a, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(send_post(&a, &a, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), ENOMEM);
	for (int i = 0; i < 16; i++)
		assert_int_equal(recv_post(&a, a.mr->lkey, 1), 0);
	assert_int_equal(recv_post(&a, a.mr->lkey, 1), ENOMEM);
	for (int i = 0; i < 32; i++)
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(recv_post(&a, a.mr->lkey, 3), 0);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(send_post(&a, &a, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), EINVAL);
	assert_int_equal(recv_post(&a, a.mr->lkey, 1), EINVAL);
	assert_int_equal(wc_get(&a).status, IBV_WC_WR_FLUSH_ERR);
	end_close(&a);
}

static void handles__foreign(void **state)
{
	uint64_t junk[64] = {0};
	void *bad[2] = {NULL, junk};
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_DRIVER};
	struct efadv_qp_init_attr efa = {0};
	struct ibv_device_attr dev;
	void *cq_context;
	struct ibv_cq *cq;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_null(ibv_open_device(bad[i]));
		assert_int_equal(ibv_close_device(bad[i]), EINVAL);
		assert_int_equal(ibv_query_device(bad[i], &dev), EINVAL);
		assert_null(ibv_alloc_pd(bad[i]));
		assert_int_equal(ibv_dealloc_pd(bad[i]), EINVAL);
		assert_null(ibv_reg_mr_iova2(bad[i], junk, 8, (uintptr_t)junk, 0));
		assert_int_equal(ibv_dereg_mr(bad[i]), EINVAL);
		assert_null(ibv_create_comp_channel(bad[i]));
		assert_int_equal(ibv_destroy_comp_channel(bad[i]), EINVAL);
		assert_int_equal(ibv_get_cq_event(bad[i], &cq, &cq_context), -1);
		assert_null(ibv_create_cq(bad[i], 1, NULL, NULL, 0));
		assert_int_equal(ibv_destroy_cq(bad[i]), EINVAL);
		assert_null(ibv_create_qp(bad[i], NULL));
		assert_null(efadv_create_qp_ex(bad[i], &attr, &efa, sizeof(efa)));
		assert_null(efadv_create_driver_qp(bad[i], NULL, 0));
		assert_int_equal(ibv_modify_qp(bad[i], NULL, 0), EINVAL);
		assert_int_equal(ibv_destroy_qp(bad[i]), EINVAL);
		assert_null(ibv_qp_to_qp_ex(bad[i]));
		assert_null(ibv_create_ah(bad[i], NULL));
		assert_int_equal(ibv_destroy_ah(bad[i]), EINVAL);
		assert_null(efadv_cq_from_ibv_cq_ex(bad[i]));
		assert_null(ibv_create_srq(bad[i], NULL));
		assert_int_equal(errno, EOPNOTSUPP);
	}
}

static void create__limits(void **state)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 4097, .max_recv_wr = 1, .max_send_sge = 1}};
	struct efadv_device_attr dev;
	struct end a;

	(void)state;
	end_open(&a);
	attr.send_cq = attr.recv_cq = a.cq;
	assert_null(ibv_create_qp(a.pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.cap.max_send_wr = 100;
	attr.cap.max_send_sge = 3;
	assert_null(ibv_create_qp(a.pd, &attr));
	attr.cap.max_send_sge = 1;
	attr.cap.max_inline_data = 33;
	assert_null(ibv_create_qp(a.pd, &attr));
	attr.cap.max_inline_data = 0;
	attr.qp_type = IBV_QPT_RC;
	assert_null(ibv_create_qp(a.pd, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_reg_mr(a.pd, a.buf, LEN, IBV_ACCESS_REMOTE_ATOMIC));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_reg_mr(a.pd, a.buf, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(a.pd, (void *)4096, LEN, 0));
	assert_int_equal(errno, EFAULT);
	assert_int_equal(efadv_query_device(a.ctx, &dev, 8), EINVAL);
	assert_int_equal(efadv_query_device(a.ctx, &dev, sizeof(dev)), 0);
	assert_true(dev.max_sq_wr == 4096 && dev.inline_buf_size == 32 &&
		    dev.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ);
	end_close(&a);
}

/* What programs find that were compiled with later headers: the layout of rdma-core 56, and memory of their own. */
static void create__cq_of_later_releases(void **state)
{
	struct {
		uint64_t comp_mask, wc_flags;
		uint64_t memory[2];
	} efa = {.wc_flags = 3};
	struct later_cq {
		uint64_t comp_mask;
		int (*wc_read_sgid)(struct efadv_cq *cq, union ibv_gid *sgid);
		bool (*wc_is_unsolicited)(struct efadv_cq *cq);
	} *later;
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr *given = (void *)&efa;
	struct ibv_cq_ex *cq;
	struct end a;

	(void)state;
	end_open(&a);
	cq = efadv_create_cq(a.ctx, &attr, given, sizeof(efa));
	assert_non_null(cq);
	later = (void *)efadv_cq_from_ibv_cq_ex(cq);
	assert_true(later->wc_read_sgid && later->wc_is_unsolicited);
	assert_false(later->wc_is_unsolicited((struct efadv_cq *)later));
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	efa.memory[1] = 1;
	assert_null(efadv_create_cq(a.ctx, &attr, given, sizeof(efa)));
	assert_int_equal(errno, EOPNOTSUPP);
	end_close(&a);
}

/* A channel is under its context's lock. */
static void create__cq_with_a_foreign_channel(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4};
	struct end a, b;

	(void)state;
	end_open(&a);
	end_open(&b);
	attr.channel = b.ch;
	assert_null(ibv_create_cq_ex(a.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(a.ctx, 4, NULL, b.ch, 0));
	assert_int_equal(errno, EINVAL);
	end_close(&b);
	end_close(&a);
}

static void qkey__until_first_traffic(void **state)
{
	struct ibv_qp_attr attr = {.qkey = QKEY + 1};
	struct end a, b;

	(void)state;
	end_open(&a);
	end_open(&b);
	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_QKEY), 0);
	assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(wc_get(&a).vendor_err, EFANIC_REMOTE_BAD_DEST_QPN);
	attr.qkey = QKEY;
	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_QKEY), 0); /* nobody has reached it yet */
	assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
	assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(wc_get(&b).status, IBV_WC_SUCCESS);
	attr.qkey = QKEY + 2;
	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_QKEY), EOPNOTSUPP);
	end_close(&b);
	end_close(&a);
}

/* --- waiting --- */

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
	assert_true(best < NS_PER_MS);
	end_close(&b);
	end_close(&a);
}

static struct ibv_qp *ud_make(struct end *e)
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
	assert_true(best < NS_PER_MS);
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
static void channel__destroy_takes_its_events(void **state)
{
	volatile int *refcnt;
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
	refcnt = &b.ch->refcnt;
	until = clk_now_ns(NULL) + WAIT_NS;
	assert_int_equal(pthread_create(&thread, NULL, destroyer_run, b.cq), 0);
	while (*refcnt && clk_now_ns(NULL) < until)
		sched_yield();
	assert_int_equal(*refcnt, 0);
	assert_int_equal(ibv_get_cq_event(b.ch, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	ibv_ack_cq_events(b.cq, 1);
	assert_int_equal(pthread_join(thread, &context), 0);
	assert_null(context);
	assert_int_equal(ibv_close_device(b.ctx), 0);
	free(b.buf);
	end_close(&a);
}

/* --- many, and the end --- */

static void qps__64_in_one_process(void **state)
{
	struct ibv_qp *qp[64], *own;
	struct end a, b;

	(void)state;
	end_open(&a);
	end_open(&b);
	own = b.qp;
	for (int i = 0; i < 64; i++) {
		qp[i] = b.qp = srd_make(&b, b.pd);
		assert_non_null(qp[i]);
		to_rts(qp[i], QKEY);
		assert_int_equal(recv_post(&b, b.mr->lkey, (uint64_t)i), 0);
	}
	for (int i = 0; i < 64; i++) {
		b.qp = qp[i];
		assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(wc_get(&b).wr_id, i);
		assert_int_equal(wc_get(&a).status, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < 64; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	b.qp = own;
	end_close(&b);
	end_close(&a);
}

static void fork__child_is_refused(void **state)
{
	struct end a, b;
	int status;
	pid_t pid;

	(void)state;
	end_open(&a);
	end_open(&b);
	pid = fork();
	if (!pid)
		_exit(ibv_alloc_pd(a.ctx) || errno != EIO ||
		      send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED) != EIO);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(recv_post(&b, b.mr->lkey, 1), 0);
	assert_int_equal(send_post(&a, &b, a.ah, a.mr->lkey, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(wc_get(&b).status, IBV_WC_SUCCESS);
	end_close(&b);
	end_close(&a);
}

/* A context that closes takes along what the program has left open. */
static void close__with_objects(void **state)
{
	struct stat st;
	struct end a;

	(void)state;
	end_open(&a);
	assert_int_equal(stat(getenv("SYSFS_PATH"), &st), 0);
	assert_int_equal(access("/dev/infiniband/uverbs0", R_OK | W_OK), 0);
	assert_int_not_equal(access("/dev/infiniband/uverbs7", R_OK | W_OK), 0);
	assert_int_equal(ibv_close_device(a.ctx), 0);
	assert_int_equal(ibv_destroy_qp(a.qp), EINVAL);
	assert_int_equal(ibv_dealloc_pd(a.pd), EINVAL);
	free(a.buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handles__foreign),	  cmocka_unit_test(send__old_and_extended),
		cmocka_unit_test(rdma__read_write),	  cmocka_unit_test(lkey__belongs_to_its_domain),
		cmocka_unit_test(ah__destroyed_or_none),  cmocka_unit_test(post__mistakes),
		cmocka_unit_test(create__limits),	  cmocka_unit_test(qkey__until_first_traffic),
		cmocka_unit_test(channel__wakes),	  cmocka_unit_test(channel__wakes_a_sleeper),
		cmocka_unit_test(qps__64_in_one_process), cmocka_unit_test(fork__child_is_refused),
		cmocka_unit_test(close__with_objects),	  cmocka_unit_test(create__cq_of_later_releases),
		cmocka_unit_test(channel__tells_of_what_ends_at_once),
		cmocka_unit_test(channel__tells_of_what_others_took),
		cmocka_unit_test(create__cq_with_a_foreign_channel),
		cmocka_unit_test(channel__destroy_takes_its_events),
	};
	pid_t pid = fork();
	int status;

	/* what the network is, is read once: over UDP in a process of their own */
	if (!pid) {
		const struct CMUnitTest udp[] = {
			cmocka_unit_test(channel__wakes),
			cmocka_unit_test(channel__wakes_a_sleeper),
			cmocka_unit_test(channel__tells_of_what_ends_at_once),
			cmocka_unit_test(channel__tells_of_what_others_took),
		};

		setenv("SOFTFABRIC_NET", "udp", 1);
		exit(cmocka_run_group_tests_name("udp", udp, NULL, NULL));
	}
	if (waitpid(pid, &status, 0) != pid || status)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
