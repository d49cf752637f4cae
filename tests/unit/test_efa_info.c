// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of the provider, called directly so that API versions beyond the local libfabric are covered. Source:
// doc/facts/efa.md#attributes, #hints.
#include <string.h>

#include "kit/deprecated.h"
#include "prov/efa/efa_obj.h"
#include "unit.h"

struct fi_provider *fi_prov_ini(void);

static struct fi_info *get(uint32_t version, const struct fi_info *hints, int want)
{
	struct fi_info *info = NULL;

	assert_int_equal(efa_getinfo(version, NULL, NULL, 0, hints, &info), want);
	if (want)
		assert_null(info);
	else
		assert_non_null(info);
	return info;
}

static struct fi_info *hints_new(void)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
	return h;
}

static void no_hints__rdm_then_dgram(void **state)
{
	static const uint32_t versions[] = {FI_VERSION(1, 5),  FI_VERSION(1, 14), FI_VERSION(1, 17), FI_VERSION(1, 18),
					    FI_VERSION(1, 20), FI_VERSION(2, 0),  FI_VERSION(2, 1),  FI_VERSION(2, 6)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fi_info *info = get(versions[i], NULL, 0);

		assert_int_equal(info->ep_attr->type, FI_EP_RDM);
		assert_non_null(info->next);
		assert_int_equal(info->next->ep_attr->type, FI_EP_DGRAM);
		assert_null(info->next->next);
		assert_null(info->fabric_attr->prov_name); /* the core appends its own to whatever is there */
		assert_string_equal(info->fabric_attr->name, "efa");
		assert_string_equal(info->domain_attr->name, "rdmap0s6-rdm");
		assert_string_equal(info->next->domain_attr->name, "rdmap0s6-dgrm");
		fi_freeinfo(info);
	}
}

static void no_hints__old_versions_get_old_mr_modes(void **state)
{
	static const uint32_t versions[] = {0, FI_VERSION(1, 0), FI_VERSION(1, 4)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fi_info *info = get(versions[i], NULL, 0);

		assert_int_equal(info->domain_attr->mr_mode, KIT_MR_BASIC);
		fi_freeinfo(info);
	}
}

/*
 * MPICH up to 5.0 asks for the provider's info at API version 0 and offers of it, at today's
 * version, the caps, then its mode of registration: a word, which is answered by the word. Whoever
 * looks for bits in that (MPICH) finds none. Source: doc/facts/libfabric.md#negotiation-of-registration.
 */
static void hints__a_word_of_registration_is_echoed(void **state)
{
	const int bits = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	struct fi_info *old = get(0, NULL, 0), *h = hints_new(), *i;

	(void)state;
	h->caps = old->caps;
	h->domain_attr->mr_mode = FI_MR_HMEM | FI_MR_ENDPOINT;
	get(FI_VERSION(2, 6), h, -FI_ENODATA); /* a target of RMA must take all three bits */
	h->domain_attr->mr_mode = old->domain_attr->mr_mode;
	i = get(FI_VERSION(2, 6), h, 0);
	assert_int_equal(i->domain_attr->mr_mode, KIT_MR_BASIC);
	assert_int_equal(i->caps, old->caps);
	fi_freeinfo(i);
	h->domain_attr->mr_mode = FI_MR_HMEM | FI_MR_ENDPOINT | bits;
	i = get(FI_VERSION(2, 6), h, 0);
	assert_int_equal(i->domain_attr->mr_mode, bits);
	assert_int_equal(i->caps, old->caps);
	fi_freeinfo(i);
	fi_freeinfo(h);
	fi_freeinfo(old);
}

