// SPDX-License-Identifier: BSD-2-Clause
// What only opx has: protocols by length, fences, directed receives, scalable endpoints, its refusals.
#include "conform.h"

#include <stdatomic.h>
#include <stdlib.h>

#define TXF (FI_SEND | FI_TAGGED)
#define RXF (FI_RECV | FI_TAGGED)

/* --- protocols ----------------------------------------------------------------------------------- */

/* One tagged message of @len bytes from rank 0 to rank 1. */
static void one_message(struct ct *c, size_t len)
{
	struct ct_buf b;

	ct_buf(c, &b, len, 0, 0);
	struct ct_msg m = {.tagged = true, .tag = len, .addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0],
			   .mem = b.mem, .len = len, .buf = &b};

	if (c->rank) {
		ct_recv(c, &m);
		ct_barrier(c);
		ct_rx(c, &c->ctx[0], RXF, len);
		ct_verify(c, b.mem, len, len, "received");
	} else {
		ct_fill(b.mem, len, len);
		ct_barrier(c);
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], TXF);
	}
	ct_buf_free(c, &b);
}

/* The protocol is chosen by length, at exactly the documented edges; which one carried a message is counted. */
static void opx_protocols(struct ct *c)
{
	static const struct {
		size_t len;
		const char *local, *net;
	} row[] = {
		{0, "tx_inject", "tx_inject"}, {16, "tx_inject", "tx_inject"}, {17, "tx_eager", "tx_eager"},
		{8192, "tx_eager", "tx_eager"}, {8193, "tx_mp", "tx_mp"}, {16384, "tx_mp", "tx_mp"},
		{16385, "tx_rzv_local", "tx_rzv"},	{300000, "tx_rzv_local", "tx_rzv"},
	};

	ct_open(c);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const char *name = c->mode == CT_UDP ? row[i].net : row[i].local;
		uint64_t before = ct_stat(c, name), sdma = ct_stat(c, "tx_sdma_data"), all;

		one_message(c, row[i].len);
		if (c->rank == 0) {
			all = ct_stat(c, name) - before;
			CHECK(all == 1, "%zu bytes: %s grew by %llu", row[i].len, name, (unsigned long long)all);
			CHECK(!strcmp(name, "tx_rzv") == (ct_stat(c, "tx_sdma_data") > sdma), "%zu bytes: SDMA",
			      row[i].len);
		}
		ct_barrier(c);
	}
	ct_close(c);
}

/*
 * A receiver that has its message owes nothing more, although it was the first that it ever heard of its sender: it may
 * go and compute. An empty one: it is complete when the first packet has come.
 */
static void opx_answered(struct ct *c)
{
	uint8_t none;
	struct ct_msg m = {.call = CT_SENDMSG, .tagged = true, .ctx = &c->ctx[0], .mem = &none, .flags = FI_COMPLETION};

	ct_open(c);
	m.addr = c->rank ? FI_ADDR_UNSPEC : c->peer;
	m.flags |= c->rank ? 0 : FI_DELIVERY_COMPLETE;
	if (c->rank) {
		ct_recv(c, &m);
		ct_rx(c, &c->ctx[0], RXF, 0);
	} else {
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], TXF);
	}
	ct_barrier_idle(c); /* of the receiver no call more until the sender has its completion */
	ct_close(c);
}

/* Expected receive carries a rendezvous between hosts, in several entries of 2 MiB if it is long. */
static void opx_expected(struct ct *c)
{
	ct_open(c);
	one_message(c, 100003);
	one_message(c, (size_t)12 << 20);
	CHECK((ct_stat(c, c->rank ? "rcv_expected" : "tx_expected") > 100) == (c->mode == CT_UDP), "expected packets");
	ct_close(c);
}

/*
 * What is fenced begins when all before it to the same peer has ended, and not before; what is not fenced need not
 * wait.
 */
