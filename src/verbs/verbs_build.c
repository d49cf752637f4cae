// SPDX-License-Identifier: BSD-2-Clause
// Posting, the extended way: requests are put together between wr_start and wr_complete, and posted all or none.
#include "verbs/verbs_int.h"

static struct vqp *to_qp(struct ibv_qp_ex *ex)
{
	return container_of(ex, struct vqp, ex);
}

/* The request that is being put together. NULL: there is none, or the session has failed. */
static struct vbuild *cur(struct vqp *qp)
{
	return qp->build_err || !qp->build_cnt ? NULL : &qp->build[qp->build_cnt - 1];
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct vqp *qp = to_qp(ex);

	if (verbs_forked(qp->obj.ctx)) {
		qp->build_err = EIO;
		return;
	}
	lock_acquire(&qp->sq_lock);
	qp->build_cnt = 0;
	qp->build_err = 0;
}

static int post_all(struct vqp *qp)
{
	struct vctx *ctx = qp->obj.ctx;
	int err = 0;

	lock_acquire(&ctx->lock);
	if (qp->build_cnt && !verbs_is_sending(qp)) /* another thread may have changed it since begin() looked */
		err = EINVAL;
	else if (qp->build_cnt > MIN(qp->sq_depth - qp->sq_used, efanic_sq_free(qp->dev)))
		err = ENOMEM;
	for (uint32_t i = 0; i < qp->build_cnt && !err; i++)
		err = verbs_send_one(qp, &qp->build[i]);
	if (!err) {
		efanic_doorbell(qp->dev);
		verbs_chan_tell(qp);
	}
	lock_release(&ctx->lock);
	return err;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct vqp *qp = to_qp(ex);
	int err = qp->build_err;

	if (verbs_forked(qp->obj.ctx))
		return EIO;
	if (!err)
		err = post_all(qp);
	lock_release(&qp->sq_lock);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct vqp *qp = to_qp(ex);

	if (!verbs_forked(qp->obj.ctx))
		lock_release(&qp->sq_lock);
}

/* --- operations --- */

static struct vbuild *begin(struct ibv_qp_ex *ex, enum efanic_opcode opcode)
{
	struct vqp *qp = to_qp(ex);
	struct vbuild *b;

	if (unlikely(qp->build_err))
		return NULL;
	qp->build_err = verbs_send_check(qp, ex->wr_flags);
	if (!qp->build_err && qp->build_cnt >= qp->sq_depth)
		qp->build_err = ENOMEM;
	if (unlikely(qp->build_err))
		return NULL;
	b = &qp->build[qp->build_cnt++];
	b->wr.wr_id = ex->wr_id;
	b->wr.opcode = (uint8_t)opcode;
	b->wr.has_imm = false;
	b->wr.imm = 0;
	b->wr.sge_cnt = 0;
	b->ah = NULL;
	b->qpn = b->qkey = 0;
	b->is_inline = false;
	b->is_silent = verbs_is_silent(qp, ex->wr_flags);
	return b;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, EFANIC_OP_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct vbuild *b = begin(ex, EFANIC_OP_SEND);

	if (!b)
		return;
	b->wr.has_imm = true;
	b->wr.imm = imm;
}

static struct vbuild *rdma(struct ibv_qp_ex *ex, enum efanic_opcode opcode, uint32_t rkey, uint64_t raddr)
{
	struct vbuild *b = begin(ex, opcode);

	if (!b)
		return NULL;
	b->wr.rkey = rkey;
	b->wr.raddr = raddr;
	return b;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	rdma(ex, EFANIC_OP_READ, rkey, raddr);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	rdma(ex, EFANIC_OP_WRITE, rkey, raddr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	struct vbuild *b = rdma(ex, EFANIC_OP_WRITE, rkey, raddr);

	if (!b)
		return;
	b->wr.has_imm = true;
	b->wr.imm = imm;
}

/* --- where to, and what --- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct vbuild *b = cur(to_qp(ex));

	if (!b)
		return;
	b->ah = ah;
	b->qpn = qpn;
	b->qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t cnt, const struct ibv_sge *sge)
{
	struct vqp *qp = to_qp(ex);
	struct vbuild *b = cur(qp);
	size_t max;

	if (!b)
		return;
	max = b->wr.opcode == EFANIC_OP_SEND ? qp->cap.max_send_sge : 1;
	if (cnt > max || (cnt && !sge)) {
		LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: request of %zu pieces, limit %zu", qp->qp.qp_num, cnt, max);
		qp->build_err = EINVAL;
		return;
	}
	for (size_t i = 0; i < cnt; i++)
		b->wr.sge[i] = verbs_sge(sge[i].addr, sge[i].length, sge[i].lkey);
	b->wr.sge_cnt = (uint8_t)cnt;
	b->is_inline = false;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t len)
{
	struct vbuild *b = cur(to_qp(ex));

	if (!b)
		return;
	b->wr.sge[0] = verbs_sge(addr, len, lkey);
	b->wr.sge_cnt = 1;
	b->is_inline = false;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t cnt, const struct ibv_data_buf *buf)
{
	struct vqp *qp = to_qp(ex);
	struct vbuild *b = cur(qp);
	size_t len = 0;

	if (!b)
		return;
	for (size_t i = 0; i < cnt; i++) {
		if (buf[i].length > qp->cap.max_inline_data - len || b->wr.opcode != EFANIC_OP_SEND) {
			LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: inline are at most %u bytes of a SEND", qp->qp.qp_num,
				qp->cap.max_inline_data);
			qp->build_err = EINVAL;
			return;
		}
		memcpy(b->data + len, buf[i].addr, buf[i].length);
		len += buf[i].length;
	}
	b->wr.sge[0].len = (uint32_t)len;
	b->is_inline = true;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t len)
{
	const struct ibv_data_buf buf = {.addr = addr, .length = len};

	wr_set_inline_data_list(ex, 1, &buf);
}

/* A hint says how the real adapter ought to use its processors: this one has none. */
static void wr_set_processing_hints(struct verbs_efa_qp *dv, uint32_t hints)
{
	(void)dv;
	(void)hints;
}

void verbs_build_fill(struct vqp *qp, uint64_t ops, bool has_hints)
{
	struct ibv_qp_ex *ex = &qp->ex;

	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (has_hints)
		qp->efa.wr_set_processing_hints = wr_set_processing_hints;
}
