// SPDX-License-Identifier: BSD-2-Clause
// fi_open_ops and fi_control of a domain: the documented extensions, statistics, telemetry. Source:
// doc/facts/cxi.md#extensions.
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "fi_cxi_ext.h"
#include "prov/cxi/cxi.h"

#define TLE_OWN 8 /* triggered list entries that the provider keeps for itself */

/* --- counters: the adapter's by their telemetry names, then ours --------------------------------- */

#define ROW(member_) {#member_, offsetof(struct cxi_fc_stats, member_)}
static const struct stats_row own_row[] = {
	ROW(fc_eq_full), ROW(fc_no_match), ROW(fc_unexp), ROW(fc_req_full), ROW(sw_transitions),
};
static_assert(ARRAY_SIZE(own_row) * sizeof(uint64_t) == sizeof(struct cxi_fc_stats), "every counter");

static struct cxi_domain *to_domain(struct fid *fid)
{
	return fid && fid->fclass == FI_CLASS_DOMAIN ? container_of(fid, struct cxi_domain, kit.fid.fid) : NULL;
}

static uint64_t hw_read(struct kit_domain *d, size_t off)
{
	struct cassini_stats s;

	cassini_query_stats(container_of(d, struct cxi_domain, kit)->nic, &s);
	return stats_value(&s, off);
}

static uint64_t own_read(struct kit_domain *d, size_t off)
{
	return stats_value(&container_of(d, struct cxi_domain, kit)->stats, off);
}

const struct kit_stats_group cxi_stats_groups[] = {
	{cassini_stat_row, ARRAY_SIZE(cassini_stat_row), NULL, hw_read},
	{own_row, ARRAY_SIZE(own_row), NULL, own_read},
	{0},
};

/* --- domain operations --------------------------------------------------------------------------- */

/* @cntr: a counter's place in the list that FI_SOFTFABRIC_STATS_OPS names. */
static int dom_cntr_read(struct fid *fid, unsigned int cntr, uint64_t *value, struct timespec *ts)
{
	struct cxi_domain *d = to_domain(fid);
	char name[KIT_STAT_NAME];

	if (!d || !value || kit_stats_ops.name(&d->kit.fid, cntr, name, sizeof(name)))
		return -FI_EINVAL;
	if (ts)
		clock_gettime(CLOCK_REALTIME, ts);
	return kit_stats_ops.read(&d->kit.fid, name, value);
}

/* A dragonfly's address: group 9 bits, switch 5, port 6. */
static int dom_topology(struct fid *fid, unsigned int *group_id, unsigned int *switch_id, unsigned int *port_id)
{
	struct cxi_domain *d = to_domain(fid);

	if (!d)
		return -FI_EINVAL;
	if (group_id)
		*group_id = d->info.nic >> 11 & 0x1ff;
	if (switch_id)
		*switch_id = d->info.nic >> 6 & 0x1f;
	if (port_id)
		*port_id = d->info.nic & 0x3f;
	return 0;
}

/* Descriptors may be given or not at any time here. */
static int dom_hybrid_mr_desc(struct fid *fid, bool enable)
{
	struct cxi_domain *d = to_domain(fid);

	if (!d)
		return -FI_EINVAL;
	d->hybrid_mr_desc = enable;
	return 0;
}

static size_t ep_get_unexp_msgs(struct fid_ep *fid_ep, struct fi_cq_tagged_entry *entry, size_t count,
				fi_addr_t *src_addr, size_t *ux_count)
{
	struct cxi_ep *ep = fid_ep ? cxi_ep_of(fid_ep) : NULL;
	size_t max = entry && src_addr ? count : 0;
	ssize_t ret;

	if (!ep || !ux_count || (fid_ep->fid.fclass != FI_CLASS_EP && fid_ep->fid.fclass != FI_CLASS_RX_CTX))
		return (size_t)-FI_EINVAL;
	ret = cxi_ep_state(ep);
	if (ret)
		return (size_t)ret;
	lock_acquire(&ep->domain->kit.lock);
	ret = cxi_unexp_list(ep, entry, src_addr, max);
	lock_release(&ep->domain->kit.lock);
	if (ret < 0)
		return (size_t)ret;
	*ux_count = (size_t)ret;
	return MIN((size_t)ret, max);
}

static int dom_dwq_depth(struct fid *fid, size_t *depth)
{
	struct cxi_domain *d = to_domain(fid);
	uint32_t used, max;

	if (!d || !depth)
		return -FI_EINVAL;
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	lock_acquire(&d->kit.lock);
	cassini_rsrc(d->lni, CASSINI_RSRC_TLE, &used, &max);
	lock_release(&d->kit.lock);
	*depth = max > TLE_OWN ? max - TLE_OWN : 0;
	return 0;
}

