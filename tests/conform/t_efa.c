// SPDX-License-Identifier: BSD-2-Clause
// What only efa has: which protocol each size takes by hardware generation, told by the packet counters; fallbacks; its
// options.
#include "conform.h"

#include <stdlib.h>

#include "fi_ext_efa.h"

static uint64_t pkts(struct ct *c, char dir, const char *type)
{
	char name[128];

	snprintf(name, sizeof(name), "%cx_pkts.%s", dir, type);
	return ct_stat(c, name);
}

/* In mode one both ranks share the domain's counters: then only "at least" can be said. */
static void grew(struct ct *c, const char *type, uint64_t before, const char *what)
{
	uint64_t now = pkts(c, 't', type);

	CHECK(now > before, "%s: no %s packet was sent", what, type);
}

/* Both sides have the other's handshake. */
static void meet(struct ct *c)
{
	for (unsigned i = 0; i < 2; i++) {
		uint8_t out[8] = {0}, in[8];
		struct ct_msg r = {.tagged = true, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[1], .mem = in, .len = 8};
		struct ct_msg s = {.tagged = true, .addr = c->peer, .ctx = &c->ctx[0], .mem = out, .len = 8};

		ct_recv(c, &r);
		ct_send(c, &s);
		ct_rx(c, &c->ctx[1], FI_RECV | FI_TAGGED, 8);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_TAGGED);
		ct_barrier(c);
		for (unsigned k = 0; k < 500; k++)
			ct_progress(c);
		ct_barrier(c);
	}
}

/* --- messages ------------------------------------------------------------------------------------ */

struct choice {
	size_t len;
	const char *plain, *dc; /* without _MSGRTM, _TAGRTM */
};

static void one_message(struct ct *c, const struct choice *ch, bool tagged, bool dc)
{
	char type[64];
	uint64_t before;
	struct ct_buf b;
	struct ct_msg m = {.call = c->rank ? CT_SEND : CT_SENDMSG, .tagged = tagged, .tag = 3,
			   .flags = dc ? FI_DELIVERY_COMPLETE : 0, .addr = c->rank ? FI_ADDR_UNSPEC : c->peer,
			   .ctx = &c->ctx[0], .len = ch->len};

	snprintf(type, sizeof(type), "%s_%sRTM", dc ? ch->dc : ch->plain, tagged ? "TAG" : "MSG");
	before = pkts(c, 't', type);
	ct_buf(c, &b, ch->len, 0, 0);
	m.mem = b.mem, m.buf = &b;
	if (c->rank) {
		ct_recv(c, &m);
		ct_rx(c, &c->ctx[0], FI_RECV | (tagged ? FI_TAGGED : FI_MSG), ch->len);
		ct_verify(c, b.mem, ch->len, ch->len, type);
	} else {
		ct_fill(b.mem, ch->len, ch->len);
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], FI_SEND | (tagged ? FI_TAGGED : FI_MSG));
		grew(c, type, before, type);
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
}

static void messages(struct ct *c, const struct choice *ch)
{
	ct_open(c);
	meet(c);
	for (; ch->plain; ch++)
		for (unsigned k = 0; k < 4; k++)
			one_message(c, ch, k & 1, k & 2);
	ct_close(c);
}

static void efa_proto_full(struct ct *c)
{
	static const struct choice ch[] = {
		{0, "EAGER", "DC_EAGER"}, {8892, "EAGER", "DC_EAGER"},
		{8920, "MEDIUM", "DC_MEDIUM"}, {65536, "MEDIUM", "DC_MEDIUM"},
		{65537, "LONGCTS", "DC_LONGCTS"}, {1048575, "LONGCTS", "DC_LONGCTS"}, {1048576, "RUNTREAD", "LONGREAD"},
		{4000000, "RUNTREAD", "LONGREAD"}, {0},
	};

	messages(c, ch);
}

static void efa_proto_no_read(struct ct *c)
{
	static const struct choice ch[] = {
		{100, "EAGER", "DC_EAGER"}, {30000, "MEDIUM", "DC_MEDIUM"}, {100000, "LONGCTS", "DC_LONGCTS"},
		{1048576, "LONGCTS", "DC_LONGCTS"}, {4000000, "LONGCTS", "DC_LONGCTS"}, {0},
	};

	messages(c, ch);
}

static void efa_proto_long_read(struct ct *c)
{
	static const struct choice ch[] = {
		{999, "EAGER", "DC_EAGER"}, {1000, "LONGREAD", "LONGREAD"},
		{50000, "LONGREAD", "LONGREAD"}, {3000000, "LONGREAD", "LONGREAD"},
		{0},
	};

	messages(c, ch);
}

