// SPDX-License-Identifier: BSD-2-Clause
// What the tests of the cxi provider share: its objects, opened without the core, so that they do not depend on the
// local libfabric.
#ifndef SF_TESTS_UNIT_CXI_FIX_H
#define SF_TESTS_UNIT_CXI_FIX_H

#include <string.h>

#include "base/clock.h"
#include "kit/compat.h"
#include "prov/cxi/cxi.h"
#include "unit.h"

struct fi_provider *fi_prov_ini(void);

struct cxi_fix {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

/* Group setup: the provider as the core would start it. Rooms and keys of the tester's environment do not matter. */
static inline int cxi_fix_init(void **state)
{
	(void)state;
	unsetenv("SOFTFABRIC_CXI");
	unsetenv("SOFTFABRIC_CONF");
	unsetenv("SLINGSHOT_VNIS");
	unsetenv("SLINGSHOT_DEVICES");
	unsetenv("SLINGSHOT_SVC_IDS");
	return !fi_prov_ini();
}

/* The first info for @hints (NULL: none), which are freed. */
static inline struct fi_info *cxi_fix_info(uint32_t version, struct fi_info *hints)
{
	struct fi_info *info = NULL;

	assert_int_equal(cxi_getinfo(version, NULL, NULL, 0, hints, &info), 0);
	assert_non_null(info);
	fi_freeinfo(hints);
	return info;
}

/* The infos for @hints (NULL: none): @want is what fi_getinfo() has to say. */
static inline struct fi_info *cxi_fix_get(uint32_t version, struct fi_info *hints, int want)
{
	struct fi_info *info = NULL;

	assert_int_equal(cxi_getinfo(version, NULL, NULL, 0, hints, &info), want);
	assert_int_equal(info != NULL, want == 0);
	return info;
}

/* The same; @hints are freed. */
static inline struct fi_info *cxi_fix_ask(struct fi_info *hints, int want)
{
	struct fi_info *info = cxi_fix_get(FI_VERSION(1, 17), hints, want);

	fi_freeinfo(hints);
	return info;
}

/*
 * Keys come with the address vectors, as many as there may be: 0 says so where the core has the field, 1 is what
 * getinfo gives.
 */
static inline void cxi_fix_av_keys(struct fi_info *info)
{
	size_t at = offsetof(struct kit_domain_attr_ext, max_ep_auth_key);

	info->domain_attr->auth_key_size = KIT_AV_AUTH_KEY;
	memset((uint8_t *)info->domain_attr + at, 0, sizeof(size_t));
}

static inline struct cxi_domain *cxi_fix_domain(const struct cxi_fix *f)
{
	return container_of(f->domain, struct cxi_domain, kit.fid);
}

/* @info is owned from now on. */
static inline void cxi_fix_open_info(struct cxi_fix *f, struct fi_info *info)
{
	f->info = info;
	assert_int_equal(cxi_fabric_open(info->fabric_attr, &f->fabric, NULL), 0);
	assert_int_equal(fi_domain(f->fabric, info, &f->domain, NULL), 0);
}

static inline void cxi_fix_open(struct cxi_fix *f)
{
	cxi_fix_open_info(f, cxi_fix_info(FI_VERSION(1, 17), NULL));
}

static inline void cxi_fix_close(struct cxi_fix *f)
{
	assert_int_equal(fi_close(&f->domain->fid), 0);
	assert_int_equal(fi_close(&f->fabric->fid), 0);
	fi_freeinfo(f->info);
}

/* An enabled endpoint with what belongs to it, whose address is its own AV's entry 0. */
struct cxi_fix_ep {
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

static inline void cxi_fix_ep_close(struct cxi_fix_ep *e)
{
	assert_int_equal(fi_close(&e->ep->fid), 0);
	assert_int_equal(fi_close(&e->cq->fid), 0);
	assert_int_equal(fi_close(&e->av->fid), 0);
}

/* One that is not enabled yet, whose completions can be waited for by @wait_obj. */
static inline void cxi_fix_ep_make_as(struct cxi_fix_ep *e, const struct cxi_fix *f, enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait_obj};
	struct fi_av_attr av = {0};

