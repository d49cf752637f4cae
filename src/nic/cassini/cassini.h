// SPDX-License-Identifier: BSD-2-Clause
// Device API of the soft Cassini adapter: libcxi's objects (device, service, LNI, CP, Domain, command queue, EQ, CT,
// PTE, LE) and their rules.
#ifndef SF_NIC_CASSINI_CASSINI_H
#define SF_NIC_CASSINI_CASSINI_H

#include <bsd/sys/queue.h>

#include "base/base.h"
#include "base/lock.h"
#include "nic/common/nic_stats.h"

/*
 * Theory of operation
 *
 * A struct cassini is one opened adapter. Everything of it runs under one lock, handed in at open; functions take it as
 * held unless they say "not under the lock". Objects form libcxi's tree: adapter > LNI (opened on a service, which
 * limits what may be allocated) > communication profiles (VNI and traffic class), Domains ((NIC, VNI, PID), a granule
 * of 256 pid_idx), command queues, event queues, counting events, PTEs.
 *
 * What libcxi does through memory-mapped queues is a function call here: a command is a struct given to cassini_post(),
 * an event is a struct in the EQ's ring. Everything else is as on the adapter: matching, depositing, the Get of a
 * rendezvous, atomics, counting and triggered commands happen below this interface, in whoever polls the Domain: the
 * application, or the adapter thread while it computes.
 *
 * Addresses are virtual addresses of this process. A handle of ours never travels; what does is (nic, pid, vni),
 * pid_idx, match bits and offsets.
 *
 * Source of names, limits and numbers: doc/facts/cxi.md#objects-of-the-adapter, #numbers-of-the-adapter.
 */

struct calm; /* base/calm.h */
struct cassini;
struct cassini_lni;
struct cassini_cp;
struct cassini_dom;
struct cassini_cmdq;
struct cassini_ct;
struct cassini_pte;
struct cassini_le;

#define CASSINI_PID_BITS   9
#define CASSINI_PID_CNT    511u  /* 0..510 */
#define CASSINI_PID_ANY    511u
#define CASSINI_PID_IDX_CNT 256u /* granule */
#define CASSINI_NIC_MAX    0xfffffu /* 20 bits */
#define CASSINI_LCID_MAX   16u   /* communication profiles of an LNI */
#define CASSINI_SVC_VNI_MAX 4u
#define CASSINI_IDC_MAX    192u  /* payload in a command: unrestricted Put, small message */
#define CASSINI_IDC_RESTRICTED_MAX 224u
#define CASSINI_REQ_MAX    UINT32_MAX /* bytes of one command */
#define CASSINI_MATCH_ID_ANY 0xffffffffu
/** Who sends: the PID in the top 9 bits, the NIC address in the low 20. */
#define CASSINI_MATCH_ID(pid_, nic_) ((uint32_t)(pid_) << (32 - CASSINI_PID_BITS) | (uint32_t)(nic_))
#define CASSINI_MATCH_ID_PID(id_)    ((uint32_t)(id_) >> (32 - CASSINI_PID_BITS))
#define CASSINI_MATCH_ID_NIC(id_)    ((uint32_t)(id_) & CASSINI_NIC_MAX)

/* Return codes of commands and events, numbers of the device (C_RC_*). */
enum cassini_rc {
	CASSINI_RC_NO_EVENT = 0, CASSINI_RC_OK = 1, CASSINI_RC_UNDELIVERABLE = 2, CASSINI_RC_PT_DISABLED = 3,
	CASSINI_RC_DROPPED = 4, CASSINI_RC_PERM_VIOLATION = 5, CASSINI_RC_OP_VIOLATION = 6, CASSINI_RC_NO_MATCH = 8,
	CASSINI_RC_UNCOR = 9, CASSINI_RC_NO_SPACE = 16, CASSINI_RC_ENTRY_NOT_FOUND = 18, CASSINI_RC_NO_TARGET_CONN = 19,
	CASSINI_RC_NO_TARGET_MST = 20, CASSINI_RC_NO_TARGET_TRS = 21, CASSINI_RC_INVALID_DFA_FORMAT = 24,
	CASSINI_RC_VNI_NOT_FOUND = 25, CASSINI_RC_PTLTE_NOT_FOUND = 26, CASSINI_RC_PTLTE_SW_MANAGED = 27,
	CASSINI_RC_SRC_ERROR = 28, CASSINI_RC_MST_CANCELLED = 29, CASSINI_RC_INVALID_AC = 33,
	CASSINI_RC_NO_TRANSLATION = 36, CASSINI_RC_AMO_INVAL_OP_ERROR = 40, CASSINI_RC_AMO_ALIGN_ERROR = 41,
	CASSINI_RC_AMO_FP_INVALID = 42, CASSINI_RC_AMO_FP_UNDERFLOW = 43, CASSINI_RC_AMO_FP_OVERFLOW = 44,
	CASSINI_RC_AMO_FP_INEXACT = 45, CASSINI_RC_ILLEGAL_OP = 46, CASSINI_RC_INVALID_ENDPOINT = 47,
	CASSINI_RC_RESTRICTED_UNICAST = 48, CASSINI_RC_CMD_INVALID_ARG = 50, CASSINI_RC_ADDR_OUT_OF_RANGE = 52,
	CASSINI_RC_CONN_CLOSED = 53, CASSINI_RC_CANCELED = 54, CASSINI_RC_AMO_LENGTH_ERROR = 58,
	CASSINI_RC_RESOURCE_BUSY = 60, CASSINI_RC_NUM = 63
};
/** cassini_rc_str() - Its name without the prefix ("ENTRY_NOT_FOUND"); never NULL. */
const char *cassini_rc_str(unsigned rc);