static void efa_proto_no_medium(struct ct *c)
{
	static const struct choice ch[] = {{8000, "EAGER", "DC_EAGER"}, {9000, "LONGCTS", "DC_LONGCTS"}, {0}};

	messages(c, ch);
}

/* Of 262144 bytes 65536 come in runt packets and 196608 by exactly one read. */
static void efa_runt(struct ct *c)
{
	size_t len = 262144;
	uint64_t wrs, bytes;
	struct ct_buf b;

	ct_open(c);
	meet(c);
	ct_buf(c, &b, len, 0, 0);
	wrs = ct_stat(c, "rdma_read_wrs");
	bytes = ct_stat(c, "rdma_read_bytes");
	struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = b.mem, .len = len,
			   .buf = &b};
	if (c->rank) {
		ct_recv(c, &m);
		ct_barrier(c);
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, len);
		ct_verify(c, b.mem, len, 8, "runt");
		wrs = ct_stat(c, "rdma_read_wrs") - wrs;
		bytes = ct_stat(c, "rdma_read_bytes") - bytes;
		CHECK(wrs == 1 && bytes == 196608, "%llu reads of %llu bytes", (unsigned long long)wrs,
		      (unsigned long long)bytes);
	} else {
		ct_fill(b.mem, len, 8);
		ct_barrier(c);
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
	ct_close(c);
}

/* The receiver has no region left: it answers a long-read message with READ_NACK, and the sender goes over to CTS. */
static void efa_read_nack(struct ct *c)
{
	static const size_t lens[] = {1048576, 1500000, 3000000};
	struct ct_buf b;
	struct fid_mr *last = NULL;
	uint64_t nacks;

	if (c->rank)
		setenv("SOFTFABRIC_EFA", "max_mr=1", 1);
	ct_open(c);
	meet(c);
	ct_buf(c, &b, 3000000, 0, 0);
	if (c->rank)
		OK(fi_mr_reg(c->domain, c->ctx, sizeof(c->ctx), FI_REMOTE_READ, 0, 0, 0, &last, NULL));
	nacks = pkts(c, 't', "READ_NACK");
	for (unsigned i = 0; i < 6; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = b.mem,
				   .len = lens[i / 2], .buf = &b};

		m.call = i % 2 && !c->rank ? CT_SENDMSG : CT_SEND; /* delivery complete: LONGREAD, else RUNTREAD */
		m.flags = FI_DELIVERY_COMPLETE;
		if (c->rank) {
			memset(b.mem, 0, m.len);
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, m.len);
			ct_verify(c, b.mem, m.len, i, "after a nack");
			CHECK(pkts(c, 't', "READ_NACK") == nacks + i + 1, "%llu nacks after %u messages",
			      (unsigned long long)(pkts(c, 't', "READ_NACK") - nacks), i + 1);
		} else {
			ct_fill(b.mem, m.len, i);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		}
		ct_barrier(c);
	}
	if (last)
		OK(fi_close(&last->fid));
	ct_buf_free(c, &b);
	ct_close(c);
}

/* --- one-sided ----------------------------------------------------------------------------------- */

struct rma_choice {
	size_t len;
	const char *write, *write_dc, *read;
};

static void rma_one(struct ct *c, const struct rma_choice *ch, const struct fi_rma_iov *at, struct ct_buf *b)
{
	const char *type[3] = {ch->write, ch->write_dc, ch->read};

	for (unsigned k = 0; k < 3; k++) {
		struct iovec iov = {b->mem, ch->len};
		struct fi_rma_iov r = {at->addr, ch->len, at->key};
		struct fi_msg_rma m = {&iov, &b->desc, 1, c->peer, &r, 1, &c->ctx[0], 0};
		uint64_t before = pkts(c, 't', type[k]);

		c->traffic = true;
		while (ct_again(
			c, k == 2 ? fi_readmsg(c->ep, &m, FI_COMPLETION)
				  : fi_writemsg(c->ep, &m,
						FI_COMPLETION | (k ? FI_DELIVERY_COMPLETE : FI_TRANSMIT_COMPLETE))))
			;
		ct_tx(c, &c->ctx[0], FI_RMA | (k == 2 ? FI_READ : FI_WRITE));
		grew(c, type[k], before, k == 2 ? "read" : "write");
	}
}

