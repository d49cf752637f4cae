// SPDX-License-Identifier: BSD-2-Clause
// Bad input: calls too early, wrong objects, NULLs, zero and huge sizes. Every one is refused with an error code, and
// nothing breaks.
#include "conform.h"

#include <stdlib.h>

/* Refused, and not by "try again". */
#define REFUSED(call_)                                                                             \
	do {                                                                                       \
		long got_ = (long)(call_);                                                         \
		CHECK(got_ < 0 && got_ != -FI_EAGAIN, "%s returned %ld (%s)", #call_, got_, ct_err(got_)); \
	} while (0)

/* --- before enable ------------------------------------------------------------------------------- */

static void data_calls(struct ct *c)
{
	struct fid_ep *ep = c->ep;
	uint64_t mem[8] = {0}, res[8] = {0};
	struct iovec iov = {mem, 8};
	struct fi_rma_iov rma = {(uintptr_t)mem, 8, 1};
	struct fi_ioc ioc = {mem, 1}, rioc = {res, 1};
	struct fi_rma_ioc rma_ioc = {(uintptr_t)mem, 1, 1};
	struct fi_msg m = {&iov, NULL, 1, 0, NULL, 0};
	struct fi_msg_tagged t = {&iov, NULL, 1, 0, 0, 0, NULL, 0};
	struct fi_msg_rma r = {&iov, NULL, 1, 0, &rma, 1, NULL, 0};
	struct fi_msg_atomic a = {&ioc, NULL, 1, 0, &rma_ioc, 1, FI_UINT64, FI_SUM, NULL, 0};

	REFUSED(fi_send(ep, mem, 8, NULL, 0, NULL));
	REFUSED(fi_sendv(ep, &iov, NULL, 1, 0, NULL));
	REFUSED(fi_sendmsg(ep, &m, 0));
	REFUSED(fi_inject(ep, mem, 8, 0));
	REFUSED(fi_senddata(ep, mem, 8, NULL, 0, 0, NULL));
	REFUSED(fi_injectdata(ep, mem, 8, 0, 0));
	REFUSED(fi_recv(ep, mem, 8, NULL, 0, NULL));
	REFUSED(fi_recvv(ep, &iov, NULL, 1, 0, NULL));
	REFUSED(fi_recvmsg(ep, &m, 0));
	REFUSED(fi_tsend(ep, mem, 8, NULL, 0, 0, NULL));
	REFUSED(fi_tsendmsg(ep, &t, 0));
	REFUSED(fi_tinject(ep, mem, 8, 0, 0));
	REFUSED(fi_trecv(ep, mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_trecvmsg(ep, &t, 0));
	REFUSED(fi_write(ep, mem, 8, NULL, 0, rma.addr, 1, NULL));
	REFUSED(fi_writemsg(ep, &r, 0));
	REFUSED(fi_inject_write(ep, mem, 8, 0, rma.addr, 1));
	REFUSED(fi_writedata(ep, mem, 8, NULL, 0, 0, rma.addr, 1, NULL));
	REFUSED(fi_read(ep, mem, 8, NULL, 0, rma.addr, 1, NULL));
	REFUSED(fi_readmsg(ep, &r, 0));
	REFUSED(fi_atomic(ep, mem, 1, NULL, 0, rma.addr, 1, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_atomicmsg(ep, &a, 0));
	REFUSED(fi_inject_atomic(ep, mem, 1, 0, rma.addr, 1, FI_UINT64, FI_SUM));
	REFUSED(fi_fetch_atomic(ep, mem, 1, NULL, res, NULL, 0, rma.addr, 1, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_fetch_atomicmsg(ep, &a, &rioc, NULL, 1, 0));
	REFUSED(fi_compare_atomic(ep, mem, 1, NULL, mem, NULL, res, NULL, 0, rma.addr, 1, FI_UINT64, FI_CSWAP, NULL));
}

static void bad_before_enable(struct ct *c)
{
	c->want.no_enable = true;
	ct_open(c);
	data_calls(c);
	OK(fi_enable(c->ep));
	ct_connect(c);
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

/* An endpoint that lacks a CQ or an AV does not come up, and says which. */
static void bad_enable(struct ct *c)
{
	struct fid_ep *ep;

	ct_open(c);
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	REFUSED(fi_enable(ep));
	OK(fi_ep_bind(ep, &c->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &c->rxcq->fid, FI_RECV));
	RET(-FI_ENOAV, fi_enable(ep));
	OK(fi_close(&ep->fid));
	ct_close(c);
}

static void bad_bind(struct ct *c)
{
	struct fid_domain *other;
	struct fid_cq *cq, *own = NULL;
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fid_ep *ep;

	ct_open(c);
	OK(fi_domain(c->fabric, c->info, &other, NULL));
	OK(fi_cq_open(other, &attr, &cq, NULL));
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	RET(-FI_EINVAL, fi_ep_bind(ep, &cq->fid, FI_TRANSMIT)); /* another domain's */
	REFUSED(fi_ep_bind(ep, &c->fabric->fid, 0));
	REFUSED(fi_ep_bind(ep, &c->domain->fid, 0));
	REFUSED(fi_ep_bind(ep, &c->ep->fid, 0));
	REFUSED(fi_ep_bind(ep, &c->txcq->fid, 0));
	REFUSED(fi_ep_bind(ep, &c->txcq->fid, FI_PEEK));
	OK(fi_cq_open(c->domain, &attr, &own, NULL));
	OK(fi_ep_bind(ep, &own->fid, FI_TRANSMIT));
	REFUSED(fi_ep_bind(ep, &c->txcq->fid, FI_TRANSMIT)); /* a second one */
	REFUSED(fi_ep_bind(c->ep, &own->fid, FI_RECV));      /* enabled */
	RET(-FI_EBUSY, fi_close(&own->fid));
	OK(fi_close(&ep->fid));
	OK(fi_close(&own->fid));
	RET(-FI_EBUSY, fi_close(&other->fid));
	OK(fi_close(&cq->fid));
	OK(fi_close(&other->fid));
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

/* --- sizes and pointers -------------------------------------------------------------------------- */

/* No message, and pieces that are nowhere. */
static void no_message(struct ct *c)
{
	RET(-FI_EINVAL, fi_sendmsg(c->ep, NULL, 0));
	RET(-FI_EINVAL, fi_recvmsg(c->ep, NULL, 0));
	RET(-FI_EINVAL, fi_tsendmsg(c->ep, NULL, 0));
	RET(-FI_EINVAL, fi_trecvmsg(c->ep, NULL, 0));
	RET(-FI_EINVAL, fi_readmsg(c->ep, NULL, 0));
	RET(-FI_EINVAL, fi_writemsg(c->ep, NULL, 0));
	RET(-FI_EINVAL, fi_sendv(c->ep, NULL, NULL, 1, c->peer, NULL));
	RET(-FI_EINVAL, fi_tsendv(c->ep, NULL, NULL, 1, c->peer, 0, NULL));
	RET(-FI_EINVAL, fi_recvv(c->ep, NULL, NULL, 1, c->peer, NULL));
	RET(-FI_EINVAL, fi_trecvv(c->ep, NULL, NULL, 1, c->peer, 0, 0, NULL));
	RET(-FI_EINVAL, fi_readv(c->ep, NULL, NULL, 1, c->peer, 0, 0, NULL));
	RET(-FI_EINVAL, fi_writev(c->ep, NULL, NULL, 1, c->peer, 0, 0, NULL));
}

/* Atomics that lack one of what they need. */
static void no_operand(struct ct *c)
{
	uint64_t mem[4] = {0};
	struct fi_ioc own = {&mem[0], 1}, cmp = {&mem[1], 1}, res = {&mem[2], 1};
	struct fi_rma_ioc at = {(uintptr_t)&mem[3], 1, 0};
	struct fi_msg_atomic m = {&own, NULL, 1, c->peer, &at, 1, FI_UINT64, FI_SUM, NULL, 0};

	RET(-FI_EINVAL, fi_fetch_atomicmsg(c->ep, &m, &res, NULL, 0, 0));
	m.op = FI_CSWAP;
	RET(-FI_EINVAL, fi_compare_atomicmsg(c->ep, &m, &cmp, NULL, 0, &res, NULL, 1, 0));
	RET(-FI_EINVAL, fi_compare_atomicmsg(c->ep, &m, &cmp, NULL, 1, &res, NULL, 0, 0));
	RET(-FI_EINVAL, fi_writemsg(c->ep,
				    &(struct fi_msg_rma){.msg_iov = &(struct iovec){mem, 8}, .iov_count = 1,
							 .addr = c->peer, .rma_iov_count = 1},
				    0));
	RET(-FI_EINVAL, fi_compare_atomicmsg(c->ep, &m, NULL, NULL, 1, &res, NULL, 1, 0));
	RET(-FI_EINVAL, fi_compare_atomicmsg(c->ep, &m, &cmp, NULL, 1, NULL, NULL, 1, 0));
	m = (struct fi_msg_atomic){&own, NULL, 1, c->peer, NULL, 1, FI_UINT64, FI_SUM, NULL, 0};
	RET(-FI_EINVAL, fi_atomicmsg(c->ep, &m, 0));
	m.rma_iov = &at;
	m.msg_iov = NULL;
	RET(-FI_EINVAL, fi_atomicmsg(c->ep, &m, 0));
	RET(-FI_EINVAL, fi_atomicmsg(c->ep, NULL, 0));
	RET(-FI_EINVAL, fi_atomicv(c->ep, NULL, NULL, 1, c->peer, 0, 0, FI_UINT64, FI_SUM, NULL));
}

static void bad_sizes(struct ct *c)
{
	struct iovec many[64], huge[2];
	uint64_t mem[8] = {0};
	size_t tx;

	ct_open(c);
	tx = c->info->tx_attr->iov_limit;
	for (unsigned i = 0; i < 64; i++)
		many[i] = (struct iovec){mem, 1};
	REFUSED(fi_sendv(c->ep, many, NULL, tx + 1, c->peer, NULL));
	REFUSED(fi_tsendv(c->ep, many, NULL, 64, c->peer, 0, NULL));
	REFUSED(fi_recvv(c->ep, many, NULL, c->info->rx_attr->iov_limit + 1, c->peer, NULL));
	REFUSED(fi_trecvv(c->ep, many, NULL, 64, c->peer, 0, 0, NULL));
	REFUSED(fi_writev(c->ep, many, NULL, tx + 1, c->peer, 0, 0, NULL));
	REFUSED(fi_readv(c->ep, many, NULL, 64, c->peer, 0, 0, NULL));
	no_message(c);
	no_operand(c);
	REFUSED(fi_inject(c->ep, mem, SIZE_MAX, c->peer));
	REFUSED(fi_inject_write(c->ep, mem, SIZE_MAX, c->peer, 0, 0));
	huge[0] = huge[1] = (struct iovec){mem, SIZE_MAX / 2 + 2}; /* their sum wraps */
	REFUSED(fi_writev(c->ep, huge, NULL, 2, c->peer, 0, 0, NULL));
	/* as many elements as one, modulo 2^64 bytes; in all or in one of several pieces */
	REFUSED(fi_atomic(c->ep, mem, (1ULL << 61) + 1, NULL, c->peer, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_inject_atomic(c->ep, mem, (1ULL << 61) + 1, c->peer, 0, 0, FI_UINT64, FI_SUM));
	REFUSED(fi_fetch_atomic(c->ep, mem, (1ULL << 61) + 1, NULL, mem, NULL, c->peer, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_compare_atomic(c->ep, mem, (1ULL << 61) + 1, NULL, mem, NULL, mem, NULL, c->peer, 0, 0, FI_UINT64,
				  FI_CSWAP, NULL));
	REFUSED(fi_atomicv(c->ep, (struct fi_ioc[]){{mem, 1ULL << 63}, {mem, (1ULL << 63) + 1}}, NULL, 2, c->peer, 0, 0,
			   FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_atomicmsg(c->ep,
			     &(struct fi_msg_atomic){.msg_iov = &(struct fi_ioc){mem, 1},
						     .iov_count = 1,
						     .addr = c->peer,
						     .rma_iov = &(struct fi_rma_ioc){0, (1ULL << 61) + 1, 0},
						     .rma_iov_count = 1,
						     .datatype = FI_UINT64,
						     .op = FI_SUM},
			     0));
	REFUSED(fi_atomic(c->ep, mem, SIZE_MAX / 4, NULL, c->peer, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_atomic(c->ep, mem, 1, NULL, c->peer, 0, 0, (enum fi_datatype)99, FI_SUM, NULL));
	REFUSED(fi_atomic(c->ep, mem, 1, NULL, c->peer, 0, 0, FI_UINT64, (enum fi_op)99, NULL));
	/* addresses that name nobody */
	REFUSED(fi_send(c->ep, mem, 8, NULL, FI_ADDR_UNSPEC, NULL));
	REFUSED(fi_send(c->ep, mem, 8, NULL, 1000000, NULL));
	REFUSED(fi_tsend(c->ep, mem, 8, NULL, FI_ADDR_NOTAVAIL, 0, NULL));
	REFUSED(fi_read(c->ep, mem, 8, NULL, 77777, 0, 0, NULL));
	REFUSED(fi_atomic(c->ep, mem, 1, NULL, 77777, 0, 0, FI_UINT64, FI_SUM, NULL));
	ct_close(c);
}

static void bad_mr(struct ct *c)
{
	struct fid_mr *mr = NULL;
	uint8_t mem[64];
	struct iovec iov[2] = {{mem, 32}, {mem + 32, 32}};
	struct fi_mr_attr attr = {.mr_iov = iov, .iov_count = 1, .access = FI_REMOTE_READ};

	ct_open(c);
	REFUSED(fi_mr_regv(c->domain, iov, c->info->domain_attr->mr_iov_limit + 1, FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	REFUSED(fi_mr_regv(c->domain, iov, 0, FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	REFUSED(fi_mr_regv(c->domain, NULL, 1, FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	REFUSED(fi_mr_reg(c->domain, mem, 64, FI_REMOTE_READ, 0, 0, 1ULL << 50, &mr, NULL));
	REFUSED(fi_mr_reg(c->domain, mem, SIZE_MAX, FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	OK(fi_mr_regattr(c->domain, &attr, 0, &mr));
	REFUSED(fi_mr_bind(mr, &c->txcq->fid, 0));
	OK(fi_close(&mr->fid));
	attr.access |= FI_RMA | 1ULL << 60; /* bits that are no access: LCI gives one */
	if (!strcmp(c->prov, "opx")) {
		RET(-FI_EINVAL, fi_mr_regattr(c->domain, &attr, 0, &mr));
	} else {
		OK(fi_mr_regattr(c->domain, &attr, 0, &mr));
		OK(fi_close(&mr->fid));
	}
	ct_close(c);
}

/* Many regions at once, each with a key of its own; and a region stays usable beside one that was closed. */
static void mr_many(struct ct *c)
{
	enum { CNT = 3000 }; /* advertised or not: mr_cnt says for how many the provider is optimal */
	struct fid_mr **mr = calloc(CNT, sizeof(*mr));
	uint8_t *mem = calloc(CNT, 64);

	ct_open(c);
	for (unsigned i = 0; i < CNT; i++) {
		mr[i] = ct_mr(c, mem + i * 64, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, i);
		CHECK(fi_mr_key(mr[i]) != FI_KEY_NOTAVAIL, "no key");
		CHECK(c->info->domain_attr->mr_key_size >= 8 ||
			      fi_mr_key(mr[i]) >> (8 * c->info->domain_attr->mr_key_size) == 0,
		      "key %#llx needs more than mr_key_size", (unsigned long long)fi_mr_key(mr[i]));
		CHECK(!i || fi_mr_key(mr[i]) != fi_mr_key(mr[i - 1]), "one key twice");
	}
	for (unsigned i = 0; i < CNT; i += 2)
		OK(fi_close(&mr[i]->fid));
	c->peer = c->self;
	for (unsigned i = 1; i < CNT; i += 600) {
		uint64_t v = i;

		while (ct_again(c, fi_read(c->ep, &v, 8, NULL, c->self, ct_base(c, mem + i * 64), fi_mr_key(mr[i]),
					   &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_READ | FI_RMA);
		CHECK(v == 0, "read %llu", (unsigned long long)v);
	}
	for (unsigned i = 1; i < CNT; i += 2)
		OK(fi_close(&mr[i]->fid));
	free(mr);
	free(mem);
	ct_close(c);
}

/*
 * Attributes of objects: zero asks for the default, and no size is so huge that the call does not come back with a
 * verdict.
 */
static void bad_attrs(struct ct *c)
{
	static const size_t size[] = {0, 1, SIZE_MAX, SIZE_MAX / 2 + 1, (size_t)1 << 40};
	struct fid_domain *domain = NULL;
	struct fid_ep *ep = NULL;
	struct fid_av *av = NULL;
	struct fid_cq *cq = NULL;
	struct fid_mr *mr = NULL;

	ct_open(c);
	for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		struct fi_cq_attr cq_attr = {.size = size[i], .format = FI_CQ_FORMAT_TAGGED};
		struct fi_av_attr av_attr = {.count = size[i], .type = FI_AV_TABLE};
		struct fi_info *info = fi_dupinfo(c->info);
		int ret = fi_cq_open(c->domain, &cq_attr, &cq, NULL);

		CHECK(!ret || (size[i] > 1 && ret == -FI_EINVAL), "CQ of %zu: %s", size[i], ct_err(ret));
		if (!ret)
			OK(fi_close(&cq->fid));
		ret = fi_av_open(c->domain, &av_attr, &av, NULL);
		CHECK(ret == (size[i] > 1 ? -FI_EINVAL : 0), "AV for %zu: %s", size[i], ct_err(ret));
		if (!ret)
			OK(fi_close(&av->fid));
		info->tx_attr->size = info->rx_attr->size = size[i];
		ret = fi_endpoint(c->domain, info, &ep, NULL);
		fi_freeinfo(info);
		if (ret)
			continue;
		av_attr.count = 0;
		OK(fi_av_open(c->domain, &av_attr, &av, NULL));
		OK(fi_ep_bind(ep, &av->fid, 0));
		OK(fi_ep_bind(ep, &c->txcq->fid, FI_TRANSMIT));
		OK(fi_ep_bind(ep, &c->rxcq->fid, FI_RECV));
		ret = fi_enable(ep);
		CHECK(!ret || ret == -FI_EINVAL || ret == -FI_ENOMEM, "endpoint of %zu: %s", size[i], ct_err(ret));
		CHECK(!ret || size[i] > 1, "endpoint of %zu: %s", size[i], ct_err(ret));
		OK(fi_close(&ep->fid));
		OK(fi_close(&av->fid));
	}
	REFUSED(fi_cq_open(c->domain, &(struct fi_cq_attr){.format = (enum fi_cq_format)99}, &cq, NULL));
	REFUSED(fi_cq_open(c->domain, &(struct fi_cq_attr){.wait_obj = (enum fi_wait_obj)99}, &cq, NULL));
	REFUSED(fi_cntr_open(c->domain, &(struct fi_cntr_attr){.events = (enum fi_cntr_events)99}, &c->cntr, NULL));
	REFUSED(fi_av_open(c->domain, NULL, &av, NULL));
	REFUSED(fi_endpoint(c->domain, NULL, &ep, NULL));
	REFUSED(fi_domain(c->fabric, NULL, &domain, NULL));
	REFUSED(fi_mr_reg(c->domain, NULL, 4096, FI_REMOTE_READ, 0, 0, 7, &mr, NULL));
	ct_close(c);
}

/* --- wrong objects and unsupported calls --------------------------------------------------------- */

static void bad_objects(struct ct *c)
{
	struct fid_pep *pep = NULL;
	struct fid_stx *stx = NULL;
	struct fid_ep *ep = NULL;
	struct fi_info *info;
	void *ops = NULL;
	fi_addr_t fa;
	struct fid_mc *mc = NULL;

	ct_open(c);
	REFUSED(fi_passive_ep(c->fabric, c->info, &pep, NULL));
	if (!(c->p->has & CT_HAS_CONTEXTS)) {
		REFUSED(fi_scalable_ep(c->domain, c->info, &ep, NULL));
		REFUSED(fi_stx_context(c->domain, NULL, &stx, NULL));
		REFUSED(fi_srx_context(c->domain, NULL, &ep, NULL));
	}
	REFUSED(fi_connect(c->ep, c->addr, NULL, 0));
	REFUSED(fi_accept(c->ep, NULL, 0));
	REFUSED(fi_shutdown(c->ep, 0));
	REFUSED(fi_join(c->ep, c->addr, 0, &mc, NULL));
	REFUSED(fi_tx_context(c->ep, 0, NULL, &ep, NULL));
	REFUSED(fi_rx_context(c->ep, 0, NULL, &ep, NULL));
	REFUSED(fi_open_ops(&c->domain->fid, "no such ops", 0, &ops, NULL));
	REFUSED(fi_open_ops(&c->ep->fid, "no such ops", 0, &ops, NULL));
	REFUSED(fi_control(&c->ep->fid, 4711, NULL));
	REFUSED(fi_control(&c->domain->fid, 4711, NULL));
	REFUSED(fi_av_insertsvc(c->av, "host", "port", &fa, 1ULL << 50, NULL));
	info = fi_dupinfo(c->info);
	info->ep_attr->type = FI_EP_MSG;
	REFUSED(fi_endpoint(c->domain, info, &ep, NULL));
	fi_freeinfo(info);
	fi_cancel(&c->ep->fid, &ep); /* nothing to cancel, so no entry */
	ct_no_comp(c, c->rxcq);
	ct_close(c);
}

static void bad_domain(struct ct *c)
{
	struct fid_fabric *fabric = NULL;
	struct fid_domain *domain = NULL;
	struct fi_info *info;

	ct_open_to_domain(c);
	info = fi_dupinfo(c->info);
	free(info->domain_attr->name);
	info->domain_attr->name = strdup("nowhere");
	REFUSED(fi_domain(c->fabric, info, &domain, NULL));
	fi_freeinfo(info);
	info = fi_dupinfo(c->info);
	free(info->fabric_attr->name);
	info->fabric_attr->name = strdup("nowhere");
	REFUSED(fi_fabric(info->fabric_attr, &fabric, NULL));
	fi_freeinfo(info);
	RET(-FI_EBUSY, fi_close(&c->fabric->fid));
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(c->info);
}

const struct ct_test bad_tests[] = {
	{"bad_before_enable", bad_before_enable, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, 0, 0, NULL},
	{"bad_enable", bad_enable, FI_MSG, 0, CT_SOLO, NULL},
	{"bad_bind", bad_bind, FI_MSG, 0, 0, NULL},
	{"bad_sizes", bad_sizes, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, 0, CT_SOLO, "tx.iov_limit rx.iov_limit"},
	{"bad_mr", bad_mr, FI_MSG | FI_RMA, 0, CT_SOLO, "mr_iov_limit"},
	{"bad_attrs", bad_attrs, FI_MSG, 0, CT_SOLO, NULL},
	{"mr_many", mr_many, FI_RMA, 0, CT_SOLO | CT_ANY_PATH, "mr_cnt mr_key_size mr:FI_MR_PROV_KEY"},
	{"bad_objects", bad_objects, FI_MSG, 0, CT_SOLO, NULL},
	{"bad_domain", bad_domain, FI_MSG, 0, CT_SOLO, NULL},
	{0},
};
