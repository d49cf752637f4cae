// SPDX-License-Identifier: BSD-2-Clause
// Exchanges that FI_MSG and FI_TAGGED have in common: sizes, calls, order, truncation, cancel, selective completion.
#include "conform.h"

#include <stdlib.h>

#define TAG (ct_tag(c, 0x1122334455667788ULL)) /* of what the format offers */

static uint64_t tx_flags(bool tagged)
{
	return FI_SEND | (tagged ? FI_TAGGED : FI_MSG);
}

static uint64_t rx_flags(bool tagged)
{
	return FI_RECV | (tagged ? FI_TAGGED : FI_MSG);
}

static bool has_data(enum ct_call call, uint64_t flags)
{
	return call == CT_SENDDATA || call == CT_INJECTDATA || (call == CT_SENDMSG && (flags & FI_REMOTE_CQ_DATA));
}

static bool is_inject(enum ct_call call, uint64_t flags)
{
	return call == CT_INJECT || call == CT_INJECTDATA || (call == CT_SENDMSG && (flags & FI_INJECT));
}

static enum ct_call recv_call(enum ct_call call)
{
	return call == CT_SENDV || call == CT_SENDMSG ? call : CT_SEND;
}

/* One message each way at once, of @len bytes. Even @i: the receive is posted first. */
static void sweep_one(struct ct *c, struct ct_msg *s, unsigned i, size_t len)
{
	uint64_t flags = rx_flags(s->tagged) | (has_data(s->call, s->flags) ? FI_REMOTE_CQ_DATA : 0);
	struct ct_buf sb, rb;
	struct ct_comp got;
	struct ct_msg r = {.call = recv_call(s->call), .tagged = s->tagged, .iov_cnt = s->iov_cnt, .tag = s->tag,
			   .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[1]};

	ct_buf(c, &sb, len, (unsigned)ct_below(c, 64), 0);
	ct_buf(c, &rb, len, (unsigned)ct_below(c, 64), 0);
	ct_fill(sb.mem, len, i * 2 + (unsigned)c->rank);
	s->mem = sb.mem, s->len = len, s->buf = &sb;
	r.mem = rb.mem, r.len = len, r.buf = &rb;
	if (i % 2 == 0)
		ct_recv(c, &r);
	ct_send(c, s);
	if (is_inject(s->call, s->flags))
		memset(sb.mem, 0xee, len); /* the buffer is ours again at once */
	if (i % 2)
		ct_recv(c, &r);
	got = ct_rx(c, &c->ctx[1], flags, len);
	CHECK(!has_data(s->call, s->flags) || got.e.data == s->data, "remote CQ data %#llx",
	      (unsigned long long)got.e.data);
	CHECK(!s->tagged || got.e.tag == s->tag, "tag %#llx", (unsigned long long)got.e.tag);
	ct_verify(c, rb.mem, len, i * 2 + (unsigned)!c->rank, "received");
	if (ct_completes(s))
		ct_tx(c, &c->ctx[0], tx_flags(s->tagged));
	ct_buf_free(c, &sb);
	ct_buf_free(c, &rb);
}

void ct_sweep(struct ct *c, bool tagged, enum ct_call call, uint64_t flags)
{
	size_t iov_limit = c->info->tx_attr->iov_limit < c->info->rx_attr->iov_limit ? c->info->tx_attr->iov_limit
										    : c->info->rx_attr->iov_limit;

	for (unsigned i = 0; ct_sizes[i] != SIZE_MAX; i++) {
		struct ct_msg m = {.call = call, .tagged = tagged, .tag = TAG + i, .data = 0xfedc0000u + i,
				   .flags = flags, .addr = c->peer, .ctx = &c->ctx[0]};

		if (is_inject(call, flags) && ct_sizes[i] > c->info->tx_attr->inject_size)
			break;
		m.iov_cnt = call == CT_SENDV || call == CT_SENDMSG ? i % (unsigned)iov_limit + 1 : 1;
		sweep_one(c, &m, i, ct_sizes[i]);
	}
}

/* --- streams: message i has a size and a call that both ranks can work out ---------------------------------------- */

