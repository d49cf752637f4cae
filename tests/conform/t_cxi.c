// SPDX-License-Identifier: BSD-2-Clause
// What only cxi has: scalable endpoints, shared contexts, PIDs, VNIs, services, keys, regions, levels of completion.
#include "conform.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "fi_cxi_ext.h"

/* Two endpoints, in any of their forms, need CQs of their own that the test drives. */
struct side {
	struct fid_ep *sep, *tx[2], *rx[3];
	struct fid_cq *txcq, *rxcq[3];
	struct fid_av *av;
};

static void drive(struct ct *c, struct fid_cq *a, struct fid_cq *b)
{
	if (a)
		fi_cq_read(a, NULL, 0);
	if (b)
		fi_cq_read(b, NULL, 0);
	ct_progress(c);
}

/* The next completion of @cq while @other is driven too. */
static struct fi_cq_tagged_entry comp_of(struct ct *c, struct fid_cq *cq, struct fid_cq *other)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	ssize_t ret;

	while ((ret = fi_cq_read(cq, &e, 1)) == -FI_EAGAIN)
		drive(c, other, NULL);
	if (ret == -FI_EAVAIL)
		fi_cq_readerr(cq, &err, 0);
	CHECK(ret == 1, "%s, error %d (%s)", ct_err(ret), err.err, fi_strerror(err.err));
	return e;
}

/* --- scalable endpoints -------------------------------------------------------------------------- */

#define RX_BITS 4

static void side_open(struct ct *c, struct side *s)
{
	struct fi_av_attr av = {.type = FI_AV_MAP, .rx_ctx_bits = RX_BITS};
	struct fi_info *info = fi_dupinfo(c->info);

	info->ep_attr->tx_ctx_cnt = 2;
	info->ep_attr->rx_ctx_cnt = 3;
	OK(fi_scalable_ep(c->domain, info, &s->sep, NULL));
	fi_freeinfo(info);
	OK(fi_av_open(c->domain, &av, &s->av, NULL));
	RET(-FI_ENOAV, fi_enable(s->sep));
	s->txcq = ct_cq(c, 0, 0);
	for (int i = 0; i < 2; i++) {
		OK(fi_tx_context(s->sep, i, NULL, &s->tx[i], NULL));
		/* the latter as Chapel does */
		OK(fi_ep_bind(s->tx[i], &s->txcq->fid, i ? FI_TRANSMIT : FI_TRANSMIT | FI_RECV));
	}
	RET(-FI_ENOAV, fi_enable(s->tx[0]));
	OK(fi_scalable_ep_bind(s->sep, &s->av->fid, 0));
	CHECK(fi_tx_context(s->sep, 2, NULL, &s->tx[0], NULL) < 0, "a context too many");
	for (int i = 0; i < 3; i++) {
		s->rxcq[i] = ct_cq(c, 0, 0);
		OK(fi_rx_context(s->sep, i, NULL, &s->rx[i], NULL));
		OK(fi_ep_bind(s->rx[i], &s->rxcq[i]->fid, FI_RECV));
	}
	for (int i = 0; i < 2; i++)
		OK(fi_enable(s->tx[i]));
	for (int i = 0; i < 3; i++)
		OK(fi_enable(s->rx[i]));
	/* Open MPI's order; Chapel's is to enable contexts only. The endpoint first: tests/unit/test_cxi_caps.c. */
	if (c->rank)
		OK(fi_enable(s->sep));
}

static void side_close(struct ct *c, struct side *s)
{
	RET(-FI_EBUSY, fi_close(&s->sep->fid));
	for (int i = 0; i < 2; i++)
		OK(fi_close(&s->tx[i]->fid));
	for (int i = 0; i < 3; i++)
		OK(fi_close(&s->rx[i]->fid));
	OK(fi_close(&s->sep->fid));
	for (int i = 0; i < 3; i++)
		OK(fi_close(&s->rxcq[i]->fid));
	OK(fi_close(&s->txcq->fid));
	OK(fi_close(&s->av->fid));
}

