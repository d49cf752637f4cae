// SPDX-License-Identifier: BSD-2-Clause
// Completion channels: a descriptor that wakes whoever sleeps on it, and the events behind it.
#include "verbs/verbs_int.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * The descriptor that programs have is an epoll set of
 *  - event_fd, readable while an event waits;
 *  - the descriptor of each queue pair that completes into a queue of this channel, which its peers wake. Each wakes
 * once (EPOLLONESHOT) and is armed again, with the queue pair, when the program asks to be notified or sleeps. So a
 * peer's frame wakes the program itself, not a thread of ours first. The set may be readable although there is no event
 * yet: ibv_get_cq_event() then polls the queue pairs, and finds one, or sleeps on, or says EAGAIN if the descriptor
 * does not block.
 */

#define RETRY_MS 1 /* what waits for room or time at the adapter tells nobody */
#define WAKE_CNT 64

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv)
{
	struct vctx *ctx = verbs_ctx(ibv);
	struct epoll_event ev = {.events = EPOLLIN};
	struct vchan *ch;

	if (!ctx || verbs_nic(ctx))
		return NULL;
	ch = mem_alloc(sizeof(*ch));
	if (!ch)
		return verbs_fail(ENOMEM);
	ch->pending_tail = &ch->pending;
	ch->ibv.context = ibv;
	ch->ibv.fd = epoll_create1(EPOLL_CLOEXEC);
	ch->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ch->ibv.fd < 0 || ch->event_fd < 0 || epoll_ctl(ch->ibv.fd, EPOLL_CTL_ADD, ch->event_fd, &ev)) {
		int err = errno;

		if (ch->ibv.fd >= 0)
			close(ch->ibv.fd);
		if (ch->event_fd >= 0)
			close(ch->event_fd);
		mem_free(ch);
		return verbs_fail(err);
	}
	verbs_obj_add(&ch->obj, OBJ_CHAN, ctx, &ch->ibv);
	return &ch->ibv;
}

void verbs_chan_free(struct vchan *ch)
{
	verbs_obj_del(&ch->obj);
	close(ch->ibv.fd);
	close(ch->event_fd);
	mem_free(ch);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct vchan *ch = verbs_obj_get(OBJ_CHAN, ibv);

	if (!ch)
		return EINVAL;
	if (ch->cqs)
		return EBUSY;
	verbs_chan_free(ch);
	return 0;
}

static struct vchan *chan_of(const struct vcq *cq)
{
	return container_of(cq->ex.channel, struct vchan, ibv);
}

/* --- the events; all under the context's lock --- */

static void ring_bell(struct vchan *ch)
{
	const uint64_t one = 1;

	if (!ch->is_rung && write(ch->event_fd, &one, sizeof(one)) == sizeof(one))
		ch->is_rung = true;
}

static void still_bell(struct vchan *ch)
{
	uint64_t cnt;

	if (ch->is_rung && read(ch->event_fd, &cnt, sizeof(cnt)) == sizeof(cnt))
		ch->is_rung = false;
}

void verbs_chan_event(struct vcq *cq)
{
	struct vchan *ch = chan_of(cq);

	cq->is_armed = false;
	if (!cq->ev_cnt++) {
		cq->ev_next = NULL;
		*ch->pending_tail = cq;
		ch->pending_tail = &cq->ev_next;
	}
	ring_bell(ch);
}

static void pending_remove(struct vchan *ch, struct vcq *cq)
{
	struct vcq **at = &ch->pending;

	while (*at && *at != cq)
		at = &(*at)->ev_next;
	if (*at)
		*at = cq->ev_next;
	ch->pending_tail = &ch->pending;
	while (*ch->pending_tail)
		ch->pending_tail = &(*ch->pending_tail)->ev_next;
}

static struct vcq *event_pop(struct vchan *ch)
{
	struct vcq *cq = ch->pending;

	if (cq && !--cq->ev_cnt)
		pending_remove(ch, cq);
	if (cq)
		cq->ev_given++;
	if (!ch->pending)
		still_bell(ch);
	return cq;
}

void verbs_chan_cq_add(struct vcq *cq)
{
	struct vchan *ch = chan_of(cq);

	lock_acquire(&cq->obj.ctx->lock);
	cq->chan_next = ch->cqs;
	ch->cqs = cq;
	ch->ibv.refcnt++;
	lock_release(&cq->obj.ctx->lock);
}

void verbs_chan_cq_del(struct vcq *cq)
{
	struct vchan *ch = chan_of(cq);
	struct vcq **at = &ch->cqs;

	while (*at && *at != cq)
		at = &(*at)->chan_next;
	if (*at)
		*at = cq->chan_next;
	pending_remove(ch, cq);
	if (!ch->pending)
		still_bell(ch);
	ch->ibv.refcnt--;
	cq->is_armed = false;
	cq->ex.channel = NULL;
}