enum cassini_tc {
	CASSINI_TC_DEDICATED_ACCESS, CASSINI_TC_LOW_LATENCY, CASSINI_TC_BULK_DATA, CASSINI_TC_BEST_EFFORT,
	CASSINI_TC_ETH, CASSINI_TC_NUM
};
enum cassini_tc_type {
	CASSINI_TC_TYPE_DEFAULT, CASSINI_TC_TYPE_HRP, CASSINI_TC_TYPE_RESTRICTED, CASSINI_TC_TYPE_COLL_LEAF,
	CASSINI_TC_TYPE_NUM
};

/* --- devices and services: the soft room SOFTFABRIC_CXI ------------------------------------------ */

/* What cxil_get_device_list and the network interface tell of one adapter. */
struct cassini_devinfo {
	char name[16];        /* "cxi0" */
	/* 20-bit NIC address: host part of the interface's IPv4 address; on loopback it says which host */
	uint32_t nic;
	uint8_t ip[16];       /* network order: the address it is reached by */
	uint16_t vendor_id, device_id, device_rev; /* 0x17db, 0x501, 2; Cassini 2: 0x1590, 0x371, 1 */
	bool pci_always; /* tell the address also where the machine has no such device */
	uint16_t pci_domain;
	uint8_t pci_bus, pci_device, pci_function;
	bool link_up;
	uint32_t mtu;         /* 2112 */
	uint64_t speed_bps;   /* 200e9 */
	unsigned version;     /* 1: Cassini 1, 2: Cassini 2 */
	uint32_t num_ptes, num_txqs, num_tgqs, num_eqs, num_cts, num_acs, num_tles, num_les;
};
/**
 * cassini_dev_cnt() - Adapters in the soft room; 0 with one sentence in @err when the room is refused or the host
 * cannot be mapped.
 */
int cassini_dev_cnt(char *err, size_t err_len);
/** cassini_dev_query() - Return: 0; -ENODEV. Not under a lock. */
int cassini_dev_query(int idx, struct cassini_devinfo *out);

/* What may be allocated through a service or an LNI: at most @max of each. */
enum cassini_rsrc {
	CASSINI_RSRC_PTE,
	CASSINI_RSRC_TXQ,
	CASSINI_RSRC_TGQ,
	CASSINI_RSRC_EQ,
	CASSINI_RSRC_CT,
	CASSINI_RSRC_LE,
	CASSINI_RSRC_TLE,
	CASSINI_RSRC_AC,
	CASSINI_RSRC_NUM
};
struct cassini_svc_desc {
	uint32_t svc_id;      /* 1 is the default service */
	bool enabled, is_system;
	bool restricted_members, restricted_vnis, restricted_tcs;
	int32_t uid, gid;     /* member, -1: not restricted by it */
	uint8_t vni_cnt;
	uint16_t vni[CASSINI_SVC_VNI_MAX];
	uint8_t tcs;          /* bit per enum cassini_tc */
	uint32_t max[CASSINI_RSRC_NUM];
};
/**
 * cassini_svc_list() - Services of adapter @idx. Return: how many there are; at most @max were written. Not under a
 * lock.
 */
int cassini_svc_list(int idx, struct cassini_svc_desc *out, int max);
/**
 * cassini_svc_check() - May this process use @vni (and @tc >= 0) through @svc_id of adapter @idx? @why: receives one
 * sentence when not.
 * Return: 0; -EINVAL no such service; -EACCES disabled, not a member, VNI or traffic class not in it.
 */
int cassini_svc_check(int idx, uint32_t svc_id, uint16_t vni, int tc, char *why, size_t why_len);

/* --- an open adapter ----------------------------------------------------------------------------- */

struct cassini_open_attr {
	int dev_idx;
	struct lock *lock;
	/*
	 * Automatic progress: runs in the adapter thread, lock held, when the application does not poll. NULL: adapter
	 * only.
	 */
	void (*service)(void *ctx);
	void *ctx;
	bool no_thread;    /* tests */
	const struct link_world *world; /* tests */
};
/** cassini_open() - Not under the lock. Return: 0; -ENODEV; -ENOMEM; -errno (logged). */
int cassini_open(const struct cassini_open_attr *attr, struct cassini **out);
/** cassini_close() - Everything of it must be closed. Not under the lock. NULL is fine. */
void cassini_close(struct cassini *nic);
/** cassini_set_service() - From now on the adapter thread calls @fn in place of polling the adapter. Lock held. */
void cassini_set_service(struct cassini *nic, void (*fn)(void *ctx), void *ctx);
const struct cassini_devinfo *cassini_info(const struct cassini *nic);
/** cassini_is_far() - Whether @nic_addr is of a host that we do not reach: its adapters and ours are on loopback. */
bool cassini_is_far(const struct cassini *nic, uint32_t nic_addr);
void cassini_idle(struct cassini *nic);   /* a poll found nothing: spin or yield. Not under the lock. */
bool cassini_forked(const struct cassini *nic);
const uint8_t *cassini_fork_mark(const struct cassini *nic);
uint64_t cassini_now_ns(const struct cassini *nic);

/**
 * cassini_lni_open() - The resources of a service. Return: 0; -EINVAL no such service; -EACCES not a member or disabled
 * (logged why); -ENOMEM.
 */