static void opx_fence(struct ct *c)
{
	const size_t len = 100000;
	struct ct_window w;
	uint64_t one = 1;
	ssize_t ret;

	ct_open(c);
	ct_window(c, &w, len, FI_REMOTE_READ | FI_REMOTE_WRITE);
	if (c->rank) { /* serves nobody until it is told to */
		ct_fill(w.b.mem, len, 1);
		ct_barrier_idle(c);
		ct_barrier_idle(c);
		ct_barrier(c);
		ct_barrier(c);
		ct_verify(c, w.b.mem, len, 2, "written behind the fence");
		ct_window_free(c, &w);
		ct_close(c);
		return;
	}
	struct ct_buf src;
	ct_buf(c, &src, len, 0, 0);
	struct iovec iov = {src.mem, len};
	struct fi_rma_iov at = {w.at.addr, len, w.at.key};
	struct fi_msg_rma m = {.msg_iov = &iov, .iov_count = 1, .addr = c->peer, .rma_iov = &at, .rma_iov_count = 1,
			       .context = &c->ctx[1]};
	struct fi_ioc ioc = {&one, 1}, res = {src.mem, 1};
	struct fi_rma_ioc where = {w.at.addr, 1, w.at.key};
	struct fi_msg_atomic a = {.msg_iov = &ioc, .iov_count = 1, .addr = c->peer, .rma_iov = &where,
				  .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = &c->ctx[2]};
	struct ct_msg s = {.call = CT_SENDMSG, .addr = c->peer, .ctx = &c->ctx[3], .mem = src.mem, .len = 8,
			   .buf = &src, .flags = FI_FENCE};

	ct_fill(src.mem, len, 2);
	ct_barrier_idle(c);
	while (ct_again(c, fi_read(c->ep, w.mine.mem, len, NULL, c->peer, w.at.addr, w.at.key, &c->ctx[0])))
		;
	for (int i = 0; i < 200; i++) {
		RET(-FI_EAGAIN, fi_writemsg(c->ep, &m, FI_FENCE));
		RET(-FI_EAGAIN, fi_readmsg(c->ep, &m, FI_FENCE));
		RET(-FI_EAGAIN, fi_fetch_atomicmsg(c->ep, &a, &res, NULL, 1, FI_FENCE));
		RET(-FI_EAGAIN, ct_post_send(c, &s));
	}
	s.addr = c->self; /* another one */
	s.flags |= FI_COMPLETION;
	OK(fi_recv(c->ep, &one, sizeof(one), NULL, FI_ADDR_UNSPEC, &c->ctx[4]));
	while (ct_again(c, ct_post_send(c, &s)))
		;
	ct_tx(c, &c->ctx[3], FI_SEND | FI_MSG);
	ct_rx(c, &c->ctx[4], FI_RECV | FI_MSG, 8);
	ct_barrier_idle(c);
	while ((ret = fi_writemsg(c->ep, &m, FI_FENCE | FI_COMPLETION)) == -FI_EAGAIN)
		;
	OK(ret);
	ct_tx(c, &c->ctx[0], FI_RMA | FI_READ);
	ct_tx(c, &c->ctx[1], FI_RMA | FI_WRITE);
	ct_verify(c, w.mine.mem, len, 1, "read before the fence");
	ct_barrier(c);
	ct_barrier(c);
	ct_buf_free(c, &src);
	ct_window_free(c, &w);
	ct_close(c);
}

/* Peers on this host as if they were on another. */
static void opx_no_shm(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, true, CT_SEND, 0);
	CHECK(!ct_stat(c, "shm_tx_pkts") && ct_stat(c, "net_tx_pkts"), "shared memory carried something");
	ct_close(c);
}

/* --- matching ------------------------------------------------------------------------------------ */

#define EACH 700 /* two senders: more than 1024 unexpected messages */

static void send_both(struct ct *c, struct ct_ep2 *other, fi_addr_t to_other)
{
	uint64_t v;

	for (uint32_t i = 0; i < EACH; i++) {
		v = i;
		while (ct_again(c, fi_tinject(c->ep, &v, sizeof(v), c->peer, 0x1000 + i)))
			;
		v = 1000000 + i;
		while (ct_again(c, fi_tinject(other->ep, &v, sizeof(v), to_other, 0x1000 + i)))
			fi_cq_read(other->cq, NULL, 0);
	}
}

