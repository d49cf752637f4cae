// SPDX-License-Identifier: BSD-2-Clause
// An endpoint of a shared receive context closes while messages are on their way to it: the context lives on.
#include <rdma/fi_tagged.h>

#include "cxi_fix.h"
#include "prov/cxi/cxi_ep_int.h"
#include "prov/cxi/cxi_rxc.h"

#define WAIT_NS (unit_slow() * 10 * NS_PER_SEC)
#define LARGE   200000u /* fetched by who has a receive for it */

/* Two endpoints that send from one queue and receive into one: with queues of their own the first would wait for its
 * sends. */
struct world {
	struct cxi_fix f;
	struct fid_stx *stx;
	struct fid_ep *srx;
	struct cxi_fix_ep stay, go; /* @stay sends to @go, which closes */
	fi_addr_t to;		    /* @go, as @stay knows it */
	struct fi_context2 ctx[2];  /* of the receive, of the send */
	uint64_t flags;		    /* of the send */
	bool is_tagged;
};

static uint8_t from_mem[LARGE], to_mem[LARGE];

static struct cxi_rxc *rxc_of(const struct world *w)
{
	return cxi_ep_of(w->srx)->rxc;
}

static void read_events(struct world *w)
{
	struct lock *lock = &cxi_fix_domain(&w->f)->kit.lock;

	lock_acquire(lock);
	cxi_drain(rxc_of(w)->eq);
	lock_release(lock);
}

static void ep_open(const struct world *w, struct cxi_fix_ep *e)
{
	cxi_fix_ep_make(e, &w->f);
	assert_int_equal(fi_ep_bind(e->ep, &w->stx->fid, 0), 0);
	assert_int_equal(fi_ep_bind(e->ep, &w->srx->fid, 0), 0);
	assert_int_equal(fi_enable(e->ep), 0);
}

static void world_open(struct world *w, enum cxi_match_mode mode)
{
	struct fi_info *h = fi_allocinfo();
	struct cxi_addr to;
	size_t len = sizeof(to);

	*w = (struct world){0};
	assert_non_null(h);
	h->caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV;
	cxi_fix_open_info(&w->f, cxi_fix_info(FI_VERSION(1, 17), h));
	assert_int_equal(fi_stx_context(w->f.domain, w->f.info->tx_attr, &w->stx, NULL), 0);
	assert_int_equal(fi_srx_context(w->f.domain, w->f.info->rx_attr, &w->srx, NULL), 0);
	rxc_of(w)->mode = mode; /* whatever the tester's environment says; it starts with the first endpoint */
	w->f.info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	w->f.info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	ep_open(w, &w->stay);
	ep_open(w, &w->go);
	assert_int_equal(fi_getname(&w->go.ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(w->stay.av, &to, 1, &w->to, 0, NULL), 1);
	read_events(w); /* that the context has started */
}

static ssize_t send_go(struct world *w, size_t len)
{
	const struct iovec iov = {from_mem, len};
	const struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = w->to, .context = &w->ctx[1]};

	if (w->is_tagged)
		return fi_tsend(w->stay.ep, from_mem, len, NULL, w->to, 0, &w->ctx[1]);
	return fi_sendmsg(w->stay.ep, &m, w->flags | FI_COMPLETION);
}

