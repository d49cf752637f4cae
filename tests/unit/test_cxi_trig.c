// SPDX-License-Identifier: BSD-2-Clause
// Deferred work whose endpoint, context or counters close before it has ended, and what counters say of it.
#include <rdma/fi_trigger.h>

#include "cxi_fix.h"
#include "nic/cassini/cassini_int.h"
#include "prov/cxi/cxi_rxc.h"

#define WAIT_NS	   (unit_slow() * 10 * NS_PER_SEC)
#define CLOSE_NS   (2 * NS_PER_SEC) /* fi_close() waits longer for what is under way */
#define NEVER	   1000u	    /* a count that is not reached */

struct world {
	struct cxi_fix f;
	struct cxi_fix_ep e;
	struct fid_cntr *trig, *done;
};

static struct fid_cntr *cntr_open(const struct cxi_fix *f)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *c;

	assert_int_equal(fi_cntr_open(f->domain, &attr, &c, NULL), 0);
	return c;
}

static void world_open(struct world *w)
{
	*w = (struct world){0};
	cxi_fix_open(&w->f);
	cxi_fix_ep_open(&w->e, &w->f);
	w->trig = cntr_open(&w->f);
	w->done = cntr_open(&w->f);
}

static void world_close(struct world *w)
{
	if (w->e.ep)
		cxi_fix_ep_close(&w->e);
	assert_int_equal(fi_close(&w->trig->fid), 0);
	if (w->done)
		assert_int_equal(fi_close(&w->done->fid), 0);
	cxi_fix_close(&w->f);
}

/* Triggered commands that wait in the adapter. */
static uint32_t waiting(const struct cxi_fix *f)
{
	struct cxi_domain *d = cxi_fix_domain(f);
	uint32_t used, max;

	lock_acquire(&d->kit.lock);
	cassini_rsrc(d->lni, CASSINI_RSRC_TLE, &used, &max);
	lock_release(&d->kit.lock);
	return used;
}

static char g_out[8] = "abc", g_in[8];

/* A message of @ep to its address vector's first entry, when w->trig has counted @threshold. */
static void send_later(struct world *w, struct fid_ep *ep, uint64_t threshold, uint64_t flags)
{
	struct iovec iov = {g_out, sizeof(g_out)};
	struct fi_op_msg op = {.ep = ep, .msg = {.msg_iov = &iov, .iov_count = 1}, .flags = flags};
	struct fi_deferred_work work = {.threshold = threshold, .triggering_cntr = w->trig, .completion_cntr = w->done,
					.op_type = FI_OP_SEND, .op.msg = &op};

	assert_int_equal(fi_control(&w->f.domain->fid, FI_QUEUE_WORK, &work), 0);
}

static void close_quickly(struct fid *fid)
{
	uint64_t begin = clk_now_ns(NULL);

	assert_int_equal(fi_close(fid), 0);
	assert_in_range(clk_now_ns(NULL) - begin, 0, unit_slow() * CLOSE_NS);
}

/* --- what would do it closes --------------------------------------------------------------------- */

static void close__of_the_endpoint(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	send_later(&w, w.e.ep, NEVER, 0);
	assert_int_equal(waiting(&w.f), 1);
	close_quickly(&w.e.ep->fid);
	assert_int_equal(waiting(&w.f), 0);
	assert_int_equal(fi_close(&w.e.cq->fid), 0);
	assert_int_equal(fi_close(&w.e.av->fid), 0);
	w.e.ep = NULL;
	assert_int_equal(fi_cntr_add(w.trig, NEVER), 0);
	assert_int_equal(fi_cntr_read(w.done), 0);
	world_close(&w);
}

/* The scalable endpoint stays open, and so does the Domain by which the context would have sent. */
static void close__of_a_context(void **state)
{
	struct world w = {0};
	struct fid_ep *tx[2];

	(void)state;
	cxi_fix_sep_open(&w.f, &w.e, tx);
	w.trig = cntr_open(&w.f);
	w.done = cntr_open(&w.f);
	assert_int_equal(fi_av_insertsvc(w.e.av, "1", "1", NULL, 0, NULL), 1);
	for (int i = 0; i < 2; i++)
		send_later(&w, tx[i], NEVER, 0);
	assert_int_equal(waiting(&w.f), 2);
	close_quickly(&tx[0]->fid);
	assert_int_equal(waiting(&w.f), 1);
	close_quickly(&tx[1]->fid);
	assert_int_equal(waiting(&w.f), 0);
	assert_int_equal(fi_cntr_add(w.trig, NEVER), 0);
	world_close(&w);
}

