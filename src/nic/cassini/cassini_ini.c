// SPDX-License-Identifier: BSD-2-Clause
// The initiator: a command's life from its frame over the link's verdict and the REPLY to its event.
#include "nic/cassini/cassini_tgt.h"

#include <errno.h>

#include "base/bits.h"
#include "base/copy.h"
#include "base/guard.h"
#include "base/mem.h"

/*
 * Theory of operation
 *
 *                     verdict                              then
 *   PUT in a frame    ends it                              -
 *   PUT_BULK          taken: the target copies             REPLY ends it
 *   GET, FETCH        taken                                REPLY ends it
 *   ATOMIC            ends it                              -
 *   RPUT              ends the command (ACK)               the rest is fetched: cassini_ini_got() ends the operation
 *
 * A verdict that refuses ends everything at once. A REPLY can overtake the verdict (state GOT_REPLY): the link holds
 * the operation as its cookie, so the end waits for the verdict. Between verdict and REPLY the operation stands in
 * peer->waiting, where the death of the peer finds it.
 *
 * link_send() may report on_sent before it returns, so an operation is complete before that call and not touched after
 * it, unless it failed. link_region_del() may let go of the lock: an operation that ends is in state ENDING first, in
 * no list, and no packet can name it any more.
 */

bool cassini_ini_is_bulk(const struct cassini_op *op)
{
	return op->cmd.opcode == CASSINI_OP_PUT && op->cmd.request_len > CASSINI_FRAME_DATA;
}

static inline bool is_bulk_put(const struct cassini_op *op)
{
	return op->cmd.opcode == CASSINI_OP_PUT && op->is_bulk;
}

/* Does a REPLY end it? */
static inline bool has_reply(const struct cassini_op *op)
{
	return op->cmd.opcode == CASSINI_OP_GET || op->cmd.opcode == CASSINI_OP_FETCHING_ATOMIC || is_bulk_put(op);
}

uint8_t cassini_status_rc(int status, uint8_t *list)
{
	*list = CASSINI_PRIORITY;
	if (likely(status == 0 || status == CASSINI_RC_OK))
		return CASSINI_RC_OK;
	if (status == -ECANCELED)
		return CASSINI_RC_CANCELED;
	if (status < 0)
		return CASSINI_RC_UNDELIVERABLE;
	if (status < CASSINI_VERDICT_LIST)
		return (uint8_t)status;
	if (status - CASSINI_VERDICT_LIST >= CASSINI_LIST_NUM)
		return CASSINI_RC_UNCOR; /* no list that there is: the peer is not an honest one */
	*list = (uint8_t)(status - CASSINI_VERDICT_LIST);
	return CASSINI_RC_OK;
}

/* --- the end --- */

static void memory_close(struct cassini_op *op)
{
	uint32_t region = op->region;

	if (op->in_rdzv) {
		mt_unexp_del(&op->cmd.dom->rdzv, &op->rdzv);
		op->in_rdzv = false;
	}
	if (region) {
		op->region = 0;
		link_region_del(op->cmd.dom->nic->node, region);
	}
}

static void event_put(const struct cassini_op *op, uint8_t type, uint8_t rc, uint8_t list)
{
	*cassini_eq_slot(op->cmd.eq) = (struct cassini_event){
		.type = type,
		.rc = rc,
		.ptl_list = list,
		.rendezvous = false, /* to name them all is quicker than to zero the rest */
		.get_issued = false,
		.auto_unlinked = false,
		.rendezvous_id = 0,
		.state = 0,
		.sc_reason = 0,
		.nic_auto = false,
		.atomic_op = 0,
		.atomic_type = 0,
		.vni = 0,
		.initiator = 0,
		.mlength = op->cmd.request_len,
		.rlength = op->cmd.request_len,
		.life = 0,
		.user_ptr = op->cmd.user_ptr,
		.match_bits = 0,
		.header_data = 0,
		.remote_offset = 0,
		.start = NULL,
		.dom = NULL,
	};
}

static __attribute__((noinline)) void send_event_put(struct cassini_op *op, uint8_t rc)
{
	op->owes_send = false;
	if (rc == CASSINI_RC_CANCELED)
		cassini_eq_unclaim(op->cmd.eq);
	else
		event_put(op, CASSINI_EV_SEND, CASSINI_RC_OK, 0);
}

