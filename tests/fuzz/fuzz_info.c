// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of a provider with hints of every shape, and node and service strings.
#include "fuzz.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "fuzz_prov.h"

static char *name_of(struct fuzz *f)
{
	static const char *const known[] = {FUZZ_NAMES};
	uint8_t n = fuzz_u8(f);

	if (n < 128)
		return NULL;
	return n < 192 ? strdup(known[n % 6]) : fuzz_text(f, 40);
}

/* Mostly what programs ask for, now and then anything. */
static uint64_t bits(struct fuzz *f, uint64_t usual)
{
	uint8_t n = fuzz_u8(f);

	return n < 100 ? usual : n < 150 ? 0 : n < 220 ? usual & fuzz_u64(f) : fuzz_u64(f);
}

static void fill_attrs(struct fuzz *f, struct fi_info *h)
{
	h->ep_attr->type = (enum fi_ep_type)(fuzz_u8(f) % 8);
	h->ep_attr->protocol = (uint32_t)bits(f, 0);
	h->ep_attr->protocol_version = (uint32_t)bits(f, FUZZ_PROTO);
	h->ep_attr->max_msg_size = bits(f, 8192);
	h->ep_attr->mem_tag_format = bits(f, UINT64_MAX);
	h->ep_attr->tx_ctx_cnt = bits(f, 1);
	h->ep_attr->rx_ctx_cnt = bits(f, 1);
	h->domain_attr->mr_mode = (int)bits(f, FUZZ_MR_MODE);
	h->domain_attr->threading = (enum fi_threading)(fuzz_u8(f) % 8);
	h->domain_attr->control_progress = (enum fi_progress)(fuzz_u8(f) % 5);
	h->domain_attr->data_progress = (enum fi_progress)(fuzz_u8(f) % 5);
	h->domain_attr->resource_mgmt = (enum fi_resource_mgmt)(fuzz_u8(f) % 4);
	h->domain_attr->av_type = (enum fi_av_type)(fuzz_u8(f) % 4);
	h->domain_attr->cq_data_size = bits(f, FUZZ_CQ_DATA);
	h->domain_attr->mr_key_size = bits(f, 8);
	h->domain_attr->caps = bits(f, FI_LOCAL_COMM | FI_REMOTE_COMM);
	h->domain_attr->name = name_of(f);
	h->fabric_attr->name = name_of(f);
	h->fabric_attr->prov_name = name_of(f);
	h->tx_attr->caps = bits(f, h->caps);
	h->tx_attr->op_flags = bits(f, FI_COMPLETION | FI_INJECT | FI_DELIVERY_COMPLETE);
	h->tx_attr->msg_order = bits(f, FI_ORDER_SAS);
	h->tx_attr->inject_size = bits(f, 64);
	h->tx_attr->size = bits(f, 128);
	h->tx_attr->iov_limit = bits(f, 2);
	h->rx_attr->caps = bits(f, h->caps);
	h->rx_attr->msg_order = bits(f, FI_ORDER_SAS);
	h->rx_attr->size = bits(f, 128);
	h->rx_attr->total_buffered_recv = bits(f, 0);
	h->rx_attr->iov_limit = bits(f, 2);
}

static void drop_attrs(struct fuzz *f, struct fi_info *h)
{
	uint8_t n = fuzz_u8(f);

	if (n & 1)
		free(h->tx_attr), h->tx_attr = NULL;
	if (n & 2)
		free(h->rx_attr), h->rx_attr = NULL;
	if (n & 4)
		free(h->ep_attr), h->ep_attr = NULL;
	if (n & 8)
		free(h->domain_attr->name), free(h->domain_attr), h->domain_attr = NULL;
	if (n & 16)
		free(h->fabric_attr->name), free(h->fabric_attr->prov_name), free(h->fabric_attr),
			h->fabric_attr = NULL;
}

static struct fi_info *hints_of(struct fuzz *f)
{
	struct fi_info *h;

	if (fuzz_u8(f) % 8 == 0)
		return NULL;
	h = fi_allocinfo();
	h->caps = bits(f, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE);
	h->mode = bits(f, FI_CONTEXT | FI_MSG_PREFIX);
	h->addr_format = (uint32_t)(fuzz_u8(f) % 24);
	if (fuzz_u8(f) % 4 == 0) {
		h->dest_addrlen = fuzz_u8(f) % 64;
		h->dest_addr = malloc(h->dest_addrlen + 1);
		fuzz_get(f, h->dest_addr, h->dest_addrlen);
	}
	if (fuzz_u8(f) % 4 == 0) {
		h->src_addrlen = fuzz_u8(f) % 64;
		h->src_addr = malloc(h->src_addrlen + 1);
		fuzz_get(f, h->src_addr, h->src_addrlen);
	}
	fill_attrs(f, h);
	drop_attrs(f, h);
	return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fi_provider *prov;
	struct fuzz f = {data, size};
	struct fi_info *h, *out = NULL;
	char *node = NULL, *service = NULL;
	uint32_t version;
	int ret;

	if (!prov)
		prov = fi_prov_ini();
	h = hints_of(&f);
	version = fuzz_u8(&f) % 4 ? FI_VERSION(1, 1 + fuzz_u8(&f) % 25) : (uint32_t)fuzz_u64(&f);
	if (fuzz_u8(&f) % 3 == 0)
		node = fuzz_text(&f, 60);
	if (fuzz_u8(&f) % 3 == 0)
		service = fuzz_text(&f, 20);
	ret = prov->getinfo(version, node, service, bits(&f, fuzz_u8(&f) % 2 ? FI_SOURCE : 0), h, &out);
	FUZZ_CHECK(ret || out);
	if (!ret)
		fi_freeinfo(out);
	fi_freeinfo(h);
	free(node);
	free(service);
	return 0;
}
