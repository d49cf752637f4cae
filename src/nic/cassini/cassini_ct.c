// SPDX-License-Identifier: BSD-2-Clause
// Counting events and the triggered commands that wait on them.
#include "nic/cassini/cassini_int.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

/*
 * Theory of operation
 *
 * A trigger waits in its CT's list, sorted by threshold. A count that reaches it moves it to the adapter's list of
 * fired ones, and whoever is the first to put something there works that list off. What a fired one does may count on
 * other CTs, whose triggers join the end of the same list: no recursion, and they fire in the order in which their
 * thresholds were reached. A command that its queue cannot take now goes to the queue's ready list, where
 * cassini_cmdq_kick() finds it; those behind it join it, so that they keep their order.
 */

#define WB_FAILURE_SHIFT 48
#define WB_WRITTEN	 (1ULL << 63)

/* --- lists of fired triggers: singly linked, empty when the head is NULL --- */

static void line_add(struct cassini_trig **head, struct cassini_trig **last, struct cassini_trig *t)
{
	t->next = NULL;
	if (*head)
		(*last)->next = t;
	else
		*head = t;
	*last = t;
}

static void line_del(struct cassini_trig **head, struct cassini_trig **last, struct cassini_trig *t)
{
	struct cassini_trig **at = head, *before = NULL;

	while (*at && *at != t) {
		before = *at;
		at = &(*at)->next;
	}
	if (!*at)
		return;
	*at = t->next;
	if (*last == t)
		*last = before;
}

/* Its list entry is free again. @t is in no list but its queue's. */
static void trig_free(struct cassini_trig *t)
{
	cassini_rsrc_put(t->cq->lni, CASSINI_RSRC_TLE);
	LIST_REMOVE(t, of_cq);
	mem_free(t);
}

static void trig_cancel(struct cassini_trig *t)
{
	struct cassini *nic = t->cq->lni->nic;

	if (t->on)
		TAILQ_REMOVE(&t->on->trigs, t, of_ct);
	line_del(&nic->fired, &nic->fired_last, t);
	line_del(&t->cq->ready, &t->cq->ready_last, t);
	if (t->kind == CASSINI_TRIG_EVENT)
		cassini_eq_unclaim(t->cmd.eq);
	nic->stats.triggered_cancelled++;
	trig_free(t);
}

/* --- firing --- */

/*
 * Return: false: the queue or its path is full. What else is wrong the command says by itself: it was checked when it
 *         was posted.
 */
static bool fire_cmd(struct cassini_trig *t)
{
	int rc = cassini_post(t->cq, &t->cmd);

	if (rc == -EAGAIN)
		return false;
	if (rc)
		LOG_WARN("a triggered command was refused when its count was reached: %s", strerror(-rc));
	trig_free(t);
	return true;
}

static void fire(struct cassini_trig *t)
{
	struct cassini_ct *ct = t->cmd.ct;
	struct cassini_cmdq *cq = t->cq;
	uint64_t value = t->value;
	uint8_t kind = t->kind;

	cq->lni->nic->stats.triggered++;
	if (kind == CASSINI_TRIG_CMD) {
		if (cq->ready || !fire_cmd(t)) {
			line_add(&cq->ready, &cq->ready_last, t);
			cassini_cmdq_watch(cq);
		}
		return;
	}
	if (kind == CASSINI_TRIG_EVENT)
		cassini_eq_push(t->cmd.eq,
				&(struct cassini_event){.type = CASSINI_EV_TRIGGERED_OP,
							.rc = CASSINI_RC_OK,
							.user_ptr = t->cmd.user_ptr},
				true);
	trig_free(t);
	if (ct && kind == CASSINI_TRIG_SET)
		cassini_ct_set(ct, value, ct->failure);
	else if (ct && kind == CASSINI_TRIG_INC)
		cassini_ct_add(ct, value, 0);
}

static __attribute__((noinline)) void fire_all(struct cassini *nic)
{
	struct cassini_trig *t;

	if (nic->is_firing)
		return;
	nic->is_firing = true;
	while ((t = nic->fired)) {
		nic->fired = t->next;
		fire(t);
	}
	nic->is_firing = false;
}

static void changed(struct cassini_ct *ct)
{
	struct cassini *nic = ct->lni->nic;
	struct cassini_trig *t;
	bool any = false;

	/* release: a thread that polls the word, without the lock, then sees the data that was counted */
	if (ct->wb)
		__atomic_store_n(ct->wb, ct->success | ct->failure << WB_FAILURE_SHIFT | WB_WRITTEN, __ATOMIC_RELEASE);
	while ((t = TAILQ_FIRST(&ct->trigs)) && t->threshold <= ct->success) {
		TAILQ_REMOVE(&ct->trigs, t, of_ct);
		t->on = NULL;
		line_add(&nic->fired, &nic->fired_last, t);
		any = true;
	}
	if (ct->on_change)
		ct->on_change(ct->ctx);
	if (unlikely(any))
		fire_all(nic); /* last: @ct may be gone afterwards */
}

