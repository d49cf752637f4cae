// SPDX-License-Identifier: BSD-2-Clause
// FI_ATOMIC of the RDM endpoint: always packets, one per operation; both sides. Source:
// doc/facts/efa.md#one-sided-transfers.
#include "prov/efa/efa.h"

#include <string.h>

#include "base/guard.h"
#include "kit/atomic_call.h"

/* --- initiator ----------------------------------------------------------------------------------------- */

static const uint8_t type_of_kind[EFA_TX_KIND_NUM] = {
	[EFA_TX_ATOMIC] = EFA_PKT_WRITE_RTA,
	[EFA_TX_FETCH] = EFA_PKT_FETCH_RTA,
	[EFA_TX_COMPARE] = EFA_PKT_COMPARE_RTA,
};

int efa_atomic_start(struct efa_tx *tx)
{
	struct efa_peer *peer = tx->peer;
	struct efa_hdr h;
	struct efa_pkt *pkt;
	size_t at, len;
	int ret;

	if (!efa_peer_is_known(peer))
		return efa_tx_park(tx);
	tx->type = type_of_kind[tx->kind];
	tx->wait = tx->kind == EFA_TX_ATOMIC ? 0 : EFA_WAIT_RESPONSE;
	if (tx->kind == EFA_TX_ATOMIC && (tx->flags & FI_DELIVERY_COMPLETE) && !tx->injected) {
		if (!efa_peer_has(peer, EFA_X_DELIVERY_COMPLETE))
			return -FI_EOPNOTSUPP;
		tx->type = EFA_PKT_DC_WRITE_RTA;
		tx->wait = EFA_WAIT_RECEIPT;
	}
	tx->msg_id = peer->next_msg_id;
	efa_tx_hdr(tx, &h);
	h.flags |= EFA_FLAG_ATOMIC;
	h.atomic_dt = tx->atomic_dt;
	h.atomic_op = tx->atomic_op;
	h.recv_id = tx->id;
	pkt = efa_pkt_get(tx->ep, peer, true);
	if (!pkt)
		return -FI_EAGAIN;
	pkt->type = tx->type;
	pkt->tx = tx;
	at = efa_pkt_encode(&h, pkt->buf, EFA_PKT_LARGE);
	len = kit_iov_len(tx->iov, tx->iov_cnt);
	at += kit_iov_copy_from(pkt->buf + at, len, tx->iov, tx->iov_cnt, 0);
	if (tx->kind == EFA_TX_COMPARE)
		at += kit_iov_copy_from(pkt->buf + at, tx->len, tx->cmp, tx->cmp_cnt, 0);
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)at, EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	ret = efa_pkt_post(pkt);
	if (ret) {
		efa_pkt_put(pkt);
		return ret;
	}
	tx->wrs++;
	peer->flags |= EFA_PEER_REQ_SENT;
	peer->next_msg_id++;
	return 0;
}

void efa_atomic_on_rsp(struct efa_tx *tx, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	struct view v = *data;
	size_t at = 0;

	if (!(tx->wait & EFA_WAIT_RESPONSE) || (tx->kind != EFA_TX_FETCH && tx->kind != EFA_TX_COMPARE) ||
	    h->seg_len != tx->len) {
		tx->ep->stats.drop_stale_id++;
		return;
	}
	view_skip(&v, payload_off);
	for (unsigned i = 0; i < v.seg_cnt; i++)
		at += kit_iov_copy_to(tx->res, tx->res_cnt, at, v.seg[i].p, v.seg[i].len);
	if (unlikely(at < v.len)) {
		efa_tx_fail(tx, efa_errno(EFANIC_LOCAL_INVALID_LKEY), EFANIC_LOCAL_INVALID_LKEY);
		return;
	}
	efa_tx_on_response(tx);
}

/* --- target ---------------------------------------------------------------------------------------------- */

static bool target_ok(struct efa_peer *peer, const struct efa_hdr *h, uint64_t access, size_t dt_size, size_t *total)
{
	*total = 0;
	for (uint32_t i = 0; i < h->rma_iov_cnt; i++) {
		const struct efa_rma_iov *r = &h->rma_iov[i];

		if (r->len > EFA_ATOMIC_MAX || r->len % dt_size || !efa_rma_region(peer->ep, r, access))
			return false;
		*total += r->len;
	}
	return *total <= EFA_ATOMIC_MAX;
}

