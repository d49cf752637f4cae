// SPDX-License-Identifier: BSD-2-Clause
// A program built with -DFABRIC_DIRECT and linked with libopx-fi.so: every data call between two endpoints of one
// process, payloads verified. direct ours|other|absent PROVIDER: the objects are the linked library's; they are another
// provider's, or a second copy's; there is no provider.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#ifndef FI_DIRECT_CONTEXT
#error "the headers are not those of opx"
#endif

#define API      FI_VERSION(1, 17)
#define BIG      20000u
#define KEY      77u
#define DEADLINE 60 /* seconds for one wait; the machine may be busy */

struct op { /* what a completion says, found by its context */
	struct fi_context2 ctx; /* first */
	bool is_done;
	struct fi_cq_tagged_entry e;
};

struct side {
	struct fid_ep *ep;
	struct fid_cq *cq;
	fi_addr_t addr; /* as the other one names it */
};

static struct fi_info *g_info;
static struct fid_fabric *g_fabric;
static struct fid_domain *g_domain;
static struct fid_av *g_av;
static struct fid_cntr *g_cntr;
static struct fid_mr *g_mr;
static struct side g_a, g_b;
static char g_src[BIG], g_dst[BIG];
static char g_target[BIG] __attribute__((aligned(8)));
static uint64_t g_target_at, g_key;
static void *g_desc; /* of local memory: always NULL, FI_MR_LOCAL is not among our modes */
static int g_checks;

static void check_fail(const char *what, long ret, int line)
{
	printf("FAIL: line %d: %s: %ld (%s)\n", line, what, ret, ret < 0 ? fi_strerror((int)-ret) : "");
	exit(1);
}
#define CHECK(cond) do { g_checks++; if (!(cond)) check_fail(#cond, 0, __LINE__); } while (0)
#define OK(call) do { long ret_ = (long)(call); g_checks++; if (ret_) check_fail(#call, ret_, __LINE__); } while (0)
#define RETURNS(want, call)                                                                                            \
	do {                                                                                                           \
		long ret_ = (long)(call);                                                                              \
		g_checks++;                                                                                            \
		if (ret_ != (want))                                                                                    \
			check_fail(#call, ret_, __LINE__);                                                             \
	} while (0)

/* --- progress --------------------------------------------------------------------------------------------- */

static void take(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry e;
	fi_addr_t from;

	for (ssize_t n; (n = fi_cq_readfrom(cq, &e, 1, &from)) != -FI_EAGAIN; ) {
		if (n != 1)
			check_fail("fi_cq_readfrom", (long)n, __LINE__);
		struct op *op = e.op_context;

		if (!op)
			continue;
		CHECK(!op->is_done);
		op->is_done = true;
		op->e = e;
	}
}

static void progress(time_t end, const char *what, int line)
{
	take(g_a.cq);
	take(g_b.cq);
	if (time(NULL) > end)
		check_fail(what, -FI_ETIMEDOUT, line);
}

#define UNTIL(cond)                                                                                                    \
	do {                                                                                                           \
		for (time_t end_ = time(NULL) + DEADLINE; !(cond);)                                                    \
			progress(end_, #cond, __LINE__);                                                               \
	} while (0)
/* A call that may find no room. */
#define POST(call)                                                                                                     \
	do {                                                                                                           \
		ssize_t got_;                                                                                          \
		UNTIL((got_ = (call)) != -FI_EAGAIN);                                                                  \
		OK(got_);                                                                                              \
	} while (0)

static void fill(void *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *)buf)[i] = (unsigned char)(i * 7 + seed * 31 + (i >> 8));
}

/* --- messages --------------------------------------------------------------------------------------------- */

/* A receive of @len bytes was done by @r, with CQ data @data (0: none) and @tag. */
static void received(const struct op *r, size_t len, uint64_t data, uint64_t tag)
{
	CHECK(r->e.len == len);
	CHECK(!memcmp(g_src, g_dst, len));
	CHECK(!data == !(r->e.flags & FI_REMOTE_CQ_DATA));
	CHECK(!data || r->e.data == data);
	CHECK(!(r->e.flags & FI_TAGGED) || r->e.tag == tag);
}

enum how { BUF, VEC, MSG, INJECT, DATA, INJECTDATA, HOW_NUM };

