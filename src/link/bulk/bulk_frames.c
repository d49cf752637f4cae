// SPDX-License-Identifier: BSD-2-Clause
// The frames method, at the initiator: asks the owner for a GET's bytes, sends those of a PUT, and gives up on a silent
// owner where the kernel can do it. The owner's side is bulk_serve.c.
#include "link/bulk/bulk_int.h"

#include <errno.h>

#include "base/guard.h"

#define TURN_LEN   32768u	     /* bytes per turn of an operation through shared memory, */
#define LONG_READ  262144u	     /* bytes from which on a read is a long one */
#define NET_TURN   65536u	     /* over the network: a datagram and a little */
#define PUT_WINDOW 262144u	     /* bytes in the ring that the owner has not replied to */
#define BUSY_NS	   (100 * NS_PER_US) /* before asking a busy target again */

static void count_moved(struct bulk_port *b, const struct bulk_op *op, uint64_t len)
{
	if (op->is_ring)
		b->port->stats.bulk_ring_bytes += len;
	else
		b->port->stats.bulk_frame_bytes += len;
}

/* GET: from now on [@pos, @len) is waited for. */
static void get_asked(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	op->is_asked = true;
	op->ask_len = op->len - op->pos;
	op->got = op->got_head = 0;
	bulk_busy_enter(op, now_ns);
	bulk_timer_arm(b, op, now_ns);
}

static void frames_start(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	op->is_asked = false;
	op->is_ring = op->peer->shm != NULL;
	if (op->op == LINK_GET && bulk_offer_take(b, op))
		get_asked(b, op, now_ns);
}

/* GET: send the request. Return: 0; -EAGAIN; terminal status. */
static int get_turn(struct bulk_port *b, struct bulk_op *op)
{
	struct bulk_pkt pkt = bulk_pkt_of(b, op, BULK_T_GET);
	int rc;

	pkt.key = op->key;
	pkt.addr = op->raddr + op->pos;
	pkt.len = op->len - op->pos;
	rc = bulk_frame(b, op->peer, &pkt, NULL, 0, NULL);
	if (rc == -EAGAIN && !op->timer.pos) /* the link is full: does anybody read there? */
		bulk_timer_arm(b, op, bulk_now(b));
	if (rc)
		return rc;
	bulk_queue_leave(b, op);
	get_asked(b, op, bulk_now(b));
	return 0;
}

/* The peer and the link hold as many bytes as they shall: on_sent or a REPLY lets the operation go on. */
static bool put_is_full(const struct bulk_op *op)
{
	return op->unsent_cnt >= BULK_UNSENT_MAX || (op->is_ring && op->sent - op->got >= PUT_WINDOW);
}

/*
 * One PUT frame. Shared memory has copied it when port_up.out() returns; other paths point into
 * user memory until on_sent.
 * Return: bytes sent (0 for an empty PUT); -EAGAIN; terminal status.
 */
