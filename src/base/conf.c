// SPDX-License-Identifier: BSD-2-Clause
// From settings text to a struct, with error sentences that say what is legal; and from an INI file to settings text.
//
// The text is walked twice, first only checking, then storing. So nothing is stored from a text
// with an error, and no copy of the caller's struct is needed.
#include "base/conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"

#define FILE_ENV      "SOFTFABRIC_CONF"
#define PPM_ONE	      1000000ULL
#define NANO	      1000000000ULL
#define SHOW_MAX      64   /* characters of the user's text repeated in an error */
#define NAME_LEN_MAX  32   /* longer names get no "did you mean" */
#define FILE_LINE_MAX 1024 /* bytes with newline and final 0 */
#define SECTION_MAX   4096 /* bytes of a section, with the final 0 */

/* Part of a string, not terminated. */
struct str {
	const char *p; /* NULL: nothing left to split */
	size_t len;
};

/* One conf_parse() call. */
struct parse {
	const char *what;
	const struct conf_key *keys;
	size_t key_cnt;
	uint8_t *out; /* NULL while only checking */
	char *err;
	size_t err_len, err_used; /* err_used >= err_len: sentence was cut */
};

/* A decimal number before its unit is known: whole + nano * 10^-9. */
struct num {
	uint64_t whole, nano;
	bool has_point;
};

struct unit {
	const char *name;
	uint64_t mult;
};

