// SPDX-License-Identifier: BSD-2-Clause
// Memory regions: keys, entries, bind, enable and close. Source: doc/facts/cxi.md#keys, #regions.

#include "base/clock.h"
#include "base/keyed.h"
#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/cxi/cxi_rxc.h"

#define PROV_ID_CNT 65536u
#define MR_FLAGS    (FI_RMA_EVENT | FI_RMA_PMEM | FI_HMEM_DEVICE_ONLY)

/* --- regions of a domain, by the program's keys or, if the provider makes them, by address ------- */

static struct cxi_mr **bucket(const struct cxi_domain *d, const struct cxi_mr *mr)
{
	uint64_t v = d->prov_key ? (uintptr_t)mr->addr : mr->key;

	return &d->mr_tab[(v * 0x9e3779b97f4a7c15ULL >> 40) & d->mr_mask];
}

static int tab_grow(struct cxi_domain *d)
{
	uint32_t old_cnt = d->mr_tab ? d->mr_mask + 1 : 0, cnt = old_cnt ? old_cnt * 4 : 64;
	struct cxi_mr **old = d->mr_tab, **tab = mem_alloc(cnt * sizeof(struct cxi_mr *)), *mr;

	if (!tab)
		return -FI_ENOMEM;
	d->mr_tab = tab;
	d->mr_mask = cnt - 1;
	for (uint32_t i = 0; i < old_cnt; i++) {
		while ((mr = old[i])) {
			struct cxi_mr **to = bucket(d, mr);

			old[i] = mr->hnext;
			mr->hnext = *to;
			*to = mr;
		}
	}
	mem_free(old);
	return 0;
}

static int tab_add(struct cxi_domain *d, struct cxi_mr *mr)
{
	struct cxi_mr **at;
	int ret = !d->mr_tab || d->mr_cnt > d->mr_mask ? tab_grow(d) : 0;

	if (ret)
		return ret;
	at = bucket(d, mr);
	mr->hnext = *at;
	*at = mr;
	d->mr_cnt++;
	return 0;
}

static int client_key_add(struct cxi_domain *d, struct cxi_mr *mr)
{
	for (struct cxi_mr *other = d->mr_tab ? *bucket(d, mr) : NULL; other; other = other->hnext) {
		if (other->key == mr->key) {
			LOG_WARN("memory region key %#llx is in use", (unsigned long long)mr->key);
			return -FI_ENOKEY;
		}
	}
	return tab_add(d, mr);
}

static void tab_del(struct cxi_domain *d, struct cxi_mr *mr)
{
	struct cxi_mr **at = bucket(d, mr);

	while (*at != mr)
		at = &(*at)->hnext;
	*at = mr->hnext;
	d->mr_cnt--;
}

/* --- the cache of provider keys: the same memory with the same rights has one entry and one key --- */

/* Entries that tell of operations tell of those on one region. */
static bool is_cacheable(const struct cxi_mr *mr)
{
	const struct cxi_params *p = &mr->domain->params;

	return mr->domain->prov_key && p->prov_key_cache && !p->enable_writedata && !p->mr_match_events && !mr->cntr &&
	       !mr->rma_events;
}

/* Takes over what another region has. Return: there was one. */
static bool cache_share(struct cxi_mr *mr)
{
	struct cxi_domain *d = mr->domain;
	struct cxi_mr *other = d->mr_tab ? *bucket(d, mr) : NULL;

	while (other && (other->addr != mr->addr || other->len != mr->len || other->access != mr->access ||
			 other->portal != mr->portal))
		other = other->hnext;
	if (!other)
		return false;
	mr->key = other->key;
	mr->optimized = other->optimized;
	mr->pid_idx = other->pid_idx;
	mr->pte = other->pte;
	mr->le = other->le;
	mr->shared_by = other->shared_by ? other->shared_by : other;
	other->shared_by = mr;
	return true;
}

/* Others may have what @mr has. Without memory they do not find it. */
static void cache_add(struct cxi_mr *mr)
{
	mr->is_cached = !tab_add(mr->domain, mr);
}

