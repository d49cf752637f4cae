// SPDX-License-Identifier: BSD-2-Clause
// What calls of opx promise: keys of regions, offsets, the four bytes that go with messages and writes, multi-receive,
// waits, silent peers.
#include "conform.h"

#include <stdlib.h>

/* --- regions ------------------------------------------------------------------------------------- */

static uint8_t g_mem[2][256];

static int mr_try(struct ct *c, struct fid_domain *domain, uint64_t access, uint64_t key, uint64_t flags,
		  struct fid_mr **mr)
{
	*mr = NULL;
	return fi_mr_reg(domain, g_mem[c->rank], sizeof(g_mem[0]), access, 0, key, flags, mr, NULL);
}

static void opx_mr_keys(struct ct *c)
{
	static const uint64_t keys[] = {0, 1, 0xffffffff, 1ULL << 32, 1ULL << 63, UINT64_MAX - 1};
	static const uint64_t access[] = {0, FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE,
					  FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE};
	struct fid_mr *mr[6], *twin;
	struct fid_domain *other;

	ct_open(c);
	OK(fi_domain(c->fabric, c->info, &other, NULL));
	for (int i = 0; i < 6; i++) {
		OK(mr_try(c, c->domain, FI_REMOTE_READ, keys[i], 0, &mr[i]));
		CHECK(fi_mr_key(mr[i]) == keys[i], "key %#llx", (unsigned long long)fi_mr_key(mr[i]));
		RET(-FI_ENOKEY, mr_try(c, c->domain, FI_REMOTE_READ, keys[i], 0, &twin));
		OK(mr_try(c, other, FI_REMOTE_READ, keys[i], 0, &twin)); /* keys are the domain's */
		OK(fi_close(&twin->fid));
	}
	for (int i = 0; i < 6; i++) {
		OK(fi_close(&mr[i]->fid));
		OK(mr_try(c, c->domain, FI_REMOTE_READ, keys[i], 0, &twin)); /* free again */
		OK(fi_close(&twin->fid));
	}
	RET(-FI_EKEYREJECTED, mr_try(c, c->domain, FI_REMOTE_READ, UINT64_MAX, 0, &twin));
	for (unsigned i = 0; i < sizeof(access) / sizeof(access[0]); i++) {
		OK(mr_try(c, c->domain, access[i], 7, 0, &twin));
		OK(fi_close(&twin->fid));
	}
	RET(-FI_EINVAL, mr_try(c, c->domain, FI_REMOTE_READ | FI_COLLECTIVE, 7, 0, &twin));
	RET(-FI_EINVAL, mr_try(c, c->domain, FI_REMOTE_READ | FI_TAGGED, 7, 0, &twin));
	RET(-FI_EINVAL, mr_try(c, c->domain, FI_REMOTE_READ, 7, FI_RMA_EVENT, &twin));
	RET(-FI_EINVAL, mr_try(c, c->domain, FI_REMOTE_READ, 7, FI_RMA_PMEM, &twin));
	OK(fi_close(&other->fid));
	ct_close(c);
}

