// SPDX-License-Identifier: BSD-2-Clause
// FI_RMA: all its calls against a byte-array model, keys and rights, remote CQ data, delivery complete.
#include "conform.h"

#include <stdlib.h>
#include <unistd.h>

#define WRF (FI_WRITE | FI_RMA)
#define RDF (FI_READ | FI_RMA)
#define ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)

enum rma_call { R_WRITE, R_WRITEV, R_WRITEMSG, R_INJECT, R_WRITEDATA, R_INJECTDATA, R_READ, R_READV, R_READMSG, R_NUM };
struct rma {
	enum rma_call call;
	uint8_t *mem;
	size_t len;
	struct ct_buf *buf;
	unsigned iov_cnt;
	uint64_t raddr, rkey, data, flags;
	void *ctx;
};

static bool rma_is_read(enum rma_call call)
{
	return call >= R_READ;
}

static bool rma_completes(enum rma_call call)
{
	return call != R_INJECT && call != R_INJECTDATA;
}

static ssize_t rma_post(struct ct *c, const struct rma *r)
{
	unsigned n = r->iov_cnt ? r->iov_cnt : 1;
	struct iovec iov[8];
	void *desc[8];

	c->traffic = true;
	ct_split(c, r->mem, r->len, n, iov);
	for (unsigned i = 0; i < n; i++)
		desc[i] = r->buf ? r->buf->desc : NULL;
	struct fi_rma_iov rma = {r->raddr, r->len, r->rkey};
	struct fi_msg_rma m = {iov, desc, n, c->peer, &rma, 1, r->ctx, r->data};

	switch (r->call) {
	case R_WRITE:
		return fi_write(c->ep, r->mem, r->len, desc[0], c->peer, r->raddr, r->rkey, r->ctx);
	case R_WRITEV:
		return fi_writev(c->ep, iov, desc, n, c->peer, r->raddr, r->rkey, r->ctx);
	case R_WRITEMSG:
		return fi_writemsg(c->ep, &m, r->flags);
	case R_INJECT:
		return fi_inject_write(c->ep, r->mem, r->len, c->peer, r->raddr, r->rkey);
	case R_WRITEDATA:
		return fi_writedata(c->ep, r->mem, r->len, desc[0], r->data, c->peer, r->raddr, r->rkey, r->ctx);
	case R_INJECTDATA:
		return fi_inject_writedata(c->ep, r->mem, r->len, r->data, c->peer, r->raddr, r->rkey);
	case R_READ:
		return fi_read(c->ep, r->mem, r->len, desc[0], c->peer, r->raddr, r->rkey, r->ctx);
	case R_READV:
		return fi_readv(c->ep, iov, desc, n, c->peer, r->raddr, r->rkey, r->ctx);
	case R_READMSG:
		return fi_readmsg(c->ep, &m, r->flags);
	case R_NUM:
		break;
	}
	return -FI_EINVAL;
}

static void rma_do(struct ct *c, const struct rma *r)
{
	ssize_t ret;

	do
		ret = rma_post(c, r);
	while (ct_again(c, ret));
	if (rma_completes(r->call))
		ct_tx(c, r->ctx, rma_is_read(r->call) ? RDF : WRF);
}

/* --- each call at each size ---------------------------------------------------------------------- */

/*
 * Rank 0 works on rank 1's region and reads back what it wrote; rank 1 only makes progress, then looks at its memory.
 */
