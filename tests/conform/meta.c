// SPDX-License-Identifier: BSD-2-Clause
// The test of the tests: whatever the provider advertises, at least one test names it.
#include "conform.h"

#include <stdlib.h>

struct word {
	uint64_t bit;
	const char *name;
};
#define W(bit_) {bit_, #bit_}
#define P(prefix_, bit_) {bit_, prefix_ #bit_}

static const struct word caps[] = {
	W(FI_MSG), W(FI_RMA), W(FI_TAGGED), W(FI_ATOMIC), W(FI_MULTICAST), W(FI_COLLECTIVE), W(FI_READ), W(FI_WRITE),
	W(FI_RECV),
	W(FI_SEND), W(FI_REMOTE_READ), W(FI_REMOTE_WRITE), W(FI_MULTI_RECV),
	W(FI_TRIGGER), W(FI_FENCE), W(FI_HMEM), W(FI_RMA_PMEM),
	W(FI_SOURCE_ERR), W(FI_LOCAL_COMM), W(FI_REMOTE_COMM), W(FI_SHARED_AV), W(FI_RMA_EVENT), W(FI_SOURCE),
	W(FI_NAMED_RX_CTX),
	W(FI_DIRECTED_RECV), W(FI_AV_USER_ID), {0},
};
static const struct word orders[] = {
	P("order:", FI_ORDER_SAS), P("order:", FI_ORDER_SAR), P("order:", FI_ORDER_SAW), P("order:", FI_ORDER_RAS),
	P("order:", FI_ORDER_WAS), P("order:", FI_ORDER_RMA_RAR),
	P("order:", FI_ORDER_RMA_RAW), P("order:", FI_ORDER_RMA_WAR),
	P("order:", FI_ORDER_RMA_WAW), P("order:", FI_ORDER_ATOMIC_RAR), P("order:", FI_ORDER_ATOMIC_RAW),
	P("order:", FI_ORDER_ATOMIC_WAR), P("order:", FI_ORDER_ATOMIC_WAW),
	P("order:", FI_ORDER_RAR), P("order:", FI_ORDER_RAW),
	P("order:", FI_ORDER_WAR), P("order:", FI_ORDER_WAW), {0},
};
static const struct word op_flags[] = {
	P("op:", FI_COMPLETION), P("op:", FI_INJECT), P("op:", FI_INJECT_COMPLETE), P("op:", FI_TRANSMIT_COMPLETE),
	P("op:", FI_DELIVERY_COMPLETE), P("op:", FI_MULTI_RECV), P("op:", FI_COMMIT_COMPLETE),
	P("op:", FI_MATCH_COMPLETE), P("op:", FI_REMOTE_CQ_DATA), P("op:", FI_MORE), P("op:", FI_FENCE), {0},
};
static const struct word mr_modes[] = {
	P("mr:", FI_MR_LOCAL), P("mr:", FI_MR_RAW), P("mr:", FI_MR_VIRT_ADDR), P("mr:", FI_MR_ALLOCATED),
	P("mr:", FI_MR_PROV_KEY),
	P("mr:", FI_MR_MMU_NOTIFY), P("mr:", FI_MR_RMA_EVENT), P("mr:", FI_MR_ENDPOINT), P("mr:", FI_MR_HMEM), {0},
};
static const struct word modes[] = {P("mode:", FI_MSG_PREFIX), P("mode:", FI_CONTEXT), P("mode:", FI_CONTEXT2),
				    P("mode:", FI_ASYNC_IOV), {0}};

/* @word among the words of @list, which are separated by blanks. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p && (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

/* Some test that this endpoint type does not skip names it. */
static bool is_covered(const struct ct *c, const struct fi_info *info, const char *word, bool any_type)
{
	for (const struct ct_test *const *tab = ct_tables; *tab; tab++)
		for (const struct ct_test *t = *tab; t->name; t++) {
			enum fi_ep_type type = t->type ? t->type : FI_EP_RDM;

			if ((any_type || type == info->ep_attr->type) && (!t->prov || !strcmp(t->prov, c->prov)) &&
			    has_word(t->covers, word) &&
			    (any_type || ((info->caps | c->p->on_request) & t->caps) == t->caps))
				return true;
		}
	return false;
}

static unsigned check_bits(const struct ct *c, const struct fi_info *info, const char *what, uint64_t bits,
			   const struct word *tab)
{
	unsigned missing = 0;
	uint64_t named = 0;

	for (; tab->name; tab++) {
		named |= tab->bit;
		if ((bits & tab->bit) == tab->bit && !is_covered(c, info, tab->name, false)) {
			printf("    %s: no test names %s\n", info->domain_attr->name, tab->name);
			missing++;
		}
	}
	if (bits & ~named) {
		printf("    %s: %s bits %#llx have no name here\n", info->domain_attr->name, what,
		       (unsigned long long)(bits & ~named));
		missing++;
	}
	return missing;
}

