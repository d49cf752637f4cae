// SPDX-License-Identifier: BSD-2-Clause
// The log hook and the formatting in front of it; a line costs one load while nobody listens.
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>

#define LOG_MSG_MAX 1024 /* bytes with the final 0; longer messages are cut */

static _Atomic(log_hook_fn) g_log_hook;

void log_set_hook(log_hook_fn fn)
{
	/* release; pairs with the acquire in log_line(): what @fn uses is ready before it runs */
	atomic_store_explicit(&g_log_hook, fn, memory_order_release);
}

void log_line(enum log_level lvl, const char *func, int line, const char *fmt, ...)
{
	log_hook_fn hook = atomic_load_explicit(&g_log_hook, memory_order_acquire);
	char msg[LOG_MSG_MAX];
	va_list ap;

	if (!hook)
		return;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	hook(lvl, func, line, msg);
}
