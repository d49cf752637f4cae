// SPDX-License-Identifier: BSD-2-Clause
// Portals: a libcxi Domain per VNI and the portal table entry at pid_idx 255.
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi.h"

#define CTRL_EQ_SLOTS   8192u
#define CTRL_EQ_MIN     64u
#define EVENT_BYTES     64u /* of a target event, which FI_CXI_CTRL_RX_EQ_MAX_SIZE counts in */
#define CTRL_CMDQ_DEPTH 1024u

struct cassini_dom *cxi_portal_dom(const struct cxi_portal *p, uint16_t vni)
{
	for (int i = 0; i < p->dom_cnt; i++)
		if (!vni || cassini_dom_vni(p->dom[i]) == vni)
			return p->dom[i];
	return NULL;
}

/* --- profiles --- */

int cxi_cp_open(struct cxi_domain *d, uint16_t vni, uint32_t tclass, struct cassini_cp **out)
{
	enum cassini_tc tc = cxi_tc(tclass);
	int ret = cassini_cp_open(d->lni, vni, tc, CASSINI_TC_TYPE_DEFAULT, out);

	if (ret != -FI_EACCES || tc == CASSINI_TC_BEST_EFFORT)
		return ret;
	LOG_WARN("Remapping original TC from %s to BEST_EFFORT: the service does not allow it", "the requested class");
	return cassini_cp_open(d->lni, vni, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, out);
}

int cxi_cps_add(struct cxi_cps *c, const struct cxi_portal *p, uint32_t tclass)
{
	for (int i = 0; i < p->dom_cnt; i++) {
		uint16_t vni = cassini_dom_vni(p->dom[i]);
		int k = 0, ret;

		while (k < c->cnt && c->vni[k] != vni)
			k++;
		if (k < c->cnt)
			continue;
		ret = k < (int)CASSINI_LCID_MAX ? cxi_cp_open(p->domain, vni, tclass, &c->cp[k]) : -FI_ENOSPC;
		if (ret)
			return ret;
		c->vni[k] = vni;
		c->cnt++;
	}
	return 0;
}

void cxi_cps_close(struct cxi_cps *c)
{
	while (c->cnt)
		cassini_cp_close(c->cp[--c->cnt]);
}

void cxi_cps_switch(struct cxi_cps *c, struct cassini_cmdq *q, const struct cassini_dom *dom)
{
	for (int i = 0; i < c->cnt; i++)
		if (c->vni[i] == cassini_dom_vni(dom))
			cassini_cmdq_set_cp(q, c->cp[i]);
	c->dom = dom;
}

/* --- contexts that a poll drains --- */

void cxi_portal_eqs(struct cxi_portal *p)
{
	p->eq_cnt = 0;
	p->eqs[p->eq_cnt++] = p->eq;
	for (int i = 0; i < p->txc_cnt; i++)
		p->eqs[p->eq_cnt++] = p->txc[i]->eq;
	for (int i = 0; i < p->rxc_top; i++)
		if (p->rxc[i])
			p->eqs[p->eq_cnt++] = p->rxc[i]->eq;
}

int cxi_portal_add_txc(struct cxi_portal *p, struct cxi_txc *t)
{
	int ret;

	for (int i = 0; i < p->txc_cnt; i++)
		if (p->txc[i] == t)
			return 0;
	if (p->txc_cnt == CXI_CTX_MAX)
		return -FI_ENOSPC;
	ret = cxi_cps_add(&t->cps, p, t->tclass);
	if (ret)
		return ret;
	p->txc[p->txc_cnt++] = t;
	cxi_portal_eqs(p);
	return 0;
}

/* Is anything of @t under way, or of what nobody remembers? */
static bool is_busy(const struct cxi_portal *p, const struct cxi_txc *t)
{
	bool is_idle = !t->used;

	for (int i = 0; i < p->dom_cnt; i++)
		is_idle &= cassini_dom_is_idle(p->dom[i]);
	return !is_idle;
}

void cxi_portal_del_txc(struct cxi_portal *p, struct cxi_txc *t)
{
	if (is_busy(p, t))
		cxi_fc_miscounted(p); /* it may be refused yet, and other contexts may stay */
	t->cps.dom = NULL; /* memory of a Domain may be used again for another */
	cxi_fc_forget(t, p);
	cxi_rnr_forget(t, p);
	cxi_alive_forget(p, t);
	for (int i = 0; i < p->txc_cnt; i++) {
		if (p->txc[i] == t) {
			p->txc[i] = p->txc[--p->txc_cnt];
			cxi_portal_eqs(p);
			return;
		}
	}
}