static void rma_sweep(struct ct *c, enum rma_call call, uint64_t flags)
{
	size_t region = 4194305 + 64;
	struct fi_rma_iov at;
	struct ct_buf b;

	ct_buf(c, &b, region, 8, ACCESS);
	ct_share(c, &b, &at);
	for (unsigned i = 0; ct_sizes[i] != SIZE_MAX; i++) {
		size_t len = ct_sizes[i], off = i % 64;
		bool inject = call == R_INJECT || call == R_INJECTDATA || (flags & FI_INJECT);

		if (inject && len > c->info->tx_attr->inject_size)
			break;
		if (inject && !len)
			/* it completes nowhere and leaves nothing to wait for: it might find the region closed */
			continue;
		if (c->rank == 0) {
			struct rma r = {.call = call, .len = len, .iov_cnt = 1, .raddr = at.addr + off, .rkey = at.key,
					.data = 0x80000000u + i, .flags = flags, .ctx = &c->ctx[0]};
			struct ct_buf mine;

			ct_buf(c, &mine, len, i * 7, 0);
			r.mem = mine.mem, r.buf = &mine;
			if (call == R_WRITEV || call == R_WRITEMSG || call == R_READV || call == R_READMSG)
				r.iov_cnt = i % (unsigned)c->info->tx_attr->iov_limit + 1;
			if (!rma_is_read(call))
				ct_fill(mine.mem, len, i);
			ct_barrier(c);
			rma_do(c, &r);
			if (rma_is_read(call))
				ct_verify(c, mine.mem, len, i, "read");
			ct_barrier(c);
			ct_buf_free(c, &mine);
		} else {
			bool data = call == R_WRITEDATA || call == R_INJECTDATA || (flags & FI_REMOTE_CQ_DATA);

			memset(b.mem, 0, off + len + 8);
			if (rma_is_read(call))
				ct_fill(b.mem + off, len, i);
			ct_adapter_sync(c);
			ct_barrier(c);
			if (data) {
				struct ct_comp r = ct_comp(c, c->rxcq);

				CHECK((r.e.flags & ~FI_COMPLETION) == (FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE),
				      "flags %#llx", (unsigned long long)r.e.flags);
				CHECK(r.e.data == 0x80000000u + i && r.e.len == len, "data %#llx, length %zu of %zu",
				      (unsigned long long)r.e.data, r.e.len, len);
				ct_verify(c, b.mem + off, len, i, "written, as the CQ data says");
			}
			ct_barrier(c);
			ct_adapter_sync(c);
			for (uint64_t until = ct_now_ms() + 5000;
			     inject && !ct_matches(b.mem + off, len, i) && ct_now_ms() < until;)
				ct_progress(c); /* an inject completes nowhere: wait for the bytes */
			ct_adapter_sync(c);
			ct_verify(c, b.mem + off, len, i, "written");
			for (unsigned k = 0; k < off; k++)
				CHECK(!b.mem[k], "byte %u before the target was written", k);
			for (unsigned k = 0; k < 8; k++)
				CHECK(!b.mem[off + len + k], "byte %u behind the target was written", k);
		}
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
}

/* Writes are checked after their completion only, so ask for delivery: without it the bytes may come later. */
static void rma_write(struct ct *c)
{
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	rma_sweep(c, R_WRITE, 0);
	ct_close(c);
}

static void rma_writev(struct ct *c)
{
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	rma_sweep(c, R_WRITEV, 0);
	ct_close(c);
}

static void rma_writemsg(struct ct *c)
{
	ct_open(c);
	rma_sweep(c, R_WRITEMSG, FI_DELIVERY_COMPLETE | FI_COMPLETION);
	if (c->p->has & CT_HAS_RMA_DATA) {
		rma_sweep(c, R_WRITEMSG, FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA);
		rma_sweep(c, R_WRITEMSG, FI_INJECT | FI_REMOTE_CQ_DATA);
	} else {
		struct fi_rma_iov none = {0};
		struct fi_msg_rma m = {.addr = c->peer, .rma_iov = &none, .rma_iov_count = 1};

		RET(-FI_EBADFLAGS, fi_writemsg(c->ep, &m, FI_REMOTE_CQ_DATA));
	}
	ct_close(c);
}

static void rma_inject(struct ct *c)
{
	ct_open(c);
	rma_sweep(c, R_INJECT, 0);
	if (c->p->has & CT_HAS_RMA_DATA)
		rma_sweep(c, R_INJECTDATA, 0);
	ct_close(c);
}

static void rma_writedata(struct ct *c)
{
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	if (!(c->p->has & CT_HAS_RMA_DATA))
		ct_skip(c, "writes carry no data");
	rma_sweep(c, R_WRITEDATA, 0);
	ct_close(c);
}

static void rma_read(struct ct *c)
{
	ct_open(c);
	rma_sweep(c, R_READ, 0);
	ct_close(c);
}

static void rma_readv(struct ct *c)
{
	ct_open(c);
	rma_sweep(c, R_READV, 0);
	rma_sweep(c, R_READMSG, FI_COMPLETION);
	ct_close(c);
}

/* Registered local buffers (FI_MR_LOCAL): descriptors are used. */
static void rma_local(struct ct *c)
{
	c->want.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	rma_sweep(c, R_WRITE, 0);
	rma_sweep(c, R_READ, 0);
	ct_close(c);
}

/* An endpoint's flags for data that go out are none of its reads'. */
static void rma_read_flags(struct ct *c)
{
	static const size_t lens[] = {8, 16, 5000, 100000};
	uint64_t flags = FI_TRANSMIT | FI_INJECT | FI_REMOTE_CQ_DATA | FI_COMPLETION;
	struct ct_window w;

	ct_open(c);
	ct_window(c, &w, 100000, ACCESS);
	ct_fill(w.b.mem, w.b.len, 5);
	OK(fi_control(&c->ep->fid, FI_SETOPSFLAG, &flags));
	ct_barrier(c);
	for (unsigned i = 0; i < 4 && !c->rank; i++)
		for (enum rma_call call = R_READ; call <= R_READV; call++) {
			struct rma r = {.call = call, .mem = w.mine.mem, .len = lens[i], .buf = &w.mine, .iov_cnt = 1,
					.raddr = w.at.addr, .rkey = w.at.key, .ctx = &c->ctx[0]};

			memset(w.mine.mem, 0, lens[i]);
			rma_do(c, &r);
			ct_verify(c, w.mine.mem, lens[i], 5, "read");
		}
	ct_window_free(c, &w);
	ct_close(c);
}

/* --- random operations against a model ----------------------------------------------------------- */

#define ZONES    24
#define ZONE_LEN 150000
#define OPS      800

/* Up to one operation per zone is open. Rank 0 has a model of rank 1's region, which equals it in the end. */
static void rma_model(struct ct *c)
{
	uint8_t *model = calloc(ZONES, ZONE_LEN);
	struct ct_buf b, tmp[ZONES];
	struct rma op[ZONES];
	bool busy[ZONES] = {false};
	struct fi_rma_iov at;
	unsigned open = 0;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, (size_t)ZONES * ZONE_LEN, 4, ACCESS);
	ct_share(c, &b, &at);
	ct_barrier(c);
	for (unsigned z = 0; z < ZONES && !c->rank; z++)
		ct_buf(c, &tmp[z], ZONE_LEN, z, 0);
	for (unsigned i = 0; !c->rank && (i < OPS || open);) {
		unsigned z = (unsigned)ct_below(c, ZONES);

		if (i < OPS && !busy[z]) {
			size_t off = ct_below(c, ZONE_LEN);
			size_t len = ct_below(c, 3) ? ct_below(c, ZONE_LEN - off) % 3000 : ct_below(c, ZONE_LEN - off);
			bool read = ct_below(c, 2);
			ssize_t ret;

			op[z] = (struct rma){.mem = tmp[z].mem + off, .len = len, .buf = &tmp[z],
					     .call = (enum rma_call)ct_below(c, 3) + (read ? R_READ : 0),
					     .iov_cnt = 1 + i % ct_iov_max(c, 4), .rkey = at.key, .ctx = &c->ctx[z],
					     .flags = read ? 0 : FI_DELIVERY_COMPLETE, .raddr = at.addr};
			op[z].raddr += (uint64_t)z * ZONE_LEN + off;
			if (read) {
				memset(op[z].mem, 0, len);
			} else {
				ct_fill(op[z].mem, len, i);
				memcpy(model + (size_t)z * ZONE_LEN + off, op[z].mem, len);
			}
			do
				ret = rma_post(c, &op[z]);
			while (ct_again(c, ret));
			busy[z] = true;
			open++;
			i++;
		} else if (open) {
			struct ct_comp r = ct_comp(c, c->txcq);
			size_t k = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx);

			CHECK(k < ZONES && busy[k], "a completion of nothing that is open");
			if (rma_is_read(op[k].call))
				CHECK(!memcmp(op[k].mem, model + k * ZONE_LEN + (op[k].mem - tmp[k].mem), op[k].len),
				      "zone %zu: read of %zu bytes differs from the model", k, op[k].len);
			busy[k] = false;
			open--;
		}
	}
	ct_barrier(c);
	ct_adapter_sync(c);
	for (unsigned z = 0; z < ZONES; z++) {
		if (c->rank == 0) {
			memcpy(c->shared, model + (size_t)z * ZONE_LEN, ZONE_LEN);
			ct_buf_free(c, &tmp[z]);
		}
		ct_barrier(c);
		CHECK(!c->rank || !memcmp(c->shared, b.mem + (size_t)z * ZONE_LEN, ZONE_LEN),
		      "zone %u differs from the model", z);
		ct_barrier(c);
	}
	ct_buf_free(c, &b);
	free(model);
	ct_close(c);
}

