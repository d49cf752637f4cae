// SPDX-License-Identifier: BSD-2-Clause
// The table of FI_CXI_* parameters, and the rules between them.
#include "prov/cxi/cxi_param.h"

#include <limits.h>
#include <pthread.h>

#include "base/log.h"
#include "prov/cxi/cxi.h"

#define ROW(name_, type_, min_, max_, help_)                                                       \
	{                                                                                          \
		#name_, type_, help_, offsetof(struct cxi_params, name_), min_, max_               \
	}
#define MIB (1024 * 1024)

const struct kit_param cxi_param_tab[] = {
	ROW(odp, KIT_BOOL, 0, 0, "Offer memory registration without pinned pages. (Default: 0)"),
	ROW(force_odp, KIT_BOOL, 0, 0,
	    "Offer only memory registration without pinned pages; implies ODP. (Default: 0)"),
	ROW(device_name, KIT_STRING, 0, 0,
	    "Comma-separated names of the adapters to offer, cxi0 to cxi99. (Default: all)"),
	ROW(default_vni, KIT_INT, 1, 65535, "VNI to use when the service does not restrict VNIs. (Default: 10)"),
	ROW(rx_match_mode, KIT_STRING, 0, 0,
	    "Where receives are matched: hardware, software, or hybrid, which starts in hardware and goes to software "
	    "when the "
	    "adapter runs out of list entries. (Default: hardware)"),
	ROW(rdzv_threshold, KIT_SIZE, CASSINI_IDC_MAX, UINT32_MAX,
	    "Messages longer than this plus RDZV_GET_MIN go by rendezvous, bytes. (Default: 16384)"),
	ROW(rdzv_get_min, KIT_SIZE, 0, UINT32_MAX,
	    "Least number of bytes left for the Get of a rendezvous. (Default: 2049)"),
	ROW(rdzv_eager_size, KIT_SIZE, 0, UINT32_MAX,
	    "Bytes sent with the first command of a rendezvous, at most RDZV_THRESHOLD. (Default: 2048)"),
	ROW(rdzv_proto, KIT_STRING, 0, 0, "Rendezvous protocol: default or alt_read. (Default: default)"),
	ROW(disable_non_inject_msg_idc, KIT_BOOL, 0, 0,
	    "Put payload into commands of messages only for FI_INJECT. (Default: 0)"),
	ROW(disable_non_inject_rma_idc, KIT_BOOL, 0, 0,
	    "Put payload into commands of RMA only for FI_INJECT. (Default: 0)"),
	ROW(disable_non_inject_amo_idc, KIT_BOOL, 0, 0,
	    "Put operands into commands of atomics only for FI_INJECT. (Default: 0)"),
	ROW(oflow_buf_size, KIT_SIZE, 4096, UINT32_MAX,
	    "Size of an overflow buffer for unexpected messages, bytes. (Default: 12582912)"),
	ROW(oflow_buf_min_posted, KIT_SIZE, 1, 1024, "Overflow buffers kept posted. (Default: 3)"),
	ROW(oflow_buf_count, KIT_SIZE, 1, 1024, "Older name of OFLOW_BUF_MIN_POSTED. (Default: 3)"),
	ROW(oflow_buf_max_cached, KIT_SIZE, 0, 65536,
	    "Overflow buffers kept for reuse; 0: all. (Default: 3 times those posted)"),
	ROW(req_buf_size, KIT_SIZE, 4096, UINT32_MAX,
	    "Size of a request buffer of software matching, bytes. (Default: 12582912)"),
	ROW(req_buf_min_posted, KIT_SIZE, 1, 1024, "Request buffers kept posted. (Default: 6)"),
	ROW(req_buf_max_cached, KIT_SIZE, 0, 65536, "Request buffers kept for reuse; 0: all. (Default: 0)"),
	ROW(req_buf_max_count, KIT_SIZE, 0, 65536, "Most request buffers; 0: no limit. (Default: 0)"),
	ROW(optimized_mrs, KIT_BOOL, 0, 0,
	    "Give memory regions with keys 0 to 238 a portal table entry each. (Default: 1)"),
	ROW(mr_match_events, KIT_BOOL, 0, 0,
	    "Count matched operations so that closing a region knows when they ended. (Default: 0)"),
	ROW(prov_key_cache, KIT_BOOL, 0, 0,
	    "Regions over the same memory with the same rights share one entry and provider key. (Default: 1)"),
	ROW(enable_writedata, KIT_BOOL, 0, 0, "Offer fi_writedata; needs provider keys. (Default: 0)"),
	ROW(mr_target_ordering, KIT_STRING, 0, 0,
	    "Order of writes in the target's memory: default, strict or relaxed. (Default: default)"),
	ROW(msg_lossless, KIT_BOOL, 0, 0, "Delay senders instead of refusing them while lists are full. (Default: 0)"),
	ROW(fc_retry_usec_delay, KIT_INT, 0, INT_MAX,
	    "Delay before a lost flow control message is sent again, microseconds. (Default: 1000)"),
	ROW(ctrl_rx_eq_max_size, KIT_SIZE, 4096, UINT32_MAX,
	    "Most bytes of the event queue for control messages. (Default: 67108864)"),
	ROW(default_cq_size, KIT_SIZE, 1, 1 << 24,
	    "Entries of a completion queue opened with size 0. (Default: 131072)"),
	ROW(cq_fill_percent, KIT_INT, 1, 100,
	    "Fill of the event queue above which operations return FI_EAGAIN. (Default: 50)"),
	ROW(default_tx_size, KIT_SIZE, CXI_TX_MIN, CXI_TX_MAX,
	    "Transmit operations outstanding when the size asked is 0. (Default: 1024)"),
	ROW(default_rx_size, KIT_SIZE, CXI_TX_MIN, CXI_RX_MAX,
	    "Receives posted when the size asked is 0. (Default: 1024)"),
	ROW(sw_rx_tx_init_max, KIT_INT, 64, 65536,
	    "Rendezvous Gets that software may have outstanding. (Default: 1024)"),
	ROW(hybrid_preemptive, KIT_BOOL, 0, 0, "Hybrid: go to software when list entries run low. (Default: 0)"),
	ROW(hybrid_recv_preemptive, KIT_BOOL, 0, 0, "Hybrid: test that when receives are posted too. (Default: 0)"),
	ROW(hybrid_posted_recv_preemptive, KIT_INT, 0, 1,
	    "Hybrid: go to software above rx_attr.size posted receives. (Default: 0)"),
	ROW(hybrid_unexpected_msg_preemptive, KIT_INT, 0, 1,
	    "Hybrid: go to software above rx_attr.size unexpected messages. (Default: 0)"),
	ROW(rnr_max_timeout_us, KIT_INT, 0, INT_MAX,
	    "FI_PROTO_CXI_RNR: how long a send is retried, microseconds; 0: not at all. (Default: 500000)"),
	ROW(rnr_append_retry_timeout_us, KIT_INT, 0, INT_MAX,
	    "FI_PROTO_CXI_RNR: how long posting a receive is retried, microseconds. (Default: 2000000)"),
	ROW(trunc_ok, KIT_BOOL, 0, 0, "FI_PROTO_CXI_RNR: a truncated receive is no error. (Default: 0)"),
	ROW(cntr_spin_before_yield, KIT_INT, 0, INT_MAX,
	    "Empty rounds of fi_cntr_wait before it yields the CPU. (Default: 1000)"),
	ROW(enable_trig_op_limit, KIT_BOOL, 0, 0, "Cap deferred work per job instead of per domain. (Default: 0)"),
	ROW(telemetry, KIT_STRING, 0, 0,
	    "Comma-separated counters whose change is printed when a domain closes. (Default: none)"),
	ROW(telemetry_rgid, KIT_INT, -1, INT_MAX, "Print them only for this resource group; -1: all. (Default: -1)"),
	ROW(rget_tc, KIT_STRING, 0, 0,
	    "Traffic class of rendezvous Gets issued by software. (Default: the endpoint's)"),
	ROW(ats, KIT_BOOL, 0, 0, "PCIe address translation; no meaning on the soft adapter. (Default: 0)"),
	ROW(iotlb, KIT_BOOL, 0, 0, "Adapter's translation cache; no meaning on the soft adapter. (Default: 1)"),
	ROW(ats_mlock_mode, KIT_STRING, 0, 0, "off or all; no meaning on the soft adapter. (Default: all)"),
	ROW(disable_alt_read_cmdq, KIT_BOOL, 0, 0,
	    "Share the transmit queue for alt_read; always so on the soft adapter. (Default: 0)"),
	ROW(rdzv_aligned_sw_rget, KIT_BOOL, 0, 0,
	    "Align software's Gets to cache lines; no meaning on the soft adapter. (Default: 1)"),
	ROW(disable_host_register, KIT_BOOL, 0, 0,
	    "Do not register bounce buffers with the GPU; none are. (Default: 0)"),
	ROW(safe_devmem_copy_threshold, KIT_SIZE, 0, INT_MAX,
	    "Device memory copied by the CPU up to this, bytes. (Default: 4096)"),
	ROW(mr_cache_events_disable_poll_nsecs, KIT_INT, 0, INT_MAX,
	    "Wait for matched operations when a region closes, ns. (Default: 100000)"),
	ROW(mr_cache_events_disable_le_poll_nsecs, KIT_INT, 0, INT_MAX,
	    "The same for its list entry, ns. (Default: 1000000000)"),
	ROW(llring_mode, KIT_STRING, 0, 0,
	    "Low-latency command window: idle, always, never; no meaning here. (Default: idle)"),
	ROW(cq_policy, KIT_STRING, 0, 0,
	    "Write-back of command queue status; no meaning on the soft adapter. (Default: low_empty)"),
	ROW(eq_ack_batch_size, KIT_INT, 1, INT_MAX,
	    "Events per acknowledgement; no meaning on the soft adapter. (Default: 32)"),
	ROW(disable_cq_hugetlb, KIT_BOOL, 0, 0, "No huge pages for event queues; none are used. (Default: 0)"),
	ROW(disable_eq_hugetlb, KIT_BOOL, 0, 0, "No huge pages for event queues; none are used. (Default: 0)"),
	ROW(disable_hmem_dev_register, KIT_BOOL, 0, 0, "Do not map device memory for the CPU. (Default: 0)"),
	ROW(force_ze_hmem_support, KIT_BOOL, 0, 0, "Level Zero memory; not offered. (Default: 0)"),
	ROW(force_dev_reg_copy, KIT_BOOL, 0, 0, "Copy device memory by the CPU. (Default: 0)"),
	ROW(disable_cuda_sync_memops, KIT_BOOL, 0, 0, "Do not set CUDA's sync attribute. (Default: 0)"),
	ROW(cntr_trig_cmdq, KIT_BOOL, 0, 0,
	    "A queue for triggered commands per counter; no meaning here. (Default: 0)"),
	ROW(zbcoll_radix, KIT_INT, 2, 32, "Radix of the tree for joining collective groups. (Default: 2)"),
	ROW(coll_job_id, KIT_STRING, 0, 0, "Job for accelerated collectives, which are not offered. (Default: none)"),
	ROW(coll_job_step_id, KIT_STRING, 0, 0,
	    "Job step for accelerated collectives, which are not offered. (Default: none)"),
	ROW(coll_mcast_token, KIT_STRING, 0, 0,
	    "Token for accelerated collectives, which are not offered. (Default: none)"),
	ROW(coll_fabric_mgr_url, KIT_STRING, 0, 0,
	    "Fabric manager for accelerated collectives, which are not offered. (Default: none)"),
	ROW(hwcoll_addrs_per_job, KIT_INT, 0, INT_MAX, "Multicast addresses per job; informational. (Default: 0)"),
	ROW(hwcoll_min_nodes, KIT_INT, -1, INT_MAX,
	    "Least nodes for accelerated collectives; informational. (Default: -1)"),
	ROW(coll_retry_usec, KIT_INT, 1, 32000,
	    "Retry period of accelerated collectives, microseconds. (Default: 32000)"),
	ROW(coll_timeout_usec, KIT_INT, 1, 20000000,
	    "Time-out at the fabric manager, microseconds. (Default: 20000000)"),
	ROW(coll_use_dma_put, KIT_BOOL, 0, 0, "Accelerated collectives without inline commands. (Default: 0)"),
};
const size_t cxi_param_cnt = ARRAY_SIZE(cxi_param_tab);

