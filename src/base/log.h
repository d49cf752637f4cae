// SPDX-License-Identifier: BSD-2-Clause
// Log lines of the layers below libfabric; the kit points the hook at fi_log, tests at a buffer. Default: silent.
#ifndef SF_BASE_LOG_H
#define SF_BASE_LOG_H

#include "base/base.h"

enum log_level { LOG_LVL_WARN, LOG_LVL_INFO, LOG_LVL_DEBUG, LOG_LVL_NUM };

typedef void (*log_hook_fn)(enum log_level lvl, const char *func, int line, const char *msg);

/** log_set_hook() - Where lines go from now on; NULL silences. Process-wide. */
void log_set_hook(log_hook_fn fn);
void log_line(enum log_level lvl, const char *func, int line, const char *fmt, ...) __printf_like(4, 5);

#define LOG_WARN(...)  log_line(LOG_LVL_WARN, __func__, __LINE__, __VA_ARGS__)
#define LOG_INFO(...)  log_line(LOG_LVL_INFO, __func__, __LINE__, __VA_ARGS__)
#define LOG_DEBUG(...) log_line(LOG_LVL_DEBUG, __func__, __LINE__, __VA_ARGS__)

/**
 * LOG_FEW() - What peers can cause as often as they like: @cnt_, of one object and under its lock, counts the lines
 * that were said.
 */
#define LOG_FEW_MAX 8
#define LOG_FEW(lvl_, cnt_, fmt_, ...)                                                             \
	do {                                                                                       \
		if ((cnt_) < LOG_FEW_MAX)                                                          \
			log_line(lvl_, __func__, __LINE__, fmt_ "%s", __VA_ARGS__,                 \
				 ++(cnt_) == LOG_FEW_MAX ? " (more of these are not said)" : "");  \
	} while (0)

#endif