/* Its event, if it makes one. */
static inline void report(struct cassini_op *op, uint8_t rc, uint8_t list)
{
	bool is_reply = op->cmd.opcode == CASSINI_OP_GET || op->cmd.opcode == CASSINI_OP_FETCHING_ATOMIC;

	if (unlikely(op->owes_send))
		send_event_put(op, rc);
	if (unlikely(!op->cmd.eq)) {
		if (rc != CASSINI_RC_OK && op->cq)
			cassini_lost_tell(op->cq, &op->cmd, rc);
		return;
	}
	if (rc == CASSINI_RC_OK && op->cmd.flags & CASSINI_CMD_NO_EVENT)
		cassini_eq_unclaim(op->cmd.eq);
	else
		event_put(op, is_reply ? CASSINI_EV_REPLY : CASSINI_EV_ACK, rc, list);
}

static __attribute__((noinline)) void count(struct cassini_ct *ct, uint32_t flags, uint32_t len, uint8_t rc)
{
	if (rc == CASSINI_RC_OK)
		cassini_ct_add(ct, flags & CASSINI_CMD_CT_BYTES ? len : 1, 0);
	else if (!(flags & CASSINI_CMD_CT_SUCCESS))
		cassini_ct_add(ct, 0, 1);
}

/*
 * The command has ended: event, its place in the queue, count, in this order, because a count may trigger a command for
 * the same queue.
 * @is_over: the operation has ended with it.
 */
static inline void command_end(struct cassini_op *op, uint8_t rc, uint8_t list, bool is_over)
{
	struct cassini_ct *ct = op->cmd.flags & CASSINI_CMD_CT_ACK ? op->cmd.ct : NULL;
	uint32_t flags = op->cmd.flags, len = op->cmd.request_len;

	if (unlikely(rc == CASSINI_RC_UNDELIVERABLE))
		op->cmd.dom->nic->stats.unreachable++;
	report(op, rc, list);
	if (op->cq)
		op->cq->used--;
	if (is_over) {
		if (unlikely(op->own))
			mem_free(op->own);
		slab_put(&op->cmd.dom->ops, op);
	} else {
		op->cq = NULL;
		op->cmd.eq = NULL;
		op->cmd.ct = NULL;
	}
	if (unlikely(ct))
		count(ct, flags, len, rc);
}

static inline void op_end(struct cassini_op *op, uint8_t rc, uint8_t list)
{
	op->state = CASSINI_OPS_ENDING;
	if (unlikely(op->region || op->in_rdzv))
		memory_close(op);
	if (unlikely(op->is_moving))
		op->peer->ordered--;
	command_end(op, rc, list, true);
}

void cassini_ini_drop(struct cassini_op *op, uint8_t rc)
{
	if (op->owes_send)
		cassini_eq_unclaim(op->cmd.eq); /* nothing was sent */
	op->owes_send = false;
	op_end(op, rc, 0);
}

void cassini_ini_orphan(struct cassini_op *op)
{
	if (op->cmd.eq)
		cassini_eq_unclaim(op->cmd.eq);
	if (op->owes_send)
		cassini_eq_unclaim(op->cmd.eq);
	op->owes_send = false;
	op->cq = NULL;
	op->cmd.eq = NULL;
	op->cmd.ct = NULL;
	op->cmd.fetch_addr = NULL;
	if (op->cmd.opcode == CASSINI_OP_GET)
		op->cmd.local_addr = NULL;
	memory_close(op);
}

/* --- out --- */

/* From the user's memory, or from op->frame if it is INLINE. */
static int put_frame(struct cassini_op *op)
{
	struct iovec iov = {(void *)(uintptr_t)op->cmd.local_addr, op->cmd.request_len};

	cassini_put_encode(op->frame, &op->cmd, op->peer);
	return link_send(op->cmd.dom->port, op->peer->link, op->frame, CASSINI_PUT_HDR, &iov, iov.iov_len ? 1 : 0, op);
}