static void respond(struct efa_peer *peer, const struct efa_hdr *req, const uint8_t *result, size_t len)
{
	struct efa_ep *ep = peer->ep;
	struct efa_hdr h = {
		.type = EFA_PKT_ATOMRSP,
		.flags = EFA_FLAG_CONNID,
		.connid = ep->self.qkey,
		.recv_id = req->recv_id,
		.seg_len = len,
	};
	struct efa_pkt *pkt = efa_pkt_get(ep, peer, true);
	size_t at;

	if (!pkt) {
		efa_ep_event(ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory to answer an atomic of a peer");
		return;
	}
	pkt->is_answer = true;
	efa_quota_add(peer, EFA_Q_WORK, 1);
	pkt->type = h.type;
	at = efa_pkt_encode(&h, pkt->buf, EFA_PKT_LARGE);
	memcpy(pkt->buf + at, result, len);
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)(at + len), EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	efa_pkt_post_or_queue(pkt);
}

struct apply {
	enum kit_atomic_kind kind;
	unsigned dt, op;
	void *at;
	const uint8_t *src, *cmp;
	uint8_t *result;
	size_t count;
};

static void apply_run(void *arg)
{
	const struct apply *a = arg;

	kit_atomic_apply(a->kind, a->dt, a->op, a->at, a->src, a->cmp, a->result, a->count);
}

void efa_atomic_on_rta(struct efa_peer *peer, const struct efa_hdr *h, const struct view *data, size_t payload_off)
{
	enum kit_atomic_kind kind = h->type == EFA_PKT_FETCH_RTA     ? KIT_ATOMIC_FETCH
				    : h->type == EFA_PKT_COMPARE_RTA ? KIT_ATOMIC_COMPARE
								     : KIT_ATOMIC_BASE;
	uint64_t access = kind == KIT_ATOMIC_BASE ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
	uint8_t operand[EFA_MTU], result[EFA_MTU];
	size_t payload = data->len - payload_off, total, at = 0, need, dt_size = kit_dt_size(h->atomic_dt);
	bool read_only = h->atomic_op == FI_ATOMIC_READ;

	if (read_only)
		access = FI_REMOTE_READ;
	if (!dt_size || kit_atomic_valid(kind, h->atomic_dt, h->atomic_op)) {
		efa_ep_event(peer->ep, FI_EINVAL, EFA_ERR_ATOMIC, "a peer asked for an atomic that does not exist");
		return;
	}
	if (!target_ok(peer, h, access, dt_size, &total)) {
		efa_refuse(peer, h, "an atomic of a peer named memory that it may not touch");
		return;
	}
	need = kind == KIT_ATOMIC_COMPARE ? 2 * total : total;
	if (payload != need && !(read_only && !payload)) {
		peer->ep->stats.drop[EFA_DROP_LENGTH]++;
		return;
	}
	view_copy(data, payload_off, operand, payload);
	for (uint32_t i = 0; i < h->rma_iov_cnt; i++) {
		const struct efa_rma_iov *r = &h->rma_iov[i];

		struct apply a = {kind, h->atomic_dt, h->atomic_op, (void *)(uintptr_t)r->addr, operand + at,
				  operand + total + at, result + at, r->len / dt_size};

		if (unlikely(!guard_call(a.at, r->len, apply_run, &a))) {
			efa_refuse(peer, h, "an atomic of a peer met memory that is not there any more");
			return;
		}
		at += r->len;
	}
	kit_cntr_add(peer->ep->kit.cntr[kind == KIT_ATOMIC_BASE ? KIT_CNTR_REMOTE_WRITE : KIT_CNTR_REMOTE_READ], 1, 0);
	if (kind != KIT_ATOMIC_BASE) {
		respond(peer, h, result, total);
	} else if (h->type == EFA_PKT_DC_WRITE_RTA) {
		struct efa_hdr rc = {.type = EFA_PKT_RECEIPT, .send_id = h->send_id, .msg_id = h->msg_id};

		if (efa_ctrl_send(peer, &rc, NULL))
			efa_ep_event(peer->ep, FI_ENOMEM, EFA_ERR_NOMEM, "no memory to answer an atomic of a peer");
	}
}

/* --- calls --------------------------------------------------------------------------------------------------- */

