// SPDX-License-Identifier: BSD-2-Clause
// Command queues: checks, depth, order between the commands of a queue, fences.
#include "nic/cassini/cassini_tgt.h"

#include <errno.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/*
 * Theory of operation
 *
 * A command that nothing holds back goes out inside of cassini_post(); the link keeps the order from there on. What
 * must wait stands in cq->held, and then everything behind it does too:
 *
 *   fence          is_fence: all commands before it have ended (nothing of the queue is under way, nor anything that
 *                  nobody remembers)
 *   ordered write  is_ordered: an unrestricted write to a region, while a bulk Put of this Domain to the same peer
 *                  still moves (peer->ordered); the target fetches that one's data later than the frames that come
 *                  after it, so this is the only place where order can be kept. Another bulk Put need not wait: the
 *                  target fetches one after the other (cassini_copy_chain())
 *   full path      the link had no room when the queue was worked off; a command that meets a full path with nothing
 *                  held is refused instead
 *   asked again    the target of a Get had no room for the answer (is_busy); it stands first
 *   lossless       the target's PTE has no room for messages and lets its senders wait (peer->held); what it has sent
 *                  back stands first, in order
 *
 * RESTRICTED commands have no order: they pass, unless a fence is held. The polls of the Domain of the first held
 * command work the queue off (cassini_cmdq_kick()); posting never does, so a post can be called from anywhere, also
 * from a trigger that fires inside of a post.
 */

/* --- checks --- */

static const char *amo_fault(const struct cassini_cmd *cmd)
{
	size_t size = cassini_amo_type_size(cmd->atomic_type);

	if (cmd->atomic_op >= CASSINI_AMO_OP_NUM || cmd->atomic_op == CASSINI_AMO_SUM + 1)
		return "no such atomic operation";
	if (cmd->atomic_op == CASSINI_AMO_CSWAP && cmd->cswap_op >= CASSINI_CSWAP_NUM)
		return "no such comparison";
	if (!size || cmd->request_len != size)
		return "request_len is not the size of the atomic type";
	if (cmd->opcode == CASSINI_OP_FETCHING_ATOMIC && !cmd->fetch_addr)
		return "fetch_addr is NULL";
	return NULL;
}

static const char *inline_fault(const struct cassini_cmd *cmd)
{
	uint32_t max = cmd->flags & CASSINI_CMD_RESTRICTED ? CASSINI_IDC_RESTRICTED_MAX : CASSINI_IDC_MAX;

	if (!(cmd->flags & CASSINI_CMD_INLINE))
		return NULL;
	if (cmd->opcode == CASSINI_OP_GET || cmd->opcode == CASSINI_OP_RENDEZVOUS_PUT)
		return "INLINE is for Puts and atomics";
	return cmd->request_len > max ? "INLINE payload above the limit" : NULL;
}

/* What is wrong with @cmd, or NULL. */
static const char *fault_of(const struct cassini_cmd *cmd)
{
	const char *why = inline_fault(cmd);

	if (why)
		return why;
	if (cmd->pid >= CASSINI_PID_CNT || cmd->nic > CASSINI_NIC_MAX)
		return "no such address";
	if (cmd->flags & CASSINI_CMD_HRP && (!(cmd->flags & CASSINI_CMD_RESTRICTED) ||
					     (cmd->opcode != CASSINI_OP_PUT && cmd->opcode != CASSINI_OP_ATOMIC)))
		return "HRP is for restricted Puts and atomics";
	switch ((enum cassini_opcode)cmd->opcode) {
	case CASSINI_OP_RENDEZVOUS_PUT:
		if (cmd->flags & (CASSINI_CMD_RESTRICTED | CASSINI_CMD_SAME_LIFE))
			return "a rendezvous cannot be restricted, or for one life only";
		if (cmd->eager_length > cmd->request_len || cmd->eager_length > CASSINI_FRAME_DATA)
			return "eager_length above request_len or a frame";
		/* fall through */
	case CASSINI_OP_PUT:
	case CASSINI_OP_GET:
		return cmd->request_len && !cmd->local_addr ? "local_addr is NULL" : NULL;
	case CASSINI_OP_ATOMIC:
	case CASSINI_OP_FETCHING_ATOMIC:
		return amo_fault(cmd);
	case CASSINI_OP_NUM:
		break;
	}
	return "no such opcode";
}