	assert_int_equal(fi_av_open(f->domain, &av, &e->av, NULL), 0);
	assert_int_equal(fi_cq_open(f->domain, &cq, &e->cq, NULL), 0);
	assert_int_equal(fi_endpoint(f->domain, f->info, &e->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(e->ep, &e->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), 0);
}

static inline void cxi_fix_ep_make(struct cxi_fix_ep *e, const struct cxi_fix *f)
{
	cxi_fix_ep_make_as(e, f, FI_WAIT_NONE);
}

/* What follows cxi_fix_ep_make(). Return: what fi_enable() says; unless 0, nothing is open. */
static inline int cxi_fix_ep_enable(struct cxi_fix_ep *e)
{
	struct cxi_addr self;
	size_t len = sizeof(self);
	int ret = fi_enable(e->ep);

	if (ret) {
		cxi_fix_ep_close(e);
		return ret;
	}
	assert_int_equal(fi_getname(&e->ep->fid, &self, &len), 0);
	assert_int_equal(fi_av_insert(e->av, &self, 1, NULL, 0, NULL), 1);
	return 0;
}

static inline int cxi_fix_ep_try(struct cxi_fix_ep *e, const struct cxi_fix *f)
{
	cxi_fix_ep_make(e, f);
	return cxi_fix_ep_enable(e);
}

static inline void cxi_fix_ep_open(struct cxi_fix_ep *e, const struct cxi_fix *f)
{
	assert_int_equal(cxi_fix_ep_try(e, f), 0);
}

/*
 * A scalable endpoint in a domain of its own, with two transmit contexts that are enabled and make their completions in
 * @e->cq.
 */
static inline void cxi_fix_sep_open(struct cxi_fix *f, struct cxi_fix_ep *e, struct fid_ep *tx[2])
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	struct fi_info *h = fi_allocinfo();
	struct fi_av_attr av_attr = {0};

	assert_non_null(h);
	h->ep_attr->tx_ctx_cnt = h->ep_attr->rx_ctx_cnt = 2;
	cxi_fix_open_info(f, cxi_fix_info(FI_VERSION(1, 17), h));
	assert_int_equal(fi_av_open(f->domain, &av_attr, &e->av, NULL), 0);
	assert_int_equal(fi_cq_open(f->domain, &cq_attr, &e->cq, NULL), 0);
	assert_int_equal(fi_scalable_ep(f->domain, f->info, &e->ep, NULL), 0);
	assert_int_equal(fi_scalable_ep_bind(e->ep, &e->av->fid, 0), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_tx_context(e->ep, i, NULL, &tx[i], NULL), 0);
		assert_int_equal(fi_ep_bind(tx[i], &e->cq->fid, FI_TRANSMIT), 0);
		assert_int_equal(fi_enable(tx[i]), 0);
	}
}

/* The adapter alone is at work for @e, until @eq has something to say, which nobody reads. */
static inline void cxi_fix_await_event(const struct cxi_fix *f, struct cassini_eq *eq, const struct cxi_fix_ep *e,
				       int cnt)
{
	struct lock *lock = &cxi_fix_domain(f)->kit.lock;
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC;

	lock_acquire(lock);
	while (!cassini_eq_peek(eq)) {
		for (int i = 0; i < cnt; i++)
			cassini_dom_poll(cxi_ep_of(e[i].ep)->portal->dom[0]);
		assert_true(clk_now_ns(NULL) < until);
	}
	lock_release(lock);
}

/* @n completions; a wrong one, or none for 10 s, fails. */
static inline void cxi_fix_wait(const struct cxi_fix_ep *e, int n)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;

	while (n) {
		ssize_t ret = fi_cq_read(e->cq, &entry, 1);

		assert_true(ret == 1 || ret == -FI_EAGAIN);
		n -= ret == 1;
		assert_true(clk_now_ns(NULL) < until);
	}
}

#endif