/* The receive is nobody's yet, and gets a message for @stay. */
static void meets_stay(struct world *w, size_t len)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry = {0};
	struct cxi_addr at;
	size_t at_len = sizeof(at);
	fi_addr_t self;

	assert_int_equal(cxi_rxc_posted(rxc_of(w)), 1);
	assert_int_equal(fi_getname(&w->stay.ep->fid, &at, &at_len), 0);
	assert_int_equal(fi_av_insert(w->stay.av, &at, 1, &self, 0, NULL), 1);
	memset(from_mem, 9, len);
	assert_int_equal(fi_inject(w->stay.ep, from_mem, len, self), 0);
	while (entry.op_context != &w->ctx[0]) {
		ssize_t ret = fi_cq_read(w->stay.cq, &entry, 1);
		struct fi_cq_err_entry err = {0};

		/* a long message to @go, whose rest nobody can fetch any more, has an error */
		if (ret == -FI_EAVAIL && fi_cq_readerr(w->stay.cq, &err, 0) == 1)
			assert_ptr_equal(err.op_context, &w->ctx[1]);
		else
			assert_true(ret == 1 || ret == -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_memory_equal(to_mem, from_mem, len);
}

static void post(struct world *w, size_t len)
{
	assert_int_equal(fi_recv(w->srx, to_mem, len, NULL, FI_ADDR_UNSPEC, &w->ctx[0]), 0);
}

/* A message for @go, and what it brings to the queue that the endpoints share, which nobody has read. */
static void send_unread(struct world *w, size_t len)
{
	assert_int_equal(send_go(w, len), 0);
	cxi_fix_await_event(&w->f, rxc_of(w)->eq, &w->go, 1);
}

/* Its queue for completions stays open, to tell of what became of the receive. */
static void go_close(struct world *w)
{
	assert_int_equal(fi_close(&w->go.ep->fid), 0);
}

static void expect_canceled(struct world *w)
{
	struct fi_cq_err_entry err = {0};

	assert_int_equal(fi_cq_read(w->go.cq, NULL, 0), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(w->go.cq, &err, 0), 1);
	assert_int_equal(err.prov_errno, CASSINI_RC_CANCELED);
	assert_ptr_equal(err.op_context, &w->ctx[0]);
}

/* Nothing of @go is met any more by who polls on, and a receive that is posted now meets nothing old. */
static void live_on(struct world *w)
{
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 1000; i++)
		if (fi_cq_read(w->stay.cq, &entry, 1) == 1)
			assert_ptr_equal(entry.op_context, &w->ctx[1]);
	assert_true(TAILQ_EMPTY(&rxc_of(w)->stalled));
	assert_int_equal(fi_close(&w->go.cq->fid), 0);
	assert_int_equal(fi_close(&w->go.av->fid), 0);
	cxi_fix_ep_close(&w->stay);
	assert_int_equal(fi_close(&w->srx->fid), 0);
	assert_int_equal(fi_close(&w->stx->fid), 0);
	cxi_fix_close(&w->f);
}

/* --- a receive was posted ------------------------------------------------------------------------ */

/* The end of the adapter's own Get comes when its Domain closes, if not before. */
static void close__while_it_is_fetched(void **state)
{
	struct fi_cq_tagged_entry entry;
	struct world w;
	ssize_t ret;

	(void)state;
	world_open(&w, CXI_MATCH_HARDWARE);
	post(&w, LARGE);
	send_unread(&w, LARGE);
	read_events(&w);
	assert_int_equal(cxi_rxc_posted(rxc_of(&w)), 0);
	go_close(&w);
	ret = fi_cq_read(w.go.cq, &entry, 1);
	if (ret == 1)
		assert_ptr_equal(entry.op_context, &w.ctx[0]);
	else
		expect_canceled(&w);
	live_on(&w);
}

/* The message has come; that it has, nobody knows yet. */
static void close__before_it_is_told(void **state)
{
	struct fi_cq_tagged_entry entry;
	struct world w;

	(void)state;
	world_open(&w, CXI_MATCH_HARDWARE);
	post(&w, 3);
	send_unread(&w, 3);
	assert_int_equal(cxi_rxc_posted(rxc_of(&w)), 1);
	go_close(&w);
	assert_int_equal(fi_cq_read(w.go.cq, &entry, 1), 1);
	assert_ptr_equal(entry.op_context, &w.ctx[0]);
	live_on(&w);
}

