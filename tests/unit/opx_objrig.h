// SPDX-License-Identifier: BSD-2-Clause
// One endpoint of opx with what belongs to it, over the fakes.
#ifndef SF_TESTS_UNIT_OPX_OBJRIG_H
#define SF_TESTS_UNIT_OPX_OBJRIG_H

#include "opx_fake.h"

static struct fake_dom dom;

/* An endpoint and what belongs to it. */
struct rig {
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

static inline int setup(void **state)
{
	(void)state;
	fake_reset(2);
	return 0;
}

static inline struct fi_info *hints_auto(void)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->domain_attr->data_progress = FI_PROGRESS_AUTO;
	return h;
}

static inline struct opx_ep *opx(const struct fid_ep *ep)
{
	return container_of(ep, struct opx_ep, kit.fid);
}

static inline void rig_open(struct rig *r, bool bind_av, uint64_t cq_flags)
{
	struct fi_av_attr av = {0};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};

	assert_int_equal(fi_av_open(dom.domain, &av, &r->av, NULL), 0);
	assert_int_equal(fi_cq_open(dom.domain, &cq, &r->cq, NULL), 0);
	assert_int_equal(fi_endpoint(dom.domain, dom.info, &r->ep, NULL), 0);
	if (bind_av)
		assert_int_equal(fi_ep_bind(r->ep, &r->av->fid, 0), 0);
	if (cq_flags)
		assert_int_equal(fi_ep_bind(r->ep, &r->cq->fid, cq_flags), 0);
}

static inline void rig_close(struct rig *r)
{
	assert_int_equal(fi_close(&r->ep->fid), 0);
	assert_int_equal(fi_close(&r->cq->fid), 0);
	assert_int_equal(fi_close(&r->av->fid), 0);
}

#endif
