// SPDX-License-Identifier: BSD-2-Clause
// What the files of verbs/ share: the objects behind libibverbs' handles, and who locks what.
#ifndef SF_VERBS_VERBS_INT_H
#define SF_VERBS_VERBS_INT_H

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "nic/efanic/efanic.h"
#include "verbs/verbs_refuse.h"

/*
 * Theory of operation
 *
 * The library stands in front of libibverbs and libefa (LD_PRELOAD): its functions have their names, its objects begin
 * with their structs, whose layout is ABI. A context is one opened soft adapter, made when the first object needs it,
 * since programs open devices only to look at them.
 *
 * One lock per context, which is the adapter's. Two others come before it: a queue pair's between wr_start and
 * wr_complete, and a completion queue's between start_poll and end_poll, as in the driver of the real adapter. The
 * table of live objects (verbs_obj.c) has a mutex that comes last; by it each handle is checked that is not on the data
 * path.
 *
 * Completions: the adapter shows them to verbs_cq_take() while it is polled, which puts them into the ring of their
 * queue. Slots of send and receive queues are free again when the program has polled the completion, as with the rings
 * of the real adapter.
 */

enum obj_type { OBJ_CTX, OBJ_PD, OBJ_MR, OBJ_CHAN, OBJ_CQ, OBJ_QP, OBJ_AH, OBJ_NUM };

/* The first member of every object. */
struct vobj {
	const void *handle; /* what the program has: address of the libibverbs struct */
	struct vctx *ctx;
	struct vobj *hnext;
	enum obj_type type;
};

struct vdev {
	struct ibv_device ibv;
	int idx;
	struct efanic_dev_attr attr;
};

struct vctx {
	struct vobj obj;
	struct lock lock;
	struct vdev *dev;
	struct efanic *nic; /* NULL until an object needs it */
	uint32_t pd_last, pd_cnt, cq_cnt;
	struct vqp *qps;   /* by qp->next */
	struct vctx *next; /* all with an adapter */
	struct verbs_context v;
};

struct vpd {
	struct vobj obj;
	struct ibv_pd ibv;
	uint32_t pdn; /* efanic's tag, not 0 */
	uint32_t users;
};

struct vmr {
	struct vobj obj;
	struct ibv_mr ibv;
	struct efanic_mr *mr;
};

struct vah {
	struct vobj obj;
	struct ibv_ah ibv;
	uint16_t ahn;
	struct vdst *dsts; /* by d->ah_next */
};

/* A completion that the program has not polled yet. */
struct vcqe {
	struct vqp *qp;
	uint64_t wr_id;
	uint32_t qpn;
	uint32_t imm, byte_len;
	uint16_t src_qpn, src_ahn;
	uint8_t status, opcode; /* of efanic */
	bool has_imm, unsolicited;
	uint16_t slot; /* of the send queue */
	uint8_t gid[16];
};

struct vchan {
	struct vobj obj;
	struct ibv_comp_channel ibv;	     /* fd: an epoll set of event_fd and the queue pairs' descriptors */
	int event_fd;			     /* readable: an event waits, or the caller shall look again */
	bool is_rung;			     /* event_fd is readable */
	struct vcq *pending, **pending_tail; /* events, one entry per queue by cq->ev_next */
	struct vcq *cqs;		     /* by cq->chan_next */
};

/* A queue pair in a completion queue's list. */
struct vcq_link {
	struct vqp *qp;
	struct vcq_link *next;
};

/* struct efadv_cq as later releases have it; Debian 12's ends before wc_is_unsolicited. */
struct verbs_efa_cq {
	uint64_t comp_mask;
	int (*wc_read_sgid)(struct efadv_cq *dv, union ibv_gid *sgid);
	bool (*wc_is_unsolicited)(struct efadv_cq *dv);
};
_Static_assert(offsetof(struct verbs_efa_cq, wc_read_sgid) == offsetof(struct efadv_cq, wc_read_sgid), "it is ABI");

