// SPDX-License-Identifier: BSD-2-Clause
// What the fault tests must know of each provider: one table.
#include "rig.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = 1, READS = 2, FULL = 4 }; /* efa: generations of the device */
enum { HARD = 1, SOFT = 2, BOTH = 3, ALT = 4 }; /* cxi: who matches; the other rendezvous */

/* FI_EFA_INTER_MIN_READ_MESSAGE_SIZE, FI_EFA_RUNT_SIZE */
#define READ_FROM(min_, runt_) {"FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", min_, "FI_EFA_RUNT_SIZE", runt_}
#define NO_READ READ_FROM("1048576", "0")
#define DC	FI_DELIVERY_COMPLETE

static const struct rig_oper efa_oper[] = {
	{"inject", RIG_INJECT, 64, 0, FULL, NO_READ, "tx_pkts.EAGER_TAGRTM"},
	{"eager", RIG_SEND, 4000, 0, FULL, NO_READ, "tx_pkts.EAGER_TAGRTM"},
	{"medium", RIG_SEND, 40000, 0, FULL, NO_READ, "tx_pkts.MEDIUM_TAGRTM"},
	{"longcts", RIG_SEND, 200000, 0, FULL, NO_READ, "tx_pkts.LONGCTS_TAGRTM"},
	{"longread", RIG_SEND, 200000, 0, FULL, READ_FROM("100000", "0"), "tx_pkts.LONGREAD_TAGRTM"},
	{"runtread", RIG_SEND, 200000, 0, FULL, READ_FROM("100000", "40000"), "tx_pkts.RUNTREAD_TAGRTM"},
	{"eager-dc", RIG_SEND, 4000, DC, FULL, NO_READ, "tx_pkts.DC_EAGER_TAGRTM"},
	{"medium-dc", RIG_SEND, 40000, DC, FULL, NO_READ, "tx_pkts.DC_MEDIUM_TAGRTM"},
	{"longcts-dc", RIG_SEND, 200000, DC, FULL, NO_READ, "tx_pkts.DC_LONGCTS_TAGRTM"},
	{"write-device", RIG_WRITE, 100000, 0, FULL, NO_READ, "tx_pkts.RDMA_WRITE"},
	{"read-device", RIG_READ, 100000, 0, FULL, NO_READ, "tx_pkts.RDMA_READ"},
	{"atomic", RIG_ATOMIC, 64, 0, FULL, NO_READ, "tx_pkts.WRITE_RTA"},
	{"atomic-dc", RIG_ATOMIC, 64, DC, FULL, NO_READ, "tx_pkts.DC_WRITE_RTA"},
	{"fetch", RIG_FETCH, 64, 0, FULL, NO_READ, "tx_pkts.FETCH_RTA"},
	{"compare", RIG_COMPARE, 64, 0, FULL, NO_READ, "tx_pkts.COMPARE_RTA"},
	{"write-eager", RIG_WRITE, 4000, 0, NONE, NO_READ, "tx_pkts.EAGER_RTW"},
	{"write-eager-dc", RIG_WRITE, 4000, DC, NONE, NO_READ, "tx_pkts.DC_EAGER_RTW"},
	{"write-longcts", RIG_WRITE, 100000, 0, NONE, NO_READ, "tx_pkts.LONGCTS_RTW"},
	{"write-longcts-dc", RIG_WRITE, 100000, DC, NONE, NO_READ, "tx_pkts.DC_LONGCTS_RTW"},
	{"read-short", RIG_READ, 4000, 0, NONE, NO_READ, "tx_pkts.SHORT_RTR"},
	{"read-longcts", RIG_READ, 100000, 0, NONE, NO_READ, "tx_pkts.LONGCTS_RTR"},
	{"write-longread", RIG_WRITE, 100000, 0, READS, NO_READ, "tx_pkts.LONGREAD_RTW"},
	{0},
};

