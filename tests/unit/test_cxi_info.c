// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of the cxi provider, called directly so that API versions beyond the local libfabric are covered. Source:
// doc/facts/cxi.md#offers, #attributes, #hints.
#include "cxi_fix.h"
#include "fi_cxi_ext.h"
#include "kit/compat.h"
#include "prov/cxi/cxi_ep_int.h"

#define PIN  (FI_MR_ALLOCATED | FI_MR_ENDPOINT)
#define PROV (PIN | FI_MR_PROV_KEY)

static struct fi_info *hints_new(uint64_t caps)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->caps = caps;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = PROV;
	return h;
}

static int count(const struct fi_info *i)
{
	int n = 0;

	for (; i; i = i->next)
		n++;
	return n;
}

static struct cxi_addr src_of(const struct fi_info *i)
{
	struct cxi_addr a;

	assert_int_equal(i->src_addrlen, sizeof(a));
	memcpy(&a, i->src_addr, sizeof(a));
	return a;
}

static uint32_t nic_of(const struct fi_info *i)
{
	struct cxi_addr a = src_of(i);

	return cxi_addr_nic(&a);
}

static uint16_t pid_of(const struct fi_info *i)
{
	struct cxi_addr a = src_of(i);

	return cxi_addr_pid(&a);
}

/* --- forms --------------------------------------------------------------------------------------- */

/*
 * Protocol by protocol; of each pinned with provider keys, pinned with keys of clients, then, if asked for, without
 * pinning.
 */
static void forms_check(uint32_t version, const char *odp, const char *force, const int *modes, int cnt)
{
	bool keyed = kit_core_version() >= FI_VERSION(1, 20); /* then each also with keys in the address vector */
	struct fi_info *info, *i;

	setenv("FI_CXI_ODP", odp, 1);
	setenv("FI_CXI_FORCE_ODP", force, 1);
	info = i = cxi_fix_get(version, NULL, 0);
	for (int proto = 0; proto < 2; proto++) {
		for (int keys = 0; keys < (keyed ? 2 : 1); keys++) {
			for (int k = 0; k < cnt; k++, i = i->next) {
				assert_non_null(i);
				assert_int_equal(i->ep_attr->protocol, proto ? CXI_PROTO_RNR : (uint32_t)FI_PROTO_CXI);
				assert_int_equal(i->domain_attr->mr_mode, modes[k]);
				assert_int_equal(i->domain_attr->mr_key_size, modes[k] & FI_MR_PROV_KEY ? 8 : 4);
				assert_int_equal(!(i->caps & FI_DIRECTED_RECV), keys);
			}
		}
	}
	assert_null(i);
	fi_freeinfo(info);
	unsetenv("FI_CXI_ODP");
	unsetenv("FI_CXI_FORCE_ODP");
}

static void forms__in_order_of_preference(void **state)
{
	static const int pinned[] = {PROV, PIN}, all[] = {PROV, PIN, FI_MR_ENDPOINT | FI_MR_PROV_KEY, FI_MR_ENDPOINT};
	static const uint32_t versions[] = {FI_VERSION(1, 5), FI_VERSION(1, 17), FI_VERSION(1, 20), FI_VERSION(2, 1),
					    FI_VERSION(2, 6)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		forms_check(versions[i], "0", "0", pinned, 2);
		forms_check(versions[i], "1", "0", all, 4);
		forms_check(versions[i], "0", "1", &all[2], 2);
	}
}

