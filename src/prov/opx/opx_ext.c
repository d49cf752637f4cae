// SPDX-License-Identifier: BSD-2-Clause
// fi_open_ops of a domain: counters of the soft adapter, of the protocols and of the reliability.
#include <string.h>

#include "base/log.h"
#include "prov/opx/opx.h"

#define ROW(name_) {#name_, offsetof(struct opx_stats, name_)}
static const struct stats_row own_row[] = {
	ROW(tx_inject), ROW(tx_eager), ROW(tx_mp), ROW(tx_rzv), ROW(tx_rzv_local),
	ROW(tx_ahead), ROW(tx_pio_data), ROW(tx_sdma_data), ROW(tx_bounce), ROW(tx_expected),
	ROW(rx_inject), ROW(rx_eager), ROW(rx_mp), ROW(rx_rzv), ROW(rx_ahead), ROW(rx_unexpected), ROW(rx_stale),
	ROW(rx_malformed), ROW(quota_full),
	ROW(rma_refused), ROW(done_late),
};
static_assert(ARRAY_SIZE(own_row) * sizeof(uint64_t) == sizeof(struct opx_stats), "every counter");
#undef ROW

#define ROW(name_) {"rel_" #name_, offsetof(struct opx_rel_stats, name_)}
static const struct stats_row rel_row[] = {
	ROW(tx_pkts), ROW(rx_pkts), ROW(replays), ROW(pings_tx), ROW(pings_rx), ROW(acks_tx), ROW(acks_rx),
	ROW(nacks_tx), ROW(nacks_rx),
	ROW(dups), ROW(ahead), ROW(ahead_drops), ROW(full_drops), ROW(unkept), ROW(bad_key),
	ROW(inits_tx), ROW(inits_rx), ROW(resynchs_tx), ROW(resynchs_rx),
	ROW(throttled), ROW(peers_dead), ROW(malformed), ROW(peers_closed),
};
static_assert(ARRAY_SIZE(rel_row) * sizeof(uint64_t) == sizeof(struct opx_rel_stats), "every counter");

void opx_stats_closed(const struct opx_ep *ep)
{
	lock_assert_held(&ep->domain->kit.lock);
	stats_add(&ep->domain->closed, &ep->stats, sizeof(ep->stats));
	if (ep->rel)
		stats_add(&ep->domain->closed_rel, opx_rel_stats(ep->rel), sizeof(struct opx_rel_stats));
}

void opx_stats_print(const struct opx_domain *d)
{
	struct stats_row row[ARRAY_SIZE(own_row) + ARRAY_SIZE(rel_row)];
	struct {
		struct opx_stats own;
		struct opx_rel_stats rel;
	} sum = {d->closed, d->closed_rel};
	char line[STATS_LINE_MAX];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(own_row); i++)
		row[n++] = own_row[i];
	for (size_t i = 0; i < ARRAY_SIZE(rel_row); i++)
		row[n++] = (struct stats_row){rel_row[i].name, offsetof(typeof(sum), rel) + rel_row[i].off};
	stats_line(line, sizeof(line), "opx", row, n, &sum);
	stats_report(line);
}

static uint64_t hw_read(struct kit_domain *kd, size_t off)
{
	const struct opx_domain *d = container_of(kd, struct opx_domain, kit);
	struct hfi_stats s;
	uint64_t sum = 0;

	for (int i = 0; i < HFI_UNIT_MAX; i++) {
		if (!d->hfi[i])
			continue;
		hfi_query_stats(d->hfi[i], &s);
		sum += stats_value(&s, off);
	}
	return sum;
}

static uint64_t own_read(struct kit_domain *kd, size_t off)
{
	const struct opx_domain *d = container_of(kd, struct opx_domain, kit);
	uint64_t sum = stats_value(&d->closed, off);
	const struct opx_ep *ep;

	LIST_FOREACH(ep, &d->eps, domain_link)
		sum += stats_value(&ep->stats, off);
	return sum;
}

static uint64_t rel_read(struct kit_domain *kd, size_t off)
{
	const struct opx_domain *d = container_of(kd, struct opx_domain, kit);
	uint64_t sum = stats_value(&d->closed_rel, off);
	const struct opx_ep *ep;

	LIST_FOREACH(ep, &d->eps, domain_link)
		sum += stats_value(opx_rel_stats(ep->rel), off);
	return sum;
}

const struct kit_stats_group opx_stats_groups[] = {
	{hfi_stat_row, ARRAY_SIZE(hfi_stat_row), NULL, hw_read},
	{own_row, ARRAY_SIZE(own_row), NULL, own_read},
	{rel_row, ARRAY_SIZE(rel_row), NULL, rel_read},
	{0},
};

int opx_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)flags, (void)context;
	if (!name || !ops)
		return -FI_EINVAL;
	if (strcmp(name, FI_SOFTFABRIC_STATS_OPS)) {
		LOG_INFO("operations \"%s\" are not known: an opx domain has " FI_SOFTFABRIC_STATS_OPS, name);
		return -FI_EINVAL;
	}
	*ops = &kit_stats_ops;
	return 0;
}