static void one_sided(struct ct *c, const struct rma_choice *ch, bool emulated_read, bool emulated_write)
{
	struct ct_window w;
	bool v = true;
	size_t len = sizeof(v);

	ct_open(c);
	OK(fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_READ, &v, &len));
	CHECK(v == emulated_read, "EMULATED_READ is %d", v);
	OK(fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_WRITE, &v, &len));
	CHECK(v == emulated_write, "EMULATED_WRITE is %d", v);
	OK(fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_ATOMICS, &v, &len));
	CHECK(v, "EMULATED_ATOMICS is %d", v);
	meet(c);
	ct_window(c, &w, 2000000, FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (; ch->write && !c->rank; ch++)
		rma_one(c, ch, &w.at, &w.mine);
	ct_barrier(c);
	if (emulated_read)
		CHECK(!ct_stat(c, "rdma_read_wrs"), "device reads although emulated");
	if (emulated_write)
		CHECK(!ct_stat(c, "rdma_write_wrs"), "device writes although emulated");
	ct_window_free(c, &w);
	ct_close(c);
}

static void efa_rma_none(struct ct *c)
{
	static const struct rma_choice ch[] = {
		{100, "EAGER_RTW", "DC_EAGER_RTW", "SHORT_RTR"}, {8800, "EAGER_RTW", "DC_EAGER_RTW", "SHORT_RTR"},
		{10000, "LONGCTS_RTW", "DC_LONGCTS_RTW", "LONGCTS_RTR"},
		{1500000, "LONGCTS_RTW", "DC_LONGCTS_RTW", "LONGCTS_RTR"}, {0},
	};

	one_sided(c, ch, true, true);
}

static void efa_rma_read(struct ct *c)
{
	static const struct rma_choice ch[] = {
		{100, "EAGER_RTW", "DC_EAGER_RTW", "RDMA_READ"}, {65535, "LONGCTS_RTW", "DC_LONGCTS_RTW", "RDMA_READ"},
		{65536, "LONGREAD_RTW", "LONGREAD_RTW", "RDMA_READ"},
		{1500000, "LONGREAD_RTW", "LONGREAD_RTW", "RDMA_READ"}, {0},
	};

	one_sided(c, ch, false, true);
}

static void efa_rma_full(struct ct *c)
{
	static const struct rma_choice ch[] = {
		{0, "RDMA_WRITE", "RDMA_WRITE", "RDMA_READ"}, {100, "RDMA_WRITE", "RDMA_WRITE", "RDMA_READ"},
		{1500000, "RDMA_WRITE", "RDMA_WRITE", "RDMA_READ"}, {0},
	};

	one_sided(c, ch, false, false);
}

static void efa_atomics(struct ct *c)
{
	static const char *const type[] = {"WRITE_RTA", "DC_WRITE_RTA", "FETCH_RTA", "COMPARE_RTA"};
	uint64_t one = 1, res = 0;
	struct fi_rma_iov at;
	struct ct_buf b;

	ct_open(c);
	meet(c);
	ct_buf(c, &b, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
	ct_share(c, &b, &at);
	for (unsigned k = 0; k < 4 && !c->rank; k++) {
		struct fi_ioc ioc = {&one, 1};
		struct fi_rma_ioc r = {at.addr, 1, at.key};
		struct fi_msg_atomic m = {&ioc, NULL, 1, c->peer, &r, 1, FI_UINT64, FI_SUM, &c->ctx[0], 0};
		uint64_t before = pkts(c, 't', type[k]);

		c->traffic = true;
		while (ct_again(c, k < 2    ? fi_atomicmsg(c->ep, &m, k ? FI_DELIVERY_COMPLETE : 0)
				   : k == 2 ? fi_fetch_atomic(c->ep, &one, 1, NULL, &res, NULL, c->peer, at.addr,
							      at.key, FI_UINT64, FI_SUM, &c->ctx[0])
					    : fi_compare_atomic(c->ep, &one, 1, NULL, &one, NULL, &res, NULL, c->peer,
								at.addr, at.key, FI_UINT64, FI_CSWAP, &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_ATOMIC | (k < 2 ? FI_WRITE : FI_READ));
		grew(c, type[k], before, "atomic");
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
	ct_close(c);
}

/* --- options and extension tables ---------------------------------------------------------------- */

static void efa_options(struct ct *c)
{
	size_t rnr = 0, len = sizeof(rnr);
	bool yes = true;

	c->want.no_enable = true;
	ct_open(c);
	OK(fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_RNR_RETRY, &rnr, &len));
	CHECK(rnr == 3, "default retry %zu", rnr);
	rnr = 8;
	RET(-FI_EINVAL, fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_RNR_RETRY, &rnr, sizeof(rnr)));
	rnr = 7;
	OK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_RNR_RETRY, &rnr, sizeof(rnr)));
	/* This API version is below 1.18, so the choice of device RDMA is not the application's. */
	RET(-FI_ENOPROTOOPT, fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_USE_DEVICE_RDMA, &yes, sizeof(yes)));
	OK(fi_enable(c->ep));
	RET(-FI_EINVAL, fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_RNR_RETRY, &rnr, sizeof(rnr)));
	OK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_HOMOGENEOUS_PEERS, &yes, sizeof(yes)));
	RET(-FI_EINVAL, fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_HOMOGENEOUS_PEERS, &rnr, sizeof(rnr)));
	ct_connect(c);
	ct_close(c);
}

