// SPDX-License-Identifier: BSD-2-Clause
// One-sided copies: the initiator's side, and the port object of the bulk service.
//
// Theory of operation: an operation gets a method (struct bulk_method), has turns until all is moved, and ends. It may
// change its method once it sees that another is better. FRAMES asks the target's owner to take part: it works over
// every path (bulk_frames.c). CMA lets the kernel copy, alone, under a lease on the region (bulk_cma.c, bulk_tab.c);
// HELPED is the same by initiator and owner at once, each a part (bulk_help.c). A local owner that computes instead of
// polling is noticed before (it says so in its segment) or by its silence, and CMA does the rest. Which is fastest to a
// polling owner depends on how far apart the cores are and on much else, hence it is measured (bulk_pick.c). Kernel
// copies end in the order in which they began; long ones and frames take turns.
//
// Every operation ends exactly once, in bulk_poll(), after the link has given back each frame that points into user
// memory, and its method has let go of it.
#include "link/bulk/bulk_int.h"

#include <errno.h>
#include <string.h>

#define PING_NS	   NS_PER_SEC /* silence after which the link is asked whether the peer lives */
#define STALL_NS   (20 * NS_PER_US)  /* before trying a full path again */
#define OP_MAX	   (1u << 20)

/* --- queues and timers ------------------------------------------------------------------------ */

void bulk_queue_leave(struct bulk_port *b, struct bulk_op *op)
{
	if (op->queue == BULK_Q_ACTIVE)
		TAILQ_REMOVE(&b->active, op, entry);
	else if (op->queue == BULK_Q_ENDED)
		TAILQ_REMOVE(&b->ended, op, entry);
	op->queue = BULK_Q_NONE;
}

void bulk_queue_active(struct bulk_port *b, struct bulk_op *op)
{
	bulk_queue_leave(b, op);
	TAILQ_INSERT_TAIL(&b->active, op, entry);
	op->queue = BULK_Q_ACTIVE;
}

static void queue_ended(struct bulk_port *b, struct bulk_op *op)
{
	bulk_queue_leave(b, op);
	TAILQ_INSERT_TAIL(&b->ended, op, entry);
	op->queue = BULK_Q_ENDED;
}

void bulk_timer_set(struct bulk_port *b, struct bulk_op *op, uint64_t at_ns)
{
	if (op->timer.pos) {
		pq_update(&b->timers, &op->timer, at_ns);
		return;
	}
	op->timer.key_ns = at_ns;
	must(!pq_push(&b->timers, &op->timer)); /* link_bulk() has reserved the room */
}

/* --- the life of an operation ------------------------------------------------------------------ */

static const struct bulk_method *const method_of[BULK_WAY_NUM] = {
	[BULK_FRAMES] = &bulk_frames_method,
	[BULK_CMA] = &bulk_cma_method,
	[BULK_HELPED] = &bulk_help_method,
};

struct bulk_op *bulk_op_new(struct bulk_port *b, struct link_peer *peer, uint64_t now_ns)
{
	struct bulk_op *op;

	if (pq_reserve(&b->timers, slab_used(&b->ops) + 1) || !(op = slab_get(&b->ops)))
		return NULL;
	*op = (struct bulk_op){.ref = BULK_REF_OP, .peer = bulk_peer_ref(peer)};
	bulk_tag_renew(b, op);
	op->target = bulk_target_get(b->node, peer, now_ns);
	if (op->target)
		op->target->op_cnt++;
	return op;
}

void bulk_op_free(struct bulk_port *b, struct bulk_op *op)
{
	struct link_peer *peer = op->peer;

	if (op->target)
		op->target->op_cnt--;
	slab_put(&b->ops, op);
	link_peer_put(peer);
}

void bulk_op_begin(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	op->state = BULK_RUNS;
	op->way = bulk_pick(b, op, now_ns);
	op->how = method_of[op->way];
	op->copy_end = op->len;
	op->has_rest = op->wants_help = false;
	bulk_queue_active(b, op);
	op->how->start(b, op, now_ns);
}

/* @op is not moved by its method any more: what follows begins when that has let go of its memory. */
static void op_leave(struct bulk_port *b, struct bulk_op *op)
{
	if (op->how->stop && !op->how->stop(b, op))
		bulk_timer_set(b, op, bulk_now(b) + BULK_SWITCH_NS);
	else if (op->state == BULK_CHANGES)
		bulk_op_begin(b, op, bulk_now(b));
	else if (!op->unsent_cnt)
		queue_ended(b, op);
}

void bulk_tag_renew(struct bulk_port *b, struct bulk_op *op)
{
	op->tag = ++b->next_tag;
}

