// SPDX-License-Identifier: BSD-2-Clause
// Short Puts past the command queue: straight to the link and, mostly, forgotten.
#include "nic/cassini/cassini_int.h"

#include "base/copy.h"

/*
 * Theory of operation
 *
 * Most small messages want no event, or one at once. Once the target has taken a Put at that index, so that it is
 * known to be there, nothing is left to remember of another one when the link has it: the link keeps its bytes where
 * they are, in the peer's lane or in the record of what the network sends, and shows them again if the target refuses
 * it, as it does while its portal table entry is disabled. Then the caller gets it back with the number that it gave
 * the Put, which says where the Put stood in the order of its commands.
 *
 * The link keeps the order of these and all other frames to that peer.
 */

#define SEQ_BITS 48
#define SEQ_MASK ((1ULL << SEQ_BITS) - 1)
static_assert(CASSINI_PUT_HDR + CASSINI_IDC_MAX <= LINK_OWN_MAX, "a short Put fits");

/* The peer is not the one of the last time. Return: false: it is not reached this way. */
static __attribute__((noinline)) bool peer_look(struct cassini_cmdq *cq, const struct cassini_quick *q)
{
	struct cassini_peer *peer;

	return !q->dom->closing && q->dom->vni == cq->cp->vni && q->nic <= CASSINI_NIC_MAX && q->pid < CASSINI_PID_CNT &&
	       !cassini_cmdq_peer(cq, q->dom, q->nic, q->pid, &peer);
}

static inline bool is_peer(const struct cassini_peer *peer, const struct cassini_quick *q)
{
	return likely(peer && peer->pid == q->pid && peer->nic == q->nic && peer->dom == q->dom && peer->link);
}

/*
 * Where the frame is written; for link_commit(). @took: what the peer must have taken. NULL:
 * not to this peer, or not now.
 */
static inline uint8_t *frame_begin(struct cassini_cmdq *cq, const struct cassini_quick *q, uint32_t took, struct cassini_peer **out)
{
	struct cassini_dom *dom = q->dom;
	struct cassini_peer *peer;
	struct cassini_hdr h;
	le64_t word[2];
	uint8_t *frame;

	lock_assert_held(dom->nic->open.lock);
	if (unlikely(cq->held_cnt || cq->fence_next || cq->bell || q->len > CASSINI_IDC_MAX || (!is_peer(cq->last, q) && !peer_look(cq, q))))
		return NULL;
	peer = cq->last;
	if (unlikely((peer->took & took) != took || peer->held))
		return NULL;
	if (unlikely(q->is_early && !link_peer_is_local(peer->link)))
		return NULL;
	frame = link_begin(dom->port, peer->link, CASSINI_PUT_HDR + q->len);
	if (unlikely(!frame))
		return NULL;
	word[0] = le64_put(peer->put_word | (uint64_t)q->pid_idx << CASSINI_PUT_IDX_SHIFT);
	word[1] = le64_put(dom->match_id | (uint64_t)q->len << 32);
	__builtin_memcpy(&h, word, sizeof(word));
	h.remote_offset = le64_put(0);
	h.match_bits = le64_put(q->match_bits);
	h.header_data = le64_put(q->header_data);
	__builtin_memcpy(frame, &h, CASSINI_PUT_HDR);
	copy_small(frame + CASSINI_PUT_HDR, q->buf, q->len);
	*out = peer;
	return frame;
}

/* The frame has been filled, and its @cookie or @tag will come back as link_commit() says. */
static inline void frame_end(const struct cassini_quick *q, struct cassini_peer *peer, uint8_t *frame, void *cookie,
			     uint64_t tag)
{
	struct cassini_stats *stats = &q->dom->nic->stats;

	link_commit(q->dom->port, peer->link, frame, CASSINI_PUT_HDR + q->len, cookie, tag);
	if (unlikely(!link_peer_is_local(peer->link)))
		link_doorbell(q->dom->port);
	stats->tx_cmds++;
	stats->idc += q->len != 0;
	stats->puts++;
	stats->tx_bytes += q->len;
}

bool cassini_put_quick(struct cassini_cmdq *cq, const struct cassini_quick *q)
{
	struct cassini_peer *peer;
	uint8_t *frame = likely(cq->on_lost && q->pid_idx < 32) ? frame_begin(cq, q, 1u << q->pid_idx, &peer) : NULL;

	if (unlikely(!frame))
		return false;
	frame_end(q, peer, frame, NULL, (uint64_t)cq->id << SEQ_BITS | (q->seq & SEQ_MASK));
	return true;
}