static void efa_tables(struct ct *c)
{
	struct fi_efa_ops_domain *ops = NULL;
	struct fi_efa_mr_attr attr;
	char name[64];
	uint64_t v;
	struct ct_buf b;
	size_t n = 0;

	ct_open(c);
	CHECK(c->stats, "no statistics");
	for (; !c->stats->name(c->domain, n, name, sizeof(name)); n++) {
		CHECK(!c->stats->read(c->domain, name, &v), "%s is listed but cannot be read", name);
		RET(-FI_ETOOSMALL, c->stats->name(c->domain, n, name, 2));
	}
	CHECK(n > 80, "%zu counters", n);
	RET(-FI_ENOENT, c->stats->read(c->domain, "no such counter", &v));
	RET(-FI_ENOENT, c->stats->read(c->domain, "tx_pkts.", &v));
	RET(-FI_EINVAL, c->stats->read(c->domain, "", &v));
	RET(-FI_EINVAL, c->stats->read(c->domain, "tx_bytes", NULL));
	OK(fi_open_ops(&c->domain->fid, FI_EFA_DOMAIN_OPS, 0, (void **)&ops, NULL));
	ct_buf(c, &b, 100, 0, FI_REMOTE_READ);
	memset(&attr, 0xff, sizeof(attr));
	OK(ops->query_mr(b.mr, &attr));
	CHECK(!(attr.ic_id_validity & ~7), "validity %#x", attr.ic_id_validity);
	ct_buf_free(c, &b);
	ct_close(c);
}

/*
 * Messages that come out of order by more than the window: nothing is lost, nothing overtakes, and nobody keeps more
 * than the window.
 */
static void efa_window(struct ct *c)
{
	uint64_t refused;

	ct_open(c);
	ct_stream(c, false, 400, true);
	ct_stream(c, true, 400, false);
	refused = ct_stat(c, "early_refused");
	if (c->rank == 0) {
		uint64_t theirs;

		ct_swap(c, &refused, &theirs, sizeof(refused));
		CHECK(refused + theirs, "nothing came early: this test tests nothing");
	} else {
		ct_swap(c, &refused, &refused, sizeof(refused));
	}
	CHECK(!ct_stat(c, "drop.early"), "messages were lost");
	ct_close(c);
}

/*
 * An address by its text, of another library or of an older version does not say of which host it is. It is the same
 * peer: what it sends first, before anything has gone there, has its name, and so has all that follows the answer.
 */
static void efa_no_host(struct ct *c)
{
	uint8_t mem[8] = {0};
	struct ct_msg m = {.ctx = &c->ctx[0], .mem = mem, .len = sizeof(mem)};

	ct_open(c);
	OK(fi_av_remove(c->av, &c->peer, 1, 0));
	memset(c->peer_addr + 18, 0, 2);
	RET(1, fi_av_insert(c->av, c->peer_addr, 1, &c->peer, 0, NULL));
	ct_barrier(c);
	for (int i = 0; i < 6; i++) {
		bool is_mine = c->rank == i % 2;

		m.addr = is_mine ? c->peer : FI_ADDR_UNSPEC;
		if (is_mine) {
			ct_send(c, &m);
			ct_tx(c, m.ctx, FI_MSG | FI_SEND);
		} else {
			ct_recv(c, &m);
			CHECK(ct_rx(c, m.ctx, FI_MSG | FI_RECV, m.len).src == c->peer, "message %d is from another one",
			      i);
		}
	}
	ct_barrier(c);
	ct_close(c);
}

/*
 * An address that nobody has here. On loopback it says which host it is of; if that is another one, the error says
 * which key helps, and a message without a completion ends the queue's read, or a job that is set up wrong would wait
 * for ever.
 */
