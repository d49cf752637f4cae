// SPDX-License-Identifier: BSD-2-Clause
// The message, tagged and RMA calls of libfabric, written once: each becomes one request for the provider.
#ifndef SF_KIT_CALL_H
#define SF_KIT_CALL_H

#include "kit/srx.h"

/*
 * A provider has one function per kind of request, and includes the calls in front of it into its own file:
 * call_send.inc, call_recv.inc, call_rma.inc. They are no functions of this module because a small send must not pay
 * for a request in memory: where the provider's function is inline, the compiler keeps all of it in registers and knows
 * @form and @tagged when it compiles.
 */

/* Which flags count: the endpoint's; the endpoint's, and no completion; those of the call. */
enum kit_form { KIT_BY_ARGS, KIT_BY_INJECT, KIT_BY_MSG };

/** struct kit_send - One of the twelve sending calls, unchecked. */
struct kit_send {
	enum kit_form form;
	bool tagged;
	bool is_vec;	 /* the bytes are in @iov, not in @buf */
	const void *buf; /* @len bytes */
	size_t len;
	const struct iovec *iov; /* @iov_cnt pieces, with @descs or NULL */
	void *const *descs;
	size_t iov_cnt;
	void *desc; /* of @buf */
	fi_addr_t to;
	uint64_t tag, data;
	void *context;
	uint64_t flags; /* KIT_BY_MSG: the caller's; else what the call means: FI_REMOTE_CQ_DATA, FI_INJECT */
};

/** kit_tx_flags() - Of an operation: the endpoint's, or the call's, with FI_COMPLETION where nothing selects. */
static inline uint64_t kit_tx_flags(const struct kit_ep *ep, enum kit_form form, uint64_t flags)
{
	if (form == KIT_BY_MSG)
		return flags | (ep->tx_selective ? 0 : FI_COMPLETION);
	return ep->tx_op_flags | flags;
}

/* Into a struct fi_ops_msg, fi_ops_tagged. */
#define KIT_MSG_TX                                                                                                     \
	.send = msg_send, .sendv = msg_sendv, .sendmsg = msg_sendmsg, .inject = msg_inject, .senddata = msg_senddata,  \
	.injectdata = msg_injectdata
#define KIT_TAG_TX                                                                                                     \
	.send = tag_send, .sendv = tag_sendv, .sendmsg = tag_sendmsg, .inject = tag_inject, .senddata = tag_senddata,  \
	.injectdata = tag_injectdata

/** struct kit_recv - One of the six receiving calls, unchecked. */
struct kit_recv {
	enum kit_form form;
	bool tagged;
	bool is_vec; /* the memory is @iov, not @buf */
	void *buf;   /* @len bytes */
	size_t len;
	const struct iovec *iov; /* @iov_cnt pieces, with @descs or NULL */
	void **descs;
	size_t iov_cnt;
	void *desc; /* of @buf */
	fi_addr_t src;
	uint64_t tag, ignore;
	void *context;
	uint64_t flags; /* KIT_BY_MSG: what the caller gave */
};

/** kit_rx_flags() - As kit_tx_flags(). A tagged receive is never one for many messages because its endpoint says so. */
static inline uint64_t kit_rx_flags(const struct kit_ep *ep, const struct kit_recv *r)
{
	if (r->form == KIT_BY_MSG)
		return r->flags | (ep->rx_selective ? 0 : FI_COMPLETION);
	return ep->rx_op_flags & ~(r->tagged ? (uint64_t)FI_MULTI_RECV : 0);
}

/** kit_recv_args_of() - @r for kit_srx_recv(), or, where it is no vector, with its buffer for kit_srx_post(). */
static inline struct kit_recv_args kit_recv_args_of(const struct kit_ep *ep, const struct kit_recv *r)
{
	return (struct kit_recv_args){.iov = r->iov,
				      .desc = r->descs,
				      .iov_cnt = r->iov_cnt,
				      .src = r->src,
				      .tag = r->tag,
				      .ignore = r->ignore,
				      .context = r->context,
				      .flags = kit_rx_flags(ep, r)};
}

/* What call_recv.inc defines in a file of the provider @p_, for its header; and for the tables, beside its sends. */
#define KIT_RECV_CALLS(p_)                                                                                             \
	ssize_t p_##_msg_recv(struct fid_ep *, void *, size_t, void *, fi_addr_t, void *);                             \
	ssize_t p_##_msg_recvv(struct fid_ep *, const struct iovec *, void **, size_t, fi_addr_t, void *);             \
	ssize_t p_##_msg_recvmsg(struct fid_ep *, const struct fi_msg *, uint64_t);                                    \
	ssize_t p_##_tag_recv(struct fid_ep *, void *, size_t, void *, fi_addr_t, uint64_t, uint64_t, void *);         \
	ssize_t p_##_tag_recvv(struct fid_ep *, const struct iovec *, void **, size_t, fi_addr_t, uint64_t, uint64_t,  \
			       void *);                                                                                \
	ssize_t p_##_tag_recvmsg(struct fid_ep *, const struct fi_msg_tagged *, uint64_t)
#define KIT_MSG_RX(p_) .recv = p_##_msg_recv, .recvv = p_##_msg_recvv, .recvmsg = p_##_msg_recvmsg
#define KIT_TAG_RX(p_) .recv = p_##_tag_recv, .recvv = p_##_tag_recvv, .recvmsg = p_##_tag_recvmsg

/** struct kit_rma - One of the nine reading and writing calls, unchecked. */
struct kit_rma {
	enum kit_form form;
	bool is_write;
	const struct fi_msg_rma *m;
	uint64_t flags; /* as of struct kit_send */
};

/* Into a struct fi_ops_rma. */
#define KIT_RMA                                                                                                        \
	.read = rma_read, .readv = rma_readv, .readmsg = rma_readmsg, .write = rma_write, .writev = rma_writev,        \
	.writemsg = rma_writemsg, .inject = rma_inject, .writedata = rma_writedata, .injectdata = rma_injectdata

#endif