int cassini_trig_retry(struct cassini_cmdq *cq)
{
	struct cassini_trig *t;
	int n = 0;

	while ((t = cq->ready)) {
		struct cassini_trig *next = t->next;

		/* out of the list while it is posted: what that fires sees the rest */
		cq->ready = next;
		if (!fire_cmd(t)) {
			if (!cq->ready)
				cq->ready_last = t;
			t->next = cq->ready;
			cq->ready = t;
			break;
		}
		n++;
	}
	return n;
}

/* --- objects --- */

int cassini_ct_open(struct cassini_lni *lni, uint64_t *wb, struct cassini_ct **out)
{
	struct cassini_ct *ct;
	int rc;

	lock_assert_held(lni->nic->open.lock);
	rc = cassini_rsrc_get(lni, CASSINI_RSRC_CT);
	if (rc)
		return rc;
	ct = mem_alloc(sizeof(*ct));
	if (!ct) {
		cassini_rsrc_put(lni, CASSINI_RSRC_CT);
		return -ENOMEM;
	}
	ct->lni = lni;
	ct->wb = wb;
	TAILQ_INIT(&ct->trigs);
	*out = ct;
	return 0;
}

static void op_forget_ct(void *obj, void *ct)
{
	struct cassini_op *op = obj;

	if (op->cmd.ct == ct)
		op->cmd.ct = NULL;
}

void cassini_ct_close(struct cassini_ct *ct)
{
	struct cassini_cmdq *cq;
	struct cassini_trig *t;
	struct cassini_dom *dom;

	if (!ct)
		return;
	lock_assert_held(ct->lni->nic->open.lock);
	cassini_ct_cancel(ct, NULL, NULL);
	/* commands that would count on it no longer do */
	LIST_FOREACH(dom, &ct->lni->nic->doms, link)
		slab_foreach(&dom->ops, op_forget_ct, ct);
	LIST_FOREACH(cq, &ct->lni->cmdqs, all) {
		LIST_FOREACH(t, &cq->trigs, of_cq) {
			if (t->cmd.ct == ct)
				t->cmd.ct = NULL;
		}
	}
	cassini_rsrc_put(ct->lni, CASSINI_RSRC_CT);
	mem_free(ct);
}

void cassini_ct_set_wb(struct cassini_ct *ct, uint64_t *wb)
{
	lock_assert_held(ct->lni->nic->open.lock);
	ct->wb = wb;
}

void cassini_ct_get(const struct cassini_ct *ct, uint64_t *success, uint64_t *failure)
{
	lock_assert_held(ct->lni->nic->open.lock);
	*success = ct->success;
	*failure = ct->failure;
}

void cassini_ct_set(struct cassini_ct *ct, uint64_t success, uint64_t failure)
{
	lock_assert_held(ct->lni->nic->open.lock);
	ct->success = MIN(success, CASSINI_CT_SUCCESS_MAX);
	ct->failure = MIN(failure, (uint64_t)CASSINI_CT_FAILURE_MAX);
	changed(ct);
}

void cassini_ct_add(struct cassini_ct *ct, uint64_t success, uint64_t failure)
{
	lock_assert_held(ct->lni->nic->open.lock);
	/* what is there is in range, so neither difference can wrap */
	ct->success += MIN(success, CASSINI_CT_SUCCESS_MAX - ct->success);
	ct->failure += MIN(failure, CASSINI_CT_FAILURE_MAX - ct->failure);
	changed(ct);
}

void cassini_ct_on_change(struct cassini_ct *ct, void (*fn)(void *ctx), void *ctx)
{
	lock_assert_held(ct->lni->nic->open.lock);
	ct->on_change = fn;
	ct->ctx = ctx;
}

int cassini_ct_cancel(struct cassini_ct *ct, void (*fn)(void *ctx, uint64_t user_ptr), void *ctx)
{
	struct cassini_trig *t;
	int n = 0;

	lock_assert_held(ct->lni->nic->open.lock);
	for (; (t = TAILQ_FIRST(&ct->trigs)); n++) {
		uint64_t user_ptr = t->cmd.user_ptr;

		trig_cancel(t);
		if (fn)
			fn(ctx, user_ptr);
	}
	return n;
}