static void rdm__attributes(void **state)
{
	struct fi_info *i = get(FI_VERSION(2, 1), NULL, 0);

	(void)state;
	assert_int_equal(i->caps, FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_RECV | FI_SEND |
					  FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_LOCAL_COMM |
					  FI_REMOTE_COMM | FI_SOURCE | FI_DIRECTED_RECV);
	assert_int_equal(i->mode, 0);
	assert_int_equal(i->addr_format, FI_ADDR_EFA);
	assert_int_equal(i->src_addrlen, 32);
	assert_int_equal(i->tx_attr->inject_size, 4096);
	assert_int_equal(i->tx_attr->size, 4096);
	assert_int_equal(i->rx_attr->size, 8192);
	assert_int_equal(i->tx_attr->iov_limit, 4);
	assert_int_equal(i->rx_attr->iov_limit, 4);
	assert_int_equal(i->tx_attr->rma_iov_limit, 1);
	assert_int_equal(i->ep_attr->protocol, FI_PROTO_EFA);
	assert_int_equal(i->ep_attr->protocol_version, 4);
	assert_true(i->ep_attr->max_msg_size == UINT64_MAX);
	assert_int_equal(i->ep_attr->max_order_raw_size, 8776);
	assert_true(i->ep_attr->mem_tag_format == 0xaaaaaaaaaaaaaaaaULL);
	assert_int_equal(i->domain_attr->threading, FI_THREAD_SAFE);
	assert_int_equal(i->domain_attr->resource_mgmt, FI_RM_ENABLED);
	assert_int_equal(i->domain_attr->av_type, FI_AV_TABLE);
	assert_int_equal(i->domain_attr->mr_mode, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
	assert_int_equal(i->domain_attr->mr_key_size, 4);
	assert_int_equal(i->domain_attr->cq_data_size, 4);
	assert_int_equal(i->domain_attr->cq_cnt, 512);
	assert_int_equal(i->domain_attr->ep_cnt, 256);
	assert_int_equal(i->domain_attr->mr_cnt, 262144);
	assert_non_null(i->nic);
	assert_string_equal(i->nic->device_attr->name, "rdmap0s6");
	assert_string_equal(i->nic->link_attr->address, "EFA-fe80::5f:7fff:fe00:1");
	assert_string_equal(i->nic->device_attr->vendor_id, "0x1d0f");
	assert_int_equal(i->nic->link_attr->mtu, 8928);
	assert_int_equal(i->nic->link_attr->state, FI_LINK_UP);
	assert_int_equal(i->nic->bus_attr->bus_type, FI_BUS_UNKNOWN); /* no such device is here */
	fi_freeinfo(i);
	setenv("SOFTFABRIC_EFA", "pci=yes", 1);
	i = get(FI_VERSION(2, 1), NULL, 0);
	unsetenv("SOFTFABRIC_EFA");
	assert_int_equal(i->nic->bus_attr->bus_type, FI_BUS_PCI);
	assert_int_equal(i->nic->bus_attr->attr.pci.device_id, 6);
	fi_freeinfo(i);
}

static void dgram__attributes(void **state)
{
	struct fi_info *h = hints_new(), *i;

	(void)state;
	h->ep_attr->type = FI_EP_DGRAM;
	h->mode = FI_MSG_PREFIX;
	i = get(FI_VERSION(2, 1), h, 0);
	assert_null(i->next);
	assert_int_equal(i->mode, FI_MSG_PREFIX);
	assert_int_equal(i->ep_attr->msg_prefix_size, 40);
	assert_int_equal(i->ep_attr->max_msg_size, 8928);
	assert_int_equal(i->domain_attr->threading, FI_THREAD_DOMAIN);
	assert_int_equal(i->domain_attr->resource_mgmt, FI_RM_DISABLED);
	fi_freeinfo(i);
	h->mode = 0; /* the prefix is demanded */
	get(FI_VERSION(2, 1), h, -FI_ENODATA);
	fi_freeinfo(h);
}

/* Each hint that the provider cannot serve ends in -FI_ENODATA, whatever else is asked. */
static void hints__refused(void **state)
{
	for (int c = 0; c < 14; c++) {
		struct fi_info *h = hints_new();

		(void)state;
		switch (c) {
		case 0: h->ep_attr->type = FI_EP_MSG; break;
		case 1: h->caps = FI_RMA_EVENT; break;
		case 2: h->caps = FI_MULTICAST; break;
		case 3: h->domain_attr->cq_data_size = 5; break;
		case 4: h->domain_attr->mr_key_size = 3; h->domain_attr->mr_iov_limit = 2; break;
		case 5: h->tx_attr->inject_size = 1 << 20; break;
		case 6: h->tx_attr->iov_limit = 5; break;
		case 7: h->rx_attr->size = 1 << 20; break;
		case 8: h->ep_attr->protocol = FI_PROTO_PSMX2; break;
		case 9: h->addr_format = FI_SOCKADDR_IN; break;
		case 10: h->domain_attr->mr_mode = KIT_MR_SCALABLE; break;
		case 11: h->tx_attr->comp_order = KIT_ORDER_STRICT; break;
		case 12: h->domain_attr->name = strdup("rdmap9s9-rdm"); break;
		case 13: h->ep_attr->tx_ctx_cnt = 4; break;
		}
		get(FI_VERSION(1, 17), h, -FI_ENODATA);
		fi_freeinfo(h);
	}
}

static void hints__null_parts(void **state)
{
	struct fi_info h = {.caps = FI_TAGGED};
	struct fi_info *i = get(FI_VERSION(1, 17), &h, 0);

	(void)state;
	assert_int_equal(i->ep_attr->type, FI_EP_RDM);
	assert_true(i->caps & FI_TAGGED);
	assert_false(i->caps & FI_ATOMIC); /* not asked for */
	fi_freeinfo(i);
}

static void hints__av_map_becomes_table(void **state)
{
	struct fi_info *h = hints_new(), *i;

	(void)state;
	h->domain_attr->av_type = FI_AV_MAP;
	i = get(FI_VERSION(1, 17), h, 0);
	assert_int_equal(i->domain_attr->av_type, FI_AV_TABLE);
	fi_freeinfo(i);
	fi_freeinfo(h);
}

static void hints__msg_prefix_on_rdm(void **state)
{
	struct fi_info *h = hints_new(), *i;

	(void)state;
	h->mode = FI_MSG_PREFIX;
	i = get(FI_VERSION(1, 17), h, 0);
	assert_true(i->mode & FI_MSG_PREFIX);
	assert_int_equal(i->ep_attr->msg_prefix_size, 176);
	fi_freeinfo(i);
	fi_freeinfo(h);
}

static void node__addresses(void **state)
{
	static const char *const same[] = {"127.0.0.1", "::ffff:127.0.0.1", "fe80::5f:7fff:fe00:1"};
	static const uint8_t gid[16] = {0xfe, 0x80, [9] = 0x5f, 127, 0xff, 0xfe, 0, 0, 1};
	struct fi_info *info = NULL;
	struct efa_addr *a;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		assert_int_equal(efa_getinfo(FI_VERSION(1, 17), same[i], "4711", 0, NULL, &info), 0);
		a = info->dest_addr;
		assert_int_equal(info->dest_addrlen, 32);
		assert_int_equal(a->qpn, 4711);
		assert_memory_equal(a->gid, gid, sizeof(gid));
		assert_memory_equal(((struct efa_addr *)info->src_addr)->gid, gid, sizeof(gid));
		fi_freeinfo(info);
		/* the same as our own */
		assert_int_equal(efa_getinfo(FI_VERSION(1, 17), same[i], NULL, FI_SOURCE, NULL, &info), 0);
		fi_freeinfo(info);
	}
	assert_int_equal(efa_getinfo(FI_VERSION(1, 17), "2001:db8::5", NULL, 0, NULL, &info), 0);
	a = info->dest_addr;
	assert_int_equal(a->gid[15], 5);
	fi_freeinfo(info);
	assert_int_equal(efa_getinfo(FI_VERSION(1, 17), NULL, "4711", 0, NULL, &info), -FI_EINVAL);
	assert_int_equal(efa_getinfo(FI_VERSION(1, 17), "127.0.0.1", "x", 0, NULL, &info), -FI_EINVAL);
	assert_int_equal(efa_getinfo(FI_VERSION(1, 17), "127.0.0.1", "65536", 0, NULL, &info), -FI_EINVAL);
	assert_int_equal(efa_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, NULL, &info), 0);
	fi_freeinfo(info);
	assert_int_equal(efa_getinfo(FI_VERSION(1, 17), "192.0.2.1", NULL, FI_SOURCE, NULL, &info), -FI_ENODATA);
}

