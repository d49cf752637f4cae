// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of the opx provider, called directly so that API versions beyond the local libfabric are covered. Source:
// doc/facts/opx.md#attributes.
#include <string.h>

#include "base/mem.h"
#include "kit/compat.h"
#include "opx_fake.h"

static const uint32_t versions[] = {FI_VERSION(1, 4),  FI_VERSION(1, 5),  FI_VERSION(1, 15),
				    FI_VERSION(1, 17), FI_VERSION(1, 20), FI_VERSION(1, 22),
				    FI_VERSION(2, 0),  FI_VERSION(2, 1),  FI_VERSION(2, 6)};
#define V FI_VERSION(1, 17)

static int setup(void **state)
{
	(void)state;
	fake_reset(2);
	return 0;
}

static struct fi_info *get(uint32_t version, const char *node, uint64_t flags, const struct fi_info *hints, int want)
{
	struct fi_info *info = NULL;

	assert_int_equal(opx_getinfo(version, node, NULL, flags, hints, &info), want);
	assert_int_equal(info != NULL, want == 0);
	return info;
}

static struct fi_info *hints_new(void)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	return h;
}

/* @h is freed. */
static struct fi_info *ask(struct fi_info *h, int want)
{
	struct fi_info *i = get(V, NULL, 0, h, want);

	fi_freeinfo(h);
	return i;
}

static void refused(struct fi_info *h)
{
	ask(h, -FI_ENODATA);
}

/* The infos must be these, "ib0 manual" and so on. */
static void list_check(struct fi_info *info, const char *const *want)
{
	struct fi_info *i = info;
	char text[64];

	for (; i && *want; i = i->next, want++) {
		snprintf(text, sizeof(text), "%s %s", i->domain_attr->name,
			 i->domain_attr->data_progress == FI_PROGRESS_AUTO ? "auto" : "manual");
		assert_string_equal(text, *want);
	}
	assert_null(i);
	assert_null(*want);
	fi_freeinfo(info);
}
#define LIST(info_, ...) list_check(info_, (const char *const[]){__VA_ARGS__, NULL})

/* --- the list ------------------------------------------------------------------------------------ */

static void list__two_per_unit(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fi_info *h = hints_new();

		LIST(get(versions[i], NULL, 0, NULL, 0), "ib0 manual", "ib0 auto", "ib1 manual", "ib1 auto");
		h->mode = ~0ULL;
		LIST(get(versions[i], NULL, 0, h, 0), "ib0 manual", "ib0 auto", "ib1 manual", "ib1 auto");
		fi_freeinfo(h);
	}
}

static void list__by_progress(void **state)
{
	struct fi_info *h = hints_new();

	(void)state;
	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	LIST(ask(h, 0), "ib0 manual", "ib1 manual");
	h = hints_new();
	h->domain_attr->data_progress = FI_PROGRESS_AUTO;
	LIST(ask(h, 0), "ib0 auto", "ib1 auto");
	for (int c = FI_PROGRESS_UNSPEC; c <= KIT_PROGRESS_UNIFIED; c++) {
		struct fi_info *i;

		h = hints_new();
		h->domain_attr->control_progress = (enum fi_progress)c;
		i = ask(h, 0);
		assert_int_equal(i->domain_attr->control_progress, c ? c : FI_PROGRESS_MANUAL);
		fi_freeinfo(i);
	}
}

static void list__usable_units_first(void **state)
{
	(void)state;
	g_fake.unit[0].state = HFI_PORT_DOWN;
	struct fi_info *i = get(V, NULL, 0, NULL, 0), *last = i->next->next;

	assert_int_equal(i->nic->link_attr->state, FI_LINK_UP);
	assert_int_equal(last->nic->link_attr->state, FI_LINK_DOWN);
	LIST(i, "ib1 manual", "ib1 auto", "ib0 manual", "ib0 auto");
	fake_reset(0);
	get(V, NULL, 0, NULL, -FI_ENODATA);
	get(V, NULL, 0, (struct fi_info[]){{0}}, -FI_ENODATA);
}

