// SPDX-License-Identifier: BSD-2-Clause
// Memory regions of the cxi provider: match events, keys after their regions are gone, and writes with data.
#include "base/mem.h"
#include "cxi_fix.h"
#include "fi_cxi_ext.h"
#include "fi_ext_softfabric.h"
#include "prov/cxi/cxi_ep_int.h"

/* Two endpoints of one domain: @e[0] works on regions of @e[1]. */
struct rma_fix {
	struct cxi_fix f;
	struct cxi_fix_ep e[2];
	fi_addr_t target; /* in e[0]'s AV */
};

static struct fi_info *info_for(uint64_t mr_mode)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->caps = FI_MSG | FI_RMA | FI_ATOMIC;
	h->domain_attr->mr_mode = mr_mode;
	return cxi_fix_info(FI_VERSION(1, 17), h);
}

static void open_both(struct rma_fix *r)
{
	struct cxi_addr addr;
	size_t len = sizeof(addr);

	cxi_fix_ep_open(&r->e[0], &r->f);
	cxi_fix_ep_open(&r->e[1], &r->f);
	assert_int_equal(fi_getname(&r->e[1].ep->fid, &addr, &len), 0);
	assert_int_equal(fi_av_insert(r->e[0].av, &addr, 1, &r->target, 0, NULL), 1);
}

static void close_both(struct rma_fix *r)
{
	cxi_fix_ep_close(&r->e[0]);
	cxi_fix_ep_close(&r->e[1]);
	cxi_fix_close(&r->f);
}

static struct fid_mr *region(const struct rma_fix *r, void *mem, size_t len, uint64_t key)
{
	struct fid_mr *mr;

	assert_int_equal(fi_mr_reg(r->f.domain, mem, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &mr, NULL), 0);
	assert_int_equal(fi_mr_bind(mr, &r->e[1].ep->fid, 0), 0);
	assert_int_equal(fi_mr_enable(mr), 0);
	return mr;
}

/* The target polls, too, if asked. Return: 0 or the error of the completion. */
static int end_of_one(const struct rma_fix *r, bool target_polls)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(r->e[0].cq, &entry, 1)) == -FI_EAGAIN) {
		if (target_polls)
			fi_cq_read(r->e[1].cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	if (ret == 1)
		return 0;
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(r->e[0].cq, &err, 0), 1);
	return err.err;
}

