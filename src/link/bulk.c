// SPDX-License-Identifier: BSD-2-Clause
// One-sided copies: the initiator's side, and the port object of the bulk service.
//
// Theory of operation: an operation moves its bytes by one of two methods and may change once it
// sees that the other is better. FRAMES asks the target's owner to take part: it works over every
// path and, when the owner polls, is the fastest one on a host too, since both sides copy at once.
// CMA lets the kernel copy, alone, under a lease on the region (bulk_tab.c). A local owner that
// computes instead of polling is noticed before (it says so in its segment) or by its silence, and
// CMA does the rest. Which of the two is faster for big copies to a polling owner depends on how
// far apart the cores are, hence it is measured, per target.
//
// Every operation ends exactly once, in bulk_poll(), after the link has given back each frame that
// points into user memory.
#include "link/bulk_int.h"

#include <errno.h>
#include <string.h>

#define TURN_LEN   32768u	    /* bytes per turn of an operation */
#define PUT_WINDOW 262144u	    /* bytes in the ring that the owner has not replied to */
#define SWITCH_NS  (30 * NS_PER_US) /* silence after which a local owner is not waited for */
#define PING_NS	   NS_PER_SEC /* silence after which the link is asked whether the peer lives */
#define BUSY_NS	   (100 * NS_PER_US) /* before asking a busy target again */
#define HELP_SLOWEST  2u /* bytes per ns below which an owner counts as silent */
#define STALL_NS   (20 * NS_PER_US)  /* before trying a full path again */
#define ALIVE_NS   (10 * NS_PER_MS)  /* a pid is not reused so soon */
#define OP_MAX	   (1u << 20)
#define STREAM_MAX 4096u
#define BUF_MAX	   1024u

static uint64_t now(const struct bulk_port *b)
{
	return clk_now_ns(&b->n->clk);
}

/* --- queues and timers ------------------------------------------------------------------------ */

static void queue_leave(struct bulk_port *b, struct bulk_op *op)
{
	if (op->queue == BULK_Q_ACTIVE)
		TAILQ_REMOVE(&b->active, op, entry);
	else if (op->queue == BULK_Q_ENDED)
		TAILQ_REMOVE(&b->ended, op, entry);
	op->queue = BULK_Q_NONE;
}

/* To the end of the turns. */
static void queue_active(struct bulk_port *b, struct bulk_op *op)
{
	queue_leave(b, op);
	TAILQ_INSERT_TAIL(&b->active, op, entry);
	op->queue = BULK_Q_ACTIVE;
}

static void queue_ended(struct bulk_port *b, struct bulk_op *op)
{
	queue_leave(b, op);
	TAILQ_INSERT_TAIL(&b->ended, op, entry);
	op->queue = BULK_Q_ENDED;
}

static void timer_set(struct bulk_port *b, struct bulk_op *op, uint64_t at_ns)
{
	if (op->timer.pos) {
		pq_update(&b->timers, &op->timer, at_ns);
		return;
	}
	op->timer.key_ns = at_ns;
	must(!pq_push(&b->timers, &op->timer)); /* link_bulk() has reserved the room */
}

