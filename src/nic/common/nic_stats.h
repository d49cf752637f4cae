// SPDX-License-Identifier: BSD-2-Clause
// What every adapter counts of the soft network below it, and the line of counters at its end.
#ifndef SF_NIC_COMMON_NIC_STATS_H
#define SF_NIC_COMMON_NIC_STATS_H

#include "base/lock.h"
#include "base/stats.h"

struct link_node;
struct link_stats;

/* A member of each kind's counters; nothing but counters. */
struct nic_net_stats {
	uint64_t shm_tx_pkts, net_tx_pkts;     /* which path carried the frames */
	uint64_t net_tx_dgrams, net_rx_dgrams;
	uint64_t net_rx_drops;                 /* datagrams that were no business of ours */
	uint64_t net_rx_late_byes, peers_closed; /* goodbyes when all was over; peers that said goodbye */
	/* what the room did to datagrams */
	uint64_t fault_drop, fault_dup, fault_reorder, fault_delay, fault_corrupt, fault_truncate, fault_partition;
};

/* Their names, one row for each: @prefix_ before each name, @net_ the member of @type_ that they are. */
#define NIC_NET_ROW(prefix_, type_, net_, name_) {prefix_ #name_, offsetof(type_, net_.name_)}
#define NIC_NET_ROWS(prefix_, type_, net_)                                                                             \
	NIC_NET_ROW(prefix_, type_, net_, shm_tx_pkts), NIC_NET_ROW(prefix_, type_, net_, net_tx_pkts),                \
	NIC_NET_ROW(prefix_, type_, net_, net_tx_dgrams), NIC_NET_ROW(prefix_, type_, net_, net_rx_dgrams),            \
	NIC_NET_ROW(prefix_, type_, net_, net_rx_drops), NIC_NET_ROW(prefix_, type_, net_, net_rx_late_byes),          \
	NIC_NET_ROW(prefix_, type_, net_, peers_closed), NIC_NET_ROW(prefix_, type_, net_, fault_drop),                \
	NIC_NET_ROW(prefix_, type_, net_, fault_dup), NIC_NET_ROW(prefix_, type_, net_, fault_reorder),                \
	NIC_NET_ROW(prefix_, type_, net_, fault_delay), NIC_NET_ROW(prefix_, type_, net_, fault_corrupt),              \
	NIC_NET_ROW(prefix_, type_, net_, fault_truncate), NIC_NET_ROW(prefix_, type_, net_, fault_partition)

/** nic_net_stats() - They follow from a port's counters, or from a sum of several ports'. */
void nic_net_stats(const struct link_stats *link, struct nic_net_stats *out);

/**
 * nic_stats_end() - The adapter on @node is about to close: its line of counters, if SOFTFABRIC_STATS asks for one.
 * Nothing in a child of the process that opened it, whose lock may be held for ever. Not under the lock.
 * @tell: makes the line of @ctx, under @lock, as link_node_attr.tell.
 */
void nic_stats_end(const struct link_node *node, struct lock *lock, size_t (*tell)(void *ctx, char *buf, size_t len),
		   void *ctx);

#endif
