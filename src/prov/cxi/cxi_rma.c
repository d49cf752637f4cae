// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes. Source: doc/facts/cxi.md#reads-and-writes.
#include <string.h>

#include "base/log.h"
#include "fi_cxi_ext.h"
#include "prov/cxi/cxi.h"

#define LEVELS (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define READMSG_FLAGS  (FI_COMPLETION | FI_MORE | FI_FENCE | LEVELS | FI_CXI_UNRELIABLE)
#define WRITEMSG_FLAGS (READMSG_FLAGS | FI_INJECT | FI_CXI_HRP)

static void rma_on_event(struct cxi_req *req, const struct cassini_event *ev)
{
	cxi_tx_done(container_of(req, struct cxi_tx, req), ev->rc);
}

static int args_check(const struct cxi_ep *ep, const struct cxi_rma_args *a)
{
	if (unlikely(a->len > CXI_MSG_MAX || (a->inject && a->len > CXI_INJECT_MAX)))
		return -FI_EMSGSIZE;
	if (unlikely(a->len && !a->buf))
		return -FI_EINVAL;
	return unlikely((a->flags & FI_FENCE) && !(ep->kit.caps & FI_FENCE)) ? -FI_EINVAL : 0;
}

/*
 * Restricted commands are neither ordered nor matched, so only regions with an entry of their own take them, and only
 * while no order was asked for.
 */
static bool is_restricted(const struct cxi_ep *ep, const struct cxi_rma_args *a, const struct cxi_rkey *rkey)
{
	return rkey->optimized && !(a->kind == CXI_TX_WRITE && (ep->msg_order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW)));
}

static void build(struct cxi_tx *tx, const struct cxi_rma_args *a, const struct cxi_rkey *rkey)
{
	const struct cxi_params *p = &tx->ep->domain->params;
	bool restricted = is_restricted(tx->ep, a, rkey), is_write = a->kind == CXI_TX_WRITE;
	size_t idc_max = restricted ? CASSINI_IDC_RESTRICTED_MAX : CASSINI_IDC_MAX;
	struct cassini_cmd *cmd = &tx->cmd;

	cmd->opcode = is_write ? CASSINI_OP_PUT : CASSINI_OP_GET;
	cmd->pid_idx = rkey->pid_idx;
	cmd->pid = tx->dest.pid;
	cmd->nic = tx->dest.nic;
	cmd->flags = restricted ? CASSINI_CMD_RESTRICTED : 0;
	if (is_write && a->len && a->len <= idc_max && (a->inject || (!a->work.trig && !p->disable_non_inject_rma_idc)))
		cmd->flags |= CASSINI_CMD_INLINE;
	if (a->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE))
		cmd->flags |= CASSINI_CMD_FLUSH;
	if (a->flags & FI_CXI_HRP)
		cmd->flags |= CASSINI_CMD_HRP;
	cmd->request_len = (uint32_t)a->len;
	cmd->ct = NULL;
	cmd->local_addr = a->buf;
	cmd->remote_offset = a->addr;
	cmd->match_bits = rkey->match_bits | (a->flags & FI_REMOTE_CQ_DATA ? CXI_KEY_SOL : 0);
	cmd->header_data = a->data;
}

ssize_t cxi_rma_common(struct cxi_ep *ep, const struct cxi_rma_args *a)
{
	const struct cxi_av *av = container_of(ep->kit.av, struct cxi_av, kit);
	struct cxi_dest dest;
	struct cxi_rkey rkey;
	struct cxi_tx *tx;
	int ret = args_check(ep, a);

	ret = ret ? ret : cxi_av_dest(av, a->dest, &dest);
	ret = ret ? ret : cxi_rkey_decode(ep->domain, a->key, &rkey);
	if (unlikely(ret))
		return ret;
	if (unlikely((a->flags & FI_CXI_HRP) && !is_restricted(ep, a, &rkey)))
		return -FI_EINVAL;
	tx = cxi_tx_get(ep, a->kind, a->flags, a->context);
	if (unlikely(!tx))
		return -FI_EAGAIN;
	tx->req.on_event = rma_on_event;
	tx->cqe_flags = FI_RMA | (a->kind == CXI_TX_WRITE ? FI_WRITE : FI_READ);
	tx->len = (uint32_t)a->len;
	tx->buf = a->buf;
	tx->tag = 0;
	tx->dest = dest;
	if (a->no_cqe) {
		tx->wants_cqe = false;
		tx->is_silent = true;
	}
	build(tx, a, &rkey);
	tx->cmd.dom = cxi_portal_dom(tx->portal, dest.vni);
	ret = tx->cmd.dom ? cxi_tx_start(tx, &a->work) : -FI_EINVAL;
	if (unlikely(ret))
		cxi_tx_put(tx);
	return ret;
}

