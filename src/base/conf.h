// SPDX-License-Identifier: BSD-2-Clause
// The grammar of the SOFTFABRIC_* settings, "shm,udp;loss=1%;seed=7", checked against a table.
//
// Items are separated by ';', blanks around items, keys and values are ignored, and so are empty
// items. An item is key=value; without '=' it is the value of the table's entry named "", if there
// is one. A key given twice takes its last value.
#ifndef SF_BASE_CONF_H
#define SF_BASE_CONF_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define CONF_STR_MAX 256 /* bytes with the final 0 */

/* What a value looks like, and the type of the struct member it is stored in. */
enum conf_type {
	CONF_U64,   /* uint64_t: 42, 0x2a, 1.5k; suffixes k, M, G (decimal), Ki, Mi, Gi (binary) */
	CONF_NS,    /* uint64_t: 20us, 1.5ms; unit (ns, us, ms, s) required; never = UINT64_MAX */
	CONF_PPM,   /* uint32_t, parts per million: 1% or 0.01; a bare whole number only if 0 */
	CONF_STR,   /* char[CONF_STR_MAX] */
	CONF_BOOL,  /* bool: yes/no, on/off, true/false, 1/0 */
	CONF_WORDS, /* uint32_t: bit i set for the i-th of @words; at least one word is required */
	CONF_WORD,  /* uint32_t: i for the i-th of @words, exactly one */
	CONF_TYPE_NUM
};

/* One setting. */
struct conf_key {
	const char *name; /* "" for the value that has no key */
	enum conf_type type;
	size_t off;	   /* of the member in the struct to fill */
	const char *help;  /* one sentence */
	double min, max;   /* of the stored number (count, ns, ppm), inclusive; max 0: type's own */
	const char *words; /* CONF_WORDS, CONF_WORD: the legal words, comma separated, at most 32 */
	const char *unset; /* the value where nobody gives one, as text; NULL: zeros, or the owner's matter */
};

/**
 * conf_parse() - Fill a struct from settings text.
 * @what:    where the text came from, e.g. "SOFTFABRIC_NET"; begins the error sentence.
 * @text:    the settings; NULL is like "".
 * @keys:    table of @key_cnt settings.
 * @out:     struct of @out_len bytes holding the defaults; only members that @text names change.
 * @err:     receives one sentence, @err_len bytes at most with the final 0; NULL if @err_len is 0.
 * Return:   0; -EINVAL: unknown key or illegal value (@out unchanged, @err says what is legal).
 */
int conf_parse(const char *what, const char *text, const struct conf_key *keys, size_t key_cnt,
	       void *out, size_t out_len, char *err, size_t err_len);

/** conf_unset() - Fill @out with what the keys are where nobody gives them, else zeros; arguments as conf_parse(). */
void conf_unset(const struct conf_key *keys, size_t key_cnt, void *out, size_t out_len);

/* Settings of one kind: who gives them, and what they may be. */
struct conf_src {
	const char *env, *section; /* of the environment; in the file that SOFTFABRIC_CONF names */
	const struct conf_key *keys;
	size_t key_cnt;
};

/**
 * conf_read() - Settings as the user gives them now: the file first, then the variable, so that one
 * run can differ from the file.
 * @out:    as conf_parse(), @out_len as well; @err holds one sentence.
 * Return:  0; -EINVAL: as conf_parse(), or the file cannot be read.
 */
int conf_read(const struct conf_src *src, void *out, size_t out_len, char *err, size_t err_len);

/** conf_refuse() - The sentence of an error @rc into @err, which is NULL if @err_len is 0. Return: @rc. */
int __printf_like(4, 5) conf_refuse(int rc, char *err, size_t err_len, const char *fmt, ...);

/** conf_long() - Is @text, all of it, a number in C's notation from @min to @max? Then it is *@out. */
bool conf_long(const char *text, long min, long max, long *out);

/**
 * conf_span() - "1s-2.5s", "1s-never": two CONF_NS, of which the first is the smaller one.
 * @what, @key: where @text came from, for the sentence.
 * @out:    begin and end in ns; written only on success.
 * Return:  0; -EINVAL with one sentence in @err as conf_parse().
 */
int conf_span(const char *what, const char *key, const char *text, uint64_t out[2], char *err,
	      size_t err_len);

/**
 * conf_file_section() - Settings text of one [section] of an INI file, for conf_parse().
 * @section: name between the brackets; the lines of all sections of that name are joined. ""
 *           is what comes before the first section.
 * @text:    receives the lines of the section joined by ';', @text_len (> 0) bytes at most with
 *           the final 0; "" if there is no such section, and on error.
 * A line is key = value; '#' or ';' at its beginning or after a blank starts a comment.
 * Return:   0; -ENOENT no such file; -E2BIG section or a line (logged) is too long; -EINVAL a '['
 *           without ']' (logged); other -errno of opening or reading.
 */
int conf_file_section(const char *path, const char *section, char *text, size_t text_len);

#endif