__attribute__((noinline)) int cassini_cmd_check(const struct cassini_cmdq *cq, const struct cassini_cmd *cmd)
{
	const char *why = cmd->dom && !cmd->dom->closing ? fault_of(cmd) : "no Domain, or one that closes";

	if (why) {
		LOG_WARN("command refused, opcode %u to NIC 0x%x PID %u index %u, %u bytes: %s", cmd->opcode, cmd->nic,
			 cmd->pid, cmd->pid_idx, cmd->request_len, why);
		return -EINVAL;
	}
	if (cmd->dom->vni != cq->cp->vni) {
		LOG_WARN("command refused: its Domain has VNI %u, its queue's profile VNI %u", cmd->dom->vni,
			 cq->cp->vni);
		return -EACCES;
	}
	return 0;
}

/* The commands that come by the million need no more than this; what is for one life only is looked at later. */
static inline bool is_valid_put(const struct cassini_cmdq *cq, const struct cassini_cmd *cmd)
{
	return cmd->opcode == CASSINI_OP_PUT && !(cmd->flags & (CASSINI_CMD_HRP | CASSINI_CMD_SAME_LIFE)) &&
	       cmd->pid < CASSINI_PID_CNT && cmd->nic <= CASSINI_NIC_MAX &&
	       (!(cmd->flags & CASSINI_CMD_INLINE) || cmd->request_len <= CASSINI_IDC_MAX) &&
	       (cmd->local_addr || !cmd->request_len) && !cmd->dom->closing && cmd->dom->vni == cq->cp->vni;
}

/* --- what is held --- */

/*
 * Does it write to a region so that later writes must not land first? Indices below 16 are for messages, whose order is
 * that of matching.
 */
static inline bool is_ordered_write(const struct cassini_cmd *cmd)
{
	return cmd->pid_idx >= 16 && !(cmd->flags & CASSINI_CMD_RESTRICTED) &&
	       (cmd->opcode == CASSINI_OP_PUT || cmd->opcode == CASSINI_OP_ATOMIC ||
		cmd->opcode == CASSINI_OP_FETCHING_ATOMIC);
}

/* Whose polls can move @cq on? NULL: nothing waits. */
static struct cassini_dom *waits_for(const struct cassini_cmdq *cq)
{
	if (cq->held_cnt)
		return STAILQ_FIRST(&cq->held)->cmd.dom;
	return cq->ready ? cq->ready->cmd.dom : NULL;
}

void cassini_cmdq_watch(struct cassini_cmdq *cq)
{
	struct cassini_dom *dom = waits_for(cq);

	if (dom == cq->watched_by)
		return;
	if (cq->watched_by)
		LIST_REMOVE(cq, link);
	cq->watched_by = dom;
	if (dom)
		LIST_INSERT_HEAD(&dom->cmdqs, cq, link);
}

static void hold(struct cassini_cmdq *cq, struct cassini_op *op)
{
	STAILQ_INSERT_TAIL(&cq->held, op, held);
	cq->held_cnt++;
	cq->held_fences += op->is_fence;
	cassini_cmdq_watch(cq);
}

static void unhold(struct cassini_cmdq *cq, struct cassini_op *op)
{
	STAILQ_REMOVE(&cq->held, op, cassini_op, held);
	cq->held_cnt--;
	cq->held_fences -= op->is_fence;
}

/*
 * Tries a lossless PTE that had no room again after so long; what is under way to it is looked for less often than each
 * poll.
 */
#define RESUME_NS (100 * NS_PER_US)
#define LOOK_NS   (10 * NS_PER_US)

struct under_way {
	const struct cassini_op *op;
	bool found;
};

static void look_under_way(void *obj, void *arg)
{
	const struct cassini_op *other = obj;
	struct under_way *u = arg;

	u->found |= other->state == CASSINI_OPS_SENT && other->peer == u->op->peer &&
		    other->cmd.pid_idx == u->op->cmd.pid_idx;
}