static void names__of_other_releases(void **state)
{
	static const char *const ok[] = {"ib1", "hfi1_1"}, *const bad[] = {"ib2",  "hfi1_2", "hfi1", "ib",    "ib01",
									   "ib1 ", "hfi2_1", "ib99", "mlx5_0"};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(ok); k++) {
		struct fi_info *h = hints_new();

		h->domain_attr->name = strdup(ok[k]);
		h->fabric_attr->name = strdup(k ? "OPX" : "OPX-100");
		LIST(ask(h, 0), "ib1 manual", "ib1 auto");
	}
	for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
		struct fi_info *h = hints_new();

		h->domain_attr->name = strdup(bad[k]);
		refused(h);
	}
	struct fi_info *h = hints_new();

	h->fabric_attr->name = strdup("OPX-200");
	refused(h);
}

/* --- attributes ---------------------------------------------------------------------------------- */

#define CAPS                                                                                                           \
	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ |           \
	 FI_REMOTE_WRITE | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE | FI_NAMED_RX_CTX |              \
	 FI_DIRECTED_RECV)
#define ORDERS (FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

static void attrs_tx_rx(const struct fi_info *i)
{
	assert_true(i->caps == CAPS);
	/* of each direction what fi_endpoint(3) lists there */
	assert_true(i->tx_attr->caps ==
		    (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND | FI_NAMED_RX_CTX));
	assert_true(i->rx_attr->caps == (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE |
					 FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE));
	assert_int_equal(i->tx_attr->inject_size, 16);
	assert_true(i->tx_attr->size == SIZE_MAX);
	assert_true(i->rx_attr->size == SIZE_MAX);
	assert_int_equal(i->tx_attr->iov_limit, 4);
	assert_int_equal(i->rx_attr->iov_limit, 4);
	assert_int_equal(i->tx_attr->rma_iov_limit, 1);
	assert_int_equal(i->rx_attr->total_buffered_recv, 8192);
	assert_true(i->tx_attr->msg_order == ORDERS);
	assert_true(i->rx_attr->msg_order == ORDERS);
	assert_true(i->tx_attr->comp_order == KIT_ORDER_NONE);
}

static void attrs_ep(const struct fi_info *i)
{
	assert_int_equal(i->ep_attr->type, FI_EP_RDM);
	assert_int_equal(i->ep_attr->protocol, FI_PROTO_OPX);
	assert_int_equal(i->ep_attr->protocol_version, 1);
	assert_true(i->ep_attr->max_msg_size == UINT64_MAX);
	assert_int_equal(i->ep_attr->msg_prefix_size, 0);
	assert_true(i->ep_attr->mem_tag_format == UINT64_MAX);
	assert_int_equal(i->ep_attr->tx_ctx_cnt, 1);
	assert_int_equal(i->ep_attr->rx_ctx_cnt, 1);
}

static void attrs_domain(const struct fi_info *i)
{
	const struct fi_domain_attr *d = i->domain_attr;

	assert_int_equal(d->control_progress, FI_PROGRESS_MANUAL);
	assert_int_equal(d->resource_mgmt, FI_RM_ENABLED);
	assert_int_equal(d->av_type, FI_AV_UNSPEC);
	assert_int_equal(d->mr_key_size, 8);
	assert_int_equal(d->cq_data_size, 4);
	assert_int_equal(d->ep_cnt, 8); /* the fake unit's contexts */
	assert_int_equal(d->tx_ctx_cnt, 8);
	assert_int_equal(d->rx_ctx_cnt, 8);
	assert_int_equal(d->max_ep_tx_ctx, 4);
	assert_int_equal(d->max_ep_rx_ctx, 4);
	assert_int_equal(d->max_ep_stx_ctx, 0);
	assert_int_equal(d->max_ep_srx_ctx, 0);
	assert_int_equal(d->cntr_cnt, 160);
	assert_int_equal(d->mr_iov_limit, 1);
	assert_int_equal(d->mr_cnt, 0);
	assert_true(d->caps == (FI_LOCAL_COMM | FI_REMOTE_COMM));
}