/* --- the calls ----------------------------------------------------------------------------------- */

static inline ssize_t do_rma(struct fid_ep *fid, const struct cxi_rma_args *a)
{
	struct cxi_ep *ep = cxi_ep_of(fid);
	ssize_t ret = cxi_tx_state(ep);

	if (unlikely(ret))
		return ret;
	lock_acquire(&ep->domain->kit.lock);
	ret = cxi_rma_common(ep, a);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static inline uint64_t default_flags(struct fid_ep *fid)
{
	return cxi_ep_of(fid)->kit.tx_op_flags & ~FI_REMOTE_CQ_DATA; /* the calls that have data say so */
}

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
		.kind = is_write ? CXI_TX_WRITE : CXI_TX_READ,
		.buf = msg->iov_count ? msg->msg_iov->iov_base : NULL,
		.len = msg->iov_count ? msg->msg_iov->iov_len : 0,
		.dest = msg->addr,
		.addr = msg->rma_iov->addr,
		.key = msg->rma_iov->key,
		.data = msg->data,
		.context = msg->context,
		.flags = flags,
		.inject = flags & FI_INJECT,
	};
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	return do_rma(fid, &(struct cxi_rma_args){.kind = CXI_TX_READ, .buf = buf, .len = len, .dest = src, .addr = addr, .key = key,
						  .context = context, .flags = default_flags(fid) & ~(uint64_t)FI_INJECT});
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
			 void *context)
{
	if (count > 1 || (count && !iov))
		return -FI_EINVAL;
	return rma_read(fid, count ? iov->iov_base : NULL, count ? iov->iov_len : 0, desc ? *desc : NULL, src, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	int ret = cxi_rma_msg_check(msg, flags, false);
	struct cxi_rma_args a;

	if (ret)
		return ret;
	a = cxi_rma_from_msg(msg, flags, false);
	return do_rma(fid, &a);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t addr, uint64_t key,
			 void *context)
{
	(void)desc;
	return do_rma(fid, &(struct cxi_rma_args){.kind = CXI_TX_WRITE, .buf = buf, .len = len, .dest = dest, .addr = addr, .key = key,
						  .context = context, .flags = default_flags(fid),
						  .inject = (default_flags(fid) & FI_INJECT) && len <= CXI_INJECT_MAX});
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, uint64_t addr,
			  uint64_t key, void *context)
{
	if (count > 1 || (count && !iov))
		return -FI_EINVAL;
	return rma_write(fid, count ? iov->iov_base : NULL, count ? iov->iov_len : 0, desc ? *desc : NULL, dest, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	int ret = cxi_rma_msg_check(msg, flags, true);
	struct cxi_rma_args a;

	if (ret)
		return ret;
	a = cxi_rma_from_msg(msg, flags, true);
	return do_rma(fid, &a);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key)
{
	return do_rma(fid, &(struct cxi_rma_args){.kind = CXI_TX_WRITE, .buf = buf, .len = len, .dest = dest, .addr = addr, .key = key,
						  .flags = FI_INJECT, .inject = true, .no_cqe = true});
}

/* fi_writedata works only when FI_CXI_ENABLE_WRITEDATA says so, on regions with provider keys. */
static int data_check(struct fid_ep *fid, uint64_t key)
{
	const struct cxi_domain *d = cxi_ep_of(fid)->domain;

	if (!d->params.enable_writedata)
		return -FI_ENOSYS;
	return !(key & CXI_KEY_PROV) || (key & CXI_KEY_OPT) ? -FI_EINVAL : 0;
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest, uint64_t addr,
			     uint64_t key, void *context)
{
	int ret = data_check(fid, key);

	(void)desc;
	if (ret)
		return ret;
	return do_rma(fid, &(struct cxi_rma_args){.kind = CXI_TX_WRITE, .buf = buf, .len = len, .dest = dest, .addr = addr, .key = key,
						  .data = data, .context = context, .flags = default_flags(fid) | FI_REMOTE_CQ_DATA});
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key)
{
	int ret = data_check(fid, key);

	if (ret)
		return ret;
	return do_rma(fid, &(struct cxi_rma_args){.kind = CXI_TX_WRITE, .buf = buf, .len = len, .dest = dest, .addr = addr, .key = key,
						  .data = data, .flags = FI_INJECT | FI_REMOTE_CQ_DATA, .inject = true, .no_cqe = true});
}

struct fi_ops_rma cxi_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