static int64_t put_chunk(struct bulk_port *b, struct bulk_op *op)
{
	uint64_t len = MIN(op->len - op->pos, (uint64_t)BULK_CHUNK);
	struct bulk_pkt pkt = bulk_pkt_of(b, op, BULK_T_PUT);
	int rc;

	pkt.key = op->key;
	pkt.addr = op->raddr;
	pkt.len = op->len;
	pkt.off = op->pos;
	op->is_ring = op->peer->shm != NULL;
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

/* PUT: send. Return: bytes sent; -EAGAIN nothing; terminal status. */
static int64_t put_turn(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
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
	if (sent && op->pos == op->len && b->port->cls == LINK_ORDERED && !op->is_ring && b->port->ops->on_bulk_left)
		b->port->ops->on_bulk_left(b->port->ctx, op->cookie);
	return sent || rc == 0 ? sent : -EAGAIN;
}

static int64_t frames_turn(struct bulk_port *b, struct bulk_op *op, uint64_t len)
{
	if (op->op == LINK_PUT)
		return put_turn(b, op, MIN(len, (uint64_t)(op->peer->shm ? TURN_LEN : NET_TURN)));
	return op->is_asked ? bulk_op_astray(b, op) : get_turn(b, op);
}

/* GET: what was asked for is not waited for any more; the first @kept bytes of it are there. */
static void get_drop(struct bulk_port *b, struct bulk_op *op, uint64_t kept)
{
	op->is_asked = false;
	op->pos += kept;
	op->got = op->got_head = op->ask_len = 0;
	bulk_tag_renew(b, op);
}

static bool frames_give_up(struct bulk_port *b, struct bulk_op *op)
{
	struct bulk_pkt pkt = bulk_pkt_of(b, op, BULK_T_STOP);

	if (op->op == LINK_GET && !op->is_asked) { /* the target was busy, or the link full */
		bulk_op_begin(b, op, bulk_now(b));
		return true;
	}
	if (bulk_op_is_heard(b, op) || (op->op == LINK_PUT && op->pos == op->len) || !bulk_can_cma(b, op))
		return false;
	/* long reads one after the other: while the kernel copies the first, its owner may come back to the others */
	if (op->op == LINK_GET && op->len >= LONG_READ && op->target->left_cnt) {
		bulk_timer_arm(b, op, bulk_now(b));
		return true;
	}
	/* the owner does not answer: the kernel does what is left */
	if (op->op == LINK_GET)
		bulk_frame(b, op->peer, &pkt, NULL, 0, NULL); /* spares the owner work: a failure does not matter */
	if (op->state == BULK_ENDED)
		return true;
	bulk_learn_silence(op, bulk_now(b));
	if (op->op == LINK_GET) { /* a PUT may have to wait for answers yet */
		get_drop(b, op, op->got_head);
		op->is_left = true;
		op->target->left_cnt++;
	}
	op->how = b->methods[BULK_CMA]; /* not begun anew: that it came to this is what its choice costs */
	pq_remove(&b->timers, &op->timer);
	bulk_queue_active(b, op);
	return true;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* @len bytes more are there: the owner lives. */
static void note_moved(const struct bulk_port *b, struct bulk_op *op, uint64_t len)
{
	op->has_news = true;
	op->got += len;
	if (!op->target)
		return;
	op->target->heard_ns = bulk_now(b);
	bulk_busy_moved(op, op->target->heard_ns);
}

static bool get_data(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt, const struct view *frame)
{
	if (pkt->off > op->ask_len || pkt->payload_len > op->ask_len - pkt->off)
		return false;
	if (!guard_view(frame, pkt->hdr_len, op->local + op->pos + pkt->off, pkt->payload_len)) {
		bulk_op_end(b, op, -EACCES);
		return true;
	}
	note_moved(b, op, pkt->payload_len);
	if (pkt->off == op->got_head)
		op->got_head += pkt->payload_len;
	count_moved(b, op, pkt->payload_len);
	if (op->got >= op->ask_len)
		bulk_op_end(b, op, 0);
	return true;
}

/* How an operation ends that the owner has answered with @status, which is none to go on after. */
static int end_of(enum bulk_status status)
{
	switch (status) {
	case BULK_S_OK:
		return 0;
	case BULK_S_SHUT:
		return -ENOTCONN;
	case BULK_S_NUM:
		return -EPROTO;
	default:
		return -EACCES;
	}
}

static bool get_reply(struct bulk_port *b, struct bulk_op *op, enum bulk_status status)
{
	if (status == BULK_S_OK && op->ask_len)
		return false;
	if (status == BULK_S_WITHDRAWN) {
		get_drop(b, op, 0);
		bulk_queue_active(b, op);
	} else if (status == BULK_S_BUSY) {
		bulk_busy_leave(op, false, bulk_now(b));
		get_drop(b, op, 0);
		bulk_timer_set(b, op, bulk_now(b) + BUSY_NS);
	} else {
		bulk_op_end(b, op, end_of(status));
	}
	return true;
}

bool bulk_frames_answered(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt, const struct view *frame)
{
	if (op->op != LINK_PUT || pkt->type != BULK_T_REPLY || pkt->status == BULK_S_BUSY ||
	    pkt->bytes > op->sent - op->got)
		return false;
	if (pkt->status != BULK_S_OK) {
		bulk_op_end(b, op, end_of(pkt->status));
		return true;
	}
	note_moved(b, op, pkt->bytes);
	bulk_op_resume(b, op);
	/* everything sent has been answered, and nothing is left to send or to copy */
	if (op->pos == op->len && op->got == op->sent)
		bulk_op_end(b, op, 0);
	return true;
}

static bool frames_reply(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt, const struct view *frame)
{
	if (op->op == LINK_PUT)
		return bulk_frames_answered(b, op, pkt, frame);
	if (!op->is_asked)
		return false;
	return pkt->type == BULK_T_REPLY ? get_reply(b, op, pkt->status) : get_data(b, op, pkt, frame);
}

const struct bulk_method bulk_frames_method = {
	.start = frames_start,
	.turn = frames_turn,
	.reply = frames_reply,
	.give_up = frames_give_up,
};
