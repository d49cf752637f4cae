// SPDX-License-Identifier: BSD-2-Clause
// Does what a provider has satisfy what a program asks? Every "no" is one sentence: the attribute,
// both values, why.
#include <stdarg.h>

#include "kit/compat.h"
#include "kit/info_int.h"
#include "kit/kit_int.h"

#define TEXT_MAX 512
#define WHY_MAX	 KIT_WHY_MAX
#define WORD_MAX 64

/* The reason of the fi_getinfo() that runs. The first one: what an adapter offers first is what it
 * does best, and what a program most likely meant. But that an adapter is not the one that is asked
 * for by name explains nothing where another one is, so any other reason takes its place. */
static _Thread_local struct kit_why *g_why;

static void __printf_like(3, 0)
	why_put(const struct fi_provider *prov, bool is_other, const char *fmt, va_list ap)
{
	char text[WHY_MAX];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (g_why && (!g_why->text[0] || (g_why->is_other && !is_other))) {
		memcpy(g_why->text, text, sizeof(text));
		g_why->is_other = is_other;
	}
	KIT_INFO(prov, FI_LOG_CORE, "%s\n", text);
	if (g_why)
		kit_told_reason(prov, text);
}

int kit_info_no(const struct fi_provider *prov, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	why_put(prov, false, fmt, ap);
	va_end(ap);
	return -FI_ENODATA;
}

int kit_info_other(const struct fi_provider *prov, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	why_put(prov, true, fmt, ap);
	va_end(ap);
	return -FI_ENODATA;
}

void kit_info_warned(const struct fi_provider *prov, const char *text)
{
	if (g_why)
		kit_told_reason(prov, text);
}

void kit_info_begin(struct kit_why *why)
{
	why->text[0] = '\0';
	why->version = 0;
	g_why = why;
}

/* prov_name is one name, or some of layered providers with semicolons between them. */
static bool names_it(const struct fi_info *hints, const char *name)
{
	const char *at = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	size_t len = strlen(name);

	for (; at; at = strchr(at, ';')) {
		at += *at == ';';
		if (!strncasecmp(at, name, len) && (!at[len] || at[len] == ';'))
			return true;
	}
	return false;
}

int kit_info_end(const struct fi_provider *prov, const struct fi_info *hints, int ret)
{
	const struct kit_why *why = g_why;

	g_why = NULL;
	kit_told_end(prov, hints, why, ret);
	if (ret == -FI_ENODATA && why->text[0] && names_it(hints, prov->name))
		kit_warn_once(prov, "nothing of %s fits the hints of fi_getinfo: %s", prov->name,
			      why->text);
	return ret;
}

struct check {
	const struct fi_provider *prov;
	uint32_t version;
	const struct fi_info *have, *hints;
};

static int no(const struct check *c, const char *fmt, ...) __printf_like(2, 3);

static const char *name_of(const struct check *c)
{
	const struct fi_domain_attr *d = c->have->domain_attr;

	return d && d->name ? d->name : "this adapter";
}