static void forms__attributes(void **state)
{
	struct fi_info *i = cxi_fix_get(FI_VERSION(2, 1), NULL, 0);

	(void)state;
	assert_int_equal(i->caps, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV |
					  FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE |
					  FI_DIRECTED_RECV | FI_NAMED_RX_CTX | FI_LOCAL_COMM |
					  FI_REMOTE_COMM | FI_RMA_EVENT | FI_MULTI_RECV | FI_FENCE |
					  FI_TRIGGER | FI_SHARED_AV | FI_AV_USER_ID | FI_HMEM);
	assert_int_equal(i->mode, 0);
	assert_int_equal(i->addr_format, FI_ADDR_CXI);
	assert_int_equal(pid_of(i), CASSINI_PID_ANY);
	assert_string_equal(i->fabric_attr->name, "cxi");
	assert_string_equal(i->domain_attr->name, "cxi0");
	assert_int_equal(i->tx_attr->inject_size, 192);
	assert_int_equal(i->tx_attr->size, 1024);
	assert_int_equal(i->rx_attr->size, 1024);
	assert_int_equal(i->tx_attr->iov_limit, 1);
	assert_int_equal(i->tx_attr->rma_iov_limit, 1);
	assert_int_equal(i->rx_attr->iov_limit, 1);
	assert_int_equal(i->tx_attr->msg_order, i->rx_attr->msg_order);
	assert_int_equal(i->tx_attr->comp_order, 0);
	assert_int_equal(i->tx_attr->op_flags, CXI_TX_OP_FLAGS);
	assert_int_equal(i->rx_attr->op_flags, CXI_RX_OP_FLAGS);
	assert_int_equal(i->ep_attr->protocol_version, 1);
	assert_int_equal(i->ep_attr->max_msg_size, UINT32_MAX);
	assert_true(i->ep_attr->mem_tag_format == 0xAAAAAAAAAAAAULL);
	assert_int_equal(i->ep_attr->max_order_raw_size, 0);
	assert_true(i->ep_attr->max_order_waw_size == SIZE_MAX);
	assert_int_equal(i->ep_attr->auth_key_size, 0); /* no key, no size */
	assert_int_equal(i->domain_attr->auth_key_size, 0);
	assert_int_equal(i->domain_attr->threading, FI_THREAD_SAFE);
	assert_int_equal(i->domain_attr->control_progress, FI_PROGRESS_MANUAL);
	assert_int_equal(i->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	assert_int_equal(i->domain_attr->resource_mgmt, FI_RM_ENABLED);
	assert_int_equal(i->domain_attr->cq_data_size, 8);
	assert_int_equal(i->domain_attr->cq_cnt, 32);
	assert_int_equal(i->domain_attr->ep_cnt, 128);
	assert_int_equal(i->domain_attr->cntr_cnt, 16);
	assert_int_equal(i->domain_attr->mr_iov_limit, 1);
	assert_int_equal(i->domain_attr->mr_cnt, 100);
	assert_int_equal(i->domain_attr->max_ep_tx_ctx, 16); /* the overview's scalable endpoints */
	assert_int_equal(i->domain_attr->max_ep_srx_ctx, 1);
	while (i->ep_attr->protocol != CXI_PROTO_RNR) {
		struct fi_info *next = i->next;

		i->next = NULL;
		fi_freeinfo(i);
		i = next;
	}
	assert_int_equal(i->tx_attr->inject_size, 0);
	assert_false(i->tx_attr->msg_order & FI_ORDER_SAS);
	assert_true(i->ep_attr->mem_tag_format == 0xAAAAAAAAAAULL);
	fi_freeinfo(i);
}

static void forms__fid_nic(void **state)
{
	struct cxip_nic_attr *a;
	struct fi_info *i, *dup;
	char text[16];
	uint32_t nic;

	(void)state;
	setenv("SOFTFABRIC_CXI", "gen=cassini1;pci=yes", 1); /* as captured on one */
	i = cxi_fix_get(FI_VERSION(1, 17), NULL, 0);
	unsetenv("SOFTFABRIC_CXI");
	dup = fi_dupinfo(i);
	a = dup->nic->prov_attr;
	nic = nic_of(i);
	assert_ptr_not_equal(i->nic, dup->nic);
	fi_freeinfo(i);
	assert_int_equal(a->version, 1);
	assert_int_equal(a->addr, nic);
	assert_int_equal(a->default_rgroup_id, 1);
	assert_int_equal(a->default_vni, 10);
	assert_string_equal(dup->nic->device_attr->name, "cxi0");
	assert_string_equal(dup->nic->device_attr->vendor_id, "0x17db");
	assert_string_equal(dup->nic->device_attr->device_id, "0x501");
	assert_string_equal(dup->nic->device_attr->driver, "cxi_ss1");
	assert_int_equal(dup->nic->bus_attr->bus_type, FI_BUS_PCI);
	assert_int_equal(dup->nic->bus_attr->attr.pci.bus_id, 0x21);
	snprintf(text, sizeof(text), "0x%x", nic);
	assert_string_equal(dup->nic->link_attr->address, text);
	assert_int_equal(dup->nic->link_attr->mtu, 2112);
	assert_int_equal(dup->nic->link_attr->speed, 200000000000ULL);
	assert_int_equal(dup->nic->link_attr->state, FI_LINK_UP);
	assert_string_equal(dup->nic->link_attr->network_type, "HPC Ethernet");
	/* read again */
	setenv("FI_CXI_DEFAULT_VNI", "77", 1);
	assert_int_equal(fi_control(&dup->nic->fid, FI_OPT_CXI_NIC_REFRESH_ATTR, NULL), 0);
	assert_int_equal(a->default_vni, 77);
	assert_int_equal(fi_control(&dup->nic->fid, 4711, NULL), -FI_ENOSYS);
	unsetenv("FI_CXI_DEFAULT_VNI");
	setenv("SOFTFABRIC_CXI", "nics=0", 1);
	assert_int_not_equal(fi_control(&dup->nic->fid, FI_OPT_CXI_NIC_REFRESH_ATTR, NULL), 0);
	unsetenv("SOFTFABRIC_CXI");
	fi_freeinfo(dup);
	i = cxi_fix_get(FI_VERSION(1, 17), NULL, 0);
	assert_int_equal(i->nic->bus_attr->bus_type, FI_BUS_UNKNOWN); /* no such device is here */
	fi_freeinfo(i);
}

/* --- hints --------------------------------------------------------------------------------------- */

static void hints__only_the_best_form_of_each_adapter(void **state)
{
	struct fi_info *i;

	(void)state;
	setenv("SOFTFABRIC_CXI", "nics=2", 1);
	i = cxi_fix_ask(hints_new(FI_MSG), 0);
	assert_int_equal(count(i), 2);
	assert_string_equal(i->domain_attr->name, "cxi0");
	assert_string_equal(i->next->domain_attr->name, "cxi1");
	assert_int_not_equal(nic_of(i), nic_of(i->next));
	assert_int_equal(i->ep_attr->protocol, FI_PROTO_CXI);
	fi_freeinfo(i);
	unsetenv("SOFTFABRIC_CXI");
}

static void hints__device_names(void **state)
{
	struct fi_info *h, *i;

	(void)state;
	setenv("SOFTFABRIC_CXI", "nics=3", 1);
	setenv("FI_CXI_DEVICE_NAME", "cxi2,cxi0", 1);
	i = cxi_fix_ask(hints_new(FI_MSG), 0);
	assert_int_equal(count(i), 2);
	assert_string_equal(i->next->domain_attr->name, "cxi2");
	fi_freeinfo(i);
	setenv("FI_CXI_DEVICE_NAME", "cxi", 1); /* a name, not a beginning of names */
	cxi_fix_ask(hints_new(FI_MSG), -FI_ENODATA);
	unsetenv("FI_CXI_DEVICE_NAME");
	h = hints_new(FI_MSG);
	h->domain_attr->name = strdup("cxi1");
	i = cxi_fix_ask(h, 0);
	assert_int_equal(count(i), 1);
	assert_string_equal(i->domain_attr->name, "cxi1");
	fi_freeinfo(i);
	h = hints_new(FI_MSG);
	h->domain_attr->name = strdup("cxi7");
	cxi_fix_ask(h, -FI_ENODATA);
	unsetenv("SOFTFABRIC_CXI");
}

static void hints__memory_modes(void **state)
{
	static const struct {
		uint64_t caps;
		int mode, want, result; /* -FI_ENODATA or 0; then the mode that comes back */
	} row[] = {
		{FI_RMA, PROV, 0, PROV},
		{FI_RMA, PIN, 0, PIN},             /* no provider keys: keys of clients */
		{FI_RMA, FI_MR_ENDPOINT, 0, PIN},  /* old programs, kindly */
		{FI_ATOMIC, FI_MR_ENDPOINT, 0, PIN},
		{FI_RMA, 0, -FI_ENODATA, 0},        /* who does not say that it binds regions to endpoints would not */
		{FI_RMA, FI_MR_ALLOCATED, -FI_ENODATA, 0},
		{FI_RMA | FI_READ | FI_WRITE, FI_MR_ALLOCATED, -FI_ENODATA, 0},
		{FI_MSG | FI_TAGGED, FI_MR_ALLOCATED, 0, 0}, /* who only sends needs none */
		{FI_MSG, FI_MR_LOCAL, 0, 0},
		{FI_MSG, PROV | FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR, 0, PROV}, /* who takes all is told all */
		{FI_RMA, KIT_MR_BASIC, -FI_ENODATA, 0},
		{FI_RMA, KIT_MR_SCALABLE, -FI_ENODATA, 0},
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(row); k++) {
		struct fi_info *h = hints_new(row[k].caps), *i;

		h->domain_attr->mr_mode = row[k].mode;
		i = cxi_fix_ask(h, row[k].want);
		if (i)
			assert_int_equal(i->domain_attr->mr_mode, row[k].result);
		fi_freeinfo(i);
	}
}

static void hints__memory_modes_without_pinning(void **state)
{
	struct fi_info *h, *i;

	(void)state;
	setenv("FI_CXI_ODP", "1", 1);
	h = hints_new(FI_RMA);
	h->domain_attr->mr_mode = FI_MR_ENDPOINT;
	i = cxi_fix_ask(h, 0);
	assert_int_equal(i->domain_attr->mr_mode, FI_MR_ENDPOINT); /* no kindness: it is to be had as asked */
	fi_freeinfo(i);
	unsetenv("FI_CXI_ODP");
}

static void hints__old_versions(void **state)
{
	static const uint32_t versions[] = {0, FI_VERSION(1, 0), FI_VERSION(1, 4)};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(versions); k++) {
		struct fi_info *h = hints_new(FI_MSG);

		h->domain_attr->mr_mode = KIT_MR_BASIC; /* not what endpoint-bound regions are */
		cxi_fix_get(versions[k], h, -FI_ENODATA);
		fi_freeinfo(h);
	}
}