int cassini_lni_open(struct cassini *nic, uint32_t svc_id, struct cassini_lni **out);
void cassini_lni_close(struct cassini_lni *lni); /* everything of it must be closed; NULL is fine */
uint32_t cassini_lni_id(const struct cassini_lni *lni); /* RGID */
/** cassini_rsrc() - In use and limit of one resource of an LNI. */
void cassini_rsrc(const struct cassini_lni *lni, enum cassini_rsrc r, uint32_t *used, uint32_t *max);

/**
 * cassini_cp_open() - Return: 0; -EACCES VNI or class not in the service (logged why); -EINVAL class; -ENOSPC 16 are
 * open. Equal ones are shared.
 */
int cassini_cp_open(struct cassini_lni *lni, uint16_t vni, enum cassini_tc tc, enum cassini_tc_type type,
		    struct cassini_cp **out);
void cassini_cp_close(struct cassini_cp *cp);

/* --- Domain: one granule (NIC, VNI, PID) --------------------------------------------------------- */

struct cassini_dom_attr {
	uint16_t vni;
	uint16_t pid;   /* CASSINI_PID_ANY: one that is free */
	unsigned first; /* any: the search begins here, modulo their number */
	bool no_shm;    /* tests: treat peers on this host as remote */
};
/**
 * cassini_dom_open() - Return: 0; -EACCES VNI not in the service; -EADDRINUSE that PID is taken (logged with the
 * holder's process id); -ENOSPC no PID is free; -EINVAL PID; -ENOMEM; -errno.
 */
int cassini_dom_open(struct cassini_lni *lni, const struct cassini_dom_attr *attr, struct cassini_dom **out);
/**
 * cassini_dom_close() - PTEs must be unmapped. Outstanding commands end with CANCELED events; drains, bounded. NULL is
 * fine.
 */
void cassini_dom_close(struct cassini_dom *dom);
uint16_t cassini_dom_pid(const struct cassini_dom *dom);
uint16_t cassini_dom_vni(const struct cassini_dom *dom);
/** cassini_dom_poll() - Move frames: deposit, match, answer, make events. Return: number of things done, 0 = idle. */
int cassini_dom_poll(struct cassini_dom *dom);
/**
 * cassini_peer_life() - A number that changes when the process that answered at (@nic, @pid) is found to be gone: later
 * answers come from another one. Of a peer that a command went to; sends nothing.
 */
uint32_t cassini_peer_life(struct cassini_dom *dom, uint32_t nic, uint16_t pid);
/** cassini_peer_is_idle() - No command to there that nobody remembers can fail any more. */
bool cassini_peer_is_idle(const struct cassini_dom *dom, uint32_t nic, uint16_t pid);
/** cassini_wake() - The adapter's thread, should it sleep, is to run its service at @at_ns, once. */
void cassini_wake(struct cassini *nic, uint64_t at_ns);
/** cassini_dom_calm() - After a cassini_dom_poll() that found nothing: as link_calm(). */
bool cassini_dom_calm(struct cassini_dom *dom, struct calm *c, uint32_t passed);
/**
 * cassini_dom_wait_fd() - Readable while cassini_dom_poll() may have work, after cassini_dom_arm(). -ENOTSUP in a
 * world of its own.
 */
int cassini_dom_wait_fd(struct cassini_dom *dom);
/**
 * cassini_dom_arm() - Before a sleep on the fd. Return: 0; -EAGAIN: there is work already. EQs are the caller's to look
 * at.
 */
int cassini_dom_arm(struct cassini_dom *dom);

/* --- event queues -------------------------------------------------------------------------------- */

enum cassini_event_type { /* numbers of the device */
	CASSINI_EV_PUT = 0, CASSINI_EV_GET = 1, CASSINI_EV_ATOMIC = 2, CASSINI_EV_FETCH_ATOMIC = 3,
	CASSINI_EV_PUT_OVERFLOW = 4, CASSINI_EV_GET_OVERFLOW = 5, CASSINI_EV_ATOMIC_OVERFLOW = 6,
	CASSINI_EV_FETCH_ATOMIC_OVERFLOW = 7, CASSINI_EV_SEND = 8, CASSINI_EV_ACK = 9, CASSINI_EV_REPLY = 10,
	CASSINI_EV_LINK = 11, CASSINI_EV_SEARCH = 12, CASSINI_EV_STATE_CHANGE = 13, CASSINI_EV_UNLINK = 14,
	CASSINI_EV_RENDEZVOUS = 15, CASSINI_EV_COMMAND_FAILURE = 17, CASSINI_EV_TRIGGERED_OP = 18,
	CASSINI_EV_MATCH = 21,
	CASSINI_EV_NUM = 32
};
enum cassini_list {
	CASSINI_PRIORITY = 0, CASSINI_OVERFLOW = 1, CASSINI_REQUEST = 2, CASSINI_UNEXPECTED = 3, CASSINI_LIST_NUM
};

