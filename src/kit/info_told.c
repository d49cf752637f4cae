// SPDX-License-Identifier: BSD-2-Clause
// What fi_getinfo() was asked and why it had nothing, as lines for a program: the file that SOFTFABRIC_WHY names.
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"
#include "kit/compat.h"
#include "kit/info_int.h"
#include "kit/kit_int.h"

/*
 * One JSON object per line: each reason as it is found, then the call's end with its result and all of its hints in
 * libfabric's words. `softfabric why` reads them; the log says the same to people.
 */
#define TOLD_ENV  "SOFTFABRIC_WHY"
#define HINTS_MAX 8192
#define ESC_MAX	  (2 * HINTS_MAX)

/* @text as the inside of a JSON string; what has no room is cut off. */
static void escape(const char *text, char *out, size_t len)
{
	size_t at = 0;

	for (; *text && at + 7 < len; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			at += (size_t)snprintf(out + at, len - at, "\\%c", c);
		else if (c < ' ')
			at += (size_t)snprintf(out + at, len - at, "\\u%04x", c);
		else
			out[at++] = (char)c;
	}
	out[at] = '\0';
}

static const char *where(void)
{
	const char *prefix = secure_getenv(TOLD_ENV);

	return prefix && *prefix ? prefix : NULL;
}

/* One write for the whole line, so that those of several threads do not mix. */
static void __printf_like(2, 3) put(const struct fi_provider *prov, const char *fmt, ...)
{
	char path[512];
	va_list ap;
	char *line;
	FILE *f;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&line, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	snprintf(path, sizeof(path), "%s.%ld", where(), (long)getpid());
	f = fopen(path, "ae");
	if (!f)
		kit_warn_once(prov, TOLD_ENV ": %s cannot be written: %s", path, strerror(errno));
	else if (limits_append(fileno(f), (size_t)n))
		fputs(line, f);
	if (f)
		fclose(f);
	free(line);
}

void kit_told_reason(const struct fi_provider *prov, const char *text)
{
	char esc[2 * KIT_WHY_MAX];

	if (!where())
		return;
	escape(text, esc, sizeof(esc));
	put(prov, "{\"thread\":%ld,\"provider\":\"%s\",\"reason\":\"%s\"}\n", syscall(SYS_gettid), prov->name, esc);
}

void kit_told_end(const struct fi_provider *prov, const struct fi_info *hints, const struct kit_why *why, int ret)
{
	char *text, *esc, *first;

	if (!where())
		return;
	text = mem_alloc(HINTS_MAX + ESC_MAX + 2 * KIT_WHY_MAX);
	if (!text)
		return;
	esc = text + HINTS_MAX;
	first = esc + ESC_MAX;
	text[0] = '\0';
	if (hints)
		fi_tostr_r(text, HINTS_MAX, hints, FI_TYPE_INFO);
	escape(text, esc, ESC_MAX);
	escape(why->text, first, 2 * KIT_WHY_MAX);
	put(prov, "{\"thread\":%ld,\"provider\":\"%s\",\"ret\":%d,\"api\":\"%u.%u\",\"why\":\"%s\",\"hints\":\"%s\"}\n",
	    syscall(SYS_gettid), prov->name, ret, (unsigned)FI_MAJOR(why->version), (unsigned)FI_MINOR(why->version),
	    first, esc);
	mem_free(text);
}
