// SPDX-License-Identifier: BSD-2-Clause
// Life of flows: begin, watch, end; the endpoint's pools and timers.
#include "prov/opx/flow/opx_flow.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/opx/flow/opx_flow_int.h"

#define LIFE_DIV   8  /* PINGs for life in the time after which a peer counts as dead */
#define LAZY_CALLS 16 /* calls of progress between looks at the clock while nothing is urgent */

/* --- kept packets ------------------------------------------------------------------------------------------------- */

static int pools_init(struct opx_rel *rel)
{
	static const struct {
		uint32_t len, chunk;
	} size[OPX_REP_NUM] = {
		[OPX_REP_SMALL] = {OPX_COPY_SMALL, 64},
		[OPX_REP_BIG] = {HFI_MTU, 16},
		[OPX_REP_REF] = {HFI_IOV_MAX * sizeof(struct iovec), 256},
	};

	for (int i = 0; i < OPX_REP_NUM; i++) {
		int rc = slab_init(&rel->pool[i], sizeof(struct opx_replay) + size[i].len, 16, size[i].chunk, 0);

		if (rc)
			return rc;
	}
	return 0;
}

struct opx_replay *opx_replay_new(struct opx_rel *rel, uint32_t len, bool is_ref)
{
	enum opx_replay_kind kind = is_ref ? OPX_REP_REF : len <= OPX_COPY_SMALL ? OPX_REP_SMALL : OPX_REP_BIG;
	struct opx_replay *r = slab_get(&rel->pool[kind]);

	if (!r)
		return NULL;
	r->op = NULL;
	r->len = len;
	r->serial = 0;
	r->sdma_seq = 0;
	r->kind = kind;
	r->iov_cnt = 0;
	r->is_again = r->wants_again = false;
	return r;
}

void opx_replay_free(struct opx_rel *rel, struct opx_replay *r)
{
	slab_put(&rel->pool[r->kind], r);
}

/* --- one flow ----------------------------------------------------------------------------------------------------- */

/* As new, but for a stream that its peer has announced, and for what its owner waits for. */
static void flow_reset(struct opx_flow *f)
{
	struct opx_rel *rel = f->rel;

	hfi_dst_hdr(f->dst, &f->hdr);
	f->hdr.opcode = 0;
	f->state = OPX_FLOW_NEW;
	f->doom = OPX_OK;
	f->said_bye = false;
	f->tx_key = 0;
	f->tx_psn = f->tx_una = f->pass = 0;
	f->is_local = f->is_armed = f->is_keyed = false;
	f->rx_key = f->rx_cookie = f->rx_key_offer = 0;
	f->rx_psn = f->rx_next = OPX_PSN_NONE;
	f->ack_mask = rel->pre_ack_mask;
	f->owes_ack = f->rx_wrapped = false;
	STAILQ_INIT(&f->queue);
	f->unsent = NULL;
	f->bytes_out = 0;
	f->seen_cnt = OPX_LOSS_MEMORY / 4; /* good until proved bad */
	f->lost_cnt = 0;
	f->ask_ns = 0;
	f->ask_last = OPX_PSN_NONE;
	f->srtt_ns = f->rttvar_ns = 0;
	f->cwnd = OPX_CWND_FIRST;
	f->ssthresh = OPX_WINDOW_BYTES;
	f->recover = 0;
	f->resends = f->serial = f->again = f->fruitless = f->ping_una = 0;
	f->is_answered = true;
	f->asks = false;
	f->hurries = 0;
	f->cookie = f->peer_epoch = 0;
	if (f->rx_key_next)
		return;
	f->epoch = f->tx_key_next = 0;
	f->owes_init_ack = false;
}

void opx_flow_init(struct opx_flow *f, struct opx_rel *rel, struct hfi_dst *dst)
{
	memset(f, 0, sizeof(*f));
	f->rel = rel;
	f->dst = dst;
	hfi_dst_hold(dst);
	hfi_dst_set_user(dst, f);
	STAILQ_INIT(&f->ahead);
	STAILQ_INIT(&f->held);
	flow_reset(f);
	LIST_INSERT_HEAD(&rel->all, f, all);
}

void opx_flow_fini(struct opx_flow *f)
{
	struct opx_rel *rel = f->rel;

	opx_flow_retire(rel, &f->queue, false);
	opx_flow_ahead_drop(f);
	opx_flow_held_drop(f);
	opx_sdma_forget(rel, f);
	if (f->is_listed)
		LIST_REMOVE(f, active);
	LIST_REMOVE(f, all);
	hfi_dst_set_user(f->dst, NULL);
	hfi_dst_put(f->dst);
	f->dst = NULL;
}