static void one_msg(enum how how, size_t len)
{
	struct iovec src = {g_src, len}, dst = {g_dst, len};
	struct op s = {0}, r = {0};
	struct fi_msg m = {.msg_iov = &dst, .desc = &g_desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &r};
	uint64_t data = how == DATA || how == INJECTDATA ? 0x1234u + how : 0;

	fill(g_src, len, how + 1);
	memset(g_dst, 0, len);
	if (how == VEC)
		POST(fi_recvv(g_b.ep, &dst, &g_desc, 1, FI_ADDR_UNSPEC, &r));
	else if (how == MSG)
		POST(fi_recvmsg(g_b.ep, &m, FI_COMPLETION));
	else
		POST(fi_recv(g_b.ep, g_dst, len, g_desc, FI_ADDR_UNSPEC, &r));
	m = (struct fi_msg){.msg_iov = &src, .desc = &g_desc, .iov_count = 1, .addr = g_b.addr, .context = &s};
	switch (how) {
	case BUF: POST(fi_send(g_a.ep, g_src, len, g_desc, g_b.addr, &s)); break;
	case VEC: POST(fi_sendv(g_a.ep, &src, &g_desc, 1, g_b.addr, &s)); break;
	case MSG: POST(fi_sendmsg(g_a.ep, &m, FI_COMPLETION)); break;
	case INJECT: POST(fi_inject(g_a.ep, g_src, len, g_b.addr)); break;
	case DATA: POST(fi_senddata(g_a.ep, g_src, len, g_desc, data, g_b.addr, &s)); break;
	default: POST(fi_injectdata(g_a.ep, g_src, len, data, g_b.addr)); break;
	}
	UNTIL(r.is_done && (s.is_done || how == INJECT || how == INJECTDATA));
	received(&r, len, data, 0);
}

static void one_tagged(enum how how, size_t len)
{
	struct iovec src = {g_src, len}, dst = {g_dst, len};
	struct op s = {0}, r = {0};
	uint64_t tag = 0xabcd00u + how, data = how == DATA || how == INJECTDATA ? 0x4321u + how : 0;
	struct fi_msg_tagged m = {.msg_iov = &dst,
				  .desc = &g_desc,
				  .iov_count = 1,
				  .addr = FI_ADDR_UNSPEC,
				  .tag = tag & ~0xffULL,
				  .ignore = 0xff,
				  .context = &r};

	fill(g_src, len, how + 11);
	memset(g_dst, 0, len);
	if (how == VEC)
		POST(fi_trecvv(g_b.ep, &dst, &g_desc, 1, FI_ADDR_UNSPEC, tag, 0, &r));
	else if (how == MSG)
		POST(fi_trecvmsg(g_b.ep, &m, FI_COMPLETION));
	else
		POST(fi_trecv(g_b.ep, g_dst, len, g_desc, FI_ADDR_UNSPEC, tag, 0, &r));
	m = (struct fi_msg_tagged){.msg_iov = &src, .desc = &g_desc, .iov_count = 1, .addr = g_b.addr, .tag = tag,
				   .context = &s};
	switch (how) {
	case BUF: POST(fi_tsend(g_a.ep, g_src, len, g_desc, g_b.addr, tag, &s)); break;
	case VEC: POST(fi_tsendv(g_a.ep, &src, &g_desc, 1, g_b.addr, tag, &s)); break;
	case MSG: POST(fi_tsendmsg(g_a.ep, &m, FI_COMPLETION)); break;
	case INJECT: POST(fi_tinject(g_a.ep, g_src, len, g_b.addr, tag)); break;
	case DATA: POST(fi_tsenddata(g_a.ep, g_src, len, g_desc, data, g_b.addr, tag, &s)); break;
	default: POST(fi_tinjectdata(g_a.ep, g_src, len, data, g_b.addr, tag)); break;
	}
	UNTIL(r.is_done && (s.is_done || how == INJECT || how == INJECTDATA));
	CHECK(r.e.flags & FI_TAGGED);
	received(&r, len, data, tag);
}

static void messages(void)
{
	static const size_t len[] = {0, 8, 16, 100, 9000, BIG};

	for (int how = BUF; how < HOW_NUM; how++) {
		for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
			if (len[i] > 16 && (how == INJECT || how == INJECTDATA))
				continue;
			one_msg(how, len[i]);
			one_tagged(how, len[i]);
		}
	}
}

/* The error path: a message that is longer than its receive. */
static void truncated(void)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	struct op r = {0};
	ssize_t ret;

	POST(fi_trecv(g_b.ep, g_dst, 4, g_desc, FI_ADDR_UNSPEC, 5, 0, &r));
	POST(fi_tinject(g_a.ep, g_src, 8, g_b.addr, 5));
	for (time_t end = time(NULL) + DEADLINE; (ret = fi_cq_read(g_b.cq, &e, 1)) == -FI_EAGAIN && time(NULL) <= end;)
		take(g_a.cq);
	RETURNS(-FI_EAVAIL, ret);
	RETURNS(1, fi_cq_readerr(g_b.cq, &err, 0));
	CHECK(err.err == FI_ETRUNC && err.op_context == &r);
}

