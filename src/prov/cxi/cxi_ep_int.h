// SPDX-License-Identifier: BSD-2-Clause
// What cxi_ep.c (endpoints) and cxi_ctx.c (scalable endpoints, contexts, aliases) share.
#ifndef SF_PROV_CXI_CXI_EP_INT_H
#define SF_PROV_CXI_CXI_EP_INT_H

#include "prov/cxi/cxi.h"

#define CXI_PROTO_RNR  29u              /* FI_PROTO_CXI_RNR, which 1.17 headers lack */
#define CXI_SOURCE_ERR FI_SOURCE_ERR

/**
 * cxi_defaults() - Default flags of operations from those of an info or a context's attributes.
 * fi_getinfo lists @all there to programs that gave no attributes of their own, as the real
 * provider does; none of them wants every send to be injected and to wait for its match.
 */
static inline uint64_t cxi_defaults(uint64_t flags, uint64_t all)
{
	return flags == all ? 0 : flags;
}

int cxi_ep_init(struct cxi_ep *ep, struct cxi_domain *d, enum cxi_ep_kind kind, struct fi_info *info, void *context);
void cxi_ep_set_ops(struct cxi_ep *ep);
int cxi_ep_control(struct fid *fid, int command, void *arg);
int cxi_ep_getname(fid_t fid, void *addr, size_t *addrlen);
int cxi_ep_wait_fd(struct kit_ep *ep, unsigned i);
int cxi_ep_wait_arm(struct kit_ep *ep);

/** cxi_contexts_enable() - TX and RX contexts of an endpoint whose portal is open; undone on error. Lock held. */
int cxi_contexts_enable(struct cxi_ep *ep);
/* takes those of the address vector, if the domain says so. 0; -FI_EINVAL: none. Lock held. */
int cxi_ep_keys(struct cxi_ep *ep);
void cxi_contexts_disable(struct cxi_ep *ep);
/** cxi_ep_stop() - Lets operations end, then takes the contexts down. Lock held. */
void cxi_ep_stop(struct cxi_ep *ep);

/* cxi_ctx.c */
int cxi_ctx_enable(struct cxi_ep *ep);                                  /* SEP, TX_CTX, RX_CTX, SRX, ALIAS */
int cxi_alias_open(struct cxi_ep *ep, void *arg);                       /* fi_alias: arg is struct fi_alias * */
/* fi_ep_bind of fid_stx and a shared RX context */
int cxi_shared_bind(struct cxi_ep *ep, struct fid *bfid, uint64_t flags);
/** cxi_srx_drain() - Messages that have come to @ep for its shared receive context, if it has one, are told of. */
void cxi_srx_drain(struct cxi_ep *ep);
/** cxi_shared_drain() - Shared contexts, and their events, name @ep, whose portal has closed, no more. */
void cxi_shared_drain(struct cxi_ep *ep);
void cxi_shared_unbind(struct cxi_ep *ep);

#endif