/* Counters may be bound, and count nothing: FI_RMA_EVENT is not offered. */
static void opx_mr_bind(struct ct *c)
{
	struct fi_cntr_attr attr = {0};
	struct fid_cntr *cntr;
	struct fid_mr *mr;

	ct_open(c);
	OK(fi_cntr_open(c->domain, &attr, &cntr, NULL));
	OK(mr_try(c, c->domain, FI_REMOTE_WRITE, 7, 0, &mr));
	OK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	OK(fi_mr_bind(mr, &c->ep->fid, 0));
	CHECK(fi_mr_bind(mr, &c->txcq->fid, 0) < 0 && fi_mr_bind(mr, &c->av->fid, 0) < 0,
	      "a queue and an address vector");
	OK(fi_mr_enable(mr));
	ct_barrier(c);
	if (!c->rank) {
		while (ct_again(c, fi_write(c->ep, g_mem[0], 8, NULL, c->peer, 0, 7, &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_RMA | FI_WRITE);
	}
	ct_barrier(c);
	CHECK(!fi_cntr_read(cntr), "%llu", (unsigned long long)fi_cntr_read(cntr));
	OK(fi_close(&mr->fid));
	OK(fi_close(&cntr->fid));
	ct_close(c);
}

/* One write of @len bytes to where the peer's region has @addr; @err of its completion, 0: success. */
static void write_at(struct ct *c, uint64_t addr, size_t len, int err)
{
	while (ct_again(c, fi_write(c->ep, g_mem[0], len, NULL, c->peer, addr, 9, &c->ctx[0])))
		;
	if (err) {
		struct fi_cq_err_entry e = ct_comp_err(c, c->txcq, FI_RMA | FI_WRITE);

		CHECK(e.err == err && e.op_context == &c->ctx[0], "at %#llx: error %d, not %d",
		      (unsigned long long)addr, e.err, err);
	} else {
		ct_tx(c, &c->ctx[0], FI_RMA | FI_WRITE);
	}
}

/* A region is addressed from the offset that it was registered with; when it is closed its key is unknown. */
static void opx_mr_offset(struct ct *c)
{
	static const uint64_t from[] = {0, 0x1000, UINT64_MAX - 1000};
	struct fid_mr *mr;

	c->traffic = true;
	ct_open(c);
	for (unsigned i = 0; i < 3; i++) {
		uint8_t *mem = g_mem[c->rank];

		memset(mem, (int)(i + 1) * (1 - c->rank), sizeof(g_mem[0]));
		OK(fi_mr_reg(c->domain, mem, 256, FI_REMOTE_WRITE, from[i], 9, 0, &mr, NULL));
		ct_barrier(c);
		if (!c->rank) {
			write_at(c, from[i], 1, 0);
			write_at(c, from[i] + 255, 1, 0);
			write_at(c, from[i] + 256, 0, 0); /* at the end nothing is left, which is enough */
			write_at(c, from[i] + 257, 0, FI_EINVAL);
			write_at(c, from[i] + 255, 2, FI_EINVAL);
			if (i)
				write_at(c, from[i] - 1, 1, FI_EINVAL);
			write_at(c, i ? 0 : 0x100000, 8, FI_EINVAL);
		}
		ct_barrier(c);
		if (c->rank)
			CHECK(mem[0] == i + 1 && mem[255] == i + 1 && !mem[1] && !mem[254], "byte 0 is %u, 255 is %u",
			      mem[0], mem[255]);
		OK(fi_close(&mr->fid));
		ct_barrier(c);
		if (!c->rank)
			write_at(c, from[i], 1, FI_EKEYREJECTED);
		ct_barrier(c);
	}
	ct_close(c);
}

/* --- the four bytes of CQ data ------------------------------------------------------------------- */

#define DATA 0x123456789abcdef0ULL

static void data_recv(struct ct *c, bool tagged, struct ct_buf *b, size_t len, bool has_data)
{
	uint64_t flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG) | (has_data ? FI_REMOTE_CQ_DATA : 0);
	struct ct_msg m = {.tagged = tagged, .tag = 5, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[0], .mem = b->mem,
			   .len = len, .buf = b};
	struct ct_comp r;

	ct_recv(c, &m);
	r = ct_rx(c, &c->ctx[0], flags, len);
	CHECK(r.e.data == (has_data ? (uint32_t)DATA : 0), "%zu bytes: data %#llx", len, (unsigned long long)r.e.data);
}

/*
 * With messages by every protocol, of both kinds, and with writes: the low four bytes come, and only who sends data is
 * said to.
 */
static void opx_cq_data(struct ct *c)
{
	static const size_t lens[] = {0, 8, 16, 17, 8192, 12000, 100000};
	struct ct_window w;
	struct ct_comp r;

	ct_open(c);
	CHECK(c->info->domain_attr->cq_data_size == 4, "cq_data_size %zu", c->info->domain_attr->cq_data_size);
	ct_window(c, &w, 100000, FI_REMOTE_WRITE);
	for (unsigned i = 0; i < 2 * sizeof(lens) / sizeof(lens[0]); i++) {
		bool tagged = i & 1;
		size_t len = lens[i / 2];
		struct ct_msg m = {.call = CT_SENDDATA, .tagged = tagged, .tag = 5, .data = DATA, .addr = c->peer,
				   .ctx = &c->ctx[0], .mem = w.mine.mem, .len = len, .buf = &w.mine};

		if (c->rank) {
			data_recv(c, tagged, &w.mine, len, true);
			data_recv(c, tagged, &w.mine, len, false);
			ct_barrier(c);
			r = ct_comp(c, c->rxcq);
			CHECK(r.e.data == (uint32_t)DATA && r.e.len == len &&
				      r.e.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA),
			      "write of %zu bytes: %zu, data %#llx, flags %#llx", len, r.e.len,
			      (unsigned long long)r.e.data, (unsigned long long)r.e.flags);
		} else {
			ct_send(c, &m);
			ct_tx(c, m.ctx, FI_SEND | (tagged ? FI_TAGGED : FI_MSG));
			m.call = CT_SEND;
			ct_send(c, &m);
			ct_tx(c, m.ctx, FI_SEND | (tagged ? FI_TAGGED : FI_MSG));
			ct_barrier(c);
			while (ct_again(c, fi_writedata(c->ep, w.mine.mem, len, NULL, DATA, c->peer, w.at.addr,
							w.at.key, &c->ctx[0])))
				;
			ct_tx(c, &c->ctx[0], FI_RMA | FI_WRITE);
		}
		ct_barrier(c);
	}
	ct_window_free(c, &w);
	ct_close(c);
}