/* --- RMA and atomics ---------------------------------------------------------------------------------------- */

static void one_write(enum how how, size_t len)
{
	struct iovec src = {g_src, len};
	struct fi_rma_iov there = {g_target_at, len, g_key};
	struct op s = {0};
	struct fi_msg_rma m = {.msg_iov = &src,
			       .desc = &g_desc,
			       .iov_count = 1,
			       .addr = g_b.addr,
			       .rma_iov = &there,
			       .rma_iov_count = 1,
			       .context = &s};

	fill(g_src, len, how + 21);
	memset(g_target, 0, len);
	switch (how) {
	case BUF: POST(fi_write(g_a.ep, g_src, len, g_desc, g_b.addr, g_target_at, g_key, &s)); break;
	case VEC: POST(fi_writev(g_a.ep, &src, &g_desc, 1, g_b.addr, g_target_at, g_key, &s)); break;
	case MSG: POST(fi_writemsg(g_a.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE)); break;
	case INJECT: POST(fi_inject_write(g_a.ep, g_src, len, g_b.addr, g_target_at, g_key)); break;
	case DATA: POST(fi_writedata(g_a.ep, g_src, len, g_desc, 9, g_b.addr, g_target_at, g_key, &s)); break;
	default: POST(fi_inject_writedata(g_a.ep, g_src, len, 9, g_b.addr, g_target_at, g_key)); break;
	}
	UNTIL((s.is_done || how == INJECT || how == INJECTDATA) && !memcmp(g_target, g_src, len));
}

static void one_read(enum how how, size_t len)
{
	struct iovec dst = {g_dst, len};
	struct fi_rma_iov there = {g_target_at, len, g_key};
	struct op s = {0};
	struct fi_msg_rma m = {.msg_iov = &dst,
			       .desc = &g_desc,
			       .iov_count = 1,
			       .addr = g_b.addr,
			       .rma_iov = &there,
			       .rma_iov_count = 1,
			       .context = &s};

	fill(g_target, len, how + 31);
	memset(g_dst, 0, len);
	switch (how) {
	case BUF: POST(fi_read(g_a.ep, g_dst, len, g_desc, g_b.addr, g_target_at, g_key, &s)); break;
	case VEC: POST(fi_readv(g_a.ep, &dst, &g_desc, 1, g_b.addr, g_target_at, g_key, &s)); break;
	default: POST(fi_readmsg(g_a.ep, &m, FI_COMPLETION)); break;
	}
	UNTIL(s.is_done);
	CHECK(!memcmp(g_dst, g_target, len));
}

static void rma(void)
{
	static const size_t len[] = {1, 16, 5000, BIG};

	for (int how = BUF; how < HOW_NUM; how++) {
		for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
			if (len[i] <= 16 || (how != INJECT && how != INJECTDATA))
				one_write(how, len[i]);
			if (how <= MSG)
				one_read(how, len[i]);
		}
	}
}

struct amo { /* one 8-byte operand and what goes with it, in local memory */
	uint64_t v, cmp, old;
};

static void one_atomic(enum how how, struct amo *x, volatile uint64_t *there)
{
	struct fi_ioc ioc = {&x->v, 1};
	struct fi_rma_ioc at = {g_target_at, 1, g_key};
	struct op s = {0};
	struct fi_msg_atomic m = {.msg_iov = &ioc, .desc = &g_desc, .iov_count = 1, .addr = g_b.addr, .rma_iov = &at,
				  .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = &s};

	*there = 100;
	x->v = 11 + how;
	switch (how) {
	case BUF: POST(fi_atomic(g_a.ep, &x->v, 1, g_desc, g_b.addr, g_target_at, g_key, FI_UINT64, FI_SUM, &s)); break;
	case VEC:
		POST(fi_atomicv(g_a.ep, &ioc, &g_desc, 1, g_b.addr, g_target_at, g_key, FI_UINT64, FI_SUM, &s));
		break;
	case MSG: POST(fi_atomicmsg(g_a.ep, &m, FI_COMPLETION)); break;
	default: POST(fi_inject_atomic(g_a.ep, &x->v, 1, g_b.addr, g_target_at, g_key, FI_UINT64, FI_SUM)); break;
	}
	UNTIL((s.is_done || how == INJECT) && *there == 111u + how);
}

