// SPDX-License-Identifier: BSD-2-Clause
// fi_open_ops on an efa domain: the documented extension table (facts 2.3), and the counters of include/fi_ext_softfabric.h.
#include <string.h>

#include "fi_ext_efa.h"
#include "fi_ext_softfabric.h"
#include "prov/efa/efa_obj.h"

/* Host memory reaches the soft adapter over no particular interconnect: nothing is valid, as on a device that reports none. */
static int query_mr(struct fid_mr *mr, struct fi_efa_mr_attr *attr)
{
	if (!mr || !attr)
		return FI_EINVAL;
	memset(attr, 0, sizeof(*attr));
	return 0;
}

static struct fi_efa_ops_domain domain_ops = {.query_mr = query_mr};

/* --- counters -------------------------------------------------------------------------------------------------- */

struct stat_row {
	const char *name;
	size_t off; /* of a uint64_t */
};

#define HW(name_) {#name_, offsetof(struct efanic_stats, name_)}
static const struct stat_row hw_row[] = {
	HW(tx_bytes), HW(tx_pkts), HW(rx_bytes), HW(rx_pkts), HW(rx_drops), HW(send_bytes), HW(send_wrs), HW(recv_bytes),
	HW(recv_wrs), HW(rdma_read_wrs), HW(rdma_read_bytes), HW(rdma_read_wr_err), HW(rdma_read_resp_bytes),
	HW(rdma_write_wrs), HW(rdma_write_bytes), HW(rdma_write_wr_err), HW(rdma_write_recv_bytes), HW(retrans_pkts),
	HW(retrans_timeout_events), HW(unresponsive_remote_events), HW(impaired_remote_conn_events), HW(rnr_naks_rx),
	HW(rnr_naks_tx), HW(qkey_violations), HW(malformed), HW(shm_tx_pkts), HW(net_tx_pkts),
	HW(net_tx_dgrams), HW(net_rx_dgrams), HW(net_rx_dups), HW(net_rx_drops), HW(fault_drop), HW(fault_dup),
	HW(fault_reorder), HW(fault_delay), HW(fault_corrupt), HW(fault_truncate), HW(fault_partition),
};
static_assert(ARRAY_SIZE(hw_row) == sizeof(struct efanic_stats) / sizeof(uint64_t), "every counter of the adapter has a name");

#define EP(name_, member_) {name_, offsetof(struct efa_stats, member_)}
static const struct stat_row ep_row[] = {
	EP("drop.SHORT", drop[EFA_DROP_SHORT]), EP("drop.TYPE", drop[EFA_DROP_TYPE]),
	EP("drop.DEPRECATED", drop[EFA_DROP_DEPRECATED]), EP("drop.VERSION", drop[EFA_DROP_VERSION]),
	EP("drop.COUNT", drop[EFA_DROP_COUNT]), EP("drop.ADDR_LEN", drop[EFA_DROP_ADDR_LEN]),
	EP("drop.LENGTH", drop[EFA_DROP_LENGTH]), EP("drop.unknown_peer", drop_unknown_peer),
	EP("drop.stale_id", drop_stale_id), EP("drop.duplicate", drop_duplicate), EP("drop.early", drop_early),
	EP("drop.zcpy", drop_zcpy), EP("early_refused", early_refused), EP("rnr_queued", rnr_queued),
	EP("implicit_peers", implicit_peers),
};

#define NAME_MAX_LEN 48
#define PKT_TYPES    256
#define STAT_NUM     (ARRAY_SIZE(hw_row) + ARRAY_SIZE(ep_row) + 2 * PKT_TYPES)

