// SPDX-License-Identifier: BSD-2-Clause
// The FI_CXI_* parameters: one table gives environment, fi_info -e and the manual; one struct holds the values.
#ifndef SF_PROV_CXI_CXI_PARAM_H
#define SF_PROV_CXI_CXI_PARAM_H

#include "kit/kit.h"

/* Defaults and meaning: doc/facts/cxi.md#parameters. Bytes or entries unless a comment says otherwise. */
struct cxi_params {
	/* take effect */
	bool odp, force_odp;
	char device_name[KIT_PARAM_STR];
	int64_t default_vni;
	char rx_match_mode[KIT_PARAM_STR];
	size_t rdzv_threshold, rdzv_get_min, rdzv_eager_size;
	char rdzv_proto[KIT_PARAM_STR];
	bool disable_non_inject_msg_idc, disable_non_inject_rma_idc, disable_non_inject_amo_idc;
	size_t oflow_buf_size, oflow_buf_min_posted, oflow_buf_count, oflow_buf_max_cached;
	size_t req_buf_size, req_buf_min_posted, req_buf_max_cached, req_buf_max_count;
	bool optimized_mrs, mr_match_events, prov_key_cache, enable_writedata;
	char mr_target_ordering[KIT_PARAM_STR];
	bool msg_lossless;
	int64_t fc_retry_usec_delay;      /* us */
	size_t ctrl_rx_eq_max_size, default_cq_size, default_tx_size, default_rx_size;
	int64_t cq_fill_percent;
	int64_t sw_rx_tx_init_max;
	bool hybrid_preemptive, hybrid_recv_preemptive;
	int64_t hybrid_posted_recv_preemptive, hybrid_unexpected_msg_preemptive;
	int64_t rnr_max_timeout_us, rnr_append_retry_timeout_us; /* us */
	bool trunc_ok;
	int64_t cntr_spin_before_yield;
	bool enable_trig_op_limit;
	char telemetry[KIT_PARAM_STR];
	int64_t telemetry_rgid;
	char rget_tc[KIT_PARAM_STR];
	/* accepted; the soft adapter has nothing that they could change, which is said once when one is set */
	bool ats, iotlb, disable_alt_read_cmdq, rdzv_aligned_sw_rget, disable_host_register, disable_cq_hugetlb,
		disable_eq_hugetlb;
	bool disable_hmem_dev_register, force_ze_hmem_support, force_dev_reg_copy, disable_cuda_sync_memops,
		cntr_trig_cmdq, coll_use_dma_put;
	char ats_mlock_mode[KIT_PARAM_STR], llring_mode[KIT_PARAM_STR], cq_policy[KIT_PARAM_STR];
	int64_t eq_ack_batch_size;
	size_t safe_devmem_copy_threshold;
	int64_t mr_cache_events_disable_poll_nsecs, mr_cache_events_disable_le_poll_nsecs;
	int64_t zbcoll_radix, hwcoll_addrs_per_job, hwcoll_min_nodes, coll_retry_usec, coll_timeout_usec;
	char coll_job_id[KIT_PARAM_STR], coll_job_step_id[KIT_PARAM_STR], coll_mcast_token[KIT_PARAM_STR],
		coll_fabric_mgr_url[KIT_PARAM_STR];
};

extern const struct kit_param cxi_param_tab[];
extern const size_t cxi_param_cnt;
/** cxi_params_default() - The values when nothing is set. */
void cxi_params_default(struct cxi_params *p);
/**
 * cxi_params_get() - Defaults, the environment, then the rules between them (eager size <= threshold ...). 0;
 * -FI_EINVAL: a value was refused (logged).
 */
int cxi_params_get(struct cxi_params *p);

#endif