/* Fetch-and-add, then compare-and-swap, each in the form @how. */
static void one_fetch(enum how how, struct amo *x, volatile uint64_t *there)
{
	struct fi_ioc ioc = {&x->v, 1}, cmp = {&x->cmp, 1}, old = {&x->old, 1};
	struct fi_rma_ioc at = {g_target_at, 1, g_key};
	struct op s = {0}, t = {0};
	struct fi_msg_atomic m = {.msg_iov = &ioc, .desc = &g_desc, .iov_count = 1, .addr = g_b.addr, .rma_iov = &at,
				  .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = &s};

	*there = 100;
	*x = (struct amo){.v = 11 + how};
	switch (how) {
	case BUF:
		POST(fi_fetch_atomic(g_a.ep, &x->v, 1, g_desc, &x->old, g_desc, g_b.addr, g_target_at, g_key, FI_UINT64,
				     FI_SUM, &s));
		break;
	case VEC:
		POST(fi_fetch_atomicv(g_a.ep, &ioc, &g_desc, 1, &old, &g_desc, 1, g_b.addr, g_target_at, g_key,
				      FI_UINT64, FI_SUM, &s));
		break;
	default: POST(fi_fetch_atomicmsg(g_a.ep, &m, &old, &g_desc, 1, FI_COMPLETION)); break;
	}
	UNTIL(s.is_done);
	CHECK(x->old == 100 && *there == 111u + how);
	*x = (struct amo){.v = 7, .cmp = 111u + how};
	m.op = FI_CSWAP;
	m.context = &t;
	switch (how) {
	case BUF:
		POST(fi_compare_atomic(g_a.ep, &x->v, 1, g_desc, &x->cmp, g_desc, &x->old, g_desc, g_b.addr,
				       g_target_at, g_key, FI_UINT64, FI_CSWAP, &t));
		break;
	case VEC:
		POST(fi_compare_atomicv(g_a.ep, &ioc, &g_desc, 1, &cmp, &g_desc, 1, &old, &g_desc, 1, g_b.addr,
					g_target_at, g_key, FI_UINT64, FI_CSWAP, &t));
		break;
	default: POST(fi_compare_atomicmsg(g_a.ep, &m, &cmp, &g_desc, 1, &old, &g_desc, 1, FI_COMPLETION)); break;
	}
	UNTIL(t.is_done);
	CHECK(x->old == 111u + how && *there == 7);
}

static void atomics(void)
{
	struct amo x;
	size_t cnt = 0;

	OK(fi_atomicvalid(g_a.ep, FI_UINT64, FI_SUM, &cnt));
	CHECK(cnt >= 1);
	OK(fi_fetch_atomicvalid(g_a.ep, FI_UINT64, FI_SUM, &cnt));
	OK(fi_compare_atomicvalid(g_a.ep, FI_UINT64, FI_CSWAP, &cnt));
	for (int how = BUF; how <= INJECT; how++) {
		one_atomic(how, &x, (volatile uint64_t *)(void *)g_target);
		if (how <= MSG)
			one_fetch(how, &x, (volatile uint64_t *)(void *)g_target);
	}
}

/* --- objects -------------------------------------------------------------------------------------------------- */

static int info_get(const char *prov)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	hints->fabric_attr->prov_name = strdup(prov);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	ret = fi_getinfo(API, NULL, NULL, 0, hints, &g_info);
	fi_freeinfo(hints);
	return ret;
}

static void side_open(struct side *s, bool counts)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 64};
	char name[256];
	size_t len = sizeof(name);

	OK(fi_cq_open(g_domain, &cq, &s->cq, NULL));
	OK(fi_endpoint(g_domain, g_info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &g_av->fid, 0));
	OK(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	if (counts)
		OK(fi_ep_bind(s->ep, &g_cntr->fid, FI_SEND));
	OK(fi_enable(s->ep));
	OK(fi_getname(&s->ep->fid, name, &len));
	RETURNS(1, fi_av_insert(g_av, name, 1, &s->addr, 0, NULL));
}

static void objects_open(void)
{
	struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {0};

	OK(fi_fabric(g_info->fabric_attr, &g_fabric, NULL));
	OK(fi_domain(g_fabric, g_info, &g_domain, NULL));
	OK(fi_av_open(g_domain, &av, &g_av, NULL));
	OK(fi_cntr_open(g_domain, &cntr, &g_cntr, NULL));
	side_open(&g_a, true);
	side_open(&g_b, false);
	OK(fi_mr_reg(g_domain, g_target, sizeof(g_target), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &g_mr, NULL));
	if (g_info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(g_mr, &g_b.ep->fid, 0));
		OK(fi_mr_enable(g_mr));
	}
	g_key = fi_mr_key(g_mr);
	g_target_at = g_info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)g_target : 0;
}

