// SPDX-License-Identifier: BSD-2-Clause
// softfabric-wire: prints the description of all packet layouts as JSON, and checks it.
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HDR_MAX	  512u
#define NAMED_MAX 32u
#define KNOWN_MAX 128u

static const struct wire_proto *g_proto;
static const struct wire_names *g_named[NAMED_MAX];
static const char *known[KNOWN_MAX]; /* fields of the packet at hand */
static unsigned known_cnt;
static bool is_first_packet, is_first_top = true;

void wire_stop(const char *where, const char *what, const char *which)
{
	fprintf(stderr, "softfabric-wire: %s: %s: %s\n", where, what, which);
	exit(1);
}

static void text(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void pair(const char *name, const char *value)
{
	if (!value)
		return;
	printf(", \"%s\": ", name);
	text(value);
}

static void top(const char *id)
{
	printf("%s\n ", is_first_top ? "" : ",");
	is_first_top = false;
	text(id);
	printf(": ");
}

/* --- checks
 * ------------------------------------------------------------------------------------------------------------ */

static void know(const struct wire_field *f)
{
	for (; f && f->name; f++) {
		if (known_cnt == KNOWN_MAX)
			wire_stop("wire.c", "more fields than KNOWN_MAX", f->name);
		known[known_cnt++] = f->name;
	}
}

static void must_know(const char *where, const char *name, size_t len)
{
	for (unsigned i = 0; i < known_cnt; i++)
		if (strlen(known[i]) == len && !memcmp(known[i], name, len))
			return;
	wire_stop(where, "a rule names a field that the packet lacks", name);
}

/* Each word of @list, with "+x:" in front or not, dots between a key's fields being colons. */
static void must_know_all(const char *where, const char *list)
{
	while (list && *list) {
		if (*list == '+' || *list == '-')
			list += 3;
		must_know(where, list, strcspn(list, " ,"));
		list += strcspn(list, " ,");
		list += strspn(list, " ,");
	}
}

static void when_check(const char *where, const struct wire_when *when)
{
	for (int i = 0; i < WHEN_MAX && when[i].field; i++) {
		must_know_all(where, when[i].field);
		must_know_all(where, when[i].same);
	}
}

static uint64_t whole(const struct wire_field *f)
{
	return f->size >= 8 ? UINT64_MAX : (1ULL << 8 * f->size) - 1;
}

/* Which bits of the header the fields are; a bit has one field. */
static void cover(const char *where, const struct wire_field *fields, uint8_t bits[HDR_MAX])
{
	for (const struct wire_field *f = fields; f && f->name; f++) {
		uint64_t mask = f->mask ? f->mask : whole(f);

		if (f->off + f->size > HDR_MAX || mask & ~whole(f))
			wire_stop(where, "a field is out of its bytes", f->name);
		for (unsigned i = 0; i < f->size; i++) {
			unsigned shift = f->form == 'b' ? f->size - 1u - i : i;
			uint8_t part = f->form == 'y' ? 0xff : (uint8_t)(mask >> 8 * shift);

			if (bits[f->off + i] & part)
				wire_stop(where, "bits with two fields", f->name);
			bits[f->off + i] |= part;
		}
	}
}

static void cover_check(const char *where, const struct wire_field *head, const struct wire_field *fields, uint32_t len)
{
	uint8_t bits[HDR_MAX] = {0};
	char at[32];

	cover(where, head, bits);
	cover(where, fields, bits);
	for (uint32_t i = 0; i < HDR_MAX; i++) {
		snprintf(at, sizeof(at), "byte %u of %u", i, len);
		if (i < len ? bits[i] != 0xff : bits[i])
			wire_stop(where, i < len ? "bits without a field" : "fields behind the header", at);
	}
}

/* --- output
 * ------------------------------------------------------------------------------------------------------------ */

static void named(const struct wire_names *n)
{
	for (unsigned i = 0; i < NAMED_MAX; i++) {
		if (!g_named[i])
			g_named[i] = n;
		if (!strcmp(g_named[i]->id, n->id))
			return;
	}
	wire_stop("wire.c", "more names than NAMED_MAX", n->id);
}

static void put_fields(const struct wire_field *fields)
{
	printf("[");
	for (const struct wire_field *f = fields; f && f->name; f++) {
		printf("%s{\"name\": \"%s\", \"off\": %u, \"size\": %u, \"form\": \"%c\", \"show\": \"%c\"",
		       f == fields ? "" : ", ", f->name, f->off, f->size, f->form, f->show);
		if (f->mask)
			printf(", \"shift\": %d, \"bits\": %d", __builtin_ctzll(f->mask),
			       __builtin_popcountll(f->mask));
		if (f->mask && f->mask >> __builtin_ctzll(f->mask) & ((f->mask >> __builtin_ctzll(f->mask)) + 1))
			wire_stop(f->name, "a mask with a hole", f->name);
		if (f->names) {
			named(f->names);
			pair("names", f->names->id);
		}
		printf("}");
	}
	printf("]");
}

static void put_when(const struct wire_when *when)
{
	if (!when[0].field)
		return;
	printf(", \"when\": [");
	for (int i = 0; i < WHEN_MAX && when[i].field; i++) {
		printf("%s{\"field\": \"%s\", \"lo\": %llu, \"hi\": %llu", i ? ", " : "", when[i].field,
		       (unsigned long long)when[i].lo, (unsigned long long)when[i].hi);
		pair("same", when[i].same);
		printf("}");
	}
	printf("]");
}

static void put_parts(const char *where, const struct wire_part *parts)
{
	printf(", \"parts\": [");
	for (const struct wire_part *p = parts; p && (p->size || p->is_over); p++) {
		when_check(where, p->when);
		must_know_all(where, p->times);
		if (!p->is_over && !p->len_field)
			cover_check(where, NULL, p->fields, p->size);
		know(p->fields);
		must_know_all(where, p->len_field);
		printf("%s\n    {\"size\": %u, \"over\": %s, \"to_end\": %s, \"less\": %d, \"len_plus\": %d",
		       p == parts ? "" : ",", p->size, p->is_over ? "true" : "false", p->to_end ? "true" : "false",
		       p->less, p->len_plus);
		pair("times", p->times);
		pair("len_field", p->len_field);
		put_when(p->when);
		printf(", \"fields\": ");
		put_fields(p->fields);
		printf("}");
	}
	printf("]");
}

static void put_msg(const char *where, const struct wire_msg *m)
{
	must_know_all(where, m->keys);
	must_know_all(where, m->total);
	must_know_all(where, m->mem);
	must_know_all(where, m->find);
	must_know_all(where, m->off);
	must_know_all(where, m->end);
	when_check(where, m->when);
	printf("{\"how\": \"%c\"", m->how);
	pair("keys", m->keys);
	pair("total", m->total);
	pair("mem", m->mem);
	pair("find", m->find);
	pair("off", m->off);
	pair("end", m->end);
	put_when(m->when);
	printf(", \"ops\": [");
	for (const struct wire_op *o = m->ops; o && o->op; o++) {
		when_check(where, o->when);
		printf("%s{\"op\": \"%s\"", o == m->ops ? "" : ", ", o->op);
		put_when(o->when);
		printf("}");
	}
	printf("]}");
}

void wire_proto_begin(const struct wire_proto *p)
{
	g_proto = p;
	is_first_packet = true;
	top(p->id);
	printf("{\"head_len\": %u", p->head_len);
	pair("title", p->title);
	pair("select", p->select);
	pair("select2", p->select2);
	pair("number", p->number);
	printf(", \"head\": ");
	put_fields(p->head);
	printf(", \"packets\": {");
}

void wire_packet(const struct wire_packet *p)
{
	known_cnt = 0;
	know(g_proto->head);
	know(p->fields);
	cover_check(p->name, g_proto->head, p->fields, p->len);
	printf("%s\n  \"%s\": {\"len\": %u, \"payload_min\": %u, \"payload_max\": %u, \"unnumbered\": %s",
	       is_first_packet ? "" : ",", p->key, p->len, p->payload_min, p->payload_max,
	       p->is_unnumbered ? "true" : "false");
	is_first_packet = false;
	pair("name", p->name);
	pair("next", p->next);
	pair("payload_len", p->payload_len);
	printf(", \"fields\": ");
	put_fields(p->fields);
	put_parts(p->name, p->parts);
	must_know_all(p->name, p->payload_len);
	printf(", \"msg\": [");
	for (int i = 0; i < MSG_MAX && p->msg[i].how; i++) {
		printf("%s", i ? ", " : "");
		put_msg(p->name, &p->msg[i]);
	}
	printf("]}");
}

void wire_proto_end(void)
{
	printf("}}");
}

void wire_layout(const char *id, const struct wire_field *fields, uint32_t size)
{
	cover_check(id, NULL, fields, size);
	top(id);
	printf("{\"size\": %u, \"fields\": ", size);
	put_fields(fields);
	printf("}");
}

void wire_number(const char *name, uint64_t value)
{
	top(name);
	printf("%llu", (unsigned long long)value);
}

static void put_names(void)
{
	top("names");
	printf("{");
	for (unsigned i = 0; i < NAMED_MAX && g_named[i]; i++) {
		bool is_first = true;

		printf("%s\n  \"%s\": {", i ? "," : "", g_named[i]->id);
		for (unsigned v = g_named[i]->first; v <= g_named[i]->last; v++) {
			const char *name = g_named[i]->name(v);

			if (!name || !strcmp(name, "?") || !strncmp(name, "unknown", 7))
				continue;
			printf("%s\"%u\": ", is_first ? "" : ", ", v);
			text(name);
			is_first = false;
		}
		printf("}");
	}
	printf("}");
}

int main(void)
{
	printf("{");
	wire_link();
	wire_efa();
	wire_cxi();
	wire_opx();
	put_names();
	printf("\n}\n");
	return fflush(stdout) ? 1 : 0;
}