/* --- the queue pairs --- */

static void watch_one(struct vchan *ch, int op, struct vqp *qp)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT};
	int fd = efanic_wait_fd(qp->dev);

	if (fd >= 0 && epoll_ctl(ch->ibv.fd, op, fd, &ev) && errno != EEXIST && errno != ENOENT)
		LOG_WARN("QP %u does not wake its completion channel: %s", qp->qp.qp_num, strerror(errno));
}

void verbs_chan_watch(struct vcq *cq, struct vqp *qp, bool on)
{
	if (cq->ex.channel)
		watch_one(chan_of(cq), on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, qp);
}

/* Return: false: one of them has work, or will have some without a word; look again. */
static bool arm(struct vcq *cq)
{
	bool all = true;

	for (struct vcq_link *l = cq->qps; l; l = l->next) {
		if (efanic_arm(l->qp->dev))
			all = false;
		watch_one(chan_of(cq), EPOLL_CTL_MOD, l->qp);
	}
	return all;
}

void verbs_chan_tell_(struct vqp *qp)
{
	if (!efanic_arm(qp->dev))
		return;
	if (qp->send_cq->is_armed)
		ring_bell(chan_of(qp->send_cq));
	if (qp->recv_cq->is_armed)
		ring_bell(chan_of(qp->recv_cq));
}

int verbs_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct vcq *cq = container_of(ibv, struct vcq, cq);
	struct vctx *ctx = cq->obj.ctx;

	if (solicited_only && !ctx->dev->attr.is_lenient)
		return verbs_refuse("ibv_req_notify_cq of solicited events", "this adapter tells of every completion");
	if (!verbs_ctx_enter(ctx))
		return EIO;
	if (!cq->ex.channel) {
		lock_release(&ctx->lock);
		return EINVAL;
	}
	cq->is_armed = true;
	verbs_cq_look(cq);
	if (cq->is_armed && !arm(cq))
		ring_bell(chan_of(cq)); /* whoever looks then looks at the queue pairs */
	lock_release(&ctx->lock);
	return 0;
}

/* An event if there is one by now; else everything that may bring one is armed. *@again: not everything. */
static struct vcq *event_look(struct vchan *ch, bool *again)
{
	struct vcq *cq;

	*again = false;
	for (cq = ch->cqs; cq && !ch->pending; cq = cq->chan_next)
		if (cq->is_armed)
			verbs_cq_look(cq);
	if (ch->pending)
		return event_pop(ch);
	still_bell(ch);
	for (cq = ch->cqs; cq; cq = cq->chan_next)
		if (cq->is_armed && !arm(cq))
			*again = true;
	return NULL;
}

/* Return: 0 look again; errno. */
static int event_sleep(struct vchan *ch, bool again)
{
	struct epoll_event ev[WAKE_CNT];
	int flags = fcntl(ch->ibv.fd, F_GETFL), n;
	bool may_block = flags >= 0 && !(flags & O_NONBLOCK);

	n = epoll_wait(ch->ibv.fd, ev, WAKE_CNT, !may_block ? 0 : again ? RETRY_MS : -1);
	if (n < 0)
		return errno;
	if (n || may_block)
		return 0;
	if (again) { /* it shall not sleep for ever on what nobody tells */
		lock_acquire(&ch->obj.ctx->lock);
		ring_bell(ch);
		lock_release(&ch->obj.ctx->lock);
	}
	return EAGAIN;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct vchan *ch = verbs_obj_get(OBJ_CHAN, ibv);
	struct vcq *got = NULL;
	bool again;
	int err = 0;

	if (!ch || !cq || !cq_context) {
		errno = EINVAL;
		return -1;
	}
	while (!got && !err) {
		if (!verbs_ctx_enter(ch->obj.ctx))
			return -1;
		got = event_look(ch, &again);
		if (got) { /* here: whoever destroys it waits only for events that were given under the lock */
			*cq = &got->cq;
			*cq_context = got->cq.cq_context;
		}
		lock_release(&ch->obj.ctx->lock);
		if (!got)
			err = event_sleep(ch, again);
	}
	if (!got) {
		errno = err;
		return -1;
	}
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned cnt)
{
	struct vcq *cq = verbs_obj_get(OBJ_CQ, ibv);

	if (!cq)
		return;
	pthread_mutex_lock(&cq->ex.mutex);
	cq->ex.comp_events_completed += cnt;
	pthread_cond_signal(&cq->ex.cond);
	pthread_mutex_unlock(&cq->ex.mutex);
}
