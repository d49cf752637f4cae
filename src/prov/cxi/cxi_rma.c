// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes. Source: doc/facts/cxi.md#reads-and-writes.
#include <string.h>

#include "base/log.h"
#include "fi_cxi_ext.h"
#include "prov/cxi/cxi.h"

#define READMSG_FLAGS  (FI_COMPLETION | FI_MORE | FI_FENCE | CXI_LEVELS | FI_CXI_UNRELIABLE)
#define WRITEMSG_FLAGS (READMSG_FLAGS | FI_INJECT | FI_CXI_HRP)

/* --- what atomics have, too ---------------------------------------------------------------------- */

static void far_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	cxi_tx_done(container_of(req, struct cxi_tx, req), ev->rc);
}

int cxi_far_find(const struct cxi_ep *ep, const struct cxi_far *f, struct cxi_dest *dest, struct cxi_rkey *rkey)
{
	int ret = (f->flags & FI_FENCE) && !(ep->kit.caps & FI_FENCE) ? -FI_EINVAL : 0;

	ret = ret ? ret : cxi_av_dest(container_of(ep->kit.av, struct cxi_av, kit), f->dest, dest);
	return ret ? ret : cxi_rkey_decode(ep->domain, f->key, rkey);
}

struct cxi_tx *cxi_far_get(struct cxi_ep *ep, const struct cxi_far *f, const struct cxi_dest *dest,
			   const struct cxi_rkey *rkey)
{
	static const uint64_t cqe_flags[CXI_TX_KIND_NUM] = {
		[CXI_TX_READ] = FI_RMA | FI_READ,
		[CXI_TX_WRITE] = FI_RMA | FI_WRITE,
		[CXI_TX_ATOMIC] = FI_ATOMIC | FI_WRITE,
		[CXI_TX_FETCH] = FI_ATOMIC | FI_READ,
	};
	struct cxi_tx *tx = cxi_tx_get(ep, f->kind, f->flags, f->context);

	if (unlikely(!tx))
		return NULL;
	tx->req.on_event = far_on_event;
	tx->cqe_flags = cqe_flags[f->kind];
	tx->buf = NULL;
	tx->tag = 0;
	tx->dest = *dest;
	tx->wants_cqe = tx->wants_cqe && !f->no_cqe;
	tx->is_silent = f->no_cqe;
	tx->cmd.pid_idx = rkey->pid_idx;
	tx->cmd.pid = dest->pid;
	tx->cmd.nic = dest->nic;
	tx->cmd.flags = f->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE) ? CASSINI_CMD_FLUSH : 0;
	tx->cmd.dom = cxi_portal_dom(tx->portal, dest->vni);
	tx->cmd.ct = NULL;
	tx->cmd.local_addr = NULL;
	tx->cmd.remote_offset = f->addr;
	tx->cmd.match_bits = rkey->match_bits;
	tx->cmd.header_data = 0;
	return tx;
}

int cxi_far_start(struct cxi_tx *tx, const struct cxi_far *f)
{
	int ret = tx->cmd.dom ? cxi_tx_start(tx, &f->work) : -FI_EINVAL;

	if (unlikely(ret))
		cxi_tx_put(tx);
	return ret;
}

/* --- one operation ------------------------------------------------------------------------------- */

static int args_check(const struct cxi_rma_args *a)
{
	if (unlikely(a->len > CXI_MSG_MAX || (a->far.inject && a->len > CXI_INJECT_MAX)))
		return -FI_EMSGSIZE;
	return unlikely(a->len && !a->buf) ? -FI_EINVAL : 0;
}

/*
 * Restricted commands are neither ordered nor matched, so only regions with an entry of their own take them, and only
 * while no order was asked for.
 */
static bool is_restricted(const struct cxi_ep *ep, const struct cxi_rma_args *a, const struct cxi_rkey *rkey)
{
	return rkey->optimized && !(a->far.kind == CXI_TX_WRITE && (ep->msg_order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW)));
}

static void build(struct cxi_tx *tx, const struct cxi_rma_args *a, bool restricted)
{
	const struct cxi_params *p = &tx->ep->domain->params;
	size_t idc_max = restricted ? CASSINI_IDC_RESTRICTED_MAX : CASSINI_IDC_MAX;
	bool is_write = a->far.kind == CXI_TX_WRITE;
	struct cassini_cmd *cmd = &tx->cmd;

	cmd->opcode = is_write ? CASSINI_OP_PUT : CASSINI_OP_GET;
	cmd->flags |= restricted ? CASSINI_CMD_RESTRICTED : 0;
	if (is_write && a->len && a->len <= idc_max &&
	    (a->far.inject || (!a->far.work.trig && !p->disable_non_inject_rma_idc)))
		cmd->flags |= CASSINI_CMD_INLINE;
	if (a->far.flags & FI_CXI_HRP)
		cmd->flags |= CASSINI_CMD_HRP;
	cmd->request_len = (uint32_t)a->len;
	cmd->local_addr = a->buf;
	cmd->match_bits |= a->far.flags & FI_REMOTE_CQ_DATA ? CXI_KEY_SOL : 0;
	cmd->header_data = a->data;
	tx->len = (uint32_t)a->len;
	tx->buf = a->buf;
}