static const struct unit u64_unit[] = {
	{"", 1},
	{"k", 1000},
	{"M", 1000000},
	{"G", 1000000000},
	{"Ki", 1ULL << 10},
	{"Mi", 1ULL << 20},
	{"Gi", 1ULL << 30},
};
static const struct unit ns_unit[] = {
	{"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_SEC}};
static const struct unit ppm_unit[] = {{"%", PPM_ONE / 100}, {"", PPM_ONE}};

static const struct {
	size_t size; /* of the member */
	const char *expect;
} type_desc[] = {
	[CONF_U64] = {sizeof(uint64_t), "a whole number, optionally with k, M, G, Ki, Mi or Gi"},
	[CONF_NS] = {sizeof(uint64_t), "a time with its unit (ns, us, ms or s) like 20us"},
	[CONF_PPM] = {sizeof(uint32_t), "a percentage like 1% or a fraction like 0.01"},
	[CONF_STR] = {CONF_STR_MAX, "at most 255 characters"},
	[CONF_BOOL] = {sizeof(bool), "yes or no"},
	[CONF_WORDS] = {sizeof(uint32_t), "one or more, comma separated, of"},
	[CONF_WORD] = {sizeof(uint32_t), "one of"},
};
static_assert(ARRAY_SIZE(type_desc) == CONF_TYPE_NUM, "a row per type");

static struct str str_of(const char *s)
{
	return (struct str){s, strlen(s)};
}

static struct str trim(struct str s)
{
	while (s.len && isspace((unsigned char)s.p[0])) {
		s.p++;
		s.len--;
	}
	while (s.len && isspace((unsigned char)s.p[s.len - 1]))
		s.len--;
	return s;
}

static bool str_eq(struct str s, const char *z)
{
	return strlen(z) == s.len && !memcmp(s.p, z, s.len);
}

/* Cut the text before the next @sep off @rest and trim it; rest->p is NULL after the last piece. */
static struct str split(struct str *rest, char sep)
{
	const char *at = memchr(rest->p, sep, rest->len);
	struct str piece = *rest;

	if (at) {
		piece.len = (size_t)(at - rest->p);
		*rest = (struct str){at + 1, rest->len - piece.len - 1};
	} else {
		*rest = (struct str){0};
	}
	return trim(piece);
}

/* Append to the error sentence. */
static void __printf_like(2, 3) say(struct parse *p, const char *fmt, ...)
{
	va_list ap;
	int len;

	if (p->err_used >= p->err_len)
		return;
	va_start(ap, fmt);
	len = vsnprintf(p->err + p->err_used, p->err_len - p->err_used, fmt, ap);
	va_end(ap);
	p->err_used += (size_t)MAX(len, 0);
}

static void say_str(struct parse *p, struct str s)
{
	say(p, "%.*s%s", (int)MIN(s.len, (size_t)SHOW_MAX), s.p, s.len > SHOW_MAX ? "..." : "");
}

/* Take digits off @s; at least one, and no overflow. */
static bool take_whole(struct str *s, uint64_t *v)
{
	size_t digits = 0;

	for (*v = 0; s->len && isdigit((unsigned char)*s->p); s->p++, s->len--, digits++) {
		if (__builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(*s->p - '0'), v))
			return false;
	}
	return digits > 0;
}

/* Take a decimal number off @s. Not strtod(): its decimal point depends on the process's locale. */
static bool take_num(struct str *s, struct num *n)
{
	*n = (struct num){0};
	if (!take_whole(s, &n->whole))
		return false;
	if (!s->len || *s->p != '.')
		return true;
	n->has_point = true;
	s->p++;
	s->len--;
	for (uint64_t place = NANO / 10; s->len && isdigit((unsigned char)*s->p); place /= 10) {
		n->nano += place * (uint64_t)(*s->p - '0');
		s->p++;
		s->len--;
	}
	return true;
}

static const struct unit *find_unit(const struct unit *units, size_t cnt, struct str name)
{
	for (size_t i = 0; i < cnt; i++) {
		if (str_eq(name, units[i].name))
			return &units[i];
	}
	return NULL;
}

/* @n times @mult, to the nearest whole number. */
static bool scale(const struct num *n, uint64_t mult, uint64_t *v)
{
	uint64_t frac = (n->nano * mult + NANO / 2) / NANO; /* mult <= 2^30: no overflow */

	return !__builtin_mul_overflow(n->whole, mult, v) && !__builtin_add_overflow(*v, frac, v);
}

static bool decode_hex(struct str s, uint64_t *v)
{
	if (s.len < 3 || s.len > 2 + 16)
		return false;
	*v = 0;
	for (size_t i = 2; i < s.len; i++) {
		static const char digits[] = "0123456789abcdef";
		const char *at = memchr(digits, tolower((unsigned char)s.p[i]), 16);

		if (!at)
			return false;
		*v = *v << 4 | (uint64_t)(at - digits);
	}
	return true;
}

static bool decode_u64(struct str s, uint64_t *v)
{
	const struct unit *u;
	struct num n;

	if (s.len >= 2 && !memcmp(s.p, "0x", 2))
		return decode_hex(s, v);
	if (!take_num(&s, &n))
		return false;
	u = find_unit(u64_unit, ARRAY_SIZE(u64_unit), s);
	return u && n.nano * u->mult % NANO == 0 && scale(&n, u->mult, v);
}

static bool decode_ns(struct str s, uint64_t *v)
{
	const struct unit *u;
	struct num n;

	*v = str_eq(s, "never") ? CLK_NEVER : 0;
	if (*v || str_eq(s, "0"))
		return true;
	if (!take_num(&s, &n))
		return false;
	u = find_unit(ns_unit, ARRAY_SIZE(ns_unit), s);
	return u && scale(&n, u->mult, v);
}

static bool decode_ppm(struct str s, uint64_t *v)
{
	const struct unit *u;
	struct num n;

	if (!take_num(&s, &n))
		return false;
	u = find_unit(ppm_unit, ARRAY_SIZE(ppm_unit), s);
	/* "1" could mean 1% or all: let the user say which */
	return u && (*u->name || n.has_point || !n.whole) && scale(&n, u->mult, v);
}

static bool decode_bool(struct str s, uint64_t *v)
{
	static const char *const name[][2] = {
		{"no", "yes"}, {"off", "on"}, {"false", "true"}, {"0", "1"}};

	for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
		for (*v = 0; *v < 2; ++*v) {
			if (str_eq(s, name[i][*v]))
				return true;
		}
	}
	return false;
}

/* Place of @word in the comma separated @words; -1 if it is not there. */
static int word_idx(struct str word, const char *words)
{
	struct str rest = str_of(words);

	for (int i = 0; rest.p; i++) {
		struct str legal = split(&rest, ',');

		if (legal.len == word.len && !memcmp(legal.p, word.p, word.len))
			return i;
	}
	return -1;
}

static bool decode_words(struct str s, const char *words, uint64_t *v)
{
	*v = 0;
	while (s.p) {
		int bit = word_idx(split(&s, ','), words);

		if (bit < 0)
			return false;
		must(bit < 32);
		*v |= 1ULL << bit;
	}
	return true;
}

static bool decode_word(struct str s, const char *words, uint64_t *v)
{
	int i = word_idx(s, words);

	*v = (uint64_t)MAX(i, 0);
	return i >= 0;
}

static double max_of(const struct conf_key *k)
{
	return k->max > 0 ? k->max : k->type == CONF_PPM ? (double)PPM_ONE : (double)UINT64_MAX;
}

