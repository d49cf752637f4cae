// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: insertion, lookup, removal, duplicates, errors, text form.
#include "conform.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

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
		CHECK(fa[i] == (c->info->domain_attr->av_type == FI_AV_TABLE ? fa[0] + i : fa[i]), "index %llu",
		      (unsigned long long)fa[i]);
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
		CHECK(again[0] == fa[63] + 1, "index %llu behind %llu", (unsigned long long)again[0],
		      (unsigned long long)fa[63]);
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
	uint8_t addr[3 * 64];
	fi_addr_t fa[3];
	int err[2] = {77, 77};

	ct_open(c);
	make_addr(c, addr, 1);
	CHECK(fi_av_insert(c->av, addr, 1, fa, 1ULL << 50, NULL) < 0, "unknown flags");
	CHECK(fi_av_remove(c->av, &(fi_addr_t){FI_ADDR_NOTAVAIL}, 1, 0) < 0, "removal of nothing");
	CHECK(fi_av_lookup(c->av, FI_ADDR_UNSPEC, addr, &(size_t){64}) < 0, "lookup of nothing");
	RET(0, fi_av_insert(c->av, addr, 0, fa, 0, NULL));
	if (!strcmp(c->prov, "efa")) {
		memset(addr + c->addr_len, 0, 32); /* an empty GID stops it */
		memcpy(addr + 2 * c->addr_len, addr, c->addr_len);
		fa[0] = fa[1] = fa[2] = 5;
		RET(1, fi_av_insert(c->av, addr, 3, fa, 0, NULL));
		CHECK(fa[0] != FI_ADDR_NOTAVAIL && fa[1] == FI_ADDR_NOTAVAIL && fa[2] == FI_ADDR_NOTAVAIL,
		      "results %llu %llu %llu", (unsigned long long)fa[0], (unsigned long long)fa[1],
		      (unsigned long long)fa[2]);
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
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = mem,
				   .len = sizeof(mem)};

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

/* --- senders whom nobody has inserted yet -------------------------------------------------------- */

#define EARLY_CAPS (FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE)
#define EARLY_CNT  4
static const size_t early_len[EARLY_CNT] = {16, 20000, 300000, 1500000};

struct early {
	struct ct_buf b[EARLY_CNT];
};

/* Enabled, and no address inserted: rank 1 knows both, in the order self, peer. */
static void early_open(struct ct *c, struct early *e)
{
	c->want.no_enable = true;
	c->want.msg_order = FI_ORDER_SAS;
	ct_open(c);
	OK(fi_enable(c->ep));
	ct_get_name(c, c->ep, c->addr, &c->addr_len);
	ct_swap(c, c->addr, c->peer_addr, sizeof(c->addr));
	for (unsigned i = 0; i < EARLY_CNT; i++)
		ct_buf(c, &e->b[i], early_len[i], 0, 0);
	if (!c->rank)
		return;
	RET(1, fi_av_insert(c->av, c->addr, 1, &c->self, 0, NULL));
	RET(1, fi_av_insert(c->av, c->peer_addr, 1, &c->peer, 0, NULL));
}

static void early_close(struct ct *c, struct early *e)
{
	for (unsigned i = 0; i < EARLY_CNT; i++)
		ct_buf_free(c, &e->b[i]);
	ct_close(c);
}

static void early_send(struct ct *c, struct early *e)
{
	for (unsigned i = 0; i < EARLY_CNT; i++) {
		struct ct_msg m = {.tagged = true, .tag = i + 1, .addr = c->peer, .ctx = &c->ctx[i], .mem = e->b[i].mem,
				   .len = early_len[i], .buf = &e->b[i]};

		ct_fill(m.mem, m.len, m.tag);
		ct_send(c, &m);
		atomic_fetch_add((_Atomic uint8_t *)c->shared, 1);
	}
}

