// SPDX-License-Identifier: BSD-2-Clause
// What the suite knows of each provider beforehand.
#include "conform.h"

#include <arpa/inet.h>
#include <inttypes.h>

/* --- efa ----------------------------------------------------------------------------------------- */

/* Words behind the GID: queue pair number and key. */
static void efa_addr(uint8_t *addr, uint32_t i)
{
	uint16_t qpn = (uint16_t)(i + 1);
	uint32_t qkey = 0x10000 + i;

	memcpy(addr + 16, &qpn, 2);
	memcpy(addr + 20, &qkey, 4);
}

static const char efa_bytes[] = "\xfe\x80\0\0\0\0\0\0\x04\x4d\xf8\xff\xfe\x9c\xf0\x6d"
				"\x34\x12\0\0\x78\x56\x34\x12\0\0\0\0\0\0\0";

/* As libfabric itself reads FI_ADDR_STR. */
static bool efa_parse(const char *text, uint8_t *addr)
{
	char gid[INET6_ADDRSTRLEN] = "";
	uint16_t qpn = 0;
	uint32_t qkey = 0;

	memset(addr, 0, sizeof(efa_bytes));
	if (sscanf(text, "efa://[%45[^]]]:%" SCNu16 ":%" SCNu32, gid, &qpn, &qkey) != 3 ||
	    inet_pton(AF_INET6, gid, addr) != 1)
		return false;
	memcpy(addr + 16, &qpn, 2);
	memcpy(addr + 20, &qkey, 4);
	return true;
}

static const struct ct_variant efa_variants[] = {
	{.name = "efa0-none", .env = "SOFTFABRIC_EFA=gen=efa0-none", .flag = CT_GENS},
	/* off below API 1.18 */
	{.name = "efa0-read", .env = "SOFTFABRIC_EFA=gen=efa0-read FI_EFA_USE_DEVICE_RDMA=1", .flag = CT_GENS},
	{.name = "efa1-rw", .env = "SOFTFABRIC_EFA=gen=efa1-rw FI_EFA_USE_DEVICE_RDMA=1", .flag = CT_GENS},
	{.name = "runt", .env = "FI_EFA_RUNT_SIZE=65536 FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=131072", .flag = CT_GENS},
	{.name = "longread",
	 .env = "FI_EFA_RUNT_SIZE=0 FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=16384 FI_EFA_INTER_MIN_READ_WRITE_SIZE=16384 "
		"SOFTFABRIC_EFA=gen=efa0-read FI_EFA_USE_DEVICE_RDMA=1",
	 .flag = CT_GENS},
	{.name = "emulated",
	 .env = "FI_EFA_USE_DEVICE_RDMA=0 FI_EFA_TX_MIN_CREDITS=2 FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE=20000",
	 .flag = CT_GENS},
	{.name = "nocache", .env = "FI_EFA_MR_CACHE_ENABLE=0", .flag = CT_GENS},
	{.name = "lossy", .env = "SOFTFABRIC_NET=loss=1%;reorder=5%;seed=7", .flag = CT_LOSSY},
	{.name = "sealed", .env = "SOFTFABRIC_NET=key=%K", .flag = CT_LOSSY},
	{.name = "secret", .env = "SOFTFABRIC_NET=key=%K;secrecy=yes", .flag = CT_LOSSY},
	{0},
};

/* --- cxi ----------------------------------------------------------------------------------------- */

/* pid 9 bits, NIC address 20 bits; PIDs 1 to 510 of NIC addresses from 0x100 on. */
static void cxi_addr(uint8_t *addr, uint32_t i)
{
	uint32_t v = (1 + i % 500) | (0x100 + i / 500) << 9;

	memcpy(addr, &v, 4);
}

/*
 * As Mercury does: NIC and PID are one word; the VNI, which the text lacks, is the endpoint's own where the address has
 * none.
 */
static bool cxi_parse(const char *text, uint8_t *addr)
{
	uint32_t v;

	if (sscanf(text, "cxi://%" SCNx32, &v) != 1)
		return false;
	memset(addr, 0, 8);
	memcpy(addr, &v, 4);
	return true;
}

