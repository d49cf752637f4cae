// SPDX-License-Identifier: BSD-2-Clause
// FI_RMA, target's side: every packet's key, range and right are checked; and what comes back to the initiator of a
// read.
#include "prov/opx/opx.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/log.h"

static void answer(struct opx_peer *peer, uint32_t handle, enum opx_status st)
{
	if (handle == OPX_DATA_HANDLE)
		return;
	if (st)
		LOG_INFO("one-sided request of context %u at LID %u refused: %s", peer->uid & 0xff, peer->uid >> 8,
			 opx_strerror((int)st));
	if (st || handle != OPX_NO_HANDLE)
		opx_done_send(peer, handle, st);
}

static void count(struct opx_ep *ep, enum kit_cntr_kind kind)
{
	if (unlikely(ep->kit.cntr[kind] != NULL))
		kit_cntr_add(ep->kit.cntr[kind], 1, 0);
}

/*
 * Of a write to [.., @end) by @handle: packets of it may still come, and do not make it whole. If its data are still to
 * be announced, that will be refused.
 */
static void lost_note(struct opx_peer *peer, uint32_t handle, uint64_t key, uint64_t end, enum opx_status why)
{
	struct opx_lost *l = &peer->lost[handle == OPX_DATA_HANDLE];

	*l = (struct opx_lost){.why = (uint8_t)why, .handle = handle, .key = key, .end = end};
}

static bool is_lost(const struct opx_peer *peer, uint32_t handle, uint64_t key, uint64_t end)
{
	const struct opx_lost *l = &peer->lost[handle == OPX_DATA_HANDLE];

	return unlikely(l->why) && l->handle == handle && l->key == key && l->end == end;
}

/* Why this write, of which no more will come, has failed; OPX_OK: it has not. The next one may have its name. */
static enum opx_status lost_take(struct opx_peer *peer, uint32_t handle, uint64_t key, uint64_t end)
{
	struct opx_lost *l = &peer->lost[handle == OPX_DATA_HANDLE];
	enum opx_status why = is_lost(peer, handle, key, end) ? (enum opx_status)l->why : OPX_OK;

	if (why)
		l->why = OPX_OK;
	return why;
}

/* The same of one whose last packet is here: its data, if it has any, are still to be announced. */
static bool has_failed(struct opx_peer *peer, uint32_t handle, uint64_t key, uint64_t end)
{
	return handle == OPX_DATA_HANDLE ? is_lost(peer, handle, key, end) : lost_take(peer, handle, key, end);
}

void opx_on_put(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t off = le64_get(h->w[0]), key = le64_get(h->w[1]), end = le64_get(h->tag);
	uint32_t handle = le32_get(h->imm);
	bool is_last = off + data->len == end;
	enum opx_status why = OPX_OK;
	void *at = opx_mr_find(peer->ep->domain, key, off, data->len, FI_REMOTE_WRITE, &why);

	if (at && unlikely(!guard_view(data, 0, at, data->len)))
		why = OPX_ST_GONE;
	if (unlikely(why) && (!is_last || handle == OPX_DATA_HANDLE))
		lost_note(peer, handle, key, end, why);
	if (is_last && !has_failed(peer, handle, key, end) && !why)
		count(peer->ep, KIT_CNTR_REMOTE_WRITE);
	if (is_last || why)
		answer(peer, handle, why);
}

/* --- data that go by a copy between processes ------------------------------------------------------------------- */

/* A write with CQ data of @len bytes is done. */
static void data_done(struct opx_peer *peer, uint32_t handle, uint64_t len, uint32_t data)
{
	if (peer->ep->kit.rx_cq)
		kit_cq_push(peer->ep->kit.rx_cq, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, len, NULL, data, 0,
			    opx_peer_name(peer));
	answer(peer, handle, OPX_OK);
}

static enum opx_status copy_status(int status)
{
	if (!status)
		return OPX_OK;
	return status == -FI_EACCES ? OPX_ST_GONE : OPX_ST_COPY; /* no more than that is said on the wire */
}

static void on_copied(struct opx_copy *c, int status)
{
	struct opx_op *op = container_of(c, struct opx_op, cp);

	op->is_copying = false;
	if (!op->is_over && status && op->peer_handle == OPX_DATA_HANDLE) {
		op->why = copy_status(status); /* told when its data are announced */
		return;
	}
	if (!op->is_over) {
		if (!status)
			count(op->ep, c->op == HFI_COPY_GET ? KIT_CNTR_REMOTE_WRITE : KIT_CNTR_REMOTE_READ);
		if (op->has_data && !status)
			data_done(op->peer, op->peer_handle, op->len, (uint32_t)op->data);
		else
			answer(op->peer, op->peer_handle, copy_status(status));
	}
	op->is_posted = true;
	opx_op_check(op);
}