static bool in_range(const struct conf_key *k, uint64_t v)
{
	return (double)v >= k->min && (double)v <= max_of(k);
}

/* @v: the number to store; 0 for CONF_STR. */
static bool decode(const struct conf_key *k, struct str s, uint64_t *v)
{
	*v = 0;
	switch (k->type) {
	case CONF_U64:
		return decode_u64(s, v) && in_range(k, *v);
	case CONF_NS:
		return decode_ns(s, v) && in_range(k, *v);
	case CONF_PPM:
		return decode_ppm(s, v) && in_range(k, *v);
	case CONF_STR:
		return s.len < CONF_STR_MAX;
	case CONF_BOOL:
		return decode_bool(s, v);
	case CONF_WORDS:
		return decode_words(s, k->words, v);
	case CONF_WORD:
		return decode_word(s, k->words, v);
	case CONF_TYPE_NUM:
		break;
	}
	must(0);
}

static void store(const struct conf_key *k, struct str s, uint64_t v, uint8_t *member)
{
	uint32_t v32 = (uint32_t)v;
	bool is_on = v;

	switch (k->type) {
	case CONF_U64:
	case CONF_NS:
		memcpy(member, &v, sizeof(v));
		return;
	case CONF_PPM:
	case CONF_WORDS:
	case CONF_WORD:
		memcpy(member, &v32, sizeof(v32));
		return;
	case CONF_BOOL:
		memcpy(member, &is_on, sizeof(is_on));
		return;
	case CONF_STR:
		memcpy(member, s.p, s.len);
		member[s.len] = 0;
		return;
	case CONF_TYPE_NUM:
		break;
	}
	must(0);
}

static void say_limit(struct parse *p, enum conf_type type, double v)
{
	size_t i = ARRAY_SIZE(ns_unit) - 1;

	if (type == CONF_PPM) {
		say(p, "%.7g%%", v * 100 / (double)PPM_ONE);
	} else if (type == CONF_NS) {
		while (i && v < (double)ns_unit[i].mult)
			i--;
		say(p, "%.12g%s", v / (double)ns_unit[i].mult, ns_unit[i].name);
	} else {
		say(p, "%.0f", v);
	}
}

/* "a percentage like 1% or a fraction like 0.01, from 0% to 100%" */
static void say_expected(struct parse *p, const struct conf_key *k)
{
	bool is_number = k->type == CONF_U64 || k->type == CONF_NS || k->type == CONF_PPM;

	say(p, "expected %s", type_desc[k->type].expect);
	if (k->words)
		say(p, " %s", k->words);
	if (k->type == CONF_NS && in_range(k, CLK_NEVER))
		say(p, ", or never");
	if (!is_number || (k->min <= 0 && k->max <= 0 && k->type != CONF_PPM))
		return;
	say(p, k->max > 0 || k->type == CONF_PPM ? ", from " : ", at least ");
	say_limit(p, k->type, k->min);
	if (k->max > 0 || k->type == CONF_PPM) {
		say(p, " to ");
		say_limit(p, k->type, max_of(k));
	}
}

/* Letters to add, leave out, change, or swap with the next one; SIZE_MAX if a name is too long to bother. */
static size_t edit_distance(struct str a, struct str b)
{
	size_t row[3][NAME_LEN_MAX + 1]; /* of the letter of @a at hand and the two before it */

	if (a.len > NAME_LEN_MAX || b.len > NAME_LEN_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b.len; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t *cur = row[i % 3], *one = row[(i + 2) % 3], *two = row[(i + 1) % 3];

		cur[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t change = one[j - 1] + (a.p[i - 1] != b.p[j - 1]);

			cur[j] = MIN(change, MIN(one[j], cur[j - 1]) + 1);
			if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
				cur[j] = MIN(cur[j], two[j - 2] + 1);
		}
	}
	return row[a.len % 3][b.len];
}

/* What was probably meant, of the names looked at so far; name.p is NULL if none is near. */
struct near {
	struct str name;
	size_t dist;
};

static void near_look(struct near *n, struct str asked, struct str name)
{
	size_t dist = edit_distance(asked, name);

	if (dist < name.len && dist <= 1 + name.len / 4 && (!n->name.p || dist < n->dist))
		*n = (struct near){name, dist};
}

static void say_near(struct parse *p, const struct near *n)
{
	if (!n->name.p)
		return;
	say(p, " (did you mean '");
	say_str(p, n->name);
	say(p, "'?)");
}

