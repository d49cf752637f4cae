// SPDX-License-Identifier: BSD-2-Clause
// Objects of the opx provider that its files share: domain, AV, MR, endpoint, peer, outgoing operations and incoming
// messages.
#ifndef SF_PROV_OPX_OPX_H
#define SF_PROV_OPX_OPX_H

#include <bsd/sys/queue.h>
#include <pthread.h>

#include "base/ahead.h"
#include "kit/atomic_call.h"
#include "kit/call.h"
#include "kit/kit.h"
#include "kit/srx.h"
#include "kit/stats.h"
#include "nic/hfi/hfi.h"
#include "prov/opx/flow/opx_flow.h"
#include "prov/opx/opx_param.h"
#include "prov/opx/opx_proto.h"

/*
 * Theory of operation
 *
 * An endpoint is one HFI context. A scalable endpoint is up to OPX_SEP_MAX of them with consecutive numbers; its i-th
 * transmit and receive context share the i-th HFI context and are one struct opx_ep, with two fids.
 *
 * A peer is one remote context as an endpoint sees it: a flow (opx_flow.h), the operations that go to it and the
 * messages that come from it. It is found by (LID, context), which is also the source that receives match.
 *
 * An operation (struct opx_op) exists only for what is not over when its packet has been posted: rendezvous, RMA,
 * atomics, or answers of ours that take several packets. What needs room waits in ep->pump and is driven from progress.
 * An incoming message (struct opx_in) exists only for what is not over when its packet has been copied: unexpected,
 * several packets, rendezvous.
 */

extern struct fi_provider g_opx_prov; /* opx_prov.c */

#define OPX_IOV_MAX   4
#define OPX_SEP_MAX   4    /* contexts of a scalable endpoint */
#define OPX_EP_CNT    HFI_CTXT_MAX
#define OPX_AV_EPS    160  /* endpoints per address vector */
#define OPX_CQ_EPS    64   /* endpoints per completion queue or counter */
#define OPX_CNTR_CNT  160  /* counters per domain */
#define OPX_MIN_MULTI_RECV 8192u
/* in the flags of an operation, ours: no completion even on success (the inject calls) */
#define OPX_NO_CQE    (1ULL << 63)

/* --- address: 8 bytes, doc/facts/opx.md#addresses ----------------------------------------------------------------- */

struct opx_addr {
	uint8_t hfi1_rx;         /* receive context; of a scalable endpoint its first one */
	uint8_t hfi1_unit;
	uint8_t reliability_rx;  /* as hfi1_rx */
	le16_t endpoint_id;      /* send context; OPX_ADDR_SEP of a scalable endpoint */
	be16_t lid;
	uint8_t rx_index;        /* scalable: which context; set by fi_rx_addr() */
};
static_assert(sizeof(struct opx_addr) == 8, "opx address");
#define OPX_ADDR_SEP 0x8000u
static inline uint64_t opx_addr_u64(const struct opx_addr *a) { le64_t v; memcpy(v.b, a, 8); return le64_get(v); }
static inline struct opx_addr opx_addr_of(uint64_t v)
{
	le64_t w = le64_put(v);
	struct opx_addr a;
	memcpy(&a, w.b, 8);
	return a;
}
/* What identifies a context: LID and receive context. Never 0 for a legal address. */
static inline uint32_t opx_addr_uid(const struct opx_addr *a)
{
	uint32_t rx = a->hfi1_rx + (le16_get(a->endpoint_id) & OPX_ADDR_SEP ? a->rx_index : 0u);

	return (uint32_t)be16_get(a->lid) << 8 | (rx & 0xff);
}

/* --- domain, AV, MR ----------------------------------------------------------------------------------------------- */

struct opx_stats { /* per protocol, for tests, logs and the demo */
	uint64_t tx_inject, tx_eager, tx_mp, tx_rzv, tx_rzv_local, tx_ahead;
	uint64_t tx_pio_data, tx_sdma_data, tx_bounce, tx_expected;
	uint64_t rx_inject, rx_eager, rx_mp, rx_rzv, rx_ahead, rx_unexpected, rx_stale, rx_malformed, quota_full;
	uint64_t rma_refused, done_late;
};