/*
 * FI_MORE left a doorbell unrung, refused sends are due: rare, so looked at only every TIMER_SKIP polls, more often
 * when nothing happens.
 */
#define TIMER_SKIP 64
#define TIMER_IDLE 4 /* an idle poll counts as many */

/* The clock, which takes as long as half a poll, is read by whom something waits for time: mostly nobody. */
__attribute__((noinline)) int cxi_portal_timers(struct cxi_portal *p)
{
	int n = 0;

	p->timer_skip = 0;
	p->holds++;
	if (p->ctrls != NULL)
		n += cxi_ctrl_timers(p);
	if (p->tx_id_cnt)
		n += cxi_alive_timers(p, cassini_now_ns(p->domain->nic));
	for (int i = 0; i < p->txc_cnt; i++)
		n += cxi_txc_timers(p->txc[i]);
	for (int i = 0; i < p->rxc_top; i++)
		if (p->rxc[i])
			n += cxi_rxc_timers(p->rxc[i]);
	p->holds--;
	return n;
}

/* Not inline: a poll that has nothing to drain saves half as many registers. */
static __attribute__((noinline)) int portal_drain(struct cxi_portal *p)
{
	int n = 0;

	p->holds++;
	for (int i = 0; i < p->eq_cnt; i++)
		n += cxi_drain(p->eqs[i]);
	p->holds--;
	return n;
}

void cxi_eq_settle(struct cxi_domain *d, const struct cassini_eq *eq)
{
	while (eq->is_taken)
		kit_yield(&d->kit);
}

static bool is_in_use(const struct cxi_portal *p)
{
	for (int i = 0; i < p->dom_cnt; i++)
		if (cassini_dom_is_polled(p->dom[i]))
			return true;
	return p->holds || (p->eq && p->eq->is_taken);
}

void cxi_portal_settle(const struct cxi_portal *p)
{
	while (is_in_use(p))
		kit_yield(&p->domain->kit);
}

int cxi_portal_progress(struct cxi_portal *p)
{
	int n = cassini_dom_poll(p->dom[0]);

	for (int i = 1; unlikely(i < p->dom_cnt); i++)
		n += cassini_dom_poll(p->dom[i]);
	/* mostly there is none; of those that others poll we leave the events alone */
	if (unlikely(cassini_eq_ready(p->domain->lni) != NULL))
		n += portal_drain(p);
	p->timer_skip += n ? 1 : TIMER_IDLE;
	return likely(p->timer_skip < TIMER_SKIP) ? n : n + cxi_portal_timers(p);
}

/* Would cxi_portal_timers() have something to look at? */
static bool has_timers(const struct cxi_portal *p)
{
	for (int i = 0; i < p->txc_cnt; i++)
		if (cxi_txc_has_timers(p->txc[i]))
			return true;
	for (int i = 0; i < p->rxc_top; i++)
		if (p->rxc[i] && cxi_rxc_has_timers(p->rxc[i]))
			return true;
	return p->ctrls || p->tx_id_cnt;
}

bool cxi_portal_calm(struct cxi_portal *p, struct calm *c, uint32_t passed)
{
	p->timer_skip += TIMER_IDLE * passed;
	return p->dom_cnt == 1 && !has_timers(p) && !cassini_eq_ready(p->domain->lni) &&
	       cassini_dom_calm(p->dom[0], c, passed);
}

int cxi_portal_serve(struct cxi_portal *p)
{
	p->timer_skip = TIMER_SKIP;
	return cxi_portal_progress(p);
}

/* --- pid_idx 255 --- */

int cxi_entry_append(const struct cxi_domain *d, struct cassini_pte *pte, const struct cassini_le_attr *attr,
		     struct cassini_le **le)
{
	int ret = cassini_append(pte, attr, le);
	uint32_t used, max;

	if (ret || *le)
		return ret;
	cassini_rsrc(d->lni, CASSINI_RSRC_LE, &used, &max); /* a LINK event has said so, but not why */
	LOG_WARN("no list entry for portal table entry %u: %u of %u are used", cassini_pte_ptn(pte), used, max);
	return used < max ? -FI_ENOMEM : -FI_ENOSPC;
}