struct cassini_event {
	uint8_t type;           /* enum cassini_event_type */
	uint8_t rc;             /* enum cassini_rc */
	uint8_t ptl_list;       /* enum cassini_list: where it matched (PUT ...), of ACK: where at the target */
	/* PUT, PUT_OVERFLOW: of a RENDEZVOUS_PUT; REPLY: of the adapter's own Get, user_ptr is the LE's */
	bool rendezvous;
	bool get_issued;        /* PUT, PUT_OVERFLOW: the adapter issues the Get itself */
	bool auto_unlinked;     /* this operation unlinked the entry */
	uint8_t rendezvous_id;
	uint8_t state, sc_reason; /* STATE_CHANGE: enum cassini_pte_state, enum cassini_sc_reason */
	bool nic_auto;          /* STATE_CHANGE: the adapter did it, no command */
	uint8_t atomic_op, atomic_type;
	uint16_t vni;
	uint32_t initiator;     /* match id of who sent it */
	/* bytes moved, bytes asked; ACK and REPLY: what was asked. Rendezvous: PUT the eager bytes, REPLY the rest */
	uint32_t mlength, rlength;
	/* target events of operations: cassini_peer_life() of who sent it, then; not of plain Puts for plain entries */
	uint32_t life;
	uint64_t user_ptr;      /* ACK, REPLY, SEND: of the command; target events: of the list entry */
	uint64_t match_bits, header_data;
	uint64_t remote_offset;
	void *start;            /* target: where the data was put; PUT_OVERFLOW: where the unexpected bytes lie */
	/* target events of operations: where it arrived (a PTE may be mapped into several); NULL: that has closed */
	struct cassini_dom *dom;
};

struct cassini_eq {             /* made by cassini_eq_open(); read only */
	struct cassini_event *ring;
	uint32_t mask, rd, wr;  /* begin anew at 0 when the ring is empty: nobody keeps one across cassini_eq_pop() */
	bool is_taken;          /* the reader's own: somebody has the oldest event in hand */
	LIST_ENTRY(cassini_eq) ready; /* of its LNI's, while it has events */
	/* the rest is the adapter's */
};
/**
 * cassini_eq_open() - A ring of at least @slots events. @fc_slots of them are kept for STATE_CHANGE events. A command
 * that will make an event needs a free slot when it is posted (else -EAGAIN), so initiator events are never lost; a
 * target event without a slot disables a PTE with en_flowctrl (EQ_FULL) and is counted as dropped otherwise.
 * Return: 0; -EINVAL 0 slots or above 2^24; -ENOSPC limit of the service (logged); -ENOMEM.
 */
int cassini_eq_open(struct cassini_lni *lni, uint32_t slots, uint32_t fc_slots, struct cassini_eq **out);
void cassini_eq_close(struct cassini_eq *eq); /* nothing may refer to it any more; NULL is fine */
/**
 * cassini_eq_forget() - No command of @lni, of any queue, has its event in @eq from now on: those not sent yet end
 * CANCELED there, those under way without event or count. Triggered ones go. On return no peer reads or writes the
 * memory of any of them, a rendezvous whose command has ended there included, but for one that another thread is at
 * the end of, which waits for the same; may let go of the lock meanwhile.
 */
void cassini_eq_forget(struct cassini_lni *lni, struct cassini_eq *eq);
/**
 * cassini_eq_peek() - The oldest event or NULL; borrowed until cassini_eq_pop(). Handlers may post commands that add
 * events.
 */
static inline const struct cassini_event *cassini_eq_peek(const struct cassini_eq *eq)
{
	return eq->rd != eq->wr ? &eq->ring[eq->rd & eq->mask] : NULL;
}
/* A ring that is empty begins anew: the same few slots stay in the cache, where a walk through all of it would not. */
static inline void cassini_eq_pop(struct cassini_eq *eq)
{
	if (++eq->rd != eq->wr)
		return;
	eq->rd = eq->wr = 0;
	LIST_REMOVE(eq, ready);
}
/** cassini_eq_ready() - An event queue of @lni that has events; NULL: none has. */
struct cassini_eq *cassini_eq_ready(const struct cassini_lni *lni);
uint32_t cassini_eq_free(const struct cassini_eq *eq);     /* slots that commands may still claim */
uint64_t cassini_eq_dropped(const struct cassini_eq *eq);  /* events lost so far: unackd_dropped */

/* --- counting events and triggered commands ------------------------------------------------------ */

#define CASSINI_CT_SUCCESS_MAX ((1ULL << 48) - 1)
#define CASSINI_CT_FAILURE_MAX 127u
/**
 * cassini_ct_open() - @wb: receives {success:48, failure:7, 0:8, written:1} after every change; NULL: none. 0; -ENOSPC;
 * -ENOMEM.
 */
int cassini_ct_open(struct cassini_lni *lni, uint64_t *wb, struct cassini_ct **out);
void cassini_ct_close(struct cassini_ct *ct); /* triggers still waiting on it are cancelled; NULL is fine */
void cassini_ct_set_wb(struct cassini_ct *ct, uint64_t *wb);
void cassini_ct_get(const struct cassini_ct *ct, uint64_t *success, uint64_t *failure);
/** cassini_ct_add(), cassini_ct_set() - Saturating; triggers whose threshold is reached fire. */
void cassini_ct_add(struct cassini_ct *ct, uint64_t success, uint64_t failure);
void cassini_ct_set(struct cassini_ct *ct, uint64_t success, uint64_t failure);
/** cassini_ct_on_change() - @fn runs after every change, lock held, possibly in the adapter thread. NULL: no one. */
void cassini_ct_on_change(struct cassini_ct *ct, void (*fn)(void *ctx), void *ctx);
/**
 * cassini_ct_cancel() - Forget the triggered commands that wait on @ct. @fn (may be NULL) is told the user_ptr of each.
 * Return: how many.
 */
int cassini_ct_cancel(struct cassini_ct *ct, void (*fn)(void *ctx, uint64_t user_ptr), void *ctx);
struct cassini_cmd;
/**
 * cassini_trig_cancel() - The same for what waits in @cq, whatever for, of which @is_one says so; NULL: for all. What
 * only counts, or makes an event, has a @cmd without a Domain.
 */