struct opx_mr;
struct opx_ep;
struct opx_domain {
	struct kit_domain kit;
	int unit;                      /* of its name, ib<unit> */
	struct opx_params params;      /* as at fi_domain */
	struct hfi *hfi[HFI_UNIT_MAX]; /* opened when the first context of the unit is; opx_domain_hfi() */
	struct opx_mr **mr_tab;        /* hash by key; kit.lock */
	uint32_t mr_cnt, mr_mask;
	uint32_t refused_told;         /* for LOG_FEW(): peers' accesses refused */
	LIST_HEAD(, opx_ep) eps;       /* enabled ones; kit.lock */
	bool auto_progress;            /* one thread per CQ */
	struct opx_cores cores;        /* of these threads */
	/* counters open, <= OPX_CNTR_CNT; CQs ever opened, for the names of the threads */
	_Atomic uint32_t cntr_cnt, cq_seq;
	pthread_mutex_t open_lock;     /* serialises hfi_open(); taken before kit.lock */
	struct hfi *_Atomic idle_hfi;  /* the unit opened first: kit.idle */
	uint8_t *alive;                /* a page of our own that fork wipes: kit.fork_mark; NULL: owner_pid tells */
	pid_t owner_pid;
	struct opx_stats closed;       /* sums of the endpoints that were closed */
	struct opx_rel_stats closed_rel;
};

int opx_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
/* opx_ext.c: fi_open_ops() of a domain, its counters */
extern const struct kit_stats_group opx_stats_groups[];
int opx_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
/** opx_stats_closed() - @ep closes: its counters stay the domain's. Lock held. */
void opx_stats_closed(const struct opx_ep *ep);
/** opx_stats_print() - One line of the counters of closed endpoints, if SOFTFABRIC_STATS asks for it. */
void opx_stats_print(const struct opx_domain *d);
/** opx_domain_hfi() - The opened unit. Not under the lock. 0; -errno of hfi_open(). */
int opx_domain_hfi(struct opx_domain *d, int unit, struct hfi **out);

struct opx_mr {
	struct fid_mr fid;
	struct opx_domain *domain;
	void *addr;
	size_t len;
	uint64_t offset;               /* what offset 0 of @addr is called: fi_mr_attr.offset */
	uint64_t access;               /* FI_REMOTE_READ ... */
	uint64_t key;
	struct opx_mr *hnext;
};
int opx_mr_open(struct kit_domain *d, const struct kit_mr_req *req, struct fid_mr **out);
/**
 * opx_mr_find() - Memory of [@off, +@len) of region @key for @access (FI_REMOTE_READ and/or WRITE), or NULL and why.
 * Lock held.
 */
void *opx_mr_find(struct opx_domain *d, uint64_t key, uint64_t off, uint64_t len, uint64_t access,
		  enum opx_status *why);

struct opx_av {
	/* FI_AV_MAP: fi_addr_t is the address itself, the table knows which were inserted */
	struct kit_av kit;
	bool is_map;
	unsigned rx_ctx_bits;
	uint32_t gen;                  /* changes with every insertion and removal */
};
/* The build option OPX_AV: FI_AV_UNSPEC is "runtime". */
#ifndef OPX_AV_ONLY
#define OPX_AV_ONLY FI_AV_UNSPEC
#endif
/** opx_av_type() - The type of an address vector opened with @asked in a build for @only. 0; -FI_EINVAL. */
int opx_av_type(enum fi_av_type only, enum fi_av_type asked, enum fi_av_type *out);
int opx_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
/** opx_av_get() - The address that @fi_addr names, context bits applied. False: it names none. Lock held. */
bool opx_av_get(const struct opx_av *av, fi_addr_t fi_addr, struct opx_addr *out);
/**
 * opx_av_name() - What to report as the source for context @addr: FI_ADDR_NOTAVAIL if it is not in the table. Lock
 * held.
 */
fi_addr_t opx_av_name(const struct opx_av *av, const struct opx_addr *addr);
/**
 * opx_straddr() - lid.endpoint_id.rx_index.hfi1_rx.hfi1_unit.reliability_rx, each as it lies in memory. Source:
 * doc/facts/opx.md#addresses.
 */
const char *opx_straddr(struct kit_av *av, const void *addr, char *buf, size_t *len);

/* --- outgoing operations ------------------------------------------------------------------------------------------ */

enum opx_op_kind {
	OPX_OP_SEND,      /* rendezvous, or what did not fit one packet */
	OPX_OP_WRITE, OPX_OP_READ, OPX_OP_ATOMIC, OPX_OP_FETCH, OPX_OP_COMPARE,
	OPX_OP_SERVE,     /* ours: data that answers a peer's GET */
	OPX_OP_KIND_NUM
};

