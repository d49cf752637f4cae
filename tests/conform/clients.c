// SPDX-License-Identifier: BSD-2-Clause
// What clients ask of fi_getinfo: values as in their sources, of which each row names the file. Who is refused by whom,
// and what for.
#include "clients.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <rdma/providers/fi_prov.h>

#define V(major_, minor_) FI_VERSION(major_, minor_)
#define MR_BASIC_BITS	  (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define COMM		  (FI_LOCAL_COMM | FI_REMOTE_COMM)

static bool is_prov(const struct fi_info *h, const char *name)
{
	return !strcmp(h->fabric_attr->prov_name, name);
}

static void set_progress(struct fi_info *h, enum fi_progress p)
{
	h->domain_attr->control_progress = h->domain_attr->data_progress = p;
}

/* --- MPI ----------------------------------------------------------------------------------------- */

static void mtl4(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain, (void)try;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->caps = FI_TAGGED | COMM | FI_DIRECTED_RECV;
	h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
	h->tx_attr->op_flags = h->rx_attr->op_flags = FI_COMPLETION;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->cq_data_size = 4;
	h->domain_attr->av_type = FI_AV_MAP;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
}

static void mtl5(struct fi_info *h, const struct fi_info *plain, int try)
{
	mtl4(h, plain, try);
	h->caps |= FI_MSG | (try ? 0 : FI_HMEM);
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | (try ? 0 : FI_MR_HMEM);
}

static void btl4(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain, (void)try;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->caps = FI_RMA | FI_ATOMIC;
	h->domain_attr->mr_mode = MR_BASIC_BITS;
	h->tx_attr->iov_limit = h->rx_attr->iov_limit = 1;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
}

static void btl5(struct fi_info *h, const struct fi_info *plain, int try)
{
	btl4(h, plain, try);
	h->domain_attr->mr_mode |= FI_MR_ENDPOINT | (try ? 0 : FI_MR_HMEM);
	h->caps |= try ? 0 : FI_HMEM;
}

/* What it does with a scalable endpoint, where one is told only to those who ask. */
static void btl5_sep(struct fi_info *h, const struct fi_info *plain, int try)
{
	btl5(h, plain, try);
	h->caps |= FI_NAMED_RX_CTX;
}

static void amend_endpoint(struct fi_info *h)
{
	h->domain_attr->mr_mode |= FI_MR_ENDPOINT;
}

/*
 * The set for cxi, or the default one; caps are those of the provider's own info. Then the order is
 * relaxed, then the mode of registration. The default set takes its bits of registration from that
 * info; releases up to 5.0 do not, and are told them by variables (doc/clients.md).
 */
static void mpich(struct fi_info *h, const struct fi_info *plain, int try)
{
	bool cxi = is_prov(h, "cxi");
	int bits = cxi ? FI_MR_ALLOCATED : plain->domain_attr->mr_mode & MR_BASIC_BITS;

	h->mode = FI_CONTEXT | FI_ASYNC_IOV | FI_RX_CQ_DATA | FI_CONTEXT2;
	h->caps = plain->caps;
	h->domain_attr->cq_data_size = 4;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	set_progress(h, FI_PROGRESS_MANUAL);
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->av_type = FI_AV_TABLE;
	h->domain_attr->mode = KIT_RESTRICTED_COMP;
	h->domain_attr->mr_mode =
		try > 1 ? plain->domain_attr->mr_mode : FI_MR_HMEM | FI_MR_ENDPOINT | bits;
	h->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	h->tx_attr->msg_order = try > 0 ? plain->tx_attr->msg_order
					: FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
						  FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	h->rx_attr->msg_order = FI_ORDER_SAS;
	h->rx_attr->op_flags = FI_COMPLETION;
	h->ep_attr->mem_tag_format = cxi ? 24ULL << 40 | 0xfffff : 24ULL << 51 | 0x7fffffff;
}

/* --- OpenSHMEM, PGAS ----------------------------------------------------------------------------- */

/* Each provider as doc/howto.md says to configure it. */
static void sos(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain, (void)try;
	h->caps = FI_RMA | FI_ATOMIC | (is_prov(h, "cxi") ? FI_RMA_EVENT : 0);
	h->domain_attr->data_progress = is_prov(h, "opx") ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->mr_mode = is_prov(h, "efa") ? MR_BASIC_BITS : is_prov(h, "cxi") ? FI_MR_ENDPOINT : 0;
	h->domain_attr->mr_key_size = 1;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	h->tx_attr->inject_size = sizeof(long double);
	free(h->rx_attr);
	h->rx_attr = NULL;
}