void cassini_trig_cancel(struct cassini_cmdq *cq, bool (*is_one)(void *ctx, const struct cassini_cmd *cmd),
			 void (*fn)(void *ctx, uint64_t user_ptr), void *ctx);

/* --- commands of the initiator ------------------------------------------------------------------- */

enum cassini_opcode {
	CASSINI_OP_PUT, CASSINI_OP_GET, CASSINI_OP_RENDEZVOUS_PUT, CASSINI_OP_ATOMIC, CASSINI_OP_FETCHING_ATOMIC,
	CASSINI_OP_NUM
};
enum cassini_amo_op {
	CASSINI_AMO_MIN, CASSINI_AMO_MAX, CASSINI_AMO_SUM, CASSINI_AMO_LOR = 4, CASSINI_AMO_LAND, CASSINI_AMO_BOR,
	CASSINI_AMO_BAND, CASSINI_AMO_LXOR, CASSINI_AMO_BXOR, CASSINI_AMO_SWAP, CASSINI_AMO_CSWAP, CASSINI_AMO_AXOR,
	CASSINI_AMO_OP_NUM
};
enum cassini_cswap {
	CASSINI_CSWAP_EQ, CASSINI_CSWAP_NE, CASSINI_CSWAP_LE, CASSINI_CSWAP_LT, CASSINI_CSWAP_GE, CASSINI_CSWAP_GT,
	CASSINI_CSWAP_NUM
};
enum cassini_amo_type {
	CASSINI_T_I8, CASSINI_T_U8, CASSINI_T_I16, CASSINI_T_U16, CASSINI_T_I32, CASSINI_T_U32, CASSINI_T_I64,
	CASSINI_T_U64, CASSINI_T_F32, CASSINI_T_CF32, CASSINI_T_F64, CASSINI_T_CF64, CASSINI_T_U128, CASSINI_T_NUM
};
size_t cassini_amo_type_size(unsigned type); /* bytes, 0: no such type */

enum { /* cassini_cmd.flags */
	CASSINI_CMD_RESTRICTED = 1,        /* unordered, idempotent; only to PTEs without matching */
	/* IDC: the payload is copied now; request_len <= CASSINI_IDC_MAX (or RESTRICTED_MAX) */
	CASSINI_CMD_INLINE = 2,
	CASSINI_CMD_NO_EVENT = 4,          /* no event at all on success: event_success_disable */
	CASSINI_CMD_EV_SEND = 8,           /* a SEND event when the bytes may be reused (else none) */
	CASSINI_CMD_CT_ACK = 16,           /* count on cmd.ct when the ACK (Put, Atomic) or REPLY (Get, Fetch) comes */
	CASSINI_CMD_CT_BYTES = 32,         /* ... in bytes */
	CASSINI_CMD_CT_SUCCESS = 2048,     /* ... not if it has failed, which may not be the end of it */
	/* ACK only when the data is visible at the target (always so here; kept for the counters) */
	CASSINI_CMD_FLUSH = 64,
	CASSINI_CMD_HRP = 128,             /* high-rate Put: fire and forget, acknowledged by the switch */
	CASSINI_CMD_MORE = 256,            /* more commands follow: the doorbell waits */
	/* only to the process that cmd.life names: none goes to the next one at its place, and it ends UNDELIVERABLE */
	CASSINI_CMD_SAME_LIFE = 1024,
	/* the adapter's own: the first one after a lossless PTE held its sender back */
	CASSINI_CMD_AGAIN = 512,
};
struct cassini_cmd {
	uint8_t opcode;                    /* enum cassini_opcode */
	uint8_t pid_idx;                   /* of the target */
	uint16_t pid;
	uint32_t nic;
	uint32_t flags;                    /* CASSINI_CMD_* */
	uint32_t request_len;
	struct cassini_dom *dom;           /* who sends; its VNI is the command queue's profile's */
	struct cassini_eq *eq;             /* where ACK, REPLY, SEND go; NULL: nowhere, errors to the queue's on_lost */
	struct cassini_ct *ct;
	const void *local_addr;            /* Put: source; Get: destination */
	uint64_t remote_offset;
	uint64_t match_bits, header_data, user_ptr;
	/*
	 * RENDEZVOUS_PUT: bytes sent now; id; the rest is fetched by the target from pid_idx 255 of cmd.dom with
	 * get_bits
	 */
	union {
		uint32_t eager_length;
		uint32_t life;             /* SAME_LIFE, of all others */
	};
	uint8_t rendezvous_id;
	uint64_t get_bits;
	/* ATOMIC, FETCHING_ATOMIC: request_len is the type's size */
	uint8_t atomic_op, atomic_type, cswap_op;
	uint64_t op1[2], op2[2];           /* operand; CSWAP: swap value, compare in op2; AXOR: value, mask in op2 */
	void *fetch_addr;                  /* FETCHING_ATOMIC: where the old value goes */
};

struct cassini_cmdq_attr {
	uint32_t depth;                    /* commands that have not ended */
	/*
	 * A Put without an EQ, whose bytes fit into a frame, has failed with
	 * @rc, but was not cancelled: it is shown as it was given, its user_ptr modulo 2^48, for this call only; what
	 * is short enough for it is INLINE. Lock held, in a poll of its Domain or a post. It may post commands, but not
	 * poll. NULL: nobody wants to know.
	 */
	void (*on_lost)(void *ctx, const struct cassini_cmd *lost, uint8_t rc);
	void *ctx;
	struct cassini_cp *cp;
	bool has_trig;                     /* triggered commands may be posted */
};
/** cassini_cmdq_open() - Return: 0; -ENOSPC limit of the service (logged); -EINVAL; -ENOMEM. */
int cassini_cmdq_open(struct cassini_lni *lni, const struct cassini_cmdq_attr *attr, struct cassini_cmdq **out);
/**
 * cassini_cmdq_close() - Held commands end with CANCELED, sent ones without an event; their sources are read until the
 * Domain closes. NULL is fine.
 */