/* An operation as cassini_post() makes them: a lossless PTE may want it again. */
static inline void op_fill(struct cassini_op *op, struct cassini_cmdq *cq, struct cassini_peer *peer, const struct cassini_quick *q)
{
	op->work = (struct cassini_work){cassini_ini_sent, NULL};
	op->cq = cq;
	op->peer = peer;
	op->life = peer->life;
	op->region = op->refusal = 0;
	op->state = CASSINI_OPS_SENT;
	op->is_fence = op->is_ordered = op->is_moving = op->in_rdzv = op->is_bulk = op->owes_send = op->is_again = op->is_lost = op->is_busy = false;
	op->cmd.opcode = CASSINI_OP_PUT;
	op->cmd.pid_idx = q->pid_idx;
	op->cmd.pid = q->pid;
	op->cmd.nic = q->nic;
	op->cmd.flags = CASSINI_CMD_INLINE;
	op->cmd.request_len = q->len;
	op->cmd.dom = q->dom;
	op->cmd.ct = NULL;
	op->cmd.local_addr = op->frame + CASSINI_PUT_HDR;
	op->cmd.remote_offset = 0;
	op->cmd.match_bits = q->match_bits;
	op->cmd.header_data = q->header_data;
	copy_small(op->frame + CASSINI_PUT_HDR, q->buf, q->len);
}

bool cassini_put_quick_ack(struct cassini_cmdq *cq, const struct cassini_quick *q, struct cassini_eq *eq, uint64_t user_ptr)
{
	struct cassini_dom *dom = q->dom;
	struct cassini_peer *peer;
	struct cassini_op *op;
	uint8_t *frame;

	if (unlikely(cq->used >= cq->depth || cassini_eq_claim(eq)))
		return false;
	op = slab_get(&dom->ops);
	frame = likely(op != NULL) ? frame_begin(cq, q, 0, &peer) : NULL;
	if (unlikely(!frame)) {
		if (op)
			slab_put(&dom->ops, op);
		cassini_eq_unclaim(eq);
		return false;
	}
	op_fill(op, cq, peer, q);
	op->cmd.eq = eq;
	op->cmd.user_ptr = user_ptr;
	cq->used++;
	frame_end(q, peer, frame, op, 0);
	return true;
}

bool cassini_quick_is_idle(const struct cassini_dom *dom)
{
	return link_is_idle(dom->port);
}

static struct cassini_cmdq *cmdq_by_id(const struct cassini_lni *lni, unsigned id)
{
	struct cassini_cmdq *cq;

	LIST_FOREACH(cq, &lni->cmdqs, all)
		if (cq->id == id)
			break;
	return cq;
}

/* A lossless PTE holds it back: from here on it is an operation that waits for its turn. Return: false: no memory. */
static bool hold_back(struct cassini_cmdq *cq, struct cassini_peer *peer, const struct cassini_quick *q)
{
	struct cassini_op *op = slab_get(&q->dom->ops);

	if (!op)
		return false;
	op_fill(op, cq, peer, q);
	op->cmd.eq = NULL;
	op->cmd.user_ptr = 0;
	op->is_lost = true;
	op->lost_seq = q->seq;
	op->state = CASSINI_OPS_HELD;
	cq->used++;
	cassini_cmdq_pause(op);
	return true;
}

void cassini_quick_fail(const struct cassini_op *op, uint8_t rc)
{
	const struct cassini_cmd *cmd = &op->cmd;
	const struct cassini_quick q = {
		.dom = cmd->dom,
		.buf = cmd->local_addr,
		.match_bits = cmd->match_bits,
		.header_data = cmd->header_data,
		.seq = op->lost_seq,
		.nic = cmd->nic,
		.len = cmd->request_len,
		.pid = cmd->pid,
		.pid_idx = cmd->pid_idx,
	};

	if (op->cq && rc != CASSINI_RC_CANCELED)
		op->cq->on_lost(op->cq->ctx, &q, rc);
}

/* The bytes are ours, as cassini_put_quick() wrote them. */
void cassini_quick_lost(void *ctx, struct link_peer *from, uint64_t tag, const void *frame, size_t len, int status)
{
	struct cassini_dom *dom = ctx;
	struct cassini_cmdq *cq = cmdq_by_id(dom->lni, (unsigned)(tag >> SEQ_BITS));
	struct cassini_peer *peer = link_peer_user(from);
	uint8_t list, rc = cassini_status_rc(status, &list);
	uint32_t life = peer ? peer->life : 0;
	bool is_current = peer && peer->link == from;
	struct cassini_quick q;
	struct cassini_hdr h;

	must(len >= CASSINI_PUT_HDR);
	memcpy(&h, frame, CASSINI_PUT_HDR);
	if (rc == CASSINI_RC_UNDELIVERABLE)
		dom->nic->stats.unreachable++;
	if (is_current)
		cassini_peer_took(peer, h.pid_idx, rc == CASSINI_RC_OK);
	if (cq && peer && !dom->closing && rc != CASSINI_RC_OK) {
		q = (struct cassini_quick){
			.dom = dom,
			.buf = (const uint8_t *)frame + CASSINI_PUT_HDR,
			.match_bits = le64_get(h.match_bits),
			.header_data = le64_get(h.header_data),
			.seq = tag & SEQ_MASK,
			.nic = peer->nic,
			.len = (uint32_t)(len - CASSINI_PUT_HDR),
			.pid = peer->pid,
			.pid_idx = h.pid_idx,
		};
		if (rc != CASSINI_RC_RESOURCE_BUSY || q.pid_idx >= 16 || !is_current || !hold_back(cq, peer, &q))
			cq->on_lost(cq->ctx, &q, rc);
	}
	if (status < 0 && status != -ECANCELED && is_current)
		cassini_peer_gone(peer, life);
}