/* Held back by its target? The next try goes out alone: nothing that was sent before may come behind it. */
static __attribute__((cold, noinline)) bool is_paused(const struct cassini_op *op)
{
	struct cassini_peer *peer = op->peer;
	struct under_way u = {op, false};
	uint64_t now_ns;

	if (!cassini_is_lossless(&op->cmd) || !(peer->held & BIT(op->cmd.pid_idx)))
		return false;
	now_ns = link_now_ns(peer->dom->nic->node);
	if (now_ns < peer->resume_ns)
		return true;
	u.found = peer->link && !link_peer_is_idle(peer->link);
	slab_foreach(&peer->dom->ops, look_under_way, &u);
	if (u.found)
		peer->resume_ns = now_ns + LOOK_NS;
	return u.found;
}

void cassini_pause_mark(struct cassini_op *op)
{
	op->is_again = cassini_is_lossless(&op->cmd) && op->peer->held & BIT(op->cmd.pid_idx);
	op->cmd.flags &= ~(uint32_t)CASSINI_CMD_AGAIN;
	op->cmd.flags |= op->is_again ? CASSINI_CMD_AGAIN : 0;
}

void cassini_cmdq_pause(struct cassini_op *op)
{
	struct cassini_cmdq *cq = op->cq;
	struct cassini_peer *peer = op->peer;
	struct cassini_op *at, *before = NULL;

	peer->held |= (uint16_t)BIT(op->cmd.pid_idx);
	cassini_peer_took(peer, op->cmd.pid_idx, false);
	peer->resume_ns = link_now_ns(peer->dom->nic->node) + RESUME_NS;
	op->is_again = op->is_fence = false;
	op->cmd.flags &= ~(uint32_t)CASSINI_CMD_AGAIN;
	if (!op->refusal)
		op->refusal = ++peer->refusals ? peer->refusals : ++peer->refusals;
	/* in front of what has not been sent, behind what the same peer refused earlier */
	STAILQ_FOREACH(at, &cq->held, held) {
		if (!at->refusal || (at->peer == peer && (int32_t)(at->refusal - op->refusal) > 0))
			break;
		before = at;
	}
	if (before)
		STAILQ_INSERT_AFTER(&cq->held, before, op, held);
	else
		STAILQ_INSERT_HEAD(&cq->held, op, held);
	cq->held_cnt++;
	cassini_cmdq_watch(cq);
}

void cassini_cmdq_again(struct cassini_op *op)
{
	struct cassini_cmdq *cq = op->cq;

	op->peer->resume_ns = link_now_ns(op->peer->dom->nic->node) + RESUME_NS;
	op->is_busy = true;
	op->is_fence = false;
	STAILQ_INSERT_HEAD(&cq->held, op, held); /* a fence behind it waits for it */
	cq->held_cnt++;
	cassini_cmdq_watch(cq);
}

/*
 * Is something of @cq under way that nobody remembers? It is counted by Domain, and others may send from the same. The
 * Domains of other endpoints are nothing to a queue of one; one that several endpoints share, or that has several keys,
 * knows no better than all of them.
 */
static bool has_forgotten(const struct cassini_cmdq *cq)
{
	struct cassini_dom *dom;

	if (likely(!cq->is_mixed))
		return cq->only && !cassini_dom_is_idle(cq->only);
	LIST_FOREACH(dom, &cq->lni->nic->doms, link)
		if (!cassini_dom_is_idle(dom))
			return true;
	return false;
}

/* Must @op, new or first of the held ones, wait for something else than the path? */
static inline bool is_blocked(const struct cassini_cmdq *cq, const struct cassini_op *op, uint32_t under_way)
{
	return (op->is_fence && (under_way || has_forgotten(cq))) ||
	       (op->is_ordered && op->peer->ordered && !cassini_ini_is_bulk(op)) ||
	       (unlikely(op->peer->held) && is_paused(op)) ||
	       (unlikely(op->is_busy) && link_now_ns(op->peer->dom->nic->node) < op->peer->resume_ns);
}

static int queue_kick(struct cassini_cmdq *cq)
{
	struct cassini_op *op;
	int n = 0;

	while ((op = STAILQ_FIRST(&cq->held)) && !is_blocked(cq, op, cq->used - cq->held_cnt)) {
		unhold(cq, op);
		if (cassini_ini_start(op)) {
			STAILQ_INSERT_HEAD(&cq->held, op, held);
			cq->held_cnt++;
			cq->held_fences += op->is_fence;
			break;
		}
		n++;
	}
	if (unlikely(cq->ready))
		n += cassini_trig_retry(cq);
	cassini_cmdq_watch(cq);
	return n;
}

