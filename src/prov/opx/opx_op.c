// SPDX-License-Identifier: BSD-2-Clause
// The life of an outgoing operation: what it waits for, its data packets, its one completion.
#include "prov/opx/opx.h"

#include "base/guard.h"
#include "base/mem.h"

/*
 * Theory of operation
 *
 * An operation is over for the user when it has completed or failed, which happens once, and not before its memory may
 * be reused: packets that refer to it (is_ref) may still have to be sent. It is freed when besides nobody refers to it:
 * no replay (refs), no copy between processes, not the pump. What the wire says of it names it by its handle, so that
 * late packets find nothing.
 */

struct opx_op *opx_op_get(struct opx_peer *peer, enum opx_op_kind kind)
{
	struct opx_op *op = slab_get(&peer->ep->op_slab);

	if (unlikely(!op))
		return NULL;
	memset(op, 0, sizeof(*op));
	op->ep = peer->ep;
	op->peer = peer;
	op->kind = (uint8_t)kind;
	LIST_INSERT_HEAD(&peer->ops, op, link);
	return op;
}

/*
 * What has ended for its caller and is still on its way comes before it anyhow: the stream is in order. So only
 * operations that wait for something count, and of those not our answers to the peer.
 */
int opx_fence(const struct opx_peer *peer, uint64_t flags)
{
	const struct opx_op *op;

	if (likely(!(flags & FI_FENCE)))
		return 0;
	LIST_FOREACH(op, &peer->ops, link) {
		if (op->kind != OPX_OP_SERVE && !op->is_over)
			return -FI_EAGAIN;
	}
	return 0;
}

struct opx_op *opx_op_find(struct opx_peer *peer, uint32_t id)
{
	struct opx_op *op = id == OPX_NO_HANDLE ? NULL : slab_find(&peer->ep->op_slab, id);

	if (op && op->peer == peer && !op->is_over)
		return op;
	peer->ep->stats.rx_stale++;
	return NULL;
}

void opx_op_wait(struct opx_op *op)
{
	if (op->is_waiting)
		return;
	op->is_waiting = true;
	opx_flow_wait(&op->peer->flow, 1);
}

static void pump_leave(struct opx_op *op)
{
	if (!op->in_pump)
		return;
	op->in_pump = false;
	op->ep->pump_cnt--;
	TAILQ_REMOVE(&op->ep->pump, op, pump_link);
}

static void op_free(struct opx_op *op)
{
	struct opx_ep *ep = op->ep;

	pump_leave(op);
	if (op->kind == OPX_OP_SERVE)
		opx_quota_put(op->peer, OPX_Q_SERVED, 1);
	LIST_REMOVE(op, link);
	mem_free(op->tids);
	mem_free(op->copy);
	slab_put(&ep->op_slab, op);
}

/* Nothing will come for it any more, as far as the user is concerned. */
static void op_over(struct opx_op *op)
{
	op->is_over = true;
	pump_leave(op);
	if (op->is_waiting)
		opx_flow_wait(&op->peer->flow, -1);
	op->is_waiting = false;
	if (op->is_copying && opx_copy_cancel(&op->cp))
		op->is_copying = false;
	op->refs++; /* what follows may let go of the lock, and others end what @op still waits for */
	for (int i = 0; i < op->key_cnt; i++)
		hfi_conceal(op->ep->hw, op->keys[i]);
	op->refs--;
	op->key_cnt = 0;
}

static void free_if_unused(struct opx_op *op)
{
	if (op->is_over && !op->refs && !op->is_copying)
		op_free(op);
}

static struct kit_cntr *cntr_of(const struct opx_op *op)
{
	static const uint8_t kind[OPX_OP_KIND_NUM] = {
		[OPX_OP_SEND] = KIT_CNTR_SEND,   [OPX_OP_WRITE] = KIT_CNTR_WRITE, [OPX_OP_READ] = KIT_CNTR_READ,
		[OPX_OP_ATOMIC] = KIT_CNTR_WRITE, [OPX_OP_FETCH] = KIT_CNTR_READ,  [OPX_OP_COMPARE] = KIT_CNTR_READ,
	};