void opx_flow_attend(struct opx_flow *f)
{
	struct opx_rel *rel = f->rel;

	if (!f->is_listed) {
		LIST_INSERT_HEAD(&rel->active, f, active);
		f->is_listed = true;
		f->is_armed = false;
	}
	rel->next_ns = 0;
}

void opx_flow_want(struct opx_flow *f)
{
	if (f->wants_room && f->is_listed)
		return;
	f->wants_room = true;
	opx_flow_attend(f);
}

void opx_flow_wait(struct opx_flow *f, int delta)
{
	f->waits += (uint32_t)delta;
	if (f->waits && !f->is_listed)
		opx_flow_attend(f);
}

void opx_flow_doom(struct opx_flow *f, enum opx_status why)
{
	if (!f->doom)
		f->doom = (uint8_t)why;
	opx_flow_look(f);
	opx_flow_attend(f);
}

/* Is there anything that its owner must be told to have ended? */
static bool is_begun(const struct opx_flow *f)
{
	return f->state != OPX_FLOW_NEW || f->rx_key || f->waits || f->wants_room || !STAILQ_EMPTY(&f->queue);
}

int opx_flow_refused(struct opx_flow *f, int rc)
{
	if (rc == -FI_ECONNREFUSED)
		opx_flow_doom(f, OPX_ST_PEER_GONE);
	else if (rc == -FI_EHOSTUNREACH || rc == -FI_ENETUNREACH)
		opx_flow_doom(f, OPX_ST_UNREACH);
	return rc;
}

void opx_flow_end(struct opx_flow *f, enum opx_status why)
{
	struct opx_rel *rel = f->rel;
	struct opx_replay_q q = STAILQ_HEAD_INITIALIZER(q);
	bool has_closed = f->said_bye && why == OPX_ST_PEER_GONE;

	STAILQ_CONCAT(&q, &f->queue);
	opx_flow_ahead_drop(f);
	opx_sdma_forget(rel, f);
	flow_reset(f);
	f->wants_room = false; /* dead() says more */
	*(has_closed ? &rel->st.peers_closed : &rel->st.peers_dead) += 1;
	/* in this order: what was never acknowledged must not look like a success */
	rel->a.ops->dead(rel->a.ctx, f, why);
	opx_flow_retire(rel, &q, true);
}

/* --- handshake ------------------------------------------------------------------------------------------- */

uint64_t opx_flow_epoch(struct opx_flow *f)
{
	if (!f->epoch)
		f->epoch = hfi_random(f->rel->a.hfi) | 1;
	return f->epoch;
}

/* The stream out may use @key. */
static void tx_open(struct opx_flow *f, uint64_t key)
{
	f->state = OPX_FLOW_OPEN;
	f->tx_key = key;
	f->hdr.key = le64_put(key);
	f->fruitless = 0;
	f->is_armed = false;
	opx_flow_look(f);
	opx_flow_attend(f);
}

/* Return: as hfi_pio_send(). */
static int init_send(struct opx_flow *f)
{
	int rc = opx_ud_init(f);

	if (!rc && f->is_keyed)
		tx_open(f, f->cookie);
	return rc;
}

/* Whom is it sent to, and on what terms? Return: as hfi_dst_connect(). */
static int init_prepare(struct opx_flow *f)
{
	int rc = hfi_dst_connect(f->dst);

	if (rc)
		return rc;
	f->is_local = hfi_dst_is_local(f->dst);
	f->is_keyed = f->is_local && hfi_dst_admits(f->dst);
	f->cookie = hfi_random(f->rel->a.hfi) | 1;
	f->rx_key_offer = f->is_keyed || f->rx_key ? 0 : hfi_random(f->rel->a.hfi) | 1;
	return 0;
}

int opx_flow_open(struct opx_flow *f)
{
	int rc = 0;

	if (f->doom)
		return -opx_err_of((enum opx_status)f->doom);
	if (f->state == OPX_FLOW_OPEN)
		return 0;
	if (f->state == OPX_FLOW_INIT && !f->is_keyed) {
		opx_flow_want(f);
		return -FI_EAGAIN;
	}
	if (f->state == OPX_FLOW_NEW) {
		rc = init_prepare(f);
		/* with who was there before: the next one is meant, when that is done */
		if (f->doom || rc == -FI_EAGAIN)
			return -FI_EAGAIN;
	}
	if (!rc)
		rc = init_send(f);
	if (f->state == OPX_FLOW_OPEN || (rc && rc != -FI_EAGAIN))
		return rc;
	f->state = OPX_FLOW_INIT;
	opx_flow_want(f);
	f->is_armed = false;
	f->rel->next_ns = 0;
	return -FI_EAGAIN;
}

