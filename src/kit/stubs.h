// SPDX-License-Identifier: BSD-2-Clause
// What fails cleanly, entry by entry, and tables made of it: what an object's provider has nothing of.
#ifndef SF_KIT_STUBS_H
#define SF_KIT_STUBS_H

#include "kit/kit.h"

/*
 * Tables of operations are complete when the program starts: no thread ever sees one half filled, and no entry is NULL.
 * Each macro names those entries that objects differ in; what is missing is kit_no_...
 */
#define KIT_FI_OPS(close_, bind_, control_) KIT_FI_OPS_OPEN(close_, bind_, control_, kit_no_ops_open)
#define KIT_FI_OPS_OPEN(close_, bind_, control_, ops_open_)                                                            \
	{                                                                                                              \
		.size = sizeof(struct fi_ops), .close = close_, .bind = bind_, .control = control_,                    \
		.ops_open = ops_open_, .tostr = kit_no_tostr, .ops_set = kit_no_ops_set,                               \
	}
/* Of an endpoint or context, and of a scalable endpoint. */
#define KIT_EP_OPS(cancel_, getopt_, setopt_)                                                                          \
	{                                                                                                              \
		.size = sizeof(struct fi_ops_ep), .cancel = cancel_, .getopt = getopt_, .setopt = setopt_,             \
		.tx_ctx = kit_no_tx_ctx, .rx_ctx = kit_no_rx_ctx, .rx_size_left = kit_no_rx_size_left,                 \
		.tx_size_left = kit_no_tx_size_left,                                                                   \
	}
#define KIT_SEP_OPS(tx_ctx_, rx_ctx_)                                                                                  \
	{                                                                                                              \
		.size = sizeof(struct fi_ops_ep), .cancel = kit_no_cancel, .getopt = kit_no_getopt,                    \
		.setopt = kit_no_setopt, .tx_ctx = tx_ctx_, .rx_ctx = rx_ctx_, .rx_size_left = kit_no_rx_size_left,    \
		.tx_size_left = kit_no_tx_size_left,                                                                   \
	}
#define KIT_CM_OPS(getname_)                                                                                           \
	{                                                                                                              \
		.size = sizeof(struct fi_ops_cm), .setname = kit_no_setname, .getname = getname_,                      \
		.getpeer = kit_no_getpeer, .connect = kit_no_connect, .listen = kit_no_listen,                         \
		.accept = kit_no_accept, .reject = kit_no_reject, .shutdown = kit_no_shutdown, .join = kit_no_join,    \
	}
/* Half of a table, for a context that only receives, or only sends. */
#define KIT_NO_MSG_TX                                                                                                  \
	.send = kit_no_msg_send, .sendv = kit_no_msg_sendv, .sendmsg = kit_no_msg_sendmsg,                             \
	.inject = kit_no_msg_inject, .senddata = kit_no_msg_senddata, .injectdata = kit_no_msg_injectdata
#define KIT_NO_MSG_RX .recv = kit_no_msg_recv, .recvv = kit_no_msg_recvv, .recvmsg = kit_no_msg_recvmsg
#define KIT_NO_TAGGED_TX                                                                                               \
	.send = kit_no_tagged_send, .sendv = kit_no_tagged_sendv, .sendmsg = kit_no_tagged_sendmsg,                    \
	.inject = kit_no_tagged_inject, .senddata = kit_no_tagged_senddata, .injectdata = kit_no_tagged_injectdata
#define KIT_NO_TAGGED_RX .recv = kit_no_tagged_recv, .recvv = kit_no_tagged_recvv, .recvmsg = kit_no_tagged_recvmsg

int kit_no_close(struct fid *fid);
int kit_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int kit_no_control(struct fid *fid, int command, void *arg);
int kit_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int kit_no_tostr(const struct fid *fid, char *buf, size_t len);
int kit_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
ssize_t kit_no_cancel(struct fid *fid, void *context);
int kit_no_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen);
int kit_no_setopt(struct fid *fid, int level, int optname, const void *optval, size_t optlen);
int kit_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
		  void *context);
int kit_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		  void *context);
ssize_t kit_no_rx_size_left(struct fid_ep *ep);
ssize_t kit_no_tx_size_left(struct fid_ep *ep);
int kit_no_setname(struct fid *fid, void *addr, size_t addrlen);
int kit_no_getname(struct fid *fid, void *addr, size_t *addrlen);
int kit_no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int kit_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int kit_no_listen(struct fid_pep *pep);
int kit_no_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int kit_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
int kit_no_shutdown(struct fid_ep *ep, uint64_t flags);
int kit_no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		void *context);
ssize_t kit_no_msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context);
ssize_t kit_no_msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context);
ssize_t kit_no_msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
ssize_t kit_no_msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context);
ssize_t kit_no_msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, void *context);
ssize_t kit_no_msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
ssize_t kit_no_msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr);
ssize_t kit_no_msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, void *context);
ssize_t kit_no_msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr);
ssize_t kit_no_tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			   uint64_t tag, uint64_t ignore, void *context);
ssize_t kit_no_tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context);
ssize_t kit_no_tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
ssize_t kit_no_tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			   fi_addr_t dest_addr, uint64_t tag, void *context);
ssize_t kit_no_tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t dest_addr, uint64_t tag, void *context);
ssize_t kit_no_tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
ssize_t kit_no_tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
			     uint64_t tag);
ssize_t kit_no_tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context);
ssize_t kit_no_tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				 fi_addr_t dest_addr, uint64_t tag);

#endif