/* struct efadv_qp of later releases; Debian 12 has none, and not the function. */
struct verbs_efa_qp {
	uint64_t comp_mask;
	void (*wr_set_processing_hints)(struct verbs_efa_qp *dv, uint32_t hints);
};
struct efadv_qp *efadv_qp_from_ibv_qp_ex(struct ibv_qp_ex *ex);

#define CQ_WAKE_QPS 64 /* descriptors that one look at a channel takes */

struct vcq {
	struct vobj obj;
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct verbs_efa_cq efa;
	struct lock poll_lock; /* from start_poll to end_poll */
	struct vcqe cur;
	bool has_cur;
	/* under the context's lock */
	struct vcqe *ring; /* of @mask + 1 */
	uint32_t head, tail, mask;
	bool is_overrun;
	struct vcq_link *qps;
	uint32_t users;
	bool is_armed;
	uint32_t ev_cnt; /* events that wait in the channel */
	uint32_t ev_given;
	struct vcq *ev_next, *chan_next;
};

#define INLINE_MAX 32u /* inline_buf_size of the adapter */

/* A send request between post and poll. */
struct vswr {
	uint64_t wr_id;
	uint16_t next;	/* free list */
	bool is_silent; /* a success is no completion */
	uint8_t data[INLINE_MAX];
};

/* All of a queue. One that is replaced, because the queue pair was reset while the adapter still had requests, lives on
 * until a reset finds none any more, or to the end. */
struct vsq {
	struct vsq *old;
	struct vswr s[];
};

/* A request of the builder, between wr_start and wr_complete. */
struct vbuild {
	struct efanic_wr wr;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	bool is_inline, is_silent;
	uint8_t data[INLINE_MAX];
};

/* What (AH, QPN, Q_Key) means to a queue pair; in a hash chain of it, and in the handle's list. */
struct vdst {
	struct vdst *next;
	const struct ibv_ah *ah;
	struct efanic_dst *dst;
	uint32_t qpn, qkey;
	struct vqp *qp;
	struct vdst *ah_next, **ah_at;
};
#define DST_BITS_MIN 6u	    /* chains of a new queue pair, as a power of two */
#define DST_MAX	     65536u /* above it those that nobody used lately make room: all of them */

struct vqp {
	struct vobj obj;
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	struct verbs_efa_qp efa;
	struct lock sq_lock; /* from wr_start to wr_complete */
	struct efanic_qp *dev;
	struct vpd *pd;
	struct vcq *send_cq, *recv_cq;
	struct vcq_link send_link, recv_link;
	struct vqp *next;
	struct ibv_qp_cap cap;
	bool has_ex, is_srd, sig_all;
	uint8_t said; /* log lines */
	uint32_t waiters; /* threads that wait in ibv_modify_qp(), with the lock free; under the context's lock */
	uint32_t qkey;
	uint32_t sq_psn;
	uint8_t rnr_retry;
	/* the send queue, under the context's lock */
	struct vsq *sq;
	uint32_t sq_depth, sq_used, rq_depth, rq_used;
	uint16_t sq_free;
	struct vdst *last;
	struct vdst **dst; /* 2^dst_bits chains, at least as many as destinations */
	uint32_t dst_bits, dst_cnt;
	/* the builder, under sq_lock */
	struct vbuild *build;
	uint32_t build_cnt;
	int build_err;
};

/* --- verbs_fork.c --- */

/* Taken in this order: the list of devices, that of contexts with an adapter, the table of objects. */
extern pthread_mutex_t verbs_dev_mutex, verbs_ctx_mutex, verbs_obj_mutex;

/* --- verbs_obj.c: what lives --- */

/** verbs_obj_add() - From now on verbs_obj_get() finds @o by @handle. */
void verbs_obj_add(struct vobj *o, enum obj_type type, struct vctx *ctx, const void *handle);
void verbs_obj_del(struct vobj *o);
/** verbs_obj_get() - The object of @type behind @handle. NULL: nothing such lives there; errno is EINVAL then. */
void *verbs_obj_get(enum obj_type type, const void *handle);
/** verbs_obj_any() - One object of @ctx and @type; NULL: there is none. */
void *verbs_obj_any(enum obj_type type, const struct vctx *ctx);