/* The shared context lives on, with room for as many operations as ever. */
static void close__of_a_user_of_a_shared_context(void **state)
{
	struct world w = {0};
	struct fid_stx *stx;

	(void)state;
	cxi_fix_open(&w.f);
	w.trig = cntr_open(&w.f);
	w.done = cntr_open(&w.f);
	assert_int_equal(fi_stx_context(w.f.domain, NULL, &stx, NULL), 0);
	cxi_fix_ep_make(&w.e, &w.f);
	assert_int_equal(fi_ep_bind(w.e.ep, &stx->fid, 0), 0);
	assert_int_equal(cxi_fix_ep_enable(&w.e), 0);
	send_later(&w, w.e.ep, NEVER, 0);
	assert_int_equal(container_of(stx, struct cxi_txc, stx)->used, 1);
	close_quickly(&w.e.ep->fid);
	assert_int_equal(container_of(stx, struct cxi_txc, stx)->used, 0);
	assert_int_equal(fi_close(&w.e.cq->fid), 0);
	assert_int_equal(fi_close(&w.e.av->fid), 0);
	w.e.ep = NULL;
	assert_int_equal(fi_close(&stx->fid), 0);
	world_close(&w);
}

/* It is under way to who does not answer, so fi_close() gives up. What comes of it is told to nobody. */
static void close__of_who_is_not_answered(void **state)
{
	static uint64_t v;
	struct iovec iov = {&v, sizeof(v)};
	struct fi_rma_iov rma = {0, sizeof(v), 1};
	size_t len = sizeof(struct cxi_addr);
	struct fi_deferred_work work;
	struct world w, far;
	struct fi_op_rma op;
	struct cxi_addr to;
	struct lock *lock;
	fi_addr_t at;

	(void)state;
	world_open(&w);
	world_open(&far);
	assert_int_equal(fi_getname(&far.e.ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(w.e.av, &to, 1, &at, 0, NULL), 1);
	op = (struct fi_op_rma){.ep = w.e.ep, .msg = {&iov, NULL, 1, at, &rma, 1, NULL, 0}};
	work = (struct fi_deferred_work){.threshold = 1, .triggering_cntr = w.trig, .completion_cntr = w.done,
					 .op_type = FI_OP_READ, .op.rma = &op};
	lock = &cxi_fix_domain(&far.f)->kit.lock;
	lock_acquire(lock);
	assert_int_equal(fi_control(&w.f.domain->fid, FI_QUEUE_WORK, &work), 0);
	assert_int_equal(fi_cntr_add(w.trig, 1), 0);
	cxi_fix_ep_close(&w.e);
	w.e.ep = NULL;
	lock_release(lock);
	assert_int_equal(fi_cntr_read(w.done) + fi_cntr_readerr(w.done), 0);
	world_close(&w);
	world_close(&far);
}

/* --- the counter that would tell closes ---------------------------------------------------------- */

struct named {
	const struct cassini_ct *ct;
	unsigned cnt;
};

static void tx_look(void *obj, void *arg)
{
	const struct cxi_tx *tx = obj;
	struct named *n = arg;

	n->cnt += tx->done == n->ct || tx->cmd.ct == n->ct;
}

static void rx_look(void *obj, void *arg)
{
	const struct cxi_rx *rx = obj;
	struct named *n = arg;

	n->cnt += rx->done == n->ct;
}

/* Operations of the endpoint that would count there. */
static unsigned named(const struct world *w, const struct cassini_ct *ct)
{
	const struct cxi_ep *ep = cxi_ep_of(w->e.ep);
	struct named n = {.ct = ct};

	lock_acquire(&cxi_fix_domain(&w->f)->kit.lock);
	slab_foreach(&ep->txc->txs, tx_look, &n);
	slab_foreach(&ep->rxc->rxs, rx_look, &n);
	lock_release(&cxi_fix_domain(&w->f)->kit.lock);
	return n.cnt;
}

/* Sends that nobody has matched yet, of both kinds, and a receive: they end, and count nowhere. */
static void close__of_the_completion_counter(void **state)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct iovec iov = {g_in, sizeof(g_in)};
	const struct cassini_ct *ct;
	struct fi_op_tagged op;
	struct fi_deferred_work work;
	struct world w;

	(void)state;
	world_open(&w);
	ct = container_of(w.done, struct cxi_cntr, kit.fid)->ct;
	op = (struct fi_op_tagged){
		.ep = w.e.ep, .msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 5}};
	work = (struct fi_deferred_work){.triggering_cntr = w.trig, .completion_cntr = w.done, .op_type = FI_OP_TRECV,
					 .op.tagged = &op};
	assert_int_equal(fi_control(&w.f.domain->fid, FI_QUEUE_WORK, &work), 0);
	send_later(&w, w.e.ep, 1, FI_MATCH_COMPLETE);
	send_later(&w, w.e.ep, NEVER, 0);
	assert_int_equal(fi_cntr_add(w.trig, 1), 0);
	assert_int_equal(named(&w, ct), 3);
	assert_int_equal(fi_close(&w.done->fid), 0);
	w.done = NULL;
	assert_int_equal(named(&w, ct), 0);
	assert_int_equal(fi_recv(w.e.ep, g_in, sizeof(g_in), NULL, FI_ADDR_UNSPEC, NULL), 0);
	assert_int_equal(fi_tsend(w.e.ep, g_out, sizeof(g_out), NULL, 0, 5, NULL), 0);
	while (cxi_rxc_posted(cxi_ep_of(w.e.ep)->rxc)) {
		fi_cq_read(w.e.cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	world_close(&w);
}

/* --- receives ------------------------------------------------------------------------------------ */

static void expect_counts(struct fid_cntr *c, uint64_t ok, uint64_t err)
{
	assert_int_equal(fi_cntr_read(c), ok);
	assert_int_equal(fi_cntr_readerr(c), err);
}

/* By deferred work, for messages with @tag. */
static void recv_now(struct world *w, void *context, uint64_t tag, uint64_t flags)
{
	static char in[1024];
	struct iovec iov = {in, sizeof(in)};
	struct fi_op_tagged op = {
		.ep = w->e.ep,
		.msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = tag, .context = context},
		.flags = flags};
	struct fi_deferred_work work = {
		.triggering_cntr = w->trig, .completion_cntr = w->done, .op_type = FI_OP_TRECV, .op.tagged = &op};

	assert_int_equal(fi_control(&w->f.domain->fid, FI_QUEUE_WORK, &work), 0);
}