/* Every packet but the Put in one frame: header and operands from op->frame, then @data_len bytes of local memory. */
static int send_pkt(struct cassini_op *op, enum cassini_pkt_op pkt_op, uint64_t raddr, uint32_t data_len)
{
	const struct cassini_cmd *cmd = &op->cmd;
	struct iovec iov = {(void *)(uintptr_t)cmd->local_addr, data_len};
	struct cassini_pkt_in pkt = {
		.op = (uint8_t)pkt_op,
		.flags = cassini_wire_flags(cmd->flags),
		.pid_idx = cmd->pid_idx,
		.vni = cmd->dom->vni,
		.pid = cmd->pid,
		.initiator = cmd->dom->match_id,
		.request_len = cmd->request_len,
		.handle = pkt_op == CASSINI_PKT_ATOMIC ? 0 : slab_id(&cmd->dom->ops, op),
		.region = op->region,
		.remote_offset = cmd->remote_offset,
		.match_bits = cmd->match_bits,
		.header_data = pkt_op == CASSINI_PKT_GET ? 0 : cmd->header_data,
		.raddr = raddr,
	};
	size_t len;

	if (pkt_op == CASSINI_PKT_RPUT) {
		pkt.rendezvous_id = cmd->rendezvous_id;
		pkt.remote_offset = (uintptr_t)cmd->local_addr;
		pkt.get_bits = cmd->get_bits;
	}
	if (pkt_op == CASSINI_PKT_ATOMIC || pkt_op == CASSINI_PKT_FETCH)
		pkt.amo = (struct cassini_amo_in){cmd->atomic_op,
						  cmd->atomic_type,
						  cmd->cswap_op,
						  {cmd->op1[0], cmd->op1[1]},
						  {cmd->op2[0], cmd->op2[1]}};
	len = cassini_pkt_encode(&pkt, op->frame);
	if (!data_len)
		return cassini_send_whole(op->peer, op->frame, len, op);
	return link_send(cmd->dom->port, op->peer->link, op->frame, len, &iov, 1, op);
}

/* The local memory becomes a region. No room in the table is a reason to wait. */
static int memory_open(struct cassini_op *op, unsigned rights)
{
	int rc = link_port_region_add(op->cmd.dom->port, (void *)(uintptr_t)op->cmd.local_addr, op->cmd.request_len,
				      rights, &op->region);

	return rc ? -EAGAIN : 0;
}

/* The target will fetch all behind the first @eager bytes. */
static void offer(const struct cassini_op *op, uint32_t eager)
{
	if (op->peer->link)
		link_offer(op->cmd.dom->port, op->peer->link, op->region, (uintptr_t)op->cmd.local_addr + eager,
			   op->cmd.request_len - eager);
}

static int bulk_put(struct cassini_op *op)
{
	int rc = memory_open(op, LINK_GET);

	if (rc)
		return rc;
	op->is_bulk = true;
	op->is_moving = op->is_ordered;
	op->peer->ordered += op->is_moving;
	offer(op, 0);
	return send_pkt(op, CASSINI_PKT_PUT_BULK, (uintptr_t)op->cmd.local_addr, 0);
}

/*
 * The eager part saves the wait for the first bytes of a Get. To a peer whose adapter copies straight out of our memory
 * it would be no more than another copy, and move the rest off the pages' borders.
 */
static uint32_t eager_len(const struct cassini_op *op)
{
	return op->peer->link && link_bulk_is_direct(op->peer->link) ? 0 : op->cmd.eager_length;
}

static int rendezvous_put(struct cassini_op *op)
{
	int rc = op->cmd.request_len ? memory_open(op, LINK_GET) : 0;

	if (rc)
		return rc;
	op->rdzv.tag = op->cmd.get_bits;
	op->rdzv.src = CASSINI_MATCH_ID(op->peer->pid, op->peer->nic);
	mt_unexp_add(&op->cmd.dom->rdzv, &op->rdzv); /* before it is sent: the Get may come before the verdict */
	op->in_rdzv = true;
	offer(op, eager_len(op));
	return send_pkt(op, CASSINI_PKT_RPUT, 0, eager_len(op));
}

static int get(struct cassini_op *op)
{
	int rc = 0;

	if (op->cmd.request_len <= CASSINI_FRAME_DATA)
		return send_pkt(op, CASSINI_PKT_GET, 0, 0);
	rc = memory_open(op, LINK_PUT);
	if (rc)
		return rc;
	op->is_bulk = true;
	return send_pkt(op, CASSINI_PKT_GET, (uintptr_t)op->cmd.local_addr, 0);
}