#define STREAM_MAX (1048576 + 16)
#define WINDOW     16

static uint64_t dice(const struct ct *c, uint64_t i, uint64_t what)
{
	struct ct tmp = {.rng = c->seed ^ (i * 31 + what)};

	return ct_rand(&tmp);
}

static size_t stream_len(const struct ct *c, unsigned i)
{
	uint64_t d = dice(c, i, 1);

	if (d % 100 < 60)
		return d / 100 % 9000;
	if (d % 100 < 85)
		return d / 100 % 70000;
	if (d % 100 < 96)
		return d / 100 % 400000;
	return 1048570 + d / 100 % 17;
}

unsigned ct_iov_max(const struct ct *c, unsigned n)
{
	return c->info->tx_attr->iov_limit < n ? (unsigned)c->info->tx_attr->iov_limit : n;
}

static struct ct_msg stream_msg(struct ct *c, bool tagged, unsigned i)
{
	struct ct_msg m = {.tagged = tagged, .tag = TAG, .data = i, .addr = c->peer, .len = stream_len(c, i)};

	m.call = (enum ct_call)(dice(c, i, 2) % CT_CALL_NUM);
	if (is_inject(m.call, 0) && m.len > c->info->tx_attr->inject_size)
		m.call = CT_SENDDATA;
	m.iov_cnt = m.call == CT_SENDV || m.call == CT_SENDMSG ? 1 + i % ct_iov_max(c, 4) : 1;
	if (m.call == CT_SENDMSG)
		m.flags = (dice(c, i, 3) % 2 ? FI_REMOTE_CQ_DATA : 0) | (dice(c, i, 4) % 3 ? 0 : FI_DELIVERY_COMPLETE);
	return m;
}

/* A slot's context is &c->ctx[slot]; it is free again when its completion has come. */
static void stream_send(struct ct *c, bool tagged, unsigned cnt, unsigned base)
{
	struct ct_buf buf[WINDOW];
	bool busy[WINDOW] = {false};
	unsigned open = 0;

	for (unsigned s = 0; s < WINDOW; s++)
		ct_buf(c, &buf[s], STREAM_MAX, s * 5, 0);
	for (unsigned i = 0; i < cnt || open;) {
		unsigned s = i % WINDOW;

		if (i < cnt && !busy[s]) {
			struct ct_msg m = stream_msg(c, tagged, base + i);

			ct_fill(buf[s].mem, m.len, base + i);
			m.mem = buf[s].mem, m.buf = &buf[s], m.ctx = &c->ctx[s];
			ct_send(c, &m);
			busy[s] = ct_completes(&m);
			open += busy[s];
			i++;
		} else {
			struct ct_comp r = ct_comp(c, c->txcq);
			size_t slot = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx);

			CHECK(slot < WINDOW && busy[slot], "a completion of nothing that is open");
			busy[slot] = false;
			open--;
		}
	}
	for (unsigned s = 0; s < WINDOW; s++)
		ct_buf_free(c, &buf[s]);
}

static void stream_check(struct ct *c, bool tagged, const struct ct_comp *r, unsigned i, const struct ct_buf *b)
{
	struct ct_msg m = stream_msg(c, tagged, i);
	bool data = has_data(m.call, m.flags);

	CHECK(r->e.len == m.len, "message %u has %zu bytes, not %zu: order was not kept", i, r->e.len, m.len);
	CHECK((r->e.flags & ~FI_COMPLETION) == (rx_flags(tagged) | (data ? FI_REMOTE_CQ_DATA : 0)),
	      "flags %#llx of message %u", (unsigned long long)r->e.flags, i);
	CHECK(!data || r->e.data == i, "data of message %u is %llu", i, (unsigned long long)r->e.data);
	ct_verify(c, b->mem, m.len, i, "streamed");
}

