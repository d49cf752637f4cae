// SPDX-License-Identifier: BSD-2-Clause
// FI_TAGGED: all its calls, matching by tag and mask against a model, peek, claim, discard.
#include "conform.h"

#include <stdlib.h>

#define TXF (FI_SEND | FI_TAGGED)
#define RXF (FI_RECV | FI_TAGGED)

static void tagged_send(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, true, CT_SEND, 0);
	ct_close(c);
}

static void tagged_sendv(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, true, CT_SENDV, 0);
	ct_close(c);
}

static void tagged_sendmsg(struct ct *c)
{
	static const uint64_t flags[] = {0,
					 FI_COMPLETION,
					 FI_REMOTE_CQ_DATA,
					 FI_TRANSMIT_COMPLETE,
					 FI_DELIVERY_COMPLETE,
					 FI_INJECT | FI_REMOTE_CQ_DATA,
					 FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA,
					 FI_INJECT_COMPLETE};

	ct_open(c);
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		ct_sweep(c, true, CT_SENDMSG, flags[i]);
	ct_close(c);
}

static void tagged_inject(struct ct *c)
{
	ct_open(c);
	ct_inject_limits(c, true);
	ct_close(c);
}

static void tagged_data(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, true, CT_SENDDATA, 0);
	ct_sweep(c, true, CT_INJECTDATA, 0);
	ct_close(c);
}

static void tagged_order(struct ct *c)
{
	c->want.msg_order = FI_ORDER_SAS;
	ct_open(c);
	ct_stream(c, true, 400, true);
	ct_stream(c, true, 400, false);
	ct_close(c);
}

static void tagged_unexpected(struct ct *c)
{
	ct_open(c);
	ct_unexpected(c, true);
	ct_close(c);
}

static void tagged_truncate(struct ct *c)
{
	ct_open(c);
	ct_truncate(c, true);
	ct_close(c);
}

static void tagged_selective(struct ct *c)
{
	c->want.tx_bind = c->want.rx_bind = FI_SELECTIVE_COMPLETION;
	c->want.cntr_flags = FI_SEND | FI_RECV;
	ct_open(c);
	ct_selective(c, true);
	ct_close(c);
}

static void tagged_cancel(struct ct *c)
{
	ct_open(c);
	ct_cancel(c, true);
	ct_close(c);
}

static void tagged_delivery(struct ct *c)
{
	ct_open(c);
	ct_delivery(c, true);
	ct_close(c);
}

static void tagged_self(struct ct *c)
{
	ct_open(c);
	ct_self(c, true);
	ct_close(c);
}

static void tagged_flood(struct ct *c)
{
	ct_open(c);
	ct_flood(c, true);
	ct_close(c);
}

/* --- matching against a model -------------------------------------------------------------------- */

#define MATCH_CNT 300

/* Few tags and masks, so that much can match much. The same on both ranks. */
struct match_plan {
	uint64_t tag[MATCH_CNT];                          /* of the messages, in the order sent */
	uint64_t rtag[MATCH_CNT], rignore[MATCH_CNT];     /* of the receives, in the order posted */
	bool wild[MATCH_CNT];
	int msg_of[MATCH_CNT];                            /* which message receive i must get, or -1 */
};

static bool matches(const struct match_plan *p, unsigned r, unsigned m)
{
	return (p->tag[m] | p->rignore[r]) == (p->rtag[r] | p->rignore[r]);
}

/*
 * All messages are unexpected before the first receive is posted, or (@expected) all receives are posted before the
 * first message.
 */
static void match_model(struct match_plan *p, bool expected)
{
	bool taken[MATCH_CNT] = {false};

	for (unsigned r = 0; r < MATCH_CNT; r++)
		p->msg_of[r] = -1;
	if (expected) {
		for (unsigned m = 0; m < MATCH_CNT; m++)
			for (unsigned r = 0; r < MATCH_CNT; r++)
				if (p->msg_of[r] < 0 && matches(p, r, m)) {
					p->msg_of[r] = (int)m;
					break;
				}
		return;
	}
	for (unsigned r = 0; r < MATCH_CNT; r++)
		for (unsigned m = 0; m < MATCH_CNT; m++)
			if (!taken[m] && matches(p, r, m)) {
				taken[m] = true;
				p->msg_of[r] = (int)m;
				break;
			}
}