static int no(const struct check *c, const char *fmt, ...)
{
	char text[WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return kit_info_no(c->prov, "%s does not match: %s", name_of(c), text);
}

/* A value of libfabric's by its name; what it does not know is a number. */
static const char *word(const void *value, enum fi_type type, char *out)
{
	out[0] = '\0';
	fi_tostr_r(out, WORD_MAX, value, type);
	if (!out[0] || !strncmp(out, "Unknown", strlen("Unknown")))
		snprintf(out, WORD_MAX, "%u", *(const unsigned *)value);
	return out;
}

static int differs(const struct check *c, const char *name, const void *hint, const void *have, enum fi_type type)
{
	char asked[WORD_MAX], here[WORD_MAX];

	return no(c, "%s is %s in the hints, %s here", name, word(hint, type, asked), word(have, type, here));
}

int kit_info_no_type(const struct fi_provider *prov, enum fi_ep_type type, const char *offered)
{
	char asked[WORD_MAX];

	return kit_info_no(prov, "ep_attr->type is %s in the hints: %s has %s", word(&type, FI_TYPE_EP_TYPE, asked),
			   prov->name, offered);
}

static int at_most(const struct check *c, const char *name, uint64_t hint, uint64_t have)
{
	if (hint <= have)
		return 0;
	return no(c, "%s is %llu in the hints, at most %llu here", name, (unsigned long long)hint,
		  (unsigned long long)have);
}

static int subset(const struct check *c, const char *name, uint64_t hint, uint64_t have,
		  enum fi_type type)
{
	uint64_t extra = hint & ~have;
	char want[TEXT_MAX] = "", offer[TEXT_MAX] = "";

	if (!extra)
		return 0;
	fi_tostr_r(want, sizeof(want), &extra, type);
	fi_tostr_r(offer, sizeof(offer), &have, type);
	return no(c, "%s asks for %s (%#llx), not offered; offered: %s", name, want,
		  (unsigned long long)extra, offer);
}

static int mode_offered(const struct check *c, const char *name, uint64_t hint, uint64_t need)
{
	uint64_t missing = need & ~hint;
	char text[TEXT_MAX] = "";

	if (!missing)
		return 0;
	fi_tostr_r(text, sizeof(text), &missing, FI_TYPE_MODE);
	return no(c, "%s of the hints lacks %s, which is required", name, text);
}

/* One size_t of an attribute struct. */
struct limit {
	const char *name;
	size_t off;
};
#define LIMIT(struct_, prefix_, member_)                                                           \
	{                                                                                          \
		prefix_ "->" #member_, offsetof(struct struct_, member_)                           \
	}

static int limits(const struct check *c, const struct limit *tab, size_t cnt, const void *hint,
		  const void *have)
{
	for (size_t i = 0; i < cnt; i++) {
		size_t want, max;

		memcpy(&want, (const uint8_t *)hint + tab[i].off, sizeof(want));
		memcpy(&max, (const uint8_t *)have + tab[i].off, sizeof(max));
		if (at_most(c, tab[i].name, want, max))
			return -FI_ENODATA;
	}
	return 0;
}

static int thread_rank(unsigned v)
{
	static const int rank[] = {
		[FI_THREAD_SAFE] = 1,	    [FI_THREAD_FID] = 2,    [FI_THREAD_ENDPOINT] = 3,
		[FI_THREAD_COMPLETION] = 4, [FI_THREAD_DOMAIN] = 5, [FI_THREAD_UNSPEC] = 6,
	};

	return v < ARRAY_SIZE(rank) ? rank[v] : -1;
}

static int progress_rank(unsigned v)
{
	static const int rank[] = {
		[FI_PROGRESS_AUTO] = 1,
		[FI_PROGRESS_MANUAL] = 2,
		[KIT_PROGRESS_UNIFIED] = 3,
		[FI_PROGRESS_UNSPEC] = 4,
	};

	return v < ARRAY_SIZE(rank) ? rank[v] : -1;
}

static int rm_rank(unsigned v)
{
	static const int rank[] = {
		[FI_RM_ENABLED] = 1,
		[FI_RM_DISABLED] = 2,
		[FI_RM_UNSPEC] = 3,
	};

	return v < ARRAY_SIZE(rank) ? rank[v] : -1;
}

static const char *rm_name(unsigned v)
{
	return v == FI_RM_ENABLED ? "FI_RM_ENABLED" : v == FI_RM_DISABLED ? "FI_RM_DISABLED" : "unknown";
}

static int rank_check(const struct check *c, const char *name, int (*rank)(unsigned), unsigned hint,
		      unsigned have, enum fi_type type)
{
	char asked[WORD_MAX], here[WORD_MAX];

	if (rank(hint) >= rank(have))
		return 0;
	return no(c, "%s is %s in the hints, which %s here does not give", name,
		  word(&hint, type, asked), word(&have, type, here));
}

static int check_type(const struct check *c)
{
	const struct fi_ep_attr *hint = c->hints->ep_attr, *have = c->have->ep_attr;

	if (!hint || hint->type == FI_EP_UNSPEC || have->type == FI_EP_UNSPEC ||
	    hint->type == have->type)
		return 0;
	return differs(c, "ep_attr->type", &hint->type, &have->type, FI_TYPE_EP_TYPE);
}

/* One address format includes the ones that it generalises. */
static bool format_ok(uint32_t have, uint32_t hint)
{
	if (hint == FI_FORMAT_UNSPEC || have == FI_FORMAT_UNSPEC || hint == have)
		return true;
	if (have == FI_SOCKADDR || have == FI_SOCKADDR_IN6)
		return hint <= FI_SOCKADDR_IN6;
	return have == FI_SOCKADDR_IN && hint <= FI_SOCKADDR_IN;
}

static int check_top(const struct check *c)
{
	if (subset(c, "caps", c->hints->caps, c->have->caps, FI_TYPE_CAPS) ||
	    mode_offered(c, "mode", c->hints->mode,
			 kit_mr_mode_need(c->version, c->have, c->hints)))
		return -FI_ENODATA;
	if (format_ok(c->have->addr_format, c->hints->addr_format))
		return 0;
	return differs(c, "addr_format", &c->hints->addr_format, &c->have->addr_format, FI_TYPE_ADDR_FORMAT);
}

static int name_check(const struct check *c, const char *what, const char *hint, const char *have)
{
	if (!hint || !have || !strcmp(hint, have))
		return 0;
	return kit_info_other(c->prov, "%s does not match: %s is \"%s\" in the hints, \"%s\" here",
			      name_of(c), what, hint, have);
}

static int check_fabric(const struct check *c)
{
	const struct fi_fabric_attr *hint = c->hints->fabric_attr, *have = c->have->fabric_attr;

	if (!hint)
		return 0;
	if (name_check(c, "fabric_attr->name", hint->name, have->name))
		return -FI_ENODATA;
	return at_most(c, "fabric_attr->prov_version", hint->prov_version, c->prov->version);
}

static int check_models(const struct check *c)
{
	const struct fi_domain_attr *hint = c->hints->domain_attr, *have = c->have->domain_attr;
	char asked[WORD_MAX];

	if (c->version >= KIT_V(2, 0) &&
	    (hint->threading == FI_THREAD_FID || hint->threading == FI_THREAD_ENDPOINT))
		return no(c, "domain_attr->threading is %s in the hints, which 2.0 dropped",
			  word(&hint->threading, FI_TYPE_THREADING, asked));
	if (rank_check(c, "domain_attr->threading", thread_rank, hint->threading,
		       have->threading, FI_TYPE_THREADING) ||
	    rank_check(c, "domain_attr->control_progress", progress_rank, hint->control_progress,
		       have->control_progress, FI_TYPE_PROGRESS) ||
	    rank_check(c, "domain_attr->data_progress", progress_rank, hint->data_progress,
		       have->data_progress, FI_TYPE_PROGRESS))
		return -FI_ENODATA;
	if (rm_rank(hint->resource_mgmt) < rm_rank(have->resource_mgmt)) /* fi_tostr() has no names for these */
		return no(c, "domain_attr->resource_mgmt is %s in the hints, which %s here does not give",
			  rm_name(hint->resource_mgmt), rm_name(have->resource_mgmt));
	/* A table serves who asks for a map: an index is an address that need not be stored. */
	if (hint->av_type != FI_AV_UNSPEC && have->av_type != FI_AV_UNSPEC &&
	    hint->av_type != have->av_type &&
	    !(hint->av_type == FI_AV_MAP && have->av_type == FI_AV_TABLE))
		return differs(c, "domain_attr->av_type", &hint->av_type, &have->av_type, FI_TYPE_AV_TYPE);
	return 0;
}

static int check_tclass(const struct check *c, const char *name, uint32_t tclass)
{
	if (tclass == FI_TC_UNSPEC || (tclass & FI_TC_DSCP) || (tclass & FI_TC_LABEL))
		return 0;
	return no(c, "%s is %#x, neither a label nor a DSCP", name, tclass);
}

static int check_key(const struct check *c, const char *name, size_t hint, size_t have)
{
	if (!hint || hint == have)
		return 0;
	return no(c, "%s is %zu in the hints, %zu here", name, hint, have);
}

static int check_mr(const struct check *c)
{
	const struct fi_domain_attr *hint = c->hints->domain_attr, *have = c->have->domain_attr;
	char want[TEXT_MAX] = "", need[TEXT_MAX] = "";

	/* Keys that we choose are as long as ours are; the hint then says how many bytes the
	 * program sends around. */
	if (!(have->mr_mode & (FI_MR_PROV_KEY | KIT_MR_BASIC)) &&
	    at_most(c, "domain_attr->mr_key_size", hint->mr_key_size, have->mr_key_size))
		return -FI_ENODATA;
	if (kit_mr_mode_ok(c->version, c->have, c->hints, NULL))
		return 0;
	fi_tostr_r(want, sizeof(want), &hint->mr_mode, FI_TYPE_MR_MODE);
	fi_tostr_r(need, sizeof(need), &have->mr_mode, FI_TYPE_MR_MODE);
	return no(c, "domain_attr->mr_mode is %s (%#x) in the hints, %s is required (API %u.%u)",
		  want[0] ? want : "no bit", (unsigned)hint->mr_mode, need[0] ? need : "no bit of it",
		  FI_MAJOR(c->version), FI_MINOR(c->version));
}

/* Fields that old programs left undefined, by the version that defined them. */
static int check_domain_new(const struct check *c)
{
	static const struct limit tab[] = {
		LIMIT(fi_domain_attr, "domain_attr", cntr_cnt),
		LIMIT(fi_domain_attr, "domain_attr", mr_iov_limit),
		LIMIT(fi_domain_attr, "domain_attr", max_err_data),
		LIMIT(fi_domain_attr, "domain_attr", mr_cnt),
	};
	const struct fi_domain_attr *hint = c->hints->domain_attr, *have = c->have->domain_attr;
	struct kit_domain_attr_ext want = {0}, max = {0};

	if (c->version < KIT_V(1, 5))
		return 0;
	if (limits(c, tab, ARRAY_SIZE(tab), hint, have) ||
	    subset(c, "domain_attr->caps", hint->caps, have->caps, FI_TYPE_CAPS) ||
	    mode_offered(c, "domain_attr->mode", hint->mode, have->mode))
		return -FI_ENODATA;
	if (c->version < KIT_V(1, 20) || kit_core_version() < KIT_V(1, 20) ||
	    hint->auth_key_size != KIT_AV_AUTH_KEY) {
		if (check_key(c, "domain_attr->auth_key_size", hint->auth_key_size,
			      have->auth_key_size))
			return -FI_ENODATA;
	} else if (hint->auth_key) {
		return no(c, "domain_attr->auth_key goes with FI_AV_AUTH_KEY, which wants NULL");
	}
	memcpy(&want, hint, kit_domain_attr_len());
	memcpy(&max, have, kit_domain_attr_len());
	if (c->version >= KIT_V(1, 20) &&
	    at_most(c, "domain_attr->max_ep_auth_key", want.max_ep_auth_key, max.max_ep_auth_key))
		return -FI_ENODATA;
	if (c->version < KIT_V(2, 5))
		return 0;
	if (max.max_cntr_value &&
	    at_most(c, "domain_attr->max_cntr_value", want.max_cntr_value, max.max_cntr_value))
		return -FI_ENODATA;
	if (max.max_err_cntr_value && at_most(c, "domain_attr->max_err_cntr_value",
					      want.max_err_cntr_value, max.max_err_cntr_value))
		return -FI_ENODATA;
	return 0;
}

static int check_domain(const struct check *c)
{
	const struct fi_domain_attr *hint = c->hints->domain_attr, *have = c->have->domain_attr;

	if (!hint)
		return 0;
	if (name_check(c, "domain_attr->name", hint->name, have->name) || check_models(c) ||
	    at_most(c, "domain_attr->cq_data_size", hint->cq_data_size, have->cq_data_size) ||
	    check_mr(c) || check_tclass(c, "domain_attr->tclass", hint->tclass) ||
	    check_domain_new(c))
		return -FI_ENODATA;
	return 0;
}

/* Contexts of an endpoint: so many, or FI_SHARED_CONTEXT if the domain has shared ones. */
static int check_ctx(const struct check *c, const char *name, size_t hint, size_t have, size_t max,
		     size_t max_shared)
{
	if (hint == FI_SHARED_CONTEXT)
		return max_shared ? 0 : no(c, "%s asks for a shared context: there are none", name);
	if (!hint && have == FI_SHARED_CONTEXT)
		return no(c, "%s must be FI_SHARED_CONTEXT here", name);
	return at_most(c, name, hint, max);
}

/* Tags as wide as the highest bit of the format. */
static uint64_t tag_max(uint64_t format)
{
	return format ? UINT64_MAX >> __builtin_clzll(format) : 0;
}

static int check_orders(const struct check *c)
{
	static const struct limit tab[] = {
		LIMIT(fi_ep_attr, "ep_attr", max_order_raw_size),
		LIMIT(fi_ep_attr, "ep_attr", max_order_war_size),
		LIMIT(fi_ep_attr, "ep_attr", max_order_waw_size),
	};

	if (!(c->hints->caps & (FI_RMA | FI_ATOMIC)))
		return 0;
	return limits(c, tab, ARRAY_SIZE(tab), c->hints->ep_attr, c->have->ep_attr);
}

static int check_ep_key(const struct check *c)
{
	const struct fi_domain_attr *d = c->hints->domain_attr;
	const struct fi_ep_attr *hint = c->hints->ep_attr;

	if (c->version >= KIT_V(1, 20) && d && d->auth_key_size == KIT_AV_AUTH_KEY) {
		if (!hint->auth_key && !hint->auth_key_size)
			return 0;
		return no(c, "ep_attr->auth_key goes with FI_AV_AUTH_KEY, which wants none");
	}
	return check_key(c, "ep_attr->auth_key_size", hint->auth_key_size,
			 c->have->ep_attr->auth_key_size);
}

static int check_ep(const struct check *c)
{
	const struct fi_ep_attr *hint = c->hints->ep_attr, *have = c->have->ep_attr;
	const struct fi_domain_attr *d = c->have->domain_attr;

	if (!hint)
		return 0;
	if (hint->protocol != FI_PROTO_UNSPEC && hint->protocol != have->protocol)
		return differs(c, "ep_attr->protocol", &hint->protocol, &have->protocol, FI_TYPE_PROTOCOL);
	if (at_most(c, "ep_attr->protocol_version", hint->protocol_version,
		    have->protocol_version) ||
	    at_most(c, "ep_attr->max_msg_size", hint->max_msg_size, have->max_msg_size) ||
	    check_ctx(c, "ep_attr->tx_ctx_cnt", hint->tx_ctx_cnt, have->tx_ctx_cnt,
		      d->max_ep_tx_ctx, d->max_ep_stx_ctx) ||
	    check_ctx(c, "ep_attr->rx_ctx_cnt", hint->rx_ctx_cnt, have->rx_ctx_cnt,
		      d->max_ep_rx_ctx, d->max_ep_srx_ctx) ||
	    check_orders(c) || check_ep_key(c))
		return -FI_ENODATA;
	if ((c->hints->caps & FI_TAGGED) &&
	    tag_max(hint->mem_tag_format) > tag_max(have->mem_tag_format))
		return no(c, "ep_attr->mem_tag_format %#llx of the hints is wider than %#llx here",
			  (unsigned long long)hint->mem_tag_format,
			  (unsigned long long)have->mem_tag_format);
	return 0;
}

static int check_rx(const struct check *c)
{
	static const struct limit tab[] = {
		LIMIT(fi_rx_attr, "rx_attr", total_buffered_recv),
		LIMIT(fi_rx_attr, "rx_attr", size),
		LIMIT(fi_rx_attr, "rx_attr", iov_limit),
	};
	const struct fi_rx_attr *hint = c->hints->rx_attr, *have = c->have->rx_attr;

	if (!hint)
		return 0;
	if (subset(c, "rx_attr->caps", hint->caps & ~KIT_CAPS_IGNORED_RX, have->caps,
		   FI_TYPE_CAPS) ||
	    mode_offered(c, "rx_attr->mode", hint->mode ? hint->mode : c->hints->mode,
			 have->mode) ||
	    subset(c, "rx_attr->op_flags", hint->op_flags, have->op_flags, FI_TYPE_OP_FLAGS) ||
	    subset(c, "rx_attr->msg_order", hint->msg_order, have->msg_order, FI_TYPE_MSG_ORDER) ||
	    subset(c, "rx_attr->comp_order", hint->comp_order, have->comp_order, FI_TYPE_MSG_ORDER))
		return -FI_ENODATA;
	return limits(c, tab, ARRAY_SIZE(tab), hint, have);
}

static int check_tx(const struct check *c)
{
	static const struct limit tab[] = {
		LIMIT(fi_tx_attr, "tx_attr", inject_size),
		LIMIT(fi_tx_attr, "tx_attr", size),
		LIMIT(fi_tx_attr, "tx_attr", iov_limit),
		LIMIT(fi_tx_attr, "tx_attr", rma_iov_limit),
	};
	const struct fi_tx_attr *hint = c->hints->tx_attr, *have = c->have->tx_attr;

	if (!hint)
		return 0;
	if (subset(c, "tx_attr->caps", hint->caps & ~KIT_CAPS_IGNORED_TX, have->caps,
		   FI_TYPE_CAPS) ||
	    mode_offered(c, "tx_attr->mode", hint->mode ? hint->mode : c->hints->mode,
			 have->mode) ||
	    subset(c, "tx_attr->op_flags", hint->op_flags, have->op_flags, FI_TYPE_OP_FLAGS) ||
	    subset(c, "tx_attr->msg_order", hint->msg_order, have->msg_order, FI_TYPE_MSG_ORDER) ||
	    subset(c, "tx_attr->comp_order", hint->comp_order, have->comp_order,
		   FI_TYPE_MSG_ORDER) ||
	    check_tclass(c, "tx_attr->tclass", hint->tclass))
		return -FI_ENODATA;
	return limits(c, tab, ARRAY_SIZE(tab), hint, have);
}

int kit_info_check(const struct fi_provider *prov, uint32_t version, const struct fi_info *have,
		   const struct fi_info *hints)
{
	const struct check c = {.prov = prov, .version = version, .have = have, .hints = hints};

	if (g_why)
		g_why->version = version;
	if (!hints)
		return 0;
	/* The type first: it is what layered providers ask for, over and over, and we do not have.
	 */
	if (check_type(&c) || check_top(&c) || check_fabric(&c) || check_domain(&c) ||
	    check_ep(&c) || check_rx(&c) || check_tx(&c))
		return -FI_ENODATA;
	return 0;
}