/* Both addresses, in the order of ranks, have the places that every program counts on. */
static void insert_both(struct ct *c)
{
	uint8_t both[128], back[64];
	fi_addr_t fa[2];

	memcpy(both, c->addr, c->addr_len);
	memcpy(both + c->addr_len, c->peer_addr, c->addr_len);
	RET(2, fi_av_insert(c->av, both, 2, fa, 0, NULL));
	/* those are addresses */
	if (strcmp(c->prov, "opx") || (c->want.av_type != FI_AV_MAP && c->v->av_type != FI_AV_MAP))
		CHECK(fa[0] == 0 && fa[1] == 1, "places %llu and %llu", (unsigned long long)fa[0],
		      (unsigned long long)fa[1]);
	for (unsigned i = 0; i < 2; i++) {
		size_t len = sizeof(back);

		OK(fi_av_lookup(c->av, fa[i], back, &len));
		CHECK(len == c->addr_len && !memcmp(back, both + i * len, len), "address %u is another one", i);
	}
	c->self = fa[0];
	c->peer = fa[1];
}

static void take_from(struct ct *c, struct early *e, unsigned i, fi_addr_t from, fi_addr_t want)
{
	struct ct_msg m = {.tagged = true, .tag = i + 1, .addr = from, .ctx = &c->ctx[i], .mem = e->b[i].mem,
			   .len = early_len[i], .buf = &e->b[i]};
	struct ct_comp r;

	memset(m.mem, 0, m.len);
	ct_recv(c, &m);
	r = ct_rx(c, m.ctx, FI_RECV | FI_TAGGED, m.len);
	CHECK(r.src == want, "message %u comes from %llu, not %llu", i, (unsigned long long)r.src,
	      (unsigned long long)want);
	ct_verify(c, m.mem, m.len, m.tag, "an early message");
}

static void early_sent(struct ct *c)
{
	for (unsigned i = 0; i < EARLY_CNT; i++)
		ct_comp(c, c->txcq);
}

/* Rank 0 lets its adapter, and its thread, have the first messages of rank 1 before it inserts anybody. */
static void early_run(struct ct *c)
{
	uint64_t until;
	struct early e;

	early_open(c, &e);
	if (c->rank) {
		early_send(c, &e);
		early_sent(c);
	} else {
		/* opx shakes hands first, for which both sides have to poll: there it cannot be early */
		for (until = ct_now_ms() + 500; !atomic_load((_Atomic uint8_t *)c->shared) && ct_now_ms() < until;)
			usleep(1000);
		usleep(100000); /* what the adapter's thread does in the meantime must not matter */
		insert_both(c);
		for (unsigned i = 0; i < EARLY_CNT; i++)
			take_from(c, &e, i, c->peer, c->peer);
	}
	ct_barrier(c);
	early_close(c, &e);
}

static void av_early(struct ct *c)
{
	early_run(c);
}

static void av_early_map(struct ct *c)
{
	c->want.av_type = FI_AV_MAP;
	early_run(c);
}

static void av_early_auto(struct ct *c)
{
	if (!(c->p->has & CT_HAS_AUTO))
		ct_skip(c, "no automatic progress");
	c->want.progress = FI_PROGRESS_AUTO;
	early_run(c);
}

static void receive(struct ct *c, fi_addr_t from, uint64_t ignore, void *ctx, struct ct_buf *b)
{
	struct ct_msg m = {.tagged = true, .tag = 1, .ignore = ct_tag(c, ignore), .addr = from, .ctx = ctx,
			   .mem = b->mem, .len = b->len, .buf = b};

	ct_recv(c, &m);
}