/* --- what must fail ------------------------------------------------------------------------------ */

/* The operation is refused at once or completes with an error; it never succeeds, and nothing hangs. */
static void must_fail(struct ct *c, const struct rma *r, const char *why)
{
	ssize_t ret;

	while ((ret = rma_post(c, r)) == -FI_EAGAIN)
		ct_progress(c);
	if (!ret) {
		struct fi_cq_tagged_entry t;
		struct fi_cq_err_entry e = {0};

		for (uint64_t until = ct_now_ms() + 3000; (ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN;) {
			CHECK(ct_now_ms() < until, "%s: %s of %zu bytes never completes", why,
			      rma_is_read(r->call) ? "read" : "write", r->len);
			ct_progress(c);
		}
		CHECK(ret == -FI_EAVAIL, "%s: %s of %zu bytes succeeded", why, rma_is_read(r->call) ? "read" : "write",
		      r->len);
		RET(1, fi_cq_readerr(c->txcq, &e, 0));
		CHECK(e.op_context == r->ctx, "%s: context of another operation", why);
		CHECK((e.flags & ~FI_COMPLETION) == (FI_RMA | (rma_is_read(r->call) ? FI_READ : FI_WRITE)),
		      "%s: flags %#llx", why, (unsigned long long)e.flags);
		CHECK(e.err == FI_EINVAL || e.err == FI_EACCES || e.err == FI_EKEYREJECTED || e.err == FI_EIO ||
		      e.err == FI_EREMOTEIO || e.err == FI_EPERM, "%s: error %d (%s)", why, e.err, fi_strerror(e.err));
	}
}

/* By device RDMA and by packets: a target that refuses tells the initiator (packet REFUSED). */
static void rma_refused(struct ct *c)
{
	static const size_t lens[] = {8, 5000, 30000, 200000};
	struct fi_rma_iov at, ro, stale;
	struct ct_buf b, r, old, mine;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, 200000, 0, ACCESS);
	ct_buf(c, &r, 200000, 0, FI_REMOTE_READ);
	ct_buf(c, &old, 200000, 0, ACCESS);
	ct_buf(c, &mine, 200001, 0, 0);
	ct_share(c, &b, &at);
	ct_share(c, &r, &ro);
	ct_share(c, &old, &stale);
	OK(fi_close(&old.mr->fid));
	old.mr = NULL;
	ct_barrier(c);
	for (unsigned i = 0; c->rank == 0 && i < 4 * 2; i++) {
		struct rma good = {.call = i % 2 ? R_READ : R_WRITE, .mem = mine.mem, .len = lens[i / 2], .buf = &mine,
				   .raddr = at.addr, .rkey = at.key, .ctx = &c->ctx[i]}, bad;

		bad = good, bad.rkey = at.key ^ 0x5a5a00;
		must_fail(c, &bad, "foreign key");
		bad = good, bad.rkey = stale.key, bad.raddr = stale.addr;
		must_fail(c, &bad, "stale key");
		bad = good, bad.raddr = at.addr + at.len - good.len + 1;
		must_fail(c, &bad, "one byte beyond the end");
		bad = good, bad.raddr = at.addr - 1;
		must_fail(c, &bad, "one byte before the start");
		bad = good, bad.raddr = UINT64_MAX - 3;
		must_fail(c, &bad, "range that wraps");
		rma_do(c, &good); /* and the endpoint works on */
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
	ct_buf_free(c, &r);
	ct_buf_free(c, &old);
	ct_buf_free(c, &mine);
	ct_close(c);
}

/* What was written to @file: lines that have both strings. */
static unsigned lines_with(FILE *file, const char *a, const char *b)
{
	char line[4096];
	unsigned cnt = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		cnt += strstr(line, a) && strstr(line, b);
	return cnt;
}

/*
 * The log says what was refused: of the target, or where the initiator sees the target's regions by itself, its own. A
 * few times only: the peer could go on for ever.
 */
static void rma_refused_said(struct ct *c)
{
	int saved = dup(STDERR_FILENO);
	unsigned said[2], other[2];
	struct fi_rma_iov at;
	FILE *log = tmpfile();
	char where[32], key[32];
	struct ct_buf b;

	CHECK(log && saved >= 0, "no temporary file");
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, 4096, 0, ACCESS);
	/* before anybody can know the key: the adapter thread may be the one who refuses */
	dup2(fileno(log), STDERR_FILENO);
	ct_share(c, &b, &at);
	for (unsigned i = 0; c->rank == 0 && i < 20; i++) {
		struct rma bad = {.call = i % 2 ? R_READ : R_WRITE, .mem = b.mem, .len = 8, .buf = &b,
				  .raddr = at.addr + 4090, .rkey = at.key, .ctx = &c->ctx[0]};

		must_fail(c, &bad, "beyond the end");
	}
	ct_barrier(c);
	dup2(saved, STDERR_FILENO);
	close(saved);
	if (c->rank)
		at = (struct fi_rma_iov){ct_base(c, b.mem), 4096, fi_mr_key(b.mr)};
	snprintf(where, sizeof(where), "0x%llx", (unsigned long long)at.addr + 4090);
	snprintf(key, sizeof(key), "0x%llx", (unsigned long long)at.key);
	said[0] = lines_with(log, "refused", where);
	/* by index and match bits there */
	said[1] = strcmp(c->prov, "cxi") ? lines_with(log, "refused", key) : said[0];
	fclose(log);
	ct_swap(c, said, other, sizeof(said));
	CHECK(said[0] + other[0] && said[0] <= 8 && said[0] == said[1], "%u and %u lines, %u with the key", said[0],
	      other[0], said[1]);
	ct_buf_free(c, &b);
	ct_close(c);
}

