// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/info.c, kit/info_check.c and kit/info_mr.c.
#include "unit.h"

#include "base/mem.h"
#include "kit/compat.h"
#include "kit_fix.h"

#define TX_CAPS (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND)
#define RX_CAPS                                                                                    \
	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE |    \
	 FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV)
#define ORDER (FI_ORDER_SAS | FI_ORDER_ATOMIC_RAW)
#define BASIC (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

static const uint32_t g_versions[] = {0,
				      FI_VERSION(1, 4),
				      FI_VERSION(1, 5),
				      FI_VERSION(1, 17),
				      FI_VERSION(1, 18),
				      FI_VERSION(2, 1)};

/* What a busy RDM provider offers. */
static struct fi_info *have_new(void)
{
	struct fi_info *i = kit_info_new();

	i->caps = TX_CAPS | RX_CAPS | FI_LOCAL_COMM | FI_REMOTE_COMM;
	i->addr_format = FI_ADDR_EFA;
	i->tx_attr->caps = TX_CAPS;
	i->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_DELIVERY_COMPLETE;
	i->tx_attr->msg_order = ORDER;
	i->tx_attr->inject_size = 4096;
	i->tx_attr->size = 1024;
	i->tx_attr->iov_limit = 4;
	i->tx_attr->rma_iov_limit = 1;
	i->rx_attr->caps = RX_CAPS;
	i->rx_attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
	i->rx_attr->msg_order = ORDER;
	i->rx_attr->size = 2048;
	i->rx_attr->iov_limit = 4;
	i->ep_attr->type = FI_EP_RDM;
	i->ep_attr->protocol = FI_PROTO_EFA;
	i->ep_attr->protocol_version = 4;
	i->ep_attr->max_msg_size = 1 << 30;
	i->ep_attr->max_order_raw_size = 8776;
	i->ep_attr->max_order_waw_size = 8776;
	i->ep_attr->mem_tag_format = 0x0000aaaaaaaaaaaaULL;
	i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
	i->domain_attr->name = strdup("fix0-rdm");
	i->domain_attr->threading = FI_THREAD_COMPLETION;
	i->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	i->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	i->domain_attr->resource_mgmt = FI_RM_ENABLED;
	i->domain_attr->av_type = FI_AV_TABLE;
	i->domain_attr->mr_mode = BASIC;
	i->domain_attr->mr_key_size = 4;
	i->domain_attr->cq_data_size = 4;
	i->domain_attr->max_ep_tx_ctx = i->domain_attr->max_ep_rx_ctx = 1;
	i->domain_attr->mr_iov_limit = 1;
	i->domain_attr->mr_cnt = 1000;
	i->domain_attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
	i->fabric_attr->name = strdup("fix");
	return i;
}

static struct fi_info *hints_new(void)
{
	struct fi_info *h = kit_info_new();

	h->mode = ~0ULL;
	return h;
}

enum group { TOP, TX, RX, EP, DOM, FAB };

static void *group_of(struct fi_info *i, enum group g)
{
	switch (g) {
	case TX:
		return i->tx_attr;
	case RX:
		return i->rx_attr;
	case EP:
		return i->ep_attr;
	case DOM:
		return i->domain_attr;
	case FAB:
		return i->fabric_attr;
	case TOP:
		break;
	}
	return i;
}

#define AT(type_, member_) offsetof(struct type_, member_), sizeof(((struct type_ *)0)->member_)

/* One hint: legal with @good, refused from version @since on with @bad, in a sentence with @word.
 */
