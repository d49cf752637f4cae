// SPDX-License-Identifier: BSD-2-Clause
// Device API of the soft EFA adapter: what libibverbs and efadv would give a provider, with their names, limits and
// status codes.
#ifndef SF_NIC_EFANIC_EFANIC_H
#define SF_NIC_EFANIC_EFANIC_H

#include "base/base.h"
#include "base/lock.h"
#include "base/quota.h"
#include "base/view.h"
#include "nic/common/nic_stats.h"
#include "nic/efanic/efanic_gid.h"

/*
 * Theory of operation
 *
 * An efanic is one opened adapter (a protection domain and its context). Everything of it runs under one lock, handed
 * in at open; functions take it as held unless they say "not under the lock".
 *
 * Differences from verbs, all for speed: receive depth is a credit count (the adapter needs no buffers to hold a
 * packet: poll shows a borrowed view of it) except for queue pairs with posted buffers (UD, and the zero-copy queue
 * pair); a destination is resolved once into a struct efanic_dst (what a work request's AH + QPN + Q_Key name).
 */

struct calm; /* base/calm.h */
struct efanic;
struct efanic_qp;
struct efanic_mr;
struct efanic_dst;

#define EFANIC_MTU        8928u  /* largest SEND, bytes; port max_msg_sz */
#define EFANIC_UD_GRH_LEN 40u
#define EFANIC_SGE_MAX    5      /* gather pieces the soft send queue takes; the real limit, 2, is in the attributes */
#define EFANIC_AHN_UNKNOWN 0xffff
#define EFANIC_LKEY_INTERNAL 0u  /* memory of the provider itself: not checked */
#define EFANIC_RNR_INFINITE 7

/* Completion status, numbers of the device: doc/facts/efa.md#error-codes. */
enum efanic_status {
	EFANIC_OK = 0,
	EFANIC_FLUSHED = 1,
	EFANIC_LOCAL_QP_INTERNAL = 2,
	EFANIC_LOCAL_UNSUPPORTED_OP = 3,
	EFANIC_LOCAL_INVALID_AH = 4,
	EFANIC_LOCAL_INVALID_LKEY = 5,
	EFANIC_LOCAL_BAD_LENGTH = 6,
	EFANIC_REMOTE_BAD_ADDRESS = 7,
	EFANIC_REMOTE_ABORT = 8,
	EFANIC_REMOTE_BAD_DEST_QPN = 9,
	EFANIC_REMOTE_RNR = 10,
	EFANIC_REMOTE_BAD_LENGTH = 11,
	EFANIC_REMOTE_BAD_STATUS = 12,
	EFANIC_LOCAL_UNRESP_REMOTE = 13,
	EFANIC_REMOTE_UNKNOWN_PEER = 14,
	EFANIC_LOCAL_UNREACH_REMOTE = 15,
	EFANIC_REMOTE_FEATURE_MISMATCH = 18,
	EFANIC_STATUS_NUM
};
/** efanic_status_str() - Our words for a status; never NULL. */
const char *efanic_status_str(unsigned status);

enum efanic_opcode {
	EFANIC_OP_SEND, EFANIC_OP_READ, EFANIC_OP_WRITE, EFANIC_OP_RECV, EFANIC_OP_RECV_RDMA_IMM, EFANIC_OP_NUM
};
enum efanic_qp_type { EFANIC_QP_SRD, EFANIC_QP_UD };
enum efanic_qp_state {
	EFANIC_QPS_RESET, EFANIC_QPS_INIT, EFANIC_QPS_RTR, EFANIC_QPS_RTS, EFANIC_QPS_SQD, EFANIC_QPS_SQE,
	EFANIC_QPS_ERR, EFANIC_QPS_NUM
};

/* efadv device capability bits. */
enum {
	EFANIC_CAP_RDMA_READ = 1, EFANIC_CAP_RNR_RETRY = 2, EFANIC_CAP_CQ_WITH_SGID = 4, EFANIC_CAP_RDMA_WRITE = 8,
	EFANIC_CAP_UNSOLICITED_WRITE_RECV = 16,
};
enum { EFANIC_ACCESS_LOCAL_WRITE = 1, EFANIC_ACCESS_REMOTE_WRITE = 2, EFANIC_ACCESS_REMOTE_READ = 4 };