static void attrs__all(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		for (int with = 0; with < 2; with++) {
			struct fi_info *h = with ? hints_new() : NULL, *i;
			struct opx_addr a, none = opx_addr_unbound();

			if (h)
				h->mode = ~0ULL;
			i = get(versions[v], NULL, 0, h, 0);
			attrs_tx_rx(i);
			attrs_ep(i);
			attrs_domain(i);
			assert_true(i->tx_attr->op_flags == (with ? 0 : FI_TRANSMIT_COMPLETE));
			assert_true(i->rx_attr->op_flags == (with ? 0 : FI_MULTI_RECV));
			assert_int_equal(i->domain_attr->threading, versions[v] < FI_VERSION(2, 0)
									    ? FI_THREAD_ENDPOINT
									    : FI_THREAD_DOMAIN);
			assert_true(i->mode == (FI_CONTEXT2 | FI_ASYNC_IOV));
			assert_int_equal(i->addr_format, FI_ADDR_OPX);
			assert_int_equal(i->src_addrlen, sizeof(a));
			assert_memory_equal(i->src_addr, &none, sizeof(none));
			assert_null(i->dest_addr);
			assert_string_equal(i->fabric_attr->name, "OPX-100");
			assert_int_equal(i->fabric_attr->api_version, versions[v]);
			fi_freeinfo(i);
			fi_freeinfo(h);
		}
	}
}

static void nic__filled(void **state)
{
	struct fi_info *i = get(V, NULL, 0, NULL, 0);
	struct fid_nic *n = i->next->next->nic;

	(void)state;
	assert_string_equal(n->device_attr->name, "hfi1_1");
	assert_string_equal(n->device_attr->vendor_id, "0x8086");
	assert_string_equal(n->device_attr->device_id, "0x24f0");
	assert_string_equal(n->device_attr->driver, "hfi1");
	assert_string_equal(n->link_attr->network_type, "OmniPath");
	assert_string_equal(n->link_attr->address, "0x2");
	assert_int_equal(n->link_attr->mtu, 8192);
	assert_int_equal(n->link_attr->speed, 100000000000);
	assert_int_equal(n->bus_attr->bus_type, FI_BUS_UNKNOWN); /* no such device is here */
	fi_freeinfo(i);
	g_fake.unit[0].pci_always = true;
	g_fake.unit[0].pci_bus = 0x18;
	i = get(V, NULL, 0, NULL, 0);
	assert_int_equal(i->nic->bus_attr->bus_type, FI_BUS_PCI);
	assert_int_equal(i->nic->bus_attr->attr.pci.bus_id, 0x18);
	fi_freeinfo(i);
}

/* --- what hints refuse --------------------------------------------------------------------------- */

static void refuse__kinds(void **state)
{
	static const uint64_t caps[] = {FI_TRIGGER,   FI_RMA_EVENT, FI_MULTICAST,  FI_COLLECTIVE, KIT_VARIABLE_MSG,
					FI_SHARED_AV, FI_RMA_PMEM,  FI_SOURCE_ERR, FI_HMEM,	  1ULL << 60};
	static const enum fi_ep_type types[] = {FI_EP_MSG, FI_EP_DGRAM, KIT_EP_SOCK_STREAM};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(caps); k++) {
		struct fi_info *h = hints_new();

		h->caps = FI_MSG | caps[k];
		refused(h);
	}
	for (size_t k = 0; k < ARRAY_SIZE(types); k++) {
		struct fi_info *h = hints_new();

		h->ep_attr->type = types[k];
		refused(h);
	}
	for (uint32_t f = FI_SOCKADDR; f <= FI_ADDR_OPX + 1; f++) {
		struct fi_info *h = hints_new();

		h->addr_format = f;
		fi_freeinfo(ask(h, f == FI_ADDR_OPX ? 0 : -FI_ENODATA));
	}
}

#define REFUSE(stmt_)                                                                                                  \
	do {                                                                                                           \
		struct fi_info *h = hints_new();                                                                       \
		h->caps = FI_MSG | FI_TAGGED | FI_RMA;                                                                 \
		stmt_;                                                                                                 \
		refused(h);                                                                                            \
	} while (0)

