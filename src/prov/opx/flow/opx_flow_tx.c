// SPDX-License-Identifier: BSD-2-Clause
// Packets out: the posts, what is kept for replay, the window, and what ACK and NACK do to them.
#include "prov/opx/flow/opx_flow.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "prov/opx/flow/opx_flow_int.h"

/* --- window ------------------------------------------------------------------------------------------------------- */

static uint32_t in_flight(const struct opx_flow *f)
{
	return (flow_sent_psn(f) - f->tx_una) & HFI_PSN_MASK;
}

/* May @pkts more packets of @bytes in all, headers included, be on their way? */
static bool window_open(const struct opx_flow *f, uint32_t pkts, uint32_t bytes)
{
	if (f->is_local)
		return in_flight(f) + pkts <= OPX_WINDOW_LOCAL;
	return in_flight(f) + pkts <= OPX_RX_AHEAD && (!f->bytes_out || f->bytes_out + bytes <= f->cwnd);
}

static bool pools_open(const struct opx_rel *rel)
{
	return rel->copies < OPX_REPLAY_COPIES && rel->refs < OPX_REPLAY_REFS;
}

/* PIO would overtake what SDMA has not sent yet: the receiver would see a gap and complain. */
static bool is_behind_sdma(const struct opx_flow *f)
{
	return f->rel->sdma_used && opx_sdma_oldest(f->rel, f);
}

bool opx_flow_may_post(const struct opx_flow *f)
{
	if (f->state != OPX_FLOW_OPEN || f->doom || !window_open(f, 1, pkt_cost(f->rel->mtu)))
		return false;
	return f->is_local || (pools_open(f->rel) && !is_behind_sdma(f));
}

void opx_flow_look(struct opx_flow *f)
{
	bool is_clear = f->state == OPX_FLOW_OPEN && f->is_local && !f->doom && !f->unsent;

	f->pass = is_clear ? OPX_WINDOW_LOCAL - in_flight(f) : 0;
}

/* --- one packet --------------------------------------------------------------------------------------------------- */

static uint32_t iov_len(const struct iovec *iov, int cnt)
{
	size_t len = 0;

	for (int i = 0; i < cnt; i++)
		len += iov[i].iov_len;
	return (uint32_t)MIN(len, (size_t)UINT32_MAX);
}

static inline void number(const struct opx_flow *f, struct hfi_hdr *h, uint32_t psn)
{
	assert(le64_get(h->key) == le64_get(f->hdr.key) && !hfi_hdr_psn(&f->hdr));
	h->psn_tx = le32_put(le32_get(f->hdr.psn_tx) | psn);
}

/* A packet that fills half of the window, or all of it, asks for an acknowledgement. */
static bool must_ask(const struct opx_flow *f, uint32_t cost)
{
	uint32_t after = f->bytes_out + cost;

	return (f->bytes_out < f->cwnd / 2 && after >= f->cwnd / 2) || after + pkt_cost(f->rel->mtu) > f->cwnd;
}

/*
 * hdr->ecn of a packet that is posted with @flags. The answer may take its time while the window is nearly empty, but
 * not where an operation ends with it: the program waits for its memory.
 */
static uint8_t asks(const struct opx_flow *f, uint32_t cost, unsigned flags)
{
	if (!f->is_local && must_ask(f, cost))
		return OPX_ACK_REQ;
	if (!(flags & OPX_POST_ACK))
		return 0;
	return !(flags & OPX_POST_REF) && f->bytes_out + cost < f->cwnd / 4 ? OPX_ACK_REQ | OPX_ACK_LATE : OPX_ACK_REQ;
}

/* At the end of the queue, with the next PSN. */
static void replay_add(struct opx_flow *f, struct opx_replay *r)
{
	struct opx_rel *rel = f->rel;

	r->psn = f->tx_psn;
	r->serial = f->serial;
	f->tx_psn = psn_add(f->tx_psn, 1);
	if (STAILQ_EMPTY(&f->queue) && !f->is_local)
		opx_flow_attend(f); /* its PINGs begin */
	STAILQ_INSERT_TAIL(&f->queue, r, next);
	*(r->kind == OPX_REP_REF ? &rel->refs : &rel->copies) += 1;
}

