// SPDX-License-Identifier: BSD-2-Clause
// RX contexts: a portal table entry and what it needs.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi_rxc.h"

#define EQ_SLOTS_MIN 4096u
#define CMDQ_SPARE   64u /* notices, beside the Gets that FI_CXI_SW_RX_TX_INIT_MAX allows */

static bool has_list(const struct cxi_rxc *r, int kind)
{
	if (r->is_rnr) /* expected messages only */
		return false;
	return kind ? r->mode != CXI_MATCH_HARDWARE : r->mode != CXI_MATCH_SOFTWARE;
}

/* The class of the Gets that software issues. */
static uint32_t get_tclass(const struct cxi_domain *d, uint32_t tclass)
{
	static const struct {
		const char *name;
		uint32_t tclass;
	} row[] = {{"DEDICATED_ACCESS", FI_TC_DEDICATED_ACCESS},
		   {"LOW_LATENCY", FI_TC_LOW_LATENCY},
		   {"BULK_DATA", FI_TC_BULK_DATA},
		   {"BEST_EFFORT", FI_TC_BEST_EFFORT}};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		if (!strcasecmp(d->params.rget_tc, row[i].name))
			return row[i].tclass;
	return tclass;
}

/* The endpoint of an unexpected message has closed: like what software holds of it, it is no receive's any more. */
static void header_lost(void *user, const struct cassini_event *put)
{
	struct cxi_rxc *r = container_of(user, struct cxi_rxc, pte_req);

	cxi_buf_release(r, put->start, put->mlength);
}

static void event_dropped(void *user, const struct cassini_event *ev)
{
	cxi_buf_untold(container_of(user, struct cxi_rxc, pte_req), ev);
}

static int adapter_open(struct cxi_rxc *r, uint32_t slots)
{
	const struct cassini_pte_opts opts = {
		.is_matching = true,
		.en_flowctrl = !r->is_rnr && !r->ep->no_flow_control,
		.lossless = r->domain->params.msg_lossless,
		.no_rget = r->domain->alt_read,
		.no_atomic = true,
		.on_lost = header_lost,
		.on_dropped = event_dropped,
	};
	struct cassini_cmdq_attr cmdq = {.depth = (uint32_t)r->domain->params.sw_rx_tx_init_max + CMDQ_SPARE};
	int ret = cassini_eq_open(r->domain->lni, slots, 4, &r->eq);

	ret = ret ? ret : cxi_cp_open(r->domain, r->ep->keys[0].vni, r->tclass, &r->cp);
	cmdq.cp = r->cp;
	ret = ret ? ret : cassini_cmdq_open(r->domain->lni, &cmdq, &r->cmdq);
	ret = ret ? ret : cassini_pte_open(r->domain->lni, r->eq, &opts, &r->pte_req, &r->pte);
	if (!ret)
		cassini_pte_show(r->pte, cxi_rx_show);
	return ret;
}

static void forms_init(struct cxi_rxc *r)
{
	const struct cxi_ep *ep = r->ep;
	uint64_t rnr = FIELD_PREP(CXI_RNR_VNI, ep->keys[0].vni);
	uint64_t rnr_ignore = CXI_RNR_CQ_DATA | (ep->key_cnt > 1 ? CXI_RNR_VNI : 0);

	r->data_bit = r->is_rnr ? CXI_RNR_CQ_DATA : CXI_MB_CQ_DATA;
	for (unsigned tagged = 0; tagged < 2; tagged++) {
		struct cxi_form *f = &r->form[tagged];

		f->bits = r->is_rnr ? rnr | (tagged ? CXI_RNR_TAGGED : 0) : tagged ? CXI_MB_TAGGED : 0;
		f->ignore = r->is_rnr ? rnr_ignore : CXI_MB_IGNORE;
		f->tag_mask = !tagged ? 0 : r->is_rnr ? CXI_RNR_TAG_MASK : CXI_TAG_MASK;
		f->cqe_flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG);
	}
}

int cxi_rxc_open(struct cxi_domain *d, struct cxi_ep *ep, unsigned idx, size_t size, struct cxi_rxc **out)
{
	struct cxi_rxc *r = mem_alloc(sizeof(*r));
	int ret;

	if (!r)
		return -FI_ENOMEM;
	LIST_INSERT_HEAD(&d->rxcs, r, all);
	r->domain = d;
	r->ep = ep;
	r->idx = (uint8_t)idx;
	r->is_rnr = ep->is_rnr;
	/* a counter may start deferred work, which is not for the middle of a poll */
	r->ends_shown = ep->kind != CXI_SRX && !ep->source_err && !ep->kit.cntr[KIT_CNTR_RECV];
	r->mode = r->is_rnr ? CXI_MATCH_HARDWARE : cxi_match_mode(d);
	r->max = (uint32_t)size;
	r->tclass = get_tclass(d, ep->tclass);
	r->preempts = r->mode == CXI_MATCH_HYBRID &&
		      (d->params.hybrid_recv_preemptive || d->params.hybrid_posted_recv_preemptive);
	r->min_multi_recv = ep->min_multi_recv;
	r->pte_req.on_event = cxi_fc_on_pte;
	TAILQ_INIT(&r->rx_list);
	TAILQ_INIT(&r->stalled);
	TAILQ_INIT(&r->untold);
	TAILQ_INIT(&r->claimed);
	forms_init(r);
	mt_posted_init(&r->sw_posted);
	mt_unexp_init(&r->sw_unexp);
	ret = slab_init(&r->rxs, sizeof(struct cxi_rx), CACHE_LINE, 64, 0);
	ret = ret ? ret : slab_init(&r->uxs, sizeof(struct cxi_ux), CACHE_LINE, 64, 0);
	ret = ret ? ret : adapter_open(r, MAX(EQ_SLOTS_MIN, (uint32_t)size * 4));
	if (ret) {
		cxi_rxc_close(r);
		return ret;
	}
	*out = r;
	return 0;
}

