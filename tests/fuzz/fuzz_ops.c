// SPDX-License-Identifier: BSD-2-Clause
// Sequences of API calls on two endpoints of one domain: any order, any flags, any length inside the caller's memory.
#include "fuzz.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "fuzz_prov.h"

#define MEM_LEN (512u << 10)
#define CALLS   64
#define CTXS    (2 * CALLS)

struct side {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t to[2];
};

struct world {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_mr *mr;
	struct side side[2];
	uint8_t *mem;
	uint64_t base; /* remote address of mem */
	struct fi_context2 ctx[CTXS];
	bool is_open[CTXS];
	unsigned ctx_cnt;
};

static void side_open(struct world *w, struct fi_info *info, struct side *s)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};

	FUZZ_CHECK(!fi_endpoint(w->domain, info, &s->ep, NULL));
	FUZZ_CHECK(!fi_cq_open(w->domain, &cq, &s->cq, NULL));
	FUZZ_CHECK(!fi_av_open(w->domain, &av, &s->av, NULL));
	FUZZ_CHECK(!fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	FUZZ_CHECK(!fi_ep_bind(s->ep, &s->av->fid, 0));
	FUZZ_CHECK(!fi_enable(s->ep));
}

static void world_open(struct world *w)
{
	static struct fi_provider *prov;
	struct fi_info *h = fi_allocinfo(), *info;
	uint8_t addr[2][64];
	size_t len;

	if (!prov)
		prov = fi_prov_ini();
	FUZZ_CHECK(prov && h);
	h->ep_attr->type = FI_EP_RDM;
	h->mode = FUZZ_MODE;
	h->domain_attr->mr_mode = FUZZ_MR_MODE;
	FUZZ_CHECK(!prov->getinfo(FI_VERSION(1, 18), NULL, NULL, 0, h, &info));
	FUZZ_CHECK(!prov->fabric(info->fabric_attr, &w->fabric, NULL));
	FUZZ_CHECK(!fi_domain(w->fabric, info, &w->domain, NULL));
	w->mem = calloc(1, MEM_LEN);
	FUZZ_CHECK(!fi_mr_reg(w->domain, w->mem, MEM_LEN,
			      FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
			      &w->mr, NULL));
	for (int i = 0; i < 2; i++) {
		side_open(w, info, &w->side[i]);
		len = sizeof(addr[i]);
		FUZZ_CHECK(!fi_getname(&w->side[i].ep->fid, addr[i], &len));
	}
	w->base = FUZZ_MR_MODE & FI_MR_VIRT_ADDR ? (uintptr_t)w->mem : 0;
	if (FUZZ_MR_MODE & FI_MR_ENDPOINT) { /* reached at one of the two, by offsets */
		FUZZ_CHECK(!fi_mr_bind(w->mr, &w->side[0].ep->fid, 0));
		FUZZ_CHECK(!fi_mr_enable(w->mr));
	}
	for (int i = 0; i < 4; i++)
		FUZZ_CHECK(fi_av_insert(w->side[i / 2].av, addr[i % 2], 1, &w->side[i / 2].to[i % 2], 0, NULL) == 1);
	fi_freeinfo(info);
	fi_freeinfo(h);
}

/* A completion belongs to a call that was accepted, and to no other one. */
static void poll_side(struct world *w, struct side *s)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(s->cq, &e, 1);
	void *ctx = n == 1 ? e.op_context : NULL;

	if (n == -FI_EAVAIL && fi_cq_readerr(s->cq, &err, 0) == 1)
		ctx = err.op_context;
	if (ctx && (struct fi_context2 *)ctx >= w->ctx && (struct fi_context2 *)ctx < w->ctx + CTXS) {
		bool *is_open = &w->is_open[(struct fi_context2 *)ctx - w->ctx];

		FUZZ_CHECK(*is_open);
		*is_open = false;
	}
}

struct call {
	void *buf, *desc, *ctx;
	size_t len;
	fi_addr_t to;
	uint64_t tag, flags, raddr, rkey;
	struct iovec iov;
};

static uint64_t flags_of(struct fuzz *f)
{
	static const uint64_t flag[] = {0,
					FI_COMPLETION,
					FI_INJECT,
					FI_DELIVERY_COMPLETE,
					FI_REMOTE_CQ_DATA,
					FI_MORE,
					FI_PEEK,
					FI_CLAIM,
					FI_DISCARD,
					FI_MULTI_RECV,
					FI_FENCE,
					FI_TRANSMIT_COMPLETE,
					FI_MATCH_COMPLETE};
	uint8_t n = fuzz_u8(f);

	return n == 255 ? fuzz_u64(f) : flag[n % 13] | flag[n / 16 % 13];
}