/* The seed's use: large buffers in one queue, small ones in another, told apart by the queue and not by tags. */
static void cxi_sep(struct ct *c)
{
	enum { EACH = 20, LARGE = 100000, SMALL = 64 };
	uint8_t mine[64] = {0}, theirs[64], *mem;
	size_t len = sizeof(mine);
	struct side s = {0};
	fi_addr_t peer;

	ct_open(c);
	side_open(c, &s);
	mem = calloc(3 * EACH, LARGE);
	OK(fi_getname(&s.sep->fid, mine, &len));
	ct_swap(c, mine, theirs, sizeof(mine));
	RET(1, fi_av_insert(s.av, theirs, 1, &peer, 0, NULL));
	for (unsigned i = 0; i < 3 * EACH && c->rank; i++) {
		unsigned q = i % 3;

		while (ct_again(c, fi_recv(s.rx[q], mem + (size_t)i * LARGE, q ? LARGE : SMALL, NULL, FI_ADDR_UNSPEC,
					   &c->ctx[i])))
			drive(c, s.rxcq[q], NULL);
	}
	ct_barrier(c);
	for (unsigned i = 0; i < 3 * EACH && !c->rank; i++) {
		unsigned q = (i * 7 + i / 3) % 3;
		size_t n = q ? LARGE - i : SMALL - i % 64;

		ct_fill(mem + (size_t)i * LARGE, n, 1000 * q + n);
		while (ct_again(c, fi_send(s.tx[i & 1], mem + (size_t)i * LARGE, n, NULL,
					   fi_rx_addr(peer, (int)q, RX_BITS), &c->ctx[i])))
			drive(c, s.txcq, NULL);
	}
	for (unsigned i = 0; i < 3 * EACH; i++) {
		unsigned q = i % 3;
		struct fid_cq *cq = c->rank ? s.rxcq[q] : s.txcq;
		struct fi_cq_tagged_entry e = comp_of(c, cq, c->rank ? s.rxcq[(q + 1) % 3] : NULL);
		size_t k = (size_t)((struct fi_context2 *)e.op_context - c->ctx);

		if (!c->rank)
			continue;
		CHECK(k % 3 == q, "receive %zu completed in queue %u", k, q);
		ct_verify(c, mem + k * LARGE, e.len, 1000 * q + e.len, "in its queue");
	}
	ct_barrier(c);
	/* a context that nobody opened refuses, and the sender is told */
	if (!c->rank) {
		struct fi_cq_err_entry err = {0};
		struct fi_cq_tagged_entry e;
		ssize_t ret;

		OK(fi_send(s.tx[0], mem, 8, NULL, fi_rx_addr(peer, 9, RX_BITS), &c->ctx[0]));
		while ((ret = fi_cq_read(s.txcq, &e, 1)) == -FI_EAGAIN)
			;
		RET(-FI_EAVAIL, ret);
		RET(1, fi_cq_readerr(s.txcq, &err, 0));
		CHECK(err.op_context == &c->ctx[0] && err.err == FI_EIO && err.prov_errno == 26, "error %d", err.err);
	}
	for (unsigned i = 0; c->rank && i < 300; i++)
		drive(c, s.rxcq[0], NULL);
	ct_barrier(c);
	free(mem);
	side_close(c, &s);
	ct_close(c);
}

/* --- shared contexts, shared address vectors, several domains ------------------------------------ */