static void hints__protocol(void **state)
{
	struct fi_info *h, *i;

	(void)state;
	h = hints_new(FI_MSG);
	h->ep_attr->protocol = CXI_PROTO_RNR;
	i = cxi_fix_ask(h, 0);
	assert_int_equal(i->ep_attr->protocol, CXI_PROTO_RNR);
	assert_int_equal(i->tx_attr->inject_size, 0);
	fi_freeinfo(i);
	h = hints_new(FI_MSG);
	h->ep_attr->protocol = FI_PROTO_PSMX2;
	cxi_fix_ask(h, -FI_ENODATA);
	h = hints_new(FI_TAGGED);
	h->ep_attr->protocol = CXI_PROTO_RNR;
	h->ep_attr->mem_tag_format = CXI_TAG_FORMAT; /* 48 bits where there are 40 */
	cxi_fix_ask(h, -FI_ENODATA);
}

static void hints__capabilities_that_cost_must_be_asked_for(void **state)
{
	static const uint64_t dear = FI_RMA_EVENT | FI_FENCE | FI_SOURCE | FI_SOURCE_ERR | FI_HMEM;
	struct fi_info *i = cxi_fix_ask(hints_new(FI_MSG | FI_RMA), 0);

	(void)state;
	assert_int_equal(i->caps & dear, 0);
	assert_int_equal(i->rx_attr->caps & (FI_RMA_EVENT | FI_SOURCE | FI_SOURCE_ERR), 0);
	assert_int_equal(i->tx_attr->caps & FI_FENCE, 0);
	/* primary ones, not asked for */
	assert_int_equal(i->caps & (FI_TAGGED | FI_ATOMIC | FI_DIRECTED_RECV | FI_AV_USER_ID), 0);
	assert_true(i->caps & FI_SHARED_AV);
	fi_freeinfo(i);
	i = cxi_fix_ask(
		hints_new(FI_MSG | FI_RMA | FI_RMA_EVENT | FI_FENCE | FI_SOURCE | FI_SOURCE_ERR | FI_AV_USER_ID), 0);
	assert_int_equal(i->caps & dear, FI_RMA_EVENT | FI_FENCE | FI_SOURCE | FI_SOURCE_ERR);
	assert_true(i->caps & FI_AV_USER_ID);
	assert_true(i->domain_attr->caps & FI_AV_USER_ID);
	assert_true(i->rx_attr->caps & FI_SOURCE);
	fi_freeinfo(i);
	cxi_fix_ask(hints_new(FI_MSG | FI_SOURCE_ERR), -FI_ENODATA); /* an error about what was not asked for */
	cxi_fix_ask(hints_new(FI_COLLECTIVE), -FI_ENODATA);
	cxi_fix_ask(hints_new(FI_MULTICAST), -FI_ENODATA);
	i = cxi_fix_get(FI_VERSION(1, 17), NULL, 0);
	assert_int_equal(i->caps & (FI_SOURCE | FI_SOURCE_ERR), 0);
	fi_freeinfo(i);
	i = cxi_fix_ask(hints_new(0), 0);
	assert_int_equal(i->caps & (FI_SOURCE | FI_SOURCE_ERR), 0);
	assert_true(i->caps & FI_ATOMIC);
	fi_freeinfo(i);
}

