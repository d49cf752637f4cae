// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs: limits, creation, states, the end.
#include "verbs/verbs_int.h"

#define QP_ATTR_MASK (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
#define QUERY_MASK                                                                                                     \
	(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_SQ_PSN | IBV_QP_CAP | IBV_QP_RNR_RETRY)

/* --- what can be had --- */

static int limits_check(const struct efanic_dev_attr *a, const struct ibv_qp_cap *cap)
{
	const struct {
		const char *what;
		uint32_t asked, max;
	} row[] = {
		{"max_send_sge", cap->max_send_sge, a->max_sq_sge},
		{"max_recv_sge", cap->max_recv_sge, a->max_rq_sge},
		{"max_send_wr", cap->max_send_wr, a->max_sq_wr},
		{"max_recv_wr", cap->max_recv_wr, a->max_rq_wr},
		{"max_inline_data", cap->max_inline_data, MIN(a->inline_buf_size, INLINE_MAX)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		if (row[i].asked <= row[i].max)
			continue;
		LOG_WARN("%s: queue pair with %s %u, limit %u", a->name, row[i].what, row[i].asked, row[i].max);
		return EINVAL;
	}
	return 0;
}

static uint64_t ops_offered(const struct efanic_dev_attr *a, bool is_srd)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (is_srd && a->device_caps & EFANIC_CAP_RDMA_READ)
		ops |= IBV_QP_EX_WITH_RDMA_READ;
	if (is_srd && a->device_caps & EFANIC_CAP_RDMA_WRITE)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	return ops;
}

static int attr_check(struct vctx *ctx, const struct ibv_qp_init_attr_ex *attr, const struct verbs_efa_qp_attr *efa)
{
	bool is_srd = attr->qp_type == IBV_QPT_DRIVER;

	if (attr->qp_type != IBV_QPT_UD && !is_srd)
		return verbs_refuse("ibv_create_qp of this type",
				    "this adapter has UD and, by efadv_create_qp_ex(), SRD");
	if (is_srd && (!efa || efa->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD))
		return verbs_refuse("ibv_create_qp of this driver type", "this adapter's is SRD");
	if (attr->comp_mask & ~(uint32_t)QP_ATTR_MASK)
		return verbs_refuse("ibv_create_qp_ex with this comp_mask", "this adapter takes PD and SEND_OPS_FLAGS");
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return EINVAL;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    attr->send_ops_flags & ~ops_offered(&ctx->dev->attr, is_srd))
		return verbs_refuse("ibv_create_qp_ex with these send operations",
				    "not all are this adapter's, or this type's");
	if (attr->srq)
		return verbs_refuse("ibv_create_qp with a shared receive queue", "this adapter has none");
	if (!verbs_obj_get(OBJ_PD, attr->pd) || !verbs_obj_get(OBJ_CQ, attr->send_cq) ||
	    !verbs_obj_get(OBJ_CQ, attr->recv_cq))
		return EINVAL;
	if (attr->pd->context != &ctx->v.context || attr->send_cq->context != attr->pd->context ||
	    attr->recv_cq->context != attr->pd->context)
		return EINVAL;
	return limits_check(&ctx->dev->attr, &attr->cap);
}

/* --- creation --- */

static struct vsq *sq_make(uint32_t depth)
{
	struct vsq *sq = mem_alloc(sizeof(*sq) + depth * sizeof(sq->s[0]));

	for (uint32_t i = 0; sq && i < depth; i++)
		sq->s[i].next = (uint16_t)(i + 1);
	return sq;
}

/* The sizes are rounded up as the driver of the real adapter does it. */
static void sizes_fill(struct vqp *qp, const struct efanic_dev_attr *a, struct ibv_qp_cap *cap)
{
	uint32_t sge = MAX(cap->max_recv_sge, 1u);

	qp->sq_depth = MIN((uint32_t)roundup_pow2(cap->max_send_wr), a->max_sq_wr);
	qp->rq_depth = MIN((uint32_t)roundup_pow2(sge * cap->max_recv_wr) / sge, a->max_rq_wr);
	cap->max_send_wr = qp->sq_depth;
	cap->max_recv_wr = qp->rq_depth;
	qp->cap = *cap;
}