static void call_of(struct fuzz *f, struct world *w, struct side *s, struct call *c)
{
	uint32_t at = fuzz_u16(f) * 4u % MEM_LEN;

	*c = (struct call){.buf = w->mem + at, .desc = fi_mr_desc(w->mr), .ctx = &w->ctx[w->ctx_cnt]};
	c->len = fuzz_u8(f) % 4 ? fuzz_u16(f) % 10000 : (uint32_t)fuzz_u64(f) % MEM_LEN;
	if (c->len > MEM_LEN - at)
		c->len = MEM_LEN - at;
	c->to = fuzz_u8(f) == 255 ? fuzz_u64(f) : s->to[fuzz_u8(f) % 2];
	c->tag = fuzz_u8(f) % 3;
	c->flags = flags_of(f);
	c->raddr = fuzz_u8(f) == 255 ? fuzz_u64(f) : w->base + fuzz_u16(f);
	c->rkey = fuzz_u8(f) == 255 ? fuzz_u64(f) : fi_mr_key(w->mr);
	c->iov = (struct iovec){c->buf, c->len};
}

static ssize_t do_atomic(struct fuzz *f, struct side *s, struct call *c)
{
	enum fi_datatype dt = (enum fi_datatype)(fuzz_u8(f) % 20);
	enum fi_op op = (enum fi_op)(fuzz_u8(f) % 22);
	size_t cnt = c->len / 64 % 40;

	c->buf = (void *)((uintptr_t)c->buf & ~(uintptr_t)63);
	if (fuzz_u8(f) % 3 == 0)
		return fi_atomic(s->ep, c->buf, cnt, c->desc, c->to, c->raddr, c->rkey, dt, op, c->ctx);
	if (fuzz_u8(f) % 2)
		return fi_fetch_atomic(s->ep, c->buf, cnt, c->desc, c->buf, c->desc, c->to, c->raddr, c->rkey, dt, op,
				       c->ctx);
	return fi_compare_atomic(s->ep, c->buf, cnt, c->desc, c->buf, c->desc, c->buf, c->desc, c->to, c->raddr,
				 c->rkey, dt, op, c->ctx);
}

static ssize_t do_call(struct fuzz *f, struct side *s, struct call *c, uint8_t what)
{
	struct fi_msg_tagged t = {.msg_iov = &c->iov, .desc = &c->desc, .iov_count = 1, .addr = c->to, .tag = c->tag,
				  .context = c->ctx};
	struct fi_msg m = {.msg_iov = &c->iov, .desc = &c->desc, .iov_count = 1, .addr = c->to, .context = c->ctx};

	switch (what) {
	case 0: return fi_send(s->ep, c->buf, c->len, c->desc, c->to, c->ctx);
	case 1: return fi_tsend(s->ep, c->buf, c->len, c->desc, c->to, c->tag, c->ctx);
	case 2: return fi_recv(s->ep, c->buf, c->len, c->desc, FI_ADDR_UNSPEC, c->ctx);
	case 3: return fi_trecv(s->ep, c->buf, c->len, c->desc, c->to, c->tag, c->flags & 3, c->ctx);
	case 4: return fi_tsendmsg(s->ep, &t, c->flags);
	case 5: return fi_trecvmsg(s->ep, &t, c->flags);
	case 6: return fi_sendmsg(s->ep, &m, c->flags);
	case 7: return fi_recvmsg(s->ep, &m, c->flags);
	case 8: return fi_write(s->ep, c->buf, c->len, c->desc, c->to, c->raddr, c->rkey, c->ctx);
	case 9: return fi_read(s->ep, c->buf, c->len, c->desc, c->to, c->raddr, c->rkey, c->ctx);
	case 10: return fi_tinject(s->ep, c->buf, c->len, c->to, c->tag) ? -FI_EINVAL : -FI_EAGAIN;
	case 11: return do_atomic(f, s, c);
	case 12: return fi_writedata(s->ep, c->buf, c->len, c->desc, c->tag, c->to, c->raddr, c->rkey, c->ctx);
	case 13: return fi_cancel(&s->ep->fid, c->ctx) ? -FI_EINVAL : -FI_EAGAIN;
	}
	return -FI_EAGAIN;
}

static void world_close(struct world *w)
{
	if (FUZZ_MR_MODE & FI_MR_ENDPOINT)
		FUZZ_CHECK(!fi_close(&w->mr->fid));
	for (int i = 0; i < 2; i++)
		FUZZ_CHECK(!fi_close(&w->side[i].ep->fid));
	for (int i = 0; i < 2; i++) {
		FUZZ_CHECK(!fi_close(&w->side[i].cq->fid));
		FUZZ_CHECK(!fi_close(&w->side[i].av->fid));
	}
	if (!(FUZZ_MR_MODE & FI_MR_ENDPOINT))
		FUZZ_CHECK(!fi_close(&w->mr->fid));
	FUZZ_CHECK(!fi_close(&w->domain->fid));
	FUZZ_CHECK(!fi_close(&w->fabric->fid));
	free(w->mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	struct fuzz f = {data, size};

	world_open(w);
	for (int i = 0; i < CALLS && f.left; i++) {
		struct side *s = &w->side[fuzz_u8(&f) % 2];
		uint8_t what = fuzz_u8(&f) % 18;
		struct call c;

		call_of(&f, w, s, &c);
		if (what >= 14) {
			poll_side(w, s);
			continue;
		}
		w->is_open[w->ctx_cnt] = true;
		if (do_call(&f, s, &c, what))
			w->is_open[w->ctx_cnt] = false;
		else
			w->ctx_cnt++;
	}
	for (int i = 0; i < 200; i++)
		poll_side(w, &w->side[i % 2]);
	world_close(w);
	free(w);
	return 0;
}