/* @n entries of the queue, of either kind. */
static void entries_await(const struct world *w, int n)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = {0};

	while (n) {
		ssize_t ret = fi_cq_read(w->e.cq, &entry, 1);

		n -= ret == 1;
		if (ret == -FI_EAVAIL)
			n -= fi_cq_readerr(w->e.cq, &err, 0) == 1;
		assert_true(clk_now_ns(NULL) < until);
	}
}

static void sent(const struct world *w, uint64_t tag)
{
	assert_int_equal(fi_tinject(w->e.ep, g_out, sizeof(g_out), 0, tag), 0);
}

/* Each message, and each receive that is cancelled, counts once: at what tells of the work, else at the endpoint. */
static void recv__counts_once(void **state)
{
	struct world w = {0};
	struct fid_cntr *got;
	int context[3];

	(void)state;
	cxi_fix_open(&w.f);
	w.trig = cntr_open(&w.f);
	w.done = cntr_open(&w.f);
	got = cntr_open(&w.f);
	cxi_fix_ep_make(&w.e, &w.f);
	assert_int_equal(fi_ep_bind(w.e.ep, &got->fid, FI_RECV), 0);
	assert_int_equal(cxi_fix_ep_enable(&w.e), 0);
	recv_now(&w, &context[0], 1, FI_COMPLETION);
	sent(&w, 1);
	entries_await(&w, 1);
	expect_counts(w.done, 1, 0);
	recv_now(&w, &context[0], 1, FI_COMPLETION);
	assert_int_equal(fi_cancel(&w.e.ep->fid, &context[0]), 0);
	entries_await(&w, 1);
	expect_counts(w.done, 1, 1);
	recv_now(&w, &context[1], 2, FI_COMPLETION | FI_MULTI_RECV);
	for (int i = 0; i < 3; i++)
		sent(&w, 2);
	entries_await(&w, 3);
	expect_counts(w.done, 4, 1);
	expect_counts(got, 0, 0);
	assert_int_equal(fi_trecv(w.e.ep, g_in, sizeof(g_in), NULL, FI_ADDR_UNSPEC, 3, 0, &context[2]), 0);
	assert_int_equal(fi_cancel(&w.e.ep->fid, &context[2]), 0);
	entries_await(&w, 1);
	expect_counts(got, 0, 1);
	assert_int_equal(fi_trecv(w.e.ep, g_in, sizeof(g_in), NULL, FI_ADDR_UNSPEC, 3, 0, &context[2]), 0);
	sent(&w, 3);
	entries_await(&w, 1);
	expect_counts(got, 1, 1);
	expect_counts(w.done, 4, 1);
	cxi_fix_ep_close(&w.e);
	w.e.ep = NULL;
	assert_int_equal(fi_close(&got->fid), 0);
	world_close(&w);
}

/* --- counters that are changed ------------------------------------------------------------------- */

