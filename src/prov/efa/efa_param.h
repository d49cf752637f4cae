// SPDX-License-Identifier: BSD-2-Clause
// The FI_EFA_* parameters: one table gives environment, fi_info -e and the manual; one struct holds the values.
#ifndef SF_PROV_EFA_EFA_PARAM_H
#define SF_PROV_EFA_EFA_PARAM_H

#include "kit/kit.h"

/* Bytes unless a comment says otherwise. Defaults and meaning: doc/facts/efa.md#parameters. */
struct efa_params {
	char iface[KIT_PARAM_STR];
	size_t tx_size, rx_size;          /* entries; 0 = the device's */
	int64_t rx_window_size, tx_min_credits; /* packets; tx_min_credits is the window of a long message */
	int64_t tx_queue_size, recvwin_size, cq_size; /* entries */
	size_t implicit_av_size;          /* entries; 0 = EFA_STRANGERS_MAX */
	bool mr_cache_enable;
	size_t mr_max_cached_count, mr_max_cached_size, max_memcpy_size, mtu_size;
	bool rx_copy_unexp, rx_copy_ooo;
	int64_t readcopy_pool_size;
	int64_t max_timeout, timeout_interval; /* us */
	int64_t enable_shm_transfer, shm_av_size, shm_max_medium_size;
	int64_t inter_max_medium_message_size, inter_min_read_message_size, inter_min_read_write_size;
	int64_t inter_read_segment_size, inter_max_gdrcopy_message_size;
	int64_t runt_size;
	bool use_device_rdma, use_huge_page, fork_safe, use_unsolicited_write_recv;
	int64_t use_zcpy_rx, zcpy_rx_seed;
	size_t internal_rx_refill_threshold, efa_cq_read_size, shm_cq_read_size;
	bool use_sm2, set_cuda_sync_memops;
};

extern const struct kit_param efa_param_tab[];
extern const size_t efa_param_cnt;
/** efa_params_default() - The values when nothing is set. */
void efa_params_default(struct efa_params *p);
/** efa_params_get() - Defaults, then the environment. 0; -FI_EINVAL: a value was refused (logged). */
int efa_params_get(struct efa_params *p);

#endif
