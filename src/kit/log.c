// SPDX-License-Identifier: BSD-2-Clause
// Where log lines of the lower layers go, and which libfabric runs us.
#include "base/log.h"

#include "kit/kit_int.h"

static const struct fi_provider *g_log_prov;

static void to_fi_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	static const enum fi_log_level level[LOG_LVL_NUM] = {
		[LOG_LVL_WARN] = FI_LOG_WARN,
		[LOG_LVL_INFO] = FI_LOG_INFO,
		[LOG_LVL_DEBUG] = FI_LOG_DEBUG,
	};
	int saved = errno;

	if (fi_log_enabled(g_log_prov, level[lvl], FI_LOG_CORE))
		fi_log(g_log_prov, level[lvl], FI_LOG_CORE, func, line, "%s\n", msg);
	errno = saved;
}

void kit_log_init(const struct fi_provider *prov)
{
	g_log_prov = prov;
	log_set_hook(prov ? to_fi_log : NULL);
}

uint32_t kit_core_version(void)
{
	static _Atomic uint32_t cached; /* relaxed: every thread would store the same value */
	uint32_t v = atomic_load_explicit(&cached, memory_order_relaxed);

	if (!v) {
		v = fi_version();
		atomic_store_explicit(&cached, v, memory_order_relaxed);
	}
	return v;
}