/* Two endpoints that send from one queue and receive in one, with one address vector. */
static void cxi_shared(struct ct *c)
{
	struct fid_ep *ep[2], *srx;
	struct fid_cq *cq[2];
	struct fid_stx *stx;
	struct fi_info *info;
	uint8_t names[2][64] = {{0}}, theirs[2][64], both[2][8] = {{0}}, mem[4][100];
	fi_addr_t peer[2];
	struct fid_av *av;

	ct_open(c);
	info = fi_dupinfo(c->info);
	OK(fi_stx_context(c->domain, info->tx_attr, &stx, NULL));
	OK(fi_srx_context(c->domain, info->rx_attr, &srx, NULL));
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	av = ct_av(c);
	for (int i = 0; i < 2; i++) {
		size_t len = 64;

		cq[i] = ct_cq(c, 0, 0);
		OK(fi_endpoint(c->domain, info, &ep[i], NULL));
		OK(fi_ep_bind(ep[i], &cq[i]->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_ep_bind(ep[i], &av->fid, 0));
		CHECK(fi_enable(ep[i]) < 0, "enabled without the shared contexts it asked for");
		OK(fi_ep_bind(ep[i], &stx->fid, 0));
		OK(fi_ep_bind(ep[i], &srx->fid, 0));
		OK(fi_enable(ep[i]));
		OK(fi_getname(&ep[i]->fid, names[i], &len));
	}
	RET(-FI_EBUSY, fi_close(&stx->fid));
	RET(-FI_EBUSY, fi_close(&srx->fid));
	ct_swap(c, names, theirs, sizeof(names));
	for (int i = 0; i < 2; i++)
		memcpy(both[i], theirs[i], 4);
	RET(2, fi_av_insert(av, both, 2, peer, 0, NULL));
	for (unsigned i = 0; i < 4; i++)
		OK(fi_trecv(srx, mem[i], 100, NULL, FI_ADDR_UNSPEC, i, 0, &c->ctx[i]));
	ct_barrier(c);
	for (unsigned i = 0; i < 4; i++) {
		uint8_t out[100];

		ct_fill(out, 100, i + 10 * (unsigned)c->rank);
		while (ct_again(c, fi_tinject(ep[i & 1], out, 100, peer[i / 2], i)))
			drive(c, cq[0], cq[1]);
	}
	for (unsigned i = 0; i < 4; i++) { /* a completion appears where the message arrived */
		struct fi_cq_tagged_entry e = comp_of(c, cq[i / 2], cq[!(i / 2)]);

		CHECK(e.tag / 2 == i / 2, "message %llu at endpoint %u", (unsigned long long)e.tag, i / 2);
		ct_verify(c, mem[e.tag], 100, e.tag + 10 * (unsigned)!c->rank, "by the shared queue");
	}
	ct_barrier(c);
	/* the first one closes with a message whose end nobody has read: what the other reads then does not name it */
	while (ct_again(c, fi_tsend(ep[0], mem[0], 100, NULL, peer[1], 9, &c->ctx[5])))
		drive(c, cq[0], cq[1]);
	for (int i = 0; i < 2; i++) {
		OK(fi_close(&ep[i]->fid));
		for (int n = 0; n < 1000; n++)
			RET(-FI_EAGAIN, fi_cq_read(cq[1], &(struct fi_cq_tagged_entry){0}, 1));
		ct_barrier(c);
	}
	for (int i = 0; i < 2; i++)
		OK(fi_close(&cq[i]->fid));
	OK(fi_close(&stx->fid));
	OK(fi_close(&srx->fid));
	OK(fi_close(&av->fid));
	fi_freeinfo(info);
	ct_close(c);
}

/* A fabric has several domains, and an endpoint of one reaches those of the other. */
static void cxi_domains(struct ct *c)
{
	struct ct other = {.t = c->t, .p = c->p, .v = c->v, .prov = c->prov, .info = NULL};
	struct ct_ep2 e;
	uint8_t out[300], in[300];
	fi_addr_t to;

	ct_open(c);
	other.info = c->info;
	OK(fi_domain(c->fabric, c->info, &other.domain, NULL));
	ct_ep2_open(&other, &e);
	RET(1, fi_av_insert(e.av, c->addr, 1, &to, 0, NULL));
	ct_fill(out, 300, 4);
	OK(fi_recv(c->ep, in, 300, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	OK(fi_send(e.ep, out, 300, NULL, to, &c->ctx[1]));
	comp_of(c, e.cq, NULL);
	while (fi_cq_read(c->rxcq, &(struct fi_cq_tagged_entry){0}, 1) == -FI_EAGAIN)
		fi_cq_read(e.cq, NULL, 0);
	ct_verify(c, in, 300, 4, "between domains");
	ct_ep2_close(&other, &e);
	OK(fi_close(&other.domain->fid));
	ct_close(c);
}

/* An alias is the same queue with default flags of its own. */
static void cxi_alias(struct ct *c)
{
	struct fid_ep *alias = NULL;
	uint8_t mem[3000];

	ct_open(c);
	CHECK(fi_ep_alias(c->ep, &alias, FI_TRANSMIT | FI_RECV) == -FI_EINVAL, "an alias for both directions");
	OK(fi_ep_alias(c->ep, &alias, FI_TRANSMIT | FI_DELIVERY_COMPLETE));
	RET(-FI_EBUSY, fi_close(&c->ep->fid));
	for (unsigned i = 0; i < 10; i++) {
		if (c->rank) {
			struct ct_msg m = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i], .mem = mem, .len = sizeof(mem)};

			ct_recv(c, &m);
			ct_rx(c, &c->ctx[i], FI_RECV | FI_MSG, sizeof(mem));
			ct_verify(c, mem, sizeof(mem), i, "by an alias");
		} else {
			ct_fill(mem, sizeof(mem), i);
			while (ct_again(c, fi_send(i & 1 ? alias : c->ep, mem, sizeof(mem), NULL, c->peer, &c->ctx[i])))
				;
			c->traffic = true;
			ct_tx(c, &c->ctx[i], FI_SEND | FI_MSG);
		}
	}
	OK(fi_close(&alias->fid));
	ct_close(c);
}

/* --- PIDs, VNIs, services ------------------------------------------------------------------------ */

static void cxi_pid(struct ct *c)
{
	struct fi_info *info;
	struct fid_ep *ep;
	uint32_t *src, name;
	size_t len = 8;
	uint8_t addr[8];

	ct_open(c);
	info = fi_dupinfo(c->info);
	free(info->src_addr);
	info->src_addr = malloc(8);
	memcpy(info->src_addr, c->addr, 8); /* as the endpoint that is there */
	info->src_addrlen = 8;
	src = info->src_addr;
	OK(fi_endpoint(c->domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &c->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &c->rxcq->fid, FI_RECV));
	OK(fi_ep_bind(ep, &c->av->fid, 0));
	RET(-FI_EADDRINUSE, fi_enable(ep));
	OK(fi_close(&ep->fid));
	*src = (*src & ~0x1ffu) | 509;
	OK(fi_endpoint(c->domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &c->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &c->rxcq->fid, FI_RECV));
	OK(fi_ep_bind(ep, &c->av->fid, 0));
	RET(-FI_EOPBADSTATE, fi_getname(&ep->fid, addr, &len));
	OK(fi_enable(ep));
	OK(fi_getname(&ep->fid, addr, &len));
	memcpy(&name, addr, 4);
	CHECK((name & 0x1ff) == 509, "PID %u", name & 0x1ff);
	OK(fi_close(&ep->fid));
	fi_freeinfo(info);
	ct_close(c);
}

/* An endpoint of another VNI is not reached, whatever address is used, and hears nothing. */
static void cxi_vni(struct ct *c)
{
	struct cxi_auth_key key = {.svc_id = 1, .vni = 11};
	struct fi_cq_err_entry err;
	struct fi_info *info, *was;
	uint8_t out[8] = {0}, in[8];
	struct ct_ep2 e;
	uint32_t name;
	fi_addr_t to;

	ct_open(c);
	was = c->info;
	info = c->info = fi_dupinfo(was);
	info->ep_attr->auth_key = malloc(sizeof(key));
	memcpy(info->ep_attr->auth_key, &key, sizeof(key));
	info->ep_attr->auth_key_size = sizeof(key);
	memcpy(&name, info->src_addr, sizeof(name));
	name = (name & ~0x1ffu) | 507; /* a PID that nobody has in our VNI */
	memcpy(info->src_addr, &name, sizeof(name));
	ct_ep2_open(c, &e);
	c->info = was;
	RET(1, fi_av_insert(c->av, e.addr, 1, &to, 0, NULL));
	OK(fi_recv(e.ep, in, 8, NULL, FI_ADDR_UNSPEC, &c->ctx[1]));
	OK(fi_send(c->ep, out, 8, NULL, to, &c->ctx[0]));
	err = ct_comp_err(c, c->txcq, FI_SEND | FI_MSG);
	CHECK(err.err == FI_EHOSTUNREACH || err.err == FI_ENOTCONN || err.err == FI_EIO, "error %d", err.err);
	ct_no_comp(c, e.cq);
	ct_ep2_close(c, &e);
	fi_freeinfo(info);
	ct_close(c);
}

/*
 * A service that is not ours, a VNI that it does not have: refused by fi_domain with a reason, and no info is offered
 * for it.
 */
static void cxi_refused(struct ct *c)
{
	static const struct cxi_auth_key bad[] = {
		{.svc_id = 2, .vni = 10}, {.svc_id = 1, .vni = 12}, {.svc_id = 3, .vni = 10}};
	struct fi_info *h, *info = NULL;
	struct fid_domain *d = NULL;

	ct_open_to_domain(c);
	for (unsigned i = 0; i < 3; i++) {
		h = ct_hints(c);
		h->domain_attr->auth_key = malloc(8);
		memcpy(h->domain_attr->auth_key, &bad[i], 8);
		h->domain_attr->auth_key_size = 8;
		RET(-FI_ENODATA, fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info));
		fi_freeinfo(h);
		h = fi_dupinfo(c->info);
		h->domain_attr->auth_key = malloc(8);
		memcpy(h->domain_attr->auth_key, &bad[i], 8);
		h->domain_attr->auth_key_size = 8;
		RET(-FI_EACCES, fi_domain(c->fabric, h, &d, NULL));
		fi_freeinfo(h);
	}
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(c->info);
}