/* A Put that could be written in place has not come here: cassini_post() has done it. */
static int try_send(struct cassini_op *op)
{
	op->state = CASSINI_OPS_SENT;
	op->life = op->peer->life;
	switch ((enum cassini_opcode)op->cmd.opcode) {
	case CASSINI_OP_PUT:
		return cassini_ini_is_bulk(op) ? bulk_put(op) : put_frame(op);
	case CASSINI_OP_GET:
		return get(op);
	case CASSINI_OP_RENDEZVOUS_PUT:
		return rendezvous_put(op);
	case CASSINI_OP_ATOMIC:
		return send_pkt(op, CASSINI_PKT_ATOMIC, 0, 0);
	case CASSINI_OP_FETCHING_ATOMIC:
		return send_pkt(op, CASSINI_PKT_FETCH, 0, 0);
	case CASSINI_OP_NUM:
		break;
	}
	must(0);
}

/* The link did not take it: as if it had never been tried. */
static void unsend(struct cassini_op *op)
{
	op->state = CASSINI_OPS_HELD;
	op->peer->ordered -= op->is_moving;
	op->is_moving = op->is_bulk = false;
	memory_close(op);
}

/* It says for whom it is, and that one has gone. */
static bool is_for_another(const struct cassini_op *op)
{
	return op->cmd.flags & CASSINI_CMD_SAME_LIFE && op->cmd.life != op->peer->life;
}

/*
 * The link answered @rc in place of taking @op. When it says that the peer is gone, once more: another process may have
 * that address by now.
 * Return: 0, also when @op has ended; -EAGAIN.
 */
static __attribute__((cold, noinline)) int send_failed(struct cassini_op *op, int rc)
{
	struct cassini_peer *peer = op->peer;

	unsend(op);
	if (rc == -EAGAIN)
		return rc;
	cassini_peer_gone(peer, op->life);
	if (!is_for_another(op) && !cassini_peer_get(op->cmd.dom, peer->nic, peer->pid, &peer)) {
		rc = try_send(op);
		if (!rc)
			return 0;
		unsend(op);
		if (rc == -EAGAIN)
			return rc;
		cassini_peer_gone(op->peer, op->life);
	}
	cassini_ini_drop(op, CASSINI_RC_UNDELIVERABLE);
	return 0;
}

int cassini_ini_start(struct cassini_op *op)
{
	struct cassini_stats *stats = &op->cmd.dom->nic->stats;
	uint32_t flags = op->cmd.flags, len = op->cmd.request_len;
	struct cassini_peer *peer = op->peer;
	unsigned opcode = op->cmd.opcode;
	bool is_first;
	int rc;

	if (unlikely(is_for_another(op)) ||
	    (unlikely(!peer->link) && cassini_peer_get(op->cmd.dom, peer->nic, peer->pid, &peer))) {
		cassini_ini_drop(op, CASSINI_RC_UNDELIVERABLE);
		return 0;
	}
	if (unlikely(peer->held))
		cassini_pause_mark(op);
	is_first = !op->refusal && !op->is_busy;
	rc = try_send(op);
	if (unlikely(rc)) {
		rc = send_failed(op, rc);
		if (rc)
			return rc;
	}
	if (likely(is_first))
		cassini_stats_started(stats, opcode, flags, len);
	return 0;
}

/* --- back --- */

/* A rendezvous whose command has ended, and nobody will fetch the rest: says so where the Get would have. */
static void rendezvous_end(struct cassini_op *op, uint8_t rc)
{
	struct cassini_dom *dom = op->cmd.dom;
	uint32_t target = CASSINI_MATCH_ID(op->peer->pid, op->peer->nic);
	uint64_t get_bits = op->cmd.get_bits;

	op->state = CASSINI_OPS_ENDING;
	memory_close(op);
	slab_put(&dom->ops, op);
	if (rc != CASSINI_RC_OK)
		cassini_tgt_get_event(dom, target, get_bits, 0, rc);
}

void cassini_ini_forget(struct cassini_op *op, const struct cassini_eq *eq)
{
	if (op->state != CASSINI_OPS_WAIT || op->cmd.opcode != CASSINI_OP_RENDEZVOUS_PUT || op->told != eq)
		return;
	cassini_peer_unawait(op->peer, op);
	rendezvous_end(op, CASSINI_RC_OK); /* which nobody is told */
}

