// SPDX-License-Identifier: BSD-2-Clause
// Posting, the old way: lists of requests; and receives.
#include "verbs/verbs_int.h"

#define LKEY_NEVER UINT32_MAX /* no region has it */

struct efanic_sge verbs_sge(uint64_t addr, uint32_t len, uint32_t lkey)
{
	return (struct efanic_sge){(void *)(uintptr_t)addr, len, lkey == EFANIC_LKEY_INTERNAL ? LKEY_NEVER : lkey};
}

/* Every completion tells of itself, so that SOLICITED changes nothing. */
static unsigned flags_offered(const struct vqp *qp)
{
	return IBV_SEND_SIGNALED | IBV_SEND_INLINE | (qp->obj.ctx->dev->attr.is_lenient ? IBV_SEND_SOLICITED : 0);
}

int verbs_send_check(struct vqp *qp, unsigned flags)
{
	if (unlikely(!verbs_is_sending(qp))) {
		LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: send in state %d, needs RTS or SQD", qp->qp.qp_num,
			(int)qp->qp.state);
		return EINVAL;
	}
	if (unlikely(verbs_is_silent(qp, flags) && !qp->obj.ctx->dev->attr.is_lenient)) {
		LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: sends without a completion are not this adapter's",
			qp->qp.qp_num);
		return EINVAL;
	}
	if (unlikely(flags & ~(unsigned)(IBV_SEND_SIGNALED | IBV_SEND_INLINE)) && flags & ~flags_offered(qp)) {
		LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: send flags 0x%x, this adapter has SIGNALED and INLINE",
			qp->qp.qp_num, flags);
		return EINVAL;
	}
	return 0;
}

/* A request that never reached the adapter ends with @status. */
static void end_at_once(struct vqp *qp, const struct vbuild *b, uint8_t status)
{
	const struct vcqe e = {
		.qp = qp,
		.qpn = qp->qp.qp_num,
		.wr_id = qp->sq->s[b->wr.wr_id - 1].wr_id,
		.slot = (uint16_t)(b->wr.wr_id - 1),
		.status = status,
		.opcode = b->wr.opcode,
	};

	verbs_cq_put(qp->send_cq, &e);
}

int verbs_send_one(struct vqp *qp, struct vbuild *b)
{
	uint16_t slot = qp->sq_free;
	struct vswr *s = &qp->sq->s[slot];
	uint8_t status = EFANIC_LOCAL_UNSUPPORTED_OP;
	int rc = 0;

	qp->sq_free = s->next;
	qp->sq_used++;
	s->wr_id = b->wr.wr_id;
	s->is_silent = b->is_silent;
	b->wr.wr_id = (uint64_t)slot + 1; /* 0 has a meaning of its own there */
	if (b->is_inline) {
		memcpy(s->data, b->data, b->wr.sge[0].len);
		b->wr.sge[0].addr = s->data;
		b->wr.sge[0].lkey = EFANIC_LKEY_INTERNAL;
		b->wr.sge_cnt = 1;
	} else if (b->wr.opcode != EFANIC_OP_SEND && !b->wr.sge_cnt) {
		b->wr.sge[0] = (struct efanic_sge){s->data, 0, EFANIC_LKEY_INTERNAL};
		b->wr.sge_cnt = 1;
	}
	b->wr.dst = verbs_dst_get(qp, b->ah, b->qpn, b->qkey, &status);
	if (likely(b->wr.dst))
		rc = efanic_post_send(qp->dev, &b->wr);
	if (unlikely(rc == -ENOMEM)) { /* the adapter still has requests of before a reset */
		qp->sq_free = slot;
		qp->sq_used--;
		return ENOMEM;
	}
	if (unlikely(!b->wr.dst || rc))
		end_at_once(qp, b, status);
	return 0;
}

/* --- ibv_post_send --- */

static int inline_fill(struct vqp *qp, const struct ibv_send_wr *wr, struct vbuild *b)
{
	size_t len = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > qp->cap.max_inline_data - len) {
			LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: more than %u bytes inline", qp->qp.qp_num,
				qp->cap.max_inline_data);
			return EINVAL;
		}
		memcpy(b->data + len, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		len += wr->sg_list[i].length;
	}
	b->is_inline = true;
	b->wr.sge[0].len = (uint32_t)len;
	return 0;
}