/*
 * Who was told a key and the address learns nothing of other keys: those next to it are refused though there are many
 * regions, and so is the key of a region of another domain of the same process.
 */
#define HIDDEN 100
#define HIDDEN_LEN 4096u
static void rma_keys(struct ct *c)
{
	static uint8_t early[HIDDEN_LEN];
	struct ct other = {.t = c->t, .p = c->p, .v = c->v, .prov = c->prov};
	struct fid_mr *mr[HIDDEN], *foreign;
	uint64_t key, foreign_key;
	struct ct_window w;
	struct ct_ep2 e;

	ct_open(c);
	other.info = c->info;
	OK(fi_domain(c->fabric, c->info, &other.domain, NULL));
	ct_ep2_open(&other, &e);
	other.ep = e.ep;
	for (unsigned i = 0; i < HIDDEN; i++) {
		if (i == HIDDEN / 2)
			ct_window(c, &w, HIDDEN_LEN, ACCESS);
		mr[i] = ct_mr(c, i < HIDDEN / 2 ? early : w.b.mem, HIDDEN_LEN, ACCESS, 1000 + i);
	}
	foreign = ct_mr(&other, w.b.mem, HIDDEN_LEN, ACCESS, 77777);
	key = fi_mr_key(foreign);
	ct_swap(c, &key, &foreign_key, sizeof(key));
	for (unsigned i = 0; c->rank == 0 && i < 2; i++) {
		struct rma good = {.call = i ? R_READ : R_WRITE,
				   .mem = w.mine.mem,
				   .len = 64,
				   .buf = &w.mine,
				   .raddr = w.at.addr,
				   .rkey = w.at.key,
				   .ctx = &c->ctx[0]},
			   bad = good;

		bad.rkey = foreign_key;
		must_fail(c, &bad, "key of another domain");
		for (uint64_t n = 1; n <= 20 && c->info->domain_attr->mr_mode & FI_MR_PROV_KEY; n++) {
			uint64_t guess[] = {w.at.key + n, w.at.key - n, w.at.key + (n << 16) + n,
					    w.at.key - (n << 16) - n, w.at.key + (n << 20)};

			for (unsigned k = 0; k < sizeof(guess) / sizeof(guess[0]); k++) {
				bad.rkey = guess[k];
				must_fail(c, &bad, "guessed key");
			}
		}
		rma_do(c, &good);
	}
	ct_barrier(c);
	for (unsigned i = 0; i < HIDDEN; i++)
		OK(fi_close(&mr[i]->fid));
	OK(fi_close(&foreign->fid));
	ct_ep2_close(&other, &e);
	OK(fi_close(&other.domain->fid));
	ct_window_free(c, &w);
	ct_close(c);
}

