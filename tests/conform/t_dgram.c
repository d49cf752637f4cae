// SPDX-License-Identifier: BSD-2-Clause
// The unreliable datagram endpoint: message prefix, its limits, loss when nothing is posted.
#include "conform.h"

#include <stdlib.h>

#define SLOTS 64

/* Prefix and payload in one registered buffer. */
struct dg {
	struct ct_buf b;
	size_t prefix, max;
};

static void dg_open(struct ct *c, struct dg *d)
{
	ct_open(c);
	d->prefix = c->info->mode & FI_MSG_PREFIX ? c->info->ep_attr->msg_prefix_size : 0;
	d->max = c->info->ep_attr->max_msg_size;
	ct_buf(c, &d->b, SLOTS * (d->prefix + d->max), 0, 0);
}

static uint8_t *slot(const struct dg *d, unsigned i)
{
	return d->b.mem + i * (d->prefix + d->max);
}

static void dg_close(struct ct *c, struct dg *d)
{
	ct_barrier(c);
	ct_no_comp(c, c->txcq);
	ct_no_comp(c, c->rxcq);
	ct_barrier(c);
	OK(fi_close(&c->ep->fid));
	c->ep = NULL;
	ct_buf_free(c, &d->b);
	OK(fi_close(&c->txcq->fid));
	OK(fi_close(&c->rxcq->fid));
	OK(fi_close(&c->av->fid));
	ct_barrier_idle(c);
	if (c->own_domain) {
		OK(fi_close(&c->domain->fid));
		OK(fi_close(&c->fabric->fid));
	}
	fi_freeinfo(c->info);
}

static void dg_recv(struct ct *c, struct dg *d, unsigned i)
{
	while (ct_again(c, fi_recv(c->ep, slot(d, i), d->prefix + d->max, d->b.desc, FI_ADDR_UNSPEC, &c->ctx[i])))
		;
}

/* Lengths of calls and completions count the prefix; data comes out byte for byte. Local traffic does not get lost. */
static void dgram_send(struct ct *c)
{
	static const size_t sizes[] = {0, 1, 8, 31, 32, 33, 63, 64, 65, 256, 1000, 1472, 1500, 4096, 8000, 8887, 8888};
	struct dg d;

	dg_open(c, &d);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = sizes[i] + d.prefix > d.max ? d.max - d.prefix : sizes[i];
		struct ct_comp r;

		dg_recv(c, &d, 0);
		ct_barrier(c);
		ct_fill(slot(&d, 1) + d.prefix, len, i * 2 + (unsigned)c->rank);
		while (ct_again(c, fi_send(c->ep, slot(&d, 1), d.prefix + len, d.b.desc, c->peer, &c->ctx[1])))
			;
		r = ct_comp(c, c->txcq);
		CHECK(r.e.op_context == &c->ctx[1], "context");
		r = ct_comp(c, c->rxcq);
		CHECK(r.e.op_context == &c->ctx[0], "context");
		CHECK(r.e.len == d.prefix + len, "length %zu, not %zu", r.e.len, d.prefix + len);
		CHECK((r.e.flags & ~FI_COMPLETION) == (FI_RECV | FI_MSG), "flags %#llx", (unsigned long long)r.e.flags);
		CHECK(!(c->info->caps & FI_SOURCE) || r.src == c->peer, "source %llu", (unsigned long long)r.src);
		ct_verify(c, slot(&d, 0) + d.prefix, len, i * 2 + (unsigned)!c->rank, "datagram");
	}
	dg_close(c, &d);
}