#define CXI_PROTO_RNR 29
/*
 * RNR keeps no order between messages, has no unexpected ones that a peek could find, and nothing is injected. Tags
 * make up for the order.
 */
#define RNR_SKIP "@(msg_order|tagged_order|tagged_peek|msg_unexpected|cxi_shared|av_stranger|av_early)"
static const struct ct_variant cxi_variants[] = {
	/*
	 * software copies a message when the receiver's program comes by, the adapter's answer goes out before:
	 * delivery says less
	 */
	{.name = "software", .env = "FI_CXI_RX_MATCH_MODE=software", .flag = CT_GENS, .skip = "*_delivery"},
	{.name = "hybrid", .env = "FI_CXI_RX_MATCH_MODE=hybrid", .flag = CT_GENS},
	{.name = "stdmr", .env = "FI_CXI_OPTIMIZED_MRS=0", .flag = CT_GENS},
	{.name = "altread", .env = "FI_CXI_RDZV_PROTO=alt_read", .flag = CT_GENS},
	{.name = "clientkey", .flag = CT_GENS, .without_mr = FI_MR_PROV_KEY},
	{.name = "rnr",
	 .env = "FI_CXI_RNR_MAX_TIMEOUT_US=20000000",
	 .flag = CT_GENS,
	 .protocol = CXI_PROTO_RNR,
	 .skip = RNR_SKIP},
	{.name = "cassini1", .env = "SOFTFABRIC_CXI=gen=cassini1", .flag = CT_GENS},
	{.name = "lossy", .env = "SOFTFABRIC_NET=paths=udp;loss=1%;reorder=5%;seed=7", .flag = CT_LOSSY},
	{.name = "sealed", .env = "SOFTFABRIC_NET=paths=udp;key=%K", .flag = CT_LOSSY},
	{.name = "secret", .env = "SOFTFABRIC_NET=paths=udp;key=%K;secrecy=yes", .flag = CT_LOSSY},
	{0},
};

/* --- opx ----------------------------------------------------------------------------------------- */

/* LIDs from 0x100 on, contexts 1 to 100. */
static void opx_addr(uint8_t *addr, uint32_t i)
{
	uint32_t rx = 1 + i % 100, lid = 0x100 + i / 100;

	addr[0] = addr[2] = addr[7] = (uint8_t)rx;
	addr[3] = (uint8_t)rx;
	addr[4] = 0;
	addr[5] = (uint8_t)(lid >> 8);
	addr[6] = (uint8_t)lid;
}

/* As Mercury does: each field goes into the address as the number that the text says, the LID too. */
static bool opx_parse(const char *text, uint8_t *addr)
{
	uint16_t lid, id;

	if (sscanf(text, "opx://%04hx.%04hx.%02hhx.%02hhx.%02hhx.%02hhx", &lid, &id, &addr[7], &addr[0], &addr[1],
		   &addr[2]) != 6)
		return false;
	memcpy(addr + 3, &id, 2);
	memcpy(addr + 5, &lid, 2);
	return true;
}

static const struct ct_variant opx_variants[] = {
	{.name = "nosdma", .env = "FI_OPX_SDMA_DISABLE=1", .flag = CT_GENS},
	{.name = "tid", .env = "FI_OPX_EXPECTED_RECEIVE_ENABLE=1", .flag = CT_GENS},
	{.name = "smallrzv",
	 .env = "FI_OPX_RZV_MIN_PAYLOAD_BYTES=64 FI_OPX_SDMA_MIN_PAYLOAD_BYTES=64",
	 .flag = CT_GENS},
	{.name = "nomp", .env = "FI_OPX_MP_EAGER_DISABLE=1", .flag = CT_GENS},
	{.name = "bounce", .env = "FI_OPX_SDMA_BOUNCE_BUF_THRESHOLD=2000000", .flag = CT_GENS},
	{.name = "map", .flag = CT_GENS, .av_type = FI_AV_MAP},
	{.name = "auto", .flag = CT_GENS, .progress = FI_PROGRESS_AUTO},
	{.name = "lossy", .env = "SOFTFABRIC_NET=paths=udp;loss=1%;reorder=5%;seed=7", .flag = CT_LOSSY},
	{.name = "sealed", .env = "SOFTFABRIC_NET=paths=udp;key=%K", .flag = CT_LOSSY},
	{.name = "secret", .env = "SOFTFABRIC_NET=paths=udp;key=%K;secrecy=yes", .flag = CT_LOSSY},
	{0},
};