static struct opx_op *serve_op(struct opx_peer *peer, const struct hfi_hdr *h, void *at, uint64_t len)
{
	struct opx_op *op = opx_op_get(peer, OPX_OP_SERVE);

	if (!op)
		return NULL;
	op->peer_handle = le32_get(h->imm);
	op->mr_key = le64_get(h->w[1]);
	op->iov[0] = (struct iovec){at, len};
	op->iov_cnt = 1;
	op->len = len;
	opx_op_wait(op);
	opx_quota_add(peer, OPX_Q_SERVED, 1);
	return op;
}

/* @dir: HFI_COPY_GET a write, HFI_COPY_PUT a read. */
static void serve_copy(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data, int dir)
{
	uint64_t len = le64_get(h->tag);
	uint32_t handle = le32_get(h->imm);
	enum opx_status why = OPX_OK;
	uint64_t access = dir == HFI_COPY_GET ? FI_REMOTE_WRITE : FI_REMOTE_READ;
	void *at = opx_mr_find(peer->ep->domain, le64_get(h->w[1]), le64_get(h->w[0]), len, access, &why);
	struct opx_op *op = at ? serve_op(peer, h, at, len) : NULL;

	if (!op) {
		why = why ? why : OPX_ST_NOMEM;
	} else if (!hfi_dst_is_local(peer->flow.dst) || !opx_pieces_take(&op->cp, data, len)) {
		peer->ep->stats.rx_malformed++;
		opx_op_abandon(op);
		why = OPX_ST_COPY;
	}
	if (why) {
		if (handle == OPX_DATA_HANDLE) /* told when its data are announced */
			lost_note(peer, handle, le64_get(h->w[1]), le64_get(h->w[0]) + len, why);
		answer(peer, handle, why);
		return;
	}
	op->cp.peer = peer;
	op->cp.op = dir;
	op->cp.iov = op->iov;
	op->cp.iov_cnt = 1;
	op->cp.want = len;
	op->cp.end = on_copied;
	op->is_copying = true;
	opx_copy_start(&op->cp);
}

/*
 * The copy that fills @at, or could not, of a write whose data have not been announced yet: the oldest one. NULL: there
 * is none.
 */
static struct opx_op *copy_of(struct opx_peer *peer, const void *at, uint64_t len)
{
	struct opx_op *op, *oldest = NULL;

	LIST_FOREACH(op, &peer->ops, link)
		if (op->kind == OPX_OP_SERVE && !op->is_over && op->peer_handle == OPX_DATA_HANDLE &&
		    op->iov[0].iov_base == at && op->len == len)
			oldest = op;
	return oldest;
}

/* What it speaks of came before it; a copy may not have ended yet. */
static void on_put_data(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t len = le64_get(h->tag);
	enum opx_status why = OPX_OK, lost;
	uint32_t handle, value = le32_get(h->imm);
	struct opx_op *op;
	le32_t raw;
	void *at;

	view_copy(data, 0, &raw, sizeof(raw));
	handle = le32_get(raw);
	at = opx_mr_find(peer->ep->domain, le64_get(h->w[1]), le64_get(h->w[0]), len, FI_REMOTE_WRITE, &why);
	op = at ? copy_of(peer, at, len) : NULL;
	/* in any case: the note is of this write, and must not meet the next one to this place */
	lost = lost_take(peer, OPX_DATA_HANDLE, le64_get(h->w[1]), le64_get(h->w[0]) + len);
	why = why ? why : lost;
	if (why) {
		answer(peer, handle, why);
	} else if (op && op->why) {
		answer(peer, handle, (enum opx_status)op->why);
		opx_op_abandon(op);
	} else if (op) {
		op->has_data = true;
		op->data = value;
		op->peer_handle = handle;
	} else {
		data_done(peer, handle, len, value);
	}
}

void opx_on_rma(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	if (h->aux == OPX_SUB_PUT_LOCAL)
		serve_copy(peer, h, data, HFI_COPY_GET);
	else
		on_put_data(peer, h, data);
}