int cassini_cmdq_kick(struct cassini_dom *dom)
{
	struct cassini_cmdq *cq, *tmp;
	int n = 0;

	LIST_FOREACH_SAFE(cq, &dom->cmdqs, link, tmp)
		n += queue_kick(cq);
	return n;
}

/* --- posting --- */

static int slots_claim(const struct cassini_cmd *cmd, bool *owes_send)
{
	int rc = cassini_eq_claim(cmd->eq);

	*owes_send = false;
	if (likely(rc || !(cmd->flags & CASSINI_CMD_EV_SEND) || !cmd->eq))
		return rc;
	if (cmd->opcode != CASSINI_OP_PUT && cmd->opcode != CASSINI_OP_ATOMIC)
		return 0;
	rc = cassini_eq_claim(cmd->eq);
	if (rc)
		cassini_eq_unclaim(cmd->eq);
	*owes_send = !rc;
	return rc;
}

static void slots_unclaim(struct cassini_eq *eq, bool owes_send)
{
	cassini_eq_unclaim(eq);
	if (owes_send)
		cassini_eq_unclaim(eq);
}

/* Not zeroed as a whole: more than half of it is for the few who need it. */
static inline void op_fill(struct cassini_op *op, struct cassini_cmdq *cq, const struct cassini_cmd *cmd)
{
	op->work = (struct cassini_work){cassini_ini_sent, NULL};
	op->cq = cq;
	op->region = 0;
	op->state = CASSINI_OPS_HELD;
	op->is_fence = op->is_moving = op->in_rdzv = op->is_bulk = op->is_again = op->is_busy = op->owes_send = false;
	op->refusal = 0;
	op->own = NULL;
	op->is_ordered = is_ordered_write(cmd);
	__builtin_memcpy(&op->cmd, cmd, offsetof(struct cassini_cmd, atomic_op));
	if (unlikely(cmd->opcode >= CASSINI_OP_ATOMIC)) {
		op->cmd = *cmd;
	} else if (cmd->flags & CASSINI_CMD_INLINE) {
		copy_small(op->frame + CASSINI_PUT_HDR, cmd->local_addr, cmd->request_len);
		op->cmd.local_addr = op->frame + CASSINI_PUT_HDR;
	}
}

/* @op is complete and counted in cq->used. Return: 0; -EAGAIN: neither sent nor held. */
static inline int launch(struct cassini_cmdq *cq, struct cassini_op *op)
{
	bool is_restricted = op->cmd.flags & CASSINI_CMD_RESTRICTED;

	if (unlikely(cq->fence_next))
		op->is_fence = cq->used > 1 || has_forgotten(cq);
	if (unlikely(is_blocked(cq, op, cq->used - cq->held_cnt - 1) ||
		     (cq->held_cnt && (!is_restricted || cq->held_fences || op->is_fence)))) {
		hold(cq, op);
		return 0;
	}
	return cassini_ini_start(op);
}

/* Frames may wait until the doorbell when more are announced. A poll flushes by itself. */
static inline void ring(struct cassini_cmdq *cq, struct cassini_dom *dom, bool more)
{
	if (unlikely(cq->bell && cq->bell != dom))
		link_doorbell(cq->bell->port);
	cq->bell = more ? dom : NULL;
	if (!more && !dom->is_polling)
		link_doorbell(dom->port);
}

struct cassini_op *cassini_op_new(struct cassini_cmdq *cq, struct cassini_peer *peer, const struct cassini_cmd *cmd)
{
	struct cassini_op *op = slab_get(&cmd->dom->ops);

	if (unlikely(!op))
		return NULL;
	op->peer = peer;
	op_fill(op, cq, cmd);
	cq->used++;
	return op;
}

bool cassini_dom_is_idle(const struct cassini_dom *dom)
{
	return link_is_idle(dom->port);
}