static void efa_nobody(struct ct *c)
{
	static const char says[] = "no adapter with this address on this host";

	ct_open(c);
	for (unsigned is_far = 0; is_far < 2; is_far++) {
		uint8_t addr[64], mem[8] = {0};
		char text[512] = "", data[1024];
		struct fi_cq_err_entry e = {.err_data = data, .err_data_size = sizeof(data)};
		struct fi_cq_tagged_entry t;
		fi_addr_t to;
		ssize_t ret;

		memcpy(addr, c->addr, sizeof(addr));
		addr[20] ^= 0x55; /* the connection id of no endpoint; its queue pair number neither */
		addr[16] = (uint8_t)(9 + is_far);
		addr[17] = 0;
		CHECK(addr[18] || addr[19], "the address does not say of which host it is");
		addr[18] ^= is_far ? addr[18] == 0x55 ? 0xaa : 0x55 : 0;
		RET(1, fi_av_insert(c->av, addr, 1, &to, 0, NULL));
		while (ct_again(c, fi_send(c->ep, mem, sizeof(mem), NULL, to, &c->ctx[0])))
			;
		while ((ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN)
			;
		RET(-FI_EAVAIL, ret);
		RET(1, fi_cq_readerr(c->txcq, &e, 0));
		CHECK(e.err == FI_ENOTCONN || e.err == FI_EHOSTUNREACH, "error %d", e.err);
		fi_cq_strerror(c->txcq, e.prov_errno, e.err_data, text, sizeof(text));
		CHECK(!strstr(text, says) == !is_far && !strstr(text, "if=") == !is_far, "the text is: %s", text);
		CHECK(strstr(text, "Peer EFA addr: fi_addr_efa://"), "the text is: %s", text);
		if (!is_far)
			continue;
		while (ct_again(c, fi_inject(c->ep, mem, sizeof(mem), to)))
			;
		while ((ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN)
			;
		RET(-e.err, ret);
	}
	ct_close(c);
}

/*
 * The address that fi_getinfo() gives is the adapter's, without a queue pair: the adapter says at once that there is
 * none of that number, with whatever lies between, and does not look for it until it counts as dead.
 */
static void efa_no_qp(struct ct *c)
{
	struct fi_cq_err_entry e = {0};
	struct fi_cq_tagged_entry t;
	uint8_t mem[8] = {0};
	fi_addr_t to;
	ssize_t ret;

	ct_open(c);
	RET(1, fi_av_insert(c->av, c->info->src_addr, 1, &to, 0, NULL));
	while (ct_again(c, fi_send(c->ep, mem, sizeof(mem), NULL, to, &c->ctx[0])))
		;
	while ((ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN)
		;
	RET(-FI_EAVAIL, ret);
	RET(1, fi_cq_readerr(c->txcq, &e, 0));
	CHECK(e.err == FI_ENOTCONN && e.prov_errno == 9, "error %d, %d", e.err, e.prov_errno);
	ct_close(c);
}

/*
 * Of a peer that went before it was met no handshake comes. What waits for one fails in the queue; what has no
 * completion is refused by the call, which would say -FI_EAGAIN for ever.
 */
static void efa_inject_gone(struct ct *c)
{
	uint8_t mem[8] = {0};
	struct ct_ep2 e;
	fi_addr_t to;
	ssize_t ret;

	ct_open(c);
	ct_ep2_open(c, &e);
	RET(1, fi_av_insert(c->av, e.addr, 1, &to, 0, NULL));
	ct_ep2_close(c, &e);
	while ((ret = fi_inject_write(c->ep, mem, sizeof(mem), to, 0, 1)) == -FI_EAGAIN)
		ct_progress(c);
	CHECK(ret == -FI_ENOTCONN || ret == -FI_EHOSTUNREACH || ret == -FI_ECONNABORTED, "a write: %s", ct_err(ret));
	while ((ret = fi_inject_atomic(c->ep, mem, 1, to, 0, 1, FI_UINT64, FI_SUM)) == -FI_EAGAIN)
		ct_progress(c);
	CHECK(ret == -FI_ENOTCONN || ret == -FI_EHOSTUNREACH || ret == -FI_ECONNABORTED, "an atomic: %s", ct_err(ret));
	ct_close(c);
}

/*
 * FI_OPT_EFA_HOMOGENEOUS_PEERS: what a peer can is known before it has said so. The one that was set to nothing has to
 * be asked first, and what cannot wait for the answer is refused.
 */
static void efa_homogeneous(struct ct *c)
{
	uint64_t one = 1, dc;
	struct ct_ep2 e[2];
	struct ct_buf b;
	fi_addr_t to[2];
	bool yes = true;

	ct_open(c);
	ct_buf(c, &b, 8, 0, FI_REMOTE_WRITE | FI_REMOTE_READ);
	memset(b.mem, 0, 8);
	for (unsigned i = 0; i < 2; i++) {
		ct_ep2_open(c, &e[i]);
		RET(1, fi_av_insert(c->av, e[i].addr, 1, &to[i], 0, NULL));
	}
	RET(-FI_EAGAIN, fi_inject_atomic(c->ep, &one, 1, to[0], b.base, b.key, FI_UINT64, FI_SUM));
	OK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_HOMOGENEOUS_PEERS, &yes, sizeof(yes)));
	for (unsigned i = 0; i < 2; i++) {
		struct iovec iov = {&one, sizeof(one)};
		struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = to[i], .context = &c->ctx[i]};
		uint64_t in = 0;

		OK(fi_inject_atomic(c->ep, &one, 1, to[i], b.base, b.key, FI_UINT64, FI_SUM));
		dc = pkts(c, 't', "DC_EAGER_MSGRTM");
		OK(fi_recv(e[i].ep, &in, sizeof(in), NULL, FI_ADDR_UNSPEC, &c->ctx[2]));
		OK(fi_sendmsg(c->ep, &m, FI_DELIVERY_COMPLETE | FI_COMPLETION));
		CHECK(pkts(c, 't', "DC_EAGER_MSGRTM") == dc + 1, "the send waits for a handshake");
		while (fi_cq_read(e[i].cq, &(struct fi_cq_tagged_entry){0}, 1) == -FI_EAGAIN)
			ct_progress(c);
		CHECK(in == 1, "received %llu", (unsigned long long)in);
		while (!ct_succeeds(c, c->txcq, FI_SEND | FI_MSG))
			fi_cq_read(e[i].cq, NULL, 0);
		CHECK(*(volatile uint64_t *)b.mem == i + 1, "%llu atomics", *(unsigned long long *)b.mem);
	}
	for (unsigned i = 0; i < 2; i++)
		ct_ep2_close(c, &e[i]);
	ct_buf_free(c, &b);
	ct_close(c);
}