static void refuse__values(void **state)
{
	(void)state;
	REFUSE(h->tx_attr->inject_size = 17);
	REFUSE(h->tx_attr->comp_order = KIT_ORDER_STRICT);
	REFUSE(h->rx_attr->comp_order = KIT_ORDER_STRICT);
	REFUSE(h->tx_attr->iov_limit = 5);
	REFUSE(h->tx_attr->rma_iov_limit = 2);
	REFUSE(h->rx_attr->total_buffered_recv = 8193);
	REFUSE(h->domain_attr->mr_key_size = 9);
	REFUSE(h->domain_attr->cq_data_size = 5);
	REFUSE(h->domain_attr->mr_iov_limit = 2);
	REFUSE(h->domain_attr->cntr_cnt = 161);
	REFUSE(h->ep_attr->protocol = FI_PROTO_PSMX2);
	REFUSE(h->ep_attr->tx_ctx_cnt = 5);
	REFUSE(h->ep_attr->rx_ctx_cnt = 5);
	REFUSE(h->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT);
	REFUSE(h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT);
	REFUSE(h->tx_attr->caps = FI_ATOMIC);
	REFUSE(h->rx_attr->caps = FI_MULTI_RECV);
	REFUSE(h->mode = FI_CONTEXT);
	REFUSE(h->dest_addr = strdup("123"); h->dest_addrlen = 4);
	REFUSE(h->src_addr = strdup("123"); h->src_addrlen = 4);

	struct fi_info *h = hints_new();

	h->domain_attr->threading = FI_THREAD_ENDPOINT;
	fi_freeinfo(get(FI_VERSION(1, 22), NULL, 0, h, 0));
	get(FI_VERSION(2, 0), NULL, 0, h, -FI_EINVAL);
	h->domain_attr->threading = (enum fi_threading)77;
	ask(h, -FI_EINVAL);
}

static void accept__values(void **state)
{
	struct fi_info *h = hints_new(), *i;

	(void)state;
	h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_FENCE;
	h->tx_attr->inject_size = 8;
	h->tx_attr->msg_order = FI_ORDER_SAS;
	h->rx_attr->msg_order = FI_ORDER_SAS;
	h->rx_attr->total_buffered_recv = 4096;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	h->rx_attr->op_flags = FI_MULTI_RECV;
	h->tx_attr->caps = FI_MSG | FI_SEND;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->av_type = FI_AV_TABLE;
	h->domain_attr->mr_cnt = 100000;
	h->ep_attr->tx_ctx_cnt = 4;
	h->ep_attr->rx_ctx_cnt = 3;
	h->ep_attr->max_msg_size = 1 << 20;
	i = ask(h, 0);
	assert_int_equal(i->tx_attr->inject_size, 16);
	assert_true(i->tx_attr->msg_order == ORDERS);
	assert_int_equal(i->rx_attr->total_buffered_recv, 4096);
	assert_true(i->tx_attr->op_flags == FI_DELIVERY_COMPLETE);
	assert_true(i->rx_attr->op_flags == FI_MULTI_RECV);
	assert_true(i->caps & FI_FENCE && i->tx_attr->caps & FI_FENCE);
	assert_false(i->caps & (FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV));
	assert_int_equal(i->domain_attr->threading, FI_THREAD_DOMAIN);
	assert_int_equal(i->domain_attr->av_type, FI_AV_TABLE);
	assert_int_equal(i->ep_attr->tx_ctx_cnt, 4);
	assert_int_equal(i->ep_attr->rx_ctx_cnt, 3);
	assert_int_equal(i->ep_attr->max_msg_size, 1 << 20);
	fi_freeinfo(i);
}

static void mode__only_what_was_offered(void **state)
{
	static const uint64_t modes[][2] = {
		{0, 0},
		{FI_CONTEXT2, FI_CONTEXT2},
		{FI_CONTEXT | FI_CONTEXT2, FI_CONTEXT2},
		{FI_ASYNC_IOV, FI_ASYNC_IOV},
		{~0ULL, FI_CONTEXT2 | FI_ASYNC_IOV},
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(modes); k++) {
		struct fi_info *h = hints_new(), *i;

		h->mode = modes[k][0];
		i = ask(h, 0);
		assert_true(i->mode == modes[k][1]);
		fi_freeinfo(i);
	}
}