/* --- verbs_dev.c --- */

/** verbs_dev_cnt() - Adapters that this process has been shown; 0 before it has asked. */
int verbs_dev_cnt(void);
/** verbs_dev_find() - Is it one of ours? NULL: no. */
struct vdev *verbs_dev_find(const struct ibv_device *dev);

/* --- verbs_sysfs.c --- */

/** verbs_sysfs_make() - The private tree of this process, with @cnt adapters. Return: its root, for ever; NULL: there
 * is none (logged). */
const char *verbs_sysfs_make(const struct vdev *dev, int cnt);

/* --- verbs_path.c --- */

/** verbs_path_is_dev() - Is @path the device file of one of ours, which a soft one has not? */
bool verbs_path_is_dev(const char *path);

/* --- verbs_ctx.c --- */

struct vctx *verbs_ctx(struct ibv_context *ibv);
/** verbs_nic() - Opens the adapter if nobody has; not under the lock. Return: 0; errno. */
int verbs_nic(struct vctx *ctx);
/** verbs_forked() - In a child of who opened it nothing works, and locks may be held for ever; errno is EIO then. */
static inline bool verbs_forked(const struct vctx *ctx)
{
	if (likely(!ctx->nic || !efanic_forked(ctx->nic)))
		return false;
	errno = EIO;
	return true;
}
/** verbs_ctx_enter() - Takes the lock. False: verbs_forked(). */
static inline bool verbs_ctx_enter(struct vctx *ctx)
{
	if (verbs_forked(ctx))
		return false;
	lock_acquire(&ctx->lock);
	return true;
}
void verbs_ops_fill(struct vctx *ctx);
/** verbs_serve_others() - Nobody may poll the other contexts of this process while somebody waits for them here: their
 * adapters work now. */
void verbs_serve_others(const struct vctx *but);

/* --- verbs_pd.c, verbs_ah.c --- */

void verbs_mr_free(struct vmr *mr);
void verbs_ah_free(struct vah *ah);
/** verbs_dst_get() - Where a request goes; context's lock held. Return: NULL, and in *@status how it ends. */
struct efanic_dst *verbs_dst_get(struct vqp *qp, const struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint8_t *status);
/** verbs_dst_init() - Return: 0; ENOMEM. */
int verbs_dst_init(struct vqp *qp);
/** verbs_dst_drop_all() - Forgets all; context's lock held. */
void verbs_dst_drop_all(struct vqp *qp);

/* --- verbs_cq.c --- */

struct ibv_cq_ex *verbs_cq_create(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr, uint64_t efa_flags);
struct ibv_cq_ex *verbs_create_cq_ex(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr);
/** verbs_cq_put() - One more completion; context's lock held. */
void verbs_cq_put(struct vcq *cq, const struct vcqe *e);
/** verbs_cq_take() - efanic_wc_fn of every queue pair. */
void verbs_cq_take(void *ctx, const struct efanic_wc *wc);
/** verbs_cq_forget() - The completions of @qp that nobody has polled; context's lock held. */
void verbs_cq_forget(struct vcq *cq, const struct vqp *qp);
/** verbs_cq_look() - Polls the queue pairs of @cq; context's lock held. Return: events. */
int verbs_cq_look(struct vcq *cq);
int verbs_poll_cq(struct ibv_cq *ibv, int cnt, struct ibv_wc *wc);
void verbs_cq_free(struct vcq *cq);
enum ibv_wc_status verbs_wc_status(uint8_t status);
enum ibv_wc_opcode verbs_wc_opcode(const struct vcqe *e);
/** verbs_cq_ex_fill() - The functions of ibv_cq_ex, in verbs_cq_ex.c. */
void verbs_cq_ex_fill(struct vcq *cq, uint64_t wc_flags, uint64_t efa_flags);
/** verbs_cq_pop() - The oldest completion into *@e, after a look at the adapter if there is none. Context's lock is
 * taken; not in a child (verbs_forked()). */