/* Choose how the rest of @op is moved. */
static void op_begin(struct bulk_port *b, struct bulk_op *op)
{
	op->method = bulk_pick(b, op);
	op->copy_end = op->len;
	if (op->method != BULK_FRAMES)
		op->state = BULK_COPY;
	else
		op->state = op->op == LINK_GET ? BULK_ASK : BULK_STREAM;
	op->is_ring = link_peer_is_local(op->peer);
	if (op->method != BULK_FRAMES)
		bulk_busy_enter(op, now(b));
	if (op->method == BULK_HELPED)
		bulk_help_ask(b, op);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Whatever still arrives for @op from now on is ignored. */
static void tag_renew(struct bulk_port *b, struct bulk_op *op)
{
	op->tag = ++b->next_tag;
}

static void op_end(struct bulk_port *b, struct bulk_op *op, int status)
{
	struct link_stats *st = &b->port->stats;

	if (op->state == BULK_ENDED)
		return;
	op->state = BULK_ENDED;
	op->status = status;
	tag_renew(b, op);
	pq_remove(&b->timers, &op->timer);
	queue_leave(b, op);
	bulk_busy_leave(op, !status, op->counts_busy ? now(b) : 0);
	if (op->target)
		op->target->op_cnt--;
	op->target = NULL;
	b->help_cnt -= op->is_help;
	if (!status && op->op == LINK_GET)
		st->bulk_get_bytes += op->len;
	else if (!status && op->is_help)
		b->node->get_served += op->len;
	else if (!status)
		st->bulk_put_bytes += op->len;
	bulk_help_stop(b, op, true);
	if (op->help_key) /* the owner is at it: ask again soon */
		timer_set(b, op, now(b) + SWITCH_NS);
	if (!op->unsent_cnt)
		queue_ended(b, op);
}

static void op_report(struct bulk_port *b, struct bulk_op *op)
{
	struct link_peer *peer = op->peer;
	void *cookie = op->cookie;
	struct bulk_pkt help = {.id = op->peer_id, .tag = op->peer_tag, .len = op->len};
	int status = op->status;
	bool is_help = op->is_help;

	queue_leave(b, op);
	pq_remove(&b->timers, &op->timer);
	slab_put(&b->ops, op);
	if (is_help)
		bulk_serve_answer(b, peer, &help, status ? BULK_S_BUSY : BULK_S_OK,
				  status ? 0 : help.len);
	link_peer_put(peer);
	if (is_help)
		return;
	b->port->ops->on_bulk(b->port->ctx, cookie, status);
}

/* PUT: everything sent has been answered, and nothing is left to send or to copy. */
static void put_check_end(struct bulk_port *b, struct bulk_op *op)
{
	if (op->pos == op->len && op->got == op->sent && op->has_reply)
		op_end(b, op, 0);
}

/* --- frames ----------------------------------------------------------------------------------- */

static void count_moved(struct bulk_port *b, const struct bulk_op *op, uint64_t len)
{
	if (op->is_ring)
		b->port->stats.bulk_ring_bytes += len;
	else
		b->port->stats.bulk_frame_bytes += len;
}

/* Soon enough that the link can find the peer dead within its time. */
static uint64_t ping_ns(const struct bulk_port *b)
{
	return MIN(PING_NS, MAX(b->n->room->dead_after_ns / 4, NS_PER_MS));
}

/* See to it that silence of the peer is noticed. */
static void timer_arm(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	op->has_news = false;
	timer_set(b, op, now_ns + (bulk_can_cma(b, op) ? SWITCH_NS : ping_ns(b)));
}

/* Nothing to do for @op but to wait. */
static void op_wait(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	queue_leave(b, op);
	timer_arm(b, op, now_ns);
}

/* Return: 0; -EAGAIN; terminal status. */
static int get_ask(struct bulk_port *b, struct bulk_op *op)
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
		timer_arm(b, op, now(b));
	if (rc)
		return rc;
	op->state = BULK_ASKED;
	op->ask_len = pkt.len;
	op->got = op->got_head = 0;
	now_ns = now(b);
	bulk_busy_enter(op, now_ns);
	op_wait(b, op, now_ns);
	return 0;
}

/* Bytes are with the peer or the link, as many as are good for them: on_sent or a REPLY goes on. */
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
	rc = bulk_frame(b, op->peer, &pkt, op->local + op->pos, len, op->is_ring ? NULL : op);
	if (rc)
		return rc;
	op->unsent_cnt += !op->is_ring;
	op->pos += len;
	op->sent += len;
	count_moved(b, op, len);
	return (int64_t)len;
}

