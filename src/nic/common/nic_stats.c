// SPDX-License-Identifier: BSD-2-Clause
// From the link's counters to those that an adapter shows, and the line at its end.
#include "nic/common/nic_stats.h"

#include "link/link.h"

void nic_net_stats(const struct link_stats *link, struct nic_net_stats *out)
{
	*out = (struct nic_net_stats){
		.shm_tx_pkts = link->tx_frames - link->net_tx_frames,
		.net_tx_pkts = link->net_tx_frames,
		.net_tx_dgrams = link->net_tx_dgrams,
		.net_rx_dgrams = link->net_rx_dgrams,
		.net_rx_drops = link->drop_malformed + link->drop_nonce + link->drop_source + link->drop_version +
				link->drop_full + link->drop_seal + link->drop_hello,
		.net_rx_late_byes = link->late_byes,
		.peers_closed = link->peers_closed,
		.fault_drop = link->fault_drop,
		.fault_dup = link->fault_dup,
		.fault_reorder = link->fault_reorder,
		.fault_delay = link->fault_delay,
		.fault_corrupt = link->fault_corrupt,
		.fault_truncate = link->fault_truncate,
		.fault_partition = link->fault_partition,
	};
}

void nic_stats_end(const struct link_node *node, struct lock *lock, size_t (*tell)(void *ctx, char *buf, size_t len),
		   void *ctx)
{
	char line[STATS_LINE_MAX];

	if (link_forked(node))
		return;
	lock_acquire(lock);
	tell(ctx, line, sizeof(line));
	lock_release(lock);
	stats_report(line);
}
