// SPDX-License-Identifier: BSD-2-Clause
// Flow control where it is hard to end: nothing makes room, senders say what is not true, or have gone.
#include <poll.h>

#include "cxi_fix.h"
#include "nic/cassini/cassini_tgt.h"
#include "prov/cxi/cxi_rxc.h"

#define WAIT_NS	 (unit_slow() * 10 * NS_PER_SEC)
#define QUIET_NS (100 * NS_PER_MS)
#define TAG	 7u

/* A sender and a receiver that are strangers to each other: domains of their own. */
struct side {
	struct cxi_fix f;
	struct cxi_fix_ep e;
};

struct world {
	struct side a, b;
	fi_addr_t to; /* b, as a knows it */
	struct cxi_rxc *r;
	struct lock *lock; /* of b */
	uint32_t les;	   /* list entries that its service had at first */
};

static struct cxi_domain *domain_of(const struct side *s)
{
	return cxi_fix_domain(&s->f);
}

static struct cassini_svc_desc *svc_of(const struct world *w)
{
	return &domain_of(&w->b)->lni->svc;
}

/* @has_entries: for buffers and receives; else b gets those that its endpoint has by itself. */
static void world_open_as(struct world *w, const char *mode, bool has_entries, enum fi_wait_obj wait_obj)
{
	struct cxi_params *p;
	struct cxi_addr to;
	size_t len = sizeof(to);

	*w = (struct world){0};
	cxi_fix_open(&w->a.f);
	cxi_fix_ep_open(&w->a.e, &w->a.f);
	cxi_fix_open(&w->b.f);
	p = &domain_of(&w->b)->params;
	strcpy(p->rx_match_mode, mode);
	p->req_buf_min_posted = p->req_buf_max_count = 1;
	p->req_buf_size = 32768;
	w->lock = &domain_of(&w->b)->kit.lock;
	w->les = svc_of(w)->max[CASSINI_RSRC_LE];
	if (!has_entries)
		svc_of(w)->max[CASSINI_RSRC_LE] = domain_of(&w->b)->lni->used[CASSINI_RSRC_LE] + 4;
	cxi_fix_ep_make_as(&w->b.e, &w->b.f, wait_obj);
	assert_int_equal(cxi_fix_ep_enable(&w->b.e), 0);
	w->r = cxi_ep_of(w->b.e.ep)->rxc;
	assert_int_equal(fi_getname(&w->b.e.ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(w->a.e.av, &to, 1, &w->to, 0, NULL), 1);
}

static void world_open(struct world *w, const char *mode, bool has_entries)
{
	world_open_as(w, mode, has_entries, FI_WAIT_NONE);
}

static void side_close(struct side *s)
{
	cxi_fix_ep_close(&s->e);
	cxi_fix_close(&s->f);
}

static void world_close(struct world *w)
{
	side_close(&w->a);
	side_close(&w->b);
}

static void entries_allow(const struct world *w, uint32_t more)
{
	svc_of(w)->max[CASSINI_RSRC_LE] += more;
}

/* How often messages were refused. */
static uint64_t refusals(const struct world *w)
{
	const struct cxi_fc_stats *s = &domain_of(&w->b)->stats;

	return s->fc_no_match + s->fc_req_full + s->fc_unexp;
}

static void look(const struct side *s)
{
	fi_cq_read(s->e.cq, NULL, 0);
}

static void await_refusal(const struct world *w)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (!refusals(w)) {
		look(&w->a);
		look(&w->b);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* For a while nothing changes: few are tried in vain, but some. */
static void expect_patience(const struct world *w)
{
	uint64_t begin = clk_now_ns(NULL), before = refusals(w), ns;

	while ((ns = clk_now_ns(NULL) - begin) < QUIET_NS) {
		look(&w->a);
		look(&w->b);
	}
	/* after 100, 200 us ... 6.4 ms, and each 10 ms */
	assert_in_range(refusals(w) - before, 1, 8 + ns / (10 * NS_PER_MS) + 1);
}

static void tsend(const struct world *w, const char *text, uint64_t tag)
{
	assert_int_equal(fi_tsend(w->a.e.ep, text, strlen(text), NULL, w->to, tag, NULL), 0);
}

/* As a program does it, while it polls. */
static void trecv(const struct world *w, void *buf, size_t len, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	ssize_t ret;

	while ((ret = fi_trecv(w->b.e.ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, NULL)) == -FI_EAGAIN) {
		look(&w->b);
		look(&w->a);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 0);
}

static void await_message(const struct world *w, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(w->b.e.cq, &entry, 1)) == -FI_EAGAIN) {
		look(&w->a);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 1);
	assert_int_equal(entry.tag, tag);
}

