// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG: all its calls, order, multi-receive, directed receive, source addresses.
#include "conform.h"

#include <stdlib.h>

#define MSG  FI_MSG
#define BOTH (FI_SEND | FI_RECV)

static void msg_send(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

static void msg_sendv(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, false, CT_SENDV, 0);
	ct_close(c);
}

static void msg_sendmsg(struct ct *c)
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
		ct_sweep(c, false, CT_SENDMSG, flags[i]);
	ct_close(c);
}

static void msg_inject(struct ct *c)
{
	ct_open(c);
	ct_inject_limits(c, false);
	ct_close(c);
}

static void msg_data(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, false, CT_SENDDATA, 0);
	ct_sweep(c, false, CT_INJECTDATA, 0);
	ct_close(c);
}

static void msg_order(struct ct *c)
{
	c->want.msg_order = FI_ORDER_SAS;
	ct_open(c);
	ct_stream(c, false, 400, true);
	ct_stream(c, false, 400, false);
	ct_close(c);
}

static void msg_unexpected(struct ct *c)
{
	ct_open(c);
	ct_unexpected(c, false);
	ct_close(c);
}

static void msg_truncate(struct ct *c)
{
	ct_open(c);
	ct_truncate(c, false);
	ct_close(c);
}

static void msg_selective(struct ct *c)
{
	c->want.tx_bind = c->want.rx_bind = FI_SELECTIVE_COMPLETION;
	c->want.cntr_flags = FI_SEND | FI_RECV;
	ct_open(c);
	ct_selective(c, false);
	ct_close(c);
}

static void msg_cancel(struct ct *c)
{
	ct_open(c);
	ct_cancel(c, false);
	ct_close(c);
}

static void msg_delivery(struct ct *c)
{
	ct_open(c);
	ct_delivery(c, false);
	ct_close(c);
}

static void msg_self(struct ct *c)
{
	ct_open(c);
	ct_self(c, false);
	ct_close(c);
}

static void msg_flood(struct ct *c)
{
	ct_open(c);
	ct_flood(c, false);
	ct_close(c);
}

/* Delivery complete for all operations by op_flags, as Open MPI's btl and SHMEM ask. */
static void msg_op_flags(struct ct *c)
{
	c->want.op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
	ct_open(c);
	CHECK(c->info->tx_attr->op_flags & FI_DELIVERY_COMPLETE, "op_flags %#llx",
	      (unsigned long long)c->info->tx_attr->op_flags);
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

/* One message far above any protocol's window; the endpoint has no maximum message size. */
static void msg_big(struct ct *c)
{
	size_t len = (size_t)96 << 20 | 13;
	struct ct_buf b;

	ct_open(c);
	CHECK(c->info->ep_attr->max_msg_size >= len, "max_msg_size %zu", c->info->ep_attr->max_msg_size);
	ct_buf(c, &b, len, 1, 0);
	struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = b.mem, .len = len,
			   .buf = &b};
	if (c->rank) {
		ct_recv(c, &m);
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, len);
		ct_verify(c, b.mem, len, 77, "big");
	} else {
		ct_fill(b.mem, len, 77);
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
	}
	ct_buf_free(c, &b);
	ct_close(c);
}

/* A batch under FI_MORE goes out with its last message. */
static void msg_more(struct ct *c)
{
	struct ct_buf b;

	ct_open(c);
	ct_buf(c, &b, 64 * 32, 0, 0);
	if (!c->rank)
		ct_barrier(c); /* all receives are posted: a message that finds none comes again, behind others */
	for (unsigned i = 0; i < 32; i++) {
		struct ct_msg m = {.call = CT_SENDMSG, .flags = c->rank || i == 31 ? 0 : FI_MORE, .ctx = &c->ctx[i],
				   .addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .mem = b.mem + 64 * i, .len = 64,
				   .buf = &b};

		if (c->rank) {
			ct_recv(c, &m);
		} else {
			ct_fill(m.mem, 64, i);
			ct_send(c, &m);
		}
	}
	if (c->rank)
		ct_barrier(c);
	for (unsigned i = 0; i < 32; i++)
		if (c->rank) {
			ct_rx(c, &c->ctx[i], FI_RECV | FI_MSG, 64);
			ct_verify(c, b.mem + 64 * i, 64, i, "batched");
		} else {
			ct_comp(c, c->txcq);
		}
	ct_buf_free(c, &b);
	ct_close(c);
}