/* A transfer by hfi_copy(), embedded in whoever waits for it. */
struct opx_copy {
	struct opx_peer *peer;
	int op;                        /* HFI_COPY_GET, HFI_COPY_PUT */
	const struct iovec *iov;       /* our side */
	size_t iov_cnt;
	uint64_t want;                 /* bytes */
	void (*end)(struct opx_copy *c, int status); /* once; may free it */
	struct opx_piece pieces[OPX_PIECES]; /* their side */
	uint8_t piece_cnt;
	/* opx_copy.c */
	bool is_waiting;
	uint32_t inflight;
	int status;
	uint64_t asked;
	TAILQ_ENTRY(opx_copy) link;    /* ep->copies while there is no room */
};
/** opx_pieces_take() - The peer's memory from a packet of ours: 1..4 pieces of @len bytes in all. False: malformed. */
bool opx_pieces_take(struct opx_copy *c, const struct view *data, uint64_t len);
/** opx_copy_start() - Begin; end() may have been called, and the copy freed, on return. */
void opx_copy_start(struct opx_copy *c);
/** opx_copy_cancel() - Post nothing more. True: nothing is in flight, end() will not be called; else it will. */
bool opx_copy_cancel(struct opx_copy *c);
/** opx_copy_stop() - For a cancelled copy: hfi_copy_stop() of what is in flight; end() will be called. */
bool opx_copy_stop(struct opx_copy *c);
int opx_copies_retry(struct opx_ep *ep); /* Return: events */
void opx_on_copy(void *ctx, void *cookie, int status); /* on_copy of the context; ctx: the endpoint */

struct opx_peer;
struct opx_op {
	LIST_ENTRY(opx_op) link;       /* peer->ops */
	TAILQ_ENTRY(opx_op) pump_link; /* ep->pump while it has packets to send */
	struct opx_ep *ep;
	struct opx_peer *peer;
	uint8_t kind;                  /* enum opx_op_kind */
	uint8_t iov_cnt, res_cnt;
	bool in_pump, is_waiting;      /* counted in the flow's waits */
	bool wants_cqe, is_over;       /* over: completed or failed for the user; goes when @refs and @copies are 0 */
	bool is_posted;                /* all packets were posted */
	/* completes when the peer says DONE (or, READ and FETCH, when the data are there) */
	bool needs_done;
	bool is_done;
	bool is_ref;                   /* packets refer to the user's memory: complete only when refs is 0 */
	bool is_mp;                    /* SEND: multi-packet eager, its first packet has PSN mp_psn */
	bool is_ahead;                 /* SEND: rendezvous whose data go unasked */
	bool is_sdma;
	/* enum opx_status: it has failed, which is told when nothing refers to the user's memory any more */
	uint8_t why;
	int err;                       /* fi_errno of @why; 0: it has not */
	bool has_data, was_empty;      /* WRITE: CQ data follow; nothing to write, which was posted */
	uint32_t mp_psn;
	uint32_t refs;                 /* replays that refer to its memory */
	bool is_copying;               /* SERVE: cp runs */
	struct opx_copy cp;
	uint64_t flags, cq_flags;      /* of the call after op_flags; of the completion */
	void *context;
	uint64_t tag, data;
	uint64_t len, sent, got;       /* bytes: of the transfer; posted; arrived (READ, FETCH) */
	struct iovec iov[OPX_IOV_MAX]; /* source, or destination of READ; results of FETCH and COMPARE are res */
	struct iovec res[OPX_IOV_MAX];
	uint64_t mr_key, mr_off;       /* RMA, atomics: at the target; SERVE: the region that is read or written */
	uint32_t peer_handle, tid_gen; /* SEND after CTS, SERVE */
	uint16_t tid_cnt;              /* SEND: expected receive */
	struct hfi_tid *tids;          /* mem_free */
	uint32_t keys[OPX_IOV_MAX];    /* hfi_expose() of iov */
	uint8_t key_cnt;
	uint8_t *copy;                 /* injected or bounced payload; mem_free */
};

/* --- incoming messages -------------------------------------------------------------------------------------------- */

#define OPX_IN_SMALL 64u
enum opx_in_kind { OPX_IN_EAGER, OPX_IN_MP, OPX_IN_RZV };
struct opx_in {
	struct kit_ux ux;              /* while unexpected */
	LIST_ENTRY(opx_in) link;       /* peer->ins */
	struct opx_ep *ep;
	struct opx_peer *peer;
	uint8_t kind;                  /* enum opx_in_kind */
	bool discarded;                /* no receive wants it: taken to its end into nothing */
	uint8_t rts_flags;
	uint32_t psn;                  /* MP: of the first packet */
	uint32_t send_handle;          /* RZV */
	uint64_t len, got;             /* bytes of the message; arrived */
	uint64_t want;                 /* RZV: bytes asked for */
	struct kit_rx *krx;            /* the matched receive */
	bool is_copying;               /* cp runs */
	/* enum opx_status: it has failed, which is told when the copy into the receive has ended */
	uint8_t why;
	bool is_misplaced;             /* an expected packet named no entry of ours */
	struct opx_copy cp;            /* RTS_LOCAL */
	struct hfi_tid *tids;          /* expected receive; mem_free */
	uint16_t tid_cnt;
	uint64_t kept;                 /* counted in the peer's OPX_Q_KEPT */
	uint8_t *buf;                  /* EAGER, MP before the match: the bytes so far; small, or mem_free */
	uint8_t small[OPX_IN_SMALL];
};