static void wrong_address_length(void **state)
{
	struct fi_info *h = hints_new();

	(void)state;
	h->src_addr = calloc(1, 16);
	h->src_addrlen = 16;
	get(FI_VERSION(1, 17), h, -FI_ENODATA);
	fi_freeinfo(h);
}

/* For who asks, if the room has it: 0, or the capabilities. */
static uint64_t hmem(const char *room, uint32_t version, uint64_t caps, int mr_mode)
{
	struct fi_info *h = hints_new(), *i = NULL;
	uint64_t got = 0;
	int ret;

	h->ep_attr->type = FI_EP_RDM;
	h->caps = caps;
	h->domain_attr->mr_mode = mr_mode;
	setenv("SOFTFABRIC_EFA", room, 1);
	ret = efa_getinfo(version, NULL, NULL, 0, h, &i);
	unsetenv("SOFTFABRIC_EFA");
	assert_int_equal(ret, i ? 0 : -FI_ENODATA);
	if (i) {
		got = i->caps;
		assert_int_equal(!!(i->domain_attr->mr_mode & FI_MR_HMEM), !!(caps & FI_HMEM));
		assert_int_equal(!!(i->tx_attr->caps & i->rx_attr->caps & FI_HMEM),
				 !!(caps & FI_HMEM));
	}
	fi_freeinfo(h);
	fi_freeinfo(i);
	return got;
}