static void hints__orders_and_sizes(void **state)
{
	struct fi_info *h = hints_new(FI_MSG), *i;

	(void)state;
	setenv("FI_CXI_DEFAULT_TX_SIZE", "2048", 1);
	setenv("FI_CXI_DEFAULT_RX_SIZE", "512", 1);
	i = cxi_fix_ask(h, 0);
	assert_int_equal(i->tx_attr->msg_order, 0); /* none promised: the adapter may reorder */
	assert_int_equal(i->tx_attr->size, 2048);
	assert_int_equal(i->rx_attr->size, 512);
	assert_int_equal(i->tx_attr->inject_size, 192);
	fi_freeinfo(i);
	unsetenv("FI_CXI_DEFAULT_TX_SIZE");
	unsetenv("FI_CXI_DEFAULT_RX_SIZE");
	h = hints_new(FI_MSG);
	h->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RMA_WAW;
	h->tx_attr->inject_size = 16;
	h->tx_attr->size = 16384;
	h->rx_attr->size = 15360;
	i = cxi_fix_ask(h, 0);
	assert_int_equal(i->tx_attr->msg_order, FI_ORDER_SAS | FI_ORDER_RMA_WAW);
	assert_int_equal(i->tx_attr->inject_size, 16);
	assert_int_equal(i->tx_attr->size, 16384);
	assert_int_equal(i->rx_attr->size, 15360);
	fi_freeinfo(i);
}