ssize_t cxi_rma_common(struct cxi_ep *ep, const struct cxi_rma_args *a)
{
	struct cxi_dest dest;
	struct cxi_rkey rkey;
	struct cxi_tx *tx;
	int ret = args_check(a);

	ret = ret ? ret : cxi_far_find(ep, &a->far, &dest, &rkey);
	if (unlikely(ret))
		return ret;
	if (unlikely((a->far.flags & FI_REMOTE_CQ_DATA) && dest.rx_idx)) {
		LOG_INFO("write with data to receive context %u refused: it names no context, and the first one would "
			 "tell of it",
			 dest.rx_idx);
		return -FI_EINVAL;
	}
	if (unlikely((a->far.flags & FI_CXI_HRP) && !is_restricted(ep, a, &rkey)))
		return -FI_EINVAL;
	tx = cxi_far_get(ep, &a->far, &dest, &rkey);
	if (unlikely(!tx))
		return -FI_EAGAIN;
	build(tx, a, is_restricted(ep, a, &rkey));
	return cxi_far_start(tx, &a->far);
}

/* --- the calls ----------------------------------------------------------------------------------- */

int cxi_rma_msg_check(const struct fi_msg_rma *msg, uint64_t flags, bool is_write)
{
	if (!msg || msg->iov_count > 1 || msg->rma_iov_count != 1 || !msg->rma_iov || (msg->iov_count && !msg->msg_iov))
		return -FI_EINVAL;
	if (flags & ~(is_write ? WRITEMSG_FLAGS : READMSG_FLAGS))
		return -FI_EBADFLAGS;
	if (msg->iov_count && msg->msg_iov->iov_len != msg->rma_iov->len)
		return -FI_EINVAL;
	return 0;
}

struct cxi_rma_args cxi_rma_from_msg(const struct fi_msg_rma *msg, uint64_t flags, bool is_write)
{
	return (struct cxi_rma_args){
		.far = {.kind = is_write ? CXI_TX_WRITE : CXI_TX_READ,
			.dest = msg->addr,
			.addr = msg->rma_iov->addr,
			.key = msg->rma_iov->key,
			.context = msg->context,
			.flags = flags,
			.inject = flags & FI_INJECT},
		.buf = msg->iov_count ? msg->msg_iov->iov_base : NULL,
		.len = msg->iov_count ? msg->msg_iov->iov_len : 0,
		.data = msg->data,
	};
}

/* fi_writedata works only when FI_CXI_ENABLE_WRITEDATA says so, on regions with provider keys. */
static int data_check(const struct cxi_ep *ep, const struct fi_msg_rma *m)
{
	uint64_t key = m->rma_iov->key;

	if (!ep->domain->params.enable_writedata)
		return -FI_ENOSYS;
	return !(key & CXI_KEY_PROV) || (key & CXI_KEY_OPT) ? -FI_EINVAL : 0;
}

/* The flags of a call that has none are the endpoint's, without those that only a call can mean. */
static uint64_t call_flags(const struct cxi_ep *ep, const struct kit_rma *r)
{
	uint64_t own = ep->kit.tx_op_flags & ~(FI_REMOTE_CQ_DATA | (r->is_write ? 0 : (uint64_t)FI_INJECT));

	return r->form == KIT_BY_ARGS ? own | r->flags : r->flags;
}

/* An endpoint's FI_INJECT counts for a write without data that fits. */
static bool is_injected(const struct cxi_ep *ep, const struct kit_rma *r, size_t len)
{
	if (r->form == KIT_BY_ARGS)
		return r->is_write && !r->flags && (ep->kit.tx_op_flags & FI_INJECT) && len <= CXI_INJECT_MAX;
	return r->flags & FI_INJECT;
}

static ssize_t do_rma(struct fid_ep *fid, const struct kit_rma *r)
{
	struct cxi_ep *ep = cxi_ep_of(fid);
	struct cxi_rma_args a;
	ssize_t ret = cxi_rma_msg_check(r->m, r->form == KIT_BY_MSG ? r->flags : 0, r->is_write);

	if (!ret && r->form != KIT_BY_MSG && r->flags & FI_REMOTE_CQ_DATA)
		ret = data_check(ep, r->m);
	ret = ret ? ret : cxi_tx_state(ep);
	if (unlikely(ret))
		return ret;
	a = cxi_rma_from_msg(r->m, call_flags(ep, r), r->is_write);
	a.far.inject = is_injected(ep, r, a.len);
	a.far.no_cqe = r->form == KIT_BY_INJECT;
	lock_acquire(&ep->domain->kit.lock);
	ret = cxi_rma_common(ep, &a);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

#include "kit/call_rma.inc"

struct fi_ops_rma cxi_rma_ops = {.size = sizeof(struct fi_ops_rma), KIT_RMA};