void cassini_cmdq_close(struct cassini_cmdq *cq);
/** cassini_cmdq_set_cp() - Commands posted from now on use @cp (the LCID command). */
void cassini_cmdq_set_cp(struct cassini_cmdq *cq, struct cassini_cp *cp);
/**
 * cassini_post() - Start a command. Memory behind local_addr stays unchanged until its ACK or REPLY, unless INLINE.
 * What hardware reports by event is reported by event (rc). Commands of one queue to one PTE are matched in the order
 * posted, unless RESTRICTED; unrestricted Puts and atomics to regions also take effect in that order.
 * Return: 0; -EAGAIN the queue, the EQ or the path is full, nothing happened; -EINVAL malformed (logged); -EACCES VNI
 *         of dom is not the profile's.
 */
int cassini_post(struct cassini_cmdq *cq, const struct cassini_cmd *cmd);
/**
 * cassini_put() - A Put of which nothing is remembered, in order with the commands of @cq: it has no place in the queue
 * and no slot for an event, so only its failure is heard of (on_lost), and cmd->eq is not looked at. It can leave at
 * once, to who has taken a Put at that index before, and refused none since, and is short; on this host it may have as
 * much as a frame holds. @is_near: only if memory on this host carries it.
 * Return: false: nothing happened, and it is one for cassini_post().
 */
bool cassini_put(struct cassini_cmdq *cq, const struct cassini_cmd *cmd, bool is_near);
/** cassini_is_near() - Memory on this host carries what goes to the target of @cq's last command. */
bool cassini_is_near(const struct cassini_cmdq *cq);
/** cassini_dom_is_polled() - A thread is in cassini_dom_poll(); not the caller: another, which let go of the lock. */
bool cassini_dom_is_polled(const struct cassini_dom *dom);
/** cassini_dom_is_idle() - No command of @dom that nobody remembers can fail any more. */
bool cassini_dom_is_idle(const struct cassini_dom *dom);
/** cassini_fence() - Commands posted from now on start when all earlier ones of @cq have ended. Return: 0; -EAGAIN. */
int cassini_fence(struct cassini_cmdq *cq);
void cassini_doorbell(struct cassini_cmdq *cq);
uint32_t cassini_cmdq_free(const struct cassini_cmdq *cq);
bool cassini_cmdq_is_idle(const struct cassini_cmdq *cq);
/**
 * cassini_post_trig() - Post @cmd when @trig has counted @threshold successes. @cmd is copied; INLINE data too.
 * Return: 0; -ENOSPC no triggered list entry is left (logged with the limit); -EINVAL the queue has no triggers;
 *         -ENOMEM; as cassini_post().
 */
int cassini_post_trig(struct cassini_cmdq *cq, struct cassini_ct *trig, uint64_t threshold,
		      const struct cassini_cmd *cmd);
enum cassini_ct_op { CASSINI_CT_SET, CASSINI_CT_INC, CASSINI_CT_EVENT };
struct cassini_ct_cmd {
	enum cassini_ct_op op;
	struct cassini_ct *ct;             /* SET: its successes to @value; INC: by @value */
	uint64_t value;
	struct cassini_eq *eq;             /* EVENT: a TRIGGERED_OP event with @user_ptr */
	uint64_t user_ptr;
};
/**
 * cassini_trig_ct() - Do @cmd when @trig has counted @threshold. Return: as above; -EAGAIN the EQ has no slot for the
 * event.
 */
int cassini_trig_ct(struct cassini_cmdq *cq, struct cassini_ct *trig, uint64_t threshold,
		    const struct cassini_ct_cmd *cmd);

/* --- portal table entries ------------------------------------------------------------------------ */

enum cassini_pte_state {
	CASSINI_PTE_RESET,
	CASSINI_PTE_DISABLED,
	CASSINI_PTE_ENABLED,
	CASSINI_PTE_SOFTWARE_MANAGED,
	CASSINI_PTE_ETHERNET,
	CASSINI_PTE_STATE_NUM
};
enum cassini_sc_reason {
	CASSINI_SC_FC_EQ_FULL,
	CASSINI_SC_FC_NO_MATCH,
	CASSINI_SC_FC_UNEXPECTED_FAIL,
	CASSINI_SC_FC_REQUEST_FULL,
	CASSINI_SC_SM_UNEXPECTED_FAIL,
	CASSINI_SC_SM_APPEND_FAIL,
	CASSINI_SC_DIS_UNCOR,
	CASSINI_SC_NUM
};
struct cassini_pte_opts {
	bool is_matching;       /* else the first entry takes everything */
	bool en_flowctrl;       /* no entry, no LE, EQ full: DISABLED with a reason instead of a loss */
	bool en_event_match;    /* MATCH events before the data */
	bool no_rget;           /* software issues the Gets of rendezvous: the driver's property rdzv_get_en is 0 */
	/* indices 0-15, with en_flowctrl: want of buffers or event slots holds back senders instead of DISABLED */
	bool lossless;
	bool no_atomic;         /* atomics are refused: entries are for messages, which an atomic would use up unseen */
	/*
	 * Not NULL: is shown an unexpected header that vanishes, because its data never came, as its PUT has said, or
	 * by cassini_pte_unmap(); may do nothing with the adapter. @user: the PTE's.
	 */
	void (*on_lost)(void *user, const struct cassini_event *put);
	/* Not NULL: is shown an event of an operation that found no slot; may do nothing with the adapter. */
	void (*on_dropped)(void *user, const struct cassini_event *ev);
};
/**
 * cassini_pte_open() - In state RESET, no entries. @eq: its events (NULL: none). Return: 0; -ENOSPC limit (logged);
 * -ENOMEM.
 */