/*
 * FI_MSG_PREFIX: each buffer begins with room for the provider, counted by lengths and completions; the payload lies
 * behind it.
 */
static void msg_prefix(struct ct *c)
{
	size_t prefix;

	c->want.mode = FI_MSG_PREFIX;
	ct_open(c);
	if (!(c->info->mode & FI_MSG_PREFIX))
		ct_skip(c, "no prefix wanted");
	prefix = c->info->ep_attr->msg_prefix_size;
	CHECK(prefix && prefix % 8 == 0, "msg_prefix_size %zu", prefix);
	for (unsigned i = 0; ct_sizes[i] != SIZE_MAX; i++) {
		struct ct_buf sb, rb;
		struct ct_msg r = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[1]}, s = {.addr = c->peer, .ctx = &c->ctx[0]};

		ct_buf(c, &sb, prefix + ct_sizes[i], 0, 0);
		ct_buf(c, &rb, prefix + ct_sizes[i], 0, 0);
		ct_fill(sb.mem + prefix, ct_sizes[i], i + 1000 * (unsigned)c->rank);
		r.mem = rb.mem, s.mem = sb.mem, r.len = s.len = sb.len, r.buf = &rb, s.buf = &sb;
		ct_recv(c, &r);
		ct_send(c, &s);
		ct_rx(c, &c->ctx[1], FI_RECV | FI_MSG, rb.len);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		ct_verify(c, rb.mem + prefix, ct_sizes[i], i + 1000 * (unsigned)!c->rank, "behind the prefix");
		ct_buf_free(c, &sb);
		ct_buf_free(c, &rb);
	}
	ct_close(c);
}

/* --- multi receive ------------------------------------------------------------------------------- */

#define MULTI_LEN (256 * 1024)
#define MULTI_MIN 60000 /* the largest message, so that each fits what is left */
#define MULTI_CNT 600

static size_t multi_len(struct ct *c, unsigned i)
{
	struct ct tmp = {.rng = c->seed + i * 7919ULL};
	uint64_t d = ct_rand(&tmp);

	return d % 10 < 7 ? d / 10 % 500 : d % 10 < 9 ? d / 10 % 4096 : d / 10 % MULTI_MIN;
}

static void multi_post(struct ct *c, struct ct_buf *b, void *ctx)
{
	struct ct_msg m = {.call = CT_SENDMSG, .flags = FI_MULTI_RECV, .addr = FI_ADDR_UNSPEC, .ctx = ctx,
			   .mem = b->mem, .len = b->len, .buf = b};

	ct_recv(c, &m);
}

/* Slices of a buffer follow one another; FI_MULTI_RECV comes once per buffer, and then it is ours again. */
static void multi_recv_side(struct ct *c)
{
	struct ct_buf b[3];
	uint8_t *next[3];
	size_t min = MULTI_MIN;

	OK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	for (unsigned k = 0; k < 3; k++) {
		ct_buf(c, &b[k], MULTI_LEN, k, 0);
		next[k] = b[k].mem;
		multi_post(c, &b[k], &c->ctx[k]);
	}
	ct_barrier(c);
	for (unsigned i = 0; i < MULTI_CNT; i++) {
		struct ct_comp r = ct_comp(c, c->rxcq);
		size_t k = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx);
		uint8_t *at = r.e.buf;

		CHECK(k < 3, "foreign context");
		CHECK((r.e.flags & ~(FI_MULTI_RECV | FI_COMPLETION)) == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA),
		      "flags %#llx", (unsigned long long)r.e.flags);
		CHECK(at >= b[k].mem && at + r.e.len <= b[k].mem + b[k].len, "slice outside the buffer");
		CHECK(r.e.len == multi_len(c, (unsigned)r.e.data), "message %u has %zu bytes", (unsigned)r.e.data,
		      r.e.len);
		ct_verify(c, at, r.e.len, r.e.data, "slice");
		if (at + r.e.len > next[k])
			next[k] = at + r.e.len;
		if (r.e.flags & FI_MULTI_RECV) {
			CHECK(b[k].mem + b[k].len - next[k] < MULTI_MIN, "given back with %td bytes left",
			      b[k].mem + b[k].len - next[k]);
			next[k] = b[k].mem;
			multi_post(c, &b[k], &c->ctx[k]);
		}
	}
	ct_barrier(c);
	for (unsigned k = 0; k < 3; k++) {
		struct fi_cq_err_entry e;

		OK(fi_cancel(&c->ep->fid, &c->ctx[k])); /* an error, and the buffer is ours again */
		e = ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG | FI_MULTI_RECV);
		CHECK(e.err == FI_ECANCELED && e.op_context == &c->ctx[k], "error %d", e.err);
		ct_buf_free(c, &b[k]);
	}
}