static const struct row {
	const char *word;
	enum group group;
	size_t off, len;
	uint64_t good, bad;
	uint32_t since;
	uint64_t caps; /* asked for as well */
} g_row[] = {
	{"caps", TOP, AT(fi_info, caps), TX_CAPS, FI_COLLECTIVE, 0, 0},
	{"addr_format", TOP, AT(fi_info, addr_format), FI_ADDR_EFA, FI_ADDR_CXI, 0, 0},
	{"addr_format", TOP, AT(fi_info, addr_format), FI_FORMAT_UNSPEC, FI_SOCKADDR_IN, 0, 0},
	{"ep_attr->type", EP, AT(fi_ep_attr, type), FI_EP_RDM, FI_EP_MSG, 0, 0},
	{"ep_attr->type", EP, AT(fi_ep_attr, type), FI_EP_UNSPEC, FI_EP_DGRAM, 0, 0},
	{"protocol", EP, AT(fi_ep_attr, protocol), FI_PROTO_EFA, FI_PROTO_CXI, 0, 0},
	{"protocol_version", EP, AT(fi_ep_attr, protocol_version), 3, 5, 0, 0},
	{"max_msg_size", EP, AT(fi_ep_attr, max_msg_size), 1 << 30, (1 << 30) + 1, 0, 0},
	{"tx_ctx_cnt", EP, AT(fi_ep_attr, tx_ctx_cnt), 1, 2, 0, 0},
	{"shared context", EP, AT(fi_ep_attr, tx_ctx_cnt), 1, FI_SHARED_CONTEXT, 0, 0},
	{"rx_ctx_cnt", EP, AT(fi_ep_attr, rx_ctx_cnt), 0, 2, 0, 0},
	{"max_order_raw_size", EP, AT(fi_ep_attr, max_order_raw_size), 8776, 8777, 0, FI_RMA},
	{"max_order_war_size", EP, AT(fi_ep_attr, max_order_war_size), 0, 1, 0, FI_ATOMIC},
	{"max_order_waw_size", EP, AT(fi_ep_attr, max_order_waw_size), 1, 9999, 0, FI_RMA},
	{"auth_key_size", EP, AT(fi_ep_attr, auth_key_size), 0, 16, 0, 0},
	{"mem_tag_format", EP, AT(fi_ep_attr, mem_tag_format), 1ULL << 47, 1ULL << 48, 0,
	 FI_TAGGED},
	{"threading", DOM, AT(fi_domain_attr, threading), FI_THREAD_DOMAIN, FI_THREAD_SAFE, 0, 0},
	{"threading", DOM, AT(fi_domain_attr, threading), FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT,
	 0, 0},
	{"threading", DOM, AT(fi_domain_attr, threading), FI_THREAD_UNSPEC, 99, 0, 0},
	{"data_progress", DOM, AT(fi_domain_attr, data_progress), FI_PROGRESS_MANUAL,
	 FI_PROGRESS_AUTO, 0, 0},
	{"control_progress", DOM, AT(fi_domain_attr, control_progress), KIT_PROGRESS_UNIFIED,
	 FI_PROGRESS_AUTO, 0, 0},
	{"resource_mgmt", DOM, AT(fi_domain_attr, resource_mgmt), FI_RM_DISABLED, 99, 0, 0},
	{"av_type", DOM, AT(fi_domain_attr, av_type), FI_AV_MAP, 99, 0, 0},
	{"cq_data_size", DOM, AT(fi_domain_attr, cq_data_size), 4, 8, 0, 0},
	{"tclass", DOM, AT(fi_domain_attr, tclass), FI_TC_LOW_LATENCY, 7, 0, 0},
	{"cntr_cnt", DOM, AT(fi_domain_attr, cntr_cnt), 0, 1, FI_VERSION(1, 5), 0},
	{"mr_iov_limit", DOM, AT(fi_domain_attr, mr_iov_limit), 1, 2, FI_VERSION(1, 5), 0},
	{"domain_attr->caps", DOM, AT(fi_domain_attr, caps), FI_LOCAL_COMM, FI_SHARED_AV,
	 FI_VERSION(1, 5), 0},
	{"max_err_data", DOM, AT(fi_domain_attr, max_err_data), 0, 1, FI_VERSION(1, 5), 0},
	{"mr_cnt", DOM, AT(fi_domain_attr, mr_cnt), 1000, 1001, FI_VERSION(1, 5), 0},
	{"auth_key_size", DOM, AT(fi_domain_attr, auth_key_size), 0, 8, FI_VERSION(1, 5), 0},
	{"tx_attr->caps", TX, AT(fi_tx_attr, caps), FI_MSG | FI_RECV, FI_FENCE, 0, 0},
	{"tx_attr->op_flags", TX, AT(fi_tx_attr, op_flags), FI_INJECT, FI_COMMIT_COMPLETE, 0, 0},
	{"tx_attr->msg_order", TX, AT(fi_tx_attr, msg_order), FI_ORDER_SAS, FI_ORDER_RAR, 0, 0},
	{"tx_attr->comp_order", TX, AT(fi_tx_attr, comp_order), 0, KIT_ORDER_STRICT, 0, 0},
	{"inject_size", TX, AT(fi_tx_attr, inject_size), 4096, 4097, 0, 0},
	{"tx_attr->size", TX, AT(fi_tx_attr, size), 1024, 1025, 0, 0},
	{"tx_attr->iov_limit", TX, AT(fi_tx_attr, iov_limit), 4, 5, 0, 0},
	{"rma_iov_limit", TX, AT(fi_tx_attr, rma_iov_limit), 1, 2, 0, 0},
	{"tx_attr->tclass", TX, AT(fi_tx_attr, tclass), FI_TC_DSCP | 9, 1, 0, 0},
	{"rx_attr->caps", RX, AT(fi_rx_attr, caps), FI_MSG | FI_SEND, FI_COLLECTIVE, 0, 0},
	{"rx_attr->op_flags", RX, AT(fi_rx_attr, op_flags), FI_MULTI_RECV, FI_INJECT, 0, 0},
	{"rx_attr->msg_order", RX, AT(fi_rx_attr, msg_order), ORDER, FI_ORDER_SAW, 0, 0},
	{"rx_attr->comp_order", RX, AT(fi_rx_attr, comp_order), 0, KIT_ORDER_DATA, 0, 0},
	{"total_buffered_recv", RX, AT(fi_rx_attr, total_buffered_recv), 0, 1, 0, 0},
	{"rx_attr->size", RX, AT(fi_rx_attr, size), 2048, 4096, 0, 0},
	{"rx_attr->iov_limit", RX, AT(fi_rx_attr, iov_limit), 1, 9, 0, 0},
	{"prov_version", FAB, AT(fi_fabric_attr, prov_version), FI_VERSION(1000, 0),
	 FI_VERSION(1000, 1), 0, 0},
};