/* --- peer --------------------------------------------------------------------------------------------------------- */

struct opx_lost { /* a peer's write by @handle to [.., @end) of region @key has failed, or a part of it */
	uint8_t why;       /* enum opx_status; 0: there is none */
	uint32_t handle;
	uint64_t key, end;
};

/* What a peer can make us keep, and how much of it: its own, and of the pool for all (opx_quota.c). */
enum opx_quota {
	OPX_Q_KEPT,   /* bytes of messages that had no receive when they came */
	OPX_Q_SERVED, /* its reads and writes that we carry out */
	OPX_Q_NUM
};
extern const struct quota_limit opx_limits[OPX_Q_NUM];

struct opx_peer {
	struct opx_flow flow;          /* first: hfi_dst_user() is the flow */
	struct opx_ep *ep;
	struct opx_peer *hnext;        /* ep->peer_tab */
	uint32_t uid;                  /* opx_addr_uid() */
	/* writes and atomics that nobody waits for, of a packet each: no more can be refused */
	uint64_t silent;
	fi_addr_t fi_addr;             /* source to report, as of av_gen */
	uint32_t av_gen;
	LIST_HEAD(, opx_op) ops;
	LIST_HEAD(, opx_in) ins;       /* MP and RZV in progress, unexpected ones included */
	LIST_HEAD(, opx_in) eager;     /* unexpected, complete */
	struct quota_user quota;       /* opx_quota.c */
	LIST_ENTRY(opx_peer) full;     /* ep->full, while flow.is_full */
	bool is_asked;                 /* a call was told to try again when the handshake is done */
	struct ahead ahead;            /* how often data of ours go unasked */
	struct opx_in *ahead_in;       /* its rendezvous that takes what comes unasked; NULL: none does */
	/* enum opx_status: the handshake failed at refusal_ns: the next call is told; 0 */
	uint8_t refusal;
	uint64_t refusal_ns;
	/* of writes in several packets the last one; [1]: of those whose data are still to be announced */
	struct opx_lost lost[2];
};

/* --- endpoint ----------------------------------------------------------------------------------------------------- */

struct opx_sep;
struct opx_ep {
	struct kit_ep kit;             /* kit.fid: the endpoint, or the receive context of a scalable one */
	struct fid_ep tx_fid;          /* scalable: the transmit context */
	struct opx_sep *sep;           /* NULL: a plain endpoint */
	int sep_index;
	pthread_mutex_t turn;          /* a plain one is enabled by one thread at a time. Taken before kit.lock */
	/* scalable: FI_TRANSMIT, FI_RECV: contexts that the application has open; that are enabled */
	uint64_t opened, on;
	struct opx_domain *domain;
	const uint8_t *may_go; /* not 0 there: data calls may go on; opx_ep_set_enabled() */
	LIST_ENTRY(opx_ep) domain_link;
	struct hfi *hfi;
	struct hfi_ctxt *hw;           /* NULL until enabled */
	struct opx_rel *rel;
	struct opx_addr self;
	struct kit_srx srx;
	struct opx_av *av;             /* of kit.av */
	struct opx_peer **peer_tab;    /* hash by uid */
	uint32_t peer_cnt, peer_mask;
	struct quota_book quota;       /* what peers have here: enum opx_quota */
	LIST_HEAD(, opx_peer) full;
	struct opx_peer **by_addr;     /* FI_AV_TABLE: cache by fi_addr */
	uint32_t by_addr_cap;
	struct slab peer_slab, op_slab, in_slab;
	TAILQ_HEAD(opx_pump, opx_op) pump;
	uint32_t pump_cnt;
	TAILQ_HEAD(opx_copies, opx_copy) copies; /* those that the copy service had no room for */
	bool need_doorbell;
	uint32_t holds;                /* who has it at hand and may let go of the lock, but for a poll and timers */
	int timer_fd;                  /* opx_wait.c */
	uint64_t timer_ns;             /* when it is due; 0: never */
	/* FI_PROGRESS_AUTO: its threads sleep for long: the application's next poll kicks them */
	bool is_dozing;
	uint32_t driven;               /* how often the application has polled */
	uint32_t mtu;                  /* payload of a packet */
	size_t eager_max;              /* one packet, for which rzv_min may be too low: */
	size_t packet_max;             /* then a message in one packet is shorter */
	size_t mp_max;                 /* multi-packet eager up to here; < packet_max: none */
	size_t rzv_min, sdma_min, bounce_max; /* SIZE_MAX: no SDMA */
	bool use_tid;
	struct opx_stats stats;
};