static void cache_drop(struct cxi_mr *mr)
{
	tab_del(mr->domain, mr);
	mr->is_cached = false;
}

/* Return: others have the entry, which stays. */
static bool cache_leave(struct cxi_mr *mr)
{
	struct cxi_mr *last = mr->shared_by;

	if (!last)
		return false;
	while (last->shared_by != mr)
		last = last->shared_by;
	last->shared_by = mr->shared_by == last ? NULL : mr->shared_by;
	mr->shared_by = NULL;
	return true;
}

/* --- keys of the provider ------------------------------------------------------------------------ */

static int prov_id_get(struct cxi_domain *d)
{
	if (!d->prov_ids)
		d->prov_ids = mem_alloc(PROV_ID_CNT / 8);
	if (!d->prov_ids)
		return -FI_ENOMEM;
	for (uint32_t w = 0; w < PROV_ID_CNT / 64; w++) {
		int bit;

		if (d->prov_ids[w] == ~0ULL)
			continue;
		bit = __builtin_ctzll(~d->prov_ids[w]);
		d->prov_ids[w] |= BIT(bit);
		return (int)(w * 64) + bit;
	}
	LOG_WARN("memory region refused: %u provider keys are in use, which is the limit", PROV_ID_CNT);
	return -FI_ENOSPC;
}

static void prov_id_put(struct cxi_domain *d, unsigned id)
{
	d->prov_ids[id / 64] &= ~BIT(id % 64);
}

int cxi_rkey_decode(const struct cxi_domain *d, uint64_t key, struct cxi_rkey *out)
{
	bool is_prov = key & CXI_KEY_PROV;
	uint64_t id = FIELD_GET(CXI_KEY_ID, key);

	*out = (struct cxi_rkey){.pid_idx = CXI_IDX_SHARED, .match_bits = cxi_sh_key(key)};
	if (!is_prov) {
		if (key > UINT32_MAX)
			goto refuse;
		out->optimized = d->params.optimized_mrs && key < CXI_MR_OPT_MAX;
		if (out->optimized)
			out->pid_idx = (uint8_t)(CXI_IDX_MR + key);
		return 0;
	}
	if ((key & CXI_KEY_CACHED) || ((key & CXI_KEY_OPT) && id >= CXI_MR_OPT_MAX))
		goto refuse;
	out->optimized = key & CXI_KEY_OPT;
	if (out->optimized)
		out->pid_idx = (uint8_t)(CXI_IDX_MR + id);
	return 0;
refuse:
	LOG_INFO("Invalid remote key %#llx", (unsigned long long)key);
	return -FI_EKEYREJECTED;
}

/* --- entries ------------------------------------------------------------------------------------- */

/*
 * Whose receive queue tells of a write to a region of @ep with data. A scalable endpoint has none: its first context
 * that has one, since such writes name no context. NULL: nobody's.
 */
static struct cxi_ep *data_ep(struct cxi_ep *ep)
{
	if (ep->kind != CXI_SEP)
		return ep->kit.rx_cq ? ep : NULL;
	for (int i = 0; i < ep->rx_cnt; i++) {
		struct cxi_ep *ctx = ep->rx[i];

		if (ctx && ctx->kit.enabled && !ctx->kit.closing && ctx->kit.rx_cq)
			return ctx;
	}
	return NULL;
}

