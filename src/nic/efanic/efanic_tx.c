// SPDX-License-Identifier: BSD-2-Clause
// A work request's life: checked, handed to the link, retried while there is no room or no
// receiver, reported.
#include "nic/efanic/efanic_int.h"

#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "base/mem.h"

/* Waiting destinations, and work requests of each, that one poll serves. */
#define RETRY_DST_BUDGET 16
#define RETRY_WR_BUDGET	 8

static uint16_t slot_idx(const struct efanic_qp *qp, const struct efanic_swr *s)
{
	return (uint16_t)(s - qp->sq);
}

static void line_push(struct efanic_qp *qp, struct wr_line *line, struct efanic_swr *s)
{
	uint16_t i = slot_idx(qp, s);

	s->next = SQ_NONE;
	if (line->head == SQ_NONE)
		line->head = i;
	else
		qp->sq[line->tail].next = i;
	line->tail = i;
}

static struct efanic_swr *line_pop(struct efanic_qp *qp, struct wr_line *line)
{
	struct efanic_swr *s = &qp->sq[line->head];

	line->head = s->next;
	return s;
}

/* --- the end of a work request --- */

static void slot_free(struct efanic_qp *qp, struct efanic_swr *s)
{
	if (unlikely(s->is_own && s->len > EFANIC_OWN_MAX))
		mem_free(s->own_iov.iov_base);
	s->phase = WR_FREE;
	s->next = qp->sq_free;
	qp->sq_free = slot_idx(qp, s);
	qp->sq_used--;
	if (likely(s->dst->refs > 1))
		s->dst->refs--;
	else
		efanic_dst_put(s->dst);
}

/* A request with bytes of its own has failed: they are shown, and they and the destination live as long. */
static __attribute__((cold, noinline)) void report_failed_own(struct efanic_qp *qp, struct efanic_swr *s,
							      uint8_t status)
{
	void *big = s->len > EFANIC_OWN_MAX ? s->own_iov.iov_base : NULL;
	struct efanic_dst *dst = s->dst;
	struct efanic_wc wc = {
		.wr_id = s->wr_id,
		.status = status,
		.opcode = s->opcode,
		.src = dst,
		.data = view_of(s->own_iov.iov_base, s->len),
	};
	bool discard = s->discard;

	dst->refs++;
	s->is_own = false; /* it leaves us its memory */
	slot_free(qp, s);
	if (!discard)
		qp->on_wc(qp->ctx, &wc);
	mem_free(big);
	efanic_dst_put(dst);
}

/* The slot is free before the handler runs, so that the handler can post. */
static void report(struct efanic_qp *qp, struct efanic_swr *s, uint8_t status)
{
	bool discard = s->discard;

	if (unlikely(status != EFANIC_OK && s->is_own)) {
		report_failed_own(qp, s, status);
		return;
	}
	qp->wc_tx.wr_id = s->wr_id;
	qp->wc_tx.status = status;
	qp->wc_tx.opcode = s->opcode;
	slot_free(qp, s);
	if (likely(!discard))
		qp->on_wc(qp->ctx, &qp->wc_tx);
}

static void count_error(struct efanic_qp *qp, const struct efanic_swr *s)
{
	if (s->opcode == EFANIC_OP_READ)
		qp->stats.rdma_read_wr_err++;
	else if (s->opcode == EFANIC_OP_WRITE)
		qp->stats.rdma_write_wr_err++;
}

static void wr_end(struct efanic_qp *qp, struct efanic_swr *s, uint8_t status)
{
	if (likely(status == EFANIC_OK)) {
		if (s->is_own && !s->wr_id) {
			slot_free(qp, s);
			return;
		}
	} else {
		count_error(qp, s);
	}
	if (likely(qp->deliver)) {
		report(qp, s, status);
		return;
	}
	s->phase = WR_DONE;
	s->status = status;
	line_push(qp, &qp->done, s);
	efanic_qp_attn(qp);
}

int efanic_tx_report(struct efanic_qp *qp)
{
	struct wr_line line = qp->done;
	struct efanic_swr *s;
	int n = 0;

	qp->done.head = SQ_NONE; /* what handlers add is for the next poll */
	efanic_qp_attn(qp);
	for (; line.head != SQ_NONE; n++) {
		s = line_pop(qp, &line);
		report(qp, s, s->status);
	}
	return n;
}