static void hints__levels(void **state)
{
	struct fi_info *h, *i;

	(void)state;
	h = hints_new(FI_MSG);
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->data_progress = h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->av_type = FI_AV_MAP;
	i = cxi_fix_ask(h, 0);
	assert_int_equal(i->domain_attr->threading, FI_THREAD_DOMAIN);
	assert_int_equal(i->domain_attr->av_type, FI_AV_MAP);
	fi_freeinfo(i);
	h = hints_new(FI_MSG);
	h->domain_attr->data_progress = FI_PROGRESS_AUTO; /* as the real one: somebody has to call */
	cxi_fix_ask(h, -FI_ENODATA);
}

/*
 * Asked for by number, in whichever attribute, or by the capability that names them; told to nobody else, nor to who
 * asks for a shared one.
 */
static void hints__scalable_contexts(void **state)
{
	(void)state;
	for (int how = 0; how < 7; how++) {
		struct fi_info *h = hints_new(how == 5 ? FI_MSG | FI_NAMED_RX_CTX : FI_MSG), *i;
		size_t want = how && how < 6 ? 16 : 1;

		h->ep_attr->tx_ctx_cnt = how == 1 ? 2 : how == 6 ? FI_SHARED_CONTEXT : 1;
		h->ep_attr->rx_ctx_cnt = how == 2 ? 16 : 0;
		h->domain_attr->max_ep_tx_ctx = how == 3 ? 16 : 1;
		h->domain_attr->max_ep_rx_ctx = how == 4 ? 2 : 0;
		i = cxi_fix_ask(h, 0);
		assert_int_equal(i->domain_attr->max_ep_tx_ctx, want);
		assert_int_equal(i->domain_attr->max_ep_rx_ctx, want);
		fi_freeinfo(i);
	}
}

/* Asked for by number or as FI_SHARED_CONTEXT, each direction by itself; told to nobody else. */
static void hints__shared_contexts(void **state)
{
	(void)state;
	for (int how = 0; how < 5; how++) {
		struct fi_info *h = hints_new(FI_MSG), *i;

		h->domain_attr->max_ep_stx_ctx = how == 1;
		h->ep_attr->tx_ctx_cnt = how == 2 ? FI_SHARED_CONTEXT : 0;
		h->domain_attr->max_ep_srx_ctx = how == 3;
		h->ep_attr->rx_ctx_cnt = how == 4 ? FI_SHARED_CONTEXT : 0;
		i = cxi_fix_ask(h, 0);
		assert_int_equal(i->domain_attr->max_ep_stx_ctx, how == 1 || how == 2);
		assert_int_equal(i->domain_attr->max_ep_srx_ctx, how == 3 || how == 4);
		fi_freeinfo(i);
	}
}

