// SPDX-License-Identifier: BSD-2-Clause
// The peers of an endpoint: found by fi_addr_t when something is sent, by their flow when something arrives; and how
// they end.
#include "prov/opx/opx.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define TAB_MIN 64u

static uint32_t tab_pos(const struct opx_ep *ep, uint32_t uid)
{
	return (uid * 0x9e3779b1u >> 7) & ep->peer_mask;
}

static struct opx_peer *by_uid(const struct opx_ep *ep, uint32_t uid)
{
	struct opx_peer *p = ep->peer_tab[tab_pos(ep, uid)];

	while (p && p->uid != uid)
		p = p->hnext;
	return p;
}

/* Failure only makes chains longer. */
static void tab_grow(struct opx_ep *ep)
{
	uint32_t old_mask = ep->peer_mask;
	struct opx_peer **old = ep->peer_tab, **tab = mem_alloc(2 * ((size_t)old_mask + 1) * sizeof(*tab));

	if (!tab)
		return;
	ep->peer_tab = tab;
	ep->peer_mask = 2 * old_mask + 1;
	for (uint32_t i = 0; i <= old_mask; i++) {
		for (struct opx_peer *p = old[i], *next; p; p = next) {
			struct opx_peer **head = &tab[tab_pos(ep, p->uid)];

			next = p->hnext;
			p->hnext = *head;
			*head = p;
		}
	}
	mem_free(old);
}

/* A peer for @dst; its flow takes a reference of its own. */
static struct opx_peer *peer_new(struct opx_ep *ep, struct hfi_dst *dst)
{
	uint32_t uid = (uint32_t)hfi_dst_lid(dst) << 8 | hfi_dst_rx(dst);
	struct opx_peer *p = slab_get(&ep->peer_slab), **head;

	if (!p)
		return NULL;
	memset(p, 0, sizeof(*p));
	p->ep = ep;
	p->uid = uid;
	p->fi_addr = FI_ADDR_NOTAVAIL;
	p->av_gen = ep->av->gen - 1; /* not looked up yet */
	LIST_INIT(&p->ops);
	LIST_INIT(&p->ins);
	LIST_INIT(&p->eager);
	opx_flow_init(&p->flow, ep->rel, dst);
	if (ep->peer_cnt > ep->peer_mask)
		tab_grow(ep);
	head = &ep->peer_tab[tab_pos(ep, uid)];
	p->hnext = *head;
	*head = p;
	ep->peer_cnt++;
	return p;
}

static struct opx_peer *peer_of_addr(struct opx_ep *ep, const struct opx_addr *a)
{
	uint32_t uid = opx_addr_uid(a);
	struct opx_peer *p = by_uid(ep, uid);
	struct hfi_dst *dst;

	if (p || hfi_dst_get(ep->hw, (uint16_t)(uid >> 8), (uint8_t)uid, &dst))
		return p;
	p = peer_new(ep, dst);
	hfi_dst_put(dst);
	return p;
}

static void cache_put(struct opx_ep *ep, fi_addr_t fi_addr, struct opx_peer *p)
{
	if (fi_addr >= ep->by_addr_cap) {
		uint32_t cap = (uint32_t)roundup_pow2(MAX(fi_addr + 1, (uint64_t)TAB_MIN));
		struct opx_peer **tab = mem_alloc(cap * sizeof(*tab));

		if (!tab)
			return; /* only slower */
		if (ep->by_addr_cap)
			memcpy(tab, ep->by_addr, ep->by_addr_cap * sizeof(*tab));
		mem_free(ep->by_addr);
		ep->by_addr = tab;
		ep->by_addr_cap = cap;
	}
	ep->by_addr[fi_addr] = p;
}

struct opx_peer *opx_peer_get(struct opx_ep *ep, fi_addr_t fi_addr)
{
	struct opx_addr a;
	struct opx_peer *p;

	if (!opx_av_get(ep->av, fi_addr, &a)) {
		LOG_INFO("no address 0x%llx in the address vector", (unsigned long long)fi_addr);
		return NULL;
	}
	p = peer_of_addr(ep, &a);
	if (p && !ep->av->is_map && fi_addr < UINT32_MAX)
		cache_put(ep, fi_addr, p);
	return p;
}

#define REFUSAL_NS NS_PER_SEC /* who tries again later begins anew */

