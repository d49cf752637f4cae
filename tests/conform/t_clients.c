// SPDX-License-Identifier: BSD-2-Clause
// Each client of clients.c opens the provider in its own order, with its own attributes, and moves something the way
// that it does.
#include "clients.h"

#include <poll.h>
#include <stdlib.h>

#include <rdma/providers/fi_prov.h>

/* --- Open MPI ----------------------------------------------------------------------------------------------------- */

static void ompi_mtl(struct ct *c)
{
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m = {0};

	cl_domain(c);
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	av = cl_av(c, FI_AV_MAP, 2, 0);
	OK(fi_ep_bind(ep, &av->fid, 0));
	cq = cl_cq(c, FI_CQ_FORMAT_TAGGED, 100, FI_WAIT_NONE);
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	OK(fi_enable(ep));
	peer = cl_meet(c, ep, av);
	CHECK(c->info->domain_attr->cq_data_size >= 4 && (c->info->caps & FI_DIRECTED_RECV), "no tags of full width");
	m.p = calloc(2, CL_BIG), m.in = m.p + CL_BIG; /* messages are not registered */
	ct_fill(m.p, CL_BIG, 7 + (uint64_t)c->rank);
	cl_tagged(c, ep, ep, peer, peer, &m, true);
	cl_finish(c, &ep->fid, &av->fid, &cq->fid, NULL);
	free(m.p);
}

static void ompi_btl(struct ct *c)
{
	struct fid_ep *ep, *tx = NULL, *rx = NULL;
	struct fi_tx_attr tx_attr = {.op_flags = FI_DELIVERY_COMPLETE};
	struct fi_rx_attr rx_attr = {0};
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;

	CHECK(c->info->domain_attr->mr_mode == KIT_MR_BASIC || c->info->domain_attr->mr_mode == KIT_MR_SCALABLE ||
		      !(c->info->domain_attr->mr_mode &
			~(FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_HMEM)),
	      "mr_mode %#x, which it does not take", (unsigned)c->info->domain_attr->mr_mode);
	CHECK(!(c->info->caps & FI_NAMED_RX_CTX) || c->info->domain_attr->max_ep_tx_ctx > 1,
	      "contexts asked for, none offered");
	cl_domain(c);
	av = cl_av(c, FI_AV_MAP, 0, 0);
	/* it uses a scalable endpoint wherever there is one, and enables that last */
	if (c->info->domain_attr->max_ep_tx_ctx > 1) {
		c->info->ep_attr->tx_ctx_cnt = c->info->ep_attr->rx_ctx_cnt = 1;
		OK(fi_scalable_ep(c->domain, c->info, &ep, NULL));
		OK(fi_scalable_ep_bind(ep, &av->fid, 0));
		OK(fi_tx_context(ep, 0, &tx_attr, &tx, NULL));
		OK(fi_rx_context(ep, 0, &rx_attr, &rx, NULL));
		cq = cl_cq(c, FI_CQ_FORMAT_CONTEXT, 0, FI_WAIT_NONE);
		OK(fi_ep_bind(tx, &cq->fid, FI_TRANSMIT));
		OK(fi_enable(tx));
		OK(fi_enable(rx));
	} else {
		OK(fi_endpoint(c->domain, c->info, &ep, NULL));
		cq = cl_cq(c, FI_CQ_FORMAT_CONTEXT, 0, FI_WAIT_NONE);
		OK(fi_ep_bind(ep, &av->fid, 0));
		OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_SEND | FI_RECV));
	}
	OK(fi_enable(ep));
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, CL_REMOTE | FI_READ | FI_WRITE);
	cl_put_get(c, tx ? tx : ep, peer, &m, cq, true);
	cl_mem_close(c, &m);
	if (tx)
		cl_finish(c, &tx->fid, &rx->fid, &cq->fid, &ep->fid, &av->fid, NULL);
	else
		cl_finish(c, &ep->fid, &cq->fid, &av->fid, NULL);
}

/* --- MPICH -------------------------------------------------------------------------------------------------------- */

#define MPICH_CTX_CAPS (FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MSG | FI_NAMED_RX_CTX)

static void mpich_contexts(struct ct *c, struct fid_ep *ep, struct fid_cq *cq, struct fid_cntr *cntr,
			   struct fid_ep **tx, struct fid_ep **rx)
{
	struct fi_tx_attr tx_attr = *c->info->tx_attr;
	struct fi_rx_attr rx_attr = *c->info->rx_attr;