/* One persistent entry of PTE 255: everything whose top match bits say @kind. */
static int append_kind(struct cxi_portal *p, enum cxi_sh_kind kind, struct cxi_req *req)
{
	struct cassini_le_attr le = {
		.list = CASSINI_PRIORITY,
		.flags = (kind == CXI_SH_RDZV ? CASSINI_LE_OP_GET : CASSINI_LE_OP_PUT) | CASSINI_LE_EVENT_LINK_DISABLE |
			 CASSINI_LE_EVENT_UNLINK_DISABLE,
		.length = kind == CXI_SH_RDZV ? UINT64_MAX : 0, /* sources of Gets: anything that an id was given for */
		.match_id = CASSINI_MATCH_ID_ANY,
		.match_bits = FIELD_PREP(CXI_SH_KIND, kind),
		.ignore_bits = ~CXI_SH_KIND,
		.user_ptr = (uintptr_t)req,
	};
	struct cassini_le *out;

	return cxi_entry_append(p->domain, p->pte, &le, &out);
}

/*
 * Questions of whether we live: the adapter's answer is all, and a program that computes for long finds no events of
 * them.
 */
static int append_ask(struct cxi_portal *p)
{
	struct cassini_le_attr le = {
		.list = CASSINI_PRIORITY,
		.flags = CASSINI_LE_OP_PUT | CASSINI_LE_EVENT_LINK_DISABLE | CASSINI_LE_EVENT_UNLINK_DISABLE |
			 CASSINI_LE_EVENT_COMM_DISABLE,
		.match_id = CASSINI_MATCH_ID_ANY,
		.match_bits = cxi_sh_ctrl(CXI_CTRL_ASK, 0, 0, 0),
		.user_ptr = (uintptr_t)&p->pte_req,
	};
	struct cassini_le *out;

	return cxi_entry_append(p->domain, p->pte, &le, &out);
}

/* State changes of our PTEs, which we asked for, and entries that there was no room for, which we know. */
static void pte_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	(void)req, (void)ev;
}

static int shared_pte_open(struct cxi_portal *p)
{
	const struct cassini_pte_opts opts = {.is_matching = true, .en_event_match = p->domain->params.mr_match_events};
	int ret;

	p->pte_req.on_event = pte_on_event;
	p->rdzv_req.on_event = cxi_rdzv_on_event;
	p->zbp_req.on_event = cxi_zbp_on_event;
	p->ctrl_req.on_event = cxi_fc_on_ctrl;
	ret = cassini_pte_open(p->domain->lni, p->eq, &opts, &p->pte_req, &p->pte);
	for (int i = 0; i < p->dom_cnt && !ret; i++)
		ret = cassini_pte_map(p->pte, p->dom[i], CXI_IDX_SHARED);
	ret = ret ? ret : append_kind(p, CXI_SH_RDZV, &p->rdzv_req);
	ret = ret ? ret : append_kind(p, CXI_SH_ZBP, &p->zbp_req);
	ret = ret ? ret : append_ask(p);
	ret = ret ? ret : append_kind(p, CXI_SH_CTRL, &p->ctrl_req);
	return ret ? ret : cassini_set_state(p->pte, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE);
}

/* --- pid_idx 254: sources of alt_read --- */

bool cxi_portal_alt(struct cxi_portal *p)
{
	static const struct cassini_pte_opts opts = {0};
	const struct cassini_le_attr le = {
		.list = CASSINI_PRIORITY,
		.flags = CASSINI_LE_OP_GET | CASSINI_LE_EVENT_LINK_DISABLE | CASSINI_LE_EVENT_UNLINK_DISABLE |
			 CASSINI_LE_EVENT_COMM_DISABLE,
		.length = UINT64_MAX, /* of which a Get reaches what is offered to who sends it */
		.match_id = CASSINI_MATCH_ID_ANY,
		.user_ptr = (uintptr_t)&p->pte_req,
	};
	struct cassini_le *out;
	uint8_t *is_used = &p->opt_used[CXI_IDX_ALT - CXI_IDX_MR];
	int ret = *is_used ? -FI_EADDRINUSE : 0;

	if (likely(p->alt_pte != NULL))
		return true;
	ret = ret ? ret : cassini_pte_open(p->domain->lni, p->eq, &opts, &p->pte_req, &p->alt_pte);
	for (int i = 0; i < p->dom_cnt && !ret; i++)
		ret = cassini_pte_map(p->alt_pte, p->dom[i], CXI_IDX_ALT);
	ret = ret ? ret : cxi_entry_append(p->domain, p->alt_pte, &le, &out);
	ret = ret ? ret : cassini_set_state(p->alt_pte, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE);
	if (!ret) {
		*is_used = 1;
		return true;
	}
	cassini_pte_close(p->alt_pte);
	p->alt_pte = NULL;
	if (p->domain->alt_read)
		LOG_WARN("rendezvous protocol alt_read is left for default: %s",
			 *is_used ? "a memory region has index 254 (key 238)" : strerror(-ret));
	p->domain->alt_read = false;
	return false;
}

