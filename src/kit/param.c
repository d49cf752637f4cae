// SPDX-License-Identifier: BSD-2-Clause
// Parameters FI_<PROV>_<NAME>: declared to libfabric for fi_info -e, parsed here, because its own
// parser takes "12k" for 12.
#include <ctype.h>
#include <strings.h>

#include "kit/kit_int.h"

#define ENV_MAX 128

static struct fi_provider *unconst(const struct fi_provider *prov)
{
	return (struct fi_provider *)prov; /* fi_param_get() only compares the pointer */
}

static void env_name(const struct fi_provider *prov, const char *name, char *buf, size_t len)
{
	snprintf(buf, len, "FI_%s_%s", prov->name, name);
	for (char *p = buf; *p; p++)
		*p = (char)toupper((unsigned char)*p);
}

void kit_params_define(const struct fi_provider *prov, const struct kit_param *tab, size_t cnt)
{
	static const enum fi_param_type type[] = {
		[KIT_BOOL] = FI_PARAM_BOOL,
		[KIT_INT] = FI_PARAM_INT,
		[KIT_SIZE] = FI_PARAM_SIZE_T,
		[KIT_STRING] = FI_PARAM_STRING,
		[KIT_FLAG] = FI_PARAM_INT,
	};

	for (size_t i = 0; i < cnt; i++)
		fi_param_define(prov, tab[i].name, type[tab[i].type], "%s", tab[i].help);
}

static bool bool_parse(const char *text, bool *out)
{
	static const char *const no[] = {"0", "false", "no", "off"};
	static const char *const yes[] = {"1", "true", "yes", "on"};

	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		if (!strcasecmp(text, no[i]) || !strcasecmp(text, yes[i])) {
			*out = !strcasecmp(text, yes[i]);
			return true;
		}
	}
	return false;
}

static bool is_number(const char *text)
{
	return isdigit((unsigned char)text[*text == '-' || *text == '+']);
}

static bool in_range(const struct kit_param *p, int64_t v)
{
	return p->min == p->max || (v >= p->min && v <= p->max);
}

static bool int_parse(const struct kit_param *p, const char *text, int64_t *out)
{
	char *end;
	int64_t v;

	if (!is_number(text))
		return false;
	errno = 0;
	v = strtoll(text, &end, 0);
	if (errno || *end || !in_range(p, v))
		return false;
	*out = v;
	return true;
}

static bool size_parse(const struct kit_param *p, const char *text, size_t *out)
{
	unsigned long long v;
	char *end;

	if (!is_number(text) || *text == '-')
		return false;
	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || *end || v > SIZE_MAX)
		return false;
	if (p->min != p->max && (v > INT64_MAX || !in_range(p, (int64_t)v)))
		return false;
	*out = (size_t)v;
	return true;
}

static bool flag_parse(const struct kit_param *p, const char *text, bool *out)
{
	int64_t v;

	if (bool_parse(text, out))
		return true;
	if (!int_parse(p, text, &v))
		return false;
	*out = v;
	return true;
}

static size_t str_room(const struct kit_param *p)
{
	return p->max ? (size_t)p->max : KIT_PARAM_STR;
}

static bool str_parse(const struct kit_param *p, const char *text, char *out)
{
	size_t len = strlen(text);

	if (len >= str_room(p))
		return false;
	memcpy(out, text, len + 1);
	return true;
}

static bool value_parse(const struct kit_param *p, const char *text, void *out)
{
	void *dst = (uint8_t *)out + p->off;

	switch (p->type) {
	case KIT_BOOL:
		return bool_parse(text, dst);
	case KIT_INT:
		return int_parse(p, text, dst);
	case KIT_SIZE:
		return size_parse(p, text, dst);
	case KIT_STRING:
		return str_parse(p, text, dst);
	case KIT_FLAG:
		return flag_parse(p, text, dst);
	}
	must(0);
}

static void refuse(const struct fi_provider *prov, const struct kit_param *p, const char *text)
{
	char env[ENV_MAX], expect[96];

	if (p->type == KIT_BOOL)
		snprintf(expect, sizeof(expect), "1, true, yes, on, 0, false, no or off");
	else if (p->type == KIT_STRING)
		snprintf(expect, sizeof(expect), "at most %zu bytes", str_room(p) - 1);
	else if (p->type == KIT_FLAG)
		snprintf(expect, sizeof(expect), "a whole number, or yes or no");
	else if (p->min != p->max)
		snprintf(expect, sizeof(expect), "a whole number from %lld to %lld",
			 (long long)p->min, (long long)p->max);
	else
		snprintf(expect, sizeof(expect), "a whole number%s",
			 p->type == KIT_SIZE ? ", not negative" : "");
	env_name(prov, p->name, env, sizeof(env));
	kit_warn_once(prov, "%s=\"%.256s\" is ignored: expected %s", env, text, expect);
}

/*
 * What libfabric's own configuration file says (from 2.0 on); it hands out parsed values only, so
 * these come as text again. Return: 1 found; 0 not set; -FI_EINVAL a value that even libfabric
 * refuses.
 */
static int conf_text(const struct fi_provider *prov, const struct kit_param *p, char *buf,
		     size_t len)
{
	union {
		int i;
		size_t size;
		char *str;
	} v = {0};
	int ret = fi_param_get(unconst(prov), p->name, &v);

	if (ret)
		return ret == -FI_EINVAL ? ret : 0;
	switch (p->type) {
	case KIT_BOOL:
	case KIT_INT:
	case KIT_FLAG:
		snprintf(buf, len, "%d", v.i);
		break;
	case KIT_SIZE:
		snprintf(buf, len, "%zu", v.size);
		break;
	case KIT_STRING:
		snprintf(buf, len, "%s", v.str);
		break;
	}
	return 1;
}

/* The environment, unless the system's configuration is told to win. */
static const char *env_text(const struct fi_provider *prov, const char *name)
{
	const char *prefer = secure_getenv("FI_PREFER_SYSCONFIG");
	bool sysconfig = false;
	char env[ENV_MAX];

	if (prefer && bool_parse(prefer, &sysconfig) && sysconfig &&
	    kit_core_version() >= KIT_V(2, 0))
		return NULL;
	env_name(prov, name, env, sizeof(env));
	return secure_getenv(env);
}

static int param_load(const struct fi_provider *prov, const struct kit_param *p, void *out)
{
	char buf[KIT_PARAM_TEXT + 1] = "";
	const char *text = env_text(prov, p->name);
	int ret = text ? 1 : conf_text(prov, p, buf, sizeof(buf));

	if (!text)
		text = buf;
	if (!ret || (ret > 0 && value_parse(p, text, out)))
		return 0;
	refuse(prov, p, text);
	return -FI_EINVAL;
}

int kit_params_load(const struct fi_provider *prov, const struct kit_param *tab, size_t cnt,
		    void *out)
{
	int ret = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (param_load(prov, &tab[i], out))
			ret = -FI_EINVAL;
	}
	return ret;
}

bool kit_param_is_set(const struct fi_provider *prov, const char *name)
{
	union {
		size_t size;
		char *str;
	} v;
	int ret;

	if (env_text(prov, name))
		return true;
	ret = fi_param_get(unconst(prov), name, &v);
	return !ret || ret == -FI_EINVAL;
}