static unsigned check_limits(const struct ct *c, const struct fi_info *i)
{
	const struct {
		const char *name;
		uint64_t value;
		bool any_type;
	} tab[] = {
		{"inject_size", i->tx_attr->inject_size, false},
		{"tx.size", i->tx_attr->size, false},
		{"rx.size", i->rx_attr->size, false},
		{"tx.iov_limit", i->tx_attr->iov_limit, false},
		{"rx.iov_limit", i->rx_attr->iov_limit, false},
		{"tx.rma_iov_limit", i->tx_attr->rma_iov_limit, false},
		{"max_msg_size", i->ep_attr->max_msg_size, false},
		{"msg_prefix_size", i->mode & FI_MSG_PREFIX ? i->ep_attr->msg_prefix_size : 0, false},
		{"max_order_raw_size", i->ep_attr->max_order_raw_size, false},
		{"max_order_war_size", i->ep_attr->max_order_war_size, false},
		{"max_order_waw_size", i->ep_attr->max_order_waw_size, false},
		{"mem_tag_format", i->caps & FI_TAGGED ? i->ep_attr->mem_tag_format : 0, false},
		{"tx_ctx_cnt", i->ep_attr->tx_ctx_cnt, true},
		{"rx_ctx_cnt", i->ep_attr->rx_ctx_cnt, true},
		{"max_ep_tx_ctx", i->domain_attr->max_ep_tx_ctx, true},
		{"max_ep_rx_ctx", i->domain_attr->max_ep_rx_ctx, true},
		{"cq_data_size", i->domain_attr->cq_data_size, false},
		{"cq_cnt", i->domain_attr->cq_cnt, true},
		{"ep_cnt", i->domain_attr->ep_cnt, true},
		{"cntr_cnt", i->domain_attr->cntr_cnt, true},
		{"mr_cnt", i->domain_attr->mr_cnt, true},
		{"mr_key_size", i->domain_attr->mr_key_size, true},
		{"mr_iov_limit", i->domain_attr->mr_iov_limit, true},
		{"max_err_data", i->domain_attr->max_err_data, true},
		{"rm:FI_RM_ENABLED", i->domain_attr->resource_mgmt == FI_RM_ENABLED, false},
		{"rm:FI_RM_DISABLED", i->domain_attr->resource_mgmt == FI_RM_DISABLED, false},
		{"threading:FI_THREAD_SAFE", i->domain_attr->threading == FI_THREAD_SAFE, false},
		{"progress:FI_PROGRESS_AUTO",
		 i->ep_attr->type == FI_EP_RDM && i->domain_attr->data_progress == FI_PROGRESS_AUTO, false},
		{"progress:FI_PROGRESS_MANUAL",
		 i->ep_attr->type == FI_EP_RDM && i->domain_attr->data_progress == FI_PROGRESS_MANUAL, false},
	};
	unsigned missing = 0;

	for (size_t k = 0; k < sizeof(tab) / sizeof(tab[0]); k++)
		if (tab[k].value && !is_covered(c, i, tab[k].name, tab[k].any_type)) {
			printf("    %s: no test names %s\n", i->domain_attr->name, tab[k].name);
			missing++;
		}
	return missing;
}

static unsigned check_info(const struct ct *c, const struct fi_info *list)
{
	unsigned missing = 0, seen = 0;

	for (const struct fi_info *i = list; i; i = i->next) {
		if (strcmp(i->fabric_attr->prov_name, c->prov))
			continue;
		seen++;
		missing += check_bits(c, i, "caps", i->caps | (i->ep_attr->type == FI_EP_RDM ? c->p->on_request : 0),
				      caps);
		missing += check_bits(c, i, "msg_order", i->tx_attr->msg_order | i->rx_attr->msg_order, orders);
		missing += check_bits(c, i, "op_flags", i->tx_attr->op_flags | i->rx_attr->op_flags, op_flags);
		missing += check_bits(c, i, "mr_mode",
				      (uint64_t)i->domain_attr->mr_mode & ~(uint64_t)(KIT_MR_BASIC | KIT_MR_SCALABLE),
				      mr_modes);
		missing += check_bits(c, i, "mode", i->mode, modes);
		missing += check_limits(c, i);
	}
	CHECK(seen, "no info of %s", c->prov);
	return missing;
}

static void meta_coverage(struct ct *c)
{
	struct fi_info *info, *hints = fi_allocinfo();
	unsigned missing;

	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info));
	missing = check_info(c, info);
	fi_freeinfo(info);
	hints->fabric_attr->prov_name = strdup(c->prov);
	hints->mode = ~0ULL;
	hints->domain_attr->mr_mode = ~(KIT_MR_BASIC | KIT_MR_SCALABLE);
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	missing += check_info(c, info);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	CHECK(!missing, "%u advertised things have no test", missing);
}

/* Names are unique and begin with their group, so that filters and meson's list of groups mean what they say. */
static void meta_names(struct ct *c)
{
	for (const struct ct_test *const *a = ct_tables; *a; a++)
		for (const struct ct_test *t = *a; t->name; t++) {
			CHECK(strchr(t->name, '_'), "%s has no group", t->name);
			for (const struct ct_test *const *b = ct_tables; *b; b++)
				for (const struct ct_test *u = *b; u->name; u++)
					CHECK(t == u || strcmp(t->name, u->name), "%s twice", t->name);
		}
}

const struct ct_test meta_tests[] = {
	{"meta_coverage", meta_coverage, 0, 0, CT_SOLO, NULL},
	{"meta_names", meta_names, 0, 0, CT_SOLO, NULL},
	{0},
};