static int dev_open(struct vctx *ctx, struct vqp *qp, const struct verbs_efa_qp_attr *efa)
{
	const struct efanic_qp_attr attr = {
		.type = qp->is_srd ? EFANIC_QP_SRD : EFANIC_QP_UD,
		.sq_depth = qp->sq_depth,
		.rq_depth = MAX(qp->rq_depth, 1u),
		.qkey = 1, /* until the program gives one */
		.pd = qp->pd->pdn,
		.late_qkey = qp->is_srd,
		.unsolicited_write_recv = efa && efa->flags & VERBS_EFA_QP_UNSOLICITED,
		.posted_buffers = true,
		.sl = efa ? efa->sl : 0,
		.on_wc = verbs_cq_take,
		.ctx = qp,
	};

	return -efanic_qp_open(ctx->nic, &attr, &qp->dev);
}

static void links_add(struct vctx *ctx, struct vqp *qp)
{
	qp->pd->users++;
	qp->next = ctx->qps;
	ctx->qps = qp;
	qp->send_link = (struct vcq_link){qp, qp->send_cq->qps};
	qp->send_cq->qps = &qp->send_link;
	qp->send_cq->users++;
	verbs_chan_watch(qp->send_cq, qp, true);
	if (qp->recv_cq == qp->send_cq)
		return;
	qp->recv_link = (struct vcq_link){qp, qp->recv_cq->qps};
	qp->recv_cq->qps = &qp->recv_link;
	qp->recv_cq->users++;
	verbs_chan_watch(qp->recv_cq, qp, true);
}

static void link_del(struct vcq *cq, struct vcq_link *link, struct vqp *qp)
{
	struct vcq_link **at = &cq->qps;

	while (*at && *at != link)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = link->next;
	verbs_chan_watch(cq, qp, false);
}

static void links_del(struct vctx *ctx, struct vqp *qp)
{
	struct vqp **at = &ctx->qps;

	while (*at != qp)
		at = &(*at)->next;
	*at = qp->next;
	link_del(qp->send_cq, &qp->send_link, qp);
	link_del(qp->recv_cq, &qp->recv_link, qp);
}

/* Only when the adapter has let go of @qp: until then completions may come, and the lock is free at times. */
static void users_drop(struct vqp *qp)
{
	qp->pd->users--;
	qp->send_cq->users--;
	if (qp->recv_cq != qp->send_cq)
		qp->recv_cq->users--;
}

/* With those that it replaced. */
static void sqs_free(struct vsq *sq)
{
	for (struct vsq *old; sq; sq = old) {
		old = sq->old;
		mem_free(sq);
	}
}

static void memory_free(struct vqp *qp)
{
	sqs_free(qp->sq);
	mem_free(qp->build);
	mem_free(qp->dst);
	mem_free(qp);
}

static int memory_make(struct vqp *qp)
{
	qp->sq = sq_make(qp->sq_depth);
	if (!qp->sq || verbs_dst_init(qp))
		return ENOMEM;
	if (!qp->has_ex)
		return 0;
	qp->build = mem_alloc(qp->sq_depth * sizeof(*qp->build));
	return qp->build ? 0 : ENOMEM;
}

static void qp_fill(struct vqp *qp, struct vctx *ctx, struct ibv_qp_init_attr_ex *attr)
{
	qp->is_srd = attr->qp_type == IBV_QPT_DRIVER;
	qp->has_ex = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp->sig_all = attr->sq_sig_all;
	qp->rnr_retry = EFANIC_RNR_INFINITE;
	qp->pd = verbs_obj_get(OBJ_PD, attr->pd);
	qp->send_cq = verbs_obj_get(OBJ_CQ, attr->send_cq);
	qp->recv_cq = verbs_obj_get(OBJ_CQ, attr->recv_cq);
	qp->qp.context = &ctx->v.context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = attr->pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	sizes_fill(qp, &ctx->dev->attr, &attr->cap);
}

struct ibv_qp *verbs_qp_create(struct vctx *ctx, struct ibv_qp_init_attr_ex *attr, const struct verbs_efa_qp_attr *efa)
{
	int err = attr_check(ctx, attr, efa);
	struct vqp *qp;