/* With @psn. Return: as hfi_pio_send(). */
static int replay_send(struct opx_flow *f, struct opx_replay *r, uint32_t psn)
{
	struct iovec copy = {opx_replay_buf(r), r->len};
	bool is_ref = r->kind == OPX_REP_REF;
	int iov_cnt = is_ref ? r->iov_cnt : r->len != 0;

	r->hdr.key = f->hdr.key; /* it may have been begun before the flow had one */
	number(f, &r->hdr, psn);
	return hfi_pio_send(f->rel->a.hw, f->dst, &r->hdr, is_ref ? opx_replay_buf(r) : &copy, iov_cnt);
}

/* One of the queue. */
static int push_one(struct opx_flow *f, struct opx_replay *r)
{
	int rc = replay_send(f, r, r->psn);

	if (rc)
		return opx_flow_refused(f, rc);
	r->serial = f->serial;
	r->sdma_seq = 0;
	f->rel->is_dirty = true;
	return 0;
}

void opx_flow_retire(struct opx_rel *rel, struct opx_replay_q *q, bool is_told)
{
	struct opx_replay *r = STAILQ_FIRST(q);

	if (r && rel->wants_pool)
		rel->next_ns = 0;
	while (r) {
		struct opx_op *op = r->op;
		uint32_t cnt = 0;

		do {
			STAILQ_REMOVE_HEAD(q, next);
			if (r->kind == OPX_REP_REF)
				rel->refs--;
			else
				rel->copies--;
			opx_replay_free(rel, r);
			cnt++;
			r = STAILQ_FIRST(q);
		} while (r && r->op == op);
		if (op && is_told)
			rel->a.ops->retired(rel->a.ctx, op, cnt);
	}
}

/* --- posts -------------------------------------------------------------------------------------------------------- */

/* Is there a replay left for a packet? CONTROL ones have a reserve. */
static bool pool_open(struct opx_rel *rel, bool is_ref, unsigned flags)
{
	uint32_t used = is_ref ? rel->refs : rel->copies;
	uint32_t max = flags & OPX_POST_CONTROL ? OPX_CTL_COPIES : is_ref ? OPX_REPLAY_REFS : OPX_REPLAY_COPIES;

	if (used < max)
		return true;
	rel->wants_pool = true;
	return false;
}

/* Is the flow open, and may @len bytes go now? Return: 0; -FI_EAGAIN; else as opx_flow_open(). */
static int flow_ready(struct opx_flow *f, uint32_t len)
{
	int rc = opx_flow_open(f);

	if (rc && rc != -FI_EAGAIN)
		return rc;
	if (f->rel->sdma_used)
		opx_sdma_reap(f->rel);
	if (rc || f->unsent || is_behind_sdma(f))
		return -FI_EAGAIN;
	if (window_open(f, 1, pkt_cost(len)))
		return 0;
	f->rel->st.throttled++;
	return -FI_EAGAIN;
}

/* Not accepted, and nothing has happened. */
static int post_failed(struct opx_flow *f, int rc)
{
	if (rc == -FI_EAGAIN)
		opx_flow_want(f);
	return opx_flow_refused(f, rc);
}