static void match_plan(struct ct *c, struct match_plan *p, bool expected)
{
	static const uint64_t mask[] = {0, 0, 0, 0xff, 0xf0, ~0ULL, 0xffffffff00000000ULL, 0x1};
	struct ct tmp = {.rng = c->seed ^ 0x7a67};

	for (unsigned i = 0; i < MATCH_CNT; i++) {
		p->tag[i] = ct_tag(c, (ct_below(&tmp, 4) << 38) | ct_below(&tmp, 20));
		p->rtag[i] = ct_tag(c, (ct_below(&tmp, 4) << 38) | ct_below(&tmp, 20));
		p->rignore[i] = ct_tag(c, mask[ct_below(&tmp, 8)]);
	}
	match_model(p, expected);
}

static void match_send(struct ct *c, const struct match_plan *p)
{
	uint32_t v;

	for (unsigned i = 0; i < MATCH_CNT; i++) {
		struct ct_msg m = {.call = CT_INJECT, .tagged = true, .tag = p->tag[i], .addr = c->peer,
				   .mem = (uint8_t *)&v, .len = sizeof(v)};

		v = i;
		ct_send(c, &m);
	}
}

static void match_post(struct ct *c, const struct match_plan *p, struct ct_buf *b)
{
	for (unsigned r = 0; r < MATCH_CNT; r++) {
		struct ct_msg m = {.tagged = true, .tag = p->rtag[r], .ignore = p->rignore[r], .ctx = &c->ctx[r],
				   .mem = b->mem + 4 * r, .len = 4, .buf = b, .addr = r % 2 ? FI_ADDR_UNSPEC : c->peer};

		ct_recv(c, &m);
	}
}

static void match_check(struct ct *c, const struct match_plan *p, struct ct_buf *b)
{
	unsigned due = 0;

	for (unsigned r = 0; r < MATCH_CNT; r++)
		due += p->msg_of[r] >= 0;
	for (; due; due--) {
		struct ct_comp done = ct_comp(c, c->rxcq);
		size_t r = (size_t)((struct fi_context2 *)done.e.op_context - c->ctx);
		uint32_t got;

		CHECK(r < MATCH_CNT, "foreign context");
		memcpy(&got, b->mem + 4 * r, 4);
		CHECK(p->msg_of[r] == (int)got, "receive %zu (tag %#llx ignore %#llx) took message %u, not %d", r,
		      (unsigned long long)p->rtag[r], (unsigned long long)p->rignore[r], got, p->msg_of[r]);
		CHECK(done.e.tag == p->tag[got], "tag %#llx reported for %#llx", (unsigned long long)done.e.tag,
		      (unsigned long long)p->tag[got]);
	}
	for (unsigned r = 0; r < MATCH_CNT; r++)
		if (p->msg_of[r] < 0) {
			OK(fi_cancel(&c->ep->fid, &c->ctx[r]));
			CHECK(ct_comp_err(c, c->rxcq, FI_RECV | FI_TAGGED).err == FI_ECANCELED, "cancelled receive");
		}
}

static void match_run(struct ct *c, bool expected)
{
	struct match_plan p;
	struct ct_buf b;

	ct_open(c);
	match_plan(c, &p, expected);
	ct_buf(c, &b, MATCH_CNT * 4, 0, 0);
	if (expected && c->rank)
		match_post(c, &p, &b);
	ct_barrier(c);
	if (!c->rank)
		match_send(c, &p);
	if (!expected) {
		ct_barrier(c);
		for (unsigned i = 0; i < 100; i++)
			ct_progress(c);
		if (c->rank)
			match_post(c, &p, &b);
	}
	if (c->rank)
		match_check(c, &p, &b);
	ct_buf_free(c, &b);
	ct_barrier(c);
	/* Messages that nobody wanted stay unexpected; closing drops them. */
	ct_close(c);
}

static void tagged_match_expected(struct ct *c)
{
	match_run(c, true);
}

static void tagged_match_unexpected(struct ct *c)
{
	match_run(c, false);
}

/* --- peek, claim, discard ------------------------------------------------------------------------ */

