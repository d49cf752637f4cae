// SPDX-License-Identifier: BSD-2-Clause
// Structures of counters: sums, and the line at an adapter's end.
#include "base/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"

#define REPORT_ENV "SOFTFABRIC_STATS"

uint64_t stats_value(const void *stats, size_t off)
{
	uint64_t v;

	memcpy(&v, (const char *)stats + off, sizeof(v));
	return v;
}

void stats_add(void *sum, const void *more, size_t size)
{
	const uint64_t *from = more;
	uint64_t *to = sum;

	assert(size % sizeof(uint64_t) == 0);
	for (size_t i = 0; i < size / sizeof(uint64_t); i++)
		to[i] += from[i];
}

size_t stats_line(char *buf, size_t len, const char *adapter, const struct stats_row *row, size_t cnt,
		  const void *stats)
{
	char host[64] = "";
	size_t at;

	gethostname(host, sizeof(host) - 1);
	at = (size_t)snprintf(buf, len, "softfabric-stats: adapter=%s pid=%ld host=%s", adapter, (long)getpid(), host);
	for (size_t i = 0; i < cnt && at < len; i++)
		at += (size_t)snprintf(buf + at, len - at, " %s=%" PRIu64, row[i].name, stats_value(stats, row[i].off));
	return MIN(at, len - 1);
}

/* One write for the whole line, so that lines of several processes do not mix. */
void stats_report(const char *line)
{
	const char *where = secure_getenv(REPORT_ENV);
	const bool to_stderr = where && !strcmp(where, "stderr");
	char path[512];
	FILE *f;

	if (!where || !*where)
		return;
	snprintf(path, sizeof(path), "%s.%ld", where, (long)getpid());
	f = to_stderr ? stderr : fopen(path, "ae");
	if (!f) {
		LOG_WARN("%s: %s cannot be written: %s", REPORT_ENV, path, strerror(errno));
		return;
	}
	if (limits_append(fileno(f), strlen(line) + 1))
		fprintf(f, "%s\n", line);
	else
		LOG_WARN("%s: %s would be longer than this process may write (ulimit -f)", REPORT_ENV,
			 to_stderr ? "stderr" : path);
	if (!to_stderr)
		fclose(f);
}