/* --- keys and regions ---------------------------------------------------------------------------- */

static void write8(struct ct *c, uint64_t addr, uint64_t key, uint64_t v)
{
	c->traffic = true;
	while (ct_again(c, fi_inject_write(c->ep, &v, 8, c->peer, addr, key)))
		;
	/* read it back: through the same path, and only then is it certain to be there */
	v = ~v;
	while (ct_again(c, fi_read(c->ep, &v, 8, NULL, c->peer, addr, key, &c->ctx[0])))
		;
	ct_tx(c, &c->ctx[0], FI_READ | FI_RMA);
}

/* Keys of the program: 0 to 238 have entries of their own, the others share one. */
static void cxi_client_keys(struct ct *c)
{
	static const uint64_t key[] = {0, 1, 100, 238, 239, 240, 70000, UINT32_MAX};
	enum { N = sizeof(key) / sizeof(key[0]) };
	uint64_t mem[N] = {0}, plec;
	struct fid_mr *mr[N], *twin;

	c->want.mr_mode = FI_MR_ALLOCATED | FI_MR_ENDPOINT;
	ct_open(c);
	CHECK(!(c->info->domain_attr->mr_mode & FI_MR_PROV_KEY), "keys are the provider's");
	CHECK(c->info->domain_attr->mr_key_size == 4, "keys of %zu bytes", c->info->domain_attr->mr_key_size);
	for (unsigned i = 0; i < N; i++) {
		mr[i] = ct_mr(c, &mem[i], 8, FI_REMOTE_READ | FI_REMOTE_WRITE, key[i]);
		CHECK(fi_mr_key(mr[i]) == key[i], "key %#llx", (unsigned long long)fi_mr_key(mr[i]));
		RET(-FI_ENOKEY, fi_mr_reg(c->domain, mem, 8, FI_REMOTE_READ, 0, key[i], 0, &twin, NULL));
	}
	RET(-FI_EKEYREJECTED, fi_mr_reg(c->domain, mem, 8, FI_REMOTE_READ, 0, 1ULL << 32, 0, &twin, NULL));
	for (unsigned i = 0; i < N; i++) {
		plec = ct_stat(c, "lpe_plec_hits");
		write8(c, 0, key[i], 1000 + i);
		CHECK(mem[i] == 1000 + i, "region of key %u has %llu", i, (unsigned long long)mem[i]);
		plec = ct_stat(c, "lpe_plec_hits") - plec;
		CHECK((plec > 0) == (key[i] < 239 && strcmp(c->v->name, "stdmr")), "key %u: hits without matching", i);
	}
	RET(-FI_EKEYREJECTED, fi_read(c->ep, mem, 8, NULL, c->peer, 0, 1ULL << 40, NULL));
	for (unsigned i = 0; i < N; i++)
		OK(fi_close(&mr[i]->fid));
	ct_close(c);
}

