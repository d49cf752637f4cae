// SPDX-License-Identifier: BSD-2-Clause
// Flow control at the sender: what a peer refused is kept in order until it says resume; and the control messages of
// both sides.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi_rxc.h"

#define DROPS_MAX   FIELD_GET(CXI_SH_CTRL_DROPS, CXI_SH_CTRL_DROPS) /* that one notice can tell of */
#define RENOTIFY_NS (1000 * NS_PER_MS) /* asks again whether it may go on: the peer, or its answer, may be gone */

/* One (peer, RX context) that refused something of this TX context. */
struct fc_peer {
	LIST_ENTRY(fc_peer) link;
	struct cxi_dest dest;
	struct cxi_portal *portal;
	TAILQ_HEAD(held_q, cxi_tx) held; /* refused, in order */
	uint32_t drops;                  /* refused and not yet told */
	bool draining, told, resumed;
	uint64_t ask_ns;
};

struct fc_tx {
	LIST_HEAD(, fc_peer) peers;
};

/* --- control messages: zero-byte Puts to pid_idx 255 --------------------------------------------- */

struct ctrl {
	struct cxi_req req; /* first */
	TAILQ_ENTRY(ctrl) link;
	struct cxi_portal *portal;
	struct cassini_cmd cmd;
	uint64_t due_ns;
};
TAILQ_HEAD(ctrl_q, ctrl);

struct cxi_ctrls {
	struct ctrl_q wait, sent; /* each is in one of them */
};

static void peer_lost(struct cxi_portal *p, uint32_t nic, uint16_t pid, uint8_t rc);

static void ctrl_later(struct ctrl *c, uint64_t delay_ns)
{
	c->due_ns = cassini_now_ns(c->portal->domain->nic) + delay_ns;
	TAILQ_INSERT_TAIL(&c->portal->ctrls->wait, c, link);
}

static void ctrl_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct ctrl *c = container_of(req, struct ctrl, req);

	TAILQ_REMOVE(&c->portal->ctrls->sent, c, link);
	if (ev->rc == CASSINI_RC_ENTRY_NOT_FOUND || ev->rc == CASSINI_RC_PT_DISABLED) {
		LOG_INFO("dropped FC message to NIC %#x PID %u, tried again", c->cmd.nic, c->cmd.pid);
		ctrl_later(c, (uint64_t)c->portal->domain->params.fc_retry_usec_delay * 1000);
		return;
	}
	if (ev->rc != CASSINI_RC_OK && ev->rc != CASSINI_RC_CANCELED)
		peer_lost(c->portal, c->cmd.nic, c->cmd.pid, ev->rc);
	mem_free(c);
}

int cxi_ctrl_send(struct cxi_portal *p, const struct cxi_dest *to, uint64_t bits)
{
	struct ctrl *c;
	int ret;

	if (!p->ctrls) {
		p->ctrls = mem_alloc(sizeof(*p->ctrls));
		if (!p->ctrls)
			return -FI_ENOMEM;
		TAILQ_INIT(&p->ctrls->wait);
		TAILQ_INIT(&p->ctrls->sent);
	}
	c = mem_alloc(sizeof(*c));
	if (!c)
		return -FI_ENOMEM;
	c->req.on_event = ctrl_on_event;
	c->portal = p;
	c->cmd = (struct cassini_cmd){
		.opcode = CASSINI_OP_PUT,
		.pid_idx = CXI_IDX_SHARED,
		.pid = to->pid,
		.nic = to->nic,
		.dom = cxi_portal_dom(p, to->vni),
		.eq = p->eq,
		.match_bits = bits,
		.user_ptr = (uintptr_t)&c->req,
	};
	ret = cxi_cps_post(&p->cps, p->cmdq, &c->cmd);
	if (ret == -FI_EAGAIN) {
		ctrl_later(c, 0);
		return 0;
	}
	if (ret)
		mem_free(c);
	else
		TAILQ_INSERT_TAIL(&p->ctrls->sent, c, link);
	return ret;
}

int cxi_ctrl_timers(struct cxi_portal *p)
{
	struct ctrl_q *q = &p->ctrls->wait;
	struct ctrl *c, *next;
	uint64_t now_ns;
	int n = 0;

	if (TAILQ_EMPTY(q))
		return 0;
	now_ns = cassini_now_ns(p->domain->nic);
	TAILQ_FOREACH_SAFE(c, q, link, next) {
		if (c->due_ns > now_ns)
			continue;
		if (cxi_cps_post(&p->cps, p->cmdq, &c->cmd))
			break;
		TAILQ_REMOVE(q, c, link);
		TAILQ_INSERT_TAIL(&p->ctrls->sent, c, link);
		n++;
	}
	return n;
}

/* Of what was sent no event comes any more: the queue is closed. */
void cxi_ctrl_fini(struct cxi_portal *p)
{
	struct ctrl *c;

	if (!p->ctrls)
		return;
	TAILQ_CONCAT(&p->ctrls->wait, &p->ctrls->sent, link);
	while ((c = TAILQ_FIRST(&p->ctrls->wait))) {
		TAILQ_REMOVE(&p->ctrls->wait, c, link);
		mem_free(c);
	}
	mem_free(p->ctrls);
	p->ctrls = NULL;
}

