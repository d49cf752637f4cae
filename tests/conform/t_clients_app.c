// SPDX-License-Identifier: BSD-2-Clause
// What programs for GPUs (here with host memory), storage, services and runtimes of their own do with a provider.
// t_clients.c has the tests.
#include "clients.h"

#include <poll.h>
#include <stdlib.h>

/* --- GPUs, here with host memory ---------------------------------------------------------------------------------- */

/* aws-ofi-nccl: one endpoint, one queue, local registrations of all that is sent. */
static void nccl_open(struct ct *c, struct fid_ep **ep, struct fid_av **av, struct fid_cq **cq,
		      enum fi_cq_format format)
{
	CHECK((c->info->domain_attr->mr_mode & FI_MR_PROV_KEY) || !(c->info->caps & FI_RMA) ||
		      c->info->domain_attr->mr_key_size >= 2,
	      "keys of %zu bytes", c->info->domain_attr->mr_key_size);
	cl_domain(c);
	*cq = cl_cq(c, format, 12288, FI_WAIT_NONE);
	*av = cl_av(c, FI_AV_UNSPEC, 0, 0);
	OK(fi_endpoint(c->domain, c->info, ep, NULL));
	OK(fi_ep_bind(*ep, &(*cq)->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(*ep, &(*av)->fid, 0));
	OK(fi_enable(*ep));
}

void cl_nccl_sendrecv(struct ct *c)
{
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;

	nccl_open(c, &ep, &av, &cq, FI_CQ_FORMAT_TAGGED);
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, FI_SEND | FI_RECV | (c->info->caps & FI_RMA ? FI_READ : 0));
	cl_tagged(c, ep, ep, peer, FI_ADDR_UNSPEC, &m, false);
	cl_mem_close(c, &m);
	cl_finish(c, &ep->fid, &av->fid, &cq->fid, NULL);
}

void cl_nccl_rdma(struct ct *c)
{
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;

	nccl_open(c, &ep, &av, &cq, FI_CQ_FORMAT_DATA);
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, CL_LOCAL | CL_REMOTE);
	while (ct_again(c, fi_recv(ep, m.in + CL_BIG / 2, CL_LEN, m.desc, FI_ADDR_UNSPEC, &c->ctx[2])))
		;
	while (ct_again(c, fi_send(ep, m.p, 64, m.desc, peer, &c->ctx[3])))
		;
	ct_comp(c, cq);
	ct_comp(c, cq);
	cl_write_data(c, ep, peer, &m, cq, false);
	/* the flush: a read of its own memory */
	while (ct_again(
		c, fi_read(ep, m.p + CL_BIG / 2, 4, m.desc, c->self, ct_base(c, m.p), fi_mr_key(m.mr), &c->ctx[5])))
		;
	CHECK(ct_comp(c, cq).e.op_context == &c->ctx[5], "another completion");
	cl_mem_close(c, &m);
	cl_finish(c, &ep->fid, &av->fid, &cq->fid, NULL);
}

/*
 * NVSHMEM: two endpoints, whose vectors hold all endpoints of all ranks at indices that it computes; completions are
 * counted.
 */
static void nvshmem_open(struct ct *c, struct fid_ep *ep[2], struct fid_av *av[2], struct fid_cq *cq[2],
			 struct fid_cntr *cntr[2])
{
	bool efa = !strcmp(c->prov, "efa");
	uint8_t names[2][2][128] = {{{0}}};

	for (int i = 0; i < 2; i++)
		av[i] = cl_av(c, FI_AV_TABLE, 4, 0);
	c->info->ep_attr->tx_ctx_cnt = 0;
	c->info->caps = FI_RMA | (efa ? FI_MSG | FI_SOURCE : FI_ATOMIC);
	c->info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	c->info->tx_attr->mode = c->info->rx_attr->mode = 0;
	c->info->mode = efa ? FI_CONTEXT2 : 0;
	for (int i = 0; i < 2; i++) {
		size_t len = sizeof(names[0][0]);

		OK(fi_endpoint(c->domain, c->info, &ep[i], NULL));
		cq[i] = cl_cq(c, efa ? FI_CQ_FORMAT_DATA : FI_CQ_FORMAT_UNSPEC, efa ? 32768 : 16, FI_WAIT_NONE);
		cntr[i] = cl_cntr(c, FI_WAIT_UNSPEC);
		OK(fi_ep_bind(ep[i], &av[i]->fid, 0));
		OK(fi_ep_bind(ep[i], &cq[i]->fid, efa ? FI_TRANSMIT | FI_RECV : FI_SELECTIVE_COMPLETION | FI_TRANSMIT));
		OK(fi_ep_bind(ep[i], &cntr[i]->fid, FI_READ | FI_WRITE));
		OK(fi_enable(ep[i]));
		OK(fi_getname(&ep[i]->fid, names[c->rank][i], &len));
	}
	ct_swap(c, names[c->rank], names[!c->rank], sizeof(names[0]));
	/* one at a time, since the names are shorter than the array's elements; no addresses are asked back */
	for (int k = 0; k < 8; k++)
		RET(1, fi_av_insert(av[k / 4], names[k / 2 % 2][k % 2], 1, NULL, 0, NULL));
	ct_barrier_idle(c);
}

