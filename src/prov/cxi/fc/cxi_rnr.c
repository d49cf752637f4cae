// SPDX-License-Identifier: BSD-2-Clause
// FI_PROTO_CXI_RNR: sends tried again until a receive is posted. Source: doc/facts/cxi.md#receiver-not-ready.
#include "base/mem.h"
#include "prov/cxi/cxi.h"

/* Time from one try to the next: one queue each, so that each is in order of time. */
static const uint32_t delay_us[] = {1, 11, 81, 271, 641};
#define QUEUES ARRAY_SIZE(delay_us)

struct rnr {
	TAILQ_HEAD(rnr_q, cxi_tx) q[QUEUES];
	uint32_t cnt;
};

static struct rnr *rnr_get(struct cxi_txc *t)
{
	struct rnr *r = t->rnr;

	if (r)
		return r;
	r = mem_alloc(sizeof(*r));
	if (!r)
		return NULL;
	for (size_t i = 0; i < QUEUES; i++)
		TAILQ_INIT(&r->q[i]);
	t->rnr = r;
	return r;
}

void cxi_rnr_retry(struct cxi_tx *tx)
{
	struct rnr *r = rnr_get(tx->txc);
	uint64_t now = cassini_now_ns(tx->ep->domain->nic);
	unsigned i = MIN((unsigned)tx->tries, (unsigned)QUEUES - 1);

	if (!tx->tries)
		tx->first_ns = now;
	if (!r || tx->ep->kit.closing || now - tx->first_ns >= tx->ep->rnr_max_us * 1000) {
		cxi_tx_done(tx, tx->canceled ? CASSINI_RC_CANCELED : CASSINI_RC_ENTRY_NOT_FOUND);
		return;
	}
	if (tx->canceled) {
		cxi_tx_done(tx, CASSINI_RC_CANCELED);
		return;
	}
	tx->tries += tx->tries < QUEUES;
	tx->due_ns = now + delay_us[i] * 1000ULL;
	TAILQ_INSERT_TAIL(&r->q[i], tx, link);
	r->cnt++;
}

static int queue_run(struct cxi_txc *t, struct rnr *r, struct rnr_q *q, uint64_t now_ns)
{
	struct cxi_tx *tx;
	int n = 0;

	(void)t;
	while ((tx = TAILQ_FIRST(q)) && (tx->due_ns <= now_ns || tx->canceled)) {
		TAILQ_REMOVE(q, tx, link);
		r->cnt--;
		n++;
		if (tx->canceled) {
			cxi_tx_done(tx, CASSINI_RC_CANCELED);
			continue;
		}
		if (cxi_post(tx)) {
			TAILQ_INSERT_HEAD(q, tx, link);
			r->cnt++;
			break;
		}
	}
	return n;
}

int cxi_rnr_timers(struct cxi_txc *t, uint64_t now_ns)
{
	struct rnr *r = t->rnr;
	int n = 0;

	for (size_t i = 0; i < QUEUES && r->cnt; i++)
		n += queue_run(t, r, &r->q[i], now_ns);
	return n;
}

bool cxi_rnr_is_idle(const struct cxi_txc *t)
{
	const struct rnr *r = t->rnr;

	return !r || !r->cnt;
}

/* It ends at its next try. One that is on its way may have been taken, so that it is not found. */
int cxi_rnr_cancel(const struct cxi_ep *ep, void *context)
{
	struct rnr *r = ep->txc->rnr;
	struct cxi_tx *tx;

	for (size_t i = 0; r && i < QUEUES; i++) {
		TAILQ_FOREACH(tx, &r->q[i], link) {
			/* others may send from a shared context */
			if (tx->context != context || tx->canceled || tx->portal != ep->portal)
				continue;
			tx->canceled = true;
			tx->due_ns = 0;
			return 0;
		}
	}
	return -FI_ENOENT;
}

/* Of a shared context, which lives on. */
void cxi_rnr_forget(struct cxi_txc *t, const struct cxi_portal *portal)
{
	struct rnr *r = t->rnr;
	struct cxi_tx *tx, *next;

	for (size_t i = 0; r && i < QUEUES; i++) {
		TAILQ_FOREACH_SAFE(tx, &r->q[i], link, next) {
			if (tx->portal != portal)
				continue;
			TAILQ_REMOVE(&r->q[i], tx, link);
			r->cnt--;
			cxi_tx_put(tx);
		}
	}
}

void cxi_rnr_fini(struct cxi_txc *t)
{
	mem_free(t->rnr);
	t->rnr = NULL;
}
