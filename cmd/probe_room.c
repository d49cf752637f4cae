// SPDX-License-Identifier: BSD-2-Clause
// The room as the soft adapters read it from SOFTFABRIC_*: conditions, adapters with their limits, or the sentence of a
// refusal.
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "link/link.h"
#include "nic/cassini/cassini.h"
#include "nic/efanic/efanic.h"
#include "nic/hfi/hfi.h"

#include "probe.h"

#define ERR_MAX 1024

static void number(const char *name, uint64_t v)
{
	printf(", \"%s\": %" PRIu64, name, v);
}

static void ip_text(const char *name, const uint8_t ip[16])
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	char text[INET6_ADDRSTRLEN];
	const bool is_v4 = !memcmp(ip, v4, sizeof(v4));

	inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? ip + 12 : ip, text, sizeof(text));
	json_pair(stdout, false, name, text);
}

static void net_print(void)
{
	const struct link_room *r;
	char err[ERR_MAX] = "";

	printf("{\"net\": {");
	if (link_room_get(&r, err, sizeof(err))) {
		json_pair(stdout, true, "error", err);
		printf("}");
		return;
	}
	json_pair(stdout, true, "if", *r->ifname ? r->ifname : "lo");
	json_pair(stdout, false, "paths",
		  r->paths == LINK_PATH_SHM   ? "shm"
		  : r->paths == LINK_PATH_UDP ? "udp"
					      : "shm,udp");
	json_pair(stdout, false, "net", *r->net ? r->net : NULL);
	json_pair(stdout, false, "map", *r->map ? r->map : NULL);
	json_pair(stdout, false, "pcap", *r->pcap ? r->pcap : NULL);
	number("loss_ppm", r->drop_ppm);
	number("dup_ppm", r->dup_ppm);
	number("reorder_ppm", r->reorder_ppm);
	number("corrupt_ppm", r->corrupt_ppm);
	number("truncate_ppm", r->truncate_ppm);
	number("delay_ns", r->delay_ns);
	number("seed", r->seed);
	number("dead_after_ns", r->dead_after_ns);
	number("linger_ns", r->linger_ns);
	number("partition_from_ns", r->partition_ns[0]);
	number("partition_to_ns", r->partition_ns[1]);
	number("drop_nth", r->drop_nth);
	number("dup_nth", r->dup_nth);
	number("delay_nth", r->delay_nth);
	number("mtu", r->mtu);
	number("shm_budget", r->shm_budget);
	number("sealed", r->is_sealed);
	number("secrecy", r->secrecy);
	number("guard", r->has_guard);
	printf("}");
}

static void efa_print(int idx)
{
	struct efanic_dev_attr a;
	char gid[INET6_ADDRSTRLEN];

	if (efanic_dev_query(idx, &a))
		return;
	inet_ntop(AF_INET6, a.gid, gid, sizeof(gid));
	printf("%s{", idx ? ", " : "");
	json_pair(stdout, true, "name", a.name);
	json_pair(stdout, false, "address", gid);
	json_pair(stdout, false, "generation",
		  a.vendor_part_id == 0xefa2		 ? "efa2-full"
		  : a.vendor_part_id == 0xefa1		 ? "efa1-rw"
		  : a.device_caps & EFANIC_CAP_RDMA_READ ? "efa0-read"
							 : "efa0-none");
	number("mtu", a.mtu);
	number("gbit_per_s", a.speed_bps / 1000000000);
	number("max_qp", a.max_qp);
	number("max_cq", a.max_cq);
	number("max_ah", a.max_ah);
	number("max_mr", a.max_mr);
	number("max_pd", a.max_pd);
	number("max_mr_size", a.max_mr_size);
	number("max_rdma_size", a.max_rdma_size);
	number("sq", a.max_sq_wr);
	number("rq", a.max_rq_wr);
	number("hmem", a.has_hmem);
	printf("}");
}