/* What counter @i of STAT_NUM is called; "": a packet type that does not exist. */
static void stat_name(size_t i, char name[NAME_MAX_LEN])
{
	size_t type;

	name[0] = '\0';
	if (i < ARRAY_SIZE(hw_row)) {
		snprintf(name, NAME_MAX_LEN, "%s", hw_row[i].name);
		return;
	}
	i -= ARRAY_SIZE(hw_row);
	if (i < ARRAY_SIZE(ep_row)) {
		snprintf(name, NAME_MAX_LEN, "%s", ep_row[i].name);
		return;
	}
	i -= ARRAY_SIZE(ep_row);
	type = i % PKT_TYPES;
	if (efa_pkt_known((unsigned)type))
		snprintf(name, NAME_MAX_LEN, "%cx_pkts.%s", i < PKT_TYPES ? 't' : 'r', efa_pkt_name((unsigned)type));
	else if (i < PKT_TYPES && (type == EFA_WR_READ || type == EFA_WR_WRITE))
		snprintf(name, NAME_MAX_LEN, "tx_pkts.RDMA_%s", type == EFA_WR_READ ? "READ" : "WRITE");
	else if (type == EFA_WR_USER)
		snprintf(name, NAME_MAX_LEN, "%cx_pkts.HEADERLESS", i < PKT_TYPES ? 't' : 'r');
}

/* Offset in struct efa_stats of endpoint counter @i, which counts on behind the adapter's. */
static size_t ep_off(size_t i)
{
	if (i < ARRAY_SIZE(ep_row))
		return ep_row[i].off;
	i -= ARRAY_SIZE(ep_row);
	return (i < PKT_TYPES ? offsetof(struct efa_stats, tx_pkts) : offsetof(struct efa_stats, rx_pkts)) +
	       i % PKT_TYPES * sizeof(uint64_t);
}

static uint64_t stat_value(struct efa_domain *d, size_t i)
{
	uint64_t sum = 0;

	lock_acquire(&d->kit.lock);
	if (i < ARRAY_SIZE(hw_row)) {
		struct efanic_stats hw;

		efanic_query_stats(d->nic, &hw);
		memcpy(&sum, (const char *)&hw + hw_row[i].off, sizeof(sum));
	} else {
		struct efa_ep *ep;
		uint64_t one;

		LIST_FOREACH(ep, &d->eps, domain_link) {
			memcpy(&one, (const char *)&ep->stats + ep_off(i - ARRAY_SIZE(hw_row)), sizeof(one));
			sum += one;
		}
	}
	lock_release(&d->kit.lock);
	return sum;
}

static int stats_read(struct fid_domain *domain, const char *name, uint64_t *value)
{
	char known[NAME_MAX_LEN];
	struct efa_domain *d;

	if (!domain || domain->fid.fclass != FI_CLASS_DOMAIN || !name || !*name || !value)
		return -FI_EINVAL;
	d = container_of(domain, struct efa_domain, kit.fid);
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	for (size_t i = 0; i < STAT_NUM; i++) {
		stat_name(i, known);
		if (!strcmp(known, name)) {
			*value = stat_value(d, i);
			return 0;
		}
	}
	return -FI_ENOENT;
}

static int stats_name(struct fid_domain *domain, size_t index, char *buf, size_t len)
{
	char name[NAME_MAX_LEN];

	if (!domain || !buf)
		return -FI_EINVAL;
	for (size_t i = 0; i < STAT_NUM; i++) {
		stat_name(i, name);
		if (!*name || index--)
			continue;
		if (strlen(name) >= len)
			return -FI_ETOOSMALL;
		memcpy(buf, name, strlen(name) + 1);
		return 0;
	}
	return -FI_ENOENT;
}

static struct fi_softfabric_ops_stats stats_ops = {
	.size = sizeof(struct fi_softfabric_ops_stats),
	.read = stats_read,
	.name = stats_name,
};

int efa_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)flags, (void)context;
	if (!name || !ops)
		return -FI_EINVAL;
	if (!strcmp(name, FI_EFA_DOMAIN_OPS))
		*ops = &domain_ops;
	else if (!strcmp(name, FI_SOFTFABRIC_STATS_OPS))
		*ops = &stats_ops;
	else
		return -FI_EINVAL;
	return 0;
}