uint8_t efanic_end_status(const struct efanic_dst *dst, int verdict)
{
	switch (verdict) {
	case -EACCES:
		return EFANIC_REMOTE_BAD_ADDRESS;
	case -ENOTCONN:
		return EFANIC_REMOTE_BAD_DEST_QPN;
	case -ECONNREFUSED:
		return dst->has_answered ? EFANIC_REMOTE_ABORT : EFANIC_REMOTE_BAD_DEST_QPN;
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return EFANIC_LOCAL_UNREACH_REMOTE;
	case -ETIMEDOUT:
		return EFANIC_LOCAL_UNRESP_REMOTE;
	case -EPROTO:
		return EFANIC_REMOTE_FEATURE_MISMATCH;
	case -ECANCELED:
		return EFANIC_FLUSHED;
	case -EMSGSIZE:
		return EFANIC_LOCAL_BAD_LENGTH;
	case -EFAULT:
		return EFANIC_LOCAL_INVALID_LKEY;
	default:
		return EFANIC_LOCAL_QP_INTERNAL;
	}
}

/* What the completion says for a verdict of the link. */
static uint8_t status_of(struct efanic_qp *qp, const struct efanic_swr *s, int verdict)
{
	if (verdict == 0)
		return EFANIC_OK;
	if (efanic_dst_is_stale(qp->nic, s->dst))
		return EFANIC_LOCAL_INVALID_AH;
	if (verdict > 0)
		return efanic_refusal_status(verdict);
	qp->stats.unresponsive_remote_events +=
		verdict == -ETIMEDOUT || verdict == -EHOSTUNREACH || verdict == -ENETUNREACH;
	return efanic_end_status(s->dst, verdict);
}

/* --- to the link --- */

static void wait_add(struct efanic_qp *qp, struct efanic_swr *s)
{
	struct efanic_dst *dst = s->dst;

	s->phase = WR_WAIT;
	line_push(qp, &dst->wait, s);
	if (dst->is_waiting)
		return;
	dst->is_waiting = true;
	dst->gate = 0;
	dst->wait_next = NULL;
	*qp->waiters_tail = dst;
	qp->waiters_tail = &dst->wait_next;
	efanic_qp_attn(qp);
}

/* What the RDMA read @s is written to; NULL: of no region, or the region has gone. */
static struct efanic_mr *read_mr(const struct efanic_qp *qp, const struct efanic_swr *s)
{
	return s->opcode == EFANIC_OP_READ ? slab_find(&qp->nic->mrs, s->lkey[0] - 1) : NULL;
}

static __attribute__((noinline)) int bulk_start(struct efanic_qp *qp, struct efanic_swr *s)
{
	struct efanic_mr *mr = read_mr(qp, s);
	int rc;

	if (mr)
		mr->read_cnt++;
	s->life = s->dst->lives;
	rc = link_bulk(qp->port, s->dst->peer, s->opcode == EFANIC_OP_READ ? LINK_GET : LINK_PUT,
		       s->iov[0].iov_base, s->len, s->raddr, s->rkey, s);
	if (rc && mr)
		mr->read_cnt--;
	return rc;
}

bool efanic_tx_stop_reads(const struct efanic_mr *mr)
{
	bool is_free = true;

	for (struct efanic_qp *qp = mr->nic->qps; qp; qp = qp->next) {
		for (uint16_t i = 0; i < qp->sq_fresh; i++) {
			const struct efanic_swr *s = &qp->sq[i];

			if (s->phase == WR_LINK && read_mr(qp, s) == mr)
				is_free &= link_bulk_stop(qp->port, s);
		}
	}
	return is_free;
}

static inline int frame_start(struct efanic_qp *qp, struct efanic_swr *s)
{
	struct efanic_dst *dst = s->dst;
	enum efanic_pkt_op op = EFANIC_PKT_SEND;
	int iov_cnt = s->iov_cnt;
	uint8_t hdr[EFANIC_HDR_MAX];
	size_t hdr_len;

	if (unlikely(s->has_imm))
		op = EFANIC_PKT_SEND_IMM;
	if (unlikely(s->data_done)) {
		op = EFANIC_PKT_WRITE_IMM;
		iov_cnt = 0;
	}
	hdr_len = efanic_pkt_encode(op, dst->qkey, s->imm, s->len, hdr);
	return link_send(qp->port, dst->peer, hdr, hdr_len, s->iov, iov_cnt, qp->is_ud ? NULL : s);
}