	if (err)
		return verbs_fail(err);
	qp = mem_alloc(sizeof(*qp));
	if (!qp)
		return verbs_fail(ENOMEM);
	qp_fill(qp, ctx, attr);
	err = memory_make(qp);
	if (!err && !verbs_ctx_enter(ctx))
		err = EIO;
	else if (!err) {
		err = dev_open(ctx, qp, efa);
		if (!err) {
			qp->qp.qp_num = qp->qp.handle = efanic_qp_qpn(qp->dev);
			links_add(ctx, qp);
		}
		lock_release(&ctx->lock);
	}
	if (err) {
		memory_free(qp);
		return verbs_fail(err);
	}
	if (qp->has_ex)
		verbs_build_fill(qp, attr->send_ops_flags, efa && efa->wr_flags & VERBS_EFA_WR_HINTS);
	verbs_obj_add(&qp->obj, OBJ_QP, ctx, &qp->qp);
	return &qp->qp;
}

struct ibv_qp *verbs_create_qp_ex(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr)
{
	struct vctx *ctx = verbs_ctx(ibv);

	if (!ctx || !attr)
		return verbs_fail(EINVAL);
	return verbs_qp_create(ctx, attr, NULL);
}

void verbs_attr_ex(const struct ibv_qp_init_attr *attr, struct ibv_pd *pd, struct ibv_qp_init_attr_ex *out)
{
	*out = (struct ibv_qp_init_attr_ex){
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct vpd *p = verbs_obj_get(OBJ_PD, pd);
	struct ibv_qp_init_attr_ex ex;
	struct ibv_qp *qp;

	if (!p || !attr)
		return verbs_fail(EINVAL);
	verbs_attr_ex(attr, pd, &ex);
	qp = verbs_qp_create(p->obj.ctx, &ex, NULL);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	struct vqp *qp = verbs_obj_get(OBJ_QP, ibv);

	return qp && qp->has_ex ? &qp->ex : NULL;
}

/* --- the end --- */

void verbs_qp_free(struct vqp *qp)
{
	struct vctx *ctx = qp->obj.ctx;

	verbs_obj_del(&qp->obj);
	if (verbs_ctx_enter(ctx)) {
		links_del(ctx, qp);
		verbs_dst_drop_all(qp);
		efanic_qp_close(qp->dev);
		verbs_cq_forget(qp->send_cq, qp);
		verbs_cq_forget(qp->recv_cq, qp);
		users_drop(qp);
		lock_release(&ctx->lock);
	}
	memory_free(qp);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct vqp *qp = verbs_obj_get(OBJ_QP, ibv);
	bool is_used = false;

	if (!qp)
		return EINVAL;
	if (verbs_ctx_enter(qp->obj.ctx)) {
		is_used = qp->waiters;
		lock_release(&qp->obj.ctx->lock);
	}
	if (is_used) /* another thread is in ibv_modify_qp(): so says the kernel, too */
		return EBUSY;
	verbs_qp_free(qp);
	return 0;
}

/* --- states --- */

static int mask_of(int mask, unsigned *out)
{
	static const struct {
		int ibv;
		unsigned efa;
	} row[] = {
		{IBV_QP_STATE, EFANIC_QPA_STATE},
		{IBV_QP_CUR_STATE, EFANIC_QPA_CUR_STATE},
		{IBV_QP_PKEY_INDEX, EFANIC_QPA_PKEY_INDEX},
		{IBV_QP_PORT, EFANIC_QPA_PORT},
		{IBV_QP_QKEY, EFANIC_QPA_QKEY},
		{IBV_QP_SQ_PSN, EFANIC_QPA_SQ_PSN},
		{IBV_QP_RNR_RETRY, EFANIC_QPA_RNR_RETRY},
		{IBV_QP_EN_SQD_ASYNC_NOTIFY, EFANIC_QPA_EN_SQD_ASYNC_NOTIFY},
	};

	*out = 0;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		if (!(mask & row[i].ibv))
			continue;
		*out |= row[i].efa;
		mask &= ~row[i].ibv;
	}
	return mask ? verbs_refuse("ibv_modify_qp of these attributes", "this adapter's queue pairs have no such ones")
		    : 0;
}