/*
 * Behind more unexpected messages than fit a plain list, a receive of any tag from one source takes none of another's.
 */
static void opx_directed(struct ct *c)
{
	uint8_t theirs[64];
	struct ct_ep2 other;
	fi_addr_t second = 0;
	uint64_t v = 0;

	ct_open(c);
	ct_ep2_open(c, &other);
	RET(1, fi_av_insert(other.av, c->peer_addr, 1, &second, 0, NULL));
	ct_swap(c, other.addr, theirs, sizeof(theirs));
	if (c->rank == 0) {
		c->traffic = true;
		send_both(c, &other, second);
		ct_barrier(c);
		ct_barrier(c);
	} else {
		RET(1, fi_av_insert(c->av, theirs, 1, &second, 0, NULL));
		ct_barrier(c);
		for (uint32_t i = 0; i < 2 * EACH; i++) {
			bool is_second = i % 2 == 0;
			uint64_t want = is_second ? 1000000 + i / 2 : i / 2;

			while (ct_again(c, fi_trecv(c->ep, &v, sizeof(v), NULL, is_second ? second : c->peer, 0, ~0ULL,
						    &c->ctx[0])))
				;
			struct ct_comp r = ct_comp(c, c->rxcq);

			CHECK(v == want && r.e.tag == 0x1000 + i / 2, "message %llu with tag %#llx, not %llu",
			      (unsigned long long)v, (unsigned long long)r.e.tag, (unsigned long long)want);
			CHECK(r.src == (is_second ? second : c->peer), "source %llu", (unsigned long long)r.src);
		}
		ct_barrier(c);
	}
	ct_ep2_close(c, &other);
	ct_close(c);
}

/* A multi-receive buffer is given back when less than FI_OPT_MIN_MULTI_RECV is left, not earlier. */
static void opx_multi_recv(struct ct *c)
{
	static const size_t lens[] = {10000, 1808, 1}; /* leave 10000, 8192, 8191 */
	struct ct_buf b;
	size_t at = 0;

	ct_open(c);
	ct_buf(c, &b, 20000, 0, 0);
	if (c->rank) {
		struct iovec iov = {b.mem, b.len};
		struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &c->ctx[9]};

		while (ct_again(c, fi_recvmsg(c->ep, &m, FI_MULTI_RECV)))
			;
	}
	ct_barrier(c);
	for (unsigned i = 0; i < 3; i++) {
		struct ct_msg m = {.addr = c->peer, .ctx = &c->ctx[0], .mem = b.mem, .len = lens[i], .buf = &b};

		if (c->rank == 0) {
			ct_fill(b.mem, lens[i], i);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		} else {
			struct ct_comp r = ct_comp(c, c->rxcq);

			CHECK(r.e.op_context == &c->ctx[9] && r.e.len == lens[i] && r.e.buf == b.mem + at,
			      "message %u: %zu bytes at %td", i, r.e.len, (uint8_t *)r.e.buf - b.mem);
			CHECK(!(r.e.flags & FI_MULTI_RECV) == (i < 2), "message %u: flags %#llx", i,
			      (unsigned long long)r.e.flags);
			ct_verify(c, r.e.buf, lens[i], i, "in the buffer");
			at += lens[i];
		}
		ct_barrier(c);
	}
	ct_buf_free(c, &b);
	ct_close(c);
}

/* --- scalable endpoints -------------------------------------------------------------------------- */

#define RX_BITS 2
#define CTXS	3
struct sep {
	struct fid_ep *sep, *tx[CTXS], *rx[CTXS];
	struct fid_cq *txcq, *rxcq[CTXS];
	struct fid_av *av;
};