static void msg_multi_recv(struct ct *c)
{
	struct ct_buf b;

	ct_open(c);
	if (c->rank == 1) {
		multi_recv_side(c);
		ct_close(c);
		return;
	}
	ct_buf(c, &b, MULTI_MIN, 0, 0);
	ct_barrier(c);
	for (unsigned i = 0; i < MULTI_CNT; i++) {
		struct ct_msg m = {.call = CT_SENDDATA, .data = i, .addr = c->peer, .ctx = &c->ctx[0], .mem = b.mem,
				   .len = multi_len(c, i), .buf = &b};

		ct_fill(b.mem, m.len, i);
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
	ct_close(c);
}

/*
 * A buffer ends by an error: one cancelled untouched, one cancelled half full, one whose only message is too long. Each
 * is given back.
 */
static void multi_errors(struct ct *c, size_t len)
{
	struct fi_cq_err_entry e;
	struct ct_buf b, out;

	ct_buf(c, &b, 4 * len, 0, 0);
	ct_buf(c, &out, 5 * len, 0, 0);
	struct ct_msg m = {.addr = c->peer, .ctx = &c->ctx[1], .mem = out.mem, .len = len, .buf = &out};

	for (unsigned had = 0; had < 4; had++) {
		if (c->rank)
			multi_post(c, &b, &c->ctx[0]);
		ct_barrier(c);
		for (unsigned i = 0; i < had && !c->rank; i++) {
			ct_send(c, &m);
			ct_tx(c, &c->ctx[1], FI_SEND | FI_MSG);
		}
		if (c->rank) {
			for (unsigned i = 0; i < had; i++)
				ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, len);
			OK(fi_cancel(&c->ep->fid, &c->ctx[0]));
			e = ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG | FI_MULTI_RECV);
			CHECK(e.err == FI_ECANCELED && e.op_context == &c->ctx[0], "error %d", e.err);
			ct_no_comp(c, c->rxcq);
			multi_post(c, &b, &c->ctx[0]);
		}
		ct_barrier(c);
		m.len = out.len;
		if (c->rank) {
			e = ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG | FI_MULTI_RECV);
			CHECK(e.err == FI_ETRUNC && e.op_context == &c->ctx[0] && e.len == b.len, "error %d, %zu bytes",
			      e.err, e.len);
		} else {
			ct_send(c, &m);
			ct_tx(c, &c->ctx[1], FI_SEND | FI_MSG);
		}
		m.len = len;
		ct_barrier(c);
	}
	ct_buf_free(c, &b);
	ct_buf_free(c, &out);
}

static void msg_multi_errors(struct ct *c)
{
	static const size_t lens[] = {8, 3000, 70000, 1100000};

	ct_open(c);
	for (unsigned i = 0; i < 4; i++) {
		size_t min = 1;

		OK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
		multi_errors(c, lens[i]);
	}
	ct_close(c);
}

/*
 * Until the multi-receive buffer of c->ctx[0], which was cancelled, is given back: once, by its last entry. Return:
 * messages of @len bytes in it.
 */