/* What the network may lose, what the link has no memory for, and what has to wait lies in a record of ours. */
static __attribute__((noinline)) struct hfi_hdr *record_begin(struct opx_flow *f, uint32_t len, unsigned flags,
							       int *why)
{
	bool was_full = f->pass; /* and opx_flow_begin() has found no memory at the peer */
	int rc = flow_ready(f, len);
	bool is_ref = flags & OPX_POST_REF && !f->is_local, is_control = flags & OPX_POST_CONTROL;
	struct opx_replay *r;

	if (!rc && was_full && hfi_pio_full(f->rel->a.hw, f->dst))
		rc = -FI_EAGAIN; /* not worth a copy */
	*why = rc;
	if (rc && rc != -FI_EAGAIN)
		return NULL;
	if (rc && !is_control) {
		post_failed(f, rc);
		return NULL;
	}
	/* what leaves at once on this host is not kept */
	r = (f->is_local && !rc) || pool_open(f->rel, is_ref, flags) ? opx_replay_new(f->rel, len, is_ref) : NULL;
	if (likely(r != NULL)) {
		r->must_wait = rc;
		f->rel->begun = r;
		return &r->hdr;
	}
	*why = is_control ? -FI_ENOMEM : -FI_EAGAIN;
	if (is_control)
		opx_flow_doom(f, OPX_ST_NOMEM); /* the peer waits for it: let it hear of an end at least */
	else
		post_failed(f, *why);
	return NULL;
}

static __attribute__((noinline)) int record_commit(struct opx_flow *f, struct opx_replay *r, uint32_t head,
						    unsigned flags)
{
	int rc = r->must_wait ? -FI_EAGAIN : 0;

	r->hdr.bth1 = (uint8_t)(sizeof(r->hdr) - head);
	f->rel->begun = NULL;
	f->rel->is_dirty = true;
	r->hdr.ecn |= asks(f, pkt_cost(r->len), flags);
	rc = rc ? rc : replay_send(f, r, f->tx_psn);
	f->rel->st.tx_pkts += !rc;
	if (!rc && !f->is_local) {
		replay_add(f, r);
		f->bytes_out += pkt_cost(r->len);
		if (r->hdr.ecn & OPX_ACK_REQ)
			opx_flow_asked(f, r->psn, r->hdr.ecn & OPX_ACK_LATE);
		return 0;
	}
	if ((flags & OPX_POST_CONTROL) && (rc == -FI_EAGAIN || rc == -FI_ENETDOWN)) { /* it goes when it can */
		replay_add(f, r);
		if (!f->unsent)
			f->unsent = r;
		opx_flow_look(f);
		opx_flow_attend(f);
		return 0;
	}
	opx_replay_free(f->rel, r);
	if (rc)
		return post_failed(f, rc);
	f->tx_psn = psn_add(f->tx_psn, 1);
	opx_flow_look(f);
	return 0;
}

/* Whether a packet may leave at once for a process on this host. */
static inline bool may_pass(const struct opx_flow *f)
{
	assert(!f->pass || (f->state == OPX_FLOW_OPEN && f->is_local && !f->doom && !f->unsent &&
			    f->pass == OPX_WINDOW_LOCAL - in_flight(f)));
	return likely(f->pass != 0);
}

/* These four are inline for messages of one packet (opx_send.c, opx_tx.c). */
inline __attribute__((always_inline)) struct hfi_hdr *opx_flow_pass_begin(struct opx_flow *f, uint32_t head,
									   uint32_t len)
{
	return may_pass(f) ? hfi_pio_begin(f->rel->a.hw, f->dst, head, len) : NULL;
}

inline __attribute__((always_inline)) void opx_flow_pass_commit(struct opx_flow *f, struct hfi_hdr *h, uint32_t head,
								 uint32_t len)
{
	struct opx_rel *rel = f->rel;

	number(f, h, f->tx_psn);
	f->tx_psn = psn_add(f->tx_psn, 1);
	f->pass--;
	rel->st.tx_pkts++;
	hfi_pio_commit(rel->a.hw, f->dst, h, head, len);
}

inline __attribute__((always_inline)) struct hfi_hdr *opx_flow_begin(struct opx_flow *f, uint32_t head, uint32_t len,
								      unsigned flags, int *rc)
{
	struct hfi_hdr *h = opx_flow_pass_begin(f, head, len);

	return likely(h != NULL) ? h : record_begin(f, len, flags, rc);
}