/* A write with data has come: an entry of the receive queue, which no receive was posted for. */
static __attribute__((noinline)) void data_come(const struct cxi_mr *mr, const struct cassini_event *ev)
{
	const uint64_t flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
	struct cxi_ep *ep = data_ep(mr->ep);
	fi_addr_t src = ep ? cxi_rx_source(ep, ev->initiator, ev->vni) : FI_ADDR_NOTAVAIL;
	const struct cxi_addr from = cxi_addr_make(CASSINI_MATCH_ID_NIC(ev->initiator),
						   (uint16_t)CASSINI_MATCH_ID_PID(ev->initiator), 0);
	const struct fi_cq_err_entry unknown = {.op_context = mr->fid.fid.context, .flags = flags, .len = ev->mlength,
						.buf = ev->start, .data = ev->header_data, .err = FI_EADDRNOTAVAIL};

	if (!ep)
		LOG_FEW(LOG_LVL_WARN, mr->domain->data_untold,
			"a write with data to region key %#llx has no receive queue to tell of it",
			(unsigned long long)mr->key);
	else if (unlikely(src == FI_ADDR_NOTAVAIL && ep->source_err))
		kit_cq_push_err(ep->kit.rx_cq, &unknown, &from, sizeof(from));
	else
		kit_cq_push(ep->kit.rx_cq, mr->fid.fid.context, flags, ev->mlength, ev->start, ev->header_data, 0, src);
}

/*
 * Events of a region's entries. With FI_CXI_MR_MATCH_EVENTS each operation has two, when it is matched and when it has
 * ended. One with data (FI_CXI_ENABLE_WRITEDATA) has one as well.
 */
static void mr_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_mr *mr = container_of(req, struct cxi_mr, req);

	if (ev->type == CASSINI_EV_MATCH)
		mr->matched++;
	else if (mr->counts_events)
		mr->ended++;
	if (ev->type == CASSINI_EV_PUT && ev->match_bits & CXI_KEY_SOL && ev->rc == CASSINI_RC_OK)
		data_come(mr, ev);
}

/* On return no peer touches the memory. A copy in flight ends, at the latest when its peer counts as dead. */
static void entry_kill(struct cxi_mr *mr, struct cassini_pte *pte, struct cassini_le *le)
{
	while (le && cassini_invalidate(pte, le) == -FI_EAGAIN)
		if (!cxi_portal_progress(mr->portal))
			kit_yield(&mr->domain->kit);
}

/*
 * Nobody finds the entries any more and no copy is under way: the events in the queue are the last ones to name @mr.
 */
static void events_take(struct cxi_mr *mr)
{
	cxi_portal_settle(mr->portal);
	cxi_drain(mr->portal->eq);
	if (mr->matched != mr->ended)
		LOG_INFO(
			"memory region key %#llx: %u operations were matched and %u have ended; without progress at "
			"the target events were lost",
			(unsigned long long)mr->key, mr->matched, mr->ended);
}

/* Also after half of it failed. Events that name the region end here: it may be freed next. */
static void standard_disable(struct cxi_mr *mr)
{
	entry_kill(mr, mr->portal->pte, mr->le);
	entry_kill(mr, mr->portal->pte, mr->le_sol);
	mr->le = mr->le_sol = NULL;
	if (mr->domain->prov_key)
		prov_id_put(mr->domain, (unsigned)FIELD_GET(CXI_KEY_ID, mr->key));
	events_take(mr);
}

static struct cassini_le_attr entry_attr(struct cxi_mr *mr)
{
	struct cassini_le_attr a = {
		.list = CASSINI_PRIORITY,
		.flags = CASSINI_LE_EVENT_LINK_DISABLE | CASSINI_LE_EVENT_UNLINK_DISABLE |
			 CASSINI_LE_EVENT_SUCCESS_DISABLE | CASSINI_LE_EVENT_COMM_DISABLE |
			 CASSINI_LE_UNRESTRICTED_BODY_RO | CASSINI_LE_UNRESTRICTED_END_RO,
		.start = mr->addr,
		.length = mr->len,
		.match_id = CASSINI_MATCH_ID_ANY,
		.ignore_bits = mr->optimized ? ~0ULL : 0,
		.match_bits = mr->optimized ? 0 : cxi_sh_key(mr->key),
		.user_ptr = (uintptr_t)&mr->req,
	};

	if (mr->counts_events)
		a.flags &= ~(uint32_t)(CASSINI_LE_EVENT_SUCCESS_DISABLE | CASSINI_LE_EVENT_COMM_DISABLE);
	if (mr->access & FI_REMOTE_READ)
		a.flags |= CASSINI_LE_OP_GET;
	if (mr->access & FI_REMOTE_WRITE)
		a.flags |= CASSINI_LE_OP_PUT;
	if (mr->cntr) {
		a.flags |= CASSINI_LE_EVENT_CT_COMM | (mr->cntr->bytes ? CASSINI_LE_EVENT_CT_BYTES : 0);
		a.ct = mr->cntr->ct;
	}
	return a;
}