int opx_peer_open(struct opx_peer *peer)
{
	enum opx_status why = (enum opx_status)peer->refusal;
	int rc;

	peer->refusal = OPX_OK;
	if (why && hfi_now_ns(peer->ep->hfi) - peer->refusal_ns < REFUSAL_NS)
		return -opx_err_of(why);
	rc = opx_flow_open(&peer->flow);
	peer->is_asked = peer->flow.state == OPX_FLOW_INIT;
	return rc;
}

uint64_t opx_peer_uid(struct opx_ep *ep, fi_addr_t fi_addr)
{
	struct opx_addr a;

	if (fi_addr == FI_ADDR_UNSPEC)
		return MT_ANY_SRC;
	return opx_av_get(ep->av, fi_addr, &a) ? opx_addr_uid(&a) : 0;
}

fi_addr_t opx_peer_name_look(struct opx_peer *peer)
{
	struct opx_addr a = opx_addr_of(peer->flow.peer_addr);

	if (!peer->flow.peer_addr)
		return FI_ADDR_NOTAVAIL; /* the handshake has not told yet */
	peer->av_gen = peer->ep->av->gen;
	peer->fi_addr = opx_av_name(peer->ep->av, &a);
	return peer->fi_addr;
}

void opx_peers_forget(struct opx_ep *ep, fi_addr_t fi_addr)
{
	if (fi_addr < ep->by_addr_cap)
		ep->by_addr[fi_addr] = NULL;
}

/* --- what the reliability tells ------------------------------------------------------------------------ */

static struct opx_peer *peer_of(struct opx_flow *f)
{
	return container_of(f, struct opx_peer, flow);
}

static struct opx_flow *on_stranger(void *ctx, struct hfi_dst *dst)
{
	struct opx_peer *p = peer_new(ctx, dst);

	return p ? &p->flow : NULL;
}

static void on_retired(void *ctx, struct opx_op *op, uint32_t cnt)
{
	(void)ctx;
	must(op->refs >= cnt);
	op->refs -= cnt;
	opx_op_check(op);
}

static void on_room(void *ctx, struct opx_flow *f)
{
	(void)ctx;
	peer_of(f)->is_asked = false; /* ep->pump is tried at every progress call */
}

/* One that has not ended yet. NULL: none. */
static struct opx_op *live_op(const struct opx_peer *peer)
{
	struct opx_op *op;

	LIST_FOREACH(op, &peer->ops, link)
		if (!op->is_over && !op->err)
			break;
	return op;
}

static void on_dead(void *ctx, struct opx_flow *f, enum opx_status why)
{
	struct opx_peer *peer = peer_of(f);
	struct opx_op *op;
	struct opx_in *in, *next_in;

	(void)ctx;
	if (why == OPX_ST_UNKEPT)
		kit_ep_late_error(&peer->ep->kit, opx_err_of(why), (int)why, opx_strerror((int)why), false);
	peer->silent = 0;
	memset(peer->lost, 0, sizeof(peer->lost));
	if (peer->is_asked) {
		peer->is_asked = false;
		peer->refusal = (uint8_t)why;
		peer->refusal_ns = hfi_now_ns(peer->ep->hfi);
	}
	/* hiding its memory from a stopped process may drop the lock: the list is another one then */
	while ((op = live_op(peer)))
		opx_op_fail(op, opx_err_of(why), why);
	for (in = LIST_FIRST(&peer->ins); in; in = next_in) {
		next_in = LIST_NEXT(in, link);
		opx_in_fail(in, why);
	}
}

const struct opx_rel_ops opx_peer_rel_ops = {
	.deliver = opx_deliver,
	.place = opx_place,
	.retired = on_retired,
	.room = on_room,
	.dead = on_dead,
	.stranger = on_stranger,
};

/* --- life ----------------------------------------------------------------------------------------------- */

static int rel_open(struct opx_ep *ep)
{
	const struct opx_params *prm = &ep->domain->params;
	struct opx_rel_attr attr = {
		.hfi = ep->hfi,
		.hw = ep->hw,
		.ops = &opx_peer_rel_ops,
		.ctx = ep,
		.own_addr = opx_addr_u64(&ep->self),
		.usec_max = (uint32_t)prm->reliability_service_usec_max,
		.pre_ack_rate = (uint32_t)prm->reliability_service_pre_ack_rate,
	};

	return opx_rel_open(&attr, &ep->rel);
}

static int slabs_init(struct opx_ep *ep)
{
	int ret = slab_init(&ep->peer_slab, sizeof(struct opx_peer), 8, 16, 0);

	ret = ret ? ret : slab_init(&ep->op_slab, sizeof(struct opx_op), CACHE_LINE, 32, 0);
	return ret ? ret : slab_init(&ep->in_slab, sizeof(struct opx_in), CACHE_LINE, 32, 0);
}