static void dgram_forms(struct ct *c)
{
	struct iovec iov[2];
	struct dg d;

	dg_open(c, &d);
	for (unsigned form = 0; form < 3; form++) {
		void *desc[2] = {d.b.desc, d.b.desc};
		struct fi_msg m = {.msg_iov = iov, .desc = desc, .iov_count = 2, .addr = c->peer, .context = &c->ctx[1],
				   .data = 77};
		struct ct_comp r;

		iov[0] = (struct iovec){slot(&d, 0), d.prefix + 10};
		iov[1] = (struct iovec){slot(&d, 0) + d.prefix + 10, d.max - d.prefix - 10};
		m.addr = FI_ADDR_UNSPEC;
		m.context = &c->ctx[0];
		OK(form == 1 ? fi_recvv(c->ep, iov, desc, 2, FI_ADDR_UNSPEC, &c->ctx[0]) : fi_recvmsg(c->ep, &m, 0));
		ct_barrier(c);
		ct_fill(slot(&d, 1) + d.prefix, 100, form);
		iov[0] = (struct iovec){slot(&d, 1), d.prefix + 30};
		iov[1] = (struct iovec){slot(&d, 1) + d.prefix + 30, 70};
		m.addr = c->peer;
		m.context = &c->ctx[1];
		while (ct_again(c, form == 0   ? fi_sendv(c->ep, iov, desc, 2, c->peer, &c->ctx[1])
				   : form == 1 ? fi_sendmsg(c->ep, &m, FI_REMOTE_CQ_DATA | FI_TRANSMIT_COMPLETE)
					       : fi_senddata(c->ep, slot(&d, 1), d.prefix + 100, d.b.desc, 77, c->peer,
							     &c->ctx[1])))
			;
		ct_comp(c, c->txcq);
		r = ct_comp(c, c->rxcq);
		CHECK(r.e.len == d.prefix + 100, "length %zu", r.e.len);
		CHECK(!form || (r.e.flags & FI_REMOTE_CQ_DATA && r.e.data == 77), "data %llu",
		      (unsigned long long)r.e.data);
		ct_verify(c, slot(&d, 0) + d.prefix, 100, form, "datagram");
	}
	dg_close(c, &d);
}

/* What is refused: more than the MTU, a prefix that does not fit, too many pieces, tagged and one-sided calls. */
static void dgram_limits(struct ct *c)
{
	struct iovec iov[8];
	struct fid_cntr *cntr = NULL;
	struct fi_cntr_attr attr = {0};
	ssize_t ret;
	struct dg d;

	dg_open(c, &d);
	for (unsigned i = 0; i < 8; i++)
		iov[i] = (struct iovec){slot(&d, 0), d.prefix + 1};
	ret = fi_send(c->ep, slot(&d, 0), d.prefix + d.max + 1, d.b.desc, c->peer, NULL);
	CHECK(ret < 0 && ret != -FI_EAGAIN, "more than the MTU: %zd", ret);
	ret = fi_recv(c->ep, slot(&d, 0), d.prefix - 1, d.b.desc, FI_ADDR_UNSPEC, NULL);
	CHECK(!d.prefix || (ret < 0 && ret != -FI_EAGAIN), "a receive without room for the prefix: %zd", ret);
	ret = fi_sendv(c->ep, iov, NULL, c->info->tx_attr->iov_limit + 1, c->peer, NULL);
	CHECK(ret < 0 && ret != -FI_EAGAIN, "too many pieces: %zd", ret);
	ret = fi_recvv(c->ep, iov, NULL, c->info->rx_attr->iov_limit + 1, FI_ADDR_UNSPEC, NULL);
	CHECK(ret < 0 && ret != -FI_EAGAIN, "too many pieces: %zd", ret);
	ret = fi_tsend(c->ep, slot(&d, 0), 8, NULL, c->peer, 0, NULL);
	CHECK(ret < 0 && ret != -FI_EAGAIN, "tagged: %zd", ret);
	ret = fi_write(c->ep, slot(&d, 0), 8, NULL, c->peer, 0, 0, NULL);
	CHECK(ret < 0 && ret != -FI_EAGAIN, "write: %zd", ret);
	ret = fi_atomic(c->ep, slot(&d, 0), 1, NULL, c->peer, 0, 0, FI_UINT64, FI_SUM, NULL);
	CHECK(ret < 0 && ret != -FI_EAGAIN, "atomic: %zd", ret);
	if (!strcmp(c->prov, "efa")) /* the manual: no counters on this endpoint type */
		RET(-FI_ENOSYS, fi_cntr_open(c->domain, &attr, &cntr, NULL));
	dg_close(c, &d);
}

/* Datagrams without a receive are lost, all of them, and later ones arrive. */
static void dgram_lost(struct ct *c)
{
	struct dg d;

	dg_open(c, &d);
	if (c->rank == 0)
		for (unsigned i = 0; i < 20; i++) {
			while (ct_again(c, fi_send(c->ep, slot(&d, 1), d.prefix + 8, d.b.desc, c->peer, &c->ctx[1])))
				;
			ct_comp(c, c->txcq);
		}
	ct_barrier(c);
	/* the barrier does not go over this network: on a busy host they may still be on their way */
	for (uint64_t until = ct_now_ms() + 200; ct_now_ms() < until;)
		ct_progress(c);
	ct_barrier(c);
	if (c->rank == 1)
		dg_recv(c, &d, 0);
	ct_barrier(c);
	if (c->rank == 0) {
		ct_fill(slot(&d, 1) + d.prefix, 50, 3);
		while (ct_again(c, fi_send(c->ep, slot(&d, 1), d.prefix + 50, d.b.desc, c->peer, &c->ctx[1])))
			;
		ct_comp(c, c->txcq);
	} else {
		struct ct_comp r = ct_comp(c, c->rxcq);

		CHECK(r.e.len == d.prefix + 50, "an old datagram of %zu bytes", r.e.len);
		ct_verify(c, slot(&d, 0) + d.prefix, 50, 3, "datagram");
	}
	dg_close(c, &d);
}

