// SPDX-License-Identifier: BSD-2-Clause
// Every call of libfabric that libopx-fi.so has as a function of its own: the one list, from which the declarations of
// programs built with -DFABRIC_DIRECT come, the functions themselves (src/prov/opx/opx_direct.c) and their test.
#ifndef FI_DIRECT_OPX_H
#define FI_DIRECT_OPX_H

/*
 * X(name of the call, table of the object, its entry, parameters, arguments). All return ssize_t; the library calls it
 * opx_<name>.
 */
#define FI_OPX_DIRECT_MSG(X)                                                                                           \
	X(fi_recv, ep->msg, recv,                                                                                      \
	  (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context),                       \
	  (ep, buf, len, desc, src, context))                                                                          \
	X(fi_recvv, ep->msg, recvv,                                                                                    \
	  (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t src, void *context),        \
	  (ep, iov, desc, cnt, src, context))                                                                          \
	X(fi_recvmsg, ep->msg, recvmsg, (struct fid_ep * ep, const struct fi_msg *m, uint64_t flags), (ep, m, flags))  \
	X(fi_send, ep->msg, send,                                                                                      \
	  (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context),                  \
	  (ep, buf, len, desc, to, context))                                                                           \
	X(fi_sendv, ep->msg, sendv,                                                                                    \
	  (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t to, void *context),         \
	  (ep, iov, desc, cnt, to, context))                                                                           \
	X(fi_sendmsg, ep->msg, sendmsg, (struct fid_ep * ep, const struct fi_msg *m, uint64_t flags), (ep, m, flags))  \
	X(fi_inject, ep->msg, inject, (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t to),                 \
	  (ep, buf, len, to))                                                                                          \
	X(fi_senddata, ep->msg, senddata,                                                                              \
	  (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, void *context),   \
	  (ep, buf, len, desc, data, to, context))                                                                     \
	X(fi_injectdata, ep->msg, injectdata,                                                                          \
	  (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t to), (ep, buf, len, data, to))

#define FI_OPX_DIRECT_TAGGED(X)                                                                                        \
	X(fi_trecv, ep->tagged, recv,                                                                                  \
	  (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore,        \
	   void *context),                                                                                             \
	  (ep, buf, len, desc, src, tag, ignore, context))                                                             \
	X(fi_trecvv, ep->tagged, recvv,                                                                                \
	  (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t src, uint64_t tag,          \
	   uint64_t ignore, void *context),                                                                            \
	  (ep, iov, desc, cnt, src, tag, ignore, context))                                                             \
	X(fi_trecvmsg, ep->tagged, recvmsg, (struct fid_ep * ep, const struct fi_msg_tagged *m, uint64_t flags),       \
	  (ep, m, flags))                                                                                              \
	X(fi_tsend, ep->tagged, send,                                                                                  \
	  (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag, void *context),    \
	  (ep, buf, len, desc, to, tag, context))                                                                      \
	X(fi_tsendv, ep->tagged, sendv,                                                                                \
	  (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t to, uint64_t tag,           \
	   void *context),                                                                                             \
	  (ep, iov, desc, cnt, to, tag, context))                                                                      \
	X(fi_tsendmsg, ep->tagged, sendmsg, (struct fid_ep * ep, const struct fi_msg_tagged *m, uint64_t flags),       \
	  (ep, m, flags))                                                                                              \
	X(fi_tinject, ep->tagged, inject,                                                                              \
	  (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag), (ep, buf, len, to, tag))      \
	X(fi_tsenddata, ep->tagged, senddata,                                                                          \
	  (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, uint64_t tag,     \
	   void *context),                                                                                             \
	  (ep, buf, len, desc, data, to, tag, context))                                                                \
	X(fi_tinjectdata, ep->tagged, injectdata,                                                                      \
	  (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t to, uint64_t tag),                \
	  (ep, buf, len, data, to, tag))