void opx_flow_opened(struct opx_flow *f, uint64_t key, uint64_t epoch)
{
	if (f->peer_epoch && f->peer_epoch != epoch) { /* who sends to us is gone; who has answered is another */
		opx_flow_doom(f, OPX_ST_PEER_REPLACED);
		return;
	}
	f->peer_epoch = epoch;
	if (f->state != OPX_FLOW_OPEN)
		tx_open(f, key);
}

/* The stream in has @key. */
static void rx_open(struct opx_flow *f, uint64_t key)
{
	f->rx_key = key;
	f->rx_key_offer = 0;
	f->rx_psn = 0;
	opx_flow_rx_look(f);
	f->rx_wrapped = false;
	f->ack_mask = hfi_dst_is_local(f->dst) ? OPX_WINDOW_LOCAL / 4 - 1 : f->rel->pre_ack_mask;
}

/*
 * With the key that we offered: our INIT_ACK has told who that is. An INIT of that peer which crossed ours has become
 * meaningless.
 */
static void begin_offered(struct opx_flow *f)
{
	rx_open(f, f->rx_key_offer);
	if (!f->rx_key_next || f->epoch_next != f->peer_epoch)
		return;
	f->rx_cookie = f->rx_cookie_next;
	f->rx_key_next = f->tx_key_next = 0;
}

/*
 * With the key that we gave in an INIT_ACK. The peer that has it offered one, which opens our stream to it if nothing
 * else has.
 */
static void begin_announced(struct opx_flow *f)
{
	rx_open(f, f->rx_key_next);
	f->rx_cookie = f->rx_cookie_next;
	f->peer_epoch = f->epoch_next;
	f->peer_addr = f->addr_next;
	if (f->state != OPX_FLOW_OPEN && f->tx_key_next && !hfi_dst_connect(f->dst)) {
		f->is_local = hfi_dst_is_local(f->dst);
		f->cookie = 0; /* of an INIT of ours: its answer comes too late */
		f->is_keyed = false;
		tx_open(f, f->tx_key_next);
	}
	f->rx_key_next = f->tx_key_next = 0;
}

bool opx_flow_begin_rx(struct opx_flow *f, uint64_t key)
{
	if (key != f->rx_key_next) {
		begin_offered(f);
		return true;
	}
	if (f->rx_key || f->doom || (f->peer_epoch && f->peer_epoch != f->epoch_next)) {
		opx_sdma_reap(f->rel);
		if (opx_sdma_oldest(f->rel, f)) { /* it cannot end now: what SDMA still reads must stay what it is */
			opx_flow_doom(f, OPX_ST_PEER_REPLACED);
			return false;
		}
		opx_flow_end(f, f->doom ? (enum opx_status)f->doom : OPX_ST_PEER_REPLACED);
	}
	begin_announced(f);
	opx_flow_held_take(f);
	return true;
}

/* --- progress ----------------------------------------------------------------------------------------------------- */

/* The next time at which nothing having come must be noticed. */
static uint64_t period_ns(const struct opx_flow *f)
{
	const struct opx_rel *rel = f->rel;
	uint32_t n = f->fruitless;
	uint64_t ns;

	if (f->state == OPX_FLOW_INIT)
		return OPX_INIT_NS << MIN(n, (uint32_t)OPX_INIT_SHIFT);
	if (f->is_local || f->tx_una == flow_sent_psn(f))
		return rel->life_ns;
	if (n <= OPX_PING_FREE)
		return rel->ping_ns;
	ns = rel->ping_ns << MIN(n - OPX_PING_FREE, (uint32_t)OPX_PING_SHIFT);
	return MAX(rel->ping_ns, MIN(ns, (uint64_t)OPX_PING_MAX_NS));
}

/* Does anything depend on the peer's being there? */
static bool is_watched(const struct opx_flow *f)
{
	return f->state == OPX_FLOW_INIT || f->waits || f->wants_room || f->unsent ||
	       (!f->is_local && f->tx_una != f->tx_psn);
}

static void arm(struct opx_flow *f, uint64_t now)
{
	f->is_armed = true;
	f->heard = false;
	f->heard_ns = f->ran_ns = now;
	f->fruitless = 0;
	f->ping_una = f->tx_una;
	f->ping_ns = now + period_ns(f);
}