/*
 * Gives @s to the link. Return: 0 or -EAGAIN; every other answer has ended the request. The link
 * may report on_sent before it returns, so the slot counts as the link's from before the call.
 */
static inline int wr_start(struct efanic_qp *qp, struct efanic_swr *s)
{
	bool deliver = qp->deliver;
	int rc;

	s->phase = WR_LINK;
	qp->deliver = false; /* no handler runs inside of a handler's post */
	if (likely(s->opcode == EFANIC_OP_SEND || s->data_done))
		rc = frame_start(qp, s);
	else
		rc = bulk_start(qp, s);
	if (unlikely(rc || qp->is_ud) && rc != -EAGAIN) {
		/* UD ends at once, and cannot tell how */
		wr_end(qp, s, qp->is_ud ? EFANIC_OK : status_of(qp, s, rc));
		rc = 0;
	}
	qp->deliver = deliver;
	return rc;
}

static inline void wr_start_or_wait(struct efanic_qp *qp, struct efanic_swr *s)
{
	if (unlikely(qp->state == EFANIC_QPS_SQD || s->dst->is_waiting || wr_start(qp, s)))
		wait_add(qp, s);
}

/* Receiver not ready: again later, each wait twice the last, until the retries are used up. */
static bool rnr_again(struct efanic_qp *qp, struct efanic_swr *s)
{
	uint64_t wait_ns = EFANIC_RNR_NS_MIN << MIN(s->rnr_tries, 16);

	qp->stats.rnr_naks_rx++;
	if (qp->rnr_retry != EFANIC_RNR_INFINITE && s->rnr_tries >= qp->rnr_retry)
		return false;
	if (qp->state != EFANIC_QPS_RTS && qp->state != EFANIC_QPS_SQD)
		return false;
	if (s->rnr_tries < UINT8_MAX)
		s->rnr_tries++;
	s->life = s->dst->lives;
	s->phase = WR_RNR;
	s->rnr.key_ns = link_now_ns(qp->nic->node) + MIN(wait_ns, EFANIC_RNR_NS_MAX);
	must(!pq_push(&qp->rnr, &s->rnr)); /* room for sq_depth was reserved */
	efanic_qp_attn(qp);
	return true;
}

void efanic_tx_sent(void *ctx, void *cookie, int status)
{
	struct efanic_swr *s = cookie;
	struct efanic_qp *qp = ctx;

	if (likely(status == 0)) {
		s->dst->has_answered = true;
		wr_end(qp, s, EFANIC_OK);
		return;
	}
	if (status > 0)
		s->dst->has_answered = true;
	if (status == EFANIC_REMOTE_RNR && !s->discard && !efanic_dst_is_stale(qp->nic, s->dst) &&
	    rnr_again(qp, s))
		return;
	wr_end(qp, s, status_of(qp, s, status));
}

void efanic_tx_bulk(void *ctx, void *cookie, int status)
{
	struct efanic_swr *s = cookie;
	struct efanic_qp *qp = ctx;
	struct efanic_mr *mr = read_mr(qp, s);

	if (mr)
		mr->read_cnt--;
	if (status == 0 || status == -EACCES || status == -ENOTCONN)
		s->dst->has_answered = true;
	if (status) {
		wr_end(qp, s, status_of(qp, s, status));
		return;
	}
	if (s->opcode == EFANIC_OP_READ)
		qp->stats.rdma_read_bytes += s->len;
	else
		qp->stats.rdma_write_bytes += s->len;
	if (s->opcode == EFANIC_OP_WRITE && s->has_imm && !s->discard) {
		s->data_done = true;
		if (qp->state == EFANIC_QPS_ERR)
			wr_end(qp, s, EFANIC_FLUSHED);
		else if (s->life != s->dst->lives)
			wr_end(qp, s, s->dst->end);
		else
			wr_start_or_wait(qp, s);
		return;
	}
	wr_end(qp, s, EFANIC_OK);
}

/* --- retries --- */