/* One adapter of the soft room, opened or not (ibv_query_device + efadv_query_device + sysfs). */
struct efanic_dev_attr {
	char name[32];            /* ibdev name, "rdmap0s6" */
	uint8_t gid[16];          /* network order; says what address it sends from (efanic_gid.h) */
	uint16_t host;            /* on loopback a hash of the host, which @gid does not tell, never 0; else 0 */
	uint16_t vendor_id;       /* 0x1d0f */
	uint16_t vendor_part_id;  /* 0xefa0 .. 0xefa4 */
	uint32_t device_caps;     /* EFANIC_CAP_* */
	uint32_t max_sq_wr, max_rq_wr;
	uint16_t max_sq_sge, max_rq_sge, inline_buf_size;
	uint32_t max_rdma_size, mtu;
	uint32_t max_qp, max_cq, max_ah, max_mr, max_pd;
	uint64_t max_mr_size;
	uint64_t speed_bps;
	bool has_hmem;	 /* the instance has GPUs, so that its provider offers FI_HMEM */
	bool is_lenient; /* takes verbs that real ones refuse: sends without a completion, remote atomics in regions */
	bool pci_always; /* tell the address also where the machine has no such device */
	uint16_t pci_domain;
	uint8_t pci_bus, pci_device, pci_function;
	char driver[16], fw_ver[16], hw_abi[8]; /* "efa", "0.0.0.0", "6" */
};

/**
 * efanic_dev_cnt() - Adapters in the soft room; 0 with one sentence in @err when the room is refused or the host cannot
 * be mapped.
 */
int efanic_dev_cnt(char *err, size_t err_len);
/** efanic_dev_query() - Return: 0; -ENODEV. Not under a lock. */
int efanic_dev_query(int idx, struct efanic_dev_attr *out);

struct efanic_open_attr {
	int dev_idx;
	struct lock *lock;
	/*
	 * Runs in the adapter thread, lock held, when the application does not poll, in place of efanic_serve(). NULL:
	 * just that.
	 */
	void (*service)(void *ctx);
	void *ctx;
	bool no_thread;    /* tests */
	const struct link_world *world; /* tests */
};
/** efanic_open() - Not under the lock. Return: 0; -ENODEV; -ENOMEM; -errno (logged). */
int efanic_open(const struct efanic_open_attr *attr, struct efanic **out);
/** efanic_close() - Everything of it must be closed. Not under the lock. */
void efanic_close(struct efanic *nic);
/**
 * efanic_serve() - What an adapter does while its host computes: accept packets, serve RDMA, acknowledge. Nothing is
 * reported. Lock held.
 */
void efanic_serve(struct efanic *nic);
const struct efanic_dev_attr *efanic_attr(const struct efanic *nic);
/** efanic_idle() - A poll found nothing: spin or yield. Not under the lock. */
void efanic_idle(struct efanic *nic);
bool efanic_forked(const struct efanic *nic);
/** efanic_fork_mark() - A byte that is 0 where efanic_forked() is true. NULL: there is none, ask efanic_forked(). */
const uint8_t *efanic_fork_mark(const struct efanic *nic);

/* --- address handles ---- one AH number per distinct GID, reference counted --------------------------------------- */
/** efanic_ah_open() - Return: 0; -ENOMEM: max_ah reached; -ENETUNREACH: no adapter can have @gid (logged). */
int efanic_ah_open(struct efanic *nic, const uint8_t gid[16], uint16_t *ahn);
void efanic_ah_close(struct efanic *nic, uint16_t ahn);

/* --- memory regions ----------------------------------------------------------------------------------------------- */
/*
 * @pd: protection domain, up to EFANIC_PD_MAX. A queue pair uses the regions of its own, and so do its peers by RDMA,
 * to which those of domain 0 are open through every queue pair: a program that has only one says 0.
 */
#define EFANIC_PD_MAX ((1u << 29) - 1)
struct efanic_mr_attr { void *addr; size_t len; unsigned access; uint32_t pd; };
/**
 * efanic_mr_reg() - Return: 0; -EOPNOTSUPP access the generation lacks; -ENOMEM max_mr or max_mr_size exceeded (logged
 * with the limit).
 */
int efanic_mr_reg(struct efanic *nic, const struct efanic_mr_attr *attr, struct efanic_mr **out);
/** efanic_mr_dereg() - On return no peer touches the memory. */
void efanic_mr_dereg(struct efanic_mr *mr);
uint32_t efanic_mr_lkey(const struct efanic_mr *mr);
uint32_t efanic_mr_rkey(const struct efanic_mr *mr); /* 0 if there is no remote access */

/* --- queue pairs -------------------------------------------------------------------------------------------------- */

