// SPDX-License-Identifier: BSD-2-Clause
// Messages of opx as direct calls; included by <rdma/fi_endpoint.h> with -DFABRIC_DIRECT. Endpoints themselves by their
// tables.
#ifndef FABRIC_DIRECT_ENDPOINT
#define FABRIC_DIRECT_ENDPOINT 1

#include <rdma/fi_endpoint.h>
#include "fi_direct_opx.h"

#ifdef __cplusplus
extern "C" {
#endif

FI_OPX_DIRECT_MSG(FI_OPX_DIRECT_DECLARE)

/* A fid is the first member of its object. */

FI_OPX_DIRECT_BY_TABLE(int, fi_passive_ep,
		       (struct fid_fabric * f, struct fi_info *info, struct fid_pep **pep, void *context),
		       f->ops->passive_ep(f, info, pep, context))
FI_OPX_DIRECT_BY_TABLE(int, fi_endpoint,
		       (struct fid_domain * d, struct fi_info *info, struct fid_ep **ep, void *context),
		       d->ops->endpoint(d, info, ep, context))
FI_OPX_DIRECT_BY_TABLE(int, fi_endpoint2,
		       (struct fid_domain * d, struct fi_info *info, struct fid_ep **ep, uint64_t flags, void *context),
		       !flags ? fi_endpoint(d, info, ep, context)
		       : FI_CHECK_OP(d->ops, struct fi_ops_domain, endpoint2)
			       ? d->ops->endpoint2(d, info, ep, flags, context)
			       : -FI_ENOSYS)
FI_OPX_DIRECT_BY_TABLE(int, fi_scalable_ep,
		       (struct fid_domain * d, struct fi_info *info, struct fid_ep **sep, void *context),
		       d->ops->scalable_ep(d, info, sep, context))
FI_OPX_DIRECT_BY_TABLE(int, fi_ep_bind, (struct fid_ep *ep, struct fid *to, uint64_t flags),
		       ep->fid.ops->bind(&ep->fid, to, flags))
FI_OPX_DIRECT_BY_TABLE(int, fi_pep_bind, (struct fid_pep *pep, struct fid *to, uint64_t flags),
		       pep->fid.ops->bind(&pep->fid, to, flags))
FI_OPX_DIRECT_BY_TABLE(int, fi_scalable_ep_bind, (struct fid_ep *sep, struct fid *to, uint64_t flags),
		       sep->fid.ops->bind(&sep->fid, to, flags))
FI_OPX_DIRECT_BY_TABLE(int, fi_enable, (struct fid_ep *ep), ep->fid.ops->control(&ep->fid, FI_ENABLE, NULL))
FI_OPX_DIRECT_BY_TABLE(ssize_t, fi_cancel, (fid_t fid, void *context),
		       ((struct fid_ep *)fid)->ops->cancel(fid, context))
FI_OPX_DIRECT_BY_TABLE(int, fi_setopt, (fid_t fid, int level, int name, const void *val, size_t len),
		       ((struct fid_ep *)fid)->ops->setopt(fid, level, name, val, len))
FI_OPX_DIRECT_BY_TABLE(int, fi_getopt, (fid_t fid, int level, int name, void *val, size_t *len),
		       ((struct fid_ep *)fid)->ops->getopt(fid, level, name, val, len))
FI_OPX_DIRECT_BY_TABLE(int, fi_tx_context,
		       (struct fid_ep * ep, int idx, struct fi_tx_attr *attr, struct fid_ep **tx, void *context),
		       ep->ops->tx_ctx(ep, idx, attr, tx, context))
FI_OPX_DIRECT_BY_TABLE(int, fi_rx_context,
		       (struct fid_ep * ep, int idx, struct fi_rx_attr *attr, struct fid_ep **rx, void *context),
		       ep->ops->rx_ctx(ep, idx, attr, rx, context))
FI_OPX_DIRECT_BY_TABLE(FI_DEPRECATED_FUNC ssize_t, fi_rx_size_left, (struct fid_ep *ep), ep->ops->rx_size_left(ep))
FI_OPX_DIRECT_BY_TABLE(FI_DEPRECATED_FUNC ssize_t, fi_tx_size_left, (struct fid_ep *ep), ep->ops->tx_size_left(ep))
FI_OPX_DIRECT_BY_TABLE(int, fi_stx_context,
		       (struct fid_domain * d, struct fi_tx_attr *attr, struct fid_stx **stx, void *context),
		       d->ops->stx_ctx(d, attr, stx, context))
FI_OPX_DIRECT_BY_TABLE(int, fi_srx_context,
		       (struct fid_domain * d, struct fi_rx_attr *attr, struct fid_ep **srx, void *context),
		       d->ops->srx_ctx(d, attr, srx, context))

static inline int fi_ep_alias(struct fid_ep *ep, struct fid_ep **alias, uint64_t flags)
{
	struct fid *fid;
	int ret = fi_alias(&ep->fid, &fid, flags);

	if (!ret)
		*alias = (struct fid_ep *)fid;
	return ret;
}

#ifdef __cplusplus
}
#endif

#endif