/* The address handle of @s and the regions of its bytes may have gone since it was posted. */
static uint8_t retry_status(const struct efanic_qp *qp, const struct efanic_swr *s)
{
	if (efanic_dst_is_stale(qp->nic, s->dst))
		return EFANIC_LOCAL_INVALID_AH;
	if ((s->data_done || s->rnr_tries) && s->life != s->dst->lives)
		return s->dst->end; /* whoever is there now is another one, which has none of it */
	if (s->data_done)
		return EFANIC_OK;
	for (unsigned i = 0; i < s->iov_cnt; i++)
		if (s->lkey[i] != EFANIC_LKEY_INTERNAL &&
		    !efanic_mr_check(qp->nic, qp->pd, s->lkey[i], s->iov[i].iov_base, s->iov[i].iov_len, 0))
			return EFANIC_LOCAL_INVALID_LKEY;
	return EFANIC_OK;
}

static int rnr_poll(struct efanic_qp *qp)
{
	uint64_t now_ns = link_now_ns(qp->nic->node);
	struct pq_node *node;
	int n = 0;

	while ((node = pq_peek(&qp->rnr)) && node->key_ns <= now_ns) {
		struct efanic_swr *s = container_of(node, struct efanic_swr, rnr);
		uint8_t status = retry_status(qp, s);

		pq_remove(&qp->rnr, node);
		if (status != EFANIC_OK)
			wr_end(qp, s, status);
		else
			wr_start_or_wait(qp, s);
		n++;
	}
	return n;
}

/* Return: work requests that left the line of @dst. */
static int line_serve(struct efanic_qp *qp, struct efanic_dst *dst)
{
	int n = 0;

	while (dst->wait.head != SQ_NONE && n < RETRY_WR_BUDGET) {
		struct efanic_swr *s = &qp->sq[dst->wait.head];
		uint16_t next = s->next;
		uint8_t status = retry_status(qp, s);

		if (status != EFANIC_OK) {
			dst->wait.head = next;
			wr_end(qp, s, status);
		} else {
			/* If it stays, it stays first: nobody else touches the line meanwhile. */
			dst->wait.head = next;
			if (wr_start(qp, s)) {
				s->phase = WR_WAIT;
				s->next = next;
				dst->wait.head = slot_idx(qp, s);
				if (next == SQ_NONE)
					dst->wait.tail = dst->wait.head;
				break;
			}
		}
		n++;
	}
	return n;
}

static struct efanic_dst *waiter_pop(struct efanic_qp *qp)
{
	struct efanic_dst *dst = qp->waiters;

	qp->waiters = dst->wait_next;
	if (!qp->waiters)
		qp->waiters_tail = &qp->waiters;
	return dst;
}

static void waiter_push(struct efanic_qp *qp, struct efanic_dst *dst)
{
	dst->wait_next = NULL;
	*qp->waiters_tail = dst;
	qp->waiters_tail = &dst->wait_next;
}

static int waiters_serve(struct efanic_qp *qp)
{
	struct efanic_dst *last = container_of(qp->waiters_tail, struct efanic_dst, wait_next);
	struct efanic_dst *dst;
	int n = 0;

	for (int i = 0; i < RETRY_DST_BUDGET && qp->waiters; i++) {
		dst = waiter_pop(qp);
		dst->refs++; /* its last work request may end */
		n += line_serve(qp, dst);
		if (dst->wait.head != SQ_NONE)
			waiter_push(qp, dst);
		else
			dst->is_waiting = false;
		efanic_dst_put(dst);
		if (dst == last) /* once around */
			break;
	}
	return n;
}

int efanic_tx_retry(struct efanic_qp *qp)
{
	int n = 0;

	if (unlikely(pq_peek(&qp->rnr) != NULL))
		n += rnr_poll(qp);
	if (unlikely(qp->waiters && qp->state != EFANIC_QPS_SQD))
		n += waiters_serve(qp);
	efanic_qp_attn(qp);
	return n;
}

uint64_t efanic_tx_deadline(const struct efanic_qp *qp)
{
	const struct pq_node *node = pq_peek(&qp->rnr);

	return node ? node->key_ns : CLK_NEVER;
}