/* Keys of the provider: more regions than there are entries; malformed keys; offsets outside. */
static void cxi_prov_keys(struct ct *c)
{
	enum { N = 300 };
	static uint64_t mem[N];
	struct fid_mr *mr[N];
	uint64_t v = 0, plec = ct_now_ms();

	ct_open(c);
	plec = ct_stat(c, "lpe_plec_hits");
	for (unsigned i = 0; i < N; i++) {
		mr[i] = ct_mr(c, &mem[i], 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 5);
		CHECK(fi_mr_key(mr[i]) >> 63, "key %#llx", (unsigned long long)fi_mr_key(mr[i]));
	}
	for (unsigned i = 0; i < N; i += 13) {
		write8(c, 0, fi_mr_key(mr[i]), i + 1);
		CHECK(mem[i] == i + 1, "region %u has %llu", i, (unsigned long long)mem[i]);
	}
	CHECK(!strcmp(c->v->name, "stdmr") || ct_stat(c, "lpe_plec_hits") > plec, "no operation went without matching");
	RET(-FI_EKEYREJECTED, fi_read(c->ep, &v, 8, NULL, c->peer, 0, ~0ULL, NULL));
	for (unsigned i = 0; i < 2; i++) { /* a region with an entry of its own, and one without */
		uint64_t key = fi_mr_key(mr[i ? N - 1 : 0]);
		static const uint64_t off[] = {1, 8, 1ULL << 40, UINT64_MAX};

		for (unsigned k = 0; k < 4; k++) {
			while (ct_again(c, fi_read(c->ep, &v, 8, NULL, c->peer, off[k], key, &c->ctx[k])))
				;
			CHECK(ct_comp_err(c, c->txcq, FI_RMA | FI_READ).err == FI_EIO, "read %u", k);
		}
	}
	for (unsigned i = 0; i < N; i++)
		OK(fi_close(&mr[i]->fid));
	ct_close(c);
}

/*
 * Writes that carry data, when FI_CXI_ENABLE_WRITEDATA offers them: an entry in the target's queue that takes no
 * receive; plain writes make none.
 */
static void cxi_writedata(struct ct *c)
{
	static uint64_t mem[2], v = 4711;
	struct fi_rma_iov at, mine = {0};
	uint8_t unused[8];
	struct fid_mr *mr;

	ct_open(c);
	OK(fi_mr_reg(c->domain, &mem[c->rank], 8, FI_REMOTE_WRITE, 0, 0, 0, &mr, &c->ctx[7]));
	OK(fi_mr_bind(mr, &c->ep->fid, 0));
	OK(fi_mr_enable(mr));
	mine.key = fi_mr_key(mr);
	if (c->rank)
		OK(fi_recv(c->ep, unused, 8, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	ct_swap(c, &mine, &at, sizeof(at));
	c->traffic = !c->rank;
	for (unsigned i = 0; i < 9; i++) {
		struct ct_comp got;

		if (!c->rank) {
			v = i + 1;
			while (ct_again(c, i % 3 == 0	? fi_writedata(c->ep, &v, 8, NULL, i + 100, c->peer, 0, at.key,
								       &c->ctx[1])
					   : i % 3 == 1 ? fi_inject_writedata(c->ep, &v, 8, i + 100, c->peer, 0, at.key)
							: fi_write(c->ep, &v, 8, NULL, c->peer, 0, at.key, &c->ctx[1])))
				;
			if (i % 3 != 1)
				ct_tx(c, &c->ctx[1], FI_WRITE | FI_RMA);
		} else if (i % 3 != 2) {
			got = ct_comp(c, c->rxcq);
			CHECK(got.e.op_context == &c->ctx[7] &&
				      (got.e.flags & ~FI_COMPLETION) == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA),
			      "flags %#llx", (unsigned long long)got.e.flags);
			CHECK(got.e.data == i + 100 && got.e.len == 8 && mem[1] == i + 1, "data %llu, %zu bytes, %llu",
			      (unsigned long long)got.e.data, got.e.len, (unsigned long long)mem[1]);
		}
		ct_barrier(c);
	}
	/* a client's key says nothing of it */
	RET(-FI_EINVAL, fi_writedata(c->ep, &v, 8, NULL, 1, c->peer, 0, 4711, NULL));
	if (c->rank) {
		OK(fi_cancel(&c->ep->fid, &c->ctx[0])); /* it is still there */
		CHECK(ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG).err == FI_ECANCELED, "the receive");
	}
	ct_barrier(c);
	OK(fi_close(&mr->fid));
	ct_close(c);
}