/* A work completion. Views and pointers are borrowed for the duration of the handler call. */
struct efanic_wc {
	uint64_t wr_id;            /* send side, and posted receives; 0 for credit receives and unsolicited */
	uint8_t status;            /* enum efanic_status = vendor_err */
	uint8_t opcode;            /* enum efanic_opcode */
	bool has_imm, unsolicited;
	uint32_t imm;
	uint32_t byte_len;         /* receive side, payload bytes (UD: GRH included) */
	uint16_t src_qpn, src_ahn; /* receive side; EFANIC_AHN_UNKNOWN: no AH for that GID */
	const uint8_t *src_ip;     /* 16 bytes: for efanic_wc_gid() */
	/* receive side: where an answer would go (Q_Key as the sender's port announced it) */
	struct efanic_dst *src;
	struct view data;          /* receive side without posted buffers: the packet */
};
/** efanic_wc_gid() - Receive side: the sender's GID. All zero: nobody sent it, the status is an error of our own. */
static inline void efanic_wc_gid(const struct efanic_wc *wc, uint8_t gid[16])
{
	efanic_gid_of_ip(wc->src_ip, gid);
}
typedef void (*efanic_wc_fn)(void *ctx, const struct efanic_wc *wc);
/*
 * A received SEND without immediate in a queue pair with credits, which nearly every completion is: what
 * the first row of the door hands over.
 * @src: efanic_dst_user() of where an answer would go.
 * Return: 0: taken, and its receive is posted again; or what efanic_pass() says, by which efanic_wc_fn gets it.
 */
typedef int (*efanic_send_fn)(void *ctx, void *src, const uint8_t *data, uint32_t len);

struct efanic_qp_attr {
	enum efanic_qp_type type;
	uint32_t sq_depth, rq_depth;   /* work requests; <= device limits */
	uint32_t qkey;                 /* also part of the address; SRD: != 0 */
	uint32_t pd;                   /* as in efanic_mr_attr */
	/* SRD: modify may set another Q_Key, 0 too, until there was traffic; the next of a QPN may have the same. */
	bool late_qkey;
	bool unsolicited_write_recv;
	bool posted_buffers;           /* receives need efanic_post_recv() with buffers (always so for UD) */
	bool no_shm;                   /* send to this host through the network path too */
	uint8_t sl;                    /* service level, kept for queries */
	efanic_send_fn on_send;        /* may be NULL */
	efanic_wc_fn on_wc;            /* completions, called from efanic_poll() only */
	void *ctx;
};
/**
 * efanic_qp_open() - In state RESET; qpn known. Return: 0; -EINVAL above a limit (logged); -ENOMEM max_qp; -EOPNOTSUPP;
 * -errno.
 */
int efanic_qp_open(struct efanic *nic, const struct efanic_qp_attr *attr, struct efanic_qp **out);
/**
 * efanic_qp_close() - Pending work ends with FLUSHED, delivered through on_wc before it returns; drains
 * acknowledgements, bounded.
 */
void efanic_qp_close(struct efanic_qp *qp);
uint16_t efanic_qp_qpn(const struct efanic_qp *qp);

enum {
	EFANIC_QPA_STATE = 1, EFANIC_QPA_PKEY_INDEX = 2, EFANIC_QPA_PORT = 4, EFANIC_QPA_QKEY = 8,
	EFANIC_QPA_SQ_PSN = 16, EFANIC_QPA_RNR_RETRY = 32, EFANIC_QPA_CUR_STATE = 64,
	EFANIC_QPA_EN_SQD_ASYNC_NOTIFY = 128
};
struct efanic_qp_mod {
	enum efanic_qp_state state;
	uint16_t pkey_index;
	uint8_t port;
	uint32_t qkey, sq_psn;
	uint8_t rnr_retry;
};
/**
 * efanic_qp_modify() - The SRD/UD state table of the kernel driver. In a state that takes nothing peers begin no RDMA
 * through @qp any more; efanic_qp_settle() waits for what they have begun.
 * Return: 0; -EINVAL illegal transition, bit missing or not allowed there; -EOPNOTSUPP port != 1, pkey_index != 0, or
 * what the adapter or its Q_Key does not take.
 */
int efanic_qp_modify(struct efanic_qp *qp, const struct efanic_qp_mod *mod, unsigned mask);
/**
 * efanic_qp_settle() - Where the state of @qp takes nothing: waits, as efanic_mr_dereg() does, until no peer reads or
 * writes by RDMA through it, or another thread has moved it on to a state that does. The lock is free meanwhile.
 */