/* --- multi-receive, errors, counters ------------------------------------------------------------- */

/* What came without a completion of its own tells that a buffer is free. */
static void buffer_end(struct ct *c, void *context)
{
	struct ct_comp r = ct_comp(c, c->rxcq);

	CHECK(r.e.op_context == context && r.e.flags == FI_MULTI_RECV && !r.e.len, "flags %#llx, %zu bytes",
	      (unsigned long long)r.e.flags, r.e.len);
}

static void multi_post(struct ct *c, struct ct_buf *b, void *context)
{
	struct iovec iov = {b->mem, b->len};
	struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = context};

	while (ct_again(c, fi_recvmsg(c->ep, &m, FI_MULTI_RECV)))
		;
}

/*
 * A message that the rest of a buffer is too short for goes uncut to the next one; only what a whole one cannot hold is
 * cut.
 */
static void opx_multi_next(struct ct *c)
{
	static const size_t lens[] = {10000, 15000, 10000, 16000, 30000};
	struct fi_cq_err_entry e;
	struct ct_buf b, out;
	struct ct_comp r;

	ct_open(c);
	ct_buf(c, &b, 20000, 0, 0);
	ct_buf(c, &out, 30000, 0, 0);
	if (c->rank)
		multi_post(c, &b, &c->ctx[0]);
	ct_barrier(c);
	for (unsigned i = 0; i < 5; i++) {
		struct ct_msg m = {.addr = c->peer, .ctx = &c->ctx[i], .mem = out.mem, .len = lens[i], .buf = &out};

		if (c->rank) {
			if (i % 2) { /* 10000 bytes are left; nothing else is posted: it waits */
				buffer_end(c, &c->ctx[i - 1]);
				multi_post(c, &b, &c->ctx[i]);
			}
			if (i == 4)
				break;
			r = ct_comp(c, c->rxcq);
			CHECK(r.e.op_context == &c->ctx[i] && r.e.len == lens[i] && r.e.buf == b.mem,
			      "message %u: %zu bytes", i, r.e.len);
			CHECK(!(r.e.flags & FI_MULTI_RECV) == !(i % 2), "message %u: flags %#llx", i,
			      (unsigned long long)r.e.flags);
			ct_verify(c, r.e.buf, lens[i], i, "in the next buffer");
			if (i % 2)
				multi_post(c, &b, &c->ctx[i + 1]);
		} else {
			ct_fill(out.mem, lens[i], i);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[i], FI_SEND | FI_MSG);
		}
		ct_barrier(c);
	}
	if (c->rank) {
		e = ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG | FI_MULTI_RECV);
		CHECK(e.err == FI_ETRUNC && e.len == 20000 && e.olen == 10000, "error %d, %zu bytes, %zu more", e.err,
		      e.len, e.olen);
		ct_barrier(c);
	}
	ct_buf_free(c, &out);
	ct_buf_free(c, &b);
	ct_close(c);
}