/* --- rights: upstream's efa grants every region everything, so this asks only of providers that keep them apart --- */
static void rma_rights(struct ct *c)
{
	struct ct_window w;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_window(c, &w, 5000, FI_REMOTE_READ);
	ct_fill(w.b.mem, 5000, 1);
	ct_barrier(c);
	if (c->rank == 0) {
		struct rma r = {.call = R_READ, .mem = w.mine.mem, .len = 5000, .buf = &w.mine, .raddr = w.at.addr,
				.rkey = w.at.key, .ctx = &c->ctx[0]};

		rma_do(c, &r);
		ct_verify(c, w.mine.mem, 5000, 1, "read from a read-only region");
		if (c->p->has & CT_HAS_RIGHTS) {
			r.call = R_WRITE;
			must_fail(c, &r, "write to a read-only region");
		}
	}
	ct_window_free(c, &w);
	ct_close(c);
}

/* A send after writes: the target sees a message, then completes reads of what was delivered before. */
static void rma_mixed(struct ct *c)
{
	struct ct_window w;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_window(c, &w, 100000, ACCESS);
	for (unsigned i = 0; i < 50; i++) {
		size_t len = 1 + ct_below(&(struct ct){.rng = c->seed + i}, 99999);
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[1], .mem = w.mine.mem,
				   .buf = &w.mine};

		if (c->rank == 0) {
			struct rma r = {.call = R_WRITE, .mem = w.mine.mem, .len = len, .buf = &w.mine,
					.raddr = w.at.addr, .rkey = w.at.key, .ctx = &c->ctx[0]};

			ct_fill(w.mine.mem, len, i);
			rma_do(c, &r);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[1], FI_SEND | FI_MSG);
		} else {
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[1], FI_RECV | FI_MSG, 0);
			ct_verify(c, w.b.mem, len, i, "delivered before the message");
		}
		ct_adapter_sync(c);
		ct_barrier(c);
	}
	ct_window_free(c, &w);
	ct_close(c);
}