static int pieces_fill(struct vqp *qp, const struct ibv_send_wr *wr, struct vbuild *b)
{
	if ((uint32_t)wr->num_sge > qp->cap.max_send_sge) {
		LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: send of %d pieces, limit %u", qp->qp.qp_num, wr->num_sge,
			qp->cap.max_send_sge);
		return EINVAL;
	}
	for (int i = 0; i < wr->num_sge; i++)
		b->wr.sge[i] = verbs_sge(wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey);
	b->wr.sge_cnt = (uint8_t)wr->num_sge;
	return 0;
}

static int wr_fill(struct vqp *qp, const struct ibv_send_wr *wr, struct vbuild *b)
{
	int err = verbs_send_check(qp, wr->send_flags);

	if (err)
		return err;
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
		LOG_FEW(LOG_LVL_WARN, qp->said,
			"QP %u: ibv_post_send() takes SEND with and without immediate, not opcode %d", qp->qp.qp_num,
			(int)wr->opcode);
		return EINVAL;
	}
	if (wr->num_sge < 0 || (wr->num_sge && !wr->sg_list))
		return EINVAL;
	b->wr.wr_id = wr->wr_id;
	b->wr.opcode = EFANIC_OP_SEND;
	b->wr.has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
	b->wr.imm = b->wr.has_imm ? wr->imm_data : 0;
	b->is_inline = false;
	b->is_silent = verbs_is_silent(qp, wr->send_flags);
	b->ah = wr->wr.ud.ah;
	b->qpn = wr->wr.ud.remote_qpn;
	b->qkey = wr->wr.ud.remote_qkey;
	return wr->send_flags & IBV_SEND_INLINE ? inline_fill(qp, wr, b) : pieces_fill(qp, wr, b);
}

int verbs_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vqp *qp = container_of(ibv, struct vqp, qp);
	struct vctx *ctx = qp->obj.ctx;
	struct vbuild b;
	int err = 0;

	if (verbs_forked(ctx)) {
		if (bad)
			*bad = wr;
		return EIO;
	}
	lock_acquire(&qp->sq_lock);
	lock_acquire(&ctx->lock);
	for (; wr; wr = wr->next) {
		err = wr_fill(qp, wr, &b);
		if (!err && qp->sq_used >= qp->sq_depth)
			err = ENOMEM;
		if (!err)
			err = verbs_send_one(qp, &b);
		if (err)
			break;
	}
	if (err && bad)
		*bad = wr;
	efanic_doorbell(qp->dev);
	verbs_chan_tell(qp);
	lock_release(&ctx->lock);
	lock_release(&qp->sq_lock);
	return err;
}

/* --- ibv_post_recv --- */

static int recv_check(struct vqp *qp, const struct ibv_recv_wr *wr)
{
	if (qp->qp.state == IBV_QPS_RESET || qp->qp.state == IBV_QPS_ERR) {
		LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: receive in state %d", qp->qp.qp_num, (int)qp->qp.state);
		return EINVAL;
	}
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge || (wr->num_sge && !wr->sg_list)) {
		LOG_FEW(LOG_LVL_WARN, qp->said, "QP %u: receive of %d pieces, limit %u", qp->qp.qp_num, wr->num_sge,
			qp->cap.max_recv_sge);
		return EINVAL;
	}
	return qp->rq_used >= qp->rq_depth ? ENOMEM : 0;
}

static int recv_one(struct vqp *qp, const struct ibv_recv_wr *wr)
{
	struct efanic_sge sge[EFANIC_SGE_MAX];
	int err = recv_check(qp, wr);

	if (err)
		return err;
	for (int i = 0; i < wr->num_sge; i++)
		sge[i] = verbs_sge(wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey);
	err = -efanic_post_recv(qp->dev, wr->wr_id, sge, wr->num_sge);
	if (!err)
		qp->rq_used++;
	return err;
}

int verbs_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vqp *qp = container_of(ibv, struct vqp, qp);
	struct vctx *ctx = qp->obj.ctx;
	int err = 0;

	if (!verbs_ctx_enter(ctx))
		err = EIO;
	for (; wr && !err; wr = wr->next) {
		err = recv_one(qp, wr);
		if (err)
			break;
	}
	if (err && bad)
		*bad = wr;
	if (err != EIO)
		lock_release(&ctx->lock);
	return err;
}