void efanic_qp_settle(struct efanic_qp *qp);
/** efanic_qp_to_rts() - INIT, RTR, RTS in a row with @rnr_retry (0..7). */
int efanic_qp_to_rts(struct efanic_qp *qp, uint8_t rnr_retry);

/**
 * efanic_dst_get() - What (AH, QPN, Q_Key) names, as seen by @qp; one reference. Return: 0; -EINVAL no such AH;
 * -ENOMEM; -ENETUNREACH.
 */
int efanic_dst_get(struct efanic_qp *qp, uint16_t ahn, uint16_t qpn, uint32_t qkey, struct efanic_dst **out);
void efanic_dst_put(struct efanic_dst *dst);
/**
 * efanic_dst_find() - The same by GID, if somebody holds one: no reference, no address handle needed. NULL: nobody
 * does.
 */
struct efanic_dst *efanic_dst_find(struct efanic_qp *qp, const uint8_t gid[16], uint16_t qpn, uint32_t qkey);
/**
 * efanic_dst_hold() - Keep a wc->src beyond its handler call: one reference, for efanic_dst_put().
 * A sender needs no address handle: that an earlier one to there was closed does not count for it.
 * @out: the handle to use from then on; a sender that nobody has asked for has its user pointer only from there.
 * Return: 0; -ENOMEM; -EINVAL not of @qp.
 */
int efanic_dst_hold(struct efanic_qp *qp, struct efanic_dst *dst, struct efanic_dst **out);
uint32_t efanic_dst_qkey(const struct efanic_dst *dst);      /* as asked for, or as the sender's port announced it */
/* the provider's pointer; NULL at first; also on wc->src */
void *efanic_dst_user(const struct efanic_dst *dst);
void efanic_dst_set_user(struct efanic_dst *dst, void *user);
bool efanic_dst_is_local(const struct efanic_dst *dst);       /* same host, through shared memory */

struct efanic_sge { const void *addr; uint32_t len; uint32_t lkey; };
struct efanic_wr {
	uint64_t wr_id;
	struct efanic_dst *dst;
	uint8_t opcode;           /* EFANIC_OP_SEND, READ, WRITE */
	bool has_imm;             /* SEND, WRITE */
	uint8_t sge_cnt;          /* READ, WRITE: 1 (device limit) */
	uint32_t imm;
	uint32_t rkey;            /* READ, WRITE */
	uint64_t raddr;
	struct efanic_sge sge[EFANIC_SGE_MAX];
};
/**
 * efanic_post_send() - Queue one work request; memory behind the SGEs stays unchanged until its completion.
 * Errors that hardware reports by completion (bad lkey, length, AH, peer) come as completions.
 * Return: 0; -ENOMEM send queue full, nothing queued; -EINVAL wrong state, opcode or sge count (logged).
 */
int efanic_post_send(struct efanic_qp *qp, const struct efanic_wr *wr);
/*
 * A SEND in the adapter's own memory: reserve, fill, commit. Nothing else of the queue pair is posted or polled between
 * efanic_begin() and efanic_commit(); what was begun need not be committed if efanic_may_wait() says so.
 */
#define EFANIC_OWN_MAX 152u /* bytes that a descriptor of the send queue has room for */
/**
 * efanic_begin() - Where to write a SEND of @len bytes, up to the MTU, to @dst: where the link takes it from, so that
 * it is copied once; or, where the link has no room now or others to @dst wait, into a descriptor of the send queue. A
 * longer one than EFANIC_OWN_MAX has only the former way, and only on one host, and so has one that not @may_wait.
 * Return: @len bytes; NULL: it cannot be posted now, efanic_post_send() says why, or would have to wait.
 */
uint8_t *efanic_begin(struct efanic_qp *qp, struct efanic_dst *dst, uint32_t len, bool may_wait);
/**
 * efanic_may_wait() - Does @buf of efanic_begin() lie in a descriptor, where it may wait? Else it leaves when it is
 * committed.
 */
bool efanic_may_wait(const struct efanic_qp *qp, const uint8_t *buf);
/**
 * efanic_commit() - The bytes are in place; the other arguments are those of efanic_begin().
 * @wr_id: as in a work request; 0, always so above EFANIC_OWN_MAX and of what not @may_wait: only a failure makes a
 * completion.
 * The completion of a failure has in data the bytes, until the handler posts, and in src the destination. No bytes:
 * there was no memory for them, and they are lost.
 */