/* Receives are posted in order, so the i-th posted one gets message i whatever order completions come in. */
static void stream_recv(struct ct *c, bool tagged, unsigned cnt, unsigned base, bool preposted)
{
	struct ct_buf buf[WINDOW];
	int msg_of[WINDOW];
	unsigned posted = 0, done = 0;

	for (unsigned s = 0; s < WINDOW; s++) {
		ct_buf(c, &buf[s], STREAM_MAX, s * 3, 0);
		msg_of[s] = -1;
	}
	while (done < cnt) {
		unsigned s = posted % WINDOW;

		if (posted < cnt && msg_of[s] < 0 && (preposted || posted == done || ct_below(c, 2))) {
			struct ct_msg m = {.call = (enum ct_call)(posted % 3), .tagged = tagged, .tag = TAG,
					   .iov_cnt = 1, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[WINDOW + s],
					   .mem = buf[s].mem, .len = STREAM_MAX, .buf = &buf[s]};

			ct_recv(c, &m);
			msg_of[s] = (int)(base + posted++);
		} else {
			struct ct_comp r = ct_comp(c, c->rxcq);
			size_t slot = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx) - WINDOW;

			CHECK(slot < WINDOW && msg_of[slot] >= 0, "a completion of nothing that is open");
			stream_check(c, tagged, &r, (unsigned)msg_of[slot], &buf[slot]);
			msg_of[slot] = -1;
			done++;
		}
	}
	for (unsigned s = 0; s < WINDOW; s++)
		ct_buf_free(c, &buf[s]);
}

void ct_stream(struct ct *c, bool tagged, unsigned cnt, bool preposted)
{
	for (int round = 0; round < 2; round++) {
		if (c->rank == round)
			stream_send(c, tagged, cnt, (unsigned)round * cnt);
		else
			stream_recv(c, tagged, cnt, (unsigned)round * cnt, preposted);
		ct_barrier(c);
	}
}

/* --- unexpected ---------------------------------------------------------------------------------- */

#define UNEXP 24

void ct_unexpected(struct ct *c, bool tagged)
{
	static const size_t len[UNEXP] = {0, 1, 64, 70000, 5, 20000, 1048577, 8916, 8917, 300000, 3, 65536,
					  65537, 100, 0, 9000, 2000000, 7, 284673, 33, 4096, 8872, 8873, 12};
	struct ct_buf buf[UNEXP];

	for (unsigned i = 0; i < UNEXP; i++) {
		ct_buf(c, &buf[i], len[i], i, 0);
		if (c->rank == 0)
			ct_fill(buf[i].mem, len[i], i);
	}
	for (unsigned i = 0; i < UNEXP && c->rank == 0; i++) {
		struct ct_msg m = {.tagged = tagged, .tag = TAG + i, .addr = c->peer, .ctx = &c->ctx[i],
				   .mem = buf[i].mem, .len = len[i], .buf = &buf[i]};

		ct_send(c, &m);
	}
	ct_barrier(c);
	for (unsigned k = 0; k < UNEXP && c->rank == 1; k++) {
		unsigned i = tagged ? UNEXP - 1 - k : k; /* by tag, any message can be taken first */
		struct ct_msg m = {.tagged = tagged, .tag = TAG + i, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i],
				   .mem = buf[i].mem, .len = len[i], .buf = &buf[i]};

		ct_recv(c, &m);
	}
	for (unsigned k = 0; k < UNEXP; k++) {
		struct ct_comp r = ct_comp(c, c->rank ? c->rxcq : c->txcq);
		size_t i = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx);

		CHECK(i < UNEXP, "foreign context");
		if (c->rank == 1) {
			CHECK(r.e.len == len[i], "message %zu has %zu bytes, not %zu", i, r.e.len, len[i]);
			ct_verify(c, buf[i].mem, len[i], i, "unexpected");
		}
	}
	for (unsigned i = 0; i < UNEXP; i++)
		ct_buf_free(c, &buf[i]);
}

/* --- truncation ---------------------------------------------------------------------------------- */