/* Keys of clients say by their number alone which kind of region they name: initiators could not know. */
static int provider_keys_only(const struct cxi_domain *d, const char *what)
{
	if (d->prov_key)
		return 0;
	LOG_WARN("%s can be set for domains with FI_MR_PROV_KEY only", what);
	return -FI_EINVAL;
}

/* What objects are made of cannot change under them. @is_made: some were made of it already. */
static int too_late(bool is_made, const char *what, const char *before)
{
	if (!is_made)
		return 0;
	LOG_WARN("%s can be set only before the first %s of the domain is made", what, before);
	return -FI_EOPBADSTATE;
}

static int match_events_set(struct cxi_domain *d, bool enable)
{
	int ret = too_late(d->has_eps || d->has_mrs, "match events of regions", "endpoint or memory region");

	if (!ret)
		d->params.mr_match_events = enable;
	return ret;
}

static int optimized_mrs_set(struct cxi_domain *d, bool enable)
{
	int ret = provider_keys_only(d, "optimized regions");

	ret = ret ? ret : too_late(d->has_mrs, "optimized regions", "memory region");
	if (!ret)
		d->params.optimized_mrs = enable;
	return ret;
}

static int key_cache_set(struct cxi_domain *d, bool enable)
{
	int ret = provider_keys_only(d, "the cache of provider keys");

	ret = ret ? ret : too_late(d->has_mrs, "the cache of provider keys", "memory region");
	if (!ret)
		d->params.prov_key_cache = enable;
	return ret;
}

static int set_locked(struct fid *fid, bool enable, int (*set)(struct cxi_domain *d, bool enable))
{
	struct cxi_domain *d = to_domain(fid);
	int ret;

	if (!d)
		return -FI_EINVAL;
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	lock_acquire(&d->kit.lock);
	ret = set(d, enable);
	lock_release(&d->kit.lock);
	return ret;
}

static int dom_match_events(struct fid *fid, bool enable)
{
	return set_locked(fid, enable, match_events_set);
}

static int dom_optimized_mrs(struct fid *fid, bool enable)
{
	return set_locked(fid, enable, optimized_mrs_set);
}

/* Each version is the beginning of the next: one table serves all. */
static struct fi_cxi_dom_ops dom_ops = {
	.cntr_read = dom_cntr_read,
	.topology = dom_topology,
	.enable_hybrid_mr_desc = dom_hybrid_mr_desc,
	.ep_get_unexp_msgs = ep_get_unexp_msgs,
	.get_dwq_depth = dom_dwq_depth,
	.enable_mr_match_events = dom_match_events,
	.enable_optimized_mrs = dom_optimized_mrs,
};

int cxi_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	static const char *const version[] = {FI_CXI_DOM_OPS_1, FI_CXI_DOM_OPS_2, FI_CXI_DOM_OPS_3,
					      FI_CXI_DOM_OPS_4, FI_CXI_DOM_OPS_5, FI_CXI_DOM_OPS_6};

	(void)fid, (void)flags, (void)context;
	if (!name || !ops)
		return -FI_EINVAL;
	if (!strcmp(name, FI_SOFTFABRIC_STATS_OPS)) {
		*ops = &kit_stats_ops;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(version); i++) {
		if (!strcmp(name, version[i])) {
			*ops = &dom_ops;
			return 0;
		}
	}
	LOG_INFO("operations \"%s\" are not known: a cxi domain has " FI_CXI_DOM_OPS_1 " to " FI_CXI_DOM_OPS_6
		 " and " FI_SOFTFABRIC_STATS_OPS,
		 name);
	return -FI_EINVAL;
}

/* --- fi_control ---------------------------------------------------------------------------------- */

static int match_mode_set(struct cxi_domain *d, const char *mode)
{
	/* in any case, as the real one; the others as written */
	const char *word = !strcasecmp(mode, "hardware") ? "hardware" : mode;

	if (too_late(d->has_eps, "the receive match mode", "endpoint"))
		return -FI_EOPBADSTATE;
	if (strcmp(word, "hardware") && strcmp(word, "software") && strcmp(word, "hybrid")) {
		LOG_WARN("receive match mode \"%.20s\" is not hardware, software or hybrid", mode);
		return -FI_EINVAL;
	}
	snprintf(d->params.rx_match_mode, sizeof(d->params.rx_match_mode), "%s", word);
	return 0;
}