static void objects_close(void)
{
	OK(fi_close(&g_mr->fid));
	OK(fi_close(&g_a.ep->fid));
	OK(fi_close(&g_b.ep->fid));
	OK(fi_close(&g_a.cq->fid));
	OK(fi_close(&g_b.cq->fid));
	OK(fi_close(&g_cntr->fid));
	OK(fi_close(&g_av->fid));
	OK(fi_close(&g_domain->fid));
	OK(fi_close(&g_fabric->fid));
	fi_freeinfo(g_info);
}

/* --- whose functions ---------------------------------------------------------------------------------------------- */

static Dl_info where(void *fn)
{
	Dl_info i;

	CHECK(dladdr(fn, &i));
	return i;
}

/*
 * Each call of the list is a function of the library that this program is linked with; @ours: and so are the tables of
 * its objects.
 */
static void check_functions(bool ours)
{
#define ROW(name, ...) {#name, (void *)name},
	const struct { const char *name; void *fn;
	} row[] = {FI_OPX_DIRECT_MSG(ROW) FI_OPX_DIRECT_TAGGED(ROW) FI_OPX_DIRECT_RMA(ROW) FI_OPX_DIRECT_ATOMIC(ROW)
			   FI_OPX_DIRECT_CQ(ROW)};
	void *library = where((void *)fi_tsend).dli_fbase;
	char name[64];

	CHECK(strstr(where((void *)fi_tsend).dli_fname, "libopx-fi.so"));
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		Dl_info at = where(row[i].fn);

		snprintf(name, sizeof(name), "opx_%s", row[i].name);
		CHECK(at.dli_fbase == library && at.dli_sname && !strcmp(at.dli_sname, name));
	}
	CHECK((where((void *)g_a.ep->tagged->send).dli_fbase == library) == ours);
	CHECK((where((void *)g_a.cq->ops->read).dli_fbase == library) == ours);
	CHECK((void *)g_a.ep->tagged->send != (void *)fi_tsend);
}

static int g_taken;
static ssize_t taken(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag,
		     void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)to, (void)tag, (void)context;
	g_taken++;
	return -FI_EOTHER;
}

/* Objects with tables of another, as those of a hook have, are left to them. */
static void check_other_table(void)
{
	struct fi_ops_tagged *real = g_a.ep->tagged, other = *real;

	other.send = taken;
	g_a.ep->tagged = &other;
	RETURNS(-FI_EOTHER, fi_tsend(g_a.ep, g_src, 8, g_desc, g_b.addr, 1, NULL));
	g_a.ep->tagged = real;
	CHECK(g_taken == 1);
}

/* What an endpoint cannot do is refused as without FABRIC_DIRECT. */
static void check_refusals(void)
{
	struct fi_info *info = fi_dupinfo(g_info);
	struct fid_ep *ep;

	info->caps = FI_MSG;
	info->tx_attr->caps = info->rx_attr->caps = 0;
	OK(fi_endpoint(g_domain, info, &ep, NULL));
	RETURNS(-FI_EOPBADSTATE, fi_send(ep, g_src, 8, NULL, g_b.addr, NULL));
	RETURNS(-FI_EOPNOTSUPP, fi_tsend(ep, g_src, 8, NULL, g_b.addr, 1, NULL));
	RETURNS(-FI_EOPNOTSUPP, fi_write(ep, g_src, 8, NULL, g_b.addr, 0, KEY, NULL));
	RETURNS(-FI_ENOSYS, fi_connect(ep, g_src, NULL, 0));
	OK(fi_close(&ep->fid));
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	const char *mode = argc == 3 ? argv[1] : "";
	bool ours = !strcmp(mode, "ours");

	if (!ours && strcmp(mode, "other") && strcmp(mode, "absent")) {
		fprintf(stderr, "usage: %s ours|other|absent PROVIDER\n", argv[0]);
		return 2;
	}
	alarm(300);
	if (!strcmp(mode, "absent")) {
		RETURNS(-FI_ENODATA, info_get(argv[2]));
		printf("PASS: no provider, no objects\n");
		return 0;
	}
	OK(info_get(argv[2]));
	objects_open();
	check_functions(ours);
	messages();
	truncated();
	rma();
	atomics();
	check_other_table();
	if (ours)
		check_refusals();
	CHECK(fi_cntr_read(g_cntr) > 0);
	objects_close();
	printf("PASS: %d checks\n", g_checks);
	return 0;
}