static void hints__refused(void **state)
{
	for (int c = 0; c < 15; c++) {
		struct fi_info *h = hints_new(FI_MSG | FI_TAGGED | FI_RMA);

		(void)state;
		switch (c) {
		case 0: h->ep_attr->type = FI_EP_MSG; break;
		case 1: h->addr_format = FI_SOCKADDR_IN; break;
		case 2: h->tx_attr->inject_size = 193; break;
		case 3: h->tx_attr->size = 16385; break;
		case 4: h->rx_attr->size = 15361; break;
		case 5: h->tx_attr->iov_limit = 2; break;
		case 6: h->domain_attr->cq_data_size = 9; break;
		case 7: h->ep_attr->max_msg_size = 1ULL << 32; break;
		case 8: h->tx_attr->comp_order = KIT_ORDER_STRICT; break;
		case 9: h->tx_attr->msg_order = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_SAR; break;
		case 10: h->ep_attr->tx_ctx_cnt = 17; break;
		case 11: h->ep_attr->max_order_raw_size = 1; break;
		case 12: h->ep_attr->mem_tag_format = ~0ULL; break;
		case 13: h->domain_attr->mr_iov_limit = 2; break;
		case 14: h->fabric_attr->name = strdup("efa"); break;
		}
		cxi_fix_ask(h, -FI_ENODATA);
	}
}

static void hints__null_parts(void **state)
{
	struct fi_info h = {.caps = FI_TAGGED}, *i;

	(void)state;
	i = cxi_fix_get(FI_VERSION(1, 17), &h, 0);
	assert_true(i->caps & FI_TAGGED);
	assert_int_equal(i->tx_attr->op_flags, CXI_TX_OP_FLAGS);
	fi_freeinfo(i);
}

/* --- node, service, addresses -------------------------------------------------------------------- */

static struct fi_info *get_node(const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
				int want)
{
	struct fi_info *info = NULL;

	assert_int_equal(cxi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &info), want);
	assert_int_equal(info != NULL, want == 0);
	return info;
}

static void node__destination(void **state)
{
	static const struct {
		const char *node, *service;
		uint32_t nic;
		uint16_t pid;
	} row[] = {
		{"0x1234", "7", 0x1234, 7},
		{"4660", NULL, 0x1234, 0},
		{"02:00:00:01:12:34", "0x1fe", 0x11234, 510},
		{"011064", "010", 0x1234, 8},
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(row); k++) {
		struct fi_info *i = get_node(row[k].node, row[k].service, 0, NULL, 0);
		struct cxi_addr a;

		assert_int_equal(i->dest_addrlen, sizeof(a));
		memcpy(&a, i->dest_addr, sizeof(a));
		assert_int_equal(cxi_addr_nic(&a), row[k].nic);
		assert_int_equal(cxi_addr_pid(&a), row[k].pid);
		a = src_of(i);
		assert_int_equal(cxi_addr_pid(&a), CASSINI_PID_ANY);
		fi_freeinfo(i);
	}
}

static void node__refused(void **state)
{
	(void)state;
	get_node(NULL, NULL, FI_SOURCE, NULL, -FI_EINVAL);
	get_node("nonsense", NULL, 0, NULL, -FI_EINVAL);
	get_node("0x100000", NULL, 0, NULL, -FI_EINVAL); /* 21 bits */
	get_node("", NULL, 0, NULL, -FI_EINVAL);
	get_node("1", "511", 0, NULL, -FI_EINVAL);
	get_node("1", "x", 0, NULL, -FI_EINVAL);
	get_node("1", "-1", 0, NULL, -FI_EINVAL);
	get_node(NULL, "511", FI_SOURCE, NULL, -FI_EINVAL);
	get_node(NULL, "511", 0, NULL, -FI_EINVAL);
	get_node("0xfffff", "1", FI_SOURCE, NULL, -FI_EINVAL); /* no such adapter here */
	get_node("cxi9", NULL, FI_SOURCE, NULL, -FI_EINVAL);
}