static int req_buf_size_set(struct cxi_domain *d, size_t size)
{
	size_t least = d->params.rdzv_threshold + d->params.rdzv_get_min;

	if (too_late(d->has_eps, "the size of request buffers", "endpoint"))
		return -FI_EOPBADSTATE;
	if (!size || size > UINT32_MAX)
		return -FI_EINVAL;
	d->params.req_buf_size = MAX(size, least); /* the largest eager message must fit */
	return 0;
}

/* The writing ones; others are not known. */
static int option_set(struct cxi_domain *d, int command, const void *arg)
{
	switch (command) {
	case FI_OPT_CXI_SET_MR_MATCH_EVENTS:
		return match_events_set(d, *(const bool *)arg);
	case FI_OPT_CXI_SET_OPTIMIZED_MRS:
		return optimized_mrs_set(d, *(const bool *)arg);
	case FI_OPT_CXI_SET_PROV_KEY_CACHE:
		return key_cache_set(d, *(const bool *)arg);
	case FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE:
		return match_mode_set(d, arg);
	case FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE:
		return req_buf_size_set(d, *(const size_t *)arg);
	}
	return -FI_EINVAL;
}

static int option(struct cxi_domain *d, int command, void *arg)
{
	switch (command) {
	case FI_OPT_CXI_GET_MR_MATCH_EVENTS:
		*(bool *)arg = d->params.mr_match_events;
		return 0;
	case FI_OPT_CXI_GET_OPTIMIZED_MRS:
		*(bool *)arg = d->params.optimized_mrs;
		return 0;
	case FI_OPT_CXI_GET_PROV_KEY_CACHE:
		*(bool *)arg = d->params.prov_key_cache;
		return 0;
	case FI_OPT_CXI_GET_RX_MATCH_MODE_OVERRIDE:
		strcpy(arg, cxi_match_mode(d) == CXI_MATCH_HYBRID     ? "hybrid"
			    : cxi_match_mode(d) == CXI_MATCH_SOFTWARE ? "software"
								      : "hardware");
		return 0;
	case FI_OPT_CXI_GET_REQ_BUF_SIZE_OVERRIDE:
		*(size_t *)arg = d->params.req_buf_size;
		return 0;
	}
	return option_set(d, command, arg);
}

int cxi_domain_control(struct fid *fid, int command, void *arg)
{
	struct cxi_domain *d = container_of(fid, struct cxi_domain, kit.fid.fid);
	int ret;

	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	lock_acquire(&d->kit.lock);
	switch (command) {
	case FI_QUEUE_WORK:
		ret = cxi_queue_work(d, arg);
		break;
	case FI_FLUSH_WORK:
		ret = cxi_flush_work(d);
		break;
	default:
		ret = arg ? option(d, command, arg) : -FI_EINVAL;
	}
	lock_release(&d->kit.lock);
	return ret;
}

/* --- telemetry: what changed while the domain was open ------------------------------------------- */

/* The counters that FI_CXI_TELEMETRY names: at first (@now NULL) only those that are not known are said. */
static void telemetry_each(struct cxi_domain *d, const struct cassini_stats *now)
{
	char list[KIT_PARAM_STR], *rest = list, *name;

	snprintf(list, sizeof(list), "%s", d->params.telemetry);
	while ((name = strsep(&rest, ","))) {
		uint64_t was, is;
		size_t i = 0;

		while (i < ARRAY_SIZE(cassini_stat_row) && strcmp(cassini_stat_row[i].name, name))
			i++;
		if (i == ARRAY_SIZE(cassini_stat_row)) {
			if (!now && *name)
				LOG_WARN("FI_CXI_TELEMETRY: the adapter has no counter \"%s\"", name);
			continue;
		}
		was = stats_value(&d->telemetry, cassini_stat_row[i].off);
		if (now) {
			is = stats_value(now, cassini_stat_row[i].off);
			LOG_WARN("%s telemetry: %s: %llu", d->info.name, name, (unsigned long long)(is - was));
		}
	}
}

void cxi_telemetry_start(struct cxi_domain *d)
{
	if (!*d->params.telemetry)
		return;
	lock_acquire(&d->kit.lock);
	cassini_query_stats(d->nic, &d->telemetry);
	lock_release(&d->kit.lock);
	telemetry_each(d, NULL);
}

void cxi_telemetry_print(struct cxi_domain *d)
{
	struct cassini_stats now;

	if (!*d->params.telemetry ||
	    (d->params.telemetry_rgid >= 0 && d->params.telemetry_rgid != cassini_lni_id(d->lni)))
		return;
	lock_acquire(&d->kit.lock);
	cassini_query_stats(d->nic, &now);
	lock_release(&d->kit.lock);
	telemetry_each(d, &now);
}