static void cxi_mr_errors(struct ct *c)
{
	struct fid_domain *other;
	struct fid_mr *mr, *foreign;
	struct fid_ep *off;
	uint8_t mem[64];

	ct_open(c);
	OK(fi_mr_reg(c->domain, mem, 64, FI_REMOTE_READ, 0, 1, 0, &mr, NULL));
	CHECK(fi_mr_enable(mr) == -FI_EINVAL, "enabled without an endpoint");
	OK(fi_endpoint(c->domain, c->info, &off, NULL));
	RET(-FI_EOPBADSTATE, fi_mr_bind(mr, &off->fid, 0));
	OK(fi_close(&off->fid));
	OK(fi_domain(c->fabric, c->info, &other, NULL));
	OK(fi_mr_reg(other, mem, 64, FI_REMOTE_READ, 0, 1, 0, &foreign, NULL));
	CHECK(fi_mr_bind(foreign, &c->ep->fid, 0) == -FI_EINVAL, "an endpoint of another domain");
	OK(fi_close(&foreign->fid));
	OK(fi_close(&other->fid));
	OK(fi_mr_bind(mr, &c->ep->fid, 0));
	RET(-FI_EINVAL, fi_mr_bind(mr, &c->ep->fid, 0));
	OK(fi_mr_enable(mr));
	RET(-FI_EBUSY, fi_close(&c->ep->fid));
	OK(fi_close(&mr->fid));
	ct_close(c);
}

/* A counter of a region counts what peers write, in operations. */
static void cxi_rma_event(struct ct *c)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	static uint8_t mem[100000], src[100000];
	struct fi_rma_iov mine = {0}, at;
	struct fid_cntr *n = NULL;
	struct fid_mr *mr = NULL;

	ct_open(c);
	if (c->rank) {
		OK(fi_cntr_open(c->domain, &attr, &n, NULL));
		OK(fi_mr_reg(c->domain, mem, sizeof(mem), FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 3, FI_RMA_EVENT, &mr,
			     NULL));
		OK(fi_mr_bind(mr, &c->ep->fid, 0));
		CHECK(fi_mr_bind(mr, &n->fid, FI_READ) < 0, "a counter of reads");
		OK(fi_mr_bind(mr, &n->fid, FI_REMOTE_WRITE));
		OK(fi_mr_enable(mr));
		mine.key = fi_mr_key(mr);
	}
	ct_swap(c, &mine, &at, sizeof(at));
	for (unsigned i = 0; i < 20 && !c->rank; i++) {
		c->traffic = true;
		while (ct_again(c, fi_write(c->ep, src, 100 + i * 5000, NULL, c->peer, 0, at.key, &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_WRITE | FI_RMA);
	}
	if (c->rank) {
		OK(fi_cntr_wait(n, 20, 10000));
		CHECK(fi_cntr_read(n) == 20, "%llu writes counted", (unsigned long long)fi_cntr_read(n));
	}
	ct_barrier(c);
	if (c->rank) {
		OK(fi_close(&mr->fid));
		OK(fi_close(&n->fid));
	}
	ct_close(c);
}

/* --- messages ------------------------------------------------------------------------------------ */

/* A receive is matched, and its endpoint closed before it could tell the sender; where software matches it has. */
static void closed_when_matched(struct ct *c)
{
	char out = 1, in = 0;
	struct iovec iov = {&out, 1};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 1, .context = &c->ctx[0]};
	struct ct_ep2 e;

	ct_ep2_open(c, &e);
	CHECK(fi_av_insert(c->av, e.addr, 1, &m.addr, 0, NULL) == 1, "no address");
	OK(fi_tsendmsg(c->ep, &m, FI_MATCH_COMPLETE));
	for (uint64_t until = ct_now_ms() + 50; ct_now_ms() < until; fi_cq_read(e.cq, NULL, 0))
		ct_progress(c);
	OK(fi_trecv(e.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &c->ctx[1]));
	ct_ep2_close(c, &e);
	ct_succeeds(c, c->txcq, FI_SEND | FI_TAGGED);
}

/* Complete when matched, and not before: small ones, that have arrived long ago, too. */
static void cxi_match_complete(struct ct *c)
{
	static const size_t lens[] = {0, 8, 5000, 18000, 300000};
	static uint8_t mem[2][300000];

	ct_open(c);
	for (unsigned i = 0; i < 2 * 5; i++) {
		bool late = i & 1;
		struct ct_msg m = {.call = CT_SENDMSG, .tagged = true, .tag = i, .ctx = &c->ctx[i], .mem = mem[c->rank],
				   .len = lens[i / 2], .flags = c->rank ? 0 : FI_MATCH_COMPLETE,
				   .addr = c->rank ? FI_ADDR_UNSPEC : c->peer};

		if (c->rank && !late)
			ct_recv(c, &m);
		ct_barrier(c);
		if (!c->rank) {
			ct_fill(mem[0], m.len, i);
			ct_send(c, &m);
			if (late) {
				for (uint64_t until = ct_now_ms() + 50; ct_now_ms() < until;)
					ct_progress(c);
				ct_no_comp(c, c->txcq);
			}
		}
		ct_barrier(c);
		if (c->rank && late)
			ct_recv(c, &m);
		if (c->rank) {
			ct_rx(c, &c->ctx[i], FI_RECV | FI_TAGGED, m.len);
			ct_verify(c, mem[1], m.len, i, "matched");
		} else {
			ct_tx(c, &c->ctx[i], FI_SEND | FI_TAGGED);
		}
		ct_barrier(c);
	}
	closed_when_matched(c);
	ct_close(c);
}