static void rma_self(struct ct *c)
{
	struct ct_window w;

	ct_open(c);
	ct_window(c, &w, 2000000, ACCESS);
	for (unsigned i = 0; ct_sizes[i] < 2000000; i++) {
		struct rma r = {.call = R_WRITE, .mem = w.mine.mem, .len = ct_sizes[i], .buf = &w.mine,
				.raddr = w.b.base, .rkey = w.b.key, .ctx = &c->ctx[0]};

		ct_fill(w.mine.mem, r.len, i);
		rma_do(c, &r);
		memset(w.mine.mem, 0, r.len);
		r.call = R_READ;
		for (uint64_t until = ct_now_ms() + 5000; ct_now_ms() < until;) {
			rma_do(c, &r); /* a write without delivery complete may land later than it completes */
			if (ct_matches(w.mine.mem, r.len, i))
				break;
		}
		ct_verify(c, w.mine.mem, r.len, i, "written to and read from myself");
	}
	ct_window_free(c, &w);
	ct_close(c);
}

#define RMA FI_RMA
#define CAPS                                                                                                           \
	"FI_RMA FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE mr:FI_MR_VIRT_ADDR mr:FI_MR_PROV_KEY "                 \
	"mr:FI_MR_ALLOCATED mr:FI_MR_ENDPOINT mr_key_size"
