// SPDX-License-Identifier: BSD-2-Clause
// What the tests of flow control share: a receiver without room, and who sends to it.
#ifndef SF_TESTS_UNIT_CXI_FC_WORLD_H
#define SF_TESTS_UNIT_CXI_FC_WORLD_H

#include "cxi_fix.h"
#include "nic/cassini/cassini_tgt.h"
#include "prov/cxi/cxi_ep_int.h"
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

static inline struct cxi_domain *domain_of(const struct side *s)
{
	return cxi_fix_domain(&s->f);
}

static inline struct cassini_svc_desc *svc_of(const struct world *w)
{
	return &domain_of(&w->b)->lni->svc;
}

/* @has_entries: for buffers and receives; else b gets those that its endpoint has by itself. */
static inline void world_open_as(struct world *w, const char *mode, bool has_entries, enum fi_wait_obj wait_obj)
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

static inline void world_open(struct world *w, const char *mode, bool has_entries)
{
	world_open_as(w, mode, has_entries, FI_WAIT_NONE);
}

static inline void side_close(struct side *s)
{
	cxi_fix_ep_close(&s->e);
	cxi_fix_close(&s->f);
}

static inline void world_close(struct world *w)
{
	side_close(&w->a);
	side_close(&w->b);
}

static inline void entries_allow(const struct world *w, uint32_t more)
{
	lock_acquire(w->lock);
	svc_of(w)->max[CASSINI_RSRC_LE] += more;
	lock_release(w->lock);
}

/* What b's context is at; the adapter's thread may be at work there as well. */
static inline enum cxi_rxc_state state_of(const struct world *w)
{
	enum cxi_rxc_state state;

	lock_acquire(w->lock);
	state = w->r->state;
	lock_release(w->lock);
	return state;
}

/* How many senders stand apart. */
static inline uint32_t apart(const struct world *w)
{
	uint32_t cnt;

	lock_acquire(w->lock);
	cnt = w->r->pte->apart_cnt;
	lock_release(w->lock);
	return cnt;
}

/* How often messages were refused. */
static inline uint64_t refusals(const struct world *w)
{
	const struct cxi_fc_stats *s = &domain_of(&w->b)->stats;
	uint64_t cnt;

	lock_acquire(w->lock);
	cnt = s->fc_no_match + s->fc_req_full + s->fc_unexp;
	lock_release(w->lock);
	return cnt;
}

static inline void look(const struct side *s)
{
	fi_cq_read(s->e.cq, NULL, 0);
}

static inline void await_refusal(const struct world *w)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (!refusals(w)) {
		look(&w->a);
		look(&w->b);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* For a while nothing changes: few are tried in vain, but some. */
static inline void expect_patience(const struct world *w)
{
	uint64_t begin = clk_now_ns(NULL), before = refusals(w), ns;

	while ((ns = clk_now_ns(NULL) - begin) < QUIET_NS) {
		look(&w->a);
		look(&w->b);
	}
	/* after 100, 200 us ... 6.4 ms, and each 10 ms */
	assert_in_range(refusals(w) - before, 1, 8 + ns / (10 * NS_PER_MS) + 1);
}

static inline void tsend(const struct world *w, const char *text, uint64_t tag)
{
	assert_int_equal(fi_tsend(w->a.e.ep, text, strlen(text), NULL, w->to, tag, NULL), 0);
}

/* As a program does it, while it polls. */
static inline void trecv(const struct world *w, void *buf, size_t len, uint64_t tag)
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

static inline void await_message(const struct world *w, uint64_t tag)
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

#endif
