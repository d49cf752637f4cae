// SPDX-License-Identifier: BSD-2-Clause
// What closes while something of its is under way, and whatever it shared lives on: an endpoint of a shared transmit
// context, a context of a scalable endpoint, an alias.
#include "cxi_fix.h"
#include "prov/cxi/cxi_ep_int.h"

#define WAIT_NS (unit_slow() * 10 * NS_PER_SEC)

/* Two endpoints that send from one queue. */
struct pair {
	struct cxi_fix f;
	struct fid_stx *stx;
	struct cxi_fix_ep e[2];
	fi_addr_t to; /* e[1], as e[0] knows it */
};

static void ep_open(struct pair *w, struct cxi_fix_ep *e)
{
	cxi_fix_ep_make(e, &w->f);
	assert_int_equal(fi_ep_bind(e->ep, &w->stx->fid, 0), 0);
	assert_int_equal(fi_enable(e->ep), 0);
}

static void pair_open(struct pair *w, uint32_t protocol)
{
	struct fi_info *h = fi_allocinfo();
	struct cxi_addr to;
	size_t len = sizeof(to);

	assert_non_null(h);
	h->ep_attr->protocol = protocol;
	h->caps = FI_MSG | FI_TAGGED;
	cxi_fix_open_info(&w->f, cxi_fix_info(FI_VERSION(1, 17), h));
	assert_int_equal(fi_stx_context(w->f.domain, w->f.info->tx_attr, &w->stx, NULL), 0);
	w->f.info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	ep_open(w, &w->e[0]);
	ep_open(w, &w->e[1]);
	assert_int_equal(fi_getname(&w->e[1].ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(w->e[0].av, &to, 1, &w->to, 0, NULL), 1);
}

/* The second one lives on, for a while; nothing of the first is seen. */
static void live_on(struct pair *w)
{
	struct cxi_txc *t = cxi_ep_of(w->e[1].ep)->txc;
	struct fi_cq_tagged_entry entry;

	lock_acquire(&cxi_fix_domain(&w->f)->kit.lock);
	assert_int_equal(t->used, 0);
	assert_true(cxi_rnr_is_idle(t));
	assert_null(t->fc);
	lock_release(&cxi_fix_domain(&w->f)->kit.lock);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(fi_cq_read(w->e[1].cq, &entry, 1), -FI_EAGAIN);
	cxi_fix_ep_close(&w->e[1]);
	assert_int_equal(fi_close(&w->stx->fid), 0);
	cxi_fix_close(&w->f);
}

/* Until the queue that the endpoints share has something to say. */
static void await_event(const struct pair *w)
{
	cxi_fix_await_event(&w->f, cxi_ep_of(w->e[0].ep)->txc->eq, w->e, 2);
}

/* Receiver not ready: the message waits for its next try, or is on its way to be refused once more. */
static void shared_close__before_the_next_try(void **state)
{
	struct cxi_txc *t;
	struct pair w;

	(void)state;
	pair_open(&w, CXI_PROTO_RNR);
	t = cxi_ep_of(w.e[0].ep)->txc;
	assert_ptr_equal(t, cxi_ep_of(w.e[1].ep)->txc);
	assert_int_equal(fi_send(w.e[0].ep, "abc", 3, NULL, w.to, NULL), 0);
	for (uint64_t until = clk_now_ns(NULL) + WAIT_NS; cxi_rnr_is_idle(t);) {
		assert_int_equal(fi_cq_read(w.e[0].cq, NULL, 0), -FI_EAGAIN);
		assert_int_equal(fi_cq_read(w.e[1].cq, NULL, 0), -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) < until);
	}
	cxi_fix_ep_close(&w.e[0]);
	live_on(&w);
}