void cassini_trig_cancel(struct cassini_cmdq *cq, bool (*is_one)(void *ctx, const struct cassini_cmd *cmd),
			 void (*fn)(void *ctx, uint64_t user_ptr), void *ctx)
{
	struct cassini_trig *t, *tmp;

	lock_assert_held(cq->lni->nic->open.lock);
	LIST_FOREACH_SAFE(t, &cq->trigs, of_cq, tmp) {
		uint64_t user_ptr = t->cmd.user_ptr;

		if (is_one && !is_one(ctx, &t->cmd))
			continue;
		trig_cancel(t);
		if (fn)
			fn(ctx, user_ptr);
	}
}

/* --- posting --- */

static int trig_new(struct cassini_cmdq *cq, uint64_t threshold, struct cassini_trig **out)
{
	struct cassini_trig *t;
	int rc;

	if (!cq->has_trig) {
		LOG_WARN("a triggered command for a queue that was opened without triggers");
		return -EINVAL;
	}
	rc = cassini_rsrc_get(cq->lni, CASSINI_RSRC_TLE);
	if (rc)
		return rc;
	t = mem_alloc(sizeof(*t));
	if (!t) {
		cassini_rsrc_put(cq->lni, CASSINI_RSRC_TLE);
		return -ENOMEM;
	}
	t->cq = cq;
	t->threshold = threshold;
	LIST_INSERT_HEAD(&cq->trigs, t, of_cq);
	*out = t;
	return 0;
}

/* Into @ct's list, behind those of the same threshold; most come in order, so the search begins at the end. */
static void trig_wait(struct cassini_ct *ct, struct cassini_trig *t)
{
	struct cassini *nic = ct->lni->nic;
	struct cassini_trig *at = TAILQ_LAST(&ct->trigs, cassini_trig_list);

	if (t->threshold <= ct->success) {
		line_add(&nic->fired, &nic->fired_last, t);
		fire_all(nic);
		return;
	}
	t->on = ct;
	while (at && at->threshold > t->threshold)
		at = TAILQ_PREV(at, cassini_trig_list, of_ct);
	if (at)
		TAILQ_INSERT_AFTER(&ct->trigs, at, t, of_ct);
	else
		TAILQ_INSERT_HEAD(&ct->trigs, t, of_ct);
}

int cassini_post_trig(struct cassini_cmdq *cq, struct cassini_ct *trig, uint64_t threshold,
		      const struct cassini_cmd *cmd)
{
	struct cassini_trig *t;
	int rc;

	lock_assert_held(cq->lni->nic->open.lock);
	rc = cassini_cmd_check(cq, cmd);
	if (rc)
		return rc;
	rc = trig_new(cq, threshold, &t);
	if (rc)
		return rc;
	t->kind = CASSINI_TRIG_CMD;
	t->cmd = *cmd;
	if (cmd->flags & CASSINI_CMD_INLINE && cmd->opcode == CASSINI_OP_PUT) {
		copy_bytes(t->data, cmd->local_addr, cmd->request_len);
		t->cmd.local_addr = t->data;
	}
	trig_wait(trig, t);
	return 0;
}

int cassini_trig_ct(struct cassini_cmdq *cq, struct cassini_ct *trig, uint64_t threshold,
		    const struct cassini_ct_cmd *cmd)
{
	static const uint8_t kind[] = {[CASSINI_CT_SET] = CASSINI_TRIG_SET,
				       [CASSINI_CT_INC] = CASSINI_TRIG_INC,
				       [CASSINI_CT_EVENT] = CASSINI_TRIG_EVENT};
	bool is_event = cmd->op == CASSINI_CT_EVENT;
	struct cassini_trig *t;
	int rc;

	lock_assert_held(cq->lni->nic->open.lock);
	if ((unsigned)cmd->op >= ARRAY_SIZE(kind) || (is_event ? !cmd->eq : !cmd->ct)) {
		LOG_WARN("triggered operation %d lacks its %s", cmd->op, is_event ? "event queue" : "counting event");
		return -EINVAL;
	}
	if (is_event) {
		rc = cassini_eq_claim(cmd->eq);
		if (rc)
			return rc;
	}
	rc = trig_new(cq, threshold, &t);
	if (rc) {
		if (is_event)
			cassini_eq_unclaim(cmd->eq);
		return rc;
	}
	t->kind = kind[cmd->op];
	t->cmd.ct = is_event ? NULL : cmd->ct;
	t->cmd.eq = cmd->eq;
	t->cmd.user_ptr = cmd->user_ptr;
	t->value = cmd->value;
	trig_wait(trig, t);
	return 0;
}