static const struct rig_oper cxi_oper[] = {
	{"inject", RIG_INJECT, 64, 0, BOTH, {0}, "cq_num_idc_cmds_0"},
	{"zero", RIG_SEND, 0, 0, HARD, {0}, "soft_put_cmds"},
	{"small", RIG_SEND, 150, 0, HARD, {0}, "cq_num_idc_cmds_0"},
	{"eager", RIG_SEND, 4000, 0, BOTH, {0}, "soft_put_cmds"},
	{"eager-frames", RIG_SEND, 16000, 0, BOTH, {0}, "soft_put_cmds"}, /* a long frame, in many segments */
	{"eager-match", RIG_SEND, 4000, FI_MATCH_COMPLETE, BOTH, {0}, "soft_put_cmds"},
	{"rendezvous", RIG_SEND, 200000, 0, BOTH | ALT, {0}, "soft_rendezvous_put_cmds"},
	{"rendezvous-match", RIG_SEND, 40000, FI_MATCH_COMPLETE, HARD | ALT, {0}, "soft_rendezvous_put_cmds"},
	{"write", RIG_WRITE, 4000, 0, HARD, {0}, "soft_put_cmds"},
	{"write-frames", RIG_WRITE, 100000, DC, HARD, {0}, "soft_put_cmds"},
	{"read", RIG_READ, 4000, 0, HARD, {0}, "soft_get_cmds"},
	{"read-frames", RIG_READ, 100000, 0, HARD, {0}, "soft_get_cmds"},
	{"atomic", RIG_ATOMIC, 8, 0, HARD, {0}, "soft_atomic_cmds"},
	{"atomic-dc", RIG_ATOMIC, 8, DC, HARD, {0}, "soft_atomic_cmds"},
	{"fetch", RIG_FETCH, 8, 0, HARD, {0}, "soft_fetching_atomic_cmds"},
	{"compare", RIG_COMPARE, 8, 0, HARD, {0}, "soft_fetching_atomic_cmds"},
	{0},
};

enum { PLAIN = 1, TID = 2, ALL = 3 }; /* opx: expected receive */

#define SDMA_UP_TO(bounce_) {"FI_OPX_SDMA_DISABLE", "0", "FI_OPX_SDMA_BOUNCE_BUF_THRESHOLD", bounce_}
#define NO_SDMA {"FI_OPX_SDMA_DISABLE", "1"}
static const struct rig_oper opx_oper[] = {
	{"inject", RIG_INJECT, 16, 0, ALL, SDMA_UP_TO("16385"), "tx_inject"},
	{"eager", RIG_SEND, 4000, 0, ALL, SDMA_UP_TO("16385"), "tx_eager"},
	{"eager-dc", RIG_SEND, 4000, DC, PLAIN, SDMA_UP_TO("16385"), "tx_rzv"},
	{"multi-packet", RIG_SEND, 12000, 0, PLAIN, SDMA_UP_TO("16385"), "tx_mp"},
	{"rendezvous-pio", RIG_SEND, 200000, 0, PLAIN, NO_SDMA, "pio_pkts"},
	{"rendezvous-sdma", RIG_SEND, 200000, 0, PLAIN, SDMA_UP_TO("16385"), "sdma_pkts"},
	{"rendezvous-bounce", RIG_SEND, 200000, 0, PLAIN, SDMA_UP_TO("300000"), "sdma_pkts"},
	{"expected", RIG_SEND, 200000, 0, TID, SDMA_UP_TO("16385"), "exp_pkts_tx"},
	{"write", RIG_WRITE, 4000, 0, PLAIN, SDMA_UP_TO("16385"), "pio_pkts"},
	{"write-frames", RIG_WRITE, 100000, DC, PLAIN, SDMA_UP_TO("16385"), "sdma_pkts"},
	{"read", RIG_READ, 4000, 0, PLAIN, SDMA_UP_TO("16385"), "pio_pkts"},
	{"read-frames", RIG_READ, 100000, 0, PLAIN, SDMA_UP_TO("16385"), "pio_pkts"},
	{"atomic", RIG_ATOMIC, 64, 0, PLAIN, SDMA_UP_TO("16385"), "pio_pkts"},
	{"atomic-dc", RIG_ATOMIC, 64, DC, PLAIN, SDMA_UP_TO("16385"), "pio_pkts"},
	{"fetch", RIG_FETCH, 64, 0, PLAIN, SDMA_UP_TO("16385"), "pio_pkts"},
	{"compare", RIG_COMPARE, 64, 0, PLAIN, SDMA_UP_TO("16385"), "pio_pkts"},
	{0},
};

