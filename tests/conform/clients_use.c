// SPDX-License-Identifier: BSD-2-Clause
// What the exchanges of t_clients.c are made of: objects as a client opens them, one message or operation each way,
// closing.
#include "clients.h"

#include <stdarg.h>
#include <stdlib.h>

#include <rdma/providers/fi_prov.h>

/* --- what they all do ---------------------------------------------------------------------------- */

/* A client that is refused goes on with what the refusal asks for: nothing else may be in its way. */
void cl_start(struct ct *c, const struct client *k, uint32_t version)
{
	bool refused = client_is_refused(c, k);

	if (!(k->provs & client_bit(c)))
		ct_skip(c, "this client has no %s", c->prov);
	if (refused)
		CHECK(!client_info(c, k, version, false), "served, which the table denies");
	c->info = client_info(c, k, version, refused);
	CHECK(c->info, "no info for the hints of %s", k->source);
	memset(c->ctx, 0, sizeof(c->ctx));
}

void cl_domain(struct ct *c)
{
	OK(client_direct(c)->fabric(c->info->fabric_attr, &c->fabric, NULL));
	OK(fi_domain(c->fabric, c->info, &c->domain, NULL));
}

struct fid_cq *cl_cq(struct ct *c, enum fi_cq_format format, size_t size, enum fi_wait_obj wait)
{
	struct fi_cq_attr attr = {.format = format, .size = size, .wait_obj = wait};
	struct fid_cq *cq;

	OK(fi_cq_open(c->domain, &attr, &cq, NULL));
	c->txcq = c->txcq ? c->txcq : cq;
	c->rxcq = cq;
	return cq;
}

struct fid_av *cl_av(struct ct *c, enum fi_av_type type, size_t count, int rx_bits)
{
	struct fi_av_attr attr = {.type = type, .count = count, .rx_ctx_bits = rx_bits};
	struct fid_av *av;

	OK(fi_av_open(c->domain, &attr, &av, NULL));
	return av;
}

struct fid_cntr *cl_cntr(struct ct *c, enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = wait};
	struct fid_cntr *cntr;

	OK(fi_cntr_open(c->domain, &attr, &cntr, NULL));
	return cntr;
}

/* All ranks' names go in in the same order, ours too. Return: the peer's. */
fi_addr_t cl_meet(struct ct *c, struct fid_ep *ep, struct fid_av *av)
{
	uint8_t name[2][128] = {{0}};
	fi_addr_t addr[2] = {FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL};
	size_t len = sizeof(name[0]);

	OK(fi_getname(&ep->fid, name[c->rank], &len));
	ct_swap(c, name[c->rank], name[!c->rank], sizeof(name[0]));
	for (int i = 0; i < 2; i++)
		RET(1, fi_av_insert(av, name[i], 1, &addr[i], 0, NULL));
	c->ep = ep;
	c->self = addr[c->rank];
	return addr[!c->rank];
}

/* Closes in the client's order, which must work, then domain and fabric. */
void cl_finish(struct ct *c, ...)
{
	struct fid *f;
	va_list ap;

	ct_barrier(c);
	c->txcq = c->rxcq = NULL;
	va_start(ap, c);
	while ((f = va_arg(ap, struct fid *)) != NULL)
		OK(fi_close(f));
	va_end(ap);
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(c->info);
	c->info = NULL;
	ct_barrier_idle(c);
}

/* A region as fi_mr_regattr() makes it, bound and enabled where the provider asks for that. */
static struct fid_mr *reg(struct ct *c, struct fid_ep *ep, void *mem, size_t len, uint64_t access, uint64_t key)
{
	struct iovec iov = {mem, len};
	struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = access, .requested_key = key,
				  .iface = FI_HMEM_SYSTEM};
	struct fid_mr *mr;

	OK(fi_mr_regattr(c->domain, &attr, 0, &mr));
	if (c->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(mr, &ep->fid, 0));
		OK(fi_mr_enable(mr));
	}
	return mr;
}