/*
 * A write waits for the peer's handshake, and the region of its own memory is closed meanwhile: it fails, if it has not
 * left yet, and what the region was is not looked at (a sanitizer sees that).
 */
static void efa_desc_closed(struct ct *c)
{
	struct ct_window w;
	struct fid_mr *mr;
	ssize_t ret;

	ct_open(c);
	ct_window(c, &w, 100, FI_REMOTE_WRITE);
	if (!c->rank) {
		OK(fi_mr_reg(c->domain, w.mine.mem, 100, FI_WRITE, 0, 0, 0, &mr, NULL));
		do
			ret = fi_write(c->ep, w.mine.mem, 100, fi_mr_desc(mr), c->peer, w.at.addr, w.at.key,
				       &c->ctx[0]);
		while (ct_again(c, ret));
		OK(fi_close(&mr->fid));
		ct_succeeds(c, c->txcq, FI_RMA | FI_WRITE);
	}
	ct_barrier(c);
	ct_window_free(c, &w);
	ct_close(c);
}

/*
 * A quarter of a second after an operation has failed: was anything written to its memory, which is its owner's again?
 */
static void untouched(struct ct *c, struct ct_ep2 *e, struct ct_buf *b, const char *what)
{
	uint64_t until = ct_now_ms() + 250;

	memset(b->mem, 0x5a, b->len);
	while (ct_now_ms() < until) {
		fi_cq_read(e->cq, NULL, 0);
		ct_progress(c);
	}
	for (size_t i = 0; i < b->len; i++)
		CHECK(b->mem[i] == 0x5a, "%s: byte %zu was written after it had failed", what, i);
}

/*
 * Of two reads of an operation one is refused at once, while the bytes of the other are still on their way: of a long
 * message whose sender has closed a region too early, and of fi_readmsg. It fails when nothing will be written to its
 * memory any more, and the sender of the message hears of it.
 */