static void node__source(void **state)
{
	struct fi_info *i;
	struct cxi_addr a;

	(void)state;
	setenv("SOFTFABRIC_CXI", "nics=2", 1);
	i = get_node("cxi1", "33", FI_SOURCE, NULL, 0);
	for (struct fi_info *k = i; k; k = k->next) {
		assert_string_equal(k->domain_attr->name, "cxi1");
		a = src_of(k);
		assert_int_equal(cxi_addr_pid(&a), 33);
		assert_null(k->dest_addr);
	}
	fi_freeinfo(i);
	i = get_node(NULL, "34", FI_SOURCE, NULL, 0); /* all that are left */
	assert_true(count(i) >= 8);
	for (struct fi_info *k = i; k; k = k->next) {
		a = src_of(k);
		assert_int_equal(cxi_addr_pid(&a), 34);
	}
	fi_freeinfo(i);
	i = get_node(NULL, "34", 0, NULL, 0); /* alone it means nothing */
	a = src_of(i);
	assert_int_equal(cxi_addr_pid(&a), CASSINI_PID_ANY);
	assert_null(i->dest_addr);
	fi_freeinfo(i);
	unsetenv("SOFTFABRIC_CXI");
}

static void addresses__of_the_hints(void **state)
{
	struct fi_info *h = hints_new(FI_MSG), *i;
	struct cxi_addr src = cxi_addr_make(5, 6, 0), dst = cxi_addr_make(7, 8, 0), a;

	(void)state;
	h->src_addr = malloc(sizeof(src));
	h->dest_addr = malloc(sizeof(dst));
	memcpy(h->src_addr, &src, sizeof(src));
	memcpy(h->dest_addr, &dst, sizeof(dst));
	h->src_addrlen = h->dest_addrlen = sizeof(src);
	h->addr_format = FI_ADDR_CXI;
	i = cxi_fix_get(FI_VERSION(1, 17), h, 0);
	assert_memory_equal(i->src_addr, &src, sizeof(src));
	assert_memory_equal(i->dest_addr, &dst, sizeof(dst));
	fi_freeinfo(i);
	i = get_node(NULL, "9", FI_SOURCE, h, 0); /* then the source is the adapter's */
	a = src_of(i);
	assert_int_equal(cxi_addr_pid(&a), 9);
	assert_int_not_equal(cxi_addr_nic(&a), 5);
	fi_freeinfo(i);
	i = get_node("0x77", "1", 0, h, 0); /* a node is the destination */
	memcpy(&a, i->dest_addr, sizeof(a));
	assert_int_equal(cxi_addr_nic(&a), 0x77);
	fi_freeinfo(i);
	h->src_addrlen = 4;
	cxi_fix_get(FI_VERSION(1, 17), h, -FI_ENODATA);
	h->src_addrlen = sizeof(src);
	h->dest_addrlen = 4;
	cxi_fix_get(FI_VERSION(1, 17), h, -FI_ENODATA);
	fi_freeinfo(h);
}

/* --- keys ---------------------------------------------------------------------------------------- */

static uint8_t *key(uint32_t svc, uint16_t vni)
{
	const struct cxi_key k = {.svc_id = svc, .vni = vni};
	uint8_t *p = malloc(sizeof(k));

	assert_non_null(p);
	memcpy(p, &k, sizeof(k));
	return p;
}

static void keys__of_the_endpoint_are_the_domains_too(void **state)
{
	struct fi_info *h = hints_new(FI_MSG), *i;
	struct cxi_key k;

	(void)state;
	h->ep_attr->auth_key = key(1, 55);
	h->ep_attr->auth_key_size = sizeof(k);
	i = cxi_fix_ask(h, 0);
	assert_int_equal(i->domain_attr->auth_key_size, sizeof(k));
	memcpy(&k, i->domain_attr->auth_key, sizeof(k));
	assert_int_equal(k.vni, 55);
	assert_int_equal(i->ep_attr->auth_key_size, sizeof(k));
	fi_freeinfo(i);
	h = hints_new(FI_MSG);
	h->domain_attr->auth_key = key(1, 56);
	h->domain_attr->auth_key_size = sizeof(k);
	i = cxi_fix_ask(h, 0);
	memcpy(&k, i->domain_attr->auth_key, sizeof(k));
	assert_int_equal(k.vni, 56);
	assert_null(i->ep_attr->auth_key);
	assert_int_equal(i->ep_attr->auth_key_size, 0);
	fi_freeinfo(i);
}