/* Of a long message the adapter fetches the rest where it matches; by FI_CXI_RDZV_PROTO=alt_read software does. */
static void cxi_rdzv(struct ct *c)
{
	bool alt = getenv("FI_CXI_RDZV_PROTO"), is_plain = !strcmp(c->v->name, "");
	uint64_t gets, restricted;
	static uint8_t mem[2][400000];

	ct_open(c);
	for (unsigned i = 0; i < 20; i++) {
		struct ct_msg m = {.tagged = i & 2, .ctx = &c->ctx[i], .mem = mem[c->rank], .len = 18434 + i * 20000,
				   .addr = c->rank ? FI_ADDR_UNSPEC : c->peer};

		gets = ct_stat(c, "lpe_rndzv_puts_offloaded_0");
		restricted = ct_stat(c, "ixe_rx_ptl_restricted_pkt");
		ct_barrier(c);
		if (c->rank && i & 1)
			ct_recv(c, &m);
		ct_barrier(c);
		if (!c->rank) {
			ct_fill(mem[0], m.len, i);
			ct_send(c, &m);
		}
		ct_barrier(c);
		if (c->rank && !(i & 1))
			ct_recv(c, &m);
		if (c->rank) {
			ct_rx(c, &c->ctx[i], FI_RECV | (m.tagged ? FI_TAGGED : FI_MSG), m.len);
			ct_verify(c, mem[1], m.len, i, "fetched");
			gets = ct_stat(c, "lpe_rndzv_puts_offloaded_0") - gets;
			CHECK(!(i & 1) || !is_plain || gets == !alt, "%u Gets of the adapter", (unsigned)gets);
			CHECK(!alt || !gets, "%llu Gets of the adapter", (unsigned long long)gets);
		} else {
			ct_tx(c, &c->ctx[i], FI_SEND | (m.tagged ? FI_TAGGED : FI_MSG));
			restricted = ct_stat(c, "ixe_rx_ptl_restricted_pkt") - restricted;
			CHECK(!restricted == !alt, "%llu restricted Gets", (unsigned long long)restricted);
		}
		ct_barrier(c);
	}
	ct_close(c);
}

static void cxi_limits(struct ct *c)
{
	uint8_t mem[256] = {0};
	struct fi_msg_tagged m = {.addr = c->self};

	ct_open(c);
	m.addr = c->self;
	RET(-FI_EINVAL, fi_tsend(c->ep, mem, 8, NULL, c->self, 1ULL << 48, NULL));
	RET(-FI_EINVAL, fi_tinject(c->ep, mem, 8, c->self, 1ULL << 63));
	RET(-FI_EINVAL, fi_trecv(c->ep, mem, 8, NULL, FI_ADDR_UNSPEC, 1ULL << 48, 0, NULL));
	RET(-FI_EINVAL, fi_trecv(c->ep, mem, 8, NULL, FI_ADDR_UNSPEC, 0, 1ULL << 48, NULL));
	RET(-FI_EMSGSIZE, fi_send(c->ep, mem, 1ULL << 32, NULL, c->self, NULL));
	RET(-FI_EMSGSIZE, fi_tsend(c->ep, mem, 1ULL << 32, NULL, c->self, 0, NULL));
	RET(-FI_EMSGSIZE, fi_recv(c->ep, mem, 1ULL << 32, NULL, FI_ADDR_UNSPEC, NULL));
	RET(-FI_EMSGSIZE, fi_write(c->ep, mem, 1ULL << 32, NULL, c->self, 0, 0, NULL));
	RET(-FI_EMSGSIZE, fi_inject(c->ep, mem, 193, c->self));
	RET(-FI_EMSGSIZE, fi_inject_write(c->ep, mem, 193, c->self, 0, 0));
	RET(-FI_EBADFLAGS, fi_tsendmsg(c->ep, &m, 1ULL << 50));
	RET(-FI_ENOSYS, fi_writedata(c->ep, mem, 8, NULL, 1, c->self, 0, 0, NULL)); /* FI_CXI_ENABLE_WRITEDATA is off */
	ct_close(c);
}

