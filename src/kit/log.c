// SPDX-License-Identifier: BSD-2-Clause
// Where log lines of the lower layers go, and which libfabric runs us.
#include <stdarg.h>

#include "base/log.h"

#include "kit/info_int.h"
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

	if (lvl == LOG_LVL_WARN)
		kit_info_warned(g_log_prov, msg);
	if (fi_log_enabled(g_log_prov, level[lvl], FI_LOG_CORE))
		fi_log(g_log_prov, level[lvl], FI_LOG_CORE, func, line, "%s\n", msg);
	errno = saved;
}

void kit_log_init(const struct fi_provider *prov)
{
	g_log_prov = prov;
	log_set_hook(prov ? to_fi_log : NULL);
}

#define SAID_CNT 128

/* Relaxed: a hash says nothing of other memory. A full table forgets nothing, and says all that is new every time. */
static bool is_news(const char *text)
{
	static _Atomic uint64_t said[SAID_CNT];
	uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a */

	for (const char *p = text; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3ULL;
	h |= 1;
	for (unsigned i = 0; i < SAID_CNT; i++) {
		uint64_t old = 0;

		if (atomic_compare_exchange_strong_explicit(&said[(h + i) % SAID_CNT], &old, h, memory_order_relaxed,
							    memory_order_relaxed))
			return true;
		if (old == h)
			return false;
	}
	return true;
}

void kit_warn_once(const struct fi_provider *prov, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!fi_log_enabled(prov, FI_LOG_WARN, FI_LOG_CORE))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (is_news(text))
		KIT_WARN(prov, FI_LOG_CORE, "%s\n", text);
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
