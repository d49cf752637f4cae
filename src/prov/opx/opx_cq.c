// SPDX-License-Identifier: BSD-2-Clause
// Completion queues and counters. Source: doc/facts/opx.md#objects, #automatic-progress.
#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/opx/opx.h"

struct opx_cq {
	struct kit_cq kit;
	struct opx_domain *domain;
	struct opx_auto *thread; /* NULL: manual progress */
};

#define CQ_START 512       /* entries that a queue begins with: it grows, and a small ring stays in the cache */

/* --- completion queues --------------------------------------------------------------------------- */

/* A child after fork has no such thread. */
static int cq_close(struct fid *fid)
{
	struct opx_cq *cq = container_of(fid, struct opx_cq, kit.fid.fid);
	struct kit_domain *d = &cq->domain->kit;
	int ret;

	if (cq->kit.refs)
		return -FI_EBUSY;
	if (cq->thread)
		opx_auto_stop(cq->thread, !d->forked(d));
	cq->thread = NULL;
	ret = kit_cq_fini(&cq->kit);
	if (!ret)
		mem_free(cq);
	return ret;
}

void opx_cq_kick(struct kit_cq *kcq)
{
	struct opx_cq *cq = kcq ? container_of(kcq, struct opx_cq, kit) : NULL;

	if (cq && cq->thread)
		opx_auto_kick(cq->thread);
}

static const char *cq_strerror(struct kit_cq *cq, int prov_errno, const void *err_data)
{
	(void)cq, (void)err_data;
	return opx_strerror(prov_errno);
}

static struct fi_ops cq_fi_ops = KIT_FI_OPS(cq_close, kit_no_bind, kit_cq_control);

int opx_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_out, void *context)
{
	struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	struct fi_cq_attr a = attr ? *attr : (struct fi_cq_attr){0};
	struct opx_cq *cq;
	int ret;

	if (!cq_out)
		return -FI_EINVAL;
	a.size = a.size ? MIN(a.size, (size_t)CQ_START) : CQ_START;
	cq = mem_alloc(sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = d;
	ret = kit_cq_init(&cq->kit, &d->kit, &a, 1, true, context);
	if (ret)
		goto err_free;
	cq->kit.fid.fid.ops = &cq_fi_ops;
	cq->kit.strerror = cq_strerror;
	ret = d->auto_progress ? opx_auto_start(d, &cq->kit, &cq->thread) : 0;
	if (ret)
		goto err_cq;
	*cq_out = &cq->kit.fid;
	return 0;

err_cq:
	kit_cq_fini(&cq->kit);
err_free:
	mem_free(cq);
	return ret;
}

/* --- counters ------------------------------------------------------------------------------------ */

static int cntr_close(struct fid *fid)
{
	struct kit_cntr *c = container_of(fid, struct kit_cntr, fid.fid);
	struct opx_domain *d = container_of(c->domain, struct opx_domain, kit);
	int ret = kit_cntr_fini(c);

	if (ret)
		return ret;
	atomic_fetch_sub_explicit(&d->cntr_cnt, 1, memory_order_relaxed);
	mem_free(c);
	return 0;
}

static struct fi_ops cntr_fi_ops = KIT_FI_OPS(cntr_close, kit_no_bind, kit_cntr_control);

int opx_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr_out, void *context)
{
	struct opx_domain *d = container_of(domain, struct opx_domain, kit.fid);
	struct fi_cntr_attr a = attr ? *attr : (struct fi_cntr_attr){.wait_obj = FI_WAIT_UNSPEC};
	struct kit_cntr *c;
	int ret;

	if (!cntr_out)
		return -FI_EINVAL;
	if (atomic_fetch_add_explicit(&d->cntr_cnt, 1, memory_order_relaxed) >= OPX_CNTR_CNT) {
		LOG_WARN("counter refused: a domain has at most %d", OPX_CNTR_CNT);
		ret = -FI_EINVAL;
		goto err_cnt;
	}
	ret = -FI_ENOMEM;
	c = mem_alloc(sizeof(*c));
	if (!c)
		goto err_cnt;
	ret = kit_cntr_init(c, &d->kit, &a, true, context);
	if (ret)
		goto err_free;
	c->fid.fid.ops = &cntr_fi_ops;
	c->waits_by_poll = true;
	*cntr_out = &c->fid;
	return 0;

err_free:
	mem_free(c);
err_cnt:
	atomic_fetch_sub_explicit(&d->cntr_cnt, 1, memory_order_relaxed);
	return ret;
}