/* One write, one read, one atomic: two events each, if they are asked for. */
static void match_events(bool on, uint64_t key, uint32_t want)
{
	struct rma_fix r;
	struct cxi_mr *mr;
	uint64_t mem[8] = {0}, local = 4711;
	struct fid_mr *fid;

	cxi_fix_open_info(&r.f, info_for(FI_MR_ALLOCATED | FI_MR_ENDPOINT));
	assert_int_equal(fi_control(&r.f.domain->fid, FI_OPT_CXI_SET_MR_MATCH_EVENTS, &on), 0);
	open_both(&r);
	fid = region(&r, mem, sizeof(mem), key);
	mr = container_of(fid, struct cxi_mr, fid);
	assert_int_equal(fi_write(r.e[0].ep, &local, 8, NULL, r.target, 8, key, NULL), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(mem[1], 4711);
	assert_int_equal(fi_read(r.e[0].ep, &local, 8, NULL, r.target, 0, key, NULL), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(local, 0);
	local = 1;
	assert_int_equal(fi_atomic(r.e[0].ep, &local, 1, NULL, r.target, 8, key, FI_UINT64, FI_SUM, NULL), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(mem[1], 4712);
	fi_cq_read(r.e[1].cq, NULL, 0);
	assert_int_equal(mr->matched, want);
	assert_int_equal(mr->ended, want);
	assert_int_equal(fi_close(&fid->fid), 0);
	close_both(&r);
}

static void match_events__count_what_peers_do(void **state)
{
	(void)state;
	match_events(true, 4711, 3);
	match_events(false, 4711, 0);
	match_events(true, 7, 0); /* a region with a portal table entry of its own makes no events */
}

/* Nobody of the domain makes progress: the last events lie in a queue when the region goes, and name it. */
static void match_events__close_takes_the_last(void **state)
{
	struct rma_fix r;
	uint64_t local[5], until_ns = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	uint64_t mem[8] = {0}, seen = 0;
	struct fid_mr *fid;
	bool on = true;

	(void)state;
	cxi_fix_open_info(&r.f, info_for(FI_MR_ALLOCATED | FI_MR_ENDPOINT));
	assert_int_equal(fi_control(&r.f.domain->fid, FI_OPT_CXI_SET_MR_MATCH_EVENTS, &on), 0);
	open_both(&r);
	fid = region(&r, mem, sizeof(mem), 4711);
	for (uint64_t i = 0; i < 5; i++) {
		local[i] = i + 1;
		assert_int_equal(fi_write(r.e[0].ep, &local[i], 8, NULL, r.target, 0, 4711, NULL), 0);
		while (seen != i + 1 && clk_now_ns(NULL) < until_ns) { /* the adapter's thread takes it in */
			lock_acquire(&cxi_fix_domain(&r.f)->kit.lock);
			seen = mem[0];
			lock_release(&cxi_fix_domain(&r.f)->kit.lock);
			sched_yield();
		}
	}
	lock_acquire(&cxi_fix_domain(&r.f)->kit.lock);
	assert_non_null(cassini_eq_peek(cxi_ep_of(r.e[1].ep)->portal->eq));
	lock_release(&cxi_fix_domain(&r.f)->kit.lock);
	assert_int_equal(fi_close(&fid->fid), 0);
	lock_acquire(&cxi_fix_domain(&r.f)->kit.lock);
	assert_null(cassini_eq_peek(cxi_ep_of(r.e[1].ep)->portal->eq));
	lock_release(&cxi_fix_domain(&r.f)->kit.lock);
	for (int i = 0; i < 5; i++)
		assert_int_equal(end_of_one(&r, false), 0);
	assert_int_equal(fi_write(r.e[0].ep, local, 8, NULL, r.target, 0, 4711, NULL), 0);
	assert_int_equal(end_of_one(&r, true), FI_EIO);
	close_both(&r);
}

/* --- flags and options of one-sided operations --------------------------------------------------- */

static uint64_t restricted(const struct rma_fix *r)
{
	struct fi_softfabric_ops_stats *ops = NULL;
	uint64_t v = 0;

	assert_int_equal(fi_open_ops(&r->f.domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->read(r->f.domain, "ixe_rx_ptl_restricted_pkt", &v), 0);
	return v;
}

static ssize_t write_flags(const struct rma_fix *r, uint64_t key, uint64_t flags)
{
	static uint64_t v = 9;
	struct iovec iov = {&v, 8};
	struct fi_rma_iov at = {0, 8, key};
	struct fi_msg_rma m = {.msg_iov = &iov, .iov_count = 1, .addr = r->target, .rma_iov = &at, .rma_iov_count = 1};

	return fi_writemsg(r->e[0].ep, &m, flags | FI_COMPLETION);
}

static ssize_t atomic_flags(const struct rma_fix *r, uint64_t key, uint64_t flags)
{
	static uint64_t v = 1;
	struct fi_ioc ioc = {&v, 1};
	struct fi_rma_ioc at = {0, 1, key};
	struct fi_msg_atomic m = {.msg_iov = &ioc, .iov_count = 1, .addr = r->target, .rma_iov = &at,
				  .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM};

	return fi_atomicmsg(r->e[0].ep, &m, flags | FI_COMPLETION);
}

/*
 * Restricted and high-rate operations go to regions with an entry of their own only; an order that is asked for later
 * ends them.
 */
static void flags__restricted_and_high_rate(void **state)
{
	uint64_t mem[8] = {0}, order = FI_ORDER_RMA_WAW;
	struct fi_fid_var var = {.name = (int)FI_OPT_CXI_SET_MSG_ORDER, .val = &order};
	struct fid_mr *own, *shared;
	struct rma_fix r;

	(void)state;
	cxi_fix_open_info(&r.f, info_for(FI_MR_ALLOCATED | FI_MR_ENDPOINT));
	r.f.info->tx_attr->msg_order = r.f.info->rx_attr->msg_order = 0;
	open_both(&r);
	own = region(&r, mem, sizeof(mem), 3);
	shared = region(&r, mem, sizeof(mem), 4711);
	assert_int_equal(write_flags(&r, 3, 0), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(restricted(&r), 1);
	assert_int_equal(write_flags(&r, 4711, 0), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(restricted(&r), 1);
	assert_int_equal(write_flags(&r, 3, FI_CXI_HRP), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(restricted(&r), 2);
	assert_int_equal(mem[0], 9);
	assert_int_equal(write_flags(&r, 4711, FI_CXI_HRP), -FI_EINVAL);
	assert_int_equal(atomic_flags(&r, 3, 0), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(restricted(&r), 2);
	assert_int_equal(atomic_flags(&r, 3, FI_CXI_UNRELIABLE), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(restricted(&r), 3);
	assert_int_equal(mem[0], 11);
	assert_int_equal(atomic_flags(&r, 3, FI_CXI_HRP), -FI_EINVAL); /* only with UNRELIABLE */
	assert_int_equal(atomic_flags(&r, 3, FI_CXI_PCIE_AMO), -FI_EOPNOTSUPP);
	assert_int_equal(fi_control(&r.e[0].ep->fid, FI_SET_VAL, &var), 0);
	assert_int_equal(write_flags(&r, 3, 0), 0);
	assert_int_equal(end_of_one(&r, true), 0);
	assert_int_equal(restricted(&r), 3);
	assert_int_equal(fi_close(&own->fid) | fi_close(&shared->fid), 0);
	close_both(&r);
}

/* --- the cache of provider keys ------------------------------------------------------------------ */

static void open_prov_keys(struct rma_fix *r, bool cache)
{
	cxi_fix_open_info(&r->f, info_for(FI_MR_ALLOCATED | FI_MR_ENDPOINT | FI_MR_PROV_KEY));
	assert_int_equal(fi_control(&r->f.domain->fid, FI_OPT_CXI_SET_PROV_KEY_CACHE, &cache), 0);
	open_both(r);
}

static int write_to(const struct rma_fix *r, uint64_t v, uint64_t key)
{
	assert_int_equal(fi_write(r->e[0].ep, &v, 8, NULL, r->target, 0, key, NULL), 0);
	return end_of_one(r, true);
}

static void key_cache__same_memory_same_key(void **state)
{
	struct fid_mr *mr[4], *other, *narrow, *shorter;
	uint32_t used, max, used2;
	uint64_t mem[8] = {0}, key;
	struct rma_fix r;

	(void)state;
	open_prov_keys(&r, true);
	mr[0] = region(&r, mem, sizeof(mem), 0);
	key = fi_mr_key(mr[0]);
	cassini_rsrc(cxi_fix_domain(&r.f)->lni, CASSINI_RSRC_PTE, &used, &max);
	for (int i = 1; i < 4; i++) {
		mr[i] = region(&r, mem, sizeof(mem), 0);
		assert_true(fi_mr_key(mr[i]) == key);
	}
	cassini_rsrc(cxi_fix_domain(&r.f)->lni, CASSINI_RSRC_PTE, &used2, &max);
	assert_int_equal(used, used2); /* nothing of the adapter was used for them */
	other = region(&r, mem + 1, 8, 0);
	shorter = region(&r, mem, 8, 0);
	assert_int_equal(fi_mr_reg(r.f.domain, mem, sizeof(mem), FI_REMOTE_READ, 0, 0, 0, &narrow, NULL), 0);
	assert_int_equal(fi_mr_bind(narrow, &r.e[1].ep->fid, 0), 0);
	assert_int_equal(fi_mr_enable(narrow), 0);
	assert_true(fi_mr_key(other) != key && fi_mr_key(shorter) != key && fi_mr_key(narrow) != key);
	assert_int_equal(write_to(&r, 1, fi_mr_key(narrow)), FI_EIO);
	/* whichever goes first, the last one has the entry */
	static const int order[] = {1, 0, 3, 2};
	for (int i = 0; i < 4; i++) {
		assert_int_equal(write_to(&r, (uint64_t)i + 7, key), 0);
		assert_int_equal(mem[0], i + 7);
		assert_int_equal(fi_close(&mr[order[i]]->fid), 0);
	}
	assert_int_equal(write_to(&r, 99, key), FI_EIO); /* stale */
	assert_int_equal(mem[0], 10);
	assert_int_equal(fi_close(&other->fid) | fi_close(&narrow->fid) | fi_close(&shorter->fid), 0);
	close_both(&r);
}

#define ID_BYTES 8192 /* of the bitmap of ids of keys */

/* One that could not be enabled has nothing to share, and may try again. */
static void key_cache__not_of_what_failed(void **state)
{
	bool no = false;
	struct fid_mr *mr[2];
	uint64_t mem[8] = {0};
	struct cxi_domain *d;
	struct rma_fix r;
	uint64_t *ids;

	(void)state;
	cxi_fix_open_info(&r.f, info_for(FI_MR_ALLOCATED | FI_MR_ENDPOINT | FI_MR_PROV_KEY));
	d = cxi_fix_domain(&r.f);
	assert_int_equal(fi_control(&r.f.domain->fid, FI_OPT_CXI_SET_OPTIMIZED_MRS, &no), 0);
	open_both(&r);
	assert_int_equal(fi_close(&region(&r, mem, 8, 0)->fid), 0); /* there are ids from now on */
	ids = d->prov_ids;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_mr_reg(r.f.domain, mem, sizeof(mem), FI_REMOTE_WRITE, 0, 0, 0, &mr[i], NULL), 0);
		assert_int_equal(fi_mr_bind(mr[i], &r.e[1].ep->fid, 0), 0);
	}
	lock_acquire(&d->kit.lock);
	d->prov_ids = mem_alloc(ID_BYTES);
	assert_non_null(d->prov_ids);
	memset(d->prov_ids, 0xff, ID_BYTES); /* all are taken */
	lock_release(&d->kit.lock);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_mr_enable(mr[i & 1]), -FI_ENOSPC);
	lock_acquire(&d->kit.lock);
	mem_free(d->prov_ids);
	d->prov_ids = ids;
	lock_release(&d->kit.lock);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_mr_enable(mr[i]), 0);
		assert_int_equal(write_to(&r, (uint64_t)i + 3, fi_mr_key(mr[i])), 0);
		assert_int_equal(mem[0], i + 3);
	}
	assert_int_equal(fi_close(&mr[0]->fid), 0);
	assert_int_equal(fi_close(&mr[1]->fid), 0);
	close_both(&r);
}

/* Without it, and where an entry counts for one region only, each has its own. */
static void key_cache__not_shared(void **state)
{
	struct fid_mr *a, *b, *c;
	struct fid_cntr *cntr;
	uint64_t mem[8] = {0};
	struct rma_fix r;

	(void)state;
	open_prov_keys(&r, false);
	a = region(&r, mem, sizeof(mem), 0);
	b = region(&r, mem, sizeof(mem), 0);
	assert_true(fi_mr_key(a) != fi_mr_key(b));
	assert_int_equal(fi_close(&a->fid), 0);
	assert_int_equal(write_to(&r, 5, fi_mr_key(b)), 0);
	assert_int_equal(mem[0], 5);
	assert_int_equal(fi_close(&b->fid), 0);
	close_both(&r);

	open_prov_keys(&r, true);
	a = region(&r, mem, sizeof(mem), 0);
	assert_int_equal(fi_cntr_open(r.f.domain, NULL, &cntr, NULL), 0);
	assert_int_equal(fi_mr_reg(r.f.domain, mem, sizeof(mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &c, NULL),
			 0);
	assert_int_equal(fi_mr_bind(c, &r.e[1].ep->fid, 0), 0);
	assert_int_equal(fi_mr_bind(c, &cntr->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_mr_enable(c), 0);
	assert_true(fi_mr_key(a) != fi_mr_key(c));
	assert_int_equal(write_to(&r, 6, fi_mr_key(a)), 0);
	assert_int_equal(fi_cntr_read(cntr), 0);
	assert_int_equal(write_to(&r, 6, fi_mr_key(c)), 0);
	assert_int_equal(fi_cntr_read(cntr), 1);
	/* Who reads the counter makes progress at the region's endpoint, as long as there is the region. */
	assert_int_equal(container_of(cntr, struct kit_cntr, fid)->ep_cnt, 1);
	assert_int_equal(fi_close(&a->fid) | fi_close(&c->fid), 0);
	assert_int_equal(container_of(cntr, struct kit_cntr, fid)->ep_cnt, 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
	close_both(&r);
}

/* The key of a region that has gone names nothing for as long as there are other places for new ones. */
static void stale_key__not_the_next_region(void **state)
{
	uint64_t mem[8] = {0}, next[8] = {0}, key;
	struct rma_fix r;
	struct fid_mr *mr;

	(void)state;
	open_prov_keys(&r, true);
	mr = region(&r, mem, sizeof(mem), 0);
	key = fi_mr_key(mr);
	assert_int_equal(fi_close(&mr->fid), 0);
	mr = region(&r, next, sizeof(next), 0);
	assert_int_equal(write_to(&r, 5, key), FI_EIO);
	assert_int_equal(next[0], 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	close_both(&r);
}

/* --- writes with data ----------------------------------------------------------------------------- */

/* As a process with FI_CXI_ENABLE_WRITEDATA has it. @more: capabilities. */
static void data_open(struct cxi_fix *f, uint64_t more, size_t ctx_cnt)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->caps = FI_MSG | FI_RMA | more;
	h->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->ep_attr->rx_ctx_cnt = h->ep_attr->tx_ctx_cnt = ctx_cnt;
	cxi_fix_open_info(f, cxi_fix_info(FI_VERSION(1, 17), h));
	cxi_fix_domain(f)->params.enable_writedata = true;
}

static struct fid_mr *data_region(const struct cxi_fix *f, struct fid *ep, void *mem, size_t len, void *context)
{
	struct fid_mr *mr;

	assert_int_equal(fi_mr_reg(f->domain, mem, len, FI_REMOTE_WRITE, 0, 0, 0, &mr, context), 0);
	assert_int_equal(fi_mr_bind(mr, ep, 0), 0);
	assert_int_equal(fi_mr_enable(mr), 0);
	return mr;
}

/* One to @at, which ends; what the queue @cq has to say of it then, and of whom. Return: as fi_cq_readfrom(). */
static ssize_t data_write(const struct cxi_fix_ep *from, fi_addr_t at, uint64_t key, uint64_t data, struct fid_cq *cq,
			  struct fi_cq_tagged_entry *entry, fi_addr_t *src)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	static uint64_t v = 4711;
	ssize_t ret;

	assert_int_equal(fi_writedata(from->ep, &v, sizeof(v), NULL, data, at, 0, key, NULL), 0);
	while ((ret = fi_cq_readfrom(cq, entry, 1, src)) == -FI_EAGAIN) {
		fi_cq_read(from->cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	cxi_fix_wait(from, 1);
	return ret;
}

/* FI_SOURCE says who wrote; FI_SOURCE_ERR who a stranger is. Without either nobody is asked. */
static void data__says_who_wrote(void **state)
{
	static const uint64_t caps[] = {0, FI_SOURCE, FI_SOURCE | CXI_SOURCE_ERR};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};
	uint64_t mem = 0;
	struct cxi_addr addr;
	struct rma_fix r;
	struct fid_mr *mr;
	fi_addr_t src, me;
	uint64_t key;
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		data_open(&r.f, caps[i], 0);
		open_both(&r);
		mr = data_region(&r.f, &r.e[1].ep->fid, &mem, sizeof(mem), &mem);
		key = fi_mr_key(mr);
		if (caps[i] & CXI_SOURCE_ERR) {
			assert_int_equal(data_write(&r.e[0], r.target, key, 5, r.e[1].cq, &entry, &src), -FI_EAVAIL);
			assert_int_equal(fi_cq_readerr(r.e[1].cq, &err, 0), 1);
			assert_int_equal(err.err, FI_EADDRNOTAVAIL);
			assert_int_equal(err.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
			assert_ptr_equal(err.op_context, &mem);
			assert_int_equal(err.err_data_size, sizeof(addr));
		} else {
			assert_int_equal(data_write(&r.e[0], r.target, key, 5, r.e[1].cq, &entry, &src), 1);
			assert_true(src == FI_ADDR_NOTAVAIL);
		}
		len = sizeof(addr);
		assert_int_equal(fi_getname(&r.e[0].ep->fid, &addr, &len), 0);
		assert_int_equal(fi_av_insert(r.e[1].av, &addr, 1, &me, 0, NULL), 1);
		assert_int_equal(data_write(&r.e[0], r.target, key, 6, r.e[1].cq, &entry, &src), 1);
		assert_int_equal(entry.data, 6);
		assert_ptr_equal(entry.op_context, &mem);
		assert_true(src == (caps[i] ? me : FI_ADDR_NOTAVAIL));
		assert_int_equal(fi_close(&mr->fid), 0);
		close_both(&r);
	}
}

/* It names no context: the first one that has a queue tells of it. */
static void data__to_a_scalable_endpoint(void **state)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cq_tagged_entry entry;
	struct cxi_fix f, far;
	struct cxi_fix_ep to, from;
	size_t len = sizeof(struct cxi_addr);
	struct fid_ep *rx[2];
	struct fid_cq *cq[2];
	struct cxi_addr addr;
	fi_addr_t at, src, named;
	uint64_t mem = 0, key;
	struct fid_av *av;
	struct fid_mr *mr;

	(void)state;
	data_open(&f, 0, 2);
	data_open(&far, 0, 0);
	cxi_fix_ep_open(&from, &far);
	assert_int_equal(fi_av_open(f.domain, &(struct fi_av_attr){0}, &to.av, NULL), 0);
	assert_int_equal(fi_scalable_ep(f.domain, f.info, &to.ep, NULL), 0);
	assert_int_equal(fi_scalable_ep_bind(to.ep, &to.av->fid, 0), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_cq_open(f.domain, &cq_attr, &cq[i], NULL), 0);
		assert_int_equal(fi_rx_context(to.ep, i, NULL, &rx[i], NULL), 0);
		assert_int_equal(fi_ep_bind(rx[i], &cq[i]->fid, FI_RECV), 0);
		assert_int_equal(fi_enable(rx[i]), 0);
	}
	assert_int_equal(fi_getname(&to.ep->fid, &addr, &len), 0);
	assert_int_equal(fi_av_insert(from.av, &addr, 1, &at, 0, NULL), 1);
	mr = data_region(&f, &to.ep->fid, &mem, sizeof(mem), &mem);
	key = fi_mr_key(mr);
	assert_int_equal(data_write(&from, at, key, 7, cq[0], &entry, &src), 1);
	assert_int_equal(entry.data, 7);
	assert_int_equal(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	assert_int_equal(fi_cq_read(cq[1], &entry, 1), -FI_EAGAIN);
	assert_int_equal(fi_close(&rx[0]->fid), 0);
	assert_int_equal(data_write(&from, at, key, 8, cq[1], &entry, &src), 1);
	assert_int_equal(entry.data, 8);
	assert_int_equal(fi_close(&from.ep->fid), 0);
	/* one that is named is another matter */
	assert_int_equal(fi_av_open(far.domain, &(struct fi_av_attr){.rx_ctx_bits = 1}, &av, NULL), 0);
	assert_int_equal(fi_endpoint(far.domain, far.info, &from.ep, NULL), 0);
	assert_int_equal(fi_ep_bind(from.ep, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(from.ep, &from.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(from.ep), 0);
	assert_int_equal(fi_av_insert(av, &addr, 1, &at, 0, NULL), 1);
	named = fi_rx_addr(at, 1, 1);
	assert_int_equal(fi_writedata(from.ep, &mem, sizeof(mem), NULL, 9, named, 0, key, NULL), -FI_EINVAL);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&rx[1]->fid), 0);
	assert_int_equal(fi_close(&to.ep->fid), 0);
	assert_int_equal(fi_close(&to.av->fid), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_close(&cq[i]->fid), 0);
	cxi_fix_close(&f);
	cxi_fix_ep_close(&from);
	assert_int_equal(fi_close(&av->fid), 0);
	cxi_fix_close(&far);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(match_events__count_what_peers_do),
		cmocka_unit_test(match_events__close_takes_the_last),
		cmocka_unit_test(flags__restricted_and_high_rate),
		cmocka_unit_test(key_cache__same_memory_same_key),
		cmocka_unit_test(key_cache__not_of_what_failed),
		cmocka_unit_test(key_cache__not_shared),
		cmocka_unit_test(data__says_who_wrote),
		cmocka_unit_test(data__to_a_scalable_endpoint),
		cmocka_unit_test(stale_key__not_the_next_region),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