/* The operation of @cmd, with its place in the queue and its slots for events. NULL: one of them is wanting. */
static inline struct cassini_op *op_take(struct cassini_cmdq *cq, struct cassini_peer *peer,
					 const struct cassini_cmd *cmd)
{
	struct cassini_op *op;
	bool owes_send;

	if (unlikely(cq->used >= cq->depth || slots_claim(cmd, &owes_send)))
		return NULL;
	op = cassini_op_new(cq, peer, cmd);
	if (likely(op)) {
		op->owes_send = owes_send;
		return op;
	}
	slots_unclaim(cmd->eq, owes_send);
	return NULL;
}

/* As if it had not been taken. */
static void op_give_back(struct cassini_op *op)
{
	slots_unclaim(op->cmd.eq, op->owes_send);
	op->cq->used--;
	slab_put(&op->cmd.dom->ops, op);
}

/* The peer is not the one of the last time. Return: false: there is none. */
static __attribute__((noinline)) bool peer_look(struct cassini_cmdq *cq, struct cassini_dom *dom, uint32_t nic,
						uint16_t pid)
{
	struct cassini_peer *peer;

	return !dom->closing && dom->vni == cq->cp->vni && nic <= CASSINI_NIC_MAX && pid < CASSINI_PID_CNT &&
	       !cassini_cmdq_peer(cq, dom, nic, pid, &peer);
}

bool cassini_is_near(const struct cassini_cmdq *cq)
{
	return cq->last && cq->last->link && link_peer_is_local(cq->last->link);
}

/* Can @cmd leave at once, to whom the last one went? Nothing stands before it, and the peer is there. */
static inline bool may_leave(const struct cassini_cmdq *cq, const struct cassini_cmd *cmd, bool is_kept)
{
	const struct cassini_peer *peer = cq->last;

	if (unlikely(cmd->request_len > (is_kept ? LINK_OWN_MAX - CASSINI_PUT_HDR : CASSINI_FRAME_DATA) ||
		     cq->held_cnt | cq->fence_next))
		return false;
	if (!is_kept)
		return cmd->pid_idx < 32 && peer->took & 1u << cmd->pid_idx;
	return likely(peer->link && !peer->held && !(peer->ordered && is_ordered_write(cmd)) && is_valid_put(cq, cmd));
}

/*
 * It is short, can leave at once, and is written where the link wants it. If it @is_kept it has an operation. Folded
 * into each small send: @cmd need not be in memory, and the rest are constants. Return: false: nothing happened.
 */
static inline __attribute__((always_inline)) bool put_in_place(struct cassini_cmdq *cq, const struct cassini_cmd *cmd,
							       bool is_kept, bool is_near)
{
	struct cassini_dom *dom = cmd->dom;
	struct cassini_op *op = NULL;
	struct cassini_peer *peer;
	struct link_peer *to;
	uint8_t *frame;

	if (unlikely(!cassini_cmdq_is_last(cq, dom, cmd->nic, cmd->pid)) && !peer_look(cq, dom, cmd->nic, cmd->pid))
		return false;
	peer = cq->last;
	to = peer->link; /* read before bytes are written that could be any object's */
	if (unlikely(!may_leave(cq, cmd, is_kept)) || (is_near && unlikely(!link_peer_is_local(to))))
		return false;
	if (is_kept && !(op = op_take(cq, peer, cmd)))
		return false;
	frame = link_begin(dom->port, to, LINK_ORDERED, CASSINI_PUT_HDR + cmd->request_len);
	if (unlikely(!frame)) {
		if (op)
			op_give_back(op);
		return false;
	}
	if (op) {
		op->state = CASSINI_OPS_SENT;
		op->life = peer->life;
	}
	cassini_put_write(frame, cmd, peer);
	link_commit(dom->port, to, LINK_ORDERED, frame, CASSINI_PUT_HDR + cmd->request_len, op,
		    op ? 0 : cassini_lost_tag(cq, cmd->user_ptr));
	cassini_stats_started(&dom->nic->stats, CASSINI_OP_PUT, cmd->flags, cmd->request_len);
	if (unlikely(cq->bell || (!is_near && !link_peer_is_local(to))))
		ring(cq, dom, cmd->flags & CASSINI_CMD_MORE);
	return true;
}

