// SPDX-License-Identifier: BSD-2-Clause
// What an object answers where its provider has nothing to offer: every table complete, no pointer
// NULL.
//
// Control calls say -FI_ENOSYS, data transfers -FI_EOPNOTSUPP, options -FI_ENOPROTOOPT: the codes
// that callers probe for.
#include "kit/kit_int.h"

#include <rdma/fi_collective.h>

int kit_no_close(struct fid *fid)
{
	return -FI_ENOSYS;
}

int kit_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return -FI_ENOSYS;
}

int kit_no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

int kit_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return -FI_ENOSYS;
}

int kit_no_tostr(const struct fid *fid, char *buf, size_t len)
{
	return -FI_ENOSYS;
}

int kit_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	return -FI_ENOSYS;
}

const struct fi_ops kit_no_fi_ops = KIT_FI_OPS(kit_no_close, kit_no_bind, kit_no_control);

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **dom,
			 void *context)
{
	return -FI_ENOSYS;
}

static int fabric_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			     void *context)
{
	return -FI_ENOSYS;
}

static int fabric_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
			  void *context)
{
	return -FI_ENOSYS;
}

static int fabric_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			    struct fid_wait **waitset)
{
	return -FI_ENOSYS;
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	return -FI_ENOSYS;
}

static int fabric_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **dom,
			  uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

const struct fi_ops_fabric kit_no_fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = fabric_domain,
	.passive_ep = fabric_passive_ep,
	.eq_open = fabric_eq_open,
	.wait_open = fabric_wait_open,
	.trywait = fabric_trywait,
	.domain2 = fabric_domain2,
};

static int domain_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
			  void *context)
{
	return -FI_ENOSYS;
}

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
			  void *context)
{
	return -FI_ENOSYS;
}

static int domain_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			   void *context)
{
	return -FI_ENOSYS;
}

static int domain_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
			      void *context)
{
	return -FI_ENOSYS;
}

static int domain_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
			    struct fid_cntr **cntr, void *context)
{
	return -FI_ENOSYS;
}

static int domain_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
			    struct fid_poll **pollset)
{
	return -FI_ENOSYS;
}

static int domain_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
			  void *context)
{
	return -FI_ENOSYS;
}

static int domain_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
			  void *context)
{
	return -FI_ENOSYS;
}

static int domain_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
			       struct fi_atomic_attr *attr, uint64_t flags)
{
	return -FI_ENOSYS;
}

static int domain_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
				   struct fi_collective_attr *attr, uint64_t flags)
{
	return -FI_ENOSYS;
}

static int domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			    uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

const struct fi_ops_domain kit_no_domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = domain_av_open,
	.cq_open = domain_cq_open,
	.endpoint = domain_endpoint,
	.scalable_ep = domain_scalable_ep,
	.cntr_open = domain_cntr_open,
	.poll_open = domain_poll_open,
	.stx_ctx = domain_stx_ctx,
	.srx_ctx = domain_srx_ctx,
	.query_atomic = domain_query_atomic,
	.query_collective = domain_query_collective,
	.endpoint2 = domain_endpoint2,
};

ssize_t kit_no_cancel(struct fid *fid, void *context)
{
	return -FI_ENOSYS;
}

int kit_no_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen)
{
	return -FI_ENOPROTOOPT;
}

int kit_no_setopt(struct fid *fid, int level, int optname, const void *optval, size_t optlen)
{
	return -FI_ENOPROTOOPT;
}

int kit_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
		  void *context)
{
	return -FI_ENOSYS;
}

int kit_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		  void *context)
{
	return -FI_ENOSYS;
}

ssize_t kit_no_rx_size_left(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

ssize_t kit_no_tx_size_left(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

const struct fi_ops_ep kit_no_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = kit_no_cancel,
	.getopt = kit_no_getopt,
	.setopt = kit_no_setopt,
	.tx_ctx = kit_no_tx_ctx,
	.rx_ctx = kit_no_rx_ctx,
	.rx_size_left = kit_no_rx_size_left,
	.tx_size_left = kit_no_tx_size_left,
};

int kit_no_setname(struct fid *fid, void *addr, size_t addrlen)
{
	return -FI_ENOSYS;
}

int kit_no_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	return -FI_ENOSYS;
}

int kit_no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return -FI_ENOSYS;
}