int cassini_pte_open(struct cassini_lni *lni, struct cassini_eq *eq, const struct cassini_pte_opts *opts, void *user,
		     struct cassini_pte **out);
/**
 * cassini_pte_close() - Frees its entries without events, and unmaps it. Waits for copies in flight, bounded, and stops
 * those that have not ended then: on return no peer touches memory through it, but what is on its way to another host
 * may be read until the Domain closes. NULL is fine.
 */
void cassini_pte_close(struct cassini_pte *pte);
/**
 * cassini_pte_show() - From now on PUT events of plain Puts in one frame, for plain entries (cassini_append()), are
 * shown to @fn before they become events, in order with those, unless it is the adapter thread that polls. The entry
 * is used up by then. Return of @fn: true: it has had it; false: it wants an event. Called in a poll of the Domain; may
 * do nothing with the adapter.
 */
void cassini_pte_show(struct cassini_pte *pte, bool (*fn)(const struct cassini_event *ev));
void *cassini_pte_user(const struct cassini_pte *pte);
unsigned cassini_pte_ptn(const struct cassini_pte *pte); /* its number */
/**
 * cassini_pte_map() - Frames to @pid_idx of @dom arrive at @pte; one PTE may be mapped several times. 0; -EADDRINUSE;
 * -EINVAL; -ENOSPC.
 */
int cassini_pte_map(struct cassini_pte *pte, struct cassini_dom *dom, unsigned pid_idx);
/**
 * cassini_pte_unmap() - The reverse. Unexpected headers that came by @dom stay, and are of no Domain, if the PTE has no
 * on_lost(); else each vanishes, now or when its data has landed, and is shown to it: nothing else tells of it.
 */
void cassini_pte_unmap(struct cassini_pte *pte, struct cassini_dom *dom, unsigned pid_idx);

enum { /* cassini_le_attr.flags, bits of the device */
	CASSINI_LE_EVENT_CT_BYTES = 1 << 0, CASSINI_LE_EVENT_CT_OVERFLOW = 1 << 1, CASSINI_LE_EVENT_CT_COMM = 1 << 2,
	CASSINI_LE_EVENT_UNLINK_DISABLE = 1 << 3, CASSINI_LE_EVENT_SUCCESS_DISABLE = 1 << 4,
	CASSINI_LE_EVENT_COMM_DISABLE = 1 << 5, CASSINI_LE_EVENT_LINK_DISABLE = 1 << 6,
	CASSINI_LE_UNRESTRICTED_END_RO = 1 << 7, CASSINI_LE_UNRESTRICTED_BODY_RO = 1 << 8,
	CASSINI_LE_UNEXPECTED_HDR_DISABLE = 1 << 9, CASSINI_LE_USE_ONCE = 1 << 10, CASSINI_LE_NO_TRUNCATE = 1 << 11,
	CASSINI_LE_MANAGE_LOCAL = 1 << 12, CASSINI_LE_OP_GET = 1 << 13, CASSINI_LE_OP_PUT = 1 << 14,
	CASSINI_LE_RESTART_SEQ = 1 << 15
};
struct cassini_le_attr {
	enum cassini_list list;
	uint32_t flags;          /* CASSINI_LE_* */
	void *start;
	/*
	 * bytes; UINT64_MAX (start NULL): the whole address space, of which peers reach only the source of a
	 * rendezvous, by Get
	 */
	uint64_t length;
	uint32_t min_free;       /* MANAGE_LOCAL: unlink when less is left, < 2^24 */
	uint32_t match_id;       /* initiator or CASSINI_MATCH_ID_ANY */
	uint64_t match_bits, ignore_bits;
	uint64_t user_ptr;       /* in every event of it (buffer_id) */
	struct cassini_ct *ct;   /* with EVENT_CT_* */
};
/**
 * cassini_append() - Unexpected headers first, each hit a *_OVERFLOW event; then the end of the list. LINK event unless
 * disabled; failures are always reported by a LINK event: NO_SPACE (no LE left), PTLTE_SW_MANAGED, PT_DISABLED.
 * @le: out, may be NULL: the entry, valid until the event that unlinks it; NULL if it never got linked.
 * Return: 0; -EAGAIN the EQ has no slot for what may follow, nothing happened; -EINVAL (logged).
 * What most entries are (PRIORITY; MANAGE_LOCAL, OP_PUT, USE_ONCE; no LINK event) needs no slot where no unexpected
 * header is: it makes no event.
 */
int cassini_append(struct cassini_pte *pte, const struct cassini_le_attr *attr, struct cassini_le **le);
/**
 * cassini_unlink() - UNLINK event: OK, or ENTRY_NOT_FOUND if it was used up first. @user_ptr and @list name the entry.
 * 0; -EAGAIN.
 */