static void sep_open(struct ct *c, struct sep *s, enum fi_av_type type)
{
	struct fi_av_attr av = {.type = type, .rx_ctx_bits = RX_BITS};
	struct fi_info *info = fi_dupinfo(c->info);

	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = CTXS;
	OK(fi_scalable_ep(c->domain, info, &s->sep, NULL));
	fi_freeinfo(info);
	OK(fi_av_open(c->domain, &av, &s->av, NULL));
	OK(fi_scalable_ep_bind(s->sep, &s->av->fid, 0));
	s->txcq = ct_cq(c, 0, 0);
	for (int i = 0; i < CTXS; i++) {
		OK(fi_tx_context(s->sep, i, NULL, &s->tx[i], NULL));
		OK(fi_ep_bind(s->tx[i], &s->txcq->fid, FI_TRANSMIT));
		s->rxcq[i] = ct_cq(c, 0, 0);
		OK(fi_rx_context(s->sep, i, NULL, &s->rx[i], NULL));
		OK(fi_ep_bind(s->rx[i], &s->rxcq[i]->fid, FI_RECV));
	}
	RET(-FI_EINVAL, fi_rx_context(s->sep, CTXS, NULL, &s->rx[0], NULL));
	OK(fi_enable(s->sep));
	for (int i = 0; i < CTXS; i++) {
		OK(fi_enable(s->tx[i]));
		OK(fi_enable(s->rx[i]));
	}
}

static void sep_close(struct ct *c, struct sep *s)
{
	for (int i = 0; i < CTXS; i++) {
		OK(fi_close(&s->tx[i]->fid));
		OK(fi_close(&s->rx[i]->fid));
		OK(fi_close(&s->rxcq[i]->fid));
	}
	OK(fi_close(&s->sep->fid));
	OK(fi_close(&s->txcq->fid));
	OK(fi_close(&s->av->fid));
}

static void sep_drive(struct ct *c, struct sep *s)
{
	fi_cq_read(s->txcq, NULL, 0);
	for (int i = 0; i < CTXS; i++)
		fi_cq_read(s->rxcq[i], NULL, 0);
	ct_progress(c);
}

static void sep_comp(struct ct *c, struct sep *s, struct fid_cq *cq, void *context)
{
	struct fi_cq_tagged_entry e;
	ssize_t ret;

	while ((ret = fi_cq_read(cq, &e, 1)) == -FI_EAGAIN)
		sep_drive(c, s);
	CHECK(ret == 1, "%s", ct_err(ret));
	CHECK(e.op_context == context, "completion of another operation");
}

/* The other rank's. */
static fi_addr_t sep_meet(struct ct *c, struct sep *s)
{
	uint8_t mine[64] = {0}, theirs[64];
	size_t len = sizeof(mine);
	fi_addr_t peer;

	OK(fi_getname(&s->sep->fid, mine, &len));
	CHECK(len == 8 && !mine[7], "address of %zu bytes, index %u", len, mine[7]);
	ct_swap(c, mine, theirs, sizeof(mine));
	RET(1, fi_av_insert(s->av, theirs, 1, &peer, 0, NULL));
	return peer;
}

/* Every context of rank 0 sends to every context of rank 1, which fi_rx_addr() names; nothing comes to another one. */
static void sep_all_pairs(struct ct *c, enum fi_av_type type)
{
	static const size_t lens[] = {8, 5000, 100000};
	struct fid_cq *own[2] = {c->txcq, c->rxcq};
	uint8_t *mem = malloc(100000);
	struct sep s = {0};
	fi_addr_t peer;

	sep_open(c, &s, type);
	c->txcq = s.txcq; /* barriers drive it */
	peer = sep_meet(c, &s);
	for (unsigned i = 0; i < CTXS * CTXS; i++) {
		size_t n = lens[i % 3];

		c->rxcq = s.rxcq[i / CTXS];
		if (c->rank) {
			while (ct_again(c, fi_recv(s.rx[i / CTXS], mem, 100000, NULL, FI_ADDR_UNSPEC, &c->ctx[i])))
				;
			sep_comp(c, &s, s.rxcq[i / CTXS], &c->ctx[i]);
			ct_verify(c, mem, n, i, "to a named context");
		} else {
			ssize_t ret;

			ct_fill(mem, n, i);
			do {
				ret = fi_send(s.tx[i % CTXS], mem, n, NULL, fi_rx_addr(peer, (int)(i / CTXS), RX_BITS),
					      &c->ctx[i]);
				/* t_opx_first.c */
				CHECK(!ret || c->mode == CT_UDP, "the first message of a context: %s", ct_err(ret));
				sep_drive(c, &s);
			} while (ct_again(c, ret));
			sep_comp(c, &s, s.txcq, &c->ctx[i]);
		}
		ct_barrier(c);
	}
	free(mem);
	c->txcq = own[0];
	c->rxcq = own[1];
	sep_close(c, &s);
}