static void say_known(struct parse *p, struct str unknown)
{
	const char *sep = "; known keys: ";
	struct near near = {0};

	for (size_t i = 0; i < p->key_cnt; i++)
		near_look(&near, unknown, str_of(p->keys[i].name));
	say_near(p, &near);
	for (size_t i = 0; i < p->key_cnt; i++) {
		if (!*p->keys[i].name)
			continue;
		say(p, "%s%s", sep, p->keys[i].name);
		sep = ", ";
	}
}

static const struct conf_key *find_key(const struct parse *p, struct str name)
{
	for (size_t i = 0; i < p->key_cnt; i++) {
		if (str_eq(name, p->keys[i].name))
			return &p->keys[i];
	}
	return NULL;
}

static int bad_key(struct parse *p, const char *before, struct str name, const char *after)
{
	say(p, "%s: %s'", p->what, before);
	say_str(p, name);
	say(p, "'%s", after);
	say_known(p, name);
	return -EINVAL;
}

static int lacks_value(struct parse *p, const struct conf_key *k)
{
	say(p, "%s: '%s' lacks '=' and a value: ", p->what, k->name);
	say_expected(p, k);
	return -EINVAL;
}

/* The first of the words of @value that is none of @words: which was meant? */
static void say_near_word(struct parse *p, const char *words, struct str value)
{
	struct str rest = str_of(words), word;
	struct near near = {0};

	do
		word = split(&value, ',');
	while (value.p && word_idx(word, words) >= 0);
	while (rest.p)
		near_look(&near, word, split(&rest, ','));
	say_near(p, &near);
}

static int bad_value(struct parse *p, const struct conf_key *k, struct str value)
{
	say(p, "%s: %s%s'", p->what, k->name, *k->name ? "=" : "");
	say_str(p, value);
	say(p, "'");
	if (k->words)
		say_near_word(p, k->words, value);
	say(p, ": ");
	say_expected(p, k);
	return -EINVAL;
}

static int on_item(struct parse *p, struct str item)
{
	bool has_key = memchr(item.p, '=', item.len);
	struct str value = item, name = has_key ? split(&value, '=') : (struct str){"", 0};
	const struct conf_key *k = find_key(p, name), *bare = has_key ? NULL : find_key(p, item);
	uint64_t v;

	value = trim(value);
	if (has_key && (!name.len || !k))
		return bad_key(p, "unknown key ", name, "");
	if (bare)
		return lacks_value(p, bare);
	if (!k)
		return bad_key(p, "", item, " lacks '=' and a value");
	if (!decode(k, value, &v))
		return bad_value(p, k, value);
	if (p->out)
		store(k, value, v, p->out + k->off);
	return 0;
}

static int walk(struct parse *p, const char *text)
{
	struct str rest = str_of(text);

	while (rest.p) {
		struct str item = split(&rest, ';');

		if (item.len && on_item(p, item))
			return -EINVAL;
	}
	return 0;
}

int conf_parse(const char *what, const char *text, const struct conf_key *keys, size_t key_cnt,
	       void *out, size_t out_len, char *err, size_t err_len)
{
	struct parse p = {what, keys, key_cnt, .err = err, .err_len = err_len};

	for (size_t i = 0; i < key_cnt; i++)
		must(keys[i].off + type_desc[keys[i].type].size <= out_len);
	if (!text)
		return 0;
	if (walk(&p, text))
		return -EINVAL;
	p.out = out;
	return walk(&p, text);
}

void conf_unset(const struct conf_key *keys, size_t key_cnt, void *out, size_t out_len)
{
	uint64_t v;

	memset(out, 0, out_len);
	for (size_t i = 0; i < key_cnt; i++) {
		const struct conf_key *k = &keys[i];

		must(k->off + type_desc[k->type].size <= out_len);
		if (!k->unset)
			continue;
		must(decode(k, str_of(k->unset), &v)); /* the table's own text */
		store(k, str_of(k->unset), v, (uint8_t *)out + k->off);
	}
}

int conf_refuse(int rc, char *err, size_t err_len, const char *fmt, ...)
{
	va_list ap;

	if (!err_len)
		return rc;
	va_start(ap, fmt);
	vsnprintf(err, err_len, fmt, ap);
	va_end(ap);
	return rc;
}

bool conf_long(const char *text, long min, long max, long *out)
{
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '-')
		return false;
	errno = 0;
	*out = strtol(text, &end, 0);
	return end != text && !*end && !errno && *out >= min && *out <= max;
}

