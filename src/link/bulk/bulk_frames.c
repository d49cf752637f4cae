// SPDX-License-Identifier: BSD-2-Clause
// The frames method, at the initiator: asks the owner for a GET's bytes, sends those of a PUT, and
// gives up on a silent owner where the kernel can do it. The owner's side is bulk_serve.c.
#include "link/bulk/bulk_int.h"

#include <errno.h>

#include "base/guard.h"

#define PUT_WINDOW 262144u	     /* bytes in the ring that the owner has not replied to */
#define BUSY_NS	   (100 * NS_PER_US) /* before asking a busy target again */

static void count_moved(struct bulk_port *b, const struct bulk_op *op, uint64_t len)
{
	if (op->is_ring)
		b->port->stats.bulk_ring_bytes += len;
	else
		b->port->stats.bulk_frame_bytes += len;
}

/* Return: 0; -EAGAIN; terminal status. */
int bulk_frames_ask(struct bulk_port *b, struct bulk_op *op)
{
	struct bulk_pkt pkt = {.type = BULK_T_GET,
			       .id = slab_id(&b->ops, op),
			       .tag = op->tag,
			       .key = op->key,
			       .addr = op->raddr + op->pos,
			       .len = op->len - op->pos};
	int rc = bulk_frame(b, op->peer, &pkt, NULL, 0, NULL);
	uint64_t now_ns;

	if (rc == -EAGAIN && !op->timer.pos) /* the link is full: does anybody read there? */
		bulk_timer_arm(b, op, bulk_now(b));
	if (rc)
		return rc;
	op->state = BULK_ASKED;
	op->ask_len = pkt.len;
	op->got = op->got_head = 0;
	now_ns = bulk_now(b);
	bulk_busy_enter(op, now_ns);
	bulk_op_wait(b, op, now_ns);
	return 0;
}

/* The peer and the link hold as many bytes as they shall: on_sent or a REPLY lets the operation go on. */
static bool put_is_full(const struct bulk_op *op)
{
	return op->unsent_cnt >= BULK_UNSENT_MAX ||
	       (op->is_ring && op->sent - op->got >= PUT_WINDOW);
}

/*
 * One PUT frame. Shared memory has copied it when port_frame_out() returns; other paths point into
 * user memory until on_sent.
 * Return: bytes sent (0 for an empty PUT); -EAGAIN; terminal status.
 */
static int64_t put_chunk(struct bulk_port *b, struct bulk_op *op)
{
	uint64_t len = MIN(op->len - op->pos, (uint64_t)BULK_CHUNK);
	struct bulk_pkt pkt = {.type = BULK_T_PUT,
			       .id = slab_id(&b->ops, op),
			       .tag = op->tag,
			       .key = op->key,
			       .addr = op->raddr,
			       .len = op->len,
			       .off = op->pos};
	int rc;

	op->is_ring = link_peer_is_local(op->peer);
	/* what the link has taken must be sent, so that this is the last moment to find out */
	if (!op->is_ring && !guard_touch(op->local + op->pos, len))
		return -EACCES;
	rc = bulk_frame(b, op->peer, &pkt, op->local + op->pos, len, op->is_ring ? NULL : op);
	if (rc)
		return rc == -EFAULT ? -EACCES : rc; /* as of the kernel's copies, see bulk_cma.c */
	op->unsent_cnt += !op->is_ring;
	op->pos += len;
	op->sent += len;
	count_moved(b, op, len);
	return (int64_t)len;
}