inline __attribute__((always_inline)) int opx_flow_commit(struct opx_flow *f, struct hfi_hdr *h, uint32_t head,
							  uint32_t len, unsigned flags)
{
	struct opx_rel *rel = f->rel;

	if (unlikely(rel->begun != NULL))
		return record_commit(f, rel->begun, head, flags);
	if (flags & OPX_POST_ACK)
		h->ecn |= OPX_ACK_REQ;
	opx_flow_pass_commit(f, h, head, len);
	return 0;
}

int opx_flow_post(struct opx_flow *f, struct hfi_hdr *h, const struct iovec *iov, int iov_cnt, unsigned flags,
		  struct opx_op *op, uint32_t *refs)
{
	uint32_t len = iov_len(iov, iov_cnt);
	struct opx_replay *r;
	struct hfi_hdr *to;
	bool is_ref;
	int rc;

	if (unlikely(len > f->rel->mtu || iov_cnt > HFI_IOV_MAX))
		return -FI_EMSGSIZE;
	to = opx_flow_begin(f, sizeof(*h), len, flags, &rc);
	if (unlikely(!to))
		return rc;
	r = f->rel->begun;
	is_ref = r && r->kind == OPX_REP_REF;
	if (is_ref) {
		r->op = op;
		r->iov_cnt = (uint8_t)iov_cnt;
		memcpy(to + 1, iov, (size_t)iov_cnt * sizeof(*iov));
	} else {
		opx_flow_payload(to, sizeof(*h), iov, (size_t)iov_cnt);
	}
	*to = *h;
	rc = opx_flow_commit(f, to, sizeof(*h), len, flags);
	if (is_ref && refs)
		*refs += !rc;
	return rc;
}

uint32_t opx_flow_room(struct opx_flow *f)
{
	struct opx_rel *rel = f->rel;
	uint32_t n;

	if (opx_flow_open(f))
		return 0;
	if (rel->sdma_used)
		opx_sdma_reap(rel);
	if (f->unsent || !opx_flow_may_post(f)) {
		opx_flow_want(f);
		return 0;
	}
	if (f->is_local)
		return OPX_WINDOW_LOCAL - in_flight(f);
	n = MIN(OPX_REPLAY_COPIES - rel->copies, OPX_REPLAY_REFS - rel->refs);
	n = MIN(n, OPX_RX_AHEAD - in_flight(f));
	return MIN(n, MAX((f->cwnd - MIN(f->cwnd, f->bytes_out)) / pkt_cost(rel->mtu), 1u));
}

/* --- SDMA --------------------------------------------------------------------------------------------------------- */

void opx_sdma_reap(struct opx_rel *rel)
{
	while (rel->sdma_used) {
		struct opx_flow *f = rel->sdma[rel->sdma_head].flow;
		int err = 0;
		enum hfi_sdma_status st = hfi_sdma_status(rel->a.hw, (uint16_t)rel->sdma_head, &err);

		if (st == HFI_SDMA_QUEUED)
			return;
		hfi_sdma_free(rel->a.hw, (uint16_t)rel->sdma_head);
		rel->sdma_head = (rel->sdma_head + 1) % rel->sdma_cnt;
		rel->sdma_used--;
		/* what was not sent is sent again when its receiver says so */
		if (st == HFI_SDMA_ERROR && f)
			opx_flow_refused(f, err);
	}
}

const struct opx_sdma *opx_sdma_oldest(const struct opx_rel *rel, const struct opx_flow *f)
{
	for (uint32_t i = 0; i < rel->sdma_used; i++) {
		const struct opx_sdma *s = &rel->sdma[(rel->sdma_head + i) % rel->sdma_cnt];

		if (s->flow == f)
			return s;
	}
	return NULL;
}