/* Return: bytes sent; -EAGAIN nothing; terminal status. */
static int64_t put_turn(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
{
	uint64_t now_ns = now(b);
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
	if (op->pos == op->len || put_is_full(op))
		op_wait(b, op, now_ns);
	else if (rc == -EAGAIN && !op->timer.pos) /* the link is full: is anybody there? */
		timer_arm(b, op, now_ns);
	return sent || rc == 0 ? sent : -EAGAIN;
}

/* By another method. Return: -EAGAIN, or the status if there is none. */
static int op_begin_again(struct bulk_port *b, struct bulk_op *op)
{
	if (op->is_help) /* who asked does it himself */
		return -EACCES;
	bulk_help_stop(b, op, false);
	tag_renew(b, op);
	op_begin(b, op);
	return -EAGAIN;
}

/* --- CMA -------------------------------------------------------------------------------------- */

static bool target_is_alive(struct bulk_port *b, struct bulk_target *t)
{
	if (b->last_ns - t->alive_ns < ALIVE_NS)
		return true;
	if (!bulk_tab_owner_is_alive(t->tab))
		return false;
	t->alive_ns = b->last_ns;
	return true;
}

/* The kernel refused a copy; -EAGAIN: go on, by frames or later. */
static int cma_failed(struct bulk_port *b, struct bulk_op *op, int rc)
{
	switch (rc) {
	case -ESRCH:
		return -ECONNREFUSED;
	case -EFAULT: /* the region is registered, but its memory is not there (any more) */
		LOG_WARN("region %#x of the peer, or the local buffer, is not mapped", op->key);
		return -EACCES;
	case -EINTR:
	case -ENOMEM:
		return -EAGAIN;
	}
	LOG_INFO("cross memory attach to a process on this host fails: %s; not used for it",
		 strerror(-rc));
	op->target->no_cma = true;
	return op_begin_again(b, op);
}

/* Return: bytes copied; -EAGAIN none; other: the operation's status. */
static int64_t cma_turn(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
{
	struct bulk_target *t = op->target;
	uint64_t len = MIN(op->copy_end - op->pos, turn_len), start_ns = now(b);
	ssize_t n = 0;
	int rc;

	if (!target_is_alive(b, t))
		return -ECONNREFUSED;
	rc = bulk_lease_take(t->tab, t->slot, op->key, op->op, op->raddr, op->len);
	if (rc == -ENOENT) { /* not in the shared table: the owner knows */
		op->no_cma = true;
		return op_begin_again(b, op);
	}
	if (rc)
		return rc;
	if (len)
		n = bulk_cma_copy(shm_peer_pid(op->peer->shm), op->op, op->local + op->pos,
				  op->raddr + op->pos, len);
	if (n > 0 && !op->is_help)
		bulk_lease_note(t->tab, t->slot, op->op, (uint64_t)n);
	rc = bulk_lease_drop(t->tab, t->slot);
	if (n < 0)
		return cma_failed(b, op, (int)n);
	if (rc)
		return rc;
	op->pos += (uint64_t)n;
	b->port->stats.bulk_cma_bytes += (uint64_t)n;
	op->cma_ns += now(b) - start_ns;
	return n;
}

/* The owner does not answer: do what is left by the kernel. */
static void op_switch(struct bulk_port *b, struct bulk_op *op)
{
	if (op->op == LINK_GET) {
		struct bulk_pkt pkt = {.type = BULK_T_STOP, .id = slab_id(&b->ops, op), .tag = op->tag};

		bulk_frame(b, op->peer, &pkt, NULL, 0, NULL); /* spares the owner work; no matter if it fails */
		if (op->state == BULK_ENDED)
			return;
	}
	bulk_busy_leave(op, false, now(b));
	bulk_learn_silence(op);
	if (op->op == LINK_GET) {
		op->pos += op->got_head;
		op->got = op->ask_len = 0;
		tag_renew(b, op);
	}
	op->state = BULK_COPY;
	pq_remove(&b->timers, &op->timer);
	queue_active(b, op);
}

/* Our part is copied, the owner's is not. */
static void help_wait(struct bulk_port *b, struct bulk_op *op)
{
	op->ready_ns = now(b);
	queue_leave(b, op);
	timer_set(b, op, op->ready_ns + SWITCH_NS + (op->len - op->copy_end) / HELP_SLOWEST);
}

/* The owner is silent, or cannot: the rest is ours. */
static void help_failed(struct bulk_port *b, struct bulk_op *op)
{
	bulk_busy_leave(op, false, now(b));
	bulk_help_stop(b, op, false);
	tag_renew(b, op); /* its answer may still come */
	if (op->queue == BULK_Q_NONE)
		queue_active(b, op);
}

static bool on_help_reply(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt)
{
	if (op->is_helped)
		return false;
	if (pkt->status != BULK_S_OK || pkt->bytes != op->len - op->copy_end) {
		help_failed(b, op);
		return true;
	}
	b->port->stats.bulk_cma_bytes += pkt->bytes;
	bulk_help_balance(op, now(b));
	op->is_helped = true;
	bulk_help_stop(b, op, true);
	if (op->pos == op->copy_end)
		op_end(b, op, 0);
	return true;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* Return: bytes moved; -EAGAIN: nothing possible now; other < 0: the operation's status. */
static int64_t op_step(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
{
	switch (op->state) {
	case BULK_ASK:
		return get_ask(b, op);
	case BULK_STREAM:
		return put_turn(b, op, turn_len);
	case BULK_COPY:
		return op->help_key && op->pos == op->copy_end ? 0 : cma_turn(b, op, turn_len);
	case BULK_ASKED:
	case BULK_ENDED:
	case BULK_STATE_NUM:
		break;
	}
	must(0);
	return -EAGAIN;
}

/* One turn of an active operation, and what follows from it. Return: as op_step(). */
static int64_t op_turn(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
{
	int64_t rc = op_step(b, op, turn_len);

	if (rc < 0 && rc != -EAGAIN) {
		op_end(b, op, (int)rc);
		return 0;
	}
	if (rc >= 0 && op->state == BULK_COPY && op->pos == op->copy_end) {
		if (op->help_key && !op->is_helped)
			help_wait(b, op);
		else if (op->op == LINK_GET || op->is_help || op->got == op->sent)
			op_end(b, op, 0);
		else /* frames sent before the change of method are still to be answered */
			op_wait(b, op, now(b));
	}
	if (op->queue == BULK_Q_ACTIVE)
		queue_active(b, op);
	return rc;
}

/* No frame has come since the last poll: nobody waits while the kernel copies a larger piece. */
static bool port_is_quiet(const struct bulk_port *b)
{
	return b->port->stats.rx_frames == b->last_rx;
}

static int ops_step(struct bulk_port *b)
{
	uint64_t work = 0, slice = port_is_quiet(b) ? BULK_SLICE_MAX : BULK_WORK_MAX;
	struct bulk_op *first_blocked = NULL;
	int events = 0, blocked = 0;

	while (work < BULK_WORK_MAX && blocked < BULK_VISIT_MAX) {
		struct bulk_op *op = TAILQ_FIRST(&b->active);
		int64_t rc;

		if (!op || op == first_blocked)
			break;
		rc = op_turn(b, op, op->state == BULK_COPY ? slice : TURN_LEN);
		if (rc == -EAGAIN) {
			if (!blocked++)
				first_blocked = op;
			continue;
		}
		work += (uint64_t)rc;
		events++;
	}
	return events;
}

static void op_ping(struct bulk_port *b, struct bulk_op *op)
{
	struct bulk_pkt pkt = {.type = BULK_T_PING, .id = slab_id(&b->ops, op), .tag = op->tag};
	int rc = bulk_frame(b, op->peer, &pkt, NULL, 0, NULL);

	if (rc && rc != -EAGAIN)
		op_end(b, op, rc);
	else
		timer_set(b, op, now(b) + ping_ns(b));
}

static void on_timer(struct bulk_port *b, struct bulk_op *op)
{
	bool has_more = op->state == BULK_ASKED || (op->state == BULK_STREAM && op->pos < op->len);

	if (op->state == BULK_ENDED) {
		bulk_help_check(b, op);
		if (op->help_key)
			timer_set(b, op, now(b) + SWITCH_NS);
		else if (!op->unsent_cnt)
			queue_ended(b, op);
	} else if (op->help_key) {
		bulk_learn_silence(op);
		help_failed(b, op);
	} else if (op->state == BULK_ASK) { /* the target was busy, or the link full */
		op_begin(b, op);
		queue_active(b, op);
	} else if (op->has_news) {
		timer_arm(b, op, now(b));
	} else if (has_more && bulk_can_cma(b, op)) {
		op_switch(b, op);
	} else {
		/* Whoever only waits has nothing outstanding that would tell the link of the peer's
		 * death. */
		op_ping(b, op);
	}
}

static int timers_step(struct bulk_port *b, uint64_t now_ns)
{
	struct pq_node *node;
	int events = 0;

	while ((node = pq_peek(&b->timers)) && node->key_ns <= now_ns) {
		pq_remove(&b->timers, node);
		on_timer(b, container_of(node, struct bulk_op, timer));
		events++;
	}
	return events;
}

/* Callbacks may begin new operations; they end in a later poll. */
static int ended_step(struct bulk_port *b)
{
	struct bulk_op *last = TAILQ_LAST(&b->ended, bulk_op_list), *op = NULL;
	int events = 0;

	while (last && op != last) {
		op = TAILQ_FIRST(&b->ended);
		op_report(b, op);
		events++;
	}
	return events;
}

int bulk_poll(struct bulk_port *b, uint64_t now_ns)
{
	int events = timers_step(b, now_ns), moved;

	b->last_ns = now_ns;
	moved = bulk_serve_step(b) + ops_step(b);
	b->is_stalled = !moved;
	b->last_rx = b->port->stats.rx_frames;
	return events + moved + ended_step(b);
}

uint64_t bulk_next_deadline(const struct bulk_port *b)
{
	uint64_t at = pq_peek(&b->timers) ? pq_peek(&b->timers)->key_ns : CLK_NEVER;

	if (!TAILQ_EMPTY(&b->ended))
		return 0;
	if (!TAILQ_EMPTY(&b->active) || !bulk_serve_is_idle(b))
		return MIN(at, b->is_stalled ? b->last_ns + STALL_NS : 0);
	return at;
}

uint32_t bulk_outstanding(const struct bulk_port *b)
{
	return slab_used(&b->ops) + slab_used(&b->streams) + b->reply_cnt;
}

/* --- what comes in ---------------------------------------------------------------------------- */

static struct bulk_op *op_find(struct bulk_port *b, const struct link_peer *peer,
			       const struct bulk_pkt *pkt)
{
	struct bulk_op *op = slab_find(&b->ops, pkt->id);

	return op && op->tag == pkt->tag && op->peer == peer && op->state != BULK_ENDED ? op : NULL;
}

/* Return: false if the frame contradicts what was asked for. */
static bool on_data(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt,
		    const struct view *frame)
{
	if (op->state != BULK_ASKED || pkt->off > op->ask_len ||
	    pkt->payload_len > op->ask_len - pkt->off)
		return false;
	view_copy(frame, pkt->hdr_len, op->local + op->pos + pkt->off, pkt->payload_len);
	op->has_news = true;
	op->got += pkt->payload_len;
	if (pkt->off == op->got_head)
		op->got_head += pkt->payload_len;
	count_moved(b, op, pkt->payload_len);
	if (op->got >= op->ask_len)
		op_end(b, op, 0);
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
		op_end(b, op, 0);
		return true;
	case BULK_S_ACCESS:
		op_end(b, op, -EACCES);
		return true;
	case BULK_S_BUSY:
		bulk_busy_leave(op, false, now(b));
		tag_renew(b, op);
		op->state = BULK_ASK;
		timer_set(b, op, now(b) + BUSY_NS);
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
		op_end(b, op, -EACCES);
		return true;
	}
	op->has_news = op->has_reply = true;
	op->got += pkt->bytes;
	if (is_ready)
		queue_active(b, op);
	put_check_end(b, op);
	return true;
}

static bool on_reply(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt)
{
	if (op->help_key)
		return on_help_reply(b, op, pkt);
	return op->op == LINK_GET ? on_get_reply(b, op, pkt) : on_put_reply(b, op, pkt);
}

struct end_arg {
	struct bulk_port *b;
	struct link_peer *peer; /* NULL = every */
	int status;
	uint32_t key; /* bulk_help_region_gone() */
};

static void on_help(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_op *op = NULL;

	if (!bulk_region_check(b->node, pkt->key, LINK_GET, pkt->addr, pkt->len)) {
		bulk_serve_answer(b, peer, pkt, BULK_S_ACCESS, 0);
		return;
	}
	if (!b->port->closing && !peer->dead && !pq_reserve(&b->timers, slab_used(&b->ops) + 1))
		op = slab_get(&b->ops);
	if (!op || !bulk_help_serve(b, op, peer, pkt, now(b))) {
		if (op)
			slab_put(&b->ops, op);
		bulk_serve_answer(b, peer, pkt, BULK_S_BUSY, 0);
		return;
	}
	bulk_peer_ref(peer);
	op->target->op_cnt++;
	b->help_cnt++;
	tag_renew(b, op);
	queue_active(b, op);
}

static void help_end_if(void *obj, void *arg)
{
	struct end_arg *a = arg;
	struct bulk_op *op = obj;

	if (op->is_help && op->src_key == a->key)
		op_end(a->b, op, -EACCES);
}

void bulk_help_region_gone(struct bulk_port *b, uint32_t key)
{
	struct end_arg arg = {.b = b, .key = key};

	if (b->help_cnt)
		slab_foreach(&b->ops, help_end_if, &arg);
}

int bulk_on_frame(struct bulk_port *b, struct link_peer *peer, const struct view *frame)
{
	struct bulk_pkt pkt;
	struct bulk_op *op;
	bool is_ok = true;

	if (bulk_pkt_check(frame, &pkt)) {
		b->port->stats.drop_malformed++;
		return 0;
	}
	/* a raw path may lose and repeat: nothing can be promised on it */
	if (b->port->cls == LINK_RAW && !link_peer_is_local(peer)) {
		b->port->stats.drop_malformed++;
		return 0;
	}
	switch (pkt.type) {
	case BULK_T_GET:
		bulk_serve_get(b, peer, &pkt);
		break;
	case BULK_T_PUT:
		bulk_serve_put(b, peer, &pkt, frame);
		break;
	case BULK_T_STOP:
		bulk_serve_stop(b, peer, &pkt);
		break;
	case BULK_T_DATA: /* late ones find no operation; that is no mistake of the peer */
		op = op_find(b, peer, &pkt);
		is_ok = !op || (op->op == LINK_GET && on_data(b, op, &pkt, frame));
		break;
	case BULK_T_REPLY:
		op = op_find(b, peer, &pkt);
		is_ok = !op || on_reply(b, op, &pkt);
		break;
	case BULK_T_PING:
		break;
	case BULK_T_HELP:
		on_help(b, peer, &pkt);
		break;
	case BULK_T_NUM:
		must(0);
	}
	b->port->stats.drop_malformed += !is_ok;
	return 0;
}

void bulk_on_sent(struct bulk_port *b, void *cookie, int status)
{
	enum bulk_ref *ref = cookie;
	struct bulk_op *op;

	if (!ref) /* a frame whose end is of no interest */
		return;
	if (*ref == BULK_REF_BUF) {
		bulk_serve_on_sent(b, container_of(ref, struct bulk_buf, ref));
		return;
	}
	op = container_of(ref, struct bulk_op, ref);
	op->unsent_cnt--;
	op->has_news = true;
	if (status) /* a refusal can only come from another wire version of ours */
		op_end(b, op, status < 0 ? status : -EPROTO);
	if (op->state == BULK_ENDED && !op->unsent_cnt && op->queue == BULK_Q_NONE)
		queue_ended(b, op);
	else if (op->state == BULK_STREAM && op->pos < op->len && op->queue == BULK_Q_NONE)
		queue_active(b, op);
}


static void op_end_if(void *obj, void *arg)
{
	struct end_arg *a = arg;
	struct bulk_op *op = obj;

	if (!a->peer || op->peer == a->peer)
		op_end(a->b, op, a->status);
}

void bulk_peer_dead(struct bulk_port *b, struct link_peer *peer, int status)
{
	struct end_arg arg = {.b = b, .peer = peer, .status = status};

	slab_foreach(&b->ops, op_end_if, &arg);
	bulk_serve_peer_dead(b, peer);
}

/* --- what goes out ---------------------------------------------------------------------------- */

int link_bulk(struct link_port *p, struct link_peer *peer, int op_kind, void *local, size_t len,
	      uint64_t raddr, uint32_t key, void *cookie)
{
	struct bulk_port *b = p->bulk;
	struct bulk_pkt ping = {.type = BULK_T_PING};
	struct bulk_op *op;
	int rc = peer->dead;

	lock_assert_held(p->node->lock);
	assert(op_kind == LINK_GET || op_kind == LINK_PUT);
	if (!peer->shm_tried) /* the first frame decides the path, and that decides what is possible */
		rc = bulk_frame(b, peer, &ping, NULL, 0, NULL);
	if (rc && rc != -EAGAIN)
		return rc;
	if (p->closing)
		return -ECANCELED;
	if (p->cls == LINK_RAW && !link_peer_is_local(peer))
		return -EOPNOTSUPP;
	if (pq_reserve(&b->timers, slab_used(&b->ops) + 1))
		return -EAGAIN;
	op = slab_get(&b->ops);
	if (!op)
		return -EAGAIN;
	*op = (struct bulk_op){
		.ref = BULK_REF_OP,
		.peer = bulk_peer_ref(peer),
		.op = op_kind,
		.local = local,
		.len = len,
		.raddr = raddr,
		.key = key,
		.cookie = cookie,
	};
	tag_renew(b, op);
	op->target = bulk_target_get(b->node, peer, now(b));
	if (op->target)
		op->target->op_cnt++;
	op_begin(b, op);
	if (op->state == BULK_ENDED) /* asking for help found the peer dead */
		return 0;
	queue_active(b, op);
	if (op->state != BULK_COPY) /* the first frame at once; a kernel copy waits for bulk_poll() */
		op_turn(b, op, 1);
	/* the application computes and the agent sleeps until a deadline that does not know of this */
	if (unlikely(atomic_load_explicit(&p->node->armed, memory_order_relaxed)))
		agent_kick(p->node);
	return 0;
}

/* --- open and close --------------------------------------------------------------------------- */

int bulk_port_open(struct link_port *p, struct bulk_port **out)
{
	struct bulk_port *b = mem_alloc(sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->port = p;
	b->n = p->node;
	b->node = p->node->bulk;
	b->force = -1;
	TAILQ_INIT(&b->active);
	TAILQ_INIT(&b->ended);
	TAILQ_INIT(&b->serving);
	pq_init(&b->timers);
	must(!slab_init(&b->ops, sizeof(struct bulk_op), _Alignof(struct bulk_op), 64, OP_MAX));
	must(!slab_init(&b->streams, sizeof(struct bulk_stream), _Alignof(struct bulk_stream), 16,
			STREAM_MAX));
	must(!slab_init(&b->bufs, sizeof(struct bulk_buf), CACHE_LINE, 16, BUF_MAX));
	*out = b;
	return 0;
}

static void op_abandon(void *obj, void *arg)
{
	struct bulk_port *b = arg;
	struct bulk_op *op = obj;

	if (op->help_key)
		bulk_region_wait_free(b->node, op->help_key);
	op->help_key = 0;
	op->unsent_cnt = 0;
	if (op->queue != BULK_Q_ENDED)
		queue_ended(b, op);
}

void bulk_port_close(struct bulk_port *b)
{
	struct end_arg arg = {.b = b, .status = -ECANCELED};

	if (!b)
		return;
	slab_foreach(&b->ops, op_end_if, &arg);
	slab_foreach(&b->ops, op_abandon,
		     b); /* the paths are closed: nobody reads user memory any more */
	while (!TAILQ_EMPTY(&b->ended))
		op_report(b, TAILQ_FIRST(&b->ended));
	bulk_serve_fini(b);
	pq_fini(&b->timers);
	slab_fini(&b->ops);
	slab_fini(&b->streams);
	slab_fini(&b->bufs);
	mem_free(b);
}