void opx_on_get_request(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t len = le64_get(h->tag);
	uint32_t handle = le32_get(h->imm);
	enum opx_status why = OPX_OK;
	struct opx_op *op;
	void *at;

	if (data->len) {
		serve_copy(peer, h, data, HFI_COPY_PUT);
		return;
	}
	at = opx_mr_find(peer->ep->domain, le64_get(h->w[1]), le64_get(h->w[0]), len, FI_REMOTE_READ, &why);
	if (at && !len)
		count(peer->ep, KIT_CNTR_REMOTE_READ);
	if (!at || !len) {
		answer(peer, handle, why);
		return;
	}
	op = serve_op(peer, h, at, len);
	if (!op) {
		answer(peer, handle, OPX_ST_NOMEM);
		return;
	}
	opx_op_pump(op);
}

/* --- the region goes ----------------------------------------------------------------------------- */

#define GONE_POLLS 1000000 /* where time is a model's, which stands still meanwhile */
#define GONE_NS	   NS_PER_SEC /* of all operations of a region together: nothing else goes on meanwhile */

struct gone {
	const struct opx_mr *mr;
	struct opx_op *op;
};

static void gone_look(void *obj, void *arg)
{
	struct opx_op *op = obj;
	struct gone *g = arg;
	uintptr_t at = (uintptr_t)op->iov[0].iov_base, lo = (uintptr_t)g->mr->addr;

	if (op->kind == OPX_OP_SERVE && (!op->is_over || op->is_copying) && at >= lo && at - lo <= g->mr->len &&
	    op->mr_key == g->mr->key)
		g->op = op;
}

/*
 * One pass of all endpoints: a peer whose acknowledgement is waited for may itself be closing a region, and wait for
 * another one of ours.
 */
static void gone_poll(struct opx_domain *d)
{
	struct opx_ep *ep;

	LIST_FOREACH(ep, &d->eps, domain_link)
		if (ep->kit.enabled) /* others are served when they are ready for it */
			hfi_ctxt_poll(ep->hw);
}

/* End @op, for its initiator and as a user of the region. */
static void gone_end(struct opx_ep *ep, struct opx_op *op, uint64_t end_ns)
{
	uint64_t now = hfi_now_ns(ep->hfi);
	uint32_t id = opx_op_handle(op);

	if (!op->is_over) {
		answer(op->peer, op->peer_handle, OPX_ST_KEY);
		opx_op_fail(op, FI_EKEYREJECTED, OPX_ST_KEY);
	}
	while (slab_find(&ep->op_slab, id) && op->is_copying && !opx_copy_stop(&op->cp))
		kit_yield(&ep->domain->kit);
	for (int still = 0; still < GONE_POLLS && slab_find(&ep->op_slab, id) && now < end_ns;) {
		uint64_t last = now;

		gone_poll(ep->domain);
		now = hfi_now_ns(ep->hfi);
		still = now == last ? still + 1 : 0;
	}
	if (!slab_find(&ep->op_slab, id))
		return;
	LOG_WARN("region 0x%llx closed while packets of it wait for a process that does not answer",
		 (unsigned long long)op->mr_key);
	op->mr_key = UINT64_MAX; /* no region has it */
}

void opx_mr_gone(struct opx_mr *mr)
{
	uint64_t end_ns = 0;
	struct opx_ep *ep;

	LIST_FOREACH(ep, &mr->domain->eps, domain_link) {
		struct gone g = {.mr = mr};

		ep->holds++;
		while (slab_foreach(&ep->op_slab, gone_look, &g), g.op) {
			end_ns = end_ns ? end_ns : hfi_now_ns(ep->hfi) + GONE_NS;
			gone_end(ep, g.op, end_ns);
			g.op = NULL;
		}
		ep->holds--;
	}
}

/* --- initiator: the bytes of a read -------------------------------------------------------------- */

void opx_on_get_data(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t off = le64_get(h->w[0]);
	struct opx_op *op = opx_op_find(peer, (uint32_t)le64_get(h->w[1]));

	if (!op)
		return;
	/* they are sent, and delivered, in order */
	if (op->kind != OPX_OP_READ || off != op->got || data->len > op->len - off) {
		peer->ep->stats.rx_malformed++;
		return;
	}
	for (uint32_t i = 0; i < data->seg_cnt; i++)
		off += kit_iov_copy_to(op->iov, op->iov_cnt, off, data->seg[i].p, data->seg[i].len);
	if (unlikely(off < op->got + data->len)) {
		opx_op_fail(op, opx_err_of(OPX_ST_GONE), OPX_ST_GONE);
		return;
	}
	op->got += data->len;
	if (op->got < op->len)
		return;
	op->is_done = true;
	opx_op_check(op);
}