static void efa_read_half(struct ct *c)
{
	size_t half = 8 << 20;
	struct fi_cq_err_entry err = {0};
	struct fi_rma_iov far[2];
	struct fi_msg_rma m = {.rma_iov = far, .rma_iov_count = 2, .iov_count = 1, .context = &c->ctx[2]};
	struct ct_buf out[2], in;
	struct fi_cq_tagged_entry t;
	struct iovec iov[2];
	void *desc[2];
	struct ct_ep2 e;
	bool yes = true;
	fi_addr_t to;
	ssize_t ret;

	ct_open(c);
	ct_ep2_open(c, &e);
	RET(1, fi_av_insert(c->av, e.addr, 1, &to, 0, NULL));
	OK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_HOMOGENEOUS_PEERS, &yes, sizeof(yes)));
	ct_buf(c, &in, 2 * half, 0, FI_RECV | FI_READ);
	for (unsigned i = 0; i < 2; i++) {
		ct_buf(c, &out[i], half, 0, FI_SEND | FI_REMOTE_READ);
		iov[i] = (struct iovec){out[i].mem, half};
		desc[i] = out[i].desc;
		far[i] = (struct fi_rma_iov){out[i].base, half, out[i].key + i};
	}
	m.addr = to;
	m.msg_iov = &(struct iovec){in.mem, 2 * half};
	m.desc = &in.desc;
	while (ct_again(c, fi_readmsg(c->ep, &m, FI_COMPLETION)))
		;
	while ((ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN)
		fi_cq_read(e.cq, NULL, 0);
	RET(-FI_EAVAIL, ret);
	RET(1, fi_cq_readerr(c->txcq, &err, 0));
	CHECK(err.op_context == &c->ctx[2], "another operation");
	untouched(c, &e, &in, "a read");

	while (ct_again(c, fi_sendv(c->ep, iov, desc, 2, to, &c->ctx[0])))
		;
	OK(fi_close(&out[1].mr->fid));
	out[1].mr = NULL;
	OK(fi_recv(e.ep, in.mem, 2 * half, in.desc, FI_ADDR_UNSPEC, &c->ctx[1]));
	while ((ret = fi_cq_read(e.cq, &t, 1)) == -FI_EAGAIN)
		ct_progress(c);
	RET(-FI_EAVAIL, ret);
	err = (struct fi_cq_err_entry){0};
	RET(1, fi_cq_readerr(e.cq, &err, 0));
	CHECK(err.op_context == &c->ctx[1], "another operation");
	untouched(c, &e, &in, "a receive");
	err = ct_comp_err(c, c->txcq, FI_SEND | FI_MSG);
	CHECK(err.op_context == &c->ctx[0], "another operation");
	ct_ep2_close(c, &e);
	for (unsigned i = 0; i < 2; i++)
		ct_buf_free(c, &out[i]);
	ct_buf_free(c, &in);
	ct_close(c);
}

/*
 * One try of efa_close_receiving. Return: false: all of the message came between two calls of this thread, as where the
 * adapter's thread runs and this one does not.
 */
static bool closed_receiving(struct ct *c, const struct ct_buf *out, const struct ct_buf *in, size_t len)
{
	struct fi_cq_err_entry err = {0};
	uint64_t begun = pkts(c, 't', "CTS");
	struct ct_ep2 e;
	fi_addr_t to;
	ssize_t ret;

	ct_ep2_open(c, &e);
	RET(1, fi_av_insert(c->av, e.addr, 1, &to, 0, NULL));
	OK(fi_recv(e.ep, in->mem, len, in->desc, FI_ADDR_UNSPEC, &c->ctx[1]));
	while (ct_again(c, fi_send(c->ep, out->mem, len, out->desc, to, &c->ctx[0])))
		;
	while (pkts(c, 't', "CTS") == begun)
		fi_cq_read(e.cq, NULL, 0);
	OK(fi_close(&e.ep->fid));
	ret = fi_cq_read(e.cq, NULL, 0);
	if (!ret) {
		ct_succeeds(c, c->txcq, FI_SEND | FI_MSG);
	} else {
		CHECK(ret == -FI_EAVAIL, "the receive: %s", ct_err(ret));
		RET(1, fi_cq_readerr(e.cq, &err, 0));
		CHECK(err.err == FI_ECANCELED && err.op_context == &c->ctx[1], "error %d", err.err);
		err = ct_comp_err(c, c->txcq, FI_SEND | FI_MSG);
		CHECK(err.op_context == &c->ctx[0], "another send");
	}
	OK(fi_close(&e.cq->fid));
	OK(fi_close(&e.av->fid));
	return ret;
}

