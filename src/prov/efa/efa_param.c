// SPDX-License-Identifier: BSD-2-Clause
// The table of FI_EFA_* parameters.
#include "prov/efa/efa_param.h"

#include <limits.h>

#include "prov/efa/efa.h"

#define ROW(name_, type_, min_, max_, help_)                                                       \
	{                                                                                          \
		#name_, type_, help_, offsetof(struct efa_params, name_), min_, max_               \
	}

const struct kit_param efa_param_tab[] = {
	ROW(iface, KIT_STRING, 0, 0,
	    "Comma-separated names of the EFA devices to offer, exact and case-sensitive; all offers every one. "
	    "(Default: all)"),
	ROW(tx_size, KIT_SIZE, 0, 0,
	    "Transmit operations that may be outstanding; 0 takes the device's 4096. Above it operations beyond the "
	    "device's "
	    "queue are queued. (Default: 0)"),
	ROW(rx_size, KIT_SIZE, 0, 0,
	    "Receives that may be posted before FI_EAGAIN; 0 takes the device's 8192. (Default: 0)"),
	ROW(rx_window_size, KIT_INT, 1, INT_MAX,
	    "MTU-sized packets of a long message in flight from one sender; alias of tx_min_credits. (Default: 32)"),
	ROW(tx_min_credits, KIT_INT, 1, INT_MAX,
	    "Packets granted at a time to the sender of a long message. (Default: 32)"),
	ROW(tx_queue_size, KIT_INT, 0, INT_MAX,
	    "Depth of the send queue opened with the device; never above the device's limit, 0 takes it. (Default: 0)"),
	ROW(recvwin_size, KIT_INT, 1, INT_MAX,
	    "Packets per peer in the reorder window; those beyond are sent again. (Default: 16384)"),
	ROW(implicit_av_size, KIT_SIZE, 0, 0,
	    "Most senders remembered whom the program has not inserted into its address vector, per endpoint; 0 takes "
	    "65536. "
	    "(Default: 0)"),
	ROW(cq_size, KIT_INT, 1, INT_MAX, "Least depth of a completion queue, entries. (Default: 8192)"),
	ROW(mr_cache_enable, KIT_BOOL, 0, 0,
	    "Register user buffers in line for large messages; off leaves the packet protocols. (Default: 1)"),
	ROW(mr_max_cached_count, KIT_SIZE, 0, 0,
	    "Most registrations the cache keeps; 0 takes 90 % of the device's. (Default: 0)"),
	ROW(mr_max_cached_size, KIT_SIZE, 0, 0,
	    "Most bytes the cache keeps registered; 0 takes 90 % of the device's. (Default: 0)"),
	ROW(max_memcpy_size, KIT_SIZE, 0, 0, "Accepted for old set-ups; has no effect any more. (Default: 4096)"),
	ROW(mtu_size, KIT_SIZE, 0, 0,
	    "No longer supported by the provider: a value is reported and ignored. (Default: unset)"),
	ROW(rx_copy_unexp, KIT_BOOL, 0, 0,
	    "Copy unexpected messages out of the adapter's receive buffers. (Default: 1)"),
	ROW(rx_copy_ooo, KIT_BOOL, 0, 0, "Copy early messages out of the adapter's receive buffers. (Default: 1)"),
	ROW(readcopy_pool_size, KIT_INT, 0, INT_MAX,
	    "Buffers for copies by local read to device memory. (Default: 256)"),
	ROW(max_timeout, KIT_INT, 1, INT_MAX / 2 - 1,
	    "Longest backoff after a peer had no receive posted, microseconds. (Default: 1000000)"),
	ROW(timeout_interval, KIT_INT, 0, INT_MAX,
	    "First backoff after a peer had no receive posted, microseconds; 0 picks one from 40 to 119. (Default: 0)"),
	ROW(enable_shm_transfer, KIT_INT, 0, 1, "Reach peers on this host through shared memory. (Default: 1)"),
	ROW(shm_av_size, KIT_INT, 1, 256, "Most peers on this host. (Default: 256)"),
	ROW(shm_max_medium_size, KIT_INT, 0, INT_MAX, "Deprecated, has no effect. (Default: 4096)"),
	ROW(inter_max_medium_message_size, KIT_INT, 0, INT_MAX,
	    "Longest message sent by the medium protocol, bytes; longer ones ask for clearance first. (Default: "
	    "65536)"),
	ROW(inter_min_read_message_size, KIT_INT, 0, INT_MAX,
	    "Shortest message that the receiver fetches by RDMA read, bytes. (Default: 1048576)"),
	ROW(inter_min_read_write_size, KIT_INT, 0, INT_MAX,
	    "Shortest emulated write that the target fetches by RDMA read, bytes. (Default: 65536)"),
	ROW(inter_read_segment_size, KIT_INT, 1, INT_MAX, "Longest single RDMA read, bytes. (Default: 1073741824)"),
	ROW(inter_max_gdrcopy_message_size, KIT_INT, 0, INT_MAX,
	    "Longest message copied by gdrcopy, bytes. (Default: 32768)"),
	ROW(runt_size, KIT_INT, 0, INT_MAX,
	    "Bytes per peer sent ahead of a message that is then fetched by RDMA read; 0 sends none. (Default: "
	    "307200)"),
	ROW(use_device_rdma, KIT_BOOL, 0, 0,
	    "1 requires the device's RDMA, 0 emulates all of it by packets. (Default: by device and API version)"),
	ROW(use_huge_page, KIT_BOOL, 0, 0,
	    "Use huge pages for internal buffers; the soft adapter needs none. (Default: unset)"),
	ROW(fork_safe, KIT_BOOL, 0, 0, "Support fork(); the soft adapter always does. (Default: 0)"),
	ROW(use_unsolicited_write_recv, KIT_BOOL, 0, 0,
	    "Receive writes with immediate data without consuming a receive, where the device can. (Default: 1)"),
	ROW(use_zcpy_rx, KIT_INT, 0, 1,
	    "Allow receiving straight into posted buffers where that is possible. (Default: 1)"),
	ROW(zcpy_rx_seed, KIT_INT, 0, INT_MAX, "Deprecated, has no effect. (Default: 0)"),
	ROW(internal_rx_refill_threshold, KIT_SIZE, 0, 0,
	    "Receives that must be missing before more are posted. (Default: 8)"),
	ROW(efa_cq_read_size, KIT_SIZE, 0, 0, "Device completions handled per progress call. (Default: 50)"),
	ROW(shm_cq_read_size, KIT_SIZE, 0, 0, "Shared-memory completions handled per progress call. (Default: 50)"),
	ROW(use_sm2, KIT_BOOL, 0, 0, "Has no effect: there is one shared-memory path. (Default: 0)"),
	ROW(set_cuda_sync_memops, KIT_BOOL, 0, 0, "Has no effect on host memory. (Default: 0)"),
};
const size_t efa_param_cnt = ARRAY_SIZE(efa_param_tab);