/* An endpoint's fid, or the fid of a scalable one's transmit context. */
static inline struct opx_ep *opx_ep_of(struct fid_ep *fid)
{
	return unlikely(fid->fid.fclass == FI_CLASS_TX_CTX) ? container_of(fid, struct opx_ep, tx_fid)
							    : container_of(fid, struct opx_ep, kit.fid);
}
int opx_ep_not_live(const struct opx_ep *ep);
/** opx_ep_set_enabled() - ep->kit.enabled, and what follows from it. Lock held, or nobody else has @ep yet. */
void opx_ep_set_enabled(struct opx_ep *ep, bool on);
/** opx_ep_state() - May data calls go on? 0; -FI_EOPBADSTATE not enabled; -FI_EIO in a child after fork. */
static inline int opx_ep_state(const struct opx_ep *ep)
{
	return likely(*ep->may_go) ? 0 : opx_ep_not_live(ep);
}

/** opx_mtu() - Payload of our packets where the port's MTU is @mtu: a power of two, at most HFI_MTU. */
static inline uint32_t opx_mtu(uint32_t mtu) { return 1u << (31 - __builtin_clz(MIN(mtu, HFI_MTU))); }

struct opx_sep {
	struct kit_ep kit;             /* never progressed: the contexts are */
	struct opx_domain *domain;
	int cnt;                       /* contexts */
	struct opx_ep *ep[OPX_SEP_MAX];
	/* one context is opened, enabled or closed at a time: they share HFI contexts. Taken before kit.lock */
	pthread_mutex_t turn;
};

/* opx_ep.c, opx_sep.c */
int opx_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int opx_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context);
int opx_ep_progress(struct kit_ep *kep); /* the application polls */
int opx_ep_drive(struct opx_ep *ep);     /* the same by whoever else does. Lock held. Return: events */
void opx_ep_kick(const struct opx_ep *ep); /* to the threads that drive it: look again */
int opx_ep_init(struct opx_ep *ep, struct opx_domain *d, struct fi_info *info, void *context);
void opx_ep_fini(struct opx_ep *ep); /* stopped */
void opx_ep_stop(struct opx_ep *ep); /* drains, drops receives, closes the context. Lock held; drops and retakes it */
/**
 * opx_ep_settle() - Hiding memory from a stopped process lets go of the lock in the middle of a pass: wait for who
 * comes back to @ep from there. As opx_ep_stop().
 */
void opx_ep_settle(struct opx_ep *ep);
/* lets what is unacknowledged go on, for the room's linger at most. As opx_ep_stop() */
void opx_ep_drain(struct opx_ep *ep);
/** opx_turn_take() - @turn, of an endpoint. False: in a forked child, where somebody else's would last for ever. */
bool opx_turn_take(struct opx_domain *d, pthread_mutex_t *turn);
/** opx_ep_bind_check() - opx's own rules before kit_ep_bind(). 0; -FI_EINVAL (logged). */
int opx_ep_bind_check(struct opx_ep *ep, struct fid *bfid);
/**
 * opx_ep_cq_check() - Has @ep the CQs that directions @dirs (FI_TRANSMIT, FI_RECV) of its capabilities need? A missing
 * receive CQ is the transmit CQ.
 */
int opx_ep_cq_check(struct opx_ep *ep, uint64_t dirs);
ssize_t opx_ep_cancel(struct opx_ep *ep, void *context);
int opx_ep_name(const struct opx_addr *self, void *addr, size_t *addrlen);
int opx_ep_getopt(struct opx_ep *ep, int level, int name, void *val, size_t *len);
int opx_ep_setopt(struct opx_ep *ep, int level, int name, const void *val, size_t len);
/* opx_wait.c: sleeping on an endpoint */
void opx_wait_init(struct opx_ep *ep);
void opx_wait_fini(struct opx_ep *ep);
/* Of struct kit_ep. An endpoint that is not enabled has nothing to wait for. */
int opx_wait_fd(struct kit_ep *kep, unsigned i);
int opx_wait_arm(struct kit_ep *kep);
/* opx_ctxt.c: the hardware contexts of endpoints */
/**
 * opx_ctxt_open() - Contexts with consecutive numbers for @eps, on the unit that FI_OPX_HFI_SELECT or the default logic
 * chooses. Not under the lock. They are ready for traffic. Return: 0; -FI_EBUSY, whatever the reason, which is logged.
 */
int opx_ctxt_open(struct opx_ep **eps, int cnt);
/**
 * opx_ctxt_reopen() - After opx_ctxt_stop() of a scalable endpoint's: the context with the same number, as peers know
 * it. Errors as opx_ctxt_open().
 */