/* Programs of Intel MPI always ask for FI_HMEM. */
static void hmem__system_only(void **state)
{
	struct fi_info *h = hints_new(), *i;

	(void)state;
	setenv("FI_HMEM", "system", 1);
	h->caps = FI_TAGGED | FI_HMEM;
	h->domain_attr->mr_mode = FI_MR_HMEM;
	i = ask(h, 0);
	assert_true(i->caps & FI_HMEM);
	fi_freeinfo(i);
	i = get(V, NULL, 0, NULL, 0);
	assert_false(i->caps & FI_HMEM);
	fi_freeinfo(i);
}

/* --- MR modes: doc/facts/opx.md#mr-modes --------------------------------------------------------- */

static void mr__mode(uint32_t version, int hint, int want)
{
	struct fi_info *h = hints_new(), *i;

	h->caps = FI_RMA | FI_MSG;
	h->domain_attr->mr_mode = hint;
	i = get(version, NULL, 0, h, want < 0 ? -FI_ENODATA : 0);
	if (i)
		assert_int_equal(i->domain_attr->mr_mode, want);
	fi_freeinfo(i);
	fi_freeinfo(h);
}

static void mr__by_version(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		bool old = versions[v] < FI_VERSION(1, 5);
		struct fi_info *i;

		mr__mode(versions[v], KIT_MR_UNSPEC, old ? KIT_MR_SCALABLE : 0);
		mr__mode(versions[v], KIT_MR_SCALABLE, KIT_MR_SCALABLE);
		mr__mode(versions[v], KIT_MR_BASIC, -1);
		if (!old)
			mr__mode(versions[v],
				 FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_LOCAL, 0);
		i = get(versions[v], NULL, 0, NULL, 0);
		assert_int_equal(i->domain_attr->mr_mode, KIT_MR_SCALABLE);
		assert_true(i->caps & FI_REMOTE_WRITE);
		fi_freeinfo(i);
	}
}

/* --- addresses ----------------------------------------------------------------------------------- */

static void node__text(void **state)
{
	static const char *const bad[] = {"fi_addr_opx://", "fi_addr_opx://0", "fi_addr_opx://0102030405060708a",
					  "fi_addr_opx://010203040506070g", "fi_addr_opx://0x02030405060708"};
	struct fi_info *i = get(V, "fi_addr_opx://0102030405060708", 0, NULL, 0);
	uint64_t v;

	(void)state;
	assert_int_equal(i->dest_addrlen, 8);
	v = opx_addr_u64(i->dest_addr);
	assert_true(v == 0x0102030405060708);
	LIST(i, "ib0 manual", "ib0 auto", "ib1 manual", "ib1 auto");
	i = get(V, "fi_addr_opx://0102030405060108", FI_SOURCE, NULL, 0); /* unit 1 */
	assert_null(i->dest_addr);
	v = opx_addr_u64(i->src_addr);
	assert_true(v == 0x0102030405060108);
	LIST(i, "ib1 manual", "ib1 auto");
	get(V, "fi_addr_opx://0102030405060708", FI_SOURCE, NULL, -FI_ENODATA); /* unit 7 */
	for (size_t k = 0; k < ARRAY_SIZE(bad); k++)
		get(V, bad[k], 0, NULL, -FI_EINVAL);
	get(V, "127.0.0.1", 0, NULL, -FI_ENODATA);
	get(V, "127.0.0.1", FI_NUMERICHOST, NULL, -FI_ENODATA);
	fi_freeinfo(get(V, "fi_addr_opx://0102030405060708", FI_NUMERICHOST, NULL, 0));
	fi_freeinfo(get(V, NULL, FI_SOURCE, NULL, 0));
	get(V, "fi_addr_cxi://0x0000000000000000", FI_SOURCE, NULL, -FI_ENODATA);
}

