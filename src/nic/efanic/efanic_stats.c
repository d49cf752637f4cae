// SPDX-License-Identifier: BSD-2-Clause
// hw_counters: what a queue pair counts itself, and what follows from that and from its port's
// counts.
#include "nic/efanic/efanic_int.h"

void efanic_stats_add(struct efanic_stats *sum, const struct efanic_stats *more)
{
	stats_add(sum, more, sizeof(*sum));
}

static uint64_t pkts_of(uint64_t bytes, uint32_t mtu)
{
	return DIV_ROUND_UP(bytes, mtu);
}

void efanic_stats_derive(const struct efanic_qp *qp, const struct link_stats *link,
			 struct efanic_stats *out)
{
	*out = qp->stats;
	/* RDMA data counts as the packets of this adapter's MTU that hardware would have cut it
	 * into. */
	out->tx_bytes = out->send_bytes + out->rdma_write_bytes;
	out->tx_pkts = out->send_wrs + out->rdma_read_wrs + pkts_of(out->rdma_write_bytes, qp->mtu);
	out->rx_bytes = out->recv_bytes + out->rdma_read_bytes;
	out->rx_pkts = out->recv_wrs + pkts_of(out->rdma_read_bytes, qp->mtu);
	out->retrans_pkts = link->retrans;
	out->retrans_timeout_events = link->timeouts;
	out->impaired_remote_conn_events = link->peers_dead;
	out->peers_closed = link->peers_closed;
	out->malformed = 0;
	for (unsigned i = EFANIC_DROP_NONE + 1; i < EFANIC_DROP_NUM; i++)
		out->malformed += qp->drops[i];
	out->shm_tx_pkts = link->shm_tx_frames;
	out->net_tx_pkts = link->tx_frames - MIN(link->tx_frames, link->shm_tx_frames);
	out->net_tx_dgrams = link->net_tx_dgrams;
	out->net_rx_dgrams = link->net_rx_dgrams;
	out->net_rx_dups = link->dup_rx;
	out->net_rx_drops = link->drop_malformed + link->drop_nonce + link->drop_source + link->drop_version +
			    link->drop_full + link->drop_seal + link->drop_hello;
	out->net_rx_late_byes = link->late_byes;
	out->fault_drop = link->fault_drop;
	out->fault_dup = link->fault_dup;
	out->fault_reorder = link->fault_reorder;
	out->fault_delay = link->fault_delay;
	out->fault_corrupt = link->fault_corrupt;
	out->fault_truncate = link->fault_truncate;
	out->fault_partition = link->fault_partition;
}

void efanic_qp_query_stats(const struct efanic_qp *qp, struct efanic_stats *out)
{
	efanic_stats_derive(qp, link_port_stats(qp->port), out);
}

void efanic_query_stats(const struct efanic *nic, struct efanic_stats *out)
{
	struct efanic_stats one;

	lock_assert_held(nic->lock);
	*out = nic->closed;
	/* regions belong to the adapter, not to a queue pair */
	link_node_served(nic->node, &out->rdma_read_resp_bytes, &out->rdma_write_recv_bytes);
	for (const struct efanic_qp *qp = nic->qps; qp; qp = qp->next) {
		efanic_qp_query_stats(qp, &one);
		efanic_stats_add(out, &one);
	}
}

#define ROW(name_) {#name_, offsetof(struct efanic_stats, name_)}
const struct stats_row efanic_stat_row[] = {
	ROW(tx_bytes), ROW(tx_pkts), ROW(rx_bytes), ROW(rx_pkts), ROW(rx_drops),
	ROW(send_bytes), ROW(send_wrs), ROW(recv_bytes), ROW(recv_wrs),
	ROW(rdma_read_wrs), ROW(rdma_read_bytes), ROW(rdma_read_wr_err), ROW(rdma_read_resp_bytes),
	ROW(rdma_write_wrs), ROW(rdma_write_bytes), ROW(rdma_write_wr_err),
	ROW(rdma_write_recv_bytes), ROW(retrans_pkts), ROW(retrans_timeout_events),
	ROW(unresponsive_remote_events), ROW(impaired_remote_conn_events), ROW(rnr_naks_rx),
	ROW(rnr_naks_tx), ROW(qkey_violations), ROW(malformed), ROW(shm_tx_pkts), ROW(net_tx_pkts),
	ROW(net_tx_dgrams), ROW(net_rx_dgrams), ROW(net_rx_dups), ROW(net_rx_drops),
	ROW(net_rx_late_byes), ROW(peers_closed),
	ROW(fault_drop), ROW(fault_dup), ROW(fault_reorder), ROW(fault_delay), ROW(fault_corrupt), ROW(fault_truncate),
	ROW(fault_partition),
};

void efanic_stats_report(const struct efanic *nic)
{
	struct efanic_stats sum;

	efanic_query_stats(nic, &sum);
	stats_report(nic->attr.name, efanic_stat_row, ARRAY_SIZE(efanic_stat_row), &sum);
}

size_t efanic_stats_tell(void *ctx, char *buf, size_t len)
{
	const struct efanic *nic = ctx;
	struct efanic_stats sum;

	efanic_query_stats(nic, &sum);
	return stats_line(buf, len, nic->attr.name, efanic_stat_row, ARRAY_SIZE(efanic_stat_row), &sum);
}

const char *efanic_status_str(unsigned status)
{
	static const char *const text[EFANIC_STATUS_NUM] = {
		[EFANIC_OK] = "Success",
		[EFANIC_FLUSHED] = "Flushed: the queue pair was closed or in error",
		[EFANIC_LOCAL_QP_INTERNAL] = "Internal error of the queue pair",
		[EFANIC_LOCAL_UNSUPPORTED_OP] = "Operation not supported by this adapter",
		[EFANIC_LOCAL_INVALID_AH] = "Address handle was closed",
		[EFANIC_LOCAL_INVALID_LKEY] = "Local key does not cover the buffer",
		[EFANIC_LOCAL_BAD_LENGTH] = "Message longer than the adapter allows",
		[EFANIC_REMOTE_BAD_ADDRESS] = "Remote key, range or access right is wrong",
		[EFANIC_REMOTE_ABORT] = "Peer closed its queue pair while traffic was under way",
		[EFANIC_REMOTE_BAD_DEST_QPN] =
			"No ready queue pair with that number and Q_Key at the peer",
		[EFANIC_REMOTE_RNR] = "Peer had no receive posted and the retries are used up",
		[EFANIC_REMOTE_BAD_LENGTH] = "Peer's receive buffer is too short",
		[EFANIC_REMOTE_BAD_STATUS] = "Peer answered with a status that makes no sense",
		[EFANIC_LOCAL_UNRESP_REMOTE] = "Peer stopped answering",
		[EFANIC_REMOTE_UNKNOWN_PEER] = "Peer does not know this adapter",
		[EFANIC_LOCAL_UNREACH_REMOTE] = "Peer never answered",
		[EFANIC_REMOTE_FEATURE_MISMATCH] =
			"Peer's adapter lacks a feature or speaks another version",
	};

	return status < EFANIC_STATUS_NUM && text[status] ? text[status] : "Unknown status";
}