/* A RENDEZVOUS_PUT is at its target: the command ends, the operation waits for the Get, unless it is an orphan. */
static void rendezvous_taken(struct cassini_op *op, uint8_t list, uint8_t lost)
{
	bool is_orphan = !op->in_rdzv; /* its number may be another's by now */

	if (lost != CASSINI_RC_OK || is_orphan) {
		op->state = CASSINI_OPS_ENDING;
		command_end(op, CASSINI_RC_OK, list, false);
		rendezvous_end(op, is_orphan ? (uint8_t)CASSINI_RC_OK : lost);
		return;
	}
	op->state = CASSINI_OPS_WAIT;
	op->told = op->cmd.eq;
	cassini_peer_await(op->peer, op); /* first: what the count triggers may find the peer dead */
	command_end(op, CASSINI_RC_OK, list, false);
}

/* The verdict is good, but does not end @op. */
static __attribute__((noinline)) void on_taken(struct cassini_op *op, uint8_t list)
{
	uint8_t lost = CASSINI_RC_OK;

	if (op->cmd.dom->closing)
		lost = CASSINI_RC_CANCELED;
	else if (op->life != op->peer->life)
		lost = CASSINI_RC_UNDELIVERABLE; /* who took it has died since */
	if (op->cmd.opcode == CASSINI_OP_RENDEZVOUS_PUT) {
		rendezvous_taken(op, list, lost);
	} else if (lost != CASSINI_RC_OK) {
		op_end(op, lost, 0);
	} else {
		op->state = CASSINI_OPS_WAIT;
		cassini_peer_await(op->peer, op);
	}
}

/* Busy is an answer only to what can wait for better times. */
static bool is_held_back(const struct cassini_op *op)
{
	return op->cq && op->state == CASSINI_OPS_SENT && cassini_is_lossless(&op->cmd) && !op->cmd.dom->closing &&
	       op->life == op->peer->life;
}

/* Our target owes us so much already that we should take some of it first. */
static bool is_to_ask_again(const struct cassini_op *op)
{
	return op->cmd.opcode == CASSINI_OP_GET && op->cq && op->state == CASSINI_OPS_SENT && !op->cmd.dom->closing &&
	       op->life == op->peer->life;
}

/* As if it had not been sent. */
static void take_back(struct cassini_op *op)
{
	unsend(op); /* may let go of the lock */
	if (!op->cq)
		cassini_ini_drop(op, CASSINI_RC_CANCELED);
	else if (op->cmd.opcode == CASSINI_OP_GET)
		cassini_cmdq_again(op);
	else
		cassini_cmdq_pause(op);
}

/* Every end of a frame but the good one of a Put. */
static __attribute__((noinline)) void sent_other(struct cassini_op *op, int status)
{
	struct cassini_peer *peer = op->peer;
	uint32_t life = op->life;
	uint8_t list, rc = cassini_status_rc(status, &list);
	bool is_gone = rc == CASSINI_RC_UNDELIVERABLE; /* or so its target says, for which we are no peer any more */

	if (unlikely(status > 0 && rc != CASSINI_RC_OK && op->region && peer->link))
		link_offer_missed(op->cmd.dom->port, peer->link, op->region);
	if (unlikely(rc == CASSINI_RC_RESOURCE_BUSY && (is_held_back(op) || is_to_ask_again(op)))) {
		take_back(op);
		return;
	}
	if (unlikely(op->is_again))
		peer->held &= (uint16_t)~BIT(op->cmd.pid_idx);
	if (op->cmd.opcode == CASSINI_OP_PUT)
		cassini_peer_took(peer, op->cmd.pid_idx, rc == CASSINI_RC_OK && life == peer->life);
	if (status > 0 && op->cmd.flags & CASSINI_CMD_HRP && !has_reply(op))
		rc = CASSINI_RC_OK; /* the switch acknowledges, whatever the target thinks of it */
	if (op->state == CASSINI_OPS_GOT_REPLY)
		op_end(op, op->rc, op->cmd.opcode == CASSINI_OP_RENDEZVOUS_PUT ? list : op->list);
	else if (rc == CASSINI_RC_OK && (has_reply(op) || op->cmd.opcode == CASSINI_OP_RENDEZVOUS_PUT))
		on_taken(op, list);
	else
		op_end(op, rc, list);
	if (is_gone)
		cassini_peer_gone(peer, life);
}