/* What errors of the kit's own mean is said too. */
static void opx_strerror(struct ct *c)
{
	struct fi_msg m = {.addr = FI_ADDR_UNSPEC, .context = &c->ctx[1]};
	struct fi_cq_err_entry e;

	ct_open(c);
	OK(fi_recv(c->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	OK(fi_cancel(&c->ep->fid, &c->ctx[0]));
	e = ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG);
	CHECK(e.err == FI_ECANCELED &&
		      !strcmp(fi_cq_strerror(c->rxcq, e.prov_errno, NULL, NULL, 0), fi_strerror(FI_ECANCELED)),
	      "%d: %s", e.prov_errno, fi_cq_strerror(c->rxcq, e.prov_errno, NULL, NULL, 0));
	OK(fi_recvmsg(c->ep, &m, FI_PEEK));
	e = ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG);
	CHECK(e.err == FI_ENOMSG &&
		      !strcmp(fi_cq_strerror(c->rxcq, e.prov_errno, NULL, NULL, 0), fi_strerror(FI_ENOMSG)),
	      "%d: %s", e.prov_errno, fi_cq_strerror(c->rxcq, e.prov_errno, NULL, NULL, 0));
	ct_close(c);
}

/* fi_cntr_wait() needs no wait object: it looks until there is something, or the time is over. */
static void opx_cntr_wait(struct ct *c)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fid_cntr *cntr;
	uint8_t mem[64] = {0};
	uint64_t until;

	c->want.no_enable = true;
	ct_open(c);
	OK(fi_cntr_open(c->domain, &attr, &cntr, NULL));
	OK(fi_ep_bind(c->ep, &cntr->fid, c->rank ? FI_RECV : FI_SEND));
	OK(fi_enable(c->ep));
	ct_connect(c);
	struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = mem,
			   .len = sizeof(mem)};

	until = ct_now_ms() + 20;
	RET(-FI_ETIMEDOUT, fi_cntr_wait(cntr, 1, 20));
	CHECK(ct_now_ms() >= until, "too early");
	ct_barrier(c);
	if (c->rank)
		ct_recv(c, &m);
	else
		ct_send(c, &m);
	OK(fi_cntr_wait(cntr, 1, -1));
	ct_comp(c, c->rank ? c->rxcq : c->txcq);
	ct_barrier(c);
	OK(fi_close(&c->ep->fid));
	OK(fi_close(&cntr->fid));
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL)); /* for ct_close() */
	c->traffic = false;
	ct_close(c);
}

/* --- counters of what peers do ------------------------------------------------------------------- */

enum { PUT, GET, ADD, FETCH, COMPARE, REFUSED_PUT, KINDS };

static ssize_t one_sided(struct ct *c, int kind, uint8_t *mem, size_t len, const struct fi_rma_iov *at)
{
	uint8_t *res = mem + len;

	switch (kind) {
	case PUT:
		return fi_write(c->ep, mem, len, NULL, c->peer, at->addr, at->key, &c->ctx[0]);
	case REFUSED_PUT:
		return fi_write(c->ep, mem, len, NULL, c->peer, at->addr, at->key + 1000, &c->ctx[0]);
	case GET:
		return fi_read(c->ep, mem, len, NULL, c->peer, at->addr, at->key, &c->ctx[0]);
	case ADD:
		return fi_atomic(c->ep, mem, 1, NULL, c->peer, at->addr, at->key, FI_UINT64, FI_SUM, &c->ctx[0]);
	case FETCH:
		return fi_fetch_atomic(c->ep, mem, 1, NULL, res, NULL, c->peer, at->addr, at->key, FI_UINT64, FI_SUM,
				       &c->ctx[0]);
	default:
		return fi_compare_atomic(c->ep, mem, 1, NULL, mem + 8, NULL, res, NULL, c->peer, at->addr, at->key,
					 FI_UINT64, FI_CSWAP, &c->ctx[0]);
	}
}

/*
 * Each operation counts once at its target, and with its initiator, whatever its length; one that is refused counts as
 * an error, and there only.
 */