static int fill(struct efa_tx *tx, const struct kit_atomic_req *req, size_t dt_size)
{
	const struct fi_msg_atomic *m = req->msg;
	bool has_operand = m->op != FI_ATOMIC_READ;
	size_t rlen = 0;

	tx->rma_iov_cnt = (uint8_t)m->rma_iov_count;
	for (size_t i = 0; i < m->rma_iov_count; i++) {
		tx->rma_iov[i] =
			(struct efa_rma_iov){m->rma_iov[i].addr, m->rma_iov[i].count * dt_size, m->rma_iov[i].key};
		rlen = kit_count_bytes(rlen, m->rma_iov[i].count, dt_size);
	}
	tx->len = rlen;
	tx->iov_cnt = has_operand ? (uint8_t)m->iov_count : 0;
	tx->cmp_cnt = (uint8_t)req->cmp.iov_count;
	tx->res_cnt = (uint8_t)req->res.iov_count;
	tx->atomic_dt = m->datatype;
	tx->atomic_op = m->op;
	if ((has_operand && kit_ioc_to_iov(tx->iov, m->msg_iov, m->iov_count, dt_size) != rlen) ||
	    (tx->kind == EFA_TX_COMPARE && kit_ioc_to_iov(tx->cmp, req->cmp.msg_iov, tx->cmp_cnt, dt_size) != rlen) ||
	    (tx->kind != EFA_TX_ATOMIC && kit_ioc_to_iov(tx->res, req->res.msg_iov, tx->res_cnt, dt_size) != rlen))
		return -FI_EINVAL;
	return rlen > (tx->kind == EFA_TX_COMPARE ? EFA_ATOMIC_MAX / 2 : EFA_ATOMIC_MAX) ? -FI_EINVAL : 0;
}

static ssize_t atomic(struct fid_ep *fid, const struct kit_atomic_req *req)
{
	struct efa_ep *ep = container_of(fid, struct efa_ep, kit.fid);
	enum efa_tx_kind kind = (enum efa_tx_kind)(EFA_TX_ATOMIC + req->kind);
	uint64_t flags = kit_atomic_flags(&ep->kit, req) | (req->form == KIT_ATOMIC_BY_INJECT ? EFA_NO_CQE : 0);
	const struct fi_msg_atomic *m = req->msg;
	size_t dt_size = kit_dt_size(m->datatype);
	struct efa_peer *peer;
	struct efa_tx *tx;
	ssize_t ret;

	if (unlikely(efa_ep_state(&ep->kit)))
		return efa_ep_state(&ep->kit);
	if (!(ep->kit.caps & FI_ATOMIC))
		return -FI_EOPNOTSUPP;
	ret = kit_atomic_valid(req->kind, m->datatype, m->op);
	if (ret || m->datatype == 14 || m->datatype == 15)
		return -FI_EOPNOTSUPP;
	if (m->iov_count > 4 || req->cmp.iov_count > 4 || req->res.iov_count > 4 || m->rma_iov_count > EFA_IOV_MAX ||
	    !m->rma_iov_count)
		return -FI_EINVAL;
	lock_acquire(&ep->domain->kit.lock);
	peer = efa_peer_find(ep, m->addr);
	tx = peer ? efa_tx_get(ep, peer, kind) : NULL;
	if (!tx) {
		lock_release(&ep->domain->kit.lock);
		return peer ? -FI_EAGAIN : -FI_EINVAL;
	}
	tx->flags = flags;
	tx->injected = flags & FI_INJECT;
	tx->wants_cqe = kit_tx_wants_cqe(&ep->kit, flags) && !(flags & EFA_NO_CQE);
	tx->cq_flags = FI_ATOMIC | (kind == EFA_TX_ATOMIC ? FI_WRITE : FI_READ);
	tx->context = m->context;
	tx->tag = 0;
	tx->has_data = false;
	tx->data = 0;
	ret = fill(tx, req, dt_size);
	if (!ret && (flags & FI_INJECT) && tx->len > ep->inject_atomic)
		ret = -FI_EINVAL;
	if (ret)
		efa_tx_put(tx);
	else
		ret = efa_tx_start(tx);
	if (!ret)
		efanic_doorbell(ep->qp);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static int valid(struct fid_ep *fid, enum kit_atomic_kind kind, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	int ret = dt == 14 || dt == 15 ? -FI_EOPNOTSUPP : kit_atomic_valid(kind, dt, op);

	(void)fid;
	if (!ret && count)
		*count = (kind == KIT_ATOMIC_COMPARE ? EFA_ATOMIC_MAX / 2 : EFA_ATOMIC_MAX) / kit_dt_size(dt);
	return ret;
}

int efa_query_atomic(struct fid_domain *domain, enum fi_datatype dt, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags)
{
	int kind = kit_atomic_query_kind(attr, flags);
	int ret = kind < 0 ? kind : valid(NULL, (enum kit_atomic_kind)kind, dt, op, NULL);

	(void)domain;
	if (ret)
		return ret;
	attr->size = kit_dt_size(dt);
	attr->count = (kind == KIT_ATOMIC_COMPARE ? EFA_ATOMIC_MAX / 2 : EFA_ATOMIC_MAX) / attr->size;
	return 0;
}

const struct kit_atomic_ops efa_atomic_ops = KIT_ATOMIC_OPS(atomic, valid);