void cxi_params_default(struct cxi_params *p)
{
	*p = (struct cxi_params){
		.default_vni = 10,
		.rx_match_mode = "hardware",
		.rdzv_threshold = 16384,
		.rdzv_get_min = 2049,
		.rdzv_eager_size = 2048,
		.rdzv_proto = "default",
		.oflow_buf_size = 12 * MIB,
		.oflow_buf_min_posted = 3,
		.oflow_buf_count = 3,
		.oflow_buf_max_cached = 9,
		.req_buf_size = 12 * MIB,
		.req_buf_min_posted = 6,
		.optimized_mrs = true,
		.prov_key_cache = true,
		.mr_target_ordering = "default",
		.fc_retry_usec_delay = 1000,
		.ctrl_rx_eq_max_size = 64 * MIB,
		.default_cq_size = 131072,
		.cq_fill_percent = 50,
		.default_tx_size = 1024,
		.default_rx_size = 1024,
		.sw_rx_tx_init_max = 1024,
		.rnr_max_timeout_us = 500000,
		.rnr_append_retry_timeout_us = 2000000,
		.cntr_spin_before_yield = 1000,
		.telemetry_rgid = -1,
		.iotlb = true,
		.ats_mlock_mode = "all",
		.rdzv_aligned_sw_rget = true,
		.safe_devmem_copy_threshold = 4096,
		.mr_cache_events_disable_poll_nsecs = 100000,
		.mr_cache_events_disable_le_poll_nsecs = 1000000000,
		.llring_mode = "idle",
		.cq_policy = "low_empty",
		.eq_ack_batch_size = 32,
		.zbcoll_radix = 2,
		.hwcoll_min_nodes = -1,
		.coll_retry_usec = 32000,
		.coll_timeout_usec = 20000000,
	};
}

