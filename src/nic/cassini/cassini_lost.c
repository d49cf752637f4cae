// SPDX-License-Identifier: BSD-2-Clause
// What the link tells unasked: commands that nobody remembers, when they come back, and peers that have gone.
#include "base/mem.h"
#include "nic/cassini/cassini_int.h"

/*
 * Theory of operation
 *
 * Most small messages want no event, or one at once. Once the target has taken a Put at that index, so that it is
 * known to be there, nothing is left to remember of another one when the link has it: the link keeps its bytes where
 * they are, in the peer's lane, in our memory from which a peer of this host takes more than a lane holds, or in the
 * record of what the network sends, and shows them again if the target refuses it, as it does while its portal table
 * entry is disabled. Then the caller gets the command back with its user_ptr, which says where it stood in the order of
 * its commands.
 *
 * One that a lossless PTE holds back becomes an operation without an EQ, whose failure is told in the same way. Its
 * bytes lie in the operation, or, if they are too many for it, in memory that ends with it.
 */

static_assert(CASSINI_PUT_HDR + CASSINI_IDC_MAX <= LINK_OWN_MAX, "a short Put fits on every path");
static_assert(CASSINI_PUT_HDR + CASSINI_FRAME_DATA <= LINK_FRAME_MAX, "any other on one host");

static struct cassini_cmdq *cmdq_by_id(const struct cassini_lni *lni, unsigned id)
{
	struct cassini_cmdq *cq;

	LIST_FOREACH(cq, &lni->cmdqs, all)
		if (cq->id == id)
			break;
	return cq;
}

void cassini_lost_tell(struct cassini_cmdq *cq, const struct cassini_cmd *cmd, uint8_t rc)
{
	if (cq->on_lost && rc != CASSINI_RC_CANCELED && cmd->opcode == CASSINI_OP_PUT &&
	    cmd->request_len <= CASSINI_FRAME_DATA)
		cq->on_lost(cq->ctx, cmd, rc);
}

/* A lossless PTE holds it back: from here on it is an operation that waits for its turn. Return: false: no memory. */
static bool hold_back(struct cassini_cmdq *cq, struct cassini_peer *peer, const struct cassini_cmd *cmd)
{
	bool is_long = !(cmd->flags & CASSINI_CMD_INLINE);
	void *own = is_long ? mem_alloc(cmd->request_len) : NULL;
	struct cassini_op *op = own || !is_long ? cassini_op_new(cq, peer, cmd) : NULL;

	if (!op) {
		mem_free(own);
		return false;
	}
	if (is_long) {
		copy_cached(own, cmd->local_addr, cmd->request_len);
		op->cmd.local_addr = op->own = own;
	}
	cassini_cmdq_pause(op);
	return true;
}

/* The bytes are ours, as put_in_place() wrote them. */
void cassini_lost(void *ctx, struct link_peer *from, uint64_t tag, const void *frame, size_t len, int status)
{
	struct cassini_dom *dom = ctx;
	struct cassini_cmdq *cq = cmdq_by_id(dom->lni, (unsigned)(tag >> CASSINI_SEQ_BITS));
	struct cassini_peer *peer = link_peer_user(from);
	uint8_t list, rc = cassini_status_rc(status, &list);
	uint32_t life = peer ? peer->life : 0;
	bool is_current = peer && peer->link == from;
	uint32_t data_len = (uint32_t)(len - CASSINI_PUT_HDR);
	struct cassini_cmd cmd;
	struct cassini_hdr h;

	must(len >= CASSINI_PUT_HDR);
	memcpy(&h, frame, CASSINI_PUT_HDR);
	if (rc == CASSINI_RC_UNDELIVERABLE)
		dom->nic->stats.unreachable++;
	if (is_current)
		cassini_peer_took(peer, h.pid_idx, rc == CASSINI_RC_OK);
	if (cq && peer && !dom->closing && rc != CASSINI_RC_OK) {
		cmd = (struct cassini_cmd){
			.opcode = CASSINI_OP_PUT,
			.pid_idx = h.pid_idx,
			.pid = peer->pid,
			.nic = peer->nic,
			.flags = data_len <= CASSINI_IDC_MAX ? CASSINI_CMD_INLINE : 0,
			.request_len = data_len,
			.dom = dom,
			.local_addr = (const uint8_t *)frame + CASSINI_PUT_HDR,
			.match_bits = le64_get(h.match_bits),
			.header_data = le64_get(h.header_data),
			.user_ptr = tag & ((1ULL << CASSINI_SEQ_BITS) - 1),
		};
		if (rc != CASSINI_RC_RESOURCE_BUSY || !cassini_is_lossless(&cmd) || !is_current ||
		    !hold_back(cq, peer, &cmd))
			cassini_lost_tell(cq, &cmd, rc);
	}
	if (status < 0 && status != -ECANCELED && is_current)
		cassini_peer_gone(peer, life);
}

/*
 * Whoever was at @from has gone, and nothing of ours may have been under way that would have told. Known only when the
 * link is seen to reach the next one, it would end what that one has taken since, as if the old one owed it.
 */
void cassini_gone(void *ctx, struct link_peer *from, int status)
{
	struct cassini_peer *peer = link_peer_user(from);

	(void)ctx;
	(void)status;
	if (peer && (!peer->link || peer->link == from))
		cassini_peer_gone(peer, peer->life);
}