/* Buffers for what comes unexpected, then the state in which messages are taken. */
static int start(struct cxi_rxc *r)
{
	bool soft = r->mode == CXI_MATCH_SOFTWARE;
	int ret = 0;

	for (int kind = 0; kind < 2 && !ret; kind++) {
		ret = has_list(r, kind) ? cxi_bufs_fill(r, kind) : 0;
		/* Other endpoints have all list entries: until the timer gets one it is as if the buffers were full. */
		ret = ret == -FI_EAGAIN ? 0 : ret;
	}
	if (!ret)
		ret = cassini_set_state(r->pte, soft ? CASSINI_PTE_SOFTWARE_MANAGED : CASSINI_PTE_ENABLED,
					CASSINI_DROP_IGNORE);
	if (!ret)
		cxi_rxc_set_state(r, soft ? CXI_RXC_ENABLED_SOFTWARE : CXI_RXC_ENABLED);
	return ret;
}

int cxi_rxc_map(struct cxi_rxc *r, struct cxi_portal *p, unsigned pid_idx)
{
	int ret = r->portal_cnt < (int)ARRAY_SIZE(r->portal) ? 0 : -FI_ENOSPC;
	int i;

	if (ret) {
		LOG_WARN("shared receive context not bound: %zu endpoints use it, which is the limit",
			 ARRAY_SIZE(r->portal));
		return ret;
	}
	ret = cxi_cps_add(&r->cps, p, r->tclass);
	for (i = 0; i < p->dom_cnt && !ret; i++)
		ret = cassini_pte_map(r->pte, p->dom[i], pid_idx);
	if (!ret && r->state == CXI_RXC_DISABLED)
		ret = start(r);
	if (ret) {
		while (i-- > 0)
			cassini_pte_unmap(r->pte, p->dom[i], pid_idx);
		return ret;
	}
	r->portal[r->portal_cnt++] = p;
	p->rxc[pid_idx] = r;
	p->rxc_top = MAX(p->rxc_top, (int)pid_idx + 1);
	cxi_portal_eqs(p);
	return 0;
}

void cxi_rxc_unmap(struct cxi_rxc *r, struct cxi_portal *p, unsigned pid_idx)
{
	r->cps.dom = NULL; /* memory of a Domain may be used again for another */
	for (int i = 0; i < p->dom_cnt; i++)
		cassini_pte_unmap(r->pte, p->dom[i], pid_idx);
	p->rxc[pid_idx] = NULL;
	cxi_portal_eqs(p);
	for (int i = 0; i < r->portal_cnt; i++) {
		if (r->portal[i] == p) {
			r->portal[i] = r->portal[--r->portal_cnt];
			break;
		}
	}
	cxi_ux_forget(r);
	cxi_rx_lost_forget(r);
	cxi_fc_rxc_forget(r, p);
}

void cxi_rxc_close(struct cxi_rxc *r)
{
	if (!r)
		return;
	r->closing = true; /* from here on nothing completes */
	r->ends_shown = false;
	cassini_cmdq_close(r->cmdq);
	cassini_pte_close(r->pte);
	if (r->eq)
		cxi_drain(r->eq);
	cassini_eq_close(r->eq);
	cxi_cps_close(&r->cps);
	if (r->cp)
		cassini_cp_close(r->cp);
	LIST_REMOVE(r, all);
	cxi_fc_rxc_fini(r);
	cxi_bufs_free(r);
	mt_posted_fini(&r->sw_posted);
	mt_unexp_fini(&r->sw_unexp);
	slab_fini(&r->rxs);
	slab_fini(&r->uxs);
	mem_free(r);
}

bool cxi_rxc_has_timers(const struct cxi_rxc *r)
{
	return !TAILQ_EMPTY(&r->stalled) || !TAILQ_EMPTY(&r->untold) || r->buf_short[0] || r->buf_short[1] || r->fc ||
	       r->lost_cnt;
}

int cxi_rxc_timers(struct cxi_rxc *r)
{
	int n;

	if (likely(!cxi_rxc_has_timers(r)))
		return 0;
	n = TAILQ_EMPTY(&r->stalled) ? 0 : cxi_rx_stalled(r);
	n += TAILQ_EMPTY(&r->untold) ? 0 : cxi_rx_end_untold(r);
	n += r->lost_cnt ? cxi_rx_tell_lost(r) : 0;
	for (int kind = 0; kind < 2; kind++) {
		if (!r->buf_short[kind])
			continue;
		cxi_bufs_fill(r, kind);
		n += !r->buf_short[kind];
	}
	return n + (r->fc ? cxi_fc_rxc_timers(r) : 0);
}
