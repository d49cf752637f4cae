// SPDX-License-Identifier: BSD-2-Clause
// Objects, memory, completions and checks that the tests are made of.
#include "conform.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GUARD     64
#define GUARD_BYTE 0xa5

const size_t ct_sizes[] = {
	0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 1000, 2048, 4095, 4096, 4097, 8191, 8192,
	8760, 8761, 8872, 8873, 8880, 8881, 8892, 8900, 8908, 8909, 8916, 8917, 8928, 8929, 16384, 17760, 17761, 65535,
	65536, 65537, 131071, 284671, 284672, 284673, 293568, 600000, 1048575, 1048576, 1048577, 4194304, 4194305,
	SIZE_MAX,
};

/* --- checks ----------------------------------------------------------------------------------------------------- */

const char *ct_err(long ret)
{
	return ret < 0 ? fi_strerror((int)-ret) : ret ? "count" : "success";
}

void ct_fail(const struct ct *c, const char *file, int line, const char *fmt, ...)
{
	const char *base = strrchr(file, '/');
	va_list ap;

	flockfile(stdout);
	printf("    %s rank %d, %s:%d: ", c->t->name, c->rank, base ? base + 1 : file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (SEED=%#llx)\n", (unsigned long long)c->seed);
	fflush(stdout);
	_exit(1);
}

void ct_skip(const struct ct *c, const char *fmt, ...)
{
	va_list ap;

	flockfile(stdout);
	if (!c->rank) {
		printf("    SKIP %s: ", c->t->name);
		va_start(ap, fmt);
		vprintf(fmt, ap);
		va_end(ap);
		printf("\n");
	}
	fflush(stdout);
	_exit(77);
}

uint64_t ct_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* splitmix64, one stream per rank unless a test sets c->rng itself. */
uint64_t ct_rand(struct ct *c)
{
	return mix(c->rng += 0x9e3779b97f4a7c15ULL);
}

uint64_t ct_below(struct ct *c, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)ct_rand(c) * n) >> 64);
}

/* --- between ranks ------------------------------------------------------------------------------------------------ */

static void wait_in(struct ct *c, bool drive)
{
	struct pollfd pfd = {.fd = c->peer_fd, .events = POLLIN};

	while (poll(&pfd, 1, drive ? 0 : 1000) <= 0)
		if (drive)
			ct_progress(c);
}

static void swap(struct ct *c, const void *out, void *in, size_t len, bool drive)
{
	size_t got = 0;

	if (c->t->flags & CT_SOLO)
		return;
	if (send(c->peer_fd, out, len, MSG_NOSIGNAL) != (ssize_t)len)
		FAIL("the other rank is gone");
	while (got < len) {
		ssize_t n;

		wait_in(c, drive);
		n = recv(c->peer_fd, (char *)in + got, len - got, 0);
		if (n <= 0)
			_exit(1); /* it has said why */
		got += (size_t)n;
	}
}

void ct_swap(struct ct *c, const void *out, void *in, size_t len)
{
	swap(c, out, in, len, true);
}

void ct_barrier(struct ct *c)
{
	char out = 'b', in = 0;

	swap(c, &out, &in, 1, true);
	CHECK((c->t->flags & CT_SOLO) || in == 'b', "the ranks are at different barriers");
}

void ct_barrier_idle(struct ct *c)
{
	char out = 'i', in = 0;

	swap(c, &out, &in, 1, false);
	CHECK((c->t->flags & CT_SOLO) || in == 'i', "the ranks are at different barriers");
}

/*
 * What a peer writes here or reads, the adapter thread may store and load, under the domain's lock. That this was
 * before, or comes after, what this thread does is known through the other rank, which a checker of data races does not
 * see; this call takes the lock and moves nothing.
 */