void cl_mem_open(struct ct *c, struct cl_mem *m, struct fid_ep *ep, uint64_t access)
{
	struct fi_rma_iov mine = {.len = CL_BIG};

	*m = (struct cl_mem){.p = calloc(2, CL_BIG)};
	m->in = m->p + CL_BIG;
	m->mr = reg(c, ep, m->p, 2 * CL_BIG, access, 1);
	m->desc = fi_mr_desc(m->mr);
	mine.addr = ct_base(c, m->p) + CL_BIG;
	mine.key = fi_mr_key(m->mr);
	ct_swap(c, &mine, &m->peer, sizeof(mine));
	ct_fill(m->p, CL_BIG, 7 + (uint64_t)c->rank);
}

void cl_mem_close(struct ct *c, struct cl_mem *m)
{
	ct_barrier(c);
	OK(fi_close(&m->mr->fid));
	free(m->p);
}

void cl_verify(struct ct *c, const void *mem, size_t len, const char *what)
{
	ct_verify(c, mem, len, 7 + (uint64_t)!c->rank, what);
}

/* Both ways at once. @data: immediate data, as MPI libraries bring the sender's rank. */
void cl_tagged(struct ct *c, struct fid_ep *tx, struct fid_ep *rx, fi_addr_t to, fi_addr_t from, struct cl_mem *m,
	       bool data)
{
	uint64_t tag = 0x1234;

	while (ct_again(c, fi_trecv(rx, m->in, CL_LEN, m->desc, from, tag, 0, &c->ctx[0])))
		;
	if (data)
		while (ct_again(c, fi_tsenddata(tx, m->p, CL_LEN, m->desc, (uint64_t)c->rank, to, tag, &c->ctx[1])))
			;
	else
		while (ct_again(c, fi_tsend(tx, m->p, CL_LEN, m->desc, to, tag, &c->ctx[1])))
			;
	for (int i = 0; i < 2; i++) {
		struct fi_cq_tagged_entry e = ct_comp(c, i || c->txcq == c->rxcq ? c->rxcq : c->txcq).e;

		if (e.op_context == &c->ctx[0])
			CHECK(e.len == CL_LEN && (!data || e.data == (uint64_t)!c->rank), "%zu bytes, data %llu", e.len,
			      (unsigned long long)e.data);
	}
	cl_verify(c, m->in, CL_LEN, "tagged message");
}

/* An active message into a buffer that takes many. Its completion is the only one of @cq that is a receive's. */
void cl_post_multi(struct ct *c, struct fid_ep *ep, struct cl_mem *m, uint64_t flags)
{
	struct iovec iov = {m->in, CL_BIG};
	struct fi_msg msg = {.msg_iov = &iov, .desc = &m->desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
			     .context = &c->ctx[2]};

	while (ct_again(c, fi_recvmsg(ep, &msg, FI_MULTI_RECV | flags)))
		;
}

void cl_am(struct ct *c, struct fid_ep *tx, fi_addr_t to, struct fid_cq *rxcq, struct cl_mem *m, size_t len)
{
	unsigned todo = rxcq == c->txcq ? 2 : 1;

	while (ct_again(c, fi_send(tx, m->p, len, m->desc, to, &c->ctx[3])))
		;
	for (unsigned i = 0; i < todo; i++) {
		struct fi_cq_tagged_entry e = ct_comp(c, rxcq).e;

		CHECK(e.op_context != &c->ctx[2] || e.len == len, "active message of %zu bytes", e.len);
	}
	if (todo == 1)
		ct_comp(c, c->txcq);
	cl_verify(c, m->in, len, "active message");
}

void cl_wait_cntr(struct ct *c, struct fid_cntr *cntr, uint64_t value)
{
	while (fi_cntr_read(cntr) < value)
		ct_progress(c);
	CHECK(!fi_cntr_readerr(cntr), "%llu errors", (unsigned long long)fi_cntr_readerr(cntr));
}