int conf_span(const char *what, const char *key, const char *text, uint64_t out[2], char *err,
	      size_t err_len)
{
	static const struct conf_key keys[] = {
		{"from", CONF_NS, 0, "Begin.", 0, 0, NULL},
		{"to", CONF_NS, sizeof(uint64_t), "End.", 0, 0, NULL},
	};
	const char *dash = strchr(text, '-');
	char pair[CONF_STR_MAX + 16], name[64];
	uint64_t ns[2] = {0, 0};

	if (!dash)
		return conf_refuse(-EINVAL, err, err_len,
				   "%s: %s=%s is not FROM-TO, such as 1s-3s", what, key, text);
	snprintf(pair, sizeof(pair), "from=%.*s;to=%s", (int)(dash - text), text, dash + 1);
	snprintf(name, sizeof(name), "%s: %s", what, key);
	if (conf_parse(name, pair, keys, ARRAY_SIZE(keys), ns, sizeof(ns), err, err_len))
		return -EINVAL;
	if (ns[0] >= ns[1])
		return conf_refuse(-EINVAL, err, err_len, "%s: %s=%s ends before it begins", what,
				   key, text);
	memcpy(out, ns, sizeof(ns));
	return 0;
}

/* @line without its comment and the blanks around. */
static struct str line_content(const char *line)
{
	struct str s = str_of(line);

	for (size_t i = 0; i < s.len; i++) {
		if ((line[i] == '#' || line[i] == ';') &&
		    (!i || isspace((unsigned char)line[i - 1])))
			s.len = i;
	}
	return trim(s);
}

/* Append @item as ";key=value" (no ';' at first) to @text, which holds *@used bytes. */
static int append_item(struct str item, char *text, size_t text_len, size_t *used)
{
	bool has_key = memchr(item.p, '=', item.len);
	struct str value = item, name = has_key ? split(&value, '=') : (struct str){"", 0};
	int len;

	value = trim(value);
	len = snprintf(text + *used, text_len - *used, "%s%.*s%s%.*s", *used ? ";" : "",
		       (int)name.len, name.p, has_key ? "=" : "", (int)value.len, value.p);
	if (len < 0 || (size_t)len >= text_len - *used)
		return -E2BIG;
	*used += (size_t)len;
	return 0;
}

static int read_section(FILE *f, const char *path, const char *section, char *text, size_t text_len)
{
	char line[FILE_LINE_MAX];
	bool is_wanted = !*section;
	size_t used = 0;
	int ret = 0;

	for (int line_no = 1; !ret && fgets(line, sizeof(line), f); line_no++) {
		struct str s = line_content(line);

		if (!strchr(line, '\n') && !feof(f)) {
			LOG_WARN("%s:%d: line too long, limit %d bytes", path, line_no,
				 FILE_LINE_MAX - 2);
			ret = -E2BIG;
		} else if (s.len && *s.p == '[' && s.p[s.len - 1] != ']') {
			LOG_WARN("%s:%d: '[' without ']'", path, line_no);
			ret = -EINVAL;
		} else if (s.len && *s.p == '[') {
			is_wanted = str_eq(trim((struct str){s.p + 1, s.len - 2}), section);
		} else if (s.len && is_wanted) {
			ret = append_item(s, text, text_len, &used);
		}
	}
	return !ret && ferror(f) ? -errno : ret;
}

int conf_file_section(const char *path, const char *section, char *text, size_t text_len)
{
	FILE *f = fopen(path, "re");
	int ret;

	text[0] = 0;
	if (!f)
		return -errno;
	ret = read_section(f, path, section, text, text_len);
	fclose(f);
	if (ret)
		text[0] = 0;
	return ret;
}

int conf_read(const struct conf_src *src, void *out, size_t out_len, char *err, size_t err_len)
{
	const char *path = secure_getenv(FILE_ENV);
	char text[SECTION_MAX], what[256];
	int rc;

	if (path && *path) {
		rc = conf_file_section(path, src->section, text, sizeof(text));
		if (rc)
			return conf_refuse(-EINVAL, err, err_len, FILE_ENV "=%s cannot be read: %s",
					   path, strerror(-rc));
		snprintf(what, sizeof(what), "%s [%s]", path, src->section);
		rc = conf_parse(what, text, src->keys, src->key_cnt, out, out_len, err, err_len);
		if (rc)
			return rc;
	}
	return conf_parse(src->env, secure_getenv(src->env), src->keys, src->key_cnt, out, out_len, err,
			  err_len);
}