void cl_nvshmem(struct ct *c)
{
	struct fid_cntr *cntr[2];
	struct fid_ep *ep[2];
	struct fid_av *av[2];
	struct fid_cq *cq[2];
	struct cl_mem m[2];

	cl_domain(c);
	nvshmem_open(c, ep, av, cq, cntr);
	for (int i = 0; i < 2; i++) {
		cl_mem_open(c, &m[i], ep[i], CL_REMOTE | FI_READ | FI_WRITE);
		while (ct_again(c, fi_write(ep[i], m[i].p, CL_LEN, m[i].desc, (fi_addr_t)(2 * !c->rank + i),
					    m[i].peer.addr, m[i].peer.key, &c->ctx[i])))
			;
		cl_wait_cntr(c, cntr[i], 1);
		cl_wait_put(c, &m[i], CL_LEN);
		ct_barrier(c);
		while (ct_again(c, fi_read(ep[i], m[i].p + CL_BIG / 2, CL_LEN, m[i].desc, (fi_addr_t)(2 * !c->rank + i),
					   m[i].peer.addr, m[i].peer.key, &c->ctx[2 + i])))
			;
		cl_wait_cntr(c, cntr[i], 2);
		ct_verify(c, m[i].p + CL_BIG / 2, CL_LEN, 7 + (uint64_t)c->rank, "got back");
	}
	for (int i = 0; i < 2; i++)
		cl_mem_close(c, &m[i]);
	cl_finish(c, &ep[0]->fid, &ep[1]->fid, &cq[0]->fid, &cq[1]->fid, &cntr[0]->fid, &cntr[1]->fid, &av[0]->fid,
		  &av[1]->fid, NULL);
}

void cl_nixl(struct ct *c)
{
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;
	struct fi_cq_tagged_entry e;

	nccl_open(c, &ep, &av, &cq, FI_CQ_FORMAT_DATA); /* the same order */
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, CL_REMOTE); /* nothing local is named */
	while (ct_again(c, fi_recv(ep, m.in + CL_BIG / 2, CL_LEN, m.desc, FI_ADDR_UNSPEC, &c->ctx[2])))
		;
	while (ct_again(c, fi_senddata(ep, m.p, 64, m.desc, 0x77, peer, &c->ctx[3])))
		;
	for (int i = 0; i < 2; i++) {
		e = ct_comp(c, cq).e;
		CHECK(e.op_context != &c->ctx[2] || e.data == 0x77, "immediate data %#llx", (unsigned long long)e.data);
	}
	cl_write_data(c, ep, peer, &m, cq, true);
	cl_mem_close(c, &m);
	cl_finish(c, &ep->fid, &cq->fid, &av->fid, NULL);
}

/* --- storage, services, runtimes ---------------------------------------------------------------------------------- */

void cl_mercury(struct ct *c)
{
	bool cxi = !strcmp(c->prov, "cxi");
	struct fi_wait_attr wattr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 131072,
				  .wait_obj = cxi ? FI_WAIT_FD : FI_WAIT_SET, .wait_cond = FI_CQ_COND_NONE};
	struct fid_wait *wait = NULL;
	size_t min = 4096, len = sizeof(min);
	struct pollfd pfd = {.events = POLLIN};
	struct fid_ep *ep;
	struct fid_av *av;
	fi_addr_t peer;
	struct cl_mem m;

	cl_domain(c);
	av = cl_av(c, FI_AV_UNSPEC, 0, 0);
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	if (!cxi)
		OK(fi_wait_open(c->fabric, &wattr, &wait));
	attr.wait_set = wait;
	OK(fi_cq_open(c->domain, &attr, &c->txcq, NULL));
	c->rxcq = c->txcq;
	OK(fi_ep_bind(ep, &c->txcq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(ep, &av->fid, 0));
	if (cxi) {
		OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &len, &len));
		OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	}
	OK(fi_enable(ep));
	if (cxi)
		OK(fi_control(&c->txcq->fid, FI_GETWAIT, &pfd.fd));
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, CL_LOCAL | CL_REMOTE);
	if (cxi) { /* an unexpected request */
		cl_post_multi(c, ep, &m, 0);
		cl_am(c, ep, peer, c->rxcq, &m, CL_LEN);
		memset(m.in, 0, CL_LEN);
	}
	cl_tagged(c, ep, ep, peer, peer, &m, false);
	memset(m.in, 0, CL_LEN);
	ct_barrier(c);
	cl_put_get(c, ep, peer, &m, c->txcq, false);
	cl_mem_close(c, &m);
	cl_finish(c, &ep->fid, &c->rxcq->fid, wait ? &wait->fid : &av->fid, wait ? &av->fid : NULL, NULL);
}