void efa_params_default(struct efa_params *p)
{
	*p = (struct efa_params){
		.iface = "all",
		.rx_window_size = 32,
		.tx_min_credits = 32,
		.recvwin_size = 16384,
		.cq_size = 8192,
		.mr_cache_enable = true,
		.max_memcpy_size = 4096,
		.rx_copy_unexp = true,
		.rx_copy_ooo = true,
		.readcopy_pool_size = 256,
		.max_timeout = 1000000,
		.enable_shm_transfer = 1,
		.shm_av_size = 256,
		.shm_max_medium_size = 4096,
		.inter_max_medium_message_size = 65536,
		.inter_min_read_message_size = 1048576,
		.inter_min_read_write_size = 65536,
		.inter_read_segment_size = 1073741824,
		.inter_max_gdrcopy_message_size = 32768,
		.runt_size = 307200,
		.use_unsolicited_write_recv = true,
		.use_zcpy_rx = 1,
		.internal_rx_refill_threshold = 8,
		.efa_cq_read_size = 50,
		.shm_cq_read_size = 50,
	};
}

int efa_params_get(struct efa_params *p)
{
	int ret;

	efa_params_default(p);
	ret = kit_params_load(&g_efa_prov, efa_param_tab, efa_param_cnt, p);
	if (kit_param_is_set(&g_efa_prov, "rx_window_size") && !kit_param_is_set(&g_efa_prov, "tx_min_credits"))
		p->tx_min_credits = p->rx_window_size;
	if (kit_param_is_set(&g_efa_prov, "mtu_size"))
		kit_warn_once(&g_efa_prov, "FI_EFA_MTU_SIZE is no longer supported and ignored");
	return ret;
}