/* Nothing that was posted comes back any more. @spare: takes the place of a queue that the adapter still knows. */
static void sq_reset(struct vqp *qp, struct vsq *spare)
{
	struct vsq *sq = qp->sq;

	if (!efanic_sq_is_empty(qp->dev)) {
		spare->old = sq;
		qp->sq = spare;
	} else {
		sqs_free(sq->old);
		sq->old = NULL;
		for (uint32_t i = 0; i < qp->sq_depth; i++)
			sq->s[i].next = (uint16_t)(i + 1);
		mem_free(spare);
	}
	qp->sq_free = 0;
	qp->sq_used = qp->rq_used = 0;
	verbs_cq_forget(qp->send_cq, qp);
	verbs_cq_forget(qp->recv_cq, qp);
}

/* All that is known of the change, in one hold of the lock: another thread may be at the next one. */
static int modify(struct vqp *qp, const struct ibv_qp_attr *attr, int mask, unsigned efa_mask)
{
	const struct efanic_qp_mod mod = {
		.state = (enum efanic_qp_state)attr->qp_state,
		.pkey_index = attr->pkey_index,
		.port = attr->port_num,
		.qkey = attr->qkey,
		.sq_psn = attr->sq_psn,
		.rnr_retry = attr->rnr_retry,
	};
	bool resets = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET;
	struct vsq *spare = resets ? sq_make(qp->sq_depth) : NULL;
	int rc = resets && !spare ? -ENOMEM : efanic_qp_modify(qp->dev, &mod, efa_mask);

	verbs_chan_tell(qp);
	if (rc) {
		mem_free(spare);
		return -rc;
	}
	if (mask & IBV_QP_QKEY)
		qp->qkey = attr->qkey;
	if (mask & IBV_QP_SQ_PSN)
		qp->sq_psn = attr->sq_psn;
	if (mask & IBV_QP_RNR_RETRY)
		qp->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_STATE)
		__atomic_store_n(&qp->qp.state, attr->qp_state, __ATOMIC_RELAXED);
	if (resets)
		sq_reset(qp, spare);
	return 0;
}

/* Until peers have ended what they do here by RDMA, if they may not any more. The lock is free meanwhile. */
static void settle(struct vqp *qp)
{
	qp->waiters++;
	efanic_qp_settle(qp->dev);
	qp->waiters--;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct vqp *qp = verbs_obj_get(OBJ_QP, ibv);
	unsigned efa_mask;
	int err;

	/* a port that is none is the kernel's to refuse, which looks before the driver does */
	if (!qp || !attr || (mask & IBV_QP_PORT && attr->port_num != 1))
		return EINVAL;
	err = mask_of(mask, &efa_mask);
	if (err)
		return err;
	if (!verbs_ctx_enter(qp->obj.ctx))
		return EIO;
	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->qp.state)
		err = EINVAL;
	else
		err = modify(qp, attr, mask, efa_mask);
	if (!err && mask & IBV_QP_STATE)
		settle(qp);
	lock_release(&qp->obj.ctx->lock);
	return err;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct vqp *qp = verbs_obj_get(OBJ_QP, ibv);

	if (!qp || !attr || !init)
		return EINVAL;
	if (mask & ~QUERY_MASK)
		return verbs_refuse("ibv_query_qp of these attributes", "this adapter's queue pairs have no such ones");
	if (!verbs_ctx_enter(qp->obj.ctx))
		return EIO;
	*attr = (struct ibv_qp_attr){
		.qp_state = ibv->state,
		.cur_qp_state = ibv->state,
		.qkey = qp->qkey,
		.sq_psn = qp->sq_psn,
		.sq_draining = ibv->state == IBV_QPS_SQD && efanic_sq_drains(qp->dev),
		.port_num = 1,
		.rnr_retry = qp->rnr_retry,
		.cap = qp->cap,
	};
	lock_release(&qp->obj.ctx->lock);
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibv->qp_context,
		.send_cq = ibv->send_cq,
		.recv_cq = ibv->recv_cq,
		.cap = qp->cap,
		.qp_type = ibv->qp_type,
		.sq_sig_all = qp->sig_all,
	};
	return 0;
}

/* Bytes of a message may come in any order. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

void verbs_qp_done(const struct vcqe *e)
{
	struct vqp *qp = e->qp;

	if (e->opcode == EFANIC_OP_RECV || e->opcode == EFANIC_OP_RECV_RDMA_IMM) {
		if (!e->unsolicited && qp->rq_used)
			qp->rq_used--;
		return;
	}
	qp->sq->s[e->slot].next = qp->sq_free;
	qp->sq_free = e->slot;
	qp->sq_used--;
}