/* A sender that is not in the address vector: an error entry that says who it was. */
static void cxi_source_err(struct ct *c)
{
	uint8_t out[8] = {1}, in[8];
	struct fi_cq_err_entry e = {0};
	struct fi_cq_tagged_entry t;
	struct ct_ep2 stranger;
	uint8_t who[64];
	fi_addr_t to;
	ssize_t ret;

	ct_open(c);
	ct_ep2_open(c, &stranger);
	RET(1, fi_av_insert(stranger.av, c->addr, 1, &to, 0, NULL));
	OK(fi_recv(c->ep, in, 8, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	OK(fi_send(stranger.ep, out, 8, NULL, to, &c->ctx[1]));
	comp_of(c, stranger.cq, NULL);
	while ((ret = fi_cq_read(c->rxcq, &t, 1)) == -FI_EAGAIN)
		;
	RET(-FI_EAVAIL, ret);
	e.err_data = who;
	e.err_data_size = sizeof(who);
	RET(1, fi_cq_readerr(c->rxcq, &e, 0));
	CHECK(e.err == FI_EADDRNOTAVAIL && e.op_context == &c->ctx[0], "error %d", e.err);
	CHECK(e.err_data_size == 8 && !memcmp(who, stranger.addr, 8), "err_data of %zu bytes", e.err_data_size);
	ct_ep2_close(c, &stranger);
	ct_close(c);
}

/* --- fences -------------------------------------------------------------------------------------- */

/* A fenced read starts when all writes before it have ended. */
static void cxi_fence(struct ct *c)
{
	static uint8_t mem[2][200000];
	struct fi_rma_iov at, mine = {0};
	struct fid_mr *mr;

	ct_open(c);
	mr = ct_mr(c, mem[c->rank], sizeof(mem[0]), FI_REMOTE_READ | FI_REMOTE_WRITE, 9 + (unsigned)c->rank);
	mine.key = fi_mr_key(mr);
	ct_swap(c, &mine, &at, sizeof(at));
	for (unsigned i = 0; i < 20 && !c->rank; i++) {
		static uint8_t out[200000], in[200000];
		struct iovec iov = {in, sizeof(in)};
		struct fi_rma_iov r = {0, sizeof(in), at.key};
		struct fi_msg_rma m = {&iov, NULL, 1, c->peer, &r, 1, &c->ctx[1], 0};

		ct_fill(out, sizeof(out), i);
		c->traffic = true;
		while (ct_again(c, fi_write(c->ep, out, sizeof(out), NULL, c->peer, 0, at.key, &c->ctx[0])))
			;
		while (ct_again(c, fi_readmsg(c->ep, &m, FI_FENCE)))
			;
		ct_tx(c, &c->ctx[0], FI_WRITE | FI_RMA);
		ct_tx(c, &c->ctx[1], FI_READ | FI_RMA);
		ct_verify(c, in, sizeof(in), i, "read behind the fence");
	}
	ct_barrier(c);
	OK(fi_close(&mr->fid));
	ct_close(c);
}

#define GENS CT_GENS
#define SEP_CAPS "FI_NAMED_RX_CTX max_ep_tx_ctx max_ep_rx_ctx"
#define LIMITS	 "mem_tag_format max_msg_size inject_size"
#define SOLO	 (CT_SOLO | CT_ANY_PATH)
#define TWO_VNIS "SOFTFABRIC_CXI=svc=1:vnis=10+11,2:uid=4242,3:enabled=no"
const struct ct_test cxi_tests[] = {
	{"cxi_sep", cxi_sep, FI_MSG | FI_NAMED_RX_CTX, 0, GENS, SEP_CAPS, NULL, "cxi"},
	{"cxi_shared", cxi_shared, FI_MSG | FI_TAGGED, 0, GENS, NULL, NULL, "cxi"},
	{"cxi_domains", cxi_domains, FI_MSG, 0, SOLO, NULL, NULL, "cxi"},
	{"cxi_alias", cxi_alias, FI_MSG, 0, 0, NULL, NULL, "cxi"},
	{"cxi_pid", cxi_pid, FI_MSG, 0, CT_SOLO, NULL, NULL, "cxi"},
	{"cxi_vni", cxi_vni, FI_MSG, 0, SOLO, NULL, TWO_VNIS, "cxi"},
	{"cxi_refused", cxi_refused, FI_MSG, 0, CT_SOLO, NULL, TWO_VNIS, "cxi"},
	{"cxi_client_keys", cxi_client_keys, FI_RMA, 0, SOLO, "mr_key_size", NULL, "cxi"},
	{"cxi_prov_keys", cxi_prov_keys, FI_RMA, 0, SOLO, "mr:FI_MR_PROV_KEY", NULL, "cxi"},
	{"cxi_writedata", cxi_writedata, FI_MSG | FI_RMA, 0, 0, NULL, "FI_CXI_ENABLE_WRITEDATA=1", "cxi"},
	{"cxi_mr_errors", cxi_mr_errors, FI_MSG | FI_RMA, 0, CT_SOLO, "mr:FI_MR_ENDPOINT", NULL, "cxi"},
	{"cxi_rma_event", cxi_rma_event, FI_RMA | FI_RMA_EVENT, 0, GENS, "FI_RMA_EVENT", NULL, "cxi"},
	/* its message to an endpoint that closes may be sent again, when there is no segment any more */
	{"cxi_match_complete", cxi_match_complete, FI_TAGGED, 0, GENS | CT_ANY_PATH, "op:FI_MATCH_COMPLETE", NULL,
	 "cxi"},
	{"cxi_rdzv", cxi_rdzv, FI_TAGGED | FI_MSG, 0, GENS | CT_LOSSY, NULL, NULL, "cxi"},
	{"cxi_rdzv_alt", cxi_rdzv, FI_TAGGED | FI_MSG, 0, 0, NULL, "FI_CXI_RDZV_PROTO=alt_read", "cxi"},
	{"cxi_limits", cxi_limits, FI_TAGGED | FI_MSG | FI_RMA, 0, CT_SOLO, LIMITS, NULL, "cxi"},
	{"cxi_source_err", cxi_source_err, FI_MSG | FI_SOURCE | FI_SOURCE_ERR, 0, SOLO, "FI_SOURCE_ERR", NULL, "cxi"},
	{"cxi_fence", cxi_fence, FI_RMA | FI_FENCE, 0, GENS, "FI_FENCE op:FI_FENCE order:FI_ORDER_WAW", NULL, "cxi"},
	{0},
};
