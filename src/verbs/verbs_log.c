// SPDX-License-Identifier: BSD-2-Clause
// Where log lines go: the standard error output, by SOFTFABRIC_VERBS_LOG.
#include <unistd.h>

#include "verbs/verbs_int.h"

static enum log_level g_level = LOG_LVL_WARN;

static void line_out(enum log_level lvl, const char *func, int line, const char *msg)
{
	static const char *const name[LOG_LVL_NUM] = {
		[LOG_LVL_WARN] = "warn", [LOG_LVL_INFO] = "info", [LOG_LVL_DEBUG] = "debug"};
	int err = errno;

	if (lvl <= g_level)
		dprintf(STDERR_FILENO, "softfabric-verbs %s: %s (%s:%d)\n", name[lvl], msg, func, line);
	errno = err;
}

static __attribute__((constructor)) void log_start(void)
{
	const char *word = secure_getenv("SOFTFABRIC_VERBS_LOG");

	if (word && !strcmp(word, "none"))
		return;
	if (word && !strcmp(word, "info"))
		g_level = LOG_LVL_INFO;
	if (word && !strcmp(word, "debug"))
		g_level = LOG_LVL_DEBUG;
	log_set_hook(line_out);
}