/* Return: bytes sent; -EAGAIN nothing; terminal status. */
int64_t bulk_frames_put(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
{
	uint64_t now_ns = bulk_now(b);
	int64_t sent = 0, rc;

	bulk_busy_enter(op, now_ns);
	do {
		rc = put_is_full(op) ? 0 : put_chunk(b, op);
		if (rc < 0 && (rc != -EAGAIN || !sent))
			break;
		sent += MAX(rc, (int64_t)0);
	} while (rc > 0 && op->pos < op->len && (uint64_t)sent < turn_len);
	if (rc < 0 && rc != -EAGAIN)
		return rc;
	/* -EAGAIN: an empty PUT is at its end and not sent */
	if (rc != -EAGAIN && (op->pos == op->len || put_is_full(op)))
		bulk_op_wait(b, op, now_ns);
	else if (rc == -EAGAIN && !op->timer.pos) /* the link is full: is anybody there? */
		bulk_timer_arm(b, op, now_ns);
	return sent || rc == 0 ? sent : -EAGAIN;
}

/* PUT: everything sent has been answered, and nothing is left to send or to copy. */
static void put_check_end(struct bulk_port *b, struct bulk_op *op)
{
	if (op->pos == op->len && op->got == op->sent && op->has_reply)
		bulk_op_end(b, op, 0);
}

/* The owner does not answer: do what is left by the kernel. */
void bulk_frames_give_up(struct bulk_port *b, struct bulk_op *op)
{
	if (op->op == LINK_GET) {
		struct bulk_pkt pkt = {
			.type = BULK_T_STOP, .id = slab_id(&b->ops, op), .tag = op->tag};

		bulk_frame(b, op->peer, &pkt, NULL, 0,
			   NULL); /* only spares the owner work, so that a failure does not matter */
		if (op->state == BULK_ENDED)
			return;
	}
	bulk_busy_leave(op, false, bulk_now(b));
	bulk_learn_silence(op, bulk_now(b));
	if (op->op == LINK_GET) {
		op->pos += op->got_head;
		op->got = op->ask_len = 0;
		bulk_tag_renew(b, op);
	}
	op->state = BULK_COPY;
	pq_remove(&b->timers, &op->timer);
	bulk_queue_active(b, op);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Return: false if the frame contradicts what was asked for. */
bool bulk_frames_on_data(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt,
			 const struct view *frame)
{
	if (op->state != BULK_ASKED || pkt->off > op->ask_len ||
	    pkt->payload_len > op->ask_len - pkt->off)
		return false;
	if (!guard_view(frame, pkt->hdr_len, op->local + op->pos + pkt->off, pkt->payload_len)) {
		bulk_op_end(b, op, -EACCES);
		return true;
	}
	op->has_news = true;
	if (op->target)
		op->target->heard_ns = b->last_ns;
	op->got += pkt->payload_len;
	if (pkt->off == op->got_head)
		op->got_head += pkt->payload_len;
	count_moved(b, op, pkt->payload_len);
	if (op->got >= op->ask_len)
		bulk_op_end(b, op, 0);
	return true;
}

static bool on_get_reply(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt)
{
	if (op->state != BULK_ASKED)
		return false;
	switch (pkt->status) {
	case BULK_S_OK:
		if (op->ask_len)
			return false;
		bulk_op_end(b, op, 0);
		return true;
	case BULK_S_ACCESS:
		bulk_op_end(b, op, -EACCES);
		return true;
	case BULK_S_BUSY:
		bulk_busy_leave(op, false, bulk_now(b));
		bulk_tag_renew(b, op);
		op->state = BULK_ASK;
		bulk_timer_set(b, op, bulk_now(b) + BUSY_NS);
		return true;
	case BULK_S_NUM:
		break;
	}
	must(0);
	return false;
}

static bool on_put_reply(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt)
{
	bool is_ready = op->state == BULK_STREAM && op->pos < op->len && op->queue == BULK_Q_NONE;

	if (pkt->status == BULK_S_BUSY || pkt->bytes > op->sent - op->got)
		return false;
	if (pkt->status == BULK_S_ACCESS) {
		bulk_op_end(b, op, -EACCES);
		return true;
	}
	op->has_news = op->has_reply = true;
	if (op->target)
		op->target->heard_ns = b->last_ns;
	op->got += pkt->bytes;
	if (is_ready)
		bulk_queue_active(b, op);
	put_check_end(b, op);
	return true;
}

bool bulk_frames_on_reply(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt)
{
	return op->op == LINK_GET ? on_get_reply(b, op, pkt) : on_put_reply(b, op, pkt);
}