static unsigned multi_end(struct ct *c, size_t len)
{
	unsigned taken = 0, errs = 0;
	uint64_t flags = 0;

	while (!(flags & FI_MULTI_RECV)) {
		struct fi_cq_err_entry e = {0};
		struct fi_cq_tagged_entry t;
		ssize_t ret = fi_cq_read(c->rxcq, &t, 1);

		if (ret == -FI_EAVAIL) {
			RET(1, fi_cq_readerr(c->rxcq, &e, 0));
			CHECK(e.err == FI_ECANCELED && !errs++ && e.op_context == &c->ctx[0], "error %d", e.err);
			flags = e.flags;
		} else if (ret == 1) {
			CHECK(t.op_context == &c->ctx[0] && t.len == len, "%zu bytes", t.len);
			taken++;
			flags = t.flags;
		} else {
			RET(-FI_EAGAIN, ret);
			ct_progress(c);
		}
	}
	CHECK(errs == 1, "no entry says that it was cancelled");
	return taken;
}

/*
 * Cancelled while messages arrive: those that it has come to their end before the buffer is given back, the others go
 * elsewhere.
 */
static void msg_multi_cancel(struct ct *c)
{
	enum { CNT = 6, LEN = 300000 };
	struct ct_buf b, out;

	ct_open(c);
	ct_buf(c, &b, 2 * CNT * LEN, 0, 0);
	ct_buf(c, &out, LEN, 0, 0);
	for (unsigned round = 0; round < 16; round++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[1], .mem = out.mem,
				   .len = LEN, .buf = &out};

		if (c->rank)
			multi_post(c, &b, &c->ctx[0]);
		ct_barrier(c);
		for (unsigned i = 0; i < CNT && !c->rank; i++)
			ct_send(c, &m);
		for (unsigned i = 0; i < CNT && !c->rank; i++)
			ct_tx(c, &c->ctx[1], FI_SEND | FI_MSG);
		if (c->rank) {
			for (unsigned i = 0; i < 4 * round; i++)
				ct_progress(c);
			fi_cancel(&c->ep->fid, &c->ctx[0]);
			for (unsigned i = multi_end(c, LEN); i < CNT; i++) {
				ct_recv(c, &m);
				ct_rx(c, &c->ctx[1], FI_RECV | FI_MSG, LEN);
			}
		}
		ct_barrier(c);
	}
	ct_buf_free(c, &b);
	ct_buf_free(c, &out);
	ct_close(c);
}

/* --- sources ------------------------------------------------------------------------------------- */

static ssize_t ep2_send(struct ct_ep2 *e, struct ct_buf *b, size_t len, fi_addr_t to, void *ctx)
{
	return fi_send(e->ep, b->mem, len, b->desc, to, ctx);
}

static void ep2_progress(struct ct_ep2 *e)
{
	fi_cq_read(e->cq, NULL, 0);
}

static void ep2_wait(struct ct *c, struct ct_ep2 *e)
{
	struct fi_cq_tagged_entry t;
	ssize_t ret;

	while ((ret = fi_cq_read(e->cq, &t, 1)) == -FI_EAGAIN)
		ct_progress(c);
	RET(1, ret);
}

/* Rank 1 sends from two endpoints; rank 0 takes messages by source, in the order opposite to their arrival. */
static void directed_send(struct ct *c, struct ct_ep2 *e, struct ct_buf b[2], size_t len, fi_addr_t to)
{
	struct ct_msg m = {.addr = c->peer, .ctx = &c->ctx[0], .mem = b[0].mem, .len = len, .buf = &b[0]};

	ct_fill(b[0].mem, len, 1);
	ct_fill(b[1].mem, len, 2);
	ct_send(c, &m);
	while (ct_again(c, ep2_send(e, &b[1], len, to, &c->ctx[1])))
		ep2_progress(e);
	for (unsigned i = 0; i < 200; i++) { /* both are on their way; long ones may end only when they are matched */
		ct_progress(c);
		ep2_progress(e);
	}
	ct_barrier(c);
	ep2_wait(c, e);
	ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
}