void efanic_commit(struct efanic_qp *qp, struct efanic_dst *dst, uint8_t *buf, uint32_t len, uint64_t wr_id,
		   bool may_wait);
/** efanic_dst_source() - link_peer_source() of its peer. */
struct quota_source *efanic_dst_source(const struct efanic_dst *dst);
/** efanic_dst_shares_memory() - Is @dst on this host and its memory within reach of RDMA without packets? */
bool efanic_dst_shares_memory(const struct efanic_dst *dst);
/** efanic_doorbell() - Start what was posted; once per batch. */
void efanic_doorbell(struct efanic_qp *qp);
/** efanic_sq_free() - Send work requests that can be posted now. */
uint32_t efanic_sq_free(const struct efanic_qp *qp);
/** efanic_sq_is_empty() - Nothing that was posted is unfinished or unreported. */
bool efanic_sq_is_empty(const struct efanic_qp *qp);
/** efanic_sq_drains() - Requests that have begun are on their way: in SQD no more follow, and then there are none. */
bool efanic_sq_drains(const struct efanic_qp *qp);
/**
 * efanic_post_recv_credits() - Credit queue pairs: @n more packets may be received. Return: 0; -ENOMEM above rq_depth.
 */
int efanic_post_recv_credits(struct efanic_qp *qp, uint32_t n);
/** efanic_post_recv() - Queue pairs with posted buffers. Return: 0; -ENOMEM full; -EINVAL state or sge_cnt. */
int efanic_post_recv(struct efanic_qp *qp, uint64_t wr_id, const struct efanic_sge *sge, int sge_cnt);
/**
 * efanic_peek() - Show @fn the packets that were accepted while nobody polled, each once; on_wc will get them all the
 * same.
 */
void efanic_peek(struct efanic_qp *qp, efanic_wc_fn fn, void *ctx);
/**
 * efanic_pass() - From on_send, as its last act: the SEND that it is shown, @len bytes at @data, becomes a completion.
 * Return: what on_send returns.
 */
int efanic_pass(struct efanic_qp *qp, const uint8_t *data, uint32_t len);
/**
 * efanic_refuse() - From on_wc: the SEND that a credit receive brought is not taken; its sender is told that there was
 * no receive. The credit is the caller's to give back all the same. False: too late, it was accepted while nobody
 * polled; always so from efanic_peek().
 */
bool efanic_refuse(struct efanic_qp *qp);
/**
 * efanic_poll() - Move packets and hand completions to on_wc, in this call only. A credit receive is consumed per
 * packet.
 * Return: number of events, 0 = idle.
 */
int efanic_poll(struct efanic_qp *qp);
/** efanic_calm() - After one that found nothing: as link_calm(). */
bool efanic_calm(const struct efanic_qp *qp, struct calm *c, uint32_t passed);
/** efanic_wait_fd() - Readable when efanic_poll() may have work, after efanic_arm(). -ENOTSUP in a world of its own. */
int efanic_wait_fd(struct efanic_qp *qp);
/** efanic_arm() - About to sleep on efanic_wait_fd(). Return: 0 sleep; -EAGAIN there is work. */
int efanic_arm(struct efanic_qp *qp);

/* hw_counters of the adapter and of one queue pair; monotonic. Source: doc/facts/efa.md#counters. */
struct efanic_stats {
	uint64_t tx_bytes, tx_pkts, rx_bytes, rx_pkts, rx_drops;
	uint64_t send_bytes, send_wrs, recv_bytes, recv_wrs;
	uint64_t rdma_read_wrs, rdma_read_bytes, rdma_read_wr_err, rdma_read_resp_bytes;
	uint64_t rdma_write_wrs, rdma_write_bytes, rdma_write_wr_err, rdma_write_recv_bytes;
	uint64_t retrans_pkts, retrans_timeout_events, unresponsive_remote_events, impaired_remote_conn_events;
	uint64_t rnr_naks_rx, rnr_naks_tx, qkey_violations, malformed;
	uint64_t net_rx_dups; /* datagrams that came twice */
	struct nic_net_stats net;
};
/* Their names, one row for each: those of hw_counters. */
extern const struct stats_row efanic_stat_row[sizeof(struct efanic_stats) / sizeof(uint64_t)];
/** efanic_query_stats() - Sum over the adapter's queue pairs, closed ones included. */
void efanic_query_stats(const struct efanic *nic, struct efanic_stats *out);
void efanic_qp_query_stats(const struct efanic_qp *qp, struct efanic_stats *out);

#endif
