/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that the cxi provider adds to libfabric's, with their documented values, for programs built without the
 * vendor's header.
 */
#ifndef _FI_CXI_EXT_H_
#define _FI_CXI_EXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define FI_PROV_SPECIFIC_CXI (0xccc << 16)

/* fi_set_val() on an endpoint alias or fi_control() on a domain. */
enum {
	FI_OPT_CXI_SET_TCLASS = -FI_PROV_SPECIFIC_CXI, /* uint32_t */
	FI_OPT_CXI_SET_MSG_ORDER,                      /* uint64_t */
	FI_OPT_CXI_NIC_REFRESH_ATTR,                   /* on fid_nic */
	FI_OPT_CXI_SET_MR_MATCH_EVENTS,                /* bool */
	FI_OPT_CXI_GET_MR_MATCH_EVENTS,
	FI_OPT_CXI_SET_OPTIMIZED_MRS,                  /* bool */
	FI_OPT_CXI_GET_OPTIMIZED_MRS,
	FI_OPT_CXI_SET_PROV_KEY_CACHE,                 /* bool */
	FI_OPT_CXI_GET_PROV_KEY_CACHE,
	FI_OPT_CXI_SET_RNR_MAX_RETRY_TIME,             /* uint64_t, us */
	FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE,         /* char * */
	FI_OPT_CXI_GET_RX_MATCH_MODE_OVERRIDE,         /* char * */
	FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE,          /* size_t */
	FI_OPT_CXI_GET_REQ_BUF_SIZE_OVERRIDE,
	FI_OPT_CXI_GET_RNR_APPEND_RETRY_ATTEMPTS,      /* fi_getopt: uint64_t */
	/*
	 * fi_setopt before fi_enable, bool, of softfabric: flow control of one receive context. Off, a message that
	 * finds neither a receive nor room ends with an error at its sender (ENTRY_NOT_FOUND) in place of waiting.
	 */
	FI_OPT_CXI_SET_RX_FLOW_CONTROL = -FI_PROV_SPECIFIC_CXI + 64,
};

/* Completion flag: a truncated receive that is no error (FI_CXI_TRUNC_OK). */
#define FI_CXI_TRUNC (1ULL << 56)
/* Operation flags. */
#define FI_CXI_PCIE_AMO    (1ULL << 57)
#define FI_CXI_PRE_REDUCED (1ULL << 57)
#define FI_CXI_HRP         (1ULL << 60)
#define FI_CXI_UNRELIABLE  (1ULL << 61)
#define FI_CXI_CNTR_WB     (1ULL << 62)
#define FI_CXI_WEAK_FENCE  (1ULL << 63)

/* Counters. */
#define FI_CXI_CNTR_EVENTS_BYTES 1
#define FI_CXI_CNTR_CACHED       (1ULL << 32)
#define FI_CXI_CNTR_SUCCESS_MAX  ((1ULL << 48) - 1)
#define FI_CXI_CNTR_FAILURE_MAX  ((1ULL << 7) - 1)

#define FI_CXI_COUNTER_OPS "cxi_counter_ops"
struct fi_cxi_cntr_ops {
	/* Where the value is written after every change: at least 8 bytes. */
	int (*set_wb_buffer)(struct fid *fid, void *buf, size_t len);
	/* What stores into move the counter: see the gen_cntr helpers. */
	int (*get_mmio_addr)(struct fid *fid, void **addr, size_t *len);
};

static inline uint64_t fi_cxi_cntr_wb_read(const void *wb_buf)
{
	return *(const uint64_t *)wb_buf & FI_CXI_CNTR_SUCCESS_MAX;
}

static inline uint64_t fi_cxi_cntr_wb_readerr(const void *wb_buf)
{
	return *(const uint64_t *)wb_buf >> 48 & FI_CXI_CNTR_FAILURE_MAX;
}

/* Domain operations; each version begins with all members of those before it. */
#define FI_CXI_DOM_OPS_1 "dom_ops_v1"
#define FI_CXI_DOM_OPS_2 "dom_ops_v2"
#define FI_CXI_DOM_OPS_3 "dom_ops_v3"
#define FI_CXI_DOM_OPS_4 "dom_ops_v4"
#define FI_CXI_DOM_OPS_5 "dom_ops_v5"
#define FI_CXI_DOM_OPS_6 "dom_ops_v6"
struct fi_cxi_dom_ops {
	/* v1 */
	int (*cntr_read)(struct fid *fid, unsigned int cntr, uint64_t *value, struct timespec *ts);
	int (*topology)(struct fid *fid, unsigned int *group_id, unsigned int *switch_id, unsigned int *port_id);
	/* v2 */
	int (*enable_hybrid_mr_desc)(struct fid *fid, bool enable);
	/* v3 */
	size_t (*ep_get_unexp_msgs)(struct fid_ep *fid_ep, struct fi_cq_tagged_entry *entry, size_t count,
				    fi_addr_t *src_addr, size_t *ux_count);
	/* v4 */
	int (*get_dwq_depth)(struct fid *fid, size_t *depth);
	/* v5, deprecated */
	int (*enable_mr_match_events)(struct fid *fid, bool enable);
	/* v6, deprecated */
	int (*enable_optimized_mrs)(struct fid *fid, bool enable);
};

/* fid_nic->prov_attr */
struct cxip_nic_attr {
	uint32_t version; /* 1 */
	unsigned int addr;
	unsigned int default_rgroup_id;
	unsigned int default_vni;
};

/* auth_key of endpoints and domains. */
struct cxi_auth_key {
	uint32_t svc_id;
	uint16_t vni;
};

#endif
