// SPDX-License-Identifier: BSD-2-Clause
// Structures of counters: their sums, and the line that SOFTFABRIC_STATS asks for when an adapter closes.
#ifndef SF_BASE_STATS_H
#define SF_BASE_STATS_H

#include "base/base.h"

/* One counter, a uint64_t, of a structure that has nothing else. */
struct stats_row {
	const char *name;
	size_t off;
};

#define STATS_LINE_MAX 4096 /* bytes of any line that there is, with the final 0 */

/** stats_value() - The counter at @off of @stats. */
uint64_t stats_value(const void *stats, size_t off);

/** stats_add() - Add each counter of @more to that of @sum; @size of the structures, bytes. */
void stats_add(void *sum, const void *more, size_t size);

/**
 * stats_line() - The line of all counters of an adapter, without a newline, cut where @buf ends.
 * @adapter: its name. @row: [@cnt] counters of @stats.   Return: characters in @buf.
 */
size_t stats_line(char *buf, size_t len, const char *adapter, const struct stats_row *row, size_t cnt,
		  const void *stats);

/**
 * stats_report() - @line, of stats_line(), where SOFTFABRIC_STATS wants it: "stderr", or a prefix of the file
 * <prefix>.<pid> to append to. Unset: nowhere.
 */
void stats_report(const char *line);

#endif