	return op->kind == OPX_OP_SERVE ? NULL : op->ep->kit.cntr[kind[op->kind]];
}

static void op_complete(struct opx_op *op)
{
	op_over(op);
	if (op->wants_cqe && likely(op->ep->kit.tx_cq != NULL)) /* a transmit context may have left its operation */
		kit_cq_push(op->ep->kit.tx_cq, op->context, op->cq_flags, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
	kit_cntr_add(cntr_of(op), 1, 0);
}

static bool op_is_complete(const struct opx_op *op)
{
	return !op->err && op->is_posted && (!op->needs_done || op->is_done) && (!op->is_ref || !op->refs) &&
	       !op->is_copying;
}

/* It has failed: say so, or when its last packet has been retired. */
static void op_failed(struct opx_op *op)
{
	struct fi_cq_err_entry e = {.op_context = op->context,
				    .flags = op->cq_flags,
				    .len = 0,
				    .tag = op->tag,
				    .err = op->err,
				    .prov_errno = op->why};

	if (op->is_ref && op->refs)
		return;
	op_over(op);
	if (op->kind != OPX_OP_SERVE && op->flags & OPX_NO_CQE)
		kit_ep_late_error(&op->ep->kit, op->err, op->why, opx_strerror(op->why), false);
	else if (op->kind != OPX_OP_SERVE && op->ep->kit.tx_cq)
		kit_cq_push_err(op->ep->kit.tx_cq, &e, NULL, 0);
	kit_cntr_add(cntr_of(op), 0, 1);
}

void opx_op_check(struct opx_op *op)
{
	if (!op->is_over && op->err)
		op_failed(op);
	else if (!op->is_over && op_is_complete(op))
		op_complete(op);
	free_if_unused(op);
}

void opx_op_fail(struct opx_op *op, int err, enum opx_status why)
{
	pump_leave(op);
	if (!op->err) {
		op->err = err;
		op->why = (uint8_t)why;
	}
	opx_op_check(op);
}

void opx_op_abandon(struct opx_op *op)
{
	op_over(op);
	free_if_unused(op);
}

int opx_op_expose(struct opx_op *op, unsigned rights, struct opx_piece *out)
{
	for (int i = 0; i < op->iov_cnt; i++) {
		const struct iovec *v = &op->iov[i];
		int rc = hfi_expose(op->ep->hw, v->iov_base, v->iov_len, rights, &op->keys[i]);

		if (rc)
			return -FI_EAGAIN; /* what is exposed so far goes with the operation */
		op->key_cnt++;
		out[i] = (struct opx_piece){.addr = le64_put((uintptr_t)v->iov_base),
					    .len = le64_put(v->iov_len),
					    .key = le32_put(op->keys[i])};
	}
	return 0;
}

/* --- data packets ---------------------------------------------------------------------------------------- */

/* The header of the packet that carries byte @off of @op. */
static void data_hdr(struct opx_op *op, struct hfi_hdr *h, uint64_t off)
{
	struct opx_flow *f = &op->peer->flow;

	switch (op->kind) {
	case OPX_OP_SEND:
		if (op->is_mp) {
			opx_flow_hdr(f, h, OPX_MP_EAGER_NTH, 0, 0);
			h->w[0] = le64_put(off);
			h->w[1] = le64_put(op->mp_psn);
			h->tag = le64_put(0);
			break;
		}
		opx_flow_hdr(f, h, OPX_RZV_DATA, op->is_ahead ? OPX_SUB_AHEAD : OPX_SUB_RZV, 0);
		h->w[0] = le64_put(off);
		h->w[1] = le64_put(op->is_ahead ? opx_op_handle(op) : op->peer_handle | (uint64_t)op->tid_gen << 32);
		h->tag = le64_put(0);
		break;
	case OPX_OP_WRITE:
		opx_flow_hdr(f, h, OPX_RZV_DATA, OPX_SUB_PUT, opx_put_handle(op));
		h->w[0] = le64_put(op->mr_off + off);
		h->w[1] = le64_put(op->mr_key);
		h->tag = le64_put(op->mr_off + op->len);
		break;
	default: /* OPX_OP_SERVE */
		opx_flow_hdr(f, h, OPX_RZV_DATA, OPX_SUB_GET, 0);
		h->w[0] = le64_put(off);
		h->w[1] = le64_put(op->peer_handle);
		h->tag = le64_put(op->len);
		break;
	}
}

/* Expected receive: the entry that holds byte @off, and how far into it. */
static void tid_at(const struct opx_op *op, uint64_t off, const struct hfi_tid **first, uint32_t *rest)
{
	uint64_t i = off / HFI_TID_BYTES;

	*first = &op->tids[i];
	*rest = (uint32_t)(off % HFI_TID_BYTES);
}

static int pio_one(struct opx_op *op)
{
	struct opx_ep *ep = op->ep;
	uint64_t n = MIN(op->len - op->sent, (uint64_t)ep->mtu);
	struct iovec iov[OPX_IOV_MAX];
	uint8_t served[HFI_MTU];
	const struct hfi_tid *tid;
	struct hfi_hdr h;
	uint32_t rest;
	int cnt, rc;

	data_hdr(op, &h, op->sent);
	if (op->tid_cnt) {
		tid_at(op, op->sent, &tid, &rest);
		n = MIN(n, (uint64_t)(tid->len - rest));
		must(!hfi_tid_hdr(&h, tid, rest));
	}
	cnt = (int)kit_iov_slice(op->iov, op->iov_cnt, op->sent, n, iov, OPX_IOV_MAX);
	if (op->kind == OPX_OP_SERVE) { /* one piece of a region, which may have gone */
		if (unlikely(!guard_read(served, iov[0].iov_base, n)))
			return -FI_EFAULT;
		iov[0].iov_base = served;
	}
	rc = opx_flow_post(&op->peer->flow, &h, iov, cnt, op->sent + n == op->len ? OPX_POST_ACK : 0, op, &op->refs);
	if (rc)
		return rc;
	op->sent += n;
	ep->stats.tx_pio_data++;
	ep->stats.tx_expected += op->tid_cnt != 0;
	return 0;
}

static int sdma_some(struct opx_op *op)
{
	struct opx_ep *ep = op->ep;
	uint32_t room = MIN(opx_flow_room(&op->peer->flow), (uint32_t)HFI_SDMA_PKTS);
	uint64_t n = MIN(op->len - op->sent, (uint64_t)room * ep->mtu);
	struct hfi_sdma_req req = {.fragsize = ep->mtu};
	struct iovec iov[OPX_IOV_MAX];
	unsigned flags;
	int rc;

	if (!room)
		return -FI_EAGAIN;
	data_hdr(op, &req.hdr, op->sent);
	if (op->tid_cnt) {
		tid_at(op, op->sent, &req.tids, &req.tid_off);
		req.tid_cnt = 1; /* a request stays in its entry */
		n = MIN(n, (uint64_t)(req.tids->len - req.tid_off));
	}
	req.npkts = (uint32_t)((n + ep->mtu - 1) / ep->mtu);
	req.iov_cnt = (int)kit_iov_slice(op->iov, op->iov_cnt, op->sent, n, iov, OPX_IOV_MAX);
	req.iov = iov;
	flags = (op->sent + n == op->len ? OPX_POST_ACK : 0) | (op->is_ref ? OPX_POST_REF : 0);
	rc = opx_flow_post_sdma(&op->peer->flow, &req, flags, op, &op->refs);
	if (rc)
		return rc;
	op->sent += n;
	ep->stats.tx_sdma_data += req.npkts;
	ep->stats.tx_expected += op->tid_cnt ? req.npkts : 0;
	return 0;
}

int opx_data_send(struct opx_op *op)
{
	int rc = 0;

	op->ep->need_doorbell = true;
	while (op->sent < op->len && !rc)
		rc = op->is_sdma ? sdma_some(op) : pio_one(op);
	op->is_posted = op->sent == op->len;
	return rc;
}

int opx_op_take_copy(struct opx_op *op)
{
	op->copy = mem_alloc(op->len);
	if (!op->copy)
		return -FI_EAGAIN;
	kit_iov_copy_from(op->copy, op->len, op->iov, op->iov_cnt, 0);
	op->iov[0] = (struct iovec){op->copy, op->len};
	op->iov_cnt = 1;
	return 0;
}

void opx_op_choose_path(struct opx_op *op)
{
	struct opx_ep *ep = op->ep;

	op->is_sdma = !op->peer->flow.is_local && op->len >= ep->sdma_min;
	if (!op->is_sdma || op->copy)
		return;
	if (op->len > ep->bounce_max)
		op->is_ref = true;
	else if (opx_op_take_copy(op))
		op->is_sdma = false; /* no memory for the bounce buffer: PIO copies packet by packet */
	else
		ep->stats.tx_bounce++;
}

/* --- waiting for room -------------------------------------------------------------------------------------- */

/* Post what can be posted of @op. Return: 0 all; -FI_EAGAIN; -errno it has failed. Both of the latter may free it. */
static int pump_one(struct opx_op *op)
{
	bool is_data = op->kind == OPX_OP_SEND || op->kind == OPX_OP_SERVE;
	int rc = op->peer->flow.doom ? -FI_EAGAIN : is_data ? opx_data_send(op) : opx_rma_pump(op);

	/* the flow is about to end: on_dead() knows why */
	if (rc == -FI_EAGAIN || op->peer->flow.doom)
		return -FI_EAGAIN;
	pump_leave(op);
	if (rc && op->kind == OPX_OP_SERVE)
		opx_done_send(op->peer, op->peer_handle, rc == -FI_EFAULT ? OPX_ST_GONE : OPX_ST_COPY);
	else if (rc && op->kind == OPX_OP_SEND) /* the receiver waits for data that will not come */
		opx_flow_doom(&op->peer->flow, opx_status_of(rc, OPX_ST_UNREACH));
	else if (op->kind == OPX_OP_SERVE)
		kit_cntr_add(op->ep->kit.cntr[KIT_CNTR_REMOTE_READ], 1, 0);
	if (rc)
		opx_op_fail(op, opx_err_of(opx_status_of(rc, OPX_ST_UNREACH)), opx_status_of(rc, OPX_ST_UNREACH));
	else
		opx_op_check(op);
	return rc;
}

static void pump_join(struct opx_op *op)
{
	op->in_pump = true;
	op->ep->pump_cnt++;
	TAILQ_INSERT_TAIL(&op->ep->pump, op, pump_link);
}

void opx_op_pump(struct opx_op *op)
{
	if (!op->in_pump)
		pump_join(op);
	pump_one(op);
}

__attribute__((noinline)) int opx_pump(struct opx_ep *ep)
{
	int events;

	ep->holds++;
	events = unlikely(!TAILQ_EMPTY(&ep->copies)) ? opx_copies_retry(ep) : 0;
	/* each once, from the front: the failure of one may end others */
	for (uint32_t n = ep->pump_cnt; n && ep->pump_cnt; n--) {
		struct opx_op *op = TAILQ_FIRST(&ep->pump);

		TAILQ_REMOVE(&ep->pump, op, pump_link);
		TAILQ_INSERT_TAIL(&ep->pump, op, pump_link);
		events += pump_one(op) != -FI_EAGAIN;
	}
	ep->holds--;
	return events;
}