/* Nothing has come for dead_after. */
static void flow_silent(struct opx_flow *f)
{
	static const char unanswered[] = "no answer to our first packet (another user, FI_OPX_UUID or P_Key gets none)";
	struct opx_rel *rel = f->rel;

	if (!f->is_local && !hfi_port_is_up(rel->a.hfi)) { /* shared memory passes no port */
		opx_flow_doom(f, OPX_ST_NET_DOWN);
		return;
	}
	LOG_FEW(LOG_LVL_WARN, rel->silent_said, "LID %u: %s for %u ms; what was meant for it ends with FI_ETIMEDOUT",
		hfi_dst_lid(f->dst), f->state == OPX_FLOW_INIT ? unanswered : "not a packet",
		(unsigned)(rel->dead_ns / NS_PER_MS));
	opx_flow_doom(f, OPX_ST_PEER_SILENT);
}

/* Its period is over. Return: it stays on the list. */
static bool flow_timer(struct opx_flow *f, uint64_t now)
{
	struct opx_rel *rel = f->rel;

	if (!is_watched(f))
		return false;
	if (now - f->ran_ns > 2 * rel->life_ns) /* nobody called for progress, so that nobody asked the peer anything */
		f->heard_ns += now - f->ran_ns;
	f->ran_ns = now;
	if (f->heard)
		f->heard_ns = now;
	f->heard = false;
	if (f->state == OPX_FLOW_NEW) { /* waits for somebody to whom nothing was ever sent: get a key to ask with */
		f->heard_ns = now;
		opx_flow_refused(f, opx_flow_open(f));
	} else if (now > f->heard_ns && now - f->heard_ns >= rel->dead_ns) {
		flow_silent(f);
		return true;
	} else if (f->state == OPX_FLOW_INIT) {
		f->fruitless++;
		opx_flow_refused(f, init_send(f));
	} else if (f->is_local || f->ping_una == f->tx_una) {
		f->fruitless++;
		opx_flow_refused(f, opx_ud_ping(f));
	}
	f->ping_una = f->tx_una;
	f->ping_ns = now + period_ns(f);
	return true;
}

/* Tell the owner that it may try again. Return: it did not get what it wants: look again soon. */
static bool flow_room(struct opx_flow *f)
{
	struct opx_rel *rel = f->rel;

	if (!f->wants_room)
		return false;
	if (!opx_flow_may_post(f)) {
		rel->wants_pool = true;
		return opx_sdma_oldest(rel, f);
	}
	f->wants_room = false;
	rel->a.ops->room(rel->a.ctx, f);
	return f->wants_room && opx_flow_may_post(f);
}

/* Return: when to look at it again; 0: it leaves the list. */
static uint64_t flow_run(struct opx_flow *f, uint64_t now, int *events)
{
	bool is_soon = false;

	if (f->doom) {
		/* what SDMA still reads must stay what it is */
		if (opx_sdma_oldest(f->rel, f))
			return now + OPX_RETRY_NS;
		opx_flow_end(f, (enum opx_status)f->doom);
		opx_flow_held_take(f);
		++*events;
		return now;
	}
	/* the acknowledgement may have gone with an answer meanwhile */
	if (f->owes_ack || opx_flow_ahead_is_due(f)) {
		opx_flow_ahead_take(f);
		is_soon = f->owes_ack;
	}
	if (f->owes_init_ack) {
		opx_ud_init_ack(f);
		is_soon |= f->owes_init_ack;
	}
	if (f->state == OPX_FLOW_OPEN) {
		*events += opx_flow_push(f);
		if (flow_room(f) || opx_flow_is_stuck(f))
			is_soon = true;
	}
	if (now >= opx_flow_due_ns(f)) { /* the question is lost, or its answer is */
		f->hurries++;
		f->asks = true;
	}
	if (f->asks) {
		f->asks = false;
		opx_flow_refused(f, opx_ud_ping(f));
	}
	if (!f->is_armed) {
		arm(f, now);
	} else if (now >= f->ping_ns) {
		if (!flow_timer(f, now))
			return is_soon ? now + OPX_RETRY_NS : 0;
		++*events;
	} else if (f->ping_ns - now > period_ns(f)) { /* more has become urgent since */
		f->ping_ns = now + period_ns(f);
	}
	if (f->doom)
		return now;
	return MIN(MIN(f->ping_ns, opx_flow_due_ns(f)), is_soon ? now + OPX_RETRY_NS : CLK_NEVER);
}