inline __attribute__((always_inline)) bool cassini_put(struct cassini_cmdq *cq, const struct cassini_cmd *cmd,
						       bool is_near)
{
	lock_assert_held(cq->lni->nic->open.lock);
	return put_in_place(cq, cmd, false, is_near);
}

int cassini_post(struct cassini_cmdq *cq, const struct cassini_cmd *cmd)
{
	struct cassini_dom *dom = cmd->dom;
	struct cassini_peer *peer = NULL;
	struct cassini_op *op;
	int rc;

	lock_assert_held(cq->lni->nic->open.lock);
	if (likely(cmd->opcode == CASSINI_OP_PUT && dom) && likely(put_in_place(cq, cmd, true, false)))
		return 0;
	if (unlikely(!dom || !is_valid_put(cq, cmd)) && (rc = cassini_cmd_check(cq, cmd)))
		return rc;
	rc = cassini_cmdq_peer(cq, dom, cmd->nic, cmd->pid, &peer);
	if (unlikely(rc && rc != -ENETUNREACH))
		return -EAGAIN;
	op = op_take(cq, peer, cmd);
	if (unlikely(!op))
		return -EAGAIN;
	if (unlikely(!peer)) {
		cassini_ini_drop(op, CASSINI_RC_UNDELIVERABLE);
		return 0;
	}
	if (unlikely(launch(cq, op))) {
		op_give_back(op);
		return -EAGAIN;
	}
	cq->fence_next = false;
	ring(cq, dom, cmd->flags & CASSINI_CMD_MORE);
	return 0;
}

int cassini_fence(struct cassini_cmdq *cq)
{
	lock_assert_held(cq->lni->nic->open.lock);
	cq->fence_next = true;
	return 0;
}

void cassini_doorbell(struct cassini_cmdq *cq)
{
	lock_assert_held(cq->lni->nic->open.lock);
	if (cq->bell)
		link_doorbell(cq->bell->port);
	cq->bell = NULL;
}

/* --- the queue --- */

static uint16_t id_get(struct cassini_lni *lni)
{
	struct cassini_cmdq *cq;

	do {
		lni->next_cmdq++;
		LIST_FOREACH(cq, &lni->cmdqs, all)
			if (cq->id == lni->next_cmdq)
				break;
	} while (cq);
	return lni->next_cmdq;
}

int cassini_cmdq_open(struct cassini_lni *lni, const struct cassini_cmdq_attr *attr, struct cassini_cmdq **out)
{
	struct cassini_cmdq *cq;
	int rc;

	lock_assert_held(lni->nic->open.lock);
	if (!attr->depth || !attr->cp || attr->cp->lni != lni) {
		LOG_WARN("command queue of depth %u: needs a depth, and a profile of its LNI", attr->depth);
		return -EINVAL;
	}
	rc = cassini_rsrc_get(lni, CASSINI_RSRC_TXQ);
	if (rc)
		return rc;
	cq = mem_alloc(sizeof(*cq));
	if (!cq) {
		cassini_rsrc_put(lni, CASSINI_RSRC_TXQ);
		return -ENOMEM;
	}
	cq->lni = lni;
	cq->cp = attr->cp;
	cq->depth = attr->depth;
	cq->has_trig = attr->has_trig;
	cq->on_lost = attr->on_lost;
	cq->ctx = attr->ctx;
	cq->id = id_get(lni);
	STAILQ_INIT(&cq->held);
	LIST_INIT(&cq->trigs);
	LIST_INSERT_HEAD(&lni->cmdqs, cq, all);
	*out = cq;
	return 0;
}

/* Ends the held commands of @dom; NULL: of all. */
static void drop_held(struct cassini_cmdq *cq, const struct cassini_dom *dom)
{
	struct cassini_op *op, *tmp;

	STAILQ_FOREACH_SAFE(op, &cq->held, held, tmp) {
		if (dom && op->cmd.dom != dom)
			continue;
		unhold(cq, op);
		cassini_ini_drop(op, CASSINI_RC_CANCELED);
	}
}

static void orphan_if_of(void *obj, void *cq)
{
	struct cassini_op *op = obj;

	if (op->cq == cq && op->state != CASSINI_OPS_HELD)
		cassini_ini_orphan(op);
}

