// SPDX-License-Identifier: BSD-2-Clause
// Every function of libibverbs and libefa that takes an object and is not offered: EOPNOTSUPP, and one sentence why.
#include "verbs/verbs_int.h"

/* They must be here: libibverbs' own would look for a kernel's device behind our objects. */

#define NO_SRQ	  "this adapter has no shared receive queues"
#define NO_MCAST  "this adapter has no multicast"
#define NO_DMABUF "a soft adapter reads memory of this process"
#define NO_IMPORT "a soft adapter belongs to the process that opened it"
#define NO_ECE	  "this adapter has no enhanced connections"

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	(void)pd, (void)attr;
	return verbs_fail(verbs_refuse(__func__, NO_SRQ));
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq, (void)attr, (void)mask;
	return verbs_refuse(__func__, NO_SRQ);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	(void)srq, (void)attr;
	return verbs_refuse(__func__, NO_SRQ);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	(void)srq;
	return verbs_refuse(__func__, NO_SRQ);
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return verbs_refuse(__func__, NO_MCAST);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return verbs_refuse(__func__, NO_MCAST);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)len, (void)iova, (void)fd, (void)access;
	return verbs_fail(verbs_refuse(__func__, NO_DMABUF));
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access)
{
	(void)mr, (void)flags, (void)pd, (void)addr, (void)len, (void)access;
	verbs_refuse(__func__, "this adapter's regions stay what they are");
	return IBV_REREG_MR_ERR_INPUT;
}

struct ibv_context *ibv_import_device(int fd)
{
	(void)fd;
	return verbs_fail(verbs_refuse(__func__, NO_IMPORT));
}

struct ibv_pd *ibv_import_pd(struct ibv_context *ibv, uint32_t handle)
{
	(void)ibv, (void)handle;
	return verbs_fail(verbs_refuse(__func__, NO_IMPORT));
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd, (void)handle;
	return verbs_fail(verbs_refuse(__func__, NO_IMPORT));
}

struct ibv_dm *ibv_import_dm(struct ibv_context *ibv, uint32_t handle)
{
	(void)ibv, (void)handle;
	return verbs_fail(verbs_refuse(__func__, NO_IMPORT));
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
	verbs_refuse(__func__, NO_IMPORT);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
	verbs_refuse(__func__, NO_IMPORT);
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
	verbs_refuse(__func__, NO_IMPORT);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return verbs_refuse(__func__, NO_ECE);
}

/* Asked before each connection; the driver of the real adapter has nothing to say either. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return verbs_refuse(__func__, NO_ECE);
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *ibv, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
				uint16_t *vid)
{
	(void)ibv, (void)attr, (void)mac, (void)vid;
	verbs_refuse(__func__, "this adapter's link layer is not Ethernet");
	return -1;
}