static int run_all(struct opx_rel *rel, uint64_t now)
{
	uint64_t next = CLK_NEVER;
	struct opx_flow *f, *tmp;
	int events = 0;

	if (rel->is_running) /* in another thread, which has let go of the lock and goes on with its list */
		return 0;
	rel->is_running = true;
	if (rel->sdma_used)
		opx_sdma_reap(rel);
	rel->wants_pool = false;
	rel->next_ns = CLK_NEVER;
	LIST_FOREACH_SAFE(f, &rel->active, active, tmp)
	{
		uint64_t at = flow_run(f, now, &events);

		if (at) {
			next = MIN(next, at);
			continue;
		}
		LIST_REMOVE(f, active);
		f->is_listed = false;
	}
	/* whoever asked for attention meanwhile has set it to 0 */
	rel->next_ns = MIN(rel->next_ns, next);
	rel->is_coarse = rel->next_ns != CLK_NEVER && rel->next_ns > now + rel->life_ns / 2;
	rel->is_running = false;
	return events;
}

/* Something is due, now or later. */
static __attribute__((noinline)) int run_due(struct opx_rel *rel)
{
	uint64_t now = hfi_now_ns(rel->a.hfi);

	return now >= rel->next_ns ? run_all(rel, now) : 0;
}

bool opx_rel_is_running(const struct opx_rel *rel)
{
	return rel->is_running;
}

int opx_rel_progress(struct opx_rel *rel)
{
	int events = 0;

	if (rel->next_ns != CLK_NEVER) {
		if (rel->next_ns && rel->is_coarse && ++rel->lazy % LAZY_CALLS)
			return 0;
		events = run_due(rel);
	}
	if (rel->is_dirty) {
		rel->is_dirty = false;
		hfi_doorbell(rel->a.hw);
	}
	return events;
}

uint64_t opx_rel_next_ns(const struct opx_rel *rel)
{
	return rel->next_ns;
}

/* --- the endpoint ------------------------------------------------------------------------------------------------- */

int opx_rel_open(const struct opx_rel_attr *attr, struct opx_rel **out)
{
	const struct hfi_ctxt_info *info = hfi_ctxt_info(attr->hw);
	struct opx_rel *rel = mem_alloc(sizeof(*rel));

	if (!rel)
		return -FI_ENOMEM;
	rel->a = *attr;
	rel->mtu = MIN(info->mtu, HFI_MTU);
	/* 0: when the PSN wraps, which must be noticed */
	rel->pre_ack_mask = attr->pre_ack_rate ? attr->pre_ack_rate - 1 : HFI_PSN_MASK;
	rel->ping_ns = MAX(attr->usec_max, 1u) * NS_PER_US;
	rel->dead_ns = hfi_dead_after_ns(attr->hfi);
	rel->life_ns = MAX(rel->dead_ns / LIFE_DIV, (uint64_t)NS_PER_US);
	rel->next_ns = CLK_NEVER;
	LIST_INIT(&rel->active);
	LIST_INIT(&rel->all);
	rel->sdma_cnt = MIN(info->sdma_ring_size, (uint32_t)UINT16_MAX);
	rel->sdma = mem_alloc(rel->sdma_cnt * sizeof(*rel->sdma));
	if (!rel->sdma || pools_init(rel)) {
		mem_free(rel->sdma);
		mem_free(rel);
		return -FI_ENOMEM;
	}
	*out = rel;
	return 0;
}

bool opx_rel_drained(const struct opx_rel *rel)
{
	return !rel->copies && !rel->refs;
}

void opx_rel_close(struct opx_rel *rel)
{
	struct opx_flow *f, *tmp;

	LIST_FOREACH_SAFE(f, &rel->all, all, tmp)
	{
		opx_ud_bye(f);
		opx_flow_fini(f);
	}
	hfi_doorbell(rel->a.hw);
	for (int i = 0; i < OPX_REP_NUM; i++)
		slab_fini(&rel->pool[i]);
	mem_free(rel->sdma);
	mem_free(rel);
}

void opx_rel_gone(void *rel, struct hfi_dst *dst, int status)
{
	struct opx_flow *f = hfi_dst_user(dst);

	(void)rel;
	if (f && is_begun(f))
		opx_flow_doom(f, status == -FI_ETIMEDOUT ? OPX_ST_PEER_SILENT
				 : status == -FI_ENOMEM	 ? OPX_ST_NOMEM
							 : OPX_ST_PEER_GONE);
}

const struct opx_rel_stats *opx_rel_stats(const struct opx_rel *rel)
{
	return &rel->st;
}