bool verbs_cq_pop(struct vcq *cq, struct vcqe *e);

/* --- verbs_chan.c --- */

int verbs_req_notify_cq(struct ibv_cq *ibv, int solicited_only);
/** verbs_chan_event() - @cq is armed and has a completion: an event; context's lock held. */
void verbs_chan_event(struct vcq *cq);
/** verbs_chan_watch() - Queue pairs of @cq wake its channel, if it has one; context's lock held. */
void verbs_chan_watch(struct vcq *cq, struct vqp *qp, bool on);
/** verbs_chan_tell_() - verbs_chan_tell() where a queue is armed. */
void verbs_chan_tell_(struct vqp *qp);
/** verbs_chan_tell() - The adapter has worked on @qp outside of a poll, and what that ended waits there: whoever sleeps
 * looks. Context's lock held. */
static inline void verbs_chan_tell(struct vqp *qp)
{
	if (unlikely(qp->send_cq->is_armed || qp->recv_cq->is_armed))
		verbs_chan_tell_(qp);
}
void verbs_chan_cq_add(struct vcq *cq);
/** verbs_chan_cq_del() - No event of @cq comes from its channel any more; context's lock held. */
void verbs_chan_cq_del(struct vcq *cq);
void verbs_chan_free(struct vchan *ch);

/* --- verbs_qp.c, verbs_send.c, verbs_build.c --- */

/* struct efadv_qp_init_attr as later releases have it; Debian 12's ends behind driver_qp_type with reserved bytes. */
struct verbs_efa_qp_attr {
	uint64_t comp_mask;
	uint32_t driver_qp_type;
	uint16_t flags;
	uint8_t sl, reserved;
	uint64_t wr_flags;
};
#define VERBS_EFA_QP_UNSOLICITED 1u
#define VERBS_EFA_WR_HINTS	 1u

struct ibv_qp *verbs_qp_create(struct vctx *ctx, struct ibv_qp_init_attr_ex *attr, const struct verbs_efa_qp_attr *efa);
/** verbs_attr_ex() - The old attributes as extended ones. */
void verbs_attr_ex(const struct ibv_qp_init_attr *attr, struct ibv_pd *pd, struct ibv_qp_init_attr_ex *out);
struct ibv_qp *verbs_create_qp_ex(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr);
void verbs_qp_free(struct vqp *qp);
/** verbs_qp_done() - The program has polled @e; context's lock held. */
void verbs_qp_done(const struct vcqe *e);
int verbs_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int verbs_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/** verbs_is_sending() - Does the state take sends? */
static inline bool verbs_is_sending(const struct vqp *qp)
{
	/* relaxed: who puts requests together asks without the context's lock, and again with it when it posts them */
	enum ibv_qp_state state = __atomic_load_n(&qp->qp.state, __ATOMIC_RELAXED);

	return state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}
/** verbs_send_check() - May a request with @flags be posted, if there is room? Return: 0; EINVAL (logged). */
int verbs_send_check(struct vqp *qp, unsigned flags);
/** verbs_is_silent() - Nobody wants to know that a request with @flags has succeeded. */
static inline bool verbs_is_silent(const struct vqp *qp, unsigned flags)
{
	return !(flags & IBV_SEND_SIGNALED) && !qp->sig_all;
}
/** verbs_send_one() - Gives @b to the adapter; context's lock held, there is room. Return: 0; ENOMEM: the adapter has
 * none, which efanic_sq_free() says. */
int verbs_send_one(struct vqp *qp, struct vbuild *b);
/** verbs_build_fill() - The functions of ibv_qp_ex. */
void verbs_build_fill(struct vqp *qp, uint64_t ops, bool has_hints);
/** verbs_sge() - A piece of a program's request: the provider's key for its own memory is none of a program's. */
struct efanic_sge verbs_sge(uint64_t addr, uint32_t len, uint32_t lkey);

#endif