int opx_peers_init(struct opx_ep *ep)
{
	int ret;

	TAILQ_INIT(&ep->pump);
	TAILQ_INIT(&ep->copies);
	ep->pump_cnt = ep->peer_cnt = 0;
	quota_book_init(&ep->quota, QUOTA_OWNER, opx_limits, OPX_Q_NUM);
	LIST_INIT(&ep->full);
	ep->peer_tab = mem_alloc(TAB_MIN * sizeof(struct opx_peer *));
	if (!ep->peer_tab)
		return -FI_ENOMEM;
	ep->peer_mask = TAB_MIN - 1;
	ret = slabs_init(ep);
	ret = ret ? ret : rel_open(ep);
	if (ret) {
		mem_free(ep->peer_tab);
		ep->peer_tab = NULL;
	}
	return ret;
}

struct leave {
	uint64_t dir;
	bool is_left;
};

static bool ops_leave(struct opx_peer *peer)
{
	const struct opx_op *op;

	LIST_FOREACH(op, &peer->ops, link) {
		if (op->kind == OPX_OP_SERVE || op->is_over)
			continue;
		opx_flow_doom(&peer->flow, OPX_ST_CANCELED);
		return true;
	}
	return false;
}

/* What is left of one whose flow has ended is its copy, which has to stop. */
static bool ins_leave(struct opx_peer *peer)
{
	struct opx_in *in;

	LIST_FOREACH(in, &peer->ins, link) {
		if (!in->krx)
			continue;
		if (in->why)
			opx_copy_stop(&in->cp);
		else
			opx_flow_doom(&peer->flow, OPX_ST_CANCELED);
		return true;
	}
	return false;
}

static void peer_leave(void *obj, void *arg)
{
	struct leave *l = arg;

	l->is_left |= l->dir == FI_TRANSMIT ? ops_leave(obj) : ins_leave(obj);
}

bool opx_peers_leave(struct opx_ep *ep, uint64_t dir)
{
	struct leave l = {.dir = dir};

	slab_foreach(&ep->peer_slab, peer_leave, &l);
	return l.is_left;
}

#define HIDE_CNT 64

struct hide {
	uint32_t key[HIDE_CNT];
	unsigned cnt;
};

static void keys_take(void *obj, void *arg)
{
	struct opx_op *op = obj;
	struct hide *h = arg;

	while (op->key_cnt && h->cnt < HIDE_CNT)
		h->key[h->cnt++] = op->keys[--op->key_cnt];
}

/*
 * Before anything is dropped: hiding memory from a stopped process lets go of the lock, and what the adapter's thread
 * takes for @ep meanwhile may end operations.
 */
static void ops_hide(struct opx_ep *ep)
{
	struct hide h;

	do {
		h.cnt = 0;
		slab_foreach(&ep->op_slab, keys_take, &h);
		for (unsigned i = 0; i < h.cnt; i++)
			hfi_conceal(ep->hw, h.key[i]);
	} while (h.cnt == HIDE_CNT);
}

static void op_drop(void *obj, void *arg)
{
	struct opx_op *op = obj;

	(void)arg;
	mem_free(op->tids);
	mem_free(op->copy);
}

static void in_drop(void *obj, void *arg)
{
	struct opx_in *in = obj;

	(void)arg;
	if (in->tid_cnt)
		hfi_tid_free(in->ep->hw, in->tids, in->tid_cnt);
	mem_free(in->tids);
	if (in->buf != in->small)
		mem_free(in->buf);
}

static void peer_drop(void *obj, void *arg)
{
	struct opx_peer *peer = obj;

	(void)arg;
	quota_leave(&peer->quota);
}

void opx_peers_fini(struct opx_ep *ep)
{
	if (!ep->peer_tab)
		return;
	ops_hide(ep);
	slab_foreach(&ep->op_slab, op_drop, NULL);
	slab_foreach(&ep->in_slab, in_drop, NULL);
	slab_foreach(&ep->peer_slab, peer_drop, NULL);
	opx_rel_close(ep->rel); /* its flows, too */
	ep->rel = NULL;
	slab_fini(&ep->op_slab);
	slab_fini(&ep->in_slab);
	slab_fini(&ep->peer_slab);
	mem_free(ep->by_addr);
	mem_free(ep->peer_tab);
	ep->by_addr = NULL;
	ep->by_addr_cap = 0;
	ep->peer_tab = NULL;
}
