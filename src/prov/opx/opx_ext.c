// SPDX-License-Identifier: BSD-2-Clause
// fi_open_ops of a domain: counters of the soft adapter, of the protocols and of the reliability.
#include <string.h>

#include "base/log.h"
#include "base/stats.h"
#include "fi_ext_softfabric.h"
#include "prov/opx/opx.h"

#define ROW(name_) {#name_, offsetof(struct opx_stats, name_)}
static const struct stats_row own_row[] = {
	ROW(tx_inject), ROW(tx_eager), ROW(tx_mp), ROW(tx_rzv), ROW(tx_rzv_local), ROW(tx_pio_data), ROW(tx_sdma_data), ROW(tx_bounce), ROW(tx_expected),
	ROW(rx_inject), ROW(rx_eager), ROW(rx_mp), ROW(rx_rzv), ROW(rx_unexpected), ROW(rx_stale), ROW(rx_malformed),
	ROW(rma_refused), ROW(done_late),
};
static_assert(ARRAY_SIZE(own_row) * sizeof(uint64_t) == sizeof(struct opx_stats), "every counter");
#undef ROW

#define ROW(name_) {"rel_" #name_, offsetof(struct opx_rel_stats, name_)}
static const struct stats_row rel_row[] = {
	ROW(tx_pkts), ROW(rx_pkts), ROW(replays), ROW(pings_tx), ROW(pings_rx), ROW(acks_tx), ROW(acks_rx), ROW(nacks_tx), ROW(nacks_rx),
	ROW(dups), ROW(ahead), ROW(ahead_drops), ROW(bad_key), ROW(inits_tx), ROW(inits_rx), ROW(resynchs_tx), ROW(resynchs_rx),
	ROW(throttled), ROW(peers_dead), ROW(malformed),
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
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(own_row); i++)
		row[n++] = own_row[i];
	for (size_t i = 0; i < ARRAY_SIZE(rel_row); i++)
		row[n++] = (struct stats_row){rel_row[i].name, offsetof(typeof(sum), rel) + rel_row[i].off};
	stats_report("opx", row, n, &sum);
}

/* The name of counter @index; NULL: there are no more. */
static const char *name_at(size_t index)
{
	size_t off;
	int cnt = 0;

	while ((size_t)cnt <= index && hfi_stat_name(cnt, &off))
		cnt++;
	if (index < (size_t)cnt)
		return hfi_stat_name((int)index, &off);
	index -= (size_t)cnt;
	if (index < ARRAY_SIZE(own_row))
		return own_row[index].name;
	index -= ARRAY_SIZE(own_row);
	return index < ARRAY_SIZE(rel_row) ? rel_row[index].name : NULL;
}

static uint64_t value_in(const void *stats, size_t off)
{
	uint64_t v;

	memcpy(&v, (const char *)stats + off, sizeof(v));
	return v;
}

static uint64_t hw_sum(const struct opx_domain *d, size_t off)
{
	struct hfi_stats s;
	uint64_t sum = 0;

	for (int i = 0; i < HFI_UNIT_MAX; i++) {
		if (!d->hfi[i])
			continue;
		hfi_query_stats(d->hfi[i], &s);
		sum += value_in(&s, off);
	}
	return sum;
}

/* Lock held. */
static int value_of(struct opx_domain *d, const char *name, uint64_t *value)
{
	const struct opx_ep *ep;
	const char *known;
	size_t off;

	for (size_t i = 0; i < ARRAY_SIZE(own_row); i++) {
		if (strcmp(own_row[i].name, name))
			continue;
		*value = value_in(&d->closed, own_row[i].off);
		LIST_FOREACH(ep, &d->eps, domain_link)
			*value += value_in(&ep->stats, own_row[i].off);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rel_row); i++) {
		if (strcmp(rel_row[i].name, name))
			continue;
		*value = value_in(&d->closed_rel, rel_row[i].off);
		LIST_FOREACH(ep, &d->eps, domain_link)
			*value += value_in(opx_rel_stats(ep->rel), rel_row[i].off);
		return 0;
	}
	for (int i = 0; (known = hfi_stat_name(i, &off)); i++) {
		if (strcmp(known, name))
			continue;
		*value = hw_sum(d, off);
		return 0;
	}
	return -FI_ENOENT;
}

static int stats_read(struct fid_domain *domain, const char *name, uint64_t *value)
{
	struct opx_domain *d;
	int ret;

	if (!domain || domain->fid.fclass != FI_CLASS_DOMAIN || !name || !*name || !value)
		return -FI_EINVAL;
	d = container_of(domain, struct opx_domain, kit.fid);
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	pthread_mutex_lock(&d->open_lock); /* units may be opened just now */
	lock_acquire(&d->kit.lock);
	ret = value_of(d, name, value);
	lock_release(&d->kit.lock);
	pthread_mutex_unlock(&d->open_lock);
	return ret;
}

static int stats_name(struct fid_domain *domain, size_t index, char *buf, size_t len)
{
	const char *name;

	if (!domain || !buf)
		return -FI_EINVAL;
	name = name_at(index);
	if (!name)
		return -FI_ENOENT;
	if (strlen(name) >= len)
		return -FI_ETOOSMALL;
	memcpy(buf, name, strlen(name) + 1);
	return 0;
}

static struct fi_softfabric_ops_stats stats_ops = {
	.size = sizeof(struct fi_softfabric_ops_stats),
	.read = stats_read,
	.name = stats_name,
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
	*ops = &stats_ops;
	return 0;
}
