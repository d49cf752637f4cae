/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extensions of the efa provider, compatible with libfabric's <rdma/fi_ext_efa.h> of 2.1 in names, numbers and layouts.
 */
#ifndef FI_EXT_EFA_H
#define FI_EXT_EFA_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdint.h>

/* Endpoint options, level FI_OPT_ENDPOINT. */
enum {
	FI_OPT_EFA_RNR_RETRY = -251265024, /* -(0xefa << 16) */
	FI_OPT_EFA_EMULATED_READ,
	FI_OPT_EFA_EMULATED_WRITE,
	FI_OPT_EFA_EMULATED_ATOMICS,
	FI_OPT_EFA_USE_DEVICE_RDMA,
	FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES,
	FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES,
	FI_OPT_EFA_HOMOGENEOUS_PEERS,
	FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV,
};

#define FI_EFA_DOMAIN_OPS "efa domain ops"

enum {
	FI_EFA_MR_ATTR_RECV_IC_ID = 1,
	FI_EFA_MR_ATTR_RDMA_READ_IC_ID = 2,
	FI_EFA_MR_ATTR_RDMA_RECV_IC_ID = 4,
};

struct fi_efa_mr_attr {
	uint16_t ic_id_validity;
	uint16_t recv_ic_id;
	uint16_t rdma_read_ic_id;
	uint16_t rdma_recv_ic_id;
};

struct fi_efa_ops_domain {
	int (*query_mr)(struct fid_mr *mr, struct fi_efa_mr_attr *mr_attr);
};

#endif