#define FI_OPX_DIRECT_RMA(X)                                                                                           \
	X(fi_read, ep->rma, read,                                                                                      \
	  (struct fid_ep * ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr, uint64_t key,         \
	   void *context),                                                                                             \
	  (ep, buf, len, desc, from, addr, key, context))                                                              \
	X(fi_readv, ep->rma, readv,                                                                                    \
	  (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t from, uint64_t addr,        \
	   uint64_t key, void *context),                                                                               \
	  (ep, iov, desc, cnt, from, addr, key, context))                                                              \
	X(fi_readmsg, ep->rma, readmsg, (struct fid_ep * ep, const struct fi_msg_rma *m, uint64_t flags),              \
	  (ep, m, flags))                                                                                              \
	X(fi_write, ep->rma, write,                                                                                    \
	  (struct fid_ep * ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr, uint64_t key,     \
	   void *context),                                                                                             \
	  (ep, buf, len, desc, to, addr, key, context))                                                                \
	X(fi_writev, ep->rma, writev,                                                                                  \
	  (struct fid_ep * ep, const struct iovec *iov, void **desc, size_t cnt, fi_addr_t to, uint64_t addr,          \
	   uint64_t key, void *context),                                                                               \
	  (ep, iov, desc, cnt, to, addr, key, context))                                                                \
	X(fi_writemsg, ep->rma, writemsg, (struct fid_ep * ep, const struct fi_msg_rma *m, uint64_t flags),            \
	  (ep, m, flags))                                                                                              \
	X(fi_inject_write, ep->rma, inject,                                                                            \
	  (struct fid_ep * ep, const void *buf, size_t len, fi_addr_t to, uint64_t addr, uint64_t key),                \
	  (ep, buf, len, to, addr, key))                                                                               \
	X(fi_writedata, ep->rma, writedata,                                                                            \
	  (struct fid_ep * ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, uint64_t addr,    \
	   uint64_t key, void *context),                                                                               \
	  (ep, buf, len, desc, data, to, addr, key, context))                                                          \
	X(fi_inject_writedata, ep->rma, injectdata,                                                                    \
	  (struct fid_ep * ep, const void *buf, size_t len, uint64_t data, fi_addr_t to, uint64_t addr, uint64_t key), \
	  (ep, buf, len, data, to, addr, key))

