// SPDX-License-Identifier: BSD-2-Clause
// Address handles, and what (address handle, QPN, Q_Key) means to each queue pair.
#include "verbs/verbs_int.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv, struct ibv_ah_attr *attr)
{
	struct vpd *pd = verbs_obj_get(OBJ_PD, ibv);
	struct vctx *ctx;
	struct vah *ah;
	int rc;

	if (!pd || !attr || !attr->is_global || attr->port_num != 1 || attr->grh.sgid_index)
		return verbs_fail(EINVAL);
	ctx = pd->obj.ctx;
	ah = mem_alloc(sizeof(*ah));
	if (!ah)
		return verbs_fail(ENOMEM);
	rc = verbs_ctx_enter(ctx) ? 0 : -EIO;
	if (!rc) {
		rc = efanic_ah_open(ctx->nic, attr->grh.dgid.raw, &ah->ahn);
		if (!rc)
			pd->users++;
		lock_release(&ctx->lock);
	}
	if (rc) {
		mem_free(ah);
		return verbs_fail(-rc);
	}
	ah->ibv = (struct ibv_ah){.context = ibv->context, .pd = ibv, .handle = ah->ahn};
	verbs_obj_add(&ah->obj, OBJ_AH, ctx, &ah->ibv);
	return &ah->ibv;
}

int ibv_init_ah_from_wc(struct ibv_context *ibv, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	if (!verbs_ctx(ibv) || !attr || port != 1)
		return -1;
	memset(attr, 0, sizeof(*attr));
	attr->port_num = port;
	if (!wc || !grh || !(wc->wc_flags & IBV_WC_GRH)) {
		verbs_refuse("ibv_init_ah_from_wc", "this adapter's completions have no route in them");
		return -1;
	}
	attr->is_global = 1;
	attr->grh.dgid = grh->sgid;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct vpd *p = verbs_obj_get(OBJ_PD, pd);
	struct ibv_ah_attr attr;

	if (!p || ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

/* --- destinations --- */

int verbs_dst_init(struct vqp *qp)
{
	qp->dst_bits = DST_BITS_MIN;
	qp->dst = mem_alloc(sizeof(*qp->dst) << qp->dst_bits);
	return qp->dst ? 0 : ENOMEM;
}

/* Handles lie as close to one another as numbers do: each is spread by itself, or many pairs of them would meet. */
static struct vdst **bucket_of(struct vqp *qp, const struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	uint64_t h = (uintptr_t)ah * 0x9e3779b97f4a7c15ULL;

	h = ((h ^ h >> 32) + ((uint64_t)qkey << 32 | qpn)) * 0xd6e8feb86659fd93ULL;
	return &qp->dst[h >> (64 - qp->dst_bits)];
}

/* Twice the chains. Without memory they stay as they are, only longer. */
static void tab_grow(struct vqp *qp)
{
	struct vdst **old = qp->dst, **tab = mem_alloc(2 * sizeof(*tab) << qp->dst_bits);
	size_t cnt = (size_t)1 << qp->dst_bits;

	if (!tab)
		return;
	qp->dst = tab;
	qp->dst_bits++;
	for (size_t i = 0; i < cnt; i++) {
		for (struct vdst *d = old[i], *next; d; d = next) {
			struct vdst **at = bucket_of(qp, d->ah, d->qpn, d->qkey);

			next = d->next;
			d->next = *at;
			*at = d;
		}
	}
	mem_free(old);
}

/* Into its chain, and into its handle's list. */
static void dst_hook(struct vdst *d, struct vah *ah)
{
	struct vdst **at;

	if (d->qp->dst_cnt++ >> d->qp->dst_bits)
		tab_grow(d->qp);
	at = bucket_of(d->qp, d->ah, d->qpn, d->qkey);
	d->next = *at;
	*at = d;
	d->ah_next = ah->dsts;
	d->ah_at = &ah->dsts;
	if (ah->dsts)
		ah->dsts->ah_at = &d->ah_next;
	ah->dsts = d;
}

static void dst_drop(struct vdst *d)
{
	struct vdst **at = bucket_of(d->qp, d->ah, d->qpn, d->qkey);

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	*d->ah_at = d->ah_next;
	if (d->ah_next)
		d->ah_next->ah_at = d->ah_at;
	if (d->qp->last == d)
		d->qp->last = NULL;
	d->qp->dst_cnt--;
	efanic_dst_put(d->dst);
	mem_free(d);
}

void verbs_dst_drop_all(struct vqp *qp)
{
	for (size_t i = 0; i < (size_t)1 << qp->dst_bits; i++)
		while (qp->dst[i])
			dst_drop(qp->dst[i]);
}

static bool is_it(const struct vdst *d, const struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	return d->ah == ah && d->qpn == qpn && d->qkey == qkey;
}

/* How a request ends whose destination cannot be had. */
static uint8_t status_of(int rc)
{
	switch (rc) {
	case -EINVAL:
		return EFANIC_LOCAL_INVALID_AH;
	case -ENETUNREACH:
		return EFANIC_LOCAL_UNREACH_REMOTE;
	default:
		return EFANIC_LOCAL_QP_INTERNAL;
	}
}

static struct vdst *dst_make(struct vqp *qp, const struct ibv_ah *ibv, uint32_t qpn, uint32_t qkey, uint8_t *status)
{
	struct vah *ah = verbs_obj_get(OBJ_AH, ibv);
	struct vdst *d;
	int rc;

	*status = EFANIC_LOCAL_INVALID_AH;
	if (!ah || ah->ibv.pd != qp->qp.pd)
		return NULL;
	if (qp->dst_cnt >= DST_MAX)
		verbs_dst_drop_all(qp);
	d = mem_alloc(sizeof(*d));
	*status = EFANIC_LOCAL_QP_INTERNAL;
	if (!d)
		return NULL;
	rc = efanic_dst_get(qp->dev, ah->ahn, (uint16_t)qpn, qkey, &d->dst);
	if (rc) {
		*status = status_of(rc);
		mem_free(d);
		return NULL;
	}
	d->ah = ibv;
	d->qpn = qpn;
	d->qkey = qkey;
	d->qp = qp;
	dst_hook(d, ah);
	return d;
}

struct efanic_dst *verbs_dst_get(struct vqp *qp, const struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint8_t *status)
{
	struct vdst *d = qp->last;

	if (likely(d && is_it(d, ah, qpn, qkey)))
		return d->dst;
	d = *bucket_of(qp, ah, qpn, qkey);
	while (d && !is_it(d, ah, qpn, qkey))
		d = d->next;
	if (!d)
		d = dst_make(qp, ah, qpn, qkey, status);
	if (!d)
		return NULL;
	qp->last = d;
	return d->dst;
}

/* --- the end of a handle --- */

/* Queue pairs forget it first: requests that name it end with INVALID_AH from now on. */
void verbs_ah_free(struct vah *ah)
{
	struct vpd *pd = verbs_obj_get(OBJ_PD, ah->ibv.pd);
	struct vctx *ctx = ah->obj.ctx;

	verbs_obj_del(&ah->obj);
	if (verbs_ctx_enter(ctx)) {
		while (ah->dsts)
			dst_drop(ah->dsts);
		efanic_ah_close(ctx->nic, ah->ahn);
		if (pd)
			pd->users--;
		lock_release(&ctx->lock);
	}
	mem_free(ah);
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
	struct vah *ah = verbs_obj_get(OBJ_AH, ibv);

	if (!ah)
		return EINVAL;
	verbs_ah_free(ah);
	return 0;
}
