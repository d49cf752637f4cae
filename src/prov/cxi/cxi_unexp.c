// SPDX-License-Identifier: BSD-2-Clause
// The list of unexpected messages that the extension ep_get_unexp_msgs shows, wherever they are held. Source:
// fi_cxi(7).
#include "base/clock.h"
#include "base/mem.h"
#include "prov/cxi/cxi_rxc.h"

#define SEARCH_NS NS_PER_SEC /* the adapter reports hits as its event queue has room, which we make */

struct list {
	struct cxi_req req; /* first */
	struct cxi_ep *ep;
	struct fi_cq_tagged_entry *entry;
	fi_addr_t *src;
	size_t max, cnt;
	bool done, left; /* left: nobody waits any more */
};

static void add(struct list *l, const struct cassini_event *ev)
{
	bool rnr = l->ep->is_rnr, tagged = ev->match_bits & (rnr ? CXI_RNR_TAGGED : CXI_MB_TAGGED);
	bool data = ev->match_bits & (rnr ? CXI_RNR_CQ_DATA : CXI_MB_CQ_DATA);

	if (l->cnt++ >= l->max)
		return;
	l->entry[l->cnt - 1] = (struct fi_cq_tagged_entry){
		.flags = (tagged ? FI_TAGGED : FI_MSG) | (data ? FI_REMOTE_CQ_DATA : 0),
		.len = ev->rlength,
		.data = data ? ev->header_data : 0,
		.tag = tagged ? ev->match_bits & (rnr ? CXI_RNR_TAG_MASK : CXI_TAG_MASK) : 0,
	};
	l->src[l->cnt - 1] = cxi_rx_source(l->ep, ev->initiator, ev->vni);
}

static void on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct list *l = container_of(req, struct list, req);

	if (ev->type == CASSINI_EV_SEARCH && ev->rc == CASSINI_RC_OK) {
		if (!l->left)
			add(l, ev);
		return;
	}
	l->done = true;
	if (l->left)
		mem_free(l);
}

/*
 * All that the adapter holds. -FI_EAGAIN: not started if @l is done, else not at its end in time. Another thread may
 * have the queue's oldest event in hand and want the lock to end it; one that closes the endpoint waits.
 */
static ssize_t search(struct list *l)
{
	struct cxi_portal *p = l->ep->portal;
	const struct cassini_search s = {.ignore_bits = ~0ULL, .match_id = CASSINI_MATCH_ID_ANY,
					 .user_ptr = (uintptr_t)&l->req};
	uint64_t until = clk_now_ns(NULL) + SEARCH_NS;
	ssize_t ret = cassini_search(l->ep->rxc->pte, &s);

	l->done = ret;
	p->holds++;
	while (!ret && !l->done) {
		if (!cxi_portal_progress(p))
			kit_yield(&p->domain->kit);
		if (!l->done && clk_now_ns(NULL) > until)
			ret = -FI_EAGAIN;
	}
	p->holds--;
	return ret;
}

ssize_t cxi_unexp_list(struct cxi_ep *ep, struct fi_cq_tagged_entry *entry, fi_addr_t *src, size_t max)
{
	struct cxi_rxc *r = ep->rxc;
	struct list *l;
	ssize_t ret = 0;

	if (!r)
		return -FI_EINVAL;
	l = mem_alloc(sizeof(*l));
	if (!l)
		return -FI_ENOMEM;
	*l = (struct list){.req.on_event = on_event, .ep = ep, .entry = entry, .src = src, .max = max};
	/* what software holds came first */
	for (const struct mt_node *n = mt_unexp_first(&r->sw_unexp); n; n = mt_unexp_next(n))
		add(l, &container_of(n, struct cxi_ux, mt)->ev);
	if (!r->is_rnr && r->state == CXI_RXC_ENABLED)
		ret = search(l);
	if (ret && !l->done) {
		l->left = true; /* its last event frees it */
		return ret;
	}
	ret = ret ? ret : (ssize_t)l->cnt;
	mem_free(l);
	return ret;
}
