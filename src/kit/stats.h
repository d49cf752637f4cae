// SPDX-License-Identifier: BSD-2-Clause
// Counters of a domain by their names: the operations FI_SOFTFABRIC_STATS_OPS of fi_ext_softfabric.h.
#ifndef SF_KIT_STATS_H
#define SF_KIT_STATS_H

#include "base/stats.h"
#include "fi_ext_softfabric.h"
#include "kit/kit.h"

#define KIT_STAT_NAME 48 /* bytes of a name with its final 0 */

/*
 * Counters of one kind of structure. What a domain has (kit_domain.stats) is an array of them that ends with an empty
 * one; a counter's index counts on from group to group.
 */
struct kit_stats_group {
	const struct stats_row *row; /* [cnt] */
	size_t cnt;
	/*
	 * Without @row: the name of the n-th of @cnt counters that lie one behind the other, into @buf; "": there is
	 * none.
	 */
	void (*name)(size_t n, char buf[KIT_STAT_NAME]);
	/* sum of the counters at @off of all structures. Lock held. */
	uint64_t (*read)(struct kit_domain *d, size_t off);
};

/* What fi_open_ops() of a domain whose stats are set gives. */
extern struct fi_softfabric_ops_stats kit_stats_ops;

#endif
