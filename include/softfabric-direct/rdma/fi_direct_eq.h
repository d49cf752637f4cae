// SPDX-License-Identifier: BSD-2-Clause
// Completion queues of opx as direct calls; included by <rdma/fi_eq.h> with -DFABRIC_DIRECT. Events and counters by
// their tables.
#ifndef FABRIC_DIRECT_EQ
#define FABRIC_DIRECT_EQ 1

#include <rdma/fi_eq.h>
#include "fi_direct_opx.h"

#ifdef __cplusplus
extern "C" {
#endif

FI_OPX_DIRECT_CQ(FI_OPX_DIRECT_DECLARE)

FI_OPX_DIRECT_BY_TABLE(int, fi_cq_signal, (struct fid_cq *cq), cq->ops->signal(cq))
FI_OPX_DIRECT_BY_TABLE(const char *, fi_cq_strerror,
		       (struct fid_cq * cq, int prov_errno, const void *err_data, char *buf, size_t len),
		       cq->ops->strerror(cq, prov_errno, err_data, buf, len))
FI_OPX_DIRECT_BY_TABLE(int, fi_trywait, (struct fid_fabric *f, struct fid **fids, int cnt),
		       f->ops->trywait(f, fids, cnt))
FI_OPX_DIRECT_BY_TABLE(int, fi_wait, (struct fid_wait *set, int timeout), set->ops->wait(set, timeout))
FI_OPX_DIRECT_BY_TABLE(int, fi_poll, (struct fid_poll *set, void **context, int cnt),
		       set->ops->poll(set, context, cnt))
FI_OPX_DIRECT_BY_TABLE(int, fi_poll_add, (struct fid_poll *set, struct fid *fid, uint64_t flags),
		       set->ops->poll_add(set, fid, flags))
FI_OPX_DIRECT_BY_TABLE(int, fi_poll_del, (struct fid_poll *set, struct fid *fid, uint64_t flags),
		       set->ops->poll_del(set, fid, flags))
FI_OPX_DIRECT_BY_TABLE(int, fi_eq_open,
		       (struct fid_fabric * f, struct fi_eq_attr *attr, struct fid_eq **eq, void *context),
		       f->ops->eq_open(f, attr, eq, context))
FI_OPX_DIRECT_BY_TABLE(ssize_t, fi_eq_read, (struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags),
		       eq->ops->read(eq, event, buf, len, flags))
FI_OPX_DIRECT_BY_TABLE(ssize_t, fi_eq_readerr, (struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags),
		       eq->ops->readerr(eq, buf, flags))
FI_OPX_DIRECT_BY_TABLE(ssize_t, fi_eq_write,
		       (struct fid_eq * eq, uint32_t event, const void *buf, size_t len, uint64_t flags),
		       eq->ops->write(eq, event, buf, len, flags))
FI_OPX_DIRECT_BY_TABLE(ssize_t, fi_eq_sread,
		       (struct fid_eq * eq, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags),
		       eq->ops->sread(eq, event, buf, len, timeout, flags))
FI_OPX_DIRECT_BY_TABLE(const char *, fi_eq_strerror,
		       (struct fid_eq * eq, int prov_errno, const void *err_data, char *buf, size_t len),
		       eq->ops->strerror(eq, prov_errno, err_data, buf, len))
FI_OPX_DIRECT_BY_TABLE(uint64_t, fi_cntr_read, (struct fid_cntr *c), c->ops->read(c))
FI_OPX_DIRECT_BY_TABLE(uint64_t, fi_cntr_readerr, (struct fid_cntr *c), c->ops->readerr(c))
FI_OPX_DIRECT_BY_TABLE(int, fi_cntr_add, (struct fid_cntr *c, uint64_t value), c->ops->add(c, value))
FI_OPX_DIRECT_BY_TABLE(int, fi_cntr_adderr, (struct fid_cntr *c, uint64_t value),
		       FI_CHECK_OP(c->ops, struct fi_ops_cntr, adderr) ? c->ops->adderr(c, value) : -FI_ENOSYS)
FI_OPX_DIRECT_BY_TABLE(int, fi_cntr_set, (struct fid_cntr *c, uint64_t value), c->ops->set(c, value))
FI_OPX_DIRECT_BY_TABLE(int, fi_cntr_seterr, (struct fid_cntr *c, uint64_t value),
		       FI_CHECK_OP(c->ops, struct fi_ops_cntr, seterr) ? c->ops->seterr(c, value) : -FI_ENOSYS)
FI_OPX_DIRECT_BY_TABLE(int, fi_cntr_wait, (struct fid_cntr *c, uint64_t threshold, int timeout),
		       c->ops->wait(c, threshold, timeout))

#ifdef __cplusplus
}
#endif

#endif