static void peek_misses(struct ct *c, uint64_t tag, uint64_t flags)
{
	struct fi_cq_err_entry e;

	ct_peek(c, tag, flags, &c->ctx[9]);
	e = ct_comp_err(c, c->rxcq, FI_RECV | FI_TAGGED);
	CHECK(e.err == FI_ENOMSG, "error %d (%s)", e.err, fi_strerror(e.err));
	CHECK(e.op_context == &c->ctx[9], "context of another operation");
}

static void take(struct ct *c, uint64_t tag, uint64_t flags, void *ctx, struct ct_buf *b, size_t len)
{
	struct ct_msg m = {.call = CT_SENDMSG, .tagged = true, .tag = tag, .flags = flags, .addr = FI_ADDR_UNSPEC,
			   .ctx = ctx, .mem = b->mem, .len = len, .buf = b};

	ct_recv(c, &m);
	ct_rx(c, ctx, RXF | FI_REMOTE_CQ_DATA, len);
	ct_verify(c, b->mem, len, tag, "taken");
}

static void peek_recv_side(struct ct *c, size_t len, struct ct_buf *b)
{
	struct ct_comp r;

	peek_misses(c, 99, FI_PEEK);
	peek_misses(c, 99, FI_PEEK | FI_CLAIM);
	peek_misses(c, 99, FI_PEEK | FI_DISCARD);
	r = ct_peeked(c, 1, FI_PEEK);
	CHECK(r.e.len == len, "peeked length %zu of %zu", r.e.len, len);
	CHECK(r.e.flags & FI_REMOTE_CQ_DATA && r.e.data == 1, "peeked data %llu", (unsigned long long)r.e.data);
	ct_peeked(c, 1, FI_PEEK); /* still there */
	take(c, 1, 0, &c->ctx[1], b, len);
	peek_misses(c, 1, FI_PEEK);

	r = ct_peeked(c, 2, FI_PEEK | FI_CLAIM);
	CHECK(r.e.len == len, "claimed length %zu", r.e.len);
	peek_misses(c, 2, FI_PEEK); /* claimed: hidden from everyone else */
	take(c, 2, FI_CLAIM, &c->ctx[8], b, len);

	ct_peeked(c, 3, FI_PEEK | FI_CLAIM);
	ct_peek(c, 3, FI_CLAIM | FI_DISCARD, &c->ctx[8]);
	CHECK(ct_comp(c, c->rxcq).e.op_context == &c->ctx[8], "discarding a claimed message completes");

	ct_peeked(c, 4, FI_PEEK | FI_DISCARD);
	peek_misses(c, 4, FI_PEEK);
	take(c, 5, 0, &c->ctx[1], b, len); /* the rest of the order is unharmed */
}

static void tagged_peek(struct ct *c)
{
	static const size_t lens[] = {0, 10, 8000, 12000, 50000, 300000, 1500000};

	ct_open(c);
	for (unsigned k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		struct ct_buf b;

		ct_buf(c, &b, lens[k], 0, 0);
		if (c->rank == 0) {
			for (uint64_t tag = 1; tag <= 5; tag++) {
				struct ct_msg m = {.call = CT_SENDDATA, .tagged = true, .tag = tag, .data = tag,
						   .addr = c->peer, .ctx = &c->ctx[0], .mem = b.mem, .len = b.len,
						   .buf = &b};

				ct_fill(b.mem, b.len, tag);
				ct_send(c, &m);
				ct_tx(c, &c->ctx[0], TXF);
			}
		} else {
			peek_recv_side(c, lens[k], &b);
		}
		ct_barrier(c);
		ct_buf_free(c, &b);
	}
	ct_close(c);
}

/* Tagged and untagged messages do not see one another. */
static void tagged_apart(struct ct *c)
{
	struct ct_buf b;

	ct_open(c);
	ct_buf(c, &b, 200, 0, 0);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned k = 0; k < 2; k++) {
			bool tagged = k == round;
			struct ct_msg m = {.tagged = c->rank ? !tagged : tagged, .tag = 5,
					   .ignore = c->rank ? ct_tag(c, ~0ULL) : 0, .ctx = &c->ctx[k],
					   .addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .mem = b.mem + k * 100,
					   .len = 100, .buf = &b};

			if (c->rank == 0) {
				ct_fill(m.mem, 100, tagged);
				ct_send(c, &m);
			} else {
				ct_recv(c, &m);
			}
		}
		for (unsigned k = 0; k < 2; k++) {
			struct ct_comp r = ct_comp(c, c->rank ? c->rxcq : c->txcq);

			if (c->rank) {
				size_t i = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx);

				ct_verify(c, b.mem + i * 100, 100, i != round, "of the other kind");
			}
		}
		ct_barrier(c);
	}
	ct_buf_free(c, &b);
	ct_close(c);
}