#define EVERYWHERE (CT_GENS | CT_LOSSY)
/* Programs for GPUs tell what memory a region is, of host memory too. */
static void rma_hmem(struct ct *c)
{
	static uint8_t mem[4096];
	struct iovec iov = {mem, sizeof(mem)};
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
				  .requested_key = 9,
				  .iface = FI_HMEM_CUDA};
	struct fid_mr *mr;

	c->want.mr_mode =
		FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_HMEM;
	ct_open(c);
	CHECK(c->info->caps & c->info->tx_attr->caps & c->info->rx_attr->caps & FI_HMEM, "FI_HMEM");
	RET(-FI_ENOSYS, fi_mr_regattr(c->domain, &attr, 0, &mr));
	attr.iface = (enum fi_hmem_iface)99;
	RET(-FI_EINVAL, fi_mr_regattr(c->domain, &attr, 0, &mr));
	attr.iface = FI_HMEM_SYSTEM;
	OK(fi_mr_regattr(c->domain, &attr, 0, &mr));
	OK(fi_close(&mr->fid));
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

const struct ct_test rma_tests[] = {
	{"rma_hmem", rma_hmem, FI_MSG | FI_RMA | FI_HMEM, 0, CT_COLD, "FI_HMEM mr:FI_MR_HMEM",
	 "SOFTFABRIC_EFA=hmem=yes FI_HMEM=system"},
	{"rma_write", rma_write, RMA, 0, EVERYWHERE, CAPS " op:FI_DELIVERY_COMPLETE"},
	{"rma_writev", rma_writev, RMA, 0, EVERYWHERE, CAPS " tx.rma_iov_limit tx.iov_limit"},
	{"rma_writemsg", rma_writemsg, RMA, 0, EVERYWHERE, CAPS " tx.rma_iov_limit", NULL, NULL,
	 60},
	{"rma_inject", rma_inject, RMA, 0, EVERYWHERE, CAPS " inject_size"},
	{"rma_writedata", rma_writedata, RMA, 0, EVERYWHERE, CAPS " cq_data_size"},
	/* each write is several of the adapter's, and its data comes once */
	{"rma_writedata_cut", rma_writedata, RMA, 0, CT_ANY_PATH, CAPS " cq_data_size",
	 "FI_EFA_INTER_READ_SEGMENT_SIZE=1000 FI_EFA_USE_DEVICE_RDMA=1 FI_EFA_ENABLE_SHM_TRANSFER=0", "efa"},
	{"rma_read", rma_read, RMA, 0, EVERYWHERE, CAPS},
	{"rma_readv", rma_readv, RMA, 0, EVERYWHERE, CAPS " tx.iov_limit"},
	{"rma_read_flags", rma_read_flags, FI_RMA, 0, CT_GENS, NULL},
	{"rma_local", rma_local, RMA, 0, CT_GENS, CAPS " mr:FI_MR_LOCAL"},
	{"rma_model", rma_model, RMA, 0, EVERYWHERE, CAPS, NULL, NULL, 60},
	{"rma_refused", rma_refused, RMA, 0, CT_GENS, CAPS},
	{"rma_refused_said", rma_refused_said, RMA, 0, CT_NO_ONE | CT_COLD, CAPS, "FI_LOG_LEVEL=info"},
	{"rma_keys", rma_keys, RMA, 0, CT_NO_ONE, CAPS, "FI_CXI_OPTIMIZED_MRS=0 FI_CXI_PROV_KEY_CACHE=0"},
	{"rma_rights", rma_rights, RMA, 0, CT_GENS, CAPS},
	{"rma_mixed", rma_mixed, RMA | FI_MSG, 0, EVERYWHERE, CAPS},
	{"rma_self", rma_self, RMA, 0, CT_GENS | CT_SOLO | CT_ANY_PATH, CAPS},
	{0},
};