static void keys__refused(void **state)
{
	struct fi_info *h;

	(void)state;
	setenv("SOFTFABRIC_CXI", "svc=2:vnis=3", 1);
	h = hints_new(FI_MSG);
	h->ep_attr->auth_key = key(2, 4); /* not in that service */
	h->ep_attr->auth_key_size = 8;
	cxi_fix_ask(h, -FI_ENODATA);
	h = hints_new(FI_MSG);
	h->domain_attr->auth_key = key(9, 3); /* no such service */
	h->domain_attr->auth_key_size = 8;
	cxi_fix_ask(h, -FI_ENODATA);
	h = hints_new(FI_MSG);
	h->domain_attr->auth_key = key(2, 3);
	h->domain_attr->auth_key_size = 6; /* wrong size */
	cxi_fix_ask(h, -FI_ENODATA);
	h = hints_new(FI_MSG);
	h->domain_attr->auth_key = key(2, 3);
	h->ep_attr->auth_key = key(1, 3); /* two services */
	h->domain_attr->auth_key_size = h->ep_attr->auth_key_size = 8;
	cxi_fix_ask(h, -FI_ENODATA);
	unsetenv("SOFTFABRIC_CXI");
}

/* Old cores cannot insert keys into address vectors, so they are not offered it. */
static void keys__of_the_address_vector(void **state)
{
	bool newer = kit_core_version() >= FI_VERSION(1, 20);
	struct fi_info *h = hints_new(FI_MSG), *i;
	size_t max;

	(void)state;
	h->domain_attr->auth_key_size = KIT_AV_AUTH_KEY;
	i = cxi_fix_get(FI_VERSION(1, 20), h, newer ? 0 : -FI_ENODATA);
	fi_freeinfo(h);
	if (!newer)
		return;
	assert_true(i->domain_attr->auth_key_size == KIT_AV_AUTH_KEY);
	memcpy(&max, (uint8_t *)i->domain_attr + offsetof(struct kit_domain_attr_ext, max_ep_auth_key), sizeof(max));
	assert_int_equal(max, 4);
	assert_int_equal(i->caps & FI_DIRECTED_RECV, 0);
	fi_freeinfo(i);
	h = hints_new(FI_MSG | FI_DIRECTED_RECV);
	h->domain_attr->auth_key_size = KIT_AV_AUTH_KEY;
	cxi_fix_get(FI_VERSION(1, 20), h, -FI_ENODATA);
	fi_freeinfo(h);
}

/* --- no adapter ---------------------------------------------------------------------------------- */

static void room__without_adapters(void **state)
{
	(void)state;
	setenv("SOFTFABRIC_CXI", "no such key=1", 1);
	cxi_fix_get(FI_VERSION(1, 17), NULL, -FI_ENODATA);
	unsetenv("SOFTFABRIC_CXI");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms__in_order_of_preference),
		cmocka_unit_test(forms__attributes),
		cmocka_unit_test(forms__fid_nic),
		cmocka_unit_test(hints__only_the_best_form_of_each_adapter),
		cmocka_unit_test(hints__device_names),
		cmocka_unit_test(hints__memory_modes),
		cmocka_unit_test(hints__memory_modes_without_pinning),
		cmocka_unit_test(hints__old_versions),
		cmocka_unit_test(hints__protocol),
		cmocka_unit_test(hints__capabilities_that_cost_must_be_asked_for),
		cmocka_unit_test(hints__orders_and_sizes),
		cmocka_unit_test(hints__levels),
		cmocka_unit_test(hints__scalable_contexts),
		cmocka_unit_test(hints__shared_contexts),
		cmocka_unit_test(hints__refused),
		cmocka_unit_test(hints__null_parts),
		cmocka_unit_test(node__destination),
		cmocka_unit_test(node__refused),
		cmocka_unit_test(node__source),
		cmocka_unit_test(addresses__of_the_hints),
		cmocka_unit_test(keys__of_the_endpoint_are_the_domains_too),
		cmocka_unit_test(keys__refused),
		cmocka_unit_test(keys__of_the_address_vector),
		cmocka_unit_test(room__without_adapters),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