/* It sets the count of successes, as the adapter's command does. That of failures is another. */
static void set__leaves_failures(void **state)
{
	struct fi_op_cntr op = {.value = 7};
	struct fi_deferred_work work;
	struct world w;

	(void)state;
	world_open(&w);
	op.cntr = w.done;
	work = (struct fi_deferred_work){.threshold = 1, .triggering_cntr = w.trig, .completion_cntr = w.done,
					 .op_type = FI_OP_CNTR_SET, .op.cntr = &op};
	assert_int_equal(fi_control(&w.f.domain->fid, FI_QUEUE_WORK, &work), -FI_EINVAL);
	work.completion_cntr = NULL;
	assert_int_equal(fi_control(&w.f.domain->fid, FI_QUEUE_WORK, &work), 0);
	assert_int_equal(fi_cntr_adderr(w.done, 2), 0);
	assert_int_equal(fi_cntr_add(w.trig, 1), 0);
	assert_int_equal(fi_cntr_read(w.done), 7);
	assert_int_equal(fi_cntr_readerr(w.done), 2);
	world_close(&w);
}

/* --- endpoints that differ from their domain ------------------------------------------------------ */

/* The profile that a triggered command, the only one, waits to go out with. */
static struct cassini_cp profile(const struct cxi_fix *f)
{
	struct cxi_domain *d = cxi_fix_domain(f);
	struct cassini_cp cp = {0};
	struct cassini_cmdq *q;

	lock_acquire(&d->kit.lock);
	LIST_FOREACH(q, &d->lni->cmdqs, all)
		if (!LIST_EMPTY(&q->trigs))
			cp = *q->cp;
	lock_release(&d->kit.lock);
	return cp;
}

/* Another endpoint of the world's domain, with a key, a class, or both of its own. */
static void other_open(struct world *w, struct cxi_fix_ep *e, uint16_t vni, uint32_t tclass)
{
	struct fi_info *own = fi_dupinfo(w->f.info);
	struct cxi_fix f = w->f;
	struct cxi_key key = {.svc_id = 1, .vni = vni};

	assert_non_null(own);
	own->tx_attr->tclass = tclass;
	if (vni) {
		own->ep_attr->auth_key = memcpy(malloc(sizeof(key)), &key, sizeof(key));
		own->ep_attr->auth_key_size = sizeof(key);
	}
	f.info = own;
	cxi_fix_ep_open(e, &f);
	fi_freeinfo(own);
}

/* Deferred work of @e, to itself, waits under such a profile, goes when it is time, and arrives. */
static void goes_out(struct world *w, struct cxi_fix_ep *e, uint64_t nr, uint16_t vni, enum cassini_tc tc)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	assert_int_equal(fi_recv(e->ep, g_in, sizeof(g_in), NULL, FI_ADDR_UNSPEC, NULL), 0);
	send_later(w, e->ep, nr, 0);
	assert_int_equal(profile(&w->f).vni, vni);
	assert_int_equal(profile(&w->f).tc, tc);
	assert_int_equal(fi_cntr_add(w->trig, 1), 0);
	cxi_fix_wait(e, 1);
	while (fi_cntr_read(w->done) != nr)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(waiting(&w->f), 0);
}

/* Each in the VNI and the class of its endpoint, the domain's own before and after. */
static void profile__of_the_endpoint(void **state)
{
	static const struct {
		uint16_t vni;
		uint32_t tclass;
		enum cassini_tc tc;
	} row[] = {
		{11, 0, CASSINI_TC_BEST_EFFORT},
		{0, FI_TC_LOW_LATENCY, CASSINI_TC_LOW_LATENCY},
		{12, FI_TC_DEDICATED_ACCESS, CASSINI_TC_DEDICATED_ACCESS},
	};
	struct cxi_fix_ep other[ARRAY_SIZE(row)];
	uint64_t nr = 0;
	uint16_t own;
	struct world w;

	(void)state;
	world_open(&w);
	own = cxi_fix_domain(&w.f)->key.vni;
	goes_out(&w, &w.e, ++nr, own, CASSINI_TC_BEST_EFFORT);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		other_open(&w, &other[i], row[i].vni, row[i].tclass);
		goes_out(&w, &other[i], ++nr, row[i].vni ? row[i].vni : own, row[i].tc);
	}
	send_later(&w, other[0].ep, NEVER, 0);
	close_quickly(&other[0].ep->fid); /* takes it out of whichever queue it waits in */
	assert_int_equal(waiting(&w.f), 0);
	assert_int_equal(fi_close(&other[0].cq->fid), 0);
	assert_int_equal(fi_close(&other[0].av->fid), 0);
	for (size_t i = 1; i < ARRAY_SIZE(row); i++)
		cxi_fix_ep_close(&other[i]);
	goes_out(&w, &w.e, ++nr, own, CASSINI_TC_BEST_EFFORT);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close__of_the_endpoint),
		cmocka_unit_test(close__of_a_context),
		cmocka_unit_test(close__of_a_user_of_a_shared_context),
		cmocka_unit_test(close__of_who_is_not_answered),
		cmocka_unit_test(close__of_the_completion_counter),
		cmocka_unit_test(recv__counts_once),
		cmocka_unit_test(set__leaves_failures),
		cmocka_unit_test(profile__of_the_endpoint),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
