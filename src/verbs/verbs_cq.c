// SPDX-License-Identifier: BSD-2-Clause
// Completion queues: the ring between the adapter and the program, and the old way to poll it.
#include "verbs/verbs_int.h"

#include <endian.h>

#define CQE_MAX	 32768u
#define RING_MAX (1u << 20) /* entries; more is an overrun, which the real adapter does not survive either */

/* --- the ring --- */

static int ring_grow(struct vcq *cq)
{
	uint32_t cnt = 2 * (cq->mask + 1), used = cq->tail - cq->head;
	struct vcqe *ring;

	if (cnt > RING_MAX)
		return ENOMEM;
	ring = mem_alloc(cnt * sizeof(*ring));
	if (!ring)
		return ENOMEM;
	for (uint32_t i = 0; i < used; i++)
		ring[i] = cq->ring[(cq->head + i) & cq->mask];
	mem_free(cq->ring);
	cq->ring = ring;
	cq->mask = cnt - 1;
	cq->head = 0;
	cq->tail = used;
	return 0;
}

void verbs_cq_put(struct vcq *cq, const struct vcqe *e)
{
	if (unlikely(cq->tail - cq->head > cq->mask) && ring_grow(cq)) {
		if (!cq->is_overrun)
			LOG_WARN("completion queue %u is full: completions are lost", cq->cq.handle);
		cq->is_overrun = true;
		verbs_qp_done(e); /* nobody will poll it */
		return;
	}
	cq->ring[cq->tail++ & cq->mask] = *e;
	if (unlikely(cq->is_armed))
		verbs_chan_event(cq);
}

void verbs_cq_take(void *ctx, const struct efanic_wc *wc)
{
	struct vqp *qp = ctx;
	bool is_rx = wc->opcode == EFANIC_OP_RECV || wc->opcode == EFANIC_OP_RECV_RDMA_IMM;
	struct vcqe e = {
		.qp = qp,
		.qpn = qp->qp.qp_num,
		.wr_id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
	};

	if (!is_rx) {
		e.slot = (uint16_t)(wc->wr_id - 1);
		e.wr_id = qp->sq->s[e.slot].wr_id;
		if (unlikely(qp->sq->s[e.slot].is_silent && wc->status == EFANIC_OK))
			verbs_qp_done(&e);
		else
			verbs_cq_put(qp->send_cq, &e);
		return;
	}
	e.imm = wc->imm;
	e.byte_len = wc->byte_len;
	e.src_qpn = wc->src_qpn;
	e.src_ahn = wc->src_ahn;
	e.has_imm = wc->has_imm;
	e.unsolicited = wc->unsolicited;
	efanic_wc_gid(wc, e.gid);
	verbs_cq_put(qp->recv_cq, &e);
}

void verbs_cq_forget(struct vcq *cq, const struct vqp *qp)
{
	uint32_t to = cq->head;

	for (uint32_t i = cq->head; i != cq->tail; i++)
		if (cq->ring[i & cq->mask].qp != qp)
			cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
	cq->tail = to;
}

int verbs_cq_look(struct vcq *cq)
{
	int n = 0;

	for (struct vcq_link *l = cq->qps; l; l = l->next)
		n += efanic_poll(l->qp->dev);
	return n;
}

static bool pop(struct vcq *cq, struct vcqe *e)
{
	if (cq->head == cq->tail)
		return false;
	*e = cq->ring[cq->head++ & cq->mask];
	verbs_qp_done(e);
	return true;
}

bool verbs_cq_pop(struct vcq *cq, struct vcqe *e)
{
	struct vctx *ctx = cq->obj.ctx;
	int events = 0;
	bool got;

	lock_acquire(&ctx->lock);
	got = pop(cq, e);
	if (!got) {
		events = verbs_cq_look(cq);
		got = pop(cq, e);
	}
	lock_release(&ctx->lock);
	if (!got && !events && ctx->nic) {
		verbs_serve_others(ctx);
		efanic_idle(ctx->nic);
	}
	return got;
}

/* --- what a completion says --- */