int kit_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

int kit_no_listen(struct fid_pep *pep)
{
	return -FI_ENOSYS;
}

int kit_no_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

int kit_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

int kit_no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return -FI_ENOSYS;
}

int kit_no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		void *context)
{
	return -FI_ENOSYS;
}

const struct fi_ops_cm kit_no_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = kit_no_setname,
	.getname = kit_no_getname,
	.getpeer = kit_no_getpeer,
	.connect = kit_no_connect,
	.listen = kit_no_listen,
	.accept = kit_no_accept,
	.reject = kit_no_reject,
	.shutdown = kit_no_shutdown,
	.join = kit_no_join,
};

ssize_t kit_no_msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr)
{
	return -FI_EOPNOTSUPP;
}

const struct fi_ops_msg kit_no_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = kit_no_msg_recv,
	.recvv = kit_no_msg_recvv,
	.recvmsg = kit_no_msg_recvmsg,
	.send = kit_no_msg_send,
	.sendv = kit_no_msg_sendv,
	.sendmsg = kit_no_msg_sendmsg,
	.inject = kit_no_msg_inject,
	.senddata = kit_no_msg_senddata,
	.injectdata = kit_no_msg_injectdata,
};

ssize_t kit_no_tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			   uint64_t tag, uint64_t ignore, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			   fi_addr_t dest_addr, uint64_t tag, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t dest_addr, uint64_t tag, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
			     uint64_t tag)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
	return -FI_EOPNOTSUPP;
}

ssize_t kit_no_tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				 fi_addr_t dest_addr, uint64_t tag)
{
	return -FI_EOPNOTSUPP;
}

const struct fi_ops_tagged kit_no_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = kit_no_tagged_recv,
	.recvv = kit_no_tagged_recvv,
	.recvmsg = kit_no_tagged_recvmsg,
	.send = kit_no_tagged_send,
	.sendv = kit_no_tagged_sendv,
	.sendmsg = kit_no_tagged_sendmsg,
	.inject = kit_no_tagged_inject,
	.senddata = kit_no_tagged_senddata,
	.injectdata = kit_no_tagged_injectdata,
};

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			uint64_t addr, uint64_t key, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
			  uint64_t addr, uint64_t key)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	return -FI_EOPNOTSUPP;
}

const struct fi_ops_rma kit_no_rma_ops = {
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

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			    enum fi_datatype datatype, enum fi_op op, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *comparev, void **compare_desc,
				 size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
			     size_t *count)
{
	return -FI_EOPNOTSUPP;
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return -FI_EOPNOTSUPP;
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	return -FI_EOPNOTSUPP;
}

const struct fi_ops_atomic kit_no_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};

static ssize_t coll_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
			      fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
			      uint64_t flags, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			     void *result, void *result_desc, fi_addr_t coll_addr,
			     enum fi_datatype datatype, uint64_t flags, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			      void *result, void *result_desc, fi_addr_t coll_addr,
			      enum fi_datatype datatype, enum fi_op op, uint64_t flags,
			      void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_allgather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			      void *result, void *result_desc, fi_addr_t coll_addr,
			      enum fi_datatype datatype, uint64_t flags, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_reduce_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				   void *result, void *result_desc, fi_addr_t coll_addr,
				   enum fi_datatype datatype, enum fi_op op, uint64_t flags,
				   void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			   void *result, void *result_desc, fi_addr_t coll_addr,
			   fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op,
			   uint64_t flags, void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    void *result, void *result_desc, fi_addr_t coll_addr,
			    fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
			    void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			   void *result, void *result_desc, fi_addr_t coll_addr,
			   fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
			   void *context)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
			struct fi_ioc *resultv, void **result_desc, size_t result_count,
			uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static ssize_t coll_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags, void *context)
{
	return -FI_EOPNOTSUPP;
}

const struct fi_ops_collective kit_no_collective_ops = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = coll_barrier,
	.broadcast = coll_broadcast,
	.alltoall = coll_alltoall,
	.allreduce = coll_allreduce,
	.allgather = coll_allgather,
	.reduce_scatter = coll_reduce_scatter,
	.reduce = coll_reduce,
	.scatter = coll_scatter,
	.gather = coll_gather,
	.msg = coll_msg,
	.barrier2 = coll_barrier2,
};