/* --- nothing makes room -------------------------------------------------------------------------- */

/* There is neither an entry for a buffer, nor a receive. Then there is one, and what was refused comes. */
static void pause__without_entries(void **state)
{
	static const char *const modes[] = {"hardware", "hybrid"};
	char in[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct world w;

		world_open(&w, modes[i], false);
		tsend(&w, "abc", TAG);
		await_refusal(&w);
		expect_patience(&w);
		entries_allow(&w, 2);
		trecv(&w, in, sizeof(in), TAG);
		await_message(&w, TAG);
		assert_memory_equal(in, "abc", 3);
		world_close(&w);
	}
}

/* A receive that does not take it is there. */
static void pause__with_another_receive(void **state)
{
	char in[2][8];
	struct world w;

	(void)state;
	world_open(&w, "hardware", false);
	entries_allow(&w, 1);
	lock_acquire(w.lock);
	w.r->domain->params.oflow_buf_min_posted = 0; /* the entry is for the receive */
	lock_release(w.lock);
	trecv(&w, in[0], sizeof(in[0]), TAG + 1);
	tsend(&w, "abc", TAG);
	await_refusal(&w);
	expect_patience(&w);
	entries_allow(&w, 1);
	trecv(&w, in[1], sizeof(in[1]), TAG);
	await_message(&w, TAG);
	assert_memory_equal(in[1], "abc", 3);
	world_close(&w);
}

/* Software has as many buffers as it may, and all are full: each receive takes a message, and all come in order. */
static void pause__without_a_request_buffer(void **state)
{
	enum { CNT = 6, LEN = 16000 };
	static char out[CNT][LEN], in[LEN];
	struct world w;

	(void)state;
	world_open(&w, "software", true);
	for (int i = 0; i < CNT; i++) {
		memset(out[i], 'a' + i, LEN);
		assert_int_equal(fi_tsend(w.a.e.ep, out[i], LEN, NULL, w.to, TAG, NULL), 0);
	}
	await_refusal(&w);
	expect_patience(&w);
	for (int i = 0; i < CNT; i++) {
		trecv(&w, in, LEN, TAG);
		await_message(&w, TAG);
		assert_memory_equal(in, out[i], LEN);
	}
	world_close(&w);
}

/* While senders wait, receives are taken: a program that tries one now and then does not have to meet a moment. */
static void pause__takes_receives(void **state)
{
	char in[8];
	struct world w;

	(void)state;
	world_open(&w, "hardware", false);
	tsend(&w, "abc", TAG);
	await_refusal(&w);
	for (uint64_t end = clk_now_ns(NULL) + 2 * QUIET_NS; clk_now_ns(NULL) < end;) {
		look(&w.a);
		look(&w.b);
	}
	while (w.r->state != CXI_RXC_ENABLED) /* but for the few that are on their way */
		look(&w.b);
	entries_allow(&w, 1);
	assert_int_equal(fi_trecv(w.b.e.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL), 0);
	await_message(&w, TAG);
	world_close(&w);
}

/*
 * A program sleeps on its descriptor, and looks when that says so. Its senders are told in time all the same: they ask
 * again only once in a second.
 */
static void pause__while_its_program_sleeps(void **state)
{
	struct pollfd fd = {.events = POLLIN};
	uint64_t until, before;
	bool is_due = true;
	struct fid *fids[1];
	struct world w;

	(void)state;
	world_open_as(&w, "hardware", false, FI_WAIT_FD);
	assert_int_equal(fi_control(&w.b.e.cq->fid, FI_GETWAIT, &fd.fd), 0);
	fids[0] = &w.b.e.cq->fid;
	tsend(&w, "abc", TAG);
	await_refusal(&w);
	until = clk_now_ns(NULL) + WAIT_NS;
	for (before = refusals(&w); refusals(&w) < before + 60;) {
		look(&w.a);
		if (!is_due && !poll(&fd, 1, 1))
			continue;
		look(&w.b);
		is_due = fi_trywait(w.b.f.fabric, fids, 1) == -FI_EAGAIN;
		assert_true(clk_now_ns(NULL) < until);
	}
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pause__without_entries),
		cmocka_unit_test(pause__with_another_receive),
		cmocka_unit_test(pause__without_a_request_buffer),
		cmocka_unit_test(pause__takes_receives),
		cmocka_unit_test(pause__while_its_program_sleeps),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