static int optimized_enable(struct cxi_mr *mr)
{
	static const struct cassini_pte_opts opts = {0};
	struct cassini_le_attr attr = entry_attr(mr);
	struct cxi_portal *p = mr->portal;
	int ret = cassini_pte_open(mr->domain->lni, p->eq, &opts, &p->pte_req, &mr->pte);

	for (int i = 0; i < p->dom_cnt && !ret; i++)
		ret = cassini_pte_map(mr->pte, p->dom[i], mr->pid_idx);
	ret = ret ? ret : cxi_entry_append(mr->domain, mr->pte, &attr, &mr->le);
	ret = ret ? ret : cassini_set_state(mr->pte, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE);
	if (ret) {
		cassini_pte_close(mr->pte); /* with its entry */
		mr->pte = NULL;
		mr->le = NULL;
		cxi_portal_settle(p);
		cxi_drain(p->eq);
		return ret;
	}
	p->opt_used[mr->pid_idx - CXI_IDX_MR] = 1;
	return 0;
}

static int standard_append(struct cxi_mr *mr)
{
	struct cassini_le_attr attr = entry_attr(mr);
	int ret = cxi_entry_append(mr->domain, mr->portal->pte, &attr, &mr->le);

	if (ret || !mr->domain->params.enable_writedata || !mr->domain->prov_key)
		return ret;
	attr.match_bits |= CXI_KEY_SOL;
	attr.flags &= ~(uint32_t)(CASSINI_LE_EVENT_SUCCESS_DISABLE | CASSINI_LE_EVENT_COMM_DISABLE);
	return cxi_entry_append(mr->domain, mr->portal->pte, &attr, &mr->le_sol);
}

static int standard_enable(struct cxi_mr *mr)
{
	int ret = standard_append(mr);

	if (ret)
		standard_disable(mr);
	return ret;
}

/* The first free of the 239 indices; -1: none, or this region cannot be had so. */
static int optimized_idx(const struct cxi_mr *mr)
{
	const struct cxi_params *p = &mr->domain->params;

	if (!p->optimized_mrs)
		return -1;
	if (!mr->domain->prov_key)
		return mr->key < CXI_MR_OPT_MAX ? (int)mr->key : -1;
	if (p->enable_writedata || p->mr_match_events || mr->rma_events)
		return -1;
	/* as late as possible where a region has just been, whose key somebody may still have */
	for (unsigned i = 0; i < CXI_MR_OPT_MAX; i++) {
		unsigned at = (mr->portal->opt_next + i) % CXI_MR_OPT_MAX;

		if (mr->portal->opt_used[at])
			continue;
		mr->portal->opt_next = (uint8_t)((at + 1) % CXI_MR_OPT_MAX);
		return (int)at;
	}
	return -1;
}

static int mr_key_make(struct cxi_mr *mr, int idx)
{
	uint64_t seq;
	int id;

	if (!mr->domain->prov_key)
		return 0;
	id = mr->optimized ? idx : prov_id_get(mr->domain);
	if (id < 0)
		return id;
	/* the real provider counts up from a random number: who knows a key knows the next */
	keyed_secret(&seq, sizeof(seq));
	mr->key = CXI_KEY_PROV | FIELD_PREP(CXI_KEY_ID, (uint64_t)id) | FIELD_PREP(CXI_KEY_SEQ, seq) |
		  (mr->optimized ? CXI_KEY_OPT : 0) |
		  (mr->rma_events || mr->counts_events || mr->cntr ? CXI_KEY_EVENTS : 0);
	return 0;
}