static void directed_recv(struct ct *c, struct ct_buf *b, size_t len, fi_addr_t second)
{
	const fi_addr_t from[2] = {second, c->peer};

	ct_barrier(c);
	for (unsigned i = 0; i < 2; i++) {
		struct ct_msg m = {.addr = from[i], .ctx = &c->ctx[0], .mem = b->mem, .len = len, .buf = b};

		ct_recv(c, &m);
		CHECK(ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, len).src == from[i], "source of message %u", i);
		ct_verify(c, b->mem, len, 2 - i, "by source");
	}
}

static void msg_directed(struct ct *c)
{
	static const size_t lens[] = {10, 20000, 1500000};
	uint8_t other[64];
	struct ct_ep2 e;
	struct ct_buf b[2];
	fi_addr_t second, to;

	ct_open(c);
	ct_ep2_open(c, &e);
	ct_swap(c, e.addr, other, sizeof(other));
	RET(1, fi_av_insert(c->av, other, 1, &second, 0, NULL));
	RET(1, fi_av_insert(e.av, c->peer_addr, 1, &to, 0, NULL));
	ct_buf(c, &b[0], 1500000, 0, 0);
	ct_buf(c, &b[1], 1500000, 0, 0);
	for (unsigned i = 0; i < 3; i++) {
		if (c->rank)
			directed_send(c, &e, b, lens[i], to);
		else
			directed_recv(c, &b[0], lens[i], second);
		ct_barrier(c);
	}
	ct_ep2_close(c, &e);
	ct_buf_free(c, &b[0]);
	ct_buf_free(c, &b[1]);
	ct_close(c);
}

/* fi_cq_readfrom names the sender; one that nobody inserted is either unknown or was inserted by the provider. */
static void msg_source(struct ct *c)
{
	struct ct_ep2 e;
	struct ct_buf b;
	struct ct_comp r;
	fi_addr_t to;

	ct_open(c);
	ct_ep2_open(c, &e);
	ct_buf(c, &b, 100, 0, 0);
	for (unsigned i = 0; i < 3; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = b.mem,
				   .len = 100, .buf = &b};

		if (c->rank) {
			ct_recv(c, &m);
			r = ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, 100);
			CHECK(i == 1 || r.src == c->peer, "source %llu, not %llu", (unsigned long long)r.src,
			      (unsigned long long)c->peer);
			CHECK(i != 1 || r.src != c->peer, "a stranger passes for the peer");
			if (i == 1 && r.src != FI_ADDR_NOTAVAIL) {
				uint8_t back[64];
				size_t len = sizeof(back);

				OK(fi_av_lookup(c->av, r.src, back, &len));
			}
		} else if (i == 1) {
			RET(1, fi_av_insert(e.av, c->peer_addr, 1, &to, 0, NULL));
			while (ct_again(c, ep2_send(&e, &b, 100, to, &c->ctx[1])))
				;
			ep2_wait(c, &e);
		} else {
			ct_send(c, &m);
			ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		}
		ct_barrier(c);
	}
	ct_ep2_close(c, &e);
	ct_buf_free(c, &b);
	ct_close(c);
}

/* True if the message was seen, or if the provider refuses to look; false: it is not there yet. */
static bool peek_untagged(struct ct *c, size_t len)
{
	struct fi_msg peek = {.addr = FI_ADDR_UNSPEC, .context = &c->ctx[1]};
	struct fi_cq_tagged_entry t;
	struct fi_cq_err_entry e = {0};
	ssize_t ret = fi_recvmsg(c->ep, &peek, FI_PEEK);

	if (ret) {
		CHECK(ret == -FI_EINVAL || ret == -FI_EBADFLAGS || ret == -FI_EOPNOTSUPP || ret == -FI_ENOSYS,
		      "refused by %s", ct_err(ret));
		return true;
	}
	while ((ret = fi_cq_read(c->rxcq, &t, 1)) == -FI_EAGAIN)
		;
	if (ret == 1) {
		CHECK(t.op_context == &c->ctx[1] && t.len == len, "peeked %zu bytes", t.len);
		return true;
	}
	RET(-FI_EAVAIL, ret);
	RET(1, fi_cq_readerr(c->rxcq, &e, 0));
	CHECK(e.err == FI_ENOMSG && e.op_context == &c->ctx[1], "error %d", e.err);
	return false;
}