#define FI_OPX_DIRECT_ATOMIC(X)                                                                                        \
	X(fi_atomic, ep->atomic, write,                                                                                \
	  (struct fid_ep * ep, const void *buf, size_t cnt, void *desc, fi_addr_t to, uint64_t addr, uint64_t key,     \
	   enum fi_datatype dt, enum fi_op op, void *context),                                                         \
	  (ep, buf, cnt, desc, to, addr, key, dt, op, context))                                                        \
	X(fi_atomicv, ep->atomic, writev,                                                                              \
	  (struct fid_ep * ep, const struct fi_ioc *iov, void **desc, size_t cnt, fi_addr_t to, uint64_t addr,         \
	   uint64_t key, enum fi_datatype dt, enum fi_op op, void *context),                                           \
	  (ep, iov, desc, cnt, to, addr, key, dt, op, context))                                                        \
	X(fi_atomicmsg, ep->atomic, writemsg, (struct fid_ep * ep, const struct fi_msg_atomic *m, uint64_t flags),     \
	  (ep, m, flags))                                                                                              \
	X(fi_inject_atomic, ep->atomic, inject,                                                                        \
	  (struct fid_ep * ep, const void *buf, size_t cnt, fi_addr_t to, uint64_t addr, uint64_t key,                 \
	   enum fi_datatype dt, enum fi_op op),                                                                        \
	  (ep, buf, cnt, to, addr, key, dt, op))                                                                       \
	X(fi_fetch_atomic, ep->atomic, readwrite,                                                                      \
	  (struct fid_ep * ep, const void *buf, size_t cnt, void *desc, void *res, void *res_desc, fi_addr_t to,       \
	   uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op, void *context),                            \
	  (ep, buf, cnt, desc, res, res_desc, to, addr, key, dt, op, context))                                         \
	X(fi_fetch_atomicv, ep->atomic, readwritev,                                                                    \
	  (struct fid_ep * ep, const struct fi_ioc *iov, void **desc, size_t cnt, struct fi_ioc *res, void **res_desc, \
	   size_t res_cnt, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op,              \
	   void *context),                                                                                             \
	  (ep, iov, desc, cnt, res, res_desc, res_cnt, to, addr, key, dt, op, context))                                \
	X(fi_fetch_atomicmsg, ep->atomic, readwritemsg,                                                                \
	  (struct fid_ep * ep, const struct fi_msg_atomic *m, struct fi_ioc *res, void **res_desc, size_t res_cnt,     \
	   uint64_t flags),                                                                                            \
	  (ep, m, res, res_desc, res_cnt, flags))                                                                      \
	X(fi_compare_atomic, ep->atomic, compwrite,                                                                    \
	  (struct fid_ep * ep, const void *buf, size_t cnt, void *desc, const void *cmp, void *cmp_desc, void *res,    \
	   void *res_desc, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op,              \
	   void *context),                                                                                             \
	  (ep, buf, cnt, desc, cmp, cmp_desc, res, res_desc, to, addr, key, dt, op, context))                          \
	X(fi_compare_atomicv, ep->atomic, compwritev,                                                                  \
	  (struct fid_ep * ep, const struct fi_ioc *iov, void **desc, size_t cnt, const struct fi_ioc *cmp,            \
	   void **cmp_desc, size_t cmp_cnt, struct fi_ioc *res, void **res_desc, size_t res_cnt, fi_addr_t to,         \
	   uint64_t addr, uint64_t key, enum fi_datatype dt, enum fi_op op, void *context),                            \
	  (ep, iov, desc, cnt, cmp, cmp_desc, cmp_cnt, res, res_desc, res_cnt, to, addr, key, dt, op, context))        \
	X(fi_compare_atomicmsg, ep->atomic, compwritemsg,                                                              \
	  (struct fid_ep * ep, const struct fi_msg_atomic *m, const struct fi_ioc *cmp, void **cmp_desc,               \
	   size_t cmp_cnt, struct fi_ioc *res, void **res_desc, size_t res_cnt, uint64_t flags),                       \
	  (ep, m, cmp, cmp_desc, cmp_cnt, res, res_desc, res_cnt, flags))

#define FI_OPX_DIRECT_CQ(X)                                                                                            \
	X(fi_cq_read, cq->ops, read, (struct fid_cq * cq, void *buf, size_t cnt), (cq, buf, cnt))                      \
	X(fi_cq_readfrom, cq->ops, readfrom, (struct fid_cq * cq, void *buf, size_t cnt, fi_addr_t *src),              \
	  (cq, buf, cnt, src))                                                                                         \
	X(fi_cq_readerr, cq->ops, readerr, (struct fid_cq * cq, struct fi_cq_err_entry * buf, uint64_t flags),         \
	  (cq, buf, flags))                                                                                            \
	X(fi_cq_sread, cq->ops, sread, (struct fid_cq * cq, void *buf, size_t cnt, const void *cond, int timeout),     \
	  (cq, buf, cnt, cond, timeout))                                                                               \
	X(fi_cq_sreadfrom, cq->ops, sreadfrom,                                                                         \
	  (struct fid_cq * cq, void *buf, size_t cnt, fi_addr_t *src, const void *cond, int timeout),                  \
	  (cq, buf, cnt, src, cond, timeout))

/* As programs see the functions of the list: under the names of libfabric. */
#define FI_OPX_DIRECT_DECLARE(name, table, op, params, args) ssize_t name params __asm__("opx_" #name);

/* What is not worth a function of its own goes through the tables, as without FABRIC_DIRECT. */
#define FI_OPX_DIRECT_BY_TABLE(ret, name, params, call)                                                                \
	static inline ret name params                                                                                  \
	{                                                                                                              \
		return call;                                                                                           \
	}

#endif