static void opx_sep(struct ct *c)
{
	ct_open(c);
	CHECK(c->info->domain_attr->max_ep_rx_ctx >= CTXS, "max_ep_rx_ctx %zu", c->info->domain_attr->max_ep_rx_ctx);
	sep_all_pairs(c, FI_AV_MAP);
	sep_all_pairs(c, FI_AV_TABLE);
	ct_close(c);
}

/* Context @i, closed in both directions, is opened again. */
static void sep_reopen(struct ct *c, struct sep *s, int i)
{
	uint64_t end = ct_now_ms() + 20000;
	int ret;

	OK(fi_close(&s->tx[i]->fid));
	OK(fi_tx_context(s->sep, i, NULL, &s->tx[i], NULL));
	OK(fi_rx_context(s->sep, i, NULL, &s->rx[i], NULL));
	OK(fi_ep_bind(s->tx[i], &s->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(s->rx[i], &s->rxcq[i]->fid, FI_RECV));
	/* the hardware context was free meanwhile: another program may have it for a while */
	while ((ret = fi_enable(s->rx[i])) == -FI_EBUSY && ct_now_ms() < end)
		sep_drive(c, s);
	OK(ret);
	OK(fi_enable(s->tx[i]));
}

/*
 * A context of rank 1 closes and opens again: rank 0 reaches it by the address that it has. What came for it while it
 * was closed for receives has gone with it.
 */
static void opx_sep_again(struct ct *c)
{
	_Atomic uint8_t *done = (_Atomic uint8_t *)c->shared;
	struct fid_cq *own[2];
	struct sep s = {0};
	fi_addr_t peer;
	uint64_t v = 1;

	ct_open(c);
	own[0] = c->txcq;
	own[1] = c->rxcq;
	sep_open(c, &s, FI_AV_TABLE);
	c->txcq = s.txcq;
	c->rxcq = s.rxcq[1];
	peer = fi_rx_addr(sep_meet(c, &s), 1, RX_BITS);
	for (int round = 1; round <= 3; round++) {
		if (c->rank) {
			while (ct_again(c, fi_recv(s.rx[1], &v, sizeof(v), NULL, FI_ADDR_UNSPEC, &c->ctx[0])))
				;
			sep_comp(c, &s, s.rxcq[1], &c->ctx[0]);
			CHECK(v == (uint64_t)round, "%llu in round %d", (unsigned long long)v, round);
			OK(fi_close(&s.rx[1]->fid));
			atomic_store(done, (uint8_t)round);
			c->rxcq = s.rxcq[0];
			ct_barrier(c);
			sep_reopen(c, &s, 1);
			ct_barrier(c);
			continue;
		}
		for (v = (uint64_t)round; atomic_load(done) < round; sep_drive(c, &s)) {
			ssize_t ret = fi_inject(s.tx[0], &v, sizeof(v), peer);

			CHECK(!ret || ret == -FI_EAGAIN || ret == -FI_ECONNREFUSED || ret == -FI_ECONNRESET, "%s",
			      ct_err(ret));
		}
		while (ct_again(c, fi_inject(s.tx[0], &v, sizeof(v), peer))) /* to nobody's receive */
			;
		ct_barrier(c);
		ct_barrier(c);
	}
	c->txcq = own[0];
	c->rxcq = own[1];
	sep_close(c, &s);
	ct_close(c);
}

/* --- refusals ------------------------------------------------------------------------------------ */

static void rma_must_fail(struct ct *c, bool is_read, size_t len, const struct fi_rma_iov *at, int err)
{
	uint8_t *mem = calloc(1, len);
	struct fi_cq_err_entry e;
	char text[256];

	while (ct_again(c, is_read ? fi_read(c->ep, mem, len, NULL, c->peer, at->addr, at->key, &c->ctx[3])
				   : fi_write(c->ep, mem, len, NULL, c->peer, at->addr, at->key, &c->ctx[3])))
		;
	e = ct_comp_err(c, c->txcq, FI_RMA | (is_read ? FI_READ : FI_WRITE));
	CHECK(e.err == err && e.op_context == &c->ctx[3], "%s of %zu bytes: error %d (%s), not %d",
	      is_read ? "read" : "write", len, e.err, fi_strerror(e.err), err);
	CHECK(e.prov_errno && strlen(fi_cq_strerror(c->txcq, e.prov_errno, NULL, text, sizeof(text))) > 10,
	      "no reason");
	free(mem);
}

/* Whatever the length, and so the protocol: the initiator learns why. */
static void opx_rma_refused(struct ct *c)
{
	static const size_t lens[] = {8, 8192, 8193, 100000};
	struct fi_rma_iov at, ro;
	struct ct_buf b, r;

	ct_open(c);
	ct_buf(c, &b, 100000, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
	ct_buf(c, &r, 100000, 0, FI_REMOTE_READ);
	ct_share(c, &b, &at);
	ct_share(c, &r, &ro);
	for (unsigned i = 0; i < 4 && c->rank == 0; i++) {
		for (unsigned is_read = 0; is_read < 2; is_read++) {
			struct fi_rma_iov no_key = {.addr = at.addr, .key = 0xabcdef12345},
					  far = {.addr = at.addr + 100001 - lens[i], .key = at.key};

			rma_must_fail(c, is_read, lens[i], &no_key, FI_EKEYREJECTED);
			rma_must_fail(c, is_read, lens[i], &far, FI_EINVAL);
		}
		rma_must_fail(c, false, lens[i], &ro, FI_EACCES);
	}
	ct_barrier(c);
	for (size_t i = 0; i < b.len; i++)
		CHECK(!b.mem[i] && !r.mem[i], "a refused write wrote byte %zu", i);
	ct_buf_free(c, &b);
	ct_buf_free(c, &r);
	ct_close(c);
}

static int info_of(struct ct *c, uint64_t caps, enum fi_ep_type type, uint64_t mode, struct fi_info **out)
{
	struct fi_info *h = ct_hints(c);
	int ret;

	h->caps = caps;
	h->ep_attr->type = type;
	h->mode = mode;
	*out = NULL;
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, out);
	fi_freeinfo(h);
	return ret;
}

/* What the manual says is not supported is not offered; a mode bit that the program lacks is not asked of it. */
static void opx_info(struct ct *c)
{
	struct fi_info *i;

	RET(-FI_ENODATA, info_of(c, FI_MSG | FI_TRIGGER, FI_EP_RDM, ~0ULL, &i));
	RET(-FI_ENODATA, info_of(c, FI_RMA | FI_RMA_EVENT, FI_EP_RDM, ~0ULL, &i));
	RET(-FI_ENODATA, info_of(c, FI_MSG, FI_EP_MSG, ~0ULL, &i));
	RET(-FI_ENODATA, info_of(c, FI_MSG, FI_EP_DGRAM, ~0ULL, &i));
	OK(info_of(c, FI_MSG, FI_EP_RDM, ~0ULL, &i));
	CHECK(i->mode == (FI_CONTEXT2 | FI_ASYNC_IOV) && i->addr_format == FI_ADDR_OPX,
	      "mode %#llx, addresses of format %u", (unsigned long long)i->mode, i->addr_format);
	fi_freeinfo(i);
	OK(info_of(c, FI_MSG, FI_EP_RDM, 0, &i));
	CHECK(!i->mode, "mode %#llx", (unsigned long long)i->mode);
	fi_freeinfo(i);
}

/* What has no events, no sharing, no other kind of receive. */
static void opx_refusals(struct ct *c)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr attr = {.flags = FI_EVENT};
	struct fid_stx *stx = NULL;
	struct fid_ep *srx = NULL;
	struct fid_av *av = NULL;
	struct fid_eq *eq;
	fi_addr_t fa = 0;
	uint64_t raw;

	ct_open(c);
	OK(fi_eq_open(c->fabric, &eq_attr, &eq, NULL));
	RET(-FI_ENOSYS, fi_ep_bind(c->ep, &eq->fid, 0));
	CHECK(fi_av_bind(c->av, &eq->fid, 0) < 0, "an address vector with events");
	OK(fi_close(&eq->fid));
	CHECK(fi_av_open(c->domain, &attr, &av, NULL) < 0, "FI_EVENT");
	attr = (struct fi_av_attr){.name = "shared", .flags = FI_READ};
	RET(-FI_EOPNOTSUPP, fi_av_open(c->domain, &attr, &av, NULL));
	CHECK(fi_stx_context(c->domain, NULL, &stx, NULL) < 0 && fi_srx_context(c->domain, NULL, &srx, NULL) < 0,
	      "shared contexts");
	attr = (struct fi_av_attr){0};
	OK(fi_av_open(c->domain, &attr, &av, NULL));
	CHECK(attr.type == FI_AV_MAP, "the default is type %d", (int)attr.type);
	RET(1, fi_av_insert(av, c->addr, 1, &fa, 0, NULL));
	memcpy(&raw, c->addr, sizeof(raw));
	CHECK(c->addr_len == 8 && fa == raw, "an fi_addr_t of FI_AV_MAP is the address");
	OK(fi_close(&av->fid));
	ct_close(c);
}