static void truncate_recv(struct ct *c, bool tagged, size_t len, size_t room, bool late)
{
	struct ct_buf b;
	struct fi_cq_err_entry e;
	struct ct_msg m = {.tagged = tagged, .tag = TAG, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[1]};

	ct_buf(c, &b, room, 0, 0);
	m.mem = b.mem, m.len = room, m.buf = &b;
	if (!late)
		ct_recv(c, &m);
	ct_barrier(c);
	if (late) {
		ct_barrier(c);
		ct_recv(c, &m);
	}
	e = ct_comp_err(c, c->rxcq, rx_flags(tagged));
	CHECK(e.err == FI_ETRUNC, "error %d (%s)", e.err, fi_strerror(e.err));
	CHECK(e.op_context == &c->ctx[1], "context of another operation");
	CHECK(e.len == room, "len %zu of %zu bytes into %zu", e.len, len, room);
	CHECK(e.olen == len - room, "olen %zu of %zu bytes into %zu", e.olen, len, room);
	CHECK(!tagged || e.tag == TAG, "tag %#llx", (unsigned long long)e.tag);
	ct_verify(c, b.mem, room, len, "truncated");
	ct_buf_free(c, &b);
}

static void truncate_send(struct ct *c, bool tagged, size_t len, bool late)
{
	struct ct_buf b;
	struct ct_msg m = {.tagged = tagged, .tag = TAG, .addr = c->peer, .ctx = &c->ctx[0]};

	ct_buf(c, &b, len, 0, 0);
	ct_fill(b.mem, len, len);
	m.mem = b.mem, m.len = len, m.buf = &b;
	ct_barrier(c);
	ct_send(c, &m);
	if (late)
		ct_barrier(c);
	ct_tx(c, &c->ctx[0], tx_flags(tagged)); /* the sender's message was sent */
	ct_buf_free(c, &b);
}

void ct_truncate(struct ct *c, bool tagged)
{
	/* by every protocol: 12000 is what opx sends eagerly in several packets */
	static const size_t len[] = {1, 16, 100, 8000, 12000, 30000, 200000, 2000000};

	for (unsigned i = 0; i < 8 * 4; i++) {
		size_t n = len[i / 4];
		bool late = i & 1;

		if (c->rank)
			truncate_recv(c, tagged, n, i & 2 ? n - 1 : n / 3, late);
		else
			truncate_send(c, tagged, n, late);
	}
	ct_sweep(c, tagged, CT_SEND, 0); /* and nothing is out of step */
}

/* --- completions on demand ----------------------------------------------------------------------- */

/* Bound with FI_SELECTIVE_COMPLETION on both sides: only what asks for a completion gets one. */
void ct_selective(struct ct *c, bool tagged)
{
	static const size_t len[] = {0, 8, 5000, 20000, 100000, 1200000};

	for (unsigned i = 0; i < 6 * 2; i++) {
		bool asks = i & 1;
		struct ct_buf sb, rb;
		struct ct_msg s = {.call = CT_SENDMSG, .tagged = tagged, .tag = TAG, .addr = c->peer,
				   .ctx = &c->ctx[0]};
		struct ct_msg r = {.call = CT_SENDMSG, .tagged = tagged, .tag = TAG, .addr = FI_ADDR_UNSPEC,
				   .ctx = &c->ctx[1]};

		ct_buf(c, &sb, len[i / 2], 0, 0);
		ct_buf(c, &rb, len[i / 2], 0, 0);
		s.mem = sb.mem, s.len = sb.len, s.buf = &sb, s.flags = asks ? FI_COMPLETION : 0;
		r.mem = rb.mem, r.len = rb.len, r.buf = &rb, r.flags = asks ? FI_COMPLETION : 0;
		ct_recv(c, &r);
		ct_barrier(c); /* not every protocol keeps the order of what finds no receive at first */
		ct_send(c, &s);
		/*
		 * The counter tells when they are through; only then, as some protocols do not keep the order of
		 * messages, the next.
		 */
		while (fi_cntr_read(c->cntr) < i * 4 + 2)
			ct_progress(c);
		ct_barrier(c);
		s.flags = r.flags = FI_COMPLETION; /* those after silent ones, whose completions would come first */
		s.ctx = &c->ctx[2], r.ctx = &c->ctx[3];
		s.len = r.len = 0;
		ct_recv(c, &r);
		ct_send(c, &s);
		if (asks) {
			struct ct_comp a = ct_comp(c, c->txcq), b = ct_comp(c, c->txcq);

			CHECK(a.e.op_context != b.e.op_context, "one operation completed twice");
			ct_comp(c, c->rxcq);
			ct_comp(c, c->rxcq);
		} else {
			ct_tx(c, &c->ctx[2], tx_flags(tagged));
			ct_rx(c, &c->ctx[3], rx_flags(tagged), 0);
		}
		while (fi_cntr_read(c->cntr) < (i + 1) * 4)
			ct_progress(c);
		ct_barrier(c);
		ct_no_comp(c, c->txcq);
		ct_no_comp(c, c->rxcq);
		ct_barrier(c);
		ct_buf_free(c, &sb);
		ct_buf_free(c, &rb);
	}
}