static void opx_cntr_remote(struct ct *c)
{
	static const size_t lens[] = {0, 8, 8192, 8193, 100000};
	static const uint64_t flag[] = {FI_WRITE, FI_READ, FI_REMOTE_WRITE, FI_REMOTE_READ};
	struct fi_cntr_attr attr = {0};
	struct fid_cntr *cntr[4];
	uint64_t want[4] = {0};
	struct ct_window w;

	c->want.no_enable = true;
	ct_open(c);
	for (int i = 0; i < 4; i++) {
		OK(fi_cntr_open(c->domain, &attr, &cntr[i], NULL));
		OK(fi_ep_bind(c->ep, &cntr[i]->fid, flag[i]));
	}
	OK(fi_enable(c->ep));
	ct_connect(c);
	c->traffic = true;
	ct_window(c, &w, 200016, FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (int kind = PUT; kind < KINDS; kind++)
		for (unsigned i = 0; i < 5; i++) {
			bool is_read = kind == GET || kind == FETCH || kind == COMPARE;

			if (!c->rank) {
				while (ct_again(c, one_sided(c, kind, w.mine.mem, lens[i], &w.at)))
					;
				if (kind == REFUSED_PUT)
					CHECK(ct_comp_err(c, c->txcq, FI_RMA | FI_WRITE).err == FI_EKEYREJECTED,
					      "length %zu", lens[i]);
				else
					ct_comp(c, c->txcq);
			}
			if (kind != REFUSED_PUT)
				want[(c->rank ? 2 : 0) + is_read]++;
			ct_barrier(c);
			for (int k = 0; k < 4; k++)
				CHECK(fi_cntr_read(cntr[k]) == want[k], "kind %d, length %zu: counter %d is %llu", kind,
				      lens[i], k, (unsigned long long)fi_cntr_read(cntr[k]));
			ct_barrier(c);
		}
	CHECK(fi_cntr_readerr(cntr[0]) == (c->rank ? 0 : 5) && !fi_cntr_readerr(cntr[2]), "errors: %llu, %llu",
	      (unsigned long long)fi_cntr_readerr(cntr[0]), (unsigned long long)fi_cntr_readerr(cntr[2]));
	ct_window_free(c, &w);
	OK(fi_close(&c->ep->fid));
	for (int i = 0; i < 4; i++)
		OK(fi_close(&cntr[i]->fid));
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL)); /* for ct_close() */
	ct_close(c);
}

/* --- nobody answers ------------------------------------------------------------------------------ */

/* A peer of another job never answers: whoever goes on trying is told so when it has been silent for long enough. */
static void opx_unreachable(struct ct *c)
{
	uint8_t mem[64] = {0};
	ssize_t ret = -FI_EAGAIN;

	if (c->rank)
		setenv("FI_OPX_UUID", "deadbeef", 1);
	ct_open(c);
	while (!c->rank && ret == -FI_EAGAIN) {
		ret = fi_send(c->ep, mem, sizeof(mem), NULL, c->peer, &c->ctx[0]);
		ct_progress(c);
	}
	CHECK(c->rank || ret == -FI_ETIMEDOUT || ret == -FI_EHOSTUNREACH, "%s", ct_err(ret));
	ct_barrier(c);
	ct_no_comp(c, c->txcq);
	ct_close(c);
}

const struct ct_test opx_api_tests[] = {
	{"opx_mr_keys", opx_mr_keys, FI_RMA, 0, CT_SOLO | CT_ANY_PATH, "mr_key_size", NULL, "opx"},
	{"opx_mr_bind", opx_mr_bind, FI_RMA, 0, 0, NULL, NULL, "opx"},
	{"opx_mr_offset", opx_mr_offset, FI_RMA, 0, 0, NULL, NULL, "opx"},
	{"opx_cq_data", opx_cq_data, FI_MSG | FI_TAGGED | FI_RMA, 0, 0, "cq_data_size", NULL, "opx"},
	{"opx_strerror", opx_strerror, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, NULL, NULL, "opx"},
	{"opx_cntr_wait", opx_cntr_wait, FI_MSG, 0, 0, NULL, NULL, "opx"},
	{"opx_cntr_remote", opx_cntr_remote, FI_RMA | FI_ATOMIC, 0, CT_ANY_PATH, "FI_REMOTE_READ FI_REMOTE_WRITE", NULL,
	 "opx"},
	{"opx_multi_next", opx_multi_next, FI_MSG | FI_MULTI_RECV, 0, 0, "FI_MULTI_RECV", NULL, "opx"},
	{"opx_unreachable", opx_unreachable, FI_MSG, 0, CT_NO_ONE | CT_ANY_PATH, NULL, "SOFTFABRIC_NET=dead_after=1s",
	 "opx"},
	{0},
};