void cassini_cmdq_close(struct cassini_cmdq *cq)
{
	struct cassini_dom *dom;

	if (!cq)
		return;
	lock_assert_held(cq->lni->nic->open.lock);
	cassini_trig_cancel(cq, NULL, NULL, NULL);
	cq->depth = 0; /* what counts of dropped commands trigger finds it full */
	drop_held(cq, NULL);
	LIST_FOREACH(dom, &cq->lni->nic->doms, link)
		slab_foreach(&dom->ops, orphan_if_of, cq);
	drop_held(cq, NULL); /* what came back while the lock was free */
	cassini_doorbell(cq);
	cassini_trig_cancel(cq, NULL, NULL, NULL);
	if (cq->watched_by)
		LIST_REMOVE(cq, link);
	LIST_REMOVE(cq, all);
	cassini_rsrc_put(cq->lni, CASSINI_RSRC_TXQ);
	mem_free(cq);
}

static void orphan_if_told(void *obj, void *eq)
{
	struct cassini_op *op = obj;

	if (op->cmd.eq != eq) {
		cassini_ini_forget(op, eq);
		return;
	}
	if (op->state == CASSINI_OPS_HELD)
		return;
	if (op->cq)
		op->cq->used--;
	cassini_ini_orphan(op);
}

static bool tells(void *eq, const struct cassini_cmd *cmd)
{
	return cmd->eq == eq;
}

static void drop_told(struct cassini_lni *lni, struct cassini_eq *eq)
{
	struct cassini_op *op, *tmp;
	struct cassini_cmdq *cq;

	LIST_FOREACH(cq, &lni->cmdqs, all) {
		cassini_trig_cancel(cq, tells, NULL, eq);
		STAILQ_FOREACH_SAFE(op, &cq->held, held, tmp) {
			if (op->cmd.eq != eq)
				continue;
			unhold(cq, op);
			cassini_ini_drop(op, CASSINI_RC_CANCELED);
		}
	}
}

void cassini_eq_forget(struct cassini_lni *lni, struct cassini_eq *eq)
{
	struct cassini_dom *dom;

	lock_assert_held(lni->nic->open.lock);
	drop_told(lni, eq);
	LIST_FOREACH(dom, &lni->nic->doms, link)
		slab_foreach(&dom->ops, orphan_if_told, eq);
	drop_told(lni, eq); /* what came back while the lock was free */
}

static bool leaves(void *dom, const struct cassini_cmd *cmd)
{
	return cmd->dom == dom;
}

void cassini_ini_close(struct cassini_dom *dom)
{
	struct cassini_lni *lni;
	struct cassini_peer *peer;
	struct cassini_cmdq *cq;
	struct cassini_op *op;

	lock_assert_held(dom->nic->open.lock);
	dom->closing = true;
	dom->put_word = CASSINI_PUT_NONE; /* each frame meets the whole door, which knows that we close */
	LIST_FOREACH(lni, &dom->nic->lnis, link) {
		LIST_FOREACH(cq, &lni->cmdqs, all) {
			cassini_trig_cancel(cq, leaves, NULL, dom);
			drop_held(cq, dom);
			cassini_cmdq_watch(cq);
			if (cq->bell == dom)
				cassini_doorbell(cq);
			if (cq->last && cq->last->dom == dom)
				cq->last = NULL;
			if (cq->only == dom)
				cq->only = NULL;
		}
	}
	/* the last answer that a peer owes takes it off the list */
	while ((peer = LIST_FIRST(&dom->awaited)) && (op = LIST_FIRST(&peer->waiting)))
		cassini_ini_lost(op, CASSINI_RC_CANCELED);
}

void cassini_cmdq_set_cp(struct cassini_cmdq *cq, struct cassini_cp *cp)
{
	lock_assert_held(cq->lni->nic->open.lock);
	cq->cp = cp;
	cq->last = NULL;
}

uint32_t cassini_cmdq_free(const struct cassini_cmdq *cq)
{
	return cq->depth - MIN(cq->used, cq->depth); /* what a lossless PTE sent back may be there besides */
}

bool cassini_cmdq_is_idle(const struct cassini_cmdq *cq)
{
	return !cq->used;
}
