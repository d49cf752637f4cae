// SPDX-License-Identifier: BSD-2-Clause
// Which HFI a context is opened on: FI_OPX_HFI_SELECT, and the default logic. Source:
// doc/facts/opx.md#choice-of-a-unit, #hfi_select.
#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "prov/opx/opx.h"

enum kind { SEL_DEFAULT, SEL_FIXED, SEL_NUMA, SEL_CORE };
struct selector {
	enum kind kind;
	int unit, first, last;
};

struct parse {
	const char *at;  /* not read yet */
	char *err;
	size_t err_len;
};

static int fail(const struct parse *p, int code, const char *fmt, ...) __printf_like(3, 4);

static int fail(const struct parse *p, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->err, p->err_len, fmt, ap);
	va_end(ap);
	return code;
}

/* --- syntax -------------------------------------------------------------------------------------- */

static bool take(struct parse *p, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(p->at, word, len))
		return false;
	p->at += len;
	return true;
}

/* Digits only: no sign, no blank. What is larger than any unit, node or core stays so. */
static bool take_number(struct parse *p, int *out)
{
	int v = 0;

	if (!isdigit((unsigned char)*p->at))
		return false;
	for (; isdigit((unsigned char)*p->at); p->at++)
		v = v > INT_MAX / 10 - 1 ? INT_MAX / 10 : v * 10 + (*p->at - '0');
	*out = v;
	return true;
}

static bool take_data(struct parse *p, struct selector *s)
{
	if (!take(p, ":") || !take_number(p, &s->first))
		return false;
	s->last = s->first;
	return !take(p, "-") || (take_number(p, &s->last) && s->first <= s->last);
}

/* One selector, up to a comma or the end. */
static bool take_selector(struct parse *p, struct selector *s)
{
	bool ok;

	*s = (struct selector){0};
	if (take(p, "default")) {
		s->kind = SEL_DEFAULT;
		ok = true;
	} else if (take(p, "fixed:")) {
		s->kind = SEL_FIXED;
		ok = take_number(p, &s->unit);
	} else if (take(p, "numa:")) {
		s->kind = SEL_NUMA;
		ok = take_number(p, &s->unit) && take_data(p, s);
	} else if (take(p, "core:")) {
		s->kind = SEL_CORE;
		ok = take_number(p, &s->unit) && take_data(p, s);
	} else {
		return false;
	}
	return ok && (!*p->at || *p->at == ',');
}

static int syntax_check(const char *text, struct parse *p)
{
	struct selector s;

	if (!*text || strlen(text) >= KIT_PARAM_TEXT)
		return fail(p, -FI_EINVAL, "it is empty or longer than %d characters", KIT_PARAM_TEXT - 1);
	p->at = text;
	if (take_number(p, &s.unit) && !*p->at)
		return 0;
	p->at = text;
	for (;;) {
		const char *begin = p->at;

		if (!take_selector(p, &s))
			return fail(
				p, -FI_EINVAL,
				"\"%.64s\" is no selector: expected a unit number alone, or a list of default, "
				"fixed:<unit>, "
				"numa:<unit>:<node>[-<node>], core:<unit>:<core>[-<core>]",
				begin);
		if (!*p->at)
			return 0;
		p->at++; /* the comma */
	}
}

/* --- meaning ------------------------------------------------------------------------------------- */

static int unit_check(const struct parse *p, const struct hfi_unit_attr *units, int cnt, int unit)
{
	static const char *const state[] = {"not present", "DOWN", "INIT", "ARMED", "ACTIVE"};

	for (int i = 0; i < cnt; i++) {
		if (units[i].unit != unit)
			continue;
		if (units[i].state == HFI_PORT_ACTIVE)
			return 0;
		return fail(p, -FI_ENODEV, "unit %d is %s, not ACTIVE", unit,
			    state[(size_t)units[i].state < ARRAY_SIZE(state) ? units[i].state : 0]);
	}
	return fail(p, -FI_ENODEV, "there is no unit %d: this host has %d", unit, cnt);
}