static int mr_enable_locked(struct cxi_mr *mr)
{
	int idx, ret;

	if (!mr->portal) {
		LOG_WARN("memory region not enabled: bind it to an endpoint first (FI_MR_ENDPOINT)");
		return -FI_EINVAL;
	}
	if (mr->enabled)
		return 0;
	ret = mr->cntr ? kit_cntr_drive(&mr->cntr->kit, &mr->ep->kit, true) : 0;
	if (ret)
		return ret;
	mr->enabled = is_cacheable(mr) && cache_share(mr);
	if (mr->enabled) {
		cache_add(mr);
		return 0;
	}
	idx = optimized_idx(mr);
	if (idx >= 0 && mr->portal->opt_used[idx]) {
		LOG_WARN("memory region key %d is in use on this endpoint", idx);
		return -FI_ENOKEY;
	}
	mr->optimized = idx >= 0;
	mr->counts_events = !mr->optimized && mr->domain->params.mr_match_events;
	mr->pid_idx = mr->optimized ? CXI_IDX_MR + (unsigned)idx : CXI_IDX_SHARED;
	ret = mr_key_make(mr, idx);
	if (ret)
		return ret;
	ret = mr->optimized ? optimized_enable(mr) : standard_enable(mr);
	if (ret && mr->optimized && mr->domain->prov_key && ret == -FI_ENOSPC) {
		/* no portal table entry is left: the region becomes a standard one */
		mr->optimized = false;
		mr->pid_idx = CXI_IDX_SHARED;
		ret = mr_key_make(mr, 0);
		ret = ret ? ret : standard_enable(mr);
	}
	mr->enabled = !ret;
	if (mr->enabled && is_cacheable(mr))
		cache_add(mr);
	return ret;
}

/* --- bind, control, close ------------------------------------------------------------------------ */

static int mr_bind_ep(struct cxi_mr *mr, struct cxi_ep *ep)
{
	if (ep->domain != mr->domain || mr->portal) {
		LOG_WARN("memory region not bound: %s",
			 mr->portal ? "it is bound already" : "the endpoint is of another domain");
		return -FI_EINVAL;
	}
	if (!ep->kit.enabled || !ep->portal) {
		LOG_WARN("memory region not bound: the endpoint is not enabled");
		return -FI_EOPBADSTATE;
	}
	mr->ep = ep;
	mr->portal = ep->portal;
	LIST_INSERT_HEAD(&ep->portal->mrs, mr, link);
	return 0;
}

static int mr_bind_cntr(struct cxi_mr *mr, struct kit_cntr *c, uint64_t flags)
{
	if (!(flags & FI_REMOTE_WRITE) || c->domain != &mr->domain->kit || mr->enabled || mr->cntr) {
		LOG_WARN(
			"counter not bound to a memory region: one of this domain, with FI_REMOTE_WRITE, before "
			"fi_mr_enable");
		return -FI_EINVAL;
	}
	mr->cntr = container_of(c, struct cxi_cntr, kit);
	atomic_fetch_add(&c->refs, 1);
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct cxi_mr *mr = container_of(fid, struct cxi_mr, fid.fid);
	struct cxi_domain *d = mr->domain;
	int ret;

	if (!bfid)
		return -FI_EINVAL;
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	lock_acquire(&d->kit.lock);
	switch (bfid->fclass) {
	case FI_CLASS_EP:
	case FI_CLASS_SEP:
		ret = mr_bind_ep(mr, cxi_ep_base(container_of(bfid, struct cxi_ep, kit.fid.fid)));
		break;
	case FI_CLASS_CNTR:
		ret = mr_bind_cntr(mr, container_of(bfid, struct kit_cntr, fid.fid), flags);
		break;
	default:
		ret = -FI_EINVAL;
	}
	lock_release(&d->kit.lock);
	return ret;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct cxi_mr *mr = container_of(fid, struct cxi_mr, fid.fid);
	struct cxi_domain *d = mr->domain;
	int ret;

	(void)arg;
	if (command != FI_ENABLE)
		return -FI_EINVAL;
	if (d->kit.forked(&d->kit))
		return -FI_EIO;
	lock_acquire(&d->kit.lock);
	ret = mr_enable_locked(mr);
	lock_release(&d->kit.lock);
	if (!ret)
		mr->fid.key = mr->key;
	return ret;
}