static int check_one(const struct row *row, const struct fi_info *have, uint32_t version,
		     uint64_t v)
{
	struct fi_info *hints = hints_new();
	int ret;

	hints->caps = row->caps;
	memcpy((uint8_t *)group_of(hints, row->group) + row->off, &v, row->len);
	g_fix_log.last[0] = 0;
	ret = kit_info_check(&g_fix_prov, version, have, hints);
	fi_freeinfo(hints);
	return ret;
}

static void info_check__each_attribute(void **state)
{
	struct fi_info *have = have_new();

	for (size_t i = 0; i < ARRAY_SIZE(g_row); i++) {
		const struct row *row = &g_row[i];

		for (size_t v = 0; v < ARRAY_SIZE(g_versions); v++) {
			int ret = check_one(row, have, g_versions[v], row->good);

			if (ret)
				print_message("row %zu: %s", i, g_fix_log.last);
			assert_int_equal(ret, 0);
			ret = check_one(row, have, g_versions[v], row->bad);
			if (g_versions[v] < row->since) {
				assert_int_equal(ret, 0);
				continue;
			}
			if (!ret || !strstr(g_fix_log.last, row->word))
				print_message("row %zu: \"%s\", said: %s", i, row->word,
					      g_fix_log.last);
			assert_int_equal(ret, -FI_ENODATA);
			assert_non_null(strstr(g_fix_log.last, row->word));
			assert_non_null(strstr(g_fix_log.last, "fix0-rdm"));
		}
	}
	fi_freeinfo(have);
}