/*
 * Words that a string parameter may be; anything else is said and leaves the default. "hardware" in any case, as the
 * real one.
 */
static int word_check(const char *name, char *value, const char *dflt, const char *const *words)
{
	for (const char *const *w = words; *w; w++)
		if (!strcmp(value, *w) || (!strcmp(*w, "hardware") && !strcasecmp(value, *w)))
			return 0;
	kit_warn_once(&g_cxi_prov, "FI_CXI_%s=%s is not understood; %s is used", name, value, dflt);
	snprintf(value, KIT_PARAM_STR, "%s", dflt);
	return -FI_EINVAL;
}

static int words_check(struct cxi_params *p)
{
	static const char *const match[] = {"hardware", "hybrid", "software", NULL};
	static const char *const proto[] = {"default", "alt_read", NULL};
	static const char *const order[] = {"default", "strict", "relaxed", NULL};
	int ret = word_check("RX_MATCH_MODE", p->rx_match_mode, "hardware", match);
	int r2 = word_check("RDZV_PROTO", p->rdzv_proto, "default", proto);
	int r3 = word_check("MR_TARGET_ORDERING", p->mr_target_ordering, "default", order);

	return ret ? ret : r2 ? r2 : r3;
}

/*
 * What has no meaning here is said once, so that nobody measures its effect; a test looks that each parameter is here
 * or is used.
 */