static void mr_disable(struct cxi_mr *mr)
{
	if (!mr->optimized) {
		standard_disable(mr);
		return;
	}
	entry_kill(mr, mr->pte, mr->le);
	events_take(mr);
	cassini_pte_close(mr->pte);
	mr->portal->opt_used[mr->pid_idx - CXI_IDX_MR] = 0;
}

/* The counter is waited for by making progress at the endpoint as long as one of its regions counts there. */
static void cntr_leave(struct cxi_mr *mr)
{
	struct cxi_mr *other;

	if (!mr->cntr || !mr->portal)
		return;
	LIST_FOREACH(other, &mr->portal->mrs, link)
		if (other != mr && other->cntr == mr->cntr && other->ep == mr->ep)
			return;
	kit_cntr_drive(&mr->cntr->kit, &mr->ep->kit, false);
}

static int mr_close(struct fid *fid)
{
	struct cxi_mr *mr = container_of(fid, struct cxi_mr, fid.fid);
	struct cxi_domain *d = mr->domain;

	if (!d->kit.forked(&d->kit)) {
		lock_acquire(&d->kit.lock);
		if (mr->is_cached)
			cache_drop(mr);
		if (mr->enabled && !cache_leave(mr))
			mr_disable(mr);
		cntr_leave(mr);
		if (mr->portal)
			LIST_REMOVE(mr, link);
		if (!d->prov_key)
			tab_del(d, mr);
		lock_release(&d->kit.lock);
	}
	if (mr->cntr)
		atomic_fetch_sub(&mr->cntr->kit.refs, 1);
	atomic_fetch_sub(&d->kit.refs, 1);
	mem_free(mr);
	return 0;
}

static struct fi_ops mr_fi_ops = KIT_FI_OPS(mr_close, mr_bind, mr_control);

static int req_check(const struct cxi_domain *d, const struct kit_mr_req *req)
{
	if (req->iov_cnt != 1) {
		LOG_WARN("memory region of %zu pieces refused: mr_iov_limit is 1", req->iov_cnt);
		return -FI_ENOSYS;
	}
	if (req->flags & ~(uint64_t)MR_FLAGS) {
		LOG_WARN("memory region flags %#llx refused", (unsigned long long)(req->flags & ~(uint64_t)MR_FLAGS));
		return -FI_EINVAL;
	}
	if (!d->prov_key && req->requested_key > UINT32_MAX) {
		LOG_WARN("memory region key %#llx refused: keys have 32 bits", (unsigned long long)req->requested_key);
		return -FI_EKEYREJECTED;
	}
	return req->iov[0].iov_len && !req->iov[0].iov_base ? -FI_EINVAL : 0;
}

int cxi_mr_open(struct kit_domain *kd, const struct kit_mr_req *req, struct fid_mr **out)
{
	struct cxi_domain *d = container_of(kd, struct cxi_domain, kit);
	struct cxi_mr *mr;
	int ret = req_check(d, req);

	ret = ret ? ret : kit_mr_pin(kd, req, req->access & KIT_MR_LOCAL_WRITE);
	if (ret)
		return ret;
	mr = mem_alloc(sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->req.on_event = mr_on_event;
	mr->domain = d;
	mr->addr = req->iov[0].iov_base;
	mr->len = req->iov[0].iov_len;
	mr->access = req->access;
	mr->rma_events = req->flags & FI_RMA_EVENT;
	mr->key = d->prov_key ? FI_KEY_NOTAVAIL : req->requested_key;
	d->has_mrs = true;
	ret = d->prov_key ? 0 : client_key_add(d, mr);
	if (ret) {
		mem_free(mr);
		return ret;
	}
	mr->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = req->context, .ops = &mr_fi_ops};
	mr->fid.mem_desc = mr;
	mr->fid.key = mr->key;
	atomic_fetch_add(&d->kit.refs, 1);
	*out = &mr->fid;
	return 0;
}