int opx_ctxt_reopen(struct opx_ep *ep);
void opx_ctxt_stop(struct opx_ep *ep); /* undoes it: all that is on its way is lost. Lock held; drops and retakes it */
/* opx_auto.c: the thread of a completion queue */
struct opx_auto;
/** opx_auto_start() - Drive the endpoints bound to @cq from now on. 0; -errno, logged. */
int opx_auto_start(struct opx_domain *d, struct kit_cq *cq, struct opx_auto **out);
/** opx_auto_stop() - Not under the lock. @has_thread: not in a child after fork. */
void opx_auto_stop(struct opx_auto *a, bool has_thread);
/** opx_auto_kick() - Whatever it sleeps on: look again. */
void opx_auto_kick(struct opx_auto *a);
/* opx_quota.c */
/** opx_quota_add() - @peer has @n more here; who has more than it may is not heard further (opx_flow_full()). */
void opx_quota_add(struct opx_peer *peer, enum opx_quota q, uint64_t n);
void opx_quota_put(struct opx_peer *peer, enum opx_quota q, uint64_t n);

/* opx_cq.c */
void opx_cq_kick(struct kit_cq *cq); /* to its thread, if it has one; NULL: no queue */
int opx_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
int opx_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
/* opx_info.c, opx_prov.c, opx_select.c */
int opx_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		struct fi_info **info);
int opx_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
/* Where the caller runs, for opx_select_unit(); tests bring their own. numa_node, numa_max -1: not known. */
struct opx_where { int cpu, numa_node, cpu_cnt, numa_max; };
void opx_where_now(struct opx_where *w);
#define OPX_UNIT_DEFAULT HFI_UNIT_MAX /* "default" matched: opx_select_default() */
/**
 * opx_select_unit() - FI_OPX_HFI_SELECT: the unit for a context opened by a caller at @w. @units: attributes of all,
 * @cnt of them.
 * Return: unit, or OPX_UNIT_DEFAULT; -FI_EINVAL syntax, or a node or core that there is not; -FI_ENODEV unit absent or
 * not ACTIVE, or no selector matches; one sentence in @err.
 */
int opx_select_unit(const char *text, const struct opx_where *w, const struct hfi_unit_attr *units, int cnt, char *err,
		    size_t err_len);
/**
 * opx_select_default() - The default logic: ACTIVE units in the order in which to try them: @first if it is one, then
 * near ones before far ones, then those with more of @free contexts. @order: room for @cnt. Return: how many.
 */
int opx_select_default(const struct opx_where *w, const struct hfi_unit_attr *units, const int *free, int cnt,
		       int first, int *order);
/** opx_unit_of() - Unit of a domain's name, ib<unit> or hfi1_<unit>; -1 it is none. */
int opx_unit_of(const char *name);
/** opx_addr_unbound() - The address of an endpoint that has none yet. */
struct opx_addr opx_addr_unbound(void);
bool opx_addr_ok(const struct opx_addr *a);

/* opx_peer.c */
/** opx_peer_get() - The peer that @fi_addr names, made on first use. NULL: no such address, or no memory. Lock held. */
struct opx_peer *opx_peer_get(struct opx_ep *ep, fi_addr_t fi_addr);
/** opx_peer_known() - The same, if it has been asked for before. NULL: ask opx_peer_find(). */
static inline struct opx_peer *opx_peer_known(const struct opx_ep *ep, fi_addr_t fi_addr)
{
	return likely(fi_addr < ep->by_addr_cap) ? ep->by_addr[fi_addr] : NULL;
}
static inline struct opx_peer *opx_peer_find(struct opx_ep *ep, fi_addr_t fi_addr)
{
	struct opx_peer *p = opx_peer_known(ep, fi_addr);

	return likely(p != NULL) ? p : opx_peer_get(ep, fi_addr);
}
/**
 * opx_peer_open() - Before the first packet of a call to a flow that is not OPEN. Return: 0; -FI_EAGAIN; else why there
 * is nobody: also if that became known between two calls.
 */
int opx_peer_open(struct opx_peer *peer);
/**
 * opx_peer_uid() - The source that a directed receive from @fi_addr matches; MT_ANY_SRC for FI_ADDR_UNSPEC; 0: no such
 * address. Lock held.
 */
uint64_t opx_peer_uid(struct opx_ep *ep, fi_addr_t fi_addr);
/** opx_peer_name() - What to report as the source of @peer's messages. */
static inline fi_addr_t opx_peer_name(struct opx_peer *peer);
fi_addr_t opx_peer_name_look(struct opx_peer *peer);
static inline fi_addr_t opx_peer_name(struct opx_peer *peer)
{
	return likely(peer->av_gen == peer->ep->av->gen) ? peer->fi_addr : opx_peer_name_look(peer);
}
/** opx_peers_forget() - AV entry @fi_addr goes: the caches forget it. */
void opx_peers_forget(struct opx_ep *ep, fi_addr_t fi_addr);
int opx_peers_init(struct opx_ep *ep);   /* after the context is open: slabs, tables, the reliability */
void opx_peers_fini(struct opx_ep *ep);  /* drops everything without completions */
/**
 * opx_peers_leave() - What @ep has under way in direction @dir (FI_TRANSMIT: operations; FI_RECV: messages that a
 * receive has taken) is to end with FI_ECANCELED, and with it the flows that it uses. Return: something has not yet.
 */