void cassini_ini_sent(struct cassini_work *w, int status)
{
	struct cassini_op *op = container_of(w, struct cassini_op, work);

	if (likely(status == 0 && op->cmd.opcode == CASSINI_OP_PUT && !op->region && op->state == CASSINI_OPS_SENT &&
		   !op->is_again)) {
		cassini_peer_took(op->peer, op->cmd.pid_idx, op->life == op->peer->life);
		op_end(op, CASSINI_RC_OK, CASSINI_PRIORITY);
	} else {
		sent_other(op, status);
	}
}

/* Does @pkt, with @payload_len bytes, fit what @op asked? */
static bool reply_fits(const struct cassini_op *op, const struct cassini_pkt_in *pkt, uint32_t payload_len)
{
	bool in_frame =
		op->cmd.opcode == CASSINI_OP_FETCHING_ATOMIC || (op->cmd.opcode == CASSINI_OP_GET && !op->is_bulk);

	if (!has_reply(op) || pkt->rc == CASSINI_RC_NO_EVENT || pkt->rc >= CASSINI_RC_NUM ||
	    pkt->ptl_list >= CASSINI_LIST_NUM)
		return false;
	if (pkt->request_len > op->cmd.request_len)
		return false;
	return payload_len == (in_frame && pkt->rc == CASSINI_RC_OK ? pkt->request_len : 0);
}

void cassini_ini_reply(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		       const struct view *payload)
{
	struct cassini_op *op = slab_find(&dom->ops, pkt->handle);
	uint8_t rc = pkt->rc;
	void *to;

	if (!op || op->peer != peer || (op->state != CASSINI_OPS_SENT && op->state != CASSINI_OPS_WAIT) ||
	    !reply_fits(op, pkt, payload->len)) {
		dom->nic->stats.malformed++;
		return;
	}
	to = op->cmd.opcode == CASSINI_OP_GET ? (void *)(uintptr_t)op->cmd.local_addr : op->cmd.fetch_addr;
	if (payload->len && to && !guard_view(payload, 0, to, payload->len))
		rc = CASSINI_RC_NO_TRANSLATION;
	if (op->is_bulk && rc == CASSINI_RC_OK && link_region_is_spoilt(dom->nic->node, op->region))
		rc = CASSINI_RC_NO_TRANSLATION; /* what answers a Get was sent behind its bytes, for good or ill */
	if (op->cmd.opcode != CASSINI_OP_PUT && rc == CASSINI_RC_OK)
		dom->nic->stats.rx_bytes += pkt->request_len;
	if (op->state == CASSINI_OPS_SENT) {
		/* mostly: the acknowledgement of its frame comes later, and the link has the operation until then */
		op->state = CASSINI_OPS_GOT_REPLY;
		op->rc = rc;
		op->list = pkt->ptl_list;
		if (!op->region) /* to close that may take long */
			command_end(op, rc, pkt->ptl_list, false);
		return;
	}
	cassini_peer_unawait(peer, op);
	op_end(op, rc, pkt->ptl_list);
}

void cassini_ini_got(struct cassini_dom *dom, struct cassini_peer *peer, uint32_t handle, uint64_t get_bits)
{
	struct mt_node *node = NULL;
	struct cassini_op *op;

	if (handle)
		op = slab_find(&dom->ops, handle);
	else if ((node = mt_unexp_find(&dom->rdzv, CASSINI_MATCH_ID(peer->pid, peer->nic), get_bits, 0)))
		op = container_of(node, struct cassini_op, rdzv);
	else
		op = NULL;
	if (!op || op->peer != peer || !op->in_rdzv) {
		dom->nic->stats.malformed++;
		return;
	}
	if (op->state == CASSINI_OPS_WAIT) {
		cassini_peer_unawait(peer, op);
		rendezvous_end(op, CASSINI_RC_OK);
		return;
	}
	op->state = CASSINI_OPS_GOT_REPLY;
	op->rc = CASSINI_RC_OK;
	memory_close(op);
}

void cassini_ini_lost(struct cassini_op *op, uint8_t rc)
{
	cassini_peer_unawait(op->peer, op);
	if (op->cmd.opcode != CASSINI_OP_RENDEZVOUS_PUT) {
		op_end(op, rc, 0);
		return;
	}
	if (rc == CASSINI_RC_UNDELIVERABLE)
		op->cmd.dom->nic->stats.unreachable++;
	rendezvous_end(op, rc);
}