static const char *const inert[] = {
	/* hardware that there is none of: address translation, huge pages, status write-back */
	"ats", "iotlb", "ats_mlock_mode", "disable_alt_read_cmdq", "rdzv_aligned_sw_rget", "llring_mode", "cq_policy",
	"eq_ack_batch_size", "disable_cq_hugetlb", "disable_eq_hugetlb", "cntr_trig_cmdq",
	/*
	 * bytes are always written in order; a region always closes when nobody touches it; waits sleep; too much
	 * deferred work is always refused
	 */
	"mr_target_ordering", "mr_cache_events_disable_poll_nsecs", "mr_cache_events_disable_le_poll_nsecs",
	"cntr_spin_before_yield",
	"enable_trig_op_limit",
	/* FI_HMEM */
	"disable_host_register", "safe_devmem_copy_threshold", "disable_hmem_dev_register", "force_ze_hmem_support",
	"force_dev_reg_copy",
	"disable_cuda_sync_memops",
	/* FI_COLLECTIVE */
	"zbcoll_radix", "coll_job_id", "coll_job_step_id", "coll_mcast_token", "coll_fabric_mgr_url",
	"hwcoll_addrs_per_job", "hwcoll_min_nodes", "coll_retry_usec", "coll_timeout_usec", "coll_use_dma_put",
};

static void inert_report(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(inert); i++)
		if (kit_param_is_set(&g_cxi_prov, inert[i]))
			KIT_INFO(&g_cxi_prov, FI_LOG_CORE,
				 "parameter %s is accepted and has no effect on the soft adapter\n", inert[i]);
}

static pthread_once_t inert_once = PTHREAD_ONCE_INIT;

int cxi_params_get(struct cxi_params *p)
{
	int ret, ret2;

	cxi_params_default(p);
	ret = kit_params_load(&g_cxi_prov, cxi_param_tab, cxi_param_cnt, p);
	ret2 = words_check(p);
	if (kit_param_is_set(&g_cxi_prov, "oflow_buf_count") && !kit_param_is_set(&g_cxi_prov, "oflow_buf_min_posted"))
		p->oflow_buf_min_posted = p->oflow_buf_count;
	if (!kit_param_is_set(&g_cxi_prov, "oflow_buf_max_cached"))
		p->oflow_buf_max_cached = 3 * p->oflow_buf_min_posted;
	p->odp |= p->force_odp;
	if (p->rdzv_eager_size > p->rdzv_threshold) {
		kit_warn_once(&g_cxi_prov, "FI_CXI_RDZV_EAGER_SIZE %zu is above RDZV_THRESHOLD %zu, which is used",
			      p->rdzv_eager_size, p->rdzv_threshold);
		p->rdzv_eager_size = p->rdzv_threshold;
	}
	pthread_once(&inert_once, inert_report); /* threads may ask for information at the same time */
	return ret ? ret : ret2;
}