/* Rank 0 has seen the messages, and has taken one, before it inserts their sender; the others are his by name then. */
static void stranger_run(struct ct *c)
{
	struct ct_buf own;
	struct early e;

	early_open(c, &e);
	ct_buf(c, &own, 8, 0, 0);
	if (c->rank) {
		early_send(c, &e);
		early_sent(c);
	} else {
		for (unsigned i = 0; i < EARLY_CNT; i++)
			CHECK(ct_peeked(c, i + 1, FI_PEEK).src == FI_ADDR_NOTAVAIL, "a stranger has a name");
		take_from(c, &e, 0, FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL);
		insert_both(c);
		receive(c, c->self, ~0ULL, &c->ctx[20], &own); /* this one is not for them */
		for (unsigned i = 1; i < EARLY_CNT; i++)
			CHECK(ct_peeked(c, i + 1, FI_PEEK).src == c->peer, "message %u has no name", i);
		for (unsigned i = EARLY_CNT - 1; i; i--)
			take_from(c, &e, i, c->peer, c->peer);
		receive(c, c->self, 0, &c->ctx[21], &own);
		ct_send(c, &(struct ct_msg){.tagged = true, .tag = 77, .addr = c->self, .ctx = &c->ctx[2],
					    .mem = own.mem, .len = 8, .buf = &own});
		ct_comp(c, c->txcq);
		CHECK(ct_rx(c, &c->ctx[20], FI_RECV | FI_TAGGED, 8).src == c->self, "one's own message");
		OK(fi_cancel(&c->ep->fid, &c->ctx[21]));
		ct_comp_err(c, c->rxcq, FI_RECV | FI_TAGGED);
	}
	ct_barrier(c);
	ct_buf_free(c, &own);
	early_close(c, &e);
}

static void av_stranger(struct ct *c)
{
	stranger_run(c);
}

static void av_stranger_map(struct ct *c)
{
	c->want.av_type = FI_AV_MAP;
	stranger_run(c);
}

/* Receives that name an index which the program is about to give take what has come before it does. */
static void av_foreseen(struct ct *c)
{
	struct early e;

	early_open(c, &e);
	if (c->rank) {
		early_send(c, &e);
		early_sent(c);
	} else {
		for (unsigned i = 0; i < EARLY_CNT; i++) {
			struct ct_msg m = {.tagged = true, .tag = i + 1, .addr = 1, .ctx = &c->ctx[i],
					   .mem = e.b[i].mem, .len = early_len[i], .buf = &e.b[i]};

			ct_recv(c, &m);
		}
		/* of the second, its context has the claim: it is no receive's any more */
		ct_peeked(c, 2, FI_PEEK | FI_CLAIM);
		ct_peeked(c, 4, FI_PEEK);
		insert_both(c);
		for (unsigned i = 0; i < EARLY_CNT - 1; i++) {
			struct ct_comp r = ct_comp(c, c->rxcq);

			CHECK(r.src == c->peer && r.e.tag != 2, "tag %llu from %llu", (unsigned long long)r.e.tag,
			      (unsigned long long)r.src);
			ct_verify(c, e.b[r.e.tag - 1].mem, early_len[r.e.tag - 1], r.e.tag, "foreseen");
		}
		OK(fi_cancel(&c->ep->fid, &c->ctx[1]));
		ct_comp_err(c, c->rxcq, FI_RECV | FI_TAGGED);
		ct_recv(c, &(struct ct_msg){.call = CT_SENDMSG, .tagged = true, .tag = 2, .flags = FI_CLAIM,
					    .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[8], .mem = e.b[1].mem,
					    .len = early_len[1], .buf = &e.b[1]});
		CHECK(ct_comp(c, c->rxcq).src == c->peer, "what was claimed has no name");
		ct_verify(c, e.b[1].mem, early_len[1], 2, "claimed");
	}
	ct_barrier(c);
	early_close(c, &e);
}

static void say(struct ct *c, struct ct_buf *b, uint64_t tag, bool is_told)
{
	struct ct_msg m = {.call = CT_SENDMSG, .flags = is_told ? FI_DELIVERY_COMPLETE : 0, .tagged = true, .tag = tag,
			   .addr = c->peer, .ctx = &c->ctx[0], .mem = b->mem, .len = b->len, .buf = b};

	ct_fill(b->mem, b->len, tag);
	ct_send(c, &m);
	ct_comp(c, c->txcq);
}

static void hear(struct ct *c, struct ct_buf *b, uint64_t tag, fi_addr_t from, fi_addr_t want)
{
	struct ct_msg m = {.tagged = true, .tag = tag, .addr = from, .ctx = &c->ctx[1], .mem = b->mem, .len = b->len,
			   .buf = b};
	struct ct_comp r;

	ct_recv(c, &m);
	r = ct_rx(c, &c->ctx[1], FI_RECV | FI_TAGGED, b->len);
	CHECK(r.src == want, "tag %llu comes from %llu", (unsigned long long)tag, (unsigned long long)r.src);
	ct_verify(c, b->mem, b->len, tag, "heard");
}