static void gasnet(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain;
	h->caps = FI_RMA | FI_MSG | FI_MULTI_RECV | (try ? 0 : FI_HMEM); /* with memory kinds */
	h->mode = FI_CONTEXT;
	h->domain_attr->threading = FI_THREAD_SAFE;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->mr_mode = MR_BASIC_BITS | FI_MR_ENDPOINT | FI_MR_HMEM;
}

static void amend_context2(struct fi_info *h)
{
	h->mode |= FI_CONTEXT2;
}

/* Its three models of memory consistency, in its order. A maximum size of the heap is set. */
static void chapel(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain;
	h->caps = FI_MSG | FI_MULTI_RECV | FI_RMA | COMM | (try ? 0 : FI_ATOMIC | FI_FENCE);
	h->tx_attr->op_flags = FI_COMPLETION | (try > 1 ? FI_DELIVERY_COMPLETE : 0);
	h->tx_attr->msg_order = FI_ORDER_SAS;
	if (!try)
		h->tx_attr->msg_order |= FI_ORDER_ATOMIC_WAW;
	if (try == 1)
		h->tx_attr->msg_order |= FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW;
	h->rx_attr->msg_order = h->tx_attr->msg_order;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->av_type = FI_AV_TABLE;
	h->domain_attr->mr_mode = FI_MR_LOCAL | MR_BASIC_BITS | FI_MR_ENDPOINT;
}

/* --- GPUs ---------------------------------------------------------------------------------------- */

static void nccl_sendrecv(struct fi_info *h, const struct fi_info *plain, int try)
{
	bool hmem = try < 2;

	(void)plain;
	h->caps = COMM | FI_TAGGED | FI_MSG | (hmem ? FI_HMEM | FI_RMA | FI_READ : 0);
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | MR_BASIC_BITS | (hmem ? FI_MR_HMEM : 0);
	h->domain_attr->mr_key_size = 2;
	h->domain_attr->threading = FI_THREAD_SAFE;
	h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
}

static void nccl_rdma(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain, (void)try;
	h->caps = FI_MSG | FI_RMA | FI_HMEM | COMM;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_HMEM | MR_BASIC_BITS | FI_MR_ENDPOINT;
	h->domain_attr->mr_key_size = 2;
	h->domain_attr->threading = FI_THREAD_COMPLETION;
	h->domain_attr->cq_data_size = 4;
}

static void nvshmem(struct fi_info *h, const struct fi_info *plain, int try)
{
	bool efa = is_prov(h, "efa");

	(void)plain, (void)try;
	h->caps = FI_RMA | FI_HMEM | (efa ? FI_MSG | FI_SOURCE : FI_FENCE | FI_ATOMIC);
	h->mode = efa ? FI_CONTEXT2 : 0;
	h->domain_attr->mr_mode =
		efa ? FI_MR_LOCAL | MR_BASIC_BITS | FI_MR_HMEM : FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->domain_attr->threading = FI_THREAD_SAFE;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
}

static void nixl(struct fi_info *h, const struct fi_info *plain, int try)
{
	bool cxi = is_prov(h, "cxi");

	(void)plain;
	h->caps = FI_MSG | FI_RMA | COMM | (try ? 0 : FI_HMEM | (cxi ? FI_RMA_EVENT : 0));
	h->mode = FI_CONTEXT;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_HMEM | MR_BASIC_BITS | (cxi ? FI_MR_ENDPOINT : 0);
	h->domain_attr->mr_key_size = cxi ? 0 : 2;
	h->domain_attr->threading = FI_THREAD_COMPLETION;
}

static void amend_hmem(struct fi_info *h)
{
	h->caps &= ~FI_HMEM;
}

/* --- storage, services, runtimes ----------------------------------------------------------------- */