/* Until the peer's bytes are in our memory, as a program watches it; its library may need calls for that. */
void cl_wait_put(struct ct *c, const struct cl_mem *m, size_t len)
{
	while (!ct_matches(m->in, len, 7 + (uint64_t)!c->rank))
		ct_progress(c);
}

void cl_put_get(struct ct *c, struct fid_ep *ep, fi_addr_t peer, struct cl_mem *m, struct fid_cq *cq, bool atomics)
{
	uint64_t *sum = (uint64_t *)(void *)(m->p + CL_BIG / 2), *old = sum + 1;

	while (ct_again(c, fi_write(ep, m->p, CL_LEN, m->desc, peer, m->peer.addr, m->peer.key, &c->ctx[4])))
		;
	CHECK(ct_comp(c, cq).e.op_context == &c->ctx[4], "another completion");
	cl_wait_put(c, m, CL_LEN);
	ct_barrier(c);
	while (ct_again(c,
			fi_read(ep, m->p + CL_BIG / 4, CL_LEN, m->desc, peer, m->peer.addr, m->peer.key, &c->ctx[5])))
		;
	CHECK(ct_comp(c, cq).e.op_context == &c->ctx[5], "another completion");
	ct_verify(c, m->p + CL_BIG / 4, CL_LEN, 7 + (uint64_t)c->rank, "what was written, read back");
	if (!atomics)
		return;
	*sum = 5, *old = 99;
	while (ct_again(c, fi_fetch_atomic(ep, sum, 1, m->desc, old, m->desc, peer, m->peer.addr + CL_BIG / 2,
					   m->peer.key, FI_UINT64, FI_SUM, &c->ctx[6])))
		;
	CHECK(ct_comp(c, cq).e.op_context == &c->ctx[6] && !*old, "fetched %llu", (unsigned long long)*old);
}

/*
 * A write whose immediate data is a completion at the target, beside a receive that was posted for control messages.
 */
void cl_write_data(struct ct *c, struct fid_ep *ep, fi_addr_t peer, struct cl_mem *m, struct fid_cq *cq, bool by_msg)
{
	struct iovec iov = {m->p, CL_BIG / 2};
	struct fi_rma_iov at = {.addr = m->peer.addr, .len = CL_BIG / 2, .key = m->peer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &m->desc,
		.iov_count = 1,
		.addr = peer,
		.rma_iov = &at,
		.rma_iov_count = 1,
		.context = &c->ctx[7],
		.data = 0x5a0000 + (uint64_t)c->rank,
	};

	ct_barrier(c); /* what went before is complete */
	if (by_msg && !strcmp(c->prov, "cxi")) { /* fi_writedata() is all that it has: here NIXL's writes would end */
		RET(-FI_EBADFLAGS, fi_writemsg(ep, &msg, FI_REMOTE_CQ_DATA));
		by_msg = false;
	}
	if (by_msg)
		while (ct_again(c, fi_writemsg(ep, &msg, FI_REMOTE_CQ_DATA)))
			;
	else
		while (ct_again(c, fi_writedata(ep, m->p, CL_BIG / 2, m->desc, msg.data, peer, at.addr, at.key,
						&c->ctx[7])))
			;
	for (int i = 0; i < 2; i++) {
		struct fi_cq_tagged_entry e = ct_comp(c, cq).e;

		if (e.flags & FI_REMOTE_CQ_DATA)
			CHECK(e.data == 0x5a0000 + (uint64_t)!c->rank, "immediate data %#llx",
			      (unsigned long long)e.data);
		else
			CHECK(e.op_context == &c->ctx[7], "a completion with flags %#llx",
			      (unsigned long long)e.flags);
	}
	cl_verify(c, m->in, CL_BIG / 2, "written with immediate data");
}