/* FI_PEEK on the untagged queue: looks without taking. */
static void msg_peek(struct ct *c)
{
	struct ct_buf b;

	ct_open(c);
	ct_buf(c, &b, 300, 0, 0);
	if (c->rank == 0) {
		struct ct_msg m = {.call = CT_SENDDATA, .data = 9, .addr = c->peer, .ctx = &c->ctx[0], .mem = b.mem,
				   .len = 300, .buf = &b};

		ct_fill(b.mem, 300, 3);
		ct_send(c, &m);
		ct_barrier(c);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
	} else {
		struct ct_msg m = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[2], .mem = b.mem, .len = 300, .buf = &b};

		ct_barrier(c);
		while (!peek_untagged(c, 300))
			;
		ct_recv(c, &m);
		ct_rx(c, &c->ctx[2], FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA, 300);
		ct_verify(c, b.mem, 300, 3, "after peek");
	}
	ct_buf_free(c, &b);
	ct_close(c);
}

#define EVERYWHERE (CT_GENS | CT_LOSSY)
const struct ct_test msg_tests[] = {
	{"msg_send", msg_send, MSG, 0, EVERYWHERE, "FI_MSG FI_SEND FI_RECV FI_LOCAL_COMM FI_REMOTE_COMM max_msg_size"},
	{"msg_sendv", msg_sendv, MSG, 0, EVERYWHERE, "tx.iov_limit rx.iov_limit"},
	{"msg_sendmsg", msg_sendmsg, MSG, 0, EVERYWHERE,
	 "op:FI_COMPLETION op:FI_TRANSMIT_COMPLETE op:FI_INJECT op:FI_INJECT_COMPLETE"},
	{"msg_inject", msg_inject, MSG, 0, EVERYWHERE, "inject_size op:FI_INJECT"},
	{"msg_data", msg_data, MSG, 0, EVERYWHERE, "cq_data_size op:FI_REMOTE_CQ_DATA"},
	{"msg_order", msg_order, MSG, 0, EVERYWHERE, "order:FI_ORDER_SAS", NULL, NULL, 60},
	{"msg_unexpected", msg_unexpected, MSG, 0, EVERYWHERE, NULL},
	{"msg_truncate", msg_truncate, MSG, 0, EVERYWHERE, NULL},
	{"msg_selective", msg_selective, MSG, 0, CT_GENS, "op:FI_COMPLETION"},
	{"msg_cancel", msg_cancel, MSG, 0, 0, NULL},
	{"msg_delivery", msg_delivery, MSG, 0, EVERYWHERE, "op:FI_DELIVERY_COMPLETE"},
	{"msg_op_flags", msg_op_flags, MSG, 0, EVERYWHERE, "op:FI_DELIVERY_COMPLETE"},
	{"msg_self", msg_self, MSG, 0, CT_GENS | CT_SOLO | CT_ANY_PATH, NULL},
	{"msg_flood", msg_flood, MSG, 0, CT_GENS, "tx.size rm:FI_RM_ENABLED"},
	{"msg_big", msg_big, MSG, 0, CT_GENS, "max_msg_size", NULL, NULL, 60},
	{"msg_more", msg_more, MSG, 0, CT_GENS, "op:FI_MORE"},
	{"msg_multi_errors", msg_multi_errors, MSG | FI_MULTI_RECV, 0, EVERYWHERE, NULL},
	{"msg_multi_cancel", msg_multi_cancel, MSG | FI_MULTI_RECV, 0, EVERYWHERE, NULL},
	{"msg_multi_recv", msg_multi_recv, MSG | FI_MULTI_RECV, 0, EVERYWHERE, "FI_MULTI_RECV op:FI_MULTI_RECV"},
	{"msg_directed", msg_directed, MSG | FI_DIRECTED_RECV | FI_SOURCE, 0, 0, "FI_DIRECTED_RECV"},
	{"msg_source", msg_source, MSG | FI_SOURCE, 0, 0, "FI_SOURCE"},
	{"msg_prefix", msg_prefix, MSG, 0, CT_GENS, "mode:FI_MSG_PREFIX msg_prefix_size"},
	{"msg_peek", msg_peek, MSG, 0, 0, NULL},
	{0},
};