static void mercury(struct fi_info *h, const struct fi_info *plain, int try)
{
	bool cxi = is_prov(h, "cxi");

	(void)plain, (void)try;
	h->mode = FI_ASYNC_IOV | (cxi ? FI_CONTEXT : FI_CONTEXT2);
	h->caps =
		FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | (cxi ? FI_SOURCE | FI_SOURCE_ERR | FI_MULTI_RECV : 0);
	h->tx_attr->op_flags = FI_INJECT_COMPLETE;
	h->tx_attr->size = cxi ? 4096 : 0; /* of a listener */
	h->rx_attr->size = cxi ? 512 : 0;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->mr_mode = MR_BASIC_BITS | FI_MR_LOCAL | FI_MR_ENDPOINT;
	h->domain_attr->threading = FI_THREAD_SAFE;
	h->ep_attr->protocol = cxi ? (uint32_t)FI_PROTO_CXI : (uint32_t)FI_PROTO_OPX;
	h->addr_format = cxi ? FI_ADDR_CXI : FI_ADDR_OPX;
	set_progress(h, FI_PROGRESS_MANUAL);
}

/* With 1.20 headers it also asks for FI_AV_USER_ID, which this suite's own headers may lack. */
static void mercury_user(struct fi_info *h, const struct fi_info *plain, int try)
{
	mercury(h, plain, try);
	h->caps |= is_prov(h, "cxi") ? 1ULL << 41 : 0;
}

static void adios(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain, (void)try;
	h->caps = FI_MSG | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA | FI_READ | FI_WRITE;
	/* bit 55: FI_LOCAL_MR */
	h->mode = FI_CONTEXT | 1ULL << 55 | FI_CONTEXT2 | FI_MSG_PREFIX | FI_ASYNC_IOV | FI_RX_CQ_DATA;
	h->domain_attr->mr_mode = MR_BASIC_BITS | FI_MR_LOCAL;
	h->domain_attr->control_progress = FI_PROGRESS_AUTO;
	h->domain_attr->threading = FI_THREAD_SAFE;
}

static void amend_adios(struct fi_info *h)
{
	h->domain_attr->mr_mode |= FI_MR_ENDPOINT;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
}

/* Built for Slingshot, and with an authorisation key, without which it goes the other way. */
static void adios_cxi(struct fi_info *h, const struct fi_info *plain, int try)
{
	const char *vni = getenv("FI_CXI_DEFAULT_VNI");
	uint16_t key[4] = {1, 0, (uint16_t)atoi(vni ? vni : "10"), 0}; /* service 1 */

	adios(h, plain, try);
	h->domain_attr->mr_mode = FI_MR_ENDPOINT;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->ep_attr->auth_key = malloc(sizeof(key));
	h->domain_attr->auth_key = malloc(sizeof(key));
	memcpy(h->ep_attr->auth_key, key, sizeof(key));
	memcpy(h->domain_attr->auth_key, key, sizeof(key));
	h->ep_attr->auth_key_size = h->domain_attr->auth_key_size = sizeof(key);
}

static void charm(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain, (void)try;
	h->mode = FI_CONTEXT;
	h->domain_attr->mode = ~0ULL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->caps = FI_TAGGED | FI_RMA | FI_REMOTE_READ;
	if (!is_prov(h, "cxi"))
		return;
	h->domain_attr->mr_mode = FI_MR_ENDPOINT;
	h->domain_attr->threading = FI_THREAD_SAFE;
	h->ep_attr->protocol = (uint32_t)FI_PROTO_CXI;
	set_progress(h, FI_PROGRESS_MANUAL);
}

static void lci(struct fi_info *h, const struct fi_info *plain, int try)
{
	(void)plain, (void)try;
	h->caps = FI_RMA | FI_MSG;
	h->domain_attr->mr_mode = MR_BASIC_BITS | FI_MR_LOCAL | FI_MR_ENDPOINT;
	h->domain_attr->threading = FI_THREAD_SAFE;
	h->tx_attr->inject_size = 64;
	set_progress(h, FI_PROGRESS_MANUAL);
}

/* --- the table ----------------------------------------------------------------------------------- */

#define ONCE(v_)	{v_, NO_TRY, NO_TRY, NO_TRY}
#define TWICE(a_, b_)	{a_, b_, NO_TRY, NO_TRY}