bool opx_peers_leave(struct opx_ep *ep, uint64_t dir);
extern const struct opx_rel_ops opx_peer_rel_ops;

/* opx_op.c: the life of outgoing operations */
/** opx_op_get() - NULL: no memory. In peer->ops. */
struct opx_op *opx_op_get(struct opx_peer *peer, enum opx_op_kind kind);
static inline uint32_t opx_op_handle(struct opx_op *op) { return slab_id(&op->ep->op_slab, op); }
/** opx_put_handle() - What the packets of a write name for their answer. */
static inline uint32_t opx_put_handle(struct opx_op *op)
{
	return op->has_data ? OPX_DATA_HANDLE : op->needs_done ? opx_op_handle(op) : OPX_NO_HANDLE;
}
/**
 * opx_fence() - FI_FENCE among @flags: may an operation to @peer begin? 0; -FI_EAGAIN earlier ones to it have not
 * ended.
 */
int opx_fence(const struct opx_peer *peer, uint64_t flags);
/** opx_op_find() - The live operation of @peer that handle @id from the wire names, or NULL. */
struct opx_op *opx_op_find(struct opx_peer *peer, uint32_t id);
/** opx_op_wait() - It waits for something of its peer: death must be noticed. Undone when it ends. */
void opx_op_wait(struct opx_op *op);
/** opx_op_pump() - It has packets to send: queue it and try now. */
void opx_op_pump(struct opx_op *op);
/** opx_op_check() - Complete it if nothing is missing; may free it. */
void opx_op_check(struct opx_op *op);
/** opx_op_fail() - End it for the user with an error entry, once, when no packet refers to its memory; may free it. */
void opx_op_fail(struct opx_op *op, int err, enum opx_status why);
/** opx_op_abandon() - It failed to start: gone without a completion. */
void opx_op_abandon(struct opx_op *op);
/** opx_op_expose() - hfi_expose() of op->iov with @rights; pieces for the wire. 0; -FI_EAGAIN. */
int opx_op_expose(struct opx_op *op, unsigned rights, struct opx_piece *out);
/** opx_op_take_copy() - Nothing of the transfer refers to the caller's memory from now on. 0; -FI_EAGAIN: no memory. */
int opx_op_take_copy(struct opx_op *op);
/**
 * opx_op_choose_path() - How the data packets of SEND and WRITE travel: PIO; SDMA from a bounce buffer; or SDMA from
 * the user's memory, complete when acknowledged.
 */
void opx_op_choose_path(struct opx_op *op);
/** opx_pump() - Drive all that wait for room. Return: packets posted. */
int opx_pump(struct opx_ep *ep);
/**
 * opx_data_send() - Post data packets of @op as far as the flow takes them, PIO or SDMA; sets op->sent. 0 all are
 * posted; -FI_EAGAIN; else terminal.
 */
int opx_data_send(struct opx_op *op);

/* opx_tx.c: FI_MSG and FI_TAGGED, sender's side */
/* In @flags FI_TAGGED says which kind it is, whatever the caller has said. */
struct opx_send {
	const struct iovec *iov; size_t iov_cnt; uint64_t len;
	uint64_t tag, data; void *context; uint64_t flags;
};
#define OPX_DONE_FLAGS (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)

static inline uint64_t opx_send_cq_flags(uint64_t flags)
{
	return FI_SEND | (flags & FI_TAGGED ? FI_TAGGED : FI_MSG);
}
/**
 * opx_first_hdr() - The header of a message's first packet; @untagged: its opcode if it had no tag; @aux: what it says
 * besides.
 */
