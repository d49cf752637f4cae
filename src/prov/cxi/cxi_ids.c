// SPDX-License-Identifier: BSD-2-Clause
// Ids by which a peer names a send once more: when it has matched it, or fetches it.
#include "base/mem.h"
#include "prov/cxi/cxi.h"

/* Untagged rendezvous have only the low part of an id. */
enum kind { ID_MATCH, ID_UNTAGGED, ID_TAGGED };
static const struct {
	uint32_t first, cnt;
} span[CXI_ID_KINDS] = {
	[ID_MATCH] = {0, CXI_TX_ID_CNT},
	[ID_UNTAGGED] = {0, CXI_RDZV_UNTAGGED_CNT},
	[ID_TAGGED] = {CXI_RDZV_UNTAGGED_CNT, CXI_RDZV_ID_CNT - CXI_RDZV_UNTAGGED_CNT},
};

/*
 * A send whose context has left while its peer holds the message. The peer may name it yet, and would mean the next
 * send to it that has the id: so nobody gets that before. Of each kind the latest ones are kept so: a peer may have
 * thrown the message away, or be gone, and of a Get that the adapter refuses, since nothing is offered any more, nobody
 * hears.
 */
#define LEFT_MAX (CXI_RDZV_UNTAGGED_CNT / 2)

struct cxi_left {
	TAILQ_ENTRY(cxi_left) link;
	struct cxi_tx **at; /* its place, which says g_left */
	const struct cassini_dom *dom;
	uint32_t peer; /* CASSINI_MATCH_ID() */
	uint8_t kind;
};

static struct cxi_tx g_left; /* stands for all of them: waits for nothing, is of no context */

void cxi_ids_init(struct cxi_portal *p)
{
	TAILQ_INIT(&p->left);
}

static void left_end(struct cxi_portal *p, struct cxi_left *l)
{
	*l->at = NULL;
	p->left_cnt[l->kind]--;
	TAILQ_REMOVE(&p->left, l, link);
	mem_free(l);
}

void cxi_ids_fini(struct cxi_portal *p)
{
	struct cxi_left *l;

	while ((l = TAILQ_FIRST(&p->left)))
		left_end(p, l);
	mem_free(p->rdzv_id);
	p->rdzv_id = NULL;
}

static int id_get(struct cxi_portal *p, enum kind kind, struct cxi_tx **place, struct cxi_tx *tx)
{
	for (uint32_t i = 0; i < span[kind].cnt; i++) {
		uint32_t n = (p->id_hint[kind] + i) % span[kind].cnt, id = span[kind].first + n;

		if (place[id])
			continue;
		place[id] = tx;
		p->id_hint[kind] = n + 1;
		return (int)id;
	}
	return -FI_EAGAIN;
}

/* @at, which was that of @tx, is free for the next one when the peer has named it. */
static void id_leave(struct cxi_portal *p, enum kind kind, struct cxi_tx **at, const struct cxi_tx *tx)
{
	struct cxi_left *l = mem_alloc(sizeof(*l)), *oldest;

	*at = NULL;
	if (!l)
		return;
	if (p->left_cnt[kind] == LEFT_MAX) {
		TAILQ_FOREACH(oldest, &p->left, link)
			if (oldest->kind == kind)
				break;
		left_end(p, oldest);
	}
	*l = (struct cxi_left){.at = at, .dom = tx->cmd.dom, .peer = CASSINI_MATCH_ID(tx->dest.pid, tx->dest.nic),
			       .kind = (uint8_t)kind};
	*at = &g_left;
	p->left_cnt[kind]++;
	TAILQ_INSERT_TAIL(&p->left, l, link);
}

void cxi_id_named(struct cxi_portal *p, struct cxi_tx *const *at, const struct cassini_dom *dom, uint32_t peer)
{
	struct cxi_left *l;

	if (*at != &g_left)
		return;
	TAILQ_FOREACH(l, &p->left, link)
		if (l->at == at)
			break;
	if (l->dom == dom && l->peer == peer)
		left_end(p, l);
}

int cxi_tx_id_get(struct cxi_portal *p, struct cxi_tx *tx)
{
	int id = id_get(p, ID_MATCH, p->tx_id, tx);

	p->tx_id_cnt += id >= 0;
	return id;
}

void cxi_tx_id_put(struct cxi_portal *p, unsigned id)
{
	p->tx_id[id] = NULL;
	p->tx_id_cnt--;
}

int cxi_rdzv_id_get(struct cxi_portal *p, struct cxi_tx *tx, bool tagged)
{
	if (!p->rdzv_id)
		p->rdzv_id = mem_alloc(CXI_RDZV_ID_CNT * sizeof(*p->rdzv_id)); /* pages appear as they are used */
	if (!p->rdzv_id)
		return -FI_EAGAIN;
	return id_get(p, tagged ? ID_TAGGED : ID_UNTAGGED, p->rdzv_id, tx);
}

void cxi_rdzv_id_put(struct cxi_portal *p, unsigned id)
{
	p->rdzv_id[id] = NULL;
}

void cxi_ids_leave(struct cxi_tx *tx)
{
	struct cxi_portal *p = tx->portal;

	if (tx->tx_id >= 0) {
		cxi_tx_id_put(p, (unsigned)tx->tx_id);
		if (tx->wait & CXI_WAIT_MATCH)
			id_leave(p, ID_MATCH, &p->tx_id[tx->tx_id], tx);
	}
	if (tx->rdzv_id >= 0) {
		cxi_rdzv_id_put(p, (unsigned)tx->rdzv_id);
		if (tx->wait & CXI_WAIT_GET)
			id_leave(p, tx->tagged ? ID_TAGGED : ID_UNTAGGED, &p->rdzv_id[tx->rdzv_id], tx);
	}
	tx->tx_id = -1;
	tx->rdzv_id = -1;
}
