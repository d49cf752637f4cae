// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: insertion, lookup, removal, duplicates, errors, text form.
#include "conform.h"

#include <malloc.h>
#include <stdlib.h>

/* Address @i: a copy of the endpoint's own that differs where each format allows it, in its last words. */
static void make_addr(const struct ct *c, uint8_t *out, uint32_t i)
{
	memcpy(out, c->addr, c->addr_len);
	c->p->make_addr(out, i);
}

static void av_insert(struct ct *c)
{
	uint8_t addr[64 * 64], back[64];
	fi_addr_t fa[64], again[64];
	char text[128];
	size_t len;

	ct_open(c);
	for (uint32_t i = 0; i < 64; i++)
		make_addr(c, addr + i * c->addr_len, i);
	RET(64, fi_av_insert(c->av, addr, 64, fa, 0, NULL));
	for (unsigned i = 0; i < 64; i++) {
		CHECK(fa[i] == (c->info->domain_attr->av_type == FI_AV_TABLE ? fa[0] + i : fa[i]), "index %llu", (unsigned long long)fa[i]);
		len = sizeof(back);
		OK(fi_av_lookup(c->av, fa[i], back, &len));
		CHECK(len == c->addr_len && !memcmp(back, addr + i * c->addr_len, len), "address %u", i);
		len = 5;
		memset(back, 0xcc, sizeof(back));
		fi_av_lookup(c->av, fa[i], back, &len);
		CHECK(len == c->addr_len && back[5] == 0xcc, "cut to 5 bytes: says %zu", len);
	}
	len = sizeof(text);
	CHECK(*fi_av_straddr(c->av, addr, text, &len), "no text");
	CHECK(len > 1 && strlen(text) < sizeof(text), "length %zu", len);
	len = 8;
	memset(text, 'x', sizeof(text));
	fi_av_straddr(c->av, addr, text, &len);
	CHECK(len > 8 && text[8] == 'x', "short text buffer");
	RET(64, fi_av_insert(c->av, addr, 64, again, 0, NULL)); /* a second time gives the same */
	if (c->p->has & CT_AV_TWICE && c->v->av_type != FI_AV_MAP) {
		CHECK(again[0] == fa[63] + 1, "index %llu behind %llu", (unsigned long long)again[0], (unsigned long long)fa[63]);
		OK(fi_av_remove(c->av, again, 64, 0));
	} else {
		CHECK(!memcmp(fa, again, sizeof(fa)), "duplicates got new names");
	}
	OK(fi_av_remove(c->av, fa, 64, 0));
	if (c->p->has & CT_HAS_AV_USES || (c->p->has & CT_AV_TWICE && c->v->av_type == FI_AV_MAP)) {
		OK(fi_av_lookup(c->av, fa[0], back, &len));
		OK(fi_av_remove(c->av, fa, 64, 0));
	}
	for (unsigned i = 0; i < 64; i++) {
		len = sizeof(back);
		CHECK(fi_av_lookup(c->av, fa[i], back, &len) < 0, "address %u is still there", i);
	}
	ct_close(c);
}

/* The text of an address is the real provider's: programs print it, give it to others, and these read it back. */
static void av_text(struct ct *c)
{
	uint8_t addr[64] = {0}, mem[64] = {0};
	struct ct_msg m = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[0], .mem = mem, .len = sizeof(mem)};
	char text[128], uri[160];
	size_t len = sizeof(text);
	const char *rest;

	ct_open(c);
	memcpy(addr, c->p->addr_bytes, c->addr_len);
	CHECK(!strcmp(fi_av_straddr(c->av, addr, text, &len), c->p->addr_text), "%s, not %s", text, c->p->addr_text);
	CHECK(len == strlen(text) + 1, "length %zu of \"%s\"", len, text);
	if (c->rank) {
		ct_recv(c, &m);
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, sizeof(mem));
	} else {
		len = sizeof(text);
		fi_av_straddr(c->av, c->peer_addr, text, &len);
		rest = strstr(text, "://");
		snprintf(uri, sizeof(uri), "%s://%s", c->prov, rest ? rest + 3 : text);
		CHECK(c->p->parse_addr(uri, addr), "\"%s\" is not understood", uri);
		RET(1, fi_av_insert(c->av, addr, 1, &m.addr, 0, NULL));
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
	}
	ct_barrier(c);
	ct_close(c);
}

