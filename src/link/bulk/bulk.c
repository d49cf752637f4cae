// SPDX-License-Identifier: BSD-2-Clause
// One-sided copies: the initiator's side, and the port object of the bulk service.
//
// bulk_op.c has the life of one operation and how it is moved. Here operations begin, have turns until all is moved,
// are told of what comes, and are reported: each once, in bulk_poll().
#include "link/bulk/bulk_int.h"

#include <errno.h>
#include <string.h>

#define STALL_NS   (20 * NS_PER_US)  /* before trying a full path again */
#define OP_MAX	   SLAB_MAX_CNT

/* --- the end -------------------------------------------------------------------------------------- */

static void op_report(struct bulk_port *b, struct bulk_op *op)
{
	void *cookie = op->cookie;
	int status = op->status;
	bool is_help = op->is_help;

	bulk_queue_leave(b, op);
	pq_remove(&b->timers, &op->timer);
	if (is_help)
		bulk_help_answer(b, op);
	bulk_op_free(b, op);
	if (!is_help)
		b->port->ops->on_bulk(b->port->ctx, cookie, status);
}

/* --- turns ------------------------------------------------------------------------------------ */

/* One turn of an active operation, and what follows from it. Return: bytes moved; -EAGAIN: nothing possible now. */
static int64_t op_turn(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
{
	int64_t rc = op->state == BULK_RUNS ? op->how->turn(b, op, turn_len) : bulk_op_astray(b, op);

	if (rc < 0 && rc != -EAGAIN) {
		bulk_op_end(b, op, (int)rc);
		return 0;
	}
	if (op->queue == BULK_Q_ACTIVE && (rc == -EAGAIN || op->pos - op->kept_pos >= op->how->keep_len)) {
		op->kept_pos = op->pos;
		bulk_queue_active(b, op);
	}
	return rc;
}

static int ops_step(struct bulk_port *b)
{
	struct bulk_op *first_blocked = NULL;
	int events = 0, blocked = 0;
	uint64_t work = 0;

	while (work < BULK_WORK_MAX && blocked < BULK_VISIT_MAX) {
		struct bulk_op *op = TAILQ_FIRST(&b->active);
		int64_t rc;

		if (!op || op == first_blocked)
			break;
		rc = op_turn(b, op, BULK_SLICE_MAX);
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
	struct bulk_pkt pkt = bulk_pkt_of(b, op, BULK_T_PING);
	int rc = bulk_frame(b, op->peer, &pkt, NULL, 0, NULL);

	if (rc && rc != -EAGAIN)
		bulk_op_end(b, op, rc);
	else
		bulk_timer_set(b, op, bulk_now(b) + bulk_ping_ns(b));
}

static void on_timer(struct bulk_port *b, struct bulk_op *op)
{
	if (op->state != BULK_RUNS)
		bulk_op_leave(b, op);
	else if (op->how->give_up && op->how->give_up(b, op))
		return;
	else if (bulk_op_is_heard(b, op))
		bulk_timer_arm(b, op, bulk_now(b));
	else /* whoever only waits has nothing outstanding that would tell the link of the peer's death */
		op_ping(b, op);
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

__attribute__((noinline)) int bulk_poll(struct bulk_port *b, uint64_t now_ns)
{
	int events, moved;

	if (b->done_cnt)
		bulk_help_tidy(b);
	/* What had run out at the last poll: who has been away for long has not looked for an answer since. */
	events = timers_step(b, b->last_ns);
	b->last_ns = now_ns;
	moved = bulk_serve_step(b) + ops_step(b);
	b->is_stalled = !moved;
	return events + moved + ended_step(b);
}

uint64_t bulk_next_deadline(const struct bulk_port *b)
{
	uint64_t at = pq_peek(&b->timers) ? pq_peek(&b->timers)->key_ns : CLK_NEVER;

	if (!TAILQ_EMPTY(&b->ended))
		return 0;
	if (b->done_cnt)
		at = MIN(at, b->last_ns + STALL_NS);
	if (!TAILQ_EMPTY(&b->active) || !bulk_serve_is_idle(b))
		return MIN(at, b->is_stalled ? b->last_ns + STALL_NS : 0);
	return at;
}

uint32_t bulk_outstanding(const struct bulk_port *b)
{
	return slab_used(&b->ops) + slab_used(&b->streams) + slab_used(&b->replies) + b->done_cnt;
}

/* --- what comes in ---------------------------------------------------------------------------- */

static struct bulk_op *op_find(struct bulk_port *b, const struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_op *op;

	if (pkt->type == BULK_T_AHEAD || pkt->status == BULK_S_WITHDRAWN) /* the peer has named it */
		return bulk_offer_find(b, peer, pkt);
	op = slab_find(&b->ops, pkt->id);
	return op && op->tag == pkt->tag && op->peer == peer && op->state == BULK_RUNS ? op : NULL;
}

struct end_arg {
	struct bulk_port *b;
	struct link_peer *peer; /* NULL = every */
	int status;
};

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
	if (b->port->cls == LINK_RAW && !peer->shm) {
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
	case BULK_T_AHEAD:
	case BULK_T_REPLY:
		op = op_find(b, peer, &pkt);
		is_ok = !op || op->how->reply(b, op, &pkt, frame);
		break;
	case BULK_T_OFFER:
		bulk_offer_come(b, peer, &pkt);
		break;
	case BULK_T_PING:
		break;
	case BULK_T_HELP:
		bulk_help_on_request(b, peer, &pkt);
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
		bulk_op_end(b, op, status < 0 ? status : -EPROTO);
	if (op->state == BULK_RUNS)
		bulk_op_resume(b, op);
	else if (op->state == BULK_ENDED && !op->unsent_cnt && op->queue == BULK_Q_NONE)
		bulk_queue_ended(b, op);
}

static void op_end_if(void *obj, void *arg)
{
	struct end_arg *a = arg;
	struct bulk_op *op = obj;

	if (!a->peer || op->peer == a->peer)
		bulk_op_end(a->b, op, a->status);
}

void bulk_peer_dead(struct bulk_port *b, struct link_peer *peer, int status)
{
	struct end_arg arg = {.b = b, .peer = peer, .status = status};

	slab_foreach(&b->ops, op_end_if, &arg);
	bulk_offer_forget(b, peer);
	bulk_serve_peer_dead(b, peer);
	peer->written = 0;
}

/* --- what goes out ---------------------------------------------------------------------------- */

int link_bulk(struct link_port *p, struct link_peer *peer, int op_kind, void *local, size_t len, uint64_t raddr,
	      uint32_t key, void *cookie)
{
	struct bulk_port *b = p->bulk;
	struct bulk_pkt ping = {.type = BULK_T_PING};
	struct bulk_op *op;
	uint64_t now_ns;
	int rc = peer->dead;

	lock_assert_held(p->node->lock);
	assert(op_kind == LINK_GET || op_kind == LINK_PUT);
	if (!peer->shm_tried) /* the first frame decides the path, and that decides what is possible */
		rc = bulk_frame(b, peer, &ping, NULL, 0, NULL);
	if (rc && rc != -EAGAIN)
		return rc;
	if (p->closing)
		return -ECANCELED;
	if (p->cls == LINK_RAW && !peer->shm)
		return -EOPNOTSUPP;
	/* of two lives of one peer the first has closed: the second is meant, which the next poll makes way for */
	if (p->nonces_repeat && peer->shm && shm_peer_is_over(peer->shm))
		return -EAGAIN;
	now_ns = bulk_now(b);
	op = bulk_op_new(b, peer, now_ns);
	if (!op)
		return -EAGAIN;
	op->op = op_kind;
	op->local = local;
	op->len = len;
	op->raddr = raddr;
	op->key = key;
	op->cookie = cookie;
	bulk_op_begin(b, op, now_ns);
	if (op->state == BULK_ENDED) /* asking for help found the peer dead */
		return 0;
	/*
	 * The first frame at once, or over the network a whole turn: what that does not hold waits for an answer.
	 * A kernel copy waits for bulk_poll(), and what comes unasked needs nothing.
	 */
	if (!op->how->keep_len && op->queue == BULK_Q_ACTIVE)
		op_turn(b, op, peer->shm ? 1 : UINT64_MAX);
	/* the application computes and the agent sleeps until a deadline that does not know of this */
	if (unlikely(atomic_load_explicit(&p->node->armed, memory_order_relaxed)))
		agent_kick(p->node);
	return 0;
}

struct stop_arg {
	struct bulk_port *b;
	const void *cookie;
	bool is_in_use;
};

static void op_stop_if(void *obj, void *arg)
{
	struct stop_arg *a = arg;
	struct bulk_op *op = obj;

	if (op->is_help || op->cookie != a->cookie)
		return;
	bulk_op_end(a->b, op, -EFAULT); /* nothing new if it has ended */
	/* its owner may be at it, perhaps since before the end; the timer that bulk_op_end() has set finds it free */
	if (op->help_key && !op->how->stop(a->b, op))
		a->is_in_use = true;
}

bool link_bulk_stop(struct link_port *p, const void *cookie)
{
	struct stop_arg arg = {.b = p->bulk, .cookie = cookie};

	lock_assert_held(p->node->lock);
	slab_foreach(&p->bulk->ops, op_stop_if, &arg);
	return !arg.is_in_use;
}

static const struct bulk_method *const method_of[BULK_WAY_NUM] = {
	[BULK_FRAMES] = &bulk_frames_method,
	[BULK_CMA] = &bulk_cma_method,
	[BULK_HELPED] = &bulk_help_method,
};

/* Nothing of region @key is read any more, for whomever. */
static void region_gone(struct bulk_port *b, uint32_t key)
{
	bulk_help_region_gone(b, key);
	bulk_serve_region_gone(b, key);
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
	b->methods = method_of;
	b->region_gone = region_gone;
	b->next_tag = 0u - 64; /* wrapping is nothing special */
	TAILQ_INIT(&b->active);
	TAILQ_INIT(&b->ended);
	bulk_serve_init(b);
	pq_init(&b->timers);
	must(!slab_init(&b->ops, sizeof(struct bulk_op), _Alignof(struct bulk_op), 64, OP_MAX));
	must(!slab_init(&b->streams, sizeof(struct bulk_stream), _Alignof(struct bulk_stream), 16, 0));
	must(!slab_init(&b->bufs, sizeof(struct bulk_buf), CACHE_LINE, 16, 0));
	must(!slab_init(&b->replies, sizeof(struct bulk_reply), _Alignof(struct bulk_reply), 16, 0));
	must(!slab_init(&b->client_slab, sizeof(struct bulk_client), _Alignof(struct bulk_client), 16, 0));
	must(!slab_init(&b->turns_slab, sizeof(struct bulk_turns), _Alignof(struct bulk_turns), 16, 0));
	*out = b;
	return 0;
}

static void op_abandon(void *obj, void *arg)
{
	struct bulk_port *b = arg;
	struct bulk_op *op = obj;

	bulk_help_take_back(b, op);
	op->unsent_cnt = 0;
	if (op->queue != BULK_Q_ENDED)
		bulk_queue_ended(b, op);
}

void bulk_port_close(struct bulk_port *b)
{
	struct end_arg arg = {.b = b, .status = -ECANCELED};

	if (!b)
		return;
	slab_foreach(&b->ops, op_end_if, &arg);
	slab_foreach(&b->ops, op_abandon, b); /* the paths are closed: nobody reads user memory any more */
	bulk_offer_forget(b, NULL);
	bulk_help_fini(b);
	while (!TAILQ_EMPTY(&b->ended))
		op_report(b, TAILQ_FIRST(&b->ended));
	bulk_serve_fini(b);
	pq_fini(&b->timers);
	slab_fini(&b->ops);
	slab_fini(&b->streams);
	slab_fini(&b->bufs);
	slab_fini(&b->replies);
	slab_fini(&b->client_slab);
	slab_fini(&b->turns_slab);
	mem_free(b);
}