static void slot_flush(struct efanic_qp *qp, struct efanic_swr *s, bool discard)
{
	s->discard |= discard;
	switch ((enum wr_phase)s->phase) {
	case WR_RNR:
		pq_remove(&qp->rnr, &s->rnr);
		wr_end(qp, s, EFANIC_FLUSHED);
		return;
	case WR_WAIT:
		wr_end(qp, s, EFANIC_FLUSHED);
		return;
	case WR_FREE:
	case WR_LINK: /* its bytes are in use until the verdict comes */
	case WR_DONE:
	case WR_PHASE_NUM:
		return;
	}
	must(0);
}

void efanic_tx_flush(struct efanic_qp *qp, bool discard)
{
	bool deliver = qp->deliver;

	qp->deliver = false;
	while (qp->waiters) {
		struct efanic_dst *dst = waiter_pop(qp);

		dst->is_waiting = false;
		dst->wait.head = SQ_NONE;
	}
	for (uint16_t i = 0; i < qp->sq_fresh; i++)
		slot_flush(qp, &qp->sq[i], discard);
	qp->deliver = deliver;
	efanic_qp_attn(qp);
}

/* --- posting --- */

#define PUSH_EVERY 16 /* posts that found no room at the link, until the queue is worked on without a poll */

/* Why a request is not taken; the ways that cost time are here. */
static __attribute__((cold, noinline)) int post_refuse(struct efanic_qp *qp,
						       const struct efanic_wr *wr)
{
	if (wr->opcode > EFANIC_OP_WRITE) {
		LOG_WARN("QP %u: %u is not an opcode of the send queue", qp->qpn, wr->opcode);
		return -EINVAL;
	}
	if (qp->state != EFANIC_QPS_RTS && qp->state != EFANIC_QPS_SQD) {
		LOG_WARN("QP %u: post in state %s, needs RTS or SQD", qp->qpn,
			 efanic_qp_state_name[qp->state]);
		return -EINVAL;
	}
	if (!qp->post_ok[wr->opcode]) {
		LOG_WARN("QP %u: opcode %u not supported by this queue pair's type or adapter",
			 qp->qpn, wr->opcode);
		return qp->is_ud ? -EINVAL : -EOPNOTSUPP;
	}
	LOG_WARN("QP %u: opcode %u with %u pieces", qp->qpn, wr->opcode, wr->sge_cnt);
	return -EINVAL;
}

/* The caller has checked that one is left. */
static inline struct efanic_swr *slot_get(struct efanic_qp *qp)
{
	struct efanic_swr *s;

	if (unlikely(++qp->sq_used >= qp->sq_depth))
		efanic_gate_shut(qp);
	if (unlikely(qp->sq_free == SQ_NONE))
		return &qp->sq[qp->sq_fresh++];
	s = &qp->sq[qp->sq_free];
	qp->sq_free = s->next;
	return s;
}

/* Copies the pieces and checks keys and length. Return: EFANIC_OK, or how the request ends at once.
 */
static inline uint8_t pieces_fill(struct efanic_qp *qp, struct efanic_swr *s,
				  const struct efanic_wr *wr, unsigned access, uint64_t max)
{
	const struct efanic_sge *sge = wr->sge, *end = sge + wr->sge_cnt;
	uint8_t status = EFANIC_OK;
	uint32_t *lkey = s->lkey;
	uint64_t len = 0;

	for (struct iovec *iov = s->iov; sge != end; sge++, iov++) {
		*lkey++ = sge->lkey;
		if (unlikely(sge->lkey != EFANIC_LKEY_INTERNAL &&
			     !efanic_mr_check(qp->nic, qp->pd, sge->lkey, sge->addr, sge->len, access)))
			status = EFANIC_LOCAL_INVALID_LKEY;
		*iov = (struct iovec){(void *)(uintptr_t)sge->addr, sge->len};
		len += sge->len;
	}
	s->len = (uint32_t)len;
	return likely(len <= max) ? status : EFANIC_LOCAL_BAD_LENGTH;
}

static __attribute__((noinline)) uint8_t rdma_fill(struct efanic_qp *qp, struct efanic_swr *s,
						   const struct efanic_wr *wr)
{
	unsigned access = wr->opcode == EFANIC_OP_READ ? EFANIC_ACCESS_LOCAL_WRITE : 0;
	uint8_t status = pieces_fill(qp, s, wr, access, qp->nic->attr.max_rdma_size);

	s->rkey = wr->rkey;
	s->raddr = wr->raddr;
	if (status != EFANIC_OK)
		return status;
	if (wr->opcode == EFANIC_OP_READ)
		qp->stats.rdma_read_wrs++;
	else
		qp->stats.rdma_write_wrs++;
	return EFANIC_OK;
}