	tx_attr.op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	tx_attr.caps = MPICH_CTX_CAPS;
	OK(fi_tx_context(ep, 0, &tx_attr, tx, NULL));
	OK(fi_ep_bind(*tx, &cq->fid, FI_SEND | FI_SELECTIVE_COMPLETION));
	OK(fi_ep_bind(*tx, &cntr->fid, FI_WRITE | FI_READ));
	OK(fi_enable(*tx));
	rx_attr.caps = MPICH_CTX_CAPS | FI_DIRECTED_RECV | CL_REMOTE | FI_MULTI_RECV;
	OK(fi_rx_context(ep, 0, &rx_attr, rx, NULL));
	OK(fi_ep_bind(*rx, &cq->fid, FI_RECV));
	OK(fi_enable(*rx));
}

/*
 * A window: a put, a small put and a fetch-and-add at the peer, which are counted and not reported.
 * Address or offset, the provider's key or one that all chose alike: it goes by the bits of the
 * info, and knows no words.
 */
static void mpich_window(struct ct *c, struct fid_ep *ep, struct fid_ep *tx, fi_addr_t to,
			 struct fid_cntr *cntr)
{
	struct iovec iov = {.iov_len = CL_LEN};
	struct fi_rma_iov at = {.len = CL_LEN};
	struct fi_msg_rma put = {
		.msg_iov = &iov, .iov_count = 1, .addr = to, .rma_iov = &at, .rma_iov_count = 1};
	struct fi_rma_ioc sum_at = {.count = 1};
	struct fi_ioc sum = {.count = 1}, old = {.count = 1};
	struct fi_msg_atomic fetch = {.msg_iov = &sum,
				      .iov_count = 1,
				      .addr = to,
				      .rma_iov = &sum_at,
				      .rma_iov_count = 1,
				      .datatype = FI_UINT64,
				      .op = FI_SUM};
	uint64_t one = 5, was = 99;
	struct cl_mem m;

	CHECK(!(c->info->domain_attr->mr_mode & (KIT_MR_BASIC | KIT_MR_SCALABLE)),
	      "mr_mode %#x is a word", (unsigned)c->info->domain_attr->mr_mode);
	cl_mem_open(c, &m, ep, CL_REMOTE);
	iov.iov_base = m.p, at.addr = m.peer.addr, at.key = m.peer.key;
	sum.addr = &one, old.addr = &was, sum_at.addr = m.peer.addr + CL_BIG / 2,
	sum_at.key = m.peer.key;
	while (ct_again(c, fi_writemsg(tx, &put, FI_DELIVERY_COMPLETE)))
		;
	while (ct_again(c,
			fi_inject_write(tx, m.p + CL_LEN, 8, to, m.peer.addr + CL_LEN, m.peer.key)))
		;
	while (ct_again(c, fi_fetch_atomicmsg(tx, &fetch, &old, NULL, 1, FI_DELIVERY_COMPLETE)))
		;
	cl_wait_cntr(c, cntr, 3);
	CHECK(!was, "fetched %llu", (unsigned long long)was);
	cl_wait_put(c, &m, CL_LEN + 8);
	cl_mem_close(c, &m);
}

/* Scalable endpoints where there are some, but by its settings not for cxi. */
static void mpich(struct ct *c)
{
	bool cxi = !strcmp(c->prov, "cxi"), sep;
	struct fid_ep *ep, *tx, *rx;
	struct fid_cntr *cntr;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer, to;
	struct cl_mem m = {0};

	CHECK(c->info->domain_attr->threading == FI_THREAD_DOMAIN, "threading %d: it ends with a provider mismatch",
	      c->info->domain_attr->threading);
	sep = !cxi && c->info->domain_attr->max_ep_tx_ctx > 1 && (c->info->caps & FI_NAMED_RX_CTX);
	cl_domain(c);
	av = cl_av(c, FI_AV_TABLE, 2, sep ? 8 : 0);
	cntr = cl_cntr(c, cxi ? FI_WAIT_NONE : FI_WAIT_UNSPEC);
	cq = cl_cq(c, FI_CQ_FORMAT_TAGGED, 0, FI_WAIT_NONE);
	if (sep) {
		OK(fi_scalable_ep(c->domain, c->info, &ep, NULL));
		OK(fi_scalable_ep_bind(ep, &av->fid, 0));
		OK(fi_enable(ep));
		mpich_contexts(c, ep, cq, cntr, &tx, &rx);
	} else {
		OK(fi_endpoint(c->domain, c->info, &ep, NULL));
		OK(fi_ep_bind(ep, &av->fid, 0));
		OK(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION));
		OK(fi_ep_bind(ep, &cntr->fid, FI_READ | FI_WRITE));
		OK(fi_enable(ep));
		tx = rx = ep;
	}
	peer = cl_meet(c, ep, av);
	to = sep ? fi_rx_addr(peer, 0, 8) : peer;
	m.p = calloc(2, CL_BIG), m.in = m.p + CL_BIG;
	ct_fill(m.p, CL_BIG, 7 + (uint64_t)c->rank);
	cl_tagged(c, tx, rx, to, to, &m, true);
	memset(m.in, 0, CL_LEN);
	cl_post_multi(c, rx, &m, FI_COMPLETION);
	cl_am(c, tx, to, cq, &m, 64);
	mpich_window(c, ep, tx, to, cntr);
	if (sep)
		cl_finish(c, &tx->fid, &rx->fid, &cq->fid, &ep->fid, &av->fid, &cntr->fid, NULL);
	else
		cl_finish(c, &ep->fid, &cq->fid, &av->fid, &cntr->fid, NULL);
	free(m.p);
}