/* Contexts are told apart by their endpoint: those of the other one who sends from the queue may be equal. */
static void shared_cancel__only_its_own(void **state)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};
	struct cxi_txc *t;
	struct pair w;
	ssize_t ret;

	(void)state;
	pair_open(&w, CXI_PROTO_RNR);
	t = cxi_ep_of(w.e[0].ep)->txc;
	assert_int_equal(fi_send(w.e[0].ep, "abc", 3, NULL, w.to, &w), 0);
	for (uint64_t until = clk_now_ns(NULL) + WAIT_NS; cxi_rnr_is_idle(t);) {
		assert_int_equal(fi_cq_read(w.e[0].cq, NULL, 0), -FI_EAGAIN);
		assert_int_equal(fi_cq_read(w.e[1].cq, NULL, 0), -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(fi_cancel(&w.e[1].ep->fid, &w), -FI_ENOENT);
	assert_int_equal(fi_cancel(&w.e[0].ep->fid, &w), 0);
	for (uint64_t until = clk_now_ns(NULL) + WAIT_NS; (ret = fi_cq_read(w.e[0].cq, &entry, 1)) == -FI_EAGAIN;)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(w.e[0].cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ECANCELED);
	cxi_fix_ep_close(&w.e[0]);
	live_on(&w);
}

/* The refusal of a message that nobody waits for lies in the queue that the endpoints share. */
static void shared_close__with_a_refusal_unread(void **state)
{
	struct lock *lock;
	struct cxi_ep *b;
	struct pair w;

	(void)state;
	pair_open(&w, 0);
	b = cxi_ep_of(w.e[1].ep);
	lock = &cxi_fix_domain(&w.f)->kit.lock;
	lock_acquire(lock);
	assert_int_equal(cassini_set_state(b->rxc->pte, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE), 0);
	lock_release(lock);
	assert_int_equal(fi_inject(w.e[0].ep, "abc", 3, w.to), 0);
	await_event(&w);
	cxi_fix_ep_close(&w.e[0]);
	live_on(&w);
}

/* A message that is fetched by who has a receive for it: that it came lies in the queue, and nobody will fetch it. */
static void shared_close__before_it_is_fetched(void **state)
{
	static uint8_t mem[200000];
	struct pair w;

	(void)state;
	pair_open(&w, 0);
	assert_int_equal(fi_send(w.e[0].ep, mem, sizeof(mem), NULL, w.to, NULL), 0);
	await_event(&w);
	assert_int_equal(cxi_ep_of(w.e[0].ep)->txc->used, 1);
	cxi_fix_ep_close(&w.e[0]);
	live_on(&w);
}

/* How many messages @e, of @f, has that nothing matched. */
static size_t unexpected(const struct cxi_fix_ep *e, const struct cxi_fix *f)
{
	struct lock *lock = &cxi_fix_domain(f)->kit.lock;
	size_t cnt;

	lock_acquire(lock);
	cnt = (size_t)cxi_unexp_list(cxi_ep_of(e->ep), NULL, NULL, 0);
	lock_release(lock);
	return cnt;
}

/* A context of a scalable endpoint, whose portal lives on: the memory is the program's again when it has closed. */
static void context_close__before_it_is_fetched(void **state)
{
	static uint8_t out[200000], in[sizeof(out)];
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};
	struct cxi_fix_ep e, to;
	struct cxi_fix f, far;
	size_t len = sizeof(struct cxi_addr);
	struct cxi_addr addr;
	struct fid_ep *tx[2];

	(void)state;
	cxi_fix_sep_open(&f, &e, tx);
	cxi_fix_open(&far);
	cxi_fix_ep_open(&to, &far);
	assert_int_equal(fi_getname(&to.ep->fid, &addr, &len), 0);
	assert_int_equal(fi_av_insert(e.av, &addr, 1, NULL, 0, NULL), 1);
	memset(out, 0x11, sizeof(out));
	assert_int_equal(fi_send(tx[0], out, sizeof(out), NULL, 0, NULL), 0);
	while (unexpected(&to, &far) != 1) {
		assert_int_equal(fi_cq_read(to.cq, &entry, 1), -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) < until);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_close(&tx[i]->fid), 0);
	memset(out, 0x77, sizeof(out));
	assert_int_equal(fi_recv(to.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
	for (until = clk_now_ns(NULL) + WAIT_NS; fi_cq_readerr(to.cq, &err, 0) != 1;) {
		fi_cq_read(to.cq, NULL, 0);
		fi_cq_read(e.cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(err.err, FI_EIO);
	assert_int_equal(err.prov_errno, CASSINI_RC_NO_TRANSLATION);
	assert_null(memchr(in, 0x77, sizeof(in)));
	cxi_fix_ep_close(&to);
	cxi_fix_close(&far);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/*
 * What a peer of a context that has closed says of its message is not said of the next message that this peer holds,
 * though that would be the next one to have the id.
 */
static void late_name(const char *match_mode, size_t len)
{
	static uint8_t out[200000], in[sizeof(out)];
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct iovec iov = {out, len};
	struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = 0};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};
	struct cxi_fix_ep e, to;
	struct cxi_fix f, far;
	size_t addr_len = sizeof(struct cxi_addr);
	struct cxi_portal *p;
	struct cxi_addr addr;
	struct fid_ep *tx[2];
	struct lock *lock;
	int ends = 0, polls = 0;
	bool is_named;

	cxi_fix_sep_open(&f, &e, tx);
	cxi_fix_open(&far);
	strcpy(cxi_fix_domain(&far)->params.rx_match_mode, match_mode);
	cxi_fix_ep_open(&to, &far);
	p = cxi_ep_of(e.ep)->portal;
	lock = &cxi_fix_domain(&f)->kit.lock;
	assert_int_equal(fi_getname(&to.ep->fid, &addr, &addr_len), 0);
	assert_int_equal(fi_av_insert(e.av, &addr, 1, NULL, 0, NULL), 1);
	for (int i = 0; i < 2; i++) {
		memset(out, 0x11 * (i + 1), len);
		assert_int_equal(fi_sendmsg(tx[i], &m, FI_COMPLETION | FI_MATCH_COMPLETE), 0);
		while (unexpected(&to, &far) != (size_t)i + 1) {
			assert_int_equal(fi_cq_read(to.cq, &entry, 1), -FI_EAGAIN);
			assert_int_equal(fi_cq_read(e.cq, &entry, 1), -FI_EAGAIN);
			assert_true(clk_now_ns(NULL) < until);
		}
		if (!i)
			assert_int_equal(fi_close(&tx[0]->fid), 0); /* which waits for its end for a while */
		until = clk_now_ns(NULL) + WAIT_NS;
		memset(p->id_hint, 0, sizeof(p->id_hint));
	}
	memset(in, 0, sizeof(in));
	assert_int_equal(fi_recv(to.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
	do {
		polls += ends != 0; /* whatever follows the end of the receive comes with the next ones */
		lock_acquire(lock);
		is_named = !p->left_cnt[0]; /* of what is not offered any more nobody hears that it is fetched */
		lock_release(lock);
		assert_int_equal(fi_cq_read(e.cq, &entry, 1), -FI_EAGAIN);
		ends += fi_cq_read(to.cq, &entry, 1) == 1;
		ends += fi_cq_readerr(to.cq, &err, 0) == 1;
		assert_true(clk_now_ns(NULL) < until);
	} while (!is_named || polls < 1000);
	assert_int_equal(ends, 1);
	assert_null(memchr(in, 0x22, sizeof(in)));
	assert_int_equal(fi_recv(to.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
	for (ends = 0; ends < 2;) {
		ends += fi_cq_read(to.cq, &entry, 1) == 1;
		ends += fi_cq_read(e.cq, &entry, 1) == 1;
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_memory_equal(in, out, len);
	assert_int_equal(fi_close(&tx[1]->fid), 0);
	cxi_fix_ep_close(&to);
	cxi_fix_close(&far);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

static void context_close__before_it_is_matched(void **state)
{
	(void)state;
	late_name("hardware", 3);
	late_name("software", 200000);
}

/*
 * A peer says that it could not fetch a message before the adapter has said that the message arrived: it ends when both
 * are there, once. Its place must not be another send's in between.
 */
static void rendezvous__fails_before_it_is_acknowledged(void **state)
{
	static uint8_t out[200000];
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct cassini_event ev = {.type = CASSINI_EV_GET, .rc = CASSINI_RC_NO_TRANSLATION};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};
	struct cxi_fix_ep e;
	struct cxi_portal *p;
	struct cxi_fix f;
	struct cxi_tx *tx;
	struct lock *lock;
	ssize_t ret;

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_open(&e, &f);
	p = cxi_ep_of(e.ep)->portal;
	lock = &cxi_fix_domain(&f)->kit.lock;
	assert_int_equal(fi_send(e.ep, out, sizeof(out), NULL, 0, &f), 0);
	lock_acquire(lock);
	tx = p->rdzv_id[0];
	assert_int_equal(tx->wait, CXI_WAIT_ACK | CXI_WAIT_GET);
	ev.dom = tx->cmd.dom;
	ev.initiator = CASSINI_MATCH_ID(tx->dest.pid, tx->dest.nic);
	ev.match_bits = cxi_sh_rdzv(0);
	cxi_rdzv_on_event(&p->rdzv_req, &ev);
	assert_int_equal(cxi_ep_of(e.ep)->txc->used, 1);
	assert_ptr_equal(p->rdzv_id[0], tx);
	lock_release(lock);
	while (fi_cq_readerr(e.cq, &err, 0) != 1) {
		ret = fi_cq_read(e.cq, &entry, 1);
		assert_true(ret == -FI_EAGAIN || ret == -FI_EAVAIL);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(err.prov_errno, CASSINI_RC_NO_TRANSLATION);
	assert_ptr_equal(err.op_context, &f);
	assert_int_equal(cxi_ep_of(e.ep)->txc->used, 0);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* It names whom to tell of the end, and is gone when that comes. */
static void alias_close__before_the_end(void **state)
{
	struct fi_context2 ctx[2];
	struct fid_ep *alias = NULL;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	char buf[8];

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(fi_ep_alias(e.ep, &alias, FI_TRANSMIT | FI_DELIVERY_COMPLETE), 0);
	assert_int_equal(fi_send(alias, "abc", 3, NULL, 0, &ctx[0]), 0);
	assert_int_equal(fi_close(&alias->fid), 0);
	assert_int_equal(fi_recv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, &ctx[1]), 0);
	cxi_fix_wait(&e, 2);
	assert_memory_equal(buf, "abc", 3);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* What it looked for is told of in its endpoint's queue, whoever asked. */
static void alias_close__before_a_peek_ends(void **state)
{
	struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = 5};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};
	struct fid_ep *alias = NULL;
	struct fi_context2 ctx;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	ssize_t ret;

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_open(&e, &f);
	m.context = &ctx;
	assert_int_equal(fi_ep_alias(e.ep, &alias, FI_RECV), 0);
	assert_int_equal(fi_trecvmsg(alias, &m, FI_PEEK), 0);
	assert_int_equal(fi_close(&alias->fid), 0);
	for (uint64_t until = clk_now_ns(NULL) + WAIT_NS; (ret = fi_cq_read(e.cq, &entry, 1)) == -FI_EAGAIN;)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(e.cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ENOMSG);
	assert_ptr_equal(err.op_context, &ctx);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* A region is bound to the endpoint, whichever of its names is given. */
static void alias_close__with_a_region_bound(void **state)
{
	struct fi_cntr_attr ca = {.events = FI_CNTR_EVENTS_COMP};
	static uint8_t mem[4096];
	struct fid_ep *alias = NULL;
	struct fid_cntr *c;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	struct fid_mr *mr;

	(void)state;
	cxi_fix_open(&f);
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(fi_ep_alias(e.ep, &alias, FI_TRANSMIT), 0);
	assert_int_equal(fi_mr_reg(f.domain, mem, sizeof(mem), FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL), 0);
	assert_int_equal(fi_cntr_open(f.domain, &ca, &c, NULL), 0);
	assert_int_equal(fi_mr_bind(mr, &c->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_mr_bind(mr, &alias->fid, 0), 0);
	assert_int_equal(fi_mr_enable(mr), 0);
	assert_int_equal(fi_close(&alias->fid), 0);
	assert_int_equal(fi_cntr_read(c), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&c->fid), 0);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_close__before_the_next_try),
		cmocka_unit_test(shared_cancel__only_its_own),
		cmocka_unit_test(shared_close__with_a_refusal_unread),
		cmocka_unit_test(shared_close__before_it_is_fetched),
		cmocka_unit_test(context_close__before_it_is_fetched),
		cmocka_unit_test(context_close__before_it_is_matched),
		cmocka_unit_test(rendezvous__fails_before_it_is_acknowledged),
		cmocka_unit_test(alias_close__before_the_end),
		cmocka_unit_test(alias_close__before_a_peek_ends),
		cmocka_unit_test(alias_close__with_a_region_bound),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