/* --- the table ----------------------------------------------------------------------------------- */

static const struct ct_variant none[] = {{0}};

/* Any other address of this length: the last word differs. */
static void any_addr(uint8_t *addr, uint32_t i)
{
	memcpy(addr, &i, 4);
}

static const struct ct_prov provs[] = {
	{.name = "efa",
	 .udp_env = "FI_EFA_ENABLE_SHM_TRANSFER=0",
	 .stat_shm = "shm_tx_pkts",
	 .stat_net = "net_tx_pkts",
	 .has = CT_HAS_RMA_DATA | CT_HAS_ERR_DATA | CT_HAS_ATOMIC_SIZES | CT_HAS_DC_MATCHED | CT_HAS_AUTO,
	 .addr_bytes = efa_bytes,
	 .on_request = FI_HMEM,
	 .addr_text = "fi_addr_efa://[fe80::44d:f8ff:fe9c:f06d]:4660:305419896",
	 .parse_addr = efa_parse,
	 .err_text = {"My EFA addr: fi_addr_efa://[", "Peer EFA addr: fi_addr_efa://["},
	 .lost = {FI_EINVAL, 7},
	 .make_addr = efa_addr,
	 .variants = efa_variants},
	{.name = "cxi",
	 .udp_env = "SOFTFABRIC_NET=paths=udp",
	 .stat_shm = "soft_shm_tx_pkts",
	 .stat_net = "soft_net_tx_pkts",
	 .has = CT_HAS_RIGHTS | CT_HAS_CONTEXTS | CT_HAS_AV_EVENT | CT_HAS_WAIT_FD | CT_HAS_AV_USES,
	 .on_request = FI_SOURCE | FI_SOURCE_ERR,
	 .btl_mr_mode = FI_MR_ENDPOINT,
	 .tx_max = 16384,
	 .rx_max = 15360,
	 .min_version = FI_VERSION(1, 5),
	 .no_atomic_ops = 1u << FI_PROD,
	 .addr_bytes = "\x55\xbd\x79\x05\x34\x12\0",
	 .addr_text = "fi_addr_cxi://0x0579bd55",
	 .parse_addr = cxi_parse,
	 .gone = {FI_EHOSTUNREACH, 2, "UNDELIVERABLE"},
	 .lost = {FI_EIO, 36},
	 .make_addr = cxi_addr,
	 .variants = cxi_variants},
	{.name = "opx",
	 .udp_env = "SOFTFABRIC_NET=paths=udp",
	 .stat_shm = "shm_tx_pkts",
	 .stat_net = "net_tx_pkts",
	 .has = CT_HAS_RMA_DATA | CT_HAS_RIGHTS | CT_HAS_CONTEXTS | CT_HAS_WAIT_FD | CT_HAS_DC_MATCHED | CT_HAS_AUTO |
		CT_NO_EQ_BIND | CT_AV_TWICE | CT_NO_SILENT | CT_REFUSES | CT_NO_PIN,
	 .addr_bytes = "\x56\xbc\x56\x9a\x78\x12\x34\xde",
	 .on_request = FI_HMEM,
	 .addr_text = "3412.789a.de.56.bc.56",
	 .parse_addr = opx_parse,
	 .gone = {.err = FI_ECONNREFUSED},
	 .lost = {FI_EFAULT, 8},
	 .make_addr = opx_addr,
	 .variants = opx_variants},
	{.make_addr = any_addr, .variants = none},
};

const struct ct_prov *ct_prov_find(const char *name)
{
	const struct ct_prov *p = provs;

	while (p->name && strcmp(p->name, name))
		p++;
	return p;
}