/* ADIOS2: the modes of registration are rewritten before the domain opens; readers sleep in fi_cq_sread(). */
void cl_adios(struct ct *c)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC,
				  .wait_cond = FI_CQ_COND_NONE};
	struct fi_cq_data_entry e;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;
	ssize_t ret;

	if (c->info->domain_attr->mr_mode != KIT_MR_BASIC)
		c->info->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL |
						(c->info->domain_attr->mr_mode & (FI_MR_ENDPOINT | FI_MR_VIRT_ADDR));
	cl_domain(c);
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	av = cl_av(c, FI_AV_MAP, 512, 0);
	OK(fi_ep_bind(ep, &av->fid, 0));
	if (!strcmp(c->prov, "efa")) { /* no wait objects: here it would end */
		RET(-FI_ENOSYS, fi_cq_open(c->domain, &attr, &cq, NULL));
		attr.wait_obj = FI_WAIT_NONE;
	}
	OK(fi_cq_open(c->domain, &attr, &cq, NULL));
	c->txcq = c->rxcq = cq;
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, CL_LOCAL | CL_REMOTE);
	ct_fill(m.in, CL_LEN, 7 + (uint64_t)c->rank);
	ct_barrier(c);
	while (ct_again(c, fi_read(ep, m.p, CL_LEN, m.desc, peer, m.peer.addr, m.peer.key, &c->ctx[0])))
		;
	do
		ret = attr.wait_obj == FI_WAIT_NONE ? fi_cq_read(cq, &e, 1) : fi_cq_sread(cq, &e, 1, NULL, 100);
	while (ret == -FI_EAGAIN);
	CHECK(ret == 1 && e.op_context == &c->ctx[0], "%s", ct_err(ret));
	cl_verify(c, m.p, CL_LEN, "read");
	cl_mem_close(c, &m);
	cl_finish(c, &ep->fid, &cq->fid, &av->fid, NULL);
}

/* Charm++: a long message is read by its receiver, which asked for no more than to be read from. */
void cl_charm(struct ct *c)
{
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;

	cl_domain(c);
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	cq = cl_cq(c, FI_CQ_FORMAT_TAGGED, 0, FI_WAIT_NONE);
	av = cl_av(c, FI_AV_TABLE, 0, 0);
	OK(fi_ep_bind(ep, &cq->fid, FI_RECV | FI_TRANSMIT));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_enable(ep));
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, CL_LOCAL | CL_REMOTE);
	cl_tagged(c, ep, ep, peer, FI_ADDR_UNSPEC, &m, false);
	ct_barrier(c);
	while (ct_again(c, fi_read(ep, m.p + CL_BIG / 2, CL_LEN, m.desc, peer, m.peer.addr, m.peer.key, &c->ctx[5])))
		;
	CHECK(ct_comp(c, cq).e.op_context == &c->ctx[5], "another completion");
	ct_verify(c, m.p + CL_BIG / 2, CL_LEN, 7 + (uint64_t)c->rank, "what was sent, read back");
	cl_mem_close(c, &m);
	RET(-FI_EBUSY, fi_close(&av->fid)); /* it closes these first, and looks at no result */
	RET(-FI_EBUSY, fi_close(&cq->fid));
	cl_finish(c, &ep->fid, &av->fid, &cq->fid, NULL);
}

/* LCI: what it registers has FI_RMA among the bits of access, which are none to real adapters. */
void cl_lci(struct ct *c)
{
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t peer;
	struct cl_mem m;

	cl_domain(c);
	OK(fi_endpoint(c->domain, c->info, &ep, NULL));
	cq = cl_cq(c, FI_CQ_FORMAT_DATA, 0, FI_WAIT_NONE);
	av = cl_av(c, FI_AV_MAP, 0, 0);
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_enable(ep));
	peer = cl_meet(c, ep, av);
	cl_mem_open(c, &m, ep, FI_RMA | CL_LOCAL | CL_REMOTE);
	OK(fi_recv(ep, m.in, CL_LEN, m.desc, FI_ADDR_UNSPEC, &c->ctx[0]));
	while (ct_again(c, fi_send(ep, m.p, CL_LEN, m.desc, peer, &c->ctx[1])))
		;
	for (int i = 0; i < 2; i++)
		CHECK(ct_comp(c, cq).e.op_context, "a completion of nothing");
	cl_verify(c, m.in, CL_LEN, "a message");
	memset(m.in, 0, CL_LEN);
	ct_barrier(c);
	cl_put_get(c, ep, peer, &m, cq, false);
	cl_mem_close(c, &m);
	cl_finish(c, &ep->fid, &cq->fid, &av->fid, NULL);
}