static void info_check__the_sentence_has_both_values(void **state)
{
	struct fi_info *have = have_new(), *hints = hints_new();

	hints->tx_attr->inject_size = 5000;
	assert_int_equal(kit_info_check(&g_fix_prov, FI_VERSION(1, 17), have, hints), -FI_ENODATA);
	assert_string_equal(g_fix_log.last,
			    "fix0-rdm does not match: tx_attr->inject_size is 5000 in the hints, "
			    "at most 4096 here\n");
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

/* One fi_getinfo that is refused for @strong, else for @weak. Return: warnings. */
static int refusal(const char *prov_name, const char *weak, const char *strong, int ret)
{
	struct fi_info *hints = hints_new();
	int before = g_fix_log.warnings;
	struct kit_why why;

	free(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = prov_name ? strdup(prov_name) : NULL;
	kit_info_begin(&why);
	if (weak)
		assert_int_equal(kit_info_other(&g_fix_prov, "%s", weak), -FI_ENODATA);
	if (strong)
		assert_int_equal(kit_info_no(&g_fix_prov, "%s", strong), -FI_ENODATA);
	if (weak)
		kit_info_other(&g_fix_prov, "later: %s", weak);
	if (strong)
		kit_info_no(&g_fix_prov, "later: %s", strong);
	assert_int_equal(g_fix_log.warnings, before);
	assert_int_equal(kit_info_end(&g_fix_prov, hints, ret), ret);
	fi_freeinfo(hints);
	return g_fix_log.warnings - before;
}

#define FIX_NOTHING "nothing of fix fits the hints of fi_getinfo: "

static void info_end__the_reason_is_a_warning_to_who_named_us(void **state)
{
	static const char *const ours[] = {"fix", "FIX", "fix;ofi_rxd", "ofi_rxd;fix"};
	static const char *const others[] = {NULL,	"",	  "fixed",   "fi",
					     "ofi_rxd", "prefix", "fix-x;fi"};
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		snprintf(text, sizeof(text), "named %zu", i);
		assert_int_equal(refusal(ours[i], NULL, text, -FI_ENODATA), 1);
		assert_non_null(strstr(g_fix_log.last, FIX_NOTHING));
		assert_non_null(strstr(g_fix_log.last, text));
		assert_null(strstr(g_fix_log.last, "later"));
		assert_int_equal(refusal(ours[i], NULL, text, -FI_ENODATA), 0); /* once */
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(refusal(others[i], NULL, "not named", -FI_ENODATA), 0);
	assert_int_equal(refusal("fix", NULL, "something was left", 0), 0);
	assert_int_equal(refusal("fix", NULL, "another error", -FI_ENOMEM), 0);
	assert_int_equal(refusal("fix", NULL, NULL, -FI_ENODATA), 0); /* said by a warning */
}

static void info_end__another_adapter_is_no_reason_if_there_is_one(void **state)
{
	assert_int_equal(refusal("fix", "other", "what", -FI_ENODATA), 1);
	assert_string_equal(g_fix_log.last, FIX_NOTHING "what\n");
	assert_int_equal(refusal("fix", "other", NULL, -FI_ENODATA), 1);
	assert_string_equal(g_fix_log.last, FIX_NOTHING "other\n");
}

static void info_check__names(void **state)
{
	struct fi_info *have = have_new(), *hints = hints_new();

	hints->domain_attr->name = strdup("fix0-rdm");
	hints->fabric_attr->name = strdup("fix");
	assert_int_equal(kit_info_check(&g_fix_prov, 0, have, hints), 0);
	hints->domain_attr->name[3] = '1';
	assert_int_equal(kit_info_check(&g_fix_prov, 0, have, hints), -FI_ENODATA);
	assert_non_null(strstr(g_fix_log.last, "\"fix1-rdm\""));
	hints->domain_attr->name[3] = '0';
	hints->fabric_attr->name[0] = 'F';
	assert_int_equal(kit_info_check(&g_fix_prov, 0, have, hints), -FI_ENODATA);
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

/* Mode bits that the provider needs must be offered: at the top, or where the attributes say
 * something themselves. */
static void info_check__mode_bits(void **state)
{
	struct fi_info *have = have_new(), *hints = hints_new();

	have->mode = have->tx_attr->mode = FI_MSG_PREFIX;
	assert_int_equal(kit_info_check(&g_fix_prov, FI_VERSION(1, 5), have, hints), 0);
	hints->mode = FI_CONTEXT | FI_MSG_PREFIX;
	assert_int_equal(kit_info_check(&g_fix_prov, FI_VERSION(1, 5), have, hints), 0);
	hints->tx_attr->mode = FI_CONTEXT;
	assert_int_equal(kit_info_check(&g_fix_prov, FI_VERSION(1, 5), have, hints), -FI_ENODATA);
	assert_non_null(strstr(g_fix_log.last, "tx_attr->mode"));
	hints->mode = hints->tx_attr->mode = FI_CONTEXT;
	assert_int_equal(kit_info_check(&g_fix_prov, FI_VERSION(1, 5), have, hints), -FI_ENODATA);
	assert_non_null(strstr(g_fix_log.last, "FI_MSG_PREFIX"));
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

static void attr_drop(struct fi_info *i, unsigned which)
{
	if (which & 1) {
		free(i->tx_attr);
		i->tx_attr = NULL;
	}
	if (which & 2) {
		free(i->rx_attr);
		i->rx_attr = NULL;
	}
	if (which & 4) {
		free(i->ep_attr);
		i->ep_attr = NULL;
	}
	if (which & 8) {
		free(i->domain_attr);
		i->domain_attr = NULL;
	}
	if (which & 16) {
		free(i->fabric_attr);
		i->fabric_attr = NULL;
	}
}

static void info__hints_may_lack_anything(void **state)
{
	struct fi_info *have = have_new();

	for (size_t v = 0; v < ARRAY_SIZE(g_versions); v++) {
		assert_int_equal(kit_info_check(&g_fix_prov, g_versions[v], have, NULL), 0);
		for (unsigned which = 0; which < 32; which++) {
			struct fi_info *hints = hints_new(), *got = kit_info_dup(have), *dup;

			attr_drop(hints, which);
			assert_int_equal(kit_info_check(&g_fix_prov, g_versions[v], have, hints),
					 0);
			kit_info_alter(got, hints, g_versions[v]);
			dup = kit_info_dup(hints);
			assert_non_null(dup);
			assert_int_equal(dup->tx_attr != NULL, !(which & 1));
			assert_int_equal(dup->domain_attr != NULL, !(which & 8));
			fi_freeinfo(dup);
			fi_freeinfo(hints);
			fi_freeinfo(got);
		}
	}
	fi_freeinfo(have);
}

#define V14	 FI_VERSION(1, 4)
#define V15	 FI_VERSION(1, 5)
#define RMA_CAPS (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static const struct mr_row {
	int have;
	uint32_t version;
	uint64_t caps, mode;
	int hint;
	bool ok;
	int result;
} g_mr_row[] = {
	/* the old words, of old and of new programs */
	{BASIC, V14, RMA_CAPS, 0, KIT_MR_UNSPEC, true, KIT_MR_BASIC},
	{BASIC, V14, RMA_CAPS, 0, KIT_MR_BASIC, true, KIT_MR_BASIC},
	{BASIC, V14, RMA_CAPS, 0, KIT_MR_SCALABLE, false, 0},
	{BASIC, V14, RMA_CAPS, 0, BASIC, false, 0},
	{0, V14, RMA_CAPS, 0, KIT_MR_UNSPEC, true, KIT_MR_SCALABLE},
	{0, 0, RMA_CAPS, 0, KIT_MR_SCALABLE, true, KIT_MR_SCALABLE},
	{0, V14, RMA_CAPS, 0, KIT_MR_BASIC, false, 0},
	{KIT_MR_BASIC | KIT_MR_SCALABLE, V14, RMA_CAPS, 0, KIT_MR_BASIC, true, KIT_MR_BASIC},
	{KIT_MR_BASIC | KIT_MR_SCALABLE, V14, RMA_CAPS, 0, KIT_MR_SCALABLE, true, KIT_MR_SCALABLE},
	{FI_MR_RMA_EVENT, V14, RMA_CAPS, 0, KIT_MR_UNSPEC, false, 0},
	{BASIC, V15, RMA_CAPS, 0, KIT_MR_BASIC, true, KIT_MR_BASIC},
	{BASIC, V15, RMA_CAPS, 0, KIT_MR_SCALABLE, false, 0},
	{BASIC, V15, RMA_CAPS, 0, KIT_MR_BASIC | FI_MR_HMEM, false, 0},
	{0, V15, RMA_CAPS, 0, KIT_MR_SCALABLE, true, KIT_MR_SCALABLE},
	/* bits: all that is needed, or nothing said */
	{BASIC, V15, RMA_CAPS, 0, BASIC, true, BASIC},
	{BASIC, V15, RMA_CAPS, 0, BASIC | FI_MR_ENDPOINT | FI_MR_LOCAL, true, BASIC},
	{BASIC, V15, RMA_CAPS, 0, FI_MR_VIRT_ADDR, false, 0},
	{BASIC, V15, RMA_CAPS, 0, KIT_MR_UNSPEC, true, 0},
	{BASIC, V15, FI_MSG, 0, FI_MR_ENDPOINT, true, 0},
	{BASIC, V15, FI_RMA | FI_READ, 0, FI_MR_ENDPOINT, true, 0},
	{BASIC, V15, FI_RMA | FI_REMOTE_READ, 0, FI_MR_ENDPOINT, false, 0},
	{BASIC | FI_MR_HMEM, V15, RMA_CAPS, 0, BASIC, true, BASIC},
	{BASIC | FI_MR_HMEM, V15, RMA_CAPS | FI_HMEM, 0, BASIC, false, 0},
	{BASIC | FI_MR_HMEM, V15, RMA_CAPS | FI_HMEM, 0, BASIC | FI_MR_HMEM, true,
	 BASIC | FI_MR_HMEM},
	/* local registration is never waived */
	{BASIC | FI_MR_LOCAL, V15, FI_MSG, 0, KIT_MR_UNSPEC, false, 0},
	{BASIC | FI_MR_LOCAL, V15, FI_MSG, KIT_LOCAL_MR, KIT_MR_UNSPEC, true, 0},
	{BASIC | FI_MR_LOCAL, V15, FI_MSG, 0, FI_MR_LOCAL, false, 0},
	{BASIC | FI_MR_LOCAL, V15, FI_MSG, 0, FI_MR_LOCAL | FI_MR_ALLOCATED, true,
	 FI_MR_LOCAL | FI_MR_ALLOCATED},
	{BASIC | FI_MR_LOCAL, V15, RMA_CAPS, KIT_LOCAL_MR, KIT_MR_BASIC, true, KIT_MR_BASIC},
	{BASIC | FI_MR_LOCAL, V14, RMA_CAPS, KIT_LOCAL_MR, KIT_MR_BASIC, true, KIT_MR_BASIC},
	{BASIC | FI_MR_LOCAL, V14, RMA_CAPS, 0, KIT_MR_BASIC, false, 0},
};

static void mr_mode__each_rule(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_mr_row); i++) {
		const struct mr_row *row = &g_mr_row[i];
		struct fi_info *have = have_new(), *hints = hints_new();
		int result = -1;
		bool ok;

		have->caps |= FI_HMEM;
		have->domain_attr->mr_mode = row->have;
		hints->caps = row->caps;
		hints->mode = row->mode;
		hints->domain_attr->mr_mode = row->hint;
		ok = kit_mr_mode_ok(row->version, have, hints, &result);
		if (ok != row->ok || (ok && result != row->result))
			print_message("row %zu: ok %d, result %#x\n", i, ok, (unsigned)result);
		assert_int_equal(ok, row->ok);
		assert_int_equal(result, row->ok ? row->result : -1);
		if (ok) {
			kit_info_alter(have, hints, row->version);
			assert_int_equal(have->domain_attr->mr_mode, row->result);
		}
		fi_freeinfo(have);
		fi_freeinfo(hints);
	}
}

static void mr_mode__without_hints(void **state)
{
	static const struct {
		int have;
		uint32_t version;
		int want;
	} row[] = {
		{BASIC | FI_MR_HMEM, 0, KIT_MR_BASIC},
		{0, V14, KIT_MR_SCALABLE},
		{BASIC | FI_MR_HMEM, V15, BASIC | FI_MR_HMEM},
		{KIT_MR_BASIC | BASIC, V15, BASIC},
		{KIT_MR_SCALABLE, V15, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct fi_info *have = have_new();
		uint64_t caps = have->caps;

		have->domain_attr->mr_mode = row[i].have;
		kit_info_alter(have, NULL, row[i].version);
		assert_int_equal(have->domain_attr->mr_mode, row[i].want);
		assert_int_equal(have->caps, caps);
		fi_freeinfo(have);
	}
}

static void mr_mode__old_style_local(void **state)
{
	struct fi_info *have = have_new(), *hints = hints_new();

	have->domain_attr->mr_mode |= FI_MR_LOCAL;
	hints->mode = 0;
	assert_int_equal(kit_info_check(&g_fix_prov, V14, have, hints), -FI_ENODATA);
	hints->mode = KIT_LOCAL_MR;
	assert_int_equal(kit_info_check(&g_fix_prov, V14, have, hints), 0);
	kit_info_alter(have, hints, V14);
	assert_int_equal(have->mode, KIT_LOCAL_MR);
	assert_int_equal(have->domain_attr->mr_mode, KIT_MR_BASIC);
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

/* A program that does not accept the target's modes cannot be a target. */
static void mr_mode__takes_remote_access_away(void **state)
{
	struct fi_info *have = have_new(), *hints = hints_new();

	hints->caps = FI_MSG | FI_RMA;
	assert_int_equal(kit_info_check(&g_fix_prov, V15, have, hints), 0);
	kit_info_alter(have, hints, V15);
	assert_int_equal(have->caps & RMA_CAPS, FI_RMA | FI_READ | FI_WRITE);
	fi_freeinfo(have);
	have = have_new();
	hints->domain_attr->mr_mode = BASIC;
	kit_info_alter(have, hints, V15);
	assert_int_equal(have->caps & RMA_CAPS, RMA_CAPS);
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

static void info_alter__caps(void **state)
{
	struct fi_info *have = have_new(), *hints = hints_new();

	hints->caps = FI_TAGGED;
	kit_info_alter(have, hints, V15);
	/* Primary ones as asked, with both directions; secondary ones for nothing, but not
	 * FI_SOURCE. */
	assert_int_equal(have->caps, FI_TAGGED | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_LOCAL_COMM |
					     FI_REMOTE_COMM);
	assert_int_equal(have->tx_attr->caps, FI_TAGGED | FI_SEND);
	assert_int_equal(have->rx_attr->caps, FI_TAGGED | FI_RECV | FI_MULTI_RECV);
	assert_int_equal(have->domain_attr->caps, FI_LOCAL_COMM | FI_REMOTE_COMM);
	fi_freeinfo(have);
	have = have_new();
	hints->caps = FI_MSG | FI_TAGGED | FI_SEND | FI_SOURCE;
	hints->tx_attr->caps = FI_MSG | FI_RECV;
	kit_info_alter(have, hints, V15);
	assert_int_equal(have->caps & (FI_SEND | FI_RECV | FI_SOURCE), FI_SEND | FI_SOURCE);
	assert_int_equal(have->tx_attr->caps, FI_MSG | FI_SEND);
	fi_freeinfo(have);
	have = have_new();
	kit_info_alter(have, NULL, V15);
	assert_int_equal(have->caps, TX_CAPS | RX_CAPS | FI_LOCAL_COMM | FI_REMOTE_COMM);
	assert_int_equal(have->tx_attr->caps, TX_CAPS);
	assert_int_equal(have->rx_attr->caps, RX_CAPS);
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

/* Hints without caps match as those of a program that is no target of RMA; then it must not be made
 * one, whose bits it did not offer. */
static void info_alter__no_target_without_its_modes(void **state)
{
	struct fi_info *have = have_new(), *hints = hints_new();

	hints->caps = 0;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY; /* not FI_MR_ALLOCATED */
	have->domain_attr->mr_mode = BASIC;
	assert_int_equal(kit_info_check(&g_fix_prov, V15, have, hints), 0);
	kit_info_alter(have, hints, V15);
	assert_int_equal(have->caps & (FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
	assert_int_equal(have->caps & (FI_READ | FI_WRITE), FI_READ | FI_WRITE);
	fi_freeinfo(have);
	have = have_new();
	hints->domain_attr->mr_mode |= FI_MR_ALLOCATED;
	kit_info_alter(have, hints, V15);
	assert_int_not_equal(have->caps & FI_REMOTE_READ, 0);
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

static void info_alter__echoes_what_was_asked(void **state)
{
	static struct fid handle;
	struct fi_info *have = have_new(), *hints = hints_new();

	hints->caps = FI_RMA;
	hints->handle = &handle;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->ep_attr->max_order_raw_size = 64;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->tx_attr->inject_size = 8;
	hints->tx_attr->size = 16;
	hints->rx_attr->iov_limit = 2;
	kit_info_alter(have, hints, V15);
	assert_int_equal(have->domain_attr->threading, FI_THREAD_DOMAIN);
	assert_int_equal(have->domain_attr->av_type, FI_AV_TABLE);
	assert_int_equal(have->ep_attr->max_order_raw_size, 64);
	assert_int_equal(have->ep_attr->max_order_waw_size, 8776);
	assert_int_equal(have->tx_attr->op_flags, FI_DELIVERY_COMPLETE);
	assert_int_equal(have->rx_attr->op_flags, 0);
	assert_int_equal(have->tx_attr->msg_order, FI_ORDER_SAS);
	assert_int_equal(have->rx_attr->msg_order, 0);
	assert_int_equal(have->tx_attr->inject_size, 8);
	assert_int_equal(have->tx_attr->size, 16);
	assert_int_equal(have->tx_attr->iov_limit, 4);
	assert_int_equal(have->rx_attr->iov_limit, 2);
	assert_ptr_equal(have->handle, hints->handle);
	hints->handle = NULL;
	fi_freeinfo(have);
	fi_freeinfo(hints);
}

/* What we return must be acceptable as hints: programs do that, and fi_endpoint checks it again. */
static void info__results_are_good_hints(void **state)
{
	struct rng r = unit_rng();
	struct fi_info *have = have_new();
	int matches = 0;

	for (int n = 0; n < 20000; n++) {
		struct fi_info *hints = hints_new(), *got;
		uint32_t v = g_versions[rng_below(&r, ARRAY_SIZE(g_versions))];

		have->domain_attr->mr_mode = rng_chance(&r, 0.5) ? BASIC : BASIC | FI_MR_LOCAL;
		hints->caps = rng_u64(&r) & rng_u64(&r) & have->caps;
		hints->domain_attr->mr_mode = (int)(rng_u64(&r) & rng_u64(&r) & 0xfff);
		if (rng_chance(&r, 0.5))
			hints->domain_attr->mr_mode |= BASIC | FI_MR_LOCAL;
		if (rng_chance(&r, 0.3))
			hints->domain_attr->mr_mode = (int)rng_below(&r, 3);
		hints->tx_attr->op_flags = rng_u64(&r) & have->tx_attr->op_flags;
		hints->tx_attr->inject_size = rng_below(&r, 4097);
		hints->domain_attr->threading = (enum fi_threading)rng_below(&r, 6);
		attr_drop(hints, (unsigned)(rng_u64(&r) & rng_u64(&r) & 31));
		if (!kit_info_check(&g_fix_prov, v, have, hints)) {
			matches++;
			got = kit_info_dup(have);
			kit_info_alter(got, hints, v);
			assert_int_equal(kit_info_check(&g_fix_prov, v, have, got), 0);
			assert_int_equal(
				hints->caps & ~got->caps & ~(FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
			fi_freeinfo(got);
		}
		fi_freeinfo(hints);
	}
	assert_true(matches > 1000);
	fi_freeinfo(have);
}

/* A core of 2.6 reads 224 bytes of domain attributes where 1.17 had 192; ASan checks that they are
 * ours. */
static void info_new__has_room_for_newer_cores(void **state)
{
	struct fi_info *i = kit_info_new(), *dup;
	uint8_t sum = 0;

	for (size_t b = 0; b < sizeof(struct kit_domain_attr_ext) + KIT_INFO_SLACK; b++)
		sum |= ((uint8_t *)i->domain_attr)[b];
	for (size_t b = 0; b < sizeof(*i->tx_attr) + KIT_INFO_SLACK; b++)
		sum |= ((uint8_t *)i->tx_attr)[b] | ((uint8_t *)i->fabric_attr)[0];
	for (size_t b = 0; b < sizeof(*i) + KIT_INFO_SLACK; b++)
		sum |= b < sizeof(*i) ? 0 : ((uint8_t *)i)[b];
	assert_int_equal(sum, 0);
	dup = fi_dupinfo(i); /* by the core */
	assert_non_null(dup);
	fi_freeinfo(dup);
	fi_freeinfo(i);
}

static void info_dup__is_deep(void **state)
{
	const struct kit_nic_attr nic = {.name = "n"};
	struct fi_info *i = have_new(), *d;

	i->src_addr = strdup("source");
	i->src_addrlen = 7;
	i->ep_attr->auth_key = (uint8_t *)strdup("key");
	i->ep_attr->auth_key_size = 4;
	i->domain_attr->auth_key_size = KIT_AV_AUTH_KEY; /* no key is there to copy */
	i->fabric_attr->prov_name = strdup("fix");
	i->nic = kit_nic_new(&nic);
	d = kit_info_dup(i);
	memset(i->src_addr, 0, 7);
	i->domain_attr->name[0] = '#';
	fi_freeinfo(i);
	assert_string_equal(d->src_addr, "source");
	assert_string_equal((char *)d->ep_attr->auth_key, "key");
	assert_string_equal(d->domain_attr->name, "fix0-rdm");
	assert_string_equal(d->fabric_attr->prov_name, "fix");
	assert_string_equal(d->nic->device_attr->name, "n");
	assert_int_equal(d->tx_attr->inject_size, 4096);
	fi_freeinfo(d);
}

static int no_dup(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

static void info_dup__never_shares_a_nic(void **state)
{
	static struct fi_ops ops = {.size = sizeof(ops), .control = no_dup};
	struct fid_nic nic = {.fid.ops = &ops};
	struct fi_info *i = have_new(), *d;

	i->nic = &nic;
	d = kit_info_dup(i);
	assert_non_null(d);
	assert_null(d->nic);
	i->nic = NULL;
	fi_freeinfo(d);
	fi_freeinfo(i);
}

static void info__survives_every_failed_allocation(void **state)
{
	const struct kit_nic_attr nic = {.name = "n"};
	int64_t live = mem_live_count();
	struct fi_info *i, *d;
	uint64_t n = 0;

	do {
		mem_fail_nth(++n);
		i = kit_info_new();
	} while (!i);
	assert_true(n > 6);
	fi_freeinfo(i);
	mem_fail_nth(0);
	i = have_new();
	i->src_addr = strdup("source");
	i->src_addrlen = 7;
	i->nic = kit_nic_new(&nic);
	n = 0;
	do {
		mem_fail_nth(++n);
		d = kit_info_dup(i);
	} while (!d);
	mem_fail_nth(0);
	assert_true(n > 9);
	fi_freeinfo(d);
	fi_freeinfo(i);
	assert_int_equal(mem_live_count(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info_check__each_attribute),
		cmocka_unit_test(info_check__the_sentence_has_both_values),
		cmocka_unit_test(info_end__the_reason_is_a_warning_to_who_named_us),
		cmocka_unit_test(info_end__another_adapter_is_no_reason_if_there_is_one),
		cmocka_unit_test(info_check__names),
		cmocka_unit_test(info_check__mode_bits),
		cmocka_unit_test(info__hints_may_lack_anything),
		cmocka_unit_test(mr_mode__each_rule),
		cmocka_unit_test(mr_mode__without_hints),
		cmocka_unit_test(mr_mode__old_style_local),
		cmocka_unit_test(mr_mode__takes_remote_access_away),
		cmocka_unit_test(info_alter__caps),
		cmocka_unit_test(info_alter__no_target_without_its_modes),
		cmocka_unit_test(info_alter__echoes_what_was_asked),
		cmocka_unit_test(info__results_are_good_hints),
		cmocka_unit_test(info_new__has_room_for_newer_cores),
		cmocka_unit_test(info_dup__is_deep),
		cmocka_unit_test(info_dup__never_shares_a_nic),
		cmocka_unit_test(info__survives_every_failed_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