static inline uint8_t send_fill(struct efanic_qp *qp, struct efanic_swr *s,
				const struct efanic_wr *wr)
{
	uint8_t status = pieces_fill(qp, s, wr, 0, qp->mtu);

	if (unlikely(status != EFANIC_OK))
		return status;
	qp->sent_cnt++;
	qp->sent_bytes += s->len;
	return EFANIC_OK;
}

static __attribute__((cold, noinline)) void post_end(struct efanic_qp *qp, struct efanic_swr *s,
						     uint8_t status)
{
	bool deliver = qp->deliver;

	qp->deliver = false;
	wr_end(qp, s, status);
	qp->deliver = deliver;
}

/* @s is complete: start it, or end it at once with @status. */
static inline void post_go(struct efanic_qp *qp, struct efanic_swr *s, uint8_t status)
{
	if (unlikely(status != EFANIC_OK))
		post_end(qp, s, status);
	else
		wr_start_or_wait(qp, s);
	if (unlikely(qp->waiters && !(qp->attn & ATTN_POLLING)) && qp->backlog++ % PUSH_EVERY == 0)
		efanic_qp_push(qp);
}

int efanic_post_send(struct efanic_qp *qp, const struct efanic_wr *wr)
{
	struct efanic_dst *dst = wr->dst;
	struct efanic_swr *s;
	uint8_t status;

	lock_assert_held(qp->nic->lock);
	if (unlikely(wr->opcode > EFANIC_OP_WRITE || wr->sge_cnt > EFANIC_SGE_MAX ||
		     !(qp->post_ok[wr->opcode] >> wr->sge_cnt & 1)))
		return post_refuse(qp, wr);
	if (unlikely(qp->sq_used >= qp->sq_depth))
		return -ENOMEM;
	if (likely(dst->qp == qp)) {
		dst->refs++;
	} else {
		int rc = efanic_dst_settle(qp, dst, &dst);

		if (rc)
			return rc;
	}
	s = slot_get(qp);
	s->wr_id = wr->wr_id;
	s->dst = dst;
	s->opcode = wr->opcode;
	s->has_imm = wr->has_imm;
	s->iov_cnt = wr->sge_cnt;
	s->data_done = false;
	s->imm = wr->imm;
	s->rnr_tries = 0;
	s->discard = false;
	s->is_own = false;
	if (unlikely(efanic_dst_is_stale(qp->nic, dst)))
		status = EFANIC_LOCAL_INVALID_AH;
	else
		status = likely(wr->opcode == EFANIC_OP_SEND) ? send_fill(qp, s, wr)
							      : rdma_fill(qp, s, wr);
	post_go(qp, s, status);
	return 0;
}

/* The one that slot_get() will give, whose bytes are written before. */
static inline struct efanic_swr *slot_next(struct efanic_qp *qp)
{
	return &qp->sq[likely(qp->sq_free != SQ_NONE) ? qp->sq_free : qp->sq_fresh];
}

/* A request whose bytes lie in the slot itself. */
static struct efanic_swr *slot_get_own(struct efanic_qp *qp, struct efanic_dst *dst, uint32_t len, uint64_t wr_id)
{
	struct efanic_swr *s = slot_get(qp);

	dst->refs++;
	s->wr_id = wr_id;
	s->dst = dst;
	s->opcode = EFANIC_OP_SEND;
	s->has_imm = false;
	s->iov_cnt = 1;
	s->data_done = false;
	s->rnr_tries = 0;
	s->discard = false;
	s->is_own = true;
	s->len = len;
	s->lkey[0] = EFANIC_LKEY_INTERNAL;
	s->own_iov = (struct iovec){s->own, len};
	return s;
}