void ct_adapter_sync(struct ct *c)
{
	uint8_t raw[64];
	size_t len = sizeof(raw);

	OK(fi_av_lookup(c->av, c->peer, raw, &len));
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

void ct_fill(void *mem, size_t len, uint64_t seed)
{
	uint8_t *p = mem;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = mix(seed * 0x9e3779b97f4a7c15ULL + i + 1);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

/* Also for memory that a peer writes just now, as a program watches it: checkers of data races must not look. */
__attribute__((no_sanitize("thread"))) bool ct_matches(const void *mem, size_t len, uint64_t seed)
{
	const volatile uint8_t *p = mem;

	for (size_t i = 0; i < len; i++) {
		uint64_t v = mix(seed * 0x9e3779b97f4a7c15ULL + i / 8 * 8 + 1);

		if (p[i] != ((const uint8_t *)&v)[i % 8])
			return false;
	}
	return true;
}

void ct_verify(struct ct *c, const void *mem, size_t len, uint64_t seed, const char *what)
{
	const uint8_t *p = mem;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = mix(seed * 0x9e3779b97f4a7c15ULL + i + 1);
		size_t n = len - i < 8 ? len - i : 8;

		if (memcmp(p + i, &v, n)) {
			size_t j = 0;

			while (p[i + j] == ((const uint8_t *)&v)[j])
				j++;
			FAIL("%s: byte %zu of %zu is %#x, not %#x", what, i + j, len, p[i + j],
			     ((const uint8_t *)&v)[j]);
		}
	}
}

struct fid_mr *ct_mr(struct ct *c, void *mem, size_t len, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;
	int ret = fi_mr_reg(c->domain, mem, len, access, 0, key, 0, &mr, NULL);

	CHECK(!ret, "fi_mr_reg of %zu bytes: %s", len, ct_err(ret));
	if (c->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(mr, &c->ep->fid, 0));
		OK(fi_mr_enable(mr));
	}
	return mr;
}

uint64_t ct_base(const struct ct *c, const void *mem)
{
	return c->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | KIT_MR_BASIC) ? (uintptr_t)mem : 0;
}