/* --- peers that refused -------------------------------------------------------------------------- */

static bool same_dest(const struct cxi_dest *a, const struct cxi_dest *b)
{
	return a->nic == b->nic && a->pid == b->pid && a->vni == b->vni && a->rx_idx == b->rx_idx;
}

static struct fc_peer *peer_find(const struct cxi_txc *t, const struct cxi_dest *dest)
{
	const struct fc_tx *f = t->fc;
	struct fc_peer *p = NULL;

	if (f)
		LIST_FOREACH(p, &f->peers, link)
			if (same_dest(&p->dest, dest))
				break;
	return p;
}

static struct fc_peer *peer_get(struct cxi_txc *t, const struct cxi_tx *tx)
{
	struct fc_peer *p = peer_find(t, &tx->dest);
	struct fc_tx *f = t->fc;

	if (p)
		return p;
	if (!f) {
		f = mem_alloc(sizeof(*f));
		if (!f)
			return NULL;
		LIST_INIT(&f->peers);
		t->fc = f;
		cxi_txc_gate(t);
	}
	p = mem_alloc(sizeof(*p));
	if (!p)
		return NULL;
	p->dest = tx->dest;
	p->portal = tx->portal;
	TAILQ_INIT(&p->held);
	LIST_INSERT_HEAD(&f->peers, p, link);
	return p;
}

static void peer_free(struct cxi_txc *t, struct fc_peer *p)
{
	struct fc_tx *f = t->fc;

	LIST_REMOVE(p, link);
	mem_free(p);
	if (LIST_EMPTY(&f->peers)) {
		mem_free(f);
		t->fc = NULL;
		cxi_txc_gate(t);
	}
}

bool cxi_fc_holds(struct cxi_txc *t, const struct cxi_dest *dest)
{
	return peer_find(t, dest) != NULL;
}

/* Answers come in any order, also those to a replay that has not ended. */
static void hold(struct fc_peer *p, struct cxi_tx *tx)
{
	struct cxi_tx *before = TAILQ_LAST(&p->held, held_q);

	while (before && before->seq > tx->seq)
		before = TAILQ_PREV(before, held_q, link);
	if (before)
		TAILQ_INSERT_AFTER(&p->held, before, tx, link);
	else
		TAILQ_INSERT_HEAD(&p->held, tx, link);
}

void cxi_fc_refused(struct cxi_tx *tx)
{
	struct fc_peer *p = peer_get(tx->txc, tx);

	if (!p) {
		cxi_fc_miscounted(tx->portal);
		cxi_tx_done(tx, CASSINI_RC_PT_DISABLED);
		return;
	}
	p->drops++;
	p->draining = true;
	p->told = p->resumed = false;
	if (unlikely(tx->len && !tx->buf)) { /* the peer counts it, or it would wait for ever; but its bytes are lost */
		cxi_tx_done(tx, CASSINI_RC_PT_DISABLED);
		return;
	}
	tx->is_held = true;
	hold(p, tx);
}

/* Is a send to that place still on its way? It may be refused as well, and must be told of with the others. */
struct flight {
	const struct fc_peer *peer;
	bool found;
};

static void look(void *obj, void *arg)
{
	const struct cxi_tx *tx = obj;
	struct flight *f = arg;

	f->found |= tx->kind == CXI_TX_SEND && (tx->wait & CXI_WAIT_ACK) && !tx->is_held &&
		    same_dest(&tx->dest, &f->peer->dest);
}

static bool in_flight(struct cxi_txc *t, const struct fc_peer *p)
{
	struct flight f = {.peer = p};

	slab_foreach(&t->txs, look, &f);
	return f.found;
}

/* All that was refused goes out again, in order. Return: false: the queue is full, later. */
static bool replay(struct fc_peer *p)
{
	struct cxi_tx *tx;

	while ((tx = TAILQ_FIRST(&p->held))) {
		TAILQ_REMOVE(&p->held, tx, link);
		tx->is_held = false;
		if (cxi_post(tx)) {
			tx->is_held = true;
			TAILQ_INSERT_HEAD(&p->held, tx, link);
			return false;
		}
	}
	return true;
}

void cxi_fc_miscounted(struct cxi_portal *portal)
{
	portal->is_miscounted = true;
}

/*
 * Has all that any context of @p's portal has sent there come back? Else more than is known must not be told of: the
 * peer would go on before who sent it has heard of its refusal, and take what is sent next in front of it.
 */
static bool is_all_back(const struct fc_peer *p)
{
	const struct cassini_dom *dom = cxi_portal_dom(p->portal, p->dest.vni);

	for (int i = 0; i < p->portal->txc_cnt; i++)
		if (in_flight(p->portal->txc[i], p))
			return false;
	return dom && cassini_peer_is_idle(dom, p->dest.nic, p->dest.pid);
}