inline __attribute__((always_inline)) uint8_t *efanic_begin(struct efanic_qp *qp, struct efanic_dst *dst, uint32_t len,
							     bool may_wait)
{
	uint8_t *frame;

	lock_assert_held(qp->nic->lock);
	if (unlikely(dst->qp != qp || len > EFANIC_MTU))
		return NULL;
	if (likely(efanic_dst_open(qp, dst))) {
		frame = link_begin(qp->port, dst->peer, LINK_RELIABLE, sizeof(struct efanic_hdr) + len);
		if (likely(frame != NULL)) {
			efanic_send_encode(dst->qkey, frame);
			return frame + sizeof(struct efanic_hdr);
		}
	}
	/* those that were refused hold slots of the queue, which has some for all that are on their way besides */
	if (!may_wait || len > EFANIC_OWN_MAX || qp->sq_used >= qp->sq_depth || !(qp->post_ok[EFANIC_OP_SEND] & 2))
		return NULL;
	return slot_next(qp)->own;
}

bool efanic_may_wait(const struct efanic_qp *qp, const uint8_t *buf)
{
	return (uintptr_t)buf - (uintptr_t)qp->sq < qp->sq_bytes;
}

/*
 * A slot hears of the end; it keeps the bytes, which may be refused and are not the link's to show then.
 * Return: it, for link_commit(); NULL: it goes the way of any request.
 */
static __attribute__((noinline)) struct efanic_swr *commit_slot(struct efanic_qp *qp, struct efanic_dst *dst,
								const uint8_t *buf, uint32_t len, uint64_t wr_id)
{
	struct efanic_swr *s = slot_get_own(qp, dst, len, wr_id);

	if (efanic_may_wait(qp, buf)) {
		post_go(qp, s, efanic_dst_is_stale(qp->nic, dst) ? EFANIC_LOCAL_INVALID_AH : EFANIC_OK);
		return NULL;
	}
	memcpy(s->own, buf, len);
	s->phase = WR_LINK;
	return s;
}

inline __attribute__((always_inline)) void efanic_commit(struct efanic_qp *qp, struct efanic_dst *dst, uint8_t *buf,
							 uint32_t len, uint64_t wr_id, bool may_wait)
{
	const uint32_t hdr_len = sizeof(struct efanic_hdr);
	struct efanic_swr *s = NULL;

	qp->sent_cnt++;
	qp->sent_bytes += len;
	assert(may_wait || !(wr_id || efanic_may_wait(qp, buf)));
	if (may_wait && unlikely(wr_id || efanic_may_wait(qp, buf)) && !(s = commit_slot(qp, dst, buf, len, wr_id)))
		return;
	link_commit(qp->port, dst->peer, LINK_RELIABLE, buf - hdr_len, hdr_len + len, s, 0);
}

/* Memory for the @len bytes of @s that its slot has no room for. False: there is none, and they are lost. */
static bool own_grow(struct efanic_swr *s, size_t len)
{
	void *big = len > EFANIC_OWN_MAX ? mem_alloc(len) : s->own;

	s->len = big ? (uint32_t)len : 0;
	s->own_iov = (struct iovec){big ? big : s->own, s->len};
	return big;
}

/* From here on it is a request of the send queue, which has slots for all of its kind. */
void efanic_tx_lost(void *ctx, struct link_peer *peer, uint64_t tag, const void *frame, size_t len, int status)
{
	struct efanic_dst *dst = link_peer_user(peer);
	struct efanic_qp *qp = ctx;
	struct efanic_swr *s;

	if (!dst || qp->state == EFANIC_QPS_RESET) /* nobody has a handle for it any more, or wants to know */
		return;
	must(len >= sizeof(struct efanic_hdr) && len <= sizeof(struct efanic_hdr) + EFANIC_MTU);
	len -= sizeof(struct efanic_hdr);
	s = slot_get_own(qp, dst, 0, 0);
	s->phase = WR_LINK;
	if (unlikely(!own_grow(s, len))) {
		wr_end(qp, s, status_of(qp, s, status));
		return;
	}
	copy_cached(s->own_iov.iov_base, (const uint8_t *)frame + sizeof(struct efanic_hdr), len);
	efanic_tx_sent(qp, s, status);
}

void efanic_doorbell(struct efanic_qp *qp)
{
	lock_assert_held(qp->nic->lock);
	link_doorbell(qp->port);
}

uint32_t efanic_sq_free(const struct efanic_qp *qp)
{
	return qp->sq_depth - MIN(qp->sq_used, qp->sq_depth); /* lost ones may be there besides */
}

bool efanic_sq_is_empty(const struct efanic_qp *qp)
{
	return !qp->sq_used && link_is_idle(qp->port);
}