enum ibv_wc_status verbs_wc_status(uint8_t status)
{
	static const uint8_t of[EFANIC_STATUS_NUM] = {
		[EFANIC_OK] = IBV_WC_SUCCESS,
		[EFANIC_FLUSHED] = IBV_WC_WR_FLUSH_ERR,
		[EFANIC_LOCAL_QP_INTERNAL] = IBV_WC_LOC_QP_OP_ERR,
		[EFANIC_LOCAL_UNSUPPORTED_OP] = IBV_WC_LOC_QP_OP_ERR,
		[EFANIC_LOCAL_INVALID_AH] = IBV_WC_LOC_QP_OP_ERR,
		[EFANIC_LOCAL_INVALID_LKEY] = IBV_WC_LOC_PROT_ERR,
		[EFANIC_LOCAL_BAD_LENGTH] = IBV_WC_LOC_LEN_ERR,
		[EFANIC_REMOTE_BAD_ADDRESS] = IBV_WC_REM_ACCESS_ERR,
		[EFANIC_REMOTE_ABORT] = IBV_WC_REM_ABORT_ERR,
		[EFANIC_REMOTE_BAD_DEST_QPN] = IBV_WC_REM_INV_RD_REQ_ERR,
		[EFANIC_REMOTE_RNR] = IBV_WC_RNR_RETRY_EXC_ERR,
		[EFANIC_REMOTE_BAD_LENGTH] = IBV_WC_REM_INV_REQ_ERR,
		[EFANIC_REMOTE_BAD_STATUS] = IBV_WC_BAD_RESP_ERR,
		[EFANIC_LOCAL_UNRESP_REMOTE] = IBV_WC_RESP_TIMEOUT_ERR,
		[EFANIC_REMOTE_UNKNOWN_PEER] = IBV_WC_REM_OP_ERR,
		[EFANIC_LOCAL_UNREACH_REMOTE] = IBV_WC_RESP_TIMEOUT_ERR,
		[EFANIC_REMOTE_FEATURE_MISMATCH] = IBV_WC_REM_INV_REQ_ERR,
	};

	return status < EFANIC_STATUS_NUM && (of[status] || !status) ? of[status] : IBV_WC_GENERAL_ERR;
}

/* A READ says SEND, as the driver of the real adapter does: programs go by wr_id. */
enum ibv_wc_opcode verbs_wc_opcode(const struct vcqe *e)
{
	switch ((enum efanic_opcode)e->opcode) {
	case EFANIC_OP_WRITE:
		return IBV_WC_RDMA_WRITE;
	case EFANIC_OP_RECV:
		return IBV_WC_RECV;
	case EFANIC_OP_RECV_RDMA_IMM:
		return IBV_WC_RECV_RDMA_WITH_IMM;
	case EFANIC_OP_SEND:
	case EFANIC_OP_READ:
	case EFANIC_OP_NUM:
		break;
	}
	return IBV_WC_SEND;
}

static void wc_fill(const struct vcqe *e, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){
		.wr_id = e->wr_id,
		.status = verbs_wc_status(e->status),
		.opcode = verbs_wc_opcode(e),
		.vendor_err = e->status,
		.byte_len = e->byte_len,
		.imm_data = e->imm,
		.qp_num = e->qpn,
		.src_qp = e->src_qpn,
		.wc_flags = e->has_imm ? IBV_WC_WITH_IMM : 0,
		.slid = e->src_ahn,
	};
}

int verbs_poll_cq(struct ibv_cq *ibv, int cnt, struct ibv_wc *wc)
{
	struct vcq *cq = container_of(ibv, struct vcq, cq);
	struct vcqe e;
	int n = 0;

	if (cnt < 0 || (cnt && !wc))
		return -EINVAL;
	if (verbs_forked(cq->obj.ctx))
		return -EIO;
	lock_acquire(&cq->poll_lock);
	while (n < cnt && verbs_cq_pop(cq, &e))
		wc_fill(&e, &wc[n++]);
	lock_release(&cq->poll_lock);
	return n;
}

/* --- create and destroy --- */

static int attr_check(struct vctx *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	const struct vchan *ch;

	if (attr->comp_mask || attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS)
		return verbs_refuse("ibv_create_cq_ex", "only the standard wc_flags and no comp_mask");
	if (!attr->cqe || attr->cqe > CQE_MAX || attr->comp_vector >= (uint32_t)ctx->v.context.num_comp_vectors)
		return EINVAL;
	ch = attr->channel ? verbs_obj_get(OBJ_CHAN, attr->channel) : NULL;
	if (attr->channel && (!ch || ch->obj.ctx != ctx))
		return EINVAL;
	return 0;
}