void opx_sdma_forget(struct opx_rel *rel, const struct opx_flow *f)
{
	for (uint32_t i = 0; i < rel->sdma_used; i++) {
		struct opx_sdma *s = &rel->sdma[(rel->sdma_head + i) % rel->sdma_cnt];

		if (s->flow == f)
			s->flow = NULL;
	}
}

/* Does the adapter still read it? Then its memory must stay, and a repetition is not called for. */
static bool is_pinned(struct opx_rel *rel, const struct opx_replay *r)
{
	if (!r->sdma_seq || rel->sdma_seq - r->sdma_seq >= rel->sdma_used)
		return false;
	opx_sdma_reap(rel);
	return rel->sdma_seq - r->sdma_seq < rel->sdma_used;
}

/* @out[HFI_IOV_MAX]: the bytes [@off, +@len) of @iov. Return: entries. */
static int iov_slice(const struct iovec *iov, int cnt, size_t off, size_t len, struct iovec *out)
{
	int n = 0;

	for (int i = 0; i < cnt && len; i++) {
		size_t take;

		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		take = MIN(iov[i].iov_len - off, len);
		out[n++] = (struct iovec){(char *)iov[i].iov_base + off, take};
		len -= take;
		off = 0;
	}
	return n;
}

/* The header of packet @i as the adapter makes it. Return: false: it will not take the request either. */
static bool sdma_hdr(const struct hfi_sdma_req *req, uint32_t i, struct hfi_hdr *h)
{
	uint64_t off = (uint64_t)i * req->fragsize;

	*h = req->hdr;
	h->w[0] = le64_put(le64_get(h->w[0]) + off);
	if (!req->tids)
		return true;
	off += req->tid_off;
	for (int t = 0; t < req->tid_cnt; t++) {
		if (off < req->tids[t].len)
			return !hfi_tid_hdr(h, &req->tids[t], (uint32_t)off);
		off -= req->tids[t].len;
	}
	return false;
}

/* Keep all packets of @req. Return: 0; -FI_EAGAIN, -FI_EINVAL, none is kept. */
static int sdma_keep(struct opx_flow *f, const struct hfi_sdma_req *req, uint32_t total, struct opx_replay_q *q)
{
	struct opx_rel *rel = f->rel;
	int rc = -FI_EAGAIN;

	for (uint32_t i = 0, off = 0; i < req->npkts; i++, off += req->fragsize) {
		uint32_t len = MIN(req->fragsize, total - off);
		struct opx_replay *r = opx_replay_new(rel, len, true);

		if (!r)
			goto undo;
		STAILQ_INSERT_TAIL(q, r, next);
		if (!sdma_hdr(req, i, &r->hdr)) {
			rc = -FI_EINVAL;
			goto undo;
		}
		r->iov_cnt = (uint8_t)iov_slice(req->iov, req->iov_cnt, off, len, opx_replay_buf(r));
	}
	return 0;
undo:
	while (!STAILQ_EMPTY(q)) {
		struct opx_replay *r = STAILQ_FIRST(q);

		STAILQ_REMOVE_HEAD(q, next);
		opx_replay_free(rel, r);
	}
	return rc;
}

static int sdma_ready(struct opx_flow *f, const struct hfi_sdma_req *req, uint32_t bytes)
{
	struct opx_rel *rel = f->rel;
	int rc = opx_flow_open(f);

	if (rc)
		return rc;
	if (f->is_local)
		return -FI_EINVAL;
	if (rel->sdma_used == rel->sdma_cnt)
		opx_sdma_reap(rel);
	if (f->unsent || rel->sdma_used == rel->sdma_cnt)
		return -FI_EAGAIN;
	if (rel->refs + req->npkts > OPX_REPLAY_REFS) {
		rel->wants_pool = true;
		return -FI_EAGAIN;
	}
	if (window_open(f, req->npkts, bytes))
		return 0;
	rel->st.throttled++;
	return -FI_EAGAIN;
}