/* Events are read when commands of @go leave no room for one more; the adapter thread makes room as it likes. */
static void read_events_without_room(struct world *w)
{
	struct lock *lock = &cxi_fix_domain(&w->f)->kit.lock;
	const struct cassini_cmd ask = {
		.opcode = CASSINI_OP_PUT,
		.pid_idx = CXI_IDX_SHARED,
		.pid = cxi_ep_of(w->stay.ep)->portal->pid,
		.nic = cxi_fix_domain(&w->f)->info.nic,
		.dom = cxi_ep_of(w->go.ep)->portal->dom[0],
		.match_bits = cxi_sh_ctrl(CXI_CTRL_ASK, 0, 0, 0),
	};
	int ret;

	lock_acquire(lock);
	while (!(ret = cxi_cps_post(&rxc_of(w)->cps, rxc_of(w)->cmdq, &ask)))
		;
	assert_int_equal(ret, -FI_EAGAIN);
	cxi_drain(rxc_of(w)->eq);
	assert_false(TAILQ_EMPTY(&rxc_of(w)->stalled));
	lock_release(lock);
}

/* Software's own Get found no room. */
static void close__before_it_can_be_fetched(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, CXI_MATCH_SOFTWARE);
	post(&w, LARGE);
	send_unread(&w, LARGE);
	read_events_without_room(&w);
	go_close(&w);
	expect_canceled(&w);
	live_on(&w);
}

/* A buffer for many remembers who had the latest, and is cancelled when that is gone. */
static void close__before_a_buffer_is_cancelled(void **state)
{
	struct iovec iov = {to_mem, sizeof(to_mem)};
	struct fi_cq_tagged_entry entry;
	struct world w;
	struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &w.ctx[0]};

	(void)state;
	world_open(&w, CXI_MATCH_SOFTWARE);
	assert_int_equal(fi_recvmsg(w.srx, &m, FI_MULTI_RECV), 0);
	send_unread(&w, 3);
	read_events(&w);
	go_close(&w);
	assert_int_equal(fi_cq_read(w.go.cq, &entry, 1), 1);
	assert_int_equal(cxi_rxc_posted(rxc_of(&w)), 1);
	assert_int_equal(fi_cancel(&w.srx->fid, &w.ctx[0]), 0);
	assert_int_equal(cxi_rxc_posted(rxc_of(&w)), 0);
	live_on(&w);
}

/* --- none was posted ----------------------------------------------------------------------------- */

/* Software holds it, and would have to fetch the rest by a Domain that is closed. */
static void close__with_an_unexpected_message(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, CXI_MATCH_SOFTWARE);
	send_unread(&w, LARGE);
	read_events(&w);
	assert_int_equal(mt_unexp_cnt(&rxc_of(&w)->sw_unexp), 1);
	go_close(&w);
	assert_int_equal(mt_unexp_cnt(&rxc_of(&w)->sw_unexp), 0);
	post(&w, LARGE);
	assert_int_equal(cxi_rxc_posted(rxc_of(&w)), 1);
	live_on(&w);
}

static void close__with_a_claimed_message(void **state)
{
	struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = 0, .ignore = ~0ULL >> (64 - CXI_TAG_BITS)};
	struct world w;

	(void)state;
	world_open(&w, CXI_MATCH_SOFTWARE);
	m.context = &w.ctx[0];
	w.is_tagged = true;
	send_unread(&w, LARGE);
	read_events(&w);
	assert_int_equal(fi_trecvmsg(w.srx, &m, FI_PEEK | FI_CLAIM), 0);
	assert_false(TAILQ_EMPTY(&rxc_of(&w)->claimed));
	go_close(&w);
	assert_int_equal(fi_trecvmsg(w.srx, &m, FI_CLAIM), -FI_EINVAL);
	live_on(&w);
}

/* Bytes that have been told of, and nobody has taken. */
static size_t held_in_buffers(const struct world *w)
{
	struct cxi_buf *b;
	size_t n = 0;

	LIST_FOREACH(b, &rxc_of(w)->bufs, link) {
		assert_true(b->released <= b->told);
		n += b->told - b->released;
	}
	return n;
}

/* The adapter holds it: a receive of who goes on must not meet it, since nobody would be told. */
static void header_of_the_adapter(size_t len, uint64_t flags, bool is_read)
{
	struct world w;

	world_open(&w, CXI_MATCH_HARDWARE);
	w.flags = flags;
	send_unread(&w, len);
	if (is_read) {
		read_events(&w);
		/* of a rendezvous its first bytes */
		assert_int_equal(held_in_buffers(&w), MIN(len, cxi_fix_domain(&w.f)->params.rdzv_eager_size));
	}
	go_close(&w);
	read_events(&w);
	assert_int_equal(held_in_buffers(&w), 0);
	post(&w, len);
	read_events(&w);
	meets_stay(&w, 3);
	live_on(&w);
}

