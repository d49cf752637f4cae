// SPDX-License-Identifier: BSD-2-Clause
// Sends that a peer took and has not matched yet: does that peer still live?
#include "base/clock.h"
#include "base/mem.h"
#include "prov/cxi/cxi.h"

/*
 * Theory of operation
 *
 * A send with FI_MATCH_COMPLETE that came unexpected is accepted, and ends when a receive takes it. Meanwhile nothing
 * of it is under way, so the adapter does not notice that the peer dies. While a portal has such sends it asks their
 * peers, each twice a second, by a zero-byte Put that makes no event there: no verdict means that the peer is gone. A
 * good one may come from a process that was started since at the same address; that shows in cassini_peer_life().
 */

#define ASK_NS (500 * NS_PER_MS)

/* One question under way. */
struct cxi_ask {
	struct cxi_req req; /* first */
	LIST_ENTRY(cxi_ask) link;
	struct cxi_portal *portal;
	struct cassini_dom *dom;
	uint32_t nic;
	uint16_t pid;
};

static bool waits(const struct cxi_tx *tx)
{
	return tx && tx->wait == CXI_WAIT_MATCH;
}

static bool is_at(const struct cxi_tx *tx, const struct cassini_dom *dom, uint32_t nic, uint16_t pid)
{
	return tx->cmd.dom == dom && tx->dest.nic == nic && tx->dest.pid == pid;
}

static void ask_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	struct cxi_ask *a = container_of(req, struct cxi_ask, req);
	struct cxi_portal *p = a->portal;
	/* an endpoint that is just opening there, or our own close */
	bool says_nothing = ev->rc == CASSINI_RC_ENTRY_NOT_FOUND || ev->rc == CASSINI_RC_PT_DISABLED ||
			    ev->rc == CASSINI_RC_CANCELED;

	LIST_REMOVE(a, link);
	for (unsigned id = 0; id < CXI_TX_ID_CNT; id++) {
		struct cxi_tx *tx = p->tx_id[id];

		if (!waits(tx) || !tx->is_asked || !is_at(tx, a->dom, a->nic, a->pid))
			continue;
		tx->is_asked = false;
		if (ev->rc != CASSINI_RC_OK && !says_nothing)
			cxi_tx_done(tx, ev->rc);
	}
	mem_free(a);
}

static void ask(struct cxi_portal *p, const struct cxi_tx *tx)
{
	struct cxi_ask *a = mem_alloc(sizeof(*a));
	struct cassini_cmd cmd = {
		.opcode = CASSINI_OP_PUT,
		.pid_idx = CXI_IDX_SHARED,
		.pid = tx->dest.pid,
		.nic = tx->dest.nic,
		.dom = tx->cmd.dom,
		.eq = p->eq,
		.match_bits = cxi_sh_ctrl(CXI_CTRL_ASK, 0, 0, 0),
		.user_ptr = (uintptr_t)a,
	};

	if (!a)
		return;
	*a = (struct cxi_ask){.req = {ask_on_event}, .portal = p, .dom = tx->cmd.dom, .nic = tx->dest.nic,
			      .pid = tx->dest.pid};
	if (cxi_cps_post(&p->cps, p->cmdq, &cmd)) {
		mem_free(a); /* later */
		return;
	}
	LIST_INSERT_HEAD(&p->asks, a, link);
	for (unsigned id = 0; id < CXI_TX_ID_CNT; id++)
		if (waits(p->tx_id[id]) && is_at(p->tx_id[id], a->dom, a->nic, a->pid))
			p->tx_id[id]->is_asked = true;
}

void cxi_alive_watch(struct cxi_tx *tx)
{
	tx->is_asked = false;
	tx->life = cassini_peer_life(tx->cmd.dom, tx->dest.nic, tx->dest.pid);
}

int cxi_alive_timers(struct cxi_portal *p, uint64_t now_ns)
{
	int n = 0;

	if (now_ns < p->ask_ns)
		return 0;
	p->ask_ns = now_ns + ASK_NS;
	for (unsigned id = 0; id < CXI_TX_ID_CNT; id++) {
		struct cxi_tx *tx = p->tx_id[id];

		if (!waits(tx))
			continue;
		if (cassini_peer_life(tx->cmd.dom, tx->dest.nic, tx->dest.pid) != tx->life) {
			cxi_tx_done(tx, CASSINI_RC_UNDELIVERABLE);
			n++;
		} else if (!tx->is_asked) {
			ask(p, tx);
		}
	}
	return n;
}

/* What the context still has here may end after the portal, or never. */
static void forget(struct cxi_tx *tx, const struct cxi_txc *t)
{
	bool is_over;

	if (!tx || tx->txc != t)
		return;
	is_over = !(tx->wait & CXI_WAIT_ACK); /* no event of its own is to come */
	cxi_ids_leave(tx);
	tx->wait &= CXI_WAIT_ACK;
	tx->internal = true; /* if that is a good one, it is no end that anybody may be told of */
	if (is_over)
		cxi_tx_put(tx);
}

void cxi_alive_forget(struct cxi_portal *p, const struct cxi_txc *t)
{
	for (unsigned id = 0; id < CXI_TX_ID_CNT && p->tx_id_cnt; id++)
		forget(p->tx_id[id], t);
	for (unsigned id = 0; p->rdzv_id && id < CXI_RDZV_ID_CNT; id++)
		forget(p->rdzv_id[id], t);
}

void cxi_alive_fini(struct cxi_portal *p)
{
	struct cxi_ask *a;

	while ((a = LIST_FIRST(&p->asks))) {
		LIST_REMOVE(a, link);
		mem_free(a);
	}
}
