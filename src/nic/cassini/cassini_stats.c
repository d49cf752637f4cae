// SPDX-License-Identifier: BSD-2-Clause
// Counters of an adapter, by their telemetry names.
#include "nic/cassini/cassini_int.h"

/*
 * Blocks of the adapter: cq commands, ixe arrivals, lpe list processing, ee events, rmu portals. It numbers the
 * counters of its parallel engines; here is one of each, 0. What begins with soft_ is counted here only, or not in the
 * same way there.
 */
#define ROW(name_, member_) {name_, offsetof(struct cassini_stats, member_)}
const struct stats_row cassini_stat_row[] = {
	ROW("cq_success_tx_cntr", tx_cmds),
	ROW("cq_num_idc_cmds_0", idc),
	ROW("soft_put_cmds", puts),
	ROW("soft_get_cmds", gets),
	ROW("soft_rendezvous_put_cmds", rendezvous),
	ROW("soft_atomic_cmds", atomics),
	ROW("soft_fetching_atomic_cmds", fetching_atomics),
	ROW("soft_triggered_cmds", triggered),
	ROW("soft_triggered_cancelled", triggered_cancelled),
	ROW("soft_tx_bytes", tx_bytes),
	ROW("soft_rx_bytes", rx_bytes),
	ROW("ixe_rx_ptl_unrestricted_pkt", rx_unrestricted_pkts),
	ROW("ixe_rx_ptl_restricted_pkt", rx_restricted_pkts),
	ROW("lpe_plec_hits", plec_hits),
	ROW("lpe_net_match_priority_0", priority_hits),
	ROW("lpe_net_match_overflow_0", overflow_hits),
	ROW("lpe_net_match_request_0", request_hits),
	ROW("soft_ule_appends", ule_appends),
	ROW("lpe_rndzv_puts_offloaded_0", rgets),
	ROW("soft_pte_disabled", pte_disabled),
	ROW("soft_pt_disabled_naks", pt_disabled_naks),
	ROW("lpe_err_pt_disabled_no_match_in_overflow", no_match_drops),
	ROW("lpe_err_pt_disabled_req_empty", request_full),
	ROW("soft_le_exhausted", le_exhausted),
	ROW("lpe_err_pt_disabled_eq_full", eq_full),
	ROW("ee_events_dropped_ordinary_cntr_0", events_dropped),
	ROW("rmu_ptl_invld_vni_cntr", vni_not_found),
	ROW("rmu_ptl_no_ptlte_cntr", ptlte_not_found),
	ROW("lpe_err_entry_not_found_no_match_in_overflow", entry_not_found),
	ROW("lpe_err_op_violation", op_violation),
	ROW("soft_malformed", malformed),
	ROW("soft_bad_initiator", bad_initiator),
	ROW("soft_unreachable", unreachable),
	ROW("soft_net_retrans", net_retrans),
	ROW("soft_net_rx_dups", net_rx_dups),
	ROW("soft_peers_dead", peers_dead),
	ROW("soft_bulk_bytes", bulk_bytes),
	ROW("soft_lossless_pauses", lossless_pauses),
	ROW("soft_owed_busy", owed_busy),
	ROW("soft_owed_ended", owed_ended),
	NIC_NET_ROWS("soft_", struct cassini_stats, net),
};

/* Every counter that the link keeps for us. */
static void derive(const struct link_stats *link, struct cassini_stats *out)
{
	out->net_retrans = link->retrans;
	out->net_rx_dups = link->dup_rx;
	out->peers_dead = link->peers_dead;
	out->bulk_bytes = link->bulk_get_bytes + link->bulk_put_bytes;
	nic_net_stats(link, &out->net);
}

void cassini_query_stats(const struct cassini *nic, struct cassini_stats *out)
{
	struct link_stats link = nic->closed;
	const struct cassini_dom *dom;

	LIST_FOREACH(dom, &nic->doms, link)
		stats_add(&link, link_port_stats(dom->port), sizeof(link));
	*out = nic->stats;
	out->tx_cmds = out->puts + out->gets + out->rendezvous + out->atomics + out->fetching_atomics;
	derive(&link, out);
}

size_t cassini_stats_tell(void *ctx, char *buf, size_t len)
{
	const struct cassini *nic = ctx;
	struct cassini_stats stats;

	cassini_query_stats(nic, &stats);
	return stats_line(buf, len, nic->info.name, cassini_stat_row, ARRAY_SIZE(cassini_stat_row), &stats);
}