const struct client client_tab[] = {
	{"ompi4_mtl", "open-mpi/ompi v4.1.8 ompi/mca/mtl/ofi/mtl_ofi_component.c", CL_ALL, ONCE(V(1, 5)), mtl4, 0,
	 NULL},
	{"ompi5_mtl", "open-mpi/ompi v5.0.8 ompi/mca/mtl/ofi/mtl_ofi_component.c", CL_ALL, TWICE(V(1, 18), V(1, 18)),
	 mtl5, 0, NULL},
	{"ompi5_mtl_old", "the same, with a libfabric before 1.18", CL_ALL, TWICE(V(1, 9), V(1, 9)), mtl5, 0, NULL},
	{"ompi4_btl", "open-mpi/ompi v4.1.8 opal/mca/btl/ofi/btl_ofi_component.c", CL_ALL, ONCE(V(1, 5)), btl4, CL_CXI,
	 amend_endpoint},
	{"ompi5_btl", "open-mpi/ompi v5.0.8 opal/mca/btl/ofi/btl_ofi_component.c", CL_ALL, TWICE(V(1, 18), V(1, 18)),
	 btl5, 0, NULL},
	{"ompi5_btl_old", "the same, with a libfabric before 1.18", CL_ALL, TWICE(V(1, 9), V(1, 9)), btl5, 0, NULL},
	{"ompi5_btl_sep", "the same, but asking for a scalable endpoint", CL_CXI | CL_OPX, TWICE(V(1, 18), V(1, 18)),
	 btl5_sep, 0, NULL},
	{"mpich",
	 "pmodels/mpich 6a79bf65 src/mpid/ch4/netmod/ofi/init_settings.c",
	 CL_ALL,
	 {0, 0, 0, NO_TRY},
	 mpich,
	 0,
	 NULL},
	{"sos", "Sandia-OpenSHMEM/SOS 8649160d src/transport_ofi.c", CL_ALL, ONCE(V(1, 5)), sos, 0, NULL},
	{"gasnet", "GASNet-EX ofi-conduit/gasnet_ofi.c, with memory kinds", CL_ALL, TWICE(V(1, 9), V(1, 9)), gasnet,
	 CL_OPX, amend_context2},
	{"chapel", "chapel-lang/chapel runtime/src/comm/ofi/comm-ofi.c", CL_ALL, {0, 0, 0, NO_TRY}, chapel, 0, NULL},
	{"nccl_sendrecv",
	 "aws/aws-ofi-nccl 2daf7d30 src/nccl_ofi_sendrecv.cpp",
	 CL_ALL,
	 {V(1, 18), V(1, 6), V(1, 6), NO_TRY},
	 nccl_sendrecv,
	 0,
	 NULL},
	{"nccl_rdma", "aws/aws-ofi-nccl 2daf7d30 src/nccl_ofi_rdma.cpp", CL_ALL, ONCE(V(1, 18)), nccl_rdma, CL_ALL,
	 amend_hmem},
	{"nccl_rdma_gdaki", "the same, with the adapter's counters", CL_ALL, ONCE(V(2, 5)), nccl_rdma, CL_ALL,
	 amend_hmem},
	{"nvshmem", "NVIDIA/nvshmem 3.4.5 src/modules/transport/libfabric/libfabric.cpp", CL_EFA | CL_CXI,
	 ONCE(V(1, 5)), nvshmem, CL_ALL, amend_hmem},
	{"nixl", "ai-dynamo/nixl 8770b655 src/utils/libfabric/libfabric_rail.cpp", CL_ALL, TWICE(V(1, 18), V(1, 18)),
	 nixl, CL_OPX, amend_context2},
	{"mercury", "mercury-hpc/mercury f62eeb52 src/na/na_ofi.c", CL_CXI | CL_OPX, ONCE(V(1, 13)), mercury, 0, NULL},
	{"mercury_new", "the same, with headers of 1.20 and later", CL_CXI | CL_OPX, ONCE(V(1, 20)), mercury_user, 0,
	 NULL},
	{"adios", "ornladios/ADIOS2 ecf587ce source/adios2/toolkit/sst/dp/rdma_dp.c", CL_ALL, ONCE(V(1, 5)), adios,
	 CL_CXI, amend_adios},
	{"adios_cxi", "the same, built with SST_HAVE_CRAY_CXI", CL_CXI, ONCE(V(1, 11)), adios_cxi, 0, NULL},
	{"charm", "charmplusplus/charm 2ff9e155 src/arch/ofi/machine.C", CL_EFA | CL_OPX, ONCE(V(1, 0)), charm, CL_OPX,
	 amend_context2},
	{"charm_cxi", "the same, built for cxi", CL_CXI, ONCE(0), charm, 0, NULL},
	{"lci", "uiuc-hpc/lci ca88ce2c src/network/ofi/backend_ofi.cpp", CL_EFA | CL_CXI, ONCE(V(1, 6)), lci, 0, NULL},
	{0},
};

const struct client *client_find(const char *name)
{
	const struct client *k = client_tab;

	while (k->name && strcmp(k->name, name))
		k++;
	return k;
}

