// SPDX-License-Identifier: BSD-2-Clause
// What EFA's own library offers beside verbs: SRD queue pairs, its attributes, who sent a message.
#include "verbs/verbs_int.h"

/* Structs grow from release to release, and say their length: what lies beyond what we know must be zero. */

static bool has_field(size_t off, size_t size, uint32_t inlen)
{
	return off + size <= inlen;
}
#define HAS(type_, member_, inlen_) has_field(offsetof(type_, member_), sizeof(((type_ *)0)->member_), inlen_)

static bool is_clear(const void *p, size_t from, size_t to)
{
	const uint8_t *b = p;

	for (size_t i = from; i < to; i++)
		if (b[i])
			return false;
	return true;
}

#define INLEN_MAX 4096u /* longer is no length of a struct */

/* --- attributes --- */

int efadv_query_device(struct ibv_context *ibv, struct efadv_device_attr *attr, uint32_t inlen)
{
	struct vctx *ctx = verbs_ctx(ibv);
	const struct efanic_dev_attr *a;

	if (!ctx)
		return EOPNOTSUPP;
	if (!attr || !HAS(struct efadv_device_attr, inline_buf_size, inlen) || inlen > INLEN_MAX)
		return EINVAL;
	a = &ctx->dev->attr;
	memset(attr, 0, inlen);
	attr->max_sq_wr = a->max_sq_wr;
	attr->max_rq_wr = a->max_rq_wr;
	attr->max_sq_sge = a->max_sq_sge;
	attr->max_rq_sge = a->max_rq_sge;
	attr->inline_buf_size = MIN(a->inline_buf_size, (uint16_t)INLINE_MAX);
	if (HAS(struct efadv_device_attr, device_caps, inlen))
		attr->device_caps = a->device_caps;
	if (HAS(struct efadv_device_attr, max_rdma_size, inlen))
		attr->max_rdma_size = a->max_rdma_size;
	return 0;
}

int efadv_query_ah(struct ibv_ah *ibv, struct efadv_ah_attr *attr, uint32_t inlen)
{
	struct vah *ah = verbs_obj_get(OBJ_AH, ibv);

	if (!ah || !attr || !HAS(struct efadv_ah_attr, ahn, inlen) || inlen > INLEN_MAX)
		return EINVAL;
	memset(attr, 0, inlen);
	attr->ahn = ah->ahn;
	return 0;
}

/* --- completion queues --- */

#define CQ_ATTR_LEN 16u /* of struct efadv_cq_init_attr: behind wc_flags begins what later releases have */

struct ibv_cq_ex *efadv_create_cq(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr,
				  struct efadv_cq_init_attr *efa, uint32_t inlen)
{
	struct vctx *ctx = verbs_ctx(ibv);
	uint64_t offered = 0;

	if (!ctx)
		return verbs_fail(EOPNOTSUPP);
	if (!attr || !efa || !HAS(struct efadv_cq_init_attr, wc_flags, inlen) || inlen > INLEN_MAX || efa->comp_mask)
		return verbs_fail(EINVAL);
	if (!is_clear(efa, CQ_ATTR_LEN, inlen))
		return verbs_fail(verbs_refuse("efadv_create_cq in memory of the program",
					       "the adapter's completion queues are its own"));
	if (ctx->dev->attr.device_caps & EFANIC_CAP_CQ_WITH_SGID)
		offered |= 1;
	if (ctx->dev->attr.device_caps & EFANIC_CAP_UNSOLICITED_WRITE_RECV)
		offered |= 2;
	if (efa->wc_flags & ~offered)
		return verbs_fail(verbs_refuse("efadv_create_cq with these wc_flags",
					       "this adapter's completions do not say that"));
	return verbs_cq_create(ibv, attr, efa->wc_flags);
}

struct efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *ex)
{
	struct vcq *cq = verbs_obj_get(OBJ_CQ, ex);

	return cq ? (struct efadv_cq *)&cq->efa : NULL;
}

/* --- queue pairs --- */

struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t driver_qp_type)
{
	const struct verbs_efa_qp_attr efa = {.driver_qp_type = driver_qp_type};
	struct ibv_qp_init_attr_ex ex;
	struct vpd *p = verbs_obj_get(OBJ_PD, pd);
	struct ibv_qp *qp;

	if (!p || !attr || attr->qp_type != IBV_QPT_DRIVER)
		return verbs_fail(EINVAL);
	verbs_attr_ex(attr, pd, &ex);
	qp = verbs_qp_create(p->obj.ctx, &ex, &efa);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp *efadv_create_qp_ex(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr,
				  struct efadv_qp_init_attr *efa, uint32_t inlen)
{
	struct vctx *ctx = verbs_ctx(ibv);
	struct verbs_efa_qp_attr own = {0};
	uint16_t flags = 0;

	if (!ctx)
		return verbs_fail(EOPNOTSUPP);
	if (!attr || !efa || attr->qp_type != IBV_QPT_DRIVER ||
	    !HAS(struct efadv_qp_init_attr, driver_qp_type, inlen) || inlen > INLEN_MAX)
		return verbs_fail(EINVAL);
	memcpy(&own, efa, MIN((size_t)inlen, sizeof(own)));
	if (own.comp_mask || own.reserved || !is_clear(efa, sizeof(own), inlen))
		return verbs_fail(EINVAL);
	if (ctx->dev->attr.device_caps & EFANIC_CAP_UNSOLICITED_WRITE_RECV)
		flags |= VERBS_EFA_QP_UNSOLICITED;
	if (own.flags & ~flags)
		return verbs_fail(verbs_refuse("efadv_create_qp_ex with these flags", "they are not this adapter's"));
	if (own.wr_flags & ~(uint64_t)VERBS_EFA_WR_HINTS)
		return verbs_fail(verbs_refuse("efadv_create_qp_ex with these wr_flags", "this adapter has no such"));
	return verbs_qp_create(ctx, attr, &own);
}

struct efadv_qp *efadv_qp_from_ibv_qp_ex(struct ibv_qp_ex *ex)
{
	struct vqp *qp = verbs_obj_get(OBJ_QP, ex);

	return qp ? (struct efadv_qp *)&qp->efa : NULL;
}