int cassini_unlink(struct cassini_pte *pte, enum cassini_list list, uint64_t user_ptr, struct cassini_le *le);
/**
 * cassini_invalidate() - Kill an entry at once, without event: no new operation finds it.
 * Return: 0 no copy touches its memory any more and @le is gone; -EAGAIN one still does: poll the Domain, call again;
 *         -ENOENT it was gone. One that a packet has used up goes by itself when its copy ends.
 */
int cassini_invalidate(struct cassini_pte *pte, struct cassini_le *le);
/**
 * cassini_rdzv_done() - @initiator says that it has all of the RENDEZVOUS_PUT that it fetched by restricted Gets with
 * @get_bits, which end nothing: the operation is over. What names none is counted as malformed.
 */
void cassini_rdzv_done(struct cassini_dom *dom, uint32_t initiator, uint64_t get_bits);
struct cassini_search {
	uint64_t match_bits, ignore_bits;
	uint32_t match_id;
	bool use_once;           /* first hit only */
	bool delete;             /* hits are removed and reported as PUT_OVERFLOW */
	uint64_t user_ptr;
};
/**
 * cassini_search() - Look through the unexpected headers. Hits: SEARCH/OK events (or PUT_OVERFLOW when deleting); the
 * end is a SEARCH/NO_MATCH event, which does not come after a hit of use_once. Hits beyond the EQ's free slots are
 * reported as slots become free.
 * Return: 0; -EAGAIN.
 */
int cassini_search(struct cassini_pte *pte, const struct cassini_search *s);
#define CASSINI_DROP_IGNORE 0xffffffu /* set the state whatever the drop counter says */
/**
 * cassini_set_state() - STATE_CHANGE event with the state reached; stays DISABLED when @drop_count is not the PTE's. 0;
 * -EAGAIN; -EINVAL.
 */
int cassini_set_state(struct cassini_pte *pte, enum cassini_pte_state state, uint32_t drop_count);
/** cassini_pte_transition_sm() - DISABLED to SOFTWARE_MANAGED. 0; -EINVAL not disabled; -EAGAIN @drop_count differs. */
int cassini_pte_transition_sm(struct cassini_pte *pte, uint32_t drop_count);
/**
 * cassini_drops_told() - The sender of @notice, a PUT event, says that @cnt of its Puts were refused since @pte was
 * disabled. Return: of how many this is true, and was not said before.
 * cassini_drops_lost() - Of how many since then nobody will ever say it: their senders have gone, or the Domain that
 * they came by is not mapped any more. Each call looks at a few of the senders.
 * cassini_drops_each() - @fn for each sender of whom it has to be said yet.
 * cassini_drops_part() - Those are waited for no longer: what was refused of them counts as lost, and they are refused,
 * also when @pte is enabled, until they tell. Return: how many senders.
 */
uint32_t cassini_drops_told(struct cassini_pte *pte, const struct cassini_event *notice, uint32_t cnt);
uint32_t cassini_drops_lost(struct cassini_pte *pte);
uint32_t cassini_drops_part(struct cassini_pte *pte);
void cassini_drops_each(const struct cassini_pte *pte,
			void (*fn)(void *arg, struct cassini_dom *dom, uint32_t nic, uint16_t pid), void *arg);
struct cassini_pte_status {
	enum cassini_pte_state state;
	uint32_t drop_count;     /* Puts refused while DISABLED; starts at 0 (Cassini 2) or -1 mod 2^24 (Cassini 1) */
	uint32_t les_used, les_max;
	uint32_t ule_cnt;
};
/**
 * cassini_pte_status() - @ule_offset: receives up to @max remote offsets of the unexpected headers in order; may be
 * NULL.
 */
void cassini_pte_status(const struct cassini_pte *pte, struct cassini_pte_status *out, uint64_t *ule_offset,
			uint32_t max);

/* --- statistics ---------------------------------------------------------------------------------- */

/* Monotonic. */
struct cassini_stats {
	/* commands started; payload bytes of Puts, Gets, atomics by direction */
	uint64_t tx_cmds, tx_bytes, rx_bytes;
	uint64_t puts, gets, rendezvous, atomics, fetching_atomics, idc;
	uint64_t rx_unrestricted_pkts, rx_restricted_pkts;
	uint64_t plec_hits;                        /* operations on PTEs without matching */
	uint64_t priority_hits, overflow_hits, request_hits, ule_appends;
	uint64_t rgets;                            /* Gets issued by the adapter for rendezvous */
	/* Gets that had to come again, initiators that took no answers: cassini_owe.c */
	uint64_t owed_busy, owed_ended;
	uint64_t lossless_pauses;                  /* Puts that a lossless PTE has held back, each time */
	uint64_t pte_disabled, pt_disabled_naks, no_match_drops, request_full, le_exhausted, eq_full, events_dropped;
	uint64_t vni_not_found, ptlte_not_found, entry_not_found, op_violation, malformed, bad_initiator;
	uint64_t triggered, triggered_cancelled;
	uint64_t unreachable;                      /* commands that ended because their peer died */
	uint64_t net_retrans, net_rx_dups;         /* of the network below */
	uint64_t peers_dead;
	uint64_t bulk_bytes;                       /* payload that went by bulk copy */
	struct nic_net_stats net;
};
/** cassini_query_stats() - Sum over the adapter's Domains, closed ones included. */
void cassini_query_stats(const struct cassini *nic, struct cassini_stats *out);
/* Their names, one row for each: the telemetry's where the adapter counts the same. */
extern const struct stats_row cassini_stat_row[sizeof(struct cassini_stats) / sizeof(uint64_t)];

#endif