/* The notice. Return: it is on its way; what it has no room for follows. */
static bool peer_tell(const struct cxi_txc *t, struct fc_peer *p)
{
	bool all = p->portal->is_miscounted && is_all_back(p);
	uint32_t cnt = MIN(p->drops, (uint32_t)DROPS_MAX), says = all ? (uint32_t)DROPS_MAX : cnt;

	if (cxi_ctrl_send(p->portal, &p->dest, cxi_sh_ctrl(CXI_CTRL_FC_NOTIFY, t->idx, p->dest.rx_idx, says)))
		return false;
	p->drops -= cnt;
	return true;
}

static int peer_step(struct cxi_txc *t, struct fc_peer *p, uint64_t now_ns)
{
	if (p->resumed) {
		if (replay(p))
			peer_free(t, p);
		return 1;
	}
	if (p->draining) {
		if (in_flight(t, p))
			return 0;
		p->draining = false;
		p->ask_ns = now_ns;
	}
	if (now_ns < p->ask_ns)
		return 0;
	if (!peer_tell(t, p))
		return 0;
	p->told = true;
	p->ask_ns = p->drops ? now_ns : now_ns + RENOTIFY_NS;
	return 1;
}

int cxi_fc_timers(struct cxi_txc *t, uint64_t now_ns)
{
	struct fc_tx *f = t->fc;
	struct fc_peer *p, *next;
	int n = 0;

	LIST_FOREACH_SAFE(p, &f->peers, link, next)
		n += peer_step(t, p, now_ns);
	return n;
}

void cxi_fc_fini(struct cxi_txc *t)
{
	struct fc_tx *f = t->fc;
	struct fc_peer *p;

	while (f && (p = LIST_FIRST(&f->peers))) {
		LIST_REMOVE(p, link);
		mem_free(p);
	}
	mem_free(f);
	t->fc = NULL;
	cxi_txc_gate(t);
}

void cxi_fc_forget(struct cxi_txc *t, const struct cxi_portal *portal)
{
	struct fc_tx *f = t->fc;
	struct fc_peer *p, *next;
	struct cxi_tx *tx, *tx_next;

	if (!f)
		return;
	LIST_FOREACH_SAFE(p, &f->peers, link, next) {
		while (p->portal == portal && p->drops && peer_tell(t, p))
			; /* it waits for that, whatever becomes of us */
		TAILQ_FOREACH_SAFE(tx, &p->held, link, tx_next) {
			if (tx->portal != portal)
				continue;
			TAILQ_REMOVE(&p->held, tx, link);
			cxi_tx_put(tx);
		}
		if (TAILQ_EMPTY(&p->held))
			peer_free(t, p);
		else if (p->portal == portal)
			p->portal = TAILQ_FIRST(&p->held)->portal;
		if (!t->fc)
			break;
	}
}

static void peer_lost(struct cxi_portal *portal, uint32_t nic, uint16_t pid, uint8_t rc)
{
	for (int i = 0; i < portal->txc_cnt; i++) {
		struct cxi_txc *t = portal->txc[i];
		struct fc_tx *f = t->fc;
		struct fc_peer *p, *next;
		struct cxi_tx *tx;

		if (!f)
			continue;
		LIST_FOREACH_SAFE(p, &f->peers, link, next) {
			if (p->dest.nic != nic || p->dest.pid != pid)
				continue;
			while ((tx = TAILQ_FIRST(&p->held))) {
				TAILQ_REMOVE(&p->held, tx, link);
				tx->is_held = false;
				cxi_tx_done(tx, rc);
			}
			peer_free(t, p);
			if (!t->fc)
				break;
		}
	}
}

/* --- what arrives -------------------------------------------------------------------------------- */

static void resumed(struct cxi_portal *portal, const struct cassini_event *ev)
{
	unsigned idx = (unsigned)FIELD_GET(CXI_SH_CTRL_TXC, ev->match_bits),
		 rxc = (unsigned)FIELD_GET(CXI_SH_CTRL_RXC, ev->match_bits);

	for (int i = 0; i < portal->txc_cnt; i++) {
		struct cxi_txc *t = portal->txc[i];
		struct fc_tx *f = t->fc;
		struct fc_peer *p;

		if (!f || t->idx != idx)
			continue;
		LIST_FOREACH(p, &f->peers, link)
			if (p->told && !p->draining && p->dest.rx_idx == rxc &&
			    ev->initiator == CASSINI_MATCH_ID(p->dest.pid, p->dest.nic))
				p->resumed = true;
	}
}

void cxi_fc_on_ctrl(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_portal *p = container_of(req, struct cxi_portal, ctrl_req);
	unsigned rxc = (unsigned)FIELD_GET(CXI_SH_CTRL_RXC, ev->match_bits);

	if (ev->type != CASSINI_EV_PUT || ev->rc != CASSINI_RC_OK)
		return;
	switch (FIELD_GET(CXI_SH_CTRL_TYPE, ev->match_bits)) {
	case CXI_CTRL_FC_NOTIFY:
		if (rxc < CXI_CTX_MAX && p->rxc[rxc])
			cxi_fc_notified(p->rxc[rxc], p, ev);
		break;
	case CXI_CTRL_FC_RESUME:
		resumed(p, ev);
		break;
	}
}