/* Removed while it talks, twice; what it says in between is dropped or a stranger's, and never shifts an index. */
static void av_removed(struct ct *c)
{
	struct ct_buf b, end;

	ct_open(c);
	ct_buf(c, &b, 64, 0, 0);
	ct_buf(c, &end, 100000, 0, 0);
	for (uint64_t i = 0; i < 6; i++) {
		if (c->rank) {
			for (uint64_t k = 0; k < 10; k++)
				say(c, &b, 100 * i + k, false);
		} else {
			uint8_t none[64];

			for (uint64_t k = ct_below(c, 300); k; k--) /* somewhere in the middle */
				ct_progress(c);
			OK(fi_av_remove(c->av, &c->peer, 1, 0));
			make_addr(c, none, 40000 + (uint32_t)i);
			for (unsigned k = 0; k < 50; k++)
				ct_progress(c);
			RET(1, fi_av_insert(c->av, none, 1, &c->peer, 0, NULL));
			CHECK(c->peer == 1 + i, "somebody has taken place %llu", (unsigned long long)(1 + i));
			RET(1, fi_av_insert(c->av, c->peer_addr, 1, &c->peer, 0, NULL));
			CHECK(c->peer == 2 + i, "place %llu", (unsigned long long)c->peer);
			RET(1, fi_av_insert(c->av, c->peer_addr, 1, &c->peer, 0, NULL));
			CHECK(c->peer == 2 + i, "a second time place %llu", (unsigned long long)c->peer);
		}
		ct_barrier(c);
		/* both ways, and what needs a handshake */
		c->rank ? say(c, &end, 1000 + i, true) : hear(c, &end, 1000 + i, c->peer, c->peer);
		c->rank ? hear(c, &end, 2000 + i, c->peer, c->peer) : say(c, &end, 2000 + i, true);
		ct_barrier(c);
	}
	ct_buf_free(c, &b);
	ct_buf_free(c, &end);
	ct_close(c);
}

static void ep2_say(struct ct *c, struct ct_ep2 *e, uint64_t tag, bool ends)
{
	uint64_t text[2] = {tag, ~tag};
	ssize_t ret;

	while ((ret = fi_tsend(e->ep, text, sizeof(text), NULL, 0, tag, &c->ctx[0])) == -FI_EAGAIN)
		fi_cq_read(e->cq, NULL, 0);
	OK(ret);
	if (ends)
		ct_comp(c, e->cq);
}

static void ep2_open_to(struct ct *c, struct ct_ep2 *e)
{
	fi_addr_t to;

	ct_ep2_open(c, e);
	RET(1, fi_av_insert(e->av, c->peer_addr, 1, &to, 0, NULL));
}

/*
 * A stranger and, when it is gone, another one, who may have got its queue pair or context: each is inserted later and
 * has its own.
 */
static void av_successor(struct ct *c)
{
	uint8_t addr[2][64] = {{0}};
	struct ct_buf b;
	bool is_same;

	c->want.av_type = FI_AV_TABLE;
	ct_open(c);
	ct_buf(c, &b, 16, 0, 0);
	for (unsigned i = 0; i < 2; i++) {
		struct ct_ep2 e;

		if (c->rank) {
			ep2_open_to(c, &e);
			memcpy(addr[i], e.addr, e.addr_len);
			ep2_say(c, &e, 10 + i, true);
		} else {
			CHECK(ct_peeked(c, 10 + i, FI_PEEK).src == FI_ADDR_NOTAVAIL, "a stranger has a name");
		}
		ct_barrier(c);
		if (c->rank)
			ct_ep2_close(c, &e);
	}
	ct_swap(c, addr, addr, sizeof(addr));
	is_same = !memcmp(addr[0], addr[1], sizeof(addr[0]));
	for (unsigned i = 2; !c->rank && i--;) {
		struct ct_msg m = {.tagged = true, .tag = 10 + i, .ctx = &c->ctx[1], .mem = b.mem, .len = b.len,
				   .buf = &b};

		RET(1, fi_av_insert(c->av, addr[i], 1, &m.addr, 0, NULL));
		ct_recv(c, &m);
		CHECK(ct_rx(c, &c->ctx[1], FI_RECV | FI_TAGGED, 16).src == m.addr || is_same, "message of endpoint %u",
		      i);
		CHECK(((uint64_t *)(void *)b.mem)[0] == 10 + i, "message of another endpoint");
	}
	ct_buf_free(c, &b);
	ct_close(c);
}