#define MR_BITS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

static void hmem__where_the_room_has_it(void **state)
{
	static const uint64_t rma = FI_MSG | FI_RMA | FI_HMEM;
	struct fi_info *i;

	(void)state;
	assert_int_equal(hmem("", FI_VERSION(1, 18), rma, MR_BITS | FI_MR_HMEM), 0);
	assert_true(hmem("hmem=yes", FI_VERSION(1, 17), rma, MR_BITS | FI_MR_HMEM) & FI_HMEM);
	assert_true(hmem("hmem=yes", FI_VERSION(2, 6), rma, MR_BITS | FI_MR_HMEM) & FI_HMEM);
	assert_int_equal(hmem("hmem=yes", FI_VERSION(2, 6), rma, MR_BITS),
			 0); /* the mode is required */
	assert_int_equal(hmem("hmem=yes", FI_VERSION(2, 6), FI_MSG, MR_BITS | FI_MR_HMEM) & FI_HMEM,
			 0);
	/* before 1.18: no atomics on it, and RDMA read */
	assert_int_equal(hmem("hmem=yes", FI_VERSION(1, 17), rma | FI_ATOMIC, MR_BITS | FI_MR_HMEM),
			 0);
	assert_true(hmem("hmem=yes", FI_VERSION(1, 18), rma | FI_ATOMIC, MR_BITS | FI_MR_HMEM) &
		    FI_ATOMIC);
	assert_int_equal(
		hmem("hmem=yes;gen=efa0-none", FI_VERSION(1, 17), rma, MR_BITS | FI_MR_HMEM), 0);
	assert_true(hmem("hmem=yes;gen=efa0-none", FI_VERSION(1, 18), rma, MR_BITS | FI_MR_HMEM) &
		    FI_HMEM);
	setenv("SOFTFABRIC_EFA", "hmem=yes", 1);
	i = get(FI_VERSION(2, 6), NULL, 0);
	unsetenv("SOFTFABRIC_EFA");
	assert_false(i->caps & FI_HMEM); /* on request only */
	fi_freeinfo(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_hints__rdm_then_dgram),
		cmocka_unit_test(no_hints__old_versions_get_old_mr_modes),
		cmocka_unit_test(hints__a_word_of_registration_is_echoed),
		cmocka_unit_test(rdm__attributes),
		cmocka_unit_test(dgram__attributes),
		cmocka_unit_test(hints__refused),
		cmocka_unit_test(hmem__where_the_room_has_it),
		cmocka_unit_test(hints__null_parts),
		cmocka_unit_test(hints__av_map_becomes_table),
		cmocka_unit_test(hints__msg_prefix_on_rdm),
		cmocka_unit_test(node__addresses),
		cmocka_unit_test(wrong_address_length),
	};

	fi_prov_ini();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