static void av_errors(struct ct *c)
{
	uint8_t addr[2 * 64];
	fi_addr_t fa[2];
	int err[2] = {77, 77};

	ct_open(c);
	make_addr(c, addr, 1);
	CHECK(fi_av_insert(c->av, addr, 1, fa, 1ULL << 50, NULL) < 0, "unknown flags");
	CHECK(fi_av_remove(c->av, &(fi_addr_t){FI_ADDR_NOTAVAIL}, 1, 0) < 0, "removal of nothing");
	CHECK(fi_av_lookup(c->av, FI_ADDR_UNSPEC, addr, &(size_t){64}) < 0, "lookup of nothing");
	RET(0, fi_av_insert(c->av, addr, 0, fa, 0, NULL));
	if (!strcmp(c->prov, "efa")) {
		memset(addr + c->addr_len, 0, 32); /* an empty GID stops it */
		fa[0] = fa[1] = 5;
		RET(1, fi_av_insert(c->av, addr, 2, fa, 0, NULL));
		CHECK(fa[0] != FI_ADDR_NOTAVAIL && fa[1] == FI_ADDR_NOTAVAIL, "results %llu %llu", (unsigned long long)fa[0],
		      (unsigned long long)fa[1]);
		RET(1, fi_av_insert(c->av, addr, 2, fa, FI_SYNC_ERR, err));
		CHECK(!err[0] && err[1] > 0 && err[1] != 77, "errors %d %d", err[0], err[1]);
	}
	ct_close(c);
}

/* A removed peer is unknown to calls; inserted anew it works again. */
static void av_reinsert(struct ct *c)
{
	uint8_t mem[64] = {0};

	ct_open(c);
	for (unsigned i = 0; i < 20; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = mem, .len = sizeof(mem)};

		if (c->rank) {
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, sizeof(mem));
		} else {
			ct_send(c, &m);
			ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		}
		ct_barrier(c);
		if (c->rank == 0 && i % 2) {
			OK(fi_av_remove(c->av, &c->peer, 1, 0));
			if (c->v->av_type != FI_AV_MAP) /* there it is the address itself, whatever the vector knows */
				RET(-FI_EINVAL, fi_send(c->ep, mem, sizeof(mem), NULL, c->peer, NULL));
			RET(1, fi_av_insert(c->av, c->peer_addr, 1, &c->peer, 0, NULL));
		}
		ct_barrier(c);
	}
	ct_close(c);
}

static void av_open_errors(struct ct *c)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	struct fid_av *av = NULL;

	ct_open(c);
	attr.flags = FI_EVENT;
	CHECK((c->p->has & CT_HAS_AV_EVENT) || fi_av_open(c->domain, &attr, &av, NULL) < 0, "FI_EVENT");
	attr.flags = 0, attr.name = "shared";
	CHECK((c->p->has & CT_HAS_AV_EVENT) || fi_av_open(c->domain, &attr, &av, NULL) < 0, "a shared AV");
	attr.name = NULL, attr.type = FI_AV_MAP;
	OK(fi_av_open(c->domain, &attr, &av, NULL)); /* deprecated, and still served */
	OK(fi_close(&av->fid));
	attr.type = FI_AV_UNSPEC;
	OK(fi_av_open(c->domain, &attr, &av, NULL));
	OK(fi_close(&av->fid));
	attr.type = (enum fi_av_type)9;
	CHECK(fi_av_open(c->domain, &attr, &av, NULL) < 0, "type 9");
	RET(-FI_EBUSY, fi_close(&c->av->fid));
	ct_close(c);
}

/* Fifty thousand peers: quick, and the last is as good as the first. */
/* Bytes of this process's heap that are in use. */
static size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* A hundred thousand peers: found again, and what they cost. */
static void av_many(struct ct *c)
{
	enum { CNT = 100000 };
	uint8_t addr[64], back[64];
	fi_addr_t fa = 0;
	uint64_t start;
	size_t len, before;

	ct_open(c);
	before = heap_bytes();
	start = ct_now_ms();
	for (uint32_t i = 0; i < CNT; i++) {
		make_addr(c, addr, i);
		RET(1, fi_av_insert(c->av, addr, 1, &fa, 0, NULL));
	}
	printf("    %d peers: %llu ms, %.1f bytes each\n", CNT, (unsigned long long)(ct_now_ms() - start),
	       (double)(heap_bytes() - before) / CNT);
	CHECK(ct_now_ms() - start < 20000, "%llu ms", (unsigned long long)(ct_now_ms() - start));
	CHECK(heap_bytes() - before < CNT * 2000ull, "%zu bytes", heap_bytes() - before);
	for (uint32_t i = 0; i < CNT; i += 9999) {
		make_addr(c, addr, CNT - 1 - i);
		len = sizeof(back);
		OK(fi_av_lookup(c->av, fa - i, back, &len));
		CHECK(!memcmp(addr, back, len), "peer %u is another one", CNT - 1 - i);
	}
	ct_close(c);
}

const struct ct_test av_tests[] = {
	{"av_insert", av_insert, FI_MSG, 0, CT_SOLO, NULL},
	{"av_text", av_text, FI_MSG, 0, 0, NULL},
	{"av_errors", av_errors, FI_MSG, 0, CT_SOLO, NULL},
	{"av_reinsert", av_reinsert, FI_MSG, 0, CT_GENS, NULL},
	{"av_open_errors", av_open_errors, FI_MSG, 0, CT_SOLO, NULL},
	{"av_many", av_many, FI_MSG, 0, CT_SOLO, NULL},
	{0},
};
