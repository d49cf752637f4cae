// SPDX-License-Identifier: BSD-2-Clause
// hw_counters: what a queue pair counts itself, and what follows from that and from its port's
// counts.
#include "nic/efanic/efanic_int.h"

static uint64_t pkts_of(uint64_t bytes, uint32_t mtu)
{
	return DIV_ROUND_UP(bytes, mtu);
}

void efanic_stats_derive(const struct efanic_qp *qp, const struct link_stats *link,
			 struct efanic_stats *out)
{
	*out = qp->stats;
	out->send_wrs = qp->sent_cnt;
	out->send_bytes = qp->sent_bytes;
	out->recv_wrs = qp->taken_cnt;
	out->recv_bytes = qp->taken_bytes;
	/* RDMA data counts as the packets of this adapter's MTU that hardware would have cut it
	 * into. */
	out->tx_bytes = out->send_bytes + out->rdma_write_bytes;
	out->tx_pkts = out->send_wrs + out->rdma_read_wrs + pkts_of(out->rdma_write_bytes, qp->mtu);
	out->rx_bytes = out->recv_bytes + out->rdma_read_bytes;
	out->rx_pkts = out->recv_wrs + pkts_of(out->rdma_read_bytes, qp->mtu);
	out->retrans_pkts = link->retrans;
	out->retrans_timeout_events = link->timeouts;
	out->impaired_remote_conn_events = link->peers_dead;
	out->malformed = 0;
	for (unsigned i = EFANIC_DROP_NONE + 1; i < EFANIC_DROP_NUM; i++)
		out->malformed += qp->drops[i];
	out->net_rx_dups = link->dup_rx;
	nic_net_stats(link, &out->net);
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
		stats_add(out, &one, sizeof(one));
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
	ROW(rnr_naks_tx), ROW(qkey_violations), ROW(malformed), ROW(net_rx_dups),
	NIC_NET_ROWS("", struct efanic_stats, net),
};

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