static inline __attribute__((always_inline)) void opx_first_hdr(const struct opx_flow *f, struct hfi_hdr *h,
								uint8_t untagged, uint8_t aux, uint64_t flags,
								uint32_t data, uint64_t tag)
{
	opx_flow_hdr(f, h, (uint8_t)(untagged + (flags & FI_TAGGED ? OPX_TAGGED_BIT : 0)), aux, 0);
	h->tag = le64_put(tag);
	if (unlikely(flags & FI_REMOTE_CQ_DATA)) {
		h->aux |= OPX_AUX_DATA;
		h->imm = le32_put(data);
	}
}
/** opx_inject_hdr() - The same of a message whose bytes go into w; @head: opx_inject_head(). */
static inline __attribute__((always_inline)) void opx_inject_hdr(const struct opx_flow *f, struct hfi_hdr *h,
								 uint32_t head, const struct opx_send *s)
{
	opx_first_hdr(f, h, OPX_MSG_INJECT, (uint8_t)s->len, s->flags, (uint32_t)s->data, s->tag);
	if (head > HFI_HDR_CUT || s->len != sizeof(h->w[0])) /* the commonest length fills it */
		h->w[0] = le64_put(0);
	if (head > HFI_HDR_CUT)
		h->w[1] = le64_put(0);
}
/** opx_sent() - The message has left or is in the reliability's hands: the caller may reuse its memory. */
static inline __attribute__((always_inline)) void opx_sent(struct opx_ep *ep, void *context, uint64_t flags)
{
	if (!(flags & OPX_NO_CQE) && kit_tx_wants_cqe(&ep->kit, flags))
		kit_cq_push(ep->kit.tx_cq, context, opx_send_cq_flags(flags), 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
	if (unlikely(ep->kit.cntr[KIT_CNTR_SEND] != NULL))
		kit_cntr_add(ep->kit.cntr[KIT_CNTR_SEND], 1, 0);
}
/**
 * opx_send_packet() - A message of at most packet_max bytes, written where it will stay: the bytes in its header or
 * behind it. The flow is open. Return: as opx_send().
 */
int opx_send_packet(struct opx_peer *peer, const struct opx_send *s);
/** opx_send() - Choose the protocol and begin. 0; -FI_EAGAIN and other codes: nothing happened. Lock held. */
int opx_send(struct opx_peer *peer, const struct opx_send *s);
void opx_on_cts(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data);
void opx_on_done(struct opx_peer *peer, const struct hfi_hdr *h);
/** opx_take_tids() - The receiver's expected-receive entries, from a CTS. 0; -FI_EINVAL malformed; -FI_ENOMEM. */
int opx_take_tids(struct opx_op *op, const struct view *data, uint32_t cnt);
/** opx_refused() - @peer did not do what nobody waits for: an error entry without context. */
void opx_refused(struct opx_peer *peer, enum opx_status why);
/** opx_done_send() - Tell @peer that its operation @handle has ended. */
void opx_done_send(struct opx_peer *peer, uint32_t handle, enum opx_status st);

/* opx_rx.c, opx_rzv.c: receiver's side */
/* dispatch of all packets */
void opx_deliver(struct opx_flow *f, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type);
bool opx_place(void *ctx, struct opx_flow *f, const struct hfi_pkt *pkt);
extern const struct kit_srx_ops opx_srx_ops;
void opx_rzv_start(struct opx_in *in);     /* matched: fetch, or ask for it */
void opx_rzv_discard(struct opx_in *in);   /* no receive will take it: let the sender end; frees it */
void opx_rzv_on_rts(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data);
void opx_rzv_data(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type);
/** opx_in_get() - An incoming message as its header @h says, in peer->ins. NULL: no memory. */
struct opx_in *opx_in_get(struct opx_peer *peer, enum opx_in_kind kind, const struct hfi_hdr *h, uint64_t len);
void opx_in_put(struct opx_in *in);
/** opx_in_keep() - Nobody has posted a receive for it. Return: kept until somebody does; false: no memory. */
bool opx_in_keep(struct opx_in *in);
/**
 * opx_in_done() - All that was wanted is in the receive buffer: completion (FI_ETRUNC if there was more), and it is
 * freed.
 */
void opx_in_done(struct opx_in *in);
/**
 * opx_in_fail() - Error entry if it was matched, else nobody hears of it; and it is freed. Both when its copies have
 * ended.
 */
void opx_in_fail(struct opx_in *in, enum opx_status why);

/* opx_rma.c, opx_atomic.c, opx_target.c */
/** opx_rma_pump() - WRITE, READ: post what can be posted. 0 all is posted; -FI_EAGAIN; else terminal. */
int opx_rma_pump(struct opx_op *op);
void opx_mr_gone(struct opx_mr *mr);       /* it closes: nothing of ours touches its memory from now on */
void opx_on_put(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data);
void opx_on_get_request(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data);
void opx_on_get_data(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data);
void opx_on_rma(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data);    /* OPX_RMA */
void opx_on_atomic(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data); /* OPX_ATOMIC */
void opx_on_fetched(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data);

KIT_RECV_CALLS(opx);
/* _tx, _rx: of a context of a scalable endpoint, which only sends, or only receives. */
extern const struct fi_ops_msg opx_msg_ops, opx_msg_tx_ops, opx_msg_rx_ops;
extern const struct fi_ops_tagged opx_tagged_ops, opx_tagged_tx_ops, opx_tagged_rx_ops;
extern const struct fi_ops_rma opx_rma_ops;
extern const struct kit_atomic_ops opx_atomic_ops;
int opx_query_atomic(struct fid_domain *domain, enum fi_datatype dt, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags);

#endif