/* --- cancel -------------------------------------------------------------------------------------- */

static void cancel_one(struct ct *c, void *ctx, bool tagged)
{
	struct fi_cq_err_entry e;

	OK(fi_cancel(&c->ep->fid, ctx));
	e = ct_comp_err(c, c->rxcq, rx_flags(tagged));
	CHECK(e.err == FI_ECANCELED, "error %d (%s)", e.err, fi_strerror(e.err));
	CHECK(e.op_context == ctx, "context of another operation");
}

/* Of ten receives every other one is cancelled; messages then go to the rest, in order. */
void ct_cancel(struct ct *c, bool tagged)
{
	struct ct_buf b;

	ct_buf(c, &b, 1000, 0, 0);
	if (c->rank == 1) {
		for (unsigned i = 0; i < 10; i++) {
			struct ct_msg m = {.tagged = tagged, .tag = TAG, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i],
					   .mem = b.mem + i * 100, .len = 100, .buf = &b};

			ct_recv(c, &m);
		}
		for (unsigned i = 0; i < 10; i += 2)
			cancel_one(c, &c->ctx[i], tagged);
		fi_cancel(&c->ep->fid, &c->ctx[0]); /* a second time: nothing to be found, and no completion */
		ct_no_comp(c, c->rxcq);
	}
	ct_barrier(c);
	for (unsigned i = 1; i < 10; i += 2) {
		struct ct_msg m = {.tagged = tagged, .tag = TAG, .addr = c->peer, .ctx = &c->ctx[i], .mem = b.mem,
				   .len = 100, .buf = &b};

		if (c->rank == 0) {
			ct_fill(b.mem, 100, i);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[i], tx_flags(tagged));
		} else {
			ct_rx(c, &c->ctx[i], rx_flags(tagged), 100);
			ct_verify(c, b.mem + i * 100, 100, i, "after cancel");
		}
	}
	ct_buf_free(c, &b);
}

/* --- limits, delivery, self, flood --------------------------------------------------------------- */

void ct_inject_limits(struct ct *c, bool tagged)
{
	size_t max = c->info->tx_attr->inject_size;
	struct ct_buf b;

	ct_sweep(c, tagged, CT_INJECT, 0);
	ct_sweep(c, tagged, CT_SENDMSG, FI_INJECT);
	ct_buf(c, &b, max + 1, 0, 0);
	for (unsigned i = 0; i < 3; i++) {
		static const enum ct_call call[] = {CT_INJECT, CT_INJECTDATA, CT_SENDMSG};
		struct ct_msg m = {.call = call[i], .tagged = tagged, .tag = TAG, .addr = c->peer, .mem = b.mem,
				   .len = max + 1, .flags = FI_INJECT, .buf = &b};
		ssize_t ret = ct_post_send(c, &m);

		CHECK(ret == -FI_EMSGSIZE || ret == -FI_EINVAL, "inject of %zu bytes, one too many: %zd", max + 1, ret);
	}
	ct_buf_free(c, &b);
}