static void buf_register(struct ct *c, struct ct_buf *b, uint64_t access)
{
	static _Atomic uint64_t next_key = 1;

	if (!access && !(c->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return;
	b->mr = ct_mr(c, b->mem, b->len, access | FI_SEND | FI_RECV | FI_READ | FI_WRITE, next_key++);
	b->desc = fi_mr_desc(b->mr);
	b->key = fi_mr_key(b->mr);
	b->base = ct_base(c, b->mem);
}

void ct_buf(struct ct *c, struct ct_buf *b, size_t len, unsigned misalign, uint64_t access)
{
	*b = (struct ct_buf){.len = len, .block_len = len + 2 * GUARD + 128};
	b->block = malloc(b->block_len);
	CHECK(b->block, "out of memory for %zu bytes", len);
	b->mem = (uint8_t *)(((uintptr_t)b->block + GUARD + 63) & ~(uintptr_t)63) + misalign % 64;
	memset(b->block, GUARD_BYTE, (size_t)(b->mem - b->block));
	memset(b->mem, 0, len);
	memset(b->mem + len, GUARD_BYTE, (size_t)(b->block + b->block_len - (b->mem + len)));
	buf_register(c, b, access);
}

void ct_guards(struct ct *c, const struct ct_buf *b)
{
	for (const uint8_t *p = b->block; p < b->mem; p++)
		CHECK(*p == GUARD_BYTE, "written %td bytes before the buffer", b->mem - p);
	for (const uint8_t *p = b->mem + b->len; p < b->block + b->block_len; p++)
		CHECK(*p == GUARD_BYTE, "written %td bytes behind the buffer", p - (b->mem + b->len));
}

void ct_buf_free(struct ct *c, struct ct_buf *b)
{
	ct_guards(c, b);
	if (b->mr)
		OK(fi_close(&b->mr->fid));
	free(b->block);
	*b = (struct ct_buf){0};
}

void ct_share(struct ct *c, const struct ct_buf *b, struct fi_rma_iov *peer_has)
{
	struct fi_rma_iov mine = {.addr = b->base, .len = b->len, .key = b->key};

	ct_swap(c, &mine, peer_has, sizeof(mine));
}

void ct_window(struct ct *c, struct ct_window *w, size_t len, uint64_t access)
{
	ct_buf(c, &w->b, len, 0, access);
	ct_buf(c, &w->mine, len, 0, 0);
	ct_share(c, &w->b, &w->at);
}

void ct_window_free(struct ct *c, struct ct_window *w)
{
	ct_barrier(c);
	ct_buf_free(c, &w->b);
	ct_buf_free(c, &w->mine);
}

/* --- progress and completions -------------------------------------------------------------------- */

void ct_progress(struct ct *c)
{
	if (c->txcq)
		fi_cq_read(c->txcq, NULL, 0);
	if (c->rxcq && c->rxcq != c->txcq)
		fi_cq_read(c->rxcq, NULL, 0);
}

bool ct_again(struct ct *c, ssize_t ret)
{
	if (ret == -FI_EAGAIN) {
		ct_progress(c);
		return true;
	}
	CHECK(!ret, "%s", ct_err(ret));
	return false;
}

static void print_err(struct ct *c, struct fid_cq *cq)
{
	struct fi_cq_err_entry e = {0};
	char buf[1024];

	if (fi_cq_readerr(cq, &e, 0) != 1)
		FAIL("the CQ has an error but fi_cq_readerr gives none");
	FAIL("completion with error %d (%s), prov_errno %d (%s), flags %#llx, len %zu", e.err, fi_strerror(e.err),
	     e.prov_errno, fi_cq_strerror(cq, e.prov_errno, e.err_data, buf, sizeof(buf)), (unsigned long long)e.flags,
	     e.len);
}

struct ct_comp ct_comp(struct ct *c, struct fid_cq *cq)
{
	struct ct_comp r = {.src = FI_ADDR_NOTAVAIL};
	ssize_t ret;

	do {
		ret = fi_cq_readfrom(cq, &r.e, 1, &r.src);
		if (ret == -FI_EAGAIN)
			ct_progress(c);
	} while (ret == -FI_EAGAIN);
	if (ret == -FI_EAVAIL)
		print_err(c, cq);
	CHECK(ret == 1, "fi_cq_readfrom: %zd (%s)", ret, ct_err(ret));
	return r;
}

struct fi_cq_err_entry ct_comp_err(struct ct *c, struct fid_cq *cq, uint64_t flags)
{
	struct fi_cq_err_entry e = {0};
	struct fi_cq_tagged_entry t;
	ssize_t ret;

	while ((ret = fi_cq_read(cq, &t, 1)) == -FI_EAGAIN)
		ct_progress(c);
	CHECK(ret == -FI_EAVAIL, "a completion (%zd) where an error was expected, flags %#llx", ret,
	      ret == 1 ? (unsigned long long)t.flags : 0);
	RET(1, fi_cq_readerr(cq, &e, 0));
	CHECK(e.err > 0, "error entry without error code");
	CHECK(!flags || (e.flags & ~FI_COMPLETION) == flags, "the entry of error %d (%s) has flags %#llx, not %#llx",
	      e.err, fi_strerror(e.err), (unsigned long long)e.flags, (unsigned long long)flags);
	return e;
}

bool ct_succeeds(struct ct *c, struct fid_cq *cq, uint64_t flags)
{
	struct fi_cq_tagged_entry t;
	ssize_t ret;

	while ((ret = fi_cq_read(cq, &t, 1)) == -FI_EAGAIN)
		ct_progress(c);
	if (ret == 1)
		return true;
	RET(-FI_EAVAIL, ret);
	ct_comp_err(c, cq, flags);
	return false;
}

void ct_tx(struct ct *c, void *context, uint64_t flags)
{
	struct ct_comp r = ct_comp(c, c->txcq);

	CHECK(r.e.op_context == context, "completion of another operation");
	CHECK((r.e.flags & ~FI_COMPLETION) == flags, "transmit completion has flags %#llx, not %#llx",
	      (unsigned long long)r.e.flags, (unsigned long long)flags);
}

struct ct_comp ct_rx(struct ct *c, void *context, uint64_t flags, size_t len)
{
	struct ct_comp r = ct_comp(c, c->rxcq);

	CHECK(r.e.op_context == context, "completion of another operation");
	CHECK((r.e.flags & ~FI_COMPLETION) == flags, "receive completion has flags %#llx, not %#llx",
	      (unsigned long long)r.e.flags, (unsigned long long)flags);
	CHECK(r.e.len == len, "receive completion has length %zu, not %zu", r.e.len, len);
	return r;
}

void ct_peek(struct ct *c, uint64_t tag, uint64_t flags, void *ctx)
{
	struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = ctx};
	ssize_t ret;

	do
		ret = fi_trecvmsg(c->ep, &m, flags);
	while (ct_again(c, ret));
}

struct ct_comp ct_peeked(struct ct *c, uint64_t tag, uint64_t flags)
{
	struct fi_cq_tagged_entry t;
	struct fi_cq_err_entry e;
	struct ct_comp r = {0};
	ssize_t ret;

	for (;;) {
		ct_peek(c, tag, flags, &c->ctx[8]);
		while ((ret = fi_cq_readfrom(c->rxcq, &t, 1, &r.src)) == -FI_EAGAIN)
			;
		if (ret == 1)
			break;
		CHECK(ret == -FI_EAVAIL, "%s", ct_err(ret));
		RET(1, fi_cq_readerr(c->rxcq, &e, 0));
		CHECK(e.err == FI_ENOMSG, "error %d", e.err);
		ct_progress(c);
	}
	r.e = t;
	CHECK(t.op_context == &c->ctx[8], "context of another operation");
	CHECK(t.tag == tag, "tag %#llx", (unsigned long long)t.tag);
	return r;
}

void ct_no_comp(struct ct *c, struct fid_cq *cq)
{
	struct fi_cq_tagged_entry e;

	for (int i = 0; i < 200; i++) {
		ssize_t ret = fi_cq_read(cq, &e, 1);

		if (ret == -FI_EAVAIL)
			print_err(c, cq);
		CHECK(ret == -FI_EAGAIN, "a completion too many (%zd), flags %#llx", ret, (unsigned long long)e.flags);
	}
}

bool ct_has_stats(const struct ct *c)
{
	return c->stats;
}

uint64_t ct_stat(struct ct *c, const char *name)
{
	uint64_t v = 0;
	int ret = c->stats->read(c->domain, name, &v);

	CHECK(!ret, "counter %s: %s", name, ct_err(ret));
	return v;
}

uint64_t ct_tag(const struct ct *c, uint64_t tag)
{
	uint64_t format = c->info->ep_attr->mem_tag_format;

	return format ? tag & (~0ULL >> __builtin_clzll(format)) : tag;
}

/* --- messages ------------------------------------------------------------------------------------ */

void ct_split(struct ct *c, uint8_t *mem, size_t len, unsigned n, struct iovec *iov)
{
	for (unsigned i = 0; i < n; i++) {
		size_t piece = i + 1 == n ? len : ct_below(c, 5) ? ct_below(c, len + 1) : 0;

		iov[i] = (struct iovec){mem, piece};
		mem += piece;
		len -= piece;
	}
}

bool ct_completes(const struct ct_msg *m)
{
	return m->call != CT_INJECT && m->call != CT_INJECTDATA;
}

#define IOV_MAX_CT 16
struct parts {
	struct iovec iov[IOV_MAX_CT];
	void *desc[IOV_MAX_CT];
	unsigned cnt;
};

static void parts_of(struct ct *c, const struct ct_msg *m, struct parts *p)
{
	p->cnt = m->iov_cnt ? m->iov_cnt : 1;
	ct_split(c, m->mem, m->len, p->cnt, p->iov);
	for (unsigned i = 0; i < p->cnt; i++)
		p->desc[i] = m->buf ? m->buf->desc : NULL;
}

static ssize_t post_msg(struct ct *c, const struct ct_msg *m, struct parts *p)
{
	void *desc = p->desc[0];
	struct fi_msg fm = {p->iov, p->desc, p->cnt, m->addr, m->ctx, m->data};

	switch (m->call) {
	case CT_SEND:
		return fi_send(c->ep, m->mem, m->len, desc, m->addr, m->ctx);
	case CT_SENDV:
		return fi_sendv(c->ep, p->iov, p->desc, p->cnt, m->addr, m->ctx);
	case CT_SENDMSG:
		return fi_sendmsg(c->ep, &fm, m->flags);
	case CT_INJECT:
		return fi_inject(c->ep, m->mem, m->len, m->addr);
	case CT_SENDDATA:
		return fi_senddata(c->ep, m->mem, m->len, desc, m->data, m->addr, m->ctx);
	case CT_INJECTDATA:
		return fi_injectdata(c->ep, m->mem, m->len, m->data, m->addr);
	case CT_CALL_NUM:
		break;
	}
	return -FI_EINVAL;
}

static ssize_t post_tagged(struct ct *c, const struct ct_msg *m, struct parts *p)
{
	void *desc = p->desc[0];
	struct fi_msg_tagged fm = {p->iov, p->desc, p->cnt, m->addr, m->tag, m->ignore, m->ctx, m->data};

	switch (m->call) {
	case CT_SEND:
		return fi_tsend(c->ep, m->mem, m->len, desc, m->addr, m->tag, m->ctx);
	case CT_SENDV:
		return fi_tsendv(c->ep, p->iov, p->desc, p->cnt, m->addr, m->tag, m->ctx);
	case CT_SENDMSG:
		return fi_tsendmsg(c->ep, &fm, m->flags);
	case CT_INJECT:
		return fi_tinject(c->ep, m->mem, m->len, m->addr, m->tag);
	case CT_SENDDATA:
		return fi_tsenddata(c->ep, m->mem, m->len, desc, m->data, m->addr, m->tag, m->ctx);
	case CT_INJECTDATA:
		return fi_tinjectdata(c->ep, m->mem, m->len, m->data, m->addr, m->tag);
	case CT_CALL_NUM:
		break;
	}
	return -FI_EINVAL;
}

ssize_t ct_post_send(struct ct *c, const struct ct_msg *m)
{
	struct parts p;

	c->traffic = true;
	parts_of(c, m, &p);
	return m->tagged ? post_tagged(c, m, &p) : post_msg(c, m, &p);
}

ssize_t ct_post_recv(struct ct *c, const struct ct_msg *m)
{
	struct parts p;

	parts_of(c, m, &p);
	struct fi_msg_tagged ft = {p.iov, p.desc, p.cnt, m->addr, m->tag, m->ignore, m->ctx, 0};
	struct fi_msg fm = {p.iov, p.desc, p.cnt, m->addr, m->ctx, 0};

	switch (m->call) {
	case CT_SEND:
		return m->tagged ? fi_trecv(c->ep, m->mem, m->len, p.desc[0], m->addr, m->tag, m->ignore, m->ctx)
				 : fi_recv(c->ep, m->mem, m->len, p.desc[0], m->addr, m->ctx);
	case CT_SENDV:
		return m->tagged ? fi_trecvv(c->ep, p.iov, p.desc, p.cnt, m->addr, m->tag, m->ignore, m->ctx)
				 : fi_recvv(c->ep, p.iov, p.desc, p.cnt, m->addr, m->ctx);
	default:
		return m->tagged ? fi_trecvmsg(c->ep, &ft, m->flags) : fi_recvmsg(c->ep, &fm, m->flags);
	}
}

void ct_send(struct ct *c, const struct ct_msg *m)
{
	ssize_t ret;

	do
		ret = ct_post_send(c, m);
	while (ct_again(c, ret));
}

void ct_recv(struct ct *c, const struct ct_msg *m)
{
	ssize_t ret;

	do
		ret = ct_post_recv(c, m);
	while (ct_again(c, ret));
}

bool ct_send_gone(struct ct *c, const struct ct_msg *m)
{
	ssize_t ret;

	if (!(c->p->has & CT_REFUSES)) {
		ct_send(c, m);
		return true;
	}
	while ((ret = ct_post_send(c, m)) == -FI_EAGAIN)
		ct_progress(c);
	RET(-c->p->gone.err, ret);
	ct_no_comp(c, c->txcq);
	return false;
}