static void hints__addresses(void **state)
{
	struct fi_info *h = hints_new(), *i = get(V, NULL, 0, NULL, 0);
	struct opx_addr src = opx_addr_unbound(), dest = {.hfi1_rx = 3, .lid = be16_put(9)};

	(void)state;
	src.hfi1_unit = 1;
	h->src_addr = memcpy(malloc(8), &src, 8);
	h->dest_addr = memcpy(malloc(8), &dest, 8);
	h->src_addrlen = h->dest_addrlen = 8;
	fi_freeinfo(i);
	i = ask(h, 0);
	assert_memory_equal(i->src_addr, &src, 8);
	assert_memory_equal(i->dest_addr, &dest, 8);
	LIST(i, "ib1 manual", "ib1 auto");
}

/* An open domain stands for its unit, by whatever other hints. */
static void hints__open_domain(void **state)
{
	struct fid_domain other = {.fid = {.fclass = FI_CLASS_DOMAIN},
				   .ops = (struct fi_ops_domain *)(uintptr_t)&kit_no_domain_ops};
	struct fi_info *h = hints_new();
	struct fake_dom f;

	(void)state;
	h->domain_attr->name = strdup("ib1");
	fake_open(&f, h);
	h = hints_new();
	h->domain_attr->domain = f.domain;
	LIST(ask(h, 0), "ib1 manual", "ib1 auto");
	h = hints_new();
	h->domain_attr->domain = f.domain;
	h->domain_attr->name = strdup("ib0");
	refused(h);
	h = hints_new();
	h->domain_attr->domain = &other;
	refused(h);
	fake_close(&f);
}

/* What comes back is good as hints. */
static void hints__own_result(void **state)
{
	struct fi_info *all = get(V, NULL, 0, NULL, 0);

	(void)state;
	for (struct fi_info *i = all; i; i = i->next) {
		struct fi_info *h = fi_dupinfo(i), *again;

		again = get(V, NULL, 0, h, 0);
		assert_string_equal(again->domain_attr->name, i->domain_attr->name);
		assert_int_equal(again->domain_attr->data_progress, i->domain_attr->data_progress);
		assert_null(again->next);
		fi_freeinfo(again);
		fi_freeinfo(h);
	}
	fi_freeinfo(all);
}

/* Every allocation may fail: nothing is lost, nothing is half returned. */
static void memory__fails(void **state)
{
	struct fi_info *h = hints_new(), *info = NULL;
	int64_t live = mem_live_count();
	int ret, n = 0;

	(void)state;
	h->domain_attr->name = strdup("hfi1_1");
	do {
		mem_fail_nth((uint64_t)++n);
		ret = opx_getinfo(V, NULL, NULL, 0, h, &info);
		mem_fail_nth(0);
		assert_true(ret == 0 || ret == -FI_ENOMEM);
		assert_int_equal(info != NULL, ret == 0);
	} while (ret);
	assert_true(n > 10);
	fi_freeinfo(info);
	fi_freeinfo(h);
	assert_int_equal(mem_live_count(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(list__two_per_unit, setup),
		cmocka_unit_test_setup(list__by_progress, setup),
		cmocka_unit_test_setup(list__usable_units_first, setup),
		cmocka_unit_test_setup(names__of_other_releases, setup),
		cmocka_unit_test_setup(attrs__all, setup),
		cmocka_unit_test_setup(nic__filled, setup),
		cmocka_unit_test_setup(refuse__kinds, setup),
		cmocka_unit_test_setup(refuse__values, setup),
		cmocka_unit_test_setup(accept__values, setup),
		cmocka_unit_test_setup(mode__only_what_was_offered, setup),
		cmocka_unit_test_setup(hmem__system_only, setup),
		cmocka_unit_test_setup(mr__by_version, setup),
		cmocka_unit_test_setup(node__text, setup),
		cmocka_unit_test_setup(hints__addresses, setup),
		cmocka_unit_test_setup(hints__open_domain, setup),
		cmocka_unit_test_setup(hints__own_result, setup),
		cmocka_unit_test_setup(memory__fails, setup),
	};

	return cmocka_run_group_tests(tests, fake_group_setup, NULL);
}
