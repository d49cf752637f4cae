// SPDX-License-Identifier: BSD-2-Clause
// Opening calls of the efa objects, for the tables that hold them.
#ifndef SF_PROV_EFA_EFA_OBJ_H
#define SF_PROV_EFA_EFA_OBJ_H

#include "kit/stats.h"
#include "prov/efa/efa.h"

int efa_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		struct fi_info **info);
int efa_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int efa_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
int efa_dgram_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/** efa_dgram_removed() - @fi_addr names nobody any more. */
void efa_dgram_removed(struct kit_ep *kep, fi_addr_t fi_addr);
extern const struct kit_stats_group efa_stats_groups[];
/** efa_domain_ops_open() - fi_open_ops on a domain: FI_EFA_DOMAIN_OPS. -FI_EINVAL: unknown name. */
int efa_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
/** efa_kind_of() - Which of the provider's endpoint flavours @info describes. */
enum efa_kind efa_kind_of(const struct fi_info *info);

#endif