/* Who is inserted where another one was removed is the one that is sent to: by turns the peer and oneself. */
static void dgram_reinsert(struct ct *c)
{
	uint8_t own[64];
	size_t len = sizeof(own);
	struct dg d;

	dg_open(c, &d);
	OK(fi_getname(&c->ep->fid, own, &len));
	for (unsigned i = 0; i < 6; i++) {
		uint8_t *in = slot(&d, 0) + d.prefix, *out = slot(&d, 1) + d.prefix;

		dg_recv(c, &d, 0);
		*in = 7;
		*out = (uint8_t)c->rank;
		ct_barrier(c);
		while (ct_again(c, fi_send(c->ep, slot(&d, 1), d.prefix + 1, d.b.desc, c->peer, &c->ctx[1])))
			;
		CHECK(ct_comp(c, c->txcq).e.op_context == &c->ctx[1], "context");
		CHECK(ct_comp(c, c->rxcq).e.op_context == &c->ctx[0], "context");
		CHECK(*in == (i % 2 ? c->rank : !c->rank), "round %u: the datagram of %u", i, *in);
		ct_barrier(c);
		OK(fi_av_remove(c->av, &c->peer, 1, 0));
		RET(1, fi_av_insert(c->av, i % 2 ? c->peer_addr : own, 1, &c->peer, 0, NULL));
	}
	dg_close(c, &d);
}

/* A burst into posted receives: what arrives is whole and arrives once. */
static void dgram_burst(struct ct *c)
{
	struct dg d;

	dg_open(c, &d);
	for (unsigned i = 0; i < SLOTS && c->rank; i++)
		dg_recv(c, &d, i);
	ct_barrier(c);
	if (c->rank == 0) {
		for (unsigned i = 0; i < SLOTS; i++) {
			ct_fill(slot(&d, i) + d.prefix, 1000, i);
			while (ct_again(c, fi_send(c->ep, slot(&d, i), d.prefix + 1000, d.b.desc, c->peer, &c->ctx[i])))
				;
		}
		for (unsigned i = 0; i < SLOTS; i++)
			ct_comp(c, c->txcq);
	} else {
		unsigned seen[SLOTS] = {0}, got = 0;

		for (uint64_t until = ct_now_ms() + 2000; got < SLOTS && ct_now_ms() < until;) {
			struct fi_cq_data_entry e;
			unsigned which = SLOTS;

			if (fi_cq_read(c->rxcq, &e, 1) != 1)
				continue;
			got++;
			for (unsigned k = 0; k < SLOTS; k++)
				if (ct_matches((uint8_t *)slot(
						       &d, (unsigned)((struct fi_context2 *)e.op_context - c->ctx)) +
						       d.prefix,
					       1000, k))
					which = k;
			CHECK(which < SLOTS && !seen[which]++, "a datagram that was not sent, or twice");
		}
		CHECK(got > 0, "everything was lost");
	}
	dg_close(c, &d);
}

#define DG FI_EP_DGRAM
const struct ct_test dgram_tests[] = {
	{"dgram_send", dgram_send, FI_MSG, DG, CT_GENS,
	 "FI_MSG FI_SEND FI_RECV FI_SOURCE FI_LOCAL_COMM FI_REMOTE_COMM max_msg_size "
	 "msg_prefix_size mr:FI_MR_LOCAL mr:FI_MR_VIRT_ADDR mr:FI_MR_ALLOCATED mr:FI_MR_PROV_KEY mode:FI_MSG_PREFIX"},
	{"dgram_forms", dgram_forms, FI_MSG, DG, 0, "tx.iov_limit rx.iov_limit cq_data_size op:FI_TRANSMIT_COMPLETE"},
	{"dgram_limits", dgram_limits, FI_MSG, DG, 0, "max_msg_size tx.iov_limit rx.iov_limit inject_size"},
	{"dgram_lost", dgram_lost, FI_MSG, DG, 0, "rm:FI_RM_DISABLED"},
	{"dgram_reinsert", dgram_reinsert, FI_MSG, DG, 0, NULL},
	{"dgram_burst", dgram_burst, FI_MSG, DG, 0, "tx.size rx.size"},
	{0},
};