/* Every bit of mem_tag_format that is offered as a tag bit tells messages apart. */
static void tagged_bits(struct ct *c)
{
	unsigned bits;
	uint64_t v = 0;

	ct_open(c);
	CHECK(c->info->ep_attr->mem_tag_format, "no tag bits");
	bits = 64 - (unsigned)__builtin_clzll(ct_tag(c, ~0ULL));
	for (unsigned bit = 0; bit < bits; bit++) {
		struct ct_msg m = {.call = c->rank ? CT_SEND : CT_INJECT, .tagged = true, .tag = 1ULL << bit,
				   .ctx = &c->ctx[bit], .addr = c->rank ? FI_ADDR_UNSPEC : c->peer,
				   .mem = (uint8_t *)&v, .len = 8};

		if (!c->rank) {
			v = m.tag;
			ct_send(c, &m);
		}
	}
	ct_barrier(c);
	for (int bit = (int)bits - 1; bit >= 0 && c->rank; bit--) {
		struct ct_msg m = {.tagged = true, .tag = 1ULL << bit, .ctx = &c->ctx[bit], .addr = FI_ADDR_UNSPEC,
				   .mem = (uint8_t *)&v, .len = 8};

		ct_recv(c, &m);
		ct_rx(c, &c->ctx[bit], RXF, 8);
		CHECK(v == m.tag, "message %#llx for tag %#llx", (unsigned long long)v, (unsigned long long)m.tag);
	}
	ct_close(c);
}

#define EVERYWHERE (CT_GENS | CT_LOSSY)
const struct ct_test tagged_tests[] = {
	{"tagged_send", tagged_send, FI_TAGGED, 0, EVERYWHERE, "FI_TAGGED FI_SEND FI_RECV"},
	{"tagged_sendv", tagged_sendv, FI_TAGGED, 0, EVERYWHERE, "tx.iov_limit rx.iov_limit"},
	{"tagged_sendmsg", tagged_sendmsg, FI_TAGGED, 0, EVERYWHERE, "op:FI_COMPLETION op:FI_TRANSMIT_COMPLETE"},
	{"tagged_inject", tagged_inject, FI_TAGGED, 0, EVERYWHERE, "inject_size"},
	{"tagged_data", tagged_data, FI_TAGGED, 0, EVERYWHERE, "cq_data_size"},
	{"tagged_order", tagged_order, FI_TAGGED, 0, EVERYWHERE, "order:FI_ORDER_SAS", NULL, NULL, 60},
	{"tagged_unexpected", tagged_unexpected, FI_TAGGED, 0, EVERYWHERE, NULL},
	{"tagged_truncate", tagged_truncate, FI_TAGGED, 0, EVERYWHERE, NULL},
	{"tagged_selective", tagged_selective, FI_TAGGED, 0, CT_GENS, NULL},
	{"tagged_cancel", tagged_cancel, FI_TAGGED, 0, 0, NULL},
	{"tagged_delivery", tagged_delivery, FI_TAGGED, 0, EVERYWHERE, "op:FI_DELIVERY_COMPLETE"},
	{"tagged_self", tagged_self, FI_TAGGED, 0, CT_GENS | CT_SOLO | CT_ANY_PATH, NULL},
	{"tagged_flood", tagged_flood, FI_TAGGED, 0, CT_GENS, "tx.size"},
	{"tagged_match_expected", tagged_match_expected, FI_TAGGED | FI_DIRECTED_RECV, 0, 0,
	 "FI_DIRECTED_RECV mem_tag_format"},
	{"tagged_match_unexpected", tagged_match_unexpected, FI_TAGGED | FI_DIRECTED_RECV, 0, 0, "FI_DIRECTED_RECV"},
	{"tagged_peek", tagged_peek, FI_TAGGED, 0, CT_GENS, NULL},
	{"tagged_apart", tagged_apart, FI_TAGGED | FI_MSG, 0, 0, NULL},
	{"tagged_bits", tagged_bits, FI_TAGGED, 0, 0, "mem_tag_format"},
	{0},
};