/* Does @s match a caller at @w? 1, 0; -errno: it names what there is not, whoever asks. */
static int selector_match(const struct parse *p, const struct selector *s, const struct opx_where *w,
			  const struct hfi_unit_attr *units, int cnt)
{
	int ret = s->kind == SEL_DEFAULT ? 0 : unit_check(p, units, cnt, s->unit);

	if (ret)
		return ret;
	switch (s->kind) {
	case SEL_DEFAULT:
	case SEL_FIXED:
		return 1;
	case SEL_NUMA:
		if (s->last > MAX(w->numa_max, 0))
			return fail(p, -FI_EINVAL, "there is no NUMA node %d: the highest is %d", s->last,
				    MAX(w->numa_max, 0));
		return s->first <= MAX(w->numa_node, 0) && MAX(w->numa_node, 0) <= s->last;
	case SEL_CORE:
		if (s->last >= w->cpu_cnt)
			return fail(p, -FI_EINVAL, "there is no core %d: this host has %d", s->last, w->cpu_cnt);
		return s->first <= w->cpu && w->cpu <= s->last;
	}
	must(0);
}

int opx_select_unit(const char *text, const struct opx_where *w, const struct hfi_unit_attr *units, int cnt, char *err,
		    size_t err_len)
{
	struct parse p = {.err = err, .err_len = err_len};
	struct selector s;
	int ret = syntax_check(text, &p);

	if (ret)
		return ret;
	p.at = text;
	if (take_number(&p, &s.unit)) {
		ret = unit_check(&p, units, cnt, s.unit);
		return ret ? ret : s.unit;
	}
	for (p.at = text; take_selector(&p, &s); p.at += *p.at == ',') {
		ret = selector_match(&p, &s, w, units, cnt);
		if (ret)
			return ret < 0 ? ret : s.kind == SEL_DEFAULT ? OPX_UNIT_DEFAULT : s.unit;
	}
	return fail(&p, -FI_ENODEV, "no selector matches a caller on core %d, NUMA node %d", w->cpu, w->numa_node);
}

/* --- the default logic --------------------------------------------------------------------------- */

/* Where nothing is known, everything is near. */
static bool is_far(const struct opx_where *w, const struct hfi_unit_attr *u)
{
	return w->numa_node >= 0 && u->numa_node >= 0 && w->numa_node != u->numa_node;
}

int opx_select_default(const struct opx_where *w, const struct hfi_unit_attr *units, const int *free, int cnt,
		       int first, int *order)
{
	bool used[HFI_UNIT_MAX] = {false};
	int n = 0;

	for (;;) {
		int best = -1;

		for (int i = 0; i < cnt; i++) {
			if (used[i] || units[i].state != HFI_PORT_ACTIVE)
				continue;
			if (units[i].unit == first) {
				best = i;
				break;
			}
			if (best < 0 || is_far(w, &units[i]) < is_far(w, &units[best]) ||
			    (is_far(w, &units[i]) == is_far(w, &units[best]) && free[i] > free[best]))
				best = i;
		}
		if (best < 0)
			return n;
		used[best] = true;
		order[n++] = units[best].unit;
	}
}

/* The highest number in a list such as "0-3,8". */
static int list_max(const char *path)
{
	FILE *f = fopen(path, "re");
	char text[256];
	int max = -1;

	if (!f)
		return -1;
	if (fgets(text, sizeof(text), f)) {
		for (char *p = text; *p;) {
			if (isdigit((unsigned char)*p))
				max = MAX(max, (int)strtol(p, &p, 10));
			else
				p++;
		}
	}
	fclose(f);
	return max;
}

void opx_where_now(struct opx_where *w)
{
	unsigned cpu = 0, node = 0;

	*w = (struct opx_where){.numa_node = -1, .numa_max = -1};
	if (!getcpu(&cpu, &node)) {
		w->cpu = (int)cpu;
		w->numa_node = (int)node;
	}
	w->cpu_cnt = MAX((int)sysconf(_SC_NPROCESSORS_CONF), w->cpu + 1);
	w->numa_max = MAX(list_max("/sys/devices/system/node/online"), w->numa_node);
}
