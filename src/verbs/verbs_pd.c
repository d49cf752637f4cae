// SPDX-License-Identifier: BSD-2-Clause
// Protection domains and memory regions.
#include "verbs/verbs_int.h"

#include "base/guard.h"

/* --- protection domains: a number by which the adapter tells whose a region is --- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
	struct vctx *ctx = verbs_ctx(ibv);
	struct vpd *pd;

	if (!ctx || verbs_nic(ctx))
		return NULL;
	pd = mem_alloc(sizeof(*pd));
	if (!pd)
		return verbs_fail(ENOMEM);
	if (!verbs_ctx_enter(ctx)) {
		mem_free(pd);
		return NULL;
	}
	if (ctx->pd_cnt >= ctx->dev->attr.max_pd || ctx->pd_last >= EFANIC_PD_MAX) { /* each has a number of its own */
		lock_release(&ctx->lock);
		LOG_WARN("%s: all %u protection domains in use (max_pd)", ctx->dev->ibv.name, ctx->dev->attr.max_pd);
		mem_free(pd);
		return verbs_fail(ENOMEM);
	}
	ctx->pd_cnt++;
	pd->pdn = ++ctx->pd_last;
	lock_release(&ctx->lock);
	pd->ibv = (struct ibv_pd){.context = ibv, .handle = pd->pdn};
	verbs_obj_add(&pd->obj, OBJ_PD, ctx, &pd->ibv);
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct vpd *pd = verbs_obj_get(OBJ_PD, ibv);
	struct vctx *ctx;

	if (!pd)
		return EINVAL;
	ctx = pd->obj.ctx;
	if (!verbs_ctx_enter(ctx))
		return EIO;
	if (pd->users) {
		lock_release(&ctx->lock);
		return EBUSY;
	}
	ctx->pd_cnt--;
	lock_release(&ctx->lock);
	verbs_obj_del(&pd->obj);
	mem_free(pd);
	return 0;
}

/* --- memory regions --- */

static int access_check(const struct vctx *ctx, unsigned access)
{
	unsigned known =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_OPTIONAL_RANGE;

	if (ctx->dev->attr.is_lenient)
		known |= IBV_ACCESS_REMOTE_ATOMIC; /* which no peer can use */
	if (access & ~known)
		return verbs_refuse("ibv_reg_mr",
				    "this adapter's access rights are local write, remote read and remote write");
	if (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static int mr_reg(struct vpd *pd, struct vmr *mr, void *addr, size_t len, unsigned access)
{
	const struct efanic_mr_attr attr = {
		.addr = addr,
		.len = len,
		.access = access & (EFANIC_ACCESS_LOCAL_WRITE | EFANIC_ACCESS_REMOTE_WRITE | EFANIC_ACCESS_REMOTE_READ),
		.pd = pd->pdn,
	};
	struct vctx *ctx = pd->obj.ctx;
	int rc;

	if (!verbs_ctx_enter(ctx))
		return EIO;
	rc = efanic_mr_reg(ctx->nic, &attr, &mr->mr);
	if (!rc) {
		pd->users++;
		mr->ibv.lkey = efanic_mr_lkey(mr->mr);
		mr->ibv.rkey = efanic_mr_rkey(mr->mr);
	}
	lock_release(&ctx->lock);
	return -rc;
}

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *ibv, void *addr, size_t len, uint64_t iova, unsigned access)
{
	struct vpd *pd = verbs_obj_get(OBJ_PD, ibv);
	struct vmr *mr;
	int err;

	if (!pd)
		return NULL;
	if (iova != (uintptr_t)addr)
		return verbs_fail(verbs_refuse("ibv_reg_mr_iova", "a region's addresses are the process's"));
	err = access_check(pd->obj.ctx, access);
	if (!err && (!len || (uintptr_t)addr + len < (uintptr_t)addr))
		err = EINVAL;
	if (!err)
		err = -guard_mapped(addr, len, access & IBV_ACCESS_LOCAL_WRITE);
	if (err)
		return verbs_fail(err);
	mr = mem_alloc(sizeof(*mr));
	if (!mr)
		return verbs_fail(ENOMEM);
	guard_init(); /* before peers may name it */
	mr->ibv = (struct ibv_mr){.context = ibv->context, .pd = ibv, .addr = addr, .length = len};
	err = mr_reg(pd, mr, addr, len, access);
	if (err) {
		mem_free(mr);
		return verbs_fail(err);
	}
	mr->ibv.handle = mr->ibv.lkey;
	verbs_obj_add(&mr->obj, OBJ_MR, pd->obj.ctx, &mr->ibv);
	return &mr->ibv;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, iova, (unsigned)access);
}

void verbs_mr_free(struct vmr *mr)
{
	struct vpd *pd = verbs_obj_get(OBJ_PD, mr->ibv.pd);
	struct vctx *ctx = mr->obj.ctx;

	verbs_obj_del(&mr->obj); /* first: the lock is free while peers end their copies, and another call may come */
	if (verbs_ctx_enter(ctx)) {
		efanic_mr_dereg(mr->mr);
		if (pd)
			pd->users--;
		lock_release(&ctx->lock);
	}
	mem_free(mr);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct vmr *mr = verbs_obj_get(OBJ_MR, ibv);

	if (!mr)
		return EINVAL;
	verbs_mr_free(mr);
	return 0;
}