void ct_delivery(struct ct *c, bool tagged)
{
	for (unsigned i = 0; ct_sizes[i] != SIZE_MAX && ct_sizes[i] < CT_SHARED; i++) {
		size_t len = ct_sizes[i];
		struct ct_buf b;
		struct ct_msg m = {.call = CT_SENDMSG, .tagged = tagged, .tag = TAG, .addr = c->peer, .ctx = &c->ctx[0],
				   .flags = FI_DELIVERY_COMPLETE | FI_COMPLETION};

		if (c->rank)
			memset(c->shared, 0, CT_SHARED / 2);
		ct_barrier(c);
		if (c->rank) { /* receives into memory that the sender can look at */
			struct iovec iov = {c->shared, len};
			struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_RECV};

			(void)attr;
			m.call = CT_SEND, m.addr = FI_ADDR_UNSPEC, m.mem = c->shared, m.len = len;
			ct_recv(c, &m);
			if (!(c->p->has & CT_HAS_DC_MATCHED))
				ct_barrier(c);
			ct_rx(c, &c->ctx[0], rx_flags(tagged), len);
		} else {
			if (!(c->p->has & CT_HAS_DC_MATCHED))
				ct_barrier(c);
			ct_buf(c, &b, len, 0, 0);
			ct_fill(b.mem, len, i);
			m.mem = b.mem, m.len = len, m.buf = &b;
			ct_send(c, &m);
			ct_tx(c, &c->ctx[0], tx_flags(tagged));
			ct_verify(c, c->shared, len, i, "delivered");
			ct_buf_free(c, &b);
		}
		ct_barrier(c);
	}
}

void ct_self(struct ct *c, bool tagged)
{
	c->peer = c->self;
	for (unsigned i = 0; ct_sizes[i] != SIZE_MAX; i++) {
		struct ct_buf sb, rb;
		struct ct_msg s = {.tagged = tagged, .tag = TAG, .addr = c->self, .ctx = &c->ctx[0]};
		struct ct_msg r = {.tagged = tagged, .tag = TAG, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[1]};

		ct_buf(c, &sb, ct_sizes[i], 3, 0);
		ct_buf(c, &rb, ct_sizes[i], 5, 0);
		ct_fill(sb.mem, sb.len, i);
		s.mem = sb.mem, r.mem = rb.mem, s.len = r.len = sb.len, s.buf = &sb, r.buf = &rb;
		if (i % 2)
			ct_recv(c, &r);
		ct_send(c, &s);
		if (i % 2 == 0)
			ct_recv(c, &r);
		ct_rx(c, &c->ctx[1], rx_flags(tagged), sb.len);
		ct_tx(c, &c->ctx[0], tx_flags(tagged));
		ct_verify(c, rb.mem, rb.len, i, "sent to myself");
		ct_buf_free(c, &sb);
		ct_buf_free(c, &rb);
	}
}

#define FLOOD_MAX 20000 /* of a queue without a limit */
/*
 * The transmit queue takes tx_attr.size operations at least and then says -FI_EAGAIN, or queues; nothing is lost either
 * way.
 */
void ct_flood(struct ct *c, bool tagged)
{
	size_t size = c->info->tx_attr->size;
	unsigned cnt = size < FLOOD_MAX ? (unsigned)size + 100 : FLOOD_MAX, sent = 0, done = 0;
	uint8_t one[64];

	ct_barrier_idle(c);
	if (c->rank == 0)
		while (sent < cnt) {
			struct ct_msg m = {.tagged = tagged, .tag = TAG, .addr = c->peer,
					   .ctx = &c->ctx[sent % CT_CTX_NUM], .mem = one, .len = sizeof(one)};
			ssize_t ret;

			ct_fill(one, sizeof(one), 5);
			ret = ct_post_send(c, &m);
			if (ret == -FI_EAGAIN && !sent) { /* the two have not met yet */
				ct_progress(c);
				continue;
			}
			if (ret == -FI_EAGAIN)
				break;
			OK(ret);
			sent++;
		}
	ct_swap(c, &sent, &cnt, sizeof(sent));
	cnt = c->rank ? cnt : sent;
	CHECK(cnt > 0, "not one operation was taken");
	for (; done < cnt; done++) {
		struct ct_msg m = {.tagged = tagged, .tag = TAG, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[0], .mem = one,
				   .len = 64};

		if (c->rank) {
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[0], rx_flags(tagged), 64);
			ct_verify(c, one, 64, 5, "flooded");
		} else {
			ct_comp(c, c->txcq);
		}
	}
}