static int cq_count(struct vctx *ctx)
{
	int err = 0;

	if (!verbs_ctx_enter(ctx))
		return EIO;
	if (ctx->cq_cnt >= ctx->dev->attr.max_cq) {
		LOG_WARN("%s: all %u completion queues in use (max_cq)", ctx->dev->ibv.name, ctx->dev->attr.max_cq);
		err = ENOMEM;
	} else {
		ctx->cq_cnt++;
	}
	lock_release(&ctx->lock);
	return err;
}

static void cq_fill(struct vcq *cq, struct ibv_context *ibv, const struct ibv_cq_init_attr_ex *attr, uint64_t efa_flags)
{
	static _Atomic uint32_t handle;

	cq->ex.context = ibv;
	cq->ex.channel = attr->channel;
	cq->ex.cq_context = attr->cq_context;
	cq->ex.handle = handle++;
	cq->ex.cqe = (int)(cq->mask + 1);
	pthread_mutex_init(&cq->ex.mutex, NULL);
	pthread_cond_init(&cq->ex.cond, NULL);
	verbs_cq_ex_fill(cq, attr->wc_flags, efa_flags);
}

struct ibv_cq_ex *verbs_cq_create(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr, uint64_t efa_flags)
{
	struct vctx *ctx = verbs_ctx(ibv);
	struct vcq *cq;
	int err;

	if (!ctx || !attr)
		return verbs_fail(EINVAL);
	err = attr_check(ctx, attr);
	if (!err)
		err = verbs_nic(ctx);
	if (!err)
		err = cq_count(ctx);
	if (err)
		return verbs_fail(err);
	cq = mem_alloc(sizeof(*cq));
	if (cq)
		cq->ring = mem_alloc(roundup_pow2(attr->cqe) * sizeof(*cq->ring));
	if (!cq || !cq->ring) {
		mem_free(cq);
		lock_acquire(&ctx->lock);
		ctx->cq_cnt--;
		lock_release(&ctx->lock);
		return verbs_fail(ENOMEM);
	}
	cq->mask = (uint32_t)roundup_pow2(attr->cqe) - 1;
	cq_fill(cq, ibv, attr, efa_flags);
	verbs_obj_add(&cq->obj, OBJ_CQ, ctx, &cq->cq);
	if (attr->channel)
		verbs_chan_cq_add(cq);
	return &cq->ex;
}

struct ibv_cq_ex *verbs_create_cq_ex(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr)
{
	return verbs_cq_create(ibv, attr, 0);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ibv, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			     int vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = vector < 0 ? UINT32_MAX : (uint32_t)vector,
	};
	struct ibv_cq_ex *ex = verbs_cq_create(ibv, &attr, 0);

	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	(void)cqe;
	if (!verbs_obj_get(OBJ_CQ, ibv))
		return EINVAL;
	return verbs_refuse("ibv_resize_cq", "this adapter's completion queues keep their size");
}

void verbs_cq_free(struct vcq *cq)
{
	struct vctx *ctx = cq->obj.ctx;

	verbs_obj_del(&cq->obj);
	if (verbs_ctx_enter(ctx)) {
		if (cq->ex.channel)
			verbs_chan_cq_del(cq);
		ctx->cq_cnt--;
		lock_release(&ctx->lock);
	}
	pthread_cond_destroy(&cq->ex.cond);
	pthread_mutex_destroy(&cq->ex.mutex);
	mem_free(cq->ring);
	mem_free(cq);
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct vcq *cq = verbs_obj_get(OBJ_CQ, ibv);
	struct vctx *ctx;
	uint32_t given;
	bool is_used;

	if (!cq)
		return EINVAL;
	ctx = cq->obj.ctx;
	if (!verbs_ctx_enter(ctx))
		return EIO;
	is_used = cq->users;
	if (!is_used && cq->ex.channel)
		verbs_chan_cq_del(cq); /* before the wait: else events come out in between */
	given = cq->ev_given;
	lock_release(&ctx->lock);
	if (is_used)
		return EBUSY;
	/* as documented: whoever got an event of it says so first */
	pthread_mutex_lock(&cq->ex.mutex);
	while (cq->ex.comp_events_completed != given)
		pthread_cond_wait(&cq->ex.cond, &cq->ex.mutex);
	pthread_mutex_unlock(&cq->ex.mutex);
	verbs_cq_free(cq);
	return 0;
}