/* --- open, close --- */

/*
 * Where the search for a free PID begins. Jobs of a cluster have a VNI each from their launcher; on a desk two jobs of
 * a user share the default one, and then a message to a process that has just died would reach whoever has its PID
 * next. So PIDs go round with the numbers of processes.
 */
static unsigned first_pid(void)
{
	return (unsigned)getpid();
}

/* One Domain per VNI, all with the same PID: that of the first. */
static int doms_try(struct cxi_portal *p, const struct cxi_key *keys, int key_cnt, uint16_t pid)
{
	for (int i = 0; i < key_cnt; i++) {
		struct cassini_dom_attr attr = {.vni = keys[i].vni, .pid = i ? p->pid : pid, .first = first_pid()};
		int ret = cassini_dom_open(p->domain->lni, &attr, &p->dom[i]);

		if (ret)
			return ret;
		p->dom_cnt++;
		p->pid = cassini_dom_pid(p->dom[0]);
	}
	return 0;
}

#define PID_TRIES 16

/*
 * A PID that is free in the first VNI may be taken in another. Any will do: while that one is kept, the next try gets
 * the next.
 */
static int doms_open(struct cxi_portal *p, const struct cxi_key *keys, int key_cnt, uint16_t pid)
{
	struct cassini_dom *kept[PID_TRIES];
	int ret, n = 0;

	while ((ret = doms_try(p, keys, key_cnt, pid)) == -FI_EADDRINUSE && pid == CASSINI_PID_ANY && p->dom_cnt &&
	       n < PID_TRIES) {
		while (p->dom_cnt > 1)
			cassini_dom_close(p->dom[--p->dom_cnt]);
		kept[n++] = p->dom[--p->dom_cnt];
	}
	while (n)
		cassini_dom_close(kept[--n]);
	return ret;
}

int cxi_portal_open(struct cxi_domain *d, const struct cxi_key *keys, int key_cnt, uint16_t pid, struct cxi_ep *ep,
		    struct cxi_portal **out)
{
	struct cxi_portal *p = mem_alloc(sizeof(*p));
	struct cassini_cmdq_attr cmdq = {.depth = CTRL_CMDQ_DEPTH};
	uint32_t slots = MAX(MIN(CTRL_EQ_SLOTS, (uint32_t)(d->params.ctrl_rx_eq_max_size / EVENT_BYTES)), CTRL_EQ_MIN);
	int ret;

	if (!p)
		return -FI_ENOMEM;
	p->domain = d;
	p->ep = ep;
	LIST_INIT(&p->mrs);
	LIST_INIT(&p->asks);
	cxi_ids_init(p);
	LIST_INSERT_HEAD(&d->portals, p, link);
	ret = doms_open(p, keys, key_cnt, pid);
	ret = ret ? ret : cassini_eq_open(d->lni, slots, 1, &p->eq);
	ret = ret ? ret : cassini_cp_open(d->lni, keys[0].vni, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &p->cp);
	cmdq.cp = p->cp;
	ret = ret ? ret : cxi_cps_add(&p->cps, p, FI_TC_BEST_EFFORT);
	ret = ret ? ret : cassini_cmdq_open(d->lni, &cmdq, &p->cmdq);
	ret = ret ? ret : shared_pte_open(p);
	cxi_portal_eqs(p);
	if (ret) {
		cxi_portal_close(p);
		return ret;
	}
	*out = p;
	return 0;
}

void cxi_portal_close(struct cxi_portal *p)
{
	if (!p)
		return;
	cxi_portal_settle(p);
	LIST_REMOVE(p, link); /* nobody comes any more, while what follows lets go of the lock */
	cassini_cmdq_close(p->cmdq);
	cassini_pte_close(p->pte); /* unmaps it */
	cassini_pte_close(p->alt_pte);
	for (int i = 0; i < p->dom_cnt; i++)
		cassini_dom_close(p->dom[i]);
	if (p->eq)
		cxi_drain(p->eq);
	cxi_ctrl_fini(p);
	cxi_alive_fini(p);
	cxi_ids_fini(p);
	cassini_eq_close(p->eq);
	cxi_cps_close(&p->cps);
	if (p->cp)
		cassini_cp_close(p->cp);
	mem_free(p);
}