static void close__with_a_header_of_the_adapter(void **state)
{
	(void)state;
	header_of_the_adapter(3, FI_MATCH_COMPLETE, true);
	header_of_the_adapter(3, FI_MATCH_COMPLETE, false);
	header_of_the_adapter(LARGE, 0, true);
}

/* What is told of it when it has closed takes no receive of another. */
static void closed__then_its_message_comes(void **state)
{
	const struct cassini_event ev = {.type = CASSINI_EV_PUT, .rlength = LARGE, .rendezvous = true};
	struct lock *lock;
	struct world w;

	(void)state;
	world_open(&w, CXI_MATCH_SOFTWARE);
	lock = &cxi_fix_domain(&w.f)->kit.lock;
	post(&w, LARGE);
	go_close(&w);
	lock_acquire(lock);
	cxi_sw_message(rxc_of(&w), &ev);
	lock_release(lock);
	assert_int_equal(cxi_rxc_posted(rxc_of(&w)), 1);
	assert_int_equal(mt_unexp_cnt(&rxc_of(&w)->sw_unexp), 0);
	live_on(&w);
}

/* --- flow control -------------------------------------------------------------------------------- */

static void notice(struct world *w, const struct cxi_fix_ep *at, unsigned drops)
{
	struct cassini_event ev = {.match_bits = cxi_sh_ctrl(CXI_CTRL_FC_NOTIFY, 0, 0, drops)};
	struct lock *lock = &cxi_fix_domain(&w->f)->kit.lock;

	ev.initiator = CASSINI_MATCH_ID(cxi_ep_of(w->stay.ep)->portal->pid, cxi_fix_domain(&w->f)->info.nic);
	lock_acquire(lock);
	cxi_fc_notified(rxc_of(w), cxi_ep_of(at->ep)->portal, &ev);
	lock_release(lock);
}

/* A message for @go is refused. */
static void refuse(struct world *w)
{
	struct lock *lock = &cxi_fix_domain(&w->f)->kit.lock;
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct cassini_pte *pte = rxc_of(w)->pte;
	struct cassini_pte_status before, now;

	lock_acquire(lock);
	assert_int_equal(cassini_set_state(pte, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE), 0);
	cassini_pte_status(pte, &before, NULL, 0);
	lock_release(lock);
	assert_int_equal(fi_inject(w->stay.ep, "abc", 3, w->to), 0);
	lock_acquire(lock);
	do {
		cassini_dom_poll(cxi_ep_of(w->go.ep)->portal->dom[0]);
		cassini_pte_status(pte, &now, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	} while (now.drop_count == before.drop_count);
	lock_release(lock);
}

/* Its sender said so to @go, which would tell it to resume; that the refusals add up is known later. */
static void close__while_a_sender_waits(void **state)
{
	struct cxi_rxc *r;
	struct world w;

	(void)state;
	world_open(&w, CXI_MATCH_HARDWARE);
	r = rxc_of(&w);
	refuse(&w);
	read_events(&w);
	notice(&w, &w.go, 0);
	assert_int_equal(r->state, CXI_RXC_FLOW_CONTROL);
	go_close(&w);
	notice(&w, &w.stay, 1);
	read_events(&w);
	assert_int_equal(r->state, CXI_RXC_ENABLED);
	live_on(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close__while_it_is_fetched),
		cmocka_unit_test(close__before_it_is_told),
		cmocka_unit_test(close__before_it_can_be_fetched),
		cmocka_unit_test(close__before_a_buffer_is_cancelled),
		cmocka_unit_test(close__with_an_unexpected_message),
		cmocka_unit_test(close__with_a_claimed_message),
		cmocka_unit_test(close__with_a_header_of_the_adapter),
		cmocka_unit_test(closed__then_its_message_comes),
		cmocka_unit_test(close__while_a_sender_waits),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