void bulk_op_end(struct bulk_port *b, struct bulk_op *op, int status)
{
	struct link_stats *st = &b->port->stats;
	bool is_copied = op->way == BULK_CMA && op->copied_ns;

	if (op->state == BULK_ENDED)
		return;
	op->state = BULK_ENDED;
	op->status = status;
	bulk_tag_renew(b, op);
	pq_remove(&b->timers, &op->timer);
	bulk_queue_leave(b, op);
	if (op->counts_busy) /* reading the clock costs more than most of this */
		bulk_busy_leave(op, !status, is_copied ? op->copied_ns : bulk_now(b));
	if (op->target)
		op->target->op_cnt--;
	b->help_cnt -= op->is_help;
	if (!status && op->op == LINK_GET)
		st->bulk_get_bytes += op->len;
	else if (!status && op->is_help)
		b->node->get_served += op->len;
	else if (!status)
		st->bulk_put_bytes += op->len;
	op_leave(b, op);
	op->target = NULL;
}

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

/* --- waiting, and another way ------------------------------------------------------------------ */

/* Soon enough that the link can find the peer dead within its time. */
static uint64_t ping_ns(const struct bulk_port *b)
{
	return MIN(PING_NS, MAX(b->n->room->dead_after_ns / 4, NS_PER_MS));
}

void bulk_timer_arm(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	op->has_news = false;
	bulk_timer_set(b, op, now_ns + (bulk_can_cma(b, op) ? BULK_SWITCH_NS : ping_ns(b)));
}

void bulk_op_wait(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	bulk_queue_leave(b, op);
	bulk_timer_arm(b, op, now_ns);
}

void bulk_op_resume(struct bulk_port *b, struct bulk_op *op)
{
	if (op->pos < op->len && op->queue == BULK_Q_NONE)
		bulk_queue_active(b, op);
}

/* Of many operations each waits for its turn with the owner: that is not silence. */
bool bulk_op_is_heard(const struct bulk_port *b, const struct bulk_op *op)
{
	return op->has_news || (op->target && bulk_now(b) - op->target->heard_ns < BULK_SWITCH_NS);
}

/* Answers to a PUT count whatever has moved it since; what else was asked for is not wanted any more. */
int bulk_op_again(struct bulk_port *b, struct bulk_op *op)
{
	if (op->is_help) /* the peer that asked does it by itself */
		return -EACCES;
	if (op->op == LINK_GET)
		bulk_tag_renew(b, op);
	bulk_busy_leave(op, false, bulk_now(b));
	bulk_queue_leave(b, op);
	op->state = BULK_CHANGES;
	op_leave(b, op);
	return -EAGAIN;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* If what a peer wrote into shared memory led here, that costs it its pair, and nobody else anything. */
int bulk_op_astray(struct bulk_port *b, struct bulk_op *op)
{
	LOG_WARN("one-sided operation of state %d had a turn; its peer is dropped", op->state);
	bulk_queue_leave(b, op);
	if (op->state == BULK_ENDED && !op->unsent_cnt)
		queue_ended(b, op);
	if (!op->peer->dead)
		op->peer->port->up->dead(op->peer, -EPROTO);
	return -EPROTO;
}

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
	/* no frame has come since the last poll: nobody waits while the kernel copies a larger piece */
	bool is_quiet = b->port->stats.rx_frames == b->last_rx;
	uint64_t work = 0, slice = is_quiet ? BULK_SLICE_MAX : BULK_WORK_MAX;
	struct bulk_op *first_blocked = NULL;
	int events = 0, blocked = 0;

	while (work < BULK_WORK_MAX && blocked < BULK_VISIT_MAX) {
		struct bulk_op *op = TAILQ_FIRST(&b->active);
		int64_t rc;

		if (!op || op == first_blocked)
			break;
		rc = op_turn(b, op, slice);
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
		bulk_timer_set(b, op, bulk_now(b) + ping_ns(b));
}

static void on_timer(struct bulk_port *b, struct bulk_op *op)
{
	if (op->state != BULK_RUNS)
		op_leave(b, op);
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

int bulk_poll(struct bulk_port *b, uint64_t now_ns)
{
	int events, moved;

	if (b->done_cnt)
		bulk_help_tidy(b);
	events = timers_step(b, now_ns);
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
	struct bulk_op *op = slab_find(&b->ops, pkt->id);

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
	case BULK_T_REPLY:
		op = op_find(b, peer, &pkt);
		is_ok = !op || op->how->reply(b, op, &pkt, frame);
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
		queue_ended(b, op);
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
	bulk_serve_peer_dead(b, peer);
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
	if (p->cls == LINK_RAW && !link_peer_is_local(peer))
		return -EOPNOTSUPP;
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
	if (!op->how->keep_len) /* the first frame at once; a kernel copy waits for bulk_poll() */
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
		queue_ended(b, op);
}

void bulk_port_close(struct bulk_port *b)
{
	struct end_arg arg = {.b = b, .status = -ECANCELED};

	if (!b)
		return;
	slab_foreach(&b->ops, op_end_if, &arg);
	slab_foreach(&b->ops, op_abandon, b); /* the paths are closed: nobody reads user memory any more */
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
