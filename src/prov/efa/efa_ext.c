// SPDX-License-Identifier: BSD-2-Clause
// fi_open_ops on an efa domain: the documented extension table (doc/facts/efa.md#extensions), and the counters of
// include/fi_ext_softfabric.h.
#include <string.h>

#include "fi_ext_efa.h"
#include "prov/efa/efa_obj.h"

/*
 * Host memory reaches the soft adapter over no particular interconnect: nothing is valid, as on a device that reports
 * none.
 */
static int query_mr(struct fid_mr *mr, struct fi_efa_mr_attr *attr)
{
	if (!mr || !attr)
		return FI_EINVAL;
	memset(attr, 0, sizeof(*attr));
	return 0;
}

static struct fi_efa_ops_domain domain_ops = {.query_mr = query_mr};

/* --- counters -------------------------------------------------------------------------------------------------- */

#define EP(name_, member_) {name_, offsetof(struct efa_stats, member_)}
static const struct stats_row ep_row[] = {
	EP("drop.SHORT", drop[EFA_DROP_SHORT]), EP("drop.TYPE", drop[EFA_DROP_TYPE]),
	EP("drop.DEPRECATED", drop[EFA_DROP_DEPRECATED]), EP("drop.VERSION", drop[EFA_DROP_VERSION]),
	EP("drop.COUNT", drop[EFA_DROP_COUNT]), EP("drop.ADDR_LEN", drop[EFA_DROP_ADDR_LEN]),
	EP("drop.LENGTH", drop[EFA_DROP_LENGTH]), EP("drop.unknown_peer", drop_unknown_peer),
	EP("drop.stale_id", drop_stale_id), EP("drop.duplicate", drop_duplicate), EP("drop.early", drop_early),
	EP("drop.zcpy", drop_zcpy), EP("early_refused", early_refused),
	EP("quota_refused", quota_refused), EP("rnr_queued", rnr_queued),
	EP("implicit_peers", implicit_peers), EP("implicit_forgotten", implicit_forgotten),
	EP("implicit_refused", implicit_refused),
};

/* Packets by type, sent, then received. */
#define PKT_TYPES 256
static_assert(offsetof(struct efa_stats, tx_pkts) == 0 &&
		      offsetof(struct efa_stats, rx_pkts) == PKT_TYPES * sizeof(uint64_t),
	      "as pkt_name() has them");

static void pkt_name(size_t n, char name[KIT_STAT_NAME])
{
	size_t type = n % PKT_TYPES;

	if (efa_pkt_known((unsigned)type))
		snprintf(name, KIT_STAT_NAME, "%cx_pkts.%s", n < PKT_TYPES ? 't' : 'r', efa_pkt_name((unsigned)type));
	else if (n < PKT_TYPES && (type == EFA_WR_READ || type == EFA_WR_WRITE))
		snprintf(name, KIT_STAT_NAME, "tx_pkts.RDMA_%s", type == EFA_WR_READ ? "READ" : "WRITE");
	else if (type == EFA_WR_USER)
		snprintf(name, KIT_STAT_NAME, "%cx_pkts.HEADERLESS", n < PKT_TYPES ? 't' : 'r');
}

static uint64_t hw_read(struct kit_domain *d, size_t off)
{
	struct efanic_stats s;

	efanic_query_stats(container_of(d, struct efa_domain, kit)->nic, &s);
	return stats_value(&s, off);
}

static uint64_t ep_read(struct kit_domain *d, size_t off)
{
	const struct efa_ep *ep;
	uint64_t sum = 0;

	LIST_FOREACH(ep, &container_of(d, struct efa_domain, kit)->eps, domain_link)
		sum += stats_value(&ep->stats, off);
	return sum;
}

const struct kit_stats_group efa_stats_groups[] = {
	{efanic_stat_row, ARRAY_SIZE(efanic_stat_row), NULL, hw_read},
	{ep_row, ARRAY_SIZE(ep_row), NULL, ep_read},
	{NULL, 2 * PKT_TYPES, pkt_name, ep_read},
	{0},
};

int efa_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)flags, (void)context;
	if (!name || !ops)
		return -FI_EINVAL;
	if (!strcmp(name, FI_EFA_DOMAIN_OPS))
		*ops = &domain_ops;
	else if (!strcmp(name, FI_SOFTFABRIC_STATS_OPS))
		*ops = &kit_stats_ops;
	else
		return -FI_EINVAL;
	return 0;
}