static void services_print(int idx)
{
	struct cassini_svc_desc svc[16];
	int cnt = MIN(cassini_svc_list(idx, svc, ARRAY_SIZE(svc)), (int)ARRAY_SIZE(svc));

	printf(", \"services\": [");
	for (int i = 0; i < cnt; i++) {
		printf("%s{\"id\": %u", i ? ", " : "", svc[i].svc_id);
		number("enabled", svc[i].enabled);
		number("system", svc[i].is_system);
		if (svc[i].uid >= 0)
			number("uid", (uint64_t)svc[i].uid);
		if (svc[i].gid >= 0)
			number("gid", (uint64_t)svc[i].gid);
		number("les", svc[i].max[CASSINI_RSRC_LE]);
		printf(", \"vnis\": [");
		for (int v = 0; svc[i].restricted_vnis && v < svc[i].vni_cnt; v++)
			printf("%s%u", v ? ", " : "", svc[i].vni[v]);
		printf("]}");
	}
	printf("]");
}

static void cxi_print(int idx)
{
	struct cassini_devinfo d;

	if (cassini_dev_query(idx, &d))
		return;
	printf("%s{", idx ? ", " : "");
	json_pair(stdout, true, "name", d.name);
	ip_text("address", d.ip);
	json_pair(stdout, false, "generation", d.version == 2 ? "cassini2" : "cassini1");
	number("nic", d.nic);
	number("mtu", d.mtu);
	number("gbit_per_s", d.speed_bps / 1000000000);
	number("ptes", d.num_ptes);
	number("txqs", d.num_txqs);
	number("tgqs", d.num_tgqs);
	number("eqs", d.num_eqs);
	number("cts", d.num_cts);
	number("les", d.num_les);
	number("tles", d.num_tles);
	number("acs", d.num_acs);
	services_print(idx);
	printf("}");
}

static void opx_print(int idx)
{
	static const char *const state[] = {[HFI_PORT_DOWN] = "down",
					    [HFI_PORT_INIT] = "init",
					    [HFI_PORT_ARMED] = "armed",
					    [HFI_PORT_ACTIVE] = "active"};
	struct hfi_unit_attr u;

	if (hfi_unit_query(idx, &u))
		return;
	printf("%s{", idx ? ", " : "");
	json_pair(stdout, true, "name", u.name);
	ip_text("address", u.ip);
	json_pair(stdout, false, "generation", "hfi1");
	json_pair(stdout, false, "state", (size_t)u.state < ARRAY_SIZE(state) ? state[u.state] : NULL);
	number("lid", u.lid);
	number("mtu", u.mtu);
	number("gbit_per_s", u.speed_bps / 1000000000);
	number("contexts", u.nctxts);
	number("credits", u.credits);
	number("rcvhdrq", u.rcvhdrq_cnt);
	number("egr", u.rcvegr_bytes);
	number("sdma_ring", u.sdma_ring_size);
	printf(", \"pkeys\": [");
	for (uint32_t i = 0; i < u.pkey_cnt; i++)
		printf("%s%u", i ? ", " : "", u.pkeys[i]);
	printf("]}");
}

static const struct {
	const char *name, *env;
	int (*cnt)(char *err, size_t err_len);
	void (*print)(int idx);
} kind[] = {
	{"efa", "SOFTFABRIC_EFA", efanic_dev_cnt, efa_print},
	{"cxi", "SOFTFABRIC_CXI", cassini_dev_cnt, cxi_print},
	{"opx", "SOFTFABRIC_OPX", hfi_unit_cnt, opx_print},
};

int probe_room(void)
{
	log_set_hook(NULL); /* the sentences are in the answer: the log would say them a second time */
	net_print();
	for (size_t i = 0; i < ARRAY_SIZE(kind); i++) {
		char err[ERR_MAX] = "";
		int cnt = kind[i].cnt(err, sizeof(err));

		printf(", \"%s\": {", kind[i].name);
		json_pair(stdout, true, "error", *err ? err : NULL);
		printf(", \"adapters\": [");
		for (int n = 0; n < cnt; n++)
			kind[i].print(n);
		printf("]}");
	}
	printf("}\n");
	return 0;
}