int opx_flow_post_sdma(struct opx_flow *f, struct hfi_sdma_req *req, unsigned flags, struct opx_op *op, uint32_t *refs)
{
	struct opx_replay_q q = STAILQ_HEAD_INITIALIZER(q);
	uint32_t len = iov_len(req->iov, req->iov_cnt), cost = len + req->npkts * (uint32_t)sizeof(struct hfi_hdr);
	struct opx_rel *rel = f->rel;
	struct opx_replay *r;
	int rc;

	if (!req->npkts || req->npkts > HFI_SDMA_PKTS || !req->fragsize || req->fragsize > rel->mtu ||
	    req->iov_cnt > HFI_IOV_MAX || DIV_ROUND_UP(len, req->fragsize) != req->npkts)
		return -FI_EINVAL;
	rc = sdma_ready(f, req, cost);
	if (!rc)
		rc = sdma_keep(f, req, len, &q);
	if (!rc) {
		req->dst = f->dst;
		req->last_ecn = asks(f, cost, flags);
		req->comp_idx = (uint16_t)((rel->sdma_head + rel->sdma_used) % rel->sdma_cnt);
		req->hdr.key = f->hdr.key;
		number(f, &req->hdr, f->tx_psn);
		rc = hfi_sdma_post(rel->a.hw, req);
	}
	if (rc == -FI_EBUSY)
		rc = -FI_EAGAIN;
	if (rc == -FI_EAGAIN)
		opx_flow_want(f);
	if (!rc) {
		rel->sdma[req->comp_idx] = (struct opx_sdma){f, f->tx_psn};
		rel->sdma_used++;
		rel->sdma_seq++;
		rel->st.tx_pkts += req->npkts;
	}
	while ((r = STAILQ_FIRST(&q))) {
		STAILQ_REMOVE_HEAD(&q, next);
		if (rc) {
			opx_replay_free(rel, r);
			continue;
		}
		r->sdma_seq = rel->sdma_seq;
		f->bytes_out += pkt_cost(r->len);
		r->op = op;
		if (refs)
			++*refs;
		replay_add(f, r);
	}
	if (!rc && req->last_ecn)
		opx_flow_asked(f, psn_add(f->tx_psn, HFI_PSN_MASK), req->last_ecn & OPX_ACK_LATE);
	return opx_flow_refused(f, rc);
}

/* --- what waits --------------------------------------------------------------------------------------------------- */

static int push_again(struct opx_flow *f)
{
	struct opx_replay *r;
	int n = 0;

	STAILQ_FOREACH(r, &f->queue, next)
	{
		if (!f->resends || r == f->unsent)
			break;
		if (!r->wants_again)
			continue;
		if (f->resends == 1)
			r->hdr.ecn = OPX_ACK_REQ;
		if (push_one(f, r))
			break;
		r->wants_again = false;
		f->again += !r->is_again;
		r->is_again = true;
		f->resends--;
		f->rel->st.replays++;
		n++;
	}
	return n;
}

static int push_new(struct opx_flow *f)
{
	struct opx_replay *r;
	int n = 0;

	while ((r = f->unsent) && window_open(f, 1, pkt_cost(r->len)) && !is_behind_sdma(f)) {
		struct opx_replay_q q = STAILQ_HEAD_INITIALIZER(q);

		if (!f->is_local && must_ask(f, pkt_cost(r->len)))
			r->hdr.ecn = OPX_ACK_REQ;
		if (push_one(f, r))
			break;
		f->rel->st.tx_pkts++;
		n++;
		f->unsent = STAILQ_NEXT(r, next);
		if (!f->is_local) {
			f->bytes_out += pkt_cost(r->len);
			if (r->hdr.ecn & OPX_ACK_REQ)
				opx_flow_asked(f, r->psn, r->hdr.ecn & OPX_ACK_LATE);
			continue;
		}
		STAILQ_REMOVE_HEAD(&f->queue, next);
		STAILQ_INSERT_TAIL(&q, r, next);
		opx_flow_retire(f->rel, &q, true);
	}
	if (n)
		opx_flow_look(f);
	return n;
}