/* --- OpenSHMEM, PGAS ---------------------------------------------------------------------------------------------- */

/* Sandia OpenSHMEM: one endpoint, whose counters are bound when it is enabled already. */
static void sos(struct ct *c)
{
	struct fid_cntr *put, *get, *target = NULL;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;
	bool events;

	events = c->info->caps & FI_RMA_EVENT;
	cl_domain(c);
	av = cl_av(c, FI_AV_TABLE, 0, 0);
	c->info->ep_attr->tx_ctx_cnt = 0;
	c->info->caps = FI_RMA | FI_ATOMIC | CL_REMOTE | FI_WRITE | FI_READ | FI_RECV | (events ? FI_RMA_EVENT : 0);
	c->info->tx_attr->op_flags = c->info->mode = c->info->tx_attr->mode = c->info->rx_attr->mode = 0;
	c->info->tx_attr->caps = FI_RMA | FI_ATOMIC;
	c->info->rx_attr->caps = c->info->caps;
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	OK(fi_ep_bind(ep, &av->fid, 0));
	cq = cl_cq(c, FI_CQ_FORMAT_UNSPEC, 0, FI_WAIT_NONE);
	OK(fi_ep_bind(ep, &cq->fid, FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	m = (struct cl_mem){.p = calloc(2, CL_BIG)};
	m.in = m.p + CL_BIG;
	OK(fi_mr_reg(c->domain, m.p, 2 * CL_BIG, CL_REMOTE, 0, 1, 0, &m.mr, NULL));
	if (events) {
		target = cl_cntr(c, FI_WAIT_NONE);
		OK(fi_mr_bind(m.mr, &target->fid, FI_REMOTE_WRITE));
	}
	if (c->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_ep_bind(ep, &target->fid, FI_REMOTE_WRITE));
		OK(fi_mr_bind(m.mr, &ep->fid, FI_REMOTE_WRITE));
		OK(fi_mr_enable(m.mr));
	}
	put = cl_cntr(c, FI_WAIT_UNSPEC);
	get = cl_cntr(c, FI_WAIT_UNSPEC);
	OK(fi_ep_bind(ep, &put->fid, FI_WRITE));
	OK(fi_ep_bind(ep, &get->fid, FI_READ));
	peer = cl_meet(c, ep, av);
	m.peer = (struct fi_rma_iov){.addr = ct_base(c, m.p) + CL_BIG, .key = fi_mr_key(m.mr)};
	ct_swap(c, &m.peer, &m.peer, sizeof(m.peer));
	ct_fill(m.p, CL_BIG, 7 + (uint64_t)c->rank);
	while (ct_again(c, fi_write(ep, m.p, CL_LEN, NULL, peer, m.peer.addr, m.peer.key, NULL)))
		;
	while (ct_again(c, fi_inject_write(ep, m.p + CL_LEN, 8, peer, m.peer.addr + CL_LEN, m.peer.key)))
		;
	cl_wait_cntr(c, put, 2);
	cl_wait_put(c, &m, CL_LEN + 8);
	if (events)
		cl_wait_cntr(c, target, 2);
	ct_barrier(c);
	while (ct_again(c, fi_read(ep, m.p + CL_BIG / 2, CL_LEN, NULL, peer, m.peer.addr, m.peer.key, NULL)))
		;
	cl_wait_cntr(c, get, 1);
	ct_verify(c, m.p + CL_BIG / 2, CL_LEN, 7 + (uint64_t)c->rank, "got back");
	cl_mem_close(c, &m);
	cl_finish(c, &ep->fid, &put->fid, &get->fid, &cq->fid, &av->fid, target ? &target->fid : NULL, NULL);
}

/*
 * GASNet-EX: three endpoints of one domain, each with an address vector, two kinds of info; sends complete in one
 * queue.
 */
static struct fid_ep *gasnet_ep(struct ct *c, uint64_t caps, uint64_t mode, uint64_t op_flags)
{
	struct fi_info *h = fi_allocinfo(), *info;
	struct fid_ep *ep;

	client_find("gasnet")->hints(h, NULL, 1);
	h->ep_attr->type = FI_EP_RDM;
	h->fabric_attr->prov_name = strdup(c->prov);
	h->domain_attr->name = strdup(c->info->domain_attr->name);
	h->domain_attr->mr_mode = c->info->domain_attr->mr_mode;
	h->caps = caps;
	h->mode = mode;
	if (mode && client_is_refused(c, client_find("gasnet")))
		client_find("gasnet")->amend(h);
	h->tx_attr->op_flags = op_flags;
	/* which efa lacks: GASNET_OFI_AM_USE_DELIVERY_COMPLETE=1 */
	if (op_flags == FI_INJECT_COMPLETE && !strcmp(c->prov, "efa")) {
		RET(-FI_ENODATA, client_direct(c)->getinfo(FI_VERSION(1, 9), NULL, NULL, 0, h, &info));
		h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	}
	OK(client_direct(c)->getinfo(FI_VERSION(1, 9), NULL, NULL, 0, h, &info));
	CHECK(mode || !(info->mode & (FI_CONTEXT | FI_CONTEXT2)), "mode %#llx", (unsigned long long)info->mode);
	OK(fi_endpoint(c->domain, info, &ep, NULL));
	fi_freeinfo(h);
	fi_freeinfo(info);
	return ep;
}

static void gasnet(struct ct *c)
{
	struct fid_cq *txcq, *cq[2];
	struct fid_ep *ep[3]; /* request, reply, RMA */
	struct fid_av *av[3];
	fi_addr_t peer[3];
	size_t min = 8192;
	struct cl_mem m, w;

	cl_domain(c);
	ep[2] = gasnet_ep(c, FI_RMA, 0, FI_DELIVERY_COMPLETE);
	for (int i = 0; i < 2; i++)
		ep[i] = gasnet_ep(c, FI_MSG | FI_MULTI_RECV, FI_CONTEXT, FI_INJECT_COMPLETE);
	txcq = cl_cq(c, FI_CQ_FORMAT_CONTEXT, 0, FI_WAIT_NONE);
	OK(fi_ep_bind(ep[2], &txcq->fid, FI_TRANSMIT | FI_RECV));
	for (int i = 0; i < 2; i++) {
		cq[i] = cl_cq(c, FI_CQ_FORMAT_DATA, 0, FI_WAIT_NONE);
		OK(fi_ep_bind(ep[i], &txcq->fid, FI_TRANSMIT));
		OK(fi_ep_bind(ep[i], &cq[i]->fid, FI_RECV));
		OK(fi_setopt(&ep[i]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	}
	for (int i = 0; i < 3; i++) {
		av[i] = cl_av(c, FI_AV_TABLE, 2, 0);
		OK(fi_ep_bind(ep[i], &av[i]->fid, 0));
	}
	OK(fi_enable(ep[2]));
	OK(fi_enable(ep[0]));
	OK(fi_enable(ep[1]));
	for (int i = 0; i < 3; i++)
		peer[i] = cl_meet(c, ep[i], av[i]);
	cl_mem_open(c, &m, ep[2], CL_REMOTE);
	m.desc = NULL;
	cl_put_get(c, ep[2], peer[2], &m, txcq, false);
	w = (struct cl_mem){.p = m.p, .in = calloc(1, CL_BIG)};
	cl_post_multi(c, ep[0], &w, 0);
	cl_am(c, ep[0], peer[0], cq[0], &w, CL_LEN);
	OK(fi_cancel(&ep[0]->fid, &c->ctx[2]));
	ct_barrier(c);
	OK(fi_close(&ep[1]->fid));
	OK(fi_close(&ep[0]->fid));
	cl_mem_close(c, &m);
	cl_finish(c, &ep[2]->fid, &txcq->fid, &cq[1]->fid, &cq[0]->fid, &av[0]->fid, &av[1]->fid, &av[2]->fid, NULL);
	free(w.in);
}

/*
 * Chapel: transmit contexts of a scalable endpoint that itself is never enabled, or endpoints; another endpoint is the
 * target of it all.
 */
#define CHAPEL_TX 3
struct chapel {
	struct fid_ep *sep, *tx[CHAPEL_TX], *rx;
	struct fid_av *av[CHAPEL_TX], *rxav;
	struct fid_cq *txcq[CHAPEL_TX], *rxcq;
	fi_addr_t peer[CHAPEL_TX];
};

static void chapel_open(struct ct *c, struct chapel *s)
{
	bool shared = strcmp(c->prov, "efa") != 0;

	if (shared)
		s->rxav = cl_av(c, FI_AV_TABLE, 4, 0);
	if (c->info->domain_attr->max_ep_tx_ctx > 1) {
		c->info->ep_attr->tx_ctx_cnt = CHAPEL_TX;
		OK(fi_scalable_ep(c->domain, c->info, &s->sep, NULL));
		OK(fi_scalable_ep_bind(s->sep, &s->rxav->fid, 0));
	}
	for (int i = 0; i < CHAPEL_TX; i++) {
		s->av[i] = shared ? s->rxav : cl_av(c, FI_AV_TABLE, 4, 0);
		if (s->sep) {
			OK(fi_tx_context(s->sep, i, NULL, &s->tx[i], NULL));
		} else {
			OK(fi_endpoint(c->domain, c->info, &s->tx[i], NULL));
			OK(fi_ep_bind(s->tx[i], &s->av[i]->fid, 0));
		}
		s->txcq[i] = cl_cq(c, FI_CQ_FORMAT_MSG, 164, FI_WAIT_NONE);
		OK(fi_ep_bind(s->tx[i], &s->txcq[i]->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(s->tx[i]));
	}
	s->rxav = shared ? s->rxav : cl_av(c, FI_AV_TABLE, 4, 0);
	OK(fi_endpoint(c->domain, c->info, &s->rx, NULL));
	OK(fi_ep_bind(s->rx, &s->rxav->fid, 0));
	s->rxcq = cl_cq(c, FI_CQ_FORMAT_DATA, 4, FI_WAIT_NONE);
	OK(fi_ep_bind(s->rx, &s->rxcq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(s->rx));
	for (int i = 0; i < CHAPEL_TX; i++)
		s->peer[i] = i && shared ? s->peer[0] : cl_meet(c, s->rx, s->av[i]);
}

/* Where no mode of registration asks for more, the whole address space is one region and an address its own offset. */
static void chapel_mem(struct ct *c, struct cl_mem *m, struct fid_ep *ep)
{
	const uint64_t some = KIT_MR_BASIC | FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	bool all = !(c->info->domain_attr->mr_mode & some);
	uint64_t access = FI_RECV | CL_REMOTE | (c->info->domain_attr->mr_mode & FI_MR_LOCAL ? CL_LOCAL : 0);

	*m = (struct cl_mem){.p = calloc(2, CL_BIG)};
	m->in = m->p + CL_BIG;
	OK(fi_mr_reg(c->domain, all ? NULL : m->p, all ? SIZE_MAX : 2 * CL_BIG, access, 0, 0, 0, &m->mr, NULL));
	if (c->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(m->mr, &ep->fid, 0));
		OK(fi_mr_enable(m->mr));
	}
	m->desc = fi_mr_desc(m->mr);
	m->peer = (struct fi_rma_iov){.addr = (all ? (uintptr_t)m->p : ct_base(c, m->p)) + CL_BIG,
				      .key = fi_mr_key(m->mr)};
	ct_swap(c, &m->peer, &m->peer, sizeof(m->peer));
	ct_fill(m->p, CL_BIG, 7 + (uint64_t)c->rank);
}

/*
 * The adapter's thread has read there for the peer, which has said past the race checker that it is done: to that, the
 * lock that polls take at times makes the order.
 */
static void chapel_settle(struct ct *c)
{
	for (int i = 0; i < 64; i++)
		ct_progress(c);
}

static void chapel(struct ct *c)
{
	struct chapel s = {0};
	struct cl_mem m, w;
	size_t min = 4096;

	cl_domain(c);
	chapel_open(c, &s);
	chapel_mem(c, &m, s.rx);
	OK(fi_setopt(&s.rx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	w = (struct cl_mem){.p = m.p, .in = calloc(1, CL_BIG), .desc = m.desc};
	cl_post_multi(c, s.rx, &w, 0);
	for (int i = 0; i < CHAPEL_TX; i++) {
		ct_barrier(c); /* nobody reads there any more */
		chapel_settle(c);
		memset(m.in, 0, CL_BIG);
		ct_barrier(c);
		c->txcq = s.txcq[i];
		cl_put_get(c, s.tx[i], s.peer[i], &m, s.txcq[i], false);
	}
	cl_am(c, s.tx[CHAPEL_TX - 1], s.peer[CHAPEL_TX - 1], s.rxcq, &w, 256);
	cl_mem_close(c, &m);
	ct_barrier(c);
	OK(fi_close(&s.rx->fid));
	OK(fi_close(&s.rxcq->fid));
	for (int i = 0; i < CHAPEL_TX; i++) {
		OK(fi_close(&s.tx[i]->fid));
		OK(fi_close(&s.txcq[i]->fid));
	}
	if (s.sep)
		OK(fi_close(&s.sep->fid));
	for (int i = 0; i < CHAPEL_TX && s.av[i] != s.rxav; i++)
		OK(fi_close(&s.av[i]->fid));
	OK(fi_close(&s.rxav->fid));
	c->txcq = c->rxcq = NULL;
	cl_finish(c, NULL);
	free(w.in);
}

/* --- the tests ---------------------------------------------------------------------------------------------------- */

static const struct {
	const char *client;
	void (*use)(struct ct *c);
} uses[] = {
	{"ompi4_mtl", ompi_mtl},
	{"ompi5_mtl", ompi_mtl},
	{"ompi4_btl", ompi_btl},
	{"ompi5_btl", ompi_btl},
	{"ompi5_btl_sep", ompi_btl},
	{"mpich", mpich},
	{"sos", sos},
	{"gasnet", gasnet},
	{"chapel", chapel},
	{"nccl_sendrecv", cl_nccl_sendrecv},
	{"nccl_rdma", cl_nccl_rdma},
	{"nccl_rdma_gdaki", cl_nccl_rdma},
	{"nvshmem", cl_nvshmem},
	{"nixl", cl_nixl},
	{"mercury", cl_mercury},
	{"mercury_new", cl_mercury},
	{"adios", cl_adios},
	{"adios_cxi", cl_adios},
	{"charm", cl_charm},
	{"charm_cxi", cl_charm},
	{"lci", cl_lci},
};

/*
 * At the version of the API that the client asks for, and at the newest: a client is built anew from time to time. Not
 * from before 1.5, when modes of registration were words: 0 was a request for FI_MR_BASIC then and is none for anything
 * since.
 */
static void clients_run(struct ct *c)
{
	const struct client *k = client_find(strchr(c->t->name, '_') + 1);
	size_t i = 0;

	while (strcmp(uses[i].client, k->name))
		i++;
	if (k->version[0]) {
		cl_start(c, k, 0);
		uses[i].use(c);
	}
	if (k->version[0] && k->version[0] < FI_VERSION(1, 5))
		return;
	cl_start(c, k, NEWEST);
	uses[i].use(c);
}

#define CL_FLAGS (CT_NO_ONE | CT_RAW | CT_ANY_PATH | CT_COLD)
#define WRITEDATA "FI_CXI_ENABLE_WRITEDATA=1"

const struct ct_test clients_tests[] = {
	{"clients_ompi4_mtl", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_ompi5_mtl", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_ompi4_btl", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_ompi5_btl", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_ompi5_btl_sep", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_mpich", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_sos", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_gasnet", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_chapel", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_nccl_sendrecv", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_nccl_rdma", clients_run, 0, 0, CL_FLAGS, NULL, WRITEDATA},
	{"clients_nccl_rdma_gdaki", clients_run, 0, 0, CL_FLAGS, NULL, WRITEDATA},
	{"clients_nvshmem", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_nixl", clients_run, 0, 0, CL_FLAGS, NULL, WRITEDATA},
	{"clients_mercury", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_mercury_new", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_adios", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_adios_cxi", clients_run, 0, 0, CL_FLAGS, NULL, NULL, "cxi"},
	{"clients_charm", clients_run, 0, 0, CL_FLAGS, NULL},
	{"clients_charm_cxi", clients_run, 0, 0, CL_FLAGS, NULL, NULL, "cxi"},
	{"clients_lci", clients_run, 0, 0, CL_FLAGS, NULL},
	{0},
};