#define CROWD 5

static void crowd_hear(struct ct *c, struct ct_buf *b, uint64_t tag, fi_addr_t from, fi_addr_t want)
{
	struct ct_msg m = {.tagged = true, .tag = tag, .addr = from, .ctx = &c->ctx[1], .mem = b->mem, .len = b->len,
			   .buf = b};

	ct_recv(c, &m);
	CHECK(ct_rx(c, &c->ctx[1], FI_RECV | FI_TAGGED, 16).src == want, "tag %llu has another source",
	      (unsigned long long)tag);
	CHECK(((uint64_t *)(void *)b->mem)[0] == tag, "another message");
}

/*
 * Five strangers where two are remembered: whoever comes back is known again, and nothing is lost, also when it gets
 * its name at last.
 */
static void av_forgotten(struct ct *c)
{
	struct ct_ep2 e[CROWD] = {{0}};
	struct ct_buf b;

	ct_open(c);
	ct_buf(c, &b, 16, 0, 0);
	for (unsigned i = 0; c->rank && i < CROWD; i++)
		ep2_open_to(c, &e[i]);
	for (uint64_t round = 0; round < 4; round++)
		for (unsigned i = 0; i < CROWD; i++) {
			c->rank ? ep2_say(c, &e[i], 10 * round + i, true)
				: crowd_hear(c, &b, 10 * round + i, FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL);
			ct_barrier(c);
		}
	ct_swap(c, e[0].addr, e[0].addr, sizeof(e[0].addr));
	if (c->rank) {
		struct ct_buf in;

		ct_buf(c, &in, 100000, 0, 0);
		OK(fi_trecv(e[0].ep, in.mem, in.len, in.mr ? fi_mr_desc(in.mr) : NULL, FI_ADDR_UNSPEC, 500, 0,
			    &c->ctx[1]));
		CHECK(ct_comp(c, e[0].cq).e.len == in.len, "length");
		ct_verify(c, in.mem, in.len, 500, "to a stranger that was forgotten");
		ep2_say(c, &e[0], 501, true);
		ct_buf_free(c, &in);
	} else {
		struct ct_buf out;

		CHECK(ct_stat(c, "implicit_forgotten") >= 4 * CROWD - 2 - CROWD, "%llu forgotten",
		      (unsigned long long)ct_stat(c, "implicit_forgotten"));
		RET(1, fi_av_insert(c->av, e[0].addr, 1, &c->peer, 0, NULL));
		CHECK(c->peer == 2, "place %llu", (unsigned long long)c->peer);
		ct_buf(c, &out, 100000, 0, 0);
		say(c, &out, 500, true);
		ct_buf_free(c, &out);
		crowd_hear(c, &b, 501, c->peer, c->peer);
	}
	ct_barrier(c);
	for (unsigned i = 0; c->rank && i < CROWD; i++)
		ct_ep2_close(c, &e[i]);
	ct_buf_free(c, &b);
	ct_close(c);
}