bool opx_flow_is_stuck(const struct opx_flow *f)
{
	return f->resends || (f->unsent && window_open(f, 1, pkt_cost(f->unsent->len)));
}

int opx_flow_push(struct opx_flow *f)
{
	int n = f->resends ? push_again(f) : 0;

	if (f->unsent && !f->resends && !f->doom)
		n += push_new(f);
	return n;
}

/* --- what the peer says ------------------------------------------------------------------------------------------- */

/* Something has been acknowledged: whoever waits for room may have it. */
static void after_ack(struct opx_flow *f)
{
	f->fruitless = 0;
	f->hurries = 0;
	if (f->unsent || f->wants_room || f->resends)
		opx_flow_attend(f);
}

bool opx_flow_acked(struct opx_flow *f, uint32_t first, uint32_t cnt)
{
	int32_t from = psn_diff(first, f->tx_una), end = from + (int32_t)cnt;
	struct opx_replay_q q = STAILQ_HEAD_INITIALIZER(q);
	struct opx_replay *r, *prev = NULL, *next;
	uint32_t bytes = 0, pkts = 0;

	if (end > (int32_t)in_flight(f) || (f->is_local && from > 0 && cnt))
		return false;
	if (end <= 0 || !cnt)
		return true;
	if (f->is_local) {
		f->tx_una = psn_add(f->tx_una, (uint32_t)end);
		opx_flow_look(f);
		after_ack(f);
		return true;
	}
	for (r = STAILQ_FIRST(&f->queue); r && r != f->unsent; r = next) {
		int32_t at = psn_diff(r->psn, f->tx_una);

		next = STAILQ_NEXT(r, next);
		if (at >= end)
			break;
		if (at < from || is_pinned(f->rel, r)) {
			prev = r;
			continue;
		}
		if (prev)
			STAILQ_REMOVE_AFTER(&f->queue, prev, next);
		else
			STAILQ_REMOVE_HEAD(&f->queue, next);
		STAILQ_INSERT_TAIL(&q, r, next);
		f->resends -= r->wants_again;
		f->again -= r->is_again;
		bytes += pkt_cost(r->len);
		pkts++;
	}
	if (!bytes)
		return true;
	r = STAILQ_FIRST(&f->queue);
	f->tx_una = r ? r->psn : f->tx_psn;
	f->bytes_out -= bytes;
	opx_flow_grow(f, pkts, bytes);
	after_ack(f);
	opx_flow_answered(f, false);
	opx_flow_retire(f->rel, &q, true);
	return true;
}

bool opx_flow_nacked(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial)
{
	int32_t from = psn_diff(first, f->tx_una), end = from + (int32_t)cnt;
	struct opx_replay *r;
	uint32_t lost = 0;

	if (!cnt || cnt > OPX_NACK_MAX || end > (int32_t)in_flight(f) || (int32_t)(f->serial - serial) < 0)
		return false;
	if (f->is_local) { /* the receiver had no memory for it, and nobody has kept it */
		if (from >= 0)
			opx_flow_doom(f, OPX_ST_UNKEPT);
		return from >= 0;
	}
	STAILQ_FOREACH(r, &f->queue, next)
	{
		int32_t at = psn_diff(r->psn, f->tx_una);

		if (r == f->unsent || at >= end)
			break;
		if (at < from || r->wants_again || (serial ? (int32_t)(serial - r->serial) <= 0 : r->is_again) ||
		    is_pinned(f->rel, r))
			continue;
		r->wants_again = true;
		f->resends++;
		lost++;
	}
	if (!lost)
		return true;
	opx_flow_shrink(f, first, lost);
	if (push_again(f) && f->is_answered && f->hurries < OPX_HURRY_MAX) {
		f->hurries++;
		f->asks = true;
	}
	if (f->resends || f->asks)
		opx_flow_attend(f);
	return true;
}
