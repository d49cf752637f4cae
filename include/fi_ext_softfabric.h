/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What softfabric offers beyond the providers it stands in for: counters of the soft adapter, so that a program can
 * tell what ran.
 */
#ifndef FI_EXT_SOFTFABRIC_H
#define FI_EXT_SOFTFABRIC_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>

/*
 * fi_open_ops(&domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&ops, NULL) gives a struct fi_softfabric_ops_stats.
 * All counters only grow. Names of the efa provider:
 *
 *   tx_bytes, rdma_read_wrs ...  the adapter's hw_counters under their documented names, over all queue pairs of the
 *                                domain's adapter, closed ones included; and shm_tx_pkts, net_tx_pkts: frames sent by
 *                                shared memory and by the network path
 *   net_tx_dgrams, fault_drop ... the soft network's: datagrams out and in, those that came twice (net_rx_dups) or were
 *                                refused at the door (net_rx_drops); goodbyes that came after all was over
 *                                (net_rx_late_byes), peers that closed (peers_closed): both are how jobs end; and how
 *                                many the conditions of SOFTFABRIC_NET hit: fault_drop, _dup, _reorder, _delay,
 *                                _corrupt, _truncate, _partition
 *   tx_pkts.EAGER_TAGRTM ...     packets sent, by protocol packet type, over the domain's open RDM endpoints; also
 *                                RDMA_READ and RDMA_WRITE, the work requests of the adapter's own RDMA
 *   rx_pkts.EAGER_TAGRTM ...     packets received
 *   drop.SHORT ...               packets thrown away at the protocol's door, by reason; and drop.unknown_peer,
 *                                drop.stale_id, drop.duplicate
 *   rnr_queued, implicit_peers   sends that waited for a receiver that was not ready; senders that no one had inserted
 *
 * Names of the cxi provider; the index of a counter is also its number for cntr_read() of fi_cxi_ext.h:
 *
 *   soft_put_cmds, soft_ule_appends ... the adapter's under their telemetry names, over all endpoints, closed ones
 *                                included; soft_...: of the soft network
 *   fc_eq_full, fc_no_match, fc_unexp, fc_req_full   why receive contexts went into flow control, and how often
 *   sw_transitions               receive contexts that went to matching in software
 *
 * Names of the opx provider, over all endpoints of the domain, closed ones included:
 *
 *   pio_pkts, sdma_bytes ...     the adapter's: packets sent and received, what was dropped at its door (drop_jkey,
 *                                drop_uuid ...), shm_tx_pkts and net_tx_pkts, and the soft network's as above
 *   tx_inject, tx_eager, tx_mp, tx_rzv, tx_rzv_local ...  messages by protocol, sent (tx_) and received (rx_): inject,
 *                                eager, multi-packet eager, rendezvous between hosts and by a copy on this one;
 *                                rx_unexpected; rx_stale and rx_malformed packets
 *   rel_replays, rel_nacks_tx ... the reliability's packets: sent again, PING, ACK, NACK, handshakes
 */
#define FI_SOFTFABRIC_STATS_OPS "softfabric stats"

struct fi_softfabric_ops_stats {
	size_t size; /* of this struct, so that it can grow */
	/* 0; -FI_ENOENT no such counter; -FI_EINVAL. */
	int (*read)(struct fid_domain *domain, const char *name, uint64_t *value);
	/* Name of counter @index, 0 up to the first -FI_ENOENT, into @buf; 0; -FI_ETOOSMALL; -FI_EINVAL. */
	int (*name)(struct fid_domain *domain, size_t index, char *buf, size_t len);
};

#endif