/* Whichever comes first: those that have a place here make room for the others. */
static void crowd_heard(struct ct *c, struct ct_buf *b)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < CROWD; i++) {
		struct ct_comp r;

		receive(c, FI_ADDR_UNSPEC, ~0ULL, &c->ctx[1], b);
		r = ct_rx(c, &c->ctx[1], FI_RECV | FI_TAGGED, 16);
		CHECK(r.src == FI_ADDR_NOTAVAIL && r.e.tag - 10 < CROWD, "tag %llu from %llu",
		      (unsigned long long)r.e.tag, (unsigned long long)r.src);
		CHECK(((uint64_t *)(void *)b->mem)[0] == r.e.tag, "another message");
		seen |= 1u << (r.e.tag - 10);
	}
	CHECK(seen == (1u << CROWD) - 1, "of whom: %#x", seen);
}

static void crowd_sent(struct ct *c, struct ct_ep2 *e)
{
	struct fi_cq_tagged_entry t;
	ssize_t ret;

	for (unsigned i = 0, cnt = 0; cnt < CROWD; i = (i + 1) % CROWD) {
		ret = fi_cq_read(e[i].cq, &t, 1);
		CHECK(ret == 1 || ret == -FI_EAGAIN, "%s", ct_err(ret));
		cnt += ret == 1;
	}
}

/*
 * As many messages wait as strangers are remembered: the next ones have to wait at their senders, and come when there
 * is room.
 */
static void av_crowded(struct ct *c)
{
	struct ct_ep2 e[CROWD] = {{0}};
	struct ct_buf b;

	ct_open(c);
	ct_buf(c, &b, 16, 0, 0);
	for (unsigned i = 0; c->rank && i < CROWD; i++) {
		ep2_open_to(c, &e[i]);
		ep2_say(c, &e[i], 10 + i, false);
	}
	/* unless the adapter's thread has accepted all of them before we look: then they are all here */
	while (!c->rank && !ct_stat(c, "implicit_refused") && ct_stat(c, "implicit_peers") < CROWD)
		ct_progress(c);
	if (!c->rank)
		atomic_store((_Atomic uint8_t *)c->shared, 1);
	while (!atomic_load((_Atomic uint8_t *)c->shared))
		for (unsigned i = 0; i < CROWD; i++)
			fi_cq_read(e[i].cq, NULL, 0);
	ct_barrier(c);
	if (c->rank)
		crowd_sent(c, e);
	else
		crowd_heard(c, &b);
	ct_barrier(c);
	for (unsigned i = 0; c->rank && i < CROWD; i++)
		ct_ep2_close(c, &e[i]);
	ct_buf_free(c, &b);
	ct_close(c);
}

const struct ct_test av_tests[] = {
	{"av_insert", av_insert, FI_MSG, 0, CT_SOLO, NULL},
	{"av_text", av_text, FI_MSG, 0, 0, NULL},
	{"av_errors", av_errors, FI_MSG, 0, CT_SOLO, NULL},
	{"av_reinsert", av_reinsert, FI_MSG, 0, CT_GENS, NULL},
	{"av_open_errors", av_open_errors, FI_MSG, 0, CT_SOLO, NULL},
	{"av_many", av_many, FI_MSG, 0, CT_SOLO, NULL},
	{"av_early", av_early, EARLY_CAPS, 0, CT_GENS | CT_LOSSY, NULL},
	{"av_early_map", av_early_map, EARLY_CAPS, 0, 0, NULL},
	{"av_early_auto", av_early_auto, EARLY_CAPS, 0, CT_GENS, NULL},
	{"av_stranger", av_stranger, EARLY_CAPS, 0, CT_GENS | CT_LOSSY, NULL},
	{"av_stranger_map", av_stranger_map, EARLY_CAPS, 0, 0, NULL},
	{"av_foreseen", av_foreseen, EARLY_CAPS, 0, CT_GENS, NULL, NULL, "efa"},
	{"av_removed", av_removed, EARLY_CAPS, 0, CT_GENS, NULL, NULL, "efa"},
	{"av_successor", av_successor, EARLY_CAPS, 0, 0, NULL},
	{"av_forgotten", av_forgotten, EARLY_CAPS, 0, 0, NULL, "FI_EFA_IMPLICIT_AV_SIZE=2", "efa"},
	{"av_crowded", av_crowded, EARLY_CAPS, 0, 0, NULL, "FI_EFA_IMPLICIT_AV_SIZE=2", "efa"},
	{0},
};