#define SOLO (CT_SOLO | CT_ANY_PATH)
const struct ct_test opx_tests[] = {
	{"opx_protocols", opx_protocols, FI_TAGGED, 0, 0, "FI_TAGGED", NULL, "opx"},
	{"opx_answered", opx_answered, FI_TAGGED, 0, 0, NULL, NULL, "opx"},
	{"opx_fence", opx_fence, FI_MSG | FI_RMA | FI_ATOMIC, 0, 0, "op:FI_FENCE", NULL, "opx"},
	{"opx_expected", opx_expected, FI_TAGGED, 0, 0, NULL, "FI_OPX_EXPECTED_RECEIVE_ENABLE=1", "opx"},
	{"opx_no_shm", opx_no_shm, FI_TAGGED, 0, CT_ANY_PATH, NULL, "FI_OPX_SHM_ENABLE=0", "opx"},
	{"opx_directed", opx_directed, FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE, 0, 0, "FI_DIRECTED_RECV FI_SOURCE",
	 NULL, "opx", 60},
	{"opx_multi_recv", opx_multi_recv, FI_MSG | FI_MULTI_RECV, 0, 0, "FI_MULTI_RECV", NULL, "opx"},
	{"opx_sep", opx_sep, FI_MSG | FI_NAMED_RX_CTX, 0, 0, "FI_NAMED_RX_CTX max_ep_tx_ctx max_ep_rx_ctx", NULL,
	 "opx"},
	{"opx_sep_again", opx_sep_again, FI_MSG | FI_NAMED_RX_CTX, 0, 0, NULL,
	 "FI_OPX_HFI_SELECT=6 SOFTFABRIC_OPX=units=8", "opx"},
	{"opx_rma_refused", opx_rma_refused, FI_RMA, 0, CT_ANY_PATH, NULL, NULL, "opx"},
	{"opx_info", opx_info, FI_MSG, 0, SOLO | CT_RAW, "mode:FI_CONTEXT2 mode:FI_ASYNC_IOV", NULL, "opx"},
	{"opx_refusals", opx_refusals, FI_MSG, 0, SOLO, NULL, NULL, "opx"},
	{0},
};