/* --- asking -------------------------------------------------------------------------------------- */

struct fi_provider *client_direct(struct ct *c)
{
	static struct fi_provider *prov;
	struct fi_provider *(*ini)(void);
	const char *dir = getenv("FI_PROVIDER_PATH");
	char path[4096];
	void *lib, *sym;

	if (prov)
		return prov;
	snprintf(path, sizeof(path), "%.*s/lib%s-fi.so", (int)strcspn(dir ? dir : "", ":"), dir ? dir : "", c->prov);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(lib, "%s", dlerror());
	sym = dlsym(lib, "fi_prov_ini");
	CHECK(sym, "no fi_prov_ini in %s", path);
	memcpy(&ini, &sym, sizeof(ini)); /* POSIX's way around ISO C */
	prov = ini();
	CHECK(prov, "%s is in use by the core already", path);
	return prov;
}

static int ask(struct ct *c, uint32_t version, const struct fi_info *hints, struct fi_info **info)
{
	int ret = client_direct(c)->getinfo(version, NULL, NULL, 0, hints, info);

	for (struct fi_info *i = ret ? NULL : *info; i; i = i->next)
		if (!i->fabric_attr->prov_name) /* the core does that */
			i->fabric_attr->prov_name = strdup(c->prov);
	return ret;
}

unsigned client_bit(const struct ct *c)
{
	return !strcmp(c->prov, "efa") ? CL_EFA : !strcmp(c->prov, "cxi") ? CL_CXI : CL_OPX;
}

/* FI_HMEM for host memory: a room key of efa, always of cxi. A provider that has it refuses nobody for want of it. */
static bool has_hmem(struct ct *c)
{
	struct fi_info *h = fi_allocinfo(), *info = NULL;
	int ret;

	h->caps = FI_MSG | FI_HMEM;
	h->mode = ~0ULL;
	h->domain_attr->mr_mode = ~(KIT_MR_BASIC | KIT_MR_SCALABLE);
	ret = ask(c, V(1, 18), h, &info);
	fi_freeinfo(h);
	if (!ret)
		fi_freeinfo(info);
	return !ret;
}

bool client_is_refused(struct ct *c, const struct client *k)
{
	return (k->refused & client_bit(c)) && !(k->amend == amend_hmem && has_hmem(c));
}

struct fi_info *client_info(struct ct *c, const struct client *k, uint32_t version, bool amend)
{
	struct fi_info *plain, *info = NULL;
	int ret = -FI_ENODATA;

	OK(ask(c, version, NULL, &plain));
	for (int i = 0; i < CL_TRIES && ret && k->version[i] != NO_TRY; i++) {
		struct fi_info *h = fi_allocinfo();

		h->ep_attr->type = FI_EP_RDM;
		h->fabric_attr->prov_name = strdup(c->prov);
		k->hints(h, plain, i);
		if (amend)
			k->amend(h);
		ret = ask(c, version ? version : k->version[i], h, &info);
		CHECK(!ret || ret == -FI_ENODATA, "try %d: %s", i, ct_err(ret));
		fi_freeinfo(h);
	}
	fi_freeinfo(plain);
	return info;
}

/* --- the table test: every client at every version of the API ------------------------------------ */

static const uint32_t versions[] = {V(1, 9), V(1, 13), V(1, 17), V(1, 18), V(1, 20), V(1, 22),
				    V(2, 0), V(2, 1),  V(2, 2),	 V(2, 5),  V(2, 6)};

static void clients_versions(struct ct *c)
{
	for (const struct client *k = client_tab; k->name; k++) {
		bool refused = client_is_refused(c, k);

		if (!(k->provs & client_bit(c)))
			continue;
		for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
			uint32_t v = versions[i];
			struct fi_info *info = client_info(c, k, v, false);

			CHECK(!info == refused, "%s (%s) is %s at API version %u.%u", k->name, k->source,
			      info ? "served" : "refused", FI_MAJOR(v), FI_MINOR(v));
			if (info)
				fi_freeinfo(info);
			if (!refused)
				continue;
			info = client_info(c, k, v, true);
			CHECK(info, "%s is refused at API version %u.%u for more than the one reason", k->name,
			      FI_MAJOR(v), FI_MINOR(v));
			fi_freeinfo(info);
		}
	}
}

const struct ct_test clients_table_tests[] = {
	{"clients_versions", clients_versions, 0, 0, CT_SOLO | CT_RAW | CT_COLD, NULL},
	{0},
};