static const struct rig_prov provs[] = {
	{
		.name = "efa",
		.mode = FI_CONTEXT | FI_CONTEXT2,
		.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
		.oper = efa_oper,
		.gen = {{"gen=efa0-none", {"SOFTFABRIC_EFA", "gen=efa0-none", "FI_EFA_USE_DEVICE_RDMA", "0"}},
			{"gen=efa0-read", {"SOFTFABRIC_EFA", "gen=efa0-read", "FI_EFA_USE_DEVICE_RDMA", "1"}},
			{"gen=efa2-full", {"SOFTFABRIC_EFA", "gen=efa2-full", "FI_EFA_USE_DEVICE_RDMA", "1"}}},
		.life = {{"device", {"SOFTFABRIC_EFA", "gen=efa2"}}, {"packets", {"SOFTFABRIC_EFA", "gen=efa0-none"}}},
		.udp = {"FI_EFA_ENABLE_SHM_TRANSFER", "0"},
		.udp_room = "",
		.stat_prefix = "",
		.lost = {{8, FI_ECONNABORTED},
			 {9, FI_ENOTCONN},
			 {15, FI_EHOSTUNREACH},
			 {4124, FI_ECONNABORTED},
			 {4126, FI_ECONNABORTED}},
	},
	{
		.name = "cxi",
		.mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
		.match_complete = FI_MATCH_COMPLETE,
		.oper = cxi_oper,
		.gen = {{"hardware", {"FI_CXI_RX_MATCH_MODE", "hardware"}},
			{"software", {"FI_CXI_RX_MATCH_MODE", "software"}},
			{"alt_read", {"FI_CXI_RDZV_PROTO", "alt_read"}}},
		.life = {{"hardware", {"FI_CXI_RX_MATCH_MODE", "hardware"}},
			 {"software", {"FI_CXI_RX_MATCH_MODE", "software"}}},
		.udp_room = "udp;",
		.stat_prefix = "soft_",
		.lost = {{2, FI_EHOSTUNREACH}},
	},
	{
		.name = "opx",
		.idle = FI_PROGRESS_AUTO,
		.posts_tell = true,
		.mode = FI_CONTEXT2 | FI_ASYNC_IOV,
		.oper = opx_oper,
		.gen = {{"eager", {"FI_OPX_EXPECTED_RECEIVE_ENABLE", "0"}},
			{"expected", {"FI_OPX_EXPECTED_RECEIVE_ENABLE", "1"}}},
		.life = {{"sdma", {"FI_OPX_SDMA_DISABLE", "0"}}, {"pio", {"FI_OPX_SDMA_DISABLE", "1"}}},
		.udp_room = "udp;",
		.stat_prefix = "",
		.lost = {{32, FI_ECONNREFUSED}, {33, FI_ETIMEDOUT}, {34, FI_ECONNRESET}, {36, FI_EHOSTUNREACH}},
	},
};

const struct rig_prov *rig_prov(void)
{
	const char *name = getenv("SOFTFABRIC_NAME");

	for (size_t i = 0; i < sizeof(provs) / sizeof(provs[0]); i++)
		if (!strcmp(name && *name ? name : "efa", provs[i].name))
			return &provs[i];
	printf("SOFTFABRIC_NAME=%s: no such provider here\n", name);
	exit(1);
}

void rig_env_add(const char **env, const char *const *more)
{
	while (*env)
		env++;
	for (; more && *more; more++)
		*env++ = *more;
	*env = NULL;
}

void rig_env_path(const char **env, bool udp)
{
	if (udp)
		rig_env_add(env, rig_prov()->udp);
}