/* An endpoint closes while a receive of it has the beginning of a message, whose sender has more to send. */
static void efa_close_receiving(struct ct *c)
{
	size_t len = 1 << 20;
	struct ct_buf out, in;
	int tries = 50;

	ct_open(c);
	ct_buf(c, &out, len, 0, FI_SEND);
	ct_buf(c, &in, len, 0, FI_RECV);
	while (!closed_receiving(c, &out, &in, len))
		CHECK(--tries, "each message had come before the endpoint closed");
	ct_buf_free(c, &out);
	ct_buf_free(c, &in);
	ct_close(c);
}

#define ALL4 (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
/*
 * The protocols are those of the network path; between processes of one host the provider is free to find faster ways.
 */
#define NET  "FI_EFA_ENABLE_SHM_TRANSFER=0 "
#define NONE NET "SOFTFABRIC_EFA=gen=efa0-none"
#define READ NET "SOFTFABRIC_EFA=gen=efa0-read FI_EFA_USE_DEVICE_RDMA=1"
const struct ct_test efa_tests[] = {
	{"efa_proto_full", efa_proto_full, ALL4, 0, CT_ANY_PATH, NULL, NET, "efa"},
	{"efa_proto_none", efa_proto_no_read, ALL4, 0, CT_ANY_PATH, NULL, NONE, "efa"},
	{"efa_proto_rdma_off", efa_proto_no_read, ALL4, 0, CT_ANY_PATH, NULL, NET "FI_EFA_USE_DEVICE_RDMA=0", "efa"},
	{"efa_proto_longread", efa_proto_long_read, ALL4, 0, CT_ANY_PATH, NULL,
	 NET "FI_EFA_RUNT_SIZE=0 FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=1000", "efa"},
	{"efa_proto_no_medium", efa_proto_no_medium, ALL4, 0, CT_ANY_PATH, NULL,
	 NET "FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE=0", "efa"},
	{"efa_runt", efa_runt, ALL4, 0, CT_NO_ONE | CT_ANY_PATH, NULL,
	 NET "FI_EFA_RUNT_SIZE=65536 FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=1000", "efa"},
	{"efa_read_nack", efa_read_nack, ALL4, 0, CT_NO_ONE | CT_ANY_PATH, NULL, NET, "efa"},
	{"efa_rma_none", efa_rma_none, ALL4, 0, CT_ANY_PATH, NULL, NONE, "efa"},
	{"efa_rma_read", efa_rma_read, ALL4, 0, CT_ANY_PATH, NULL, READ, "efa"},
	{"efa_rma_rw", efa_rma_full, ALL4, 0, CT_ANY_PATH, NULL,
	 NET "SOFTFABRIC_EFA=gen=efa1-rw FI_EFA_USE_DEVICE_RDMA=1", "efa"},
	{"efa_rma_full", efa_rma_full, ALL4, 0, CT_ANY_PATH, NULL, NET, "efa"},
	{"efa_atomics", efa_atomics, ALL4, 0, CT_ANY_PATH, NULL, NET, "efa"},
	{"efa_window", efa_window, ALL4, 0, CT_ANY_PATH, "FI_EFA_RECVWIN_SIZE",
	 NET "FI_EFA_RECVWIN_SIZE=2 SOFTFABRIC_NET=reorder=20%;delay=50us", "efa"},
	{"efa_no_host", efa_no_host, FI_MSG, 0, 0, NULL, NULL, "efa"},
	{"efa_nobody", efa_nobody, FI_MSG, 0, CT_SOLO, NULL, NULL, "efa"},
	{"efa_no_qp", efa_no_qp, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, NULL, NULL, "efa"},
	{"efa_inject_gone", efa_inject_gone, ALL4, 0, CT_SOLO, NULL, NULL, "efa"},
	{"efa_homogeneous", efa_homogeneous, ALL4, 0, CT_SOLO, NULL, NULL, "efa"},
	{"efa_read_half", efa_read_half, ALL4, 0, CT_SOLO | CT_ANY_PATH, NULL,
	 NET "FI_EFA_RUNT_SIZE=0 FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=1000", "efa"},
	{"efa_desc_closed", efa_desc_closed, ALL4, 0, CT_NO_ONE, NULL, NULL, "efa"},
	{"efa_close_receiving", efa_close_receiving, ALL4, 0, CT_SOLO | CT_ANY_PATH, NULL, NONE, "efa"},
	{"efa_options", efa_options, FI_MSG, 0, CT_SOLO, NULL, NULL, "efa"},
	{"efa_tables", efa_tables, FI_RMA, 0, CT_SOLO, NULL, NULL, "efa"},
	{0},
};
